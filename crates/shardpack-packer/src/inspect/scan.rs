//! Scan walks the samples of a foreign tar file: their components, what the first bytes of images say, their labels.
//!
//! Holds at all times: of a plain file only headers, labels and at most [`HEAD_BYTES`] of each image are read; a
//! compressed one is unpacked as it is read. Names are names: nothing is ever opened by one.

use std::{
    collections::{BTreeMap, VecDeque},
    fs::File,
    io::{self, BufReader},
    ops::ControlFlow,
    os::unix::fs::FileExt,
    path::Path,
};

use shardpack_format::{
    Error, Result,
    formats::{
        foreign::{Sequential, Skip},
        webdataset::{
            reader::{Ending, Member, MemberKind, Reader},
            samples::{self, ForeignSample, Grouper},
        },
    },
    image_header::{Header, SNIFF_BYTES},
};

use super::images::kind_of_extension;
use crate::sys;

/// Most bytes of an image that are read for its headers.
const HEAD_BYTES: usize = 64 << 10;
/// Enough for the headers of most images.
const FIRST_BYTES: usize = 4 << 10;
/// Longest label that is read; Python's `int` takes spaces around it.
const LABEL_BYTES: u64 = 64;

/// A sample of a foreign file.
pub(super) struct Scanned {
    /// Key, components, place.
    pub sample: ForeignSample,
    /// What the headers of the images among its components say.
    pub images: Vec<(usize, Header)>,
    /// What its `cls` says, if that is a number.
    pub label: Option<i64>,
}

impl Scanned {
    /// The first image: its extension, length in bytes and headers.
    pub fn image(&self) -> Option<(&[u8], u64, &Header)> {
        let (component, header) = self.images.first()?;
        let component = self.sample.components.get(*component)?;
        Some((last_extension(&component.extension), component.bytes, header))
    }
}

/// What is known of a foreign file beside its samples.
#[derive(Debug, Default)]
pub(super) struct FileFacts {
    /// Length of the file in bytes.
    pub bytes: u64,
    /// Where its end marker ends, in bytes of the unpacked file; as far as it could be read.
    pub content_bytes: u64,
    /// Whether it is compressed.
    pub is_compressed: bool,
    pub members: u64,
    pub plain_members: u64,
    pub dropped: BTreeMap<String, u64>,
    pub ending: Option<Ending>,
    pub has_trailing: bool,
    /// Why it could not be read to its end.
    pub problem: Option<Error>,
}

/// What is read of a member while the reader stands at it.
enum Look {
    Image(Header),
    Label(i64),
}

/// A file that can be walked, and where images can be looked into without disturbing that.
pub(super) struct Opened {
    reader: Reader<Box<dyn Skip>>,
    /// The same file again, if it is not compressed.
    aside: Option<File>,
    bytes: u64,
}

impl Opened {
    /// Opens `path`, whose first bytes tell how it is compressed.
    pub fn open(path: &Path) -> Result<Self> {
        let failed = |error: io::Error| sys::io_error("cannot open", path, error);
        let file = File::open(path).map_err(failed)?;
        let (meta, mut magic) = (file.metadata().map_err(failed)?, [0; 6]);
        if !meta.is_file() {
            return Err(Error::usage("not a regular file").in_file(path));
        }
        let read = file.read_at(&mut magic, 0).map_err(failed)?;
        let packed_with = match &magic[..read] {
            [0x1f, 0x8b, ..] => Some("gzip"),
            [b'B', b'Z', b'h', ..] => Some("bzip2"),
            [0xfd, b'7', b'z', b'X', b'Z', 0] => Some("xz"),
            _ => None,
        };
        if let Some(name) = packed_with {
            let what = format!("compressed with {name}: only plain tar files and zstd are read");
            return Err(Error::usage(what)
                .in_file(path)
                .help(format!("unpack it with {name} -dk and give what comes out")));
        }
        // A frame, or a skippable frame before it.
        let is_zstd = matches!(magic, [0x28, 0xb5, 0x2f, 0xfd, ..] | [0x50..=0x5f, 0x2a, 0x4d, 0x18, ..]);
        if is_zstd {
            let unpacked = zstd::Decoder::new(file).map_err(failed)?;
            let inner: Box<dyn Skip> = Box::new(Sequential(BufReader::new(unpacked)));
            return Ok(Self { reader: Reader::new(inner, None), aside: None, bytes: meta.len() });
        }
        let aside = file.try_clone().map_err(failed)?;
        let inner: Box<dyn Skip> = Box::new(BufReader::with_capacity(FIRST_BYTES, file));
        Ok(Self { reader: Reader::new(inner, Some(meta.len())), aside: Some(aside), bytes: meta.len() })
    }

    /// The next member.
    pub fn next(&mut self) -> Result<Option<Member>> {
        self.reader.next()
    }

    /// The data of the member that [`Opened::next`] gave last.
    pub fn data(&mut self, max: u64) -> Result<Vec<u8>> {
        let mut data = Vec::new();
        self.reader.read_data(&mut data, max).map(|()| data)
    }

    /// What the headers of the image that `member` holds say.
    fn image(&mut self, member: &Member) -> Result<Header> {
        let enough = |header: &Header, bytes: usize| header.width > 0 || bytes as u64 >= member.bytes;
        let Some(file) = &self.aside else {
            let mut head = Vec::new();
            self.reader.copy_data(&mut |piece| {
                let room = HEAD_BYTES - head.len();
                head.extend_from_slice(&piece[..piece.len().min(room)]);
            })?;
            return Ok(Header::of(&head));
        };
        let mut head = Vec::new();
        let mut header = Header::of(&head);
        for bytes in [FIRST_BYTES, HEAD_BYTES] {
            // No longer than the member, of which the reader knows that it is inside the file.
            head.resize(bytes.min(usize::try_from(member.bytes).unwrap_or(bytes)), 0);
            file.read_exact_at(&mut head, member.data_offset)
                .map_err(|error| Error::io("cannot read", error).at_byte(member.data_offset))?;
            header = Header::of(&head);
            if enough(&header, head.len()) || header.kind as u8 == 0 && head.len() >= SNIFF_BYTES {
                break;
            }
        }
        Ok(header)
    }
}

/// What comes after the last dot: `seg.png` is an image.
pub(super) fn last_extension(extension: &[u8]) -> &[u8] {
    extension.rsplit(|byte| *byte == b'.').next().unwrap_or(extension)
}

/// Whether images have this extension; `img` and `image` are some people's word for any.
pub(super) fn is_image(extension: &[u8]) -> bool {
    let last = last_extension(extension).to_ascii_lowercase();
    matches!(&*last, b"img" | b"image")
        || std::str::from_utf8(&last).is_ok_and(|last| kind_of_extension(last).is_some())
}

/// Tells `found` of each sample of the file in order, until it says to stop. What is wrong with the file is in what is
/// returned, and what was read before has been told.
///
/// # Errors
/// When the file cannot be opened, and the first of `found`.
pub(super) fn scan(path: &Path, found: &mut dyn FnMut(Scanned) -> Result<ControlFlow<()>>) -> Result<FileFacts> {
    let mut opened = Opened::open(path)?;
    let mut facts = FileFacts { bytes: opened.bytes, is_compressed: opened.aside.is_none(), ..FileFacts::default() };
    let mut grouper = Grouper::default();
    let mut seen: VecDeque<(u64, Look)> = VecDeque::new();
    loop {
        let member = match opened.next() {
            Ok(Some(member)) => member,
            Ok(None) => break,
            Err(error) => {
                facts.problem = Some(error.in_file(path));
                break;
            }
        };
        facts.members += 1;
        facts.plain_members += u64::from(member.plain);
        facts.content_bytes = member.data_offset + member.bytes.next_multiple_of(512);
        match look(&mut opened, &member) {
            Ok(Some(read)) => seen.push_back((member.data_offset, read)),
            Ok(None) => {}
            Err(error) => {
                facts.problem = Some(error.in_file(path));
                break;
            }
        }
        match grouper.add(member) {
            Ok(Some(sample)) => {
                if found(gather(sample, &mut seen))?.is_break() {
                    return Ok(facts);
                }
            }
            Ok(None) => {}
            Err(dropped) => *facts.dropped.entry(dropped.issue.to_string()).or_default() += 1,
        }
    }
    if let Some(sample) = grouper.finish() {
        let _ = found(gather(sample, &mut seen))?;
    }
    if facts.problem.is_none() {
        facts.ending = Some(opened.reader.ending());
        facts.has_trailing = opened.reader.trailing_offset().is_some();
        facts.content_bytes = if facts.is_compressed { opened.reader.end_offset() } else { facts.bytes };
    }
    Ok(facts)
}

fn look(opened: &mut Opened, member: &Member) -> Result<Option<Look>> {
    let extension = match samples::split(&member.name) {
        Some((_, extension)) if member.kind == MemberKind::File => extension,
        _ => return Ok(None),
    };
    if extension.eq_ignore_ascii_case(b"cls") && member.bytes <= LABEL_BYTES {
        let text = opened.data(LABEL_BYTES)?;
        return Ok(std::str::from_utf8(&text).ok().and_then(|text| text.trim().parse().ok()).map(Look::Label));
    }
    is_image(extension).then(|| opened.image(member).map(Look::Image)).transpose()
}

/// Puts together what was read of the components of a sample. Members come in order, and so do samples.
fn gather(sample: ForeignSample, seen: &mut VecDeque<(u64, Look)>) -> Scanned {
    let (mut images, mut label) = (Vec::new(), None);
    for (number, component) in sample.components.iter().enumerate() {
        // What comes before belongs to members that are in no sample.
        while seen.front().is_some_and(|(offset, _)| *offset < component.offset) {
            seen.pop_front();
        }
        if let Some((_, read)) = seen.pop_front_if(|(offset, _)| *offset == component.offset) {
            match read {
                Look::Image(header) => images.push((number, header)),
                Look::Label(number) => label = Some(number),
            }
        }
    }
    Scanned { sample, images, label }
}

//! Scans a tar file by member. For a plain file, only member headers, labels and image headers are read.

use std::{collections::VecDeque, io::BufReader};

use shardpack_format::{
    Error, Result,
    formats::{
        foreign::{Skip, Wanted, whole},
        webdataset::{
            image_of,
            reader::{Ending, Member, MemberKind, Reader},
            samples::{self, ForeignSample, Grouper},
            {is_lost, is_named_image},
        },
    },
    image_header::{Header, Kind, SNIFF_BYTES},
    regular,
};

use super::{FIRST_BYTES, FileFacts, Found, HEAD_BYTES, Heads, Picture, Scanned};
use crate::{foreign::ShardFile, inspect::Tar, sys};

/// Maximum length in bytes of a label; Python's `int` accepts surrounding spaces.
const LABEL_BYTES: u64 = 64;

/// Content read at a member.
enum Look {
    Image(Header),
    Label(i64),
}

/// A file to walk, with a second handle for image headers.
pub(in crate::inspect) struct Opened {
    reader: Reader<Box<dyn Skip>>,
    /// A second handle of the same file, if it is not compressed.
    heads: Option<Heads>,
}

impl Opened {
    pub fn open(file: &ShardFile) -> Result<Self> {
        let Some(heads) = Heads::open(file)? else {
            let input = file.input()?;
            return Ok(Self { reader: Reader::new(input.bytes, input.total_bytes), heads: None });
        };
        let opened = regular::open(&file.path).map_err(|error| sys::io_error("cannot open", &file.path, error))?;
        // A small buffer: most data after a header is skipped.
        let inner: Box<dyn Skip> = Box::new(BufReader::with_capacity(FIRST_BYTES, opened));
        Ok(Self { reader: Reader::new(inner, Some(file.bytes)), heads: Some(heads) })
    }

    /// The next member.
    pub fn next(&mut self) -> Result<Option<Member>> {
        self.reader.next()
    }

    /// The data of the member that [`Opened::next`] returned last.
    pub fn data(&mut self, max: u64) -> Result<Vec<u8>> {
        let mut data = Vec::new();
        self.reader.read_data(&mut data, max).map(|()| data)
    }

    /// Parses the header of the image in `member`.
    fn image(&mut self, member: &Member) -> Result<Header> {
        if let Some(heads) = &self.heads {
            // The reader has checked that the member lies inside the file.
            return heads.header(member.data_offset, member.bytes);
        }
        let mut head = Vec::new();
        self.reader.copy_data(&mut |piece| {
            let room = HEAD_BYTES - head.len();
            head.extend_from_slice(&piece[..piece.len().min(room)]);
        })?;
        Ok(Header::of(&head))
    }
}

/// The part after the last dot: `seg.png` is an image.
fn last_extension(extension: &[u8]) -> &[u8] {
    extension.rsplit(|byte| *byte == b'.').next().unwrap_or(extension)
}

/// Whether this is an image extension; some writers use `img` and `image` for any kind.
pub(in crate::inspect) fn is_image(extension: &[u8]) -> bool {
    let last = last_extension(extension).to_ascii_lowercase();
    matches!(&*last, b"img" | b"image")
        || std::str::from_utf8(&last).is_ok_and(|last| Kind::of_extension(last).is_some())
}

/// Whether readers take a member with this extension as the label.
fn is_label(extension: &[u8]) -> bool {
    matches!(extension, b"cls" | b"label")
}

/// See [`super::scan`].
pub(super) fn scan(file: &ShardFile, found: &mut Found<'_>) -> Result<FileFacts> {
    let mut opened = Opened::open(file)?;
    let (mut facts, mut tar) = (FileFacts::default(), Tar::default());
    let mut grouper = Grouper::default();
    let (mut lost, mut first_lost, mut lacking, mut first_lacking) = (0u64, None, 0u64, None);
    let (mut several, mut first_several) = (0u64, None);
    // Samples with images, and samples without an image that hold other files.
    let (mut with_images, mut of_files) = (0u64, 0u64);
    let mut counted = |sample: ForeignSample, seen: &mut VecDeque<(u64, Look)>| {
        let images = sample.components.iter().filter(|component| is_named_image(&component.extension)).count();
        let error = |what: &str| {
            Error::data(what).at_byte(sample.offset).in_sample(String::from_utf8_lossy(&sample.key).into_owned())
        };
        with_images += u64::from(images > 0);
        if images == 0 {
            lacking += 1;
            of_files += u64::from(sample.components.iter().any(|component| !is_label(&component.extension)));
            first_lacking.get_or_insert_with(|| error("holds no image"));
        } else if let Err(why) = image_of(&sample.components, &Wanted::default()) {
            several += 1;
            first_several.get_or_insert_with(|| error(&why));
        }
        gather(sample, seen)
    };
    let mut seen: VecDeque<(u64, Look)> = VecDeque::new();
    loop {
        let member = match opened.next() {
            Ok(Some(member)) => member,
            Ok(None) => break,
            Err(error) => {
                facts.problem = Some(error);
                break;
            }
        };
        tar.members += 1;
        tar.plain_members += u64::from(member.plain);
        facts.content_bytes = member.data_offset + member.bytes.next_multiple_of(512);
        match look(&mut opened, &member) {
            Ok(Some(read)) => seen.push_back((member.data_offset, read)),
            Ok(None) => {}
            Err(error) => {
                facts.problem = Some(error);
                break;
            }
        }
        match grouper.add(member) {
            Ok(Some(sample)) => {
                if found(counted(sample, &mut seen))?.is_break() {
                    return Ok(facts);
                }
            }
            Ok(None) => {}
            Err(dropped) => {
                let mut first = Vec::new();
                // For a member with an image name the data is already read; then the name is enough.
                opened.reader.read_first(&mut first, SNIFF_BYTES as u64)?;
                if is_lost(&dropped, &first, grouper.current()) {
                    lost += 1;
                    first_lost.get_or_insert_with(|| Error::data(dropped.to_string()).at_byte(dropped.header_offset));
                }
                *tar.dropped.entry(dropped.issue.to_string()).or_default() += 1;
            }
        }
    }
    if let Some(sample) = grouper.finish() {
        // It is unknown which members of the last sample before damage are missing.
        let sample = if facts.problem.is_some() { gather(sample, &mut seen) } else { counted(sample, &mut seen) };
        let _ = found(sample)?;
    }
    match facts.problem.take() {
        Some(error) => {
            tar.unreadable_files = 1;
            facts.problem = Some(error.in_file(&file.path));
        }
        None => {
            tar.unterminated_files = u64::from(opened.reader.ending() != Ending::Marker);
            tar.trailing_files = u64::from(opened.reader.trailing_offset().is_some());
            facts.content_bytes = if file.is_plain() { file.bytes } else { opened.reader.end_offset() };
        }
    }
    if with_images == 0 && of_files == lacking {
        first_lacking = None;
    }
    for (first, all, said) in [
        (first_lost, lost, "members in this file are in no sample"),
        (first_lacking, lacking, "samples in this file hold no image"),
        (first_several, several, "samples in this file hold no image that can be distinguished from others"),
    ] {
        let first: Option<Error> = first;
        let first = first.map(|error| error.in_file(&file.path));
        facts.remarks.extend(first.map(|error| if all > 1 { error.and(&format!("{all} {said}")) } else { error }));
    }
    if facts.problem.is_none() {
        facts.remarks.extend(remarks_on_end(&opened, &tar).map(|error| error.in_file(&file.path)));
    }
    facts.tar = Some(tar);
    Ok(facts)
}

/// Remarks on the end of an archive that was read to its end.
fn remarks_on_end(opened: &Opened, tar: &Tar) -> impl Iterator<Item = Error> {
    let cut = "ends without two blocks of zeros: cut short?";
    let cut = (tar.unterminated_files > 0).then(|| Error::data(cut).at_byte(opened.reader.end_offset()));
    let more = "more bytes follow the end of the archive: readers do not see them";
    let more = opened.reader.trailing_offset().map(|at| Error::data(more).at_byte(at));
    cut.into_iter().chain(more)
}

fn look(opened: &mut Opened, member: &Member) -> Result<Option<Look>> {
    let extension = match samples::split(&member.name) {
        Some((_, extension)) if member.kind == MemberKind::File && !samples::is_meta(&member.name) => extension,
        _ => return Ok(None),
    };
    if extension.eq_ignore_ascii_case(b"cls") && member.bytes <= LABEL_BYTES {
        let text = opened.data(LABEL_BYTES)?;
        return Ok(whole(text.trim_ascii()).map(Look::Label));
    }
    is_image(extension).then(|| opened.image(member).map(Look::Image)).transpose()
}

/// Combines the data read for the components of a sample. Members and samples are both in file order.
fn gather(sample: ForeignSample, seen: &mut VecDeque<(u64, Look)>) -> Scanned {
    let (mut images, mut label) = (Vec::new(), None);
    for component in &sample.components {
        // Earlier data belongs to members that are in no sample.
        while seen.front().is_some_and(|(offset, _)| *offset < component.offset) {
            seen.pop_front();
        }
        if let Some((_, read)) = seen.pop_front_if(|(offset, _)| *offset == component.offset) {
            match read {
                Look::Image(header) => {
                    let extension = std::str::from_utf8(last_extension(&component.extension)).ok();
                    let extension = extension.map(str::to_owned);
                    images.push(Picture { extension, bytes: component.bytes, header });
                }
                Look::Label(number) => label = Some(number),
            }
        }
    }
    let name = |extension: Vec<u8>| match String::from_utf8(extension) {
        Ok(name) => name,
        Err(error) => String::from_utf8_lossy(error.as_bytes()).into_owned(),
    };
    let components = sample.components.into_iter().map(|component| (name(component.extension), component.bytes, None));
    Scanned {
        key: sample.key,
        offset: sample.offset,
        components: components.collect(),
        images,
        label,
        class: None,
        filename: None,
    }
}

//! Scans a tar file by member. For a plain file, only member headers, labels and image headers are read.

use std::collections::VecDeque;

use shardpack_format::{
    Error, Result,
    formats::{
        foreign::{FieldSelection, whole},
        webdataset::{
            image_of,
            reader::{Ending, Member, MemberKind},
            samples::{self, ForeignSample, Grouper},
            {is_lost, is_named_image},
        },
    },
    image_header::{Header, Kind, SNIFF_BYTES},
};

use super::{FileFacts, HEAD_BYTES, Heads, Picture, SampleCallback, Scanned, Tally};
use crate::{
    foreign::{Archive, ShardFile},
    inspect::Tar,
};

/// Maximum length in bytes of a label; Python's `int` accepts surrounding spaces.
const LABEL_BYTES: u64 = 64;

/// Content read at a member.
enum Look {
    Image(Header),
    Label(i64),
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
pub(super) fn scan(
    file: &ShardFile,
    mut archive: Archive,
    heads: Option<&Heads>,
    found: &mut SampleCallback<'_>,
) -> Result<FileFacts> {
    let (mut facts, mut tar) = (FileFacts::default(), Tar::default());
    let mut grouper = Grouper::default();
    let (mut lost, mut lacking, mut several) = (Tally::default(), Tally::default(), Tally::default());
    // Samples with images, and samples without an image that hold other files.
    let (mut with_images, mut of_files) = (0u64, 0u64);
    let mut counted = |sample: ForeignSample, seen: &mut VecDeque<(u64, Look)>| {
        let images = sample.components.iter().filter(|component| is_named_image(&component.extension)).count();
        let error = |what: &str| {
            Error::data(what).at_byte(sample.offset).in_sample(String::from_utf8_lossy(&sample.key).into_owned())
        };
        with_images += u64::from(images > 0);
        if images == 0 {
            of_files += u64::from(sample.components.iter().any(|component| !is_label(&component.extension)));
            lacking.add(|| error("holds no image"));
        } else if let Err(why) = image_of(&sample.components, &FieldSelection::default()) {
            several.add(|| error(&why));
        }
        gather(sample, seen)
    };
    let mut seen: VecDeque<(u64, Look)> = VecDeque::new();
    loop {
        let member = match archive.next() {
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
        match look(&mut archive, heads, &member) {
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
                archive.read_first(&mut first, SNIFF_BYTES as u64)?;
                if is_lost(&dropped, &first, grouper.current()) {
                    lost.add(|| Error::data(dropped.to_string()).at_byte(dropped.header_offset));
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
    if with_images == 0 && of_files == lacking.0 {
        lacking = Tally::default();
    }
    facts.remarks.extend(lost.problem(file, "members in this file are in no sample"));
    facts.remarks.extend(lacking.problem(file, "samples in this file hold no image"));
    let said = "samples in this file hold no image that can be distinguished from others";
    facts.remarks.extend(several.problem(file, said));
    match facts.problem.take() {
        Some(error) => {
            tar.unreadable_files = 1;
            facts.is_cut = true;
            facts.problem = Some(error.in_file(&file.path));
        }
        None => {
            let remark = |what: &str, at: u64| Error::data(what).at_byte(at).in_file(&file.path);
            if archive.ending() != Ending::Marker {
                tar.unterminated_files = 1;
                facts.remarks.push(remark("ends without two blocks of zeros: cut short?", archive.end_offset()));
            }
            if let Some(at) = archive.trailing_offset() {
                tar.trailing_files = 1;
                facts.remarks.push(remark("more bytes follow the end of the archive: readers do not see them", at));
            }
            facts.content_bytes = if file.is_plain() { file.bytes } else { archive.end_offset() };
        }
    }
    facts.tar = Some(tar);
    Ok(facts)
}

/// Reads the label, or the header of the image, of a member.
fn look(archive: &mut Archive, heads: Option<&Heads>, member: &Member) -> Result<Option<Look>> {
    let extension = match samples::split(&member.name) {
        Some((_, extension)) if member.kind == MemberKind::File && !samples::is_meta(&member.name) => extension,
        _ => return Ok(None),
    };
    if extension.eq_ignore_ascii_case(b"cls") && member.bytes <= LABEL_BYTES {
        let mut text = Vec::new();
        archive.read_data(&mut text, LABEL_BYTES)?;
        return Ok(whole(text.trim_ascii()).map(Look::Label));
    }
    if !is_image(extension) {
        return Ok(None);
    }
    if let Some(heads) = heads {
        // The reader has checked that the member lies inside the file.
        return heads.header(member.data_offset, member.bytes).map(|header| Some(Look::Image(header)));
    }
    let mut head = Vec::new();
    archive.copy_data(&mut |piece| {
        let room = HEAD_BYTES - head.len();
        head.extend_from_slice(&piece[..piece.len().min(room)]);
    })?;
    Ok(Some(Look::Image(Header::parse(&head))))
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

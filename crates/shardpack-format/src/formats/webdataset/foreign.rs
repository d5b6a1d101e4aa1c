//! Tar files of any writer as shards: a record is a sample as webdataset groups members.
//!
//! Holds at all times: a member is read only while the walk stands at it, so a file is read once, forwards; at most 1 MiB
//! is read from a member that is no image; a sample is returned when the member that ends it has been seen.

use std::{borrow::Cow, collections::BTreeMap};

use super::{
    escape::shown,
    header,
    reader::{Ending, Reader},
    samples::{Component, Dropped, ForeignSample, Grouper, Issue, split},
    texts::{Texts, Told},
};
use crate::{
    Error, Result,
    component::Form,
    formats::foreign::{FieldSelection, Foreign, Image, Input, Label, Other, Record, Skip, Walk},
    image_header::{Kind, SNIFF_BYTES},
    npy,
};

/// Most names that a message lists.
const LISTED: usize = 4;
/// Last part of extensions that are arrays.
const ARRAY: &[u8] = b"npy";
/// Last parts of extensions that are images.
const IMAGES: [&str; 17] = [
    "jpg", "jpeg", "png", "webp", "gif", "bmp", "tif", "tiff", "ppm", "pgm", "pnm", "avif", "heic", "jp2", "jxl",
    "img", "image",
];

/// Tar files, as shards of others.
pub(super) struct Tar;

impl Foreign for Tar {
    fn is(&self, first: &[u8], _: Option<u64>, name: &str) -> bool {
        let Some(block) = first.first_chunk::<{ header::BLOCK_BYTES }>() else { return false };
        if block.iter().all(|byte| *byte == 0) {
            // A tar without members is all zeros, as are other files: here the name has to help.
            return first.len() >= 2 * header::BLOCK_BYTES && first.iter().all(|byte| *byte == 0) && is_named_tar(name);
        }
        header::check_sum(block, 0).is_ok()
    }

    fn walk(&self, input: Input, wanted: &FieldSelection) -> Result<Box<dyn Walk>> {
        let lower = |name: &Option<String>| name.as_ref().map(|name| name.to_lowercase());
        Ok(Box::new(Samples {
            reader: Reader::new(input.bytes, input.total_bytes),
            grouper: Grouper::default(),
            // Extensions of samples are in lower case.
            wanted: FieldSelection { image: lower(&wanted.image), label: lower(&wanted.label), ..wanted.clone() },
            read: Read::default(),
            image: None,
            is_at_member: false,
            failed: None,
            is_over: false,
            twice: None,
            passed: BTreeMap::new(),
            ends: Vec::new(),
        }))
    }

    fn image<'r>(&self, fetched: &'r [u8], _: u32, _: &FieldSelection) -> Result<Cow<'r, [u8]>> {
        Ok(Cow::Borrowed(fetched))
    }
}

/// Whether a member outside every sample is a lost image, or breaks its sample, and must be reported by name. `first`
/// are the first bytes of its data; `current` is the sample before it.
pub fn is_lost(dropped: &Dropped, first: &[u8], current: Option<&ForeignSample>) -> bool {
    match dropped.issue {
        Issue::DuplicateExtension | Issue::Sparse => true,
        // Its content decides, because its name does not.
        Issue::NoExtension | Issue::Meta => Kind::detect(first) != Kind::Unknown,
        // There are no bytes to inspect. Its relation to the sample decides.
        Issue::Link | Issue::NotAFile => {
            let key = split(&dropped.name).map(|(key, _)| key);
            is_named_image(&dropped.name) && current.is_none_or(|sample| Some(&*sample.key) != key)
        }
        Issue::ReservedExtension | Issue::Hidden => false,
    }
}

fn is_named_tar(name: &str) -> bool {
    name.split('.').skip(1).any(|part| part == "tar")
}

/// The data read so far from the components of a sample.
#[derive(Default)]
struct Read {
    /// Offset of the data of the first image, and the data.
    image: Option<(u64, Vec<u8>)>,
    looked: Looked,
}

/// Parts of the components of a sample from which its record is made.
#[derive(Debug, Default)]
pub struct Looked {
    /// Its texts.
    pub texts: Texts,
    /// The forms of its arrays, each by the offset of its data.
    pub arrays: BTreeMap<u64, Form>,
}

struct Samples {
    reader: Reader<Box<dyn Skip>>,
    grouper: Grouper,
    wanted: FieldSelection,
    /// Of the sample that [`Grouper::current`] is.
    read: Read,
    /// The image of the record that was given last.
    image: Option<Vec<u8>>,
    /// Whether the reader stands at a member that began a sample and is not read yet.
    is_at_member: bool,
    /// The error that ends the walk, once the sample before it has been returned.
    failed: Option<Error>,
    is_over: bool,
    /// An extension that the sample has twice.
    twice: Option<Vec<u8>>,
    /// Members that are in no sample and that nobody misses.
    passed: BTreeMap<&'static str, u64>,
    /// Problems at the end of the file.
    ends: Vec<Error>,
}

impl Walk for Samples {
    fn next(&mut self) -> Result<Option<Record>> {
        // The buffer serves the next image.
        let buffer = self.image.take();
        if self.is_over {
            return Ok(None);
        }
        self.is_over = true;
        self.read_sample(buffer.unwrap_or_default())
    }

    fn image(&mut self, out: &mut Vec<u8>) -> Result<()> {
        let image = self.image.as_ref().ok_or_else(|| Error::usage("the last record has no image"))?;
        out.clear();
        out.extend_from_slice(image);
        Ok(())
    }

    fn first(&mut self, out: &mut Vec<u8>) -> Result<()> {
        out.clear();
        out.extend(self.image.iter().flatten().take(SNIFF_BYTES));
        Ok(())
    }

    fn lost(&mut self) -> Vec<Error> {
        std::mem::take(&mut self.ends)
    }

    fn passed(&self) -> BTreeMap<String, u64> {
        self.passed.iter().map(|(what, members)| ((*what).to_owned(), *members)).collect()
    }
}

impl Samples {
    /// The next sample; `buffer` is for its image. Where members cannot be followed further, those before are a sample.
    fn read_sample(&mut self, buffer: Vec<u8>) -> Result<Option<Record>> {
        if let Some(error) = self.failed.take() {
            return Err(error);
        }
        let read = self.read_members(buffer);
        let Err(error) = read else { return read };
        let Some(mut sample) = std::mem::take(&mut self.grouper).finish() else { return Err(error) };
        // The last component may be the unreadable one.
        sample.components.pop_if(|last| self.reader.position() < last.offset + last.bytes);
        if sample.components.is_empty() {
            return Err(error);
        }
        (self.failed, self.is_over) = (Some(error), false);
        Ok(Some(self.record(sample)))
    }

    fn read_members(&mut self, mut buffer: Vec<u8>) -> Result<Option<Record>> {
        if std::mem::take(&mut self.is_at_member) {
            self.read_component(&mut buffer)?;
        }
        while let Some(member) = self.reader.next()? {
            let data_offset = member.data_offset;
            match self.grouper.add(member) {
                Err(dropped) => {
                    let mut first = Vec::new();
                    self.reader.read_first(&mut first, SNIFF_BYTES as u64)?;
                    if is_lost(&dropped, &first, self.grouper.current()) {
                        self.is_over = false;
                        return Ok(Some(self.lost(dropped)));
                    }
                    *self.passed.entry(dropped.issue.counted_as()).or_default() += 1;
                }
                Ok(Some(sample)) => {
                    (self.is_at_member, self.is_over) = (true, false);
                    return Ok(Some(self.record(sample)));
                }
                // Folders and meta members are taken without being part of a sample.
                Ok(None) if self.last_component().is_some_and(|last| last.offset == data_offset) => {
                    self.read_component(&mut buffer)?;
                }
                Ok(None) => {}
            }
        }
        let end = self.reader.end_offset();
        let marker = match self.reader.ending() {
            Ending::Marker => None,
            Ending::OneBlock => Some("half an end marker: one block of zeros, not two"),
            Ending::Missing => Some("no end marker: it was written without one, or cut behind a member"),
        };
        self.ends.extend(marker.map(|what| Error::data(what).at_byte(end)));
        if let Some(offset) = self.reader.trailing_offset() {
            let what = format!("bytes behind the end marker at byte {end}, where no reader looks");
            self.ends.push(Error::data(what).at_byte(offset));
        }
        Ok(std::mem::take(&mut self.grouper).finish().map(|sample| self.record(sample)))
    }

    /// The record that [`Walk::next`] returns for a member outside every sample.
    fn lost(&mut self, dropped: Dropped) -> Record {
        if dropped.issue == Issue::DuplicateExtension {
            self.twice = split(&dropped.name).map(|(_, extension)| extension.to_ascii_lowercase());
        }
        Record {
            key: dropped.name,
            key_is_unique: true,
            is_damaged: dropped.issue == Issue::Sparse,
            ..Record::numbered(dropped.header_offset..dropped.end_offset, 0, dropped.issue.to_string())
        }
    }

    fn last_component(&self) -> Option<&Component> {
        self.grouper.current()?.components.last()
    }

    /// Reads the component that the reader stands at, if it is one that is looked at.
    fn read_component(&mut self, buffer: &mut Vec<u8>) -> Result<()> {
        let Some(Component { extension, offset, bytes }) = self.last_component().cloned() else { return Ok(()) };
        if self.read.image.is_none() && is_image(&extension, &self.wanted) && u32::try_from(bytes).is_ok() {
            let mut image = std::mem::take(buffer);
            self.reader.read_data(&mut image, bytes)?;
            self.read.image = Some((offset, image));
            return Ok(());
        }
        if let Some(text) = self.read.looked.texts.slot(&extension, bytes, &self.wanted) {
            return self.reader.read_data(text, bytes);
        }
        if is_array(&extension) {
            let mut first = Vec::new();
            self.reader.read_first(&mut first, bytes.min(npy::PLAIN_HEAD_BYTES as u64))?;
            self.read.looked.arrays.extend(Form::of_npy(&first, bytes).map(|form| (offset, form)));
        }
        Ok(())
    }

    /// The record that [`Walk::next`] returns for a sample, after all of its components have passed.
    fn record(&mut self, sample: ForeignSample) -> Record {
        let Read { image: read, mut looked } = std::mem::take(&mut self.read);
        let twice = self.twice.take();
        let is_of_files = twice.is_none() && self.wanted.image.is_none() && is_of_files(&sample.components);
        let image = match twice {
            // Which one is meant, nobody can say.
            Some(extension) => Err(format!("two components {}, at which webdataset fails", shown(&extension))),
            None => image_of(&sample.components, &self.wanted),
        };
        let record = record(sample, &mut looked, image, is_of_files, &self.wanted);
        let is_it = |offset: u64| record.image.as_ref().is_ok_and(|image| image.offset == offset);
        self.image = read.filter(|(offset, _)| is_it(*offset)).map(|(_, bytes)| bytes);
        record
    }
}

/// The record of a sample with this image, from the parts of its components that were read; `is_of_files` if its components are files
/// of any kind but images.
pub fn record(
    sample: ForeignSample,
    looked: &mut Looked,
    image: Result<Image, String>,
    is_of_files: bool,
    wanted: &FieldSelection,
) -> Record {
    let Told { label, component: label_component, member, class, filename } =
        looked.texts.parse(&sample.components, wanted);
    // For files that are no images, the number of files with a label field decides whether the field is a label.
    let member = member.filter(|_| !is_of_files).map(|member| format!("{member} in json"));
    let labels = usize::from(label != Label::Missing);
    let label = match wanted.label_number {
        Some(number) if number >= 1 && labels == 1 => {
            Label::Unfit(format!("a single label, there is no label {number}"))
        }
        _ => label,
    };
    let end = sample.components.last().map_or(sample.offset, |last| last.offset + last.bytes.next_multiple_of(512));
    let image_offset = image.as_ref().ok().map(|image| image.offset);
    let label_offset = label_component.map(|component| component.offset);
    // Without labels it is a component as all others are.
    let is_label = |component: &Component| label_offset == Some(component.offset) && !wanted.no_labels;
    let others = sample
        .components
        .iter()
        // Beside files it is one of the files, until the labels of all samples decide.
        .filter(|component| image_offset != Some(component.offset) && (is_of_files || !is_label(component)))
        .map(|component| {
            let Component { extension, offset, bytes } = component;
            let array = looked.arrays.remove(offset).filter(|_| !is_label(component));
            // Beside an image, files of other kinds are bytes without a form.
            let form = array.or((is_of_files && !is_label(component)).then_some(Form::Bytes));
            // Of an array, that of its items.
            let items = form.as_ref().and_then(Form::items_bytes).unwrap_or(*bytes);
            let offset = Some(offset + (bytes - items));
            Other { name: text(extension), bytes: *bytes, offset, recipe: 0, form }
        })
        .collect();
    Record {
        range: sample.offset..end,
        key: sample.key,
        key_is_unique: true,
        filename,
        class,
        label_name: label_component.map(|component| text(&component.extension)).or(member).unwrap_or_default(),
        label,
        labels,
        image,
        is_damaged: false,
        others,
    }
}

fn is_image(extension: &[u8], wanted: &FieldSelection) -> bool {
    match &wanted.image {
        Some(wanted) => extension == wanted.as_bytes(),
        None => is_named_image(extension),
    }
}

/// Whether the last part of a name or extension is that of an image.
pub fn is_named_image(name: &[u8]) -> bool {
    let last = last_part(name).to_ascii_lowercase();
    IMAGES.iter().any(|image| image.as_bytes() == last)
}

/// Whether files of this extension are arrays.
pub fn is_array(extension: &[u8]) -> bool {
    last_part(extension) == ARRAY
}

fn last_part(name: &[u8]) -> &[u8] {
    name.rsplit(|byte| *byte == b'.').next().unwrap_or_default()
}

/// Whether a sample of these components is files of any kind but images.
pub fn is_of_files(components: &[Component]) -> bool {
    !components.iter().any(|component| is_named_image(&component.extension))
}

/// The image of a sample with these components.
///
/// # Errors
/// That it has none, or several, which it names; or why the one cannot be had.
pub fn image_of(components: &[Component], wanted: &FieldSelection) -> Result<Image, String> {
    let images: Vec<_> = components.iter().filter(|component| is_image(&component.extension, wanted)).collect();
    match (images.as_slice(), &wanted.image) {
        ([image], _) => {
            let too_long = |_| format!("image of {} bytes: expected less than 4 GiB", image.bytes);
            Ok(Image {
                name: text(&image.extension),
                fetch: image.offset..image.offset + image.bytes,
                bytes: u32::try_from(image.bytes).map_err(too_long)?,
                offset: image.offset,
                in_parts: false,
                recipe: 0,
            })
        }
        ([], Some(wanted)) => Err(format!("no {wanted}, there is {}", listed(components.iter()))),
        ([], None) => Err(format!("no image, there is {}", listed(components.iter()))),
        (images, _) => {
            let names = listed(images.iter().copied());
            let has_dots = images.iter().all(|image| image.extension.contains(&b'.'));
            let dots = if has_dots { "; a key ends at the first dot of a file's name" } else { "" };
            Err(format!("{} images: {names}; choose one with --image-feature{dots}", images.len()))
        }
    }
}

/// Extensions for a message: `cls, jpg and json`.
fn listed<'a>(components: impl ExactSizeIterator<Item = &'a Component>) -> String {
    let all = components.len();
    let mut names: Vec<_> = components.take(LISTED).map(|component| shown(&component.extension)).collect();
    if all > LISTED {
        names.push(format!("{} more", all - LISTED));
    }
    match names.split_last() {
        Some((last, [])) => last.clone(),
        Some((last, names)) => format!("{} and {last}", names.join(", ")),
        None => "nothing".to_owned(),
    }
}

fn text(extension: &[u8]) -> String {
    String::from_utf8_lossy(extension).into_owned()
}

#[cfg(test)]
mod tests;

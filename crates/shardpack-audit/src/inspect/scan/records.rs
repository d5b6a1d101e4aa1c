//! Scans a file of records through the walk of its format.

use shardpack_format::{
    Error, ErrorKind, Result,
    formats::foreign::{Image, Record, Walk},
    image_header::Header,
    text,
};

use super::{FileFacts, HEAD_BYTES, Heads, Picture, SampleCallback, Scanned, Tally};
use crate::{foreign::ShardFile, monitor::Monitor};

/// Maximum length in bytes of a class name; longer text is not a class name.
const CLASS_BYTES: usize = 256;
/// Name for an image whose field has no name.
const IMAGE: &str = "image";

/// See [`super::scan`].
pub(super) fn scan(
    file: &ShardFile,
    heads: Option<&Heads>,
    monitor: &dyn Monitor,
    found: &mut SampleCallback<'_>,
) -> Result<FileFacts> {
    let mut walk = match file.walk(&file.own_selection(), &|| monitor.check_cancelled()) {
        Err(error) if error.kind() == ErrorKind::Interrupted => return Err(error),
        Ok(walk) => walk,
        Err(error) => return Ok(FileFacts { problem: Some(error), is_cut: true, ..FileFacts::default() }),
    };
    let mut facts = FileFacts { understood: walk.understood(), ..FileFacts::default() };
    // Records without an image, values among them, and records with an image.
    let (mut lacking, mut values, mut images) = (Tally::default(), 0, 0u64);
    let (mut bytes, mut samples) = (Vec::new(), 0);
    let ended = loop {
        let mut record = match walk.next() {
            Ok(Some(record)) => record,
            Ok(None) => break Ok(()),
            Err(error) => break Err(error),
        };
        samples += 1;
        facts.content_bytes = record.range.end;
        let header = match &record.image {
            Ok(image) => match header(&mut *walk, image, heads, &mut bytes) {
                Ok(header) => {
                    images += 1;
                    Some(header)
                }
                Err(error) => break Err(error),
            },
            Err(why) => {
                values += u64::from(record.has_values());
                let error = || match file.has_places() {
                    true => Error::data(why).at_byte(record.range.start),
                    false => Error::data(why),
                };
                lacking.add(|| error().in_sample(text::shown(&record.key).to_string()));
                None
            }
        };
        record.tell_numbers(walk.wider());
        if found(scanned(record, header))?.is_break() {
            return Ok(facts);
        }
    };
    let problem = match ended {
        Err(error) => {
            facts.is_cut = true;
            Some(error)
        }
        Ok(()) => {
            if file.is_plain() {
                facts.content_bytes = file.bytes;
            }
            facts.remarks =
                walk.remarks().into_iter().chain(walk.lost()).map(|remark| remark.in_file(&file.path)).collect();
            facts.remarks.extend(file.differing_samples(samples));
            // If no record has an image, samples are values.
            lacking.1.take().filter(|_| images > 0 || values < lacking.0)
        }
    };
    facts.problem = Tally(lacking.0, problem).problem(file, "records in this file have no image");
    Ok(facts)
}

fn header(walk: &mut dyn Walk, image: &Image, heads: Option<&Heads>, bytes: &mut Vec<u8>) -> Result<Header> {
    match heads.filter(|_| !image.in_parts) {
        Some(heads) => heads.header(image.offset, image.bytes.into()),
        None => {
            walk.image(bytes)?;
            Ok(Header::parse(&bytes[..bytes.len().min(HEAD_BYTES)]))
        }
    }
}

fn scanned(record: Record, header: Option<Header>) -> Scanned {
    let (mut components, mut images) = (Vec::new(), Vec::new());
    if let (Ok(image), Some(header)) = (record.image, header) {
        let name = if image.name.is_empty() { IMAGE.to_owned() } else { image.name };
        components.push((name, image.bytes.into(), None));
        images.push(Picture { extension: None, bytes: image.bytes.into(), header });
    }
    components.extend(record.others.into_iter().map(|other| (other.name, other.bytes, other.form)));
    let class = record.class.filter(|class| class.len() <= CLASS_BYTES);
    Scanned {
        key: record.key,
        offset: record.range.start,
        components,
        images,
        label: record.label.number(),
        class: class.map(|class| text::shown(&class).to_string()),
        filename: record.filename,
    }
}

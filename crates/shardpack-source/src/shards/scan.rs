//! Walks one file: locations, names and labels of its samples, and its problems.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use shardpack_format::{
    Error, ErrorKind, Result,
    formats::foreign::{FieldSelection, Label, Other, Record},
    hash,
    image_header::Kind,
};

use super::{
    super::{
        classes::{LabelInfo, Words},
        names,
        options::Options,
    },
    fields::Fields,
};
use crate::{
    foreign::{ShardFile, npz, offset_index::Index},
    monitor::Monitor,
};

/// Images inspected over all files to find the most common image kind.
pub(super) const LOOKS: usize = 512;
/// Maximum length of a key or file name in bytes; longer names are of no use to a reader.
const NAME_BYTES: usize = 4096;
/// Maximum number of distinct reasons; further reasons count as the last one.
const REASONS: usize = 64;
/// Maximum number of lost samples of a file that are counted one by one; the reason has the number of all.
const MAX_LOST: u64 = 1 << 16;
/// Samples between two progress reports.
const TELL: u64 = 256;

/// A sample that can be packed if its class can be determined.
pub(super) struct Row {
    pub said: LabelInfo,
    /// Start of the name in [`Scanned::names`] times 2^16, plus the length of the name.
    name: u64,
    /// Offset in the unpacked file of the bytes to fetch.
    pub offset: u64,
    pub fetch_bytes: u32,
    /// See [`shardpack_format::formats::foreign::Image::recipe`].
    pub recipe: u32,
    /// Length of the image in bytes.
    pub bytes: u32,
    /// End of the row's fields; they start at the end of the previous row's fields.
    pub fields_end: u64,
}

/// A record that cannot be packed, or bytes that cannot be read.
pub(super) struct Refused {
    pub name: Vec<u8>,
    pub said: Option<LabelInfo>,
    pub offset: u64,
    pub reason: String,
}

/// Result of walking one file.
#[derive(Default)]
pub(super) struct Scanned {
    pub rows: Vec<Row>,
    names: Vec<u8>,
    /// Samples without an image that have fields, and the index in [`Scanned::reasons`] of the reason why they have no image.
    pub values: Vec<(Row, u32)>,
    /// The fields of those samples; `value_others` counts the samples with each field.
    pub value_fields: Fields,
    pub value_others: BTreeMap<String, u64>,
    /// Reasons why records have no image.
    pub reasons: Vec<String>,
    /// Label fields of samples without an image, and the number of samples with each.
    pub labels: BTreeMap<String, u64>,
    pub refused: Vec<Refused>,
    pub words: Words,
    /// Class names, if the file has them.
    pub known: Vec<Vec<u8>>,
    pub kinds: BTreeMap<Kind, u64>,
    /// Fields besides image and label, and the number of records with each.
    pub others: BTreeMap<String, u64>,
    /// For a tar: the extensions of the files that hold those fields.
    pub files: BTreeSet<String>,
    /// Fields of the rows that may become components.
    pub fields: Fields,
    /// Entries that are not records, with counts.
    pub passed: BTreeMap<String, u64>,
    /// Number of images with several labels.
    pub several: u64,
    /// Names of the fields used as image or label.
    pub used: BTreeSet<String>,
    /// Remarks on the file as a whole.
    pub remarks: Vec<String>,
    /// Whether any part of the file is damaged.
    pub is_damaged: bool,
}

impl Scanned {
    /// Name of the sample in `row`.
    pub fn name(&self, row: &Row) -> &[u8] {
        // `row.name` was recorded when the name was stored, so both ends are in range.
        let start = row.name >> 16;
        &self.names[start as usize..(start + (row.name & 0xffff)) as usize]
    }
}

impl Scanned {
    /// Counts the fields of `record`; `are_files` if they are members of an archive.
    fn count_fields(&mut self, record: &Record, are_files: bool) {
        let others = if record.has_values() { &mut self.value_others } else { &mut self.others };
        for other in &record.others {
            match others.get_mut(&other.name) {
                Some(samples) => *samples += 1,
                None => drop(others.insert(other.name.clone(), 1)),
            }
            let extension = if other.recipe == 0 { &other.name } else { npz::EXTENSION };
            if are_files && !self.files.contains(extension) {
                self.files.insert(extension.to_owned());
            }
        }
        for field in [record.image.as_ref().map_or("", |image| image.name.as_str()), &record.label_name] {
            if !field.is_empty() && !self.used.contains(field) {
                self.used.insert(field.to_owned());
            }
        }
    }

    /// Compares `file`, in which `found` samples were found, with what the files beside it expect.
    ///
    /// # Errors
    /// If the file cannot be read, or the user cancels.
    fn compare(&mut self, file: &ShardFile, found: u64, monitor: &dyn Monitor) -> Result<()> {
        let mut differences: Vec<String> = file.differing_samples(found).iter().map(Error::what).collect();
        let compared = file.compare(false, &|| monitor.check_cancelled())?;
        self.remarks.extend(compared.notes);
        for error in compared.problems {
            match error.kind() {
                ErrorKind::Data => differences.push(error.what()),
                _ => return Err(error),
            }
        }
        if !differences.is_empty() {
            self.refuse_all(&differences.join("; "));
        }
        Ok(())
    }
}

/// Walks `file`, which has the display name `name`, and inspects its first `looks` images.
///
/// # Errors
/// If a requested field is missing, or the user cancels.
pub(super) fn scan(
    file: &ShardFile,
    name: &str,
    wanted: &FieldSelection,
    options: &Options,
    looks: usize,
    monitor: &dyn Monitor,
) -> Result<Scanned> {
    let mut scanned = Scanned::default();
    let opened = file.walk_arrays(wanted, &|| monitor.check_cancelled());
    let classes = || if wanted.no_labels { Ok(Vec::new()) } else { file.classes(wanted) };
    let (mut walk, known) = match opened.and_then(|walk| Ok((walk, classes()?))) {
        Ok(opened) => opened,
        Err(error) if error.kind() != ErrorKind::Data => return Err(error),
        Err(error) => {
            scanned.refuse_region(0, &error);
            return Ok(scanned);
        }
    };
    scanned.known = known;
    let (mut indexed, mut unlike) = (Indexed::open(file)?, Vec::new());
    let are_files = file.kind.has_member_names();
    scanned.value_fields.are_files = are_files;
    scanned.fields.are_beside = true;
    let (mut keys, mut of_system) = (HashMap::new(), 0);
    let (mut image, mut samples, mut bytes, mut looked) = (Vec::new(), 0, 0, 0);
    loop {
        let mut record = match walk.next() {
            Ok(Some(record)) => record,
            Ok(None) => {
                unlike = indexed.map_or(Ok(Vec::new()), |indexed| indexed.differences(file))?;
                break;
            }
            Err(error) if matches!(error.kind(), ErrorKind::System | ErrorKind::Interrupted) => {
                return Err(error.in_file(&file.path));
            }
            Err(error) => {
                scanned.refuse_region(error.location().byte.unwrap_or(0), &error);
                break;
            }
        };
        scanned.is_damaged |= record.is_damaged;
        if let Some(indexed) = &mut indexed {
            indexed.starts.push(record.range.start);
            indexed.end = record.range.end;
        }
        if are_files && names::is_of_system(&record.key) {
            of_system += 1;
            continue;
        }
        scanned.count_fields(&record, are_files);
        if wanted.no_labels {
            scanned.drop_label(&mut record);
        }
        let taken = scanned.take(&record, walk.wider(), name, &mut keys, options);
        if taken && looked < looks {
            looked += 1;
            if walk.image(&mut image).is_ok() {
                *scanned.kinds.entry(Kind::detect(&image)).or_default() += 1;
            }
        }
        samples += 1;
        bytes += record.range.end - record.range.start;
        if samples == TELL {
            monitor.advance(samples, bytes);
            (samples, bytes) = (0, 0);
            monitor.check_cancelled()?;
        }
    }
    monitor.advance(samples, bytes);
    scanned.remarks.extend(walk.notes());
    let found = (scanned.rows.len() + scanned.values.len() + scanned.refused.len()) as u64;
    let lost = walk.lost().into_iter().chain(unlike).collect::<Vec<_>>();
    scanned.refuse_lost(&lost, &walk.lost_records());
    for (what, entries) in walk.passed() {
        *scanned.passed.entry(what).or_default() += entries;
    }
    if of_system > 0 {
        *scanned.passed.entry("system".to_owned()).or_default() += of_system;
    }
    scanned.remarks.extend(walk.remarks().iter().map(ToString::to_string));
    if file.expected.is_some() {
        scanned.compare(file, found, monitor)?;
    }
    Ok(scanned)
}

/// The offset index of a file, and the start and end offsets of the records that were read.
struct Indexed {
    index: Index,
    starts: Vec<u64>,
    end: u64,
}

impl Indexed {
    /// Opens the index of `file`. At a URL only `verify` requests the index: a store may refuse to confirm that an object is missing.
    fn open(file: &ShardFile) -> Result<Option<Self>> {
        let index = if file.remote.is_some() { None } else { Index::open_beside(file)? };
        Ok(index.map(|index| Self { index, starts: Vec::new(), end: 0 }))
    }

    /// Compares the index with `file`, which was walked to its end; differences mean that records may be missing.
    fn differences(&self, file: &ShardFile) -> Result<Vec<Error>> {
        let name = self.index.path().file_name().unwrap_or_default().to_string_lossy();
        let differences = match self.index.differences(file, &self.starts, self.end) {
            Err(error) if error.kind() == ErrorKind::Data => vec![error.what()],
            found => found?,
        };
        Ok(differences.into_iter().map(|what| Error::data(format!("{name}: {what}"))).collect())
    }
}

impl Scanned {
    /// Removes the label of a record, and counts it unless a component holds it.
    fn drop_label(&mut self, record: &mut Record) {
        let (label, class) = (std::mem::replace(&mut record.label, Label::Missing), record.class.take());
        let name = &record.label_name;
        // Readers rename a component `label` or `cls` to `labels`.
        let is_renamed = ["label", "cls"].contains(&&*name.to_lowercase());
        let is_it = |other: &Other| other.name == *name || is_renamed && other.name == "labels";
        if label == Label::Missing || name.is_empty() || record.others.iter().any(is_it) {
            return;
        }
        *self.passed.entry(format!("component {name}")).or_default() += 1;
        if class.is_some() {
            *self.passed.entry("name of a class".to_owned()).or_default() += 1;
        }
    }

    /// Adds a record; returns whether it can be packed. `wider` is the value of [`shardpack_format::formats::foreign::Walk::wider`].
    fn take(
        &mut self,
        record: &Record,
        wider: &[Option<u32>],
        file: &str,
        keys: &mut HashMap<u128, u64>,
        options: &Options,
    ) -> bool {
        let offset = record.range.start;
        let name = name_of(record, file);
        // If a file name starts with its class folder, as in an ImageFolder, all samples of that label have the same folder.
        let folder = || record.filename.as_deref()?.split(|byte| *byte == b'/').next().filter(|first| *first != name);
        let called = record.label.number().and_then(|_| folder());
        let said = self.words.said(&record.label, record.class.as_deref(), called);
        let is_value = record.has_values();
        let reason = match (&record.image, &said) {
            (Err(_), _) if is_value => {
                u32::try_from(self.fetched(record)).map_err(|_| "a record of 4 GiB or more".to_owned())
            }
            (Err(reason), _) => Err(reason.clone()),
            (Ok(image), _) if image.bytes == 0 => Err("empty image".to_owned()),
            (Ok(_), Err(reason)) => Err(reason.clone()),
            (Ok(image), Ok(_)) => {
                u32::try_from(image.fetch.end - image.fetch.start).map_err(|_| "a record of 4 GiB or more".to_owned())
            }
        };
        let reason = reason.and_then(|fetch_bytes| {
            if record.key.len() > NAME_BYTES {
                return Err(format!("a key of {} bytes", record.key.len()));
            }
            if !record.key_is_unique {
                return Ok(fetch_bytes);
            }
            match keys.insert(hash::content(&record.key), offset) {
                Some(first) if self.value_fields.are_files => Err(format!(
                    "its key stands at byte {first} already: tar --sort=name puts files of one key together"
                )),
                Some(first) => Err(format!("its key stands at byte {first} already")),
                None => Ok(fetch_bytes),
            }
        });
        match (&record.image, reason, &said) {
            (Ok(image), Ok(fetch_bytes), Ok(said)) => {
                self.several += u64::from(record.labels > 1);
                let name_at = (self.names.len() as u64) << 16 | name.len() as u64;
                self.names.extend_from_slice(&name);
                self.rows.push(Row {
                    said: *said,
                    name: name_at,
                    offset: image.fetch.start,
                    fetch_bytes,
                    recipe: image.recipe,
                    bytes: image.bytes,
                    fields_end: self.fields.take(&record.others, wider, options),
                });
                true
            }
            (Err(why), Ok(fetch_bytes), said) if is_value => {
                let name_at = (self.names.len() as u64) << 16 | name.len() as u64;
                self.names.extend_from_slice(&name);
                if !record.label_name.is_empty() && said.is_ok() {
                    *self.labels.entry(record.label_name.clone()).or_default() += 1;
                }
                let reason = match self.reasons.iter().position(|known| known == why) {
                    Some(known) => known,
                    None if self.reasons.len() == REASONS => REASONS - 1,
                    None => {
                        self.reasons.push(why.clone());
                        self.reasons.len() - 1
                    }
                };
                let row = Row {
                    said: said.as_ref().ok().copied().unwrap_or(LabelInfo::NOTHING),
                    name: name_at,
                    offset,
                    fetch_bytes,
                    recipe: 0,
                    bytes: 0,
                    fields_end: self.value_fields.take(&record.others, wider, options),
                };
                self.values.push((row, reason as u32));
                false
            }
            (_, reason, _) => {
                let reason = reason.err().unwrap_or_default();
                self.refused.push(Refused { name, said: said.ok(), offset, reason });
                false
            }
        }
    }

    /// Length in bytes of the data that a record's values are decoded from, if they are decoded from the whole record; otherwise 0.
    fn fetched(&self, record: &Record) -> u64 {
        let is_made = |other: &&Other| other.recipe != 0 && !self.value_fields.are_files;
        let made = record.others.iter().filter(is_made).filter_map(|other| other.offset);
        made.min().map_or(0, |start| record.range.end.saturating_sub(start))
    }

    /// Turns the samples without an image into rows.
    pub fn take_values(&mut self) {
        self.rows = std::mem::take(&mut self.values).into_iter().map(|(row, _)| row).collect();
        self.fields = std::mem::take(&mut self.value_fields);
        for (name, samples) in std::mem::take(&mut self.value_others) {
            *self.others.entry(name).or_default() += samples;
        }
    }

    /// Refuses the samples without an image, because other samples have one.
    pub fn refuse_values(&mut self) {
        if self.value_fields.are_files {
            for (name, samples) in std::mem::take(&mut self.value_others) {
                *self.others.entry(name).or_default() += samples;
            }
        }
        for (row, reason) in std::mem::take(&mut self.values) {
            let name = self.name(&row).to_vec();
            let reason = self.reasons.get(reason as usize).cloned().unwrap_or_default();
            self.refused.push(Refused { name, said: Some(row.said), offset: row.offset, reason });
        }
    }

    /// Reports that nothing can be read from `offset` on.
    fn refuse_region(&mut self, offset: u64, error: &Error) {
        self.refuse_at(offset, format!("cannot be read from here on: {}", error.what()));
    }

    /// Reports a problem at `offset` that affects an unknown number of samples.
    fn refuse_at(&mut self, offset: u64, reason: String) {
        self.is_damaged = true;
        self.refused.push(Refused { name: format!("@{offset}").into_bytes(), said: None, offset, reason });
    }

    /// Reports missing or unreadable items, each under its own name; errors stand for as many as `counts` has, or for one each. Damage
    /// that takes no item is a remark.
    fn refuse_lost(&mut self, lost: &[Error], counts: &[u64]) {
        self.is_damaged |= !lost.is_empty();
        let mut number = 0;
        for (at, error) in lost.iter().enumerate() {
            let count = counts.get(at).copied().unwrap_or(1);
            if count == 0 {
                self.remarks.push(error.what());
            }
            let offset = error.location().byte.unwrap_or(0);
            for _ in 0..count.min(MAX_LOST.saturating_sub(number).max(1)) {
                let name = if number == 0 { format!("@{offset}") } else { format!("@{offset}-{number}") };
                self.refused.push(Refused { name: name.into_bytes(), said: None, offset, reason: error.what() });
                number += 1;
            }
        }
    }

    /// Refuses all samples: the file is not as expected, and it is unknown which samples are right.
    fn refuse_all(&mut self, reason: &str) {
        self.is_damaged = true;
        let names = std::mem::take(&mut self.names);
        let values = std::mem::take(&mut self.values).into_iter().map(|(row, _)| row);
        let rows: Vec<_> = std::mem::take(&mut self.rows).into_iter().chain(values).collect();
        if rows.is_empty() {
            self.refuse_at(0, reason.to_owned());
        }
        for row in rows {
            let start = (row.name >> 16) as usize;
            let name = names[start..start + (row.name & 0xffff) as usize].to_vec();
            self.refused.push(Refused { name, said: Some(row.said), offset: row.offset, reason: reason.to_owned() });
        }
    }
}

/// Name of a sample: the record's file name, else its key, else the file and record number.
fn name_of(record: &Record, file: &str) -> Vec<u8> {
    let filename = record.filename.as_deref().filter(|name| !name.is_empty() && name.len() <= NAME_BYTES);
    if let Some(name) = filename.filter(|name| !name.ends_with(b"/")) {
        return name.to_vec();
    }
    let key = &record.key[..record.key.len().min(NAME_BYTES)];
    if !record.key_is_unique {
        return [file.as_bytes(), b"/", key].concat();
    }
    match &record.image {
        Ok(image) if !image.name.is_empty() => [key, b".", image.name.as_bytes()].concat(),
        _ => key.to_vec(),
    }
}

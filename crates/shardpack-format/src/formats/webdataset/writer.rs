//! Writes samples as tar bytes: exactly as long as the layout promises, plain USTAR, nothing about the machine or the time.

use std::{collections::BTreeMap, path::Path};

use serde::Serialize;

use super::{
    layout::{BLOCK_BYTES, MAX_NAME_BYTES, RECORD_BYTES, member_bytes},
    reader::{MemberKind, Reader},
};
use crate::{
    Error, Result,
    component::Component,
    formats::{
        self, Choice, Format, Layout,
        sidecars::{Dataset, Files, Sealed},
    },
    hash,
    image_header::{Header, Kind},
    index::RowRef,
    manifest::BY_KIND,
    sample::{Extent, Sample},
    shell, text,
};

/// Length in bytes of the longest extension that may come up (`json`, `webp`, `heic`); a key must leave room for it.
const LONGEST_EXTENSION_BYTES: usize = 4;

/// The format with its options.
#[derive(Clone, Debug)]
pub struct WebDataset {
    choice: Choice,
    components: Vec<String>,
    /// The parts of a record as they lie in it, each with its number among the components.
    stored: Vec<(MemberRole, usize)>,
}

/// Which component a member is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum MemberRole {
    Image,
    Cls,
    Json,
    /// That of [`Choice::components`] with this number.
    Component(usize),
}

#[derive(Serialize)]
struct Meta<'a> {
    class: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    class_hex: Option<String>,
    label: Option<i64>,
    path: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    path_hex: Option<String>,
}

impl WebDataset {
    /// The format that was chosen.
    pub fn new(choice: Choice) -> Self {
        let image = choice.extension.clone().unwrap_or_else(|| BY_KIND.to_owned());
        // The layout must not depend on the image: where each has its own extension, `jpg` decides the order.
        let order = choice.extension.clone().unwrap_or_else(|| Kind::Jpeg.extension().to_owned());
        let all = [
            (MemberRole::Image, image, order, true),
            part(MemberRole::Cls, "cls", choice.cls),
            part(MemberRole::Json, "json", choice.json && !choice.has_text()),
        ];
        let components = choice.components.iter().enumerate();
        let components = components.map(|(number, one)| part(MemberRole::Component(number), one.name(), true));
        let on: Vec<_> = all.into_iter().chain(components).filter(|(.., on)| *on).collect();
        let mut stored: Vec<_> =
            on.iter().enumerate().map(|(number, (part, _, order, _))| (order, *part, number)).collect();
        stored.sort();
        let stored = stored.into_iter().map(|(_, part, number)| (part, number)).collect();
        Self { components: on.into_iter().map(|(_, name, ..)| name).collect(), stored, choice }
    }

    fn extension(&self, part: MemberRole, image: &Header) -> &str {
        match part {
            MemberRole::Image => self.choice.extension.as_deref().unwrap_or_else(|| image.kind.extension()),
            MemberRole::Cls => "cls",
            MemberRole::Json => "json",
            MemberRole::Component(number) => self.choice.components.get(number).map_or("", Component::name),
        }
    }

    /// Whether the headers of `record` equal, to the byte, the headers that this writer makes for the row: the usual case, detected
    /// without parsing.
    fn is_own(&self, row: &RowRef<'_>, record: &[u8]) -> bool {
        let Ok(key) = std::str::from_utf8(row.key) else { return false };
        let (mut at, mut expected) = (0, [0; BLOCK_BYTES as usize]);
        for &(part, number) in &self.stored {
            let extension = self.extension(part, &row.image);
            let Some(extent) = row.component(number) else {
                match part {
                    MemberRole::Component(_) => continue,
                    _ => return false,
                }
            };
            if u64::from(extent.offset) != at + BLOCK_BYTES || key.len() + 1 + extension.len() > MAX_NAME_BYTES {
                return false;
            }
            header(&mut expected, key, extension, extent.bytes.into());
            if record.get(at as usize..extent.offset as usize) != Some(&expected[..]) {
                return false;
            }
            at += member_bytes(extent.bytes.into());
        }
        at == record.len() as u64
    }

    /// Length in bytes of a part whose bytes are in their place before the record is framed; `None` if the sample has it
    /// not.
    fn given_bytes(part: MemberRole, sample: &Sample<'_>) -> Option<u32> {
        match part {
            MemberRole::Component(number) => sample.component(number),
            _ => Some(sample.payload_bytes),
        }
    }

    /// The bytes of a small component; empty for those that are given.
    fn data(&self, part: MemberRole, sample: &Sample<'_>) -> Result<Vec<u8>> {
        match part {
            MemberRole::Image | MemberRole::Component(_) => Ok(Vec::new()),
            MemberRole::Cls => Ok(sample.label.map_or_else(Vec::new, |label| label.to_string().into_bytes())),
            MemberRole::Json => meta(sample.class, sample.label, sample.path),
        }
    }
}

/// Class, label and path as an object of JSON.
///
/// # Errors
/// Never for text; the type is that of the JSON writer.
pub fn meta(class: &[u8], label: Option<i64>, path: &[u8]) -> Result<Vec<u8>> {
    let text = |bytes: &[u8]| {
        (String::from_utf8_lossy(bytes).into_owned(), std::str::from_utf8(bytes).is_err().then(|| hash::hex(bytes)))
    };
    let ((class, class_hex), (path, path_hex)) = (text(class), text(path));
    let meta = Meta { class: &class, class_hex, label, path: &path, path_hex };
    serde_json::to_vec(&meta).map_err(|error| Error::data(format!("cannot write json: {error}")))
}

impl Format for WebDataset {
    fn name(&self) -> &'static str {
        super::NAME
    }

    fn components(&self) -> &[String] {
        &self.components
    }

    fn settings(&self) -> BTreeMap<String, String> {
        let license = self.choice.settings.get(super::LICENSE);
        license.map(|license| (super::LICENSE.to_owned(), license.clone())).into_iter().collect()
    }

    fn needs_path(&self) -> bool {
        self.choice.json && !self.choice.has_text()
    }

    fn layout(&self, sample: &Sample<'_>) -> Result<Layout> {
        let longest = self.components.iter().map(String::len).fold(LONGEST_EXTENSION_BYTES, usize::max);
        if sample.key.len() + 1 + longest > MAX_NAME_BYTES || !sample.key.is_ascii() {
            return Err(Error::usage("a key is ASCII and at most 90 bytes, so that a plain USTAR header holds it")
                .in_sample(sample.key));
        }
        let mut at = 0u64;
        let mut components = [Extent::ABSENT; formats::MAX_WRITTEN];
        let too_long = |bytes: u64| Error::usage(format!("image of {bytes} bytes: a record must stay below 4 GiB"));
        for (part, number) in &self.stored {
            let bytes = match part {
                MemberRole::Image | MemberRole::Component(_) => match Self::given_bytes(*part, sample) {
                    Some(bytes) => bytes.into(),
                    None => continue,
                },
                MemberRole::Cls => sample.label.map_or(0, decimal_bytes),
                MemberRole::Json => self.data(MemberRole::Json, sample)?.len() as u64,
            };
            let extent = u32::try_from(at + BLOCK_BYTES).ok().zip(u32::try_from(bytes).ok());
            let (offset, bytes) = extent.ok_or_else(|| too_long(bytes))?;
            components[*number] = Extent { offset, bytes };
            at += member_bytes(u64::from(bytes));
        }
        let record_bytes = u32::try_from(at).map_err(|_| too_long(u64::from(sample.payload_bytes)))?;
        Ok(Layout { record_bytes, components })
    }

    fn tail_bytes(&self, _: u64, records_end: u64) -> u64 {
        (records_end + 2 * BLOCK_BYTES).next_multiple_of(RECORD_BYTES) - records_end
    }

    fn room_bytes(&self, shard_bytes: u64) -> u64 {
        (shard_bytes - shard_bytes % RECORD_BYTES).saturating_sub(2 * BLOCK_BYTES)
    }

    fn frame(&self, sample: &Sample<'_>, image: &Header, record: &mut [u8]) -> Result<()> {
        let short = || Error::data("the record is not as long as its layout").in_sample(sample.key);
        let mut rest = record;
        for &(part, _) in &self.stored {
            let data = self.data(part, sample)?;
            let is_given = matches!(part, MemberRole::Image | MemberRole::Component(_));
            let data_bytes = match Self::given_bytes(part, sample) {
                None => continue,
                Some(bytes) if is_given => bytes as usize,
                Some(_) => data.len(),
            };
            let (head, after) = rest.split_at_mut_checked(BLOCK_BYTES as usize).ok_or_else(short)?;
            header(head, sample.key, self.extension(part, image), data_bytes as u64);
            let padded = data_bytes.next_multiple_of(BLOCK_BYTES as usize);
            let (body, after) = after.split_at_mut_checked(padded).ok_or_else(short)?;
            let (filled, padding) = body.split_at_mut(data_bytes);
            if !is_given {
                filled.copy_from_slice(&data);
            }
            padding.fill(0);
            rest = after;
        }
        if rest.is_empty() { Ok(()) } else { Err(short()) }
    }

    fn check(&self, row: &RowRef<'_>, record: &[u8]) -> Result<()> {
        if self.is_own(row, record) {
            return Ok(());
        }
        let mut reader = Reader::new(record, Some(record.len() as u64));
        let mut left: Vec<(&String, Extent)> = self
            .components
            .iter()
            .enumerate()
            .filter_map(|(number, name)| Some((name, row.component(number)?)))
            .collect();
        let mut end = 0;
        while let Some(member) = reader.next()? {
            let place = Extent {
                offset: u32::try_from(member.data_offset).unwrap_or(u32::MAX),
                bytes: u32::try_from(member.bytes).unwrap_or(u32::MAX),
            };
            let found = left.iter().position(|(name, extent)| {
                *extent == place
                    && member.name.strip_prefix(row.key).and_then(|rest| rest.strip_prefix(b"."))
                        == Some(formats::extension(name, row.image.kind).as_bytes())
            });
            let Some(found) = found.filter(|_| member.plain && member.kind == MemberKind::File) else {
                return Err(Error::data(format!(
                    "member {:?} of {} bytes is none that the index names, or not plain USTAR",
                    text::shown(&member.name),
                    member.bytes
                ))
                .at_byte(member.header_offset));
            };
            left.swap_remove(found);
            end = member.data_offset + member.bytes.next_multiple_of(BLOCK_BYTES);
        }
        match left.first() {
            Some((name, _)) => Err(Error::data(format!("component {name} is missing")).at_byte(0)),
            None if end != record.len() as u64 => {
                Err(Error::data(format!("its members end at {end}, the record at {}", record.len())).at_byte(end))
            }
            None => Ok(()),
        }
    }

    fn shard_file(&self, name: &str, number: u64, _: u64) -> String {
        format!("{name}-{number:06}.tar")
    }

    fn extension(&self) -> &'static str {
        ".tar"
    }

    fn zstd_extension(&self) -> Option<&'static str> {
        Some(".zst")
    }

    fn shard_sidecar(&self, name: &str, of: &Sealed<'_>, out: &mut dyn Files) -> Result<()> {
        super::sidecars::write_of_shard(name, of, out)
    }

    fn sidecar(&self, name: &str, dataset: &Dataset<'_>, out: &mut dyn Files) -> Result<()> {
        let license = self.choice.settings.get(super::LICENSE);
        super::sidecars::write(name, dataset, license.map(String::as_str), out)
    }

    fn recipes(&self, folder: &Path, name: &str, shards: u64, compressed: bool) -> Vec<(&'static str, String)> {
        let numbers = match shards {
            0 | 1 => "000000".to_owned(),
            _ => format!("{{000000..{:06}}}", shards - 1),
        };
        // webdataset does not unpack zstd itself.
        let url = match compressed {
            true => format!("pipe:zstd -dc {}/{name}-{numbers}.tar.zst", shell::path(folder)).into(),
            false => folder.join(format!("{name}-{numbers}.tar")),
        };
        vec![("webdataset", format!("wds.WebDataset({})", shell::python(url)))]
    }
}

/// Appends a file KEY.EXTENSION to `tar`, the bytes of a tar file.
///
/// # Errors
/// If the name or the file is too long for a plain USTAR header; `tar` is unchanged.
pub fn append(tar: &mut Vec<u8>, key: &str, extension: &str, data: &[u8]) -> Result<()> {
    if key.len() + 1 + extension.len() > MAX_NAME_BYTES {
        return Err(Error::usage(format!("a name of more than {MAX_NAME_BYTES} bytes: {key}.{extension}")));
    }
    let bytes = u32::try_from(data.len()).map_err(|_| Error::usage(format!("{extension} of 4 GiB or more")))?;
    let start = tar.len();
    tar.resize(start + BLOCK_BYTES as usize, 0);
    header(&mut tar[start..], key, extension, bytes.into());
    tar.extend_from_slice(data);
    tar.resize(tar.len().next_multiple_of(BLOCK_BYTES as usize), 0);
    Ok(())
}

/// Appends the end of a tar file to its bytes.
pub fn append_end(tar: &mut Vec<u8>) {
    tar.resize((tar.len() + 2 * BLOCK_BYTES as usize).next_multiple_of(RECORD_BYTES as usize), 0);
}

fn part(part: MemberRole, name: &str, on: bool) -> (MemberRole, String, String, bool) {
    (part, name.to_owned(), name.to_owned(), on)
}

/// Length in bytes of `number` in decimal.
fn decimal_bytes(number: i64) -> u64 {
    u64::from(number.unsigned_abs().checked_ilog10().unwrap_or(0)) + 1 + u64::from(number < 0)
}

/// Writes the header of a regular file into the 512 bytes of `out`.
fn header(out: &mut [u8], key: &str, extension: &str, data_bytes: u64) {
    out.fill(0);
    let name_end = key.len() + 1 + extension.len();
    out[..key.len()].copy_from_slice(key.as_bytes());
    out[key.len()] = b'.';
    out[key.len() + 1..name_end].copy_from_slice(extension.as_bytes());
    octal(&mut out[100..107], 0o644);
    octal(&mut out[108..115], 0);
    octal(&mut out[116..123], 0);
    octal(&mut out[124..135], data_bytes);
    octal(&mut out[136..147], 0);
    out[148..156].fill(b' ');
    out[156] = b'0';
    out[257..265].copy_from_slice(b"ustar\x0000");
    // All else is zero.
    let filled = out[..name_end].iter().chain(&out[100..157]).chain(&out[257..265]);
    let sum: u32 = filled.map(|byte| u32::from(*byte)).sum();
    octal(&mut out[148..154], u64::from(sum));
    out[154] = 0;
}

/// `number` in octal with leading zeros over the whole of `out`.
fn octal(out: &mut [u8], mut number: u64) {
    for digit in out.iter_mut().rev() {
        *digit = b'0' + (number & 7) as u8;
        number >>= 3;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{formats::tests as shared, image_header::Mode, sample::Row};
    use proptest::prelude::*;

    fn format(extension: Option<&str>, cls: bool, json: bool) -> WebDataset {
        WebDataset::new(Choice { extension: extension.map(str::to_owned), cls, json, ..Choice::new("webdataset") })
    }

    fn sample(payload: &[u8]) -> Sample<'_> {
        Sample {
            key: "00000042",
            label: Some(7),
            class: b"tench",
            path: b"tench/a \xff.JPEG",
            payload_bytes: payload.len() as u32,
            components: &[],
            forms: Default::default(),
        }
    }

    fn record(format: &WebDataset, sample: &Sample<'_>, payload: &[u8], kind: Kind) -> (Vec<u8>, Row) {
        let header = Header { kind, width: 0, height: 0, mode: Mode::Unknown, depth: 0 };
        shared::record(format, sample, payload, header).unwrap()
    }

    fn check(format: &WebDataset, row: Row, record: &[u8]) -> Result<()> {
        format.check(&shared::index(format, &[row]).row(0).unwrap(), record)
    }

    #[test]
    fn the_tar_crate_reads_every_member() {
        for (extension, cls, json) in [(Some("jpg"), true, true), (Some("bmp"), true, false), (None, false, true)] {
            let format = format(extension, cls, json);
            let payload = vec![5u8; 700];
            let (mut bytes, row) = record(&format, &sample(&payload), &payload, Kind::Png);
            check(&format, row, &bytes).unwrap();
            bytes.resize(bytes.len() + format.tail_bytes(1, bytes.len() as u64) as usize, 0);
            assert_eq!(bytes.len() % 10_240, 0);
            let mut members = Vec::new();
            for entry in tar::Archive::new(bytes.as_slice()).entries().unwrap() {
                let mut entry = entry.unwrap();
                let header = entry.header();
                assert_eq!((header.mode().unwrap(), header.mtime().unwrap(), header.uid().unwrap()), (0o644, 0, 0));
                let mut data = Vec::new();
                std::io::Read::read_to_end(&mut entry, &mut data).unwrap();
                members.push((String::from_utf8(entry.path_bytes().to_vec()).unwrap(), data));
            }
            let names: Vec<_> = members.iter().map(|(name, _)| name.clone()).collect();
            assert!(names.is_sorted() || extension.is_none(), "{names:?}");
            let image = format!("00000042.{}", extension.unwrap_or("png"));
            assert_eq!(members.iter().find(|(name, _)| *name == image).unwrap().1, payload);
            if cls {
                assert_eq!(members.iter().find(|(name, _)| name == "00000042.cls").unwrap().1, b"7");
            }
            if json {
                let data = &members.iter().find(|(name, _)| name == "00000042.json").unwrap().1;
                let meta: serde_json::Value = serde_json::from_slice(data).unwrap();
                assert_eq!(meta["label"], 7);
                assert_eq!(meta["path_hex"], hash::hex(b"tench/a \xff.JPEG"));
            }
        }
    }

    #[test]
    fn a_key_that_needs_more_than_a_plain_header_is_refused() {
        let format = format(Some("jpg"), true, false);
        let long = "1".repeat(95);
        assert!(format.layout(&Sample { key: &long, ..sample(b"") }).is_err());
        assert!(format.layout(&Sample { key: "ä", ..sample(b"") }).is_err());
        assert!(format.layout(&Sample { payload_bytes: u32::MAX - 4096, ..sample(b"") }).is_ok());
        assert!(format.layout(&Sample { payload_bytes: u32::MAX, ..sample(b"") }).is_err());
    }

    #[test]
    fn labels_are_as_long_as_they_print() {
        for label in [0, 9, 10, 999, 1000, -1, -10, i64::MAX, i64::MIN] {
            assert_eq!(decimal_bytes(label), label.to_string().len() as u64);
        }
    }

    proptest! {
        #[test]
        fn a_record_checks_and_no_flip_in_its_framing_passes(length in 0usize..2000, at: prop::sample::Index, bit in 0u8..8) {
            let format = format(Some("jpg"), true, true);
            let payload = vec![9u8; length];
            let (mut bytes, row) = record(&format, &sample(&payload), &payload, Kind::Jpeg);
            prop_assert!(check(&format, row.clone(), &bytes).is_ok());
            // The field of the checksum itself has several spellings; there the frame hash is the check.
            let at = at.index(148);
            bytes[at] ^= 1 << bit;
            prop_assert!(check(&format, row, &bytes).is_err());
        }
    }
}

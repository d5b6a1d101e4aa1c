//! `index.json`: streaming's index of the shards. Written to the byte as streaming's own writer does; read without trust.
//!
//! A shard name that leads out of the folder of the index is refused on reading.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::layout::{Column, first_fields, text};
use crate::{
    Error, Result,
    formats::sidecars::{CLASSES, Dataset, Files, Kind, LABELS},
    hash::Named,
    manifest,
};

/// Name of the file in a dataset's folder.
const INDEX_FILE: &str = "index.json";
/// Extension of a compressed shard.
pub(super) const ZSTD_EXTENSION: &str = ".zstd";
/// Levels of zstd for which streaming has names.
const NAMED_LEVELS: std::ops::RangeInclusive<u32> = 1..=22;

/// All sidecars of this format.
pub(super) const KINDS: &[Kind] = &[
    Kind {
        name: "index",
        about: "index.json, without which streaming reads nothing",
        files: &[INDEX_FILE],
        auto: true,
        ..CLASSES
    },
    CLASSES,
    LABELS,
];

/// Writes `index.json`.
///
/// # Errors
/// If `dataset` has no hashes or lengths for a shard, or `out` fails.
pub(super) fn write_index(
    columns: &[Column],
    hashes: &[String],
    dataset: &Dataset<'_>,
    out: &mut dyn Files,
) -> Result<()> {
    let compression = compression(dataset.compression);
    let first = first_fields(columns, compression.as_deref(), hashes);
    out.begin(INDEX_FILE)?;
    out.write(b"{\"shards\": [")?;
    for (number, shard) in dataset.shards.iter().enumerate() {
        let missing = || Error::data("its hashes and lengths are not known").in_file(&shard.file);
        let stored = file(&shard.file, shard.bytes, hashes, dataset.hashes.get(number)).ok_or_else(missing)?;
        let (raw, zip) = match compression {
            None => (stored, "null".to_owned()),
            Some(_) => {
                let (bytes, found) = dataset.unpacked.get(number).ok_or_else(missing)?;
                let name = shard.file.strip_suffix(ZSTD_EXTENSION).ok_or_else(missing)?;
                (file(name, *bytes, hashes, Some(found)).ok_or_else(missing)?, stored)
            }
        };
        let manifest::Shard { samples, .. } = shard;
        let comma = if number == 0 { "" } else { ", " };
        let entry = format!(
            "{comma}{{{first}, \"raw_data\": {raw}, \"samples\": {samples}, \"size_limit\": null, \"version\": 2, \
             \"zip_data\": {zip}}}"
        );
        out.write(entry.as_bytes())?;
    }
    out.write(b"], \"version\": 2}")
}

/// streaming's name for the compression of a dataset. streaming never uses the level, but refuses an unknown level.
fn compression(name: &str) -> Option<String> {
    match name.strip_prefix("zstd:").map(str::parse) {
        Some(Ok(level)) if NAMED_LEVELS.contains(&level) => Some(format!("zstd:{level}")),
        _ if name == "none" => None,
        _ => Some("zstd".to_owned()),
    }
}

/// The entry of a file; `None` if a hash is missing.
fn file(name: &str, bytes: u64, hashes: &[String], found: Option<&BTreeMap<String, String>>) -> Option<String> {
    let hashes = hashes.iter().map(|hash| Some(format!("{}: {}", text(hash), text(found?.get(hash)?))));
    let hashes = hashes.collect::<Option<Vec<_>>>()?.join(", ");
    Some(format!("{{\"basename\": {}, \"bytes\": {bytes}, \"hashes\": {{{hashes}}}}}", text(name)))
}

/// An `index.json` by any writer: the fields that reading images needs.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct IndexJson {
    /// The shards in order.
    pub shards: Vec<Shard>,
}

/// A shard in an [`IndexJson`].
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Shard {
    /// Number of samples according to the index.
    pub samples: u64,
    /// Format of the shard: `mds`, or a format that this crate does not read.
    #[serde(default)]
    pub format: String,
    /// Compression of the shard, if it is compressed.
    #[serde(default)]
    pub compression: Option<String>,
    /// The unpacked shard.
    pub raw_data: File,
    /// The compressed shard, if it is compressed.
    #[serde(default)]
    pub zip_data: Option<File>,
}

/// A file in an [`IndexJson`].
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct File {
    /// Path relative to the folder of the index, with `/` between folders; never leads out of the folder.
    pub basename: String,
    /// Length in bytes according to the index; streaming itself never checks the length.
    pub bytes: u64,
    /// Hashes by name, in lower-case hexadecimal.
    #[serde(default)]
    pub hashes: BTreeMap<String, String>,
}

impl File {
    /// Names of the hashes that this crate can compute, and names of the others.
    pub fn known_hashes(&self) -> (Vec<&str>, Vec<&str>) {
        self.hashes.keys().map(String::as_str).partition(|name| Named::new(name).is_ok())
    }
}

/// Parses an `index.json`. Unknown fields are ignored.
///
/// # Errors
/// If `bytes` is not JSON of this form, or names a file outside of the folder.
pub fn read_index(bytes: &[u8]) -> Result<IndexJson> {
    let index: IndexJson = serde_json::from_slice(bytes)
        .map_err(|error| Error::data(format!("not an {INDEX_FILE} of streaming: {error}")))?;
    for file in index.shards.iter().flat_map(|shard| [Some(&shard.raw_data), shard.zip_data.as_ref()]).flatten() {
        let name = &file.basename;
        // On Windows, a colon or a backslash leads out of the folder.
        let leads_out = name.contains(['\\', ':', '\0'])
            || name.split('/').any(|part| part.is_empty() || part == "." || part == "..");
        if leads_out {
            return Err(Error::data(format!("shard {name:?} is not a file in the folder of the index")));
        }
    }
    Ok(index)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        formats::{
            self, Choice,
            sidecars::tests::{Memory, NO_KINDS, NO_SETTINGS},
        },
        index::Index,
    };

    fn shard(file: &str, bytes: u64, samples: u64) -> manifest::Shard {
        let blake3 = manifest::Blake3([0; 32]);
        let index = manifest::File { file: String::new(), bytes: 0, blake3 };
        manifest::Shard { file: file.to_owned(), samples, bytes, blake3, index }
    }

    fn hashes(sha1: &str, xxh64: &str) -> BTreeMap<String, String> {
        BTreeMap::from([("sha1", sha1), ("xxh64", xxh64)].map(|(name, hash)| (name.to_owned(), hash.to_owned())))
    }

    fn written(settings: &[(&str, &str)], compression: &str, shards: &[manifest::Shard]) -> String {
        let mut choice = Choice::new(super::super::NAME);
        choice.settings.extend(settings.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())));
        let format = formats::open(&choice).unwrap();
        let no_index = |_| -> Result<Index<Vec<u8>>> { Err(Error::usage("not needed")) };
        let dataset = Dataset {
            kinds: &NO_KINDS,
            settings: &NO_SETTINGS,
            name: "shard",
            shards,
            classes: &[],
            samples: shards.iter().map(|shard| shard.samples).sum(),
            components: &["image".to_owned()],
            compression,
            hashes: &[hashes("e975", "8280"), hashes("d243", "caa9")],
            unpacked: &[(18926, hashes("aa33", "4944"))],
            index: &no_index,
        };
        let mut out = Memory::default();
        format.sidecar("index", &dataset, &mut out).unwrap();
        assert!(format.sidecar("other", &dataset, &mut out).is_err());
        let [("index.json", text)] = out.text()[..] else { panic!() };
        text.to_owned()
    }

    #[test]
    fn an_index_is_to_the_byte_what_streaming_writes() {
        let shards = [shard("shard.00000.mds", 18907, 9), shard("shard.00001.mds", 16152, 6)];
        assert_eq!(
            written(&[("hashes", "")], "none", &shards),
            concat!(
                r#"{"shards": [{"column_encodings": ["str", "jpeg", "int"], "column_names": ["filename", "image", "#,
                r#""label"], "column_sizes": [null, null, 8], "compression": null, "format": "mds", "hashes": [], "#,
                r#""raw_data": {"basename": "shard.00000.mds", "bytes": 18907, "hashes": {}}, "samples": 9, "#,
                r#""size_limit": null, "version": 2, "zip_data": null}, {"column_encodings": ["str", "jpeg", "int"], "#,
                r#""column_names": ["filename", "image", "label"], "column_sizes": [null, null, 8], "compression": null, "#,
                r#""format": "mds", "hashes": [], "raw_data": {"basename": "shard.00001.mds", "bytes": 16152, "#,
                r#""hashes": {}}, "samples": 6, "size_limit": null, "version": 2, "zip_data": null}], "version": 2}"#,
            )
        );
    }

    #[test]
    fn a_compressed_shard_is_told_packed_and_unpacked() {
        let shards = [shard("shard.00000.mds.zstd", 14784, 9)];
        let text = written(&[("hashes", "xxh64,sha1"), ("filename_column", "")], "zstd:7", &shards);
        assert_eq!(
            text,
            concat!(
                r#"{"shards": [{"column_encodings": ["jpeg", "int"], "column_names": ["image", "label"], "#,
                r#""column_sizes": [null, 8], "compression": "zstd:7", "format": "mds", "hashes": ["sha1", "xxh64"], "#,
                r#""raw_data": {"basename": "shard.00000.mds", "bytes": 18926, "hashes": {"sha1": "aa33", "#,
                r#""xxh64": "4944"}}, "samples": 9, "size_limit": null, "version": 2, "zip_data": {"basename": "#,
                r#""shard.00000.mds.zstd", "bytes": 14784, "hashes": {"sha1": "e975", "xxh64": "8280"}}}], "version": 2}"#,
            )
        );
        let index = read_index(text.as_bytes()).unwrap();
        assert_eq!(index.shards[0].compression.as_deref(), Some("zstd:7"));
        assert_eq!(index.shards[0].raw_data.bytes, 18926);
        assert_eq!(index.shards[0].zip_data.as_ref().unwrap().hashes["xxh64"], "8280");
        assert_eq!(compression("zstd:-5").as_deref(), Some("zstd"));
    }

    #[test]
    fn names_that_lead_out_of_the_folder_are_refused() {
        let read = |name: &str| {
            let name = text(name);
            read_index(
                format!(r#"{{"shards": [{{"samples": 1, "raw_data": {{"basename": {name}, "bytes": 3}}}}]}}"#)
                    .as_bytes(),
            )
        };
        assert_eq!(read("sub/shard.00000.mds").unwrap().shards[0].raw_data.basename, "sub/shard.00000.mds");
        for name in ["", "/etc/passwd", "../a", "a/../../b", "a//b", "C:\\a", "..\\a", "a/..", "./a", "a\0"] {
            assert!(read(name).is_err(), "{name}");
        }
        assert!(read_index(b"[1]").is_err());
        assert!(read_index(br#"{"shards": [{"samples": -1}]}"#).is_err());
    }
}

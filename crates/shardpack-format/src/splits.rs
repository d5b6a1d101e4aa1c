//! `splits.json`: which datasets in a folder are the splits of one, so that one that is lost, added, renamed or exchanged shows.
//!
//! Each split is a dataset of its own, with all that belongs to it in its folder, and knows nothing of this record: it can be
//! moved or copied away and stays whole. The record has the name and the manifest's hash of each, and an id of its own by
//! the rule of the manifest. `docs/reference/on-disk.md` describes it, `docs/reference/splits.schema.json` is its JSON Schema.

use std::collections::HashSet;

use serde::{Deserialize, Serialize};

use crate::{
    Error, Result,
    hash::{self, FileHash},
    help,
    manifest::{Blake3, File, is_own_name},
    size,
};

/// Name of the file beside the folders of splits.
pub const FILE: &str = "splits.json";
/// Value of [`Record::schema`].
pub const SCHEMA: &str = "shardpack-splits/1";

/// Names that folders of splits usually have.
pub const KNOWN: [&str; 10] =
    ["train", "training", "val", "valid", "validation", "test", "testing", "dev", "eval", "minival"];

/// The whole record. Fields in the order in which they are written.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Record {
    /// [`SCHEMA`].
    pub schema: String,
    /// BLAKE3 of the file with these digits replaced by zeros.
    pub id: Blake3,
    /// The splits, in the order in which they were packed.
    pub splits: Vec<Split>,
    /// Files beside the splits that describe all of them for other programs.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub files: Vec<File>,
}

/// A split, as it was sealed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Split {
    /// Its name, which is that of its folder.
    pub name: String,
    /// Id of the dataset.
    pub dataset: Blake3,
    /// Number of its samples.
    pub samples: u64,
    /// BLAKE3 of its manifest's file.
    pub manifest: Blake3,
}

/// A dataset in a folder beside the record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SplitFolder {
    /// Name of the folder.
    pub folder: String,
    /// BLAKE3 of the manifest's file; `None` if the manifest is damaged, which is reported elsewhere.
    pub manifest: Option<FileHash>,
}

/// A difference from the record: name of the folder, the problem, and the help.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    /// Name of the folder.
    pub folder: String,
    /// The problem.
    pub what: String,
    /// The help.
    pub help: String,
}

/// Checks `name`, which a user or a list gives to a split: shards and folders must be able to have it.
///
/// # Errors
/// If the name is invalid. The message names the valid characters.
pub fn check_name(name: &str) -> Result<()> {
    let is_fit = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
    match !name.is_empty() && name.len() <= 100 && name.chars().all(is_fit) {
        true => Ok(()),
        false => Err(Error::usage(format!(
            "split {name:?}: a split is called with up to 100 ASCII letters, digits, - and _"
        ))),
    }
}

impl Record {
    /// A record of these splits, and of the files beside them.
    pub fn new(splits: Vec<Split>, files: Vec<File>) -> Self {
        Self { schema: SCHEMA.to_owned(), id: Blake3::default(), splits, files }
    }

    /// The bytes of the file.
    ///
    /// # Errors
    /// Never for numbers and text; the type is that of the JSON writer.
    pub fn to_bytes(&self) -> Result<Vec<u8>> {
        let render = |id: Blake3| {
            let mut bytes = serde_json::to_vec_pretty(&Self { id, ..self.clone() })
                .map_err(|error| Error::data(format!("cannot write the record of splits: {error}")))?;
            bytes.push(b'\n');
            Ok::<_, Error>(bytes)
        };
        render(Blake3(hash::file(&render(Blake3::default())?)))
    }

    /// Reads a record, which must be byte for byte as it was written.
    ///
    /// # Errors
    /// If it has another schema, was changed, or has a name that cannot be a folder beside it.
    pub fn read(bytes: &[u8]) -> Result<Self> {
        let record: Self =
            serde_json::from_slice(bytes).map_err(|error| Error::data(format!("not a record of splits: {error}")))?;
        if record.schema != SCHEMA {
            return Err(Error::data(format!("schema {:?}, this program reads {SCHEMA:?}", record.schema))
                .help(help::OTHER_VERSION));
        }
        let own = record.to_bytes()?;
        if own != bytes {
            let differs = own.iter().zip(bytes).position(|(a, b)| a != b).unwrap_or(own.len().min(bytes.len()));
            return Err(Error::data("its id is not that of its content: it was changed after it was written")
                .at_byte(differs as u64)
                .help(help::COPY_AGAIN));
        }
        let mut names = HashSet::new();
        for split in &record.splits {
            if !is_plain(&split.name) || !names.insert(&split.name) {
                return Err(Error::data(format!("split {:?}: not a plain name, or named twice", split.name)));
            }
        }
        for file in &record.files {
            if !is_plain(&file.file) || is_own_name(&file.file) || !names.insert(&file.file) {
                return Err(Error::data(format!("file {:?}: not a plain name, or named twice", file.file)));
            }
        }
        match record.splits.is_empty() {
            true => Err(Error::data("names no splits")),
            false => Ok(record),
        }
    }

    /// The differences between the record and the datasets that were found, in the order of the record, then of `found`.
    pub fn differences(&self, found: &[SplitFolder]) -> Vec<Difference> {
        let at = |name: &str| found.iter().find(|one| one.folder == name);
        let of = |hash: FileHash| self.splits.iter().find(|split| split.manifest.0 == hash);
        let is_in_place = |split: &Split| at(&split.name).is_some_and(|one| one.manifest == Some(split.manifest.0));
        let mut differences = Vec::new();
        let mut tell = |folder: &str, what: String, help: String| {
            differences.push(Difference { folder: folder.to_owned(), what, help });
        };
        for split in &self.splits {
            match at(&split.name) {
                None => {
                    let elsewhere = found.iter().find(|one| {
                        one.manifest == Some(split.manifest.0)
                            && !self.splits.iter().any(|other| other.name == one.folder)
                    });
                    match elsewhere {
                        Some(one) => tell(
                            &one.folder,
                            format!("is the split {}, which {FILE} knows by that name: it was renamed", split.name),
                            format!(
                                "mv {} {} puts it back; convert --split {}=FOLDER beside --split NAME=FOLDER for the \
                                 others writes them under new names",
                                one.folder, split.name, one.folder
                            ),
                        ),
                        None => tell(
                            &split.name,
                            format!("missing: {FILE} names this split, of {}", size::counted(split.samples, "sample")),
                            help::COPY_AGAIN.to_owned(),
                        ),
                    }
                }
                Some(SplitFolder { manifest: Some(hash), .. }) if *hash != split.manifest.0 => match of(*hash) {
                    Some(other) => tell(
                        &split.name,
                        format!("holds the split {}, as {FILE} knows it, and not {}", other.name, split.name),
                        format!("rename the folders such that it is called {}", other.name),
                    ),
                    None => tell(
                        &split.name,
                        format!("is another dataset than the one that {FILE} names"),
                        format!("{}, or pack all splits anew", help::COPY_AGAIN),
                    ),
                },
                Some(_) => {}
            }
        }
        for one in found.iter().filter(|one| !self.splits.iter().any(|split| split.name == one.folder)) {
            match one.manifest.and_then(of) {
                // Reported above.
                Some(split) if at(&split.name).is_none() => {}
                Some(split) if is_in_place(split) => tell(
                    &one.folder,
                    format!("is the split {} a second time", split.name),
                    "remove it, or move it elsewhere: it is a dataset of its own".to_owned(),
                ),
                _ => tell(
                    &one.folder,
                    format!("a stranger: {FILE} names no such split"),
                    "move it elsewhere, or pack all splits anew".to_owned(),
                ),
            }
        }
        differences
    }
}

/// Whether `name` is that of an entry of a folder, and not hidden.
fn is_plain(name: &str) -> bool {
    !name.is_empty() && !name.starts_with('.') && !name.contains(|c: char| c == '/' || c == '\\' || c.is_control())
}

/// A dataset in a folder without a record, by its manifest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Named<'a> {
    /// Name of the folder.
    pub folder: &'a str,
    /// The name in the manifest.
    pub name: &'a str,
    /// Its format: several formats of one source lie in folders that are called so.
    pub format: &'a str,
}

/// Datasets beside each other that are called like splits and lie in folders with other names.
pub fn misnamed(found: &[Named<'_>]) -> Vec<Difference> {
    let is_known = |name: &str| KNOWN.contains(&name);
    let are_splits = found.iter().any(|one| one.folder == one.name && is_known(one.name));
    let is_other = |one: &&Named<'_>| {
        one.folder != one.name && one.folder != one.format && is_known(one.name) && (are_splits || is_known(one.folder))
    };
    let tell = |one: &Named<'_>| Difference {
        folder: one.folder.to_owned(),
        what: format!("is the split {} by its manifest: it was renamed, or copied", one.name),
        help: format!(
            "call the folder {} again; convert --split {}=FOLDER beside --split NAME=FOLDER for the others writes them under \
             new names",
            one.name, one.folder
        ),
    };
    found.iter().filter(is_other).map(tell).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record() -> Record {
        let split = |name: &str, hash| Split {
            name: name.to_owned(),
            dataset: Blake3([hash + 100; 32]),
            samples: 7,
            manifest: Blake3([hash; 32]),
        };
        Record::new(vec![split("train", 1), split("val", 2), split("test", 3)], Vec::new())
    }

    #[test]
    fn files_beside_splits_have_plain_names_that_no_other_file_needs() {
        let with = |name: &str| {
            let file = File { file: name.to_owned(), bytes: 7, blake3: Blake3([3; 32]) };
            Record::read(&Record::new(record().splits, vec![file]).to_bytes().unwrap())
        };
        assert_eq!(with("README.md").unwrap().files[0].bytes, 7);
        for wrong in ["", "..", "a/b", ".x", "train", "splits.json", "manifest.json", "index"] {
            assert!(with(wrong).is_err(), "{wrong}");
        }
        assert!(!String::from_utf8(record().to_bytes().unwrap()).unwrap().contains("files"));
    }

    #[test]
    fn it_comes_back_as_it_was_and_every_flip_and_cut_is_an_error() {
        let bytes = record().to_bytes().unwrap();
        assert_eq!(Record::read(&bytes).unwrap().splits, record().splits);
        for at in 0..bytes.len() {
            assert!(Record::read(&bytes[..at]).is_err(), "cut at {at}");
            for bit in 0..8 {
                let mut bytes = bytes.clone();
                bytes[at] ^= 1 << bit;
                assert!(Record::read(&bytes).is_err(), "bit {bit} of byte {at}");
            }
        }
        for wrong in ["", "..", "a/b", ".x", "train"] {
            let mut record = record();
            record.splits[1].name = wrong.to_owned();
            assert!(Record::read(&record.to_bytes().unwrap()).is_err(), "{wrong}");
        }
    }

    #[test]
    fn without_a_record_the_manifest_tells_what_was_renamed() {
        let rows: [(&str, &[(&str, &str)], &[&str]); 6] = [
            ("as packed", &[("train", "train"), ("val", "val")], &[]),
            ("renamed", &[("train", "train"), ("valid-1", "val")], &["valid-1"]),
            ("swapped", &[("train", "val"), ("val", "train")], &["train", "val"]),
            ("doubled", &[("train", "train"), ("val", "val"), ("val2", "val")], &["val2"]),
            ("formats", &[("mds", "shard"), ("webdataset", "shard")], &[]),
            ("datasets of their own", &[("a", "train"), ("b", "train")], &[]),
        ];
        for (row, found, expected) in rows {
            let found: Vec<_> = found.iter().map(|(folder, name)| Named { folder, name, format: "mds" }).collect();
            let told: Vec<_> = misnamed(&found).into_iter().map(|told| told.folder).collect();
            assert_eq!(told, expected, "{row}");
        }
    }

    #[test]
    fn what_was_lost_added_swapped_renamed_or_doubled_is_told() {
        let all = [("train", 1), ("val", 2), ("test", 3)];
        let rows: [(&str, &[(&str, u8)], &[&str]); 9] = [
            ("as it was", &all, &[]),
            ("lost", &all[..2], &["test: missing"]),
            ("added", &[all[0], all[1], all[2], ("more", 9)], &["more: a stranger"]),
            ("doubled", &[all[0], all[1], all[2], ("val2", 2)], &["val2: is the split val a second time"]),
            ("renamed", &[all[0], ("validation", 2), all[2]], &["validation: is the split val"]),
            (
                "swapped",
                &[("train", 2), ("val", 1), all[2]],
                &["train: holds the split val", "val: holds the split train"],
            ),
            ("exchanged", &[all[0], ("val", 9), all[2]], &["val: is another dataset"]),
            ("one over the other", &[all[0], ("val", 1), all[2]], &["val: holds the split train"]),
            ("renamed twice", &[all[0], ("a", 2), ("b", 3)], &["a: is the split val", "b: is the split test"]),
        ];
        for (row, found, expected) in rows {
            let found: Vec<_> = found
                .iter()
                .map(|(name, hash)| SplitFolder { folder: (*name).into(), manifest: Some([*hash; 32]) })
                .collect();
            let told = record().differences(&found);
            assert_eq!(told.len(), expected.len(), "{row}: {told:?}");
            for (told, expected) in told.iter().zip(expected) {
                assert!(format!("{}: {}", told.folder, told.what).starts_with(expected), "{row}: {told:?}");
            }
        }
    }
}

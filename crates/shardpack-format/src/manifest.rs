//! `manifest.json`: the root of a dataset, small, read by people, checked to the byte.
//!
//! A manifest is written in one way only, so its id can be the BLAKE3 of the file itself with the id's 64 digits
//! replaced by zeros: equal datasets have one id, and any change of any byte shows. `docs/reference/manifest.md` describes the
//! fields, `docs/reference/manifest.schema.json` is their JSON Schema.

use std::collections::{BTreeMap, HashSet};

use serde::{Deserialize, Serialize};

use crate::{
    Error, Result,
    hash::{self, FileHash},
    help, splits,
};

/// Name of the file in a dataset's folder.
pub const FILE: &str = "manifest.json";
/// Name of the ledger in a dataset's folder: one line of JSON for each sample that was not packed.
pub const LEDGER_FILE: &str = "ledger.jsonl";
/// Name of the list of hashes that `b3sum --check` reads.
pub const SUMS_FILE: &str = "BLAKE3SUMS";
/// Name of the folder of indexes.
pub const INDEX_FOLDER: &str = "index";
/// Name of the folder for unfinished work: a folder that contains it is an unfinished pack, never a dataset.
pub const WORK_FOLDER: &str = ".shardpack";
/// Value of [`Manifest::schema`].
pub const SCHEMA: &str = "shardpack-manifest/1";
/// In [`Manifest::components`]: the extension of each sample's own kind of image.
pub const BY_KIND: &str = "{kind}";

/// A BLAKE3 hash in a manifest: 64 lower-case hexadecimal digits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Blake3(pub FileHash);

impl Serialize for Blake3 {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&hash::hex(&self.0))
    }
}

#[cfg(feature = "schema")]
impl schemars::JsonSchema for Blake3 {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "hash".into()
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({ "type": "string", "pattern": "^[0-9a-f]{64}$" })
    }
}

impl<'de> Deserialize<'de> for Blake3 {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        hash::unhex(&text)
            .and_then(|bytes| FileHash::try_from(bytes).ok())
            .map(Self)
            .ok_or_else(|| serde::de::Error::custom("a BLAKE3 hash is 64 hexadecimal digits"))
    }
}

/// The whole manifest. Fields in the order in which they are written.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Manifest {
    /// [`SCHEMA`].
    pub schema: String,
    /// BLAKE3 of the manifest file with these digits replaced by zeros.
    pub id: Blake3,
    /// Name of the split, or the value of `--name`; shards are named after it.
    pub name: String,
    /// The format of the shards, and its options.
    pub format: Format,
    /// How the samples were ordered.
    pub order: Order,
    /// How images were changed before they were packed, in words, and by which program; `None` if every byte is the source's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recipe: Option<String>,
    /// Number of samples in the shards.
    pub samples: u64,
    /// Length of all images together, in bytes.
    pub payload_bytes: u64,
    /// Length of all shard files together, in bytes.
    pub shard_bytes: u64,
    /// A block is this many consecutive samples of one shard (the last may be shorter), about 512 KiB.
    pub block_samples: u64,
    /// Components of a sample, the image first: extensions, or [`BY_KIND`].
    pub components: Vec<String>,
    /// How many images there are of each kind, by their first bytes.
    pub kinds: BTreeMap<String, u64>,
    /// Counts of packed, skipped, duplicate and filtered images.
    pub ledger: Ledger,
    /// Files of the source that are no samples, by the reason: `hidden`, `system`, `extension .txt`, …
    pub ignored_files: BTreeMap<String, u64>,
    /// BLAKE3 over the plan (paths, sizes, labels, options), so that the same command can detect that it is done.
    pub plan: Blake3,
    /// Classes in the order of their labels.
    pub classes: Vec<Class>,
    /// Shards in order.
    pub shards: Vec<Shard>,
    /// Files that this or that reader looks for beside the shards.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sidecars: Vec<File>,
}

/// The format of the shards, and the options that decided their bytes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Format {
    /// Name of the format: one of [`crate::formats::ALL`].
    pub name: String,
    /// `none`, or `zstd:LEVEL`.
    pub compression: String,
    /// Settings of this format only, by name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub settings: BTreeMap<String, String>,
}

/// How the samples were ordered.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Order {
    /// Name of the permutation, `feistel-8`, or `source` for canonical order.
    pub algorithm: String,
    /// Seed of the permutation; 0 where there is none.
    pub seed: u64,
}

/// Counts of the images that were found: discovered = packed + skipped + duplicates + filtered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Counts {
    /// Images found.
    pub discovered: u64,
    /// Images in the shards.
    pub packed: u64,
    /// Images that could not be packed.
    pub skipped: u64,
    /// Images left out because another has the same bytes.
    pub duplicates: u64,
    /// Images left out at the user's request.
    pub filtered: u64,
}

impl Counts {
    /// Whether nothing was found.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Whether everything that was found is accounted for.
    pub fn balance(&self) -> bool {
        [self.packed, self.skipped, self.duplicates, self.filtered]
            .iter()
            .try_fold(0u64, |sum, part| sum.checked_add(*part))
            == Some(self.discovered)
    }

    /// Adds `other`, stopping at the largest number there is.
    pub fn add(&mut self, other: &Counts) {
        self.discovered = self.discovered.saturating_add(other.discovered);
        self.packed = self.packed.saturating_add(other.packed);
        self.skipped = self.skipped.saturating_add(other.skipped);
        self.duplicates = self.duplicates.saturating_add(other.duplicates);
        self.filtered = self.filtered.saturating_add(other.filtered);
    }
}

/// The ledger: totals, and the file that names every image that is not in the shards.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Ledger {
    /// Sum over the classes and the images without a class.
    pub counts: Counts,
    /// Counts of images whose class is unknown, none of them packed; of all images, if there are no classes.
    #[serde(default, skip_serializing_if = "Counts::is_empty")]
    pub unclassified: Counts,
    /// `ledger.jsonl`, if any image is not in the shards.
    pub file: Option<File>,
}

/// A file of the dataset.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct File {
    /// Name, relative to the manifest's folder.
    pub file: String,
    /// Length in bytes.
    pub bytes: u64,
    /// BLAKE3 of the file.
    pub blake3: Blake3,
}

/// A class.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Class {
    /// Name of its folder; with replacement characters where that is not UTF-8.
    pub name: String,
    /// The bytes of the name in hexadecimal, where they are not UTF-8.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name_hex: Option<String>,
    /// Counts of its images.
    pub counts: Counts,
}

impl Class {
    /// A class whose folder has this name.
    pub fn new(name: &[u8], counts: Counts) -> Self {
        let text = String::from_utf8_lossy(name);
        let name_hex = std::str::from_utf8(name).is_err().then(|| hash::hex(name));
        Self { name: text.into_owned(), name_hex, counts }
    }

    /// The bytes of its folder's name.
    pub fn name_bytes(&self) -> Vec<u8> {
        self.name_hex.as_deref().and_then(hash::unhex).unwrap_or_else(|| self.name.clone().into_bytes())
    }
}

/// A shard.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Shard {
    /// Name of the file, relative to the manifest's folder.
    pub file: String,
    /// Number of samples in it.
    pub samples: u64,
    /// Length of the file in bytes.
    pub bytes: u64,
    /// BLAKE3 of the file.
    pub blake3: Blake3,
    /// Its index.
    pub index: File,
}

impl Manifest {
    /// The bytes of the file, and the id that is in them.
    ///
    /// # Errors
    /// Never for a manifest made of numbers and text; the type is that of the JSON writer.
    pub fn to_bytes(&self) -> Result<(Vec<u8>, Blake3)> {
        let render = |id: Blake3| {
            let mut bytes = serde_json::to_vec_pretty(&Self { id, ..self.clone() })
                .map_err(|error| Error::data(format!("cannot write the manifest: {error}")))?;
            bytes.push(b'\n');
            Ok::<_, Error>(bytes)
        };
        let id = Blake3(hash::file(&render(Blake3::default())?));
        Ok((render(id)?, id))
    }

    /// Reads a manifest and checks all that can be checked without the shards: names, sums, counts. The id is checked
    /// by [`Manifest::check_id`], so that a damaged manifest can still be looked at.
    ///
    /// # Errors
    /// When it is no manifest of this schema, or its parts contradict each other.
    pub fn read(bytes: &[u8]) -> Result<Self> {
        let manifest: Self =
            serde_json::from_slice(bytes).map_err(|error| Error::data(format!("not a manifest: {error}")))?;
        if manifest.schema != SCHEMA {
            return Err(Error::data(format!("schema {:?}, this program reads {SCHEMA:?}", manifest.schema))
                .help(help::OTHER_VERSION));
        }
        manifest.check().map(|()| manifest)
    }

    /// Whether `bytes`, from which this manifest was read, are those that its id stands for.
    ///
    /// # Errors
    /// When they are not, or are not written in the one way a manifest is written.
    pub fn check_id(&self, bytes: &[u8]) -> Result<()> {
        let (own, id) = self.to_bytes()?;
        let differs = own.iter().zip(bytes).position(|(a, b)| a != b).unwrap_or(own.len().min(bytes.len()));
        if id != self.id || own != bytes {
            return Err(Error::data(format!(
                "the id is {}, the content makes {}: it was changed after it was sealed",
                hash::hex(&self.id.0),
                hash::hex(&id.0)
            ))
            .at_byte(differs as u64)
            .help(help::COPY_AGAIN));
        }
        Ok(())
    }

    fn check(&self) -> Result<()> {
        let wrong = |what: String| Err(Error::data(what));
        check_sum("samples of the shards", self.shards.iter().map(|shard| shard.samples), self.samples)?;
        check_sum("bytes of the shards", self.shards.iter().map(|shard| shard.bytes), self.shard_bytes)?;
        check_sum("kinds of images", self.kinds.values().copied(), self.samples)?;
        if self.block_samples == 0 || self.components.is_empty() {
            return wrong("block_samples is 0, or there are no components".to_owned());
        }
        let mut total = self.ledger.unclassified;
        // Where there are classes, each sample has one.
        if !total.balance() || total.packed > 0 && !self.classes.is_empty() {
            return wrong("unclassified: discovered is not skipped + filtered".to_owned());
        }
        for class in &self.classes {
            if !class.counts.balance() {
                return wrong(format!(
                    "class {}: discovered is not packed + skipped + duplicates + filtered",
                    class.name
                ));
            }
            total.add(&class.counts);
        }
        if total != self.ledger.counts || total.packed != self.samples {
            return wrong(format!("the classes hold {} samples, the ledger and the shards disagree", total.packed));
        }
        let mut names = HashSet::new();
        for shard in &self.shards {
            let index = shard.index.file.strip_prefix("index/").unwrap_or("");
            for name in [shard.file.as_str(), index] {
                if !is_plain_name(name) {
                    return wrong(format!(
                        "shard {:?} with index {:?}: not plain names of files in its own folder",
                        shard.file, shard.index.file
                    ));
                }
            }
            if is_own_name(&shard.file) || !index.ends_with(".index") {
                return wrong(format!(
                    "shard {:?} with index {:?}: a name that the dataset needs for another file, or none of an index",
                    shard.file, shard.index.file
                ));
            }
            if !names.insert(shard.file.as_str()) || !names.insert(shard.index.file.as_str()) {
                return wrong(format!("shard {:?} is listed twice", shard.file));
            }
        }
        for sidecar in &self.sidecars {
            // One reader names its folder `.nv-meta/`.
            let name = sidecar
                .file
                .strip_prefix(".nv-meta/")
                .map_or(sidecar.file.as_str(), |name| name.trim_start_matches('.'));
            if !is_plain_name(name) || is_own_name(&sidecar.file) || !names.insert(sidecar.file.as_str()) {
                return wrong(format!("sidecar {:?}: not a plain file name, or listed twice", sidecar.file));
            }
        }
        match &self.ledger.file {
            Some(ledger) if ledger.file != LEDGER_FILE => wrong(format!("ledger {:?}: not {LEDGER_FILE}", ledger.file)),
            None if total.packed != total.discovered => {
                wrong(format!("samples are missing and there is no {LEDGER_FILE}"))
            }
            _ => Ok(()),
        }
    }

    /// The list of hashes for `b3sum --check`: every file of the dataset but the manifest and itself.
    pub fn sums(&self) -> String {
        let ledger = self.ledger.file.iter().map(|file| (&file.file, &file.blake3));
        let shards = self
            .shards
            .iter()
            .flat_map(|shard| [(&shard.file, &shard.blake3), (&shard.index.file, &shard.index.blake3)]);
        let sidecars = self.sidecars.iter().map(|file| (&file.file, &file.blake3));
        shards
            .chain(ledger)
            .chain(sidecars)
            .map(|(file, blake3)| format!("{}  {file}\n", hash::hex(&blake3.0)))
            .collect()
    }
}

fn check_sum(what: &str, mut parts: impl Iterator<Item = u64>, total: u64) -> Result<()> {
    match parts.try_fold(0u64, |sum, part| sum.checked_add(part)) {
        Some(sum) if sum == total => Ok(()),
        Some(sum) => Err(Error::data(format!("{what}: the parts add up to {sum}, the total is {total}"))),
        None => Err(Error::data(format!("{what}: the parts add up to more than 2^64"))),
    }
}

/// Whether something of the dataset itself is called so, or would be on a file system that knows no upper case.
pub(crate) fn is_own_name(name: &str) -> bool {
    let own = [FILE, SUMS_FILE, LEDGER_FILE, splits::FILE, INDEX_FOLDER];
    own.iter().any(|own| name.eq_ignore_ascii_case(own)) || name.to_ascii_lowercase().starts_with(WORK_FOLDER)
}

/// Whether `name` is a single file name that stays in its folder.
fn is_plain_name(name: &str) -> bool {
    !name.is_empty()
        && !name.starts_with('.')
        && name.len() <= 255
        && !name.contains(|c: char| c == '/' || c == '\\' || c.is_control())
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) fn small() -> Manifest {
        let counts = |packed, skipped| Counts { discovered: packed + skipped, packed, skipped, ..Counts::default() };
        let file = |name: &str| File { file: name.into(), bytes: 10, blake3: Blake3([1; 32]) };
        Manifest {
            schema: SCHEMA.into(),
            id: Blake3::default(),
            name: "train".into(),
            format: Format { name: "webdataset".into(), compression: "none".into(), settings: BTreeMap::new() },
            order: Order { algorithm: "source".into(), seed: 0 },
            recipe: None,
            samples: 3,
            payload_bytes: 100,
            shard_bytes: 20_480,
            block_samples: 2,
            components: vec!["jpg".into(), "cls".into()],
            kinds: BTreeMap::from([("jpeg".into(), 3)]),
            ledger: Ledger { counts: counts(3, 1), unclassified: Counts::default(), file: Some(file(LEDGER_FILE)) },
            ignored_files: BTreeMap::new(),
            plan: Blake3([9; 32]),
            classes: vec![
                Class::new(b"a", counts(2, 1)),
                Class::new(b"\xff", counts(1, 0)),
                Class::new(b"e", counts(0, 0)),
            ],
            shards: (0..2)
                .map(|n| Shard {
                    file: format!("train-{n:06}.tar"),
                    samples: 2 - n,
                    bytes: 10_240,
                    blake3: Blake3([2; 32]),
                    index: file(&format!("index/train-{n:06}.index")),
                })
                .collect(),
            sidecars: vec![],
        }
    }

    #[test]
    fn it_comes_back_as_it_was_and_its_id_is_that_of_the_file_with_zeros() {
        let (bytes, id) = small().to_bytes().unwrap();
        let read = Manifest::read(&bytes).unwrap();
        assert_eq!(read, Manifest { id, ..small() });
        assert_eq!(read.classes[1].name_bytes(), b"\xff");
        read.check_id(&bytes).unwrap();
        let zeroed = String::from_utf8(bytes).unwrap().replace(&hash::hex(&id.0), &"0".repeat(64));
        assert_eq!(hash::file(zeroed.as_bytes()), id.0);
    }

    #[test]
    fn every_flipped_bit_and_every_cut_is_an_error() {
        let (bytes, _) = small().to_bytes().unwrap();
        let reads = |bytes: &[u8]| Manifest::read(bytes).and_then(|manifest| manifest.check_id(bytes));
        assert!(reads(&bytes).is_ok());
        for at in 0..bytes.len() {
            assert!(reads(&bytes[..at]).is_err(), "cut at {at}");
            for bit in 0..8 {
                let mut bytes = bytes.clone();
                bytes[at] ^= 1 << bit;
                assert!(reads(&bytes).is_err(), "bit {bit} of byte {at}");
            }
        }
    }

    #[test]
    fn contradictions_are_refused() {
        type Change = fn(&mut Manifest);
        let changes: [(&str, Change); 13] = [
            ("schema", |m| m.schema = "shardpack-manifest/2".into()),
            ("samples", |m| m.samples = 4),
            ("samples that overflow", |m| m.shards.iter_mut().for_each(|shard| shard.samples = u64::MAX)),
            ("bytes", |m| m.shard_bytes += 1),
            ("kinds", |m| m.kinds.clear()),
            ("class counts", |m| m.classes[0].counts.packed += 1),
            ("unclassified", |m| m.ledger.unclassified.packed = 1),
            ("ledger counts", |m| m.ledger.counts.skipped += 1),
            ("no ledger", |m| m.ledger.file = None),
            ("parent folder", |m| m.shards[0].file = "../train-000000.tar".into()),
            ("absolute index", |m| m.shards[0].index.file = "/etc/passwd".into()),
            ("index in a folder above", |m| m.shards[0].index.file = "index/../../x".into()),
            ("twice", |m| m.shards[1].file = m.shards[0].file.clone()),
        ];
        for (name, change) in changes {
            let mut manifest = small();
            change(&mut manifest);
            let (bytes, _) = manifest.to_bytes().unwrap();
            assert!(Manifest::read(&bytes).is_err(), "{name}");
        }
    }

    #[test]
    fn names_that_the_dataset_needs_itself_are_none_of_a_shard_or_sidecar() {
        let own =
            ["manifest.json", "BLAKE3SUMS", "ledger.jsonl", "splits.json", "index", "Manifest.JSON", ".shardpack"];
        for name in own.into_iter().chain([".shardpack-repair", "index/train-000001.index"]) {
            let mut shard = small();
            shard.shards[0].file = name.into();
            let mut sidecar = small();
            sidecar.sidecars = vec![File { file: name.into(), bytes: 1, blake3: Blake3([1; 32]) }];
            for manifest in [shard, sidecar] {
                assert!(Manifest::read(&manifest.to_bytes().unwrap().0).is_err(), "{name}");
            }
        }
        let mut manifest = small();
        manifest.shards[0].index.file = "index/train-000001.crops".into();
        assert!(Manifest::read(&manifest.to_bytes().unwrap().0).is_err());
    }

    #[test]
    fn sums_are_what_b3sum_reads() {
        let sums = small().sums();
        assert_eq!(sums.lines().count(), 5);
        assert_eq!(sums.lines().next(), Some(format!("{}  train-000000.tar", "02".repeat(32)).as_str()));
    }
}

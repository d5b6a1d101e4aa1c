//! Sidecars: small files for certain readers, written beside the shards after all shards are sealed.
//!
//! Each format defines its own sidecars. The sidecars with class names are here, because every format offers them.

use std::{collections::BTreeMap, fmt::Write as _};

use serde::{Serialize, Serializer, ser::SerializeMap as _};

use crate::{Error, Result, index::Index, manifest};

/// A kind of sidecar.
#[derive(Clone, Copy, Debug)]
pub struct Kind {
    /// Name on the command line.
    pub name: &'static str,
    /// Its readers and its purpose, for help texts.
    pub about: &'static str,
    /// Names of all files that it may have, relative to the dataset: see [`Kind::names`].
    pub files: &'static [&'static str],
    /// Whether `--sidecars auto` writes it.
    pub auto: bool,
    /// Whether each shard has its own files of this kind, made from the index of that shard alone:
    /// [`super::Format::shard_sidecar`].
    pub of_shards: bool,
    /// Checks a sample's path before anything is packed, for sidecars that cannot represent every path.
    pub path_fits: Option<fn(&[u8]) -> Result<()>>,
    /// Facts about a kind that describes the whole dataset for a catalogue of datasets.
    pub catalogue: Option<&'static Catalogue>,
}

/// A kind of sidecar for catalogues of datasets: one file in each dataset, and one beside splits that describes all of them.
#[derive(Clone, Copy, Debug)]
pub struct Catalogue {
    /// Name of the file, in a dataset and beside splits.
    pub file: &'static str,
    /// Text that every such file contains. People give other files the same name, so a file without it is not ours.
    pub mark: &'static str,
    /// The hashes of shards that it contains: see [`crate::hash::Named`].
    pub hashes: &'static [&'static str],
    /// The bytes of the file beside these splits.
    pub of_splits: fn(&[OfSplit<'_>]) -> Result<Vec<u8>>,
}

/// A sealed split, as the file beside the splits sees it.
#[derive(Clone, Copy, Debug)]
pub struct OfSplit<'a> {
    /// The folder of the split.
    pub folder: &'a str,
    /// The manifest of the split, with its id.
    pub manifest: &'a manifest::Manifest,
    /// The file of the same kind in the split.
    pub own: &'a [u8],
}

/// All catalogues of all formats.
fn catalogues() -> impl Iterator<Item = &'static Catalogue> {
    super::ALL.iter().flat_map(|entry| entry.sidecars).filter_map(|kind| kind.catalogue)
}

/// Names of all files that may lie beside splits.
pub fn beside_splits() -> impl Iterator<Item = &'static str> {
    catalogues().map(|catalogue| catalogue.file)
}

/// Whether people give the name of the file at `path` to files of their own, so that [`is_ours`] decides by the content.
pub fn is_shared_name(path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or_default();
    catalogues().any(|catalogue| catalogue.file == name)
}

/// Whether `bytes` may be a file that this program wrote at `path`.
pub fn is_ours(path: &str, bytes: &[u8]) -> bool {
    let name = path.rsplit('/').next().unwrap_or_default();
    let of_name = catalogues().find(|catalogue| catalogue.file == name);
    let has = |mark: &str| bytes.windows(mark.len()).any(|bytes| bytes == mark.as_bytes());
    of_name.is_none_or(|catalogue| has(catalogue.mark))
}

impl Kind {
    /// Names of all files that it may have in the dataset `name` with these shards: its [`Kind::files`], with `{name}` replaced by the
    /// name of the dataset, `{shard}` by that of each shard, and `{stem}` by that of each shard without its last extension.
    pub fn names<'s>(&self, name: &str, shards: impl Iterator<Item = &'s str> + Clone) -> Vec<String> {
        let of_shard = |file: &str, shard: &str| {
            let stem = shard.rsplit_once('.').map_or(shard, |(stem, _)| stem);
            file.replace("{shard}", shard).replace("{stem}", stem)
        };
        let mut names = Vec::new();
        for file in self.files {
            match file.contains("{shard}") || file.contains("{stem}") {
                true => names.extend(shards.clone().map(|shard| of_shard(file, shard))),
                false => names.push(file.replace("{name}", name)),
            }
        }
        names
    }
}

/// A sealed shard, as its sidecars see it.
pub struct Sealed<'a> {
    /// As the manifest has it.
    pub shard: &'a manifest::Shard,
    /// Its index.
    pub index: &'a Index<Vec<u8>>,
    /// Names of the components, as in the manifest.
    pub components: &'a [String],
    /// `none`, or the compression of the shards.
    pub compression: &'a str,
}

/// A sealed dataset, as its sidecars see it.
pub struct Dataset<'a> {
    /// Name of the dataset: the split, or the value of `--name`.
    pub name: &'a str,
    /// Its shards in order.
    pub shards: &'a [manifest::Shard],
    /// Its classes in the order of their labels.
    pub classes: &'a [manifest::Class],
    /// Number of its samples.
    pub samples: u64,
    /// Number of its images of each kind, as in the manifest.
    pub kinds: &'a BTreeMap<String, u64>,
    /// Names of the components, as in the manifest.
    pub components: &'a [String],
    /// Settings of the format, as in the manifest.
    pub settings: &'a BTreeMap<String, String>,
    /// `none`, or the compression of the shards.
    pub compression: &'a str,
    /// Hashes of each shard file by name, in lower-case hexadecimal: those of [`super::Format::file_hashes`].
    pub hashes: &'a [BTreeMap<String, String>],
    /// Length in bytes and hashes of each shard before compression; empty if shards are not compressed.
    pub unpacked: &'a [(u64, BTreeMap<String, String>)],
    /// Opens the index of a shard.
    pub index: &'a (dyn Fn(usize) -> Result<Index<Vec<u8>>> + Sync),
}

/// Takes the bytes of sidecars, file by file.
pub trait Files {
    /// Ends the previous file and begins a new one; `name` is relative to the dataset's folder, with `/` between folders.
    ///
    /// # Errors
    /// If the file cannot be created.
    fn begin(&mut self, name: &str) -> Result<()>;

    /// Appends to the current file.
    ///
    /// # Errors
    /// If the file cannot be written.
    fn write(&mut self, bytes: &[u8]) -> Result<()>;
}

/// `classes.txt`: line n, from 0, is the name of the class with label n.
pub(super) const CLASSES: Kind = Kind {
    name: "classes",
    about: "names of the classes in the order of their labels: classes.txt",
    files: &["classes.txt"],
    auto: false,
    of_shards: false,
    path_fits: None,
    catalogue: None,
};

/// `labels.json`: an object from class names to labels.
pub(super) const LABELS: Kind =
    Kind { name: "labels", about: "label of each class by its name: labels.json", files: &["labels.json"], ..CLASSES };

/// Writes [`CLASSES`] or [`LABELS`]; writes nothing if there are no classes.
///
/// # Errors
/// If `name` is neither, or `files` fails. `format` is for the message.
pub(super) fn write(format: &str, name: &str, dataset: &Dataset<'_>, files: &mut dyn Files) -> Result<()> {
    let write = match name {
        "classes" => classes,
        "labels" => labels,
        _ => return Err(Error::usage(format!("{format} has no sidecar {name:?}"))),
    };
    if dataset.classes.is_empty() { Ok(()) } else { write(dataset, files) }
}

/// Line breaks, and bytes that are not UTF-8, are escaped as `\n`, `\u{85}`, `\xff`.
fn classes(dataset: &Dataset<'_>, files: &mut dyn Files) -> Result<()> {
    files.begin("classes.txt")?;
    let lines: String = dataset.classes.iter().map(|class| readable(&class.name_bytes(), true) + "\n").collect();
    files.write(lines.as_bytes())
}

/// Bytes that are not UTF-8 are escaped as `\xff`.
fn labels(dataset: &Dataset<'_>, files: &mut dyn Files) -> Result<()> {
    let names: Vec<_> = dataset.classes.iter().map(|class| readable(&class.name_bytes(), false)).collect();
    json("labels.json", &Pairs::new(names.iter().map(String::as_str).zip(0..)), files)
}

/// `name` as text; on one line, in the sense of Python's `splitlines`, if `is_line`.
pub(super) fn readable(name: &[u8], is_line: bool) -> String {
    let mut text = String::with_capacity(name.len());
    for chunk in name.utf8_chunks() {
        for character in chunk.valid().chars() {
            match character {
                '\u{2028}' | '\u{2029}' if is_line => text.extend(character.escape_default()),
                _ if is_line && character.is_control() => text.extend(character.escape_default()),
                _ => text.push(character),
            }
        }
        for byte in chunk.invalid() {
            // Writing to a string cannot fail.
            let _ = write!(text, "\\x{byte:02x}");
        }
    }
    text
}

/// A JSON object of numbers with its keys in the given order.
pub(crate) struct Pairs<'a>(Vec<(&'a str, u64)>);

impl<'a> Pairs<'a> {
    /// The object of `pairs`.
    pub(crate) fn new(pairs: impl Iterator<Item = (&'a str, u64)>) -> Self {
        Self(pairs.collect())
    }
}

impl Serialize for Pairs<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.0.len()))?;
        for (key, value) in &self.0 {
            map.serialize_entry(key, value)?;
        }
        map.end()
    }
}

/// Writes the file `name`: `value` as indented JSON, and a newline.
pub(crate) fn json(name: &str, value: &impl Serialize, files: &mut dyn Files) -> Result<()> {
    let mut bytes =
        serde_json::to_vec_pretty(value).map_err(|error| Error::data(format!("cannot write {name}: {error}")))?;
    bytes.push(b'\n');
    files.begin(name)?;
    files.write(&bytes)
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::formats;

    /// Files in memory, in the order of their creation.
    #[derive(Default)]
    pub(crate) struct Memory(pub Vec<(String, Vec<u8>)>);

    impl Memory {
        pub(crate) fn text(&self) -> Vec<(&str, &str)> {
            self.0.iter().map(|(name, bytes)| (name.as_str(), std::str::from_utf8(bytes).unwrap())).collect()
        }
    }

    impl Files for Memory {
        fn begin(&mut self, name: &str) -> Result<()> {
            assert!(self.0.iter().all(|(known, _)| known != name), "{name} twice");
            self.0.push((name.to_owned(), Vec::new()));
            Ok(())
        }

        fn write(&mut self, bytes: &[u8]) -> Result<()> {
            self.0.last_mut().unwrap().1.extend_from_slice(bytes);
            Ok(())
        }
    }

    /// No kinds of images.
    pub static NO_KINDS: BTreeMap<String, u64> = BTreeMap::new();
    /// No settings.
    pub static NO_SETTINGS: BTreeMap<String, String> = BTreeMap::new();

    fn dataset(classes: &[manifest::Class]) -> Dataset<'_> {
        Dataset {
            name: "train",
            shards: &[],
            classes,
            samples: 0,
            kinds: &NO_KINDS,
            components: &[],
            settings: &NO_SETTINGS,
            compression: "none",
            hashes: &[],
            unpacked: &[],
            index: &|_| Err(Error::usage("not asked for")),
        }
    }

    #[test]
    fn classes_are_one_a_line_whatever_they_are_called() {
        let names: [&[u8]; 4] = [b"tench", b"two\nlines\x7f", b"\xffx", "ä b\u{2028}\u{85}".as_bytes()];
        let classes: Vec<_> =
            names.iter().map(|name| manifest::Class::new(name, manifest::Counts::default())).collect();
        let mut files = Memory::default();
        for kind in [CLASSES, LABELS] {
            write("any", kind.name, &dataset(&classes), &mut files).unwrap();
        }
        let lines = "tench\ntwo\\nlines\\u{7f}\n\\xffx\nä b\\u{2028}\\u{85}\n";
        let object =
            "{\n  \"tench\": 0,\n  \"two\\nlines\x7f\": 1,\n  \"\\\\xffx\": 2,\n  \"ä b\u{2028}\u{85}\": 3\n}\n";
        assert_eq!(files.text(), [("classes.txt", lines), ("labels.json", object)]);
    }

    #[test]
    fn without_classes_there_is_nothing_to_write() {
        let mut files = Memory::default();
        for kind in [CLASSES, LABELS] {
            write("any", kind.name, &dataset(&[]), &mut files).unwrap();
        }
        assert!(files.0.is_empty());
    }

    #[test]
    fn every_format_names_the_classes_and_refuses_what_it_does_not_know() {
        let classes = [manifest::Class::new(b"tench", manifest::Counts::default())];
        for entry in formats::ALL {
            let format = formats::open(&formats::Choice::new(entry.name)).unwrap();
            let mut files = Memory::default();
            for kind in [CLASSES, LABELS] {
                assert!(entry.sidecars.iter().any(|known| known.name == kind.name), "{}", entry.name);
                format.sidecar(kind.name, &dataset(&classes), &mut files).unwrap();
            }
            let labels = "{\n  \"tench\": 0\n}\n";
            assert_eq!(files.text(), [("classes.txt", "tench\n"), ("labels.json", labels)], "{}", entry.name);
            let error = format.sidecar("other", &dataset(&classes), &mut files).unwrap_err();
            assert_eq!(error.to_string(), format!("{} has no sidecar \"other\"", entry.name));
        }
    }

    #[test]
    fn names_of_files_follow_from_the_dataset_and_its_shards() {
        let files = |format: &str, kind: &str| {
            let kinds = formats::entry(format).unwrap().sidecars;
            let shards = ["a-0.x", "a-1.x"];
            kinds.iter().find(|known| known.name == kind).unwrap().names("train", shards.into_iter())
        };
        assert_eq!(files("webdataset", "dali"), ["a-0.idx", "a-1.idx"]);
        assert_eq!(files("tfrecord", "dali"), ["a-0.x.idx", "a-1.x.idx"]);
        assert_eq!(files("recordio", "lst"), ["train.lst"]);
        assert_eq!(files("mds", "labels"), ["labels.json"]);
    }

    #[test]
    fn auto_means_what_each_format_s_readers_need() {
        let auto = |entry: &formats::Entry| {
            let names = entry.sidecars.iter().filter(|kind| kind.auto).map(|kind| kind.name);
            (entry.name, names.collect::<Vec<_>>())
        };
        let expected = [
            ("webdataset", vec!["dali", "wids", "energon", "timm", "openclip", "classes"]),
            ("tfrecord", vec!["dali"]),
            ("recordio", vec!["idx", "dali", "lst"]),
            ("mds", vec!["index"]),
        ];
        assert_eq!(formats::ALL.iter().map(auto).collect::<Vec<_>>(), expected);
    }
}

//! Reads packed datasets slowly and simply, and fails the test if any part is inconsistent.
//!
//! The checks read shards with the `tar` crate and compare them with the source tree, not with reports of the packer.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    io::Read,
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
};

use shardpack_format::{
    hash,
    index::Index,
    manifest::{self, Counts, Manifest},
};
use shardpack_source::ledger::{self, Fate, Unpacked};

use crate::{Bench, name};

/// The sealed dataset in DST, after it was compared with the source.
pub fn sealed(bench: &Bench) -> Dataset {
    let dataset = Dataset::read(&bench.dst());
    dataset.check_source(&bench.src());
    dataset
}

/// Label and bytes of every image, sorted.
pub fn images(folder: &Path) -> Vec<(i64, Vec<u8>)> {
    let dataset = shardpack_reader::Dataset::open(folder).unwrap();
    let mut reader = dataset.reader(..).unwrap().check_content(true);
    let mut images = Vec::new();
    while let Some(sample) = reader.next().unwrap() {
        images.push((sample.label().unwrap(), sample.bytes().to_vec()));
    }
    images.sort();
    images
}

/// All entries below `folder`: the BLAKE3 hash for a file, an empty string for a folder. Does not follow links.
pub fn contents(folder: &Path) -> BTreeMap<PathBuf, String> {
    let mut out = BTreeMap::new();
    let mut todo = vec![folder.to_path_buf()];
    while let Some(at) = todo.pop() {
        for entry in fs::read_dir(&at).unwrap() {
            let path = entry.unwrap().path();
            let relative = path.strip_prefix(folder).unwrap().to_path_buf();
            if fs::symlink_metadata(&path).unwrap().is_dir() {
                out.insert(relative, String::new());
                todo.push(path);
            } else {
                out.insert(relative, hash::hex(&hash::file(&fs::read(&path).unwrap())));
            }
        }
    }
    out
}

/// One hash over [`contents`].
pub fn folder_hash(folder: &Path) -> String {
    let lines: Vec<u8> = contents(folder)
        .into_iter()
        .flat_map(|(path, hash)| [path.as_os_str().as_bytes(), b"\0", hash.as_bytes(), b"\n"].concat())
        .collect();
    hash::hex(&hash::file(&lines))
}

/// A sample in a shard.
#[derive(Debug)]
pub struct Packed {
    /// Key.
    pub key: String,
    /// Original path, from the index.
    pub path: Vec<u8>,
    /// Label, from the index.
    pub label: i64,
    /// Members by extension.
    pub components: BTreeMap<String, Vec<u8>>,
}

/// Names and bytes of the members of a tar file, plain or `.zst`, in order.
pub fn members(path: &Path) -> Vec<(String, Vec<u8>)> {
    let bytes = plain(path);
    let mut archive = tar::Archive::new(bytes.as_slice());
    let entries = archive.entries().unwrap().map(|entry| {
        let mut entry = entry.unwrap();
        let header = entry.header();
        assert_eq!((header.mtime().unwrap(), header.uid().unwrap(), header.gid().unwrap()), (0, 0, 0));
        assert_eq!(header.mode().unwrap(), 0o644);
        assert!(header.entry_type().is_file());
        let name = String::from_utf8(entry.path_bytes().into_owned()).unwrap();
        let mut bytes = Vec::new();
        entry.read_to_end(&mut bytes).unwrap();
        (name, bytes)
    });
    entries.collect()
}

/// The bytes of a shard, decompressed if it is `.zst`.
pub fn plain(path: &Path) -> Vec<u8> {
    let bytes = fs::read(path).unwrap();
    match path.extension().is_some_and(|extension| extension == "zst") {
        true => zstd::decode_all(bytes.as_slice()).unwrap(),
        false => bytes,
    }
}

/// A sealed dataset, read in a slow and simple way. [`Dataset::read`] fails the test if any part is inconsistent.
#[derive(Debug)]
pub struct Dataset {
    /// Its manifest.
    pub manifest: Manifest,
    /// Its samples in order.
    pub samples: Vec<Packed>,
    /// Its ledger.
    pub ledger: Vec<Unpacked>,
}

impl Dataset {
    /// Reads the whole dataset in `dst` and compares manifest, shards, indexes, sums and ledger with each other.
    pub fn read(dst: &Path) -> Self {
        let bytes = fs::read(dst.join(manifest::FILE)).unwrap();
        let manifest = Manifest::read(&bytes).unwrap();
        manifest.check_id(&bytes).unwrap();
        assert_eq!(fs::read_to_string(dst.join(manifest::SUMS_FILE)).unwrap(), manifest.sums());
        let mut expected =
            BTreeSet::from([manifest::FILE, manifest::SUMS_FILE, manifest::INDEX_FOLDER].map(str::to_owned));
        for sidecar in &manifest.sidecars {
            let found = fs::read(dst.join(&sidecar.file)).unwrap();
            assert_eq!((sidecar.bytes, sidecar.blake3.0), (found.len() as u64, hash::file(&found)), "{}", sidecar.file);
            expected.insert(sidecar.file.clone());
            expected.extend(sidecar.file.split_once('/').map(|(folder, _)| folder.to_owned()));
        }
        let mut samples = Vec::new();
        for shard in &manifest.shards {
            expected.extend([shard.file.clone(), shard.index.file.clone()]);
            let (file, index) =
                (fs::read(dst.join(&shard.file)).unwrap(), fs::read(dst.join(&shard.index.file)).unwrap());
            assert_eq!((shard.bytes, shard.blake3.0), (file.len() as u64, hash::file(&file)), "{}", shard.file);
            assert_eq!((shard.index.bytes, shard.index.blake3.0), (index.len() as u64, hash::file(&index)));
            let read = read_shard(&dst.join(&shard.file), index);
            assert_eq!(read.len() as u64, shard.samples, "{}", shard.file);
            samples.extend(read);
        }
        let ledger = match &manifest.ledger.file {
            None => Vec::new(),
            Some(file) => {
                expected.insert(file.file.clone());
                let bytes = fs::read(dst.join(&file.file)).unwrap();
                assert_eq!((file.bytes, file.blake3.0), (bytes.len() as u64, hash::file(&bytes)));
                ledger::read(&bytes).unwrap()
            }
        };
        let found: BTreeSet<String> = contents(dst).into_keys().map(|path| path.to_str().unwrap().to_owned()).collect();
        assert_eq!(found, expected, "strangers in {}, or files that are missing", dst.display());
        let dataset = Self { manifest, samples, ledger };
        dataset.check_conservation();
        dataset
    }

    /// Checks discovered = packed + skipped + duplicates + filtered for each class, with counts of samples and ledger lines.
    fn check_conservation(&self) {
        let mut counted = vec![Counts::default(); self.manifest.classes.len()];
        let (mut paths, mut unclassified) = (BTreeSet::new(), Counts::default());
        for sample in &self.samples {
            assert!(paths.insert(&sample.path), "packed twice: {}", String::from_utf8_lossy(&sample.path));
            counted[sample.label as usize].packed += 1;
        }
        for line in &self.ledger {
            assert!(!line.reason.is_empty());
            if line.fate == Fate::Kept {
                assert!(self.samples.iter().any(|sample| sample.path == line.path), "{line:?} is not packed");
                continue;
            }
            assert!(paths.insert(&line.path), "twice: {}", String::from_utf8_lossy(&line.path));
            let class = line.class.map_or(&mut unclassified, |class| &mut counted[class as usize]);
            match line.fate {
                Fate::Skipped => class.skipped += 1,
                Fate::Filtered => class.filtered += 1,
                Fate::Duplicate => class.duplicates += 1,
                Fate::Kept => unreachable!("passed over"),
            }
        }
        unclassified.discovered = unclassified.skipped + unclassified.filtered;
        assert_eq!(self.manifest.ledger.unclassified, unclassified);
        let mut total = unclassified;
        for (class, mut counts) in self.manifest.classes.iter().zip(counted) {
            counts.discovered = counts.packed + counts.skipped + counts.duplicates + counts.filtered;
            assert_eq!(class.counts, counts, "class {}", class.name);
            total.add(&counts);
        }
        assert_eq!(self.manifest.ledger.counts, total);
        assert_eq!(self.manifest.samples, total.packed);
        let payload: usize = self.samples.iter().map(|sample| sample.image().len()).sum();
        assert_eq!(self.manifest.payload_bytes, payload as u64);
    }

    /// Fails the test unless every sample equals its file in `src`, byte for byte, and has the label of its class.
    pub fn check_source(&self, src: &Path) {
        let names: Vec<Vec<u8>> = self.manifest.classes.iter().map(manifest::Class::name_bytes).collect();
        assert!(names.is_sorted());
        for sample in &self.samples {
            let path = name(&sample.path);
            let same = fs::read(src.join(&path)).unwrap() == sample.image();
            assert!(same, "{path:?} is not what was packed");
            let class = sample.path.split(|byte| *byte == b'/').next().unwrap();
            assert_eq!(names[sample.label as usize], class, "{path:?}");
            if let Some(cls) = sample.components.get("cls") {
                assert_eq!(cls, sample.label.to_string().as_bytes());
            }
        }
    }

    /// The original paths of all packed samples, as text, sorted.
    pub fn paths(&self) -> Vec<String> {
        let mut paths: Vec<String> =
            self.samples.iter().map(|sample| String::from_utf8_lossy(&sample.path).into_owned()).collect();
        paths.sort();
        paths
    }

    /// Original path, fate and reason of each ledger line, sorted by path.
    pub fn unpacked(&self) -> Vec<(String, Fate, String)> {
        let mut lines: Vec<_> = self
            .ledger
            .iter()
            .map(|line| (String::from_utf8_lossy(&line.path).into_owned(), line.fate, line.reason.to_string()))
            .collect();
        lines.sort_by(|a, b| a.0.cmp(&b.0));
        lines
    }

    /// Names of the classes, in label order.
    pub fn classes(&self) -> Vec<&str> {
        self.manifest.classes.iter().map(|class| class.name.as_str()).collect()
    }
}

impl Packed {
    /// The image, with any extension.
    pub fn image(&self) -> &[u8] {
        let (_, bytes) = self.components.iter().find(|(name, _)| !["cls", "json"].contains(&name.as_str())).unwrap();
        bytes
    }
}

/// Reads the samples of a shard, grouped by key, and fails the test unless the index agrees.
fn read_shard(path: &Path, index: Vec<u8>) -> Vec<Packed> {
    let index = Index::open(index).unwrap();
    let bytes = plain(path);
    assert_eq!(index.summary().content_bytes, bytes.len() as u64);
    let mut samples: Vec<Packed> = Vec::new();
    for (name, bytes) in members(path) {
        let (key, extension) = name.split_once('.').unwrap();
        if samples.last().is_none_or(|sample| sample.key != key) {
            let row = index.row(samples.len() as u64).unwrap();
            assert_eq!(row.key, key.as_bytes());
            let (path, label) = (row.path.to_vec(), row.label.unwrap());
            samples.push(Packed { key: key.to_owned(), path, label, components: BTreeMap::new() });
        }
        assert!(samples.last_mut().unwrap().components.insert(extension.to_owned(), bytes).is_none(), "{name} twice");
    }
    assert_eq!(index.len(), samples.len() as u64);
    for (number, sample) in samples.iter().enumerate() {
        let row = index.row(number as u64).unwrap();
        let (offset, length) = row.payload();
        assert_eq!(&bytes[offset as usize..][..length as usize], sample.image());
        assert_eq!(row.content_hash, hash::content(sample.image()));
    }
    samples
}

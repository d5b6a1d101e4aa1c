//! Compares a shard with the `index.json` beside it: lengths and hashes of the file and of its decompressed content.
//!
//! Source: mosaicml-streaming `base/format/base/reader.py` for `index.json`.

use std::{collections::BTreeMap, path::Path};

use shardpack_format::{Error, ErrorKind, Result, formats::mds, hash::digest, size, text};
use shardpack_storage::sys;

use super::{FileLocation, ShardFile, location::BUFFER_BYTES};

/// Name of the index of an MDS dataset, and of one of LitData.
pub const INDEX_JSON: &str = "index.json";

/// The `index.json` in `folder`, if it lists shards or should.
pub(super) fn read_index(folder: &Path) -> Result<Option<Result<mds::IndexJson>>> {
    let path = folder.join(INDEX_JSON);
    let index = match sys::read_opt(&path)? {
        Some(bytes) => Some(mds::read_index(&bytes)),
        None if path.is_symlink() => Some(Err(Error::data(sys::missing(&path, "is gone")))),
        None => None,
    };
    Ok(index.map(|index| index.map_err(|error| error.in_file(&path))))
}

/// Result of the comparison.
#[derive(Debug, Default)]
pub struct Compared {
    /// Files that differ from the index or are unreadable; each error names its file.
    pub problems: Vec<Error>,
    /// One line for each check that was impossible.
    pub notes: Vec<String>,
}

impl ShardFile {
    /// The error if the number of samples in the `index.json` differs from `samples`.
    pub fn differing_samples(&self, samples: u64) -> Option<Error> {
        let expected = self.expected.as_ref().filter(|expected| expected.samples != samples)?;
        let what = format!("{}, {} in index.json", size::counted(samples, "sample"), expected.samples);
        Some(Error::data(what).in_file(&self.path))
    }

    /// Compares lengths and hashes in an `index.json` with its files; `quick` compares lengths only. If only the compressed
    /// file exists, the index describes its decompressed content.
    ///
    /// # Errors
    /// If `check_cancelled`, which is called regularly, cancels.
    pub fn compare(&self, quick: bool, check_cancelled: &dyn Fn() -> Result<()>) -> Result<Compared> {
        let mut compared = Compared::default();
        let Some(expected) = &self.expected else { return Ok(compared) };
        let raw = &expected.raw_data;
        // Where the index lies: a name in it may have folders.
        let depth = |name: &str| Path::new(name).components().count();
        let names = [Some(raw), expected.zip_data.as_ref()].into_iter().flatten().map(|file| file.basename.as_str());
        let own = names.into_iter().find(|name| self.path.ends_with(name)).unwrap_or(&raw.basename);
        let folder = self.path.ancestors().nth(depth(own)).unwrap_or(Path::new(""));
        let raw_path = folder.join(&raw.basename);
        // At a URL it is the file itself that is compared, and no other that may be there.
        let there = |path: &Path| match &self.remote {
            None => Ok(sys::metadata_opt(path)?.map(|meta| (FileLocation::from(path), meta.len()))),
            Some(remote) => Ok((remote.path() == path).then(|| (FileLocation::Remote(remote.clone()), remote.bytes()))),
        };
        match there(&raw_path) {
            Ok(Some((place, bytes))) => compared.file(&place, raw, bytes, quick, check_cancelled)?,
            Ok(None) if quick => {}
            Ok(None) => {
                let (names, unknown) = raw.known_hashes();
                let unpacked = self.input().and_then(|mut input| digest(&mut input.bytes, names, check_cancelled));
                match unpacked {
                    Ok(found) => compared.add(&self.path, " unpacked", raw, found, &unknown),
                    Err(error) if error.kind() == ErrorKind::Interrupted => return Err(error),
                    // The walk reports the decompression error.
                    Err(_) => {}
                }
            }
            Err(error) => compared.problems.push(error),
        }
        if let Some(zip) = &expected.zip_data {
            let path = folder.join(&zip.basename);
            match there(&path) {
                Ok(Some((place, bytes))) => compared.file(&place, zip, bytes, quick, check_cancelled)?,
                Ok(None) => {}
                Err(error) => compared.problems.push(error),
            }
        }
        Ok(compared)
    }
}

impl Compared {
    /// Compares a file as it lies there.
    fn file(
        &mut self,
        place: &FileLocation,
        expected: &mds::File,
        bytes: u64,
        quick: bool,
        check_cancelled: &dyn Fn() -> Result<()>,
    ) -> Result<()> {
        let (names, unknown) = if quick { Default::default() } else { expected.known_hashes() };
        let path = place.path();
        let found = match names.is_empty() {
            true => Ok((bytes, BTreeMap::new())),
            false => place.stream(BUFFER_BYTES).and_then(|mut bytes| digest(&mut bytes, names, check_cancelled)),
        };
        match place.prefer_network_error(found) {
            Ok(found) => self.add(path, "", expected, found, &unknown),
            Err(error) if error.kind() == ErrorKind::Interrupted => return Err(error),
            Err(error) => self.problems.push(error.in_file(path)),
        }
        Ok(())
    }

    /// Reports how a file differs from its entry.
    fn add(
        &mut self,
        path: &Path,
        state: &str,
        expected: &mds::File,
        (bytes, hashes): (u64, BTreeMap<String, String>),
        unknown: &[&str],
    ) {
        let mut wrong = |what: String| self.problems.push(Error::data(what).in_file(path));
        if bytes != expected.bytes {
            wrong(format!("{bytes} bytes{state}, {} in index.json", expected.bytes));
        }
        for (name, found) in hashes {
            let said = expected.hashes.get(&name).map_or("", String::as_str);
            if !found.eq_ignore_ascii_case(said) {
                wrong(format!("its {name}{state} is {found}, {said} in index.json"));
            }
        }
        for name in unknown {
            let file = text::path(&path);
            self.notes.push(format!("{file}: hash {name} in index.json is not known here and was not checked"));
        }
    }
}

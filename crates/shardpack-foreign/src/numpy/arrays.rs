//! The arrays of a `.npz` file, or of several files of an array each.
//!
//! Every length is compared with the length of the file or the member before it is used.

use std::sync::Arc;

use shardpack_format::{Error, Result, memory, size};

use super::{cifar, idx, pickled, read::Content, rows::NumpyRows, stored::Stored};
use crate::{
    Bytes, FileLocation, ShardFile,
    tables::{Arrays, Rows, item::Item, seen::Seen, table::Table},
    zip::{
        Fault,
        archive::{Directory, Entry},
    },
};

/// Most arrays of a file.
pub(super) const MAX_ARRAYS: usize = 64;
/// Maximum length of a directory in bytes: so many arrays, with the longest names and fields of real writers.
const MAX_DIRECTORY_BYTES: u64 = 1 << 16;
/// Names of the arrays of a sparse matrix of scipy; each format has one set.
const SPARSE: [[&str; 3]; 3] = [["data", "format", "shape"], ["indices", "indptr", "shape"], ["row", "col", "shape"]];
/// Advice for files of several datasets.
const ONE_SET: &str = "give the files of one dataset: 'FOLDER/fashion-*'";

/// Arrays that are one file for the reader of tables.
pub(super) struct NumpyFile {
    arrays: Vec<Arc<Stored>>,
    /// The archive and its members, in the order of `arrays`.
    archive: Option<(Arc<Bytes>, Directory, Vec<Entry>)>,
}

impl NumpyFile {
    /// Reads the heads of the arrays of `file`.
    ///
    /// # Errors
    /// If an array is corrupt, or of a type that is not read.
    pub fn open(file: &ShardFile) -> Result<Self> {
        match is_archive(&file.path) {
            true => Self::of_archive(&file.location()),
            false if file.kind.name() == cifar::NAME => {
                let beside = file.beside.iter().map(|one| one.location());
                let places = std::iter::once(file.location()).chain(beside);
                let arrays = places.map(|place| cifar::open(&place).map_err(|error| error.in_file(place.path())));
                let arrays: Vec<Stored> = arrays.collect::<Result<Vec<_>>>()?.into_iter().flatten().collect();
                Self::of_arrays(arrays, None)
            }
            false if file.kind.name() == pickled::NAME => Self::of_pickle(&file.location()),
            false => {
                let others = file.beside.iter().map(|one| one.location());
                Self::of_files(&std::iter::once(file.location()).chain(others).collect::<Vec<_>>())
            }
        }
    }

    /// The arrays in the pickle, or the file of `torch.save`, at `place`.
    ///
    /// # Errors
    /// As [`NumpyFile::open`].
    pub fn of_pickle(place: &FileLocation) -> Result<Self> {
        let (arrays, archive) = pickled::open(place)?;
        if arrays.len() > MAX_ARRAYS {
            return Err(Error::usage(format!("{} arrays, at most {MAX_ARRAYS} are read as tables", arrays.len())));
        }
        Self::of_arrays(arrays, archive)
    }

    /// The arrays in the archive at `place`.
    ///
    /// # Errors
    /// As [`NumpyFile::open`].
    pub fn of_archive(place: &FileLocation) -> Result<Self> {
        let file = Arc::new(place.open()?);
        let bytes = file.count().map_err(|error| Error::io("cannot read", error))?;
        let check = |members: u64| match members > MAX_ARRAYS as u64 {
            true => Err(Fault::Data(format!("{members} arrays, at most {MAX_ARRAYS} are read as tables"))),
            false => Ok(()),
        };
        let directory = Directory::read(&*file, bytes, MAX_DIRECTORY_BYTES, check).map_err(Fault::into_error)?;
        let (mut arrays, mut entries, mut places) = (Vec::<Stored>::new(), Vec::new(), Vec::new());
        for entry in directory.entries() {
            let entry = entry.map_err(Fault::into_error)?;
            let of_member = |fault: Fault| fault.of_member(&entry.name).into_error();
            entry.check().map_err(of_member)?;
            let name = entry.name.strip_suffix(".npy").filter(|name| !name.is_empty());
            let name = name.ok_or_else(|| {
                Error::data(format!("member {:?} is no array: numpy calls arrays NAME.npy", entry.name))
            })?;
            if arrays.iter().any(|other| other.name == name) {
                return Err(Error::data(format!("array {name} is there twice")));
            }
            let archive = directory.archive(&*file);
            let whole = archive.place(&entry).map_err(of_member)?;
            places.push((whole.start, whole.end, entry.name.clone()));
            let (range, is_deflated) = (archive.data(&entry).map_err(of_member)?, entry.is_deflated());
            let content = Content { file: Arc::clone(&file), range, is_deflated, is_gzip: false, bytes: entry.bytes };
            arrays.push(Stored::open(name.to_owned(), content)?);
            entries.push(entry);
        }
        places.sort_unstable();
        if let Some(two) = places.windows(2).find(|two| two[1].0 < two[0].1) {
            return Err(Error::data(format!("members {:?} and {:?} lie in each other", two[0].2, two[1].2)));
        }
        let has = |name: &str| arrays.iter().any(|one| one.name == name);
        if SPARSE.iter().any(|names| names.iter().all(|name| has(name))) {
            let error = Error::usage("a sparse matrix of scipy, whose arrays are no tables of rows");
            return Err(error.help("its method toarray() makes an array that numpy.savez writes"));
        }
        Self::of_arrays(arrays, Some((file, directory, entries)))
    }

    /// The arrays in the files at `places`, each called as its file is.
    ///
    /// # Errors
    /// As [`NumpyFile::open`].
    pub fn of_files(places: &[FileLocation]) -> Result<Self> {
        if places.len() > MAX_ARRAYS {
            return Err(Error::usage(format!("{} arrays, at most {MAX_ARRAYS} are read as tables", places.len())));
        }
        let open = |place: &FileLocation| {
            if let Some(name) = idx::array_name(place.path()) {
                return idx::open(name, place);
            }
            let file = Arc::new(place.open()?);
            let bytes = file.count().map_err(|error| Error::io("cannot read", error))?;
            let content = Content { file, range: 0..bytes, is_deflated: false, is_gzip: false, bytes };
            let name = place.path().file_stem().unwrap_or_default().to_string_lossy().into_owned();
            Stored::open(name, content)
        };
        Self::of_arrays(places.iter().map(open).collect::<Result<_>>()?, None)
    }

    fn of_arrays(arrays: Vec<Stored>, archive: Option<(Arc<Bytes>, Directory, Vec<Entry>)>) -> Result<Self> {
        let mut names: Vec<&str> = arrays.iter().map(|one| one.name.as_str()).collect();
        names.sort_unstable();
        if let Some(two) = names.windows(2).find(|two| two[0] == two[1]) {
            return Err(Error::usage(format!("several files with an array {}", two[0])).help(ONE_SET));
        }
        let arrays: Vec<Arc<Stored>> = arrays.into_iter().map(Arc::new).collect();
        let file = Self { arrays, archive };
        let most = file.most_rows();
        match file.arrays.iter().find(|one| one.shape.first().is_some_and(|rows| *rows > most)) {
            // Rows of no bytes.
            Some(one) => Err(Error::data(format!(
                "array {}: {}, of arrays of {} in all",
                one.name,
                size::counted(one.shape[0], "row"),
                size::counted(most, "byte")
            ))),
            None => Ok(file),
        }
    }

    /// The arrays as candidates for tables, in the order of names.
    pub fn seen(&self) -> Vec<Seen> {
        let mut seen: Vec<Seen> = self.arrays.iter().map(|one| Seen::new(one.name.clone(), &**one)).collect();
        seen.sort_by(|one, other| one.path.cmp(&other.path));
        seen
    }

    /// Checks the arrays of one table at a time before their rows are read: arrays in Fortran order, which are read whole, against the
    /// memory, and members of an archive against their checksums.
    ///
    /// # Errors
    /// If one is corrupt, or there is not enough memory.
    pub fn check(&self, tables: &[Table]) -> Result<()> {
        let used = |table: &Table| {
            let mut names: Vec<&str> = table.paths().collect();
            names.sort_unstable();
            names.dedup();
            names.into_iter().map(|name| self.find(name)).collect::<Result<Vec<_>>>()
        };
        for table in tables {
            let used = used(table)?;
            let whole: Vec<_> = used.iter().filter(|one| one.is_fortran).collect();
            memory::admit(whole.iter().fold(0, |bytes, one| one.data_bytes.saturating_add(bytes))).map_err(
                |error| {
                    let names: Vec<_> = whole.iter().map(|one| one.name.as_str()).collect();
                    let what =
                        format!("arrays in Fortran order are read whole, {}: {}", names.join(", "), error.what());
                    Error::usage(what).help("numpy.ascontiguousarray makes an array whose rows are read one by one")
                },
            )?;
            for one in used.iter().filter(|one| one.content.is_gzip) {
                let checked = one.content.check_gzip().map_err(|error| match error.raw_os_error() {
                    Some(_) => Error::io("cannot read", error),
                    None => Error::data(format!("array {}: damaged: {error}", one.name)),
                })?;
                let wrong = |bytes| format!("array {}: {bytes} bytes, {} in its head", one.name, one.content.bytes);
                checked.map_err(|bytes| Error::data(wrong(bytes)))?;
            }
            let Some((file, directory, entries)) = &self.archive else { continue };
            for (_, entry) in
                self.arrays.iter().zip(entries).filter(|(one, _)| used.iter().any(|used| used.name == one.name))
            {
                directory.archive(&**file).check(entry).map_err(Fault::into_error)?;
            }
        }
        Ok(())
    }

    fn find(&self, name: &str) -> Result<&Arc<Stored>> {
        let found = self.arrays.iter().find(|one| one.name == name);
        found.ok_or_else(|| Error::usage(format!("no array {name} in it")))
    }
}

/// Whether a file of this name is an archive of arrays.
pub(super) fn is_archive(path: &std::path::Path) -> bool {
    path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("npz"))
}

impl Arrays for NumpyFile {
    fn noun(&self) -> &'static str {
        "array"
    }

    fn most_rows(&self) -> u64 {
        self.arrays.iter().fold(0, |bytes, one| bytes.saturating_add(one.content.bytes))
    }

    fn item(&self, path: &str) -> Result<Item> {
        Ok(self.find(path)?.item.clone())
    }

    fn rows(&self, path: &str, batch_bytes: usize) -> Result<Box<dyn Rows>> {
        Ok(Box::new(NumpyRows::new(Arc::clone(self.find(path)?), batch_bytes)?))
    }
}

//! The kinds of files. A kind that is only read is a module with an [`Entry`], and a line in [`READ`]; a format that is also written is
//! a line in [`formats::ALL`].

use shardpack_format::{
    Result,
    formats::{self, foreign::Entries, webdataset},
};

use super::{beton, entry::Entry, hdf5, litdata, lmdb, numpy, parquet, rows};

/// The kinds that are read but not written, in the order of messages.
pub(crate) static READ: [&Entry; 11] = [
    &parquet::ENTRY,
    &parquet::ARROW,
    &lmdb::ENTRY,
    &hdf5::ENTRY,
    &numpy::ENTRY,
    &numpy::MNIST,
    &numpy::CIFAR,
    &numpy::PICKLED,
    &litdata::ENTRY,
    &beton::ENTRY,
    &rows::ENTRY,
];

/// Kind of a file.
#[derive(Clone, Copy)]
pub enum Kind {
    /// Shards of a format that can also be written.
    Format(&'static formats::Entry),
    /// A kind that is only read.
    Read(&'static Entry),
}

impl std::fmt::Debug for Kind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

impl PartialEq for Kind {
    fn eq(&self, other: &Self) -> bool {
        self.name() == other.name()
    }
}

impl Eq for Kind {}

impl Kind {
    /// Parses the value of `--from`. A name with a dialect, such as `lmdb:pickle`, is accepted.
    ///
    /// # Errors
    /// If the name is unknown; the message lists all names.
    pub fn parse(name: &str) -> Result<Self> {
        match READ.into_iter().find(|entry| entry.name == name) {
            Some(entry) => Ok(Self::Read(entry)),
            None if name == hdf5::FILE => Ok(Self::Read(&hdf5::ENTRY)),
            None if lmdb::dialect(name).is_some() => Ok(Self::Read(&lmdb::ENTRY)),
            None => formats::entry(name).map(Self::Format),
        }
    }

    /// Names accepted by [`Kind::parse`], for users; [`Kind::dialects`] has the names with dialects.
    pub fn names() -> Vec<&'static str> {
        // Nobody has files of rows but this program.
        let read = READ.into_iter().map(|entry| entry.name).filter(|name| *name != rows::ENTRY.name);
        formats::ALL.iter().map(|entry| entry.name).chain(read).collect()
    }

    /// Names of dialects, each with its aliases and its meaning.
    pub fn dialects() -> impl Iterator<Item = (&'static str, &'static [&'static str], &'static str)> {
        let of_lmdb = lmdb::DIALECTS.iter().map(|dialect| (dialect.name, dialect.aliases, dialect.about));
        of_lmdb.chain(std::iter::once((
            hdf5::FILE,
            &[][..],
            "each file is one sample, and its datasets are components",
        )))
    }

    /// Whether `name` is a name or an alias of a dialect.
    pub fn is_dialect(name: &str) -> bool {
        Self::dialects().any(|(own, aliases, _)| own == name || aliases.contains(&name))
    }

    /// Whether files are tar files.
    pub fn is_tar(self) -> bool {
        matches!(self, Self::Format(entry) if entry.name == webdataset::NAME)
    }

    /// Whether fields of a record are files, and keys are paths, so that their folders may be classes.
    pub fn has_member_names(self) -> bool {
        self.is_tar() || matches!(self, Self::Read(entry) if entry.name == rows::ENTRY.name)
    }

    /// Whether the order of the records has no meaning.
    pub fn is_unordered(self) -> bool {
        matches!(self, Self::Read(entry) if entry.is_unordered)
    }

    /// Whether files of this kind have the keys and values that the user chose.
    pub fn takes(self, said: &Entries) -> bool {
        match self {
            Self::Format(_) => {
                let others = Entries { label_from: None, key_pattern: None, ..said.clone() };
                let is_of_key = said.label_from.as_deref().is_none_or(|from| from == "key");
                self.has_member_names() && others.is_unsaid() && is_of_key
            }
            Self::Read(entry) => (entry.takes)(said),
        }
    }

    /// Name of the format.
    pub fn name(self) -> &'static str {
        match self {
            Self::Format(entry) => entry.name,
            Self::Read(entry) => entry.name,
        }
    }
}

//! Files as a storage lists them, with their versions.

/// Longest key of S3 and Google in bytes; Azure counts 1,024 characters.
pub(crate) const MAX_KEY_BYTES: usize = 1024;

/// A file in a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Object {
    /// Its path below the folder of the [`Storage`](crate::Storage).
    pub name: String,
    /// Length in bytes.
    pub bytes: u64,
    /// Identifies this version for [`Storage::read_listed`](crate::Storage::read_listed); 0 if the storage knows no version.
    pub stamp: i64,
}

/// An object whose name is not a path: it has empty parts, `.` or `..`, control characters, or a slash at its end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Odd {
    /// Its name below the folder of the [`Storage`](crate::Storage).
    pub name: String,
    /// Length in bytes; 0 for a common prefix of several names.
    pub bytes: u64,
}

impl Odd {
    /// Whether it is the empty object that tools create to represent a folder.
    pub fn is_folder(&self) -> bool {
        self.bytes == 0 && (self.name.is_empty() || self.name.strip_suffix('/').is_some_and(is_key))
    }
}

/// A page of a list.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Page {
    /// Files.
    pub objects: Vec<Object>,
    /// Names, without a trailing slash, of folders that were not listed, or that have no files.
    pub folders: Vec<String>,
    /// Objects whose names are not paths.
    pub odd: Vec<Odd>,
}

/// Whether a store can have an object of this name, and a request for the name cannot mean another object.
pub fn is_key(name: &str) -> bool {
    name.len() <= MAX_KEY_BYTES
        && name.split('/').all(|part| !["", ".", ".."].contains(&part))
        && !name.contains(|c: char| c.is_ascii_control())
}

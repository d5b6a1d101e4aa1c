//! Reads LMDB environments, as liblmdb 0.9 writes them on 64-bit little-endian machines: maps keys to the ranges of their
//! values.
//!
//! The file is read with `pread` and never mapped, because a mapping of a truncated file kills the process with SIGBUS. No
//! lock file is made, read or written. Every number is checked against its page and the file before use, and no allocation is
//! sized by an unchecked number. A walk visits no more pages than the file has, so it ends. Free pages and bytes after the
//! last page are never read.
//!
//! Concurrent writers are not detected. A writer may reuse pages that a long walk has yet to read; the content of such pages
//! is checked like all other pages.
//!
//! # Bytes
//! A folder with `data.mdb`, or one file (`subdir=False`), of pages of 512 to 32768 bytes. Each page begins
//!
//! ```text
//! 0 u64 its number   8 u16 size of items, if of one size   10 u16 flags   12 u16 lower, u16 upper; overflow: u32 pages
//! ```
//!
//! Pages 0 and 1 are meta pages, see `meta.rs`; the meta page with the higher transaction number is valid. `pages.rs`
//! describes all other pages.
//!
//! # Specification
//! None but `mdb.c` of liblmdb 0.9.36, data version 1. Version 3, of LMDB 1.0, has longer page headers and is refused.
//!
//! # Quirks
//! - The file may be shorter than its last page number implies, if the missing pages are free: a transaction that frees pages
//!   which it has just allocated does not write them.
//! - Counts of pages in databases with duplicates are wrong before 0.9.36 (ITS#9388), so they are not compared there.
//! - The first key of a branch page is never compared: it is empty or stale.

mod batch;
mod coding;
mod database;
mod detect;
mod fields;
mod image_recipe;
mod labels;
mod meta;
mod metadata;
mod overrides;
mod pages;
mod pattern;
mod samples;
#[cfg(test)]
mod tests;
mod tree;
mod values;
mod walk;

use std::{io, path::Path, sync::Arc};

use shardpack_format::{Error, Result};

pub use self::{
    database::Database,
    fields::component,
    image_recipe::image,
    overrides::{DIALECTS, Dialect, check, dialect, label_file},
    samples::walk,
    walk::{Entry, Walk},
};
use self::{
    meta::{Meta, Record},
    pages::{Damage, Kind, Layout},
};
pub(super) use self::{
    overrides::KeyPart,
    pattern::{Pattern, label},
};
use crate::{
    entry,
    location::{Bytes, FileLocation},
};
use shardpack_storage::sys;

/// The line in the table of kinds.
pub(crate) static ENTRY: entry::Entry = entry::Entry {
    has_places: true,
    // The page order has no meaning.
    is_unordered: true,
    takes: |_| true,
    image,
    component,
    // If the meta pages are invalid, the remaining facts identify the file.
    transaction: |place, bytes| transaction(place, bytes).unwrap_or(0),
    ..entry::Entry::new("lmdb", Environment::is, |file, wanted, _| walk(file.location(), wanted))
};

/// Name of the data file in the folder of an environment.
pub const DATA_FILE: &str = "data.mdb";
/// The first page that is no meta.
const FIRST_PAGE: u64 = 2;
/// Maximum number of named databases listed. liblmdb keeps an array of the databases it may open, so writers have a few.
const NAMES_LIMIT: usize = 1 << 16;

/// The last transaction of the file at `place`, which has `file_bytes` bytes.
///
/// # Errors
/// If the file cannot be read, or neither meta page is valid.
pub(super) fn transaction(place: &FileLocation, file_bytes: u64) -> Result<u64> {
    meta::choose(&place.open()?, file_bytes).map(|(meta, _)| meta.transaction())
}

/// A data file, opened for reading.
#[derive(Debug)]
pub struct Environment {
    file: Bytes,
    place: FileLocation,
    file_bytes: u64,
    meta: Meta,
    /// The error in the invalid meta page, and its position.
    damage: Option<(u64, String)>,
}

impl Environment {
    /// Opens a file, or `data.mdb` in a folder.
    ///
    /// # Errors
    /// If it cannot be read, is truncated, both metas are corrupt, or another kind of machine or library wrote it.
    pub fn open(file: impl Into<FileLocation>) -> Result<Arc<Self>> {
        let place = match file.into() {
            FileLocation::Local(path) if sys::is_folder(&path)? => FileLocation::Local(path.join(DATA_FILE)),
            place => place,
        };
        // Opening a pipe would wait for its writer.
        let file_bytes = place.facts()?.bytes;
        let file = place.open()?;
        let (meta, damage) = meta::choose(&file, file_bytes).map_err(|error| error.in_file(place.path()))?;
        let environment = Arc::new(Self { file, place, file_bytes, meta, damage });
        environment.check_length()?;
        Ok(environment)
    }

    /// Whether a file begins like an environment, including environments whose writer [`Environment::open`] refuses. If page
    /// 0 is corrupt, page 1 decides, if `first` contains it.
    pub fn is(first: &[u8]) -> bool {
        meta::is(first)
    }

    /// Number of entries in the main database, named databases included, from its record.
    pub fn entries(&self) -> u64 {
        self.meta.main.entries
    }

    /// Bytes of a page.
    pub fn page_bytes(&self) -> u64 {
        self.meta.page_bytes
    }

    /// The file that is read.
    pub fn path(&self) -> &Path {
        self.place.path()
    }

    /// Location of the file.
    pub(crate) fn place(&self) -> &FileLocation {
        &self.place
    }

    /// The error in an invalid meta page, if one is invalid: the other page is used, and later writes may be missing.
    pub fn damage(&self) -> Option<Error> {
        self.damage.as_ref().map(|(at, what)| Error::data(what).at_byte(*at))
    }

    /// The main database, or the database `name`.
    ///
    /// # Errors
    /// If the database is missing, its record is corrupt, or it has unknown flags.
    pub fn database(self: &Arc<Self>, name: Option<&[u8]>) -> Result<Database> {
        Database::open(self, name)
    }

    /// Names of the named databases, in the order of keys.
    ///
    /// # Errors
    /// If the main database is corrupt, or there are more than 65536.
    pub fn names(&self) -> Result<Vec<Vec<u8>>> {
        let (mut names, mut page) = (Vec::new(), Vec::new());
        let mut room = self.room();
        for number in self.leaves(&self.meta.main, tree::Order::Keys, &mut room)? {
            self.page(number, &mut page)?;
            let layout = self.layout(number, &page, Kind::Leaf)?;
            pages::check(&page, &layout).map_err(|damage| self.damaged(number, damage))?;
            for index in 0..layout.count {
                let node = pages::node(&page, &layout, index).map_err(|damage| self.damaged(number, damage))?;
                if node.flags != pages::DATABASE {
                    continue;
                }
                if names.len() == NAMES_LIMIT {
                    return Err(self.damaged(
                        number,
                        Damage::new(node.at, format!("more than {NAMES_LIMIT} named databases, which are not read")),
                    ));
                }
                names.push(page[node.key].to_vec());
            }
        }
        Ok(names)
    }

    /// How many pages a walk may refer to.
    fn room(&self) -> u64 {
        (self.meta.last_page + 1).saturating_sub(FIRST_PAGE)
    }

    /// Checks that the file has every page, or lacks only free ones.
    fn check_length(self: &Arc<Self>) -> Result<()> {
        let Meta { page_bytes, last_page, .. } = self.meta;
        let expected = last_page.checked_add(1).and_then(|pages| pages.checked_mul(page_bytes));
        if expected.is_some_and(|expected| self.file_bytes >= expected) {
            return Ok(());
        }
        let pages = self.file_bytes / page_bytes;
        if self.free_pages_from(pages).is_ok_and(|free| free == last_page + 1 - pages) {
            return Ok(());
        }
        let expected = expected.map_or_else(|| "more than there can be".to_owned(), |bytes| bytes.to_string());
        let bytes = self.file_bytes;
        let of = format!("its last page is {last_page}, with pages of {page_bytes} bytes it has {expected}");
        let what = format!("truncated LMDB file: {bytes} bytes; {of}");
        Err(Error::data(what).at_byte(self.file_bytes).in_file(self.path()))
    }

    /// How many free pages there are from page `first` on.
    fn free_pages_from(self: &Arc<Self>, first: u64) -> Result<u64> {
        let database = Database::of_free(self);
        let (mut walk, mut list, mut count) = (database.walk()?, Vec::new(), 0);
        while let Some(entry) = walk.next()? {
            database.read(entry.value, &mut list)?;
            // The first number is the count of the numbers that follow.
            let pages = list.chunks_exact(8).skip(1).map(|bytes| pages::u64_at(bytes, 0));
            count += pages.filter(|page| (first..=self.meta.last_page).contains(page)).count() as u64;
        }
        Ok(count)
    }

    /// Reads a page whole, and checks that it is the one that it should be.
    fn page(&self, number: u64, page: &mut Vec<u8>) -> Result<()> {
        page.resize(self.meta.page_bytes as usize, 0);
        self.read_at(number, page)
    }

    /// Reads the beginning of a page, and checks that it is the one that it should be.
    fn read_at(&self, number: u64, bytes: &mut [u8]) -> Result<()> {
        let at = number.saturating_mul(self.meta.page_bytes);
        let is_there = (FIRST_PAGE..=self.meta.last_page).contains(&number)
            && at.checked_add(self.meta.page_bytes).is_some_and(|end| end <= self.file_bytes);
        if !is_there {
            let last = self.meta.last_page.min((self.file_bytes / self.meta.page_bytes).saturating_sub(1));
            let what = format!("damaged LMDB file: reference to page {number}, pages are 2 to {last}");
            return Err(Error::data(what).in_file(self.path()));
        }
        match self.file.read_exact_at(bytes, at) {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
                return Err(self.damaged(number, Damage::new(0, "the file has become shorter while it was read")));
            }
            Err(error) => return Err(sys::io_error("cannot read", self.path(), error).at_byte(at)),
        }
        let said = pages::u64_at(bytes, 0);
        if said != number {
            return Err(self.damaged(number, Damage::new(0, format!("its header has page number {said}"))));
        }
        Ok(())
    }

    /// Parses the layout of a page of nodes.
    fn layout(&self, number: u64, page: &[u8], expected: Kind) -> Result<Layout> {
        let layout = pages::layout(page).and_then(|layout| match layout.kind == expected {
            true => Ok(layout),
            false => Err(Damage::new(10, format!("expected {expected}, found {}", layout.kind))),
        });
        layout.map_err(|damage| self.damaged(number, damage))
    }

    /// The error for a corrupt page.
    fn damaged(&self, number: u64, damage: Damage) -> Error {
        let at = number.saturating_mul(self.meta.page_bytes).saturating_add(damage.at as u64);
        Error::data(format!("damaged LMDB file: page {number}: {}", damage.what)).at_byte(at).in_file(self.path())
    }

    /// Checks a record, which stands in a page or a meta.
    fn check(&self, record: &Record) -> Result<()> {
        let checked = record.check(self.meta.last_page).and_then(|()| record.check_flags());
        checked.map_err(|what| self.damaged(record.page, Damage::new(record.at, what)))
    }
}

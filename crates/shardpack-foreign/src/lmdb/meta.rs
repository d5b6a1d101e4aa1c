//! Parses the meta pages, selects the valid one, and locates the roots of its trees.
//!
//! A meta that is returned has been checked as far as one page can be.
//!
//! After the page's header of 16 bytes:
//!
//! ```text
//! 16 u32 0xbeefc0de   20 u32 version 1   24 u64 address   32 u64 size of the mapping   40 record of the free pages
//! 88 record of the main database   136 u64 last page   144 u64 transaction
//! ```
//!
//! A record, 48 bytes, of the free pages, the main database, a named one, or the duplicates of a key:
//!
//! ```text
//! 0 u32 bytes of an item, of the free pages: bytes of a page   4 u16 flags   6 u16 depth   8 u64 branch pages
//! 16 u64 leaf pages   24 u64 overflow pages   32 u64 entries   40 u64 root, or all ones
//! ```

use shardpack_format::{Error, Result};

use super::super::Bytes;
use super::{
    FIRST_PAGE,
    pages::{HEADER_BYTES, u16_at, u32_at, u64_at},
};

/// Bytes of a page that a meta takes.
const META_BYTES: usize = 152;
const MAGIC: u32 = 0xbeef_c0de;
const VERSION: u32 = 1;
const META_FLAG: u16 = 8;
/// A page's header on 32-bit machines, where numbers of pages have 4 bytes.
const HEADER_32_BYTES: usize = 12;
/// A page's header in LMDB 1.0, which holds a transaction too.
const HEADER_1_0_BYTES: usize = 24;
/// liblmdb takes the machine's size of pages, at most 32768 since ends of pages have 16 bits.
const PAGE_SIZES: [u64; 7] = [512, 1024, 2048, 4096, 8192, 16384, 32768];
/// Levels of a tree that liblmdb can descend.
const DEPTH_LIMIT: u16 = 32;
/// Bytes of a record.
pub(super) const RECORD_BYTES: usize = 48;

pub(super) const REVERSE_KEY: u16 = 0x02;
pub(super) const DUPLICATES: u16 = 0x04;
pub(super) const INTEGER_KEY: u16 = 0x08;
pub(super) const FIXED_DUPLICATES: u16 = 0x10;
const KNOWN_FLAGS: u16 = REVERSE_KEY | DUPLICATES | INTEGER_KEY | FIXED_DUPLICATES | 0x20 | 0x40;

/// The record of a tree.
#[derive(Clone, Debug)]
pub(super) struct Record {
    /// Bytes of an item if all items have one size.
    pub item_bytes: u32,
    pub flags: u16,
    /// Levels, leaves included.
    pub depth: u16,
    pub branch_pages: u64,
    pub leaf_pages: u64,
    pub entries: u64,
    /// Number of the root page; `None` for an empty tree.
    pub root: Option<u64>,
    /// The page of the record, and the offset in the page.
    pub page: u64,
    pub at: usize,
}

impl Record {
    /// The record at `at` in the bytes of a page, which has `RECORD_BYTES` there.
    pub fn parse(bytes: &[u8], page: u64, at: usize) -> Self {
        let root = u64_at(bytes, at + 40);
        Self {
            item_bytes: u32_at(bytes, at),
            flags: u16_at(bytes, at + 4),
            depth: u16_at(bytes, at + 6),
            branch_pages: u64_at(bytes, at + 8),
            leaf_pages: u64_at(bytes, at + 16),
            entries: u64_at(bytes, at + 32),
            root: (root != u64::MAX).then_some(root),
            page,
            at,
        }
    }

    /// Whether a key may have several values.
    pub fn has_duplicates(&self) -> bool {
        self.flags & DUPLICATES != 0
    }

    /// Checks the record against the file's last page; the error is the reason.
    pub fn check(&self, last_page: u64) -> Result<(), String> {
        let Self { depth, entries, branch_pages, leaf_pages, .. } = *self;
        match self.root {
            None if depth != 0 || entries != 0 => {
                Err(format!("a tree without a root has {entries} entries in {depth} levels"))
            }
            None => Ok(()),
            Some(_) if depth == 0 || depth > DEPTH_LIMIT => {
                Err(format!("a tree of {depth} levels, 1 to {DEPTH_LIMIT} are possible"))
            }
            Some(root) if !(FIRST_PAGE..=last_page).contains(&root) => {
                Err(format!("a tree begins at page {root}, pages are 2 to {last_page}"))
            }
            Some(_) if branch_pages > last_page || leaf_pages > last_page => Err(format!(
                "a tree of {branch_pages} branch pages and {leaf_pages} leaf pages, the last page is {last_page}"
            )),
            Some(_) => Ok(()),
        }
    }

    /// Rejects unknown flags, since some flags define the order of keys; the error is the reason.
    pub fn check_flags(&self) -> Result<(), String> {
        match self.flags & !KNOWN_FLAGS {
            0 => Ok(()),
            unknown => Err(format!("a database has the unknown flags {unknown:#x}")),
        }
    }
}

/// Content of a meta page.
#[derive(Debug)]
pub(super) struct Meta {
    pub page_bytes: u64,
    pub free: Record,
    pub main: Record,
    /// The last page that is in use or free.
    pub last_page: u64,
    transaction: u64,
}

impl Meta {
    /// Parses the meta with this number from the beginning of its page; the error is the reason.
    fn parse(bytes: &[u8], number: u64) -> Result<Self, String> {
        if bytes.len() < META_BYTES {
            return Err(format!("truncated: {} bytes, a meta page has at least {META_BYTES}", bytes.len()));
        }
        let (magic, version) = (u32_at(bytes, HEADER_BYTES), u32_at(bytes, HEADER_BYTES + 4));
        if magic != MAGIC {
            return Err(format!("it does not hold {MAGIC:#x} but {magic:#x}"));
        }
        if version != VERSION {
            return Err(format!("version {version} of the format, expected {VERSION}"));
        }
        let (said, flags) = (u64_at(bytes, 0), u16_at(bytes, 10));
        if said != number || flags != META_FLAG {
            return Err(format!("its header has page number {said} and the flags {flags:#x}"));
        }
        let (free, main) = (Record::parse(bytes, number, 40), Record::parse(bytes, number, 88));
        let page_bytes = u64::from(free.item_bytes);
        if !PAGE_SIZES.contains(&page_bytes) {
            return Err(format!("pages of {page_bytes} bytes, a power of 2 from 512 to 32768 is possible"));
        }
        let last_page = u64_at(bytes, 136);
        // Both metas are always there; and their places are counted in bytes, with 63 bits in files.
        if last_page == 0 || last_page >= i64::MAX as u64 / page_bytes {
            return Err(format!("the last page is {last_page}"));
        }
        free.check(last_page)?;
        main.check(last_page)?;
        main.check_flags()?;
        Ok(Self { page_bytes, free, main, last_page, transaction: u64_at(bytes, 144) })
    }
}

impl Meta {
    /// The transaction that wrote it.
    pub fn transaction(&self) -> u64 {
        self.transaction
    }
}

/// Whether a file begins with a meta page of any version and machine, or has a good second one in `first`.
pub(super) fn is(first: &[u8]) -> bool {
    refused(first).is_some()
        || (first.len() >= HEADER_BYTES + 4 && u32_at(first, HEADER_BYTES) == MAGIC)
        || PAGE_SIZES.iter().any(|bytes| second(first.get(*bytes as usize..).unwrap_or_default(), *bytes).is_ok())
}

/// Why a valid environment is not supported.
fn refused(first: &[u8]) -> Option<&'static str> {
    let magic = |at: usize| first.get(at..at + 4).map_or(0, |bytes| u32_at(bytes, 0));
    match [HEADER_32_BYTES, HEADER_BYTES, HEADER_1_0_BYTES].map(magic) {
        [_, MAGIC, _] => None,
        [MAGIC, _, _] => Some("a 32-bit machine wrote it"),
        [_, _, MAGIC] => Some("LMDB 1.0 wrote it, in another format"),
        places if places.contains(&MAGIC.swap_bytes()) => Some("a big-endian machine wrote it"),
        _ => None,
    }
}

/// Parses the second meta from its first bytes at `place`, which must equal the page size in the meta.
fn second(bytes: &[u8], place: u64) -> Result<Meta, String> {
    let meta = Meta::parse(bytes, 1)?;
    match meta.page_bytes {
        bytes if bytes == place => Ok(meta),
        bytes => Err(format!("its page size is {bytes} bytes, but it is at byte {place}")),
    }
}

/// Reads both metas; returns the valid one, and the position and reason of an error in the other.
pub(super) fn choose(file: &Bytes, file_bytes: u64) -> Result<(Meta, Option<(u64, String)>)> {
    let mut buffer = [0; META_BYTES];
    let read = |at: u64, buffer: &mut [u8; META_BYTES]| {
        let bytes = file_bytes.saturating_sub(at).min(META_BYTES as u64) as usize;
        file.read_exact_at(&mut buffer[..bytes], at).map_err(|e| Error::io("cannot read", e).at_byte(at))?;
        Ok::<_, Error>(bytes)
    };
    let bytes = read(0, &mut buffer)?;
    if let Some(why) = refused(&buffer[..bytes]) {
        let error = Error::data(format!("an LMDB file that cannot be read here: {why}")).at_byte(0);
        return Err(error.help("write it anew with mdb_dump there and mdb_load of liblmdb 0.9 on a 64-bit machine"));
    }
    let mut first = Meta::parse(&buffer[..bytes], 0);
    let said = first.as_ref().ok().map(|meta| meta.page_bytes);
    let mut wrong = String::new();
    // The page size in a valid first meta is tried first; but that size may be corrupt.
    for place in said.into_iter().chain(PAGE_SIZES) {
        let bytes = read(place, &mut buffer)?;
        match (second(&buffer[..bytes], place), first) {
            (Err(why), returned) => {
                if said == Some(place) {
                    wrong = why;
                }
                first = returned;
            }
            (Ok(meta), Ok(first)) if said == Some(place) => {
                let is_newer = meta.transaction > first.transaction;
                return Ok((if is_newer { meta } else { first }, None));
            }
            (Ok(meta), Ok(first)) => {
                let why = format!("its page size is {} bytes", first.page_bytes);
                let damage = damage(0, 0, &why, meta.transaction);
                return Ok((meta, Some(damage)));
            }
            (Ok(meta), Err(why)) => {
                let damage = damage(0, 0, &why, meta.transaction);
                return Ok((meta, Some(damage)));
            }
        }
    }
    match first {
        Ok(meta) => {
            let damage = damage(1, meta.page_bytes, &wrong, meta.transaction);
            Ok((meta, Some(damage)))
        }
        Err(why) => {
            Err(Error::data(format!("damaged LMDB file: page 0: {why}; and there is no good second meta page"))
                .at_byte(0))
        }
    }
}

/// It is unknown whether the corrupt meta was the newer one; if so, the other meta describes an older state.
fn damage(number: u64, at: u64, why: &str, transaction: u64) -> (u64, String) {
    let twin = 1 - number;
    let what = format!(
        "meta page {number} is damaged: {why}; read from its twin, page {twin}, as of transaction {transaction}: \
         any later write is missing"
    );
    (at, what)
}

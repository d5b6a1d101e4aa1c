//! Parses pages of nodes and pages of items of one size.
//!
//! Returned ranges lie in the page.
//!
//! A page is a page of the file, or the part of a leaf node that holds duplicates:
//!
//! ```text
//! 0 header, 16 bytes   16 u16 place of each node, in the order of keys   lower … upper nothing   upper … nodes
//! ```
//!
//! A node: u16 low, u16 high, u16 flags, u16 key bytes, the key, the value. In a branch page, low, high and flags are the
//! number of the child page; in a leaf, low and high are the length of the value. The value follows the key. With flag 1, the
//! u64 number of the first overflow page follows instead, and the value begins after the header of that page. Items of one
//! size follow each other directly after the header.

use std::{fmt, ops::Range};

/// Bytes of a page's header.
pub(super) const HEADER_BYTES: usize = 16;
/// Bytes of a node before its key.
const NODE_BYTES: usize = 8;

const BRANCH_FLAG: u16 = 0x01;
const LEAF_FLAG: u16 = 0x02;
const OVERFLOW_FLAG: u16 = 0x04;
/// Being written; it is never cleared in a page within a node.
const DIRTY_FLAG: u16 = 0x10;
const FIXED_FLAG: u16 = 0x20;
/// A page within a node.
const INNER_FLAG: u16 = 0x40;

/// A node's flag: the value lies on overflow pages.
pub(super) const OVERFLOW: u16 = 1;
/// A node's flags: the value is the record of a named database.
pub(super) const DATABASE: u16 = 2;
/// A node's flags: the value is a page of duplicates.
pub(super) const INNER_PAGE: u16 = 4;
/// A node's flags: the value is the record of a tree of duplicates.
pub(super) const INNER_TREE: u16 = 6;

/// An error in a page, and its position in the page.
#[derive(Debug)]
pub(super) struct Damage {
    pub at: usize,
    pub what: String,
}

impl Damage {
    pub fn new(at: usize, what: impl Into<String>) -> Self {
        Self { at, what: what.into() }
    }

    /// The same, where the page begins at `start` in another.
    pub fn within(self, start: usize) -> Self {
        Self { at: self.at + start, ..self }
    }
}

/// Content of a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Branch,
    Leaf,
    /// Items of so many bytes.
    Fixed(usize),
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Branch => f.write_str("a branch page"),
            Self::Leaf => f.write_str("a leaf page"),
            Self::Fixed(bytes) => write!(f, "a leaf page of items of {bytes} bytes"),
        }
    }
}

/// How a page is made up.
#[derive(Clone, Copy, Debug)]
pub(super) struct Layout {
    pub kind: Kind,
    /// Number of nodes or items.
    pub count: usize,
    /// Offset of the first node.
    upper: usize,
}

/// A node of a page.
#[derive(Debug)]
pub(super) struct Node {
    /// Offset of the node.
    pub at: usize,
    pub flags: u16,
    pub key: Range<usize>,
    /// Range after the key: the value, or the number of an overflow page.
    pub data: Range<usize>,
    /// Bytes of the value.
    pub value_bytes: u64,
    /// The page below, in a branch page.
    pub child: u64,
}

/// The number at `at`, which is within `bytes`.
pub(super) fn u16_at(bytes: &[u8], at: usize) -> u16 {
    u16::from_le_bytes([bytes[at], bytes[at + 1]])
}

/// The number at `at`, which is within `bytes`.
pub(super) fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from(u16_at(bytes, at)) | u32::from(u16_at(bytes, at + 2)) << 16
}

/// The number at `at`, which is within `bytes`.
pub(super) fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from(u32_at(bytes, at)) | u64::from(u32_at(bytes, at + 4)) << 32
}

/// How a page is made up, by its header. Its nodes may overlap, see [`check`].
pub(super) fn layout(page: &[u8]) -> Result<Layout, Damage> {
    if page.len() < HEADER_BYTES {
        return Err(Damage::new(0, format!("a page of {} bytes, its header has {HEADER_BYTES}", page.len())));
    }
    let (item_bytes, flags) = (usize::from(u16_at(page, 8)), u16_at(page, 10));
    let kind = match flags & !(DIRTY_FLAG | INNER_FLAG) {
        BRANCH_FLAG => Kind::Branch,
        LEAF_FLAG => Kind::Leaf,
        flags if flags == LEAF_FLAG | FIXED_FLAG => Kind::Fixed(item_bytes),
        _ => return Err(Damage::new(10, format!("neither a branch page nor a leaf page, its flags are {flags:#x}"))),
    };
    let (lower, upper) = (usize::from(u16_at(page, 12)), usize::from(u16_at(page, 14)));
    if lower < HEADER_BYTES || lower > upper || upper > page.len() || lower % 2 != 0 {
        let what = format!("its free room is from {lower} to {upper}, the page has {} bytes", page.len());
        return Err(Damage::new(12, what));
    }
    let count = (lower - HEADER_BYTES) / 2;
    match kind {
        Kind::Branch if count == 0 => Err(Damage::new(12, "a branch page without pages below it")),
        Kind::Fixed(0) => Err(Damage::new(8, "items of 0 bytes")),
        Kind::Fixed(bytes) if HEADER_BYTES + count * bytes > page.len() => {
            Err(Damage::new(12, format!("{count} items of {bytes} bytes in a page of {}", page.len())))
        }
        _ => Ok(Layout { kind, count, upper }),
    }
}

/// The node with this index, which is below `count`, of a page that has nodes.
pub(super) fn node(page: &[u8], layout: &Layout, index: usize) -> Result<Node, Damage> {
    let place = HEADER_BYTES + 2 * index;
    let at = usize::from(u16_at(page, place));
    if at < layout.upper || at + NODE_BYTES > page.len() {
        let what = format!("node {index} is at {at}, nodes are from {} to {}", layout.upper, page.len());
        return Err(Damage::new(place, what));
    }
    let (size, flags) = (u32_at(page, at), u16_at(page, at + 4));
    let key = at + NODE_BYTES..at + NODE_BYTES + usize::from(u16_at(page, at + 6));
    let data_bytes = match layout.kind {
        Kind::Branch => 0,
        _ if flags == OVERFLOW => 8,
        _ => size as usize,
    };
    match key.end.checked_add(data_bytes) {
        Some(end) if end <= page.len() => Ok(Node {
            at,
            flags,
            data: key.end..end,
            key,
            value_bytes: u64::from(size),
            child: u64::from(size) | u64::from(flags) << 32,
        }),
        _ => {
            let what = format!("node {index} at {at} has a key of {} bytes and {data_bytes} after it", key.len());
            Err(Damage::new(at, format!("{what}; the page has {}", page.len())))
        }
    }
}

/// Checks that the nodes of a page do not overlap, or a small file could hold any number of large ones.
pub(super) fn check(page: &[u8], layout: &Layout) -> Result<(), Damage> {
    if matches!(layout.kind, Kind::Fixed(_)) {
        return Ok(());
    }
    let mut places = Vec::with_capacity(layout.count);
    for index in 0..layout.count {
        let node = node(page, layout, index)?;
        places.push((node.at, node.data.end));
    }
    places.sort_unstable();
    match places.windows(2).find(|pair| pair[0].1 > pair[1].0) {
        Some(pair) => Err(Damage::new(pair[1].0, "two nodes overlap")),
        None => Ok(()),
    }
}

/// Range of a duplicate in a page of duplicates. Duplicates are keys of nodes without values, or items of one size.
pub(super) fn duplicate(page: &[u8], layout: &Layout, index: usize) -> Result<Range<usize>, Damage> {
    if let Kind::Fixed(bytes) = layout.kind {
        let at = HEADER_BYTES + index * bytes;
        return Ok(at..at + bytes);
    }
    let node = node(page, layout, index)?;
    match node.flags == 0 && node.data.is_empty() {
        true => Ok(node.key),
        false => Err(Damage::new(node.at, format!("duplicate {index} has the flags {:#x} or a value", node.flags))),
    }
}

/// How many pages the value takes that begins on this overflow page, by its header.
pub(super) fn overflow_pages(header: &[u8; HEADER_BYTES]) -> Result<u64, Damage> {
    match u16_at(header, 10) & !DIRTY_FLAG {
        OVERFLOW_FLAG => Ok(u64::from(u32_at(header, 12))),
        flags => Err(Damage::new(10, format!("an overflow page was expected, its flags are {flags:#x}"))),
    }
}

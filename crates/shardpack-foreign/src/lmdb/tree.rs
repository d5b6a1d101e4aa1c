//! Reads the B+ tree of a database: the path to a leaf, the list of leaves, and the ranges of node values.
//!
//! A tree is descended no deeper than its record claims. Leaves are located without reading them.

use std::ops::Range;

use shardpack_format::{Error, Result, memory};

use super::{
    Environment, FIRST_PAGE,
    meta::{FIXED_DUPLICATES, RECORD_BYTES, Record},
    pages::{self, Damage, HEADER_BYTES, Kind, Layout, Node},
};
use shardpack_storage::sys;

/// Role of a tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    /// The main database, whose entries may be others.
    Main,
    /// A named one.
    Named,
    /// The duplicates of one key, which are the keys here.
    Duplicates,
}

/// The order of leaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Order {
    Pages,
    Keys,
}

/// The value of a node.
pub(super) enum Value {
    /// Bytes of the file, and how many overflow pages they take.
    Plain(Range<u64>, u64),
    /// A page of duplicates, within the leaf.
    Page(Range<usize>),
    /// A tree of duplicates.
    Tree(Record),
    /// The record of a named database.
    Database,
}

impl Environment {
    /// Reads the range of a value from the file.
    pub(super) fn read(&self, value: Range<u64>, out: &mut Vec<u8>) -> Result<()> {
        let bytes = value.end.checked_sub(value.start).filter(|_| value.end <= self.file_bytes);
        let Some(bytes) = bytes.and_then(|bytes| usize::try_from(bytes).ok()) else {
            let what = format!("a value from {} to {}, the file has {} bytes", value.start, value.end, self.file_bytes);
            return Err(Error::data(what).in_file(self.path()));
        };
        out.clear();
        memory::make_room(out, bytes as u64).map_err(|error| error.in_file(self.path()).at_byte(value.start))?;
        out.resize(bytes, 0);
        let read = self.file.read_exact_at(out, value.start);
        read.map_err(|e| sys::io_error("cannot read", self.path(), e).at_byte(value.start))
    }

    /// Goes down to a leaf by the nodes that `choose` names; returns its number, and reads it into `page`.
    pub(super) fn descend(
        &self,
        record: &Record,
        role: Role,
        page: &mut Vec<u8>,
        choose: impl Fn(u64, &[u8], &Layout) -> Result<usize>,
    ) -> Result<Option<(u64, Layout)>> {
        let Some(mut number) = record.root else { return Ok(None) };
        for _ in 1..record.depth {
            self.page(number, page)?;
            let layout = self.layout(number, page, Kind::Branch)?;
            let index = choose(number, page, &layout)?;
            number = self.node(number, page, &layout, index)?.child;
        }
        self.page(number, page)?;
        Ok(Some((number, self.layout(number, page, leaf_kind(record, role))?)))
    }

    pub(super) fn node(&self, number: u64, page: &[u8], layout: &Layout, index: usize) -> Result<Node> {
        pages::node(page, layout, index).map_err(|damage| self.damaged(number, damage))
    }

    /// Numbers of the leaf pages of a tree. Takes the tree's pages from `room`, which is how many there may be.
    pub(super) fn leaves(&self, record: &Record, order: Order, room: &mut u64) -> Result<Vec<u64>> {
        let Some(root) = record.root else { return Ok(Vec::new()) };
        self.take(room, 1, record.page, record.at)?;
        let (mut level, mut branches, mut page) = (vec![root], Vec::new(), Vec::new());
        for _ in 1..record.depth {
            if order == Order::Pages {
                level.sort_unstable();
            }
            let mut below = Vec::new();
            for &number in &level {
                self.page(number, &mut page)?;
                let layout = self.layout(number, &page, Kind::Branch)?;
                for index in 0..layout.count {
                    let node = self.node(number, &page, &layout, index)?;
                    below.push(self.child(number, &node)?);
                    self.take(room, 1, number, node.at)?;
                }
            }
            branches.append(&mut level);
            level = below;
        }
        // The counts are unreliable in databases with duplicates, see the module.
        let (found, said) = ((branches.len() as u64, level.len() as u64), (record.branch_pages, record.leaf_pages));
        if found != said && !record.has_duplicates() {
            let what =
                format!("a tree of {} branch and {} leaf pages, it has {} and {}", said.0, said.1, found.0, found.1);
            return Err(self.damaged(record.page, Damage::new(record.at, what)));
        }
        self.check_once(branches)?;
        match order {
            Order::Pages => level = self.check_once(level)?,
            Order::Keys => drop(self.check_once(level.clone())?),
        }
        Ok(level)
    }

    /// Number of the page that `node` of page `number` points to.
    fn child(&self, number: u64, node: &Node) -> Result<u64> {
        match (FIRST_PAGE..=self.meta.last_page).contains(&node.child) {
            true => Ok(node.child),
            false => {
                let what = format!("page {} is below it, pages are 2 to {}", node.child, self.meta.last_page);
                Err(self.damaged(number, Damage::new(node.at, what)))
            }
        }
    }

    /// Sorts page numbers and checks that they are unique.
    fn check_once(&self, mut numbers: Vec<u64>) -> Result<Vec<u64>> {
        numbers.sort_unstable();
        match numbers.windows(2).find(|pair| pair[0] == pair[1]) {
            Some(pair) => Err(self.damaged(pair[0], Damage::new(0, "it is in the tree twice"))),
            None => Ok(numbers),
        }
    }

    /// Subtracts referenced pages from the pages still allowed.
    pub(super) fn take(&self, room: &mut u64, pages: u64, number: u64, at: usize) -> Result<()> {
        let left = room.checked_sub(pages);
        let what = "the tree has more pages than the file, so some pages are in it twice";
        *room = left.ok_or_else(|| self.damaged(number, Damage::new(at, what)))?;
        Ok(())
    }

    /// The value of a node.
    pub(super) fn value(&self, number: u64, page: &[u8], node: &Node, record: &Record, role: Role) -> Result<Value> {
        let start = number * self.meta.page_bytes;
        match node.flags {
            0 => {
                let range = start + node.data.start as u64..start + node.data.end as u64;
                Ok(Value::Plain(range, 0))
            }
            pages::OVERFLOW => self.overflow(number, page, node),
            pages::DATABASE if role == Role::Main && !record.has_duplicates() => Ok(Value::Database),
            pages::INNER_PAGE if record.has_duplicates() => Ok(Value::Page(node.data.clone())),
            pages::INNER_TREE if record.has_duplicates() => {
                let inner = self.record(number, page, node)?;
                match (inner.flags ^ record.flags) & FIXED_DUPLICATES {
                    0 => Ok(Value::Tree(inner)),
                    _ => Err(self.damaged(number, Damage::new(node.at, "its duplicates differ in their size flag"))),
                }
            }
            flags => {
                let what = format!("a node has the flags {flags:#x}, which are not possible here");
                Err(self.damaged(number, Damage::new(node.at + 4, what)))
            }
        }
    }

    /// Range of a value on overflow pages.
    fn overflow(&self, number: u64, page: &[u8], node: &Node) -> Result<Value> {
        let first = pages::u64_at(page, node.data.start);
        let damaged = |what: String| self.damaged(number, Damage::new(node.data.start, what));
        let mut header = [0; HEADER_BYTES];
        if !(FIRST_PAGE..=self.meta.last_page).contains(&first) {
            let last = self.meta.last_page;
            return Err(damaged(format!("its value is on page {first}, pages are 2 to {last}")));
        }
        self.read_at(first, &mut header)?;
        let count = pages::overflow_pages(&header).map_err(|damage| self.damaged(first, damage))?;
        let page_bytes = self.meta.page_bytes;
        // Neither sum nor product overflows: the first page is in the file, the others have 32 bits.
        let (end, bytes) = (first + count, node.value_bytes);
        if HEADER_BYTES as u64 + bytes > count * page_bytes {
            let what = format!("{count} pages of {page_bytes} bytes for a value of {bytes} bytes in page {number}");
            return Err(self.damaged(first, Damage::new(12, what)));
        }
        if end - 1 > self.meta.last_page || end * page_bytes > self.file_bytes {
            let what = format!("a value on pages {first} to {}, the last page is {}", end - 1, self.meta.last_page);
            return Err(self.damaged(first, Damage::new(12, what)));
        }
        let at = first * page_bytes + HEADER_BYTES as u64;
        Ok(Value::Plain(at..at + bytes, count))
    }

    /// The record that is a node's value.
    pub(super) fn record(&self, number: u64, page: &[u8], node: &Node) -> Result<Record> {
        if node.data.len() != RECORD_BYTES {
            let what = format!("the record of a tree has {} bytes, expected {RECORD_BYTES}", node.data.len());
            return Err(self.damaged(number, Damage::new(node.at, what)));
        }
        let record = Record::parse(page, number, node.data.start);
        self.check(&record)?;
        Ok(record)
    }

    /// The page of duplicates that is a node's value.
    pub(super) fn inner(&self, number: u64, page: &[u8], within: &Range<usize>, record: &Record) -> Result<Layout> {
        let inner = &page[within.clone()];
        let layout = pages::layout(inner).and_then(|layout| {
            let is_fixed = record.flags & FIXED_DUPLICATES != 0;
            match layout.kind {
                Kind::Leaf if !is_fixed => {}
                Kind::Fixed(_) if is_fixed => {}
                kind => return Err(Damage::new(10, format!("duplicates in {kind}"))),
            }
            if layout.count == 0 {
                return Err(Damage::new(12, "a page of duplicates without any"));
            }
            pages::check(inner, &layout)?;
            Ok(layout)
        });
        layout.map_err(|damage| self.damaged(number, damage.within(within.start)))
    }

    /// Range of a duplicate in the file; `page` is a page of duplicates that begins at `start` in page `number`.
    pub(super) fn duplicate(
        &self,
        number: u64,
        page: &[u8],
        layout: &Layout,
        index: usize,
        start: usize,
    ) -> Result<Range<u64>> {
        if index >= layout.count {
            return Err(self.damaged(number, Damage::new(start + 12, "a page of duplicates without any")));
        }
        let range = pages::duplicate(page, layout, index);
        let range = range.map_err(|damage| self.damaged(number, damage.within(start)))?;
        let at = number * self.meta.page_bytes + start as u64;
        Ok(at + range.start as u64..at + range.end as u64)
    }
}

/// Kind of the leaves of a tree.
pub(super) fn leaf_kind(record: &Record, role: Role) -> Kind {
    match role == Role::Duplicates && record.flags & FIXED_DUPLICATES != 0 {
        true => Kind::Fixed(record.item_bytes as usize),
        false => Kind::Leaf,
    }
}

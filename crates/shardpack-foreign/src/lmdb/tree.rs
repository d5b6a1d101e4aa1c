//! A database of an environment: one key looked up, and the leaves of all.
//!
//! Holds at all times: a tree is descended no deeper than its record says; leaves are found without being read.

use std::{cmp::Ordering, ops::Range, os::unix::fs::FileExt, path::Path, sync::Arc};

use shardpack_format::{Error, Result};

use super::{
    Environment, FIRST_PAGE,
    meta::{FIXED_DUPLICATES, INTEGER_KEY, RECORD_BYTES, REVERSE_KEY, Record},
    pages::{self, Damage, HEADER_BYTES, Kind, Layout, Node},
    walk::{Order, Walk},
};
use crate::sys;

/// A database.
#[derive(Debug)]
pub struct Database {
    environment: Arc<Environment>,
    record: Record,
    role: Role,
}

/// What a tree is there for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    /// The main database, whose entries may be others.
    Main,
    /// A named one.
    Named,
    /// The duplicates of one key, which are the keys here.
    Duplicates,
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

impl Database {
    pub(super) fn open(environment: &Arc<Environment>, name: Option<&[u8]>) -> Result<Self> {
        let main =
            Self { environment: Arc::clone(environment), record: environment.meta.main.clone(), role: Role::Main };
        let Some(name) = name else { return Ok(main) };
        let none = || {
            let what = format!("there is no database named {}", name.escape_ascii());
            Error::usage(what).in_file(&environment.path)
        };
        let mut page = Vec::new();
        let (number, node) = main.find(name, &mut page)?.ok_or_else(none)?;
        if node.flags != pages::DATABASE {
            return Err(none());
        }
        let record = environment.record(number, &page, &node)?;
        Ok(Self { environment: Arc::clone(environment), record, role: Role::Named })
    }

    /// The pages that are free, by the transactions that freed them.
    pub(super) fn of_free(environment: &Arc<Environment>) -> Self {
        Self { environment: Arc::clone(environment), record: environment.meta.free.clone(), role: Role::Named }
    }

    /// The file that is read.
    pub fn path(&self) -> &Path {
        self.environment.path()
    }

    /// Number of entries, as its record says. Each duplicate is one, and each named database in the main one.
    pub fn entries(&self) -> u64 {
        self.record.entries
    }

    /// Whether a key may have several values.
    pub fn has_duplicates(&self) -> bool {
        self.record.has_duplicates()
    }

    /// Whether keys are integers in the writing machine's order of bytes (`MDB_INTEGERKEY`).
    pub fn has_integer_keys(&self) -> bool {
        self.record.flags & INTEGER_KEY != 0
    }

    /// Where the value of a key lies in the file; where it has several, the first. `None` for a named database too.
    ///
    /// A writer that has set an order of its own (`mdb_set_compare`) does not say so in the file; its keys may not be
    /// found.
    ///
    /// # Errors
    /// When a page on the way cannot be read or is damaged.
    pub fn get(&self, key: &[u8]) -> Result<Option<Range<u64>>> {
        let mut page = Vec::new();
        let Some((number, node)) = self.find(key, &mut page)? else { return Ok(None) };
        match self.environment.value(number, &page, &node, &self.record, self.role)? {
            Value::Plain(range, _) => Ok(Some(range)),
            Value::Database => Ok(None),
            Value::Page(within) => {
                let layout = self.environment.inner(number, &page, &within, &self.record)?;
                self.environment.duplicate(number, &page[within.clone()], &layout, 0, within.start).map(Some)
            }
            Value::Tree(record) => {
                let leaf = self.environment.descend(&record, Role::Duplicates, &mut page, |_, _, _| Ok(0))?;
                let none = || Damage::new(record.at, "a tree of duplicates without any");
                let (number, layout) = leaf.ok_or_else(|| self.environment.damaged(record.page, none()))?;
                self.environment.duplicate(number, &page, &layout, 0, 0).map(Some)
            }
        }
    }

    /// Begins to walk all entries in the order of the leaf pages in the file, so that a disk reads forward; within a
    /// page in the order of keys.
    ///
    /// # Errors
    /// When a branch page cannot be read or is damaged, or a page stands twice in the tree.
    pub fn walk(&self) -> Result<Walk> {
        Walk::begin(&self.environment, &self.record, self.role, Order::Pages, self.environment.room())
    }

    /// Begins to walk all entries in the order of keys.
    ///
    /// # Errors
    /// As [`Database::walk`].
    pub fn cursor(&self) -> Result<Walk> {
        Walk::begin(&self.environment, &self.record, self.role, Order::Keys, self.environment.room())
    }

    /// Reads a value in place of what `out` holds.
    ///
    /// # Errors
    /// When it is not within the file, or cannot be read.
    pub fn read(&self, value: Range<u64>, out: &mut Vec<u8>) -> Result<()> {
        self.environment.read(value, out)
    }

    /// The leaf's node that has this key, and the number of the leaf, which `page` then holds.
    fn find(&self, key: &[u8], page: &mut Vec<u8>) -> Result<Option<(u64, Node)>> {
        let environment = &self.environment;
        let compare = |node: &Node, page: &[u8]| self.compare(&page[node.key.clone()], key);
        let leaf = environment.descend(&self.record, self.role, page, |number, page, layout| {
            // The key of the first node is not compared: it stands for all below the second.
            let (mut low, mut high) = (0, layout.count);
            while high - low > 1 {
                let middle = low.midpoint(high);
                let node = environment.node(number, page, layout, middle)?;
                if compare(&node, page) == Ordering::Greater { high = middle } else { low = middle }
            }
            Ok(low)
        })?;
        let Some((number, layout)) = leaf else { return Ok(None) };
        let (mut low, mut high) = (0, layout.count);
        while low < high {
            let middle = low.midpoint(high);
            let node = environment.node(number, page, &layout, middle)?;
            match compare(&node, page) {
                Ordering::Equal => return Ok(Some((number, node))),
                Ordering::Less => low = middle + 1,
                Ordering::Greater => high = middle,
            }
        }
        Ok(None)
    }

    /// The order of keys, by the flags.
    fn compare(&self, a: &[u8], b: &[u8]) -> Ordering {
        // Integers of one length, the lowest byte first, compare from their ends too.
        match self.record.flags & (REVERSE_KEY | INTEGER_KEY) {
            0 => a.cmp(b),
            _ => a.iter().rev().cmp(b.iter().rev()),
        }
    }
}

impl Environment {
    /// Reads a part of the file that a value has been said to be.
    fn read(&self, value: Range<u64>, out: &mut Vec<u8>) -> Result<()> {
        let bytes = value.end.checked_sub(value.start).filter(|_| value.end <= self.file_bytes);
        let Some(bytes) = bytes.and_then(|bytes| usize::try_from(bytes).ok()) else {
            let what = format!("a value from {} to {}, the file has {} bytes", value.start, value.end, self.file_bytes);
            return Err(Error::data(what).in_file(&self.path));
        };
        out.resize(bytes, 0);
        let read = self.file.read_exact_at(out, value.start);
        read.map_err(|e| sys::io_error("cannot read", &self.path, e).at_byte(value.start))
    }

    /// Goes down to a leaf by the nodes that `choose` names; returns its number, and reads it into `page`.
    fn descend(
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

    fn node(&self, number: u64, page: &[u8], layout: &Layout, index: usize) -> Result<Node> {
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
                    let Node { at, child, .. } = self.node(number, &page, &layout, index)?;
                    if !(FIRST_PAGE..=self.meta.last_page).contains(&child) {
                        let what = format!("page {child} is below it, pages are 2 to {}", self.meta.last_page);
                        return Err(self.damaged(number, Damage::new(at, what)));
                    }
                    self.take(room, 1, number, at)?;
                    below.push(child);
                }
            }
            branches.append(&mut level);
            level = below;
        }
        // The counts in databases with duplicates are not what they should be, see the module.
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

    /// Sorts numbers of pages and checks that none is there twice.
    fn check_once(&self, mut numbers: Vec<u64>) -> Result<Vec<u64>> {
        numbers.sort_unstable();
        match numbers.windows(2).find(|pair| pair[0] == pair[1]) {
            Some(pair) => Err(self.damaged(pair[0], Damage::new(0, "it stands twice in the tree"))),
            None => Ok(numbers),
        }
    }

    /// Takes pages that a place refers to from those that are left.
    pub(super) fn take(&self, room: &mut u64, pages: u64, number: u64, at: usize) -> Result<()> {
        let left = room.checked_sub(pages);
        let what = "with what it refers to there are more pages than the file has, so some stand twice in the tree";
        *room = left.ok_or_else(|| self.damaged(number, Damage::new(at, what)))?;
        Ok(())
    }

    /// What a node's value is.
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
                    _ => Err(self.damaged(number, Damage::new(node.at, "duplicates are of one size, or not"))),
                }
            }
            flags => {
                let what = format!("a node has the flags {flags:#x}, which are not possible here");
                Err(self.damaged(number, Damage::new(node.at + 4, what)))
            }
        }
    }

    /// Where a value on overflow pages lies.
    fn overflow(&self, number: u64, page: &[u8], node: &Node) -> Result<Value> {
        let first = pages::u64_at(page, node.data.start);
        let damaged = |what: String| self.damaged(number, Damage::new(node.data.start, what));
        let mut header = [0; HEADER_BYTES];
        if !(FIRST_PAGE..=self.meta.last_page).contains(&first) {
            let last = self.meta.last_page;
            return Err(damaged(format!("its value is said to be on page {first}, pages are 2 to {last}")));
        }
        self.read_at(first, &mut header)?;
        let count = pages::overflow_pages(&header).map_err(|damage| self.damaged(first, damage))?;
        let page_bytes = self.meta.page_bytes;
        // Neither sum nor product overflows: the first page is in the file, the others have 32 bits.
        let (end, bytes) = (first + count, node.value_bytes);
        if HEADER_BYTES as u64 + bytes > count * page_bytes {
            let what =
                format!("{count} pages of {page_bytes} bytes for a value of {bytes} that page {number} has here");
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
    fn record(&self, number: u64, page: &[u8], node: &Node) -> Result<Record> {
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

    /// Where a duplicate lies in the file; `page` is a page of them that begins at `start` in page `number`.
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

/// What the leaves of a tree are.
pub(super) fn leaf_kind(record: &Record, role: Role) -> Kind {
    match role == Role::Duplicates && record.flags & FIXED_DUPLICATES != 0 {
        true => Kind::Fixed(record.item_bytes as usize),
        false => Kind::Leaf,
    }
}

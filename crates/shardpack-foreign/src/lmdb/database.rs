//! A database of an environment: one key looked up, a value read, all entries walked.

use std::{cmp::Ordering, ops::Range, path::Path, sync::Arc};

use shardpack_format::{Error, Result};

use super::{
    Environment,
    meta::{INTEGER_KEY, REVERSE_KEY, Record},
    pages::{self, Damage, Node},
    tree::{Order, Role, Value},
    walk::Walk,
};

/// A database.
#[derive(Debug)]
pub struct Database {
    environment: Arc<Environment>,
    record: Record,
    role: Role,
}

impl Database {
    pub(super) fn open(environment: &Arc<Environment>, name: Option<&[u8]>) -> Result<Self> {
        let main =
            Self { environment: Arc::clone(environment), record: environment.meta.main.clone(), role: Role::Main };
        let Some(name) = name else { return Ok(main) };
        let none = || {
            let what = format!("there is no database named {}", name.escape_ascii());
            Error::usage(what).in_file(environment.path())
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

    /// Number of entries, from the record. Each duplicate counts, and in the main database each named database.
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

    /// Range of the value of a key in the file; the first value if the key has several. `None` for a named database too.
    ///
    /// The file does not record a custom key order (`mdb_set_compare`); keys of such a database may not be found.
    ///
    /// # Errors
    /// If a page on the way cannot be read or is corrupt.
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
    /// If a branch page cannot be read or is corrupt, or a page stands twice in the tree.
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

    /// Reads a value into `out`, replacing its content.
    ///
    /// # Errors
    /// If the range is outside the file, or the read fails.
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

//! All entries of a database, leaf by leaf.
//!
//! 8 bytes a leaf and one page are in memory, and as much again for the duplicates of one key; no
//! page is come to twice, so a walk ends.

use std::{mem, ops::Range, sync::Arc, vec};

use shardpack_format::Result;

use super::{
    Environment,
    meta::Record,
    pages::{self, Damage, Layout},
    tree::{Order, Role, Value, leaf_kind},
};

/// A key with one value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The key.
    pub key: Vec<u8>,
    /// Range of the value in the file, in bytes.
    pub value: Range<u64>,
    /// Number of the leaf page that has the entry.
    pub page: u64,
}

/// A walk through a database.
#[derive(Debug)]
pub struct Walk {
    environment: Arc<Environment>,
    record: Record,
    role: Role,
    order: Order,
    /// Leaves that are to come.
    leaves: vec::IntoIter<u64>,
    /// The leaf that is open, and its number.
    page: Vec<u8>,
    number: u64,
    layout: Option<Layout>,
    /// Index of the next node of the leaf.
    index: usize,
    duplicates: Option<Duplicates>,
    found: u64,
    /// Pages that may yet be referred to.
    room: u64,
    has_ended: bool,
}

/// Duplicates of a key that are to come.
#[derive(Debug)]
struct Duplicates {
    key: Vec<u8>,
    of: Of,
}

#[derive(Debug)]
enum Of {
    /// In a page within the leaf.
    Page { within: Range<usize>, layout: Layout, index: usize },
    /// In a tree.
    Tree(Box<Walk>),
}

impl Walk {
    pub(super) fn begin(
        environment: &Arc<Environment>,
        record: &Record,
        role: Role,
        order: Order,
        mut room: u64,
    ) -> Result<Self> {
        let leaves = environment.leaves(record, order, &mut room)?.into_iter();
        Ok(Self {
            environment: Arc::clone(environment),
            record: record.clone(),
            role,
            order,
            leaves,
            page: Vec::new(),
            number: 0,
            layout: None,
            index: 0,
            duplicates: None,
            found: 0,
            room,
            has_ended: false,
        })
    }

    /// The next entry; `None` after an error. Named databases in the main database are skipped.
    ///
    /// # Errors
    /// If a page is unreadable or corrupt, or the number of entries differs from the record.
    #[expect(clippy::should_implement_trait, reason = "named as in the walks of all foreign files")]
    pub fn next(&mut self) -> Result<Option<Entry>> {
        if self.has_ended {
            return Ok(None);
        }
        let step = self.step();
        self.has_ended = !matches!(step, Ok(Some(_)));
        step
    }

    /// The bytes of the value of the last entry, if they are in the leaf in memory.
    pub(super) fn value(&self, entry: &Entry) -> Option<&[u8]> {
        let start = self.number.checked_mul(self.environment.meta.page_bytes)?;
        let place = |at: u64| usize::try_from(at.checked_sub(start)?).ok();
        self.page.get(place(entry.value.start)?..place(entry.value.end)?)
    }

    fn step(&mut self) -> Result<Option<Entry>> {
        loop {
            if let Some(entry) = self.duplicate()? {
                self.found += 1;
                return Ok(Some(entry));
            }
            let Some(layout) = self.layout.filter(|layout| self.index < layout.count) else {
                if self.open_leaf()? {
                    continue;
                }
                return self.check_count();
            };
            let index = self.index;
            self.index += 1;
            let (environment, number) = (Arc::clone(&self.environment), self.number);
            if self.role == Role::Duplicates {
                self.found += 1;
                let value = environment.duplicate(number, &self.page, &layout, index, 0)?;
                return Ok(Some(Entry { key: Vec::new(), value, page: number }));
            }
            let node = pages::node(&self.page, &layout, index);
            let node = node.map_err(|damage| environment.damaged(number, damage))?;
            let key = self.page[node.key.clone()].to_vec();
            match environment.value(number, &self.page, &node, &self.record, self.role)? {
                Value::Plain(value, pages) => {
                    environment.take(&mut self.room, pages, number, node.at)?;
                    self.found += 1;
                    return Ok(Some(Entry { key, value, page: number }));
                }
                Value::Database => self.found += 1,
                Value::Page(within) => {
                    let layout = environment.inner(number, &self.page, &within, &self.record)?;
                    self.duplicates = Some(Duplicates { key, of: Of::Page { within, layout, index: 0 } });
                }
                Value::Tree(record) => {
                    let walk = Self::begin(&environment, &record, Role::Duplicates, self.order, self.room)?;
                    self.duplicates = Some(Duplicates { key, of: Of::Tree(Box::new(walk)) });
                }
            }
        }
    }

    /// The next of the duplicates that are open.
    fn duplicate(&mut self) -> Result<Option<Entry>> {
        let Some(Duplicates { key, of }) = &mut self.duplicates else { return Ok(None) };
        let next = match of {
            Of::Page { within, layout, index } if *index < layout.count => {
                let index = mem::replace(index, *index + 1);
                let page = &self.page[within.clone()];
                Some(self.environment.duplicate(self.number, page, layout, index, within.start)?)
            }
            Of::Page { .. } => None,
            Of::Tree(walk) => {
                let next = walk.next()?.map(|entry| entry.value);
                self.room = walk.room;
                next
            }
        };
        match next {
            Some(value) => Ok(Some(Entry { key: key.clone(), value, page: self.number })),
            None => {
                self.duplicates = None;
                Ok(None)
            }
        }
    }

    /// Reads the next leaf, if there is one.
    fn open_leaf(&mut self) -> Result<bool> {
        let Some(number) = self.leaves.next() else { return Ok(false) };
        self.number = number;
        self.index = 0;
        self.environment.page(number, &mut self.page)?;
        let layout = self.environment.layout(number, &self.page, leaf_kind(&self.record, self.role))?;
        pages::check(&self.page, &layout).map_err(|damage| self.environment.damaged(number, damage))?;
        self.layout = Some(layout);
        Ok(true)
    }

    fn check_count(&self) -> Result<Option<Entry>> {
        let (found, said) = (self.found, self.record.entries);
        if found == said {
            return Ok(None);
        }
        let what = format!("a database of {said} entries has {found}");
        let error = self.environment.damaged(self.record.page, Damage::new(self.record.at, what));
        // ITS#7861
        Err(match self.record.has_duplicates() {
            true => {
                error.help("liblmdb before 0.9.12 miscounted duplicates; if it wrote this, use mdb_dump and mdb_load")
            }
            false => error,
        })
    }
}

//! Compares the labels of a dataset with the current labels of its source.
//!
//! Classes match by name. A source class whose name is not in the dataset may have been renamed or merged when it was packed: samples of
//! such classes are counted, and each such class must correspond to exactly one class of the dataset.

use std::collections::BTreeMap;

use shardpack_format::{index::RowRef, size};

use super::{Opened, Problem, against::Original};

/// Class of a source sample, compared with the class of a row.
pub(super) enum ClassMatch {
    /// The same class, or the dataset has no labels.
    Same,
    /// Another class; the message describes the difference.
    Other(String),
    /// A class with this number whose name is not in the dataset.
    Renamed(u32),
    /// No sample of the source has a label.
    Nothing,
}

/// Label comparison over the rows of one shard, or of all shards.
#[derive(Default)]
pub(super) struct Seen {
    /// Number of samples and first problem for each pair of source class and dataset label with different names.
    renamed: BTreeMap<(u32, i64), (u64, Problem)>,
    /// Rows with a label, if the source has no labels at all.
    without: u64,
}

impl Seen {
    /// Compares `row` with source sample `number`; returns a problem if the classes certainly differ.
    pub fn take(
        &mut self,
        original: &Original<'_>,
        row: &RowRef<'_>,
        number: u64,
        problem: impl FnOnce(String) -> Problem,
    ) -> Option<Problem> {
        match original.label_of(row, number) {
            ClassMatch::Same => {}
            ClassMatch::Other(what) => return Some(problem(what)),
            ClassMatch::Nothing => self.without += 1,
            ClassMatch::Renamed(class) => {
                let label = row.label.unwrap_or_default();
                self.renamed.entry((class, label)).or_insert_with(|| (0, problem(String::new()))).0 += 1;
            }
        }
        None
    }

    /// Adds the counts of the next shard.
    pub fn add(&mut self, other: Self) {
        self.without += other.without;
        for (classes, (samples, first)) in other.renamed {
            self.renamed.entry(classes).or_insert((0, first)).0 += samples;
        }
    }

    /// The problems that only all rows together reveal.
    pub fn finish(self, dataset: &Opened, original: &Original<'_>) -> Vec<Problem> {
        let mut problems = Vec::new();
        if self.without > 0 {
            let what = format!("{} with labels, and the source has none", size::counted(self.without, "sample"));
            problems.push(dataset.problem(shardpack_format::manifest::FILE, what));
        }
        let mut most: BTreeMap<u32, (u64, i64)> = BTreeMap::new();
        for ((class, label), (samples, _)) in &self.renamed {
            let best = most.entry(*class).or_insert((*samples, *label));
            if *samples > best.0 {
                *best = (*samples, *label);
            }
        }
        let is_most = |(class, label): &(u32, i64)| most.get(class).is_some_and(|(_, best)| best == label);
        for ((class, label), (samples, first)) in self.renamed {
            if is_most(&(class, label)) {
                continue;
            }
            let others = match samples - 1 {
                0 => String::new(),
                more => format!(", and the same for {} more", size::counted(more, "sample")),
            };
            let what = format!("{}{others}", original.differs(Some(label), Some(class)));
            problems.push(Problem { what, ..first });
        }
        problems
    }
}

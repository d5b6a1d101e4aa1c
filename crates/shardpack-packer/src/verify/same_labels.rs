//! Whether the samples of a dataset have the labels that its source has now.
//!
//! Classes are the same where their names are. One of the source whose name the dataset has not may have got another name when it was
//! packed, or one together with others: such are counted, and each may have become one class of the dataset only.

use std::collections::BTreeMap;

use shardpack_format::{index::RowRef, size};

use super::{Opened, Problem, against::Original};

/// What a sample of the source says of the class of a row.
pub(super) enum Said {
    /// The same, or nothing where the dataset has no labels.
    Same,
    /// Something else.
    Other(String),
    /// A class of this number, whose name the dataset has not.
    Renamed(u32),
    /// No sample of the source has a label.
    Nothing,
}

/// What rows of a shard, or of all shards, came to.
#[derive(Default)]
pub(super) struct Seen {
    /// Samples of each class of the source and label of the dataset that have other names, and the first of them.
    renamed: BTreeMap<(u32, i64), (u64, Problem)>,
    /// Rows with labels where the source has none at all.
    without: u64,
}

impl Seen {
    /// Takes what sample `number` of the source says of `row`; a problem where the classes differ for sure.
    pub fn take(
        &mut self,
        original: &Original<'_>,
        row: &RowRef<'_>,
        number: u64,
        problem: impl FnOnce(String) -> Problem,
    ) -> Option<Problem> {
        match original.label_of(row, number) {
            Said::Same => {}
            Said::Other(what) => return Some(problem(what)),
            Said::Nothing => self.without += 1,
            Said::Renamed(class) => {
                let label = row.label.unwrap_or_default();
                self.renamed.entry((class, label)).or_insert_with(|| (0, problem(String::new()))).0 += 1;
            }
        }
        None
    }

    /// Adds those of the shard that follows.
    pub fn add(&mut self, other: Self) {
        self.without += other.without;
        for (classes, (samples, first)) in other.renamed {
            self.renamed.entry(classes).or_insert((0, first)).0 += samples;
        }
    }

    /// The problems that only all rows together show.
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
                more => format!(", and so of {} more", size::counted(more, "sample")),
            };
            let what = format!("{}{others}", original.differs(Some(label), Some(class)));
            problems.push(Problem { what, ..first });
        }
        problems
    }
}

//! Evaluates a condition, or another function of samples, for the samples of a dataset, one thread a shard.
//!
//! Holds at all times: the result does not depend on the number of threads, and neither does the error, which is that of the first
//! shard that has one. Memory: one bit a sample.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};

use shardpack_format::{Error, Result};
use shardpack_reader::{Dataset, Shard};
use shardpack_runtime::threads;

use super::{
    Condition, Literal, Node, Operand,
    columns::{Buffers, Column, Row},
    compare::{Failed, holds},
};
use crate::order::Selection;

impl Condition {
    /// The samples of `of`, a selection of `dataset`, for which the condition is true.
    ///
    /// # Errors
    /// If a column is missing or of another type than the value that it is compared with, or cannot be read.
    pub(crate) fn select(&self, dataset: &Dataset, of: &Selection) -> Result<Selection> {
        let columns = self.names.iter().map(|name| Column::find(name, dataset)).collect::<Result<Vec<_>>>()?;
        check(&self.node, &columns).map_err(|error| error.in_file(dataset.folder()))?;
        let found = of_shards(dataset, |shard, buffers| self.bits(shard, of, &columns, buffers))?;
        let numbers = dataset.shards().zip(&found).flat_map(|(shard, bits)| {
            let is_set = |row: &u64| bits[(row / 64) as usize] >> (row % 64) & 1 > 0;
            (0..shard.len()).filter(is_set).map(move |row| shard.samples().start + row)
        });
        Selection::from_numbers(dataset.len(), numbers)
    }

    /// A bit for each sample of `shard`.
    fn bits(&self, shard: Shard<'_>, of: &Selection, columns: &[Column], buffers: &mut Buffers) -> Result<Vec<u64>> {
        let samples = shard.samples();
        let mut bits = vec![0_u64; usize::try_from(shard.len().div_ceil(64)).unwrap_or(usize::MAX)];
        for selected in of.before(samples.start)..of.before(samples.end) {
            let number = of.number(selected) - samples.start;
            let row = Row { shard, number, row: shard.row(number)? };
            let truth = holds(&self.node, &mut |column| row.value(&columns[column], buffers));
            let truth = truth.map_err(|failed| match failed {
                Failed::Column(error) => error,
                Failed::Unlike(what) => {
                    Error::data(format!("where: {what}")).in_file(shard.path()).in_sample(row.row.name())
                }
            })?;
            bits[(number / 64) as usize] |= u64::from(truth == Some(true)) << (number % 64);
        }
        Ok(bits)
    }
}

/// The result of `work` for each shard of a dataset.
///
/// # Errors
/// The error of the first shard that has one.
pub(super) fn of_shards<T: Send>(
    dataset: &Dataset,
    work: impl Fn(Shard<'_>, &mut Buffers) -> Result<T> + Sync,
) -> Result<Vec<T>> {
    let (next, has_failed) = (AtomicUsize::new(0), AtomicBool::new(false));
    let shards = dataset.manifest().shards.len();
    let scan = || {
        let (mut found, mut buffers) = (Vec::new(), Buffers::default());
        // Shards begin in order, so all shards before a failed one are scanned.
        while !has_failed.load(Relaxed)
            && let number = next.fetch_add(1, Relaxed)
            && number < shards
        {
            let result = dataset.shard(number).and_then(|shard| work(shard, &mut buffers));
            has_failed.fetch_or(result.is_err(), Relaxed);
            found.push((number, result));
        }
        found
    };
    let most = threads::cores().max(dataset.concurrency().unwrap_or(1)).min(shards);
    let mut found: Vec<_> = threads::gather(most, scan).into_iter().flatten().collect();
    found.sort_unstable_by_key(|(number, _)| *number);
    found.into_iter().map(|(_, result)| result).collect()
}

/// Refuses comparisons of a text with a number.
fn check(condition: &Node, columns: &[Column]) -> Result<()> {
    match condition {
        Node::All(all) | Node::Any(all) => all.iter().try_for_each(|one| check(one, columns)),
        Node::Not(one) => check(one, columns),
        Node::IsMissing(_) => Ok(()),
        Node::Compare(left, _, right) => alike(left, right, columns),
        Node::In(one, values) => {
            values.iter().try_for_each(|value| alike(one, &Operand::Literal(value.clone()), columns))
        }
    }
}

fn alike(left: &Operand, right: &Operand, columns: &[Column]) -> Result<()> {
    let is_text = |operand: &Operand| match operand {
        Operand::Literal(literal) => Some(matches!(literal, Literal::Text(_))),
        Operand::Column(column) => columns[*column].is_text(),
    };
    // Text of a component may be a number.
    let may_be_number = |operand: &Operand| matches!(operand, Operand::Column(column) if columns[*column].is_component() && columns[*column].is_text() != Some(false));
    match (is_text(left), is_text(right)) {
        (Some(a), Some(b)) if a != b && !may_be_number(left) && !may_be_number(right) => {
            let shown = |operand: &Operand| match operand {
                Operand::Literal(Literal::Text(text)) => format!("{text:?}"),
                Operand::Literal(Literal::Number(number)) => number.to_string(),
                Operand::Column(column) => columns[*column].name().to_owned(),
            };
            let (text, number) = if a { (left, right) } else { (right, left) };
            Err(Error::usage(format!("where: {} is text, and {} is a number", shown(text), shown(number))))
        }
        _ => Ok(()),
    }
}

//! `bench`: shardpack against what people use today, as ratios taken inside one run.
//!
//! Holds at all times: everything is written below target/bench, but for the tables in docs/performance.md; contenders of
//! one table take turns, and a ratio compares neighbours in time.

mod cold;
mod contest;
mod images;
pub mod machine;
mod page;
#[allow(unsafe_code, reason = "wait4, which tells what a process has used, has no safe wrapper")]
mod process;
mod rows;
mod slow;
mod training;
mod trees;
mod values;

use std::path::PathBuf;

use crate::{Result, arguments::Arguments, command::target};

/// How much is to be done.
pub struct Scale {
    /// Rounds of each contest.
    rounds: usize,
    /// Trees are made so many times smaller.
    smaller: u64,
}

/// A table, by the name it is asked for with.
type Row = (&'static str, fn(&Scale) -> Result<String>);

const ROWS: [Row; 16] = [
    ("pack", rows::pack),
    ("peers", rows::peers),
    ("formats", rows::formats),
    ("format-peers", rows::format_peers),
    ("convert", rows::convert),
    ("lmdb", rows::lmdb),
    ("values", values::values),
    ("selection", images::selection),
    ("resize", images::resize),
    ("cold", rows::cold),
    ("slow", rows::slow),
    ("verify", rows::verify),
    ("read", rows::read),
    ("training", training::training),
    ("scale", rows::scale),
    ("listing", rows::listing),
];

/// `bench`.
pub fn task(mut arguments: Arguments) -> Result<()> {
    let rounds = if arguments.flag("--quick") { 3 } else { 5 };
    let smaller = arguments.number("--small")?.unwrap_or(1).max(1);
    let scale = Scale { rounds, smaller };
    let mut wanted = Vec::new();
    while let Some(word) = arguments.word() {
        let names = || ROWS.map(|(name, _)| name).join(" ");
        let row = ROWS.iter().find(|(name, _)| *name == word);
        wanted.push(row.ok_or_else(|| format!("no row {word:?}; there are {}", names()))?);
    }
    if wanted.is_empty() {
        wanted.extend(&ROWS);
    }
    rows::build()?;
    let mut page = page::Page::open(&machine::describe(&target("")))?;
    for (name, row) in wanted {
        println!("== {name}");
        let table = row(&scale)?;
        println!("{table}");
        page.set(name, &table);
        // After each: what has been measured is kept if a later row fails.
        if smaller == 1 {
            page.save()?;
        }
    }
    match smaller {
        1 => println!("written to docs/performance.md"),
        _ => println!("docs/performance.md is left alone: the trees were {smaller} times too small"),
    }
    Ok(())
}

/// `path` in the folder of the benchmarks.
fn folder(path: &str) -> PathBuf {
    target("bench").join(path)
}

//! Compares shardpack with current tools (`bench`), as ratios within one run.
//!
//! All files are written below target/bench, except the tables in docs/explain/performance.md. Contenders of one table take turns, and
//! a ratio compares runs that are close in time.

mod augment;
mod before;
mod buckets;
mod cold;
mod contest;
mod far;
mod images;
mod loops;
pub mod machine;
mod nginx;
mod page;
mod parts;
mod photographs;
#[allow(unsafe_code, reason = "wait4, which tells what a process has used, has no safe wrapper")]
mod process;
mod python_rows;
mod raw;
mod rows;
mod samples;
mod slow;
mod stores;
mod targets;
mod training;
mod training_peers;
mod trees;
mod values;
mod waits;

use std::{
    path::{Path, PathBuf},
    process::Command,
};

use crate::{
    Result,
    arguments::Arguments,
    command::{command, target},
};

/// Size of the benchmark.
pub struct Scale {
    /// Rounds of each contest.
    rounds: usize,
    /// Divisor of the size of trees.
    smaller: u64,
    /// Folder of JPEGs to train on, instead of generated JPEGs.
    photos: Option<PathBuf>,
    /// Words before each command that reads for training.
    under: Vec<String>,
}

/// Name of a table on the command line, and its function.
type Row = (&'static str, fn(&Scale) -> Result<String>);

const ROWS: [Row; 27] = [
    ("pack", rows::pack),
    ("peers", rows::peers),
    ("formats", rows::formats),
    ("format-peers", rows::format_peers),
    ("convert", rows::convert),
    ("lmdb", rows::lmdb),
    ("values", values::values),
    ("rows", python_rows::python_rows),
    ("selection", images::selection),
    ("resize", images::resize),
    ("cold", rows::cold),
    ("slow", rows::slow),
    ("verify", rows::verify),
    ("read", rows::read),
    ("raw", raw::raw),
    ("augment", augment::augment),
    ("parts", parts::parts),
    ("training", training::training),
    ("training-peers", training_peers::training_peers),
    ("loops", loops::loops),
    ("samples", samples::samples),
    ("waits", waits::waits),
    ("stores", stores::stores),
    ("buckets", buckets::buckets),
    ("scale", rows::scale),
    ("listing", rows::listing),
    ("targets", targets::targets),
];

/// Task `bench`.
pub fn task(mut arguments: Arguments) -> Result<()> {
    let usual = if arguments.flag("--quick") { 3 } else { 5 };
    let rounds = arguments.number("--rounds")?.map_or(usual, |rounds| (rounds as usize).max(1));
    let smaller = arguments.number("--small")?.unwrap_or(1).max(1);
    let photos = arguments.value("--photos")?.map(std::path::absolute).transpose();
    let photos = photos.map_err(|error| format!("--photos: {error}"))?;
    let under = arguments.value("--under")?.unwrap_or_default();
    let under = under.split_whitespace().map(str::to_owned).collect();
    let earlier = arguments.value("--before")?.map(std::path::absolute).transpose();
    let earlier = earlier.map_err(|error| format!("--before: {error}"))?;
    let scale = Scale { rounds, smaller, photos, under };
    if let Some(earlier) = earlier {
        return arguments.end().and_then(|()| before::before(&scale, &earlier));
    }
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
        // Saved after each row, so that finished rows survive a later failure.
        if scale.is_for_the_page() {
            page.save()?;
        }
    }
    match scale.is_for_the_page() {
        true => println!("written to docs/explain/performance.md"),
        false => println!("docs/explain/performance.md is left alone: these are not the trees that it tells of"),
    }
    Ok(())
}

impl Scale {
    /// Whether the results match the settings that the page states.
    fn is_for_the_page(&self) -> bool {
        self.smaller == 1 && self.photos.is_none()
    }

    /// `program` with `arguments`, behind the words of `--under`.
    fn under<S: AsRef<std::ffi::OsStr>>(&self, program: &Path, arguments: impl IntoIterator<Item = S>) -> Command {
        let Some((first, others)) = self.under.split_first() else { return command(program, arguments) };
        let mut under = command(first, others);
        under.arg(program).args(arguments);
        under
    }
}

/// `path` in the folder of the benchmarks.
fn folder(path: &str) -> PathBuf {
    target("bench").join(path)
}

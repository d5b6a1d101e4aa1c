//! `--samples`: samples as a table, or as a JSON document with one sample per line.

use serde::Serialize;
use shardpack_audit::inspect::{self, Filter, Resolved, Sample, Target};
use shardpack_format::text;
use shardpack_packer::{Error, Result};

use super::{Problem, tell};
use crate::{
    Outcome,
    args::Talk,
    document::{self, Network},
    lines::Lines,
    progress::Progress,
    report,
};

/// Number of samples for measuring column widths; wider values of later samples overflow.
const MEASURED: usize = 1000;
/// Size of the pieces in which JSON is printed.
const PIECE_BYTES: usize = 64 << 10;
/// Largest width of a class name and a key.
const CLASS_WIDTH: usize = 20;
const KEY_WIDTH: usize = 40;

/// Prints the samples that match `filter`, and the problems found.
pub fn list(resolved: &mut Resolved, filter: Filter, talk: Talk, monitor: &Progress) -> Result<Outcome> {
    let mut problems = std::mem::take(&mut resolved.problems);
    let targets = &resolved.targets;
    let limit = filter.limit;
    // One more, to detect whether there are further samples.
    let filter = Filter { limit: limit.map(|limit| limit.saturating_add(1)), ..filter };
    let mut out: Box<dyn Output> = match talk.json {
        true => Box::new(Document::default()),
        false => Box::new(Table::new(targets)),
    };
    let mut told = 0u64;
    let mut has_more = false;
    let result = inspect::samples(targets, &filter, monitor, &mut |sample| {
        has_more = limit == Some(told);
        if has_more {
            return Ok(());
        }
        told += 1;
        out.add(sample)
    });
    monitor.finish();
    let told_all = result.map(|found| problems.extend(found));
    out.finish(&problems, told_all.as_ref().err(), resolved.transfers().map(Network::from))?;
    told_all?;
    if let Some(transfers) = resolved.transfers().filter(|_| !talk.json && !talk.quiet) {
        report::print(&report::network(transfers))?;
    }
    if has_more && !talk.json && !talk.quiet {
        report::say(&format!("note    there are more than {}; --limit 0 lists all", report::count(told)));
    }
    Ok(tell(&problems))
}

/// Output for samples.
trait Output {
    fn add(&mut self, sample: &Sample) -> Result<()>;
    /// Ends the output with the problems, and with the error that stopped the list early.
    fn finish(&mut self, problems: &[Error], error: Option<&Error>, network: Option<Network>) -> Result<()>;
}

/// The document of `inspect --samples`. It has one sample on a line, because it is printed in pieces.
#[cfg(test)]
#[derive(Serialize, schemars::JsonSchema)]
pub struct Listed {
    /// Samples in stored order.
    samples: Vec<Sample>,
    /// Problems, in shard order.
    problems: Vec<Problem>,
    /// Null if all data was read from files.
    network: Option<Network>,
    /// The error that ended the list early, if any.
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<document::Error>,
}

#[derive(Default)]
struct Document {
    piece: String,
    samples: u64,
}

impl Document {
    fn print(&mut self) -> Result<()> {
        report::answered();
        report::print_bytes(std::mem::take(&mut self.piece).as_bytes())
    }
}

impl Output for Document {
    fn add(&mut self, sample: &Sample) -> Result<()> {
        self.piece += if self.samples == 0 { "{\"samples\": [\n" } else { ",\n" };
        self.piece += &report::json_line(sample)?;
        self.samples += 1;
        if self.piece.len() > PIECE_BYTES { self.print() } else { Ok(()) }
    }

    fn finish(&mut self, problems: &[Error], error: Option<&Error>, network: Option<Network>) -> Result<()> {
        self.piece += if self.samples == 0 { "{\"samples\": [" } else { "\n" };
        let problems: Vec<_> = problems.iter().map(Problem::from).collect();
        let (problems, network) = (line(&problems)?, line(&network)?);
        self.piece += &format!("], \"problems\": {problems}, \"network\": {network}");
        if let Some(error) = error {
            self.piece += &format!(", \"error\": {}", line(&document::Error::from(error))?);
        }
        self.piece += "}\n";
        self.print()
    }
}

fn line(value: &impl Serialize) -> Result<String> {
    report::json_line(&report::sorted(value)?)
}

/// A column: its name, and whether it is right-aligned.
struct Column {
    name: &'static str,
    to_right: bool,
    width: usize,
}

struct Table {
    columns: Vec<Column>,
    with_dataset: bool,
    with_path: bool,
    rows: Vec<Vec<String>>,
    has_header: bool,
}

impl Table {
    /// Omits the path column for foreign files only, and the name column for one target.
    fn new(targets: &[Target]) -> Self {
        let with_dataset = targets.len() > 1;
        let with_path = targets.iter().any(|target| matches!(target, Target::Dataset(_)));
        let mut names = vec![("number", true), ("key", false), ("class", false), ("kind", false)];
        names.extend([("size", true), ("bytes", true)]);
        if with_dataset {
            names.insert(0, ("dataset", false));
        }
        if with_path {
            names.push(("path", false));
        }
        let column = |(name, to_right): (&'static str, bool)| Column { name, to_right, width: name.len() };
        let columns = names.into_iter().map(column).collect();
        Self { columns, with_dataset, with_path, rows: Vec::new(), has_header: false }
    }

    fn flush(&mut self) -> Result<()> {
        let mut out = Lines::default();
        if !self.has_header {
            self.has_header = true;
            for row in &self.rows {
                for (column, cell) in self.columns.iter_mut().zip(row) {
                    column.width = column.width.max(cell.chars().count());
                }
            }
            add(&mut out, &self.columns, self.columns.iter().map(|column| column.name));
        }
        for row in self.rows.drain(..) {
            add(&mut out, &self.columns, row.iter().map(String::as_str));
        }
        report::print(&out)
    }
}

impl Output for Table {
    fn add(&mut self, sample: &Sample) -> Result<()> {
        // Keeps the columns aligned.
        let text = |text: &str| text::line(text).into_owned();
        let label = || sample.label.map_or_else(|| "-".to_owned(), |label| label.to_string());
        let size = match sample.width {
            0 => "-".to_owned(),
            width => format!("{width}x{}", sample.height),
        };
        let mut row = Vec::with_capacity(self.columns.len());
        if self.with_dataset {
            row.push(text(sample.dataset.as_deref().unwrap_or(&sample.shard)));
        }
        row.extend([
            sample.number.to_string(),
            report::clip(&text(&sample.key), KEY_WIDTH),
            report::clip(&sample.class.as_deref().map_or_else(label, text), CLASS_WIDTH),
            sample.kind.clone().into_owned(),
            size,
            report::count(sample.bytes),
        ]);
        if self.with_path {
            row.push(text(sample.path.as_deref().unwrap_or("-")));
        }
        self.rows.push(row);
        if self.rows.len() >= MEASURED { self.flush() } else { Ok(()) }
    }

    fn finish(&mut self, _: &[Error], _: Option<&Error>, _: Option<Network>) -> Result<()> {
        self.flush()
    }
}

fn add<'a>(out: &mut Lines, columns: &[Column], cells: impl Iterator<Item = &'a str>) {
    let mut line = String::new();
    for (number, (column, cell)) in columns.iter().zip(cells).enumerate() {
        let gap = if number == 0 { "" } else { "  " };
        let width = column.width;
        line += &match column.to_right {
            true => format!("{gap}{cell:>width$}"),
            false => format!("{gap}{cell:<width$}"),
        };
    }
    out.line(line.trim_end());
}

//! The splits of one folder: a table of the splits, and a table of their classes.

use std::{collections::BTreeMap, path::Path};

use shardpack_audit::inspect::{Class, Summary, What};
use shardpack_format::{shell, text::path};

use super::text::{self, CLASSES_OF_ENDS, SHOWN_CLASSES, say};
use crate::{lines::Lines, report};

/// Number of splits with a column in the table of classes.
const COLUMNS: usize = 4;

/// Whether these are the splits of one folder: several datasets of one format in the same folder.
pub fn are(summaries: &[Summary]) -> bool {
    let folder = |summary: &Summary| Path::new(&summary.path).parent().map(Path::to_path_buf);
    let are_datasets = summaries.iter().all(|summary| summary.what == What::Dataset);
    let is_one_format = summaries.windows(2).all(|two| two[0].format == two[1].format);
    are_datasets
        && is_one_format
        && summaries.len() > 1
        && summaries.windows(2).all(|two| folder(&two[0]) == folder(&two[1]))
}

/// Adds the content of the splits.
pub fn report(out: &mut Lines, summaries: &[Summary], quiet: bool) {
    let Some(first) = summaries.first() else { return };
    let folder = Path::new(&first.path).parent().map_or_else(String::new, |path| self::path(path).to_string());
    let shown = |text: &str| report::path(text.as_bytes());
    let samples: u64 = summaries.iter().map(|summary| summary.samples).sum();
    let bytes = summaries.iter().map(|summary| summary.payload_bytes).sum();
    let names: Vec<_> = summaries.iter().map(|summary| shown(&summary.name)).collect();
    say(out, "splits", &[format!("{} in {}", names.join(", "), shown(&folder))]);
    let classes = classes(summaries);
    let in_classes = match classes.len() {
        0 => report::counted(samples, "sample"),
        count => format!("{} in {}", report::counted(samples, "sample"), report::counted(count as u64, "class")),
    };
    say(out, "holds", &[in_classes, format!("{} of {}s", report::bytes(bytes), text::noun(first))]);
    let formats: Vec<_> = summaries.iter().map(text::format_parts).collect();
    match formats.iter().all(|parts| *parts == formats[0]) {
        true => say(out, "format", &formats[0]),
        false => say(out, "format", &["not the same for all splits".to_owned()]),
    }
    if summaries.iter().all(|summary| summary.recipe == first.recipe)
        && let Some(recipe) = &first.recipe
    {
        say(out, "changed", std::slice::from_ref(recipe));
    }
    text::crops(out, summaries);
    summaries.iter().for_each(|summary| text::unread(out, summary));
    out.gap();
    line!(
        out,
        "  {:<20} {:>11} {:>8} {:>8} {:>11} {:>11}",
        "split",
        "samples",
        "share",
        "shards",
        "images",
        "not packed"
    );
    for summary in summaries {
        let missing = summary.ledger.map_or(0, |counts| counts.discovered - counts.packed);
        line!(
            out,
            "  {:<20} {:>11} {:>8} {:>8} {:>11} {:>11}",
            report::clip(&shown(&summary.name), 20),
            report::count(summary.samples),
            report::share(summary.samples, samples),
            report::count(summary.shards.count),
            report::bytes(summary.payload_bytes),
            report::count(missing),
        );
    }
    class_table(out, summaries, &classes);
    if !quiet {
        out.gap();
        say(out, "next", &[format!("shardpack verify {}", shell::path(&folder))]);
        line!(out, "        shardpack inspect {}", shell::path(&first.path));
    }
}

/// Samples of each class in each split, by label and name.
fn classes(summaries: &[Summary]) -> BTreeMap<(i64, Option<&str>), Vec<u64>> {
    let mut classes: BTreeMap<_, Vec<u64>> = BTreeMap::new();
    for (number, summary) in summaries.iter().enumerate() {
        for Class { label, name, samples } in &summary.classes.list {
            classes.entry((*label, name.as_deref())).or_insert_with(|| vec![0; summaries.len()])[number] = *samples;
        }
    }
    classes
}

fn class_table(out: &mut Lines, summaries: &[Summary], classes: &BTreeMap<(i64, Option<&str>), Vec<u64>>) {
    if classes.is_empty() || summaries.len() > COLUMNS {
        return;
    }
    let cells = |cells: &mut dyn Iterator<Item = String>| cells.map(|cell| format!(" {cell:>11}")).collect::<String>();
    let heads = summaries.iter().map(|summary| report::clip(&report::path(summary.name.as_bytes()), 11));
    out.gap();
    line!(out, "  {:>5}  {:<22}{}", "label", "class", cells(&mut heads.into_iter()));
    let (first, last) = match classes.len() {
        all if all <= SHOWN_CLASSES => (all, 0),
        _ => (CLASSES_OF_ENDS, CLASSES_OF_ENDS),
    };
    let mut sorted: Vec<_> = classes.iter().collect();
    sorted.sort_by_key(|((label, _), samples)| (std::cmp::Reverse(samples.iter().sum::<u64>()), *label));
    for (number, ((label, name), samples)) in sorted.iter().enumerate() {
        if number == first && last > 0 {
            let between = report::counted((sorted.len() - first - last) as u64, "class");
            line!(out, "  {:>5}  {between} between (--json has all)", "…");
        }
        if number < first || number >= sorted.len() - last {
            let name = name.map_or_else(|| "-".to_owned(), |name| report::path(name.as_bytes()));
            let counts = cells(&mut samples.iter().map(|count| report::count(*count)));
            line!(out, "  {label:>5}  {:<22}{counts}", report::clip(&name, 22));
        }
    }
}

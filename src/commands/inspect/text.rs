//! Text output of `inspect`: one line per subject, a table of classes, 80 columns wide if names allow it.

use shardpack_audit::{
    inspect::{Class, CropTables, Shards, Spread, Summary, What},
    shuffle_quality::{BATCH_SAMPLES, FEWEST_BATCHES, ShuffleQuality},
};

use crate::{lines::Lines, report};

/// Up to this number, all classes are shown; otherwise [`CLASSES_OF_ENDS`] of the largest and of the smallest.
pub const SHOWN_CLASSES: usize = 12;
pub const CLASSES_OF_ENDS: usize = 5;
const NAME_WIDTH: usize = 30;
const BAR_WIDTH: usize = 18;
/// Up to the first limit, a DEFF is as good as a true shuffle; up to the second, nearly as good.
const WELL_MIXED: f64 = 1.05;
const NEARLY_MIXED: f64 = 2.0;
/// Width at which lines wrap.
const WIDTH: usize = 80;
/// Width of the first word of a line.
const WORD_WIDTH: usize = 8;

/// Adds a line that begins with `word`. A line that is too long wraps between two parts.
pub fn say(out: &mut Lines, word: &str, parts: &[String]) {
    let mut line = format!("{word:<WORD_WIDTH$}");
    let mut is_first = true;
    for part in parts.iter().filter(|part| !part.is_empty()) {
        if !is_first && line.chars().count() + 2 + part.chars().count() > WIDTH {
            line.push(';');
            out.line(&line);
            line = " ".repeat(WORD_WIDTH);
        } else if !is_first {
            line += "; ";
        }
        line += part;
        is_first = false;
    }
    out.line(&line);
}

/// Adds the content of one dataset, or of shards of one format.
pub fn dataset(out: &mut Lines, summary: &Summary) {
    let shown = |text: String| report::path(text.as_bytes());
    let (word, parts) = match summary.what {
        What::Dataset => ("dataset", vec![format!("{} in {}", summary.name, summary.path)]),
        What::Shards => ("part", vec![format!("of dataset {} in {}", summary.name, summary.path)]),
        What::Foreign if summary.shards.count == 1 => ("foreign", vec![summary.path.clone(), "no manifest".to_owned()]),
        What::Foreign => ("foreign", vec![summary.name.clone(), "no manifest".to_owned()]),
    };
    say(out, word, &parts.into_iter().map(shown).collect::<Vec<_>>());
    if let Some(id) = &summary.id {
        say(out, "id", std::slice::from_ref(id));
    }
    let held_bytes = match noun(summary) {
        VALUE => summary.components.iter().map(|component| component.bytes).sum(),
        FILE if summary.payload_bytes == 0 => summary.components.iter().map(|component| component.bytes).sum(),
        _ => summary.payload_bytes,
    };
    let average = held_bytes / summary.samples.max(1);
    let holds = match summary.classes.count {
        0 => report::counted(summary.samples, "sample"),
        classes => {
            let classes = report::counted(classes, "class");
            format!("{} in {classes}", report::counted(summary.samples, "sample"))
        }
    };
    let images = format!("{} of {}s, {} on average", report::bytes(held_bytes), noun(summary), report::bytes(average));
    say(out, "holds", &[holds, images]);
    shards(out, summary);
    for words in &summary.understood {
        say(out, "entries", &words.iter().map(|words| report::path(words.as_bytes())).collect::<Vec<_>>());
    }
    components(out, summary);
    overhead(out, summary);
    tar(out, summary);
    images_text(out, summary);
    crops(out, std::slice::from_ref(summary));
    if let Some(recipe) = &summary.recipe {
        say(out, "changed", std::slice::from_ref(recipe));
    }
    mix(out, summary);
    if let Some(ledger) = &summary.ledger {
        let part = |count: u64, what: &str| match count {
            0 => String::new(),
            _ => format!(", {} {what}", report::count(count)),
        };
        let all =
            [part(ledger.skipped, "skipped"), part(ledger.duplicates, "duplicates"), part(ledger.filtered, "filtered")];
        let found = report::counted(ledger.discovered, if noun(summary) == VALUE { "sample" } else { noun(summary) });
        let ignored: u64 = summary.ignored_files.values().sum();
        let others = (ignored > 0).then(|| format!("{} found that were no images", report::counted(ignored, "file")));
        let packed = format!("{found} found: {} packed{}", report::count(ledger.packed), all.concat());
        say(out, "ledger", &[packed, others.unwrap_or_default()]);
    }
    classes(out, summary);
}

/// `256 MiB`, or the range; `each` is the unit of the values.
fn from_to(spread: &Spread, each: &str, text: impl Fn(u64) -> String) -> String {
    let [smallest, median, largest] = [spread.smallest, spread.median, spread.largest].map(text);
    match smallest == largest {
        true => format!("{largest}{each}"),
        false => format!("{smallest} to {largest}{each}, median {median}"),
    }
}

fn shards(out: &mut Lines, summary: &Summary) {
    let shards = &summary.shards;
    let size = shards.size.map_or_else(String::new, |size| format!(" of {}", from_to(&size, "", report::bytes)));
    let total = if shards.count > 1 { format!("{} in all", report::bytes(shards.bytes)) } else { String::new() };
    let each = |samples: Spread| from_to(&samples, " samples each", report::count);
    let samples = shards.samples.filter(|_| shards.count > 1).map_or_else(String::new, each);
    say(out, "shards", &[format!("{}{size}", report::counted(shards.count, "shard")), total, samples]);
    unread(out, summary);
    say(out, "format", &format_parts(summary));
}

/// Adds the number of shards whose samples are missing in the counts, if there are any.
pub fn unread(out: &mut Lines, summary: &Summary) {
    let Shards { count, unread, .. } = summary.shards;
    if unread > 0 {
        let name = if summary.what == What::Foreign { &summary.path } else { &summary.name };
        let of = format!(
            "{} of {} in {}",
            report::count(unread),
            report::counted(count, "shard"),
            report::path(name.as_bytes())
        );
        say(out, "unread", &[of, "counts of classes, kinds and components lack their samples".to_owned()]);
    }
}

/// Format, compression, order and blocks.
pub fn format_parts(summary: &Summary) -> [String; 4] {
    let compression = match summary.compression.as_str() {
        "none" => "not compressed".to_owned(),
        packed => format!("compressed with {packed}"),
    };
    let order = match &summary.order {
        None => "order unknown".to_owned(),
        Some(order) if order.algorithm == "source" => "in source order".to_owned(),
        Some(order) => format!("shuffled with seed {} ({})", order.seed, order.algorithm),
    };
    let block =
        summary.block_samples.map_or_else(String::new, |block| format!("{} a block", report::counted(block, "sample")));
    [summary.format.clone(), compression, order, block]
}

fn components(out: &mut Lines, summary: &Summary) {
    let parts: Vec<_> = summary
        .components
        .iter()
        .map(|component| {
            let name = report::path(component.name.as_bytes());
            let lacking = match component.samples == summary.samples {
                true => String::new(),
                false => format!(" in {}", report::counted(component.samples, "sample")),
            };
            let kind = component.kind.as_ref().map_or_else(String::new, |kind| format!(" {kind}"));
            format!("{}{kind} {}{lacking}", report::clip(&name, NAME_WIDTH), report::bytes(component.bytes))
        })
        .collect();
    let hidden = parts.len().saturating_sub(SHOWN_CLASSES);
    let mut parts: Vec<_> = parts.into_iter().take(SHOWN_CLASSES).collect();
    if hidden > 0 {
        parts.push(format!("and {hidden} more (--json has all)"));
    }
    if !parts.is_empty() {
        say(out, "parts", &parts);
    }
    for component in summary.components.iter().filter(|component| !component.classes.is_empty()) {
        let names = component.classes.iter().take(SHOWN_CLASSES);
        let mut names: Vec<_> =
            names.map(|name| report::clip(&report::path(name.as_bytes()), NAME_WIDTH).to_string()).collect();
        let hidden = component.classes.len() - names.len();
        if hidden > 0 {
            names.push(format!("and {hidden} more (--json has all)"));
        }
        let of = format!(
            "{} of {}",
            report::counted(component.classes.len() as u64, "class"),
            report::path(component.name.as_bytes())
        );
        say(out, "objects", &[format!("{of}: {}", names.join(", "))]);
    }
}

fn overhead(out: &mut Lines, summary: &Summary) {
    let overhead = &summary.overhead;
    let Some(share) = overhead.share else { return };
    let longer = if share < 0.0 { "shorter" } else { "longer" };
    let shards = format!("shards are {:.1} % {longer} than the {}s", share.abs() * 100.0, noun(summary));
    let framing = format!("{} of framing", report::bytes(overhead.framing_bytes));
    let index = match overhead.index_bytes {
        0 => String::new(),
        bytes => format!("{} of index", report::bytes(bytes)),
    };
    say(out, "cost", &[shards, framing, index]);
}

fn tar(out: &mut Lines, summary: &Summary) {
    let Some(tar) = &summary.tar else { return };
    let others = tar.members - tar.plain_members;
    let plain = match others {
        0 => "all plain USTAR".to_owned(),
        _ => format!("{} with PAX or GNU headers, which wids misreads", report::count(others)),
    };
    say(out, "members", &[report::count(tar.members), plain]);
    for (issue, members) in &tar.dropped {
        say(out, "", &[format!("{}: {issue}", report::counted(*members, "member"))]);
    }
    let ends = [
        (tar.unterminated_files, "without an end marker"),
        (tar.trailing_files, "with data behind the end, which no reader sees"),
        (tar.unreadable_files, "not read to the end"),
    ];
    for (files, what) in ends.into_iter().filter(|(files, _)| *files > 0) {
        say(out, "", &[format!("{} {what}", report::counted(files, "file"))]);
    }
}

/// Noun for samples with typed components.
const VALUE: &str = "value";
/// Noun for other samples that are not images.
const FILE: &str = "file";

/// The noun for samples: images, values, or other files, of which only the kinds are known.
pub(super) fn noun(summary: &Summary) -> &'static str {
    let images = &summary.images;
    // For foreign shards, the payload component is unknown.
    let are_files = summary.payload_bytes == 0 && !summary.components.is_empty() || !images.kinds.is_empty();
    let are_typed = summary.components.iter().any(|component| component.kind.is_some());
    match () {
        () if are_typed && images.modes.is_empty() => VALUE,
        () if images.modes.is_empty() && are_files => FILE,
        () => "image",
    }
}

fn images_text(out: &mut Lines, summary: &Summary) {
    let images = &summary.images;
    let total = images.kinds.values().sum();
    if total == 0 {
        return;
    }
    let mut kinds = shares(&images.kinds, total);
    if images.strays > 0 {
        let are = if images.strays == 1 { "stray (--samples --strays)" } else { "strays (--samples --strays)" };
        kinds.push(format!("{} {are}", report::count(images.strays)));
    }
    say(out, "kinds", &kinds);
    if images.modes.is_empty() {
        return;
    }
    let pixels = |spread: &Spread| from_to(spread, " px", report::count);
    if let (Some(width), Some(height)) = (&images.width, &images.height) {
        let unknown = match images.without_size {
            0 => String::new(),
            images => format!("{} of unknown size", report::count(images)),
        };
        say(out, "size", &[format!("width {}", pixels(width)), format!("height {}", pixels(height)), unknown]);
    }
    let mut modes = shares(&images.modes, total);
    let depths: Vec<_> = images.depths.iter().map(|(depth, count)| (*depth, *count)).collect();
    match depths[..] {
        [(0, _)] => {}
        [(depth, _)] => modes.push(format!("{depth} bits a channel")),
        _ => {
            let name = |depth| if depth == 0 { "unknown".to_owned() } else { format!("{depth} bits") };
            modes.extend(
                depths.iter().map(|(depth, count)| format!("{} {}", name(*depth), report::share(*count, total))),
            );
        }
    }
    say(out, "pixels", &modes);
}

/// Shares in descending order.
fn shares(counts: &std::collections::BTreeMap<String, u64>, total: u64) -> Vec<String> {
    let mut counts: Vec<_> = counts.iter().collect();
    counts.sort_by_key(|(_, count)| std::cmp::Reverse(**count));
    counts
        .iter()
        .map(|(name, count)| format!("{name} {} ({})", report::count(**count), report::share(**count, total)))
        .collect()
}

/// Crop tables, if any summary has them.
pub fn crops(out: &mut Lines, summaries: &[Summary]) {
    let mut all = CropTables::default();
    summaries.iter().filter_map(|summary| summary.crops.clone()).for_each(|crops| all.merge(crops));
    if all.shards == 0 {
        return;
    }
    let sum = |of: fn(&Summary) -> u64| summaries.iter().map(of).sum::<u64>();
    let (samples, shards, payload_bytes) =
        (sum(|one| one.samples), sum(|one| one.shards.count), sum(|one| one.payload_bytes));
    let every: Vec<String> = all.every.iter().map(|every| report::count((*every).into())).collect();
    let entries = format!("an entry every {} MCUs", every.join(", "));
    let have = if all.tables == 1 { "has a table" } else { "have tables" };
    let mut parts = vec![
        format!(
            "{} of {} {have} ({})",
            report::count(all.tables),
            report::counted(samples, "sample"),
            report::share(all.tables, samples)
        ),
        entries,
        format!("{}, {} of the images", report::bytes(all.bytes), report::share(all.bytes, payload_bytes)),
    ];
    if all.shards < shards {
        let some = format!("in {} of {} only", report::count(all.shards), report::counted(shards, "shard"));
        parts.push(format!("{some} (shardpack crops makes the others)"));
    }
    say(out, "crops", &parts);
    for (word, counts) in [("without:", &all.without), ("damaged:", &all.damaged)] {
        let mut parts: Vec<_> =
            counts.iter().map(|(why, samples)| format!("{} {why}", report::count(*samples))).collect();
        if let Some(first) = parts.first_mut() {
            *first = format!("{word} {first}");
            say(out, "", &parts);
        }
    }
}

fn mix(out: &mut Lines, summary: &Summary) {
    let told = summary.mix.iter().map(|mix| Some((mix, mix.deff?, mix.spread?))).collect::<Option<Vec<_>>>();
    let Some(told) = told.filter(|told| !told.is_empty()) else {
        let full = summary.classes.count - summary.classes.empty + u64::from(summary.classes.unlabelled_samples > 0);
        let why = match full {
            _ if summary.classes.count == 0 => "not known: there are no labels".to_owned(),
            0 => "not known: there are no samples".to_owned(),
            1 => "nothing to mix: there is one class".to_owned(),
            _ => format!("not known: fewer than {} samples", report::count(FEWEST_BATCHES * BATCH_SAMPLES)),
        };
        return say(out, "mix", &[why]);
    };
    let spread = told.iter().map(|(.., spread)| *spread).fold(0.0, f64::max);
    let worst = told.iter().map(|(_, deff, _)| *deff).fold(0.0, f64::max);
    let verdict = match worst {
        deff if deff <= WELL_MIXED.max(1.0 + 3.0 * spread) => "well shuffled",
        deff if deff <= NEARLY_MIXED => "nearly shuffled",
        _ => "poorly shuffled",
    };
    let deffs: Vec<_> = told.iter().map(|(mix, deff, _)| reading(mix, *deff)).collect();
    let explained =
        format!("1.00 ± {spread:.2} is a true shuffle: batches of {BATCH_SAMPLES} drawn by so many readers");
    say(out, "mix", &[format!("{verdict}: DEFF {}", deffs.join(", ")), explained]);
}

fn reading(mix: &ShuffleQuality, deff: f64) -> String {
    let readers = match mix.readers {
        1 => "1 reader".to_owned(),
        readers => report::count(readers),
    };
    if deff < 10.0 { format!("{deff:.2} ({readers})") } else { format!("{deff:.0} ({readers})") }
}

fn classes(out: &mut Lines, summary: &Summary) {
    let classes = &summary.classes;
    if classes.list.is_empty() {
        return;
    }
    let imbalance = match classes.imbalance {
        Some(1.0) if classes.count - classes.empty > 1 => "all of one size".to_owned(),
        Some(times) if classes.count - classes.empty > 1 => {
            format!("the largest has {times:.1} times the samples of the smallest")
        }
        _ => String::new(),
    };
    let empty = match classes.empty {
        0 => String::new(),
        empty => format!("{} empty", report::count(empty)),
    };
    let unlabelled = match classes.unlabelled_samples {
        0 => String::new(),
        samples => format!("{} without a class", report::counted(samples, "sample")),
    };
    say(out, "classes", &[report::count(classes.count), imbalance, empty, unlabelled]);
    let mut list: Vec<&Class> = classes.list.iter().collect();
    list.sort_by_key(|class| (std::cmp::Reverse(class.samples), class.label));
    let most = list.first().map_or(0, |class| class.samples);
    out.gap();
    line!(out, "  {:>5}  {:<NAME_WIDTH$} {:>11} {:>8}", "label", "class", "samples", "share");
    let (first, last) = match list.len() {
        all if all <= SHOWN_CLASSES => (all, 0),
        _ => (CLASSES_OF_ENDS, CLASSES_OF_ENDS),
    };
    for class in &list[..first] {
        class_line(out, class, most, summary.samples);
    }
    if last > 0 {
        let between = report::counted((list.len() - first - last) as u64, "class");
        line!(out, "  {:>5}  {between} between (--json has all)", "…");
        for class in &list[list.len() - last..] {
            class_line(out, class, most, summary.samples);
        }
    }
}

fn class_line(out: &mut Lines, class: &Class, most: u64, samples: u64) {
    let name = class.name.as_deref().map_or_else(|| "-".to_owned(), |name| report::path(name.as_bytes()));
    let bar = "━".repeat((class.samples as f64 / most.max(1) as f64 * BAR_WIDTH as f64).round() as usize);
    let line = format!(
        "  {:>5}  {:<NAME_WIDTH$} {:>11} {:>8}  {bar}",
        class.label,
        report::clip(&name, NAME_WIDTH),
        report::count(class.samples),
        report::share(class.samples, samples),
    );
    line!(out, "{}", line.trim_end());
}

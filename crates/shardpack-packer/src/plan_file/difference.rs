//! What is different between two plans, or between a plan and a sealed dataset, in one line for a person.

use std::collections::BTreeMap;

use shardpack_format::{
    component::{Component, Form},
    formats::Choice,
    manifest::Manifest,
    sample, size,
};

use super::PlanFile;
use crate::{
    plan::{Check, Cut, Options, Order, Plan},
    source::Origin,
};

/// Says in one line what is different between the plan of an unfinished pack and the plan of now; `None` when nothing is.
pub fn difference(old: &PlanFile, source: &Origin, new: &[Plan]) -> Option<String> {
    request_difference(old, source, new).or_else(|| old.plans.iter().zip(new).find_map(|(old, new)| samples(old, new)))
}

/// The same without a look at the samples, which may not be known yet.
pub fn request_difference(old: &PlanFile, source: &Origin, new: &[Plan]) -> Option<String> {
    if let (Origin::Shards(old), Origin::Shards(new)) = (&old.source, source)
        && let Some(what) = old.difference(new)
    {
        return Some(what);
    }
    let old = &old.plans;

    let names = |plans: &[Plan]| plans.iter().map(|plan| plan.name.clone()).collect::<Vec<_>>().join(", ");
    if names(old) != names(new) {
        return changed([("datasets", names(old), names(new))]);
    }
    old.iter().zip(new).find_map(|(old, new)| options(&old.options, &new.options))
}

fn recipe(options: &Options) -> String {
    options.recipe.clone().unwrap_or_else(|| "none".to_owned())
}

fn order(order: Order) -> String {
    match order {
        Order::Shuffled => "shuffled".to_owned(),
        Order::Source => "that of the source".to_owned(),
    }
}

fn check(check: Check) -> String {
    match check {
        Check::Header => "header".to_owned(),
        Check::Entropy => "entropy".to_owned(),
        Check::Full => "full".to_owned(),
    }
}

fn cut(cut: Cut) -> String {
    match cut {
        Cut::ShardSize(bytes) => format!("shards of at most {}", size::text(bytes)),
        Cut::ShardSamples(samples) => format!("shards of at most {}", size::counted(samples, "sample")),
        Cut::Shards(1) => "1 shard".to_owned(),
        Cut::Shards(shards) => size::counted(shards, "shard"),
    }
}

/// Which files are samples.
fn files(choice: &Choice) -> String {
    if choice.files.is_empty() { "images".to_owned() } else { choice.files.join(", ") }
}

/// Into which splits a source is parted.
fn fractions(choice: &Choice) -> String {
    choice.fractions.clone().unwrap_or_else(|| "those of the source".to_owned())
}

/// What was said of records.
fn fields(choice: &Choice) -> String {
    let all: Vec<_> = choice.wanted.said().map(|(name, said)| format!("{name} {said}")).collect();
    if all.is_empty() { "as they are found".to_owned() } else { all.join(", ") }
}

/// A format with what is in its samples.
fn format(choice: &Choice) -> String {
    let image = choice.extension.clone().unwrap_or_else(|| "each image by its kind".to_owned());
    let parts = [(choice.cls, "cls"), (choice.json, "json")].into_iter().filter(|(is_in, _)| *is_in);
    let parts = parts.map(|(_, name)| name.to_owned());
    let components = (!choice.components.is_empty()).then(|| Component::list(&choice.components));
    let parts: Vec<_> = [image].into_iter().chain(parts).chain(components).collect();
    format!("{} of {}{}", choice.name, parts.join(", "), settings(&choice.settings))
}

fn settings(settings: &BTreeMap<String, String>) -> String {
    let all: Vec<_> = settings.iter().map(|(name, value)| format!("{name}={value}")).collect();
    if all.is_empty() { String::new() } else { format!(" with {}", all.join(", ")) }
}

/// Says in one line in what a sealed dataset is another than `plan` would make; `None` where its manifest does not tell. Of
/// a plan without cuts, whose images are to be changed first, lengths are not known.
pub fn sealed_difference(manifest: &Manifest, plan: &Plan) -> Option<String> {
    let new = &plan.options;
    let seed = if plan.order_algorithm() == "source" { 0 } else { new.seed };
    let format = |name: &str, of: &BTreeMap<String, String>| format!("{name}{}", settings(of));
    let shards = |shards: usize, bytes: u64| format!("{shards} of {} in all", size::text(bytes));
    let (of_classes, unclassified) = plan.counts();
    let found = of_classes.iter().map(|counts| counts.discovered).sum::<u64>() + unclassified.discovered;
    let mut changes = vec![
        (
            "format",
            format(&manifest.format.name, &manifest.format.settings),
            format(plan.format().name(), &new.format.stored(plan.format())),
        ),
        ("order", manifest.order.algorithm.clone(), plan.order_algorithm().to_owned()),
        ("seed", manifest.order.seed.to_string(), seed.to_string()),
        ("compression", manifest.format.compression.clone(), new.compression.to_string()),
        ("parts of a sample", manifest.components.join(", "), plan.format().components().join(", ")),
        ("recipe", manifest.recipe.clone().unwrap_or_else(|| "none".to_owned()), recipe(new)),
        ("classes", manifest.classes.len().to_string(), plan.listing.classes.len().to_string()),
        ("images", manifest.ledger.counts.discovered.to_string(), found.to_string()),
    ];
    if !plan.shards.is_empty() && plan.has_all() {
        let (old, now) = (manifest.payload_bytes, plan.payload_bytes());
        changes.push(("length of all images", format!("{old} bytes"), format!("{now} bytes")));
        let (old, now) = (&manifest.shards, &plan.shards);
        changes.push(("shards", shards(old.len(), manifest.shard_bytes), shards(now.len(), plan.shard_bytes())));
    }
    changed(changes)
}

fn changed(changes: impl IntoIterator<Item = (&'static str, String, String)>) -> Option<String> {
    let change = changes.into_iter().find(|(_, old, new)| old != new);
    change.map(|(what, old, new)| format!("{what}: was {old}, is now {new}"))
}

fn options(old: &Options, new: &Options) -> Option<String> {
    let changes = [
        ("order", order(old.order), order(new.order)),
        ("seed", old.seed.to_string(), new.seed.to_string()),
        ("size", cut(old.cut), cut(new.cut)),
        ("format", format(&old.format), format(&new.format)),
        ("files", files(&old.format), files(&new.format)),
        ("splits", fractions(&old.format), fractions(&new.format)),
        ("fields", fields(&old.format), fields(&new.format)),
        ("compression", old.compression.to_string(), new.compression.to_string()),
        ("check", check(old.check), check(new.check)),
        ("recipe", recipe(old), recipe(new)),
    ];
    changed(changes)
}

/// What shows a change of what a sample has beside its image.
pub(crate) fn components(plan: &Plan, number: u64) -> impl Iterator<Item = (u32, &Form, i64, &[u8])> {
    let components = plan.listing.components();
    let payload =
        components.payload.iter().map(move |_| (0, components.form(components.payload_form(number)), 0, &[][..]));
    payload.chain(components.content_of(number).map(|(cell, text)| match text {
        Some(text) => (cell.bytes, components.form(cell.form), 0, text),
        None => (cell.bytes, components.form(cell.form), cell.stamp, &[][..]),
    }))
}

/// The first difference between two listings, and how many there are.
fn samples(old: &Plan, new: &Plan) -> Option<String> {
    if old.listing.classes != new.listing.classes {
        let name = |plan: &Plan, other: &Plan| {
            let class = plan.listing.classes.iter().find(|class| !other.listing.classes.contains(class));
            class.map(|class| sample::name(class, b""))
        };
        return Some(match (name(new, old), name(old, new)) {
            (Some(class), _) => format!("class {class} is new"),
            (None, class) => format!("class {} is gone", class.unwrap_or_default()),
        });
    }
    let (mut old_at, mut new_at, mut count, mut first) = (0, 0, 0u64, None);
    let (mut old_path, mut new_path) = (Vec::new(), Vec::new());
    while old_at < old.listing.len() || new_at < new.listing.len() {
        let side = |plan: &Plan, at: u64, path: &mut Vec<u8>| {
            (at < plan.listing.len()).then(|| {
                plan.listing.path(at, path);
                (plan.listing.class(at), plan.listing.folder(at).path.clone(), plan.listing.name(at).to_vec())
            })
        };
        let (a, b) = (side(old, old_at, &mut old_path), side(new, new_at, &mut new_path));
        let order = match (&a, &b) {
            (Some(a), Some(b)) => a.cmp(b),
            (Some(_), None) => std::cmp::Ordering::Less,
            _ => std::cmp::Ordering::Greater,
        };
        let change = match order {
            std::cmp::Ordering::Less => {
                old_at += 1;
                Some(("is gone", &old_path))
            }
            std::cmp::Ordering::Greater => {
                new_at += 1;
                Some(("is new", &new_path))
            }
            std::cmp::Ordering::Equal => {
                let (a, b) = (old.listing.entry(old_at), new.listing.entry(new_at));
                let same_components = components(old, old_at).eq(components(new, new_at));
                (old_at, new_at) = (old_at + 1, new_at + 1);
                (!same_components || (a.bytes, a.stamp) != (b.bytes, b.stamp)).then_some(("was changed", &new_path))
            }
        };
        if let Some((what, path)) = change {
            count += 1;
            first.get_or_insert_with(|| format!("{} {what}", sample::name(path, b"")));
        }
    }
    if let Some(first) = first {
        return Some(match count {
            1 => first,
            _ => format!("{first}, and {} more", count - 1),
        });
    }
    let names = |plan: &Plan| plan.unpacked.iter().map(|entry| (entry.path.clone(), entry.fate)).collect::<Vec<_>>();
    (names(old) != names(new)).then(|| "other images are left out".to_owned())
}

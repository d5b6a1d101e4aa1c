//! Describes the difference between two plans, or between a plan and a sealed dataset, in one line for the
//! user.

use std::collections::{BTreeMap, BTreeSet};

use shardpack_format::{
    component::{Component, Form},
    formats::{Choice, adopted, foreign::SAID},
    manifest::Manifest,
    permutation, sample, size,
};

use super::PlanFile;
use crate::{
    plan::{Check, Cut, Options, Order, Plan},
    source::{Source, SourceKind, stored::Stored},
};

/// The difference between the plan of an unfinished pack and the present plan, in one line; `None` if they are
/// equal.
pub fn difference(old: &PlanFile, source: &dyn Source, new: &[Plan]) -> Option<String> {
    request_difference(old, source, new).or_else(|| old.plans.iter().zip(new).find_map(|(old, new)| samples(old, new)))
}

/// The difference without samples, which may not be known yet.
pub fn request_difference(old: &PlanFile, source: &dyn Source, new: &[Plan]) -> Option<String> {
    if [old.source.kind(), source.kind()] == [SourceKind::Shards; 2]
        && let (Stored::Shards(old), Stored::Shards(new)) = (old.source.stored(), source.stored())
        && let Some(what) = old.difference(&new)
    {
        return Some(what);
    }
    let old = &old.plans;

    let has_splits = |plans: &[Plan]| plans.iter().any(|plan| plan.split.is_some());
    let is_split = has_splits(old) || has_splits(new);
    let names = |plans: &[Plan]| match is_split && !has_splits(plans) {
        true => none(),
        false => plans.iter().map(|plan| plan.name.clone()).collect::<Vec<_>>().join(", "),
    };
    if names(old) != names(new) {
        return changed([(if is_split { "splits" } else { "--name" }, names(old), names(new))]);
    }
    old.iter().zip(new).find_map(|(old, new)| options(&old.options, &new.options))
}

/// Options that preprocess images.
const RECIPE: &str = "images (--resize, --encode, --fix, --rotate)";

/// Class names of objects, which the source names in a file.
const OBJECT_CLASSES: &str = "class names of objects";

/// The form of a list, which the files decide.
const LIST_CLUES: &str = "form of the list";

fn none() -> String {
    "none".to_owned()
}

fn recipe(recipe: Option<&String>) -> String {
    recipe.map_or_else(|| "as they are".to_owned(), |recipe| format!("changed by {recipe}"))
}

fn order(order: Order) -> String {
    match order {
        Order::Shuffled => "shuffled".to_owned(),
        Order::Source => "source".to_owned(),
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
        Cut::ShardSize(bytes) => format!("--shard-size {}", size::text(bytes)),
        Cut::ShardSamples(samples) => format!("--shard-samples {samples}"),
        Cut::Shards(shards) => format!("--shards {shards}"),
    }
}

/// Files that are samples.
fn files(choice: &Choice) -> String {
    if choice.files.is_empty() { "images".to_owned() } else { choice.files.join(", ") }
}

/// Random splits of a source.
fn fractions(choice: &Choice) -> String {
    choice.fractions.clone().unwrap_or_else(|| "those of the source".to_owned())
}

/// Folders of a source that are splits.
fn split_folders(choice: &Choice) -> String {
    choice.split_folders.clone().unwrap_or_else(|| "those of the source".to_owned())
}

/// Labels in file names.
fn label_pattern(choice: &Choice) -> String {
    choice.label_pattern.clone().unwrap_or_else(none)
}

/// Names of the objects in components.
fn component_classes(choice: &Choice) -> String {
    let names = choice.component_classes.iter().map(|(name, classes)| format!("{name}: {}", classes.join(", ")));
    if choice.component_classes.is_empty() { none() } else { names.collect::<Vec<_>>().join("; ") }
}

/// The option behind a setting of the manifest.
fn option(setting: &str) -> String {
    match setting {
        "beside" => "components beside the image (--with, --components, --fields)".to_owned(),
        "payload" => "kind of samples (--files, --image-feature)".to_owned(),
        "encoding" => "--mds-encoding".to_owned(),
        "split_folders" => "--splits".to_owned(),
        "component_classes" => OBJECT_CLASSES.to_owned(),
        "list_clues" => LIST_CLUES.to_owned(),
        adopted::SETTING => "shards of another writer (adopt)".to_owned(),
        "files" | "split_fraction" | "label_pattern" | "meta" | "label_offset" | "features" => {
            format!("--{}", setting.replace('_', "-"))
        }
        said if SAID.contains(&said) => format!("--{}", said.replace('_', "-")),
        other => format!("--set {other}"),
    }
}

/// The first setting that differs.
fn settings(old: &BTreeMap<String, String>, new: &BTreeMap<String, String>) -> Option<String> {
    let value = |of: &BTreeMap<String, String>, name: &str| of.get(name).cloned().unwrap_or_else(none);
    let names = old.keys().chain(new.keys()).collect::<BTreeSet<_>>();
    names.into_iter().find_map(|name| changed([(option(name).as_str(), value(old, name), value(new, name))]))
}

/// How a sealed dataset differs from the result of `plan`, in one line; `None` if its manifest shows no
/// difference. A plan without cuts, whose images are not preprocessed yet, has no lengths to compare.
pub fn sealed_difference(manifest: &Manifest, plan: &Plan) -> Option<String> {
    let new = &plan.options;
    let seed = if plan.order_algorithm() == "source" { 0 } else { new.seed };
    let shards = |shards: usize, bytes: u64| format!("{shards} of {} in all", size::text(bytes));
    let (of_classes, unclassified) = plan.counts();
    let found = of_classes.iter().map(|counts| counts.discovered).sum::<u64>() + unclassified.discovered;
    let order = |algorithm: &str| if algorithm == permutation::ALGORITHM { "shuffled" } else { algorithm }.to_owned();
    let of_format = changed([("--format", manifest.format.name.clone(), plan.format().name().to_owned())]);
    let of_format = of_format.or_else(|| settings(&manifest.format.settings, &new.format.stored(plan.format())));
    if of_format.is_some() {
        return of_format;
    }
    let mut changes = vec![
        ("--name", manifest.name.clone(), plan.name.clone()),
        ("--order", order(&manifest.order.algorithm), order(plan.order_algorithm())),
        ("--seed", manifest.order.seed.to_string(), seed.to_string()),
        ("--compress", manifest.format.compression.clone(), new.compression.to_string()),
        (
            "parts of a sample (--ext, --cls, --meta)",
            manifest.components.join(", "),
            plan.format().components().join(", "),
        ),
        (RECIPE, recipe(manifest.recipe.as_ref()), recipe(new.recipe.as_ref())),
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

fn changed<'w>(changes: impl IntoIterator<Item = (&'w str, String, String)>) -> Option<String> {
    let change = changes.into_iter().find(|(_, old, new)| old != new);
    change.map(|(what, old, new)| format!("{what}: was {old}, is now {new}"))
}

fn options(old: &Options, new: &Options) -> Option<String> {
    let (was, now) = (&old.format, &new.format);
    let extension = |choice: &Choice| choice.extension.clone().unwrap_or_else(|| "content".to_owned());
    let is_in = |is_in: bool, name: &str| if is_in { name.to_owned() } else { none() };
    let beside = |choice: &Choice| match choice.components.as_slice() {
        [] => none(),
        all => Component::list(all),
    };
    let of_beside = option("beside");
    let said = |choice: &Choice| choice.wanted.described().map(|(name, said)| (name.to_owned(), said)).collect();
    let changes = [
        ("--order", order(old.order), order(new.order)),
        ("--seed", old.seed.to_string(), new.seed.to_string()),
        ("shards", cut(old.cut), cut(new.cut)),
        ("--format", was.name.clone(), now.name.clone()),
        ("--ext", extension(was), extension(now)),
        ("--cls", is_in(was.cls, "label"), is_in(now.cls, "label")),
        ("--meta", is_in(was.json, "json"), is_in(now.json, "json")),
        (of_beside.as_str(), beside(was), beside(now)),
        ("--files", files(was), files(now)),
        ("--split-fraction", fractions(was), fractions(now)),
        ("--splits", split_folders(was), split_folders(now)),
        ("--label-pattern", label_pattern(was), label_pattern(now)),
        (LIST_CLUES, was.list_clues.clone().unwrap_or_else(none), now.list_clues.clone().unwrap_or_else(none)),
        (OBJECT_CLASSES, component_classes(was), component_classes(now)),
        ("--compress", old.compression.to_string(), new.compression.to_string()),
        ("--check", check(old.check), check(new.check)),
        (RECIPE, recipe(old.recipe.as_ref()), recipe(new.recipe.as_ref())),
    ];
    let of_settings = || settings(&was.settings, &now.settings);
    changed(changes).or_else(of_settings).or_else(|| settings(&said(was), &said(now)))
}

/// Values that show a change of a sample's components beside its image.
pub(crate) fn components(plan: &Plan, number: u64) -> impl Iterator<Item = (u32, &Form, i64, &[u8])> {
    let components = plan.listing.components();
    let payload =
        components.payload.iter().map(move |_| (0, components.form(components.payload_form(number)), 0, &[][..]));
    payload.chain(components.content_of(number).map(|(cell, text)| match text {
        Some(text) => (cell.bytes, components.form(cell.form), 0, text),
        None => (cell.bytes, components.form(cell.form), cell.stamp, &[][..]),
    }))
}

/// The first difference between two listings, and the number of differences.
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

//! Classes of sounds, and lists of the sounds that are not for training, as Speech Commands has them: `bed/1.wav`, `validation_list.txt` and
//! `testing_list.txt` with lines `bed/1.wav`.

use shardpack_format::shell;

use super::{Found, Look};
use crate::names::SOUNDS;

/// The lists, each with its split.
const LISTS: [(&str, &str); 2] = [("validation", "validation_list.txt"), ("test", "testing_list.txt")];
/// The list that the command makes.
const TRAIN: &str = "train.txt";

pub(super) fn find(look: &Look<'_>) -> Option<Found> {
    let files = look.files("");
    if !LISTS.iter().all(|(_, list)| files.0.iter().any(|name| name == list)) {
        return None;
    }
    let start = look.start(LISTS[0].1);
    let first = str::from_utf8(start.split(|byte| *byte == b'\n').next()?).ok()?.trim();
    let (folder, name) = first.rsplit_once('/')?;
    let extension = SOUNDS.iter().find(|sound| name.strip_suffix(**sound).is_some_and(|stem| stem.ends_with('.')))?;
    if !look.files(folder).0.iter().any(|file| file == name) {
        return None;
    }
    let root = shell::path(look.path("")).to_string();
    let list = |name: &str| shell::path(look.path(name)).to_string();
    let lists = LISTS.map(|(split, name)| (split, list(name)));
    let known: Vec<String> = lists.iter().map(|(_, list)| format!("-f {list}")).collect();
    let splits: Vec<String> = lists.iter().map(|(split, list)| format!("--split {split}={list}")).collect();
    // Noise is no word, and no list has it.
    let noise = look.folders("").into_iter().find(|name| name.starts_with('_'));
    let without =
        noise.as_ref().map(|name| format!(" -not -path {}", shell::word(format!("{name}/*")))).unwrap_or_default();
    let command = format!(
        "(cd {root} && find * -name '*.{extension}'{without}) | sort | grep -vxF {} > {TRAIN} && shardpack pack --split train={TRAIN} {} \
         DST --root {root} --label-column folder",
        known.join(" "),
        splits.join(" ")
    );
    let left_out = noise.map(|name| format!(", without {name}")).unwrap_or_default();
    let what = format!("classes of sounds, and lists of those for validation and test{left_out}");
    let found = Found::new(what, Vec::new(), "packs each sound with its class");
    Some(Found { command: Some(command), ..found })
}

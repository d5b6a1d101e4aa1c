//! Classes of sounds, and lists of the sounds that are not for training, as Speech Commands has them: `bed/1.wav`, `validation_list.txt` and
//! `testing_list.txt` with lines `bed/1.wav`.

use shardpack_format::shell;

use super::{Found, Look, look::has_extension};
use crate::{filter, names::SOUNDS};

/// The lists, each with its split.
const LISTS: [(&str, &str); 2] = [("validation", "validation_list.txt"), ("test", "testing_list.txt")];
/// Lists that the command makes: of the sounds in lists, and of the others.
const OTHERS: &str = "listed.sounds.txt";
const TRAIN: &str = "train.sounds.txt";

pub(super) fn find(look: &Look<'_>) -> Option<Found> {
    let files = look.files("");
    if !LISTS.iter().all(|(_, list)| files.0.iter().any(|name| name == list)) {
        return None;
    }
    let start = look.start(LISTS[0].1);
    let first = str::from_utf8(start.split(|byte| *byte == b'\n').next()?).ok()?.trim_end();
    let (folder, name) = first.rsplit_once('/')?;
    let extension = SOUNDS.iter().find(|sound| has_extension(name, sound))?;
    // The command compares lines with paths.
    let is_path =
        look.folders("").iter().any(|other| other == folder) && look.files(folder).0.iter().any(|file| file == name);
    if !is_path {
        return None;
    }
    let root = shell::path(look.path("")).to_string();
    let lists = LISTS.map(|(split, name)| (split, shell::path(look.path(name)).to_string()));
    let known = lists.each_ref().map(|(_, list)| list.as_str()).join(" ");
    let splits: Vec<String> = lists.iter().map(|(split, list)| format!("--split {split}={list}")).collect();
    // Noise is no word, and no list has it.
    let noise: Vec<String> = look.folders("").into_iter().filter(|name| name.starts_with('_')).collect();
    let without: String = noise
        .iter()
        .map(|name| format!(" -not -path {}", shell::word(filter::below(name).replace("/**", "/*"))))
        .collect();
    // Lists of Windows have other line ends.
    let command = format!(
        "awk 1 {known} | tr -d '\\r' > {OTHERS} && (cd {root} && find * -name '*.{extension}'{without}) | LC_ALL=C sort | grep -vxF -f {OTHERS} \
         > {TRAIN} && shardpack pack --split train={TRAIN} {} DST --root {root} --label-column folder",
        splits.join(" ")
    );
    let left_out = if noise.is_empty() { String::new() } else { format!(", without {}", noise.join(", ")) };
    let what = format!("classes of sounds, and lists of those for validation and test{left_out}");
    let found = Found::new(what, Vec::new(), "packs each sound with its class");
    Some(Found { command: Some(command), ..found })
}

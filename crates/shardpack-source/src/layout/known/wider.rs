//! WIDER FACE: `WIDER_train/images/0--Parade/1.jpg`, and the faces of each split in `wider_face_split/wider_face_train_bbx_gt.txt`.

use shardpack_format::shell;

use super::{Found, Look, counterparts::join, on_missing};
use crate::boxes;

/// Folders of the splits begin so.
const SPLIT: &str = "WIDER_";
const LISTS: &str = "wider_face_split";
/// Names of lists begin and end so.
const LIST: [&str; 2] = ["wider_face_", "_bbx_gt.txt"];
/// The folder that the command makes, and its list.
const FACES: [&str; 2] = ["faces", "all.txt"];

pub(super) fn find(look: &Look<'_>) -> Option<Found> {
    let top = look.folders("");
    let splits = || top.iter().filter_map(|name| name.strip_prefix(SPLIT));
    let files = look.files(LISTS);
    let list = |split: &&str| {
        let name = LIST.join(split);
        let path = join(LISTS, &name);
        (files.0.contains(&name) && boxes::is_wider(&look.start(&path)))
            .then(|| shell::path(look.path(&path)).to_string())
    };
    let lists: Vec<String> = splits().filter_map(|split| list(&split)).collect();
    if lists.is_empty() {
        return None;
    }
    let lacking: Vec<String> =
        splits().filter(|split| list(split).is_none()).map(|split| format!("{SPLIT}{split}")).collect();
    let empty = on_missing(lacking.len() as u64).map(|(name, value)| format!(" {name} {value}")).unwrap_or_default();
    let root = shell::path(look.path("")).to_string();
    let [folder, file] = FACES;
    let command = format!(
        "mkdir -p {folder} && cat {} > {folder}/{file} && shardpack pack {root} DST --no-labels --splits '{SPLIT}{{split}}' \
         --extra-root {folder}={folder} --with 'boxes=wider:{{{folder}}}/{file}'{empty}",
        lists.join(" ")
    );
    let without = if lacking.is_empty() { String::new() } else { format!("; {} has none", lacking.join(", ")) };
    let what = format!("WIDER FACE: lists of its faces are in {LISTS}{without}");
    let found = Found::new(what, Vec::new(), "packs each image with its faces");
    Some(Found { command: Some(command), ..found })
}

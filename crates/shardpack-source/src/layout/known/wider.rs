//! WIDER FACE: `WIDER_train/images/0--Parade/1.jpg`, and the faces of each split in `wider_face_split/wider_face_train_bbx_gt.txt`.

use shardpack_format::shell;

use super::{Found, Look, counterparts::join, on_missing};
use crate::boxes;

/// Folders of the splits begin so.
const SPLIT: &str = "WIDER_";
/// Folders of the lists; Kaggle unpacks each archive into a folder of its name.
const LISTS: [&str; 4] = [
    "wider_face_split",
    "wider_face_split/wider_face_split",
    "wider_face_annotations",
    "wider_face_annotations/wider_face_split",
];
/// Names of lists begin and end so.
const LIST: [&str; 2] = ["wider_face_", "_bbx_gt.txt"];
/// The folder that the command makes, and its list.
const FACES: [&str; 2] = ["wider_faces", "all.txt"];

pub(super) fn find(look: &Look<'_>) -> Option<Found> {
    let top = look.folders("");
    let splits = || top.iter().filter_map(|name| name.strip_prefix(SPLIT));
    let of_split = |name: &&&str| look.files(name).0.iter().any(|file| file.starts_with(LIST[0]));
    let folder = LISTS.iter().find(of_split)?;
    let files = look.files(folder);
    let list = |split: &&str| {
        let name = LIST.join(split);
        let path = join(folder, &name);
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
    let is_twice = top.iter().filter(|name| name.starts_with(SPLIT)).any(|name| look.folders(name).contains(name));
    let pattern = if is_twice { format!("*/{SPLIT}{{split}}") } else { format!("{SPLIT}{{split}}") };
    let [made, file] = FACES;
    let command = format!(
        "mkdir -p {made} && awk 1 {} > {made}/{file} && shardpack pack {root} DST --no-labels --splits '{pattern}' \
         --extra-root {made}={made} --with 'boxes=wider:{{{made}}}/{file}'{empty}",
        lists.join(" ")
    );
    let without = if lacking.is_empty() { String::new() } else { format!("; {} has none", lacking.join(", ")) };
    let what = format!("WIDER FACE: lists of its faces are in {folder}{without}");
    let found = Found::new(what, Vec::new(), "packs each image with its faces");
    Some(Found { command: Some(command), ..found })
}

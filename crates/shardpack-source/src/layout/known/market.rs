//! Market-1501 as a whole: persons by number in the names of images, `bounding_box_train/0002_c1s1_000451_03.jpg`, and queries; beside them boxes
//! that were drawn by hand (`gt_bbox`), and files of Matlab (`gt_query`).

use shardpack_format::shell;

use super::{Found, Look};

/// Folders with splits.
const SPLITS: [&str; 3] = ["bounding_box_train", "query", "bounding_box_test"];

pub(super) fn find(look: &Look<'_>) -> Option<Found> {
    let top = look.folders("");
    if !SPLITS.iter().all(|split| top.iter().any(|name| name == split) && look.has_images(split, 0)) {
        return None;
    }
    let split = |name: &&str| format!("--split {name}={}", shell::path(look.path(name)));
    let splits: Vec<String> = SPLITS.iter().map(split).collect();
    let others: Vec<&str> = top.iter().map(String::as_str).filter(|name| !SPLITS.contains(name)).collect();
    let command = format!("shardpack pack {} DST --label-pattern '{{label}}_*'", splits.join(" "));
    let what = format!("images of persons whose numbers are in their names: {}", SPLITS.join(", "));
    let found = Found::new(what, Vec::new(), "packs each image with the number of its person");
    let other = (!others.is_empty()).then(|| format!("it leaves out {}", others.join(", ")));
    Some(Found { command: Some(command), other, ..found })
}

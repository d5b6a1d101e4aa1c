//! StyleGAN: images in folders of 1,000, `00000/img00000000.png`, and their labels in `dataset.json`. The folders are no classes.

use shardpack_format::shell;

use super::{Found, Look};

const FILE: &str = "dataset.json";
const LABELS: &[u8] = b"\"labels\"";

pub(super) fn find(look: &Look<'_>) -> Option<Found> {
    let is_there = look.files("").0.iter().any(|name| name == FILE);
    if !is_there || !has_pairs(&look.start(FILE)) {
        return None;
    }
    let what = format!("images with their labels in {FILE}, as StyleGAN has them");
    let found = Found::new(what, Vec::new(), "packs each image with its class");
    let command = format!("shardpack pack {} DST", shell::path(look.path(FILE)));
    Some(Found { command: Some(command), ..found })
}

/// Whether a file that begins so has a member `labels` with pairs.
fn has_pairs(start: &[u8]) -> bool {
    let at = start.windows(LABELS.len()).position(|window| window == LABELS);
    let rest = at.map(|at| start[at + LABELS.len()..].iter().filter(|byte| !byte.is_ascii_whitespace()));
    rest.is_some_and(|rest| rest.take(4).eq(b":[[\""))
}

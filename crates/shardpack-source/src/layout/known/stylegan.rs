//! StyleGAN: images in folders of 1,000, `00000/img00000000.png`, and their labels in `dataset.json`, or none. The folders are no classes.

use shardpack_format::shell;

use super::{Found, Look};

const FILE: &str = "dataset.json";

pub(super) fn find(look: &Look<'_>) -> Option<Found> {
    if !look.files("").0.iter().any(|name| name == FILE) {
        return None;
    }
    let start: Vec<u8> = look.start(FILE).iter().copied().filter(|byte| !byte.is_ascii_whitespace()).collect();
    let labels = start.strip_prefix(b"{\"labels\":")?;
    if labels.starts_with(b"null") {
        let what = format!("images without labels, as StyleGAN has them: {FILE} has none");
        return Some(Found::new(what, Vec::new(), "packs the images without labels"));
    }
    let first = labels.strip_prefix(b"[[\"")?.split(|byte| *byte == b'"').next()?;
    let (folder, file) = str::from_utf8(first).ok()?.rsplit_once('/').unwrap_or(("", str::from_utf8(first).ok()?));
    if !look.files(folder).0.iter().any(|name| name == file) {
        return None;
    }
    let what = format!("images with their labels in {FILE}, as StyleGAN has them");
    let found = Found::new(what, Vec::new(), "packs each image with its class");
    let command = format!("shardpack pack {} DST", shell::path(look.path(FILE)));
    Some(Found { command: Some(command), ..found })
}

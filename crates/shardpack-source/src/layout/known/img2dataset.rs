//! Images with captions in numbered folders that are no classes, and a table for each folder beside them: `00000/000000001.jpg`,
//! `00000/000000001.txt` and `00000.parquet`, as img2dataset writes them (LAION).

use super::{Found, Look, on_missing};

/// Ends of the names of the files for a folder.
const OF_FOLDER: [&str; 2] = [".parquet", "_stats.json"];
/// Extensions of the files beside images.
const BESIDE: [&str; 2] = ["txt", "json"];

pub(super) fn find(look: &Look<'_>) -> Option<Found> {
    let (top, files) = (look.folders(""), look.files("").0);
    let is_numbered = |name: &String| name.len() > 3 && name.bytes().all(|byte| byte.is_ascii_digit());
    let has_table = |name: &String| OF_FOLDER.iter().any(|end| files.contains(&format!("{name}{end}")));
    let (numbered, others): (Vec<&String>, Vec<&String>) = top.iter().partition(|name| is_numbered(name));
    let is_other = |name: &&String| look.has_images(name, 1);
    if !numbered.iter().any(|name| has_table(name)) || others.iter().any(is_other) {
        return None;
    }
    let images = numbered.iter().map(|name| look.files(name)).find(|files| !files.images().is_empty())?;
    let mut all_lacking = 0;
    let has = |extension: &&str| {
        let (with, lacking) = images.pairs(&images.stems(extension));
        all_lacking += if with > 0 { lacking } else { 0 };
        with > 0
    };
    let with: Vec<&str> = BESIDE.into_iter().filter(has).collect();
    if with.is_empty() {
        return None;
    }
    let options = std::iter::once(("--with", with.join(","))).chain(on_missing(all_lacking)).collect();
    let what = "images with their captions in numbered folders, which are no classes (img2dataset)".to_owned();
    Some(Found::new(what, options, "packs each image with its files"))
}

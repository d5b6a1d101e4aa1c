//! Splits of images with classes in a table: `train/_classes.csv` beside `train/1.jpg`, as Roboflow exports several classes for an image.
//!
//! The table has a column for each class, and an image may have several: the columns are packed as JSON, and no class.

use shardpack_format::shell;

use super::{Found, Look};

const FILE: &str = "_classes.csv";
/// First column of the table.
const COLUMN: &[u8] = b"filename";

pub(super) fn find(look: &Look<'_>) -> Option<Found> {
    let splits = look.split_folders()?;
    let is_table = |split: &&String| look.start(&format!("{split}/{FILE}")).trim_ascii_start().starts_with(COLUMN);
    if !splits.iter().all(|split| is_table(&split)) {
        return None;
    }
    let parts = splits.iter().map(|split| {
        let path = look.path(&format!("{split}/{FILE}"));
        format!("--split {split}={}", shell::path(&path))
    });
    let command = format!("shardpack pack {} DST", parts.collect::<Vec<_>>().join(" "));
    let what = format!("splits of images with their classes in {FILE}");
    let found = Found::new(what, Vec::new(), "packs each image with its columns");
    Some(Found { command: Some(command), ..found })
}

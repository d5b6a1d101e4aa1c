//! KITTI with a folder for each archive: `data_object_image_2/training/image_2` and `data_object_label_2/training/label_2`.

use shardpack_format::shell;

use super::{Found, Look, left_out};
use crate::boxes;

const IMAGES: &str = "data_object_image_2";
const LABELS: &str = "data_object_label_2";

pub(super) fn find(look: &Look<'_>) -> Option<Found> {
    if !look.splits.is_empty() {
        return None;
    }
    let top = look.folders("");
    if ![IMAGES, LABELS].iter().all(|name| top.iter().any(|one| one == name)) {
        return None;
    }
    let labels = format!("{LABELS}/training/label_2");
    let first = look.files(&labels).first_of("txt")?;
    let is_kitti = boxes::is_kitti(&look.start(&format!("{labels}/{first}"))).unwrap_or(true);
    let splits = look.folders(IMAGES);
    if !is_kitti || splits.is_empty() || !splits.iter().all(|split| look.is_split(split)) {
        return None;
    }
    let command = format!(
        "shardpack pack {} DST --no-labels --splits '{{split}}' --extra-root labels={} \
         --with 'boxes=kitti:{{labels}}/{{grandparent}}/label_2/*.txt' --on-missing empty",
        shell::path(look.path(IMAGES)),
        shell::path(look.path(LABELS))
    );
    let others: Vec<String> = top.into_iter().filter(|name| name != IMAGES && name != LABELS).collect();
    let what = format!("images in {IMAGES}, and label files of KITTI in {LABELS}{}", left_out(&others));
    let result = "packs each image with its boxes and their class numbers";
    Some(Found { command: Some(command), ..Found::new(what, Vec::new(), result) })
}

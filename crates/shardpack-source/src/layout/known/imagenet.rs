//! ImageNet, as Kaggle unpacks it, and Tiny ImageNet: class folders in `train`, and images without folders in `val`, whose classes are in a list.

use shardpack_format::shell;

use super::{Found, Look, counterparts::join, left_out};
use crate::names;

/// Folders of ImageNet, and the list of the classes of its validation images.
const IMAGES: &str = "ILSVRC/Data/CLS-LOC";
const KAGGLE: &str = "LOC_val_solution.csv";
/// The start of the list.
const HEADER: &[u8] = b"ImageId,";
/// The list of Tiny ImageNet: names, classes and boxes, separated by tabs.
const TINY: &str = "val_annotations.txt";
/// The list that the command makes.
const LIST: &str = "imagenet.val.txt";

pub(super) fn find(look: &Look<'_>) -> Option<Found> {
    if !look.splits.is_empty() {
        return None;
    }
    // Archives are unpacked into a folder of their own name, or not.
    let kaggle = || {
        let images = [IMAGES.to_owned(), join("imagenet-object-localization-challenge", IMAGES)];
        let lists = ["", "imagenet-object-localization-challenge"];
        // The command separates fields without quotes.
        let is_list = |above: &str| {
            let list = join(above, KAGGLE);
            let is_there = look.has_file("", &list);
            is_there && look.start(&list).starts_with(HEADER) && !look.start(&list).contains(&b'"')
        };
        lists.into_iter().zip(images).find(|(above, images)| is_list(above) && has_classes(look, images))
    };
    // The images of `val` may have been moved into folders of their classes.
    let extension = |folder: &str| {
        let images = look.files(folder).0.into_iter().find(|name| names::is_image(name.as_bytes()))?;
        images.rsplit_once('.').map(|(_, extension)| extension.to_owned())
    };
    let path = |below: &str| shell::path(look.path(below)).to_string();
    let (command, images, result) = if let Some((above, images)) = kaggle() {
        let (list, val) = (path(&join(above, KAGGLE)), join(&images, "val"));
        let extension = extension(&val)?;
        let command = format!(
            "awk -F'[, ]' 'NR > 1 {{ print $1 \".{extension}\", $2 }}' {list} > {LIST} && \
             shardpack pack --split train={} --split val={LIST} DST --root {}",
            path(&join(&images, "train")),
            path(&val)
        );
        (command, images, "packs each image with its class")
    } else if look.has_file("", &join("val", TINY)) && has_classes(look, "") && extension("val/images").is_some() {
        let list = path(&join("val", TINY));
        let command = format!(
            "shardpack pack --split train={} --split val={list} DST --root {}",
            path("train"),
            path("val/images")
        );
        (command, String::new(), "packs each image with its class, and the boxes of the validation images as JSON")
    } else {
        return None;
    };
    let others: Vec<String> =
        look.folders(&images).into_iter().filter(|name| name != "train" && name != "val").collect();
    let what = format!("class folders in train, and a list of the classes of the images in val{}", left_out(&others));
    Some(Found { command: Some(command), ..Found::new(what, Vec::new(), result) })
}

/// Whether a folder has `val`, and several folders in `train`.
fn has_classes(look: &Look<'_>, folder: &str) -> bool {
    look.folders(folder).iter().any(|name| name == "val") && look.folders(&join(folder, "train")).len() > 1
}

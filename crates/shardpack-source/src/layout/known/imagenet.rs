//! ImageNet, as Kaggle unpacks it, and Tiny ImageNet: class folders in `train`, and images without folders in `val`, whose classes are in a list.

use shardpack_format::shell;

use super::{Found, Look, counterparts::join};

/// Folders of ImageNet, and the list of the classes of its validation images.
const IMAGES: &str = "ILSVRC/Data/CLS-LOC";
const KAGGLE: &str = "LOC_val_solution.csv";
/// The list of Tiny ImageNet: names, classes and boxes, separated by tabs.
const TINY: &str = "val_annotations.txt";
/// The list that the command makes.
const LIST: &str = "val.txt";

pub(super) fn find(look: &Look<'_>) -> Option<Found> {
    let has = |folder: &str, name: &str| look.files(folder).0.iter().any(|file| file == name);
    // Archives are unpacked into a folder of their own name, or not.
    let kaggle = || {
        let images = [IMAGES.to_owned(), join("imagenet-object-localization-challenge", IMAGES)];
        let lists = ["", "imagenet-object-localization-challenge"];
        lists.into_iter().zip(images).find(|(above, images)| has(above, KAGGLE) && has_classes(look, images))
    };
    let path = |below: &str| shell::path(look.path(below)).to_string();
    let (command, images, result) = if let Some((above, images)) = kaggle() {
        let (list, val) = (path(&join(above, KAGGLE)), join(&images, "val"));
        let command = format!(
            "awk -F'[, ]' 'NR > 1 {{ print $1 \".JPEG\", $2 }}' {list} > {LIST} && \
             shardpack pack --split train={} --split val={LIST} DST --root {}",
            path(&join(&images, "train")),
            path(&val)
        );
        (command, images, "packs each image with its class")
    } else if has("val", TINY) && has_classes(look, "") && !look.files("val/images").images().is_empty() {
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
    let left_out = if others.is_empty() { String::new() } else { format!("; it leaves out {}", others.join(", ")) };
    let what = format!("class folders in train, and a list of the classes of the images in val{left_out}");
    Some(Found { command: Some(command), ..Found::new(what, Vec::new(), result) })
}

/// Whether a folder has `val`, and several folders in `train`.
fn has_classes(look: &Look<'_>, folder: &str) -> bool {
    look.folders(folder).iter().any(|name| name == "val") && look.folders(&join(folder, "train")).len() > 1
}

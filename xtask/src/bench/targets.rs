//! Benchmarks sources of detection and segmentation: a large COCO list, files in folders side by side, and trees in zip archives.

use std::{
    fmt::Write,
    fs,
    path::{Path, PathBuf},
};

use super::{
    Scale,
    contest::{Contender, Results, contest, spread},
    folder,
    rows::{TINY_BYTES, clear, pack_command, sync, warm},
    trees::{Tree, jpegs},
};
use crate::{
    Result,
    command::{command, remove, run, shardpack},
    python,
};

/// Annotations of the COCO file, and images: train2017 has about as many of both.
const ANNOTATIONS: u64 = 1_000_000;
const IMAGES: u64 = 100_000;
const CATEGORIES: u64 = 80;
/// Writes the files below a folder into an archive, without compression.
const ZIP: &str = "import os, sys, zipfile
top, out = sys.argv[1:]
with zipfile.ZipFile(out, 'w', zipfile.ZIP_STORED) as archive:
    for folder, folders, files in os.walk(top):
        folders.sort()
        for name in sorted(files):
            path = os.path.join(folder, name)
            archive.write(path, os.path.relpath(path, top))
";

/// Plans a list of COCO; packs pairs and archives.
pub fn targets(scale: &Scale) -> Result<String> {
    let text = format!("{}\n{}\n{}", coco(scale)?, pairs(scale)?, archives(scale)?);
    clear().map(|()| text)
}

/// The time of the contender `which` divided by that of the first, as median and range; `is_speed` divides the other way.
fn ratio(results: &Results, which: usize, is_speed: bool) -> String {
    let (first, other) = (&results.0[0].1, &results.0[which].1);
    let ratio = |(first, other): (&super::process::Usage, &super::process::Usage)| match is_speed {
        true => first.seconds / other.seconds,
        false => other.seconds / first.seconds,
    };
    spread(first.iter().zip(other).map(ratio).collect(), 2)
}

/// A list of COCO with boxes: time to plan.
fn coco(scale: &Scale) -> Result<String> {
    let (images, annotations) = (IMAGES / scale.smaller, ANNOTATIONS / scale.smaller);
    let tree = Tree { files: images, mean_bytes: TINY_BYTES };
    let path = tree.make()?;
    let list = folder("coco.json");
    fs::write(&list, coco_file(&path, annotations)?).map_err(|error| format!("{}: {error}", list.display()))?;
    let plan = || {
        let mut plan = command(shardpack("release"), ["plan", "--quiet", "--with", "boxes=coco", "--root"]);
        plan.arg(&path).arg(&list);
        Ok(plan)
    };
    let results = contest(scale.rounds, &[Contender::new("shardpack plan", plan)], || warm(&path))?;
    remove(&list)?;
    let table = results.table();
    Ok(format!(
        "A COCO file of {annotations} annotations of {images} images, `plan LIST --root TREE --with boxes=coco` (aim: 10 s):\n\n{table}"
    ))
}

/// A COCO file for the images of a tree.
fn coco_file(tree: &Path, annotations: u64) -> Result<String> {
    let names = names(tree)?;
    let mut text = "{\"images\": [".to_owned();
    for (number, name) in names.iter().enumerate() {
        let comma = if number == 0 { "" } else { "," };
        // Writing to a String cannot fail.
        let _ = write!(text, "{comma}{{\"id\": {number}, \"file_name\": \"{name}\"}}");
    }
    text += "], \"annotations\": [";
    for number in 0..annotations {
        let comma = if number == 0 { "" } else { "," };
        let (image, category) = (number % names.len() as u64, number % CATEGORIES);
        let _ = write!(
            text,
            "{comma}{{\"id\": {number}, \"image_id\": {image}, \"category_id\": {category}, \"iscrowd\": 0, \
             \"area\": 4.0, \"bbox\": [0, 0, 2.0, 2.0]}}"
        );
    }
    text += "], \"categories\": [";
    for number in 0..CATEGORIES {
        let comma = if number == 0 { "" } else { "," };
        let _ = write!(text, "{comma}{{\"id\": {number}, \"name\": \"class {number}\"}}");
    }
    text += "]}";
    Ok(text)
}

/// Paths of the images below `tree`, sorted.
fn names(tree: &Path) -> Result<Vec<String>> {
    let mut paths = Vec::new();
    jpegs(tree, &mut paths)?;
    let below = |path: &PathBuf| path.strip_prefix(tree).ok()?.to_str().map(str::to_owned);
    let mut names: Vec<String> = paths.iter().filter_map(below).collect();
    names.sort();
    Ok(names)
}

/// Images and masks in folders side by side, against a plain tree of as many files.
fn pairs(scale: &Scale) -> Result<String> {
    let (half, whole) = (IMAGES / scale.smaller / 2, IMAGES / scale.smaller);
    let images = Tree { files: half, mean_bytes: TINY_BYTES }.make()?;
    let plain = Tree { files: whole, mean_bytes: TINY_BYTES }.make()?;
    let pairs = folder("pairs");
    remove(&pairs)?;
    for name in names(&images)? {
        let mask = Path::new(&name).with_extension("png");
        for (beside, name) in [("images", Path::new(&name)), ("masks", mask.as_path())] {
            let link = pairs.join(beside).join(name);
            let failed = |error: std::io::Error| format!("{}: {error}", link.display());
            fs::create_dir_all(link.parent().unwrap_or(&pairs)).map_err(failed)?;
            let image = Path::new(name).with_extension("JPEG");
            fs::copy(images.join(image), &link).map_err(failed)?;
        }
    }
    let of_pairs = ["--no-labels", "--include", "images/**", "--with", "mask=../../masks/{parent}/*.png"];
    let contenders = [
        Contender::new("a plain tree", || pack_command(&plain, "plain", &["--no-labels"])),
        Contender::new("images and masks", || pack_command(&pairs, "pairs", &of_pairs)),
    ];
    let before = || warm(&plain).and_then(|()| warm(&pairs)).and_then(|()| sync());
    let results = contest(scale.rounds, &contenders, before)?;
    remove(&pairs)?;
    Ok(format!(
        "{half} images and {half} masks in folders side by side, and a plain tree of {whole} files; time ÷ time: {} (aim: 1.3):\n\n{}",
        ratio(&results, 1, false),
        results.table()
    ))
}

/// A tree in an archive with stored members, against the tree.
fn archives(scale: &Scale) -> Result<String> {
    let tree = Tree { files: IMAGES / scale.smaller, mean_bytes: TINY_BYTES };
    let path = tree.make()?;
    let archive = folder("tree.zip");
    run(command(python::system_python()?, ["-c", ZIP]).args([&path, &archive]))?;
    let contenders = [
        Contender::new("the tree", || pack_command(&path, "of-tree", &[])),
        Contender::new("the archive", || pack_command(&archive, "of-archive", &[])),
    ];
    let before = || warm(&path).and_then(|()| warm(&archive)).and_then(|()| sync());
    let results = contest(scale.rounds, &contenders, before)?;
    remove(&archive)?;
    Ok(format!(
        "{}, in a zip archive without compression; speed ÷ speed of the tree: {} (aim: 0.7):\n\n{}",
        tree.describe(),
        ratio(&results, 1, true),
        results.table()
    ))
}

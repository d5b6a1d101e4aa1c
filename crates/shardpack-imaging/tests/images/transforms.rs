//! Compares boxes with the vectors and the Python of `docs/reference/transforms.md`.

use std::{
    fs,
    io::Write,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use shardpack_format::permutation::mix;
use shardpack_imaging::training::{Cut, Geometry, Options, Resize, Size, Transform};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The plan for a line of the page: width, height, scale, ratio, key.
fn planned(line: &str) -> Geometry {
    let words: Vec<&str> = line.split_whitespace().collect();
    let number = |at: usize| words[at].parse::<f64>().unwrap();
    let (scale, ratio) = ((number(2), number(3)), (number(4), number(5)));
    let options = Options { flip: 0.5, ..Options::new(Cut::RandomResized { size: Size::square(224), scale, ratio }) };
    let transform = Transform::new(options).unwrap();
    transform.plan(words[0].parse().unwrap(), words[1].parse().unwrap(), words[6].parse().unwrap())
}

fn box_of(line: &str) -> String {
    let window = planned(line).window;
    format!("{} {} {} {}", window.left, window.top, window.width, window.height)
}

#[test]
fn boxes_and_flips_are_those_of_the_page() {
    let page = fs::read_to_string(root().join("docs/reference/transforms.md")).unwrap();
    let vectors = page.split("```vectors\n").nth(1).unwrap().split("```").next().unwrap();
    assert!(vectors.lines().count() > 8);
    for line in vectors.lines() {
        let (asked, expected) = line.split_once(": ").unwrap();
        assert_eq!(format!("{} {}", box_of(asked), planned(asked).flip), expected, "{asked}");
    }
}

#[test]
fn the_python_of_the_page_finds_the_same_boxes() {
    let Some(python) = std::env::var_os("SHARDPACK_PYTHON") else {
        eprintln!("SHARDPACK_PYTHON is not set: the Python of docs/reference/transforms.md was NOT run");
        return;
    };
    let sizes = ["1 1", "1 1000", "1000 1", "500 375", "375 500", "33 2000", "4032 3024", "65535 65535", "7 5"];
    let ranges =
        ["0.08 1 0.75 1.3333333333333333", "0.01 0.01 1 1", "1 1 0.001 1000", "0.3 0.9 2.5 3", "1e-9 1e-8 0.2 0.3"];
    let mut lines = Vec::new();
    for (number, (size, range)) in
        sizes.iter().flat_map(|size| ranges.iter().map(move |range| (size, range))).enumerate()
    {
        lines.extend((0..60).map(|key| format!("{size} {range} {}", mix(key + 1000 * number as u64))));
    }
    let mut child = Command::new(python)
        .arg(root().join("tests/peers/transforms.py"))
        .arg(root().join("docs/reference/transforms.md"))
        .arg("boxes")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut input = child.stdin.take().unwrap();
    let text = lines.join("\n");
    let writer = std::thread::spawn(move || input.write_all(text.as_bytes()).unwrap());
    let out = child.wait_with_output().unwrap();
    writer.join().unwrap();
    assert!(out.status.success());
    let found = String::from_utf8(out.stdout).unwrap();
    assert_eq!(found.lines().count(), lines.len());
    for (line, expected) in lines.iter().zip(found.lines()) {
        assert_eq!(box_of(line), expected, "{line}");
    }
}

#[test]
fn every_plan_lies_within_its_image_and_its_slot() {
    let sides = [1, 2, 3, 7, 223, 224, 225, 256, 1000, 65_535, u32::MAX];
    let sizes = [(1, 1), (224, 224), (1, 300), (97, 5)].map(|(height, width)| Size { height, width });
    let mut cuts = Vec::new();
    for size in sizes {
        let resizes = [Resize::Not, Resize::Short(1), Resize::Short(256), Resize::Short(65_535), Resize::Exact(size)];
        cuts.extend(resizes.map(|resize| Cut::Center { resize, size }));
        cuts.extend([Cut::Whole { size }, Cut::random_resized(size)]);
        cuts.push(Cut::RandomResized { size, scale: (1e-9, 1.0), ratio: (1e-3, 1e3) });
    }
    for cut in cuts {
        for filter in [shardpack_imaging::training::Filter::Bilinear, shardpack_imaging::training::Filter::Bicubic] {
            let transform = Transform::new(Options { filter, ..Options::new(cut) }).unwrap();
            for (width, height) in sides.iter().flat_map(|&width| sides.map(|height| (width, height))) {
                for key in 0..4 {
                    let planned = transform.plan(width, height, key);
                    let Geometry { window, region, placed, .. } = planned;
                    let fits = |at: u32, length: u32, all: u32| length > 0 && at < all && length <= all - at;
                    let region_fits =
                        |at: f64, length: f64, all: u32| at >= 0.0 && length > 0.0 && at + length <= f64::from(all);
                    let size = cut.size();
                    assert!(
                        fits(window.left, window.width, width)
                            && fits(window.top, window.height, height)
                            && fits(placed.left, placed.width, size.width)
                            && fits(placed.top, placed.height, size.height)
                            && region_fits(region.left, region.width, window.width)
                            && region_fits(region.top, region.height, window.height),
                        "{cut:?} of {width} × {height}: {planned:?}"
                    );
                }
            }
        }
    }
}

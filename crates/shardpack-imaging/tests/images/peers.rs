//! Compares every decoder with Pillow's: the same pixels, or a refusal with the reason.
//!
//! Needs Python with Pillow and numpy (`SHARDPACK_PYTHON`); without Python, it prints a note and passes.

use std::{collections::BTreeMap, fs, path::Path, process::Command};

use shardpack_imaging::{Layout, Limits, Picture, decode};

/// Images that are refused here although Pillow decodes them: a part of the name, and a part of the refusal.
const REFUSED: &[(&str, &str)] = &[
    ("-arithmetic.jpg", "arithmetic coding is not decoded here"),
    ("-3x", "sampling by other factors than 1, 2 and 4 is not decoded here"),
    ("-checksum-", "the checksum of chunk "),
    ("-float.tif", "floating point"),
    ("-signed.tif", "signed samples are not decoded here"),
    ("-lzma.tif", "LZMA in TIFF is not decoded here"),
    ("-g3-2d", "two-dimensional CCITT group 3 fax in TIFF is not decoded here"),
    ("-offset-beyond.bmp", "truncated"),
    ("-offset-", "its pixels begin at byte "),
];

/// Images that differ for a reason: a part of the name.
///
/// Pixels that no frame of a GIF covers are transparent here, as in browsers; Pillow fills them with a colour.
const OTHER: &[&str] = &["exact-part.gif"];

/// The pixels in `wanted` channels, as Pillow counts them: an opaque alpha channel does not count.
fn channels(picture: &Picture, wanted: usize) -> Option<Vec<u8>> {
    let pixels = picture.pixels().chunks_exact(picture.layout().channels());
    Some(match (picture.layout(), wanted) {
        (layout, wanted) if layout.channels() == wanted => picture.pixels().to_vec(),
        (Layout::Gray8, 3) => pixels.flat_map(|pixel| [pixel[0]; 3]).collect(),
        (Layout::GrayA8, 4) => pixels.flat_map(|pixel| [pixel[0], pixel[0], pixel[0], pixel[1]]).collect(),
        (Layout::Rgb8, 4) => pixels.flat_map(|pixel| [pixel[0], pixel[1], pixel[2], 255]).collect(),
        (Layout::Rgba8, 3) if picture.pixels().iter().skip(3).step_by(4).all(|alpha| *alpha == 255) => {
            pixels.flat_map(|pixel| [pixel[0], pixel[1], pixel[2]]).collect()
        }
        _ => return None,
    })
}

/// Difference between `found` and Pillow's image, if any.
fn difference(name: &str, found: &Picture, expected: &[u8]) -> Option<String> {
    let end = expected.iter().position(|byte| *byte == b'\n').unwrap();
    let head: Vec<usize> =
        str::from_utf8(&expected[..end]).unwrap().split(' ').map(|number| number.parse().unwrap()).collect();
    let expected = &expected[end + 1..];
    if (found.width() as usize, found.height() as usize) != (head[0], head[1]) {
        return Some(format!("{} × {} instead of {} × {}", found.width(), found.height(), head[0], head[1]));
    }
    let Some(pixels) = channels(found, head[2]) else {
        return Some(format!("{:?} instead of {} channels", found.layout(), head[2]));
    };
    let has_alpha = head[2] == 4 || head[2] == 2;
    let mut differences: Vec<u8> = Vec::new();
    for (one, other) in pixels.chunks_exact(head[2]).zip(expected.chunks_exact(head[2])) {
        // The colour of a transparent pixel does not matter.
        let is_clear = has_alpha && one.last() == Some(&0) && other.last() == Some(&0);
        let pairs = one.iter().zip(other);
        differences.extend(pairs.map(|(one, other)| if is_clear { 0 } else { one.abs_diff(*other) }));
    }
    let most = differences.iter().max().copied().unwrap_or(0);
    let mean = differences.iter().map(|difference| f64::from(*difference)).sum::<f64>() / differences.len() as f64;
    // Rounding of levels and inks; for JPEG and lossy WebP also rounding of transforms, and chroma upsampling.
    let (most_allowed, mean_allowed) = match name {
        // Pillow divides by an alpha of 8 bits.
        _ if name.contains("-premultiplied-16") => (4, 1.0),
        _ if name.starts_with("exact") => (2, 1.0),
        _ => (60, 3.0),
    };
    (most > most_allowed || mean > mean_allowed).then(|| format!("differs by up to {most}, {mean:.2} on average"))
}

#[test]
fn every_kind_has_the_pixels_that_pillow_finds_or_is_refused_by_what_it_is() {
    let Some(python) = std::env::var_os("SHARDPACK_PYTHON") else {
        eprintln!("SHARDPACK_PYTHON is not set: images are not compared with Pillow's");
        return;
    };
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("images-{}", std::process::id()));
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/peers/write_images.py");
    let written = Command::new(python).args(["-W", "ignore"]).arg(script).arg(&folder).status().unwrap();
    assert!(written.success());
    let mut files: BTreeMap<String, Vec<u8>> = BTreeMap::new();
    for entry in fs::read_dir(&folder).unwrap() {
        let path = entry.unwrap().path();
        files.insert(path.file_name().unwrap().to_str().unwrap().to_owned(), fs::read(&path).unwrap());
    }
    fs::remove_dir_all(&folder).unwrap();
    let (mut compared, mut wrong) = (0, Vec::new());
    for (name, bytes) in files.iter().filter(|(name, _)| !name.ends_with(".pixels")) {
        let by_pillow = files.get(&format!("{name}.pixels"));
        let refused_here = REFUSED.iter().find(|(part, _)| name.contains(part));
        match (decode(bytes, &Limits::default()), by_pillow, refused_here) {
            (Ok(_), _, Some((part, _))) => wrong.push(format!("{name}: decoded, though {part} is said to be refused")),
            (Ok(_), Some(_), None) if OTHER.iter().any(|part| name.contains(part)) => {}
            (Ok(found), Some(expected), None) => {
                compared += 1;
                wrong.extend(difference(name, &found, expected).map(|what| format!("{name}: {what}")));
            }
            (Ok(_), None, None) => wrong.push(format!("{name}: decoded, and Pillow refuses it")),
            (Err(refused), _, Some((_, what))) if refused.to_string().contains(what) => {}
            (Err(_), None, None) => {}
            (Err(refused), _, _) => wrong.push(format!("{name}: {refused}")),
        }
    }
    assert!(wrong.is_empty(), "of {compared} compared:\n{}", wrong.join("\n"));
    assert!(compared > 800, "{compared}");
}

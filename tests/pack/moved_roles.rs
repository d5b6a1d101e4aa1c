//! Roles of components if pixels move: by their names, by `--role`, or refused.

use std::{fs, path::Path};

use shardpack_format::npy;
use shardpack_reader::Dataset;
use shardpack_testing::{Bench, Ran, png, run, shards::Tar};

fn array(dtype: &str, shape: &[u64], items: &[u8]) -> Vec<u8> {
    [&npy::head(dtype, shape, false)[..], items].concat()
}

fn floats(shape: &[u64], numbers: &[f32]) -> Vec<u8> {
    array("<f4", shape, &numbers.iter().flat_map(|number| number.to_le_bytes()).collect::<Vec<_>>())
}

/// Two samples with the image of [`png`] and one component.
fn tar(bench: &Bench, name: &str, content: &[u8]) -> std::path::PathBuf {
    let path = bench.at("a.tar");
    let tar = ["a", "b"]
        .into_iter()
        .fold(Tar::new(), |tar, key| tar.file(&format!("{key}.png"), &png()).file(&format!("{key}.{name}"), content));
    fs::write(&path, tar.bytes()).unwrap();
    path
}

fn convert(tar: &Path, dst: &Path, options: &[&str]) -> Ran {
    run(&[&["convert", tar.to_str().unwrap(), dst.to_str().unwrap(), "--force", "--resize", "8x8"], options].concat())
}

fn component(dst: &Path, name: &str) -> Vec<u8> {
    Dataset::open(dst).unwrap().sample(0).unwrap().component(name).unwrap().to_vec()
}

#[test]
fn a_component_whose_role_is_unknown_is_refused_until_it_is_given() {
    let bench = Bench::new();
    let image = image::load_from_memory(&png()).unwrap();
    let (width, height) = (image.width() as f32, image.height() as f32);
    let middle = [width / 4.0, height / 4.0, width / 2.0, height / 2.0];
    let fractions = [0.25, 0.25, 0.5, 0.5];
    for (name, content, role, after) in [
        // The convention of the four numbers is not known.
        ("bbox.npy", floats(&[1, 4], &middle), "bbox=xywh", floats(&[1, 4], &[2.0, 2.0, 4.0, 4.0])),
        ("bbox.npy", floats(&[1, 4], &middle), "bbox.npy=xyxy", floats(&[1, 4], &[2.0, 2.0, 4.0, 4.0])),
        // Boxes by name, and by content something else.
        ("boxes.npy", floats(&[1, 4], &fractions), "boxes=keep", floats(&[1, 4], &fractions)),
        ("boxes.npy", floats(&[1, 4], &[9.0, 9.0, 2.0, 2.0]), "boxes=keep", floats(&[1, 4], &[9.0, 9.0, 2.0, 2.0])),
        ("boxes.npy", array("<i4", &[1, 4], &[1; 16]), "boxes=keep", array("<i4", &[1, 4], &[1; 16])),
        ("points.npy", floats(&[1, 3], &[1.0, 2.0, 3.0]), "points=keep", floats(&[1, 3], &[1.0, 2.0, 3.0])),
        ("mask.npy", array("|u1", &[3], &[1; 3]), "mask=keep", array("|u1", &[3], &[1; 3])),
        ("corners.npy", floats(&[2], &[width / 2.0, height]), "corners=xy", floats(&[2], &[4.0, 8.0])),
        ("json", br#"{"bbox": [1, 2, 3, 4]}"#.to_vec(), "json=keep", br#"{"bbox": [1, 2, 3, 4]}"#.to_vec()),
    ] {
        let (tar, dst) = (tar(&bench, name, &content), bench.at("x"));
        if name != "corners.npy" {
            let ran =
                convert(&tar, &dst, &[]).code(2).clean_error().says(&format!("not their component {name}, which "));
            ran.says(
                "--role NAME=mask, xyxy, xywh, cxcywh or xy moves it, and NAME=keep does not; --components takes those",
            );
        }
        convert(&tar, &dst, &["--role", role]).code(0);
        assert_eq!(component(&dst, name), after, "{name} {role}");
        let recipe = Dataset::open(&dst).unwrap().manifest().recipe.clone().unwrap();
        let (_, word) = role.split_once('=').unwrap();
        assert!(recipe.contains(&format!(", {name} as {word} (")), "{recipe}");
        run(&["inspect", dst.to_str().unwrap()]).code(0).says(&format!("{name} as {word}"));
        convert(&tar, &dst, &["--components", "none"]).code(0);
    }
}

#[test]
fn wrong_roles_are_refused_before_an_image_is_changed() {
    let bench = Bench::new();
    let (tar, dst) = (tar(&bench, "boxes.npy", &floats(&[1, 4], &[1.0, 2.0, 3.0, 4.0])), bench.at("x"));
    for (roles, what) in [
        (&["gt=xyxy"][..], "--role gt=xyxy: no component has this name; there are boxes.npy"),
        (&["boxes=xyxy", "boxes.npy=keep"], "given twice"),
        (&["boxes=box"], "\"box\" is no role; mask, xyxy, xywh, cxcywh, xy, keep are"),
        (&["boxes"], "write NAME=ROLE, as in boxes=xyxy"),
    ] {
        let options: Vec<&str> = roles.iter().flat_map(|role| ["--role", role]).collect();
        convert(&tar, &dst, &options).code(2).says(what);
        assert!(!dst.exists());
    }
    let plain = ["convert", tar.to_str().unwrap(), dst.to_str().unwrap(), "--role", "boxes=xyxy"];
    run(&plain).code(2).clean_error().says("--role is for components that move with their images");
    // Other changes move nothing.
    run(&[&plain[..3], &["--encode", "webp"]].concat()).code(0);
    assert_eq!(component(&dst, "boxes.npy"), floats(&[1, 4], &[1.0, 2.0, 3.0, 4.0]));
    let text = self::tar(&bench, "txt", b"1 2 3 4");
    for role in ["txt=xyxy", "txt=mask"] {
        convert(&text, &dst, &["--role", role]).code(2).clean_error().says("the component txt is no ");
    }
}

#[test]
fn another_role_is_another_recipe() {
    let bench = Bench::new();
    let (tar, dst) = (tar(&bench, "bbox.npy", &floats(&[1, 4], &[1.0, 2.0, 3.0, 4.0])), bench.at("x"));
    convert(&tar, &dst, &["--role", "bbox=xywh"]).code(0);
    let line = ["convert", tar.to_str().unwrap(), dst.to_str().unwrap(), "--resize", "8x8", "--role"];
    run(&[&line[..], &["bbox=xywh"]].concat()).code(0).says("nothing to do");
    run(&[&line[..], &["bbox=xyxy"]].concat()).code(2).clean_error().says("bbox.npy as xywh");
}

//! HDF5 files as sources: h5py writes them in the layouts of the common scripts.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use shardpack_format::formats::foreign::FieldSelection;
use shardpack_reader::Dataset;
use shardpack_source::foreign::hdf5;
use shardpack_testing::{Bench, Ran, Rng, contents, images, pack, photos, run};

/// Number of images in each file of arrays; the same as in `write_hdf5.py`.
const ROWS: usize = 14;
/// Class names of the photographs.
const CLASSES: [&str; 5] = ["animals", "people", "space", "textures", "things"];

/// Files of the photographs and of arrays, each with its own layout.
fn written(bench: &Bench) -> PathBuf {
    let Some(python) = std::env::var_os("SHARDPACK_PYTHON") else {
        panic!("SHARDPACK_PYTHON is not set: run `cargo xtask test`, which sets up Python");
    };
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/peers/write_hdf5.py");
    let out = bench.at("hdf5");
    let ran = Command::new(python).arg(script).arg(photos()).arg(&out).output().unwrap();
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
    out
}

fn convert(source: &Path, dst: &Path, options: &[&str]) -> Ran {
    run(&[&["convert", source.to_str().unwrap(), dst.to_str().unwrap()], options].concat())
}

/// Labels and `.npy` files of the images in `rows` of the arrays `name`, sorted.
fn arrays(source: &Path, name: &str, rows: std::ops::Range<usize>) -> Vec<(i64, Vec<u8>)> {
    let file = |n: usize| fs::read(source.join(format!("expected/{name}-{n}.npy"))).unwrap();
    let mut all: Vec<_> = rows.map(|n| (n as i64 % 3, file(n))).collect();
    all.sort();
    all
}

#[test]
fn encoded_images_of_every_layout_are_converted_without_an_option() {
    let bench = Bench::new();
    let source = written(&bench);
    pack(&photos(), &bench.at("tree"), &["--quiet"]).code(0);
    let expected = images(&bench.at("tree"));
    for way in ["vlen", "vlen-latest", "vlen-one-hot", "vlen-text", "fixed", "groups", "groups-latest"] {
        let (from, dst) = (source.join(format!("{way}.h5")), bench.at(&format!("out-{way}")));
        convert(&from, &dst, &["--jobs", "2"]).code(0).says("of hdf5").says("note");
        assert!(images(&dst) == expected, "{way}: images or labels differ");
        run(&["verify", "--quiet", dst.to_str().unwrap(), "--against", from.to_str().unwrap()]).code(0);
        run(&["verify", "--quiet", "--decode", from.to_str().unwrap()]).code(0);
        let same = bench.at(&format!("same-{way}"));
        convert(&from, &same, &["--jobs", "1", "--quiet", "--read-order", "physical"]).code(0);
        assert_eq!(contents(&same), contents(&dst), "{way}: the bytes depend on how they are read");
        let classes: Vec<_> = Dataset::open(&dst).unwrap().classes().iter().map(|class| class.name.clone()).collect();
        assert!(way == "fixed" || classes == CLASSES, "{way}: {classes:?}");
    }
    // The vlen file records the file names, so its shard equals the shard of the tree.
    assert_eq!(
        contents(&bench.at("out-vlen"))[Path::new("shard-000000.tar")],
        contents(&bench.at("tree"))[Path::new("shard-000000.tar")]
    );
    run(&["inspect", source.join("vlen.h5").to_str().unwrap()]).code(0).says("hdf5");
}

#[test]
fn pixels_of_every_filter_become_the_npy_files_that_numpy_would_write() {
    let bench = Bench::new();
    let source = written(&bench);
    for way in ["nhwc", "nchw", "gray", "sums", "grown"] {
        for libver in ["earliest", "latest"] {
            let name = format!("{way}-{libver}");
            let (from, dst) = (source.join(format!("{name}.h5")), bench.at(&name));
            convert(&from, &dst, &[]).code(0).says("note").says("images imgs uint8 14×");
            assert!(images(&dst) == arrays(&source, &name, 0..ROWS), "{name}: other bytes than numpy's");
            assert_eq!(Dataset::open(&dst).unwrap().manifest().kinds["npy"], ROWS as u64);
            run(&["verify", "--quiet", "--decode", dst.to_str().unwrap(), "--against", from.to_str().unwrap()]).code(0);
        }
    }
}

#[test]
fn arrays_called_like_splits_and_fuels_attribute_become_splits() {
    let bench = Bench::new();
    let source = written(&bench);
    for (way, second) in [("splits", "test"), ("fuel", "valid")] {
        let (from, dst) = (source.join(format!("{way}.h5")), bench.at(way));
        convert(&from, &dst, &[]).code(0).says(&format!("splits train, {second}"));
        assert!(images(&dst.join("train")) == arrays(&source, way, 0..10), "{way}: train");
        assert!(images(&dst.join(second)) == arrays(&source, way, 10..ROWS), "{way}: {second}");
        let one = bench.at(&format!("{way}-one"));
        convert(&from, &one, &["--splits", "none"]).code(0);
        assert!(images(&one) == arrays(&source, way, 0..ROWS), "{way}: all as one");
        run(&["verify", "--quiet", dst.to_str().unwrap(), "--against", from.to_str().unwrap()]).code(0);
    }
    let dst = bench.at("group-splits");
    convert(&source.join("group-splits.h5"), &dst, &["--quiet"]).code(0);
    let all = [images(&dst.join("train")), images(&dst.join("val"))].map(|one| one.len());
    assert_eq!(all, [26, 6]);
}

#[test]
fn several_that_could_be_meant_are_listed_and_chosen_from() {
    let bench = Bench::new();
    let source = written(&bench);
    let (from, dst) = (source.join("several.h5"), bench.dst());
    let ran = convert(&from, &dst, &[]);
    assert_ne!(ran.code, 0);
    ran.says("left uint8 14×4×5×3").says("coarse int64 14").says("--image-feature PATH and --label-feature PATH");
    convert(&from, &dst, &["--images", "left", "--labels", "/fine"]).code(0);
    assert!(images(&dst) == arrays(&source, "splits", 0..ROWS));
    convert(&from, &dst, &["--images", "left", "--labels", "none", "--force"]).code(2).says("no dataset none");
    convert(&from, &dst, &["--images", "fine", "--force"]).code(2).says("holds no images");
    convert(&source.join("vlen.h5"), &dst, &["--labels", "classes", "--force"]).code(2).says("do not go with images");
}

#[test]
fn what_is_no_label_or_no_image_is_said_with_its_dataset() {
    let bench = Bench::new();
    let source = written(&bench);
    convert(&source.join("isic.h5"), &bench.at("isic"), &[])
        .code(0)
        .says("no record has a label")
        .says("no labels in the file");
    let isic = Dataset::open(bench.at("isic")).unwrap();
    assert_eq!((isic.len(), isic.classes().len(), isic.sample(0).unwrap().label()), (32, 0, None));
    // Labels come from a list next to the file, as in the ISIC challenge, or from `--label-from`.
    pack(&photos(), &bench.at("tree"), &["--quiet"]).code(0);
    let tree = images(&bench.at("tree"));
    let list = fs::read_to_string(source.join("list-of-isic.csv")).unwrap();
    fs::write(source.join("other.csv"), &list).unwrap();
    let from = source.join("other.csv");
    let said = ["--label-from", from.to_str().unwrap()];
    convert(&source.join("isic.h5"), &bench.at("isic-said"), &said).code(0).says("their labels are in other.csv");
    assert!(images(&bench.at("isic-said")) == tree);
    fs::write(source.join("isic-metadata.csv"), list + "ISIC_9999999,0,x\n").unwrap();
    convert(&source.join("isic.h5"), &bench.at("isic-beside"), &[])
        .code(0)
        .says("their labels are in isic-metadata.csv")
        .says("1 key in it without an entry: \"ISIC_9999999\"");
    assert!(images(&bench.at("isic-beside")) == tree);
    // A list of other images is ignored.
    fs::write(source.join("isic-metadata.csv"), "isic_id,target\nISIC_9999999,0\n").unwrap();
    convert(&source.join("isic.h5"), &bench.at("isic-not"), &[]).code(0).says("no labels in the file");
    convert(&source.join("vlen.h5"), &bench.at("refused"), &said).code(2).says("rows have no keys").clean_error();
    // Floats are no pixels: they are kept as arrays.
    convert(&source.join("float.h5"), &bench.at("float"), &[]).code(0).says("components images <f4[4x5x3]");
    // Several labels in a row are no class.
    let many = bench.at("many");
    convert(&source.join("vlen-many.h5"), &many, &[])
        .code(0)
        .says("components labels <i8[5]")
        .says("several labels a row");
    assert_eq!(Dataset::open(&many).unwrap().classes().len(), 0);
}

#[test]
fn a_truncated_file_is_refused_with_both_lengths() {
    let bench = Bench::new();
    let source = written(&bench);
    let bytes = fs::read(source.join("nhwc-earliest.h5")).unwrap();
    let path = bench.at("cut.h5");
    fs::write(&path, &bytes[..bytes.len() - 1]).unwrap();
    let (are, said) = (bytes.len() - 1, bytes.len());
    convert(&path, &bench.dst(), &[]).code(1).says(&format!("{are} bytes, {said} in its header"));
    assert!(!bench.dst().join("manifest.json").exists());
}

#[test]
fn a_damaged_chunk_costs_its_rows_and_no_others() {
    let bench = Bench::new();
    let source = written(&bench);
    let mut bytes = fs::read(source.join("sums-earliest.h5")).unwrap();
    // Pixels of row 5; its chunk holds rows 4 and 5.
    let pixels = fs::read(source.join("expected/sums-earliest-5.npy")).unwrap();
    let pixels = &pixels[pixels.len() - 72..];
    let at = bytes.windows(72).position(|part| part == pixels).unwrap();
    bytes[at] ^= 1;
    let path = bench.at("damaged.h5");
    fs::write(&path, bytes).unwrap();
    convert(&path, &bench.dst(), &[]).code(1).says("dataset imgs, row 4").says("dataset imgs, row 5");
    convert(&path, &bench.dst(), &["--on-bad", "skip"]).code(0);
    let mut expected = arrays(&source, "sums-earliest", 0..4);
    expected.extend(arrays(&source, "sums-earliest", 6..ROWS));
    expected.sort();
    assert!(images(&bench.dst()) == expected);
}

/// Reads a file to its end and returns the number of images; each image must have its announced length.
fn walk(path: &Path) -> usize {
    let wanted = FieldSelection::default();
    let _ = hdf5::classes(path, &wanted);
    let _ = hdf5::splits(path, &wanted);
    let Ok(mut walk) = hdf5::walk(path, &wanted, None) else { return 0 };
    let (mut image, mut images) = (Vec::new(), 0);
    while let Ok(Some(record)) = walk.next() {
        if let Ok(place) = record.image {
            walk.image(&mut image).unwrap();
            assert_eq!(image.len(), place.bytes as usize);
            images += 1;
        }
    }
    images
}

#[test]
fn cuts_and_flips_give_errors_or_images_and_never_a_panic() {
    let bench = Bench::new();
    let source = written(&bench);
    let path = bench.at("damaged.h5");
    let mut rng = Rng::new(7);
    let ways = [
        "nchw-earliest",
        "nchw-latest",
        "gray-latest",
        "grown-latest",
        "sums-earliest",
        "fuel",
        "splits",
        "groups-latest",
    ];
    for way in ways {
        let bytes = fs::read(source.join(format!("{way}.h5"))).unwrap();
        fs::write(&path, &bytes).unwrap();
        let whole = walk(&path);
        assert!(whole >= ROWS, "{way}: {whole}");
        for _ in 0..20 {
            fs::write(&path, &bytes[..rng.below(bytes.len() as u64) as usize]).unwrap();
            assert_eq!(walk(&path), 0, "{way}: a truncated file");
        }
        for _ in 0..80 {
            let mut wrong = bytes.clone();
            for _ in 0..1 + rng.below(4) {
                // Most flips fall in the first bytes, which hold the structures.
                let end = if rng.below(4) == 0 { bytes.len() as u64 } else { bytes.len().min(4096) as u64 };
                wrong[rng.below(end) as usize] ^= 1 << rng.below(8);
            }
            fs::write(&path, wrong).unwrap();
            walk(&path);
        }
    }
}

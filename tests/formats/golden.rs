//! Every later release writes the same bytes as the first release.
//!
//! `fixtures/golden/FORMAT/v1/` holds the bytes: `photos.txt` has the hashes of all files of the photographs packed with a few
//! sets of options, `tiny/` is a complete tiny dataset. `SHARDPACK_UPDATE_GOLDEN=1 cargo test --test formats golden::` rewrites these
//! files. Use
//! it only before a release; afterwards changed bytes need a folder `v2/`, a line marked **on disk** in the CHANGELOG
//! and a reason. Compressed shards are left out: their bytes depend on the version of the zstd library.
//!
//! `mds/frames/` is a dataset of an earlier build, which wrote several frames per shard; the current build writes one.
//!
//! The webdataset files are older than sidecars, so their sidecars have a separate list.

use std::{
    fs,
    path::{Path, PathBuf},
};

use shardpack_format::manifest::Manifest;
use shardpack_testing::{Bench, Dataset, contents, pack, photos, run};

/// The sidecars of each format, including those that are written only on request, without descriptions for catalogues.
const SIDECARS: [(&str, &str); 4] = [
    ("webdataset", "dali,wids,energon,timm,openclip,classes,labels"),
    ("tfrecord", "dali,classes,labels"),
    ("recordio", "idx,dali,lst,classes,labels"),
    ("mds", "index,classes,labels"),
];
/// A header with kind and size, and no pixels: `pack` decodes no image.
const JPEG: &[u8] = b"\xff\xd8\xff\xc0\0\x0b\x08\0\x02\0\x03\x01\x01\x11\0\xff\xd9";
const PNG: &[u8] = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\x05\0\0\0\x04\x08\x02\0\0\0";
/// First word of every part of a RecordIO file: images that hold it are stored in parts.
const MAGIC: &[u8] = &[0x0a, 0x23, 0xd7, 0xce];

/// Fails the test unless `bytes` equal the golden file; with `SHARDPACK_UPDATE_GOLDEN` writes `bytes` to the file.
fn check(format: &str, file: &str, bytes: &[u8]) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/golden").join(format).join("v1").join(file);
    if std::env::var_os("SHARDPACK_UPDATE_GOLDEN").is_some() {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, bytes).unwrap();
    }
    let expected = fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    if let (Ok(bytes), Ok(expected)) = (std::str::from_utf8(bytes), std::str::from_utf8(&expected)) {
        assert_eq!(bytes, expected, "{format}: {file}");
    }
    let differs = bytes.iter().zip(&expected).position(|(a, b)| a != b);
    assert_eq!(differs, None, "{format}: {file}: first byte that differs");
    assert_eq!(bytes.len(), expected.len(), "{format}: {file}");
}

fn files(dst: &Path) -> Vec<(PathBuf, String)> {
    contents(dst).into_iter().filter(|(_, hash)| !hash.is_empty()).collect()
}

/// Fails the test unless the dataset is valid and matches the source.
fn verify(dst: &Path, source: &Path) {
    run(&["verify", dst.to_str().unwrap(), "--against", source.to_str().unwrap(), "--quiet"]).code(0);
}

/// The lines of a golden list: the photographs packed with each named set of options.
fn list(ways: &[(&str, &[&str])], sidecars: &str) -> String {
    let mut lines = String::new();
    for (way, options) in ways {
        let bench = Bench::new();
        pack(&photos(), &bench.dst(), &[options, &["--sidecars", sidecars][..]].concat()).code(0);
        verify(&bench.dst(), &photos());
        let manifest = Manifest::read(&fs::read(bench.dst().join("manifest.json")).unwrap()).unwrap();
        if manifest.format.name == "webdataset" {
            Dataset::read(&bench.dst()).check_source(&photos());
        }
        lines += &format!("# {way}: shardpack pack fixtures/photos DST {}\n", options.join(" "));
        lines += &format!("id {}\n", shardpack_format::hash::hex(&manifest.id.0));
        for (path, hash) in files(&bench.dst()) {
            lines += &format!("{hash}  {}\n", path.display());
        }
    }
    lines
}

#[test]
fn the_photographs_have_the_bytes_of_the_first_release() {
    let ways: [(&str, &[&str]); 4] = [
        ("default", &["--shards", "3"]),
        ("by-size", &["--shard-size", "256KiB", "--seed", "7", "--name", "photos"]),
        ("content-json", &["--ext", "content", "--meta", "json", "--shard-samples", "10"]),
        ("source-bare", &["--order", "source", "--cls", "none", "--shards", "1", "--exclude", "textures/**"]),
    ];
    check("webdataset", "photos.txt", list(&ways, "none").as_bytes());
}

#[test]
fn the_photographs_have_the_bytes_of_the_first_release_in_every_other_format() {
    let settings: [(&str, &[&str]); 4] = [
        ("webdataset", &["--meta", "json"]),
        ("tfrecord", &["--label-offset", "1", "--features", "image/class/label,image/filename"]),
        ("recordio", &[]),
        ("mds", &["--mds-encoding", "bytes", "--set", "label-column=class", "--set", "hashes=sha1,md5,xxh3_64"]),
    ];
    for ((format, sidecars), (_, settings)) in SIDECARS.into_iter().zip(settings) {
        let named = ["--format", format];
        let default = [&named[..], &["--shards", "3"]].concat();
        let by_size = [&named[..], &["--shard-size", "256KiB", "--seed", "7", "--name", "photos"], settings].concat();
        let source = [&named[..], &["--order", "source", "--shards", "1", "--exclude", "textures/**"]].concat();
        let ways = [("default", &default[..]), ("by-size", &by_size), ("source", &source)];
        let file = if format == "webdataset" { "sidecars.txt" } else { "photos.txt" };
        check(format, file, list(&ways, sidecars).as_bytes());
    }
}

fn tiny(options: &[&str]) -> Bench {
    let bench = Bench::new();
    bench.file("ant/1.jpg", JPEG);
    bench.file("ant/deep/2.JPEG", &[JPEG, &[7; 495]].concat());
    bench.file("bee/3.jpg", PNG);
    bench.file("bee/4.ppm", b"P6 1 1 255\nabc");
    bench.file("bee/empty.jpg", b"");
    bench.file("bee/left-out.png", PNG);
    bench.file("bee/notes.txt", b"no image");
    bench.folder("cow");
    let all = ["--shards", "2", "--seed", "11", "--name", "tiny", "--on-bad", "skip", "--exclude", "bee/left*"];
    bench.pack(&[&all[..], options].concat()).code(0);
    bench
}

/// Compares all files of a tiny dataset with the golden files; `expected` is the number of files.
fn check_tiny(format: &str, bench: &Bench, expected: usize) {
    let files = files(&bench.dst());
    assert_eq!(files.len(), expected, "{format}: {files:?}");
    for (path, _) in files {
        let name = path.file_name().unwrap().to_str().unwrap();
        let bytes = fs::read(bench.dst().join(&path)).unwrap();
        assert!(bytes.len() <= 20 << 10, "{name}: {} bytes", bytes.len());
        check(format, &format!("tiny/{name}"), &bytes);
    }
}

#[test]
fn a_tiny_dataset_has_the_very_bytes_of_the_first_release() {
    let bench = tiny(&["--meta", "json", "--sidecars", "none"]);
    Dataset::read(&bench.dst()).check_source(&bench.src());
    check_tiny("webdataset", &bench, 7);
}

#[test]
fn a_tiny_dataset_has_the_very_bytes_of_the_first_release_in_every_other_format() {
    // Manifest, sums, ledger, two shards and two indexes; plus the sidecars.
    let files = [("tfrecord", 7 + 4), ("recordio", 7 + 6), ("mds", 7 + 3)];
    for ((format, sidecars), (_, expected)) in SIDECARS.into_iter().skip(1).zip(files) {
        let bench = tiny(&["--format", format, "--sidecars", sidecars]);
        verify(&bench.dst(), &bench.src());
        check_tiny(format, &bench, expected);
    }
}

#[test]
fn compressed_mds_shards_of_several_frames_are_still_read_checked_and_converted() {
    let bench = Bench::new();
    for (number, class) in ["ant", "ant", "ant", "bee", "bee", "bee"].into_iter().enumerate() {
        let number = number + 1;
        bench.file(format!("{class}/{number}.jpg"), &[JPEG, &vec![number as u8; 400_000 + 1000 * number]].concat());
    }
    // Each shard has one frame for two images, one frame for the third, and a seek table.
    let old = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/golden/mds/frames");
    let shard = fs::read(old.join("tiny.00000.mds.zstd")).unwrap();
    assert!(zstd::zstd_safe::find_frame_compressed_size(&shard).unwrap() < shard.len());
    verify(&old, &bench.src());
    // The current build writes the same images in one frame.
    bench.pack(&["--format", "mds", "--compress", "zstd", "--shards", "2", "--name", "tiny"]).code(0);
    assert_ne!(fs::read(bench.dst().join("tiny.00000.mds.zstd")).unwrap(), shard);
    assert_eq!(shardpack_testing::images(&old), shardpack_testing::images(&bench.dst()));
    for folder in [&old, &bench.dst()] {
        let dataset = shardpack_reader::Dataset::open(folder).unwrap();
        // In a mixed order, so that no window helps.
        for number in [5, 0, 4, 1, 3, 2] {
            let sample = dataset.sample(number).unwrap();
            let path = String::from_utf8(sample.path().to_vec()).unwrap();
            assert_eq!(sample.bytes(), fs::read(bench.src().join(&path)).unwrap(), "{path}");
        }
        let converted = bench.at("converted");
        run(&["convert", folder.to_str().unwrap(), converted.to_str().unwrap(), "--force"]).code(0);
        assert_eq!(shardpack_testing::images(&converted), shardpack_testing::images(folder));
    }
}

#[test]
fn an_image_that_holds_the_magic_is_stored_in_the_parts_of_the_first_release() {
    let bench = Bench::new();
    // After 24 bytes of header: the magic aligned to 4 and not aligned, twice in a row, and at the end.
    let image = [JPEG, b"xyz", MAGIC, b"abcd", MAGIC, MAGIC, b"e", MAGIC, b"fgh", MAGIC].concat();
    bench.file("ant/magic.jpg", &image);
    bench.file("bee/plain.jpg", JPEG);
    bench.pack(&["--format", "recordio", "--shards", "1", "--name", "magic", "--order", "source"]).code(0);
    verify(&bench.dst(), &bench.src());
    for (file, _) in files(&bench.dst()) {
        let bytes = fs::read(bench.dst().join(&file)).unwrap();
        check("recordio", &format!("magic/{}", file.file_name().unwrap().to_str().unwrap()), &bytes);
    }
    let shard = fs::read(bench.dst().join("magic-000000.rec")).unwrap();
    let flags: Vec<u32> = (0..shard.len() - 7)
        .step_by(4)
        .filter(|at| &shard[*at..at + 4] == MAGIC)
        .map(|at| u32::from_le_bytes(shard[at + 4..at + 8].try_into().unwrap()) >> 29)
        .collect();
    assert_eq!(flags, [1, 2, 2, 2, 3, 0]);
}

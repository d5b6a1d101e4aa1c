//! The bytes that a release has written are the bytes that every later one writes.
//!
//! `fixtures/golden/webdataset/v1/` holds them: `photos.txt` the hashes of all files of the photographs packed in a few
//! ways, `tiny/` a whole tiny dataset. `SHARDPACK_UPDATE_GOLDEN=1 cargo test --test golden` writes them anew. That is
//! right only before a release; afterwards changed bytes get a folder `v2/`, a line marked **on disk** in the CHANGELOG
//! and a reason. Compressed shards are not here: their bytes are those of one version of the zstd library.

#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stdout, clippy::print_stderr, clippy::type_complexity)]

mod support;

use std::{
    fs,
    path::{Path, PathBuf},
};

use support::{Bench, Dataset, contents, pack, photos};

fn golden() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/golden/webdataset/v1")
}

/// Fails the test unless `bytes` are those of the golden file; writes them there where that is asked for.
fn check(file: &str, bytes: &[u8]) {
    let path = golden().join(file);
    if std::env::var_os("SHARDPACK_UPDATE_GOLDEN").is_some() {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, bytes).unwrap();
    }
    let expected = fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    if let (Ok(bytes), Ok(expected)) = (std::str::from_utf8(bytes), std::str::from_utf8(&expected)) {
        assert_eq!(bytes, expected, "{file}");
    }
    let differs = bytes.iter().zip(&expected).position(|(a, b)| a != b);
    assert_eq!(differs, None, "{file}: first byte that differs");
    assert_eq!(bytes.len(), expected.len(), "{file}");
}

#[test]
fn the_photographs_have_the_bytes_of_the_first_release() {
    let ways: [(&str, &[&str]); 4] = [
        ("default", &["--shards", "3"]),
        ("by-size", &["--shard-size", "256KiB", "--seed", "7", "--name", "photos"]),
        ("content-json", &["--ext", "content", "--meta", "json", "--shard-samples", "10"]),
        ("source-bare", &["--order", "source", "--cls", "none", "--shards", "1", "--exclude", "textures/**"]),
    ];
    let mut lines = String::new();
    for (way, options) in ways {
        let bench = Bench::new();
        pack(&photos(), &bench.dst(), &[options, &["--sidecars", "none"]].concat()).code(0);
        let dataset = Dataset::read(&bench.dst());
        dataset.check_source(&photos());
        lines += &format!("# {way}: shardpack pack fixtures/photos DST {}\n", options.join(" "));
        lines += &format!("id {}\n", shardpack_format::hash::hex(&dataset.manifest.id.0));
        for (path, hash) in contents(&bench.dst()).into_iter().filter(|(_, hash)| !hash.is_empty()) {
            lines += &format!("{hash}  {}\n", path.display());
        }
    }
    check("photos.txt", lines.as_bytes());
}

#[test]
fn a_tiny_dataset_has_the_very_bytes_of_the_first_release() {
    let bench = Bench::new();
    // Headers that say what they are and how large, and then nothing: no image is decoded to be packed.
    let jpeg = b"\xff\xd8\xff\xc0\0\x0b\x08\0\x02\0\x03\x01\x01\x11\0\xff\xd9";
    let png = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\x05\0\0\0\x04\x08\x02\0\0\0";
    bench.file("ant/1.jpg", jpeg);
    bench.file("ant/deep/2.JPEG", &[jpeg.as_slice(), &[7; 495]].concat());
    bench.file("bee/3.jpg", png);
    bench.file("bee/4.ppm", b"P6 1 1 255\nabc");
    bench.file("bee/empty.jpg", b"");
    bench.file("bee/left-out.png", png);
    bench.file("bee/notes.txt", b"no image");
    bench.folder("cow");
    let options = ["--shards", "2", "--meta", "json", "--seed", "11", "--name", "tiny", "--on-bad", "skip"];
    bench.pack(&[&options[..], &["--exclude", "bee/left*", "--sidecars", "none"]].concat()).code(0);
    Dataset::read(&bench.dst()).check_source(&bench.src());
    let files: Vec<_> = contents(&bench.dst()).into_iter().filter(|(_, hash)| !hash.is_empty()).collect();
    assert_eq!(files.len(), 7);
    for (path, _) in files {
        let name = path.file_name().unwrap().to_str().unwrap();
        let bytes = fs::read(bench.dst().join(&path)).unwrap();
        assert!(bytes.len() <= 20 << 10, "{name}: {} bytes", bytes.len());
        check(&format!("tiny/{name}"), &bytes);
    }
}

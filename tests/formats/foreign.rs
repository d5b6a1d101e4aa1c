//! `verify` on tar shards of any writer without a manifest; `foreign_formats.rs` covers all formats.

use std::{fs, path::Path};

use shardpack_testing::{Bench, Ran, run};

fn verify(path: &Path) -> Ran {
    run(&["verify", path.to_str().unwrap(), "--quiet"])
}

/// A tar file with these members, from another writer. Members with the name of an image begin like an image.
fn tar(path: &Path, members: &[(&str, &[u8])]) {
    let mut builder = tar::Builder::new(fs::File::create(path).unwrap());
    for (name, bytes) in members {
        let is_image = name.ends_with(".jpg") || name.ends_with(".png");
        let bytes = [if is_image { &b"\xff\xd8\xff"[..] } else { b"" }, bytes].concat();
        let mut header = tar::Header::new_ustar();
        header.set_size(bytes.len() as u64);
        header.set_mode(0o644);
        header.set_entry_type(tar::EntryType::Regular);
        builder.append_data(&mut header, name, &*bytes).unwrap();
    }
    builder.finish().unwrap();
}

#[test]
fn tar_files_of_another_writer_are_right_one_by_one_and_as_a_folder() {
    let bench = Bench::new();
    for shard in ["0", "1"] {
        tar(
            &bench.src().join(format!("x-{shard}.tar")),
            &[
                (&format!("{shard}a.cls"), b"1"),
                (&format!("{shard}a.jpg"), b"one"),
                (&format!("{shard}b.cls"), b"2"),
                (&format!("{shard}b.jpg"), b"two"),
            ],
        );
    }
    verify(&bench.src()).code(0).says("4 samples in 2 shards");
    verify(&bench.src().join("x-0.tar")).code(0).says("2 samples in 1 shard");
}

#[test]
fn what_is_wrong_in_a_foreign_shard_is_named() {
    let good: [(&str, &[u8]); 4] = [("a.cls", b"1"), ("a.jpg", b"one"), ("b.cls", b"2"), ("b.jpg", b"two")];
    let cases: [(&str, &[(&str, &[u8])], &str); 3] = [
        (
            "a repeated key",
            &[good[0], good[1], good[2], good[3], ("a.cls", b"3"), ("a.jpg", b"x")],
            "the key is also earlier in this file",
        ),
        ("a missing component", &[good[0], good[1], good[2], good[3], ("c.cls", b"3")], "holds no image: there is cls"),
        (
            "a member that readers drop",
            &[good[0], good[1], ("noext", b"\xff\xd8\xff\xe0 an image")],
            "member \"noext\" is not read",
        ),
    ];
    // Images of two kinds are accepted.
    let bench = Bench::new();
    tar(&bench.src().join("x.tar"), &[good[0], good[1], ("b.cls", b"2"), ("b.png", b"two")]);
    verify(&bench.src().join("x.tar")).code(0);
    for (name, members, says) in cases {
        let bench = Bench::new();
        tar(&bench.src().join("x.tar"), members);
        let ran = verify(&bench.src().join("x.tar")).code(1);
        assert!(ran.stdout.contains(says), "{name}:\n{}", ran.stdout);
        let key = ran.stdout.contains("sample a") || ran.stdout.contains("sample c");
        assert!(key || name.starts_with("a member"), "{name}:\n{}", ran.stdout);
    }
}

#[test]
fn a_truncated_foreign_shard_is_found_at_every_cut() {
    let bench = Bench::new();
    let path = bench.src().join("x.tar");
    tar(&path, &[("a.cls", b"1"), ("a.jpg", &[7; 700]), ("b.cls", b"2"), ("b.jpg", b"two")]);
    let bytes = fs::read(&path).unwrap();
    for cut in (0..bytes.len() - 512).step_by(100) {
        fs::write(&path, &bytes[..cut]).unwrap();
        verify(&path).code(1).says("x.tar");
    }
}

#[test]
fn a_file_that_is_no_tar_is_said_to_be_none() {
    let bench = Bench::new();
    let path = bench.src().join("x.tar");
    fs::write(&path, vec![b'x'; 5000]).unwrap();
    verify(&path).code(1).says("byte");
    run(&["verify", "not/there"]).code(2).clean_error().says("no such file");
}

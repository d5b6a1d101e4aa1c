//! Checks the documentation against the program: the schema of the manifest, and the order in `docs/reference/order.md`.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use serde_json::{Value, json};
use shardpack_testing::{markdown, root};

fn shardpack() -> &'static str {
    env!("CARGO_BIN_EXE_shardpack")
}

fn schema() -> jsonschema::Validator {
    let text = fs::read(root().join("docs/reference/manifest.schema.json")).unwrap();
    let schema: Value = serde_json::from_slice(&text).unwrap();
    assert!(jsonschema::meta::is_valid(&schema), "the schema itself is not valid");
    jsonschema::validator_for(&schema).unwrap()
}

fn pack(source: &Path, dst: &Path, options: &[&str]) {
    let out = Command::new(shardpack()).arg("pack").arg(source).arg(dst).arg("--quiet").args(options).output().unwrap();
    assert!(out.status.success(), "pack {options:?}: {}", String::from_utf8_lossy(&out.stderr));
}

/// All manifests in `dst` and in its direct subfolders.
fn manifests(dst: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let below = fs::read_dir(dst).unwrap().map(|entry| entry.unwrap().path().join("manifest.json"));
    let mut files: Vec<PathBuf> = below.chain([dst.join("manifest.json")]).filter(|path| path.is_file()).collect();
    files.sort();
    files.into_iter().map(|path| (path.clone(), fs::read(path).unwrap())).collect()
}

fn copy_tree(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        match entry.file_type().unwrap().is_dir() {
            true => copy_tree(&entry.path(), &to.join(entry.file_name())),
            false => drop(fs::copy(entry.path(), to.join(entry.file_name())).unwrap()),
        }
    }
}

#[test]
fn every_manifest_that_pack_writes_fits_the_schema() {
    let (schema, photos) = (schema(), root().join("fixtures/photos"));
    let folder = tempfile::tempdir().unwrap();

    let splits = folder.path().join("splits");
    for split in ["train", "val"] {
        copy_tree(&photos, &splits.join(split));
    }
    fs::remove_dir_all(splits.join("val/space")).unwrap();
    fs::write(splits.join("train/notes.txt"), "not an image").unwrap();
    fs::write(splits.join("train/people/empty.jpg"), "").unwrap();

    let all = |format| match format {
        "tfrecord" => "dali,classes,labels",
        "recordio" => "idx,dali,lst,classes,labels",
        "mds" => "index,classes,labels",
        _ => "dali,wids,energon,timm,openclip,classes,labels,card,croissant",
    };
    let [webdataset, tfrecord, recordio, mds] = ["webdataset", "tfrecord", "recordio", "mds"].map(all);
    let runs: [(&Path, usize, &[&str]); 17] = [
        (&photos, 1, &[]),
        (&photos, 1, &["--shards", "5", "--seed", "18446744073709551615", "--name", "My_set-2"]),
        (&photos, 1, &["--order", "source", "--seed", "3", "--shard-samples", "9"]),
        (&photos, 1, &["--meta", "json", "--cls", "none", "--ext", "content"]),
        (&photos, 1, &["--compress", "zstd:19", "--shard-size", "200KiB", "--ext", "bin"]),
        (&photos, 1, &["--exclude", "**/cat*"]),
        (&splits, 2, &["--on-bad", "skip", "--meta", "json"]),
        (&photos, 1, &["--sidecars", webdataset, "--shards", "2"]),
        (&photos, 1, &["--sidecars", "none", "--ext", "png", "--cls", "none"]),
        (&photos, 1, &["--format", "tfrecord"]),
        (&photos, 1, &["--format", "tfrecord", "--sidecars", tfrecord, "--set", "label-offset=1", "--shards", "2"]),
        (&photos, 1, &["--format", "tfrecord", "--features", "image/class/label,image/format", "--sidecars", "none"]),
        (&photos, 1, &["--format", "recordio", "--sidecars", recordio, "--shards", "3"]),
        (&splits, 2, &["--format", "recordio", "--on-bad", "skip"]),
        (&photos, 1, &["--format", "mds", "--sidecars", mds, "--mds-encoding", "png", "--compress", "zstd:3"]),
        (&photos, 1, &["--format", "mds", "--set", "image-column=x", "--set", "label-column=y", "--set", "hashes="]),
        (
            &splits,
            2,
            &["--format", "mds", "--on-bad", "skip", "--set", "filename-column=", "--set", "hashes=md5,xxh128"],
        ),
    ];
    for (number, (source, expected, options)) in runs.into_iter().enumerate() {
        let dst = folder.path().join(number.to_string());
        pack(source, &dst, options);
        let found = manifests(&dst);
        assert_eq!(found.len(), expected, "{options:?}");
        for (path, bytes) in found {
            let manifest: Value = serde_json::from_slice(&bytes).unwrap();
            let errors: Vec<_> = schema.iter_errors(&manifest).map(|error| error.to_string()).collect();
            assert!(errors.is_empty(), "{} of {options:?}: {errors:?}", path.display());
            assert_eq!(id_by_the_rule(&bytes), manifest["id"], "{options:?}");
        }
    }
    for vector in ["mds-str", "parquet", "recordio", "tfrecord-int64", "webdataset"] {
        let dst = folder.path().join(vector);
        let source = root().join("fixtures/vectors").join(vector);
        let out = Command::new(shardpack()).arg("convert").arg(source).arg(&dst).arg("--quiet").output().unwrap();
        assert!(out.status.success(), "convert {vector}: {}", String::from_utf8_lossy(&out.stderr));
        for (_, bytes) in manifests(&dst) {
            let manifest: Value = serde_json::from_slice(&bytes).unwrap();
            let errors: Vec<_> = schema.iter_errors(&manifest).map(|error| error.to_string()).collect();
            assert!(errors.is_empty(), "{vector}: {errors:?}");
        }
    }
}

/// The id by docs/reference/manifest.md: BLAKE3 of the file with the 64 digits of the id replaced by zeros.
fn id_by_the_rule(bytes: &[u8]) -> String {
    let key = br#""id": ""#;
    let start = bytes.windows(key.len()).position(|window| window == key).unwrap() + key.len();
    let mut bytes = bytes.to_vec();
    bytes[start..start + 64].fill(b'0');
    blake3::hash(&bytes).to_hex().to_string()
}

#[test]
fn the_schema_refuses_what_the_reader_refuses() {
    let schema = schema();
    let folder = tempfile::tempdir().unwrap();
    let dst = folder.path().join("packed");
    pack(&root().join("fixtures/photos"), &dst, &["--shards", "2"]);
    let whole: Value = serde_json::from_slice(&fs::read(dst.join("manifest.json")).unwrap()).unwrap();
    assert!(schema.is_valid(&whole));

    // JSON pointer and new value; `None` removes the key.
    let changes: [(&str, &str, Option<Value>); 26] = [
        ("another schema", "/schema", Some(json!("shardpack-manifest/2"))),
        ("an extra key", "/extra", Some(json!(1))),
        ("an extra key in a shard", "/shards/0/extra", Some(json!(1))),
        ("an extra key in an index", "/shards/0/index/extra", Some(json!(1))),
        ("an extra key in the counts", "/ledger/counts/extra", Some(json!(1))),
        ("an extra key in a class", "/classes/0/extra", Some(json!(1))),
        ("a missing key", "/plan", None),
        ("a missing key in a shard", "/shards/0/bytes", None),
        ("a folder above", "/shards/0/file", Some(json!("../shard-000000.tar"))),
        ("an absolute name", "/shards/0/file", Some(json!("/etc/passwd"))),
        ("a hidden name", "/shards/0/file", Some(json!(".shard-000000.tar"))),
        ("an empty name", "/shards/0/file", Some(json!(""))),
        ("a backslash", "/shards/0/file", Some(json!("a\\b.tar"))),
        ("a control character", "/shards/0/file", Some(json!("a\u{7}b.tar"))),
        ("a name that is too long", "/shards/0/file", Some(json!("a".repeat(256)))),
        ("an index in a folder above", "/shards/0/index/file", Some(json!("index/../../x.index"))),
        ("an index outside its folder", "/shards/0/index/file", Some(json!("shard-000000.index"))),
        ("a ledger of another name", "/ledger/file", Some(json!({"file": "x", "bytes": 1, "blake3": "0".repeat(64)}))),
        ("a negative number", "/samples", Some(json!(-1))),
        ("a fraction", "/payload_bytes", Some(json!(1.5))),
        ("a number as text", "/shard_bytes", Some(json!("839680"))),
        ("a short hash", "/id", Some(json!("0".repeat(63)))),
        ("a hash in capitals", "/shards/0/blake3", Some(json!("A".repeat(64)))),
        ("no samples in a block", "/block_samples", Some(json!(0))),
        ("no components", "/components", Some(json!([]))),
        ("an unknown compression", "/format/compression", Some(json!("gzip"))),
    ];
    for (name, pointer, value) in changes {
        let mut manifest = whole.clone();
        let (parent, key) = pointer.rsplit_once('/').unwrap();
        let object = manifest.pointer_mut(parent).and_then(Value::as_object_mut).unwrap();
        match value {
            Some(value) => drop(object.insert(key.to_owned(), value)),
            None => drop(object.remove(key).unwrap()),
        }
        assert!(!schema.is_valid(&manifest), "{name}: the schema takes it");
        let bytes = serde_json::to_vec(&manifest).unwrap();
        let read = shardpack_format::manifest::Manifest::read(&bytes).and_then(|read| read.check_id(&bytes));
        assert!(read.is_err(), "{name}: the reader takes it");
    }
}

#[test]
fn the_order_of_the_documentation_is_the_order_of_a_pack() {
    let Some(python) = std::env::var_os("SHARDPACK_PYTHON") else {
        panic!("SHARDPACK_PYTHON is not set: run `cargo xtask test`, which sets up Python");
    };
    let out = Command::new(python)
        .arg(root().join("tests/peers/order.py"))
        .arg(root().join("docs/reference/order.md"))
        .arg(shardpack())
        .arg(root().join("fixtures/photos"))
        .output()
        .unwrap();
    let (stdout, stderr) = (String::from_utf8_lossy(&out.stdout), String::from_utf8_lossy(&out.stderr));
    assert!(out.status.success(), "{stdout}{stderr}");
}

#[test]
fn the_index_in_the_documentation_is_the_one_that_pack_writes() {
    let folder = tempfile::tempdir().unwrap();
    let (source, dst) = (folder.path().join("source"), folder.path().join("packed"));
    for (name, bytes) in [("cat/a.jpg", b"\xff\xd8\xffcat!".as_slice()), ("dog/b.jpg", b"\xff\xd8\xffdog!!")] {
        let path = source.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, bytes).unwrap();
    }
    pack(&source, &dst, &["--ext", "jpg"]);
    let expected = fs::read(dst.join("index/shard-000000.index")).unwrap();

    let page = fs::read_to_string(root().join("docs/reference/formats/index.md")).unwrap();
    let (_, dump) = page.split_once("## A real one").unwrap();
    let mut found = Vec::new();
    for line in dump.split("```").nth(1).unwrap().lines().filter(|line| !line.is_empty()) {
        // Address, then bytes in hexadecimal or text in quotes, then an explanation.
        let (address, rest) = line.split_once(' ').unwrap();
        assert_eq!(usize::from_str_radix(address, 16).unwrap(), found.len(), "{line}");
        let before = found.len();
        for token in rest.split_whitespace() {
            match token.strip_prefix('"').and_then(|text| text.strip_suffix('"')) {
                Some(text) if rest.starts_with(" \"") => found.extend(text.bytes()),
                None if token.len() == 2 => found.push(u8::from_str_radix(token, 16).unwrap()),
                _ => break,
            }
        }
        assert!(found.len() > before, "{line}");
    }
    assert_eq!(found, expected);
}

/// Each link between the pages leads to a file, and to a heading if the link has a fragment.
#[test]
fn every_relative_link_has_a_file() {
    // `cargo xtask docs` writes these pages.
    let generated = ["cli.md"];
    let mut pages = vec!["README.md", "CHANGELOG.md", "CONTRIBUTING.md"].into_iter().map(|p| root().join(p)).collect();
    markdown::below(&root().join("docs"), &mut pages);
    let mut missing = Vec::new();
    for page in &pages {
        let text = fs::read_to_string(page).unwrap();
        for link in text.split("](").skip(1).filter_map(|rest| rest.split(')').next()) {
            let (target, anchor) = link.split_once('#').map_or((link, None), |(target, anchor)| (target, Some(anchor)));
            if target.contains("://") || generated.iter().any(|file| target.ends_with(file)) {
                continue;
            }
            let target = if target.is_empty() { page.clone() } else { page.parent().unwrap().join(target) };
            let is_there = target.exists() && anchor.is_none_or(|anchor| anchors(&target).iter().any(|a| a == anchor));
            if !is_there {
                missing.push(format!("{}: {link}", page.strip_prefix(root()).unwrap().display()));
            }
        }
    }
    assert!(missing.is_empty(), "{missing:#?}");
}

/// Valid fragments for a page: its headings in GitHub's form, and its `<a id=…>`.
fn anchors(page: &Path) -> Vec<String> {
    let text = fs::read_to_string(page).unwrap();
    let headings = text.lines().filter(|line| line.starts_with('#')).map(|line| line.trim_start_matches('#').trim());
    let kept = |c: &char| c.is_alphanumeric() || [' ', '-', '_'].contains(c);
    let slugs = headings.map(|line| line.to_lowercase().chars().filter(kept).collect::<String>().replace(' ', "-"));
    let named = text.split("<a id=\"").skip(1).filter_map(|rest| rest.split('"').next());
    slugs.chain(named.map(str::to_owned)).collect()
}

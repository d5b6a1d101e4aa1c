//! `adopt`: shards of any writer become a dataset for the reader and `verify`, and no byte of the shards changes.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};

use shardpack_format::formats;
use shardpack_reader::Dataset;
use shardpack_testing::{Bench, Ran, images, jpeg, pack, photos, png, run, shards::Tar};

/// The photographs as shards of `format`, without any file that only shardpack writes.
fn foreign(bench: &Bench, format: &str, options: &[&str]) -> PathBuf {
    let dst = bench.at(&format!("foreign-{format}"));
    pack(&photos(), &dst, &[&["--format", format, "--shards", "3", "--quiet"], options].concat()).code(0);
    for file in ["manifest.json", "BLAKE3SUMS"] {
        fs::remove_file(dst.join(file)).unwrap();
    }
    fs::remove_dir_all(dst.join("index")).unwrap();
    let _ = fs::remove_dir_all(dst.join(".nv-meta"));
    let _ = fs::remove_file(dst.join("ledger.jsonl"));
    dst
}

fn adopt(folder: &Path, options: &[&str]) -> Ran {
    run(&[&["adopt", folder.to_str().unwrap()], options].concat())
}

fn verify(folder: &Path, options: &[&str]) -> Ran {
    run(&[&["verify", "--quiet", folder.to_str().unwrap()], options].concat())
}

fn files(folder: &Path) -> BTreeMap<String, Vec<u8>> {
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).filter(|path| path.is_file());
    entries.map(|path| (path.file_name().unwrap().to_str().unwrap().to_owned(), fs::read(path).unwrap())).collect()
}

#[test]
fn shards_of_every_format_are_served_as_they_are() {
    let bench = Bench::new();
    pack(&photos(), &bench.dst(), &["--quiet"]).code(0);
    let expected = images(&bench.dst());
    for format in formats::ALL.iter().map(|entry| entry.name) {
        let folder = foreign(&bench, format, &[]);
        let before = files(&folder);
        adopt(&folder, &[]).code(0);
        let after = files(&folder);
        assert!(before.iter().all(|(name, bytes)| after.get(name) == Some(bytes)), "{format}: a file was changed");
        let more: Vec<_> = after.keys().filter(|name| !before.contains_key(*name)).collect();
        assert_eq!(more, ["BLAKE3SUMS", "manifest.json"], "{format}");
        assert!(!folder.join(".shardpack").exists());
        assert_eq!(images(&folder), expected, "{format}");
        verify(&folder, &["--decode"]).code(0);
        verify(&folder, &["--against", folder.to_str().unwrap()]).code(0);
        // Random access by key.
        let dataset = Dataset::open(&folder).unwrap();
        for number in [0, 7, 31] {
            let key = dataset.row(number).unwrap().key.to_vec();
            assert_eq!(dataset.find(&key).unwrap(), Some(number), "{format}");
        }
        let again = adopt(&folder, &[]).code(2);
        assert!(again.stderr.contains("manifest.json exists already"), "{}", again.stderr);
        let id = fs::read_to_string(folder.join("manifest.json")).unwrap();
        adopt(&folder, &["--force"]).code(0);
        assert_eq!(
            fs::read_to_string(folder.join("manifest.json")).unwrap(),
            id,
            "{format}: adopted twice, it is the same"
        );
    }
}

#[test]
fn every_flipped_byte_is_found_and_has_a_sample() {
    let bench = Bench::new();
    for format in formats::ALL.iter().map(|entry| entry.name) {
        let folder = foreign(&bench, format, &["--include", "textures/*"]);
        adopt(&folder, &[]).code(0);
        let dataset = Dataset::open(&folder).unwrap();
        let shard = folder.join(&dataset.manifest().shards[1].file);
        let bytes = fs::read(&shard).unwrap();
        for at in (0..bytes.len()).step_by(bytes.len() / 9).chain([bytes.len() - 1]) {
            let mut wrong = bytes.clone();
            wrong[at] ^= 0x10;
            fs::write(&shard, wrong).unwrap();
            let said = verify(&folder, &["--json"]).code(1);
            let said: serde_json::Value = serde_json::from_str(&said.stdout).unwrap();
            assert_eq!(said["damaged_samples"], 1, "{format}, byte {at}: {said}");
            assert!(said["problems"][0]["path"].is_string(), "{format}, byte {at}: {said}");
        }
        fs::write(&shard, &bytes).unwrap();
        verify(&folder, &[]).code(0);
        // The manifest covers the sidecars too.
        if let Some(name) = dataset.manifest().sidecars.first().map(|file| file.file.clone()) {
            fs::write(folder.join(&name), b"other").unwrap();
            assert!(verify(&folder, &[]).code(1).stdout.contains(&name), "{format}");
        }
    }
}

#[test]
fn what_cannot_be_adopted_is_refused_before_anything_is_written() {
    let bench = Bench::new();
    let folder = foreign(&bench, "webdataset", &[]);
    let before = files(&folder);
    fs::create_dir(folder.join("more")).unwrap();
    let said = adopt(&folder, &[]).code(2);
    assert!(said.stderr.contains("\"more\" is beside the shards"), "{}", said.stderr);
    fs::remove_dir(folder.join("more")).unwrap();
    assert_eq!(files(&folder), before);
    assert!(!folder.join("manifest.json").exists() && !folder.join(".shardpack").exists());

    let other = foreign(&bench, "recordio", &[]);
    fs::copy(other.join("shard-000000.rec"), folder.join("x.rec")).unwrap();
    assert!(adopt(&folder, &[]).code(2).stderr.contains("is recordio, others are webdataset"));
    fs::remove_file(folder.join("x.rec")).unwrap();

    let tar = fs::read(folder.join("shard-000000.tar")).unwrap();
    fs::write(folder.join("z.tar.zst"), zstd::bulk::compress(&tar, 1).unwrap()).unwrap();
    assert!(adopt(&folder, &[]).code(2).stderr.contains("compressed with zstd"));
    fs::remove_file(folder.join("z.tar.zst")).unwrap();
    adopt(&folder, &[]).code(0);

    let values = bench.at("values");
    fs::create_dir(&values).unwrap();
    let mut tar = tar::Builder::new(fs::File::create(values.join("a.tar")).unwrap());
    tar.append_path_with_name("Cargo.toml", "0.txt").unwrap();
    tar.finish().unwrap();
    assert!(adopt(&values, &[]).code(2).stderr.contains("samples without images, which are not adopted"));
    assert!(!values.join(".shardpack").exists());
}

#[test]
fn shards_of_several_splits_are_not_adopted_as_one_dataset() {
    let bench = Bench::new();
    let folder = foreign(&bench, "webdataset", &[]);
    let tar = |number| folder.join(format!("shard-00000{number}.tar"));
    fs::remove_file(tar(2)).unwrap();
    for (number, name) in ["train", "test"].iter().enumerate() {
        fs::rename(tar(number), folder.join(format!("{name}-000000.tar"))).unwrap();
    }
    let said = adopt(&folder, &[]).code(2).clean_error().says("of several splits by their names: test, train");
    said.says("move the shards of each split into a folder of their own");
    assert!(!folder.join("manifest.json").exists() && !folder.join(".shardpack").exists());
    // Both actions of the help line work.
    let dst = bench.at("splits");
    run(&["convert", folder.to_str().unwrap(), dst.to_str().unwrap(), "--quiet"]).code(0);
    assert!(dst.join("train/manifest.json").exists() && dst.join("test/manifest.json").exists());
    let test = bench.at("test");
    fs::create_dir(&test).unwrap();
    fs::rename(folder.join("test-000000.tar"), test.join("test-000000.tar")).unwrap();
    adopt(&folder, &[]).code(0);
    adopt(&test, &[]).code(0);
}

/// An array of float32 of shape (`rows`, 2) as `.npy`.
fn npy(rows: usize) -> Vec<u8> {
    let head = format!("{{'descr': '<f4', 'fortran_order': False, 'shape': ({rows}, 2), }}");
    let head = format!("{head:<117}\n");
    let items = (0..rows * 2).flat_map(|item| (item as f32).to_le_bytes());
    [b"\x93NUMPY\x01\x00\x76\x00", head.as_bytes(), &items.collect::<Vec<_>>()].concat()
}

/// A shard of images with a label, a text that one lacks, a mask, JSON and boxes, and the contents beside the image by key and name.
fn with_components(folder: &Path) -> BTreeMap<(String, String), Vec<u8>> {
    fs::create_dir(folder).unwrap();
    let (mut tar, mut beside) = (Tar::new(), BTreeMap::new());
    for number in 0..4_usize {
        let mut add = |name: &str, bytes: &[u8], tar: Tar| {
            if !["cls", "jpg"].contains(&name) {
                beside.insert((number.to_string(), name.to_owned()), bytes.to_vec());
            }
            tar.file(&format!("{number}.{name}"), bytes)
        };
        tar = add("cls", number.to_string().as_bytes(), tar);
        tar = add("jpg", &jpeg(number as u64, 5000), tar);
        tar = add("mask.png", &png(), tar);
        tar = add("json", format!("{{\"n\": {number}}}").as_bytes(), tar);
        tar = add("boxes.npy", &npy(number), tar);
        if number != 2 {
            tar = add("txt", format!("caption {number}").as_bytes(), tar);
        }
    }
    fs::write(folder.join("a.tar"), tar.bytes()).unwrap();
    beside
}

/// The contents beside the images of a dataset by number and name.
fn contents_beside(folder: &Path) -> BTreeMap<(String, String), Vec<u8>> {
    let dataset = Dataset::open(folder).unwrap();
    let mut found = BTreeMap::new();
    for number in 0..dataset.len() {
        let sample = dataset.sample(number).unwrap();
        for (at, name) in dataset.manifest().components.iter().enumerate().skip(1).filter(|(_, name)| *name != "cls") {
            let Some(content) = sample.content(at).unwrap() else { continue };
            found.insert((number.to_string(), name.clone()), content.into_owned());
        }
    }
    found
}

#[test]
fn components_of_adopted_tars_are_read_and_checked() {
    let bench = Bench::new();
    let folder = bench.at("shards");
    let beside = with_components(&folder);
    adopt(&folder, &["--image-feature", "jpg"]).code(0);
    verify(&folder, &["--decode"]).code(0);
    assert_eq!(contents_beside(&folder), beside);
    // `convert` of the dataset takes them, too.
    let packed = bench.at("packed");
    let paths = [&folder, &packed].map(|path| path.to_str().unwrap().to_owned());
    run(&["convert", &paths[0], &paths[1], "--order", "source", "--quiet"]).code(0);
    assert_eq!(contents_beside(&packed), beside);
    // A changed byte of a component is found, and its name.
    let bytes = fs::read(folder.join("a.tar")).unwrap();
    for (text, component) in [(&b"caption 3"[..], "txt"), (b"{\"n\": 1}", "json"), (b"'shape': (3", "boxes.npy")] {
        let at = bytes.windows(text.len()).position(|window| window == text).unwrap();
        let mut damaged = bytes.clone();
        damaged[at + 2] ^= 1;
        fs::write(folder.join("a.tar"), &damaged).unwrap();
        verify(&folder, &[]).code(1).says(&format!("hash of component {component} differs"));
    }
}

#[test]
fn of_fields_with_one_component_name_the_same_is_taken_as_by_convert() {
    let bench = Bench::new();
    let folder = bench.at("shards");
    fs::create_dir(&folder).unwrap();
    let mut tar = Tar::new();
    for number in 0..4_usize {
        tar = tar.file(&format!("{number}.jpg"), &jpeg(number as u64, 5000));
        let mut fields = [("en-us.txt", "us"), ("en_us.txt", "US")];
        fields.rotate_left(number % 2);
        for (name, text) in fields {
            tar = tar.file(&format!("{number}.{name}"), format!("{text} {number}").as_bytes());
        }
    }
    fs::write(folder.join("a.tar"), tar.bytes()).unwrap();
    let packed = bench.at("packed");
    let paths = [&folder, &packed].map(|path| path.to_str().unwrap().to_owned());
    run(&["convert", &paths[0], &paths[1], "--order", "source", "--quiet"]).code(0);
    adopt(&folder, &[]).code(0);
    assert_eq!(contents_beside(&folder), contents_beside(&packed));
}

#[test]
fn more_fields_than_a_sample_has_room_for_are_counted_and_records_that_are_no_samples_are_not() {
    let bench = Bench::new();
    let shards = |name: &str, members: &[(String, Vec<u8>)]| {
        let folder = bench.at(name);
        fs::create_dir(&folder).unwrap();
        let tar = members.iter().fold(Tar::new(), |tar, (name, bytes)| tar.file(name, bytes));
        fs::write(folder.join("a.tar"), tar.bytes()).unwrap();
        folder
    };
    let mut members = vec![("0.jpg".to_owned(), jpeg(0, 5000))];
    members.extend((0..70).map(|number| (format!("0.n{number:02}.txt"), b"text".to_vec())));
    let many = shards("many", &members);
    adopt(&many, &[]).code(0).says("1 component n69.txt: not in the index");
    verify(&many, &[]).code(0);
    let text = |name: &str| (name.to_owned(), b"text".to_vec());
    let members =
        [("0.jpg".to_owned(), jpeg(0, 5000)), text("0.txt"), ("1.jpg".to_owned(), b"no image".to_vec()), text("1.txt")];
    let bad = shards("bad", &members);
    let ran = adopt(&bad, &["--on-bad", "skip"]).code(0);
    assert!(!ran.stdout.contains("component txt"), "{}", ran.stdout);
}

#[test]
fn what_the_index_of_adopted_shards_leaves_out_is_counted_when_they_are_converted() {
    let bench = Bench::with(&["1.jpg", "2.jpg", "3.jpg"]);
    bench.file("list.csv", b"path,label,score\n1.jpg,0,0.5\n2.jpg,1,0.25\n3.jpg,0,0.125\n");
    let folder = bench.at("shards");
    let list = bench.src().join("list.csv");
    let packed = [list.to_str().unwrap(), folder.to_str().unwrap()];
    run(&["pack", packed[0], packed[1], "--target", "score", "--format", "mds", "--quiet"]).code(0);
    ["manifest.json", "BLAKE3SUMS"].iter().for_each(|file| fs::remove_file(folder.join(file)).unwrap());
    fs::remove_dir_all(folder.join("index")).unwrap();
    // A number of MDS is made from its bytes.
    adopt(&folder, &[]).code(0).says("3 component score: not in the index");
    let convert = |to: &str, options: &[&str]| {
        run(&[&["convert", folder.to_str().unwrap(), bench.at(to).to_str().unwrap(), "--json"], options].concat())
    };
    let said = convert("without", &[]).code(0).json();
    assert_eq!(said["ignored_files"]["component score"], 3, "{said}");
    assert!(said["notes"].to_string().contains("left behind: score, which adopt left out of its index"), "{said}");
    // The note's advice works.
    assert!(said["notes"].to_string().contains("convert --from mds takes the shards with them"), "{said}");
    convert("with", &["--from", "mds"]).code(0);
    let names = shardpack_testing::members(&bench.at("with").join("shard-000000.tar"));
    assert!(names.iter().any(|(name, _)| name.contains("score")), "{names:?}");
}

#[test]
fn records_that_are_no_samples_are_named_or_left_out() {
    let bench = Bench::new();
    let folder = bench.at("shards");
    fs::create_dir(&folder).unwrap();
    let mut tar = tar::Builder::new(fs::File::create(folder.join("a.tar")).unwrap());
    let mut add = |name: &str, bytes: &[u8]| {
        let mut header = tar::Header::new_ustar();
        header.set_size(bytes.len() as u64);
        header.set_mode(0o644);
        tar.append_data(&mut header, name, bytes).unwrap();
    };
    for (key, label) in [("0", "3"), ("1", ""), ("2", "5")] {
        add(&format!("{key}.cls"), label.as_bytes());
        add(&format!("{key}.jpg"), &jpeg(1, 5000));
        add(&format!("{key}.txt"), b"a caption");
    }
    add("3.txt", b"a caption alone");
    tar.finish().unwrap();
    drop(tar);

    let said = adopt(&folder, &[]).code(1);
    assert!(said.stdout.contains("a.tar/1.jpg: no label (a.tar, byte "), "{}", said.stdout);
    assert!(said.stdout.contains("no image, there is txt"), "{}", said.stdout);
    assert!(!folder.join("manifest.json").exists());

    adopt(&folder, &["--on-bad", "skip"]).code(0);
    verify(&folder, &[]).code(0);
    let dataset = Dataset::open(&folder).unwrap();
    let counts = dataset.manifest().ledger.counts;
    assert_eq!((counts.discovered, counts.packed, counts.skipped), (4, 2, 2));
    assert_eq!(dataset.classes().len(), 6);
    assert_eq!(images(&folder), [(3, jpeg(1, 5000)), (5, jpeg(1, 5000))]);
    // `verify` also finds a changed byte in a component that `adopt` left out.
    let path = folder.join("a.tar");
    let mut bytes = fs::read(&path).unwrap();
    let at = bytes.windows(9).position(|window| window == b"caption a").unwrap();
    bytes[at] ^= 1;
    fs::write(&path, bytes).unwrap();
    assert!(verify(&folder, &[]).code(1).stdout.contains("1 of 2 samples damaged"));
}

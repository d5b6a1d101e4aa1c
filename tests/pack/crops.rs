//! `shardpack crops`: the crop tables change no other file of the dataset, are identical for any number of threads, and are
//! checked and repaired like the other files.

use std::{
    fs,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
};

use shardpack_packer::imaging::{
    Limits,
    crops::{Decoder, NoTable, Rect, RegionRequest, Way},
};
use shardpack_reader::Dataset;
use shardpack_testing::{Bench, Ran, contents, photos, run};

fn crops(dst: &Path, options: &[&str]) -> Ran {
    let mut args = vec!["crops", dst.to_str().unwrap()];
    args.extend(options);
    run(&args)
}

fn verify(dst: &Path, options: &[&str]) -> Ran {
    let mut args = vec!["verify", dst.to_str().unwrap()];
    args.extend(options);
    run(&args)
}

/// The files of crop tables, with their bytes.
fn files(dst: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let all = contents(dst).into_keys();
    let tables = all.filter(|path| path.extension().is_some_and(|extension| extension == "crops"));
    tables.map(|path| (path.clone(), fs::read(dst.join(&path)).unwrap())).collect()
}

/// The photographs in three shards.
fn packed() -> Bench {
    let bench = Bench::new();
    let (photos, dst) = (photos(), bench.dst());
    let [photos, dst] = [&photos, &dst].map(|path| path.to_str().unwrap());
    run(&["pack", photos, dst, "--shards", "3"]).code(0);
    bench
}

#[test]
fn tables_come_beside_the_indexes_and_change_nothing_else() {
    let bench = packed();
    let dst = bench.dst();
    let before = contents(&dst);
    let json = crops(&dst, &["--json", "--jobs", "1"]).code(0).json();
    let made = files(&dst);
    assert_eq!(made.len(), 3);
    assert_eq!((json["shards"].as_u64(), json["kept_shards"].as_u64()), (Some(3), Some(0)));
    assert!(json["tables"].as_u64().unwrap() > 15, "{json}");
    assert!(
        json["without"]["progressive"].as_u64().unwrap() > 0 && json["without"]["not a JPEG"].as_u64().unwrap() > 0
    );
    let after: Vec<_> =
        contents(&dst).into_iter().filter(|(path, _)| path.extension().is_none_or(|e| e != "crops")).collect();
    assert_eq!(before.into_iter().collect::<Vec<_>>(), after);
    verify(&dst, &[]).code(0);

    // Any number of threads gives the same files, and existing files are kept.
    let inode = |file: &Path| fs::metadata(dst.join(file)).unwrap().ino();
    let inodes: Vec<u64> = made.iter().map(|(file, _)| inode(file)).collect();
    let json = crops(&dst, &["--json"]).code(0).json();
    assert_eq!(json["kept_shards"], 3);
    assert_eq!(made.iter().map(|(file, _)| inode(file)).collect::<Vec<_>>(), inodes);
    for jobs in ["2", "7"] {
        crops(&dst, &["--force", "--jobs", jobs]).code(0);
        assert!(files(&dst) == made, "{jobs} threads");
    }
    // Another `--every` gives other tables.
    crops(&dst, &["--every", "4"]).code(0);
    assert!(files(&dst) != made);
    crops(&dst, &[]).code(0);
    assert!(files(&dst) == made);

    // The partial file of an interrupted run is accepted, and does not count as a table.
    let left = dst.join("index").join("shard-000001.crops.part");
    fs::rename(dst.join(&made[1].0), &left).unwrap();
    verify(&dst, &[]).code(0);
    let json = crops(&dst, &["--json"]).code(0).json();
    assert_eq!(json["kept_shards"], 2);
    assert!(files(&dst) == made && !left.exists());
}

#[test]
fn a_loader_gets_each_image_its_own_table() {
    let bench = packed();
    crops(&bench.dst(), &[]).code(0);
    let dataset = Dataset::open(bench.dst()).unwrap();
    let mut decoder = Decoder::new(Limits::default());
    let (mut pixels, mut by_table) = (Vec::new(), 0);
    for shard in dataset.shards() {
        for row in 0..shard.len() {
            let sample = dataset.sample(shard.samples().start + row).unwrap();
            match shard.crop_table(row).unwrap().unwrap() {
                Ok(table) => {
                    let image = sample.image();
                    let rect = Rect { x: image.width / 2, y: image.height / 2, width: 20, height: 20 };
                    let wanted = RegionRequest { rect, reduce_by: 1, padded: false };
                    let region = decoder.region(sample.bytes(), Some(table), &wanted, &mut pixels).unwrap();
                    assert_eq!(region.way, Way::Table);
                    by_table += 1;
                }
                Err(code) => assert!(NoTable::of_code(code).is_some_and(|why| !why.is_damage())),
            }
        }
    }
    assert!(by_table > 15);
}

#[test]
fn wrong_tables_are_found_and_mended() {
    let bench = packed();
    let dst = bench.dst();
    crops(&dst, &["--every", "4"]).code(0);
    let made = files(&dst);
    let (first, second) = (&made[0], &made[1]);
    type Change = fn(&mut Vec<u8>, &[u8]);
    let rows: [(&str, bool, Change); 6] = [
        ("a flipped bit of a table", false, |bytes, _| {
            let at = bytes.len() / 2;
            bytes[at] ^= 4;
        }),
        ("a flipped bit of the header", true, |bytes, _| bytes[20] ^= 1),
        ("cut", true, |bytes, _| bytes.truncate(bytes.len() - 1)),
        ("empty", true, |bytes, _| bytes.clear()),
        ("of another shard", true, |bytes, other| *bytes = other.to_vec()),
        ("another kind of file", true, |bytes, _| *bytes = b"crops".repeat(50)),
    ];
    for (name, is_quick, change) in rows {
        let mut bytes = first.1.clone();
        change(&mut bytes, &second.1);
        fs::write(dst.join(&first.0), bytes).unwrap();
        let found = verify(&dst, &["--json"]).code(1).json();
        let problems = found["problems"].as_array().unwrap();
        assert_eq!(problems.len(), 1, "{name}: {found}");
        assert_eq!(problems[0]["file"].as_str().unwrap(), first.0.to_str().unwrap(), "{name}");
        verify(&dst, &["--quick"]).code(i32::from(is_quick));
        // Only --repair needs a source; this repair reads no image from it.
        verify(&dst, &["--repair", photos().to_str().unwrap()]).code(0);
        assert!(files(&dst) == made, "{name}");
        fs::write(dst.join(&first.0), b"").unwrap();
        crops(&dst, &["--every", "4"]).code(0);
        assert!(files(&dst) == made, "{name}");
    }
}

#[test]
fn damaged_images_and_shards_are_named() {
    let bench = Bench::new();
    let photo = fs::read(photos().join("animals/cat.jpg")).unwrap();
    bench.file("a/whole.jpg", &photo);
    // The end marker is present, but codes before it are missing.
    bench.file("a/cut.jpg", &[&photo[..photo.len() / 2], &[0xFF, 0xD9]].concat());
    bench.pack(&["--shards", "1"]).code(0);
    let ran = crops(&bench.dst(), &[]).code(1);
    ran.says("(a/cut.jpg): byte ").says("truncated");
    let json = crops(&bench.dst(), &["--json"]).code(1).json();
    assert_eq!((json["tables"].as_u64(), json["kept_shards"].as_u64()), (Some(1), Some(1)));
    assert_eq!(json["damaged"][0]["path"], "a/cut.jpg");
    verify(&bench.dst(), &[]).code(0);

    // A shard that was changed after its seal gets no tables.
    let bench = packed();
    let shard = bench.dst().join("shard-000001.tar");
    let mut bytes = fs::read(&shard).unwrap();
    bytes[3000] ^= 1;
    fs::write(&shard, bytes).unwrap();
    let json = crops(&bench.dst(), &["--json"]).code(1).json();
    assert_eq!((json["shards"].as_u64(), files(&bench.dst()).len()), (Some(2), 2));
    assert_eq!(json["failed"][0]["shard"], "shard-000001.tar");
}

#[test]
fn a_dataset_with_tables_is_replaced_and_converted_like_any() {
    let bench = packed();
    let dst = bench.dst();
    crops(&dst, &[]).code(0);
    let (photos, other) = (photos(), bench.at("other"));
    let [photos, dst_text, other] = [&photos, &dst, &other].map(|path| path.to_str().unwrap());
    run(&["convert", dst_text, other, "--format", "mds"]).code(0);
    run(&["inspect", dst_text]).code(0);
    assert!(files(Path::new(other)).is_empty());
    crops(Path::new(other), &[]).code(0);
    verify(Path::new(other), &[]).code(0);
    run(&["pack", photos, dst_text, "--shards", "2", "--force"]).code(0);
    assert!(files(&dst).is_empty());
    crops(&dst, &[]).code(0);
    verify(&dst, &[]).code(0);
}

#[test]
fn pack_and_convert_make_the_same_tables_when_they_are_asked_to() {
    let bench = packed();
    crops(&bench.dst(), &[]).code(0);
    let expected = files(&bench.dst());
    let photos = photos();
    let (with, anew, both) = (bench.at("with"), bench.at("anew"), bench.at("both"));
    let [photos, with, anew, both] = [&photos, &with, &anew, &both].map(|path| path.to_str().unwrap());
    let said = run(&["pack", photos, with, "--shards", "3", "--crops"]).code(0).says("crops   tables of");
    assert!(said.stdout.contains("packed  32 of 32"));
    assert!(files(Path::new(with)) == expected);
    // The same command finds everything done; if one file is missing, it writes only this file.
    let inode = |file: &Path| fs::metadata(Path::new(with).join(file)).unwrap().ino();
    let kept = inode(&expected[1].0);
    fs::remove_file(Path::new(with).join(&expected[0].0)).unwrap();
    run(&["pack", photos, with, "--shards", "3", "--crops"]).code(0).says("of 2 of 3 shards already existed");
    assert!(files(Path::new(with)) == expected && inode(&expected[1].0) == kept);
    run(&["verify", with]).code(0);
    let json = run(&["convert", with, anew, "--format", "mds", "--crops", "--json"]).code(0).json();
    assert_eq!(json["crops"]["tables"], crops(Path::new(with), &["--json"]).json()["tables"]);
    let json = run(&["pack", photos, both, "--format", "tfrecord", "--format", "recordio", "--crops", "--json"])
        .code(0)
        .json();
    for number in 0..2 {
        assert!(json["formats"][number]["crops"]["tables"].as_u64().unwrap() > 15, "{json}");
    }
    run(&["verify", both]).code(0);
}

#[test]
fn a_damaged_image_is_packed_named_and_no_success() {
    let bench = Bench::new();
    let photo = shardpack_testing::photo();
    bench.file("cats/whole.jpg", &photo);
    bench.file("cats/cut.jpg", &photo[..photo.len() / 2]);
    let (src, dst) = (bench.src(), bench.dst());
    let [src, dst] = [&src, &dst].map(|path| path.to_str().unwrap());
    run(&["pack", src, dst, "--crops"]).code(1).says("cut.jpg").says("packed  2 of 2").says("1 damaged");
    // The damaged image was packed unchanged, so `verify` accepts it; only `--crops` detects the damage.
    run(&["verify", dst]).code(0);
}

#[test]
fn inspect_tells_how_many_images_have_tables_and_why_others_have_none() {
    let bench = packed();
    let dst = bench.dst();
    let inspect = |options: &[&str]| run(&[&["inspect", dst.to_str().unwrap()], options].concat());
    let json = |options: &[&str]| inspect(&[options, &["--json"]].concat()).code(0).json()["datasets"][0].clone();
    assert!(json(&[])["crops"].is_null());
    assert!(!inspect(&[]).code(0).stdout.contains("crops "));

    let made = crops(&dst, &["--json"]).code(0).json();
    let crops_json = json(&[])["crops"].clone();
    for name in ["tables", "samples", "shards", "without"] {
        assert_eq!(crops_json[name], made[name], "{name}");
    }
    let bytes: usize = files(&dst).iter().map(|(_, bytes)| bytes.len()).sum();
    assert_eq!(crops_json["bytes"].as_u64(), Some(bytes as u64));
    assert_eq!((&crops_json["every"], &crops_json["damaged"]), (&serde_json::json!([8]), &serde_json::json!({})));
    let tables = made["tables"].as_u64().unwrap();
    let text = inspect(&[]).code(0).says(&format!("crops   {tables} of 32 samples have tables ("));
    text.says("; an entry every 8 MCUs;").says(" of the images\n").says("        without: ");

    // One shard without tables, one with another `--every`.
    let all = files(&dst);
    crops(&dst, &["--every", "3"]).code(0);
    fs::write(dst.join(&all[0].0), &all[0].1).unwrap();
    fs::remove_file(dst.join(&all[1].0)).unwrap();
    let part = json(&[])["crops"].clone();
    assert_eq!((part["shards"].as_u64(), &part["every"]), (Some(2), &serde_json::json!([3, 8])));
    assert!(part["tables"].as_u64().unwrap() < tables);
    inspect(&[]).code(0).says("every 3, 8 MCUs").says("in 2 of 3 shards only (shardpack crops makes the others)");

    // Wrong tables are reported as one problem, and are not counted.
    fs::write(dst.join(&all[0].0), &all[2].1).unwrap();
    let ran = inspect(&["--json"]).code(1).json();
    assert_eq!(ran["problems"].as_array().unwrap().len(), 1, "{ran}");
    assert_eq!(ran["datasets"][0]["crops"]["shards"], 1);
}

#[test]
fn inspect_counts_damaged_images_and_sums_up_splits() {
    let bench = Bench::new();
    let photo = fs::read(photos().join("animals/cat.jpg")).unwrap();
    bench.file("train/a/whole.jpg", &photo);
    bench.file("train/a/cut.jpg", &[&photo[..photo.len() / 2], &[0xFF, 0xD9]].concat());
    bench.file("val/a/other.jpg", &photo[..]);
    bench.pack(&[]).code(0);
    crops(&bench.dst(), &[]).code(1);
    let ran = run(&["inspect", bench.dst().to_str().unwrap(), "--json"]).code(0).json();
    assert_eq!(ran["datasets"].as_array().unwrap().len(), 2);
    assert_eq!(ran["datasets"][0]["crops"]["damaged"], serde_json::json!({"truncated": 1}));
    run(&["inspect", bench.dst().to_str().unwrap()])
        .code(0)
        .says("crops   2 of 3 samples have tables (66.7 %)")
        .says("        damaged: 1 truncated\n");
}

#[test]
fn tables_of_shards_that_are_adopted_anew_are_kept_where_they_fit() {
    let bench = packed();
    let dst = bench.dst();
    let adopt = |options: &[&str]| run(&[&["adopt", dst.to_str().unwrap(), "--force"], options].concat());
    crops(&dst, &["--every", "5"]).code(0);
    fs::remove_dir_all(dst.join(".nv-meta")).unwrap();
    // Indexes, names and id differ; the images are the same.
    let json = adopt(&["--json"]).code(0).json();
    assert_eq!(json["crops"], serde_json::json!({"kept_shards": 3, "removed": []}));
    let kept = files(&dst);
    assert_eq!(kept.len(), 3);
    verify(&dst, &[]).code(0);
    assert_eq!(crops(&dst, &["--every", "5", "--json"]).code(0).json()["kept_shards"], 3);
    crops(&dst, &["--every", "5", "--force"]).code(0);
    assert!(files(&dst) == kept, "made anew they are other tables");

    // One damaged file, one for a shard that is not here, and one that is no table.
    let mut bytes = kept[0].1.clone();
    let at = bytes.len() / 2;
    bytes[at] ^= 1;
    fs::write(dst.join(&kept[0].0), bytes).unwrap();
    fs::write(dst.join("index/more.crops"), b"nothing").unwrap();
    let mut other = kept[1].1.clone();
    other[40] ^= 1;
    let checksum = shardpack_format::hash::block(&other[..96]).to_le_bytes();
    other[96..104].copy_from_slice(&checksum);
    fs::write(dst.join("index/other.crops"), other).unwrap();
    let ran = adopt(&["--name", "again"]).code(0).says("crops   the existing tables of 2 shards match");
    let ran = ran.says("index/more.crops: removed: ").says("index/other.crops: removed: crop tables of another shard");
    ran.says(&format!("{}: removed: ", kept[0].0.display()));
    assert_eq!(files(&dst).len(), 2);
    verify(&dst, &[]).code(0);
    // Without tables, `adopt` prints no line about them.
    fs::remove_dir_all(dst.join("index")).unwrap();
    assert!(!adopt(&[]).code(0).stdout.contains("crops "));
}

//! `shardpack bench`: checks that each reported number matches the data that was delivered.

use std::{collections::BTreeMap, path::Path, time::Duration};

use shardpack_loader::{
    Dataset, Form, Loader, Options, Output, Stats, StoreSettings, Values,
    measure::{Crops, Request, measure},
    training::{self, Cut, Size, Transform},
};
use shardpack_testing::{Bench, photos, run};

/// A row ends with its epoch. The limit is far above the time of an epoch here, even on a busy machine.
fn bench(dst: &Path, options: &[&str]) -> shardpack_testing::Ran {
    run(&[&["bench", dst.to_str().unwrap(), "--seconds", "600"][..], options].concat())
}

#[test]
fn rates_waits_and_order_are_told_for_photographs() {
    let bench_folder = Bench::new();
    let dst = bench_folder.at("packed");
    run(&["pack", photos().to_str().unwrap(), dst.to_str().unwrap(), "--quiet"]).code(0);
    let said = bench(&dst, &["--crop", "24", "--batch", "4"]).code(0);
    for word in ["plain", "raw", "decode", "crops", "waits", "order", "memory"] {
        assert!(said.stdout.lines().any(|line| line.starts_with(word)), "{word}: {}", said.stdout);
    }
    let json = bench(&dst, &["--crop", "24", "--batch", "4", "--json", "--quiet"]).code(0).json();
    let found = &json["datasets"][0];
    assert_eq!(found["crops"]["samples"], found["samples"]);
    assert_eq!(found["waits"]["batches"], 8);
    // All but two of the photographs are JPEGs. None has a table at first; after `crops`, none is reported without one.
    assert_eq!((&found["without_tables"], &found["by_table"]), (&30.into(), &0.into()));
    let said = said
        .says(&format!("advice  30 of 32 images had no crop table: shardpack crops {}, about × 1.3", dst.display()));
    run(&["crops", dst.to_str().unwrap(), "--quiet"]).code(0);
    let with = bench(&dst, &["--crop", "24", "--json", "--quiet"]).code(0).json();
    assert_eq!(with["datasets"][0]["without_tables"], 0);
    assert_eq!(with["datasets"][0]["made"], with["datasets"][0]["samples"]);
    assert!(with["datasets"][0]["by_table"].as_u64().unwrap() > 15, "{with}");
    bench(&dst, &["--crop", "24"]).code(0).says_not("had none");
    assert_eq!((&found["ordered"], &found["whole_epochs"]), (&found["samples"], &true.into()));
    // Records are longer than images, and no record is counted twice.
    let bytes = |of: &serde_json::Value| of.as_u64().unwrap();
    assert!(bytes(&found["raw"]["bytes"]) >= bytes(&found["crops"]["bytes"]));
    assert!(bytes(&found["raw"]["bytes"]) <= bytes(&found["shard_bytes"]));
    assert!(said.stdout.contains("random 24 × 24"), "{}", said.stdout);
    let said = bench(&dst, &["--crop", "24", "--transform", "eval"]).code(0);
    assert!(said.stdout.contains("the middle 24 × 24"), "{}", said.stdout);
    let json = bench(&dst, &["--crop", "24", "--transform", "eval", "--json", "--jobs", "1"]).code(0).json();
    let found = &json["datasets"][0];
    assert_eq!(found["crops"]["samples"], found["samples"]);
    // One thread decodes: its CPU time is above zero and not much above the elapsed time.
    let ratio = |row: &str| found[row]["cpu_ms"].as_f64().unwrap() / found[row]["elapsed_ms"].as_f64().unwrap();
    assert!((0.01..1.5).contains(&ratio("decode")), "{found}");
    assert!(ratio("crops") > 0.0, "{found}");
}

#[test]
fn samples_that_are_no_images_and_splits_are_measured_as_they_are() {
    let folder = Bench::new();
    let src = folder.at("texts");
    for split in ["train", "val"] {
        for number in 0..40 {
            let path = src.join(format!("{split}/{}/{number}.txt", number % 2));
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, format!("text {number} of {split}")).unwrap();
        }
    }
    let dst = folder.at("packed");
    run(&["pack", src.to_str().unwrap(), dst.to_str().unwrap(), "--files", "txt", "--quiet"]).code(0);
    let said = bench(&dst, &["--batch", "4"]).code(0);
    assert_eq!(said.stdout.matches("no images").count(), 2, "{}", said.stdout);
    let json = bench(&dst, &["--json"]).code(0).json();
    assert_eq!(json["datasets"].as_array().unwrap().len(), 2);
    assert!(json["datasets"][0]["decode"].is_null() && json["datasets"][1]["waits"]["batches"] == 1);
}

#[test]
fn damaged_images_are_counted_and_a_missing_shard_is_an_error() {
    let folder = Bench::new();
    let dst = folder.at("packed");
    run(&["pack", photos().to_str().unwrap(), dst.to_str().unwrap(), "--quiet", "--shards", "2"]).code(0);
    let shard = dst.join("shard-000001.tar");
    let mut bytes = std::fs::read(&shard).unwrap();
    // The offsets of all images in this shard.
    let heads: Vec<usize> =
        bytes.windows(3).enumerate().filter(|(_, window)| *window == [0xff, 0xd8, 0xff]).map(|(at, _)| at).collect();
    heads.iter().for_each(|at| bytes[*at] = 0);
    std::fs::write(&shard, bytes).unwrap();
    let json = bench(&dst, &["--crop", "24", "--json"]).code(0).json();
    let found = &json["datasets"][0];
    assert!(found["skipped"].as_u64().unwrap() > 0);
    assert_eq!(
        found["crops"]["samples"].as_u64().unwrap() + found["skipped"].as_u64().unwrap(),
        found["samples"].as_u64().unwrap()
    );
    std::fs::remove_file(shard).unwrap();
    bench(&dst, &[]).code(1).says("shard-000001.tar");
}

#[test]
fn of_a_row_that_ends_early_all_parts_are_of_what_they_are_said_to_be() {
    let folder = Bench::new();
    let dst = folder.at("packed");
    run(&["pack", photos().to_str().unwrap(), dst.to_str().unwrap(), "--quiet"]).code(0);
    let dataset = Dataset::open(&dst).unwrap();
    let request = Request {
        batch: 4,
        crops: Crops::Train,
        size: 24,
        seed: 0,
        memory_bytes: Some(64 << 20),
        threads: 2,
        row: Duration::from_nanos(1),
        cold: false,
        store: StoreSettings::default(),
    };
    let found = measure(&dataset, &request, &|_| {}).unwrap();
    let crops = found.crops.unwrap();
    assert_eq!((crops.samples, found.waits.batches), (4, 1));
    let loader = Loader::new(Dataset::open(&dst).unwrap(), Options { batch: 4, ..Options::default() }).unwrap();
    let mut samples = loader.samples(&loader.beginning()).unwrap();
    let first = (0..4).map(|_| samples.next().unwrap().unwrap().sample().unwrap().bytes().len() as u64);
    assert_eq!(crops.bytes, first.sum::<u64>());
    assert!(found.made >= 4 && found.without_tables <= found.made && found.by_table == 0, "{found:?}");
}

/// True if `folder` lies on a local disk with counters for the bytes read.
fn is_on_disk(folder: &Path) -> bool {
    // ext2 to ext4, XFS and btrfs.
    let known = [0xef53, 0x5846_5342, 0x9123_683e];
    rustix::fs::statfs(folder).is_ok_and(|found| known.contains(&(found.f_type as u64)))
}

#[test]
fn a_cold_row_is_said_to_be_cold_only_if_its_bytes_came_from_a_disk() {
    let folder = Bench::new();
    let dst = folder.at("packed");
    run(&["pack", photos().to_str().unwrap(), dst.to_str().unwrap(), "--quiet", "--shards", "3"]).code(0);
    let warm = bench(&dst, &["--crop", "24", "--json"]).code(0).json();
    assert!(warm["datasets"][0]["cold"].is_null());
    for dst in [Some(dst.clone()), in_memory(&dst)].into_iter().flatten() {
        let json = bench(&dst, &["--crop", "24", "--cold", "--json"]).code(0).json();
        let said = bench(&dst, &["--crop", "24", "--cold"]).code(0).stdout;
        for row in ["plain", "raw"] {
            let found = &json["datasets"][0]["cold"][row];
            let [device, needed] = ["device_bytes", "needed_bytes"].map(|name| found[name].as_u64().unwrap());
            assert_eq!(needed, json["datasets"][0]["shard_bytes"].as_u64().unwrap());
            assert_eq!(found["is_cold"], device * 100 >= needed * 95, "{found}");
            assert!(!is_on_disk(&dst) || found["is_cold"] == true, "{row}: {found}");
            let line = said.lines().find(|line| line.starts_with(row)).unwrap();
            assert!(!is_on_disk(&dst) || line.ends_with("; cold: from the disk"), "{line}");
        }
        if dst.starts_with("/dev/shm") {
            assert_eq!(said.matches("; not cold: 0 B of").count(), 2, "{said}");
            std::fs::remove_dir_all(dst.parent().unwrap()).unwrap();
        }
    }
}

/// A copy in a file system in memory, if there is one.
fn in_memory(dst: &Path) -> Option<std::path::PathBuf> {
    let to = Path::new("/dev/shm").join(format!("shardpack-test-{}", std::process::id()));
    std::fs::create_dir(&to).ok()?;
    let copied = std::process::Command::new("cp").arg("-r").arg(dst).arg(&to).status().unwrap();
    copied.success().then(|| to.join("packed"))
}

/// Two epochs of crops: the result for each sample and epoch, and the statistics.
fn crops(dst: &Path) -> (BTreeMap<(u64, u64), Vec<u8>>, Stats) {
    let transform = Transform::new(training::Options::new(Cut::random_resized(Size::square(48)))).unwrap();
    let output = Output::images(transform);
    let loader =
        Loader::new(Dataset::open(dst).unwrap(), Options { batch: 8, output, epochs: 2, ..Options::default() })
            .unwrap();
    let mut batches = loader.batches(&loader.beginning()).unwrap();
    let mut made = BTreeMap::new();
    for _ in 0..2 {
        while let Some(batch) = batches.next().unwrap() {
            for (sample, slot) in batch.samples().iter().zip(batch.slots().chunks(3 * 48 * 48)) {
                made.insert((batch.epoch(), *sample), slot.to_vec());
            }
        }
    }
    (made, batches.stats())
}

#[test]
fn crop_tables_change_no_pixel_and_wrong_ones_are_counted_and_not_used() {
    let folder = Bench::new();
    let dst = folder.at("packed");
    run(&["pack", photos().to_str().unwrap(), dst.to_str().unwrap(), "--quiet", "--shards", "2"]).code(0);
    let (without, stats) = crops(&dst);
    // 30 JPEGs in two epochs.
    assert_eq!((stats.decoded_by_table, stats.wrong_tables, stats.without_tables), (0, 0, 60));
    run(&["crops", dst.to_str().unwrap(), "--quiet"]).code(0);
    let (with, stats) = crops(&dst);
    assert!(with == without, "the same pixels");
    assert!(stats.decoded_by_table > 10 && stats.without_tables == 0, "{stats:?}");
    let file = dst.join("index/shard-000000.crops");
    let mut bytes = std::fs::read(&file).unwrap();
    // In the tables, after header and rows.
    let at = bytes.len() * 2 / 3;
    bytes[at] ^= 1;
    std::fs::write(&file, bytes).unwrap();
    let (damaged, stats) = crops(&dst);
    assert!(damaged == without && stats.wrong_tables > 0, "{stats:?}");
    std::fs::copy(dst.join("index/shard-000001.crops"), &file).unwrap();
    let (others, stats) = crops(&dst);
    assert!(others == without && stats.wrong_tables > 0, "{stats:?}");
}

/// Stored payload, label and component arrays of each sample in one epoch, by sample number.
fn encoded(dst: &Path, components: &[&str]) -> BTreeMap<u64, (Vec<u8>, i64, Vec<String>)> {
    let components = components.iter().map(|name| (*name).to_owned()).collect();
    let options = Options {
        batch: 5,
        check_content: true,
        components,
        epochs: 1,
        memory_bytes: Some(64 << 20),
        ..Options::default()
    };
    let loader = Loader::new(Dataset::open(dst).unwrap(), options).unwrap();
    let mut batches = loader.batches(&loader.beginning()).unwrap();
    let mut all = BTreeMap::new();
    while let Some(batch) = batches.next().unwrap() {
        for (at, sample) in batch.samples().iter().enumerate() {
            let payload = &batch.payloads()[at];
            let beside = batch.columns().iter().map(|column| match &column.values {
                Values::Stacked { form, items } => {
                    let one = items.len() / batch.len();
                    format!("{form:?} {:?}", &items[at * one..(at + 1) * one])
                }
                Values::Ragged { dtype, row, items, offsets } => {
                    let one = items.len() / offsets[batch.len()].max(1) as usize;
                    format!("{dtype} {row:?} {:?}", &items[offsets[at] as usize * one..offsets[at + 1] as usize * one])
                }
                Values::Each(values) => format!("{:?}", values[at]),
            });
            all.insert(*sample, (payload.to_vec(), batch.labels()[at], beside.collect()));
        }
    }
    assert!(batches.receipt().is_of(&loader.expected(0).unwrap()));
    all
}

#[test]
fn every_format_compressed_or_not_gives_the_same_samples() {
    let folder = Bench::new();
    let mut found = Vec::new();
    for format in ["webdataset", "tfrecord", "recordio", "mds"] {
        for compress in [&[][..], &["--compress", "zstd"]] {
            if format != "webdataset" && format != "mds" && !compress.is_empty() {
                continue;
            }
            let dst = folder.at(&format!("{format}{}", compress.len()));
            let [src, to] = [&photos(), &dst].map(|path| path.to_str().unwrap().to_owned());
            let options = [&["pack", &src, &to, "--quiet", "--shards", "3", "--format", format][..], compress].concat();
            run(&options).code(0);
            found.push((format, encoded(&dst, &[])));
        }
    }
    assert_eq!(found[0].1.len(), 32);
    for (format, samples) in &found[1..] {
        assert!(*samples == found[0].1, "{format}");
    }
}

#[test]
fn arrays_and_texts_beside_a_payload_go_along() {
    let folder = Bench::new();
    for number in 0_u8..12 {
        let name = |end: &str| format!("{}/{number}.{end}", number % 3);
        folder.file(name("jpg"), &shardpack_testing::photo());
        folder.file(name("txt"), format!("number {number}").as_bytes());
        let form = Form::array("<u2", &[2]).unwrap();
        folder.file(name("npy"), &[form.head(), vec![number, 0, 7, 1]].concat());
    }
    let (src, dst) = (folder.src(), folder.dst());
    let [src, to] = [&src, &dst].map(|path| path.to_str().unwrap());
    run(&["pack", src, to, "--quiet", "--with", "txt,npy", "--meta", "json"]).code(0);
    let all = encoded(&dst, &["npy", "txt"]);
    assert_eq!(all.len(), 12);
    for (_, label, beside) in all.values() {
        // The last bytes of "number 7" and "number 10" from the printed list.
        let text: Vec<u8> =
            beside[1].split(['[', ']']).nth(1).unwrap().split(", ").map(|byte| byte.parse().unwrap()).collect();
        let number: u8 = std::str::from_utf8(&text[7..]).unwrap().parse().unwrap();
        assert_eq!(i64::from(number % 3), *label);
        assert!(beside[0].contains(&format!("[{number}, 0, 7, 1]")), "{beside:?}");
    }
}

//! Refuses parts of another plan, incomplete parts and false receipts by name, and seals nothing.

use std::fs;

use shardpack_format::hash;
use shardpack_packer::pack::{self, MergeOptions};
use shardpack_reader::StoreSettings;
use shardpack_source::monitor::Silent;
use shardpack_testing::{Bench, contents, jpeg, run};

const WORK: &str = ".shardpack";

#[test]
fn parts_of_another_plan_are_refused_by_name() {
    let bench = Bench::with_source(60, 3000);
    bench.shardpack("pack SRC DST --shards 6 --part 1/3").code(0);
    bench.shardpack("plan SRC DST --shards 6 --seed 4 -o @other.plan").code(0);
    let before = contents(&bench.dst());
    let rows = [
        ("pack SRC DST --shards 6 --seed 1 --part 2/3", "--seed: was 0, is now 1"),
        ("pack SRC DST --shards 7 --part 2/3", "shards: was --shards 6, is now --shards 7"),
        ("pack SRC DST --shards 6 --format mds --part 2/3", "format: was webdataset"),
        ("pack --plan @other.plan DST --part 2/3", "--seed: was 0, is now 4"),
        ("pack SRC DST --shards 6 --include *0.jpg --part 2/3", "is gone"),
        ("pack SRC DST --shards 6 --part 2/3 --force", "cannot be used with"),
        ("pack SRC DST --shards 6 --part 4/3", "part 4 of 3"),
        ("pack SRC DST --shards 6 --format mds --format tfrecord --part 2/3", "--part packs one format"),
    ];
    for (line, said) in rows {
        let ran = bench.shardpack(line).code(2).says(said);
        match said.split_once(": was ") {
            Some(_) => drop(ran.says("pack all parts with one plan file")),
            None if line.contains("tfrecord") => drop(ran.says("one --format after the other")),
            None => {}
        }
        assert_eq!(contents(&bench.dst()), before, "{line}");
    }
    // The source changes between two parts.
    bench.file("class-0/new.jpg", &jpeg(5, 6000));
    bench.shardpack("pack SRC DST --shards 6 --part 2/3").code(2).says("class-0/new.jpg is new");
    fs::remove_file(bench.src().join("class-0/new.jpg")).unwrap();
    // A receipt of another version.
    let receipt = bench.dst().join(WORK).join("parts/1-of-3.json");
    let right = fs::read_to_string(&receipt).unwrap();
    let version = format!("\"shardpack\":\"{}\"", env!("CARGO_PKG_VERSION"));
    assert!(right.contains(&version));
    fs::write(&receipt, right.replace(&version, "\"shardpack\":\"0.0.9\"")).unwrap();
    bench
        .shardpack("merge DST")
        .code(2)
        .says("1-of-3.json: was packed by shardpack 0.0.9")
        .says("use one version for all parts");
    fs::write(&receipt, &right).unwrap();
    // A receipt of another plan, and a file that is not a receipt.
    bench.shardpack("pack SRC @other --shards 6 --seed 9 --part 2/3").code(0);
    let (from, to) =
        (bench.at("other").join(WORK).join("parts/2-of-3.json"), bench.dst().join(WORK).join("parts/2-of-3.json"));
    fs::copy(from, &to).unwrap();
    bench
        .shardpack("merge DST")
        .code(2)
        .says("2-of-3.json: is of another plan")
        .says("pack the part with the plan of the others");
    fs::rename(&to, bench.dst().join(WORK).join("parts/notes.txt")).unwrap();
    bench.shardpack("merge DST").code(1).says("notes.txt: is no receipt of a part");
    fs::remove_file(bench.dst().join(WORK).join("parts/notes.txt")).unwrap();
    // The receipt of one part under the name of another part.
    fs::write(&to, &right).unwrap();
    bench
        .shardpack("merge DST")
        .code(1)
        .says("2-of-3.json: is of part 1/3")
        .says("remove it, and pack that part again");
    // Sidecars that some parts lack.
    bench.shardpack("pack SRC DST --shards 6 --part 2/3 --sidecars none").code(0);
    bench.shardpack("pack SRC DST --shards 6 --part 3/3").code(0);
    bench.shardpack("merge DST").code(2).says("part 2/3 has none").says("pack one part again");
    bench.shardpack("pack SRC DST --shards 6 --part 2/3").code(0);
    bench.shardpack("merge DST").code(0);
    bench.shardpack("pack SRC @whole --shards 6").code(0);
    assert_eq!(contents(&bench.dst()), contents(&bench.at("whole")));
    let sealed = contents(&bench.dst());
    bench
        .shardpack("pack SRC DST --shards 6 --seed 1 --part 1/3")
        .code(2)
        .says("holds another dataset: --seed: was 0, is now 1");
    assert_eq!(contents(&bench.dst()), sealed, "nothing is left of what was refused");
    fs::write(bench.at("other/stranger"), b"x").unwrap();
    fs::remove_dir_all(bench.at("other").join(WORK)).unwrap();
    bench
        .shardpack("pack SRC @other --part 1/3")
        .code(2)
        .says("which is no part of a dataset")
        .says("choose another folder, or remove this");
    assert!(!bench.at("other").join(WORK).exists(), "nothing is left of what was refused");
    bench.shardpack("pack @none @new --part 1/3").code(2);
    assert!(!bench.at("new").exists());
}

/// The bytes of a receipt after `change`, with a valid hash.
fn lying(receipt: &str, change: impl Fn(&str) -> String) -> Vec<u8> {
    let value: serde_json::Value = serde_json::from_str(receipt).unwrap();
    let own = value["blake3"].as_str().unwrap();
    let zeroed = change(receipt).replace(own, &"0".repeat(64));
    let hash = hash::hex(&hash::file(zeroed.as_bytes()));
    let at = zeroed.rfind(&"0".repeat(64)).unwrap();
    [&zeroed.as_bytes()[..at], hash.as_bytes(), &zeroed.as_bytes()[at + 64..]].concat()
}

#[test]
fn receipts_that_lie_and_files_that_were_changed_are_named_and_nothing_is_sealed() {
    let bench = Bench::with_source(40, 3000);
    for number in [1, 2] {
        bench.shardpack(&format!("pack SRC DST --shards 4 --part {number}/2")).code(0);
    }
    let path = bench.dst().join(WORK).join("parts/1-of-2.json");
    let right = fs::read_to_string(&path).unwrap();
    let value: serde_json::Value = serde_json::from_str(&right).unwrap();
    let entry = &value["datasets"][0]["shards"]["0"]["entry"];
    let (bytes, blake3) = (entry["bytes"].as_u64().unwrap(), entry["blake3"].as_str().unwrap());
    let samples = entry["samples"].as_u64().unwrap();
    assert_eq!(lying(&right, str::to_owned), right.as_bytes(), "a receipt that says the truth is the same");
    let other = "1".repeat(64);
    let rows: [(Box<dyn Fn(&str) -> String>, &str); 6] = [
        (
            Box::new(|all| all.replace(&format!("\"bytes\":{bytes}"), &format!("\"bytes\":{}", bytes + 512))),
            " in the receipt",
        ),
        (Box::new(|all| all.replace(blake3, &other)), "shard-000000.index: does not match the shard in the receipt"),
        (
            Box::new(|all| all.replacen(&format!("\"samples\":{samples}"), &format!("\"samples\":{}", samples - 1), 1)),
            "shard 0 is not in the plan",
        ),
        (
            Box::new(|all| all.replacen(&format!("\"jpeg\":{samples}"), &format!("\"jpeg\":{}", samples - 1), 1)),
            "shard 0 is not in the plan",
        ),
        (Box::new(|all| all.replace("shard-000000.tar\"", "../shard-000000.tar\"")), "shard 0 is not in the plan"),
        (Box::new(|all| all.replace("\"0\":{\"entry\"", "\"9\":{\"entry\"")), "its hash differs"),
    ];
    for (change, said) in rows {
        let lie = lying(&right, change);
        assert_ne!(lie, right.as_bytes(), "{said}: the test changes something");
        fs::write(&path, lie).unwrap();
        bench.shardpack("merge DST").code(1).says(said);
        assert!(!bench.dst().join("manifest.json").exists(), "{said}");
    }
    // Any flipped bit, and a cut at any byte.
    let options = MergeOptions { verify: false, jobs: 1, store: StoreSettings::default(), work: None };
    for at in 0..right.len() {
        let mut wrong = right.clone().into_bytes();
        wrong[at] ^= 1 << (at % 8);
        fs::write(&path, wrong).unwrap();
        assert!(pack::merge(&bench.dst(), &options, &Silent).is_err(), "byte {at}");
        fs::write(&path, &right.as_bytes()[..at]).unwrap();
        assert!(pack::merge(&bench.dst(), &options, &Silent).is_err(), "cut at {at}");
    }
    // Two receipts disagree about a shard: the shard on disk decides. If it matches neither receipt, `merge` fails.
    fs::write(&path, &right).unwrap();
    bench.shardpack("pack SRC DST --shards 4 --part 1/4").code(0);
    let index = entry["index"]["blake3"].as_str().unwrap();
    fs::write(&path, lying(&right, |all| all.replace(index, &other))).unwrap();
    let ran = bench.shardpack("merge DST --json").code(0).json();
    assert_eq!(ran["sealed"], true);
    fs::remove_dir_all(bench.dst()).unwrap();
    for part in ["1/2", "2/2", "1/4"] {
        bench.shardpack(&format!("pack SRC DST --shards 4 --part {part}")).code(0);
    }
    let second = path.with_file_name("1-of-4.json");
    let right_second = fs::read_to_string(&second).unwrap();
    fs::write(&path, lying(&right, |all| all.replace(index, &other))).unwrap();
    fs::write(&second, lying(&right_second, |all| all.replace(index, &"2".repeat(64)))).unwrap();
    bench.shardpack("merge DST").code(1).says("shard-000000.tar").says("pack those parts again");
    fs::remove_file(&second).unwrap();
    fs::write(&path, &right).unwrap();
    // Files that changed after the part wrote them.
    let shard = bench.dst().join("shard-000000.tar");
    let whole = fs::read(&shard).unwrap();
    fs::write(&shard, &whole[..whole.len() - 512]).unwrap();
    bench.shardpack("merge DST").code(1).says("shard-000000.tar: is ").says("pack its part again");
    fs::remove_file(&shard).unwrap();
    bench.shardpack("merge DST").code(1).says("shard-000000.tar: is missing");
    let mut flipped = whole.clone();
    flipped[2000] ^= 1;
    fs::write(&shard, flipped).unwrap();
    bench.shardpack("merge DST --verify").code(1).says("shard-000000.tar: its hash differs from the receipt");
    assert!(!bench.dst().join("manifest.json").exists());
    fs::remove_file(&shard).unwrap();
    bench.shardpack("pack SRC DST --shards 4 --part 1/2").code(0);
    bench.shardpack("merge DST --verify").code(0);
    bench.shardpack("pack SRC @whole --shards 4").code(0);
    assert_eq!(contents(&bench.dst()), contents(&bench.at("whole")));
    // A repeated merge checks the sealed dataset as closely as the options request.
    bench.shardpack("merge DST --verify").code(0).says("nothing to do");
    let mut flipped = whole.clone();
    flipped[2000] ^= 1;
    fs::write(&shard, flipped).unwrap();
    bench.shardpack("merge DST --verify").code(1).says("was merged, and is damaged now: shard-000000.tar");
    fs::remove_file(&shard).unwrap();
    let ran =
        bench.shardpack("merge DST").code(1).says("shard-000000.tar is missing").says("shardpack verify names all");
    ran.says("that is damaged");
    bench.shardpack("verify DST --repair SRC").code(0);
    bench.shardpack("merge DST --verify").code(0);
}

#[test]
fn receipts_of_different_numbers_of_parts_are_taken_together_and_what_they_lack_is_named() {
    let bench = Bench::with_source(80, 3000);
    bench
        .shardpack("merge SRC")
        .code(2)
        .says("nothing was packed in parts here")
        .says("--part I/N packs one of N parts");
    for part in ["1/2", "3/4", "5/8"] {
        bench.shardpack(&format!("pack SRC DST --shards 16 --part {part}")).code(0);
    }
    let missing = bench.shardpack("merge DST --json").code(1).json();
    assert_eq!(missing["missing"]["parts"], serde_json::json!(["4/4"]));
    let ran = bench.shardpack("merge DST").code(1).says("missing 4 of 16 shards").says("        part 4/4");
    // The help is a command that packs one of the missing parts.
    let help = ran.stdout.lines().find_map(|line| line.strip_prefix("  help: shardpack ")).unwrap();
    let command = help.split(" packs the first").next().unwrap();
    run(&command.split(' ').collect::<Vec<_>>()).code(0).says("packed  part 4/4");
    bench.shardpack("merge DST").code(0).says("of 4 parts");
    bench.shardpack("pack SRC @whole --shards 16").code(0);
    assert_eq!(contents(&bench.dst()), contents(&bench.at("whole")));
}

#[test]
fn a_plan_on_another_file_system_serves_as_well() {
    let Ok(memory) = tempfile::tempdir_in("/dev/shm") else { return };
    let bench = Bench::with_source(60, 3000);
    let plan = memory.path().join("x.plan");
    bench.shardpack(&format!("plan SRC DST --shards 6 -o {}", plan.display())).code(0);
    bench.shardpack(&format!("pack --plan {} DST --part 2/2", plan.display())).code(0);
    let common = bench.dst().join(WORK).join("plan");
    let is_elsewhere = fs::metadata(&common).unwrap().len() < fs::metadata(&plan).unwrap().len();
    if is_elsewhere {
        bench
            .shardpack(&format!("pack --plan {} DST --part 1/2", common.display()))
            .code(1)
            .says("a plan file without its samples")
            .says("give the one that `shardpack plan` wrote");
        bench.shardpack("merge DST").code(1).says("shardpack pack --plan FILE");
    }
    // A walk of the source makes the same plan.
    bench.shardpack("pack SRC DST --shards 6 --part 1/2").code(0);
    bench.shardpack("merge DST").code(0);
    bench.shardpack("pack SRC @whole --shards 6").code(0);
    assert_eq!(contents(&bench.dst()), contents(&bench.at("whole")));
}

#[test]
fn a_plan_of_another_version_or_one_that_is_damaged_is_refused() {
    let bench = Bench::with_source(30, 3000);
    bench.shardpack("pack SRC DST --shards 4 --part 1/2").code(0);
    let path = bench.dst().join(WORK).join("plan");
    let right = fs::read(&path).unwrap();
    let end = right.len() - 40;
    let start = u64::from_le_bytes(right[end..end + 8].try_into().unwrap()) as usize;
    let header = zstd::decode_all(&right[start..end]).unwrap();
    let own = format!("\"shardpack\":\"{}\"", env!("CARGO_PKG_VERSION"));
    let at = header.windows(own.len()).position(|bytes| bytes == own.as_bytes()).unwrap();
    let other = own.replace(|digit: char| digit.is_ascii_digit(), "9");
    let header = [&header[..at], other.as_bytes(), &header[at + own.len()..]].concat();
    let header = zstd::encode_all(header.as_slice(), 1).unwrap();
    let wrong = [&right[..start], &header, &right[end..end + 8], &hash::file(&header)].concat();
    fs::write(&path, wrong).unwrap();
    let ran = bench.shardpack("pack SRC DST --shards 4 --part 2/2").code(2).says("holds parts that shardpack 9");
    ran.says("use one version for all parts, or remove the folder");
    for at in (0..right.len()).rev().step_by(7).filter(|at| *at >= start || *at < 12) {
        let mut wrong = right.clone();
        wrong[at] ^= 1;
        fs::write(&path, wrong).unwrap();
        bench.shardpack("pack SRC DST --shards 4 --part 2/2").code(1).says("remove the folder to begin anew");
        bench.shardpack("merge DST").code(1).says("plan file");
    }
    // Only the part that packs a shard reads the samples of the shard in the plan.
    let mut wrong = right.clone();
    wrong[start - 1] ^= 1;
    fs::write(&path, wrong).unwrap();
    fs::copy(&path, bench.at("x.plan")).unwrap();
    bench.shardpack("pack --plan @x.plan DST --part 1/2").code(0);
    bench.shardpack("pack --plan @x.plan DST --part 2/2").code(1).says("the hash of the samples of a shard differs");
    fs::write(&path, right).unwrap();
    bench.shardpack("pack SRC DST --shards 4 --part 2/2").code(0);
    bench.shardpack("merge DST").code(0);
}

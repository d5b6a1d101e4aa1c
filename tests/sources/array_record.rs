//! ArrayRecord files by their own writer: the samples of the TFRecord files with the same records.

use std::{fs, path::Path, process::Command};

use shardpack_testing::{Bench, Ran, images, jpeg, run};

/// Writes the records of each TFRecord file in SRC to a file of ArrayRecord in DST, with the options of its writer.
const WRITE: &str = "
import os, struct, sys
from array_record.python.array_record_module import ArrayRecordWriter
source, folder, options = sys.argv[1:]
os.mkdir(folder)
for number, name in enumerate(sorted(name for name in os.listdir(source) if '-of-' in name and not name.endswith('.idx'))):
    content, at = open(os.path.join(source, name), 'rb').read(), 0
    writer = ArrayRecordWriter(os.path.join(folder, f'train.array_record-{number:05}-of-00002'), options)
    while at < len(content):
        length, = struct.unpack_from('<Q', content, at)
        writer.write(content[at + 12:at + 12 + length])
        at += length + 16
    writer.close()
";

fn written(bench: &Bench, name: &str, options: &str) {
    let python = std::env::var_os("SHARDPACK_PYTHON").unwrap();
    let (source, folder) = (bench.at("tfrecord"), bench.at(name));
    let ran = Command::new(python).args(["-c", WRITE]).args([&source, &folder]).arg(options).output().unwrap();
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
}

fn tfrecord() -> Bench {
    let bench = Bench::new();
    for number in 0..40 {
        bench.file(format!("c{}/{number}.jpg", number % 3), &jpeg(number, 6000 + number as usize * 900));
    }
    bench.pack_to(&bench.at("tfrecord"), &["--format", "tfrecord", "--shards", "2"]).code(0);
    bench
}

fn convert(source: &Path, dst: &Path) -> Ran {
    run(&["convert", source.to_str().unwrap(), dst.to_str().unwrap()])
}

#[test]
fn each_compression_has_the_samples_of_the_records() {
    let bench = tfrecord();
    let expected = images(&bench.at("tfrecord"));
    for (name, options) in [
        ("zstd", "group_size:1"),
        ("groups", "group_size:7,zstd:9"),
        ("plain", "group_size:3,uncompressed"),
        ("brotli", "group_size:16,brotli:3"),
        ("snappy", "group_size:5,snappy,pad_to_block_boundary:true"),
    ] {
        written(&bench, name, options);
        let packed = bench.at(&format!("{name}-packed"));
        convert(&bench.at(name), &packed).code(0).says("2 files of tfrecord");
        assert!(images(&packed) == expected, "{name}");
        run(&["verify", packed.to_str().unwrap(), "--against", bench.at(name).to_str().unwrap()]).code(0);
    }
}

#[test]
fn damaged_files_are_refused_and_named() {
    let bench = tfrecord();
    written(&bench, "files", "group_size:4");
    let path = bench.at("files").join("train.array_record-00001-of-00002");
    let whole = fs::read(&path).unwrap();
    for (name, content) in [
        ("flipped", [&whole[..9000], &[whole[9000] ^ 4], &whole[9001..]].concat()),
        ("cut", whole[..whole.len() - (1 << 16)].to_vec()),
        ("short", whole[..9000].to_vec()),
    ] {
        fs::write(&path, content).unwrap();
        convert(&bench.at("files"), &bench.at(name)).code(1).says("train.array_record-00001-of-00002");
    }
    fs::write(&path, &whole).unwrap();
    written(&bench, "transposed", "group_size:4,transpose:true");
    convert(&bench.at("transposed"), &bench.at("no")).code(1).says("a transposed chunk, which is not read");
}

#[test]
fn a_file_without_records_is_a_shard_without_samples() {
    let bench = tfrecord();
    written(&bench, "files", "group_size:4");
    let python = std::env::var_os("SHARDPACK_PYTHON").unwrap();
    let write = "import sys\nfrom array_record.python.array_record_module import ArrayRecordWriter\nArrayRecordWriter(sys.argv[1], '').close()";
    let path = bench.at("files").join("train.array_record-00001-of-00002");
    let ran = Command::new(python).args(["-c", write]).arg(&path).output().unwrap();
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
    convert(&bench.at("files"), &bench.dst()).code(0).says("packed  20 of 20").says("shard without samples");
}

#[test]
fn chunks_behind_damage_are_packed_and_the_lost_records_are_counted() {
    let bench = tfrecord();
    written(&bench, "files", "group_size:2");
    let expected = images(&bench.at("tfrecord"));
    let path = bench.at("files").join("train.array_record-00001-of-00002");
    let whole = fs::read(&path).unwrap();
    let flipped = |at: usize| [&whole[..at], &[whole[at] ^ 4], &whole[at + 1..]].concat();
    // In the data and in the header of the first chunk of records, which is behind the signature.
    for (name, at, least) in [("data", 9000, 2), ("header", 64 + 12, 2)] {
        fs::write(&path, flipped(at)).unwrap();
        let dst = bench.at(name);
        convert(&bench.at("files"), &dst).code(1).says("differs from its hash");
        run(&["verify", path.to_str().unwrap()]).code(1).says("differs from its hash");
        let (from, to) = (bench.at("files"), dst.to_str().unwrap().to_owned());
        let ran = run(&["convert", from.to_str().unwrap(), &to, "--on-bad", "skip"]).code(0);
        let found = images(&dst);
        ran.says(&format!("packed  {} of 40", found.len())).says(&format!("{} not packed", 40 - found.len()));
        let lost = expected.len() - found.len();
        assert!(lost >= least && lost < 20 && found.iter().all(|image| expected.contains(image)), "{name}: {lost}");
        let ledger = fs::read_to_string(dst.join("ledger.jsonl")).unwrap();
        assert!(ledger.contains(&format!("differs from its hash: {lost} records lost")), "{name}: {ledger}");
    }
}

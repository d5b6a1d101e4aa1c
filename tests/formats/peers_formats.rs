//! Reads our TFRecord, RecordIO and MDS shards with foreign readers, listed in `tests/peers/read_records.py`.

use std::{fs, path::Path, process::Command};

const PHOTOS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/fixtures/photos");
const SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/peers/read_records.py");

fn copy_folders(from: &Path, to: &Path) {
    for path in fs::read_dir(from).unwrap().map(|entry| entry.unwrap().path()).filter(|path| path.is_dir()) {
        let folder = to.join(path.file_name().unwrap());
        fs::create_dir(&folder).unwrap();
        for file in fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()).filter(|path| path.is_file()) {
            fs::copy(&file, folder.join(file.file_name().unwrap())).unwrap();
        }
        copy_folders(&path, &folder);
    }
}

/// The photographs, and a class of images with RecordIO's magic after their end, which decoders ignore.
fn source() -> tempfile::TempDir {
    let source = tempfile::tempdir().unwrap();
    copy_folders(Path::new(PHOTOS), source.path());
    let photo = fs::read(Path::new(PHOTOS).join("things/spoon.png")).unwrap();
    fs::create_dir(source.path().join("zebra")).unwrap();
    for gap in 0..8 {
        let magic = [0x0a, 0x23, 0xd7, 0xce];
        let image = [&photo, &vec![b'x'; gap], &magic[..], &magic, b"abcd", &magic].concat();
        fs::write(source.path().join(format!("zebra/{gap}.png")), image).unwrap();
    }
    source
}

/// Reads shards of `format` with the reader `how`, in the Python of the environment variable `variable`. Without the variable,
/// nothing is read; `SHARDPACK_PYTHON` must be set.
fn read_with(variable: &str, format: &str, how: &str) {
    let Some(python) = std::env::var_os(variable) else {
        assert_ne!(
            variable, "SHARDPACK_PYTHON",
            "not set: run `cargo xtask test`, which makes the environment it names"
        );
        eprintln!("{variable} is not set: {how} was NOT asked");
        return;
    };
    let source = source();
    let mut runs = vec![&["--shards", "1"][..], &["--shards", "5", "--seed", "3"]];
    if how == "streaming" {
        runs.push(&["--shards", "3", "--compress", "zstd"]);
    }
    for options in runs {
        let folder = tempfile::tempdir().unwrap();
        let mut pack = Command::new(shardpack_testing::built("shardpack"));
        pack.args(["pack", "--quiet", "--format", format]).args(options).arg(source.path()).arg(folder.path());
        assert!(pack.output().unwrap().status.success());
        let read = Command::new(&python).args([SCRIPT, how]).args([source.path(), folder.path()]).output().unwrap();
        let text = String::from_utf8_lossy(&read.stdout).trim().to_owned();
        assert_eq!(text, "40", "{how} {options:?}: {}", String::from_utf8_lossy(&read.stderr));
    }
}

#[test]
fn the_tfrecord_package_reads_every_sample_as_it_was() {
    read_with("SHARDPACK_PYTHON", "tfrecord", "tfrecord");
}

#[test]
fn tensorflow_reads_every_sample_as_it_was() {
    read_with("SHARDPACK_PYTHON_TENSORFLOW", "tfrecord", "tensorflow");
}

#[test]
fn dali_reads_tfrecord_and_recordio_by_their_indexes() {
    read_with("SHARDPACK_PYTHON_DALI", "tfrecord", "dali_tfrecord");
    read_with("SHARDPACK_PYTHON_DALI", "recordio", "dali_recordio");
}

#[test]
fn recordio_reads_as_its_document_says() {
    read_with("SHARDPACK_PYTHON", "recordio", "recordio");
}

#[test]
fn mxnet_reads_every_sample_as_it_was() {
    read_with("SHARDPACK_PYTHON_MXNET", "recordio", "mxnet");
}

#[test]
fn mds_reads_by_its_index_alone() {
    read_with("SHARDPACK_PYTHON", "mds", "mds");
}

#[test]
fn streaming_reads_every_sample_as_it_was() {
    read_with("SHARDPACK_PYTHON_STREAMING", "mds", "streaming");
}

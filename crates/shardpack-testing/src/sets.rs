//! Writes folders of shards in the formats of several writers.

use std::{
    fs,
    path::{Path, PathBuf},
};

use crate::{
    Bench, jpeg,
    shards::{Feature, Tar, gzip, mds_index, mds_shard, parquet_file, tf_record},
};

/// Sorted names of the shards in a folder.
pub fn names(folder: &Path) -> Vec<String> {
    let mut names: Vec<_> =
        fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.retain(|name| !name.ends_with(".json") && !name.ends_with(".idx"));
    names.sort();
    names
}

/// Folders of shards with options for `convert`. Each shard is longer than one read.
pub fn made(bench: &Bench) -> Vec<(&'static str, PathBuf, Vec<&'static str>)> {
    let images: Vec<_> = (0..90u64).map(|number| jpeg(number, 20_000 + number as usize * 700)).collect();
    let write = |folder: &str, name: &str, bytes: &[u8]| {
        fs::create_dir_all(bench.at(folder)).unwrap();
        fs::write(bench.at(folder).join(name), bytes).unwrap();
    };
    for (part, images) in images.chunks(30).enumerate() {
        let (mut tar, mut tfrecord, mut samples, mut rows) = (Tar::new(), Vec::new(), Vec::new(), Vec::new());
        for (number, image) in images.iter().enumerate() {
            let key = format!("{part}-{number:02}");
            tar = tar
                .file(&format!("{key}.cls"), (number % 3).to_string().as_bytes())
                .file(&format!("{key}.jpg"), image)
                .file(&format!("{key}.txt"), format!("a caption of {key}").as_bytes());
            tfrecord.extend(tf_record(&[
                ("image/encoded", Feature::Bytes(image)),
                ("image/class/label", Feature::Ints(&[number as i64 % 3])),
                ("score", Feature::Ints(&[number as i64, 7])),
            ]));
            samples.push((number as i64 % 3, image.clone()));
            rows.push((Some(number as i64 % 3), image.clone(), None));
        }
        let tar = tar.bytes();
        write("tar", &format!("set-{part:04}.tar"), &tar);
        write("tar-gz", &format!("set-{part:04}.tar.gz"), &gzip(&tar));
        write("tfrecord", &format!("set-{part:05}-of-00003"), &tfrecord);
        write("mds", &format!("shard.{part:05}.mds"), &mds_shard(&samples));
        write("parquet", &format!("set-{part}.parquet"), &parquet_file(&["a", "b", "c"], &rows));
    }
    let shards = names(&bench.at("mds"));
    let shards: Vec<_> = shards.iter().map(|name| (name, fs::read(bench.at("mds").join(name)).unwrap())).collect();
    let entries: Vec<(&str, &[u8], usize, &[(&str, String)])> =
        shards.iter().map(|(name, bytes)| (name.as_str(), &bytes[..], 30, &[][..])).collect();
    fs::write(bench.at("mds").join("index.json"), mds_index(&entries)).unwrap();
    ["tar", "tar-gz", "tfrecord", "mds", "parquet"].map(|name| (name, bench.at(name), vec!["--shards", "2"])).into()
}

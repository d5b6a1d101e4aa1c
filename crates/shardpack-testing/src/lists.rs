//! Reads samples with all components, for tests of lists and of files beside images.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};

use shardpack_reader::Dataset;

use crate::{Bench, Ran, contents, jpeg, run};

/// Label, class name and components by name.
pub type Sample = (Option<i64>, Option<String>, BTreeMap<String, Vec<u8>>);

/// All samples by path. Samples that share a path are sorted.
pub fn samples(folder: &Path) -> BTreeMap<String, Vec<Sample>> {
    let dataset = Dataset::open(folder).unwrap();
    let mut reader = dataset.reader(..).unwrap().check_content(true);
    let mut samples: BTreeMap<String, Vec<Sample>> = BTreeMap::new();
    while let Some(sample) = reader.next().unwrap() {
        let path = String::from_utf8(sample.path().to_vec()).unwrap();
        let names = &dataset.manifest().components;
        // For values, the content rather than the stored bytes.
        let content = |(name, stored): (&str, &[u8])| {
            let number = names.iter().position(|one| one == name);
            let content = number.and_then(|number| sample.content(number).unwrap());
            (name.to_owned(), content.map_or_else(|| stored.to_vec(), std::borrow::Cow::into_owned))
        };
        let components = sample.components().map(content).collect();
        let class = sample.class_name().map(str::to_owned);
        samples.entry(path).or_default().push((sample.label(), class, components));
    }
    samples.values_mut().for_each(|samples| samples.sort());
    samples
}

/// The only sample with this path.
pub fn one<'s>(samples: &'s BTreeMap<String, Vec<Sample>>, path: &str) -> &'s Sample {
    match samples.get(path).map(Vec::as_slice) {
        Some([one]) => one,
        other => panic!("{path}: {other:?}"),
    }
}

/// A component as text.
pub fn text(sample: &Sample, component: &str) -> Option<String> {
    sample.2.get(component).map(|bytes| String::from_utf8(bytes.clone()).unwrap())
}

/// A source with three JPEGs in `train`.
pub fn three_images() -> Bench {
    let bench = Bench::new();
    for number in 0..3 {
        bench.file(format!("train/{number}.jpg"), &jpeg(number, 6000 + number as usize));
    }
    bench
}

/// Writes a list into the source folder.
pub fn list(bench: &Bench, name: &str, text: &str) -> PathBuf {
    let path = bench.src().join(name);
    fs::write(&path, text).unwrap();
    path
}

/// `shardpack pack`.
pub fn pack(src: &Path, dst: &Path, options: &[&str]) -> Ran {
    crate::pack(src, dst, options)
}

/// Fails the test unless the dataset in `dst` verifies against `source`.
pub fn verify(dst: &Path, source: &Path, options: &[&str]) {
    let args = ["verify", "--quiet", dst.to_str().unwrap(), "--against", source.to_str().unwrap()];
    run(&[&args, options].concat()).code(0);
}

/// Damages a shard, repairs it, then deletes and repairs an index. Both must be byte for byte as before.
pub fn mend(dst: &Path, source: &Path) {
    let before = contents(dst);
    let manifest = shardpack_format::manifest::Manifest::read(&fs::read(dst.join("manifest.json")).unwrap()).unwrap();
    let shard = dst.join(&manifest.shards[0].file);
    let repair = ["verify", "--quiet", dst.to_str().unwrap(), "--repair", source.to_str().unwrap()];
    let mut bytes = fs::read(&shard).unwrap();
    for at in (200..bytes.len()).step_by(997) {
        bytes[at] ^= 0x55;
    }
    fs::write(&shard, bytes).unwrap();
    run(&repair).code(0);
    assert_eq!(contents(dst), before);
    fs::remove_file(dst.join(&manifest.shards[0].index.file)).unwrap();
    run(&repair).code(0);
    assert_eq!(contents(dst), before);
}

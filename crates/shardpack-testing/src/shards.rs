//! Writes shards of other programs byte by byte from their specifications, runs `convert`, and reads the result in any format.

use std::{
    collections::{BTreeMap, BTreeSet},
    ffi::OsStr,
    fs,
    io::Write,
    path::{Path, PathBuf},
    sync::Arc,
};

use parquet::{
    column::writer::ColumnWriter,
    data_type::ByteArray,
    file::{metadata::KeyValue, properties::WriterProperties, writer::SerializedFileWriter},
    schema::parser::parse_message_type,
};
use serde_json::json;
use shardpack_format::{
    formats, hash,
    manifest::{Counts, Manifest},
};
use shardpack_reader::Dataset;
use shardpack_source::ledger::{self, Fate};

use crate::{Ran, run};

/// First word of every part of a RecordIO file.
pub const MAGIC: [u8; 4] = [0x0a, 0x23, 0xd7, 0xce];

/// A label and an image.
pub type Sample = (i64, Vec<u8>);

/// Names of all output formats.
pub fn names() -> impl Iterator<Item = &'static str> + Clone {
    formats::ALL.iter().map(|entry| entry.name)
}

/// Images of odd lengths in three classes. Some contain the magic word at each alignment, alone and repeated.
pub fn odd_images() -> Vec<(String, Vec<u8>)> {
    let jpeg = b"\xff\xd8\xff\xc0\0\x0b\x08\0\x02\0\x03\x01\x01\x11\0\xff\xd9";
    let mut images = Vec::new();
    for length in [0usize, 1, 2, 3, 700] {
        images.push((format!("ant/plain{length}.jpg"), [jpeg.as_slice(), &vec![7; length]].concat()));
        let magic = [jpeg.as_slice(), &vec![9; length], &MAGIC, b"between", &MAGIC, &MAGIC].concat();
        images.push((format!("bee/deep/ends{length}.jpg"), [&magic, vec![0; length].as_slice(), &MAGIC].concat()));
        images.push((format!("bee/magic{length}.jpg"), magic));
    }
    // The shortest images that the first bytes identify.
    images.push(("bee/only.jpg".to_owned(), [&b"\xff\xd8\xff\xe0"[..], &MAGIC].concat()));
    images.push(("cow/one.jpg".to_owned(), b"\xff\xd8\xff".to_vec()));
    images.push(("cow/two.jpg".to_owned(), b"\xff\xd8\xff\xe0y".to_vec()));
    images
}

/// `shardpack convert sources dst` with these options.
pub fn convert(sources: &[&Path], dst: &Path, options: &[&str]) -> Ran {
    let mut args: Vec<&OsStr> = vec![OsStr::new("convert")];
    args.extend(sources.iter().map(|source| source.as_os_str()));
    args.push(dst.as_os_str());
    args.extend(options.iter().map(OsStr::new));
    run(&args)
}

/// Turns a dataset into shards of another program: deletes all files except the shards and the other files of their format. Returns the
/// shards in order.
pub fn make_foreign(dataset: &Path) -> Vec<PathBuf> {
    let shards = manifest(dataset).shards.iter().map(|shard| dataset.join(&shard.file)).collect();
    for name in ["manifest.json", "BLAKE3SUMS", "ledger.jsonl"] {
        let _ = fs::remove_file(dataset.join(name));
    }
    fs::remove_dir_all(dataset.join("index")).unwrap();
    // For a split, the file in the folder above.
    let _ = fs::remove_file(dataset.with_file_name("splits.json"));
    shards
}

/// Every sample of a dataset, in stored order. Hashes are checked.
pub fn samples(dst: &Path) -> Vec<Sample> {
    let dataset = Dataset::open(dst).unwrap().check_content(true);
    let mut reader = dataset.reader(..).unwrap();
    let mut samples = Vec::new();
    while let Some(sample) = reader.next().unwrap() {
        sample.check_frame().unwrap();
        samples.push((sample.label().unwrap(), sample.bytes().to_vec()));
    }
    samples
}

/// Label and short hash of each sample, sorted.
pub fn sorted(samples: impl IntoIterator<Item = Sample>) -> Vec<(i64, String)> {
    let mut out: Vec<_> =
        samples.into_iter().map(|(label, image)| (label, blake3::hash(&image).to_hex()[..16].to_owned())).collect();
    out.sort();
    out
}

/// Names of the classes of a dataset, in label order.
pub fn classes(dst: &Path) -> Vec<String> {
    manifest(dst).classes.iter().map(|class| class.name.clone()).collect()
}

/// The manifest of a dataset.
pub fn manifest(dst: &Path) -> Manifest {
    Manifest::read(&fs::read(dst.join("manifest.json")).unwrap()).unwrap()
}

/// Path and reason of each skipped sample in the ledger.
pub fn skipped(dst: &Path) -> Vec<(String, String)> {
    let Ok(bytes) = fs::read(dst.join("ledger.jsonl")) else { return Vec::new() };
    let lines = ledger::read(&bytes).unwrap().into_iter().filter(|line| line.fate == Fate::Skipped);
    lines.map(|line| (String::from_utf8(line.path).unwrap(), line.reason.to_string())).collect()
}

/// Fails the test unless the dataset verifies and each discovered sample is once in the dataset or the ledger, in each class.
#[track_caller]
pub fn check_sealed(dst: &Path, what: &str) {
    let ran = run(&["verify", dst.to_str().unwrap(), "--quiet"]);
    assert_eq!(ran.code, 0, "{what}: {}{}", ran.stdout, ran.stderr);
    let (dataset, manifest) = (Dataset::open(dst).unwrap(), manifest(dst));
    let mut counted = vec![Counts::default(); manifest.classes.len()];
    let (mut unclassified, mut paths) = (Counts::default(), BTreeSet::new());
    for number in 0..dataset.len() {
        let row = dataset.row(number).unwrap();
        assert!(paths.insert(row.path.to_vec()), "{what}: {} twice", row.name());
        let counts = row.label.map_or(&mut unclassified, |class| &mut counted[class as usize]);
        assert!(row.label.is_some() || manifest.classes.is_empty(), "{what}: {} has no label", row.name());
        counts.packed += 1;
    }
    for line in ledger::read(&fs::read(dst.join("ledger.jsonl")).unwrap_or_default()).unwrap() {
        assert!(paths.insert(line.path), "{what}: both packed and in the ledger, or there twice");
        let counts = line.class.map_or(&mut unclassified, |class| &mut counted[class as usize]);
        match line.fate {
            Fate::Skipped => counts.skipped += 1,
            Fate::Filtered => counts.filtered += 1,
            fate => panic!("{what}: {fate:?} was not asked for"),
        }
    }
    let discovered = |counts: Counts| counts.packed + counts.skipped + counts.filtered + counts.duplicates;
    unclassified.discovered = discovered(unclassified);
    assert_eq!(manifest.ledger.unclassified, unclassified, "{what}");
    let mut total = unclassified;
    for (class, mut counts) in manifest.classes.iter().zip(counted) {
        counts.discovered = discovered(counts);
        assert_eq!(class.counts, counts, "{what}: class {}", class.name);
        total.add(&counts);
    }
    assert_eq!(manifest.ledger.counts, total, "{what}");
    assert_eq!(manifest.samples, total.packed, "{what}");
}

/// Compresses `bytes` with gzip.
pub fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

/// Compresses `bytes` like TensorFlow's `ZLIB` option.
pub fn zlib(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

/// Builds a tar file, member by member. Names are written unchanged: the `tar` crate alone would refuse some names.
pub struct Tar(tar::Builder<Vec<u8>>);

impl Tar {
    /// An archive without members.
    pub fn new() -> Self {
        Self(tar::Builder::new(Vec::new()))
    }

    /// Adds a regular file.
    pub fn file(self, name: &str, bytes: &[u8]) -> Self {
        self.member(tar::EntryType::Regular, name, "", bytes)
    }

    /// Adds a sample: `<key>.cls` and `<key>.jpg`.
    pub fn sample(self, key: &str, label: &str, image: &[u8]) -> Self {
        self.file(&format!("{key}.cls"), label.as_bytes()).file(&format!("{key}.jpg"), image)
    }

    /// Adds any member; a name of more than 100 bytes is written as a GNU long name before the member.
    pub fn member(mut self, kind: tar::EntryType, name: &str, link: &str, bytes: &[u8]) -> Self {
        let mut header = if name.len() > 100 { tar::Header::new_gnu() } else { tar::Header::new_ustar() };
        if name.len() > 100 {
            let with_nul = [name.as_bytes(), b"\0"].concat();
            self = self.member(tar::EntryType::GNULongName, "././@LongLink", "", &with_nul);
        }
        let fits = &name.as_bytes()[..name.len().min(100)];
        header.as_mut_bytes()[..fits.len()].copy_from_slice(fits);
        header.as_mut_bytes()[157..157 + link.len()].copy_from_slice(link.as_bytes());
        header.set_entry_type(kind);
        header.set_mode(0o644);
        header.set_size(bytes.len() as u64);
        header.set_cksum();
        self.0.append(&header, bytes).unwrap();
        self
    }

    /// Adds a regular file whose name is in a PAX header; the USTAR header has another name.
    pub fn pax_file(self, name: &str, bytes: &[u8]) -> Self {
        let length = |digits: usize| " path=\n".len() + name.len() + digits;
        let digits = (1..).find(|digits| length(*digits).to_string().len() == *digits).unwrap();
        let record = format!("{} path={name}\n", length(digits));
        self.member(tar::EntryType::XHeader, "PaxHeaders/0", "", record.as_bytes()).file("cut", bytes)
    }

    /// The bytes of the archive, with the end marker.
    pub fn bytes(self) -> Vec<u8> {
        self.0.into_inner().unwrap()
    }
}

/// A value of a `tf.train.Feature`.
#[derive(Clone, Debug)]
pub enum Feature<'a> {
    /// `bytes_list` of one value.
    Bytes(&'a [u8]),
    /// `int64_list`.
    Ints(&'a [i64]),
}

fn varint(mut number: u64, out: &mut Vec<u8>) {
    while number >= 128 {
        out.push(number as u8 | 128);
        number >>= 7;
    }
    out.push(number as u8);
}

fn field(number: u8, content: &[u8]) -> Vec<u8> {
    let mut out = vec![number << 3 | 2];
    varint(content.len() as u64, &mut out);
    out.extend(content);
    out
}

/// CRC-32C bit by bit, with TensorFlow's mask.
fn masked_crc(bytes: &[u8]) -> u32 {
    let step = |crc: u32| if crc & 1 == 1 { crc >> 1 ^ 0x82f6_3b78 } else { crc >> 1 };
    let crc = !bytes.iter().fold(!0, |crc, byte| (0..8).fold(crc ^ u32::from(*byte), |crc, _| step(crc)));
    crc.rotate_right(15).wrapping_add(0xa282_ead8)
}

/// A TFRecord record: an example with these features.
pub fn tf_record(features: &[(&str, Feature<'_>)]) -> Vec<u8> {
    let entries = features.iter().map(|(key, value)| {
        let list = match value {
            Feature::Bytes(bytes) => field(1, &field(1, bytes)),
            Feature::Ints(numbers) => {
                let mut packed = Vec::new();
                numbers.iter().for_each(|number| varint(*number as u64, &mut packed));
                field(3, &field(1, &packed))
            }
        };
        field(1, &[field(1, key.as_bytes()), field(2, &list)].concat())
    });
    let data = field(1, &entries.collect::<Vec<_>>().concat());
    let length = (data.len() as u64).to_le_bytes();
    [&length[..], &masked_crc(&length).to_le_bytes(), &data, &masked_crc(&data).to_le_bytes()].concat()
}

/// A RecordIO record: an `IRHeader` with these labels, and the image. A single label is stored without a list. The parts are cut as
/// dmlc-core cuts them: at each aligned magic word, which is omitted.
pub fn rec_record(id: u64, labels: &[f32], image: &[u8]) -> Vec<u8> {
    let (flag, label) = if let [one] = labels { (0, *one) } else { (labels.len() as u32, 0.0) };
    let mut payload = [&flag.to_le_bytes()[..], &label.to_le_bytes(), &id.to_le_bytes(), &[0; 8]].concat();
    if flag > 0 {
        payload.extend(labels.iter().flat_map(|label| label.to_le_bytes()));
    }
    payload.extend(image);
    let mut cuts: Vec<usize> =
        (0..payload.len().saturating_sub(3)).step_by(4).filter(|at| payload[*at..*at + 4] == MAGIC).collect();
    let mut out = Vec::new();
    let count = cuts.len();
    cuts.push(payload.len());
    let mut start = 0;
    for (number, end) in cuts.into_iter().enumerate() {
        let flag = match (number, number == count) {
            (0, true) => 0,
            (0, false) => 1,
            (_, false) => 2,
            (_, true) => 3u32,
        };
        let part = &payload[start..end];
        out.extend(MAGIC);
        out.extend((flag << 29 | part.len() as u32).to_le_bytes());
        out.extend(part);
        out.resize(out.len().next_multiple_of(4), 0);
        start = end + 4;
    }
    out
}

/// An MDS shard with columns `image` (`jpeg`) and `label` (`int`), in the order of their names.
pub fn mds_shard(samples: &[Sample]) -> Vec<u8> {
    let config = json!({
        "column_encodings": ["jpeg", "int"], "column_names": ["image", "label"], "column_sizes": [null, 8],
        "compression": null, "format": "mds", "hashes": [], "size_limit": 67_108_864, "version": 2,
    });
    // The spacing of `json.dumps(sort_keys=True)`: a space after each comma and colon.
    let config = config.to_string().replace(":", ": ").replace(",", ", ");
    let records: Vec<Vec<u8>> = samples
        .iter()
        .map(|(label, image)| [&(image.len() as u32).to_le_bytes()[..], image, &label.to_le_bytes()].concat())
        .collect();
    let mut at = 4 * (samples.len() + 2) + config.len();
    let mut out = (samples.len() as u32).to_le_bytes().to_vec();
    out.extend((at as u32).to_le_bytes());
    for record in &records {
        at += record.len();
        out.extend((at as u32).to_le_bytes());
    }
    out.extend(config.as_bytes());
    out.extend(records.concat());
    out
}

/// The `index.json` beside shards of [`mds_shard`]; for each shard: name, bytes, number of samples, hashes.
pub fn mds_index(shards: &[(&str, &[u8], usize, &[(&str, String)])]) -> Vec<u8> {
    let shards = shards.iter().map(|(name, bytes, samples, hashes)| {
        let hashes: BTreeMap<_, _> = hashes.iter().cloned().collect();
        json!({
            "column_encodings": ["jpeg", "int"], "column_names": ["image", "label"], "column_sizes": [null, 8],
            "compression": null, "format": "mds", "hashes": hashes.keys().collect::<Vec<_>>(),
            "raw_data": {"basename": name, "bytes": bytes.len(), "hashes": hashes},
            "samples": samples, "size_limit": null, "version": 2, "zip_data": null,
        })
    });
    json!({"shards": shards.collect::<Vec<_>>(), "version": 2}).to_string().into_bytes()
}

/// A parquet file in the layout of Hugging Face datasets: `image` is a struct of bytes and path, `label` a class label with these
/// names. A path of `None` is null.
pub fn parquet_file(names: &[&str], rows: &[(Option<i64>, Vec<u8>, Option<&str>)]) -> Vec<u8> {
    let schema = "message schema {
        optional group image { optional binary bytes; optional binary path (UTF8); }
        optional int64 label;
    }";
    let label = match names {
        [] => json!({"dtype": "int64", "_type": "Value"}),
        names => json!({"names": names, "_type": "ClassLabel"}),
    };
    let note = json!({"info": {"features": {"image": {"_type": "Image"}, "label": label}}}).to_string();
    let note = KeyValue::new("huggingface".to_owned(), note);
    let properties = WriterProperties::builder().set_key_value_metadata(Some(vec![note])).build();
    let schema = Arc::new(parse_message_type(schema).unwrap());
    let mut writer = SerializedFileWriter::new(Vec::new(), schema, Arc::new(properties)).unwrap();
    let mut group = writer.next_row_group().unwrap();
    let mut bytes = |values: Vec<Option<&[u8]>>| {
        let levels: Vec<i16> = values.iter().map(|value| 1 + i16::from(value.is_some())).collect();
        let values: Vec<ByteArray> =
            values.into_iter().flatten().map(|value| ByteArray::from(value.to_vec())).collect();
        let mut column = group.next_column().unwrap().unwrap();
        let ColumnWriter::ByteArrayColumnWriter(writer) = column.untyped() else { panic!("another type") };
        writer.write_batch(&values, Some(&levels), None).unwrap();
        column.close().unwrap();
    };
    bytes(rows.iter().map(|(_, image, _)| Some(image.as_slice())).collect());
    bytes(rows.iter().map(|(_, _, path)| path.map(str::as_bytes)).collect());
    let levels: Vec<i16> = rows.iter().map(|(label, ..)| i16::from(label.is_some())).collect();
    let values: Vec<i64> = rows.iter().filter_map(|(label, ..)| *label).collect();
    let mut column = group.next_column().unwrap().unwrap();
    let ColumnWriter::Int64ColumnWriter(labels) = column.untyped() else { panic!("another type") };
    labels.write_batch(&values, Some(&levels), None).unwrap();
    column.close().unwrap();
    group.close().unwrap();
    writer.into_inner().unwrap()
}

/// The formats of [`written_by_hand`].
pub const BY_HAND: [&str; 5] = ["webdataset", "tfrecord", "recordio", "mds", "parquet"];

/// Name and bytes of a shard of `format` with these samples, in the layout of another program.
pub fn written_by_hand(format: &str, samples: &[Sample]) -> (&'static str, Vec<u8>) {
    match format {
        "webdataset" => {
            let tar = samples.iter().enumerate().fold(Tar::new(), |tar, (number, (label, image))| {
                tar.sample(&format!("{number:05}"), &label.to_string(), image)
            });
            ("x.tar", tar.bytes())
        }
        "tfrecord" => {
            let record = |(label, image): &Sample| {
                tf_record(&[("image/encoded", Feature::Bytes(image)), ("image/class/label", Feature::Ints(&[*label]))])
            };
            ("x.tfrecord", samples.iter().flat_map(record).collect())
        }
        "recordio" => {
            let records = samples.iter().enumerate();
            ("x.rec", records.flat_map(|(id, (label, image))| rec_record(id as u64, &[*label as f32], image)).collect())
        }
        "mds" => ("x.mds", mds_shard(samples)),
        _ => {
            let rows: Vec<_> = samples.iter().map(|(label, image)| (Some(*label), image.clone(), None)).collect();
            ("x.parquet", parquet_file(&[], &rows))
        }
    }
}

/// SHA-1 in hexadecimal, as in an `index.json`.
pub fn sha1(bytes: &[u8]) -> String {
    use sha1::Digest;
    hash::hex(&sha1::Sha1::digest(bytes))
}

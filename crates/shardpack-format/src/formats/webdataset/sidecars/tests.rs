use super::*;
use crate::{
    formats::{Choice, Format as _, sidecars::tests::Memory, tests::record, webdataset::WebDataset},
    image_header::{Header, Mode},
    index::{self, Index, Summary},
    manifest::{self, Blake3, Class, Counts},
    sample::{Row, Sample},
};

type ImageKind = crate::image_header::Kind;

/// A dataset whose indexes are in memory.
struct Sealed {
    name: &'static str,
    components: Vec<String>,
    compression: &'static str,
    classes: Vec<Class>,
    shards: Vec<Shard>,
    rows: Vec<Vec<Row>>,
}

impl Sealed {
    /// Two shards of two samples and one: components in 1,536 bytes, label first.
    fn small(image: &str) -> Self {
        let row = |key: &str, offset, kind| Row {
            key: key.into(),
            path: Vec::new(),
            label: Some(0),
            offset,
            record_bytes: 3072,
            components: vec![
                Extent { offset: 1536, bytes: 700 },
                Extent { offset: 512, bytes: 1 },
                Extent { offset: 2560, bytes: 9 },
            ],
            content_hash: 0,
            details: Vec::new(),
            frame_hash: 0,
            image: Header { kind, width: 0, height: 0, mode: Mode::Unknown, depth: 0 },
            in_parts: false,
        };
        let rows = vec![
            vec![row("00000000", 0, ImageKind::Jpeg), row("00000001", 3072, ImageKind::Png)],
            vec![row("00000002", 0, ImageKind::Jpeg)],
        ];
        Self {
            name: "train",
            components: [image, "cls", "json"].map(str::to_owned).to_vec(),
            compression: "none",
            classes: vec![Class::new(b"tench", Counts::default())],
            shards: vec![shard("train-000000.tar", 2), shard("train-000001.tar", 1)],
            rows,
        }
    }

    fn write(&self, sidecar: &str) -> Memory {
        let open = |number: usize| {
            let summary = Summary {
                forms: Vec::new(),
                components: self.components.clone(),
                content_bytes: 1 << 40,
                shard_bytes: 0,
                shard_blake3: [0; 32],
            };
            Index::open(index::write(&summary, &self.rows[number])?)
        };
        let mut kinds = BTreeMap::new();
        for row in self.rows.iter().flatten() {
            *kinds.entry(row.image.kind.name().to_owned()).or_default() += 1;
        }
        let dataset = Dataset {
            kinds: &kinds,
            name: self.name,
            shards: &self.shards,
            classes: &self.classes,
            samples: self.shards.iter().map(|shard| shard.samples).sum(),
            components: &self.components,
            settings: &BTreeMap::new(),
            compression: self.compression,
            hashes: &vec![BTreeMap::from([("sha256".to_owned(), "00ff".to_owned())]); self.shards.len()],
            unpacked: &[],
            index: &open,
        };
        let mut files = Memory::default();
        let format = WebDataset::new(Choice::new("webdataset"));
        for (number, shard) in self.shards.iter().enumerate() {
            let index = open(number).unwrap();
            let of =
                sidecars::Sealed { shard, index: &index, components: &self.components, compression: self.compression };
            format.shard_sidecar(sidecar, &of, &mut files).unwrap();
        }
        format.sidecar(sidecar, &dataset, &mut files).unwrap();
        files
    }
}

fn shard(file: &str, samples: u64) -> Shard {
    let index = manifest::File::default();
    Shard { file: file.to_owned(), samples, bytes: 10_240, blake3: Blake3([0; 32]), index }
}

fn numbers(bytes: &[u8]) -> Vec<u64> {
    bytes.chunks(8).map(|number| u64::from_le_bytes(number.try_into().unwrap())).collect()
}

#[test]
fn a_card_without_splits_is_of_the_split_train() {
    let files = Sealed { name: "photos", ..Sealed::small("{kind}") }.write("card");
    let [(name, card)] = files.text()[..] else { panic!("one file") };
    assert!(sidecars::is_ours(name, card.as_bytes()) && !sidecars::is_ours(name, b"# My dataset"));
    assert!(sidecars::is_shared_name("val/README.md") && sidecars::is_ours("classes.txt", b""));
    let front = "---\n# Written by shardpack. verify reports a changed card.\nconfigs:\n- config_name: default\n  data_files:\n  \
        - split: \"train\"\n    path: \"photos-*.tar\"\ndataset_info:\n  features:\n  - name: \"jpg\"\n    dtype: image\n  \
        - name: \"png\"\n    dtype: image\n  - name: \"cls\"\n    dtype:\n      class_label:\n        names:\n          \
        \"0\": \"tench\"\n  - name: \"json\"\n    dtype: json\n  - name: __key__\n    dtype: string\n  - name: __url__\n    \
        dtype: string\n  splits:\n  - name: \"train\"\n    num_bytes: 20480\n    num_examples: 3\nsize_categories:\n- n<1K\ntags:\n- webdataset\n---\n";
    assert!(card.starts_with(front), "{card}");
    assert!(card.contains("| train | 3 | 2 | 20.0 KiB | see manifest.json |"), "{card}");
}

#[test]
fn croissant_needs_the_hashes_of_shards() {
    let sealed = Sealed::small("jpg");
    let dataset = Dataset {
        kinds: &BTreeMap::new(),
        name: sealed.name,
        shards: &sealed.shards,
        classes: &sealed.classes,
        samples: 3,
        components: &sealed.components,
        settings: &BTreeMap::new(),
        compression: "none",
        hashes: &[],
        unpacked: &[],
        index: &|_| Err(Error::usage("not asked for")),
    };
    let format = WebDataset::new(Choice::new("webdataset"));
    assert!(format.sidecar("croissant", &dataset, &mut Memory::default()).is_err());
    let files = sealed.write("croissant");
    let [(name, text)] = files.text()[..] else { panic!("one file") };
    let json: serde_json::Value = serde_json::from_str(text).unwrap();
    assert_eq!((name, &json["distribution"][1]["sha256"]), ("croissant.json", &"00ff".into()));
    assert_eq!(json["distribution"][1]["contentUrl"], "train-000001.tar");
    let names: Vec<_> = json["recordSet"].as_array().unwrap().iter().map(|set| set["@id"].as_str().unwrap()).collect();
    assert_eq!(names, ["train/jpg/records", "train/cls/records", "train/json/records", "train", "classes/names"]);
    assert!(sidecars::is_ours(name, text.as_bytes()) && !sidecars::is_ours(name, b"{}"));
}

#[test]
fn dali_reads_where_the_data_of_each_component_begins() {
    let first = "v1.2 2\n\
        cls 512 1 00000000.cls jpg 1536 700 00000000.jpg json 2560 9 00000000.json\n\
        cls 3584 1 00000001.cls jpg 4608 700 00000001.jpg json 5632 9 00000001.json\n";
    let second = "v1.2 1\ncls 512 1 00000002.cls jpg 1536 700 00000002.jpg json 2560 9 00000002.json\n";
    assert_eq!(Sealed::small("jpg").write("dali").text(), [("train-000000.idx", first), ("train-000001.idx", second)]);
}

#[test]
fn dali_reads_no_names_where_one_has_a_space_and_each_image_by_its_own_kind() {
    let mut sealed = Sealed::small(manifest::BY_KIND);
    sealed.rows[0][1].key = b"a b".to_vec();
    sealed.rows[0][1].components[2] = Extent::ABSENT;
    let first = "v1.1 2\ncls 512 1 jpg 1536 700 json 2560 9\ncls 3584 1 png 4608 700\n";
    assert_eq!(sealed.write("dali").text()[0], ("train-000000.idx", first));
}

#[test]
fn wids_reads_names_and_lengths() {
    let expected = r#"{
  "__kind__": "wids-shard-index-v1",
  "wids_version": 1,
  "name": "train",
  "shardlist": [
    {
      "url": "train-000000.tar",
      "nsamples": 2,
      "filesize": 10240
    },
    {
      "url": "train-000001.tar",
      "nsamples": 1,
      "filesize": 10240
    }
  ]
}
"#;
    assert_eq!(Sealed::small("jpg").write("wids").text(), [("wids.json", expected)]);
}

#[test]
fn energon_reads_offsets_of_samples_and_its_folder() {
    let files = Sealed::small("jpg").write("energon");
    let offsets: Vec<_> = files.0[..2].iter().map(|(name, bytes)| (name.as_str(), numbers(bytes))).collect();
    assert_eq!(offsets, [("train-000000.tar.idx", vec![0, 3072, 6144]), ("train-000001.tar.idx", vec![0, 3072])]);
    let info = "{\n  \"shard_counts\": {\n    \"train-000000.tar\": 2,\n    \"train-000001.tar\": 1\n  }\n}\n";
    let split = "split_parts:\n  train:\n  - \"train-{000000..000001}.tar\"\n  val: []\n  test: []\nexclude: []\n";
    let dataset = "sample_type:\n  __module__: megatron.energon\n  __class__: ImageClassificationSample\n\
        field_map:\n  image: \"jpg\"\n  label: \"cls\"\n";
    let rest = Memory(files.0[2..].to_vec());
    let expected = [(".nv-meta/.info.json", info), (".nv-meta/split.yaml", split), (".nv-meta/dataset.yaml", dataset)];
    assert_eq!(rest.text(), expected);
}

#[test]
fn energon_takes_the_split_from_the_name_and_all_kinds_of_images() {
    for (name, part) in [("val", "val"), ("valid", "val"), ("validation", "val"), ("test", "test"), ("x", "train")] {
        let sealed = Sealed { name, ..Sealed::small(manifest::BY_KIND) };
        let files = Memory(sealed.write("energon").0[2..].to_vec());
        // The shards are not called after the dataset, so they are listed.
        let own = format!("  {part}:\n  - \"train-000000.tar\"\n  - \"train-000001.tar\"\n");
        assert!(files.text()[1].1.contains(&own), "{name}");
        assert!(files.text()[2].1.contains("  image: \"jpg,png\"\n"));
    }
    let mut one = Sealed::small("jpg");
    one.shards.truncate(1);
    one.components.truncate(1);
    one.rows.iter_mut().flatten().for_each(|row| row.components.truncate(1));
    let files = Memory(one.write("energon").0[1..].to_vec());
    assert!(files.text()[1].1.contains("  train:\n  - \"train-000000.tar\"\n  val"));
    assert!(files.text()[2].1.ends_with("field_map:\n  image: \"jpg\"\n"));
}

#[test]
fn timm_and_openclip_read_how_many_samples_each_shard_has() {
    let info = r#"{
  "splits": {
    "train": {
      "name": "train",
      "num_samples": 3,
      "filenames": [
        "train-000000.tar",
        "train-000001.tar"
      ],
      "shard_lengths": [
        2,
        1
      ]
    }
  }
}
"#;
    assert_eq!(Sealed::small("jpg").write("timm").text(), [("_info.json", info)]);
    let sizes = "{\n  \"train-000000.tar\": 2,\n  \"train-000001.tar\": 1\n}\n";
    assert_eq!(Sealed::small("jpg").write("openclip").text(), [("sizes.json", sizes)]);
    assert_eq!(Sealed::small("jpg").write("classes").text(), [("classes.txt", "tench\n")]);
    assert_eq!(Sealed::small("jpg").write("labels").text(), [("labels.json", "{\n  \"tench\": 0\n}\n")]);
}

#[test]
fn every_sidecar_is_known_and_offsets_of_compressed_shards_are_not_told() {
    for kind in KINDS {
        assert!(!Sealed::small("jpg").write(kind.name).0.is_empty(), "{}", kind.name);
        let packed = Sealed { compression: "zstd:3", ..Sealed::small("jpg") }.write(kind.name);
        assert_eq!(packed.0.is_empty(), ["dali", "wids", "energon"].contains(&kind.name), "{}", kind.name);
    }
}

#[test]
fn offsets_point_at_the_bytes_of_real_records() {
    for extension in [Some("jpg"), None] {
        let choice = Choice { extension: extension.map(str::to_owned), json: true, ..Choice::new("webdataset") };
        let format = WebDataset::new(choice);
        let payloads: [(&str, &[u8], ImageKind); 2] =
            [("00000000", &[7; 700], ImageKind::Jpeg), ("00000001", &[9; 512], ImageKind::Png)];
        let (mut tar, mut rows) = (Vec::new(), Vec::new());
        for (key, payload, kind) in payloads {
            let (class, path, payload_bytes) = (b"tench", b"tench/a.jpg", payload.len() as u32);
            let sample =
                Sample { key, label: Some(42), class, path, payload_bytes, components: &[], forms: Default::default() };
            let image = Header { kind, width: 0, height: 0, mode: Mode::Unknown, depth: 0 };
            let (record, row) = record(&format, &sample, payload, image).unwrap();
            rows.push(Row { offset: tar.len() as u64, ..row });
            tar.extend(record);
        }
        let end = tar.len();
        let components = format.components().to_vec();
        let sealed =
            Sealed { components, shards: vec![shard("train-000000.tar", 2)], rows: vec![rows], ..Sealed::small("") };

        let files = sealed.write("dali");
        let lines: Vec<_> = files.text()[0].1.lines().skip(1).collect();
        assert_eq!(lines.len(), 2);
        for (line, (key, payload, kind)) in lines.iter().zip(payloads) {
            let words: Vec<_> = line.split(' ').collect();
            assert_eq!(words.len(), 12);
            let mut offsets = Vec::new();
            for component in words.chunks(4) {
                let [extension, offset, bytes, name] = component else { unreachable!() };
                let offset: usize = offset.parse().unwrap();
                let data = &tar[offset..][..bytes.parse().unwrap()];
                assert_eq!((offset % 512, *name), (0, format!("{key}.{extension}").as_str()));
                assert!(tar[offset - 512..].starts_with(format!("{name}\0").as_bytes()));
                match *extension {
                    "cls" => assert_eq!(data, b"42"),
                    "json" => assert!(data.starts_with(b"{\"class\":\"tench\"") && data.ends_with(b"}")),
                    _ => assert_eq!((data, *extension), (payload, formats::extension(&sealed.components[0], kind))),
                }
                offsets.push(offset);
            }
            assert!(offsets.is_sorted());
        }

        let offsets = numbers(&sealed.write("energon").0[0].1);
        assert_eq!(offsets.len(), 3);
        for (offset, (key, ..)) in offsets.iter().zip(payloads) {
            let block = &tar[*offset as usize..][..512];
            assert!(block.starts_with(format!("{key}.cls\0").as_bytes()) && &block[257..263] == b"ustar\0");
        }
        assert_eq!(offsets[2], end as u64);
    }
}

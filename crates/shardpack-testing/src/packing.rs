//! Packs small datasets with the writers of shardpack-format.

/// Options for a small dataset: WebDataset with `cls` and `json`, classes `cats` and `dogs` in turn.
#[derive(Clone, Debug)]
pub struct Packing {
    pub name: String,
    pub shard_samples: usize,
    pub block_samples: usize,
    /// zstd level; `None` for no compression.
    pub zstd: Option<i32>,
    /// Key of a sample by its number.
    pub key: fn(usize) -> String,
}

impl Default for Packing {
    fn default() -> Self {
        Self {
            name: "shard".to_owned(),
            shard_samples: 100,
            block_samples: 4,
            zstd: None,
            key: |number| format!("{number:08}"),
        }
    }
}

impl Packing {
    /// Packs `images` into `folder`, and creates `folder`. The image of sample `n` is `images[n]`.
    pub fn pack(&self, folder: &std::path::Path, images: &[Vec<u8>]) {
        self.pack_shards(folder, &images.chunks(self.shard_samples).collect::<Vec<_>>());
    }

    /// Packs each of `shards` as one shard, empty ones too.
    pub fn pack_shards(&self, folder: &std::path::Path, shards: &[&[Vec<u8>]]) {
        use shardpack_format::{formats::Format as _, hash, index, manifest as m};
        let format = shardpack_format::formats::webdataset::WebDataset::new(shardpack_format::formats::Choice {
            extension: Some("jpg".to_owned()),
            json: true,
            ..shardpack_format::formats::Choice::new("webdataset")
        });
        std::fs::create_dir_all(folder.join(m::INDEX_FOLDER)).unwrap();
        let (mut number, mut packed, mut payload_bytes) = (0, [0u64; 2], 0);
        let mut entries = Vec::new();
        for (shard, images) in shards.iter().enumerate() {
            let (mut content, mut rows) = (Vec::new(), Vec::new());
            for image in *images {
                let row = self.record(&format, number, image, &mut content);
                packed[number % 2] += 1;
                payload_bytes += image.len() as u64;
                rows.push(row);
                number += 1;
            }
            let tail = format.tail_bytes(images.len() as u64, content.len() as u64);
            content.resize(content.len() + tail as usize, 0);
            let bytes = self.compress(&content, &rows);
            let extension = if self.zstd.is_some() { ".zst" } else { "" };
            let file = format.shard_file(&self.name, shard as u64, shards.len() as u64) + extension;
            let summary = index::Summary {
                forms: Vec::new(),
                components: format.components().to_vec(),
                content_bytes: content.len() as u64,
                shard_bytes: bytes.len() as u64,
                shard_blake3: hash::file(&bytes),
            };
            let index_bytes = index::write(&summary, &rows).unwrap();
            let index_file = format!("{}/{}-{shard:06}.index", m::INDEX_FOLDER, self.name);
            std::fs::write(folder.join(&file), &bytes).unwrap();
            std::fs::write(folder.join(&index_file), &index_bytes).unwrap();
            entries.push(m::Shard {
                file,
                samples: rows.len() as u64,
                bytes: bytes.len() as u64,
                blake3: m::Blake3(summary.shard_blake3),
                index: m::File {
                    file: index_file,
                    bytes: index_bytes.len() as u64,
                    blake3: m::Blake3(hash::file(&index_bytes)),
                },
            });
        }
        let manifest = self.manifest(format.components().to_vec(), entries, packed, payload_bytes);
        std::fs::write(folder.join(m::FILE), manifest.to_bytes().unwrap().0).unwrap();
    }

    /// Appends the record of sample `number` to `content`.
    fn record(
        &self,
        format: &shardpack_format::formats::webdataset::WebDataset,
        number: usize,
        image: &[u8],
        content: &mut Vec<u8>,
    ) -> shardpack_format::sample::Row {
        use shardpack_format::{formats::Format as _, hash, image_header::Header, sample};
        let (class, key) = (["cats", "dogs"][number % 2], (self.key)(number));
        let path = format!("{class}/{number}.jpg");
        let sample = sample::Sample {
            key: &key,
            label: Some((number % 2) as i64),
            class: class.as_bytes(),
            path: path.as_bytes(),
            payload_bytes: image.len() as u32,
            components: &[],
            forms: Default::default(),
        };
        let layout = format.layout(&sample).unwrap();
        let header = Header::parse(image);
        let offset = content.len();
        content.resize(offset + layout.record_bytes as usize, 0);
        let record = &mut content[offset..];
        let start = layout.components[0].offset as usize;
        record[start..start + image.len()].copy_from_slice(image);
        format.frame(&sample, &header, record).unwrap();
        sample::Row {
            details: Vec::new(),
            key: key.clone().into_bytes(),
            path: path.clone().into_bytes(),
            label: sample.label,
            offset: offset as u64,
            record_bytes: layout.record_bytes,
            components: layout.components[..format.components().len()].to_vec(),
            content_hash: hash::content(image),
            frame_hash: {
                let covered = start..start + image.len();
                hash::frame(record, &mut [covered])
            },
            image: header,
            in_parts: false,
        }
    }

    /// The bytes of a shard file: the content, or one zstd frame per block of samples, a frame for the rest, and the seek table.
    fn compress(&self, content: &[u8], rows: &[shardpack_format::sample::Row]) -> Vec<u8> {
        let Some(level) = self.zstd else { return content.to_vec() };
        let starts = rows.iter().step_by(self.block_samples).map(|row| row.offset as usize);
        let tail = rows.last().map_or(0, |row| row.offset as usize + row.record_bytes as usize);
        let cuts: Vec<usize> = starts.chain([tail, content.len()]).collect();
        let mut table = shardpack_format::seekable::SeekTable::default();
        let mut out = Vec::new();
        let mut compressor = zstd::bulk::Compressor::new(level).unwrap();
        compressor.include_checksum(true).unwrap();
        for cut in cuts.windows(2).filter(|cut| cut[0] < cut[1]) {
            let frame = compressor.compress(&content[cut[0]..cut[1]]).unwrap();
            table.push(frame.len(), cut[1] - cut[0]).unwrap();
            out.extend_from_slice(&frame);
        }
        out.extend_from_slice(&table.to_bytes());
        out
    }

    fn manifest(
        &self,
        components: Vec<String>,
        shards: Vec<shardpack_format::manifest::Shard>,
        packed: [u64; 2],
        payload_bytes: u64,
    ) -> shardpack_format::manifest::Manifest {
        use shardpack_format::manifest as m;
        let counts = |packed| m::Counts { discovered: packed, packed, ..m::Counts::default() };
        let samples = packed[0] + packed[1];
        m::Manifest {
            schema: m::SCHEMA.to_owned(),
            id: m::Blake3::default(),
            name: self.name.clone(),
            format: m::Format {
                name: "webdataset".to_owned(),
                compression: self.zstd.map_or_else(|| "none".to_owned(), |level| format!("zstd:{level}")),
                settings: std::collections::BTreeMap::new(),
            },
            order: m::Order { algorithm: "source".to_owned(), seed: 0 },
            recipe: None,
            samples,
            payload_bytes,
            shard_bytes: shards.iter().map(|shard| shard.bytes).sum(),
            block_samples: self.block_samples as u64,
            components,
            kinds: std::collections::BTreeMap::from([("unknown".to_owned(), samples)]),
            ledger: m::Ledger { counts: counts(samples), unclassified: m::Counts::default(), file: None },
            ignored_files: std::collections::BTreeMap::new(),
            plan: m::Blake3::default(),
            classes: vec![m::Class::new(b"cats", counts(packed[0])), m::Class::new(b"dogs", counts(packed[1]))],
            shards,
            sidecars: Vec::new(),
        }
    }
}

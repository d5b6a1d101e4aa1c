//! Sidecars of tar shards, so that no reader has to walk the shards first.
//!
//! Holds at all times: offsets are offsets in the tar itself, so for compressed shards no sidecar with offsets is
//! written, and none that only readers of plain tars read; the bytes follow from manifest and indexes alone.
//! Source: DALI `indexed_file_index`/`wds2idx` (v1.2); wids of webdataset 0.2.111; megatron-energon 7.4.1; timm
//! `reader_wds`; open_clip `data.py`.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Write as _,
};

use serde::Serialize;

use super::{card, columns::Part, croissant};
use crate::{
    Error, Result,
    formats::{
        self,
        sidecars::{self, Dataset, Files, Kind, Sealed},
    },
    image_header::Kind as ImageKind,
    index::{Index, RowRef},
    manifest::Shard,
    sample::Extent,
};

const OF_DATASET: Kind = Kind { auto: true, ..sidecars::CLASSES };

/// All sidecars of the format.
pub(super) const KINDS: &[Kind] = &[
    Kind {
        name: "dali",
        about: "offsets of all components, for NVIDIA DALI: one .idx for each shard",
        files: &["{stem}.idx"],
        auto: true,
        of_shards: true,
        path_fits: None,
        catalogue: None,
    },
    Kind {
        name: "wids",
        about: "list of shards, for random access with wids: wids.json",
        files: &["wids.json"],
        ..OF_DATASET
    },
    Kind {
        name: "energon",
        about: "offsets of all samples and .nv-meta, for Megatron Energon; without its index.sqlite",
        files: &["{shard}.idx", ".nv-meta/.info.json", ".nv-meta/split.yaml", ".nv-meta/dataset.yaml"],
        auto: true,
        of_shards: true,
        path_fits: None,
        catalogue: None,
    },
    Kind {
        name: "timm",
        about: "shards and their lengths, for timm: _info.json",
        files: &["_info.json"],
        ..OF_DATASET
    },
    Kind {
        name: "openclip",
        about: "number of samples in each shard, for OpenCLIP: sizes.json",
        files: &["sizes.json"],
        ..OF_DATASET
    },
    OF_DATASET,
    sidecars::LABELS,
    Kind {
        name: "card",
        about: "dataset card, for load_dataset of Hugging Face datasets and the Hub: README.md; also beside splits",
        files: &[card::CATALOGUE.file],
        catalogue: Some(&card::CATALOGUE),
        ..sidecars::CLASSES
    },
    Kind {
        name: "croissant",
        about: "Croissant 1.0 metadata, for mlcroissant and search engines: croissant.json; also beside splits",
        files: &[croissant::CATALOGUE.file],
        catalogue: Some(&croissant::CATALOGUE),
        ..sidecars::CLASSES
    },
];

/// Bytes collected before a write to the file.
const PIECE_BYTES: usize = 64 << 10;

/// Writes the part of one shard of the sidecar `name`.
pub(super) fn write_of_shard(name: &str, of: &Sealed<'_>, files: &mut dyn Files) -> Result<()> {
    match name {
        "dali" if of.compression == "none" => dali(of, files),
        "energon" if of.compression == "none" => energon_offsets(of, files),
        _ => Ok(()),
    }
}

/// Writes the part of the whole dataset of the sidecar `name`.
pub(super) fn write(name: &str, dataset: &Dataset<'_>, license: Option<&str>, files: &mut dyn Files) -> Result<()> {
    let is_plain = dataset.compression == "none";
    match name {
        "dali" => Ok(()),
        "wids" | "energon" if !is_plain => Ok(()),
        "wids" => wids(dataset, files),
        "energon" => energon(dataset, files),
        "timm" => timm(dataset, files),
        "openclip" => {
            let sizes = dataset.shards.iter().map(|shard| (shard.file.as_str(), shard.samples));
            sidecars::json("sizes.json", &sidecars::Pairs::new(sizes), files)
        }
        "card" => card::write(&Part::of_dataset(dataset, license)?, files),
        "croissant" => croissant::write(&Part::of_dataset(dataset, license)?, dataset.hashes, files),
        _ => sidecars::write(super::NAME, name, dataset, files),
    }
}

/// A line with version and number of samples, then a line a sample: of each component extension, offset of its data in
/// the tar, length, and name of the member.
fn dali(of: &Sealed<'_>, files: &mut dyn Files) -> Result<()> {
    let text = match dali_text(of.index, of.components, true)? {
        None => dali_text(of.index, of.components, false)?,
        named => named,
    };
    files.begin(&format!("{}.idx", of.shard.file.strip_suffix(".tar").unwrap_or(&of.shard.file)))?;
    files.write(text.unwrap_or_default().as_bytes())
}

/// The text that [`dali`] writes for one shard, in v1.2 with names or in v1.1 without.
///
/// `None` where a name that is wanted has a space: DALI reads word by word, so it would break its line.
fn dali_text(index: &Index<Vec<u8>>, components: &[String], has_names: bool) -> Result<Option<String>> {
    let mut text = format!("{} {}\n", if has_names { "v1.2" } else { "v1.1" }, index.len());
    for row in index.iter() {
        let row = row?;
        if has_names && row.key.iter().any(|byte| byte.is_ascii_whitespace() || *byte == 0x0b) {
            return Ok(None);
        }
        let key = String::from_utf8_lossy(row.key);
        for (place, (extension, extent)) in stored(&row, components).into_iter().enumerate() {
            let (space, offset) = (if place == 0 { "" } else { " " }, row.offset + u64::from(extent.offset));
            // Writing to a string cannot fail.
            let _ = write!(text, "{space}{extension} {offset} {}", extent.bytes);
            if has_names {
                let _ = write!(text, " {key}.{extension}");
            }
        }
        text.push('\n');
    }
    Ok(Some(text))
}

/// The components that a sample has, each with its extension, in the order in which they lie in the record.
fn stored<'a>(row: &RowRef<'_>, components: &'a [String]) -> Vec<(&'a str, Extent)> {
    let named =
        |(number, name): (usize, &'a String)| Some((formats::extension(name, row.image.kind), row.component(number)?));
    let mut stored: Vec<_> = components.iter().enumerate().filter_map(named).collect();
    stored.sort_by_key(|(_, extent)| extent.offset);
    stored
}

#[derive(Serialize)]
struct Wids<'a> {
    #[serde(rename = "__kind__")]
    kind: &'a str,
    wids_version: u32,
    name: &'a str,
    shardlist: Vec<WidsShard<'a>>,
}

#[derive(Serialize)]
struct WidsShard<'a> {
    url: &'a str,
    nsamples: u64,
    filesize: u64,
}

/// Without `md5sum`, which the reader does not ask for: the manifest has better hashes.
fn wids(dataset: &Dataset<'_>, files: &mut dyn Files) -> Result<()> {
    let shards = dataset.shards.iter();
    let shardlist =
        shards.map(|shard| WidsShard { url: &shard.file, nsamples: shard.samples, filesize: shard.bytes }).collect();
    let list = Wids { kind: "wids-shard-index-v1", wids_version: 1, name: dataset.name, shardlist };
    sidecars::json("wids.json", &list, files)
}

#[derive(Serialize)]
struct EnergonInfo<'a> {
    shard_counts: sidecars::Pairs<'a>,
}

/// The offset of each sample's first header and of the end of the last sample.
fn energon_offsets(of: &Sealed<'_>, files: &mut dyn Files) -> Result<()> {
    files.begin(&format!("{}.idx", of.shard.file))?;
    let (mut bytes, mut end) = (Vec::new(), 0);
    for row in of.index.iter() {
        let row = row?;
        bytes.extend_from_slice(&row.offset.to_le_bytes());
        end = row.offset + u64::from(row.record_bytes);
        if bytes.len() >= PIECE_BYTES {
            files.write(&bytes)?;
            bytes.clear();
        }
    }
    bytes.extend_from_slice(&end.to_le_bytes());
    files.write(&bytes)
}

/// The answers that `energon prepare` requests from a person.
///
/// `index.sqlite` is not written: only joining datasets and looking up keys need it, and `energon prepare` makes it.
fn energon(dataset: &Dataset<'_>, files: &mut dyn Files) -> Result<()> {
    let image = dataset.components.first().map_or("jpg", String::as_str);
    let kinds = ImageKind::ALL.into_iter().filter(|kind| dataset.kinds.contains_key(kind.name()));
    let extensions: BTreeSet<&str> = kinds.map(|kind| formats::extension(image, kind)).collect();
    // Its reader refuses keys that it does not know; the version may be left out.
    let counts = dataset.shards.iter().map(|shard| (shard.file.as_str(), shard.samples));
    sidecars::json(".nv-meta/.info.json", &EnergonInfo { shard_counts: sidecars::Pairs::new(counts) }, files)?;
    files.begin(".nv-meta/split.yaml")?;
    files.write(split_yaml(dataset)?.as_bytes())?;
    files.begin(".nv-meta/dataset.yaml")?;
    files.write(dataset_yaml(dataset, &extensions)?.as_bytes())
}

/// Puts all shards in the part that the dataset's name determines.
fn split_yaml(dataset: &Dataset<'_>) -> Result<String> {
    let own = match dataset.name {
        "val" | "valid" | "validation" => "val",
        "test" => "test",
        _ => "train",
    };
    let shards = match range(dataset) {
        Some(range) => vec![range],
        None => dataset.shards.iter().map(|shard| shard.file.clone()).collect(),
    };
    let mut text = "split_parts:\n".to_owned();
    for part in ["train", "val", "test"] {
        text += &format!("  {part}:{}\n", if part == own { "" } else { " []" });
        for shard in shards.iter().filter(|_| part == own) {
            text += &format!("  - {}\n", quoted(shard)?);
        }
    }
    text += "exclude: []\n";
    Ok(text)
}

/// The names of all shards in one, with the numbers in braces; `None` where they are not called so.
fn range(dataset: &Dataset<'_>) -> Option<String> {
    let (name, shards) = (dataset.name, dataset.shards);
    let is_next = |(number, shard): (usize, &Shard)| shard.file == format!("{name}-{number:06}.tar");
    // From a million on, the numbers do not have one width; braces in the name would be expanded too.
    let fits = (2..=1_000_000).contains(&shards.len()) && !name.contains(['{', '}']);
    let is_range = fits && shards.iter().enumerate().all(is_next);
    is_range.then(|| format!("{name}-{{000000..{:06}}}.tar", shards.len() - 1))
}

fn dataset_yaml(dataset: &Dataset<'_>, extensions: &BTreeSet<&str>) -> Result<String> {
    // Alternatives are separated by commas, and the first one that a sample has is taken.
    let image = extensions.iter().copied().collect::<Vec<_>>().join(",");
    let mut text = format!(
        "sample_type:\n  __module__: megatron.energon\n  __class__: ImageClassificationSample\n\
         field_map:\n  image: {}\n",
        quoted(&image)?
    );
    if dataset.components.iter().any(|name| name == "cls") {
        text += "  label: \"cls\"\n";
    }
    Ok(text)
}

/// `text` as a scalar of YAML: a string of JSON is one.
fn quoted(text: &str) -> Result<String> {
    serde_json::to_string(text).map_err(|error| Error::data(format!("cannot write {text:?}: {error}")))
}

#[derive(Serialize)]
struct TimmSplit<'a> {
    name: &'a str,
    num_samples: u64,
    filenames: Vec<&'a str>,
    shard_lengths: Vec<u64>,
}

#[derive(Serialize)]
struct Timm<'a> {
    splits: BTreeMap<&'a str, TimmSplit<'a>>,
}

fn timm(dataset: &Dataset<'_>, files: &mut dyn Files) -> Result<()> {
    let split = TimmSplit {
        name: dataset.name,
        num_samples: dataset.samples,
        filenames: dataset.shards.iter().map(|shard| shard.file.as_str()).collect(),
        shard_lengths: dataset.shards.iter().map(|shard| shard.samples).collect(),
    };
    sidecars::json("_info.json", &Timm { splits: [(dataset.name, split)].into() }, files)
}

#[cfg(test)]
mod tests;

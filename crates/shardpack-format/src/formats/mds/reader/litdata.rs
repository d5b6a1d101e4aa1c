//! Chunks of LitData: the table of offsets and the samples of an MDS shard, without a config. The `index.json` beside the chunks has
//! the columns of all of them.
//!
//! Every column has its length in each sample. The serializers of LitData become encodings of streaming, or keep their name if streaming
//! has none: arrays and truth values. A value of another serializer (pickles, graphs, nested values) is no component, and is counted.
//!
//! Bytes behind the last sample are a copy of the samples in Arrow's format, which older readers do not read either.
//!
//! Source: LitData 0.2.45 and 0.2.76, `streaming/writer.py`, `serializers.py`, `framed_zstd.py` and `constants.py`;
//! `torch.utils._pytree` for the columns.

use std::collections::HashSet;

use serde::Deserialize;
use serde_json::Value;

use super::{
    super::layout::word,
    Shard,
    columns::{Column, Columns},
};
use crate::{
    Error, Result, component,
    formats::foreign::{FieldSelection, Input, Walk},
    size,
};

/// Deepest nesting of the columns.
const MAX_DEPTH: usize = 16;
/// Dtypes of numpy by number; the others are no numbers.
const NUMPY: [&str; 14] = [
    "int8",
    "int16",
    "int32",
    "int64",
    "uint8",
    "uint16",
    "uint32",
    "uint64",
    "float16",
    "float32",
    "float64",
    "complex64",
    "complex128",
    "bool",
];
/// Dtypes of torch by number. numpy has no bfloat16.
const TORCH: [&str; 21] = [
    "float32",
    "float32",
    "float64",
    "float64",
    "complex64",
    "complex64",
    "complex128",
    "complex128",
    "float16",
    "float16",
    "bfloat16",
    "uint8",
    "int8",
    "int16",
    "int16",
    "int32",
    "int32",
    "int64",
    "int64",
    "bool",
    "uint16",
];

/// The `index.json` of a dataset of LitData.
#[derive(Debug)]
pub struct Index {
    /// The chunks, in the order of the samples.
    pub chunks: Vec<Chunk>,
    /// Name and encoding of each column.
    columns: Vec<(String, String)>,
}

/// A chunk in an [`Index`].
#[derive(Debug, Deserialize)]
pub struct Chunk {
    /// Its file name.
    pub filename: String,
    /// Number of its samples.
    #[serde(rename = "chunk_size")]
    pub samples: u64,
}

#[derive(Deserialize)]
struct IndexJson {
    chunks: Vec<Chunk>,
    config: Config,
}

#[derive(Deserialize)]
struct Config {
    data_format: Vec<String>,
    data_spec: Option<String>,
    #[serde(default)]
    encryption: Option<Value>,
    #[serde(default)]
    item_loader: Option<String>,
    #[serde(default)]
    compression_level: Option<String>,
}

/// A node of the columns, as torch stores the structure of a sample.
#[derive(Deserialize)]
struct Spec {
    #[serde(rename = "type")]
    kind: Option<String>,
    context: Option<String>,
    children_spec: Vec<Spec>,
}

impl Index {
    /// Parses an `index.json`.
    ///
    /// # Errors
    /// If it is none of LitData, or its samples cannot be read: they are encrypted, or tokens without samples.
    pub fn parse(bytes: &[u8]) -> Result<Self> {
        let damaged = |what: String| Error::data(format!("no index.json of LitData: {what}"));
        let IndexJson { chunks, config } = serde_json::from_slice(bytes).map_err(|error| damaged(error.to_string()))?;
        if config.encryption.is_some_and(|how| !how.is_null()) {
            return Err(Error::data("its chunks are encrypted, and not read"));
        }
        if let Some(loader) = config.item_loader.filter(|loader| loader != "PyTreeLoader") {
            return Err(Error::data(format!("its chunks are for the {loader} of LitData, and not read")));
        }
        if config.compression_level.is_some_and(|level| level == "sample") {
            return Err(Error::data(
                "its samples are compressed one by one (compression_level=\"sample\"), and not read",
            ));
        }
        let spec = config.data_spec.ok_or_else(|| damaged("it has no data_spec".to_owned()))?;
        let (_, spec): (u64, Spec) = serde_json::from_str(&spec).map_err(|error| damaged(error.to_string()))?;
        let mut names = Vec::new();
        spec.names(String::new(), 0, &mut names).map_err(damaged)?;
        if names.len() != config.data_format.len() {
            return Err(damaged(format!("{} columns, and {} serializers", names.len(), config.data_format.len())));
        }
        let mut seen = HashSet::new();
        if let Some(twice) = chunks.iter().find(|chunk| !seen.insert(unpacked_name(&chunk.filename))) {
            return Err(damaged(format!("it names {} twice", twice.filename)));
        }
        let encodings = config.data_format.iter().map(|serializer| encoding(serializer));
        Ok(Self { chunks, columns: names.into_iter().zip(encodings).collect() })
    }

    /// The chunk in the file `name`; LitData unpacks chunks beside the compressed ones, or in their place.
    pub fn chunk(&self, name: &str) -> Option<&Chunk> {
        self.chunks.iter().find(|chunk| unpacked_name(&chunk.filename) == unpacked_name(name))
    }

    /// Starts the walk of a chunk.
    ///
    /// # Errors
    /// If its table of offsets is damaged, or has another number of samples than the index.
    pub fn walk(&self, chunk: &Chunk, input: Input, wanted: &FieldSelection) -> Result<Box<dyn Walk>> {
        let column = |(name, encoding): &(String, String)| Column::new(name, encoding, None);
        let columns = Columns::new(self.columns.iter().map(column).collect(), wanted)?;
        let shard = Shard::of_chunk(input, columns)?;
        let samples = shard.samples();
        match samples == chunk.samples {
            true => Ok(Box::new(shard)),
            false => Err(Error::data(format!("{}, {} in index.json", size::counted(samples, "sample"), chunk.samples))),
        }
    }
}

/// Name of a chunk without compression: `chunk-0-1.bin` for `chunk-0-1.zstd.bin`.
pub fn unpacked_name(name: &str) -> String {
    name.strip_suffix(".zstd.bin").map_or_else(|| name.to_owned(), |stem| format!("{stem}.bin"))
}

impl Spec {
    /// Adds the names of the leaves: keys of dicts, and numbers in lists and tuples, below each other with `/` between them.
    fn names(&self, name: String, depth: usize, out: &mut Vec<String>) -> Result<(), String> {
        if depth > MAX_DEPTH {
            return Err(format!("columns deeper than {MAX_DEPTH} levels"));
        }
        if self.kind.is_none() && self.children_spec.is_empty() {
            // A sample that is one value has no name.
            out.push(if name.is_empty() { "value".to_owned() } else { name });
            return Ok(());
        }
        let keys: Option<Vec<Value>> = self.context.as_deref().and_then(|text| serde_json::from_str(text).ok());
        let keys = keys.filter(|keys| keys.len() == self.children_spec.len());
        for (number, child) in self.children_spec.iter().enumerate() {
            let own = match keys.as_ref().and_then(|keys| keys[number].as_str()) {
                Some(key) => key.to_owned(),
                None => number.to_string(),
            };
            child.names(if name.is_empty() { own } else { format!("{name}/{own}") }, depth + 1, out)?;
        }
        Ok(())
    }
}

/// The encoding of a serializer.
fn encoding(serializer: &str) -> String {
    let name = serializer.split(':').next().unwrap_or(serializer);
    let own = match name {
        "float" => "float64",
        "image" => "jpeg",
        "text" => "str",
        "file" | "video" | "audio" | "tifffile" | "pdf" | "mesh" | "nifti" => "bytes",
        "pickle" => "pkl",
        // Numbers and text in a coding of LitData.
        "json" => "nested",
        _ if is_array(serializer) => return serializer.to_owned(),
        _ => name,
    };
    own.to_owned()
}

/// Whether values of this encoding are arrays, or truth values, which are arrays without axes.
pub(super) fn is_array(encoding: &str) -> bool {
    let name = encoding.split(':').next().unwrap_or(encoding);
    matches!(name, "numpy" | "tensor" | "no_header_numpy" | "no_header_tensor" | "bool")
}

/// Dtype and shape of an array, and the offset of its items.
pub(super) fn shaped(encoding: &str, bytes: &[u8]) -> Option<(&'static str, Vec<u64>, usize)> {
    let (serializer, number) = encoding.split_once(':').unwrap_or((encoding, ""));
    let dtypes: &[&str] = if serializer.ends_with("numpy") { &NUMPY } else { &TORCH };
    let dtype = |number: u64| component::of_numpy_name(dtypes.get(usize::try_from(number).ok()?)?);
    match serializer {
        "bool" => Some(("|b1", Vec::new(), 0)),
        // One axis, whose length follows from the number of bytes.
        "no_header_numpy" | "no_header_tensor" => {
            let dtype = dtype(number.parse().ok()?)?;
            let item = component::Form::array(dtype, &[]).ok()?.items_bytes()?;
            let items = (bytes.len() as u64).checked_div(item)?;
            Some((dtype, vec![items], 0))
        }
        _ => {
            let words: &[fn(u32) -> u64] = &[u64::from, |word| u32::swap_bytes(word).into()];
            // Tensors have little-endian heads up to LitData 0.2.45, later big-endian. Numbers of dtypes and of axes are small, so one fits.
            let is_small = |order: &fn(u32) -> u64| {
                let small = |number, limit: usize| word(bytes, number).is_some_and(|word| order(word) <= limit as u64);
                small(0, dtypes.len() - 1) && small(1, component::MAX_AXES)
            };
            let order = words.iter().find(|order| is_small(order))?;
            let at = |number: usize| word(bytes, number).map(order);
            let (dtype, count) = (dtype(at(0)?)?, usize::try_from(at(1)?).ok()?);
            let axes = (0..count).map(|axis| at(2 + axis)).collect::<Option<Vec<u64>>>()?;
            Some((dtype, axes, 8 + 4 * count))
        }
    }
}

#[cfg(test)]
mod tests;

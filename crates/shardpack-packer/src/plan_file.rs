//! The plan as a file: what `plan` writes, `pack --plan` takes, and a resumed run compares with.
//!
//! ```text
//! 0   magic "shardpln" | u32 version = 1
//! 12  zstd: u64 length | JSON header, then for each dataset
//!       folders: u32 class | u32 length | path
//!       entries: u64 end of name | u64 place | i64 stamp | u32 bytes | u32 folder
//!       names, end to end
//!       where samples have components beside the payload, for each of them: u32 bytes | where there are forms u32 form | i64 stamp
//!       where payloads are values, for each sample: u32 form
//!       texts, end to end
//!       where the source is a list, for each sample: u64 line
//! end 32 bytes: BLAKE3 of all before
//! ```

mod difference;

use std::{
    collections::{BTreeMap, BTreeSet},
    fs::File,
    io::{self, BufReader, BufWriter, Read, Write},
    path::{Path, PathBuf},
    sync::Arc,
};

use serde::{Deserialize, Serialize};
use shardpack_format::{
    Error, Result,
    component::{Component, Form},
    hash,
    sample::Forms,
};

use crate::{
    component_table::{Cell, ComponentTable},
    ledger::{self, Unpacked},
    listing::{Entry, Folder, Listing, OwnOrder},
    plan::{Options, Plan, Shard},
    source::{Found, Fractions, List, Origin, Part, Parted, Root, Several, Shards, list, shards},
    sys,
};
pub(crate) use difference::components;
pub use difference::{difference, request_difference, sealed_difference};

const MAGIC: &[u8; 12] = b"shardpln\x01\0\0\0";
/// Fast: names shrink tenfold at any level, numbers at none.
const LEVEL: i32 = 1;
/// Bytes that are compressed at a time.
const PIECES_BYTES: usize = 64 << 10;
/// In place of the number of a class: there is none.
const NO_CLASS: u32 = u32::MAX;

/// Plans of a source, as a file holds them.
#[derive(Debug)]
pub struct PlanFile {
    /// The source, as it was given.
    pub source: Origin,
    /// One plan for each dataset.
    pub plans: Vec<Plan>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Header {
    source: StoredOrigin,
    datasets: Vec<Dataset>,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum StoredOrigin {
    /// Path in hexadecimal: it need not be UTF-8.
    Folder(String),
    /// The same.
    Dataset(String),
    /// The same, of several that are taken together.
    Datasets(Vec<String>),
    /// The same, with the names of the shards that are meant where not all are.
    Parts(Vec<(String, Option<BTreeSet<String>>)>),
    Shards(shards::Stored),
    List(list::Stored),
    /// Splits with their sources.
    Several(Vec<(String, StoredOrigin)>),
    /// A source, and the fractions that it is parted into.
    Parted(Box<StoredOrigin>, String),
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Dataset {
    split: Option<String>,
    options: Options,
    block_samples: u64,
    longest_record_bytes: u32,
    /// In hexadecimal.
    classes: Vec<String>,
    /// Lines of a ledger.
    unpacked: String,
    ignored: BTreeMap<String, u64>,
    shards: Vec<Shard>,
    folders: u64,
    entries: u64,
    name_bytes: u64,
    own_order: OwnOrder,
    #[serde(default, rename = "beside", skip_serializing_if = "Vec::is_empty")]
    components: Vec<Component>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    payload: Option<Component>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    forms: Vec<String>,
    #[serde(default, skip_serializing_if = "is_zero")]
    text_bytes: u64,
}

fn is_zero(number: &u64) -> bool {
    *number == 0
}

/// Writes `plans` to `path`, by way of a temporary name beside it or in `work`.
pub fn write(path: &Path, work: &Path, source: &Origin, plans: &[Plan]) -> Result<()> {
    let temporary = work.join(format!("{}.part", path.file_name().unwrap_or_default().to_string_lossy()));
    let file = File::create(&temporary).map_err(|e| sys::io_error("cannot create", &temporary, e))?;
    let mut out = Hashing { inner: BufWriter::new(&file), hasher: blake3::Hasher::new() };
    let mut all = || -> io::Result<()> {
        out.write_all(MAGIC)?;
        let mut packed = zstd::Encoder::new(&mut out, LEVEL)?;
        let header = serde_json::to_vec(&header(source, plans)?)?;
        packed.write_all(&(header.len() as u64).to_le_bytes())?;
        packed.write_all(&header)?;
        // A few bytes at a time would be a call each.
        let mut pieces = BufWriter::with_capacity(PIECES_BYTES, &mut packed);
        plans.iter().try_for_each(|plan| write_listing(&mut pieces, &plan.listing))?;
        pieces.flush()?;
        drop(pieces);
        packed.finish()?;
        let hash = out.hasher.finalize();
        out.inner.write_all(hash.as_bytes())?;
        out.inner.flush()
    };
    all().map_err(|e| sys::io_error("cannot write", &temporary, e))?;
    drop(out);
    sys::finish_durably(&file, &temporary, path)
}

fn header(source: &Origin, plans: &[Plan]) -> io::Result<Header> {
    let dataset = |plan: &Plan| {
        let unpacked = ledger::write(&plan.unpacked).map_err(io::Error::other)?;
        Ok(Dataset {
            split: plan.split.clone(),
            options: plan.options.clone(),
            block_samples: plan.block_samples,
            longest_record_bytes: plan.longest_record_bytes,
            classes: plan.listing.classes.iter().map(|class| hash::hex(class)).collect(),
            unpacked: String::from_utf8_lossy(&unpacked).into_owned(),
            ignored: plan.ignored.clone(),
            shards: plan.shards.clone(),
            folders: plan.listing.folders().len() as u64,
            entries: plan.listing.len(),
            name_bytes: plan.listing.name_bytes(),
            own_order: plan.listing.own_order(),
            components: plan.listing.components().kinds.clone(),
            payload: plan.listing.components().payload.clone(),
            forms: plan.listing.components().forms.iter().map(Form::to_string).collect(),
            text_bytes: texts(&plan.listing).map(|text| text.len() as u64).sum(),
        })
    };
    Ok(Header { source: stored(source), datasets: plans.iter().map(dataset).collect::<io::Result<_>>()? })
}

/// A source as it is stored. What a recipe made lies in a spool that a plan cannot name; it is the source that counts.
fn stored(source: &Origin) -> StoredOrigin {
    use std::os::unix::ffi::OsStrExt;
    let hex = |path: &Path| hash::hex(path.as_os_str().as_bytes());
    match source {
        Origin::Folder(root) => StoredOrigin::Folder(hex(root)),
        Origin::Dataset(roots) => match roots.as_slice() {
            [Root { folder, only: None }] => StoredOrigin::Dataset(hex(folder)),
            roots if roots.iter().all(|root| root.only.is_none()) => {
                StoredOrigin::Datasets(roots.iter().map(|root| hex(&root.folder)).collect())
            }
            roots => StoredOrigin::Parts(roots.iter().map(|root| (hex(&root.folder), root.only.clone())).collect()),
        },
        Origin::Several(several) => {
            let parts = several.parts().iter();
            StoredOrigin::Several(parts.map(|part| (part.split.clone(), stored(&part.origin))).collect())
        }
        Origin::Shards(shards) => StoredOrigin::Shards(shards.stored()),
        Origin::List(list) => StoredOrigin::List(list.stored()),
        Origin::Transformed(made) => stored(made.origin()),
        Origin::Parted(parted) => {
            StoredOrigin::Parted(Box::new(stored(parted.origin())), parted.fractions().to_string())
        }
    }
}

fn write_listing(out: &mut impl Write, listing: &Listing) -> io::Result<()> {
    for folder in listing.folders() {
        out.write_all(&folder.class.unwrap_or(NO_CLASS).to_le_bytes())?;
        out.write_all(&(folder.path.len() as u32).to_le_bytes())?;
        out.write_all(&folder.path)?;
    }
    let mut name_end = 0;
    for entry in listing.entries() {
        out.write_all(&entry.to_bytes(&mut name_end))?;
    }
    (0..listing.len()).try_for_each(|number| out.write_all(listing.name(number)))?;
    let components = listing.components();
    for (cell, kind) in components.cells.iter().zip(components.kinds.iter().cycle()) {
        out.write_all(&cell.bytes.to_le_bytes())?;
        if !components.forms.is_empty() {
            out.write_all(&cell.form.to_le_bytes())?;
        }
        // Where a text starts follows from those before it.
        out.write_all(&if kind.is_text() { 0 } else { cell.stamp }.to_le_bytes())?;
    }
    components.payload_forms.iter().try_for_each(|form| out.write_all(&form.to_le_bytes()))?;
    texts(listing).try_for_each(|text| out.write_all(text))?;
    components.lines.iter().try_for_each(|line| out.write_all(&line.to_le_bytes()))
}

/// The texts of all samples, in the order of the listing.
fn texts(listing: &Listing) -> impl Iterator<Item = &[u8]> {
    (0..listing.len()).flat_map(|number| listing.components().content_of(number)).filter_map(|(_, text)| text)
}

struct Hashing<W> {
    inner: W,
    hasher: blake3::Hasher,
}

impl<W: Write> Write for Hashing<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.inner.write(bytes)?;
        self.hasher.update(&bytes[..written]);
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}

/// Reads a plan file.
///
/// # Errors
/// When it is damaged, or of another version; whatever is in it is checked before it is used.
pub fn read(path: &Path) -> Result<PlanFile> {
    let failed = |e| sys::io_error("cannot read", path, e);
    let mut file = File::open(path).map_err(failed)?;
    let length = file.metadata().map_err(failed)?.len();
    let body = length.checked_sub(32).filter(|body| *body >= MAGIC.len() as u64);
    let body = body.ok_or_else(|| Error::data("not a plan file: too short").in_file(path))?;
    let mut hasher = blake3::Hasher::new();
    io::copy(&mut (&mut file).take(body), &mut hasher).map_err(failed)?;
    let mut expected = [0; 32];
    file.read_exact(&mut expected).map_err(failed)?;
    if *hasher.finalize().as_bytes() != expected {
        return Err(Error::data("damaged plan file: its hash differs").in_file(path));
    }
    let mut file = BufReader::new(File::open(path).map_err(failed)?.take(body));
    let mut magic = [0; MAGIC.len()];
    file.read_exact(&mut magic).map_err(failed)?;
    if &magic != MAGIC {
        return Err(Error::data("not a plan file of this version").in_file(path));
    }
    let packed = zstd::Decoder::with_buffer(file).map_err(failed)?;
    read_body(BufReader::new(packed)).map_err(|error| error.in_file(path))
}

/// A source from what is stored of it.
fn restored(stored: StoredOrigin) -> Result<Origin> {
    use std::os::unix::ffi::OsStringExt;
    let path = |hex: &String| {
        let bytes = hash::unhex(hex).ok_or_else(|| Error::data("not hexadecimal"))?;
        Ok::<_, Error>(PathBuf::from(std::ffi::OsString::from_vec(bytes)))
    };
    Ok(match stored {
        StoredOrigin::Folder(root) => Origin::Folder(path(&root)?),
        StoredOrigin::Dataset(root) => Origin::Dataset(vec![Root { folder: path(&root)?, only: None }]),
        StoredOrigin::Datasets(roots) => {
            let root = |root| Ok(Root { folder: path(root)?, only: None });
            Origin::Dataset(roots.iter().map(root).collect::<Result<_>>()?)
        }
        StoredOrigin::Parts(roots) => {
            let root = |(root, only): (String, _)| Ok(Root { folder: path(&root)?, only });
            Origin::Dataset(roots.into_iter().map(root).collect::<Result<_>>()?)
        }
        StoredOrigin::Shards(stored) => Origin::Shards(Shards::restored(stored)?),
        StoredOrigin::List(stored) => Origin::List(List::restored(stored)?),
        StoredOrigin::Parted(origin, fractions) => {
            Origin::Parted(Parted::new(restored(*origin)?, Fractions::of_text(&fractions)?))
        }
        StoredOrigin::Several(parts) => {
            let part = |(split, stored)| Ok(Part { split, origin: restored(stored)? });
            Origin::Several(Several::new(parts.into_iter().map(part).collect::<Result<_>>()?)?)
        }
    })
}

fn read_body(mut input: impl Read) -> Result<PlanFile> {
    let header = u64::from_le_bytes(array(&mut input)?);
    let header: Header = serde_json::from_slice(&bytes(&mut input, header)?)
        .map_err(|error| Error::data(format!("header of the plan: {error}")))?;
    let unhex = |text: &String| hash::unhex(text).ok_or_else(|| Error::data("not hexadecimal"));
    let source = restored(header.source)?;
    let plans = header
        .datasets
        .into_iter()
        .map(|dataset| {
            let classes = dataset.classes.iter().map(unhex).collect::<Result<Vec<_>>>()?;
            let listing = Arc::new(read_listing(&mut input, &dataset, classes)?);
            let unpacked: Vec<Unpacked> = ledger::read(dataset.unpacked.as_bytes())?;
            if unpacked.iter().filter_map(|entry| entry.class).any(|class| class as usize >= listing.classes.len()) {
                return Err(Error::data("an image of a class that there is not"));
            }
            let mut at = 0u64;
            for shard in &dataset.shards {
                if shard.first != at || shard.samples == 0 {
                    return Err(Error::data("shards of the plan do not follow each other"));
                }
                at = at.saturating_add(shard.samples);
            }
            if at != listing.len() || dataset.block_samples == 0 {
                return Err(Error::data("shards of the plan do not hold its samples"));
            }
            let found = Found { split: dataset.split, listing, unpacked, ignored: dataset.ignored, ..Found::default() };
            Plan::restored(found, dataset.options, dataset.shards, dataset.block_samples, dataset.longest_record_bytes)
        })
        .collect::<Result<_>>()?;
    Ok(PlanFile { source, plans })
}

fn read_listing(input: &mut impl Read, dataset: &Dataset, classes: Vec<Vec<u8>>) -> Result<Listing> {
    let mut folders = Vec::new();
    for _ in 0..dataset.folders {
        let class = u32::from_le_bytes(array(input)?);
        let length = u32::from_le_bytes(array(input)?);
        let class = (class != NO_CLASS).then_some(class);
        folders.push(Folder { path: bytes(input, length.into())?.into(), class });
    }
    let (mut entries, mut name_start) = (Vec::new(), 0);
    for _ in 0..dataset.entries {
        let entry = Entry::from_bytes(&array(input)?, &mut name_start);
        entries.push(entry.ok_or_else(|| Error::data("names of the plan do not follow each other"))?);
    }
    let names = bytes(input, dataset.name_bytes)?;
    let components = read_components(input, dataset)?;
    let classes = Arc::new(classes.into_iter().map(Into::into).collect());
    Listing::from_parts(classes, folders, names, entries, dataset.own_order, components)
}

fn read_components(input: &mut impl Read, dataset: &Dataset) -> Result<ComponentTable> {
    let (mut components, mut text_end) = (ComponentTable::of(dataset.components.clone()), 0u64);
    components.payload = dataset.payload.clone();
    components.forms = Arc::new(dataset.forms.iter().map(|form| form.parse()).collect::<Result<_>>()?);
    if !components.kinds.is_empty() {
        for _ in 0..dataset.entries {
            for kind in &dataset.components {
                let bytes = u32::from_le_bytes(array(input)?);
                let form = match components.forms.is_empty() {
                    true => Forms::BYTES,
                    false => u32::from_le_bytes(array(input)?),
                };
                let mut cell = Cell { bytes, form, stamp: i64::from_le_bytes(array(input)?) };
                if kind.is_text() {
                    cell.stamp = text_end.cast_signed();
                    text_end = text_end.saturating_add(cell.length().unwrap_or(0).into());
                }
                components.cells.push(cell);
            }
        }
    }
    if components.payload.is_some() {
        for _ in 0..dataset.entries {
            components.payload_forms.push(u32::from_le_bytes(array(input)?));
        }
    }
    components.texts = Arc::new(bytes(input, dataset.text_bytes)?);
    if dataset.own_order == OwnOrder::Lines {
        for _ in 0..dataset.entries {
            components.lines.push(u64::from_le_bytes(array(input)?));
        }
    }
    Ok(components)
}

fn ends_early(error: io::Error) -> Error {
    Error::data(format!("the plan ends early: {error}"))
}

fn array<const N: usize>(input: &mut impl Read) -> Result<[u8; N]> {
    let mut out = [0; N];
    input.read_exact(&mut out).map_err(ends_early)?;
    Ok(out)
}

/// `length` bytes; memory grows with what is really there.
fn bytes(input: &mut impl Read, length: u64) -> Result<Vec<u8>> {
    let mut out = Vec::new();
    input.take(length).read_to_end(&mut out).map_err(ends_early)?;
    if out.len() as u64 != length {
        return Err(Error::data(format!("the plan ends early: {} of {length} bytes", out.len())));
    }
    Ok(out)
}

#[cfg(test)]
mod tests;

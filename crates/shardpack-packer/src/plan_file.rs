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
    component::Form,
    formats::{Beside, Choice},
    hash,
    manifest::Manifest,
    sample::{self, Forms},
    size,
};

use crate::{
    extra::{Extra, Piece},
    ledger::{self, Unpacked},
    listing::{Entry, Folder, Listing, OwnOrder},
    plan::{Check, Cut, Options, Order, Plan, Shard},
    source::{Found, Fractions, List, Origin, Part, Parted, Root, Several, Shards, list, shards},
    sys,
};

const MAGIC: &[u8; 12] = b"shardpln\x01\0\0\0";
/// Fast: names shrink tenfold at any level, numbers at none.
const LEVEL: i32 = 1;
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
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    beside: Vec<Beside>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    payload: Option<Beside>,
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
        plans.iter().try_for_each(|plan| write_listing(&mut packed, &plan.listing))?;
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
            beside: plan.listing.extra().kinds.clone(),
            payload: plan.listing.extra().payload.clone(),
            forms: plan.listing.extra().forms.iter().map(Form::to_string).collect(),
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
    let extra = listing.extra();
    for (piece, kind) in extra.pieces.iter().zip(extra.kinds.iter().cycle()) {
        out.write_all(&piece.bytes.to_le_bytes())?;
        if !extra.forms.is_empty() {
            out.write_all(&piece.form.to_le_bytes())?;
        }
        // Where a text starts follows from those before it.
        out.write_all(&if kind.is_text() { 0 } else { piece.stamp }.to_le_bytes())?;
    }
    extra.payload_forms.iter().try_for_each(|form| out.write_all(&form.to_le_bytes()))?;
    texts(listing).try_for_each(|text| out.write_all(text))?;
    extra.lines.iter().try_for_each(|line| out.write_all(&line.to_le_bytes()))
}

/// The texts of all samples, in the order of the listing.
fn texts(listing: &Listing) -> impl Iterator<Item = &[u8]> {
    (0..listing.len()).flat_map(|number| listing.extra().content_of(number)).filter_map(|(_, text)| text)
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
    let extra = read_extra(input, dataset)?;
    let classes = Arc::new(classes.into_iter().map(Into::into).collect());
    Listing::from_parts(classes, folders, names, entries, dataset.own_order, extra)
}

fn read_extra(input: &mut impl Read, dataset: &Dataset) -> Result<Extra> {
    let (mut extra, mut text_end) = (Extra::of(dataset.beside.clone()), 0u64);
    extra.payload = dataset.payload.clone();
    extra.forms = Arc::new(dataset.forms.iter().map(|form| form.parse()).collect::<Result<_>>()?);
    if !extra.kinds.is_empty() {
        for _ in 0..dataset.entries {
            for kind in &dataset.beside {
                let bytes = u32::from_le_bytes(array(input)?);
                let form = match extra.forms.is_empty() {
                    true => Forms::BYTES,
                    false => u32::from_le_bytes(array(input)?),
                };
                let mut piece = Piece { bytes, form, stamp: i64::from_le_bytes(array(input)?) };
                if kind.is_text() {
                    piece.stamp = text_end.cast_signed();
                    text_end = text_end.saturating_add(piece.length().unwrap_or(0).into());
                }
                extra.pieces.push(piece);
            }
        }
    }
    if extra.payload.is_some() {
        for _ in 0..dataset.entries {
            extra.payload_forms.push(u32::from_le_bytes(array(input)?));
        }
    }
    extra.texts = Arc::new(bytes(input, dataset.text_bytes)?);
    if dataset.own_order == OwnOrder::Lines {
        for _ in 0..dataset.entries {
            extra.lines.push(u64::from_le_bytes(array(input)?));
        }
    }
    Ok(extra)
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

/// Says in one line what is different between the plan of an unfinished pack and the plan of now; `None` when nothing is.
pub fn difference(old: &PlanFile, source: &Origin, new: &[Plan]) -> Option<String> {
    request_difference(old, source, new).or_else(|| old.plans.iter().zip(new).find_map(|(old, new)| samples(old, new)))
}

/// The same without a look at the samples, which may not be known yet.
pub fn request_difference(old: &PlanFile, source: &Origin, new: &[Plan]) -> Option<String> {
    if let (Origin::Shards(old), Origin::Shards(new)) = (&old.source, source)
        && let Some(what) = old.difference(new)
    {
        return Some(what);
    }
    let old = &old.plans;

    let names = |plans: &[Plan]| plans.iter().map(|plan| plan.name.clone()).collect::<Vec<_>>().join(", ");
    if names(old) != names(new) {
        return changed([("datasets", names(old), names(new))]);
    }
    old.iter().zip(new).find_map(|(old, new)| options(&old.options, &new.options))
}

fn recipe(options: &Options) -> String {
    options.recipe.clone().unwrap_or_else(|| "none".to_owned())
}

fn order(order: Order) -> String {
    match order {
        Order::Shuffled => "shuffled".to_owned(),
        Order::Source => "that of the source".to_owned(),
    }
}

fn check(check: Check) -> String {
    match check {
        Check::Header => "header".to_owned(),
        Check::Full => "full".to_owned(),
    }
}

fn cut(cut: Cut) -> String {
    match cut {
        Cut::ShardSize(bytes) => format!("shards of at most {}", size::text(bytes)),
        Cut::ShardSamples(samples) => format!("shards of at most {}", size::counted(samples, "sample")),
        Cut::Shards(1) => "1 shard".to_owned(),
        Cut::Shards(shards) => size::counted(shards, "shard"),
    }
}

/// Which files are samples.
fn files(choice: &Choice) -> String {
    if choice.files.is_empty() { "images".to_owned() } else { choice.files.join(", ") }
}

/// Into which splits a source is parted.
fn fractions(choice: &Choice) -> String {
    choice.fractions.clone().unwrap_or_else(|| "those of the source".to_owned())
}

/// Which fields have other names.
fn fields(choice: &Choice) -> String {
    let all: Vec<_> = choice.fields.iter().map(|(field, name)| format!("{field}:{name}")).collect();
    if all.is_empty() { "those of the source".to_owned() } else { all.join(", ") }
}

/// A format with what is in its samples.
fn format(choice: &Choice) -> String {
    let image = choice.extension.clone().unwrap_or_else(|| "each image by its kind".to_owned());
    let parts = [(choice.cls, "cls"), (choice.json, "json")].into_iter().filter(|(is_in, _)| *is_in);
    let parts = parts.map(|(_, name)| name.to_owned());
    let beside = (!choice.beside.is_empty()).then(|| Beside::list(&choice.beside));
    let parts: Vec<_> = [image].into_iter().chain(parts).chain(beside).collect();
    format!("{} of {}{}", choice.name, parts.join(", "), settings(&choice.settings))
}

fn settings(settings: &BTreeMap<String, String>) -> String {
    let all: Vec<_> = settings.iter().map(|(name, value)| format!("{name}={value}")).collect();
    if all.is_empty() { String::new() } else { format!(" with {}", all.join(", ")) }
}

/// Says in one line in what a sealed dataset is another than `plan` would make; `None` where its manifest does not tell. Of
/// a plan without cuts, whose images are to be changed first, lengths are not known.
pub fn sealed_difference(manifest: &Manifest, plan: &Plan) -> Option<String> {
    let new = &plan.options;
    let seed = if plan.order_algorithm() == "source" { 0 } else { new.seed };
    let format = |name: &str, of: &BTreeMap<String, String>| format!("{name}{}", settings(of));
    let shards = |shards: usize, bytes: u64| format!("{shards} of {} in all", size::text(bytes));
    let (of_classes, unclassified) = plan.counts();
    let found = of_classes.iter().map(|counts| counts.discovered).sum::<u64>() + unclassified.discovered;
    let mut changes = vec![
        (
            "format",
            format(&manifest.format.name, &manifest.format.settings),
            format(plan.format().name(), &new.format.stored(plan.format())),
        ),
        ("order", manifest.order.algorithm.clone(), plan.order_algorithm().to_owned()),
        ("seed", manifest.order.seed.to_string(), seed.to_string()),
        ("compression", manifest.format.compression.clone(), new.compression.to_string()),
        ("parts of a sample", manifest.components.join(", "), plan.format().components().join(", ")),
        ("recipe", manifest.recipe.clone().unwrap_or_else(|| "none".to_owned()), recipe(new)),
        ("classes", manifest.classes.len().to_string(), plan.listing.classes.len().to_string()),
        ("images", manifest.ledger.counts.discovered.to_string(), found.to_string()),
    ];
    if !plan.shards.is_empty() {
        let (old, now) = (manifest.payload_bytes, plan.payload_bytes());
        changes.push(("length of all images", format!("{old} bytes"), format!("{now} bytes")));
        let (old, now) = (&manifest.shards, &plan.shards);
        changes.push(("shards", shards(old.len(), manifest.shard_bytes), shards(now.len(), plan.shard_bytes())));
    }
    changed(changes)
}

fn changed(changes: impl IntoIterator<Item = (&'static str, String, String)>) -> Option<String> {
    let change = changes.into_iter().find(|(_, old, new)| old != new);
    change.map(|(what, old, new)| format!("{what}: was {old}, is now {new}"))
}

fn options(old: &Options, new: &Options) -> Option<String> {
    let changes = [
        ("order", order(old.order), order(new.order)),
        ("seed", old.seed.to_string(), new.seed.to_string()),
        ("size", cut(old.cut), cut(new.cut)),
        ("format", format(&old.format), format(&new.format)),
        ("files", files(&old.format), files(&new.format)),
        ("splits", fractions(&old.format), fractions(&new.format)),
        ("names of fields", fields(&old.format), fields(&new.format)),
        ("compression", old.compression.to_string(), new.compression.to_string()),
        ("check", check(old.check), check(new.check)),
        ("recipe", recipe(old), recipe(new)),
    ];
    changed(changes)
}

/// What shows a change of what a sample has beside its image.
pub(crate) fn beside(plan: &Plan, number: u64) -> impl Iterator<Item = (u32, &Form, i64, &[u8])> {
    let extra = plan.listing.extra();
    let payload = extra.payload.iter().map(move |_| (0, extra.form(extra.payload_form(number)), 0, &[][..]));
    payload.chain(extra.content_of(number).map(|(piece, text)| match text {
        Some(text) => (piece.bytes, extra.form(piece.form), 0, text),
        None => (piece.bytes, extra.form(piece.form), piece.stamp, &[][..]),
    }))
}

/// The first difference between two listings, and how many there are.
fn samples(old: &Plan, new: &Plan) -> Option<String> {
    if old.listing.classes != new.listing.classes {
        let name = |plan: &Plan, other: &Plan| {
            let class = plan.listing.classes.iter().find(|class| !other.listing.classes.contains(class));
            class.map(|class| sample::name(class, b""))
        };
        return Some(match (name(new, old), name(old, new)) {
            (Some(class), _) => format!("class {class} is new"),
            (None, class) => format!("class {} is gone", class.unwrap_or_default()),
        });
    }
    let (mut old_at, mut new_at, mut count, mut first) = (0, 0, 0u64, None);
    let (mut old_path, mut new_path) = (Vec::new(), Vec::new());
    while old_at < old.listing.len() || new_at < new.listing.len() {
        let side = |plan: &Plan, at: u64, path: &mut Vec<u8>| {
            (at < plan.listing.len()).then(|| {
                plan.listing.path(at, path);
                (plan.listing.class(at), plan.listing.folder(at).path.clone(), plan.listing.name(at).to_vec())
            })
        };
        let (a, b) = (side(old, old_at, &mut old_path), side(new, new_at, &mut new_path));
        let order = match (&a, &b) {
            (Some(a), Some(b)) => a.cmp(b),
            (Some(_), None) => std::cmp::Ordering::Less,
            _ => std::cmp::Ordering::Greater,
        };
        let change = match order {
            std::cmp::Ordering::Less => {
                old_at += 1;
                Some(("is gone", &old_path))
            }
            std::cmp::Ordering::Greater => {
                new_at += 1;
                Some(("is new", &new_path))
            }
            std::cmp::Ordering::Equal => {
                let (a, b) = (old.listing.entry(old_at), new.listing.entry(new_at));
                let same_beside = beside(old, old_at).eq(beside(new, new_at));
                (old_at, new_at) = (old_at + 1, new_at + 1);
                (!same_beside || (a.bytes, a.stamp) != (b.bytes, b.stamp)).then_some(("was changed", &new_path))
            }
        };
        if let Some((what, path)) = change {
            count += 1;
            first.get_or_insert_with(|| format!("{} {what}", sample::name(path, b"")));
        }
    }
    if let Some(first) = first {
        return Some(match count {
            1 => first,
            _ => format!("{first}, and {} more", count - 1),
        });
    }
    let names = |plan: &Plan| plan.unpacked.iter().map(|entry| (entry.path.clone(), entry.fate)).collect::<Vec<_>>();
    (names(old) != names(new)).then(|| "other images are left out".to_owned())
}

#[cfg(test)]
mod tests;

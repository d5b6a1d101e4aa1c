//! Adopt writes manifest and index beside shards that other programs wrote. It reads the shards and never
//! changes them.
//!
//! The new files are made in the work folder and renamed when they are complete, the manifest last. The
//! manifest lists the other files in the folder, such as indexes of other readers, unchanged.

use std::{
    borrow::Cow,
    collections::{BTreeMap, BTreeSet},
    os::unix::fs::FileExt,
    path::{Path, PathBuf},
    sync::Arc,
};

use rayon::prelude::*;
use shardpack_format::{
    Error, ErrorKind, Result,
    formats::{
        self, Choice, adopted,
        foreign::{FieldSelection, Record},
        recordio,
    },
    hash, help,
    image_header::Header,
    index::{self, Index, Summary},
    manifest::{self, Blake3, Class, Counts, Ledger, Manifest, Order, WORK_FOLDER},
    regular,
    sample::{Detail, Extent, Row},
};

use crate::{
    adopted_components::{Components, range},
    adopted_crops,
    copy::OnBad,
    foreign::{Kind, ShardFile},
    ledger::{self, Unpacked},
    listing::Listing,
    monitor::{Monitor, Phase},
    own,
    pack::work_folder,
    plan::BLOCK_BYTES,
    source::{
        COMPONENT, Shards, Source, SourceListing,
        options::{self, Splits},
    },
    sys,
};

pub use crate::adopted_crops::KeptCrops;

/// Names of the files that this program writes beside shards.
const OURS: [&str; 4] = [manifest::FILE, manifest::SUMS_FILE, manifest::LEDGER_FILE, manifest::INDEX_FOLDER];

/// Options of an adoption.
#[derive(Clone, Debug)]
pub struct Options {
    /// Format of the shards; `None` to detect it.
    pub from: Option<Kind>,
    /// Which fields hold image and label.
    pub wanted: FieldSelection,
    /// Name of the dataset.
    pub name: String,
    /// Policy for records that are not samples.
    pub on_bad: OnBad,
    /// Replace an existing manifest.
    pub force: bool,
}

/// Result of an adoption.
#[derive(Debug)]
pub struct Report {
    /// The dataset, unless a record was bad and the policy is [`OnBad::Error`].
    pub manifest: Option<Manifest>,
    /// Records that are not samples of the dataset.
    pub bad: Vec<Unpacked>,
    /// Number of files that are not shards, and of fields that are left out, by reason.
    pub ignored: BTreeMap<String, u64>,
    /// Crop tables of an earlier dataset in the folder.
    pub crops: KeptCrops,
}

/// Adopts the shards in `folder`.
///
/// # Errors
/// If the shards are compressed, have several formats, or lie in several folders; and on I/O errors.
pub fn adopt(folder: &Path, options: &Options, monitor: &dyn Monitor) -> Result<Report> {
    if work_folder::has_pack(&folder.join(WORK_FOLDER))? {
        return Err(Error::usage("holds an unfinished pack").in_file(folder).help(help::FINISH_PACK));
    }
    let begun = is_begun(folder)?;
    for name in OURS {
        if !begun && !options.force && sys::exists(&folder.join(name))? {
            let what = format!("{name} exists already, written by this program");
            return Err(Error::usage(what)
                .in_file(folder)
                .help("--force replaces the manifest and its files; shards stay"));
        }
    }
    let wanted = FieldSelection { keeps_archives: true, ..options.wanted.clone() };
    let shards = Shards::beside_adoption(folder, options.from, wanted.clone())?;
    fit(folder, &shards.shard_files())?;
    refuse_splits(folder, &shards)?;
    let (shards, found) = discovered(folder, shards, &wanted, options, monitor)?;
    let files = shards.shard_files();
    let (first, format) = fit(folder, &files)?;
    let Some(mut found) = found.into_iter().next() else { return Err(Error::usage("no shards").in_file(folder)) };
    if found.listing.is_empty() {
        return Err(Error::data("no sample in these shards").in_file(folder));
    }
    if found.payload.is_some() {
        return Err(Error::usage("samples without images, which are not adopted").in_file(folder).help(CONVERT));
    }
    if !found.unpacked.is_empty() && options.on_bad == OnBad::Error {
        let crops = KeptCrops::default();
        return Ok(Report { manifest: None, bad: found.unpacked, ignored: found.ignored, crops });
    }

    // Shards that cannot be adopted are refused before any file is written.
    if let Some(entry) = found.listing.entries().iter().find(|entry| !shards.is_as_it_lies(entry.stamp)) {
        let file = files.get(shards.of_place(entry.place).0);
        return Err(Error::usage("raw pixels: no reader accepts them as an image")
            .in_file(file.map_or(folder, |file| &file.path))
            .help("shardpack convert turns them into lossless images"));
    }
    let samples = by_file(&found.listing, &shards, files.len());
    if let Some((file, _)) = files.iter().zip(&samples).find(|(_, samples)| samples.is_empty()) {
        return Err(Error::data("has no sample that can be read: a shard holds at least one").in_file(&file.path));
    }
    let listing = Arc::clone(&found.listing);
    let components = Components::find(&listing, &shards, formats::entry(format)?.has_extensions);
    // The counts of fields include bad records, which are no samples.
    let (carried, bad) = (std::mem::take(&mut found.carried), found.unpacked.len() as u64);
    for (_, count) in found.ignored.iter_mut().filter(|(reason, _)| carried.contains_key(*reason)) {
        *count = count.saturating_sub(bad);
    }
    found.ignored.retain(|_, count| *count > 0);
    for (name, samples) in components.left_out() {
        *found.ignored.entry(format!("{COMPONENT}{name}")).or_default() += samples;
    }
    let others = other_files(folder, &files)?;
    let work = own::work_folder(folder, WORK_FOLDER)?;
    let indexes = own::folder(folder, manifest::INDEX_FOLDER)?;
    let lock = sys::Lock::take(&work.join("lock"))?;
    // The manifest is removed first: without it the folder does not look finished.
    [manifest::FILE, manifest::SUMS_FILE, manifest::LEDGER_FILE]
        .iter()
        .try_for_each(|name| sys::remove_file(&folder.join(name)))?;
    adopted_crops::set_aside(&indexes, &work)?;
    own::remove_folder(&indexes)?;
    own::folder(folder, manifest::INDEX_FOLDER)?;
    let extension = common_extension(first, &options.wanted, &found)?;
    let bytes = files.iter().map(|file| file.bytes).sum();
    monitor.begin(Phase::Packing, found.listing.len(), bytes);
    let choice = Choice {
        extension,
        settings: [(adopted::SETTING.to_owned(), "true".to_owned())].into(),
        components: components.kinds(),
        ..Choice::new(format)
    };
    let names = formats::open(&choice)?.components().to_vec();
    let adopter = Adopter { folder, work: &work, listing: &listing, components, names, wanted: &wanted, monitor };
    let done = files.par_iter().zip(&samples).map(|(file, samples)| adopter.shard(file, samples));
    let done: Vec<Done> = done.collect::<Result<_>>()?;

    let bad = std::mem::take(&mut found.unpacked);
    let manifest = write_manifest(folder, &choice, options, &found, &bad, done, &others)?;
    let crops = adopted_crops::keep(folder, &work, monitor)?;
    drop(lock);
    own::remove_folder(&work)?;
    sys::sync_folder(folder)?;
    Ok(Report { manifest: Some(manifest), bad, ignored: found.ignored, crops })
}

/// The samples of the shards, with their components. Components are left out if a sample has no room for all, or if records are values without
/// images: adopted samples are images.
fn discovered(
    folder: &Path,
    shards: Shards,
    wanted: &FieldSelection,
    options: &Options,
    monitor: &dyn Monitor,
) -> Result<(Shards, Vec<SourceListing>)> {
    let discover = |shards: &Shards, components| {
        shards.discover(&options::Options { splits: Splits::None, components, ..Default::default() }, monitor)
    };
    let found = discover(&shards, options::Components::All);
    let is_fit = match &found {
        Ok(found) => found.iter().all(|one| one.payload.is_none()),
        Err(error) => error.kind() != ErrorKind::Usage,
    };
    if is_fit {
        return found.map(|found| (shards, found));
    }
    let wanted = FieldSelection { components: Some(Vec::new()), ..wanted.clone() };
    let images = Shards::beside_adoption(folder, options.from, wanted)?;
    let found = discover(&images, options::Components::None)?;
    Ok((images, found))
}

/// Whether an adoption of `folder` was stopped: it left its work folder, beside no manifest or its own.
fn is_begun(folder: &Path) -> Result<bool> {
    if !sys::exists(&folder.join(WORK_FOLDER))? {
        return Ok(false);
    }
    let Some(bytes) = sys::read_opt(&folder.join(manifest::FILE))? else { return Ok(true) };
    Ok(Manifest::read(&bytes).is_ok_and(|manifest| manifest.format.settings.contains_key(adopted::SETTING)))
}

/// Help for shards that cannot be adopted.
const CONVERT: &str = "shardpack convert packs them anew";

/// The first file and the name of its format, if the files can be adopted.
fn fit<'f>(folder: &Path, files: &[&'f ShardFile]) -> Result<(&'f ShardFile, &'static str)> {
    let Some(first) = files.first() else { return Err(Error::usage("no shards").in_file(folder)) };
    let help = CONVERT;
    for file in files {
        if !matches!(file.kind, Kind::Format(_)) {
            return Err(Error::usage(format!("{} is not a format that the reader supports", file.kind.name()))
                .in_file(&file.path)
                .help(help));
        }
        if let Some(packed) = file.packed {
            let what = format!("compressed with {}: its images have no positions in the file", packed.name());
            return Err(Error::usage(what).in_file(&file.path).help(help));
        }
        if file.kind != first.kind {
            let what = format!("is {}, others are {}", file.kind.name(), first.kind.name());
            return Err(Error::usage(what)
                .in_file(&file.path)
                .help("move those of one format into a folder of their own, and adopt that"));
        }
        if file.path.parent() != Some(folder) {
            return Err(Error::usage("lies in a subfolder").in_file(&file.path));
        }
    }
    Ok((first, first.kind.name()))
}

/// Fails if `convert` would make splits of the shards. Otherwise test samples would be trained on.
fn refuse_splits(folder: &Path, shards: &Shards) -> Result<()> {
    let splits: Vec<String> = shards.splits_by_name()?.into_iter().collect();
    if splits.is_empty() {
        return Ok(());
    }
    Err(Error::usage(format!("its shards are of several splits by their names: {}", splits.join(", ")))
        .in_file(folder)
        .help("move the shards of each split into a folder of their own and adopt those, or `shardpack convert` makes splits"))
}

/// For each file, its samples in stored order: number in the listing and place of the payload.
fn by_file(listing: &Listing, shards: &Shards, files: usize) -> Vec<Vec<(u64, u64)>> {
    let mut samples = vec![Vec::new(); files];
    for number in listing.stored_order().unwrap_or_default() {
        let (file, offset) = shards.of_place(listing.entry(number).place);
        samples[file].push((number, offset));
    }
    samples
}

/// The extension of all images, if components have extensions and all images have the same one.
fn common_extension(first: &ShardFile, wanted: &FieldSelection, found: &SourceListing) -> Result<Option<String>> {
    if !formats::entry(first.kind.name())?.has_extensions {
        let mut walk = first.walk(wanted, &|| Ok(()))?;
        let image = walk.next()?.and_then(|record| record.image.ok());
        return Ok(image.map(|image| image.name).filter(|name| !name.is_empty()));
    }
    let mut extensions = BTreeSet::new();
    for number in 0..found.listing.len() {
        let name = found.listing.name(number);
        extensions.insert(name.rsplit(|byte| *byte == b'.').next().unwrap_or_default());
        if extensions.len() > 1 {
            return Ok(None);
        }
    }
    Ok(extensions.first().and_then(|extension| std::str::from_utf8(extension).ok()).map(str::to_owned))
}

struct Adopter<'a> {
    folder: &'a Path,
    work: &'a Path,
    listing: &'a Listing,
    components: Components<'a>,
    /// Names of the components of the index, the image first.
    names: Vec<String>,
    wanted: &'a FieldSelection,
    monitor: &'a dyn Monitor,
}

/// A shard whose index is written.
struct Done {
    entry: manifest::Shard,
    payload_bytes: u64,
    kinds: BTreeMap<String, u64>,
}

impl Adopter<'_> {
    /// Reads a shard and writes its index. `samples` are the records of the shard that are samples.
    fn shard(&self, shard: &ShardFile, samples: &[(u64, u64)]) -> Result<Done> {
        let records = self.records(shard, samples)?;
        let file = regular::open(&shard.path).map_err(|e| sys::io_error("cannot open", &shard.path, e))?;
        let (mut hasher, mut stored, mut rows) = (blake3::Hasher::new(), Vec::new(), Vec::with_capacity(records.len()));
        let mut done = Done { entry: entry(shard)?, payload_bytes: 0, kinds: BTreeMap::new() };
        for (number, (record, sample)) in records.iter().enumerate() {
            self.monitor.check_cancelled()?;
            // Records tile the file: bytes between two records belong to the first of the two.
            let start = if number == 0 { 0 } else { record.range.start };
            let end = records.get(number + 1).map_or(shard.bytes, |(next, _)| next.range.start);
            let bytes = u32::try_from(end - start)
                .map_err(|_| Error::data("a record of 4 GiB or more").in_file(&shard.path).at_byte(start))?;
            stored.resize(bytes as usize, 0);
            file.read_exact_at(&mut stored, start).map_err(|e| sys::io_error("cannot read", &shard.path, e))?;
            hasher.update(&stored);
            let row = self.row(shard, record, *sample, start, &stored)?;
            done.payload_bytes += u64::from(row.payload().1);
            *done.kinds.entry(row.image.kind.name().to_owned()).or_default() += 1;
            rows.push(row);
            self.monitor.advance(1, bytes.into());
        }
        done.entry.samples = rows.len() as u64;
        done.entry.blake3 = Blake3(*hasher.finalize().as_bytes());
        let summary = Summary {
            forms: self.listing.components().forms.to_vec(),
            components: self.names.clone(),
            content_bytes: shard.bytes,
            shard_bytes: shard.bytes,
            shard_blake3: done.entry.blake3.0,
        };
        let index = index::write(&summary, &rows)?;
        done.entry.index.bytes = index.len() as u64;
        done.entry.index.blake3 = Blake3(hash::file(&index));
        sys::write_durably(self.work, &self.folder.join(&done.entry.index.file), &index)?;
        Index::open(index).map(|_| done)
    }

    /// The records of a shard that are samples, each with its number in the listing.
    fn records(&self, shard: &ShardFile, samples: &[(u64, u64)]) -> Result<Vec<(Record, u64)>> {
        let changed = || Error::data("was changed while it was adopted").in_file(&shard.path);
        let mut walk = shard.walk(self.wanted, &|| self.monitor.check_cancelled())?;
        let (mut records, mut left) = (Vec::with_capacity(samples.len()), samples.iter().peekable());
        while left.peek().is_some() {
            let Some(record) = walk.next().map_err(|error| error.in_file(&shard.path))? else { return Err(changed()) };
            let is_next =
                |(_, offset): &&(u64, u64)| record.image.as_ref().is_ok_and(|image| image.fetch.start == *offset);
            if let Some((number, _)) = left.next_if(is_next) {
                records.push((record, *number));
            }
        }
        match records.is_empty() {
            true => Err(Error::data("has no sample that can be read: a shard holds at least one").in_file(&shard.path)),
            false => Ok(records),
        }
    }

    fn row(&self, shard: &ShardFile, record: &Record, number: u64, start: u64, stored: &[u8]) -> Result<Row> {
        let wrong = |what: &str| Error::data(what).in_file(&shard.path).at_byte(record.range.start);
        let Ok(image) = &record.image else { return Err(wrong("has no image")) };
        let offset = image.offset.checked_sub(start).and_then(|offset| u32::try_from(offset).ok());
        let extent = Extent { offset: offset.ok_or_else(|| wrong("its image lies before it"))?, bytes: image.bytes };
        let mut path = Vec::new();
        self.listing.path(number, &mut path);
        // The content as a reader returns it.
        let content = match image.in_parts {
            false => extent.slice(stored).map(Cow::Borrowed),
            true => stored
                .get(extent.offset as usize..)
                .and_then(|parts| recordio::join(parts, extent.bytes as usize))
                .map(Cow::Owned),
        };
        let content = content.ok_or_else(|| wrong("its image reaches beyond it"))?;
        let beside = self.components.of_sample(number, start, stored)?;
        let mut covered = vec![if image.in_parts { 0..0 } else { range(&extent) }];
        covered.extend(beside.iter().filter(|(_, detail)| detail.hash.is_some()).map(|(extent, _)| range(extent)));
        let mut details: Vec<Detail> = beside.iter().map(|(_, detail)| *detail).collect();
        if !details.is_empty() {
            details.insert(0, Detail::plain(extent.bytes));
        }
        Ok(Row {
            // A key that may repeat cannot identify a sample.
            key: if record.key_is_unique { record.key.clone() } else { path.clone() },
            path,
            label: self.listing.class(number).map(i64::from),
            offset: start,
            record_bytes: stored.len() as u32,
            components: std::iter::once(extent).chain(beside.into_iter().map(|(extent, _)| extent)).collect(),
            content_hash: hash::content(&content),
            frame_hash: hash::frame(stored, &mut covered),
            details,
            image: Header::parse(&content),
            in_parts: image.in_parts,
        })
    }
}

/// The manifest's entry of a shard without hash and counts: name and length.
fn entry(shard: &ShardFile) -> Result<manifest::Shard> {
    let name = shard.path.file_name().and_then(|name| name.to_str());
    let name = name.ok_or_else(|| Error::usage("its name is no text").in_file(&shard.path))?.to_owned();
    let index = manifest::File { file: format!("{}/{name}.index", manifest::INDEX_FOLDER), ..Default::default() };
    Ok(manifest::Shard { file: name, samples: 0, bytes: shard.bytes, blake3: Blake3::default(), index })
}

fn write_manifest(
    folder: &Path,
    choice: &Choice,
    options: &Options,
    found: &SourceListing,
    bad: &[Unpacked],
    done: Vec<Done>,
    others: &[PathBuf],
) -> Result<Manifest> {
    let (format, work) = (formats::open(choice)?, &folder.join(WORK_FOLDER));
    let (mut kinds, mut payload_bytes) = (BTreeMap::new(), 0);
    let mut classes = vec![Counts::default(); found.listing.classes.len()];
    let mut unclassified = Counts::default();
    for entry in found.listing.entries() {
        let class = found.listing.folders()[entry.folder as usize].class;
        let counts = class.map_or(&mut unclassified, |class| &mut classes[class as usize]);
        (counts.discovered, counts.packed) = (counts.discovered + 1, counts.packed + 1);
    }
    for line in bad {
        let counts = line.class.map_or(&mut unclassified, |class| &mut classes[class as usize]);
        (counts.discovered, counts.skipped) = (counts.discovered + 1, counts.skipped + 1);
    }
    let mut counts = unclassified;
    classes.iter().for_each(|class| counts.add(class));
    for one in &done {
        payload_bytes += one.payload_bytes;
        one.kinds.iter().for_each(|(kind, samples)| *kinds.entry(kind.clone()).or_default() += samples);
    }
    let shards: Vec<manifest::Shard> = done.into_iter().map(|one| one.entry).collect();
    let (samples, shard_bytes): (u64, u64) = (found.listing.len(), shards.iter().map(|shard| shard.bytes).sum());
    let mut what = blake3::Hasher::new();
    for shard in &shards {
        what.update(&shard.blake3.0);
    }
    let file = ledger::seal(bad, folder, work)?;
    let mut manifest = Manifest {
        schema: manifest::SCHEMA.to_owned(),
        id: Blake3::default(),
        name: options.name.clone(),
        format: manifest::Format {
            name: format.name().to_owned(),
            compression: "none".to_owned(),
            settings: choice.stored(format.as_ref()),
        },
        order: Order { algorithm: "source".to_owned(), seed: 0 },
        recipe: None,
        samples,
        payload_bytes,
        shard_bytes,
        block_samples: (BLOCK_BYTES * samples).div_ceil(shard_bytes.max(1)).clamp(1, samples),
        components: format.components().to_vec(),
        kinds,
        ledger: Ledger { counts, unclassified, file },
        // Other files are listed below.
        ignored_files: fields_left_out(found),
        plan: Blake3(*what.finalize().as_bytes()),
        classes: found.listing.classes.iter().zip(classes).map(|(name, counts)| Class::new(name, counts)).collect(),
        sidecars: others.iter().map(|path| as_it_is(path)).collect::<Result<_>>()?,
        shards,
    };
    sys::write_durably(work, &folder.join(manifest::SUMS_FILE), manifest.sums().as_bytes())?;
    sys::sync_folder(&folder.join(manifest::INDEX_FOLDER))?;
    let (bytes, id) = manifest.to_bytes()?;
    manifest.id = id;
    // A manifest that cannot be read back is not written.
    Manifest::read(&bytes).map_err(|error| Error::new(ErrorKind::Usage, error.what()).in_file(folder))?;
    sys::write_durably(work, &folder.join(manifest::FILE), &bytes)?;
    sys::sync_folder(folder)?;
    Ok(manifest)
}

fn fields_left_out(found: &SourceListing) -> BTreeMap<String, u64> {
    let fields = found.ignored.iter().filter(|(reason, _)| reason.starts_with(COMPONENT));
    fields.map(|(reason, samples)| (reason.clone(), *samples)).collect()
}

/// Other files in the folder, in the order of their names.
fn other_files(folder: &Path, shards: &[&ShardFile]) -> Result<Vec<PathBuf>> {
    let shards: BTreeSet<&Path> = shards.iter().map(|shard| shard.path.as_path()).collect();
    let failed = |e| sys::io_error("cannot read folder", folder, e);
    let mut files = Vec::new();
    for item in std::fs::read_dir(folder).map_err(failed)? {
        let path = item.map_err(failed)?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        if shards.contains(path.as_path()) || name == WORK_FOLDER || OURS.contains(&&*name) {
            continue;
        }
        if !sys::is_file(&path)? || name.starts_with('.') {
            return Err(Error::usage(format!("{name:?} is beside the shards: verify would call it a stranger"))
                .in_file(folder)
                .help("move it elsewhere"));
        }
        files.push(path);
    }
    files.sort();
    Ok(files)
}

/// The manifest's entry of a file that stays unchanged.
fn as_it_is(path: &Path) -> Result<manifest::File> {
    let bytes = regular::read(path).map_err(|e| sys::io_error("cannot read", path, e))?;
    let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    Ok(manifest::File { file: name, bytes: bytes.len() as u64, blake3: Blake3(hash::file(&bytes)) })
}

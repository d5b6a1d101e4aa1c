//! Seals a dataset: writes the ledger, the list of hashes, and the manifest last; and for several splits, their
//! record.

use std::{collections::BTreeMap, path::Path};

use shardpack_format::{
    Error, Result,
    formats::{
        self,
        sidecars::{Catalogue, OfSplit},
    },
    hash, help,
    manifest::{self, BY_KIND, Blake3, Class, Format, Ledger, Manifest, Order},
    splits::{self, Record, Split},
};
use shardpack_storage::{Local, Storage};

use crate::{
    copy::Sealed,
    ledger::{self, Fate},
    plan::Plan,
    sidecars, sys,
};

/// Seals the shards in `storage`, which is `dst` or at a URL, as a dataset in `dst`, with the sidecars `names`, the manifest last;
/// `work` holds the files while they are written. `of_shards` are sidecars of single shards that are already
/// written.
pub fn seal(
    plan: &Plan,
    sealed: &BTreeMap<usize, Sealed>,
    names: &[&str],
    of_shards: Option<Vec<manifest::File>>,
    (dst, storage): (&Path, &dyn Storage),
    work: &Path,
) -> Result<Manifest> {
    let mut unpacked: Vec<_> =
        plan.unpacked.iter().chain(sealed.values().flat_map(|shard| &shard.unpacked)).cloned().collect();
    unpacked.sort_by(|a, b| ledger::order(a, b).then(a.fate.cmp(&b.fate)));
    // Images with a note that could not be packed later are not in the shards.
    unpacked.dedup_by(|later, first| later.fate == Fate::Kept && later.path == first.path);
    let file = ledger::seal(&unpacked, dst, work)?;
    let mut manifest = manifest(plan, sealed, file)?;
    let hashes =
        sealed.values().filter_map(|shard| Some((shard.entry.file.as_str(), shard.hashes.as_ref()?))).collect();
    let writer = sidecars::Writer { format: plan.format(), names, only: None, hashes, dst, storage, work };
    manifest.sidecars = match of_shards {
        None => writer.write(&manifest)?,
        Some(of_shards) => sidecars::in_order([of_shards, writer.write_of_dataset(&manifest)?].concat()),
    };
    sys::write_durably(work, &dst.join(manifest::SUMS_FILE), manifest.sums().as_bytes())?;
    sys::sync_folder(&dst.join(manifest::INDEX_FOLDER))?;
    sys::sync_folder(dst)?;
    let (bytes, id) = manifest.to_bytes()?;
    manifest.id = id;
    sys::write_durably(work, &dst.join(manifest::FILE), &bytes)?;
    sys::sync_folder(dst)?;
    Ok(manifest)
}

/// The record of splits, and the files beside the splits, each with its name.
#[derive(Debug)]
pub struct Beside {
    /// The record.
    pub record: Record,
    /// The files, with their bytes.
    pub files: Vec<(&'static str, Vec<u8>)>,
}

/// The names of the splits of `plans`, each with its manifest, sorted; `None` if the datasets are not splits.
pub(crate) fn splits_of<'a>(plans: &'a [Plan], manifests: &'a [Manifest]) -> Option<Vec<(&'a str, &'a Manifest)>> {
    let named = plans.iter().zip(manifests).map(|(plan, manifest)| Some((plan.split.as_deref()?, manifest)));
    let mut all = named.collect::<Option<Vec<_>>>()?;
    // Independent of the order of the plans.
    all.sort_unstable_by_key(|(split, _)| *split);
    Some(all)
}

/// The record of these splits, with `files` beside them.
///
/// # Errors
/// Never for numbers and text; the type is that of the JSON writer.
pub(crate) fn record(splits: &[(&str, &Manifest)], files: Vec<manifest::File>) -> Result<Record> {
    let mut all = Vec::new();
    for (split, manifest) in splits {
        let (bytes, id) = manifest.to_bytes()?;
        all.push(Split {
            name: (*split).to_owned(),
            dataset: id,
            samples: manifest.samples,
            manifest: Blake3(hash::file(&bytes)),
        });
    }
    Ok(Record::new(all, files))
}

/// The catalogues of which all splits have a file, so that there is one beside the splits too; sorted by the name of the file.
fn catalogues(splits: &[(&str, &Manifest)]) -> Result<Vec<&'static Catalogue>> {
    let Some((_, first)) = splits.first() else { return Ok(Vec::new()) };
    let has = |manifest: &Manifest, file: &str| manifest.sidecars.iter().any(|sidecar| sidecar.file == file);
    let kinds = formats::entry(&first.format.name)?.sidecars.iter().filter_map(|kind| kind.catalogue);
    let all = kinds.filter(|catalogue| splits.iter().all(|(_, manifest)| has(manifest, catalogue.file)));
    let mut all: Vec<_> = all.collect();
    all.sort_unstable_by_key(|catalogue| catalogue.file);
    Ok(all)
}

/// Names of the files beside these splits, sorted.
pub(crate) fn names_beside(splits: &[(&str, &Manifest)]) -> Result<Vec<&'static str>> {
    Ok(catalogues(splits)?.into_iter().map(|catalogue| catalogue.file).collect())
}

/// The record of these splits and the files beside it; `storage` has the splits.
///
/// # Errors
/// If the sidecars of a split cannot be read.
pub fn beside(splits: &[(&str, &Manifest)], storage: &dyn Storage) -> Result<Beside> {
    let mut files = Vec::new();
    for catalogue in catalogues(splits)? {
        files.push((catalogue.file, of_splits(catalogue, splits, storage)?));
    }
    let entry = |(name, bytes): &(&str, Vec<u8>)| manifest::File {
        file: (*name).to_owned(),
        bytes: bytes.len() as u64,
        blake3: Blake3(hash::file(bytes)),
    };
    let record = record(splits, files.iter().map(entry).collect())?;
    Ok(Beside { record, files })
}

/// The file of `catalogue` beside these splits.
fn of_splits(catalogue: &Catalogue, splits: &[(&str, &Manifest)], storage: &dyn Storage) -> Result<Vec<u8>> {
    let mut own = Vec::new();
    for (split, manifest) in splits {
        let name = format!("{split}/{}", catalogue.file);
        let expected = manifest.sidecars.iter().find(|sidecar| sidecar.file == catalogue.file);
        let is_right = |bytes: &[u8]| expected.is_some_and(|expected| expected.blake3.0 == hash::file(bytes));
        let bytes = storage.read_right(&name, None, is_right)?.filter(|bytes| is_right(bytes));
        own.push(bytes.ok_or_else(|| {
            Error::data("is not the file that the manifest names").in_file(storage.path_of(&name)).help(help::PACK_ANEW)
        })?);
    }
    let all = splits.iter().zip(&own);
    let all: Vec<_> = all.map(|((folder, manifest), own)| OfSplit { folder, manifest, own }).collect();
    (catalogue.of_splits)(&all)
}

/// Writes the record beside the splits in `dst`, through `work`, and before it the files that it names; no file if there are no splits.
///
/// # Errors
/// If a file cannot be written, or one of these names is not of this program.
pub fn seal_splits(plans: &[Plan], manifests: &[Manifest], dst: &Path, work: &Path) -> Result<()> {
    let Some(splits) = splits_of(plans, manifests) else { return Ok(()) };
    let beside = beside(&splits, &Local::new(dst))?;
    for (name, bytes) in &beside.files {
        let path = dst.join(name);
        sidecars::refuse_foreign(&path)?;
        sys::write_durably(work, &path, bytes)?;
    }
    sys::write_durably(work, &dst.join(splits::FILE), &beside.record.to_bytes()?)
}

fn manifest(plan: &Plan, sealed: &BTreeMap<usize, Sealed>, file: Option<manifest::File>) -> Result<Manifest> {
    let (mut counts, mut unclassified) = plan.counts();
    let mut kinds = BTreeMap::new();
    for shard in sealed.values() {
        for (kind, samples) in &shard.kinds {
            *kinds.entry(kind.clone()).or_default() += samples;
        }
        for sample in &shard.unpacked {
            let counts = match sample.class {
                Some(class) => &mut counts[class as usize],
                None => &mut unclassified,
            };
            (counts.packed, counts.discovered) = (counts.packed - 1, counts.discovered - 1);
            sample.fate.count(counts);
        }
    }
    let mut total = unclassified;
    counts.iter().for_each(|class| total.add(class));
    let shards: Vec<_> = sealed.values().map(|shard| shard.entry.clone()).collect();
    let components = plan.format().components().to_vec();
    debug_assert!(components.iter().all(|name| name == BY_KIND || !name.is_empty()));
    Ok(Manifest {
        schema: manifest::SCHEMA.to_owned(),
        id: Blake3::default(),
        name: plan.name.clone(),
        format: Format {
            name: plan.format().name().to_owned(),
            compression: plan.options.compression.to_string(),
            settings: plan.options.format.stored(plan.format()),
        },
        order: Order {
            algorithm: plan.order_algorithm().to_owned(),
            seed: if plan.order_algorithm() == "source" { 0 } else { plan.options.seed },
        },
        recipe: plan.options.recipe.clone(),
        samples: shards.iter().map(|shard| shard.samples).sum(),
        payload_bytes: sealed.values().map(|shard| shard.payload_bytes).sum(),
        shard_bytes: shards.iter().map(|shard| shard.bytes).sum(),
        block_samples: plan.block_samples,
        components,
        kinds,
        ledger: Ledger { counts: total, unclassified, file },
        ignored_files: plan.ignored.clone(),
        plan: Blake3(plan.hash()?),
        classes: plan.listing.classes.iter().zip(counts).map(|(name, counts)| Class::new(name, counts)).collect(),
        shards,
        sidecars: Vec::new(),
    })
}

//! Keeps the crop tables beside the indexes if a dataset is adopted again. Removes tables that no longer fit,
//! and names them.
//!
//! Holds at all times: a table is kept only for the image with its content hash in the shard with its hash. A
//! file stays in the work folder until the manifest is written, so an adoption that was stopped can start
//! again.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};

use shardpack_format::{
    Error, ErrorKind, Result,
    crops::{self, Crops, Summary, Table},
    hash::FileHash,
    regular,
};
use shardpack_reader::{Dataset, Shard};

use crate::{monitor::Monitor, own, sys};

/// Folder for the tables within the work folder.
const ASIDE: &str = "crops";

/// Crop tables of the earlier dataset.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KeptCrops {
    /// Number of shards whose tables were kept.
    pub shards: u64,
    /// Removed files and the reason, in the order of their names.
    pub removed: Vec<(String, String)>,
}

/// Moves the table files out of the folder of indexes, which is written again.
pub(crate) fn set_aside(indexes: &Path, work: &Path) -> Result<()> {
    let aside = own::folder(work, ASIDE)?;
    for path in tables(indexes)? {
        let to = aside.join(path.file_name().unwrap_or_default());
        own::rename(&path, &to)?;
    }
    Ok(())
}

/// Moves the tables that fit beside the indexes of the dataset in `folder`, and returns the names of the
/// others.
pub(crate) fn keep(folder: &Path, work: &Path, monitor: &dyn Monitor) -> Result<KeptCrops> {
    let (aside, mut kept) = (work.join(ASIDE), KeptCrops::default());
    if !sys::exists(&aside)? {
        return Ok(kept);
    }
    let dataset = Dataset::open(folder)?;
    // Shards with the same bytes have the same tables.
    let mut shards = BTreeMap::<FileHash, Vec<Shard<'_>>>::new();
    dataset.shards().for_each(|shard| shards.entry(shard.entry().blake3.0).or_default().push(shard));
    for path in tables(&aside)? {
        monitor.check_cancelled()?;
        let bytes = regular::read(&path).map_err(|e| sys::io_error("cannot read", &path, e))?;
        match anew(bytes, &shards) {
            Ok((shards, bytes)) => {
                for shard in shards {
                    kept.shards += u64::from(!sys::exists(&shard.crops_path())?);
                    sys::write_durably(work, &shard.crops_path(), &bytes)?;
                }
            }
            Err(error) if error.kind() == ErrorKind::Data => {
                let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
                kept.removed.push((name, error.what().to_owned()));
            }
            Err(error) => return Err(error),
        }
    }
    Ok(kept)
}

/// The shards that a table file belongs to, and its bytes rewritten for their present dataset.
fn anew<'s, 'd>(bytes: Vec<u8>, shards: &'s BTreeMap<FileHash, Vec<Shard<'d>>>) -> Result<(&'s [Shard<'d>], Vec<u8>)> {
    let crops = Crops::open(bytes)?;
    let Summary { every, shard_blake3, .. } = *crops.summary();
    let shards = shards.get(&shard_blake3).map_or(&[][..], Vec::as_slice);
    let shard = shards.first().ok_or_else(|| Error::data("crop tables of another shard"))?;
    if crops.len() != shard.len() {
        return Err(Error::data("crop tables of other samples of the shard"));
    }
    let rows = (0..shard.len()).map(|row| {
        let content_hash = shard.row(row)?.content_hash;
        Ok((content_hash, crops.table(row, content_hash)?))
    });
    let rows: Vec<(u128, Table<&[u8]>)> = rows.collect::<Result<_>>()?;
    let dataset = shard.dataset().manifest().id.0;
    Ok((shards, crops::write(&Summary { every, shard_blake3, dataset }, &rows)))
}

/// Paths of the table files in a folder, in the order of their names.
fn tables(folder: &Path) -> Result<Vec<PathBuf>> {
    let failed = |e| sys::io_error("cannot read folder", folder, e);
    let paths = fs::read_dir(folder).map_err(failed)?.map(|item| item.map(|item| item.path()).map_err(failed));
    let mut paths: Vec<_> = paths.collect::<Result<_>>()?;
    paths.retain(|path| path.extension().is_some_and(|extension| extension == crops::EXTENSION));
    paths.sort();
    Ok(paths)
}

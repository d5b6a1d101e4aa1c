//! Repairs the files beside splits: they follow from the files of the same name in the splits, so no source is read.

use std::sync::Arc;

use shardpack_format::{
    Result, hash,
    splits::{self, Record},
};
use shardpack_packer::seal_dataset;
use shardpack_storage::Storage;

use super::{open, repair::Repaired, wrong_file};
use crate::sidecars;

/// Writes damaged files beside splits again, from the files of the same name in the splits.
pub(super) fn mend(files: &Arc<dyn Storage>, repaired: &mut Repaired) -> Result<()> {
    let bytes = files.read_right(splits::FILE, None, |bytes| Record::read(bytes).is_ok())?;
    let Some(record) = bytes.and_then(|bytes| Record::read(&bytes).ok()) else { return Ok(()) };
    let mut damaged = Vec::new();
    for file in &record.files {
        damaged.extend(wrong_file(files.as_ref(), file, splits::FILE)?.map(|_| file));
    }
    if damaged.is_empty() {
        return Ok(());
    }
    let (datasets, _) = open(files)?;
    let splits: Vec<_> =
        datasets.iter().map(|dataset| (dataset.prefix.trim_end_matches('/'), &dataset.manifest)).collect();
    let made = seal_dataset::beside(&splits, files.as_ref());
    for file in damaged {
        let of_name = |made: &seal_dataset::Beside| {
            let found = made.files.iter().find(|(name, _)| *name == file.file);
            found.map(|(_, bytes)| bytes.clone()).filter(|bytes| hash::file(bytes) == file.blake3.0)
        };
        let why = match &made {
            _ if sidecars::is_foreign_in(files.as_ref(), &file.file)? => {
                sidecars::foreign(&files.path_of(&file.file)).to_string()
            }
            Err(error) => error.to_string(),
            Ok(made) => match of_name(made) {
                Some(bytes) => {
                    files.put(&file.file, bytes)?;
                    repaired.files.push(file.file.clone());
                    continue;
                }
                None => "the file made from the splits is not the packed one: its BLAKE3 differs".to_owned(),
            },
        };
        repaired.failed.push((file.file.clone(), why));
    }
    Ok(())
}

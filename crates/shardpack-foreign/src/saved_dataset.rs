//! The file `state.json` that `datasets.save_to_disk` writes beside Arrow files: it names the files of the dataset. Files of a cache lie
//! beside them, written by `Dataset.map` and the like.
//!
//! Source: `datasets` 1.0 to 5.2, `Dataset.save_to_disk` and `Dataset.load_from_disk`.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::PathBuf,
};

use serde_json::Value;
use shardpack_format::{Error, Result};

use super::{FileLocation, ShardFile};

/// Name of the file.
const STATE: &str = "state.json";
/// Longest one that is read: it has the names of the files.
const LIMIT_BYTES: u64 = 64 << 20;
/// Key with the files of the dataset, and their member with the name.
const FILES: (&str, &str) = ("_data_files", "filename");
/// Kind of the files that it names.
const ARROW: &str = "arrow";

/// Keys with the files of an order of rows.
const INDICES: [&str; 2] = ["_indices_data_files", "_indices_files"];

/// The content of `state.json` beside a file, and its path; `None` if there is none. Damaged JSON is null.
fn state(place: &FileLocation) -> Result<Option<(PathBuf, Value)>> {
    let found = place.read_beside(STATE, LIMIT_BYTES)?;
    Ok(found.map(|(path, bytes)| (path, serde_json::from_slice(&bytes).unwrap_or_default())))
}

fn is_own(shard: &ShardFile) -> bool {
    shard.kind.name() == ARROW
}

/// Fails if the rows of a dataset are a selection of the rows in its files. Reads one file for each folder.
///
/// # Errors
/// Also if a file cannot be read.
pub(crate) fn check(shards: &[ShardFile]) -> Result<()> {
    let mut seen = BTreeSet::new();
    for shard in shards.iter().filter(|shard| is_own(shard)) {
        if seen.insert(shard.path.parent())
            && let Some((path, state)) = state(&shard.location())?
            && has_indices(&state)
        {
            let what = "the rows of the dataset are a selection, in the files that it names";
            return Err(Error::usage(what).in_file(path).help(INDICES_HELP));
        }
    }
    Ok(())
}

const INDICES_HELP: &str = "write it anew: datasets.load_from_disk(FOLDER).save_to_disk(OTHER)";

fn has_indices(state: &Value) -> bool {
    INDICES.iter().any(|key| state.get(key).and_then(Value::as_array).is_some_and(|files| !files.is_empty()))
}

/// Keeps the Arrow files of one folder that its `state.json` names, in this order. Returns the others, and an error for each that is missing.
///
/// # Errors
/// If it cannot be read.
pub(crate) fn keep(shards: &mut Vec<ShardFile>) -> Result<(Vec<ShardFile>, Vec<Error>)> {
    let Some(place) = shards.iter().find(|shard| is_own(shard)).map(ShardFile::location) else {
        return Ok(Default::default());
    };
    let Some((_, state)) = state(&place)? else { return Ok(Default::default()) };
    let Some(files) = state.get(FILES.0).and_then(Value::as_array) else { return Ok(Default::default()) };
    let names = files.iter().filter_map(|file| file.get(FILES.1)?.as_str());
    let order: BTreeMap<&str, usize> = names.zip(0..).collect();
    let name = |shard: &ShardFile| shard.path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let others = shards.extract_if(.., |shard| is_own(shard) && !order.contains_key(name(shard).as_str())).collect();
    shards.sort_by_key(|shard| order.get(name(shard).as_str()).copied());
    let there: BTreeSet<String> = shards.iter().map(name).collect();
    let missing = order.keys().filter(|name| !there.contains(**name));
    let report =
        |name: &&str| Error::data(format!("is missing: {STATE} names it")).in_file(place.path().with_file_name(name));
    Ok((others, missing.map(report).collect()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_order_of_rows_is_found() {
        for (state, has) in [
            (r#"{"_data_files": [{"filename": "data-00000-of-00001.arrow"}]}"#, false),
            (r#"{"_indices_data_files": []}"#, false),
            (r#"{"_indices_files": null}"#, false),
            (r#"{"_indices_data_files": [{"filename": "indices.arrow"}]}"#, true),
            (r#"{"_indices_files": [{"filename": "indices.arrow"}]}"#, true),
            ("null", false),
        ] {
            assert_eq!(has_indices(&serde_json::from_str(state).unwrap()), has, "{state}");
        }
    }
}

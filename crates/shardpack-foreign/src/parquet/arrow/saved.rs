//! Refuses datasets of `datasets.save_to_disk` whose rows are a selection of the rows in their files.
//!
//! Source: `datasets` 1.0 to 5.2, `Dataset.save_to_disk` and `Dataset.load_from_disk`.

use serde_json::Value;
use shardpack_format::{Error, Result};

use super::super::super::{FileLocation, saved_dataset};

/// Keys with the files of an order of rows.
const INDICES: [&str; 2] = ["_indices_data_files", "_indices_files"];

/// Fails if the rows of the dataset are a selection of the rows in its files.
///
/// # Errors
/// Also if the file cannot be read.
pub(in super::super) fn check(place: &FileLocation) -> Result<()> {
    let Some((path, state)) = saved_dataset::state(place)? else { return Ok(()) };
    match has_indices(&state) {
        true => {
            let what = "the rows of the dataset are a selection, in the files that it names";
            Err(Error::usage(what).in_file(path).help(INDICES_HELP))
        }
        false => Ok(()),
    }
}

const INDICES_HELP: &str = "write it anew: datasets.load_from_disk(FOLDER).save_to_disk(OTHER)";

fn has_indices(state: &Value) -> bool {
    INDICES.iter().any(|key| state.get(key).and_then(Value::as_array).is_some_and(|files| !files.is_empty()))
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

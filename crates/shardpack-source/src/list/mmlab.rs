//! Reads OpenMMLab 2 lists: one JSON object with `metainfo` and `data_list`. Each object in `data_list` names an image
//! in `img_path`.
//!
//! `gt_label` is the label, and `classes` of `metainfo` has its name. Objects in an image (`instances`) do not set its
//! class. They stay in the sample's text, together with the names of their classes.
//!
//! Specification: MMEngine 0.10, `BaseDataset.load_data_list`.

use serde::Deserialize;
use serde_json::value::RawValue;
use shardpack_format::{Error, Result};

use super::{
    jsonl::{Classes, read_objects},
    rows::Rows,
};
use crate::monitor::Monitor;

/// The member with an image's file name.
pub(super) const IMG_PATH: &[u8] = b"\"img_path\"";
/// The member that identifies an OpenMMLab list.
const DATA_LIST: &[u8] = b"\"data_list\"";

#[derive(Deserialize)]
struct Top<'a> {
    #[serde(default)]
    metainfo: Meta,
    #[serde(borrow)]
    data_list: Vec<&'a RawValue>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Meta {
    #[serde(alias = "CLASSES")]
    classes: serde_json::Value,
}

/// Whether a JSON object that begins so is an OpenMMLab list.
pub(super) fn is(start: &[u8]) -> bool {
    start.windows(DATA_LIST.len()).any(|window| window == DATA_LIST)
}

/// Reads a whole file.
pub(super) fn read(bytes: &[u8], rows: &mut Rows<'_>, monitor: &dyn Monitor) -> Result<()> {
    let Top { metainfo, data_list } = serde_json::from_slice(bytes)
        .map_err(|error| Error::data(format!("no list of OpenMMLab, which has a data_list of objects: {error}")))?;
    let names: Vec<String> = match metainfo.classes {
        serde_json::Value::Null => Vec::new(),
        serde_json::Value::String(one) => vec![one],
        many => serde_json::from_value(many)
            .map_err(|error| Error::data(format!("classes of metainfo are no list of names: {error}")))?,
    };
    rows.known = names.iter().map(|name| name.as_bytes().to_vec()).collect();
    read_objects(&data_list, &Classes { names, of_parts: Some(("instances", "bbox_label")) }, rows, monitor)
}

//! Parts of the JSON documents that several commands print. The document of a command is in the file of the command.
//!
//! Holds at all times: the comment on a field is its description in `docs/reference/json.schema.json`, which `cargo xtask docs`
//! generates from these types; keys are printed in alphabetical order.

#[cfg(test)]
mod schema;

use std::{collections::BTreeMap, time::Duration};

use serde::Serialize;
use shardpack_format::image_header;
use shardpack_packer::{ErrorKind, part};
use shardpack_reader::Transfers;
use shardpack_source::ledger::{self, Fate};

use crate::report::path;

/// Numbers of files or samples by name.
pub type Counted = BTreeMap<String, u64>;

/// The whole document of a run that an error ended.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Failed {
    /// The error.
    pub error: Error,
}

/// An error that ended a run.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Error {
    kind: Kind,
    /// The file with the error; null if it is in no file.
    file: Option<String>,
    /// Key and path of the sample; null if the error is in no sample.
    sample: Option<String>,
    /// Offset in the file in bytes; null if unknown.
    byte: Option<u64>,
    /// The problem in one line.
    message: String,
    /// Advice; null if there is none.
    help: Option<String>,
}

/// Who can solve the problem. The exit code is 1 for `data`, 2 for `usage` and `system`, 130 for `interrupted`.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
enum Kind {
    Data,
    Usage,
    System,
    Interrupted,
}

impl From<&shardpack_packer::Error> for Error {
    fn from(error: &shardpack_packer::Error) -> Self {
        let at = error.location();
        Self {
            kind: match error.kind() {
                ErrorKind::Data => Kind::Data,
                ErrorKind::Usage => Kind::Usage,
                ErrorKind::Interrupted => Kind::Interrupted,
                _ => Kind::System,
            },
            file: at.file.clone(),
            sample: at.sample.clone(),
            byte: at.byte,
            message: error.what(),
            help: error.help_text().map(str::to_owned),
        }
    }
}

/// Requests and bytes of reading from and writing to URLs.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Network {
    /// Requests that were sent.
    requests: u64,
    /// Bytes received.
    received_bytes: u64,
    /// Bytes of objects and parts of objects that were sent.
    sent_bytes: u64,
    /// Requests that were sent again because they failed or were cut.
    requests_again: u64,
    /// Responses that reported too many requests.
    throttled: u64,
}

impl From<Transfers> for Network {
    fn from(transfers: Transfers) -> Self {
        let Transfers { requests, bytes: received_bytes, again, too_many: throttled, sent_bytes } = transfers;
        Self { requests, received_bytes, sent_bytes, requests_again: again, throttled }
    }
}

/// An image that cannot be packed.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct LeftOut {
    /// Path in the source.
    path: String,
    /// Why the image cannot be packed.
    reason: String,
}

/// The images in `bad`.
pub fn left_out(bad: &[ledger::Unpacked]) -> Vec<LeftOut> {
    bad.iter().map(|bad| LeftOut { path: path(&bad.path), reason: bad.reason.to_string() }).collect()
}

/// An image that was found and is not in the shards.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Unpacked {
    /// Path in the source.
    path: String,
    /// Number of its class; null if it has none, or the class is unknown.
    label: Option<u32>,
    /// Why it is not in the shards.
    #[cfg_attr(test, schemars(with = "String", extend("enum" = ["skipped", "duplicate", "filtered"])))]
    fate: Fate,
    /// The reason in words.
    reason: String,
}

/// The images in `entries`.
pub fn unpacked(entries: &[ledger::Unpacked]) -> Vec<Unpacked> {
    let entry = |entry: &ledger::Unpacked| Unpacked {
        path: path(&entry.path),
        label: entry.class,
        fate: entry.fate,
        reason: entry.reason.to_string(),
    };
    entries.iter().map(entry).collect()
}

/// An image whose content does not match its extension.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Stray {
    /// Path in the source.
    path: String,
    /// Kind of the content.
    kind: &'static str,
}

/// The images in `found`.
pub fn strays(found: &[(Vec<u8>, image_header::Kind)]) -> Vec<Stray> {
    found.iter().map(|(bytes, kind)| Stray { path: path(bytes), kind: kind.name() }).collect()
}

/// One of the parts of `--part`: `I/N`.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct PartName(#[cfg_attr(test, schemars(regex(pattern = "^[0-9]+/[0-9]+$")))] String);

impl From<&part::Part> for PartName {
    fn from(part: &part::Part) -> Self {
        Self(part.to_string())
    }
}

/// Whole milliseconds.
pub fn milliseconds(time: Duration) -> u64 {
    time.as_millis() as u64
}

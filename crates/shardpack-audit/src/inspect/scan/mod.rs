//! Scans the samples of a foreign file: components, image headers and labels.
//!
//! Holds at all times: at most [`HEAD_BYTES`] are read of an image stored as is in a plain file; a compressed file is unpacked while it
//! is read; a file at a URL is read from its start, as far as needed. No file is ever opened by a name from the data.

mod records;
mod tar;

pub(super) use tar::is_image;

use std::{fs::File, ops::ControlFlow, os::unix::fs::FileExt};

use shardpack_format::{
    Error, Result,
    component::Form,
    image_header::{Header, SNIFF_BYTES},
    regular,
};

use super::Tar;
use crate::{foreign::ShardFile, monitor::Monitor, sys};

/// Maximum number of bytes of an image read for its header.
const HEAD_BYTES: usize = 64 << 10;
/// Enough bytes for the headers of most images.
const FIRST_BYTES: usize = 4 << 10;

/// A sample of a foreign file.
pub(super) struct Scanned {
    /// Key; the number or id of the record if the format has no keys.
    pub key: Vec<u8>,
    /// Start offset in the unpacked file.
    pub offset: u64,
    /// Components by name (extension, feature or column), each with its length in bytes and, if it is a value, its form.
    pub components: Vec<(String, u64, Option<Form>)>,
    /// The images among the components.
    pub images: Vec<Picture>,
    /// Label, if it is a number.
    pub label: Option<i64>,
    /// Class name, if the record has one.
    pub class: Option<String>,
    /// Name of the original file, if the record has one.
    pub filename: Option<Vec<u8>>,
}

/// An image in a sample.
pub(super) struct Picture {
    /// Extension, if the format has extensions and it is UTF-8.
    pub extension: Option<String>,
    /// Length in bytes.
    pub bytes: u64,
    /// Parsed header.
    pub header: Header,
}

/// Facts about a foreign file besides its samples.
#[derive(Debug, Default)]
pub(super) struct FileFacts {
    /// End offset of the content in the unpacked file, as far as it could be read.
    pub content_bytes: u64,
    /// Structure of a tar file.
    pub tar: Option<Tar>,
    /// Interpretation of the file if its format leaves a choice, a few words each.
    pub understood: Vec<String>,
    /// Why the file could not be read to its end, or the problem of its records.
    pub problem: Option<Error>,
    /// Whether the file could not be read to its end: later samples were not passed on.
    pub is_cut: bool,
    /// Other problems of the file as a whole.
    pub remarks: Vec<Error>,
}

/// Receives each sample and returns whether to continue.
pub(super) type SampleCallback<'a> = dyn FnMut(Scanned) -> Result<ControlFlow<()>> + 'a;

/// Passes each sample of the file to `found` in order, until `found` returns `Break`.
///
/// Problems of the file are in the result; samples before a problem have been passed on.
///
/// # Errors
/// If the file cannot be opened, or `found` fails.
pub(super) fn scan(file: &ShardFile, monitor: &dyn Monitor, found: &mut SampleCallback<'_>) -> Result<FileFacts> {
    let heads = Heads::open(file)?;
    let scanned = file.members(true).and_then(|members| match members {
        Some(archive) => tar::scan(file, archive, heads.as_ref(), found),
        None => records::scan(file, heads.as_ref(), monitor, found),
    });
    match (file.failure(), scanned) {
        (Some(error), Ok(facts)) => Ok(FileFacts { problem: Some(error), is_cut: true, ..facts }),
        (Some(error), Err(_)) => Err(error),
        (None, scanned) => scanned,
    }
}

/// Problems of one kind in a file: their number, and the first.
#[derive(Default)]
pub(super) struct Tally(u64, Option<Error>);

impl Tally {
    pub fn add(&mut self, error: impl FnOnce() -> Error) {
        self.0 += 1;
        self.1.get_or_insert_with(error);
    }

    /// The first problem in `file`; if there are several, their number and `what` follow.
    pub fn problem(self, file: &ShardFile, what: &str) -> Option<Error> {
        let first = self.1?.in_file(&file.path);
        Some(if self.0 > 1 { first.and(&format!("{} {what}", self.0)) } else { first })
    }
}

/// Reads image headers through a second file handle, without moving the reader's position.
struct Heads(File);

impl Heads {
    /// Opens the file; `None` if it is compressed or at a URL, where all bytes are read anyway.
    fn open(file: &ShardFile) -> Result<Option<Self>> {
        if !file.is_plain() || file.remote.is_some() {
            return Ok(None);
        }
        let opened = regular::open(&file.path).map_err(|error| sys::io_error("cannot open", &file.path, error))?;
        Ok(Some(Self(opened)))
    }

    /// Parses the header of the image at `offset`, which must lie inside the file.
    fn header(&self, offset: u64, image_bytes: u64) -> Result<Header> {
        let mut head = Vec::new();
        let mut header = Header::parse(&head);
        for bytes in [FIRST_BYTES, HEAD_BYTES] {
            head.resize(bytes.min(usize::try_from(image_bytes).unwrap_or(bytes)), 0);
            self.0.read_exact_at(&mut head, offset).map_err(|error| Error::io("cannot read", error).at_byte(offset))?;
            header = Header::parse(&head);
            let is_enough = header.width > 0 || head.len() as u64 >= image_bytes;
            if is_enough || header.kind as u8 == 0 && head.len() >= SNIFF_BYTES {
                break;
            }
        }
        Ok(header)
    }
}

//! Scan walks the samples of a foreign file: their components, what the first bytes of images say, their labels.
//!
//! Holds at all times: of an image that lies in a plain file as it is, at most [`HEAD_BYTES`] are read; a compressed
//! file is unpacked as it is read, and one at a URL is read from its first byte on as far as it is wanted. Names are names: nothing is ever opened by one.

mod records;
mod tar;

pub(super) use tar::{Opened, is_image};

use std::{fs::File, ops::ControlFlow, os::unix::fs::FileExt};

use shardpack_format::{
    Error, Result,
    component::Form,
    formats::webdataset,
    image_header::{Header, SNIFF_BYTES},
    regular,
};

use super::Tar;
use crate::{foreign::ShardFile, monitor::Monitor, sys};

/// Most bytes of an image that are read for its headers.
const HEAD_BYTES: usize = 64 << 10;
/// Enough for the headers of most images.
const FIRST_BYTES: usize = 4 << 10;

/// A sample of a foreign file.
pub(super) struct Scanned {
    /// Key; the number or id of the record where a format has none.
    pub key: Vec<u8>,
    /// Where it begins in the unpacked file.
    pub offset: u64,
    /// What it is made of, by name: extension, feature or column. Each with its length in bytes, and what
    /// it is, if it is a value.
    pub components: Vec<(String, u64, Option<Form>)>,
    /// The images among its components.
    pub images: Vec<Picture>,
    /// Its label, if that is a number.
    pub label: Option<i64>,
    /// Name of its class, if it says so.
    pub class: Option<String>,
    /// Name of the file that it was made of, if it says so.
    pub filename: Option<Vec<u8>>,
}

/// An image of a sample.
pub(super) struct Picture {
    /// Its extension, where its format has extensions and this one is text.
    pub extension: Option<String>,
    /// Length in bytes.
    pub bytes: u64,
    /// What its first bytes say.
    pub header: Header,
}

/// What is known of a foreign file beside its samples.
#[derive(Debug, Default)]
pub(super) struct FileFacts {
    /// Where its content ends, in bytes of the unpacked file; as far as it could be read.
    pub content_bytes: u64,
    /// How it is made, of a tar file.
    pub tar: Option<Tar>,
    /// How it was understood where it does not say so itself, in a few words each.
    pub understood: Vec<String>,
    /// Why it could not be read to its end, or what is wrong with its records.
    pub problem: Option<Error>,
    /// What else is wrong with it as a whole.
    pub remarks: Vec<Error>,
}

/// Is told of each sample, and says whether to go on.
pub(super) type Found<'a> = dyn FnMut(Scanned) -> Result<ControlFlow<()>> + 'a;

/// Tells `found` of each sample of the file in order, until it says to stop. What is wrong with the file is in what is
/// returned, and what was read before has been told.
///
/// # Errors
/// When the file cannot be opened, and the first of `found`.
pub(super) fn scan(file: &ShardFile, monitor: &dyn Monitor, found: &mut Found<'_>) -> Result<FileFacts> {
    let scanned = match file.kind.name() {
        // Its members say more than a record has room for, and most of them can be passed over.
        webdataset::NAME => tar::scan(file, found),
        _ => records::scan(file, monitor, found),
    };
    match (file.failure(), scanned) {
        (Some(error), Ok(facts)) => Ok(FileFacts { problem: Some(error), ..facts }),
        (Some(error), Err(_)) => Err(error),
        (None, scanned) => scanned,
    }
}

/// Reads the first bytes of images aside, without disturbing who walks the file.
struct Heads(File);

impl Heads {
    /// Of a file; `None` where it is compressed, or comes over a network, where all of it is read anyway.
    fn open(file: &ShardFile) -> Result<Option<Self>> {
        if !file.is_plain() || file.remote.is_some() {
            return Ok(None);
        }
        let opened = regular::open(&file.path).map_err(|error| sys::io_error("cannot open", &file.path, error))?;
        Ok(Some(Self(opened)))
    }

    /// What the headers of the image say that begins at `offset`, and of which it is known that it is inside the file.
    fn header(&self, offset: u64, image_bytes: u64) -> Result<Header> {
        let mut head = Vec::new();
        let mut header = Header::of(&head);
        for bytes in [FIRST_BYTES, HEAD_BYTES] {
            head.resize(bytes.min(usize::try_from(image_bytes).unwrap_or(bytes)), 0);
            self.0.read_exact_at(&mut head, offset).map_err(|error| Error::io("cannot read", error).at_byte(offset))?;
            header = Header::of(&head);
            let is_enough = header.width > 0 || head.len() as u64 >= image_bytes;
            if is_enough || header.kind as u8 == 0 && head.len() >= SNIFF_BYTES {
                break;
            }
        }
        Ok(header)
    }
}

//! WebDataset: plain tar files in which neighbouring members with one key are a sample.
//!
//! # Bytes
//! ```text
//! 00000042.cls  header 512 | label in ASCII, zeros to 512
//! 00000042.jpg  header 512 | the image, zeros to a multiple of 512
//! 00000042.json header 512 | {"class": …}, zeros to a multiple of 512          (on request)
//! …
//! two blocks of 512 zeros, then zeros to a multiple of 10,240
//! ```
//! Header: `name` 0/100, `mode` 100/8 `0000644`, `uid` and `gid` 108/8 and 116/8 zero, `size` 124/12 octal, `mtime`
//! 136/12 zero, `chksum` 148/8, `typeflag` 156 `0`, `magic` and `version` 257/8 `ustar\0` `00`, the rest zero.
//!
//! # Specification
//! POSIX.1-2017, pax, "ustar Interchange Format". The grouping of members: webdataset 1.0.2, `base_plus_ext`.
//!
//! # Read by
//! webdataset, wids, Hugging Face datasets, timm, OpenCLIP, Energon, NVIDIA DALI, torchdata, GNU tar, Python's tarfile.
//!
//! # Quirks
//! - Only plain USTAR headers are written: wids knows neither PAX nor GNU headers.
//! - Hugging Face takes the components of the first five samples for all, and timm knows `jpg` but not `jpeg`: so one
//!   extension serves the whole dataset, whatever a stray image is. Decoders go by content.
//! - Members are in the order of their extensions, as webdataset's own writer has them.

mod card;
mod columns;
mod croissant;
mod escape;
mod foreign;
mod header;
mod layout;
pub mod reader;
pub mod samples;
mod sidecars;
pub mod texts;
mod writer;

pub use foreign::{Looked, image_of, is_array, is_lost, is_named_image, is_of_files, record};

pub use layout::{BLOCK_BYTES, RECORD_BYTES};
pub use writer::{WebDataset, append, append_end, meta};

/// Name on the command line and in the manifest.
pub const NAME: &str = "webdataset";

/// The setting that has the license of the dataset.
pub const LICENSE: &str = "license";

/// Fails if the license is not an identifier.
fn check_license(choice: &super::Choice) -> crate::Result<()> {
    let is_fit = |c: char| c.is_ascii_alphanumeric() || "-+._".contains(c);
    match choice.settings.get(LICENSE) {
        Some(license) if license.is_empty() || license.len() > 64 || !license.chars().all(is_fit) => {
            Err(crate::Error::usage(format!(
                "license {license:?}: a license is named by up to 64 ASCII letters, digits, -, +, . and _, as cc-by-4.0"
            )))
        }
        _ => Ok(()),
    }
}

/// The format in the list of all.
pub(super) const ENTRY: super::Entry = super::Entry {
    name: NAME,
    aliases: &["wds", "tar"],
    about: "plain tar files for WebDataset",
    has_extensions: true,
    has_components: true,
    without_labels: |choice| choice.cls = false,
    settings: &[super::Setting {
        name: LICENSE,
        about: "license of the dataset, for card and croissant, as the Hub spells it: cc-by-4.0, mit, … [default: none]",
    }],
    sidecars: sidecars::KINDS,
    open: |choice| {
        check_license(choice)?;
        Ok(Box::new(WebDataset::new(choice.clone())))
    },
    foreign: &foreign::Tar,
};

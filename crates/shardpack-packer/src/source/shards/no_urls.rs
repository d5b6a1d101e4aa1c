//! Stands in for [`urls`](super::urls) in a build without URL support: every call fails.

use std::path::Path;

use shardpack_format::{Error, Result};
use shardpack_reader::{StoreSettings, Transfers};

use crate::{
    foreign::{Kind, Remote, files},
    source::{options::Splits, packed::InFolder},
};

#[derive(Debug)]
pub(in crate::source) struct Urls;

impl Urls {
    pub fn new(_: &StoreSettings) -> Self {
        Self
    }

    pub fn transfers(&self) -> Transfers {
        Transfers::default()
    }

    pub fn known(&self, path: &Path, _: u64, _: i64) -> Result<Remote> {
        Err(refused(path))
    }

    pub fn of_source(&self, source: &str, _: Option<Kind>, _: &Splits) -> Result<Vec<(Option<String>, files::Files)>> {
        Err(refused(Path::new(source)))
    }

    pub fn is_dataset(&self, url: &str) -> Result<bool> {
        Err(refused(Path::new(url)))
    }

    pub fn refuse_without_manifest(&self, url: &str) -> Result<()> {
        Err(refused(Path::new(url)))
    }

    pub fn by_folder(&self, url: &str) -> Result<Vec<InFolder>> {
        Err(refused(Path::new(url)))
    }

    pub fn look(&self, source: &str) -> Result<files::Files> {
        Err(refused(Path::new(source)))
    }
}

fn refused(path: &Path) -> Error {
    Error::usage("a URL, and this build cannot read URLs (it lacks the feature cloud)").in_file(path)
}

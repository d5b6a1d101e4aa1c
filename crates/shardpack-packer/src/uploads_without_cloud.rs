//! Replaces the uploads in a build without cloud support: no value ever exists.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

use shardpack_format::{Error, Result, hash};
use shardpack_reader::{StoreSettings, Transfers};

use crate::monitor::Monitor;

/// See the module.
#[derive(Clone, Debug)]
pub struct Uploads(());

#[derive(Debug)]
pub(crate) struct ObjectOutput(());

fn none<T>() -> Result<T> {
    Err(Error::usage("this build cannot write to URLs (it lacks the feature cloud)"))
}

#[allow(missing_docs, clippy::missing_errors_doc, reason = "never called")]
impl Uploads {
    /// Always refused.
    ///
    /// # Errors
    /// Always.
    pub fn new(url: &Path, _: &StoreSettings, _: &Path) -> Result<Self> {
        none().map_err(|error: Error| error.in_file(url))
    }

    pub fn of_split(&self, _: Option<&str>) -> Self {
        self.clone()
    }

    pub fn recorded_in(&self, _: &Path) -> Self {
        self.clone()
    }

    pub fn guarded(&self, _: String, _: impl Fn(Option<Vec<u8>>) -> Result<()> + Send + Sync + 'static) -> Self {
        self.clone()
    }

    pub fn is_unchanged(&self) -> Result<()> {
        none()
    }

    pub fn has_record(_: &Path) -> bool {
        false
    }

    pub fn list(&self, _: &str) -> Result<BTreeMap<String, u64>> {
        none()
    }

    pub fn url(&self) -> &str {
        ""
    }

    pub fn give_up_begun(&self) -> Result<Vec<String>> {
        none()
    }

    pub fn threads(memory_bytes: u64, jobs: usize) -> (usize, u64) {
        (jobs, memory_bytes)
    }

    pub fn requests(_: u64, _: bool) -> u64 {
        0
    }

    pub fn fetches(_: u64) -> u64 {
        0
    }

    pub(crate) fn shard(&self, _: &str, _: u64, _: bool) -> ObjectOutput {
        ObjectOutput(())
    }

    pub fn reader(&self, _: &str, _: u64) -> std::io::Empty {
        std::io::empty()
    }

    pub fn put(&self, _: &str, _: Vec<u8>) -> Result<()> {
        none()
    }

    pub fn put_file(&self, _: &str, _: &Path, _: u64, _: &hash::FileHash, _: &dyn Monitor) -> Result<()> {
        none()
    }

    pub fn read_right(&self, _: &str, _: u64, _: impl Fn(&[u8]) -> bool) -> Result<Option<Vec<u8>>> {
        none()
    }

    pub fn read_if_there(&self, _: &str) -> Result<Option<Vec<u8>>> {
        none()
    }

    pub fn changed_at_ns(&self, _: &str) -> Option<u128> {
        None
    }

    pub fn remove(&self, _: &str) -> Result<()> {
        none()
    }

    pub fn lengths<'f>(&self, _: &[&'f str]) -> Result<BTreeMap<&'f str, u64>> {
        none()
    }

    pub fn put_files(&self, _: &Path, _: &[PathBuf]) -> Result<()> {
        none()
    }

    pub fn remove_files(&self, _: &[String]) -> Result<()> {
        none()
    }

    pub fn first_other(&self, _: impl Fn(&str) -> bool) -> Result<Option<String>> {
        none()
    }

    pub fn transfers(&self) -> Transfers {
        Transfers::default()
    }
}

impl ObjectOutput {
    pub fn path(&self) -> PathBuf {
        PathBuf::new()
    }

    pub fn write_at(&self, _: &[u8], _: u64) -> Result<()> {
        none()
    }

    pub fn finish(&self, _: u64, _: &hash::FileHash) -> Result<()> {
        none()
    }

    pub fn give_up(&self) -> Result<()> {
        none()
    }
}

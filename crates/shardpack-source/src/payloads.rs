//! The names of files that are samples: images, or files that match patterns.

use std::collections::BTreeSet;

use globset::{GlobBuilder, GlobSet, GlobSetBuilder};
use shardpack_format::{Error, Result, component::Component, image_header::Kind};

use super::names;

/// Name of the payload if its files have several extensions.
pub(super) const FILE: &str = "file";

/// Patterns of the files that are payloads.
pub(super) struct Payloads {
    patterns: Vec<String>,
    set: GlobSet,
    payload: Option<Component>,
}

impl Payloads {
    /// Payloads are the files that match one of `patterns`: an extension in any case, or a glob for names with an extension.
    ///
    /// Without patterns, payloads are images.
    ///
    /// # Errors
    /// If a pattern is invalid, or some patterns match images and others do not.
    pub fn new(patterns: &[String]) -> Result<Self> {
        let mut set = GlobSetBuilder::new();
        let (mut images, mut others) = (BTreeSet::new(), BTreeSet::new());
        for pattern in patterns {
            let wrong = |what: &str| Error::usage(format!("--files {pattern:?}: {what}"));
            let is_glob = pattern.contains(['*', '?', '[']);
            let glob = if is_glob { pattern.clone() } else { format!("*.{}", pattern.trim_start_matches('.')) };
            let extension = glob.rsplit_once('.').map_or("", |(_, extension)| extension).to_ascii_lowercase();
            if extension.is_empty() || !extension.bytes().all(|b| b.is_ascii_alphanumeric() || b"_-+".contains(&b)) {
                return Err(wrong("write an extension such as flac, or a pattern such as '*_rec.flac'"));
            }
            if glob.contains(['/', ',']) {
                return Err(wrong("a pattern of file names cannot contain / or ,").help("--include takes paths"));
            }
            let built = GlobBuilder::new(&glob).case_insensitive(!is_glob || glob == format!("*.{extension}")).build();
            set.add(built.map_err(|error| wrong(&error.to_string()))?);
            match is_image(&extension) {
                true => images.insert(extension),
                false => others.insert(extension),
            };
        }
        if let (Some(image), Some(other)) = (images.first(), others.first()) {
            return Err(Error::usage(format!("--files: {image} is an image extension, {other} is not"))
                .help("--group stem combines files of one name into one sample; or pack each kind by itself"));
        }
        let payload = match (others.first(), others.len()) {
            (None, _) => None,
            (Some(one), 1) => Some(Component::field(one)?),
            _ => Some(Component::field(FILE)?),
        };
        let set = set.build().map_err(|error| Error::usage(format!("--files: {error}")))?;
        Ok(Self { patterns: patterns.to_vec(), set, payload })
    }

    /// Whether a file called `name` is a payload.
    pub fn takes(&self, name: &[u8]) -> bool {
        match self.patterns.is_empty() {
            true => names::is_image(name),
            false => self.set.is_match(names::as_path(name)),
        }
    }

    /// The payload component, if samples are not images.
    pub fn payload(&self) -> Option<&Component> {
        self.payload.as_ref()
    }

    /// The patterns passed to [`Payloads::new`].
    pub fn patterns(&self) -> &[String] {
        &self.patterns
    }
}

/// Whether files with this extension, in lower case, are images.
pub(super) fn is_image(extension: &str) -> bool {
    Kind::of_extension(extension).is_some_and(|kind| kind != Kind::Npy)
}

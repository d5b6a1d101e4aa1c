//! Locates the labels of an environment: in the values, under separate keys, in a separate database, in the name of the
//! environment, or where the user chose.

use std::{path::Path, sync::Arc};

use shardpack_format::{Result, formats::foreign::Label, text};

use super::{
    DATA_FILE, Database, Environment,
    coding::Coding,
    overrides::{LabelFrom, Overrides},
    pattern::label,
};

/// How a key begins whose label stands beside it.
pub(super) const IMAGE_KEY: &[u8] = b"image-";
/// And how that of the label does.
pub(super) const LABEL_KEY: &[u8] = b"label-";

/// Entries that are searched for the key of an image.
const LOOKS: usize = 16;

/// Location of labels.
pub(super) enum Labels {
    /// In the value; if the value has none, in the folder of the key.
    InValue,
    /// Under `label-…` beside `image-…`.
    Beside,
    /// In another database, under the same key.
    Database(Database, String),
    /// All samples are of one class.
    One(Vec<u8>),
    /// Chosen by the user: in the key, in a header of the value, or in a file.
    Said(LabelFrom),
}

impl Labels {
    /// Locates the labels in `environment`, whose images are in the database `images`: where the user chose (`said`), else in
    /// the database `named`, if it exists.
    ///
    /// # Errors
    /// If the environment is corrupt, or a read fails.
    pub fn detect(
        environment: &Arc<Environment>,
        images: &Database,
        said: Option<LabelFrom>,
        named: Option<Vec<u8>>,
    ) -> Result<Self> {
        Ok(match (said, named) {
            (Some(LabelFrom::Value), _) => Self::InValue,
            (Some(LabelFrom::Beside), _) => Self::Beside,
            (Some(LabelFrom::Name), _) => Self::One(name_of(environment.path())),
            (Some(from), _) => Self::Said(from),
            (None, Some(label)) => {
                let shown = text::shown(&label).to_string();
                Self::Database(environment.database(Some(&label))?, shown)
            }
            (None, None) if are_beside(images)? => Self::Beside,
            (None, None) => class_of(environment.path()).map_or(Self::InValue, Self::One),
        })
    }

    /// The label of the image under `key` of `images` that is in another entry, if it is there.
    ///
    /// # Errors
    /// If the environment is corrupt, or the system fails.
    pub fn beside(&self, images: &Database, key: &[u8]) -> Result<Option<Label>> {
        let (database, key) = match self {
            Self::Beside => (images, [LABEL_KEY, key.strip_prefix(IMAGE_KEY).unwrap_or(key)].concat()),
            Self::Database(database, _) => (database, key.to_vec()),
            Self::InValue | Self::One(_) | Self::Said(_) => return Ok(None),
        };
        let Some(place) = database.get(&key)? else { return Ok(Some(Label::Missing)) };
        let mut text = Vec::new();
        database.read(place, &mut text)?;
        Ok(Some(match (label(&text), self) {
            // Of pictures of text it is the text, and that of a house number is no number.
            (Label::Text(text), Self::Beside) => Label::Name(text),
            (label, _) => label,
        }))
    }

    /// Description of the location for the user.
    pub fn describe(&self, said: &Overrides, coding: Coding, are_paths: bool) -> String {
        match self {
            Self::Beside => "under label-… beside image-…".to_owned(),
            Self::Database(_, name) => format!("in database {name:?}"),
            Self::One(class) => format!("{:?}, by the name of the folder", text::shown(class)),
            Self::Said(LabelFrom::Key) if said.pattern.is_some() => "in the key, by --key-pattern".to_owned(),
            Self::Said(LabelFrom::Header(integer)) => format!("in the value, first, as {integer}"),
            Self::Said(LabelFrom::File) => format!("in {}", said.label_name()),
            Self::InValue if coding != Coding::Image => "in the value".to_owned(),
            Self::InValue if !are_paths => "none, by the first keys".to_owned(),
            Self::InValue | Self::Said(_) => "the folder of the key".to_owned(),
        }
    }
}

/// Whether the first key `image-…` has a key `label-…` beside it.
fn are_beside(images: &Database) -> Result<bool> {
    if images.get(b"image-000000001")?.is_some() {
        return Ok(true);
    }
    let mut walk = images.cursor()?;
    for _ in 0..LOOKS {
        let Some(entry) = walk.next()? else { break };
        if let Some(rest) = entry.key.strip_prefix(IMAGE_KEY) {
            return Ok(images.get(&[LABEL_KEY, rest].concat())?.is_some());
        }
    }
    Ok(false)
}

/// The class in the name of an LSUN environment, such as `bedroom_train_lmdb`.
fn class_of(data: &Path) -> Option<Vec<u8>> {
    let stem = data.parent()?.file_name()?.to_str()?.strip_suffix("_lmdb")?;
    let class = ["_train", "_val", "_test"].iter().find_map(|split| stem.strip_suffix(split))?;
    (!class.is_empty()).then(|| class.as_bytes().to_vec())
}

/// The name of any environment, if the user chose the name as the class.
fn name_of(data: &Path) -> Vec<u8> {
    let name = || match data.ends_with(DATA_FILE) {
        true => data.parent()?.file_name(),
        false => data.file_stem(),
    };
    class_of(data).unwrap_or_else(|| name().unwrap_or_default().to_string_lossy().trim_end_matches("_lmdb").into())
}

/// The first folder of a key that is a path.
pub(super) fn folder_of(key: &[u8]) -> Option<Vec<u8>> {
    let at = key.iter().position(|byte| *byte == b'/')?;
    (at > 0).then(|| key[..at].to_vec())
}

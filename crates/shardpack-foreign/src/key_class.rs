//! Labels in the names of tar members: the last folder, or the part that a pattern names.

use shardpack_format::{
    Result,
    formats::foreign::{Entries, Label, Record},
};

use super::lmdb::{KeyPart, Pattern};

/// Derives the label or the name of a sample from its key.
pub(super) struct KeyClass {
    /// The pattern of keys, if the user gave one.
    pattern: Option<Pattern>,
    has_label: bool,
}

impl KeyClass {
    /// The user's options for keys; `None` if there are none.
    ///
    /// # Errors
    /// If an option is invalid.
    pub fn parse(entries: &Entries) -> Result<Option<Self>> {
        let KeyPart { pattern, has_label } = KeyPart::parse(entries)?;
        Ok((pattern.is_some() || has_label).then_some(Self { pattern, has_label }))
    }

    /// Sets the fields of `record` that its key provides.
    pub fn tell(&self, record: &mut Record) {
        let (label, name) = match &self.pattern {
            None => (folder(&record.key).map(|folder| Label::Name(folder.to_vec())), None),
            Some(pattern) => {
                let extension = record.image.as_ref().map_or("", |image| image.name.as_str());
                let member = [&record.key[..], b".", extension.as_bytes()].concat();
                match pattern.read(&record.key).or_else(|| pattern.read(&member)) {
                    Some(told) => (Some(told.label), told.name),
                    None => (Some(Label::Unfit("the key does not match --key-pattern".to_owned())), None),
                }
            }
        };
        let unfit = || Label::Unfit("the key has no folder; set the place of the label with --key-pattern".to_owned());
        let label = label.unwrap_or_else(unfit);
        if self.has_label || matches!(label, Label::Unfit(_)) {
            (record.label, record.class) = (label, None);
            record.labels = 1;
        }
        record.filename = name.or_else(|| record.filename.take());
    }
}

/// The last folder of a path.
pub fn folder(path: &[u8]) -> Option<&[u8]> {
    let folders = &path[..path.iter().rposition(|byte| *byte == b'/')?];
    let last = folders.rsplit(|byte| *byte == b'/').next()?;
    (!matches!(last, b"" | b"." | b"..")).then_some(last)
}

//! Checks records of every format: an image begins like an image, and the label comes from the key if the user chose so.
//!
//! A failed fetch from a URL ends the walk with a machine error, even if the parser reported a corrupt record or the end of
//! the file.

use std::collections::BTreeMap;

use shardpack_format::{
    Error, Result,
    formats::foreign::{FieldSelection, Label, Other, Record, Walk},
};

use super::{header_check::no_image, key_class::KeyClass, npz::TakenApart, remote::Remote};

/// Names of components that readers take for the label; a field with such a name that is no label is renamed.
const LABELS: [&str; 2] = ["label", "cls"];
/// Name of such a field.
pub const LABEL_BESIDE_IMAGE: &str = "labels";

/// A walk through a file of any format.
pub(super) struct Checked {
    walk: Box<dyn Walk>,
    /// Splits `.npz` files in samples into arrays, if enabled.
    npz: Option<TakenApart>,
    /// Whether the first bytes of images are checked: not if the user named the image field.
    by_content: bool,
    /// Set if the user renamed fields.
    renamed: Option<FieldSelection>,
    /// Derives labels from keys.
    keys: Option<KeyClass>,
    /// Whether labels are disabled, and whether the user named the image field.
    no_labels: bool,
    is_label_said: bool,
    first: Vec<u8>,
    /// Why the last record has no image though the walk has one.
    refused: Option<String>,
    /// The remote files that the records come from.
    remotes: Vec<Remote>,
}

impl Checked {
    pub fn new(
        walk: Box<dyn Walk>,
        wanted: &FieldSelection,
        keys: Option<KeyClass>,
        npz: Option<TakenApart>,
        remotes: Vec<Remote>,
    ) -> Self {
        let renamed = (!wanted.renames.is_empty()).then(|| wanted.clone());
        let (by_content, first, refused) = (wanted.image.is_none(), Vec::new(), None);
        Self {
            walk,
            npz,
            by_content,
            renamed,
            keys,
            no_labels: wanted.no_labels,
            is_label_said: wanted.label.is_some(),
            first,
            refused,
            remotes,
        }
    }

    /// The result of a read, unless the network caused it.
    fn prefer_network_error<T>(&self, came: Result<T>) -> Result<T> {
        self.remotes.iter().find_map(Remote::failure).map_or(came, Err)
    }

    fn step(&mut self) -> Result<Option<Record>> {
        self.refused = None;
        let Some(mut record) = self.walk.next()? else { return Ok(None) };
        if let Some(npz) = &mut self.npz {
            npz.take_apart(&mut record)?;
        }
        if let Some(keys) = &self.keys {
            keys.tell(&mut record);
        }
        if let Some(wanted) = &self.renamed {
            let names = record.others.iter_mut().map(|other| &mut other.name).chain([&mut record.label_name]);
            names.for_each(|name| *name = wanted.called(name).into_owned());
        }
        if record.image.is_ok() && !self.is_label_said && (self.no_labels || record.label == Label::Missing) {
            // Beside an image, a field with such a name would be read as the label.
            let is_label = |other: &&mut Other| LABELS.iter().any(|label| other.name.eq_ignore_ascii_case(label));
            record.others.iter_mut().filter(is_label).for_each(|other| other.name = LABEL_BESIDE_IMAGE.to_owned());
        }
        if let Ok(image) = record.image.as_ref()
            && self.by_content
        {
            self.walk.first(&mut self.first)?;
            self.refused = no_image(image, &self.first);
        }
        if let Some(why) = &self.refused {
            record.image = Err(why.clone());
            // Without the image, the other fields form no sample.
            record.others.iter_mut().for_each(|other| other.form = None);
        }
        Ok(Some(record))
    }
}

impl Walk for Checked {
    fn next(&mut self) -> Result<Option<Record>> {
        let next = self.step();
        self.prefer_network_error(next)
    }

    fn image(&mut self, out: &mut Vec<u8>) -> Result<()> {
        let image = match &self.refused {
            Some(why) => Err(Error::data(why)),
            None => self.walk.image(out),
        };
        self.prefer_network_error(image)
    }

    fn first(&mut self, out: &mut Vec<u8>) -> Result<()> {
        let first = self.walk.first(out);
        self.prefer_network_error(first)
    }

    fn content(&mut self, out: &mut Vec<u8>) -> Result<()> {
        let content = self.walk.content(out);
        self.prefer_network_error(content)
    }

    fn wider(&self) -> &[Option<u32>] {
        self.walk.wider()
    }

    fn understood(&self) -> Vec<String> {
        self.walk.understood()
    }

    fn remarks(&mut self) -> Vec<Error> {
        self.walk.remarks()
    }

    fn lost(&mut self) -> Vec<Error> {
        self.walk.lost()
    }

    fn lost_records(&self) -> Vec<u64> {
        self.walk.lost_records()
    }

    fn passed(&self) -> BTreeMap<String, u64> {
        self.walk.passed()
    }

    fn notes(&self) -> Vec<String> {
        self.walk.notes().into_iter().chain(self.npz.as_ref().and_then(TakenApart::note)).collect()
    }
}

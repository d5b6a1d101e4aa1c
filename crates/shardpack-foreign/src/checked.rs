//! What holds for records of every format: an image does not begin like none, and a label is where a person says that keys have it.
//!
//! Holds at all times: what could not be fetched of a file at a URL ends the walk with an error of the machine; whatever was made of it, a
//! record that is damaged or the end of the file, is no record and no end.

use std::collections::BTreeMap;

use shardpack_format::{
    Error, Result,
    formats::foreign::{Label, Other, Record, Walk, Wanted},
};

use super::{header_check::no_image, key_class::KeyClass, npz::TakenApart, remote::Remote};

/// Names of components that readers take for the label, and what a field of such a name is called that is none.
const LABELS: [&str; 2] = ["label", "cls"];
const NO_LABEL: &str = "labels";

/// A walk through a file of any format.
pub(super) struct Checked {
    walk: Box<dyn Walk>,
    /// Where `.npz` files in samples are their arrays.
    npz: Option<TakenApart>,
    /// Whether images are held against their first bytes: not where a person has named their field.
    by_content: bool,
    /// Where a person has renamed fields.
    renamed: Option<Wanted>,
    /// Where keys tell the label.
    keys: Option<KeyClass>,
    /// Whether nobody wants what records say of labels, and whether a person has named the field.
    no_labels: bool,
    is_label_said: bool,
    first: Vec<u8>,
    /// Why the last record has no image though the walk has one.
    refused: Option<String>,
    /// What the file is read from, if it is at a URL.
    remote: Option<Remote>,
}

impl Checked {
    pub fn new(
        walk: Box<dyn Walk>,
        wanted: &Wanted,
        keys: Option<KeyClass>,
        npz: Option<TakenApart>,
        remote: Option<Remote>,
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
            remote,
        }
    }

    /// What came of a read, unless the network is why.
    fn told<T>(&self, came: Result<T>) -> Result<T> {
        self.remote.as_ref().and_then(Remote::failure).map_or(came, Err)
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
            // What is called so beside an image would be read as its label.
            let is_label = |other: &&mut Other| LABELS.iter().any(|label| other.name.eq_ignore_ascii_case(label));
            record.others.iter_mut().filter(is_label).for_each(|other| other.name = NO_LABEL.to_owned());
        }
        if let Ok(image) = record.image.as_ref()
            && self.by_content
        {
            self.walk.first(&mut self.first)?;
            self.refused = no_image(image, &self.first);
        }
        if let Some(why) = &self.refused {
            record.image = Err(why.clone());
            // What was beside it is no sample without it.
            record.others.iter_mut().for_each(|other| other.form = None);
        }
        Ok(Some(record))
    }
}

impl Walk for Checked {
    fn next(&mut self) -> Result<Option<Record>> {
        let next = self.step();
        self.told(next)
    }

    fn image(&mut self, out: &mut Vec<u8>) -> Result<()> {
        let image = match &self.refused {
            Some(why) => Err(Error::data(why)),
            None => self.walk.image(out),
        };
        self.told(image)
    }

    fn first(&mut self, out: &mut Vec<u8>) -> Result<()> {
        let first = self.walk.first(out);
        self.told(first)
    }

    fn content(&mut self, out: &mut Vec<u8>) -> Result<()> {
        let content = self.walk.content(out);
        self.told(content)
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

    fn passed(&self) -> BTreeMap<String, u64> {
        self.walk.passed()
    }

    fn notes(&self) -> Vec<String> {
        self.walk.notes().into_iter().chain(self.npz.as_ref().and_then(TakenApart::note)).collect()
    }
}

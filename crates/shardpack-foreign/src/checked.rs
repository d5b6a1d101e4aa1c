//! What holds for records of every format: an image does not begin like none, and a label is where a person says that keys have it.

use std::collections::BTreeMap;

use shardpack_format::{
    Error, Result,
    formats::foreign::{Record, Walk, Wanted},
};

use super::{header_check::no_image, key_class::KeyClass, npz::TakenApart};

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
    first: Vec<u8>,
    /// Why the last record has no image though the walk has one.
    refused: Option<String>,
}

impl Checked {
    pub fn new(walk: Box<dyn Walk>, wanted: &Wanted, keys: Option<KeyClass>, npz: Option<TakenApart>) -> Self {
        let renamed = (!wanted.renames.is_empty()).then(|| wanted.clone());
        Self { walk, npz, by_content: wanted.image.is_none(), renamed, keys, first: Vec::new(), refused: None }
    }
}

impl Walk for Checked {
    fn next(&mut self) -> Result<Option<Record>> {
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

    fn image(&mut self, out: &mut Vec<u8>) -> Result<()> {
        match &self.refused {
            Some(why) => Err(Error::data(why)),
            None => self.walk.image(out),
        }
    }

    fn first(&mut self, out: &mut Vec<u8>) -> Result<()> {
        self.walk.first(out)
    }

    fn content(&mut self, out: &mut Vec<u8>) -> Result<()> {
        self.walk.content(out)
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

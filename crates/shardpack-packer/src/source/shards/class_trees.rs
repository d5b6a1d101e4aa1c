//! Tar files of a tree of images, as Caltech 101 is downloaded: where no sample says anything of its class, the last folder of its
//! name may be the class.
//!
//! Holds at all times: folders are taken for classes only where all samples have one, and are an image or a file and nothing beside,
//! and where some hold several; that they were, or were not, is a note.

use std::collections::BTreeMap;

use shardpack_format::formats::foreign::{Label, Wanted};

use super::{super::classes::Words, File, Scanned};
use crate::{foreign::key_class::folder, source::options::SPLITS};

/// What folders of names are.
#[derive(Default)]
pub(super) struct Trees {
    /// Whether they are the classes.
    pub are_classes: bool,
    /// What a person should know of that.
    pub note: Option<String>,
}

/// Whether folders are the classes of all samples of `files`; if so, samples say them.
pub(super) fn find(files: &[File], scanned: &mut [Scanned], words: &mut Words, wanted: &Wanted) -> Trees {
    let rows = || scanned.iter().flat_map(|file| file.rows.iter().map(move |row| (file, row)));
    let is_unsaid = wanted.label.is_none() && wanted.entries.is_unsaid() && !wanted.no_labels;
    let says = |(_, row): (_, &super::scan::Row)| row.said.number.is_some() || row.said.word.is_some();
    if !is_unsaid || !files.iter().all(|file| file.shard.kind.has_member_names()) || rows().any(says) {
        return Trees::default();
    }
    let mut folders: BTreeMap<Option<&[u8]>, u64> = BTreeMap::new();
    rows().for_each(|(file, row)| *folders.entry(folder(file.name(row))).or_default() += 1);
    let without = folders.remove(&None).unwrap_or(0);
    if folders.is_empty() {
        return Trees::default();
    }
    let names: Vec<&[u8]> = folders.keys().copied().flatten().collect();
    let are_splits = names.iter().all(|name| SPLITS.iter().any(|split| split.as_bytes() == *name));
    // Parts of a large set, numbered.
    let are_parts = names.iter().all(|name| name.len() > 2 && name.iter().all(u8::is_ascii_digit));
    let are_classes = without == 0
        && names.len() > 1
        && folders.values().any(|samples| *samples > 1)
        && !are_splits
        && !are_parts
        && scanned.iter().all(|file| file.files.len() <= usize::from(file.fields.are_files));
    if !are_classes {
        let note = "--label-from key takes the last folder of each name as its class";
        return Trees { are_classes, note: Some(note.to_owned()) };
    }
    let note = format!("no record has a label: the last folder of each name is its class, {} of them", names.len());
    for file in scanned {
        let mut said = Vec::with_capacity(file.rows.len());
        for row in &file.rows {
            let label = folder(file.name(row)).map_or(Label::Missing, |folder| Label::Name(folder.to_vec()));
            said.push(words.said(&label, None, None).unwrap_or(row.said));
        }
        file.rows.iter_mut().zip(said).for_each(|(row, said)| row.said = said);
    }
    Trees { are_classes, note: Some(note + "; --no-labels leaves it") }
}

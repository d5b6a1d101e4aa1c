//! Numbers for the classes that label files name.
//!
//! Holds at all times: the numbers are the same for all splits. Names that are known already, from `data.yaml`, `classes.txt` or the dataset
//! that is compared, keep their order. Otherwise classes are sorted by id and name; numbers of CSV by their values, and they are indexes if known
//! names are no numbers.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use shardpack_format::{
    Error, Result,
    component::{Component, Conversion, ObjectFile},
    size,
};

use super::{Parsed, described::Class, is_of_file};
use crate::{api::SourceListing, object_classes};

/// The numbers of the classes of one kind of label files.
pub(super) struct Numbers {
    names: Vec<String>,
    /// The numbers of classes that several may share a name of; empty if names decide.
    by_class: BTreeMap<Class, usize>,
    /// Whether classes are indexes of names that are known already.
    are_indexes: bool,
}

impl Numbers {
    /// Decides the numbers for the label files of `file`, and sets the names in `found`. `listed` are classes that a file lists.
    ///
    /// # Errors
    /// If files give one id to several names.
    pub fn decide(
        found: &mut [SourceListing],
        file: (usize, Conversion),
        parsed: &mut dyn Iterator<Item = &Parsed>,
        listed: &mut dyn Iterator<Item = Arc<Class>>,
    ) -> Result<Self> {
        let mut own: BTreeSet<Class> = listed.map(|class| (*class).clone()).collect();
        if !file.1.file.is_of_many() {
            let named = parsed.flat_map(|parsed| parsed.described.iter().flat_map(|found| &found.objects));
            named.for_each(|(class, _)| {
                if !own.contains(class.as_ref()) {
                    own.insert((**class).clone());
                }
            });
        }
        let mut own: Vec<Class> = own.into_iter().collect();
        let are_numbers = file.1.file == ObjectFile::Csv && own.iter().all(|class| class.name.parse::<i64>().is_ok());
        if are_numbers {
            own.sort_by_key(|class| class.name.parse::<i64>().ok());
        }
        let of_file = |kind: &&Component| is_of_file(kind, file.1, &found[0].listing.components().kinds[file.0]);
        let kinds =
            found[0].listing.components().kinds.iter().filter(of_file).filter(|kind| object_classes::is_labels(kind));
        let labels: Vec<String> = kinds.map(|kind| kind.name().to_owned()).collect();
        let known = labels.iter().find_map(|name| found[0].component_classes.get(name)).cloned();
        if known.is_none()
            && let Some((pair, id)) =
                own.windows(2).find_map(|pair| Some((pair, pair[0].id.filter(|id| pair[1].id == Some(*id))?)))
        {
            let [one, other] = [&pair[0], &pair[1]].map(|class| &class.name);
            return Err(Error::usage(format!("category {id} is {one:?} in one file and {other:?} in another"))
                .help("pack them as datasets of their own, or give both files the same categories"));
        }
        let own_names: Vec<String> = own.iter().map(|class| class.name.clone()).collect();
        let names = known.unwrap_or_else(|| own_names.clone());
        let by_class = match names == own_names {
            true => own.into_iter().zip(0..).collect(),
            false => BTreeMap::new(),
        };
        for one in found.iter_mut().filter(|_| !names.is_empty()) {
            one.component_classes.extend(labels.iter().map(|name| (name.clone(), names.clone())));
        }
        let has_numbers = names.iter().any(|name| name.parse::<i64>().is_ok());
        let are_indexes = are_numbers && by_class.is_empty() && !has_numbers;
        Ok(Self { names, by_class, are_indexes })
    }

    /// The number of a class.
    ///
    /// # Errors
    /// The reason, if it is none of the classes.
    pub fn of(&self, class: &Class) -> Result<usize, String> {
        let by_name = || self.names.iter().position(|name| *name == class.name);
        let index = || class.name.parse().ok().filter(|index| self.are_indexes && *index < self.names.len());
        self.by_class.get(class).copied().or_else(by_name).or_else(index).ok_or_else(|| {
            let names = size::counted(self.names.len() as u64, "class");
            format!("class {:?}, and the source names {names} without it", class.name)
        })
    }
}

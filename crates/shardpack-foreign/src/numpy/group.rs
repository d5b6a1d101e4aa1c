//! Finds the files of numpy whose rows are samples.
//!
//! A file of numpy may be a sample, or a table of samples. Two arrays that are named as samples and as their labels are a table:
//! `X_train.npy` beside `y_train.npy`, or both in one archive. All `.npy` files of a folder are one table file. Without such a pair,
//! files are tables only with `--from numpy`.

use std::{collections::BTreeMap, path::Path};

use shardpack_format::{Error, Result, npy};

use super::{
    arrays::{MAX_ARRAYS, NumpyFile, is_archive},
    cifar, idx, stored,
};
use crate::{
    Beside, FileLocation, Kind, ShardFile,
    tables::{
        names::{self, IMAGES, is_called as is_named, label_rank, rank},
        seen::{Seen, are_one_sample},
    },
};

/// Reason under which files of numpy in a folder are counted that are not read.
pub const NO_ROWS: &str = "file of numpy that is no table of samples and labels";
/// Names of arrays of samples, beside the names of images.
const INPUTS: [&str; 2] = ["inputs", "input"];
/// Name of an array of labels, beside the names of labels.
const CLASSES: [&str; 1] = ["classes"];
/// Advice for a file of numpy that may be a sample.
pub const BY_CHOICE: &str = "--from numpy takes the rows of its arrays as samples; shardpack pack packs a folder of files that are a sample each";

/// An array of samples and the array of their labels.
#[derive(Debug, PartialEq, Eq)]
pub struct Pair {
    /// Number of the array of samples.
    pub samples: usize,
    /// Number of the array of labels.
    pub labels: usize,
    /// Rows of the samples and of the labels; `None` for a file without a head that can be read.
    pub rows: Option<(u64, u64)>,
}

/// Files of numpy, sorted.
#[derive(Default)]
pub(crate) struct Numpy {
    pub shards: Vec<ShardFile>,
    pub problems: Vec<Error>,
    /// Files that are not read, because neither a name nor an option makes their rows samples.
    pub others: Vec<FileLocation>,
}

/// Whether a file holds arrays whose rows may be samples.
pub(crate) fn is(place: &FileLocation) -> bool {
    is_called(place.path()) || cifar::is(place)
}

/// Whether a file of this name is a file of numpy or of MNIST.
pub(crate) fn is_called(path: &Path) -> bool {
    is_archive(path)
        || is_mnist(path)
        || path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("npy"))
}

/// The name of the array in a file.
pub(crate) fn array_name(path: &Path) -> String {
    let stem = || path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    idx::array_name(path).unwrap_or_else(stem)
}

/// The first file of MNIST or CIFAR among the `names` of a folder, and the name of its dataset.
pub fn known(names: &[String]) -> Option<(&str, &'static str)> {
    let has_meta = names.iter().any(|name| cifar::is_meta(Path::new(name)));
    let of = |name: &str| match Path::new(name) {
        path if is_mnist(path) => Some("MNIST"),
        path if has_meta && cifar::split(path).is_some() => Some("CIFAR"),
        _ => None,
    };
    names.iter().find_map(|name| Some((name.as_str(), of(name)?)))
}

/// Whether a file of this name is a file of MNIST.
fn is_mnist(path: &Path) -> bool {
    idx::array_name(path).is_some()
}

/// The first pair among `.npy` files, each given by its name and its first bytes.
pub fn pair(files: &[(String, Vec<u8>)]) -> Option<Pair> {
    let seen = |(name, first): &(String, Vec<u8>)| {
        let head = npy::read_head(first).ok();
        (name.clone(), head.map(|head| Seen::of(name.clone(), &stored::item(head.dtype), &head.shape)))
    };
    find(&files.iter().map(seen).collect::<Vec<_>>())
}

/// Whether an array of this name holds labels.
fn are_labels(name: &str) -> bool {
    label_rank(name).is_some() || is_named(name, &CLASSES)
}

/// Whether an array of this name holds samples.
pub(crate) fn are_samples(name: &str) -> bool {
    !are_labels(name) && (rank(name, &IMAGES).is_some() || is_named(name, &INPUTS))
}

/// The first pair among named arrays. An array without a head pairs by its name alone.
fn find(arrays: &[(String, Option<Seen>)]) -> Option<Pair> {
    let numbered = || arrays.iter().enumerate();
    for (samples, (name, own)) in numbered().filter(|(_, (name, _))| are_samples(name)) {
        let is_of_split = |other: &str| are_labels(other) && names::split(other) == names::split(name);
        for (labels, (_, theirs)) in numbered().filter(|(_, (other, _))| is_of_split(other)) {
            let (Some(own), Some(theirs)) = (own, theirs) else { return Some(Pair { samples, labels, rows: None }) };
            let (Some(rows), Some(of_labels)) = (own.rows(), theirs.rows()) else { continue };
            // A list beside an array of more axes can only be the labels of its rows, whatever its length.
            let is_list = matches!(theirs.shape[..], [_] | [_, 1]) && own.shape.len() > 1;
            if rows > 1 && of_labels > 1 && (rows == of_labels || is_list) {
                return Some(Pair { samples, labels, rows: Some((rows, of_labels)) });
            }
        }
    }
    None
}

/// The arrays of samples and of labels in an archive of a folder, by name, if its rows are samples. Several archives may be a sample
/// each, so that an archive that is not alone needs the names of splits.
fn pair_in(file: &NumpyFile, is_alone: bool) -> Option<(Seen, Seen)> {
    let seen = file.seen();
    let has_splits = seen.iter().any(|one| names::split(&one.path).is_some());
    if is_sample(&seen) || !(is_alone || has_splits) {
        return None;
    }
    let named: Vec<_> = seen.iter().map(|one| (one.path.clone(), Some(one.clone()))).collect();
    find(&named).map(|pair| (seen[pair.samples].clone(), seen[pair.labels].clone()))
}

/// The arrays of samples and of labels in the archive at `path`, described, if its rows are samples; `is_alone` if the folder has no
/// other archive. `None` if it cannot be read.
pub fn table(path: &Path, is_alone: bool) -> Option<(String, String)> {
    let file = NumpyFile::of_archive(&path.into()).ok()?;
    pair_in(&file, is_alone).map(|(samples, labels)| (samples.describe(), labels.describe()))
}

/// Finds the files whose rows are samples among `places`; all are if the user chose the kind `from`. Files that `are_named` by the
/// user and have no rows are problems.
pub(crate) fn shards(places: Vec<FileLocation>, from: Option<Kind>, are_named: bool) -> Numpy {
    let mut found = Numpy::default();
    let (own, mnist) = (Kind::Read(&super::ENTRY), Kind::Read(&super::MNIST));
    let pickled = Kind::Read(&super::PICKLED);
    let is_pickle =
        |place: &FileLocation| from == Some(pickled) || from.is_none() && super::is_called_pickle(place.path());
    let (of_pickles, places): (Vec<_>, Vec<_>) = places.into_iter().partition(is_pickle);
    for place in of_pickles {
        // The walk reports the error of a file that cannot be read.
        match from.is_none() && NumpyFile::of_pickle(&place).is_ok_and(|file| is_sample(&file.seen())) {
            true => found.leave_pickle(&place),
            false => found.add(pickled, vec![place]),
        }
    }
    let (of_mnist, places): (Vec<_>, Vec<_>) = places.into_iter().partition(|place| is_mnist(place.path()));
    // Their names leave no doubt.
    match from.is_none_or(|kind| kind == mnist) {
        true => by_folder(of_mnist).into_iter().for_each(|places| found.add(mnist, places)),
        false => found.others.extend(of_mnist),
    }
    let cifar = Kind::Read(&super::CIFAR);
    let is_cifar = |path: &Path| !is_called(path) && (cifar::split(path).is_some() || cifar::is_meta(path));
    let (of_cifar, places): (Vec<_>, Vec<_>) = places.into_iter().partition(|place| is_cifar(place.path()));
    match from.is_none_or(|kind| kind == cifar) {
        true => by_folder(of_cifar).into_iter().for_each(|places| found.add_batches(cifar, places)),
        false => found.others.extend(of_cifar),
    }
    let is_chosen = from == Some(own);
    if from.is_some() && !is_chosen {
        found.others.extend(places);
        return found;
    }
    let (archives, files): (Vec<_>, Vec<_>) = places.into_iter().partition(|place| is_archive(place.path()));
    let is_alone = archives.len() == 1;
    for place in archives {
        let have_rows = match NumpyFile::of_archive(&place) {
            _ if is_chosen => Ok(true),
            Ok(file) if are_named => Ok(!is_sample(&file.seen())),
            Ok(file) => Ok(pair_in(&file, is_alone).is_some()),
            // The walk reports the error of a file that the user named.
            Err(_) if are_named => Ok(true),
            Err(error) => Err(error.in_file(place.path())),
        };
        match have_rows {
            Ok(true) => found.add(own, vec![place]),
            Ok(false) => found.leave(vec![place], are_named),
            Err(error) if is_alone => found.problems.push(error),
            Err(_) => found.others.push(place),
        }
    }
    for mut places in by_folder(files) {
        match samples_of(&places) {
            Some(first) => {
                places.swap(0, first);
                places[1..].sort_by(|one, other| one.path().cmp(other.path()));
                found.add(own, places);
            }
            None if is_chosen => found.add(own, places),
            None => found.leave(places, are_named),
        }
    }
    found
}

/// The number of the first file that is an array of samples with labels beside it.
fn samples_of(places: &[FileLocation]) -> Option<usize> {
    if places.len() > MAX_ARRAYS {
        return None;
    }
    let looked = places.iter().map(|place| {
        let name = array_name(place.path());
        let seen = NumpyFile::of_files(std::slice::from_ref(place)).ok().and_then(|file| file.seen().pop());
        (name, seen)
    });
    let looked: Vec<_> = looked.collect();
    let seen: Option<Vec<Seen>> = looked.iter().map(|(_, seen)| seen.clone()).collect();
    let is_sample = seen.is_some_and(|seen| is_sample(&seen));
    find(&looked).filter(|_| !is_sample).map(|pair| pair.samples)
}

/// Whether arrays look like one sample. A sample has no splits.
fn is_sample(seen: &[Seen]) -> bool {
    are_one_sample(seen) && seen.iter().all(|one| names::split(&one.path).is_none())
}

/// The files of each folder, by name.
fn by_folder(places: Vec<FileLocation>) -> Vec<Vec<FileLocation>> {
    let mut folders: BTreeMap<_, Vec<FileLocation>> = BTreeMap::new();
    for place in places {
        folders.entry(place.path().parent().map(Path::to_path_buf)).or_default().push(place);
    }
    folders.values_mut().for_each(|places| places.sort_by(|one, other| one.path().cmp(other.path())));
    folders.into_values().collect()
}

impl Numpy {
    /// Adds the files at `places` as one file of tables.
    fn add(&mut self, kind: Kind, places: Vec<FileLocation>) {
        let shard = || -> Result<Option<ShardFile>> {
            let Some((first, others)) = places.split_first() else { return Ok(None) };
            let beside = others.iter().map(Beside::new).collect::<Result<_>>()?;
            Ok(Some(ShardFile { beside, ..ShardFile::new(first, first.facts()?, kind, None) }))
        };
        match shard() {
            Ok(shard) => self.shards.extend(shard),
            Err(error) => self.problems.push(error),
        }
    }

    /// Adds the batches of a folder, each with the names of classes beside it.
    fn add_batches(&mut self, kind: Kind, places: Vec<FileLocation>) {
        let (meta, batches): (Vec<_>, Vec<_>) = places.into_iter().partition(|place| cifar::is_meta(place.path()));
        if batches.is_empty() {
            return self.others.extend(meta);
        }
        for batch in batches {
            self.add(kind, std::iter::once(batch).chain(meta.iter().take(1).cloned()).collect());
        }
    }

    /// Leaves out files that may be samples.
    fn leave(&mut self, places: Vec<FileLocation>, are_named: bool) {
        match places.first() {
            Some(first) if are_named => self.problems.push(no_rows(first.path())),
            _ => self.others.extend(places),
        }
    }

    /// Refuses a pickle that may be a sample.
    fn leave_pickle(&mut self, place: &FileLocation) {
        let error = Error::usage("its arrays look like one sample, and not like tables of rows").in_file(place.path());
        self.problems.push(error.help("--from pickled takes the rows of its arrays as samples"));
    }
}

fn no_rows(path: &Path) -> Error {
    let what = match is_archive(path) {
        true => "its arrays look like one sample, and not like tables of rows",
        false => "an array without labels: no pair of files such as X_train.npy and y_train.npy",
    };
    Error::usage(what).in_file(path).help(BY_CHOICE)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn array(name: &str, shape: &[u64]) -> (String, Vec<u8>) {
        (name.to_owned(), npy::head("|u1", shape, false))
    }

    #[test]
    fn samples_and_labels_are_paired_by_name_and_length() {
        type Case<'c> = (&'c [(&'c str, &'c [u64])], Option<(usize, usize)>);
        let rows: [Case<'_>; 11] = [
            (&[("X_test", &[5, 28, 28]), ("X_train", &[9, 28, 28]), ("y_train", &[9])], Some((1, 2))),
            (&[("train_images", &[9, 28, 28]), ("train_labels", &[9, 1])], Some((0, 1))),
            (&[("data", &[9, 4]), ("target", &[9])], Some((0, 1))),
            (&[("inputs", &[9, 4]), ("classes", &[9])], Some((0, 1))),
            // Labels of another length are refused when the file is read, and not passed over.
            (&[("X", &[100, 4]), ("y", &[99])], Some((0, 1))),
            (&[("X_train", &[9, 4]), ("y_test", &[9])], None),
            (&[("x", &[3, 224, 224]), ("y", &[224, 224])], None),
            (&[("x", &[]), ("y", &[])], None),
            (&[("x", &[1, 4]), ("y", &[1])], None),
            (&[("mask_1", &[9, 4]), ("mask_2", &[9, 4])], None),
            (&[("label", &[9, 4]), ("labels", &[9])], None),
        ];
        for (arrays, expected) in rows {
            let files: Vec<_> = arrays.iter().map(|(name, shape)| array(name, shape)).collect();
            assert_eq!(pair(&files).map(|pair| (pair.samples, pair.labels)), expected, "{arrays:?}");
        }
        let damaged = [array("X_train", &[9, 4]), ("y_train".to_owned(), Vec::new())];
        assert_eq!(pair(&damaged), Some(Pair { samples: 0, labels: 1, rows: None }));
    }
}

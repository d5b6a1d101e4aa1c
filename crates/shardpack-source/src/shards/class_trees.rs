//! Class labels from names in tar files that hold a tree of images.
//!
//! If no record has a label, the class can be the last folder of each sample name (as in Caltech 101) or the name of the tar file
//! (as in ImageNet, with one tar per class).
//!
//! Holds at all times: folders become classes only if every sample has a folder, every sample is a single image or file, and at least
//! one folder holds several samples. A note reports the decision either way. Folders that are splits or hold pairs are an error.

use std::{
    collections::{BTreeMap, BTreeSet, HashSet},
    path::Path,
};

use shardpack_format::{
    Error, Result,
    formats::foreign::{FieldSelection, Label},
    shell, text,
};

use super::{
    super::{
        classes::Words,
        filter::PathFilter,
        layout::{Likeness, pairs},
        names,
    },
    File, Scanned,
    scan::Row,
};
use crate::{foreign::key_class::folder, options::SPLITS};

/// Maximum number of names in a message.
const NAMED: usize = 4;
/// Maximum number of file names compared per folder.
const STEMS: usize = 1 << 16;
/// Extensions of tar files, compressed tars included.
const EXTENSIONS: [&str; 6] = [".tar", ".tar.gz", ".tgz", ".tar.zst", ".tar.xz", ".tar.bz2"];

/// The role of folders in sample names.
#[derive(Default)]
pub(super) struct Trees {
    /// Whether the folders are the classes.
    pub are_classes: bool,
    /// Note for the user about that decision.
    pub note: Option<String>,
}

/// Decides whether folders, or else file names, are the classes of all samples, and writes those classes to the rows.
///
/// # Errors
/// If the folders of the kept samples are splits or hold pairs.
pub(super) fn find(
    files: &[File],
    scanned: &mut [Scanned],
    words: &mut Words,
    wanted: &FieldSelection,
    keep: &PathFilter,
) -> Result<Trees> {
    let rows = || scanned.iter().flat_map(|file| file.rows.iter().map(move |row| (file, row)));
    let is_unsaid = wanted.label.is_none() && wanted.entries.is_unsaid() && !wanted.no_labels;
    let says = |(_, row): (_, &Row)| row.said.number.is_some() || row.said.word.is_some();
    if !is_unsaid || !files.iter().all(|file| file.shard.kind.has_member_names()) || rows().any(says) {
        return Ok(Trees::default());
    }
    let is_alone = scanned.iter().all(|file| file.files.len() <= usize::from(file.fields.are_files));
    if let Some(names) = of_files(files, scanned).filter(|_| is_alone) {
        let note = format!("no record has a label: the name of each file is its class, {} in all", names.len());
        for (file, name) in scanned.iter_mut().zip(names) {
            let label = Label::Name(name.into_bytes());
            file.rows.iter_mut().for_each(|row| row.said = words.said(&label, None, None).unwrap_or(row.said));
        }
        return Ok(Trees { are_classes: false, note: Some(note + "; --no-labels leaves it out") });
    }
    let mut folders: BTreeMap<Option<&[u8]>, u64> = BTreeMap::new();
    rows().for_each(|(file, row)| *folders.entry(folder(file.name(row))).or_default() += 1);
    let without = folders.remove(&None).unwrap_or(0);
    if folders.is_empty() {
        return Ok(Trees::default());
    }
    let names: Vec<&[u8]> = folders.keys().copied().flatten().collect();
    let are_splits = names.iter().all(|name| SPLITS.iter().any(|split| split.as_bytes() == *name));
    // Numbered parts of a large set.
    let are_parts = names.iter().all(|name| name.len() > 2 && name.iter().all(u8::is_ascii_digit));
    let are_classes = without == 0
        && names.len() > 1
        && folders.values().any(|samples| *samples > 1)
        && !are_splits
        && !are_parts
        && is_alone;
    let kept = rows().map(|(file, row)| file.name(row)).filter(|name| keep.wants(name));
    let has_no_split = files.iter().all(|file| file.split.is_none());
    let asked = match are_classes {
        true => question(kept),
        // A text among the images of a tree, as a README, does not change what its folders are.
        false => Folders::of(kept).question().filter(|_| has_no_split && !are_splits && are_mostly_single(scanned)),
    };
    if let Some((what, help)) = asked {
        return Err(Error::usage(what).in_file(&files[0].shard.path).help(help));
    }
    if !are_classes {
        let note = "--label-from key takes the last folder of each name as its class";
        return Ok(Trees { are_classes, note: Some(note.to_owned()) });
    }
    let note = format!("no record has a label: the last folder of each name is its class, {} in all", names.len());
    for file in scanned {
        let mut said = Vec::with_capacity(file.rows.len());
        for row in &file.rows {
            let label = folder(file.name(row)).map_or(Label::Missing, |folder| Label::Name(folder.to_vec()));
            said.push(words.said(&label, None, None).unwrap_or(row.said));
        }
        file.rows.iter_mut().zip(said).for_each(|(row, said)| row.said = said);
    }
    Ok(Trees { are_classes, note: Some(note + "; --no-labels leaves it out") })
}

/// The stems of the files, if the stems are the classes; `None` otherwise.
///
/// Requires at least two files with distinct stems. Either every image name starts with its file's stem, as in `n01440764.tar`, or no
/// image is in a folder and the file names are not shard numbers.
fn of_files(files: &[File], scanned: &[Scanned]) -> Option<Vec<String>> {
    let stem = |file: &File| {
        let name = file.shard.path.file_name()?.to_str()?.to_owned();
        let end = EXTENSIONS.iter().filter_map(|end| name.strip_suffix(end)).next()?;
        Some(end.to_owned())
    };
    let stems = files.iter().map(stem).collect::<Option<Vec<_>>>()?;
    let distinct: BTreeSet<&String> = stems.iter().collect();
    let has_samples = scanned.iter().all(|file| !file.rows.is_empty());
    if stems.len() < 2 || distinct.len() < stems.len() || !has_samples || files.iter().any(|file| file.split.is_some())
    {
        return None;
    }
    let each = || scanned.iter().zip(&stems);
    let names = |file: &Scanned, is: &dyn Fn(&[u8]) -> bool| file.rows.iter().all(|row| is(file.name(row)));
    let called_so = |name: &[u8], stem: &str| {
        let name = name.rsplit(|byte| *byte == b'/').next().unwrap_or_default();
        name.strip_prefix(stem.as_bytes()).and_then(<[u8]>::first).is_some_and(|next| !next.is_ascii_alphanumeric())
    };
    if each().all(|(file, stem)| names(file, &|name| called_so(name, stem))) {
        return Some(stems);
    }
    let in_folders = scanned.iter().any(|file| !names(file, &|name| folder(name).is_none()));
    // `part-000017`: a common pattern followed by a number.
    let pattern = |stem: &String| stem.split(|c: char| c.is_ascii_digit()).filter(|part| !part.is_empty()).collect();
    let patterns: BTreeSet<String> = stems.iter().map(pattern).collect();
    let are_words =
        patterns.len() == stems.len() && stems.iter().all(|stem| !stem.ends_with(|c: char| c.is_ascii_digit()));
    let are_halves =
        stems.iter().any(|stem| pairs::is_half(stem.as_bytes()) || Likeness::classify(stem.as_bytes()).is_sure());
    let mut keys = BTreeSet::new();
    let are_pairs = scanned.iter().any(|file| {
        let own: BTreeSet<&[u8]> = file.rows.iter().map(|row| file.name(row)).collect();
        own.iter().filter(|name| keys.contains(**name)).count() * 2 > own.len() || {
            keys.extend(own);
            false
        }
    });
    let are_letters = stems.iter().all(|stem| stem.len() > 1);
    (are_words && are_letters && !are_halves && !are_pairs && !in_folders).then_some(stems)
}

/// Whether at most one sample in ten has more than one file.
fn are_mostly_single(scanned: &[Scanned]) -> bool {
    let (mut samples, mut several) = (0, 0);
    for file in scanned {
        let (mut start, single) = (0, u64::from(file.fields.are_files));
        for row in &file.rows {
            several += u64::from(row.fields_end - start > single);
            start = row.fields_end;
        }
        samples += file.rows.len() as u64;
    }
    several * 10 <= samples
}

/// The folders of images: those right above them, those above these, and the splits among them with their meanings.
#[derive(Default)]
struct Folders<'n> {
    classes: BTreeSet<&'n [u8]>,
    above: BTreeSet<&'n [u8]>,
    splits: BTreeMap<&'n [u8], &'static str>,
}

impl<'n> Folders<'n> {
    fn of(names: impl Iterator<Item = &'n [u8]>) -> Self {
        let mut found = Self::default();
        for name in names {
            let mut parts: Vec<&[u8]> = name.split(|byte| *byte == b'/').collect();
            parts.pop();
            // `PublicTest` is a split when it is above a class folder. At class level only exact split names count.
            let last = parts.len().saturating_sub(1);
            let likeness = |at: usize| Some(Likeness::classify(parts[at])).filter(|like| like.is_sure() || at < last);
            found.splits.extend((0..parts.len()).find_map(|at| Some((parts[at], likeness(at)?.word()?))));
            let Some(class) = parts.pop() else { continue };
            found.classes.insert(class);
            found.above.extend(parts.pop());
        }
        found
    }

    fn are_all_splits(&self) -> bool {
        self.classes.iter().all(|name| Likeness::classify(name).is_sure())
    }

    /// The error message and its help line if images of several splits would be one dataset.
    fn question(&self) -> Option<(String, String)> {
        let words: BTreeSet<&str> = self.splits.values().copied().collect();
        let is_sure = self.splits.keys().any(|name| Likeness::classify(name).is_sure());
        let of_splits: Vec<&[u8]> = self.splits.keys().copied().collect();
        (words.len() > 1 && is_sure && !self.are_all_splits()).then(|| {
            let what =
                format!("folders in it are splits: {}; test images would be used for training", listed(&of_splits));
            let help = format!(
                "--include {} packs one split; --no-labels packs all in one dataset, without classes",
                option(of_splits[0])
            );
            (what, help)
        })
    }
}

/// The first names, for messages.
fn listed(names: &[&[u8]]) -> String {
    let more = if names.len() > NAMED { ", …" } else { "" };
    names.iter().take(NAMED).map(|name| text::shown(name).to_string()).collect::<Vec<_>>().join(", ") + more
}

/// The pattern of a folder of this name, as a word of a command.
fn option(name: &[u8]) -> String {
    shell::word(names::as_path(&[b"*".as_slice(), name, b"/*"].concat())).to_string()
}

/// The error message and its help line if folders are unlikely to be classes; `names` are the names of the images.
fn question<'n>(names: impl Iterator<Item = &'n [u8]> + Clone) -> Option<(String, String)> {
    let folders = Folders::of(names.clone());
    if let Some(asked) = folders.question() {
        return Some(asked);
    }
    let are_all_splits = folders.are_all_splits();
    let Folders { classes, above, .. } = folders;
    let classes: Vec<&[u8]> = classes.into_iter().collect();
    let stem = |name: &'n [u8]| {
        let file = &name[name.iter().rposition(|byte| *byte == b'/').map_or(0, |at| at + 1)..];
        &file[..file.iter().rposition(|byte| *byte == b'.').unwrap_or(file.len())]
    };
    let stems = |class: &[u8]| -> HashSet<&[u8]> {
        names.clone().filter(|name| folder(name) == Some(class)).take(STEMS).map(stem).collect()
    };
    let pair = pairs::called_so(&classes).into_iter().find(|[a, b]| pairs::are_same(&stems(a), &stems(b)));
    let two = matches!(classes[..], [a, b] if pairs::are_images_and_more(a, b)).then(|| classes.clone());
    let halves = pair.map(Vec::from).or(two).or_else(|| {
        let above: Vec<&[u8]> = above.into_iter().collect();
        (above.len() > 1 && above.iter().all(|name| pairs::is_half(name))).then_some(above)
    });
    let (what, first) = match &halves {
        _ if are_all_splits && !classes.is_empty() => ("are named like splits, not like classes", &classes),
        Some(halves) => ("are named like images and their counterparts, not like classes", halves),
        None => return None,
    };
    let help = format!("--include {} --no-labels packs one; --label-from key takes them as classes", option(first[0]));
    Some((format!("folders in it {what}: {}", listed(first)), help))
}

/// Refuses archives as samples: `payload` is the extension of the samples.
///
/// # Errors
/// If `payload` is an archive extension; the error names the file `path` and the `first` sample.
pub(super) fn refuse_archives(payload: &str, path: &Path, first: &[u8]) -> Result<()> {
    if !names::is_archive(payload) {
        return Ok(());
    }
    let what = format!("its samples are archives themselves, the first {}", String::from_utf8_lossy(first));
    Err(Error::usage(what)
        .in_file(path)
        .help("unpack it into a folder, tar -xf FILE -C FOLDER, and convert that folder"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_of_splits_and_pairs_are_a_question_and_classes_are_none() {
        let rows: [(&[&str], &str); 25] = [
            (&["seg_train/seg_train/sea/1.png", "seg_test/seg_test/sea/2.png"], "are splits: seg_test, seg_train"),
            (&["ds/train/cat/1.png", "ds/test/cat/2.png"], "are splits: test, train"),
            (&["ds/training_set/cat/1.png", "ds/test_set/cat/2.png"], "are splits: test_set, training_set"),
            (&["ds/fold1/cat/1.png", "ds/Training/cat/2.png"], "are splits: Training, fold1"),
            (&["in/train/n01/1.png", "in/train/n02/1.png", "in/val/2.png"], "are splits: train, val"),
            (&["fer/Training/sad/1.png", "fer/PublicTest/sad/2.png"], "are splits: PublicTest, Training"),
            (&["x/train_station/cat/1.png", "x/test_tube/cat/2.png"], ""),
            (&["ds/train/cat/1.png", "ds/train/test_tube/2.png"], ""),
            (&["ds/train/image/1.png", "ds/train/label/1.png"], "image, label"),
            (&["ds/image/1.png", "ds/label/1_gt.png", "ds/label/2.png"], "image, label"),
            (&["a/train/1.png", "a/trainannot/1.png", "a/val/2.png", "a/valannot/2.png"], "named like splits"),
            (&["a/trainA/1.png", "a/trainB/1.png"], "named like splits"),
            (&["101/accordion/1.png", "101/training_shoe/1.png", "101/cat/2.png"], ""),
            (&["trains/bullet_train/1.png", "trains/freight_train/2.png"], ""),
            (&["x/evaluation/1.png", "x/cat/2.png"], ""),
            (&["x/image/1.png", "x/cat/2.png"], ""),
            (&["sr/HR/1.png", "sr/LR/1x4.png"], "HR, LR"),
            (&["x/Ground Truth/1.png", "x/Original/1.png"], "Ground Truth, Original"),
            (&["x/left/1.png", "x/right/1.png"], "left, right"),
            (&["x/images/s0/1.png", "x/masks/s0/1.png", "x/masks/s1/1.png"], "images, masks"),
            (&["x/with_mask/1.png", "x/without_mask/1.png"], ""),
            (&["x/mask/1.png", "x/no_mask/1.png"], ""),
            (&["x/masks/1.png", "x/gloves/2.png"], ""),
            (&["pacs/art/dog/1.png", "pacs/photo/dog/1.png"], ""),
            (&["seg_train/sea/1.png", "seg_train/wood/1.png"], ""),
        ];
        for (names, expected) in rows {
            let asked = question(names.iter().map(|name| name.as_bytes())).map_or_else(String::new, |(what, _)| what);
            assert!(asked.contains(expected) && asked.is_empty() == expected.is_empty(), "{names:?}: {asked}");
        }
    }
}

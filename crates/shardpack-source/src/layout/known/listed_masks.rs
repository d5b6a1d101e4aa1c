//! Masks beside images that are listed with classes: `train/benign/1.png` and `train/benign/1_mask.png`. As images of a class, masks have wrong
//! labels.
//!
//! Most names that end or begin as masks do must have their image in the same folder. Images without a mask do not count: a class may have none.

use std::{collections::BTreeMap, ops::Range};

use shardpack_format::{Error, shell};

use super::{
    Files,
    split_masks::{EXTENSIONS, MARKS, Masks, Side},
};
use crate::{Result, api::SourceListing, layout::pairs, listing::Listing, tree::Tree};

/// Fewest masks that decide by themselves; fewer must be those of most images.
const LEAST: u64 = 2;

/// Numbers of the masks that have an image, by the form of their names; and of all names with such a text.
#[derive(Default)]
struct Counts {
    with: BTreeMap<(usize, usize, &'static str), u64>,
    all: BTreeMap<(usize, usize), u64>,
}

impl Counts {
    /// Adds the `samples` of one folder.
    fn add(&mut self, listing: &Listing, samples: &Range<u64>) {
        for number in samples.clone() {
            let Some((at, extension, bare)) = taken_apart(listing.name(number)) else { continue };
            *self.all.entry((at, extension)).or_default() += 1;
            let (side, _, of_images) = MARKS[at];
            for text in std::iter::once("").chain(of_images.iter().copied()) {
                if pairs::has_stem(listing, samples.clone(), side.join(bare, text).as_bytes()) {
                    *self.with.entry((at, extension, text)).or_default() += 1;
                }
            }
        }
    }

    /// The forms of masks among `samples`, one for each text.
    fn masks(&self, samples: u64) -> Vec<Masks> {
        let images = samples - self.all.values().sum::<u64>();
        let fits = |((at, extension, _), with): (&(usize, usize, &str), u64)| {
            let all = self.all.get(&(*at, *extension)).copied().unwrap_or(0);
            // A name without a mark at its start is often a number, and matches by chance.
            let least = if MARKS[*at].0 == Side::End { LEAST } else { u64::MAX };
            with * 2 > all && (with >= least || with * 2 >= images)
        };
        let mut best = BTreeMap::<usize, (u64, Masks)>::new();
        for (form, with) in self.with.iter().filter(|(form, with)| fits((form, **with))) {
            let (at, extension, of_images) = *form;
            if best.get(&at).is_none_or(|(most, _)| with > most) {
                let (side, text, _) = MARKS[at];
                best.insert(at, (*with, Masks { side, of_images, text, extension: EXTENSIONS[extension] }));
            }
        }
        best.into_values().map(|(_, masks)| masks).collect()
    }
}

/// The numbers of the text and of the extension of a name of a mask, and the name without them.
fn taken_apart(name: &[u8]) -> Option<(usize, usize, &str)> {
    let (stem, extension) = str::from_utf8(name).ok()?.rsplit_once('.')?;
    let extension = EXTENSIONS.iter().position(|one| *one == extension)?;
    MARKS.iter().enumerate().find_map(|(at, (side, text, _))| Some((at, extension, side.strip(stem, text)?)))
}

/// The extension of images of which most have the name of a JPEG beside them: `1.png` and `1.jpg`, as DenseDepth's copy of NYU Depth has them.
fn of_same_name(found: &[SourceListing]) -> Option<&'static str> {
    let (mut with, mut all) = ([0_u64; EXTENSIONS.len()], [0_u64; EXTENSIONS.len()]);
    for one in found {
        for samples in one.listing.samples_by_folder() {
            let mut before: &[u8] = b"";
            for name in samples.map(|number| one.listing.name(number)) {
                let cut = |name: &[u8]| name.iter().rposition(|byte| *byte == b'.').unwrap_or(name.len());
                let at =
                    EXTENSIONS.iter().position(|one| one.as_bytes() == name.get(cut(name) + 1..).unwrap_or_default());
                if let Some(at) = at {
                    let is_jpeg = before.ends_with(b".jpg") || before.ends_with(b".jpeg");
                    all[at] += 1;
                    with[at] += u64::from(is_jpeg && before[..cut(before)] == name[..cut(name)]);
                }
                before = name;
            }
        }
    }
    let is_most = |at: &usize| with[*at] >= LEAST && with[*at] * 2 > all[*at];
    (0..EXTENSIONS.len()).find(is_most).map(|at| EXTENSIONS[at])
}

/// Fails if most images of a kind in classes have the name of a JPEG beside them.
///
/// # Errors
/// The error names the options that pack them with the JPEGs.
pub(crate) fn refuse_same_names(tree: Tree<'_>, found: &[SourceListing]) -> Result<()> {
    match of_same_name(found) {
        None => Ok(()),
        Some(extension) => {
            Err(Error::usage(format!("classes of images, with .{extension} files of the same names beside JPEGs"))
                .in_file(tree.root)
                .help(format!(
                    "--with {extension} --on-missing empty packs each image with its class and its .{extension} file; \
                 --exclude '**/*.{extension}' leaves them out; --include '**' packs them as images"
                )))
        }
    }
}

/// Fails if images that are listed with classes have masks beside them.
///
/// # Errors
/// The error names the options that pack the masks with their images.
pub(crate) fn refuse(tree: Tree<'_>, found: &[SourceListing]) -> Result<()> {
    let mut counts = Counts::default();
    for one in found {
        one.listing.samples_by_folder().iter().for_each(|samples| counts.add(&one.listing, samples));
    }
    let all = counts.masks(found.iter().map(|one| one.listing.len()).sum());
    if all.is_empty() {
        return Ok(());
    }
    let of_folder = |one: &SourceListing, samples: Range<u64>| {
        Files(samples.map(|number| String::from_utf8_lossy(one.listing.name(number)).into_owned()).collect())
    };
    let folders: Vec<Files> = found
        .iter()
        .flat_map(|one| one.listing.samples_by_folder().into_iter().map(|samples| of_folder(one, samples)))
        .collect();
    // There are none for very many masks of an image.
    let options = Masks::options(&all, &folders).unwrap_or_default();
    let options: Vec<String> = options.iter().map(|(name, value)| format!("{name} {}", shell::word(value))).collect();
    let packs = match options.is_empty() {
        true => String::new(),
        false => format!("{} packs each image with its class and masks; ", options.join(" ")),
    };
    let excluded: Vec<String> = all.iter().map(|masks| format!("--exclude {}", shell::word(masks.glob()))).collect();
    Err(Error::usage(format!("classes of images with masks beside them, {}", Masks::examples(&all)))
        .in_file(tree.root)
        .help(format!("{packs}{} leaves the masks out; --include '**' packs them as images", excluded.join(" "))))
}

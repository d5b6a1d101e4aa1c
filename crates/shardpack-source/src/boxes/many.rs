//! Label files of many images, as COCO's: each is read once, and each sample finds its image in it.

use std::{collections::BTreeMap, sync::Arc};

use shardpack_format::{
    Error, Result,
    component::{Component, Conversion, ObjectFile},
    size, text,
};

use super::{
    Parsed, ReadFiles, Refused, coco, cvat,
    described::{Class, Extent},
    fits,
    images::Images,
    refused, scalabel, table, via, wider,
};
use crate::{
    api::{ReadError, SampleReader, Source, SourceKind, SourceListing},
    ledger::Fate,
    monitor::Monitor,
    options::{OnMissing, Options},
};

/// Samples between two looks at a cancellation.
const CHECKED: u64 = 4096;

/// A read file, or why it is none.
struct Loaded {
    /// The index of its component among the label files.
    component: usize,
    /// Its split, if each split is a source or a list, and its path in the source; an empty path for the list of the images.
    key: (Option<String>, String),
    /// Its name for messages.
    shown: String,
    images: Result<Images, String>,
}

/// The files that were read.
#[derive(Default)]
pub(super) struct Many {
    files: Vec<Loaded>,
    /// Files that are missing, with the number of images that they should have.
    missing: BTreeMap<String, u64>,
}

/// An image in a file of [`Many`].
#[derive(Clone, Copy)]
pub(super) struct InMany {
    file: usize,
    image: usize,
}

/// Adds the components that are made from a list, which the listing does not have, to `found`.
///
/// # Errors
/// If the source is no such list.
pub(super) fn add_list_kinds(source: &dyn Source, found: &mut [SourceListing], with: &[Component]) -> Result<()> {
    let wanted: Vec<&Component> = with.iter().filter(|kind| kind.is_of_list()).collect();
    let Some(first) = wanted.first() else { return Ok(()) };
    for one in found.iter_mut() {
        if !source.leaf_of(one.split.as_deref())?.has_annotations() {
            return Err(Error::usage(format!(
                "--with {}: the source is no list with the annotations of COCO",
                first.with_value()
            ))
            .in_file(source.path())
            .help(format!("--with '{}=coco:PATTERN' has the path from an image to its file", first.column())));
        }
        let mut kinds = one.listing.components().kinds.clone();
        let has = |kind: &Component| one.listing.components().kinds.iter().any(|own| own.name() == kind.name());
        kinds.extend(wanted.iter().filter(|kind| !has(kind)).map(|kind| (*kind).clone()));
        one.listing = Arc::new(one.listing.with_more_kinds(&kinds));
    }
    Ok(())
}

/// A path without `..`: `train.csv` for `train/../train.csv`.
fn without_dots(path: &str) -> String {
    let mut parts: Vec<&str> = Vec::new();
    for part in path.split('/') {
        match (part, parts.last()) {
            ("..", Some(last)) if *last != ".." => drop(parts.pop()),
            (part, _) => parts.push(part),
        }
    }
    parts.join("/")
}

/// Parses a file of `kind`.
fn parse(kind: &Component, content: &[u8]) -> Result<Images, String> {
    match kind.conversion().map(|one| one.file) {
        Some(ObjectFile::Csv) => table::parse(content),
        Some(ObjectFile::Wider) => wider::parse(content),
        Some(ObjectFile::Cvat) => cvat::parse(content),
        Some(ObjectFile::Via) => via::parse(content),
        Some(ObjectFile::Scalabel) => scalabel::parse(content),
        _ => coco::parse(content),
    }
}

impl Many {
    /// Reads the files of `found` that are of many images, and finds the image of each sample.
    ///
    /// # Errors
    /// If the machine cannot read a file, or the list of the images is wrong.
    pub fn find(
        &mut self,
        source: &dyn Source,
        found: &SourceListing,
        files: &[(usize, Conversion)],
        (options, is_resized): (&Options, bool),
        read: &mut ReadFiles,
        monitor: &dyn Monitor,
    ) -> Result<()> {
        let files: Vec<_> =
            files.iter().enumerate().filter(|(_, (_, conversion))| conversion.file.is_of_many()).collect();
        if files.is_empty() {
            return Ok(());
        }
        let listing = &found.listing;
        let reader = source.open(found.split.as_deref(), listing, None, monitor)?;
        // The splits of a list are no folders.
        let is_list = source.leaf_of(found.split.as_deref())?.kind() == SourceKind::List;
        let prefix = if is_list { String::new() } else { found.prefix() };
        let mut path = Vec::new();
        for number in 0..listing.len() {
            if number.is_multiple_of(CHECKED) {
                monitor.check_cancelled()?;
            }
            for (at, (which, _)) in &files {
                let Ok(parsed) = &mut read[number as usize] else { continue };
                let place = (*at, *which, prefix.as_str());
                let Some(file) = self.load(source, found, place, number, &*reader)? else { continue };
                listing.path(number, &mut path);
                match self.look(file, &prefix, &path, options.on_missing) {
                    Ok(Some((image, extent))) => match extent
                        .map_or(Ok(()), |one| fits(&*reader, number, one, is_resized))
                    {
                        Ok(()) => parsed[*at] = Parsed { is_there: true, image: Some(image), ..Parsed::default() },
                        Err(why) => read[number as usize] = Err(refused(format!("{}: {why}", self.files[file].shown))),
                    },
                    Ok(None) => {}
                    Err(why) => read[number as usize] = Err(why),
                }
            }
        }
        Ok(())
    }

    /// The number of the file of sample `number`; `None` if the sample has none.
    fn load(
        &mut self,
        source: &dyn Source,
        found: &SourceListing,
        (component, which, prefix): (usize, usize, &str),
        number: u64,
        reader: &dyn SampleReader,
    ) -> Result<Option<usize>> {
        let (listing, kind) = (&found.listing, &found.listing.components().kinds[which]);
        let split = found.split.clone().filter(|_| !found.is_divided);
        if kind.is_of_list() {
            let key = (split, String::new());
            if let Some(known) = self.files.iter().position(|one| one.component == component && one.key == key) {
                return Ok(Some(known));
            }
            let leaf = source.leaf_of(found.split.as_deref())?;
            let bytes = leaf.annotations()?.unwrap_or_default();
            let images =
                coco::parse(&bytes).map_err(|why| Error::data(why).in_file(leaf.list_file().unwrap_or(leaf.path())))?;
            self.files.push(Loaded { component, key, shown: "the list".to_owned(), images: Ok(images) });
            return Ok(Some(self.files.len() - 1));
        }
        let path = kind.path_of(&listing.folder(number).path, listing.name(number)).unwrap_or_default();
        let prefix = if kind.extra_root().is_some() { "" } else { prefix };
        let shown = without_dots(&format!("{prefix}{}", text::shown(&path)));
        let Some(bytes) = listing.components().cells_of(number).get(which).and_then(|cell| cell.length()) else {
            *self.missing.entry(shown).or_default() += 1;
            return Ok(None);
        };
        // Splits of one source share a file, so an image is that of one sample in all of them.
        let key = (split.filter(|_| source.kind() == SourceKind::Several), shown.clone());
        if let Some(known) = self.files.iter().rposition(|one| one.component == component && one.key == key) {
            return Ok(Some(known));
        }
        // The boxes of Open Images have 2.3 GB.
        let mut content = Vec::new();
        let images = match content.try_reserve_exact(bytes as usize) {
            Err(_) => Err(format!("this machine has no memory for a label file of {}", size::text(bytes.into()))),
            Ok(()) => {
                content.resize(bytes as usize, 0);
                match reader.read_component(number, which, &mut content) {
                    Ok(()) => parse(kind, &content),
                    Err(ReadError::Refused(why)) => Err(why.0),
                    Err(ReadError::Fatal(error)) => return Err(error),
                }
            }
        };
        self.files.push(Loaded { component, key, shown, images });
        Ok(Some(self.files.len() - 1))
    }

    /// The image in `file` of the sample at `path` below `prefix`, and the unit of its edges.
    fn look(
        &self,
        file: usize,
        prefix: &str,
        path: &[u8],
        on_missing: Option<OnMissing>,
    ) -> Result<Option<(InMany, Option<Extent>)>, Refused> {
        let Loaded { shown, images, .. } = &self.files[file];
        let images = images.as_ref().map_err(|why| refused(format!("{shown}: {why}")))?;
        if let Some(image) = images.claim(prefix, &String::from_utf8_lossy(path)) {
            return Ok(Some((InMany { file, image }, images.extent(image))));
        }
        let why = format!("is not among the images of {shown}");
        match on_missing {
            Some(OnMissing::Empty) => Ok(None),
            Some(OnMissing::Skip) => Err(Refused { fate: Fate::Filtered, why }),
            Some(OnMissing::Error) | None => {
                Err(refused(format!("{why}; --on-missing empty packs such images without objects")))
            }
        }
    }

    /// Sets the objects of each sample that has an image, once all samples of all splits have found theirs.
    pub fn describe(&self, read: &mut ReadFiles) {
        for sample in read.iter_mut().filter(|sample| sample.is_ok()) {
            let Ok(parsed) = sample else { continue };
            let wrong = parsed.iter_mut().find_map(|parsed| {
                let InMany { file, image } = parsed.image?;
                let Loaded { shown, images: Ok(images), .. } = &self.files[file] else { return None };
                match images.described(image) {
                    Ok(described) => parsed.described = Some(described),
                    Err(why) => return Some(format!("{shown}: {why}")),
                }
                None
            });
            if let Some(why) = wrong {
                *sample = Err(refused(why));
            }
        }
    }

    /// Fails if a file lists images, and no sample of any split is one of them: without their objects, samples would be empty.
    ///
    /// # Errors
    /// The error names an image of the file, and `sample`.
    pub fn refuse_strangers(&self, sample: &str) -> Result<()> {
        let stranger = |(shown, images): (&str, &Images)| Some((shown.to_owned(), images.only_strangers()?.to_owned()));
        match self.images().find_map(stranger) {
            None => Ok(()),
            Some((file, name)) => Err(Error::data(format!(
                "no image of the source is in {file}: it names {}, and the source has {sample}",
                text::shown(name.as_bytes())
            ))
            .help(
                "write its names as the ends of paths of the source, with or without extension, or give another file",
            )),
        }
    }

    fn images(&self) -> impl Iterator<Item = (&str, &Images)> {
        self.files.iter().filter_map(|one| Some((one.shown.as_str(), one.images.as_ref().ok()?)))
    }

    /// The classes in the files of a component, by its index among the label files.
    pub fn classes(&self, component: usize) -> impl Iterator<Item = Arc<Class>> {
        let own = self.files.iter().filter(move |one| one.component == component);
        own.filter_map(|one| one.images.as_ref().ok()).flat_map(|images| images.classes.iter().cloned())
    }

    /// Remarks on the files, which are of no sample.
    pub fn remarks(&self) -> BTreeMap<String, u64> {
        let missing = |(file, images): (&String, &u64)| (format!("images whose list {file} is missing"), *images);
        let mut remarks: BTreeMap<String, u64> = self.missing.iter().map(missing).collect();
        for (shown, images) in self.images() {
            let unclaimed = [("images that are not packed".to_owned(), images.unclaimed())];
            for (remark, count) in images.remarks.clone().into_iter().chain(unclaimed).filter(|(_, count)| *count > 0) {
                *remarks.entry(format!("{remark}, in {shown}")).or_default() += count;
            }
        }
        remarks
    }
}

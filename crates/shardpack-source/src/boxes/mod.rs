//! Boxes of objects: arrays that are made from the label file of each image, as `--with 'boxes=yolo:../labels/*.txt'` names it.
//!
//! The files are parsed before the plan, which needs the number of objects and the classes of all splits. The plan holds their text, and the
//! values are made when the image is at hand: boxes are in pixels of the stored image. Holds at all times: an image whose file is invalid is
//! bad, with the place and the reason.

mod classes;
mod coco;
mod columns;
mod cvat;
mod described;
mod images;
mod kitti;
mod labelme;
mod lines;
mod many;
mod notes;
mod scalabel;
mod table;
mod via;
mod voc;
mod wider;
mod xml;

use std::sync::{Arc, Mutex, PoisonError};

use shardpack_format::{
    Error, Result,
    component::{Component, Conversion, ObjectFile},
    image_header::Header,
    size, text,
};
use shardpack_runtime::threads;

use super::api::{Look, ReadError, Refusal, SampleReader, Source, SourceListing};
use crate::{
    companions::Refused,
    component_table::{Cell, ComponentTable, Interner},
    ledger::{Fate, Unpacked, order},
    list::json::BOM,
    listing::Listing,
    monitor::{Monitor, Phase},
    options::{Options, Splits},
    parallel::for_each_adaptive,
};
use classes::Numbers;
use described::{Described, Extent};
use images::Images;
use many::{InMany, Many};

/// Longest label file of YOLO in bytes.
const MAX_LINES_BYTES: u32 = 16 << 20;
/// Longest other label file of one image in bytes: LabelMe's may have the image in it.
const MAX_FILE_BYTES: u32 = 64 << 20;
/// Images between two looks at a cancellation.
const CHECKED: u64 = 256;
/// Why a file without the size of its image is refused if images are resized.
const NO_SIZE: &str =
    "has no width and height of the image, which --resize needs; pack without it, and let convert resize";
/// First bytes of an image in which its size is looked for.
const HEADER_BYTES: usize = 64 << 10;

/// An object in an image.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Object {
    /// Class number.
    pub class: i64,
    /// Left, top, right and bottom edge, as fractions of the image as it is displayed.
    pub edges: [f64; 4],
}

/// Whether `line` is an object in a label file of YOLO of this kind.
pub(super) fn is_line(file: ObjectFile, line: &[u8]) -> bool {
    lines::parse_named(file, line, None).is_ok()
}

/// Whether a file begins as a label file of KITTI; `None` if it has no objects.
pub(super) fn is_kitti(start: &[u8]) -> Option<bool> {
    kitti::is_start(start)
}

/// Whether a file of WIDER FACE begins so.
pub(super) fn is_wider(start: &[u8]) -> bool {
    wider::is_start(start)
}

pub(super) use table::{has_repeated, images_of_table, is_table};

/// The text of a file, without its byte order mark.
fn text_of(bytes: &[u8]) -> Result<&str, String> {
    let text = std::str::from_utf8(bytes).map_err(|_| "is not UTF-8".to_owned())?;
    Ok(text.strip_prefix('\u{feff}').unwrap_or(text))
}

/// A file in JSON or CSV without its byte order mark.
fn without_mark(bytes: &[u8]) -> &[u8] {
    bytes.strip_prefix(BOM).unwrap_or(bytes)
}

/// Parses a label file of one image whose classes have names.
fn described_in(file: ObjectFile, bytes: &[u8]) -> Result<Described, String> {
    match file {
        ObjectFile::Voc => voc::parse(bytes),
        ObjectFile::LabelMe => labelme::parse(bytes),
        ObjectFile::Kitti => kitti::parse(bytes),
        _ => Err("is no label file of one image".to_owned()),
    }
}

/// The objects in `text`, which the plan has for an image. `image` is its size as displayed.
///
/// # Errors
/// The reason, if the plan has other objects, or they are of an image of another size.
pub fn objects(file: ObjectFile, text: &[u8], image: [u32; 2]) -> Result<Vec<Object>, String> {
    match file.has_names() {
        true => described::objects(text, image),
        false => lines::parse_named(file, text, None).map_err(|_| "the plan has other objects".to_owned()),
    }
}

/// Whether `kind` is made of the same files as `first`, by a conversion of the same kind of files.
fn is_of_file(kind: &Component, conversion: Conversion, first: &Component) -> bool {
    kind.conversion().is_some_and(|one| one.file == conversion.file) && kind.has_same_files(first)
}

/// The different files of the converted components among `kinds`: the first component of each, and its conversion.
fn files(kinds: &[Component]) -> Vec<(usize, Conversion)> {
    let mut files: Vec<(usize, Conversion)> = Vec::new();
    for (at, kind) in kinds.iter().enumerate() {
        let Some(conversion) = kind.conversion() else { continue };
        if !files.iter().any(|(first, known)| is_of_file(kind, *known, &kinds[*first])) {
            files.push((at, conversion));
        }
    }
    files
}

/// A label file of a sample. An image without a file has no objects, as for an empty file.
#[derive(Clone, Default)]
struct Parsed {
    /// The text that the plan holds.
    text: Vec<u8>,
    objects: u64,
    is_there: bool,
    /// The objects until their classes have numbers, if the file has names.
    described: Option<Described>,
    /// The image in a file of many.
    image: Option<InMany>,
}

/// The label files of each sample, in the order of the kinds of files.
type ReadFiles = Vec<Result<Vec<Parsed>, Refused>>;

/// A sample with an invalid file.
fn refused(why: String) -> Refused {
    Refused { fate: Fate::Skipped, why }
}

/// Replaces the label files in `found` by the arrays that are made from them. An image with an invalid file is bad. `is_resized`: a recipe
/// changes the sizes of images after that.
///
/// # Errors
/// If the machine cannot read the files, or classes of several files contradict each other.
pub fn take(
    source: &dyn Source,
    found: &mut [SourceListing],
    options: &Options,
    is_resized: bool,
    monitor: &dyn Monitor,
) -> Result<()> {
    many::add_list_kinds(source, found, &options.with)?;
    let Some(first) = found.first() else { return Ok(()) };
    let files = files(&first.listing.components().kinds);
    if files.is_empty() {
        return Ok(());
    }
    let (mut many, mut read) = (Many::default(), Vec::new());
    for one in found.iter() {
        let mut own = read_files(source, one, &files, is_resized, monitor)?;
        many.find(source, one, &files, (options, is_resized), &mut own, monitor)?;
        read.push(own);
    }
    // A filtered source, or a single split that is compared, may lack all images of a file.
    let is_filtered = |one: &SourceListing| one.unpacked.iter().any(|unpacked| unpacked.fate == Fate::Filtered);
    let is_part = matches!(options.splits, Splits::Compared(_))
        || !options.include.is_empty()
        || !options.exclude.is_empty()
        || found.iter().any(is_filtered);
    if let Some(one) = found.iter().find(|one| !one.listing.is_empty() && !is_part) {
        let mut sample = Vec::new();
        one.listing.path(0, &mut sample);
        many.refuse_strangers(&format!("{}{}", one.prefix(), text::shown(&sample)))?;
    }
    read.iter_mut().for_each(|read| many.describe(read));
    let mut remarks = many.remarks();
    for (at, file) in files.iter().enumerate().filter(|(_, (_, conversion))| conversion.file.has_names()) {
        number(found, &mut read, (at, *file), &many, is_resized)?;
    }
    for (remark, count) in
        read.iter().flatten().flatten().flatten().flat_map(|parsed| &parsed.described).flat_map(|one| &one.remarks)
    {
        *remarks.entry(remark.clone()).or_default() += count;
    }
    let is_missing = |at: usize| move |read: &&Vec<Parsed>| !read[at].is_there;
    let missing = (0..files.len()).map(|at| read.iter().flatten().flatten().filter(is_missing(at)).count() as u64);
    let missing: Vec<u64> = missing.collect();
    for (one, read) in found.iter_mut().zip(read) {
        put(one, &files, read)?;
    }
    let mut notes = notes::of_files(found, &files, &missing);
    notes.extend(remarks.into_iter().map(|(remark, count)| format!("{remark}: {count}")));
    found[0].notes.extend(notes);
    Ok(())
}

/// Gives the classes in the label files at `at` their numbers.
fn number(
    found: &mut [SourceListing],
    read: &mut [ReadFiles],
    (at, file): (usize, (usize, Conversion)),
    many: &Many,
    is_resized: bool,
) -> Result<()> {
    let mut parsed = read.iter().flatten().flatten().filter_map(|files| files.get(at));
    let numbers = Numbers::decide(found, file, &mut parsed, &mut many.classes(at))?;
    for (one, read) in found.iter().zip(read) {
        for (number, sample) in (0..).zip(read) {
            let Ok(files) = sample else { continue };
            let parsed = &mut files[at];
            let nothing = Described::default();
            let described = parsed.described.as_ref().unwrap_or(&nothing);
            match described.text(is_resized, &|class| numbers.of(class)) {
                Ok(text) => (parsed.text, parsed.objects) = (text, described.objects.len() as u64),
                Err(why) => *sample = Err(in_file(one, file.0, number, &why)),
            }
        }
    }
    Ok(())
}

/// The reason `why` for sample `number`, with its file of component `which`.
fn in_file(found: &SourceListing, which: usize, number: u64, why: &str) -> Refused {
    let (listing, kind) = (&found.listing, &found.listing.components().kinds[which]);
    match kind.path_of(&listing.folder(number).path, listing.name(number)) {
        Some(path) => refused(format!("{}: {why}", text::shown(&path))),
        None => refused(why.to_owned()),
    }
}

/// Reads the label files of each sample, apart from those of many images.
fn read_files(
    source: &dyn Source,
    found: &SourceListing,
    files: &[(usize, Conversion)],
    is_resized: bool,
    monitor: &dyn Monitor,
) -> Result<ReadFiles> {
    let listing: &Listing = &found.listing;
    monitor.begin(Phase::Walking, listing.len(), 0);
    if files.iter().all(|(_, conversion)| conversion.file.is_of_many()) {
        return Ok(vec![Ok(vec![Parsed::default(); files.len()]); listing.len() as usize]);
    }
    let reader = source.open(found.split.as_deref(), listing, None, monitor)?;
    let names: Vec<Option<u64>> = files.iter().map(|file| names_of(found, *file)).collect();
    let mut numbers: Vec<u64> = (0..listing.len()).collect();
    numbers.sort_unstable_by_key(|number| listing.entry(*number).place);
    let all = Mutex::new(vec![Ok(Vec::new()); numbers.len()]);
    let threads = source.access().threads(threads::cores());
    for_each_adaptive(&numbers, threads, &|| reader.concurrency(), |number| {
        if number.is_multiple_of(CHECKED) {
            monitor.check_cancelled()?;
        }
        let of_file = |(file, names): (&(usize, Conversion), &Option<u64>)| {
            label_file(&*reader, found, *number, *file, (*names, is_resized))
        };
        let read = match files.iter().zip(&names).map(of_file).collect() {
            Ok(files) => Ok(files),
            Err(ReadError::Refused(Refusal(why))) => Err(refused(why)),
            Err(ReadError::Fatal(error)) => return Err(error),
        };
        all.lock().unwrap_or_else(PoisonError::into_inner)[*number as usize] = read;
        monitor.advance(1, 0);
        Ok(())
    })?;
    Ok(all.into_inner().unwrap_or_else(PoisonError::into_inner))
}

/// The number of class names for the objects in the label files `first` of `found`, if there are names.
fn names_of(found: &SourceListing, (first, conversion): (usize, Conversion)) -> Option<u64> {
    let kinds = &found.listing.components().kinds;
    let kinds = kinds.iter().filter(|kind| is_of_file(kind, conversion, &kinds[first]));
    let mut names = kinds.filter_map(|kind| found.component_classes.get(kind.name()));
    names.next().map(|names| names.len() as u64)
}

fn label_file(
    reader: &dyn SampleReader,
    found: &SourceListing,
    number: u64,
    (which, conversion): (usize, Conversion),
    (names, is_resized): (Option<u64>, bool),
) -> Result<Parsed, ReadError> {
    let cell = found.listing.components().cells_of(number).get(which);
    let bytes = cell.and_then(|cell| cell.length()).filter(|_| !conversion.file.is_of_many());
    let Some(bytes) = bytes else { return Ok(Parsed::default()) };
    let refused = |why: String| ReadError::Refused(Refusal(in_file(found, which, number, &why).why));
    let most = if conversion.file.has_names() { MAX_FILE_BYTES } else { MAX_LINES_BYTES };
    if bytes > most {
        return Err(refused(format!("a label file of {}", size::text(bytes.into()))));
    }
    let mut content = vec![0; bytes as usize];
    reader.read_component(number, which, &mut content)?;
    if !conversion.file.has_names() {
        let objects = lines::parse_named(conversion.file, &content, names).map_err(refused)?.len() as u64;
        return Ok(Parsed { text: content, objects, is_there: true, ..Parsed::default() });
    }
    let described = described_in(conversion.file, &content).map_err(refused)?;
    fits(reader, number, described.extent, is_resized).map_err(refused)?;
    Ok(Parsed { described: Some(described), is_there: true, ..Parsed::default() })
}

/// Fails if the image of sample `number` is resized later, and may have another size than its label file has for it.
fn fits(reader: &dyn SampleReader, number: u64, extent: Extent, is_resized: bool) -> Result<(), String> {
    let size = match extent {
        // Checked when the image is packed.
        _ if !is_resized => return Ok(()),
        Extent::Fractions => return Ok(()),
        Extent::Unknown => return Err(NO_SIZE.to_owned()),
        Extent::Pixels(size) => size,
    };
    let mut first = vec![0; HEADER_BYTES];
    let read = reader.peek(number, &mut first, Look::Start).ok().flatten().unwrap_or(0);
    let Header { width, height, .. } = Header::parse(&first[..read]);
    // Its Exif orientation may turn it.
    if width == 0 || [[width, height], [height, width]].contains(&size) {
        return Ok(());
    }
    Err(format!("is of an image of {}x{}, and the image has {width}x{height}", size[0], size[1]))
}

/// Puts the arrays into the listing of `found`.
fn put(found: &mut SourceListing, files: &[(usize, Conversion)], read: ReadFiles) -> Result<()> {
    let mut listing = Arc::clone(&found.listing);
    if read.iter().any(Result::is_err) {
        let mut path = Vec::new();
        for (number, why) in (0..).zip(&read).filter_map(|(number, read)| Some((number, read.as_ref().err()?))) {
            listing.path(number, &mut path);
            let (class, reason) = (listing.class(number), why.why.as_str().into());
            found.unpacked.push(Unpacked { path: path.clone(), class, fate: why.fate, reason });
        }
        found.unpacked.sort_unstable_by(order);
        listing = Arc::new(listing.chosen(&listing.classes, Some, |number| read[number as usize].is_ok()));
    }
    let table = listing.components();
    let mut forms = Interner::of(&table.forms);
    let (mut texts, mut cells) = (table.texts.to_vec(), Vec::with_capacity(table.cells.len()));
    for (number, read) in (0..).zip(read.into_iter().flatten()) {
        let starts = read.iter().map(|file| ComponentTable::push_slot(&mut texts, &file.text));
        let starts = starts.collect::<Result<Vec<_>>>()?;
        for (cell, kind) in table.cells_of(number).iter().zip(&table.kinds) {
            let Some(conversion) = kind.conversion() else {
                cells.push(*cell);
                continue;
            };
            let of_kind = |(first, of): &(usize, Conversion)| is_of_file(kind, *of, &table.kinds[*first]);
            let at = files.iter().position(of_kind).unwrap_or(0);
            let form = conversion.form(read[at].objects)?;
            let bytes = form.head_bytes() + form.items_bytes().unwrap_or(0);
            let bytes = u32::try_from(bytes).map_err(|_| Error::data("an array of more than 4 GiB"))?;
            cells.push(Cell { form: forms.number(&form), ..Cell::file(bytes, starts[at]) });
        }
    }
    let components = ComponentTable { cells, texts: Arc::new(texts), forms: forms.finish(), ..table.clone() };
    found.listing = Arc::new(listing.with_values(&[], components));
    Ok(())
}

/// Reads `bytes` as the kind of file that `kind` selects, for fuzzing.
#[doc(hidden)]
pub fn fuzz(kind: u8, bytes: &[u8]) -> usize {
    let text = |described: &Described| described.text(false, &|class| Ok(class.name.len()));
    let of_image = |described: Result<Described, String>| {
        described.map_or(0, |described| {
            let size = if let Extent::Pixels(size) = described.extent { size } else { [9, 9] };
            let read = text(&described).and_then(|text| described::objects(&text, size));
            // Boxes of a file without a size may lie outside of this one.
            let may_fail = described.extent == Extent::Unknown;
            assert!(
                read.map_or(may_fail, |read| read.len() == described.objects.len()),
                "objects are not read as they were written"
            );
            described.objects.len()
        })
    };
    let of_many = |images: Result<Images, String>| {
        images.map_or(0, |images| images.claim("a/", "1.jpg").map_or(0, |image| of_image(images.described(image))))
    };
    match kind % 12 {
        0 => lines::parse_named(ObjectFile::Yolo, bytes, None).map_or(0, |objects| objects.len()),
        1 => lines::parse_named(ObjectFile::YoloSegments, bytes, Some(3)).map_or(0, |objects| objects.len()),
        2 => of_image(voc::parse(bytes)),
        3 => of_image(labelme::parse(bytes)),
        4 => of_many(coco::parse(bytes)),
        5 => of_many(table::parse(bytes)),
        7 => of_image(kitti::parse(bytes)),
        8 => of_many(wider::parse(bytes)),
        9 => of_many(cvat::parse(bytes)),
        10 => of_many(via::parse(bytes)),
        11 => of_many(scalabel::parse(bytes)),
        _ => described::objects(bytes, [9, 9]).map_or(0, |objects| objects.len()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn damaged_files_are_objects_or_errors() {
        let files: [(u8, &[u8]); 12] = [
            (0, b"0 0.5 0.5 0.5 0.25\n7 1 1 0 0\n"),
            (1, b"2 0.1 0.2 0.5 0.1 0.4 0.9\n"),
            (
                2,
                b"<?xml version='1.0'?><annotation><size><width>9</width><height>9</height></size><object><name>a&amp;&#65;</name>\
                <difficult>1</difficult><bndbox><xmin>1</xmin><ymin>1</ymin><xmax>9</xmax><ymax>9.5</ymax></bndbox></object></annotation>",
            ),
            (3, br#"{"shapes":[{"label":"a","points":[[1,2],[3,4]],"shape_type":"rectangle","group_id":1}],"imageWidth":9,"imageHeight":9}"#),
            (
                4,
                br#"{"images":[{"id":1,"file_name":"1.jpg","width":9,"height":9}],"annotations":[{"image_id":1,"category_id":3,"bbox":[1,2,3,4]}],
                "categories":[{"id":3,"name":"a"}]}"#,
            ),
            (5, b"image,xmin,ymin,xmax,ymax,class\n1.jpg,1,2,3,4.5,a\n"),
            (6, b"9 9 resized\n0 1 2 3 4.5"),
            (7, b"Car 0 0 0 1 2 3 4.5 1 1 1 1 1 1 1\nDontCare 0 0 0 1 2 3 4.5 1 1 1 1 1 1 1 0.5\n"),
            (8, b"1.jpg\n1\n1 2 3 4 0 0 0 1 0 0\n"),
            (9, b"<annotations><image name='1.jpg' width='9' height='9'><box label='a' xtl='1' ytl='2' xbr='3' ybr='4' rotation='9'/>\
                <polygon label='b' points='1,2;3,4;5,6.5'/></image></annotations>"),
            (10, br#"{"1.jpg7": {"filename": "1.jpg", "regions": [{"shape_attributes": {"name": "rect", "x": 1, "y": 2, "width": 3, "height": 4},
                "region_attributes": {"a": "b"}}]}}"#),
            (11, br#"[{"name": "1.jpg", "labels": [{"category": "a", "box2d": {"x1": 1, "y1": 2, "x2": 3, "y2": 4}}]}]"#),
        ];
        for (kind, file) in files {
            assert!(fuzz(kind, file) > 0, "{kind}");
            for cut in 0..file.len() {
                fuzz(kind, &file[..cut]);
                for bit in 0..8 {
                    let mut damaged = file.to_vec();
                    damaged[cut] ^= 1 << bit;
                    fuzz(kind, &damaged);
                }
            }
        }
    }
}

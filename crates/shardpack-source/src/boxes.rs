//! Boxes of objects: arrays that are made from the label file of each image, as `--with 'boxes=yolo:../labels/*.txt'` names it.
//!
//! The files are parsed before the plan, which needs the number of objects. The plan holds their text, and the values are made when the
//! image is at hand: boxes are in pixels. Holds at all times: an image whose file is invalid is bad, with the line and the reason.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, PoisonError},
};

use shardpack_format::{
    Error, Result,
    component::{Component, Conversion, Form, ObjectArray, ObjectFile},
    size, text,
};
use shardpack_runtime::threads;

use super::api::{ReadError, Refusal, SampleReader, Source, SourceListing};
use crate::{
    component_table::{Cell, ComponentTable, Interner},
    ledger::{Fate, Unpacked, order},
    listing::Listing,
    monitor::{Monitor, Phase},
    parallel::for_each_adaptive,
    storage::NETWORK_READS,
};

/// Longest label file in bytes.
const MAX_FILE_BYTES: u32 = 16 << 20;
/// Images between two looks at a cancellation.
const CHECKED: u64 = 256;
/// Distance from the image, in widths or heights, at which an edge is still a rounding error of the file.
const ROUNDING: f64 = 1e-2;

/// An object in an image.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Object {
    /// Class number.
    pub class: i64,
    /// Left, top, right and bottom edge, as fractions of the image as it is displayed.
    pub edges: [f64; 4],
}

/// Parses a label file.
///
/// # Errors
/// The line, and the reason why it is no object.
pub fn parse(file: ObjectFile, bytes: &[u8]) -> Result<Vec<Object>, String> {
    parse_named(file, bytes, None)
}

/// As [`parse`], for a file whose classes have `names` names, if there are names.
fn parse_named(file: ObjectFile, bytes: &[u8], names: Option<u64>) -> Result<Vec<Object>, String> {
    let content = std::str::from_utf8(bytes).map_err(|_| "is not UTF-8".to_owned())?;
    let content = content.strip_prefix('\u{feff}').unwrap_or(content);
    let lines = content.lines().zip(1u64..).filter(|(line, _)| !line.trim().is_empty());
    let named = |object: Object| match names.filter(|names| object.class.cast_unsigned() >= *names) {
        Some(names) => Err(format!("class {}, and the source names {}", object.class, size::counted(names, "class"))),
        None => Ok(object),
    };
    let of_line = |(line, number)| object(file, line).and_then(named).map_err(|why| format!("line {number}: {why}"));
    lines.map(of_line).collect()
}

fn object(file: ObjectFile, line: &str) -> Result<Object, String> {
    let mut words = line.split_whitespace();
    let class = words.next().unwrap_or_default();
    // Some exports write 15.0.
    let whole = class.split_once('.').filter(|(_, zeros)| zeros.bytes().all(|digit| digit == b'0'));
    let number = whole.map_or(class, |(whole, _)| whole);
    let class = number.parse().ok().filter(|class: &i64| *class >= 0);
    let class = class.ok_or_else(|| format!("{} is no class number", text::shown(line.as_bytes())))?;
    let numbers = words.map(|word| {
        let number = word.parse().ok().filter(|number: &f64| number.is_finite());
        number.ok_or_else(|| format!("{} is no number", text::shown(word.as_bytes())))
    });
    let numbers = numbers.collect::<Result<Vec<f64>, _>>()?;
    let edges = match (file, numbers.as_slice()) {
        (ObjectFile::Yolo, &[x, y, width, height]) if width >= 0.0 && height >= 0.0 => {
            [x - width / 2.0, y - height / 2.0, x + width / 2.0, y + height / 2.0]
        }
        (ObjectFile::Yolo, [_, _, _, _]) => return Err("a box of negative size".to_owned()),
        (ObjectFile::Yolo, numbers) => {
            let more = if numbers.len() >= 6 && numbers.len().is_multiple_of(2) {
                "; yolo-seg reads polygons, and no key points"
            } else {
                ""
            };
            return Err(format!(
                "{} after the class, and a box has 4{more}",
                size::counted(numbers.len() as u64, "number")
            ));
        }
        (ObjectFile::YoloSegments, numbers) if numbers.len() >= 6 && numbers.len().is_multiple_of(2) => {
            let axis = |first: usize| numbers.iter().skip(first).step_by(2).copied();
            let least = |first| axis(first).fold(f64::INFINITY, f64::min);
            let most = |first| axis(first).fold(f64::NEG_INFINITY, f64::max);
            [least(0), least(1), most(0), most(1)]
        }
        (ObjectFile::YoloSegments, numbers) => {
            return Err(format!(
                "{} after the class, and a polygon has two for each of at least 3 points",
                size::counted(numbers.len() as u64, "number")
            ));
        }
    };
    match edges.iter().all(|edge| (-ROUNDING..=1.0 + ROUNDING).contains(edge)) {
        true => Ok(Object { class, edges }),
        false => Err("leaves the image: positions are fractions of it, from 0 to 1".to_owned()),
    }
}

/// The different files of the converted components among `kinds`: the first component of each, and its conversion.
fn files(kinds: &[Component]) -> Vec<(usize, Conversion)> {
    let mut files: Vec<(usize, Conversion)> = Vec::new();
    for (at, kind) in kinds.iter().enumerate() {
        let Some(conversion) = kind.conversion() else { continue };
        if !files.iter().any(|(first, known)| known.file == conversion.file && kind.has_same_files(&kinds[*first])) {
            files.push((at, conversion));
        }
    }
    files
}

/// A label file, the number of its objects, and whether it is there. An image without a file has no objects, as for an empty file.
#[derive(Clone, Default)]
struct LabelFile {
    content: Vec<u8>,
    objects: u64,
    is_there: bool,
}

/// Replaces the label files in `found` by the arrays that are made from them. An image with an invalid file is bad.
///
/// # Errors
/// If the machine cannot read the files.
pub fn take(source: &dyn Source, found: &mut [SourceListing], monitor: &dyn Monitor) -> Result<()> {
    let Some(first) = found.first() else { return Ok(()) };
    let files = files(&first.listing.components().kinds);
    if files.is_empty() {
        return Ok(());
    }
    let read = found.iter().map(|one| read(source, one, &files, monitor)).collect::<Result<Vec<_>>>()?;
    let is_missing = |at: usize| move |read: &&Vec<LabelFile>| !read[at].is_there;
    let missing = (0..files.len()).map(|at| read.iter().flatten().flatten().filter(is_missing(at)).count() as u64);
    let missing: Vec<u64> = missing.collect();
    for (one, read) in found.iter_mut().zip(read) {
        put(one, &files, read)?;
    }
    let note = notes(found, &files, &missing);
    found[0].notes.extend(note);
    Ok(())
}

/// The label files of each sample, in the order of `files`.
fn read(
    source: &dyn Source,
    found: &SourceListing,
    files: &[(usize, Conversion)],
    monitor: &dyn Monitor,
) -> Result<Vec<Result<Vec<LabelFile>, String>>> {
    let listing: &Listing = &found.listing;
    monitor.begin(Phase::Walking, listing.len(), 0);
    let reader = source.open(found.split.as_deref(), listing, None, monitor)?;
    let names: Vec<Option<u64>> = files.iter().map(|file| names_of(found, *file)).collect();
    let mut numbers: Vec<u64> = (0..listing.len()).collect();
    numbers.sort_unstable_by_key(|number| listing.entry(*number).place);
    let all = Mutex::new(vec![Ok(Vec::new()); numbers.len()]);
    let threads = if source.is_remote() { NETWORK_READS } else { threads::cores() };
    for_each_adaptive(&numbers, threads, &|| reader.concurrency(), |number| {
        if number.is_multiple_of(CHECKED) {
            monitor.check_cancelled()?;
        }
        let of_file =
            |(file, names): (&(usize, Conversion), &Option<u64>)| label_file(&*reader, listing, *number, *file, *names);
        let read = match files.iter().zip(&names).map(of_file).collect() {
            Ok(files) => Ok(files),
            Err(ReadError::Refused(Refusal(why))) => Err(why),
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
    let is_of_file = |kind: &&Component| {
        kind.conversion().is_some_and(|one| one.file == conversion.file) && kind.has_same_files(&kinds[first])
    };
    let mut names = kinds.iter().filter(is_of_file).filter_map(|kind| found.component_classes.get(kind.name()));
    names.next().map(|names| names.len() as u64)
}

fn label_file(
    reader: &dyn SampleReader,
    listing: &Listing,
    number: u64,
    (which, conversion): (usize, Conversion),
    names: Option<u64>,
) -> Result<LabelFile, ReadError> {
    let cell = listing.components().cells_of(number).get(which);
    let Some(bytes) = cell.and_then(|cell| cell.length()) else { return Ok(LabelFile::default()) };
    let refused = |why: String| {
        let kind = &listing.components().kinds[which];
        let path = kind.path_of(&listing.folder(number).path, listing.name(number)).unwrap_or_default();
        ReadError::Refused(Refusal(format!("{}: {why}", text::shown(&path))))
    };
    if bytes > MAX_FILE_BYTES {
        return Err(refused(format!("a label file of {}", size::text(bytes.into()))));
    }
    let mut content = vec![0; bytes as usize];
    reader.read_component(number, which, &mut content)?;
    let objects = parse_named(conversion.file, &content, names).map_err(refused)?.len() as u64;
    Ok(LabelFile { content, objects, is_there: true })
}

/// Puts the arrays into the listing of `found`.
fn put(
    found: &mut SourceListing,
    files: &[(usize, Conversion)],
    read: Vec<Result<Vec<LabelFile>, String>>,
) -> Result<()> {
    let mut listing = Arc::clone(&found.listing);
    if read.iter().any(Result::is_err) {
        let mut path = Vec::new();
        for (number, why) in (0..).zip(&read).filter_map(|(number, read)| Some((number, read.as_ref().err()?))) {
            listing.path(number, &mut path);
            let (class, reason) = (listing.class(number), why.as_str().into());
            found.unpacked.push(Unpacked { path: path.clone(), class, fate: Fate::Skipped, reason });
        }
        found.unpacked.sort_unstable_by(order);
        listing = Arc::new(listing.chosen(&listing.classes, Some, |number| read[number as usize].is_ok()));
    }
    let table = listing.components();
    let mut forms = Interner::of(&table.forms);
    let (mut texts, mut cells) = (table.texts.to_vec(), Vec::with_capacity(table.cells.len()));
    for (number, read) in (0..).zip(read.into_iter().flatten()) {
        let starts = read.iter().map(|file| ComponentTable::push_slot(&mut texts, &file.content));
        let starts = starts.collect::<Result<Vec<_>>>()?;
        for (cell, kind) in table.cells_of(number).iter().zip(&table.kinds) {
            let Some(conversion) = kind.conversion() else {
                cells.push(*cell);
                continue;
            };
            let of_kind = |(first, of): &(usize, Conversion)| {
                of.file == conversion.file && table.kinds[*first].has_same_files(kind)
            };
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

/// A note for each kind of label file: the arrays, and the number of objects.
fn notes(found: &[SourceListing], files: &[(usize, Conversion)], missing: &[u64]) -> Vec<String> {
    let kinds = &found[0].listing.components().kinds;
    let note = |((first, conversion), missing): (&(usize, Conversion), &u64)| {
        let of_file = |kind: &&Component| {
            kind.conversion().is_some_and(|one| one.file == conversion.file) && kind.has_same_files(&kinds[*first])
        };
        let arrays = kinds.iter().filter(of_file).map(|kind| {
            let dtype = match kind.conversion().map(|one| one.array) {
                Some(ObjectArray::Boxes) => "float32[n,4] in pixels: left, top, right, bottom",
                _ => "int64[n]",
            };
            format!("{} {dtype}", kind.column())
        });
        let (mut objects, mut images) = (BTreeMap::<u64, u64>::new(), 0);
        for one in found {
            let table = one.listing.components();
            for cell in
                table.cells.iter().skip(*first).step_by(table.kinds.len()).filter(|cell| cell.length().is_some())
            {
                images += 1;
                if let Form::Array { shape, .. } = table.form(cell.form) {
                    *objects.entry(shape.first().copied().unwrap_or(0)).or_default() += 1;
                }
            }
        }
        let all: u64 = objects.iter().map(|(objects, images)| objects * images).sum();
        let files = if *missing > 0 { format!(", {missing} of them without a label file") } else { String::new() };
        let without = objects.get(&0).map(|images| format!(", none in {images}{files}")).unwrap_or_default();
        let of_images = size::counted(images, "image");
        format!(
            "targets: {}; {} in {of_images}{without}",
            arrays.collect::<Vec<_>>().join(", "),
            size::counted(all, "object")
        )
    };
    files.iter().zip(missing).map(note).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_a_label_file_are_objects() {
        let one = |file, text: &str| parse(file, text.as_bytes());
        let object = |class, edges| Object { class, edges };
        assert_eq!(
            one(ObjectFile::Yolo, "\u{feff}0 0.5 0.5 0.5 0.25\r\n\n 15.0\t0.25 0.25 0.5 0.5 \n").unwrap(),
            [object(0, [0.25, 0.375, 0.75, 0.625]), object(15, [0.0, 0.0, 0.5, 0.5])]
        );
        assert_eq!(one(ObjectFile::Yolo, "").unwrap(), []);
        assert_eq!(
            one(ObjectFile::YoloSegments, "2 0.1 0.2 0.5 0.1 0.4 0.9").unwrap(),
            [object(2, [0.1, 0.1, 0.5, 0.9])]
        );
        for (file, text, why) in [
            (ObjectFile::Yolo, "0 0.5 0.5 0.5", "line 1: 3 numbers after the class, and a box has 4"),
            (
                ObjectFile::Yolo,
                "\n0 .1 .1 .2 .2 .3 .3",
                "line 2: 6 numbers after the class, and a box has 4; yolo-seg reads polygons, and no key points",
            ),
            (ObjectFile::Yolo, "cat 0.5 0.5 0.5 0.5", "line 1: cat 0.5 0.5 0.5 0.5 is no class number"),
            (ObjectFile::Yolo, "1.5 0.5 0.5 0.5 0.5", "line 1: 1.5 0.5 0.5 0.5 0.5 is no class number"),
            (ObjectFile::Yolo, "-1 0.5 0.5 0.5 0.5", "line 1: -1 0.5 0.5 0.5 0.5 is no class number"),
            (ObjectFile::Yolo, "0 0.5 nan 0.5 0.5", "line 1: nan is no number"),
            (ObjectFile::Yolo, "0 0.5 0.5 -0.5 0.5", "line 1: a box of negative size"),
            (
                ObjectFile::Yolo,
                "0 320 240 100 50",
                "line 1: leaves the image: positions are fractions of it, from 0 to 1",
            ),
            (
                ObjectFile::YoloSegments,
                "0 0.5 0.5 0.5 0.5",
                "line 1: 4 numbers after the class, and a polygon has two for each of at least 3 points",
            ),
        ] {
            assert_eq!(one(file, text).unwrap_err(), why, "{text}");
        }
        assert_eq!(parse(ObjectFile::Yolo, b"\xff").unwrap_err(), "is not UTF-8");
    }
}

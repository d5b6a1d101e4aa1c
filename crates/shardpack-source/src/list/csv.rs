//! Reads lists of fields: CSV with commas, semicolons, tabs or bars, and lines `path label`.

use std::{
    collections::HashSet,
    io::{BufRead, BufReader, Read},
};

use shardpack_format::{Error, Result, text};

use super::{
    columns::{Roles, numbered},
    json,
    label_value::LabelValue,
    lines,
    multi_label::classes_of,
    records::{Records, SNIFFED_BYTES, delimiter, unreadable},
    rows::{Row, Rows},
    separator::{Form, Separator, choose},
    words::{TwoFields, WORDS, Words, first_blank, first_comma},
};
use crate::{boxes, monitor::Monitor};

/// Most fields of a record that are looked up as files.
pub(super) const MAX_LOOKED: usize = 64;
/// The note on a list whose rows are boxes.
const OF_BOXES: &str = "several rows name one image, each with a box: each row is packed as an image; \
                        shardpack pack FOLDER DST --no-labels --with boxes=csv:LIST packs each image once, with its boxes, \
                        if LIST is the path from the folder of an image to the list";
/// A column in tables of VGG Image Annotator.
const OF_REGIONS: &[u8] = b"region_shape_attributes";
/// Start of the names of folders that a column of this name numbers.
const FOLD: &str = "fold";
/// Numbers of a box.
const BOX_NUMBERS: usize = 4;

/// The first records of a list that begins with `first`, at most `count`; fewer, if a record is cut or invalid.
pub(super) fn first_records(first: &[u8], delimiter: u8, count: usize) -> Vec<Vec<Vec<u8>>> {
    let is_whole = first.len() < SNIFFED_BYTES - json::BOM.len();
    let read = |input: &mut dyn BufRead| {
        let mut records = Records::with_delimiter(input, delimiter);
        let mut found = Vec::new();
        while found.len() < count && matches!(records.next(), Ok(Some(_))) {
            // The buffer may have cut the last record.
            if !is_whole && records.input.fill_buf().is_ok_and(<[u8]>::is_empty) {
                break;
            }
            found.push(records.fields());
        }
        found
    };
    let mut first = first;
    if delimiter == WORDS { read(&mut BufReader::new(Words::new(first))) } else { read(&mut first) }
}

/// The names in a header.
pub(super) fn names(header: &[Vec<u8>]) -> Vec<String> {
    header.iter().map(|name| String::from_utf8_lossy(name).trim().to_owned()).collect()
}

/// The last blank in a line without blanks at its ends.
pub(super) fn last_blank(line: &[u8]) -> Option<usize> {
    line.iter().rposition(u8::is_ascii_whitespace)
}

/// The first line that is not empty.
fn first_line(first: &[u8]) -> &[u8] {
    first.split(|byte| *byte == b'\n').find(|line| !line.trim_ascii().is_empty()).unwrap_or_default()
}

/// Reads a CSV file, or lines `path label` if `is_text`. With `is_tsv`, tabs separate the fields if the first line has one.
pub(super) fn read(
    input: impl Read,
    (is_text, is_tsv): (bool, bool),
    rows: &mut Rows<'_>,
    monitor: &dyn Monitor,
) -> Result<()> {
    let mut input = BufReader::with_capacity(SNIFFED_BYTES, input);
    if input.fill_buf().map_err(unreadable)?.starts_with(json::BOM) {
        input.consume(json::BOM.len());
    }
    let suggest = |first: &[u8]| match (is_text, first_line(first).contains(&b'\t')) {
        (false, true) if is_tsv => (Separator::Byte(b'\t'), true),
        (true, false) => (Separator::LastBlank, false),
        _ => (Separator::Byte(delimiter(first)), false),
    };
    let first = input.fill_buf().map_err(unreadable)?;
    let form = choose(first, &suggest, rows)?;
    if first_line(first).windows(OF_REGIONS.len()).any(|window| window == OF_REGIONS) {
        return Err(Error::usage(
            "is a table of VGG Image Annotator with a row for each region: export JSON, and pack the folder with boxes=via:FILE.json",
        ));
    }
    if boxes::is_table(first) {
        rows.note(OF_BOXES.to_owned());
    }
    let Form { separator, top, .. } = form;
    if separator != suggest(&first[top.bytes..]).0 {
        rows.note(separator.note());
    }
    input.consume(top.bytes);
    match separator {
        Separator::Byte(delimiter) => read_records(Records::with_delimiter(input, delimiter), form, rows, monitor),
        Separator::Words => {
            let input = BufReader::with_capacity(SNIFFED_BYTES, Words::new(input));
            read_records(Records::with_delimiter(input, WORDS), form, rows, monitor)
        }
        Separator::FirstComma | Separator::FirstBlank => {
            let split = if separator == Separator::FirstComma { first_comma } else { first_blank };
            let input = BufReader::with_capacity(SNIFFED_BYTES, TwoFields::new(input, split));
            read_records(Records::with_delimiter(input, WORDS), form, rows, monitor)
        }
        Separator::LastBlank => read_lines(input, form, rows, monitor),
        Separator::QuotedText => read_quoted_texts(input, top.lines, rows, monitor),
    }?;
    let count = rows.count();
    top.note(count).into_iter().for_each(|note| rows.note(note));
    Ok(())
}

/// The error for a list without a column of paths: the first records are `records`. The help names the folder below the root that has a
/// file of them, if there is one.
fn no_paths(rows: &Rows<'_>, names: &[String], records: &[&[Vec<u8>]]) -> Error {
    let error = Error::usage(format!("no column of paths: it has {}", names.join(", ")));
    let help = rows.help_with_root(records.iter().copied().flatten().map(Vec::as_slice));
    error.help(help.unwrap_or_else(|| {
        "choose one with --path-column NAME; set the folder of the files with --root FOLDER".to_owned()
    }))
}

/// Reads records of fields.
fn read_records(
    mut records: Records<impl BufRead>,
    form: Form,
    rows: &mut Rows<'_>,
    monitor: &dyn Monitor,
) -> Result<()> {
    records.line += form.top.lines;
    let short_path = |record: usize| form.short_path.filter(|found| found.0 == record).map(|found| found.1);
    let Some(first_line) = records.next()? else { return Err(Error::data("an empty list")) };
    let first = records.fields();
    let names = names(&first);
    let by_number = rows.columns.path.as_ref().and_then(|name| numbered(names.len(), name).ok());
    let by_number = by_number.filter(|_| rows.columns.path.as_ref().is_some_and(|name| !names.contains(name)));
    let by_name = match by_number {
        Some(_) => None,
        None => Roles::assign(&names, rows.columns, rows.no_labels, rows.splits)?,
    };
    let unnamed = || (1..=names.len()).map(|number| format!("column_{number}")).collect::<Vec<_>>();
    let is_file = |record: &[Vec<u8>]| {
        for (number, field) in record.iter().enumerate() {
            if rows.is_file(field)? {
                return Ok(Some(number));
            }
        }
        Ok::<_, Error>(None)
    };
    // A number behind a path counts the texts of an image, which are no labels.
    let of_number = |path: usize, record: &[Vec<u8>]| {
        let is_counted = record.get(path).map_or(Ok(false), |path| rows.is_file_before_number(path))?;
        refuse_numbers(path, record, rows, is_counted)?;
        Roles::unnamed(names.len(), path, rows.columns, rows.no_labels || is_counted)
    };
    // The first record is a header if a field is a known name of a path column, or if no field is a file.
    let path = if by_number.is_some() { by_number } else { is_file(&first)?.or(short_path(0)) };
    let (names, mut roles, pending) = match (by_name, path) {
        (Some(roles), _) => (names, roles, None),
        (None, Some(path)) => (unnamed(), of_number(path, &first)?, Some(first_line)),
        (None, None) => {
            let line = records.next()?;
            let path = is_file(&records.fields())?.or(short_path(1)).filter(|_| line.is_some());
            // A first row whose image is missing is no header.
            let is_row = |path: &usize| first.get(*path).is_some_and(|field| crate::names::is_image(field));
            let path = match path.filter(|path| !is_row(path)) {
                Some(path) => path,
                None => return Err(no_paths(rows, &names, &[&first, &records.fields()])),
            };
            // The names of CelebA's attributes leave out that of the path.
            let is_short = form.separator == Separator::Words && names.len() + 1 == records.count;
            let names: Vec<String> =
                is_short.then(|| "path".to_owned()).into_iter().chain(names.iter().cloned()).collect();
            let said = super::Columns { path: names.get(path).cloned(), ..rows.columns.clone() };
            match Roles::assign(&names, &said, rows.no_labels, rows.splits)? {
                Some(roles) => (names, roles, line),
                None => (unnamed(), of_number(path, &records.fields())?, line),
            }
        }
    };
    refuse_same_names(&names, first_line)?;
    // A header without the name of the path is shorter than the names.
    let header = |at: usize| first.get(at.checked_sub(names.len().saturating_sub(first.len()))?);
    let is_broken =
        |at: &usize| roles.is_component(*at) && header(*at).is_some_and(|name| str::from_utf8(name).is_err());
    let is_named = pending != Some(first_line);
    if let Some(at) = (0..names.len()).find(|at| rows.wants_text && is_named && is_broken(at)) {
        return Err(in_column(&Error::data("a name that is not UTF-8"), first_line, &names[at]));
    }
    rows.begin(&names, &mut roles)?;
    let mut text = Vec::new();
    let mut line = match pending {
        Some(line) => Some(line),
        None => records.next()?,
    };
    let fold = match line {
        Some(_) if records.count == names.len() => look_at_first(&names, &records.fields(), &roles, rows)?,
        _ => None,
    };
    while let Some(number) = line {
        if records.count != names.len() {
            let what = format!("line {number}: {} fields, the first line has {}", records.count, names.len());
            return Err(Error::data(what));
        }
        text.clear();
        if rows.wants_text {
            let mut object = json::Object::begin(&mut text);
            for (at, name) in names.iter().enumerate().filter(|(at, _)| roles.is_component(*at)) {
                json::field(records.field(at), object.member(name.as_bytes())?)
                    .map_err(|error| in_column(&error, number, name))?;
            }
            object.end();
        }
        let path = records.field(roles.path);
        look_for_files(rows, &names, &roles, &records)?;
        let files: Vec<_> = roles.files.iter().map(|at| records.field(*at)).collect();
        let fold = fold.filter(|_| !path.is_empty()).map(|at| in_fold(records.field(at), path));
        rows.add(&Row {
            line: number,
            path: fold.as_deref().unwrap_or(path),
            label: roles.label.map(|at| LabelValue::of_text(records.field(at))).unwrap_or_default(),
            class: roles.class.map(|at| records.field(at)),
            split: roles.split.map(|at| records.field(at)),
            files: &files,
            several: &classes_of(&names, &roles.several, number, |at| records.field(at).into())?,
            text: &text,
        })?;
        if number % 4096 == 0 {
            monitor.check_cancelled()?;
        }
        line = records.next()?;
    }
    Ok(())
}

/// Fails if the record of a list without a header has a path and the numbers of a box: none of them is known to be a class.
fn refuse_numbers(path: usize, record: &[Vec<u8>], rows: &Rows<'_>, is_counted: bool) -> Result<()> {
    let numbers = record.iter().enumerate().filter(|(at, field)| *at != path && is_number(field)).count();
    let label = record.get(path + 1).or_else(|| record.get(path.checked_sub(1)?));
    let is_said = rows.columns.label.is_some()
        || rows.no_labels
        || is_counted
        || rows.columns.split.is_some()
        || rows.multi_label.is_some()
        || !rows.targets.is_empty();
    if is_said {
        return Ok(());
    }
    if label.is_some_and(|label| is_box(label)) {
        return Err(of_boxes());
    }
    if numbers < BOX_NUMBERS || !label.is_some_and(|label| is_number(label)) {
        return Ok(());
    }
    let what = format!("no header, and {numbers} numbers beside the path in column {}: any may be the label", path + 1);
    Err(Error::usage(what).help("--label-column NUMBER chooses it; --no-labels packs all as the component json"))
}

fn is_number(field: &[u8]) -> bool {
    str::from_utf8(field.trim_ascii()).is_ok_and(|text| text.parse::<f64>().is_ok())
}

/// Whether a field is a box of keras-yolo3: `x1,y1,x2,y2,class`.
fn is_box(field: &[u8]) -> bool {
    let numbers = || field.split(|byte| *byte == b',');
    numbers().count() >= BOX_NUMBERS && numbers().all(is_number)
}

/// The error for boxes in the place of a label.
fn of_boxes() -> Error {
    Error::usage("the words behind a path are boxes, and no label").help("--no-labels packs them as the component json")
}

/// Fails if two columns have one name, in the header on line `line`.
fn refuse_same_names(names: &[String], line: u64) -> Result<()> {
    let mut seen = HashSet::with_capacity(names.len());
    match names.iter().find(|name| !seen.insert(*name)) {
        Some(name) => Err(Error::data(format!("line {line}: column {name:?} stands twice"))),
        None => Ok(()),
    }
}

/// Looks at a row for columns whose values are files.
fn look_for_files<R: BufRead>(
    rows: &mut Rows<'_>,
    names: &[String],
    roles: &Roles,
    records: &Records<R>,
) -> Result<()> {
    if !rows.looks_for_files() {
        return Ok(());
    }
    let is_looked_at = |at: &usize| *at != roles.path && !roles.files.contains(at);
    let fields = (0..names.len()).filter(is_looked_at).map(|at| (names[at].as_str(), records.field(at)));
    rows.look_for_files(records.field(roles.path), fields)
}

/// Looks at the first row, `record`: the column with the number of the folder of each file, as in UrbanSound8K, if this row's
/// file is there and not in the root: `fold1` for 1.
fn look_at_first(names: &[String], record: &[Vec<u8>], roles: &Roles, rows: &mut Rows<'_>) -> Result<Option<usize>> {
    let path = &record[roles.path];
    let column = names.iter().position(|name| name.eq_ignore_ascii_case(FOLD)).filter(|at| *at != roles.path);
    let Some(at) = column.filter(|_| !path.is_empty() && !path.contains(&b'/')) else { return Ok(None) };
    let below = in_fold(&record[at], path);
    if rows.is_file(path)? || !rows.is_file(&below)? {
        return Ok(None);
    }
    rows.note(format!("files are in folders of the column {}: {}", names[at], text::shown(&below)));
    Ok(Some(at))
}

/// The path of a file in the folder with this number.
fn in_fold(number: &[u8], path: &[u8]) -> Vec<u8> {
    [FOLD.as_bytes(), number, b"/", path].concat()
}

/// Reads lines `path label`, or lines of paths alone.
fn read_lines(mut input: impl BufRead, form: Form, rows: &mut Rows<'_>, monitor: &dyn Monitor) -> Result<()> {
    let (above, are_ids) = (form.top.lines, form.short_path.is_some());
    let first = first_line(input.fill_buf().map_err(unreadable)?).trim_ascii();
    let has_fields = last_blank(first).is_some() && !rows.is_file(first)?;
    let names = ["path", "label"].map(str::to_owned);
    let names = &names[..1 + usize::from(has_fields)];
    let mut roles = Roles::of_lines(names, rows.columns, rows.no_labels)?;
    rows.begin(names, &mut roles)?;
    if has_fields && roles.label.is_some() && last_blank(first).is_some_and(|at| is_box(&first[at + 1..])) {
        return Err(of_boxes());
    }
    let has_files = !roles.files.is_empty();
    let (has_labels, is_several) = (roles.label.is_some(), !roles.several.is_empty());
    let mut text = Vec::new();
    lines::each(input, monitor, |number, line| {
        let whole = line.trim_ascii();
        if whole.is_empty() {
            return Ok(());
        }
        let (path, field) = match last_blank(whole).filter(|_| has_fields) {
            Some(at) if are_ids && has_text(whole, at, rows)? => {
                let at = whole.iter().position(u8::is_ascii_whitespace).unwrap_or(at);
                (&whole[..at], Some(whole[at..].trim_ascii_start()))
            }
            Some(at) => (whole[..at].trim_ascii_end(), Some(&whole[at + 1..])),
            None => (whole, None),
        };
        let several = field.filter(|_| is_several).unwrap_or_default();
        if rows.looks_for_files() && !has_files {
            rows.look_for_files(path, field.map(|field| ("label", field)).into_iter())?;
        }
        let label = field.filter(|_| has_labels).map(LabelValue::of_text).unwrap_or_default();
        let files: Vec<_> = field.filter(|_| has_files).into_iter().collect();
        text.clear();
        let mut object = json::Object::begin(&mut text);
        if let Some(field) = field.filter(|_| !has_labels && !has_files && !is_several && rows.wants_text) {
            json::field(field, object.member(b"label")?).map_err(|error| in_column(&error, above + number, "label"))?;
        }
        object.end();
        rows.add(&Row {
            line: above + number,
            path,
            label,
            class: None,
            split: None,
            files: &files,
            several,
            text: &text,
        })
    })
}

/// Whether a line whose last blank is at `at` is an id and a label of several words (FGVC-Aircraft): its first word is an image without
/// extension, and its start before the last blank is none.
fn has_text(line: &[u8], at: usize, rows: &Rows<'_>) -> Result<bool> {
    let before = line[..at].trim_ascii_end();
    let Some(first) = before.split(u8::is_ascii_whitespace).next().filter(|first| first.len() < before.len()) else {
        return Ok(false);
    };
    Ok(rows.is_cheap() && rows.is_without_extension(first)? && !rows.is_without_extension(before)?)
}

/// Path and text of a line `path, "text"`.
pub(super) fn quoted_text(line: &[u8]) -> Option<(&[u8], &[u8])> {
    let line = line.trim_ascii();
    let at = line.windows(3).position(|window| window == b", \"")?;
    Some((&line[..at], line[at + 3..].strip_suffix(b"\"")?))
}

/// Reads lines `path, "text"`. A backslash stands before a quote and before a backslash.
fn read_quoted_texts(input: impl BufRead, above: u64, rows: &mut Rows<'_>, monitor: &dyn Monitor) -> Result<()> {
    let names = ["path", "label"].map(str::to_owned);
    let mut roles = Roles::of_lines(&names, rows.columns, rows.no_labels)?;
    rows.begin(&names, &mut roles)?;
    let has_labels = roles.label.is_some();
    if !roles.files.is_empty() || !roles.several.is_empty() {
        return Err(Error::usage("--file-column and --multi-label: the second column is text in quotes"));
    }
    let mut text = Vec::new();
    lines::each(input, monitor, |number, line| {
        if line.trim_ascii().is_empty() {
            return Ok(());
        }
        let number = above + number;
        let Some((path, quoted)) = quoted_text(line) else {
            return Err(Error::data(format!("line {number}: not path, \"text\" as the lines before")));
        };
        let mut field = Vec::with_capacity(quoted.len());
        let mut bytes = quoted.iter().peekable();
        while let Some(byte) = bytes.next() {
            let escaped = bytes.next_if(|next| *byte == b'\\' && matches!(next, b'"' | b'\\'));
            field.push(*escaped.unwrap_or(byte));
        }
        text.clear();
        let mut object = json::Object::begin(&mut text);
        if !has_labels && rows.wants_text {
            json::string(&field, object.member(b"label")?).map_err(|error| in_column(&error, number, "label"))?;
        }
        object.end();
        let label = if has_labels { LabelValue::of_text(&field) } else { LabelValue::Missing };
        rows.add(&Row { line: number, path, label, class: None, split: None, files: &[], several: &[], text: &text })
    })
}

/// Adds line and column to an error about text that is not UTF-8. Paths and labels may be any bytes.
fn in_column(error: &Error, line: u64, column: &str) -> Error {
    let help = "iconv -f LATIN1 -t UTF-8 FILE makes it UTF-8, if it is Latin-1; --meta none leaves such columns out";
    json::in_column(error, line, column).help(help)
}

//! Parses lists of fields: CSV by RFC 4180 with commas, semicolons, tabs or bars, and lines `path label`.
//!
//! Where the RFC is silent, the parser follows Python's `csv`: a quote inside an unquoted field is a plain character,
//! and empty lines are skipped. The crate csv-core splits fields. This file adds line numbers, size limits and the
//! error for an unclosed quote.

use std::{
    collections::HashSet,
    io::{self, BufRead, BufReader, Read},
};

use csv_core::ReadRecordResult;
use shardpack_format::{Error, Result, text};

use super::{
    columns::{MAX_COLUMNS, Roles, numbered},
    json,
    label_value::LabelValue,
    lines::{self, MAX_RECORD_BYTES},
    multi_label::classes_of,
    rows::{Row, Rows},
    separator::{Form, Separator, choose},
    words::{TwoFields, WORDS, Words, first_blank, first_comma},
};
use crate::monitor::Monitor;

/// Most fields of a record that are looked up as files.
pub(super) const MAX_LOOKED: usize = 64;
/// Start of the names of folders that a column of this name numbers.
const FOLD: &str = "fold";
/// Bytes that are searched for the delimiter.
const SNIFFED_BYTES: usize = 64 << 10;

/// Iterates over the records of a file.
struct Records<R> {
    input: R,
    parser: csv_core::Reader,
    /// Number of the next line, from 1.
    line: u64,
    /// Whether the last line ended with `\r`; a following `\n` belongs to the same line end.
    is_returned: bool,
    /// The fields of the record end to end, and the end of each. Both buffers are longer than the record.
    bytes: Vec<u8>,
    ends: Vec<usize>,
    /// Number of fields of the record.
    count: usize,
}

impl<R: BufRead> Records<R> {
    fn with_delimiter(input: R, delimiter: u8) -> Self {
        // Lists with bars (LJSpeech) or blanks have quotes as plain characters.
        let has_quotes = !matches!(delimiter, b'|' | WORDS);
        let mut parser = csv_core::ReaderBuilder::new().delimiter(delimiter).quoting(has_quotes).build();
        // csv-core strips a byte order mark at its start. This call begins the input, so that a second mark is kept.
        parser.read_record(b"\n", &mut [0], &mut [0]);
        let (bytes, ends) = (vec![0; SNIFFED_BYTES], vec![0; MAX_COLUMNS]);
        Self { input, parser, line: 1, is_returned: false, bytes, ends, count: 0 }
    }

    /// Reads the next record and returns its first line.
    fn next(&mut self) -> Result<Option<u64>> {
        loop {
            self.count = 0;
            if !self.pass_empty_lines()? {
                return Ok(None);
            }
            let line = self.line;
            self.read(line)?;
            // A single empty field in quotes is no record either.
            if self.count > 1 || self.ends[0] > 0 {
                return Ok(Some(line));
            }
        }
    }

    /// Skips and counts empty lines; false at the end of the file. The parser does not report empty lines.
    fn pass_empty_lines(&mut self) -> Result<bool> {
        loop {
            let buffer = self.input.fill_buf().map_err(unreadable)?;
            let empty = buffer.iter().take_while(|byte| matches!(byte, b'\n' | b'\r')).count();
            for byte in &buffer[..empty] {
                self.line += u64::from(*byte == b'\r' || !self.is_returned);
                self.is_returned = *byte == b'\r';
            }
            let (is_end, is_more) = (buffer.is_empty(), empty < buffer.len());
            self.input.consume(empty);
            if is_end || is_more {
                return Ok(is_more);
            }
        }
    }

    /// Reads a record that begins on line `start`, up to the first line end outside quotes.
    fn read(&mut self, start: u64) -> Result<()> {
        let in_line = |what: String| Error::data(format!("line {start}: {what}"));
        let mut length = 0;
        loop {
            let buffer = self.input.fill_buf().map_err(unreadable)?;
            let is_end = buffer.is_empty();
            // A final `\n` ends the last line like any other. If a quote is open, the parser continues and reports no
            // error.
            let given = if is_end { b"\n" } else { buffer };
            let (result, read, copied, ended) =
                self.parser.read_record(given, &mut self.bytes[length..], &mut self.ends[self.count..]);
            (length, self.count) = (length + copied, self.count + ended);
            self.is_returned = given[..read].last() == Some(&b'\r');
            self.line += given[..read].iter().filter(|byte| **byte == b'\n').count() as u64;
            self.input.consume(if is_end { 0 } else { read });
            match result {
                ReadRecordResult::Record => {
                    self.line += u64::from(self.is_returned);
                    return Ok(());
                }
                ReadRecordResult::InputEmpty if is_end => return Err(in_line("a quote is not closed".to_owned())),
                ReadRecordResult::InputEmpty | ReadRecordResult::End => {}
                ReadRecordResult::OutputFull if length <= MAX_RECORD_BYTES => {
                    self.bytes.resize((2 * length).min(MAX_RECORD_BYTES + 1), 0);
                }
                ReadRecordResult::OutputFull | ReadRecordResult::OutputEndsFull => {
                    return Err(in_line(format!(
                        "more than {MAX_RECORD_BYTES} bytes or {MAX_COLUMNS} fields; is a quote not closed?"
                    )));
                }
            }
        }
    }

    fn field(&self, number: usize) -> &[u8] {
        let start = if number == 0 { 0 } else { self.ends[number - 1] };
        &self.bytes[start..self.ends[number]]
    }

    fn fields(&self) -> Vec<Vec<u8>> {
        (0..self.count).map(|number| self.field(number).to_vec()).collect()
    }
}

fn unreadable(error: io::Error) -> Error {
    Error::io("cannot read", error)
}

/// Detects the delimiter: the most frequent candidate outside quotes in the first line.
fn delimiter(first: &[u8]) -> u8 {
    let mut in_quotes = false;
    let mut counts = [(b',', 0usize), (b';', 0), (b'\t', 0)];
    for byte in first.iter().take(SNIFFED_BYTES) {
        match byte {
            b'"' => in_quotes = !in_quotes,
            b'\n' | b'\r' if !in_quotes => break,
            _ if !in_quotes => counts.iter_mut().filter(|(own, _)| own == byte).for_each(|(_, count)| *count += 1),
            _ => {}
        }
    }
    // On a tie the first candidate wins.
    counts.iter().rev().max_by_key(|(_, count)| *count).map_or(b',', |(byte, _)| *byte)
}

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
        Separator::LastBlank => read_lines(input, top.lines, rows, monitor),
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
fn read_lines(mut input: impl BufRead, above: u64, rows: &mut Rows<'_>, monitor: &dyn Monitor) -> Result<()> {
    let first = first_line(input.fill_buf().map_err(unreadable)?).trim_ascii();
    let has_fields = last_blank(first).is_some() && !rows.is_file(first)?;
    let names = ["path", "label"].map(str::to_owned);
    let names = &names[..1 + usize::from(has_fields)];
    let mut roles = Roles::of_lines(names, rows.columns, rows.no_labels)?;
    rows.begin(names, &mut roles)?;
    let has_files = !roles.files.is_empty();
    let (has_labels, is_several) = (roles.label.is_some(), !roles.several.is_empty());
    let mut text = Vec::new();
    lines::each(input, monitor, |number, line| {
        let whole = line.trim_ascii();
        if whole.is_empty() {
            return Ok(());
        }
        let (path, field) = match last_blank(whole).filter(|_| has_fields) {
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

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn all(text: &str, capacity: usize) -> Result<Vec<(u64, Vec<String>)>> {
        let text = text.strip_prefix('\u{feff}').unwrap_or(text).as_bytes();
        // A small buffer must not affect the detected delimiter.
        let mut records = Records::with_delimiter(BufReader::with_capacity(capacity, text), delimiter(text));
        let mut out = Vec::new();
        while let Some(line) = records.next()? {
            let fields = records.fields().into_iter().map(|field| String::from_utf8_lossy(&field).into_owned());
            out.push((line, fields.collect()));
        }
        Ok(out)
    }

    #[test]
    fn fields_are_those_of_the_rfc() {
        let text = "\u{feff}a,\"b, \"\"c\"\"\",\r\n\n\"two\nlines\",x\"y\",\"q\"z\rlast,,";
        let expected =
            [(1, vec!["a", "b, \"c\"", ""]), (3, vec!["two\nlines", "x\"y\"", "qz"]), (5, vec!["last", "", ""])];
        for capacity in [8, 1024] {
            let found = all(text, capacity).unwrap();
            let found: Vec<(u64, Vec<&str>)> =
                found.iter().map(|(line, fields)| (*line, fields.iter().map(String::as_str).collect())).collect();
            assert_eq!(found, expected);
        }
        let error = all("a,b\n\"open,c\n", 64).unwrap_err();
        assert_eq!(error.to_string(), "line 2: a quote is not closed");
    }

    #[test]
    fn a_last_line_that_a_carriage_return_ends_has_no_field_more() {
        for text in ["a\nb\r", "a\rb\r\n", "\r\na\r\rb"] {
            let found: Vec<_> = all(text, 8).unwrap().into_iter().map(|(_, fields)| fields).collect();
            assert_eq!(found, [["a"], ["b"]], "{text:?}");
        }
    }

    #[test]
    fn a_record_is_bounded_in_bytes_and_in_fields() {
        let rows = [
            (",".repeat(MAX_COLUMNS - 1), true),
            (",".repeat(MAX_COLUMNS), false),
            ("x".repeat(MAX_RECORD_BYTES), true),
            ("x".repeat(MAX_RECORD_BYTES + 1), false),
            (format!("\"{}", "x\n".repeat(MAX_RECORD_BYTES)), false),
        ];
        for (text, is_read) in rows {
            match all(&format!("a\n{text}\n"), SNIFFED_BYTES) {
                Ok(found) => assert!(is_read && found.len() == 2),
                Err(error) => {
                    let what = error.to_string();
                    assert!(
                        !is_read && what.starts_with("line 2: more than ") && what.ends_with("is a quote not closed?")
                    );
                }
            }
        }
    }

    #[test]
    fn what_stands_between_fields_is_found() {
        for (text, expected) in [("a,b", b','), ("a;b", b';'), ("a\tb", b'\t'), ("a", b','), ("\"a;;b\",c\n;;;", b',')]
        {
            assert_eq!(delimiter(text.as_bytes()), expected, "{text}");
        }
    }

    proptest! {
        #[test]
        fn what_is_quoted_comes_back(
            records in prop::collection::vec(prop::collection::vec("[a,;\"\n\r é]{0,6}", 3), 1..6),
            capacity in 4usize..40,
        ) {
            // The obvious twin: all fields quoted, quotes doubled.
            let quoted = |field: &String| format!("\"{}\"", field.replace('"', "\"\""));
            let line = |fields: &Vec<String>| fields.iter().map(quoted).collect::<Vec<_>>().join(",") + "\r\n";
            let text: String = records.iter().map(line).collect();
            let found: Vec<_> = all(&text, capacity).unwrap().into_iter().map(|(_, fields)| fields).collect();
            prop_assert_eq!(found, records);
        }
    }
}

//! Detects the form of a text list: the lines above its rows, and the separator of its fields.
//!
//! Holds at all times: a separator that the first line suggests is kept if it gives a path. Another separator is used
//! only if it gives an existing file. If no separator does, the suggested one remains, and its error is reported.

use shardpack_format::{Error, Result};

use super::{
    columns::{Roles, numbered, path_of},
    csv::{self, first_records},
    rows::Rows,
    words::{Split, WORDS, first_blank, first_comma},
};
use crate::names;

/// Lines that are examined.
const LINES: usize = 3;
/// Lines of words that are examined. Of a table, nearly all have as many words as the others; the first texts may have equal numbers, too.
const MANY_LINES: usize = 256;
/// Fields of a list at a URL that are looked up with each image extension. Each look is a request.
const REMOTE_IDS: usize = 4;

/// Separates the fields of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Separator {
    /// This byte, as in CSV. Between bars, quotes are plain characters.
    Byte(u8),
    /// The last run of blanks: `path label`, or `path` alone.
    LastBlank,
    /// Each run of blanks, as in CelebA.
    Words,
    /// A comma before a text in quotes, as in ICDAR: `path, "text"`.
    QuotedText,
    /// The first comma: `path,text`, with commas in texts without quotes, as in Flickr8k.
    FirstComma,
    /// The first blank: `path text of words`, as lists of speech have it.
    FirstBlank,
}

impl Separator {
    /// The note for a separator that the first line does not suggest.
    pub fn note(self) -> String {
        let name = match self {
            Self::Byte(b'\t') => "tabs",
            Self::Byte(b',') => "commas",
            Self::Byte(b';') => "semicolons",
            Self::Byte(_) => "bars",
            Self::LastBlank => "the last blank",
            Self::Words => "blanks",
            Self::QuotedText => "a comma, and the text is in quotes",
            Self::FirstBlank => "the first blank, and the rest of a line is a text",
            Self::FirstComma => {
                return "fields are separated by the first comma of a line: the texts have commas, and no quotes"
                    .to_owned();
            }
        };
        format!("fields are separated by {name}: a field of the first lines is a file then")
    }
}

/// The separators that are tried, in this order.
const CANDIDATES: [Separator; 8] = [
    Separator::QuotedText,
    Separator::Byte(b'\t'),
    Separator::Byte(b','),
    Separator::Byte(b';'),
    Separator::Byte(b'|'),
    Separator::LastBlank,
    Separator::Words,
    Separator::FirstBlank,
];

/// Lines above the rows of a list.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Top {
    pub bytes: usize,
    pub lines: u64,
    /// Lines that begin with `#`.
    comments: u64,
    /// The number of rows, if a line has it (CelebA).
    count: Option<u64>,
    /// Length of this line in bytes.
    count_bytes: usize,
    /// Whether the last of these lines names the two fields of lines `path label`.
    has_header: bool,
}

impl Top {
    /// Finds the lines that begin with `#`, and then a line with nothing but a number, if the next line has more.
    fn find(first: &[u8]) -> Self {
        let mut top = Self::default();
        let mut lines = first.split_inclusive(|byte| *byte == b'\n').peekable();
        while let Some(line) = lines.next_if(|line| line.starts_with(b"#")) {
            (top.bytes, top.lines, top.comments) = (top.bytes + line.len(), top.lines + 1, top.comments + 1);
        }
        let number = |line: &[u8]| std::str::from_utf8(line.trim_ascii()).ok()?.parse::<u64>().ok();
        if let (Some(line), Some(next)) = (lines.next(), lines.next()) {
            top.count = number(line).filter(|_| number(next).is_none() && !line.starts_with(b"0"));
            if top.count.is_some() {
                (top.bytes, top.lines, top.count_bytes) = (top.bytes + line.len(), top.lines + 1, line.len());
            }
        }
        top
    }

    /// The same without the number of rows.
    fn without_count(self) -> Self {
        Self { bytes: self.bytes - self.count_bytes, lines: self.lines - 1, comments: self.comments, ..Self::default() }
    }

    /// The note about these lines, in a list of `rows` rows.
    pub fn note(&self, rows: u64) -> Option<String> {
        let comments = (self.comments > 0).then(|| format!("{} that begin with #", self.comments));
        let count = self.count.map(|count| match count == rows {
            true => format!("the number of rows, {count}"),
            false => format!("the number of rows, {count}, which the list does not have: it has {rows}"),
        });
        let header = self.has_header.then(|| "the names of the columns".to_owned());
        let lines: Vec<String> = comments.into_iter().chain(count).chain(header).collect();
        (!lines.is_empty()).then(|| format!("lines above the rows are left out: {}", lines.join(", ")))
    }
}

/// The form of a text list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Form {
    pub separator: Separator,
    pub top: Top,
    /// Record and column of a path without an extension, after a slash, or with a number behind it, if no field of the first records is a file.
    pub short_path: Option<(usize, usize)>,
}

/// Chooses the form of a list whose first bytes are `first`. `suggest` returns the choice by the first line alone, and
/// whether it is final.
///
/// # Errors
/// If a file cannot be looked up.
pub(super) fn choose(first: &[u8], suggest: &dyn Fn(&[u8]) -> (Separator, bool), rows: &Rows<'_>) -> Result<Form> {
    let mut form = without_header(first, suggest, rows)?;
    if form.separator == Separator::LastBlank
        && let Some((bytes, lines)) = header_of_lines(&first[form.top.bytes..], form.top.count.is_some(), rows)?
    {
        form.top = Top { bytes: form.top.bytes + bytes, lines: form.top.lines + lines, has_header: true, ..form.top };
    }
    Ok(form)
}

/// As [`choose`], apart from a header of lines `path label`.
fn without_header(first: &[u8], suggest: &dyn Fn(&[u8]) -> (Separator, bool), rows: &Rows<'_>) -> Result<Form> {
    let (suggested, _) = suggest(first);
    let mut top = Top::find(first);
    let is_file = |field: &[u8]| rows.is_file(field);
    // Every line of `path label` is a row, so a form without its top would make these lines bad images.
    if suggested == Separator::LastBlank && top.lines > 0 {
        if find(&first[..top.bytes], suggested, rows, &is_file)?.is_some() {
            top = Top::default();
        }
    } else if let Some(form) = form(first, suggest(first), rows)? {
        return Ok(form);
    }
    let below = |top: Top| -> Result<Option<Form>> {
        let rest = &first[top.bytes..];
        Ok(form(rest, suggest(rest), rows)?.map(|form| Form { top, ..form }))
    };
    let mut found = None;
    if top.lines > 0 || suggested == Separator::LastBlank {
        found = below(top)?;
    }
    // Above ids, a number may be one, too.
    if let (Some(Form { short_path: Some(_), .. }), Some(count)) = (&found, top.count)
        && rows.is_without_extension(count.to_string().as_bytes())?
    {
        found = below(top.without_count())?;
    }
    Ok(found.unwrap_or(Form { separator: suggested, top: Top::default(), short_path: None }))
}

/// Bytes and lines up to the end of a first line that names the fields of lines `path label` (DeepFashion): below the number of rows, or by
/// a known name of a path.
fn header_of_lines(first: &[u8], is_counted: bool, rows: &Rows<'_>) -> Result<Option<(usize, u64)>> {
    let is_blank = |line: &&[u8]| line.trim_ascii().is_empty();
    let all = || first.split_inclusive(|byte| *byte == b'\n');
    let above = all().take_while(is_blank).fold((0, 0), |(bytes, lines), line| (bytes + line.len(), lines + 1));
    let mut lines = all().filter(|line| !is_blank(line));
    let path = |line: &[u8]| Some(line.trim_ascii()[..csv::last_blank(line.trim_ascii())?].trim_ascii_end().to_vec());
    let (Some(header), Some(row)) = (lines.next(), lines.next()) else { return Ok(None) };
    let (Some(name), Some(row)) = (path(header), path(row)) else { return Ok(None) };
    let is_name = is_counted || path_of(&csv::names(std::slice::from_ref(&name))).is_some();
    // A row whose image is missing is no header.
    let last = header.trim_ascii().rsplit(u8::is_ascii_whitespace).next().unwrap_or_default();
    let are_names = !name.iter().any(|byte| b"./".contains(byte)) && has_letter(last);
    let is_header = is_name && are_names && !rows.is_file(&name)? && rows.is_file(&row)?;
    Ok(is_header.then_some((above.0 + header.len(), above.1 + 1)))
}

/// The form of rows that begin with `first`; `None` if no field is a file.
fn form(first: &[u8], (suggested, is_final): (Separator, bool), rows: &Rows<'_>) -> Result<Option<Form>> {
    let has_commas = has_commas_in_texts(first, rows);
    let in_texts = |one| if has_commas && one == Separator::Byte(b',') { Separator::FirstComma } else { one };
    let suggested = in_texts(suggested);
    let form = |separator, short_path| Some(Form { separator, top: Top::default(), short_path });
    if is_named(first, suggested, rows) {
        return Ok(form(suggested, None));
    }
    let others = CANDIDATES.into_iter().map(in_texts).filter(|other| *other != suggested && !is_final);
    let all: Vec<Separator> = std::iter::once(suggested).chain(others).collect();
    let is_text = |separator, is_path: &dyn Fn(&[u8]) -> Result<bool>| {
        Ok::<_, Error>(separator == Separator::LastBlank && rows.is_cheap() && is_path_and_text(first, is_path)?)
    };
    let is_file = |field: &[u8]| rows.is_file(field);
    for separator in &all {
        if find(first, *separator, rows, &is_file)?.is_some() && !is_text(*separator, &is_file)? {
            return Ok(form(*separator, None));
        }
    }
    let looks = std::cell::Cell::new(0);
    let is_short_path = |field: &[u8]| {
        if rows.is_file_after_slash(field)? || rows.is_file_before_number(field)? {
            return Ok(true);
        }
        if !rows.is_cheap() {
            if field.is_empty() || field.iter().any(|byte| byte.is_ascii_whitespace() || *byte == b'.') {
                return Ok(false);
            }
            looks.set(looks.get() + 1);
            if looks.get() > REMOTE_IDS {
                return Ok(false);
            }
        }
        rows.is_without_extension(field)
    };
    for separator in &all {
        if let Some(place) = find(first, *separator, rows, &is_short_path)?
            && !is_text(*separator, &is_short_path)?
        {
            return Ok(form(*separator, Some(place)));
        }
    }
    Ok(None)
}

/// Whether the header names a path and a text, and a text has commas without quotes around them.
fn has_commas_in_texts(first: &[u8], rows: &Rows<'_>) -> bool {
    let records = first_records(first, b',', usize::MAX);
    let Some((header, rest)) = records.split_first().filter(|(header, _)| header.len() == 2) else { return false };
    let names = csv::names(header);
    let path = rows.columns.path.clone().or_else(|| path_of(&names));
    path.is_some_and(|path| path.eq_ignore_ascii_case(&names[0])) && rest.iter().any(|record| record.len() > 2)
}

/// Whether the first line names the column of paths, or an option gives its number. Such a list needs no look at files.
fn is_named(first: &[u8], separator: Separator, rows: &Rows<'_>) -> bool {
    let byte = match separator {
        Separator::Byte(byte) => byte,
        Separator::FirstComma => b',',
        _ => return false,
    };
    let records = first_records(first, byte, 1);
    let Some(names) = records.first().map(|record| csv::names(record)) else { return true };
    if let Some(path) = &rows.columns.path {
        return names.iter().any(|name| name.eq_ignore_ascii_case(path)) || numbered(names.len(), path).is_ok();
    }
    Roles::assign(&names, rows.columns, rows.no_labels, rows.splits).is_ok_and(|roles| roles.is_some())
}

/// Record and column of the first field for which `is_path` is true.
fn find(
    first: &[u8],
    separator: Separator,
    rows: &Rows<'_>,
    is_path: &dyn Fn(&[u8]) -> Result<bool>,
) -> Result<Option<(usize, usize)>> {
    let lines = || first.split(|byte| *byte == b'\n').map(<[u8]>::trim_ascii).filter(|line| !line.is_empty());
    let records: Vec<Vec<Vec<u8>>> = match separator {
        Separator::Byte(byte) => first_records(first, byte, LINES),
        Separator::Words => first_records(first, WORDS, MANY_LINES),
        Separator::LastBlank => {
            let path = |line: &[u8]| csv::last_blank(line).map(|at| line[..at].trim_ascii_end().to_vec());
            lines().take(LINES).map(|line| std::iter::once(line.to_vec()).chain(path(line)).collect()).collect()
        }
        Separator::FirstComma | Separator::FirstBlank => {
            let split: Split = if separator == Separator::FirstComma { first_comma } else { first_blank };
            let fields = |line| split(line).map_or(vec![line.to_vec()], |(a, b)| vec![a.to_vec(), b]);
            lines().take(LINES).map(fields).collect()
        }
        Separator::QuotedText => {
            let paths = lines().take(LINES).map(|line| Some(vec![csv::quoted_text(line)?.0.to_vec()]));
            paths.collect::<Option<_>>().unwrap_or_default()
        }
    };
    let width = |number: usize| records.get(number).map_or(0, Vec::len);
    let has_short_header = separator == Separator::Words && width(0) + 1 == width(1);
    let rest = &records[usize::from(has_short_header).min(records.len())..];
    let is_table = !matches!(separator, Separator::LastBlank | Separator::QuotedText);
    let width = rest.first().map_or(0, Vec::len);
    let others = rest.iter().filter(|record| record.len() != width).count();
    // A line of words that lacks one is an error of the table, and no text.
    let most = if separator == Separator::Words { rest.len() / 10 } else { 0 };
    if is_table && others > most {
        return Ok(None);
    }
    // Numbers are columns of a table whose lines are damaged.
    if separator == Separator::FirstBlank
        && !rest.iter().any(|record| record.last().is_some_and(|text| has_letter(text)))
    {
        return Ok(None);
    }
    // The first record of a table may be a header; the second has a path then. Ids and texts have no header.
    let looked = if separator == Separator::FirstBlank { 1 } else { 2 };
    for (number, record) in records.iter().enumerate().take(if is_table { looked } else { LINES }) {
        for (column, field) in record.iter().enumerate().take(csv::MAX_LOOKED) {
            // A first row whose image is missing is no header.
            let is_row = |first: &Vec<u8>| names::is_image(first);
            if is_table && number == 1 && records[0].get(column).is_some_and(is_row) {
                continue;
            }
            let is_worth = rows.is_cheap() || names::is_like_a_file(field) || !field.contains(&b'.');
            if is_worth && is_path(field)? {
                return Ok(Some((number, column)));
            }
        }
    }
    Ok(None)
}

fn has_letter(text: &[u8]) -> bool {
    text.iter().any(|byte| byte.is_ascii_alphabetic() || !byte.is_ascii())
}

/// Whether one of the first lines is a path and a text of several words: `path` and all words but the last are no file.
fn is_path_and_text(first: &[u8], is_path: &dyn Fn(&[u8]) -> Result<bool>) -> Result<bool> {
    let lines = first.split(|byte| *byte == b'\n').map(<[u8]>::trim_ascii).filter(|line| !line.is_empty());
    for line in lines.take(LINES) {
        let before = csv::last_blank(line).map_or(line, |at| line[..at].trim_ascii_end());
        let Some((path, text)) = first_blank(line) else { continue };
        let has_words = path.len() < before.len() && has_letter(&text);
        if has_words && !is_path(line)? && !is_path(before)? && is_path(path)? {
            return Ok(true);
        }
    }
    Ok(false)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_above_the_rows_are_comments_and_a_count() {
        for (text, bytes, lines, note) in [
            ("#a\n#b\nx y\n", 6, 2, Some("2 that begin with #")),
            ("3\na b\nx 1 2\n", 2, 1, Some("the number of rows, 3")),
            (
                "# c\n2\nx 1\n",
                6,
                2,
                Some("1 that begin with #, the number of rows, 2, which the list does not have: it has 3"),
            ),
            ("1\n2\n3\n", 0, 0, None),
            ("0001\nx\n", 0, 0, None),
            ("x 1\n#y 2\n", 0, 0, None),
        ] {
            let top = Top::find(text.as_bytes());
            assert_eq!((top.bytes, top.lines), (bytes, lines), "{text:?}");
            let note = note.map(|note| format!("lines above the rows are left out: {note}"));
            assert_eq!(top.note(3), note, "{text:?}");
        }
    }
}

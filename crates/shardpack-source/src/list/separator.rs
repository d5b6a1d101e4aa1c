//! Detects how the lines of a text list are separated into fields, by the fields that are existing files.
//!
//! Holds at all times: a separator that the first line suggests is kept if it gives a path. Another separator is used
//! only if it gives an existing file. If no separator does, the suggested one remains, and its error is reported.

use shardpack_format::Result;

use super::{
    columns::{Roles, numbered},
    csv::{self, first_records},
    rows::Rows,
};

/// Lines that are examined.
const LINES: usize = 3;

/// Separates the fields of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Separator {
    /// This byte, as in CSV. Between bars, quotes are plain characters.
    Byte(u8),
    /// The last run of blanks: `path label`, or `path` alone.
    LastBlank,
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
        };
        format!("fields are separated by {name}: a field of the first lines is a file then")
    }
}

/// The separators that are tried, in this order.
const CANDIDATES: [Separator; 5] =
    [Separator::Byte(b'\t'), Separator::Byte(b','), Separator::Byte(b';'), Separator::Byte(b'|'), Separator::LastBlank];

/// Chooses the separator of a list whose first bytes are `first`. `suggested` is the choice by the first line alone.
///
/// # Errors
/// If a file cannot be looked up.
pub(super) fn choose(first: &[u8], suggested: Separator, rows: &Rows<'_>) -> Result<Separator> {
    if is_named(first, suggested, rows)? || has_file(first, suggested, rows)? {
        return Ok(suggested);
    }
    for separator in CANDIDATES.into_iter().filter(|other| *other != suggested) {
        if has_file(first, separator, rows)? {
            return Ok(separator);
        }
    }
    Ok(suggested)
}

/// Whether the first line names the column of paths, or an option gives its number. Such a list needs no look at files.
fn is_named(first: &[u8], separator: Separator, rows: &Rows<'_>) -> Result<bool> {
    let Separator::Byte(byte) = separator else { return Ok(false) };
    let records = first_records(first, byte, 1);
    let Some(names) = records.first().map(|record| csv::names(record)) else { return Ok(true) };
    if let Some(path) = &rows.columns.path {
        return Ok(names.iter().any(|name| name.eq_ignore_ascii_case(path)) || numbered(names.len(), path).is_ok());
    }
    Ok(Roles::assign(&names, rows.columns, rows.no_labels, rows.splits).is_ok_and(|roles| roles.is_some()))
}

/// Whether a field of the first lines is a file.
fn has_file(first: &[u8], separator: Separator, rows: &Rows<'_>) -> Result<bool> {
    let mut fields: Vec<Vec<u8>> = Vec::new();
    match separator {
        Separator::Byte(byte) => {
            let records = first_records(first, byte, LINES);
            if records.windows(2).any(|pair| pair[0].len() != pair[1].len()) {
                return Ok(false);
            }
            // The first record may be a header; the second has a path then.
            fields.extend(records.into_iter().take(2).flatten());
        }
        Separator::LastBlank => {
            let lines = first.split(|byte| *byte == b'\n').map(<[u8]>::trim_ascii).filter(|line| !line.is_empty());
            for line in lines.take(LINES) {
                fields.push(line.to_vec());
                fields.extend(csv::last_blank(line).map(|at| line[..at].trim_ascii_end().to_vec()));
            }
        }
    }
    for field in fields.iter().filter(|field| rows.is_cheap() || is_like_a_file(field)) {
        if rows.is_file(field)? {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Whether a field has the form of a file name with an extension. Below a URL, each look at a file is a request.
fn is_like_a_file(field: &[u8]) -> bool {
    let name = field.rsplit(|byte| *byte == b'/').next().unwrap_or_default();
    let extension = name.iter().rposition(|byte| *byte == b'.').map(|at| &name[at + 1..]);
    extension.is_some_and(|extension| {
        (1..=5).contains(&extension.len())
            && extension.iter().all(u8::is_ascii_alphanumeric)
            && extension.iter().any(u8::is_ascii_alphabetic)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_that_may_be_files_have_an_extension() {
        for (field, expected) in [
            ("a/b.jpg", true),
            ("x y.npy", true),
            ("0.5", false),
            ("A sentence.", false),
            ("a.b/c", false),
            ("x.a b", false),
            ("", false),
        ] {
            assert_eq!(is_like_a_file(field.as_bytes()), expected, "{field}");
        }
    }
}

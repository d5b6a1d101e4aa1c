//! Columns of a list that name files: `--file-column mask` packs the content of the files, and a look at the first rows finds such columns.
//!
//! Holds at all times: a column whose values in these rows are all files is not packed as text unless the user decides so.

use std::collections::BTreeSet;

use shardpack_format::{
    Error, Result,
    component::{self, Component},
    shell, size, text,
};

use super::{
    Columns,
    columns::{Roles, find},
    rows::Rows,
};
use crate::{
    names::{self, cut},
    options::Options,
};

/// The value of `--file-column` that leaves all other columns as they are.
pub const NONE: &str = "none";
/// Rows that are looked at.
const ROWS: u64 = 16;
/// The same if each look is a request.
const REMOTE_ROWS: u64 = 4;
/// Most columns that are looked at.
const MAX_COLUMNS: usize = 1024;
/// Most columns that are looked up as files.
const MAX_LOOKED: usize = 64;

/// A column whose values are paths of files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct FileColumn {
    /// The column, by name or number.
    pub column: String,
    /// Name of the component, perhaps without its extension.
    name: String,
    /// The component, if it is known before the rows: that of a dataset which is compared with the list.
    known: Option<Component>,
}

impl FileColumn {
    /// The columns that the user chooses, and then those of a dataset that is compared with the list.
    ///
    /// # Errors
    /// If a name is none of a component.
    pub fn all(columns: &Columns, options: &Options) -> Result<Vec<Self>> {
        let said = columns.files.iter().filter(|value| *value != NONE).map(|value| Self::parse(value));
        let mut all = said.collect::<Result<Vec<Self>>>()?;
        for kind in &options.with {
            let Some(column) = kind.file_column().filter(|column| !all.iter().any(|one| one.column == *column)) else {
                continue;
            };
            all.push(Self { column: column.to_owned(), name: kind.name().to_owned(), known: Some(kind.clone()) });
        }
        match all.iter().enumerate().find(|(at, one)| all[..*at].iter().any(|other| other.column == one.column)) {
            Some((_, one)) => Err(Error::usage(format!("--file-column names column {:?} twice", one.column))),
            None => Ok(all),
        }
    }

    /// Parses `COLUMN` or `NAME=COLUMN`.
    fn parse(value: &str) -> Result<Self> {
        let (name, column) = match value.split_once('=') {
            Some((name, column)) => (name.to_ascii_lowercase(), column),
            None => {
                let is_number = value.bytes().all(|byte| byte.is_ascii_digit());
                let name = if is_number { format!("column_{value}") } else { value.to_owned() };
                (Component::field(&name)?.name().to_owned(), value)
            }
        };
        let found = Self { column: column.to_owned(), name, known: None };
        Component::column_files(&found.name, column).map(|_| found)
    }

    /// The component for files at `paths`. Its name ends with their extension if all have the same one.
    ///
    /// # Errors
    /// If the name with its extension is none of a component.
    pub fn kind<'p>(&self, paths: impl Iterator<Item = &'p [u8]>) -> Result<Component> {
        if let Some(known) = &self.known {
            return Ok(known.clone());
        }
        let extensions: BTreeSet<Vec<u8>> = paths.filter(|path| !path.is_empty()).map(extension).collect();
        let mut extensions = extensions.into_iter();
        let name = match (extensions.next(), extensions.next()) {
            (Some(one), None) if !one.is_empty() && !self.name.contains('.') && self.name.as_bytes() != one => {
                format!("{}.{}", self.name, String::from_utf8_lossy(&one))
            }
            _ => self.name.clone(),
        };
        Component::column_files(&name, &self.column)
    }
}

/// The extension of a path in lower case; empty if it has none that a component can have.
fn extension(path: &[u8]) -> Vec<u8> {
    let name = cut(path).1;
    let extension = name.get(component::stem(name).len() + 1..).unwrap_or_default().to_ascii_lowercase();
    let is_fine = extension.iter().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit());
    if is_fine { extension } else { Vec::new() }
}

/// Paths in the columns of files end to end, and the end of each: for each row as many as there are columns.
#[derive(Debug, Default)]
pub(super) struct NamedFiles {
    paths: Vec<u8>,
    ends: Vec<usize>,
}

impl NamedFiles {
    /// Adds the path of the next column; an empty one names no file.
    pub fn push(&mut self, path: &[u8]) {
        self.paths.extend_from_slice(path);
        self.ends.push(self.paths.len());
    }

    /// The paths of row `number`, which has `columns` columns of files.
    pub fn of(&self, number: usize, columns: usize) -> Vec<&[u8]> {
        let first = number * columns;
        let ends = self.ends.get(first..first + columns).unwrap_or_default();
        let start = first.checked_sub(1).map_or(0, |before| self.ends[before]);
        let starts = std::iter::once(start).chain(ends.iter().copied());
        starts.zip(ends).map(|(start, end)| &self.paths[start..*end]).collect()
    }
}

/// A column with text, as the first rows have it.
#[derive(Debug)]
struct Seen {
    name: String,
    /// Number of values, without empty ones.
    values: u64,
    /// Number of values that are files.
    files: u64,
    /// Number of values that are 0 or 1.
    bits: u64,
    /// The first value that is a file.
    first: Option<Vec<u8>>,
}

/// The text of the first rows, by column.
#[derive(Debug, Default)]
pub(super) struct Look {
    rows: u64,
    columns: Vec<Seen>,
}

impl Rows<'_> {
    /// Whether the next row is one of those that are looked at.
    pub fn looks_for_files(&self) -> bool {
        self.look.rows < if self.is_cheap() { ROWS } else { REMOTE_ROWS }
    }

    /// Looks at a row for columns whose values are files other than its `image`.
    ///
    /// # Errors
    /// If a lookup fails.
    pub fn look_for_files<'t>(
        &mut self,
        image: &[u8],
        fields: impl Iterator<Item = (&'t str, &'t [u8])>,
    ) -> Result<()> {
        let mut look = std::mem::take(&mut self.look);
        look.rows += 1;
        let image = self.below(image);
        let mut next = 0;
        for (name, field) in fields.filter(|(_, field)| !field.is_empty()) {
            // Most rows have the same columns in the same order.
            let is_next = look.columns.get(next).is_some_and(|one| one.name == name);
            let known = if is_next { Some(next) } else { look.columns.iter().position(|one| one.name == name) };
            let at = match known {
                Some(at) => at,
                None if look.columns.len() == MAX_COLUMNS => continue,
                None => {
                    look.columns.push(Seen { name: name.to_owned(), values: 0, files: 0, bits: 0, first: None });
                    look.columns.len() - 1
                }
            };
            next = at + 1;
            let seen = &mut look.columns[at];
            seen.values += 1;
            seen.bits += u64::from([&b"0"[..], b"1", b"0.0", b"1.0"].contains(&field));
            // A column that has another value already is no column of files.
            let may_be = at < MAX_LOOKED && seen.files + 1 == seen.values && names::is_like_a_file(field);
            if may_be && self.below(field) != image && (self.is_file(field)? || self.is_file_after_slash(field)?) {
                seen.files += 1;
                seen.first.get_or_insert_with(|| field.to_vec());
            }
        }
        self.look = look;
        Ok(())
    }

    /// The numbers of the columns of files among `names`, in the order of [`FileColumn::all`].
    ///
    /// # Errors
    /// If a column is missing, or has another role that the user chose.
    pub(super) fn file_columns(&self, names: &[String], roles: &Roles) -> Result<Vec<usize>> {
        let of = |one: &FileColumn| {
            let column = &one.column;
            let at = find(names, column, "--file-column")?;
            let role = match Some(at) {
                at if at == Some(roles.path) => "of the images: choose another with --path-column NAME",
                at if at == roles.split => "of the splits: choose another with --split-column NAME, or --splits none",
                at if at == roles.label && self.columns.label.is_some() => "that --label-column names",
                _ => return Ok(at),
            };
            Err(Error::usage(format!("--file-column {column}: this is the column {role}")))
        };
        self.files.iter().map(of).collect()
    }

    /// Notes columns with files, which the rows have as text.
    ///
    /// # Errors
    /// If all values that were looked at are files, and no option says how the column is packed.
    pub fn decide_files(&mut self) -> Result<()> {
        let of_bits = self.columns_of_bits();
        of_bits.into_iter().for_each(|note| self.note(note));
        let decides = |value: &String| value == NONE;
        if !self.wants_text || self.columns.files.iter().any(decides) {
            return Ok(());
        }
        let (of_files, others): (Vec<&Seen>, Vec<&Seen>) =
            self.look.columns.iter().filter(|one| one.files > 0).partition(|one| one.files == one.values);
        let says = |one: &Seen| {
            let first = text::shown(one.first.as_deref().unwrap_or_default()).to_string();
            format!("column {} names files, such as {first}", text::shown(one.name.as_bytes()))
        };
        let option = |columns: &[&Seen]| {
            let chosen = self.columns.files.iter().cloned();
            let values: Vec<_> = chosen.chain(columns.iter().map(|one| value(one))).collect();
            shell::word(values.join(","))
        };
        let is_question = self.options.guess && self.options.with.is_empty();
        if let (true, [first, ..]) = (is_question, of_files.as_slice()) {
            let none = self.columns.files.iter().map(String::as_str).chain([NONE]).collect::<Vec<_>>().join(",");
            let more = of_files.len() as u64 - 1;
            let more = if more > 0 { format!(" (and {} more)", size::counted(more, "column")) } else { String::new() };
            return Err(Error::usage(format!("{}{more}: is their content part of a sample?", says(first))).help(
                format!(
                    "--file-column {} packs the files as components; --file-column {} packs the paths as text",
                    option(&of_files),
                    shell::word(&none)
                ),
            ));
        }
        let note = |one: &Seen| match one.files == one.values {
            true => format!("{}: --file-column {} packs their content", says(one), option(&[one])),
            false => {
                let look = format!("{} of the first {}", one.files, size::counted(one.values, "value"));
                format!("{} ({look}): --file-column {} packs their content", says(one), option(&[one]))
            }
        };
        let notes: Vec<_> = of_files.into_iter().chain(others).map(note).collect();
        notes.into_iter().for_each(|note| self.note(note));
        Ok(())
    }
}

impl Rows<'_> {
    /// A note on the first columns side by side that hold 0 and 1 alone, in a list without labels.
    fn columns_of_bits(&self) -> Option<String> {
        if self.has_labels || self.multi_label.is_some() || !self.wants_text {
            return None;
        }
        let is_of_bits = |one: &Seen| one.bits == self.look.rows && one.bits == one.values;
        let mut runs = self.look.columns.chunk_by(|a, b| is_of_bits(a) == is_of_bits(b));
        let run = runs.find(|run| run.len() > 1 && is_of_bits(&run[0]))?;
        let [first, last] = [run.first()?, run.last()?].map(|one| text::shown(one.name.as_bytes()).to_string());
        let option = shell::word(format!("{first}..{last}"));
        let columns = size::counted(run.len() as u64, "column");
        Some(format!("{columns} hold 0 and 1, {first} to {last}: --multi-label {option} packs them as multi_hot"))
    }
}

/// The value of `--file-column` for a column: with a name for the component if the list has none for the column.
fn value(seen: &Seen) -> String {
    let has_name = !seen.name.starts_with("column_") && seen.name != "label";
    if has_name && FileColumn::parse(&seen.name).is_ok() {
        return seen.name.clone();
    }
    let folder = cut(cut(seen.first.as_deref().unwrap_or_default()).0).1;
    let named = |name: &str| format!("{name}={}", seen.name);
    let folder = std::str::from_utf8(folder).ok().map(named).filter(|value| FileColumn::parse(value).is_ok());
    folder.unwrap_or_else(|| named("mask"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn components_have_the_extension_that_all_files_have() {
        let of = |value: &str, paths: &[&str]| {
            let kind = FileColumn::parse(value)?.kind(paths.iter().map(|path| path.as_bytes()));
            kind.map(|kind| kind.to_string())
        };
        assert_eq!(of("Mask", &["a/0.PNG", "", "1.png"]).unwrap(), "mask.png=column:Mask");
        assert_eq!(of("mask", &["a/0.png", "1.jpg"]).unwrap(), "mask=column:mask");
        assert_eq!(of("depth=Depth map", &["0.npy"]).unwrap(), "depth.npy=column:Depth map");
        assert_eq!(of("wav=audio", &["0.wav"]).unwrap(), "wav=column:audio");
        assert_eq!(of("mask.tif=m", &["0.png"]).unwrap(), "mask.tif=column:m");
        assert_eq!(of("2", &["0.png"]).unwrap(), "column_2.png=column:2");
        assert_eq!(of("mask", &["0", ".png", "x.p-g"]).unwrap(), "mask=column:mask");
        assert_eq!(of("mask", &[]).unwrap(), "mask=column:mask");
        for wrong in ["", "=", "cls=mask", "mask=", "a b=mask", "mask=a=b", &format!("{}=mask", "x".repeat(33))] {
            assert!(of(wrong, &[]).is_err(), "{wrong}");
        }
    }
}

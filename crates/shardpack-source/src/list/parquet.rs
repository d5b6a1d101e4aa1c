//! Reads Parquet files with a column of paths. Other columns hold numbers, text, booleans, or lists of these types.

use std::{borrow::Cow, collections::BTreeMap, fs::File};

use shardpack_format::Error;
use shardpack_format::Result;

use super::{
    columns::Roles,
    json,
    label_value::LabelValue,
    multi_label::classes_of,
    rows::{Row, Rows},
};
use crate::{
    foreign::parquet::{Datum, Table},
    monitor::Monitor,
};

/// Reads a whole file.
pub(super) fn read(file: File, rows: &mut Rows<'_>, monitor: &dyn Monitor) -> Result<()> {
    let mut table = Table::open(file)?;
    let names = table.names();
    let mut roles = Roles::assign(&names, rows.columns, rows.no_labels, rows.splits)?.ok_or_else(|| {
        Error::usage(format!("no column of paths: it has {}", names.join(", ")))
            .help("choose one with --path-column NAME; shardpack convert reads files that hold the images themselves")
    })?;
    rows.begin(&names, &mut roles)?;
    if !table.left_out().is_empty() {
        rows.note(format!("columns left out, neither numbers nor text: {}", table.left_out().join(", ")));
    }
    let (mut line, mut text) = (0, Vec::new());
    while let Some(cells) = table.next_row()? {
        line += 1;
        text.clear();
        if rows.wants_text {
            let mut object = json::Object::begin(&mut text);
            for (at, cell) in cells.iter().enumerate().filter(|(at, _)| roles.is_component(*at)) {
                value(cell, object.member(names[at].as_bytes())?).map_err(|error| {
                    json::in_column(&error, line, &names[at]).help("--meta none leaves such columns out")
                })?;
            }
            object.end();
        }
        let path = bytes(&cells[roles.path]).unwrap_or_default();
        if rows.looks_for_files() {
            let is_looked_at = |at: &usize| *at != roles.path && !roles.files.contains(at);
            let texts = (0..cells.len()).filter(is_looked_at);
            rows.look_for_files(path, texts.filter_map(|at| Some((names[at].as_str(), bytes(&cells[at])?))))?;
        }
        let file = |at: &usize| match &cells[*at] {
            Datum::Null => Ok(&[][..]),
            cell => bytes(cell).ok_or_else(|| {
                Error::data(format!("line {line}, column {:?}: no path, and --file-column names it", names[*at]))
            }),
        };
        let files = roles.files.iter().map(file).collect::<Result<Vec<_>>>()?;
        let field = |at: usize| match &cells[at] {
            Datum::Null => Ok(Cow::Borrowed(&[][..])),
            Datum::Text(text) => Ok(Cow::Borrowed(text.as_slice())),
            cell => {
                let mut out = Vec::new();
                value(cell, &mut out).map(|()| Cow::Owned(out))
            }
        };
        let several = roles.several.iter().map(|at| Ok((*at, field(*at)?))).collect::<Result<BTreeMap<_, _>>>()?;
        let several = classes_of(&names, &roles.several, line, |at| several.get(&at).cloned().unwrap_or_default())?;
        rows.add(&Row {
            line,
            path,
            label: roles.label.map(|at| label(&cells[at], table.classes(&names[at]))).unwrap_or_default(),
            class: roles.class.and_then(|at| bytes(&cells[at])).or_else(|| {
                let at = roles.label?;
                class(&cells[at], table.classes(&names[at]))
            }),
            split: roles.split.map(|at| bytes(&cells[at]).unwrap_or_default()),
            files: &files,
            several: &several,
            text: &text,
        })?;
        if line % 4096 == 0 {
            monitor.check_cancelled()?;
        }
    }
    Ok(())
}

fn bytes(cell: &Datum) -> Option<&[u8]> {
    match cell {
        Datum::Text(text) => Some(text),
        _ => None,
    }
}

/// The class name that the file's metadata gives a numeric label.
fn class<'c>(cell: &Datum, classes: Option<&'c [Vec<u8>]>) -> Option<&'c [u8]> {
    match cell {
        Datum::Number(number) => usize::try_from(*number).ok().and_then(|at| classes?.get(at)).map(Vec::as_slice),
        _ => None,
    }
}

fn label(cell: &Datum, classes: Option<&[Vec<u8>]>) -> LabelValue {
    match cell {
        Datum::Null => LabelValue::Missing,
        // Hugging Face marks samples without a label like this.
        Datum::Number(-1) if classes.is_some() => LabelValue::Missing,
        Datum::Number(number) => LabelValue::Number(i64::try_from(*number).unwrap_or(i64::MAX)),
        Datum::Text(text) => LabelValue::of_text(text),
        // Tables mark a missing number like this.
        Datum::Real(spelled) if spelled == "NaN" => LabelValue::Missing,
        Datum::Real(spelled) => LabelValue::of_number(spelled),
        Datum::Bool(_) | Datum::List(_) => LabelValue::Unfit("a value that is neither a number nor text".to_owned()),
    }
}

fn value(cell: &Datum, out: &mut Vec<u8>) -> Result<()> {
    match cell {
        Datum::Null => out.extend_from_slice(b"null"),
        Datum::Bool(truth) => out.extend_from_slice(if *truth { b"true" } else { b"false" }),
        Datum::Number(number) => out.extend_from_slice(number.to_string().as_bytes()),
        Datum::Real(spelled) => out.extend_from_slice(spelled.as_bytes()),
        Datum::Text(text) => json::string(text, out)?,
        Datum::List(cells) => {
            out.push(b'[');
            for (number, cell) in cells.iter().enumerate() {
                if number > 0 {
                    out.push(b',');
                }
                value(cell, out)?;
            }
            out.push(b']');
        }
    }
    Ok(())
}

//! Reads samples without images as rows: arrays of equal numbers of rows, of numbers, text or bytes.
//!
//! The header of an array decides the form of its rows. Items of arrays are passed on as stored.

use shardpack_format::{
    Error, Result,
    component::{Component, Form},
    formats::foreign::FieldSelection,
};

use super::{
    Arrays, Rows,
    item::Item,
    labels::OTHER_LABELS,
    names::{CLASSES, is_called, label_rank, own_words, split},
    seen::Seen,
    table::Table,
    values::{self, array_dtype, dtype, encoded},
};

/// The arrays of `seen` whose rows are samples: one table per split; empty if there are none.
///
/// # Errors
/// If arrays have different numbers of rows, and no number is the most common one.
pub(crate) fn tables(file: &dyn Arrays, seen: &[Seen], wanted: &FieldSelection) -> Result<Vec<Table>> {
    let is_value = |one: &&Seen| {
        one.rows().is_some_and(|rows| rows > 0)
            && dtype_or_text(one)
            && !(one.kind == values::Kind::Text && is_called(&one.path, &CLASSES))
    };
    let all: Vec<&Seen> = seen.iter().filter(is_value).collect();
    let mut splits: Vec<Option<String>> = Vec::new();
    for one in &all {
        let of = split(&one.path);
        if !splits.contains(&of) {
            splits.push(of);
        }
    }
    let mut tables = Vec::new();
    for of in splits {
        let own: Vec<&Seen> = all.iter().copied().filter(|one| split(&one.path) == of).collect();
        // The arrays that the user names decide on the number of rows.
        let is_named = |one: &&Seen| wanted.components.iter().flatten().any(|said| is_field(said, &name(one, &own)));
        let named: Vec<&Seen> = own.iter().copied().filter(is_named).collect();
        let counted = if named.is_empty() { &own } else { &named };
        let count = |rows: Option<u64>| counted.iter().filter(|one| one.rows() == rows).count();
        let most = counted.iter().map(|one| count(one.rows())).max().unwrap_or(0);
        let mut likely: Vec<u64> =
            counted.iter().filter(|one| count(one.rows()) == most).filter_map(|one| one.rows()).collect();
        likely.sort_unstable();
        likely.dedup();
        let [rows] = likely[..] else {
            let told: Vec<_> = own.iter().map(|one| one.describe()).collect();
            let what = format!("{}s of different numbers of rows: {}", file.noun(), told.join(", "));
            return Err(
                Error::usage(what).help("--components NAMES takes those of one number of rows, with commas between")
            );
        };
        let kept: Vec<&Seen> = own.into_iter().filter(|one| one.rows() == Some(rows)).collect();
        let label = kept
            .iter()
            .filter(|one| one.is_label(rows) && kept.len() > 1)
            .filter_map(|one| Some((label_rank(&one.path)?, *one)))
            .min_by_key(|(rank, _)| *rank)
            .map(|(_, one)| one);
        if label.is_none() && !wanted.no_labels && wanted.label.is_none() {
            check_labels(seen, &of, rows, &kept)?;
        }
        let values: Vec<(String, String)> = kept.iter().map(|one| (one.path.clone(), name(one, &kept))).collect();
        tables.push(Table::of_values(values, label, rows, of, &kept));
    }
    // A mean or a list of names beside arrays of splits is of no split, and no samples.
    if tables.iter().any(|table| table.split.is_some()) {
        let has = |table: &Table, name: &String| table.values.iter().any(|(_, own)| own == name);
        let is_of_splits = |name: &String| tables.iter().any(|table| table.split.is_some() && has(table, name));
        let kept =
            tables.iter().map(|table| table.split.is_some() || table.values.iter().any(|(_, name)| is_of_splits(name)));
        let kept: Vec<bool> = kept.collect();
        let mut kept = kept.into_iter();
        tables.retain(|_| kept.next().unwrap_or(true));
    }
    Ok(tables)
}

/// Fails if an array is named like the labels of the `rows` samples in the split `of`, and has another length.
fn check_labels(seen: &[Seen], of: &Option<String>, rows: u64, kept: &[&Seen]) -> Result<()> {
    let is_unfit = |one: &&Seen| {
        label_rank(&one.path).is_some()
            && one.rows().is_some_and(|own| own != rows && own > 1)
            && split(&one.path) == *of
    };
    let Some(unfit) = seen.iter().find(is_unfit) else { return Ok(()) };
    let samples = kept.first().map_or_else(String::new, |one| one.describe());
    let what = format!("labels {} do not go with samples {samples}", unfit.describe());
    Err(Error::usage(what).help(OTHER_LABELS))
}

/// Component name of a dataset: its own words, or its whole path if another dataset has the same words.
fn name(one: &Seen, all: &[&Seen]) -> String {
    let short = |one: &Seen| own_words(&one.path).join("_");
    match all.iter().filter(|other| short(other) == short(one)).count() {
        1 if !short(one).is_empty() => short(one),
        _ => one.path.clone(),
    }
}

/// Whether the wanted component `said` is the field `name`.
fn is_field(said: &str, name: &str) -> bool {
    Component::field(name).is_ok_and(|field| field.name() == said)
}

fn dtype_or_text(one: &Seen) -> bool {
    one.is_plain && (one.shape.len() == 1 || one.is_array)
}

/// Form of row `number` and its content as stored; for an array, the items.
///
/// # Errors
/// If a read fails; the inner error is the reason why the row is unreadable.
pub(crate) fn row(rows: &mut dyn Rows, number: u64) -> Result<std::result::Result<(Form, Vec<u8>), String>> {
    let row = match rows.row(number)?.map(<[u8]>::to_vec) {
        Ok(row) => row,
        Err(what) => return Ok(Err(what)),
    };
    let own = rows.array();
    let axes = own.shape().get(1..).unwrap_or_default();
    let array = |dtype: &str, axes: &[u64]| Form::array(dtype, axes).map_err(|error| error.what());
    Ok(match own.item() {
        item if let Some(dtype) = dtype(item) => array(&dtype, axes).map(|form| (form, row)),
        item if !axes.is_empty()
            && let Some(dtype) = array_dtype(item) =>
        {
            array(&dtype, axes).map(|form| (form, row))
        }
        Item::List(base) => {
            let (dtype, item) = (dtype(base).unwrap_or_default(), values::referred_items(own, &row, base));
            item.and_then(|items| {
                let count = values::said_bytes(&row);
                array(&dtype, &[count.into()]).map(|form| (form, items))
            })
        }
        Item::Opaque { .. } => Ok((Form::Bytes, row)),
        _ => encoded(own, row).and_then(|mut text| {
            text.truncate(text.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1));
            match str::from_utf8(&text) {
                Ok(_) => Ok((Form::Text, text)),
                Err(_) => Err("text that is no UTF-8".to_owned()),
            }
        }),
    })
}

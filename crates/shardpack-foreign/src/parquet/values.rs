//! Maps each column of a row to a component, and reads the content of its cells.
//!
//! Lists of numbers are an array with an axis for each list, if the lists of all rows of the file are full: no nulls, and
//! inner lists of one length. In samples without images, a number is an array without axes, text is text, bytes are bytes,
//! and all other types are JSON. Beside an image, `components.rs` converts everything except arrays, without a form. A null
//! is omitted.
//!
//! The form of a column is the same for all rows of a file; the items of arrays keep their bits.

use std::sync::Arc;

use parquet::schema::types::{ColumnDescPtr, SchemaDescriptor, Type};
use shardpack_format::{
    Error, ErrorKind, Result,
    component::{Form, MAX_AXES},
    formats::foreign::{FieldSelection, Other},
};

use super::super::Bytes;
use super::{
    super::{CancelCheck, MissingImage},
    cells::{dtype, is_fixed_bytes, is_json, is_number, is_text},
    columns::KEY,
    components::{Component, Content, Levels, Node, Opened, Rows},
    file_extension,
    footer::Footer,
    leaf::{ASKED_ROWS, in_column, open, rows},
};

/// The columns and their forms.
#[derive(Default)]
pub(super) struct Values(Vec<Column>);

struct Column {
    component: Component,
    what: What,
}

/// Form of the cells of a column.
enum What {
    /// Items in lists, with the levels of the lists; and the lengths of axes that are known in advance.
    Array { dtype: &'static str, lists: Vec<Levels>, axes: Vec<Option<u64>> },
    /// Bytes of one length, and of this form.
    Fixed(Option<Form>),
    /// Converted by a component; with this form, or without a form beside an image.
    Whole(Option<Form>),
    /// Not read.
    Unread,
}

/// Content of a column in a row.
enum Cell {
    Absent,
    Is(Option<Form>),
    /// Content that cannot be represented.
    Untold(Option<Form>),
    Damaged(String),
}

impl Values {
    /// The columns of a file without images.
    ///
    /// # Errors
    /// If a column that is not excluded holds lists of files, and if `check_cancelled` cancels.
    pub fn detect(
        file: &Arc<Bytes>,
        footer: &Footer,
        wanted: &FieldSelection,
        check_cancelled: CancelCheck<'_>,
    ) -> Result<Self> {
        let schema = footer.metadata.file_metadata().schema_descr();
        let mut leaves_left = Component::most_leaves();
        let mut all = Vec::new();
        for root in schema.root_schema().get_fields() {
            if is_list_of_files(schema, root) && wanted.wants(root.name()) {
                let what = format!("column {:?} holds lists of files, and a sample has one of a kind", root.name());
                return Err(Error::usage(what).help("--components NAMES takes other columns, with commas between"));
            }
            // It is the name of the sample.
            if root.name() == KEY && !root.is_group() {
                continue;
            }
            for mut component in Component::from_column(footer, root, Rows::Values, &mut leaves_left) {
                let what = What::new(footer, &component, root.name());
                let is_file = root.is_group() && component.name == root.name();
                let is_path = |leaf: &ColumnDescPtr| leaf.path().parts() == [root.name(), "path"] && is_text(leaf);
                if matches!(what, What::Whole(Some(Form::Bytes)))
                    && let Some(path) = schema.columns().iter().position(is_path).filter(|_| is_file)
                    && let Some(extension) =
                        file_extension::detect(file, footer, component.leaves.start, path, check_cancelled)?
                {
                    component.name = format!("{}.{extension}", component.name);
                }
                all.push(Column { component, what });
            }
        }
        Self::looked(all, file, footer, &Some(Form::Json), check_cancelled)
    }

    /// The columns beside the images of a file.
    ///
    /// # Errors
    /// If `check_cancelled` cancels.
    pub fn beside(
        file: &Arc<Bytes>,
        footer: &Footer,
        components: Vec<Component>,
        check_cancelled: CancelCheck<'_>,
    ) -> Result<Self> {
        let schema = footer.metadata.file_metadata().schema_descr();
        let column = |component: Component| {
            let leaf = schema.column(component.leaves.start);
            let name = leaf.path().parts().first().map_or("", String::as_str);
            let what = match What::new(footer, &component, name) {
                What::Array { lists, .. } if lists.is_empty() && is_number(&leaf) => What::Whole(None),
                What::Fixed(_) => What::Fixed(None),
                What::Whole(_) => What::Whole(None),
                what => what,
            };
            Column { component, what }
        };
        Self::looked(components.into_iter().map(column).collect(), file, footer, &None, check_cancelled)
    }

    /// These columns; lists of numbers that are not arrays in all rows are converted as a whole, with this form.
    fn looked(
        mut all: Vec<Column>,
        file: &Arc<Bytes>,
        footer: &Footer,
        form: &Option<Form>,
        check_cancelled: CancelCheck<'_>,
    ) -> Result<Self> {
        for column in all.iter_mut().filter(|column| column.may_lack_items(footer)) {
            if !column.is_full(file, footer, check_cancelled)? {
                column.what = What::Whole(form.clone());
            }
        }
        Ok(Self(all))
    }

    /// Their cells in a row group.
    ///
    /// # Errors
    /// If one cannot be read.
    pub fn open(&self, file: &Arc<Bytes>, footer: &Footer, group: usize) -> Result<Vec<Opened>> {
        self.0.iter().map(|column| column.component.open(file, footer, group)).collect()
    }

    /// Content of the next row, which begins at `at` and is written to `out`; and the reason if the row has no image.
    ///
    /// # Errors
    /// If the rest of the file is unreadable.
    pub fn row(
        &self,
        opened: &mut [Opened],
        group: usize,
        at: u64,
        out: &mut Vec<u8>,
    ) -> Result<(Vec<Other>, MissingImage)> {
        let (mut others, mut damaged) = (Vec::with_capacity(self.0.len()), None);
        for (column, opened) in self.0.iter().zip(opened) {
            let (name, start) = (&column.component.name, out.len());
            let (bytes, offset, form) = match column.next(opened, group, out)? {
                Cell::Absent => continue,
                Cell::Damaged(what) => {
                    damaged.get_or_insert_with(|| format!("column {name:?}: {what}"));
                    continue;
                }
                Cell::Untold(form) => {
                    out.truncate(start);
                    (0, None, form)
                }
                Cell::Is(form) => {
                    let head = form.as_ref().map_or(0, Form::head_bytes);
                    (head + (out.len() - start) as u64, Some(at + start as u64), form)
                }
            };
            others.push(Other { name: name.clone(), bytes, offset, recipe: 0, form });
        }
        if let Some(what) = damaged {
            out.clear();
            return Ok((Vec::new(), MissingImage::Damaged(what)));
        }
        let why = match () {
            () if others.is_empty() => "a row of nulls",
            () if others.iter().all(|other| other.form.is_none()) => "no column that can be read",
            () => "a row of values, no image",
        };
        Ok((others, MissingImage::no_image(why)))
    }
}

impl What {
    fn new(footer: &Footer, component: &Component, column: &str) -> Self {
        let schema = footer.metadata.file_metadata().schema_descr();
        let Some(node) = &component.node else { return Self::Unread };
        let leaf = schema.column(component.leaves.start);
        match (node.lists(), dtype(&leaf)) {
            (Some(lists), Some(dtype)) if lists.len() <= MAX_AXES => {
                Self::Array { dtype, axes: told_axes(footer, column, lists.len()), lists }
            }
            (Some(lists), None) if lists.is_empty() => match () {
                () if is_fixed_bytes(&leaf) => Self::Fixed(Some(Form::Bytes)),
                () if is_text(&leaf) || is_json(&leaf) => Self::Whole(Some(Form::Text)),
                () => Self::Whole(Some(Form::Bytes)),
            },
            _ => Self::Whole(Some(Form::Json)),
        }
    }
}

/// Lengths of the axes that `datasets` records for its features `Array2D` to `Array5D`; else unknown.
fn told_axes(footer: &Footer, column: &str, lists: usize) -> Vec<Option<u64>> {
    let feature =
        footer.feature(column).filter(|_| (2..=5).any(|axes| footer.is_of_type(column, &format!("Array{axes}D"))));
    let axes = feature.and_then(|feature| feature.get("shape")?.as_array());
    let axes = axes.map(|axes| axes.iter().map(serde_json::Value::as_u64).collect::<Vec<_>>());
    axes.filter(|axes| axes.len() == lists).unwrap_or_default()
}

/// Whether a column is a list of structures of bytes and path, as `datasets` writes lists of images.
fn is_list_of_files(schema: &SchemaDescriptor, root: &Type) -> bool {
    let own = || {
        schema.columns().iter().filter(|column| column.path().parts().first().is_some_and(|name| name == root.name()))
    };
    let ends_in = |name: &str| own().any(|leaf| leaf.max_rep_level() > 0 && leaf.name() == name);
    own().count() == 2 && ends_in("bytes") && ends_in("path")
}

impl Column {
    /// Whether, according to the footer, lists of numbers may have nulls or unequal lengths and so be no arrays.
    fn may_lack_items(&self, footer: &Footer) -> bool {
        let What::Array { lists, axes, .. } = &self.what else { return false };
        let mut groups = (0..footer.metadata.num_row_groups()).filter(|group| rows(footer, *group) > 0);
        match lists.len() {
            0 => false,
            1 => groups.any(|group| footer.nulls(group, self.component.leaves.start) != Some(0)),
            _ => axes.is_empty(),
        }
    }

    /// Whether lists of numbers are arrays in all readable rows: corruption is reported by the walk.
    fn is_full(&self, file: &Arc<Bytes>, footer: &Footer, check_cancelled: CancelCheck<'_>) -> Result<bool> {
        let mut items = Vec::new();
        let mut is_full_in = |group: usize| -> Result<bool> {
            let mut cells = open(file, footer, group, self.component.leaves.start)?;
            for row in 0..rows(footer, group) {
                if row % ASKED_ROWS == 0 {
                    check_cancelled()?;
                }
                items.clear();
                cells.next_items(&mut items).map_err(|error| in_column(error, group, &cells))?;
                let (definitions, repetitions) = cells.levels();
                let is_full =
                    self.is_absent(definitions) || self.shape(definitions, repetitions, cells.most()).is_some();
                if !is_full {
                    return Ok(false);
                }
            }
            Ok(true)
        };
        for group in (0..footer.metadata.num_row_groups()).filter(|group| rows(footer, *group) > 0) {
            match is_full_in(group) {
                Ok(true) => {}
                Ok(false) => return Ok(false),
                Err(error) if error.kind() == ErrorKind::Interrupted => return Err(error),
                // The walk meets the same damage in the same row.
                Err(_) => break,
            }
        }
        Ok(true)
    }

    /// Reads the next row and appends its content to `out`; for an array, the items.
    fn next(&self, opened: &mut Opened, group: usize, out: &mut Vec<u8>) -> Result<Cell> {
        let dtype = match &self.what {
            What::Unread => return Ok(Cell::Untold(None)),
            What::Whole(form) => {
                return Ok(match self.component.next(opened, group)? {
                    Content::Absent => Cell::Absent,
                    Content::Is(text) if *form == Some(Form::Text) && str::from_utf8(&text).is_err() => {
                        Cell::Damaged("text that is no UTF-8".to_owned())
                    }
                    Content::Is(content) => {
                        out.extend_from_slice(&content);
                        Cell::Is(form.clone())
                    }
                    Content::Untold => Cell::Untold(form.clone()),
                });
            }
            What::Fixed(form) => Err(form),
            What::Array { dtype, .. } => Ok(*dtype),
        };
        let Some(cells) = opened.0.first_mut() else { return Ok(Cell::Untold(None)) };
        cells.next_items(out).map_err(|error| in_column(error, group, cells))?;
        let (definitions, repetitions) = cells.levels();
        if self.is_absent(definitions) {
            return Ok(Cell::Absent);
        }
        let dtype = match dtype {
            Ok(dtype) => dtype,
            Err(form) => return Ok(Cell::Is(form.clone())),
        };
        let Some(shape) = self.shape(definitions, repetitions, cells.most()) else {
            return Ok(Cell::Damaged(
                "a list with a null or with lists of different lengths, which others have not".to_owned(),
            ));
        };
        Ok(Form::array(dtype, &shape).map_or_else(|error| Cell::Damaged(error.what()), |form| Cell::Is(Some(form))))
    }

    /// Whether a row with these levels is null.
    fn is_absent(&self, definitions: &[i16]) -> bool {
        let first = definitions.first().copied();
        matches!((&self.component.node, first), (Some(Node::Optional(level, _)), Some(first)) if first < *level)
    }

    /// The axes of the lists in a row with these levels; `None` if the lists are no array.
    fn shape(&self, definitions: &[i16], repetitions: &[i16], most: i16) -> Option<Vec<u64>> {
        let What::Array { lists, axes, .. } = &self.what else { return None };
        if lists.is_empty() {
            return Some(Vec::new());
        }
        let mut shape = shape(lists, definitions, repetitions, most)?;
        // Axes below an empty axis get the lengths that they would have.
        if let Some(empty) = shape.iter().position(|axis| *axis == 0) {
            for (axis, told) in shape.iter_mut().zip(axes).skip(empty + 1) {
                *axis = told.unwrap_or(0);
            }
        }
        Some(shape)
    }
}

/// The axes of `lists`, if no list has a null and lists of one level have equal lengths; `most` is the definition level of a
/// value.
fn shape(lists: &[Levels], definitions: &[i16], repetitions: &[i16], most: i16) -> Option<Vec<u64>> {
    let Some((list, inner)) = lists.split_first() else { return (definitions == [most]).then(Vec::new) };
    if *definitions.first()? < list.definition {
        let is_empty = definitions == [list.definition - 1];
        return is_empty.then(|| vec![0; lists.len()]);
    }
    if inner.is_empty() {
        return definitions.iter().all(|level| *level == most).then(|| vec![definitions.len() as u64]);
    }
    let (mut start, mut count, mut of_first) = (0, 0, None);
    while start < definitions.len() {
        let rest = repetitions.get(start + 1..)?;
        let next = rest.iter().position(|level| *level <= list.repetition);
        let end = next.map_or(definitions.len(), |next| start + 1 + next);
        let own = shape(inner, definitions.get(start..end)?, repetitions.get(start..end)?, most)?;
        if of_first.get_or_insert_with(|| own.clone()) != &own {
            return None;
        }
        (start, count) = (end, count + 1);
    }
    Some([vec![count], of_first?].concat())
}

#[cfg(test)]
mod tests;

//! The cells of a leaf of the schema, row group by row group.

use std::{ops::ControlFlow, sync::Arc};

use parquet::errors::ParquetError;
use shardpack_format::{
    Error, Result,
    formats::foreign::LabelTypes,
    image_header::{Kind, SNIFF_BYTES},
};

use super::super::Bytes;
use super::{
    super::CancelCheck,
    arrow,
    cells::{Cells, Value, bytes_of},
    errors::in_place,
    footer::{Chunks, Footer},
    pages::Pages,
};

/// Rows that are looked at for the first values of a column that may hold images.
pub(super) const SNIFFED_ROWS: u64 = 1000;
/// Number of rows between calls of `check_cancelled`.
pub(super) const ASKED_ROWS: u64 = 1024;
/// Number of values inspected: one may be corrupt.
pub(super) const SNIFFED_VALUES: usize = 16;

/// Rows of a row group.
pub(super) fn rows(footer: &Footer, group: usize) -> u64 {
    // The footer was checked: no number is negative.
    footer.metadata.row_group(group).num_rows().try_into().unwrap_or_default()
}

/// The cells of a leaf in a row group.
pub(super) fn open(file: &Arc<Bytes>, footer: &Footer, group: usize, leaf: usize) -> Result<Cells> {
    let meta = footer.metadata.row_group(group).column(leaf);
    let (file, column) = (Arc::clone(file), meta.column_descr_ptr());
    let cells = match &footer.chunks {
        Chunks::Parquet(start) => Pages::open(file, *start, rows(footer, group), meta).map(|pages| {
            let listed = pages.listed();
            Cells::new(Arc::clone(&column), Box::new(pages), listed)
        }),
        Chunks::Arrow(messages) => arrow::Pages::new(file, Arc::clone(messages), leaf)
            .map(|pages| Cells::new(Arc::clone(&column), Box::new(pages), None)),
    };
    cells.map_err(|error| in_place(error, group, &column.path().string()))
}

/// Whether the first value of a leaf, or most of the first values, begin like an image; `None` if there are no values.
pub(super) fn begins_like_image(file: &Arc<Bytes>, footer: &Footer, leaf: usize) -> Result<Option<bool>> {
    let (mut images, mut others) = (0, 0);
    let looked = each_value(file, footer, leaf, SNIFFED_ROWS, &|| Ok(()), &mut |value| {
        match Kind::detect(&value[..value.len().min(SNIFF_BYTES)]) {
            Kind::Unknown => others += 1,
            _ => images += 1,
        }
        match images + others == SNIFFED_VALUES || others == 0 {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        }
    });
    match looked {
        // Corruption is reported when the rows are read.
        Err(error) if images + others == 0 => Err(error),
        _ => Ok((images + others > 0).then_some(others == 0 || images > others)),
    }
}

/// Shows `look` the values of a leaf in the first rows, until it breaks off or `check_cancelled` fails.
pub(super) fn each_value(
    file: &Arc<Bytes>,
    footer: &Footer,
    leaf: usize,
    most_rows: u64,
    check_cancelled: CancelCheck<'_>,
    look: &mut dyn FnMut(&[u8]) -> ControlFlow<()>,
) -> Result<()> {
    let mut left = most_rows;
    for group in (0..footer.metadata.num_row_groups()).filter(|group| rows(footer, *group) > 0) {
        let mut cells = open(file, footer, group, leaf)?;
        for row in 0..rows(footer, group).min(left) {
            if row % ASKED_ROWS == 0 {
                check_cancelled()?;
            }
            let value = if cells.is_list() { cells.next_bytes() } else { cells.next_one() };
            let value = value.map_err(|error| in_column(error, group, &cells))?;
            if value.as_ref().and_then(bytes_of).is_some_and(|bytes| look(bytes).is_break()) {
                return Ok(());
            }
            left -= 1;
        }
        if left == 0 {
            break;
        }
    }
    Ok(())
}

/// Whether no number of a leaf has a fraction, and its texts are neither measured values nor lists. A corrupt leaf counts as
/// whole: the walk reports the corruption.
///
/// # Errors
/// If `check_cancelled` cancels.
pub(super) fn is_whole(
    file: &Arc<Bytes>,
    footer: &Footer,
    leaf: usize,
    check_cancelled: CancelCheck<'_>,
) -> Result<bool> {
    let mut texts = LabelTypes::default();
    for group in (0..footer.metadata.num_row_groups()).filter(|group| rows(footer, *group) > 0) {
        let Ok(mut cells) = open(file, footer, group, leaf) else { return Ok(true) };
        for row in 0..rows(footer, group) {
            if row % ASKED_ROWS == 0 {
                check_cancelled()?;
            }
            let Ok(cell) = cells.next() else { return Ok(true) };
            let has_fraction =
                |value: &Value| matches!(value, Value::Real(real) if real.fract() != 0.0 || !real.is_finite());
            if cell.iter().flatten().any(has_fraction) {
                return Ok(false);
            }
            cell.iter().flatten().filter_map(bytes_of).for_each(|text| texts.add(text));
        }
    }
    Ok(texts.no_classes().is_none())
}

/// Whether lists of a leaf may have several values in a row, or none: by the footer, or else by the rows. Corruption is reported by
/// the walk.
///
/// # Errors
/// If `check_cancelled` cancels.
pub(super) fn may_be_several(
    file: &Arc<Bytes>,
    footer: &Footer,
    leaf: usize,
    check_cancelled: CancelCheck<'_>,
) -> Result<bool> {
    for group in (0..footer.metadata.num_row_groups()).filter(|group| rows(footer, *group) > 0) {
        if let Some(values) = footer.values(group, leaf) {
            if values != rows(footer, group) {
                return Ok(true);
            }
            continue;
        }
        let Ok(mut cells) = open(file, footer, group, leaf) else { return Ok(true) };
        for row in 0..rows(footer, group) {
            if row % ASKED_ROWS == 0 {
                check_cancelled()?;
            }
            match cells.next() {
                Ok(cell) if cell.len() == 1 => {}
                Ok(_) => return Ok(true),
                Err(_) => return Ok(false),
            }
        }
    }
    Ok(false)
}

/// An error in cells of a row group.
pub(super) fn in_column(error: ParquetError, group: usize, cells: &Cells) -> Error {
    in_place(error, group, &cells.name())
}

//! Writes an index: rows in their final layout, collected in few pieces of memory, and the facts that need all rows.
//!
//! Holds at all times: facts that need all rows (where strings begin, the numbers of forms, whether keys ascend) are filled in
//! at the end, so that rows of parts of a shard may be collected apart.

use super::{
    BLOCK_BYTES, COMPONENT_BYTES, FIXED_ROW_BYTES, FLAG_HASH, FLAG_KEYS_ASCEND, FORM_BITS, HEADER_BYTES, MAGIC,
    Summary, header_checksum,
    row::{u32_at, u64_at},
};
use crate::{
    Error, Result, hash,
    sample::{Detail, MAX_COMPONENTS, Row},
};

/// Rows of consecutive samples of a shard.
#[derive(Clone, Debug)]
pub struct Rows {
    components: usize,
    is_detailed: bool,
    count: usize,
    /// As in the index; offsets of strings count in `heap`, and forms have the numbers of [`Summary::forms`].
    fixed: Vec<u8>,
    /// Key and path of each.
    heap: Vec<u8>,
}

impl Rows {
    /// An empty collection for samples with `components` components, with room for [`Row::details`] if `is_detailed`.
    pub fn new(components: usize, is_detailed: bool) -> Self {
        Self { components, is_detailed, count: 0, fixed: Vec::new(), heap: Vec::new() }
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.count
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Length in bytes of their records together, which lie one after the other.
    pub fn end(&self) -> u64 {
        let last = self.fixed.len().checked_sub(self.row_bytes()).map(|start| &self.fixed[start..]);
        last.map_or(0, |row| u64_at(row, 0) + u64::from(u32_at(row, 48)))
    }

    /// Takes a row.
    ///
    /// # Errors
    /// When it has another number of components, or its key or path is too long.
    pub fn push(&mut self, row: &Row) -> Result<()> {
        if row.components.len() != self.components {
            return Err(Error::usage("every row of an index has the same components").in_sample(row.name()));
        }
        let length = |bytes: &[u8]| {
            u32::try_from(bytes.len()).map_err(|_| Error::usage("key or path over 4 GiB").in_sample(row.name()))
        };
        let (key_bytes, path_bytes) = (length(&row.key)?, length(&row.path)?);
        let out = &mut self.fixed;
        out.extend_from_slice(&row.offset.to_le_bytes());
        out.extend_from_slice(&(self.heap.len() as u64).to_le_bytes());
        out.extend_from_slice(&row.label.unwrap_or(i64::MIN).to_le_bytes());
        out.extend_from_slice(&row.content_hash.to_le_bytes());
        out.extend_from_slice(&row.frame_hash.to_le_bytes());
        for number in [row.record_bytes, key_bytes, path_bytes, row.image.width, row.image.height] {
            out.extend_from_slice(&number.to_le_bytes());
        }
        out.extend_from_slice(&[row.image.kind as u8, row.image.mode as u8, row.image.depth, u8::from(row.in_parts)]);
        for (number, extent) in row.components.iter().enumerate() {
            out.extend_from_slice(&extent.offset.to_le_bytes());
            out.extend_from_slice(&extent.bytes.to_le_bytes());
            if self.is_detailed {
                let detail = row.details.get(number).copied().unwrap_or(Detail::plain(extent.bytes));
                let form = (detail.form & FORM_BITS) | detail.hash.map_or(0, |_| FLAG_HASH);
                out.extend_from_slice(&form.to_le_bytes());
                out.extend_from_slice(&detail.content_bytes.to_le_bytes());
                out.extend_from_slice(&detail.hash.unwrap_or(0).to_le_bytes());
            }
        }
        self.heap.extend_from_slice(&row.key);
        self.heap.extend_from_slice(&row.path);
        self.count += 1;
        Ok(())
    }

    fn row_bytes(&self) -> usize {
        FIXED_ROW_BYTES + COMPONENT_BYTES[usize::from(self.is_detailed)] * self.components
    }

    /// The rows as they lie here.
    fn iter(&self) -> impl Iterator<Item = &[u8]> {
        self.fixed.chunks_exact(self.row_bytes())
    }

    /// The keys, in order.
    fn keys(&self) -> impl Iterator<Item = &[u8]> {
        self.iter().map(|row| {
            let start = u64_at(row, 8) as usize;
            &self.heap[start..start + u32_at(row, 52) as usize]
        })
    }

    /// The forms of all components, as numbers in [`Summary::forms`].
    fn forms(&self) -> impl Iterator<Item = u32> {
        let details = self.iter().filter(|_| self.is_detailed).flat_map(details);
        details.map(|detail| u32_at(detail, 0) & FORM_BITS)
    }
}

/// The details of each component of a row that has details.
fn details(row: &[u8]) -> impl Iterator<Item = &[u8]> {
    row[FIXED_ROW_BYTES..].chunks_exact(COMPONENT_BYTES[1]).map(|component| &component[8..])
}

/// The bytes of an index of `rows`.
///
/// # Errors
/// When there are more than [`MAX_COMPONENTS`] component names, one is longer than 255 bytes, or a row has another
/// number of components.
pub fn write(summary: &Summary, rows: &[Row]) -> Result<Vec<u8>> {
    let is_detailed = rows.iter().any(|row| !row.details.is_empty());
    let mut all = Rows::new(summary.components.len(), is_detailed);
    rows.iter().try_for_each(|row| all.push(row))?;
    write_parts(summary, &[(0, all)])
}

/// The bytes of an index of the rows of all `parts` of a shard, in order; offsets of each part count from the one that it has here.
///
/// # Errors
/// As [`write()`].
pub fn write_parts(summary: &Summary, parts: &[(u64, Rows)]) -> Result<Vec<u8>> {
    let components = summary.components.len();
    if components > MAX_COMPONENTS || summary.components.iter().any(|name| name.len() > 255) {
        return Err(Error::usage("an index holds at most 255 components with names of at most 255 bytes"));
    }
    let all = || parts.iter().map(|(_, rows)| rows).filter(|rows| !rows.is_empty());
    let is_detailed = all().any(|rows| rows.is_detailed);
    if all().any(|rows| (rows.components, rows.is_detailed) != (components, is_detailed)) {
        return Err(Error::usage("every row of an index has the same components"));
    }
    let mut names = Vec::new();
    for name in &summary.components {
        names.push(name.len() as u8);
        names.extend_from_slice(name.as_bytes());
    }
    // By number here: the number in the index.
    let mut numbers = vec![FORM_BITS; summary.forms.len()];
    if is_detailed {
        let mut used = Vec::new();
        for form in all().flat_map(Rows::forms) {
            if let Some(number) = numbers.get_mut(form as usize).filter(|number| **number == FORM_BITS) {
                *number = 0;
                used.push(form);
            }
        }
        // Whatever order they were met in.
        used.sort_unstable_by_key(|form| (&summary.forms[*form as usize], *form));
        names.extend_from_slice(&(used.len() as u32).to_le_bytes());
        for (form, number) in used.iter().zip(0..) {
            numbers[*form as usize] = number;
            let text = summary.forms[*form as usize].to_string();
            // An array has few axes, and its dtype is short.
            names.extend_from_slice(&(text.len() as u16).to_le_bytes());
            names.extend_from_slice(text.as_bytes());
        }
    }
    names.resize(names.len().next_multiple_of(8), 0);
    let count: usize = all().map(Rows::len).sum();
    let heap_bytes: usize = all().map(|rows| rows.heap.len()).sum();
    let body_bytes = all().map(|rows| rows.fixed.len()).sum::<usize>() + heap_bytes;
    let body_start = HEADER_BYTES + names.len();
    let mut out = Vec::with_capacity(body_start + body_bytes + body_bytes.div_ceil(BLOCK_BYTES) * 8);

    let ascend = all().flat_map(Rows::keys).is_sorted_by(|a, b| a < b);
    out.extend_from_slice(MAGIC);
    out.extend_from_slice(&(1 + u32::from(is_detailed)).to_le_bytes());
    out.extend_from_slice(&(components as u32).to_le_bytes());
    out.extend_from_slice(&(count as u64).to_le_bytes());
    out.extend_from_slice(&(heap_bytes as u64).to_le_bytes());
    out.extend_from_slice(&summary.content_bytes.to_le_bytes());
    out.extend_from_slice(&summary.shard_bytes.to_le_bytes());
    out.extend_from_slice(&(if ascend { FLAG_KEYS_ASCEND } else { 0 }).to_le_bytes());
    out.extend_from_slice(&(names.len() as u32).to_le_bytes());
    out.extend_from_slice(&summary.shard_blake3);
    let checksum = header_checksum(&out, &names);
    out.extend_from_slice(&checksum.to_le_bytes());
    out.extend_from_slice(&names);

    let mut heap_start = 0;
    for (offset, rows) in parts.iter().filter(|(_, rows)| !rows.is_empty()) {
        let start = out.len();
        out.extend_from_slice(&rows.fixed);
        for row in out[start..].chunks_exact_mut(rows.row_bytes()) {
            let add = |row: &mut [u8], more: u64| {
                let sum = u64_at(row, 0).wrapping_add(more);
                row[..8].copy_from_slice(&sum.to_le_bytes());
            };
            add(row, *offset);
            add(&mut row[8..], heap_start);
            if is_detailed {
                for component in row[FIXED_ROW_BYTES..].chunks_exact_mut(COMPONENT_BYTES[1]) {
                    let form = u32_at(component, 8);
                    let number = numbers.get((form & FORM_BITS) as usize).copied().unwrap_or(FORM_BITS);
                    component[8..12].copy_from_slice(&(number | form & FLAG_HASH).to_le_bytes());
                }
            }
        }
        heap_start += rows.heap.len() as u64;
    }
    all().for_each(|rows| out.extend_from_slice(&rows.heap));
    let body_end = out.len();
    for start in (body_start..body_end).step_by(BLOCK_BYTES) {
        let checksum = hash::block(&out[start..body_end.min(start + BLOCK_BYTES)]);
        out.extend_from_slice(&checksum.to_le_bytes());
    }
    Ok(out)
}

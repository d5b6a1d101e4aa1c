//! Notes on the objects in label files: the arrays, the number of objects, and what a user may not expect.

use std::collections::BTreeMap;

use shardpack_format::{
    component::{Component, Conversion, Form, ObjectArray},
    size,
};

use super::is_of_file;
use crate::api::SourceListing;

/// A note for each kind of label file: the arrays, and the number of objects.
pub(super) fn of_files(found: &[SourceListing], files: &[(usize, Conversion)], missing: &[u64]) -> Vec<String> {
    let kinds = &found[0].listing.components().kinds;
    let note = |((first, conversion), missing): (&(usize, Conversion), &u64)| {
        let of_file = |kind: &&Component| is_of_file(kind, *conversion, &kinds[*first]);
        let arrays = kinds.iter().filter(of_file).map(|kind| {
            let dtype = match kind.conversion().map(|one| one.array) {
                Some(ObjectArray::Boxes) => "float32[n,4] in pixels: left, top, right, bottom",
                _ => "int64[n]",
            };
            format!("{} {dtype}", kind.column())
        });
        let (mut objects, mut images) = (BTreeMap::<u64, u64>::new(), 0);
        for one in found {
            let table = one.listing.components();
            for cell in
                table.cells.iter().skip(*first).step_by(table.kinds.len()).filter(|cell| cell.length().is_some())
            {
                images += 1;
                if let Form::Array { shape, .. } = table.form(cell.form) {
                    *objects.entry(shape.first().copied().unwrap_or(0)).or_default() += 1;
                }
            }
        }
        let all: u64 = objects.iter().map(|(objects, images)| objects * images).sum();
        let lacking = if conversion.file.is_of_many() { "not in a list" } else { "without a label file" };
        let files = if *missing > 0 { format!(", {missing} of them {lacking}") } else { String::new() };
        let without = objects.get(&0).map(|images| format!(", none in {images}{files}")).unwrap_or_default();
        let of_images = size::counted(images, "image");
        format!(
            "targets: {}; {} in {of_images}{without}",
            arrays.collect::<Vec<_>>().join(", "),
            size::counted(all, "object")
        )
    };
    files.iter().zip(missing).map(note).collect()
}

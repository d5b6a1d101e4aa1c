//! Notes on samples without a component that other samples have.

use shardpack_format::component::Component;

use crate::listing::Listing;

/// One note per component that some samples lack; `noun` is the word for a sample.
pub(super) fn lacking(listing: &Listing, noun: &str) -> Vec<String> {
    let components = listing.components();
    let lacking = |(which, kind): (usize, &Component)| {
        let cells = components.cells.iter().skip(which).step_by(components.kinds.len());
        let without = cells.filter(|cell| cell.length().is_none()).count() as u64;
        let all = if without == listing.len() { ": none has one" } else { "" };
        (without > 0).then(|| {
            let beside = if kind.is_path() { "" } else { " beside them" };
            format!("{without} of {} {noun}s without {}{beside}{all}", listing.len(), kind.name())
        })
    };
    // An image without a label file has no objects, which the note on its boxes counts.
    let kinds = components.kinds.iter().enumerate().filter(|(_, kind)| kind.conversion().is_none());
    kinds.filter_map(lacking).collect()
}

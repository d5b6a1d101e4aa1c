//! Finds source files that were changed after their dataset was sealed.

use shardpack_format::{Result, manifest};
use shardpack_storage::Storage;

use super::{path_prefix, split_prefix};
use crate::{
    plan::Plan,
    source::{Source, SourceKind},
};

/// Images whose files are newer than the manifest of their dataset in `storage`, which was read before; `None` if the source is not
/// files, or the time of the manifest is not known.
pub(super) fn newer(source: &dyn Source, plans: &[Plan], storage: &dyn Storage) -> Result<Option<(u64, Vec<u8>)>> {
    let (mut count, mut first) = (0, None);
    for plan in plans {
        if source.kind() == SourceKind::Transformed || !source.leaf_of(plan.split.as_deref())?.has_times() {
            continue;
        }
        let Some(sealed) = storage.changed_at_ns(&(split_prefix(plan) + manifest::FILE))? else { continue };
        let later = (0..plan.listing.len())
            .filter(|number| u128::try_from(plan.listing.entry(*number).stamp).is_ok_and(|changed| changed > sealed));
        for number in later {
            count += 1;
            first.get_or_insert_with(|| {
                let mut path = Vec::new();
                plan.listing.path(number, &mut path);
                [path_prefix(plan).into_bytes(), path].concat()
            });
        }
    }
    Ok(first.map(|first| (count, first)))
}

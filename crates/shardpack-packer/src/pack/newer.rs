//! Finds source files that were changed after their dataset was sealed.

use std::{fs, path::Path, time::SystemTime};

use shardpack_format::{Result, manifest};

use super::split_prefix;
use crate::{plan::Plan, source::Origin, sys};

/// Time of the last change of the manifest in `folder`, in nanoseconds since 1970.
pub(super) fn sealed_at_ns(folder: &Path) -> Result<u128> {
    let path = folder.join(manifest::FILE);
    let sealed = fs::metadata(&path).and_then(|stat| stat.modified());
    let sealed = sealed.map_err(|e| sys::io_error("cannot look at", &path, e))?;
    Ok(sealed.duration_since(SystemTime::UNIX_EPOCH).map_or(0, |since| since.as_nanos()))
}

/// Images whose files are newer than the manifest of their dataset; `None` if the source is not files. `sealed_at_ns` returns the time
/// of the manifest in nanoseconds since 1970, or `None` if it is not known.
pub(super) fn newer(
    source: &Origin,
    plans: &[Plan],
    sealed_at_ns: impl Fn(&Plan) -> Result<Option<u128>>,
) -> Result<Option<(u64, Vec<u8>)>> {
    let (mut count, mut first) = (0, None);
    for plan in plans.iter().filter(|_| !matches!(source, Origin::Transformed(_))) {
        if !matches!(source.part(plan.split.as_deref())?, Origin::Folder(_) | Origin::List(_)) {
            continue;
        }
        let Some(sealed) = sealed_at_ns(plan)? else { continue };
        let later = (0..plan.listing.len())
            .filter(|number| u128::try_from(plan.listing.entry(*number).stamp).is_ok_and(|changed| changed > sealed));
        for number in later {
            count += 1;
            first.get_or_insert_with(|| {
                let mut path = Vec::new();
                plan.listing.path(number, &mut path);
                [split_prefix(plan).into_bytes(), path].concat()
            });
        }
    }
    Ok(first.map(|first| (count, first)))
}

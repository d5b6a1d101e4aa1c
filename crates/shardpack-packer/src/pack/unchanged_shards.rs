//! Finds the shards of an unfinished pack that a plan of the present source leaves unchanged.

use std::collections::BTreeSet;

use crate::{
    plan::{Compression, Plan},
    plan_file::components,
};

/// Numbers of the shards that are equal in both plans of one request: the same unchanged samples in the same
/// order, and all other bytes equal.
pub(super) fn alike(old: &Plan, new: &Plan) -> BTreeSet<usize> {
    // Labels, widths of keys, and the ends of frames in compressed shards.
    let frames = |plan: &Plan| Some(plan.block_samples).filter(|_| plan.options.compression != Compression::None);
    let of_all = |plan: &Plan| (plan.listing.classes.clone(), plan.key_digits(), frames(plan));
    if of_all(old) != of_all(new) {
        return BTreeSet::new();
    }
    let shards = 0..old.shards.len().min(new.shards.len());
    shards.filter(|shard| old.shard_file(*shard) == new.shard_file(*shard) && same_samples(old, new, *shard)).collect()
}

fn same_samples(old: &Plan, new: &Plan, shard: usize) -> bool {
    let (mut old_path, mut new_path) = (Vec::new(), Vec::new());
    let mut same = |position| {
        let (a, b) = (old.sample_at(position), new.sample_at(position));
        old.listing.path(a, &mut old_path);
        new.listing.path(b, &mut new_path);
        let of = |plan: &Plan, number| {
            let entry = plan.listing.entry(number);
            (entry.bytes, entry.stamp, plan.listing.class(number))
        };
        old_path == new_path && of(old, a) == of(new, b) && components(old, a).eq(components(new, b))
    };
    old.shards[shard] == new.shards[shard] && new.shards[shard].positions().all(&mut same)
}

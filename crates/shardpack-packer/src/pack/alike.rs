//! Which shards of an unfinished pack are as they should be by a plan of the source as it is now.

use std::collections::BTreeSet;

use crate::{
    plan::{Compression, Plan},
    plan_file::components,
};

/// Numbers of the shards that both plans, which are of the same request, have alike: the same samples in the same order,
/// none of them changed, and every byte around them the same.
pub(super) fn alike(old: &Plan, new: &Plan) -> BTreeSet<usize> {
    // Labels, widths of keys, and where the frames of compressed shards end.
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

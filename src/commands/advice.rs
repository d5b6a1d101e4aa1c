//! Advice on training for a plan.

use shardpack_format::image_header::Kind;
pub use shardpack_loader::advice::Finding;
use shardpack_loader::advice::{self, PackFacts};
use shardpack_packer::{pack::Planned, plan::Plan};

/// Options that make training on the dataset faster. `has_crops`: whether the pack makes crop tables.
pub fn of_pack(planned: &Planned, has_crops: bool) -> Vec<Finding> {
    let (plans, looks) = (&planned.plans, planned.kinds.values().sum::<u64>());
    let first = plans.first();
    advice::of_pack(&PackFacts {
        samples: plans.iter().map(|plan| plan.listing.len()).sum(),
        sample_bytes: plans.iter().map(Plan::payload_bytes).sum(),
        shard_bytes: plans.iter().map(Plan::shard_bytes).sum(),
        is_jpeg: planned.kinds.get(&Kind::Jpeg).is_some_and(|jpegs| jpegs * 2 > looks),
        is_tar: first.is_some_and(|plan| plan.format().name() == "webdataset"),
        has_crops,
    })
}

//! The order of an epoch: maps positions to samples and back, and lists the reads of each lane.
//!
//! Pure: no files, threads, clock. The order is a function of the numbers of samples in the shards, the [`Options`] and the
//! number of the epoch; memory does not grow with the number of samples. `docs/reference/order.md` specifies the order with
//! test vectors, so that it can be implemented in any language.
//!
//! ```
//! use shardpack_loader::order::{Epoch, Layout, Options};
//!
//! let layout = Layout::new([1000, 990, 1010], 12)?;
//! let options = Options { seed: 7, lanes: 8, ..Options::default() };
//! let epoch = Epoch::new(&layout, &options, 0)?;
//! assert_eq!(epoch.len(), 3000);
//! let sample = epoch.sample_at(123);
//! assert_eq!(epoch.position_of(sample), 123);
//! # Ok::<(), shardpack_loader::Error>(())
//! ```

mod batches;
mod bucket_reads;
mod buckets;
mod copies;
mod epoch;
mod identity;
mod layout;
mod options;
mod reads;
mod rest;
mod selection;
mod share;

pub use batches::{RankBatch, RankBatches};
pub use bucket_reads::{BucketRead, BucketReads, Taken};
pub use buckets::{Bucketed, Buckets, LengthOf, length_key};
pub use copies::{Group, Quota, divide, of_all, of_groups};
pub(crate) use epoch::part_key;
pub use epoch::{Epoch, Segment, Segments};
pub use identity::{Identities, Sum};
pub use layout::Layout;
pub use options::{Options, Shuffle};
pub use reads::{RankLanes, Read, Reads};
pub use rest::Rest;
pub use selection::{Picked, Selection};
pub use share::{Last, Share};

/// SplitMix64's increment: 2^64 divided by the golden ratio.
const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;

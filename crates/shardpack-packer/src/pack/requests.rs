//! What a pack from or to a URL asks of stores, from its plan: requests by kind, and bytes.
//!
//! Holds at all times: it counts what is sent once; what a store does not answer is sent again.

use std::path::Path;

use super::Planned;
use crate::{
    plan::Compression,
    source::{Origin, storage::LOOKS},
    sys,
    uploads::Uploads,
};

/// Requests and bytes of a pack.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Requests {
    /// Lists of prefixes, a request for each 1,000 objects: as many as planning took.
    pub lists: u64,
    /// Reads of objects, and looks at what is there.
    pub gets: u64,
    /// Objects and parts that are put, and what begins and ends the parts of one.
    pub puts: u64,
    /// Bytes that come.
    pub received_bytes: u64,
    /// Bytes that go.
    pub sent_bytes: u64,
}

/// What packing `planned` into `dst` asks of stores; nothing where both are files.
pub fn requests(planned: &Planned, dst: Option<&Path>) -> Requests {
    let mut all = Requests::default();
    let samples = || planned.plans.iter().map(|plan| plan.listing.len());
    let listed = match &planned.source {
        Origin::Prefix(prefix) => Some(prefix),
        Origin::List(list) => list.remote(),
        _ => None,
    };
    if let Some(prefix) = listed {
        let mut looks: u64 = samples().map(|samples| samples.min(LOOKS)).sum();
        // Planning has listed and looked, and so does a pack; what a list names is looked at one by one.
        let before = prefix.transfers().requests.saturating_sub(looks);
        match &planned.source {
            Origin::List(_) => looks += before,
            _ => all.lists = before,
        }
        for plan in &planned.plans {
            let cells = plan.listing.components().cells.iter().filter_map(|cell| cell.length());
            let beside = cells.filter(|bytes| *bytes > 0);
            all.gets += plan.listing.len() + beside.clone().count() as u64;
            all.received_bytes += plan.payload_bytes() + beside.map(u64::from).sum::<u64>();
        }
        all.gets += looks;
    }
    if dst.is_some_and(sys::is_store) {
        for plan in &planned.plans {
            let is_compressed = plan.options.compression != Compression::None;
            for shard in &plan.shards {
                // Of a compressed shard the most that it can be.
                let bytes = plan.content_bytes(shard);
                // And its index; before, the plan is looked at.
                all.puts += Uploads::requests(bytes, is_compressed) + 1;
                all.gets += 1;
                all.sent_bytes += bytes;
            }
            all.sent_bytes += plan.index_bytes();
            // The manifest, the list of hashes, and the ledger.
            all.puts += 2 + u64::from(!plan.unpacked.is_empty());
            // Whether one is there already, before and when it begins.
            all.gets += 2;
        }
        // What lies there before, and at the end receipts.
        all.lists += 2;
        // The plan, which is put and removed again.
        all.puts += 1;
        all.gets += 2;
    }
    all
}

//! Counts the requests and bytes that a pack from or to a URL needs, from its plan.
//!
//! Holds at all times: retries are not counted.

use std::path::Path;

use shardpack_format::Result;
use shardpack_storage::{Address, requests_to_write};

use super::Planned;
use crate::{
    plan::{Compression, Plan},
    sidecars,
    source::{Source, SourceKind, storage::LOOKS, stored::Stored},
};

/// Requests and bytes of a pack.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Requests {
    /// List requests, one for each 1,000 objects: as many as planning took.
    pub lists: u64,
    /// Reads of objects, and requests for their metadata.
    pub gets: u64,
    /// Puts of objects and parts, and requests that create and complete multipart uploads.
    pub puts: u64,
    /// Received bytes.
    pub received_bytes: u64,
    /// Sent bytes.
    pub sent_bytes: u64,
}

/// Requests for packing `planned` with these sidecars into `dst`; none if both are local. Lengths of sidecars are not known.
///
/// # Errors
/// If the format has no such sidecar.
pub fn requests(planned: &Planned, dst: Option<&Path>, sidecars: &sidecars::Choice) -> Result<Requests> {
    let mut all = Requests::default();
    if planned.source.kind() != SourceKind::Transformed {
        let leaves = planned.source.leaves();
        leaves.into_iter().for_each(|leaf| all.add_reads(planned, leaf));
    }
    if dst.and_then(|dst| Address::of(dst).url()).is_some() {
        all.add_writes(planned, sidecars)?;
    }
    Ok(all)
}

impl Requests {
    /// Adds the requests for the destination of `planned`.
    fn add_writes(&mut self, planned: &Planned, sidecars: &sidecars::Choice) -> Result<()> {
        for plan in &planned.plans {
            let is_compressed = plan.options.compression != Compression::None;
            for shard in &plan.shards {
                // For a compressed shard, the maximum length.
                let bytes = plan.content_bytes(shard);
                // And its index; before that, the plan is read.
                self.puts += requests_to_write(bytes, is_compressed) + 1;
                self.gets += 1;
                self.sent_bytes += bytes;
            }
            self.sent_bytes += plan.index_bytes();
            // The manifest, the list of hashes, the ledger, and the sidecars.
            self.puts += 2 + u64::from(!plan.unpacked.is_empty()) + sidecars.files(plan)?.len() as u64;
            // Whether a manifest exists, before and at the start; and whether somebody else's file has the name of a catalogue.
            self.gets += 2 + sidecars.catalogues(plan)?;
        }
        if let Some(split) = planned.plans.first().filter(|plan| plan.split.is_some()) {
            let beside = sidecars.catalogues(split)?;
            (self.puts, self.gets) = (self.puts + beside, self.gets + beside);
        }
        // Objects at the prefix before, and receipts at the end.
        self.lists += 2;
        // The plan is put and removed again.
        self.puts += 1;
        self.gets += 2;
        Ok(())
    }

    /// Adds the requests for the files of `leaf`, one of the sources of `planned`; none for files of this machine,
    /// and none for shards, which are read in spans.
    fn add_reads(&mut self, planned: &Planned, leaf: &dyn Source) {
        let (kind, Some(transfers)) = (leaf.kind(), leaf.transfers()) else { return };
        if !matches!(kind, SourceKind::Tree | SourceKind::List) {
            return;
        }
        let is_of_leaf = |plan: &&Plan| {
            let own = planned.source.leaf_of(plan.split.as_deref());
            own.is_ok_and(|own| std::ptr::addr_eq(own, leaf))
        };
        let plans: Vec<&Plan> = planned.plans.iter().filter(is_of_leaf).collect();
        let mut looks: u64 = plans.iter().map(|plan| plan.listing.len().min(LOOKS)).sum();
        // A pack lists and checks objects as planning did; it checks the objects of a list one by one.
        let before = transfers.requests.saturating_sub(looks);
        match kind {
            SourceKind::List => looks += before,
            // Of an archive, the directory was read.
            _ if matches!(leaf.stored(), Stored::Archive(..)) => looks += before,
            _ => self.lists += before,
        }
        for plan in plans {
            let cells = plan.listing.components().cells.iter().filter_map(|cell| cell.length());
            let beside = cells.filter(|bytes| *bytes > 0);
            self.gets += plan.listing.len() + beside.clone().count() as u64;
            self.received_bytes += plan.payload_bytes() + beside.map(u64::from).sum::<u64>();
        }
        self.gets += looks;
    }
}

//! Spans: consecutive samples of one shard, the unit of work of a thread.

use shardpack_format::Result;

use crate::plan::{Compression, Plan};

/// Bytes of records in a span: small compared with a shard, large compared with the blocks shared at both ends.
const SPAN_BYTES: u64 = 8 << 20;
/// Maximum number of samples in a span, so that threads share a shard of small samples too.
const SPAN_SAMPLES: u64 = 1 << 13;

/// Consecutive samples of one shard.
#[derive(Clone, Copy, Debug)]
pub(super) struct Span {
    pub shard: usize,
    /// Position among the spans of its shard.
    pub number: usize,
    /// Position of its first sample.
    pub first: u64,
    pub samples: u64,
    /// Offset of its first record in the shard.
    pub offset: u64,
    pub records_bytes: u64,
    /// Length of the whole shard.
    pub content_bytes: u64,
    pub last: bool,
}

impl Span {
    /// Offset of its first byte in the shard: the first span includes the bytes before the first record.
    pub fn start(&self) -> u64 {
        if self.number == 0 { 0 } else { self.offset }
    }
}

/// Cuts a shard of `plan` into spans. A compressed shard is one span: the offset of a frame depends on the
/// frames before.
///
/// # Errors
/// If the format cannot hold a sample.
pub(super) fn split(plan: &Plan, shard: usize) -> Result<Vec<Span>> {
    let planned = plan.shards[shard];
    let whole = Span {
        shard,
        number: 0,
        first: planned.first,
        samples: planned.samples,
        offset: plan.format().head_bytes(planned.samples),
        records_bytes: planned.records_bytes,
        content_bytes: plan.content_bytes(&planned),
        last: true,
    };
    if plan.options.compression != Compression::None {
        return Ok(vec![whole]);
    }
    let plain_bytes = plan.record_bytes()?;
    let plain = planned.positions().map(|position| plain_bytes[plan.sample_at(position) as usize]);
    let mut spans: Vec<Span> = Vec::new();
    let mut span = Span { samples: 0, records_bytes: 0, last: false, ..whole };
    for (position, record_bytes) in planned.positions().zip(plan.placed(planned.samples, plain)) {
        if span.records_bytes >= SPAN_BYTES || span.samples >= SPAN_SAMPLES {
            spans.push(span);
            span = Span {
                number: span.number + 1,
                first: position,
                samples: 0,
                offset: span.offset + span.records_bytes,
                records_bytes: 0,
                ..span
            };
        }
        span.samples += 1;
        span.records_bytes += u64::from(record_bytes);
    }
    spans.push(Span { last: true, ..span });
    Ok(spans)
}

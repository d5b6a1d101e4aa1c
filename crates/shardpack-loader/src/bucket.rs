//! Batches by length: the option, and its part of a state.

use serde::{Deserialize, Serialize};
use shardpack_format::{Error, Result};

use crate::{
    OnBad,
    condition::Lengths,
    order::Buckets,
    plan::{Needs, PlanSource},
};

/// Puts samples of similar length into a batch: inside windows of the order, samples are sorted by length, and cut into batches that
/// come in random order. Windows hold the same samples for all lengths.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bucket {
    /// A component or a column of [`Condition`](crate::Condition), or `aspect`: width through height as stored. The length is the
    /// number of items of an array, of members of a list in JSON, of bytes of text or of a file, or a number itself. Samples
    /// without a length are the shortest, and count as 0.
    pub by: String,
    /// Batches of a window; `None` for 64, or fewer if the memory is too small.
    pub batches: Option<u64>,
    /// Limit for the padded length of a batch: its longest sample times its samples. Then [`Options::batch`](crate::Options::batch) is
    /// the largest number of samples of a batch. Batches of a step have as many samples on all ranks, and epochs differ in their
    /// number of batches. A longer sample is a batch of its own. [`Last::Short`](crate::order::Last::Short) is as
    /// [`Last::Pad`](crate::order::Last::Pad), and [`Last::Drop`](crate::order::Last::Drop) drops fewer samples than there are ranks.
    pub tokens: Option<u64>,
    /// The lengths of the samples of each part: see [`Loader::lengths`](crate::Loader::lengths). Empty to read them.
    pub lengths: Vec<Lengths>,
}

/// Batches of a window: the first that the memory suffices for. Padding shrinks with their number.
const USUAL_BATCHES: [u64; 4] = [64, 32, 16, 8];

/// Batches by length in a plan and in a state. A run keeps its windows if ranks and batches change.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Bucketing {
    by: String,
    world: u64,
    batch: u64,
    batches: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    tokens: Option<u64>,
}

impl Bucket {
    /// Batches by the length with this name.
    pub fn by(name: &str) -> Self {
        Self { by: name.to_owned(), batches: None, tokens: None, lengths: Vec::new() }
    }

    /// Fails if the limit for tokens is out of range, has no lengths, or replaced samples may break it.
    pub(crate) fn check(&self, on_bad: OnBad) -> Result<()> {
        match self.tokens {
            Some(_) if on_bad == OnBad::Replace => {
                let what = "batch_tokens with on_bad=\"replace\": another sample may be longer than the bad one";
                Err(Error::usage(what).help("on_bad=\"skip\" leaves bad samples out"))
            }
            Some(0) => Err(Error::usage("batch_tokens=0: a batch has 1 or more")),
            Some(_) if self.by == "aspect" => {
                Err(Error::usage("batch_tokens is a limit for lengths, and bucket_by=\"aspect\" has none"))
            }
            _ => Ok(()),
        }
    }
}

impl Bucketing {
    /// Windows of a new run, and the blocks of its runs.
    ///
    /// # Errors
    /// If the windows are out of range, or need more memory.
    pub fn new(bucket: &Bucket, needs: &Needs, batch: u64, memory_bytes: Option<u64>) -> Result<(Self, u64)> {
        let given = bucket.batches.as_ref().map(std::slice::from_ref);
        let mut refused = None;
        for batches in given.unwrap_or(&USUAL_BATCHES) {
            if *batches < 2 {
                let what = format!("bucket_batches={batches}: a window needs 2 batches or more to choose from");
                return Err(Error::usage(what));
            }
            let one =
                Self { by: bucket.by.clone(), world: needs.world(), batch, batches: *batches, tokens: bucket.tokens };
            match needs.clone().in_windows(&one.buckets()?, 1).run_blocks(memory_bytes) {
                Ok(run_blocks) => return Ok((one, run_blocks)),
                Err(error) => refused = Some(error),
            }
        }
        Err(refused.unwrap_or_else(|| Error::usage("no windows")))
    }

    /// The windows of a state, if `bucket` is the option of its run.
    ///
    /// # Errors
    /// If the run was another one, or its windows need more memory now.
    pub fn resumed(
        of_state: Option<&Self>,
        bucket: Option<&Bucket>,
        (needs, run_blocks, batch): (&Needs, u64, u64),
        memory_bytes: Option<u64>,
    ) -> Result<Option<Self>> {
        let (was, is) = (of_state.map(|one| &one.by), bucket.map(|bucket| &bucket.by));
        if was != is {
            let shown =
                |by: Option<&String>| by.map_or_else(|| "no bucket_by".to_owned(), |by| format!("bucket_by={by:?}"));
            let what = format!("the state is of a run with {}, and the loader has {}", shown(was), shown(is));
            return Err(Error::usage(what).help("resume with the bucket_by of the run that saved the state"));
        }
        let Some(one) = of_state else { return Ok(None) };
        let tokens = bucket.and_then(|bucket| bucket.tokens);
        if one.tokens != tokens {
            let shown = |tokens: Option<u64>| tokens.map_or_else(|| "none".to_owned(), |tokens| tokens.to_string());
            let what =
                format!("batch_tokens of the state: {}, and of the loader: {}", shown(one.tokens), shown(tokens));
            return Err(Error::usage(what).help("resume with the batch_tokens of the run that saved the state"));
        }
        if tokens.is_some() && (one.world, one.batch) != (needs.world(), batch) {
            let what = format!(
                "batch_tokens: the state is of {} ranks with batch_size={}, and the loader has {} ranks and {batch}",
                one.world,
                one.batch,
                needs.world(),
            );
            return Err(Error::usage(what).help("resume with as many ranks, and with the batch_size of that run"));
        }
        if let Some(batches) = bucket.and_then(|bucket| bucket.batches).filter(|batches| *batches != one.batches) {
            let what = format!("bucket_batches of the state: {}, and of the loader: {batches}", one.batches);
            return Err(Error::usage(what).help("resume without bucket_batches, which the state has"));
        }
        needs.clone().in_windows(&one.buckets()?, run_blocks).run_blocks(memory_bytes)?;
        Ok(Some(one.clone()))
    }

    /// Whether batches differ in length.
    pub fn has_tokens(&self) -> bool {
        self.tokens.is_some()
    }

    /// The windows.
    ///
    /// # Errors
    /// If a number is out of range.
    pub fn buckets(&self) -> Result<Buckets> {
        let buckets = Buckets::new(self.world, self.batch, self.batches)?;
        Ok(self.tokens.map_or(buckets, |tokens| buckets.within(tokens)))
    }
}

/// The lengths of the samples of part `number`, if batches are by length.
pub(crate) fn lengths(bucket: Option<&Bucket>, number: usize, source: &PlanSource) -> Result<Option<Lengths>> {
    let Some(bucket) = bucket else { return Ok(None) };
    let lengths = match bucket.lengths.get(number) {
        Some(known) if known.len() != source.dataset.len() => {
            return Err(Error::usage("lengths of another dataset").in_file(source.dataset.folder()));
        }
        Some(known) => known.clone(),
        None => Lengths::find(&bucket.by, &source.dataset, &source.selection)?,
    };
    if bucket.tokens.is_some() && lengths.has_negative() {
        let what = format!("batch_tokens: {} is below 0 for some samples", bucket.by);
        return Err(Error::usage(what).in_file(source.dataset.folder()));
    }
    Ok(Some(lengths))
}

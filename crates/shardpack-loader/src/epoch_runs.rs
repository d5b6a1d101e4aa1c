//! The runs of one epoch: which one to read next, and which one has the consumer's next sample.
//!
//! Holds at all times: a run is listed from the start of its read until its last sample is taken. Runs of lanes are taken from
//! front to back; of batches by length, several runs of a lane are in use at a time, and the reads give the order of samples.

use std::{
    collections::{BTreeMap, VecDeque},
    sync::{Arc, OnceLock, atomic::AtomicBool},
};

use crate::{
    budget::Budget,
    order::{BucketReads, RankLanes, Read, Reads, Segment, Taken},
    plan::{Content, Plan},
    run::{Run, Steps},
};

/// See the module.
pub(crate) struct EpochRuns {
    pub number: u64,
    pub content: Arc<Content>,
    pub lanes: RankLanes,
    order: Order,
}

enum Order {
    Lanes {
        reads: Reads,
        /// For each lane: its runs, and the number of samples taken from the first.
        runs: Vec<(VecDeque<Arc<Run>>, u64)>,
    },
    Buckets {
        reads: BucketReads,
        /// Runs with samples that are not listed yet, by number.
        runs: BTreeMap<u64, Arc<Run>>,
        /// Number of the next run.
        number: u64,
        /// The next samples: their runs and steps.
        next: VecDeque<(Arc<Run>, u64)>,
    },
}

impl EpochRuns {
    /// Epoch `number`, before its first read.
    pub fn new(plan: &Plan, number: u64, content: Arc<Content>, lanes: RankLanes) -> Self {
        let order = match plan.bucket_reads(&content, &lanes) {
            Some(reads) => Order::Buckets { reads, runs: BTreeMap::new(), number: 0, next: VecDeque::new() },
            None => {
                Order::Lanes { reads: lanes.reads(), runs: (0..lanes.len()).map(|_| (VecDeque::new(), 0)).collect() }
            }
        };
        Self { number, content, lanes, order }
    }

    /// The next run to read, with this ticket; `None` after the last one.
    pub fn next_run(&mut self, plan: &Plan, budget: &Arc<Budget>, ticket: u64) -> Option<Arc<Run>> {
        let new = |segment: Segment, steps: Steps| {
            Arc::new(Run {
                ticket,
                sources: Arc::clone(&plan.sources),
                content: Arc::clone(&self.content),
                segment,
                steps,
                pieces: OnceLock::new(),
                is_checked: AtomicBool::new(false),
                budget: Arc::clone(budget),
            })
        };
        match &mut self.order {
            Order::Lanes { reads, runs } => {
                let Read { lane, segment, samples, first } = reads.next()?;
                let (first, stride) = (self.lanes.step_of(first), self.lanes.readers());
                let run = new(segment, Steps::Every { first, stride, samples });
                runs[lane].0.push_back(Arc::clone(&run));
                Some(run)
            }
            Order::Buckets { reads, runs, number, next } => {
                let mut taken = Vec::new();
                let read = reads.next_read(&mut taken);
                let run = read.map(|read| new(read.segment, Steps::These(read.steps)));
                if let Some(run) = &run {
                    runs.insert(*number, Arc::clone(run));
                    *number += 1;
                }
                for Taken { read, step, is_last } in taken {
                    let run = if is_last { runs.remove(&read) } else { runs.get(&read).cloned() };
                    next.extend(run.map(|run| (run, step)));
                }
                run
            }
        }
    }

    /// The run of the rank's sample `number`, which is the next one, and its step in the lane; `None` if it is not read yet.
    pub fn front(&self, number: u64) -> Option<(&Arc<Run>, u64)> {
        match &self.order {
            Order::Lanes { runs, .. } => {
                let run = runs[self.lanes.lane_of(number)].0.front()?;
                Some((run, self.lanes.step_of(number)))
            }
            Order::Buckets { next, .. } => next.front().map(|(run, step)| (run, *step)),
        }
    }

    /// The ticket of the run that has the rank's sample `number`, if `tickets` have been given out; `None` if the sample will be
    /// listed without a further read.
    pub fn wanted(&self, number: u64, tickets: u64) -> Option<u64> {
        match (self.front(number), &self.order) {
            (Some((run, _)), _) => Some(run.ticket),
            (None, Order::Lanes { .. }) => Some(tickets),
            // Samples are listed up to the first one of the latest run, so that run has been read.
            (None, Order::Buckets { .. }) => None,
        }
    }

    /// Takes the rank's sample `number`, whose run is at the front.
    pub fn take(&mut self, number: u64) {
        match &mut self.order {
            Order::Lanes { runs, .. } => {
                let (runs, taken) = &mut runs[self.lanes.lane_of(number)];
                *taken += 1;
                if runs.front().is_some_and(|run| run.steps.len() == *taken) {
                    *taken = 0;
                    runs.pop_front();
                }
            }
            Order::Buckets { next, .. } => drop(next.pop_front()),
        }
    }
}

//! Makes one sample into one slot: fetch, decode and transform, or apply the policy for bad samples.

use std::{
    borrow::Cow,
    sync::{Arc, OnceLock, atomic::Ordering::Relaxed},
};

use shardpack_format::{Error, ErrorKind, Result, component::Form, image_header::Kind, npy};
use shardpack_imaging::{
    Budget, Limits, Refused,
    training::{Geometry, Worker, view_key},
};
use shardpack_reader::Sample;

use crate::{
    OnBad, Output,
    batch::NO_LABEL,
    columns::{Gathered, Value, Wanted},
    plan::{Plan, PlanSource},
    receipt::Bad,
    roles::{self, CutOf},
    run::{Fetched, Payload},
    stats::Counters,
};

/// Number of neighbours to try as a replacement for a bad sample.
const MAX_NEIGHBOURS: u64 = 4096;

/// Shared data of the threads that make samples.
pub(crate) struct Making {
    pub plan: Plan,
    pub output: Output,
    pub on_bad: OnBad,
    /// See [`crate::Options::parses_files`].
    pub parses_files: bool,
    pub limits: Limits,
    /// Mean pixels of the images, once a fact needs them.
    pub mean_pixels: OnceLock<f64>,
    /// See [`crate::Options::mixed_classes`].
    pub mixed_classes: usize,
    /// Memory budget for decoding, shared by all threads.
    pub decoding: Arc<Budget>,
    /// The extra components.
    pub columns: Vec<Wanted>,
    pub counters: Arc<Counters>,
}

/// The result for one sample.
pub(crate) struct Slotted {
    /// The dataset and the number of the sample that was expected.
    pub wanted: (usize, u64),
    /// `None` if the sample was skipped.
    pub kept: Option<KeptSample>,
    pub bad: Option<Bad>,
}

pub(crate) struct KeptSample {
    pub source: usize,
    pub sample: u64,
    pub label: i64,
    /// Key of the sample's random numbers.
    pub random_key: u64,
    pub payload: Option<Payload>,
    /// The cut of each view of the image, if there is a transform.
    pub geometries: Vec<Geometry>,
}

impl Making {
    /// Makes the slot of a sample, and applies the policy if the sample is bad. Extra components of a kept sample are added
    /// to `columns`.
    pub fn slotted(
        &self,
        worker: &mut Worker,
        fetched: &Fetched,
        slot: &mut [&mut [u8]],
        columns: &mut [Gathered],
    ) -> Result<Slotted> {
        let wanted = (fetched.source(), fetched.number());
        let error = match self.kept(worker, fetched, fetched, slot, columns) {
            Ok(kept) => return Ok(Slotted { wanted, kept: Some(kept), bad: None }),
            // An error of the machine does not make the sample bad.
            Err(error) if error.kind() != ErrorKind::Data || self.on_bad == OnBad::Error => return Err(error),
            Err(error) => error,
        };
        let reason = error.to_string();
        if self.on_bad == OnBad::Replace
            && let Some(neighbour) = self.neighbour(worker, fetched, slot, columns)?
        {
            self.counters.replaced.fetch_add(1, Relaxed);
            let bad = Bad { sample: wanted.1, reason, by: Some(neighbour.sample) };
            return Ok(Slotted { wanted, kept: Some(neighbour), bad: Some(bad) });
        }
        self.counters.skipped.fetch_add(1, Relaxed);
        Ok(Slotted { wanted, kept: None, bad: Some(Bad { sample: wanted.1, reason, by: None }) })
    }

    /// The next good sample of the same class after a bad one.
    fn neighbour(
        &self,
        worker: &mut Worker,
        fetched: &Fetched,
        slot: &mut [&mut [u8]],
        columns: &mut [Gathered],
    ) -> Result<Option<KeptSample>> {
        let PlanSource { dataset, selection, .. } = &self.plan.sources[fetched.source()];
        let Ok(row) = dataset.row(fetched.number()) else { return Ok(None) };
        let label = row.label;
        let (here, samples) = (selection.before(fetched.number()), selection.len());
        for distance in 1..samples.min(MAX_NEIGHBOURS) {
            let number = selection.number((here + distance) % samples);
            if !dataset.row(number).is_ok_and(|row| row.label == label) {
                continue;
            }
            match self.kept(worker, &fetched.other(number), fetched, slot, columns) {
                Ok(kept) => return Ok(Some(kept)),
                Err(error) if error.kind() == ErrorKind::Data => {}
                Err(error) => return Err(error),
            }
        }
        Ok(None)
    }

    /// The crop table of a sample, if there is one, and whether the sample is a JPEG in a shard without tables. Invalid tables are
    /// only counted, because the pixels are the same without them.
    fn crop_table<'d>(&self, sample: &Sample<'d>) -> (Option<&'d [u8]>, bool) {
        let shard = sample.shard();
        match shard.crop_table(sample.number() - shard.samples().start) {
            Ok(Some(Ok(table))) => (Some(table), false),
            Ok(Some(Err(_))) => (None, false),
            Ok(None) => (None, sample.row().image.kind == Kind::Jpeg),
            Err(_) => {
                self.counters.wrong_tables.fetch_add(1, Relaxed);
                (None, false)
            }
        }
    }

    /// The cut of a view of the image with the random key `key`; `None` without a transform.
    fn cut(&self, view: usize, geometries: &[Geometry], key: u64) -> Option<CutOf<'_>> {
        let Output::Images(views) = &self.output else { return None };
        let (transform, geometry) = (views.get(view)?, *geometries.get(view)?);
        Some(CutOf { transform, geometry, random_key: view_key(key, view as u64) })
    }

    /// Fills the slot for a sample and returns the kept values; random choices are those of `wanted`.
    fn kept(
        &self,
        worker: &mut Worker,
        fetched: &Fetched,
        wanted: &Fetched,
        slot: &mut [&mut [u8]],
        columns: &mut [Gathered],
    ) -> Result<KeptSample> {
        let sample = fetched.sample()?;
        let bytes = sample.bytes();
        let source = &self.plan.sources[fetched.source()];
        let key = source.identities.random_key(wanted.number(), self.plan.order.seed, wanted.epoch());
        let (mut decoded, mut geometries) = (None, Vec::new());
        match &self.output {
            Output::Encoded => {}
            Output::Images(views) => {
                let (table, has_none) = self.crop_table(&sample);
                let (outcome, cuts) = worker
                    .run_views(views, bytes, table, key, slot)
                    .map_err(|refused| located(&sample, Error::data(said(&refused))))?;
                (decoded, geometries) = (Some((outcome, has_none)), cuts);
            }
            Output::Own(own) => {
                let slot = slot.first_mut().map(|view| &mut **view).unwrap_or_default();
                own.make(&sample, worker, key, slot).map_err(|error| located(&sample, error))?;
            }
        }
        // All or nothing: a sample that is not kept leaves no value in any column.
        let value_of = |wanted: &Wanted| value(&sample, source.columns[wanted.component], wanted, self.parses_files);
        let mut values = self.columns.iter().map(value_of).collect::<Result<Vec<_>>>()?;
        if self.columns.iter().any(|wanted| wanted.role.is_some()) {
            let (mut stored, views) = (values.into_iter(), self.columns.chunk_by(|one, other| one.view == other.view));
            values = Vec::with_capacity(self.columns.len());
            for (view, columns) in views.enumerate() {
                let cut = self.cut(view, &geometries, key);
                let own = stored.by_ref().take(columns.len()).collect();
                let followed = roles::follow(worker, cut.as_ref(), columns, own).map_err(|(at, what)| {
                    let name = columns.get(at).map_or("", |wanted| &wanted.name);
                    located(&sample, Error::data(format!("component {name:?}: {what}")))
                })?;
                values.extend(followed);
            }
        }
        let label = source.label(sample.label());
        if self.mixed_classes > 0 && !label.is_some_and(|label| (0..self.mixed_classes as i64).contains(&label)) {
            let label = label.map_or_else(|| "no label".to_owned(), |label| format!("the label {label}"));
            let what = format!("{label}, and MixUp and CutMix mix {} classes", self.mixed_classes);
            return Err(located(&sample, Error::data(what)));
        }
        columns.iter_mut().zip(values).for_each(|(column, value)| column.push(value));
        self.counters.made(bytes.len() as u64, decoded.as_ref());
        let payload = matches!(self.output, Output::Encoded).then(|| Payload::new(fetched, &sample));
        Ok(KeptSample {
            source: fetched.source(),
            sample: fetched.number(),
            label: label.unwrap_or(NO_LABEL),
            random_key: key,
            payload,
            geometries,
        })
    }
}

/// The reason for a refused image, with the remedy if memory is too small.
fn said(refused: &Refused) -> String {
    match refused {
        Refused::OverBudget { .. } => format!("{refused} for decoding; raise the memory of the loader"),
        refused => refused.to_string(),
    }
}

/// Component `number` of a sample. Every sample must have the component if it is an array, so that a batch has an array for each
/// sample, unless the manifest declares that samples lack it.
fn value<'s>(sample: &'s Sample<'_>, number: usize, wanted: &Wanted, parses_files: bool) -> Result<Value<'s>> {
    let name = &wanted.name;
    let is_array = name.rsplit('.').next() == Some("npy");
    let wrong = |what: String| Err(located(sample, Error::data(format!("component {name:?}: {what}"))));
    let Some(form) = sample.form(number) else {
        return match is_array && !wanted.is_optional() {
            true => wrong("the sample has no such array".to_owned()),
            false => Ok(Value::Missing),
        };
    };
    if let Some(items) = sample.items(number)? {
        return Ok(Value::Array(Cow::Borrowed(form), items));
    }
    let Some(content) = sample.content(number)? else { return Ok(Value::Missing) };
    // A file next to a payload: the index has no type for it.
    let is_file = *form == Form::Bytes && is_array;
    if is_file && !content.starts_with(b"\x93NUMPY") {
        return wrong(format!("no array of numpy in its {} bytes", content.len()));
    }
    if is_file
        && let Ok(head) = npy::read_head(&content)
        && let Err(error) = head.check_length(content.len() as u64)
    {
        return wrong(error.to_string());
    }
    let array = if is_file { Form::of_npy(&content, content.len() as u64) } else { None };
    let items = array.as_ref().and_then(|array| array.items(&content)).map(<[u8]>::to_vec);
    if let (Some(array), Some(items)) = (array, items) {
        return Ok(Value::Array(Cow::Owned(array), items.into()));
    }
    let form = match *form == Form::Bytes && parses_files {
        true => Form::of_file(name),
        false => form.clone(),
    };
    match if parses_files { form.check(&content) } else { Ok(()) } {
        Ok(()) => Ok(Value::Content(form, content.into_owned())),
        Err(what) => wrong(what),
    }
}

/// `error` with the location of the sample.
fn located(sample: &Sample<'_>, error: Error) -> Error {
    let shard = sample.shard();
    error.in_file(shard.path()).in_sample(sample.row().name()).at_byte(sample.image_range().start)
}

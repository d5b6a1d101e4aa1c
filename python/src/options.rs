//! Options of a loader from `shardpack.Loader`: JSON, validated by types.

use std::{collections::BTreeMap, path::PathBuf};

use pyo3::prelude::*;
use serde::Deserialize;
use shardpack_loader::{
    Bucket, Condition, Dataset, Error, Limits, Loader, MixPart, OnBad, Options, Output, Own, Result, Role, State,
    Subset, Times,
    order::{Last, Shuffle},
    training::{self, Axes, Cut, Dtype, Filter, Normalise, Padding, Resize, Size, Transform},
};
use shardpack_reader::StoreSettings;

use crate::augment::{ErasingRequest, MixingRequest, OperationRequest};

/// All options of a loader.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Request {
    parts: Vec<PartRequest>,
    /// Weights of the parts, each from an epoch on, and the number of samples of an epoch; `None` if each part has its own times.
    weights: Option<(Vec<Vec<(u64, f64)>>, u64)>,
    batch: u64,
    rank: u64,
    world: u64,
    seed: u64,
    shuffle: String,
    lanes: Option<u64>,
    /// The length by which samples are put into batches, batches of a window, and the limit of tokens of a batch.
    bucket: Option<(String, Option<u64>, Option<u64>)>,
    last: String,
    /// The views of each image; none without a transform.
    views: Vec<TransformRequest>,
    /// Whether to hand out payloads if there is no transform.
    payload: bool,
    /// Whether labels number the chosen classes.
    renumber: bool,
    components: Vec<String>,
    /// Components that follow the cut of the image; `None` for those that stay as stored.
    roles: BTreeMap<String, Option<String>>,
    /// Number of classes of mixed labels; 0 for those of the dataset.
    mixed_classes: usize,
    on_bad: String,
    check_content: bool,
    /// Whether components are handed out as stored.
    raw: bool,
    max_pixels: Option<u64>,
    memory_bytes: Option<u64>,
    ahead_bytes: u64,
    read_threads: usize,
    threads: usize,
    epochs: Option<u64>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PartRequest {
    path: String,
    /// Settings of the store, if the path is a URL.
    store: Vec<(String, String)>,
    /// Folder of the cache for data from the store, and its limit in bytes.
    cache: Option<(PathBuf, u64)>,
    /// Only samples that are in all of them.
    subset: Vec<SubsetRequest>,
    times: TimesRequest,
}

#[derive(Deserialize)]
#[serde(rename_all = "lowercase", deny_unknown_fields)]
enum SubsetRequest {
    Range(u64, u64),
    Classes(Vec<i64>),
    Samples(Vec<u64>),
    Part(f64, f64, u64),
    Where(String),
}

impl SubsetRequest {
    fn subset(&self) -> Result<Subset> {
        Ok(match *self {
            Self::Range(start, end) => Subset::Range(start..end),
            Self::Classes(ref classes) => Subset::Classes(classes.clone()),
            Self::Samples(ref samples) => Subset::Samples(samples.clone()),
            Self::Part(start, end, seed) => Subset::Part { share: start..end, seed },
            Self::Where(ref condition) => Subset::Where(Condition::parse(condition)?),
        })
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "lowercase", deny_unknown_fields)]
enum TimesRequest {
    Once,
    Total(u64),
    Classes(f64),
}

/// A `Pipeline` of `shardpack.transforms`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TransformRequest {
    cut: CutRequest,
    filter: String,
    flip: f64,
    flip_vertical: f64,
    operations: Vec<OperationRequest>,
    erasing: Option<ErasingRequest>,
    /// `MixUp` and `CutMix` with their probabilities.
    mixing: Vec<(MixingRequest, f64)>,
    axes: String,
    dtype: String,
    normalise: Option<([f32; 3], [f32; 3])>,
    reduce: bool,
    upright: bool,
}

/// Sizes are height and width.
#[derive(Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
enum CutRequest {
    Whole((u32, u32)),
    Center {
        resize: ResizeRequest,
        size: (u32, u32),
    },
    RandomResized {
        size: (u32, u32),
        scale: (f64, f64),
        ratio: (f64, f64),
    },
    /// Padding is left, top, right, bottom.
    Random {
        resize: ResizeRequest,
        size: (u32, u32),
        padding: (u32, u32, u32, u32),
        pad_if_needed: bool,
    },
}

#[derive(Deserialize)]
#[serde(rename_all = "lowercase", deny_unknown_fields)]
enum ResizeRequest {
    Not,
    Short(u32),
    Exact((u32, u32)),
}

fn size((height, width): (u32, u32)) -> Size {
    Size { height, width }
}

/// The value with the name `name`.
fn named<T: Copy>(what: &str, name: &str, values: &[(&str, T)]) -> Result<T> {
    let found = values.iter().find(|(one, _)| *one == name);
    let names = || values.iter().map(|(one, _)| *one).collect::<Vec<_>>().join(", ");
    found.map(|(_, value)| *value).ok_or_else(|| Error::usage(format!("{what} {name:?}: there are {}", names())))
}

impl ResizeRequest {
    fn resize(&self) -> Resize {
        match *self {
            Self::Not => Resize::Not,
            Self::Short(short) => Resize::Short(short),
            Self::Exact(exact) => Resize::Exact(size(exact)),
        }
    }
}

impl TransformRequest {
    /// The transform.
    ///
    /// # Errors
    /// If a name is unknown, or a number out of its range.
    pub fn transform(&self) -> Result<Transform> {
        let cut = match self.cut {
            CutRequest::Whole(whole) => Cut::Whole { size: size(whole) },
            CutRequest::RandomResized { size: of, scale, ratio } => Cut::RandomResized { size: size(of), scale, ratio },
            CutRequest::Center { ref resize, size: of } => Cut::Center { resize: resize.resize(), size: size(of) },
            CutRequest::Random { ref resize, size: of, padding: (left, top, right, bottom), pad_if_needed } => {
                let padding = Padding { left, top, right, bottom };
                Cut::Random { resize: resize.resize(), size: size(of), padding, pad_if_needed }
            }
        };
        let dtypes = [
            ("uint8", Dtype::Uint8),
            ("float32", Dtype::Float32),
            ("float16", Dtype::Float16),
            ("bfloat16", Dtype::Bfloat16),
        ];
        let options = training::Options {
            cut,
            filter: named(
                "interpolation",
                &self.filter,
                &[("bilinear", Filter::Bilinear), ("bicubic", Filter::Bicubic)],
            )?,
            flip: self.flip,
            flip_vertical: self.flip_vertical,
            axes: named("layout", &self.axes, &[("CHW", Axes::Chw), ("HWC", Axes::Hwc)])?,
            dtype: named("dtype", &self.dtype, &dtypes)?,
            normalise: self.normalise.map(|(mean, std)| Normalise { mean, std }),
            reduce: self.reduce,
            upright: self.upright,
        };
        let operations = self.operations.iter().map(OperationRequest::operation).collect();
        let erasing = self.erasing.as_ref().map(ErasingRequest::erasing);
        let mixing = self.mixing.iter().map(|(mixing, p)| (mixing.mixing(), *p)).collect();
        let transform = Transform::new(options)
            .and_then(|transform| transform.augmented(operations, erasing))
            .and_then(|transform| transform.mixed(mixing));
        transform.map_err(|error| Error::usage(error.to_string()))
    }
}

impl Request {
    /// Parses the JSON of `shardpack.Loader`.
    ///
    /// # Errors
    /// If a value has the wrong type.
    pub fn read(json: &str) -> Result<Self> {
        serde_json::from_str(json).map_err(|error| Error::usage(format!("an option of the loader: {error}")))
    }

    fn roles(&self) -> Result<BTreeMap<String, Option<Role>>> {
        let role = |(name, role): (&String, &Option<String>)| {
            let role =
                role.as_ref().map(|role| named(&format!("the role of {name}:"), role, &Role::ALL)).transpose()?;
            Ok((name.clone(), role))
        };
        self.roles.iter().map(role).collect()
    }

    fn options(&self, output: Output) -> Result<Options> {
        let mut limits = Limits::default();
        if let Some(pixels) = self.max_pixels {
            limits.pixels = pixels;
            limits.bytes = limits.bytes.max(pixels.saturating_mul(8));
        }
        let policies = [("error", OnBad::Error), ("skip", OnBad::Skip), ("replace", OnBad::Replace)];
        Ok(Options {
            batch: self.batch,
            rank: self.rank,
            world: self.world,
            seed: self.seed,
            shuffle: named("shuffle", &self.shuffle, &Shuffle::ALL.map(|one| (one.name(), one)))?,
            lanes: self.lanes,
            bucket: self.bucket.as_ref().map(|(by, batches, tokens)| Bucket {
                batches: *batches,
                tokens: *tokens,
                ..Bucket::by(by)
            }),
            last: named("last", &self.last, &Last::ALL.map(|one| (one.name(), one)))?,
            subset: Subset::All,
            renumber: self.renumber,
            output,
            components: self.components.clone(),
            roles: self.roles()?,
            mixed_classes: self.mixed_classes,
            on_bad: named("on_bad", &self.on_bad, &policies)?,
            check_content: self.check_content,
            limits,
            parses_files: !self.raw,
            memory_bytes: self.memory_bytes,
            ahead_bytes: self.ahead_bytes,
            read_threads: self.read_threads,
            threads: self.threads,
            epochs: self.epochs.unwrap_or(u64::MAX),
        })
    }

    /// Makes the loader. Opens the datasets, or takes those in `opened`, one for each part. With `state`, the loader resumes that
    /// run. The samples and their lengths are those of `before`, a loader of the same parts, or are selected anew.
    ///
    /// # Errors
    /// As [`Dataset::open_with`] and [`Loader::mix`].
    pub fn loader(
        &self,
        state: Option<&State>,
        opened: Vec<Dataset>,
        before: Option<&Loader>,
    ) -> Result<(Loader, Vec<Slot>)> {
        let views = self.views.iter().map(TransformRequest::transform).collect::<Result<Vec<_>>>()?;
        let slots = views.iter().map(Slot::new).collect();
        let output = match views {
            views if !views.is_empty() => Output::Images(views.into()),
            _ if self.payload => Output::Encoded,
            _ => Output::Own(Own::new(0, |_, _, _, _| Ok(()))),
        };
        let mut options = self.options(output)?;
        if let (Some(bucket), Some(before)) = (&mut options.bucket, before) {
            bucket.lengths = before.lengths();
        }
        let (mut parts, mut opened) = (Vec::new(), opened.into_iter());
        for part in &self.parts {
            let subset = match before.and_then(|before| before.selection(parts.len())) {
                Some(selection) => {
                    // The classes give the labels their numbers.
                    let classes = part.subset.iter().find(|one| matches!(one, SubsetRequest::Classes(_)));
                    let classes = classes.map(SubsetRequest::subset).transpose()?;
                    Subset::Each(std::iter::once(Subset::Selected(selection.clone())).chain(classes).collect())
                }
                None => Subset::Each(part.subset.iter().map(SubsetRequest::subset).collect::<Result<_>>()?),
            };
            let times = match part.times {
                TimesRequest::Once => Times::Once,
                TimesRequest::Total(total) => Times::Total(total),
                TimesRequest::Classes(power) => Times::Classes(power),
            };
            let store = settings(part.store.iter().cloned(), part.cache.clone());
            let open = || Dataset::open_with(&part.path, &store).map(Dataset::copied);
            parts.push(MixPart { dataset: opened.next().map_or_else(open, Ok)?, subset, times });
        }
        if let Some((weights, samples)) = &self.weights {
            parts = MixPart::by_weights(parts.into_iter().zip(weights.iter().cloned()).collect(), *samples)?;
        }
        let loader = match state {
            Some(state) => Loader::resume_mix(parts, options, state)?,
            None => Loader::mix(parts, options)?,
        };
        Ok((loader, slots))
    }
}

/// The numpy type of a view in a slot.
#[derive(Clone)]
pub struct Slot {
    /// dtype in numpy's notation; bfloat16, which numpy lacks, is `<u2`.
    pub dtype: &'static str,
    /// Shape of one sample.
    pub shape: [usize; 3],
}

impl Slot {
    fn new(transform: &Transform) -> Self {
        let dtype = match transform.options().dtype {
            Dtype::Uint8 => "|u1",
            Dtype::Float32 => "<f4",
            Dtype::Float16 => "<f2",
            Dtype::Bfloat16 => "<u2",
        };
        Self { dtype, shape: transform.shape() }
    }
}

/// Settings of a store and of the cache for its data.
pub fn settings(store: impl IntoIterator<Item = (String, String)>, cache: Option<(PathBuf, u64)>) -> StoreSettings {
    let settings = StoreSettings::new(store);
    match cache {
        Some((folder, bytes)) => settings.with_cache(folder, bytes),
        None => settings,
    }
}

/// Parses a state from JSON.
pub fn state(py: Python<'_>, json: &str) -> PyResult<State> {
    use crate::errors::Raise as _;
    State::from_json(json).or_raise(py)
}

//! Lists the samples of targets one by one, in stored order.

use std::{borrow::Cow, ops::ControlFlow};

use serde::Serialize;
use shardpack_format::{
    Error, ErrorKind, Result,
    formats::Choice,
    hash,
    image_header::{Header, Kind, Mode},
    index::RowRef,
};
use shardpack_reader::Shard;

use super::{
    Target, View, dataset,
    images::is_stray,
    scan::{self, Scanned},
};
use crate::{foreign::ShardFile, monitor::Monitor};

/// Samples between two checks for cancellation.
const SAMPLES_AT_ONCE: u64 = 4096;
/// Maximum number of class names in the message for an unknown class.
const NAMED_CLASSES: usize = 5;

/// Selection of samples.
#[derive(Clone, Debug, Default)]
pub struct Filter {
    /// Only the class with this name or, if there is none, with this label.
    pub class: Option<String>,
    /// Only images of this kind.
    pub kind: Option<Kind>,
    /// Only images whose kind does not match the extension of their component.
    pub strays: bool,
    /// Maximum number of samples; `None` for all.
    pub limit: Option<u64>,
}

/// A sample. The field order is the JSON order.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Sample {
    /// Name of the dataset; `None` for foreign files.
    pub dataset: Option<String>,
    /// Name of the shard file.
    pub shard: String,
    /// Number in the dataset, or among the foreign files, from 0.
    pub number: u64,
    /// Key, with replacement characters if it is not UTF-8.
    pub key: String,
    /// Class number.
    pub label: Option<i64>,
    /// Class name.
    pub class: Option<String>,
    /// Kind of the image or sample.
    pub kind: Cow<'static, str>,
    /// Width in pixels; 0 if unknown.
    pub width: u32,
    /// Height in pixels; 0 if unknown.
    pub height: u32,
    /// Colour mode.
    pub mode: &'static str,
    /// Bits per channel; 0 if unknown.
    pub depth: u8,
    /// Length of the image in bytes.
    pub bytes: u64,
    /// Original path, with replacement characters if it is not UTF-8; for foreign files the image file name, if the record has one.
    pub path: Option<String>,
    /// The bytes of the path in hexadecimal, if it is not UTF-8.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(regex(pattern = "^([0-9a-f]{2})*$")))]
    pub path_hex: Option<String>,
}

/// Calls `found` for the samples of `targets` that match `filter`, in order.
///
/// Returns the errors of shards that could not be read; the other shards are listed.
///
/// # Errors
/// If no target has the class, the user cancels, or `found` fails.
pub fn samples(
    targets: &[Target],
    filter: &Filter,
    monitor: &dyn Monitor,
    found: &mut dyn FnMut(&Sample) -> Result<()>,
) -> Result<Vec<Error>> {
    let classes = classes(targets, filter)?;
    let mut walk = Walk { filter, left: filter.limit.unwrap_or(u64::MAX), found, monitor, problems: Vec::new() };
    for (target, class) in targets.iter().zip(classes) {
        match (target, class) {
            (Target::Dataset(view), class) => walk.dataset(view, class)?,
            (Target::Foreign(files), class) => walk.foreign(files, class)?,
        }
    }
    Ok(walk.problems)
}

/// The class selection for one target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ClassFilter<'f> {
    All,
    Label(i64),
    /// By the class name in the samples.
    Named(&'f str),
    /// The target has no such class.
    Nothing,
}

impl ClassFilter<'_> {
    fn takes(self, label: Option<i64>, class: Option<&str>) -> bool {
        match self {
            Self::All => true,
            Self::Label(wanted) => label == Some(wanted),
            Self::Named(wanted) => class == Some(wanted),
            Self::Nothing => false,
        }
    }
}

fn classes<'f>(targets: &[Target], filter: &'f Filter) -> Result<Vec<ClassFilter<'f>>> {
    let Some(wanted) = &filter.class else { return Ok(vec![ClassFilter::All; targets.len()]) };
    let number = wanted.parse::<i64>().ok();
    let of_target = |target: &Target| match target {
        Target::Foreign(files) if files.first().is_some_and(|file| file.kind.has_member_names()) => {
            number.map_or(ClassFilter::Nothing, ClassFilter::Label)
        }
        Target::Foreign(_) => number.map_or(ClassFilter::Named(wanted), ClassFilter::Label),
        Target::Dataset(view) => {
            let classes = view.dataset.classes();
            let named = classes.iter().position(|class| class.name == *wanted).map(|label| label as i64);
            let numbered = number.filter(|number| usize::try_from(*number).is_ok_and(|n| n < classes.len()));
            named.or(numbered).map_or(ClassFilter::Nothing, ClassFilter::Label)
        }
    };
    let all: Vec<_> = targets.iter().map(of_target).collect();
    if all.contains(&ClassFilter::Nothing)
        && !all.iter().any(|class| matches!(class, ClassFilter::Label(_) | ClassFilter::Named(_)))
    {
        return Err(no_class(targets, wanted));
    }
    Ok(all)
}

fn no_class(targets: &[Target], wanted: &str) -> Error {
    let names = targets.iter().find_map(|target| match target {
        Target::Dataset(view) => Some(view.dataset.classes()),
        Target::Foreign(_) => None,
    });
    let error = Error::usage(format!("no class {wanted:?}"));
    match names {
        None => {
            error.help("shards without a manifest have no names of classes: --class takes a label, which is a number")
        }
        Some(classes) => {
            let mut some: Vec<_> = classes.iter().take(NAMED_CLASSES).map(|class| class.name.as_str()).collect();
            let more = format!("… ({} in all)", classes.len());
            if classes.len() > NAMED_CLASSES {
                some.push(&more);
            }
            error.help(format!("the classes are {}", some.join(", ")))
        }
    }
}

struct Walk<'a> {
    filter: &'a Filter,
    left: u64,
    found: &'a mut dyn FnMut(&Sample) -> Result<()>,
    monitor: &'a dyn Monitor,
    problems: Vec<Error>,
}

impl Walk<'_> {
    fn wants(&self, image: &Header, is_stray: impl FnOnce() -> bool) -> bool {
        self.filter.kind.is_none_or(|kind| kind == image.kind) && (!self.filter.strays || is_stray())
    }

    fn tell(&mut self, sample: &Sample) -> Result<()> {
        self.left -= 1;
        (self.found)(sample)
    }

    fn dataset(&mut self, view: &View, class: ClassFilter<'_>) -> Result<()> {
        for shard in view.shards() {
            if self.left == 0 || class == ClassFilter::Nothing {
                break;
            }
            self.shard(view, shard, class)?;
        }
        Ok(())
    }

    fn shard(&mut self, view: &View, shard: Shard<'_>, class: ClassFilter<'_>) -> Result<()> {
        let extension = dataset::image_extension(view);
        let choice = Choice::of_manifest(view.dataset.manifest())?;
        for number in 0..shard.len() {
            if self.left == 0 {
                break;
            }
            if number.is_multiple_of(SAMPLES_AT_ONCE) {
                self.monitor.check_cancelled()?;
            }
            let row = match shard.row(number) {
                Ok(row) => row,
                Err(error) => {
                    self.problems.push(error);
                    break;
                }
            };
            let is_stray = || match &choice.payload {
                None => is_stray(row.image.kind, extension),
                Some(payload) => payload.is_stray(row.image.kind, extension),
            };
            if class.takes(row.label, None) && self.wants(&row.image, is_stray) {
                self.tell(&of_row(view, &choice, shard, shard.samples().start + number, &row))?;
            }
        }
        Ok(())
    }

    fn foreign(&mut self, files: &[ShardFile], class: ClassFilter<'_>) -> Result<()> {
        let mut number = 0;
        for file in files {
            if self.left == 0 || class == ClassFilter::Nothing {
                break;
            }
            let shard = file.path.file_name().unwrap_or_default().to_string_lossy();
            let scanned = scan::scan(file, self.monitor, &mut |scanned| {
                self.monitor.check_cancelled()?;
                let image = scanned.images.first();
                let header = image.map_or(&NO_IMAGE, |image| &image.header);
                let extension = image.and_then(|image| image.extension.as_deref());
                if class.takes(scanned.label, scanned.class.as_deref())
                    && self.wants(header, || is_stray(header.kind, extension))
                {
                    self.tell(&of_foreign(&shard, number, &scanned))?;
                }
                number += 1;
                Ok(if self.left == 0 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
            });
            match scanned {
                Ok(file) => self.problems.extend(file.problem),
                // An error from `found` is not a problem of the file.
                Err(error) if matches!(error.kind(), ErrorKind::Interrupted | ErrorKind::System) => return Err(error),
                Err(error) => self.problems.push(error),
            }
        }
        Ok(())
    }
}

/// Header for a sample without an image.
const NO_IMAGE: Header = Header { kind: Kind::Unknown, width: 0, height: 0, mode: Mode::Unknown, depth: 0 };

fn of_row(view: &View, choice: &Choice, shard: Shard<'_>, number: u64, row: &RowRef<'_>) -> Sample {
    let path_hex = std::str::from_utf8(row.path).is_err().then(|| hash::hex(row.path));
    Sample {
        dataset: Some(view.dataset.name().to_owned()),
        shard: shard.entry().file.clone(),
        number,
        key: String::from_utf8_lossy(row.key).into_owned(),
        label: row.label,
        class: row.label.and_then(|label| view.dataset.class_name(label)).map(str::to_owned),
        kind: choice.kind_of(&row.image, row.path),
        width: row.image.width,
        height: row.image.height,
        mode: row.image.mode.name(),
        depth: row.image.depth,
        bytes: row.payload().1.into(),
        path: Some(String::from_utf8_lossy(row.path).into_owned()),
        path_hex,
    }
}

fn of_foreign(shard: &str, number: u64, scanned: &Scanned) -> Sample {
    let (bytes, image) = scanned.images.first().map_or((0, &NO_IMAGE), |image| (image.bytes, &image.header));
    let path = scanned.filename.as_deref();
    Sample {
        dataset: None,
        shard: shard.to_owned(),
        number,
        key: String::from_utf8_lossy(&scanned.key).into_owned(),
        label: scanned.label,
        class: scanned.class.clone(),
        kind: Cow::Borrowed(image.kind.name()),
        width: image.width,
        height: image.height,
        mode: image.mode.name(),
        depth: image.depth,
        bytes,
        path: path.map(|path| String::from_utf8_lossy(path).into_owned()),
        path_hex: path.filter(|path| std::str::from_utf8(path).is_err()).map(hash::hex),
    }
}

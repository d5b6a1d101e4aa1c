//! `shardpack convert`: converts shards of any writer into shards of shardpack.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use shardpack_format::{
    component::{self, Component},
    formats::{self, foreign::FieldSelection},
    text,
};
use shardpack_packer::{Error, Result, pack::PlanOptions};
use shardpack_source::{
    Datasets, Inputs, Shards, SharedSource, inputs,
    options::{Components, Splits},
    part_of,
    shards::{Preview, SamplePreview},
    shared,
};

use shardpack_reader::StoreSettings;

use super::pack::{RunArgs, look_at, plan_and_go};
use crate::{
    Outcome,
    args::PlanArgs,
    progress::{self, Progress},
    report,
    source_args::{Records, several},
};

/// Options of `convert`.
#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:
  shardpack convert old/ packed/     a folder of shards, or a shardpack dataset
  shardpack convert 'old/train-{000000..000146}.tar' packed/ --format mds
  shardpack convert old/*.tfrecord packed/ --label-feature label    shuffles the samples again
  shardpack convert packed-a/ packed-b/ both/                       merges datasets by class name
  shardpack convert --split train=a/ --split val=b/ packed/
  shardpack convert train.rec packed/ --format tfrecord --order source
  shardpack convert parquet/ packed/ --on-bad skip
  shardpack convert s3://bucket/packed packed/ --format mds         a shardpack dataset at a URL
  shardpack convert 's3://bucket/train-*.tar' packed/               shards at URLs
  shardpack convert 'laion/*.tar' packed/ --components txt
  shardpack convert train.lmdb packed/ --label-from labels.csv
  shardpack convert train.lmdb packed/ --key-pattern '{split}/{class}/{name}.jpg'
  shardpack convert train.lmdb packed/ --from lmdb:image --label-from header:u32le")]
pub struct Args {
    /// Shards, then the folder or URL to write to. Shards are files, folders, globs, brace patterns, or URLs: s3://, gs://,
    /// az://, abfss://, https://
    #[arg(value_names = ["SRC", "DST"], num_args = 1.., required = true)]
    paths: Vec<PathBuf>,
    /// A split and its shards, instead of SRC. Repeat for each split; all share one list of classes
    #[arg(help_heading = crate::help::SOURCE, long = "split", value_name = "NAME=SRC")]
    parts: Vec<PathBuf>,
    #[command(flatten)]
    records: Records,
    /// Components besides image and label, such as captions: all, none, or NAMES separated by commas. all: those that the
    /// format can hold
    #[arg(help_heading = crate::help::SOURCE, long, value_name = "all|none|NAMES", default_value = "all", value_parser = components)]
    components: Components,
    /// Fields to pack as components, separated by commas, with new names for some: energy,forces:f
    #[arg(help_heading = crate::help::SOURCE, long, value_name = "NAME[:AS]", value_delimiter = ',', conflicts_with = "components")]
    fields: Vec<String>,
    /// Fields with numbers, or lists of numbers, that are no classes: each becomes an array NAME.npy. FIELD, FIELD:DTYPE or
    /// NAME=FIELD:DTYPE, separated by commas; a field may be a member of json in a tar [default dtype: that of arrays; int64 for
    /// whole numbers, else float64]
    #[arg(help_heading = crate::help::SOURCE, long, value_name = "[NAME=]FIELD[:DTYPE]", value_delimiter = ',')]
    target: Vec<String>,
    /// Samples have no labels: ignore the labels in records
    #[arg(help_heading = crate::help::SOURCE, long, conflicts_with_all = ["label_feature", "label_from"])]
    no_labels: bool,
    #[command(flatten)]
    pub run: RunArgs,
    // Last: its headings apply to all options that follow.
    #[command(flatten)]
    plan: PlanArgs,
}

impl Args {
    /// Paths that may be URLs.
    pub fn urls(&self) -> Vec<&Path> {
        self.paths.iter().map(PathBuf::as_path).collect()
    }

    /// The store settings for the sources and for DST.
    fn settings(&self) -> Result<(StoreSettings, StoreSettings)> {
        let parts: Vec<_> = self.parts.iter().filter_map(|part| part_of(part)).map(|(_, source)| source).collect();
        let places = self.paths.iter().chain(&parts).map(PathBuf::as_path);
        self.run.store.of_both(&places.collect::<Vec<_>>())
    }
}

/// Runs `convert`.
pub fn run(args: &Args) -> Result<Outcome> {
    progress::catch_interrupts();
    let monitor = Progress::new(args.run.talk.quiet);
    let Some((dst, sources)) = args.paths.split_last() else {
        return Err(Error::usage("DST is missing"));
    };
    let mut options = args.plan.options(args.run.machine.jobs())?;
    let has_components =
        |options: &PlanOptions| formats::entry(&options.bytes.format.name).is_ok_and(|entry| entry.has_components);
    let fields = Fields::parse(&args.fields)?;
    let chosen = if args.fields.is_empty() { &args.components } else { &fields.components };
    let components = match chosen {
        // If no format can hold components, do not read them.
        Components::All if !options.iter().any(has_components) => Components::None,
        components => components.clone(),
    };
    let (source, shards) = match (sources, args.parts.as_slice()) {
        (sources, []) => resolve(args, &components, &fields.renames, sources)?,
        ([], parts) => {
            refuse_some_urls(parts)?;
            let of = |src: &Path| Ok(resolve(args, &components, &fields.renames, &[src.to_path_buf()])?.0);
            (several(parts, of)?, None)
        }
        ([first, ..], _) => {
            return Err(Error::usage("--split already names the sources: give only DST")
                .in_file(first)
                .help(crate::source_args::SPLITS_ALONE));
        }
    };
    look_at(source.as_ref(), &options, dst, &args.run)?;
    // For a dataset of ours, pass on the choice unchanged.
    let components = if source.is_of_shards() { components } else { chosen.clone() };
    for options in &mut options {
        options.bytes.format.wanted = FieldSelection { renames: fields.renames.clone(), ..args.records.kept() };
        options.walk.no_labels = args.no_labels;
        options.walk.components = components.clone();
    }
    let look =
        shards.map(|shards| shards.look(|field, kind| goes_along(field, kind, &options), &monitor)).transpose()?;
    if !args.run.talk.quiet {
        match &look {
            Some(look) => describe(look).iter().for_each(|line| report::say(line)),
            None => {
                let roots: Vec<_> = source.roots().into_iter().map(|root| text::path(root).to_string()).collect();
                let what = if roots.len() == 1 { "a sealed dataset" } else { "several sources" };
                report::say(&format!("shards  {what}: {}", roots.join(", ")));
            }
        }
    }
    plan_and_go(source, &options, (dst, &args.settings()?.1), &args.run, &monitor, look)
}

/// `--components`.
fn components(text: &str) -> Result<Components, String> {
    Ok(match text {
        "all" => Components::All,
        "none" => Components::None,
        names => Components::Named(names.split(',').map(component).collect::<Result<_, _>>()?),
    })
}

/// `--fields`.
struct Fields {
    components: Components,
    /// Fields with new names.
    renames: Vec<(String, String)>,
}

impl Fields {
    fn parse(fields: &[String]) -> Result<Self, Error> {
        let (mut named, mut renames) = (Vec::new(), Vec::new());
        for text in fields {
            let (field, name) = text.rsplit_once(':').unwrap_or((text, text));
            let one = component(name).map_err(|what| Error::usage(format!("--fields {text}: {what}")))?;
            if field != name {
                renames.push((field.to_owned(), one.name().to_owned()));
            }
            named.push(one);
        }
        component::check(&named)?;
        Ok(Self { components: Components::Named(named), renames })
    }
}

fn component(name: &str) -> Result<Component, String> {
    let wrong = |error: Error| error.what();
    match Component::field(name) {
        Ok(_) if name.contains('=') => Err(format!("{name:?}: give only a name, without =PATTERN")),
        found => found.map_err(wrong),
    }
}

/// Whether a field of the samples becomes a component in any of the formats.
fn goes_along(field: &str, kind: &Component, options: &[PlanOptions]) -> bool {
    options.iter().any(|options| {
        let walk = &options.walk;
        let is_left =
            walk.components == Components::All && (walk.no_text || walk.meta && kind.name() == component::TEXT);
        let names = [kind.name(), kind.column()];
        let is_named =
            matches!(walk.components, Components::Named(_)) && names.iter().any(|name| walk.components.wants(name));
        (walk.components.wants_field(field) || is_named)
            && !is_left
            && formats::entry(&options.bytes.format.name).is_ok_and(|entry| entry.has_components)
    })
}

/// The common kind of `sources`: datasets of ours, or shards, which are returned as such too.
fn resolve(
    args: &Args,
    components: &Components,
    renames: &[(String, String)],
    sources: &[PathBuf],
) -> Result<(SharedSource, Option<Arc<Shards>>)> {
    let Args { records, plan, no_labels, .. } = args;
    if sources.is_empty() {
        return Err(Error::usage("SRC is missing").help("shardpack convert SRC DST"));
    }
    // The settings may be for DST only.
    let settings = args.settings()?.0.for_any(sources.iter().map(PathBuf::as_path));
    let given = if records.from.is_some() {
        Inputs::unsorted(sources, &settings)?
    } else {
        let mut given = Inputs::at(sources, &settings)?;
        given.refuse_lost_manifests()?;
        match given.only_ours()? {
            Some(roots) if records.chooses_fields() => {
                return Err(Error::usage("a sealed dataset: its index defines image and label")
                    .in_file(&roots[0].folder)
                    .help(
                        "leave out the options for records, or add --from FORMAT to read it as shards of any writer",
                    ));
            }
            Some(roots) if !args.target.is_empty() => {
                return Err(Error::usage("--target: a sealed dataset has its components already")
                    .in_file(&roots[0].folder)
                    .help("give --target with the source of the dataset, or add --from FORMAT to read it as shards of any writer"));
            }
            Some(roots) if !renames.is_empty() => {
                return Err(Error::usage("a sealed dataset: its components already have names")
                    .in_file(&roots[0].folder)
                    .help(
                        "--fields without new names selects components; --from FORMAT reads it as shards of any writer",
                    ));
            }
            Some(roots) => return Ok((shared(Datasets(roots)), None)),
            None => given,
        }
    };
    // Each `--split` source is exactly one split.
    let splits = if args.parts.is_empty() { plan.splits() } else { Splits::None };
    let targets = args.target.clone();
    let components = match components {
        Components::All => None,
        // The fields of targets are known when the records are read.
        _ if !targets.is_empty() => None,
        Components::None => Some(Vec::new()),
        Components::Named(kinds) => Some(kinds.iter().map(|kind| kind.name().to_owned()).collect()),
    };
    let renames = renames.to_vec();
    let wanted = FieldSelection { no_labels: *no_labels, components, targets, renames, ..records.wanted() };
    let shards = Arc::new(given.shards(sources, records.kind()?, wanted, &splits)?);
    Ok((Arc::clone(&shards) as SharedSource, Some(shards)))
}

/// Fails if some splits are at URLs and others are not.
fn refuse_some_urls(parts: &[PathBuf]) -> Result<()> {
    let sources: Vec<_> = parts.iter().filter_map(|part| part_of(part)).map(|(_, source)| source).collect();
    inputs::refuse_mixed(&sources, &StoreSettings::default()).map(drop)
}

/// The detected format, the fields, and the first samples.
fn describe(look: &Preview) -> Vec<String> {
    let formats: Vec<_> = match look.formats.as_slice() {
        [(name, _)] => vec![name.clone()],
        all => all.iter().map(|(name, files)| format!("{files} {name}")).collect(),
    };
    let mut shards = format!(
        "shards  {} of {}, {}: {}",
        report::counted(look.files, "file"),
        formats.join(", "),
        report::bytes(look.bytes),
        look.first
    );
    if look.files > 1 {
        shards += &format!(" to {}", look.last);
    }
    if !look.splits.is_empty() {
        shards += &format!("; splits {}", look.splits.join(", "));
    }
    let mut lines = vec![shards];
    if !look.understood.is_empty() {
        lines.push(format!("entries {}", look.understood.join("; ")));
    }
    let mut fields = Vec::new();
    if !look.image.is_empty() {
        fields.push(format!("image {}", look.image));
    }
    if !look.label.is_empty() {
        fields.push(format!("label {}", look.label));
    }
    if !look.components.is_empty() {
        fields.push(format!("components {}", look.components.join(", ")));
    }
    if !look.others.is_empty() {
        fields.push(format!("left out: {}", look.others.join(", ")));
    }
    if !fields.is_empty() {
        lines.push(format!("fields  {}", fields.join("; ")));
    }
    lines.extend(look.samples.iter().map(|sample| format!("        {}", describe_sample(sample))));
    lines
}

fn describe_sample(sample: &SamplePreview) -> String {
    let class = sample.class.as_ref().map_or_else(String::new, |class| format!(" ({class})"));
    let image = match &sample.problem {
        Some(problem) => problem.clone(),
        // Values have no pixels.
        None if sample.width == 0 && sample.height == 0 => format!("{}, {}", sample.kind, report::bytes(sample.bytes)),
        None => format!("{} {}×{}, {}", sample.kind, sample.width, sample.height, report::bytes(sample.bytes)),
    };
    format!("{}: label {}{class}, {image}", sample.key, sample.label)
}

//! `shardpack slurm`: packs as a Slurm job array, with a dependent merge job.

mod indices;
mod script;

use std::{
    collections::BTreeSet,
    ffi::{OsStr, OsString},
    path::{Path, PathBuf, absolute},
    process::{Command, Stdio},
};

use clap::{ArgMatches, Args as _, FromArgMatches, parser::ValueSource};
use shardpack_packer::{
    Error, ErrorKind, Result,
    pack::{self, PartState},
};
use shardpack_reader::StoreSettings;
use shardpack_source as source;
use shardpack_storage::Address;

use self::{
    indices::{Limit, Parts},
    script::{Script, What},
};
use super::{pack::OnBadArg, part::one_format};
use crate::{
    Outcome,
    args::{self, PlanArgs, ReadOrderArg},
    embedded, report,
    source_args::SourceArgs,
};

/// Options of `slurm`.
#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:
  shardpack slurm photos/ packed/ --array 64 --time 2:00:00 --cpus-per-task 8 --submit
  shardpack slurm photos/ packed/ --array 64 > pack.sh      read it, then: bash pack.sh
  shardpack slurm --missing packed/ --submit                the parts that failed, and the merge
  shardpack slurm --plan photos.plan packed/ --array 64 --only 3,7,10-12 --submit
  shardpack slurm photos/ packed/ --array 640 --throttle 32 --submit -- --account lab --mem 8G
  shardpack slurm imagenet/ packed/ --array 64 --plan-job --shard-size 512MiB --on-bad skip --submit
  shardpack slurm s3://b/photos s3://b/packed --array 64 --submit   credentials: the environment")]
pub struct Args {
    // First, because parsing these options must see all arguments before the fields below take them.
    #[command(flatten)]
    given: ForwardedOptions,
    /// Source, as for `shardpack pack`. Not with --plan, --missing or --split
    #[arg(value_name = "SRC")]
    first: PathBuf,
    /// Folder to write to, on a file system that all nodes share, or a URL
    #[arg(value_name = "DST", required_unless_present_any = ["plan_file", "missing", "parts"])]
    second: Option<PathBuf>,
    /// Number of parts, one job of the array each. With more parts than nodes, of some minutes each, a lost part costs little
    #[arg(long, value_name = "N", required_unless_present = "missing", value_parser = clap::value_parser!(u32).range(1..=i64::from(indices::MAX_PARTS)))]
    array: Option<u32>,
    /// Submit only these parts of the array, as in 3,7,10-12, and then the merge
    #[arg(long, value_name = "PARTS", value_parser = indices::parts)]
    only: Option<Parts>,
    /// Submit only the parts that DST lacks, and then the merge, with the existing plan file
    #[arg(long, conflicts_with_all = ["only", "plan_job", "parts"])]
    missing: bool,
    /// Submit the jobs, instead of printing the script that does so
    #[arg(long)]
    submit: bool,
    /// Use this plan file, instead of making one
    #[arg(help_heading = crate::help::SOURCE, long = "plan", value_name = "FILE", conflicts_with_all = ["plan_job", "parts"])]
    plan_file: Option<PathBuf>,
    /// Make the plan in a first job, not on the machine that runs the script
    #[arg(long)]
    plan_job: bool,
    /// Time limit of each job, as sbatch takes it. A part near its limit is queued again and resumes [default: the partition's]
    #[arg(long, value_name = "TIME", value_parser = indices::limit)]
    time: Option<Limit>,
    /// Cores per part; a part uses all its cores [default: Slurm's, 1]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    cpus_per_task: Option<u16>,
    /// Partition to run in [default: Slurm's]
    #[arg(long, value_name = "NAME")]
    partition: Option<OsString>,
    /// Maximum number of parts that run at the same time
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    throttle: Option<u32>,
    /// Hash all shards before sealing, as `shardpack merge --verify` does
    #[arg(long)]
    verify: bool,
    /// Folder for the plan file and the output of the jobs [default: DST.slurm; for URLs, the last part of DST with .slurm, in
    /// the current folder]
    #[arg(long, value_name = "FOLDER")]
    logs: Option<PathBuf>,
    /// Program that the jobs run as shardpack [default: this program, by its full path]
    #[arg(long, value_name = "PROGRAM")]
    program: Option<PathBuf>,
    /// Options for sbatch, for all jobs
    #[arg(last = true, value_name = "SBATCH")]
    sbatch: Vec<OsString>,
    #[command(flatten)]
    of_pack: PackArgs,
    #[command(flatten)]
    source: SourceArgs,
    // Last: its headings apply to all options that follow.
    #[command(flatten)]
    plan: PlanArgs,
}

/// Options that each part is given as they are.
#[derive(clap::Args, Debug)]
struct PackArgs {
    /// Memory for images in flight [default: a quarter of the job's memory, at most 4GiB]
    #[arg(long, value_name = "SIZE", value_parser = args::large_size)]
    memory: Option<u64>,
    /// Read order of the source; the shards are the same in any order
    #[arg(long, value_enum, default_value = "auto")]
    read_order: ReadOrderArg,
    /// How to handle images that cannot be packed; error fails the part
    #[arg(help_heading = crate::help::CHOICE, long, value_enum, default_value = "error")]
    on_bad: OnBadArg,
    /// Extra files for certain readers, beside the shards: auto, none, or NAMES separated by commas. See
    /// docs/reference/formats/
    #[arg(help_heading = crate::help::SHARDS, long, default_value = "auto", value_name = "auto|none|NAMES")]
    sidecars: String,
}

/// The given options of `pack`, to be passed on: options of the plan, and options of each part.
#[derive(Clone, Debug, Default)]
struct ForwardedOptions {
    plan: Vec<OsString>,
    pack: Vec<OsString>,
}

/// The options in `matches` that `known` has, in command-line syntax.
fn written(matches: &ArgMatches, known: &clap::Command) -> Vec<OsString> {
    let mut options = Vec::new();
    for option in known.get_arguments() {
        let (id, Some(long)) = (option.get_id().as_str(), option.get_long()) else { continue };
        if !matches.ids().any(|known| known == id) || matches.value_source(id) != Some(ValueSource::CommandLine) {
            continue;
        }
        if !option.get_action().takes_values() {
            options.push(format!("--{long}").into());
            continue;
        }
        for value in matches.get_raw(id).into_iter().flatten() {
            let mut text = OsString::from(format!("--{long}="));
            text.push(value);
            options.push(text);
        }
    }
    options
}

impl FromArgMatches for ForwardedOptions {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let plan = PlanArgs::augment_args(SourceArgs::augment_args(clap::Command::new("plan")));
        let pack = PackArgs::augment_args(clap::Command::new("pack"));
        Ok(Self { plan: written(matches, &plan), pack: written(matches, &pack) })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

impl clap::Args for ForwardedOptions {
    fn augment_args(command: clap::Command) -> clap::Command {
        command
    }

    fn augment_args_for_update(command: clap::Command) -> clap::Command {
        command
    }
}

impl Args {
    /// Paths that may be URLs.
    pub fn urls(&self) -> Vec<&Path> {
        [self.first.as_path()].into_iter().chain(self.second.as_deref()).chain(self.source.list.root()).collect()
    }
}

/// Runs `slurm`.
pub fn run(args: &Args) -> Result<Outcome> {
    let text = script(args)?.text();
    if !args.submit {
        return report::print_bytes(text.as_bytes()).map(|()| Outcome::Done);
    }
    let mut bash = Command::new("bash");
    bash.arg("-c").arg(&text).stdin(Stdio::null());
    let failed = |e| Error::io("cannot run bash", e);
    let code = match embedded::host() {
        None => bash.status().map_err(failed)?.code(),
        Some(_) => {
            let ran = bash.output().map_err(failed)?;
            report::print_bytes(&ran.stdout)?;
            String::from_utf8_lossy(&ran.stderr).lines().for_each(report::say);
            ran.status.code()
        }
    };
    // The failed command has already reported its error.
    match code {
        Some(0) => Ok(Outcome::Done),
        Some(130) => Err(Error::new(ErrorKind::Interrupted, "interrupted while submitting")),
        _ => Ok(Outcome::Refused),
    }
}

fn script(args: &Args) -> Result<Script> {
    if let Some(first) = args.sbatch.first().filter(|word| !word.as_encoded_bytes().starts_with(b"-")) {
        return Err(Error::usage(format!(
            "{}: only options for sbatch can follow --",
            report::path(first.as_encoded_bytes())
        )));
    }
    if let Some((option, why)) = args.sbatch.iter().find_map(|option| Some((option, script::refusal(option)?))) {
        return Err(Error::usage(format!("{}: {why}", report::path(option.as_encoded_bytes()))));
    }
    let (src, dst) = paths(args)?;
    if let Some(src) = src.and_then(|src| Address::of(src).local()) {
        source::packed::refuse_packed(src)?;
    }
    if let (Some(option), true) = (args.given.plan.first(), args.missing || args.plan_file.is_some()) {
        let option = report::path(option.as_encoded_bytes());
        return Err(Error::usage(format!("{option} applies only to a new plan, and the plan exists already")));
    }
    // Report invalid options now, not in a job.
    let options = args.plan.options(1)?;
    let is_changed = options.iter().any(|options| options.recipe.is_some());
    if is_changed && options.len() > 1 {
        return Err(one_format());
    }
    if is_changed && args.plan_job {
        return Err(Error::usage("--plan-job: there is no plan before all images are changed")
            .help("without it, the parts change the images first"));
    }
    let full = |path: &Path| Address::of(path).absolute();
    let folder = std::env::current_dir().map_err(|e| Error::io("cannot determine the current folder", e))?;
    let dst = full(dst)?;
    shardpack_storage::check_writable(shardpack_storage::open_later(&dst, &StoreSettings::default())?.as_ref())?;
    let logs = match (&args.logs, Address::of(&dst).local()) {
        (Some(logs), _) => full(logs)?,
        (None, Some(dst)) => beside(dst)?,
        (None, None) => beside(&folder.join(dst.file_name().unwrap_or_default()))?,
    };
    let plan_file = args.plan_file.as_deref().map_or_else(|| Ok(logs.join("plan")), full)?;
    if args.missing && pack::status(&dst, &StoreSettings::default())?.is_some_and(|status| status.is_changed) {
        return Err(Error::usage("this pack changes images first, so it has no plan file")
            .in_file(&dst)
            .help("run the command that began it again: it submits all parts, and finished work is not repeated"));
    }
    if (args.missing || args.plan_file.is_some()) && !plan_file.is_file() {
        return Err(Error::usage("there is no such plan file").in_file(&plan_file).help(NO_PLAN));
    }
    let (of, parts) = parts(args, &dst)?;
    let what = match args.missing || args.plan_file.is_some() {
        true => What::Plan(plan_file),
        false => {
            let mut arguments: Vec<OsString> =
                src.map(full).transpose()?.into_iter().map(PathBuf::into_os_string).collect();
            arguments.push(dst.clone().into());
            arguments.extend(args.given.plan.iter().cloned());
            match is_changed {
                true => What::Changed(arguments),
                false => What::ToPlan { file: plan_file, arguments, is_job: args.plan_job },
            }
        }
    };
    let with = |name: &str, value: &OsStr| {
        let mut option = OsString::from(name);
        option.push(value);
        option
    };
    let mut sbatch_options = Vec::new();
    sbatch_options.extend(args.time.as_ref().map(|limit| with("--time=", OsStr::new(&limit.text))));
    sbatch_options.extend(args.partition.as_deref().map(|name| with("--partition=", name)));
    sbatch_options.extend(args.sbatch.iter().cloned());
    Ok(Script {
        program: program(args)?,
        folder,
        what,
        dst,
        logs,
        of,
        parts,
        throttle: args.throttle,
        has_memory: args.of_pack.memory.is_some(),
        pack_options: args.given.pack.clone(),
        is_verified: args.verify,
        warning_seconds: indices::warning_seconds(args.time.as_ref()),
        part_options: args.cpus_per_task.map(|cores| format!("--cpus-per-task={cores}").into()).into_iter().collect(),
        sbatch_options,
    })
}

const NO_PLAN: &str = "shardpack slurm SRC DST --array N makes it; choose another one with --plan FILE";

/// SRC, if given, and DST.
fn paths(args: &Args) -> Result<(Option<&Path>, &Path)> {
    match (args.missing || args.plan_file.is_some(), &args.second) {
        (true, None) => Ok((None, &args.first)),
        (true, Some(_)) => Err(Error::usage("the plan file already names the source: give only DST")
            .help("shardpack slurm --plan FILE DST --array N, or shardpack slurm --missing DST")),
        (false, second) => args.source.paths(&args.first, second.as_deref()),
    }
}

/// The folder next to `dst` with the same name and `.slurm`.
fn beside(dst: &Path) -> Result<PathBuf> {
    let mut name = dst.components().as_path().as_os_str().to_owned();
    match dst.file_name() {
        None => Err(Error::usage("has no name for the log folder").in_file(dst).help("set it with --logs FOLDER")),
        Some(_) => {
            name.push(".slurm");
            Ok(name.into())
        }
    }
}

/// The program that the jobs run.
fn program(args: &Args) -> Result<PathBuf> {
    match &args.program {
        Some(program) if program.components().count() > 1 => {
            absolute(program).map_err(|e| Error::io("cannot determine the full path", e).in_file(program))
        }
        Some(program) => Ok(program.clone()),
        // In Python, the current executable is the interpreter.
        None if embedded::host().is_some() => Ok("shardpack".into()),
        None => std::env::current_exe().map_err(|e| Error::io("cannot determine the path of this program", e)),
    }
}

/// The number of all parts, and the parts to submit.
fn parts(args: &Args, dst: &Path) -> Result<(u32, BTreeSet<u32>)> {
    if args.missing {
        return missing(args.array, dst);
    }
    let Some(of) = args.array else { return Err(Error::usage("--array is missing")) };
    let Some(only) = &args.only else { return Ok((of, (1..=of).collect())) };
    match only.0.iter().find(|part| **part > of) {
        Some(part) => Err(Error::usage(format!("--only: there is no part {part} of {of}"))),
        None => Ok((of, only.0.clone())),
    }
}

/// As `parts`, for the parts that DST lacks, except those that are running.
fn missing(array: Option<u32>, dst: &Path) -> Result<(u32, BTreeSet<u32>)> {
    let status = pack::status(dst, &StoreSettings::default())?
        .ok_or_else(|| Error::usage("nothing is unfinished here").in_file(dst))?;
    let of = match (array, status.parts.first()) {
        (Some(of), None) => return Ok((of, (1..=of).collect())),
        (None, None) => {
            return Err(Error::usage("no part was packed here yet")
                .in_file(dst)
                .help("set the number of parts with --array N"));
        }
        (None, Some((part, _))) => part.of,
        (Some(of), Some((part, _))) if part.of == of => of,
        (Some(of), Some((part, _))) => {
            return Err(Error::usage(format!("is packed in {} parts, not in {of}", part.of))
                .in_file(dst)
                .help("leave --array out beside --missing"));
        }
    };
    let all = |wanted: PartState| -> BTreeSet<u32> {
        let parts = status.parts.iter().filter(|(_, state)| *state == wanted && !status.is_complete);
        parts.map(|(part, _)| part.number).collect()
    };
    if !status.knows_running {
        report::say(
            "note    at a URL, running parts cannot be recognised: they are submitted again, which does no harm",
        );
    }
    let running = indices::range(&all(PartState::Running));
    if !running.is_empty() {
        report::say(&format!(
            "note    running parts are left out: {running}; add them with --plan FILE DST --array {of} --only {running}"
        ));
    }
    Ok((of, all(PartState::Missing)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn given(line: &[&str]) -> ForwardedOptions {
        let command = Args::augment_args(clap::Command::new("slurm"));
        let mut matches = command.try_get_matches_from(line).unwrap();
        Args::from_arg_matches_mut(&mut matches).unwrap().given
    }

    #[test]
    fn options_are_passed_on_as_they_were_written_and_no_others() {
        let line = [
            "slurm",
            "SRC",
            "DST",
            "--array",
            "4",
            "--on-bad",
            "skip",
            "--seed=7",
            "--with",
            "txt,mask=*_m.png",
            "--include",
            "a b",
            "--include=c",
            "--no-labels",
            "--time",
            "10",
            "--fix",
            "--shards",
            "3",
            "--memory=1GiB",
            "--submit",
        ];
        let given = given(&line);
        assert_eq!(given.pack, ["--memory=1GiB", "--on-bad=skip"]);
        let mut plan = given.plan;
        plan.sort();
        let expected = [
            "--fix",
            "--include=a b",
            "--include=c",
            "--no-labels",
            "--seed=7",
            "--shards=3",
            "--with=mask=*_m.png",
            "--with=txt",
        ];
        assert_eq!(plan, expected);
    }

    #[test]
    fn each_option_of_plan_and_pack_that_says_what_is_packed_is_one_of_slurm() {
        let command = |name: &str| {
            let cli = crate::command();
            let found = cli.find_subcommand(name).unwrap();
            found.get_arguments().filter_map(|option| option.get_long().map(str::to_owned)).collect::<BTreeSet<_>>()
        };
        let (slurm, plan, pack) = (command("slurm"), command("plan"), command("pack"));
        // Not passed on: Slurm decides the number of cores, and parts do not support the others, because their shards are
        // in a folder.
        let not_here =
            ["output", "json", "quiet", "jobs", "part", "force", "crops", "dry-run", "store", "work", "price"];
        let left_out = plan.union(&pack).filter(|name| !slurm.contains(*name)).collect::<Vec<_>>();
        assert!(left_out.iter().all(|name| not_here.contains(&name.as_str())), "{left_out:?}");
    }
}

//! `--part auto`: finds the part of a process from the variables that its launcher has set.
//!
//! Holds at all times: the result is a function of the variables alone. Variables that do not determine a part
//! are reported and refused, never guessed; two rows with different parts are refused by name.

use std::fmt::Write;

use crate::{Error, Result};

/// Source of the number of parts.
enum Count {
    /// The value of this variable.
    Said(&'static str),
    /// The bounds and the step of the array, and its number of tasks, if set.
    Bounds { first: &'static str, last: &'static str, step: &'static str, tasks: Option<&'static str> },
    /// Not available.
    Unsaid,
}

/// Kind of the processes that are counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Of {
    /// Jobs of an array, or pods of an indexed job.
    Array,
    /// Processes of one job.
    Job,
}

/// A row of the table: a launcher and its variables.
struct Row {
    who: &'static str,
    of: Of,
    /// Counts from 0, except for arrays with bounds.
    index: &'static str,
    /// Value of `index` if there is no array.
    none: &'static str,
    count: Count,
}

const fn row(who: &'static str, of: Of, index: &'static str, count: Count) -> Row {
    Row { who, of, index, none: "", count }
}

use Count::{Bounds, Said, Unsaid};

/// The rows of Slurm: their parts multiply, because each task of an array counts the processes of its step from
/// 0.
const SLURM_ARRAY: &str = "SLURM_ARRAY_TASK_ID";
const SLURM_STEP: &str = "SLURM_PROCID";

/// All known launchers. `SLURM_NTASKS` is set in a batch script too, where one process stands for all: a step
/// has its own count.
const ROWS: [Row; 18] = [
    row(
        "Slurm array",
        Of::Array,
        SLURM_ARRAY,
        Bounds {
            first: "SLURM_ARRAY_TASK_MIN",
            last: "SLURM_ARRAY_TASK_MAX",
            step: "SLURM_ARRAY_TASK_STEP",
            tasks: Some("SLURM_ARRAY_TASK_COUNT"),
        },
    ),
    row("Kubernetes indexed job", Of::Array, "JOB_COMPLETION_INDEX", Said("JOB_COMPLETION_COUNT")),
    row("AWS Batch array", Of::Array, "AWS_BATCH_JOB_ARRAY_INDEX", Said("AWS_BATCH_JOB_ARRAY_SIZE")),
    row("AWS Batch nodes", Of::Job, "AWS_BATCH_JOB_NODE_INDEX", Said("AWS_BATCH_JOB_NUM_NODES")),
    row("Google Batch", Of::Array, "BATCH_TASK_INDEX", Said("BATCH_TASK_COUNT")),
    row("Cloud Run job", Of::Array, "CLOUD_RUN_TASK_INDEX", Said("CLOUD_RUN_TASK_COUNT")),
    Row {
        who: "Grid Engine array",
        of: Of::Array,
        index: "SGE_TASK_ID",
        none: "undefined",
        count: Bounds { first: "SGE_TASK_FIRST", last: "SGE_TASK_LAST", step: "SGE_TASK_STEPSIZE", tasks: None },
    },
    row("PBS array", Of::Array, "PBS_ARRAY_INDEX", Unsaid),
    row("Torque array", Of::Array, "PBS_ARRAYID", Unsaid),
    // Its bounds are available, but not the indices that a list leaves out.
    Row { who: "LSF array", of: Of::Array, index: "LSB_JOBINDEX", none: "0", count: Unsaid },
    row("Slurm step", Of::Job, SLURM_STEP, Said("SLURM_STEP_NUM_TASKS")),
    row("Open MPI", Of::Job, "OMPI_COMM_WORLD_RANK", Said("OMPI_COMM_WORLD_SIZE")),
    row("PMI", Of::Job, "PMI_RANK", Said("PMI_SIZE")),
    row("PMIx", Of::Job, "PMIX_RANK", Unsaid),
    row("MVAPICH", Of::Job, "MV2_COMM_WORLD_RANK", Said("MV2_COMM_WORLD_SIZE")),
    row("Flux", Of::Job, "FLUX_TASK_RANK", Said("FLUX_JOB_SIZE")),
    row("PALS", Of::Job, "PALS_RANKID", Unsaid),
    row("torchrun and others", Of::Job, "RANK", Said("WORLD_SIZE")),
];

/// The part from one row, with its variables as `NAME=VALUE`.
#[derive(Clone, Debug)]
struct Claim {
    index: &'static str,
    of: Of,
    /// Part, counted from 1, and number of parts.
    part: (u32, u32),
    seen: String,
}

const GIVE: &str = "give the part: --part I/N";

fn help_of_index(index: &str) -> String {
    format!("give the part of the whole array: for 0 to 63, --part $(({index} + 1))/64")
}

/// The part of a process, counted from 1, and the number of parts, from the variables that `lookup` finds.
///
/// An empty variable counts as not set. If the tasks of a Slurm array start processes with `srun`, each process
/// has a part.
///
/// # Errors
/// Usage: if no part is determined, as in an array that leaves indices out or begins above 1, or if two rows
/// have different parts.
pub fn part_auto(lookup: impl Fn(&str) -> Option<String>) -> Result<(u32, u32)> {
    let lookup = |name: &str| lookup(name).filter(|value| !value.is_empty());
    let (mut claims, mut unsaid) = (Vec::new(), Vec::new());
    for row in &ROWS {
        let Some(index) = lookup(row.index).filter(|index| index != row.none) else { continue };
        match claim(row, &index, &lookup)? {
            Some(claim) => claims.push(claim),
            // The result would ignore which job of an array this process belongs to.
            None if row.of == Of::Array => return Err(without_count(row, &index)),
            None => unsaid.push((row, index)),
        }
    }
    // One process of one carries no information if another row distinguishes processes.
    if claims.iter().any(|claim| claim.part.1 > 1 || claim.of == Of::Array) {
        claims.retain(|claim| claim.part.1 > 1 || claim.of == Of::Array);
    }
    let (arrays, jobs): (Vec<&Claim>, Vec<&Claim>) = claims.iter().partition(|claim| claim.of == Of::Array);
    let (array, job) = (agreed(&arrays)?, agreed(&jobs)?);
    match (array, job) {
        (Some(array), Some(job)) => {
            let is_slurm = arrays.iter().any(|claim| claim.index == SLURM_ARRAY)
                && jobs.iter().any(|claim| claim.index == SLURM_STEP);
            if is_slurm { product(array, job) } else { agreed(&[array, job])?.map(|claim| claim.part).ok_or_else(none) }
        }
        (None, Some(job)) if job.index == SLURM_STEP && job.part.1 == 1 => Err(Error::usage(format!(
            "--part auto: {} is a step of one process, and a job may have many such steps",
            job.seen
        ))
        .help(GIVE)),
        (Some(claim), None) | (None, Some(claim)) => Ok(claim.part),
        (None, None) => match unsaid.first() {
            Some((row, index)) if row.index != SLURM_STEP => Err(without_count(row, index)),
            _ => Err(of_batch_script(&lookup).unwrap_or_else(none)),
        },
    }
}

/// The part from a row with index `index`; `None` if its count is not set.
fn claim(row: &Row, index: &str, lookup: &impl Fn(&str) -> Option<String>) -> Result<Option<Claim>> {
    let number = |name: &str, value: &str| {
        let is_number = !value.is_empty() && value.bytes().all(|byte| byte.is_ascii_digit());
        let number = value.parse().ok().filter(|_| is_number);
        let wrong = || Error::usage(format!("--part auto: {name}={value:?} is no number from 0 to {}", u32::MAX));
        number.ok_or_else(|| wrong().help(GIVE))
    };
    let of = |name: &str| lookup(name).map(|value| number(name, &value)).transpose();
    let at = number(row.index, index)?;
    let claim = |part: (u32, u32), seen: String| Claim { index: row.index, of: row.of, part, seen };
    match row.count {
        Unsaid => Ok(None),
        Said(name) => {
            let Some(count) = of(name)? else { return Ok(None) };
            let seen = format!("{}={at} of {name}={count}", row.index);
            match at < count {
                true => Ok(Some(claim((at + 1, count), seen))),
                false => Err(Error::usage(format!("--part auto: {seen}: the {} counts from 0", row.who)).help(GIVE)),
            }
        }
        Bounds { first, last, step, tasks } => {
            let said = (of(first)?, of(last)?, of(step)?, tasks.map(of).transpose()?.flatten());
            let (Some(from), Some(to), by, tasks) = said else { return Ok(None) };
            let by = by.unwrap_or(1);
            let mut seen = format!("{}={at} in {first}={from} to {last}={to}", row.index);
            let count = u64::from(to).checked_sub(u64::from(from)).map(|width| width + 1);
            let count = count.and_then(|count| u32::try_from(count).ok()).unwrap_or(0);
            let refuse = |seen: &str, why: &str| {
                // The size of the whole array is unknown here: missing indices may be at its end.
                let help = help_of_index(row.index);
                Err(Error::usage(format!("--part auto: {seen}: {why}")).help(help))
            };
            if count == 0 {
                return refuse(&seen, "these are no bounds of an array");
            }
            if by != 1 && count > 1 {
                let _ = write!(seen, " by {step}={by}");
                return refuse(&seen, "an array that leaves indices out determines no part");
            }
            if let (Some(tasks), Bounds { tasks: Some(name), .. }) = (tasks, &row.count)
                && tasks != count
            {
                let _ = write!(seen, ", {name}={tasks}");
                return refuse(&seen, "an array that leaves indices out determines no part");
            }
            if !(from..=to).contains(&at) {
                return refuse(&seen, "the index is out of its array");
            }
            if from > 1 {
                return refuse(&seen, "an array that begins above 1 may be the rest of a larger one");
            }
            Ok(Some(claim((at - from + 1, count), seen)))
        }
    }
}

/// The first of `claims`; fails if another claim has another part.
fn agreed<'a>(claims: &[&'a Claim]) -> Result<Option<&'a Claim>> {
    let Some((first, rest)) = claims.split_first() else { return Ok(None) };
    match rest.iter().find(|claim| claim.part != first.part) {
        None => Ok(Some(first)),
        Some(other) => {
            let said = |claim: &Claim| format!("{}/{} by {}", claim.part.0, claim.part.1, claim.seen);
            Err(Error::usage(format!(
                "--part auto: the variables name two parts: {}, and {}",
                said(first),
                said(other)
            ))
            .help(format!("give the right part with --part I/N, counted from 1, or unset {}", other.index)))
        }
    }
}

/// Part of a process in a job that is one of an array of equal jobs.
fn product(array: &Claim, job: &Claim) -> Result<(u32, u32)> {
    let ((at, jobs), (process, processes)) = (array.part, job.part);
    let product = jobs.checked_mul(processes).map(|parts| ((at - 1) * processes + process, parts));
    product.ok_or_else(|| {
        Error::usage(format!("--part auto: {jobs} jobs with {processes} processes each are more than {}", u32::MAX))
            .help(GIVE)
    })
}

fn without_count(row: &Row, index: &str) -> Error {
    let error = Error::usage(format!(
        "--part auto: {}={index} ({}) gives no number of parts{}",
        row.index,
        row.who,
        match row.count {
            Said(name) => format!(": {name} is not set"),
            Bounds { first, last, .. } => format!(": {first} and {last} are not set"),
            Unsaid => String::new(),
        }
    ));
    match row.count {
        Said("JOB_COMPLETION_COUNT") => error.help(
            "Kubernetes sets no count: in the manifest, give the container the variable JOB_COMPLETION_COUNT with the value \
             of spec.completions, or --part I/N",
        ),
        _ => {
            let help = help_of_index(row.index);
            error.help(help)
        }
    }
}

/// Error for a Slurm job outside of its steps.
fn of_batch_script(lookup: &impl Fn(&str) -> Option<String>) -> Option<Error> {
    let job = lookup("SLURM_JOB_ID")?;
    let tasks = lookup("SLURM_NTASKS").map_or_else(String::new, |tasks| format!(" with SLURM_NTASKS={tasks}"));
    let what = format!(
        "--part auto: SLURM_JOB_ID={job}{tasks} is a job without an array, and this process is not one of its steps"
    );
    Some(Error::usage(what).help("start it with srun, submit an array as `shardpack slurm` does, or give --part I/N"))
}

fn none() -> Error {
    let names: Vec<&str> = ROWS.iter().filter(|row| !matches!(row.count, Unsaid)).map(|row| row.index).collect();
    Error::usage("--part auto: no variable names the part")
        .help(format!("give --part I/N; auto reads {}", names.join(", ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The result, or the first line of the error and the help.
    fn ask(variables: &str) -> std::result::Result<(u32, u32), (String, String)> {
        let pairs: Vec<(&str, &str)> = variables.split_whitespace().filter_map(|pair| pair.split_once('=')).collect();
        let lookup = |name: &str| pairs.iter().rfind(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned());
        let part = part_auto(lookup);
        part.map_err(|error| (error.what(), error.help_text().unwrap_or_default().to_owned()))
    }

    /// Variables of a task of a Slurm array, as `sbatch` sets them.
    fn array(id: u32, min: u32, max: u32, count: u32, step: u32) -> String {
        format!(
            "SLURM_JOB_ID=9 SLURM_PROCID=0 SLURM_ARRAY_JOB_ID=9 SLURM_ARRAY_TASK_ID={id} SLURM_ARRAY_TASK_MIN={min} \
             SLURM_ARRAY_TASK_MAX={max} SLURM_ARRAY_TASK_COUNT={count} SLURM_ARRAY_TASK_STEP={step}"
        )
    }

    fn step(process: u32, processes: u32) -> String {
        format!(
            "SLURM_JOB_ID=9 SLURM_NTASKS={processes} SLURM_PROCID={process} SLURM_STEP_ID=0 SLURM_STEP_NUM_TASKS={processes}"
        )
    }

    #[test]
    fn each_row_determines_its_part() {
        let array_of_steps = format!("{} {}", array(2, 0, 7, 8, 1), step(1, 4));
        let with_pmi = format!("{} PMI_RANK=3 PMI_SIZE=4 PMIX_RANK=3", step(3, 4));
        let array_with_pmi = format!("{} {} PMI_RANK=1 PMI_SIZE=4", array(7, 0, 7, 8, 1), step(1, 4));
        let array_with_ntasks = format!("{} SLURM_NTASKS=4", array(3, 0, 7, 8, 1));
        let cases: [(&str, &str, (u32, u32)); 32] = [
            ("first of an array", &array(0, 0, 63, 64, 1), (1, 64)),
            ("last of an array", &array(63, 0, 63, 64, 1), (64, 64)),
            ("an array that counts from 1", &array(8, 1, 8, 8, 1), (8, 8)),
            ("an array of one", &array(0, 0, 0, 1, 1), (1, 1)),
            ("a batch script with --ntasks is one process", &array_with_ntasks, (4, 8)),
            ("an array whose tasks have one process", &format!("{} {}", array(2, 0, 7, 8, 1), step(0, 1)), (3, 8)),
            ("an array whose tasks have four", &array_of_steps, (10, 32)),
            (
                "an array without its step",
                "SLURM_ARRAY_TASK_ID=1 SLURM_ARRAY_TASK_MIN=0 SLURM_ARRAY_TASK_MAX=1",
                (2, 2),
            ),
            ("a process of a step", &step(3, 4), (4, 4)),
            ("the same by PMI", &with_pmi, (4, 4)),
            ("an array whose tasks have four, the same by PMI", &array_with_pmi, (30, 32)),
            ("Kubernetes", "JOB_COMPLETION_INDEX=5 JOB_COMPLETION_COUNT=100000", (6, 100_000)),
            ("AWS Batch", "AWS_BATCH_JOB_ARRAY_INDEX=9 AWS_BATCH_JOB_ARRAY_SIZE=10", (10, 10)),
            ("AWS Batch, nodes", "AWS_BATCH_JOB_NODE_INDEX=0 AWS_BATCH_JOB_NUM_NODES=3", (1, 3)),
            ("Google Batch", "BATCH_TASK_INDEX=1 BATCH_TASK_COUNT=3", (2, 3)),
            ("Cloud Run", "CLOUD_RUN_TASK_INDEX=2 CLOUD_RUN_TASK_COUNT=3", (3, 3)),
            ("Grid Engine", "SGE_TASK_ID=4 SGE_TASK_FIRST=1 SGE_TASK_LAST=8 SGE_TASK_STEPSIZE=1", (4, 8)),
            ("Open MPI", "OMPI_COMM_WORLD_RANK=0 OMPI_COMM_WORLD_SIZE=2 PMIX_RANK=0", (1, 2)),
            ("PMI", "PMI_RANK=1 PMI_SIZE=2", (2, 2)),
            ("MVAPICH", "MV2_COMM_WORLD_RANK=1 MV2_COMM_WORLD_SIZE=2", (2, 2)),
            ("Flux", "FLUX_TASK_RANK=6 FLUX_JOB_SIZE=7", (7, 7)),
            ("torchrun", "RANK=7 WORLD_SIZE=8 LOCAL_RANK=3", (8, 8)),
            ("one process", "RANK=0 WORLD_SIZE=1", (1, 1)),
            ("the same twice", "RANK=7 WORLD_SIZE=8 OMPI_COMM_WORLD_RANK=7 OMPI_COMM_WORLD_SIZE=8", (8, 8)),
            (
                "an array and one process",
                "AWS_BATCH_JOB_ARRAY_INDEX=1 AWS_BATCH_JOB_ARRAY_SIZE=2 RANK=0 WORLD_SIZE=1",
                (2, 2),
            ),
            ("the same by array and rank", "JOB_COMPLETION_INDEX=1 JOB_COMPLETION_COUNT=2 RANK=1 WORLD_SIZE=2", (2, 2)),
            ("steps and one process", &format!("{} RANK=0 WORLD_SIZE=1", step(2, 4)), (3, 4)),
            ("empty is none", "RANK= WORLD_SIZE= PMI_RANK=0 PMI_SIZE=2", (1, 2)),
            ("no array of Grid Engine", "SGE_TASK_ID=undefined RANK=1 WORLD_SIZE=2", (2, 2)),
            ("no array of LSF", "LSB_JOBINDEX=0 RANK=1 WORLD_SIZE=2", (2, 2)),
            ("a rank without a count beside one with", "PALS_RANKID=1 RANK=1 WORLD_SIZE=2", (2, 2)),
            ("leading zeros", "RANK=01 WORLD_SIZE=002", (2, 2)),
        ];
        for (name, variables, part) in cases {
            assert_eq!(ask(variables), Ok(part), "{name}");
        }
    }

    #[test]
    fn what_determines_no_part_is_refused_with_what_was_seen() {
        let huge =
            "SLURM_ARRAY_TASK_ID=1 SLURM_ARRAY_TASK_MIN=0 SLURM_ARRAY_TASK_MAX=65535 SLURM_ARRAY_TASK_COUNT=65536";
        let cases: [(&str, &str, &[&str], &str); 29] = [
            ("nothing", "", &["no variable names the part"], "SLURM_ARRAY_TASK_ID, JOB_COMPLETION_INDEX"),
            (
                "a rerun of two",
                &array(3, 3, 7, 2, 1),
                &["SLURM_ARRAY_TASK_ID=3", "=7", "COUNT=2"],
                "$((SLURM_ARRAY_TASK_ID + 1))/64",
            ),
            ("a rerun of two that begins at 0", &array(0, 0, 7, 2, 1), &["COUNT=2", "leaves indices out"], "--part"),
            ("a rerun of one", &array(5, 5, 5, 1, 1), &["MIN=5", "rest of a larger one"], "--part"),
            ("a rerun of the last three", &array(6, 5, 7, 3, 1), &["MIN=5", "rest of a larger one"], "--part"),
            ("every second", &array(2, 0, 6, 4, 2), &["STEP=2", "leaves indices out"], "--part"),
            (
                "every second, without a count",
                "SGE_TASK_ID=3 SGE_TASK_FIRST=1 SGE_TASK_LAST=7 SGE_TASK_STEPSIZE=2",
                &["STEPSIZE=2"],
                "SGE_TASK_ID",
            ),
            (
                "the end of Grid Engine's",
                "SGE_TASK_ID=5 SGE_TASK_FIRST=5 SGE_TASK_LAST=7 SGE_TASK_STEPSIZE=1",
                &["FIRST=5"],
                "--part",
            ),
            ("out of its array", &array(9, 0, 7, 8, 1), &["=9", "out of its array"], "--part"),
            ("bounds the wrong way", &array(0, 7, 0, 8, 1), &["no bounds"], "--part"),
            ("all numbers there are", &array(0, 0, u32::MAX, 0, 1), &["no bounds", "MAX=4294967295"], "--part"),
            (
                "an array without bounds",
                "SLURM_ARRAY_TASK_ID=3",
                &["TASK_MIN and SLURM_ARRAY_TASK_MAX are not set"],
                "--part",
            ),
            (
                "a batch script with four processes",
                "SLURM_JOB_ID=9 SLURM_NTASKS=4 SLURM_PROCID=0",
                &["NTASKS=4", "not one of its"],
                "srun",
            ),
            ("a batch script", "SLURM_JOB_ID=9 SLURM_PROCID=0", &["SLURM_JOB_ID=9"], "srun"),
            ("a step of one", &step(0, 1), &["SLURM_PROCID=0", "may have many"], "--part"),
            (
                "a step of one and one rank",
                &format!("{} RANK=0 WORLD_SIZE=1", step(0, 1)),
                &["may have many"],
                "--part",
            ),
            (
                "Kubernetes without a count",
                "JOB_COMPLETION_INDEX=5",
                &["JOB_COMPLETION_COUNT is not set"],
                "spec.completions",
            ),
            (
                "Kubernetes, counted from 1",
                "JOB_COMPLETION_INDEX=8 JOB_COMPLETION_COUNT=8",
                &["counts from 0"],
                "--part",
            ),
            ("AWS Batch without a size", "AWS_BATCH_JOB_ARRAY_INDEX=5", &["ARRAY_SIZE is not set"], "--part"),
            (
                "PBS",
                "PBS_ARRAY_INDEX=5",
                &["PBS_ARRAY_INDEX=5 (PBS array)", "no number of parts"],
                "$((PBS_ARRAY_INDEX + 1))/64",
            ),
            ("PBS with ranks", "PBS_ARRAY_INDEX=5 RANK=1 WORLD_SIZE=2", &["PBS_ARRAY_INDEX=5"], "--part"),
            ("Torque", "PBS_ARRAYID=5", &["PBS_ARRAYID=5"], "--part"),
            ("LSF", "LSB_JOBINDEX=5 LSB_JOBINDEX_END=8", &["LSB_JOBINDEX=5"], "--part"),
            ("PMIx alone", "PMIX_RANK=5", &["PMIX_RANK=5", "no number of parts"], "--part"),
            ("a rank without a size", "RANK=5", &["WORLD_SIZE is not set"], "--part"),
            ("no number", "RANK=x WORLD_SIZE=2", &["RANK=\"x\" is no number"], "--part"),
            ("a sign", "RANK=+1 WORLD_SIZE=2", &["RANK=\"+1\""], "--part"),
            ("none of none", "RANK=0 WORLD_SIZE=0", &["WORLD_SIZE=0"], "--part"),
            ("too many", &format!("{} {huge}", step(0, 65_536)), &["65536 jobs"], "--part"),
        ];
        for (name, variables, what, help) in cases {
            let (error, tip) = ask(variables).expect_err(name);
            assert!(what.iter().all(|what| error.contains(what)), "{name}: {error}");
            assert!(tip.contains(help) && tip.contains("--part"), "{name}: {tip}");
        }
    }

    #[test]
    fn two_that_say_different_parts_are_refused_by_name() {
        let ranks_of_an_array = format!("{} RANK=1 WORLD_SIZE=2", array(0, 0, 7, 8, 1));
        let ranks_of_a_step = format!("{} RANK=9 WORLD_SIZE=32", step(1, 4));
        let steps_and_ranks_of_an_array = format!("{} {} RANK=9 WORLD_SIZE=32", array(0, 0, 7, 8, 1), step(1, 4));
        let cases = [
            ("two launchers", "RANK=0 WORLD_SIZE=2 PMI_RANK=1 PMI_SIZE=2", "PMI_RANK", "RANK"),
            (
                "two sizes",
                "RANK=0 WORLD_SIZE=2 OMPI_COMM_WORLD_RANK=0 OMPI_COMM_WORLD_SIZE=4",
                "OMPI_COMM_WORLD_RANK",
                "RANK",
            ),
            ("ranks beside an array", &ranks_of_an_array, "SLURM_ARRAY_TASK_ID", "RANK"),
            ("ranks over all steps", &ranks_of_a_step, "SLURM_PROCID", "RANK"),
            ("ranks in steps of an array", &steps_and_ranks_of_an_array, "SLURM_PROCID", "RANK"),
            (
                "global ranks in pods",
                "JOB_COMPLETION_INDEX=1 JOB_COMPLETION_COUNT=2 RANK=3 WORLD_SIZE=4",
                "JOB_COMPLETION_INDEX",
                "RANK",
            ),
            (
                "an array in an array",
                "AWS_BATCH_JOB_ARRAY_INDEX=1 AWS_BATCH_JOB_ARRAY_SIZE=2 JOB_COMPLETION_INDEX=0 JOB_COMPLETION_COUNT=2",
                "JOB_COMPLETION_INDEX",
                "AWS_BATCH_JOB_ARRAY_INDEX",
            ),
        ];
        for (name, variables, one, other) in cases {
            let (error, tip) = ask(variables).expect_err(name);
            assert!(error.contains("two parts") && error.contains(&format!("by {one}=")), "{name}: {error}");
            assert!(error.contains(&format!("by {other}=")) && tip.contains("--part"), "{name}: {error}; {tip}");
        }
    }

    #[test]
    fn the_processes_of_an_array_have_each_part_once() {
        let mut parts = Vec::new();
        for job in 0..5 {
            for process in 0..3 {
                parts.push(ask(&format!("{} {}", array(job, 0, 4, 5, 1), step(process, 3))));
            }
        }
        assert_eq!(parts, (1..=15).map(|part| Ok((part, 15))).collect::<Vec<_>>());
    }
}

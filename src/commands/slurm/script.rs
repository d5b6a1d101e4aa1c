//! Generates the script that submits a pack to Slurm: plan, array of parts, merge.
//!
//! Holds at all times: all names are quoted, so that `bash` runs exactly the requested commands; each part gets its number
//! explicitly, so that a job with any range of indices packs the part of its index; options for `sbatch` are on its command line,
//! where they take precedence over environment variables of the site or the user.

use std::{
    collections::BTreeSet,
    ffi::{OsStr, OsString},
    os::unix::ffi::{OsStrExt, OsStringExt},
    path::{Path, PathBuf},
};

use shardpack_format::shell::{word, words};

use super::indices::range;

/// Largest number of automatic requeues of a part that reached its time limit.
const MAX_RESTARTS: u32 = 50;

/// Parameters of the script.
#[derive(Debug)]
pub struct Script {
    /// The program to run: a path, or a name on the `PATH` of the jobs.
    pub program: PathBuf,
    /// Working folder of the script and its jobs.
    pub folder: PathBuf,
    /// The input of the parts.
    pub what: What,
    pub dst: PathBuf,
    /// Folder for the output of the jobs.
    pub logs: PathBuf,
    /// Number of all parts.
    pub of: u32,
    /// Parts to submit, from 1; empty if only the merge remains.
    pub parts: BTreeSet<u32>,
    /// Largest number of parts that run at once.
    pub throttle: Option<u32>,
    /// Options of `pack` for each part.
    pub pack_options: Vec<OsString>,
    /// Whether `pack_options` have a memory budget.
    pub has_memory: bool,
    /// Whether merge hashes the shards.
    pub is_verified: bool,
    /// Seconds between the warning to a part and its time limit.
    pub warning_seconds: u64,
    /// `sbatch` options for the parts only.
    pub part_options: Vec<OsString>,
    /// `sbatch` options for all jobs, in order.
    pub sbatch_options: Vec<OsString>,
}

/// The input of the parts.
#[derive(Debug)]
pub enum What {
    /// An existing plan file.
    Plan(PathBuf),
    /// A plan file that does not exist yet, with the arguments of `plan` before `-o`. If `is_job`, a job makes it; otherwise the
    /// submitting machine makes it.
    ToPlan { file: PathBuf, arguments: Vec<OsString>, is_job: bool },
    /// A plan that is made after all parts have changed their images, with the arguments of `pack`.
    Changed(Vec<OsString>),
}

impl Script {
    /// The text of the script.
    pub fn text(&self) -> String {
        let Self { of, .. } = self;
        let (program, dst, logs) = (word(&self.program), word(&self.dst), word(&self.logs));
        let mut out = format!(
            "#!/bin/bash\n\
             # Packs into {dst} as a Slurm job array, and seals it when all parts are packed. Submit with: bash FILE\n\
             # A second run packs the missing parts. Made by `shardpack slurm`.\n\
             set -euo pipefail\n\
             command -v sbatch >/dev/null || {{ echo 'error: there is no sbatch on this machine' >&2; exit 2; }}\n\
             cd -- {}\nmkdir -p -- {logs}\n",
            word(&self.folder)
        );
        let mut after = "";
        if let What::ToPlan { file, arguments, is_job } = &self.what {
            let command = format!("{program} plan {} -o {}", words(arguments), word(file));
            if *is_job {
                let body = format!("#!/bin/bash\n{}exec {command}\n", self.go_to_folder());
                out += "\n# The plan, made by a separate job.\n";
                out += &self.sbatch("plan", &[], "shardpack-plan", "plan.log", None, &body);
                after = "$plan";
            } else {
                out += &format!("\n# The plan.\n{command}\n");
            }
        }
        if let (What::Changed(_), false) = (&self.what, self.parts.is_empty()) {
            out += &format!(
                "\n# The images: job I of the array changes the images of part I of {of}. Planning follows.\n"
            );
            out += &self.array("images", "shardpack-images", "images-%4a.log", after);
            after = "$images";
        }
        if !self.parts.is_empty() {
            out += &format!("\n# The parts: job I of the array packs part I of {of}.\n");
            out += &self.array("parts", "shardpack-part", "part-%4a.log", after);
            after = "$parts";
        }
        out += "\n# The merge, after all parts have succeeded.\n";
        let verify = if self.is_verified { " --verify" } else { "" };
        let merge = format!("#!/bin/bash\nexec {program} merge {dst}{verify}\n");
        out += &self.sbatch("merge", &[], "shardpack-merge", "merge.log", (!after.is_empty()).then_some(after), &merge);
        out += "\n";
        if let What::ToPlan { is_job: true, .. } = self.what {
            out += "echo \"plan    job $plan\"\n";
        }
        if let (What::Changed(_), false) = (&self.what, self.parts.is_empty()) {
            out += &format!("echo \"images  job $images: {} of {of}\"\n", range(&self.parts));
        }
        if !self.parts.is_empty() {
            out += &format!("echo \"parts   job $parts: {} of {of}\"\n", range(&self.parts));
        }
        out += "echo \"merge   job $merge\"\n";
        out += &format!(
            "printf 'logs    %s\\n' {logs}\nprintf 'next    squeue --me; shardpack status %s\\n' {}\n",
            word(&dst)
        );
        out
    }

    /// Submits the parts, after the job `after` has succeeded, if there is such a job.
    fn array(&self, name: &str, job: &str, log: &str, after: &str) -> String {
        let most = self.throttle.map_or_else(String::new, |most| format!("%{most}"));
        let mut options: Vec<OsString> = vec![
            format!("--array={}{most}", range(&self.parts)).into(),
            format!("--signal=B:USR1@{}", self.warning_seconds).into(),
        ];
        options.extend(self.part_options.iter().cloned());
        self.sbatch(name, &options, job, log, (!after.is_empty()).then_some(after), &self.part())
    }

    /// Jobs may start in another folder, if the user's options set one.
    fn go_to_folder(&self) -> String {
        format!("cd -- {} || exit 2\n", word(&self.folder))
    }

    /// Submits `body`, and stores the job number in the variable `name`.
    fn sbatch(
        &self,
        name: &str,
        options: &[OsString],
        job: &str,
        log: &str,
        after: Option<&str>,
        body: &str,
    ) -> String {
        let mut words_of: Vec<OsString> = vec!["--parsable".into(), format!("--job-name={job}").into()];
        words_of.extend(["--requeue".into(), "--open-mode=append".into()]);
        let mut output = OsString::from("--output=");
        output.push(log_pattern(&self.logs, log));
        words_of.push(output);
        words_of.extend(options.iter().chain(&self.sbatch_options).cloned());
        let mut line = words(words_of);
        if let Some(after) = after {
            line += &format!(" --dependency=\"afterok:{after}\" --kill-on-invalid-dep=yes");
        }
        // With several clusters, --parsable prints JOB;CLUSTER.
        format!("{name}=$(sbatch {line} <<'JOB'\n{body}JOB\n)\n{name}=${{{name}%%;*}}\n")
    }

    /// The script of a part.
    ///
    /// Slurm sends TERM to all processes of a job that it cancels or requeues, so the shell only has to outlive the signal. The
    /// warning before the time limit goes to the shell alone: the shell ends the part and requeues it.
    fn part(&self) -> String {
        let memory = match self.has_memory {
            true => String::new(),
            // A job may have less memory than the machine: use a quarter of the job's memory, as pack uses a quarter of the
            // machine's.
            false => "\
mib=${SLURM_MEM_PER_NODE:-$((${SLURM_MEM_PER_CPU:-0} * ${SLURM_CPUS_ON_NODE:-1}))}
if [ \"$mib\" -gt 0 ]; then budget=(--memory \"$((mib > 16384 ? 4096 : mib / 4 + 1))MiB\"); fi
"
            .to_owned(),
        };
        let (of_what, begin) = match &self.what {
            What::Plan(file) | What::ToPlan { file, .. } => {
                (format!("--plan {} {}", word(file), word(&self.dst)), String::new())
            }
            What::Changed(arguments) => (words(arguments), self.go_to_folder()),
        };
        let pack = format!(
            "{} pack {of_what} --part \"$SLURM_ARRAY_TASK_ID/{}\" --jobs \"${{SLURM_CPUS_ON_NODE:-1}}\" \"${{budget[@]}}\"{}",
            word(&self.program),
            self.of,
            self.pack_options.iter().map(|option| format!(" {}", word(option))).collect::<String>()
        );
        format!(
            "\
#!/bin/bash
# Stops cleanly on a signal, and resumes when it is run again.
{begin}told= late=
trap 'told=1' TERM
trap 'told=1; late=1; kill -TERM \"$pack\" 2>/dev/null' USR1
budget=()
{memory}echo \"part    $SLURM_ARRAY_TASK_ID of {of}, run $((${{SLURM_RESTART_COUNT:-0}} + 1)), on ${{SLURMD_NODENAME:-this machine}}\"
{pack} &
pack=$!
while told=; wait \"$pack\"; code=$?; [ -n \"$told\" ]; do :; done
if [ -n \"$late\" ] && [ \"$code\" = 130 ] && [ \"${{SLURM_RESTART_COUNT:-0}}\" -lt {MAX_RESTARTS} ]; then
    echo \"part    $SLURM_ARRAY_TASK_ID has reached its time limit: queued again, it resumes\"
    scontrol requeue \"${{SLURM_ARRAY_JOB_ID}}_$SLURM_ARRAY_TASK_ID\"
fi
exit \"$code\"
",
            of = self.of
        )
    }
}

/// The value of `sbatch --output` for the file `log` in `folder`. In folder names, `%` begins a pattern. A backslash disables all
/// patterns; then all jobs append to one file.
fn log_pattern(folder: &Path, log: &str) -> OsString {
    let folder = folder.as_os_str().as_bytes();
    let doubled = |what: u8| -> Vec<u8> {
        folder.iter().flat_map(|byte| std::iter::repeat_n(*byte, if *byte == what { 2 } else { 1 })).collect()
    };
    let (mut path, log) = match folder.contains(&b'\\') {
        true => (doubled(b'\\'), log.replace("-%4a", "s")),
        false => (doubled(b'%'), log.to_owned()),
    };
    path.push(b'/');
    path.extend(log.bytes());
    OsString::from_vec(path)
}

/// The reason why an `sbatch` option is refused, or `None`.
pub fn refusal(option: &OsStr) -> Option<&'static str> {
    let text = option.to_string_lossy();
    let name = text.split('=').next().unwrap_or_default();
    let is_short = |letter: char| !name.starts_with("--") && name.starts_with('-') && name[1..].starts_with(letter);
    let is = |long: &str| name.len() > 3 && long.starts_with(name);
    match () {
        () if is("--array") || is_short('a') => Some("parts are numbered by --array and --only of shardpack slurm"),
        () if is("--dependency") || is_short('d') => Some("the merge depends on the parts"),
        () if is("--wrap") || is("--test-only") => Some("shardpack slurm submits scripts and needs their job numbers"),
        () => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn logs_lie_where_slurm_finds_no_pattern() {
        let cases = [
            ("/a b/x", "part-%4a.log", "/a b/x/part-%4a.log"),
            ("/50%/x%a", "part-%4a.log", "/50%%/x%%a/part-%4a.log"),
            ("/a\\b%", "part-%4a.log", "/a\\\\b%/parts.log"),
            ("/a\\b", "merge.log", "/a\\\\b/merge.log"),
        ];
        for (folder, log, expected) in cases {
            assert_eq!(log_pattern(Path::new(folder), log), expected, "{folder}");
        }
    }

    #[test]
    fn options_that_would_break_the_jobs_are_refused() {
        for option in
            ["--array=1-3", "-a", "-a1-3", "--arr=1", "--dependency=afterok:1", "-d1", "--wrap=x", "--test-only"]
        {
            assert!(refusal(OsStr::new(option)).is_some(), "{option}");
        }
        for option in
            ["--account=a", "-A", "a", "--mem=4G", "--exclusive", "-D", "--delay-boot=1", "--acctg-freq=1", "--", "-"]
        {
            assert!(refusal(OsStr::new(option)).is_none(), "{option}");
        }
    }
}

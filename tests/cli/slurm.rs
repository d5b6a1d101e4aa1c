//! Packs with arrays on a real Slurm. However nodes and parts fail, the result equals the dataset of one machine.
//!
//! Parts are held midway: a wrapper around shardpack stops it once the first shard of its part is finished, and writes a file.

use std::{
    ffi::{OsStr, OsString},
    fs,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
};

use rustix::process::{Pid, Signal, kill_process};
use shardpack_packer::{part::Part, plan_file};
use shardpack_testing::{
    Bench, Ran, binary, contents, places,
    slurm::{Cluster, parent},
    stores,
};

/// Up to six copied shards wait to be finished. With this number of shards, a part has more.
const SHARDS: [&str; 2] = ["--shards", "128"];

/// The wrapper that runs as shardpack. If HOLDS has a file with the number of the part, the wrapper stops the part once the path in
/// that file exists. Until then the part runs a millisecond at a time, so it cannot reach its end before it is stopped. Slurm sends
/// signals to the process group of the job, first CONT and then TERM. The part has a group of its own: it stays stopped until the
/// wrapper has sent it TERM, so it cannot reach its end between the two.
const HOLDING: &str = r#"#!/bin/bash
part=
for word; do case $word in */[0-9]*) [[ $word =~ ^[0-9]+/[0-9]+$ ]] && part=${word%/*};; esac; done
hold=HOLDS/$part
if [ "$1" != pack ] || [ ! -f "$hold" ]; then exec BINARY "$@"; fi
told= pack=
trap 'told=1; kill -TERM $pack; kill -CONT $pack' TERM
first=$(cat "$hold")
mkfifo "$hold.pipe"; exec 9<>"$hold.pipe"
setpriv --pdeathsig KILL setsid nice -n 19 BINARY "$@" &
pack=$!
while kill -STOP $pack 2>/dev/null; [ ! -e "$first" ] && kill -0 $pack 2>/dev/null; do kill -CONT $pack; read -r -t 0.001 -u 9; done
if [ -n "$told" ]; then kill -CONT $pack; else kill -0 $pack && echo "$pack $$ $PPID" >"$hold.new" && mv "$hold.new" "$hold.held"; fi
while told=; wait $pack; code=$?; [ -n "$told" ]; do :; done
echo $code >>"$hold.codes"
exit $code
"#;

/// A pack by Slurm.
struct SlurmPack<'a> {
    cluster: &'a Cluster,
    bench: &'a Bench,
    dst: PathBuf,
    holds: PathBuf,
    program: PathBuf,
}

impl<'a> SlurmPack<'a> {
    /// Packs into the folder `name`.
    fn new(cluster: &'a Cluster, bench: &'a Bench, name: &str) -> Self {
        let holds = cluster.at(&format!("holds-{}", fs::read_dir(cluster.at("")).unwrap().count()));
        fs::create_dir(&holds).unwrap();
        let program = holds.join("shardpack");
        let text = HOLDING.replace("HOLDS", holds.to_str().unwrap()).replace("BINARY", &binary().display().to_string());
        fs::write(&program, text).unwrap();
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
        Self { cluster, bench, dst: bench.at(name), holds, program }
    }

    /// Holds these parts, of `of` parts, once the first shard of each is finished. `plan` is the plan file.
    fn hold(&self, plan: &Path, of: u32, parts: &[u32]) {
        let plans = plan_file::read_header(plan).unwrap().plans().unwrap();
        for part in parts {
            let shards = Part::new(*part, of).unwrap().shards(&plans)[0].clone();
            assert!(shards.len() >= 14, "{part}: a part without a midst: {shards:?}");
            let index = self.dst.join(format!("index/shard-{:06}.index", shards.start));
            fs::write(self.holds.join(part.to_string()), index.to_str().unwrap()).unwrap();
        }
    }

    /// Runs `shardpack slurm` with these arguments. SRC and DST stand for the paths of this run.
    fn slurm(&self, args: &[&str]) -> Ran {
        let mut command = self.cluster.command(binary());
        command.arg("slurm").arg("--program").arg(&self.program);
        for arg in args {
            match *arg {
                "SRC" => command.arg(self.bench.src()),
                "DST" => command.arg(&self.dst),
                arg => command.arg(arg),
            };
        }
        command.output().unwrap().into()
    }

    /// Waits until a part is held. Returns its process and the processes above it, up to the process that Slurm started. The next run
    /// of the part is not held.
    fn held(&self, part: u32) -> Vec<i32> {
        let file = self.holds.join(format!("{part}.held"));
        let text = self.cluster.wait(&format!("part {part} in its midst"), || fs::read_to_string(&file).ok());
        fs::remove_file(self.holds.join(part.to_string())).unwrap();
        let mut processes: Vec<i32> = text.split_whitespace().map(|pid| pid.parse().unwrap()).collect();
        processes.push(parent(*processes.last().unwrap()));
        processes
    }

    /// The exit codes of a held part, except for lost runs.
    fn codes(&self, part: u32) -> String {
        fs::read_to_string(self.holds.join(format!("{part}.codes"))).unwrap_or_default()
    }

    fn log(&self, name: &str) -> String {
        let mut folder = self.dst.clone().into_os_string();
        folder.push(".slurm");
        fs::read_to_string(Path::new(&folder).join(name)).unwrap_or_default()
    }

    fn is_sealed(&self) -> bool {
        self.dst.join("manifest.json").exists()
    }
}

/// The job number from the line of stdout with this prefix.
fn job(ran: &Ran, what: &str) -> String {
    let line = ran
        .stdout
        .lines()
        .find(|line| line.starts_with(what))
        .unwrap_or_else(|| panic!("{}{}", ran.stdout, ran.stderr));
    line.split("job ").nth(1).unwrap().split(':').next().unwrap().to_owned()
}

fn send(pid: i32, signal: Signal) {
    kill_process(Pid::from_raw(pid).unwrap(), signal).unwrap();
}

#[test]
fn arrays_end_with_the_bytes_of_one_machine() {
    let Some(cluster) = Cluster::start(4) else { return };
    let bench = Bench::with_source(2500, 20_000);
    bench.pack_to(&bench.at("whole"), &SHARDS).code(0);
    let whole = contents(&bench.at("whole"));

    a_node_is_lost_a_part_is_requeued_and_one_runs_into_its_limit(&cluster, &bench);
    assert_eq!(contents(&bench.at(ODD)), whole);
    a_part_fails_and_the_missing_ones_are_submitted_again(&cluster, &bench);
    assert_eq!(contents(&bench.at("again")), whole);
    parts_are_told_by_the_variables_of_slurm(&cluster, &bench);
    assert_eq!(contents(&bench.at("auto")), whole);
    images_are_changed_first(&cluster);
    a_bucket_is_packed_to_another(&cluster);
}

/// Only the environment of the jobs has the settings of the server.
fn a_bucket_is_packed_to_another(cluster: &Cluster) {
    let Some(server) = stores::all().into_iter().find(|server| server.kind == stores::Kind::S3) else { return };
    let bench = Bench::with_source(40, 3000);
    let options = ["--shards", "7", "--seed", "5"];
    bench.pack_to(&bench.at("whole"), &options).code(0);
    server.put_folder(&bench.src(), "tree");
    let slurm = |args: &[&str]| -> Ran {
        let mut command = cluster.command(binary());
        command.arg("slurm").args(args).env("AWS_ALLOW_HTTP", "true").env("HOME", cluster.at("home"));
        for (name, value) in server.settings(server.port()) {
            command.env(if name == "endpoint" { "AWS_ENDPOINT_URL".to_owned() } else { upper(&name) }, value);
        }
        command.output().unwrap().into()
    };
    let (src, dst) = (server.url("tree"), server.url("packed"));
    let submitted = [&[&src, &dst, "--array", "3", "--submit"], &options[..]].concat();
    slurm(&submitted).code(0).says("parts   job").says("packed.slurm");
    cluster.wait_for_all();
    let log = |name: &str| fs::read_to_string(cluster.at("packed.slurm").join(name)).unwrap_or_default();
    let found = places::files_at(&server, "packed");
    places::same(&places::files_in(&bench.at("whole")), &found, &(log("part-0001.log") + &log("merge.log")));
    slurm(&["--missing", &dst]).code(2).says("nothing is unfinished here");
    // One part is left out, and then requested.
    let dst = server.url("again");
    let submitted = [&[&src, &dst, "--array", "3", "--only", "1,3", "--submit"], &options[..]].concat();
    slurm(&submitted).code(0).says("1,3 of 3");
    cluster.wait_for_all();
    assert!(!places::files_at(&server, "again").contains_key("manifest.json"));
    slurm(&["--missing", &dst, "--submit"]).code(0).says("2 of 3").says("running parts cannot be recognised");
    cluster.wait_for_all();
    places::same(&found, &places::files_at(&server, "again"), "missing");
}

/// The environment variable of a setting.
fn upper(name: &str) -> String {
    match name {
        "region" => "AWS_REGION".to_owned(),
        name => name.to_ascii_uppercase(),
    }
}

fn images_are_changed_first(cluster: &Cluster) {
    let bench = Bench::with_source(40, 3000);
    let options = ["--resize", "16", "--encode", "webp", "--shards", "7"];
    bench.pack_to(&bench.at("whole"), &options).code(0);
    let run = SlurmPack::new(cluster, &bench, "small");
    let mut args = vec!["SRC", "DST", "--array", "4", "--submit"];
    args.extend(options);
    run.slurm(&args).code(0).says("images  job").says("parts   job");
    cluster.wait_for_all();
    assert!(run.is_sealed(), "{} {} {}", run.log("images-0001.log"), run.log("part-0001.log"), run.log("merge.log"));
    // The last job to change images packs its part at once.
    let logs = (1..=4).map(|part| run.log(&format!("images-000{part}.log"))).collect::<String>();
    let count = |said: &str| logs.matches(said).count();
    assert!(count("changed part") + count("packed  part") == 4 && count(": 10 images, in ") > 0, "{logs}");
    assert_eq!(contents(&run.dst), contents(&bench.at("whole")));
}

/// A name that a shell, Slurm's log names and a here-document must all leave unchanged.
const ODD: &str = "it's 100%a \"$HOME\" `id`\nJOB\nx";

fn a_node_is_lost_a_part_is_requeued_and_one_runs_into_its_limit(cluster: &Cluster, bench: &Bench) {
    let run = SlurmPack::new(cluster, bench, ODD);
    let plan = bench.at("a plan");
    let ran = shardpack_testing::run(
        &["plan".as_ref(), bench.src().as_os_str(), run.dst.as_os_str(), "-o".as_ref(), plan.as_os_str()]
            .into_iter()
            .chain(SHARDS.map(str::as_ref))
            .collect::<Vec<&OsStr>>(),
    );
    ran.code(0);
    run.hold(&plan, 8, &[2, 3, 4]);
    let ran = run.slurm(&["--plan", plan.to_str().unwrap(), "DST", "--array", "8", "--time", "10", "--submit"]).code(0);
    let parts = job(&ran, "parts");

    let lost = run.held(2);
    run.held(3);
    let late = run.held(4);
    assert!(!run.is_sealed());
    cluster.lose(&cluster.node(&format!("{parts}_2")), &lost);
    cluster.ask("scontrol", &["requeue", &format!("{parts}_3")]);
    // As Slurm does before the limit: the signal goes only to the shell of the job.
    send(late[2], Signal::USR1);
    cluster.wait_for_all();

    assert!(run.is_sealed(), "{}\n{}", run.log("merge.log"), cluster.logs());
    assert_eq!((run.codes(2), run.codes(3), run.codes(4)), (String::new(), "130\n".to_owned(), "130\n".to_owned()));
    assert!(run.log("part-0004.log").contains("time limit: queued again"), "{}", run.log("part-0004.log"));
    for part in 2..=4 {
        let log = run.log(&format!("part-{part:04}.log"));
        assert!(log.contains("of 8, run 1, on n") && log.contains("of 8, run 2, on n"), "{log}");
        assert!(log.contains("finished before"), "what it had done was done again: {log}");
    }
    assert!(!run.log("part-0001.log").contains("run 2"), "{}", run.log("part-0001.log"));
}

fn a_part_fails_and_the_missing_ones_are_submitted_again(cluster: &Cluster, bench: &Bench) {
    let run = SlurmPack::new(cluster, bench, "again");
    run.hold(&bench.at("a plan"), 4, &[3]);
    let mut args = vec!["SRC", "DST", "--array", "4", "--plan-job", "--throttle", "2", "--submit"];
    args.extend(SHARDS);
    run.slurm(&args).code(0).says("plan    job");
    let killed = run.held(3);
    run.slurm(&["--missing", "DST"]).code(0).says("note    running parts are left out: ");
    send(killed[0], Signal::KILL);
    cluster.wait_for_all();
    // Slurm cancelled the merge, because its dependency failed.
    assert!(!run.is_sealed() && run.log("merge.log").is_empty(), "{}", run.log("merge.log"));
    assert_eq!(run.codes(3), "137\n");
    let status = shardpack_testing::run(&["status".as_ref(), run.dst.as_os_str()]).code(0);
    let logs = (1..=4).map(|part| run.log(&format!("part-000{part}.log"))).collect::<String>();
    assert!(status.stdout.contains("missing 3/4"), "{}{logs}", status.stdout);

    run.slurm(&["--missing", "DST", "--array", "5"]).code(2).says("is packed in 4 parts, not in 5");
    let ran = run.slurm(&["--missing", "DST", "--submit"]).code(0);
    assert!(ran.stdout.contains(": 3 of 4"), "{}", ran.stdout);
    cluster.wait_for_all();
    assert!(run.is_sealed(), "{}", run.log("merge.log"));
    run.slurm(&["--missing", "DST"]).code(2).says("nothing is unfinished here");
    // A part of a sealed dataset has nothing to do, and succeeds.
    run.slurm(&[
        "--plan",
        bench.at("again.slurm/plan").to_str().unwrap(),
        "DST",
        "--array",
        "4",
        "--only",
        "2",
        "--submit",
    ])
    .code(0);
    cluster.wait_for_all();
    assert!(run.log("part-0002.log").contains("nothing to do"), "{}", run.log("part-0002.log"));
}

fn parts_are_told_by_the_variables_of_slurm(cluster: &Cluster, bench: &Bench) {
    let (program, plan, dst) = (binary().display().to_string(), bench.at("a plan"), bench.at("auto"));
    let pack = format!("{program} pack --plan '{}' '{}' --part auto", plan.display(), dst.display());
    let log = |name: &str| format!("--output={}", cluster.at(name).display());
    let wrap = |command: &str| format!("--wrap={command}");
    // A job without an array, and an array of only some indexes, do not identify a part.
    cluster.ask("sbatch", &["--ntasks=2", &log("job.txt"), &wrap(&pack)]);
    cluster.ask("sbatch", &["--array=3,5", &log("sparse-%a.txt"), &wrap(&pack)]);
    cluster.wait_for_all();
    let said = |name: &str| fs::read_to_string(cluster.at(name)).unwrap();
    assert!(said("job.txt").contains("start it with srun"), "{}", said("job.txt"));
    assert!(said("sparse-3.txt").contains("SLURM_ARRAY_TASK_COUNT=2"), "{}", said("sparse-3.txt"));
    assert!(!dst.exists());
    // One node is lost, so jobs of two processes run on three nodes.
    cluster.ask("sbatch", &["--array=0-1", "--ntasks=2", &log("auto-%a.txt"), &wrap(&format!("srun {pack}"))]);
    cluster.wait_for_all();
    let said = said("auto-0.txt") + &said("auto-1.txt");
    for part in ["packed  part 1/4", "packed  part 2/4", "packed  part 3/4", "packed  part 4/4"] {
        assert!(said.contains(part), "{part}: {said}");
    }
    shardpack_testing::run(&["merge".as_ref(), dst.as_os_str()]).code(0);
}

/// Stand-in for `sbatch`: runs each job of an array at once, with two cores and 400 MB, and records its arguments.
const SBATCH: &str = r#"#!/bin/bash
cat >JOB
printf '%s\n' "$@" -- >>ASKED
array=1 log=/dev/null
for word; do case $word in --array=*) array=${word#*=};; --output=*) log=${word#*=};; esac; done
array=${array%[%]*}
for piece in ${array//,/ }; do
    for index in $(seq ${piece%-*} ${piece#*-}); do
        file=${log//%4a/$index}
        SLURM_ARRAY_JOB_ID=7 SLURM_ARRAY_TASK_ID=$index SLURM_CPUS_ON_NODE=2 SLURM_MEM_PER_CPU=200 bash JOB >>"${file//%%/%}" 2>&1
    done
done
echo "7;cluster"
"#;

/// A `PATH` with [`SBATCH`], and the file with the recorded arguments.
fn stand_in(bench: &Bench) -> (OsString, PathBuf) {
    let tools = bench.at("tools");
    fs::create_dir(&tools).unwrap();
    let (asked, job) = (bench.at("asked"), bench.at("job"));
    let text =
        SBATCH.replace("JOB ", &format!("{} ", job.display())).replace(">JOB\n", &format!(">{}\n", job.display()));
    fs::write(tools.join("sbatch"), text.replace("ASKED", asked.to_str().unwrap())).unwrap();
    fs::set_permissions(tools.join("sbatch"), fs::Permissions::from_mode(0o755)).unwrap();
    let mut path = vec![tools];
    path.extend(std::env::split_paths(&std::env::var_os("PATH").unwrap()));
    (std::env::join_paths(path).unwrap(), asked)
}

/// Runs the script that `shardpack slurm` printed.
fn submit(script: &str, path: &OsStr) -> Ran {
    std::process::Command::new("bash").arg("-c").arg(script).env("PATH", path).output().unwrap().into()
}

#[test]
fn images_are_changed_by_an_array_of_their_own() {
    let bench = Bench::with_source(24, 3000);
    let options = ["--resize=16", "--encode=png", "--shards=5", "--include=class-*/**"];
    bench.pack_to(&bench.at("whole"), &options).code(0);
    let (path, asked) = stand_in(&bench);
    let (src, dst) = (bench.src(), bench.at("it's"));
    let mut args: Vec<&OsStr> = vec!["slurm".as_ref(), src.as_os_str(), dst.as_os_str(), "--array=3".as_ref()];
    args.extend(options.iter().map(OsStr::new));
    let printed = shardpack_testing::run(&args).code(0).stdout;
    assert!(!printed.contains(" plan "), "{printed}");
    // The last job of the first array has packed its part, too.
    submit(&printed, &path).code(0).says("images  job 7: 1-3 of 3").says("parts   job 7: 1-3 of 3");
    assert_eq!(contents(&dst), contents(&bench.at("whole")));
    let asked = fs::read_to_string(asked).unwrap();
    let asked: Vec<Vec<&str>> = asked.split("--\n").map(|words| words.lines().collect()).collect();
    assert!(!asked[0].iter().any(|word| word.starts_with("--dependency")), "{asked:?}");
    for after in &asked[1..3] {
        assert!(after.ends_with(&["--dependency=afterok:7", "--kill-on-invalid-dep=yes"]), "{asked:?}");
    }
    // A pack that began with a part is resumed by the same command.
    let dst = bench.at("other");
    let part: Vec<&OsStr> = vec!["pack".as_ref(), src.as_os_str(), dst.as_os_str(), "--part=2/3".as_ref()];
    let part = part.into_iter().chain(options.iter().map(OsStr::new)).collect::<Vec<_>>();
    shardpack_testing::run(&part).code(0);
    let missing: Vec<&OsStr> = vec!["slurm".as_ref(), "--missing".as_ref(), dst.as_os_str()];
    shardpack_testing::run(&missing)
        .code(2)
        .says("changes images first, so it has no plan file")
        .says("run the command that began it again: it submits all parts");
    args[2] = dst.as_os_str();
    args.push("--plan-job".as_ref());
    shardpack_testing::run(&args)
        .code(2)
        .says("--plan-job: there is no plan before")
        .says("the parts change the images first");
    *args.last_mut().unwrap() = "--submit".as_ref();
    let again: Ran = std::process::Command::new(binary()).args(&args).env("PATH", &path).output().unwrap().into();
    again.code(0);
    assert_eq!(contents(&dst), contents(&bench.at("whole")));
}

#[test]
fn a_script_packs_with_the_options_that_it_was_asked_for() {
    let bench = Bench::with_source(200, 500);
    bench.file("class-1/bad.jpg", b"no image");
    let options = ["--format=mds", "--compress=zstd:1", "--shards=9", "--seed=5", "--exclude=**/00001*", "--meta=none"];
    let of_pack = ["--on-bad=skip", "--sidecars=none", "--read-order=plan"];
    bench.pack_to(&bench.at("whole"), &[&options[..], &of_pack].concat()).code(0);
    let (path, asked) = stand_in(&bench);

    let (src, dst) = (bench.src(), bench.at(ODD));
    let mut args: Vec<&OsStr> = vec!["slurm".as_ref(), src.as_os_str(), dst.as_os_str()];
    let slurm = [
        "--array=4",
        "--only=1,3-4",
        "--throttle=2",
        "--time=1:30",
        "--cpus-per-task=2",
        "--partition=a b",
        "--verify",
    ];
    args.extend(slurm.iter().chain(&options).chain(&of_pack).map(OsStr::new));
    args.extend(["--", "--account=it's", "--mem", "400"].map(OsStr::new));
    let printed = shardpack_testing::run(&args).code(0).stdout;
    let bash = |script: &str| -> Ran { submit(script, &path) };
    // One part is still missing, and the merge reports it; sbatch has accepted the jobs.
    bash(&printed).code(0).says("parts   job 7: 1,3-4 of 4").says("merge   job 7");
    assert!(!dst.join("manifest.json").exists());
    bash(&printed.replace("1,3-4", "2")).code(0);
    assert_eq!(contents(&dst), contents(&bench.at("whole")));

    let asked = fs::read_to_string(asked).unwrap();
    let asked: Vec<Vec<&str>> = asked.split("--\n").map(|words| words.lines().collect()).collect();
    for word in ["--array=1,3-4%2", "--signal=B:USR1@9", "--cpus-per-task=2", "--requeue", "--open-mode=append"] {
        assert!(asked[0].contains(&word), "{word}: {asked:?}");
    }
    assert!(asked[1].ends_with(&["--dependency=afterok:7", "--kill-on-invalid-dep=yes"]), "{asked:?}");
    for job in &asked[..2] {
        assert!(
            ["--account=it's", "--mem", "400", "--time=1:30", "--partition=a b"].iter().all(|word| job.contains(word))
        );
    }
    let mut logs = dst.into_os_string();
    logs.push(".slurm");
    let log = |name: &str| fs::read_to_string(Path::new(&logs).join(name)).unwrap();
    assert!(log("part-4.log").contains("part    4 of 4, run 1, on "), "{}", log("part-4.log"));
    // The first merge lacks a part.
    assert!(log("merge.log").contains("part 2/4") && log("merge.log").contains("sealed"), "{}", log("merge.log"));
}

#[test]
fn what_cannot_be_submitted_is_refused() {
    let bench = Bench::with_source(12, 500);
    let cases: [(&[&str], &str); 12] = [
        (&["--array", "0"], "0 is not in 1..=1000000"),
        (&["--array", "4", "--only", "5"], "there is no part 5 of 4"),
        (&["--array", "4", "--only", "4-3"], "write part numbers"),
        (&["--array", "4", "--time", "1h"], "write minutes"),
        (&["--array", "4", "--", "--array=1-3"], "--array=1-3: parts are numbered by"),
        (&["--array", "4", "--", "-d", "afterok:3"], "-d: the merge depends on the parts"),
        (&["--array", "4", "--", "--wrap=x"], "shardpack slurm submits scripts"),
        (&["--array", "4", "--", "job.sh"], "job.sh: only options for sbatch can follow --"),
        (&["--array", "4", "--encode", "x"], "invalid value 'x'"),
        (&["--array", "4", "--set", "x=y"], "has no setting"),
        (&["--array", "4", "--fix", "--format", "mds", "--format", "tfrecord"], "--part packs one format"),
        (&["--array", "4", "--missing", "--only", "3"], "cannot be used with"),
    ];
    for (options, said) in cases {
        let (src, dst) = (bench.src(), bench.dst());
        let mut args: Vec<&OsStr> = vec!["slurm".as_ref(), src.as_os_str(), dst.as_os_str()];
        args.extend(options.iter().map(OsStr::new));
        shardpack_testing::run(&args).code(2).says(said);
    }
    for (dst, options, said) in [
        ("https://example.org/x", &["--array=4"][..], "a web server is only read from"),
        ("s3://b/x", &["--array=4", "--logs=s3://b/logs"], "is a URL: only files are read and written here"),
    ] {
        let src = bench.src();
        let args = [&["slurm", src.to_str().unwrap(), dst], options].concat();
        shardpack_testing::run(&args).code(2).says(said);
    }
    let (plan, dst) = (bench.at("p"), bench.dst());
    fs::write(&plan, "").unwrap();
    let (plan, dst) = (plan.to_str().unwrap(), dst.to_str().unwrap());
    let args = ["slurm", "--plan", plan, dst, "--array=2", "--seed=3"];
    shardpack_testing::run(&args).code(2).says("--seed=3 applies only to a new plan");
}

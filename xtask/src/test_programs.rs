//! Runs test programs side by side: cargo runs one program after another, and many programs wait for one long test or for Python.
//!
//! The programs are those that `cargo test` with the same arguments runs, each in its package's folder. A program with several modules is
//! run once per module, so that the modules of one program also run side by side. As many tests run at once as there are cores, or [`AT_A_TIME`],
//! plus one job that mostly waits.

use std::{
    collections::{BTreeMap, VecDeque},
    path::{Path, PathBuf},
    process::Command,
    sync::{Mutex, PoisonError},
    thread,
    time::Instant,
};

use crate::{
    Result,
    command::{cargo_of_tests, command, output},
};

/// Arguments of cargo that select all tests.
pub const ALL: &str = "--workspace --features xtask/simulate";
/// Number of jobs run at a time, besides one of [`WAITING`]: twice the cores of CI, because tests mostly wait, for the disk and for other
/// programs.
const AT_A_TIME: usize = 4;
/// Jobs that mostly wait for servers.
const WAITING: [&str; 13] = [
    "stores::verify",
    "stores::convert",
    "stores::parts",
    "stores::list",
    "stores::repair",
    "stores::crops",
    "stores::npz",
    "stores::urls",
    "storages::objects",
    "storages::listing",
    "datasets::http",
    "datasets::stores",
    "loader::servers",
];
/// The longest jobs start first, so that none runs alone at the end.
const LONGEST: [&str; 10] = [
    "shardpack_packer",
    "shardpack_foreign",
    "python::python/tests/test_loader.py",
    "python::python/tests/test_pages.py",
    "pack::crash",
    "stores::foreign",
    "stores::pack",
    "stores::convert",
    "storages::objects",
    "sources::values",
];

/// Jobs that take longest: a user's run leaves them to CI.
const FOR_CI: [&str; 59] = [
    "cli::bench",
    "cli::docs",
    "cli::help_lines",
    "cli::many_machines",
    "cli::messages",
    "cli::recipes",
    "cli::same",
    "cli::terminal",
    "datasets::cache",
    "formats::convert",
    "formats::convert_columns",
    "formats::convert_components",
    "formats::convert_damage",
    "formats::convert_foreign",
    "formats::convert_runs",
    "formats::foreign_formats",
    "formats::peers_catalogues",
    "formats::peers_webdataset",
    "formats::peers_zstd",
    "jpeg::pixels",
    "loader::buckets",
    "pack::crash",
    "pack::kills",
    "pack::parts",
    "pack::parts_changed",
    "pack::parts_refused",
    "pack::read_errors",
    "pack::replace",
    "pack::unreadable",
    "sources::agree",
    "sources::arrow",
    "sources::files",
    "sources::hdf5",
    "sources::hdf5_files",
    "sources::hdf5_labels",
    "sources::known_layouts",
    "sources::label_text",
    "sources::lmdb",
    "sources::lmdb_damage",
    "sources::lmdb_options",
    "sources::npz",
    "sources::numpy_rows",
    "sources::shard_targets",
    "sources::values",
    "sources::values_beside",
    "sources::values_faults",
    "sources::values_hdf5_groups",
    "sources::values_parquet",
    "sources::values_random",
    "sources::values_shards",
    "sources::values_tar",
    "storages::objects",
    "stores::convert",
    "stores::foreign",
    "stores::pack",
    "stores::parts",
    "stores::repair",
    "stores::urls",
    "stores::verify",
];

/// Unit tests that take longest, by the program that has them: a user's run leaves them to CI.
const TESTS_FOR_CI: [(&str, &str); 7] = [
    ("shardpack_foreign", "numpy::tests::no_cut_and_no_flip_of_a_bit_in_a_file_of_torch_changes_a_sample"),
    ("shardpack_foreign", "numpy::tests::no_damage_of_a_pickle_of_arrays_panics"),
    ("shardpack_foreign", "parquet::arrow::tests::damage_is_an_error_or_other_records_but_no_panic"),
    ("shardpack_foreign", "parquet::tests::damage_is_an_error_or_other_records_but_no_panic"),
    ("shardpack_foreign", "plain::pickle::tests::damage_is_no_panic"),
    ("shardpack_packer", "pack::tests::masks_that_move_go_on_after_a_fault_at_any_call"),
    ("shardpack_packer", "pack::tests::parts_that_change_images_go_on_after_a_fault_at_any_call"),
];

/// A command that tests something.
pub struct Job {
    /// Name in the lists above: TARGET::MODULE for a part of a test program.
    pub key: String,
    /// The command that a user would type.
    pub name: String,
    /// The command that runs.
    pub command: Command,
}

/// A test program that cargo has built.
struct Program {
    /// Arguments of cargo that test only this program.
    words: String,
    target: String,
    path: PathBuf,
    package: PathBuf,
    /// Whether it is an integration test, with modules that can run apart.
    has_modules: bool,
}

/// Builds the tests of `cargo test` with `words`, and returns the jobs that run them with `variables` added to this process's environment.
pub fn jobs(words: &str, variables: &[(&str, PathBuf)]) -> Result<Vec<Job>> {
    let variables = || variables.iter().map(|(name, value)| (name, value));
    let mut list = cargo_of_tests(&format!("test {words} --no-run --message-format json-render-diagnostics"));
    let threads = thread::available_parallelism().map_or(1, |cores| cores.get().div_ceil(AT_A_TIME));
    let mut jobs = Vec::new();
    for program in programs(&output(list.envs(variables()))?)? {
        let run = |arguments: &[String]| {
            let mut test = command(&program.path, arguments);
            test.envs(variables()).current_dir(&program.package).env("CARGO_MANIFEST_DIR", &program.package);
            // numpy starts threads for matrices, which spin.
            test.env("RUST_TEST_THREADS", threads.to_string()).env("OPENBLAS_NUM_THREADS", "1");
            test
        };
        let name = format!("cargo test {}", program.words);
        if !program.has_modules {
            jobs.push(Job { key: program.target.clone(), name, command: run(&[]) });
            continue;
        }
        let listed = output(&mut run(&["--list", "--format", "terse"].map(str::to_owned)))?;
        let modules = modules(&listed);
        if modules.is_empty() {
            return Err(format!("{name}: lists no tests"));
        }
        for (module, tests) in modules {
            let exact = [vec!["--exact".to_owned()], tests].concat();
            jobs.push(Job {
                key: format!("{}::{module}", program.target),
                name: format!("{name} {module}::"),
                command: run(&exact),
            });
        }
    }
    Ok(jobs)
}

/// The job that builds and runs the doc tests of `cargo test` with `words`.
pub fn doc_job(words: &str, variables: &[(&str, PathBuf)]) -> Job {
    let arguments = format!("test {words} --doc --no-fail-fast");
    let mut command = cargo_of_tests(&arguments);
    command.envs(variables.iter().map(|(name, value)| (name, value)));
    Job { key: "doc".to_owned(), name: format!("cargo {arguments}"), command }
}

/// The jobs without those of [`FOR_CI`] and the tests of [`TESTS_FOR_CI`], which are named.
pub fn without_longest(mut jobs: Vec<Job>) -> Vec<Job> {
    let tests: Vec<String> = TESTS_FOR_CI.iter().map(|(program, test)| format!("{program} {test}")).collect();
    println!("the longest tests are run with CI=true or --full: {}, {}", FOR_CI.join(", "), tests.join(", "));
    jobs.retain(|job| !FOR_CI.contains(&job.key.as_str()));
    for job in &mut jobs {
        for (_, test) in TESTS_FOR_CI.iter().filter(|(program, _)| *program == job.key) {
            job.command.args(["--skip", test]);
            job.name += &format!(" -- --skip {test}");
        }
    }
    jobs
}

/// Runs all jobs; fails if one fails.
pub fn run_all(jobs: Vec<Job>) -> Result<()> {
    run_at_a_time(AT_A_TIME, jobs)
}

/// Runs all jobs, so many at a time; fails if one fails.
pub fn run_at_a_time(count: usize, mut jobs: Vec<Job>) -> Result<()> {
    jobs.sort_by_key(|job| LONGEST.iter().position(|key| *key == job.key).unwrap_or(LONGEST.len()));
    let (waiting, busy): (VecDeque<_>, VecDeque<_>) =
        jobs.into_iter().partition(|job| WAITING.contains(&job.key.as_str()));
    let (waiting, busy) = (Mutex::new(waiting), Mutex::new(busy));
    let (printing, failed) = (Mutex::new(()), Mutex::new(Vec::new()));
    let next = |queue: &Mutex<VecDeque<Job>>| queue.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
    let work = |queues: &[&Mutex<VecDeque<Job>>]| {
        while let Some(mut job) = queues.iter().find_map(|queue| next(queue)) {
            let start = Instant::now();
            let ran = job.command.output();
            let seconds = start.elapsed().as_secs_f64();
            let _printing = printing.lock().unwrap_or_else(PoisonError::into_inner);
            println!("   {}: {seconds:.1} s", job.name);
            if let Ok(ran) = &ran {
                print!("{}{}", String::from_utf8_lossy(&ran.stdout), String::from_utf8_lossy(&ran.stderr));
            }
            let end = match ran {
                Ok(ran) if ran.status.success() => continue,
                Ok(ran) => ran.status.to_string(),
                Err(error) => format!("cannot run {}: {error}", job.command.get_program().display()),
            };
            failed.lock().unwrap_or_else(PoisonError::into_inner).push(format!("{}: {end}", job.name));
        }
    };
    thread::scope(|scope| {
        scope.spawn(|| work(&[&waiting]));
        (0..count).for_each(|_| drop(scope.spawn(|| work(&[&busy, &waiting]))));
    });
    let failed = failed.into_inner().unwrap_or_else(PoisonError::into_inner);
    if failed.is_empty() { Ok(()) } else { Err(failed.join("\n")) }
}

/// Test names by module, from a list of lines `MODULE::NAME: test`.
fn modules(list: &str) -> BTreeMap<String, Vec<String>> {
    let mut modules = BTreeMap::<_, Vec<_>>::new();
    for name in list.lines().filter_map(|line| line.strip_suffix(": test")) {
        let module = name.split("::").next().unwrap_or(name);
        modules.entry(module.to_owned()).or_default().push(name.to_owned());
    }
    modules
}

/// The test programs listed in cargo's messages.
fn programs(messages: &str) -> Result<Vec<Program>> {
    let mut programs = Vec::new();
    for line in messages.lines().filter(|line| line.starts_with('{')) {
        let message: serde_json::Value = serde_json::from_str(line).map_err(|error| format!("{line}: {error}"))?;
        let text = |value: &serde_json::Value| value.as_str().map(str::to_owned);
        let is_test = message["profile"]["test"].as_bool() == Some(true);
        let found = (text(&message["executable"]), text(&message["manifest_path"]), text(&message["target"]["name"]));
        if let (true, (Some(path), Some(manifest), Some(target))) = (is_test, found) {
            let package = Path::new(&manifest).parent().unwrap_or(Path::new("/")).to_owned();
            // PATH#NAME@VERSION, or PATH#VERSION if the folder has the name of the package.
            let id = text(&message["package_id"]).unwrap_or_default();
            let (folder, end) = id.rsplit_once('#').unwrap_or((&id, ""));
            let of = end.split_once('@').map_or(folder.rsplit('/').next().unwrap_or(folder), |(name, _)| name);
            let kind = text(&message["target"]["kind"][0]).unwrap_or_default();
            let which = match kind.as_str() {
                "test" | "example" | "bench" | "bin" => format!("--{kind} {target}"),
                _ => "--lib".to_owned(),
            };
            programs.push(Program {
                words: format!("--package {of} {which}"),
                target,
                path: path.into(),
                package,
                has_modules: kind == "test",
            });
        }
    }
    if programs.is_empty() { Err("cargo built no tests".to_owned()) } else { Ok(programs) }
}

#[cfg(test)]
mod tests {
    use super::{FOR_CI, LONGEST, TESTS_FOR_CI, WAITING, modules, programs};
    use crate::{
        command::{read, root},
        sources,
    };

    #[test]
    fn programs_are_those_of_tests() {
        let message = |test: bool, kind: &str, id: &str| {
            format!(
                r#"{{"reason":"compiler-artifact","package_id":"path+file:///w/crates/x#{id}","manifest_path":"/w/crates/x/Cargo.toml","target":{{"kind":["{kind}"],"name":"n"}},"profile":{{"test":{test}}},"executable":"/w/target/n"}}"#
            )
        };
        let all = [
            message(false, "bin", "1.0"),
            message(true, "test", "1.0"),
            message(true, "lib", "y@1.0"),
            "{}".to_owned(),
        ]
        .join("\n");
        let found = programs(&all).unwrap();
        let words: Vec<_> = found.iter().map(|program| program.words.as_str()).collect();
        assert_eq!(words, ["--package x --test n", "--package y --lib"]);
        assert_eq!(found[0].package, std::path::Path::new("/w/crates/x"));
        assert_eq!(found.iter().map(|program| program.has_modules).collect::<Vec<_>>(), [true, false]);
        assert!(programs(&message(false, "bin", "1.0")).is_err());
    }

    #[test]
    fn tests_are_grouped_by_module() {
        let modules = modules("pack::one: test\nparts::pack::two: test\npack::b::three: test\nspeed: benchmark\n");
        let modules: Vec<_> = modules.iter().map(|(name, tests)| (name.as_str(), tests.join(" "))).collect();
        assert_eq!(
            modules,
            [("pack", "pack::one pack::b::three".to_owned()), ("parts", "parts::pack::two".to_owned())]
        );
    }

    #[test]
    fn lists_name_modules_that_exist() {
        let mut files = Vec::new();
        sources::files_below("tests", ".rs", &mut files).unwrap();
        sources::files_below("crates", ".rs", &mut files).unwrap();
        let has_file = |key: &&&str| key.contains("::") && !key.starts_with("python::");
        let names = FOR_CI.iter().chain(&WAITING).chain(&LONGEST).filter(has_file);
        for key in names {
            let end = format!("tests/{}", key.replace("::", "/"));
            let is_it =
                |file: &String| file.ends_with(&format!("{end}.rs")) || file.ends_with(&format!("{end}/mod.rs"));
            assert!(files.iter().any(is_it), "{key}");
        }
        for (program, test) in TESTS_FOR_CI {
            let (module, name) = test.rsplit_once("::tests::").unwrap();
            let source = format!("crates/{}/src/{}", program.replace('_', "-"), module.replace("::", "/"));
            let in_it = files.iter().filter(|file| file.starts_with(&source));
            assert!(
                in_it.map(|file| read(&root().join(file)).unwrap()).any(|text| text.contains(&format!("fn {name}(")))
            );
        }
    }

    #[test]
    fn every_test_file_is_a_module_of_its_program() {
        let mut files = Vec::new();
        sources::files_below("tests", ".rs", &mut files).unwrap();
        sources::files_below("crates", ".rs", &mut files).unwrap();
        files.retain(|file| file.starts_with("tests/") || file.contains("/tests/") && !file.contains("/src/"));
        let (mains, modules): (Vec<_>, Vec<_>) = files.iter().partition(|file| file.ends_with("/main.rs"));
        let mains: Vec<_> = mains.into_iter().map(|main| (main, read(&root().join(main)).unwrap())).collect();
        for module in modules {
            let is_of = |main: &str| {
                let inner = module.strip_prefix(main.trim_end_matches("main.rs"))?;
                Some(inner.split('/').next()?.trim_end_matches(".rs").to_owned())
            };
            let found = mains.iter().find_map(|(main, text)| Some((is_of(main)?, text)));
            let (name, main) = found.unwrap_or_else(|| panic!("{module} is of no program"));
            assert!(
                main.contains(&format!("mod {name};\n")),
                "{module} is not compiled: its main.rs lacks `mod {name};`"
            );
        }
    }
}

//! Runs test programs side by side: cargo runs one program after another, and many programs wait for one long test or for Python.
//!
//! The programs are those that `cargo test` with the same arguments runs, each in its package's folder. As many tests run at once as
//! there are cores, or one more, plus one program that mostly waits.

use std::{
    path::{Path, PathBuf},
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
    time::Instant,
};

use crate::{
    Result,
    command::{cargo, command, output, run},
};

/// Number of programs run at a time, besides one of [`WAITING`].
const AT_A_TIME: usize = 2;
/// Test programs that mostly wait for servers.
const WAITING: [&str; 12] = [
    "stores_verify",
    "stores_convert",
    "stores_parts",
    "stores_list",
    "stores_repair",
    "stores_crops",
    "stores_npz",
    "stores",
    "objects",
    "servers",
    "http",
    "listing",
];
/// The longest programs start first, so that none runs alone at the end.
const LONGEST: [&str; 6] = ["stores_foreign", "values", "stores_pack", "files", "stores_convert", "objects"];

/// A test program that cargo has built.
struct Program {
    /// Arguments of cargo that test only this program.
    words: String,
    target: String,
    path: PathBuf,
    package: PathBuf,
}

/// A queue that returns each program once.
struct Queue<'a> {
    programs: Vec<&'a Program>,
    next: AtomicUsize,
}

impl<'a> Queue<'a> {
    fn new(programs: Vec<&'a Program>) -> Self {
        Self { programs, next: AtomicUsize::new(0) }
    }

    fn next(&self) -> Option<&'a Program> {
        self.programs.get(self.next.fetch_add(1, Ordering::Relaxed)).copied()
    }
}

/// Builds and runs the tests of `cargo test` with `words`, with `variables` added to this process's environment. Doc tests run only if
/// `has_docs`.
pub fn run_tests(words: &str, has_docs: bool, variables: &[(&str, PathBuf)]) -> Result<()> {
    let variables = || variables.iter().map(|(name, value)| (name, value));
    let mut list = cargo(&format!("test {words} --no-run --message-format json-render-diagnostics"));
    let mut programs = programs(&output(list.envs(variables()))?)?;
    programs.sort_by_key(|program| LONGEST.iter().position(|name| *name == program.target).unwrap_or(LONGEST.len()));
    let threads = thread::available_parallelism().map_or(1, |cores| cores.get().div_ceil(AT_A_TIME));

    let is_waiting = |program: &Program| WAITING.contains(&program.target.as_str());
    let (waiting, busy): (Vec<_>, Vec<_>) = programs.iter().partition(|program| is_waiting(program));
    let (waiting, busy) = (Queue::new(waiting), Queue::new(busy));
    let (printing, failed) = (Mutex::new(()), Mutex::new(Vec::new()));
    let work = |queues: &[&Queue]| {
        while let Some(program) = queues.iter().find_map(|queue| queue.next()) {
            let mut test = command(&program.path, [] as [&str; 0]);
            test.envs(variables()).current_dir(&program.package).env("CARGO_MANIFEST_DIR", &program.package);
            test.env("RUST_TEST_THREADS", threads.to_string());
            let start = Instant::now();
            let ran = test.output();
            let seconds = start.elapsed().as_secs_f64();
            let _printing = printing.lock().unwrap_or_else(PoisonError::into_inner);
            println!("   cargo test {}: {seconds:.1} s", program.words);
            if let Ok(ran) = &ran {
                print!("{}{}", String::from_utf8_lossy(&ran.stdout), String::from_utf8_lossy(&ran.stderr));
            }
            let end = match ran {
                Ok(ran) if ran.status.success() => continue,
                Ok(ran) => ran.status.to_string(),
                Err(error) => format!("cannot run {}: {error}", program.path.display()),
            };
            failed.lock().unwrap_or_else(PoisonError::into_inner).push(format!("cargo test {}: {end}", program.words));
        }
    };
    thread::scope(|scope| {
        scope.spawn(|| work(&[&waiting]));
        (0..AT_A_TIME).for_each(|_| drop(scope.spawn(|| work(&[&busy, &waiting]))));
    });
    let mut failed = failed.into_inner().unwrap_or_else(PoisonError::into_inner);
    if has_docs {
        failed.extend(run(cargo(&format!("test {words} --doc --no-fail-fast")).envs(variables())).err());
    }
    if failed.is_empty() { Ok(()) } else { Err(failed.join("\n")) }
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
            programs.push(Program { words: format!("--package {of} {which}"), target, path: path.into(), package });
        }
    }
    if programs.is_empty() { Err("cargo built no tests".to_owned()) } else { Ok(programs) }
}

#[cfg(test)]
mod tests {
    use super::programs;

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
        assert!(programs(&message(false, "bin", "1.0")).is_err());
    }
}

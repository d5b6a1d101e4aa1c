//! Runs each code block of the README and of the pages in `docs/`, or records here why not.
//!
//! The output of a console is compared without numbers, which depend on the machine and on the files.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use shardpack_testing::{Bench, Ran, binary, markdown, photos, root};

/// How a block is checked.
enum How {
    /// A console. These lines of the shell run first, in a folder with the photographs in `photos`; then the commands of the block.
    Console(&'static str),
    /// The Python of this environment variable runs the block in a folder where these options packed the photographs.
    Python(&'static str, &'static [&'static str]),
    /// The shell runs the block where the photographs are packed, if these programs are installed.
    Shell(&'static [&'static str]),
    /// A test has its lines: file and name of the test.
    Test(&'static str, &'static str),
    /// Not a program, or a program that cannot run: the reason.
    Not(&'static str),
}

use How::{Console, Not, Python, Shell, Test};

const PYTHON: &str = "SHARDPACK_PYTHON";

/// Pages of the Python package.
const PACKAGE: [&str; 3] = ["docs/reference/python.md", "docs/reference/python-api.md", "docs/how-to/coming-from.md"];

/// Page, the beginning of a line of the block, and how the block is checked.
const BLOCKS: &[(&str, &str, How)] = &[
    ("README.md", "$ cargo run --release -- pack fixtures/photos packed", Console(README)),
    ("docs/start/ten-minutes.md", "$ cargo run --release -- inspect packed", Console(README_PACKED)),
    ("docs/start/ten-minutes.md", "$ printf X", Console(README_PACKED)),
    ("README.md", "import shardpack", Test("python/tests/test_pages.py", "test_each_block_runs")),
    ("README.md", "import webdataset as wds", Python(PYTHON, &[])),
    ("README.md", "let dataset = shardpack_reader", Test("tests/cli/pages.rs", "the_rust_of_the_readme_runs")),
    ("docs/reference/cli.md", "", Not("generated from --help")),
    ("docs/how-to/convert.md", "$ shardpack convert old/ packed/ --format mds", Console(OLD)),
    ("docs/how-to/convert.md", "$ shardpack convert laion/ packed/", Console(LAION)),
    ("docs/how-to/convert.md", "$ shardpack convert train.lmdb packed/", Console(LMDB)),
    ("docs/how-to/convert.md", "$ shardpack convert molecules/ packed/", Console(MOLECULES)),
    ("docs/how-to/convert.md", "$ shardpack adopt old/", Console(TARS)),
    ("docs/reference/manifest.md", "id=$(sed", Shell(&["b3sum"])),
    ("docs/reference/manifest.md", "cd packed && b3sum", Shell(&["b3sum"])),
    (
        "docs/how-to/many-machines.md",
        "shardpack slurm photos",
        Test("tests/cli/slurm.rs", "arrays_end_with_the_bytes_of_one_machine"),
    ),
    (
        "docs/how-to/many-machines.md",
        "shardpack slurm --missing",
        Test("tests/cli/slurm.rs", "arrays_end_with_the_bytes_of_one_machine"),
    ),
    ("docs/how-to/many-machines.md", "#SBATCH", Test("tests/cli/slurm.rs", "arrays_end_with_the_bytes_of_one_machine")),
    (
        "docs/how-to/many-machines.md",
        "shardpack plan photos --shards",
        Test("tests/cli/many_machines.rs", "parts_by_xargs_are_one_dataset"),
    ),
    (
        "docs/how-to/many-machines.md",
        "for pass in 1 2",
        Test("tests/cli/many_machines.rs", "images_are_changed_by_parts_in_two_passes"),
    ),
    (
        "docs/how-to/many-machines.md",
        "seq 16 | parallel",
        Test("tests/cli/many_machines.rs", "parts_by_gnu_parallel_are_one_dataset"),
    ),
    (
        "docs/how-to/many-machines.md",
        "seq 64 | parallel",
        Test("tests/cli/many_machines.rs", "parts_by_gnu_parallel_are_one_dataset"),
    ),
    ("docs/how-to/many-machines.md", "nl hosts", Test("tests/cli/many_machines.rs", "parts_by_ssh_are_one_dataset")),
    (
        "docs/how-to/many-machines.md",
        "apiVersion: batch/v1",
        Test("tests/cli/many_machines.rs", "what_the_manifests_start_makes_one_dataset"),
    ),
    (
        "docs/how-to/many-machines.md",
        "{",
        Test("tests/cli/many_machines.rs", "what_the_manifests_start_makes_one_dataset"),
    ),
    (
        "docs/how-to/many-machines.md",
        "kubectl apply",
        Test("tests/cli/many_machines.rs", "jobs_are_started_in_their_order"),
    ),
    (
        "docs/how-to/many-machines.md",
        "aws batch register",
        Test("tests/cli/many_machines.rs", "jobs_are_started_in_their_order"),
    ),
    (
        "docs/reference/on-disk.md",
        "{",
        Not("a file that is shown: splits.schema.json has its form, which tests/pack/splits.rs compares"),
    ),
    (
        "docs/reference/order.md",
        "MASK = ",
        Test("tests/cli/docs.rs", "the_order_of_the_documentation_is_the_order_of_a_pack"),
    ),
    (
        "docs/reference/order.md",
        "GOLDEN = ",
        Test("tests/cli/docs.rs", "the_order_of_the_documentation_is_the_order_of_a_pack"),
    ),
    (
        "docs/reference/order.md",
        "class Buckets:",
        Test("tests/cli/docs.rs", "the_order_of_the_documentation_is_the_order_of_a_pack"),
    ),
    (
        "docs/reference/order.md",
        "# Then W, B, M",
        Test("tests/cli/docs.rs", "the_order_of_the_documentation_is_the_order_of_a_pack"),
    ),
    (
        "docs/reference/order.md",
        "1; 1 lanes",
        Test("tests/cli/docs.rs", "the_order_of_the_documentation_is_the_order_of_a_pack"),
    ),
    (
        "docs/reference/order.md",
        "1 0: 0",
        Test("tests/cli/docs.rs", "the_order_of_the_documentation_is_the_order_of_a_pack"),
    ),
    (
        "docs/reference/order.md",
        "def part(",
        Test("tests/cli/docs.rs", "the_order_of_the_documentation_is_the_order_of_a_pack"),
    ),
    (
        "docs/reference/order.md",
        "10 0 0.5 0",
        Test("tests/cli/docs.rs", "the_order_of_the_documentation_is_the_order_of_a_pack"),
    ),
    (
        "docs/reference/order.md",
        "10 1 1 1",
        Test("tests/cli/docs.rs", "the_order_of_the_documentation_is_the_order_of_a_pack"),
    ),
    (
        "docs/reference/order.md",
        "10 7 3, 2",
        Test("tests/cli/docs.rs", "the_order_of_the_documentation_is_the_order_of_a_pack"),
    ),
    (
        "docs/reference/order.md",
        "0000000000000000",
        Test("tests/cli/docs.rs", "the_order_of_the_documentation_is_the_order_of_a_pack"),
    ),
    ("docs/how-to/recipes.md", "SELECT", Python(PYTHON, &[])),
    (
        "docs/how-to/recipes.md",
        "use shardpack_reader::Dataset;",
        Not("compiled as a test of the crate shardpack-reader"),
    ),
    ("docs/how-to/sources.md", "{\"image\"", Not("a document that is shown: tests/sources/lists.rs has the same")),
    ("docs/how-to/training.md", "use shardpack_loader::{", Not("compiled as a test of the crate shardpack-loader")),
    (
        "docs/how-to/training.md",
        "$ shardpack bench packed",
        Test("tests/cli/bench.rs", "rates_waits_and_order_are_told_for_photographs"),
    ),
    (
        "docs/reference/transforms.md",
        "MASK = ",
        Test("crates/shardpack-imaging/tests/images/transforms.rs", "the_python_of_the_page_finds_the_same_boxes"),
    ),
    (
        "docs/reference/transforms.md",
        "500 375",
        Test("crates/shardpack-imaging/tests/images/transforms.rs", "boxes_and_flips_are_those_of_the_page"),
    ),
    (
        "docs/reference/formats/crops.md",
        "73 68 61 72 64 63 72 70",
        Test("crates/shardpack-format/src/crops.rs", "the_page_has_the_bytes"),
    ),
    (
        "docs/reference/formats/crops.md",
        "02 00 00 28 14 14",
        Test("crates/shardpack-jpeg/src/table.rs", "the_page_has_the_bytes"),
    ),
    (
        "docs/reference/formats/crops.md",
        "02 00 00 28 14 10",
        Test("crates/shardpack-jpeg/src/table.rs", "the_page_has_the_bytes_of_a_jpeg_with_restart_markers"),
    ),
    ("docs/reference/formats/mds.md", "from streaming", Python("SHARDPACK_PYTHON_STREAMING", &["--format", "mds"])),
    ("docs/reference/formats/recordio.md", "import mxnet", Python("SHARDPACK_PYTHON_MXNET", &["--format", "recordio"])),
    ("docs/reference/formats/recordio.md", "from glob", Python("SHARDPACK_PYTHON_DALI", &["--format", "recordio"])),
    (
        "docs/reference/formats/tfrecord.md",
        "import tensorflow",
        Python("SHARDPACK_PYTHON_TENSORFLOW", &["--format", "tfrecord"]),
    ),
];

/// Folders as in a clone of this repository.
const README: &str = "mkdir fixtures && mv photos fixtures";
const README_PACKED: &str = "mkdir fixtures && mv photos fixtures && shardpack pack fixtures/photos packed --quiet";
const OLD: &str =
    "shardpack pack photos p --format tfrecord --shards 3 --sidecars none --quiet && mkdir old && mv p/shard-* old";
const TARS: &str = "shardpack pack photos p --shards 3 --sidecars none --quiet && mkdir old && mv p/shard-* old";
const LAION: &str = "mkdir laion l && for n in 1 2 3; do cp photos/animals/cat-ear.jpg l/$n.jpg; echo 0 > l/$n.cls; echo hi > l/$n.txt; \
                     echo '{}' > l/$n.json; done; cd l; tar -cf ../laion/00000.tar *; cd ..";
const LMDB: &str = "${SHARDPACK_PYTHON:-python3} -c 'import glob, lmdb, pickle
env = lmdb.open(\"train.lmdb\", subdir=False, map_size=1 << 28)
with env.begin(write=True) as t:
    paths = sorted(glob.glob(\"photos/**/*.*\", recursive=True))
    keys = [b\"%08d\" % number for number in range(len(paths))]
    for key, path in zip(keys, paths):
        t.put(key, pickle.dumps((open(path, \"rb\").read(), 0)))
    t.put(b\"__keys__\", pickle.dumps(keys)); t.put(b\"__len__\", pickle.dumps(len(keys)))
env.close()'";

const MOLECULES: &str = "mkdir molecules && ${SHARDPACK_PYTHON:-python3} -c 'import lmdb, pickle, numpy as np
for file in 1, 2, 3:
    env = lmdb.open(f\"molecules/{file}.lmdb\", subdir=False, lock=False, map_size=1 << 28)
    with env.begin(write=True) as t:
        for n in range(40):
            t.put(f\"{n + 40 * file}\".encode(), pickle.dumps({
                \"fingerprint\": np.ones((n + 1, 64), np.float32), \"energy\": 0.5, \"atoms\": np.arange(n + 1),
                \"forces\": np.ones((n + 1, 3)), \"name\": f\"molecule {n}\"}))
    env.close()'";

/// A block: its page, its language, and its text.
struct Block {
    page: String,
    language: String,
    text: String,
}

/// All blocks of all pages, except blocks without a language (shown, not run) and the Python and shell recipes.
fn blocks() -> Vec<Block> {
    let mut pages = vec![PathBuf::from("README.md"), PathBuf::from("CONTRIBUTING.md")];
    let mut below = Vec::new();
    markdown::below(&root().join("docs"), &mut below);
    pages.extend(below.iter().map(|path| path.strip_prefix(root()).unwrap().to_path_buf()));
    pages.sort();
    let mut found = Vec::new();
    for path in pages {
        let (page, mut open) = (path.display().to_string(), None::<Block>);
        for line in fs::read_to_string(root().join(&path)).unwrap().lines() {
            match (line.strip_prefix("```"), &mut open) {
                (Some(language), None) => {
                    open = Some(Block { page: page.clone(), language: language.to_owned(), text: String::new() });
                }
                (Some(_), Some(_)) => found.extend(open.take()),
                (None, Some(block)) => block.text += &format!("{line}\n"),
                (None, None) => {}
            }
        }
    }
    // recipes.rs runs these blocks, and fails on an unknown block.
    let is_recipe =
        |block: &Block| block.page == "docs/how-to/recipes.md" && ["python", "sh"].contains(&block.language.as_str());
    // python/tests/test_pages.py runs all Python of these pages, and fails if it leaves out a block.
    let is_of_package = |block: &Block| PACKAGE.contains(&block.page.as_str()) && block.language == "python";
    found.retain(|block| !block.language.is_empty() && !is_recipe(block) && !is_of_package(block));
    assert!(found.len() > 20, "{}", found.len());
    found
}

fn is_of(row: &(&str, &str, How), block: &Block) -> bool {
    block.page == row.0 && block.text.lines().any(|line| line.starts_with(row.1))
}

/// Calls `run` for each block whose row `how` accepts.
fn each<T>(how: impl Fn(&'static How) -> Option<T>, run: impl Fn(&Block, T)) {
    for block in blocks() {
        if let Some(given) = BLOCKS.iter().find(|row| is_of(row, &block)).and_then(|row| how(&row.2)) {
            run(&block, given);
        }
    }
}

#[test]
fn the_pages_of_the_package_are_those_that_its_own_tests_run() {
    let tests = fs::read_to_string(root().join("python/tests/test_pages.py")).unwrap();
    let pages = tests.split_once("\nPAGES = [").unwrap().1.split_once(']').unwrap().0;
    for page in PACKAGE {
        assert!(pages.contains(&format!("\"{page}\"")), "{page}: not in {pages}");
    }
}

#[test]
fn each_block_of_each_page_is_run_or_says_why_not() {
    let blocks = blocks();
    for block in &blocks {
        let rows = BLOCKS.iter().filter(|row| is_of(row, block)).count();
        assert!(rows > 0, "{}: nothing runs this:\n{}", block.page, block.text);
    }
    for row in BLOCKS {
        assert!(blocks.iter().any(|block| is_of(row, block)), "{}: no block with {}", row.0, row.1);
        match row.2 {
            Test(file, name) => {
                let text = fs::read_to_string(root().join(file)).unwrap();
                let heads = ["fn", "def"].map(|word| format!("{word} {name}("));
                assert!(heads.iter().any(|head| text.contains(head)), "{file}: no test {name}");
            }
            Not(why) => assert!(!why.is_empty(), "{}", row.0),
            _ => {}
        }
    }
}

/// A folder with the photographs, and a PATH with this binary, also as `cargo run --release --`.
fn bench() -> Bench {
    let bench = Bench::new();
    fs::create_dir(bench.at("tools")).unwrap();
    std::os::unix::fs::symlink(binary(), bench.at("tools/shardpack")).unwrap();
    fs::write(bench.at("tools/cargo"), "#!/bin/sh\nshift 3\nexec shardpack \"$@\"\n").unwrap();
    let copied = Command::new("cp").arg("-r").arg(photos()).arg(bench.at("photos")).status().unwrap();
    let marked = Command::new("chmod").arg("+x").arg(bench.at("tools/cargo")).status().unwrap();
    assert!(copied.success() && marked.success());
    bench
}

fn shell(bench: &Bench, script: &str) -> Ran {
    let mut path = vec![bench.at("tools")];
    path.extend(std::env::split_paths(&std::env::var_os("PATH").unwrap()));
    let mut command = Command::new("bash");
    command.args(["-c", script]).current_dir(bench.at("")).env("PATH", std::env::join_paths(path).unwrap());
    command.env("NO_COLOR", "1").output().unwrap().into()
}

/// The words of a text, with numbers masked, because numbers differ between machines and between runs. Ids stay unchanged.
fn words(text: &str) -> Vec<String> {
    let mut words = Vec::new();
    for line in text.lines() {
        // The method of reading depends on the disk and on the cores.
        if line.starts_with("source  ") {
            continue;
        }
        for word in line.split_whitespace() {
            let is_id = word.len() == 64 && word.bytes().all(|byte| byte.is_ascii_hexdigit());
            let mut masked = String::new();
            for c in word.chars().filter(|_| !is_id) {
                match c {
                    '0'..='9' => masked.push('#'),
                    c => masked.push(c),
                }
            }
            while masked.contains("##") || masked.contains("#,#") || masked.contains("#.#") {
                masked = masked.replace("##", "#").replace("#,#", "#").replace("#.#", "#");
            }
            words.push(if is_id {
                word.to_owned()
            } else {
                masked.replace("KiB", "B").replace("MiB", "B").replace("GiB", "B")
            });
        }
    }
    words
}

#[test]
fn each_console_shows_what_is_shown() {
    let how = |how: &How| if let Console(before) = how { Some(*before) } else { None };
    each(how, |block, before| {
        let bench = bench();
        let prepared = shell(&bench, &format!("set -e; {before}"));
        assert_eq!(prepared.code, 0, "{}{}", prepared.stdout, prepared.stderr);
        let commands: Vec<&str> = block.text.split("$ ").filter(|part| !part.trim().is_empty()).collect();
        for command in commands {
            let (line, shown) = command.split_once('\n').unwrap();
            let ran = shell(&bench, &format!("{{ {line} ; }} 2>&1"));
            let (found, shown) = (words(&ran.stdout), words(shown));
            // A page may show the first lines only.
            let head = found.iter().take(shown.len()).collect::<Vec<_>>();
            assert_eq!(head, shown.iter().collect::<Vec<_>>(), "{}: {line}\n{}", block.page, ran.stdout);
        }
    });
}

#[test]
fn each_line_of_the_shell_runs() {
    let how = |how: &'static How| if let Shell(programs) = how { Some(*programs) } else { None };
    each(how, |block, programs| {
        if let Some(missing) = programs.iter().find(|program| Command::new(program).arg("--version").output().is_err())
        {
            eprintln!("{missing} is not here, so this was NOT run:\n{}", block.text);
            return;
        }
        let bench = bench();
        let ran = shell(&bench, &format!("shardpack pack photos packed --quiet && {{\n{}\n}}", block.text));
        assert_eq!(ran.code, 0, "{}{}{}", block.text, ran.stdout, ran.stderr);
    });
}

#[test]
fn each_block_of_python_runs() {
    let how = |how: &'static How| if let Python(variable, options) = how { Some((*variable, *options)) } else { None };
    each(how, |block, (variable, options)| {
        let Some(python) = std::env::var_os(variable) else {
            assert_ne!(variable, PYTHON, "not set: run `cargo xtask test`, which makes the environment");
            eprintln!("{variable} is not set: what it runs was NOT run");
            return;
        };
        let bench = bench();
        shardpack_testing::pack(&photos(), &bench.at("packed"), &[options, &["--shards", "10", "--quiet"]].concat())
            .code(0);
        let mut text = block.text.clone();
        if block.language == "sql" {
            let has_duckdb = Command::new(&python).args(["-c", "import duckdb"]).output().unwrap().status.success();
            if !has_duckdb {
                eprintln!("duckdb is not installed in {variable}: this was NOT run:\n{text}");
                return;
            }
            assert_eq!(shell(&bench, "shardpack inspect packed --table samples.parquet --quiet").code, 0);
            text = format!(
                "import duckdb\nfor query in '''{text}'''.split(';'):\n    if query.strip(): duckdb.sql(query).fetchall()\n"
            );
        }
        if text.contains("shard-000000.tar") {
            // The README packs one shard.
            shardpack_testing::pack(&photos(), &bench.at("packed"), &["--force", "--quiet"]).code(0);
        }
        fs::write(bench.at("block.py"), &text).unwrap();
        let ran: Ran = Command::new(python).arg("block.py").current_dir(bench.at("")).output().unwrap().into();
        assert_eq!(ran.code, 0, "{}: {text}{}{}", block.page, ran.stdout, ran.stderr);
    });
}

#[test]
fn the_rust_of_the_readme_runs() {
    let bench = bench();
    shardpack_testing::pack(&photos(), &bench.at("packed"), &["--quiet"]).code(0);
    let own = fs::read_to_string(root().join("tests/cli/pages.rs")).unwrap();
    let block = blocks().into_iter().find(|block| block.language == "rust").unwrap();
    for line in block.text.lines().map(|line| line.trim().replace("\"packed\"", "packed")) {
        assert!(own.lines().any(|own| own.trim() == line), "not run here: {line}");
    }
    read(&bench.at("packed")).unwrap();
}

#[allow(clippy::print_stdout)]
fn read(packed: &Path) -> shardpack_reader::Result<()> {
    let dataset = shardpack_reader::Dataset::open(packed)?;
    let mut reader = dataset.reader(..)?;
    while let Some(sample) = reader.next()? {
        println!("{:?}: {} bytes", sample.class_name(), sample.bytes().len());
    }
    Ok(())
}

//! Runs the lines that `pack` prints for readers, and the recipes of the documentation, as written.

use std::{
    ffi::OsString,
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use shardpack_testing::{Bench, Ran, binary, photos};

const SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/peers/recipes.py");

/// The Python of the environment variable `variable`. Prints a message if a large environment is missing. `cargo xtask test --full`
/// and every run with CI=true have all environments.
fn python(variable: &str) -> Option<OsString> {
    let python = std::env::var_os(variable);
    if python.is_none() {
        assert_ne!(variable, "SHARDPACK_PYTHON", "not set: run `cargo xtask test`, which makes the environment");
        eprintln!("{variable} is not set: what it runs was NOT run");
    }
    python
}

/// PATH with this binary, and with a program that decompresses zstd if the machine has no `zstd`.
fn path(tools: &Path) -> OsString {
    fs::create_dir_all(tools).unwrap();
    let link = tools.join("shardpack");
    if !link.exists() {
        std::os::unix::fs::symlink(binary(), link).unwrap();
    }
    if Command::new("zstd").arg("--version").output().is_err() {
        let python = python("SHARDPACK_PYTHON").unwrap();
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/peers/unzstd.py");
        let text = format!("#!/bin/sh\nexec {} {script} \"$2\"\n", python.to_string_lossy());
        fs::write(tools.join("zstd"), text).unwrap();
        Command::new("chmod").arg("+x").arg(tools.join("zstd")).status().unwrap();
    }
    let mut all = vec![tools.to_path_buf()];
    all.extend(std::env::split_paths(&std::env::var_os("PATH").unwrap()));
    std::env::join_paths(all).unwrap()
}

/// The lines below `next`: the reader and its line.
fn printed(ran: &Ran) -> Vec<(String, String)> {
    let (_, below) = ran.stdout.split_once("\nnext    ").unwrap();
    let lines = below.lines().skip(1).filter_map(|line| line.strip_prefix("        ")?.split_once(": "));
    lines.map(|(reader, line)| (reader.to_owned(), line.to_owned())).collect()
}

#[test]
fn each_printed_line_gives_every_sample_of_several_shards() {
    let splits = Bench::new();
    for split in ["train", "val"] {
        for class in ["animals", "people"] {
            for entry in fs::read_dir(photos().join(class)).unwrap().map(Result::unwrap) {
                if !(split == "val" && class == "people") {
                    let name = entry.file_name().into_string().unwrap();
                    splits.file(format!("{split}/{class}/{name}"), &fs::read(entry.path()).unwrap());
                }
            }
        }
    }
    let trees = [(photos(), vec![32]), (splits.src(), vec![12, 6])];
    let rows: [(&str, &[&str], &[&str]); 10] = [
        ("webdataset", &["--shards", "3"], &["webdataset"]),
        ("webdataset", &["--shards", "1"], &["webdataset"]),
        ("webdataset", &["--shards", "3", "--compress", "zstd"], &["webdataset"]),
        ("tfrecord", &["--shards", "3"], &["tf.data", "DALI"]),
        ("tfrecord", &["--shards", "3", "--sidecars", "none"], &["tf.data"]),
        ("recordio", &["--shards", "3"], &["MXNet", "DALI"]),
        ("recordio", &["--shards", "1"], &["MXNet", "DALI"]),
        ("recordio", &["--shards", "3", "--sidecars", "none"], &["MXNet"]),
        ("mds", &["--shards", "3"], &["streaming"]),
        ("mds", &["--shards", "3", "--sidecars", "none"], &[]),
    ];
    let mut run = 0;
    for (source, samples) in trees {
        // For splits, one row per format is enough.
        let of_these =
            |(_, options, _): &&(&str, &[&str], &[&str])| samples.len() == 1 || **options == ["--shards", "3"];
        for (format, options, readers) in rows.iter().filter(of_these).copied() {
            let bench = Bench::new();
            let ran =
                shardpack_testing::pack(&source, &bench.dst(), &[&["--format", format], options].concat()).code(0);
            let lines = printed(&ran);
            let expected: Vec<_> = samples.iter().flat_map(|_| readers.iter().copied()).collect();
            let found: Vec<_> = lines.iter().map(|(reader, _)| reader.as_str()).collect();
            assert_eq!(found, expected, "{format} {options:?}");
            for (number, (reader, line)) in lines.iter().enumerate() {
                let own = match reader.as_str() {
                    "webdataset" => "SHARDPACK_PYTHON",
                    "tf.data" => "SHARDPACK_PYTHON_TENSORFLOW",
                    "MXNet" => "SHARDPACK_PYTHON_MXNET",
                    "streaming" => "SHARDPACK_PYTHON_STREAMING",
                    "DALI" => "SHARDPACK_PYTHON_DALI",
                    other => panic!("{other}"),
                };
                let own = python(own);
                // The script replaces all readers except DALI.
                if reader == "DALI" && own.is_none() {
                    continue;
                }
                let python = own.unwrap_or_else(|| python("SHARDPACK_PYTHON").unwrap());
                let mut count = Command::new(python);
                count.args([SCRIPT, reader, line]).env("PATH", path(&bench.at("tools")));
                let count = Ran::from(count.output().unwrap()).code(0);
                let expected = samples[number / readers.len()].to_string();
                assert_eq!(count.stdout.lines().last(), Some(expected.as_str()), "{format} {options:?}: {line}");
                run += 1;
            }
        }
    }
    assert!(run >= 8 + 8, "{run}");
}

/// Code blocks of a page: the last headline above the block, the language, and the text.
fn blocks(page: &str) -> Vec<(String, String, String)> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/how-to").join(page);
    let text = fs::read_to_string(path).unwrap();
    let (mut title, mut open, mut found) = (String::new(), None, Vec::new());
    for line in text.lines() {
        match (line.strip_prefix("```"), &mut open) {
            (Some(language), None) => open = Some((language.to_owned(), String::new())),
            (Some(_), Some(_)) => {
                let (language, block) = open.take().unwrap();
                found.push((title.clone(), language, block));
            }
            (None, Some((_, block))) => *block += &format!("{line}\n"),
            (None, None) => {
                if let Some(headline) = line.strip_prefix('#') {
                    title = headline.trim_start_matches('#').trim().to_owned();
                }
            }
        }
    }
    assert!(found.len() > 10, "{page}: {}", found.len());
    found
}

/// A folder with the photographs and `packed`, which has ten shards.
fn prepared(options: &[&str]) -> Bench {
    let bench = Bench::new();
    let copy = Command::new("cp").arg("-r").arg(photos()).arg(bench.at("photos")).status().unwrap();
    assert!(copy.success());
    shardpack_testing::pack(&photos(), &bench.at("packed"), &[options, &["--shards", "10", "--quiet"]].concat())
        .code(0);
    bench
}

fn in_folder(bench: &Bench, program: impl AsRef<std::ffi::OsStr>, args: &[PathBuf]) -> Ran {
    let mut command = Command::new(program);
    command.args(args).current_dir(bench.at("")).env("PATH", path(&bench.at("tools")));
    command.output().unwrap().into()
}

/// Writes modules beside the recipe for the torch names that wids imports and does not use here. Its environment has no torch.
fn without_torch(bench: &Bench) {
    fs::create_dir_all(bench.at("torch/utils")).unwrap();
    for (file, text) in [
        ("torch/__init__.py", ""),
        ("torch/distributed.py", ""),
        ("torch/utils/__init__.py", ""),
        (
            "torch/utils/data.py",
            "from typing import Generic, TypeVar\n\nclass Dataset(Generic[TypeVar('T')]):\n    pass\n\nclass Sampler:\n    pass\n",
        ),
    ] {
        fs::write(bench.at(file), text).unwrap();
    }
}

#[test]
fn each_python_recipe_runs_as_it_stands() {
    let rows: [(&str, &str, &[&str]); 14] = [
        ("webdataset", "SHARDPACK_PYTHON", &[]),
        ("webdataset and PyTorch", "SHARDPACK_PYTHON_STREAMING", &[]),
        ("Python alone", "SHARDPACK_PYTHON", &[]),
        ("tf.data", "SHARDPACK_PYTHON_TENSORFLOW", &["--format", "tfrecord"]),
        ("MosaicML streaming", "SHARDPACK_PYTHON_STREAMING", &["--format", "mds"]),
        ("MXNet", "SHARDPACK_PYTHON_MXNET", &["--format", "recordio"]),
        ("NVIDIA DALI, webdataset", "SHARDPACK_PYTHON_DALI", &[]),
        ("NVIDIA DALI, recordio", "SHARDPACK_PYTHON_DALI", &["--format", "recordio"]),
        ("NVIDIA DALI, tfrecord", "SHARDPACK_PYTHON_DALI", &["--format", "tfrecord"]),
        ("wids, by number", "SHARDPACK_PYTHON_SIDECARS", &["--sidecars", "wids"]),
        ("Hugging Face datasets", "SHARDPACK_PYTHON_SIDECARS", &[]),
        ("Hugging Face datasets, all splits", "SHARDPACK_PYTHON_SIDECARS", &["--sidecars", "auto,card"]),
        ("Compressed shards", "SHARDPACK_PYTHON", &["--compress", "zstd"]),
        ("polars", "SHARDPACK_PYTHON", &[]),
    ];
    let blocks: Vec<_> = blocks("recipes.md").into_iter().filter(|(_, language, _)| language == "python").collect();
    for (title, _, block) in &blocks {
        let (_, variable, options) = rows.iter().find(|(row, ..)| row == title).unwrap_or_else(|| panic!("{title}"));
        let Some(python) = python(variable) else { continue };
        let bench = prepared(options);
        shardpack_testing::run(&[
            "inspect".into(),
            bench.at("packed"),
            "--table".into(),
            bench.at("samples.parquet"),
            "--quiet".into(),
        ])
        .code(0);
        if title == "wids, by number" {
            without_torch(&bench);
        }
        let file = bench.at("recipe.py");
        fs::write(&file, block).unwrap();
        let ran = in_folder(&bench, python, &[file]);
        assert_eq!(ran.code, 0, "{title}\n{block}\n{}{}", ran.stdout, ran.stderr);
    }
    for (title, ..) in rows {
        assert!(blocks.iter().any(|(found, ..)| found == title), "{title}: no such recipe");
    }
}

#[test]
fn each_shell_recipe_runs_as_it_stands() {
    let mut run = 0;
    for (title, language, block) in blocks("recipes.md") {
        // layouts.rs runs the recipes for trees of another layout, with their files.
        if language != "sh" || ["ImageNet", "Splits inside of classes"].contains(&title.as_str()) {
            continue;
        }
        // These recipes need other machines or other people's programs.
        let needs = ["srun", "ssh", "train.py"].into_iter().find(|program| block.contains(program));
        let missing = ["b3sum", "jq", "zstd"]
            .into_iter()
            .find(|program| block.contains(program) && Command::new(program).arg("--version").output().is_err());
        if let Some(program) = needs.or(missing) {
            eprintln!("{title}: {program} is not here, so this was NOT run:\n{block}");
            continue;
        }
        let options: &[&str] = if block.contains("tar.zst") { &["--compress", "zstd"] } else { &[] };
        let bench = prepared(options);
        // A recipe that packs needs a folder that does not exist yet.
        if block.contains("shardpack pack ") {
            fs::remove_dir_all(bench.at("packed")).unwrap();
        }
        let script = bench.at("recipe.sh");
        // The lines are alternatives, so each line runs by itself.
        for line in block.lines() {
            fs::write(&script, format!("set -e\n{line}\n")).unwrap();
            let ran = in_folder(&bench, "bash", std::slice::from_ref(&script));
            assert_eq!(ran.code, 0, "{title}: {line}\n{}{}", ran.stdout, ran.stderr);
            if block.contains("shardpack pack ") {
                fs::remove_dir_all(bench.at("packed")).unwrap();
            }
            run += 1;
        }
    }
    assert!(run >= 8, "{run}");
}

//! Generates `docs/reference/cli.md` from the help of each subcommand, `docs/explain/idle.svg` from the table *waits* in
//! `docs/explain/performance.md`, and `docs/reference/json.schema.json` from the types that the commands print with `--json`.

use crate::{
    Result,
    arguments::Arguments,
    command::{cargo, command, output, read, root, run, shardpack, write},
    plot::Percents,
};

/// Path of a generated file below docs/, and its content.
type GeneratedFile = (&'static str, String);

/// The test that compares the schema of `--json`, or writes it to the file in the environment.
const SCHEMA: (&str, &str) = ("test --quiet --package shardpack --lib document::schema::", "SHARDPACK_JSON_SCHEMA");

/// Task `docs`.
pub fn task(mut arguments: Arguments) -> Result<()> {
    let only_check = arguments.flag("--check");
    arguments.end()?;
    run(&mut cargo("build --package shardpack"))?;
    let (test, variable) = SCHEMA;
    if only_check {
        check()?;
        return run(&mut cargo(test));
    }
    all()?.iter().try_for_each(|(name, content)| write(&root().join("docs").join(name), content))?;
    run(cargo(test).env(variable, root().join("docs/reference/json.schema.json")))
}

/// Fails if a generated file is out of date. A test of the program compares the schema.
pub fn check() -> Result<()> {
    for (name, wanted) in all()? {
        if read(&root().join("docs").join(name)).ok().as_ref() != Some(&wanted) {
            return Err(format!("docs/{name} is out of date; run `cargo xtask docs`"));
        }
    }
    Ok(())
}

fn all() -> Result<[GeneratedFile; 2]> {
    Ok([
        ("reference/cli.md", commands()?),
        ("explain/idle.svg", idle(&read(&root().join("docs/explain/performance.md"))?)?),
    ])
}

/// A bar chart of GPU idle time on a hard disk, from the last table of *waits*.
fn idle(performance: &str) -> Result<String> {
    let section = performance.split("\n### ").find(|section| section.starts_with("waits\n"));
    let slow = section
        .and_then(|section| section.split("\nA disk of ").nth(1))
        .ok_or("performance.md has no waits on a disk")?;
    let percent = |name: &str| {
        let row = slow.lines().find(|line| line.starts_with(&format!("| {name}")));
        let cell = row.and_then(|row| row.split('|').nth(3)?.trim().strip_suffix(" %")?.parse::<f64>().ok());
        cell.ok_or(format!("the waits of performance.md have no row {name}"))
    };
    let rows = [
        ("PyTorch ImageFolder", "ImageFolder", false),
        ("webdataset", "webdataset", false),
        ("shardpack", "shardpack", true),
    ];
    let rows = rows.into_iter().map(|(shown, name, stands_out)| Ok((shown.to_owned(), percent(name)?, stands_out)));
    Ok(Percents { rows: rows.collect::<Result<_>>()? }.svg("GPU idle time while training from a hard disk"))
}

fn commands() -> Result<String> {
    let help = help(&["--help"])?;
    let listed = help.lines().skip_while(|line| *line != "Commands:").skip(1).take_while(|line| !line.is_empty());
    // Names begin in the third column; other lines continue a description.
    let names: Vec<_> = listed
        .filter(|line| line.starts_with("  ") && !line.starts_with("   "))
        .filter_map(|line| line.split_whitespace().next())
        .filter(|name| *name != "help")
        .collect();
    if names.is_empty() {
        return Err("`shardpack --help` lists no commands".to_owned());
    }
    let mut page = "# The command line\n\nMade by `cargo xtask docs` from what the program says.\n".to_owned();
    let mut add = |title: &str, help: &str| {
        let lines: Vec<_> = help.trim_end().lines().map(str::trim_end).collect();
        page += &format!("\n## {title}\n\n```text\n{}\n```\n", lines.join("\n"));
    };
    add("shardpack", &help);
    for name in names {
        add(&format!("shardpack {name}"), &self::help(&[name, "--help"])?);
    }
    Ok(page)
}

fn help(arguments: &[&str]) -> Result<String> {
    // Fixed width, independent of the terminal.
    output(command(shardpack("debug"), arguments).env("COLUMNS", "100").env("NO_COLOR", "1"))
}

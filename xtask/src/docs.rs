//! `docs/cli.md`: the help of each subcommand, as the program prints it.

use std::path::PathBuf;

use crate::{
    Result,
    arguments::Arguments,
    command::{cargo, command, output, read, root, run, shardpack, write},
};

/// `docs`.
pub fn task(mut arguments: Arguments) -> Result<()> {
    let only_check = arguments.flag("--check");
    arguments.end()?;
    run(&mut cargo("build --package shardpack"))?;
    if only_check { check() } else { write(&page(), text()?) }
}

/// Whether docs/cli.md says what the built program says.
pub fn check() -> Result<()> {
    let wanted = text()?;
    match read(&page()) {
        Ok(found) if found == wanted => Ok(()),
        _ => Err("docs/cli.md is not what the program says; run `cargo xtask docs`".to_owned()),
    }
}

fn page() -> PathBuf {
    root().join("docs/cli.md")
}

fn text() -> Result<String> {
    let help = help(&["--help"])?;
    let listed = help.lines().skip_while(|line| *line != "Commands:").skip(1).take_while(|line| !line.is_empty());
    // A name begins in the third column; what does not is the rest of a description.
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
    // The width of the page, whatever that of the terminal is.
    output(command(shardpack("debug"), arguments).env("COLUMNS", "100").env("NO_COLOR", "1"))
}

//! Manual pages, generated from the options in clap.

use std::{io::Write, path::Path};

use clap_mangen::{
    Man,
    roff::{Roff, bold, roman},
};
use shardpack_packer::{Error, Result};
use shardpack_storage::own;

use crate::{help, report};

/// Prints the manual page of the program or of the command `name`, or writes all pages into `folder`.
///
/// # Errors
///
/// Unknown commands; files that cannot be written.
pub fn run(name: Option<&str>, folder: Option<&Path>) -> Result<()> {
    let mut cli = help::command(false).disable_help_subcommand(true);
    // Sets the full names of the subcommands.
    cli.build();
    let Some(folder) = folder else {
        let command = match name {
            None => Some(cli),
            Some(name) => cli.find_subcommand(name).cloned(),
        };
        let command = command.ok_or_else(|| Error::usage(format!("there is no command {name:?}")))?;
        return report::print_bytes(&page(command)?.1);
    };
    own::create_folders(folder)?;
    for command in cli.get_subcommands().chain([&cli]) {
        let (file, page) = page(command.clone())?;
        own::write(&folder.join(file), &page)?;
    }
    Ok(())
}

/// File name and content of the page of a command.
fn page(command: clap::Command) -> Result<(String, Vec<u8>)> {
    let (mut out, man) = (Vec::new(), Man::new(command.clone()));
    render(command, &man, &mut out).map_err(|e| Error::io("cannot render the manual page", e))?;
    Ok((man.get_filename(), out))
}

/// As [`Man::render`], but with a synopsis that does not repeat each option, and with examples in their own section.
fn render(mut command: clap::Command, man: &Man, out: &mut impl Write) -> std::io::Result<()> {
    man.render_title(out)?;
    man.render_name_section(out)?;
    section("SYNOPSIS", &synopsis(&mut command), out)?;
    man.render_description_section(out)?;
    man.render_options_section(out)?;
    if command.has_subcommands() {
        man.render_subcommands_section(out)?;
    }
    if let Some(text) = command.get_after_long_help().or_else(|| command.get_after_help()) {
        let text = text.to_string();
        let examples = text.strip_prefix("Examples:\n").unwrap_or(&text);
        let lines: Vec<_> = examples.lines().map(|line| vec![roman(line)]).collect();
        section("EXAMPLES", &lines, out)?;
    }
    if command.get_version().is_some() {
        man.render_version_section(out)?;
    }
    Ok(())
}

/// The lines of clap's usage, each with the name of the program in bold.
fn synopsis(command: &mut clap::Command) -> Vec<Vec<clap_mangen::roff::Inline>> {
    let usage = command.render_usage().to_string();
    let lines = usage.trim_start_matches("Usage:").lines().map(str::trim).filter(|line| !line.is_empty());
    lines
        .map(|line| match line.find([' ', '[', '<']).and_then(|_| line.find(['[', '<'])) {
            Some(at) => vec![bold(line[..at].trim_end()), roman(format!(" {}", &line[at..]))],
            None => vec![bold(line)],
        })
        .collect()
}

fn section(title: &str, lines: &[Vec<clap_mangen::roff::Inline>], out: &mut impl Write) -> std::io::Result<()> {
    let mut roff = Roff::default();
    roff.control("SH", [title]);
    for line in lines {
        roff.text(line.clone());
        roff.control("br", []);
    }
    roff.to_writer(out)
}

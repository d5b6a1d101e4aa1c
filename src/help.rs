//! Content of the help: `-h` lists the common options, one per line; `--help` and the manual pages list all options.
//!
//! An option that is not listed here appears only in the long help.

use clap::{Arg, Command, CommandFactory};
use shardpack_format::formats;

use crate::cli::Cli;

/// Number of examples in the short help.
const EXAMPLES: usize = 2;

/// Headings of options in the help.
pub const SOURCE: &str = "Source";
pub const CHOICE: &str = "What goes in";
pub const SHARDS: &str = "Shards";

/// Stands for the names of all formats.
const FORMATS: &str = "formats";

/// Options of the short help, with a short text. An empty text keeps the help of the option.
const SHORT: [(&str, &str); 50] = [
    ("first", "Folder SRC/<class>/<image>, or a list: CSV, JSONL, Parquet, COCO"),
    ("no_labels", "Samples have no labels"),
    ("with", "Files of images: txt,mask=../masks/*.png"),
    ("files", "Samples that are not images: flac, or '*.flac'"),
    ("components", "Captions and the like: all (default), none, NAMES"),
    ("from", "Format of the shards [default: detected]"),
    ("image_feature", "Field with the image"),
    ("label_feature", "Field with the label"),
    ("label_from", "For LMDB and tar: where the label is"),
    ("key_pattern", "For LMDB and tar: pattern of the keys"),
    ("splits", "Folders that are splits"),
    ("parts", "A split and its source, instead of SRC"),
    ("exclude", "Leave out images whose path matches"),
    ("on_bad", "Bad images: error (seal nothing) or skip"),
    ("min_side", "Only images with a shorter side of at least N"),
    ("dedup", "Images with the same bytes only once"),
    ("classes", "The classes, in the order of their labels"),
    ("format", FORMATS),
    ("seed", "Seed of the shuffle"),
    ("order", "shuffled (default), source"),
    ("shard_size", "Maximum shard size [default: 256MiB, mds 64MiB]"),
    ("shards", "Number of shards"),
    ("compress", ""),
    ("sidecars", "Files for certain readers"),
    ("fix", "Re-encode images that loaders fail on"),
    ("resize", "Shorter side in pixels, or both"),
    ("encode", "Format of all images: jpeg, webp, png"),
    ("array", "Parts, each a job of the array"),
    ("only", "Only these parts: 3,7,10-12"),
    ("missing", "Only the parts that DST lacks"),
    ("submit", "Submit the jobs, instead of printing a script"),
    ("time", "Time limit of each job"),
    ("cpus_per_task", "Cores of each part"),
    ("throttle", "Maximum number of parts at a time"),
    ("jobs", ""),
    ("force", "Replace the existing output"),
    ("dry_run", ""),
    ("json", "One JSON document on stdout"),
    ("quiet", "Only results and errors"),
    ("quick", ""),
    ("decode", ""),
    ("against", "Compare with the source, in both directions"),
    ("repair", "Repair damage from the source, verify again"),
    ("output", ""),
    ("samples", ""),
    ("class", "With --samples: only of this class"),
    ("strays", "With --samples: only wrong extensions"),
    ("limit", ""),
    ("extract", "Write one image, by key or path, to -o FILE"),
    ("table", "Write the index as FILE.parquet or FILE.csv"),
];

/// Options that `-h` omits for these commands, although `-h` of other commands lists them.
const NOT_FOR: [(&str, &[&str]); 6] = [
    ("plan", &["jobs", "order", "classes", "compress", "sidecars"]),
    (
        "convert",
        &[
            "min_side",
            "dedup",
            "classes",
            "sidecars",
            "splits",
            "encode",
            "fix",
            "compress",
            "label_from",
            "key_pattern",
            "no_labels",
            "parts",
            "resize",
        ],
    ),
    ("pack", &["order", "classes", "compress", "sidecars", "parts", "encode"]),
    ("adopt", &["key_pattern", "label_from"]),
    (
        "slurm",
        &[
            "no_labels",
            "with",
            "files",
            "splits",
            "parts",
            "exclude",
            "min_side",
            "dedup",
            "classes",
            "sidecars",
            "order",
            "compress",
            "fix",
            "resize",
            "encode",
            "seed",
        ],
    ),
    ("inspect", &[]),
];

/// The command line, with its help as displayed. With `is_short`, the help omits possible and default values.
pub fn command(is_short: bool) -> Command {
    let mut cli = Cli::command().mut_args(with_long_help);
    let names: Vec<String> = cli.get_subcommands().map(|command| command.get_name().to_owned()).collect();
    for name in names {
        cli = cli.mut_subcommand(&name, |command| of_command(command, &name, is_short));
    }
    cli
}

fn of_command(command: Command, name: &str, is_short: bool) -> Command {
    let left_out = NOT_FOR.iter().find(|(command, _)| *command == name).map_or(&[][..], |(_, options)| options);
    let command = command.mut_args(|option| of_option(option, left_out, is_short));
    let Some(examples) = command.get_after_help().map(ToString::to_string) else { return command };
    let few: Vec<_> = examples.lines().take(1 + EXAMPLES).collect();
    let few = few.join("\n");
    command.after_help(few).after_long_help(examples)
}

fn of_option(option: Arg, left_out: &[&str], is_short: bool) -> Arg {
    let id = option.get_id().as_str().to_owned();
    let Some((_, short)) = SHORT.iter().find(|(name, _)| *name == id && !left_out.contains(name)) else {
        let is_hidden = !option.is_positional();
        return with_long_help(option).hide_short_help(is_hidden);
    };
    let has_value = option.is_positional() || option.get_action().takes_values();
    let option = match has_value && is_short {
        true => option.hide_possible_values(true).hide_default_value(true),
        false => option,
    };
    match option.get_help().cloned() {
        Some(long) if *short == FORMATS => {
            let help = format_names();
            option.help(help).long_help(long)
        }
        Some(long) if !short.is_empty() => option.help(*short).long_help(long),
        _ => option,
    }
}

/// The names of all formats; the first is the default.
fn format_names() -> String {
    let names: Vec<_> = formats::ALL.iter().map(|entry| entry.name).collect();
    names.join(", ").replacen(", ", " (default), ", 1)
}

/// Sets the help of `option` as its long help, if it has none: manual pages show only the long help of options that `-h` hides.
fn with_long_help(option: Arg) -> Arg {
    match (option.get_long_help(), option.get_help().cloned()) {
        (None, Some(help)) => option.long_help(help),
        _ => option,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn manual_pages_tell_what_each_option_does() {
        let mut cli = command(false).disable_help_subcommand(true);
        cli.build();
        for command in cli.get_subcommands() {
            for option in command.get_arguments().filter(|option| !option.is_hide_set()) {
                let is_told =
                    option.get_long_help().is_some() || option.get_help().is_some() && !option.is_hide_short_help_set();
                assert!(is_told, "{} {}", command.get_name(), option.get_id());
            }
        }
    }

    #[test]
    fn what_is_named_here_is_an_option_of_some_command() {
        let command = command(false);
        let options: Vec<String> = command
            .get_subcommands()
            .flat_map(Command::get_arguments)
            .map(|option| option.get_id().to_string())
            .collect();
        let named = SHORT.iter().map(|(name, _)| *name);
        for name in named.chain(NOT_FOR.iter().flat_map(|(_, options)| options.iter().copied())) {
            assert!(options.iter().any(|option| option == name), "{name}");
        }
    }
}

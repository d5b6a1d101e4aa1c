//! Output for a terminal: colours at the start of lines, and wrapping between words.
//!
//! A file or a pipe gets unchanged text, unless colours are requested.

use std::{borrow::Cow, io::IsTerminal};

use anstream::{AutoStream, ColorChoice};
use terminal_size::{Width, terminal_size_of};

const GOOD: &str = "\x1b[1;32m";
const BAD: &str = "\x1b[1;31m";
const NOTICE: &str = "\x1b[1;33m";
const HINT: &str = "\x1b[1;36m";
const PLAIN: &str = "\x1b[1m";
const END: &str = "\x1b[0m";

/// The first words of lines, and their colours.
const HEADS: [(&str, &str); 34] = [
    ("error:", BAD),
    ("failed", BAD),
    ("ok", GOOD),
    ("packed", GOOD),
    ("sealed", GOOD),
    ("adopted", GOOD),
    ("mended", GOOD),
    ("wrote", GOOD),
    ("note", NOTICE),
    ("help:", HINT),
    ("next", HINT),
    ("found", PLAIN),
    ("plan", PLAIN),
    ("source", PLAIN),
    ("space", PLAIN),
    ("id", PLAIN),
    ("dataset", PLAIN),
    ("splits", PLAIN),
    ("part", PLAIN),
    ("foreign", PLAIN),
    ("holds", PLAIN),
    ("shards", PLAIN),
    ("format", PLAIN),
    ("entries", PLAIN),
    ("fields", PLAIN),
    ("parts", PLAIN),
    ("cost", PLAIN),
    ("members", PLAIN),
    ("kinds", PLAIN),
    ("size", PLAIN),
    ("pixels", PLAIN),
    ("changed", PLAIN),
    ("ledger", PLAIN),
    ("classes", PLAIN),
];

/// First words of prose lines, which may wrap; commands and tables stay unchanged.
const PROSE: [&str; 27] = [
    "error:", "help:", "note", "found", "plan", "source", "shards", "entries", "fields", "space", "network", "price",
    "packed", "sealed", "merged", "unsure", "plain", "raw", "epoch", "decode", "crops", "tables", "skipped", "waits",
    "order", "memory", "parts",
];

/// An output stream.
#[derive(Clone, Copy, Debug)]
pub enum Stream {
    /// Results.
    Out,
    /// Everything else.
    Err,
}

impl Stream {
    /// Width in columns, if the stream is a terminal.
    pub fn columns(self) -> Option<usize> {
        let size = match self {
            Self::Out if std::io::stdout().is_terminal() => terminal_size_of(std::io::stdout()),
            Self::Err if std::io::stderr().is_terminal() => terminal_size_of(std::io::stderr()),
            _ => None,
        };
        size.map(|(Width(columns), _)| columns.into()).filter(|columns| *columns > 0)
    }

    fn has_colours(self) -> bool {
        let choice = match self {
            Self::Out => AutoStream::choice(&std::io::stdout()),
            Self::Err => AutoStream::choice(&std::io::stderr()),
        };
        choice != ColorChoice::Never
    }
}

/// `text` as displayed on `stream`.
pub fn dress(text: &str, stream: Stream) -> Cow<'_, str> {
    let (columns, has_colours) = (stream.columns(), stream.has_colours());
    if columns.is_none() && !has_colours {
        return Cow::Borrowed(text);
    }
    Cow::Owned(dressed(text, columns, has_colours))
}

fn dressed(text: &str, columns: Option<usize>, has_colours: bool) -> String {
    let mut out = String::with_capacity(text.len() + 64);
    for line in text.split_inclusive('\n') {
        let head = head(line);
        let wrapped = match columns.filter(|_| PROSE.contains(&head)) {
            Some(columns) => Cow::Owned(wrap(line, columns, if head == "error:" { 7 } else { 8 })),
            None => Cow::Borrowed(line),
        };
        match HEADS.iter().find(|(word, _)| *word == head).filter(|_| has_colours) {
            Some((word, colour)) => out += &wrapped.replacen(word, &format!("{colour}{word}{END}"), 1),
            None => out += &wrapped,
        }
    }
    out
}

/// The first word of a line, or `help:` for an indented help line.
fn head(line: &str) -> &str {
    let word = line.split([' ', '\n']).next().unwrap_or("");
    if word.is_empty() && line.starts_with("  help: ") { "help:" } else { word }
}

/// Wraps `line` at spaces to at most `columns` characters, with the second and later pieces indented.
fn wrap(line: &str, columns: usize, indent: usize) -> String {
    if line.trim_end().chars().count() <= columns || columns < 2 * indent {
        return line.to_owned();
    }
    let (mut out, mut at) = (String::with_capacity(line.len() + 32), 0);
    let mut is_first = true;
    // Runs of spaces, such as those after the first word, stay with the word before.
    for word in line.trim_end().split_inclusive(' ') {
        let width = word.trim_end().chars().count();
        if !is_first && width > 0 && at + width > columns {
            out.truncate(out.trim_end().len());
            out.push('\n');
            out += &" ".repeat(indent);
            at = indent;
        }
        out += word;
        at += word.chars().count();
        // Never break between the first word and the second.
        is_first = is_first && at < indent;
    }
    if line.ends_with('\n') {
        out.push('\n');
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_note_breaks_between_words() {
        let note = "note    3 shards: a job of 8 GPUs with 4 workers each has 32 readers, and 29 of them stay idle\n";
        assert_eq!(
            dressed(note, Some(50), false),
            "note    3 shards: a job of 8 GPUs with 4 workers\n        each has 32 readers, and 29 of them stay\n        idle\n"
        );
        for columns in 16..120 {
            let text = dressed(note, Some(columns), false);
            assert!(text.lines().all(|line| line.chars().count() <= columns), "{columns}: {text}");
            let words = |text: &str| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
            assert_eq!(words(&text), words(note), "{columns}");
        }
    }

    #[test]
    fn what_is_copied_from_the_terminal_is_not_broken() {
        let next = format!("next    shardpack pack --plan {} packed\n", "x".repeat(90));
        assert_eq!(dressed(&next, Some(50), false), next);
    }

    #[test]
    fn the_first_word_has_the_colour() {
        assert_eq!(dressed("ok      3 samples\n", None, true), format!("{GOOD}ok{END}      3 samples\n"));
        assert_eq!(dressed("  help: do it\n", None, true), format!("  {HINT}help:{END} do it\n"));
        assert_eq!(dressed("okay\n  ok\n", None, true), "okay\n  ok\n");
    }
}

//! Collects every help line in the sources: its fixed text and its file.
//!
//! Reads the source as text: the arguments of `.help(…)`, values named `help`, and constants that are passed to `.help(…)`.

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
};

/// A help line in the sources.
#[derive(Debug)]
pub struct Line {
    /// Source file.
    pub file: String,
    /// The text between the inserted values.
    pub pieces: Vec<String>,
}

impl Line {
    /// The longest piece.
    pub fn longest(&self) -> &str {
        self.pieces.iter().max_by_key(|piece| piece.len()).map_or("", |piece| piece)
    }
}

/// Values that go to clap's own `help`.
const OF_CLAP: [&str; 3] = ["*short", "entry.about", "dialect.about"];

/// All help lines.
///
/// Panics if the argument of a `.help(…)` cannot be resolved.
pub fn all(root: &Path) -> Vec<Line> {
    let mut files = Vec::new();
    collect(&root.join("src"), &mut files);
    for entry in fs::read_dir(root.join("crates")).unwrap() {
        collect(&entry.unwrap().path().join("src"), &mut files);
    }
    files.sort();
    let texts: Vec<(String, String)> = files.iter().map(|file| (name(root, file), code(file))).collect();
    let mut constants = BTreeSet::new();
    let mut lines = Vec::new();
    for (file, text) in &texts {
        for (at, _) in text.match_indices(".help(") {
            let given = until_end(&text[at + ".help(".len()..]);
            let last = given.rsplit("::").next().unwrap_or(given);
            if is_constant(last) {
                constants.insert(last.to_owned());
            } else if !given.contains('"') && !OF_CLAP.contains(&given) {
                let is_known = ["help", "one.help"].contains(&given) || given.starts_with("help::");
                assert!(
                    is_known,
                    "{file}: .help({given}): call it `help`, or make it a constant, so that it is found here"
                );
            }
            lines.extend(literals(given).into_iter().map(|text| line(file, &text)));
        }
        for start in ["let help = ", "let mut help = ", " help = ", "help.push(", "help: Some(", "help: format!("] {
            for (at, _) in text.match_indices(start) {
                let is_second = start == " help = " && text[..at].ends_with("let") || text[..at].ends_with("let mut");
                let value = if is_second { "" } else { until_end(&text[at + start.len()..]) };
                lines.extend(literals(value).into_iter().map(|text| line(file, &text)));
            }
        }
        // Functions that make a help line.
        for (at, name) in text.match_indices("fn help_") {
            let body = text[at + name.len()..].split_once('{').unwrap().1;
            lines.extend(literals(until_end(body)).into_iter().map(|text| line(file, &text)));
        }
        // Every text in the file of shared lines is a help line.
        if file == "crates/shardpack-format/src/help.rs" {
            lines.extend(literals(text).into_iter().map(|text| line(file, &text)));
        }
    }
    for (file, text) in &texts {
        for constant in constants.iter().filter(|_| !file.ends_with("shardpack-format/src/help.rs")) {
            if let Some(at) = text.find(&format!("const {constant}: &str =")) {
                let value = until_end(&text[at..]);
                lines.extend(literals(value).into_iter().map(|text| line(file, &text)));
            }
        }
    }
    // Short pieces are fragments of a sentence, not help lines.
    lines.retain(|line| line.longest().len() >= 12);
    assert!(lines.len() > 100, "{}", lines.len());
    lines
}

fn is_constant(word: &str) -> bool {
    !word.is_empty() && word.chars().all(|c| c.is_ascii_uppercase() || c == '_')
}

fn collect(folder: &Path, files: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        match path.extension() {
            _ if path.is_dir() => collect(&path, files),
            Some(extension) if extension == "rs" && path.file_name().is_none_or(|name| name != "tests.rs") => {
                files.push(path);
            }
            _ => {}
        }
    }
}

fn name(root: &Path, file: &Path) -> String {
    file.strip_prefix(root).unwrap().display().to_string()
}

/// The text of a file without its tests and comments.
fn code(file: &Path) -> String {
    let text = fs::read_to_string(file).unwrap();
    let code = text.split("#[cfg(test)]\nmod tests {").next().unwrap();
    let is_comment = |line: &&str| line.trim_start().starts_with("//");
    code.lines().filter(|line| !is_comment(line)).map(|line| format!("{line}\n")).collect()
}

/// The text before the bracket, comma or semicolon that ends the expression.
fn until_end(text: &str) -> &str {
    let (mut depth, mut in_text, mut escaped) = (0, false, false);
    for (at, c) in text.char_indices() {
        match c {
            _ if escaped => escaped = false,
            '\\' if in_text => escaped = true,
            '"' => in_text = !in_text,
            _ if in_text => {}
            '(' | '[' | '{' => depth += 1,
            ')' | ']' | '}' if depth == 0 => return text[..at].trim(),
            ')' | ']' | '}' => depth -= 1,
            ';' | ',' if depth == 0 => return text[..at].trim_end(),
            _ => {}
        }
    }
    text
}

/// The string literals in a piece of code.
fn literals(code: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut chars = code.chars().peekable();
    while let Some(c) = chars.next() {
        if c == '\'' {
            // A character literal: `'"'` does not start a string.
            let _ = chars.by_ref().next();
        }
        if c != '"' {
            continue;
        }
        let mut text = String::new();
        while let Some(c) = chars.next().filter(|c| *c != '"') {
            match c {
                '\\' => match chars.next() {
                    Some('\n') => while chars.next_if(|c| c.is_whitespace()).is_some() {},
                    Some(c) => text.push(c),
                    None => {}
                },
                c => text.push(c),
            }
        }
        found.push(text);
    }
    found
}

fn line(file: &str, text: &str) -> Line {
    let (mut pieces, mut depth) = (vec![String::new()], 0);
    for c in text.replace("{{", "\u{1}").replace("}}", "\u{2}").chars() {
        match c {
            '{' => {
                depth += 1;
                pieces.push(String::new());
            }
            '}' => depth -= 1,
            _ if depth > 0 => {}
            '\u{1}' => pieces.last_mut().unwrap().push('{'),
            '\u{2}' => pieces.last_mut().unwrap().push('}'),
            c => pieces.last_mut().unwrap().push(c),
        }
    }
    let trimmed =
        |piece: &String| piece.trim_matches(|c: char| c == ' ' || c == ';' || c == ',' || c == ':').to_owned();
    Line { file: file.to_owned(), pieces: pieces.iter().map(trimmed).collect() }
}

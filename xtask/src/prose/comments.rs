//! Checks the English of comments and docstrings: paraphrases per 1,000 words, in each crate and folder.

use std::collections::BTreeMap;

use super::{PARAPHRASES, SHOWN, paraphrases, words};
use crate::{
    Result,
    command::{read, root},
    sources,
};

/// Folders with code, tests and examples included.
const FOLDERS: [&str; 6] = ["crates", "src", "tests", "python", "xtask", "fuzz/fuzz_targets"];
/// Limits per 1,000 words, in the order of [`PARAPHRASES`].
const MAX_RATES: [f64; PARAPHRASES.len()] = [3.0, 2.0, 1.0];

/// A comment line: file, line number, text.
type Line = (String, usize, String);

/// The problems of all comments, one line each.
pub fn check() -> Result<Vec<String>> {
    let mut files = Vec::new();
    for folder in FOLDERS {
        sources::files_below(folder, ".rs", &mut files)?;
        sources::files_below(folder, ".py", &mut files)?;
    }
    files.sort();
    let mut groups = BTreeMap::<String, Vec<Line>>::new();
    for name in files {
        let text = read(&root().join(&name))?;
        let lines = if name.ends_with(".py") { python(&text) } else { rust(&text) };
        let lines = lines.into_iter().map(|(number, text)| (name.clone(), number, text));
        groups.entry(group(&name)).or_default().extend(lines);
    }
    Ok(groups.iter().flat_map(|(group, lines)| judge(group, lines)).collect())
}

/// The crate or folder of a file.
fn group(name: &str) -> String {
    let depth = if name.starts_with("crates/") { 2 } else { 1 };
    name.split('/').take(depth).collect::<Vec<_>>().join("/")
}

fn judge(group: &str, lines: &[Line]) -> Vec<String> {
    let all: usize = lines.iter().map(|(_, _, text)| words(text)).sum();
    let counted: Vec<_> = lines.iter().map(|(file, number, text)| (paraphrases(text), file, number, text)).collect();
    let mut wrong = Vec::new();
    for (at, (name, ..)) in PARAPHRASES.iter().enumerate() {
        let count: usize = counted.iter().map(|(counts, ..)| counts[at]).sum();
        let rate = 1000.0 * count as f64 / all.max(1) as f64;
        if rate > MAX_RATES[at] {
            wrong.push(format!(
                "comments of {group}: {name:?} {rate:.1} times in 1,000 words, at most {}",
                MAX_RATES[at]
            ));
            let shown = counted.iter().filter(|(counts, ..)| counts[at] > 0).take(SHOWN);
            wrong.extend(shown.map(|(_, file, number, text)| format!("  {file}:{number}: {text}")));
        }
    }
    wrong
}

/// Comments of Rust code by line number.
fn rust(code: &str) -> Vec<(usize, String)> {
    let (mut comments, mut rest, mut line) = (Vec::new(), code, 1);
    while let Some(c) = rest.chars().next() {
        let length = match c {
            '/' if rest.starts_with("//") => {
                let comment = rest.lines().next().unwrap_or_default();
                comments.push((line, comment.trim_start_matches(['/', '!']).trim().to_owned()));
                comment.len()
            }
            '"' => string(rest),
            'r' => raw_string(rest).unwrap_or(1),
            '\'' if rest.starts_with("'\"'") || rest.starts_with("'\\\"'") => 2,
            c => c.len_utf8(),
        };
        let (passed, after) = rest.split_at(length.min(rest.len()));
        line += passed.matches('\n').count();
        rest = after;
    }
    comments
}

/// Length of the string literal at the start of `code`.
fn string(code: &str) -> usize {
    let mut is_escaped = false;
    let end = code.bytes().skip(1).position(|byte| {
        let is_end = byte == b'"' && !is_escaped;
        is_escaped = byte == b'\\' && !is_escaped;
        is_end
    });
    end.map_or(code.len(), |end| end + 2)
}

/// Length of the raw string literal at the start of `code`, if there is one.
fn raw_string(code: &str) -> Option<usize> {
    let marks = code[1..].bytes().take_while(|byte| *byte == b'#').count();
    let text = code[1 + marks..].strip_prefix('"')?;
    let end = text.find(&format!("\"{}", "#".repeat(marks)))?;
    Some(1 + marks + 1 + end + 1 + marks)
}

/// Comments and docstrings of Python code by line number.
fn python(code: &str) -> Vec<(usize, String)> {
    // Inside a string over several lines: whether it is a docstring.
    let (mut comments, mut string) = (Vec::new(), None);
    for (number, line) in (1..).zip(code.lines()) {
        let text = line.trim();
        let is_docstring = string.unwrap_or(text.starts_with("\"\"\"") || text.starts_with("r\"\"\""));
        if is_docstring || (string.is_none() && text.starts_with('#')) {
            comments.push((number, text.trim_matches(['#', ':', '"', ' ']).to_owned()));
        }
        if text.matches("\"\"\"").count() % 2 == 1 {
            string = if string.is_some() { None } else { Some(is_docstring) };
        }
    }
    comments
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_are_found_and_strings_are_not() {
        let code = "//! One.\nfn f() {\n    let a = \"// no \\\" // no\"; // Two.\n    let b = r#\"\" // no\n\"#; '\"'; /// Three.\n}";
        assert_eq!(rust(code), [(1, "One.".to_owned()), (3, "Two.".to_owned()), (5, "Three.".to_owned())]);
        let code =
            "\"\"\"One.\n\nTwo.\n\"\"\"\n#: Three.\nx = \"\"\"no\n\"\"\"  # no\ndef f():\n    \"\"\"Four.\"\"\"\n";
        let found: Vec<_> = python(code).into_iter().filter(|(_, text)| !text.is_empty()).collect();
        let expected = [(1, "One."), (3, "Two."), (5, "Three."), (9, "Four.")];
        assert_eq!(found, expected.map(|(number, text)| (number, text.to_owned())));
    }

    #[test]
    fn a_paraphrase_in_few_words_is_too_many() {
        let line = |text: &str| vec![("a.rs".to_owned(), 7, text.to_owned())];
        assert!(judge("src", &line("Reads the shard.")).is_empty());
        let wrong = judge("src", &line("Reads what is there.")).join("\n");
        assert_eq!(
            wrong,
            "comments of src: \"what\" 250.0 times in 1,000 words, at most 3\n  a.rs:7: Reads what is there."
        );
        assert_eq!((group("crates/x/src/a.rs"), group("src/a/b.rs")), ("crates/x".to_owned(), "src".to_owned()));
    }
}

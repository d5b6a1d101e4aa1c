//! Expands globs and brace patterns to paths, as a shell does.
//!
//! An unreadable folder is an error, never a folder without matches; a path is silently skipped only if it is missing and no
//! listing named it.

use std::{
    io,
    path::{Component, Path, PathBuf},
};

use globset::{GlobBuilder, GlobMatcher};
use shardpack_format::{Error, Result};
use shardpack_storage::sys;

/// Most files that a brace pattern may stand for.
const MAX_EXPANDED: usize = 1 << 20;

/// Expands `source`: the path itself if it exists, or all matches of a glob or brace pattern.
///
/// # Errors
/// If nothing matches, or a path is missing or unreadable.
pub fn expanded(source: &Path) -> Result<Vec<PathBuf>> {
    if sys::metadata_opt(source)?.is_some() {
        return Ok(vec![source.to_path_buf()]);
    }
    let text = source.to_string_lossy();
    let mut paths = Vec::new();
    for pattern in braces(&text).map_err(|error| error.in_file(source))? {
        let before = paths.len();
        match pattern.contains(['*', '?', '[']) {
            true => glob(&pattern, &mut paths)?,
            false => paths.push(PathBuf::from(&pattern)),
        }
        if paths.len() == before {
            return Err(Error::usage("no file matches this pattern").in_file(pattern));
        }
    }
    for path in &paths {
        if sys::metadata_opt(path)?.is_none() {
            return Err(Error::usage(sys::missing(path, "no such file or folder")).in_file(path));
        }
    }
    Ok(paths)
}

/// Expands a brace pattern: `{a,b}` and `{000..146}`, also several and nested; text without a pattern expands to itself.
///
/// # Errors
/// If the pattern has too many expansions.
pub fn braces(text: &str) -> Result<Vec<String>> {
    let mut done = Vec::new();
    // Those that are not done, the next one last.
    let mut rest = vec![text.to_owned()];
    while let Some(text) = rest.pop() {
        let Some((before, choices, after)) = first_brace(&text)? else {
            done.push(text);
            continue;
        };
        if choices.len() + done.len() + rest.len() > MAX_EXPANDED {
            return Err(too_many());
        }
        rest.extend(choices.iter().rev().map(|choice| format!("{before}{choice}{after}")));
    }
    Ok(done)
}

fn too_many() -> Error {
    Error::usage(format!("a pattern that stands for more than {MAX_EXPANDED} files"))
}

/// The first brace pattern in `text`: the text before, the choices, the text after.
fn first_brace(text: &str) -> Result<Option<(&str, Vec<String>, &str)>> {
    for (open, _) in text.match_indices('{') {
        let (mut depth, mut commas, mut close) = (0, Vec::new(), None);
        for (at, c) in text[open..].char_indices() {
            match c {
                '{' => depth += 1,
                '}' => depth -= 1,
                ',' if depth == 1 => commas.push(open + at),
                _ => {}
            }
            if depth == 0 {
                close = Some(open + at);
                break;
            }
        }
        let Some(close) = close else { continue };
        let (before, inner, after) = (&text[..open], &text[open + 1..close], &text[close + 1..]);
        if !commas.is_empty() {
            let starts = std::iter::once(open).chain(commas.iter().copied()).map(|at| at + 1);
            let ends = commas.iter().copied().chain([close]);
            let choices = starts.zip(ends).map(|(start, end)| text[start..end].to_owned());
            return Ok(Some((before, choices.collect(), after)));
        }
        if let Some(range) = numbers(inner)? {
            return Ok(Some((before, range, after)));
        }
    }
    Ok(None)
}

/// `000..146`: the numbers from the first to the last, with as many digits as either has where one begins with 0.
fn numbers(inner: &str) -> Result<Option<Vec<String>>> {
    let Some((first, last)) = inner.split_once("..") else { return Ok(None) };
    let number = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse::<u64>().ok())?;
    let (Some(from), Some(to)) = (number(first), number(last)) else { return Ok(None) };
    if from.abs_diff(to) >= MAX_EXPANDED as u64 {
        return Err(too_many());
    }
    let is_padded = |text: &str| text.len() > 1 && text.starts_with('0');
    let width = if is_padded(first) || is_padded(last) { first.len().max(last.len()) } else { 0 };
    let shown = |number: u64| format!("{number:0width$}");
    Ok(Some(if from <= to { (from..=to).map(shown).collect() } else { (to..=from).rev().map(shown).collect() }))
}

/// Appends the matches of a glob, sorted by name.
fn glob(pattern: &str, out: &mut Vec<PathBuf>) -> Result<()> {
    let parts: Vec<Component<'_>> = Path::new(pattern).components().collect();
    expand(PathBuf::new(), false, &parts, out).map_err(|error| error.in_file(pattern))
}

/// `is_listed`: a listing has named `before`.
fn expand(before: PathBuf, is_listed: bool, parts: &[Component<'_>], out: &mut Vec<PathBuf>) -> Result<()> {
    let Some((part, rest)) = parts.split_first() else {
        if is_listed || sys::metadata_opt(&before)?.is_some() {
            out.push(before);
        }
        return Ok(());
    };
    let text = part.as_os_str().to_string_lossy();
    if !text.contains(['*', '?', '[']) {
        return expand(before.join(part), false, rest, out);
    }
    let wrong = |error: globset::Error| Error::usage(error.to_string());
    let matcher: GlobMatcher =
        GlobBuilder::new(&text).literal_separator(true).build().map_err(wrong)?.compile_matcher();
    let folder = if before.as_os_str().is_empty() { PathBuf::from(".") } else { before.clone() };
    let failed = |error| sys::io_error("cannot read folder", &folder, error);
    let entries = match std::fs::read_dir(&folder) {
        Err(error) if error.kind() == io::ErrorKind::NotADirectory => return Ok(()),
        Err(error) if error.kind() == io::ErrorKind::NotFound && !is_listed => return Ok(()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return Err(Error::usage(sys::missing(&folder, "is gone")).in_file(&folder));
        }
        entries => entries.map_err(failed)?,
    };
    let mut names =
        entries.map(|entry| entry.map(|entry| entry.file_name())).collect::<io::Result<Vec<_>>>().map_err(failed)?;
    names.retain(|name| {
        let hidden = name.to_string_lossy().starts_with('.') && !text.starts_with('.');
        !hidden && matcher.is_match(Path::new(name))
    });
    names.sort();
    names.into_iter().try_for_each(|name| expand(before.join(name), true, rest, out))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn braces_stand_for_what_they_do_in_a_shell() {
        let expanded = |text: &str| braces(text).unwrap().join(" ");
        assert_eq!(expanded("a-{08..11}.tar"), "a-08.tar a-09.tar a-10.tar a-11.tar");
        assert_eq!(expanded("a{3..1}"), "a3 a2 a1");
        assert_eq!(expanded("{x,y{1,2}}/{0..1}"), "x/0 x/1 y1/0 y1/1 y2/0 y2/1");
        for literal in ["plain", "a{b}c", "a{1..b}", "{", "}{", "a{1,2"] {
            assert_eq!(expanded(literal), literal);
        }
        assert_eq!(expanded("{b}{1,2}"), "{b}1 {b}2");
        assert!(braces("{0..99999999}").is_err());
        assert!(braces("{0..1023}{0..1023}{0..1023}").is_err());
    }

    #[test]
    fn globs_match_file_names_in_order() {
        let folder = tempfile::tempdir().unwrap();
        for name in ["b/2.tar", "a/1.tar", "a/0.tar", "a/x.txt", "a/.h.tar"] {
            let path = folder.path().join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, b"").unwrap();
        }
        let mut found = Vec::new();
        glob(&format!("{}/?/*.tar", folder.path().display()), &mut found).unwrap();
        let found: Vec<_> = found.iter().map(|path| path.strip_prefix(folder.path()).unwrap()).collect();
        assert_eq!(found, ["a/0.tar", "a/1.tar", "b/2.tar"].map(Path::new));
    }

    #[test]
    fn a_folder_that_cannot_be_read_is_not_one_without_matches() {
        let folder = tempfile::tempdir().unwrap();
        let text = |end: &str| PathBuf::from(format!("{}/{end}", folder.path().display()));
        std::fs::create_dir(text("a")).unwrap();
        std::fs::write(text("a/0.tar"), b"").unwrap();
        std::fs::write(text("file"), b"").unwrap();
        assert_eq!(expanded(&text("*/*.tar")).unwrap(), [text("a/0.tar")]);
        // Not named by a listing, so that it is nothing that is missing.
        assert_eq!(expanded(&text("*/0.tar")).unwrap(), [text("a/0.tar")]);
        for (link, to) in [("gone", "nowhere"), ("round", "round")] {
            std::os::unix::fs::symlink(to, text(link)).unwrap();
            let error = expanded(&text("*/*.tar")).unwrap_err();
            assert!(error.to_string().contains(link), "{error}");
            std::fs::remove_file(text(link)).unwrap();
            std::os::unix::fs::symlink(to, text("a/1.tar")).unwrap();
            let error = expanded(&text("a/*.tar")).unwrap_err();
            assert!(error.to_string().contains("a/1.tar"), "{error}");
            std::fs::remove_file(text("a/1.tar")).unwrap();
        }
    }
}

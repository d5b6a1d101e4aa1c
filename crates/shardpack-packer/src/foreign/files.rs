//! From what a person writes to files: paths, folders, globs, brace patterns.
//!
//! A folder stands for the shards right in it, in the order of their names, or in that of its `index.json` if it has
//! one. Names in an index are taken from its own folder only.

use std::{
    collections::BTreeMap,
    path::{Component, Path, PathBuf},
};

use globset::{GlobBuilder, GlobMatcher};
use rayon::prelude::*;
use shardpack_format::{Error, Result, formats::mds};

use super::{Kind, ShardFile, lmdb::DATA_FILE, recognise::recognise};
use crate::sys;

/// Most files that a brace pattern may stand for.
const MOST_EXPANDED: usize = 1 << 20;
/// Name of the index of an MDS dataset.
pub(super) const INDEX_JSON: &str = "index.json";
/// Extensions of files that lie beside shards and are none, however they begin.
const BESIDE: [&str; 7] = ["idx", "lst", "index", "json", "txt", "csv", "md"];

/// Why a file of a folder is passed over.
const UNKNOWN: &str = "no shard by its first bytes";

/// The files that some sources stand for.
#[derive(Clone, Debug, Default)]
pub struct Files {
    /// Shards, in order.
    pub shards: Vec<ShardFile>,
    /// Files of folders that are no shards, by the reason why.
    pub ignored: BTreeMap<String, u64>,
}

/// Finds the shards that `source` stands for; all of format `from` where that is said.
///
/// # Errors
/// When it stands for nothing, or a file cannot be read or is of no known format.
pub fn find(source: &Path, from: Option<Kind>) -> Result<Files> {
    if source.is_dir() {
        return of_folder(source, from);
    }
    Ok(Files { shards: recognised(&expanded(source)?, from)?, ..Files::default() })
}

/// What `source` stands for: itself if it is there, or all that a glob or brace pattern matches.
///
/// # Errors
/// When that is nothing, or something that is not there.
pub(crate) fn expanded(source: &Path) -> Result<Vec<PathBuf>> {
    if source.exists() {
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
    match paths.iter().find(|path| !path.exists()) {
        Some(missing) => Err(Error::usage("no such file or folder").in_file(missing)),
        None => Ok(paths),
    }
}

/// Files that a person named: each has to be a shard.
fn recognised(paths: &[PathBuf], from: Option<Kind>) -> Result<Vec<ShardFile>> {
    let shards = paths.par_iter().map(|path| match from {
        Some(kind) => ShardFile::of_kind(path, kind),
        None => recognise(path)?.ok_or_else(|| unknown(path)),
    });
    shards.collect()
}

fn unknown(path: &Path) -> Error {
    Error::data("of no format that this program knows, by its first bytes").in_file(path).help(
        "webdataset tar, TFRecord, RecordIO, MDS, parquet, LMDB and HDF5 are told by themselves; --from says which it is",
    )
}

/// The shards right in `folder`.
///
/// # Errors
/// When it or a file in it cannot be read, or its `index.json` names what is not there.
pub fn of_folder(folder: &Path, from: Option<Kind>) -> Result<Files> {
    if let Some(bytes) = sys::read_if_there(&folder.join(INDEX_JSON))?
        && let Ok(index) = mds::read_index(&bytes)
    {
        return of_index(folder, index);
    }
    let paths = files_in(folder)?;
    let looked = paths.par_iter().map(|path| match beside(path) {
        Some(extension) => Ok(Err(format!("extension .{extension}"))),
        None => {
            let shard = recognise(path)?.filter(|shard| from.is_none_or(|kind| kind == shard.kind));
            Ok(shard.ok_or_else(|| UNKNOWN.to_owned()))
        }
    });
    let mut files = Files::default();
    let mut unknown = Vec::new();
    for (path, looked) in paths.iter().zip(looked.collect::<Result<Vec<_>>>()?) {
        match looked {
            Ok(shard) => files.shards.push(shard),
            Err(reason) => {
                if reason == UNKNOWN {
                    unknown.push(path.clone());
                }
                *files.ignored.entry(reason).or_default() += 1;
            }
        }
    }
    if files.shards.is_empty() && from.is_some() && !unknown.is_empty() {
        // A person says what the files themselves do not.
        files.shards = recognised(&unknown, from)?;
        files.ignored.remove(UNKNOWN);
    }
    Ok(files)
}

/// The files right in `folder`, hidden ones left out, by name.
pub(super) fn files_in(folder: &Path) -> Result<Vec<PathBuf>> {
    let failed = |e| sys::io_error("cannot read folder", folder, e);
    let mut paths = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(failed)? {
        let path = entry.map_err(failed)?.path();
        let is_hidden = path.file_name().is_some_and(|name| name.to_string_lossy().starts_with('.'));
        // The folder of an LMDB is as good as its file.
        let data = path.join(DATA_FILE);
        if !is_hidden && path.is_file() {
            paths.push(path);
        } else if !is_hidden && data.is_file() {
            paths.push(data);
        }
    }
    paths.sort();
    Ok(paths)
}

/// The extension of a file that lies beside shards and is none.
pub(super) fn beside(path: &Path) -> Option<String> {
    let extension = path.extension().unwrap_or_default().to_string_lossy().to_lowercase();
    BESIDE.contains(&extension.as_str()).then_some(extension)
}

/// The shards that an `index.json` in `folder` names; of each the compressed file, unless only the other is there.
fn of_index(folder: &Path, index: mds::IndexJson) -> Result<Files> {
    let kind = Kind::of(mds::NAME)?;
    let shards = index.shards.into_par_iter().map(|shard| {
        let raw = folder.join(&shard.raw_data.basename);
        let path = match &shard.zip_data {
            Some(zip) if !raw.exists() => folder.join(&zip.basename),
            _ => raw,
        };
        ShardFile::of_kind(&path, kind).map(|file| ShardFile { expected: Some(shard), ..file })
    });
    Ok(Files { shards: shards.collect::<Result<_>>()?, ..Files::default() })
}

/// What a brace pattern stands for: `{a,b}` and `{000..146}`, also several and nested; itself where there is none.
///
/// # Errors
/// When it stands for too many.
fn braces(text: &str) -> Result<Vec<String>> {
    let mut done = Vec::new();
    // Those that are not done, the next one last.
    let mut rest = vec![text.to_owned()];
    while let Some(text) = rest.pop() {
        let Some((before, choices, after)) = first_brace(&text)? else {
            done.push(text);
            continue;
        };
        if choices.len() + done.len() + rest.len() > MOST_EXPANDED {
            return Err(too_many());
        }
        rest.extend(choices.iter().rev().map(|choice| format!("{before}{choice}{after}")));
    }
    Ok(done)
}

fn too_many() -> Error {
    Error::usage(format!("a pattern that stands for more than {MOST_EXPANDED} files"))
}

/// The first pair of braces in `text` that are a pattern: what is before, the choices, what is after.
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
    if from.abs_diff(to) >= MOST_EXPANDED as u64 {
        return Err(too_many());
    }
    let is_padded = |text: &str| text.len() > 1 && text.starts_with('0');
    let width = if is_padded(first) || is_padded(last) { first.len().max(last.len()) } else { 0 };
    let shown = |number: u64| format!("{number:0width$}");
    Ok(Some(if from <= to { (from..=to).map(shown).collect() } else { (to..=from).rev().map(shown).collect() }))
}

/// Files that a glob stands for, in the order of their names.
fn glob(pattern: &str, out: &mut Vec<PathBuf>) -> Result<()> {
    let parts: Vec<Component<'_>> = Path::new(pattern).components().collect();
    expand(PathBuf::new(), &parts, out).map_err(|error| error.in_file(pattern))
}

fn expand(before: PathBuf, parts: &[Component<'_>], out: &mut Vec<PathBuf>) -> Result<()> {
    let Some((part, rest)) = parts.split_first() else {
        if before.is_file() {
            out.push(before);
        }
        return Ok(());
    };
    let text = part.as_os_str().to_string_lossy();
    if !text.contains(['*', '?', '[']) {
        return expand(before.join(part), rest, out);
    }
    let wrong = |error: globset::Error| Error::usage(error.to_string());
    let matcher: GlobMatcher =
        GlobBuilder::new(&text).literal_separator(true).build().map_err(wrong)?.compile_matcher();
    let folder = if before.as_os_str().is_empty() { PathBuf::from(".") } else { before.clone() };
    let Ok(entries) = std::fs::read_dir(&folder) else { return Ok(()) };
    let mut names: Vec<_> = entries.filter_map(|entry| entry.ok().map(|entry| entry.file_name())).collect();
    names.retain(|name| {
        let hidden = name.to_string_lossy().starts_with('.') && !text.starts_with('.');
        !hidden && matcher.is_match(Path::new(name))
    });
    names.sort();
    names.into_iter().try_for_each(|name| expand(before.join(name), rest, out))
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
    fn what_is_named_has_to_be_there_and_known() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.bin");
        assert!(find(&path, None).unwrap_err().to_string().contains("no such file"));
        std::fs::write(&path, b"text").unwrap();
        assert!(find(&path, None).unwrap_err().to_string().contains("no format"));
        let all = folder.path();
        assert_eq!(find(all, None).unwrap().ignored.len(), 1);
        // One that is called a shard is one, damaged or not; and one that a person says is.
        assert_eq!(find(all, Some(Kind::of("recordio").unwrap())).unwrap().shards.len(), 1);
        std::fs::write(folder.path().join("x.tar"), b"text").unwrap();
        assert_eq!(find(all, None).unwrap().shards.len(), 1);
        assert_eq!(find(all, Some(Kind::of("webdataset").unwrap())).unwrap().shards.len(), 1);
    }
}

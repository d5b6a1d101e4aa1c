//! Assigns shards to splits: by folder, by file name, or by content.

use std::{collections::BTreeSet, path::Path};

use shardpack_format::{Error, ErrorKind, Result, formats::foreign::FieldSelection};

use super::{
    super::options::{SPLITS, Splits},
    File, Shards, declared,
};
use crate::{
    foreign::{Kind, ShardFile, files, lmdb::DATA_FILE},
    sample_files, sys,
    tree::Tree,
};

/// The shards that `source` names, grouped by split; one group without a split if its folders are not splits.
///
/// Folders are splits if they have split names, or the names in `splits`, contain shards, and `source` itself contains no shards. A
/// declaration of splits in `source` comes before that.
///
/// # Errors
/// If `source` matches nothing, or a file cannot be read.
pub(super) fn of_source(
    source: &Path,
    from: Option<Kind>,
    splits: &Splits,
) -> Result<Vec<(Option<String>, files::Files)>> {
    let names: Vec<String> = match splits {
        Splits::None => Vec::new(),
        Splits::Auto => SPLITS.iter().map(|name| (*name).to_owned()).collect(),
        Splits::Names(names) => names.clone(),
        Splits::Compared(names) => {
            let others = SPLITS.iter().map(|name| (*name).to_owned()).filter(|name| !names.contains(name));
            names.iter().cloned().chain(others).collect()
        }
    };
    let mut all = files::find(source, from)?;
    if !sys::is_folder(source)? {
        return Ok(vec![(None, all)]);
    }
    let read = |name: &str| {
        let path = source.join(name);
        if sys::is_file(&path)? {
            shardpack_storage::sys::read_at_most(&path, declared::LIMIT_BYTES).map(Some)
        } else {
            Ok(None)
        }
    };
    if let Some((name, found)) = declared::of_folder(&source.to_string_lossy(), &read)? {
        let escaped = escaped(&source.to_string_lossy());
        let of_pattern = |pattern: &str| files::find(Path::new(&format!("{escaped}/{pattern}")), from);
        return declared_files(source, (name, found), all, splits, &of_pattern);
    }
    if !all.shards.is_empty() {
        return Ok(vec![(None, all)]);
    }
    let mut found = Vec::new();
    for name in names {
        let folder = source.join(&name);
        if sys::is_folder(&folder)? {
            let files = files::of_folder(&folder, from)?;
            if files.shards.is_empty() {
                continue;
            }
            // The folder no longer counts as ignored.
            if let Some(folders) = all.ignored.get_mut(files::FOLDER) {
                *folders = folders.saturating_sub(1);
            }
            found.push((Some(name), files));
        }
    }
    all.ignored.retain(|_, files| *files > 0);
    found.push((None, all));
    Ok(found)
}

/// A path as a pattern that stands for this path alone.
fn escaped(path: &str) -> String {
    let one = |c: char| if matches!(c, '*' | '?' | '[') { format!("[{c}]") } else { c.to_string() };
    path.trim_end_matches('/').chars().map(one).collect()
}

/// The files of the splits that the file `name` in `folder` declares; `of_pattern` finds files. Shards that are only in `all`, the content of
/// the folder, are counted.
///
/// # Errors
/// If a split has no shards.
pub(super) fn declared_files(
    folder: &Path,
    (name, found): (&str, Vec<declared::Declared>),
    mut all: files::Files,
    splits: &Splits,
    of_pattern: &dyn Fn(&str) -> Result<files::Files>,
) -> Result<Vec<(Option<String>, files::Files)>> {
    let in_file = |error: Error| error.in_file(folder.join(name));
    let folders: BTreeSet<String> = found
        .iter()
        .flat_map(|one| &one.patterns)
        .filter_map(|pattern| pattern.split('/').next().filter(|first| *first != pattern || name == declared::DICT))
        .map(str::to_owned)
        .collect();
    let (mut of_splits, mut taken) = (Vec::new(), BTreeSet::new());
    for (split, patterns) in declared::wanted(found, splits).map_err(in_file)? {
        let mut files = files::Files::default();
        for pattern in &patterns {
            files.append(of_pattern(pattern)?);
        }
        if files.shards.is_empty() && files.problems.is_empty() {
            let split = split.as_deref().unwrap_or("of the folder");
            return Err(in_file(Error::usage(format!("the split {split:?} has no shards in {}", patterns.join(", ")))));
        }
        taken.extend(files.shards.iter().map(|shard| shard.path.clone()));
        of_splits.push((split, files));
    }
    let others = all.shards.iter().filter(|shard| !taken.contains(&shard.path)).count() as u64;
    if others > 0 {
        *all.ignored.entry(format!("shard that {name} does not name")).or_default() += others;
    }
    all.shards.clear();
    let is_taken = |error: &Error| error.location().file.as_ref().is_some_and(|file| taken.contains(Path::new(file)));
    all.problems.retain(|error| !is_taken(error));
    // These folders no longer count as ignored.
    if let Some(ignored) = all.ignored.get_mut(files::FOLDER) {
        *ignored = ignored.saturating_sub(folders.len() as u64);
    }
    all.ignored.retain(|_, files| *files > 0);
    of_splits.push((None, all));
    Ok(of_splits)
}

/// Whether the folder `path`, or a folder in it with a split name, contains shards.
///
/// # Errors
/// If a file cannot be read.
pub(crate) fn holds(path: &Path) -> Result<bool> {
    if has_tables_of_folders(path) {
        return Ok(false);
    }
    match of_source(path, None, &Splits::Auto) {
        Ok(found) => Ok(found.iter().any(|(_, files)| !files.shards.is_empty())),
        // A declaration that is not read may be one of images.
        Err(error) if error.kind() == ErrorKind::Usage => Ok(false),
        Err(error) => Err(error),
    }
}

/// Whether each table in the folder `path` is about a numbered folder beside it: `00000.parquet` and `00000`, as img2dataset writes them.
fn has_tables_of_folders(path: &Path) -> bool {
    let entries = sample_files::entries(Tree { root: path, listed: None }, path);
    let is_numbered_folder = |stem: &[u8]| {
        stem.iter().all(u8::is_ascii_digit) && entries.iter().any(|(name, is_folder)| *is_folder && name == stem)
    };
    let mut tables = entries.iter().filter_map(|(name, _)| name.strip_suffix(b".parquet")).peekable();
    tables.peek().is_some() && tables.all(is_numbered_folder)
}

/// Repeats each file that holds several splits once per split.
///
/// The split names must be known ones, or the names in `splits`; otherwise the file counts as one.
///
/// # Errors
/// If a requested field of a file is missing.
pub(super) fn inside(files: &mut Vec<File>, wanted: &FieldSelection, splits: &Splits) -> Result<()> {
    if files.iter().any(|file| file.split.is_some()) || *splits == Splits::None {
        return Ok(());
    }
    let mut parted = Vec::with_capacity(files.len());
    // The walk checks label options.
    let wanted = &FieldSelection { no_labels: true, ..wanted.clone() };
    for file in &*files {
        let names = match file.shard.splits(wanted) {
            Err(error) if error.kind() == ErrorKind::Usage => return Err(error),
            // The walk reports a damaged file.
            names => names.unwrap_or_default(),
        };
        if names.is_empty() || !names.iter().all(|name| is_known(name, splits)) {
            return Ok(());
        }
        if let (Splits::Auto, Some(shared)) = (splits, file.shard.split_warnings(wanted)?.shared) {
            return Err(Error::usage(format!("{shared}: test samples would be used for training"))
                .in_file(&file.shard.path)
                .help(format!(
                    "--splits {} packs such a row in each of its splits, --splits none each row once",
                    names.join(",")
                )));
        }
        parted.extend(names.into_iter().map(|name| {
            let shard = ShardFile { part: Some(name.clone()), ..file.shard.clone() };
            let own = shard.file_of_part().file_name().unwrap_or_default();
            let own = Path::new(&file.name).with_file_name(own).to_string_lossy().into_owned();
            File { shard, name: own, split: Some(name) }
        }));
    }
    *files = parted;
    Ok(())
}

fn is_known(name: &String, splits: &Splits) -> bool {
    match splits {
        Splits::Names(names) => names.contains(name),
        Splits::Compared(names) if names.contains(name) => true,
        _ => SPLITS.contains(&name.as_str()),
    }
}

/// Assigns files called `train-…` and `val-…` to splits, if all files have such names and there is more than one split.
///
/// # Errors
/// If `splits` has names and a split has no file, or a file belongs to no split.
pub(super) fn by_name(files: &mut [File], splits: &Splits) -> Result<()> {
    if files.iter().any(|file| file.split.is_some()) || *splits == Splits::None {
        return Ok(());
    }
    let part = |file: &File, number: usize| {
        // An LMDB is named after its folder.
        let path = file.shard.path.as_path();
        let path = if path.ends_with(DATA_FILE) { path.parent().unwrap_or(path) } else { path };
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        name.split(['-', '_', '.']).nth(number).unwrap_or_default().to_owned()
    };
    let parts = |number: usize| files.iter().map(|file| part(file, number)).collect::<Vec<_>>();
    let (first, second) = (parts(0), parts(1));
    let are_equal = |parts: &[String]| parts.windows(2).all(|two| two[0] == two[1]);
    // `photos-train-0.tar` and `photos-val-0.tar`: all begin with the name of the dataset.
    let has_splits = match splits {
        Splits::Names(names) => names.iter().all(|name| second.contains(name)),
        _ => second.iter().all(|part| is_known(part, splits)),
    };
    let is_behind = are_equal(&first) && !are_equal(&second) && has_splits;
    let prefixes = if is_behind { second } else { first };
    if let Splits::Names(names) = splits {
        if let Some(missing) = names.iter().find(|name| !prefixes.contains(name)) {
            return Err(Error::usage(format!("no shards of a split {missing:?}, which --splits names")));
        }
    } else if !prefixes.iter().all(|prefix| is_known(prefix, splits)) || are_equal(&prefixes) {
        return Ok(());
    }
    for (file, prefix) in files.iter_mut().zip(prefixes) {
        if !is_known(&prefix, splits) {
            return Err(Error::usage(format!("belongs to no split that --splits names, but to {prefix:?}"))
                .in_file(&file.shard.path));
        }
        file.split = Some(prefix);
    }
    Ok(())
}

/// A note if the names of files have words of several splits, and all files are one dataset.
pub(super) fn in_names(files: &[File], splits: &Splits) -> Option<String> {
    if *splits != Splits::Auto || files.iter().any(|file| file.split.is_some()) {
        return None;
    }
    let name = |file: &File| file.shard.path.file_name().unwrap_or_default().to_string_lossy().to_lowercase();
    let is_in = |word: &&&str| files.iter().any(|file| name(file).split(['-', '_', '.']).any(|part| part == **word));
    let words: Vec<&str> = SPLITS.iter().filter(is_in).copied().collect();
    (words.len() > 1).then(|| {
        let words = words.join(", ");
        format!("names of files have the words {words}, and all files are one dataset: --split NAME=FILES makes splits of them")
    })
}

impl Shards {
    /// Splits found from file names, if all files are taken as one dataset; empty if the names are not split names.
    ///
    /// # Errors
    /// If a file belongs to no split.
    pub fn splits_by_name(&self) -> Result<BTreeSet<String>> {
        let mut files = self.files.clone();
        by_name(&mut files, &Splits::Auto)?;
        Ok(files.into_iter().filter_map(|file| file.split).collect())
    }
}

//! Lists the groups and datasets of a file.

use std::collections::BTreeSet;

use hdf5_reader::{Hdf5File, group::Group};
use shardpack_format::{Error, Result};

use super::open;

/// Groups of a MATLAB 7.3 file without variables: they hold the targets of references from cells and objects.
const MATLABS: [&str; 2] = ["#refs#", "#subsystem#"];
/// How deep groups may be nested.
const MAX_DEPTH: usize = 16;

/// A group, and the names of the datasets right in it.
#[derive(Clone, Debug)]
pub(super) struct Members {
    /// Empty for the root; else without a slash at either end.
    pub group: String,
    /// In the order of names.
    pub datasets: Vec<String>,
}

impl Members {
    /// The path of a member.
    pub fn path(&self, name: &str) -> String {
        join(&self.group, name)
    }
}

pub(super) fn join(group: &str, name: &str) -> String {
    if group.is_empty() { name.to_owned() } else { format!("{group}/{name}") }
}

/// All groups with datasets, and all empty groups, each once.
///
/// # Errors
/// If the file is corrupt, or groups are nested too deep.
pub(super) fn list(file: &Hdf5File) -> Result<Vec<Members>> {
    let mut found = Vec::new();
    each_group(file, &mut |path, _, groups, datasets| {
        if !datasets.is_empty() || groups.is_empty() && !path.is_empty() {
            found.push(Members { group: path.to_owned(), datasets: datasets.to_vec() });
        }
        Ok(())
    })?;
    Ok(found)
}

/// Callback for each group: its path, and the names of the groups and of the datasets directly in it.
pub(super) type Look<'l> = &'l mut dyn FnMut(&str, &Group, &[String], &[String]) -> Result<()>;

/// Shows `look` each group once, by path.
///
/// # Errors
/// If the file is corrupt, or groups are nested too deep; and when `look` fails.
pub(super) fn each_group(file: &Hdf5File, look: Look<'_>) -> Result<()> {
    let mut seen = BTreeSet::new();
    // The next one last.
    let mut rest = vec![(String::new(), 0, file.root_group().map_err(open::to_error)?)];
    while let Some((path, depth, group)) = rest.pop() {
        // A link may lead back.
        if !seen.insert(group.address()) {
            continue;
        }
        if depth > MAX_DEPTH {
            return Err(Error::data(format!("groups in groups, {depth} deep, as at {path}")));
        }
        let (mut groups, mut datasets) = group.member_names().map_err(|error| match open::child(&error) {
            Some((child, what)) => Error::data(format!("dataset {}: {what}", join(&path, &child))),
            None => open::to_error(error)
                .help("groups of more than about 20000 members, as h5py writes them with libver=\"latest\", are not read: write it without"),
        })?;
        groups.retain(|name| depth > 0 || !MATLABS.contains(&name.as_str()));
        groups.sort_unstable();
        datasets.sort_unstable();
        look(&path, &group, &groups, &datasets)?;
        for name in groups.into_iter().rev() {
            let inner = group.group(&name).map_err(open::to_error)?;
            rest.push((join(&path, &name), depth + 1, inner));
        }
    }
    Ok(())
}

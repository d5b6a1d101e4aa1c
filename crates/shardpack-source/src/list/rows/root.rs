//! Suggests the root of a list whose files are elsewhere.

use shardpack_format::{shell, text};

use super::{
    super::by_name::{self, FilesByName},
    Rows,
};
use crate::{monitor::Silent, names};

/// Most folders that are looked into for the files of a list.
const MAX_FOLDERS: usize = 256;
/// About the most files and folders below the root that are looked through for a file of a list.
const MAX_FILES: usize = 1 << 18;

impl Rows<'_> {
    /// The option `--root` for the folder of a file that one of `fields` names: a folder right below the root, or else any, whose files are
    /// found by name. `None` if there is none, a folder cannot be read, or the root is at a URL.
    pub fn help_with_root<'p>(&self, fields: impl Iterator<Item = &'p [u8]>) -> Option<String> {
        use std::os::unix::ffi::OsStrExt;
        if !self.is_cheap() || self.by_name.is_some() || !self.suggests_root {
            return None;
        }
        let is_name = |path: &&[u8]| !path.is_empty() && path.len() <= 255 && !path.contains(&b'\n');
        // Another separator may be the right one.
        let paths: Vec<&[u8]> = fields.flat_map(|field| [field, before_separator(field)]).filter(is_name).collect();
        if paths.is_empty() {
            return None;
        }
        let entries = std::fs::read_dir(self.root).ok()?;
        // An entry that cannot be looked at is no folder to suggest.
        let folders = entries.flatten().filter(|entry| entry.path().is_dir()).map(|entry| entry.file_name());
        let mut folders: Vec<_> = folders.take(MAX_FOLDERS).collect();
        folders.sort_unstable();
        for folder in folders {
            for path in &paths {
                let below = names::join(folder.as_bytes(), path);
                if self.is_file(&below).ok()? || self.is_without_extension(&below).ok()? {
                    let (root, path) = (shell::path(self.root.join(&folder)), text::shown(path));
                    return Some(format!("--root {root} is the folder of {path}, which the list names"));
                }
            }
        }
        let files = FilesByName::walk(self.root, !self.options.no_follow, MAX_FILES, &Silent).ok()?;
        let found = paths.iter().find_map(|path| {
            let relative = self.normalized(path).filter(|path| !path.is_empty())?;
            let found = files.with_extension(&relative).first().or_else(|| files.find(&relative).first());
            found.filter(|file| names::cut(file).0 != names::cut(&relative).0)
        });
        found.map(|file| {
            let (root, file) = (shell::path(by_name::anywhere(self.root)), text::shown(file));
            format!("--root {root} finds files by name in any folder, such as {file}, which the list names")
        })
    }
}

/// The field before a separator that is not the one of the list.
fn before_separator(field: &[u8]) -> &[u8] {
    let at = field.iter().position(|byte| b"|;\t, ".contains(byte));
    &field[..at.unwrap_or(field.len())]
}

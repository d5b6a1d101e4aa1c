//! Lists the pages of the documentation.

use std::{
    fs,
    path::{Path, PathBuf},
};

/// Adds the pages in `folder` and in the folders below it, in any order.
pub fn below(folder: &Path, pages: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        match path.extension() {
            _ if path.is_dir() => below(&path, pages),
            Some(extension) if extension == "md" => pages.push(path),
            _ => {}
        }
    }
}

//! Where the images of a COCO file are: the names of its first images, and the folder that has them.

use std::{
    io::Read,
    path::{Path, PathBuf},
};

use shardpack_format::{Error, Result, regular, text};

use crate::sys;

/// Bytes at the start of a file that are searched for image names.
const SNIFFED_BYTES: u64 = 64 << 20;
/// The member with an image's file name.
pub const FILE_NAME: &[u8] = b"\"file_name\"";
/// The member that LVIS has instead of [`FILE_NAME`].
const COCO_URL: &[u8] = b"\"coco_url\"";
/// Number of names to try.
const TRIED: usize = 8;

/// The last `parts` parts of a URL.
pub fn last(url: &str, parts: usize) -> &str {
    let at = url.rmatch_indices('/').nth(parts.saturating_sub(1)).map_or(0, |(at, _)| at + 1);
    &url[at..]
}

/// Finds the folder with the images of a file in `folder`. Tries the first names that `member` has in the file.
///
/// # Errors
/// If no usual folder has the images.
pub fn root(path: &Path, folder: &Path, member: &[u8]) -> Result<PathBuf> {
    let mut names = first_names(path, member)?;
    if names.is_empty() && member == FILE_NAME {
        let urls = first_names(path, COCO_URL)?;
        names = urls.iter().flat_map(|url| [2, 1].map(|parts| last(url, parts).to_owned())).collect();
    }
    // Of a file that was searched to its end, the parser reports what it lacks.
    if names.is_empty()
        && regular::open(path).and_then(|file| file.metadata()).is_ok_and(|of| of.len() <= SNIFFED_BYTES)
    {
        return Ok(folder.to_path_buf());
    }
    let parent = match folder.file_name() {
        Some(_) => {
            folder.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new(".")).to_path_buf()
        }
        None => folder.join(".."),
    };
    // instances_train2017.json: images are in train2017.
    let stem = path.file_stem().and_then(|stem| stem.to_str()).unwrap_or_default();
    let set = stem.rsplit('_').next().unwrap_or(stem);
    let folders = [
        folder.to_path_buf(),
        folder.join("images"),
        folder.join(set),
        parent.join(set),
        parent.join("images"),
        parent.join("images").join(set),
        parent,
    ];
    let holds = |folder: &PathBuf| {
        names.iter().try_fold(false, |any, name| Ok::<_, Error>(any || sys::is_file(&folder.join(name))?))
    };
    for folder in &folders {
        if holds(folder)? {
            return Ok(folder.clone());
        }
    }
    let first = names.first().map_or_else(String::new, |name| format!(", the first being {name:?},"));
    Err(Error::usage(format!("its images{first} are neither beside it nor in {}", shown(&folders[1..])))
        .in_file(path)
        .help("set their folder with --root FOLDER"))
}

fn shown(folders: &[PathBuf]) -> String {
    folders.iter().map(|folder| text::path(&folder).to_string()).collect::<Vec<_>>().join(", ")
}

/// The first image names in a file, found without parsing the file.
fn first_names(path: &Path, member: &[u8]) -> Result<Vec<String>> {
    let failed = |e| sys::io_error("cannot read", path, e);
    let mut input = regular::open(path).map_err(failed)?.take(SNIFFED_BYTES);
    let (mut held, mut piece, mut names) = (Vec::new(), vec![0; 1 << 20], Vec::new());
    loop {
        let read = input.read(&mut piece).map_err(failed)?;
        held.extend_from_slice(&piece[..read]);
        let mut at = 0;
        while let Some(found) = held[at..].windows(member.len()).position(|window| window == member) {
            let value = &held[at + found + member.len()..];
            let value = value.trim_ascii_start().strip_prefix(b":").unwrap_or_default();
            let mut values = serde_json::Deserializer::from_slice(value).into_iter::<String>();
            match values.next() {
                Some(Ok(name)) => names.push(name),
                // The value continues in the next piece.
                _ if value.len() < 4096 && read > 0 => {
                    at += found;
                    break;
                }
                _ => {}
            }
            at += found + member.len();
            if names.len() == TRIED {
                return Ok(names);
            }
        }
        if read == 0 {
            return Ok(names);
        }
        held.drain(..at.max(held.len().saturating_sub(8192)).min(held.len()));
    }
}

/// The first names of images in the file at `path`; none if it cannot be read.
pub fn names(path: &Path) -> Vec<String> {
    first_names(path, FILE_NAME).unwrap_or_default()
}

/// The folder that a path is in.
pub fn folder_of(path: &Path) -> &Path {
    path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

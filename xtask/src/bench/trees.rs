//! Makes ImageFolders of any size from real JPEGs; comment segments make each file distinct.

use std::{
    fs,
    path::{Path, PathBuf},
};

use super::folder;
use crate::{
    Result,
    command::{remove, root, write},
    random::Random,
};

const CLASSES: u64 = 1_000;
/// Maximum text bytes in one comment segment: the length field counts itself.
const COMMENT_BYTES: usize = 65_533;

/// A generated tree for benchmarks.
pub struct Tree {
    /// Number of images.
    pub files: u64,
    /// Mean length of an image in bytes; lengths range from half to one and a half of the mean.
    pub mean_bytes: u64,
}

impl Tree {
    /// The folder of the tree; makes the tree if it is missing.
    pub fn make(&self) -> Result<PathBuf> {
        let name = format!("trees/{}x{}", self.files, self.mean_bytes);
        let (tree, stamp) = (folder(&name), folder(&format!("{name}.done")));
        if stamp.exists() {
            return Ok(tree);
        }
        println!("making {} files of {} bytes", self.files, self.mean_bytes);
        remove(&tree)?;
        let seeds = seeds(self.mean_bytes)?;
        let classes = CLASSES.min(self.files);
        for class in 0..classes {
            let class_folder = tree.join(format!("n{class:08}"));
            fs::create_dir_all(&class_folder).map_err(|error| format!("{}: {error}", class_folder.display()))?;
            for number in class * self.files / classes..(class + 1) * self.files / classes {
                let path = class_folder.join(format!("n{class:08}_{number}.JPEG"));
                let bytes = image(&seeds, number, self.mean_bytes as usize);
                fs::write(&path, bytes).map_err(|error| format!("{}: {error}", path.display()))?;
            }
        }
        write(&stamp, "")?;
        Ok(tree)
    }

    /// Text for the tables.
    pub fn describe(&self) -> String {
        format!("{} files of {:.0} KB in {} classes", self.files, self.mean_bytes as f64 / 1e3, CLASSES.min(self.files))
    }
}

/// JPEGs of at most half of `mean_bytes`, or the tiny ones.
fn seeds(mean_bytes: u64) -> Result<Vec<Vec<u8>>> {
    let mut paths = Vec::new();
    if mean_bytes < 20_000 {
        jpegs(&root().join("benches/seeds"), &mut paths)?;
    } else {
        jpegs(&root().join("fixtures/photos"), &mut paths)?;
    }
    paths.sort();
    let mut seeds = Vec::new();
    for path in paths {
        let bytes = fs::read(&path).map_err(|error| format!("{}: {error}", path.display()))?;
        // One of the photos is a PNG named as a JPEG.
        if bytes.starts_with(&[0xff, 0xd8]) {
            seeds.push(bytes);
        }
    }
    if seeds.is_empty() { Err("no JPEGs to make trees from".to_owned()) } else { Ok(seeds) }
}

/// Adds the JPEGs below `folder` to `paths`, selected by name.
pub(super) fn jpegs(folder: &Path, paths: &mut Vec<PathBuf>) -> Result<()> {
    for entry in fs::read_dir(folder).map_err(|error| format!("{}: {error}", folder.display()))? {
        let path = entry.map_err(|error| format!("{}: {error}", folder.display()))?.path();
        if path.is_dir() {
            jpegs(&path, paths)?;
        } else if path.extension().is_some_and(|extension| ["jpg", "JPEG"].iter().any(|jpeg| extension == *jpeg)) {
            paths.push(path);
        }
    }
    Ok(())
}

/// Image `number`: a seed with comments after its first marker; the first comment holds the number.
fn image(seeds: &[Vec<u8>], number: u64, mean_bytes: usize) -> Vec<u8> {
    let mut random = Random::new(number);
    let seed = &seeds[random.next() as usize % seeds.len()];
    let wanted = mean_bytes / 2 + random.next() as usize % mean_bytes;
    let mut out = Vec::with_capacity(wanted + 32);
    out.extend_from_slice(&seed[..2]);
    comment(&mut out, &number.to_le_bytes());
    while out.len() + seed.len() + 4 < wanted {
        let bytes = (wanted - out.len() - seed.len() - 4 + 2).min(COMMENT_BYTES);
        let text: Vec<u8> = (0..bytes.div_ceil(8)).flat_map(|_| random.next().to_le_bytes()).take(bytes).collect();
        comment(&mut out, &text);
    }
    out.extend_from_slice(&seed[2..]);
    out
}

/// Appends a comment segment; `text` is at most [`COMMENT_BYTES`] long.
pub(super) fn comment(out: &mut Vec<u8>, text: &[u8]) {
    out.extend_from_slice(&[0xff, 0xfe]);
    out.extend_from_slice(&(text.len() as u16 + 2).to_be_bytes());
    out.extend_from_slice(text);
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn images_differ_and_have_the_length_that_was_asked_for() {
        for mean_bytes in [3_000, 110_000] {
            let seeds = seeds(mean_bytes).unwrap();
            let images: Vec<_> = (0..200).map(|number| image(&seeds, number, mean_bytes as usize)).collect();
            let mean = images.iter().map(Vec::len).sum::<usize>() as f64 / 200.0 / mean_bytes as f64;
            assert!((0.85..1.15).contains(&mean), "{mean} of {mean_bytes}");
            assert_eq!(images.iter().collect::<HashSet<_>>().len(), 200);
            for image in &images {
                // Comment segments, then the seed.
                let mut at = 2;
                while image[at..at + 2] == [0xff, 0xfe] {
                    at += 2 + usize::from(u16::from_be_bytes([image[at + 2], image[at + 3]]));
                }
                assert!(seeds.iter().any(|seed| seed[2..] == image[at..]));
            }
        }
    }
}

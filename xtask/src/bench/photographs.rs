//! Makes trees of photographs for training: realistic bytes, pixels and colours, in distinct files.
//!
//! The pixels of a file are those of its source photograph; a comment of eight bytes makes the file distinct. The photographs come from
//! `--photos FOLDER` or from benches/photographs.py.

use std::{
    fs,
    path::{Path, PathBuf},
};

use super::{
    Scale, folder,
    trees::{comment, jpegs},
};
use crate::{
    Result,
    command::{command, remove, run, write},
    python,
};

const CLASSES: u64 = 1_000;

/// Size class of photographs.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// 110 KB, 300 to 500 pixels a side.
    Small,
    /// 8 megapixels.
    Large,
}

/// A tree to train on.
pub struct Photographs {
    /// Number of files.
    pub files: u64,
    /// Size class.
    pub kind: Kind,
    /// Folder of JPEGs to use instead of generated JPEGs.
    pub given: Option<PathBuf>,
}

impl Photographs {
    /// As many files as `scale` requests.
    pub fn new(kind: Kind, scale: &Scale) -> Self {
        let files = match kind {
            Kind::Small => 10_000,
            Kind::Large => 600,
        };
        Self { files: (files / scale.smaller).max(1), kind, given: scale.photos.clone() }
    }

    /// The folder of the tree, and the mean file length in bytes; makes the tree if it is missing.
    pub fn make(&self) -> Result<(PathBuf, u64)> {
        let kind = match self.kind {
            Kind::Small => "small",
            Kind::Large => "large",
        };
        let given = if self.given.is_some() { "given" } else { "made" };
        let name = format!("trees/{given}-{kind}-{}", self.files);
        let (tree, stamp) = (folder(&name), folder(&format!("{name}.done")));
        // The source of the photographs: the given folder, or the script.
        let wanted = match &self.given {
            Some(folder) => folder.display().to_string(),
            None => crate::command::read(&crate::command::root().join("benches/photographs.py"))?,
        };
        if !fs::read_to_string(&stamp).is_ok_and(|found| found == wanted) {
            println!("making {} photographs", self.files);
            remove(&tree)?;
            let photographs = folder(&format!("{given}-{kind}"));
            let mut seeds = Vec::new();
            match (&self.given, self.kind) {
                (Some(folder), Kind::Small) => jpegs(folder, &mut seeds)?,
                _ => {
                    remove(&photographs)?;
                    let mut script = command(python::photographs()?, ["benches/photographs.py", kind]);
                    run(script.arg(&photographs).args(&self.given))?;
                    jpegs(&photographs, &mut seeds)?;
                }
            }
            seeds.sort();
            plant(&tree, &seeds, self.files)?;
            write(&stamp, wanted)?;
        }
        let mut files = Vec::new();
        jpegs(&tree, &mut files)?;
        let bytes: u64 = files.iter().filter_map(|path| fs::metadata(path).ok()).map(|meta| meta.len()).sum();
        Ok((tree, bytes / (files.len() as u64).max(1)))
    }

    /// Text for the tables.
    pub fn describe(&self, mean_bytes: u64) -> String {
        let what = match (self.kind, &self.given) {
            (Kind::Small, None) => "made from 250 windows of eight photographs (`benches/photographs.py`)",
            (Kind::Small, Some(_)) => "from the photographs of `--photos`",
            (Kind::Large, None) => {
                "3264 × 2448 pixels, made from windows of eight photographs (`benches/photographs.py`)"
            }
            (Kind::Large, Some(_)) => "3264 × 2448 pixels, made from windows of the photographs of `--photos`",
        };
        let classes = CLASSES.min(self.files);
        format!("{} JPEGs of {:.0} KB in {classes} classes, {what}", self.files, mean_bytes as f64 / 1e3)
    }
}

/// Writes `files` files, using `seeds` in turns.
fn plant(tree: &Path, seeds: &[PathBuf], files: u64) -> Result<()> {
    let said = |path: &Path, error: std::io::Error| format!("{}: {error}", path.display());
    let seeds =
        seeds.iter().map(|path| fs::read(path).map_err(|error| said(path, error))).collect::<Result<Vec<_>>>()?;
    // Some files of other formats have the extension of a JPEG.
    let seeds: Vec<_> = seeds.into_iter().filter(|seed| seed.starts_with(&[0xff, 0xd8])).collect();
    if seeds.is_empty() {
        return Err("no JPEGs to make trees from".to_owned());
    }
    let classes = CLASSES.min(files);
    for number in 0..files {
        let class = number % classes;
        let class_folder = tree.join(format!("n{class:08}"));
        fs::create_dir_all(&class_folder).map_err(|error| said(&class_folder, error))?;
        let path = class_folder.join(format!("n{class:08}_{number}.jpg"));
        fs::write(&path, numbered(&seeds[number as usize % seeds.len()], number))
            .map_err(|error| said(&path, error))?;
    }
    Ok(())
}

/// `seed` with a comment after its first marker.
fn numbered(seed: &[u8], number: u64) -> Vec<u8> {
    let mut out = seed[..2].to_vec();
    comment(&mut out, &number.to_le_bytes());
    out.extend_from_slice(&seed[2..]);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbered_photographs_differ_by_a_comment() {
        let seed = [0xff, 0xd8, 0xff, 0xe0, 1];
        let (one, two) = (numbered(&seed, 1), numbered(&seed, 2));
        assert_eq!(one.len(), seed.len() + 12);
        assert_eq!(one[..6], [0xff, 0xd8, 0xff, 0xfe, 0, 10]);
        assert!(one[6..14] != two[6..14] && one[14..] == seed[2..] && two[14..] == seed[2..]);
    }
}

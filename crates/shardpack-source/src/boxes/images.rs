//! The images of a label file of many: each has a name, and its objects.
//!
//! Holds at all times: an image that several samples have the name of is none of them, because only one can be meant.

use std::{
    collections::{BTreeMap, HashMap},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use super::described::{Class, Described, Extent};

/// The images of a file.
#[derive(Debug)]
pub(super) struct Images {
    /// All classes.
    pub classes: Vec<Arc<Class>>,
    /// For each image: its objects, or why they are wrong; and the number of samples that are this image.
    images: Vec<(Result<Described, String>, AtomicU64)>,
    by_name: HashMap<String, usize>,
    /// Names that have folders, by the file.
    by_file: HashMap<String, Vec<String>>,
    /// Remarks on the file, which are of no image.
    pub remarks: BTreeMap<String, u64>,
}

impl Images {
    /// `by_name` has the index in `images` of each name, as [`name_of`] returns it; `remarks` are of no image.
    pub fn new(
        images: Vec<Result<Described, String>>,
        by_name: HashMap<String, usize>,
        classes: Vec<Arc<Class>>,
        remarks: BTreeMap<String, u64>,
    ) -> Self {
        let images = images.into_iter().map(|image| (image, AtomicU64::new(0))).collect();
        let mut by_file = HashMap::<String, Vec<String>>::new();
        for name in by_name.keys().filter(|name| name.contains('/')) {
            by_file.entry(file_of(name).to_owned()).or_default().push(name.clone());
        }
        Self { classes, images, by_name, by_file, remarks }
    }

    /// The image of the sample at `path`. Counts the sample.
    pub fn claim(&self, path: &str) -> Option<usize> {
        let image = self.find(path)?;
        self.images[image].1.fetch_add(1, Ordering::Relaxed);
        Some(image)
    }

    /// The image whose name is the end of `path`, the longest name first; or the only one whose name ends with `path`, as absolute names do;
    /// or one whose name lacks the extension.
    pub fn find(&self, path: &str) -> Option<usize> {
        let by_end = |path: &str| {
            let starts = std::iter::once(0).chain(path.match_indices('/').map(|(at, _)| at + 1));
            starts.into_iter().find_map(|start| self.by_name.get(&path[start..])).copied()
        };
        let longer = || {
            let ends = |name: &&String| name.strip_suffix(path).is_some_and(|before| before.ends_with('/'));
            let names = self.by_file.get(file_of(path))?;
            let mut found = names.iter().filter(ends).filter_map(|name| self.by_name.get(name));
            found.next().copied().filter(|_| found.next().is_none())
        };
        let without_extension = || path.rsplit_once('.').and_then(|(stem, _)| by_end(stem));
        by_end(path).or_else(longer).or_else(without_extension)
    }

    /// The objects of an image, after all samples were claimed.
    ///
    /// # Errors
    /// The reason, if an annotation is wrong, or several samples have the name of the image.
    pub fn described(&self, image: usize) -> Result<Described, String> {
        let (described, claims) = &self.images[image];
        match claims.load(Ordering::Relaxed) {
            0 | 1 => described.clone(),
            several => Err(format!("{several} images of the source have the name of one image in it")),
        }
    }

    /// What the edges in an image are measured in.
    pub fn extent(&self, image: usize) -> Extent {
        self.images[image].0.as_ref().map_or(Extent::Unknown, |described| described.extent)
    }

    /// Number of images that no sample is.
    pub fn unclaimed(&self) -> u64 {
        self.images.iter().filter(|(_, claims)| claims.load(Ordering::Relaxed) == 0).count() as u64
    }
}

/// The name of an image that a file calls `name`.
pub(super) fn name_of(name: &str) -> String {
    name.replace('\\', "/").trim_start_matches("./").trim_start_matches('/').to_owned()
}

/// The last part of a path.
fn file_of(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_are_images_by_the_end_of_their_path() {
        let names = ["/d/e/1.jpg", "x\\2", "f/1.jpg", "./b/a.jpg", "a.jpg"].map(name_of);
        let by_name = names.into_iter().zip(0..).collect();
        let images = Images::new(vec![Ok(Described::default()); 5], by_name, Vec::new(), BTreeMap::new());
        for (path, image) in [
            ("e/1.jpg", Some(0)),
            ("1.jpg", None),
            ("y/x/2.png", Some(1)),
            ("2", Some(1)),
            ("g/1.jpg", None),
            ("train/a.jpg", Some(4)),
            ("train/b/a.jpg", Some(3)),
            ("xa.jpg", None),
            ("", None),
        ] {
            assert_eq!(images.claim(path), image, "{path}");
        }
        assert_eq!(images.unclaimed(), 1);
        assert!(images.described(4).is_ok());
        images.claim("val/a.jpg");
        assert!(images.described(4).unwrap_err().contains("2 images of the source"));
    }
}

//! The images of a label file of many: each image has a name and objects.
//!
//! Holds at all times: an image whose name fits several samples belongs to no sample.

use std::{
    collections::{BTreeMap, HashMap},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use super::described::{Class, Described, Extent};
use crate::layout::Likeness;

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

    /// The image of the sample at `path` below `prefix`, which is empty or `SPLIT/`. Counts the sample.
    pub fn claim(&self, prefix: &str, path: &str) -> Option<usize> {
        let image = self.find(prefix, path)?;
        self.images[image].1.fetch_add(1, Ordering::Relaxed);
        Some(image)
    }

    /// The image whose name is the end of the whole path, the longest name first; or the only one whose name ends with `path`, as absolute names
    /// do, unless a folder in it is another split; or one whose name lacks the extension. Last, folder and file are compared alone: the folders
    /// above must be splits, and the name must not be of another split.
    fn find(&self, prefix: &str, path: &str) -> Option<usize> {
        let whole = format!("{prefix}{path}");
        let by_end = |path: &str| {
            let starts = std::iter::once(0).chain(path.match_indices('/').map(|(at, _)| at + 1));
            starts.into_iter().find_map(|start| self.by_name.get(&path[start..])).copied()
        };
        let longer = || {
            let ends = |name: &&String| name.strip_suffix(path).is_some_and(|before| before.ends_with('/'));
            let names = self.by_file.get(file_of(path))?;
            let split = split_word(prefix.trim_end_matches('/'));
            // The splits among the folders of a name.
            let said = |name: &String| {
                let before = name.strip_suffix(path).unwrap_or_default();
                before.split('/').filter_map(split_word).collect::<Vec<_>>()
            };
            let is_own = |name: &&String| split.is_some_and(|split| said(name).contains(&split));
            let may_be = |name: &&String| split.is_none() || said(name).is_empty() || is_own(name);
            let found: Vec<&String> = names.iter().filter(ends).filter(may_be).collect();
            let own: Vec<&String> = found.iter().copied().filter(is_own).collect();
            let (([name], _) | (_, [name])) = (&own[..], &found[..]) else { return None };
            self.by_name.get(*name).copied()
        };
        let without_extension = || whole.rsplit_once('.').and_then(|(stem, _)| by_end(stem));
        // A name may have folders that are not above the image: `images/v1/patch0/1.jpg` of `train/patch0/1.jpg` (Objects365).
        let below = || {
            let mut parts = whole.rsplitn(3, '/');
            let (file, folder, above) = (parts.next()?, parts.next()?, parts.next().unwrap_or_default());
            let splits: Option<Vec<_>> = above.split('/').filter(|part| !part.is_empty()).map(split_word).collect();
            let (end, splits) = (format!("/{folder}/{file}"), splits?);
            let is_of_other = |before: &str| before.split('/').filter_map(split_word).any(|one| !splits.contains(&one));
            let fits = |name: &&String| name.strip_suffix(&end).is_some_and(|before| !is_of_other(before));
            let mut names = self.by_file.get(file)?.iter().filter(fits);
            let name = names.next().filter(|_| split_word(folder).is_none() && names.next().is_none())?;
            self.by_name.get(name).copied()
        };
        by_end(&whole).or_else(longer).or_else(without_extension).or_else(below)
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

    /// The unit of the edges in an image; `None` if the image has no objects or wrong ones.
    pub fn extent(&self, image: usize) -> Option<Extent> {
        let described = self.images[image].0.as_ref().ok()?;
        (!described.objects.is_empty()).then_some(described.extent)
    }

    /// A name, if no image is a sample.
    pub fn only_strangers(&self) -> Option<&str> {
        let is_none = self.unclaimed() == self.images.len() as u64;
        self.by_name.keys().filter(|_| is_none).min().map(String::as_str)
    }

    /// Number of images that no sample is.
    pub fn unclaimed(&self) -> u64 {
        self.images.iter().filter(|(_, claims)| claims.load(Ordering::Relaxed) == 0).count() as u64
    }
}

/// Collects the images of a file whose classes have only names, one image after the other.
#[derive(Default)]
pub(super) struct Collected {
    images: Vec<Result<Described, String>>,
    by_name: HashMap<String, usize>,
    classes: BTreeMap<String, Arc<Class>>,
    /// Remarks on the file.
    pub remarks: BTreeMap<String, u64>,
}

impl Collected {
    /// Begins an image.
    ///
    /// # Errors
    /// If it has no name, or an image has this name already.
    pub fn begin(&mut self, name: &str, extent: Extent) -> Result<(), String> {
        let own = name_of(name.trim());
        if own.is_empty() {
            return Err(format!("image {} has no name", self.images.len() + 1));
        }
        if self.by_name.insert(own, self.images.len()).is_some() {
            return Err(format!("two images have the name {name:?}"));
        }
        self.images.push(Ok(Described { extent, ..Described::default() }));
        Ok(())
    }

    /// Adds a class, which may have no objects.
    pub fn class(&mut self, name: &str) -> Arc<Class> {
        if let Some(known) = self.classes.get(name) {
            return Arc::clone(known);
        }
        let class = Arc::new(Class { id: None, name: name.to_owned() });
        self.classes.insert(name.to_owned(), Arc::clone(&class));
        class
    }

    /// Adds the object that the file calls `what` to the last image. The first wrong one makes the image wrong.
    pub fn object(&mut self, what: &str, class: &str, edges: [f64; 4]) {
        let class = self.class(class);
        let Some(Ok(described)) = self.images.last_mut() else { return };
        if let Err(why) = described.push(&class, edges) {
            self.wrong(format!("{what}: {why}"));
        }
    }

    /// Adds an object with the box around its shape, clipped to the image.
    pub fn shape(&mut self, what: &str, class: &str, edges: [f64; 4]) {
        let extent = self.images.last().and_then(|image| image.as_ref().ok()).map_or(Extent::Unknown, |one| one.extent);
        self.object(what, class, extent.clip(edges));
    }

    /// Makes the last image wrong.
    pub fn wrong(&mut self, why: String) {
        if let Some(image @ Ok(_)) = self.images.last_mut() {
            *image = Err(why);
        }
    }

    /// Counts a remark on the last image.
    pub fn remark(&mut self, remark: &str) {
        if let Some(Ok(described)) = self.images.last_mut() {
            described.remark(remark);
        }
    }

    /// The images of the file.
    pub fn images(self) -> Images {
        Images::new(self.images, self.by_name, self.classes.into_values().collect(), self.remarks)
    }
}

/// The name of an image that a file calls `name`.
pub(super) fn name_of(name: &str) -> String {
    name.replace('\\', "/").trim_start_matches("./").trim_start_matches('/').to_owned()
}

/// What is wrong in a part of a JSON file; positions in the part mean nothing in the file.
pub(super) fn what(error: &serde_json::Error) -> String {
    let text = error.to_string();
    text.split(" at line ").next().unwrap_or(&text).to_owned()
}

/// The split that a folder of this name means.
fn split_word(folder: &str) -> Option<&'static str> {
    let likeness = Likeness::classify(folder.as_bytes());
    likeness.word().filter(|_| likeness.is_sure())
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
            assert_eq!(images.claim("", path), image, "{path}");
        }
        assert_eq!(images.unclaimed(), 1);
        assert!(images.described(4).is_ok());
        images.claim("", "val/a.jpg");
        assert!(images.described(4).unwrap_err().contains("2 images of the source"));
    }

    #[test]
    fn images_of_other_splits_are_not_taken() {
        let names = [
            "train/1.jpg",
            "val/1.jpg",
            "val/5.jpg",
            "/content/all/7.jpg",
            "x/val/8",
            "train2017/b/9.jpg",
            "val2017/b/9.jpg",
            "a/10.jpg",
            "b/10.jpg",
            "images/v1/patch0/11.jpg",
            "images/v2/patch1/11.jpg",
            "images/v1/patch2/12.jpg",
            "images/v2/patch2/12.jpg",
        ];
        let images = Images::new(
            vec![Ok(Described::default()); names.len()],
            names.map(name_of).into_iter().zip(0..).collect(),
            Vec::new(),
            BTreeMap::new(),
        );
        assert_eq!(images.only_strangers(), Some("a/10.jpg"));
        for (prefix, path, image) in [
            ("train/", "1.jpg", Some(0)),
            ("val/", "1.jpg", Some(1)),
            ("train/", "5.jpg", None),
            ("val/", "5.jpg", Some(2)),
            ("train/", "7.jpg", Some(3)),
            ("val/", "8.jpg", None),
            ("x/val/", "8.jpg", Some(4)),
            ("", "5.jpg", Some(2)),
            ("train/", "9.jpg", Some(5)),
            ("val/", "9.jpg", Some(6)),
            ("", "9.jpg", None),
            ("train/", "10.jpg", None),
            ("train/", "patch0/11.jpg", Some(9)),
            ("", "train/patch1/11.jpg", Some(10)),
            ("", "train/patch2/12.jpg", None),
            ("", "train/11.jpg", None),
            ("", "site/patch0/11.jpg", None),
            ("val/", "b/9.jpg", Some(6)),
            ("test/", "b/9.jpg", None),
        ] {
            assert_eq!(images.claim(prefix, path), image, "{prefix}{path}");
        }
        assert_eq!(images.only_strangers(), None);
    }
}

//! Images with masks beside them in one folder: `train/1.jpg` and `train/1_mask.png`, as Roboflow exports masks; `1_sat.jpg` and `1_mask.png`, as
//! DeepGlobe has them; and without splits.

use super::{Files, Found, Look, on_missing, stem};

/// Ends of the names of masks, and of the names of images that have a mask; images without such an end.
pub(super) const ENDS: [(&str, &[&str]); 12] = [
    ("_mask", &["_sat", "_image", "_img", "_photo"]),
    ("-mask", &["-image"]),
    ("_seg", &["_image", "_img"]),
    ("_segmentation", &["_image"]),
    ("_gt", &["_image", "_img"]),
    ("_label", &["_image", "_img", "_rgb"]),
    ("_fg", &["_rgb"]),
    ("_centers", &["_rgb"]),
    ("_depth", &["_rgb", "_color", "_image", "_img"]),
    ("_maskcrop", &["_crop"]),
    ("_depthcrop", &["_crop"]),
    ("_trimap", &["_image", "_img"]),
];
/// Extensions of masks.
pub(super) const EXTENSIONS: [&str; 5] = ["png", "gif", "jpg", "tif", "bmp"];

/// Most masks of an image.
const MAX_MASKS: usize = 16;

/// How masks are called.
pub(super) struct Masks {
    /// The end of the name of an image; empty if masks have a longer name.
    pub of_images: &'static str,
    /// The end of the name of a mask.
    pub end: &'static str,
    pub extension: &'static str,
}

impl Masks {
    /// How the masks in a folder are called, one for each end, if most images there have one.
    pub fn find(files: &Files) -> Vec<Self> {
        let names = files.images();
        let are_any = |end: &str| names.iter().any(|name| name.ends_with(end));
        let of_end = |(end, of_images): &(&'static str, &'static [&'static str])| {
            let of = |of_images: &'static str| {
                EXTENSIONS.into_iter().map(move |extension| Self { of_images, end, extension })
            };
            let mut all = std::iter::once("").chain(of_images.iter().copied()).flat_map(of);
            all.find(|masks| masks.fits(files))
        };
        ENDS.iter().filter(|(end, _)| are_any(end)).filter_map(of_end).collect()
    }

    /// Whether most images in a folder have such a mask.
    pub fn fits(&self, files: &Files) -> bool {
        let (with, lacking) = self.count(files);
        with > 0 && with >= lacking
    }

    /// The options that pack all these masks, each as [`Self::with`].
    pub fn options(all: &[Self], files: &[Files]) -> Option<Vec<(&'static str, String)>> {
        let with = all.iter().map(|masks| masks.with(files)).collect::<Option<Vec<_>>>()?.concat();
        let lacking: u64 = all.iter().flat_map(|masks| files.iter().map(|files| masks.count(files).1)).sum();
        // The value is a path if images have an end, and a file that is missing there is an error.
        let is_optional = lacking > 0 || with.len() > all.len() && all.iter().any(|masks| !masks.of_images.is_empty());
        let with = with.into_iter().map(|value| ("--with", value));
        Some(with.chain(on_missing(u64::from(is_optional))).collect())
    }

    /// Names of masks, for messages.
    pub fn examples(all: &[Self]) -> String {
        all.iter().map(Self::example).collect::<Vec<_>>().join(", ")
    }

    /// A name of a mask, for messages.
    fn example(&self) -> String {
        format!("1{}.{} for 1{}", self.end, self.extension, self.of_images)
    }

    /// The paths of the masks, and of further masks, as a pattern.
    pub fn glob(&self) -> String {
        format!("**/*{}*.{}", self.end, self.extension)
    }

    /// Numbers of the images with a mask and without.
    pub fn count(&self, files: &Files) -> (u64, u64) {
        let masks = files.stems(self.extension);
        let has = |image: &str| {
            let bare = image.strip_suffix(self.of_images).unwrap_or(image);
            masks.contains(format!("{bare}{}", self.end).as_str())
        };
        let names = files.images();
        let has_image =
            |bare: &str| names.contains(bare) || names.contains(format!("{bare}{}", self.of_images).as_str());
        let is_other = |name: &str| ENDS.iter().any(|(end, _)| name.strip_suffix(end).is_some_and(has_image));
        // Further masks of one image, as `1_mask_2`, are no images, nor are masks of other ends.
        let is_image = |name: &str| {
            name.ends_with(self.of_images)
                && !name.ends_with(self.end)
                && self.further(name).is_none()
                && !is_other(name)
        };
        let images: Vec<&str> = names.iter().copied().filter(|name| is_image(name)).collect();
        let with = images.iter().filter(|image| has(image)).count();
        (with as u64, (images.len() - with) as u64)
    }

    /// The number at the end of the name of a further mask of an image.
    fn further<'n>(&self, name: &'n str) -> Option<&'n str> {
        let (_, number) = name.rsplit_once(self.end)?;
        let number = number.strip_prefix(['_', '-'])?;
        (!number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit())).then_some(number)
    }

    /// The values of `--with`: of the mask, and of the further masks of some images.
    ///
    /// `None` if there are many: they would be images.
    pub fn with(&self, files: &[Files]) -> Option<Vec<String>> {
        let image = match self.of_images {
            "" => "*".to_owned(),
            end => format!("{{stem-{end}}}"),
        };
        let name = self.end.trim_matches(['_', '-']);
        let mut values = vec![format!("{name}={image}{}.{}", self.end, self.extension)];
        let names = files.iter().flat_map(|files| &files.0).map(|name| stem(name));
        let mut further: Vec<(&str, &str)> =
            names.filter_map(|name| Some((self.further(name)?, &name[name.rfind(self.end)?..]))).collect();
        further.sort_unstable_by_key(|(number, _)| (number.len(), *number));
        further.dedup();
        let more = further.iter().map(|(number, end)| format!("{name}_{number}={image}{end}.{}", self.extension));
        values.extend(more);
        (values.len() <= MAX_MASKS).then_some(values)
    }
}

pub(super) fn find(look: &Look<'_>) -> Option<Found> {
    let (folders, what) = match look.split_folders() {
        Some(splits) => (splits, "splits of images with masks beside them"),
        None if look.folders("").is_empty() => {
            (vec![String::new()], "images directly in this folder, with masks beside them")
        }
        None => return None,
    };
    let files: Vec<Files> = folders.iter().map(|folder| look.files(folder)).collect();
    let all = files.iter().map(Masks::find).find(|all| !all.is_empty())?;
    let mut options = Vec::new();
    if !folders[0].is_empty() {
        options.push(("--splits", folders.join(",")));
    }
    options.extend(Masks::options(&all, &files)?);
    let what = format!("{what}, {}", Masks::examples(&all));
    Some(Found::new(what, options, "packs each image with its mask"))
}

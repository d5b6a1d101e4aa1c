//! Images with masks beside them in one folder: `train/1.jpg` and `train/1_mask.png`, as Roboflow exports masks; `1_sat.jpg` and `1_mask.png`, as
//! DeepGlobe has them; `rgb_1.jpg` and `sync_depth_1.png`, as NYU Depth has them; and without splits.

use super::{Files, Found, Look, on_missing, stem};

/// The side of a name at which masks differ from their images.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Side {
    Start,
    End,
}

impl Side {
    /// `name` without `text` at this side; `None` if it has another text there.
    pub fn strip<'n>(self, name: &'n str, text: &str) -> Option<&'n str> {
        match self {
            Self::Start => name.strip_prefix(text),
            Self::End => name.strip_suffix(text),
        }
    }

    /// `bare` with `text` at this side.
    pub fn join(self, bare: &str, text: &str) -> String {
        match self {
            Self::Start => format!("{text}{bare}"),
            Self::End => format!("{bare}{text}"),
        }
    }
}

use Side::{End, Start};

/// Each row: the side of the mark, the mark of masks, and marks of their images; images may also have no mark.
pub(super) const MARKS: [(Side, &str, &[&str]); 24] = [
    (End, "_mask", &["_sat", "_image", "_img", "_photo"]),
    (End, "-mask", &["-image"]),
    (End, "_seg", &["_image", "_img"]),
    (End, "_segmentation", &["_image"]),
    (End, "_gt", &["_image", "_img"]),
    (End, "_GT", &[]),
    (End, "_label", &["_image", "_img", "_rgb"]),
    (End, "_fg", &["_rgb"]),
    (End, "_centers", &["_rgb"]),
    (End, "_depth", &["_rgb", "_color", "_image", "_img"]),
    (End, "_maskcrop", &["_crop"]),
    (End, "_depthcrop", &["_crop"]),
    (End, "_trimap", &["_image", "_img"]),
    (End, ".mask", &[".image", ".img"]),
    (End, ".depth", &[".color", ".rgb"]),
    (Start, "mask_", &["image_", "img_"]),
    (Start, "mask-", &["image-", "img-"]),
    (Start, "seg_", &["image_", "img_"]),
    (Start, "label_", &["image_", "img_", "rgb_"]),
    (Start, "gt_", &["image_", "img_"]),
    (Start, "sync_depth_", &["rgb_"]),
    (Start, "depth_", &["rgb_", "color_", "image_", "img_"]),
    (Start, "mask", &["image", "img"]),
    (Start, "target", &["input", "image"]),
];
/// Extensions of masks.
pub(super) const EXTENSIONS: [&str; 5] = ["png", "gif", "jpg", "tif", "bmp"];

/// Most masks of an image.
const MAX_MASKS: usize = 16;

/// A naming scheme of masks.
pub(super) struct Masks {
    pub side: Side,
    /// The text of the name of an image; empty if masks have a longer name.
    pub of_images: &'static str,
    /// The text of the name of a mask.
    pub text: &'static str,
    pub extension: &'static str,
}

impl Masks {
    /// How the masks in a folder are called, one for each text, if most images there have one.
    pub fn find(files: &Files) -> Vec<Self> {
        let names = files.images();
        let are_any = |side: Side, text: &str| names.iter().any(|name| side.strip(name, text).is_some());
        let of_text = |(side, text, of_images): &(Side, &'static str, &'static [&'static str])| {
            let of = |of_images: &'static str| {
                EXTENSIONS.into_iter().map(move |extension| Self { side: *side, of_images, text, extension })
            };
            let mut all = std::iter::once("").chain(of_images.iter().copied()).flat_map(of);
            all.find(|masks| masks.fits(files))
        };
        let mut all: Vec<Self> =
            MARKS.iter().filter(|(side, text, _)| are_any(*side, text)).filter_map(of_text).collect();
        // `mask_1` has the mark `mask`, too.
        let longer: Vec<(Side, &str)> = all.iter().map(|one| (one.side, one.text)).collect();
        all.retain(|one| {
            !longer.iter().any(|(side, text)| {
                *side == one.side && side.strip(text, one.text).is_some_and(|rest| !rest.is_empty())
            })
        });
        all
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
        let name = |text: &str| self.side.join("1", text);
        format!("{}.{} for {}", name(self.text), self.extension, name(self.of_images))
    }

    /// The paths of the masks, and of further masks, as a pattern.
    pub fn glob(&self) -> String {
        let further = if self.side == End { "*" } else { "" };
        format!("**/{}{further}.{}", self.side.join("*", self.text), self.extension)
    }

    /// Numbers of the images with a mask and without.
    pub fn count(&self, files: &Files) -> (u64, u64) {
        let masks = files.stems(self.extension);
        let has = |image: &str| {
            let bare = self.side.strip(image, self.of_images).unwrap_or(image);
            masks.contains(self.side.join(bare, self.text).as_str())
        };
        let names = files.images();
        let has_image =
            |bare: &str| names.contains(bare) || names.contains(self.side.join(bare, self.of_images).as_str());
        let is_other = |name: &str| MARKS.iter().any(|(side, text, _)| side.strip(name, text).is_some_and(has_image));
        // Further masks of one image, as `1_mask_2`, are no images, nor are masks of other texts.
        let is_image = |name: &str| {
            self.side.strip(name, self.of_images).is_some()
                && self.side.strip(name, self.text).is_none()
                && self.further(name).is_none()
                && !is_other(name)
        };
        let images: Vec<&str> = names.iter().copied().filter(|name| is_image(name)).collect();
        let with = images.iter().filter(|image| has(image)).count();
        (with as u64, (images.len() - with) as u64)
    }

    /// The number at the end of the name of a further mask of an image.
    fn further<'n>(&self, name: &'n str) -> Option<&'n str> {
        let (_, number) = name.rsplit_once(self.text).filter(|_| self.side == End)?;
        let number = number.strip_prefix(['_', '-'])?;
        (!number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit())).then_some(number)
    }

    /// The values of `--with`: of the mask, and of the further masks of some images.
    ///
    /// `None` if there are many: they would be images.
    pub fn with(&self, files: &[Files]) -> Option<Vec<String>> {
        let image = match self.of_images {
            "" => "*".to_owned(),
            text => format!("{{stem-{text}}}"),
        };
        let name = self.text.trim_matches(['_', '-', '.']).replace('-', "_").to_ascii_lowercase();
        let mut values = vec![format!("{name}={}.{}", self.side.join(&image, self.text), self.extension)];
        let names = files.iter().flat_map(|files| &files.0).map(|name| stem(name));
        let mut further: Vec<(&str, &str)> =
            names.filter_map(|name| Some((self.further(name)?, &name[name.rfind(self.text)?..]))).collect();
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

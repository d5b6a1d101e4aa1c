//! Conversions of files into arrays: boxes of objects from label files.
//!
//! A converted component is an array whose values come from a file of another form: `boxes.npy=yolo.boxes:../labels/{stem}.txt`. Without a
//! pattern, `boxes.npy=coco.boxes`, the file is the list of the images.

use std::fmt;

use super::{Form, Type};
use crate::Result;

/// Files that list the objects of an image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ObjectFile {
    /// Lines `class x y width height`: center and size as fractions of the image, as Ultralytics YOLO reads them.
    Yolo,
    /// Lines `class x1 y1 x2 y2 x3 y3 …`: polygons as fractions of the image. The box of a polygon encloses its points.
    YoloSegments,
    /// XML with `object`, `name` and `bndbox` in pixels, as Pascal VOC has it.
    Voc,
    /// JSON with `shapes` in pixels, as LabelMe writes it.
    LabelMe,
    /// JSON with `images`, `annotations` and `categories` of many images, as COCO has it.
    Coco,
    /// CSV with a box in each row, as Open Images has it.
    Csv,
    /// Lines `type truncated occluded alpha x1 y1 x2 y2 …` in pixels, as KITTI has them.
    Kitti,
    /// Lines of many images, as WIDER FACE has them: the path, the number of faces, and `x y width height …` for each face.
    Wider,
    /// XML of many images with `image` and `box` in pixels, as CVAT exports it ("CVAT for images").
    Cvat,
    /// JSON of many images with `regions` in pixels, as VGG Image Annotator saves it.
    Via,
    /// JSON of many images with `labels` and `box2d` in pixels, as Scalabel writes and BDD100K has it.
    Scalabel,
}

/// An array of the objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ObjectArray {
    /// `float32 [n, 4]`: left, top, right and bottom edge in pixels of the stored image.
    Boxes,
    /// `int64 [n]`: class numbers.
    Labels,
}

/// A conversion: the kind of file, and the array made from it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Conversion {
    /// The kind of file.
    pub file: ObjectFile,
    /// The array.
    pub array: ObjectArray,
}

const FILES: [(&str, ObjectFile); 11] = [
    ("yolo", ObjectFile::Yolo),
    ("yolo-seg", ObjectFile::YoloSegments),
    ("voc", ObjectFile::Voc),
    ("labelme", ObjectFile::LabelMe),
    ("coco", ObjectFile::Coco),
    ("csv", ObjectFile::Csv),
    ("kitti", ObjectFile::Kitti),
    ("wider", ObjectFile::Wider),
    ("cvat", ObjectFile::Cvat),
    ("via", ObjectFile::Via),
    ("scalabel", ObjectFile::Scalabel),
];
const ARRAYS: [(&str, ObjectArray); 2] = [("boxes", ObjectArray::Boxes), ("labels", ObjectArray::Labels)];

impl ObjectFile {
    /// The kind of file and its pattern, if `text` is `KIND:PATTERN`, as in `yolo:../labels/*.txt`, or the kind of a list.
    pub fn split(text: &str) -> Option<(Self, Option<&str>)> {
        let (name, pattern) = text.split_once(':').map_or((text, None), |(name, pattern)| (name, Some(pattern)));
        let file = FILES.iter().find(|(known, _)| *known == name)?.1;
        (pattern.is_some() || file.may_be_source()).then_some((file, pattern))
    }

    /// Names of all kinds, for messages.
    pub fn names() -> String {
        let names = FILES.map(|(name, _)| name);
        let (last, others) = names.split_last().map_or(("", &[][..]), |(last, others)| (*last, others));
        format!("{} and {last}", others.join(", "))
    }

    /// Whether the files have the names of classes. Otherwise they have numbers.
    pub fn has_names(self) -> bool {
        !matches!(self, Self::Yolo | Self::YoloSegments)
    }

    /// Whether a file is of many images.
    pub fn is_of_many(self) -> bool {
        matches!(self, Self::Coco | Self::Csv | Self::Wider | Self::Cvat | Self::Via | Self::Scalabel)
    }

    /// Whether a file lists the classes, apart from the objects.
    pub fn lists_classes(self) -> bool {
        self == Self::Coco
    }

    /// Whether a file may be the list of images that is packed.
    pub fn may_be_source(self) -> bool {
        self == Self::Coco
    }
}

impl Conversion {
    /// The conversion and the pattern, if `text` is `KIND.ARRAY:PATTERN`, or `KIND.ARRAY` of a list.
    pub(super) fn split(text: &str) -> Option<(Self, Option<&str>)> {
        let (name, pattern) = text.split_once(':').map_or((text, None), |(name, pattern)| (name, Some(pattern)));
        let (file, array) = name.split_once('.')?;
        let file = FILES.iter().find(|(known, _)| *known == file)?.1;
        let array = ARRAYS.iter().find(|(known, _)| *known == array)?.1;
        (pattern.is_some() || file.may_be_source()).then_some((Self { file, array }, pattern))
    }

    /// The form of the array of `objects` objects.
    ///
    /// # Errors
    /// If the array is too long.
    pub fn form(self, objects: u64) -> Result<Form> {
        match self.array {
            ObjectArray::Boxes => Form::array("<f4", &[objects, 4]),
            ObjectArray::Labels => Form::array("<i8", &[objects]),
        }
    }

    /// The type of the arrays of all samples.
    pub(super) fn kind(self) -> Type {
        let (dtype, shape) = match self.array {
            ObjectArray::Boxes => ("<f4", vec![None, Some(4)]),
            ObjectArray::Labels => ("<i8", vec![None]),
        };
        Type { kind: super::Kind::Array { dtype: Some(dtype.to_owned()), shape: Some(shape) }, is_optional: false }
    }
}

impl Conversion {
    /// The kind of its file, as `--with` calls it.
    pub fn file_name(&self) -> &'static str {
        FILES.iter().find(|(_, file)| *file == self.file).map_or("", |(name, _)| *name)
    }
}

impl fmt::Display for Conversion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let file = self.file_name();
        let array = ARRAYS.iter().find(|(_, array)| *array == self.array).map_or("", |(name, _)| name);
        write!(f, "{file}.{array}")
    }
}

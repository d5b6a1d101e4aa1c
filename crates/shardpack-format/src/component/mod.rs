//! Components of samples: the declaration by a source (`Component`), and the forms of their values (`Form`, `Type`).
//!
//! The payload is the first component of a sample, an image or other content; the others come with it. To a format
//! they are bytes. Their lengths are known before the copy, and they are in their places when a record is framed.

mod conversion;
mod form;
mod number;
mod pattern;

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::{Error, Result, image_header};
use pattern::Pattern;

pub use conversion::{Conversion, ObjectArray, ObjectFile};
pub use form::{Form, Kind, MAX_AXES, Type, item_bytes, numpy_name, of_numpy_name};
pub use number::Number;
pub(crate) use number::half;

/// Maximum number of components in a dataset.
pub const MAX_DATASET_COMPONENTS: usize = 32;
/// Name of the component with a source's text about a sample.
pub const TEXT: &str = "json";
/// Names of the components with the boxes of objects and their class numbers.
const BOXES: &str = "boxes";
const BOX_LABELS: &str = "box_labels";
/// Start of the pattern of values that a list has.
const LISTED: &str = "list:";
/// Longest name in bytes.
const NAME_BYTES: usize = 32;

/// A component of samples: its name, and where a source has it.
///
/// In manifests it is `NAME` for a source's text, `NAME=PATTERN` for a file, `NAME=CONVERSION:PATTERN` for an array made from a file,
/// `NAME:TYPE` for a typed value, and `NAME=list:TYPE:OPTION` for a value that a list has.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Component {
    name: String,
    pattern: Option<Pattern>,
    kind: Option<Type>,
    conversion: Option<Conversion>,
}

impl Component {
    /// A source's text about each sample: a JSON object.
    pub fn text() -> Self {
        Self { name: TEXT.to_owned(), pattern: None, kind: None, conversion: None }
    }

    /// Files beside the images: `EXT` for those that are called as the image but for the extension, or `NAME=PATTERN`,
    /// where `*` in the pattern stands for the image's name without extension. A pattern with `/` or `{…}` is a path relative to the
    /// image's folder, with `{stem}`, `{name}`, `{dir}`, `{parent}` and `{grandparent}`. A name without extension gets that of the pattern.
    ///
    /// # Errors
    /// When the name is none of a component, or the pattern none of a file.
    pub fn files(text: &str) -> Result<Self> {
        let (name, pattern) = match text.split_once('=') {
            Some((name, pattern)) => (name.to_ascii_lowercase(), pattern.to_owned()),
            None => (text.to_ascii_lowercase(), format!("*.{text}")),
        };
        let wrong = |what: &str| Error::usage(format!("{text:?}: {what}"));
        let (conversion, pattern) = match Conversion::split(&pattern) {
            Some((conversion, pattern)) => (Some(conversion), pattern.map(str::to_owned)),
            None => (None, Some(pattern)),
        };
        let parse = match conversion.is_some_and(|conversion| conversion.file.is_of_many()) {
            true => Pattern::parse_of_many,
            false => Pattern::parse,
        };
        let pattern = pattern.map(|pattern| parse(&pattern).map_err(wrong)).transpose()?;
        let name = match pattern.as_ref().and_then(Pattern::extension) {
            _ if conversion.is_some() && name.ends_with(".npy") => name,
            _ if conversion.is_some() => format!("{name}.npy"),
            Some(extension) if !name.contains('.') && text.contains('=') && !extension.eq_ignore_ascii_case(&name) => {
                format!("{name}.{}", extension.to_ascii_lowercase())
            }
            _ => name,
        };
        let fine = |part: &str| {
            !part.is_empty() && part.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_')
        };
        if name.len() > NAME_BYTES || !name.split('.').all(fine) || name.starts_with("__") {
            return Err(wrong("a component's name is up to 32 letters, digits, _ and dots between them"));
        }
        if name == "cls" {
            return Err(wrong("the component cls is the label"));
        }
        Ok(Self { name, pattern, kind: conversion.map(Conversion::kind), conversion })
    }

    /// The files that the column `column` of a list names, as the component `name`.
    ///
    /// # Errors
    /// If `name` is no valid component name, or `column` has a character that patterns cannot have.
    pub fn column_files(name: &str, column: &str) -> Result<Self> {
        match column.contains([',', '=']) {
            true => Err(Error::usage(format!("column {column:?}: the name of a column of files has no , and no ="))),
            false => Self::files(&format!("{name}={}", Pattern::Column(column.to_owned()))),
        }
    }

    /// The values of form `form` that a list has, as the value `said` of an option describes them.
    ///
    /// # Errors
    /// As [`Component::field`].
    pub fn of_list_values(field: &str, form: &Form, said: &str) -> Result<Self> {
        Ok(Self { pattern: Some(Pattern::Listed(said.to_owned())), ..Self::value(field, form)? })
    }

    /// The value of the option that describes its values in a list, if a list has them.
    pub fn listed(&self) -> Option<&str> {
        match &self.pattern {
            Some(Pattern::Listed(said)) => Some(said),
            _ => None,
        }
    }

    /// Whether a list has its values: the text of the list, or others.
    pub fn is_in_list(&self) -> bool {
        self.is_text() || self.listed().is_some()
    }

    /// The column of a list that names its files, if one does.
    pub fn file_column(&self) -> Option<&str> {
        match &self.pattern {
            Some(Pattern::Column(column)) => Some(column),
            _ => None,
        }
    }

    /// Whether each sample has a slot with the place or the content of its file: the file follows from no pattern, or an array is made
    /// from it.
    pub fn has_slot(&self) -> bool {
        self.conversion.is_some() || self.file_column().is_some()
    }

    /// The components that a value of `--with` names: one, as [`Component::files`] does, or for `NAME=yolo:PATTERN` the boxes and their
    /// labels: `boxes` and `box_labels`, `gt_boxes` and `gt_box_labels`. The name has the word, so that nothing moves pixels and forgets
    /// the boxes.
    ///
    /// # Errors
    /// As [`Component::files`]; if the kind of label files is unknown.
    pub fn with(text: &str) -> Result<Vec<Self>> {
        let Some((name, rest)) = text.split_once('=') else { return Ok(vec![Self::files(text)?]) };
        let Some((file, pattern)) = ObjectFile::split(rest) else {
            let kind = rest.split_once(':').map(|(kind, _)| kind);
            return match kind
                .filter(|kind| kind.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte)))
            {
                Some(kind) => {
                    let names = ObjectFile::names();
                    Err(Error::usage(format!("{text:?}: {kind:?} is no kind of label files; {names} are")))
                }
                None => Ok(vec![Self::files(text)?]),
            };
        };
        let Some(labels) = name.strip_suffix(BOXES).map(|before| format!("{before}{BOX_LABELS}")) else {
            return Err(Error::usage(format!("{text:?}: the name of boxes ends with boxes, as in gt_boxes")));
        };
        let of = |name: &str, array| {
            let pattern = pattern.map(|pattern| format!(":{pattern}")).unwrap_or_default();
            Self::files(&format!("{name}={}{pattern}", Conversion { file, array }))
        };
        let both = [of(name, ObjectArray::Boxes), of(&labels, ObjectArray::Labels)];
        let wrong = |error: Error| Error::usage(format!("{name}={rest}: {}", error.what()));
        both.into_iter().map(|one| one.map_err(wrong)).collect()
    }

    /// The component for a field named `field`: a feature, column or extension. Letters become lower case, and characters that a
    /// component's name cannot have become `_`: `image/object/bbox` is `image_object_bbox`.
    ///
    /// # Errors
    /// If the result is still no valid component name.
    pub fn field(field: &str) -> Result<Self> {
        let fine = |c: char| if c.is_ascii_alphanumeric() || c == '.' { c.to_ascii_lowercase() } else { '_' };
        Self::files(&field.chars().map(fine).collect::<String>())
    }

    /// The component that a field called `field` is, whose values are of this form: as [`Component::field`], with the
    /// extension of such values at the end of its name; bytes keep one that the field has, unless that is one of other forms.
    ///
    /// # Errors
    /// As [`Component::field`].
    pub fn value(field: &str, form: &Form) -> Result<Self> {
        let Self { name, .. } = Self::field(field)?;
        let extension = name.rsplit_once('.').map(|(_, extension)| extension);
        // The one called as texts of sources are would be taken for them.
        let is_it = name == form.extension() && name != TEXT;
        let is_called = match form {
            Form::Bytes => extension.is_some_and(|extension| !["npy", "json", "txt"].contains(&extension)),
            form => is_it || extension == Some(form.extension()),
        };
        let name = if is_called { name } else { format!("{name}.{}", form.extension()) };
        Ok(Self { name, pattern: None, kind: Some(Type::from_form(form)), conversion: None })
    }

    /// The same, where values are of type `kind`.
    pub fn with_kind(self, kind: Type) -> Self {
        Self { kind: Some(kind), ..self }
    }

    /// The common component of both, with the same name and the joined type; `None` if there is none.
    pub fn join(&self, other: &Self) -> Option<Self> {
        let is_same = self.name == other.name && self.pattern == other.pattern;
        match (&self.kind, &other.kind) {
            (None, None) => is_same.then(|| self.clone()),
            (Some(a), Some(b)) if is_same => a.clone().join(b.clone()).map(|kind| self.clone().with_kind(kind)),
            _ => None,
        }
    }

    /// The type of its values, if it has one: a file and the text of a list have none.
    pub fn kind(&self) -> Option<&Type> {
        self.kind.as_ref()
    }

    /// The conversion of its files, if there is one.
    pub fn conversion(&self) -> Option<Conversion> {
        self.conversion
    }

    /// Whether it is made from the list of the images, and not from files beside them.
    pub fn is_of_list(&self) -> bool {
        self.conversion.is_some() && self.pattern.is_none()
    }

    /// Whether its files are those of `other`.
    pub fn has_same_files(&self, other: &Self) -> bool {
        self.pattern == other.pattern
    }

    /// The same component once it is stored: the arrays that a conversion made are values, and the files of a column have the names of
    /// files beside the image.
    pub fn stored(&self) -> Self {
        match (self.conversion, &self.pattern) {
            (Some(_), _) | (None, Some(Pattern::Listed(_))) => Self { pattern: None, conversion: None, ..self.clone() },
            (None, Some(Pattern::Column(_))) => {
                let beside = Pattern::Beside(String::new(), format!(".{}", self.name));
                Self { pattern: Some(beside), ..self.clone() }
            }
            (None, _) => self.clone(),
        }
    }

    /// Whether it is a typed value of the source, and neither a file, nor made from one, nor in a list.
    pub fn is_value(&self) -> bool {
        self.kind.is_some() && self.pattern.is_none()
    }

    /// Whether a payload of this component that is not an image does not match `extension`; `kind` is detected from its first bytes.
    ///
    /// Only files with an array extension are checked. Values were checked against their forms when they were read, and most formats store
    /// them without a head.
    pub fn is_stray(&self, kind: image_header::Kind, extension: Option<&str>) -> bool {
        let array = image_header::Kind::Npy;
        self.kind.is_none() && extension == Some(array.extension()) && kind != array
    }

    /// Its name where types need no extension: a column, a feature.
    pub fn column(&self) -> &str {
        let is_typed = self.kind.is_some();
        self.name.rsplit_once('.').filter(|_| is_typed).map_or(&self.name, |(name, _)| name)
    }

    /// Name of the component.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Whether it is the source's text.
    pub fn is_text(&self) -> bool {
        self.pattern.is_none() && self.kind.is_none()
    }

    /// Name of the file beside the image `image` that belongs to it; `None` if the component is no file in the folder of the image.
    pub fn file_of(&self, image: &[u8]) -> Option<Vec<u8>> {
        match &self.pattern {
            Some(Pattern::Beside(before, after)) => Some([before.as_bytes(), stem(image), after.as_bytes()].concat()),
            _ => None,
        }
    }

    /// Whether its files are at a path, and not just beside the image.
    pub fn is_path(&self) -> bool {
        matches!(self.pattern, Some(Pattern::Path(_) | Pattern::Column(_)))
    }

    /// The name of the folder outside the source that has its files; their paths begin with this name in braces.
    pub fn extra_root(&self) -> Option<&str> {
        match &self.pattern {
            Some(Pattern::Path(path)) => path.root(),
            _ => None,
        }
    }

    /// Whether a folder outside the source can have this name in patterns.
    pub fn is_root_name(name: &str) -> bool {
        pattern::is_root_name(name)
    }

    /// Path in the source of the file that belongs to the image `image` in `folder`; `None` if the component is no file, the path leads
    /// out of the source, or a column has it.
    pub fn path_of(&self, folder: &[u8], image: &[u8]) -> Option<Vec<u8>> {
        match &self.pattern {
            Some(Pattern::Path(path)) => path.path_of(folder, image),
            Some(Pattern::Beside(..)) => {
                let file = self.file_of(image)?;
                Some(if folder.is_empty() { file } else { [folder, b"/", &file].concat() })
            }
            Some(Pattern::Column(_) | Pattern::Listed(_)) | None => None,
        }
    }

    /// Whether a file of this name in `folder` may belong to an image.
    pub fn takes(&self, folder: &[u8], file: &[u8]) -> bool {
        match &self.pattern {
            Some(Pattern::Path(path)) => path.takes(folder, file),
            Some(Pattern::Beside(before, after)) => {
                file.len() > before.len() + after.len()
                    && file.starts_with(before.as_bytes())
                    && file.ends_with(after.as_bytes())
            }
            Some(Pattern::Column(_) | Pattern::Listed(_)) | None => false,
        }
    }

    /// Whether the first-level folder `name` of a source has files of this component, and so is no class.
    pub fn has_folder(&self, name: &[u8]) -> bool {
        matches!(&self.pattern, Some(Pattern::Path(path)) if path.has_folder(name))
    }

    /// Components as a manifest has them.
    pub fn list(all: &[Self]) -> String {
        all.iter().map(Self::to_string).collect::<Vec<_>>().join(",")
    }

    /// Parses the output of [`Component::list`].
    ///
    /// # Errors
    /// If `text` is invalid.
    pub fn of_list(text: &str) -> Result<Vec<Self>> {
        let all: Vec<Self> = text.split(',').map(|one| Self::try_from(one.to_owned())).collect::<Result<_>>()?;
        check(&all).map(|()| all)
    }
}

/// Checks that there are not too many components and that no name repeats.
///
/// # Errors
/// Names the problem.
pub fn check(all: &[Component]) -> Result<()> {
    if all.len() > MAX_DATASET_COMPONENTS {
        return Err(Error::usage(format!(
            "{} further components, a sample has at most {MAX_DATASET_COMPONENTS}",
            all.len()
        )));
    }
    let twice = all.iter().enumerate().find(|(at, one)| all[..*at].iter().any(|other| other.name == one.name));
    match twice {
        Some((_, one)) => Err(Error::usage(format!("two components are called {:?}", one.name))),
        None => Ok(()),
    }
}

/// A file's name without its extension.
pub fn stem(name: &[u8]) -> &[u8] {
    match name.iter().rposition(|byte| *byte == b'.') {
        Some(dot) if dot > 0 => &name[..dot],
        _ => name,
    }
}

impl Component {
    /// The value of `--with` for this component: `boxes=csv:../boxes.csv`.
    pub fn with_value(&self) -> String {
        let Some(conversion) = &self.conversion else { return self.to_string() };
        let pattern = self.pattern.as_ref().map_or_else(String::new, |pattern| format!(":{pattern}"));
        format!("{}={}{pattern}", self.column(), conversion.file_name())
    }
}

impl fmt::Display for Component {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.pattern, &self.kind) {
            (Some(Pattern::Listed(said)), Some(kind)) => write!(f, "{}={LISTED}{kind}:{said}", self.name),
            (Some(pattern), Some(_)) => {
                let conversion = self.conversion.as_ref().map(ToString::to_string).unwrap_or_default();
                write!(f, "{}={conversion}:{pattern}", self.name)
            }
            (Some(pattern), None) => write!(f, "{}={pattern}", self.name),
            (None, Some(_)) if self.conversion.is_some() => {
                write!(f, "{}={}", self.name, self.conversion.as_ref().map(ToString::to_string).unwrap_or_default())
            }
            (None, Some(kind)) => write!(f, "{}:{kind}", self.name),
            (None, None) => f.write_str(&self.name),
        }
    }
}

impl From<Component> for String {
    fn from(component: Component) -> Self {
        component.to_string()
    }
}

impl TryFrom<String> for Component {
    type Error = Error;

    fn try_from(text: String) -> Result<Self> {
        match text.as_str() {
            TEXT => Ok(Self::text()),
            _ if text.contains('=') && !text.contains(&format!("={LISTED}")) => Self::files(&text),
            text => {
                let wrong = || Error::data(format!("{text:?} is no component"));
                let (name, rest) = text.split_once([':', '=']).ok_or_else(wrong)?;
                let (kind, said) = match rest.strip_prefix(LISTED) {
                    Some(rest) => rest.split_once(':').map(|(kind, said)| (kind, Some(said))).ok_or_else(wrong)?,
                    None => (rest, None),
                };
                // The limit on the length applies to the field.
                let field = name.rsplit_once('.').map_or(name, |(field, _)| field);
                if !Self::field(field).is_ok_and(|one| one.name == field) {
                    return Err(wrong());
                }
                let pattern = said.map(|said| Pattern::Listed(said.to_owned()));
                Ok(Self { name: name.to_owned(), pattern, kind: Some(kind.parse()?), conversion: None })
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_told_by_extension_or_pattern() {
        let of = |text: &str| Component::files(text).unwrap();
        assert_eq!(of("txt").to_string(), "txt=*.txt");
        assert_eq!(of("mask=*_mask.png").to_string(), "mask.png=*_mask.png");
        assert_eq!(of("TXT").to_string(), "txt=*.TXT");
        assert_eq!(of("mask.png").file_of(b"a.b.jpg").unwrap(), b"a.b.mask.png");
        assert_eq!(of("mask=*_mask.png").file_of(b".jpg").unwrap(), b".jpg_mask.png");
        let mask = |file: &[u8]| of("mask=*_mask.png").takes(b"", file);
        assert!(mask(b"1_mask.png") && !mask(b"_mask.png"));
        assert_eq!(of("mask=../masks/{stem}.png").to_string(), "mask.png=../masks/{stem}.png");
        assert_eq!(of("mask=../masks/*.png").path_of(b"a", b"1.jpg").unwrap(), b"masks/1.png");
        assert_eq!(of("mask=../masks/{name}").to_string(), "mask=../masks/{name}");
        for text in ["", "a b", "x=mask.png", "x=/*/y.png", "x=*", "cls", "a=**.x", ".x", "__key__", "x=*,y"] {
            assert!(Component::files(text).is_err(), "{text}");
        }
        let field = |text: &str| Component::field(text).map(|one| one.to_string()).ok();
        assert_eq!(field("image/object/BBox").as_deref(), Some("image_object_bbox=*.image_object_bbox"));
        assert_eq!(field("clip-score=é").as_deref(), Some("clip_score__=*.clip_score__"));
        assert_eq!(field("seg.png").as_deref(), Some("seg.png=*.seg.png"));
        for text in ["", "CLS", "__key__", "/_x", "a..b", &"a".repeat(33)] {
            assert_eq!(field(text), None, "{text}");
        }
        let value = |field: &str, form: &str| Component::value(field, &form.parse().unwrap()).unwrap();
        let column = Component::column_files("mask.png", "My masks").unwrap();
        assert_eq!(column.to_string(), "mask.png=column:My masks");
        assert_eq!(column.stored().to_string(), "mask.png=*.mask.png");
        // As a manifest has `--with TXT`.
        assert_eq!((of("TXT").to_string(), of("txt=*.TXT").name()), ("txt=*.TXT".to_owned(), "txt"));
        assert!(column.is_path() && column.has_slot() && column.path_of(b"", b"1.jpg").is_none());
        let listed = Component::of_list_values("multi_hot", &"|u1[3]".parse().unwrap(), "tags:|").unwrap();
        assert_eq!(listed.to_string(), "multi_hot.npy=list:|u1[3]:tags:|");
        assert_eq!(listed.stored().to_string(), "multi_hot.npy:|u1[3]");
        assert!(listed.is_in_list() && !listed.is_value() && !listed.has_slot() && !listed.is_text());
        for one in [column, listed] {
            assert_eq!(Component::try_from(one.to_string()).unwrap(), one);
        }
        for text in ["x=list:", "x=list:|u1[3]", "x=list:z:a", "=list:|u1[3]:a", "x=column:"] {
            assert!(Component::try_from(text.to_owned()).is_err(), "{text}");
        }
        assert_eq!(value("Finger/print", "<f4[37x64]").to_string(), "finger_print.npy:<f4[37x64]");
        assert_eq!(value("a.json", "int").to_string(), "a.json:int");
        assert_eq!(["json", "any"].map(|name| value(name, "int").to_string()), ["json.json:int", "any.json:int"]);
        assert_eq!(
            (value("npy", "<f4[]").to_string(), value("npy", "<f4[]").column()),
            ("npy:<f4[]".to_owned(), "npy")
        );
        assert_eq!((value("a.b", "text").name(), value("a.b", "text").column()), ("a.b.txt", "a.b"));
        let bytes = |field: &str| value(field, "bytes").name;
        assert_eq!([bytes("a"), bytes("a.FLAC"), bytes("a.npy")], ["a.bin", "a.flac", "a.npy.bin"]);
        assert_eq!((of("mask=*_mask.png").column(), Component::text().column()), ("mask.png", "json"));
        assert!(!value("x", "json").is_text() && value("x", "json").file_of(b"a.jpg").is_none());
        let boxes = Component::with("boxes=yolo:../labels/*.txt").unwrap();
        assert_eq!(
            Component::list(&boxes),
            "boxes.npy=yolo.boxes:../labels/{stem}.txt,box_labels.npy=yolo.labels:../labels/{stem}.txt"
        );
        assert_eq!(Component::of_list(&Component::list(&boxes)).unwrap(), boxes);
        assert_eq!(boxes[0].stored().to_string(), "boxes.npy:<f4[?x4]");
        assert_eq!(Component::files("x=yolo-seg.labels:*.txt").unwrap().stored().to_string(), "x.npy:<i8[?]");
        assert_eq!(Component::with("x=*.txt").unwrap(), [of("x=*.txt")]);
        assert_eq!(
            Component::list(&Component::with("gt_boxes=yolo:*.txt").unwrap()),
            "gt_boxes.npy=yolo.boxes:*.txt,gt_box_labels.npy=yolo.labels:*.txt"
        );
        for (text, list) in [
            ("boxes=coco", "boxes.npy=coco.boxes,box_labels.npy=coco.labels"),
            (
                "boxes=coco:_annotations.coco.json",
                "boxes.npy=coco.boxes:_annotations.coco.json,box_labels.npy=coco.labels:_annotations.coco.json",
            ),
            ("boxes=voc:*.xml", "boxes.npy=voc.boxes:*.xml,box_labels.npy=voc.labels:*.xml"),
        ] {
            let both = Component::with(text).unwrap();
            assert_eq!(Component::list(&both), list);
            assert_eq!(Component::of_list(list).unwrap(), both);
            assert!(both.iter().all(|one| one.is_of_list() == (text == "boxes=coco") && !one.is_text()));
        }
        let shared = &Component::with("boxes=coco:_annotations.coco.json").unwrap()[0];
        assert_eq!(shared.path_of(b"train", b"1.jpg").unwrap(), b"train/_annotations.coco.json");
        assert!(shared.takes(b"train", b"_annotations.coco.json") && !shared.takes(b"train", b"1.jpg"));
        for wrong in [
            "boxes=yolo:y.txt",
            "=yolo:*.txt",
            "gt=yolo:*.txt",
            "boxes=YOLO:*.txt",
            "boxes=darknet:../labels/*.txt",
            "boxes=yolo",
            "boxes=voc",
            "gt=coco",
        ] {
            assert!(Component::with(wrong).is_err(), "{wrong}");
        }
        let long = "a".repeat(32);
        let all = [Component::text(), of("txt"), of("mask=*_mask.png"), value(&long, "bytes"), value("x", "<f4[]")];
        assert_eq!(Component::of_list(&Component::list(&all)).unwrap(), all);
        assert!(
            ["json,json", "txt", "x:no", "X.npy:int", "a b.json:int"]
                .iter()
                .all(|list| Component::of_list(list).is_err())
        );
    }
}

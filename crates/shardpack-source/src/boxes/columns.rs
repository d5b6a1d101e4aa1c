//! The columns of a CSV of boxes, by their names, and their values in a row.

use std::io::BufRead;

use super::{described::Extent, images::name_of};
use crate::{list::records::Records, names};

/// Names of columns in lower case without other characters than letters and digits, the likeliest first.
const NAMES: [&str; 17] = [
    "filename",
    "filepath",
    "imagepath",
    "imagename",
    "imagefile",
    "imagefilename",
    "imageid",
    "imageindex",
    "image",
    "imgpath",
    "path",
    "file",
    "img",
    "imgname",
    "imgid",
    "patientid",
    "frame",
];
const CLASSES: [&str; 17] = [
    "classname",
    "labelname",
    "categoryname",
    "class",
    "label",
    "category",
    "findinglabel",
    "classid",
    "labelid",
    "categoryid",
    "labels",
    "classlabel",
    "objectclass",
    "objectname",
    "species",
    "cls",
    "name",
];
/// Left, top, right and bottom edge.
const EDGES: [[&str; 4]; 7] = [
    ["xmin", "ymin", "xmax", "ymax"],
    ["x1", "y1", "x2", "y2"],
    ["x0", "y0", "x1", "y1"],
    ["xtl", "ytl", "xbr", "ybr"],
    ["bboxx1", "bboxy1", "bboxx2", "bboxy2"],
    ["roix1", "roiy1", "roix2", "roiy2"],
    ["left", "top", "right", "bottom"],
];
/// Left and top edge, width and height.
const SIZED: [[&str; 4]; 8] = [
    ["x", "y", "w", "h"],
    ["x", "y", "width", "height"],
    ["left", "top", "width", "height"],
    ["bboxx", "bboxy", "bboxw", "bboxh"],
    ["bboxx", "bboxy", "bboxwidth", "bboxheight"],
    ["bboxx", "y", "w", "h"],
    ["x1", "y1", "width", "height"],
    ["xmin", "ymin", "width", "height"],
];
/// Center, width and height.
const CENTERED: [[&str; 4]; 6] = [
    ["xcenter", "ycenter", "w", "h"],
    ["centerx", "centery", "w", "h"],
    ["cx", "cy", "w", "h"],
    ["xcenter", "ycenter", "width", "height"],
    ["centerx", "centery", "width", "height"],
    ["cx", "cy", "width", "height"],
];
/// `[left, top, width, height]`, as COCO has it.
const BOX: [&str; 3] = ["bbox", "boundingbox", "box"];
/// Width and height of the image.
const SIZES: [[&str; 2]; 3] = [["imagewidth", "imageheight"], ["imgwidth", "imgheight"], ["width", "height"]];
/// A column with a third point: the columns before have points of a polygon, and no corners.
const POLYGON: &str = "x3";
/// Columns of splits.
const SPLITS: [&str; 3] = ["split", "subset", "set"];
/// Texts of edges that are none.
const NOTHING: [&str; 7] = ["", "nan", "NaN", "NA", "N/A", "null", "None"];
/// Columns that are 1 if a box is around several objects.
const GROUPS: [&str; 2] = ["isgroupof", "iscrowd"];

/// The columns of the edges.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Edges {
    Corners([usize; 4]),
    Sized([usize; 4]),
    Centered([usize; 4]),
    Text(usize),
}

/// The columns that are read.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Columns {
    image: usize,
    pub class: Option<usize>,
    edges: Edges,
    size: Option<[usize; 2]>,
    pub group: Option<usize>,
    pub split: Option<usize>,
}

impl Columns {
    /// The columns of these names, above the row `first`; `None` without images or boxes.
    pub fn named(header: &[Vec<u8>], first: &[Vec<u8>]) -> Option<Self> {
        let plain = |name: &Vec<u8>| {
            let letters = name.iter().filter(|byte| byte.is_ascii_alphanumeric());
            letters.map(|byte| char::from(byte.to_ascii_lowercase())).collect::<String>()
        };
        let names: Vec<String> = header.iter().map(plain).collect();
        let one = |name: &&str| names.iter().position(|own| own == name);
        let four = |wanted: &[&str; 4]| -> Option<[usize; 4]> {
            let found: Option<Vec<usize>> = wanted.iter().map(one).collect();
            found?.try_into().ok()
        };
        let corners = || EDGES.iter().filter(|_| one(&POLYGON).is_none()).find_map(four).map(Edges::Corners);
        let sized = || SIZED.iter().find_map(four).map(Edges::Sized);
        let text = || BOX.iter().find_map(one).map(Edges::Text);
        let centered = || CENTERED.iter().find_map(four).map(Edges::Centered);
        let edges = corners().or_else(text).or_else(sized).or_else(centered)?;
        let is_free = |at: &usize| !matches!(edges, Edges::Sized(taken) | Edges::Centered(taken) if taken.contains(at));
        // An id may stand beside the name of the file.
        let images = || NAMES.iter().filter_map(one);
        let is_image = |at: &usize| first.get(*at).is_some_and(|field| names::is_image(field.trim_ascii()));
        let size = SIZES.iter().find_map(|[width, height]| Some([one(width)?, one(height)?]));
        Some(Self {
            image: images().find(is_image).or_else(|| images().next())?,
            class: CLASSES.iter().find_map(one),
            edges,
            size: size.filter(|size| size.iter().all(is_free)),
            group: GROUPS.iter().find_map(one),
            split: SPLITS.iter().find_map(one),
        })
    }

    /// The columns of keras-retinanet, or of SKU-110K, which adds width and height of the image; `None` if `first` is no such row.
    pub fn unnamed(first: &[Vec<u8>]) -> Option<Self> {
        let ([image, left, top, right, bottom, class], rest) = first.split_first_chunk()?;
        let is_number = |field: &Vec<u8>| field.is_empty() || number(field).is_some();
        let edges = [left, top, right, bottom];
        let is_row = edges.into_iter().chain(rest).all(is_number) && number(image).is_none();
        let has_class = edges.into_iter().all(Vec::is_empty) == class.is_empty();
        let size = match rest.len() {
            0 => None,
            2 => Some([6, 7]),
            _ => return None,
        };
        let edges = Edges::Corners([1, 2, 3, 4]);
        (is_row && has_class).then_some(Self { image: 0, class: Some(5), edges, size, group: None, split: None })
    }

    /// The name of the image in a row.
    pub fn image_name(&self, records: &Records<impl BufRead>) -> String {
        name_of(String::from_utf8_lossy(records.field(self.image)).trim())
    }

    /// Left, top, right and bottom edge in a row; `None` for a row without.
    pub fn edges(&self, records: &Records<impl BufRead>) -> Result<Option<[f64; 4]>, String> {
        let four = |columns: [usize; 4]| columns.map(|at| records.field(at).trim_ascii());
        let fields = match self.edges {
            Edges::Corners(columns) | Edges::Sized(columns) | Edges::Centered(columns) => four(columns),
            Edges::Text(column) => {
                let text = records.field(column).trim_ascii();
                let inner = text.strip_prefix(b"[").and_then(|text| text.strip_suffix(b"]")).unwrap_or(text);
                let parts: Vec<&[u8]> = inner.split(|byte| *byte == b',').map(<[u8]>::trim_ascii).collect();
                match (is_nothing(inner), parts.try_into()) {
                    (true, _) => return Ok(None),
                    (false, Ok(four)) => four,
                    (false, Err(_)) => return Err(format!("a box {:?}", String::from_utf8_lossy(text))),
                }
            }
        };
        if fields.into_iter().all(is_nothing) {
            return Ok(None);
        }
        let mut edges = [0.0; 4];
        for (edge, field) in edges.iter_mut().zip(fields) {
            let what = || format!("an edge {:?}, which is no number", String::from_utf8_lossy(field));
            *edge = number(field).ok_or_else(what)?;
        }
        let [left, top, right, bottom] = edges;
        Ok(Some(match self.edges {
            Edges::Corners(_) => edges,
            Edges::Sized(_) | Edges::Text(_) => [left, top, left + right, top + bottom],
            Edges::Centered(_) => {
                let [half_width, half_height] = [right / 2.0, bottom / 2.0];
                [left - half_width, top - half_height, left + half_width, top + half_height]
            }
        }))
    }

    /// The size of the image in a row.
    pub fn extent(&self, records: &Records<impl BufRead>) -> Extent {
        let Some([width, height]) = self.size.map(|size| size.map(|at| number(records.field(at)))) else {
            return Extent::Unknown;
        };
        let whole =
            |length: Option<f64>| length.filter(|length| *length <= f64::from(u32::MAX) && length.fract() == 0.0);
        Extent::of(whole(width).map(|length| length as u32), whole(height).map(|length| length as u32))
    }
}

fn is_nothing(field: &[u8]) -> bool {
    NOTHING.iter().any(|text| text.as_bytes() == field.trim_ascii())
}

fn number(field: &[u8]) -> Option<f64> {
    str::from_utf8(field.trim_ascii()).ok()?.parse().ok()
}

/// Whether a field is true: `1`, `true` or `yes`.
pub(super) fn is_yes(field: &[u8]) -> bool {
    let field = field.trim_ascii();
    field.eq_ignore_ascii_case(b"true") || field.eq_ignore_ascii_case(b"yes") || number(field) == Some(1.0)
}

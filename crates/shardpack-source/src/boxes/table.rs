//! CSV of boxes, one in each row, in pixels of the image as displayed or in fractions of it: of Roboflow (`filename,width,height,class,xmin,…`),
//! Open Images (`ImageID,…,LabelName,…,XMin,XMax,YMin,YMax`), keras-retinanet (`path,x1,y1,x2,y2,class`, without header), and competitions of
//! Kaggle (`image_id,width,height,bbox`).
//!
//! Columns are recognised by name. A row without edges names an image without objects. Classes are those of all rows: by number if all are
//! numbers, else by name.

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    io::BufRead,
    sync::Arc,
};

use super::{
    described::{Class, Described, Extent},
    images::{Images, name_of},
};
use crate::list::records::{Records, delimiter};

/// Names of columns in lower case without other characters than letters and digits, the likeliest first.
const NAMES: [&str; 13] = [
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
];
const CLASSES: [&str; 11] = [
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
    "name",
];
/// Left, top, right and bottom edge.
const EDGES: [[&str; 4]; 4] = [
    ["xmin", "ymin", "xmax", "ymax"],
    ["x1", "y1", "x2", "y2"],
    ["roix1", "roiy1", "roix2", "roiy2"],
    ["left", "top", "right", "bottom"],
];
/// Left and top edge, width and height.
const SIZED: [[&str; 4]; 6] = [
    ["x", "y", "w", "h"],
    ["x", "y", "width", "height"],
    ["left", "top", "width", "height"],
    ["bboxx", "bboxy", "bboxw", "bboxh"],
    ["bboxx", "bboxy", "bboxwidth", "bboxheight"],
    ["bboxx", "y", "w", "h"],
];
/// `[left, top, width, height]`, as COCO has it.
const BOX: [&str; 3] = ["bbox", "boundingbox", "box"];
/// Width and height of the image.
const SIZES: [[&str; 2]; 3] = [["imagewidth", "imageheight"], ["imgwidth", "imgheight"], ["width", "height"]];
/// Columns that are 1 if a box is around several objects.
const GROUPS: [&str; 2] = ["isgroupof", "iscrowd"];
/// The class of boxes without a column of classes.
const ONLY_CLASS: &str = "object";
/// Distance from the image at which a fraction is still one.
const SLACK: f64 = 0.01;

/// The columns of the edges.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Edges {
    Corners([usize; 4]),
    Sized([usize; 4]),
    Text(usize),
}

/// The columns that are read.
#[derive(Debug, PartialEq, Eq)]
struct Columns {
    image: usize,
    class: Option<usize>,
    edges: Edges,
    size: Option<[usize; 2]>,
    group: Option<usize>,
}

impl Columns {
    /// The columns of these names; `None` without images or boxes.
    fn named(header: &[Vec<u8>]) -> Option<Self> {
        let plain = |name: &Vec<u8>| {
            let letters = name.iter().filter(|byte| byte.is_ascii_alphanumeric());
            letters.map(|byte| char::from(byte.to_ascii_lowercase())).collect::<String>()
        };
        let names: Vec<String> = header.iter().map(plain).collect();
        let one = |name: &&str| names.iter().position(|own| own == name);
        let four = |wanted: &[&str; 4]| -> Option<[usize; 4]> {
            let found: Option<Vec<usize>> = wanted.iter().map(|name| one(name)).collect();
            found?.try_into().ok()
        };
        let corners = || EDGES.iter().find_map(four).map(Edges::Corners);
        let sized = || SIZED.iter().find_map(four).map(Edges::Sized);
        let text = || BOX.iter().find_map(one).map(Edges::Text);
        let edges = corners().or_else(text).or_else(sized)?;
        let is_free = |at: &usize| !matches!(edges, Edges::Sized(taken) if taken.contains(at));
        let size = SIZES.iter().find_map(|[width, height]| Some([one(width)?, one(height)?]));
        Some(Self {
            image: NAMES.iter().find_map(one)?,
            class: CLASSES.iter().find_map(one),
            edges,
            size: size.filter(|size| size.iter().all(is_free)),
            group: GROUPS.iter().find_map(one),
        })
    }

    /// The columns of keras-retinanet, if `first` is a row of them.
    fn unnamed(first: &[Vec<u8>]) -> Option<Self> {
        let [image, edges @ .., class] = first else { return None };
        let is_number = |field: &Vec<u8>| field.is_empty() || number(field).is_some();
        let is_row = edges.len() == 4 && edges.iter().all(is_number) && number(image).is_none();
        let has_class = edges.iter().all(Vec::is_empty) == class.is_empty();
        (is_row && has_class).then_some(Self {
            image: 0,
            class: Some(5),
            edges: Edges::Corners([1, 2, 3, 4]),
            size: None,
            group: None,
        })
    }

    /// Left, top, right and bottom edge in a row; `None` for a row without.
    fn edges(&self, records: &Records<impl BufRead>) -> Result<Option<[f64; 4]>, String> {
        let four = |columns: [usize; 4]| columns.map(|at| records.field(at).trim_ascii());
        let (fields, is_sized) = match self.edges {
            Edges::Corners(columns) => (four(columns), false),
            Edges::Sized(columns) => (four(columns), true),
            Edges::Text(column) => {
                let text = records.field(column).trim_ascii();
                let inner = text.strip_prefix(b"[").and_then(|text| text.strip_suffix(b"]")).unwrap_or(text);
                let parts: Vec<&[u8]> = inner.split(|byte| *byte == b',').map(<[u8]>::trim_ascii).collect();
                match (inner.is_empty(), parts.try_into()) {
                    (true, _) => return Ok(None),
                    (false, Ok(four)) => (four, true),
                    (false, Err(_)) => return Err(format!("a box {:?}", String::from_utf8_lossy(text))),
                }
            }
        };
        if fields.iter().all(|field| field.is_empty()) {
            return Ok(None);
        }
        let mut edges = [0.0; 4];
        for (edge, field) in edges.iter_mut().zip(fields) {
            let what = || format!("an edge {:?}, which is no number", String::from_utf8_lossy(field));
            *edge = number(field).ok_or_else(what)?;
        }
        let [left, top, right, bottom] = edges;
        Ok(Some(if is_sized { [left, top, left + right, top + bottom] } else { edges }))
    }

    /// The size of the image in a row.
    fn extent(&self, records: &Records<impl BufRead>) -> Extent {
        let Some([width, height]) = self.size.map(|size| size.map(|at| number(records.field(at)))) else {
            return Extent::Unknown;
        };
        let whole =
            |length: Option<f64>| length.filter(|length| *length <= f64::from(u32::MAX) && length.fract() == 0.0);
        Extent::of(whole(width).map(|length| length as u32), whole(height).map(|length| length as u32))
    }
}

fn number(field: &[u8]) -> Option<f64> {
    str::from_utf8(field.trim_ascii()).ok()?.parse().ok()
}

/// A box with the numbers of its image and its class.
struct Row {
    line: u64,
    image: usize,
    class: usize,
    edges: [f64; 4],
}

/// What is read of a file.
#[derive(Default)]
struct Table {
    images: Vec<Result<Described, String>>,
    by_name: HashMap<String, usize>,
    classes: Vec<String>,
    by_class: HashMap<String, usize>,
    rows: Vec<Row>,
    remarks: BTreeMap<String, u64>,
}

impl Table {
    fn remark(&mut self, remark: &str) {
        *self.remarks.entry(remark.to_owned()).or_default() += 1;
    }

    /// Takes the row of `records` on `line`.
    fn take(&mut self, columns: &Columns, records: &Records<impl BufRead>, line: u64) {
        let name = name_of(String::from_utf8_lossy(records.field(columns.image)).trim());
        let extent = columns.extent(records);
        let image = *self.by_name.entry(name).or_insert(self.images.len());
        if image == self.images.len() {
            self.images.push(Ok(Described { extent, ..Described::default() }));
        }
        let Ok(known) = self.images[image].as_ref().map(|described| described.extent) else { return };
        let row = match columns.edges(records) {
            _ if known != extent => Err("another size of the image than in rows before".to_owned()),
            Ok(None) => return,
            Ok(Some(_)) if columns.group.is_some_and(|at| matches!(records.field(at), b"1" | b"true" | b"True")) => {
                return self.remark("boxes around several objects, left out");
            }
            Ok(Some(edges)) => self.class(columns, records).map(|class| Row { line, image, class, edges }),
            Err(why) => Err(why),
        };
        match row {
            Ok(row) => self.rows.push(row),
            Err(why) => self.images[image] = Err(in_line(line, &why)),
        }
    }

    /// The number of the class in a row.
    fn class(&mut self, columns: &Columns, records: &Records<impl BufRead>) -> Result<usize, String> {
        let name = match columns.class {
            None => {
                self.remark(&format!("boxes without a class, which have the class {ONLY_CLASS}"));
                ONLY_CLASS
            }
            Some(at) => str::from_utf8(records.field(at).trim_ascii()).map_err(|_| "a class that is not UTF-8")?,
        };
        if name.is_empty() {
            return Err("a box without a class".to_owned());
        }
        if let Some(known) = self.by_class.get(name) {
            return Ok(*known);
        }
        self.by_class.insert(name.to_owned(), self.classes.len());
        self.classes.push(name.to_owned());
        Ok(self.classes.len() - 1)
    }

    fn finish(mut self) -> Images {
        let ids: Option<Vec<i64>> = self.classes.iter().map(|name| name.parse().ok()).collect();
        let class =
            |(at, name): (usize, &String)| Arc::new(Class { id: ids.as_ref().map(|ids| ids[at]), name: name.clone() });
        let classes: Vec<Arc<Class>> = self.classes.iter().enumerate().map(class).collect();
        let all = || self.rows.iter().flat_map(|row| row.edges);
        // Whole numbers between 0 and 1 are pixels.
        if all().all(|edge| (-SLACK..=1.0 + SLACK).contains(&edge)) && all().any(|edge| edge.fract() != 0.0) {
            self.remarks.insert("boxes in fractions of the image".to_owned(), self.rows.len() as u64);
            self.images.iter_mut().flatten().for_each(|image| image.extent = Extent::Fractions);
        }
        for Row { line, image, class, edges } in self.rows {
            let image = &mut self.images[image];
            if let Ok(described) = image
                && let Err(why) = described.push(&classes[class], edges)
            {
                *image = Err(in_line(line, &why));
            }
        }
        Images::new(self.images, self.by_name, classes, self.remarks)
    }
}

fn in_line(line: u64, why: &str) -> String {
    format!("line {line}: {why}")
}

/// The columns of a file whose first record is at hand, and whether it is a header.
fn columns(records: &Records<impl BufRead>) -> Option<(Columns, bool)> {
    let first = records.fields();
    let named = Columns::named(&first).map(|columns| (columns, true));
    named.or_else(|| Columns::unnamed(&first).map(|columns| (columns, false)))
}

/// Opens a file, and reads its first record.
fn open(bytes: &[u8]) -> Result<(Records<&[u8]>, Option<u64>), String> {
    let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
    let mut records = Records::with_delimiter(bytes, delimiter(bytes));
    let line = records.next().map_err(|error| error.to_string())?;
    Ok((records, line))
}

/// Whether a file that begins so has boxes, and several rows of an image: of one row each, it is a list of images.
pub(in super::super) fn is_table(start: &[u8]) -> bool {
    let Ok((mut records, Some(_))) = open(start) else { return false };
    let (Some((columns, is_header)), count) = (columns(&records), records.count) else { return false };
    let mut seen = HashSet::new();
    if !is_header {
        seen.insert(records.field(columns.image).to_vec());
    }
    while records.next().is_ok_and(|line| line.is_some()) && records.count == count {
        if !seen.insert(records.field(columns.image).to_vec()) {
            return true;
        }
    }
    false
}

/// Parses a file.
///
/// # Errors
/// The reason, if it has no columns of images and boxes, or a row has another number of fields.
pub(super) fn parse(bytes: &[u8]) -> Result<Images, String> {
    let (mut records, first) = open(bytes)?;
    let mut line = Some(first.ok_or("is empty")?);
    let Some((columns, is_header)) = columns(&records) else {
        let names: Vec<String> =
            records.fields().iter().map(|name| String::from_utf8_lossy(name).into_owned()).collect();
        return Err(format!(
            "no columns of images and boxes (filename, xmin, ymin, xmax, ymax; or x, y, width, height; or bbox): it has {}",
            names.join(", ")
        ));
    };
    let count = records.count;
    if is_header {
        line = records.next().map_err(|error| error.to_string())?;
    }
    let mut table = Table::default();
    while let Some(number) = line {
        if records.count != count {
            return Err(in_line(number, &format!("{} fields, the first line has {count}", records.count)));
        }
        table.take(&columns, &records, number);
        line = records.next().map_err(|error| error.to_string())?;
    }
    Ok(table.finish())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The objects of the image that `sample` is, with the names of their classes.
    fn of(text: &str, sample: &str) -> Result<Vec<(String, [f64; 4])>, String> {
        let images = parse(text.as_bytes())?;
        let described = images.described(images.claim(sample).ok_or("no image")?)?;
        Ok(described.objects.into_iter().map(|(class, edges)| (class.name.clone(), edges)).collect())
    }

    #[test]
    fn columns_are_recognised_by_name() {
        let one = |class: &str, edges: [f64; 4]| Ok(vec![(class.to_owned(), edges)]);
        for (text, sample, expected) in [
            (
                "filename,width,height,class,xmin,ymin,xmax,ymax\na.jpg,40,30,dog,1,2,30,20.5\n",
                "train/a.jpg",
                one("dog", [1.0, 2.0, 30.0, 20.5]),
            ),
            (
                "ImageID,Source,LabelName,Confidence,XMin,XMax,YMin,YMax,IsOccluded,IsGroupOf\n\
                0a,xclick,/m/01,1,0.25,0.5,0.125,1,0,0\n0a,xclick,/m/02,1,0.1,0.2,0.3,0.4,0,1\n",
                "0a.jpg",
                one("/m/01", [0.25, 0.125, 0.5, 1.0]),
            ),
            (
                "image_id,width,height,bbox,source\nb1,1024,1024,\"[834.0, 222.0, 56.0, 36.0]\",usask_1\n",
                "b1.jpg",
                one(ONLY_CLASS, [834.0, 222.0, 890.0, 258.0]),
            ),
            ("x/a.jpg,1,2,3,4,cat\nb.jpg,,,,,\n", "a.jpg", one("cat", [1.0, 2.0, 3.0, 4.0])),
            ("x/a.jpg,1,2,3,4,cat\nb.jpg,,,,,\n", "b.jpg", Ok(vec![])),
            (
                "Image Index,Finding Label,Bbox [x,y,w,h],,,\n1.png,Mass,1.5,2,3,4,,,\n",
                "1.png",
                one("Mass", [1.5, 2.0, 4.5, 6.0]),
            ),
            (
                "Filename;Width;Height;Roi.X1;Roi.Y1;Roi.X2;Roi.Y2;ClassId\n1.ppm;29;30;5;6;24;25;0\n",
                "1.ppm",
                one("0", [5.0, 6.0, 24.0, 25.0]),
            ),
            ("image,x,y,width,height,label\n1.jpg,0,0,1,1,a\n", "1.jpg", one("a", [0.0, 0.0, 1.0, 1.0])),
            (
                "image,xmin,ymin,xmax,ymax,label\n1.jpg,0,0,1,,a\n2.jpg,0,0,1,1,a\n",
                "1.jpg",
                Err("line 2: an edge \"\", which is no number"),
            ),
            ("image,xmin,ymin,xmax,ymax,label\n1.jpg,5,0,1,1,a\n", "1.jpg", Err("line 2: a box of negative size")),
            ("image,xmin,ymin,xmax,ymax,label\n1.jpg,5,0,9,1,\n", "1.jpg", Err("line 2: a box without a class")),
            ("image,bbox,label\n1.jpg,\"[1, 2]\",a\n", "1.jpg", Err("line 2: a box \"[1, 2]\"")),
            (
                "image,width,height,xmin,ymin,xmax,ymax,label\n1.jpg,9,9,0,0,1,1,a\n1.jpg,8,9,0,0,1,1,a\n",
                "1.jpg",
                Err("line 3: another size of the image than in rows before"),
            ),
        ] {
            let found = of(text, sample);
            match (&found, &expected) {
                (Err(why), Err(expected)) => assert_eq!(why, expected, "{text}"),
                _ => assert_eq!(found.as_ref().ok(), expected.as_ref().ok(), "{text}: {found:?}"),
            }
        }
    }

    #[test]
    fn what_a_user_may_not_expect_is_counted() {
        let text = "ImageID,XMin,YMin,XMax,YMax,IsGroupOf\na,0.5,0,1,1,0\na,0,0,1,0.5,1\n";
        let images = parse(text.as_bytes()).unwrap();
        let remarks: Vec<(&str, u64)> =
            images.remarks.iter().map(|(remark, count)| (remark.as_str(), *count)).collect();
        assert_eq!(
            remarks,
            [
                ("boxes around several objects, left out", 1),
                ("boxes in fractions of the image", 1),
                ("boxes without a class, which have the class object", 1),
            ]
        );
        assert_eq!(images.extent(0), Extent::Fractions);
    }

    #[test]
    fn classes_are_ordered_by_number_if_all_are_numbers() {
        let text = |classes: [&str; 3]| {
            let rows = classes.map(|class| format!("a.jpg,1,2,3,4,{class}\n"));
            let images = parse(rows.concat().as_bytes()).unwrap();
            images.classes.iter().map(|class| class.id).collect::<Vec<_>>()
        };
        assert_eq!(text(["10", "9", "10"]), [Some(10), Some(9)]);
        assert_eq!(text(["10", "x", "10"]), [None, None]);
    }

    #[test]
    fn other_tables_are_no_boxes() {
        for (text, is) in [
            ("filename,label\na.jpg,1\n", false),
            ("filename,xmin,ymin,xmax,ymax\n", false),
            ("filename,xmin,ymin,xmax,ymax\na.jpg,1,2,3,4\n", false),
            ("filename,xmin,ymin,xmax,ymax\na.jpg,1,2,3,4\na.jpg,1,2,3,5\n", true),
            ("a.jpg,1,2,3,4,cat\n", false),
            ("a.jpg,1,2,3,4,cat\nb.jpg,1,2,3,4,cat\na.jpg,1,2,3,4,dog\n", true),
            ("1,2,3,4,5,6\n", false),
            ("x,y,width,height\n1,2,3,4\n", false),
            ("", false),
        ] {
            assert_eq!(is_table(text.as_bytes()), is, "{text}");
        }
        assert!(parse(b"filename,label\na.jpg,1\n").unwrap_err().ends_with("it has filename, label"));
        assert!(parse(b"").is_err());
        let short = parse(b"filename,xmin,ymin,xmax,ymax\na.jpg,1,2,3\n").unwrap_err();
        assert_eq!(short, "line 2: 4 fields, the first line has 5");
    }
}

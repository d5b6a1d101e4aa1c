//! CSV of boxes, one in each row, in pixels or fractions of the image as displayed: of Roboflow (`filename,width,height,class,xmin,…`),
//! Open Images (`ImageID,…,LabelName,…,XMin,XMax,YMin,YMax`), keras-retinanet (`path,x1,y1,x2,y2,class`, without header), and competitions of
//! Kaggle (`image_id,width,height,bbox`).
//!
//! Columns are recognised by name. A row without edges names an image without objects. Boxes are in fractions of the image if most are within
//! 0 and 1. In a file of fractions, a box outside 0 and 1 makes its image bad, and in one of pixels, a box of fractions.

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    io::BufRead,
    sync::Arc,
};

use shardpack_format::size;

use super::{
    columns::{Columns, is_yes},
    described::{Class, Described, Extent, ONLY_CLASS, without_class},
    images::Images,
    without_mark,
};
use crate::{
    layout::Likeness,
    list::records::{Records, delimiter},
};

/// Distance from the image at which a fraction is still one.
const SLACK: f64 = 0.01;

/// A box with the numbers of its image and its class.
struct Row {
    line: u64,
    image: usize,
    class: usize,
    edges: [f64; 4],
}

/// The images, classes and boxes of a file.
#[derive(Default)]
struct Table {
    images: Vec<Result<Described, String>>,
    /// The split of each image, if there is a column.
    splits: Vec<Box<[u8]>>,
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
    ///
    /// # Errors
    /// If it has no image.
    fn take(&mut self, columns: &Columns, records: &Records<impl BufRead>, line: u64) -> Result<(), String> {
        let name = columns.image_name(records);
        if name.is_empty() {
            return Err(in_line(line, "no name of an image"));
        }
        let extent = columns.extent(records);
        let split = columns.split.map_or(&[][..], |at| records.field(at));
        let image = *self.by_name.entry(name).or_insert(self.images.len());
        if image == self.images.len() {
            self.images.push(Ok(Described { extent, ..Described::default() }));
            self.splits.push(split.into());
        }
        if let Err(why) = self.add(columns, records, (line, image, extent)) {
            self.images[image] = Err(in_line(line, &why));
        } else if are_other_splits(&self.splits[image], split) {
            self.images[image] = Err(in_line(line, "another split than in rows before of an image of this name"));
        }
        Ok(())
    }

    /// Adds the box in a row of an image.
    ///
    /// # Errors
    /// The reason, if the row is wrong.
    fn add(
        &mut self,
        columns: &Columns,
        records: &Records<impl BufRead>,
        (line, image, extent): (u64, usize, Extent),
    ) -> Result<(), String> {
        let Ok(described) = &mut self.images[image] else { return Ok(()) };
        match (described.extent, extent) {
            (Extent::Unknown, _) => described.extent = extent,
            (_, Extent::Unknown) => {}
            (known, _) if known != extent => return Err("another size of the image than in rows before".to_owned()),
            _ => {}
        }
        let Some(edges) = columns.edges(records)? else { return Ok(()) };
        if columns.group.is_some_and(|at| is_yes(records.field(at))) {
            self.remark("boxes around several objects, left out");
            return Ok(());
        }
        let class = self.class(columns, records)?;
        self.rows.push(Row { line, image, class, edges });
        Ok(())
    }

    /// The number of the class in a row.
    fn class(&mut self, columns: &Columns, records: &Records<impl BufRead>) -> Result<usize, String> {
        let name = match columns.class {
            None => {
                self.remark(&without_class());
                ONLY_CLASS
            }
            Some(at) => str::from_utf8(records.field(at).trim_ascii()).map_err(|_| "a class that is not UTF-8")?,
        };
        // As pandas writes numbers if some are missing.
        let whole = name.strip_suffix(".0").filter(|whole| whole.parse::<i64>().is_ok());
        let name = whole.unwrap_or(name);
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
        let class = |name: &String| Arc::new(Class { id: None, name: name.clone() });
        let classes: Vec<Arc<Class>> = self.classes.iter().map(class).collect();
        // Empty boxes may be those of images without objects.
        let boxes =
            self.rows.iter().map(|row| row.edges).filter(|[left, top, right, bottom]| right > left && bottom > top);
        let is_fraction = |edges: &[f64; 4]| edges.iter().all(|edge| (-SLACK..=1.0 + SLACK).contains(edge));
        let (all, within) =
            boxes.fold((0, 0), |(all, within), edges| (all + 1, within + u64::from(is_fraction(&edges))));
        let are_fractions = within * 2 > all;
        if are_fractions {
            self.remarks.insert("boxes in fractions of the image".to_owned(), self.rows.len() as u64);
            self.images.iter_mut().flatten().for_each(|image| image.extent = Extent::Fractions);
        }
        for Row { line, image, class, edges } in self.rows {
            let image = &mut self.images[image];
            let Ok(described) = image else { continue };
            let [left, top, right, bottom] = edges;
            let is_odd = !are_fractions
                && right > left
                && bottom > top
                && is_fraction(&edges)
                && edges.iter().any(|edge| edge.fract() != 0.0);
            let pushed = match is_odd {
                true => Err("a box in fractions, and most are in pixels".to_owned()),
                false => described.push(&classes[class], edges),
            };
            if let Err(why) = pushed {
                *image = Err(in_line(line, &why));
            }
        }
        Images::new(self.images, self.by_name, classes, self.remarks)
    }
}

/// Whether two values of a column of splits are two splits; other columns may have its name.
fn are_other_splits(one: &[u8], other: &[u8]) -> bool {
    one != other && [one, other].into_iter().all(|name| Likeness::classify(name).is_sure())
}

fn in_line(line: u64, why: &str) -> String {
    format!("line {line}: {why}")
}

/// A file at its first row.
struct Opened<'b> {
    records: Records<&'b [u8]>,
    /// Line of the first row; `None` if there is none.
    line: Option<u64>,
    columns: Columns,
    /// Fields of each row.
    count: usize,
}

impl<'b> Opened<'b> {
    /// Opens a file and finds its columns.
    ///
    /// # Errors
    /// The reason, if it has no columns of images and boxes.
    fn new(bytes: &'b [u8]) -> Result<Self, String> {
        let bytes = without_mark(bytes);
        let mut records = Records::with_delimiter(bytes, delimiter(bytes));
        let first_line = records.next().map_err(|error| error.to_string())?.ok_or("is empty")?;
        let first = records.fields();
        if let Some(columns) = Columns::unnamed(&first) {
            let count = records.count;
            return Ok(Self { records, line: Some(first_line), columns, count });
        }
        let line = records.next().map_err(|error| error.to_string())?;
        let second = if line.is_some() { records.fields() } else { Vec::new() };
        let columns = Columns::named(&first, &second).ok_or_else(|| {
            let names: Vec<String> = first.iter().map(|name| String::from_utf8_lossy(name).into_owned()).collect();
            format!(
                "no columns of images and boxes (filename, xmin, ymin, xmax, ymax; or x, y, width, height; or bbox): it has {}",
                names.join(", ")
            )
        })?;
        Ok(Self { records, line, columns, count: first.len() })
    }

    /// Calls `take` with each row and its line. Rows of blanks are left out.
    ///
    /// # Errors
    /// That of `take`; the reason, if a row has another number of fields.
    fn each(
        mut self,
        mut take: impl FnMut(&Columns, &Records<&[u8]>, u64) -> Result<(), String>,
    ) -> Result<(), String> {
        while let Some(line) = self.line {
            let is_blank = (0..self.records.count).all(|at| self.records.field(at).trim_ascii().is_empty());
            if !is_blank && self.records.count != self.count {
                let fields = size::counted(self.records.count as u64, "field");
                return Err(in_line(line, &format!("{fields}, the first line has {}", self.count)));
            }
            if !is_blank {
                take(&self.columns, &self.records, line)?;
            }
            self.line = self.records.next().map_err(|error| error.to_string())?;
        }
        Ok(())
    }
}

/// The images in the rows of a file that begins so; `None` if it is no table of boxes. The start may cut the last row.
pub(in super::super) fn images_of_table(start: &[u8]) -> Option<Vec<String>> {
    let mut images = Vec::new();
    // An error ends the rows.
    let _ = Opened::new(start).ok()?.each(|columns, records, _| {
        images.push(columns.image_name(records));
        Ok(())
    });
    Some(images)
}

/// Whether a file that begins so has boxes, and several rows for an image. A file with one row for each image is a list of images.
pub(in super::super) fn is_table(start: &[u8]) -> bool {
    images_of_table(start).is_some_and(|images| has_repeated(&images))
}

/// Whether a name stands twice.
pub(in super::super) fn has_repeated(names: &[String]) -> bool {
    let mut seen = HashSet::new();
    !names.iter().all(|name| seen.insert(name))
}

/// Parses a file.
///
/// # Errors
/// The reason, if it has no columns of images and boxes, or a row has another number of fields or no image.
pub(super) fn parse(bytes: &[u8]) -> Result<Images, String> {
    let mut table = Table::default();
    Opened::new(bytes)?.each(|columns, records, line| table.take(columns, records, line))?;
    Ok(table.finish())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The objects of the image that `sample` is, with the names of their classes.
    fn of(text: &str, sample: &str) -> Result<Vec<(String, [f64; 4])>, String> {
        let images = parse(text.as_bytes())?;
        let described = images.described(images.claim("", sample).ok_or("no image")?)?;
        Ok(described.objects.into_iter().map(|(class, edges)| (class.name.clone(), edges)).collect())
    }

    #[test]
    fn columns_are_recognised_by_name() {
        let one = |class: &str, edges: [f64; 4]| Ok(vec![(class.to_owned(), edges)]);
        for (text, sample, expected) in [
            ("frame,xmin,xmax,ymin,ymax,class_id\na.jpg,1,30,2,20.5,3\n", "a.jpg", one("3", [1.0, 2.0, 30.0, 20.5])),
            ("image,x0,y0,x1,y1,label\na.jpg,1,2,30,20.5,dog\n", "a.jpg", one("dog", [1.0, 2.0, 30.0, 20.5])),
            (
                "image,bbox_x1,bbox_y1,bbox_x2,bbox_y2,label\na.jpg,1,2,30,20.5,dog\n",
                "a.jpg",
                one("dog", [1.0, 2.0, 30.0, 20.5]),
            ),
            (
                "image,width,height,x_center,y_center,w,h,label\na.jpg,40,30,10,20,4,6,dog\n",
                "a.jpg",
                one("dog", [8.0, 17.0, 12.0, 23.0]),
            ),
            (
                "image,x_center,y_center,width,height,label\na.jpg,10,20,4,6,dog\n",
                "a.jpg",
                one("dog", [8.0, 17.0, 12.0, 23.0]),
            ),
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
            ("image,x,y,width,height,label\n1.jpg,0,0,2,1,a\n", "1.jpg", one("a", [0.0, 0.0, 2.0, 1.0])),
            (
                "image_id,path,x_1,y_1,width,height,cls\n17,i/a.jpg,2,3,4,5,1.0\n",
                "a.jpg",
                one("1", [2.0, 3.0, 6.0, 8.0]),
            ),
            ("a.jpg,1,2,3,4,object,9,9\n", "a.jpg", one("object", [1.0, 2.0, 3.0, 4.0])),
            ("image,xmin,ymin,xmax,ymax\n1.jpg,nan,nan,nan,nan\n , ,,,\n", "1.jpg", Ok(vec![])),
            ("image,xmin,ymin,xmax,ymax,label,IsGroupOf\n1.jpg,1,2,3,4,a,TRUE\n", "1.jpg", Ok(vec![])),
            (
                "image,xmin,ymin,xmax,ymax,label\n1.jpg,.1,.2,.3,.4,a\n2.jpg,.1,.2,.3,.4,a\n1.jpg,.1,.2,1.3,.4,a\n",
                "1.jpg",
                Err("line 4: a box from 0.1,0.2 to 1.3,0.4 leaves the image, whose width and height are 1"),
            ),
            (
                "image,xmin,ymin,xmax,ymax,label\n1.jpg,1,2,3,4,a\n2.jpg,1,2,3,4,a\n1.jpg,.1,.2,.3,.4,a\n",
                "1.jpg",
                Err("line 4: a box in fractions, and most are in pixels"),
            ),
            (
                "image,set,xmin,ymin,xmax,ymax,label\n1.jpg,x,1,2,3,4,a\n1.jpg,y,,,,,\n",
                "1.jpg",
                one("a", [1.0, 2.0, 3.0, 4.0]),
            ),
            (
                "image,split,xmin,ymin,xmax,ymax,label\n1.jpg,train,1,2,3,4,a\n1.jpg,val,1,2,3,4,a\n",
                "1.jpg",
                Err("line 3: another split than in rows before of an image of this name"),
            ),
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
        assert_eq!(images.extent(0), Some(Extent::Fractions));
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
        let polygon = "image,x1,y1,x2,y2,x3,y3,x4,y4\n1.jpg,1,2,3,4,5,6,7,8\n";
        assert!(parse(polygon.as_bytes()).is_err());
        let nameless = parse(b"image,xmin,ymin,xmax,ymax\n,1,2,3,4\n").unwrap_err();
        assert_eq!(nameless, "line 2: no name of an image");
    }
}

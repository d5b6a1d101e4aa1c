//! Pascal VOC: XML with one `object` for each object, in pixels of the image as displayed.
//!
//! Pixels count from 1, and `xmax` and `ymax` are the last pixels of the box. So the left edge is `xmin - 1`, and the right edge is `xmax`, as
//! Detectron2 reads them. Many tools count from 0; a 0 is taken as 1. Objects marked `difficult` are objects; a remark counts them.
//!
//! Specification: the VOC2012 development kit, "Annotation" (<http://host.robots.ox.ac.uk/pascal/VOC/voc2012/>).

use std::sync::Arc;

use super::{
    described::{Class, Described, Extent},
    xml::{self, Attributes, Visit},
};

/// Remark on objects that are hard to recognise.
const DIFFICULT: &str = "objects marked difficult, packed as the others";

/// What is known of an object so far.
#[derive(Default)]
struct Found {
    name: String,
    is_difficult: bool,
    has_box: bool,
    /// `xmin`, `ymin`, `xmax`, `ymax`.
    edges: [Option<f64>; 4],
}

/// Members of `bndbox`, in the order of the edges.
const EDGES: [&str; 4] = ["xmin", "ymin", "xmax", "ymax"];

/// Parses a file.
///
/// # Errors
/// The reason, with the number of the object.
pub(super) fn parse(bytes: &[u8]) -> Result<Described, String> {
    let mut file = File::default();
    xml::read(bytes, "annotation", &mut file)?;
    file.finish()
}

/// The members of a file that decide its objects.
#[derive(Default)]
struct File {
    size: [Option<u32>; 2],
    objects: Vec<Found>,
}

impl Visit for File {
    fn start(&mut self, path: &[&str], _: &Attributes<'_>) -> Result<(), String> {
        match *path {
            ["annotation", "object"] => self.objects.push(Found::default()),
            ["annotation", "object", "bndbox"] | ["annotation", "object", "part", "bndbox"] => {}
            [.., last] if last.eq_ignore_ascii_case("object") || last.eq_ignore_ascii_case("bndbox") => {
                return Err(format!("{} is no place for objects", path.join("/")));
            }
            _ => {}
        }
        Ok(())
    }

    // Parts of objects have names and boxes too, which are none of objects.
    fn end(&mut self, path: &[&str], text: &str) -> Result<(), String> {
        let number = self.objects.len();
        let object = self.objects.last_mut();
        match (path, object) {
            (["annotation", "size", axis @ ("width" | "height")], _) => {
                let at = usize::from(*axis == "height");
                let size = text.parse::<f64>().ok().filter(|size| *size >= 0.0 && size.fract() == 0.0);
                let size = size.filter(|size| *size <= f64::from(u32::MAX));
                // Checked for its range.
                self.size[at] = Some(size.ok_or_else(|| format!("{axis} is {text:?}"))? as u32);
            }
            (["annotation", "object", "name"], Some(object)) if object.name.is_empty() => {
                text.clone_into(&mut object.name);
            }
            (["annotation", "object", "name"], Some(_)) => return Err(format!("object {number}: two names")),
            (["annotation", "object", "difficult"], Some(object)) => {
                object.is_difficult = text == "1" || text.eq_ignore_ascii_case("true");
            }
            (["annotation", "object", "bndbox"], Some(object)) => {
                if object.has_box {
                    return Err(format!("object {number}: two boxes"));
                }
                object.has_box = true;
            }
            (["annotation", "object", "bndbox", edge], Some(object)) => {
                let Some(at) = EDGES.iter().position(|known| known == edge) else { return Ok(()) };
                let value = text.parse().map_err(|_| format!("object {number}: {edge} is {text:?}"))?;
                if object.edges[at].replace(value).is_some() {
                    return Err(format!("object {number}: {edge} is there twice"));
                }
            }
            _ => {}
        }
        Ok(())
    }
}

impl File {
    fn finish(self) -> Result<Described, String> {
        let [width, height] = self.size;
        let mut described = Described { extent: Extent::of(width, height), ..Described::default() };
        for (object, number) in self.objects.into_iter().zip(1..) {
            let wrong = |why: String| format!("object {number}: {why}");
            if object.name.is_empty() {
                return Err(wrong("has no name".to_owned()));
            }
            let [Some(left), Some(top), Some(right), Some(bottom)] = object.edges else {
                return Err(wrong("has no bndbox with xmin, ymin, xmax and ymax".to_owned()));
            };
            if right < left || bottom < top {
                return Err(wrong("a box of negative size".to_owned()));
            }
            let first = |edge: f64| if (0.0..1.0).contains(&edge) { 0.0 } else { edge - 1.0 };
            if object.is_difficult {
                described.remark(DIFFICULT);
            }
            let class = Arc::new(Class { id: None, name: object.name });
            described.push(&class, [first(left), first(top), right, bottom]).map_err(wrong)?;
        }
        Ok(described)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A file with these elements.
    fn of(inside: &str) -> Result<Described, String> {
        parse(format!("\u{feff}<?xml version=\"1.0\"?>\n<annotation>{inside}</annotation>\n").as_bytes())
    }

    fn object(name: &str, edges: [&str; 4], more: &str) -> String {
        let edges: String = EDGES.iter().zip(edges).map(|(edge, value)| format!("<{edge}>{value}</{edge}>")).collect();
        format!("<object><name>{name}</name><bndbox>{edges}</bndbox>{more}</object>")
    }

    #[test]
    fn objects_are_read_with_names_and_edges() {
        let part = "<part><name>head</name><bndbox><xmin>9</xmin></bndbox></part><difficult>1</difficult>";
        let size = "<size><width>200</width><height>100</height><depth>3</depth></size>";
        let first = object("traffic &amp; <![CDATA[<light>]]>&#33;", ["1", "1", "200", "100"], part);
        let second = object("\n cat ", ["0", "20.5", "30", "40"], "<difficult/>");
        let found = of(&format!("{size}{first}{second}")).unwrap();
        let objects: Vec<_> = found.objects.iter().map(|(class, edges)| (class.name.as_str(), *edges)).collect();
        assert_eq!(objects, [("traffic & <light>!", [0.0, 0.0, 200.0, 100.0]), ("cat", [0.0, 19.5, 30.0, 40.0])]);
        assert_eq!((found.extent, found.remarks[DIFFICULT]), (Extent::Pixels([200, 100]), 1));
        let none = of("<size><width>0</width><height>0</height></size>").unwrap();
        assert!(none.objects.is_empty() && none.extent == Extent::Unknown);
        assert!(of("").unwrap().objects.is_empty());
    }

    #[test]
    fn files_that_are_no_annotations_are_errors() {
        let boxed = |edges| object("a", edges, "");
        for (inside, why) in [
            (boxed(["1", "1", "x", "1"]), "object 1: xmax is \"x\""),
            (boxed(["9", "1", "8", "1"]), "object 1: a box of negative size"),
            (boxed(["1", "1", "nan", "1"]), "object 1: an edge that is no number"),
            ("<object><name>a</name></object>".to_owned(), "object 1: has no bndbox"),
            ("<object><bndbox></bndbox></object>".to_owned(), "object 1: has no name"),
            ("<object><name>a</name><name>b</name></object>".to_owned(), "object 1: two names"),
            ("<object><bndbox><xmin>1</xmin><xmin>1</xmin></bndbox></object>".to_owned(), "xmin is there twice"),
            (format!("<objects>{}</objects>", boxed(["1", "1", "2", "2"])), "annotation/objects/object is no place"),
            ("<object>".to_owned(), "is no XML"),
            ("&x;".to_owned(), "&x; is no entity"),
            ("<size><width>-3</width></size>".to_owned(), "width is \"-3\""),
            ("<a>".repeat(70), "more than 64 deep"),
            (
                format!("<size><width>9</width><height>9</height></size>{}", boxed(["1", "1", "20", "2"])),
                "object 1: a box from 0,0 to 20,2 leaves the image of 9x9",
            ),
        ] {
            let error = of(&inside).unwrap_err();
            assert!(error.contains(why), "{inside}: {error}");
        }
        for (bytes, why) in [
            (&b""[..], "has no annotation"),
            (b"\xff", "is not UTF-8"),
            (b"<?xml version=\"1.0\" encoding=\"GBK\"?><annotation></annotation>", "has the encoding GBK"),
            (b"<annotation></annotation><annotation></annotation>", "has two annotations"),
            (
                b"<annotation><Object><BndBox></BndBox></Object></annotation>",
                "annotation/Object is no place for objects",
            ),
            (b"text", "has no annotation"),
            (b"<html></html>", "has html at its top"),
            (b"<annotation><object>", "ends inside of annotation/object"),
        ] {
            let error = parse(bytes).unwrap_err();
            assert!(error.contains(why), "{error}");
        }
    }
}

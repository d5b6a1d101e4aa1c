//! VGG Image Annotator: JSON with an object of images, each with `filename` and `regions`, in pixels; or a project with such an object as
//! `_via_img_metadata`.
//!
//! Regions are a list, in version 1 an object. The class of a region is its only attribute, or, if the regions of the file have several,
//! the first of [`CLASSES`]; a remark names it. The box of a shape encloses it. Points and lines have no area and are no objects; a remark counts them.
//!
//! Specification: <https://www.robots.ox.ac.uk/~vgg/software/via/docs/>.

use std::{borrow::Cow, collections::BTreeSet};

use serde::Deserialize;
use serde_json::{Value, value::RawValue};

use super::{
    described::{Extent, ONLY_CLASS, around, around_ellipse, without_area, without_class},
    images::{Collected, Images, what},
    without_mark,
};
use crate::list::members::Members;

/// Names of the attribute with the class, if regions have several attributes.
const CLASSES: [&str; 6] = ["class", "label", "category", "type", "object", "name"];
/// The member of a project with the images.
const PROJECT: &str = "_via_img_metadata";

type AllMembers<'a> = Members<'a, { usize::MAX }>;

#[derive(Deserialize)]
struct Image<'a> {
    #[serde(borrow)]
    filename: Cow<'a, str>,
    #[serde(borrow)]
    regions: &'a RawValue,
}

#[derive(Deserialize)]
struct Region {
    shape_attributes: Shape,
    #[serde(default)]
    region_attributes: serde_json::Map<String, Value>,
}

#[derive(Deserialize)]
#[serde(tag = "name", rename_all = "lowercase")]
enum Shape {
    Rect {
        x: f64,
        y: f64,
        width: f64,
        height: f64,
    },
    Circle {
        cx: f64,
        cy: f64,
        r: f64,
    },
    Ellipse {
        cx: f64,
        cy: f64,
        rx: f64,
        ry: f64,
        /// Radians.
        #[serde(default)]
        theta: f64,
    },
    Polygon {
        all_points_x: Vec<f64>,
        all_points_y: Vec<f64>,
    },
    Polyline,
    Point,
}

impl Shape {
    /// Left, top, right and bottom edge.
    ///
    /// # Errors
    /// The kind of a shape without area; or the reason why the shape is wrong.
    fn edges(&self) -> Result<[f64; 4], NoBox> {
        let ellipse = |center, axes, degrees| around_ellipse(center, axes, degrees).map_err(NoBox::Wrong);
        Ok(match self {
            Self::Rect { x, y, width, height } => [*x, *y, x + width, y + height],
            Self::Circle { cx, cy, r } => ellipse([*cx, *cy], [*r, *r], 0.0)?,
            Self::Ellipse { cx, cy, rx, ry, theta } => ellipse([*cx, *cy], [*rx, *ry], theta.to_degrees())?,
            Self::Polygon { all_points_x, all_points_y } if all_points_x.len() != all_points_y.len() => {
                return Err(NoBox::Wrong("a polygon with another number of x than of y".to_owned()));
            }
            Self::Polygon { all_points_x, .. } if all_points_x.len() < 3 => {
                return Err(NoBox::Wrong(format!("a polygon of {} points, and it has at least 3", all_points_x.len())));
            }
            Self::Polygon { all_points_x, all_points_y } => {
                around(all_points_x.iter().zip(all_points_y).map(|(x, y)| [*x, *y]))
            }
            Self::Polyline => return Err(NoBox::Area("polyline")),
            Self::Point => return Err(NoBox::Area("point")),
        })
    }
}

/// Why a region has no box.
enum NoBox {
    /// A shape of this kind has no area.
    Area(&'static str),
    Wrong(String),
}

/// Parses a file.
///
/// # Errors
/// The reason, if it is not of the annotator, or no attribute is the class. A wrong region makes only its image wrong.
pub(super) fn parse(bytes: &[u8]) -> Result<Images, String> {
    let bytes = without_mark(bytes);
    let none = |what: String| format!("is no file of VGG Image Annotator: {what}");
    let top: AllMembers<'_> = serde_json::from_slice(bytes).map_err(|error| none(error.to_string()))?;
    let members = match top.0.iter().find(|(name, _)| name == PROJECT) {
        Some((_, inner)) => {
            serde_json::from_str(inner.get()).map_err(|error| none(format!("{PROJECT}: {}", what(&error))))?
        }
        None => top,
    };
    let mut read = Vec::with_capacity(members.0.len());
    for (key, image) in &members.0 {
        let image: Image<'_> =
            serde_json::from_str(image.get()).map_err(|error| none(format!("{key:?}: {}", what(&error))))?;
        read.push((image.filename, regions(image.regions)));
    }
    let class = attribute(&read)?;
    let mut images = Collected::default();
    if let Some((name, true)) = &class {
        let regions = read.iter().filter_map(|(_, regions)| Some(regions.as_ref().ok()?.len() as u64)).sum();
        images.remarks.insert(format!("regions whose attribute {name} is the class"), regions);
    }
    let class = class.as_ref().map(|(name, _)| name.as_str());
    for (name, regions) in read {
        images.begin(&name, Extent::Unknown)?;
        match regions {
            Ok(regions) => regions.iter().zip(1..).for_each(|one| add(&mut images, one, class)),
            Err(why) => images.wrong(why),
        }
    }
    Ok(images.images())
}

/// The regions of an image.
fn regions(text: &RawValue) -> Result<Vec<Region>, String> {
    let wrong = |error: serde_json::Error| format!("regions: {}", what(&error));
    match text.get().starts_with('{') {
        false => serde_json::from_str(text.get()).map_err(wrong),
        true => {
            let members: AllMembers<'_> = serde_json::from_str(text.get()).map_err(wrong)?;
            members.0.iter().map(|(_, region)| serde_json::from_str(region.get()).map_err(wrong)).collect()
        }
    }
}

/// The attribute with the class, and whether there are others; `None` if no region has an attribute.
fn attribute(images: &[(Cow<'_, str>, Result<Vec<Region>, String>)]) -> Result<Option<(String, bool)>, String> {
    let regions = images.iter().filter_map(|(_, regions)| regions.as_ref().ok()).flatten();
    let names: BTreeSet<&String> = regions.flat_map(|region| region.region_attributes.keys()).collect();
    let named = || CLASSES.iter().find_map(|class| names.iter().find(|name| name.eq_ignore_ascii_case(class)));
    match (names.first(), names.len()) {
        (only, 0 | 1) => Ok(only.map(|name| ((*name).clone(), false))),
        _ => named().map(|name| Some(((*name).clone(), true))).ok_or_else(|| {
            let names: Vec<&str> = names.iter().map(|name| name.as_str()).collect();
            format!("regions have the attributes {}, and none is called {}", names.join(", "), CLASSES.join(", "))
        }),
    }
}

/// Adds a region with its number to the last image.
fn add(images: &mut Collected, (region, number): (&Region, usize), attribute: Option<&str>) {
    let called = format!("region {number}");
    let edges = match region.shape_attributes.edges() {
        Ok(edges) => edges,
        Err(NoBox::Area(kind)) => return images.remark(&without_area(kind)),
        Err(NoBox::Wrong(why)) => return images.wrong(format!("{called}: {why}")),
    };
    let class = match attribute {
        None => {
            images.remark(&without_class());
            Ok(ONLY_CLASS.to_owned())
        }
        Some(attribute) => class(region.region_attributes.get(attribute))
            .ok_or_else(|| format!("{called}: its attribute {attribute} names no class")),
    };
    let is_round = matches!(region.shape_attributes, Shape::Circle { .. } | Shape::Ellipse { .. });
    match class {
        Ok(class) if is_round => images.shape(&called, &class, edges),
        Ok(class) => images.object(&called, &class, edges),
        Err(why) => images.wrong(why),
    }
}

/// The class that an attribute names: a text, a number, or the only checked box.
fn class(value: Option<&Value>) -> Option<String> {
    let name = match value? {
        Value::String(text) => text.trim().to_owned(),
        Value::Number(number) => number.to_string(),
        Value::Object(boxes) => {
            let mut checked = boxes.iter().filter(|(_, is_checked)| **is_checked == Value::Bool(true));
            let (name, _) = checked.next().filter(|_| checked.next().is_none())?;
            name.clone()
        }
        _ => return None,
    };
    (!name.is_empty()).then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    const OLD: &str = r#"{"a.jpg123": {"fileref": "", "size": 123, "filename": "a.jpg", "base64_img_data": "", "file_attributes": {},
        "regions": {"0": {"shape_attributes": {"name": "polygon", "all_points_x": [5, 1, 9], "all_points_y": [2, 8, 3.5]}, "region_attributes": {}}}},
        "b.jpg7": {"filename": "b.jpg", "size": 7, "regions": {}}}"#;

    fn region(shape: &str, attributes: &str) -> String {
        format!(r#"{{"shape_attributes": {{{shape}}}, "region_attributes": {{{attributes}}}}}"#)
    }

    fn image(regions: &[String]) -> String {
        format!(
            r#"{{"a.jpg9": {{"filename": "a.jpg", "size": 9, "regions": [{}], "file_attributes": {{}}}}}}"#,
            regions.join(",")
        )
    }

    fn of(images: &Images, path: &str) -> Result<Vec<(String, [f64; 4])>, String> {
        let described = images.described(images.claim("", path).unwrap())?;
        Ok(described.objects.iter().map(|(class, edges)| (class.name.clone(), *edges)).collect())
    }

    #[test]
    fn regions_are_objects() {
        let found = parse(OLD.as_bytes()).unwrap();
        assert_eq!(of(&found, "train/a.jpg").unwrap(), [("object".to_owned(), [1.0, 2.0, 9.0, 8.0])]);
        assert_eq!(of(&found, "b.jpg").unwrap(), []);
        let cat = r#""type": "cat", "occluded": {"a": true}"#;
        let regions = [
            region(r#""name": "rect", "x": 1, "y": 2, "width": 3, "height": 4"#, cat),
            region(r#""name": "circle", "cx": 10, "cy": 20, "r": 2.5"#, r#""type": " dog ""#),
            region(r#""name": "ellipse", "cx": 10, "cy": 20, "rx": 2, "ry": 1, "theta": 0"#, cat),
            region(
                r#""name": "ellipse", "cx": 10, "cy": 1, "rx": 2, "ry": 1, "theta": 1.5707963267948966"#,
                r#""type": 7"#,
            ),
            region(
                r#""name": "rect", "x": 1, "y": 2, "width": 3, "height": 4"#,
                r#""type": {"dog": true, "cat": false}"#,
            ),
            region(r#""name": "polyline", "all_points_x": [1], "all_points_y": [1]"#, ""),
            region(r#""name": "point", "cx": 1, "cy": 2"#, cat),
        ];
        let project = format!(r#"{{"_via_settings": {{}}, "_via_img_metadata": {}}}"#, image(&regions));
        for text in [image(&regions), project] {
            let found = parse(text.as_bytes()).unwrap();
            let named = |name: &str, edges| (name.to_owned(), edges);
            assert_eq!(
                of(&found, "a.jpg").unwrap(),
                [
                    named("cat", [1.0, 2.0, 4.0, 6.0]),
                    named("dog", [7.5, 17.5, 12.5, 22.5]),
                    named("cat", [8.0, 19.0, 12.0, 21.0]),
                    named("7", [9.0, 0.0, 11.0, 3.0]),
                    named("dog", [1.0, 2.0, 4.0, 6.0])
                ]
            );
        }
    }

    #[test]
    fn files_and_regions_that_are_wrong_are_errors() {
        let rect = r#""name": "rect", "x": 1, "y": 2, "width": 3, "height": 4"#;
        for (regions, why) in [
            (vec![region(rect, r#""a": "x""#), region(rect, "")], "region 2: its attribute a names no class"),
            (vec![region(rect, r#""a": """#)], "region 1: its attribute a names no class"),
            (vec![region(rect, r#""a": {"x": true, "y": true}"#)], "region 1: its attribute a names no class"),
            (vec![region(r#""name": "circle", "cx": 1, "cy": 2, "r": -1"#, "")], "region 1: a negative radius"),
            (vec![region(r#""name": "polygon", "all_points_x": [1], "all_points_y": []"#, "")], "another number of x"),
            (vec![region(r#""name": "cube""#, "")], "regions: unknown variant `cube`"),
            (vec![region(r#""name": "rect", "x": 1"#, "")], "regions: missing field `y`"),
        ] {
            let error = of(&parse(image(&regions).as_bytes()).unwrap(), "a.jpg").unwrap_err();
            assert!(error.contains(why), "{error}");
        }
        let several = image(&[region(rect, r#""a": "x", "b": "y""#)]);
        let error = parse(several.as_bytes()).map(|_| ()).unwrap_err();
        assert!(error.starts_with("regions have the attributes a, b, and none is called class, label"), "{error}");
        for text in ["", "[]", "{\"a\": 3}", "{\"_via_img_metadata\": 3}", "{\"a\": {\"filename\": \"a\"}}"] {
            let error = parse(text.as_bytes()).map(|_| ()).unwrap_err();
            assert!(error.starts_with("is no file of VGG Image Annotator"), "{error}");
        }
    }
}

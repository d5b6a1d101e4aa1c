//! LabelMe: JSON with `shapes`, in pixels of the image as displayed.
//!
//! The box of a shape encloses its points, that of a circle encloses the circle. Shapes of one label and `group_id` are one object, as in
//! LabelMe's own exports. Points and lines have no area and are no objects; a remark counts them.
//!
//! Specification: <https://github.com/wkentaro/labelme/blob/main/labelme/shape.py>.

use std::{borrow::Cow, collections::BTreeMap, sync::Arc};

use serde::Deserialize;
use serde_json::value::RawValue;

use super::{
    described::{Class, Described, Extent, around, around_ellipse, enclose, without_area},
    without_mark,
};

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct File<'a> {
    #[serde(borrow)]
    shapes: Vec<Shape<'a>>,
    #[serde(default)]
    image_width: Option<u32>,
    #[serde(default)]
    image_height: Option<u32>,
}

#[derive(Deserialize)]
struct Shape<'a> {
    #[serde(borrow)]
    label: Cow<'a, str>,
    points: Vec<[f64; 2]>,
    #[serde(borrow, default)]
    shape_type: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    group_id: Option<&'a RawValue>,
}

impl Shape<'_> {
    /// Left, top, right and bottom edge; `None` if the shape has no area.
    ///
    /// # Errors
    /// The reason, if it has too few points, or is of an unknown type.
    fn edges(&self) -> Result<Option<[f64; 4]>, String> {
        let kind = self.kind();
        let least = match kind {
            "polygon" => 3,
            "rectangle" | "circle" | "mask" => 2,
            "point" | "points" | "line" | "linestrip" => return Ok(None),
            other => return Err(format!("shape_type is {other:?}")),
        };
        if self.points.len() < least {
            return Err(format!("a {kind} of {} points, and it has at least {least}", self.points.len()));
        }
        if let ("circle", [[x, y], [edge_x, edge_y], ..]) = (kind, self.points.as_slice()) {
            let radius = (edge_x - x).hypot(edge_y - y);
            return around_ellipse([*x, *y], [radius, radius], 0.0).map(Some);
        }
        Ok(Some(around(self.points.iter().copied())))
    }

    fn kind(&self) -> &str {
        self.shape_type.as_deref().unwrap_or("polygon")
    }
}

/// Parses a file.
///
/// # Errors
/// The reason, with the number of the shape.
pub(super) fn parse(bytes: &[u8]) -> Result<Described, String> {
    let bytes = without_mark(bytes);
    let file: File<'_> = serde_json::from_slice(bytes).map_err(|error| format!("is no file of LabelMe: {error}"))?;
    let mut described = Described { extent: Extent::of(file.image_width, file.image_height), ..Described::default() };
    let mut objects: Vec<(usize, &str, [f64; 4])> = Vec::new();
    let mut groups = BTreeMap::new();
    for (shape, number) in file.shapes.iter().zip(1usize..) {
        let wrong = |why: String| format!("shape {number}: {why}");
        let Some(edges) = shape.edges().map_err(wrong)? else {
            described.remark(&without_area(shape.kind()));
            continue;
        };
        if shape.label.trim().is_empty() {
            return Err(wrong("has no label".to_owned()));
        }
        let group = shape.group_id.map(RawValue::get).filter(|id| *id != "null");
        let at = group.map(|group| *groups.entry((shape.label.as_ref(), group)).or_insert(objects.len()));
        match at.and_then(|at| objects.get_mut(at)) {
            Some((_, _, known)) => *known = enclose(*known, edges),
            None => objects.push((number, shape.label.as_ref(), edges)),
        }
    }
    for (number, label, edges) in objects {
        let class = Arc::new(Class { id: None, name: label.to_owned() });
        described.push(&class, edges).map_err(|why| format!("shape {number}: {why}"))?;
    }
    Ok(described)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(shapes: &str) -> Result<Described, String> {
        let size = r#""imagePath": "a.jpg", "imageData": null, "imageHeight": 100, "imageWidth": 200"#;
        parse(format!("{{\"version\": \"5.0.1\", \"flags\": {{}}, \"shapes\": [{shapes}], {size}}}").as_bytes())
    }

    #[test]
    fn shapes_have_boxes() {
        let found = of(r#"
            {"label": "cat", "points": [[50, 40], [10, 20.5]], "shape_type": "rectangle", "group_id": null, "flags": {}},
            {"label": "dog", "points": [[1, 2], [30, 4], [5, 60]]},
            {"label": "ball", "points": [[50, 50], [53, 54]], "shape_type": "circle"},
            {"label": "dog", "points": [[1, 2]], "shape_type": "point"},
            {"label": "car", "points": [[1, 1], [2, 2]], "shape_type": "rectangle", "group_id": 3},
            {"label": "bus", "points": [[1, 1], [2, 2]], "shape_type": "rectangle", "group_id": 3},
            {"label": "car", "points": [[8, 1], [9, 5]], "shape_type": "rectangle", "group_id": 3}"#)
        .unwrap();
        let objects: Vec<_> = found.objects.iter().map(|(class, edges)| (class.name.as_str(), *edges)).collect();
        assert_eq!(
            objects,
            [
                ("cat", [10.0, 20.5, 50.0, 40.0]),
                ("dog", [1.0, 2.0, 30.0, 60.0]),
                ("ball", [45.0, 45.0, 55.0, 55.0]),
                ("car", [1.0, 1.0, 9.0, 5.0]),
                ("bus", [1.0, 1.0, 2.0, 2.0]),
            ]
        );
        assert_eq!(found.extent, Extent::Pixels([200, 100]));
        let remarks: Vec<_> = found.remarks.into_iter().collect();
        assert_eq!(remarks, [("shapes of type point, left out because they have no area".to_owned(), 1)]);
        assert!(parse(b"\xef\xbb\xbf{\"shapes\": []}").unwrap().objects.is_empty());
    }

    #[test]
    fn files_that_are_not_of_labelme_are_errors() {
        for (shapes, why) in [
            (r#"{"label": "a", "points": [[1, 2]], "shape_type": "rectangle"}"#, "shape 1: a rectangle of 1 points"),
            (r#"{"label": "a", "points": [[1, 2]], "shape_type": "blob"}"#, "shape_type is \"blob\""),
            (r#"{"label": " ", "points": [[1, 2], [3, 4]], "shape_type": "rectangle"}"#, "shape 1: has no label"),
            (r#"{"label": "a", "points": [[1, 2], [300, 4]], "shape_type": "rectangle"}"#, "leaves the image"),
            (r#"{"points": []}"#, "is no file of LabelMe: missing field `label`"),
        ] {
            let error = of(shapes).unwrap_err();
            assert!(error.contains(why), "{error}");
        }
        for bytes in [&b"{}"[..], b"[]", b"", b"\xff", b"{\"shapes\": [], \"imageWidth\": -1}"] {
            assert!(parse(bytes).is_err());
        }
    }
}

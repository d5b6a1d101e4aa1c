//! CVAT: XML of many images, as "CVAT for images" exports it: `image` with shapes, in pixels of the image as displayed.
//!
//! The box of a shape encloses it, turned by its `rotation`. Points and lines have no area and are no objects; remarks count them, and shapes
//! of more dimensions. Classes are the labels of the task, and those of the shapes.
//!
//! Specification: <https://docs.cvat.ai/docs/manual/advanced/xml_format/>.

use super::{
    described::{Extent, around, around_ellipse, without_area},
    images::{Collected, Images},
    xml::{self, Attributes, Visit},
};

/// Parses a file.
///
/// # Errors
/// The reason, if it is no XML of CVAT, or one of a video. A wrong shape makes only its image wrong.
pub(super) fn parse(bytes: &[u8]) -> Result<Images, String> {
    let mut file = File::default();
    xml::read(bytes, "annotations", &mut file)?;
    Ok(file.images.images())
}

/// What is known of a file so far.
#[derive(Default)]
struct File {
    images: Collected,
    /// Shapes of the last image.
    shapes: usize,
    /// The name of a label of the task.
    label: String,
}

impl Visit for File {
    fn start(&mut self, path: &[&str], attributes: &Attributes<'_>) -> Result<(), String> {
        match *path {
            ["annotations", "track"] => {
                return Err("has the tracks of a video: export \"CVAT for images\"".to_owned());
            }
            ["annotations", "image"] => {
                self.shapes = 0;
                begin(&mut self.images, attributes)?;
            }
            ["annotations", "image", kind] => {
                self.shapes += 1;
                add(&mut self.images, kind, self.shapes, attributes)?;
            }
            _ => {}
        }
        Ok(())
    }

    fn end(&mut self, path: &[&str], text: &str) -> Result<(), String> {
        match path {
            ["annotations", "meta", .., "labels", "label", "name"] => text.clone_into(&mut self.label),
            // A part of a skeleton, whose shapes are left out.
            ["annotations", "meta", .., "labels", "label", "parent"] => self.label.clear(),
            ["annotations", "meta", .., "labels", "label"] if !self.label.is_empty() => {
                self.images.class(&std::mem::take(&mut self.label));
            }
            _ => {}
        }
        Ok(())
    }
}

/// Begins an image.
fn begin(images: &mut Collected, attributes: &Attributes<'_>) -> Result<(), String> {
    let length = |name: &str| {
        let parse = |text: String| text.parse().map_err(|_| format!("an image whose {name} is {text:?}"));
        attributes.get(name)?.map(parse).transpose()
    };
    let extent = Extent::of(length("width")?, length("height")?);
    images.begin(&attributes.get("name")?.unwrap_or_default(), extent)
}

/// Adds the shape with this number to the last image.
fn add(images: &mut Collected, kind: &str, number: usize, attributes: &Attributes<'_>) -> Result<(), String> {
    match kind {
        "box" | "polygon" | "ellipse" | "mask" => {}
        "polyline" | "points" => {
            images.remark(&without_area(kind));
            return Ok(());
        }
        "tag" | "skeleton" | "cuboid" => {
            images.remark(&format!("shapes of type {kind}, left out"));
            return Ok(());
        }
        _ => {}
    }
    let what = format!("shape {number}");
    let label = attributes.get("label")?.filter(|label| !label.is_empty());
    match (edges(kind, attributes), label) {
        (Ok((edges, false)), Some(label)) => images.object(&what, &label, edges),
        (Ok((edges, true)), Some(label)) => images.shape(&what, &label, edges),
        (Ok(_), None) => images.wrong(format!("{what}: has no label")),
        (Err(why), _) => images.wrong(format!("{what}: {why}")),
    }
    Ok(())
}

/// Left, top, right and bottom edge of a shape, and whether they lie around it.
fn edges(kind: &str, attributes: &Attributes<'_>) -> Result<([f64; 4], bool), String> {
    let number = |name: &str| {
        let text = attributes.get(name)?.ok_or_else(|| format!("a {kind} without {name}"))?;
        text.parse::<f64>().map_err(|_| format!("{name} is {text:?}"))
    };
    let degrees = if attributes.get("rotation")?.is_some() { number("rotation")? } else { 0.0 };
    Ok(match kind {
        "box" => {
            let edges = [number("xtl")?, number("ytl")?, number("xbr")?, number("ybr")?];
            (turned(edges, degrees), degrees != 0.0)
        }
        "ellipse" => {
            let (center, axes) = ([number("cx")?, number("cy")?], [number("rx")?, number("ry")?]);
            (around_ellipse(center, axes, degrees)?, true)
        }
        "mask" => {
            let [left, top] = [number("left")?, number("top")?];
            ([left, top, left + number("width")?, top + number("height")?], false)
        }
        "polygon" => {
            let text = attributes.get("points")?.ok_or("a polygon without points")?;
            let points = text.split(';').map(|point| {
                let (x, y) = point.split_once(',')?;
                Some([x.trim().parse().ok()?, y.trim().parse().ok()?])
            });
            let points = points.collect::<Option<Vec<[f64; 2]>>>().ok_or_else(|| format!("points are {text:?}"))?;
            if points.len() < 3 {
                return Err(format!("a polygon of {} points, and it has at least 3", points.len()));
            }
            (around(points), false)
        }
        other => return Err(format!("{other} is unknown")),
    })
}

/// The box around a box that is turned about its center.
fn turned(edges: [f64; 4], degrees: f64) -> [f64; 4] {
    let [left, top, right, bottom] = edges;
    // A box of negative size stays one.
    if degrees == 0.0 || right < left || bottom < top {
        return edges;
    }
    let (sin, cos) = degrees.to_radians().sin_cos();
    let ([x, y], [across, down]) =
        ([(left + right) / 2.0, (top + bottom) / 2.0], [(right - left) / 2.0, (bottom - top) / 2.0]);
    let (wide, high) = ((across * cos).abs() + (down * sin).abs(), (across * sin).abs() + (down * cos).abs());
    [x - wide, y - high, x + wide, y + high]
}

#[cfg(test)]
mod tests {
    use super::*;

    const META: &str = "<version>1.1</version><meta><job><labels><label><name>car</name><color>#fff</color></label>\
        <label><name>traffic &amp; light</name><attributes><attribute><name>state</name></attribute></attributes></label>\
        <label><name>nose</name><parent>face</parent></label></labels></job></meta>";

    /// A file with these images.
    fn of(images: &str) -> Result<Images, String> {
        parse(
            format!("<?xml version=\"1.0\" encoding=\"utf-8\"?>\n<annotations>{META}{images}</annotations>").as_bytes(),
        )
    }

    fn image(shapes: &str) -> String {
        format!("<image id=\"0\" name=\"a.jpg\" width=\"200\" height=\"100\">{shapes}</image>")
    }

    #[test]
    fn shapes_are_objects() {
        let shapes = r#"<box label="car" occluded="0" xtl="1" ytl="2.5" xbr="30" ybr="40" z_order="0"><attribute name="a">b</attribute></box>
            <box label="car" xtl="10" ytl="10" xbr="30" ybr="20" rotation="90"/>
            <polygon label="bus &amp; tram" points="5,6;7.5,3;1,9" z_order="0"></polygon>
            <ellipse label="car" cx="50" cy="50" rx="10" ry="5"/>
            <ellipse label="car" cx="50" cy="50" rx="10" ry="5" rotation="90"/>
            <ellipse label="car" cx="195" cy="2" rx="10" ry="5"/>
            <mask label="car" rle="1, 2" left="7" top="8" width="3" height="4"/>
            <polyline label="car" points="1,2;3,4"/><points label="car" points="1,2"/><tag label="car"/>
            <skeleton label="car"><points label="nose" points="1,2"/></skeleton>"#;
        let found = of(&format!("{}<image id=\"1\" name=\"sub/b.jpg\"/>", image(shapes))).unwrap();
        let one = found.described(found.claim("", "images/a.jpg").unwrap()).unwrap();
        let edges: Vec<_> = one.objects.iter().map(|(_, edges)| edges.map(|edge| (edge * 1e6).round() / 1e6)).collect();
        assert_eq!(
            edges,
            [
                [1.0, 2.5, 30.0, 40.0],
                [15.0, 5.0, 25.0, 25.0],
                [1.0, 3.0, 7.5, 9.0],
                [40.0, 45.0, 60.0, 55.0],
                [45.0, 40.0, 55.0, 60.0],
                [185.0, 0.0, 200.0, 7.0],
                [7.0, 8.0, 10.0, 12.0]
            ]
        );
        assert_eq!(one.extent, Extent::Pixels([200, 100]));
        assert_eq!((one.remarks.len(), one.remarks.into_values().sum::<u64>()), (4, 4));
        let classes: Vec<&str> = found.classes.iter().map(|class| class.name.as_str()).collect();
        assert_eq!(classes, ["bus & tram", "car", "traffic & light"]);
        assert!(found.described(found.claim("", "sub/b.jpg").unwrap()).unwrap().objects.is_empty());
    }

    #[test]
    fn wrong_shapes_make_their_image_wrong() {
        for (shape, why) in [
            ("<box label='a' xtl='1' ytl='2' xbr='3'/>", "shape 1: a box without ybr"),
            ("<box label='a' xtl='1' ytl='2' xbr='x' ybr='4'/>", "shape 1: xbr is \"x\""),
            ("<box xtl='1' ytl='2' xbr='3' ybr='4'/>", "shape 1: has no label"),
            ("<tag/><box label='a' xtl='1' ytl='2' xbr='300' ybr='4'/>", "shape 2: a box from 1,2 to 300,4 leaves"),
            ("<box label='a' xtl='3' ytl='2' xbr='1' ybr='4' rotation='1'/>", "shape 1: a box of negative size"),
            ("<polygon label='a' points='1,2;3,4'/>", "shape 1: a polygon of 2 points"),
            ("<polygon label='a' points='1,2;3;4,5'/>", "shape 1: points are"),
            ("<ellipse label='a' cx='1' cy='2' rx='-3' ry='1'/>", "shape 1: a negative radius"),
            ("<ellipse label='a' cx='300' cy='2' rx='3' ry='1'/>", "shape 1: a box from 297,1 to 303,3 leaves"),
            ("<cube label='a'/>", "shape 1: cube is unknown"),
        ] {
            let found = of(&image(shape)).unwrap();
            let error = found.described(found.claim("", "a.jpg").unwrap()).unwrap_err();
            assert!(error.starts_with(why), "{error}");
        }
    }

    #[test]
    fn files_of_another_form_are_errors() {
        let two = image("") + &image("");
        for (images, why) in [
            (two.as_str(), "two images have the name \"a.jpg\""),
            ("<track/>", "has the tracks of a video"),
            ("<image/>", "image 1 has no name"),
            ("<image name='a' width='-1'/>", "an image whose width is \"-1\""),
            ("<image name='a' name='b'/>", "is no XML"),
        ] {
            let error = of(images).map(|_| ()).unwrap_err();
            assert!(error.starts_with(why), "{error}");
        }
        for (text, why) in [("", "has no annotations"), ("<annotation/>", "has annotation at its top")] {
            let error = parse(text.as_bytes()).map(|_| ()).unwrap_err();
            assert!(error.starts_with(why), "{error}");
        }
    }
}

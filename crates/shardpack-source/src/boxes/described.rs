//! Objects with the names of their classes, in pixels or fractions of the image as displayed, and their text in the plan.
//!
//! The text has the size of the image in its first line, and an object in each further line: class number, left, top, right, bottom. Fractions
//! are written as for a resized image of 1 by 1.

use std::{collections::BTreeMap, fmt::Write as _, sync::Arc};

use super::{Object, lines::ROUNDING};

/// Distance from the image, in pixels, at which an edge is still a rounding error of the file.
const ROUNDING_PIXELS: f64 = 1.0;
/// Marks a text whose image may have another size than the file says: `--resize` changed it.
const RESIZED: &str = "resized";

/// A class as a file names it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Class {
    /// The number that orders the classes; `None` if they are ordered by their names.
    pub id: Option<i64>,
    pub name: String,
}

/// The start of a fold over points.
const NOTHING: [f64; 4] = [f64::INFINITY, f64::INFINITY, f64::NEG_INFINITY, f64::NEG_INFINITY];

/// The edges of the box around both boxes.
pub(super) fn enclose(a: [f64; 4], b: [f64; 4]) -> [f64; 4] {
    [a[0].min(b[0]), a[1].min(b[1]), a[2].max(b[2]), a[3].max(b[3])]
}

/// The edges of the box around points.
pub(super) fn around(points: impl IntoIterator<Item = [f64; 2]>) -> [f64; 4] {
    points.into_iter().fold(NOTHING, |edges, [x, y]| enclose(edges, [x, y, x, y]))
}

/// The edges of the box around an ellipse with these half axes, turned clockwise by `degrees`.
///
/// # Errors
/// If a half axis is negative.
pub(super) fn around_ellipse([x, y]: [f64; 2], [across, down]: [f64; 2], degrees: f64) -> Result<[f64; 4], String> {
    if across < 0.0 || down < 0.0 {
        return Err("a negative radius".to_owned());
    }
    let (sin, cos) = degrees.to_radians().sin_cos();
    let (wide, high) = ((across * cos).hypot(down * sin), (across * sin).hypot(down * cos));
    Ok([x - wide, y - high, x + wide, y + high])
}

/// The remark on shapes of a kind that is no object.
pub(super) fn without_area(kind: &str) -> String {
    format!("shapes of type {kind}, left out because they have no area")
}

/// The class of objects without a class.
pub(super) const ONLY_CLASS: &str = "object";

/// The remark on objects without a class.
pub(super) fn without_class() -> String {
    format!("boxes without a class, which have the class {ONLY_CLASS}")
}

/// The unit of the edges of objects.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Extent {
    /// Pixels of an image whose size the file does not have.
    #[default]
    Unknown,
    /// Pixels of an image of this width and height as displayed.
    Pixels([u32; 2]),
    /// Width and height of the image are 1.
    Fractions,
}

impl Extent {
    /// That of a file with this width and height; 0 is none.
    pub fn of(width: Option<u32>, height: Option<u32>) -> Self {
        match (width, height) {
            (Some(width @ 1..), Some(height @ 1..)) => Self::Pixels([width, height]),
            _ => Self::Unknown,
        }
    }

    /// The part in the image of a box around a shape, which may leave the image though the shape was drawn in it. The right and the lower edge
    /// stay if the size is unknown. A box outside of the image stays.
    pub fn clip(self, [left, top, right, bottom]: [f64; 4]) -> [f64; 4] {
        let [(across, _), (down, _)] = self.lengths();
        match left < across && top < down && right > 0.0 && bottom > 0.0 {
            true => [left.max(0.0), top.max(0.0), right.min(across), bottom.min(down)],
            false => [left, top, right, bottom],
        }
    }

    /// Fails if a box from left and top to right and bottom leaves the image by more than a rounding error.
    fn check(self, [left, top, right, bottom]: [f64; 4]) -> Result<(), String> {
        let [across, down] = self.lengths();
        let is_inside = |edge: f64, (length, slack): (f64, f64)| edge >= -slack && edge <= length + slack;
        if [(left, across), (right, across), (top, down), (bottom, down)]
            .into_iter()
            .all(|(edge, of)| is_inside(edge, of))
        {
            return Ok(());
        }
        let size = match self {
            Self::Unknown => String::new(),
            Self::Pixels([width, height]) => format!(" of {width}x{height}"),
            Self::Fractions => ", whose width and height are 1".to_owned(),
        };
        Err(format!("a box from {left},{top} to {right},{bottom} leaves the image{size}"))
    }

    /// Width and height in its unit, with the distance from the image that is a rounding error.
    fn lengths(self) -> [(f64, f64); 2] {
        match self {
            Self::Unknown => [(f64::INFINITY, ROUNDING_PIXELS); 2],
            Self::Pixels(size) => size.map(f64::from).map(|length| (length, (length * ROUNDING).max(ROUNDING_PIXELS))),
            Self::Fractions => [(1.0, ROUNDING); 2],
        }
    }
}

/// The objects of an image.
#[derive(Clone, Debug, Default)]
pub(super) struct Described {
    /// The unit of the edges.
    pub extent: Extent,
    /// Class, and left, top, right and bottom edge.
    pub objects: Vec<(Arc<Class>, [f64; 4])>,
    /// What a user may not expect, each with its number.
    pub remarks: BTreeMap<String, u64>,
}

impl Described {
    /// Adds an object.
    ///
    /// # Errors
    /// The reason, if the edges are no box in the image.
    pub fn push(&mut self, class: &Arc<Class>, edges: [f64; 4]) -> Result<(), String> {
        let [left, top, right, bottom] = edges;
        if !edges.iter().all(|edge| edge.is_finite()) {
            return Err("an edge that is no number".to_owned());
        }
        if right < left || bottom < top {
            return Err("a box of negative size".to_owned());
        }
        self.extent.check(edges)?;
        self.objects.push((Arc::clone(class), edges));
        Ok(())
    }

    /// Counts a remark.
    pub fn remark(&mut self, remark: &str) {
        *self.remarks.entry(remark.to_owned()).or_default() += 1;
    }

    /// The text for the plan; `number_of` gives the number of a class.
    ///
    /// # Errors
    /// The first error of `number_of`.
    pub fn text(
        &self,
        is_resized: bool,
        number_of: &dyn Fn(&Class) -> Result<usize, String>,
    ) -> Result<Vec<u8>, String> {
        let ([width, height], is_resized) = match self.extent {
            Extent::Unknown => ([0, 0], is_resized),
            Extent::Pixels(size) => (size, is_resized),
            Extent::Fractions => ([1, 1], true),
        };
        let mut text = format!("{width} {height}");
        if is_resized {
            text = format!("{text} {RESIZED}");
        }
        for (class, [left, top, right, bottom]) in &self.objects {
            let number = number_of(class)?;
            // Writing to a text does not fail.
            let _ = write!(text, "\n{number} {left} {top} {right} {bottom}");
        }
        Ok(text.into_bytes())
    }
}

/// The objects in a text of [`Described::text`], for an image whose size as displayed is `image`, as fractions of it.
///
/// # Errors
/// The reason, if the image has another size than the file says.
pub(super) fn objects(text: &[u8], image: [u32; 2]) -> Result<Vec<Object>, String> {
    let wrong = || "the plan has no objects".to_owned();
    let text = std::str::from_utf8(text).map_err(|_| wrong())?;
    let mut lines = text.lines();
    let head: Vec<&str> = lines.next().unwrap_or_default().split(' ').collect();
    let (width, height, is_resized) = match head[..] {
        [width, height] => (width, height, false),
        [width, height, RESIZED] => (width, height, true),
        _ => return Err(wrong()),
    };
    let number = |text: &str| text.parse::<u32>().map_err(|_| wrong());
    let stated = [number(width)?, number(height)?];
    let size = match stated == [0, 0] {
        true => image,
        false if is_resized || stated == image => stated,
        false => {
            let [[width, height], [own_width, own_height]] = [stated, image];
            return Err(format!(
                "its label file is of an image of {width}x{height}, and it has {own_width}x{own_height} as displayed"
            ));
        }
    };
    let [width, height] = size.map(f64::from);
    let object = |line: &str| {
        let mut words = line.split(' ');
        let class = words.next()?.parse().ok()?;
        let edges: Vec<f64> = words.map(|word| word.parse().ok()).collect::<Option<_>>()?;
        Some((class, <[f64; 4]>::try_from(edges).ok()?))
    };
    let checked = |line: &str| {
        let (class, edges) = object(line).ok_or_else(wrong)?;
        // A file without the size of the image could not be checked.
        if stated == [0, 0] {
            Extent::Pixels(image).check(edges).map_err(|why| format!("its label file has {why}"))?;
        }
        let [left, top, right, bottom] = edges;
        Ok(Object { class, edges: [left / width, top / height, right / width, bottom / height] })
    };
    lines.map(checked).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn class() -> Arc<Class> {
        Arc::new(Class { id: None, name: "a".to_owned() })
    }

    #[test]
    fn boxes_outside_the_image_are_errors() {
        let mut described = Described { extent: Extent::Pixels([200, 50]), ..Described::default() };
        for edges in [[0.0, 0.0, 200.0, 50.0], [-2.0, -1.0, 202.0, 51.0], [3.0, 3.0, 3.0, 3.0]] {
            described.push(&class(), edges).unwrap();
        }
        for edges in [[-2.1, 0.0, 9.0, 9.0], [0.0, 0.0, 9.0, 51.1], [5.0, 0.0, 4.0, 9.0], [0.0, f64::NAN, 1.0, 1.0]] {
            assert!(described.push(&class(), edges).is_err(), "{edges:?}");
        }
        let mut unknown = Described::default();
        unknown.push(&class(), [0.0, 0.0, 9e9, 9e9]).unwrap();
        assert!(unknown.push(&class(), [-1.5, 0.0, 1.0, 1.0]).is_err());
    }

    #[test]
    fn objects_are_fractions_of_an_image_of_the_stated_size() {
        let mut described = Described { extent: Extent::Pixels([200, 100]), ..Described::default() };
        described.push(&class(), [10.0, 20.0, 110.0, 70.5]).unwrap();
        let text = |resized| described.text(resized, &|_| Ok(7)).unwrap();
        let expected = [Object { class: 7, edges: [0.05, 0.2, 0.55, 0.705] }];
        assert_eq!(objects(&text(false), [200, 100]).unwrap(), expected);
        assert_eq!(objects(&text(true), [20, 20]).unwrap(), expected);
        assert!(objects(&text(false), [100, 200]).unwrap_err().contains("200x100, and it has 100x200"));
        let unknown = Described { extent: Extent::Unknown, ..described.clone() }.text(false, &|_| Ok(7)).unwrap();
        assert_eq!(objects(&unknown, [400, 100]).unwrap()[0].edges, [0.025, 0.2, 0.275, 0.705]);
        assert!(objects(&unknown, [100, 100]).unwrap_err().ends_with("leaves the image of 100x100"));
        let mut fractions = Described { extent: Extent::Fractions, ..Described::default() };
        fractions.push(&class(), [0.25, 0.0, 1.005, 1.0]).unwrap();
        assert!(fractions.push(&class(), [0.0, 0.0, 1.1, 1.0]).unwrap_err().ends_with("whose width and height are 1"));
        let text = fractions.text(false, &|_| Ok(7)).unwrap();
        assert_eq!(objects(&text, [400, 100]).unwrap()[0].edges, [0.25, 0.0, 1.005, 1.0]);
        for wrong in ["", "1", "1 2 3", "9 9\n1 2", "9 9\nx 1 2 3 4", "9 9\n1 1 2 3 4 5"] {
            assert!(objects(wrong.as_bytes(), [9, 9]).is_err(), "{wrong:?}");
        }
    }
}

//! Label files of YOLO: one object in each line, in fractions of the image.

use shardpack_format::{component::ObjectFile, size, text};

use super::{Object, text_of};

/// Distance from the image, in widths or heights, at which an edge is still a rounding error of the file.
pub(super) const ROUNDING: f64 = 1e-2;

/// Parses a label file whose classes have `names` names, if there are names.
///
/// # Errors
/// The line, and the reason why it is no object.
pub(super) fn parse_named(file: ObjectFile, bytes: &[u8], names: Option<u64>) -> Result<Vec<Object>, String> {
    let content = text_of(bytes)?;
    let lines = content.lines().zip(1u64..).filter(|(line, _)| !line.trim().is_empty());
    let named = |object: Object| match names.filter(|names| object.class.cast_unsigned() >= *names) {
        Some(names) => Err(format!("class {}, and the source names {}", object.class, size::counted(names, "class"))),
        None => Ok(object),
    };
    let of_line = |(line, number)| object(file, line).and_then(named).map_err(|why| format!("line {number}: {why}"));
    lines.map(of_line).collect()
}

fn object(file: ObjectFile, line: &str) -> Result<Object, String> {
    let mut words = line.split_whitespace();
    let class = words.next().unwrap_or_default();
    // Some exports write 15.0.
    let whole = class.split_once('.').filter(|(_, zeros)| zeros.bytes().all(|digit| digit == b'0'));
    let number = whole.map_or(class, |(whole, _)| whole);
    let class = number.parse().ok().filter(|class: &i64| *class >= 0);
    let class = class.ok_or_else(|| format!("{} is no class number", text::shown(line.as_bytes())))?;
    let numbers = words.map(|word| {
        let number = word.parse().ok().filter(|number: &f64| number.is_finite());
        number.ok_or_else(|| format!("{} is no number", text::shown(word.as_bytes())))
    });
    let numbers = numbers.collect::<Result<Vec<f64>, _>>()?;
    let edges = match (file, numbers.as_slice()) {
        (ObjectFile::Yolo, &[x, y, width, height]) if width >= 0.0 && height >= 0.0 => {
            [x - width / 2.0, y - height / 2.0, x + width / 2.0, y + height / 2.0]
        }
        (ObjectFile::Yolo, [_, _, _, _]) => return Err("a box of negative size".to_owned()),
        (ObjectFile::Yolo, numbers) => {
            let more = if numbers.len() >= 6 && numbers.len().is_multiple_of(2) {
                "; yolo-seg reads polygons, and no key points"
            } else {
                ""
            };
            return Err(format!(
                "{} after the class, and a box has 4{more}",
                size::counted(numbers.len() as u64, "number")
            ));
        }
        (ObjectFile::YoloSegments, numbers) if numbers.len() >= 6 && numbers.len().is_multiple_of(2) => {
            let axis = |first: usize| numbers.iter().skip(first).step_by(2).copied();
            let least = |first| axis(first).fold(f64::INFINITY, f64::min);
            let most = |first| axis(first).fold(f64::NEG_INFINITY, f64::max);
            [least(0), least(1), most(0), most(1)]
        }
        (ObjectFile::YoloSegments, numbers) => {
            return Err(format!(
                "{} after the class, and a polygon has two for each of at least 3 points",
                size::counted(numbers.len() as u64, "number")
            ));
        }
        _ => return Err("is no line of YOLO".to_owned()),
    };
    match edges.iter().all(|edge| (-ROUNDING..=1.0 + ROUNDING).contains(edge)) {
        true => Ok(Object { class, edges }),
        false => Err("leaves the image: positions are fractions of it, from 0 to 1".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_a_label_file_are_objects() {
        let one = |file, text: &str| parse_named(file, text.as_bytes(), None);
        let object = |class, edges| Object { class, edges };
        assert_eq!(
            one(ObjectFile::Yolo, "\u{feff}0 0.5 0.5 0.5 0.25\r\n\n 15.0\t0.25 0.25 0.5 0.5 \n").unwrap(),
            [object(0, [0.25, 0.375, 0.75, 0.625]), object(15, [0.0, 0.0, 0.5, 0.5])]
        );
        assert_eq!(one(ObjectFile::Yolo, "").unwrap(), []);
        assert_eq!(
            one(ObjectFile::YoloSegments, "2 0.1 0.2 0.5 0.1 0.4 0.9").unwrap(),
            [object(2, [0.1, 0.1, 0.5, 0.9])]
        );
        for (file, text, why) in [
            (ObjectFile::Yolo, "0 0.5 0.5 0.5", "line 1: 3 numbers after the class, and a box has 4"),
            (
                ObjectFile::Yolo,
                "\n0 .1 .1 .2 .2 .3 .3",
                "line 2: 6 numbers after the class, and a box has 4; yolo-seg reads polygons, and no key points",
            ),
            (ObjectFile::Yolo, "cat 0.5 0.5 0.5 0.5", "line 1: cat 0.5 0.5 0.5 0.5 is no class number"),
            (ObjectFile::Yolo, "1.5 0.5 0.5 0.5 0.5", "line 1: 1.5 0.5 0.5 0.5 0.5 is no class number"),
            (ObjectFile::Yolo, "-1 0.5 0.5 0.5 0.5", "line 1: -1 0.5 0.5 0.5 0.5 is no class number"),
            (ObjectFile::Yolo, "0 0.5 nan 0.5 0.5", "line 1: nan is no number"),
            (ObjectFile::Yolo, "0 0.5 0.5 -0.5 0.5", "line 1: a box of negative size"),
            (
                ObjectFile::Yolo,
                "0 320 240 100 50",
                "line 1: leaves the image: positions are fractions of it, from 0 to 1",
            ),
            (
                ObjectFile::YoloSegments,
                "0 0.5 0.5 0.5 0.5",
                "line 1: 4 numbers after the class, and a polygon has two for each of at least 3 points",
            ),
        ] {
            assert_eq!(one(file, text).unwrap_err(), why, "{text}");
        }
        assert_eq!(parse_named(ObjectFile::Yolo, b"\xff", None).unwrap_err(), "is not UTF-8");
    }
}

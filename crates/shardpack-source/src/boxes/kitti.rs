//! KITTI: lines `type truncated occluded alpha x1 y1 x2 y2`, and then 7 numbers in three dimensions, which are left out; in pixels of the
//! image. Predictions have a score at the end.
//!
//! Regions of the type `DontCare` are no objects; a remark counts them.
//!
//! Specification: `readme.txt` of the object development kit (<https://www.cvlibs.net/datasets/kitti/eval_object.php>).

use std::sync::Arc;

use super::{
    described::{Class, Described},
    text_of, without_mark,
};

/// The type of regions whose objects are not labelled.
const UNLABELLED: &str = "DontCare";
/// Words in a line, without and with a score.
const WORDS: [usize; 2] = [15, 16];

/// Whether a file begins with an object of KITTI; `None` if it has only blanks.
pub(super) fn is_start(start: &[u8]) -> Option<bool> {
    let start = without_mark(start).trim_ascii_start();
    let first = start.split(|byte| *byte == b'\n').next().filter(|line| !line.is_empty())?;
    Some(std::str::from_utf8(first).is_ok_and(|line| object(line).is_ok()))
}

/// The type and the edges of the object in a line.
fn object(line: &str) -> Result<(&str, [f64; 4]), String> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let Some((class, numbers)) = words.split_first().filter(|_| WORDS.contains(&words.len())) else {
        return Err(format!("{} words, and an object of KITTI has {} or {}", words.len(), WORDS[0], WORDS[1]));
    };
    if class.parse::<f64>().is_ok() {
        return Err(format!("{class} is a number, and no type of an object"));
    }
    let number = |word: &&str| word.parse().map_err(|_| format!("{word:?} is no number"));
    let numbers = numbers.iter().map(number).collect::<Result<Vec<f64>, _>>()?;
    Ok((class, [numbers[3], numbers[4], numbers[5], numbers[6]]))
}

/// Parses a file.
///
/// # Errors
/// The line, and the reason why it is no object.
pub(super) fn parse(bytes: &[u8]) -> Result<Described, String> {
    let content = text_of(bytes)?;
    let mut described = Described::default();
    for (line, number) in content.lines().zip(1u64..).filter(|(line, _)| !line.trim().is_empty()) {
        let wrong = |why: String| format!("line {number}: {why}");
        let (name, edges) = object(line).map_err(wrong)?;
        if name == UNLABELLED {
            described.remark("regions of the type DontCare, left out");
            continue;
        }
        let class = Arc::new(Class { id: None, name: name.to_owned() });
        described.push(&class, edges).map_err(wrong)?;
    }
    Ok(described)
}

#[cfg(test)]
mod tests {
    use super::*;

    const REST: &str = "1.65 1.67 3.64 -0.65 1.71 46.70 -1.59";

    #[test]
    fn lines_are_objects_with_types() {
        let text = format!(
            "\u{feff}Car 0.00 0 -1.58 587.01 173.33 614.12 200.12 {REST}\n\nPerson_sitting 0.5 3 1.5 1 2 3 4 {REST} 0.9\n\
             DontCare -1 -1 -10 503.89 169.71 590.61 190.13 -1 -1 -1 -1000 -1000 -1000 -10\n"
        );
        let found = parse(text.as_bytes()).unwrap();
        let objects: Vec<_> = found.objects.iter().map(|(class, edges)| (class.name.as_str(), *edges)).collect();
        assert_eq!(objects, [("Car", [587.01, 173.33, 614.12, 200.12]), ("Person_sitting", [1.0, 2.0, 3.0, 4.0])]);
        assert_eq!(found.remarks.into_values().sum::<u64>(), 1);
        assert!(parse(b"").unwrap().objects.is_empty());
    }

    #[test]
    fn lines_that_are_no_objects_are_errors() {
        for (text, why) in [
            ("Car 0 0 0 1 2 3 4", "line 1: 8 words, and an object of KITTI has 15 or 16"),
            (&format!("\nCar 0 0 0 1 2 x 4 {REST}"), "line 2: \"x\" is no number"),
            (&format!("Car 0 0 0 3 2 1 4 {REST}"), "line 1: a box of negative size"),
            (&format!("Car 0 0 0 nan 2 1 4 {REST}"), "line 1: an edge that is no number"),
            (&format!("3 0 0 0 1 2 3 4 {REST}"), "line 1: 3 is a number, and no type of an object"),
        ] {
            assert_eq!(parse(text.as_bytes()).unwrap_err(), why);
        }
        assert_eq!(parse(b"\xff").unwrap_err(), "is not UTF-8");
    }
}

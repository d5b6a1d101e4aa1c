//! WIDER FACE: for each image a line with its path, a line with the number of faces, and a line for each face: `x y width height`, and then
//! six marks, of which the fourth is `invalid`. An image without faces has one line of zeros.
//!
//! All faces have the class `face`. Faces marked invalid are objects, as torchvision reads them; a remark counts them.
//!
//! Specification: `readme.txt` of `wider_face_split` (<http://shuoyang1213.me/WIDERFACE/>).

use super::{
    described::Extent,
    images::{Collected, Images},
    text_of, without_mark,
};

/// The class of all objects.
const CLASS: &str = "face";
/// Numbers of a face.
const NUMBERS: usize = 10;
/// The mark of faces that cannot be recognised, among the numbers.
const INVALID: usize = 7;

/// Whether a file of many images begins so.
pub(super) fn is_start(start: &[u8]) -> bool {
    let text = String::from_utf8_lossy(without_mark(start));
    let mut lines = text.lines();
    let mut next = || lines.next().unwrap_or_default();
    let (path, count, face) = (next(), next(), next());
    path.contains('.') && count.trim().parse::<u64>().is_ok() && numbers(face).is_ok()
}

fn numbers(line: &str) -> Result<[f64; NUMBERS], String> {
    let number = |word: &str| word.parse().map_err(|_| format!("{word:?} is no number"));
    let numbers = line.split_whitespace().map(number).collect::<Result<Vec<f64>, _>>()?;
    let count = numbers.len();
    numbers.try_into().map_err(|_| format!("{count} numbers, and a face has {NUMBERS}"))
}

/// Parses a file.
///
/// # Errors
/// The line, and the reason why it is none of WIDER FACE. A box outside of its image makes only the image wrong.
pub(super) fn parse(bytes: &[u8]) -> Result<Images, String> {
    let content = text_of(bytes)?;
    let mut images = Collected::default();
    images.class(CLASS);
    let mut lines = content.lines().zip(1u64..).filter(|(line, _)| !line.trim().is_empty()).peekable();
    while let Some((path, at)) = lines.next() {
        let wrong = |at: u64, why: String| format!("line {at}: {why}");
        images.begin(path, Extent::Unknown).map_err(|why| wrong(at, why))?;
        let (count, at) = lines.next().ok_or_else(|| wrong(at, "no number of faces follows".to_owned()))?;
        let faces: u64 = count.trim().parse().map_err(|_| wrong(at, format!("{count:?} is no number of faces")))?;
        if faces == 0 {
            // Some files lack the zeros of an image without faces.
            if let Some((line, at)) = lines.next_if(|(line, _)| numbers(line).is_ok())
                && numbers(line)? != [0.0; NUMBERS]
            {
                return Err(wrong(at, "a face of an image without faces".to_owned()));
            }
        }
        for number in 0..faces {
            let (face, at) = lines.next().ok_or_else(|| wrong(at, format!("{faces} faces, and {number} follow")))?;
            let face = numbers(face).map_err(|why| wrong(at, why))?;
            let [x, y, width, height, ..] = face;
            if face[INVALID] == 1.0 {
                images.remark("faces marked invalid, packed as the others");
            }
            images.object(&format!("line {at}"), CLASS, [x, y, x + width, y + height]);
        }
    }
    Ok(images.images())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn faces_are_objects_of_images() {
        let text = "\u{feff}0--Parade/0_Parade_1.jpg\n2\n449 330 122 149 0 0 0 0 0 0\n1 2 3 0 2 0 0 1 2 0\n\
                    1--Handshaking/a.jpg\n0\n0 0 0 0 0 0 0 0 0 0\nc.jpg\n0\nb.jpg\n1\n1 2 -3 4 0 0 0 0 0 0\n";
        assert!(is_start(text.as_bytes()));
        let found = parse(text.as_bytes()).unwrap();
        let of = |path: &str| found.described(found.claim("", path).unwrap());
        let one = of("WIDER_train/images/0--Parade/0_Parade_1.jpg").unwrap();
        let edges: Vec<_> = one.objects.iter().map(|(_, edges)| *edges).collect();
        assert_eq!(edges, [[449.0, 330.0, 571.0, 479.0], [1.0, 2.0, 4.0, 2.0]]);
        assert_eq!(one.remarks.into_values().sum::<u64>(), 1);
        assert!(of("1--Handshaking/a.jpg").unwrap().objects.is_empty() && of("c.jpg").unwrap().objects.is_empty());
        assert_eq!(of("b.jpg").unwrap_err(), "line 12: a box of negative size");
        assert!(parse(b"a.jpg\n0\n").is_ok() && parse(b"").is_ok());
    }

    #[test]
    fn files_of_another_form_are_errors() {
        for (text, why) in [
            ("a.jpg", "line 1: no number of faces follows"),
            ("a.jpg\nb.jpg\n", "line 2: \"b.jpg\" is no number of faces"),
            ("a.jpg\n2\n1 2 3 4 0 0 0 0 0 0\n", "line 2: 2 faces, and 1 follow"),
            ("a.jpg\n1\n1 2 3 4\n", "line 3: 4 numbers, and a face has 10"),
            ("a.jpg\n0\n1 2 3 4 0 0 0 0 0 0\n", "line 3: a face of an image without faces"),
            ("a.jpg\n0\n0 0 0 0 0 0 0 0 0 0\na.jpg\n0\n", "line 4: two images have the name \"a.jpg\""),
        ] {
            assert_eq!(parse(text.as_bytes()).map(|_| ()).unwrap_err(), why);
        }
        assert!(!is_start(b"a.jpg\nb.jpg\nc.jpg"));
    }
}

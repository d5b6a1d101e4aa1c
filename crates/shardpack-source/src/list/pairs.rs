//! Notes about columns that name files: the masks of a list of pairs.

use shardpack_format::{component::Component, text};

use crate::names::cut;

/// The note for column `column`, where a row has the paths `image` and `file`.
pub(super) fn note(column: &str, image: &[u8], file: &[u8]) -> String {
    let column = text::shown(column.as_bytes()).to_string();
    let names = format!("column {column} names files, such as {}", text::shown(file));
    let called = if column.starts_with("column_") || column == "label" { last(cut(file).0) } else { column.as_bytes() };
    match pattern(called, image, file).or_else(|| pattern(b"mask", image, file)) {
        Some(with) => format!("{names}: --with '{with}' packs them as a component"),
        None => format!("{names}: --with packs files that have the names of the images"),
    }
}

/// The value of `--with` that gives `file` for `image`, both paths in the source.
fn pattern(called: &[u8], image: &[u8], file: &[u8]) -> Option<String> {
    let is_image = image == file;
    let ((image_folder, image), (folder, name)) = (cut(image), cut(file));
    let stem = &image[..image.iter().rposition(|byte| *byte == b'.')?];
    let at = name.windows(stem.len().max(1)).position(|window| window == stem)?;
    let path = [&way(image_folder, folder), &name[..at], b"*", &name[at + stem.len()..]].concat();
    let is_plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"._-*/{}".contains(byte);
    let with = format!("{}={}", str::from_utf8(called).ok()?.to_ascii_lowercase(), String::from_utf8(path).ok()?);
    let component =
        Component::files(&with).ok().filter(|_| with.split('=').all(|part| part.bytes().all(|b| is_plain(&b))));
    let found = component.filter(|one| one.path_of(image_folder, image).as_deref() == Some(file));
    found.filter(|_| !is_image).map(|_| with)
}

/// The start of a pattern that leads from the folder `from` to the folder `to`: empty if they are the same.
fn way(from: &[u8], to: &[u8]) -> Vec<u8> {
    let parts = |folder: &[u8]| -> Vec<Vec<u8>> {
        folder.split(|byte| *byte == b'/').filter(|part| !part.is_empty()).map(<[u8]>::to_vec).collect()
    };
    let (from, mut to) = (parts(from), parts(to));
    let same = from.iter().zip(&to).take_while(|(a, b)| a == b).count();
    // The folder of the image has the same name as that of the file: images/train and labels/train.
    if same < from.len() && same + 1 < to.len() && from.last() == to.last() {
        to.pop();
        to.push(b"{parent}".to_vec());
    }
    let up = std::iter::repeat_n(b"..".to_vec(), from.len() - same);
    up.chain(to.into_iter().skip(same)).flat_map(|part| [part, b"/".to_vec()].concat()).collect()
}

/// The last folder of a path.
fn last(folder: &[u8]) -> &[u8] {
    cut(folder).1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_option_is_named_only_if_it_gives_the_file() {
        let of = |image: &str, file: &str| pattern(b"mask", image.as_bytes(), file.as_bytes());
        assert_eq!(of("0.jpg", "0.png").as_deref(), Some("mask=*.png"));
        assert_eq!(of("a.jpg", "a_mask.png").as_deref(), Some("mask=*_mask.png"));
        for (image, file) in [("a.jpg", "b.png"), ("a.jpg", "a.jpg"), ("x.jpg", "'x.png")] {
            assert_eq!(of(image, file), None, "{image} {file}");
        }
        let said = note("column_2", b"img/0.jpg", b"msk/0.png");
        assert!(said.ends_with("--with 'msk=../msk/*.png' packs them as a component"), "{said}");
        assert_eq!(of("images/train/1.jpg", "labels/train/1.txt").as_deref(), Some("mask=../../labels/{parent}/*.txt"));
        assert_eq!(of("a/1.jpg", "a/m/1_m.png").as_deref(), Some("mask=m/*_m.png"));
        assert_eq!(of("1.jpg", "masks/1.png").as_deref(), Some("mask=masks/*.png"));
        assert!(note("x", b"a/1.jpg", b"a/2.jpg").ends_with("the names of the images"));
    }
}

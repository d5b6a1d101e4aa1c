//! Notes about columns that name files: the masks of a list of pairs.

use shardpack_format::{component::Component, text};

/// The note for column `column`, where a row has the paths `image` and `file`.
pub(super) fn note(column: &str, image: &[u8], file: &[u8]) -> String {
    let column = text::shown(column.as_bytes()).to_string();
    let names = format!("column {column} names files, such as {}", text::shown(file));
    let (image_folder, image) = cut(image);
    let (folder, name) = cut(file);
    let called = if column.starts_with("column_") || column == "label" { last(folder) } else { column.as_bytes() };
    let with = pattern(called, image, name).or_else(|| pattern(b"mask", image, name));
    match with {
        Some(with) if folder == image_folder => format!("{names}: --with '{with}' packs them as a component"),
        Some(with) => {
            format!("{names}: with links to them beside the images, --with '{with}' packs them as a component")
        }
        None => format!("{names}: --with packs files beside the images that have their names"),
    }
}

/// The option of `--with` that gives `file` for `image`, both without folders.
fn pattern(called: &[u8], image: &[u8], file: &[u8]) -> Option<String> {
    let stem = &image[..image.iter().rposition(|byte| *byte == b'.')?];
    let at = file.windows(stem.len().max(1)).position(|window| window == stem)?;
    let parts = [&file[..at], b"*", &file[at + stem.len()..]].concat();
    let is_plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"._-*".contains(byte);
    let with = format!("{}={}", std::str::from_utf8(called).ok()?.to_ascii_lowercase(), String::from_utf8(parts).ok()?);
    let component =
        Component::files(&with).ok().filter(|_| with.split('=').all(|part| part.bytes().all(|b| is_plain(&b))));
    component.filter(|one| file != image && one.file_of(image).as_deref() == Some(file)).map(|_| with)
}

fn cut(path: &[u8]) -> (&[u8], &[u8]) {
    let at = path.iter().rposition(|byte| *byte == b'/');
    at.map_or((&[], path), |at| (&path[..at], &path[at + 1..]))
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
        assert!(said.ends_with("--with 'msk=*.png' packs them as a component"), "{said}");
        assert!(note("x", b"a/1.jpg", b"a/2.jpg").ends_with("that have their names"));
    }
}

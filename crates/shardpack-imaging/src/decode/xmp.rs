//! Reads the orientation from XMP; some editors write it only there.

use image::metadata::Orientation;

/// The value of `tiff:Orientation`, as an attribute or an element.
///
/// Source: ISO 16684-1 (XMP), 7 (RDF/XML); every writer binds the namespace to this prefix, and readers search for the
/// prefix.
pub(crate) fn orientation(xmp: &[u8]) -> Option<u8> {
    const NAME: &[u8] = b"tiff:Orientation";
    let at = xmp.windows(NAME.len()).position(|name| name == NAME)?;
    let rest = xmp[at + NAME.len()..].trim_ascii_start();
    let value = match rest.split_first()? {
        (b'=', rest) => {
            rest.trim_ascii_start().strip_prefix(b"\"").or_else(|| rest.trim_ascii_start().strip_prefix(b"'"))?
        }
        (b'>', rest) => rest.trim_ascii_start(),
        _ => return None,
    };
    let (digit, rest) = value.split_first()?;
    let is_one_digit = digit.is_ascii_digit() && !rest.first().is_some_and(u8::is_ascii_digit);
    let orientation = Orientation::from_exif(digit.wrapping_sub(b'0'))?;
    is_one_digit.then(|| orientation.to_exif())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attributes_and_elements_are_read_and_nothing_else() {
        let rows: [(&[u8], Option<u8>); 7] = [
            (b"<rdf:Description tiff:Orientation=\"6\"/>", Some(6)),
            (b"<rdf:Description tiff:Orientation = '8' x=\"1\"/>", Some(8)),
            (b"<tiff:Orientation>3</tiff:Orientation>", Some(3)),
            (b"<tiff:Orientation>33</tiff:Orientation>", None),
            (b"<tiff:Orientation>9</tiff:Orientation>", None),
            (b"tiff:Orientation", None),
            (b"", None),
        ];
        for (xmp, expected) in rows {
            assert_eq!(orientation(xmp), expected, "{}", xmp.escape_ascii());
        }
    }
}

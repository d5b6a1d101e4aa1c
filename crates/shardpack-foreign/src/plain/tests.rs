use std::{fs, path::Path};

use super::*;

/// Image of `make_plain.py`: longer than 255 bytes.
pub(super) const IMAGE: &[u8] = &{
    let head = b"\xff\xd8\xff\xe0 not much of an image\n";
    let mut image = [0; 26 + 256];
    let mut at = 0;
    while at < image.len() {
        image[at] = if at < head.len() { head[at] } else { (at - head.len()) as u8 };
        at += 1;
    }
    image
};
/// Its array of `[2, 3, 3] uint8`.
pub(super) const HWC: [u8; 18] = [0, 14, 28, 42, 56, 70, 84, 98, 112, 126, 140, 154, 168, 182, 196, 210, 224, 238];

pub(super) fn text() -> &'static str {
    "Käse 猫 😀 \\ ' \n"
}

pub(super) fn fixture(name: &str) -> Vec<u8> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/plain");
    fs::read(folder.join(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
}

/// Reads `bytes` cut at every place and with every bit flipped.
pub(super) fn cuts_and_flips(bytes: &[u8], read: impl Fn(&[u8])) {
    (0..bytes.len()).for_each(|length| read(&bytes[..length]));
    let mut damaged = bytes.to_vec();
    for at in 0..bytes.len() {
        for bit in 0..8 {
            damaged[at] ^= 1 << bit;
            read(&damaged);
            damaged[at] ^= 1 << bit;
        }
    }
}

#[test]
fn parts_read_as_what_they_stand_for() {
    let input = "ab\u{e4}\u{ff}\0c".as_bytes();
    let part = EncodedRange::Latin1 { range: 1..input.len(), bytes: 5 };
    assert_eq!(*part.read(input), *b"b\xe4\xff\0c");
    assert_eq!((part.len(), part.range()), (5, None));
    assert_eq!(*EncodedRange::Plain(0..2).read(input), *b"ab");
    assert_eq!(*EncodedRange::Plain(0..20).read(input), *b"", "of another input");
    assert_eq!(*EncodedRange::Owned(Arc::from(*b"xyz")).read(input), *b"xyz");
}

#[test]
fn of_a_key_given_twice_the_last_counts() {
    let input = b"imageimage";
    let key = |range| Value::Text(EncodedRange::Plain(range));
    let map = Value::Map(vec![(key(0..5), Value::Int(1)), (key(5..10), Value::Int(2)), (Value::Int(0), Value::None)]);
    assert_eq!(map.get(input, "image"), Some(&Value::Int(2)));
    assert_eq!(map.get(input, "label"), None);
    let bytes = Value::Map(vec![(Value::Bytes(EncodedRange::Plain(0..5)), Value::Int(1))]);
    assert_eq!(bytes.get(input, "image"), Some(&Value::Int(1)), "keys of Python 2");
}

#[test]
fn a_flat_array_of_bytes_is_bytes() {
    let array = |dtype: &str, shape: &[u64]| {
        let (dtype, shape) = (dtype.to_owned(), shape.to_vec());
        Value::Array(Arc::new(Array { dtype, shape, is_fortran: false, data: EncodedRange::Plain(0..4) }))
    };
    assert!(array("|u1", &[4]).as_bytes().is_some());
    assert!(array("|u1", &[2, 2]).as_bytes().is_none());
    assert!(array("<u2", &[2]).as_bytes().is_none());
}

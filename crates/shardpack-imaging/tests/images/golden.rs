//! Output bytes are the same on every machine: their digests equal the digests from one machine.
//!
//! A new version of a codec may change the bytes; then the digests change here, and the changelog has an entry.
#![cfg(not(feature = "turbo"))]

use shardpack_format::hash;
use shardpack_imaging::{Encode, Limits, Outcome, Recipe, Resize, apply, decode, perceptual_hash};

/// One digest of the results of `make` for all photographs and all small samples.
fn digest(make: impl Fn(&[u8]) -> Vec<u8>) -> String {
    let photos = crate::samples::photos().into_iter().map(|(_, bytes)| bytes);
    let all: Vec<u8> =
        photos.chain(crate::samples::all().into_iter().map(|sample| sample.2)).flat_map(|bytes| make(&bytes)).collect();
    format!("{:032x}", hash::content(&all))
}

fn made(recipe: Recipe) -> String {
    digest(|bytes| match apply(bytes, &recipe, &Limits::default()).unwrap() {
        Outcome::Untouched => bytes.to_vec(),
        Outcome::Made { bytes, .. } => bytes,
    })
}

#[test]
fn the_bytes_are_those_of_every_machine() {
    let recipe = |encode| Recipe { resize: Some(Resize::Short(9)), encode, ..Recipe::default() };
    let larger = Recipe { resize: Some(Resize::Exact { width: 320, height: 200 }), rotate: true, ..Recipe::default() };
    let found = [
        ("pixels", digest(|bytes| decode(bytes, &Limits::default()).unwrap().pixels().to_vec())),
        ("hashes", digest(|bytes| perceptual_hash(decode(bytes, &Limits::default()).unwrap()).to_be_bytes().to_vec())),
        ("jpeg", made(recipe(Some(Encode::Jpeg)))),
        ("png", made(recipe(Some(Encode::Png)))),
        ("webp", made(recipe(Some(Encode::Webp)))),
        ("like the source", made(larger)),
        ("fixed", made(Recipe { fix: true, ..Recipe::default() })),
    ];
    let expected = [
        ("pixels", "3c9d259567e9a90a20b2c3c37436cec1"),
        ("hashes", "b06deb00f23be62eb242da7aceb5137c"),
        ("jpeg", "d5a3450cf601768fc4219c34a56783db"),
        ("png", "94b9c54b3e58241c76a38209587b9e62"),
        ("webp", "25b3fbf45922d47fdaca145037b24d70"),
        ("like the source", "11fa8c38f1798eae5d44db806db361a2"),
        ("fixed", "416c5f592014e7e38aa558133eeb58bc"),
    ];
    assert_eq!(found.each_ref().map(|(name, digest)| (*name, digest.as_str())), expected);
}

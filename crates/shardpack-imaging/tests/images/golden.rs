//! Output bytes are the same on every machine: their digests equal the digests from one machine.
//!
//! A new version of a codec may change the bytes; then the digests change here, and the changelog has an entry.

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
        ("pixels", "0076c310d56c82f8cba258a8753e0919"),
        ("hashes", "2c2e68beb1d83d0212af560c60c9045a"),
        ("jpeg", "104dd8a31c0ca2632adb5f329ab29249"),
        ("png", "a85026bbc35a929287fee772197fd2b9"),
        ("webp", "e34a765465ff7436a23df0d530bcdeee"),
        ("like the source", "0465e8cc00adbe2e398fb1d33d2f7442"),
        ("fixed", "618667de684063cf45e11c37c820e48e"),
    ];
    assert_eq!(found.each_ref().map(|(name, digest)| (*name, digest.as_str())), expected);
}

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
        ("pixels", "62dd13d9cf5d7e2459c6af2eb3c0ec38"),
        ("hashes", "9a563f8fe2bc3e94c613f3a978262610"),
        ("jpeg", "9f7c465050f2e758117886bcb573e3bd"),
        ("png", "db537f84535554fe0a47350e3c1e6b6a"),
        ("webp", "89e63fdd656fba84d0fdee0d35d59cda"),
        ("like the source", "a7696cc8ec0a2f742b1ed0ef44c4ff4a"),
        ("fixed", "618667de684063cf45e11c37c820e48e"),
    ];
    assert_eq!(found.each_ref().map(|(name, digest)| (*name, digest.as_str())), expected);
}

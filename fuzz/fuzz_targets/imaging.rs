//! Bytes as an image: checks, decodes and hashes the image, and applies several recipes, whose output must decode.
#![no_main]

use libfuzzer_sys::fuzz_target;
use shardpack_format::image_header::Kind;
use shardpack_fuzz::within;
use shardpack_imaging::{Encode, Limits, Outcome, Recipe, Resize, apply, check, decode, perceptual_hash};

const LIMITS: Limits = Limits { pixels: 1 << 16, bytes: 1 << 20 };

fuzz_target!(|input: &[u8]| {
    // For 2^16 pixels: the pixels, the decoder's other buffers and the resizer's copies. For any image: tables of Huffman
    // codes and colours, and the data that PNG and TIFF inflate.
    within(32 << 20, 64, input, || {
        let sound = check(input, &LIMITS).is_ok();
        let picture = decode(input, &LIMITS);
        if let Ok(picture) = &picture {
            assert!(sound, "decodes, but is refused");
            let pixels = picture.width() as usize * picture.height() as usize;
            assert_eq!(picture.pixels().len(), pixels * picture.layout().channels());
            assert!((1..=8).contains(&picture.orientation()));
            perceptual_hash(picture.clone());
        }
        let small = Recipe { resize: Some(Resize::Short(5)), rotate: true, ..Recipe::default() };
        let recipes = [
            Recipe { fix: true, keep_exif: true, ..Recipe::default() },
            Recipe { resize: Some(Resize::Exact { width: 9, height: 7 }), encode: Some(Encode::Webp), ..small.clone() },
            Recipe { encode: Some(Encode::Jpeg), ..small.clone() },
            Recipe { keep_exif: true, ..small },
        ];
        for recipe in recipes {
            if let Ok(Outcome::Made { bytes, kind, changes }) = apply(input, &recipe, &LIMITS) {
                // Another decoder reads reduced images; the two decoders may disagree about damage.
                assert!(picture.is_ok() || Kind::detect(input) == Kind::Jpeg);
                assert!(!changes.is_empty());
                assert_eq!(Kind::detect(&bytes), kind);
                check(&bytes, &Limits::default()).expect("what was made");
            }
        }
    });
});

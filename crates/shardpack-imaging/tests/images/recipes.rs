//! Results of recipes, rule by rule.

use crate::samples::{HEIGHT, WIDTH};
use image::{DynamicImage, ImageEncoder, ImageFormat, codecs::png::PngEncoder};
use shardpack_format::image_header::{Header, Kind, Mode};
use shardpack_imaging::{
    Change, Encode, Layout, Limits, Outcome, Picture, Recipe, Resize, apply, decode, encode, perceptual_hash,
};

const LIMITS: Limits = Limits { pixels: 1 << 20, bytes: 1 << 23 };

fn sample(name: &str) -> Vec<u8> {
    crate::samples::all().into_iter().find(|(found, ..)| *found == name).unwrap().2
}

/// Bytes, kind and changes of the result; `None` if the image is untouched.
fn made(bytes: &[u8], recipe: &Recipe) -> Option<(Vec<u8>, Kind, Vec<String>)> {
    match apply(bytes, recipe, &LIMITS).unwrap() {
        Outcome::Untouched => None,
        Outcome::Made { bytes, kind, changes } => {
            assert_eq!(Kind::detect(&bytes), kind);
            assert!(!changes.is_empty());
            decode(&bytes, &LIMITS).unwrap();
            Some((bytes, kind, changes.iter().map(Change::to_string).collect()))
        }
    }
}

#[test]
fn fix_changes_what_loaders_stumble_over_and_nothing_else() {
    let fix = Recipe { fix: true, ..Recipe::default() };
    let changed = |name: &str| -> Option<(Kind, &'static str)> {
        Some(match name {
            "jpeg, cmyk" | "jpeg, ycck" => (Kind::Jpeg, "CMYK to RGB"),
            "png, 16 bits" | "png, 16 bits, grey" => (Kind::Png, "16 bit to 8"),
            "gif" => (Kind::Png, "GIF to PNG"),
            "gif, two frames" => (Kind::Png, "GIF to PNG, first of several pages or frames"),
            "bmp" => (Kind::Png, "BMP to PNG"),
            "tiff" => (Kind::Png, "TIFF to PNG"),
            "tiff, 16 bits" => (Kind::Png, "16 bit to 8, TIFF to PNG"),
            "ppm" | "pgm, plain" => (Kind::Png, "PNM to PNG"),
            _ => return None,
        })
    };
    for (name, _, bytes) in crate::samples::all() {
        let found = made(&bytes, &fix);
        let told = found.as_ref().map(|(_, kind, changes)| (*kind, changes.join(", ")));
        assert_eq!(told, changed(name).map(|(kind, changes)| (kind, changes.to_owned())), "{name}");
        let Some((fixed, kind, _)) = found else { continue };
        assert_eq!(made(&fixed, &fix), None, "{name}: fixed twice");
        let (before, after) = (decode(&bytes, &LIMITS).unwrap(), decode(&fixed, &LIMITS).unwrap());
        assert_eq!(before.layout(), after.layout(), "{name}");
        if kind == Kind::Png {
            assert_eq!(before.pixels(), after.pixels(), "{name}");
        }
    }
    assert_eq!(made(b"\0\0\0\x20ftypavif\0\0\0\0avifmif1miafMA1B", &fix), None);
}

#[test]
fn nothing_is_made_where_nothing_is_asked() {
    for (name, _, bytes) in crate::samples::all() {
        assert_eq!(made(&bytes, &Recipe::default()), None, "{name}");
        assert_eq!(made(&bytes, &Recipe { rotate: true, ..Recipe::default() }), None, "{name}");
    }
}

#[test]
fn the_shorter_side_is_what_was_asked_and_the_longer_keeps_the_aspect() {
    // Sizes as torchvision's `_compute_resized_output_size` gives them.
    let rows = [
        ((500, 375), 256, Some((341, 256))),
        ((375, 500), 256, Some((256, 341))),
        ((300, 300), 256, Some((256, 256))),
        ((257, 900), 256, Some((256, 896))),
        ((256, 900), 256, None),
        ((20, 900), 256, None),
    ];
    for ((width, height), side, expected) in rows {
        let grey = DynamicImage::ImageLuma8(image::GrayImage::new(width, height));
        let recipe = Recipe { resize: Some(Resize::Short(side)), ..Recipe::default() };
        let found = made(&crate::samples::by_image(&grey, ImageFormat::Png), &recipe);
        let size = found.as_ref().map(|(bytes, ..)| Header::parse(bytes)).map(|header| (header.width, header.height));
        assert_eq!(size, expected, "{width} × {height}");
        if let (Some((.., changes)), Some(to)) = (found, expected) {
            assert_eq!(changes, [format!("resized {width}×{height} to {}×{}", to.0, to.1)]);
        }
    }
}

#[test]
fn exact_sizes_grow_and_shrink_and_leave_what_fits() {
    let exact = |width, height| Recipe { resize: Some(Resize::Exact { width, height }), ..Recipe::default() };
    let bytes = sample("webp, lossless");
    assert_eq!(made(&bytes, &exact(WIDTH, HEIGHT)), None);
    for (width, height) in [(7, 33), (40, 40), (1, 1)] {
        let (made, kind, changes) = made(&bytes, &exact(width, height)).unwrap();
        let header = Header::parse(&made);
        assert_eq!((header.width, header.height, kind), (width, height, Kind::Webp));
        assert_eq!(changes, [format!("resized {WIDTH}×{HEIGHT} to {width}×{height}")]);
    }
    assert!(apply(&bytes, &exact(1 << 20, 1 << 20), &LIMITS).is_err());
}

#[test]
fn the_kind_is_that_of_the_source_or_png_or_what_was_asked() {
    let small = Recipe { resize: Some(Resize::Short(9)), ..Recipe::default() };
    for (name, kind, bytes) in crate::samples::all() {
        let like = if matches!(kind, Kind::Jpeg | Kind::Webp) { kind } else { Kind::Png };
        assert_eq!(made(&bytes, &small).unwrap().1, like, "{name}");
        for encode in [Encode::Jpeg, Encode::Png, Encode::Webp] {
            let found = made(&bytes, &Recipe { encode: Some(encode), ..Recipe::default() });
            let asked = made(&bytes, &Recipe { encode: Some(encode), ..small.clone() }).unwrap();
            assert_eq!(asked.1, encode.kind(), "{name}");
            assert_eq!(found.as_ref().map(|found| found.1), (kind != encode.kind()).then_some(encode.kind()), "{name}");
            let Some((found, _, changes)) = found else { continue };
            let has_alpha = decode(&bytes, &LIMITS).unwrap().layout().has_alpha();
            let dropped = changes.contains(&"alpha dropped".to_owned());
            assert_eq!(dropped, has_alpha && encode == Encode::Jpeg, "{name}");
            if encode != Encode::Jpeg {
                let pixels = |bytes: &[u8]| decode(bytes, &LIMITS).unwrap().opaque_rgb();
                assert!(pixels(&found) == pixels(&bytes), "{name}: without loss");
            }
        }
    }
}

trait OpaqueRgb {
    fn opaque_rgb(&self) -> Vec<u8>;
}

impl OpaqueRgb for Picture {
    /// WebP has no grey.
    fn opaque_rgb(&self) -> Vec<u8> {
        let pixels = self.pixels().chunks(self.layout().channels());
        match self.layout() {
            Layout::Gray8 | Layout::GrayA8 => pixels.flat_map(|pixel| [pixel[0]; 3]).collect(),
            Layout::Rgb8 | Layout::Rgba8 => pixels.flat_map(|pixel| pixel[..3].to_vec()).collect(),
        }
    }
}

#[test]
fn a_lower_quality_makes_a_smaller_file() {
    let bytes = crate::samples::photo("things/spoon.png");
    let length =
        |quality| made(&bytes, &Recipe { encode: Some(Encode::Jpeg), quality, ..Recipe::default() }).unwrap().0.len();
    assert!(length(30) < length(75) && length(75) < length(95));
    assert_eq!(length(0), length(1));
    assert_eq!(length(255), length(100));
}

/// Exif of one orientation and a comment, little endian.
fn exif(orientation: u8) -> Vec<u8> {
    [
        b"II\x2A\0\x08\0\0\0\x02\0\x12\x01\x03\0\x01\0\0\0",
        &[orientation, 0, 0, 0][..],
        b"\x0E\x01\x02\0\x04\0\0\0cat\0\0\0\0\0",
    ]
    .concat()
}

/// A dummy profile for `space`.
fn profile(space: &[u8; 4]) -> Vec<u8> {
    [&[0; 16][..], space, &[7; 108]].concat()
}

/// The sample with Exif and a profile beside it.
fn with_sidecars(kind: Kind, orientation: u8, space: &[u8; 4]) -> Vec<u8> {
    let pixels = crate::samples::rgb();
    match kind {
        Kind::Jpeg => crate::samples::jpeg(&pixels, jpeg_encoder::ColorType::Rgb, |encoder| {
            encoder.add_exif_metadata(&exif(orientation)).unwrap();
            encoder.add_icc_profile(&profile(space)).unwrap();
        }),
        kind => {
            let mut bytes = Vec::new();
            let color = image::ExtendedColorType::Rgb8;
            match kind {
                Kind::Png => {
                    let mut encoder = PngEncoder::new(&mut bytes);
                    encoder.set_exif_metadata(exif(orientation)).unwrap();
                    encoder.set_icc_profile(profile(space)).unwrap();
                    encoder.write_image(&pixels, WIDTH, HEIGHT, color).unwrap();
                }
                _ => {
                    let mut encoder = image::codecs::webp::WebPEncoder::new_lossless(&mut bytes);
                    // Some writers put this prefix before the Exif.
                    encoder.set_exif_metadata([b"Exif\0\0", &exif(orientation)[..]].concat()).unwrap();
                    encoder.set_icc_profile(profile(space)).unwrap();
                    encoder.write_image(&pixels, WIDTH, HEIGHT, color).unwrap();
                }
            }
            bytes
        }
    }
}

#[test]
fn pictures_are_turned_as_their_exif_says() {
    let rotate = Recipe { rotate: true, ..Recipe::default() };
    for kind in [Kind::Jpeg, Kind::Png, Kind::Webp] {
        for orientation in 1..=8 {
            let bytes = with_sidecars(kind, orientation, b"RGB ");
            let found = made(&bytes, &rotate);
            assert_eq!(found.is_none(), orientation == 1, "{kind:?} {orientation}");
            let Some((found, made_kind, changes)) = found else { continue };
            assert_eq!((made_kind, changes), (kind, vec!["rotated".to_owned()]));
            let seen = decode(&found, &LIMITS).unwrap();
            assert_eq!((seen.orientation(), seen.exif()), (1, None), "{kind:?} {orientation}");
            // The stored top left pixel is the darkest of all, in red and green.
            let (width, height) = if orientation > 4 { (HEIGHT, WIDTH) } else { (WIDTH, HEIGHT) };
            assert_eq!((seen.width(), seen.height()), (width, height), "{kind:?} {orientation}");
            let (x, y) = match orientation {
                2 | 6 => (width - 1, 0),
                3 | 7 => (width - 1, height - 1),
                4 | 8 => (0, height - 1),
                _ => (0, 0),
            };
            let pixel = &seen.pixels()[((y * width + x) * 3) as usize..][..2];
            assert!(pixel.iter().all(|&level| level < 16), "{kind:?} {orientation}: {pixel:?}");
        }
    }
}

#[test]
fn a_picture_that_is_turned_and_resized_has_the_size_that_is_seen() {
    let bytes = with_sidecars(Kind::Png, 6, b"RGB ");
    let recipe = Recipe { rotate: true, resize: Some(Resize::Exact { width: 10, height: 6 }), ..Recipe::default() };
    let (made, _, changes) = made(&bytes, &recipe).unwrap();
    let header = Header::parse(&made);
    assert_eq!((header.width, header.height), (10, 6));
    assert_eq!(changes, ["rotated", &format!("resized {HEIGHT}×{WIDTH} to 10×6")]);
}

#[test]
fn what_is_beside_the_pixels_stays_or_goes_as_asked() {
    for kind in [Kind::Jpeg, Kind::Png, Kind::Webp] {
        for (keep_icc, keep_exif, rotate) in
            [(true, false, false), (false, true, false), (true, true, true), (false, false, true)]
        {
            let bytes = with_sidecars(kind, 6, b"RGB ");
            let resize = Some(Resize::Short(9));
            let recipe = Recipe { keep_icc, keep_exif, rotate, resize, ..Recipe::default() };
            let found = decode(&made(&bytes, &recipe).unwrap().0, &LIMITS).unwrap();
            let what = format!("{kind:?}, profile {keep_icc}, Exif {keep_exif}, turned {rotate}");
            assert_eq!(found.icc(), keep_icc.then_some(profile(b"RGB ")).as_deref(), "{what}");
            // Every viewer shows the same picture as before.
            assert_eq!(found.orientation(), if rotate { 1 } else { 6 }, "{what}");
            if keep_exif {
                assert_eq!(found.exif(), Some(&exif(if rotate { 1 } else { 6 })[..]), "{what}");
            } else {
                let exif = found.exif().unwrap_or_default();
                assert!(!exif.windows(3).any(|part| part == b"cat") && exif.is_empty() == rotate, "{what}");
            }
        }
        let recipe = Recipe { resize: Some(Resize::Short(9)), ..Recipe::default() };
        let found = made(&with_sidecars(kind, 1, b"CMYK"), &recipe).unwrap().0;
        assert_eq!(decode(&found, &LIMITS).unwrap().icc(), None, "{kind:?}: a profile for other channels");
    }
}

#[test]
fn a_turned_photograph_is_fixed_upright() {
    let bytes = crate::samples::photo("people/astronaut-bust.jpg");
    let recipe = Recipe { rotate: true, resize: Some(Resize::Short(150)), ..Recipe::default() };
    let (made, _, changes) = made(&bytes, &recipe).unwrap();
    let header = Header::parse(&made);
    assert_eq!((header.width, header.height, header.mode), (150, 200, Mode::Rgb));
    assert_eq!(changes, ["rotated", "resized 300×400 to 150×200"]);
}

#[test]
fn what_a_kind_cannot_hold_is_refused() {
    let wide = Picture::new(70_000, 1, Layout::Gray8, vec![0; 70_000]).unwrap();
    for (kind, what) in [
        (Encode::Jpeg, "JPEG: 70000 × 1 pixels, it has at most 65535 a side"),
        (Encode::Webp, "WEBP: 70000 × 1 pixels, it has at most 16384 a side"),
    ] {
        assert_eq!(encode(&wide, kind, 90).unwrap_err().to_string(), format!("cannot be written as {what}"));
    }
    assert!(encode(&wide, Encode::Png, 90).is_ok());
    let clear = Picture::new(1, 1, Layout::GrayA8, vec![0; 2]).unwrap();
    assert!(encode(&clear, Encode::Jpeg, 90).is_err());
}

#[test]
fn hashes_of_one_picture_are_near_and_of_two_are_far() {
    let photos: Vec<_> =
        crate::samples::photos().into_iter().map(|(name, bytes)| (name, decode(&bytes, &LIMITS).unwrap())).collect();
    let hashes: Vec<_> = photos.iter().map(|(_, picture)| perceptual_hash(picture.clone())).collect();
    for ((name, picture), hash) in photos.iter().zip(&hashes) {
        let png = encode(picture, Encode::Png, 90).unwrap();
        for recipe in [
            Recipe { encode: Some(Encode::Jpeg), quality: 40, ..Recipe::default() },
            Recipe { resize: Some(Resize::Short(64)), ..Recipe::default() },
            Recipe { resize: Some(Resize::Exact { width: 300, height: 200 }), ..Recipe::default() },
        ] {
            let again = perceptual_hash(decode(&made(&png, &recipe).unwrap().0, &LIMITS).unwrap());
            let apart = (hash ^ again).count_ones();
            assert!(apart <= 6, "{name}: {apart} of 64 for {recipe:?}");
        }
    }
    for (at, one) in hashes.iter().enumerate() {
        for (other, hash) in hashes.iter().enumerate().skip(at + 1) {
            let apart = (one ^ hash).count_ones();
            assert!(apart > 6, "{} and {}: {apart}", photos[at].0, photos[other].0);
        }
    }
    let flat = Picture::new(30, 30, Layout::Rgb8, vec![9; 2700]).unwrap();
    assert_eq!(perceptual_hash(flat), 0);
}

#[test]
fn a_turned_picture_has_the_hash_of_the_upright_one() {
    let upright = decode(&with_sidecars(Kind::Png, 1, b"RGB "), &LIMITS).unwrap();
    let bytes = with_sidecars(Kind::Png, 6, b"RGB ");
    let turned = made(&bytes, &Recipe { rotate: true, ..Recipe::default() }).unwrap().0;
    let (stored, turned) = (decode(&bytes, &LIMITS).unwrap(), decode(&turned, &LIMITS).unwrap());
    let distance = |other| (perceptual_hash(stored.clone()) ^ perceptual_hash(other)).count_ones();
    assert!(distance(turned) <= 2);
    assert!(distance(upright) > 2);
}

#[test]
fn what_is_reduced_while_it_is_decoded_is_nearly_the_same_and_cuts_are_refused() {
    for (name, bytes) in
        crate::samples::photos().into_iter().filter(|(_, bytes)| Kind::detect(bytes) == Kind::Jpeg).step_by(4)
    {
        // Some photographs are reduced by DCT, to a half or a quarter, some are not.
        for side in [30, 140] {
            let recipe = Recipe { resize: Some(Resize::Short(side)), encode: Some(Encode::Png), ..Recipe::default() };
            let fast = decode(&made(&bytes, &recipe).unwrap().0, &LIMITS).unwrap();
            let png = encode(&decode(&bytes, &LIMITS).unwrap(), Encode::Png, 90).unwrap();
            let slow = made(&png, &recipe)
                .map_or_else(|| decode(&png, &LIMITS).unwrap(), |made| decode(&made.0, &LIMITS).unwrap());
            assert_eq!((fast.width(), fast.height()), (slow.width(), slow.height()), "{name}");
            let pairs = fast.pixels().iter().zip(slow.pixels());
            let difference = pairs.map(|(one, other)| f64::from(one.abs_diff(*other))).sum::<f64>();
            assert!(difference / (fast.pixels().len() as f64) < 4.0, "{name} to {side}: {difference}");
            for cut in [bytes.len() / 2, bytes.len() - 2] {
                assert!(apply(&bytes[..cut], &recipe, &LIMITS).is_err(), "{name}: cut at {cut}");
            }
        }
    }
}

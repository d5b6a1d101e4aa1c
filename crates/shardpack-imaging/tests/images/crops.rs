//! Parts of images have the same pixels by every way of decoding, and a table that does not fit is ignored.

use std::{num::NonZeroU16, path::Path};

use jpeg_encoder::{ColorType, Encoder, SamplingFactor};
use shardpack_imaging::{
    Limits,
    crops::{Decoder, NoTable, Rect, Region, RegionRequest, Way, scan},
};

/// Pseudorandom numbers that are the same in every run.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, end: u32) -> u32 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((self.0 >> 33) % u64::from(end)) as u32
    }
}

/// Content of an image.
#[derive(Clone, Copy, Debug)]
enum Scene {
    Flat,
    Noise,
    Checks,
    Waves,
}

struct JpegCase {
    size: (u16, u16),
    quality: u8,
    sampling: SamplingFactor,
    colours: ColorType,
    scene: Scene,
    restart: u16,
}

fn make(made: &JpegCase) -> Vec<u8> {
    let channels = match made.colours {
        ColorType::Luma => 1,
        ColorType::Cmyk | ColorType::CmykAsYcck => 4,
        _ => 3,
    };
    let (width, height) = (usize::from(made.size.0), usize::from(made.size.1));
    let mut numbers = Numbers(3);
    let value = |x: usize, y: usize, channel: usize, numbers: &mut Numbers| match made.scene {
        Scene::Flat => 200,
        Scene::Noise => numbers.below(256) as u8,
        Scene::Checks => ((x / 3 + y / 5 + channel) % 2 * 255) as u8,
        Scene::Waves => {
            let at = (x * (3 + channel) + y * 2) as f64 / 17.0;
            (127.0 + 100.0 * at.sin() + f64::from(numbers.below(20))) as u8
        }
    };
    let mut pixels = Vec::new();
    for y in 0..height {
        for x in 0..width {
            pixels.extend((0..channels).map(|channel| value(x, y, channel, &mut numbers)));
        }
    }
    let mut bytes = Vec::new();
    let mut encoder = Encoder::new(&mut bytes, made.quality);
    encoder.set_sampling_factor(made.sampling);
    if made.restart > 0 {
        encoder.set_restart_interval(made.restart);
    }
    encoder.encode(&pixels, made.size.0, made.size.1, made.colours).unwrap();
    bytes
}

const PLAIN: JpegCase = JpegCase {
    size: (150, 91),
    quality: 80,
    sampling: SamplingFactor::F_2_2,
    colours: ColorType::Rgb,
    scene: Scene::Waves,
    restart: 0,
};

/// Every sampling, and some values of every other parameter.
fn all_made() -> Vec<(String, Vec<u8>)> {
    use SamplingFactor::*;
    let mut made = Vec::new();
    let mut add = |name: &str, of: JpegCase| made.push((name.to_owned(), make(&of)));
    for (sampling, mcu_width) in [(F_1_1, 8), (F_2_1, 16), (F_1_2, 8), (F_2_2, 16)] {
        add(&format!("{sampling:?}"), JpegCase { sampling, ..PLAIN });
        add(&format!("{sampling:?}, noise"), JpegCase { sampling, scene: Scene::Noise, size: (131, 70), ..PLAIN });
        add(&format!("{sampling:?}, tiny"), JpegCase { sampling, size: (1, 1), ..PLAIN });
        for rows in [1, 2, 3] {
            let restart = 150_u16.div_ceil(mcu_width) * rows;
            add(&format!("{sampling:?}, restart of {rows} rows"), JpegCase { sampling, restart, ..PLAIN });
        }
    }
    // Markers within rows: restart intervals from one MCU to a bit more than two rows.
    for (sampling, mcu_width) in [(F_1_1, 8), (F_2_1, 16), (F_1_2, 8), (F_2_2, 16)] {
        let columns = 150_u16.div_ceil(mcu_width);
        for restart in [1, 2, 3, 4, 7, columns - 1, columns + 1, 2 * columns - 3, 2 * columns + 5] {
            add(&format!("{sampling:?}, restart of {restart}"), JpegCase { sampling, restart, ..PLAIN });
        }
        add(
            &format!("{sampling:?}, noise, restart of 5"),
            JpegCase { sampling, restart: 5, scene: Scene::Noise, ..PLAIN },
        );
    }
    for (colours, sampling) in [
        (ColorType::Luma, F_2_2),
        (ColorType::Cmyk, F_1_1),
        (ColorType::CmykAsYcck, F_1_1),
        (ColorType::CmykAsYcck, F_2_2),
    ] {
        add(&format!("{colours:?} {sampling:?}, restart of 4"), JpegCase { colours, sampling, restart: 4, ..PLAIN });
    }
    for quality in [1, 30, 100] {
        for sampling in [F_1_1, F_2_2] {
            for scene in [Scene::Flat, Scene::Noise, Scene::Checks, Scene::Waves] {
                let name = format!("{sampling:?}, quality {quality}, {scene:?}");
                add(&name, JpegCase { sampling, quality, scene, size: (97, 64), ..PLAIN });
            }
        }
    }
    let inks = [(ColorType::Cmyk, F_1_1), (ColorType::CmykAsYcck, F_1_1), (ColorType::CmykAsYcck, F_2_2)];
    for (colours, sampling) in inks.into_iter().chain([(ColorType::Luma, F_1_1), (ColorType::Luma, F_2_2)]) {
        add(&format!("{colours:?} {sampling:?}"), JpegCase { colours, sampling, ..PLAIN });
    }
    for size in [(16, 16), (17, 33), (5, 200), (200, 5), (8, 64), (64, 8), (255, 31)] {
        add(&format!("{size:?}"), JpegCase { size, ..PLAIN });
        add(&format!("{size:?}, 4:4:4"), JpegCase { size, sampling: F_1_1, ..PLAIN });
    }
    made
}

/// Real photographs, and JPEGs of other writers.
fn all_found() -> Vec<(String, Vec<u8>)> {
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures");
    let mut folders = vec![fixtures.join("jpegs"), fixtures.join("photos")];
    let mut found = Vec::new();
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            // Those of `pixels` are tested by shardpack-jpeg.
            if path.is_dir() && !path.ends_with("pixels") {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "jpg" || extension == "JPEG") {
                found.push((path.file_name().unwrap().to_string_lossy().into_owned(), std::fs::read(&path).unwrap()));
            }
        }
    }
    assert!(found.len() > 20);
    found.sort();
    found
}

fn size(jpeg: &[u8]) -> (u32, u32) {
    let header = shardpack_format::image_header::Header::parse(jpeg);
    (header.width, header.height)
}

fn table(jpeg: &[u8], every: u16) -> Result<Vec<u8>, NoTable> {
    scan(jpeg, NonZeroU16::new(every).unwrap())
}

/// The whole image, its corners and edges, and `more` random parts.
fn parts((width, height): (u32, u32), numbers: &mut Numbers, more: u32) -> Vec<Rect> {
    let rect = |x: u32, y: u32, right: u32, bottom: u32| Rect { x, y, width: right - x, height: bottom - y };
    let (x, y) = (width / 2, height / 2);
    let mut parts = vec![
        rect(0, 0, width, height),
        rect(0, 0, 1, 1),
        rect(width - 1, 0, width, 1),
        rect(0, height - 1, 1, height),
        rect(width - 1, height - 1, width, height),
        rect(x, y, width, height),
        rect(0, 0, x.max(1), y.max(1)),
        // Full rows, and full columns, with something to leave out.
        rect(0, y, width, (y + 9).min(height)),
        rect(x, 0, (x + 9).min(width), height),
    ];
    for _ in 0..more {
        let (a, b) = (numbers.below(width), numbers.below(width));
        let (c, d) = (numbers.below(height), numbers.below(height));
        parts.push(rect(a.min(b), c.min(d), a.max(b) + 1, c.max(d) + 1));
    }
    parts
}

/// The wanted pixels alone, three bytes each.
fn pixels_of(region: &Region, wanted: &RegionRequest, pixels: &[u8]) -> Vec<u8> {
    let channels = wanted.channels();
    assert_eq!(pixels.len(), region.width as usize * region.height as usize * channels);
    pixels.chunks_exact(channels).flat_map(|pixel| pixel[..3].to_vec()).collect()
}

fn cut(whole: &[u8], width: u32, part: &Rect) -> Vec<u8> {
    let rows = (part.y..part.y + part.height).map(|y| (y * width + part.x) as usize * 3);
    rows.flat_map(|at| whole[at..at + part.width as usize * 3].to_vec()).collect()
}

/// Compares parts by a table with the whole image; returns the number of parts that used the table.
fn compare(name: &str, jpeg: &[u8], tables: &[Vec<u8>], reduce_by: u32, more: u32) -> u32 {
    let mut decoder = Decoder::new(Limits::default());
    let (width, height) = size(jpeg);
    let all = Rect { x: 0, y: 0, width, height };
    let mut numbers = Numbers(9);
    let mut by_table = 0;
    let mut pixels = Vec::new();
    let wanted = RegionRequest { rect: all, reduce_by, padded: false };
    let region = decoder.region(jpeg, None, &wanted, &mut pixels).unwrap();
    assert_eq!(region.way, Way::Whole, "{name}");
    let whole = pixels_of(&region, &wanted, &pixels);
    let reduced_by = region.reduced_by;
    for (number, rect) in parts((width, height), &mut numbers, more).into_iter().enumerate() {
        let wanted = RegionRequest { rect, reduce_by, padded: number % 2 == 1 };
        let inner = rect.reduced(reduced_by, (width, height));
        let expected = cut(&whole, width.div_ceil(reduced_by), &inner);
        for table in tables.iter().map(Some).chain([None]) {
            let region = decoder.region(jpeg, table.map(Vec::as_slice), &wanted, &mut pixels).unwrap();
            let what = format!("{name}, {rect:?} by {reduce_by}: {region:?}");
            assert_eq!(
                (region.x, region.y, region.width, region.height),
                (inner.x, inner.y, inner.width, inner.height)
            );
            assert!(pixels_of(&region, &wanted, &pixels) == expected, "{what}: other pixels");
            assert!(table.is_some() || region.way != Way::Table, "{what}");
            by_table += u32::from(region.way == Way::Table);
        }
    }
    by_table
}

#[test]
fn parts_are_those_of_the_whole_for_every_sampling_and_table() {
    for (name, jpeg) in all_made() {
        let tables: Vec<_> = [1, 3, 8, 16, u16::MAX].map(|every| table(&jpeg, every).expect(&name)).into();
        let by_table = compare(&name, &jpeg, &tables, 1, 12);
        let (width, height) = size(&jpeg);
        assert!(by_table >= 20 || width.min(height) < 40, "{name}: {by_table} by tables");
        assert!(by_table >= 70 || !name.contains("restart of"), "{name}: {by_table} by tables");
        for reduce_by in [2, 4, 8] {
            compare(&name, &jpeg, &tables, reduce_by, 8);
        }
    }
}

#[test]
fn parts_of_files_of_others_are_those_of_the_whole() {
    let mut with_tables = 0;
    for (name, jpeg) in all_found() {
        let table = match table(&jpeg, 8) {
            Ok(table) => table,
            Err(reason) => {
                assert!(
                    matches!(
                        reason,
                        NoTable::NotJpeg | NoTable::Progressive | NoTable::SeveralScans | NoTable::Sampling
                    ),
                    "{name}: {reason}"
                );
                continue;
            }
        };
        assert!(table.len() * 100 < jpeg.len() * 7, "{name}: {} of {} bytes", table.len(), jpeg.len());
        with_tables += 1;
        for reduce_by in [1, 2, 8] {
            compare(&name, &jpeg, std::slice::from_ref(&table), reduce_by, 6);
        }
    }
    assert!(with_tables > 20, "{with_tables}");
}

#[test]
fn a_table_or_image_with_any_bit_flipped_or_cut_never_panics() {
    flip_and_cut(0);
}

#[test]
fn one_with_restart_markers_and_any_bit_flipped_or_cut_never_panics() {
    flip_and_cut(3);
}

fn flip_and_cut(restart: u16) {
    let jpeg = make(&JpegCase { size: (67, 45), sampling: SamplingFactor::F_2_2, restart, ..PLAIN });
    let good = table(&jpeg, 2).unwrap();
    let mut decoder = Decoder::new(Limits::default());
    let rect = Rect { x: 33, y: 17, width: 15, height: 20 };
    let wanted = RegionRequest { rect, reduce_by: 1, padded: false };
    let mut pixels = Vec::new();
    let region = decoder.region(&jpeg, None, &wanted, &mut pixels).unwrap();
    let expected = pixels_of(&region, &wanted, &pixels);
    let mut ways = [0; 2];
    for bit in 0..good.len() * 8 {
        let mut table = good.clone();
        table[bit / 8] ^= 1 << (bit % 8);
        let region = decoder.region(&jpeg, Some(&table), &wanted, &mut pixels).unwrap();
        ways[usize::from(region.way == Way::Table)] += 1;
        pixels_of(&region, &wanted, &pixels);
    }
    // Many changes give valid states: only a hash binds a table to its image.
    assert!(ways[0] * 3 > ways[1], "{ways:?}");
    for end in 0..good.len() {
        let region = decoder.region(&jpeg, Some(&good[..end]), &wanted, &mut pixels).unwrap();
        assert_ne!(region.way, Way::Table, "cut at {end}");
        assert!(pixels_of(&region, &wanted, &pixels) == expected, "cut at {end}");
    }
    let mut longer = good.clone();
    longer.push(0);
    assert_ne!(decoder.region(&jpeg, Some(&longer), &wanted, &mut pixels).unwrap().way, Way::Table);
    for bit in 0..jpeg.len() * 8 {
        let mut image = jpeg.clone();
        image[bit / 8] ^= 1 << (bit % 8);
        let of_image = table(&image, 3);
        for table in [Some(&good), of_image.as_ref().ok()] {
            if let Ok(region) = decoder.region(&image, table.map(Vec::as_slice), &wanted, &mut pixels) {
                pixels_of(&region, &wanted, &pixels);
            }
        }
    }
    for end in 0..jpeg.len() {
        let reason = table(&jpeg[..end], 8);
        assert!(reason.is_err_and(|reason| end < 2 || reason.is_damage()), "cut at {end}");
        drop(decoder.region(&jpeg[..end], Some(&good), &wanted, &mut pixels));
    }
    // The decoder still works.
    decoder.region(&jpeg, Some(&good), &wanted, &mut pixels).unwrap();
}

#[test]
fn what_has_no_table_says_why() {
    let jpeg = make(&PLAIN);
    let marker = |code: u8| jpeg.windows(2).position(|pair| pair == [0xFF, code]).unwrap();
    let (frame, scan) = (marker(0xC0), marker(0xDA));
    let with = |changes: &[(usize, u8)]| {
        let mut bytes = jpeg.clone();
        changes.iter().for_each(|&(at, value)| bytes[at] = value);
        bytes
    };
    let insert = |at: usize, bytes: &[u8]| [&jpeg[..at], bytes, &jpeg[at..]].concat();
    let end = jpeg.len() - 2;
    // Variants that every decoder reads alike.
    for (name, bytes) in [
        ("FF before a marker", insert(frame, &[0xFF, 0xFF])),
        ("FF before the end", insert(end, &[0xFF])),
        ("a comment", insert(frame, &[0xFF, 0xFE, 0, 4, 1, 2])),
        ("bytes behind the end", insert(end + 2, b"more")),
    ] {
        assert!(table(&bytes, 8).is_ok(), "{name}");
    }
    let restarts = |interval| make(&JpegCase { restart: interval, ..PLAIN });
    let rows: [(&str, Vec<u8>, &str); 20] = [
        ("nothing", Vec::new(), "not a JPEG"),
        ("PNG", b"\x89PNG\r\n\x1A\n".to_vec(), "not a JPEG"),
        ("progressive", with(&[(frame + 1, 0xC2)]), "progressive"),
        ("arithmetic", with(&[(frame + 1, 0xC9)]), "arithmetic, lossless or hierarchical"),
        ("12 bits", with(&[(frame + 4, 12)]), "not 8 bits a channel"),
        ("no height", with(&[(frame + 5, 0), (frame + 6, 0)]), "headers of a rare sort"),
        ("strays", insert(frame, &[7]), "headers of a rare sort"),
        ("a stray FF 00", insert(frame, &[0xFF, 0]), "headers of a rare sort"),
        ("an unknown segment", insert(frame, &[0xFF, 0xFA, 0, 2]), "headers of a rare sort"),
        ("JFIF 2", with(&[(marker(0xE0) + 9, 2)]), "headers of a rare sort"),
        ("63 coefficients", with(&[(scan + 12, 62)]), "headers of a rare sort"),
        ("a longer side than libjpeg takes", with(&[(frame + 7, 0xFF), (frame + 8, 0xFF)]), "headers of a rare sort"),
        ("strays before the end", insert(end, &[7]), "something else than the end behind the codes"),
        ("2 channels", with(&[(frame + 9, 2)]), "neither 1, 3 nor 4 channels"),
        ("factor 3", with(&[(frame + 11, 0x31)]), "sampling of a rare sort"),
        ("factor 0", with(&[(frame + 11, 0x20)]), "damaged header"),
        ("more chroma than luma", with(&[(frame + 11, 0x11), (frame + 14, 0x21)]), "sampling of a rare sort"),
        ("twins", with(&[(frame + 13, jpeg[frame + 10])]), "headers of a rare sort"),
        ("no such Huffman table", with(&[(scan + 6, 0x22)]), "damaged Huffman tables"),
        (
            "one channel of three",
            make(&JpegCase { sampling: SamplingFactor::F_4_1, ..PLAIN }),
            "channels in scans of their own",
        ),
    ];
    for (name, bytes, expected) in rows {
        assert_eq!(table(&bytes, 8).unwrap_err().name(), expected, "{name}");
    }
    // A lost restart marker.
    for interval in [1, 4, 10, 11] {
        let mut lost = restarts(interval);
        let marker = lost.windows(2).position(|pair| pair == [0xFF, 0xD1]).unwrap();
        lost[marker + 1] = 0xD2;
        let expected = format!("byte {marker}: a restart marker is missing");
        assert_eq!(table(&lost, 8).unwrap_err().to_string(), expected, "{interval}");
    }
}

#[test]
fn images_of_every_kind_have_parts() {
    let mut decoder = Decoder::new(Limits::default());
    let mut pixels = Vec::new();
    let rect = Rect { x: 1, y: 1, width: 2, height: 1 };
    let grey = image::GrayAlphaImage::from_fn(3, 2, |x, y| image::LumaA([(10 * x + y) as u8, 9]));
    let colour = image::RgbaImage::from_fn(3, 2, |x, y| image::Rgba([x as u8, y as u8, 7, 8]));
    let png = |image: image::DynamicImage| {
        let mut bytes = std::io::Cursor::new(Vec::new());
        image.write_to(&mut bytes, image::ImageFormat::Png).unwrap();
        bytes.into_inner()
    };
    let rows = [(png(grey.into()), [11, 11, 11, 21, 21, 21]), (png(colour.into()), [1, 1, 7, 2, 1, 7])];
    for (bytes, expected) in &rows {
        for padded in [false, true] {
            let wanted = RegionRequest { rect, reduce_by: 2, padded };
            let region = decoder.region(bytes, Some(b"no table"), &wanted, &mut pixels).unwrap();
            assert_eq!((region.way, region.reduced_by, region.x, region.y), (Way::Whole, 1, 1, 1));
            assert_eq!(pixels_of(&region, &wanted, &pixels), expected);
        }
    }
    let jpeg = make(&PLAIN);
    for (rect, reduce_by) in [
        (Rect { width: 151, ..rect }, 1),
        (Rect { x: u32::MAX, width: u32::MAX, ..rect }, 1),
        (Rect { height: 0, ..rect }, 1),
        (rect, 3),
        (rect, 0),
    ] {
        for bytes in [&rows[0].0, &jpeg] {
            let refused = decoder.region(bytes, None, &RegionRequest { rect, reduce_by, padded: false }, &mut pixels);
            assert!(refused.is_err(), "{rect:?} {reduce_by}");
        }
    }
    let small = Limits { pixels: 150 * 91 - 1, ..Limits::default() };
    let wanted = RegionRequest { rect, reduce_by: 1, padded: false };
    let table = table(&jpeg, 8).unwrap();
    assert!(Decoder::new(small).region(&jpeg, Some(&table), &wanted, &mut pixels).is_err());
}

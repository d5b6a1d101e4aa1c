//! Small images of every kind, mostly made here.
#![allow(dead_code, reason = "not every test needs all")]

use image::{DynamicImage, ImageFormat, codecs::gif::GifEncoder};
use jpeg_encoder::{ColorType, Encoder, SamplingFactor};
use shardpack_format::{image_header::Kind, npy};

pub const WIDTH: u32 = 20;
pub const HEIGHT: u32 = 14;

/// Lossy, by Pillow 13.0.0.
const LOSSY_WEBP: &[u8] = b"\
    RIFFR\x00\x00\x00WEBPVP8 F\x00\x00\x00P\x03\x00\x9D\x01*\x14\x00\x0E\x00.\xF9\x9C\xCEg'///\x0F\x00\xF8K`\x04\xE9\
    \x94#\xC0\xC2\xA3\xBF\x94\xE5\x80\x00\xFE\xEE\xDC\xEF\xC7;\xA3\x00\xAB\x1B\xA8\xE8\xBD\x16d\xA3\xDE]4\x80sI\xF4\
    \xFC\xDB\x16X\xA5G\xA0d\x00\x00\x00";

/// Four colours, one transparent, 2 bits a pixel, by Pillow 13.0.0.
const PALETTE_PNG: &[u8] = b"\
    \x89PNG\x0D\x0A\x1A\x0A\x00\x00\x00\x0DIHDR\x00\x00\x00\x14\x00\x00\x00\x0E\x02\x03\x00\x00\x00R\xAA\xD4c\x00\
    \x00\x00\x0CPLTEr\xC6ir~C\xA8-#0-\x0A\x11\x17\xC8\xE6\x00\x00\x00\x02tRNS\xFF\x00\xE5\xB70J\x00\x00\x009IDATx\
    \x9C]\xC41\x0A\x800\x10\x00\xB0\xB4\xE8\xFF\xBAX\xFC\xA3\xCB=\xCD\xB1P\xE89\x89`\x86\x944C\x85\xEF\xFB\xBD\xE4:\
    \xF7V\x0D3Jv\xD4\x85k\x1Bfp4h~\x1E\x17\x88\x10\x81jG\x17D\x00\x00\x00\x00IEND\xAEB`\x82";

/// `[HEIGHT, WIDTH, 3] uint8`, RGB: smooth in two channels.
pub fn rgb() -> Vec<u8> {
    let pixel =
        |at: u32| [at % WIDTH * 12, at / WIDTH * 18, 40 + (at % WIDTH) * (at / WIDTH) / 2].map(|level| level as u8);
    (0..WIDTH * HEIGHT).flat_map(pixel).collect()
}

fn picture() -> DynamicImage {
    DynamicImage::ImageRgb8(image::RgbImage::from_raw(WIDTH, HEIGHT, rgb()).unwrap())
}

pub fn by_image(image: &DynamicImage, format: ImageFormat) -> Vec<u8> {
    let mut bytes = std::io::Cursor::new(Vec::new());
    image.write_to(&mut bytes, format).unwrap();
    bytes.into_inner()
}

pub fn jpeg(pixels: &[u8], color: ColorType, set: impl FnOnce(&mut Encoder<&mut Vec<u8>>)) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut encoder = Encoder::new(&mut bytes, 90);
    set(&mut encoder);
    encoder.encode(pixels, WIDTH as u16, HEIGHT as u16, color).unwrap();
    bytes
}

/// Name, kind, bytes.
pub fn all() -> Vec<(&'static str, Kind, Vec<u8>)> {
    let image = picture();
    let (pixels, grey) = (rgb(), image.to_luma8().into_raw());
    // Adobe's way: inverted, here without black.
    let cmyk: Vec<u8> = pixels.chunks(3).flat_map(|pixel| [pixel[0], pixel[1], pixel[2], 255]).collect();
    let mut animation = Vec::new();
    let frame = || image::Frame::new(image.to_rgba8());
    GifEncoder::new(&mut animation).encode_frames([frame(), frame()]).unwrap();
    let array = |shape: &[u64]| [npy::head("|u1", shape, false), pixels.clone()].concat();
    let plain: Vec<_> = grey.iter().map(u8::to_string).collect();
    let png = |image: DynamicImage| by_image(&image, ImageFormat::Png);
    vec![
        ("jpeg", Kind::Jpeg, jpeg(&pixels, ColorType::Rgb, |_| ())),
        ("jpeg, 4:2:0", Kind::Jpeg, jpeg(&pixels, ColorType::Rgb, |to| to.set_sampling_factor(SamplingFactor::F_2_2))),
        ("jpeg, grey", Kind::Jpeg, jpeg(&grey, ColorType::Luma, |_| ())),
        ("jpeg, progressive", Kind::Jpeg, jpeg(&pixels, ColorType::Rgb, |to| to.set_progressive(true))),
        ("jpeg, restarts", Kind::Jpeg, jpeg(&pixels, ColorType::Rgb, |to| to.set_restart_interval(1))),
        ("jpeg, cmyk", Kind::Jpeg, inverted(&cmyk, ColorType::Cmyk)),
        ("jpeg, ycck", Kind::Jpeg, inverted(&cmyk, ColorType::CmykAsYcck)),
        ("png", Kind::Png, png(image.clone())),
        ("png, grey", Kind::Png, png(image.to_luma8().into())),
        ("png, grey and alpha", Kind::Png, png(image.to_luma_alpha8().into())),
        ("png, alpha", Kind::Png, png(image.to_rgba8().into())),
        ("png, 16 bits", Kind::Png, png(image.to_rgb16().into())),
        ("png, 16 bits, grey", Kind::Png, png(image.to_luma16().into())),
        ("png, palette", Kind::Png, PALETTE_PNG.to_vec()),
        ("webp, lossless", Kind::Webp, by_image(&image, ImageFormat::WebP)),
        ("webp, lossy", Kind::Webp, LOSSY_WEBP.to_vec()),
        ("gif", Kind::Gif, by_image(&image, ImageFormat::Gif)),
        ("gif, two frames", Kind::Gif, animation),
        ("bmp", Kind::Bmp, by_image(&image, ImageFormat::Bmp)),
        ("tiff", Kind::Tiff, by_image(&image, ImageFormat::Tiff)),
        ("tiff, 16 bits", Kind::Tiff, by_image(&image.to_rgb16().into(), ImageFormat::Tiff)),
        ("ppm", Kind::Pnm, [format!("P6 {WIDTH} {HEIGHT} 255\n").as_bytes(), &pixels].concat()),
        // The newline ends the last number.
        ("pgm, plain", Kind::Pnm, format!("P2 {WIDTH} {HEIGHT} 255\n{}\n", plain.join(" ")).into_bytes()),
        ("array", Kind::Npy, array(&[HEIGHT.into(), WIDTH.into(), 3])),
    ]
}

/// A JPEG of four inks. The encoder inverts its input, as Adobe does.
fn inverted(inks: &[u8], color: ColorType) -> Vec<u8> {
    let inks: Vec<u8> = inks.iter().map(|ink| 255 - ink).collect();
    jpeg(&inks, color, |_| ())
}

/// A file of fixtures/photos.
pub fn photo(name: &str) -> Vec<u8> {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/photos").join(name);
    std::fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Names and bytes of the files in fixtures/photos.
pub fn photos() -> Vec<(String, Vec<u8>)> {
    let mut names = Vec::new();
    for folder in ["animals", "people", "space", "space/galaxies", "textures", "things"] {
        let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/photos").join(folder);
        let files = std::fs::read_dir(path).unwrap().map(|entry| entry.unwrap()).filter(|entry| entry.path().is_file());
        names.extend(files.map(|entry| format!("{folder}/{}", entry.file_name().to_str().unwrap())));
    }
    names.sort();
    names.into_iter().map(|name| (name.clone(), photo(&name))).collect()
}

//! Images that are changed on the way (fixed, rotated, resized, re-encoded) or checked in full.
//!
//! The tests decode the output with the `image` crate and compare pixels; they do not rely on the packer's report.

use std::{
    fs,
    io::Cursor,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use image::{DynamicImage, GenericImageView, ImageFormat};
use shardpack_source::ledger::Fate;
use shardpack_testing::{Bench, Dataset, binary, contents, jpeg, photos, png, run};

fn encoded(image: &DynamicImage, format: ImageFormat) -> Vec<u8> {
    let mut out = Cursor::new(Vec::new());
    image.write_to(&mut out, format).unwrap();
    out.into_inner()
}

/// A `width` × `height` picture with a gradient in two colours.
fn slope(width: u32, height: u32) -> DynamicImage {
    let pixel = |x: u32, y: u32| image::Rgb([(x * 255 / width) as u8, (y * 255 / height) as u8, 128]);
    DynamicImage::ImageRgb8(image::RgbImage::from_fn(width, height, pixel))
}

/// The decoded image of a sample.
fn decoded(dataset: &Dataset, path: &str) -> (ImageFormat, DynamicImage) {
    let bytes = dataset.samples.iter().find(|sample| sample.path == path.as_bytes()).unwrap().image();
    (image::guess_format(bytes).unwrap(), image::load_from_memory(bytes).unwrap())
}

fn bytes_of<'d>(dataset: &'d Dataset, path: &str) -> &'d [u8] {
    dataset.samples.iter().find(|sample| sample.path == path.as_bytes()).unwrap().image()
}

/// Photographs, and images that loaders fail on.
fn odd() -> Bench {
    let bench = Bench::new();
    bench.file("a/good.jpg", &jpeg(0, 5000));
    bench.file("a/spoon.png", &png());
    bench.file("a/gif.jpg", &encoded(&slope(40, 30), ImageFormat::Gif));
    bench.file("b/slope.bmp", &encoded(&slope(40, 30), ImageFormat::Bmp));
    let deep = DynamicImage::ImageRgb16(slope(40, 30).to_rgb16());
    bench.file("b/deep.png", &encoded(&deep, ImageFormat::Png));
    bench.file("b/cmyk.jpg", &cmyk());
    bench.file("b/named.jpg", &png());
    bench
}

/// The only CMYK photograph.
fn cmyk() -> Vec<u8> {
    let mut all = fs::read_dir(photos()).unwrap().flat_map(|class| fs::read_dir(class.unwrap().path()).unwrap());
    let is_cmyk = |bytes: &Vec<u8>| shardpack_format::image_header::Header::parse(bytes).mode.name() == "cmyk";
    all.find_map(|file| fs::read(file.unwrap().path()).ok().filter(is_cmyk)).unwrap()
}

#[test]
fn only_what_loaders_stumble_over_is_fixed_and_the_ledger_names_it() {
    let bench = odd();
    bench.pack(&["--fix"]).code(0).says("images changed: ");
    let dataset = Dataset::read(&bench.dst());
    assert_eq!(bytes_of(&dataset, "a/good.jpg"), jpeg(0, 5000));
    assert_eq!(bytes_of(&dataset, "a/spoon.png"), png());
    // A file named .jpg becomes a JPEG.
    for path in ["a/gif.jpg", "b/named.jpg"] {
        assert_eq!(decoded(&dataset, path).0, ImageFormat::Jpeg, "{path}");
    }
    for path in ["b/slope.bmp", "b/deep.png"] {
        let (format, image) = decoded(&dataset, path);
        assert_eq!(
            (format, image.dimensions(), image.color().bits_per_pixel() / u16::from(image.color().channel_count())),
            (ImageFormat::Png, (40, 30), 8),
            "{path}"
        );
    }
    assert_eq!(decoded(&dataset, "b/slope.bmp").1.to_rgb8(), slope(40, 30).to_rgb8());
    let (format, image) = decoded(&dataset, "b/cmyk.jpg");
    assert_eq!((format, image.color()), (ImageFormat::Jpeg, image::ColorType::Rgb8));
    let kept: Vec<_> =
        dataset.unpacked().into_iter().map(|(path, fate, reason)| (path, fate == Fate::Kept, reason)).collect();
    assert_eq!(
        kept.iter().map(|line| line.0.as_str()).collect::<Vec<_>>(),
        ["a/gif.jpg", "b/cmyk.jpg", "b/deep.png", "b/named.jpg", "b/slope.bmp"]
    );
    assert!(kept.iter().all(|line| line.1 && line.2.starts_with("changed: ")), "{kept:?}");
    assert!(dataset.manifest.recipe.as_ref().unwrap().starts_with("fix, "));
    run(&["verify", bench.dst().to_str().unwrap()]).code(0);
    run(&["inspect", bench.dst().to_str().unwrap()]).code(0).says("changed fix, quality 90, icc (");
    let src = bench.src();
    run(&["verify", bench.dst().to_str().unwrap(), "--against", src.to_str().unwrap()])
        .code(2)
        .says("its images were changed when they were packed")
        .clean_error();
}

#[test]
fn resized_images_have_the_shorter_side_that_was_asked_for_and_small_ones_stay_as_they_are() {
    let bench = Bench::new();
    bench.file("a/wide.jpg", &encoded(&slope(300, 200), ImageFormat::Jpeg));
    bench.file("a/tall.png", &encoded(&slope(100, 301), ImageFormat::Png));
    bench.file("a/small.jpg", &encoded(&slope(50, 70), ImageFormat::Jpeg));
    bench.pack(&["--resize", "64"]).code(0).says("images changed: 2 resized");
    let dataset = Dataset::read(&bench.dst());
    assert_eq!(decoded(&dataset, "a/wide.jpg").1.dimensions(), (96, 64));
    let (format, tall) = decoded(&dataset, "a/tall.png");
    assert_eq!((format, tall.dimensions()), (ImageFormat::Png, (64, 192)));
    assert_eq!(bytes_of(&dataset, "a/small.jpg"), encoded(&slope(50, 70), ImageFormat::Jpeg));
    // The pixels are still those of the gradient.
    let (near, far) = (tall.get_pixel(2, 2), tall.get_pixel(61, 189));
    assert!(near[0] < 20 && near[1] < 20 && far[0] > 235 && far[1] > 235, "{near:?} {far:?}");

    bench.pack_to(&bench.at("exact"), &["--resize", "32x48", "--encode", "webp"]).code(0);
    let exact = Dataset::read(&bench.at("exact"));
    for path in ["a/wide.jpg", "a/tall.png", "a/small.jpg"] {
        let (format, image) = decoded(&exact, path);
        assert_eq!((format, image.dimensions()), (ImageFormat::WebP, (32, 48)), "{path}");
    }
    assert_eq!(exact.manifest.components[0], "webp");
}

#[test]
fn what_is_changed_is_the_same_on_any_number_of_threads_and_in_every_format() {
    let bench = Bench::new();
    for (number, file) in contents(&photos()).into_keys().filter(|path| path.extension().is_some()).enumerate() {
        bench.file(format!("c{}/{number:02}.jpg", number % 3), &fs::read(photos().join(&file)).unwrap());
    }
    let options = ["--resize", "100", "--fix", "--rotate", "--shards", "3"];
    bench.pack(&[&options[..], &["--jobs", "1"]].concat()).code(0);
    bench.pack_to(&bench.at("two"), &[&options[..], &["--jobs", "2"]].concat()).code(0);
    assert_eq!(contents(&bench.dst()), contents(&bench.at("two")));
    let both = ["--format", "webdataset", "--format", "tfrecord"];
    bench.pack_to(&bench.at("both"), &[&options[..], &both].concat()).code(0);
    assert_eq!(contents(&bench.at("both/webdataset")), contents(&bench.dst()));
    assert_eq!(shardpack_testing::images(&bench.at("both/tfrecord")), shardpack_testing::images(&bench.dst()));
    // The same command has nothing to do, and changes no image to detect this.
    bench.pack(&options).code(0).says("are packed here already").says_not("images changed").says_not("0 shards");
    bench.pack(&["--resize", "99"]).code(2).says("--rotate): was changed by fix, rotate, resize 100").clean_error();
    bench.pack(&["--resize", "99", "--force"]).code(0);
    assert!(!bench.dst().join(".shardpack").exists());
}

#[test]
fn an_image_that_cannot_be_changed_is_bad_and_never_packed_as_it_was() {
    let bench = Bench::with(&["a/1.jpg", "a/2.jpg"]);
    let whole = jpeg(3, 5000);
    let cut = &whole[..whole.len() / 2];
    bench.file("a/cut.jpg", cut);
    bench.file("a/cut-with-end.jpg", &[cut, b"\xff\xd9"].concat());
    bench.file("a/text.jpg", b"no image");
    bench
        .pack(&["--resize", "32"])
        .code(1)
        .says("a/cut.jpg: JPEG does not decode")
        .says("a/cut-with-end.jpg: JPEG does not decode")
        .says("a/text.jpg: no image by its first bytes");
    assert!(!bench.dst().join("manifest.json").exists());
    bench.pack(&["--resize", "32", "--on-bad", "skip"]).code(0);
    let dataset = Dataset::read(&bench.dst());
    assert_eq!(dataset.paths(), ["a/1.jpg", "a/2.jpg"]);
    assert_eq!(dataset.manifest.ledger.counts.skipped, 3);
}

#[test]
fn where_no_image_can_be_changed_the_first_is_named_with_the_reason() {
    let bench = Bench::new();
    bench.file("a/1.jpg", b"no image");
    bench.file("a/2.jpg", b"none either");
    for options in [&["--resize", "32"][..], &["--fix", "--on-bad", "skip"]] {
        bench
            .pack(options)
            .code(1)
            .says("none of 2 images can be packed, the first: a/1.jpg: no image by its first bytes")
            .says_not("ImageFolder")
            .clean_error();
    }
    let list = bench.at("list.csv");
    fs::write(&list, "path,label\nnowhere/1.jpg,0\nnowhere/2.jpg,1\n").unwrap();
    run(&["pack", list.to_str().unwrap(), bench.dst().to_str().unwrap()])
        .code(1)
        .says("none of 2 images can be packed, the first: nowhere/1.jpg: ")
        .says_not("ImageFolder");
}

/// A TIFF with ICC Lab pixels, which no decoder here supports: 4 × 4, one strip, little-endian.
fn lab() -> Vec<u8> {
    let tags: [(u16, u32); 8] = [(256, 4), (257, 4), (258, 8), (259, 1), (262, 9), (273, 110), (277, 3), (279, 48)];
    let mut bytes = b"II\x2A\0\x08\0\0\0\x08\0".to_vec();
    for (tag, value) in tags {
        bytes.extend_from_slice(&tag.to_le_bytes());
        bytes.extend_from_slice(b"\x04\0\x01\0\0\0");
        bytes.extend_from_slice(&value.to_le_bytes());
    }
    bytes.resize(110 + 48, 0);
    bytes
}

#[test]
fn what_cannot_be_fixed_is_refused_by_what_it_is_and_never_kept_in_silence() {
    let bench = Bench::with(&["a/1.jpg"]);
    bench.file("a/lab.tif", &lab());
    bench.file("a/slope.tif", &tiff(&slope(40, 30)));
    let refused = "a/lab.tif: TIFF: ICC Lab TIFF is not decoded here";
    for options in [&["--fix"][..], &["--check", "full"], &["--encode", "png"]] {
        bench.pack(&[options, &["--force"]].concat()).code(1).says(refused);
    }
    for options in [&["--fix"][..], &["--check", "full"], &["--encode", "png"]] {
        bench.pack(&[options, &["--on-bad", "skip", "--force"]].concat()).code(0);
        let dataset = Dataset::read(&bench.dst());
        assert_eq!(dataset.paths(), ["a/1.jpg", "a/slope.tif"], "{options:?}");
        let line = dataset.unpacked().into_iter().find(|line| line.0 == "a/lab.tif").unwrap();
        assert_eq!((line.1, line.2), (Fate::Skipped, "TIFF: ICC Lab TIFF is not decoded here".to_owned()));
    }
    // Without an option that decodes, such an image is packed unchanged. `verify --decode` counts it and does not report damage.
    bench.file("a/lab-2.tif", &lab());
    bench.file("a/new.jpg", &[&b"\0\0\0\x1Cftypavif\0\0\0\0avifmif1miaf"[..], &[7; 500]].concat());
    for options in [&["--force"][..], &["--force", "--format", "tfrecord"], &["--force", "--compress", "zstd"]] {
        bench.pack(options).code(0);
        let dst = bench.dst();
        let (dst, shards) = (dst.to_str().unwrap(), bench.at("shards"));
        let ran = run(&["verify", dst, "--decode"]).code(0).says("ok      5 samples");
        ran.says("unsure  2 images, only the headers checked: TIFF: ICC Lab TIFF is not decoded here")
            .says("unsure  1 image, only the headers checked: AVIF cannot be decoded here");
        let expected =
            serde_json::json!({"TIFF: ICC Lab TIFF is not decoded here": 2, "AVIF cannot be decoded here": 1});
        let json = run(&["verify", dst, "--decode", "--json"]).code(0).json();
        assert_eq!((&json["not_decoded"], &json["problems"]), (&expected, &serde_json::json!([])));
        run(&["verify", dst]).code(0).says_not("unsure");
        // The same with shards without a manifest.
        let _ = fs::remove_dir_all(&shards);
        fs::create_dir(&shards).unwrap();
        let manifest: serde_json::Value =
            serde_json::from_slice(&fs::read(bench.dst().join("manifest.json")).unwrap()).unwrap();
        for shard in manifest["shards"].as_array().unwrap() {
            let file = shard["file"].as_str().unwrap();
            fs::copy(bench.dst().join(file), shards.join(file)).unwrap();
        }
        let json = run(&["verify", shards.to_str().unwrap(), "--decode", "--json"]).code(0).json();
        assert_eq!((&json["not_decoded"], &json["problems"]), (&expected, &serde_json::json!([])), "{options:?}");
    }
}

/// A TIFF with one strip that holds the pixels of `image`.
fn tiff(image: &DynamicImage) -> Vec<u8> {
    let rgb = image.to_rgb8();
    let (width, height) = rgb.dimensions();
    let tags =
        [(256, width), (257, height), (258, 8), (259, 1), (262, 2), (273, 110), (277, 3), (279, 3 * width * height)];
    let mut bytes = b"II\x2A\0\x08\0\0\0\x08\0".to_vec();
    for (tag, value) in tags {
        bytes.extend_from_slice(&u16::to_le_bytes(tag));
        bytes.extend_from_slice(b"\x04\0\x01\0\0\0");
        bytes.extend_from_slice(&value.to_le_bytes());
    }
    bytes.resize(110, 0);
    bytes.extend_from_slice(&rgb);
    bytes
}

#[test]
fn checked_whole_a_truncated_image_is_bad_and_else_it_is_packed() {
    let bench = Bench::with_source(12, 3000);
    let whole = jpeg(3, 9000);
    bench.file("class-0/cut.jpg", &whole[..whole.len() - 300]);
    bench.pack_to(&bench.at("header"), &[]).code(0);
    for order in ["plan", "physical"] {
        let options = ["--check", "full", "--read-order", order];
        let dst = bench.at(order);
        bench.pack_to(&dst, &options).code(1).says("class-0/cut.jpg: JPEG does not decode");
        bench.pack_to(&dst, &[&options[..], &["--on-bad", "skip"]].concat()).code(0);
        let dataset = Dataset::read(&dst);
        assert_eq!(dataset.manifest.ledger.counts.skipped, 1);
        assert_eq!(dataset.samples.len(), 12);
    }
    assert_eq!(contents(&bench.at("plan")), contents(&bench.at("physical")));
    // A pack with a weaker check does not count as a pack with the full check.
    bench.pack_to(&bench.at("header"), &["--check", "full"]).code(2).says("holds another dataset");
}

/// The bytes of a photograph, with some bytes in the middle of its codes replaced.
fn with_bad_codes(photo: &[u8]) -> Vec<u8> {
    let mut bytes = photo.to_vec();
    let at = bytes.len() / 2;
    bytes[at..at + 64].fill(0xFE);
    bytes
}

#[test]
fn codes_that_are_missing_or_damaged_are_found_without_decoding() {
    let photo = |name: &str| fs::read(photos().join(name)).unwrap();
    let (baseline, progressive) = (photo("animals/cat.jpg"), photo("space/deep-field.jpg"));
    let png = photo("things/spoon.png");
    let end = &[0xFF, 0xD9];
    let cut = |bytes: &[u8]| [&bytes[..bytes.len() / 2], end].concat();
    let mut bad_png = png.clone();
    bad_png[png.len() / 2] ^= 1;
    // Expected message, and the file.
    let rows: [(&str, Option<&str>, Vec<u8>); 10] = [
        ("whole.jpg", None, baseline.clone()),
        ("progressive.jpg", None, progressive.clone()),
        ("whole.png", None, png),
        ("cut.jpg", Some("JPEG does not decode: byte "), baseline[..baseline.len() / 2].to_vec()),
        // Most decoders accept the three that have an end.
        ("bad-codes.jpg", Some("JPEG does not decode: byte "), with_bad_codes(&baseline)),
        ("cut-with-end.jpg", Some(": truncated"), cut(&baseline)),
        ("cut-progressive-with-end.jpg", Some(": truncated"), cut(&progressive)),
        ("cut-progressive.jpg", Some(": truncated"), progressive[..progressive.len() / 2].to_vec()),
        ("without-end.jpg", Some(": truncated"), baseline[..baseline.len() - 2].to_vec()),
        ("bad.png", Some("PNG does not decode: "), bad_png),
    ];
    let bench = Bench::new();
    for (name, _, bytes) in &rows {
        bench.file(format!("a/{name}"), bytes);
    }
    let bad: Vec<_> = rows.iter().filter_map(|(name, said, _)| said.map(|said| (name, said))).collect();
    for check in ["entropy", "full"] {
        let ran = bench.pack_to(&bench.at(check), &["--check", check]).code(1);
        for (name, said) in &bad {
            let line = ran.stdout.lines().chain(ran.stderr.lines()).find(|line| line.contains(&format!("a/{name}: ")));
            assert!(line.is_some_and(|line| line.contains(said)), "{name}: {}{}", ran.stdout, ran.stderr);
        }
    }
    for jobs in ["1", "2", "7"] {
        bench.pack(&["--check", "entropy", "--on-bad", "skip", "--jobs", jobs, "--force"]).code(0);
        let dataset = Dataset::read(&bench.dst());
        assert_eq!(dataset.paths(), ["a/progressive.jpg", "a/whole.jpg", "a/whole.png"]);
        let counts = dataset.manifest.ledger.counts;
        assert_eq!((counts.discovered, counts.packed, counts.skipped), (10, 3, 7));
        let named: Vec<String> = dataset.unpacked().into_iter().map(|line| line.0).collect();
        for (name, _) in &bad {
            assert!(named.contains(&format!("a/{name}")), "{name}: {named:?}");
        }
    }
    // The good images get tables, and none is damaged.
    run(&["crops", bench.dst().to_str().unwrap()]).code(0);
    // Another check makes another dataset. `plan` accepts the option too.
    bench.pack(&["--check", "full"]).code(2).says("holds another dataset");
    let (src, other) = (bench.src(), bench.at("other"));
    let [src, other] = [&src, &other].map(|path| path.to_str().unwrap());
    run(&["plan", src, other, "--check", "entropy"]).code(0);
}

#[test]
fn images_that_look_alike_are_named_and_stay() {
    let bench = Bench::new();
    let photo = image::load_from_memory(&fs::read(photos().join("space/deep-field-left.jpg")).unwrap()).unwrap();
    let cat = image::load_from_memory(&jpeg(0, 5000)).unwrap();
    bench.file("a/photo.png", &encoded(&photo, ImageFormat::Png));
    let half = photo.resize_exact(photo.width() / 2, photo.height() / 2, image::imageops::FilterType::Triangle);
    bench.file("b/smaller.jpg", &encoded(&half, ImageFormat::Jpeg));
    bench.file("b/other.jpg", &encoded(&cat, ImageFormat::Jpeg));
    bench.file("b/text.jpg", b"\xff\xd8\xffno image");
    bench.pack(&["--near-duplicates"]).code(0).says("1 image looks like another");
    let dataset = Dataset::read(&bench.dst());
    assert_eq!(dataset.samples.len(), 4);
    let lines = dataset.unpacked();
    assert_eq!(lines.len(), 1, "{lines:?}");
    assert!(lines[0].1 == Fate::Kept && lines[0].2.starts_with("looks like "), "{lines:?}");
}

#[test]
fn shards_can_be_changed_too_and_a_plan_alone_cannot() {
    let bench = Bench::new();
    for number in 0..5 {
        bench.file(format!("a/{number}.jpg"), &encoded(&slope(100 + number, 80), ImageFormat::Jpeg));
    }
    bench.pack_to(&bench.at("large"), &[]).code(0);
    let (large, small) = (bench.at("large"), bench.at("small"));
    let convert = |source: &Path, dst: &Path| {
        run(&["convert", source.to_str().unwrap(), dst.to_str().unwrap(), "--resize", "40", "--order", "source"])
            .code(0);
        shardpack_testing::images(dst)
    };
    let of_sealed = convert(&large, &small);
    assert!(of_sealed.iter().all(|(_, bytes)| image::load_from_memory(bytes).unwrap().height() == 40));
    assert_eq!(convert(&large.join("shard-000000.tar"), &bench.at("of-tar")), of_sealed);
    bench.pack_to(&bench.at("direct"), &["--resize", "40"]).code(0);
    assert_eq!(shardpack_testing::images(&bench.at("direct")), of_sealed);

    let src = bench.src();
    run(&["plan", src.to_str().unwrap(), "x", "--resize", "40"])
        .code(2)
        .says("are known only after the images are changed")
        .clean_error();
    bench
        .pack_to(&bench.at("none"), &["--quality", "50"])
        .code(2)
        .says("are for images that are changed")
        .clean_error();
    bench.pack_to(&bench.at("dry"), &["--resize", "40", "--dry-run"]).code(2).clean_error();
    assert!(!bench.at("dry").exists());
}

/// Runs `pack` and kills it once the spool has this many bytes; returns whether `pack` was still running.
fn killed_at(bench: &Bench, options: &[&str], bytes: u64) -> bool {
    let spool: PathBuf = bench.dst().join(".shardpack/made");
    let mut child = Command::new(binary())
        .arg("pack")
        .args([bench.src(), bench.dst()])
        .args(options)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let start = Instant::now();
    loop {
        if child.try_wait().unwrap().is_some() {
            return false;
        }
        if fs::metadata(&spool).is_ok_and(|spool| spool.len() >= bytes) {
            child.kill().unwrap();
            child.wait().unwrap();
            return true;
        }
        assert!(start.elapsed() < Duration::from_secs(60), "no spool");
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn a_run_that_was_killed_goes_on_with_what_was_made_and_gives_the_same_bytes() {
    let bench = Bench::new();
    for number in 0..60 {
        bench.file(format!("a/{number}.png"), &encoded(&slope(400 + number, 300), ImageFormat::Png));
    }
    let options = ["--resize", "100", "--jobs", "1"];
    bench.pack_to(&bench.at("whole"), &options).code(0);
    let was_running = killed_at(&bench, &options, 20_000);
    assert!(was_running || bench.dst().join("manifest.json").exists());
    if was_running {
        assert!(!bench.dst().join("manifest.json").exists());
    }
    bench.pack(&options).code(0);
    assert_eq!(contents(&bench.dst()), contents(&bench.at("whole")));
}

#[test]
fn a_pack_of_something_else_is_refused_before_an_image_is_changed() {
    let bench = Bench::with(&["a/1.jpg", "a/2.jpg"]);
    bench.file("a/text.jpg", b"no image");
    // A bad image, so that the plan stays.
    bench.pack(&["--check", "full"]).code(1);
    bench
        .pack(&["--resize", "32"])
        .code(2)
        .says("holds an unfinished pack of something else: --check: was full, is now header")
        .clean_error();
    assert!(!bench.dst().join(".shardpack/made").exists());
    bench.pack(&["--resize", "32", "--on-bad", "skip", "--force"]).code(0);
    assert_eq!(Dataset::read(&bench.dst()).paths(), ["a/1.jpg", "a/2.jpg"]);
}

/// The image three times, as a GIF.
fn animation(image: &DynamicImage) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut encoder = image::codecs::gif::GifEncoder::new(&mut bytes);
    for _ in 0..3 {
        encoder.encode_frame(image::Frame::new(image.to_rgba8())).unwrap();
    }
    drop(encoder);
    bytes
}

/// A TIFF with two pages: the second directory repeats the first.
fn two_pages(image: &DynamicImage) -> Vec<u8> {
    let mut bytes = tiff(image);
    let (count, entries) = (8, 10..10 + 8 * 12);
    let second = [&bytes[count..count + 2], &bytes[entries.clone()], &[0; 4]].concat();
    let at = u32::try_from(bytes.len()).unwrap();
    bytes[entries.end..entries.end + 4].copy_from_slice(&at.to_le_bytes());
    bytes.extend(second);
    bytes
}

#[test]
fn pages_and_frames_that_a_change_leaves_out_are_counted() {
    for (option, value) in [("--fix", ""), ("--encode", "png"), ("--resize", "8")] {
        let bench = Bench::new();
        bench.file("a/still.png", &encoded(&slope(40, 30), ImageFormat::Gif));
        bench.file("a/moves.png", &animation(&slope(40, 30)));
        bench.file("a/page.tif", &tiff(&slope(40, 30)));
        bench.file("a/pages.tif", &two_pages(&slope(40, 30)));
        let options: Vec<&str> = [option, value].into_iter().filter(|word| !word.is_empty()).collect();
        let said = bench.pack(&[&options[..], &["--json"]].concat()).code(0).json();
        let note = "2 images had more pages or frames: only the first of each was kept";
        assert!(said["notes"].as_array().unwrap().contains(&note.into()), "{option}: {said}");
    }
    let bench = Bench::new();
    bench.file("a/moves.png", &animation(&slope(40, 30)));
    bench.pack(&["--fix"]).code(0).says("1 image had more pages or frames");
    let kept = Dataset::read(&bench.dst()).unpacked();
    assert_eq!(kept[0].2, "changed: GIF to PNG, first of several pages or frames");
}

#[test]
fn columns_that_only_together_say_where_something_is_are_not_left_behind() {
    let rows = [
        ("Width,Height,Roi.X1,Roi.Y1,Roi.X2,Roi.Y2", "32,24,1,2,3,4", false),
        ("x,y,w,h", "1,2,3,4", false),
        ("x1,y1,x2,y2", "1,2,3,4", false),
        ("lefteye_x,lefteye_y", "1,2", false),
        ("EncodedPixels", "1 3 5 7", false),
        ("points", "1 2 3 4", false),
        ("center_x,center_y", "3,4", false),
        ("x,width,height", "1,2,3", true),
        ("x,y", "1,2", true),
        ("points,h", "12,2", true),
    ];
    for (columns, values, is_fine) in rows {
        let bench = Bench::new();
        bench.file("a.jpg", &jpeg(0, 5000));
        bench.file("list.csv", format!("path,{columns},label\na.jpg,{values},cat\n").as_bytes());
        let (list, dst) = (bench.src().join("list.csv"), bench.dst());
        let ran = run(&["pack", list.to_str().unwrap(), dst.to_str().unwrap(), "--resize", "8"]);
        match is_fine {
            true => drop(ran.code(0)),
            false => drop(ran.code(2).clean_error().says("holds positions in the images").says("--meta none")),
        }
    }
}

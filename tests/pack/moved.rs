//! Masks, depth, boxes and key points that `--resize` and `--rotate` move with their images, compared with a slow computation for each
//! pixel and number.

use std::{collections::BTreeMap, fs, io::Cursor, path::Path};

use image::{DynamicImage, ImageBuffer, ImageFormat, Luma};
use shardpack_format::npy;
use shardpack_reader::Dataset;
use shardpack_testing::{Bench, contents, run, shards::Tar};

/// A sample with an image of this size and orientation, and components beside it.
#[derive(Clone, Copy)]
struct Sample {
    width: u32,
    height: u32,
    orientation: u8,
}

const SAMPLES: [Sample; 5] = [
    Sample { width: 48, height: 36, orientation: 1 },
    Sample { width: 40, height: 60, orientation: 6 },
    Sample { width: 64, height: 32, orientation: 3 },
    Sample { width: 24, height: 48, orientation: 5 },
    // Its shorter side is that of the resized images.
    Sample { width: 12, height: 20, orientation: 1 },
];

fn encoded(image: &DynamicImage, format: ImageFormat) -> Vec<u8> {
    let mut out = Cursor::new(Vec::new());
    image.write_to(&mut out, format).unwrap();
    out.into_inner()
}

impl Sample {
    fn image(self) -> Vec<u8> {
        let pixel = |x: u32, y: u32| image::Rgb([(x * 5 % 256) as u8, (y * 4 % 256) as u8, 128]);
        let jpeg = encoded(
            &DynamicImage::ImageRgb8(image::RgbImage::from_fn(self.width, self.height, pixel)),
            ImageFormat::Jpeg,
        );
        // Exif with one entry, the orientation, behind the start of the image.
        let tiff = [b"MM\0\x2A\0\0\0\x08\0\x01\x01\x12\0\x03\0\0\0\x01\0", &[self.orientation][..], &[0; 6]].concat();
        let length = (2 + 6 + tiff.len() as u16).to_be_bytes();
        [&jpeg[..2], b"\xff\xe1", &length, b"Exif\0\0", &tiff, &jpeg[2..]].concat()
    }

    /// The level of a mask at `x`, `y` of the stored image.
    fn level(x: u32, y: u32) -> u8 {
        (x * 31 % 7 + y * 17 % 13 * 7) as u8
    }

    fn mask(self) -> Vec<u8> {
        let image = ImageBuffer::from_fn(self.width, self.height, |x, y| Luma([Self::level(x, y)]));
        encoded(&DynamicImage::ImageLuma8(image), ImageFormat::Png)
    }

    fn deep(self) -> Vec<u8> {
        let level = |x, y| Luma([u16::from(Self::level(x, y)) * 700 + 3]);
        encoded(&DynamicImage::ImageLuma16(ImageBuffer::from_fn(self.width, self.height, level)), ImageFormat::Png)
    }

    fn depth(self) -> Vec<u8> {
        let all = (0..self.height).flat_map(|y| (0..self.width).map(move |x| f32::from(Self::level(x, y)) / 3.0));
        array(&[self.height.into(), self.width.into()], &all.collect::<Vec<_>>())
    }

    fn boxes(self) -> Vec<[f32; 4]> {
        let (width, height) = (self.width as f32, self.height as f32);
        vec![[1.0, 2.0, 9.5, 11.25], [0.0, 0.0, width, height], [3.0, 4.0, 3.0, 4.0]]
    }

    /// Width and height after `--rotate`, and after `--resize 12` too.
    fn sizes(self, rotates: bool) -> ([u32; 2], [u32; 2]) {
        let swaps = rotates && self.orientation > 4;
        let seen = if swaps { [self.height, self.width] } else { [self.width, self.height] };
        let (short, long) = (self.width.min(self.height), self.width.max(self.height));
        let to = |side: u32| if side == short { 12 } else { 12 * long / short };
        (seen, if self.width.min(self.height) <= 12 { seen } else { seen.map(to) })
    }

    /// The stored pixel that is seen at `x`, `y` after `--rotate`.
    fn stored(self, rotates: bool, [x, y]: [u32; 2]) -> [u32; 2] {
        let [right, bottom] = [self.width - 1, self.height - 1];
        match if rotates { self.orientation } else { 1 } {
            1 => [x, y],
            3 => [right - x, bottom - y],
            5 => [y, x],
            6 => [y, bottom - x],
            other => panic!("{other}"),
        }
    }

    /// The levels after the change, and the new size.
    fn levels_after(self, rotates: bool) -> ([u32; 2], Vec<u8>) {
        let (seen, to) = self.sizes(rotates);
        let mut levels = Vec::new();
        for y in 0..to[1] {
            for x in 0..to[0] {
                let [x, y] = self.stored(rotates, [x * seen[0] / to[0], y * seen[1] / to[1]]);
                levels.push(Self::level(x, y));
            }
        }
        (to, levels)
    }

    fn boxes_after(self, rotates: bool) -> Vec<[f32; 4]> {
        let ([across, down], (seen, to)) = ([self.width, self.height].map(|side| side as f32), self.sizes(rotates));
        let scale = [0, 1].map(|axis| f64::from(to[axis]) / f64::from(seen[axis]));
        let after = |[left, top, right, bottom]: [f32; 4]| {
            let [left, top, right, bottom] = match if rotates { self.orientation } else { 1 } {
                1 => [left, top, right, bottom],
                3 => [across - right, down - bottom, across - left, down - top],
                5 => [top, left, bottom, right],
                6 => [down - bottom, left, down - top, right],
                other => panic!("{other}"),
            };
            [(left, scale[0]), (top, scale[1]), (right, scale[0]), (bottom, scale[1])]
                .map(|(edge, scale)| (f64::from(edge) * scale) as f32)
        };
        self.boxes().into_iter().map(after).collect()
    }
}

fn array(shape: &[u64], numbers: &[f32]) -> Vec<u8> {
    let items = numbers.iter().flat_map(|number| number.to_le_bytes());
    npy::head("<f4", shape, false).into_iter().chain(items).collect()
}

/// A tree with masks and depth beside the images.
fn tree() -> Bench {
    let bench = Bench::new();
    for (number, sample) in SAMPLES.into_iter().enumerate() {
        bench.file(format!("images/{number}.jpg"), &sample.image());
        bench.file(format!("masks/{number}.png"), &sample.mask());
        bench.file(format!("deep/{number}.png"), &sample.deep());
        bench.file(format!("captions/{number}.txt"), b"a box");
    }
    bench
}

const WITH: [&str; 7] = [
    "--no-labels",
    "--include",
    "images/**",
    "--with",
    "mask=../masks/*.png,depth=../deep/*.png",
    "--with",
    "txt=../captions/*.txt",
];

/// A shard of webdataset with arrays.
fn shard() -> Vec<u8> {
    let mut tar = Tar::new();
    for (number, sample) in SAMPLES.into_iter().enumerate() {
        let boxes = sample.boxes();
        let points: Vec<f32> = boxes.iter().flat_map(|edges| [edges[0], edges[1], 2.0]).collect();
        tar = tar
            .file(&format!("{number}.jpg"), &sample.image())
            .file(&format!("{number}.boxes.npy"), &array(&[boxes.len() as u64, 4], boxes.as_flattened()))
            .file(&format!("{number}.keypoints.npy"), &array(&[boxes.len() as u64, 3], &points))
            .file(&format!("{number}.depth.npy"), &sample.depth())
            .file(&format!("{number}.mask.png"), &sample.mask());
    }
    tar.bytes()
}

/// The components of all samples, by the number in the name of the image.
fn components(dst: &Path) -> BTreeMap<usize, BTreeMap<String, Vec<u8>>> {
    let dataset = Dataset::open(dst).unwrap();
    let samples = (0..dataset.len()).map(|number| {
        let path = String::from_utf8(dataset.row(number).unwrap().path.to_vec()).unwrap();
        let stem = path.rsplit('/').next().unwrap().split('.').next().unwrap().parse().unwrap();
        let sample = dataset.sample(number).unwrap();
        let names = dataset.manifest().components.clone();
        let all = names.into_iter().filter_map(|name| Some((name.clone(), sample.component(&name)?.to_vec())));
        (stem, all.collect())
    });
    samples.collect()
}

fn floats(content: &[u8]) -> (Vec<u64>, Vec<f32>) {
    let head = npy::read_head(content).unwrap();
    let items = content[head.data_offset..].as_chunks().0;
    assert_eq!(head.dtype, "<f4");
    (head.shape, items.iter().map(|item| f32::from_le_bytes(*item)).collect())
}

/// Compares the masks of a dataset.
fn check_masks(dst: &Path, rotates: bool) {
    let found = components(dst);
    assert_eq!(found.len(), SAMPLES.len());
    for (number, sample) in SAMPLES.into_iter().enumerate() {
        let (to, levels) = sample.levels_after(rotates);
        let mask = image::load_from_memory(&found[&number]["mask.png"]).unwrap();
        assert_eq!([mask.width(), mask.height()], to, "{number}");
        assert_eq!(mask.as_luma8().unwrap().as_raw(), &levels, "{number}");
        if let Some(deep) = found[&number].get("depth.png") {
            let deep = image::load_from_memory(deep).unwrap();
            let expected: Vec<u16> = levels.iter().map(|level| u16::from(*level) * 700 + 3).collect();
            assert_eq!(deep.as_luma16().unwrap().as_raw(), &expected, "{number}");
        }
        if sample.sizes(rotates).1 == [sample.width, sample.height] && sample.orientation == 1 {
            assert_eq!(found[&number]["mask.png"], sample.mask());
        }
    }
}

#[test]
fn masks_beside_images_are_resized_and_rotated_with_them() {
    let bench = tree();
    for (name, options) in [("resized", &["--resize", "12"][..]), ("both", &["--resize", "12", "--rotate"])] {
        let dst = bench.at(name);
        let said = bench.pack_to(&dst, &[&WITH[..], options, &["--json"]].concat()).code(0).json();
        check_masks(&dst, options.len() > 2);
        let notes = said["notes"].as_array().unwrap();
        for component in ["mask.png", "depth.png"] {
            assert!(
                notes.contains(&format!("component {component} as mask: moved in 4 of 5 samples").into()),
                "{said}"
            );
        }
        let dataset = Dataset::open(&dst).unwrap();
        let recipe = dataset.manifest().recipe.clone().unwrap();
        assert!(recipe.contains(", icc, mask.png as mask, depth.png as mask ("), "{recipe}");
        assert!(components(&dst).values().all(|sample| sample["txt"] == b"a box"));
        run(&["verify", dst.to_str().unwrap()]).code(0);
        let src = bench.src();
        let against = ["verify", dst.to_str().unwrap(), "--against", src.to_str().unwrap()];
        run(&against).code(2).clean_error().says("its images were changed when they were packed");
        bench.pack_to(&dst, &[&WITH[..], options].concat()).code(0);
    }
    // The bytes do not depend on threads, nor on the order of reading.
    let again = bench.at("again");
    bench
        .pack_to(&again, &[&WITH[..], &["--resize", "12", "--jobs", "1", "--read-order", "physical"]].concat())
        .code(0);
    assert_eq!(contents(&again), contents(&bench.at("resized")));
}

#[test]
fn arrays_of_shards_move_with_their_images() {
    let bench = Bench::new();
    let tar = bench.at("a.tar");
    fs::write(&tar, shard()).unwrap();
    for (rotates, options) in [(false, &["--resize", "12"][..]), (true, &["--resize", "12", "--rotate"])] {
        let dst = bench.at(if rotates { "both" } else { "resized" });
        let from_tar = ["convert", tar.to_str().unwrap(), dst.to_str().unwrap(), "--image-feature", "jpg"];
        let ran = run(&[&from_tar[..], options].concat()).code(0);
        ran.says("component boxes.npy as xyxy: moved in 4 of 5 samples")
            .says("component keypoints.npy as xy: moved in 4");
        check_masks(&dst, rotates);
        let found = components(&dst);
        for (number, sample) in SAMPLES.into_iter().enumerate() {
            let boxes = sample.boxes_after(rotates);
            assert_eq!(floats(&found[&number]["boxes.npy"]), (vec![3, 4], boxes.concat()), "{number}");
            let (to, levels) = sample.levels_after(rotates);
            let depth: Vec<f32> = levels.iter().map(|level| f32::from(*level) / 3.0).collect();
            assert_eq!(floats(&found[&number]["depth.npy"]), (vec![to[1].into(), to[0].into()], depth), "{number}");
            let (shape, points) = floats(&found[&number]["keypoints.npy"]);
            assert_eq!(shape, [3, 3]);
            // A box without area is a point.
            let [x, y, ..] = boxes[2];
            assert_eq!(points[6..], [x, y, 2.0], "{number}");
        }
        run(&["verify", dst.to_str().unwrap(), "--decode"]).code(0);
        // A dataset of shardpack has types: the same again from it, as MDS.
        let (mds, back) = (bench.at("mds"), bench.at("back"));
        let as_it_is = ["convert", tar.to_str().unwrap(), mds.to_str().unwrap(), "--image-feature", "jpg"];
        run(&[&as_it_is[..], &["--format", "mds", "--force"]].concat()).code(0);
        run(&[&["convert", mds.to_str().unwrap(), back.to_str().unwrap(), "--force"][..], options].concat()).code(0);
        assert_eq!(components(&back), found);
        let exact = bench.at("exact");
        let resize = ["--resize", "20x10", "--force"];
        run(&[&["convert", mds.to_str().unwrap(), exact.to_str().unwrap()][..], &resize].concat()).code(0);
        let kinds = Dataset::open(&exact).unwrap().manifest().components.clone();
        let depth = floats(&components(&exact)[&0]["depth.npy"]).0;
        assert_eq!(depth, [10, 20], "{kinds:?}");
        run(&["verify", exact.to_str().unwrap()]).code(0);
    }
}

#[test]
fn parts_move_components_as_one_process_does() {
    let bench = tree();
    let tar = bench.at("a.tar");
    fs::write(&tar, shard()).unwrap();
    let (tar, src) = (tar.to_str().unwrap().to_owned(), bench.src().to_str().unwrap().to_owned());
    let with = [&["pack", src.as_str()][..], &WITH[..]].concat();
    for (row, command) in [with, vec!["convert", tar.as_str(), "--image-feature", "jpg"]].into_iter().enumerate() {
        let at = |name: &str| bench.at(&format!("{name}-{row}"));
        let line = |dst: &Path, options: &[&str]| {
            let (name, dst) = (command[0], dst.to_str().unwrap().to_owned());
            let changes = ["--resize", "12", "--rotate", "--shards", "3"];
            run(&[&[name, command[1], &dst][..], &command[2..], &changes, options].concat())
        };
        line(&at("whole"), &[]).code(0);
        for part in ["1/2", "2/2", "1/2", "2/2"] {
            line(&at("parts"), &["--part", part]).code(0);
        }
        run(&["merge", at("parts").to_str().unwrap()]).code(0);
        assert_eq!(contents(&at("parts")), contents(&at("whole")), "{command:?}");
    }
}

#[test]
fn a_mask_that_does_not_fit_its_image_is_bad_and_a_mended_one_is_packed() {
    let bench = tree();
    let (dst, wrong) = (bench.dst(), Sample { width: 47, height: 36, orientation: 1 });
    // Nothing moves in this sample, and its mask is compared with it too.
    bench.file("masks/4.png", &SAMPLES[0].mask());
    bench.file("masks/0.png", &wrong.mask());
    bench.file("masks/2.png", b"no image");
    let options = [&WITH[..], &["--resize", "12"]].concat();
    let ran = bench.pack_to(&dst, &options).code(1).says("3 images could not be packed, nothing is sealed");
    ran.says("images/0.jpg: mask.png: is 47×36 pixels, and its image is 48×36")
        .says("images/4.jpg: mask.png: is 48×36");
    let skip = bench.at("skipped");
    bench.pack_to(&skip, &[&options[..], &["--on-bad", "skip"]].concat()).code(0);
    assert_eq!(components(&skip).into_keys().collect::<Vec<_>>(), [1, 3]);
    for number in [0, 2, 4] {
        bench.file(format!("masks/{number}.png"), &SAMPLES[number].mask());
    }
    bench.pack_to(&dst, &[&options[..], &["--force"]].concat()).code(0);
    check_masks(&dst, false);
    // A turned mask is of another size too; the message names the reason.
    let turned = SAMPLES[1];
    bench.file("masks/1.png", &Sample { width: turned.height, height: turned.width, ..turned }.mask());
    let ran = bench.pack_to(&bench.at("turned"), &options).code(1);
    ran.says("is 60×40 pixels, and its image is 40×60; a mask has the size of the image as stored");
}

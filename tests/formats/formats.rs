//! The same tests for every format: pack, verify, read, damage and repair, with the same bytes for any number of threads.

use std::{collections::BTreeMap, fs, path::Path};

use shardpack_format::formats;
use shardpack_reader::Dataset;
use shardpack_testing::{Bench, contents, pack, photos, run, sweep};

/// First word of every part of a RecordIO file: images that hold it are stored in parts.
const MAGIC: [u8; 4] = [0x0a, 0x23, 0xd7, 0xce];

/// Images of odd lengths, some with the magic at each alignment, single and repeated.
fn plant(bench: &Bench) {
    let jpeg = b"\xff\xd8\xff\xc0\0\x0b\x08\0\x02\0\x03\x01\x01\x11\0\xff\xd9";
    for length in [0usize, 1, 2, 3, 700] {
        let image = [jpeg.as_slice(), &vec![7; length]].concat();
        bench.file(format!("ant/plain{length}.jpg"), &image);
        let magic = [jpeg.as_slice(), &vec![9; length], &MAGIC, b"between", &MAGIC, &MAGIC].concat();
        bench.file(format!("bee/magic{length}.jpg"), &magic);
        bench.file(format!("bee/deep/ends{length}.jpg"), &[magic.as_slice(), &vec![0; length], &MAGIC].concat());
    }
    // `pack` accepts any file that begins like an image.
    let begin = &jpeg[..4];
    bench.file("bee/only.jpg", &[begin, &MAGIC].concat());
    bench.file("cow/one.jpg", begin);
    bench.file("cow/large.jpg", &[begin, &MAGIC, &vec![3; 5 << 20], &MAGIC].concat());
}

/// The images of a tree by path.
fn images(root: &Path) -> BTreeMap<Vec<u8>, Vec<u8>> {
    let is_image = |path: &Path| {
        let extension = path.extension().unwrap_or_default().to_ascii_lowercase();
        ["jpg", "jpeg", "png", "webp"].iter().any(|known| extension == *known)
    };
    let files = contents(root).into_iter().filter(|(path, hash)| !hash.is_empty() && is_image(path));
    files.map(|(path, _)| (path.to_str().unwrap().into(), fs::read(root.join(path)).unwrap())).collect()
}

/// Reads all samples of `dst` in both ways, and compares the samples with the tree.
fn check_against(src: &Path, dst: &Path, what: &str) {
    let dataset = Dataset::open(dst).unwrap().check_content(true);
    let (mut left, mut bytes) = (images(src), Vec::new());
    let total = left.len() as u64;
    let mut reader = dataset.reader(0..dataset.len()).unwrap();
    let mut number = 0;
    while let Some(sample) = reader.next().unwrap() {
        sample.check_frame().unwrap();
        let expected = left.remove(sample.path()).unwrap_or_else(|| panic!("{what}: a stranger, or twice"));
        assert!(sample.bytes() == expected, "{what}: {}", String::from_utf8_lossy(sample.path()));
        let class = sample.path().split(|byte| *byte == b'/').next().unwrap().to_vec();
        assert_eq!(sample.class_name().unwrap().as_bytes(), class, "{what}");
        dataset.read(number, &mut bytes).unwrap();
        assert!(bytes == expected, "{what}: read alone");
        assert!(dataset.sample(number).unwrap().bytes() == expected, "{what}: from a mapping");
        number += 1;
    }
    assert_eq!((number, left.len()), (total, 0), "{what}");
}

fn names() -> impl Iterator<Item = &'static str> {
    formats::ALL.iter().map(|entry| entry.name)
}

#[test]
fn what_is_packed_verifies_and_reads_back_as_it_was() {
    for format in names() {
        for options in [&["--shards", "1"][..], &["--shards", "3", "--seed", "5"], &["--order", "source"]] {
            let bench = Bench::new();
            plant(&bench);
            let options = [&["--format", format], options].concat();
            bench.pack(&options).code(0);
            let what = options.join(" ");
            check_against(&bench.src(), &bench.dst(), &what);
            run(&["verify", bench.dst().to_str().unwrap(), "--against", bench.src().to_str().unwrap()]).code(0);
        }
        let bench = Bench::new();
        pack(&photos(), &bench.dst(), &["--format", format, "--shard-size", "300KiB"]).code(0);
        check_against(&photos(), &bench.dst(), format);
        run(&["verify", bench.dst().to_str().unwrap(), "--decode"]).code(0);
    }
}

#[test]
fn the_bytes_depend_on_neither_threads_nor_order_of_reading() {
    for format in names() {
        let bench = Bench::new();
        plant(&bench);
        let mut first = None;
        for (jobs, order) in [("1", "plan"), ("2", "physical"), ("7", "plan")] {
            let dst = bench.at(&format!("{format}-{jobs}"));
            let options = ["--format", format, "--shards", "2", "--jobs", jobs, "--read-order", order];
            pack(&bench.src(), &dst, &options).code(0);
            let found = contents(&dst);
            assert_eq!(first.get_or_insert_with(|| found.clone()), &found, "{format}, {jobs} threads, {order} order");
        }
    }
}

#[test]
fn every_damaged_place_is_found_and_mended() {
    for format in names() {
        let bench = Bench::new();
        plant(&bench);
        fs::remove_file(bench.src().join("cow/large.jpg")).unwrap();
        bench.pack(&["--format", format, "--shards", "1"]).code(0);
        let dataset = Dataset::open(bench.dst()).unwrap();
        let shard = bench.dst().join(&dataset.manifest().shards[0].file);
        let whole = fs::read(&shard).unwrap();
        let dst = bench.dst().to_str().unwrap().to_owned();
        // A prime step covers headers, framing, images, checksums and padding.
        for at in (0..whole.len()).step_by(sweep::points(211, 641)) {
            let mut wrong = whole.clone();
            wrong[at] ^= 0x10;
            fs::write(&shard, &wrong).unwrap();
            run(&["verify", &dst, "--quiet"]).code(1);
        }
        fs::write(&shard, &whole[..whole.len() - 1]).unwrap();
        run(&["verify", &dst, "--quiet"]).code(1);
        run(&["verify", &dst, "--repair", bench.src().to_str().unwrap()]).code(0);
        assert!(fs::read(&shard).unwrap() == whole, "{format}");
        for sidecar in &dataset.manifest().sidecars {
            let path = bench.dst().join(&sidecar.file);
            let right = fs::read(&path).unwrap();
            fs::write(&path, b"wrong").unwrap();
            run(&["verify", &dst, "--quiet"]).code(1);
            run(&["verify", &dst, "--repair", bench.src().to_str().unwrap()]).code(0);
            assert!(fs::read(&path).unwrap() == right, "{}", sidecar.file);
        }
    }
}

#[test]
fn an_image_in_parts_with_a_damaged_frame_is_no_empty_image_if_content_is_not_checked() {
    let bench = Bench::new();
    plant(&bench);
    bench.pack(&["--format", "recordio", "--quiet"]).code(0);
    let dst = bench.dst();
    let dataset = Dataset::open(&dst).unwrap();
    let in_parts = (0..dataset.len()).find(|number| dataset.row(*number).unwrap().path == b"cow/large.jpg").unwrap();
    assert!(dataset.row(in_parts).unwrap().in_parts);
    let (path, image) = {
        let sample = dataset.sample(in_parts).unwrap();
        (sample.shard().path().to_path_buf(), sample.image_range())
    };
    let mut bytes = fs::read(&path).unwrap();
    // One word more that begins a part: the parts are too short together.
    let start = image.start as usize + 500;
    bytes[start..start + MAGIC.len()].copy_from_slice(&MAGIC);
    drop(dataset);
    fs::write(&path, bytes).unwrap();

    let dataset = Dataset::open(&dst).unwrap();
    let mut reader = dataset.reader(..).unwrap();
    let read: Vec<_> = (0..dataset.len()).map(|_| reader.next().map(|sample| sample.unwrap().number())).collect();
    let mut errors = vec![dataset.sample(in_parts).map(drop).unwrap_err()];
    errors.push(dataset.read(in_parts, &mut Vec::new()).map(drop).unwrap_err());
    for (number, read) in read.into_iter().enumerate() {
        match number as u64 == in_parts {
            true => errors.push(read.unwrap_err()),
            false => assert_eq!(read.unwrap(), number as u64),
        }
    }
    let name = String::from_utf8_lossy(dataset.row(in_parts).unwrap().path).into_owned();
    for error in errors {
        let text = error.to_string();
        assert!(text.contains("do not fit together") && text.contains(&name), "{text}");
    }
}

#[test]
fn bad_images_are_left_out_of_every_format() {
    for format in names() {
        let bench = Bench::new();
        plant(&bench);
        bench.file("bee/empty.jpg", b"");
        bench.pack(&["--format", format, "--shards", "2"]).code(1);
        bench.pack(&["--format", format, "--shards", "2", "--on-bad", "skip", "--force"]).code(0);
        fs::remove_file(bench.src().join("bee/empty.jpg")).unwrap();
        check_against(&bench.src(), &bench.dst(), format);
        run(&["verify", bench.dst().to_str().unwrap()]).code(0);
    }
}

#[test]
fn compressed_shards_are_written_where_the_format_has_them() {
    for entry in formats::ALL {
        let bench = Bench::new();
        plant(&bench);
        let has_zstd = formats::open(&formats::Choice::new(entry.name)).unwrap().zstd_extension().is_some();
        let ran = bench.pack(&["--format", entry.name, "--compress", "zstd", "--shards", "2"]);
        if has_zstd {
            ran.code(0);
            check_against(&bench.src(), &bench.dst(), entry.name);
            run(&["verify", bench.dst().to_str().unwrap()]).code(0);
        } else {
            ran.code(2);
        }
    }
}

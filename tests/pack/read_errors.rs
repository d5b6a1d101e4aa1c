//! Tests system errors while images are read. A transient error changes nothing, a lasting error ends the run, and no error is
//! taken for a verdict on an image.

use std::{fs, io::Cursor, path::Path};

use image::{DynamicImage, ImageFormat};
use shardpack_source::ledger::Fate;
use shardpack_testing::{
    Bench, Dataset, contents,
    faults::{self, EACCES, EIO, ESTALE, fault},
    run,
};

/// Options that read images before the copy, and a plain copy.
const LOOKS: [&[&str]; 8] = [
    &[],
    &["--resize", "16"],
    &["--fix"],
    &["--min-side", "100"],
    &["--dedup", "exact"],
    &["--near-duplicates"],
    &["--check", "full"],
    &["--check", "entropy"],
];

/// A BMP of one colour. `--fix` and `--resize` convert it to another format.
fn bmp(side: u32, level: u8) -> Vec<u8> {
    let image = DynamicImage::ImageRgb8(image::RgbImage::from_pixel(side, side, image::Rgb([level; 3])));
    let mut out = Cursor::new(Vec::new());
    image.write_to(&mut out, ImageFormat::Bmp).unwrap();
    out.into_inner()
}

/// Images on which each option of `LOOKS` has an effect: two with the same bytes, a small one, and all in a format that changes.
fn source() -> Bench {
    let bench = Bench::new();
    bench.file("a/first.bmp", &bmp(120, 7));
    bench.file("a/odd.bmp", &bmp(120, 7));
    bench.file("a/small.bmp", &bmp(50, 9));
    bench.file("b/other.bmp", &bmp(121, 40));
    bench
}

fn pack<'a>(bench: &Bench, dst: &'a Path, options: &[&'a str]) -> Vec<std::ffi::OsString> {
    let start = ["pack".into(), bench.src().into(), dst.into(), "--jobs".into(), "1".into()];
    start.into_iter().chain(options.iter().map(Into::into)).collect()
}

#[test]
fn a_read_that_fails_for_a_moment_changes_nothing() {
    let bench = source();
    for (number, options) in LOOKS.iter().enumerate() {
        let expected = bench.at(&format!("expected-{number}"));
        bench.pack_to(&expected, options).code(0);
        for (call, errno) in [("open", EIO), ("open", ESTALE), ("read", EIO), ("read", ESTALE)] {
            for when in 1..=3 {
                let dst = bench.at("dst");
                let faults = [fault(call, errno, when, "/a/odd.bmp")];
                let Some(ran) = faults::run(&faults, &pack(&bench, &dst, options)) else { return };
                ran.code(0);
                assert_eq!(contents(&dst), contents(&expected), "{options:?}: {call} {errno}, call {when}");
                fs::remove_dir_all(&dst).unwrap();
            }
        }
    }
}

#[test]
fn a_read_that_goes_on_failing_ends_the_run_whatever_is_asked() {
    let bench = source();
    for options in LOOKS {
        for skip in [&[][..], &["--on-bad", "skip"]] {
            let dst = bench.at("dst");
            let args = pack(&bench, &dst, &[options, skip].concat());
            let Some(ran) = faults::run(&[fault("read", EIO, 0, "/a/odd.bmp")], &args) else { return };
            ran.code(2).says("a/odd.bmp: cannot read: ").says("--exclude").clean_error();
            assert!(!dst.join("manifest.json").exists(), "{options:?}");
            // The advice of the error works.
            let args: Vec<_> = args.iter().map(|arg| arg.to_str().unwrap()).collect();
            run(&[&args[..], &["--exclude", "a/odd.bmp", "--force"]].concat()).code(0);
            fs::remove_dir_all(&dst).unwrap();
        }
    }
}

#[test]
fn an_image_that_may_not_be_read_is_bad_and_neither_judged_nor_packed_as_it_was() {
    let bench = source();
    for options in LOOKS {
        // 0: every call fails; 1 to 3: only this call fails.
        for when in 0..=3 {
            let dst = bench.at("dst");
            let faults = [fault("open", EACCES, when, "/a/odd.bmp")];
            let args = pack(&bench, &dst, &[options, &["--on-bad", "skip"]].concat());
            let Some(ran) = faults::run(&faults, &args) else { return };
            ran.code(0);
            let dataset = Dataset::read(&dst);
            let said = dataset.unpacked().into_iter().find(|line| line.0 == "a/odd.bmp");
            let packed = dataset.samples.iter().find(|sample| sample.path == b"a/odd.bmp");
            match said {
                Some((_, Fate::Skipped, reason)) => {
                    assert!(reason.starts_with("cannot be read: "), "{options:?}: {reason}");
                    assert!(packed.is_none(), "{options:?}");
                }
                _ if when == 0 => panic!("{options:?}: {:?}", dataset.unpacked()),
                _ if options == ["--dedup", "exact"] => assert!(packed.is_none()),
                _ => {
                    let is_changed = ["--resize", "--fix"].iter().any(|option| options.contains(option));
                    let is_bmp = packed.unwrap().image().starts_with(b"BM");
                    assert_eq!(is_bmp, !is_changed, "{options:?}: call {when}");
                }
            }
            fs::remove_dir_all(&dst).unwrap();
        }
    }
}

#[test]
fn shards_whose_reading_fails_for_a_moment_give_what_they_hold() {
    let bench = source();
    bench.pack_to(&bench.at("packed"), &[]).code(0);
    let shards = [("dataset", bench.at("packed")), ("tar", bench.at("packed/shard-000000.tar"))];
    for (name, shards) in shards {
        let args = |dst: &Path| ["convert".into(), shards.clone(), dst.to_path_buf(), "--resize".into(), "16".into()];
        let expected = bench.at(&format!("{name}-expected"));
        run(&args(&expected)).code(0);
        // The walk of the shard makes the first reads. These numbers are the reads of the images.
        for when in [5, 8, 11] {
            let dst = bench.at("dst");
            let faults = [fault("read", ESTALE, when, "shard-000000.tar")];
            let Some(ran) = faults::run(&faults, &args(&dst)) else { return };
            if ran.code == 0 {
                assert_eq!(contents(&dst), contents(&expected), "{name}: call {when}");
            } else {
                ran.code(2).clean_error();
                assert!(!dst.join("manifest.json").exists());
            }
            let _ = fs::remove_dir_all(&dst);
        }
    }
}

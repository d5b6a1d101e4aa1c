//! Tests parts that change images: two passes of the same commands make the bytes of one process.

use std::{
    fs,
    io::Cursor,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use image::{DynamicImage, ImageFormat};
use rustix::process::{Pid, Signal, kill_process};
use shardpack_testing::{Bench, Rng, binary, contents, png, sweep};

const WORK: &str = ".shardpack";

fn encoded(width: u32, height: u32, format: ImageFormat) -> Vec<u8> {
    let pixel = |x: u32, y: u32| image::Rgb([(x * 255 / width) as u8, (y * 255 / height) as u8, (x * y % 251) as u8]);
    let mut out = Cursor::new(Vec::new());
    DynamicImage::ImageRgb8(image::RgbImage::from_fn(width, height, pixel)).write_to(&mut out, format).unwrap();
    out.into_inner()
}

/// Distinct images: a recipe changes some and leaves others alone. A second folder has the same images in splits.
fn images(count: u32) -> Bench {
    let bench = Bench::new();
    for number in 0..count {
        let bytes = match number % 5 {
            0 => encoded(40 + number, 30, ImageFormat::Jpeg),
            1 => encoded(20, 40 + number, ImageFormat::Png),
            2 => encoded(10 + number, 40, ImageFormat::Gif),
            3 => encoded(8, 6 + number % 9, ImageFormat::Jpeg),
            _ => encoded(60, 30 + number, ImageFormat::Bmp),
        };
        let extension = ["jpg", "png", "jpg", "jpg", "bmp"][number as usize % 5];
        bench.file(format!("c{}/{number:03}.{extension}", number % 4), &bytes);
        let split = if number % 4 == 0 { "val" } else { "train" };
        let folder = bench.at("splits").join(split).join(format!("k{}", number % 3));
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join(format!("{number:03}.{extension}")), &bytes).unwrap();
    }
    bench
}

fn spawn(bench: &Bench, line: &str) -> Child {
    let mut command = Command::new(binary());
    command.args(bench.words(line)).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.spawn().unwrap()
}

#[test]
fn two_passes_of_any_number_of_parts_make_the_bytes_of_one_process() {
    let bench = images(60);
    bench.shardpack("pack SRC @packed --shards 3").code(0);
    let rows: [(&str, &[u64]); 6] = [
        ("pack SRC --resize 16 --shards 7", &[1, 2, 5]),
        ("pack SRC --fix --shards 6 --meta json", &[3]),
        ("pack SRC --fix --rotate --resize 20x24 --encode webp --order source --shards 5 --format mds", &[2]),
        ("pack @splits --resize 12 --shard-samples 4", &[4]),
        ("pack SRC --split-fraction val=0.3 --encode png --shards 3 --format tfrecord", &[3]),
        ("convert @packed --resize 16 --encode jpeg --quality 70 --shards 4", sweep::points(&[70, 2], &[9, 2])),
    ];
    for (row, (line, counts)) in rows.iter().enumerate() {
        let (command, rest) = line.split_once(' ').unwrap();
        let (source, options) = rest.split_once(' ').unwrap();
        bench.shardpack(&format!("{command} {source} @whole-{row} {options}")).code(0);
        let whole = contents(&bench.at(&format!("whole-{row}")));
        for of in *counts {
            let name = format!("parts-{row}-{of}");
            let part = |number: u64| format!("{command} {source} @{name} {options} --part {number}/{of} --json");
            for number in (1..=*of).rev() {
                let said = bench.shardpack(&part(number)).code(0).json();
                if number > 1 {
                    assert_eq!((&said["done"], &said["changed"]), (&false.into(), &true.into()), "{line}: {said}");
                    assert_eq!(said["missing"].as_array().unwrap().len() as u64, number - 1, "{line}: {said}");
                    let status = bench.shardpack(&format!("status @{name} --json")).code(0).json();
                    assert_eq!((&status["changing"], &status["complete"]), (&true.into(), &false.into()));
                    assert_eq!(status["parts"]["missing"].as_array().unwrap().len() as u64, number - 1);
                    bench
                        .shardpack(&format!("merge @{name}"))
                        .code(2)
                        .says("when all are changed, the same commands pack");
                } else {
                    // The last part to change its images has all the results, so it packs.
                    assert_eq!(said["done"], true, "{line}: {said}");
                }
            }
            for number in 1..=*of {
                // Once a plan exists, the number of parts may differ.
                let said = bench.shardpack(&part(number)).code(0).json();
                assert_eq!((&said["done"], &said["already_sealed"]), (&true.into(), &false.into()), "{line}: {said}");
            }
            bench.shardpack(&part(1).replace(&format!("1/{of}"), "2/3")).code(0);
            bench.shardpack(&format!("merge @{name}")).code(0);
            assert_eq!(contents(&bench.at(&name)), whole, "{line}, {of} parts");
            bench.shardpack(&format!("verify @{name}")).code(0);
            let said = bench.shardpack(&part(1)).code(0).json();
            assert_eq!((&said["done"], &said["already_sealed"]), (&true.into(), &true.into()), "{line}: {said}");
            assert_eq!(contents(&bench.at(&name)), whole, "{line}: a part of what is sealed");
        }
    }
}

#[test]
fn parts_that_are_killed_at_any_moment_and_run_at_once_make_the_same_bytes() {
    let bench = images(240);
    let options = "--resize 16 --fix --shards 12";
    bench.shardpack(&format!("pack SRC @whole {options}")).code(0);
    let whole = contents(&bench.at("whole"));
    let mut rng = Rng::new(3);
    let (mut changing, mut packing) = (0, 0);
    for round in 0..sweep::points(6, 3) {
        let dst = bench.at(&format!("round-{round}"));
        let part = |number: u64, of: u64| format!("pack SRC @round-{round} {options} --jobs 2 --part {number}/{of}");
        let of = [2, 3][round % 2];
        let start = Instant::now();
        for _ in 0..12 {
            assert!(start.elapsed() < Duration::from_secs(120), "round {round} does not end");
            let number = 1 + rng.below(of);
            // The same part twice, or two parts.
            let other = if rng.below(2) == 0 { number } else { 1 + rng.below(of) };
            let mut children = [spawn(&bench, &part(number, of)), spawn(&bench, &part(other, of))];
            thread::sleep(Duration::from_millis(rng.below(80)));
            for child in &mut children {
                let is_over = child.try_wait().unwrap().is_some();
                match rng.below(3) {
                    0 => child.kill().unwrap(),
                    1 => drop(kill_process(Pid::from_child(child), Signal::TERM)),
                    _ => {}
                }
                child.wait().unwrap();
                let is_planned = dst.join(WORK).join("plan").exists();
                changing += usize::from(!is_over && !is_planned);
                packing += usize::from(!is_over && is_planned);
            }
            assert!(!dst.join("manifest.json").exists());
        }
        for _ in 0..2 {
            for number in 1..=of {
                bench.shardpack(&part(number, of)).code(0);
            }
        }
        let runs = fs::read_dir(dst.join(WORK).join("runs")).unwrap().count();
        assert_eq!(runs, 0, "processes that were killed have left something");
        bench.shardpack(&format!("merge @round-{round} --verify")).code(0);
        assert_eq!(contents(&dst), whole, "round {round}");
    }
    println!("stopped {changing} times while images were changed, {packing} times later");
    assert!(changing >= sweep::points(5, 2), "{changing}");
}

/// Files in the spool folder, sorted: the lists (with an extension) or the spools (without).
fn spools(dst: &Path, is_list: bool) -> Vec<PathBuf> {
    let all = fs::read_dir(dst.join(WORK).join("spools")).unwrap().map(|entry| entry.unwrap().path());
    let mut found: Vec<_> = all.filter(|path| path.extension().is_some() == is_list).collect();
    found.sort();
    found
}

#[test]
fn what_a_part_that_was_stopped_has_changed_is_not_changed_again() {
    let bench = images(400);
    let line = "pack SRC DST --resize 16 --shards 4 --jobs 1 --part 1/2";
    let mut seen = 0;
    for _ in 0..50 {
        let mut child = spawn(&bench, line);
        // Until the part has changed more bytes than the previous run.
        let length = || {
            // A spool that another process takes over gets another name.
            spools(&bench.dst(), false).iter().map(|path| fs::metadata(path).map_or(0, |stat| stat.len())).sum::<u64>()
        };
        let start = Instant::now();
        while start.elapsed() < Duration::from_secs(20) && child.try_wait().unwrap().is_none() {
            if bench.dst().join(WORK).join("spools").exists() && length() > seen + 3000 {
                break;
            }
            thread::sleep(Duration::from_micros(300));
        }
        let is_over = child.try_wait().unwrap().is_some();
        child.kill().unwrap();
        child.wait().unwrap();
        if is_over {
            break;
        }
        assert_eq!(spools(&bench.dst(), false).len(), 1, "the spool of before is taken over");
        assert!(length() >= seen, "{} of {seen}", length());
        seen = length();
    }
    assert!(seen > 6000, "it was stopped only after {seen} bytes");
    bench.shardpack(line).code(0).says("missing 2/2");
    assert_eq!(spools(&bench.dst(), false).len(), 1);
}

#[test]
fn images_that_cannot_be_changed_end_their_part_or_are_in_the_ledger_as_one_process_writes_it() {
    let bench = images(30);
    bench.file("c1/torn.png", &png()[..60]);
    bench.file("c3/text.jpg", b"no image at all, though it is called one");
    let options = "--resize 16 --shards 5";
    bench.shardpack(&format!("pack SRC @whole {options} --on-bad skip")).code(0);
    let codes: Vec<i32> = (1..=8)
        .map(|number| {
            let ran = bench.shardpack(&format!("pack SRC DST {options} --part {number}/8"));
            if ran.code == 1 {
                ran.says("could not be packed, part").says("--on-bad skip leaves them out");
                return 1;
            }
            ran.code
        })
        .collect();
    assert_eq!(codes.iter().filter(|code| **code == 1).count(), 2, "{codes:?}");
    assert!(codes.iter().all(|code| [0, 1].contains(code)), "{codes:?}");
    let status = bench.shardpack("status DST --json").code(0).json();
    assert_eq!(status["parts"]["missing"].as_array().unwrap().len(), 2, "{status}");
    for _ in 0..2 {
        for number in 1..=8 {
            bench.shardpack(&format!("pack SRC DST {options} --on-bad skip --part {number}/8")).code(0);
        }
    }
    // A part without `--on-bad skip` fails on images that other parts skipped.
    bench.shardpack(&format!("pack SRC DST {options} --part 3/8")).code(1).says("could not be packed");
    let merged = bench.shardpack("merge DST --json").code(0).json();
    assert_eq!(merged["unpacked"].as_array().unwrap().len(), 2, "{merged}");
    assert_eq!(contents(&bench.dst()), contents(&bench.at("whole")));
}

#[test]
fn parts_of_another_recipe_plan_or_source_are_refused_by_name() {
    let bench = images(40);
    bench.shardpack("pack SRC DST --resize 16 --shards 4 --part 1/2").code(0).says("missing 2/2");
    let before = contents(&bench.dst());
    for (options, said) in [
        ("--resize 17 --shards 4 --part 2/2", "were changed by another recipe: resize 16"),
        ("--resize 16 --fix --shards 4 --part 2/2", "were changed by another recipe: resize 16"),
        ("--resize 16 --shards 4 --seed 2 --part 2/2", "were changed for another plan"),
        ("--resize 16 --shards 4 --format mds --part 2/2", "were changed for another plan"),
        ("--resize 16 --shards 4 --exclude */000.jpg --part 2/2", "were changed for another plan"),
    ] {
        let ran = bench.shardpack(&format!("pack SRC DST {options}")).code(2).says(said);
        ran.says("another folder for another plan").clean_error();
        assert_eq!(contents(&bench.dst()), before, "{options}");
    }
    // Without a recipe, the part makes the plan at once.
    bench.shardpack("pack SRC DST --shards 4 --part 2/2").code(0);
    bench
        .shardpack("pack SRC DST --resize 16 --shards 4 --part 2/2")
        .code(2)
        .says("holds parts of another plan: images (--resize, --encode, --fix, --rotate): was as they are");
}

#[test]
fn a_flipped_or_missing_byte_of_a_list_or_a_spool_is_found_and_the_file_named() {
    let bench = images(12);
    let line = "pack SRC DST --resize 16 --shards 3";
    for number in [1, 2, 1] {
        bench.shardpack(&format!("{line} --part {number}/2")).code(0);
    }
    fs::remove_dir_all(bench.dst().join("index")).unwrap();
    let first = spools(&bench.dst(), true).remove(0);
    let right = fs::read(&first).unwrap();
    let mut rng = Rng::new(4);
    let mut damages: Vec<Vec<u8>> = (0..60).map(|_| flipped(&right, rng.below(right.len() as u64) as usize)).collect();
    damages.extend([&right[..0], &right[..20], &right[..right.len() - 1]].map(<[u8]>::to_vec));
    damages.push([&right[..], b"more"].concat());
    for (row, damage) in damages.iter().enumerate() {
        fs::write(&first, damage).unwrap();
        bench
            .shardpack(&format!("{line} --part 2/2"))
            .code(1)
            .says("1-of-2.list: is damaged")
            .says("remove it: then that part changes its images anew")
            .clean_error();
        assert!(!bench.dst().join("index").exists(), "damage {row}");
    }
    // The list of another part, then a missing list.
    fs::copy(&spools(&bench.dst(), true)[1], &first).unwrap();
    bench.shardpack(&format!("{line} --part 2/2")).code(1).says("holds other images than those of its name");
    fs::remove_file(&first).unwrap();
    bench.shardpack(&format!("{line} --part 2/2")).code(0).says("missing 1/2");
    bench.shardpack(&format!("{line} --part 1/2")).code(0);
    bench.shardpack(&format!("{line} --part 2/2")).code(0);
    bench.shardpack("pack SRC @whole --resize 16 --shards 3").code(0);
    bench.shardpack("merge DST").code(0);
    assert_eq!(contents(&bench.dst()), contents(&bench.at("whole")));

    // Damage to images in a spool.
    let whole = contents(&bench.at("whole"));
    fs::remove_dir_all(bench.dst()).unwrap();
    bench.shardpack(&format!("{line} --part 1/2")).code(0);
    let spool = spools(&bench.dst(), false).remove(0);
    let right = fs::read(&spool).unwrap();
    let (mut found, mut harmless) = (0, 0);
    for at in (0..right.len()).step_by(right.len() / 40) {
        let _ = fs::remove_dir_all(bench.dst().join("index"));
        for shard in fs::read_dir(bench.dst()).unwrap().map(|entry| entry.unwrap().path()).filter(|path| path.is_file())
        {
            fs::remove_file(shard).unwrap();
        }
        for receipt in fs::read_dir(bench.dst().join(WORK).join("parts")).unwrap() {
            fs::remove_file(receipt.unwrap().path()).unwrap();
        }
        fs::write(&spool, flipped(&right, at)).unwrap();
        let ran = bench.shardpack(&format!("{line} --part 2/2"));
        let ran = if ran.code == 0 { bench.shardpack(&format!("{line} --part 1/2")) } else { ran };
        match ran.code {
            1 => {
                ran.says("remove the file: its images are then transformed again")
                    .says(spool.file_name().unwrap().to_str().unwrap());
                found += 1;
            }
            // The flip lies between images.
            _ => {
                ran.code(0);
                for (path, hash) in contents(&bench.dst()).iter().filter(|(path, _)| !path.starts_with(WORK)) {
                    assert_eq!(whole.get(path), Some(hash), "{}", path.display());
                }
                harmless += 1;
            }
        }
    }
    println!("{found} flips found, {harmless} not in an image");
    assert!(found > 20, "{found} of {}", found + harmless);
    // A missing spool is made again.
    fs::remove_file(&spool).unwrap();
    bench.shardpack(&format!("{line} --part 2/2")).code(0).says("missing 1/2");
    bench.shardpack(&format!("{line} --part 1/2")).code(0);
    bench.shardpack(&format!("{line} --part 2/2")).code(0);
    bench.shardpack("merge DST").code(0);
    assert_eq!(contents(&bench.dst()), whole);
}

fn flipped(bytes: &[u8], at: usize) -> Vec<u8> {
    let mut wrong = bytes.to_vec();
    wrong[at] ^= 1;
    wrong
}

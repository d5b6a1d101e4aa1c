//! Reads damaged and hostile LMDBs. The result is an error or a dataset, soon, and never a signal.

use std::{
    fs,
    io::Write,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use shardpack_format::formats::foreign::FieldSelection;
use shardpack_source::foreign::ShardFile;
use shardpack_testing::{
    Bench, Rng, images,
    lmdb::{convert, write, written},
    photos, run,
};

/// Environment variable for the child: the path of the file to damage, and the number of the child.
const FLIPPED: &str = "SHARDPACK_LMDB_FLIPPED";
/// Number of flips, shared among `CHILDREN` processes.
const FLIPS: u64 = 1000;
const CHILDREN: u64 = 4;
/// Time limit of one read. A debug build on a busy machine is slow.
const SOON: Duration = Duration::from_secs(20);

/// A small environment: seven photographs, at least one larger than a page.
fn small(bench: &Bench, way: &str) -> PathBuf {
    let out = bench.at("small");
    write(&[photos().to_str().unwrap(), out.to_str().unwrap(), "7", way]);
    out.join(way)
}

/// Reads everything in a file and ignores errors. Other tests check the errors.
fn read_all(path: &Path) {
    let Ok(Some(file)) = ShardFile::recognise(&path.into()) else { return };
    let Ok(mut walk) = file.walk(&FieldSelection::default(), &|| Ok(())) else { return };
    let mut image = Vec::new();
    while let Ok(Some(_)) = walk.next() {
        let _ = walk.image(&mut image);
    }
    walk.remarks();
}

/// Applies flip `number` to `bytes`: one to three bits, mostly near the start of a page, where a flip has most effect.
fn flip(bytes: &mut [u8], number: u64) {
    let mut rng = Rng::new(number + 1);
    for _ in 0..1 + rng.below(3) {
        let page = rng.below(bytes.len() as u64 / 4096) * 4096;
        let at = page + if rng.below(3) == 0 { rng.below(4096) } else { rng.below(64) };
        bytes[at as usize] ^= 1 << rng.below(8);
    }
}

/// The child process of the next test. Does nothing without the variable.
#[test]
fn flips_of_one_child() {
    let Some(given) = std::env::var_os(FLIPPED) else { return };
    let given = given.into_string().unwrap();
    let (path, child) = given.rsplit_once(' ').unwrap();
    let child: u64 = child.parse().unwrap();
    let bytes = fs::read(path).unwrap();
    let damaged = PathBuf::from(format!("{path}-{child}"));
    let mut out = fs::File::create(format!("{path}-{child}.at")).unwrap();
    for number in (child..FLIPS).step_by(CHILDREN as usize) {
        writeln!(out, "{number}").unwrap();
        let mut wrong = bytes.clone();
        flip(&mut wrong, number);
        fs::write(&damaged, wrong).unwrap();
        let start = Instant::now();
        read_all(&damaged);
        assert!(start.elapsed() < SOON, "flip {number}");
    }
    writeln!(out, "end").unwrap();
}

#[test]
fn a_thousand_flips_kill_nobody() {
    let bench = Bench::new();
    for way in ["folder2lmdb-4.lmdb", "columns.lmdb"] {
        let path = small(&bench, way);
        let children: Vec<_> = (0..CHILDREN)
            .map(|child| {
                Command::new(std::env::current_exe().unwrap())
                    .args(["lmdb_damage::flips_of_one_child", "--exact", "--quiet"])
                    .env(FLIPPED, format!("{} {child}", path.display()))
                    .stdout(Stdio::piped())
                    .spawn()
                    .unwrap()
            })
            .collect();
        for (child, ran) in children.into_iter().enumerate() {
            let ran = ran.wait_with_output().unwrap();
            let at = format!("{}-{child}.at", path.display());
            let told = fs::read_to_string(at).unwrap();
            let last = told.lines().last().unwrap_or_default();
            let text = String::from_utf8_lossy(&ran.stdout);
            assert!(ran.status.success() && last == "end", "{way}: flip {last}: {}\n{text}", ran.status);
        }
        let _ = fs::remove_dir_all(bench.at("small"));
    }
}

#[test]
fn a_file_cut_at_any_page_is_an_error_or_a_dataset() {
    let bench = Bench::new();
    let bytes = fs::read(small(&bench, "folder2lmdb-4.lmdb")).unwrap();
    let (path, dst) = (bench.at("damaged.lmdb"), bench.dst());
    for end in (0..bytes.len()).step_by(4096).chain([1, 4095, 4097, bytes.len() - 1]) {
        fs::write(&path, &bytes[..end]).unwrap();
        let start = Instant::now();
        let ran = convert(&path, &dst, &["--quiet"]);
        assert!(matches!(ran.code, 1 | 2) && start.elapsed() < SOON, "cut at {end}: {}", ran.code);
        assert!(!dst.join("manifest.json").exists());
    }
}

#[test]
fn what_is_packed_of_a_damaged_file_is_what_verify_finds() {
    let bench = Bench::new();
    let bytes = fs::read(small(&bench, "folder2lmdb-4.lmdb")).unwrap();
    let (path, dst) = (bench.at("damaged.lmdb"), bench.dst());
    for number in 0..60 {
        let mut wrong = bytes.clone();
        flip(&mut wrong, number);
        fs::write(&path, wrong).unwrap();
        let ran = convert(&path, &dst, &["--quiet", "--on-bad", "skip", "--force"]);
        assert!(matches!(ran.code, 0..=2), "flip {number}: {} {}", ran.code, ran.stderr);
        if ran.code == 0 {
            run(&["verify", "--quiet", dst.to_str().unwrap()]).code(0);
        }
        let _ = fs::remove_dir_all(&dst);
    }
}

#[test]
fn hostile_pickles_are_refused_by_name_and_nothing_is_run() {
    let bench = Bench::new();
    let source = written(&bench);
    let start = Instant::now();
    let ran = convert(&source.join("evil.lmdb"), &bench.dst(), &[]).code(1);
    for (key, reason) in [
        ("evil", "posix.system"),
        ("deep", "more than 64 deep"),
        ("marks", "more than 64 deep"),
        ("long", "1152921504606846976 bytes are claimed"),
        ("frame", "18446744073709551615 bytes are claimed"),
    ] {
        let line = ran.stdout.lines().find(|line| line.contains(&format!("/{key}"))).unwrap_or_default();
        assert!(line.contains(reason), "{key}: {}", ran.stdout);
    }
    convert(&source.join("evil.lmdb"), &bench.dst(), &["--on-bad", "skip"]).code(0);
    assert!(start.elapsed() < 2 * SOON);
    assert_eq!(images(&bench.dst()).len(), 32);
    assert!(!source.join("ran").exists(), "it was run");
}

//! Fuzz tasks (`fuzz`): libFuzzer on stable Rust, without cargo-fuzz.
//!
//! Compiler flags are those of cargo-fuzz without a sanitizer: counters and comparisons for libFuzzer, checks on.

use std::{
    fs,
    io::{BufRead, BufReader},
    path::{Path, PathBuf},
    process::Stdio,
    sync::atomic::{AtomicUsize, Ordering},
    thread,
};

use crate::{
    Result,
    arguments::Arguments,
    command::{cargo, command, is_installed, output, remove, root, run, shardpack, target, typed, write},
    python,
};

const TARGETS: [&str; 29] = [
    "tar", "tfrecord", "recordio", "mds", "parquet", "hdf5", "lmdb", "plain", "npy", "npz", "imaging", "crops", "list",
    "coco", "index", "manifest", "seekable", "plan", "receipt", "splits", "ledger", "classes", "cache", "http", "xml",
    "profile", "boxes", "pickled", "beton",
];
/// Short seeds, by target name.
const TEXTS: [(&str, &[u8]); 9] = [
    ("plan", b"\x40\0\0\0\0\0\0\0{\"shardpack\": \"0.1.0\", \"source\": {\"tree\": \"/a\"}, \"datasets\": []}"),
    (
        "receipt",
        b"{\"schema\":\"shardpack-receipt/1\",\"shardpack\":\"0.1.0\",\"part\":\"1/1\",\"sidecars\":[],\"datasets\":[],\
        \"blake3\":\"0000000000000000000000000000000000000000000000000000000000000000\"}",
    ),
    ("splits", b"{\"schema\": \"shardpack-splits/1\", \"splits\": [{\"name\": \"train\", \"samples\": 1}]}"),
    ("ledger", b"{\"path\":\"a/b.jpg\",\"class\":0,\"fate\":\"skipped\",\"reason\":\"empty file\"}\n"),
    ("classes", b"{\"old\": \"new\", \"0\": [\"n01\", \"tench\"]}"),
    ("cache", b"\x05\0\0\0\x05\0\0\0\0\0\0\0"),
    ("http", b"HTTP/1.1 206 Partial Content\r\nContent-Range: bytes 5-9/20\r\nETag: \"1\"\r\nContent-Length: 5\r\n\r\nabcde"),
    ("xml", b"<L><Contents><Key>a//b&#10;</Key><Size>7</Size></Contents><Error><Code>SlowDown</Code><Message>m</Message></Error></L>"),
    ("profile", b"[default]\naws_access_key_id = A\naws_secret_access_key = B\nregion=x\n[profile b]\ncredential_process = p\n"),
];
const FLAGS: &str = "-Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 \
    -Cllvm-args=-sanitizer-coverage-inline-8bit-counters -Cllvm-args=-sanitizer-coverage-pc-table \
    -Cllvm-args=-sanitizer-coverage-trace-compares --cfg fuzzing -Cdebug-assertions -Coverflow-checks";
/// Profile for a few seconds of fuzzing: optimizing would take longer than it saves.
const QUICKLY_BUILT: [(&str, &str); 2] =
    [("CARGO_PROFILE_RELEASE_OPT_LEVEL", "1"), ("CARGO_PROFILE_RELEASE_DEBUG", "line-tables-only")];
const MAX_BYTES: u64 = 64 << 10;
/// Seeds of the target `crops`, in fixtures.
const JPEGS: [&str; 8] = [
    "photos/textures/fur.jpg",
    "jpegs/420.jpg",
    "jpegs/422.jpg",
    "jpegs/444.jpg",
    "jpegs/410.jpg",
    "jpegs/420-scans.jpg",
    "jpegs/chroma.jpg",
    "jpegs/pixels/440-bits.jpg",
];
/// Folder of packed seeds, relative to the target folder.
const PACKED: &str = "fuzz-seeds";
const LIMITS: [&str; 4] = ["-timeout=10", "-rss_limit_mb=2048", "-max_len=65536", "-print_final_stats=1"];

/// Task `fuzz`.
pub fn task(mut arguments: Arguments) -> Result<()> {
    let seconds = arguments.number("--seconds")?.unwrap_or(60);
    let replay = arguments.value("--replay")?;
    let name = arguments.word();
    arguments.end()?;
    if let Some(unknown) = name.as_deref().filter(|name| !TARGETS.contains(name)) {
        return Err(format!("no target {unknown:?}; there are {}", TARGETS.join(", ")));
    }
    let programs = build(&[])?;
    match (name, replay) {
        (Some(name), Some(file)) => run(&mut command(programs.join(name), [file])),
        (None, Some(_)) => Err("--replay needs the target".to_owned()),
        (Some(name), None) => {
            run(&mut cargo("build --package shardpack"))?;
            pack_seeds()?;
            fuzz_one(&programs, &name, seconds)
        }
        (None, None) => {
            run(&mut cargo("build --package shardpack"))?;
            fuzz_all(&programs, seconds)
        }
    }
}

/// Fuzzes every target; the command line must be built already. If the C++ compiler that libFuzzer needs is missing, returns an
/// error if `required`, otherwise prints a note.
pub fn all(seconds: u64, required: bool) -> Result<()> {
    let compiler = std::env::var("CXX").unwrap_or_else(|_| "c++".to_owned());
    if !required && !is_installed(&compiler, &["--version"]) {
        println!("there is no C++ compiler, which libFuzzer needs: NOT fuzzed");
        return Ok(());
    }
    fuzz_all(&build(&QUICKLY_BUILT)?, seconds)
}

/// Fuzzes as many targets at a time as there are cores; each target takes one core.
fn fuzz_all(programs: &Path, seconds: u64) -> Result<()> {
    pack_seeds()?;
    let next = AtomicUsize::new(0);
    let work = || {
        while let Some(name) = TARGETS.get(next.fetch_add(1, Ordering::Relaxed)) {
            fuzz_one(programs, name, seconds)?;
        }
        Ok(())
    };
    let threads = thread::available_parallelism().map_or(1, usize::from);
    thread::scope(|scope| {
        let running: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        let results = running.into_iter().map(|thread| thread.join().unwrap_or_else(|_| Err("a panic".to_owned())));
        let failed: Vec<String> = results.filter_map(Result::err).collect();
        if failed.is_empty() { Ok(()) } else { Err(failed.join("\n")) }
    })
}

/// Builds the targets with these profile settings. Returns the output folder.
fn build(profile: &[(&str, &str)]) -> Result<PathBuf> {
    let version = output(&mut command("rustc", ["--version", "--verbose"]))?;
    let host = version.lines().find_map(|line| line.strip_prefix("host: ")).ok_or("rustc names no host")?;
    let folder = target("fuzz");
    // With --target, RUSTFLAGS do not apply to build scripts.
    let mut build = cargo("build --quiet --release --bins --manifest-path fuzz/Cargo.toml --target");
    build.arg(host).env("CARGO_TARGET_DIR", &folder).envs(profile.iter().copied()).env("RUSTFLAGS", FLAGS);
    run(&mut build)?;
    Ok(folder.join(host).join("release"))
}

fn fuzz_one(programs: &Path, name: &str, seconds: u64) -> Result<()> {
    let (corpus, artifacts) = (root().join("fuzz/corpus").join(name), root().join("fuzz/artifacts").join(name));
    seed(name, &corpus)?;
    fs::create_dir_all(&artifacts).map_err(|error| format!("{}: {error}", artifacts.display()))?;
    let prefix = format!("-artifact_prefix={}/", artifacts.display());
    let mut fuzz = command(programs.join(name), LIMITS);
    fuzz.args([prefix, format!("-max_total_time={seconds}")]).arg(&corpus).stderr(Stdio::piped());
    let mut child = fuzz.spawn().map_err(|error| format!("cannot run {}: {error}", typed(&fuzz)))?;

    let (mut first, mut last, mut runs, mut log) = (None, 0, String::new(), Vec::new());
    for line in child.stderr.take().into_iter().flat_map(|stderr| BufReader::new(stderr).lines()) {
        let line = line.map_err(|error| format!("{name}: {error}"))?;
        if let Some(coverage) = number_after(&line, "cov: ") {
            first.get_or_insert(coverage);
            last = coverage;
        }
        if let Some(rest) = line.strip_prefix("stat::number_of_executed_units:") {
            runs = rest.trim().to_owned();
        }
        log.push(line);
    }
    let status = child.wait().map_err(|error| format!("{name}: {error}"))?;
    if !status.success() {
        log.iter().rev().take(60).rev().for_each(|line| println!("{line}"));
        let found = log.iter().rev().find_map(|line| line.split("Test unit written to ").nth(1));
        let replay = found.map_or_else(
            || format!("no input was written, see {}", artifacts.display()),
            |file| format!("cargo xtask fuzz {name} --replay {file}"),
        );
        return Err(format!("{name}: {status}\n  help: {replay}"));
    }
    if last == 0 {
        return Err(format!("{name}: no coverage was reported, so nothing steered the inputs"));
    }
    let inputs = fs::read_dir(&corpus).map_or(0, Iterator::count);
    let first = first.unwrap_or(0);
    println!("{name}: {runs} runs in {seconds} s, coverage {first} to {last}, {inputs} inputs kept");
    Ok(())
}

fn number_after(line: &str, word: &str) -> Option<u64> {
    line.split(word).nth(1)?.split_whitespace().next()?.parse().ok()
}

/// Packs the seeds that several targets share.
fn pack_seeds() -> Result<()> {
    let packed = target(PACKED);
    let ways: [(&str, &[&str]); 5] = [
        ("plain", &["--meta", "json"]),
        ("zstd", &["--meta", "json", "--compress", "zstd"]),
        ("tfrecord", &["--format", "tfrecord"]),
        ("recordio", &["--format", "recordio"]),
        ("mds", &["--format", "mds"]),
    ];
    for (folder, options) in ways {
        let folder = packed.join(folder);
        remove(&folder)?;
        // A few small images: an input has at most 64 KiB.
        let mut pack = command(shardpack("debug"), ["pack", "--quiet", "--include", "textures/*"]);
        pack.args(["--exclude", "*wood*", "--sidecars", "none"]).args(options).arg("fixtures/photos").arg(&folder);
        run(pack.stdout(Stdio::null()))?;
    }
    Ok(())
}

/// Seeds of the target `boxes`: a label file of each kind.
fn seed_label_files(corpus: &Path) -> Result<()> {
    // The first byte picks the kind.
    let seeds: [(&str, &[u8]); 11] = [
        ("yolo", b"\x000 0.5 0.5 0.5 0.25\n7 1 1 0 0\n"),
        ("polygons", b"\x012 0.1 0.2 0.5 0.1 0.4 0.9\n"),
        (
            "voc",
            b"\x02<annotation><size><width>9</width><height>9</height></size><object><name>a&amp;b</name><difficult>1</difficult>\
            <bndbox><xmin>1</xmin><ymin>1</ymin><xmax>9</xmax><ymax>9.5</ymax></bndbox></object></annotation>",
        ),
        (
            "labelme",
            b"\x03{\"shapes\":[{\"label\":\"a\",\"points\":[[1,2],[3,4]],\"shape_type\":\"rectangle\",\"group_id\":1}],\"imageWidth\":9}",
        ),
        ("csv", b"\x05image,xmin,ymin,xmax,ymax,class\n1.jpg,1,2,3,4.5,a\n"),
        ("plan", b"\x069 9 resized\n0 1 2 3 4.5"),
        ("kitti", b"\x07Car 0 0 0 1 2 3 4.5 1 1 1 1 1 1 1\nDontCare 0 0 0 1 2 3 4.5 1 1 1 1 1 1 1 0.5\n"),
        ("wider", b"\x081.jpg\n1\n1 2 3 4 0 0 0 1 0 0\n2.jpg\n0\n0 0 0 0 0 0 0 0 0 0\n"),
        (
            "cvat",
            b"\x09<annotations><meta><job><labels><label><name>a</name></label></labels></job></meta><image name=\"1.jpg\" width=\"9\" height=\"9\">\
            <box label=\"a\" xtl=\"1\" ytl=\"2\" xbr=\"3\" ybr=\"4\" rotation=\"9\"/><polygon label=\"b\" points=\"1,2;3,4;5,6.5\"/></image></annotations>",
        ),
        (
            "via",
            b"\x0a{\"_via_img_metadata\":{\"1.jpg7\":{\"filename\":\"1.jpg\",\"regions\":[{\"shape_attributes\":{\"name\":\"ellipse\",\"cx\":4,\"cy\":4,\
            \"rx\":3,\"ry\":2,\"theta\":1},\"region_attributes\":{\"a\":{\"b\":true}}}]}}}",
        ),
        (
            "scalabel",
            b"\x0b{\"frames\":[{\"name\":\"1.jpg\",\"labels\":[{\"category\":\"a\",\"box2d\":{\"x1\":1,\"y1\":2,\"x2\":3,\"y2\":4}}]}]}",
        ),
    ];
    seeds.into_iter().try_for_each(|(name, bytes)| write(&corpus.join(name), bytes))?;
    let coco = fs::read(root().join("fixtures/coco/annotations/instances_photos.json"));
    let coco = coco.map_err(|error| format!("instances_photos.json: {error}"))?;
    write(&corpus.join("coco"), [&[4][..], &coco].concat())
}

/// A file of FFCV with a number, bytes and pixels, and without pages, which are longer than an input.
fn small_beton() -> Vec<u8> {
    let words = |words: &[u64]| words.iter().flat_map(|word| word.to_le_bytes()).collect::<Vec<u8>>();
    let (table, data) = (24 + 3 * 1041, 24 + 3 * 1041 + 40);
    let mut file = [&[2, 0, 3, 0, 0, 0, 32, 0][..], &words(&[1, data + 7])].concat();
    for (kind, name) in [(1, "label"), (3, "caption"), (2, "image")] {
        let at = file.len();
        file.push(kind);
        file.extend_from_slice(name.as_bytes());
        file.resize(at + 1041, 0);
    }
    // Mode, width and height of an image of one pixel.
    file.extend([words(&[7, data, 4]), vec![1, 1, 0, 1, 0], words(&[data + 4])].concat());
    file.resize((table + 40) as usize, 0);
    [file, b"text\x01\x02\x03".to_vec(), words(&[0, data, 4, 0, data + 4, 3])].concat()
}

/// Copies well-formed inputs and the inputs of the repository into the corpus.
fn seed(name: &str, corpus: &Path) -> Result<()> {
    fs::create_dir_all(corpus).map_err(|error| format!("{}: {error}", corpus.display()))?;
    let packed = target(PACKED);
    match name {
        "tar" => {
            run(command(python::system_python()?, ["fuzz/make_seeds.py"]).arg(corpus))?;
            copy(&packed.join("plain/shard-000000.tar"), &corpus.join("own.tar"))?;
        }
        "tfrecord" => copy(&packed.join("tfrecord/shard-00000-of-00001"), &corpus.join("own.tfrecord"))?,
        "recordio" => copy(&packed.join("recordio/shard-000000.rec"), &corpus.join("own.rec"))?,
        "mds" => copy(&packed.join("mds/shard.00000.mds"), &corpus.join("own.mds"))?,
        "parquet" => {
            let vector = "fixtures/vectors/parquet/train-00000-of-00001.parquet";
            copy(&root().join(vector), &corpus.join("datasets.parquet"))?;
            for name in ["stream.arrow", "lz4.arrow", "views.arrow", "deltas.arrow"] {
                copy(&root().join("fixtures/arrow").join(name), &corpus.join(name))?;
            }
        }
        "hdf5" => {
            for vector in ["hdf5/rows.h5", "hdf5-groups/groups.h5"] {
                copy(&root().join("fixtures/vectors").join(vector), &corpus.join(vector.replace('/', "-")))?;
            }
        }
        // The repository holds this environment: no available tool writes pages that small.
        "lmdb" => {}
        "plain" => {
            let folder = root().join("fixtures/plain");
            let entries = fs::read_dir(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
            for path in entries.flatten().map(|entry| entry.path()) {
                if let Some(name) = path.file_name().filter(|_| path.extension().is_some_and(|end| end != "py")) {
                    copy(&path, &corpus.join(name))?;
                }
            }
        }
        "npy" => {
            let dict = |shape: &str| format!("{{'descr': '|u1', 'fortran_order': False, 'shape': {shape}, }}\n");
            let image = [b"\x93NUMPY\x01\0\x3f\0", dict("(2, 1, 3)").as_bytes(), &[7; 6]].concat();
            let long = [b"\x93NUMPY\x03\0\x3a\0\0\0", dict("(2,)").as_bytes(), &[7; 3]].concat();
            write(&corpus.join("image"), &image)?;
            write(&corpus.join("version-3"), &long)?;
        }
        "pickled" => {
            for name in ["pair.pt", "map.pt", "views.pt", "map.pkl", "before-zip.pt"] {
                copy(&root().join("fixtures/torch").join(name), &corpus.join(name))?;
            }
        }
        "beton" => write(&corpus.join("own"), small_beton())?,
        "npz" => {
            for name in ["stored.npz", "deflated.npz"] {
                copy(&root().join("fixtures/npz").join(name), &corpus.join(name))?;
            }
        }
        "imaging" => {
            let photos = root().join("fixtures/photos");
            for name in ["textures/fur.jpg", "space/galaxies/blue.jpg", "things/cup.jpg", "things/spoon.png"] {
                copy(&photos.join(name), &corpus.join(name.replace('/', "-")))?;
            }
        }
        "crops" => {
            // The first bytes pick distances and a part.
            let fixtures = root().join("fixtures");
            for name in JPEGS {
                let path = fixtures.join(name);
                let bytes = fs::read(&path).map_err(|error| format!("{}: {error}", path.display()))?;
                write(&corpus.join(name.replace('/', "-")), [&[8, 3, 40, 30, 90, 80][..], &bytes].concat())?;
            }
        }
        "list" => {
            // The first byte picks the kind.
            let seeds: [(&str, &[u8]); 4] = [
                ("csv", b"\0path,label,split,x\r\na.jpg,7,train,\"q \"\"u\"\"\"\nb.jpg,c,val,1e-7\n"),
                ("text", b"\x01a.jpg 7\nb c.jpg 8\n"),
                ("jsonl", b"\x02{\"file\": \"a.jpg\", \"label\": 1, \"x\": [0.10, null]}\n{\"file\": \"b.jpg\"}\n"),
                ("json", b"\x03[{\"file\": \"a.jpg\", \"label\": \"c\"}]"),
            ];
            seeds.into_iter().try_for_each(|(name, bytes)| write(&corpus.join(name), bytes))?;
        }
        "boxes" => seed_label_files(corpus)?,
        "coco" => {
            copy(&root().join("fixtures/coco/annotations/instances_photos.json"), &corpus.join("own.json"))?;
        }
        "index" => copy(&packed.join("plain/index/shard-000000.index"), &corpus.join("own.index"))?,
        "manifest" => copy(&packed.join("plain/manifest.json"), &corpus.join("own.json"))?,
        "plan" | "receipt" | "splits" | "ledger" | "classes" | "cache" | "http" | "xml" | "profile" => {
            let (_, bytes) = TEXTS.iter().find(|(of, _)| *of == name).ok_or("no seed")?;
            write(&corpus.join("seed"), bytes)?;
        }
        _ => {
            let shard = packed.join("zstd/shard-000000.tar.zst");
            let bytes = fs::read(&shard).map_err(|error| format!("{}: {error}", shard.display()))?;
            write(&corpus.join("own.table"), &bytes[bytes.len().saturating_sub(200)..])?;
        }
    }
    let kept = root().join("fuzz/seeds").join(name);
    for entry in fs::read_dir(&kept).into_iter().flatten().flatten() {
        copy(&entry.path(), &corpus.join(entry.file_name()))?;
    }
    Ok(())
}

fn copy(from: &Path, to: &Path) -> Result<()> {
    let bytes = fs::copy(from, to).map_err(|error| format!("{}: {error}", from.display()))?;
    match bytes {
        0..=MAX_BYTES => Ok(()),
        _ => Err(format!("{}: {bytes} bytes, the targets take {MAX_BYTES}", from.display())),
    }
}

//! Defines the benchmarks: one function per table.

use std::{
    fmt::Write,
    path::{Path, PathBuf},
    process::Command,
};

use super::{
    Scale,
    cold::Cold,
    contest::{Contender, Results, contest, median, spread},
    folder, process,
    slow::{HARD_DISK, Slow, SlowDisk},
    trees::Tree,
};
use crate::{
    Result,
    command::{cargo, command, output, remove, run, shardpack, target},
    python,
};

const B3SUM: &str = "1.8.7";
pub(super) const PHOTO_BYTES: u64 = 110_000;
pub(super) const TINY_BYTES: u64 = 3_000;

/// Builds the measured program.
pub fn build() -> Result<()> {
    run(&mut cargo("build --release --package shardpack"))
}

/// Trees of photographs and of tiny images.
pub(super) fn trees(scale: &Scale) -> [Tree; 2] {
    [
        Tree { files: 10_000 / scale.smaller, mean_bytes: PHOTO_BYTES },
        Tree { files: 200_000 / scale.smaller, mean_bytes: TINY_BYTES },
    ]
}

/// Output path of a contender; removes the output of the last run.
pub(super) fn fresh(name: &str) -> Result<PathBuf> {
    let out = folder("out").join(name);
    remove(&out)?;
    std::fs::create_dir_all(folder("out")).map_err(|error| format!("cannot make target/bench/out: {error}"))?;
    Ok(out)
}

/// `shardpack pack` with `options`.
pub(super) fn pack_command(tree: &Path, name: &str, options: &[&str]) -> Result<Command> {
    let mut pack = command(shardpack("release"), ["pack", "--quiet"]);
    pack.args(options).arg(tree).arg(fresh(name)?);
    Ok(pack)
}

fn tar_command(tree: &Path) -> Result<Command> {
    let mut tar = command("sh", ["-c", "tar -cf \"$1\" -C \"$0\" . && sync \"$1\""]);
    tar.arg(tree).arg(fresh("all.tar")?);
    Ok(tar)
}

/// Waits until all written data is on disk, so that no contender pays for the writes of another.
pub(super) fn sync() -> Result<()> {
    run(&mut command("sync", [""; 0]))
}

/// Reads all of `tree` into the page cache.
pub(super) fn warm(tree: &Path) -> Result<()> {
    run(command("sh", ["-c", "find \"$0\" -type f -print0 | xargs -0 cat > /dev/null"]).arg(tree))
}

pub(super) fn clear() -> Result<()> {
    remove(&folder("out"))
}

/// pack against tar, from the page cache.
pub fn pack(scale: &Scale) -> Result<String> {
    let mut text = "Warm page cache. `shardpack pack SRC DST` shuffles, hashes, writes index and manifest, and syncs \
                    all files. GNU tar: `tar -cf X -C SRC . && sync X`.\n"
        .to_owned();
    for tree in trees(scale) {
        let path = tree.make()?;
        warm(&path)?;
        let results = contest(
            scale.rounds,
            &[
                Contender::new("shardpack pack", || pack_command(&path, "shards", &[])),
                Contender::new("GNU tar and sync", || tar_command(&path)),
            ],
            sync,
        )?;
        text += &format!("\n{}, {} rounds:\n\n{}", tree.describe(), scale.rounds, results.table());
    }
    clear().map(|()| text)
}

fn bench_python() -> Result<PathBuf> {
    python::streaming()
}

/// Runs benches/peers/write.py with the word `how`, by `python`.
fn peer<'a>(name: &str, how: &'a str, python: &'a Path, tree: &'a Path) -> Contender<'a> {
    let command = move || {
        let mut write = command(python, ["benches/peers/write.py", how]);
        write.arg(tree).arg(fresh(how)?);
        Ok(write)
    };
    Contender { counts_itself: true, ..Contender::new(name, command) }
}

/// pack against the writers of webdataset and MosaicML.
pub fn peers(scale: &Scale) -> Result<String> {
    let python = bench_python()?;
    let mut text = "Warm page cache. The peers (`benches/peers/write.py`) also shuffle, write shards of 256 MiB and \
                    sync them. They compute no hashes and write no index, unless their format requires it. Seconds and \
                    CPU seconds of the peers exclude import time.\n"
        .to_owned();
    for tree in trees(scale) {
        let path = tree.make()?;
        warm(&path)?;
        let contenders = [
            Contender::new("shardpack pack", || pack_command(&path, "shards", &[])),
            peer("webdataset 1.0.2 ShardWriter", "webdataset", &python, &path),
            peer("mosaicml-streaming 0.13.0 MDSWriter", "mds", &python, &path),
        ];
        let results = contest(scale.rounds, &contenders, sync)?;
        text += &format!("\n{}, {} rounds:\n\n{}", tree.describe(), scale.rounds, results.table());
    }
    clear().map(|()| text)
}

/// Output formats, tar first, each with the `cat` command that reads its shards.
const FORMATS: [(&str, &str); 4] = [
    ("webdataset", "cat \"$0\"/*.tar > /dev/null"),
    ("tfrecord", "cat \"$0\"/shard-*-of-????? > /dev/null"),
    ("recordio", "cat \"$0\"/*.rec > /dev/null"),
    ("mds", "cat \"$0\"/*.mds > /dev/null"),
];

/// pack in each format against pack in tar, and reading each format against `cat`.
pub fn formats(scale: &Scale) -> Result<String> {
    run(&mut cargo("build --release --package shardpack-reader --examples"))?;
    let mut text = "Warm page cache. Writing: `shardpack pack --format FORMAT SRC DST`, sidecars included. Reading: \
                    `cat` of the shards, and the example `read_speed` of shardpack-reader.\n"
        .to_owned();
    for tree in trees(scale) {
        let path = tree.make()?;
        warm(&path)?;
        let packs = FORMATS.map(|(format, _)| {
            let path = path.clone();
            Contender::new(format, move || pack_command(&path, "shards", &["--format", format]))
        });
        let results = contest(scale.rounds, &packs, sync)?;
        text += &format!("\n{}, {} rounds:\n\n{}", tree.describe(), scale.rounds, results.table());
        for (format, cat) in FORMATS {
            run(&mut pack_command(&path, "shards", &["--format", format])?)?;
            let shards = folder("out/shards");
            warm(&shards)?;
            let reads = [
                Contender::new(&format!("cat, {format}"), || {
                    Ok(command("sh", ["-c".as_ref(), cat.as_ref(), shards.as_os_str()]))
                }),
                Contender::new(&format!("shardpack-reader, {format}"), || {
                    Ok(command(target("release/examples/read_speed"), [&shards]))
                }),
            ];
            text += &format!("\n{}", contest(scale.rounds, &reads, sync)?.table());
        }
    }
    clear().map(|()| text)
}

/// Options of shardpack, name of the peer, word of the script, and function that returns the peer's Python.
type FormatPeer = (&'static [&'static str], &'static str, &'static str, fn() -> Result<PathBuf>);

const FORMAT_PEERS: [FormatPeer; 3] = [
    (&["--format", "tfrecord"], "TensorFlow 2.21.0 TFRecordWriter", "tfrecord", python::tensorflow),
    (&["--format", "recordio"], "MXNet 1.9.1 MXIndexedRecordIO", "recordio", python::mxnet),
    (
        &["--format", "mds", "--set", "hashes=sha1"],
        "mosaicml-streaming 0.13.0 MDSWriter(hashes=['sha1'])",
        "mds-sha1",
        bench_python,
    ),
];

/// pack in each format against the original writer of the format.
pub fn format_peers(scale: &Scale) -> Result<String> {
    let [tree, _] = trees(scale);
    let path = tree.make()?;
    let mut text = format!(
        "Warm page cache. `shardpack pack OPTIONS SRC DST` is measured as a whole process, with all hashes, index, \
         manifest and sidecars. Each peer is a plain Python loop over the format's own writer \
         (`benches/peers/write.py`) that also shuffles and syncs. Seconds and CPU seconds of the loops exclude import \
         time.\n\n\
         {}, {} rounds:\n",
        tree.describe(),
        scale.rounds
    );
    for (options, name, how, python) in FORMAT_PEERS {
        let python = match python() {
            Ok(python) => python,
            // Some peers do not install everywhere.
            Err(why) => {
                println!("{why}");
                text += &format!("\n{name}: not measured because it does not install here.\n");
                continue;
            }
        };
        warm(&path)?;
        let contenders = [
            Contender::new(&format!("shardpack pack {}", options.join(" ")), || pack_command(&path, "shards", options)),
            peer(name, how, &python, &path),
        ];
        text += &format!("\n{}", contest(scale.rounds, &contenders, sync)?.table());
    }
    clear().map(|()| text)
}

/// pack against tar, from the disk.
pub fn cold(scale: &Scale) -> Result<String> {
    let cold = Cold::best();
    let mut text = format!("Cold page cache: {}.\n", cold.describe());
    for tree in trees(scale) {
        let path = tree.make()?;
        let results = contest(
            scale.rounds,
            &[
                Contender::new("shardpack pack", || pack_command(&path, "shards", &[])),
                Contender::new("shardpack pack --read-order plan", || {
                    pack_command(&path, "shards", &["--read-order", "plan"])
                }),
                Contender::new("GNU tar and sync", || tar_command(&path)),
            ],
            || sync().and_then(|()| cold.forget(&path)),
        )?;
        text += &format!("\n{}, {} rounds:\n\n{}", tree.describe(), scale.rounds, results.table());
    }
    clear().map(|()| text)
}

/// pack against tar, from a disk that the kernel slows down.
pub fn slow(scale: &Scale) -> Result<String> {
    let tree = Tree { files: 600 / scale.smaller.min(20), mean_bytes: PHOTO_BYTES };
    let path = tree.make()?;
    if let Err(why) = SlowDisk::new(&path, "try", Slow::Both, HARD_DISK) {
        return Ok(format!("Not measured: the disk cannot be throttled here: {why}.\n"));
    }
    if matches!(Cold::best(), Cold::Advise) {
        return Ok("Not measured: the page cache cannot be dropped here.\n".to_owned());
    }
    let one = folder("one-file");
    run(command("sh", ["-c", "find \"$0\" -type f -print0 | xargs -0 cat > \"$1\""]).arg(&path).arg(&one))?;
    let packed = |order: &'static [&'static str]| {
        let path = &path;
        move || pack_command(path, "shards", order)
    };
    let shell = |script: &str, path: &Path| {
        let mut shell = command("sh", ["-c", script]);
        shell.arg(path);
        Ok(shell)
    };
    let mut text = format!(
        "The kernel limits the disk I/O of a control group to {}, separately for reads and writes. Each run starts \
         with a cold page cache; program files are evicted too. {}, {} rounds.\n",
        HARD_DISK.describe(),
        tree.describe(),
        scale.rounds,
    );
    for (what, slow) in [("Only reads are throttled", Slow::Reads), ("Reads and writes are throttled", Slow::Both)] {
        let contenders: [(&str, Box<dyn Fn() -> Result<Command>>); 5] = [
            ("shardpack pack", Box::new(packed(&[]))),
            ("shardpack pack --read-order plan", Box::new(packed(&["--read-order", "plan"]))),
            ("GNU tar and sync", Box::new(|| tar_command(&path))),
            (
                "find and cat of the files",
                Box::new(|| shell("find \"$0\" -type f -print0 | xargs -0 cat > /dev/null", &path)),
            ),
            ("cat of one file with the same bytes", Box::new(|| shell("cat \"$0\" > /dev/null", &one))),
        ];
        // One control group per command, to count its requests.
        let disk = |number: usize| SlowDisk::new(&path, &number.to_string(), slow, HARD_DISK);
        let disks = (0..contenders.len()).map(disk).collect::<Result<Vec<_>>>()?;
        let contenders: Vec<_> = contenders
            .iter()
            .zip(&disks)
            .map(|((name, inner), disk)| Contender::new(name, move || Ok(disk.enter(&inner()?))))
            .collect();
        let results = contest(scale.rounds, &contenders, || sync().and_then(|()| Cold::DropCaches.forget(&path)))?;
        let images = (scale.rounds as u64 * tree.files) as f64;
        let counts = contenders
            .iter()
            .zip(&disks)
            .map(|(contender, disk)| Ok(format!("{} {:.2}", contender.name, disk.reads()? as f64 / images)));
        let counts = counts.collect::<Result<Vec<_>>>()?.join("; ");
        text += &format!("\n{what}:\n\n{}\nRead requests per image: {counts}.\n", results.table());
    }
    remove(&one)?;
    clear()?;
    Ok(text)
}

/// verify against `b3sum`.
pub fn verify(scale: &Scale) -> Result<String> {
    let tools = target("bench-tools");
    let b3sum = tools.join("bin/b3sum");
    let version = format!("b3sum {B3SUM}");
    if !output(&mut command(&b3sum, ["--version"])).is_ok_and(|found| found.trim() == version) {
        run(cargo(&format!("install b3sum --locked --version {B3SUM} --root")).arg(&tools))?;
    }
    let mut text = "Warm page cache, all cores: `shardpack verify DST` and `b3sum DST/*.tar`. `verify` also checks \
                    every sample, index and header.\n"
        .to_owned();
    for tree in trees(scale) {
        let path = tree.make()?;
        let shards = packed(&path)?;
        warm(&shards)?;
        let results = contest(
            scale.rounds,
            &[
                Contender::new("shardpack verify", || {
                    Ok(command(shardpack("release"), ["verify".as_ref(), "--quiet".as_ref(), shards.as_os_str()]))
                }),
                Contender::new(&version, || {
                    let mut sum = command("sh", ["-c", "exec \"$0\" \"$1\"/*.tar"]);
                    sum.arg(&b3sum).arg(&shards);
                    Ok(sum)
                }),
            ],
            sync,
        )?;
        text += &format!("\nShards of {}, {} rounds:\n\n{}", tree.describe(), scale.rounds, results.table());
    }
    clear().map(|()| text)
}

fn packed(tree: &Path) -> Result<PathBuf> {
    run(&mut pack_command(tree, "shards", &[])?)?;
    Ok(folder("out/shards"))
}

/// The reader against `cat`.
pub fn read(scale: &Scale) -> Result<String> {
    run(&mut cargo("build --release --package shardpack-reader --examples"))?;
    let example = |name: &str| target("release/examples").join(name);
    let mut text = "Warm page cache, one thread: `cat DST/*.tar > /dev/null`, and the example `read_speed` of \
                    shardpack-reader, which reads all images of all shards.\n"
        .to_owned();
    for tree in trees(scale) {
        let path = tree.make()?;
        let shards = packed(&path)?;
        warm(&shards)?;
        let reader = |options: &'static [&'static str]| {
            let (program, shards) = (example("read_speed"), shards.clone());
            move || {
                let mut read = command(&program, options);
                read.arg(&shards);
                Ok(read)
            }
        };
        let results = contest(
            scale.rounds,
            &[
                Contender::new("cat", || {
                    Ok(command("sh", ["-c".as_ref(), "cat \"$0\"/*.tar > /dev/null".as_ref(), shards.as_os_str()]))
                }),
                Contender::new("shardpack-reader", reader(&[])),
                Contender::new("shardpack-reader, each image's hash checked", reader(&["--check"])),
            ],
            sync,
        )?;
        text += &format!("\nShards of {}, {} rounds:\n\n{}", tree.describe(), scale.rounds, results.table());
    }
    let (_, opened) = process::measure(&mut command(example("open_time"), [""; 0]))?;
    text += &format!("\nOpening a dataset, example `open_time`: {}.\n", opened.trim());
    clear().map(|()| text)
}

/// Shards of each format as a source, against the tree of images.
pub fn convert(scale: &Scale) -> Result<String> {
    let [tree, _] = trees(scale);
    let path = tree.make()?;
    let mut sources = Vec::new();
    for format in ["webdataset", "tfrecord", "recordio", "mds"] {
        let source = format!("from-{format}");
        run(&mut pack_command(&path, &source, &["--format", format])?)?;
        let folder = folder("out").join(&source);
        // Without these files, the shards look like those of any other writer.
        for ours in ["manifest.json", "BLAKE3SUMS", "index"] {
            remove(&folder.join(ours))?;
        }
        warm(&folder)?;
        sources.push((format, folder));
    }
    warm(&path)?;
    let mut contenders = vec![Contender::new("pack of the tree", || pack_command(&path, "shards", &[]))];
    for (format, source) in &sources {
        contenders.push(Contender::new(&format!("convert from {format}"), move || {
            let mut convert = command(shardpack("release"), ["convert", "--quiet"]);
            convert.arg(source).arg(fresh("shards")?);
            Ok(convert)
        }));
    }
    let results = contest(scale.rounds, &contenders, sync)?;
    let text = format!(
        "Warm page cache, output in webdataset, shuffled again. `shardpack pack SRC DST` reads the images as files. \
         `shardpack convert SHARDS DST` reads the same images from shards without manifest and index. {}, {} \
         rounds:\n\n{}",
        tree.describe(),
        scale.rounds,
        results.table()
    );
    clear().map(|()| text)
}

/// An LMDB as a source, against a loop over py-lmdb and webdataset's writer, and against the tree of images.
pub fn lmdb(scale: &Scale) -> Result<String> {
    let [tree, _] = trees(scale);
    let (path, python) = (tree.make()?, python::peers()?);
    let source = fresh("folder.lmdb")?;
    let script = "benches/peers/from_lmdb.py";
    run(command(&python, [script, "make"]).arg(&path).arg(&source))?;
    warm(&path)?;
    run(command("sh", ["-c", "cat \"$0\" > /dev/null"]).arg(&source))?;
    let convert = || {
        let mut convert = command(shardpack("release"), ["convert", "--quiet"]);
        convert.arg(&source).arg(fresh("shards")?);
        Ok(convert)
    };
    let by_loop = || {
        let mut pack = command(&python, [script, "pack"]);
        pack.arg(&source).arg(fresh("by-loop")?);
        Ok(pack)
    };
    let contenders = [
        Contender::new("shardpack convert of the LMDB", convert),
        Contender { counts_itself: true, ..Contender::new("py-lmdb and webdataset ShardWriter", by_loop) },
        Contender::new("shardpack pack of the tree", || pack_command(&path, "tree", &[])),
    ];
    let results = contest(scale.rounds, &contenders, sync)?;
    let text = format!(
        "Warm page cache. The source is an LMDB of pickles `(bytes, label)`; the output is webdataset, shuffled: \
         `shardpack convert LMDB DST`, a plain loop (`{script}`, import time excluded), and `shardpack pack` of the \
         same images as files. {}, {} rounds:\n\n{}",
        tree.describe(),
        scale.rounds,
        results.table()
    );
    clear().map(|()| text)
}

/// pack at three sizes: the time per file must not grow with the number of files.
pub fn scale(scale: &Scale) -> Result<String> {
    let sizes = [10_000, 50_000, 200_000].map(|files| (files / scale.smaller).max(1));
    let mut contenders = Vec::new();
    for files in sizes {
        let path = Tree { files, mean_bytes: TINY_BYTES }.make()?;
        warm(&path)?;
        contenders.push(Contender::new(&files.to_string(), move || pack_command(&path, "shards", &[])));
    }
    let Results(results) = contest(scale.rounds, &contenders, sync)?;
    let per_file = |number: usize| -> Vec<f64> {
        results[number].1.iter().map(|usage| usage.seconds * 1e6 / sizes[number] as f64).collect()
    };
    let mut text = format!(
        "Warm page cache: `shardpack pack` of {TINY_BYTES}-byte files, {} rounds:\n\n\
         | files | seconds | µs a file | µs a file ÷ first, median (least to most) | CPU µs a file | peak memory |\n\
         |---:|---:|---:|---:|---:|---:|\n",
        scale.rounds
    );
    for (number, (name, usages)) in results.iter().enumerate() {
        let ratios = per_file(number).iter().zip(per_file(0)).map(|(time, first)| time / first).collect();
        let cpu = median(usages.iter().map(|usage| usage.cpu_seconds * 1e6 / sizes[number] as f64).collect());
        let peak = usages.iter().map(|usage| usage.peak_bytes).max().unwrap_or(0) / 1_000_000;
        // Writing to a String cannot fail.
        let _ = writeln!(
            text,
            "| {name} | {} | {} | {} | {cpu:.1} | {peak} MB |",
            spread(usages.iter().map(|usage| usage.seconds).collect(), 2),
            spread(per_file(number), 1),
            spread(ratios, 2),
        );
    }
    clear().map(|()| text)
}

/// Listing and plan of 100 million samples.
pub fn listing(scale: &Scale) -> Result<String> {
    run(&mut cargo("build --release --package shardpack-packer --example listing_scale"))?;
    let samples = 100_000_000 / scale.smaller;
    let program = target("release/examples/listing_scale");
    let mut text = "The example `listing_scale` of shardpack-packer:\n".to_owned();
    // Large folders and small ones.
    for classes in [1_000, 100_000 / scale.smaller] {
        let arguments = [samples, classes].map(|number| number.to_string());
        let (usage, printed) = process::measure(&mut command(&program, arguments))?;
        text += &format!("- {}; peak {:.2} GB\n", printed.trim(), usage.peak_bytes as f64 / 1e9);
    }
    Ok(text)
}

//! Combines every kind of source with every kind of option. Each pair gives a dataset that verifies, accounts for every image and
//! keeps the components beside the images, or fails with an error that is listed here.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    io::Cursor,
    path::{Path, PathBuf},
    process::Command,
    sync::{
        Mutex,
        atomic::{AtomicUsize, Ordering},
    },
};

use image::{ImageFormat, RgbImage};
use serde_json::json;
use shardpack_reader::Dataset;
use shardpack_source::ledger::{self, Fate};
use shardpack_testing::{
    Bench, Rng, run,
    shards::{self, Sample, manifest, written_by_hand},
    sweep,
};

/// The images: path, width, height. Number 4 has the same bytes as number 3.
const IMAGES: [(&str, u32, u32); 6] = [
    ("a/0.jpg", 40, 30),
    ("a/1.jpg", 36, 30),
    ("a/2.png", 40, 32),
    ("b/3.jpg", 31, 40),
    ("b/4.jpg", 31, 40),
    ("b/5.jpg", 6, 6),
];
/// Number of packed, filtered and duplicate images.
type Counts = (u64, u64, u64);
const ALL: Counts = (6, 0, 0);

/// A source: its name, the command that reads it, its path and its options.
struct SourceCase {
    name: &'static str,
    verb: &'static str,
    path: PathBuf,
    options: Vec<&'static str>,
    /// The component beside the image in each sample, if any.
    beside: Option<&'static str>,
    /// Class names; `None` without labels.
    classes: Option<[&'static str; 2]>,
}

/// Options under test: a name, the options, and the expected counts.
struct Asked {
    name: &'static str,
    options: Vec<String>,
    counts: Counts,
    /// Images keep their bytes.
    keeps_bytes: bool,
}

fn encoded(width: u32, height: u32, seed: u64, format: ImageFormat) -> Vec<u8> {
    let mut rng = Rng::new(seed);
    let image = RgbImage::from_fn(width, height, |_, _| image::Rgb([0, 1, 2].map(|_| rng.next() as u8)));
    let mut out = Cursor::new(Vec::new());
    image.write_to(&mut out, format).unwrap();
    out.into_inner()
}

fn images() -> Vec<(&'static str, i64, Vec<u8>)> {
    let image = |(number, (path, width, height)): (usize, &(&'static str, u32, u32))| {
        let format = if path.ends_with("png") { ImageFormat::Png } else { ImageFormat::Jpeg };
        let seed = if number == 4 { 3 } else { number as u64 };
        (*path, i64::from(path.starts_with('b')), encoded(*width, *height, seed, format))
    };
    IMAGES.iter().enumerate().map(image).collect()
}

/// Content of the component beside the image at `path`.
fn text(path: &str) -> String {
    format!("{{\"said\":\"of {path}\"}}")
}

/// Whether `found` is the component of the image at `path`.
fn is_beside(path: &str, found: &[u8]) -> bool {
    String::from_utf8_lossy(found).contains(path)
}

fn python(script: &str, arguments: &[&Path]) {
    let Some(python) = std::env::var_os("SHARDPACK_PYTHON") else {
        panic!("SHARDPACK_PYTHON is not set: run `cargo xtask test`, which sets up Python");
    };
    let ran = Command::new(python).args(["-c", script]).args(arguments).output().unwrap();
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
}

const WRITE_LMDB: &str = "
import os, pickle, sys, lmdb
tree, out = sys.argv[1:]
paths = sorted(os.path.join(c, f) for c in os.listdir(tree) for f in os.listdir(os.path.join(tree, c)))
with lmdb.open(out, map_size=1 << 24) as environment, environment.begin(write=True) as transaction:
    for number, path in enumerate(paths):
        image = open(os.path.join(tree, path), 'rb').read()
        transaction.put(b'%d' % number, pickle.dumps((image, int(path[0] == 'b'))))
";

const WRITE_HDF5: &str = "
import os, sys, h5py, numpy
tree, out = sys.argv[1:]
paths = sorted(os.path.join(c, f) for c in os.listdir(tree) for f in os.listdir(os.path.join(tree, c)))
with h5py.File(out, 'w') as file:
    data = file.create_dataset('images', (len(paths),), h5py.vlen_dtype(numpy.uint8))
    for number, path in enumerate(paths):
        data[number] = numpy.fromfile(os.path.join(tree, path), numpy.uint8)
    file['labels'] = [int(path[0] == 'b') for path in paths]
";

fn sources(bench: &Bench) -> Vec<SourceCase> {
    let images = images();
    // The sources stand beside their destination, as users have them.
    let at = |name: &str| bench.at(name);
    let (tree, with) = (at("tree"), at("with"));
    for (path, _, image) in &images {
        for root in [&tree, &with] {
            fs::create_dir_all(root.join(path).parent().unwrap()).unwrap();
            fs::write(root.join(path), image).unwrap();
        }
        fs::write(with.join(path).with_extension("txt"), text(path)).unwrap();
    }
    let write = |name: &str, text: String| {
        fs::write(tree.join(name), text).unwrap();
        tree.join(name)
    };
    let rows = |row: &dyn Fn(&str, i64) -> String| images.iter().map(|(path, label, _)| row(path, *label)).collect();
    let names = ["a", "b"];
    let list: String = rows(&|path, label| format!("{path},{}\n", names[label as usize]));
    let list = write("list.csv", format!("path,label\n{list}"));
    let extra: String = rows(&|path, label| {
        let line = json!({"path": path, "label": names[label as usize], "said": format!("of {path}"), "score": 0.5});
        format!("{line}\n")
    });
    let extra = write("extra.jsonl", extra);
    let coco = json!({
        "images": images.iter().enumerate().map(|(id, (path, ..))| json!({"id": id, "file_name": path})).collect::<Vec<_>>(),
        "annotations": [{"id": 1, "image_id": 3, "category_id": 1, "bbox": [0.1, 1, 2, 3]}],
        "categories": [{"id": 1, "name": "thing"}],
    });
    let coco = write("coco.json", coco.to_string());
    let dataset = at("dataset");
    run(&["pack", with.to_str().unwrap(), dataset.to_str().unwrap(), "--with", "txt", "--quiet"]).code(0);
    let samples: Vec<Sample> = images.iter().map(|(_, label, image)| (*label, image.clone())).collect();
    let by_hand = |format: &str| {
        let (name, bytes) = written_by_hand(format, &samples);
        fs::write(at(name), &bytes).unwrap();
        (at(name), bytes)
    };
    let (tar, bytes) = by_hand("webdataset");
    fs::write(at("y.tar.zst"), zstd::encode_all(&*bytes, 1).unwrap()).unwrap();
    let (lmdb, hdf5) = (at("z.lmdb"), at("z.h5"));
    let photos = at("photos");
    fs::create_dir(&photos).unwrap();
    let _ = names.map(|name| std::os::unix::fs::symlink(tree.join(name), photos.join(name)).unwrap());
    python(WRITE_LMDB, &[&photos, &lmdb]);
    python(WRITE_HDF5, &[&photos, &hdf5]);
    let of_pack =
        |name, path, options, beside, classes| SourceCase { name, verb: "pack", path, options, beside, classes };
    let foreign = |name, path| SourceCase {
        name,
        verb: "convert",
        path,
        options: Vec::new(),
        beside: None,
        classes: Some(["0", "1"]),
    };
    vec![
        of_pack("tree", photos.clone(), vec![], None, Some(names)),
        of_pack("tree and files beside", with, vec!["--with", "txt"], Some("txt"), Some(names)),
        of_pack("tree without labels", photos, vec!["--no-labels"], None, None),
        of_pack("list", list, vec![], None, Some(names)),
        of_pack("list with extra columns", extra, vec![], Some("json"), Some(names)),
        of_pack("coco", coco, vec![], Some("json"), None),
        SourceCase { classes: Some(names), beside: Some("txt"), ..foreign("dataset", dataset) },
        foreign("tar", tar),
        foreign("tar.zst", at("y.tar.zst")),
        SourceCase { options: vec!["--no-labels"], classes: None, ..foreign("tar without labels", at("x.tar")) },
        foreign("tfrecord", by_hand("tfrecord").0),
        foreign("recordio", by_hand("recordio").0),
        foreign("mds", by_hand("mds").0),
        foreign("parquet", by_hand("parquet").0),
        foreign("lmdb", lmdb),
        foreign("hdf5", hdf5),
    ]
}

fn asked() -> Vec<Asked> {
    let asked = |name, options: &[&str], counts, keeps_bytes| Asked {
        name,
        options: options.iter().map(|option| (*option).to_owned()).collect(),
        counts,
        keeps_bytes,
    };
    let mut all = vec![
        asked("nothing", &[], ALL, true),
        asked("resize", &["--resize", "12"], ALL, false),
        asked("encode", &["--encode", "webp"], ALL, false),
        asked("fix", &["--fix"], ALL, false),
        asked("min-side", &["--min-side", "10"], (5, 1, 0), true),
        asked("formats", &["--formats", "jpeg"], (5, 1, 0), true),
        asked("dedup", &["--dedup", "exact"], (5, 0, 1), true),
        asked("sample-per-class", &["--sample-per-class", "2"], (4, 2, 0), true),
        asked("classes", &["--classes", "CLASSES"], (3, 3, 0), true),
        asked(
            "dedup, min-side and resize",
            &["--dedup", "exact", "--min-side", "10", "--resize", "12"],
            (4, 1, 1),
            false,
        ),
        asked("compress", &["--compress", "zstd"], ALL, true),
        asked("compress and resize", &["--compress", "zstd", "--resize", "12"], ALL, false),
        asked("no sidecars", &["--sidecars", "none"], ALL, true),
        asked("meta json", &["--meta", "json"], ALL, true),
        asked(
            "two formats and encode",
            &["--format", "webdataset", "--format", "tfrecord", "--encode", "png"],
            ALL,
            false,
        ),
    ];
    for format in shards::names() {
        all.push(asked("format", &["--format", format], ALL, true));
        all.push(asked("format and resize", &["--format", format, "--resize", "12"], ALL, false));
    }
    all
}

/// The expected error of a pair, or `None` if the pair must pass.
fn refusal(source: &SourceCase, asked: &Asked) -> Option<&'static str> {
    let has = |option: &str| asked.options.iter().any(|one| one == option);
    match () {
        // The boxes would not change with the images.
        () if has("--resize") && source.name == "coco" => Some("--resize changes images"),
        () if has("recordio") && source.beside.is_some() => Some("recordio"),
        () if has("recordio") && source.classes.is_none() => Some("RecordIO has a label in every record"),
        () if has("--classes") && source.classes.is_none() => Some("--classes"),
        () => None,
    }
}

/// Runs a pair and returns the problem, if any, as the error.
fn tried(bench: &Bench, number: usize, source: &SourceCase, asked: &Asked) -> Result<(), String> {
    let dst = bench.at(&format!("out-{number}"));
    let classes = bench.at(&format!("classes-{number}"));
    fs::write(&classes, source.classes.map_or("b", |classes| classes[1])).unwrap();
    let mut arguments =
        vec![source.verb, source.path.to_str().unwrap(), dst.to_str().unwrap(), "--quiet", "--jobs", "1"];
    arguments.extend(&source.options);
    arguments.extend(asked.options.iter().map(|option| match option.as_str() {
        "CLASSES" => classes.to_str().unwrap(),
        option => option,
    }));
    let ran = run(&arguments);
    if let Some(expected) = refusal(source, asked) {
        return match ran.code == 2 && ran.stderr.contains(expected) && !dst.join("manifest.json").exists() {
            true => Ok(()),
            false => {
                Err(format!("exit {}, expected a refusal with {expected:?}: {}{}", ran.code, ran.stdout, ran.stderr))
            }
        };
    }
    if ran.code != 0 {
        return Err(format!("exit {}: {}{}", ran.code, ran.stdout, ran.stderr));
    }
    let several = dst.join("tfrecord").is_dir();
    let folders = if several { vec![dst.join("webdataset"), dst.join("tfrecord")] } else { vec![dst.clone()] };
    for folder in folders {
        checked(&folder, source, asked)?;
    }
    fs::remove_dir_all(&dst).unwrap();
    Ok(())
}

/// Checks a dataset and returns the problem, if any, as the error.
fn checked(dst: &Path, source: &SourceCase, asked: &Asked) -> Result<(), String> {
    let ran = run(&["verify", "--quiet", dst.to_str().unwrap()]);
    if ran.code != 0 {
        return Err(format!("does not verify: {}{}", ran.stdout, ran.stderr));
    }
    let (manifest, dataset) = (manifest(dst), Dataset::open(dst).unwrap().check_content(true));
    let (packed, filtered, duplicates) = match source.classes {
        // Without labels, all images are in one class.
        None if asked.name == "sample-per-class" => (2, 4, 0),
        // Images with the same bytes and another text are no duplicates.
        _ if source.beside.is_some() => (asked.counts.0 + asked.counts.2, asked.counts.1, 0),
        _ => asked.counts,
    };
    let counts = manifest.ledger.counts;
    if (counts.discovered, counts.packed, counts.filtered, counts.duplicates, counts.skipped)
        != (6, packed, filtered, duplicates, 0)
    {
        return Err(format!("{counts:?}, expected {packed} packed, {filtered} filtered, {duplicates} duplicates"));
    }
    let lines = ledger::read(&fs::read(dst.join("ledger.jsonl")).unwrap_or_default()).unwrap();
    let named: BTreeSet<&[u8]> =
        lines.iter().filter(|line| line.fate != Fate::Kept).map(|line| line.path.as_slice()).collect();
    if named.len() as u64 != 6 - packed {
        return Err(format!("the ledger names {} that are not packed, expected {}", named.len(), 6 - packed));
    }
    let mut originals = BTreeMap::<Vec<u8>, u64>::new();
    images().into_iter().for_each(|(.., image)| *originals.entry(image).or_default() += 1);
    for number in 0..dataset.len() {
        let sample = dataset.sample(number).map_err(|error| error.to_string())?;
        sample.check_frame().map_err(|error| error.to_string())?;
        let path = String::from_utf8_lossy(sample.path()).into_owned();
        if sample.label().is_some() != source.classes.is_some() {
            return Err(format!("{path}: label {:?}", sample.label()));
        }
        if asked.keeps_bytes {
            match originals.get_mut(sample.bytes()) {
                Some(left @ 1..) => *left -= 1,
                _ => return Err(format!("{path}: other bytes than in the source")),
            }
        }
        if let Some(beside) = source.beside {
            let found = sample.component(beside).ok_or_else(|| format!("{path}: no {beside}"))?;
            if !is_beside(&path, found) {
                return Err(format!("{path}: {beside} is {}", String::from_utf8_lossy(found)));
            }
        }
    }
    Ok(())
}

#[test]
fn every_source_goes_with_every_option() {
    let bench = Bench::new();
    let (sources, all) = (sources(&bench), asked());
    let options = |(number, source)| sweep::turns(&all, number).map(move |(_, asked)| (source, asked));
    let pairs: Vec<_> = sources.iter().enumerate().flat_map(options).collect();
    let (next, wrong) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    let try_all = || {
        while let Some((number, (source, asked))) = {
            let n = next.fetch_add(1, Ordering::Relaxed);
            pairs.get(n).map(|pair| (n, pair))
        } {
            if let Err(what) = tried(&bench, number, source, asked) {
                let text = format!("{} with {} ({}): {what}", source.name, asked.name, asked.options.join(" "));
                wrong.lock().unwrap().push(text);
            }
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(2, usize::from) {
            scope.spawn(try_all);
        }
    });
    let wrong = wrong.into_inner().unwrap();
    assert!(wrong.is_empty(), "{} of {} pairs:\n{}", wrong.len(), pairs.len(), wrong.join("\n"));
}

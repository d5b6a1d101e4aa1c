//! Packs trees of `.npz` files: each array is a component, in every format. Covers damaged files and false headers.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use shardpack_reader::Dataset;
use shardpack_testing::{
    Bench, Ran, contents,
    lists::{list, mend, verify},
    run,
};

/// Formats, each with the environment variable of the Python that reads it.
const READERS: [(&str, &str); 3] = [
    ("webdataset", "SHARDPACK_PYTHON"),
    ("mds", "SHARDPACK_PYTHON_STREAMING"),
    ("tfrecord", "SHARDPACK_PYTHON_TENSORFLOW"),
];

fn script(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/peers").join(name)
}

/// Runs `write_npz.py` and returns the folder of its files.
fn written(bench: &Bench) -> PathBuf {
    let Some(python) = std::env::var_os("SHARDPACK_PYTHON") else {
        panic!("SHARDPACK_PYTHON is not set: run `cargo xtask test`, which sets up Python");
    };
    let out = bench.at("npz");
    fs::create_dir(&out).unwrap();
    let ran = Command::new(python).arg(script("write_npz.py")).arg(&out).output().unwrap();
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
    out
}

fn pack(src: &Path, dst: &Path, options: &[&str]) -> Ran {
    run(&[&["pack", src.to_str().unwrap(), dst.to_str().unwrap()], options].concat())
}

fn sorted(json: &[u8]) -> Vec<BTreeMap<String, String>> {
    let mut told: Vec<_> = serde_json::from_slice(json).unwrap();
    told.sort();
    told
}

/// Component contents by path and name, and the component types.
fn components(dst: &Path) -> (BTreeMap<String, BTreeMap<String, Vec<u8>>>, String) {
    let dataset = Dataset::open(dst).unwrap();
    let names = &dataset.manifest().components;
    let (mut reader, mut all) = (dataset.reader(..).unwrap(), BTreeMap::new());
    while let Some(sample) = reader.next().unwrap() {
        let contents = names
            .iter()
            .enumerate()
            .filter(|(_, name)| *name != "cls")
            .filter_map(|(number, name)| Some((name.clone(), sample.content(number).unwrap()?.into_owned())));
        all.insert(String::from_utf8(sample.path().to_vec()).unwrap(), contents.collect());
    }
    let settings = &dataset.manifest().format.settings;
    (all, format!("{} {}", settings["payload"], settings.get("beside").map_or("", String::as_str)))
}

#[test]
fn arrays_are_components_that_every_reader_reads() {
    let bench = Bench::new();
    let written = written(&bench);
    let (source, expected) = (written.join("good"), sorted(&fs::read(written.join("good.json")).unwrap()));
    let mut of_formats = Vec::new();
    for (format, variable) in READERS {
        let dst = bench.at(format);
        let ran = pack(&source, &dst, &["--format", format, "--shards", "2"]).code(0);
        ran.says("no images in here: the samples are its .npz files")
            .says("each .npz is a sample of its arrays: x.npy <f4[?x6], mask.npy |b1[?x6], names.npy array[2]")
            .says("30 samples in 3 classes")
            .says("30 of 30 samples")
            .says_not("image ");
        let (found, types) = components(&dst);
        assert!(types.starts_with("x.npy:<f4[?x6] mask.npy:|b1[?x6],names.npy:"), "{types}");
        assert!(types.ends_with("weight.npy:<i2[],y.npy:<i8[3]"), "{types}");
        run(&["verify", "--quiet", "--decode", dst.to_str().unwrap()]).code(0);
        verify(&dst, &source, &[]);
        mend(&dst, &source);
        of_formats.push(found);
        let Some(python) = std::env::var_os(variable) else {
            assert_ne!(variable, "SHARDPACK_PYTHON", "not set: run `cargo xtask test`");
            eprintln!("{variable} is not set: {format} was NOT read");
            continue;
        };
        let read = Command::new(python).arg(script("read_values.py")).args([format, "2"]).arg(&dst).output().unwrap();
        assert!(read.status.success(), "{format}: {}", String::from_utf8_lossy(&read.stderr));
        for (found, expected) in sorted(&read.stdout).iter().zip(&expected) {
            assert_eq!(found, expected, "{format}");
        }
    }
    assert!(of_formats.iter().all(|found| *found == of_formats[0] && found.len() == 30));
    // One thread, a plan file, and a conversion from another format give the same data.
    let alone = bench.at("alone");
    let options = ["--quiet", "--format", "mds", "--shards", "2", "--jobs", "1", "--read-order", "physical"];
    pack(&source, &alone, &options).code(0);
    assert_eq!(contents(&alone), contents(&bench.at("mds")));
    let (plan, planned) = (bench.at("of.plan"), bench.at("planned"));
    let paths = [source.to_str().unwrap(), planned.to_str().unwrap(), plan.to_str().unwrap()];
    run(&["plan", paths[0], paths[1], "-o", paths[2], "--format", "mds", "--shards", "2"]).code(0).says("30 samples");
    run(&["pack", "--quiet", "--plan", paths[2], paths[1]]).code(0);
    assert_eq!(contents(&planned), contents(&alone));
    let there = bench.at("there");
    run(&["convert", "--quiet", bench.at("tfrecord").to_str().unwrap(), there.to_str().unwrap(), "--format", "mds"])
        .code(0);
    assert_eq!(components(&there).0, of_formats[0]);
}

#[test]
fn arrays_that_are_none_of_a_component_stay_files() {
    let bench = Bench::new();
    let written = written(&bench);
    let source = written.join("odd");
    let expected: BTreeMap<String, BTreeMap<String, String>> =
        serde_json::from_slice(&fs::read(written.join("odd.json")).unwrap()).unwrap();
    let dst = bench.dst();
    pack(&source, &dst, &[]).code(0).says("3 of 6 samples without some.npy beside them");
    let (found, types) = components(&dst);
    assert_eq!(types, "x.npy:>f8[4x3] f.npy:bytes,some.npy:<i2[]?,t.npy:bytes");
    assert_eq!(found.len(), 6);
    for (path, sample) in &found {
        let names: Vec<_> = sample.keys().map(|name| name.trim_end_matches(".npy")).collect();
        assert_eq!(names, expected[path].keys().collect::<Vec<_>>(), "{path}");
    }
    // The bytes are as numpy wrote them: Fortran order.
    let fortran = String::from_utf8_lossy(&found["a/2.npz"]["f.npy"]).into_owned();
    assert!(fortran.contains("'fortran_order': True"), "{fortran}");
    verify(&dst, &source, &[]);
    mend(&dst, &source);
}

#[test]
fn a_file_that_is_damaged_or_lies_is_named_with_its_member() {
    let bench = Bench::new();
    let written = written(&bench);
    let rows = [
        ("truncated", "without a directory at its end"),
        ("half", "without a directory at its end"),
        ("none", "no zip file by its first bytes"),
        ("objects", "member \"x.npy\": items are Python objects"),
        ("structured", "member \"x.npy\": items have named fields"),
        ("twice", "member \"x.npy\" is there twice"),
        ("case", "would be one component, x.npy"),
        ("absolute", "member \"/x.npy\": its name leads out of the file"),
        ("above", "member \"../x.npy\": its name leads out of the file"),
        ("text", "member \"readme.txt\": is no array"),
        ("bzip2", "member \"x.npy\": is packed by method 12"),
        ("encrypted", "member \"x.npy\": is encrypted"),
        ("flipped", "member \"x.npy\": damaged: its CRC-32 is"),
        ("short", "member \"x.npy\": truncated"),
        ("longer", "member \"x.npy\": 3 bytes behind the items"),
        ("claims", "member \"x.npy\": 4294901760 bytes of"),
        ("less", "member \"x.npy\": "),
        ("zip64", "member \"x.npy\": its zip64 lengths are missing"),
        ("overlap", "member \"y.npy\": its header and the directory differ"),
        ("many", "100 members, a sample has room for 33"),
        ("huge", "member \"x.npy\": "),
        ("empty", "has no x.npy, which others have"),
    ];
    let source = bench.at("tree");
    let bad = written.join("bad");
    assert_eq!(fs::read_dir(&bad).unwrap().count(), rows.len());
    for (name, said) in rows {
        let _ = fs::remove_dir_all(&source);
        fs::create_dir_all(source.join("a")).unwrap();
        fs::copy(written.join("good/cat/0.npz"), source.join("a/good.npz")).unwrap();
        fs::copy(bad.join(format!("{name}.npz")), source.join("a/bad.npz")).unwrap();
        let dst = bench.at(&format!("dst-{name}"));
        pack(&source, &dst, &[]).code(1).says("a/bad.npz").says(said);
        let skip = bench.at(&format!("skip-{name}"));
        pack(&source, &skip, &["--on-bad", "skip"]).code(0).says("1 of 2 samples");
        assert_eq!(components(&skip).0.into_keys().collect::<Vec<_>>(), ["a/good.npz"], "{name}");
        // Without the good file, the tree has no other sample.
        fs::remove_file(source.join("a/good.npz")).unwrap();
        let alone = pack(&source, &bench.at("alone"), &["--dry-run"]);
        if !matches!(name, "flipped") {
            assert_eq!(alone.code, 1, "{name}: {}", alone.stderr);
        }
    }
}

#[test]
fn groups_lists_and_other_trees_of_such_files() {
    let bench = Bench::new();
    let written = written(&bench);
    let good = written.join("good");
    for number in 0..30 {
        let stem = good.join(["cat", "dog", "eel"][number % 3]).join(number.to_string());
        fs::write(stem.with_extension("txt"), format!("said {number}")).unwrap();
    }
    let dst = bench.at("groups");
    pack(&good, &dst, &[]).code(0).says("files of one name are a sample, .npz and .txt").says("30 of 30 samples");
    let (found, types) = components(&dst);
    assert!(types.starts_with("x.npy:<f4[?x6] txt=*.txt,mask.npy:|b1[?x6],"), "{types}");
    assert_eq!(found["dog/4.npz"]["txt"], b"said 4");
    verify(&dst, &good, &[]);
    mend(&dst, &good);
    // A list can name `.npz` files, too.
    for number in 0..3 {
        let from = good.join(["cat", "dog", "eel"][number % 3]).join(format!("{number}.npz"));
        bench.file(format!("{number}.npz"), &fs::read(from).unwrap());
    }
    let list = list(&bench, "list.csv", "path,label\n0.npz,u\n1.npz,v\n2.npz,v\n");
    let dst = bench.at("list");
    pack(&list, &dst, &["--format", "mds"]).code(0).says("3 of 3 samples").says("each .npz is a sample of its arrays");
    assert_eq!(components(&dst).0["1.npz"]["x.npy"], found["dog/1.npz"]["x.npy"]);
    verify(&dst, &list, &[]);
    mend(&dst, &list);
    // Values have no extension, and RecordIO has no place for several values.
    pack(&good, &bench.at("no"), &["--ext", "npz"]).code(2).clean_error().says("--ext npz: samples are values");
    let rec = ["--files", "npz", "--format", "recordio"];
    pack(&good, &bench.at("no"), &rec).code(2).clean_error().says("no place for");
    // Together with other kinds of files, `.npz` files stay files.
    bench.file("a/0.npy", b"any");
    bench.file("a/0.npz", b"any");
    let (mixed, src) = (bench.at("mixed"), bench.src());
    pack(&src, &mixed, &["--files", "npy,npz", "--exclude", "*.npz", "--no-labels"]).code(0).says("1 of ");
}

#[test]
fn a_file_that_changes_while_it_is_packed_is_refused() {
    let bench = Bench::new();
    let written = written(&bench);
    let source = written.join("good");
    let (plan, dst) = (bench.at("of.plan"), bench.at("planned"));
    let paths = [source.to_str().unwrap(), dst.to_str().unwrap(), plan.to_str().unwrap()];
    run(&["plan", paths[0], paths[1], "-o", paths[2]]).code(0);
    fs::copy(source.join("cat/0.npz"), source.join("cat/3.npz")).unwrap();
    run(&["pack", "--plan", paths[2], paths[1]]).code(1).says("cat/3.npz");
}

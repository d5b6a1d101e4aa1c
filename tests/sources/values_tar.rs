//! Foreign tars whose samples hold no image: each member is a component by its extension, byte for byte, in every format.

use std::{
    collections::BTreeMap,
    fs,
    io::Write,
    path::{Path, PathBuf},
    process::Command,
};

use shardpack_format::npy;
use shardpack_reader::Dataset;
use shardpack_testing::{
    Bench, Ran, Rng,
    lists::{mend, one, pack, samples, verify},
    run,
};

const FORMATS: [(&str, &str); 3] = [
    ("webdataset", "SHARDPACK_PYTHON"),
    ("mds", "SHARDPACK_PYTHON_STREAMING"),
    ("tfrecord", "SHARDPACK_PYTHON_TENSORFLOW"),
];

/// Random bytes of no known file type.
fn noise(seed: u64) -> Vec<u8> {
    let mut rng = Rng::new(seed);
    (0..900 + seed * 7).map(|_| rng.next() as u8).collect()
}

/// An array whose first dimension depends on `seed`.
fn array(seed: u64) -> Vec<u8> {
    let mut bytes = npy::head("<f4", &[3 + seed, 5], false);
    (0..(3 + seed) * 5).for_each(|number| bytes.extend(((seed + number) as f32).to_le_bytes()));
    bytes
}

/// Six samples in three classes, each with files of these extensions.
fn groups(extensions: &[&str]) -> Bench {
    let bench = Bench::new();
    for number in 0..6u64 {
        for extension in extensions {
            let content = match *extension {
                "npy" => array(number),
                "txt" => format!("said {number}").into_bytes(),
                "json" => format!("{{\"n\": {number}}}").into_bytes(),
                _ => noise(number),
            };
            bench.file(format!("{}/{number}.{extension}", ["a", "b", "c"][number as usize % 3]), &content);
        }
    }
    bench
}

/// A compressed tar of the source. Crates compress it, because `tar` would call programs that may be missing.
fn compressed(bench: &Bench, extension: &str) -> PathBuf {
    let (plain, path) = (fs::read(tarred(bench, "plain.tar", &[])).unwrap(), bench.at(&format!("all.tar.{extension}")));
    let bytes = match extension {
        "gz" => {
            let mut out = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
            out.write_all(&plain).unwrap();
            out.finish().unwrap()
        }
        _ => zstd::encode_all(&plain[..], 3).unwrap(),
    };
    fs::write(&path, bytes).unwrap();
    path
}

/// A tar of the source from the program `tar`, sorted by name.
fn tarred(bench: &Bench, name: &str, options: &[&str]) -> PathBuf {
    let path = bench.at(name);
    let mut command = Command::new("tar");
    command.args(options).args(["--sort=name", "-cf"]).arg(&path).arg("-C").arg(bench.src()).arg(".");
    assert!(command.status().unwrap().success());
    path
}

fn convert(source: &Path, dst: &Path, options: &[&str]) -> Ran {
    run(&[&["convert", source.to_str().unwrap(), dst.to_str().unwrap()], options].concat())
}

/// Contents of the components by path, without labels.
fn components(dst: &Path) -> BTreeMap<String, BTreeMap<String, Vec<u8>>> {
    let dataset = Dataset::open(dst).unwrap();
    let names = &dataset.manifest().components;
    let (mut reader, mut all) = (dataset.reader(..).unwrap(), BTreeMap::new());
    while let Some(sample) = reader.next().unwrap() {
        let path = String::from_utf8(sample.path().to_vec()).unwrap();
        let contents = names.iter().enumerate().filter(|(_, name)| *name != "cls").filter_map(|(number, name)| {
            let content = sample.content(number).unwrap()?;
            Some((name.clone(), content.into_owned()))
        });
        assert!(all.insert(path.trim_start_matches("./").to_owned(), contents.collect()).is_none());
    }
    all
}

fn settings(dst: &Path) -> BTreeMap<String, String> {
    Dataset::open(dst).unwrap().manifest().format.settings.clone()
}

#[test]
fn a_tar_of_a_tree_becomes_what_the_tree_becomes() {
    for extensions in [&["flac"][..], &["wav", "txt", "json"], &["mp4", "flac", "json"], &["xyz"], &["json", "txt"]] {
        let bench = groups(extensions);
        let tar = tarred(&bench, "all.tar", &[]);
        for format in FORMATS.map(|(format, _)| format) {
            let (of_tree, of_tar) = (bench.at(&format!("{format}-tree")), bench.at(&format!("{format}-tar")));
            pack(&bench.src(), &of_tree, &["--quiet", "--group", "stem", "--format", format]).code(0);
            convert(&tar, &of_tar, &["--format", format]).code(0).says("6 samples").says_not("image");
            assert_eq!(components(&of_tar), components(&of_tree), "{extensions:?} {format}");
            for setting in ["payload", "beside"] {
                assert_eq!(settings(&of_tar).get(setting), settings(&of_tree).get(setting), "{extensions:?} {format}");
            }
            verify(&of_tar, &tar, &[]);
            mend(&of_tar, &tar);
        }
        // RecordIO stores one payload per sample, so only samples of one file fit.
        if extensions.len() == 1 {
            let dst = bench.at("rec");
            convert(&tar, &dst, &["--quiet", "--format", "recordio"]).code(0);
            assert_eq!(components(&dst), components(&bench.at("mds-tree")));
            // Folders become classes, as for images.
            let classes: Vec<_> =
                Dataset::open(&dst).unwrap().classes().iter().map(|class| class.name.clone()).collect();
            assert_eq!(format!("{classes:?}"), r#"["a", "b", "c"]"#);
        }
        run(&["verify", "--quiet", tar.to_str().unwrap()]).code(0);
        run(&["inspect", tar.to_str().unwrap()]).code(0).says(" of files, ").says_not("holds no image");
    }
}

#[test]
fn arrays_have_types_and_every_byte() {
    let bench = groups(&["npy", "json"]);
    let tar = tarred(&bench, "all.tar", &[]);
    for (format, _) in FORMATS {
        let dst = bench.at(format);
        convert(&tar, &dst, &["--format", format]).code(0);
        assert_eq!(settings(&dst)["payload"], "npy:<f4[?x5]", "{format}");
        let found = components(&dst);
        for number in 0..6u64 {
            let of =
                found.values().find(|sample| sample["json"] == format!("{{\"n\": {number}}}").into_bytes()).unwrap();
            assert_eq!(of["npy"], array(number), "{format}");
        }
        verify(&dst, &tar, &[]);
        mend(&dst, &tar);
    }
    // Converts the tars without shardpack's other files, which makes them foreign, to each format.
    let foreign = bench.at("foreign");
    fs::create_dir(&foreign).unwrap();
    for entry in fs::read_dir(bench.at("webdataset")).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|extension| extension == "tar") {
            fs::copy(&path, foreign.join(path.file_name().unwrap())).unwrap();
        }
    }
    for (format, _) in FORMATS {
        let dst = bench.at(&format!("foreign-{format}"));
        convert(&foreign, &dst, &["--quiet", "--format", format]).code(0);
        assert_eq!(settings(&dst)["payload"], "npy:<f4[?x5]", "{format}");
        let content = |dst: &Path| {
            let mut all: Vec<_> = components(dst).into_values().collect();
            all.sort();
            all
        };
        assert_eq!(content(&dst), content(&bench.at(format)), "{format}");
    }
}

#[test]
fn arrays_of_which_one_is_none_are_files_in_all() {
    let fortran = [npy::head("<f4", &[2, 2], true), vec![0; 16]].concat();
    let mut second = npy::head("<f4", &[2, 2], false);
    second[6] = 2;
    let odd = [
        ("cut", array(1)[..150].to_vec()),
        ("longer", [array(1), vec![0]].concat()),
        ("fortran", fortran),
        ("objects", npy::head("|O", &[1], false)),
        ("second", [second, vec![0; 16]].concat()),
        ("none", b"1 2 3".to_vec()),
    ];
    for (what, content) in odd {
        for payload in ["npy", "flac"] {
            let bench = groups(if payload == "npy" { &["npy"] } else { &["npy", "flac"] });
            bench.file("b/4.npy", &content);
            let tar = tarred(&bench, "all.tar", &[]);
            let dst = bench.at("dst");
            let ran = convert(&tar, &dst, &["--format", "mds"]).code(0);
            ran.says("component npy is files, not arrays: 1 of 6 have no header or are cut");
            let found = components(&dst);
            assert_eq!(found[&format!("b/4.{payload}")]["npy"], content, "{what}");
            for number in [0, 1, 2, 3, 5] {
                let path = format!("{}/{number}.{payload}", ["a", "b", "c"][number as usize % 3]);
                assert_eq!(found[&path]["npy"], array(number), "{what}");
            }
            assert_eq!(settings(&dst)["payload"], format!("{payload}=*.{payload}"));
            verify(&dst, &tar, &[]);
        }
    }
}

#[test]
fn what_webdataset_writes_comes_back_through_the_readers_of_each_format() {
    let python = |variable: &str| {
        let found = std::env::var_os(variable);
        assert!(found.is_some() || variable != "SHARDPACK_PYTHON", "not set: run `cargo xtask test`");
        found
    };
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/peers/tar_values.py");
    let bench = Bench::new();
    let shards = bench.at("shards");
    fs::create_dir(&shards).unwrap();
    let wrote =
        Command::new(python("SHARDPACK_PYTHON").unwrap()).args([script, "write"]).arg(&shards).output().unwrap();
    assert!(wrote.status.success(), "{}", String::from_utf8_lossy(&wrote.stderr));
    let sorted = |json: &[u8]| {
        let mut all: Vec<_> = serde_json::from_slice::<Vec<serde_json::Value>>(json).unwrap();
        all.sort_by_key(serde_json::Value::to_string);
        all
    };
    let expected = sorted(&fs::read(shards.join("expected.json")).unwrap());
    fs::remove_file(shards.join("expected.json")).unwrap();
    for (format, variable) in FORMATS {
        let dst = bench.at(format);
        convert(&shards, &dst, &["--format", format, "--shards", "2"]).code(0).says("24 samples in 3 classes");
        let Some(python) = python(variable) else {
            eprintln!("{variable} is not set: {format} was NOT read");
            continue;
        };
        let read = Command::new(python).args([script, format]).arg(&dst).output().unwrap();
        assert!(read.status.success(), "{format}: {}", String::from_utf8_lossy(&read.stderr));
        assert!(sorted(&read.stdout) == expected, "{format}: {}", String::from_utf8_lossy(&read.stdout));
    }
}

#[test]
fn a_compressed_tar_is_the_same() {
    let bench = groups(&["npy", "json"]);
    let plain = bench.at("plain");
    convert(&tarred(&bench, "all.tar", &[]), &plain, &["--quiet", "--format", "mds"]).code(0);
    for name in ["gz", "zst"] {
        let tar = compressed(&bench, name);
        let dst = bench.at(&format!("{name}-dst"));
        convert(&tar, &dst, &["--quiet", "--format", "mds"]).code(0);
        assert_eq!(samples(&dst), samples(&plain), "{name}");
        run(&["verify", "--quiet", tar.to_str().unwrap()]).code(0);
    }
}

#[test]
fn samples_may_lack_a_component_and_those_of_nothing_are_refused() {
    let bench = groups(&["wav", "txt"]);
    fs::remove_file(bench.src().join("a/0.txt")).unwrap();
    let tar = tarred(&bench, "all.tar", &[]);
    convert(&tar, &bench.dst(), &[]).code(0).says("1 of 6 samples without txt beside them");
    let found = components(&bench.dst());
    assert!(!found["a/0.wav"].contains_key("txt") && found["a/3.wav"].contains_key("txt"));
    // If some samples lack the most frequent component, a component that all samples have becomes the payload.
    fs::remove_file(bench.src().join("a/3.wav")).unwrap();
    fs::write(bench.src().join("a/0.txt"), "back").unwrap();
    let tar = tarred(&bench, "lacking.tar", &[]);
    convert(&tar, &bench.at("lacking"), &[]).code(0).says("1 of 6 samples without wav");
    assert_eq!(components(&bench.at("lacking"))["a/3.txt"].len(), 1);
    // A label alone is not a sample.
    let bench = groups(&["cls"]);
    convert(&tarred(&bench, "labels.tar", &[]), &bench.dst(), &[]).code(1).says("no image, there is cls");
    // An empty file is reported.
    let bench = groups(&["flac"]);
    bench.file("a/0.flac", b"");
    let tar = tarred(&bench, "empty.tar", &[]);
    convert(&tar, &bench.dst(), &[]).code(1).says("empty flac");
    convert(&tar, &bench.dst(), &["--on-bad", "skip"]).code(0).says("5 of 6 samples");
}

#[test]
fn beside_samples_with_images_those_without_are_refused() {
    let bench = groups(&["flac"]);
    bench.file("b/picture.jpg", &shardpack_testing::photo());
    let tar = tarred(&bench, "mixed.tar", &[]);
    convert(&tar, &bench.dst(), &[]).code(1).says("no image, there is flac");
    run(&["verify", tar.to_str().unwrap()]).code(1).says("6 samples that hold no image");
    convert(&tar, &bench.dst(), &["--on-bad", "skip"]).code(0).says("1 of 7");
    // If `--image-feature` requests an image, no other file replaces it.
    let bench = groups(&["flac"]);
    let tar = tarred(&bench, "all.tar", &[]);
    convert(&tar, &bench.dst(), &["--image-feature", "jpg"]).code(2).says("no jpg");
    // Two files with the same extension in one sample are refused.
    let bench = groups(&["flac"]);
    bench.file("b/4.FLAC", b"which");
    convert(&tarred(&bench, "two.tar", &[]), &bench.dst(), &[]).code(1).says("two components flac");
}

#[test]
fn labels_are_those_that_all_have() {
    let bench = groups(&["flac", "cls"]);
    for number in 0..6 {
        bench.file(format!("{}/{number}.cls", ["a", "b", "c"][number % 3]), (number % 2).to_string().as_bytes());
    }
    let tar = tarred(&bench, "all.tar", &[]);
    convert(&tar, &bench.dst(), &["--format", "mds"]).code(0).says("6 samples in 2 classes");
    assert_eq!(one(&samples(&bench.dst()), "1/./b/1.flac").0, Some(1));
    fs::remove_file(bench.src().join("a/0.cls")).unwrap();
    let tar = tarred(&bench, "lacking.tar", &[]);
    let dst = bench.at("lacking");
    convert(&tar, &dst, &[]).code(0).says("field \"cls\" is a component, not a label, because 5 of 6 samples");
    let found = components(&dst);
    assert_eq!((&found["b/1.flac"]["cls.txt"][..], found["a/0.flac"].get("cls.txt")), (&b"1"[..], None));
    // A field of a JSON file is a label only if all samples have the field.
    let bench = groups(&["flac", "json"]);
    bench.file("a/0.json", b"{\"label\": 3}");
    let tar = tarred(&bench, "json.tar", &[]);
    convert(&tar, &bench.dst(), &[]).code(0).says("1 of 6 samples have a usable label").says("6 samples");
}

fn fixture(name: &str) -> Vec<u8> {
    fs::read(Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/npz").join(name)).unwrap()
}

/// Six samples: each is a `.npz` that numpy wrote, alternately stored and deflated, beside files of these extensions.
fn of_npz(extensions: &[&str]) -> Bench {
    let bench = groups(&extensions.iter().copied().filter(|extension| *extension != "jpg").collect::<Vec<_>>());
    for number in 0..6u64 {
        let folder = ["a", "b", "c"][number as usize % 3];
        let name = if number.is_multiple_of(2) { "stored.npz" } else { "deflated.npz" };
        bench.file(format!("{folder}/{number}.npz"), &fixture(name));
        if extensions.contains(&"jpg") {
            bench.file(format!("{folder}/{number}.jpg"), &shardpack_testing::jpeg(number, 6000));
        }
    }
    bench
}

/// The arrays in the fixture of sample `number`.
fn arrays_of_npz(number: u64) -> Vec<(&'static str, Vec<u8>)> {
    let x: Vec<u8> = (0..6u8).flat_map(|item| f32::from(item).to_le_bytes()).collect();
    let mut arrays = vec![
        ("x.npy", [npy::head("<f4", &[2, 3], false), x].concat()),
        ("y.npy", [npy::head("<i8", &[], false), (-7i64).to_le_bytes().to_vec()].concat()),
    ];
    if !number.is_multiple_of(2) {
        arrays.push(("long.npy", [npy::head("|u1", &[2000], false), vec![0; 2000]].concat()));
    }
    arrays
}

#[test]
fn a_npz_in_a_tar_is_its_arrays_beside_an_image_or_without_one() {
    for extensions in [&[][..], &["jpg"], &["json"], &["jpg", "json"]] {
        let bench = of_npz(extensions);
        let tar = tarred(&bench, "all.tar", &[]);
        for (format, _) in FORMATS {
            let dst = bench.at(format);
            convert(&tar, &dst, &["--format", format]).code(0).says("6 of 6").says("long");
            let found = components(&dst);
            assert_eq!(found.len(), 6);
            for (path, mut sample) in found {
                let number: u64 = path.split(['/', '.']).nth(1).unwrap().parse().unwrap();
                for (name, content) in arrays_of_npz(number) {
                    assert_eq!(sample.remove(name).unwrap(), content, "{extensions:?} {format} {path} {name}");
                }
                let left: Vec<_> = sample.into_keys().collect();
                assert_eq!(left.len(), extensions.len(), "{extensions:?} {format} {path}: {left:?}");
            }
            // A sample of one file gets its class from the folder, regardless of its content.
            let classes = Dataset::open(&dst).unwrap().classes().len();
            assert_eq!(classes, if extensions.is_empty() { 3 } else { 0 }, "{extensions:?} {format}");
            verify(&dst, &tar, &[]);
            mend(&dst, &tar);
        }
    }
}

#[test]
fn a_npz_in_a_tar_stays_as_it_is_where_that_is_wanted_or_it_cannot_be_read_by_offset() {
    let bench = of_npz(&["jpg"]);
    let tar = tarred(&bench, "all.tar", &[]);
    let gzip = tarred(&bench, "all.tar.gz", &["-z"]);
    for (name, source, options, is_there) in [
        ("wanted", &tar, &["--components", "npz"][..], true),
        ("none", &tar, &["--components", "none"], false),
        ("packed", &gzip, &[], true),
        ("another", &tar, &["--fields", "npz:arrays"], false),
    ] {
        let dst = bench.at(name);
        convert(source, &dst, &[&["--quiet"], options].concat()).code(0);
        for (path, sample) in components(&dst) {
            let of = if path.contains(['0', '2', '4']) { "stored.npz" } else { "deflated.npz" };
            assert_eq!(sample.get("npz").map(Vec::as_slice), is_there.then_some(&*fixture(of)), "{name} {path}");
            assert!(!sample.contains_key("x.npy"), "{name} {path}");
        }
    }
    let dst = bench.at("one");
    convert(&tar, &dst, &["--quiet", "--components", "y.npy"]).code(0);
    assert!(components(&dst).values().all(|sample| sample.len() == 2 && sample.contains_key("y.npy")));
    // `--components` accepts the name of an array without its extension, unless another component has that name.
    let plain = of_npz(&[]);
    let of_values = tarred(&plain, "all.tar", &[]);
    for (name, source, of_sample) in [("jpg", &tar, &["jpg", "y.npy"][..]), ("values", &of_values, &["y.npy"])] {
        let dst = bench.at(&format!("short-{name}"));
        convert(source, &dst, &["--components", "y"]).code(0).says("y.npy").says("left out: ");
        let is = |sample: &BTreeMap<String, Vec<u8>>| sample.keys().eq(of_sample);
        assert!(components(&dst).values().all(is), "{name}");
        verify(&dst, source, &[]);
        convert(source, &bench.at("no"), &["--components", "z"]).code(2).says("no sample has a component \"z\"");
    }
    let bench = of_npz(&["jpg"]);
    for number in 0..6 {
        bench.file(format!("{}/{number}.y", ["a", "b", "c"][number % 3]), b"why");
    }
    let (tar, dst) = (tarred(&bench, "both.tar", &[]), bench.at("both"));
    convert(&tar, &dst, &["--quiet", "--components", "y"]).code(0);
    assert!(components(&dst).values().all(|sample| sample.len() == 2 && sample["y"] == b"why"));
    // Adopted shards stay in place, and a component lies in them.
    let adopted = bench.at("adopted");
    fs::create_dir(&adopted).unwrap();
    fs::copy(&tar, adopted.join("all.tar")).unwrap();
    let ran = run(&["adopt", "--json", adopted.to_str().unwrap()]).code(0);
    assert!(!ran.stdout.contains("component"), "{}", ran.stdout);
    let as_it_lies = bench.at("lies");
    convert(&tar, &as_it_lies, &["--quiet", "--components", "npz,y"]).code(0);
    assert_eq!(components(&adopted), components(&as_it_lies));
}

#[test]
fn damage_in_a_npz_in_a_tar_is_named_or_leaves_it_as_it_is() {
    let bench = of_npz(&["jpg"]);
    let whole = fixture("deflated.npz");
    // The central directory has a wrong CRC-32.
    let mut lies = whole.clone();
    let at = lies.windows(4).position(|four| four == b"PK\x01\x02").unwrap();
    lies[at + 16] ^= 1;
    bench.file("b/1.npz", &lies);
    let tar = tarred(&bench, "lies.tar", &[]);
    let dst = bench.at("lies");
    let ran = convert(&tar, &dst, &[]).code(0);
    ran.says("1 file .npz stay").says("b/1.npz: member \"x.npy\"");
    let found = components(&dst);
    assert_eq!(found["b/1.jpg"]["npz"], lies);
    assert!(!found["b/1.jpg"].contains_key("x.npy") && found["c/2.jpg"].contains_key("x.npy"));
    // Another file has the name of an array in the archive.
    bench.file("b/1.npz", &whole);
    bench.file("b/1.x.npy", &array(1));
    let tar = tarred(&bench, "clash.tar", &[]);
    let dst = bench.at("clash");
    convert(&tar, &dst, &[]).code(0).says("1 file .npz stay").says("x.npy is a component of its own");
    let found = components(&dst);
    assert_eq!((&found["b/1.jpg"]["npz"], &found["b/1.jpg"]["x.npy"]), (&whole, &array(1)));
    fs::remove_file(bench.src().join("b/1.x.npy")).unwrap();
    // An array that does not match its CRC-32 is detected when it is read.
    let mut flipped = fixture("stored.npz");
    let at = flipped.windows(4).position(|four| four == 1f32.to_le_bytes()).unwrap();
    flipped[at] ^= 1;
    bench.file("b/1.npz", &flipped);
    let tar = tarred(&bench, "flipped.tar", &[]);
    let ran = convert(&tar, &bench.at("flipped"), &[]).code(1);
    ran.says("b/1.jpg").says("member \"x.npy\"").says("CRC-32");
    let skipped = bench.at("skipped");
    convert(&tar, &skipped, &["--quiet", "--on-bad", "skip"]).code(0);
    assert_eq!(components(&skipped).len(), 5);
}

#[test]
fn an_array_of_a_npz_in_a_tar_that_is_none_of_a_component_is_a_file_in_all_samples() {
    let script = "import io, sys, numpy as np\nfor n in range(4):\n    x = np.arange(6).reshape(2, 3) + n\n    \
                  np.savez(f'{sys.argv[1]}/{n}.npz', x=np.asfortranarray(x) if n == 2 else x)";
    let python = std::env::var_os("SHARDPACK_PYTHON").expect("not set: run `cargo xtask test`");
    for with in ["", "txt", "jpg"] {
        let bench = Bench::new();
        let src = bench.src();
        fs::create_dir_all(&src).unwrap();
        assert!(Command::new(&python).args(["-c", script]).arg(&src).status().unwrap().success());
        for number in 0..4u64 {
            match with {
                "txt" => bench.file(format!("{number}.txt"), b"said"),
                "jpg" => bench.file(format!("{number}.jpg"), &shardpack_testing::jpeg(number, 6000)),
                _ => {}
            }
        }
        let tar = tarred(&bench, "all.tar", &[]);
        for (format, _) in FORMATS {
            let dst = bench.at(format);
            convert(&tar, &dst, &["--format", format]).code(0).says("4 of 4");
            for (path, sample) in components(&dst) {
                let number = path.trim_end_matches(|c: char| !c.is_ascii_digit());
                let own = npy::read_head(&sample["x.npy"]).unwrap();
                assert_eq!(
                    (own.shape.as_slice(), own.is_fortran),
                    (&[2, 3][..], number == "2"),
                    "{with} {format} {path}"
                );
                assert_eq!(sample["x.npy"].len(), own.data_offset + 48);
                assert_eq!(sample.len(), if with.is_empty() { 1 } else { 2 });
            }
            verify(&dst, &tar, &[]);
            mend(&dst, &tar);
        }
    }
}

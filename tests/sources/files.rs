//! Samples that are no images: files of any kind, and files with the same name as the components of one sample.

use std::{fs, path::Path, process::Command};

use serde_json::json;
use shardpack_format::{manifest::Manifest, npy};
use shardpack_reader::Dataset;
use shardpack_testing::{
    Bench, Rng, contents,
    lists::{list, mend, one, pack, samples, verify},
    run,
};

const FORMATS: [&str; 4] = ["webdataset", "tfrecord", "mds", "recordio"];

/// Random bytes without a format, about as many as a photograph has.
fn noise(seed: u64) -> Vec<u8> {
    let mut rng = Rng::new(seed);
    (0..3000 + seed * 7).map(|_| rng.next() as u8).collect()
}

/// A `.npy` array whose numbers are no pixels.
fn array(seed: u64) -> Vec<u8> {
    let rows = 3 + seed;
    let mut bytes = npy::head("<f4", &[rows, 5], false);
    (0..rows * 5).for_each(|number| bytes.extend(((seed + number) as f32).to_le_bytes()));
    bytes
}

fn manifest(dst: &Path) -> Manifest {
    Manifest::read(&fs::read(dst.join("manifest.json")).unwrap()).unwrap()
}

/// Nine files with this extension in three classes.
fn tree(extension: &str, make: fn(u64) -> Vec<u8>) -> Bench {
    let bench = Bench::new();
    (0..9).for_each(|number| {
        bench.file(format!("{}/{number}.{extension}", ["a", "b", "c"][number as usize % 3]), &make(number))
    });
    bench
}

#[test]
fn files_of_one_kind_are_samples_where_there_are_no_images() {
    for (extension, make) in [("flac", noise as fn(u64) -> Vec<u8>), ("npy", array)] {
        let bench = tree(extension, make);
        bench.file("readme.txt", b"is in no class");
        for format in FORMATS {
            let dst = bench.at(format);
            let ran = pack(&bench.src(), &dst, &["--format", format, "--shards", "2"]).code(0);
            ran.says(&format!("no images in here: the samples are its .{extension} files"))
                .says("9 samples in 3 classes")
                .says("9 of 9 samples")
                .says_not("stray");
            let packed = samples(&dst);
            assert_eq!(packed.len(), 9);
            for number in 0..9u64 {
                let class = number as usize % 3;
                let sample = one(&packed, &format!("{}/{number}.{extension}", ["a", "b", "c"][class]));
                assert_eq!((sample.0, &sample.2[extension]), (Some(class as i64), &make(number)), "{format}");
                let names: Vec<_> = sample.2.keys().map(String::as_str).collect();
                let expected =
                    if format == "webdataset" && extension > "cls" { vec!["cls", extension] } else { vec![extension] };
                assert_eq!(names, expected, "{format}");
            }
            verify(&dst, &bench.src(), &[]);
            mend(&dst, &bench.src());
            let at = dst.to_str().unwrap();
            let decoded = run(&["verify", at, "--decode", "--json"]).code(0).json();
            match extension {
                "npy" => assert_eq!(decoded["not_decoded"], json!({})),
                _ => assert_eq!(decoded["not_decoded"], json!({".flac, which is no image": 9})),
            }
            let inspected = run(&["inspect", at, "--json"]).code(0).json();
            // TFRecord and MDS store only the items of an array.
            let kind = if extension == "npy" && ["tfrecord", "mds"].contains(&format) { "values" } else { extension };
            assert_eq!(inspected["datasets"][0]["images"]["kinds"], json!({kind: 9}), "{inspected}");
            let manifest = fs::read_to_string(dst.join("manifest.json")).unwrap();
            assert!(manifest.contains(&format!("\"{kind}\": 9")) || manifest.contains(&format!("\"{kind}\":9")));
            // A conversion to every other format and back loses nothing.
            for other in FORMATS {
                let (there, back) =
                    (bench.at(&format!("{format}-{other}")), bench.at(&format!("{format}-{other}-back")));
                run(&["convert", "--quiet", at, there.to_str().unwrap(), "--format", other]).code(0);
                run(&["convert", "--quiet", there.to_str().unwrap(), back.to_str().unwrap(), "--format", format])
                    .code(0);
                assert_eq!(samples(&back), packed, "{format} by way of {other}");
            }
        }
    }
}

#[test]
fn a_tree_that_may_be_meant_in_several_ways_is_a_question() {
    let bench = tree("json", noise);
    bench.pack(&[]).code(2).clean_error().says("no images found, but 9 .json").says("--files json packs them");
    bench.pack(&["--quiet", "--files", "json"]).code(0);
    assert_eq!(one(&samples(&bench.dst()), "a/0.json").2["json"], noise(0));
    let bench = tree("flac", noise);
    bench.link("a/loop", "..");
    bench.pack(&[]).code(1).says("the samples are its .flac files").says("a/loop");
    bench.pack(&["--on-bad", "skip"]).code(0).says("9 of 10 samples");
    let bench = tree("flac", noise);
    bench.file("a/broken.jpg", b"");
    bench.pack(&[]).code(1).says_not("flac files").says("a/broken.jpg: empty file");
    let bench = tree("flac", noise);
    bench.file("a/other.npy", &array(1));
    let ran = bench.pack(&[]).code(2).clean_error();
    ran.says("no images found, but 9 .flac, 1 .npy").says("--files flac").says("--group stem");
    bench.pack(&["--files", "flac"]).code(0).says("9 samples").says("1 .npy");
    bench.pack(&["--force", "--files", "npy,flac"]).code(0).says("10 samples");
    let both = samples(&bench.dst());
    assert_eq!((&one(&both, "a/other.npy").2["file"], &one(&both, "a/0.flac").2["file"]), (&array(1), &noise(0)));
    verify(&bench.dst(), &bench.src(), &[]);
    bench.pack(&["--force", "--quiet", "--files", "npy,flac", "--ext", "sound"]).code(0);
    assert_eq!(one(&samples(&bench.dst()), "a/0.flac").2["sound"], noise(0));
}

#[test]
fn files_that_are_named_are_samples_beside_images_too() {
    let bench = Bench::with(&["a/1.jpg", "b/2.jpg"]);
    bench.file("a/1.FLAC", &noise(1));
    bench.file("b/2_rec.flac", &noise(2));
    bench.pack(&[]).code(0).says("2 images").says("2 .flac");
    bench.pack(&["--force", "--files", "*.flac"]).code(0).says("2 samples").says("2 .jpg");
    assert_eq!(one(&samples(&bench.dst()), "a/1.FLAC").2["flac"], noise(1));
    verify(&bench.dst(), &bench.src(), &[]);
    bench.pack(&["--force", "--files", "*_rec.flac"]).code(0).says("1 sample").says("2 .jpg").says("1 .flac");
    verify(&bench.dst(), &bench.src(), &[]);
    // A new file with a matching name is missing from the dataset; a new file of another kind is not.
    bench.file("a/3_rec.flac", &noise(3));
    bench.file("a/4.flac", &noise(4));
    let (dst, src) = (bench.dst(), bench.src());
    let against = ["verify", dst.to_str().unwrap(), "--against", src.to_str().unwrap()];
    run(&against).code(1).says("a/3_rec.flac").says_not("4.flac");
    // The extension of an image selects images, which are packed as without `--files`.
    bench.pack_to(&bench.at("plain"), &["--quiet"]).code(0);
    bench.pack_to(&bench.at("named"), &["--quiet", "--files", "jpg"]).code(0);
    assert_eq!(samples(&bench.at("plain")), samples(&bench.at("named")));
    bench
        .pack_to(&bench.at("mixed"), &["--files", "jpg,flac"])
        .code(2)
        .clean_error()
        .says("jpg is an image extension, flac is not");
    let list = list(&bench, "list.csv", "path\na/1.jpg\n");
    pack(&list, &bench.at("list"), &["--files", "flac"]).code(2).clean_error().says("are for trees");
}

#[test]
fn what_only_images_have_is_refused_of_other_samples() {
    let bench = tree("flac", noise);
    for (options, said) in [
        (&["--resize", "64"][..], "--resize"),
        (&["--fix"], "--fix"),
        (&["--formats", "jpeg"], "--formats"),
        (&["--min-side", "8"], "--min-side"),
        (&["--max-pixels", "8"], "--max-pixels"),
        (&["--near-duplicates"], "--near-duplicates"),
        (&["--check", "full"], "--check full"),
        (&["--check", "entropy"], "--check entropy"),
        (&["--ext", "content"], "--ext content"),
        (&["--format", "mds", "--mds-encoding", "jpeg"], "--mds-encoding"),
        (&["--format", "mds", "--set", "image_column=x"], "image_column"),
    ] {
        let ran = bench.pack(options).code(2).clean_error();
        ran.says(said).says("images, and these samples are .flac files");
    }
    // Options that work on any file work here.
    bench.file("a/same.flac", &noise(0));
    bench.pack(&["--dedup", "exact", "--sample-per-class", "2"]).code(0).says("6 of 10 samples").says("1 duplicates");
}

#[test]
fn an_array_that_is_none_is_told() {
    let bench = tree("npy", array);
    let head = |dtype: &str, shape: &[u64]| npy::head(dtype, shape, false);
    bench.file("a/short.npy", &head("<f4", &[3, 5]));
    bench.file("b/objects.npy", &head("|O", &[1]));
    bench.file("b/more.npy", &[head("|u1", &[1]), vec![0; 2]].concat());
    bench.file("c/text.npy", b"1 2 3");
    let ran = bench.pack(&[]).code(0).says("c/text.npy is no array by its first bytes");
    ran.says("component npy is files, not arrays: 4 of 13 have no header or are cut");
    assert_eq!(manifest(&bench.dst()).format.settings["payload"], "npy=*.npy");
    let dst = bench.dst();
    run(&["verify", "--quiet", dst.to_str().unwrap()]).code(0);
    let ran = run(&["verify", dst.to_str().unwrap(), "--decode"]).code(1);
    ran.says("a/short.npy").says("truncated: array (3, 5) of <f4 is 60 bytes, there are 0");
    let ran = run(&["verify", dst.to_str().unwrap(), "--decode"]);
    ran.says("items are Python objects").says("1 byte behind the items").says("does not begin as an array of numpy");
    let strays = run(&["inspect", dst.to_str().unwrap(), "--samples", "--strays"]).code(0);
    strays.says("c/text.npy").says_not("a/0.npy");
}

#[test]
fn trees_and_lists_of_arrays_have_dtype_and_shape_in_the_index() {
    let bench = tree("npy", array);
    let typed = |dst: &Path, payload: &str| {
        assert_eq!(manifest(dst).format.settings["payload"], payload);
        let dataset = Dataset::open(dst).unwrap();
        for number in 0..dataset.len() {
            let sample = dataset.sample(number).unwrap();
            let seed: u64 =
                sample.path()[sample.path().len() - 5..][..1].iter().map(|digit| u64::from(digit - b'0')).sum();
            assert_eq!(sample.form(0).unwrap().to_string(), format!("<f4[{}x5]", 3 + seed));
        }
    };
    let rows: [(&str, &[&str]); 5] = [
        ("guessed", &[]),
        ("named", &["--files", "npy"]),
        ("pattern", &["--files", "*.npy", "--dedup", "exact"]),
        ("unlabelled", &["--no-labels"]),
        ("parted", &["--split-fraction", "val=0.3"]),
    ];
    for (name, options) in rows {
        // RecordIO has a label in every record, so it is left out for samples without labels.
        for format in FORMATS.into_iter().filter(|format| name != "unlabelled" || *format != "recordio") {
            let dst = bench.at(&format!("{name}-{format}"));
            let ran = bench.pack_to(&dst, &[options, &["--format", format]].concat()).code(0);
            ran.says("each .npy is an array: <f4[?x5]").says_not("no array");
            let splits: &[&str] = if name == "parted" { &["train", "val"] } else { &[""] };
            splits.iter().for_each(|split| typed(&dst.join(split), "npy:<f4[?x5]"));
            verify(&dst, &bench.src(), &[]);
            let decoded = run(&["verify", "--decode", "--json", dst.to_str().unwrap()]).code(0).json();
            assert_eq!(decoded["not_decoded"], json!({}), "{name} {format}");
            bench.pack_to(&dst, &[options, &["--format", format]].concat()).code(0).says("packed here already");
        }
    }
    // One array of another type widens the type of all. Files under an extension from `--ext` stay files.
    bench.file("a/9.npy", &[npy::head("<i8", &[2], false), vec![7; 16]].concat());
    bench.pack(&[]).code(0).says("each .npy is an array: array");
    verify(&bench.dst(), &bench.src(), &[]);
    bench.pack(&["--force", "--quiet", "--ext", "arr"]).code(0);
    assert_eq!(manifest(&bench.dst()).format.settings["payload"], "arr=*.arr");
    verify(&bench.dst(), &bench.src(), &[]);
}

#[test]
fn an_array_that_becomes_another_of_the_same_length_is_refused() {
    for format in FORMATS {
        let bench = tree("npy", array);
        let (src, plan, dst) = (bench.src(), bench.at("x.plan"), bench.dst());
        let (src, plan, dst) = (src.to_str().unwrap(), plan.to_str().unwrap(), dst.to_str().unwrap());
        run(&["plan", src, dst, "-o", plan, "--format", format]).code(0);
        let path = bench.src().join("a/0.npy");
        let mut bytes = array(0);
        let at = bytes.windows(3).position(|three| three == b"<f4").unwrap();
        bytes[at + 1] = b'i';
        let time = fs::metadata(&path).unwrap().modified().unwrap();
        fs::write(&path, bytes).unwrap();
        fs::File::options().write(true).open(&path).unwrap().set_modified(time).unwrap();
        let ran = run(&["pack", "--quiet", "--plan", plan, dst]).code(1);
        ran.says("a/0.npy").says("its header is not that of an array <f4[3x5]");
    }
}

/// Three files for each name: `.wav`, `.txt` and `.json`.
fn groups() -> Bench {
    let bench = tree("wav", noise);
    for number in 0..9u64 {
        let stem = format!("{}/{number}", ["a", "b", "c"][number as usize % 3]);
        bench.file(format!("{stem}.txt"), format!("said {number}").as_bytes());
        bench.file(format!("{stem}.json"), format!("{{\"n\":{number}}}").as_bytes());
    }
    bench
}

#[test]
fn files_of_one_name_are_one_sample() {
    let bench = groups();
    // Every name has all three files, so the grouping is unambiguous.
    bench.pack(&[]).code(0).says("files of one name are a sample, .json and .txt and .wav").says("9 samples");
    let told = contents(&bench.dst());
    bench.pack(&["--force", "--quiet", "--group", "stem"]).code(0);
    assert_eq!(contents(&bench.dst()), told);
    for format in ["webdataset", "tfrecord", "mds"] {
        let dst = bench.at(format);
        pack(&bench.src(), &dst, &["--quiet", "--files", "wav", "--group", "stem", "--format", format]).code(0);
        let packed = samples(&dst);
        assert_eq!(packed.len(), 9);
        let sample = &one(&packed, "b/4.wav").2;
        assert_eq!(sample["wav"], noise(4), "{format}");
        assert_eq!((&sample["txt"][..], &sample["json"][..]), (&b"said 4"[..], &b"{\"n\":4}"[..]), "{format}");
        verify(&dst, &bench.src(), &[]);
        mend(&dst, &bench.src());
        let back = bench.at(&format!("{format}-back"));
        run(&["convert", "--quiet", dst.to_str().unwrap(), back.to_str().unwrap(), "--format", format]).code(0);
        assert_eq!(samples(&back), packed);
        verify(&back, &dst, &[]);
    }
    let recordio = ["--group", "stem", "--format", "recordio"];
    bench.pack_to(&bench.at("rec"), &recordio).code(2).clean_error().says("no place for");
    // Another file of the group as the payload.
    bench.pack_to(&bench.at("txt"), &["--quiet", "--group", "stem", "--files", "txt"]).code(0);
    assert!(samples(&bench.at("txt")).contains_key("b/4.txt"));
}

#[test]
fn a_sample_of_a_group_may_lack_a_file_and_is_counted() {
    let bench = groups();
    fs::remove_file(bench.src().join("a/0.txt")).unwrap();
    fs::remove_file(bench.src().join("b/1.wav")).unwrap();
    bench.pack(&[]).code(2).clean_error().says("9 .json, 8 .txt, 8 .wav").says("--group stem");
    let ran = bench.pack(&["--group", "stem"]).code(0);
    ran.says("8 samples")
        .says("1 of 8 samples without txt beside them")
        .says("1 txt without its wav")
        .says("1 json without its wav");
    let packed = samples(&bench.dst());
    assert!(!one(&packed, "a/0.wav").2.contains_key("txt") && one(&packed, "a/3.wav").2.contains_key("txt"));
    verify(&bench.dst(), &bench.src(), &[]);
    // In a group with an image, the image is the payload.
    let bench = Bench::with(&["a/1.jpg", "b/2.jpg"]);
    bench.file("a/1.txt", b"one");
    bench.file("b/2.txt", b"two");
    bench.pack_to(&bench.at("with"), &["--quiet", "--with", "txt"]).code(0);
    bench.pack(&["--quiet", "--group", "stem"]).code(0);
    assert_eq!(contents(&bench.dst()), contents(&bench.at("with")));
    bench.file("a/1.png", &shardpack_testing::png());
    let ran = bench.pack_to(&bench.at("two"), &["--group", "stem"]).code(2).clean_error();
    ran.says("several images of one name: which is the payload?").says("--files EXT");
    bench.pack_to(&bench.at("two"), &["--quiet", "--group", "stem", "--files", "jpg"]).code(0);
    assert_eq!(one(&samples(&bench.at("two")), "a/1.jpg").2["png"], shardpack_testing::png());
}

#[test]
fn a_list_of_other_files_calls_them_by_their_extension() {
    for (extension, make) in [("flac", noise as fn(u64) -> Vec<u8>), ("npy", array)] {
        let bench = tree(extension, make);
        let rows: String = ["a/0", "b/1", "c/2"].iter().map(|stem| format!("{stem}.{extension},x{stem}\n")).collect();
        let jsonl: String = ["a/0", "b/1", "c/2"]
            .iter()
            .map(|stem| format!("{{\"path\": \"{stem}.{extension}\", \"label\": \"x{stem}\"}}\n"))
            .collect();
        for (name, text) in [("list.csv", format!("path,label\n{rows}")), ("list.jsonl", jsonl)] {
            let list = list(&bench, name, &text);
            for format in FORMATS {
                let dst = bench.at(&format!("{name}-{format}"));
                pack(&list, &dst, &["--format", format]).code(0).says("3 samples").says_not("image").says_not("stray");
                assert_eq!(one(&samples(&dst), &format!("a/0.{extension}")).2[extension], make(0));
                let settings = &manifest(&dst).format.settings;
                let payload = if extension == "npy" { "npy:<f4[?x5]" } else { "flac=*.flac" };
                assert_eq!(settings["payload"], payload, "{name} {format}");
                verify(&dst, &list, &[]);
                mend(&dst, &list);
            }
        }
    }
    // Arrays in a list of images are still packed as images with a wrong extension; arrays of pixels become images with `--encode`.
    let bench = tree("npy", array);
    bench.file("a/picture.jpg", &shardpack_testing::photo());
    let mixed = list(&bench, "mixed.csv", "path,label\na/0.npy,x\na/picture.jpg,y\n");
    pack(&mixed, &bench.at("mixed"), &[]).code(0).says("2 images");
    bench.file("a/pixels.npy", &[npy::head("|u1", &[8, 6, 3], false), noise(0)[..144].to_vec()].concat());
    let pixels = list(&bench, "pixels.csv", "path,label\na/pixels.npy,x\n");
    pack(&pixels, &bench.at("pixels"), &["--encode", "png"]).code(0).says("1 image");
}

#[test]
fn a_plan_of_files_packs_what_pack_does() {
    let bench = groups();
    let options = ["--files", "wav", "--group", "stem", "--seed", "5"];
    bench.pack(&[&["--quiet"], &options[..]].concat()).code(0);
    let (src, plan, dst) = (bench.src(), bench.at("x.plan"), bench.at("planned"));
    let (src, plan, dst) = (src.to_str().unwrap(), plan.to_str().unwrap(), dst.to_str().unwrap());
    run(&[&["plan", src, dst, "-o", plan], &options[..]].concat()).code(0).says("9 samples").says_not("image");
    run(&["pack", "--quiet", "--plan", plan, dst]).code(0);
    assert_eq!(contents(Path::new(dst)), contents(&bench.dst()));
    run(&[&["pack", src, dst, "--dry-run"], &options[..]].concat()).code(0).says("9 samples");
    // The same command has nothing to do; another `--files` makes another dataset.
    bench.pack(&options).code(0).says("packed here already");
    bench.pack(&["--files", "txt", "--seed", "5"]).code(2).clean_error().says("--force");
}

/// Reads the packed samples of `bench` with the Python that `variable` names.
fn read_with(variable: &str, how: &str, bench: &Bench, dst: &Path, payload: &str) {
    let Some(python) = std::env::var_os(variable) else {
        assert_ne!(
            variable, "SHARDPACK_PYTHON",
            "not set: run `cargo xtask test`, which makes the environment it names"
        );
        return eprintln!("{variable} is not set: {how} was NOT asked");
    };
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/peers/read_files.py");
    let read = Command::new(python).args([script, how]).args([&bench.src(), dst]).arg(payload).output().unwrap();
    let text = String::from_utf8_lossy(&read.stdout).trim().to_owned();
    assert_eq!(text, "9", "{how} {payload}: {}", String::from_utf8_lossy(&read.stderr));
}

#[test]
fn other_readers_see_files_as_they_were() {
    for (bench, payload) in [(tree("flac", noise), "flac"), (tree("npy", array), "npy"), (groups(), "wav")] {
        for (format, variable, how) in [
            ("webdataset", "SHARDPACK_PYTHON", "webdataset"),
            ("mds", "SHARDPACK_PYTHON_STREAMING", "streaming"),
            ("tfrecord", "SHARDPACK_PYTHON_TENSORFLOW", "tensorflow"),
        ] {
            let dst = bench.at(format);
            pack(&bench.src(), &dst, &["--quiet", "--format", format, "--shards", "2"]).code(0);
            read_with(variable, how, &bench, &dst, payload);
        }
    }
}

//! Converts LMDBs that py-lmdb wrote in the way of each common script.

use std::{fs, path::Path};

use shardpack_reader::Dataset;
use shardpack_source::foreign::lmdb::{Environment, Walk};
use shardpack_testing::{
    Bench, images,
    lmdb::{WAYS, convert, expected, hashed, write, written},
    pack, photos, run,
};

/// Images per LMDB in a normal run. `SHARDPACK_LMDB_IMAGES` sets another number, `SHARDPACK_LMDB_TREE` another tree.
const IMAGES: usize = 300;

#[test]
fn environments_of_every_script_are_converted_without_an_option() {
    let bench = Bench::new();
    let variable = |name| std::env::var(name).ok();
    let count = variable("SHARDPACK_LMDB_IMAGES").map_or(IMAGES, |count| count.parse().unwrap());
    let tree = variable("SHARDPACK_LMDB_TREE").unwrap_or_else(|| photos().display().to_string());
    // Many images fill the disk unless each LMDB is removed before the next one is written.
    for ways in WAYS.chunks(if count > 1000 { 1 } else { WAYS.len() }) {
        let source = bench.at("many");
        write(&[&[&*tree, source.to_str().unwrap(), &count.to_string()], ways].concat());
        for way in ways {
            let (from, dst) = (source.join(way), bench.at("packed"));
            convert(&from, &dst, &[]).code(0).says("of lmdb").says("entries ");
            let (expected, found) = (expected(&source, way), hashed(&dst));
            assert_eq!(found.len(), count, "{way}");
            assert!(found == expected, "{way}: images or labels differ");
            fs::remove_dir_all(dst).unwrap();
        }
        fs::remove_dir_all(source).unwrap();
    }
}

#[test]
fn what_comes_out_depends_on_the_images_alone() {
    let bench = Bench::new();
    let source = written(&bench);
    pack(&photos(), &bench.at("tree"), &["--quiet"]).code(0);
    let expected = images(&bench.at("tree"));
    for way in WAYS.into_iter().filter(|way| !["bytes.lmdb", "plain"].contains(way)) {
        let (from, dst) = (source.join(way), bench.at(&format!("out-{way}")));
        convert(&from, &dst, &["--jobs", "2"]).code(0).says("of lmdb");
        assert!(images(&dst) == expected, "{way}: images or labels differ");
        run(&["verify", "--quiet", dst.to_str().unwrap(), "--against", from.to_str().unwrap()]).code(0);
        run(&["verify", "--quiet", from.to_str().unwrap()]).code(0);
        let same = bench.at(&format!("same-{way}"));
        convert(&from, &same, &["--jobs", "1", "--quiet", "--read-order", "physical"]).code(0);
        assert_eq!(
            shardpack_testing::contents(&same),
            shardpack_testing::contents(&dst),
            "{way}: the bytes depend on how they are read"
        );
    }
    // The order of the tree, although `10` stands before `2` in the file.
    let ordered = bench.at("ordered");
    convert(&source.join("folder2lmdb-5.lmdb"), &ordered, &["--order", "source", "--quiet"]).code(0);
    let tree = bench.at("tree-ordered");
    pack(&photos(), &tree, &["--order", "source", "--quiet"]).code(0);
    let bytes = |folder: &Path| {
        let dataset = Dataset::open(folder).unwrap();
        (0..dataset.len()).map(|number| dataset.sample(number).unwrap().bytes().to_vec()).collect::<Vec<_>>()
    };
    assert!(bytes(&ordered) == bytes(&tree), "another order than that of the keys' numbers");
    // Class names, if keys or folders have them.
    for way in ["paths", "lsun", "dict", "basicsr"] {
        let classes: Vec<_> =
            Dataset::open(bench.at(&format!("out-{way}"))).unwrap().classes().iter().map(|c| c.name.clone()).collect();
        assert_eq!(classes, ["animals", "people", "space", "textures", "things"], "{way}");
    }
}

#[test]
fn raw_pixels_become_the_npy_files_that_numpy_would_write() {
    let bench = Bench::new();
    let source = written(&bench);
    let chunks = ["list", "nhwc", "nchw", "gray"].map(|way| [2, 4, 5].map(|protocol| format!("raw-{way}-{protocol}")));
    let ways = ["raw-caffe", "raw-numpy"].map(str::to_owned);
    for way in ways.iter().chain(chunks.as_flattened()) {
        let dst = bench.at(way);
        convert(&source.join(way), &dst, &["--quiet"]).code(0);
        let mut expected: Vec<_> =
            (0..6).map(|n| (n % 3, fs::read(source.join(format!("expected/{way}-{n}.npy"))).unwrap())).collect();
        expected.sort();
        assert!(images(&dst) == expected, "{way}: other bytes than numpy's");
        assert_eq!(Dataset::open(&dst).unwrap().manifest().kinds["npy"], 6);
        run(&["verify", "--quiet", "--decode", dst.to_str().unwrap()]).code(0);
    }
    // `--encode` makes image files with the same pixels.
    for kind in ["png", "webp"] {
        let dst = bench.at(kind);
        convert(&source.join("raw-nhwc-4"), &dst, &["--quiet", "--encode", kind]).code(0);
        let decoded = images(&dst)
            .into_iter()
            .map(|(label, image)| (label, image::load_from_memory(&image).unwrap().to_rgb8().into_raw()));
        let mut decoded: Vec<_> = decoded.collect();
        decoded.sort();
        let mut pixels: Vec<_> = (0..6)
            .map(|n| fs::read(source.join(format!("expected/raw-nhwc-4-{n}.npy"))).unwrap())
            .zip([0, 1, 2, 0, 1, 2])
            .map(|(npy, label)| (label, npy[128..].to_vec()))
            .collect();
        pixels.sort();
        assert!(decoded == pixels, "{kind}: other pixels");
        assert_eq!(Dataset::open(&dst).unwrap().manifest().kinds[kind], 6);
    }
}

#[test]
fn several_environments_are_one_source() {
    let bench = Bench::new();
    let source = written(&bench);
    let (dst, ways) = (bench.dst(), ["caffe", "folder2lmdb-4.lmdb", "ocr"]);
    let paths: Vec<_> = ways.iter().map(|way| source.join(way)).collect();
    let arguments = |paths: &[std::path::PathBuf], dst: &Path| {
        let paths = paths.iter().map(|path| path.to_str().unwrap().to_owned());
        let all = ["convert".to_owned()].into_iter().chain(paths).chain([dst.to_str().unwrap().to_owned()]);
        all.collect::<Vec<_>>()
    };
    run(&arguments(&paths, &dst)).code(0).says("3 files of lmdb");
    let mut all: Vec<_> = ways.iter().flat_map(|way| expected(&source, way)).collect();
    all.sort();
    assert!(hashed(&dst) == all, "images or labels differ");
    // Labels that are words: each environment holds one class, and the command line lists some environments.
    let classes: Vec<_> = ["animals", "things"].map(|class| source.join(format!("lsun/{class}_train_lmdb"))).to_vec();
    let two = bench.at("two");
    run(&arguments(&classes, &two)).code(0).says("2 files of lmdb");
    let dataset = Dataset::open(&two).unwrap();
    assert_eq!(dataset.classes().iter().map(|class| class.name.as_str()).collect::<Vec<_>>(), ["animals", "things"]);
    // A folder of environments, as in `lsun`. Environments with labels in their values are one source, too.
    let folder = bench.at("folder");
    fs::create_dir(&folder).unwrap();
    for way in ["caffe", "ocr"] {
        fs::create_dir(folder.join(way)).unwrap();
        fs::copy(source.join(way).join("data.mdb"), folder.join(way).join("data.mdb")).unwrap();
    }
    let dst = bench.at("of-folder");
    convert(&folder, &dst, &[]).code(0).says("2 files of lmdb");
    assert_eq!(hashed(&dst).len(), 64);
}

/// An entry in the form that the script lists: length and key, length and value.
fn listed(database: &shardpack_source::foreign::lmdb::Database, mut walk: Walk) -> Vec<Vec<u8>> {
    let (mut entries, mut value) = (Vec::new(), Vec::new());
    while let Some(entry) = walk.next().unwrap() {
        database.read(entry.value, &mut value).unwrap();
        let lengths = [entry.key.len() as u64, value.len() as u64].map(u64::to_le_bytes);
        entries.push([&lengths[0], entry.key.as_slice(), &lengths[1], value.as_slice()].concat());
    }
    entries
}

#[test]
fn every_entry_is_read_as_liblmdb_reads_it() {
    let bench = Bench::new();
    let source = written(&bench);
    let environment = Environment::open(&source.join("pages")).unwrap();
    let mut names = environment.names().unwrap();
    names.sort();
    assert_eq!(names, [b"duplicates".as_slice(), b"fixed", b"small", b"values"]);
    for name in names {
        let shown = String::from_utf8(name.clone()).unwrap();
        let expected = fs::read(source.join(format!("expected/pages-{shown}"))).unwrap();
        let database = environment.database(Some(&name)).unwrap();
        let by_key = listed(&database, database.cursor().unwrap());
        assert!(by_key.concat() == expected, "{shown}: other entries, or another order of keys");
        let mut by_page = listed(&database, database.walk().unwrap());
        let mut by_key_sorted = by_key.clone();
        by_page.sort();
        by_key_sorted.sort();
        assert!(by_page == by_key_sorted, "{shown}: a walk by pages meets other entries");
        assert_eq!(by_key.len() as u64, database.entries(), "{shown}");
    }
    let values = environment.database(Some(b"values")).unwrap();
    assert!(values.get(b"value-1048576").unwrap().is_some_and(|place| place.end - place.start == 1 << 20));
    assert_eq!(values.get(b"value-3").unwrap(), None);
}

#[test]
fn colours_of_a_raw_datum_are_those_that_caffe_meant() {
    let bench = Bench::new();
    let source = written(&bench);
    let dst = bench.at("png");
    let ran = convert(&source.join("raw-caffe"), &dst, &["--encode", "png"]).code(0);
    ran.says("three planes in 6 Datums are blue, green and red, as Caffe's tools write them: made red, green and blue");
    let decoded = images(&dst).into_iter();
    let mut decoded: Vec<_> =
        decoded.map(|(label, image)| (label, image::load_from_memory(&image).unwrap().to_rgb8().into_raw())).collect();
    decoded.sort();
    // The planes hold the same pixels. The Datum has the channels in reverse order.
    let turned = |npy: Vec<u8>| npy[128..].chunks_exact(3).flat_map(|c| [c[2], c[1], c[0]]).collect::<Vec<u8>>();
    let of = |n: i64| turned(fs::read(source.join(format!("expected/raw-numpy-{n}.npy"))).unwrap());
    let mut pixels: Vec<_> = (0..6).map(|n| (n % 3, of(n))).collect();
    pixels.sort();
    assert!(decoded == pixels, "other colours");
    let floats = bench.at("floats");
    convert(&source.join("float-caffe"), &floats, &[])
        .code(1)
        .says("a Datum of floating-point numbers (float_data), 1×2×2: no image");
}

//! Targets of images in odd states: masks that are damaged or changed, images without a category, lists without a folder, bare arrays.

use std::{fs, io::Cursor, path::Path};

use image::{GrayImage, ImageFormat};
use shardpack_format::npy;
use shardpack_testing::{Bench, jpeg, run};

fn path(path: &Path) -> &str {
    path.to_str().unwrap()
}

fn mask(shade: u8) -> Vec<u8> {
    let mut out = Cursor::new(Vec::new());
    let pixel = |x: u32, y: u32| image::Luma([(x * y) as u8 ^ shade]);
    GrayImage::from_fn(40, 30, pixel).write_to(&mut out, ImageFormat::Png).unwrap();
    out.into_inner()
}

const WITH: [&str; 3] = ["--no-labels", "--with", "mask=../masks/*.png"];

/// Images with masks.
fn masked() -> Bench {
    let bench = Bench::new();
    for number in 0..4 {
        bench.file(format!("images/{number}.jpg"), &jpeg(number, 5000));
        bench.file(format!("masks/{number}.png"), &mask(number as u8));
    }
    bench
}

#[test]
fn a_full_check_decodes_masks() {
    let bench = masked();
    for check in ["full", "entropy"] {
        bench.pack_to(&bench.at(check), &[&WITH[..], &["--check", check]].concat()).code(0);
    }
    let whole = mask(2);
    let damaged: Vec<u8> = whole.iter().enumerate().map(|(at, byte)| if at == 60 { byte ^ 1 } else { *byte }).collect();
    for (name, content) in
        [("cut", whole[..whole.len() / 2].to_vec()), ("text", b"no mask".to_vec()), ("flipped", damaged)]
    {
        bench.file("masks/2.png", &content);
        for check in ["full", "entropy"] {
            let options = [&WITH[..], &["--check", check]].concat();
            bench.pack_to(&bench.at(&format!("{name}-{check}")), &options).code(1).says("images/2.jpg: its mask.png: ");
        }
        let options = [&WITH[..], &["--check", "full", "--on-bad", "skip"]].concat();
        bench.pack_to(&bench.at(name), &options).code(0).says("packed  3 of 4");
    }
    // A text beside an image is no image.
    let texts = Bench::new();
    texts.file("x/1.jpg", &jpeg(1, 5000));
    texts.file("x/1.txt", b"a caption");
    texts.pack(&["--with", "txt", "--check", "full", "--splits", "none"]).code(0);
}

#[test]
fn a_changed_mask_is_one_problem() {
    let bench = masked();
    bench.pack(&WITH).code(0);
    let (dst, src) = (bench.dst(), bench.src());
    let against = || run(&["verify", path(&dst), "--against", path(&src), "--json"]);
    assert_eq!(against().code(0).json()["problems"].as_array().unwrap().len(), 0);
    let mut flipped = mask(1);
    *flipped.last_mut().unwrap() ^= 1;
    for (content, why) in [(flipped, "another value of component mask.png"), (b"x".to_vec(), "other components")] {
        bench.file("masks/1.png", &content);
        let document = against().code(1).json();
        let problems = document["problems"].as_array().unwrap();
        assert_eq!(problems.len(), 1, "{document}");
        assert!(
            problems[0].to_string().contains("images/1.jpg") && problems[0].to_string().contains(why),
            "{document}"
        );
    }
    // A new image is a problem of its own.
    bench.file("images/new.jpg", &jpeg(9, 5000));
    assert_eq!(against().code(1).json()["problems"].as_array().unwrap().len(), 2);
}

#[test]
fn an_image_without_a_category_is_named_with_the_reason() {
    let bench = Bench::new();
    for number in 1..4 {
        bench.file(format!("{number}.jpg"), &jpeg(number, 5000));
    }
    let coco = serde_json::json!({
        "images": (1..4).map(|id| serde_json::json!({"id": id, "file_name": format!("{id}.jpg")})).collect::<Vec<_>>(),
        "annotations": [
            {"id": 1, "image_id": 1, "category_id": 7, "bbox": [1, 1, 2, 2]},
            {"id": 2, "image_id": 2, "category_id": 8, "bbox": [1, 1, 2, 2]},
        ],
        "categories": [{"id": 7, "name": "cat"}],
    });
    bench.file("coco.json", coco.to_string().as_bytes());
    let list = bench.src().join("coco.json");
    let pack = |options: &[&str]| {
        run(&[&["pack", path(&list), path(&bench.dst()), "--label-column", "category_id"][..], options].concat())
    };
    let ran = pack(&[]).code(1).says("2 cannot be packed").says_not("place");
    ran.says("2.jpg: no label: none of its annotations has a category of the file")
        .says("3.jpg: no label: it has no annotations");
    pack(&["--include", "3.jpg"]).code(1).says("--no-labels packs samples without a class").says_not("--root");
    pack(&["--on-bad", "skip"]).code(0).says("packed  1 of 3");
}

#[test]
fn a_list_of_ids_names_the_folder_of_its_files() {
    let bench = Bench::new();
    for number in 1..4 {
        bench.file(format!("ljs/wavs/LJ-{number}.wav"), b"RIFF");
        bench.file(format!("ljs/other/{number}.txt"), b"text");
    }
    let lines = (1..4).map(|number| format!("LJ-{number}|Text {number}, of 1866|Text {number}, of words\n"));
    bench.file("ljs/metadata.csv", lines.collect::<String>().as_bytes());
    let (list, wavs) = (bench.src().join("ljs/metadata.csv"), bench.src().join("ljs/wavs"));
    let dst = bench.dst();
    let ran = run(&["pack", path(&list), path(&dst), "--no-labels"]).code(2);
    ran.says(&format!("help: --root {} is the folder of LJ-1, which the list names", path(&wavs)));
    run(&["pack", path(&list), path(&dst), "--no-labels", "--root", path(&wavs)]).code(0).says("packed  3 of 3");
    // Without such a folder, the options are named.
    fs::remove_dir_all(&wavs).unwrap();
    run(&["pack", path(&list), path(&bench.at("other"))]).code(2).says("choose one with --path-column NAME");
}

#[test]
fn arrays_of_a_bare_tar_are_no_images() {
    let bench = Bench::new();
    let file = fs::File::create(bench.at("a.tar")).unwrap();
    let mut tar = tar::Builder::new(file);
    for number in 0..3 {
        for name in ["x.npy", "cls"] {
            let mut content = npy::head("<f4", &[3], false);
            content.extend([0; 12]);
            let content = if name == "cls" { b"1".to_vec() } else { content };
            let mut header = tar::Header::new_ustar();
            header.set_size(content.len() as u64);
            header.set_cksum();
            tar.append_data(&mut header, format!("{number}.{name}"), content.as_slice()).unwrap();
        }
    }
    tar.finish().unwrap();
    let at = bench.at("a.tar");
    run(&["inspect", path(&at)]).code(0).says("of files").says("npy 3").says_not("image").says_not("pixels");
    let document = run(&["inspect", path(&at), "--json"]).code(0).json();
    assert_eq!(document["datasets"][0]["images"]["modes"], serde_json::json!({}), "{document}");
}

#[test]
fn labels_with_fractions_in_some_records_are_values_in_all() {
    let bench = Bench::new();
    let script = "import lmdb, pickle, sys\n\
        database = lmdb.open(sys.argv[1], subdir=False, map_size=1 << 24)\n\
        photo = open(sys.argv[2], 'rb').read()\n\
        with database.begin(write=True) as put:\n    \
            for number, label in enumerate([0.5, 1.0, -3.0, 2.5]):\n        \
                put.put(b'%d' % number, pickle.dumps({'image': photo, 'label': label}))\n";
    bench.file("photo.jpg", &jpeg(1, 5000));
    let (database, photo) = (bench.at("labels.lmdb"), bench.src().join("photo.jpg"));
    let python = std::env::var_os("SHARDPACK_PYTHON").unwrap();
    let ran = std::process::Command::new(python).args(["-c", script]).args([&database, &photo]).output().unwrap();
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
    let ran = run(&["convert", path(&database), path(&bench.dst())]);
    ran.code(0).says("packed  4 of 4").says("labels of some samples can be no class, such as numbers with fractions");
    let dataset = shardpack_reader::Dataset::open(bench.dst()).unwrap();
    let mut reader = dataset.reader(..).unwrap();
    let mut found = Vec::new();
    while let Some(sample) = reader.next().unwrap() {
        assert_eq!(sample.label(), None);
        let labels = sample.components().filter(|(name, _)| name.starts_with("labels"));
        found.extend(labels.map(|(_, npy)| f64::from_le_bytes(*npy.last_chunk().unwrap())));
    }
    found.sort_by(f64::total_cmp);
    assert_eq!(found, [-3.0, 0.5, 1.0, 2.5]);
}

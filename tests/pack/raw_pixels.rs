//! Bytes without the signature of an image are not an image, whatever the name of their field. Pixels with a size beside them become
//! arrays. All other bytes are refused with a description.

use std::{fs, path::PathBuf};

use shardpack_format::npy;
use shardpack_testing::{
    Bench, jpeg,
    lists::{self, verify},
    run,
    shards::{Feature, Tar, convert, mds_shard, parquet_file, rec_record, samples, tf_record},
};

const OPTIONS: [&str; 1] = ["--quiet"];

/// Pixels that do not begin like an image.
fn pixels(bytes: usize) -> Vec<u8> {
    (0..bytes).map(|at| (at * 7 + 1) as u8).collect()
}

fn written(bench: &Bench, name: &str, bytes: &[u8]) -> PathBuf {
    let path = bench.at(name);
    fs::write(&path, bytes).unwrap();
    path
}

#[test]
fn pixels_under_any_name_are_arrays_where_their_size_is_beside_them() {
    use Feature::{Bytes, Ints};
    let rgb = pixels(4 * 5 * 3);
    let gray = pixels(4 * 5);
    let floats: Vec<u8> = (0..20).flat_map(|at| (at as f32 / 20.0).to_le_bytes()).collect();
    type Row<'a> = (&'a str, Vec<(&'a str, Feature<'a>)>, &'a [u8], &'a str, &'a [u64]);
    let rows: [Row<'_>; 9] = [
        ("image", vec![("height", Ints(&[4])), ("width", Ints(&[5])), ("depth", Ints(&[3]))], &rgb, "|u1", &[4, 5, 3]),
        ("image_raw", vec![("rows", Ints(&[4])), ("cols", Ints(&[5]))], &gray, "|u1", &[4, 5]),
        ("img_raw", vec![("image/height", Bytes(b"4")), ("image/width", Bytes(b"5"))], &rgb, "|u1", &[4, 5, 3]),
        ("train/image", vec![("shape", Ints(&[4, 5, 3]))], &rgb, "|u1", &[4, 5, 3]),
        ("x", vec![("img_shape", Ints(&[3, 4, 5]))], &rgb, "|u1", &[3, 4, 5]),
        ("image/encoded", vec![("h", Ints(&[4])), ("w", Ints(&[5])), ("c", Ints(&[1]))], &gray, "|u1", &[4, 5, 1]),
        ("data", vec![("h", Ints(&[4])), ("w", Ints(&[5])), ("c", Ints(&[1]))], &floats, "<f4", &[4, 5, 1]),
        ("data", vec![("image/shape", Ints(&[4, 5])), ("mask", Bytes(&[1; 21]))], &floats, "<f4", &[4, 5]),
        ("png", vec![("Height", Ints(&[4])), ("Width", Ints(&[5])), ("Channels", Ints(&[3]))], &rgb, "|u1", &[4, 5, 3]),
    ];
    for (name, size, bytes, dtype, shape) in rows {
        let bench = Bench::new();
        let record = |label: i64| {
            let mut features = size.clone();
            features.push((name, Bytes(bytes)));
            let label = [label];
            features.push(("label", Ints(&label)));
            tf_record(&features)
        };
        let file = written(&bench, "x.tfrecord", &[record(0), record(1)].concat());
        let ran = convert(&[&file], &bench.dst(), &[]).code(0);
        ran.says("pixels without a file in 2 records: arrays, by the size beside them");
        let array = [npy::head(dtype, shape, false), bytes.to_vec()].concat();
        let mut found = samples(&bench.dst());
        found.sort();
        assert_eq!(found, [(0, array.clone()), (1, array)], "{name}");
        verify(&bench.dst(), &file, &[]);
        if dtype == "|u1" {
            run(&["verify", bench.dst().to_str().unwrap(), "--decode"]).code(0);
        }
    }
}

#[test]
fn bytes_that_are_no_image_are_refused_by_name_length_and_first_bytes() {
    use Feature::{Bytes, Ints};
    let junk = pixels(700);
    let good = jpeg(1, 6000);
    let sized = |size: &[(&'static str, Feature<'static>)]| {
        let mut features = vec![("image_raw", Bytes(&junk)), ("label", Ints(&[0]))];
        features.extend(size.iter().cloned());
        [tf_record(&features), tf_record(&[("image_raw", Bytes(&good)), ("label", Ints(&[1]))])].concat()
    };
    let tar = |tar: Tar| tar.sample("b", "1", &good).bytes();
    let rows: [(&str, Vec<u8>, &str); 8] = [
        ("none.tfrecord", sized(&[]), "\"image_raw\" holds "),
        ("other.tfrecord", sized(&[("height", Ints(&[9])), ("width", Ints(&[9]))]), "\"image_raw\" holds "),
        // The size fits colours with alpha and 32-bit numbers, so the type is ambiguous.
        ("two.tfrecord", sized(&[("height", Ints(&[7])), ("width", Ints(&[25]))]), "\"image_raw\" holds "),
        ("x.tar", tar(Tar::new().sample("a", "0", &junk)), "\"jpg\" holds "),
        ("img.tar", tar(Tar::new().file("a.cls", b"0").file("a.img", &junk)), "\"img\" holds "),
        ("x.rec", [rec_record(0, &[0.0], &junk), rec_record(1, &[1.0], &good)].concat(), ""),
        ("x.mds", mds_shard(&[(0, junk.clone()), (1, good.clone())]), "\"image\" holds "),
        (
            "x.parquet",
            parquet_file(&[], &[(Some(0), junk.clone(), None), (Some(1), good.clone(), None)]),
            "\"image\" holds ",
        ),
    ];
    for (name, bytes, holds) in rows {
        let bench = Bench::new();
        let file = written(&bench, name, &bytes);
        let what = format!("{holds}700 bytes that begin like no image: 01080f161d242b32");
        convert(&[&file], &bench.dst(), &[]).code(1).says(&what);
        convert(&[&file], &bench.dst(), &["--quiet", "--on-bad", "skip", "--force"]).code(0);
        assert_eq!(samples(&bench.dst()), [(1, good.clone())], "{name}");
        run(&["verify", file.to_str().unwrap()]).code(1).says(&what);
        // A field that the user names is packed as it is.
        let named = holds.split('"').nth(1).filter(|field| *field != "img");
        if let Some(field) = named {
            let dst = bench.at("named");
            convert(&[&file], &dst, &["--quiet", "--image-feature", field]).code(0);
            assert_eq!(samples(&dst).len(), 2, "{name}");
        }
    }
}

#[test]
fn an_image_is_asked_for_where_its_name_and_its_content_disagree() {
    use Feature::Bytes;
    let bench = Bench::new();
    let image = jpeg(1, 6000);
    let file = written(&bench, "x.tfrecord", &tf_record(&[("image", Bytes(b"000012.jpg")), ("raw", Bytes(&image))]));
    let what = "feature \"image\" holds no image, and \"raw\" looks like one: choose one with --image-feature";
    convert(&[&file], &bench.dst(), &OPTIONS).code(1).says(what);
    convert(&[&file], &bench.dst(), &["--quiet", "--image-feature", "raw"]).code(0);
    assert_eq!(lists::samples(&bench.dst()).len(), 1);
    let pixels = pixels(20);
    let size = Feature::Ints(&[4, 5]);
    let two = tf_record(&[("a", Bytes(&pixels)), ("b", Bytes(&pixels)), ("shape", size)]);
    let two = written(&bench, "two.tfrecord", &two);
    convert(&[&two], &bench.at("two"), &OPTIONS).code(1).says("features \"a\" and \"b\" both look like pixels");
}

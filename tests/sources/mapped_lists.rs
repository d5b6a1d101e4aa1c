//! Packs lists in JSON whose members are named after files, and StyleGAN's `dataset.json`.

use shardpack_testing::{
    Bench, jpeg,
    lists::{list, mend, one, pack, samples, text, verify},
};

fn bench() -> Bench {
    let bench = Bench::new();
    for number in 0..3 {
        bench.file(format!("img/{number}.jpg"), &jpeg(number, 6000 + number as usize));
    }
    bench
}

#[test]
fn members_and_pairs_are_rows() {
    let bench = bench();
    for (case, content) in [
        r#"{"img/0.jpg": "cat", "img/1.jpg": "dog", "img/2.jpg": "cat"}"#,
        r#"{"labels": [["img/0.jpg", "cat"], ["img/1.jpg", "dog"], ["img/2.jpg", "cat"]]}"#,
    ]
    .into_iter()
    .enumerate()
    {
        let path = list(&bench, &format!("labels-{case}.json"), content);
        let dst = bench.at(&format!("packed-{case}"));
        pack(&path, &dst, &[]).code(0);
        let all = samples(&dst);
        assert_eq!(all.len(), 3);
        assert_eq!(one(&all, "img/1.jpg").1.as_deref(), Some("dog"));
        verify(&dst, &path, &[]);
        mend(&dst, &path);
    }
}

#[test]
fn members_of_objects_are_fields_and_others_are_counted() {
    let bench = bench();
    let path = list(
        &bench,
        "objects.json",
        r#"{"info": {"year": 2017}, "img/0.jpg": {"label": "cat", "width": 1.50}, "img/2.jpg": {"label": "dog"}, "licenses": []}"#,
    );
    let dst = bench.at("packed");
    pack(&path, &dst, &[]).code(0).says("members of the list that are not named after files are left out: 2");
    let all = samples(&dst);
    assert_eq!(all.len(), 2);
    assert_eq!(text(one(&all, "img/0.jpg"), "json").unwrap(), r#"{"width":1.50}"#);
    // Captions are no classes.
    let captions = list(&bench, "captions.json", r#"{"0.jpg": ["a cat", "one cat"], "1.jpg": ["a dog"]}"#);
    let packed = bench.at("captions");
    let root = bench.src().join("img");
    pack(&captions, &packed, &["--root", root.to_str().unwrap()]).code(0);
    assert_eq!(text(one(&samples(&packed), "1.jpg"), "json").unwrap(), r#"{"label":["a dog"]}"#);
    for damaged in [r#"{"img/0.jpg": 1"#, r#"{"img/0.jpg": 1} x"#, r#"{"img/0.jpg": 1, "img/0.jpg": 2}"#] {
        let path = list(&bench, "damaged.json", damaged);
        pack(&path, &bench.at("damaged"), &[])
            .code(1)
            .says("neither COCO nor an object whose members are named after files");
    }
}

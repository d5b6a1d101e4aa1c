//! Packs lists in JSON whose members are named after files, and StyleGAN's `dataset.json`.

use shardpack_testing::lists::{list, mend, one, pack, samples, text, three_images, verify};

#[test]
fn members_and_pairs_are_rows() {
    let bench = three_images();
    for (case, content) in [
        r#"{"train/0.jpg": "cat", "train/1.jpg": "dog", "train/2.jpg": "cat"}"#,
        r#"{"labels": [["train/0.jpg", "cat"], ["train/1.jpg", "dog"], ["train/2.jpg", "cat"]]}"#,
    ]
    .into_iter()
    .enumerate()
    {
        let path = list(&bench, &format!("labels-{case}.json"), content);
        let dst = bench.at(&format!("packed-{case}"));
        pack(&path, &dst, &[]).code(0);
        let all = samples(&dst);
        assert_eq!(all.len(), 3);
        assert_eq!(one(&all, "train/1.jpg").1.as_deref(), Some("dog"));
        verify(&dst, &path, &[]);
        mend(&dst, &path);
    }
}

#[test]
fn members_of_objects_are_fields_and_others_are_counted() {
    let bench = three_images();
    let path = list(
        &bench,
        "objects.json",
        r#"{"info": {"year": 2017}, "train/0.jpg": {"label": "cat", "width": 1.50}, "train/2.jpg": {"label": "dog"}, "licenses": []}"#,
    );
    let dst = bench.at("packed");
    pack(&path, &dst, &[]).code(0).says("members of the list that are not named after files are left out: 2");
    let all = samples(&dst);
    assert_eq!(all.len(), 2);
    assert_eq!(text(one(&all, "train/0.jpg"), "json").unwrap(), r#"{"width":1.50}"#);
    // Captions are no classes.
    let captions = list(&bench, "captions.json", r#"{"0.jpg": ["a cat", "one cat"], "1.jpg": ["a dog"]}"#);
    let packed = bench.at("captions");
    let root = bench.src().join("train");
    pack(&captions, &packed, &["--root", root.to_str().unwrap()]).code(0);
    assert_eq!(text(one(&samples(&packed), "1.jpg"), "json").unwrap(), r#"{"label":["a dog"]}"#);
    for damaged in [r#"{"train/0.jpg": 1"#, r#"{"train/0.jpg": 1} x"#, r#"{"train/0.jpg": 1, "train/0.jpg": 2}"#] {
        let path = list(&bench, "damaged.json", damaged);
        pack(&path, &bench.at("damaged"), &[])
            .code(1)
            .says("neither COCO nor an object whose members are named after files");
    }
}

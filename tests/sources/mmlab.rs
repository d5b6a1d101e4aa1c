//! Packs lists of OpenMMLab: an object with `metainfo` and `data_list`.

use shardpack_testing::lists::{list, mend, one, pack, samples, text, three_images, verify};

#[test]
fn labels_have_the_names_of_metainfo_and_what_else_is_said_goes_along() {
    let bench = three_images();
    for (case, classes) in ["classes", "CLASSES"].into_iter().enumerate() {
        let path = list(
            &bench,
            &format!("annotations-{case}.json"),
            &format!(
                r#"{{"metainfo": {{"dataset_type": "x", "{classes}": ["cat", "dog", "eel"]}}, "data_list": [
                {{"img_path": "train/0.jpg", "gt_label": 2, "height": 144, "width": 192.0}},
                {{"img_path": "train/1.jpg", "gt_label": 0, "img_id": 7}}, {{"img_path": "train/2.jpg", "gt_label": 2}}]}}"#
            ),
        );
        let dst = bench.at(&format!("packed-{case}"));
        pack(&path, &dst, &[]).code(0);
        let all = samples(&dst);
        let first = one(&all, "train/0.jpg");
        assert_eq!((first.0, first.1.as_deref()), (Some(2), Some("eel")));
        assert_eq!(text(first, "json").unwrap(), r#"{"height":144,"width":192.0}"#);
        assert_eq!((one(&all, "train/1.jpg").0, one(&all, "train/1.jpg").1.as_deref()), (Some(0), Some("cat")));
        assert_eq!(shardpack_reader::Dataset::open(&dst).unwrap().classes().len(), 3);
        verify(&dst, &path, &[]);
        mend(&dst, &path);
    }
}

#[test]
fn objects_of_an_image_are_no_class_and_keep_their_names() {
    let bench = three_images();
    let path = list(
        &bench,
        "train.json",
        r#"{"data_list": [
            {"img_path": "0.jpg", "instances": [{"bbox": [0, 0, 1.50, 2], "bbox_label": 1, "ignore_flag": 0}]},
            {"img_path": "1.jpg", "instances": []}], "metainfo": {"classes": ["cat", "dog"]}}"#,
    );
    // shardpack searches for images beside the list and in folders with the name of the list.
    let dst = bench.dst();
    pack(&path, &dst, &[]).code(0);
    let all = samples(&dst);
    let expected = r#"{"instances":[{"bbox":[0,0,1.50,2],"bbox_label":1,"ignore_flag":0}],"classes":{"1":"dog"}}"#;
    assert_eq!((one(&all, "0.jpg").0, text(one(&all, "0.jpg"), "json").unwrap().as_str()), (None, expected));
    assert_eq!(text(one(&all, "1.jpg"), "json").unwrap(), r#"{"instances":[]}"#);
    let broken = list(&bench, "broken.json", r#"{"data_list": [{"img_path": "train/0.jpg"}, 3]}"#);
    pack(&broken, &bench.at("broken"), &[]).code(1).says("element 2: not an object");
    let none = list(&bench, "none.json", r#"{"metainfo": {}, "data_list": {"img_path": "train/0.jpg"}}"#);
    pack(&none, &bench.at("none"), &[]).code(1).says("no list of OpenMMLab");
}

//! Trees of the layouts of docs/how-to/layouts.md that are called after a dataset, as [`crate::layout_table`] has the general ones.

use crate::layout_table::{BOX, BOXES, Layout};

const OBJECTS_365: &str = r#"{"images": [{"id": 1, "file_name": "images/v1/patch0/1.jpg"}, {"id": 2, "file_name": "images/v2/patch1/2.jpg"}], "categories": [{"id": 1, "name": "person"}], "annotations": [{"image_id": 1, "category_id": 1, "bbox": [1, 1, 5, 5]}]}"#;
const OF_VAL: &str = r#"{"images": [{"id": 1, "file_name": "images/v1/patch0/3.jpg"}], "categories": [{"id": 1, "name": "person"}], "annotations": []}"#;

pub const PUBLISHED: [Layout; 11] = [
    Layout {
        name: "YOLO of CVAT",
        images: &["obj_train_data/1.jpg", "obj_train_data/2.jpg"],
        others: &[
            ("obj_train_data/1.txt", BOX),
            ("obj_train_data/2.txt", ""),
            ("obj.names", "cat\ndog\n"),
            ("obj.data", "classes = 2\nnames = data/obj.names\n"),
            ("train.txt", "data/obj_train_data/1.jpg\ndata/obj_train_data/2.jpg\n"),
        ],
        components: BOXES,
        splits: &[("", 2)],
    },
    Layout {
        name: "LabelImg",
        images: &["train/1.jpg", "train/2.jpg", "val/3.jpg"],
        others: &[("train/1.txt", BOX), ("train/2.txt", BOX), ("val/3.txt", BOX), ("train/classes.txt", "cat\ndog\n")],
        components: BOXES,
        splits: &[("train", 2), ("val", 1)],
    },
    Layout {
        name: "Medical Segmentation Decathlon",
        images: &["imagesTr/hip_001.nii.gz", "imagesTr/hip_002.nii.gz", "imagesTs/hip_009.nii.gz"],
        others: &[("labelsTr/hip_001.nii.gz", "one"), ("labelsTr/hip_002.nii.gz", "two"), ("dataset.json", "{}")],
        components: &["label.gz"],
        splits: &[("", 2)],
    },
    Layout {
        name: "nnU-Net",
        images: &[
            "imagesTr/B_001_0000.nii.gz",
            "imagesTr/B_001_0001.nii.gz",
            "imagesTr/B_002_0000.nii.gz",
            "imagesTr/B_002_0001.nii.gz",
        ],
        others: &[("labelsTr/B_001.nii.gz", "one"), ("labelsTr/B_002.nii.gz", "two"), ("dataset.json", "{}")],
        components: &["label.gz", "channel1.gz"],
        splits: &[("", 2)],
    },
    Layout {
        name: "LOL-v2",
        images: &["Train/Low/low00001.png", "Train/Low/low00002.png", "Test/Low/low00690.png"],
        others: &[
            ("Train/Normal/normal00001.png", "1"),
            ("Train/Normal/normal00002.png", "2"),
            ("Test/Normal/normal00690.png", "3"),
        ],
        components: &["normal.png"],
        splits: &[("Train", 2), ("Test", 1)],
    },
    Layout {
        name: "Objects365",
        images: &["train/patch0/1.jpg", "train/patch1/2.jpg", "val/patch0/3.jpg"],
        others: &[("train/zhiyuan_objv2_train.json", OBJECTS_365), ("val/zhiyuan_objv2_val.json", OF_VAL)],
        components: BOXES,
        splits: &[("train", 2), ("val", 1)],
    },
    Layout {
        name: "KolektorSDD2",
        images: &["train/10000.png", "train/10001.png", "test/20000.png"],
        others: &[("train/10000_GT.png", "a"), ("train/10001_GT.png", "b"), ("test/20000_GT.png", "c")],
        components: &["gt.png"],
        splits: &[("train", 2), ("test", 1)],
    },
    Layout {
        name: "Data Science Bowl 2018",
        images: &[
            "stage1_train/a/images/a.png",
            "stage1_train/b/images/b.png",
            "stage1_test/c/images/c.png",
            "stage1_test/d/images/d.png",
        ],
        others: &[
            ("stage1_train/a/masks/1.png", "1"),
            ("stage1_train/a/masks/2.png", "2"),
            ("stage1_train/b/masks/3.png", "3"),
            ("stage1_train_labels.csv", "ImageId,EncodedPixels\n"),
        ],
        components: &[],
        splits: &[("stage1_train", 2), ("stage1_test", 2)],
    },
    Layout {
        name: "MOT17",
        images: &["train/MOT17-02/img1/000001.jpg", "train/MOT17-04/img1/000001.jpg", "test/MOT17-01/img1/000001.jpg"],
        others: &[
            ("train/MOT17-02/seqinfo.ini", "[Sequence]\n"),
            ("train/MOT17-02/gt/gt.txt", "1,1,1,1,5,5,1,1,1\n"),
            ("train/MOT17-04/seqinfo.ini", "[Sequence]\n"),
            ("train/MOT17-04/gt/gt.txt", "1,1,1,1,5,5,1,1,1\n"),
            ("test/MOT17-01/seqinfo.ini", "[Sequence]\n"),
        ],
        components: &[],
        splits: &[("train", 2), ("test", 1)],
    },
    Layout {
        name: "GOT-10k",
        images: &[
            "train/GOT_1/1.jpg",
            "train/GOT_1/2.jpg",
            "train/GOT_2/1.jpg",
            "train/GOT_2/2.jpg",
            "train/GOT_4/1.jpg",
            "val/GOT_3/1.jpg",
            "val/GOT_3/2.jpg",
        ],
        others: &[
            ("train/GOT_1/groundtruth.txt", "1,1,5,5\n1,1,5,5\n"),
            ("train/GOT_2/groundtruth.txt", "1,1,5,5\n2,2,5,5\n"),
            ("train/GOT_4/groundtruth_rect.1.txt", "1,1,5,5\n"),
            ("val/GOT_3/groundtruth.txt", "1,1,5,5\n2,2,5,5\n"),
        ],
        components: &[],
        splits: &[("train", 5), ("val", 2)],
    },
    Layout {
        name: "ICDAR 2015",
        images: &["ch4_training_images/img_1.jpg", "ch4_training_images/img_2.jpg"],
        others: &[
            ("ch4_training_localization_transcription_gt/gt_img_1.txt", "1,1,5,1,5,5,1,5,a\n"),
            ("ch4_training_localization_transcription_gt/gt_img_2.txt", "1,1,5,1,5,5,1,5,b\n"),
        ],
        components: &["transcription_gt.txt"],
        splits: &[("training", 2)],
    },
];

//! Lists beside images and sounds: `pack FOLDER` names the list, and the printed command packs what it says.

use std::{path::Path, process::Command};

use shardpack_reader::Dataset;
use shardpack_testing::{Bench, Ran, binary, jpeg, run};

use crate::{
    boxes::objects,
    known_layouts::{help, words},
};

/// A source with lists.
struct Listed {
    name: &'static str,
    files: &'static [&'static str],
    lists: &'static [(&'static str, &'static str)],
    /// The arguments of `pack`, with `SRC` for the source.
    command: &'static str,
    splits: &'static [(&'static str, u64)],
    classes: usize,
    components: &'static [&'static str],
}

const INAT: &str = r#"{"info": {}, "images": [{"id": 1, "file_name": "train_val2018/Aves/1/a.jpg"}],
    "annotations": [{"id": 1, "image_id": 1, "category_id": 0}], "categories": [{"id": 0, "name": "Turdus"}, {"id": 1, "name": "Corvus"}]}"#;
const INAT_VAL: &str = r#"{"info": {}, "images": [{"id": 2, "file_name": "train_val2018/Aves/2/b.jpg"}],
    "annotations": [{"id": 2, "image_id": 2, "category_id": 0}], "categories": [{"id": 0, "name": "Turdus"}, {"id": 1, "name": "Corvus"}]}"#;
const HERBARIUM: &str = r#"{"annotations": [{"category_id": 7, "id": "0", "image_id": "0", "institution_id": 0},
    {"category_id": 9, "id": "1", "image_id": "1", "institution_id": 0}], "categories": [{"id": 7, "name": "Abies"}, {"id": 9, "name": "Acer"}],
    "images": [{"id": "0", "file_name": "images/000/00/a.jpg"}, {"id": "1", "file_name": "images/000/01/b.jpg"}]}"#;
const IWILDCAM: &str = r#"{"images": [{"id": "a", "file_name": "a.jpg"}, {"id": "b", "file_name": "b.jpg"}, {"id": "c", "file_name": "c.jpg"}],
    "annotations": [{"id": "1", "image_id": "a", "category_id": 5}, {"id": "2", "image_id": "b", "category_id": 7},
    {"id": "3", "image_id": "c", "category_id": 5}], "categories": [{"id": 5, "name": "empty"}, {"id": 7, "name": "lynx"}]}"#;

const LISTED: [Listed; 28] = [
    Listed {
        name: "CelebA",
        files: &["img_align_celeba/000001.jpg", "img_align_celeba/000002.jpg", "img_align_celeba/000003.jpg"],
        lists: &[
            ("identity_CelebA.txt", "000001.jpg 5\n000002.jpg 5\n000003.jpg 7\n"),
            ("list_attr_celeba.txt", "3\nSmiling Young \n000001.jpg -1  1\n000002.jpg  1  1\n000003.jpg -1 -1\n"),
        ],
        command: "SRC/list_attr_celeba.txt DST --root SRC/img_align_celeba",
        splits: &[("", 3)],
        classes: 0,
        components: &["jpg", "json"],
    },
    Listed {
        name: "Flickr8k",
        files: &["Images/1.jpg", "Images/2.jpg"],
        lists: &[("captions.txt", "image,caption\n1.jpg,A dog , and a cat .\n1.jpg,Two animals .\n2.jpg,A house .\n")],
        command: "SRC/captions.txt DST --root SRC/Images",
        splits: &[("", 3)],
        classes: 0,
        components: &["jpg", "json"],
    },
    Listed {
        name: "StyleGAN",
        files: &["00000/img00000000.jpg", "00000/img00000001.jpg", "00001/img00001000.jpg"],
        lists: &[(
            "dataset.json",
            r#"{"labels": [["00000/img00000000.jpg", 1], ["00000/img00000001.jpg", 0], ["00001/img00001000.jpg", 1]]}"#,
        )],
        command: "SRC/dataset.json DST",
        splits: &[("", 3)],
        classes: 2,
        components: &["jpg"],
    },
    Listed {
        name: "iNaturalist",
        files: &["train_val2018/Aves/1/a.jpg", "train_val2018/Aves/2/b.jpg", "test2018/c.jpg"],
        lists: &[
            ("train2018.json", INAT),
            ("val2018.json", INAT_VAL),
            ("test2018.json", r#"{"images": [{"id": 3, "file_name": "test2018/c.jpg"}]}"#),
        ],
        command: "--split train=SRC/train2018.json --split val=SRC/val2018.json DST --label-column category_id",
        splits: &[("train", 1), ("val", 1)],
        classes: 2,
        components: &["jpg", "json"],
    },
    Listed {
        name: "Herbarium",
        files: &["train/images/000/00/a.jpg", "train/images/000/01/b.jpg", "test/images/000/c.jpg"],
        lists: &[
            ("train/metadata.json", HERBARIUM),
            ("test/metadata.json", r#"{"images": [{"id": "2", "file_name": "images/000/c.jpg"}]}"#),
        ],
        command: "SRC/train/metadata.json DST --label-column category_id",
        splits: &[("", 2)],
        classes: 2,
        components: &["jpg", "json"],
    },
    Listed {
        name: "iWildCam",
        files: &["train/a.jpg", "train/b.jpg", "train/c.jpg"],
        lists: &[("metadata/train_annotations.json", IWILDCAM)],
        command: "SRC/metadata/train_annotations.json DST --root SRC/train --label-column category_id",
        splits: &[("", 3)],
        classes: 2,
        components: &["jpg", "json"],
    },
    Listed {
        name: "Food-101",
        files: &[
            "images/apple_pie/1.jpg",
            "images/apple_pie/2.jpg",
            "images/sushi/3.jpg",
            "images/sushi/4.jpg",
            "images/sushi/5.jpg",
        ],
        lists: &[
            ("meta/classes.txt", "apple_pie\nsushi\n"),
            ("meta/labels.txt", "Apple pie\nSushi\n"),
            ("meta/train.txt", "apple_pie/1\nsushi/3\nsushi/4\n"),
            ("meta/train.json", r#"{"apple_pie": ["apple_pie/1"], "sushi": ["sushi/3", "sushi/4"]}"#),
            ("meta/test.txt", "apple_pie/2\nsushi/5\n"),
        ],
        command: "--split test=SRC/meta/test.txt --split train=SRC/meta/train.txt DST --root SRC/images --label-column folder",
        splits: &[("train", 3), ("test", 2)],
        classes: 2,
        components: &["jpg"],
    },
    Listed {
        name: "DTD",
        files: &[
            "images/banded/banded_1.jpg",
            "images/banded/banded_2.jpg",
            "images/dotted/dotted_1.jpg",
            "images/dotted/dotted_2.jpg",
        ],
        lists: &[
            ("labels/train1.txt", "banded/banded_1.jpg\ndotted/dotted_1.jpg\n"),
            ("labels/test1.txt", "banded/banded_2.jpg\ndotted/dotted_2.jpg\n"),
            ("labels/train2.txt", "banded/banded_2.jpg\ndotted/dotted_1.jpg\n"),
            ("labels/test2.txt", "banded/banded_1.jpg\ndotted/dotted_2.jpg\n"),
        ],
        command: "--split test=SRC/labels/test1.txt --split train=SRC/labels/train1.txt DST --root SRC/images --label-column folder",
        splits: &[("train", 2), ("test", 2)],
        classes: 2,
        components: &["jpg"],
    },
    Listed {
        name: "FGVC-Aircraft",
        files: &[
            "data/images/1025794.jpg",
            "data/images/1025795.jpg",
            "data/images/1025796.jpg",
            "data/images/1340192.jpg",
            "data/images/1056978.jpg",
            "data/images/0698580.jpg",
        ],
        lists: &[
            ("data/images_box.txt", "1025794 3 144 998 431\n1340192 1 1 2 2\n1056978 1 1 2 2\n0698580 1 1 2 2\n"),
            ("data/images_train.txt", "1025794\n1025795\n1025796\n1340192\n"),
            ("data/images_test.txt", "0698580\n"),
            (
                "data/images_variant_train.txt",
                "1025794 707-320\n1025795 707-320\n1025796 707-320\n1340192 Falcon 900\n",
            ),
            ("data/images_variant_val.txt", "1056978 707-320\n"),
            (
                "data/images_variant_trainval.txt",
                "1025794 707-320\n1025795 707-320\n1025796 707-320\n1340192 Falcon 900\n1056978 707-320\n",
            ),
            ("data/images_variant_test.txt", "0698580 707-320\n"),
            ("data/variants.txt", "707-320\nFalcon 900\n"),
        ],
        command: "--split test=SRC/data/images_variant_test.txt --split train=SRC/data/images_variant_train.txt --split val=SRC/data/images_variant_val.txt DST --root SRC/data/images",
        splits: &[("train", 4), ("val", 1), ("test", 1)],
        classes: 2,
        components: &["jpg"],
    },
    Listed {
        name: "CUB",
        files: &[
            "images/001.Albatross/A_1.jpg",
            "images/001.Albatross/A_2.jpg",
            "images/002.Auklet/B_3.jpg",
            "images/002.Auklet/B_4.jpg",
        ],
        lists: &[
            (
                "images.txt",
                "1 001.Albatross/A_1.jpg\n2 001.Albatross/A_2.jpg\n3 002.Auklet/B_3.jpg\n4 002.Auklet/B_4.jpg\n",
            ),
            ("image_class_labels.txt", "1 1\n2 1\n3 2\n4 2\n"),
            ("train_test_split.txt", "1 0\n2 1\n3 1\n4 0\n"),
            ("bounding_boxes.txt", "1 60.0 27.0 325.0 304.0\n"),
        ],
        command: "SRC/images.txt DST --root SRC/images --label-column folder",
        splits: &[("", 4)],
        classes: 2,
        components: &["jpg", "json"],
    },
    Listed {
        name: "Flickr30k",
        files: &["flickr30k-images/1.jpg", "flickr30k-images/2.jpg"],
        lists: &[("results_20130124.token", "1.jpg#0\tA dog .\n1.jpg#1\tA dog runs .\n2.jpg#0\tA house .\n")],
        command: "SRC/results_20130124.token DST --root SRC/flickr30k-images",
        splits: &[("", 3)],
        classes: 0,
        components: &["jpg", "json"],
    },
    Listed {
        name: "Karpathy's splits",
        files: &["flickr30k-images/1.jpg", "flickr30k-images/2.jpg"],
        lists: &[(
            "dataset_flickr30k.json",
            r#"{"images": [{"sentids": [0], "imgid": 0, "sentences": [{"raw": "A dog ."}], "split": "train", "filename": "1.jpg"}, {"sentids": [1], "imgid": 1, "sentences": [{"raw": "A house ."}], "split": "test", "filename": "2.jpg"}], "dataset": "flickr30k"}"#,
        )],
        command: "SRC/dataset_flickr30k.json DST --root SRC/flickr30k-images",
        splits: &[("train", 1), ("test", 1)],
        classes: 0,
        components: &["jpg", "json"],
    },
    Listed {
        name: "Karpathy's splits of COCO, an image without sentences",
        files: &["train2014/1.jpg", "train2014/2.jpg", "val2014/3.jpg"],
        lists: &[(
            "dataset_coco.json",
            r#"{"images": [{"filepath": "train2014", "sentences": [{"raw": "A dog ."}], "split": "train", "filename": "1.jpg"}, {"filepath": "train2014", "split": "train", "filename": "2.jpg"}, {"filepath": "val2014", "sentences": [], "split": "test", "filename": "3.jpg"}], "dataset": "coco"}"#,
        )],
        command: "SRC/dataset_coco.json DST",
        splits: &[("train", 2), ("test", 1)],
        classes: 0,
        components: &["jpg", "json"],
    },
    Listed {
        name: "ESC-50",
        files: &["audio/1-100-A-0.wav", "audio/1-101-A-1.wav", "audio/1-102-A-0.wav"],
        lists: &[(
            "meta/esc50.csv",
            "filename,fold,target,category\n1-100-A-0.wav,1,0,dog\n1-101-A-1.wav,1,1,cat\n1-102-A-0.wav,2,0,dog\n",
        )],
        command: "SRC/meta/esc50.csv DST --root SRC/audio",
        splits: &[("", 3)],
        classes: 2,
        components: &["wav", "json"],
    },
    Listed {
        name: "Common Voice",
        files: &["clips/1.mp3", "clips/2.mp3", "clips/3.mp3"],
        lists: &[
            ("train.tsv", "client_id\tpath\tsentence\na\t1.mp3\tOne\nb\t2.mp3\tTwo, or so\n"),
            ("test.tsv", "client_id\tpath\tsentence\nc\t3.mp3\tThree\n"),
            ("validated.tsv", "client_id\tpath\tsentence\na\t1.mp3\tOne\n"),
        ],
        command: "--split test=SRC/test.tsv --split train=SRC/train.tsv DST --root SRC/clips",
        splits: &[("train", 2), ("test", 1)],
        classes: 0,
        components: &["mp3", "json"],
    },
    Listed {
        name: "CheXpert",
        files: &["C/train/patient1/study1/view1.jpg", "C/train/patient2/study1/view1.jpg"],
        lists: &[(
            "C/train.csv",
            "Path,Sex,Edema\nC/train/patient1/study1/view1.jpg,M,1.0\nC/train/patient2/study1/view1.jpg,F,-1.0\n",
        )],
        command: "SRC/C/train.csv DST --root SRC",
        splits: &[("", 2)],
        classes: 0,
        components: &["jpg", "json"],
    },
    Listed {
        name: "metadata.jsonl",
        files: &["train/1.jpg", "train/2.jpg", "test/3.jpg"],
        lists: &[
            (
                "train/metadata.jsonl",
                "{\"file_name\": \"1.jpg\", \"text\": \"a\"}\n{\"file_name\": \"2.jpg\", \"text\": \"b\"}\n",
            ),
            ("test/metadata.jsonl", "{\"file_name\": \"3.jpg\", \"text\": \"c\"}\n"),
        ],
        command: "--split test=SRC/test/metadata.jsonl --split train=SRC/train/metadata.jsonl DST",
        splits: &[("train", 2), ("test", 1)],
        classes: 0,
        components: &["jpg", "json"],
    },
    Listed {
        name: "LLaVA",
        files: &["images/1.jpg", "images/2.jpg"],
        lists: &[(
            "chat.json",
            "[{\"id\": \"1\", \"image\": \"1.jpg\", \"conversations\": []}, {\"id\": \"2\", \"image\": \"2.jpg\"}]",
        )],
        command: "SRC/chat.json DST --root SRC/images",
        splits: &[("", 2)],
        classes: 0,
        components: &["jpg", "json"],
    },
    Listed {
        name: "CrowdHuman",
        files: &["Images/1,a.jpg", "Images/2,b.jpg"],
        lists: &[("annotation_train.odgt", "{\"ID\": \"1,a\", \"gtboxes\": []}\n{\"ID\": \"2,b\", \"gtboxes\": []}\n")],
        command: "SRC/annotation_train.odgt DST --root SRC/Images",
        splits: &[("", 2)],
        classes: 0,
        components: &["jpg", "json"],
    },
    Listed {
        name: "a member of any name",
        files: &["images/1.jpg", "images/2.jpg"],
        lists: &[("labels.json", "[{\"name\": \"1.jpg\", \"labels\": [7]}, {\"name\": \"2.jpg\", \"labels\": []}]")],
        command: "SRC/labels.json DST --root SRC/images",
        splits: &[("", 2)],
        classes: 0,
        components: &["jpg", "json"],
    },
    Listed {
        name: "a competition of Kaggle",
        files: &["train/1.jpg", "train/2.jpg", "train/3.jpg"],
        lists: &[("train.csv", "image_id,label\n1,pug\n2,boxer\n3,pug\n")],
        command: "SRC/train.csv DST --root SRC/train",
        splits: &[("", 3)],
        classes: 2,
        components: &["jpg"],
    },
    Listed {
        name: "a competition of Kaggle with images to predict",
        files: &["train/1.jpg", "train/2.jpg", "test/3.jpg", "test/4.jpg"],
        lists: &[
            ("train.csv", "id,label\n1,cat\n2,cat\n"),
            ("test.csv", "id\n3\n4\n"),
            ("sample_submission.csv", "id,label\n3,cat\n4,cat\n"),
        ],
        command: "SRC/train.csv DST --root SRC/train",
        splits: &[("", 2)],
        classes: 1,
        components: &["jpg"],
    },
    Listed {
        name: "ids that begin again in each split",
        files: &["train/1.jpg", "train/2.jpg", "train/3.jpg", "test/1.jpg", "test/2.jpg", "test/3.jpg"],
        lists: &[
            ("train_labels.csv", "id,label\n1,cat\n2,dog\n3,cat\n"),
            ("sample_submission.csv", "id,label\n1,cat\n2,cat\n"),
        ],
        command: "SRC/train_labels.csv DST --root SRC/train",
        splits: &[("", 3)],
        classes: 2,
        components: &["jpg"],
    },
    Listed {
        name: "texts of PaddleOCR",
        files: &["train/1.jpg", "train/2.jpg", "train/3.jpg", "train/4.jpg"],
        lists: &[(
            "rec_gt_train.txt",
            "train/1.jpg\tOne\ntrain/2.jpg\tTwo, or so\ntrain/3.jpg\tThree\ntrain/4.jpg\tFour\n",
        )],
        command: "SRC/rec_gt_train.txt DST --no-labels",
        splits: &[("", 4)],
        classes: 0,
        components: &["jpg", "json"],
    },
    Listed {
        name: "LJSpeech",
        files: &["wavs/LJ-1.wav", "wavs/LJ-2.wav", "wavs/LJ-3.wav", "wavs/LJ-4.wav"],
        lists: &[("metadata.csv", "LJ-1|One, 1|one\nLJ-2|Two|two\nLJ-3|Three|three\nLJ-4|Four|four\n")],
        command: "SRC/metadata.csv DST --root SRC/wavs --no-labels",
        splits: &[("", 4)],
        classes: 0,
        components: &["wav", "json"],
    },
    Listed {
        name: "NIH chest X-rays",
        files: &["images_001/images/1_000.jpg", "images_001/images/2_000.jpg", "images_002/images/3_000.jpg"],
        lists: &[
            ("Data_Entry_2017.csv", "Image Index,Finding Labels,Age\n1_000.jpg,A|B,5\n2_000.jpg,A,6\n3_000.jpg,B,7\n"),
            ("test_list.txt", "3_000.jpg\n"),
        ],
        command: "SRC/Data_Entry_2017.csv DST --root 'SRC/**'",
        splits: &[("", 3)],
        classes: 0,
        components: &["jpg", "json"],
    },
    Listed {
        name: "HAM10000",
        files: &["HAM10000_images_part_1/ISIC_1.jpg", "HAM10000_images_part_2/ISIC_2.jpg"],
        lists: &[("HAM10000_metadata.csv", "lesion_id,image_id,dx\nHAM_7,ISIC_1,nv\nHAM_8,ISIC_2,nv\n")],
        command: "SRC/HAM10000_metadata.csv DST --root 'SRC/**'",
        splits: &[("", 2)],
        classes: 0,
        components: &["jpg", "json"],
    },
    Listed {
        name: "images in the source",
        files: &["1.jpg", "2.jpg"],
        lists: &[("labels.csv", "image,label\n1.jpg,cat\n2.jpg,cat\n"), ("SHA256SUMS.txt", "0af 1.jpg\n0bf 2.jpg\n")],
        command: "SRC/labels.csv DST",
        splits: &[("", 2)],
        classes: 1,
        components: &["jpg"],
    },
];

fn source(files: &[&str], lists: &[(&str, &str)]) -> Bench {
    let bench = Bench::new();
    for (number, file) in files.iter().enumerate() {
        let content =
            if file.ends_with("jpg") { jpeg(number as u64, 5000) } else { format!("RIFF {number}").into_bytes() };
        bench.file(file, &content);
    }
    lists.iter().for_each(|(name, text)| bench.file(name, text.as_bytes()));
    bench
}

#[test]
fn the_printed_command_packs_the_list_that_names_the_files() {
    for Listed { name, files, lists, command, splits, classes, components } in &LISTED {
        let bench = source(files, lists);
        let (src, dst) = (bench.src(), bench.dst());
        let printed = words(&help(bench.pack(&[])));
        assert_eq!(&printed[..2], ["shardpack", "pack"], "{name}");
        let own = |word: &str| word.replace("SRC", src.to_str().unwrap());
        assert_eq!(printed[2..], words(command).iter().map(|word| own(word)).collect::<Vec<_>>(), "{name}");
        let typed = printed[1..].iter().map(|word| if word == "DST" { dst.to_str().unwrap() } else { word });
        run(&typed.collect::<Vec<_>>()).code(0);
        for (split, samples) in *splits {
            let dataset = Dataset::open(dst.join(split)).unwrap();
            let manifest = dataset.manifest();
            assert_eq!((dataset.len(), manifest.classes.len()), (*samples, *classes), "{name} {split}");
            let others = manifest.components.iter().filter(|component| *component != "cls").collect::<Vec<_>>();
            assert_eq!(others, *components, "{name} {split}");
        }
    }
}

#[test]
fn a_list_that_leaves_images_out_is_no_answer() {
    let rows = |names: &[&str]| names.iter().map(|name| format!("{name},{}\n", name.len())).collect::<String>();
    let texts = (1..=3).map(|n| format!("0 0.{n} 0.5 0.1 0.1\n")).collect::<String>();
    for (files, list, is_asked) in [
        (&["train/1.jpg", "train/2.jpg"][..], ("a.csv", rows(&["1.jpg", "2.jpg"])), true),
        // Of another folder, with files that are not there, and of classes.
        (&["train/cat/1.jpg", "train/dog/2.jpg", "val/3.jpg"], ("val/list.csv", rows(&["3.jpg"])), false),
        (&["images/1.jpg", "images/2.jpg"], ("list.csv", rows(&["7.jpg", "8.jpg"])), false),
        (&["cat/1.jpg", "dog/2.jpg"], ("list.csv", rows(&["cat/1.jpg", "dog/2.jpg"])), false),
        (&["images/1.jpg", "images/2.jpg"], ("sha256sums.txt", "0a images/1.jpg\n0b images/2.jpg\n".to_owned()), false),
        (&["images/1.jpg", "images/2.jpg"], ("names.txt", "1.jpg\n2.jpg\n".to_owned()), false),
        (&["images/1.jpg", "images/2.jpg"], ("images/1.txt", texts), false),
        // Of half of the images, of ids that are images in two folders, and of sounds in several folders.
        (
            &["images/1.jpg", "images/2.jpg", "images/3.jpg", "images/4.jpg"],
            ("list.csv", rows(&["1.jpg", "2.jpg"])),
            false,
        ),
        (&["train/1.jpg", "train/2.jpg", "test/1.jpg", "test/2.jpg"], ("list.csv", rows(&["1.jpg", "2.jpg"])), false),
        (&["dog/1.wav", "cat/2.wav"], ("list.csv", rows(&["dog/1.wav", "cat/2.wav"])), false),
        (&["left/1.jpg", "right/1.jpg"], ("list.csv", rows(&["left/1.jpg", "left/1.jpg"])), false),
    ] {
        let bench = source(files, &[(list.0, &list.1)]);
        let ran = bench.pack(&[]);
        assert_eq!(ran.stderr.contains("a list of them in"), is_asked, "{files:?} {list:?}: {}", ran.stderr);
    }
    let bench = source(&["a/1.jpg", "b/2.jpg"], &[("a.csv", "a/1.jpg,0\n")]);
    bench.pack(&[]).code(0);
    let bench = source(&["train/1.jpg", "train/3.jpg", "test/2.jpg"], &[("train.csv", "1.jpg,0\n3.jpg,0\n")]);
    bench.pack(&[]).code(2).says("a list of them in train.csv, which does not name those of test");
    // The answer `--splits none` is one, and so is `--no-labels`; the list is counted then.
    let bench = source(&["images/1.jpg", "images/2.jpg"], &[("a.csv", "1.jpg,0\n2.jpg,1\n")]);
    bench.pack(&["--splits", "none"]).code(0).says("1 .csv");
    // A pattern that fits no name has its own error.
    let ran = bench.pack_to(&bench.at("named"), &["--label-pattern", "{label}_{n}"]);
    assert!(ran.code != 0 && !ran.stderr.contains("list of them"), "{}", ran.stderr);
    let dst = bench.at("unlabelled");
    bench.pack_to(Path::new(&dst), &["--no-labels"]).code(0).says("1 .csv");
}

#[test]
fn folders_that_lists_of_splits_do_not_share_are_no_classes() {
    // Patients; and texts of sounds by speaker, which are no ids.
    let files = ["images/Smith/1.jpg", "images/Smith/2.jpg", "images/Jones/3.jpg", "images/Braun/4.jpg"];
    let lists = [("train.txt", "Smith/1.jpg\nSmith/2.jpg\nJones/3.jpg\n"), ("val.txt", "Braun/4.jpg\n")];
    let ran = source(&files, &lists).pack(&[]).code(2);
    assert!(!ran.stderr.contains("--label-column folder"), "{}", ran.stderr);
    let files = ["wavs/p225/1.wav", "wavs/p225/2.wav", "wavs/p226/3.wav", "wavs/p226/4.wav"];
    let list = "p225/1.wav\tOne\np225/2.wav\tTwo\np226/3.wav\tThree\np226/4.wav\tFour\n";
    let ran = source(&files, &[("texts.tsv", list)]).pack(&[]);
    assert!(!ran.stderr.contains("--label-column folder"), "{}", ran.stderr);
}

#[test]
fn images_of_one_class_are_packed_with_a_note_on_their_list() {
    let files = ["ISIC_2019_Training_Input/ISIC_1.jpg", "ISIC_2019_Training_Input/ISIC_2.jpg"];
    let bench =
        source(&files, &[("ISIC_2019_Training_GroundTruth.csv", "image,MEL,NV\nISIC_1,1.0,0.0\nISIC_2,0.0,1.0\n")]);
    let ran = bench.pack(&[]).code(0);
    ran.says("a list of them in ISIC_2019_Training_GroundTruth.csv").says("packs each image with its columns as JSON");
}

#[test]
fn labels_of_many_classes_are_classes() {
    let names: Vec<String> = (0..300).map(|number| format!("images/{number:03}.jpg")).collect();
    let rows: String = (0..300).map(|number| format!("{number:03}.jpg,{}\n", number * 7 % 100)).collect();
    let list = format!("image,label\n{rows}");
    let bench = source(&names.iter().map(String::as_str).collect::<Vec<_>>(), &[("labels.csv", &list)]);
    let printed = help(bench.pack(&[]));
    assert!(printed.ends_with("images") && printed.contains("labels.csv DST --root"), "{printed}");
}

/// Runs the command that a refused run printed before `packs`, in the folder of the bench; the dataset is in `packed`.
pub fn run_printed(bench: &Bench, ran: &Ran, packs: &str) {
    let command = ran.stderr.split("help: ").nth(1).unwrap().split(packs).next().unwrap();
    let typed = command.replace("shardpack pack", &format!("{} pack", binary().display())).replace(" DST ", " packed ");
    let made = Command::new("sh").args(["-c", &typed]).current_dir(bench.at("")).output().unwrap();
    assert!(made.status.success(), "{typed}: {}", String::from_utf8_lossy(&made.stderr));
}

/// Checks the numbers of samples in the splits of what [`run_printed`] packed, and of classes.
pub fn assert_packed(bench: &Bench, splits: &[(&str, u64)], classes: usize) {
    for (split, count) in splits {
        let dataset = Dataset::open(bench.at("packed").join(split)).unwrap();
        assert_eq!((dataset.len(), dataset.manifest().classes.len()), (*count, classes), "{split}");
    }
}

#[test]
fn the_printed_command_packs_speech_commands() {
    let bench = Bench::new();
    bench.file("_silence_/quiet.wav", b"RIFF");
    for word in ["bed", "cat it's"] {
        (1..=4).for_each(|number| bench.file(format!("{word}/{number}.wav"), format!("RIFF{word}{number}").as_bytes()));
    }
    bench.file("_background_noise_/rain.wav", b"RIFF");
    bench.file("validation_list.txt", b"bed/1.wav\r\ncat it's/1.wav\r\n");
    bench.file("testing_list.txt", b"cat it's/4.wav\n");
    let ran = bench.pack(&[]).code(2).clean_error();
    let ran = ran
        .says("classes of sounds, and lists of those for validation and test, without _background_noise_, _silence_");
    run_printed(&bench, &ran, " packs each sound");
    assert_packed(&bench, &[("train", 5), ("validation", 2), ("test", 1)], 2);
}

#[test]
fn the_printed_command_packs_the_whole_of_market_1501() {
    let bench = Bench::with(&[
        "bounding_box_train/0002_c1s1_000451_03.jpg",
        "bounding_box_train/0007_c2s3_070952_01.jpg",
        "bounding_box_test/-1_c1s1_000401_03.jpg",
        "bounding_box_test/0001_c1s2_037091_02.jpg",
        "query/0001_c1s1_001051_00.jpg",
        "gt_bbox/0001_c1s1_001051_00.jpg",
    ]);
    bench.file("gt_query/0001_c1s1_001051_00_good.mat", b"mat");
    let ran = bench.pack(&[]).code(2).clean_error().says("it leaves out gt_bbox, gt_query");
    run_printed(&bench, &ran, " packs each image with the number");
    assert_packed(&bench, &[("bounding_box_train", 2), ("query", 1), ("bounding_box_test", 2)], 4);
}

#[test]
fn the_printed_command_packs_wider_face() {
    let (train, val, test) = ("images/0--Parade/1.jpg", "images/1--Riot/2.jpg", "images/1--Riot/3.jpg");
    // As it is published; as Kaggle unpacks it; and with only the lists in a folder of their name.
    for (around, lists) in
        [("", "wider_face_split"), ("twice", "wider_face_split"), ("", "wider_face_split/wider_face_split")]
    {
        let at = |split: &str, image: &str| match around {
            "" => format!("WIDER_{split}/{image}"),
            _ => format!("WIDER_{split}/WIDER_{split}/{image}"),
        };
        let paths = [at("train", train), at("val", val), at("test", test)];
        let bench = Bench::with(&paths.each_ref().map(String::as_str));
        let list = |split: &str| format!("{lists}/wider_face_{split}_bbx_gt.txt");
        // A list may lack its last line end.
        bench.file(list("train"), b"0--Parade/1.jpg\n2\n1 1 5 5 0 0 0 0 0 0\n2 2 3 4 0 0 0 1 0 0");
        bench.file(list("val"), b"1--Riot/2.jpg\n0\n0 0 0 0 0 0 0 0 0 0\n");
        bench.file(format!("{lists}/wider_face_test_filelist.txt"), b"1--Riot/3.jpg\n");
        let ran = bench.pack(&[]).code(2).clean_error();
        let ran = ran.says(&format!("WIDER FACE: lists of its faces are in {lists}; WIDER_test has none"));
        run_printed(&bench, &ran, " packs each image with its faces");
        let objects = |split: &str, path: &str| objects(&bench.at("packed").join(split))[path].clone();
        let two = [([1.0, 1.0, 6.0, 6.0], 0), ([2.0, 2.0, 5.0, 6.0], 0)];
        assert_eq!(objects("train", &paths[0]), two);
        assert!(objects("val", &paths[1]).is_empty() && objects("test", &paths[2]).is_empty());
    }
}

//! Help lines of trees and of several sources; `lists` has those of lists.

use super::{Row, go, nothing};

/// A list of all images, beside them in `lists`: paths from SRC, a number as label.
pub const LIST: &str = "$ mkdir @lists && cd SRC && (echo path,label; ls */*.jpg | sed s/$/,0/) > @lists/l.csv";

/// COCO with a category for each of two images.
pub const COCO: &str = r#"$ mkdir @coco && for i in 1 2; do cp $(ls SRC/*/*.jpg|sed -n ${i}p) @coco/$i.jpg; done; echo '{"images":[{"id":1,"file_name":"1.jpg"},{"id":2,"file_name":"2.jpg"}],"annotations":[{"image_id":1,"category_id":1,"bbox":[0,0,1,1]},{"image_id":2,"category_id":2,"bbox":[0,0,1,1]}],"categories":[{"id":1,"name":"a"},{"id":2,"name":"b"}]}' > @coco/c.json"#;

/// Images of two labels in one folder, as in `c0_2.jpg`.
const FLAT: &str = "$ mkdir @flat && n=0; for i in SRC/*/*.jpg; do n=$((n+1)); cp $i @flat/c$((n%2))_$n.jpg; done";

pub const ROWS: &[Row] = &[
    (
        "classes and splits inside of the source",
        |bench| go(bench, &["$ mkdir -p @t/images && cp -r SRC @t/images/train"]),
        "pack @t DST --splits images/{split}",
        2,
        "--no-labels packs images without labels; if classes are below the splits, give the folder of the splits as the source",
        &["pack @t DST --splits images/{split} --no-labels", "pack @t/images @x"],
    ),
    (
        "a folder that no split can be called",
        |bench| {
            go(
                bench,
                &["$ mkdir -p @t/images && cp -r SRC/class-0 @t/images/train && cp -r SRC/class-0 '@t/images/my val'"],
            )
        },
        "pack @t DST --no-labels --splits images/{split}",
        2,
        "rename the folder images/my val, or --exclude leaves its images out",
        &["pack @t DST --no-labels --splits images/{split} --exclude images/my*/**"],
    ),
    (
        "labels in names of images that have masks",
        |bench| go(bench, &[FLAT, "$ mkdir @m && cp -r @flat @m/images && cp -r @flat @m/masks"]),
        "pack @m DST --label-pattern {label}_{n}",
        2,
        "--include 'images/**' packs only these images",
        &["pack @m DST --label-pattern {label}_{n} --include images/**"],
    ),
    (
        "boxes of the list that is packed, for a tree",
        |bench| go(bench, &[COCO]),
        "pack @coco DST --no-labels --with boxes=coco",
        2,
        "--with 'boxes=coco:PATTERN' has the path from an image to its file",
        &["pack @coco @x --no-labels --with boxes=coco:c.json", "pack @coco/c.json @y --with boxes=coco"],
    ),
    (
        "duplicates of images whose objects are in one file",
        |bench| go(bench, &[COCO]),
        "pack @coco/c.json DST --with boxes=coco --dedup exact",
        2,
        "pack without --dedup, and then shardpack convert the dataset with --dedup exact",
        &["pack @coco/c.json DST --with boxes=coco", "convert DST @x --dedup exact"],
    ),
    (
        "two files of COCO with other categories",
        |bench| {
            let halves = ["train", "val"].map(|split| {
                format!(
                    r#"$ mkdir -p @c/{split} && cp $(ls SRC/*/*.jpg|head -n 1) @c/{split}/1.jpg && echo '{{"images":[{{"id":1,"file_name":"1.jpg"}}],"annotations":[{{"image_id":1,"category_id":1,"bbox":[0,0,1,1]}}],"categories":[{{"id":1,"name":"{split}"}}]}}' > @c/{split}/c.json"#
                )
            });
            go(bench, &halves.each_ref().map(String::as_str));
        },
        "pack @c DST --no-labels --splits train,val --with boxes=coco:c.json",
        2,
        "pack them as datasets of their own, or give both files the same categories",
        &[
            "pack @c/train @x --no-labels --with boxes=coco:c.json",
            "$ sed -i s/val/train/ @c/val/c.json",
            "pack @c DST --no-labels --splits train,val --with boxes=coco:c.json",
        ],
    ),
    (
        "files above the folders of splits",
        |bench| {
            go(bench, &["$ mkdir -p @m/train && cp $(ls SRC/*/*.jpg|head -n 1) @m/train/1.jpg && echo one > @m/1.txt"])
        },
        "pack @m DST --no-labels --with text=../{stem}.txt --on-missing empty",
        2,
        "--splits '{split}' reaches files beside the folders of the splits; --extra-root NAME=FOLDER reaches others, as '{NAME}/FILE'",
        &[
            "pack @m DST --no-labels --splits {split} --with text=../{stem}.txt",
            "$ mkdir @t && mv @m/1.txt @t/1.txt",
            "pack @m @x --no-labels --extra-root t=@t --with text={t}/{stem}.txt",
        ],
    ),
    (
        "files in a folder outside the source that is not given",
        |bench| go(bench, &["$ cp -r SRC @m"]),
        "pack SRC DST --with mask={m}/{parent}/{name}.png",
        2,
        "--extra-root m=FOLDER gives it; without it, a pattern knows {stem}, {name}, {dir}, {parent} and {grandparent}",
        &[
            "$ for i in @m/*/*.jpg; do mv $i $i.png; done",
            "pack SRC DST --extra-root m=@m --with mask={m}/{parent}/{name}.png",
        ],
    ),
    (
        "a folder outside the source that no pattern names",
        |bench| go(bench, &["$ cp -r SRC @m && for i in @m/*/*.jpg; do mv $i $i.png; done"]),
        "pack SRC DST --extra-root m=@m",
        2,
        "a pattern of --with begins with it, as in --with 'mask={m}/{parent}/*.png'",
        &["pack SRC DST --extra-root m=@m --with mask={m}/{parent}/{name}.png"],
    ),
    (
        "a folder outside the source that is inside",
        |bench| {
            go(
                bench,
                &[
                    "$ mkdir @t && cp -r SRC/class-0 @t/images && cp -r @t/images @t/masks",
                    "$ for i in @t/masks/*.jpg; do mv $i $(dirname $i)/$(basename $i .jpg).png; done",
                ],
            )
        },
        "pack @t DST --no-labels --extra-root m=@t/masks --with mask={m}/{stem}.png",
        2,
        "a path in the pattern of --with names files in the source, as in --with 'mask=../masks/*.png'",
        &["pack @t DST --no-labels --with mask=../masks/*.png"],
    ),
    (
        "a known layout",
        |bench| {
            go(
                bench,
                &[
                    "$ mkdir @t && cp -r SRC/class-0 @t/images && mkdir @t/labels",
                    "$ for i in @t/images/*; do n=$(basename $i .jpg); echo 0 0.5 0.5 0.5 0.5 > @t/labels/$n.txt; done",
                ],
            );
        },
        "pack @t DST",
        2,
        "--splits none packs all folders as classes",
        &["pack @t DST --splits none"],
    ),
    (
        "arrays whose rows are samples",
        |bench| {
            go(
                bench,
                &["$ mkdir @n && cd @n && ${SHARDPACK_PYTHON:-python3} -c 'import numpy as np
np.save(\"X_train.npy\", np.zeros((6, 4, 4, 3), np.uint8)); np.save(\"y_train.npy\", np.arange(6))'"],
            )
        },
        "pack @n DST --no-labels",
        2,
        "DST packs each row as a sample; --files npy packs each file as a sample",
        &["convert @n DST", "pack @n @x --no-labels --files npy"],
    ),
    (
        "labels in names",
        |bench| go(bench, &[FLAT]),
        "pack @flat DST",
        2,
        "--label-pattern '{label}_{n}' takes labels from names (c0_10.jpg: c0); --no-labels packs images from any folder",
        &["pack @flat DST --label-pattern {label}_{n}", "pack @flat @x --no-labels"],
    ),
    (
        "a pattern without a label",
        |bench| go(bench, &[FLAT]),
        "pack @flat DST --label-pattern *_{n}",
        2,
        "as in '{label}_{n}' for Abyssinian_12.jpg",
        &["pack @flat DST --label-pattern {label}_{n}"],
    ),
    (
        "a pattern of labels with an extension",
        |bench| go(bench, &[FLAT]),
        "pack @flat DST --label-pattern {label}_{n}.jpg",
        2,
        "--label-pattern '{label}_{n}' leaves the extension out",
        &["pack @flat DST --label-pattern {label}_{n}"],
    ),
    (
        "a pattern of labels for a list",
        |bench| go(bench, &[LIST]),
        "pack @lists/l.csv DST --root SRC --label-pattern {label}_{n}",
        2,
        "choose the column of labels with --label-column NAME",
        &["pack @lists/l.csv DST --root SRC --label-column label"],
    ),
    (
        "an empty tree",
        |bench| go(bench, &["$ mkdir -p @e/a && cp SRC/class-1/$(ls SRC/class-1|head -n1) @e/a/1.photo"]),
        "pack @e DST",
        2,
        "an ImageFolder is SRC/<class>/<image>, with names that end in .jpg, .jpeg, .png, .webp, …",
        &["$ mv @e/a/1.photo @e/a/1.jpg", "pack @e DST"],
    ),
    (
        "a tree of texts",
        |bench| go(bench, &["$ for i in SRC/*/*.jpg; do echo {} > ${i%.jpg}.json; rm $i; done"]),
        "pack SRC DST",
        2,
        "--files json packs them",
        &["pack SRC DST --files json"],
    ),
    (
        "a tree of several kinds of files",
        |bench| {
            go(
                bench,
                &[
                    "$ for i in SRC/*/*.jpg; do echo sound > ${i%.jpg}.wav; rm $i; done",
                    "$ rm SRC/*/*3.wav && echo x > SRC/class-1/x.txt",
                ],
            )
        },
        "pack SRC DST",
        2,
        "--files wav packs only these; --group stem combines files of one name into one sample",
        &["pack SRC DST --files wav", "pack SRC @x --group stem"],
    ),
    (
        "images and other files as samples",
        |bench| go(bench, &["$ for i in SRC/*/*.jpg; do echo sound > ${i%.jpg}.wav; done"]),
        "pack SRC DST --files jpg,wav",
        2,
        "--group stem combines files of one name into one sample; or pack each kind by itself",
        &["pack SRC DST --group stem", "pack SRC @x --files wav", "pack SRC @y --files jpg"],
    ),
    (
        "a pattern of paths",
        |bench| go(bench, &["$ for i in SRC/*/*.jpg; do echo sound > ${i%.jpg}.wav; done"]),
        "pack SRC DST --files class-1/*.wav",
        2,
        "--include takes paths",
        &["pack SRC DST --files *.wav --include class-1/*.wav"],
    ),
    (
        "two payloads of one name",
        |bench| go(bench, &["$ for i in SRC/*/*.jpg; do cp $i ${i%.jpg}.png; done"]),
        "pack SRC DST --group stem",
        2,
        "choose one with --files EXT; the other files become components",
        &["pack SRC DST --group stem --files jpg"],
    ),
    (
        "what only images have, asked of other files",
        |bench| go(bench, &["$ for i in SRC/*/*.jpg; do echo sound > ${i%.jpg}.wav; done"]),
        "pack SRC DST --files wav --resize 64",
        2,
        "without it, files of any kind are packed as they are",
        &["pack SRC DST --files wav"],
    ),
    (
        "a sidecar of images for other files",
        |bench| go(bench, &["$ for i in SRC/*/*.jpg; do echo sound > ${i%.jpg}.wav; done"]),
        "pack SRC DST --files wav --sidecars energon",
        2,
        "--sidecars names others, or none",
        &["pack SRC DST --files wav --sidecars wids", "pack SRC @x --files wav --sidecars none"],
    ),
    (
        "splits of images and of other files",
        |bench| go(bench, &["$ cp -r SRC @o && for i in @o/*/*.jpg; do echo sound > ${i%.jpg}.wav; rm $i; done"]),
        "pack DST --split train=SRC --split val=@o",
        2,
        "each kind is a dataset of its own: pack them one by one",
        &["pack SRC DST", "pack @o @x"],
    ),
    (
        "files of a list",
        |bench| go(bench, &[LIST]),
        "pack @lists/l.csv DST --root SRC --files jpg",
        2,
        "select files with --include, and files beside them with --with EXT",
        &["pack @lists/l.csv DST --root SRC --include *.jpg --with txt"],
    ),
    (
        "fractions of a source with splits",
        |bench| go(bench, &["$ mkdir @in && cp -r SRC @in/train && cp -r SRC @in/val"]),
        "pack @in DST --split-fraction val=0.5",
        2,
        "leave out --split-fraction, or give the folder of one split",
        &["pack @in DST", "pack @in/train @x --split-fraction val=0.5"],
    ),
    (
        "a fraction of nothing",
        nothing,
        "pack SRC DST --split-fraction val=0.0001",
        2,
        "another --seed, or a larger fraction",
        &["pack SRC DST --split-fraction val=0.5"],
    ),
    (
        "one folder too high",
        |bench| go(bench, &["$ mkdir -p @in/Data && cp -r SRC @in/Data/CLS-LOC"]),
        "pack @in DST",
        2,
        "if its folders are classes or splits; --splits none packs all as this one class",
        &["pack @in/Data/CLS-LOC DST", "pack @in @x --splits none"],
    ),
    (
        "a split without class folders",
        |bench| {
            let flat = "$ mkdir -p @in/val && cp -r SRC @in/train && cp SRC/class-1/*.jpg @in/val";
            go(bench, &[flat, "$ cd @in/val && (echo path,label; ls *.jpg | sed s/$/,class-1/) > @val.csv"]);
        },
        "pack @in DST --splits train,val",
        2,
        "with --split NAME=@in/NAME for the others; --splits without its name leaves it out; --no-labels packs all without labels",
        &[
            "pack DST --split train=@in/train --split val=@val.csv --root @in/val",
            "pack @in @x --splits train",
            "pack @in @y --splits train,val --no-labels",
        ],
    ),
    (
        "a shard as a source of pack",
        |bench| go(bench, &["pack SRC @p --shards 1 --format mds --sidecars none"]),
        "pack @p/shard.00000.mds DST",
        2,
        "shardpack convert reads shards",
        &["convert @p/shard.00000.mds DST"],
    ),
    (
        "a tar of a tree as a source of pack",
        |bench| go(bench, &["$ tar czf @t.tar.gz -C SRC ."]),
        "pack @t.tar.gz DST",
        2,
        "shardpack convert SRC DST packs the tree of images in a tar, with its folders as classes",
        &["convert @t.tar.gz DST"],
    ),
    (
        "a URL in a list",
        |bench| go(bench, &["$ (echo path,label; echo https://example.org/1.jpg,0) > @l.csv"]),
        "pack @l.csv DST",
        2,
        "set the common start of the paths with --root URL, as in --root s3://bucket/images/",
        &[
            "$ cp SRC/class-1/$(ls SRC/class-1|head -n1) @1.jpg && sed -i s,https://example.org/,, $(dirname SRC)/l.csv",
            "pack @l.csv DST",
        ],
    ),
    (
        "a column called as the metadata",
        |bench| go(bench, &["$ cd SRC && (echo path,label,path_hex; ls */*.jpg | sed s/$/,0,ff/) > @l.csv"]),
        "pack @l.csv DST --root SRC --meta json",
        2,
        "leave out --meta json: the component json has the other columns without it",
        &["pack @l.csv DST --root SRC"],
    ),
    (
        "absurdly many splits",
        |bench| {
            let list = "$ cd SRC && (echo path,label,part,split; for n in $(seq 200); do for i in $(ls */*.jpg|head -n1); do \
                        echo $i,0,train,$n; done; done) > @l.csv";
            go(bench, &[list]);
        },
        "pack @l.csv DST --root SRC --split-column split",
        2,
        "choose the split column with --split-column NAME; --splits none packs without splits",
        &["pack @l.csv DST --root SRC --split-column part", "pack @l.csv @x --root SRC --splits none"],
    ),
    (
        "splits of another column",
        |bench| go(bench, &["$ cd SRC && (echo path,label,part; ls */*.jpg | sed s/$/,0,a/) > @l.csv"]),
        "pack @l.csv DST --root SRC --splits a",
        2,
        "choose the split column with --split-column NAME",
        &["pack @l.csv DST --root SRC --splits a --split-column part"],
    ),
    (
        "labels on one side",
        |bench| go(bench, &["$ cd SRC && (echo path; ls */*.jpg) > @l.csv"]),
        "pack DST --split train=SRC --split val=@l.csv --root SRC",
        2,
        "pack --no-labels leaves labels out; or pack sources with and without labels as two datasets",
        &[
            "pack DST --split train=SRC --split val=@l.csv --root SRC --no-labels",
            "pack SRC @x",
            "pack @l.csv @y --root SRC",
        ],
    ),
    (
        "numbers against names",
        |bench| {
            let numbers = "$ cd SRC && (echo path,label; ls */*.jpg | sed s/$/,0/) > @numbers.csv";
            let names = r"$ cd SRC && (echo path,label; ls */*.jpg | sed 's/\(.*\)\/.*/&,\1/') > @names.csv";
            go(bench, &[numbers, names, "$ echo 0,class-1 > @map.csv"]);
        },
        "pack DST --split train=SRC --split val=@numbers.csv --root SRC",
        2,
        "name the classes of both: in a list by a column with names (docs/how-to/recipes.md shows it for ImageNet), in a dataset by \
         shardpack convert --class-map FILE",
        &[
            "pack DST --split train=SRC --split val=@names.csv --root SRC",
            "pack SRC @a",
            "pack @numbers.csv @b --root SRC",
            "convert @b @c --class-map @map.csv",
            "convert @d --split train=@a --split val=@c",
        ],
    ),
    (
        "a split twice",
        |bench| go(bench, &["$ cd SRC && (echo path,label; ls */*.jpg | sed s/$/,0/) > @all.csv"]),
        "pack DST --split a=SRC/class-1 --split a=SRC/class-2",
        2,
        "a list can name files of several folders: set their common folder with --root",
        &["pack DST --split a=@all.csv --root SRC"],
    ),
    (
        "splits of a split",
        |bench| go(bench, &["$ mkdir @s && cp -r SRC @s/train && cp -r SRC @s/val"]),
        "pack DST --split a=@s --split b=SRC",
        2,
        "--splits none packs all as one split",
        &["pack DST --split a=@s/train --split b=SRC", "pack @x --split a=@s --split b=@s --splits none"],
    ),
    (
        "a text and a file of one name",
        |bench| {
            let list = r"$ cd SRC && (echo path,label,note; ls */*.jpg | sed 's/\(.*\)\/.*/&,\1,hello/') > @l.csv";
            let files = "$ cd SRC && for image in */*.jpg; do echo 1 > ${image%.jpg}.json; done";
            go(bench, &[list, files, "pack SRC @a --with json", "pack @l.csv @b --root SRC"]);
        },
        "convert DST --split train=@a --split val=@b",
        2,
        "--meta none leaves out all list columns except path and label",
        &["convert DST --split train=@a --split val=@b --meta none"],
    ),
    (
        "no class in common",
        |bench| {
            go(bench, &["$ mkdir @o && cp -r SRC/class-1 @o/cls-one", "$ echo cls-one,class-1 > @map.csv"]);
        },
        "pack DST --split train=SRC --split val=@o",
        2,
        "map the old names to the new ones with --class-map FILE",
        &["pack DST --split train=SRC --split val=@o --class-map @map.csv"],
    ),
    (
        "a list of other classes",
        |bench| {
            go(bench, &["$ echo cat > @classes.txt", "$ ls SRC | sed s/$/,cat/ > @map.csv"]);
        },
        "pack SRC DST --classes @classes.txt",
        2,
        "map the old names to the new ones with --class-map FILE",
        &["pack SRC DST --classes @classes.txt --class-map @map.csv"],
    ),
    (
        "a column for a format without place",
        |bench| go(bench, &["$ cd SRC && (echo path,label,note; ls */*.jpg | sed s/$/,0,hello/) > @l.csv"]),
        "pack @l.csv DST --root SRC --format recordio",
        2,
        "or --meta none to leave it out",
        &["pack @l.csv DST --root SRC --format recordio --meta none", "pack @l.csv @x --root SRC --format webdataset"],
    ),
    (
        "two components of one name",
        |bench| go(bench, &["$ for i in SRC/*/*.jpg; do mv $i ${i%.jpg}.jpeg; cp ${i%.jpg}.jpeg $i; done"]),
        "pack SRC DST --with jpg",
        2,
        "choose the extension of images with --ext, or name the other: --with NAME=PATTERN",
        &["pack SRC DST --with jpg --ext jpeg", "pack SRC @x --with preview=*.jpg"],
    ),
    (
        "SRC beside splits",
        nothing,
        "pack SRC DST --split train=SRC",
        2,
        "leave SRC out, or make it a split: --split NAME=SRC",
        &["pack DST --split train=SRC", "pack @x --split train=SRC --split val=SRC"],
    ),
    (
        "a folder of splits called as that of the indexes",
        nothing,
        "pack DST --split index=SRC",
        2,
        "give the split another name",
        &["pack DST --split indexed=SRC"],
    ),
];

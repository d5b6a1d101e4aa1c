//! Help lines of lists: CSV, JSONL, parquet, COCO.

use super::{
    Row, go,
    sources::{COCO, LIST},
};

pub const ROWS: &[Row] = &[
    (
        "a list with another root",
        |bench| go(bench, &[LIST]),
        "pack @lists/l.csv DST",
        1,
        "set the folder of relative paths in a list with --root FOLDER",
        &["pack @lists/l.csv DST --root SRC"],
    ),
    (
        "boxes behind paths, without a header",
        |bench| go(bench, &["$ mkdir @lists && (cd SRC; ls */*.jpg | sed s/$/,1,2,30,40,7/) > @lists/l.csv"]),
        "pack @lists/l.csv DST --root SRC",
        2,
        "--label-column NUMBER chooses it; --no-labels packs all as the component json",
        &["pack @lists/l.csv DST --root SRC --label-column 6", "pack @lists/l.csv @x --root SRC --no-labels"],
    ),
    (
        "boxes of keras-yolo3",
        |bench| go(bench, &["$ mkdir @lists && (cd SRC; ls */*.jpg | sed 's/$/ 1,2,30,40,7/') > @lists/l.txt"]),
        "pack @lists/l.txt DST --root SRC",
        2,
        "--no-labels packs them as the component json",
        &["pack @lists/l.txt DST --root SRC --no-labels"],
    ),
    (
        "paths from anywhere",
        |bench| go(bench, &["$ mkdir @lists && (echo path,label; ls SRC/*/*.jpg | sed s/$/,0/) > @lists/l.csv"]),
        "pack @lists/l.csv DST",
        2,
        "set the folder that holds all files with --root FOLDER; --root / accepts any path",
        &["pack @lists/l.csv DST --root SRC", "pack @lists/l.csv @x --root /"],
    ),
    (
        "boxes of other images",
        |bench| {
            let csv = r"$ mkdir @csv && cp $(ls SRC/*/*.jpg|head -n1) @csv/1.jpg && printf 'image,xmin,ymin,xmax,ymax,label\n2.jpg,0,0,1,1,a\n' > @csv/b.csv";
            go(bench, &[csv]);
        },
        "pack @csv DST --no-labels --with boxes=csv:b.csv",
        1,
        "write its names as the ends of paths of the source, with or without extension, or give another file",
        &["$ sed -i s/2.jpg/1/ @csv/b.csv", "pack @csv DST --no-labels --with boxes=csv:b.csv"],
    ),
    (
        "COCO without images",
        |bench| {
            let coco = r#"$ mkdir @coco && echo '{"images":[{"id":1,"file_name":"1.jpg"}],"annotations":[],"categories":[]}' > @coco/c.json"#;
            go(bench, &[coco, "$ mkdir @far && cp SRC/class-1/$(ls SRC/class-1|head -n1) @far/1.jpg"]);
        },
        "pack @coco/c.json DST",
        2,
        "set their folder with --root FOLDER",
        &["pack @coco/c.json DST --root @far"],
    ),
    (
        "columns of COCO",
        |bench| go(bench, &[COCO]),
        "pack @coco/c.json DST --label-column category",
        2,
        "--label-column category_id takes the category of each image, if it has one",
        &["pack @coco/c.json DST --label-column category_id"],
    ),
    (
        "several categories of an image",
        |bench| go(bench, &[COCO, r#"$ sed -i 's/"image_id":2/"image_id":1/' @coco/c.json"#]),
        "pack @coco/c.json DST --label-column category_id",
        2,
        "without --label-column, the annotations of an image are in its component json",
        &["pack @coco/c.json DST"],
    ),
    (
        "ids of two files",
        |bench| {
            let list = "$ mkdir @o && cd SRC && (echo path,label; ls */*.jpg | sed s/.jpg/,0/) > @lists.csv";
            go(bench, &[list, "$ cp -r SRC @both && for i in @both/*/*.jpg; do echo x > ${i%.jpg}.png; done"]);
        },
        "pack @lists.csv DST --root @both",
        2,
        "write folder and extension of each path in the list, or make --root a folder with one of the two",
        &[
            "$ sed s/,0/.jpg,0/ @lists.csv > @full.csv",
            "pack @full.csv DST --root @both",
            "pack @lists.csv @x --root SRC",
        ],
    ),
    (
        "a list of lines with other columns",
        |bench| go(bench, &["$ cd SRC && ls */*.jpg | sed 's/$/ 0/' > @l.txt"]),
        "pack @l.txt DST --root SRC --path-column label",
        2,
        "leave out both options; in a CSV, columns have names",
        &[
            "pack @l.txt DST --root SRC",
            "$ sed 's/ 0/,0/; 1i label,y' @l.txt > @l.csv",
            "pack @l.csv @x --root SRC --path-column label",
        ],
    ),
    (
        "files of any folder below a URL",
        |bench| go(bench, &[LIST]),
        "pack @lists/l.csv DST --root s3://bucket/images/**",
        2,
        "give the URL without /**; names in the list are names below it",
        &["pack @lists/l.csv DST --root SRC/**"],
    ),
    (
        "labels that are to be the paths",
        |bench| go(bench, &["$ cd SRC && (echo image,photo; ls */*.jpg | sed s/^/0,/) > @l.csv"]),
        "pack @l.csv DST --root SRC --label-column image",
        2,
        "choose the path column with --path-column NAME; --no-labels packs samples without a class",
        &[
            "pack @l.csv DST --root SRC --label-column image --path-column photo",
            "pack @l.csv @x --root SRC --path-column photo --no-labels",
        ],
    ),
    (
        "a CSV in Latin-1",
        |bench| {
            go(
                bench,
                &[
                    r"$ cd SRC && (echo path,label,note; for i in */*.jpg; do printf '%s,0,caf\351\n' $i; done) > @l.csv",
                ],
            );
        },
        "pack @l.csv DST --root SRC",
        1,
        "iconv -f LATIN1 -t UTF-8 FILE makes it UTF-8, if it is Latin-1; --meta none leaves such columns out",
        &[
            "$ iconv -f LATIN1 -t UTF-8 @l.csv > @u.csv",
            "pack @u.csv DST --root SRC",
            "pack @l.csv @x --root SRC --meta none",
        ],
    ),
    (
        "CSV without paths",
        |bench| go(bench, &["$ mkdir @s && cd SRC && (echo photo,label; ls */*.jpg | sed s/$/,0/) > @s/l.csv"]),
        "pack @s/l.csv DST",
        2,
        "choose one with --path-column NAME; set the folder of the files with --root FOLDER",
        &["pack @s/l.csv DST --path-column photo --root SRC", "pack @s/l.csv @x --root SRC"],
    ),
    (
        "CSV without paths, above the folder of its files",
        |bench| go(bench, &["$ cd SRC && (echo photo,label; ls */*.jpg | sed s/$/,0/) > @l.csv"]),
        "pack @l.csv DST",
        2,
        "is the folder of class-0/000006.jpg, which the list names",
        &["pack @l.csv DST --root SRC"],
    ),
    (
        "CSV of names, far above the folders of its files",
        |bench| {
            let names = "$ cd SRC && (echo photo,label; ls */*.jpg | sed 's/.*[/]//; s/$/,0/') > @far/l.csv";
            go(bench, &["$ mkdir -p @far/x && cp -r SRC @far/x/photos", names]);
        },
        "pack @far/l.csv DST",
        2,
        "finds files by name in any folder, such as x/photos/class-0/000006.jpg, which the list names",
        &["pack @far/l.csv DST --root @far/**"],
    ),
    (
        "files of a column that have other extensions in another split",
        |bench| {
            let list = "$ cd SRC && i=$(ls */*.jpg | sed -n Np) && echo x > $i.EXT && (echo path,other; echo $i,$i.EXT) > @EXT.csv";
            for (number, extension) in [("1", "txt"), ("2", "md")] {
                go(bench, &[&list.replace('N', number).replace("EXT", extension)]);
            }
        },
        "pack DST --split train=@txt.csv --split val=@md.csv --root SRC --file-column other",
        2,
        "--file-column other.txt=other gives the files of all splits one name",
        &["pack DST --split train=@txt.csv --split val=@md.csv --root SRC --file-column other.txt=other"],
    ),
    (
        "text without a separator for several classes",
        |bench| go(bench, &["$ cd SRC && (echo path,tags; ls */*.jpg | sed 's/$/,a|b/') > @l.csv"]),
        "pack @l.csv DST --root SRC --multi-label tags",
        2,
        "--multi-label 'tags:|' divides text at bars",
        &["pack @l.csv DST --root SRC --multi-label tags:|"],
    ),
    (
        "a list with a column of files",
        |bench| {
            go(
                bench,
                &[
                    "$ cd SRC && (echo path,other; ls */*.jpg | sed 's/.*/&,&.txt/') > @l.csv && for i in */*.jpg; do echo x > $i.txt; done",
                ],
            )
        },
        "pack @l.csv DST --root SRC",
        2,
        "--file-column other packs the files as components; --file-column none packs the paths as text",
        &["pack @l.csv DST --root SRC --file-column other", "pack @l.csv @x --root SRC --file-column none"],
    ),
    (
        "JSONL without paths",
        |bench| go(bench, &[r#"$ cd SRC && ls */*.jpg | sed 's/.*/{"photo":"&","label":0}/' > @l.jsonl"#]),
        "pack @l.jsonl DST",
        2,
        "choose one with --path-column NAME",
        &["pack @l.jsonl DST --path-column photo --root SRC"],
    ),
    (
        "parquet without paths",
        |bench| {
            let write = "$ cd SRC && ${SHARDPACK_PYTHON:-python3} -c 'import glob, pyarrow as pa, pyarrow.parquet as pq; paths = \
                         glob.glob(\"*/*.jpg\"); pq.write_table(pa.table({\"photo\": paths, \"label\": [0] * len(paths)}), \"../l.parquet\")'";
            go(bench, &[write]);
        },
        "pack @l.parquet DST",
        2,
        "choose one with --path-column NAME; shardpack convert reads files that hold the images themselves",
        &["pack @l.parquet DST --path-column photo --root SRC"],
    ),
];

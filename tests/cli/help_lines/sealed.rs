//! Help lines of sealed datasets: `verify`, `inspect`, `adopt`, splits.

use shardpack_testing::Bench;

use super::{Row, flip, go, nothing, packed};

/// Splits in DST, a copy of the splits, and their sources.
fn splits(bench: &Bench) {
    go(
        bench,
        &["$ mkdir @s && for i in train val test; do cp -r SRC @s/$i; done", "$ rm -r @s/val/class-1 @s/test/class-2"],
    );
    go(bench, &["pack @s DST", "$ cp -r DST @copy"]);
}

/// A foreign shard in the folder `a`.
fn foreign(bench: &Bench) {
    go(bench, &["pack SRC @p --shards 1 --sidecars none", "$ mkdir @a && cp @p/shard-000000.tar @a/x.tar"]);
}

pub const ROWS: &[Row] = &[
    (
        "datasets of images and of other files",
        |bench| {
            go(bench, &["$ cp -r SRC @o && for i in @o/*/*.jpg; do echo sound > ${i%.jpg}.wav; rm $i; done"]);
            go(bench, &["pack SRC @a", "pack @o @b"]);
        },
        "convert @a @b DST",
        2,
        "each kind is a dataset of its own: pack them one by one",
        &["convert @a DST", "convert @b @x"],
    ),
    (
        "class names of objects that differ",
        |bench| {
            let tree = "$ mkdir -p @a/labels && cp -r SRC @a/images && for i in $(cd @a/images && ls */*.jpg); do mkdir -p @a/labels/$(dirname $i); \
                        echo 0 .5 .5 .1 .1 > @a/labels/${i%.jpg}.txt; done && cp -r @a @b && echo 'names: [x]' > @a/data.yaml && echo 'names: [y]' > @b/data.yaml";
            go(bench, &[tree]);
            for name in ["a", "b"] {
                go(
                    bench,
                    &[&format!("pack @{name} @{name}p --no-labels --with boxes=yolo:../../labels/{{parent}}/*.txt")],
                );
            }
        },
        "convert @ap @bp DST",
        2,
        "pack them as datasets of their own, or give both the same names",
        &["convert @ap DST", "convert @bp @x"],
    ),
    (
        "a split is gone",
        |bench| {
            splits(bench);
            go(bench, &["$ rm -r DST/val"]);
        },
        "verify DST",
        1,
        "copy it again from where this dataset came from",
        &["$ cp -r @copy/val DST/val", "verify DST"],
    ),
    (
        "a split was renamed",
        |bench| {
            splits(bench);
            go(bench, &["$ mv DST/val DST/valid"]);
        },
        "verify DST",
        1,
        "mv valid val puts it back; convert --split valid=FOLDER beside --split NAME=FOLDER for the others writes them under new \
         names",
        &[
            "convert @x --split valid=DST/valid --split train=DST/train --split test=DST/test",
            "verify @x",
            "$ cd DST && mv valid val",
            "verify DST",
        ],
    ),
    (
        "splits were swapped",
        |bench| {
            splits(bench);
            go(bench, &["$ cd DST && mv val x && mv test val && mv x test"]);
        },
        "verify DST",
        1,
        "rename the folders such that it is called test",
        &["$ cd DST && mv val x && mv test val && mv x test", "verify DST"],
    ),
    (
        "a split was exchanged",
        |bench| {
            splits(bench);
            go(bench, &["$ rm -r DST/val", "pack SRC DST/val --seed 9 --name val"]);
        },
        "verify DST",
        1,
        "copy it again from where this dataset came from, or pack all splits anew",
        &["$ rm -r DST/val && cp -r @copy/val DST/val", "verify DST", "pack @s DST --force", "verify DST"],
    ),
    (
        "a split twice",
        |bench| {
            splits(bench);
            go(bench, &["$ cp -r DST/val DST/again"]);
        },
        "verify DST",
        1,
        "remove it, or move it elsewhere: it is a dataset of its own",
        &["$ mv DST/again @again", "verify DST", "verify @again"],
    ),
    (
        "a stranger beside splits",
        |bench| {
            splits(bench);
            go(bench, &["pack SRC DST/more --seed 9"]);
        },
        "verify DST",
        1,
        "move it elsewhere, or pack all splits anew",
        &[
            "$ mv DST/more @more",
            "verify DST",
            "$ rm -r DST && cp -r SRC @s/more",
            "pack @s DST --splits train,val,test,more",
        ],
    ),
    (
        "a split was renamed and there is no record",
        |bench| {
            splits(bench);
            go(bench, &["$ rm DST/splits.json && mv DST/val DST/validation"]);
        },
        "verify DST",
        1,
        "call the folder val again; convert --split validation=FOLDER beside --split NAME=FOLDER for the others writes them under \
         new names",
        &[
            "convert @x --split validation=DST/validation --split train=DST/train --split test=DST/test",
            "$ cd DST && mv validation val",
            "verify DST",
        ],
    ),
    (
        "a damaged record of splits",
        |bench| {
            splits(bench);
            go(bench, &["$ sed -i s/train/brain/ DST/splits.json"]);
        },
        "verify DST",
        1,
        "copy it again from where this dataset came from",
        &["$ cp @copy/splits.json DST", "verify DST"],
    ),
    (
        "a split that the source has",
        |bench| {
            splits(bench);
            go(bench, &["$ rm -r DST", "pack @s DST --splits train,val"]);
        },
        "verify DST --against @s",
        1,
        "pack all splits anew; or verify DST/SPLIT --against SRC/SPLIT compares a split packed alone",
        &["pack @s @x", "verify @x --against @s", "verify DST/train --against @s/train"],
    ),
    (
        "splits beside a dataset without",
        |bench| {
            splits(bench);
            go(bench, &["pack SRC @p"]);
        },
        "convert DST @p @x",
        2,
        "--splits none packs all as one dataset; --split NAME=SRC names the split of each source",
        &["convert DST @p @x --splits none", "convert @y --split train=DST/train --split val=@p"],
    ),
    (
        "components of one dataset alone",
        |bench| {
            let list = r"$ cd SRC && (echo path,label,note; ls */*.jpg | sed 's/\(.*\)\/.*/&,\1,hello/') > @l.csv";
            go(bench, &[list, "pack SRC @a", "pack @l.csv @b --root SRC"]);
        },
        "convert @a @b DST",
        2,
        "--meta none leaves them out",
        &["convert @a @b DST --meta none"],
    ),
    (
        "fields of a dataset that should get other names",
        |bench| {
            let list = r"$ cd SRC && (echo path,label,note; ls */*.jpg | sed 's/\(.*\)\/.*/&,\1,hello/') > @l.csv";
            go(bench, &[list, "pack @l.csv DST --root SRC"]);
        },
        "convert DST @x --fields json:notes",
        2,
        "--fields without new names selects components; --from FORMAT reads it as shards of any writer",
        &["convert DST @x --fields json", "convert DST @y --from webdataset --fields json:notes"],
    ),
    (
        "--target for a sealed dataset",
        |bench| {
            let list = r"$ cd SRC && (echo path,label,score; ls */*.jpg | sed 's/\(.*\)\/.*/&,\1,0.5/') > @l.csv";
            go(bench, &[list, "pack @l.csv DST --root SRC"]);
        },
        "convert DST @x --target score",
        2,
        "give --target with the source of the dataset, or add --from FORMAT to read it as shards of any writer",
        &["convert DST @x --from webdataset --target score"],
    ),
    (
        "a shard alone and a source",
        packed,
        "verify DST/shard-000000.tar --repair SRC",
        2,
        "give only its folder",
        &["verify DST --repair SRC"],
    ),
    (
        "nothing to verify",
        |bench| go(bench, &["$ mkdir @e", "pack SRC DST"]),
        "verify @e",
        2,
        "give the folder that `shardpack pack` wrote, or shards: tar, TFRecord, RecordIO or MDS files",
        &["verify DST", "verify DST/shard-000000.tar"],
    ),
    (
        "nothing to inspect",
        |bench| go(bench, &["$ mkdir @e", "pack SRC DST"]),
        "inspect @e",
        2,
        "give a folder that `shardpack pack` wrote, or shards of these formats: ",
        &["inspect DST", "inspect DST/shard-000000.tar"],
    ),
    (
        "a source is inspected",
        nothing,
        "inspect SRC",
        2,
        "DST` shows the shards that pack would write",
        &["plan SRC DST"],
    ),
    (
        "a manifest by another name",
        |bench| go(bench, &["pack SRC DST", "$ cp DST/manifest.json @copy.json"]),
        "inspect @copy.json",
        2,
        "give the folder, its manifest, or shards",
        &["inspect DST", "inspect DST/manifest.json", "inspect DST/shard-000000.tar"],
    ),
    (
        "a damaged sample is taken out",
        |bench| {
            packed(bench);
            flip(bench);
        },
        "inspect DST --extract 00000000 -o @o.jpg",
        1,
        "`shardpack verify --repair SRC` rewrites these bytes from the source",
        &["verify DST --repair SRC", "inspect DST --extract 00000000 -o @o.jpg"],
    ),
    (
        "a damaged index",
        |bench| {
            packed(bench);
            let index = bench.dst().join("index/shard-000000.index");
            let mut bytes = std::fs::read(&index).unwrap();
            let middle = bytes.len() / 2;
            bytes[middle] ^= 4;
            std::fs::write(index, bytes).unwrap();
        },
        "inspect DST --samples",
        1,
        "the index was changed after it was sealed; `shardpack verify --repair SRC` rebuilds it",
        &["verify DST --repair SRC", "inspect DST --samples"],
    ),
    (
        "a key in two datasets",
        |bench| go(bench, &["pack SRC DST", "pack SRC @x --seed 2"]),
        "inspect DST @x --extract 00000000 -o @o.jpg",
        2,
        "give one path only: DST",
        &["inspect DST --extract 00000000 -o @o.jpg"],
    ),
    (
        "an image and a document on one stdout",
        packed,
        "inspect DST --extract 00000000 -o - --json",
        2,
        "-o FILE, or no --json",
        &["inspect DST --extract 00000000 -o @o.jpg --json"],
    ),
    (
        "a class that is not there",
        packed,
        "inspect DST --samples --class cat",
        2,
        "the classes are class-0, class-1",
        &["inspect DST --samples --class class-1"],
    ),
    (
        "a class by name where there are numbers",
        foreign,
        "inspect @a/x.tar --samples --class cat",
        2,
        "shards without a manifest have no names of classes: --class takes a label, which is a number",
        &["inspect @a/x.tar --samples --class 1"],
    ),
    (
        "a shard that was cut",
        |bench| {
            packed(bench);
            go(bench, &["$ cp -r DST @copy && truncate -s 1000 DST/shard-000000.tar"]);
        },
        "inspect DST --extract 00000000 -o @o.jpg",
        1,
        "copy it again from where this dataset came from",
        &["$ cp @copy/shard-000000.tar DST", "inspect DST --extract 00000000 -o @o.jpg"],
    ),
    (
        "an adopted shard is damaged",
        |bench| {
            foreign(bench);
            go(
                bench,
                &[
                    "$ cp -r @a @copy",
                    "adopt @a",
                    "$ printf X | dd of=$(dirname SRC)/a/x.tar bs=1 seek=3000 conv=notrunc",
                ],
            );
        },
        "verify @a --repair @copy",
        2,
        "copy a damaged shard again from where it came from",
        &["$ cp @copy/x.tar @a", "verify @a"],
    ),
    (
        "a packed shard is adopted",
        |bench| {
            foreign(bench);
            go(bench, &["$ gzip @a/x.tar"]);
        },
        "adopt @a",
        2,
        "shardpack convert packs them anew",
        &["convert @a DST"],
    ),
    (
        "two formats are adopted",
        |bench| {
            foreign(bench);
            go(bench, &["pack SRC @r --format recordio --sidecars none", "$ cp @r/shard-*.rec @a"]);
        },
        "adopt @a",
        2,
        "move those of one format into a folder of their own, and adopt that",
        &["$ mkdir @b && mv @a/*.rec @b", "adopt @b", "adopt @a"],
    ),
    (
        "pixels are adopted",
        |bench| go(bench, &["$ cp -r VECTORS/mds-pil @m"]),
        "adopt @m",
        2,
        "shardpack convert turns them into lossless images",
        &["convert @m DST"],
    ),
    (
        "a folder beside shards that are adopted",
        |bench| {
            foreign(bench);
            go(bench, &["$ mkdir @a/more"]);
        },
        "adopt @a",
        2,
        "move it elsewhere",
        &["$ mv @a/more @more", "adopt @a"],
    ),
    (
        "crop tables are damaged",
        |bench| go(bench, &["pack SRC DST", "crops DST", "$ echo no tables > DST/index/shard-000000.crops"]),
        "verify DST",
        1,
        "`shardpack crops --force DST` makes the tables anew",
        &["crops --force DST", "verify DST"],
    ),
];

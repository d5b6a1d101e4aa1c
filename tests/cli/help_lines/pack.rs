//! Help lines of `pack` and `plan`, except the lines on sources.

use std::fs;

use super::{Row, flip, go, nothing, on, other_packed, packed};

pub const ROWS: &[Row] = &[
    (
        "another dataset",
        other_packed,
        "pack SRC DST",
        2,
        "choose another folder, or --force to replace it",
        &["pack SRC @x", "pack SRC DST --force"],
    ),
    (
        "something else",
        |bench| {
            fs::create_dir(bench.dst()).unwrap();
            fs::write(bench.dst().join("thesis.tex"), b"x").unwrap();
        },
        "pack SRC DST",
        2,
        "choose another folder, or move it away: shards stand alone, and --force replaces datasets only",
        &["pack SRC @x", "$ mv DST/thesis.tex @", "pack SRC DST"],
    ),
    (
        "a link in the place of the work folder",
        |bench| {
            fs::create_dir(bench.dst()).unwrap();
            std::os::unix::fs::symlink(bench.src(), bench.dst().join(".shardpack")).unwrap();
        },
        "pack SRC DST",
        2,
        "remove it, or choose another folder",
        &["pack SRC @x", "$ rm DST/.shardpack", "pack SRC DST"],
    ),
    (
        "lost manifest, verify",
        |bench| {
            packed(bench);
            fs::remove_file(bench.dst().join("manifest.json")).unwrap();
        },
        "verify DST",
        1,
        "copy it again from where this dataset came from, or pack anew with --force",
        &["pack SRC DST --shards 2 --force", "verify DST"],
    ),
    (
        "lost manifest, pack",
        |bench| {
            packed(bench);
            fs::remove_file(bench.dst().join("manifest.json")).unwrap();
        },
        "pack SRC DST",
        2,
        "choose another folder, or --force to replace it",
        &["pack SRC DST --force", "verify DST"],
    ),
    (
        "wrong manifest",
        |bench| {
            packed(bench);
            let path = bench.dst().join("manifest.json");
            let text = fs::read_to_string(&path).unwrap();
            fs::write(&path, text.replacen("\"seed\": 0", "\"seed\": 1", 1)).unwrap();
        },
        "verify DST --repair SRC",
        1,
        "copy it again from where this dataset came from, or pack anew with --force",
        &["pack SRC DST --shards 2 --force", "verify DST"],
    ),
    (
        "a shard is gone",
        |bench| {
            packed(bench);
            fs::remove_file(bench.dst().join("shard-000001.tar")).unwrap();
        },
        "pack SRC DST --shards 2",
        1,
        "--repair SRC mends it, --force packs it anew",
        &["verify DST --repair SRC", "pack SRC DST --shards 2"],
    ),
    (
        "a flipped byte",
        |bench| {
            packed(bench);
            flip(bench);
        },
        "verify DST",
        1,
        "--repair SRC writes damaged bytes anew from the source",
        &["verify DST --repair SRC", "verify DST"],
    ),
    ("inside the source", nothing, "pack SRC @src/x", 2, "choose a place beside the source", &["pack SRC @x"]),
    ("memory", nothing, "pack SRC DST --memory 1KiB", 2, "use --memory 1MiB or more", &["pack SRC DST --memory 1MiB"]),
    (
        "a unit is missing",
        nothing,
        "pack SRC DST --shard-size 256",
        2,
        "write 256MiB, or 256B",
        &["pack SRC DST --shard-size 256MiB", "pack SRC @x --shard-size 256B"],
    ),
    (
        "a unit is missing, memory",
        nothing,
        "pack SRC DST --memory 4",
        2,
        "write 4MiB, or 4B",
        &["pack SRC DST --memory 4MiB"],
    ),
    (
        "a URL to write",
        nothing,
        "pack SRC ftp://host/x",
        2,
        "give the path of a file or folder: one that is mounted, or a copy",
        &["pack SRC DST"],
    ),
    ("a file URL", nothing, "pack SRC file:///tmp/x", 2, "give the path alone: /tmp/x", &["pack SRC DST"]),
    (
        "quality of nothing",
        nothing,
        "pack SRC DST --quality 80",
        2,
        "with --fix, --rotate, --resize or --encode; without these every byte stays",
        &["pack SRC DST --quality 80 --resize 32"],
    ),
    (
        "ext of records",
        nothing,
        "pack SRC DST --format tfrecord --cls none",
        2,
        "they are for --format webdataset",
        &["pack SRC DST --format webdataset --cls none"],
    ),
    (
        "a plan of two",
        nothing,
        "plan SRC DST --format mds --format tfrecord -o @p.plan",
        2,
        "give --format once, or leave --output out",
        &["plan SRC DST --format mds -o @p.plan", "plan SRC DST --format mds --format tfrecord"],
    ),
    (
        "no class folders",
        |bench| {
            fs::create_dir(bench.at("flat")).unwrap();
            fs::write(bench.at("flat/1.jpg"), shardpack_testing::photo()).unwrap();
        },
        "pack @flat DST",
        2,
        "--no-labels packs images from any folder, without classes",
        &["pack @flat DST --no-labels"],
    ),
    (
        "classes in UTF-16",
        |bench| go(bench, &["$ ls SRC | iconv -f UTF-8 -t UTF-16 > @utf16.txt"]),
        "pack SRC DST --classes @utf16.txt",
        2,
        "iconv -f UTF-16 -t UTF-8 FILE writes it anew",
        &["$ iconv -f UTF-16 -t UTF-8 @utf16.txt > @classes.txt", "pack SRC DST --classes @classes.txt"],
    ),
    (
        "a damaged plan of an unfinished pack",
        |bench| {
            fs::create_dir_all(bench.dst().join(".shardpack")).unwrap();
            fs::write(bench.dst().join(".shardpack/plan"), [b'x'; 100]).unwrap();
        },
        "pack SRC DST",
        1,
        "--force starts anew",
        &["pack SRC DST --force"],
    ),
    (
        "a damaged plan file",
        |bench| fs::write(bench.at("p.plan"), [b'x'; 100]).unwrap(),
        "pack --plan @p.plan DST",
        1,
        "run `shardpack plan` again",
        &["plan SRC DST -o @q.plan", "pack --plan @q.plan DST"],
    ),
    (
        "a source beside a plan",
        |bench| drop(on(bench, "plan SRC DST -o @p.plan").code(0)),
        "pack --plan @p.plan SRC DST",
        2,
        "shardpack pack --plan FILE DST",
        &["pack --plan @p.plan DST"],
    ),
    (
        "a path out of the root",
        |bench| {
            fs::create_dir(bench.at("lists")).unwrap();
            let images = fs::read_dir(bench.src().join("class-1")).unwrap();
            let image = images.map(|entry| entry.unwrap().file_name().into_string().unwrap()).next().unwrap();
            fs::write(bench.at("lists/list.csv"), format!("path,label\n../src/class-1/{image},0\n")).unwrap();
            fs::write(bench.at("lists/absolute.csv"), format!("path,label\nclass-1/{image},0\n")).unwrap();
        },
        "pack @lists/list.csv DST",
        2,
        "set the folder that holds all files with --root FOLDER; --root / accepts any path",
        &["pack @lists/absolute.csv DST --root SRC"],
    ),
    (
        "adopted before",
        |bench| {
            packed(bench);
            fs::create_dir(bench.at("adopted")).unwrap();
            fs::copy(bench.dst().join("shard-000000.tar"), bench.at("adopted/x.tar")).unwrap();
            on(bench, "adopt @adopted").code(0);
        },
        "adopt @adopted",
        2,
        "--force replaces the manifest and its files; shards stay",
        &["adopt @adopted --force", "verify @adopted"],
    ),
    (
        "a table that is there",
        |bench| {
            packed(bench);
            on(bench, "inspect DST --table @t.csv").code(0);
        },
        "inspect DST --table @t.csv",
        2,
        "--force replaces it",
        &["inspect DST --table @t.csv --force"],
    ),
    (
        "options of a database",
        packed,
        "convert @src/../dst/shard-000000.tar @x --skip-header 4 --from webdataset",
        2,
        "--label-from and --skip-header are for LMDBs; for tar, --label-from key and --key-pattern work too",
        &["convert DST/shard-000000.tar @x --from webdataset"],
    ),
    (
        "an unfinished pack is looked at",
        |bench| {
            bench.file("class-1/empty.jpg", b"");
            bench.pack(&[]).code(1);
        },
        "inspect DST",
        2,
        "run the same pack command again: it resumes after the finished shards",
        &["pack SRC DST --on-bad skip", "inspect DST"],
    ),
    (
        "an unfinished pack is converted",
        |bench| {
            bench.file("class-1/empty.jpg", b"");
            bench.pack(&[]).code(1);
        },
        "convert DST @x",
        1,
        "run the same pack command again: it resumes after the finished shards",
        &["pack SRC DST --on-bad skip", "convert DST @x"],
    ),
    (
        "a path that no .lst can tell",
        |bench| bench.file("class-1/a\tb.jpg", &shardpack_testing::photo()),
        "pack SRC DST --format recordio",
        1,
        "--sidecars idx,dali writes the indexes without the list",
        &["pack SRC DST --format recordio --sidecars idx,dali", "verify DST"],
    ),
    (
        "a card of shards that its readers do not read",
        |_| {},
        "pack SRC DST --compress zstd --sidecars auto,card",
        2,
        "leave out --compress, or this sidecar",
        &["pack SRC DST --sidecars auto,card", "pack SRC @x --compress zstd --sidecars auto"],
    ),
    (
        "a README.md of somebody else in an unfinished pack",
        |bench| {
            bench.file("class-1/empty.jpg", b"");
            go(bench, &["! pack SRC DST --sidecars card", "$ echo mine > DST/README.md"]);
        },
        "pack SRC DST --sidecars card --on-bad skip",
        2,
        "move it away and repeat the command",
        &["$ mv DST/README.md @mine", "pack SRC DST --sidecars card --on-bad skip", "verify DST"],
    ),
    (
        "an unknown key",
        packed,
        "inspect DST --extract nothing -o @o",
        2,
        "`shardpack inspect DST --samples` lists keys and paths",
        &["inspect DST --samples"],
    ),
    (
        "no finished shard would stay",
        |bench| {
            bench.file("class-1/zzz.jpg", b"");
            go(bench, &["! pack SRC DST --shards 2", "$ cp -a SRC @before && touch SRC/*/*.jpg"]);
        },
        "pack SRC DST --shards 2",
        2,
        "undo that to resume after them, or --force to pack all anew",
        &[
            "$ cp -a SRC @after && rm -r SRC/* && cp -a @before/. SRC",
            "pack SRC DST --shards 2 --on-bad skip",
            "pack @after @x --shards 2 --on-bad skip",
        ],
    ),
    (
        "a format made of one that cannot hold it",
        |bench| {
            let texts = "$ for i in SRC/*/*.jpg; do echo hi > ${i%.jpg}.txt; done";
            go(bench, &[texts, "pack SRC @q --with txt --sidecars none --shards 1", "$ mkdir @p && cp @q/*.tar @p"]);
        },
        "convert @p DST --resize 32 --format recordio --format webdataset",
        2,
        "give --format webdataset before --format recordio, or pack each in a run of its own",
        &[
            "convert @p DST --resize 32 --format webdataset --format recordio",
            "convert @p @x --resize 32 --format recordio",
            "convert @p @y --resize 32 --format webdataset",
        ],
    ),
    (
        "a plan of images that are changed",
        nothing,
        "plan SRC DST --resize 32",
        2,
        "shardpack pack makes the plan and packs",
        &["pack SRC DST --resize 32"],
    ),
    (
        "a shard of more than 4 GiB",
        |bench| {
            go(
                bench,
                &[
                    "$ mkdir @big && mkdir @big/a && for n in 1 2 3; do cp SRC/class-1/$(ls SRC/class-1|head -n1) @big/a/$n.jpg \
                         && truncate -s 2G @big/a/$n.jpg; done",
                ],
            );
        },
        "plan @big DST --format mds --shards 1",
        2,
        "choose smaller shards with --shard-size",
        &["plan @big DST --format mds --shard-size 1GiB"],
    ),
    (
        "images that were changed are mended from a source",
        |bench| {
            go(bench, &["pack SRC DST --resize 32"]);
            flip(bench);
        },
        "verify DST --repair SRC",
        2,
        "verify without SRC checks every byte; pack --force packs anew",
        &["pack SRC DST --resize 32 --force", "verify DST"],
    ),
    (
        "damaged, and of changed images",
        |bench| go(bench, &["pack SRC DST --resize 32 --shards 2", "$ rm DST/shard-000001.tar"]),
        "pack SRC DST --resize 32 --shards 2",
        1,
        "--force packs it anew",
        &["pack SRC DST --resize 32 --shards 2 --force", "verify DST"],
    ),
];

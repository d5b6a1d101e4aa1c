//! Each help line leads somewhere: what it says is done, and works.
//!
//! A row is a command that is refused, the help that it gives, and the commands that the help tells of; between them the
//! hands that it asks for.

#![allow(clippy::unwrap_used, clippy::panic, clippy::type_complexity)]

mod support;

use std::fs;

use support::{Bench, Ran, bad, contents, run};

/// Runs a command line whose words are parted by blanks; SRC and DST are those of the bench, and `@x` is `x` beside them.
fn on(bench: &Bench, line: &str) -> Ran {
    let path = |word: &str| match word.rsplit_once('@') {
        Some((option, name)) => format!("{option}{}", bench.at(name).display()),
        None => word.replace("SRC", bench.src().to_str().unwrap()).replace("DST", bench.dst().to_str().unwrap()),
    };
    run(&line.split(' ').map(path).collect::<Vec<_>>())
}

/// What was done before, the command that is refused and with which code, its help, and what the help tells of.
type Row = (&'static str, fn(&Bench), &'static str, i32, &'static str, &'static [&'static str]);

fn nothing(_: &Bench) {}

fn packed(bench: &Bench) {
    bench.pack(&["--shards", "2"]).code(0);
}

fn other_packed(bench: &Bench) {
    bench.pack(&["--seed", "9"]).code(0);
}

fn flip(bench: &Bench) {
    let shard = bench.dst().join("shard-000000.tar");
    let mut bytes = fs::read(&shard).unwrap();
    bytes[3000] ^= 4;
    fs::write(&shard, bytes).unwrap();
}

#[test]
fn what_a_help_line_says_works() {
    let rows: &[Row] = &[
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
            "choose another folder",
            &["pack SRC @x"],
        ),
        (
            "lost manifest, verify",
            |bench| {
                packed(bench);
                fs::remove_file(bench.dst().join("manifest.json")).unwrap();
            },
            "verify DST",
            1,
            "or pack anew with --force",
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
            "--force to replace it",
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
            "or pack anew with --force",
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
            "--repair SRC writes damaged bytes anew",
            &["verify DST --repair SRC", "verify DST"],
        ),
        ("inside the source", nothing, "pack SRC @src/x", 2, "choose a folder beside the source", &["pack SRC @x"]),
        (
            "memory",
            nothing,
            "pack SRC DST --memory 1KiB",
            2,
            "use --memory 1MiB or more",
            &["pack SRC DST --memory 1MiB"],
        ),
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
            "pack SRC s3://bucket/x",
            2,
            "give the path of a file or folder",
            &["pack SRC DST"],
        ),
        ("a file URL", nothing, "pack SRC file:///tmp/x", 2, "give the path alone: /tmp/x", &["pack SRC DST"]),
        (
            "quality of nothing",
            nothing,
            "pack SRC DST --quality 80",
            2,
            "with --fix, --rotate, --resize or --encode",
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
                fs::write(bench.at("flat/1.jpg"), support::photo()).unwrap();
            },
            "pack @flat DST",
            2,
            "--no-labels packs images that have no classes",
            &["pack @flat DST --no-labels"],
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
            "--root FOLDER names the folder that all files are in",
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
            "--force replaces what a manifest needs; shards stay",
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
            "convert @src/../dst/shard-000000.tar @x --skip-header 4",
            2,
            "are for LMDBs",
            &["convert DST/shard-000000.tar @x"],
        ),
        (
            "an unfinished pack is looked at",
            |bench| {
                bench.file("class-1/empty.jpg", b"");
                bench.pack(&[]).code(1);
            },
            "inspect DST",
            2,
            "the same pack command goes on from there",
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
            "again",
            &["pack SRC DST --on-bad skip", "convert DST @x"],
        ),
        (
            "a path that no .lst can tell",
            |bench| bench.file("class-1/a\tb.jpg", &support::photo()),
            "pack SRC DST --format recordio",
            1,
            "--sidecars idx,dali writes the indexes without the list",
            &["pack SRC DST --format recordio --sidecars idx,dali", "verify DST"],
        ),
        (
            "an unknown key",
            packed,
            "inspect DST --extract nothing -o @o",
            2,
            "--samples` lists keys and paths",
            &["inspect DST --samples"],
        ),
    ];
    for (name, before, refused, code, help, helps) in rows {
        let bench = Bench::of(12, 500);
        before(&bench);
        let ran = on(&bench, refused);
        assert_eq!(ran.code, *code, "{name}: {}{}", ran.stdout, ran.stderr);
        let said = format!("{}{}", ran.stdout, ran.stderr);
        assert!(said.contains(help), "{name}: not said: {help}\n{said}");
        for line in *helps {
            let ran = on(&bench, line);
            assert_eq!(ran.code, 0, "{name}: {line}: {}{}", ran.stdout, ran.stderr);
        }
    }
}

#[test]
fn an_unfinished_pack_of_other_options_can_be_finished_or_started_anew() {
    for helps in [&["--shards", "3", "--on-bad", "skip"][..], &["--seed", "5", "--on-bad", "skip", "--force"]] {
        let (bench, _) = bad();
        bench.pack(&["--shards", "3"]).code(1);
        let ran = bench.pack(&["--seed", "5"]).code(2);
        ran.says("give the source and options of then to finish it, or --force to start anew");
        run(&["verify", bench.dst().to_str().unwrap()]).code(1).says("run the pack command again");
        bench.pack(helps).code(0);
        run(&["verify", bench.dst().to_str().unwrap()]).code(0);
    }
}

#[test]
fn repair_is_advised_only_where_it_mends() {
    let advice = "--repair SRC writes";
    // An image that was bad when it was packed, one that the source has changed, what nobody packed, the ledger.
    let bench = Bench::of(12, 500);
    let photo = support::photo();
    bench.file("class-1/cut.jpg", &photo[..photo.len() / 2]);
    bench.file("class-1/empty.jpg", b"");
    bench.pack(&["--shards", "2", "--on-bad", "skip"]).code(0);
    on(&bench, "verify DST --decode").code(1).says("cut.jpg").says_not(advice);
    bench.file("class-1/new.jpg", &photo);
    on(&bench, "verify DST --against SRC").code(1).says("new.jpg").says_not(advice);
    fs::write(bench.dst().join("stranger"), b"x").unwrap();
    on(&bench, "verify DST").code(1).says("stranger").says_not(advice);
    fs::remove_file(bench.dst().join("stranger")).unwrap();
    fs::remove_file(bench.dst().join("ledger.jsonl")).unwrap();
    on(&bench, "verify DST").code(1).says("ledger.jsonl").says_not(advice);
    flip(&bench);
    on(&bench, "verify DST").code(1).says(advice);
    // Images that were changed when they were packed are not those of the source.
    let changed = Bench::of(12, 500);
    changed.pack(&["--resize", "32"]).code(0);
    flip(&changed);
    on(&changed, "verify DST").code(1).says_not(advice);
    on(&changed, "verify DST --repair SRC").code(2).says("pack --force packs anew");
    changed.pack(&["--resize", "32", "--force"]).code(0);
    on(&changed, "verify DST").code(0);
    // Adopted shards are never written.
    let adopted = Bench::of(12, 500);
    adopted.pack(&["--sidecars", "none"]).code(0);
    let shard = adopted.dst().join("shard-000000.tar");
    fs::create_dir(adopted.at("adopted")).unwrap();
    fs::rename(shard, adopted.at("adopted/x.tar")).unwrap();
    on(&adopted, "adopt @adopted").code(0);
    let mut bytes = fs::read(adopted.at("adopted/x.tar")).unwrap();
    bytes[3000] ^= 4;
    fs::write(adopted.at("adopted/x.tar"), bytes).unwrap();
    on(&adopted, "verify @adopted").code(1).says_not(advice);
}

#[test]
fn a_url_is_refused_by_name_wherever_a_path_may_stand_and_makes_no_folder() {
    let bench = Bench::of(12, 500);
    bench.pack(&[]).code(0);
    fs::write(bench.at("list.csv"), b"path,label\nhttps://example.org/1.jpg,0\n").unwrap();
    let before = contents(&bench.at(""));
    let lines = [
        "pack SRC s3://bucket/x",
        "pack s3://bucket/x DST",
        "pack --plan gs://bucket/p.plan DST",
        "pack @list.csv @x --root=https://example.org/",
        "convert https://example.org/{000..146}.tar @x",
        "convert DST hdfs://host/x",
        "adopt s3://bucket/x",
        "plan s3://bucket/x DST",
        "plan SRC DST -o s3://bucket/p.plan",
        "verify s3://bucket/x",
        "verify DST --against s3://bucket/x",
        "verify DST --repair=S3://bucket/x",
        "inspect az://x/y",
        "inspect DST --table s3://bucket/x.csv",
        "pack @list.csv @x",
    ];
    for line in lines {
        let mut command = assert_cmd::Command::new(support::binary());
        // Where it would make a folder called `s3:`.
        let words = line.split(' ').map(|word| match word.strip_prefix('@') {
            Some(name) => bench.at(name).display().to_string(),
            None => word.replace("SRC", bench.src().to_str().unwrap()).replace("DST", bench.dst().to_str().unwrap()),
        });
        let ran: Ran = command.current_dir(bench.at("")).args(words).output().unwrap().into();
        ran.code(2).clean_error().says("is a URL").says("://");
        assert_eq!(contents(&bench.at("")), before, "{line}");
    }
}

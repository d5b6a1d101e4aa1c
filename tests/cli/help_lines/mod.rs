//! Checks that each help line works: the test follows its advice.
//!
//! A row has a command that is refused, its help, and the commands of the help, with the manual steps between the commands.
//! Every help line of the sources is in a row, is followed by a test of its own, or cannot be followed.

mod at_urls;
mod elsewhere;
mod lines;
mod lists;
mod pack;
mod sealed;
mod shards;
mod slurm;
mod sources;

use std::{fs, process::Command};

use at_urls::AT_URLS;
use elsewhere::ELSEWHERE;
use shardpack_testing::{Bench, Ran, bad, contents, root, run};

/// Name, setup, the command that is refused, its exit code, its help, and the commands of the help. Lines of the shell begin with
/// `$ `.
type Row = (&'static str, fn(&Bench), &'static str, i32, &'static str, &'static [&'static str]);

const LAYOUTS: &str = "splits_beside_what_is_none_are_a_question_and_each_answer_works";

/// Help lines that no test can follow, and why.
const NOT_HERE: &[(&str, &str)] = &[
    (
        "set your own certificate authorities with SSL_CERT_FILE=ca.pem",
        "python/tests/test_http.py follows it, in a process of its own",
    ),
    (
        "name the classes of both: shardpack convert --class-map FILE",
        "python/tests/test_loader.py follows it: the program makes no mixes",
    ),
    (
        "torch.save of {\"x\": torch.stack(samples), \"y\": torch.tensor(labels)} has one tensor of each",
        "the tests of the program have no PyTorch",
    ),
    ("None} leaves it as stored", "python/tests/test_roles.py follows it: the program has no loader"),
    (
        "MixUp(num_classes=…) gives the number of classes",
        "python/tests/test_mixing.py follows it: the program has no loader",
    ),
    ("on_bad=\"skip\" leaves bad samples out", "python/tests/test_bucket.py follows it: the program has no loader"),
    (
        "resume without bucket_batches, which the state has",
        "python/tests/test_bucket.py follows it: the program has no loader",
    ),
    ("make more parts", "nobody has a part of more than 2^32 samples here"),
    ("the same command resumes and keeps the changed images", "no test knows when it is to interrupt"),
    (
        "adopt indexes the components that lie in the shards unchanged: shardpack convert SRC DST keeps the others",
        "the command line has no loader",
    ),
    ("run the same command again once nobody writes to it any more", "no test knows when it is to write"),
    ("use the version of shardpack that wrote it, or a newer one", "there is no newer one"),
    ("leave image/class/label out of the features", "the command line gives labels to all samples or to none"),
    ("leave the label out with --set label_column=", "the command line gives labels to all samples or to none"),
    ("build the crate shardpack-reader with its feature `zstd`", "the command line is built with it"),
    ("build the crate shardpack-reader with its feature `cloud`", "the command line is built with it"),
    ("the disk failed; run the same command again once it works", "no disk fails here"),
    ("choose a folder that can be written", "who runs tests as root may write everywhere"),
    ("choose a folder that can be written, or change its permissions", "who runs tests as root may write everywhere"),
    (
        "change its permissions, or those of the folders above it, so that you may read it",
        "who runs tests as root may read everything",
    ),
    (
        "write it anew with mdb_dump there and mdb_load of liblmdb 0.9 on a 64-bit machine",
        "liblmdb of another machine wrote it",
    ),
    (
        "liblmdb before 0.9.12 miscounted duplicates; if it wrote this, use mdb_dump and mdb_load",
        "a version of liblmdb that nobody installs any more wrote it",
    ),
    (
        "groups of more than about 20000 members, as h5py writes them with libver=\"latest\", are not read: write it without",
        "it takes minutes to write such a file",
    ),
    (
        "copy the target of the link into the file with `h5copy`, or choose other datasets with --image-feature PATH and --label-feature PATH",
        "h5copy is no program of ours",
    ),
];

/// Replaces SRC and DST with the paths of the bench, and `@x` with the path of `x` beside them.
fn placed(bench: &Bench, word: &str) -> String {
    match word.rsplit_once('@') {
        Some((option, name)) => format!("{option}{}", bench.at(name).display()),
        None => word
            .replace("VECTORS", concat!(env!("CARGO_MANIFEST_DIR"), "/fixtures/vectors"))
            .replace("SRC", bench.src().to_str().unwrap())
            .replace("DST", bench.dst().to_str().unwrap()),
    }
}

/// Runs a command line with words separated by blanks, or a line of the shell after `$ `.
fn on(bench: &Bench, line: &str) -> Ran {
    let words = |line: &str| line.split(' ').map(|word| placed(bench, word)).collect::<Vec<_>>();
    match line.strip_prefix("$ ") {
        None => run(&words(line)),
        Some(script) => {
            let script = format!("{XZ}\n{}", words(script).join(" "));
            Command::new("bash").args(["-e", "-c", &script]).output().unwrap().into()
        }
    }
}

/// `xz` in Python, for machines without it. Takes `-k` or `-dk`, then a file.
const XZ: &str = r#"command -v xz >/dev/null || xz() { python3 -c 'import lzma, sys
[how, name] = sys.argv[1:]
data = open(name, "rb").read()
if "d" in how: open(name.removesuffix(".xz"), "wb").write(lzma.decompress(data))
else: open(name + ".xz", "wb").write(lzma.compress(data))' "$@"; }"#;

/// Runs the lines. A line that begins with `! ` must fail.
fn go(bench: &Bench, lines: &[&str]) {
    for line in lines {
        let (line, is_refused) = line.strip_prefix("! ").map_or((*line, false), |line| (line, true));
        let ran = on(bench, line);
        assert_eq!(ran.code != 0, is_refused, "{line}: {}{}", ran.stdout, ran.stderr);
    }
}

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

fn rows() -> impl Iterator<Item = &'static Row> {
    pack::ROWS.iter().chain(sources::ROWS).chain(lists::ROWS).chain(shards::ROWS).chain(sealed::ROWS).chain(slurm::ROWS)
}

/// Follows the help of each row.
fn follow(rows: &[Row]) {
    let mut wrong = Vec::new();
    for (name, before, refused, code, help, helps) in rows {
        let bench = Bench::with_source(12, 500);
        before(&bench);
        let ran = on(&bench, refused);
        let said = format!("{}{}", ran.stdout, ran.stderr);
        if ran.code != *code || !(said.contains(help) || said.contains(&placed(&bench, help))) {
            wrong.push(format!("{name}: {refused}: exit code {}, not {code}, or not said: {help}\n{said}", ran.code));
            continue;
        }
        for line in *helps {
            let ran = on(&bench, line);
            if ran.code != 0 {
                wrong.push(format!("{name}: {line}: exit code {}\n{}{}", ran.code, ran.stdout, ran.stderr));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn what_help_says_of_packing_works() {
    follow(pack::ROWS);
}

#[test]
fn what_help_says_of_trees_works() {
    follow(sources::ROWS);
}

#[test]
fn what_help_says_of_lists_works() {
    follow(lists::ROWS);
}

#[test]
fn what_help_says_of_shards_of_others_works() {
    follow(shards::ROWS);
}

#[test]
fn what_help_says_of_sealed_datasets_works() {
    follow(sealed::ROWS);
}

#[test]
fn what_help_says_of_slurm_works() {
    follow(slurm::ROWS);
}

#[test]
fn each_help_line_of_the_sources_is_followed_by_a_test() {
    let lines = lines::all(root());
    let is_said = |help: &str, line: &lines::Line| help.contains(line.longest());
    let mut wrong = Vec::new();
    for (number, line) in lines.iter().enumerate() {
        let text = line.longest();
        if lines[..number].iter().any(|other| other.pieces == line.pieces) {
            wrong.push(format!("{}: stands elsewhere too, make it one: {text}", line.file));
        }
        let is_followed = rows().any(|row| is_said(row.4, line))
            || ELSEWHERE.iter().chain(AT_URLS).any(|(help, ..)| is_said(help, line))
            || NOT_HERE.iter().any(|(help, _)| is_said(help, line));
        if !is_followed {
            wrong.push(format!("{}: no test follows it: {text}", line.file));
        }
    }
    for (help, said, file, test) in ELSEWHERE.iter().chain(AT_URLS) {
        let text = fs::read_to_string(root().join(file)).unwrap();
        let body = text.split_once(&format!("fn {test}(")).map(|(_, rest)| rest.split("\n#[test]").next().unwrap());
        if !body.is_some_and(|body| body.contains(said)) {
            wrong.push(format!("{file}: {test} does not say {said}"));
        }
        if !lines.iter().any(|line| is_said(help, line)) {
            wrong.push(format!("is in no source any more: {help}"));
        }
    }
    for (help, _) in NOT_HERE.iter().filter(|(help, _)| !lines.iter().any(|line| is_said(help, line))) {
        wrong.push(format!("is in no source any more: {help}"));
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn an_unfinished_pack_of_other_options_can_be_finished_or_started_anew() {
    for helps in [&["--shards", "3", "--on-bad", "skip"][..], &["--seed", "5", "--on-bad", "skip", "--force"]] {
        let (bench, _) = bad();
        bench.pack(&["--shards", "3"]).code(1);
        let ran = bench.pack(&["--seed", "5"]).code(2);
        ran.says("repeat its source and options to finish it, or --force to start anew");
        run(&["verify", bench.dst().to_str().unwrap()]).code(1).says("run the same pack command again");
        bench.pack(helps).code(0);
        run(&["verify", bench.dst().to_str().unwrap()]).code(0);
    }
}

#[test]
fn what_is_wrong_with_a_file_that_nothing_tells_is_said_where_its_format_is_named() {
    let bench = Bench::with_source(12, 500);
    go(&bench, &["pack SRC DST --format tfrecord --shards 1"]);
    let mut bytes = fs::read(bench.dst().join("shard-00000-of-00001")).unwrap();
    bytes[9] ^= 1;
    fs::write(bench.at("data.bin"), bytes).unwrap();
    on(&bench, "convert @data.bin @x")
        .code(1)
        .says("these formats of shards are detected: ")
        .says("convert --from FORMAT reports the error in a damaged shard");
    on(&bench, "convert @data.bin @x --from tfrecord").code(1).says("length CRC differs");
}

#[test]
fn repair_is_advised_only_where_it_mends() {
    let advice = "--repair SRC writes";
    // An image that was bad when it was packed, a new image of the source, a foreign file, and the ledger.
    let bench = Bench::with_source(12, 500);
    let photo = shardpack_testing::photo();
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
    // Images that the pack changed differ from the source.
    let changed = Bench::with_source(12, 500);
    changed.pack(&["--resize", "32"]).code(0);
    flip(&changed);
    on(&changed, "verify DST").code(1).says_not(advice);
    on(&changed, "verify DST --repair SRC").code(2).says("pack --force packs anew");
    changed.pack(&["--resize", "32", "--force"]).code(0);
    on(&changed, "verify DST").code(0);
    // Adopted shards are never written.
    let adopted = Bench::with_source(12, 500);
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
    let bench = Bench::with_source(12, 500);
    bench.pack(&[]).code(0);
    fs::write(bench.at("list.csv"), b"path,label\nhttps://example.org/1.jpg,0\n").unwrap();
    let before = contents(&bench.at(""));
    let lines = [
        "pack SRC ftp://host/x",
        "pack hdfs://host/x DST",
        "pack --plan gs://bucket/p.plan DST",
        "pack @list.csv @x --root=ftp://example.org/",
        "convert DST hdfs://host/x",
        "adopt s3://bucket/x",
        "plan file:///x DST",
        "plan SRC DST -o s3://bucket/p.plan",
        "verify hdfs://host/x",
        "inspect ftp://host/x",
        "inspect DST --table s3://bucket/x.csv",
        "pack @list.csv @x",
    ];
    for line in lines {
        let mut command = assert_cmd::Command::new(shardpack_testing::binary());
        // Runs in the folder of the bench, because a mistake would create a folder called `s3:` there.
        let words = line.split(' ').map(|word| match word.strip_prefix('@') {
            Some(name) => bench.at(name).display().to_string(),
            None => word
                .replace("VECTORS", concat!(env!("CARGO_MANIFEST_DIR"), "/fixtures/vectors"))
                .replace("SRC", bench.src().to_str().unwrap())
                .replace("DST", bench.dst().to_str().unwrap()),
        });
        let ran: Ran = command.current_dir(bench.at("")).args(words).output().unwrap().into();
        ran.code(2).clean_error().says("is a URL").says("://");
        assert_eq!(contents(&bench.at("")), before, "{line}");
    }
}

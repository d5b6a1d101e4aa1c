//! Each help line leads somewhere: what it says is done, and works.
//!
//! A row is a command that is refused, the help that it gives, and the commands that the help tells of; between them the
//! hands that it asks for. Every help line of the sources is in a row, is followed by a test of its own, or cannot be.

#![allow(clippy::unwrap_used, clippy::panic, clippy::type_complexity)]

mod lines;
mod pack;
mod sealed;
mod shards;
mod slurm;
mod sources;
#[path = "../support/mod.rs"]
mod support;

use std::{fs, path::Path, process::Command};

use support::{Bench, Ran, bad, contents, run};

/// What was done before, the command that is refused and with which code, its help, and what the help tells of: commands, and
/// lines of the shell behind `$ `.
type Row = (&'static str, fn(&Bench), &'static str, i32, &'static str, &'static [&'static str]);

const LAYOUTS: &str = "splits_beside_what_is_none_are_a_question_and_each_answer_works";

/// Help lines that other tests follow: the line, a text of the test, its file and name.
const ELSEWHERE: &[(&str, &str, &str, &str)] = &[
    (
        "shardpack verify names all that is damaged, and --repair SRC mends it",
        "shardpack verify names all",
        "tests/parts_refused.rs",
        "receipts_that_lie_and_files_that_were_changed_are_named_and_nothing_is_sealed",
    ),
    (
        "the same options for all parts; another folder for another plan",
        "another folder for another plan",
        "tests/parts_changed.rs",
        "parts_of_another_recipe_plan_or_source_are_refused_by_name",
    ),
    (
        "remove it: then that part changes its images anew",
        "remove it: then that part changes its images anew",
        "tests/parts_changed.rs",
        "a_flipped_or_missing_byte_of_a_list_or_a_spool_is_found_and_the_file_named",
    ),
    (
        "remove the file: then its images are made anew",
        "remove the file: then its images are made anew",
        "tests/parts_changed.rs",
        "a_flipped_or_missing_byte_of_a_list_or_a_spool_is_found_and_the_file_named",
    ),
    (
        "shardpack status DST tells whose images are missing; when all are changed, the same commands pack",
        "when all are changed, the same commands pack",
        "tests/parts_changed.rs",
        "two_passes_of_any_number_of_parts_make_the_bytes_of_one_process",
    ),
    (
        "shardpack pack SRC DST --part I/N packs one of N parts",
        "--part I/N packs one of N parts",
        "tests/parts_refused.rs",
        "receipts_of_different_numbers_of_parts_are_taken_together_and_what_they_lack_is_named",
    ),
    (
        "pack one of them again with those of the other",
        "pack one of them again",
        "tests/parts_refused.rs",
        "parts_of_another_plan_are_refused_by_name",
    ),
    (
        "pack those parts again",
        "pack those parts again",
        "tests/parts_refused.rs",
        "receipts_that_lie_and_files_that_were_changed_are_named_and_nothing_is_sealed",
    ),
    (
        "choose another folder, or remove this",
        "choose another folder, or remove this",
        "tests/parts_refused.rs",
        "parts_of_another_plan_are_refused_by_name",
    ),
    (
        "remove the folder to begin anew",
        "remove the folder to begin anew",
        "tests/parts_refused.rs",
        "a_plan_of_another_version_or_one_that_is_damaged_is_refused",
    ),
    (
        "use one version for all parts, or remove the folder to begin anew",
        "use one version for all parts, or remove the folder",
        "tests/parts_refused.rs",
        "a_plan_of_another_version_or_one_that_is_damaged_is_refused",
    ),
    (
        "pack all parts with one plan file, or from a source that does not change; another folder for another plan",
        "pack all parts with one plan file",
        "tests/parts_refused.rs",
        "parts_of_another_plan_are_refused_by_name",
    ),
    (
        "use one version for all parts",
        "use one version for all parts",
        "tests/parts_refused.rs",
        "parts_of_another_plan_are_refused_by_name",
    ),
    (
        "remove it, and pack the part with the plan of the others",
        "pack the part with the plan of the others",
        "tests/parts_refused.rs",
        "parts_of_another_plan_are_refused_by_name",
    ),
    (
        "give the one that `shardpack plan` wrote",
        "give the one that `shardpack plan` wrote",
        "tests/parts_refused.rs",
        "a_plan_on_another_file_system_serves_as_well",
    ),
    (
        "one --format after the other, each into its own folder",
        "one --format after the other",
        "tests/parts_refused.rs",
        "parts_of_another_plan_are_refused_by_name",
    ),
    (
        "remove it, and pack that part again",
        "remove it, and pack that part again",
        "tests/parts_refused.rs",
        "parts_of_another_plan_are_refused_by_name",
    ),
    (
        "begin them after the fork; the dataset and the loader can be used on both sides",
        "anew",
        "crates/shardpack-loader/tests/loader/reading.rs",
        "a_fork_gets_an_error_and_can_begin_anew",
    ),
    (
        "resume with the same datasets, subsets and shares as the run that the state is of",
        "Loader::resume",
        "crates/shardpack-loader/tests/loader/ranks_and_resuming.rs",
        "a_run_that_is_interrupted_goes_on_with_other_ranks_and_misses_nothing",
    ),
    (
        "drop a batch before the next is asked for, or give more memories",
        "take",
        "crates/shardpack-loader/src/ring.rs",
        "no_more_batches_exist_than_are_allowed",
    ),
    (
        "give it {least} bytes or more",
        "least",
        "crates/shardpack-loader/tests/loader/reading.rs",
        "options_that_do_not_fit_are_refused",
    ),
    (
        "a dataset that was packed anew begins at epoch 0",
        "beginning",
        "crates/shardpack-loader/tests/loader/ranks_and_resuming.rs",
        "states_of_other_runs_are_refused",
    ),
    (
        "give the source and options of then to finish it, or --force to start anew",
        "--force",
        "tests/help_lines/main.rs",
        "an_unfinished_pack_of_other_options_can_be_finished_or_started_anew",
    ),
    (
        "shards of these formats are told by themselves: FORMATS; convert --from FORMAT says what is wrong with one",
        "--from",
        "tests/help_lines/main.rs",
        "what_is_wrong_with_a_file_that_nothing_tells_is_said_where_its_format_is_named",
    ),
    (
        "--components NAMES takes other columns, with commas between",
        "--components",
        "tests/values_parquet.rs",
        "lists_of_images_are_refused_unless_other_columns_are_chosen",
    ),
    (
        "--label-from FILE says where they are, as it did for convert",
        "--label-from",
        "tests/lmdb_options.rs",
        "labels_in_a_file_are_found_by_key_and_what_has_none_is_said",
    ),
    ("--no-labels packs them as splits without labels", "--no-labels", "tests/layouts.rs", LAYOUTS),
    (
        "--include '*/NAME/**' takes one of them alone; a list with a column split gives each its own, as docs/recipes.md has it",
        "--include",
        "tests/layouts.rs",
        "splits_inside_of_classes_are_a_question_and_each_answer_works",
    ),
    (
        "--splits NAMES packs such a row in each of its splits, --splits none each row once",
        "--splits train,test packs such a row in each of its splits, --splits none each row once",
        "tests/hdf5_labels.rs",
        "rows_that_two_splits_share_are_a_question",
    ),
    ("--splits NAMES takes these alone", "--splits", "tests/layouts.rs", LAYOUTS),
    ("--splits none takes all as one set", "--no-labels", "tests/layouts.rs", LAYOUTS),
    ("--splits none says that all are classes", "--splits", "tests/layouts.rs", LAYOUTS),
    (
        "takes the labels of val from a list, as docs/recipes.md has it for ImageNet",
        "--split",
        "tests/layouts.rs",
        "sources_that_are_splits_share_one_list_of_classes",
    ),
    (
        "SIZE makes 100000 at most; --shards N where so many are meant",
        "makes 100000 at most",
        "crates/shardpack-packer/src/plan/tests.rs",
        "a_size_that_makes_absurdly_many_shards_is_refused_with_one_that_fits",
    ),
    (
        "free space, or choose another disk",
        "free space, or choose another disk",
        "tests/crash.rs",
        "more_than_there_is_space_for_is_refused_at_once",
    ),
    (
        "free space and run the same command again: it goes on from the finished shards",
        "free space and run the same command again",
        "tests/crash.rs",
        "a_disk_that_fills_up_is_named_and_the_same_command_goes_on",
    ),
    (
        "the same command goes on; 3 of 300 shards kept in DST",
        "the same command goes on; ",
        "tests/json.rs",
        "an_interruption_is_a_document_too",
    ),
    (
        "too few file descriptors: raise the limit (`ulimit -n 4096`) or use fewer --jobs",
        "too few file descriptors",
        "tests/crash.rs",
        "too_few_file_descriptors_are_named_and_the_same_command_goes_on",
    ),
    (
        "open one of them: FOLDER",
        "open one of them",
        "crates/shardpack-reader/tests/dataset.rs",
        "splits_are_listed_and_named_where_one_dataset_was_asked_for",
    ),
    (
        "it was asked four times; the same command goes on once the machine can read it, and --exclude leaves it out",
        "--exclude",
        "tests/read_errors.rs",
        "a_read_that_goes_on_failing_ends_the_run_whatever_is_asked",
    ),
    (
        "give the part: --part I/N",
        "may have many",
        "crates/shardpack-packer/src/part_auto.rs",
        "what_determines_no_part_is_refused_with_what_was_seen",
    ),
    (
        "give the part as the whole array has it: of 0 to 63, --part $((INDEX + 1))/64",
        "SLURM_ARRAY_TASK_ID + 1",
        "crates/shardpack-packer/src/part_auto.rs",
        "what_determines_no_part_is_refused_with_what_was_seen",
    ),
    (
        "give the one that is meant: --part I/N, counted from 1, or unset NAME",
        "two parts",
        "crates/shardpack-packer/src/part_auto.rs",
        "two_that_say_different_parts_are_refused_by_name",
    ),
    (
        "Kubernetes sets no count: in the manifest, give the container the variable JOB_COMPLETION_COUNT with the value of spec.completions, or --part I/N",
        "spec.completions",
        "crates/shardpack-packer/src/part_auto.rs",
        "what_determines_no_part_is_refused_with_what_was_seen",
    ),
    (
        "start it with srun, submit an array as `shardpack slurm` does, or give --part I/N",
        "srun",
        "crates/shardpack-packer/src/part_auto.rs",
        "what_determines_no_part_is_refused_with_what_was_seen",
    ),
    (
        "the URL is that of the folder that was packed into",
        "the URL is that of the folder that was packed into",
        "crates/shardpack-reader/tests/http.rs",
        "what_is_no_dataset_or_not_to_be_had_is_an_error_that_says_so_at_once",
    ),
    (
        "mend a copy that is a folder, and copy what was mended",
        "mend a copy that is a folder, and copy what was mended",
        "tests/stores.rs",
        "what_cannot_be_done_at_a_url_is_said",
    ),
    ("write NAME=VALUE", "write NAME=VALUE", "tests/stores.rs", "what_cannot_be_done_at_a_url_is_said"),
    ("write header=NAME: VALUE", "write header=NAME: VALUE", "tests/stores.rs", "what_cannot_be_done_at_a_url_is_said"),
    (
        "ca_file is a file of PEM certificates",
        "ca_file is a file of PEM certificates",
        "tests/stores.rs",
        "what_cannot_be_done_at_a_url_is_said",
    ),
    (
        "no credentials were sent; --store \"header=Authorization: …\" sends some",
        "no credentials were sent; --store",
        "tests/stores.rs",
        "what_cannot_be_done_at_a_url_is_said",
    ),
    (
        "look at the credentials, and at what they allow",
        "look at the credentials, and at what they allow",
        "tests/stores.rs",
        "what_cannot_be_done_at_a_url_is_said",
    ),
    (
        "send it as a header: --store \"header=Authorization: …\"",
        "send it as a header: --store",
        "tests/stores.rs",
        "what_cannot_be_done_at_a_url_is_said",
    ),
    (
        "set AZURE_STORAGE_ACCOUNT_NAME or AZURE_STORAGE_CONNECTION_STRING, or write abfss://CONTAINER@ACCOUNT.dfs.core.windows.net/PATH",
        "set AZURE_STORAGE_ACCOUNT_NAME or AZURE_STORAGE_CONNECTION_STRING",
        "tests/stores.rs",
        "what_cannot_be_done_at_a_url_is_said",
    ),
    (
        "public objects: --store anonymous=true",
        "public objects: --store anonymous=true",
        "tests/stores.rs",
        "credentials_come_from_where_the_programs_of_aws_have_them",
    ),
    (
        "AWS_EC2_METADATA_DISABLED says that there are none of the machine; public objects: --store anonymous=true",
        "public objects: --store anonymous=true",
        "tests/stores.rs",
        "credentials_come_from_where_the_programs_of_aws_have_them",
    ),
    (
        "AWS_PROFILE or --store profile=NAME names it",
        "AWS_PROFILE or --store profile=NAME names it",
        "tests/stores.rs",
        "credentials_come_from_where_the_programs_of_aws_have_them",
    ),
    (
        "a profile with `credential_process = aws configure export-credentials --profile NAME --format process` gives what the programs of AWS find",
        "credential_process",
        "tests/stores.rs",
        "credentials_come_from_where_the_programs_of_aws_have_them",
    ),
    (
        "look at the URL, and at the endpoint",
        "look at the URL, and at the endpoint",
        "crates/shardpack-store/src/answer.rs",
        "what_stores_say_in_xml_is_told",
    ),
    (
        "look at the region and the endpoint",
        "look at the region and the endpoint",
        "crates/shardpack-store/src/answer.rs",
        "what_stores_say_in_xml_is_told",
    ),
    ("the bucket is in", "the bucket is in", "crates/shardpack-store/src/answer.rs", "what_stores_say_in_xml_is_told"),
    (
        "a store's URL begins with",
        "a store's URL begins with",
        "crates/shardpack-store/src/location.rs",
        "what_names_no_folder_is_refused",
    ),
    (
        "tokio::task::spawn_blocking has threads that can",
        "tokio::task::spawn_blocking has threads that can",
        "crates/shardpack-store/src/runtime.rs",
        "a_thread_of_a_runtime_is_told_where_it_can_wait",
    ),
    (
        "serve shards as they are, without compression",
        "serve shards as they are, without compression",
        "crates/shardpack-reader/tests/http.rs",
        "what_is_no_dataset_or_not_to_be_had_is_an_error_that_says_so_at_once",
    ),
    (
        "look whether the server is well, and try again",
        "look whether the server is well, and try again",
        "crates/shardpack-reader/tests/http.rs",
        "what_is_no_dataset_or_not_to_be_had_is_an_error_that_says_so_at_once",
    ),
    (
        "open the dataset again once it does not change any more",
        "open the dataset again once it does not change any more",
        "crates/shardpack-reader/tests/http.rs",
        "what_is_damaged_on_the_server_is_named",
    ),
    (
        "give --part I/N; it is taken from NAMES",
        "nothing here says",
        "crates/shardpack-packer/src/part_auto.rs",
        "what_determines_no_part_is_refused_with_what_was_seen",
    ),
];

/// Help lines that no test can follow, and why.
const NOT_HERE: &[(&str, &str)] = &[
    (
        "SSL_CERT_FILE=ca.pem names authorities of one's own",
        "python/tests/test_http.py follows it, in a process of its own",
    ),
    ("make more parts", "nobody has a part of more than 2^32 samples here"),
    ("the same command goes on with the images that were changed", "no test knows when it is to interrupt"),
    ("use the version of shardpack that wrote it, or a newer one", "there is no newer one"),
    ("leave image/class/label out of the features", "the command line gives labels to all samples or to none"),
    ("leave the label out with --set label_column=", "the command line gives labels to all samples or to none"),
    ("build the crate shardpack-reader with its feature `zstd`", "the command line is built with it"),
    ("build the crate shardpack-reader with its feature `cloud`", "the command line is built with it"),
    ("raise the limit of open files: ulimit -n", "of the reader crate, whose program decides how many it opens"),
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
];

/// SRC and DST are those of the bench, `@x` is `x` beside them.
fn placed(bench: &Bench, word: &str) -> String {
    match word.rsplit_once('@') {
        Some((option, name)) => format!("{option}{}", bench.at(name).display()),
        None => word
            .replace("VECTORS", concat!(env!("CARGO_MANIFEST_DIR"), "/fixtures/vectors"))
            .replace("SRC", bench.src().to_str().unwrap())
            .replace("DST", bench.dst().to_str().unwrap()),
    }
}

/// Runs a command line whose words are parted by blanks, or a line of the shell behind `$ `.
fn on(bench: &Bench, line: &str) -> Ran {
    let words = |line: &str| line.split(' ').map(|word| placed(bench, word)).collect::<Vec<_>>();
    match line.strip_prefix("$ ") {
        None => run(&words(line)),
        Some(script) => Command::new("bash").args(["-e", "-c", &words(script).join(" ")]).output().unwrap().into(),
    }
}

/// Runs them; what begins with `! ` is refused.
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

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn rows() -> impl Iterator<Item = &'static Row> {
    pack::ROWS.iter().chain(sources::ROWS).chain(shards::ROWS).chain(sealed::ROWS).chain(slurm::ROWS)
}

/// Does what the help of each row says.
fn follow(rows: &[Row]) {
    let mut wrong = Vec::new();
    for (name, before, refused, code, help, helps) in rows {
        let bench = Bench::of(12, 500);
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
fn what_help_says_of_trees_and_lists_works() {
    follow(sources::ROWS);
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
            || ELSEWHERE.iter().any(|(help, ..)| is_said(help, line))
            || NOT_HERE.iter().any(|(help, _)| is_said(help, line));
        if !is_followed {
            wrong.push(format!("{}: no test follows it: {text}", line.file));
        }
    }
    for (help, said, file, test) in ELSEWHERE {
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
        ran.says("give the source and options of then to finish it, or --force to start anew");
        run(&["verify", bench.dst().to_str().unwrap()]).code(1).says("run the same pack command again");
        bench.pack(helps).code(0);
        run(&["verify", bench.dst().to_str().unwrap()]).code(0);
    }
}

#[test]
fn what_is_wrong_with_a_file_that_nothing_tells_is_said_where_its_format_is_named() {
    let bench = Bench::of(12, 500);
    go(&bench, &["pack SRC DST --format tfrecord --shards 1"]);
    let mut bytes = fs::read(bench.dst().join("shard-00000-of-00001")).unwrap();
    bytes[9] ^= 1;
    fs::write(bench.at("data.bin"), bytes).unwrap();
    on(&bench, "convert @data.bin @x")
        .code(1)
        .says("told by themselves")
        .says("convert --from FORMAT says what is wrong with one");
    on(&bench, "convert @data.bin @x --from tfrecord").code(1).says("length CRC differs");
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
        "verify DST --against s3://bucket/x",
        "verify DST --repair=S3://bucket/x",
        "verify hdfs://host/x",
        "inspect ftp://host/x",
        "inspect DST --table s3://bucket/x.csv",
        "pack @list.csv @x",
    ];
    for line in lines {
        let mut command = assert_cmd::Command::new(support::binary());
        // Where it would make a folder called `s3:`.
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

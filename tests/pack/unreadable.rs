//! Unreadable entries of a tree or a list are reported, refused, or omitted on request, and never silently skipped.
//!
//! torchvision numbers the folders of the first level as classes, so a skipped folder would change the labels of all later classes.

use std::{fs, path::Path, process::Command, time::Duration};

use shardpack_source::ledger::Fate;
use shardpack_testing::{
    Bench, Dataset, Ran, binary, contents,
    faults::{self, EACCES, EIO, ENOENT, ESTALE, fault},
    run,
};

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// Path, fate and reason of each ledger line in DST.
fn unpacked(bench: &Bench) -> Vec<(String, Fate, String)> {
    Dataset::read(&bench.dst())
        .unpacked()
        .into_iter()
        .map(|(path, fate, reason)| (path, fate, reason.to_string()))
        .collect()
}

#[test]
fn links_that_lead_in_a_circle_or_nowhere_are_named_left_out_or_skipped() {
    // Name of the row, link, target, reported path, message.
    for (row, link, to, at, said) in [
        (
            "to the folder itself",
            "a/again",
            ".",
            "a/again",
            "leads back to a folder above it: a loop of symbolic links",
        ),
        ("to a folder above", "a/b/up", "../..", "a/b/up", "a loop of symbolic links"),
        ("to the class above", "a/b/c/up", "../..", "a/b/c/up", "a loop of symbolic links"),
        ("an image to itself", "a/self.jpg", "self.jpg", "a/self.jpg", "leads in a circle: a loop of symbolic links"),
        ("something to itself", "a/self", "self", "a/self", "leads in a circle: a loop of symbolic links"),
        ("an image to nowhere", "a/gone.jpg", "nowhere", "a/gone.jpg", "cannot be read: No such file"),
        ("something to nowhere", "a/gone", "/mnt/that is not there/a", "a/gone", "cannot be read: No such file"),
        ("something with an extension to nowhere", "a/v1.2", "nowhere", "a/v1.2", "cannot be read: No such file"),
        ("a class to nowhere", "c", "/mnt/that is not there/c", "c", "cannot be read: No such file"),
        ("a class to itself", "c", "c", "c", "leads in a circle: a loop of symbolic links"),
        ("a class to the source", "c", ".", "c", "leads back to a folder above it: a loop of symbolic links"),
    ] {
        let bench = Bench::with(&["a/b/c/1.jpg", "a/2.jpg", "d/3.jpg"]);
        bench.link(link, to);
        let ran = bench.pack(&[]).code(1).says("nothing is sealed").says(&format!("{at}: "));
        ran.says(said);
        fs::remove_dir_all(bench.dst()).unwrap();
        bench.pack(&["--on-bad", "skip"]).code(0).says("packed  3 of 4 images");
        let lines = unpacked(&bench);
        assert!(
            matches!(&lines[..], [(path, Fate::Skipped, reason)] if path == at && reason.contains(said)),
            "{row}: {lines:?}"
        );
        run(&["verify", text(&bench.dst()), "--against", text(&bench.src())]).code(0);
        fs::remove_dir_all(bench.dst()).unwrap();
        for glob in [at.to_owned(), format!("{at}*")] {
            bench.pack(&["--exclude", &glob]).code(0).says("packed  3 of 4 images");
            let lines = unpacked(&bench);
            assert!(matches!(&lines[..], [(path, Fate::Filtered, _)] if path == at), "{row}: {lines:?}");
            assert_eq!(Dataset::read(&bench.dst()).classes(), ["a", "d"], "{row}");
            // Entries that were excluded on request are not a difference.
            run(&["verify", text(&bench.dst()), "--against", text(&bench.src())]).code(0);
            fs::remove_dir_all(bench.dst()).unwrap();
        }
        // A glob for the contents of a folder also excludes the folder. Other globs apply only to files.
        if !at.ends_with(".jpg") {
            bench.pack(&["--exclude", &format!("{at}/**")]).code(0);
            fs::remove_dir_all(bench.dst()).unwrap();
            bench.pack(&["--exclude", "**/*.png"]).code(1);
        }
    }
    let bench = Bench::with(&["a/1.jpg", "b/2.jpg"]);
    bench.link("a/other", "../b");
    bench.link("b/other", "../a");
    bench.pack(&[]).code(1).says("a/other/other: leads back").says("b/other/other: leads back");
    // The same without labels.
    let bench = Bench::with(&["1.jpg", "x/2.jpg"]);
    bench.link("x/up", "..");
    bench.link("gone", "nowhere");
    bench.pack(&["--no-labels"]).code(1).says("x/up: leads back").says("gone: cannot be read");
    bench.pack(&["--no-labels", "--on-bad", "skip"]).code(0).says("packed  2 of 4 images");
}

#[test]
fn a_class_that_cannot_be_looked_at_keeps_its_label_or_nothing_is_packed() {
    let bench = Bench::with(&["a/1.jpg", "b/2.jpg", "c/3.jpg"]);
    fs::rename(bench.src().join("b"), bench.at("elsewhere")).unwrap();
    bench.link("b", bench.at("elsewhere"));
    let args = |more: &[&str]| -> Vec<String> {
        let paths = ["pack".to_owned(), text(&bench.src()).to_owned(), text(&bench.dst()).to_owned()];
        paths.into_iter().chain(more.iter().map(|more| (*more).to_owned())).collect()
    };
    // An error of a disk or mount: nothing is packed, even with `--on-bad skip`.
    for errno in [EIO, ESTALE] {
        for (call, path) in [("stat", "src/b"), ("open", "src/b")] {
            let Some(ran) = faults::run(&[fault(call, errno, 1, path)], &args(&["--on-bad", "skip"])) else { return };
            ran.code(2).clean_error().says("src/b");
            assert!(!bench.dst().exists(), "{call} {errno}");
        }
    }
    for (errno, why) in [(EACCES, "Permission denied"), (ENOENT, "No such file")] {
        let faults = [fault("open", errno, 0, "src/b")];
        let Some(ran) = faults::run(&faults, &args(&[])) else { return };
        ran.code(1).says("b: cannot be read: ").says(why).says("nothing is sealed");
        let Some(ran) = faults::run(&faults, &args(&["--on-bad", "skip"])) else { return };
        ran.code(0);
        assert_eq!(Dataset::read(&bench.dst()).classes(), ["a", "b", "c"], "{why}");
        assert_eq!(unpacked(&bench).len(), 1);
        fs::remove_dir_all(bench.dst()).unwrap();
        // If only the first `stat` of the link fails, the link counts as a class, and the walk reads the folder behind it.
        let Some(ran) = faults::run(&[fault("stat", errno, 1, "src/b")], &args(&[])) else { return };
        ran.code(0).says("packed  3 of 3 images in");
        fs::remove_dir_all(bench.dst()).unwrap();
    }
    bench.pack(&[]).code(0).says("packed  3 of 3 images");
}

#[test]
fn no_error_at_any_call_of_a_walk_is_passed_over() {
    let bench = Bench::with(&["a/1.jpg", "a/deep/2.jpg", "b/3.jpg"]);
    bench.link("a/linked", bench.at("elsewhere"));
    fs::create_dir(bench.at("elsewhere")).unwrap();
    fs::copy(bench.src().join("a/1.jpg"), bench.at("elsewhere/4.jpg")).unwrap();
    bench.file("a/1.txt", b"one");
    let (src, dst) = (bench.src(), bench.dst());
    let args = |skip: &str| {
        let fixed = ["pack", text(&src), text(&dst), "--with", "txt", "--on-bad", skip];
        fixed.map(str::to_owned)
    };
    for (call, errno) in [("stat", EIO), ("stat", EACCES), ("open", EIO), ("open", EACCES), ("list", ESTALE)] {
        // The number of consecutive calls whose fault had no effect: after four, the run makes no more calls.
        let mut without = 0;
        for when in 1..60 {
            let Some(ran) = faults::run(&[fault(call, errno, when, "/src")], &args("skip")) else { return };
            // The fault had no effect, or it is reported and counted, or the run failed with the path.
            let at = format!("{call} {when}: {errno}\n{}{}", ran.stdout, ran.stderr);
            let is_whole = ran.code == 0 && {
                let dataset = Dataset::read(&bench.dst());
                assert_eq!(dataset.classes(), ["a", "b"], "{at}");
                let is_whole = dataset.samples.len() == 4;
                assert!(is_whole || !dataset.ledger.is_empty(), "{at}");
                is_whole
            };
            assert!(ran.code == 0 || ran.stderr.contains("src"), "{at}");
            let _ = fs::remove_dir_all(bench.dst());
            without = if is_whole { without + 1 } else { 0 };
            if without == 4 {
                break;
            }
        }
    }
}

#[test]
fn files_of_a_list_and_what_lies_beside_them_are_named_where_they_cannot_be_looked_at() {
    let bench = Bench::with(&["1.jpg", "2.jpg", "3.jpg"]);
    bench.link("loop.jpg", "loop.jpg");
    bench.link("gone.jpg", "nowhere");
    bench.link("2.txt", "nowhere");
    bench.file("1.txt", b"one");
    let list = bench.src().join("x.csv");
    fs::write(&list, "path,label\n1.jpg,a\n2.jpg,a\n3.jpg,b\nloop.jpg,b\ngone.jpg,b\nmissing.jpg,b\n").unwrap();
    let coco = bench.src().join("x.json");
    let images: Vec<_> = ["1.jpg", "2.jpg", "3.jpg", "loop.jpg", "gone.jpg", "missing.jpg"]
        .iter()
        .enumerate()
        .map(|(id, name)| serde_json::json!({"id": id, "file_name": name}))
        .collect();
    fs::write(&coco, serde_json::json!({"images": images}).to_string()).unwrap();
    for source in [&list, &coco] {
        let dst = bench.at(source.extension().unwrap().to_str().unwrap());
        let args = ["pack", text(source), text(&dst), "--with", "txt"];
        let ran = run(&args).code(1).says("nothing is sealed");
        let ran = ran.says("loop.jpg: leads in a circle: a loop of symbolic links").says("gone.jpg: cannot be read");
        ran.says("missing.jpg: cannot be read").says("2.jpg: 2.txt beside it cannot be read");
        run(&[args.as_slice(), &["--on-bad", "skip"]].concat()).code(0).says("packed  2 of 6 images");
        // One file to which the system refuses access.
        fs::remove_dir_all(&dst).unwrap();
        let faults = [fault("stat", EACCES, 0, "src/3.jpg")];
        let args: Vec<&str> = [args.as_slice(), &["--on-bad", "skip"]].concat();
        let Some(ran) = faults::run(&faults, &args) else { return };
        ran.code(0).says("packed  1 of 6 images").says("3.jpg: cannot be read: Permission denied");
    }
}

#[test]
fn nothing_to_pack_is_told_with_the_first_path_and_its_reason() {
    let bench = Bench::with(&["a/1.jpg", "a/2.jpg"]);
    let ran = bench.pack(&["--exclude", "*.jpg"]).code(2).clean_error();
    ran.says("all 2 images are left out, the first: a/1.jpg: left out by --include or --exclude");
    let ran = bench.pack(&["--min-side", "9999"]).code(2).clean_error();
    ran.says("all 2 images are left out, the first: a/1.jpg: ");
    let list = bench.at("x.csv");
    fs::write(&list, "path,label\na/1.jpg,x\na/2.jpg,y\n").unwrap();
    let dst = bench.dst();
    let args = ["pack", text(&list), text(&dst)];
    let ran =
        run(&args).code(1).clean_error().says("none of 2 images can be packed, the first: a/1.jpg: cannot be read");
    ran.says(&format!("--root {} is the folder of a/1.jpg, which the list names", text(&bench.src())));
    // The advice of the help line works.
    run(&[args.as_slice(), &["--root", text(&bench.src())]].concat()).code(0);
    fs::remove_dir_all(bench.dst()).unwrap();
    for path in ["a/1.jpg", "a/2.jpg"] {
        bench.file(path, b"no image at all");
    }
    let ran = bench.pack(&["--resize", "64"]).code(1).clean_error();
    ran.says("none of 2 images can be packed, the first: a/1.jpg: ").says_not("an ImageFolder is");
}

/// Runs the binary for at most one minute; a process that hangs has no exit code.
fn run_soon(args: &[&str]) -> Ran {
    let ran = assert_cmd::Command::new(binary()).args(args).timeout(Duration::from_secs(60)).output().unwrap();
    ran.into()
}

/// Replaces `path` with a pipe without a writer, or with a link to an endless device.
fn put(path: &Path, other: &str) {
    let _ = fs::remove_file(path);
    match other {
        "pipe" => assert!(Command::new("mkfifo").arg(path).status().unwrap().success()),
        device => std::os::unix::fs::symlink(device, path).unwrap(),
    }
}

#[test]
fn pipes_and_devices_in_place_of_files_of_a_dataset_are_named_and_not_waited_for() {
    let bench = Bench::with_source(6, 500);
    bench.pack(&["--shards", "2", "--sidecars", "wids"]).code(0);
    run(&["crops", text(&bench.dst())]).code(0);
    let (copy, out) = (bench.at("copy"), bench.at("out"));
    let files: Vec<String> = contents(&bench.dst())
        .into_iter()
        .filter(|(path, hash)| !hash.is_empty() && !path.to_string_lossy().contains("000001"))
        .map(|(path, _)| path.to_string_lossy().into_owned())
        .collect();
    assert!(files.len() >= 6, "{files:?}");
    for file in &files {
        for other in ["pipe", "/dev/zero"] {
            assert!(Command::new("cp").arg("-rT").arg(bench.dst()).arg(&copy).status().unwrap().success());
            put(&copy.join(file), other);
            let at = text(&copy);
            run_soon(&["verify", at]).code(1).says(&format!("{file}: ")).says_not("panicked");
            let is_read = ["manifest.json", "index/shard-000000.index"].contains(&file.as_str());
            for words in [
                &["verify", at, "--quick"][..],
                &["inspect", at],
                &["inspect", at, "--samples"],
                &["convert", at, text(&out), "--force"],
                &["crops", at],
                &["bench", at, "--seconds", "1"],
            ] {
                if words[0] == "bench" && !is_read {
                    continue;
                }
                let ran = run_soon(words);
                assert!((if is_read { 1..=2 } else { 0..=2 }).contains(&ran.code), "{file} {other} {words:?}: {ran:?}");
                let _ = fs::remove_dir_all(&out);
            }
            let (send, receive) = std::sync::mpsc::channel();
            let folder = copy.clone();
            std::thread::spawn(move || {
                let read = shardpack_reader::Dataset::open(folder)
                    .and_then(|dataset| (0..dataset.len()).try_for_each(|number| dataset.sample(number).map(drop)));
                send.send(read.map_err(|error| error.to_string())).unwrap();
            });
            let read = receive.recv_timeout(Duration::from_secs(60)).expect(file);
            assert!(read.is_ok() != (is_read || file == "shard-000000.tar"), "{file}: {read:?}");
            fs::remove_dir_all(&copy).unwrap();
        }
    }
}

#[test]
fn pipes_and_devices_in_place_of_files_that_a_person_names_are_refused() {
    let bench = Bench::with_source(6, 500);
    let (src, dst) = (bench.src(), bench.dst());
    let (src, dst) = (text(&src), text(&dst));
    fs::create_dir_all(bench.at("unfinished/.shardpack/receipts")).unwrap();
    fs::create_dir_all(bench.at("splits/train")).unwrap();
    for other in ["pipe", "/dev/zero"] {
        for name in [
            "list.csv",
            "list.jsonl",
            "list.json",
            "names.txt",
            "plan",
            "unfinished/.shardpack/plan",
            "splits/splits.json",
        ] {
            put(&bench.at(name), other);
        }
        let at = |name: &str| bench.at(name).to_str().unwrap().to_owned();
        for words in [
            &["pack", &at("list.csv"), dst][..],
            &["pack", &at("list.jsonl"), dst],
            &["pack", &at("list.json"), dst],
            &["pack", src, dst, "--classes", &at("names.txt")],
            &["pack", src, dst, "--class-map", &at("names.txt")],
            &["pack", "--plan", &at("plan"), dst],
            &["pack", src, &at("unfinished")],
            &["status", &at("unfinished")],
            &["merge", &at("unfinished")],
            &["verify", &at("splits")],
            &["inspect", &at("splits")],
            &["inspect", &at("plan")],
            &["verify", &at("list.json")],
        ] {
            let ran = run_soon(words);
            assert!([1, 2].contains(&ran.code), "{other} {words:?}: {ran:?}");
            ran.says_not("panicked");
        }
    }
}

/// The first words of a command line that runs as another user with at most `most` processes and threads; `None` if the limit has no
/// effect.
fn few_threads(most: u32) -> Option<Vec<String>> {
    let limited = |most: u32| {
        let words = format!("setpriv --reuid=54321 --regid=54321 --clear-groups prlimit --nproc={most}:{most}");
        words.split(' ').map(str::to_owned).collect::<Vec<_>>()
    };
    let words = limited(1);
    let two = Command::new(&words[0]).args(&words[1..]).args(["sh", "-c", "true & wait"]).output();
    match two {
        Ok(output) if !output.status.success() || !output.stderr.is_empty() => {}
        _ => {
            eprintln!("nobody's threads can be limited here: what the limit shows is not tried");
            return None;
        }
    }
    Some(limited(most))
}

#[test]
fn a_limit_of_threads_is_an_error_or_changes_nothing() {
    let Some(_) = few_threads(1) else { return };
    let bench = Bench::with_source(60, 5000);
    bench.pack(&["--shards", "3"]).code(0);
    let expected = contents(&bench.dst());
    let open = |path: &Path| Command::new("chmod").arg("-R").arg("a+rwX").arg(path).status().unwrap();
    assert!(open(bench.src().parent().unwrap()).success());
    let (src, packed) = (bench.src(), bench.dst());
    let (src, packed, out, program) = (text(&src), text(&packed), bench.at("out"), binary());
    let out = text(&out);
    let as_other = ["--reuid=54321", "--regid=54321", "--clear-groups"];
    if !Command::new("setpriv").args(as_other).arg(&program).arg("--version").output().unwrap().status.success() {
        eprintln!("another user cannot run the program here: what a limit of threads shows is not tried");
        return;
    }
    let mut errors = 0;
    for most in [1, 2, 3, 4, 6, 9] {
        for words in [
            &["pack", src, out, "--shards", "3", "--jobs", "4"][..],
            &["pack", src, out, "--shards", "3", "--check", "full", "--dedup", "exact"],
            &["convert", packed, out, "--format", "tfrecord"],
            &["verify", packed, "--against", src],
            &["inspect", packed, "--json"],
            &["crops", packed, "--force"],
            &["bench", packed, "--seconds", "1"],
        ] {
            // With more threads `bench` can succeed, and would measure for seconds.
            if words[0] == "bench" && most > 1 {
                continue;
            }
            let limited = few_threads(most).unwrap();
            let mut command = assert_cmd::Command::new(&limited[0]);
            let ran = command.args(&limited[1..]).arg(&program).args(words).timeout(Duration::from_secs(60)).output();
            let ran = Ran::from(ran.unwrap()).says_not("panicked").says_not("bug");
            match ran.code {
                // `--check full --dedup exact` is excluded, because the manifest records the options.
                0 if words[0] == "pack" && !words.contains(&"full") => {
                    assert_eq!(contents(Path::new(out)), expected, "{most} {words:?}")
                }
                0 => {}
                _ => {
                    errors += 1;
                    ran.code(2).says("cannot start a thread").says("raise `ulimit -u`, or use fewer threads: --jobs 1");
                }
            }
            let _ = fs::remove_dir_all(out);
        }
    }
    assert!(errors > 0, "the limit has no effect");
}

#[test]
fn errors_of_the_machine_end_a_listing_whatever_is_wanted_of_bad_images() {
    const EINTR: i32 = 4;
    const ETIMEDOUT: i32 = 110;
    let bench = Bench::with(&["a/1.jpg", "a/2.jpg", "b/3.jpg"]);
    bench.file("a/2.txt", b"two");
    let list = bench.src().join("x.csv");
    fs::write(&list, "path,label\na/1.jpg,a\na/2.jpg,a\nb/3.jpg,b\n").unwrap();
    let (src, dst) = (bench.src(), bench.dst());
    for source in [&src, &list] {
        let args = ["pack", text(source), text(&dst), "--with", "txt", "--on-bad", "skip"];
        for errno in [EIO, ESTALE, EINTR, ETIMEDOUT] {
            for at in ["a/2.jpg", "a/2.txt"] {
                // The listing makes the first call.
                for when in [1, 0] {
                    let Some(ran) = faults::run(&[fault("stat", errno, when, at)], &args) else { return };
                    ran.code(2).says(&format!("{at}: cannot look at")).clean_error();
                    assert!(!dst.join("manifest.json").exists(), "{errno} {at}");
                }
            }
        }
    }
}

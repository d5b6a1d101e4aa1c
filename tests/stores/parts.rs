//! Parts that are packed to a URL, and their merge, on real servers: the result is byte for byte that of one process in a folder.

use std::{
    fs,
    path::PathBuf,
    thread,
    time::{Duration, Instant},
};

use shardpack_testing::{
    Bench, Ran,
    places::{each, files_at, files_in, is_killed, run, same, settings},
    server::{Fault, Proxy},
    stores::{self, Kind, ObjectServer},
    sweep,
};

/// Several machines that pack to one URL, each with its own work folder. Requests go to a given port.
struct Machines<'a> {
    bench: &'a Bench,
    from: String,
    to: String,
    settings: Vec<String>,
    name: String,
}

impl<'a> Machines<'a> {
    fn new(bench: &'a Bench, server: &ObjectServer, port: u16, from: &str, to: &str) -> Self {
        let name = format!("{:?}-{to}", server.kind);
        Self { bench, from: from.to_owned(), to: server.url(to), settings: settings(server, port), name }
    }

    fn work(&self, machine: &str) -> PathBuf {
        self.bench.at(&format!("work-{}-{machine}", self.name))
    }

    /// The words of a command on a machine, with its work folder and the store settings.
    fn words(&self, command: &[&str], machine: &str) -> Vec<String> {
        let work = ["--work".to_owned(), self.work(machine).display().to_string()];
        command.iter().map(|word| (*word).to_owned()).chain(work).chain(self.settings.iter().cloned()).collect()
    }

    fn part_words(&self, part: &str, options: &[&str]) -> Vec<String> {
        let command = [&["pack", &self.from, &self.to, "--seed", "3", "--part", part], options].concat();
        self.words(&command, &part.replace('/', "-"))
    }

    fn part(&self, part: &str, options: &[&str]) -> Ran {
        run(&self.part_words(part, options), &[])
    }

    fn merge(&self, options: &[&str]) -> Ran {
        run(&self.words(&[&["merge", self.to.as_str()], options].concat(), "merge"), &[])
    }

    fn status(&self) -> serde_json::Value {
        let words = ["status", self.to.as_str(), "--json"].map(str::to_owned);
        run(&[&words[..], &self.settings].concat(), &[]).code(0).json()
    }

    /// Fails the test unless the work folders of all machines are empty.
    fn leave_nothing(&self) {
        let mine = |name: &str| name.starts_with(&format!("work-{}-", self.name));
        for work in fs::read_dir(self.bench.at(".")).unwrap().map(|entry| entry.unwrap().path()) {
            if mine(work.file_name().unwrap().to_str().unwrap()) {
                assert_eq!(fs::read_dir(&work).unwrap().count(), 0, "{}", work.display());
            }
        }
    }
}

fn whole(bench: &Bench, name: &str, options: &[&str]) -> std::collections::BTreeMap<String, Vec<u8>> {
    let (src, local) = (bench.src(), bench.at(name));
    let words = ["pack", src.to_str().unwrap(), local.to_str().unwrap(), "--seed", "3"];
    run(&[&words[..], options].concat(), &[]).code(0);
    files_in(&local)
}

#[test]
fn parts_at_a_url_make_the_bytes_of_one_process() {
    let bench = Bench::with_source(90, 9000);
    let cases: [(&[&str], &[&str]); 4] = [
        (&["--shards", "5"], &["2/3", "1/3", "3/3"]),
        (&["--split-fraction", "val=0.2", "--shard-size", "200KiB", "--compress", "zstd"], &["1/2", "2/2"]),
        (&["--format", "mds", "--shards", "4"], &["4/4", "3/4", "2/4", "1/4"]),
        (&["--shards", "2", "--sidecars", "none"], &["1/1"]),
    ];
    let wholes: Vec<_> =
        (0..).zip(cases).map(|(at, (options, _))| whole(&bench, &format!("whole-{at}"), options)).collect();
    each(|server| {
        server.put_folder(&bench.src(), "tree");
        for (at, (options, parts)) in server.turns(&cases) {
            let src = bench.src();
            let from = if at % 2 == 0 { src.to_str().unwrap().to_owned() } else { server.url("tree") };
            let machines = Machines::new(&bench, server, server.port(), &from, &format!("parts-{at}"));
            for (done, part) in parts.iter().enumerate() {
                if done > 0 {
                    let status = machines.status();
                    assert_eq!(status["parts"]["done"].as_array().unwrap().len(), done, "{status}");
                    assert!(status["parts"]["running"].is_null() && status["complete"] == false, "{status}");
                    let said = machines.merge(&["--json"]).code(1).json();
                    assert_eq!(said["missing"]["parts"].as_array().unwrap().len(), parts.len() - done, "{said}");
                }
                machines.part(part, options).code(0).says("packed  part").says(" sent");
                // The receipt shows on any machine that the part is complete.
                let again = machines.part(part, &[options, &["--json"][..]].concat()).code(0).json();
                assert_eq!(again["resumed_shards"], again["shards"], "{again}");
                assert!(again["network"]["sent_bytes"].as_u64().unwrap() < 10_000, "{again}");
            }
            assert_eq!(machines.status()["complete"], true);
            if options.contains(&"mds") {
                // The receipts have the hashes of the shards, so no shard is fetched.
                let merged = machines.merge(&["--json"]).code(0).json();
                assert!(merged["network"]["received_bytes"].as_u64().unwrap() < 100_000, "{merged}");
            } else {
                machines.merge(&["--verify"]).code(0).says("merged  ").says("network ");
            }
            let what = format!("{:?} {options:?}", server.kind);
            same(&wholes[at], &files_at(server, &format!("parts-{at}")), &what);
            machines.merge(&[]).code(0).says("are merged here already, nothing to do");
            machines.part(parts[0], options).code(0).says("all parts are merged here already");
            same(&wholes[at], &files_at(server, &format!("parts-{at}")), &what);
            assert_eq!(machines.status()["unfinished"], false);
            machines.leave_nothing();
        }
        let none = ["status".to_owned(), server.url("none/at-all")];
        run(&[&none[..], &settings(server, server.port())].concat(), &[]).code(2).says("not found");
    });
}

#[test]
fn parts_and_merge_with_every_fifth_request_failing_make_the_same() {
    let faults =
        [("503", Fault::Status(503, false)), ("drop", Fault::Drop), ("lost", Fault::Lost), ("cut", Fault::Cut(300))];
    let bench = Bench::with_source(60, 9000);
    let options = ["--shards", "4"];
    let whole = whole(&bench, "whole", &options);
    each(|server| {
        let (proxy, src) = (Proxy::start(server.port()), bench.src());
        for (_, (name, fault)) in server.turns(faults) {
            proxy.fail(5, fault);
            let machines = Machines::new(&bench, server, proxy.port(), src.to_str().unwrap(), name);
            let machines = &machines;
            thread::scope(|scope| {
                for part in ["1/3", "2/3", "3/3"] {
                    scope.spawn(move || machines.part(part, &options).code(0));
                }
            });
            machines.merge(&["--verify"]).code(0);
            same(&whole, &files_at(server, name), &format!("{:?} {name}", server.kind));
            assert!(proxy.faults() > 5, "{name}: {}", proxy.faults());
            machines.leave_nothing();
        }
    });
}

#[test]
fn parts_and_a_merge_that_are_killed_anywhere_go_on() {
    // Upload parts have 8 MiB, so that some are in flight when the process is killed.
    let bench = Bench::new();
    for number in 0..48u64 {
        bench.file(format!("class-{}/{number}.jpg", number % 5), &shardpack_testing::jpeg(number, 500_000));
    }
    let options = ["--shards", "2"];
    let (whole, src) = (whole(&bench, "whole", &options), bench.src());
    for server in stores::alone().into_iter().filter(|server| ![Kind::Azure, Kind::Moto].contains(&server.kind)) {
        let proxy = Proxy::start(server.port());
        let machines = Machines::new(&bench, &server, proxy.port(), src.to_str().unwrap(), "packed");
        let mut killed = 0;
        let commands = [
            machines.part_words("1/2", &options),
            machines.part_words("2/2", &options),
            machines.words(&["merge", machines.to.as_str()], "merge"),
        ];
        for words in &commands {
            for after in (1..).step_by(sweep::points(2, 5)) {
                if !is_killed(words, &proxy, after) {
                    break;
                }
                killed += 1usize;
                if server.keys("packed/").iter().any(|key| key.ends_with("manifest.json")) {
                    // A request that is still in flight may delete these files between the listing and the read.
                    let keys = server.keys("packed/").into_iter().filter(|key| !key.contains("/.shardpack/"));
                    let named = |key: String| (key["packed/".len()..].to_owned(), server.get(&key).unwrap());
                    let there = keys.map(named).collect();
                    same(&whole, &there, "a manifest is there");
                }
                assert!(killed < 90, "it never ends");
            }
            run(words, &[]).code(0);
        }
        assert!(killed > 6, "{:?}: {killed}", server.kind);
        same(&whole, &files_at(&server, "packed"), &format!("{:?}", server.kind));
        // An upload stays unfinished if the process was killed before it received the upload's id.
        assert!(server.unfinished() < killed, "{:?}: {} of {killed}", server.kind, server.unfinished());
        machines.leave_nothing();
    }
}

/// Images in three classes, which `--fix` changes.
fn to_be_changed() -> Bench {
    let bench = Bench::new();
    for number in 0..30u8 {
        let image = [&b"P6 16 16 255\n"[..], &[number; 768]].concat();
        bench.file(format!("class-{}/{number}.ppm", number % 3), &image);
    }
    bench
}

#[test]
fn parts_change_their_images_at_a_url_and_make_the_bytes_of_one_process() {
    let bench = to_be_changed();
    let options = ["--fix", "--shards", "4"];
    let (whole, src) = (whole(&bench, "whole", &options), bench.src());
    each(|server| {
        let machines = Machines::new(&bench, server, server.port(), src.to_str().unwrap(), "packed");
        machines.part("1/3", &options).code(0).says("changed part 1/3: 10 images").says("missing 2/3, 3/3");
        machines.leave_nothing();
        let status = machines.status();
        assert_eq!((&status["unfinished"], &status["changing"]), (&true.into(), &true.into()), "{status}");
        machines.merge(&[]).code(2).says("images were changed in parts here, and nothing is packed yet");
        // Other images would be in the shards.
        machines.part("2/3", &["--resize", "8", "--shards", "4"]).code(2).says("another recipe");
        let sent = |ran: Ran| ran.code(0).json()["network"]["sent_bytes"].as_u64().unwrap();
        let json = [&options[..], &["--json"]].concat();
        // Ten small images and their list.
        assert!(sent(machines.part("2/3", &json)) > 500);
        machines.part("1/3", &options).code(0).says("missing 3/3");
        let received = |ran: Ran| ran.code(0).json()["network"]["received_bytes"].as_u64().unwrap();
        assert!(received(machines.part("3/3", &json)) > 500, "images of other parts");
        for part in ["1/3", "2/3"] {
            machines.part(part, &options).code(0).says("packed");
        }
        machines.merge(&[]).code(0).says("merged  30 samples");
        same(&whole, &files_at(server, "packed"), &format!("{:?}", server.kind));
        machines.leave_nothing();
        machines.part("1/3", &options).code(0).says("merged here already");
    });
}

#[test]
fn parts_that_change_their_images_at_a_url_go_on_after_a_kill_at_any_request() {
    let bench = to_be_changed();
    let options = ["--fix", "--shards", "2"];
    let (whole, src) = (whole(&bench, "whole", &options), bench.src());
    for server in stores::alone().into_iter().filter(|server| ![Kind::Azure, Kind::Moto].contains(&server.kind)) {
        let proxy = Proxy::start(server.port());
        let machines = Machines::new(&bench, &server, proxy.port(), src.to_str().unwrap(), "packed");
        let mut killed = 0;
        for part in ["1/2", "2/2", "1/2"] {
            let words = machines.part_words(part, &options);
            for after in (1..).take_while(|after| is_killed(&words, &proxy, *after)) {
                killed += 1;
                assert!(after < 90, "it never ends");
            }
            run(&words, &[]).code(0);
        }
        run(&machines.words(&["merge", machines.to.as_str()], "merge"), &[]).code(0);
        assert!(killed > 6, "{:?}: {killed}", server.kind);
        same(&whole, &files_at(&server, "packed"), &format!("{:?}", server.kind));
        machines.leave_nothing();
    }
}

#[test]
fn what_is_not_as_the_receipts_say_is_named_and_nothing_is_sealed() {
    let bench = Bench::with_source(60, 3000);
    let options = ["--shards", "4"];
    let (whole, src) = (whole(&bench, "whole", &options), bench.src());
    each(|server| {
        let machines = Machines::new(&bench, server, server.port(), src.to_str().unwrap(), "packed");
        machines.merge(&[]).code(2).says("nothing was packed in parts here");
        server.put("packed/notes.txt", b"somebody's");
        assert_eq!(machines.status()["unfinished"], false);
        machines.part("1/2", &options).code(2).says("holds \"notes.txt\"");
        assert_eq!(server.keys("packed/"), ["packed/notes.txt"]);
        server.delete("packed/notes.txt");
        machines.leave_nothing();
        for part in ["1/2", "2/2"] {
            machines.part(part, &options).code(0);
        }
        // Another plan, transformed images, and a pack without parts are each refused, and no object changes.
        let before = files_at(server, "packed");
        machines.part("1/2", &["--shards", "3"]).code(2).says("holds parts of another plan");
        machines.part("1/2", &["--shards", "4", "--resize", "32"]).code(2).says("holds parts of another plan");
        let all = ["pack", machines.from.as_str(), machines.to.as_str()];
        run(&machines.words(&all, "all"), &[]).code(2).says(".shardpack/");
        same(&before, &files_at(server, "packed"), "refusals");
        let shard = whole.keys().find(|name| name.ends_with("1.tar")).unwrap().as_str();
        let index = whole.keys().find(|name| name.starts_with("index/")).unwrap().as_str();
        let flipped = |name: &str, at: usize| {
            let mut bytes = whole[name].clone();
            bytes[at] ^= 1;
            bytes
        };
        let longer = |name: &str| [&whole[name][..], b"x"].concat();
        for (name, bytes, verify, what) in [
            (shard, Some(longer(shard)), false, "in the receipt"),
            (shard, None, false, "is missing"),
            (index, Some(flipped(index, 200)), false, "its hash differs from the receipt"),
            (shard, Some(flipped(shard, 5000)), true, "its hash differs from the receipt"),
        ] {
            let key = format!("packed/{name}");
            match &bytes {
                Some(bytes) => server.put(&key, bytes),
                None => server.delete(&key),
            }
            let options: &[&str] = if verify { &["--verify"] } else { &[] };
            let said = machines.merge(options).code(1).says("nothing is sealed");
            said.says(name).says(what);
            assert!(!server.keys("packed/").iter().any(|key| key.ends_with("manifest.json")));
            server.put(&key, &whole[name]);
        }
        let receipt = "packed/.shardpack/parts/1-of-2.json";
        let right = server.get(receipt).unwrap();
        let mut wrong = right.clone();
        wrong[300] ^= 1;
        server.put(receipt, &wrong);
        machines.merge(&[]).code(1).says("1-of-2.json");
        // The part rejects the receipt as well.
        let again = machines.part("1/2", &[&options[..], &["--json"]].concat()).code(0).json();
        assert_eq!(again["resumed_shards"], 0, "{again}");
        assert_eq!(server.get(receipt).unwrap(), right);
        server.put("packed/.shardpack/plan", b"no plan");
        machines.merge(&[]).code(1).says(".shardpack/plan").says("not a plan file");
        server.put("packed/.shardpack/plan", &before[".shardpack/plan"]);
        machines.merge(&[]).code(0);
        same(&whole, &files_at(server, "packed"), &format!("{:?}", server.kind));
        // If a dataset was merged before, `merge` names its damaged files.
        server.put(&format!("packed/{shard}"), &longer(shard));
        machines.merge(&[]).code(1).says("is damaged now").says(shard);
    });
}

#[test]
fn what_is_converted_in_parts_goes_to_a_url_as_it_goes_to_a_folder() {
    let bench = Bench::with_source(60, 3000);
    bench.pack(&[]).code(0);
    let (source, local) = (bench.dst(), bench.at("local"));
    let options = ["--format", "tfrecord", "--shards", "3", "--seed", "8"];
    let words = ["convert", source.to_str().unwrap(), local.to_str().unwrap()];
    run(&[&words[..], &options].concat(), &[]).code(0);
    each(|server| {
        server.put_folder(&source, "source");
        let machines = Machines::new(&bench, server, server.port(), &server.url("source"), "converted");
        for part in ["2/2", "1/2"] {
            let command = [&["convert", &machines.from, &machines.to, "--part", part], &options[..]].concat();
            run(&machines.words(&command, &part[..1]), &[]).code(0);
        }
        machines.merge(&[]).code(0);
        same(&files_in(&local), &files_at(server, "converted"), &format!("{:?}", server.kind));
        machines.leave_nothing();
    });
}

#[test]
fn a_part_whose_plan_is_taken_away_or_replaced_says_so_and_leaves_no_receipt() {
    let bench = Bench::with_source(60, 3000);
    let (options, src) = (["--shards", "4"], bench.src());
    let whole = whole(&bench, "whole", &options);
    each(|server| {
        let proxy = Proxy::start(server.port());
        let other = Machines::new(&bench, server, server.port(), src.to_str().unwrap(), "other");
        other.part("1/2", &["--shards", "5"]).code(0);
        let machines = Machines::new(&bench, server, proxy.port(), src.to_str().unwrap(), "packed");
        let plan = "packed/.shardpack/plan";
        for (bytes, what) in [
            (None, "the same command starts or resumes"),
            (server.get("other/.shardpack/plan"), "run one pack at a time, or choose another prefix"),
        ] {
            proxy.fail(1, Fault::Delay(Duration::from_millis(100)));
            let ran = thread::scope(|scope| {
                let part = scope.spawn(|| machines.part("1/2", &options));
                let start = Instant::now();
                // The plan is written before any shard.
                while !server.keys("packed/").iter().any(|key| key.ends_with(".tar")) {
                    assert!(start.elapsed() < Duration::from_secs(100));
                    thread::sleep(Duration::from_millis(1));
                }
                match &bytes {
                    None => server.delete(plan),
                    Some(bytes) => server.put(plan, bytes),
                }
                part.join().unwrap()
            });
            ran.code(2).says(what);
            assert!(!server.keys("packed/").iter().any(|key| key.contains("/parts/")), "{what}");
            server.keys("packed/").iter().for_each(|key| server.delete(key));
        }
        proxy.fail(1, Fault::Delay(Duration::ZERO));
        for part in ["1/2", "2/2"] {
            machines.part(part, &options).code(0);
        }
        machines.merge(&[]).code(0);
        same(&whole, &files_at(server, "packed"), &format!("{:?}", server.kind));
        machines.leave_nothing();
    });
}

#[test]
fn of_two_packs_that_begin_at_once_one_is_sealed_and_the_other_says_so() {
    let bench = Bench::with_source(60, 9000);
    let src = bench.src();
    let wholes = ["3", "5"].map(|shards| whole(&bench, &format!("whole-{shards}"), &["--shards", shards]));
    each(|server| {
        let proxy = Proxy::start(server.port());
        proxy.fail(1, Fault::Delay(Duration::from_millis(10)));
        let (mut refused, mut again) = (0, 0);
        for (round, both) in [["3", "5"], ["3", "5"], ["3", "3"], ["5", "3"], ["5", "5"]].iter().enumerate() {
            let to = format!("packed-{round}");
            let machines = Machines::new(&bench, server, proxy.port(), src.to_str().unwrap(), &to);
            let pack = |shards: &str, machine: &str, force: bool| {
                let command = ["pack", &machines.from, &machines.to, "--seed", "3", "--shards", shards];
                let force: &[&str] = if force { &["--force"] } else { &[] };
                run(&machines.words(&[&command[..], force].concat(), machine), &[])
            };
            let rans = thread::scope(|scope| {
                let rans = [0, 1].map(|at| scope.spawn(move || pack(both[at], ["one", "two"][at], false)));
                rans.map(|ran| ran.join().unwrap())
            });
            let mut sealed = Vec::new();
            for (ran, shards) in rans.into_iter().zip(both) {
                match ran.code {
                    0 => sealed.push(*shards),
                    _ => drop(ran.code(2).says("error: ").says("help: ")),
                }
            }
            let what = format!("{:?} {both:?}", server.kind);
            let of = |shards: &str| &wholes[usize::from(shards == "5")];
            if both[0] == both[1] {
                assert_eq!(sealed, both, "{what}");
                again += 1;
            } else {
                assert!(sealed.len() < 2, "{what}: {sealed:?}");
                refused += 1;
            }
            match sealed.first() {
                Some(shards) => {
                    let there = files_at(server, &to);
                    let more = of(shards).keys().chain(of(if *shards == "3" { "5" } else { "3" }).keys());
                    assert!(there.keys().all(|name| more.clone().any(|own| own == name)), "{what}");
                    // Objects that the other process wrote before it stopped may remain.
                    let own = there.into_iter().filter(|(name, _)| of(shards).contains_key(name)).collect();
                    same(of(shards), &own, &what);
                }
                None => assert!(!server.keys(&to).iter().any(|key| key.ends_with("manifest.json")), "{what}"),
            }
        }
        assert_eq!((refused, again), (3, 2));
        // An interrupted pack is replaced by another pack only with `--force`.
        let machines = Machines::new(&bench, server, proxy.port(), src.to_str().unwrap(), "stopped");
        let words = |shards: &str, more: &[&str]| {
            let command = ["pack", &machines.from, &machines.to, "--seed", "3", "--shards", shards];
            machines.words(&[&command[..], more].concat(), shards)
        };
        assert!(is_killed(&words("3", &[]), &proxy, 12));
        let there = machines.status();
        assert_eq!((&there["unfinished"], &there["shards"]), (&true.into(), &3.into()), "{there}");
        let said = run(&words("5", &[]), &[]).code(2).says("holds an unfinished pack of something else");
        said.says("--force replaces it if no pack runs");
        run(&words("5", &["--force"]), &[]).code(0);
        same(&wholes[1], &files_at(server, "stopped"), "forced");
        run(&words("3", &[]), &[]).code(2).says("another prefix, or --force to replace it");
        // The same holds for parts. Their additional files are deleted as well.
        let parts = Machines::new(&bench, server, proxy.port(), src.to_str().unwrap(), "in-parts");
        for part in ["1/2", "2/2"] {
            parts.part(part, &["--shards", "5"]).code(0);
        }
        let command = ["pack", &parts.from, &parts.to, "--seed", "3", "--shards", "3"];
        run(&parts.words(&command, "all"), &[]).code(2).says("holds an unfinished pack of something else");
        run(&parts.words(&[&command[..], &["--force"]].concat(), "all"), &[]).code(0);
        same(&wholes[0], &files_at(server, "in-parts"), "forced over parts");
    });
}

#[test]
fn a_plan_file_serves_parts_on_machines_that_do_not_see_the_source_at_once() {
    let bench = Bench::with_source(60, 3000);
    let options = ["--shards", "4"];
    let whole = whole(&bench, "whole", &options);
    each(|server| {
        server.put_folder(&bench.src(), "tree");
        let machines = Machines::new(&bench, server, server.port(), &server.url("tree"), "packed");
        let plan = bench.at(&format!("{:?}.plan", server.kind));
        let words = ["plan", &machines.from, "--seed", "3", "--shards", "4", "-o", plan.to_str().unwrap()];
        let words: Vec<String> =
            words.map(str::to_owned).into_iter().chain(machines.settings.iter().cloned()).collect();
        run(&words, &[]).code(0);
        let environment = server.environment();
        let environment: Vec<_> = environment.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        for part in ["1/3", "3/3", "2/3"] {
            let command = ["pack", "--plan", plan.to_str().unwrap(), &machines.to, "--part", part];
            run(&machines.words(&command, part.get(..1).unwrap()), &environment).code(0);
        }
        machines.merge(&[]).code(0);
        same(&whole, &files_at(server, "packed"), &format!("{:?}", server.kind));
        machines.leave_nothing();
    });
}

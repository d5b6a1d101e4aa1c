//! Interrupted packs: a kill, Ctrl-C, a full disk, too few descriptors. No unfinished file looks finished, and the
//! same command resumes to the same bytes.

use std::{
    collections::BTreeMap,
    fs,
    os::unix::process::ExitStatusExt,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use rustix::process::{Pid, Signal, kill_process};
use shardpack_format::{index::Index, manifest::Manifest};
use shardpack_testing::{
    Bench, Dataset, Ran, Rng, binary, contents, jpeg, mounts_work, pack, photos, run, run_after, sweep,
};

const WORK: &str = ".shardpack";

fn spawn(src: &Path, dst: &Path, options: &[&str]) -> Child {
    let mut command = Command::new(binary());
    command.arg("pack").arg(src).arg(dst).args(options).stdin(Stdio::null());
    command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

fn signal(child: &Child, signal: Signal) {
    kill_process(Pid::from_child(child), signal).unwrap();
}

/// Waits until `there` holds, for at most a minute; returns false if the child ended first.
fn wait_for(child: &mut Child, there: impl Fn() -> bool) -> bool {
    let start = Instant::now();
    while start.elapsed() < Duration::from_secs(60) {
        if there() {
            return true;
        }
        if child.try_wait().unwrap().is_some() {
            return there();
        }
        thread::sleep(Duration::from_micros(200));
    }
    panic!("nothing happened for a minute");
}

/// Number of finished shards in `dst`, counted from the indexes with their final names.
fn finished(dst: &Path) -> usize {
    fs::read_dir(dst.join("index")).map_or(0, Iterator::count)
}

/// Fails the test if a file in `dst` looks finished but differs from `whole`, the result of an uninterrupted pack.
fn nothing_looks_finished(dst: &Path, whole: &BTreeMap<PathBuf, String>) {
    if !dst.exists() {
        return;
    }
    let found = contents(dst);
    for (path, hash) in found.iter().filter(|(path, hash)| !path.starts_with(WORK) && !hash.is_empty()) {
        // A shard without an index may have its final name already; the shard is then complete.
        assert_eq!(whole.get(path), Some(hash), "{} after a kill", path.display());
    }
    if let Ok(bytes) = fs::read(dst.join("manifest.json")) {
        Manifest::read(&bytes).unwrap().check_id(&bytes).unwrap();
        let rest: BTreeMap<_, _> = found.into_iter().filter(|(path, _)| !path.starts_with(WORK)).collect();
        assert_eq!(&rest, whole, "a manifest beside other files than it should have");
    }
    for entry in fs::read_dir(dst.join("index")).into_iter().flatten() {
        Index::open(fs::read(entry.unwrap().path()).unwrap()).unwrap();
    }
}

/// 3,000 images of 5 to 13 KB: about one second of packing in a debug build.
fn large() -> Bench {
    Bench::with_source(3000, 8000)
}

const SHARDS: [&str; 4] = ["--shards", "30", "--jobs", "2"];

#[test]
fn a_pack_killed_at_any_moment_goes_on_to_the_same_bytes() {
    let bench = large();
    let whole_dst = bench.at("whole");
    let start = Instant::now();
    bench.pack_to(&whole_dst, &SHARDS).code(0);
    let mut takes = start.elapsed();
    let whole = contents(&whole_dst);
    Dataset::read(&whole_dst).check_source(&bench.src());

    let (mut rng, dst) = (Rng::new(2024), bench.dst());
    let (mut killed, mut mid_pack, mut with_shards, mut resumed, mut moments) = (0, 0, 0, 0, 0);
    let all = sweep::points(50, 20);
    while moments < all {
        moments += 1;
        // Every fourth kill falls at any time from the start on. The others wait for any number of shards, so that a machine that is
        // slower than before is killed while packing, too, and then for a part of the time that a shard takes.
        let part = rng.below(1000) as f64 / 1000.0;
        let mut child = spawn(&bench.src(), &dst, &SHARDS);
        let began = Instant::now();
        if moments % 4 > 0 {
            let wanted = rng.below(31) as usize;
            wait_for(&mut child, || match wanted {
                0 => dst.join(WORK).exists(),
                30 => dst.join("BLAKE3SUMS").exists(),
                shards => finished(&dst) >= shards,
            });
        }
        thread::sleep(takes.mul_f64(if moments % 4 > 0 { part / 30.0 } else { part }));
        child.kill().unwrap();
        let was_killed = child.wait().unwrap().signal() == Some(9);
        if was_killed {
            killed += 1;
        } else {
            // The machine is faster now than before: shorten the wait.
            takes = takes.min(began.elapsed());
        }
        mid_pack += usize::from(was_killed && dst.join(WORK).exists());
        with_shards += usize::from(was_killed && finished(&dst) > 0);
        nothing_looks_finished(&dst, &whole);

        let again = bench.pack(&SHARDS).code(0);
        resumed += usize::from(again.stdout.contains("finished before"));
        assert_eq!(contents(&dst), whole, "after kill {moments}");
        fs::remove_dir_all(&dst).unwrap();
    }
    println!(
        "{moments} moments: {killed} killed, {mid_pack} while packing, {with_shards} with shards, {resumed} resumed"
    );
    assert!(
        mid_pack >= all / 2 && with_shards >= all * 3 / 10 && resumed >= all * 3 / 10,
        "too few kills while packing"
    );
}

#[test]
fn a_pack_killed_again_and_again_ends_with_the_same_bytes() {
    let bench = large();
    let whole_dst = bench.at("whole");
    bench.pack_to(&whole_dst, &SHARDS).code(0);
    let whole = contents(&whole_dst);
    let dst = bench.dst();
    let mut kills = 0;
    for step in 1.. {
        let mut child = spawn(&bench.src(), &dst, &["--shards", "30", "--jobs", if step % 2 == 0 { "1" } else { "3" }]);
        let wanted = step * 4;
        if !wait_for(&mut child, || finished(&dst) >= wanted) || wanted > 30 {
            assert!(child.wait().unwrap().success());
            break;
        }
        child.kill().unwrap();
        child.wait().unwrap();
        kills += 1;
        nothing_looks_finished(&dst, &whole);
    }
    assert!(kills >= 4, "{kills} kills");
    assert_eq!(contents(&dst), whole);
}

#[test]
fn a_kill_before_the_first_shard_leaves_a_folder_that_can_be_packed_into() {
    let bench = Bench::with(&["a/1.jpg", "b/2.jpg"]);
    // Files that a kill during the first steps can leave: the work folder, the lock, a plan not yet renamed.
    let steps = [".shardpack/", ".shardpack/lock", ".shardpack/plan.part"];
    for count in 1..=steps.len() {
        let dst = bench.at(&format!("dst-{count}"));
        for step in &steps[..count] {
            match step.strip_suffix('/') {
                Some(folder) => fs::create_dir_all(dst.join(folder)).unwrap(),
                None => fs::write(dst.join(step), b"").unwrap(),
            }
        }
        bench.pack_to(&dst, &[]).code(0);
        Dataset::read(&dst).check_source(&bench.src());
    }
}

#[test]
fn a_kill_after_the_manifest_leaves_a_sealed_dataset() {
    let bench = Bench::with(&["a/1.jpg", "b/2.jpg"]);
    let dst = bench.dst();
    bench.pack(&[]).code(0);
    let whole = contents(&dst);
    fs::create_dir(dst.join(WORK)).unwrap();
    fs::write(dst.join(WORK).join("lock"), b"").unwrap();
    bench.pack(&[]).code(0).says("nothing to do");
    assert_eq!(contents(&dst), whole);
}

#[test]
fn a_replacement_that_is_killed_never_looks_finished_and_goes_on() {
    let bench = large();
    let old = Bench::with(&["x/1.jpg", "y/2.jpg", "z/3.jpg"]);
    let whole_dst = bench.at("whole");
    let start = Instant::now();
    bench.pack_to(&whole_dst, &SHARDS).code(0);
    let takes = start.elapsed();
    let whole = contents(&whole_dst);
    let (mut rng, dst, mut replacing) = (Rng::new(7), bench.dst(), 0);
    for _ in 0..8 {
        // More shards than in the new dataset, with other names.
        pack(&old.src(), &dst, &["--shards", "3", "--name", "old"]).code(0);
        let before = contents(&dst);
        let mut child = spawn(&bench.src(), &dst, &[&SHARDS[..], &["--force"]].concat());
        thread::sleep(takes.mul_f64(rng.below(1000) as f64 / 1000.0));
        child.kill().unwrap();
        child.wait().unwrap();
        let now = contents(&dst);
        if dst.join("manifest.json").exists() {
            let rest: BTreeMap<_, _> = now.into_iter().filter(|(path, _)| !path.starts_with(WORK)).collect();
            assert!(rest == before || rest == whole, "a manifest beside other files than it should have");
        } else {
            replacing += 1;
        }
        bench.pack(&[&SHARDS[..], &["--force"]].concat()).code(0);
        assert_eq!(contents(&dst), whole);
        fs::remove_dir_all(&dst).unwrap();
    }
    println!("{replacing} of 8 kills while replacing");
}

#[test]
fn ctrl_c_ends_with_130_and_the_same_command_goes_on() {
    ends_in_good_order(Signal::INT);
}

#[test]
fn sigterm_ends_with_130_as_ctrl_c_does() {
    ends_in_good_order(Signal::TERM);
}

fn ends_in_good_order(which: Signal) {
    let bench = large();
    let whole_dst = bench.at("whole");
    bench.pack_to(&whole_dst, &SHARDS).code(0);
    let whole = contents(&whole_dst);
    for order in ["plan", "physical"] {
        let dst = bench.at(order);
        let options = [&SHARDS[..], &["--read-order", order, "--memory", "2MiB"]].concat();
        let mut child = spawn(&bench.src(), &dst, &options);
        assert!(wait_for(&mut child, || finished(&dst) > 2));
        signal(&child, which);
        let ran = Ran::from(child.wait_with_output().unwrap());
        ran.code(130).clean_error().says("interrupted").says("help: the same command resumes");
        assert!(!dst.join("manifest.json").exists());
        nothing_looks_finished(&dst, &whole);
        pack(&bench.src(), &dst, &options).code(0).says("shards were finished before");
        assert_eq!(contents(&dst), whole);
    }
}

#[test]
fn ctrl_c_right_after_the_start_ends_with_130_and_the_same_command_goes_on() {
    let bench = large();
    // On a busy machine the pack may finish before the signal arrives. If a shell makes the process ignore the signal, the
    // process ignores it until the handler is installed. In both cases the test retries with a longer delay.
    for attempt in 0..20 {
        let dst = bench.at(&format!("dst-{attempt}"));
        let mut child = spawn(&bench.src(), &dst, &SHARDS);
        thread::sleep(Duration::from_millis(5 + 3 * attempt));
        signal(&child, Signal::INT);
        let status = child.wait().unwrap();
        if status.success() {
            continue;
        }
        // Before the handler is installed the signal itself ends the process, which is accepted too.
        assert!(status.code() == Some(130) || status.signal() == Some(2), "{status}");
        bench.pack_to(&dst, &SHARDS).code(0);
        Dataset::read(&dst);
        return;
    }
    panic!("it was never interrupted");
}

#[test]
fn two_packers_at_once_the_second_is_refused_and_the_first_goes_on() {
    let bench = large();
    let dst = bench.dst();
    let mut child = spawn(&bench.src(), &dst, &SHARDS);
    assert!(wait_for(&mut child, || finished(&dst) > 0));
    // A stopped process keeps the lock.
    signal(&child, Signal::STOP);
    bench.pack(&SHARDS).code(2).clean_error().says("another shardpack is packing into this folder");
    bench.pack(&["--force"]).code(2).clean_error().says("another shardpack is packing into this folder");
    signal(&child, Signal::CONT);
    Ran::from(child.wait_with_output().unwrap()).code(0);
    Dataset::read(&dst).check_source(&bench.src());
}

#[test]
fn a_shard_that_was_damaged_or_cut_in_between_is_packed_again() {
    let bench = large();
    let whole_dst = bench.at("whole");
    bench.pack_to(&whole_dst, &SHARDS).code(0);
    let whole = contents(&whole_dst);
    let dst = bench.dst();
    let mut child = spawn(&bench.src(), &dst, &SHARDS);
    assert!(wait_for(&mut child, || finished(&dst) >= 6));
    child.kill().unwrap();
    child.wait().unwrap();
    let mut indexes: Vec<_> = fs::read_dir(dst.join("index")).unwrap().map(|entry| entry.unwrap().path()).collect();
    indexes.sort();
    let shard = |index: &Path| dst.join(index.file_stem().unwrap()).with_extension("tar");
    // A power failure before these reached the disk: a short shard, no shard, an index with a wrong byte, half an index.
    fs::OpenOptions::new().write(true).open(shard(&indexes[0])).unwrap().set_len(5000).unwrap();
    fs::remove_file(shard(&indexes[1])).unwrap();
    let mut bytes = fs::read(&indexes[2]).unwrap();
    bytes[200] ^= 1;
    fs::write(&indexes[2], &bytes).unwrap();
    fs::write(&indexes[3], &bytes[..bytes.len() / 2]).unwrap();
    bench.pack(&SHARDS).code(0).says("finished before");
    assert_eq!(contents(&dst), whole);
}

/// Three small shards and a large one, in source order: a limit on the file size is reached in the last shard.
fn uneven() -> (Bench, [&'static str; 6]) {
    let bench = Bench::new();
    for number in 0..12 {
        bench.file(format!("a/{number:02}.jpg"), &jpeg(number, 20_000));
    }
    for number in 0..4 {
        bench.file(format!("b/{number:02}.jpg"), &jpeg(number, 300_000));
    }
    (bench, ["--order", "source", "--shard-samples", "4", "--jobs", "1"])
}

#[test]
fn a_write_that_the_system_refuses_names_the_file_and_the_same_command_goes_on() {
    let (bench, options) = uneven();
    let whole_dst = bench.at("whole");
    bench.pack_to(&whole_dst, &options).code(0);
    let (src, dst) = (bench.src(), bench.dst());
    let args = [&["pack", src.to_str().unwrap(), dst.to_str().unwrap()][..], &options].concat();
    // 512,000 bytes in dash, 1,024,000 in bash; the last shard has 1.2 MB. If the signal is ignored, the write fails with an
    // error.
    let ran = run_after("trap '' XFSZ && ulimit -f 1000", &args).code(2).clean_error();
    ran.says("shard-000003.tar").says("File too large");
    nothing_looks_finished(&dst, &contents(&whole_dst));
    assert!(!dst.join("manifest.json").exists());
    run(&args).code(0);
    assert_eq!(contents(&dst), contents(&whole_dst));
}

#[test]
fn too_few_file_descriptors_are_named_and_the_same_command_goes_on() {
    let bench = Bench::with_source(200, 1000);
    let whole_dst = bench.at("whole");
    bench.pack_to(&whole_dst, &["--shards", "40"]).code(0);
    let whole = contents(&whole_dst);
    let (src, dst) = (bench.src(), bench.dst());
    let args = ["pack", src.to_str().unwrap(), dst.to_str().unwrap(), "--shards", "40", "--jobs", "7"];
    let (mut refused, mut done) = (0, 0);
    for descriptors in (6..30).chain([64]) {
        let ran = run_after(&format!("ulimit -n {descriptors}"), &args);
        if ran.code == 0 {
            done += 1;
        } else {
            refused += 1;
            ran.code(2).clean_error().says("too few file descriptors").says(bench.at("").to_str().unwrap());
            nothing_looks_finished(&dst, &whole);
            run(&args).code(0);
        }
        assert_eq!(contents(&dst), whole, "{descriptors} descriptors");
        fs::remove_dir_all(&dst).unwrap();
    }
    println!("{refused} limits were too low, {done} were enough");
    assert!(refused > 0 && done > 0);
}

#[test]
fn more_than_there_is_space_for_is_refused_at_once() {
    let bench = Bench::new();
    // Sparse 3 GiB that take no disk space, thousands of times.
    fs::File::create(bench.at("hole")).unwrap().set_len(3 << 30).unwrap();
    let free = rustix::fs::statvfs(bench.src()).map(|stat| stat.f_bavail * stat.f_frsize).unwrap();
    for number in 0..free / (3 << 30) + 2 {
        bench.link(&format!("a/{number:06}.jpg"), bench.at("hole"));
    }
    let start = Instant::now();
    let ran = bench.pack(&["--quiet"]).code(2).clean_error();
    ran.says("needs ").says(" are free").says("help: free space, or choose another disk");
    assert!(start.elapsed() < Duration::from_secs(20));
    assert!(!bench.dst().exists(), "a refusal leaves nothing behind");
    let (src, dst) = (bench.src(), bench.dst());
    run(&["plan", src.to_str().unwrap(), dst.to_str().unwrap()]).code(0).says("NOT ENOUGH");
}

#[test]
fn a_folder_that_cannot_be_written_is_refused_by_name() {
    let bench = Bench::with(&["a/1.jpg"]);
    // Even root cannot create a folder there.
    let ran = bench.pack_to(Path::new("/proc/self/packed"), &[]).code(2).clean_error();
    ran.says("/proc/self: cannot write to");
    bench.file("b/2.jpg", &jpeg(5, 6000));
    fs::write(bench.at("file"), b"").unwrap();
    let ran = bench.pack_to(&bench.at("file"), &[]).code(2).clean_error();
    ran.says(bench.at("file").to_str().unwrap());
    if !mounts_work() {
        // The rest of the test needs a user without write permission.
        println!("no mounts here: a read-only file system was not tried");
        return;
    }
    let dst = bench.at("mounted");
    fs::create_dir(&dst).unwrap();
    let ran = on_tmpfs(&dst, "ro", "exec \"$@\"", &bench, &[]);
    ran.code(2).clean_error().says(dst.to_str().unwrap()).says("Read-only file system").says("help: choose a folder");
}

/// Runs `script` with a tmpfs at `dst` in a mount namespace; the arguments of the script are those of `pack`.
fn on_tmpfs(dst: &Path, mount: &str, script: &str, bench: &Bench, options: &[&str]) -> Ran {
    let script = format!("mount -t tmpfs -o {mount} none {} && {script}", dst.display());
    let mut command = Command::new("unshare");
    command.args(["-m", "sh", "-c", &script, "sh"]).arg(binary()).arg("pack").arg(bench.src()).arg(dst).args(options);
    command.output().unwrap().into()
}

#[test]
fn a_disk_that_fills_up_is_named_and_the_same_command_goes_on() {
    if !mounts_work() {
        // `a_write_that_the_system_refuses_…` covers the same case with a limit on the file size.
        println!("no mounts here: a full file system was not tried, a refused write is tried in the test before");
        return;
    }
    let (bench, options) = uneven();
    let whole_dst = bench.at("whole");
    bench.pack_to(&whole_dst, &options).code(0);
    let dst = bench.at("mounted");
    fs::create_dir(&dst).unwrap();

    // A tmpfs with few inodes reports free space and then refuses the next file: the same error as a full disk.
    let script = "\"$@\"; echo first $? >&2; mount -o remount,nr_inodes=1000 none \"$4\" && \"$@\" && cp -r \"$4\" \"$4/../kept\"";
    let ran = on_tmpfs(&dst, "size=8m,nr_inodes=9", script, &bench, &options).code(0).says("first 2");
    let ran = ran.says("No space left on device").says("help: free space and run the same command again");
    ran.says(dst.to_str().unwrap());
    assert_eq!(contents(&bench.at("kept")), contents(&whole_dst));

    // Another program fills the tmpfs during the copy while the packer is stopped; then the space is free again. The
    // partial shard must not block the complete shard.
    let bench = large();
    let options = ["--shards", "10", "--jobs", "1"];
    let whole_dst = bench.at("whole");
    bench.pack_to(&whole_dst, &options).code(0);
    let dst = bench.at("mounted");
    fs::create_dir(&dst).unwrap();
    let script = r#"
        "$@" & pid=$!
        until [ "$(ls "$4/index" 2>/dev/null | wc -l)" -ge 2 ]; do sleep 0.002; done
        kill -STOP $pid && cat /dev/zero > "$4/ballast" 2>/dev/null
        kill -CONT $pid; wait $pid; echo first $? >&2
        # As large as its shard, so that there is no space for both.
        rm "$4/ballast"; head -c 3000000 /dev/zero > "$4/.shardpack/shard-000009.tar.part"
        "$@" && cp -r "$4" "$4/../kept""#;
    let needed: u64 = fs::read_dir(&whole_dst).unwrap().map(|entry| entry.unwrap().metadata().unwrap().len()).sum();
    let size = format!("size={}k", needed / 1024 + 1800);
    let ran = on_tmpfs(&dst, &size, script, &bench, &options).code(0).says("first 2");
    let ran = ran.says("No space left on device").says("help: free space and run the same command again");
    ran.says("finished before").says(dst.to_str().unwrap());
    assert_eq!(contents(&bench.at("kept")), contents(&whole_dst));
}

#[test]
fn the_photographs_survive_a_kill_too() {
    let bench = Bench::new();
    let whole_dst = bench.at("whole");
    pack(&photos(), &whole_dst, &["--shards", "8"]).code(0);
    for wait_ms in [5, 10, 20, 40] {
        let dst = bench.at(&format!("dst-{wait_ms}"));
        let mut child = spawn(&photos(), &dst, &["--shards", "8"]);
        thread::sleep(Duration::from_millis(wait_ms));
        child.kill().unwrap();
        child.wait().unwrap();
        nothing_looks_finished(&dst, &contents(&whole_dst));
        pack(&photos(), &dst, &["--shards", "8"]).code(0);
        assert_eq!(contents(&dst), contents(&whole_dst));
    }
}

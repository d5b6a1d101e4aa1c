//! I/O errors during reads and writes of non-image samples: transient errors change nothing, lasting errors end the run, and the same
//! command resumes.

use std::{fs, path::Path};

use shardpack_testing::{
    Bench, contents,
    faults::{self, EIO, ENOSPC, ESTALE, fault},
    run, sweep,
    values::{READERS, convert, write},
};

/// Values in several kinds of files: the command that reads the source, the path of the source, and part of the path of one file.
fn sources(bench: &Bench) -> Vec<(&'static str, String, String)> {
    let out = bench.at("values");
    fs::create_dir(&out).unwrap();
    assert!(write("SHARDPACK_PYTHON", "write_values.py", &[out.to_str().unwrap()]));
    let npz = bench.at("npz");
    fs::create_dir(&npz).unwrap();
    assert!(write("SHARDPACK_PYTHON", "write_npz.py", &[npz.to_str().unwrap()]));
    let at = |path: &Path| path.to_str().unwrap().to_owned();
    let mut sources = vec![
        ("convert", at(&out.join("dicts")), "dicts/2.lmdb".to_owned()),
        ("convert", at(&out.join("table.h5")), "table.h5".to_owned()),
        ("pack", at(&npz.join("good")), "good/dog/1.npz".to_owned()),
    ];
    // As foreign shards: only files of the format itself.
    for (format, _) in READERS {
        let (ours, dst) = (bench.at(&format!("ours-{format}")), bench.at(&format!("of-{format}")));
        convert(&out.join("tuples.lmdb"), &ours, &["--format", format]).code(0);
        fs::create_dir(&dst).unwrap();
        for name in fs::read_dir(&ours).unwrap().map(|entry| entry.unwrap().file_name()) {
            let text = name.to_str().unwrap();
            if text.starts_with("shard") && !text.ends_with(".idx") || text == "index.json" {
                fs::copy(ours.join(&name), dst.join(&name)).unwrap();
            }
        }
        let shard = if format == "tfrecord" { "shard-00001-of" } else { "shard-000001" };
        let shard = if format == "mds" { "shard.00001" } else { shard };
        sources.push(("convert", at(&dst), format!("of-{format}/{shard}")));
    }
    sources
}

#[test]
fn reads_of_values_that_fail_change_nothing_or_end_the_run() {
    let bench = Bench::new();
    let mut whole = 0;
    for (number, (command, source, file)) in sources(&bench).iter().enumerate() {
        let expected = bench.at(&format!("expected-{number}"));
        let args = |dst: &Path| {
            [*command, source, dst.to_str().unwrap(), "--jobs", "1", "--on-bad", "skip"].map(str::to_owned)
        };
        run(&args(&expected)).code(0);
        let dst = bench.at("dst");
        for (call, errno) in [("open", EIO), ("read", EIO), ("read", ESTALE)] {
            for (_, when) in sweep::turns([1, 2, 4, 0], number) {
                let Some(ran) = faults::run(&[fault(call, errno, when, file)], &args(&dst)) else { return };
                let said = format!("{command} {file}: {call} {errno}, call {when}: {}", ran.stderr);
                match ran.code {
                    // The call was retried, or the run made fewer calls.
                    0 => {
                        assert!(when != 0 || call != "open", "{said}");
                        whole += 1;
                        assert!(contents(&dst) == contents(&expected), "{said}");
                    }
                    code => {
                        assert_eq!(code, 2, "{said}");
                        ran.clean_error();
                        assert!(!dst.join("manifest.json").exists(), "{said}");
                        // Without the error, the same command completes.
                        run(&args(&dst)).code(0);
                        assert!(contents(&dst) == contents(&expected), "{said}");
                    }
                }
                fs::remove_dir_all(&dst).unwrap();
            }
        }
    }
    assert!(whole > 0);
}

#[test]
fn a_disk_that_fills_while_values_are_written_leaves_what_the_same_command_ends() {
    let bench = Bench::new();
    let (_, source, _) = sources(&bench).swap_remove(0);
    for (number, (format, _)) in READERS.into_iter().enumerate() {
        let args = |dst: &Path| {
            ["convert", &source, dst.to_str().unwrap(), "--format", format, "--shards", "3", "--jobs", "1"]
                .map(str::to_owned)
        };
        let expected = bench.at(&format!("expected-{format}"));
        run(&args(&expected)).code(0);
        let dst = bench.at("dst");
        let mut ended = 0;
        for (call, errno) in [("write", ENOSPC), ("write", EIO), ("sync", EIO), ("rename", EIO)] {
            for (_, when) in sweep::turns([1, 2, 5, 9], number) {
                let Some(ran) = faults::run(&[fault(call, errno, when, "/dst")], &args(&dst)) else { return };
                let said = format!("{format}: {call} {errno}, call {when}: {}", ran.stderr);
                if ran.code != 0 {
                    ended += 1;
                    assert_eq!(ran.code, 2, "{said}");
                    ran.clean_error();
                    assert!(!dst.join("manifest.json").exists() || call != "write", "{said}");
                    run(&args(&dst)).code(0);
                }
                assert!(contents(&dst) == contents(&expected), "{said}");
                fs::remove_dir_all(&dst).unwrap();
            }
        }
        assert!(ended > sweep::points(4, 2), "{format}: {ended}");
    }
}

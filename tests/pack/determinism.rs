//! The same source, options and seed give the same folder, byte for byte, for any number of threads, memory and read order.

use shardpack_testing::{Bench, Dataset, contents, members, plain, run};

#[test]
fn the_bytes_do_not_depend_on_threads_memory_or_order_of_reading() {
    let bench = Bench::with_source(700, 60_000);
    // Some images are large, so that a 9 MiB window holds anywhere from one to all spans of a shard.
    for number in 0..4 {
        bench.file(format!("class-0/large-{number}.jpg"), &shardpack_testing::jpeg(number, 2_500_000));
    }
    let shards = ["--shard-size", "12MiB", "--meta", "json"];
    let reference = bench.dst();
    bench.pack_to(&reference, &[&shards[..], &["--jobs", "1", "--read-order", "plan"]].concat()).code(0);
    let dataset = Dataset::read(&reference);
    dataset.check_source(&bench.src());
    assert_eq!(dataset.samples.len(), 704);
    assert!(dataset.manifest.shards.len() > 2);
    let expected = contents(&reference);
    for jobs in ["1", "2", "7"] {
        for order in ["plan", "physical"] {
            // The longest sample takes 2.8 MiB, a span of a shard 8 MiB, all images 30 MiB.
            for memory in ["3MiB", "11MiB", "1GiB"] {
                let dst = bench.at(&format!("dst-{jobs}-{order}-{memory}"));
                let how = ["--jobs", jobs, "--read-order", order, "--memory", memory];
                bench.pack_to(&dst, &[&shards[..], &how].concat()).code(0);
                assert_eq!(contents(&dst), expected, "{how:?}");
                std::fs::remove_dir_all(&dst).unwrap();
            }
        }
    }
}

#[test]
fn a_budget_below_the_longest_sample_is_refused_with_one_that_works() {
    let bench = Bench::with(&["a/1.jpg"]);
    bench.file("a/2.jpg", &shardpack_testing::jpeg(1, 2_500_000));
    for order in ["plan", "physical"] {
        bench.pack(&["--memory", "1MiB", "--read-order", order]).code(2).clean_error().says("--memory").says("3MiB");
    }
    // The memory does not affect the output, so `pack` resumes in the same folder.
    bench.pack(&["--memory", "3MiB"]).code(0);
    Dataset::read(&bench.dst()).check_source(&bench.src());
}

#[test]
fn bad_images_leave_the_same_bytes_whatever_the_threads_and_order() {
    let bench = Bench::with_source(300, 40_000);
    let plan = bench.at("plan");
    let plan = plan.to_str().unwrap();
    let src = bench.src();
    run(&["plan", src.to_str().unwrap(), "dst", "--shards", "5", "-o", plan]).code(0);
    let mut files: Vec<_> =
        contents(&src).into_iter().filter(|(_, hash)| !hash.is_empty()).map(|(path, _)| path).collect();
    files.sort();
    for path in files.iter().step_by(17) {
        std::fs::remove_file(src.join(path)).unwrap();
    }
    let mut expected = None;
    for (number, how) in
        [["1", "plan", "1GiB"], ["7", "plan", "1GiB"], ["2", "physical", "9MiB"], ["7", "physical", "1MiB"]]
            .iter()
            .enumerate()
    {
        let dst = bench.at(&format!("dst-{number}"));
        let [jobs, order, memory] = how;
        let options = ["--on-bad", "skip", "--jobs", jobs, "--read-order", order, "--memory", memory];
        run(&[&["pack", "--plan", plan, dst.to_str().unwrap()][..], &options].concat()).code(0);
        let dataset = Dataset::read(&dst);
        assert_eq!((dataset.samples.len(), dataset.ledger.len()), (282, 18));
        assert_eq!(&contents(&dst), expected.get_or_insert_with(|| contents(&dst)), "{how:?}");
    }
}

#[test]
fn seed_and_order_alone_decide_who_goes_where() {
    let bench = Bench::with_source(60, 2000);
    let order = |options: &[&str]| {
        let dst = bench.dst();
        bench.pack(&[options, &["--force"]].concat()).code(0);
        let dataset = Dataset::read(&dst);
        (dataset.samples.iter().map(|s| s.path.clone()).collect::<Vec<_>>(), dataset.manifest.id)
    };
    let (zero, zero_id) = order(&[]);
    assert_eq!(order(&["--seed", "0"]), (zero.clone(), zero_id));
    let (one, _) = order(&["--seed", "1"]);
    assert_ne!(one, zero);
    // The order does not depend on the cuts between shards.
    assert_eq!(order(&["--shards", "7"]).0, zero);
    let (source, _) = order(&["--order", "source", "--shards", "3"]);
    assert!(source.is_sorted());
    let mut sorted = zero;
    sorted.sort();
    assert_eq!(sorted, source);
}

#[test]
fn a_copy_of_the_source_elsewhere_gives_the_same_bytes() {
    let (one, other) = (Bench::with_source(40, 3000), Bench::with_source(40, 3000));
    one.pack(&["--shards", "2"]).code(0);
    other.pack(&["--shards", "2"]).code(0);
    assert_ne!(one.dst(), other.dst());
    assert_eq!(contents(&one.dst()), contents(&other.dst()));
}

#[test]
fn a_compressed_shard_unpacks_to_the_bytes_of_the_plain_one() {
    let bench = Bench::with_source(120, 20_000);
    let packed = bench.at("zst");
    bench.pack(&["--shards", "3"]).code(0);
    bench.pack_to(&packed, &["--shards", "3", "--compress", "zstd:3", "--jobs", "1"]).code(0);
    let (plain_set, packed_set) = (Dataset::read(&bench.dst()), Dataset::read(&packed));
    packed_set.check_source(&bench.src());
    assert_eq!(packed_set.manifest.format.compression, "zstd:3");
    for (tar, zst) in plain_set.manifest.shards.iter().zip(&packed_set.manifest.shards) {
        assert_eq!(zst.file, format!("{}.zst", tar.file));
        assert!(plain(&packed.join(&zst.file)) == plain(&bench.dst().join(&tar.file)), "{}", zst.file);
        assert_eq!(members(&packed.join(&zst.file)), members(&bench.dst().join(&tar.file)));
        if let Ok(output) = std::process::Command::new("zstd").args(["-dcq"]).arg(packed.join(&zst.file)).output() {
            assert!(output.stdout == plain(&bench.dst().join(&tar.file)), "zstd -d of {}", zst.file);
        } else {
            eprintln!("no zstd command here: only the zstd library was asked");
        }
    }
    let other = bench.at("zst-2");
    for order in ["plan", "physical"] {
        for memory in ["1MiB", "1GiB"] {
            let how = ["--jobs", "7", "--read-order", order, "--memory", memory, "--force"];
            bench.pack_to(&other, &[&["--shards", "3", "--compress", "zstd:3"][..], &how].concat()).code(0);
            assert_eq!(contents(&other), contents(&packed), "{how:?}");
        }
    }
}

#[test]
fn an_mds_shard_that_is_one_frame_has_the_same_bytes_however_the_work_is_done() {
    let bench = Bench::with_source(120, 20_000);
    let options = ["--format", "mds", "--shards", "3", "--compress", "zstd:3"];
    bench.pack(&[&options[..], &["--jobs", "1"]].concat()).code(0);
    let other = bench.at("other");
    for order in ["plan", "physical"] {
        for memory in ["1MiB", "1GiB"] {
            let how = ["--jobs", "7", "--read-order", order, "--memory", memory, "--force"];
            bench.pack_to(&other, &[&options[..], &how].concat()).code(0);
            assert_eq!(contents(&other), contents(&bench.dst()), "{how:?}");
        }
    }
    // A single frame with its content size, and no bytes after it.
    let packed = std::fs::read(other.join("shard.00000.mds.zstd")).unwrap();
    let content = zstd::decode_all(packed.as_slice()).unwrap();
    assert_eq!(zstd::zstd_safe::get_frame_content_size(&packed).unwrap(), Some(content.len() as u64));
    assert_eq!(zstd::zstd_safe::find_frame_compressed_size(&packed).unwrap(), packed.len());
}

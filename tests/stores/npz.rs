//! Samples that are `.npz` files below URLs: the output is byte for byte that of the same tree in a folder.

use std::{fs, path::Path, time::Duration};

use shardpack_testing::{
    Bench,
    places::{each, files_in, run, same, settings},
    server::{Fault, Nginx, Proxy},
};

/// A `.npy` file of `items` float32 values: `first`, `first + 1`, ….
fn npy(first: usize, items: usize) -> Vec<u8> {
    let mut head = format!("{{'descr': '<f4', 'fortran_order': False, 'shape': ({items},), }}");
    while (10 + head.len() + 1) % 64 > 0 {
        head.push(' ');
    }
    head.push('\n');
    let mut bytes = [b"\x93NUMPY\x01\x00", &(head.len() as u16).to_le_bytes()[..], head.as_bytes()].concat();
    (first..first + items).for_each(|item| bytes.extend((item as f32).to_le_bytes()));
    bytes
}

fn crc(bytes: &[u8]) -> u32 {
    let step =
        |crc: u32, byte: &u8| (0..8).fold(crc ^ u32::from(*byte), |crc, _| (crc >> 1) ^ (0xedb8_8320 * (crc & 1)));
    !bytes.iter().fold(!0, step)
}

/// A zip archive with uncompressed members.
fn npz(members: &[(&str, Vec<u8>)]) -> Vec<u8> {
    let (mut out, mut directory) = (Vec::new(), Vec::new());
    for (name, content) in members {
        let at = out.len() as u32;
        let mut facts = [20u16, 0, 0, 0, 0x21].map(u16::to_le_bytes).concat();
        facts.extend([crc(content), content.len() as u32, content.len() as u32].map(u32::to_le_bytes).concat());
        facts.extend([name.len() as u16, 0].map(u16::to_le_bytes).concat());
        out.extend([b"PK\x03\x04", &facts[..], name.as_bytes(), content].concat());
        let rest = [&[0; 10][..], &at.to_le_bytes(), name.as_bytes()].concat();
        directory.extend([b"PK\x01\x02\x14\x00", &facts[..], &rest].concat());
    }
    let (at, bytes, count) = (out.len() as u32, directory.len() as u32, members.len() as u16);
    let end = [b"PK\x05\x06\0\0\0\0", &[count, count].map(u16::to_le_bytes).concat()[..]].concat();
    [out, directory, end, [bytes, at].map(u32::to_le_bytes).concat(), vec![0, 0]].concat()
}

/// A tree with three classes; each sample has one or two arrays, and some samples have a caption.
fn tree() -> Bench {
    let bench = Bench::new();
    for number in 0..40 {
        let class = ["cat", "dog", "eel"][number % 3];
        let mut members = vec![("x.npy", npy(number * 1000, 300 + number * 7))];
        if number % 4 > 0 {
            members.push(("mask.npy", npy(number, 5)));
        }
        bench.file(format!("{class}/{number:02}.npz"), &npz(&members));
        if number % 2 > 0 {
            bench.file(format!("{class}/{number:02}.txt"), format!("said {number}").as_bytes());
        }
    }
    for name in ["stored", "deflated"] {
        let path = format!("{}/fixtures/npz/{name}.npz", env!("CARGO_MANIFEST_DIR"));
        bench.file(format!("eel/{name}.npz"), &fs::read(path).unwrap());
    }
    bench
}

fn pack(from: &str, to: &Path, settings: &[String], options: &[&str]) -> shardpack_testing::Ran {
    let settings = settings.iter().map(String::as_str);
    let words: Vec<_> = ["pack", from, to.to_str().unwrap(), "--seed", "3"].into_iter().chain(settings).collect();
    run(&[&words[..], options].concat(), &[])
}

const CASES: [&[&str]; 3] = [
    &["--files", "npz", "--shards", "3"],
    &["--format", "mds", "--with", "txt", "--files", "npz", "--shards", "2"],
    &["--files", "npz", "--format", "tfrecord", "--split-fraction", "val=0.3"],
];

#[test]
fn arrays_below_a_url_are_those_of_the_folder() {
    let bench = tree();
    let whole: Vec<_> = (0..)
        .zip(CASES)
        .map(|(number, options)| {
            let local = bench.at(&format!("local-{number}"));
            let said = pack(bench.src().to_str().unwrap(), &local, &[], options).code(0);
            said.says("each .npz is a sample of its arrays").says("42 samples");
            files_in(&local)
        })
        .collect();
    let faults =
        [Fault::Status(503, false), Fault::Drop, Fault::Cut(100), Fault::Lost, Fault::Delay(Duration::from_millis(9))];
    each(|server| {
        server.put_folder(&bench.src(), "arrays");
        let (kind, url) = (format!("{:?}", server.kind), server.url("arrays"));
        for (number, options) in CASES.into_iter().enumerate() {
            let dst = bench.at(&format!("{kind}-{number}"));
            pack(&url, &dst, &settings(server, server.port()), options).code(0).says("network ");
            same(&whole[number], &files_in(&dst), &format!("{kind} {options:?}"));
        }
        let proxy = Proxy::start(server.port());
        for fault in faults {
            proxy.fail(5, fault);
            let dst = bench.at(&format!("{kind}-fault"));
            pack(&url, &dst, &settings(server, proxy.port()), CASES[1]).code(0);
            same(&whole[1], &files_in(&dst), &format!("{kind} {fault:?}"));
            fs::remove_dir_all(dst).unwrap();
        }
        assert!(proxy.faults() > faults.len() as u64);
        // `verify --against` reads the sources as well.
        let local = bench.at("local-1").display().to_string();
        let settings = settings(server, server.port());
        let against = [&["verify", &local, "--against", &url].map(str::to_owned)[..], &settings].concat();
        run(&against, &[]).code(0);
        // One file gets another array; then the file is not a zip archive.
        server.put("arrays/cat/00.npz", &npz(&[("x.npy", npy(7, 300))]));
        run(&against, &[]).code(1).says("cat/00.npz");
        server.put("arrays/cat/00.npz", b"no zip");
        let dst = bench.at(&format!("{kind}-bad"));
        pack(&url, &dst, &settings, &["--files", "npz"]).code(1).says("cat/00.npz");
        pack(&url, &dst, &settings, &["--files", "npz", "--on-bad", "skip"]).code(0).says("41 of 42 samples");
    });
}

#[test]
fn a_list_of_arrays_is_packed_from_a_web_server_whatever_is_changed_on_the_way() {
    let Some(nginx) = Nginx::start() else { return };
    let bench = tree();
    let mut lines = String::from("path,label\n");
    for number in 0..40 {
        let class = ["cat", "dog", "eel"][number % 3];
        lines += &format!("{class}/{number:02}.npz,{class}\n");
    }
    let list = bench.at("list.csv");
    fs::write(&list, lines).unwrap();
    let list = list.to_str().unwrap();
    let copied = std::process::Command::new("cp").arg("-rT").arg(bench.src()).arg(nginx.data().join("arrays")).status();
    assert!(copied.unwrap().success());
    let local = bench.at("local");
    pack(list, &local, &[], &["--root", bench.src().to_str().unwrap()]).code(0).says("40 of 40 samples");
    let whole = files_in(&local);
    let proxy = Proxy::start(nginx.port());
    for (number, fault) in [Fault::Delay(Duration::ZERO), Fault::Cut(200), Fault::Flip(300)].into_iter().enumerate() {
        // The retry returns correct data.
        proxy.fail(if matches!(fault, Fault::Flip(_)) { 7 } else { 3 }, fault);
        let dst = bench.at(&format!("dst-{number}"));
        let one = ["--root", &proxy.url("arrays"), "--store", "requests=1"];
        pack(list, &dst, &[], &one).code(0).says("40 of 40 samples");
        same(&whole, &files_in(&dst), &format!("{fault:?}"));
    }
    assert!(proxy.faults() > 10);
}

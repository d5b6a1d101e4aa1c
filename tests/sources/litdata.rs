//! Chunks of LitData, made as its writer makes them: plain, compressed as a whole, and compressed in batches.
//! `python/tests/test_litdata.py` has the same with LitData itself.

use std::{fs, path::Path};

use shardpack_testing::{Bench, Ran, images, jpeg, run};

/// Samples of a chunk, and of a batch in it.
const SAMPLES: [usize; 2] = [5, 2];

fn words(words: impl IntoIterator<Item = usize>) -> Vec<u8> {
    words.into_iter().flat_map(|word| (word as u32).to_le_bytes()).collect()
}

fn samples(chunk: usize) -> Vec<Vec<u8>> {
    let sample = |number: usize| {
        let fields = [jpeg(number as u64, 6000), (number as u64 % 3).to_le_bytes().to_vec(), b"a caption".to_vec()];
        [words(fields.iter().map(Vec::len)), fields.concat()].concat()
    };
    (0..SAMPLES[0]).map(|number| sample(chunk * SAMPLES[0] + number)).collect()
}

/// Offsets of the samples, if the first begins at `at`.
fn offsets(samples: &[Vec<u8>], mut at: usize) -> Vec<usize> {
    let mut all = vec![at];
    for sample in samples {
        at += sample.len();
        all.push(at);
    }
    all
}

fn plain(samples: &[Vec<u8>]) -> Vec<u8> {
    let head = [vec![samples.len()], offsets(samples, 4 * (samples.len() + 2))].concat();
    [words(head), samples.concat()].concat()
}

fn in_batches(samples: &[Vec<u8>]) -> Vec<u8> {
    let batches: Vec<&[Vec<u8>]> = samples.chunks(SAMPLES[1]).collect();
    let mut at = 24 + 4 * (samples.len() + 1) + 24 * batches.len();
    let (mut table, mut frames) = (Vec::new(), Vec::new());
    for (number, batch) in batches.iter().enumerate() {
        let frame = zstd::encode_all(&*batch.concat(), 3).unwrap();
        table.extend([number * SAMPLES[1], batch.len(), at, 0, frame.len(), batch.concat().len()]);
        at += frame.len();
        frames.push(frame);
    }
    let head = words([1, samples.len(), SAMPLES[1], batches.len()]);
    [b"LDFZ01\0\0".to_vec(), head, words(offsets(samples, 0)), words(table), frames.concat()].concat()
}

fn write(folder: &Path, extension: &str, chunk: impl Fn(&[Vec<u8>]) -> Vec<u8>) {
    fs::create_dir_all(folder).unwrap();
    let name = |number: usize| format!("chunk-0-{number}.{extension}");
    let entry =
        |number| format!(r#"{{"chunk_bytes": 1, "chunk_size": {}, "filename": "{}"}}"#, SAMPLES[0], name(number));
    let leaf = r#"{\"type\": null, \"context\": null, \"children_spec\": []}"#;
    let context = r#"[\\\"image\\\", \\\"label\\\", \\\"caption\\\"]"#;
    let spec = format!(
        r#"[1, {{\"type\": \"builtins.dict\", \"context\": \"{context}\", \"children_spec\": [{leaf}, {leaf}, {leaf}]}}]"#
    );
    let config = format!(r#"{{"data_format": ["jpeg", "int", "str"], "data_spec": "{spec}", "encryption": null}}"#);
    // More than nine: the order of the names is not the order of the samples.
    let entries: Vec<String> = (0..12).map(entry).collect();
    let index = format!(r#"{{"chunks": [{}], "config": {config}}}"#, entries.join(", "));
    fs::write(folder.join("index.json"), index).unwrap();
    (0..12).for_each(|number| fs::write(folder.join(name(number)), chunk(&samples(number))).unwrap());
}

fn convert(bench: &Bench, name: &str) -> Ran {
    let (source, packed) = (bench.at(name), bench.at(&format!("{name}-packed")));
    run(&["convert", source.to_str().unwrap(), packed.to_str().unwrap(), "--order", "source"])
}

#[test]
fn chunks_have_the_same_samples_however_they_are_compressed() {
    let bench = Bench::new();
    let mut expected: Vec<_> = (0..60).map(|number| (number as i64 % 3, jpeg(number, 6000))).collect();
    expected.sort();
    write(&bench.at("plain"), "bin", plain);
    write(&bench.at("whole"), "zstd.bin", |samples| zstd::encode_all(&*plain(samples), 3).unwrap());
    write(&bench.at("batches"), "bin", in_batches);
    // LitData unpacks a chunk beside the compressed one.
    fs::write(bench.at("whole").join("chunk-0-3.bin"), plain(&samples(3))).unwrap();
    for name in ["plain", "whole", "batches"] {
        convert(&bench, name).code(0);
        let packed = bench.at(&format!("{name}-packed"));
        assert!(images(&packed) == expected, "{name}");
        let dataset = shardpack_reader::Dataset::open(&packed).unwrap();
        let mut reader = dataset.reader(..).unwrap();
        for number in 0..60 {
            // Chunk 10 comes after chunk 9.
            assert!(*reader.next().unwrap().unwrap().bytes() == jpeg(number, 6000), "{name} {number}");
        }
        run(&["verify", packed.to_str().unwrap(), "--against", bench.at(name).to_str().unwrap()]).code(0);
    }
}

#[test]
fn nothing_of_a_dataset_is_left_out_without_a_word() {
    let bench = Bench::new();
    let convert = |name| convert(&bench, name);
    write(&bench.at("missing"), "bin", plain);
    fs::remove_file(bench.at("missing").join("chunk-0-4.bin")).unwrap();
    convert("missing").code(1).says("chunk-0-4.bin: is missing: index.json names it, with 5 samples");
    write(&bench.at("more"), "bin", plain);
    fs::write(bench.at("more").join("chunk-1-0.bin"), plain(&samples(0))).unwrap();
    convert("more").code(1).says("index.json does not name it");
    write(&bench.at("short"), "bin", |samples| plain(&samples[1..]));
    convert("short").code(1).says("4 samples, 5 in index.json");
    write(&bench.at("alone"), "bin", plain);
    fs::remove_file(bench.at("alone").join("index.json")).unwrap();
    convert("alone").code(1).says("a chunk of LitData without index.json beside it");
    write(&bench.at("damaged"), "bin", |samples| {
        let mut chunk = in_batches(samples);
        let end = chunk.len() - 9;
        chunk[end] ^= 1;
        chunk
    });
    convert("damaged").code(1);
}

//! Tar shards without a manifest: structure, duplicate keys, missing components, truncation.

use std::{
    collections::{BTreeMap, HashMap},
    fs::File,
    io::BufReader,
    path::{Path, PathBuf},
    time::Instant,
};

use rayon::prelude::*;
use shardpack_format::{
    Error, Result,
    formats::{
        foreign::{Sequential, Skip},
        webdataset::{
            reader::{Ending, Reader},
            samples::{ForeignSample, Grouper},
        },
    },
    hash,
};

use super::{Options, Problem, Report, decode};
use crate::{
    monitor::{Monitor, Phase},
    sys,
};

/// What one tar file came to.
#[derive(Default)]
struct Walked {
    problems: Vec<Problem>,
    /// Key and offset of each sample.
    keys: Vec<(u128, Vec<u8>, u64)>,
    /// Samples by their components.
    components: BTreeMap<Vec<Vec<u8>>, (u64, Vec<u8>, u64)>,
    samples: u64,
}

/// Tar files in a folder, sorted; empty if there are none.
///
/// # Errors
/// When the folder cannot be read.
pub fn tar_files(folder: &Path) -> Result<Vec<PathBuf>> {
    let failed = |e| sys::io_error("cannot read folder", folder, e);
    let mut files = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(failed)? {
        let path = entry.map_err(failed)?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        if !name.starts_with('.') && (name.ends_with(".tar") || name.ends_with(".tar.zst")) {
            files.push(path);
        }
    }
    files.sort();
    Ok(files)
}

/// Verifies tar files that nothing is known of.
///
/// # Errors
/// When a file cannot be opened. What is wrong in one is in the report.
pub fn verify(files: &[PathBuf], options: &Options, monitor: &dyn Monitor) -> Result<Report> {
    let start = Instant::now();
    let lengths = files.iter().map(|file| {
        file.metadata().map(|metadata| metadata.len()).map_err(|e| sys::io_error("cannot look at", file, e))
    });
    let lengths = lengths.collect::<Result<Vec<_>>>()?;
    monitor.begin(Phase::Verifying, 0, lengths.iter().sum());
    let walked: Vec<Walked> = files
        .par_iter()
        .zip(&lengths)
        .map(|(file, bytes)| {
            if monitor.interrupted() {
                return Err(crate::pack::interrupted());
            }
            let walked = walk(file, *bytes, options)?;
            monitor.advance(walked.samples, *bytes);
            Ok(walked)
        })
        .collect::<Result<_>>()?;
    let mut report = Report {
        samples: walked.iter().map(|walked| walked.samples).sum(),
        shards: files.len() as u64,
        read_bytes: lengths.iter().sum(),
        ..Report::default()
    };
    let usual = usual_components(&walked);
    let mut seen: HashMap<u128, usize> = HashMap::new();
    for (number, (file, mut walked)) in files.iter().zip(walked).enumerate() {
        let name = file.display().to_string();
        for (key_hash, key, offset) in &walked.keys {
            if let Some(first) = seen.insert(*key_hash, number) {
                let at = if first == number {
                    "earlier in this file".to_owned()
                } else {
                    format!("in {}", files[first].display())
                };
                let what = format!("the key stands {at} too: readers mix up or drop one of them");
                walked.problems.push(of_sample(&name, key, *offset, what));
            }
        }
        for (components, (samples, key, offset)) in &walked.components {
            if let Some(usual) = &usual
                && components != usual
            {
                let what =
                    format!("{samples} samples with components {}, others have {}", list(components), list(usual));
                walked.problems.push(of_sample(&name, key, *offset, what));
            }
        }
        report.damaged_shards += u64::from(!walked.problems.is_empty());
        report.damaged_samples += walked.problems.iter().filter(|problem| problem.key.is_some()).count() as u64;
        report.problems.append(&mut walked.problems);
    }
    report.elapsed = start.elapsed();
    Ok(report)
}

fn list(components: &[Vec<u8>]) -> String {
    components.iter().map(|name| String::from_utf8_lossy(name)).collect::<Vec<_>>().join("+")
}

fn of_sample(file: &str, key: &[u8], offset: u64, what: String) -> Problem {
    Problem {
        file: file.to_owned(),
        bytes: Some(offset..offset),
        key: Some(String::from_utf8_lossy(key).into_owned()),
        path: None,
        what,
    }
}

/// The components that most samples have.
fn usual_components(walked: &[Walked]) -> Option<Vec<Vec<u8>>> {
    let mut counts: BTreeMap<&Vec<Vec<u8>>, u64> = BTreeMap::new();
    for (components, (samples, ..)) in walked.iter().flat_map(|walked| &walked.components) {
        *counts.entry(components).or_default() += samples;
    }
    counts.into_iter().max_by_key(|(_, samples)| *samples).map(|(components, _)| components.clone())
}

fn walk(file: &Path, bytes: u64, options: &Options) -> Result<Walked> {
    let opened = File::open(file).map_err(|e| sys::io_error("cannot open", file, e))?;
    let packed = file.extension().is_some_and(|extension| extension == "zst");
    let (inner, length): (Box<dyn Skip>, _) = match packed {
        true => {
            let decoder = zstd::Decoder::new(opened).map_err(|e| sys::io_error("cannot unpack", file, e))?;
            (Box::new(Sequential(decoder)), None)
        }
        // A seek costs a system call; small members are passed over within the buffer.
        false => (Box::new(BufReader::with_capacity(64 << 10, opened)), Some(bytes)),
    };
    let mut walked = Walked::default();
    let name = file.display().to_string();
    if let Err(error) = members(inner, length, &name, options, &mut walked) {
        let at = error.location().byte;
        walked.problems.push(Problem {
            file: name,
            bytes: at.map(|at| at..bytes.max(at)),
            what: error.what(),
            ..Problem::default()
        });
    }
    Ok(walked)
}

fn members(
    inner: Box<dyn Skip>,
    length: Option<u64>,
    name: &str,
    options: &Options,
    walked: &mut Walked,
) -> Result<()> {
    let mut reader = Reader::new(inner, length);
    let mut grouper = Grouper::default();
    let mut data = Vec::new();
    loop {
        let member = match reader.next() {
            Ok(Some(member)) => member,
            Ok(None) => break,
            Err(error) => {
                // The last sample may be whole, or lack what was cut off: it is counted, the error says the rest.
                walked.note(grouper.finish());
                return Err(error);
            }
        };
        if options.decode && is_image(&member.name) {
            data.clear();
            reader.read_data(&mut data, 1 << 30)?;
            if let Err(what) = decode::decode(&data) {
                let what = format!("{}: {what}", String::from_utf8_lossy(&member.name));
                let range = member.data_offset..member.data_offset + member.bytes;
                walked.problems.push(Problem { file: name.to_owned(), bytes: Some(range), what, ..Problem::default() });
            }
        }
        match grouper.add(member) {
            Ok(sample) => walked.note(sample),
            Err(dropped) => walked.problems.push(Problem {
                file: name.to_owned(),
                bytes: Some(dropped.header_offset..dropped.header_offset + 512),
                what: format!("member {:?} is not read: {}", String::from_utf8_lossy(&dropped.name), dropped.issue),
                ..Problem::default()
            }),
        }
    }
    walked.note(grouper.finish());
    match reader.ending() {
        Ending::Marker => {}
        Ending::OneBlock => return Err(Error::data("ends in one block of zeros, not two: cut short?")),
        Ending::Missing => return Err(Error::data("ends without two blocks of zeros: cut short?")),
    }
    match reader.trailing_offset() {
        Some(at) => Err(Error::data("more bytes follow the end of the archive: readers do not see them").at_byte(at)),
        None if walked.samples == 0 => Err(Error::data("no sample in it")),
        None => Ok(()),
    }
}

fn is_image(name: &[u8]) -> bool {
    let extension = name.rsplit(|byte| *byte == b'.').next().unwrap_or_default().to_ascii_lowercase();
    crate::source::is_image_extension(&extension)
}

impl Walked {
    fn note(&mut self, sample: Option<ForeignSample>) {
        let Some(sample) = sample else { return };
        self.samples += 1;
        let mut components: Vec<Vec<u8>> = sample.components.iter().map(|c| c.extension.clone()).collect();
        components.sort();
        let entry = self.components.entry(components).or_insert_with(|| (0, sample.key.clone(), sample.offset));
        entry.0 += 1;
        self.keys.push((hash::content(&sample.key), sample.key, sample.offset));
    }
}

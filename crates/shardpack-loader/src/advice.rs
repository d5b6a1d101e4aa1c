//! Advice on a training run: facts in, findings out.
//!
//! Knows no dataset, no thread and no clock: callers collect the facts, and the same facts give the same findings.
//! Gains are estimates from the facts; figures behind the constants are in docs/explain/performance.md.

use std::fmt;

use serde::Serialize;

/// Facts of a run, or of the first seconds of one.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Facts {
    /// Folder or URL of the dataset, for commands.
    pub dataset: String,
    /// Time since the start, in milliseconds.
    pub elapsed_ms: f64,
    /// Time that the consumer waited for batches, in milliseconds.
    pub wait_ms: f64,
    /// Time that threads waited for data, in milliseconds; one waits at a time.
    pub data_wait_ms: f64,
    /// Samples made.
    pub samples: u64,
    /// Bytes of their payloads.
    pub sample_bytes: u64,
    /// Threads that make samples.
    pub threads: usize,
    /// Cores of the machine.
    pub cores: usize,
    /// Whether the data comes from a URL.
    pub is_remote: bool,
    /// Whether there is a cache of that data on a local disk.
    pub has_cache: bool,
    /// Whether samples are small files of a tar, which have a header of 512 bytes each.
    pub is_tar: bool,
    /// The images, if a native transform makes them.
    pub images: Option<ImageFacts>,
    /// Whether a function of the caller makes the samples.
    pub has_function: bool,
}

/// Facts of images and their transform.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ImageFacts {
    /// Pixels of an image, on average.
    pub pixels: f64,
    /// Longer side of the output in pixels.
    pub side: u32,
    /// Whether the transform cuts a part of each image.
    pub is_cropped: bool,
    /// Decoded JPEGs whose shard has no crop tables.
    pub without_tables: u64,
}

/// What limits a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Bound {
    /// The consumer: batches are ready before they are requested.
    Consumer,
    /// Reading from a disk.
    Disk,
    /// Reading from a server.
    Network,
    /// Decoding and transforms.
    Decode,
    /// A function of the caller.
    Function,
}

/// A way to make a run faster.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Finding {
    /// The fact behind it, in words.
    pub what: String,
    /// Factor by which the bound part may get faster; `None` if unknown.
    pub gain: Option<f64>,
    /// Command or option that brings it.
    pub command: String,
}

/// The bound of a run with findings, the greatest gain first.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Advice {
    /// What limits the run.
    pub bound: Bound,
    /// Share of the time that the consumer waited, 0 to 1.
    pub wait_share: f64,
    /// Ways to make the bound part faster.
    pub findings: Vec<Finding>,
}

/// Up to this share of waiting, the consumer is the bound: the first batch, and small irregularities.
const FREE_WAIT: f64 = 0.05;
/// Crop tables against none: row `training` of docs/explain/performance.md.
const TABLE_GAIN: f64 = 1.3;
/// Images with more pixels than this, for each pixel of the output, are too large: RandomResizedCrop takes half of an image
/// on average, and 256 pixels for a crop of 224 are usual.
const PIXELS_FOR_ONE: f64 = 8.0;
/// Shorter side after `--resize`, for each pixel of the output's side: leaves room for random crops.
const SIDE_FOR_ONE: f64 = 2.3;
/// Samples below this are small: a header of a tar takes more than a quarter of their space and reads.
const SMALL_BYTES: u64 = 2048;
/// Reads of small samples from MDS against tar: docs/reference/python.md.
const SMALL_GAIN: f64 = 3.0;

/// Findings for `facts`.
pub fn advise(facts: &Facts) -> Advice {
    let wait_share = (facts.wait_ms / facts.elapsed_ms.max(1e-3)).clamp(0.0, 1.0);
    let bound = bound(facts, wait_share);
    Advice { bound, wait_share, findings: findings(facts, bound) }
}

/// Ways to make a part of a run faster, the greatest gain first.
pub fn findings(facts: &Facts, bound: Bound) -> Vec<Finding> {
    let mut findings = match bound {
        Bound::Consumer => Vec::new(),
        Bound::Disk | Bound::Network => reading(facts, bound),
        Bound::Decode => decoding(facts),
        Bound::Function => vec![Finding {
            what: "a Python function makes the samples, and holds the GIL".to_owned(),
            gain: None,
            command: "transform=[…] of shardpack.transforms is native; after=function gets smaller images".to_owned(),
        }],
    };
    if matches!(bound, Bound::Decode | Bound::Function) && facts.threads < facts.cores {
        findings.push(Finding {
            what: format!("{} of {} cores make samples", facts.threads, facts.cores),
            gain: Some(facts.cores as f64 / facts.threads.max(1) as f64),
            command: "threads=0".to_owned(),
        });
    }
    findings.sort_by(|one, other| other.gain.unwrap_or(1.0).total_cmp(&one.gain.unwrap_or(1.0)));
    findings
}

/// The bound by the times of a run.
fn bound(facts: &Facts, wait_share: f64) -> Bound {
    if wait_share <= FREE_WAIT {
        return Bound::Consumer;
    }
    // Only one thread waits for data at a time; the others wait for it.
    match facts.data_wait_ms > 0.5 * facts.wait_ms {
        true if facts.is_remote => Bound::Network,
        true => Bound::Disk,
        false if facts.has_function => Bound::Function,
        false => Bound::Decode,
    }
}

/// Facts of a pack before it begins. There is no plan of images that are resized: their lengths are unknown.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct PackFacts {
    /// Samples to pack.
    pub samples: u64,
    /// Bytes of their payloads.
    pub sample_bytes: u64,
    /// Bytes of the shards, with components and headers.
    pub shard_bytes: u64,
    /// Whether most payloads are JPEG.
    pub is_jpeg: bool,
    /// Whether samples become small files of a tar.
    pub is_tar: bool,
    /// Whether crop tables are made too.
    pub has_crops: bool,
}

/// JPEGs above this are photos of cameras: 256 KiB hold about 1 megapixel, and crops of 224 pixels need a fifth of that.
const LARGE_BYTES: u64 = 256 << 10;

/// Options of a pack that make training on its dataset faster, the greatest known gain first.
pub fn of_pack(facts: &PackFacts) -> Vec<Finding> {
    let mean = facts.sample_bytes / facts.samples.max(1);
    let mut findings = Vec::new();
    let in_shards = facts.shard_bytes / facts.samples.max(1);
    // Payload and label have a header and a rounded size each.
    if facts.is_tar && facts.samples > 0 && in_shards < 2 * SMALL_BYTES {
        findings.push(small(in_shards, "--format mds".to_owned()));
    }
    if facts.is_jpeg && !facts.has_crops {
        findings.push(Finding {
            what: "random crops of JPEGs are decoded faster with crop tables".to_owned(),
            gain: Some(TABLE_GAIN),
            command: "--crops".to_owned(),
        });
    }
    if facts.is_jpeg && mean > LARGE_BYTES {
        findings.push(Finding {
            what: format!(
                "images have {:.1} MB on average, and crops of 224 × 224 need a part of that",
                mean as f64 / 1e6
            ),
            gain: None,
            command: "--resize 512".to_owned(),
        });
    }
    findings
}

/// Small samples in a tar.
fn small(bytes: u64, command: String) -> Finding {
    let what = format!("samples of {bytes} bytes in a tar, where each takes a header");
    Finding { what, gain: Some(SMALL_GAIN), command }
}

fn mean_bytes(facts: &Facts) -> u64 {
    facts.sample_bytes / facts.samples.max(1)
}

fn reading(facts: &Facts, bound: Bound) -> Vec<Finding> {
    let mut findings: Vec<Finding> = too_large(facts).into_iter().collect();
    if facts.is_tar && mean_bytes(facts) < SMALL_BYTES {
        let command = format!("shardpack convert {} DST --format mds", facts.dataset);
        findings.push(small(mean_bytes(facts), command));
    }
    if bound == Bound::Network && !facts.has_cache {
        findings.push(Finding {
            what: "each epoch downloads the data again".to_owned(),
            gain: None,
            command: "cache_dir=FOLDER, cache_bytes=LIMIT keep it on a local disk".to_owned(),
        });
    }
    if findings.is_empty() {
        let place = if bound == Bound::Network { "read_threads=64" } else { "a copy on a faster disk" };
        findings.push(Finding {
            what: "samples come as fast as they can be read".to_owned(),
            gain: None,
            command: format!("{place}; shardpack bench {} measures the limit", facts.dataset),
        });
    }
    findings
}

fn decoding(facts: &Facts) -> Vec<Finding> {
    let mut findings: Vec<Finding> = too_large(facts).into_iter().collect();
    if let Some(images) = facts.images
        && images.is_cropped
        && images.without_tables * 2 > facts.samples
    {
        let (missing, of) = (images.without_tables, facts.samples);
        findings.push(Finding {
            what: format!("{missing} of {of} images had no crop table"),
            gain: Some(TABLE_GAIN),
            command: match facts.dataset.starts_with("http") {
                true => "shardpack crops makes tables in a folder; copy its index/*.crops here".to_owned(),
                false => format!("shardpack crops {}", facts.dataset),
            },
        });
    }
    findings
}

/// Images with many more pixels than the output needs.
fn too_large(facts: &Facts) -> Option<Finding> {
    let ImageFacts { pixels, side, .. } = facts.images?;
    let output = f64::from(side) * f64::from(side);
    // A multiple of 32, as people write sizes.
    let short = (f64::from(side) * SIDE_FOR_ONE / 32.0).round() * 32.0;
    let resized = short * short * 4.0 / 3.0;
    (pixels > output * PIXELS_FOR_ONE).then(|| Finding {
        what: format!("images have {:.1} megapixels for {side} × {side}", pixels / 1e6),
        // Huffman codes take longer with each pixel left out; half of the ratio is safe.
        gain: Some((pixels / resized / 2.0).max(1.0)),
        command: format!("shardpack convert {} DST --resize {short}", facts.dataset),
    })
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.what, self.command)?;
        self.gain.map_or(Ok(()), |gain| write!(f, ", about × {gain:.1}"))
    }
}

impl fmt::Display for Advice {
    /// A line for the bound, and one for each finding.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let share = (100.0 * self.wait_share).round();
        match self.bound {
            Bound::Consumer => write!(f, "training waits {share} % of the time: the loader is fast enough")?,
            bound => {
                let bound = match bound {
                    Bound::Disk => "the disk",
                    Bound::Network => "the network",
                    Bound::Function => "a Python function",
                    _ => "decoding",
                };
                write!(f, "training waits {share} % of the time, bound by {bound}")?;
            }
        }
        self.findings.iter().try_for_each(|finding| write!(f, "\n- {finding}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A run whose consumer waits half of the time for decoding.
    fn decoding_run() -> Facts {
        Facts {
            dataset: "packed".to_owned(),
            elapsed_ms: 10_000.0,
            wait_ms: 5000.0,
            data_wait_ms: 10.0,
            samples: 10_000,
            sample_bytes: 1_100_000_000,
            threads: 2,
            cores: 2,
            images: Some(ImageFacts { pixels: 190_000.0, side: 224, is_cropped: true, without_tables: 0 }),
            ..Facts::default()
        }
    }

    fn found(facts: &Facts) -> (Bound, Vec<String>) {
        let Advice { bound, findings, .. } = advise(facts);
        (bound, findings.iter().map(Finding::to_string).collect())
    }

    #[test]
    fn each_bound_has_its_findings() {
        let run = decoding_run();
        let images = run.images.unwrap();
        assert_eq!(found(&run), (Bound::Decode, vec![]));
        let slow = Facts { wait_ms: 400.0, ..run.clone() };
        assert_eq!(found(&slow), (Bound::Consumer, vec![]));
        let tables = Facts { images: Some(ImageFacts { without_tables: 10_000, ..images }), ..run.clone() };
        let missing = "10000 of 10000 images had no crop table: shardpack crops packed, about × 1.3";
        assert_eq!(found(&tables), (Bound::Decode, vec![missing.to_owned()]));
        // Tables do not help whole images.
        let whole = ImageFacts { without_tables: 10_000, is_cropped: false, ..images };
        assert_eq!(found(&Facts { images: Some(whole), ..run.clone() }), (Bound::Decode, vec![]));
        let large = ImageFacts { pixels: 8e6, without_tables: 10_000, ..images };
        let (_, findings) = found(&Facts { images: Some(large), ..run.clone() });
        assert_eq!(findings.len(), 2);
        let resize =
            "images have 8.0 megapixels for 224 × 224: shardpack convert packed DST --resize 512, about × 11.4";
        assert_eq!(findings[0], resize);
        let one = Facts { threads: 1, cores: 8, ..run.clone() };
        assert_eq!(found(&one), (Bound::Decode, vec!["1 of 8 cores make samples: threads=0, about × 8.0".to_owned()]));
        let disk = Facts { data_wait_ms: 4900.0, ..run.clone() };
        let (bound, findings) = found(&disk);
        assert_eq!((bound, findings.len()), (Bound::Disk, 1));
        let (bound, findings) = found(&Facts { is_remote: true, ..disk.clone() });
        assert!(bound == Bound::Network && findings[0].contains("cache_dir"), "{findings:?}");
        let cached = Facts { is_remote: true, has_cache: true, ..disk.clone() };
        assert!(found(&cached).1[0].contains("read_threads"));
        let small = Facts { is_tar: true, sample_bytes: 3_000_000, images: None, ..disk };
        assert!(found(&small).1[0].ends_with("--format mds, about × 3.0"), "{:?}", found(&small));
        let function = Facts { has_function: true, images: None, ..run };
        assert!(found(&function).0 == Bound::Function && found(&function).1[0].contains("GIL"));
    }

    #[test]
    fn a_pack_has_options_for_faster_training() {
        let bytes = 11_000_000;
        let photos =
            PackFacts { samples: 10, sample_bytes: bytes, shard_bytes: bytes, is_jpeg: true, ..PackFacts::default() };
        let photos = PackFacts { is_tar: true, ..photos };
        let found = |facts| of_pack(&facts).iter().map(Finding::to_string).collect::<Vec<_>>();
        let tables = "random crops of JPEGs are decoded faster with crop tables: --crops, about × 1.3";
        let large = "images have 1.1 MB on average, and crops of 224 × 224 need a part of that: --resize 512";
        assert_eq!(found(photos), [tables, large]);
        assert_eq!(found(PackFacts { sample_bytes: 2_000_000, ..photos }), [tables]);
        assert_eq!(found(PackFacts { has_crops: true, ..photos }), [large]);
        let small = PackFacts { samples: 10, shard_bytes: 23_000, is_jpeg: false, ..photos };
        assert_eq!(
            found(small),
            ["samples of 2300 bytes in a tar, where each takes a header: --format mds, about × 3.0"]
        );
        assert_eq!(found(PackFacts { is_tar: false, ..small }), [""; 0]);
        assert_eq!(found(PackFacts { samples: 0, ..small }), [""; 0]);
    }

    #[test]
    fn advice_is_a_line_for_the_bound_and_one_for_each_finding() {
        let images = ImageFacts { pixels: 190_000.0, side: 224, is_cropped: true, without_tables: 10_000 };
        let text = advise(&Facts { images: Some(images), ..decoding_run() }).to_string();
        let expected = "training waits 50 % of the time, bound by decoding\n- 10000 of 10000 images had no crop table: \
                        shardpack crops packed, about × 1.3";
        assert_eq!(text, expected);
        let free = advise(&Facts::default());
        assert_eq!((free.bound, free.wait_share, free.findings.len()), (Bound::Consumer, 0.0, 0));
    }
}

//! What packing in parts costs where nothing is copied: planning, the plan file, a part that reads its own of it, and the merge.
//!
//! ```text
//! cargo run --release -p shardpack-packer --example parts_scale -- [SAMPLES [SHARDS [PARTS]]]
//! ```
//! The default is 100 million samples in 100,000 shards and 1,000 parts. Names and sizes are made up as ImageNet has them; shards are files
//! without bytes, as long as they would be (holes), and their indexes have heads alone, so that the merge has all to look at that it looks
//! at. Memory is the peak that the kernel counts for a process (`VmHWM`): each step is one of its own.
#![allow(clippy::disallowed_methods, clippy::print_stdout)]

use std::{
    fmt::Write,
    fs::{self, File},
    path::Path,
    process::Command,
    sync::Arc,
    time::Instant,
};

use shardpack_format::{Error, Result, formats::Choice, hash, permutation::Permutation};
use shardpack_packer::{
    pack::{self, MergeOptions},
    part::Part,
    plan::{Check, Compression, Cut, Options, Order, Plan},
    plan_file,
};
use shardpack_reader::StoreSettings;
use shardpack_source::{
    LocalTree, SourceListing,
    listing::{Builder, Folder, FolderSamples, Listing},
    monitor::Silent,
};

const CLASSES: u64 = 1_000;

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.first().map(String::as_str) {
        Some("--plan") => plan(Path::new(&arguments[1]), number(&arguments[2])?, number(&arguments[3])?),
        Some("--part") => part(Path::new(&arguments[1]), number(&arguments[2])? as u32),
        Some("--receipts") => receipts(Path::new(&arguments[1]), number(&arguments[2])? as u32),
        Some("--merge") => merge(Path::new(&arguments[1])),
        _ => all(&arguments),
    }
}

fn number(text: &str) -> Result<u64> {
    let number = text.parse().ok().filter(|given| *given > 0);
    number.ok_or_else(|| Error::usage(format!("{text:?} is not a number of them")))
}

/// Each step in a process of its own, so that its memory is its own.
fn all(arguments: &[String]) -> Result<()> {
    let given = |at: usize, default: u64| arguments.get(at).map_or(Ok(default), |text| number(text));
    let (samples, shards, parts) = (given(0, 100_000_000)?, given(1, 100_000)?, given(2, 1_000)?);
    let folder = std::env::temp_dir().join(format!("parts-scale-{}", std::process::id()));
    fs::create_dir_all(&folder).map_err(|error| Error::io("cannot create", error))?;
    let path = folder.to_string_lossy().into_owned();
    let own = std::env::current_exe().map_err(|error| Error::io("cannot find itself", error))?;
    let run = |arguments: &[&str]| {
        let ended = Command::new(&own).args(arguments).status().map_err(|error| Error::io("cannot start", error))?;
        if ended.success() { Ok(()) } else { Err(Error::usage("a step failed")) }
    };
    let [samples, shards, parts] = [samples, shards, parts].map(|number| number.to_string());
    let ran = run(&["--plan", &path, &samples, &shards])
        .and_then(|()| run(&["--part", &path, &parts]))
        .and_then(|()| run(&["--receipts", &path, &parts]))
        .and_then(|()| run(&["--merge", &path]));
    let _ = fs::remove_dir_all(&folder);
    ran
}

fn plan(folder: &Path, samples: u64, shards: u64) -> Result<()> {
    let start = Instant::now();
    let listing = listing(samples);
    let (listed, name_bytes) = (start.elapsed(), listing.name_bytes());
    let start = Instant::now();
    let found = SourceListing { listing: Arc::new(listing), ..SourceListing::default() };
    let options = Options {
        name: "train".to_owned(),
        order: Order::Shuffled,
        seed: 0,
        cut: Cut::Shards(shards),
        format: Choice { extension: Some("jpg".to_owned()), ..Choice::new("webdataset") },
        compression: Compression::None,
        check: Check::Header,
        recipe: None,
    };
    let plan = Plan::new(found, options)?;
    let planned = start.elapsed();
    let start = Instant::now();
    let file = folder.join("plan");
    plan_file::write(&file, &LocalTree("/nowhere".into()), &[plan])?;
    println!(
        "plan    {samples} samples in {shards} shards: listed in {:.1} s, planned in {:.1} s, written in {:.1} s; {:.1} bytes of \
         memory a sample, {:.1} of them its name; {:.1} bytes a sample in the file",
        listed.as_secs_f64(),
        planned.as_secs_f64(),
        start.elapsed().as_secs_f64(),
        peak_bytes()? as f64 / samples as f64,
        name_bytes as f64 / samples as f64,
        length(&file)? as f64 / samples as f64,
    );
    Ok(())
}

fn part(folder: &Path, parts: u32) -> Result<()> {
    let start = Instant::now();
    let (_, plans) = plan_file::read_part(&folder.join("plan"), Part::new(parts.div_ceil(2), parts)?)?;
    println!(
        "part    1 of {parts}: {} samples in {:.2} s, {:.0} MB of memory at most",
        plans.iter().map(|plan| plan.listing.len()).sum::<u64>(),
        start.elapsed().as_secs_f64(),
        peak_bytes()? as f64 / 1e6,
    );
    Ok(())
}

/// What parts would leave, without the bytes of any sample: receipts as docs/reference/on-disk.md has them, and files that are as long.
fn receipts(folder: &Path, parts: u32) -> Result<()> {
    let header = plan_file::read_header(&folder.join("plan"))?;
    let plans = header.plans()?;
    let (plan, dst) = (&plans[0], folder.join("packed"));
    let work = dst.join(".shardpack");
    let failed = |error| Error::io("cannot write", error);
    [work.join("parts"), dst.join("index")].iter().try_for_each(fs::create_dir_all).map_err(failed)?;
    fs::hard_link(folder.join("plan"), work.join("plan")).map_err(failed)?;
    let (zeros, hash) = ("0".repeat(64), hash::hex(&plan.hash()?));
    for part in Part::all(parts) {
        let mut shards = Vec::new();
        for number in part.shards(&plans)[0].clone() {
            let (samples, bytes) = (plan.shards[number].samples, plan.content_bytes(&plan.shards[number]));
            let file = plan.shard_file(number);
            File::create(dst.join(&file)).and_then(|shard| shard.set_len(bytes)).map_err(failed)?;
            let index_name = format!("index/{}", plan.index_file(number));
            let index = index_head(samples, bytes);
            fs::write(dst.join(&index_name), &index).map_err(failed)?;
            let (length, index) = (index.len(), hash::hex(&hash::file(&index)));
            shards.push(format!(
                "\"{number}\":{{\"entry\":{{\"file\":\"{file}\",\"samples\":{samples},\"bytes\":{bytes},\"blake3\":\"{zeros}\",\
                 \"index\":{{\"file\":\"{index_name}\",\"bytes\":{length},\"blake3\":\"{index}\"}}}},\
                 \"payload_bytes\":{},\"kinds\":{{\"jpeg\":{samples}}}}}",
                plan.shards[number].records_bytes,
            ));
        }
        let text = |own: &str| {
            format!(
                "{{\"schema\":\"shardpack-receipt/1\",\"shardpack\":\"{}\",\"part\":\"{part}\",\"sidecars\":[],\"datasets\":\
                 [{{\"split\":null,\"plan\":\"{hash}\",\"shards\":{{{}}}}}],\"blake3\":\"{own}\"}}\n",
                env!("CARGO_PKG_VERSION"),
                shards.join(","),
            )
        };
        let receipt = text(&hash::hex(&hash::file(text(&zeros).as_bytes())));
        let path = work.join("parts").join(format!("{}-of-{}.json", part.number, part.of));
        fs::write(path, receipt).map_err(failed)?;
    }
    Ok(())
}

/// The head of an index of a shard of so many samples and bytes, whose hash is zeros.
fn index_head(samples: u64, bytes: u64) -> Vec<u8> {
    let mut head = vec![0; 96];
    head[..8].copy_from_slice(b"shardpix");
    head[8..12].copy_from_slice(&1u32.to_le_bytes());
    head[16..24].copy_from_slice(&samples.to_le_bytes());
    head[40..48].copy_from_slice(&bytes.to_le_bytes());
    head
}

fn merge(folder: &Path) -> Result<()> {
    let start = Instant::now();
    let merged = pack::merge(
        &folder.join("packed"),
        &MergeOptions { verify: false, jobs: 2, store: StoreSettings::default(), work: None },
        &Silent,
    )?;
    let manifest = merged.manifests.first().ok_or_else(|| Error::usage("nothing was sealed"))?;
    println!(
        "merge   {} samples in {} shards of {} receipts in {:.2} s, {:.0} MB of memory at most",
        manifest.samples,
        manifest.shards.len(),
        merged.receipts,
        start.elapsed().as_secs_f64(),
        peak_bytes()? as f64 / 1e6,
    );
    Ok(())
}

/// A listing as a walk makes it: class by class.
fn listing(samples: u64) -> Listing {
    let class_name = |class: u64| format!("n{class:08}").into_bytes();
    let names: Vec<Box<[u8]>> = (0..CLASSES).map(|class| class_name(class).into()).collect();
    let (mut builder, mut name) = (Builder::default(), String::new());
    let order = Permutation::new(CLASSES, 0);
    for class in (0..CLASSES).map(|position| order.sample_at(position)) {
        let mut files = FolderSamples::default();
        for number in class * samples / CLASSES..(class + 1) * samples / CLASSES {
            name.clear();
            // Writing to a String cannot fail.
            let _ = write!(name, "n{class:08}_{number:09}.JPEG");
            // Spread over 150 to 250 KB.
            let bytes = 150_000 + (number.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32) as u32 % 100_000;
            files.push(name.as_bytes(), bytes, number, 1_700_000_000_000_000_000 + number as i64 * 1_000_003);
        }
        builder.add(Folder { path: class_name(class).into(), class: Some(class as u32) }, &files);
    }
    builder.finish(Arc::new(names))
}

fn length(path: &Path) -> Result<u64> {
    fs::metadata(path).map(|stat| stat.len()).map_err(|error| Error::io("cannot look at", error))
}

/// The most memory that this process has had.
fn peak_bytes() -> Result<u64> {
    let status = fs::read_to_string("/proc/self/status").map_err(|error| Error::io("cannot read status", error))?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kib: Option<u64> = line.and_then(|line| line.split_whitespace().next()?.parse().ok());
    kib.map(|kib| kib * 1024).ok_or_else(|| Error::usage("the kernel does not say how much memory this takes"))
}

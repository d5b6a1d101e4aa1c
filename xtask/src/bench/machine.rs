//! Describes the benchmark machine in one line.

use std::path::Path;

use crate::command::{command, output};

/// Processor, cores, memory, kernel, and the file system and disk that hold `folder`.
pub fn describe(folder: &Path) -> String {
    let file = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
    let field = |text: &str, name: &str| {
        let line = text.lines().find(|line| line.starts_with(name));
        line.and_then(|line| line.split_once(':')).map_or("unknown".to_owned(), |(_, value)| value.trim().to_owned())
    };
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    let memory: u64 = field(&file("/proc/meminfo"), "MemTotal").split(' ').next().unwrap_or("").parse().unwrap_or(0);
    let mount = output(command("findmnt", ["-no", "FSTYPE,SOURCE", "--target"]).arg(folder)).unwrap_or_default();
    let mut mount = mount.split_whitespace();
    let system = mount.next().unwrap_or("unknown file system");
    let device = mount.next().and_then(|device| device.strip_prefix("/dev/")).unwrap_or("");
    let disk = match file(&format!("/sys/block/{device}/queue/rotational")).trim() {
        "0" => format!("{device}, reported as not rotating"),
        "1" => format!("{device}, reported as rotating"),
        _ => format!("disk {device}"),
    };
    format!(
        "{}, {cores} cores, {} GB of memory, Linux {}, {system} on {disk}",
        field(&file("/proc/cpuinfo"), "model name"),
        memory / 1_000_000,
        file("/proc/sys/kernel/osrelease").trim(),
    )
}

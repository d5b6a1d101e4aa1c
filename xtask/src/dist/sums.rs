//! Writes SHA-256 and BLAKE3 of all release files, in the formats of `sha256sum --check` and `b3sum --check`.

use std::{collections::BTreeMap, fs, path::Path};

use sha2::{Digest, Sha256};

use super::files;
use crate::{Result, command};

/// File with the SHA-256 of each release file.
pub const SHA256: &str = "SHA256SUMS";
/// File with the BLAKE3 of each release file.
const BLAKE3: &str = "B3SUMS";

/// Writes both lists into `folder`, and reports the files that differ from `before`, an earlier list of SHA-256.
pub fn write(folder: &Path, before: &str) -> Result<()> {
    let (mut sha256, mut blake3) = (String::new(), String::new());
    for path in files(folder)? {
        let bytes = fs::read(&path).map_err(|error| format!("{}: {error}", path.display()))?;
        let name = path.strip_prefix(folder).unwrap_or(&path).display();
        let hex: String = Sha256::digest(&bytes).iter().map(|byte| format!("{byte:02x}")).collect();
        println!("{:>11}  {name}", bytes.len());
        sha256 += &format!("{hex}  {name}\n");
        blake3 += &format!("{}  {name}\n", blake3::hash(&bytes).to_hex());
    }
    let changed = changed(before, &sha256);
    match (before.is_empty(), changed.as_slice()) {
        (true, _) => println!("there was no list of an earlier run to compare with"),
        (_, []) => println!("the same bytes as the run before"),
        (_, changed) => println!("other bytes than the run before: {}", changed.join(", ")),
    }
    command::write(&folder.join(SHA256), sha256)?;
    command::write(&folder.join(BLAKE3), blake3)
}

/// Names whose sums differ between the lists, or that are in one list only.
fn changed<'a>(before: &'a str, now: &'a str) -> Vec<&'a str> {
    let sums = |list: &'a str| -> BTreeMap<&str, &str> {
        list.lines().filter_map(|line| line.split_once("  ")).map(|(sum, name)| (name, sum)).collect()
    };
    let (before, now) = (sums(before), sums(now));
    let mut names: Vec<_> = before.keys().chain(now.keys()).copied().collect();
    names.sort_unstable();
    names.dedup();
    names.retain(|name| before.get(name) != now.get(name));
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_changed_new_or_gone() {
        assert_eq!(
            changed("1  same\n2  other\n3  gone\n", "1  same\n4  other\n5  a new one\n"),
            ["a new one", "gone", "other"]
        );
        assert!(changed("1  a\n", "1  a\n").is_empty());
    }
}

//! Task `count`: lines of the product, and lines that decide whether a path is a URL.

use std::collections::BTreeMap;

use crate::{Result, sources};

/// Words of a line that tells URLs from folders: predicates, and tests for an answer that only one of them has.
const URL_WORDS: [&str; 7] =
    ["is_store(", "is_url(", "is_remote", ".url().is_", ".url()).is_", ".local().is_", "transfers().is_"];
/// The crates that may tell URLs from folders.
const OF_STORES: [&str; 1] = ["crates/shardpack-storage"];

/// Counts of one crate.
#[derive(Default)]
struct Counts {
    files: usize,
    lines: usize,
    url_lines: usize,
}

/// Prints the counts of each crate and their sum.
pub fn task() -> Result<()> {
    let (mut crates, mut all) = (BTreeMap::<String, Counts>::new(), Counts::default());
    for source in sources::all()? {
        let name = source.name.split_once("/src/").map_or("src", |(before, _)| before);
        let counts = crates.entry(name.to_owned()).or_default();
        let urls = if OF_STORES.contains(&name) { 0 } else { url_lines(&source.code) };
        for counts in [counts, &mut all] {
            counts.files += 1;
            counts.lines += source.code.lines().count();
            counts.url_lines += urls;
        }
    }
    println!("{:<28}{:>8}{:>10}{:>32}", "without tests", "files", "lines", "lines that ask \"is it a URL\"");
    for (name, counts) in crates.iter().chain([(&"all".to_owned(), &all)]) {
        println!("{name:<28}{:>8}{:>10}{:>32}", counts.files, counts.lines, counts.url_lines);
    }
    Ok(())
}

fn url_lines(code: &str) -> usize {
    let is_comment = |line: &str| line.trim_start().starts_with("//");
    code.lines().filter(|line| !is_comment(line) && URL_WORDS.iter().any(|word| line.contains(word))).count()
}

#[cfg(test)]
mod tests {
    use super::url_lines;

    #[test]
    fn comments_do_not_ask() {
        assert_eq!(
            url_lines("if is_store(path) && is_url(path) {\n    // is_store(path)\n}\nx.local().is_some()\n"),
            2
        );
    }
}

//! The Rust files of the product: `src`, `python/src` and `crates/*/src`, without unit tests and without the helpers of tests.

use crate::{
    Result,
    command::{read, root},
};

/// Folders of the code.
const FOLDERS: [&str; 3] = ["crates", "src", "python/src"];
/// Helpers of tests.
const TESTING: &str = "crates/shardpack-testing/";
/// Starts of the attribute of unit tests.
const TEST: [&str; 2] = ["#[cfg(test)]", "#[cfg(all(test,"];

/// A file of the product.
pub struct SourceFile {
    /// Path from the root.
    pub name: String,
    /// Its text without unit tests.
    pub code: String,
}

/// All files, sorted by name.
pub fn all() -> Result<Vec<SourceFile>> {
    let mut names = Vec::new();
    for folder in FOLDERS {
        files_below(folder, ".rs", &mut names)?;
    }
    names.retain(|name| is_product(name));
    names.sort();
    names
        .into_iter()
        .map(|name| Ok(SourceFile { code: without_tests(&read(&root().join(&name))?).to_owned(), name }))
        .collect()
}

fn is_product(name: &str) -> bool {
    let is_code = !name.starts_with("crates/") || name.contains("/src/");
    is_code && !name.starts_with(TESTING) && !name.ends_with("/tests.rs") && !name.contains("/tests/")
}

/// The text before the module of unit tests, which is the end of a file.
fn without_tests(text: &str) -> &str {
    let starts = text.match_indices("#[cfg(").map(|(at, _)| at).filter(|at| *at == 0 || text[..*at].ends_with('\n'));
    let is_module = |at: &usize| {
        let mut lines = text[*at..].lines().skip_while(|line| line.starts_with("#["));
        TEST.iter().any(|test| text[*at..].starts_with(test))
            && lines.next().is_some_and(|line| line.starts_with("mod ") && line.ends_with('{'))
    };
    starts.into_iter().find(is_module).map_or(text, |at| &text[..at])
}

/// Adds the files below a folder whose names have this ending, relative to the root.
pub fn files_below(folder: &str, end: &str, names: &mut Vec<String>) -> Result<()> {
    let place = root().join(folder);
    let wrong = |error| format!("{}: cannot list: {error}", place.display());
    for entry in std::fs::read_dir(&place).map_err(wrong)? {
        let entry = entry.map_err(wrong)?;
        let name = format!("{folder}/{}", entry.file_name().to_string_lossy());
        if entry.path().is_dir() {
            files_below(&name, end, names)?;
        } else if name.ends_with(end) {
            names.push(name);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tests_and_their_helpers_are_not_of_the_product() {
        let names: Vec<_> = all().unwrap().into_iter().map(|source| source.name).collect();
        assert!(names.contains(&"src/main.rs".to_owned()) && names.contains(&"python/src/lib.rs".to_owned()));
        assert!(!is_product("crates/shardpack-testing/src/lib.rs") && !is_product("crates/shardpack-x/tests/a.rs"));
        assert!(!is_product("crates/shardpack-x/src/a/tests.rs") && is_product("crates/shardpack-x/src/a.rs"));
        assert_eq!(without_tests("one\n#[cfg(test)]\nmod tests {\n}\n"), "one\n");
        assert_eq!(without_tests("one\n#[cfg(all(test, unix))]\n#[allow(x)]\nmod speed {\n}\n"), "one\n");
        let other = "#[cfg(test)]\nmod tests;\n#[cfg(unix)]\nmod a {\n}\n";
        assert_eq!(without_tests(other), other);
    }
}

//! Splits that a folder of Hugging Face declares: those of a saved `DatasetDict`, or the configuration in the README of a repository.
//!
//! Holds at all times: a declared split without files is an error; names and patterns stay inside the folder.
//!
//! Source: `datasets` 5.2, `DatasetDict.save_to_disk`; <https://huggingface.co/docs/hub/datasets-manual-configuration>.

use serde_json::Value;
use shardpack_format::{Error, Result};

use super::{super::options::Splits, front_matter};

/// Names the splits of a `DatasetDict`, each a folder.
pub(super) const DICT: &str = "dataset_dict.json";
/// Describes a repository.
const README: &str = "README.md";
/// The files that are read.
pub(super) const NAMES: [&str; 2] = [DICT, README];
/// Longest one that is read.
pub(super) const LIMIT_BYTES: u64 = 16 << 20;
/// Split of files for which none is named.
const DEFAULT: &str = "train";

/// A split, and its folder or the patterns of its files, relative to the folder that declares it.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Declared {
    pub split: String,
    pub patterns: Vec<String>,
}

/// The splits that the folder called `folder` declares; `read` reads a file in it, or returns `None` if there is none.
///
/// # Errors
/// If a declaration is corrupt, or describes several configurations.
pub(super) fn of_folder(
    folder: &str,
    read: &dyn Fn(&str) -> Result<Option<Vec<u8>>>,
) -> Result<Option<(&'static str, Vec<Declared>)>> {
    let folder = folder.trim_end_matches('/');
    let failed = |name: &str| {
        let file = format!("{folder}/{name}");
        move |what: String| Error::usage(what).in_file(&file)
    };
    if let Some(bytes) = read(DICT)? {
        let splits = of_dict(&bytes).map_err(failed(DICT))?;
        return Ok((!splits.is_empty()).then_some((DICT, splits)));
    }
    let Some(bytes) = read(README)? else { return Ok(None) };
    let configs = front_matter::value(&String::from_utf8_lossy(&bytes), "configs");
    let configs = configs.and_then(|configs| configs.map_or(Ok(Vec::new()), |configs| of_configs(&configs)));
    let configs = configs.map_err(|what| failed(README)(format!("configs: {what}")).help(NAME_THEM))?;
    match &configs[..] {
        [] => Ok(None),
        [(_, splits)] if splits.is_empty() => Ok(None),
        [_] => Ok(configs.into_iter().next().map(|(_, splits)| (README, splits))),
        [(_, first), ..] => {
            let names: Vec<_> = configs.iter().map(|(name, _)| name.as_str()).collect();
            let error = failed(README)(format!("describes {} datasets: {}", names.len(), names.join(", ")));
            let parts = first.iter().flat_map(|one| {
                one.patterns.iter().map(move |pattern| format!("--split '{}={folder}/{pattern}'", one.split))
            });
            let parts: Vec<_> = parts.collect();
            Err(error.help(match parts.is_empty() {
                true => NAME_THEM.to_owned(),
                false => format!("{} DST instead of SRC packs {}", parts.join(" "), names[0]),
            }))
        }
    }
}

/// Advice for a declaration that is not read.
const NAME_THEM: &str = "name the files of each split: --split train=FILES --split test=FILES DST instead of SRC";

fn of_dict(bytes: &[u8]) -> Result<Vec<Declared>, String> {
    let dict: Value = serde_json::from_slice(bytes).map_err(|error| format!("no JSON: {error}"))?;
    let splits = dict.get("splits").and_then(Value::as_array).ok_or("it has no list \"splits\"")?;
    let split = |name: &Value| {
        let split = name.as_str().ok_or("a split without a name")?.to_owned();
        checked(Declared { patterns: vec![split.clone()], split })
    };
    splits.iter().map(split).collect()
}

/// Names and splits of the configurations.
fn of_configs(configs: &Value) -> Result<Vec<(String, Vec<Declared>)>, String> {
    let configs = configs.as_array().ok_or("not a list")?.iter();
    let config = |config: &Value| {
        let name = config.get("config_name").and_then(Value::as_str).unwrap_or("default").to_owned();
        let before = match config.get("data_dir").and_then(Value::as_str) {
            Some(dir) => format!("{}/", dir.trim_matches('/')),
            None => String::new(),
        };
        let files = config.get("data_files").unwrap_or(&Value::Null);
        if files.is_null() && !before.is_empty() {
            return Err("a configuration with data_dir and without data_files".to_owned());
        }
        let mut splits: Vec<Declared> = Vec::new();
        for (split, path) in of_files(files)? {
            let pattern = format!("{before}{path}");
            match splits.iter_mut().find(|known| known.split == split) {
                Some(known) => known.patterns.push(pattern),
                None => splits.push(Declared { split, patterns: vec![pattern] }),
            }
        }
        splits.into_iter().map(checked).collect::<Result<_, _>>().map(|splits| (name, splits))
    };
    configs.map(config).collect()
}

/// Split and path of each entry of `data_files`.
fn of_files(files: &Value) -> Result<Vec<(String, String)>, String> {
    let mut found = Vec::new();
    let entries = match files {
        Value::Null => &[][..],
        Value::Array(entries) => entries,
        one => std::slice::from_ref(one),
    };
    for entry in entries {
        let split = entry.get("split").and_then(Value::as_str).unwrap_or(DEFAULT);
        let paths = match entry {
            Value::Object(members) => members.get("path").unwrap_or(&Value::Null),
            path => path,
        };
        let paths = match paths {
            Value::Array(paths) => &paths[..],
            one => std::slice::from_ref(one),
        };
        for path in paths {
            let path = path.as_str().ok_or_else(|| format!("split {split:?} has no path"))?;
            found.push((split.to_owned(), path.trim_start_matches("./").to_owned()));
        }
    }
    Ok(found)
}

/// A split whose name can be a folder, and whose files are in the folder.
fn checked(declared: Declared) -> Result<Declared, String> {
    let is_fit = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-' | '.');
    let split = &declared.split;
    if split.is_empty() || split.starts_with('.') || !split.chars().all(is_fit) {
        return Err(format!("{split:?} is no name of a split"));
    }
    for pattern in &declared.patterns {
        let is_outside =
            pattern.starts_with('/') || pattern.contains("://") || pattern.split('/').any(|part| part == "..");
        if is_outside || pattern.is_empty() {
            return Err(format!("the files {pattern:?} of split {split:?} are outside of the folder"));
        }
        if pattern.contains("**") {
            return Err(format!(
                "the pattern {pattern:?} of split {split:?} has folders of any depth, which is not supported"
            ));
        }
    }
    Ok(declared)
}

/// The declared splits that `splits` takes, each with its name; without names if `splits` takes none.
///
/// # Errors
/// If a wanted split is not declared.
pub(super) fn wanted(declared: Vec<Declared>, splits: &Splits) -> Result<Vec<(Option<String>, Vec<String>)>> {
    if let Splits::Names(names) = splits
        && let Some(missing) = names.iter().find(|name| !declared.iter().any(|one| one.split == **name))
    {
        let known: Vec<_> = declared.iter().map(|one| one.split.as_str()).collect();
        return Err(Error::usage(format!("no split {missing:?}: there are {}", known.join(", "))));
    }
    let takes = |one: &Declared| !matches!(splits, Splits::Names(names) if !names.contains(&one.split));
    let named = |one: Declared| (Some(one.split).filter(|_| *splits != Splits::None), one.patterns);
    Ok(declared.into_iter().filter(takes).map(named).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(name: &'static str, text: &str) -> Result<Option<(&'static str, Vec<Declared>)>> {
        of_folder("repo/", &|asked| Ok((asked == name).then(|| text.as_bytes().to_vec())))
    }

    fn declared(split: &str, patterns: &[&str]) -> Declared {
        Declared { split: split.to_owned(), patterns: patterns.iter().map(|text| (*text).to_owned()).collect() }
    }

    #[test]
    fn splits_are_those_of_a_dict_or_of_the_only_configuration() {
        let found = of(DICT, r#"{"splits": ["train", "held_out"]}"#).unwrap().unwrap().1;
        assert_eq!(found, [declared("train", &["train"]), declared("held_out", &["held_out"])]);
        let front = |files: &str| format!("---\nconfigs:\n- config_name: x\n{files}---\n");
        let two =
            "  data_files:\n  - split: train\n    path: data/train-*\n  - split: test\n    path:\n    - a\n    - b\n";
        let found = of(README, &front(two)).unwrap().unwrap().1;
        assert_eq!(found, [declared("train", &["data/train-*"]), declared("test", &["a", "b"])]);
        let in_folder = "  data_dir: data\n  data_files: '*.parquet'\n";
        assert_eq!(of(README, &front(in_folder)).unwrap().unwrap().1, [declared("train", &["data/*.parquet"])]);
        for (name, text) in
            [(README, "# none\n"), (README, "---\nconfigs:\n- config_name: x\n---\n"), (DICT, r#"{"splits": []}"#)]
        {
            assert_eq!(of(name, text).unwrap(), None, "{text}");
        }
    }

    #[test]
    fn other_declarations_are_errors() {
        let of_path = |path: &str| format!("---\nconfigs:\n- data_files:\n  - split: train\n    path: {path}\n---\n");
        for (name, text, expected) in [
            (DICT, "{}".to_owned(), "no list"),
            (DICT, "no".to_owned(), "no JSON"),
            (DICT, r#"{"splits": ["../x"]}"#.to_owned(), "no name of a split"),
            (README, of_path("../x"), "outside of the folder"),
            (README, of_path("hf://datasets/a"), "outside of the folder"),
            (README, of_path("data/**"), "any depth"),
            (README, "---\nconfigs:\n- data_dir: x\n---\n".to_owned(), "without data_files"),
            (README, "---\nconfigs: {}\n---\n".to_owned(), "not a list"),
        ] {
            let error = of(name, &text).unwrap_err().to_string();
            assert!(error.contains(expected) && error.starts_with(&format!("repo/{name}: ")), "{error}");
        }
        let several =
            "---\nconfigs:\n- config_name: en\n  data_files: en/*\n- config_name: de\n  data_files: de/*\n---\n";
        let error = of(README, several).unwrap_err();
        assert_eq!(error.to_string(), "repo/README.md: describes 2 datasets: en, de");
        assert_eq!(error.help_text(), Some("--split 'train=repo/en/*' DST instead of SRC packs en"));
    }

    #[test]
    fn wanted_splits_are_declared() {
        let all = || vec![declared("train", &["a"]), declared("test", &["b"])];
        let names = |splits: &Splits| {
            wanted(all(), splits).map(|found| found.into_iter().map(|(name, _)| name).collect::<Vec<_>>())
        };
        let some = |name: &str| Some(name.to_owned());
        assert_eq!(names(&Splits::Auto).unwrap(), [some("train"), some("test")]);
        assert_eq!(names(&Splits::None).unwrap(), [None, None]);
        assert_eq!(names(&Splits::Names(vec!["test".to_owned()])).unwrap(), [some("test")]);
        assert!(names(&Splits::Names(vec!["val".to_owned()])).is_err());
    }
}

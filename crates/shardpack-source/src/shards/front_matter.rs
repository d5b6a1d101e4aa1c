//! The front matter of a README: YAML between two lines `---`, as the Hub of Hugging Face writes it.

use serde_json::Value;

use crate::yaml;

/// Line that begins and ends the front matter.
const FENCE: &str = "---";

/// The value of the top-level key `key`; `None` if the text has no such key in a front matter.
///
/// # Errors
/// As [`yaml::member`].
pub(super) fn value(text: &str, key: &str) -> Result<Option<Value>, String> {
    let mut lines = text.lines().map(str::trim_end);
    if lines.next() != Some(FENCE) {
        return Ok(None);
    }
    yaml::member(&lines.take_while(|line| *line != FENCE).collect::<Vec<_>>().join("\n"), key)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn front(yaml: &str) -> String {
        format!("---\nlicense: mit\n{yaml}\ntags:\n- a: {{}}\n---\n# configs: no\n")
    }

    #[test]
    fn configs_are_parsed_as_the_hub_writes_them() {
        let flat = "configs:\n- config_name: default\n  data_files:\n  - split: train\n    path: data/train-*\n  - split: test\n    path:\n    - 'a.parquet'\n    - \"b.parquet\"";
        let deep = "configs:\n  # of one\n  - config_name: default # the only\n    data_files:\n      - split: train\n        path: data/train-*\n      - split: test\n        path: [a.parquet, b.parquet]\n";
        let expected = json!([{"config_name": "default", "data_files": [
            {"split": "train", "path": "data/train-*"}, {"split": "test", "path": ["a.parquet", "b.parquet"]},
        ]}]);
        for yaml in [flat, deep] {
            assert_eq!(value(&front(yaml), "configs"), Ok(Some(expected.clone())), "{yaml}");
        }
        let short = "configs:\n- config_name: a\n  data_files: \"a/*.parquet\"  # all\n-\n  config_name: b\n  data_files:\n  - x\n  - y";
        let expected =
            json!([{"config_name": "a", "data_files": "a/*.parquet"}, {"config_name": "b", "data_files": ["x", "y"]}]);
        assert_eq!(value(&front(short), "configs"), Ok(Some(expected)));
        for text in ["", "# configs:\n", "---\nlicense: mit\n---\nconfigs:\n- a", "---\nconfigs_of: a\n---\n"] {
            assert_eq!(value(text, "configs"), Ok(None), "{text}");
        }
    }

    #[test]
    fn other_yaml_is_an_error() {
        for yaml in [
            "configs: !x []",
            "configs: *x",
            "configs: {a: b",
            "configs:\n- a: b\n a: c",
            "configs:\n- a: 1\n  a: 2",
            "configs:\n- a: !t b",
        ] {
            assert!(value(&front(yaml), "configs").is_err(), "{yaml}");
        }
    }
}

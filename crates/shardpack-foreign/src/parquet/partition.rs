//! Columns in folder names, as Hive, Spark and Dask write them: `kind=a/color=b/part-0.parquet`.
//!
//! A column of the file itself takes precedence over its folders; if the two differ, the module `shadowed` reports the
//! difference.

use std::path::Path;

/// Marks a missing value. Source: Hive, `hive.exec.default.partition.name`.
const NULL: &str = "__HIVE_DEFAULT_PARTITION__";

/// Names and values of the column folders directly above a file, the outermost first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Partition(pub(super) Vec<(String, Vec<u8>)>);

impl Partition {
    /// The columns in the path of a file.
    pub fn from_path(path: &Path) -> Self {
        let folders = path.ancestors().skip(1).map_while(|folder| pair(folder.file_name()?.to_str()?));
        let mut all: Vec<_> = folders.filter(|(_, value)| value != NULL.as_bytes()).collect();
        all.reverse();
        Self(all)
    }
}

/// Whether the folder name has the form of a column.
pub fn is_partition(name: &str) -> bool {
    pair(name).is_some()
}

fn pair(name: &str) -> Option<(String, Vec<u8>)> {
    let (column, value) = name.split_once('=').filter(|(column, _)| !column.is_empty())?;
    Some((String::from_utf8(unescaped(column)).ok()?, unescaped(value)))
}

/// Text in which `%20` is a blank.
fn unescaped(text: &str) -> Vec<u8> {
    let (bytes, mut out, mut at) = (text.as_bytes(), Vec::with_capacity(text.len()), 0);
    while let Some(byte) = bytes.get(at) {
        let code =
            text.get(at + 1..at + 3).filter(|_| *byte == b'%').and_then(|code| u8::from_str_radix(code, 16).ok());
        out.push(code.unwrap_or(*byte));
        at += if code.is_some() { 3 } else { 1 };
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_right_above_a_file_tell_columns() {
        let of = |path: &str| {
            let text = |(name, value): (String, Vec<u8>)| format!("{name}:{}", String::from_utf8(value).unwrap());
            Partition::from_path(Path::new(path)).0.into_iter().map(text).collect::<Vec<_>>()
        };
        assert_eq!(of("/data/run=3/set/kind=a%20b/color=x=y/part-0.parquet"), ["kind:a b", "color:x=y"]);
        assert_eq!(of("kind=__HIVE_DEFAULT_PARTITION__/n=1/x.parquet"), ["n:1"]);
        assert!(of("x.parquet").is_empty() && of("/=a/x.parquet").is_empty() && of("/k=1/a/x.parquet").is_empty());
        assert_eq!(unescaped("100%"), b"100%");
        assert!(is_partition("split=train") && !is_partition("train") && !is_partition("=x"));
    }
}

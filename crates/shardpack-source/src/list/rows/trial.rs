//! Reads the first rows of a list, to see whether they name files below a folder.

use std::path::Path;

use shardpack_format::Result;
use shardpack_reader::StoreSettings;

use super::{
    super::{Columns, List, csv, json, jsonl, mapping, stored::Kind},
    Rows,
    found::own_labels,
};
use crate::{monitor::Silent, options::Options};

/// Most rows whose files are looked for.
const ROWS: usize = 32;
/// About the most files below a root that are looked through.
const MAX_FILES: usize = 1 << 20;
/// Bytes that are read.
pub(crate) const BYTES: u64 = 256 << 10;

/// The result of a look at the first rows of a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Trial {
    /// Rows whose files were looked for.
    pub rows: usize,
    /// Rows whose file exists.
    pub files: usize,
    /// Whether the list has labels of classes, so that several rows have the same label.
    pub has_classes: bool,
    /// Whether nearly every row has a label of its own: an id or a text.
    pub has_own_labels: bool,
    /// Whether these labels are numbers: ids.
    pub are_ids: bool,
    /// Whether rows have more than a path.
    pub has_more: bool,
    /// Whether rows have more than a path and a label.
    pub has_columns: bool,
    /// Whether each of the first rows names a file in a folder right below the root.
    pub are_in_folders: bool,
}

/// The start of a list.
pub(crate) struct Start {
    bytes: Vec<u8>,
    /// Whether the file is longer.
    is_cut: bool,
}

impl Start {
    /// The start of a list: at most [`BYTES`].
    pub fn new(bytes: Vec<u8>) -> Self {
        let is_cut = bytes.len() as u64 >= BYTES;
        Self { bytes: bytes.strip_prefix(json::BOM).map(<[u8]>::to_vec).unwrap_or(bytes), is_cut }
    }

    /// The first whole lines, at most `most`.
    fn lines(&self, most: usize) -> &[u8] {
        let mut ends = self.bytes.iter().enumerate().filter(|(_, byte)| **byte == b'\n').map(|(at, _)| at + 1);
        let end = match self.is_cut {
            true => ends.take(most).last(),
            false => ends.nth(most.saturating_sub(1)),
        };
        &self.bytes[..end.unwrap_or(self.bytes.len())]
    }

    /// Looks for the files that the first rows of the list at `path` name below `root`. `None` if it is no list of files.
    pub fn trial(&self, path: &Path, root: &Path) -> Option<Trial> {
        self.read(path, root, ROWS + 1)
    }

    /// As [`Self::trial`], with the labels of all rows in the start.
    pub fn whole(&self, path: &Path, root: &Path) -> Option<Trial> {
        self.read(path, root, usize::MAX)
    }

    fn read(&self, path: &Path, root: &Path, most: usize) -> Option<Trial> {
        let columns = Columns { root: Some(root.to_owned()), ..Columns::default() };
        let list = List::find(path, &columns, &StoreSettings::default()).ok()?;
        let options = Options { threads: 1, ..Options::default() };
        let by_name = list.files_by_name(&options, MAX_FILES, &Silent).ok()?;
        let mut rows = Rows::new(&list, &options, true, by_name.as_ref()).ok()?;
        rows.suggests_root = false;
        // A record that is cut is an error, and the rows before it count.
        let _ = match list.kind {
            Kind::Csv => csv::read(self.lines(most), (false, list.is_tsv()), &mut rows, &Silent),
            Kind::Text => csv::read(self.lines(most), (true, false), &mut rows, &Silent),
            Kind::Jsonl => jsonl::read(|| Ok(self.lines(most)), &mut rows, &Silent),
            Kind::Array => jsonl::read_first(&self.bytes, most, &mut rows, &Silent),
            Kind::Mapping => mapping::read_first(&self.bytes, most, &mut rows, &Silent),
            Kind::Parquet | Kind::Coco | Kind::MmLab => return None,
        };
        rows.trial().ok().filter(|trial| trial.rows > 0)
    }
}

impl Rows<'_> {
    /// Looks for the files of the first rows.
    ///
    /// # Errors
    /// If the lookup fails.
    fn trial(&self) -> Result<Trial> {
        let mut files = 0;
        let first = &self.rows[..self.rows.len().min(ROWS)];
        for row in first {
            files += usize::from(self.is_file(self.path(row))?);
        }
        let said = self.said();
        let has_own_labels = own_labels(&said).is_some();
        let are_ids = has_own_labels && said.iter().all(|label| label.number.is_some());
        let has_classes = self.has_labels && !has_own_labels && self.labels_are_no_classes().is_none();
        let (has_more, has_columns) = (self.has_labels || self.has_text, self.has_text);
        let is_in_folder = |row: &_| self.path(row).iter().filter(|byte| **byte == b'/').count() == 1;
        let are_in_folders = first.iter().all(is_in_folder);
        Ok(Trial {
            rows: first.len(),
            files,
            has_classes,
            has_own_labels,
            are_ids,
            has_more,
            has_columns,
            are_in_folders,
        })
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn the_first_rows_say_whether_a_list_is_one_of_these_files() {
        let trial = |path: &Path, root: &Path| {
            let mut bytes = fs::read(path).unwrap();
            bytes.truncate(BYTES as usize);
            Start::new(bytes).trial(path, root)
        };
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("img")).unwrap();
        for number in 0..40 {
            fs::write(folder.path().join(format!("img/{number}.jpg")), "").unwrap();
        }
        let rows = |line: &dyn Fn(usize) -> String| (0..40).map(line).collect::<String>();
        let array =
            format!("[{}]", rows(&|n| format!("{{\"name\": \"{n}.jpg\", \"boxes\": []}},")).trim_end_matches(','));
        let long = format!("image,text\n{}", rows(&|n| format!("{n}.jpg,\"{}\n{n}\"\n", "x".repeat(9000))));
        let cases = [
            (
                "a.csv",
                format!("image,label\n{}", rows(&|n| format!("{n}.jpg,{}\n", n % 2))),
                (32, 32, true, false, false),
            ),
            ("b.txt", rows(&|n| format!("{n}\ttext {n}\n")), (32, 32, false, true, false)),
            (
                "c.jsonl",
                rows(&|n| format!("{{\"file_name\": \"{n}.jpg\", \"text\": \"{n}\"}}\n")),
                (32, 32, false, false, true),
            ),
            ("d.json", array.clone(), (32, 32, false, false, true)),
            (
                "m.json",
                format!("{{{}}}", rows(&|n| format!("\"{n}.jpg\": {},", n % 2)).trim_end_matches(',')),
                (32, 32, true, false, false),
            ),
            ("e.odgt", rows(&|n| format!("{{\"ID\": \"{n}\", \"boxes\": []}}\n")), (32, 32, false, false, true)),
            // The start of a longer list ends in a record.
            ("f.csv", long, (16, 16, false, false, true)),
            ("g.csv", format!("image,label\n{}", rows(&|n| format!("{}.jpg,0\n", n * 7))), (32, 6, true, false, false)),
        ];
        for (name, text, expected) in cases {
            let path = folder.path().join(name);
            fs::write(&path, text).unwrap();
            let one = trial(&path, &folder.path().join("img")).unwrap();
            let found = (one.rows, one.files, one.has_classes, one.has_own_labels, one.has_columns);
            assert_eq!(found, expected, "{name}");
            let elsewhere = trial(&path, folder.path());
            assert!(elsewhere.is_none_or(|trial| trial.files == 0), "{name}");
        }
        let cut = &array[..array.len() / 2];
        fs::write(folder.path().join("cut.json"), cut).unwrap();
        let path = folder.path().join("cut.json");
        let one = trial(&path, &folder.path().join("img")).unwrap();
        assert!(one.files > 10 && one.files == one.rows, "{one:?}");
        for (name, text) in [("x.csv", "a,b\n"), ("x.json", "{}"), ("x.json", "7"), ("x.txt", ""), ("x.jsonl", "{")] {
            let path = folder.path().join(name);
            fs::write(&path, text).unwrap();
            assert!(trial(&path, folder.path()).is_none_or(|trial| trial.files == 0), "{name} {text}");
        }
        assert_eq!(trial(&folder.path().join("img/1.jpg"), folder.path()), None);
    }
}

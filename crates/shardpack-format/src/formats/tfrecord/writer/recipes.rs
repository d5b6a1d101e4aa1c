//! Generates Python code that reads our shards with TensorFlow and DALI.

use std::{ffi::OsString, path::Path};

use super::super::layout::Feature;
use crate::shell::python;

/// The shards of a dataset.
pub(super) struct Files<'a> {
    pub folder: &'a Path,
    /// Glob pattern of their names.
    pub pattern: String,
}

impl Files<'_> {
    /// A Python glob that matches only the shards; special characters in the folder's name are escaped.
    fn glob(&self, end: &str) -> String {
        let path = self.folder.join(format!("{}{end}", self.pattern));
        let (folder, mut all) = (self.folder.as_os_str().as_encoded_bytes(), OsString::new());
        if !folder.iter().any(|byte| b"*?[".contains(byte)) {
            return python(path);
        }
        for part in self.folder.to_string_lossy().chars() {
            match part {
                '*' | '?' | '[' => all.push(format!("[{part}]")),
                part => all.push(part.to_string()),
            }
        }
        python(Path::new(&all).join(format!("{}{end}", self.pattern)))
    }
}

/// Python code of TensorFlow's parser for a feature of our writer.
pub(super) fn parsed_own(key: &str, feature: Feature) -> String {
    let of = match feature {
        Feature::Label | Feature::Height | Feature::Width => "tf.int64",
        _ => "tf.string",
    };
    format!("{}: tf.io.FixedLenFeature([], {of})", python(key))
}

/// For examples of values; `parsed` is the Python code of their parsers.
pub(super) fn values(files: &Files<'_>, parsed: &str) -> Vec<(&'static str, String)> {
    let parse = format!("tf.io.parse_single_example(record, {{{parsed}}})");
    vec![("tf.data", format!("{}.map(lambda record: {parse})", records(files)))]
}

/// For examples with an image or another file as `payload`, and a `label` if they have one.
pub(super) fn images(files: &Files<'_>, payload: &str, label: Option<&str>) -> Vec<(&'static str, String)> {
    let mut features = vec![format!("{}: tfrec.FixedLenFeature((), tfrec.string, \"\")", python(payload))];
    features.extend(label.map(|key| format!("{}: tfrec.FixedLenFeature([1], tfrec.int64, -1)", python(key))));
    vec![
        ("tf.data", records(files)),
        (
            "DALI",
            format!(
                "fn.readers.tfrecord(path=sorted(glob.glob({})), index_path=sorted(glob.glob({})), features={{{}}})",
                files.glob(""),
                files.glob(".idx"),
                features.join(", ")
            ),
        ),
    ]
}

fn records(files: &Files<'_>) -> String {
    format!("tf.data.TFRecordDataset(sorted(tf.io.gfile.glob({})))", files.glob(""))
}

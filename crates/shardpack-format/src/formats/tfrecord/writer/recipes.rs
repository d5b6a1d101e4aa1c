//! How TensorFlow and DALI read what is written, in their own words.

use super::super::layout::Feature;

/// How TensorFlow parses a feature of ours.
pub(super) fn parsed_own(key: &str, feature: Feature) -> String {
    let of = match feature {
        Feature::Label | Feature::Height | Feature::Width => "tf.int64",
        _ => "tf.string",
    };
    format!("\"{key}\": tf.io.FixedLenFeature([], {of})")
}

/// For examples that are values, of which `parsed` says how each is parsed.
pub(super) fn values(files: &str, parsed: &str) -> Vec<(&'static str, String)> {
    let parse = format!("tf.io.parse_single_example(record, {{{parsed}}})");
    vec![("tf.data", format!("{}.map(lambda record: {parse})", records(files)))]
}

/// For examples with an image or another file as `payload`, and a `label` if they have one.
pub(super) fn images(files: &str, payload: &str, label: Option<&str>) -> Vec<(&'static str, String)> {
    let mut features = vec![format!("\"{payload}\": tfrec.FixedLenFeature((), tfrec.string, \"\")")];
    features.extend(label.map(|key| format!("\"{key}\": tfrec.FixedLenFeature([1], tfrec.int64, -1)")));
    vec![
        ("tf.data", records(files)),
        (
            "DALI",
            format!(
                "fn.readers.tfrecord(path=sorted(glob.glob(\"{files}\")), \
                 index_path=sorted(glob.glob(\"{files}.idx\")), features={{{}}})",
                features.join(", ")
            ),
        ),
    ]
}

fn records(files: &str) -> String {
    format!("tf.data.TFRecordDataset(sorted(tf.io.gfile.glob(\"{files}\")))")
}

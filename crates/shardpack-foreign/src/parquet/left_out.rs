//! Counts footer content that is not converted: class names of columns that are no label, and user metadata.

use std::collections::BTreeMap;

use serde_json::Value;

use super::{columns::Columns, footer::Footer};

/// Metadata of programs, of the data's types or of themselves. Source: pyarrow 26, pandas 3, Spark 4, polars 1, parquet-avro, geopandas.
const OF_PROGRAMS: [&str; 10] = [
    "ARROW:schema",
    "huggingface",
    "pandas",
    "parquet.avro.schema",
    "avro.schema",
    "parquet.proto.class",
    "parquet.proto.descriptor",
    "writer.model.name",
    "writer.time.zone",
    "content_defined_chunking",
];
/// Prefixes of metadata keys that writers add themselves.
const PREFIXES: [&str; 5] = ["org.apache.", "PANDAS_ATTRS", "ARROW:", "presto", "trino"];

/// The names of this content, each once.
pub(super) fn count(footer: &Footer, columns: &Columns) -> BTreeMap<String, u64> {
    let mut found = BTreeMap::new();
    let notes = footer.metadata.file_metadata().key_value_metadata().map_or(&[][..], Vec::as_slice);
    let is_own = |key: &str| !OF_PROGRAMS.contains(&key) && !PREFIXES.iter().any(|prefix| key.starts_with(prefix));
    for note in notes.iter().filter(|note| is_own(&note.key)) {
        *found.entry(format!("metadata {} of the file", note.key)).or_default() += 1;
    }
    let label = columns.label.as_ref().map(|label| label.name.as_str());
    for (column, feature) in
        footer.each_feature().filter(|(column, _)| Some(*column) != label && footer.has_column(column))
    {
        class_lists(column, feature, &mut found);
    }
    found
}

/// Counts the lists of class names that `datasets` records for the column or the member `path`.
fn class_lists(path: &str, feature: &Value, found: &mut BTreeMap<String, u64>) {
    match feature {
        // A list of a feature, and a structure without a type of its own or with one.
        Value::Array(inner) => inner.iter().for_each(|inner| class_lists(path, inner, found)),
        Value::Object(members) => match members.get("_type").and_then(Value::as_str) {
            Some("ClassLabel") => {
                if members.get("names").and_then(Value::as_array).is_some_and(|names| !names.is_empty()) {
                    *found.entry(format!("class names of {path}")).or_default() += 1;
                }
            }
            Some(_) => members.get("feature").into_iter().for_each(|inner| class_lists(path, inner, found)),
            None => members.iter().for_each(|(name, inner)| class_lists(&format!("{path}.{name}"), inner, found)),
        },
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_class_names_are_found_wherever_they_are() {
        let label = r#"{"_type": "ClassLabel", "names": ["a", "b"]}"#;
        let rows = [
            (label.to_owned(), vec!["class names of x"]),
            (format!("[{label}]"), vec!["class names of x"]),
            (
                format!(r#"{{"_type": "Sequence", "feature": {{"c": {label}, "d": {{"_type": "Value"}}}}}}"#),
                vec!["class names of x.c"],
            ),
            (
                format!(r#"{{"a": {label}, "b": [{{"c": {label}}}]}}"#),
                vec!["class names of x.a", "class names of x.b.c"],
            ),
            (r#"{"_type": "ClassLabel", "names": []}"#.to_owned(), vec![]),
        ];
        for (feature, expected) in rows {
            let mut found = BTreeMap::new();
            class_lists("x", &serde_json::from_str(&feature).unwrap(), &mut found);
            assert_eq!(found.into_keys().collect::<Vec<_>>(), expected, "{feature}");
        }
    }
}

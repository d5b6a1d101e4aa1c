//! The dataset card `README.md`: the front matter that makes `datasets.load_dataset(FOLDER)` read the shards, and a table for people.
//!
//! Holds at all times: the front matter declares every column, so the reader does not guess columns from the first samples, unless
//! the manifest declares no type of an array; and the number of samples, which the reader compares. Names of classes are escaped, so that no name ends the front matter.
//! Source: Hugging Face datasets 5.2.0, `utils/metadata.py`, `features/features.py`, `splits.py`.

use std::collections::BTreeSet;

use super::columns::{Column, Content, Part, class_names, columns};
use crate::{
    Result,
    formats::sidecars::{Catalogue, Files},
    size, splits,
};

/// The catalogue in the list of sidecars.
pub(super) const CATALOGUE: Catalogue = Catalogue {
    file: "README.md",
    mark: "\n# Written by shardpack. verify reports a changed card.\n",
    hashes: &[],
    of_splits: |all| Ok(text(&all.iter().map(Part::of_split).collect::<Result<Vec<_>>>()?).into_bytes()),
};

/// Categories of sizes on the Hub, each with the number of samples that it does not reach.
const SIZES: [(&str, u64); 10] = [
    ("n<1K", 1_000),
    ("1K<n<10K", 10_000),
    ("10K<n<100K", 100_000),
    ("100K<n<1M", 1_000_000),
    ("1M<n<10M", 10_000_000),
    ("10M<n<100M", 100_000_000),
    ("100M<n<1B", 1_000_000_000),
    ("1B<n<10B", 10_000_000_000),
    ("10B<n<100B", 100_000_000_000),
    ("100B<n<1T", 1_000_000_000_000),
];

/// Writes the card of one dataset.
pub(super) fn write(part: &Part<'_>, files: &mut dyn Files) -> Result<()> {
    files.begin(CATALOGUE.file)?;
    files.write(text(std::slice::from_ref(part)).as_bytes())
}

/// The card of these splits, or of one dataset.
fn text(parts: &[Part<'_>]) -> String {
    let names = split_names(parts);
    // The reader fails on a pattern without files.
    let parts: Vec<_> = parts.iter().zip(&names).filter(|(part, _)| !part.shards.is_empty()).collect();
    let all: u64 = parts.iter().map(|(part, _)| part.samples).sum();
    let mut text = format!("---{}configs:\n- config_name: default\n  data_files:\n", CATALOGUE.mark);
    for (part, name) in &parts {
        text += &format!("  - split: {}\n    path: {}\n", scalar(name), scalar(&pattern(part)));
    }
    text += "dataset_info:\n";
    let described: Vec<&Part<'_>> = parts.iter().map(|(part, _)| *part).collect();
    text += &features(&described);
    text += "  splits:\n";
    for (part, name) in &parts {
        // Without both numbers the reader ignores the splits, with a warning.
        let bytes: u64 = part.shards.iter().map(|shard| shard.bytes).sum();
        text += &format!("  - name: {}\n    num_bytes: {bytes}\n    num_examples: {}\n", scalar(name), part.samples);
    }
    let category = SIZES.iter().find(|(_, below)| all < *below).map_or("n>1T", |(name, _)| name);
    if let Some(license) = parts.iter().find_map(|(part, _)| part.license) {
        text += &format!("license: {}\n", scalar(license));
    }
    text += &format!("size_categories:\n- {category}\ntags:\n- webdataset\n---\n\n");
    text + &body(&parts)
}

/// The features of all columns; empty if the reader must infer the type of one.
fn features(parts: &[&Part<'_>]) -> String {
    let (columns, classes) = (columns(parts), class_names(parts));
    let mut text = "  features:\n".to_owned();
    for column in &columns {
        let classes = classes.as_ref().filter(|_| column.is_label());
        let Some(feature) = classes.map(|names| class_label(names)).or_else(|| feature(column)) else {
            return String::new();
        };
        for name in &column.extensions {
            text += &format!("  - name: {}\n{feature}", scalar(name));
        }
    }
    for name in ["__key__", "__url__"] {
        text += &format!("  - name: {name}\n    dtype: string\n");
    }
    text
}

fn class_label(classes: &[String]) -> String {
    let names = classes.iter().enumerate().map(|(label, name)| format!("          \"{label}\": {}\n", scalar(name)));
    "    dtype:\n      class_label:\n        names:\n".to_owned() + &names.collect::<String>()
}

/// The lines of the reader's feature, without its name; `None` if it depends on the values.
fn feature(column: &Column) -> Option<String> {
    let dtype = match column.content {
        Content::Image => "image",
        Content::Sound => "audio",
        Content::Video => "video",
        Content::Mesh => "mesh",
        Content::Text => "string",
        Content::Integer => "int64",
        Content::Json => "json",
        Content::Bytes => "binary",
        // Columns of the reader have no complex numbers.
        Content::Value => {
            let array = column.array().filter(|(dtype, _)| !dtype.starts_with("complex"));
            return array.map(|(dtype, axes)| self::array(dtype, axes));
        }
    };
    Some(format!("    dtype: {dtype}\n"))
}

/// The lines of the feature of arrays: a list for each axis, so that every length is accepted.
fn array(dtype: &str, axes: usize) -> String {
    let Some(inner) = axes.checked_sub(1) else { return format!("    dtype: {dtype}\n") };
    let lists = (0..inner).map(|axis| format!("    {}list:\n", "  ".repeat(axis)));
    lists.collect::<String>() + &format!("    {}list: {dtype}\n", "  ".repeat(inner))
}

/// The pattern of the names of all shards of `part`, relative to the card.
fn pattern(part: &Part<'_>) -> String {
    format!("{}{}-*.tar", part.prefix, part.name)
}

/// The names of the splits for the reader: letters, digits and `_`, each once. A dataset that is no split is called `train`.
fn split_names(parts: &[Part<'_>]) -> Vec<String> {
    let mut used = BTreeSet::new();
    let name = |part: &Part<'_>| {
        let own = match part.prefix.is_empty() && !splits::KNOWN.contains(&part.name) {
            true => "train",
            false => part.name,
        };
        let mut name: String = own.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '_' }).collect();
        // `all` is every split together.
        while name == "all" || !used.insert(name.clone()) {
            name.push('_');
        }
        name
    };
    parts.iter().map(name).collect()
}

/// `text` as a scalar of YAML in double quotes, on one line, with all unusual characters escaped.
fn scalar(text: &str) -> String {
    let mut out = "\"".to_owned();
    for c in text.chars() {
        match c {
            '"' | '\\' => out.extend(['\\', c]),
            ' '..='~' => out.push(c),
            _ if c.is_alphanumeric() => out.push(c),
            _ => out += &format!("\\U{:08X}", u32::from(c)),
        }
    }
    out + "\""
}

fn body(parts: &[(&Part<'_>, &String)]) -> String {
    let mut text = "# Dataset\n\nThe samples are in tar files in the WebDataset format.\n\n".to_owned();
    text += "| split | samples | shards | size | id |\n|---|---|---|---|---|\n";
    for (part, name) in parts {
        let bytes = part.shards.iter().map(|shard| shard.bytes).sum();
        let (shards, id) = (part.shards.len(), part.id.as_deref().unwrap_or("see manifest.json"));
        text += &format!("| {name} | {} | {shards} | {} | {id} |\n", part.samples, size::text(bytes));
    }
    let classes = parts.iter().map(|(part, _)| part.classes.len()).max().unwrap_or(0);
    if classes > 0 {
        text += &format!("\nLabels are the numbers of {}.\n", size::counted(classes as u64, "class"));
    }
    text += "\n```python\nimport datasets\n\ndataset = datasets.load_dataset(\"FOLDER\")\n```\n";
    text + "\n`shardpack verify FOLDER` compares every byte with its hash.\n"
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::manifest::{Class, Counts, File, Shard};

    /// The card of splits with these names, each with one class for each of `classes`.
    fn card(names: &[&str], components: &[&str], classes: &[&[u8]], samples: u64) -> String {
        let index = File::default();
        let shards = [Shard { file: "x.tar".to_owned(), samples, bytes: 1, blake3: Default::default(), index }];
        let classes: Vec<_> = classes.iter().map(|name| Class::new(name, Counts::default())).collect();
        let components: Vec<_> = components.iter().map(|name| (*name).to_owned()).collect();
        let kinds = BTreeMap::from([("png".to_owned(), 1), ("jpeg".to_owned(), 1)]);
        let part = |name| Part::for_test(name, (&shards, samples), &classes, &components, &kinds);
        text(&names.iter().map(|name| part(name)).collect::<Vec<_>>())
    }

    #[test]
    fn every_line_of_the_front_matter_is_one_of_its_own() {
        let names: [&[u8]; 5] = [b"---\n---", b"\"\\", b"\xff", "\u{2028}\u{85}\u{feff}".as_bytes(), "ä 😀".as_bytes()];
        let card = card(&["train"], &["jpg", "cls"], &names, 1);
        let lines: Vec<_> = card.lines().collect();
        let end = lines.iter().skip(1).position(|line| *line == "---").unwrap();
        assert!(lines[end].starts_with("- webdataset"), "{card}");
        for name in [
            r#""0": "---\U0000000A---""#,
            r#""1": "\"\\""#,
            r#""2": "\\xff""#,
            r#""3": "\U00002028\U00000085\U0000FEFF""#,
            r#""4": "ä \U0001F600""#,
        ] {
            assert!(lines.contains(&format!("          {name}").as_str()), "{name}: {card}");
        }
    }

    #[test]
    fn equal_names_of_classes_become_numbers() {
        let told = card(&["train"], &["jpg", "cls"], &[b"\xff", b"\\xff"], 1);
        assert!(told.contains("  - name: \"cls\"\n    dtype: int64\n") && !told.contains("class_label"), "{told}");
    }

    #[test]
    fn columns_have_the_types_that_the_reader_decodes() {
        let components = ["{kind}", "cls", "mask.png", "txt", "json", "flac", "mp4", "glb", "bin", "json.gz"];
        let told = card(&["train"], &components, &[], 1);
        let expected = [
            ("jpg", "image"),
            ("png", "image"),
            ("cls", "int64"),
            ("mask.png", "image"),
            ("txt", "string"),
            ("json", "json"),
            ("flac", "audio"),
            ("mp4", "video"),
            ("glb", "mesh"),
            ("bin", "binary"),
            ("json.gz", "json"),
        ];
        for (name, dtype) in expected {
            assert!(told.contains(&format!("  - name: \"{name}\"\n    dtype: {dtype}\n")), "{name}: {told}");
        }
        // The reader infers all columns if one depends on the values.
        let told = card(&["train"], &["jpg", "x.npy"], &[], 1);
        assert!(!told.contains("features") && told.contains("num_examples: 1"), "{told}");
    }

    #[test]
    fn arrays_of_declared_types_are_lists_of_their_axes() {
        let (kinds, components) = (BTreeMap::from([("png".to_owned(), 1)]), ["png".to_owned(), "x.npy".to_owned()]);
        let told = |types: &[&str]| {
            let part = |text: &&str| {
                let types = BTreeMap::from([("x.npy".to_owned(), text.parse().unwrap())]);
                Part::for_test("train", (&[], 1), &[], &components, &kinds).with_types(types)
            };
            let parts: Vec<_> = types.iter().map(part).collect();
            features(&parts.iter().collect::<Vec<_>>())
        };
        for (dtype, lines) in [
            ("<f4[?x4]", "    list:\n      list: float32\n"),
            ("<i8[?]?", "    list: int64\n"),
            ("|b1[]", "    dtype: bool\n"),
            ("<f2[2x3x?]", "    list:\n      list:\n        list: float16\n"),
        ] {
            assert!(
                told(&[dtype]).contains(&format!("  - name: \"x.npy\"\n{lines}  - name")),
                "{dtype}: {}",
                told(&[dtype])
            );
        }
        for dtype in ["<c8[2]", "array[2]", "<f4?"] {
            assert_eq!(told(&[dtype]), "", "{dtype}");
        }
        assert!(told(&["<f4[2x4]", "<f4[?x4]?"]).contains("list: float32"));
        assert_eq!(told(&["<f4[2]", "<f8[2]"]), "");
    }

    #[test]
    fn names_of_splits_are_those_that_the_hub_accepts() {
        let names = |all: &[&str]| {
            let card = card(all, &["jpg"], &[], 1);
            let names =
                card.lines().filter_map(|line| Some(line.strip_prefix("  - split: ")?.trim_matches('"').to_owned()));
            names.collect::<Vec<_>>()
        };
        assert_eq!(names(&["a-b", "a_b", "all", "all_"]), ["a_b", "a_b_", "all_", "all__"]);
        assert_eq!(names(&["val"]), ["val"]);
    }

    #[test]
    fn the_size_is_a_category_of_the_hub() {
        for (samples, category) in [(0, "n<1K"), (999, "n<1K"), (1000, "1K<n<10K"), (u64::MAX, "n>1T")] {
            let card = card(&["train"], &["jpg"], &[], samples);
            assert!(card.contains(&format!("size_categories:\n- {category}\n")), "{samples}: {card}");
        }
    }
}

//! `croissant.json`: the dataset in the vocabulary of Croissant, as JSON-LD.
//!
//! Each shard is a file with its SHA-256, which the specification requires. Each column is a set of files in the shards, with a record
//! for each: key and content. The records that bear the name of the dataset have the image and its label together. mlcroissant
//! joins two sets of records, not more, and only sets of records, so the other columns are joined by their keys.
//! Source: Croissant 1.0 (<http://mlcommons.org/croissant/1.0>); mlcroissant 1.1.1.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::columns::{Column, Content, Part, class_names, columns};
use crate::{
    Error, Result,
    formats::sidecars::{self, Catalogue, Files, OfSplit},
};

/// The catalogue in the list of sidecars.
pub(super) const CATALOGUE: Catalogue = Catalogue { file: "croissant.json", mark: MARK, hashes: &[SHA256], of_splits };

const MARK: &str = "Tar files in the WebDataset format, written by shardpack.";
const SHA256: &str = "sha256";
/// The records with the names of the classes. No dataset and no split has a name with a slash.
const CLASSES: &str = "classes/names";

/// The document, in the order in which it is written.
#[derive(Serialize, Deserialize)]
struct Document {
    #[serde(rename = "@context")]
    context: Value,
    #[serde(rename = "@type")]
    kind: String,
    name: String,
    description: String,
    #[serde(rename = "conformsTo")]
    conforms_to: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    license: Option<String>,
    distribution: Vec<Value>,
    #[serde(rename = "recordSet")]
    record_sets: Vec<Value>,
}

impl Document {
    fn new(name: &str, license: Option<&str>, distribution: Vec<Value>, record_sets: Vec<Value>) -> Self {
        Self {
            context: context(),
            kind: "sc:Dataset".to_owned(),
            name: name.to_owned(),
            description: MARK.to_owned(),
            conforms_to: "http://mlcommons.org/croissant/1.0".to_owned(),
            license: license.map(str::to_owned),
            distribution,
            record_sets,
        }
    }
}

/// Writes the description of one dataset.
pub(super) fn write(part: &Part<'_>, hashes: &[BTreeMap<String, String>], files: &mut dyn Files) -> Result<()> {
    let mut distribution = Vec::new();
    for (number, shard) in part.shards.iter().enumerate() {
        let sha256 = hashes.get(number).and_then(|hashes| hashes.get(SHA256));
        let sha256 = sha256.ok_or_else(|| Error::data("its SHA-256 is unknown").in_file(&shard.file))?;
        distribution.push(json!({
            "@type": "cr:FileObject", "@id": shard.file, "name": shard.file, "contentUrl": shard.file,
            "contentSize": format!("{} B", shard.bytes), "encodingFormat": "application/x-tar", "sha256": sha256,
        }));
    }
    let (columns, classes) = (columns(&[part]), class_names(&[part]));
    distribution.extend(columns.iter().map(|column| members(part, column, &columns)));
    let mut record_sets: Vec<_> = columns.iter().map(|column| records(part, column, classes.is_some())).collect();
    record_sets.extend(joined(part, &columns, classes.is_some()));
    record_sets.extend(classes.as_deref().map(enumeration));
    sidecars::json(CATALOGUE.file, &Document::new(part.name, part.license, distribution, record_sets), files)
}

/// The description of all splits: those of the splits together, with the paths of their shards.
fn of_splits(splits: &[OfSplit<'_>]) -> Result<Vec<u8>> {
    let failed = |error| Error::data(format!("cannot write {}: {error}", CATALOGUE.file));
    let (mut distribution, mut record_sets, mut known) = (Vec::new(), Vec::new(), BTreeSet::new());
    let mut license = None;
    for split in splits {
        let own: Document = serde_json::from_slice(split.own).map_err(failed)?;
        license = license.or(own.license);
        for mut file in own.distribution {
            if let Some(url) = file.get_mut("contentUrl") {
                *url = format!("{}/{}", split.folder, url.as_str().unwrap_or_default()).into();
            }
            distribution.push(file);
        }
        for records in own.record_sets {
            // The classes of all splits are the same.
            if known.insert(records["@id"].to_string()) {
                record_sets.push(records);
            }
        }
    }
    let mut bytes = serde_json::to_vec_pretty(&Document::new("dataset", license.as_deref(), distribution, record_sets))
        .map_err(failed)?;
    bytes.push(b'\n');
    Ok(bytes)
}

/// Identifier of something of the column `column` of `part`.
fn id_of(part: &Part<'_>, column: &Column, what: &str) -> String {
    format!("{}/{}/{what}", part.name, column.name())
}

/// The files of `column` in the shards.
fn members(part: &Part<'_>, column: &Column, all: &[Column]) -> Value {
    let has_longer = |extension: &str| {
        let end = format!(".{extension}");
        all.iter().flat_map(|column| &column.extensions).any(|other| other.ends_with(&end))
    };
    let pattern = |extension: &String| match has_longer(extension) {
        // `*.png` would match `0.mask.png` too; keys have eight digits, and more only above 100 million samples.
        true => (8..=11).map(|digits| format!("{}.{extension}", "[0-9]".repeat(digits))).collect(),
        false => vec![format!("*.{extension}")],
    };
    let includes: Vec<_> = column.extensions.iter().flat_map(pattern).collect();
    let formats: Vec<_> = column.extensions.iter().map(|extension| mime(column.content, extension)).collect();
    let archives: Vec<_> = part.shards.iter().map(|shard| json!({ "@id": shard.file })).collect();
    let own = id_of(part, column, "files");
    json!({
        "@type": "cr:FileSet", "@id": own, "name": own, "containedIn": archives, "encodingFormat": formats,
        "includes": includes,
    })
}

/// The records of `column`: key and content.
fn records(part: &Part<'_>, column: &Column, has_classes: bool) -> Value {
    let own = id_of(part, column, "records");
    let files = json!({ "@id": id_of(part, column, "files") });
    let key = json!({
        "@type": "cr:Field", "@id": id_of(part, column, "key"), "name": "key", "dataType": "sc:Text",
        "source": {
            "fileSet": files, "extract": { "fileProperty": "filename" }, "transform": { "regex": "^([^.]*)[.].*$" },
        },
    });
    let content = json!({
        "@type": "cr:Field", "@id": id_of(part, column, "content"), "name": column.name(),
        "description": description(column, has_classes), "dataType": data_type(column.content),
        "source": { "fileSet": files, "extract": { "fileProperty": "content" } },
    });
    json!({
        "@type": "cr:RecordSet", "@id": own, "name": own, "key": { "@id": id_of(part, column, "key") },
        "field": [key, content],
    })
}

/// The records of the first column together with the label, or with the second column if there are no labels.
fn joined(part: &Part<'_>, columns: &[Column], has_classes: bool) -> Option<Value> {
    let first = columns.first()?;
    let second = columns.iter().skip(1).find(|column| column.is_label()).or(columns.get(1))?;
    let name = part.name;
    let field = |column: &Column| {
        json!({
            "@type": "cr:Field", "@id": format!("{name}/{}", column.name()), "name": column.name(),
            "description": description(column, has_classes), "dataType": data_type(column.content),
            "source": { "field": { "@id": id_of(part, column, "content") } },
        })
    };
    let key = json!({
        "@type": "cr:Field", "@id": format!("{name}/__key__"), "name": "key", "dataType": "sc:Text",
        "source": { "field": { "@id": id_of(part, first, "key") } },
        "references": { "field": { "@id": id_of(part, second, "key") } },
    });
    Some(json!({
        "@type": "cr:RecordSet", "@id": name, "name": part.name, "key": { "@id": format!("{name}/__key__") },
        "field": [key, field(first), field(second)],
    }))
}

/// The names of the classes.
fn enumeration(classes: &[String]) -> Value {
    let (label, name) = (format!("{CLASSES}/label"), format!("{CLASSES}/name"));
    let data: Vec<_> =
        classes.iter().enumerate().map(|(number, class)| json!({ &label: number, &name: class })).collect();
    json!({
        "@type": "cr:RecordSet", "@id": CLASSES, "name": CLASSES, "dataType": "sc:Enumeration",
        "key": { "@id": label },
        "field": [
            { "@type": "cr:Field", "@id": label, "name": "label", "dataType": "sc:Integer" },
            { "@type": "cr:Field", "@id": name, "name": "name", "dataType": ["sc:Text", "sc:name"] },
        ],
        "data": data,
    })
}

fn description(column: &Column, has_classes: bool) -> String {
    let extensions: Vec<_> = column.extensions.iter().map(|extension| format!(".{extension}")).collect();
    let labels = if column.is_label() && has_classes { format!("; the names are in {CLASSES}") } else { String::new() };
    format!("The content of the members {}{labels}", extensions.join(", "))
}

fn data_type(content: Content) -> &'static str {
    match content {
        Content::Image => "sc:ImageObject",
        Content::Sound => "sc:AudioObject",
        Content::Video => "sc:VideoObject",
        Content::Integer => "sc:Integer",
        // Croissant has no type for bytes; mlcroissant returns them for text.
        Content::Mesh | Content::Text | Content::Json | Content::Value | Content::Bytes => "sc:Text",
    }
}

fn mime(content: Content, extension: &str) -> String {
    let kind = match content {
        Content::Image => "image",
        Content::Sound => "audio",
        Content::Video => "video",
        Content::Text | Content::Integer => return "text/plain".to_owned(),
        Content::Json => return "application/json".to_owned(),
        Content::Mesh | Content::Value | Content::Bytes => return "application/octet-stream".to_owned(),
    };
    let extension = extension.rsplit('.').next().unwrap_or_default().to_ascii_lowercase();
    let name = match extension.as_str() {
        "jpg" => "jpeg",
        "tif" => "tiff",
        "mp3" => "mpeg",
        "ppm" => "x-portable-anymap",
        other => other,
    };
    format!("{kind}/{name}")
}

fn context() -> Value {
    json!({
        "@language": "en", "@vocab": "https://schema.org/",
        "citeAs": "cr:citeAs", "column": "cr:column", "conformsTo": "dct:conformsTo",
        "cr": "http://mlcommons.org/croissant/", "rai": "http://mlcommons.org/croissant/RAI/",
        "data": { "@id": "cr:data", "@type": "@json" }, "dataType": { "@id": "cr:dataType", "@type": "@vocab" },
        "dct": "http://purl.org/dc/terms/", "equivalentProperty": "cr:equivalentProperty",
        "examples": { "@id": "cr:examples", "@type": "@json" },
        "extract": "cr:extract", "field": "cr:field", "fileProperty": "cr:fileProperty",
        "fileObject": "cr:fileObject", "fileSet": "cr:fileSet", "format": "cr:format", "includes": "cr:includes",
        "isLiveDataset": "cr:isLiveDataset", "jsonPath": "cr:jsonPath", "key": "cr:key", "md5": "cr:md5",
        "parentField": "cr:parentField", "path": "cr:path", "recordSet": "cr:recordSet",
        "references": "cr:references", "regex": "cr:regex", "repeated": "cr:repeated", "replace": "cr:replace",
        "samplingRate": "cr:samplingRate", "sc": "https://schema.org/", "separator": "cr:separator",
        "source": "cr:source", "subField": "cr:subField", "transform": "cr:transform",
    })
}

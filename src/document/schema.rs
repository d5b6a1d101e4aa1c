//! Generates `docs/reference/json.schema.json` from the types that the commands print.

use std::{env, fs, path::Path};

use schemars::{
    JsonSchema, Schema, SchemaGenerator,
    generate::SchemaSettings,
    json_schema,
    transform::{RecursiveTransform, Transform},
};
use serde_json::{Map, Value, json};

use super::Failed;
use crate::commands::{adopt, bench, crops, inspect, merge, pack, part, planned, status, verify};

/// The file, relative to the package.
const FILE: &str = "docs/reference/json.schema.json";
/// If set, the schema is written to this file instead of compared.
const OUT: &str = "SHARDPACK_JSON_SCHEMA";

/// Adds a type to the definitions and refers to it.
type Refer = fn(&mut SchemaGenerator) -> Schema;

/// The documents of each command. Each command may also print [`Failed`].
const COMMANDS: [(&str, &[Refer]); 10] = [
    ("pack", PACKING),
    ("convert", PACKING),
    ("plan", &[to::<planned::Document>, to::<planned::SeveralPlanned>]),
    ("merge", &[to::<merge::Document>]),
    ("status", &[to::<status::Unfinished>, to::<status::Changing>, to::<status::Finished>]),
    ("adopt", &[to::<adopt::Adopted>]),
    ("verify", &[to::<verify::Verified>]),
    ("crops", &[to::<crops::Cropped>]),
    (
        "inspect",
        &[to::<inspect::Inspected>, to::<inspect::Listed>, to::<inspect::ExtractedImage>, to::<inspect::Table>],
    ),
    ("bench", &[to::<bench::Document>]),
];

const PACKING: &[Refer] = &[
    to::<pack::Packed>,
    to::<pack::SeveralPacked>,
    to::<part::PartPacked>,
    to::<part::PartChanged>,
    to::<planned::Document>,
    to::<planned::SeveralPlanned>,
];

fn to<T: JsonSchema>(generator: &mut SchemaGenerator) -> Schema {
    generator.subschema_for::<T>()
}

/// `SeveralPacked` as `several_packed`.
fn snake_case(name: &str) -> String {
    let mut out = String::new();
    for (at, c) in name.char_indices() {
        if c.is_ascii_uppercase() && at > 0 {
            out.push('_');
        }
        out.push(c.to_ascii_lowercase());
    }
    out
}

/// Optional keys are never null: they are fields that are skipped in place of null.
fn never_null(schema: &mut Schema) {
    let required = schema.get("required").cloned().unwrap_or_default();
    let is_required = |name: &str| required.as_array().is_some_and(|names| names.iter().any(|one| one == name));
    let Some(Value::Object(properties)) = schema.get_mut("properties") else { return };
    for (_, property) in properties.iter_mut().filter(|(name, _)| !is_required(name)) {
        if let Some([only, null]) = property["type"].as_array().map(Vec::as_slice)
            && null == "null"
        {
            property["type"] = only.clone();
        }
        if let Some([Value::Object(only), null]) = property["anyOf"].as_array().map(Vec::as_slice)
            && null["type"] == "null"
        {
            let only = only.clone();
            let property = property.as_object_mut().unwrap();
            property.remove("anyOf");
            property.extend(only);
        }
    }
}

/// Objects have no other keys, numbers have limits, and comments have the words of JSON.
fn strict(schema: &mut Schema) {
    if schema.get("properties").is_some() {
        schema.insert("additionalProperties".to_owned(), false.into());
    }
    never_null(schema);
    let format = schema.remove("format");
    if format.as_ref().and_then(Value::as_str).is_some_and(|format| format.starts_with("uint")) {
        let object = schema.ensure_object();
        object.entry("minimum").or_insert_with(|| 0.into());
        object.entry("maximum").or_insert_with(|| u64::MAX.into());
    }
    if let Some(Value::String(reference)) = schema.get_mut("$ref")
        && let Some(name) = reference.strip_prefix("#/$defs/")
    {
        *reference = format!("#/$defs/{}", snake_case(name));
    }
    if let Some(Value::String(description)) = schema.get_mut("description") {
        *description = description.replace("`None`", "null").replace("[`", "`").replace("`]", "`");
    }
}

fn schema() -> Value {
    let transform: fn(&mut Schema) = strict;
    let settings = SchemaSettings::draft2020_12().for_serialize();
    let mut generator = settings.with_transform(RecursiveTransform(transform)).into_generator();
    let mut defs = Map::new();
    for (command, documents) in COMMANDS {
        let documents = documents.iter().chain(&[to::<Failed> as Refer]).map(|refer| refer(&mut generator));
        let mut schema = json_schema!({ "anyOf": documents.collect::<Vec<_>>() });
        RecursiveTransform(transform).transform(&mut schema);
        assert_eq!(defs.insert(command.to_owned(), schema.into()), None, "{command}");
    }
    for (name, schema) in generator.take_definitions(true) {
        assert_eq!(defs.insert(snake_case(&name), schema), None, "{name}");
    }
    let all = COMMANDS.map(|(command, _)| json!({ "$ref": format!("#/$defs/{command}") }));
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "What shardpack prints with --json",
        "description": "One document on stdout, however a command ends; $defs has one for each command. Keys may come with later versions.",
        "anyOf": all,
        "$defs": defs,
    })
}

#[test]
fn the_schema_of_the_documents_is_that_of_the_page() {
    let made = format!("{:#}\n", schema());
    if let Some(out) = env::var_os(OUT) {
        return fs::write(out, made).unwrap();
    }
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join(FILE);
    assert!(fs::read_to_string(file).unwrap() == made, "{FILE} is out of date; run `cargo xtask docs`");
}

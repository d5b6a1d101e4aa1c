//! Reading for training: what `shardpack bench` tells, of builds with libjpeg-turbo and without, with crop tables and without.

use std::{fmt::Write as _, path::Path};

use serde_json::Value;

use super::{
    Scale,
    contest::{median, spread},
    folder,
    rows::{clear, pack_command, trees, warm},
};
use crate::{
    Result,
    command::{cargo, command, output, run, shardpack, target},
    tools,
};

/// Batches of random crops, and samples as they are, against their bounds.
pub fn training(scale: &Scale) -> Result<String> {
    let [tree, _] = trees(scale);
    let (path, tools) = (tree.make()?, tools::path()?);
    let turbo = target("turbo");
    run(cargo("build --release --package shardpack --features turbo --target-dir").arg(&turbo).env("PATH", &tools))?;
    warm(&path)?;
    run(&mut pack_command(&path, "shards", &[])?)?;
    let shards = folder("out/shards");
    let mut text = format!(
        "From the page cache: `shardpack bench DST`, random crops of 224 × 224, flipped, uint8, in batches of 64 by two threads; \
         `decode` is the rate at which as many threads decode the same images wholly, from memory, by the same decoder; `plain` \
         that of reading the shards one after the other. Medians of {} rounds in turns, least to most. {}.\n\n\
         | | raw ÷ plain | images/s | ÷ decode | decode | wait for a batch: median, 99 %, longest, first | R | DEFF |\n\
         |---|---:|---:|---:|---:|---:|---:|---:|\n",
        scale.rounds,
        tree.describe()
    );
    let builds = [("libjpeg-turbo", turbo.join("release/shardpack")), ("zune-jpeg", shardpack("release"))];
    let mut rows: Vec<(String, Vec<Value>)> = Vec::new();
    for with in ["", ", crop tables"] {
        if !with.is_empty() {
            run(command(shardpack("release"), ["crops", "--quiet"]).arg(&shards))?;
        }
        let mut measured: Vec<_> = builds.iter().map(|(name, _)| (format!("{name}{with}"), Vec::new())).collect();
        for _ in 0..scale.rounds {
            for ((_, program), (_, found)) in builds.iter().zip(&mut measured) {
                found.push(once(program, &shards)?);
            }
        }
        rows.extend(measured);
    }
    for (name, found) in rows {
        text += &row(&name, &found);
    }
    clear().map(|()| text)
}

/// What one run tells.
fn once(program: &Path, shards: &Path) -> Result<Value> {
    let said = output(command(program, ["bench", "--json", "--quiet", "--seconds", "20"]).arg(shards))?;
    let json: Value = serde_json::from_str(&said).map_err(|error| format!("shardpack bench --json: {error}"))?;
    Ok(json["datasets"][0].clone())
}

fn row(name: &str, found: &[Value]) -> String {
    let number = |value: &Value| value.as_f64().unwrap_or(f64::NAN);
    let rate = |one: &Value, what: &str, unit: &str| number(&one[what][unit]) / number(&one[what]["elapsed_ms"]) * 1e3;
    let column = |of: &dyn Fn(&Value) -> f64, digits: usize| spread(found.iter().map(of).collect(), digits);
    let plain =
        |of: &dyn Fn(&Value) -> f64, digits: usize| format!("{:.digits$}", median(found.iter().map(of).collect()));
    let wait = |what: &'static str| plain(&|one: &Value| number(&one["waits"][what]), 1);
    let mut text = String::new();
    // Writing to a string cannot fail.
    let _ = writeln!(
        text,
        "| {name} | {} | {} | {} | {} | {}, {}, {}, {} ms | {} | {} |",
        column(&|one| rate(one, "raw", "bytes") / rate(one, "plain", "bytes"), 2),
        plain(&|one| rate(one, "crops", "samples"), 0),
        column(&|one| rate(one, "crops", "samples") / rate(one, "decode", "samples"), 2),
        plain(&|one| rate(one, "decode", "samples"), 0),
        wait("median_ms"),
        wait("p99_ms"),
        wait("longest_ms"),
        wait("first_ms"),
        plain(&|one| number(&one["r"]["value"]), 2),
        plain(&|one| number(&one["deff"]["value"]), 2),
    );
    text
}

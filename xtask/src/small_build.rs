//! Tests the program without its default features: it packs photos, and refuses all else by name.

use std::path::Path;

use crate::{
    Result,
    command::{cargo, command, remove, root, run, target, typed, write},
};

/// The refusal of a build without the feature `decode`.
const NO_DECODE: &str = "this build cannot decode images (it lacks the feature decode)";

/// Builds the program, packs and verifies photos, and compares its refusals.
pub fn test() -> Result<()> {
    // Stand-ins for readers, which all other tests have.
    run(&mut cargo("test --package shardpack-foreign --no-default-features --lib"))?;
    let build = target("small-build");
    run(cargo("build --package shardpack --no-default-features --target-dir").arg(&build))?;
    let program = build.join("debug").join(format!("shardpack{}", std::env::consts::EXE_SUFFIX));
    let folder = build.join("test");
    remove(&folder)?;
    let (photos, packed, boxes) = (root().join("fixtures/photos"), folder.join("packed"), folder.join("boxes"));
    write(&boxes.join("images/cat.jpg"), std::fs::read(photos.join("animals/cat.jpg")).map_err(|e| e.to_string())?)?;
    write(&boxes.join("labels/cat.txt"), "0 0.5 0.5 0.2 0.2\n")?;
    let [photos, packed, boxes] = [&photos, &packed, &boxes].map(|path| path.to_string_lossy().into_owned());
    let other = folder.join("other").to_string_lossy().into_owned();

    run(&mut command(&program, ["pack", &photos, &packed, "--quiet"]))?;
    run(&mut command(&program, ["verify", &packed, "--against", &photos, "--quiet"]))?;
    run(&mut command(&program, ["crops", &packed, "--quiet"]))?;
    for (arguments, reason) in [
        (vec!["pack", &photos, &other, "--resize", "64"], NO_DECODE),
        (vec!["pack", &photos, &other, "--check", "full"], NO_DECODE),
        (vec!["convert", &packed, &other, "--near-duplicates"], NO_DECODE),
        (vec!["pack", &boxes, &other, "--no-labels", "--with", "boxes=yolo:../labels/*.txt"], NO_DECODE),
        (vec!["verify", &packed, "--decode"], NO_DECODE),
        (vec!["bench", &packed, "--seconds", "1"], NO_DECODE),
        (vec!["verify", "s3://bucket/packed"], "it lacks the feature cloud"),
        (vec!["inspect", &packed, "--table", "table.parquet"], "it lacks the feature parquet"),
    ] {
        refuses(&program, &arguments, reason)?;
        if Path::new(&other).exists() {
            return Err(format!("{} wrote {other}", arguments.join(" ")));
        }
    }
    Ok(())
}

/// Runs a command that has to fail with exit code 2 and `reason`.
fn refuses(program: &Path, arguments: &[&str], reason: &str) -> Result<()> {
    let mut command = command(program, arguments);
    let output = command.output().map_err(|error| format!("cannot run {}: {error}", typed(&command)))?;
    let said = String::from_utf8_lossy(&output.stderr);
    match output.status.code() == Some(2) && said.contains(reason) {
        true => Ok(()),
        false => Err(format!("{}: {}, without {reason:?}: {said}", typed(&command), output.status)),
    }
}

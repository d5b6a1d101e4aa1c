//! Regenerates the fixtures that can be regenerated, and compares (`fixtures`).

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

use crate::{
    Result,
    command::{command, read, remove, root, run, target, write},
    python,
};

const PHOTOS: &str = "fixtures/make_photos.py";
const SEEDS: &str = "benches/seeds/make_seeds.py";
/// Prefix of the line in the photos' script that names its packages.
const PINS: &str = "pip install --no-deps ";

/// Task `fixtures`.
pub fn task() -> Result<()> {
    let script = read(&root().join(PHOTOS))?;
    let pins = script.lines().find_map(|line| line.trim().strip_prefix(PINS));
    let pins = pins.ok_or_else(|| format!("{PHOTOS} has no line `{PINS}…`"))?;
    let work = target("fixtures");
    let requirements = work.join("requirements.txt");
    write(&requirements, pins.replace(' ', "\n") + "\n")?;
    // The requirements are in the target folder, which may be outside the root.
    let python = python::environment("fixtures-venv", &requirements.to_string_lossy())?;

    // Both scripts write next to themselves.
    let again = work.join("fixtures");
    remove(&again)?;
    write(&again.join("make_photos.py"), &script)?;
    run(&mut command(&python, [again.join("make_photos.py")]))?;
    compare("fixtures/photos", &again.join("photos"))?;
    let seeds = work.join("seeds");
    remove(&seeds)?;
    write(&seeds.join("make_seeds.py"), read(&root().join(SEEDS))?)?;
    run(command(&python, [seeds.join("make_seeds.py")]).arg(again.join("photos")))?;
    compare("benches/seeds", &seeds)
}

fn compare(name: &str, again: &Path) -> Result<()> {
    let (found, made) = (images(&root().join(name))?, images(again)?);
    let differing: Vec<_> = found
        .keys()
        .chain(made.keys())
        .filter(|path| found.get(*path) != made.get(*path))
        .map(|path| path.display().to_string())
        .collect();
    if !differing.is_empty() || found.is_empty() {
        return Err(format!("{name}: differs from what its script makes: {}", differing.join(", ")));
    }
    println!("{name}: {} files, made again, the same bytes", found.len());
    Ok(())
}

/// All images below `folder`, by path.
fn images(folder: &Path) -> Result<BTreeMap<PathBuf, Vec<u8>>> {
    let unreadable = |path: &Path, error| format!("{}: {error}", path.display());
    let (mut images, mut folders) = (BTreeMap::new(), vec![folder.to_path_buf()]);
    while let Some(parent) = folders.pop() {
        for entry in std::fs::read_dir(&parent).map_err(|error| unreadable(&parent, error))? {
            let path = entry.map_err(|error| unreadable(&parent, error))?.path();
            let extension = path.extension().unwrap_or_default().to_ascii_lowercase();
            if path.is_dir() {
                folders.push(path);
            } else if extension == "jpg" || extension == "png" {
                let bytes = std::fs::read(&path).map_err(|error| unreadable(&path, error))?;
                images.insert(path.strip_prefix(folder).unwrap_or(&path).to_path_buf(), bytes);
            }
        }
    }
    Ok(images)
}

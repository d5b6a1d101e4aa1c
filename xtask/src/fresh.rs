//! Runs the two set-up commands of the README (`fresh`) on a machine that has only the README's prerequisites.
//!
//! The machine is Debian's minbase in a folder, made by debootstrap. chroot enters it in its own mount and process namespaces, so no
//! mount or process outlives the task. The Rust toolchain is mounted read-only; settings of registries and certificates are copied.

use std::{
    fs,
    path::{Path, PathBuf},
    time::Instant,
};

use crate::{
    Result,
    arguments::Arguments,
    command::{command, is_installed, output, read, remove, root, run, target, write},
};

/// The packages that the README names, plus git for the clone.
const PACKAGES: &str = "ca-certificates,gcc,git,libc6-dev,python3,python3-venv";
/// The commands; the README must contain them word for word.
const COMMANDS: [&str; 2] = ["cargo run --release -- pack fixtures/photos packed", "cargo xtask test"];
/// Variables of this machine that name certificate files or registries.
const SETTINGS: [&str; 12] = [
    "CARGO_HTTP_CAINFO",
    "CURL_CA_BUNDLE",
    "GIT_SSL_CAINFO",
    "HTTPS_PROXY",
    "HTTP_PROXY",
    "PIP_CERT",
    "PIP_INDEX_URL",
    "REQUESTS_CA_BUNDLE",
    "SSL_CERT_DIR",
    "SSL_CERT_FILE",
    "https_proxy",
    "http_proxy",
];
/// Files with registry and network settings.
const FILES: [&str; 4] = ["/etc/pip.conf", "/etc/resolv.conf", "/etc/hosts", "/root/.cargo/config.toml"];
/// Mounts, then runs the command in the root, in new namespaces. Arguments: root, toolchain, command.
const ENTER: &str = r#"set -eu
mount --make-rprivate /
mount -t proc proc "$1/proc"
mount --rbind /dev "$1/dev"
mkdir -p "$1/opt/rust"
mount --bind -o ro "$2" "$1/opt/rust"
exec chroot "$1" /bin/bash -c "cd /shardpack && PATH=/opt/rust/bin:\$PATH exec $3"
"#;

/// Task `fresh`.
///
/// # Errors
/// If a command of the README fails there, or this machine cannot make such a root.
pub fn task(mut arguments: Arguments) -> Result<()> {
    let is_first_only = arguments.flag("--first");
    arguments.end()?;
    match hindrance()? {
        Some(why) => Err(why.to_owned()),
        None => check(if is_first_only { &COMMANDS[..1] } else { &COMMANDS }),
    }
}

/// Runs [`task`] with all commands. If this machine cannot make such a root, this prints a note and succeeds.
pub fn all() -> Result<()> {
    if let Some(why) = hindrance()? {
        println!("{why}: the commands of the README were NOT tried on a fresh machine");
        return Ok(());
    }
    check(&COMMANDS)
}

fn check(commands: &[&str]) -> Result<()> {
    let readme = read(&root().join("README.md"))?;
    if let Some(gone) = COMMANDS.iter().find(|line| !readme.contains(**line)) {
        return Err(format!("README.md has no {gone:?} any more"));
    }
    let folder = target("fresh");
    make(&folder)?;
    let toolchain = output(&mut command("rustc", ["--print", "sysroot"]))?;
    for line in commands {
        println!("$ {line}");
        let mut inside = command("env", ["-i", "HOME=/root", "LANG=C.UTF-8", "PATH=/usr/sbin:/usr/bin:/sbin:/bin"]);
        inside.args(settings().into_iter().map(|(name, value)| format!("{name}={value}")));
        inside.args(["unshare", "--mount", "--pid", "--fork", "sh", "-c", ENTER, "sh"]);
        let began = Instant::now();
        run(inside.arg(&folder).arg(toolchain.trim()).arg(line))?;
        println!("$ {line}: passed in {} s", began.elapsed().as_secs());
    }
    remove(&folder)
}

/// The reason why this machine cannot run the task, if any.
fn hindrance() -> Result<Option<&'static str>> {
    if output(&mut command("id", ["-u"]))?.trim() != "0" {
        return Ok(Some("chroot needs root"));
    }
    if !is_installed("debootstrap", &["--version"]) {
        return Ok(Some("debootstrap is not installed (apt-get install debootstrap)"));
    }
    let can_mount =
        command("unshare", ["--mount", "--pid", "--fork", "true"]).status().is_ok_and(|status| status.success());
    Ok((!can_mount).then_some("this machine allows no mounts"))
}

/// The variables of [`SETTINGS`] that are set.
fn settings() -> Vec<(&'static str, String)> {
    SETTINGS.iter().filter_map(|name| Some((*name, std::env::var(name).ok()?))).collect()
}

/// Creates the root, with a clone of the last commit.
fn make(folder: &Path) -> Result<()> {
    remove(folder)?;
    let release = read(Path::new("/etc/os-release"))?;
    let suite = release.lines().find_map(|line| line.strip_prefix("VERSION_CODENAME=")).unwrap_or("stable");
    let mut debootstrap = command("debootstrap", ["--variant=minbase"]);
    debootstrap.arg(format!("--include={PACKAGES}")).arg(suite).arg(folder).args(mirror(suite));
    output(&mut debootstrap)?;
    let named = settings().into_iter().map(|(_, value)| PathBuf::from(value));
    for path in FILES.iter().map(PathBuf::from).chain(named).filter(|path| path.is_absolute() && path.exists()) {
        copy(&path, &folder.join(path.strip_prefix("/").unwrap_or(&path)))?;
    }
    let clone = folder.join("shardpack");
    run(command("git", ["clone", "--quiet", "."]).arg(&clone))?;
    // Git refuses a repository with another owner.
    write(&folder.join("root/.gitconfig"), "[safe]\n\tdirectory = *\n")
}

/// The package mirror of this machine.
fn mirror(suite: &str) -> Option<String> {
    let listed = output(&mut command("apt-get", ["indextargets", "--format", "$(CODENAME) $(REPO_URI)"])).ok()?;
    let of_suite = listed.lines().find_map(|line| line.strip_prefix(suite)?.strip_prefix(' '));
    of_suite.map(str::to_owned)
}

/// Copies a file, or the files of a folder with the targets of their links.
///
/// Links at the destination are removed, not followed: an absolute link in the root would lead out of it.
fn copy(from: &Path, to: &Path) -> Result<()> {
    let parent = to.parent().unwrap_or(to);
    fs::create_dir_all(parent).map_err(|error| format!("{}: {error}", parent.display()))?;
    run(command("cp", ["-rLT", "--remove-destination"]).arg(from).arg(to))
}

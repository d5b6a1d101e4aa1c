//! Tests the release files in an otherwise empty root: the binary alone, and the wheel with only Python.
//!
//! The roots are folders of copies, entered by chroot. A root contains only the copied files, so it has no compiler.

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use super::{copy, files};
use crate::{
    Result,
    command::{command, output, read, remove, root, run, target, write},
};

/// Command prefix that enters a root. The first needs no root rights, but a kernel that allows user namespaces.
type Way = &'static [&'static str];
const WAYS: [Way; 2] = [&["unshare", "--map-root-user", "chroot"], &["chroot"]];

/// Python program that prints the paths of its interpreter and library.
const WHERE: &str = "import os, sys, sysconfig; \
    print(os.path.realpath(getattr(sys, '_base_executable', sys.executable)), sysconfig.get_path('stdlib'), sep='\\n')";
/// Folders of Python's library that no program needs.
const LEFT_OUT: [&str; 8] =
    ["site-packages", "dist-packages", "test", "tests", "idlelib", "turtledemo", "lib2to3", "__pycache__"];
/// Libraries that manylinux guarantees on a machine, besides the libraries of Python itself.
const PROMISED: [&str; 9] = [
    "libc.so.6",
    "libdl.so.2",
    "libgcc_s.so.1",
    "libm.so.6",
    "libpthread.so.0",
    "librt.so.1",
    "libstdc++.so.6",
    "libutil.so.1",
    "libnsl.so.1",
];

/// Packs and verifies with the binary in a root with only the binary and photographs; returns the prefix that entered the root.
pub fn binary(program: &Path) -> Result<Way> {
    let folder = empty("binary")?;
    copy(program, &folder.join("shardpack"))?;
    copy_photographs(&folder)?;
    let mut refused = Vec::new();
    for way in WAYS {
        match output(&mut inside(way, &folder, &["/shardpack", "--version"])) {
            Ok(version) => {
                println!("entered by `{}`: {}", way.join(" "), version.trim());
                pack_and_verify(way, &folder, "/shardpack")?;
                return Ok(way);
            }
            Err(error) => refused.push(error.trim().to_owned()),
        }
    }
    Err(format!(
        "an empty root cannot be entered on this machine, or the binary does not run there:\n  {}\n  help: --no-try does without",
        refused.join("\n  ")
    ))
}

/// Installs the wheel and numpy in a fresh environment of a root with only Python; packs, verifies, loads.
pub fn wheel(wheel: &Path, tools: &Path, way: Way) -> Result<()> {
    let folder = empty("wheel")?;
    let facts = output(&mut command(tools, ["-c", WHERE]))?;
    let mut facts = facts.lines();
    let (Some(python), Some(library)) = (facts.next(), facts.next()) else {
        return Err("Python does not say where it is".to_owned());
    };
    copy_python(Path::new(python), Path::new(library), &folder)?;
    copy_photographs(&folder)?;
    let wheels = folder.join("wheels");
    let name = wheel.file_name().ok_or("a wheel without a name")?;
    copy(wheel, &wheels.join(name))?;
    for wheel in files(&numpy(tools)?)?.iter().filter(|path| path.extension().is_some_and(|end| end == "whl")) {
        copy(wheel, &wheels.join(wheel.file_name().unwrap_or_default()))?;
    }
    // A regular file suffices for discarded output; a device would need root rights.
    write(&folder.join("dev/null"), "")?;
    write(&folder.join("tmp/loader.py"), include_str!("loader.py"))?;

    run(&mut inside(way, &folder, &[python, "-m", "venv", "/venv"]))?;
    let pip = ["/venv/bin/python", "-m", "pip", "--disable-pip-version-check", "install", "--no-compile", "--no-index"];
    run(&mut inside(way, &folder, &[&pip[..], &["--find-links", "/wheels", "shardpack"]].concat()))?;
    pack_and_verify(way, &folder, "/venv/bin/shardpack")?;
    run(&mut inside(way, &folder, &["/venv/bin/python", "-X", "dev", "-W", "error", "/tmp/loader.py", "/packed"]))?;
    run(&mut inside(way, &folder, &["/venv/bin/python", "-m", "shardpack", "--version"]))
}

/// `words` in the root `folder`, without the environment of this machine.
fn inside(way: Way, folder: &Path, words: &[&str]) -> Command {
    let mut clean: Command = command("env", ["-i", "HOME=/tmp", "LANG=C.UTF-8", "PATH=/usr/sbin:/usr/bin:/sbin:/bin"]);
    clean.args(way).arg(folder).args(words);
    clean
}

fn pack_and_verify(way: Way, folder: &Path, program: &str) -> Result<()> {
    run(&mut inside(way, folder, &[program, "pack", "/photos", "/packed", "--quiet"]))?;
    run(&mut inside(way, folder, &[program, "verify", "/packed", "--against", "/photos", "--decode"]))?;
    // Change one byte of a photograph: a program that runs but checks nothing must not pass.
    let shards = files(&folder.join("packed"))?;
    let shard =
        shards.iter().find(|path| path.extension().is_some_and(|end| end == "tar")).ok_or("no shard was packed")?;
    let whole = fs::read(shard).map_err(|error| format!("{}: {error}", shard.display()))?;
    let mut damaged = whole.clone();
    let middle = damaged.len() / 2;
    damaged.get_mut(middle).map(|byte| *byte ^= 1).ok_or("an empty shard")?;
    write(shard, damaged)?;
    if inside(way, folder, &[program, "verify", "/packed", "--quiet"])
        .output()
        .is_ok_and(|output| output.status.success())
    {
        return Err(format!("{program}: verify passes a shard with a changed byte"));
    }
    write(shard, whole)
}

/// A new folder in cargo's target folder with only an empty `tmp`.
fn empty(name: &str) -> Result<PathBuf> {
    let folder = target("dist-build/roots").join(name);
    remove(&folder)?;
    let made = fs::create_dir_all(folder.join("tmp"));
    made.map_err(|error| format!("{}: {error}", folder.display())).map(|()| folder)
}

fn copy_photographs(folder: &Path) -> Result<()> {
    let photos = root().join("fixtures/photos");
    for photo in files(&photos)? {
        copy(&photo, &folder.join("photos").join(photo.strip_prefix(&photos).unwrap_or(&photo)))?;
    }
    Ok(())
}

/// Location of the absolute `path` in the root `folder`.
fn moved(path: &Path, folder: &Path) -> PathBuf {
    folder.join(path.strip_prefix("/").unwrap_or(path))
}

/// Copies a Python, its library and their shared libraries, each to the same path in the root.
fn copy_python(python: &Path, library: &Path, folder: &Path) -> Result<()> {
    let mut parts = vec![python.to_owned()];
    add_library(library, &mut parts)?;
    let (mut linked, mut libc) = (BTreeSet::new(), None);
    for part in parts.iter().filter(|part| *part == python || part.to_string_lossy().contains(".so")) {
        // ldd fails for files that are not dynamic programs: they have no shared libraries.
        let Ok(text) = output(&mut command("ldd", [part])) else { continue };
        linked.extend(libraries(&text));
    }
    for path in &linked {
        if path.ends_with("libc.so.6") {
            libc = path.parent().map(Path::to_owned);
        }
    }
    let libc = libc.ok_or_else(|| format!("{}: ldd names no libc.so.6", python.display()))?;
    linked.extend(PROMISED.iter().map(|name| libc.join(name)).filter(|path| path.exists()));
    parts.extend(linked);
    for part in &parts {
        copy(part, &moved(part, folder))?;
    }
    println!("a root of {} files of {} and its libraries", parts.len(), python.display());
    Ok(())
}

/// Files of Python's library below `folder` that a program may need.
fn add_library(folder: &Path, parts: &mut Vec<PathBuf>) -> Result<()> {
    for entry in fs::read_dir(folder).map_err(|error| format!("{}: {error}", folder.display()))?.flatten() {
        let (path, name) = (entry.path(), entry.file_name());
        let name = name.to_string_lossy();
        if path.is_dir() {
            if !LEFT_OUT.contains(&name.as_ref()) && !name.starts_with("config-") {
                add_library(&path, parts)?;
            }
        } else if path.is_file() {
            parts.push(path);
        }
    }
    Ok(())
}

/// Paths of libraries in the output of `ldd`; the kernel's own library has no path.
fn libraries(text: &str) -> Vec<PathBuf> {
    let paths = text.lines().filter_map(|line| line.split_whitespace().find(|word| word.starts_with('/')));
    paths.filter(|path| !path.ends_with(':')).map(PathBuf::from).collect()
}

/// A folder with the wheel of the numpy that the tests use.
fn numpy(tools: &Path) -> Result<PathBuf> {
    let pins = read(&root().join("tests/peers/requirements.txt"))?;
    let pins: String =
        pins.lines().filter(|line| line.starts_with("numpy==")).map(|line| format!("{line}\n")).collect();
    let folder = target("tools/numpy");
    let stamp = folder.join("requirements.stamp");
    if read(&stamp).is_ok_and(|found| found == pins) {
        return Ok(folder);
    }
    remove(&folder)?;
    let list = folder.join("requirements.txt");
    write(&list, &pins)?;
    let mut pip = command(tools, ["-m", "pip", "--disable-pip-version-check", "download", "--quiet", "--no-deps"]);
    run(pip.args(["--only-binary", ":all:", "--dest"]).arg(&folder).arg("-r").arg(&list))?;
    write(&stamp, pins)?;
    Ok(folder)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn libraries_are_the_paths_that_ldd_prints() {
        let text = "\tlinux-vdso.so.1 (0x00007ffd)\n\tlibm.so.6 => /lib/x86_64-linux-gnu/libm.so.6 (0x00007f)\n\
            \tlibgone.so => not found\n\t/lib64/ld-linux-x86-64.so.2 (0x00007f)\n";
        let wanted = ["/lib/x86_64-linux-gnu/libm.so.6", "/lib64/ld-linux-x86-64.so.2"].map(PathBuf::from);
        assert_eq!(libraries(text), wanted);
        assert!(libraries("\tstatically linked\n").is_empty());
    }

    #[test]
    fn a_path_keeps_its_place_in_a_root() {
        assert_eq!(moved(Path::new("/lib/a.so"), Path::new("/r")), Path::new("/r/lib/a.so"));
    }
}

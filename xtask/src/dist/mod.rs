//! Builds all release files into target/dist (`dist`), checks them, and tests them without a compiler.
//!
//! File names depend only on version and machine. The wheel is built from the source distribution, which proves that it is complete. No
//! built file contains a path of the build machine.

mod bill;
mod elf;
mod sums;
mod tries;

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
    time::SystemTime,
};

use crate::{
    Result,
    arguments::Arguments,
    command::{Steps, command, is_installed, output, read, remove, root, run, target, write},
    python,
};
use bill::Package;

/// The glibc that wheels require: the oldest that Rust supports.
const MANYLINUX: &str = "manylinux_2_17";
/// Free-threaded interpreters: PyO3 supports them from 3.14 on, and its stable ABI excludes them.
const FREE_THREADED: [&str; 2] = ["python3.14t", "python3.15t"];
/// Shells, and the completion file that each loads.
const SHELLS: [(&str, &str); 5] = [
    ("bash", "shardpack.bash"),
    ("elvish", "shardpack.elv"),
    ("fish", "shardpack.fish"),
    ("powershell", "_shardpack.ps1"),
    ("zsh", "_shardpack"),
];
/// Texts of the licences of all dependencies; maturin adds files with this name to wheels.
const LICENCES: &str = "LICENSES-OF-DEPENDENCIES.txt";

/// Task `dist`.
pub fn task(mut arguments: Arguments) -> Result<()> {
    let (is_tried, is_made) = (!arguments.flag("--no-try"), !arguments.flag("--only-try"));
    arguments.end()?;
    let mut steps = Steps::default();
    let mut build = None;
    steps.step("tools", || Build::new().map(|made| build = Some(made)))?;
    let build = build.ok_or("no tools")?;
    if is_made {
        let before = read(&build.dist.join(sums::SHA256)).unwrap_or_default();
        remove(&build.dist)?;
        steps.step("licences and bills of materials", || build.papers())?;
        steps.step("static binary", || build.binary())?;
        steps.step("completions and manual pages", || build.pages())?;
        steps.step("source distribution", || build.sdist())?;
        steps.step("wheel", || build.wheel(&[]))?;
        steps.step("wheels for free-threaded Python", || build.free_threaded())?;
        steps.step("sums", || sums::write(&build.dist, &before))?;
    }
    if is_tried {
        let mut way = None;
        steps.step("binary in an empty root", || tries::binary(&build.program()).map(|found| way = Some(found)))?;
        let way = way.ok_or("no way into a root")?;
        steps.step("wheel in a root of Python alone", || tries::wheel(&build.abi3_wheel()?, &build.python, way))?;
    } else {
        println!("--no-try: neither the binary nor the wheel was tried in a root of its own");
    }
    steps.finish();
    Ok(())
}

/// Tools and folders of the build.
struct Build {
    /// Output folder.
    dist: PathBuf,
    /// Cargo's target folder for releases, because the flags differ from those of daily work.
    target: PathBuf,
    /// Python with the tools of benches/dist.txt.
    python: PathBuf,
    path: std::ffi::OsString,
    version: String,
    /// Modification time of all files in archives, in seconds since 1970.
    epoch: String,
}

impl Build {
    fn new() -> Result<Self> {
        if !cfg!(target_os = "linux") {
            return Err("wheels for manylinux and binaries for musl are made on Linux".to_owned());
        }
        let python = python::environment("tools/dist", "benches/dist.txt")?;
        let programs = python.parent().ok_or("a Python without a folder")?.to_owned();
        let others = std::env::var_os("PATH").unwrap_or_default();
        let path = std::env::join_paths(std::iter::once(programs).chain(std::env::split_paths(&others)));
        for (target, help) in [(gnu(), ""), (musl(), "\n  help: rustup target add ")] {
            let folder = output(&mut command("rustc", ["--print", "target-libdir", "--target", &target]))?;
            if !Path::new(folder.trim()).exists() {
                return Err(format!(
                    "rustc cannot build for {target}{help}{}",
                    if help.is_empty() { "" } else { &target }
                ));
            }
        }
        let commit = || output(&mut command("git", ["log", "-1", "--format=%ct"])).map(|text| text.trim().to_owned());
        let epoch = std::env::var("SOURCE_DATE_EPOCH").or_else(|_| commit())?;
        let version = bill::version(&read(&root().join("Cargo.toml"))?)?;
        let path = path.map_err(|error| error.to_string())?;
        Ok(Self { dist: target("dist"), target: target("dist-build"), python, path, version, epoch })
    }

    /// Path of a tool in the Python environment.
    fn tool(&self, name: &str) -> PathBuf {
        self.python.with_file_name(name)
    }

    /// A command that runs `tool` in `source`, set up so that its output contains no path of this machine.
    fn builder(&self, tool: &str, source: &Path) -> Command {
        let places = [(cargo_home(), "/cargo"), (source.to_owned(), "/shardpack"), (self.target.clone(), "/target")];
        let rust: Vec<_> =
            places.iter().map(|(from, to)| format!("--remap-path-prefix={}={to}", from.display())).collect();
        let mut command: Command = command::<&str>(self.tool(tool), []);
        command.current_dir(source).env("PATH", &self.path).env("CARGO_TARGET_DIR", &self.target);
        command.env("CARGO_ENCODED_RUSTFLAGS", rust.join("\u{1f}")).env_remove("RUSTFLAGS");
        command.env("SOURCE_DATE_EPOCH", &self.epoch).env("CARGO_INCREMENTAL", "0");
        command
    }

    /// Path of the static binary.
    fn program(&self) -> PathBuf {
        self.dist.join(format!("shardpack-{}-{}", self.version, musl()))
    }

    /// File name of the bill of materials of `what`, `binary` or `wheel`.
    fn bill(&self, what: &str) -> String {
        format!("shardpack-{}-{what}.cdx.json", self.version)
    }

    /// The wheel for all versions of Python except the free-threaded ones.
    fn abi3_wheel(&self) -> Result<PathBuf> {
        let name =
            |path: &PathBuf| path.file_name().is_some_and(|name| name.to_string_lossy().contains("-abi3-manylinux"));
        files(&self.dist)?.into_iter().find(name).ok_or_else(|| format!("no wheel is in {}", shown(&self.dist)))
    }

    /// Writes the texts of licences and the bills of materials of binary and wheel.
    fn papers(&self) -> Result<()> {
        let metadata = bill::metadata()?;
        let mut all = Vec::new();
        for (what, package, triple) in [("binary", "shardpack", musl()), ("wheel", "shardpack-python", gnu())] {
            let mut packages = bill::packages(&metadata, package, &triple)?;
            if what == "binary" {
                packages.push(bill::musl(&python::packages_of(&self.python)?.join("ziglang/lib/libc/musl"))?);
                packages.sort();
            }
            let path = self.dist.join(self.bill(what));
            println!("{}: {} packages", shown(&path), packages.len());
            write(&path, bill::cyclonedx(&self.version, what, &packages))?;
            all.extend(packages);
        }
        all.sort();
        all.dedup();
        for own in ["LICENSE-APACHE", "LICENSE-MIT"] {
            write(&self.dist.join(own), read(&root().join(own))?)?;
        }
        let (text, without) = bill::licences(&all)?;
        for Package { name, version, licence, .. } in without {
            println!("{name} {version} ({licence}) comes without the text of its licence");
        }
        write(&self.dist.join(LICENCES), text)
    }

    /// Makes the source distribution and unpacks it for later builds.
    fn sdist(&self) -> Result<()> {
        let mut maturin = self.builder("maturin", root());
        run(maturin.args(["sdist", "--manifest-path", "python/Cargo.toml", "--out"]).arg(&self.dist))?;
        let sdist = self.dist.join(format!("shardpack-{}.tar.gz", self.version));
        let names = output(command(&self.python, ["-m", "tarfile", "--list"]).arg(&sdist))?;
        check_names(&sdist, &names)?;
        let folder = self.target.join("sdist");
        remove(&folder)?;
        run(command(&self.python, ["-m", "tarfile", "--extract"]).arg(&sdist).arg(&folder))?;
        // Cargo compares modification times. Times in the archive come from a commit and may be older than the build of another commit.
        for path in files(&folder)? {
            let file = fs::File::options().append(true).open(&path);
            let touched = file.and_then(|file| file.set_modified(SystemTime::now()));
            touched.map_err(|error| format!("{}: {error}", path.display()))?;
        }
        Ok(())
    }

    /// Builds a wheel from the unpacked source distribution and checks it with auditwheel.
    fn wheel(&self, options: &[&str]) -> Result<()> {
        let source = self.target.join(format!("sdist/shardpack-{}", self.version));
        for paper in [LICENCES, &self.bill("wheel")] {
            copy(&self.dist.join(paper), &source.join(paper))?;
        }
        let made = self.target.join("wheels");
        remove(&made)?;
        let mut maturin = self.builder("maturin", &source);
        // The bill was made earlier, with all packages available. The lock file, cut to the packages here, still fixes the versions.
        maturin.args(["build", "--release", "--offline", "--target", &gnu()]);
        maturin.args(["--zig", "--compatibility", MANYLINUX]);
        run(maturin.args(options).args(["--sbom-include", &self.bill("wheel"), "--out"]).arg(&made))?;
        let [wheel] = &files(&made)?[..] else { return Err("maturin made not one wheel".to_owned()) };
        let names = output(command(&self.python, ["-m", "zipfile", "--list"]).arg(wheel))?;
        check_names(wheel, &names)?;
        let parts = self.target.join("wheel");
        remove(&parts)?;
        run(command(&self.python, ["-m", "zipfile", "--extract"]).arg(wheel).arg(&parts))?;
        files(&parts)?.iter().try_for_each(|part| self.check_paths(part))?;
        let report = output(command(self.tool("auditwheel"), ["show"]).arg(wheel).env("PATH", &self.path))?;
        let name = wheel.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        match granted(&report) {
            Some(tag) if name.contains(&format!("{tag}.")) || name.contains(&format!("{tag}_")) => {
                println!("{name}: auditwheel grants {tag}");
            }
            Some(tag) => return Err(format!("{name}: auditwheel grants {tag}")),
            None => return Err(format!("{name}: auditwheel grants no tag\n{report}")),
        }
        copy(wheel, &self.dist.join(name))
    }

    /// Fails if a file contains the path of the repository or of cargo's home: these differ between machines.
    fn check_paths(&self, file: &Path) -> Result<()> {
        let bytes = fs::read(file).map_err(|error| format!("{}: {error}", file.display()))?;
        for folder in [root().to_owned(), cargo_home()] {
            if holds(&bytes, folder.as_os_str().as_encoded_bytes()) {
                return Err(format!("{}: names {}", shown(file), folder.display()));
            }
        }
        Ok(())
    }

    /// Builds a wheel for each installed free-threaded interpreter: PyO3 has no stable ABI for them before 3.15.
    fn free_threaded(&self) -> Result<()> {
        let found: Vec<_> = FREE_THREADED.into_iter().filter(|python| is_installed(python, &["--version"])).collect();
        if found.is_empty() {
            println!("none of {} is here: no such wheel was made", FREE_THREADED.join(", "));
        }
        found.into_iter().try_for_each(|python| self.wheel(&["--interpreter", python]))
    }

    /// Builds the static program: it needs only the kernel.
    fn binary(&self) -> Result<()> {
        let mut zigbuild = self.builder("cargo-zigbuild", root());
        zigbuild.args(["zigbuild", "--release", "--locked", "--package", "shardpack", "--bin", "shardpack"]);
        run(zigbuild.args(["--config", "profile.release.strip=true", "--target", &musl()]))?;
        let built = self.target.join(musl()).join("release/shardpack");
        let bytes = fs::read(&built).map_err(|error| format!("{}: {error}", built.display()))?;
        if let Some(loader) = elf::interpreter(&bytes).map_err(|error| format!("{}: {error}", built.display()))? {
            return Err(format!("{}: not static, it asks for {loader}", built.display()));
        }
        self.check_paths(&built)?;
        println!("{}: static, {} bytes", shown(&self.program()), bytes.len());
        copy(&built, &self.program())
    }

    /// Writes the files that the program generates: completions and manual pages.
    fn pages(&self) -> Result<()> {
        let program = &self.program();
        for (shell, name) in SHELLS {
            let text = output(&mut command(program, ["completions", shell]))?;
            write(&self.dist.join("completions").join(name), text)?;
        }
        let folder = self.dist.join("man");
        run(command(program, ["man", "--out"]).arg(&folder))?;
        println!("{} completions, {} manual pages", SHELLS.len(), files(&folder)?.len());
        Ok(())
    }
}

fn cargo_home() -> PathBuf {
    std::env::var_os("CARGO_HOME")
        .map_or_else(|| std::env::home_dir().unwrap_or_default().join(".cargo"), PathBuf::from)
}

/// Whether `bytes` contain `part` followed by `/`; false if `part` is a single letter.
fn holds(bytes: &[u8], part: &[u8]) -> bool {
    let whole = [part, b"/"].concat();
    part.len() > 1
        && bytes
            .split_inclusive(|byte| *byte == b'/')
            .scan(Vec::new(), |before: &mut Vec<u8>, piece| {
                before.extend(piece);
                let found = before.ends_with(&whole);
                let kept = before.len().saturating_sub(whole.len());
                before.drain(..kept);
                Some(found)
            })
            .any(|found| found)
}

fn gnu() -> String {
    format!("{}-unknown-linux-gnu", std::env::consts::ARCH)
}

fn musl() -> String {
    format!("{}-unknown-linux-musl", std::env::consts::ARCH)
}

/// A path for messages, relative to the root.
fn shown(path: &Path) -> String {
    path.strip_prefix(root()).unwrap_or(path).display().to_string()
}

/// Copies a file, and creates the target folder if missing.
fn copy(from: &Path, to: &Path) -> Result<()> {
    let folder = to.parent().map_or(Ok(()), fs::create_dir_all);
    let copied = folder.and_then(|()| fs::copy(from, to));
    copied.map(|_| ()).map_err(|error| format!("{} to {}: {error}", from.display(), to.display()))
}

/// All files below `folder`, sorted.
fn files(folder: &Path) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    let entries = fs::read_dir(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    for entry in entries {
        let path = entry.map_err(|error| format!("{}: {error}", folder.display()))?.path();
        if path.is_dir() { found.extend(files(&path)?) } else { found.push(path) }
    }
    found.sort();
    Ok(found)
}

/// Fails if an archive contains stray files.
fn check_names(archive: &Path, names: &str) -> Result<()> {
    let stray: Vec<_> = names.lines().filter(|line| is_stray(line)).collect();
    if stray.is_empty() { Ok(()) } else { Err(format!("{}: holds {}", shown(archive), stray.join(", "))) }
}

/// Whether a line of a file list names a file that is not a source. The only library allowed in a wheel is its own.
fn is_stray(line: &str) -> bool {
    let name = line.split_whitespace().next().unwrap_or_default();
    let is_library = name.ends_with(".so") && !name.starts_with("shardpack/_native.");
    is_library || name.ends_with(".pyc") || name.contains("__pycache__") || name.contains("/target/")
}

/// The tag that auditwheel grants a wheel.
fn granted(report: &str) -> Option<&str> {
    let tags = report.split(['"', '\'', ' ', '\n', ',']);
    tags.map(|word| word.trim_end_matches('.')).find(|word| word.starts_with("manylinux_"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tag_is_the_first_that_auditwheel_names() {
        let report = "\nx.whl is consistent with\nthe following platform tag: \"manylinux_2_17_x86_64\".\n";
        assert_eq!(granted(report), Some("manylinux_2_17_x86_64"));
        assert_eq!(granted("the following platform tag: \"linux_x86_64\"."), None);
    }

    #[test]
    fn a_folder_is_found_wherever_it_stands() {
        for (text, found) in [
            ("x/work/h/src", true),
            ("/work/h/", true),
            ("/work/h", false),
            ("/work/hh/", false),
            ("", false),
            ("//work/h//", true),
        ] {
            assert_eq!(holds(text.as_bytes(), b"/work/h"), found, "{text}");
        }
        assert!(!holds(b"/", b""));
    }

    #[test]
    fn what_only_lay_about_is_stray() {
        for stray in
            ["shardpack/__pycache__/a.py", "shardpack/a.pyc  1", "shardpack/_other.so", "shardpack-1/x/_native.abi3.so"]
        {
            assert!(is_stray(stray), "{stray}");
        }
        for own in ["shardpack/_native.abi3.so   2026-01-01 00:00:00  9", "shardpack-1/README.md", ""] {
            assert!(!is_stray(own), "{own}");
        }
    }
}

//! Keeps Python interpreters running that have imported slow modules: TensorFlow takes 9 seconds, mosaicml-streaming 13, and the tests
//! start each some thirty times. Each program runs in a fork of the interpreter (`warm.py`).

use std::{
    io::{BufRead, BufReader},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
};

use crate::{
    Result,
    command::{command, remove, run, target, write},
};

/// A running interpreter; dropping the value ends the process.
pub struct Warm {
    server: Child,
    /// Wrapper that runs in place of the interpreter.
    pub python: PathBuf,
}

impl Warm {
    /// Starts `python`, which imports `module`; if `is_alone`, one program runs at a time.
    pub fn start(python: &Path, module: &str, is_alone: bool) -> Result<Self> {
        // Each server has its own copy of the program; clients read the program there.
        let program = target(format!("warm-{module}")).join("warm.py");
        write(&program, include_str!("warm.py"))?;
        remove(&program.with_file_name("socket"))?;
        let wrapper = python.with_file_name("python-warm");
        let (path, warm) = (python.display(), program.display());
        write(&wrapper, format!("#!/bin/sh\nexec '{path}' -I -S '{warm}' ask '{path}' \"$@\"\n"))?;
        run(command("chmod", ["+x"]).arg(&wrapper))?;
        let mut server = Command::new(python);
        server.arg(&program).args(["serve", module]).args(is_alone.then_some("alone"));
        let started = server.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn();
        let mut server = started.map_err(|error| format!("cannot run {path}: {error}"))?;
        if let Some(said) = server.stdout.take() {
            // The server listens before it imports.
            let read = BufReader::new(said).read_line(&mut String::new());
            if read.map_err(|error| format!("{path}: {error}"))? == 0 {
                return Err(format!("{path} {warm} serve {module}: ends before it listens"));
            }
        }
        Ok(Self { server, python: wrapper })
    }
}

impl Drop for Warm {
    fn drop(&mut self) {
        // The exit status does not matter.
        let _ = self.server.kill().and_then(|()| self.server.wait());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{command::output, python::system_python};

    #[test]
    fn what_is_asked_is_run_as_by_the_interpreter_itself_until_the_value_ends() {
        let folder = target("tmp/warm-test");
        let found =
            output(&mut command(system_python().unwrap(), ["-c", "import sys; print(sys.executable)"])).unwrap();
        remove(&folder).unwrap();
        std::fs::create_dir_all(&folder).unwrap();
        std::os::unix::fs::symlink(found.trim(), folder.join("python")).unwrap();
        let warm = Warm::start(&folder.join("python"), "calendar", true).unwrap();
        let script = "import os, sys; print(sys.argv, os.getcwd(), os.environ['WHO'], 'calendar' in sys.modules, input()); sys.exit(3)";
        for who in ["a", "b"] {
            let mut asked = Command::new(&warm.python);
            asked.args(["-c", script, who]).current_dir(&folder).env("WHO", who);
            let mut asked = asked.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
            std::io::Write::write_all(&mut asked.stdin.take().unwrap(), b"said\n").unwrap();
            let ended = asked.wait_with_output().unwrap();
            let place = folder.canonicalize().unwrap();
            let expected = format!("['-c', '{who}'] {} {who} True said\n", place.display());
            assert_eq!((String::from_utf8_lossy(&ended.stdout).as_ref(), ended.status.code()), (&*expected, Some(3)));
        }
        let other = ["-W", "error", "-c", "import sys; print('calendar' in sys.modules, sys.warnoptions)"];
        assert_eq!(output(Command::new(&warm.python).args(other)).unwrap(), "False ['error']\n");
        let python = warm.python.clone();
        drop(warm);
        assert!(!Command::new(python).args(["-c", ""]).stderr(Stdio::null()).status().unwrap().success());
    }
}

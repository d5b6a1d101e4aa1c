//! Runs nginx over a folder, on a local port.
//!
//! Ends only the processes that it started.

use std::{
    net::{TcpListener, TcpStream},
    path::{Path, PathBuf},
    process::{Child, Stdio},
    thread,
    time::{Duration, Instant},
};

use super::folder;
use crate::{
    Result,
    command::{command, output, remove, write},
};

const PLACES: [&str; 3] = ["nginx", "/usr/sbin/nginx", "/sbin/nginx"];

/// A running web server.
pub struct Nginx {
    child: Child,
    port: u16,
}

/// The program, and its version.
fn program() -> Result<(&'static str, String)> {
    let found = PLACES.into_iter().find_map(|place| {
        // nginx prints its version on stderr.
        let told = output(command("sh", ["-c", "\"$0\" -v 2>&1"]).arg(place)).ok()?;
        Some((place, told.trim().rsplit('/').next().unwrap_or_default().to_owned()))
    });
    found.ok_or_else(|| "nginx is not installed (Debian: nginx-light)".to_owned())
}

impl Nginx {
    /// Serves the folder `data` with a process per core, as in Debian's default configuration.
    pub fn start(data: &Path) -> Result<Self> {
        let (program, _) = program()?;
        let at = folder("out/nginx");
        remove(&at)?;
        let port = free_port().map_err(|error| format!("no port is free: {error}"))?;
        write(&at.join("nginx.conf"), config(&at, data, port))?;
        let mut nginx = command(program, ["-p"]);
        nginx.arg(&at).arg("-c").arg(at.join("nginx.conf")).arg("-e").arg(at.join("start.log"));
        let child = nginx.stdin(Stdio::null()).stderr(Stdio::null()).spawn();
        let mut server = Self { child: child.map_err(|error| format!("cannot run {program}: {error}"))?, port };
        match listens(&mut server.child, port) {
            true => Ok(server),
            false => Err(format!("nginx does not start: {}", at.join("start.log").display())),
        }
    }

    pub fn port(&self) -> u16 {
        self.port
    }

    /// Version of the installed nginx.
    pub fn version() -> Result<String> {
        program().map(|(_, version)| version)
    }
}

impl Drop for Nginx {
    fn drop(&mut self) {
        // On SIGTERM the master ends its workers; another signal could leave them running.
        let _ = output(&mut command("kill", ["-TERM", &self.child.id().to_string()]));
        let _ = self.child.wait();
    }
}

/// Waits until a server listens; returns false if it ends or does not listen within 20 s.
pub fn listens(server: &mut Child, port: u16) -> bool {
    let start = Instant::now();
    while TcpStream::connect(("127.0.0.1", port)).is_err() {
        if server.try_wait().ok().flatten().is_some() || start.elapsed() > Duration::from_secs(20) {
            return false;
        }
        thread::sleep(Duration::from_millis(10));
    }
    true
}

/// A port without a listener.
pub fn free_port() -> std::io::Result<u16> {
    Ok(TcpListener::bind("127.0.0.1:0")?.local_addr()?.port())
}

fn config(at: &Path, data: &Path, port: u16) -> String {
    let paths: String = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
        .map(|name| format!("    {name}_temp_path {};\n", quoted(&at.join(name))))
        .concat();
    // As root, nginx would switch to another user; other users must not set `user`.
    let user = if std::fs::metadata("/proc/self").is_ok_and(|of| is_root(&of)) { "user root;\n" } else { "" };
    format!(
        "daemon off;\n{user}worker_processes auto;\npid {};\nerror_log {};\nevents {{ worker_connections 768; }}\n\
         http {{\n{paths}    access_log off;\n    sendfile on;\n    tcp_nopush on;\n    default_type application/octet-stream;\n    \
         server {{ listen 127.0.0.1:{port}; root {}; }}\n}}\n",
        quoted(&at.join("pid")),
        quoted(&at.join("error.log")),
        quoted(data),
    )
}

fn is_root(of: &std::fs::Metadata) -> bool {
    std::os::unix::fs::MetadataExt::uid(of) == 0
}

fn quoted(path: &Path) -> String {
    format!("\"{}\"", PathBuf::from(path).display())
}

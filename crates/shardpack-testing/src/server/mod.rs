//! Starts nginx over a folder, and proxies with configurable faults, for tests over HTTP.
//!
//! Holds at all times: it ends only processes that it started.

use std::{
    fs,
    io::{self, BufRead, BufReader, Read, Write},
    net::{Shutdown, TcpListener, TcpStream},
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::{
        Arc, Condvar, Mutex,
        atomic::{AtomicU64, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

pub use self::ports::free_port;

mod ports;

/// A running nginx.
pub struct Nginx {
    folder: tempfile::TempDir,
    port: u16,
}

impl Nginx {
    /// Starts nginx over a new folder. Without nginx, returns `None` and prints the reason to stderr.
    ///
    /// Panics instead if `CI=true`.
    pub fn start() -> Option<Self> {
        let path = std::env::var_os("PATH").unwrap_or_default();
        let folders = std::env::split_paths(&path).chain(["/usr/sbin".into(), "/sbin".into()]);
        let program = folders.map(|folder| folder.join("nginx")).find(|program| program.is_file());
        let Some(program) = program else {
            let said = "nginx is not installed (Debian: nginx-light)";
            assert_ne!(std::env::var("CI").as_deref(), Ok("true"), "{said}");
            eprintln!("{said}: nothing is tried over HTTP");
            return None;
        };
        for _ in 0..5 {
            let server = Self { folder: tempfile::tempdir().unwrap(), port: free_port() };
            if server.begin(&program) {
                return Some(server);
            }
        }
        panic!("nginx does not start")
    }

    fn begin(&self, program: &Path) -> bool {
        let (at, port) = (self.folder.path().display(), self.port);
        fs::create_dir(self.data()).unwrap();
        let user = if fs::metadata("/proc/self").is_ok_and(|_| is_root()) { "user root;" } else { "" };
        let config = format!(
            "pid {at}/pid; error_log {at}/error.log; worker_processes 1; daemon on; {user}
events {{ worker_connections 512; }}
http {{
    access_log {at}/access.log;
    client_body_temp_path {at}/b; proxy_temp_path {at}/p; fastcgi_temp_path {at}/f; uwsgi_temp_path {at}/u; scgi_temp_path {at}/s;
    default_type application/octet-stream;
    server {{
        listen 127.0.0.1:{port};
        root {at}/data;
        location /norange/ {{ alias {at}/data/; max_ranges 0; }}
        location /etagless/ {{ alias {at}/data/; etag off; add_header Last-Modified \"\"; }}
        location /gzip/ {{ alias {at}/data/; gzip on; gzip_types *; gzip_min_length 1; }}
        location /packed-by-server/ {{ alias {at}/data/; add_header Content-Encoding gzip; }}
        location /redirect/ {{ rewrite ^/redirect/(.*)$ /$1 break; return 307 http://127.0.0.1:{port}$uri; }}
        location /loop/ {{ return 302 http://127.0.0.1:{port}$uri; }}
        location /elsewhere/ {{ return 302 file:///etc/passwd; }}
        location /drop/ {{ return 444; }}
        location /403/ {{ return 403; }}
        location /503/ {{ add_header Retry-After 1 always; return 503; }}
    }}
}}
"
        );
        fs::write(self.folder.path().join("nginx.conf"), config).unwrap();
        let mut command = Command::new(program);
        command.arg("-p").arg(self.folder.path()).arg("-c").arg(self.folder.path().join("nginx.conf"));
        command.arg("-e").arg(self.folder.path().join("start.log")).stderr(Stdio::null());
        if !command.status().unwrap().success() {
            return false;
        }
        let start = Instant::now();
        while TcpStream::connect(("127.0.0.1", self.port)).is_err() {
            if start.elapsed() > Duration::from_secs(20) {
                return false;
            }
            thread::sleep(Duration::from_millis(10));
        }
        true
    }

    /// The folder that nginx serves.
    pub fn data(&self) -> PathBuf {
        self.folder.path().join("data")
    }

    pub fn port(&self) -> u16 {
        self.port
    }

    /// The URL of a path.
    pub fn url(&self, path: &str) -> String {
        format!("http://127.0.0.1:{}/{path}", self.port)
    }

    /// Lines of the access log, one per request.
    pub fn asked(&self) -> Vec<String> {
        fs::read_to_string(self.folder.path().join("access.log"))
            .unwrap_or_default()
            .lines()
            .map(str::to_owned)
            .collect()
    }
}

impl Drop for Nginx {
    fn drop(&mut self) {
        let pid = fs::read_to_string(self.folder.path().join("pid")).unwrap_or_default();
        if let Ok(pid) = pid.trim().parse::<u32>() {
            let _ = Command::new("kill").arg(pid.to_string()).status();
            let start = Instant::now();
            while Path::new(&format!("/proc/{pid}")).exists() && start.elapsed() < Duration::from_secs(10) {
                thread::sleep(Duration::from_millis(10));
            }
        }
    }
}

fn is_root() -> bool {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    status.lines().any(|line| line.split_whitespace().collect::<Vec<_>>().starts_with(&["Uid:", "0"]))
}

/// A fault that a proxy injects.
#[derive(Clone, Copy, Debug)]
pub enum Fault {
    /// The proxy responds with this status, and with `Retry-After: 1` if true.
    Status(u16, bool),
    /// Closes the connection and does not forward the request.
    Drop,
    /// Closes the connection without a response, after the server handled the request.
    Lost,
    /// Closes the connection after this many bytes of the body.
    Cut(usize),
    /// Sends this many bytes of the body, and closes the connection after this time.
    Stall(usize, Duration),
    /// Flips a bit of this byte of the body.
    Flip(usize),
    /// Delays the request.
    Delay(Duration),
    /// Replaces status 404 with 403, like S3 for a client without permission to list.
    Forbid,
}

/// A proxy that makes chosen requests fail.
pub struct Proxy {
    port: u16,
    shared: Arc<Shared>,
}

/// A round is a group of held requests. The proxy forwards the group after no new request arrived for `quiet`.
#[derive(Default)]
struct Rounds {
    /// `None`: requests are not held.
    quiet: Option<Duration>,
    done: u64,
    last: Option<Instant>,
}

struct Shared {
    upstream: u16,
    rule: Mutex<Option<Rule>>,
    rounds: Mutex<Rounds>,
    next_round: Condvar,
    requests: AtomicU64,
    faults: AtomicU64,
}

/// Selects the requests that fail.
struct Rule {
    /// The HTTP method; `None` for any method.
    method: Option<String>,
    /// Every `every`-th matching request fails.
    every: u64,
    fault: Fault,
    /// Matching requests so far.
    came: u64,
    /// Remaining failures.
    left: u64,
}

impl Proxy {
    /// Starts a proxy in front of the server at port `upstream`.
    pub fn start(upstream: u16) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let shared = Arc::new(Shared {
            upstream,
            rounds: Mutex::default(),
            next_round: Condvar::new(),
            rule: Mutex::default(),
            requests: AtomicU64::default(),
            faults: AtomicU64::default(),
        });
        let of_thread = Arc::clone(&shared);
        // The thread ends with the process.
        thread::spawn(move || {
            for client in listener.incoming().flatten() {
                let shared = Arc::clone(&of_thread);
                thread::spawn(move || drop(shared.serve(client)));
            }
        });
        Self { port, shared }
    }

    /// From now on, every `every`-th request has the fault.
    pub fn fail(&self, every: u64, fault: Fault) {
        self.set(Rule { method: None, every, fault, came: 0, left: u64::MAX });
    }

    /// From now on, every `every`-th request with this method has the fault.
    pub fn fail_of(&self, method: &str, every: u64, fault: Fault) {
        self.set(Rule { method: Some(method.to_owned()), every, fault, came: 0, left: u64::MAX });
    }

    /// Only the `number`-th request from now on, counted from 1, has the fault.
    pub fn fail_one(&self, number: u64, fault: Fault) {
        self.set(Rule { method: None, every: number, fault, came: 0, left: 1 });
    }

    /// Only the next `times` requests have the fault.
    pub fn fail_next(&self, times: u64, fault: Fault) {
        self.set(Rule { method: None, every: 1, fault, came: 0, left: times });
    }

    fn set(&self, rule: Rule) {
        *self.shared.rule.lock().unwrap() = Some(rule);
        self.shared.requests.store(0, Ordering::SeqCst);
        self.shared.faults.store(0, Ordering::SeqCst);
    }

    /// From now on, holds requests until no new request arrived for `quiet`, then forwards the held requests together. [`Proxy::rounds`] is
    /// then the number of sequential round trips.
    pub fn hold(&self, quiet: Duration) {
        *self.shared.rounds.lock().unwrap() = Rounds { quiet: Some(quiet), ..Rounds::default() };
    }

    /// Number of rounds since [`Proxy::hold`].
    pub fn rounds(&self) -> u64 {
        self.shared.rounds.lock().unwrap().done
    }

    /// Number of requests with a fault since the rule was set.
    pub fn faults(&self) -> u64 {
        self.shared.faults.load(Ordering::SeqCst)
    }

    /// Number of requests since the rule was set.
    pub fn requests(&self) -> u64 {
        self.shared.requests.load(Ordering::SeqCst)
    }

    pub fn port(&self) -> u16 {
        self.port
    }

    pub fn url(&self, path: &str) -> String {
        format!("http://127.0.0.1:{}/{path}", self.port)
    }
}

/// An HTTP request or response.
pub struct Message {
    /// The first line and the headers, each with its line end.
    pub head: String,
    /// The body, without the framing of chunks.
    pub body: Vec<u8>,
}

impl Message {
    /// Reads a message; `None` if the stream ends within the headers or before `Content-Length` bytes. Without a length, a request has no
    /// body, and a response's body extends to the end of the stream.
    pub fn read(mut from: impl BufRead) -> io::Result<Option<Self>> {
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            if from.read_until(b'\n', &mut head)? == 0 {
                return Ok(None);
            }
        }
        head.truncate(head.len() - 2);
        let mut read = Self { head: String::from_utf8_lossy(&head).into_owned(), body: Vec::new() };
        if read.header("transfer-encoding").is_some_and(|value| value.contains("chunked")) {
            loop {
                let mut line = String::new();
                from.read_line(&mut line)?;
                let size = line.split(';').next().unwrap_or_default().trim();
                let size = u64::from_str_radix(size, 16).map_err(|_| io::ErrorKind::InvalidData)?;
                from.by_ref().take(size).read_to_end(&mut read.body)?;
                from.read_line(&mut line)?;
                if size == 0 {
                    return Ok(Some(read));
                }
            }
        }
        let length = read.header("content-length").and_then(|length| length.parse().ok());
        let length = length.unwrap_or(if read.head.starts_with("HTTP/") { u64::MAX } else { 0 });
        let came = from.take(length).read_to_end(&mut read.body)? as u64;
        // Ignores a request if the client disconnected within the body.
        Ok((came == length || length == u64::MAX).then_some(read))
    }

    /// The value of a header.
    pub fn header(&self, name: &str) -> Option<&str> {
        let mut headers = self.head.lines().skip(1).filter_map(|line| line.split_once(':'));
        headers.find(|(found, _)| found.eq_ignore_ascii_case(name)).map(|(_, value)| value.trim())
    }

    /// The second word of the first line: the target of a request, or the status of a response.
    pub fn second(&self) -> &str {
        self.head.split_whitespace().nth(1).unwrap_or_default()
    }

    pub fn method(&self) -> &str {
        self.head.split_whitespace().next().unwrap_or_default()
    }

    /// Sends the request to the server at `port` and returns the raw response.
    pub fn ask(&self, port: u16) -> io::Result<Vec<u8>> {
        let is_ours = |line: &&str| {
            let name = line.split(':').next().unwrap_or_default();
            ["connection", "content-length", "transfer-encoding"].iter().any(|ours| name.eq_ignore_ascii_case(ours))
        };
        let mut head: String =
            self.head.lines().filter(|line| !is_ours(line)).flat_map(|line| [line, "\r\n"]).collect();
        // Some signatures cover `Content-Length`, so a request without that header and without a body gets none.
        if self.header("content-length").is_some() || !self.body.is_empty() {
            head += &format!("Content-Length: {}\r\n", self.body.len());
        }
        let mut upstream = TcpStream::connect(("127.0.0.1", port))?;
        upstream.write_all(format!("{head}Connection: close\r\n\r\n").as_bytes())?;
        upstream.write_all(&self.body)?;
        let mut answer = Vec::new();
        upstream.read_to_end(&mut answer)?;
        Ok(answer)
    }
}

impl Shared {
    /// The fault for a request, if any.
    fn fault(&self, request: &Message) -> Option<Fault> {
        self.requests.fetch_add(1, Ordering::SeqCst);
        let mut rule = self.rule.lock().unwrap();
        let rule =
            rule.as_mut().filter(|rule| rule.method.as_deref().is_none_or(|method| method == request.method()))?;
        rule.came += 1;
        if rule.left == 0 || !rule.came.is_multiple_of(rule.every) {
            return None;
        }
        rule.left -= 1;
        self.faults.fetch_add(1, Ordering::SeqCst);
        Some(rule.fault)
    }

    /// Waits until the round ends.
    fn hold(&self) {
        let mut rounds = self.rounds.lock().unwrap();
        let Some(quiet) = rounds.quiet else { return };
        let round = rounds.done;
        rounds.last = Some(Instant::now());
        while rounds.done == round {
            match rounds.last.map(|last| quiet.saturating_sub(last.elapsed())) {
                Some(left) if left > Duration::ZERO => {
                    rounds = self.next_round.wait_timeout(rounds, left).unwrap().0;
                }
                _ => {
                    rounds.done += 1;
                    self.next_round.notify_all();
                }
            }
        }
    }

    /// Handles one request.
    fn serve(&self, mut client: TcpStream) -> io::Result<()> {
        let Some(request) = Message::read(BufReader::new(&client))? else { return Ok(()) };
        self.hold();
        let fault = self.fault(&request);
        match fault {
            Some(Fault::Drop) => return Ok(()),
            Some(Fault::Status(status, asks)) => {
                let wait = if asks { "Retry-After: 1\r\n" } else { "" };
                let answer = format!("HTTP/1.1 {status} no\r\nContent-Length: 0\r\nConnection: close\r\n{wait}\r\n");
                return client.write_all(answer.as_bytes());
            }
            Some(Fault::Delay(delay)) => thread::sleep(delay),
            _ => {}
        }
        let mut answer = request.ask(self.upstream)?;
        let body = answer.windows(4).position(|window| window == b"\r\n\r\n").map_or(answer.len(), |at| at + 4);
        match fault {
            Some(Fault::Lost) => Ok(()),
            Some(Fault::Cut(bytes)) => {
                client.write_all(&answer[..answer.len().min(body + bytes)])?;
                client.shutdown(Shutdown::Both)
            }
            Some(Fault::Stall(bytes, silence)) => {
                client.write_all(&answer[..answer.len().min(body + bytes)])?;
                thread::sleep(silence);
                client.shutdown(Shutdown::Both)
            }
            Some(Fault::Forbid) if answer.starts_with(b"HTTP/1.1 404") => {
                client.write_all(b"HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
            }
            Some(Fault::Flip(at)) => {
                if let Some(byte) = answer.get_mut(body + at) {
                    *byte ^= 1;
                }
                client.write_all(&answer)
            }
            _ => client.write_all(&answer),
        }
    }
}

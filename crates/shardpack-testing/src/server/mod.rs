//! nginx over a folder, and a proxy before it or another server that fails as it is told, for tests over HTTP.
//!
//! Holds at all times: it ends the processes that it has started, and no others.

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

/// A web server that runs.
pub struct Nginx {
    folder: tempfile::TempDir,
    port: u16,
}

impl Nginx {
    /// Starts one over a new folder; `None`, with the reason on stderr, where nginx is not installed.
    ///
    /// Panics then where `CI=true`.
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

    /// The folder that it serves.
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

    /// Lines of its log: what it was asked.
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

/// What becomes of an answer.
#[derive(Clone, Copy, Debug)]
pub enum Fault {
    /// Another status, with `Retry-After: 1` if so.
    Status(u16, bool),
    /// The connection is closed, and the server has heard nothing.
    Drop,
    /// The connection is closed before an answer, though the server has done as it was asked.
    Lost,
    /// So many bytes of the body, then the connection is closed.
    Cut(usize),
    /// So many bytes of the body, then nothing for so long.
    Stall(usize, Duration),
    /// A bit of this byte of the body is changed.
    Flip(usize),
    /// The answer comes later.
    Delay(Duration),
    /// What is not there is refused, as S3 does to those who may not list.
    Forbid,
}

/// A proxy that fails now and then.
pub struct Proxy {
    port: u16,
    shared: Arc<Shared>,
}

/// Requests that come while none was answered are one round: all of them are answered once no more have come for a while.
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

/// Which requests fail.
struct Rule {
    /// Of this method, or of any.
    method: Option<String>,
    /// Every so many.
    every: u64,
    fault: Fault,
    /// So many that it is for have come.
    came: u64,
    /// So many more fail.
    left: u64,
}

impl Proxy {
    /// Before the server at `upstream`.
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
        // Ends with the process.
        thread::spawn(move || {
            for client in listener.incoming().flatten() {
                let shared = Arc::clone(&of_thread);
                thread::spawn(move || drop(shared.serve(client)));
            }
        });
        Self { port, shared }
    }

    /// From now on every `every`-th request fails so.
    pub fn fail(&self, every: u64, fault: Fault) {
        self.set(Rule { method: None, every, fault, came: 0, left: u64::MAX });
    }

    /// From now on every `every`-th request of this method fails so.
    pub fn fail_of(&self, method: &str, every: u64, fault: Fault) {
        self.set(Rule { method: Some(method.to_owned()), every, fault, came: 0, left: u64::MAX });
    }

    /// The `number`-th request from now on fails so, from 1, and no other one.
    pub fn fail_one(&self, number: u64, fault: Fault) {
        self.set(Rule { method: None, every: number, fault, came: 0, left: 1 });
    }

    /// The next `times` requests fail so, and none behind them.
    pub fn fail_next(&self, times: u64, fault: Fault) {
        self.set(Rule { method: None, every: 1, fault, came: 0, left: times });
    }

    fn set(&self, rule: Rule) {
        *self.shared.rule.lock().unwrap() = Some(rule);
        self.shared.requests.store(0, Ordering::SeqCst);
        self.shared.faults.store(0, Ordering::SeqCst);
    }

    /// From now on requests are held until none has come for `quiet`, and then answered all at once: as many times as that happens, so many
    /// answers are waited for one after the other.
    pub fn hold(&self, quiet: Duration) {
        *self.shared.rounds.lock().unwrap() = Rounds { quiet: Some(quiet), ..Rounds::default() };
    }

    /// How often that happened.
    pub fn rounds(&self) -> u64 {
        self.shared.rounds.lock().unwrap().done
    }

    /// How many requests have failed since.
    pub fn faults(&self) -> u64 {
        self.shared.faults.load(Ordering::SeqCst)
    }

    /// How many requests came since.
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

/// A request or an answer.
pub struct Message {
    /// Its first line and its headers, each with a line end.
    pub head: String,
    /// Without what parts of it are sent in.
    pub body: Vec<u8>,
}

impl Message {
    /// Reads one; `None` where nothing comes. Without a length, the body of a request is empty, and that of an answer goes to the end.
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
        // A client that has gone in the middle of what it sends has asked for nothing.
        Ok((came == length || length == u64::MAX).then_some(read))
    }

    /// The value of a header.
    pub fn header(&self, name: &str) -> Option<&str> {
        let mut headers = self.head.lines().skip(1).filter_map(|line| line.split_once(':'));
        headers.find(|(found, _)| found.eq_ignore_ascii_case(name)).map(|(_, value)| value.trim())
    }

    /// The second word of its first line: what a request is for, or the status of an answer.
    pub fn second(&self) -> &str {
        self.head.split_whitespace().nth(1).unwrap_or_default()
    }

    pub fn method(&self) -> &str {
        self.head.split_whitespace().next().unwrap_or_default()
    }

    /// Asks the server at `port`, and gives all that it answers.
    pub fn ask(&self, port: u16) -> io::Result<Vec<u8>> {
        let is_ours = |line: &&str| {
            let name = line.split(':').next().unwrap_or_default();
            ["connection", "content-length", "transfer-encoding"].iter().any(|ours| name.eq_ignore_ascii_case(ours))
        };
        let mut head: String =
            self.head.lines().filter(|line| !is_ours(line)).flat_map(|line| [line, "\r\n"]).collect();
        // Some signatures are of the length, too: what had none gets none.
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
    /// The fault of a request, if it has one.
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

    /// Waits for the end of the round.
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

    /// One request and its answer.
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

//! Receives objects of a web server over HTTP/1.1 without TLS directly into the caller's memory: no copy between
//! socket and memory, and no other thread has to wake up.
//!
//! Holds at all times: this client accepts only responses that have a length and match the request, and complete error
//! responses. Other responses, and servers behind a proxy, are left to the general client. A connection is reused only
//! after the whole response was read.

use std::{
    io::{self, Read, Write},
    net::TcpStream,
    ops::Range,
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use reqwest::{
    StatusCode, Url,
    header::{
        CONNECTION, CONTENT_LENGTH, HOST, HeaderMap, HeaderName, HeaderValue, RANGE, TRANSFER_ENCODING, USER_AGENT,
    },
};

use crate::remote::{response::Failed, settings::Settings, web};
use shardpack_runtime::Instant;

/// Prefix of every response; a server of another protocol may never end a line.
const BEGINNING: &[u8] = b"HTTP/1.";
/// Longest head of a response that is read here.
const MAX_HEAD_BYTES: usize = 16 << 10;
const MAX_HEADERS: usize = 64;
/// Variables that configure a proxy: the general client handles `NO_PROXY`.
const PROXIES: [&str; 4] = ["http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"];

/// Connections of one process to one server.
#[derive(Debug)]
pub(crate) struct Plain {
    /// `None` once a response showed that the server needs the general client.
    idle: Mutex<Option<Vec<TcpStream>>>,
}

/// A response whose body is not read yet.
#[derive(Debug)]
pub(crate) struct Answer<'a> {
    plain: &'a Plain,
    pub status: StatusCode,
    pub headers: HeaderMap,
    connection: Connection,
    /// Remaining bytes of the body.
    left: u64,
    is_kept: bool,
    /// Longest silence before the read fails.
    silence: Duration,
}

/// A connection, and bytes that were read beyond the head.
#[derive(Debug)]
struct Connection {
    stream: TcpStream,
    early: Vec<u8>,
}

impl Plain {
    /// A client for the server of `url`; `None` if the general client has to be used.
    pub fn for_url(url: &Url, settings: &Settings) -> Option<Self> {
        let is_set = |name: &&str| std::env::var_os(name).is_some_and(|value| !value.is_empty());
        let has_proxy = settings.get("proxy").is_some() || PROXIES.iter().any(is_set);
        (url.scheme() == "http" && !has_proxy).then(|| Self { idle: Mutex::new(Some(Vec::new())) })
    }

    fn idle(&self) -> MutexGuard<'_, Option<Vec<TcpStream>>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Requests `range` of the object at `url`, or the whole object; `None` if the general client has to be used. Adds
    /// the sent requests to `requests`.
    pub fn get(
        &self,
        url: &Url,
        headers: &HeaderMap,
        range: Option<&Range<u64>>,
        silence: Duration,
        requests: &AtomicU64,
    ) -> Result<Option<Answer<'_>>, Failed> {
        let request = request(url, headers, range);
        loop {
            let kept = match &mut *self.idle() {
                None => return Ok(None),
                Some(idle) => idle.pop(),
            };
            let is_kept = kept.is_some();
            requests.fetch_add(1, Ordering::Relaxed);
            let asked =
                kept.map_or_else(|| connect(url, silence), Ok).and_then(|stream| ask(stream, &request, silence));
            let (connection, head) = match asked {
                Ok(asked) => asked,
                // The server closed the idle connection before it saw the request.
                Err(error) if is_kept && !is_silence(&error) => continue,
                Err(error) => return Err(failed(&error, silence)),
            };
            let Some(answer) = head.and_then(|head| self.answer(connection, &head, range, silence)) else {
                // Other responses of the server will be similar.
                *self.idle() = None;
                return Ok(None);
            };
            return Ok(Some(answer));
        }
    }

    /// A response, if this client can read it.
    fn answer(
        &self,
        mut connection: Connection,
        head: &[u8],
        range: Option<&Range<u64>>,
        silence: Duration,
    ) -> Option<Answer<'_>> {
        let (read, version, status, headers) = parsed(head)?;
        let mut lengths = headers.get_all(CONTENT_LENGTH).iter();
        let length: Option<u64> = lengths.next().and_then(|value| value.to_str().ok()?.parse().ok());
        let left = match (status, range) {
            // The head has all that an error response needs.
            _ if status.is_client_error() || status.is_server_error() => 0,
            _ if lengths.next().is_some() || headers.contains_key(TRANSFER_ENCODING) => return None,
            (StatusCode::PARTIAL_CONTENT, Some(range)) => length.filter(|length| *length == range.end - range.start)?,
            (StatusCode::OK, None) => length?,
            _ => return None,
        };
        connection.early = head[read..].to_vec();
        let closes = headers.get(CONNECTION).is_some_and(|value| !value.as_bytes().eq_ignore_ascii_case(b"keep-alive"));
        let is_kept = version == Some(1) && !closes && status.is_success();
        Some(Answer { plain: self, status, headers, connection, left, is_kept, silence })
    }
}

impl Answer<'_> {
    /// Reads a part of the remaining body into `into`; returns 0 at its end, or if `into` is empty.
    pub fn read(&mut self, into: &mut [u8]) -> Result<usize, Failed> {
        let most = into.len().min(usize::try_from(self.left).unwrap_or(usize::MAX));
        let into = &mut into[..most];
        let Connection { stream, early } = &mut self.connection;
        let read = match early.len().min(most) {
            _ if most == 0 => 0,
            0 => match stream.read(into) {
                Ok(0) => return Err(Failed::retry("the answer was cut short")),
                Ok(read) => read,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => return self.read(into),
                Err(error) => return Err(failed(&error, self.silence)),
            },
            read => {
                into[..read].copy_from_slice(&early[..read]);
                early.drain(..read);
                read
            }
        };
        self.left -= read as u64;
        Ok(read)
    }

    /// Keeps the connection for another request, if the whole body was read.
    pub fn end(self) {
        let Self { plain, connection: Connection { stream, early }, left: 0, is_kept: true, .. } = self else { return };
        if early.is_empty()
            && let Some(idle) = &mut *plain.idle()
        {
            idle.push(stream);
        }
    }
}

/// Parses the head of a response: length in bytes, minor HTTP version, status and headers.
pub(crate) fn parsed(head: &[u8]) -> Option<(usize, Option<u8>, StatusCode, HeaderMap)> {
    let mut parsed = [httparse::EMPTY_HEADER; MAX_HEADERS];
    let mut answer = httparse::Response::new(&mut parsed);
    let read = match answer.parse(head) {
        Ok(httparse::Status::Complete(read)) => read,
        _ => return None,
    };
    let status = StatusCode::from_u16(answer.code?).ok()?;
    let mut headers = HeaderMap::new();
    for header in answer.headers.iter() {
        let name = HeaderName::from_bytes(header.name.as_bytes()).ok()?;
        headers.append(name, HeaderValue::from_bytes(header.value).ok()?);
    }
    Some((read, answer.version, status, headers))
}

/// The text of a request.
fn request(url: &Url, headers: &HeaderMap, range: Option<&Range<u64>>) -> Vec<u8> {
    let mut text = format!("GET {}", url.path()).into_bytes();
    text.extend(url.query().map(|query| format!("?{query}")).unwrap_or_default().bytes());
    text.extend(b" HTTP/1.1\r\n");
    let mut line = |name: &HeaderName, value: &[u8]| {
        text.extend(name.as_str().bytes().chain(*b": "));
        text.extend(value);
        text.extend(b"\r\n");
    };
    if !headers.contains_key(HOST) {
        let host = url.host_str().unwrap_or_default();
        line(&HOST, url.port().map_or_else(|| host.to_owned(), |port| format!("{host}:{port}")).as_bytes());
    }
    if !headers.contains_key(USER_AGENT) {
        line(&USER_AGENT, web::USER_AGENT.as_bytes());
    }
    headers.iter().for_each(|(name, value)| line(name, value.as_bytes()));
    if let Some(Range { start, end }) = range {
        line(&RANGE, format!("bytes={start}-{}", end - 1).as_bytes());
    }
    text.extend(b"\r\n");
    text
}

/// A new connection.
fn connect(url: &Url, silence: Duration) -> io::Result<TcpStream> {
    let mut failed = io::Error::new(io::ErrorKind::NotFound, "the name of the server has no address");
    for address in url.socket_addrs(|| None)? {
        match TcpStream::connect_timeout(&address, silence) {
            Ok(stream) => {
                stream.set_nodelay(true)?;
                stream.set_write_timeout(Some(silence))?;
                return Ok(stream);
            }
            Err(error) => failed = error,
        }
    }
    Err(failed)
}

/// Sends a request; returns the head of its response with any bytes behind it, or `None` if the head is too long.
fn ask(mut stream: TcpStream, request: &[u8], silence: Duration) -> io::Result<(Connection, Option<Vec<u8>>)> {
    stream.write_all(request)?;
    let (until, mut head) = (Instant::now() + silence, Vec::new());
    let mut part = [0; 4 << 10];
    loop {
        let left = (until - Instant::now()).max(Duration::from_millis(1));
        stream.set_read_timeout(Some(left))?;
        // Some servers send head and body separately, and the body only after the ACK of the head: 40 ms without a
        // quick ACK.
        #[cfg(target_os = "linux")]
        std::os::linux::net::TcpStreamExt::set_quickack(&stream, true)?;
        let read = match stream.read(&mut part) {
            Ok(0) => return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the connection was closed")),
            Ok(read) => read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        };
        let searched = head.len().saturating_sub(2);
        head.extend_from_slice(&part[..read]);
        // Some servers end lines without a carriage return.
        let is_whole = head[searched..].windows(3).any(|three| three.ends_with(b"\n\n") || three == b"\n\r\n");
        let is_other = head.iter().zip(BEGINNING).any(|(found, expected)| found != expected);
        if is_whole || is_other || head.len() > MAX_HEAD_BYTES {
            stream.set_read_timeout(Some(silence))?;
            return Ok((Connection { stream, early: Vec::new() }, is_whole.then_some(head)));
        }
        if Instant::now() >= until {
            return Err(io::ErrorKind::TimedOut.into());
        }
    }
}

fn is_silence(error: &io::Error) -> bool {
    // Linux reports a read timeout as the first kind, other systems as the second.
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut)
}

fn failed(error: &io::Error, silence: Duration) -> Failed {
    match is_silence(error) {
        true => Failed::retry(format!("nothing came for {} s", silence.as_secs())),
        false => Failed::retry(error.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use std::{
        io::{BufRead, BufReader},
        net::TcpListener,
        sync::{
            Arc,
            atomic::{AtomicUsize, Ordering::SeqCst},
        },
        thread,
    };

    use super::*;

    /// Longer than any load on the machine can delay a response.
    const SILENCE: Duration = Duration::from_secs(60);

    /// A server that sends `answers` one after the other, one a request, and closes the connection after an empty one;
    /// returns the number of connections it accepted.
    fn serve(answers: &[&str]) -> (Url, Arc<AtomicUsize>) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}/a%20b/c", listener.local_addr().unwrap()).parse().unwrap();
        let answers: Vec<_> = answers.iter().map(|answer| (*answer).to_owned()).collect();
        let connections = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&connections);
        thread::spawn(move || {
            let mut answers = answers.into_iter().peekable();
            for client in listener.incoming().flatten() {
                counted.fetch_add(1, SeqCst);
                let mut lines = BufReader::new(client.try_clone().unwrap());
                let mut client = client;
                while answers.peek().is_some() {
                    let mut line = String::new();
                    while line != "\r\n" {
                        line.clear();
                        if lines.read_line(&mut line).unwrap() == 0 {
                            break;
                        }
                    }
                    if line.is_empty() {
                        break;
                    }
                    client.write_all(answers.next().unwrap().as_bytes()).unwrap();
                    if answers.next_if(String::is_empty).is_some() {
                        break;
                    }
                }
            }
        });
        (url, connections)
    }

    fn plain(url: &Url) -> Plain {
        Plain::for_url(url, &Settings::default()).unwrap()
    }

    fn get<'a>(plain: &'a Plain, url: &Url, range: Option<Range<u64>>) -> Result<Option<Answer<'a>>, Failed> {
        plain.get(url, &HeaderMap::new(), range.as_ref(), SILENCE, &AtomicU64::default())
    }

    /// Reads the whole body, three bytes at a time.
    fn body(mut answer: Answer<'_>) -> Result<Vec<u8>, Failed> {
        let mut all = Vec::new();
        loop {
            let mut part = [0; 3];
            match answer.read(&mut part)? {
                0 => break,
                read => all.extend_from_slice(&part[..read]),
            }
        }
        answer.end();
        Ok(all)
    }

    #[test]
    fn connections_are_used_again_and_made_anew_where_the_server_has_closed_them() {
        let part = "HTTP/1.1 206 Partial Content\r\nContent-Length: 5\r\nContent-Range: bytes 2-6/9\r\nETag: \"x\"\r\n\r\nabcde";
        let whole = "HTTP/1.1 200 OK\r\nContent-Length: 7\r\n\r\n1234567";
        let closes = "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nConnection: close\r\n\r\n1";
        let old = "HTTP/1.0 200 OK\nContent-Length: 1\n\n1";
        let (url, connections) = serve(&[part, whole, "", part, closes, "", old, "", whole]);
        let plain = plain(&url);
        for (at, (range, expected, had)) in [
            (Some(2..7), "abcde", 1),
            (None, "1234567", 1),
            (Some(2..7), "abcde", 2),
            (None, "1", 2),
            (None, "1", 3),
            (None, "1234567", 4),
        ]
        .into_iter()
        .enumerate()
        {
            let answer = get(&plain, &url, range).unwrap().unwrap();
            assert_eq!(
                (body(answer).unwrap().as_slice(), connections.load(SeqCst)),
                (expected.as_bytes(), had),
                "{at}"
            );
        }
    }

    #[test]
    fn other_answers_are_left_to_the_general_client() {
        let many = format!("HTTP/1.1 200 OK\r\n{}Content-Length: 1\r\n\r\nx", "A: b\r\n".repeat(MAX_HEADERS));
        let long = format!("HTTP/1.1 200 OK\r\nA: {}\r\nContent-Length: 1\r\n\r\nx", "b".repeat(2 * MAX_HEAD_BYTES));
        for (range, answer) in [
            (Some(0..5), "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n123456789"),
            (Some(0..5), "HTTP/1.1 206 Partial Content\r\nContent-Length: 4\r\nContent-Range: bytes 0-3/9\r\n\r\n1234"),
            (Some(0..5), "HTTP/1.1 206 Partial Content\r\nContent-Range: bytes 0-4/9\r\n\r\n12345"),
            (None, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n0\r\n\r\n"),
            (None, "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n0\r\n\r\n"),
            (None, "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nxy"),
            (None, "HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\nxy"),
            (None, "HTTP/1.1 206 Partial Content\r\nContent-Length: 1\r\n\r\nx"),
            (None, "HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1/x\r\nContent-Length: 0\r\n\r\n"),
            (None, "HTTP/1.1 100 Continue\r\n\r\n"),
            (None, "220 welcome\r\n"),
            (None, &many),
            (None, &long),
        ] {
            let (url, connections) = serve(&[answer, answer]);
            let plain = plain(&url);
            let answer = &answer[..answer.len().min(100)];
            for _ in 0..2 {
                assert!(get(&plain, &url, range.clone()).unwrap().is_none(), "{answer}");
            }
            assert_eq!(connections.load(SeqCst), 1, "{answer}");
        }
    }

    #[test]
    fn what_a_server_refuses_is_told_and_ends_the_connection() {
        let busy = "HTTP/1.1 503 Service Unavailable\r\nRetry-After: 7\r\nContent-Length: 900\r\n\r\n<html>";
        let (url, connections) = serve(&[busy, "", "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"]);
        let plain = plain(&url);
        let answer = get(&plain, &url, None).unwrap().unwrap();
        assert_eq!((answer.status.as_u16(), answer.headers["retry-after"].as_bytes()), (503, &b"7"[..]));
        assert!(body(answer).unwrap().is_empty());
        assert!(body(get(&plain, &url, None).unwrap().unwrap()).unwrap().is_empty());
        assert_eq!(connections.load(SeqCst), 2);
    }

    #[test]
    fn silence_and_ends_that_come_too_early_are_failures_to_be_asked_again() {
        for (answer, ends, said) in [
            ("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n1234", true, "cut short"),
            ("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n1234", false, "nothing came"),
            ("HTTP/1.1 200 OK\r\n", false, "nothing came"),
            ("HTTP/1.1 200 OK\r\n", true, "closed"),
        ] {
            let answers = if ends { vec![answer, ""] } else { vec![answer, answer] };
            let (url, _) = serve(&answers);
            let plain = plain(&url);
            let silence = if ends { SILENCE } else { Duration::from_millis(200) };
            let failed = plain
                .get(&url, &HeaderMap::new(), None, silence, &AtomicU64::default())
                .map(|answer| body(answer.unwrap()));
            let failed = failed.map_or_else(|failed| failed, |body| body.unwrap_err());
            assert!(matches!(&failed, Failed::Again { what, .. } if what.contains(said)), "{answer:?}: {failed:?}");
        }
        let nobody = Url::parse("http://127.0.0.1:1/x").unwrap();
        assert!(matches!(get(&plain(&nobody), &nobody, None), Err(Failed::Again { .. })));
    }

    #[test]
    fn a_request_says_what_is_wanted_of_whom() {
        let url = Url::parse("http://[::1]:8000/a%20b?c=d").unwrap();
        let mut headers = HeaderMap::new();
        headers.insert("x-secret", HeaderValue::from_static("1"));
        let text = String::from_utf8(request(&url, &headers, Some(&(5..9)))).unwrap();
        let agent = web::USER_AGENT;
        assert_eq!(
            text,
            format!(
                "GET /a%20b?c=d HTTP/1.1\r\nhost: [::1]:8000\r\nuser-agent: {agent}\r\nx-secret: 1\r\nrange: bytes=5-8\r\n\r\n"
            )
        );
        headers.insert("host", HeaderValue::from_static("other"));
        let text = String::from_utf8(request(&url, &headers, None)).unwrap();
        assert!(
            text.matches("host: ").count() == 1 && text.contains("host: other") && !text.contains("range"),
            "{text}"
        );
    }

    #[test]
    fn only_servers_without_tls_that_are_asked_directly_are_for_this() {
        let url = |text: &str| Url::parse(text).unwrap();
        assert!(Plain::for_url(&url("https://example.org/"), &Settings::default()).is_none());
        let proxy = Settings::from_pairs([("proxy".to_owned(), "http://127.0.0.1:3128".to_owned())]);
        assert!(Plain::for_url(&url("http://example.org/"), &proxy).is_none());
    }
}

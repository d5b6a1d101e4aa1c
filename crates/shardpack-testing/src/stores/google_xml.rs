//! Adds the requests of Google's XML API that fake-gcs-server lacks: puts and multipart uploads.
//!
//! A proxy translates these requests and forwards all others. Parts stay in memory until the upload completes.

use std::{
    collections::{BTreeMap, HashMap},
    hash::{DefaultHasher, Hash, Hasher},
    io::{self, BufReader, Write},
    net::{TcpListener, TcpStream},
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering},
    },
    thread,
};

use crate::server::Message;

/// Minimum length of every part except the last.
const LEAST_PART_BYTES: usize = 5 << 20;

/// A proxy that runs until the process ends.
pub struct GoogleXml {
    port: u16,
    shared: Arc<Shared>,
}

struct Shared {
    upstream: u16,
    /// Number of multipart uploads started so far.
    begun: AtomicU64,
    uploads: Mutex<HashMap<String, Upload>>,
}

/// A multipart upload in progress.
struct Upload {
    key: String,
    parts: BTreeMap<u32, (String, Vec<u8>)>,
}

impl GoogleXml {
    /// Starts a proxy in front of the server at port `upstream`.
    pub fn start(upstream: u16) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let shared = Arc::new(Shared { upstream, begun: AtomicU64::default(), uploads: Mutex::default() });
        let of_thread = Arc::clone(&shared);
        thread::spawn(move || {
            for client in listener.incoming().flatten() {
                let shared = Arc::clone(&of_thread);
                thread::spawn(move || drop(shared.serve(client)));
            }
        });
        Self { port, shared }
    }

    pub fn port(&self) -> u16 {
        self.port
    }

    /// Number of multipart uploads that are neither complete nor aborted.
    pub fn unfinished(&self) -> usize {
        self.shared.uploads.lock().unwrap().len()
    }
}

impl Shared {
    fn serve(&self, mut client: TcpStream) -> io::Result<()> {
        let Some(request) = Message::read(BufReader::new(&client))? else { return Ok(()) };
        let (target, kind) = (request.second().to_owned(), request.header("content-type").map(str::to_owned));
        let (path, query) = target.split_once('?').unwrap_or((&target, ""));
        let is_json = ["/storage/", "/upload/", "/download/", "/batch/"].iter().any(|api| path.starts_with(api));
        let Some((bucket, key)) = path[1..].split_once('/').filter(|(_, key)| !is_json && !key.is_empty()) else {
            return client.write_all(&request.ask(self.upstream)?);
        };
        let value = |name: &str| {
            query.split('&').map(|pair| pair.split_once('=').unwrap_or((pair, ""))).find(|(found, _)| *found == name)
        };
        let id = value("uploadId").map(|(_, id)| id);
        let part = value("partNumber").and_then(|(_, number)| number.parse().ok());
        let answer = match (request.method(), id, part) {
            ("POST", None, _) if value("uploads").is_some() => self.begin(bucket, key),
            ("PUT", Some(id), Some(number)) => self.part(id, number, request.body),
            ("POST", Some(id), _) => self.complete(bucket, key, id, &String::from_utf8_lossy(&request.body))?,
            ("DELETE", Some(id), _) => match self.uploads.lock().unwrap().remove(id) {
                Some(_) => answer("204 No Content", "", ""),
                None => no_upload(),
            },
            ("PUT", None, None) => self.put(bucket, key, kind.as_deref(), request.body, "")?,
            _ => request.ask(self.upstream)?,
        };
        client.write_all(&answer)
    }

    fn begin(&self, bucket: &str, key: &str) -> Vec<u8> {
        let mut uploads = self.uploads.lock().unwrap();
        let id = format!("upload-{}", self.begun.fetch_add(1, Ordering::SeqCst));
        uploads.insert(id.clone(), Upload { key: format!("{bucket}/{key}"), parts: BTreeMap::new() });
        answer(
            "200 OK",
            "",
            &format!("<InitiateMultipartUploadResult><UploadId>{id}</UploadId></InitiateMultipartUploadResult>"),
        )
    }

    fn part(&self, id: &str, number: u32, bytes: Vec<u8>) -> Vec<u8> {
        let mut uploads = self.uploads.lock().unwrap();
        let Some(upload) = uploads.get_mut(id) else { return no_upload() };
        let mut hasher = DefaultHasher::new();
        bytes.hash(&mut hasher);
        let etag = format!("\"{:016x}\"", hasher.finish());
        upload.parts.insert(number, (etag.clone(), bytes));
        answer("200 OK", &etag, "")
    }

    /// Completes the upload with the parts in `list`.
    fn complete(&self, bucket: &str, key: &str, id: &str, list: &str) -> io::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        {
            let uploads = self.uploads.lock().unwrap();
            let Some(upload) = uploads.get(id).filter(|upload| upload.key == format!("{bucket}/{key}")) else {
                return Ok(no_upload());
            };
            let mut last = 0;
            let list: Vec<_> = list.split("<Part>").skip(1).collect();
            for (at, part) in list.iter().enumerate() {
                let of = |name: &str| {
                    let (_, rest) = part.split_once(&format!("<{name}>"))?;
                    rest.split_once(&format!("</{name}>")).map(|(text, _)| text.replace("&quot;", "\""))
                };
                let number = of("PartNumber").and_then(|number| number.parse().ok()).unwrap_or(0);
                let found =
                    upload.parts.get(&number).filter(|(etag, _)| number > last && of("ETag").as_ref() == Some(etag));
                let Some((_, part)) = found else { return Ok(refused("400 Bad Request", "InvalidPart")) };
                if part.len() < LEAST_PART_BYTES && at + 1 < list.len() {
                    return Ok(refused("400 Bad Request", "EntityTooSmall"));
                }
                bytes.extend_from_slice(part);
                last = number;
            }
            if list.is_empty() {
                return Ok(refused("400 Bad Request", "MalformedXML"));
            }
        }
        let put = self.put(bucket, key, None, bytes, "CompleteMultipartUploadResult")?;
        if put.starts_with(b"HTTP/1.1 200") {
            self.uploads.lock().unwrap().remove(id);
        }
        Ok(put)
    }

    /// Puts an object. The response has the ETag as a header, and in the XML element `element` unless the name is empty.
    fn put(&self, bucket: &str, key: &str, kind: Option<&str>, body: Vec<u8>, element: &str) -> io::Result<Vec<u8>> {
        let kind = kind.unwrap_or("application/octet-stream");
        let head = format!(
            "POST /upload/storage/v1/b/{bucket}/o?uploadType=media&name={} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: {kind}\r\nContent-Length: 0\r\n",
            key.replace('+', "%2B").replace('/', "%2F").replace('&', "%26").replace('=', "%3D").replace(';', "%3B")
        );
        let raw = Message { head, body }.ask(self.upstream)?;
        let said = Message::read(&raw[..])?.ok_or(io::ErrorKind::UnexpectedEof)?;
        if said.second() != "200" {
            return Ok(raw);
        }
        let json = String::from_utf8_lossy(&said.body).replace("\\\"", "");
        let etag = json.split_once("\"etag\":\"").and_then(|(_, rest)| rest.split_once('"'));
        let etag = etag.map_or_else(String::new, |(etag, _)| format!("\"{etag}\""));
        let text =
            if element.is_empty() { String::new() } else { format!("<{element}><ETag>{etag}</ETag></{element}>") };
        Ok(answer("200 OK", &etag, &text))
    }
}

fn answer(status: &str, etag: &str, body: &str) -> Vec<u8> {
    let etag = if etag.is_empty() { String::new() } else { format!("ETag: {etag}\r\n") };
    let head = format!("HTTP/1.1 {status}\r\nContent-Length: {}\r\nConnection: close\r\n{etag}\r\n", body.len());
    format!("{head}{body}").into_bytes()
}

fn refused(status: &str, code: &str) -> Vec<u8> {
    answer(status, "", &format!("<Error><Code>{code}</Code></Error>"))
}

fn no_upload() -> Vec<u8> {
    refused("404 Not Found", "NoSuchUpload")
}

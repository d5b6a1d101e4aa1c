//! Simulates a distant server: a proxy before a local server that delays each connection and each request.
//!
//! The proxy relays responses at once and unchanged; requests have no bodies. Bandwidth is not limited, and connections have no slow
//! start, unlike real ones.

use std::{
    io::{self, Read, Write},
    net::{Shutdown, TcpListener, TcpStream},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    thread,
    time::Duration,
};

use crate::Result;

/// Maximum length of a request's head.
const MAX_HEAD_BYTES: usize = 64 << 10;
/// Maximum bytes relayed at a time.
const RELAYED_BYTES: usize = 256 << 10;
const END_OF_HEAD: &[u8] = b"\r\n\r\n";

/// The proxy. Its threads end with their connections; the accepting thread ends with the process.
pub struct Far {
    port: u16,
    delay_us: Arc<AtomicU64>,
}

impl Far {
    /// A proxy for the server at `upstream`.
    pub fn new(upstream: u16) -> Result<Self> {
        let failed = |error| format!("the proxy cannot listen: {error}");
        let listener = TcpListener::bind("127.0.0.1:0").map_err(failed)?;
        let port = listener.local_addr().map_err(failed)?.port();
        let delay_us = Arc::new(AtomicU64::new(0));
        let shared = Arc::clone(&delay_us);
        thread::spawn(move || {
            for client in listener.incoming().flatten() {
                let delay = Duration::from_micros(shared.load(Relaxed));
                // The client reports a broken connection.
                thread::spawn(move || drop(serve(client, upstream, delay)));
            }
        });
        Ok(Self { port, delay_us })
    }

    /// Sets the delay of each later connection and of each request on it.
    pub fn delay(&self, delay: Duration) {
        self.delay_us.store(delay.as_micros() as u64, Relaxed);
    }

    pub fn port(&self) -> u16 {
        self.port
    }
}

fn serve(mut client: TcpStream, upstream: u16, delay: Duration) -> io::Result<()> {
    thread::sleep(delay);
    let mut server = TcpStream::connect(("127.0.0.1", upstream))?;
    client.set_nodelay(true)?;
    server.set_nodelay(true)?;
    let (from, to) = (server.try_clone()?, client.try_clone()?);
    let back = thread::spawn(move || relay(from, to));
    let done = requests(&mut client, &mut server, delay);
    let _ = server.shutdown(Shutdown::Write);
    let _ = back.join();
    done
}

/// Forwards requests in order, each after its delay, until the client closes.
fn requests(client: &mut TcpStream, server: &mut TcpStream, delay: Duration) -> io::Result<()> {
    let (mut head, mut buffer) = (Vec::new(), [0; 4096]);
    loop {
        while let Some(at) = head.windows(END_OF_HEAD.len()).position(|window| window == END_OF_HEAD) {
            thread::sleep(delay);
            server.write_all(&head[..at + END_OF_HEAD.len()])?;
            head.drain(..at + END_OF_HEAD.len());
        }
        let read = client.read(&mut buffer)?;
        if read == 0 || head.len() > MAX_HEAD_BYTES {
            return Ok(());
        }
        head.extend_from_slice(&buffer[..read]);
    }
}

fn relay(mut from: TcpStream, mut to: TcpStream) -> io::Result<()> {
    let mut buffer = vec![0; RELAYED_BYTES];
    let done = loop {
        // A server that sends head and body separately waits for the ACK of the head: 40 ms more than the set delay.
        #[cfg(target_os = "linux")]
        std::os::linux::net::TcpStreamExt::set_quickack(&from, true)?;
        match from.read(&mut buffer) {
            Ok(0) => break Ok(()),
            Ok(read) => {
                if let Err(error) = to.write_all(&buffer[..read]) {
                    break Err(error);
                }
            }
            Err(error) => break Err(error),
        }
    };
    // The other direction ends as well.
    let _ = from.shutdown(Shutdown::Both);
    let _ = to.shutdown(Shutdown::Both);
    done
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Instant;

    /// Answers each request with the length of its head in bytes.
    fn server() -> u16 {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        thread::spawn(move || {
            let (mut client, _) = listener.accept().unwrap();
            let mut head = Vec::new();
            let mut byte = [0];
            while client.read(&mut byte).unwrap() == 1 {
                head.push(byte[0]);
                if head.ends_with(END_OF_HEAD) {
                    client.write_all(&[head.len() as u8]).unwrap();
                    head.clear();
                }
            }
        });
        port
    }

    #[test]
    fn a_connection_and_each_request_wait() {
        let delay = Duration::from_millis(50);
        let far = Far::new(server()).unwrap();
        far.delay(delay);
        let since = Instant::now();
        let mut client = TcpStream::connect(("127.0.0.1", far.port())).unwrap();
        let mut answer = [0];
        for (number, request) in ["GET /a\r\n\r\n", "GET /longer\r\n\r\n"].into_iter().enumerate() {
            // Sent in two pieces.
            client.write_all(&request.as_bytes()[..3]).unwrap();
            client.write_all(&request.as_bytes()[3..]).unwrap();
            client.read_exact(&mut answer).unwrap();
            assert_eq!(usize::from(answer[0]), request.len());
            assert!(since.elapsed() >= delay * (number as u32 + 2));
        }
        client.shutdown(Shutdown::Write).unwrap();
        assert_eq!(client.read(&mut answer).unwrap(), 0);
    }
}

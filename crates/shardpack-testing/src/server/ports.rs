//! Ports for servers that tests start.
//!
//! A port is below those that the system gives to clients, and a lock file keeps other test programs away from it for as
//! long as this process runs. Otherwise two programs could get the same port before their servers listen, and one would
//! take the server of the other for its own.

use std::{
    fs::{self, File},
    net::TcpListener,
    sync::{Mutex, PoisonError},
};

/// Linux gives ports from 32,768 on to clients (`net.ipv4.ip_local_port_range`).
const PORTS: std::ops::Range<u32> = 10_000..32_000;

/// A free port of this machine.
pub fn free_port() -> u16 {
    static HELD: Mutex<Vec<File>> = Mutex::new(Vec::new());
    let folder = std::env::temp_dir().join("shardpack-ports");
    fs::create_dir_all(&folder).unwrap();
    let first = std::process::id().wrapping_mul(7919) % PORTS.len() as u32;
    for at in 0..PORTS.len() as u32 {
        let port = (PORTS.start + (first + at) % PORTS.len() as u32) as u16;
        // A file of another user cannot be opened.
        let Ok(file) = File::create(folder.join(port.to_string())) else { continue };
        if file.try_lock().is_ok() && TcpListener::bind(("127.0.0.1", port)).is_ok() {
            HELD.lock().unwrap_or_else(PoisonError::into_inner).push(file);
            return port;
        }
    }
    panic!("no port of {PORTS:?} is free")
}

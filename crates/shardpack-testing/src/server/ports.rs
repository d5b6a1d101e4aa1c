//! Reserves ports for servers that tests start.
//!
//! Ports are below the system's port range for clients. A lock file reserves a port until this process ends. Otherwise two programs could
//! get the same port before their servers listen, and one program would use the other's server.

use std::{
    fs::{self, File},
    net::TcpListener,
    sync::{Mutex, PoisonError},
};

/// Linux assigns ports from 32,768 to clients (`net.ipv4.ip_local_port_range`).
const PORTS: std::ops::Range<u32> = 10_000..32_000;

/// A free port of this machine.
pub fn free_port() -> u16 {
    static HELD: Mutex<Vec<File>> = Mutex::new(Vec::new());
    let folder = std::env::temp_dir().join("shardpack-ports");
    fs::create_dir_all(&folder).unwrap();
    let first = std::process::id().wrapping_mul(7919) % PORTS.len() as u32;
    for at in 0..PORTS.len() as u32 {
        let port = (PORTS.start + (first + at) % PORTS.len() as u32) as u16;
        // This process cannot open another user's file.
        let Ok(file) = File::create(folder.join(port.to_string())) else { continue };
        if file.try_lock().is_ok() && TcpListener::bind(("127.0.0.1", port)).is_ok() {
            HELD.lock().unwrap_or_else(PoisonError::into_inner).push(file);
            return port;
        }
    }
    panic!("no port of {PORTS:?} is free")
}

//! Opens files for reading and refuses everything but regular files.
//!
//! Holds at all times: nothing waits for the other end of a pipe, no device and no socket is read, and no more bytes are read than a file
//! has when it is opened. The one part of this crate that opens paths, for all crates above it.

use std::{
    error, fmt,
    fs::File,
    io::{self, Read},
    os::unix::fs::OpenOptionsExt,
    path::Path,
};

use rustix::{fs::OFlags, io::Errno};

/// Opens a regular file, links followed.
///
/// # Errors
/// When it cannot be opened; where it is none, see [`is_other`].
pub fn open(path: impl AsRef<Path>) -> io::Result<File> {
    // Opening a pipe would wait for its other end; the flag has no effect on a regular file.
    let flags = OFlags::NONBLOCK.bits().cast_signed();
    let file = File::options().read(true).custom_flags(flags).open(path).map_err(|error| {
        match error.raw_os_error().map(Errno::from_raw_os_error) {
            // A socket, a pipe without its other end, or a device that is not there.
            Some(Errno::NXIO | Errno::NODEV | Errno::OPNOTSUPP) => other(),
            _ => error,
        }
    })?;
    if file.metadata()?.is_file() { Ok(file) } else { Err(other()) }
}

/// Reads a regular file, as long as it is when it is opened.
///
/// # Errors
/// As [`open`]; when it cannot be read, or there is no memory for it.
pub fn read(path: impl AsRef<Path>) -> io::Result<Vec<u8>> {
    let file = open(path)?;
    let bytes = file.metadata()?.len();
    read_of(file, bytes)
}

/// As [`read`], of a file that has at most `most` bytes.
///
/// # Errors
/// As [`read`]; when it is longer.
pub fn read_at_most(path: impl AsRef<Path>, most: u64) -> io::Result<Vec<u8>> {
    let file = open(path)?;
    match file.metadata()?.len() {
        bytes if bytes > most => {
            let what = format!("{bytes} bytes, and such a file has at most {most}");
            Err(io::Error::new(io::ErrorKind::FileTooLarge, what))
        }
        bytes => read_of(file, bytes),
    }
}

fn read_of(file: File, bytes: u64) -> io::Result<Vec<u8>> {
    let mut all = Vec::new();
    let length = usize::try_from(bytes).map_err(|_| io::ErrorKind::OutOfMemory)?;
    all.try_reserve_exact(length).map_err(|_| io::ErrorKind::OutOfMemory)?;
    file.take(bytes).read_to_end(&mut all)?;
    Ok(all)
}

/// Whether this is the error of a path at which there is no regular file but something else.
pub fn is_other(error: &io::Error) -> bool {
    error.get_ref().is_some_and(|inner| inner.is::<NoFile>())
}

fn other() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, NoFile)
}

#[derive(Debug)]
struct NoFile;

impl fmt::Display for NoFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("not a regular file")
    }
}

impl error::Error for NoFile {}

#[cfg(test)]
mod tests {
    use std::os::unix::{fs::symlink, net::UnixListener};

    use super::*;

    #[test]
    fn regular_files_are_read_and_nothing_else_is_waited_for() {
        let folder = std::env::temp_dir().join(format!("regular-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let at = |name: &str| folder.join(name);
        std::fs::write(at("file"), "12345").unwrap();
        symlink("file", at("link")).unwrap();
        symlink("/dev/zero", at("zero")).unwrap();
        rustix::fs::mknodat(rustix::fs::CWD, at("pipe"), rustix::fs::FileType::Fifo, rustix::fs::Mode::RUSR, 0)
            .unwrap();
        let _socket = UnixListener::bind(at("socket")).unwrap();
        for name in ["file", "link"] {
            assert_eq!(read(at(name)).unwrap(), b"12345");
            assert_eq!(read_at_most(at(name), 5).unwrap(), b"12345");
            assert!(read_at_most(at(name), 4).unwrap_err().to_string().starts_with("5 bytes"));
        }
        for name in ["zero", "pipe", "socket", "."] {
            let error = read(at(name)).unwrap_err();
            assert!(is_other(&error) && error.to_string() == "not a regular file", "{name}: {error}");
        }
        let error = open(at("none")).unwrap_err();
        assert!(!is_other(&error) && error.kind() == io::ErrorKind::NotFound);
        std::fs::remove_dir_all(&folder).unwrap();
    }
}

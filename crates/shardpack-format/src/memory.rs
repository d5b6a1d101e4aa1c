//! Memory limit of the process for records and chunks that must be in memory as a whole.
//!
//! Holds at all times: an admitted piece is at most half of the limit, because several pieces are in memory at a time.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crate::{Error, Result, size};

static ALLOWED_BYTES: AtomicU64 = AtomicU64::new(4 << 30);

/// Sets the limit in bytes; call it before anything is read.
pub fn allow(bytes: u64) {
    ALLOWED_BYTES.store(bytes, Relaxed);
}

/// How many bytes there may be.
pub fn allowed() -> u64 {
    ALLOWED_BYTES.load(Relaxed)
}

/// How long a piece of a file may be that has to lie in memory whole, in bytes.
pub fn most_of_piece() -> u64 {
    allowed() / 2
}

/// Refuses a piece of a file of others of so many bytes, if it is too long.
///
/// # Errors
/// Names both sizes and the option.
pub fn admit(bytes: u64) -> Result<()> {
    match bytes > most_of_piece() {
        true => Err(Error::data(too_long(bytes))),
        false => Ok(()),
    }
}

/// The error text for a piece of this many bytes, with help.
pub fn too_long(bytes: u64) -> String {
    let (piece, most) = (size::text(bytes), size::text(most_of_piece()));
    format!("{piece} in one piece, at most {most} are read: --memory {}MiB allows it", bytes.div_ceil(1 << 19))
}

/// Room for `bytes` more in `out`, if they are admitted and the machine has as much.
///
/// # Errors
/// As [`admit`]; when the machine has no such memory.
pub fn make_room(out: &mut Vec<u8>, bytes: u64) -> Result<()> {
    admit((out.len() as u64).saturating_add(bytes))?;
    let more = usize::try_from(bytes).ok().and_then(|bytes| out.try_reserve(bytes).ok());
    more.ok_or_else(|| {
        Error::io(format!("no memory for {}", size::text(bytes)), std::io::ErrorKind::OutOfMemory.into())
    })
}

/// Makes `out` `bytes` long for a caller that overwrites all of it: its old content stays, because clearing it costs
/// as much time as a small sample takes.
///
/// # Errors
/// As [`make_room`].
pub fn resize(out: &mut Vec<u8>, bytes: usize) -> Result<()> {
    out.truncate(bytes);
    make_room(out, (bytes - out.len()) as u64)?;
    out.resize(bytes, 0);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_piece_is_at_most_half_of_the_memory_and_one_that_the_machine_lacks_is_an_error() {
        assert!(admit(most_of_piece()).is_ok());
        let error = admit(most_of_piece() + (1 << 20)).unwrap_err();
        assert!(error.what().ends_with(": --memory 4098MiB allows it"), "{error}");
        let mut out = Vec::new();
        make_room(&mut out, 1000).unwrap();
        assert!(out.capacity() >= 1000);
        assert!(make_room(&mut out, u64::MAX).is_err());
        resize(&mut out, 3).unwrap();
        assert_eq!(out.len(), 3);
        assert!(resize(&mut out, usize::MAX).is_err());
        assert_eq!(out.len(), 3);
        // A buffer that is long already is no reason to admit a piece that is too long.
        let mut long = vec![0; 5 << 20];
        let most = usize::try_from(most_of_piece()).unwrap();
        assert!(resize(&mut long, most + 1).is_err());
        resize(&mut long, 1).unwrap();
        assert_eq!(long.len(), 1);
    }
}

//! Grows buffers on demand; insufficient memory is an error, not an abort.

use shardpack_format::{Error, ErrorKind, Result};

/// Makes `buffer` at least `bytes` long and keeps its content.
///
/// # Errors
/// When memory is insufficient.
pub(crate) fn make_room(buffer: &mut Vec<u8>, bytes: usize) -> Result<()> {
    if let Some(more) = bytes.checked_sub(buffer.len()).filter(|more| *more > 0) {
        buffer
            .try_reserve_exact(more)
            .map_err(|_| Error::new(ErrorKind::System, format!("no memory for a buffer of {bytes} bytes")))?;
        buffer.resize(bytes, 0);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn room_is_never_taken_back_and_too_much_is_an_error() {
        let mut buffer = vec![1, 2];
        make_room(&mut buffer, 4).unwrap();
        make_room(&mut buffer, 1).unwrap();
        assert_eq!(buffer, [1, 2, 0, 0]);
        assert_eq!(make_room(&mut buffer, usize::MAX).unwrap_err().kind(), ErrorKind::System);
    }
}

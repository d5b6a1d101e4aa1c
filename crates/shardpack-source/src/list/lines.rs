//! Reads a list line by line, with a limit on line length.

use std::io::{BufRead, BufReader, Read};

use shardpack_format::{Error, Result};

use crate::monitor::Monitor;

/// Longest line or CSV record, in bytes.
pub(super) const MAX_RECORD_BYTES: usize = 16 << 20;

/// Calls `take` for each line with its number, from 1, and its bytes including the line end.
pub(super) fn each(
    input: impl Read,
    monitor: &dyn Monitor,
    mut take: impl FnMut(u64, &[u8]) -> Result<()>,
) -> Result<()> {
    let mut input = BufReader::new(input);
    let mut line = Vec::new();
    for number in 1u64.. {
        line.clear();
        let mut limited = (&mut input).take(MAX_RECORD_BYTES as u64 + 1);
        let read = limited.read_until(b'\n', &mut line).map_err(|error| Error::io("cannot read", error))?;
        if read == 0 {
            break;
        }
        if read > MAX_RECORD_BYTES {
            return Err(Error::data(format!("line {number}: more than {MAX_RECORD_BYTES} bytes")));
        }
        take(number, &line)?;
        if number % 4096 == 0 {
            monitor.check_cancelled()?;
        }
    }
    Ok(())
}

//! Hashes by name, several in one pass over what is read.

use std::{collections::BTreeMap, io::Read};

use shardpack_format::{Error, Result, formats::foreign::fill, hash::Named};

use crate::monitor::Monitor;

/// Bytes that are read at a time to be hashed.
const READ_BYTES: usize = 256 << 10;

/// Length in bytes of what `input` gives, and its hashes.
///
/// # Errors
/// When it cannot be read to its end, a name is none of a hash, or the person interrupts it.
pub(crate) fn digest<'n>(
    input: &mut (impl Read + ?Sized),
    names: impl IntoIterator<Item = &'n str>,
    monitor: &dyn Monitor,
) -> Result<(u64, BTreeMap<String, String>)> {
    let hashes = names.into_iter().map(|name| Ok((name, Named::new(name)?)));
    let mut hashes = hashes.collect::<Result<Vec<_>>>()?;
    let (mut piece, mut bytes) = (vec![0; READ_BYTES], 0);
    loop {
        monitor.go_on()?;
        let read = fill(input, &mut piece).map_err(|error| Error::io("cannot read", error).at_byte(bytes))?;
        if read == 0 {
            break;
        }
        hashes.iter_mut().for_each(|(_, hash)| hash.update(&piece[..read]));
        bytes += read as u64;
    }
    Ok((bytes, hashes.into_iter().map(|(name, hash)| (name.to_owned(), hash.finish())).collect()))
}

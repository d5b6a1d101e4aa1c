//! Hashes by the names that other formats' sidecars give them, as text in the form that their readers compare.
//!
//! Others use these hashes to check that a file arrived; this program itself trusts BLAKE3.
//! Source: FIPS 180-4 (SHA-1, SHA-256), RFC 1321 (MD5), xxHash 0.8 (the rest, seed 0, digits in canonical big-endian order
//! as python-xxhash's `hexdigest` has them).

use std::{collections::BTreeMap, io::Read};

use md5::Md5;
use sha1::Sha1;
use sha2::{Digest, Sha256};
use xxhash_rust::{xxh3::Xxh3Default, xxh32::Xxh32, xxh64::Xxh64};

use crate::{Error, Result, formats::foreign::fill};

/// Bytes that are read at a time to be hashed.
const READ_BYTES: usize = 256 << 10;

/// Hashes bytes in order by a hash that has a name.
#[derive(Clone)]
pub struct Named(State);

#[derive(Clone)]
enum State {
    Sha1(Sha1),
    Sha256(Sha256),
    Md5(Md5),
    Xxh32(Xxh32),
    Xxh64(Xxh64),
    // Boxed, for they are several times as large as the others.
    Xxh3(Box<Xxh3Default>),
    Xxh128(Box<Xxh3Default>),
}

impl Named {
    /// All names, in alphabetical order.
    pub const ALL: [&'static str; 7] = ["md5", "sha1", "sha256", "xxh128", "xxh32", "xxh3_64", "xxh64"];

    /// Begins a hash by its name.
    ///
    /// # Errors
    /// When `name` is none of [`Named::ALL`].
    pub fn new(name: &str) -> Result<Self> {
        Ok(Self(match name {
            "sha1" => State::Sha1(Sha1::new()),
            "sha256" => State::Sha256(Sha256::new()),
            "md5" => State::Md5(Md5::new()),
            "xxh32" => State::Xxh32(Xxh32::new(0)),
            "xxh64" => State::Xxh64(Xxh64::new(0)),
            "xxh3_64" => State::Xxh3(Box::default()),
            "xxh128" => State::Xxh128(Box::default()),
            _ => return Err(Error::usage(format!("hash {name:?}, this program knows {}", Self::ALL.join(", ")))),
        }))
    }

    /// Takes the next bytes.
    pub fn update(&mut self, bytes: &[u8]) {
        match &mut self.0 {
            State::Sha1(state) => state.update(bytes),
            State::Sha256(state) => state.update(bytes),
            State::Md5(state) => state.update(bytes),
            State::Xxh32(state) => state.update(bytes),
            State::Xxh64(state) => state.update(bytes),
            State::Xxh3(state) | State::Xxh128(state) => state.update(bytes),
        }
    }

    /// Ends the hash: lower-case hexadecimal.
    pub fn finish(self) -> String {
        match self.0 {
            State::Sha1(state) => super::hex(&state.finalize()),
            State::Sha256(state) => super::hex(&state.finalize()),
            State::Md5(state) => super::hex(&state.finalize()),
            State::Xxh32(state) => super::hex(&state.digest().to_be_bytes()),
            State::Xxh64(state) => super::hex(&state.digest().to_be_bytes()),
            State::Xxh3(state) => super::hex(&state.digest().to_be_bytes()),
            State::Xxh128(state) => super::hex(&state.digest128().to_be_bytes()),
        }
    }
}

/// Length in bytes of `input`, and its hashes by their names, all in one pass; calls `check_cancelled` before each read.
///
/// # Errors
/// If `input` cannot be read to its end, a name is not in [`Named::ALL`], or `check_cancelled` fails.
pub fn digest<'n>(
    input: &mut (impl Read + ?Sized),
    names: impl IntoIterator<Item = &'n str>,
    check_cancelled: &dyn Fn() -> Result<()>,
) -> Result<(u64, BTreeMap<String, String>)> {
    let hashes = names.into_iter().map(|name| Ok((name, Named::new(name)?)));
    let mut hashes = hashes.collect::<Result<Vec<_>>>()?;
    let (mut piece, mut bytes) = (vec![0; READ_BYTES], 0);
    loop {
        check_cancelled()?;
        let read = fill(input, &mut piece).map_err(|error| Error::io("cannot read", error).at_byte(bytes))?;
        if read == 0 {
            break;
        }
        hashes.iter_mut().for_each(|(_, hash)| hash.update(&piece[..read]));
        bytes += read as u64;
    }
    Ok((bytes, hashes.into_iter().map(|(name, hash)| (name.to_owned(), hash.finish())).collect()))
}

impl std::fmt::Debug for Named {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Named").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_is_what_hashlib_and_python_xxhash_say() {
        let expected = [
            ("md5", "900150983cd24fb0d6963f7d28e17f72"),
            ("sha1", "a9993e364706816aba3e25717850c26c9cd0d89d"),
            ("sha256", "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"),
            ("xxh128", "06b05ab6733a618578af5f94892f3950"),
            ("xxh32", "32d153ff"),
            ("xxh3_64", "78af5f94892f3950"),
            ("xxh64", "44bc2cf5ad770999"),
        ];
        assert_eq!(expected.map(|(name, _)| name), Named::ALL);
        for (name, digest) in expected {
            let mut hash = Named::new(name).unwrap();
            hash.update(b"a");
            hash.update(b"");
            hash.update(b"bc");
            assert_eq!(hash.finish(), digest, "{name}");
        }
        assert!(Named::new("SHA1").unwrap_err().to_string().contains("xxh3_64"));
    }
}

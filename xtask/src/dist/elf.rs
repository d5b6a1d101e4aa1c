//! Reads the dynamic loader that a 64-bit program requires from its ELF headers.
//!
//! Source: System V ABI, "Object Files" and "Program Loading". Little-endian, as all target machines are.

use crate::Result;

/// Type of the program header that names the dynamic loader.
const PT_INTERP: u32 = 3;

/// The dynamic loader that a program requires; `None` if the program is static.
pub fn interpreter(bytes: &[u8]) -> Result<Option<String>> {
    if !bytes.starts_with(b"\x7fELF\x02\x01") {
        return Err("not a little-endian ELF of 64 bits".to_owned());
    }
    let cut = || "an ELF that is cut off".to_owned();
    let at = number::<8>(bytes, 32).ok_or_else(cut)?;
    let length = number::<2>(bytes, 54).ok_or_else(cut)?;
    let count = number::<2>(bytes, 56).ok_or_else(cut)?;
    for header in 0..count {
        let header = header.checked_mul(length).and_then(|offset| offset.checked_add(at)).ok_or_else(cut)?;
        if number::<4>(bytes, header).ok_or_else(cut)? != u64::from(PT_INTERP) {
            continue;
        }
        let offset = number::<8>(bytes, header.saturating_add(8)).ok_or_else(cut)?;
        let length = number::<8>(bytes, header.saturating_add(32)).ok_or_else(cut)?;
        let end = offset.checked_add(length).ok_or_else(cut)?;
        let range = usize::try_from(offset).ok().zip(usize::try_from(end).ok());
        let name = range.and_then(|(start, end)| bytes.get(start..end)).ok_or_else(cut)?;
        return Ok(Some(String::from_utf8_lossy(name).trim_end_matches('\0').to_owned()));
    }
    Ok(None)
}

/// The unsigned number in `N` bytes at `offset`, little-endian.
fn number<const N: usize>(bytes: &[u8], offset: u64) -> Option<u64> {
    let bytes = bytes.get(usize::try_from(offset).ok()?..)?.first_chunk::<N>()?;
    Some(bytes.iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte)))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An ELF file with one program header of type `kind`, followed by a name.
    fn program(kind: u32, name: &[u8]) -> Vec<u8> {
        let mut bytes = b"\x7fELF\x02\x01".to_vec();
        bytes.resize(64 + 56, 0);
        bytes[32] = 64;
        bytes[54] = 56;
        bytes[56] = 1;
        bytes[64..68].copy_from_slice(&kind.to_le_bytes());
        bytes[64 + 8] = 120;
        bytes[64 + 32] = name.len() as u8;
        bytes.extend(name);
        bytes
    }

    #[test]
    fn a_program_is_static_or_names_its_loader() {
        assert_eq!(interpreter(&program(PT_INTERP, b"/lib/ld.so\0")), Ok(Some("/lib/ld.so".to_owned())));
        assert_eq!(interpreter(&program(1, b"")), Ok(None));
    }

    #[test]
    fn every_cut_of_a_program_is_refused() {
        let whole = program(PT_INTERP, b"/lib/ld.so\0");
        for length in 0..whole.len() {
            assert!(interpreter(&whole[..length]).is_err(), "{length}");
        }
    }

    #[test]
    fn offsets_beyond_the_file_are_refused() {
        let mut far = program(PT_INTERP, b"/lib/ld.so\0");
        far[32..40].fill(0xff);
        assert!(interpreter(&far).is_err());
        let mut far = program(PT_INTERP, b"/lib/ld.so\0");
        far[64 + 8..64 + 16].fill(0xff);
        assert!(interpreter(&far).is_err());
    }

    #[test]
    fn the_tests_themselves_are_read() {
        let own = std::fs::read(std::env::current_exe().unwrap()).unwrap();
        if cfg!(all(target_os = "linux", target_env = "gnu")) {
            assert!(interpreter(&own).unwrap().unwrap().contains("ld-linux"));
        }
    }
}

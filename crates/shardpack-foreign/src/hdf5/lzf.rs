//! Decompresses LZF, h5py's own filter: literals and copies of earlier output.
//!
//! # Bytes
//! A byte below 32 is followed by that many literals plus one. In any other byte, the three high bits are the length of a
//! copy less two (7: the next byte is added); the five low bits with the following byte are the distance back, less one.
//!
//! Source: liblzf 3.6, `lzf_d.c`; h5py, `lzf/lzf_filter.c`.

/// Number of the filter, as registered with The HDF Group.
pub(super) const FILTER: u16 = 32000;

/// Decompresses `input`; `None` if it is corrupt, or the output would exceed `most` bytes.
pub(super) fn unpacked(input: &[u8], most: usize) -> Option<Vec<u8>> {
    let mut out = Vec::new();
    let mut input = input.iter().copied();
    while let Some(control) = input.next() {
        let control = usize::from(control);
        if control < 32 {
            let literals = control + 1;
            if input.len() < literals {
                return None;
            }
            out.extend(input.by_ref().take(literals));
        } else {
            let extra = if control >> 5 == 7 { usize::from(input.next()?) } else { 0 };
            let length = (control >> 5) + extra + 2;
            let back = (control & 31) << 8 | usize::from(input.next()?);
            let from = out.len().checked_sub(back + 1)?;
            // A copy may overlap its own output.
            (from..from + length).for_each(|at| out.push(out[at]));
        }
        if out.len() > most {
            return None;
        }
    }
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copies_may_overlap_what_they_write() {
        assert_eq!(unpacked(b"\x02abc\x20\x02", 99).unwrap(), b"abcabc");
        assert_eq!(unpacked(b"\x00a\xe0\x03\x00", 99).unwrap(), [b'a'; 13]);
        assert_eq!(unpacked(b"", 99).unwrap(), b"");
    }

    #[test]
    fn damage_is_found_and_no_more_is_made_than_there_is_room_for() {
        for wrong in [b"\x02ab".as_slice(), b"\x20\x00", b"\x00a\x20", b"\x00a\xe0\xff", b"\x00a\x20\x01"] {
            assert_eq!(unpacked(wrong, 99), None, "{wrong:?}");
        }
        assert_eq!(unpacked(b"\x00a\xe0\xff\x00", 263), None);
        assert_eq!(unpacked(b"\x00a\xe0\xff\x00", 265).unwrap().len(), 265);
    }
}

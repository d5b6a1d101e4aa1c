//! What stands before the items of a `.npy` file.
//!
//! # Specification
//! numpy 2, `lib/format.py`, version 1.0: magic, length of the rest, a Python dict, spaces up to a multiple of 64 bytes
//! of which the last is a line break.

/// The head of an array whose items are of type `dtype`, as numpy writes it: `|u1`, `<f4`; `shape` is at most 32 axes
/// long, the last changing fastest unless `is_fortran`.
pub fn head(dtype: &str, shape: &[u64], is_fortran: bool) -> Vec<u8> {
    let axes: Vec<_> = shape.iter().map(u64::to_string).collect();
    // As Python prints a tuple: `(3, 4)`, and `(3,)`.
    let comma = if axes.len() == 1 { "," } else { "" };
    let order = if is_fortran { "True" } else { "False" };
    let text = format!("{{'descr': '{dtype}', 'fortran_order': {order}, 'shape': ({}{comma}), }}", axes.join(", "));
    let bytes = (10 + text.len() + 1).next_multiple_of(64);
    let mut head = b"\x93NUMPY\x01\0".to_vec();
    // Axes of at most 20 digits and a short type: far below 2^16.
    head.extend_from_slice(&((bytes - 10) as u16).to_le_bytes());
    head.extend_from_slice(text.as_bytes());
    head.resize(bytes - 1, b' ');
    head.push(b'\n');
    head
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heads_are_those_of_numpy() {
        let one = b"\x93NUMPY\x01\0v\0{'descr': '|u1', 'fortran_order': False, 'shape': (3,), }";
        let two = b"\x93NUMPY\x01\0v\0{'descr': '<f4', 'fortran_order': True, 'shape': (3, 40), }";
        for (found, start) in [(head("|u1", &[3], false), &one[..]), (head("<f4", &[3, 40], true), &two[..])] {
            assert_eq!(found.len(), 128);
            assert!(found.starts_with(start) && found.ends_with(b" \n"), "{}", String::from_utf8_lossy(&found));
        }
    }
}

//! `Datum`, the protobuf message that Caffe keeps an image in.
//!
//! Specification: `caffe.proto` of Caffe 1.0, message `Datum` (proto2): 1 channels, 2 height, 3 width, 4 data, 5
//! label, 6 float_data, 7 encoded; <https://protobuf.dev/programming-guides/encoding/>. Fields that it does not have
//! are passed over, of a field given twice the last counts, as every parser has it.

use std::ops::Range;

use super::cursor::Cursor;

/// An image and its label.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Datum {
    /// Colours of a pixel.
    pub channels: u32,
    /// Height in pixels.
    pub height: u32,
    /// Width in pixels.
    pub width: u32,
    /// Range of the image in the input: a file if `encoded`, else `[channels, height, width] uint8`.
    pub data: Range<usize>,
    /// Its label, if it has one.
    pub label: Option<i64>,
    /// Whether `data` is an image file.
    pub encoded: bool,
    /// Whether it has pixels as floating point numbers, which are not read.
    pub float_data: bool,
}

/// Reads a `Datum`.
///
/// # Errors
/// If it is corrupt, is another message, or has a size that is negative.
pub fn datum(bytes: &[u8]) -> Result<Datum, String> {
    let mut cursor = Cursor::new(bytes);
    let mut datum = Datum::default();
    while cursor.left() > 0 {
        let start = cursor.at;
        field(&mut cursor, &mut datum).map_err(|what| format!("Datum, byte {start}: {what}"))?;
    }
    Ok(datum)
}

fn field(cursor: &mut Cursor, datum: &mut Datum) -> Result<(), String> {
    let tag = varint(cursor)?;
    let (number, wire) = (tag >> 3, tag & 7);
    let size =
        |number: u64| u32::try_from(number).ok().filter(|size| *size <= i32::MAX as u32).ok_or("a negative size");
    match (number, wire) {
        (1, 0) => datum.channels = size(varint(cursor)?)?,
        (2, 0) => datum.height = size(varint(cursor)?)?,
        (3, 0) => datum.width = size(varint(cursor)?)?,
        (4, 2) => {
            let bytes = varint(cursor)?;
            datum.data = cursor.range(bytes)?;
        }
        // An int32 that is negative is ten bytes long; parsers keep its lower 32 bits.
        (5, 0) => datum.label = Some(i64::from(varint(cursor)? as u32 as i32)),
        (7, 0) => datum.encoded = varint(cursor)? != 0,
        (1..=5 | 7, _) | (6, 0 | 1) => return Err(format!("field {number} of wire type {wire}, as in no Datum")),
        (0 | 0x2000_0000.., _) => return Err(format!("there is no field {number}")),
        (number, wire) => {
            datum.float_data |= number == 6;
            let bytes = match wire {
                0 => {
                    varint(cursor)?;
                    0
                }
                1 => 8,
                2 => varint(cursor)?,
                5 => 4,
                wire => return Err(format!("field {number} of wire type {wire}, as in no Datum")),
            };
            cursor.range(bytes)?;
        }
    }
    Ok(())
}

fn varint(cursor: &mut Cursor) -> Result<u64, String> {
    let mut number = 0;
    for shift in (0..64).step_by(7) {
        let byte = cursor.byte()?;
        number |= u64::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            return Ok(number);
        }
    }
    Err("a number of more than 64 bits".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plain::tests::{IMAGE, cuts_and_flips, fixture};

    #[test]
    fn datums_of_protobuf_are_read() {
        let bytes = fixture("datum-encoded.bin");
        let datum = datum(&bytes).unwrap();
        assert_eq!(&bytes[datum.data.clone()], IMAGE);
        let rest = Datum { data: 0..0, ..datum };
        let expected = Datum { channels: 3, height: 2, width: 4, label: Some(7), encoded: true, ..Datum::default() };
        assert_eq!(rest, expected);

        let bytes = fixture("datum-raw.bin");
        let datum = super::datum(&bytes).unwrap();
        assert_eq!((datum.data.len(), datum.label, datum.encoded, datum.float_data), (24, Some(-1), false, false));
        assert_eq!(bytes[datum.data][23], 23 * 11);

        let bytes = fixture("datum-float.bin");
        let datum = super::datum(&bytes).unwrap();
        assert_eq!((datum.data, datum.label, datum.float_data), (0..0, None, true));
    }

    #[test]
    fn unknown_fields_are_passed_over_and_others_refused() {
        let known = |bytes: &[u8]| datum(bytes).map(|datum| datum.width);
        assert_eq!(known(b""), Ok(0));
        assert_eq!(known(b"\x18\x05\x18\x06"), Ok(6), "the last counts");
        assert_eq!(known(b"\x40\x01\x49abcdefgh\x52\x02zz\x5dabcd\x18\x05"), Ok(5), "fields 8 to 11");
        assert_eq!(known(b"\x35\0\0\0\0\x18\x05"), Ok(5), "float_data that is not packed");
        let refused = [
            (&b"\x20\x05"[..], "Datum, byte 0: field 4 of wire type 0, as in no Datum"),
            (b"\x18\x05\x1a\x01a", "Datum, byte 2: field 3 of wire type 2, as in no Datum"),
            (b"\x43\x44", "Datum, byte 0: field 8 of wire type 3, as in no Datum"),
            (b"\x47", "Datum, byte 0: field 8 of wire type 7, as in no Datum"),
            (b"\x00\x01", "Datum, byte 0: there is no field 0"),
            (b"\x18\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", "Datum, byte 0: a negative size"),
            (b"\x18\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", "Datum, byte 0: a number of more than 64 bits"),
            (
                b"\x22\x80\x80\x80\x80\x80\x80\x80\x80\x10abc",
                "Datum, byte 0: 1152921504606846976 bytes are claimed, 3 are left",
            ),
        ];
        for (bytes, what) in refused {
            assert_eq!(known(bytes).unwrap_err(), what);
        }
    }

    #[test]
    fn damage_is_no_panic() {
        for name in ["datum-encoded.bin", "datum-raw.bin", "datum-float.bin"] {
            cuts_and_flips(&fixture(name), |bytes| drop(datum(bytes)));
        }
    }
}

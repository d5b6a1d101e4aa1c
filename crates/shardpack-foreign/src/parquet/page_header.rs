//! Parses page headers: kind, length and encoding of the content.
//!
//! Specification: <https://github.com/apache/parquet-format>, 2.12, `parquet.thrift`.

use parquet::basic::Encoding;

use super::thrift::{Kind, Thrift};

/// Content of a header.
#[derive(Clone, Copy)]
pub(super) struct Header {
    pub what: What,
    pub unpacked_bytes: u64,
    pub packed_bytes: u64,
    pub crc: Option<u32>,
    pub values: u32,
    pub encoding: Encoding,
}

/// Kind of content after a header.
#[derive(Clone, Copy)]
pub(super) enum What {
    Data { of_definitions: Encoding, of_repetitions: Encoding },
    Data2 { rows: u32, nulls: u32, definition_bytes: u32, repetition_bytes: u32, is_packed: bool },
    Dictionary { is_sorted: bool },
    Index,
}

impl Header {
    /// `None` if the header is truncated or invalid; text if the page has an unsupported feature.
    pub fn read(thrift: &mut Thrift<'_>) -> Option<Result<Self, String>> {
        let mut own = [None; 5];
        let (mut data, mut dictionary, mut data2) = ([None; 8], [None; 8], [None; 8]);
        thrift.fields(|thrift, field, kind| match field {
            5 => numbers(thrift, kind, &mut data),
            7 => numbers(thrift, kind, &mut dictionary),
            8 => numbers(thrift, kind, &mut data2),
            field => {
                let value = thrift.value(kind)?;
                if let Some(place) = usize::try_from(field).ok().and_then(|field| own.get_mut(field)) {
                    *place = value;
                }
                Some(())
            }
        })?;
        Some(Self::from_fields(own, data, dictionary, data2))
    }

    /// The header with these numbers, each in the place of its field's number; the encodings' are in `parquet.thrift`.
    fn from_fields(
        own: [Option<i64>; 5],
        data: [Option<i64>; 8],
        dictionary: [Option<i64>; 8],
        data2: [Option<i64>; 8],
    ) -> Result<Self, String> {
        let number = |value: Option<i64>| {
            let number = value.and_then(|value| i32::try_from(value).ok()).and_then(|value| u32::try_from(value).ok());
            number.ok_or_else(|| "a number in its header is missing or too large".to_owned())
        };
        let of_values = |value| match number(value)? {
            0 => Ok(Encoding::PLAIN),
            2 => Ok(Encoding::PLAIN_DICTIONARY),
            3 => Ok(Encoding::RLE),
            5 => Ok(Encoding::DELTA_BINARY_PACKED),
            8 => Ok(Encoding::RLE_DICTIONARY),
            // In 6 and 7, lengths and values build on earlier ones: a few bytes could expand beyond all memory; 9 is for
            // floats. Writers use these encodings only on request. Columns in them are refused or counted by name.
            6 => Err("the encoding DELTA_LENGTH_BYTE_ARRAY is not supported".to_owned()),
            7 => Err("the encoding DELTA_BYTE_ARRAY is not supported".to_owned()),
            9 => Err("the encoding BYTE_STREAM_SPLIT is not supported".to_owned()),
            other => Err(format!("the encoding with the number {other} is not supported")),
        };
        let of_levels = |value| match number(value)? {
            3 => Ok(Encoding::RLE),
            // Java writes this value if there are no levels; other writers no longer use it.
            #[expect(deprecated)]
            4 => Ok(Encoding::BIT_PACKED),
            other => Err(format!("levels in the encoding with the number {other} are not supported")),
        };
        let (what, values, encoding) = match number(own[1])? {
            0 => {
                let what = What::Data { of_definitions: of_levels(data[3])?, of_repetitions: of_levels(data[4])? };
                (what, data[1], of_values(data[2])?)
            }
            1 => (What::Index, Some(0), Encoding::PLAIN),
            2 => {
                let what = What::Dictionary { is_sorted: dictionary[3] == Some(1) };
                (what, dictionary[1], of_values(dictionary[2])?)
            }
            3 => {
                let what = What::Data2 {
                    rows: number(data2[3])?,
                    nulls: number(data2[2])?,
                    definition_bytes: number(data2[5])?,
                    repetition_bytes: number(data2[6])?,
                    is_packed: data2[7] != Some(0),
                };
                (what, data2[1], of_values(data2[4])?)
            }
            other => return Err(format!("a page of the type with the number {other}")),
        };
        Ok(Self {
            what,
            unpacked_bytes: number(own[2])?.into(),
            packed_bytes: number(own[3])?.into(),
            // Its 32 bits are kept in a signed number.
            crc: own[4].map(|crc| crc as u32),
            values: number(values)?,
            encoding,
        })
    }
}

/// Reads the numbers of a structure, each to the place of its field's number.
fn numbers(thrift: &mut Thrift<'_>, kind: Kind, out: &mut [Option<i64>]) -> Option<()> {
    if !kind.is_structure() {
        return thrift.skip(kind);
    }
    thrift.fields(|thrift, field, kind| {
        let value = thrift.value(kind)?;
        if let Some(place) = usize::try_from(field).ok().and_then(|field| out.get_mut(field)) {
            *place = value;
        }
        Some(())
    })
}

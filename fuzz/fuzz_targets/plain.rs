//! Bytes as plain data in each serialisation: pickle, MessagePack, Arrow, `Datum`.
#![no_main]

use libfuzzer_sys::fuzz_target;
use shardpack_foreign::plain::{EncodedRange, MAX_DEPTH, Value, arrow, datum, msgpack, pickle};
use shardpack_fuzz::within;

fuzz_target!(|input: &[u8]| {
    // An opcode of one byte makes a list of 32 bytes and a stack slot of 16, in buffers that double, and a value of 40.
    // A list of one item has capacity for four.
    within(1 << 20, 256, input, || {
        for read in [pickle, msgpack, arrow] {
            if let Ok(value) = read(input) {
                look(&value, input, 0);
            }
        }
        if let Ok(datum) = datum(input) {
            assert!(datum.data.end <= input.len());
        }
    });
});

fn look(value: &Value, input: &[u8], depth: usize) {
    assert!(depth < MAX_DEPTH);
    match value {
        Value::Text(part) => {
            whole(part, input);
            assert!(value.as_text(input).is_some());
        }
        Value::Bytes(part) => whole(part, input),
        Value::Array(array) => whole(&array.data, input),
        Value::List(items) => items.iter().for_each(|item| look(item, input, depth + 1)),
        Value::Map(entries) => entries.iter().for_each(|(key, value)| {
            look(key, input, depth + 1);
            look(value, input, depth + 1);
        }),
        Value::None | Value::Bool(_) | Value::Int(_) | Value::Huge | Value::Float(_) | Value::Foreign(_) => {}
    }
}

/// Checks the bounds of a part in constant time: many values may share a long part.
fn whole(part: &EncodedRange, input: &[u8]) {
    match part {
        EncodedRange::Plain(range) => assert!(range.start <= range.end && range.end <= input.len()),
        EncodedRange::Latin1 { range, bytes } => assert!(range.len() >= *bytes && range.end <= input.len()),
        EncodedRange::Owned(_) => {}
    }
}

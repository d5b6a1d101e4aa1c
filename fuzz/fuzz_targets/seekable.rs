//! Bytes as the seek table of a compressed shard: the whole table, or its entries alone.
#![no_main]

use libfuzzer_sys::fuzz_target;
use shardpack_format::seekable::{FOOTER_BYTES, SeekTable};
use shardpack_fuzz::within;

fuzz_target!(|input: &[u8]| {
    within(64 << 10, 16, input, || {
        let footer = input.len().saturating_sub(FOOTER_BYTES);
        let _ = SeekTable::table_bytes(&input[footer..]);
        for file_bytes in [0, input.len() as u64, u64::MAX] {
            read(input, file_bytes);
        }
        let entries = &input[..input.len() / 8 * 8];
        let packed = |entry: &[u8]| u64::from(u32::from_le_bytes([entry[0], entry[1], entry[2], entry[3]]));
        let framed = frame(entries);
        let file_bytes = entries.chunks_exact(8).map(packed).sum::<u64>() + framed.len() as u64;
        assert!(read(&framed, file_bytes), "a table of any frames that fill the file");
        assert!(!read(&framed, file_bytes + 1));
    });
});

fn read(bytes: &[u8], file_bytes: u64) -> bool {
    let Ok(table) = SeekTable::read(bytes, file_bytes) else { return false };
    assert_eq!(table.to_bytes(), bytes);
    let (packed_end, end) = table.end();
    assert_eq!(packed_end + bytes.len() as u64, file_bytes);
    for offset in table.frames().iter().flat_map(|frame| [frame.offset, frame.offset + u64::from(frame.bytes)]) {
        match table.frame_at(offset) {
            Some(frame) => assert!(frame.offset <= offset && offset - frame.offset < u64::from(frame.bytes)),
            None => assert!(offset >= end || table.frames().iter().any(|frame| frame.bytes == 0)),
        }
    }
    assert!(table.frame_at(end).is_none() && table.frame_at(u64::MAX).is_none());
    true
}

/// `entries` with the header and footer that make them a table.
fn frame(entries: &[u8]) -> Vec<u8> {
    let word = u32::to_le_bytes;
    let content = (entries.len() + FOOTER_BYTES) as u32;
    let frames = (entries.len() / 8) as u32;
    [&word(0x184D_2A5E)[..], &word(content), entries, &word(frames), &[0], &word(0x8F92_EAB1)].concat()
}

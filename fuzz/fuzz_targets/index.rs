//! Bytes as an index: unchanged, and with corrected checksums, because few inputs have correct checksums.
#![no_main]

use libfuzzer_sys::fuzz_target;
use shardpack_format::{
    hash,
    index::{self, BLOCK_BYTES, Index},
};
use shardpack_fuzz::within;

/// Bytes of the header before its checksum; [`HEADER_BYTES`] includes the checksum. See `docs/reference/formats/index.md`.
const SUMMED_BYTES: usize = 88;
const HEADER_BYTES: usize = 96;

fuzz_target!(|input: &[u8]| {
    read(input);
    if let Some(mended) = mend(input) {
        read(&mended);
    }
});

fn read(bytes: &[u8]) {
    // Up to 255 component names, and an error message.
    within(64 << 10, 8, bytes, || {
        let Ok(index) = Index::open(bytes) else { return };
        let mut rows = 0;
        let mut all = Vec::new();
        for (number, row) in index.iter().enumerate() {
            let Ok(row) = row else { continue };
            rows += 1;
            let end = row.offset + u64::from(row.record_bytes);
            assert!(end <= index.summary().content_bytes);
            let (start, length) = row.payload();
            assert!(row.offset <= start && start + u64::from(length) <= end);
            if number < 16 {
                let found = index.find(row.key);
                if let Ok(Some(found)) = found {
                    assert_eq!(index.row(found).expect("a row that was found").key, row.key);
                }
            }
            if bytes.len() < 4096 {
                all.push(row.to_row());
            }
        }
        assert!(rows <= index.len());
        assert!(index.row(index.len()).is_err());
        let _ = index.find(b"00000000");
        // An index that was read can be written, and reads back equal.
        if rows == index.len() && all.len() as u64 == rows {
            let again = index::write(index.summary(), &all).expect("rows with the same components");
            let again = Index::open(again).expect("what was written");
            for (row, wanted) in again.iter().zip(&all) {
                assert_eq!(row.expect("a row that was written").to_row(), *wanted);
            }
        }
    });
}

/// `input` with correct checksums, if its lengths are consistent.
fn mend(input: &[u8]) -> Option<Vec<u8>> {
    let u32_at = |at: usize| input.get(at..at + 4)?.try_into().ok().map(u32::from_le_bytes);
    let u64_at = |at: usize| input.get(at..at + 8)?.try_into().ok().map(u64::from_le_bytes);
    let row_bytes = 72 + 8 * u64::from(u32_at(12)?);
    let body_start = HEADER_BYTES.checked_add(u32_at(52)? as usize)?;
    let body = u64_at(16)?.checked_mul(row_bytes)?.checked_add(u64_at(24)?)?;
    let body_end = body_start.checked_add(usize::try_from(body).ok()?)?;
    // Missing and extra checksums are corrected too.
    let mut mended = input.get(..body_end)?.to_vec();
    let sums: Vec<u8> =
        mended[body_start..].chunks(BLOCK_BYTES).flat_map(|block| hash::block(block).to_le_bytes()).collect();
    let header = hash::block(&[&mended[..SUMMED_BYTES], &mended[HEADER_BYTES..body_start]].concat());
    mended[SUMMED_BYTES..HEADER_BYTES].copy_from_slice(&header.to_le_bytes());
    mended.extend_from_slice(&sums);
    Some(mended)
}

//! Lengths and constants of a tar shard, shared by writer and reader.

/// Length in bytes of a tar block.
pub const BLOCK_BYTES: u64 = 512;
/// A tar file is padded to a multiple of this many bytes, as GNU tar and Python do.
pub const RECORD_BYTES: u64 = 10_240;
/// Longest member name in bytes that is written: it fits the `name` field with its terminator.
pub const MAX_NAME_BYTES: usize = 99;

/// Length in bytes of a member: its header, and its data padded to whole blocks.
pub fn member_bytes(data_bytes: u64) -> u64 {
    BLOCK_BYTES + data_bytes.next_multiple_of(BLOCK_BYTES)
}

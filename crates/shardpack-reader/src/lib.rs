//! Reads datasets that shardpack packed.

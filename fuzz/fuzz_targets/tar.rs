//! Bytes as a tar file: reads members and their data, and groups them into samples.
//!
//! Twins: the same bytes read as a stream of unknown length, and the crate `tar`.
#![no_main]

use std::io::{Cursor, Read};

use libfuzzer_sys::fuzz_target;
use shardpack_format::formats::{
    foreign::{Sequential, Skip},
    webdataset::{
        reader::{Member, MemberKind, Reader},
        samples::{ForeignSample, Grouper},
    },
};
use shardpack_fuzz::within;

/// Maximum bytes of data to read in one piece.
const WHOLE_BYTES: u64 = 1 << 20;

fuzz_target!(|input: &[u8]| {
    // The reader holds two buffers of 256 KiB for any input. A member of 512 bytes takes a name and a few small objects.
    let members = within(1 << 20, 16, input, || {
        let members = walk(input, Reader::new(Cursor::new(input), Some(input.len() as u64)));
        let streamed = walk(input, Reader::new(Sequential(Cursor::new(input)), None));
        match (members, streamed) {
            (Some(members), Some(streamed)) => {
                assert_eq!(members, streamed);
                group(&members, input.len() as u64);
                Some(members)
            }
            (members, streamed) => {
                assert_eq!(members.is_some(), streamed.is_some(), "with and without the length known");
                None
            }
        }
    });
    if let Some(members) = members {
        compare(&members, input);
    }
});

/// Returns all members if none is refused, and checks that their data equals the bytes at their offset.
fn walk<R: Skip>(input: &[u8], mut reader: Reader<R>) -> Option<Vec<Member>> {
    let (mut members, mut data, mut pieces) = (Vec::new(), Vec::new(), Vec::new());
    while let Some(member) = reader.next().ok()? {
        let start = usize::try_from(member.data_offset).expect("an offset in the input");
        match members.len() % 3 {
            0 => reader.read_data(&mut data, WHOLE_BYTES).ok()?,
            1 => {
                pieces.clear();
                reader.copy_data(&mut |piece| pieces.extend_from_slice(piece)).ok()?;
                data.clone_from(&pieces);
            }
            // The next call skips the data.
            _ => data.clear(),
        }
        if members.len() % 3 < 2 {
            assert_eq!(data.len() as u64, member.bytes);
            assert_eq!(data, input[start..start + data.len()]);
        }
        members.push(member);
    }
    assert!(reader.next().is_ok_and(|member| member.is_none()), "after the end is the end");
    Some(members)
}

fn group(members: &[Member], input_bytes: u64) {
    let mut grouper = Grouper::default();
    let mut samples: Vec<ForeignSample> = Vec::new();
    let mut dropped = 0;
    for member in members {
        match grouper.add(member.clone()) {
            Ok(sample) => samples.extend(sample),
            Err(_) => dropped += 1,
        }
    }
    samples.extend(grouper.finish());
    let components = samples.iter().map(|sample| sample.components.len()).sum::<usize>();
    assert!(components + dropped <= members.len());
    let mut end = 0;
    for sample in &samples {
        assert!(sample.offset >= end && !sample.components.is_empty());
        for component in &sample.components {
            assert!(component.offset >= end + 512);
            end = component.offset + component.bytes;
            assert!(end <= input_bytes);
        }
    }
}

/// Checks that the crate `tar` reads the same files, if it reads the input without an error.
fn compare(members: &[Member], input: &[u8]) {
    // The crate supports neither V7 folders nor tarfile's rule for a name that ends in a slash: only plain files count.
    if !members.iter().all(|member| member.plain && member.kind == MemberKind::File) {
        return;
    }
    let mut archive = tar::Archive::new(input);
    let Ok(entries) = archive.entries() else { return };
    let mut theirs = Vec::new();
    for entry in entries {
        let Ok(mut entry) = entry else { return };
        let mut data = Vec::new();
        if entry.read_to_end(&mut data).is_err() {
            return;
        }
        theirs.push((entry.path_bytes().into_owned(), data));
    }
    assert_eq!(members.len(), theirs.len(), "members, here and by the crate tar");
    for (member, (name, data)) in members.iter().zip(&theirs) {
        assert_eq!(member.name, *name);
        assert_eq!(member.bytes, data.len() as u64, "{member:?}");
    }
}

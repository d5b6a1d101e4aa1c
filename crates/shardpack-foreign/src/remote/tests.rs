//! Files at URLs are what a copy of them is, and what cannot be fetched ends whatever reads them.

use std::{
    io::Read,
    sync::atomic::{AtomicUsize, Ordering},
};

use shardpack_storage::{Call, Faulty, Memory};

use super::*;
use crate::{FileLocation, Kind, ShardFile};

/// A file in memory whose read number `fails` fails, and the number of reads.
fn remote(name: &str, bytes: &[u8], fails: Option<usize>) -> (Remote, Arc<AtomicUsize>) {
    let (reads, memory) = (Arc::new(AtomicUsize::new(0)), Memory::new("s3://bucket"));
    memory.put(name, bytes.to_vec()).unwrap();
    let listed = memory.look(name).unwrap().unwrap();
    let counted = Arc::clone(&reads);
    let storage = Faulty::new(Arc::new(memory), move |call, _| match call == Call::ReadAt {
        true if fails == Some(counted.fetch_add(1, Ordering::Relaxed)) => {
            Err(Error::usage("the server refuses").help("ask it nicely"))
        }
        _ => Ok(()),
    });
    (Remote::new(Arc::new(storage), listed, &Arc::default()), reads)
}

fn bytes_of(count: usize) -> Vec<u8> {
    (0..count as u32).map(|number| (number.wrapping_mul(2_654_435_761) >> 13) as u8).collect()
}

#[test]
fn what_is_read_in_order_is_what_is_there_and_each_block_comes_once() {
    for count in [0, 1, BLOCK_BYTES as usize - 1, BLOCK_BYTES as usize, 12 * BLOCK_BYTES as usize + 7] {
        let bytes = bytes_of(count);
        let (remote, reads) = remote("x", &bytes, None);
        let mut all = Vec::new();
        Stream::new(&remote).read_to_end(&mut all).unwrap();
        assert!(all == bytes, "{count}");
        assert_eq!(reads.load(Ordering::Relaxed), count.div_ceil(BLOCK_BYTES as usize));
    }
}

#[test]
fn what_is_passed_over_is_not_read() {
    let bytes = bytes_of(40 * BLOCK_BYTES as usize);
    let (remote, reads) = remote("x", &bytes, None);
    let mut stream = Stream::new(&remote);
    let (mut at, mut seen) = (0, [0; 100]);
    while at + 100 < bytes.len() {
        stream.read_exact(&mut seen).unwrap();
        assert_eq!(seen, bytes[at..at + 100]);
        stream.skip(4 * BLOCK_BYTES).unwrap();
        at += 100 + 4 * BLOCK_BYTES as usize;
    }
    assert_eq!(reads.load(Ordering::Relaxed), 10);
}

#[test]
fn reads_from_wherever_are_what_a_slice_is() {
    let bytes = bytes_of(5 * BLOCK_BYTES as usize + 3);
    let (remote, _) = remote("x", &bytes, None);
    let blocks = Blocks::new(&remote);
    let mut place = 1u64;
    for _ in 0..500 {
        place = place.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        let (at, count) = ((place >> 20) % (bytes.len() as u64 + 2), (place >> 3) as usize % 200_000);
        let mut out = vec![0; count];
        let read = blocks.read_exact_at(&mut out, at);
        match bytes.get(at as usize..at as usize + count) {
            Some(expected) => assert!(read.is_ok() && out == expected, "{count} at {at}"),
            None => assert_eq!(read.unwrap_err().kind(), io::ErrorKind::UnexpectedEof),
        }
    }
}

/// A tar with images of these lengths.
fn tar(lengths: &[usize]) -> Vec<u8> {
    let mut tar = Vec::new();
    for (number, length) in lengths.iter().enumerate() {
        let mut header = [0; 512];
        let name = format!("{number:04}.jpg");
        header[..name.len()].copy_from_slice(name.as_bytes());
        header[100..108].copy_from_slice(b"0000644\0");
        header[124..136].copy_from_slice(format!("{length:011o}\0").as_bytes());
        header[148..156].fill(b' ');
        header[156] = b'0';
        header[257..265].copy_from_slice(b"ustar\x0000");
        let sum: u32 = header.iter().map(|byte| u32::from(*byte)).sum();
        header[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
        tar.extend(header);
        tar.extend([0xff, 0xd8, 0xff, 0xe0]);
        tar.extend(bytes_of(length - 4));
        tar.resize(tar.len().next_multiple_of(512), 0);
    }
    tar.resize(tar.len() + 1024, 0);
    tar
}

#[test]
fn a_walk_ends_with_the_reason_where_a_read_fails_whatever_it_would_make_of_that() {
    let bytes = tar(&[300_000; 20]);
    let walked = |fails| {
        let (remote, reads) = remote("x.tar", &bytes, fails);
        let file = ShardFile::recognise(&FileLocation::Remote(remote))?;
        let file = file.ok_or_else(|| Error::data("no shard"))?;
        assert_eq!((file.kind, file.mtime_ns), (Kind::parse("webdataset").unwrap(), 0));
        let mut walk = file.walk(&Default::default(), &|| Ok(()))?;
        let mut records = 0;
        while let Some(record) = walk.next()? {
            assert!(record.image.is_ok(), "{record:?}");
            records += 1;
        }
        Ok::<_, Error>((records, reads.load(Ordering::Relaxed)))
    };
    let (records, reads) = walked(None).unwrap();
    assert_eq!(records, 20);
    for fails in 0..reads {
        let error = walked(Some(fails)).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::System);
        assert_eq!(error.to_string(), "s3://bucket/x.tar: the server refuses");
        assert_eq!(error.help_text(), Some("ask it nicely"));
    }
}

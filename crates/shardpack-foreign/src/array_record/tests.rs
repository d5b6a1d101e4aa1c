//! Files made by hand; `tests/sources/array_record.rs` has files of the real writer.

use super::*;

fn varint_of(mut number: u64) -> Vec<u8> {
    let mut out = Vec::new();
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
    out
}

/// Appends a chunk, with block headers between its bytes.
fn chunk(kind: u8, data: &[u8], records: usize, decoded: usize, out: &mut Vec<u8>) {
    let begin = out.len() as u64;
    let mut header = (data.len() as u64).to_le_bytes().to_vec();
    header.extend(hash(data).to_le_bytes());
    header.extend((u64::from(kind) | (records as u64) << 8).to_le_bytes());
    header.extend((decoded as u64).to_le_bytes());
    let whole = [hash(&header).to_le_bytes().to_vec(), header, data.to_vec()].concat();
    for byte in whole {
        if (out.len() as u64).is_multiple_of(BLOCK_BYTES) {
            out.extend([0; BLOCK_HEADER_BYTES as usize]);
        }
        out.push(byte);
    }
    let end = chunk_end(begin, data.len() as u64, records as u64);
    assert!(end >= out.len() as u64 && end - (out.len() as u64) < BLOCK_BYTES, "{begin} {end} {}", out.len());
    out.resize(end as usize, 0);
}

fn records_chunk(compression: u8, records: &[Vec<u8>], out: &mut Vec<u8>) {
    let sizes: Vec<u8> = records.iter().flat_map(|record| varint_of(record.len() as u64)).collect();
    let values = records.concat();
    let pack = |bytes: &[u8]| match compression {
        b'z' => [varint_of(bytes.len() as u64), zstd::encode_all(bytes, 3).unwrap()].concat(),
        b's' => [varint_of(bytes.len() as u64), snap::raw::Encoder::new().compress_vec(bytes).unwrap()].concat(),
        _ => bytes.to_vec(),
    };
    let (packed_sizes, packed) = (pack(&sizes), pack(&values));
    let data = [vec![compression], varint_of(packed_sizes.len() as u64), packed_sizes, packed].concat();
    chunk(b'r', &data, records.len(), values.len(), out);
}

/// A file whose footer has `count` records.
fn file(compression: u8, chunks: &[Vec<Vec<u8>>], count: u64) -> Vec<u8> {
    let mut out = Vec::new();
    chunk(b's', b"", 0, 0, &mut out);
    chunks.iter().for_each(|records| records_chunk(compression, records, &mut out));
    let footer_at = out.len() as u64;
    let metadata = [vec![0x18], varint_of(count)].concat();
    let metadata = [vec![0x0a], varint_of(metadata.len() as u64), metadata].concat();
    records_chunk(compression, &[metadata, b"\x08\x40".to_vec()], &mut out);
    let postscript = [vec![0x08], varint_of(footer_at), vec![0x10], varint_of(MAGIC)].concat();
    records_chunk(0, &[postscript.clone(), postscript.clone(), postscript], &mut out);
    // The first block header: the chunk before it has no bytes, the chunk in it ends after 64.
    let block = [0u64.to_le_bytes(), 64u64.to_le_bytes()].concat();
    out[..8].copy_from_slice(&hash(&block).to_le_bytes());
    out[8..24].copy_from_slice(&block);
    out
}

fn chunks() -> Vec<Vec<Vec<u8>>> {
    let record = |number: usize| vec![number as u8; number * 37 % 500 + if number == 7 { 140_000 } else { 0 }];
    (0..4).map(|chunk| (chunk * 5..chunk * 5 + 5).map(record).collect()).collect()
}

/// The records, and what is lost.
fn read_rest(bytes: &[u8]) -> io::Result<(Vec<u8>, Vec<String>)> {
    let (lost, mut out) = (Lost::default(), Vec::new());
    Records::with_lost(bytes, lost.clone()).read_to_end(&mut out)?;
    Ok((out, lost.take().iter().map(|(error, _)| error.to_string()).collect()))
}

/// The records of a file without damage.
fn read(bytes: &[u8]) -> io::Result<Vec<u8>> {
    match read_rest(bytes)? {
        (out, lost) if lost.is_empty() => Ok(out),
        (_, lost) => Err(io::Error::other(lost.join("; "))),
    }
}

fn expected() -> Vec<u8> {
    let mut out = Vec::new();
    chunks().concat().iter().for_each(|record| tfrecord::frame(record, &mut out));
    out
}

#[test]
fn records_come_back_from_each_compression() {
    for compression in [0, b'z', b's'] {
        let bytes = file(compression, &chunks(), 20);
        assert!(is(&bytes) && read(&bytes).unwrap() == expected(), "{compression}");
    }
    assert_eq!(read(&file(b'z', &[], 0)).unwrap(), b"");
}

#[test]
fn every_flipped_bit_and_every_cut_is_found() {
    let short = |chunk: Vec<Vec<u8>>| chunk.into_iter().map(|record| record[..record.len().min(9)].to_vec()).collect();
    let chunks: Vec<Vec<Vec<u8>>> = chunks().into_iter().map(short).collect();
    let bytes = file(b'z', &chunks, 20);
    let whole = read(&bytes).unwrap();
    for end in 0..bytes.len() {
        // The last chunk may lack its padding.
        let found = read(&bytes[..end]);
        assert!(found.is_err() || found.unwrap() == whole, "{end}");
    }
    assert!(read(&bytes[..bytes.len() - 30]).is_err());
    let mut same = 0;
    for bit in 0..bytes.len() * 8 {
        let mut flipped = bytes.clone();
        flipped[bit / 8] ^= 1 << (bit % 8);
        match read(&flipped) {
            Err(_) => {}
            // Block headers and padding are not read.
            Ok(found) => {
                assert!(found == whole, "{bit}");
                same += 1;
            }
        }
    }
    assert!(same <= BLOCK_HEADER_BYTES as usize * 8, "{same}");
}

#[test]
fn a_file_that_is_no_whole_array_record_says_why() {
    let error = |bytes: &[u8]| read(bytes).unwrap_err().to_string();
    assert!(error(&file(b'z', &chunks(), 21)).contains("20 records, and its footer has 21"));
    let mut riegeli = Vec::new();
    chunk(b's', b"", 0, 0, &mut riegeli);
    chunks().iter().for_each(|records| records_chunk(b'z', records, &mut riegeli));
    assert!(error(&riegeli).contains("a Riegeli file that is no ArrayRecord"));
    let mut transposed = Vec::new();
    chunk(b's', b"", 0, 0, &mut transposed);
    chunk(b't', b"x", 1, 1, &mut transposed);
    assert!(error(&transposed).contains("a transposed chunk"));
    let mut long = Vec::new();
    chunk(b's', b"", 0, 0, &mut long);
    chunk(b'r', &[b'z', 2, 0xff, 0x01, 0], 1, 1, &mut long);
    let lost = Lost::default();
    Records::with_lost(&*long, lost.clone()).read_to_end(&mut Vec::new()).unwrap_err();
    let lost: Vec<_> = lost.take().iter().map(|(error, _)| error.to_string()).collect();
    assert!(lost[0].contains("a compressed buffer of 255 bytes, at most 10 are expected"), "{lost:?}");
}

#[test]
fn records_behind_a_damaged_chunk_are_read_and_the_lost_ones_are_counted() {
    // Chunks of more and of less than a block.
    let record = |number: usize| vec![number as u8; 100 + if number.is_multiple_of(3) { 90_000 } else { 0 }];
    let chunks: Vec<Vec<Vec<u8>>> = (0..12).map(|chunk| (0..chunk % 4 + 1).map(|_| record(chunk)).collect()).collect();
    let all: usize = chunks.iter().map(Vec::len).sum();
    let bytes = blocks(file(0, &chunks, all as u64));
    let framed = |lost: &[usize]| {
        let mut out = Vec::new();
        let kept = chunks.iter().enumerate().filter(|(number, _)| !lost.contains(number));
        kept.flat_map(|(_, chunk)| chunk).for_each(|record| tfrecord::frame(record, &mut out));
        out
    };
    assert_eq!(read_rest(&bytes).unwrap(), (framed(&[]), Vec::new()));
    let (begins, mut ends) = (begins(&bytes), 0);
    for (number, chunk) in chunks.iter().enumerate() {
        // The signature is the first chunk.
        let begin = begins[number + 1];
        let flipped = |at: u64| {
            let mut wrong = bytes.clone();
            wrong[at as usize] ^= 2;
            read_rest(&wrong).unwrap()
        };
        let in_data = (begin + 24 + 40 + 10..).find(|at| at % BLOCK_BYTES >= 24).unwrap();
        let (found, lost) = flipped(in_data);
        let said = format!(": {} lost", size::counted(chunk.len() as u64, "record"));
        assert!(lost.len() == 1 && lost[0].ends_with(&said), "{number}: {lost:?}");
        assert!(found == framed(&[number]), "{number}");
        let in_header = (begin + 9..).find(|at| at % BLOCK_BYTES >= 24).unwrap();
        // The next block header may be in a later chunk, which is lost too.
        let crosses = begin % BLOCK_BYTES == 0 || begin % BLOCK_BYTES + CHUNK_HEADER_BYTES > BLOCK_BYTES;
        let read = begin + CHUNK_HEADER_BYTES + if crosses { BLOCK_HEADER_BYTES } else { 0 };
        let block = read.next_multiple_of(BLOCK_BYTES);
        let next = (number + 1..=chunks.len()).find(|next| begins[next + 1] >= block && block < bytes.len() as u64);
        let Some(next) = next else {
            // No block header leads to the footer.
            let mut wrong = bytes.clone();
            wrong[in_header as usize] ^= 2;
            assert!(read_rest(&wrong).unwrap_err().to_string().contains("no footer"), "{number}");
            ends += 1;
            continue;
        };
        let (found, lost) = flipped(in_header);
        let gone: Vec<usize> = (number..next).collect();
        let records: usize = gone.iter().map(|number| chunks[*number].len()).sum();
        let said = format!(": {} lost", size::counted(records as u64, "record"));
        assert!(found == framed(&gone) && lost.len() == 1 && lost[0].ends_with(&said), "{number}: {gone:?} {lost:?}");
    }
    assert!(ends < chunks.len() / 2, "{ends}");
}

/// Where the chunks of a file begin.
fn begins(bytes: &[u8]) -> Vec<u64> {
    let (mut all, mut at) = (Vec::new(), 0u64);
    while (at as usize) < bytes.len() {
        all.push(at);
        let mut chunk = Records::new(&bytes[at as usize..]);
        chunk.at = at;
        let header = Records::bytes(&mut chunk, CHUNK_HEADER_BYTES, "").unwrap().unwrap();
        let word = |at: usize| u64::from_le_bytes(header[at..at + 8].try_into().unwrap());
        at = chunk_end(at, word(8), word(24) >> 8);
    }
    all
}

/// The file with its block headers, as Riegeli writes them.
fn blocks(mut bytes: Vec<u8>) -> Vec<u8> {
    let begins = begins(&bytes);
    for block in (0..bytes.len() as u64).step_by(BLOCK_BYTES as usize) {
        let before = begins.iter().rfind(|begin| **begin <= block).unwrap();
        let next = begins.iter().find(|begin| **begin > block).copied().unwrap_or(bytes.len() as u64);
        let numbers = [(block - before).to_le_bytes(), (next - block).to_le_bytes()].concat();
        let header = [hash(&numbers).to_le_bytes().to_vec(), numbers].concat();
        let end = bytes.len().min(block as usize + 24);
        bytes[block as usize..end].copy_from_slice(&header[..end - block as usize]);
    }
    bytes
}

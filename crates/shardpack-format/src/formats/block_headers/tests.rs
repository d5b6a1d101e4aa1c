use std::{collections::BTreeMap, path::Path};

use super::*;
use crate::{
    Error, Result,
    formats::{self, Format, Layout, tests as shared},
    hash,
    image_header::Header,
    index::RowRef,
    sample::{Row, Sample},
};

const HEADERS: BlockHeaders = BlockHeaders { every_bytes: 64, header_bytes: 16 };

/// A format with block headers and a footer: a record is the length of the image, its CRC, and the image; a block header is the offsets of
/// the record that it interrupts; the footer is the number of records and the CRC of their lengths.
struct Blocks(Vec<String>);

fn prefix(image: &[u8]) -> Vec<u8> {
    [(image.len() as u32).to_le_bytes(), crc32c::crc32c(image).to_le_bytes()].concat()
}

impl Format for Blocks {
    fn name(&self) -> &'static str {
        "blocks"
    }

    fn components(&self) -> &[String] {
        &self.0
    }

    fn settings(&self) -> BTreeMap<String, String> {
        BTreeMap::new()
    }

    fn needs_path(&self) -> bool {
        false
    }

    fn layout(&self, sample: &Sample<'_>) -> Result<Layout> {
        let mut components = [Extent::ABSENT; formats::MAX_WRITTEN];
        components[0] = Extent { offset: 8, bytes: sample.payload_bytes };
        Ok(Layout { record_bytes: 8 + sample.payload_bytes, components })
    }

    fn block_headers(&self) -> Option<BlockHeaders> {
        Some(HEADERS)
    }

    fn block_header(&self, record: Range<u64>, offset: u64, header: &mut [u8]) {
        header[..8].copy_from_slice(&(offset - record.start).to_le_bytes());
        header[8..].copy_from_slice(&(record.end - offset).to_le_bytes());
    }

    fn tail_bytes(&self, _: u64, _: u64) -> u64 {
        8
    }

    fn tail(&self, record_bytes: &mut dyn Iterator<Item = u32>, tail: &mut [u8]) -> Result<()> {
        let lengths: Vec<_> = record_bytes.map(u32::to_le_bytes).collect();
        tail[..4].copy_from_slice(&(lengths.len() as u32).to_le_bytes());
        tail[4..].copy_from_slice(&crc32c::crc32c(&lengths.concat()).to_le_bytes());
        Ok(())
    }

    fn frame(&self, _: &Sample<'_>, _: &Header, record: &mut [u8]) -> Result<()> {
        let (head, image) = record.split_at_mut(8);
        head.copy_from_slice(&prefix(image));
        Ok(())
    }

    fn check(&self, row: &RowRef<'_>, record: &[u8]) -> Result<()> {
        let plain = HEADERS.plain(row.offset, record);
        let range = row.offset..row.offset + record.len() as u64;
        let mut expected = [&plain, &vec![0; record.len() - plain.len()][..]].concat();
        HEADERS.spread(row.offset, &mut expected, |at, header| self.block_header(range.clone(), at, header));
        match plain.split_at_checked(8).is_some_and(|(head, image)| head == prefix(image)) && expected == record {
            true => Ok(()),
            false => Err(Error::data("a length, a CRC or a block header differs")),
        }
    }

    fn shard_file(&self, name: &str, number: u64, _: u64) -> String {
        format!("{name}-{number}")
    }

    fn extension(&self) -> &'static str {
        ""
    }

    fn recipes(&self, _: &Path, _: &str, _: u64, _: bool) -> Vec<(&'static str, String)> {
        Vec::new()
    }
}

/// The bytes of a record at `offset`, byte by byte.
fn obvious(offset: u64, plain: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    for byte in plain {
        if (offset + out.len() as u64).is_multiple_of(64) {
            out.extend_from_slice(b"0123456789abcdef");
        }
        out.push(*byte);
    }
    out
}

#[test]
fn records_of_all_lengths_at_all_offsets_are_interrupted_at_the_multiples() {
    // A record never begins inside a header.
    for offset in (128..=192).filter(|offset| offset % 64 == 0 || offset % 64 >= 16) {
        for length in 0..200u32 {
            let plain: Vec<u8> = (0..length).map(|n| n as u8).collect();
            let expected = obvious(offset, &plain);
            let added = HEADERS.added_bytes(offset, length) as usize;
            assert_eq!(plain.len() + added, expected.len(), "{offset} {length}");
            assert!(expected.len() as u64 <= HEADERS.most_bytes(length));
            assert_eq!(placed(Some(HEADERS), offset, [length].into_iter()).next(), Some(expected.len() as u32));
            let mut record = [&plain[..], &vec![0xaa; added]].concat();
            assert_eq!(HEADERS.plain_bytes(offset, record.len()), plain.len());
            HEADERS.spread(offset, &mut record, |_, header| header.copy_from_slice(b"0123456789abcdef"));
            assert_eq!(record, expected, "{offset} {length}");
            assert_eq!(HEADERS.plain(offset, &record), plain);
            for end in 0..record.len() {
                assert!(plain.starts_with(&HEADERS.plain(offset, &record[..end])), "{offset} {length} cut at {end}");
            }
        }
    }
}

#[test]
fn a_format_with_block_headers_and_a_footer_is_laid_out_written_and_read() {
    let format = Blocks(vec!["image".to_owned()]);
    let images: Vec<Vec<u8>> =
        [0, 1, 40, 47, 48, 49, 63, 500].map(|bytes| (0..bytes).map(|n| n as u8).collect()).into();
    let samples = images.iter().map(|image| Sample {
        key: "0",
        label: None,
        class: b"",
        path: b"",
        payload_bytes: image.len() as u32,
        components: &[],
        forms: Default::default(),
    });
    let samples: Vec<_> = samples.collect();
    let layouts: Vec<_> = samples.iter().map(|sample| format.layout(sample).unwrap()).collect();
    let plain = layouts.iter().map(|layout| layout.record_bytes);
    let lengths: Vec<u32> = placed(format.block_headers(), format.head_bytes(8), plain).collect();
    let (mut shard, mut rows) = (Vec::new(), Vec::new());
    for (((sample, image), layout), bytes) in samples.iter().zip(&images).zip(&layouts).zip(&lengths) {
        let offset = shard.len();
        shard.resize(offset + *bytes as usize, 0xaa);
        let record = &mut shard[offset..];
        record[layout.components[0].offset as usize..][..image.len()].copy_from_slice(image);
        format.render(offset as u64, sample, &Header::NONE, record).unwrap();
        let in_parts = *bytes > layout.record_bytes;
        let row = shared::row(&format, sample, layout, record, image);
        rows.push(Row { offset: offset as u64, in_parts, ..row });
    }
    let in_parts: Vec<_> = rows.iter().map(|row| row.in_parts).collect();
    assert_eq!(in_parts, [true, false, true, true, true, true, true, true]);
    let mut tail = vec![0; format.tail_bytes(8, shard.len() as u64) as usize];
    format.tail(&mut lengths.iter().copied(), &mut tail).unwrap();
    assert_eq!(tail[..4], 8u32.to_le_bytes());
    let index = shared::index(&format, &rows);
    for (row, image) in index.iter().map(|row| row.unwrap()).zip(&images) {
        let record = &shard[row.offset as usize..][..row.record_bytes as usize];
        assert_eq!(formats::whole(&format, &row, record).unwrap(), &image[..]);
        assert_eq!(hash::content(image), row.content_hash);
        format.check(&row, record).unwrap();
        for bit in 0..record.len() * 8 {
            let mut damaged = record.to_vec();
            damaged[bit / 8] ^= 1 << (bit % 8);
            assert!(format.check(&row, &damaged).is_err(), "bit {bit} of the record at {}", row.offset);
        }
    }
}

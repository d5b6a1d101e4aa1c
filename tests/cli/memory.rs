//! Tests memory limits with small files that decompress to gigabytes and with large images. Each image is decoded within `--memory`
//! or refused by name. If the system has no memory, no process dies.
//!
//! The programs may use 700 MB of address space. Without these files they use half as much.

use std::{io::Write, path::Path};

use flate2::{Compress, Compression, Crc, FlushCompress};
use shardpack_source::ledger::Fate;
use shardpack_testing::{Bench, Ran, png, run, run_after};

const LIMIT: &str = "export MALLOC_ARENA_MAX=1 && ulimit -v 700000";
const MIB: usize = 1 << 20;

/// Runs within the limit, and fails if the program aborts.
fn limited(bench: &Bench, line: &str) -> Ran {
    let ran = run_after(LIMIT, &bench.words(line));
    assert!((0..=2).contains(&ran.code), "{line}: {}: {}{}", ran.code, ran.stdout, ran.stderr);
    ran
}

/// `mib` MiB of zeros as a deflate stream without an end: one self-contained piece, repeated.
fn deflated(mib: usize) -> Vec<u8> {
    let mut piece = Vec::with_capacity(1 << 16);
    Compress::new(Compression::best(), false).compress_vec(&vec![0; MIB], &mut piece, FlushCompress::Full).unwrap();
    piece.repeat(mib)
}

/// `mib` MiB of zeros as zstd frames after `before`. Each block repeats one byte 128 Ki times.
///
/// Source: RFC 8878, 3.1.1.2.
fn zstd_zeros(before: &[u8], mib: usize) -> Vec<u8> {
    let mut out = zstd::bulk::compress(before, 1).unwrap();
    // A window of 1 MiB, no length, no checksum.
    out.extend(b"\x28\xb5\x2f\xfd\0\x50");
    let block = |is_last: u32| (((128 << 10) << 3) | 2 | is_last).to_le_bytes();
    for number in 1..=mib * 8 {
        out.extend(&block(u32::from(number == mib * 8))[..3]);
        out.push(0);
    }
    out
}

fn chunk(out: &mut Vec<u8>, name: &[u8], held: &[&[u8]]) {
    let covered = [name, &held.concat()].concat();
    let mut checksum = Crc::new();
    checksum.update(&covered);
    out.extend((covered.len() as u32 - 4).to_be_bytes());
    out.extend(&covered);
    out.extend(checksum.sum().to_be_bytes());
}

/// A small PNG with a chunk directly after its header.
fn png_with(name: &[u8], before: &[u8]) -> Vec<u8> {
    let png = png();
    let (head, rest) = png.split_at(33);
    let mut out = head.to_vec();
    chunk(&mut out, name, &[before, b"\x78\xda", &deflated(1000)]);
    [&out, rest].concat()
}

/// A PNG whose header has this size, in pixels.
fn png_of(width: u32, height: u32) -> Vec<u8> {
    let mut out = b"\x89PNG\r\n\x1a\n".to_vec();
    chunk(&mut out, b"IHDR", &[&width.to_be_bytes(), &height.to_be_bytes(), &[8, 2, 0, 0, 0]]);
    chunk(&mut out, b"IDAT", &[b"\x78\xda", &deflated(1)]);
    chunk(&mut out, b"IEND", &[]);
    out
}

/// A progressive JPEG whose header has this size, in pixels.
fn jpeg_of(width: u16, height: u16) -> Vec<u8> {
    let side = |side: u16| side.to_be_bytes();
    let frame = [&[8][..], &side(height), &side(width), &[3, 1, 0x11, 0, 2, 0x11, 0, 3, 0x11, 0]].concat();
    let scan = [3, 1, 0, 2, 0, 3, 0, 0, 0, 0];
    let segment = |marker: u8, held: &[u8]| [&[0xFF, marker], &side(held.len() as u16 + 2)[..], held].concat();
    [&b"\xFF\xD8"[..], &segment(0xC2, &frame), &segment(0xDA, &scan), &[0; 64], b"\xFF\xD9"].concat()
}

#[test]
fn what_is_packed_beside_pixels_is_not_unpacked_without_end() {
    let bench = Bench::new();
    bench.file("a/profile.png", &png_with(b"iCCP", b"icc\0\0"));
    bench.file("a/text.png", &png_with(b"zTXt", b"Raw profile type exif\0\0"));
    bench.file("a/unicode.png", &png_with(b"iTXt", b"XML:com.adobe.xmp\0\x01\0\0\0"));
    for (name, options) in
        [("full", "--check full"), ("resized", "--resize 4"), ("rotated", "--rotate"), ("alike", "--near-duplicates")]
    {
        limited(&bench, &format!("pack SRC @{name} --jobs 2 {options}")).code(0);
    }
    limited(&bench, "verify @full --decode --jobs 2").code(0);
}

#[test]
fn an_image_that_takes_more_than_the_memory_ends_the_run_and_is_named() {
    let bench = Bench::with(&["a/fine.jpg"]);
    bench.file("a/large.png", &png_of(6_000, 6_000));
    bench.file("a/large.jpg", &jpeg_of(6_000, 6_000));
    bench.file("a/large.ppm", &[b"P6 6000 6000 255\n".as_slice(), &[0; 100]].concat());
    // The packed samples must not depend on memory, so such an image is never skipped.
    for options in ["--check full", "--check entropy", "--resize 8", "--near-duplicates"] {
        for on_bad in ["", "--on-bad skip"] {
            let line = format!("pack SRC DST --force --memory 64MiB --jobs 2 {options} {on_bad}");
            let ran = limited(&bench, &line).code(2).clean_error();
            ran.says("a/large.").says(": it takes").says("--memory allows 64.0 MiB").says("decodes it");
            assert!(!bench.dst().join("manifest.json").exists(), "{line}");
        }
    }
    // The help is right: with this much memory, these images are bad.
    limited(&bench, "pack SRC DST --force --memory 400MiB --jobs 1 --check full --on-bad skip").code(0);
    let skipped = shardpack_testing::Dataset::read(&bench.dst()).unpacked();
    assert!(skipped.len() == 3 && skipped.iter().all(|(_, fate, _)| *fate == Fate::Skipped), "{skipped:?}");
    limited(&bench, "pack SRC @kept").code(0);
    limited(&bench, "verify @kept --decode --memory 64MiB").code(1).says("--memory allows 64.0 MiB");
}

#[test]
fn where_the_system_has_no_memory_the_image_is_named() {
    let bench = Bench::with(&["a/fine.jpg"]);
    bench.file("a/large.png", &png_of(13_000, 13_000));
    for options in ["--check full", "--resize 8"] {
        let line = format!("pack SRC DST --force --memory 4GiB --jobs 2 --on-bad skip {options}");
        limited(&bench, &line).code(2).says("a/large.png").says("which the system does not give");
    }
}

/// The header of a tar member of `bytes` bytes.
fn tar_head(name: &str, bytes: u64) -> Vec<u8> {
    let mut head = tar::Header::new_ustar();
    head.set_path(name).unwrap();
    head.set_size(bytes);
    head.set_mode(0o644);
    head.set_cksum();
    head.as_bytes().to_vec()
}

#[test]
fn shards_of_others_that_unpack_to_more_than_the_memory_are_refused_by_their_names() {
    let bench = Bench::new();
    let tar = tar_head("a.jpg", 1 << 30);
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), Compression::none());
    gzip.write_all(&tar).unwrap();
    let gzip = [&gzip.finish().unwrap()[..], b"\x1f\x8b\x08\0\0\0\0\0\0\x03", &deflated(1024)].concat();
    let samples = 250_000_000_u32.to_le_bytes();
    let crc = |bytes: &[u8]| {
        let crc = crc32c(bytes);
        crc.rotate_right(15).wrapping_add(0xa282_ead8).to_le_bytes()
    };
    let length = (1_u64 << 30).to_le_bytes();
    let record = [&length[..], &crc(&length)].concat();
    let files: [(&str, Vec<u8>); 5] = [
        ("a.tar.zst", zstd_zeros(&tar, 1025)),
        ("a.tar.gz", gzip),
        ("a.json.tar.zst", zstd_zeros(&tar_head("a.json", 1 << 30), 1025)),
        ("a.mds.zstd", zstd_zeros(&samples, 1025)),
        ("a.tfrecord.zst", zstd_zeros(&record, 1025)),
    ];
    for (name, bytes) in files {
        bench.file(name, &bytes);
        let file = bench.src().join(name);
        let (file, dst) = (file.to_str().unwrap(), bench.at("out"));
        let ran = limited(&bench, &format!("convert {file} {} --memory 64MiB", dst.display()));
        assert!(ran.code > 0, "{name}: {ran:?}");
        if name != "a.json.tar.zst" {
            ran.says(name).says("--memory");
        }
        // Without optimisation, a whole deflate stream takes long to decompress.
        if !name.ends_with("gz") {
            limited(&bench, &format!("verify {file} --memory 64MiB"));
            limited(&bench, &format!("inspect {file} --memory 64MiB"));
        }
    }
}

/// CRC-32C, bit by bit.
fn crc32c(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(!0_u32, |crc, byte| {
        (0..8).fold(crc ^ u32::from(*byte), |crc, _| (crc >> 1) ^ (0x82f6_3b78 & (crc & 1).wrapping_neg()))
    })
}

#[test]
fn a_page_of_parquet_is_no_longer_than_the_memory_allows() {
    use parquet::{
        basic::{Compression, ZstdLevel},
        data_type::{ByteArray, ByteArrayType},
        file::{properties::WriterProperties, writer::SerializedFileWriter},
        schema::parser::parse_message_type,
    };
    let bench = Bench::new();
    let schema = parse_message_type("message m { required binary image; }").unwrap();
    let properties = WriterProperties::builder()
        .set_compression(Compression::ZSTD(ZstdLevel::default()))
        .set_dictionary_enabled(false)
        .set_statistics_enabled(parquet::file::properties::EnabledStatistics::None)
        .build();
    let mut out = Vec::new();
    let mut writer = SerializedFileWriter::new(&mut out, schema.into(), properties.into()).unwrap();
    let mut group = writer.next_row_group().unwrap();
    let mut column = group.next_column().unwrap().unwrap();
    let image = [&b"\xFF\xD8\xFF"[..], &vec![0; 12 * MIB]].concat();
    column.typed::<ByteArrayType>().write_batch(&[ByteArray::from(image)], None, None).unwrap();
    column.close().unwrap();
    group.close().unwrap();
    writer.close().unwrap();
    bench.file("a.parquet", &out);
    let file = bench.src().join("a.parquet");
    refused(&file, &bench.dst(), "16MiB").says("12582919 bytes unpacked, at most 8.00 MiB is read");
    run(&["convert", file.to_str().unwrap(), bench.dst().to_str().unwrap(), "--memory", "32MiB"]).code(0);
}

fn refused(file: &Path, dst: &Path, memory: &str) -> Ran {
    run(&["convert", file.to_str().unwrap(), dst.to_str().unwrap(), "--memory", memory]).code(1).clean_error()
}

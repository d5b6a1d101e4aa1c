//! The reader on byte literals, cuts, flips, and against the `tar` crate.

use std::{
    fs::File,
    io::{BufReader, Cursor},
};

use proptest::prelude::*;

use super::super::header::{PREFIX, SUM, number};
use super::*;
use crate::{error::ErrorKind, formats::foreign::Sequential};

const END: [u8; 1024] = [0; 1024];

/// Writes the checksum that the other bytes ask for.
fn seal(block: &mut [u8]) {
    block[SUM].fill(b' ');
    let sum: u32 = block.iter().map(|byte| u32::from(*byte)).sum();
    block[SUM].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
}

fn header(name: &[u8], flag: u8, bytes: usize) -> Block {
    let mut block = [0; BLOCK_BYTES];
    block[..name.len()].copy_from_slice(name);
    block[SIZE].copy_from_slice(format!("{bytes:011o}\0").as_bytes());
    block[TYPE] = flag;
    block[MAGIC].copy_from_slice(b"ustar\x0000");
    seal(&mut block);
    block
}

fn entry(name: &[u8], flag: u8, data: &[u8]) -> Vec<u8> {
    let mut entry = [&header(name, flag, data.len()), data].concat();
    entry.resize(entry.len().next_multiple_of(BLOCK_BYTES), 0);
    entry
}

/// `entry`, with `value` at `at` of its first header.
fn patched(mut entry: Vec<u8>, at: usize, value: &[u8]) -> Vec<u8> {
    entry[at..at + value.len()].copy_from_slice(value);
    seal(&mut entry[..BLOCK_BYTES]);
    entry
}

fn pax(flag: u8, records: &[u8]) -> Vec<u8> {
    entry(b"PaxHeaders/0", flag, records)
}

fn jpg() -> Vec<u8> {
    entry(b"a.jpg", b'0', b"data")
}

/// All that a reader says of a file.
#[derive(Debug, PartialEq)]
struct Walked {
    members: Vec<(Member, Vec<u8>)>,
    error: Option<String>,
    ending: (Ending, u64, Option<u64>),
}

fn walk<R: Skip>(inner: R, total_bytes: Option<u64>, with_data: bool) -> Walked {
    let mut reader = Reader::new(inner, total_bytes);
    let mut members = Vec::new();
    let error = loop {
        let member = match reader.next() {
            Ok(Some(member)) => member,
            Ok(None) => break None,
            Err(error) => break Some(error),
        };
        let mut data = Vec::new();
        let read = if with_data { reader.read_data(&mut data, u64::MAX) } else { Ok(()) };
        if let Err(error) = read {
            break Some(error);
        }
        members.push((member, data));
    };
    let ending = (reader.ending(), reader.end_offset(), reader.trailing_offset());
    Walked { members, error: error.map(|error| error.to_string()), ending }
}

fn walk_slice(bytes: &[u8]) -> Walked {
    walk(bytes, Some(bytes.len() as u64), true)
}

fn error_of(bytes: &[u8]) -> String {
    walk_slice(bytes).error.unwrap_or_default()
}

#[test]
fn a_member_is_where_its_header_says() {
    let walked = walk_slice(&[jpg(), entry(b"b.cls", b'0', b""), END.to_vec()].concat());
    let member = |name: &str, header_offset, bytes| Member {
        name: name.into(),
        kind: MemberKind::File,
        header_offset,
        data_offset: header_offset + 512,
        bytes,
        plain: true,
    };
    let members = vec![(member("a.jpg", 0, 4), b"data".to_vec()), (member("b.cls", 1024, 0), vec![])];
    assert_eq!(walked, Walked { members, error: None, ending: (Ending::Marker, 1536, None) });
}

#[test]
fn name_kind_and_length_come_from_the_right_header() {
    use MemberKind::{File, Folder, HardLink, Other, SymLink};
    let full = [b'n'; 100];
    let prefixed = patched(entry(&full, b'0', b""), PREFIX.start, b"folder");
    let incremental = patched(patched(jpg(), PREFIX.start, b"13371337123"), MAGIC.start, b"ustar  \0");
    let large = patched(jpg(), SIZE.start, &[0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 4]);
    let long = |name: &[u8]| entry(b"././@LongLink", b'L', name);
    let cut_name = [long(b"a/b.jpg"), entry(b"a/", 0, b"data")].concat();
    let with_path = |path: &[u8]| [pax(b'x', path), jpg()].concat();
    let long_and_link = [entry(b"././@LongLink", b'K', b"to\0"), long(b"from\0x"), entry(b"f", b'2', b"")].concat();
    let global = [pax(b'x', b"12 path=b/c\n"), pax(b'g', b"13 comment=1\n"), jpg()].concat();
    type Row<'a> = (&'a str, Vec<u8>, &'a [u8], MemberKind, u64, bool);
    let rows: [Row; 23] = [
        ("plain", jpg(), b"a.jpg", File, 4, true),
        ("prefix", prefixed, &[b"folder/", &full[..]].concat(), File, 0, true),
        ("times of GNU tar in place of the prefix", incremental, b"a.jpg", File, 4, false),
        ("V7", patched(jpg(), MAGIC.start, &[0; 8]), b"a.jpg", File, 4, false),
        ("V7 folder", entry(b"d/", 0, b""), b"d", Folder, 0, true),
        ("contiguous file", entry(b"a", b'7', b"data"), b"a", File, 4, true),
        ("folder", entry(b"d//", b'5', b""), b"d", Folder, 0, true),
        ("base-256 size", large, b"a.jpg", File, 4, false),
        ("size without digits", patched(entry(b"a", b'0', b""), 124, b"        \0\0\0\0"), b"a", File, 0, true),
        ("link with a size", header(b"l.jpg", b'1', 999).to_vec(), b"l.jpg", HardLink, 0, true),
        ("device with a size", header(b"null", b'3', 999).to_vec(), b"null", Other(b'3'), 0, true),
        ("unknown type", entry(b"v", b'V', b"1"), b"v", Other(b'V'), 1, true),
        ("GNU long name", [long(b"a/b.jpg\0x"), jpg()].concat(), b"a/b.jpg", File, 4, false),
        ("GNU long name of a V7 file, cut at a slash", cut_name, b"a/b.jpg", File, 4, false),
        ("GNU long name and link", long_and_link, b"from", SymLink, 0, false),
        ("time before 1970", patched(jpg(), 136, &[0xff; 12]), b"a.jpg", File, 4, true),
        ("PAX path", with_path(b"12 path=b/c\n"), b"b/c", File, 4, false),
        ("PAX path with newlines", with_path(b"18 path=\n9 path=\n\n"), b"\n9 path=\n", File, 4, false),
        ("the last PAX path", with_path(b"10 path=1\n10 path=2\n"), b"2", File, 4, false),
        ("PAX path with slashes", with_path(b"12 path=b//\n"), b"b", File, 4, false),
        ("Solaris PAX", [pax(b'X', b"10 path=1\n"), jpg()].concat(), b"1", File, 4, false),
        ("PAX size", [pax(b'x', b"10 size=4\n"), patched(jpg(), 124, b"777")].concat(), b"a.jpg", File, 4, false),
        ("PAX around a global header", global, b"b/c", File, 4, false),
    ];
    for (what, bytes, name, kind, length, plain) in rows {
        let walked = walk_slice(&[&bytes[..], &jpg(), &END].concat());
        assert_eq!(walked.error, None, "{what}");
        let (member, _) = &walked.members[0];
        let found = (&*member.name, member.kind, member.bytes, member.plain, member.header_offset);
        assert_eq!(found, (name, kind, length, plain, 0), "{what}");
        assert_eq!(&*walked.members[1].0.name, b"a.jpg", "{what}: the next member");
        assert_eq!(walked.ending.0, Ending::Marker, "{what}");
    }
}

#[test]
fn a_global_header_belongs_to_no_member() {
    let walked = walk_slice(&[pax(b'g', b"13 comment=1\n"), jpg(), END.to_vec()].concat());
    let (member, _) = &walked.members[0];
    assert_eq!((member.header_offset, member.plain), (1024, false));
}

#[test]
fn an_error_names_the_byte() {
    let long = |name: &[u8]| entry(b"././@LongLink", b'L', name);
    let x = |records: &[u8]| [pax(b'x', records), jpg()].concat();
    let rows: [(Vec<u8>, &str); 24] = [
        (vec![b'a'; 512], "byte 148: header checksum: expected a number, found `aaaaaaaa`"),
        ([jpg(), vec![b'0'; 512]].concat(), "byte 1024: damaged header: its bytes sum to 24448, its checksum is 0"),
        (jpg()[..300].to_vec(), "byte 0: truncated header: 300 of 512 bytes"),
        (jpg()[..515].to_vec(), "byte 0: member a.jpg: its data ends at byte 516, the file has 515"),
        (jpg()[..516].to_vec(), "byte 0: member a.jpg: its padding ends at byte 1024, the file has 516"),
        (
            patched(jpg(), 0, b"\x1b[2J\n\xff"),
            r"byte 0: member \u{1b}[2J\u{a}\xff: its data ends at byte 516, the file has 515",
        ),
        (
            patched(jpg(), SIZE.start, &[b'7'; 12]),
            "byte 0: member a.jpg: its data ends at byte 68719477247, the file has 1024",
        ),
        (
            patched(jpg(), SIZE.start, b"\x80\0\0\0\xff\xff\xff\xff\xff\xff\xff\xff"),
            "byte 0: member a.jpg: a size of 18446744073709551615 bytes, more than any file has",
        ),
        (patched(jpg(), 124, b"0008"), "byte 124: size: expected a number, found `00080000004\\x00`"),
        (patched(jpg(), 124, b"000 "), "byte 124: size: expected a number, found `000 0000004\\x00`"),
        (patched(jpg(), 124, b"-"), "byte 124: size: expected a number, found `-0000000004\\x00`"),
        (
            patched(jpg(), 124, &[0xff; 12]),
            &format!("byte 124: size: expected a number, found `{}`", r"\xff".repeat(12)),
        ),
        (
            patched(jpg(), 124, &[0x80, 0, 0, 1]),
            "byte 124: size: expected a number, found `\\x80\\x00\\x00\\x010000004\\x00`",
        ),
        (
            [jpg(), patched(jpg(), 136, b"x")].concat(),
            r"byte 1160: time: expected a number, found `x\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00`",
        ),
        (pax(b'g', b"22 GNU.sparse.major=1\n"), "byte 512: a global PAX header makes all members sparse"),
        (x(b"10 size=x\n"), "byte 512: PAX size: expected a number, found x"),
        (x(b"10 path=1\n8 path=1\n"), "byte 522: damaged PAX header: no `length key=value` here"),
        (x(b"11 path=1\n"), "byte 512: damaged PAX header: no `length key=value` here"),
        (x(b"0 path=1\n"), "byte 512: damaged PAX header: no `length key=value` here"),
        (pax(b'g', b"10 path=1\n"), "byte 512: a global PAX header sets path, on which tar readers disagree"),
        ([pax(b'x', b""), x(b"")].concat(), "byte 512: a second PAX header for one member"),
        ([long(b"a"), long(b"a"), jpg()].concat(), "byte 1024: a second GNU long name for one member"),
        ([long(b"a"), x(b"10 path=1\n")].concat(), "byte 0: its GNU long name and its PAX path differ"),
        ([jpg(), long(b"a"), END.to_vec()].concat(), "byte 1024: the file ends before the member this header is for"),
    ];
    for (mut bytes, expected) in rows {
        if expected.contains("has 515") {
            bytes.truncate(515);
        }
        assert_eq!(error_of(&bytes), expected);
    }
}

#[test]
fn what_follows_a_sparse_member_is_read() {
    // As GNU tar writes them: `--sparse-version` 0.1 and 1.0 in PAX headers, and its old format, whose map goes on behind
    // the header.
    let old = |blocks: usize| {
        let mut member = header(b"s.jpg", b'S', 600);
        member[482] = u8::from(blocks > 0);
        seal(&mut member);
        let mut bytes = member.to_vec();
        for block in 1..=blocks {
            let mut map = [0; 512];
            map[504] = u8::from(block < blocks);
            bytes.extend(map);
        }
        bytes.resize(bytes.len() + 1024, 7);
        bytes
    };
    let named = b"22 GNU.sparse.major=1\n25 GNU.sparse.name=s.jpg\n";
    let one_zero = [pax(b'x', named), entry(b"GNUSparseFile.0/s.jpg", b'0', &[7; 600])].concat();
    let cases = [old(0), old(1), old(3), one_zero];
    for bytes in cases {
        let all = [jpg(), bytes.clone(), jpg(), END.to_vec()].concat();
        for total_bytes in [Some(all.len() as u64), None] {
            let mut reader = Reader::new(all.as_slice(), total_bytes);
            let members: Vec<_> = std::iter::from_fn(|| reader.next().unwrap()).collect();
            let kinds: Vec<_> = members.iter().map(|member| member.kind).collect();
            assert_eq!(kinds, [MemberKind::File, MemberKind::Sparse, MemberKind::File]);
            assert_eq!((members[1].name.as_slice(), members[1].bytes), (&b"s.jpg"[..], 600));
            assert_eq!(members[2].header_offset, (jpg().len() + bytes.len()) as u64);
        }
    }
}

#[test]
fn a_header_for_names_has_a_limit() {
    let long = |bytes: usize| [entry(b"././@LongLink", b'L', &vec![b'n'; bytes]), jpg(), END.to_vec()].concat();
    assert_eq!(walk_slice(&long(1 << 20)).members[0].0.name.len(), 1 << 20);
    let expected = "byte 0: member ././@LongLink: 1048577 bytes, the limit is 1048576";
    assert_eq!(error_of(&long((1 << 20) + 1)), expected);
}

#[test]
fn a_sum_of_signed_bytes_is_a_checksum_too() {
    let mut bytes = patched(jpg(), 0, b"\xc3\xa4");
    let sum = number(&bytes[SUM]).expect("a number") - 2 * 256;
    bytes[SUM].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
    assert_eq!(walk_slice(&bytes).members[0].0.name, b"\xc3\xa4jpg");
}

#[test]
fn the_ending_is_described() {
    type Row = (&'static str, Vec<u8>, Ending, u64, Option<u64>);
    let rows: [Row; 9] = [
        ("marker", END.to_vec(), Ending::Marker, 1024, None),
        ("padded", vec![0; 9216], Ending::Marker, 1024, None),
        ("one block", vec![0; 512], Ending::OneBlock, 1024, None),
        ("one block and a half", vec![0; 700], Ending::OneBlock, 1024, None),
        ("half a block", vec![0; 256], Ending::Missing, 1024, None),
        ("nothing", vec![], Ending::Missing, 1024, None),
        ("a second tar", [&END[..], &jpg()].concat(), Ending::Marker, 1024, Some(2048)),
        ("one block amid", [&END[..512], &jpg()].concat(), Ending::OneBlock, 1024, Some(1536)),
        ("a byte far behind", [vec![0; 1 << 20], vec![7]].concat(), Ending::Marker, 1024, Some(1024 + (1 << 20))),
    ];
    for (what, end, ending, end_offset, trailing_offset) in rows {
        let walked = walk_slice(&[jpg(), end].concat());
        assert_eq!((walked.members.len(), walked.error), (1, None), "{what}");
        assert_eq!(walked.ending, (ending, end_offset, trailing_offset), "{what}");
    }
    assert_eq!(walk_slice(b"").ending, (Ending::Missing, 0, None));
}

/// One of each kind, some with data of many lengths.
fn mixed() -> Vec<u8> {
    let mut bytes = jpg();
    bytes.extend(entry(b"././@LongLink", b'L', &[b'n'; 600]));
    bytes.extend(entry(b"n", b'0', &[7; 513]));
    bytes.extend(pax(b'g', b"13 comment=1\n"));
    bytes.extend(pax(b'x', b"12 path=b/c\n"));
    bytes.extend(entry(b"c", b'0', &[8; 1024]));
    bytes.extend(entry(b"d/", b'5', b""));
    bytes.extend(entry(b"e.jpg", b'0', &[9; 1023]));
    bytes.extend([0; 2048]);
    bytes
}

/// One byte at a time, with interruptions, as a bad day at a pipe.
struct Drip<'a>(&'a [u8], bool);

impl Read for Drip<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.1 = !self.1;
        let one = buffer.len().min(1);
        if self.1 { Err(io::ErrorKind::Interrupted.into()) } else { self.0.read(&mut buffer[..one]) }
    }
}

#[test]
fn every_cut_is_noticed_by_every_source() {
    let whole = mixed();
    let members = walk_slice(&whole).members;
    assert_eq!(members.len(), 5);
    for cut in 0..whole.len() {
        let bytes = &whole[..cut];
        let walked = walk_slice(bytes);
        let ending = match cut.saturating_sub(whole.len() - 2048) {
            _ if walked.error.is_some() => Ending::Missing,
            0..512 => Ending::Missing,
            512..1024 => Ending::OneBlock,
            _ => Ending::Marker,
        };
        assert_eq!(walked.ending.0, ending, "cut at {cut}");
        assert_eq!(walked.members, members[..walked.members.len()], "cut at {cut}");
        // Without a length the member is known before the cut is; nothing else may differ.
        for (with_data, source) in [(true, 0), (true, 1), (false, 0), (false, 1), (false, 2)] {
            let other = match source {
                0 => walk(Cursor::new(bytes), None, with_data),
                1 => walk(Sequential(bytes), None, with_data),
                _ => walk(bytes, Some(cut as u64), with_data),
            };
            assert_eq!(other.error.is_some(), walked.error.is_some(), "cut at {cut}, source {source}");
            assert_eq!(other.ending, walked.ending, "cut at {cut}, source {source}");
        }
        if cut % 97 == 0 || cut + 1 == whole.len() {
            let dripping = walk(Sequential(Drip(bytes, false)), Some(cut as u64), true);
            assert_eq!(dripping, walked, "cut at {cut}");
        }
    }
}

#[test]
fn a_file_is_read_as_its_bytes_are() {
    let path = std::env::temp_dir().join(format!("shardpack-tar-reader-{}", std::process::id()));
    std::fs::write(&path, mixed()).expect("a file in the temporary folder");
    let file = || File::open(&path).expect("the file just written");
    let total = Some(mixed().len() as u64);
    let expected = walk_slice(&mixed());
    assert_eq!(walk(file(), total, true), expected);
    assert_eq!(walk(BufReader::with_capacity(700, file()), total, true), expected);
    let without_data = walk(mixed().as_slice(), total, false);
    assert_eq!(walk(file(), total, false), without_data);
    assert_eq!(walk(BufReader::with_capacity(700, file()), total, false), without_data);
    let boxed: Box<dyn Skip> = Box::new(file());
    assert_eq!(walk(boxed, total, false), without_data);
    // As if it had become shorter since its length was asked.
    let shorter = walk(file(), total.map(|bytes| bytes + 1), false);
    assert_eq!(
        shorter.error,
        Some(format!("byte {0}: the file ends here, its length was {1} bytes", mixed().len(), mixed().len() + 1))
    );
    std::fs::remove_file(&path).expect("the file is still there");
}

#[test]
fn data_is_read_once_whole_or_in_pieces() {
    let long = vec![5; COPY_BYTES + 1];
    let bytes = [entry(b"a", b'0', &long), jpg(), END.to_vec()].concat();
    let mut reader = Reader::new(&bytes[..], Some(bytes.len() as u64));
    let mut data = vec![1];
    reader.next().expect("no damage").expect("the first member");
    let error = reader.read_data(&mut data, long.len() as u64 - 1).expect_err("one byte too many");
    assert_eq!(error.to_string(), "byte 0: member a: 262145 bytes, the limit is 262144");
    let mut pieces = Vec::new();
    reader.copy_data(&mut |piece| pieces.extend_from_slice(piece)).expect("no damage");
    assert!(pieces == long);
    reader.read_data(&mut data, u64::MAX).expect("nothing is left");
    assert_eq!(data, b"");
    reader.next().expect("no damage").expect("the second member");
    reader.read_data(&mut data, 4).expect("four bytes");
    assert_eq!(data, b"data");
    assert_eq!(reader.next().expect("no damage"), None);
    reader.read_data(&mut data, 0).expect("nothing is left");
    assert_eq!(data, b"");
}

#[test]
fn data_that_ends_early_is_an_error_for_each_way_to_read_it() {
    let bytes = &jpg()[..514];
    let reader = || {
        let mut reader = Reader::new(Sequential(bytes), None);
        reader.next().expect("a whole header").expect("a member");
        reader
    };
    let errors = [
        (reader().read_data(&mut Vec::new(), 9).expect_err("cut"), "data ends at byte 516"),
        (reader().copy_data(&mut |_| {}).expect_err("cut"), "data ends at byte 516"),
        (reader().next().expect_err("cut"), "padding ends at byte 1024"),
    ];
    for (error, part) in errors {
        assert_eq!(error.to_string(), format!("byte 0: member a.jpg: its {part}, the file ends before"));
    }
    let mut reader = reader();
    reader.copy_data(&mut |_| {}).expect_err("cut");
    assert_eq!(reader.next().expect("an error is said once"), None);
}

#[test]
fn the_system_and_the_data_are_blamed_for_their_own() {
    struct Failing(fn() -> io::Error);
    impl Read for Failing {
        fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
            Err((self.0)())
        }
    }
    let kind = |error| Reader::new(Sequential(Failing(error)), None).next().expect_err("it fails").kind();
    assert_eq!(kind(|| io::Error::from_raw_os_error(5)), ErrorKind::System);
    assert_eq!(kind(|| io::Error::other("corrupt deflate stream")), ErrorKind::Data);
}

/// Name, type, offset of data, data.
type TwinMember = (Vec<u8>, u8, u64, Vec<u8>);

/// What the `tar` crate finds.
fn twin(bytes: &[u8]) -> io::Result<Vec<TwinMember>> {
    tar::Archive::new(bytes)
        .entries()?
        .map(|entry| {
            let mut entry = entry?;
            let mut data = Vec::new();
            entry.read_to_end(&mut data)?;
            if data.len() as u64 != entry.size() {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            let flag = entry.header().as_bytes()[TYPE];
            Ok((entry.path_bytes().into_owned(), flag, entry.raw_file_position(), data))
        })
        .collect()
}

/// What both take for the name: the twin keeps slashes at the end, and what follows a NUL.
fn comparable(name: &[u8]) -> &[u8] {
    if let [rest @ .., b'/'] = until_nul(name) { comparable(rest) } else { until_nul(name) }
}

fn same_as_twin(bytes: &[u8]) -> Result<bool, TestCaseError> {
    let (Walked { members, error: None, .. }, Ok(expected)) = (walk_slice(bytes), twin(bytes)) else {
        return Ok(false);
    };
    // The twin lists global headers as members, and believes the size of a link, a folder or a device.
    let expected: Vec<_> = expected.into_iter().filter(|(_, flag, ..)| *flag != b'g').collect();
    let has_none = |name: &[u8], flag| matches!(flag, b'1'..=b'6') || flag == 0 && name.ends_with(b"/");
    if expected.iter().any(|(name, flag, _, data)| !data.is_empty() && has_none(name, *flag)) {
        return Ok(false);
    }
    prop_assert_eq!(members.len(), expected.len());
    for ((member, data), (name, _, data_offset, twin_data)) in members.iter().zip(&expected) {
        prop_assert_eq!(comparable(&member.name), comparable(name));
        prop_assert_eq!((member.data_offset, data), (*data_offset, twin_data));
    }
    Ok(true)
}

/// An archive by the `tar` crate, with GNU headers (for any name) or USTAR ones, and some PAX headers.
fn archive(members: &[(String, usize, bool, bool)]) -> Vec<u8> {
    let mut builder = tar::Builder::new(Vec::new());
    for (name, bytes, gnu, pax) in members {
        let mut header = if *gnu { tar::Header::new_gnu() } else { tar::Header::new_ustar() };
        header.set_size(*bytes as u64);
        header.set_mode(0o444);
        if *pax {
            let records = [("path", name.as_bytes()), ("comment", b"a=b")];
            builder.append_pax_extensions(records).expect("written to memory");
            header.set_path("short").expect("a short name");
        }
        let data = vec![b'd'; *bytes];
        let written = if *pax {
            header.set_cksum();
            builder.append(&header, &data[..])
        } else {
            builder.append_data(&mut header, name, &data[..])
        };
        written.expect("written to memory");
    }
    builder.into_inner().expect("written to memory")
}

fn member() -> impl Strategy<Value = (String, usize, bool, bool)> {
    let name = prop_oneof!["[a-zé_.]{1,40}x", "([a-z.]{1,30}[x/]){1,9}x[.]jpg", "(日[a-z]{80}/){1,4}猫[.]jpg"];
    let name = name.prop_filter("a path the twin can write", |name: &String| {
        !name.split('/').any(|part| matches!(part, "" | "." | ".."))
    });
    (name, 0..1500usize, any::<bool>(), any::<bool>())
        .prop_map(|(name, bytes, gnu, pax)| (name.clone(), bytes, gnu || name.len() > 99, pax))
}

proptest! {
    #[test]
    fn a_good_archive_reads_as_its_twin_reads_it(members in prop::collection::vec(member(), 0..6)) {
        let bytes = archive(&members);
        prop_assert!(same_as_twin(&bytes)?, "{:?} {:?}", walk_slice(&bytes), twin(&bytes));
        let walked = walk_slice(&bytes);
        prop_assert_eq!(walked.ending, (Ending::Marker, bytes.len() as u64 - 1024, None));
        for (found, written) in walked.members.iter().zip(&members) {
            prop_assert_eq!((&*found.0.name, found.1.len()), (written.0.as_bytes(), written.1));
        }
    }

    #[test]
    fn a_damaged_archive_reads_as_its_twin_reads_it_or_not_at_all(
        members in prop::collection::vec(member(), 1..4),
        // No newlines: the twin cuts a PAX value there.
        flips in prop::collection::vec((any::<prop::sample::Index>(), prop_oneof![0..10u8, 11..=255u8]), 1..4),
        sealed in any::<bool>(),
    ) {
        let mut bytes = archive(&members);
        for (at, value) in flips {
            let at = at.index(bytes.len());
            let block = at / BLOCK_BYTES * BLOCK_BYTES;
            // What the twin takes for V7 has no extension headers for it; tarfile reads them as here.
            let is_magic = MAGIC.contains(&(at - block));
            let is_header = check_sum(bytes[block..block + BLOCK_BYTES].try_into().expect("a block"), 0).is_ok();
            bytes[at] = if sealed && is_header && is_magic { bytes[at] } else { value };
            if sealed && is_header {
                seal(&mut bytes[block..block + BLOCK_BYTES]);
            }
        }
        same_as_twin(&bytes)?;
    }

    #[test]
    fn any_blocks_are_walked_to_an_end(blocks in prop::collection::vec((any::<u8>(), 0..3000usize), 0..8)) {
        let types = b"01235xgLKSXV\0";
        let blocks = blocks.iter().map(|(flag, bytes)| {
            let flag = types[*flag as usize % types.len()];
            [&header(b"m", flag, *bytes)[..], &pax(b'0', b"10 path=1\n10 size=9\n")[512..]].concat()
        });
        let bytes: Vec<u8> = blocks.flatten().collect();
        let walked = walk_slice(&bytes);
        prop_assert!(walked.members.len() <= bytes.len() / BLOCK_BYTES);
    }
}

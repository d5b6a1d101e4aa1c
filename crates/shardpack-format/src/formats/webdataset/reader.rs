//! Reader walks the members of a tar file, trusting nothing in it.
//!
//! Holds at all times: a size is checked against the length of the file, where that is known, before it is used; at
//! most 1 MiB is allocated for a name; each step goes forward by a block or more; a link is reported, never followed.
//! Where tar readers disagree, it does as Python's tarfile, with which webdataset reads, or it refuses.
//! Source: POSIX.1-2017, pax, "ustar Interchange Format" and "pax Interchange Format"; GNU tar manual, "Basic Tar
//! Format".

use std::{
    fs::File,
    io::{self, BufReader, Cursor, Read, Seek, SeekFrom},
    ops::Range,
};

use crate::error::{Error, Result};

const BLOCK_BYTES: usize = 512;
const EXTENSION_LIMIT_BYTES: u64 = 1 << 20;
const COPY_BYTES: usize = 256 << 10;
const SHOWN_BYTES: usize = 200;

// Fields of a header.
const NAME: Range<usize> = 0..100;
const SIZE: Range<usize> = 124..136;
const SUM: Range<usize> = 148..156;
const TYPE: usize = 156;
const MAGIC: Range<usize> = 257..265;
const PREFIX: Range<usize> = 345..500;
const NUMBERS: [(&str, Range<usize>); 6] = [
    ("mode", 100..108),
    ("owner", 108..116),
    ("group", 116..124),
    ("time", 136..148),
    ("device major", 329..337),
    ("device minor", 337..345),
];

type Block = [u8; BLOCK_BYTES];

/// Bytes that can be passed over without being looked at.
pub trait Skip: Read {
    /// Goes forward by `bytes`. This default reads them and fails with `UnexpectedEof` where they end early; a file
    /// seeks, which succeeds beyond its end too, so its length has to be checked before.
    fn skip(&mut self, bytes: u64) -> io::Result<()> {
        let passed = io::copy(&mut Read::take(&mut *self, bytes), &mut io::sink())?;
        if passed == bytes { Ok(()) } else { Err(io::ErrorKind::UnexpectedEof.into()) }
    }
}

impl Skip for &[u8] {
    fn skip(&mut self, bytes: u64) -> io::Result<()> {
        let at = usize::try_from(bytes).unwrap_or(usize::MAX);
        let (_, rest) = self.split_at_checked(at).ok_or(io::ErrorKind::UnexpectedEof)?;
        *self = rest;
        Ok(())
    }
}

impl<T: AsRef<[u8]>> Skip for Cursor<T> {
    fn skip(&mut self, bytes: u64) -> io::Result<()> {
        let end = self.position().checked_add(bytes).filter(|end| *end <= self.get_ref().as_ref().len() as u64);
        self.set_position(end.ok_or(io::ErrorKind::UnexpectedEof)?);
        Ok(())
    }
}

impl Skip for File {
    fn skip(&mut self, bytes: u64) -> io::Result<()> {
        self.seek(SeekFrom::Current(seekable(bytes)?)).map(|_| ())
    }
}

impl Skip for BufReader<File> {
    fn skip(&mut self, bytes: u64) -> io::Result<()> {
        self.seek_relative(seekable(bytes)?)
    }
}

impl<S: Skip + ?Sized> Skip for Box<S> {
    fn skip(&mut self, bytes: u64) -> io::Result<()> {
        (**self).skip(bytes)
    }
}

fn seekable(bytes: u64) -> io::Result<i64> {
    i64::try_from(bytes).map_err(|_| io::ErrorKind::InvalidInput.into())
}

/// A source that can only be read through, such as a decompressor.
pub struct Sequential<R>(pub R);

impl<R: Read> Read for Sequential<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.0.read(buffer)
    }
}

impl<R: Read> Skip for Sequential<R> {}

/// What a member is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemberKind {
    /// A regular file: types `0`, NUL and `7`.
    File,
    /// A second name for an earlier member; its data is not stored again.
    HardLink,
    /// A name that points to another name.
    SymLink,
    /// A folder.
    Folder,
    /// Any other type byte: devices, FIFOs, and what a vendor made up.
    Other(u8),
}

/// A member of a tar file, with all that was said about it in one or more headers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    /// Name as stored, neither cleaned nor necessarily UTF-8; slashes at the end of a folder's name or of a PAX path
    /// are dropped, as tarfile does.
    pub name: Vec<u8>,
    /// What it is.
    pub kind: MemberKind,
    /// Offset of the first header that is its own: a PAX or GNU one, if it has one, else the USTAR header.
    pub header_offset: u64,
    /// Offset of its data, a multiple of 512.
    pub data_offset: u64,
    /// Length of its data, without padding; 0 for links, folders and devices, whatever their header says.
    pub bytes: u64,
    /// Whether a single POSIX USTAR header says it all: no GNU or PAX header before it or for the whole file, and no
    /// base-256 size.
    pub plain: bool,
}

/// How the file ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// Two zero blocks, as it should.
    Marker,
    /// A single zero block.
    OneBlock,
    /// No zero block: written without one, or cut behind a member.
    Missing,
}

/// Walks the members in file order.
///
/// An error is the last thing it says, but for a limit in [`Reader::read_data`]: where the next member begins is
/// unknown then.
pub struct Reader<R> {
    inner: R,
    total_bytes: Option<u64>,
    position: u64,
    // The member that `position` is in: its first header, its name, where its data ends and where the next header is.
    header_offset: u64,
    name: Vec<u8>,
    data_end: u64,
    next_header: u64,
    global_header: bool,
    done: bool,
    ending: Ending,
    end_offset: u64,
    trailing_offset: Option<u64>,
    buffer: Vec<u8>,
}

impl<R: Skip> Reader<R> {
    /// Reads from `inner`, which stands at the first header; offsets count from there.
    ///
    /// `total_bytes` is the length of the file: nothing is read or believed beyond it. It may be `None` only for a
    /// source whose [`Skip::skip`] notices the end, which that of a file does not.
    pub fn new(inner: R, total_bytes: Option<u64>) -> Self {
        Self {
            inner,
            total_bytes,
            position: 0,
            header_offset: 0,
            name: Vec::new(),
            data_end: 0,
            next_header: 0,
            global_header: false,
            done: false,
            ending: Ending::Missing,
            end_offset: 0,
            trailing_offset: None,
            buffer: Vec::new(),
        }
    }

    /// The next member, after passing over what was not read of the former; `None` at the end and after an error.
    #[expect(clippy::should_implement_trait, reason = "the reader is needed between two members, to read data")]
    pub fn next(&mut self) -> Result<Option<Member>> {
        if self.done {
            return Ok(None);
        }
        self.done = true;
        let member = self.read_member()?;
        self.done = member.is_none();
        Ok(member)
    }

    /// Replaces `out` by what is not yet read of the member's data; fails without reading if that is more than `max`
    /// bytes.
    pub fn read_data(&mut self, out: &mut Vec<u8>, max: u64) -> Result<()> {
        let bytes = self.data_end.saturating_sub(self.position);
        if bytes > max {
            let what = format!("member {}: {bytes} bytes, the limit is {max}", shown(&self.name));
            return Err(Error::data(what).at_byte(self.header_offset));
        }
        out.clear();
        if self.total_bytes.is_some() {
            out.reserve_exact(usize::try_from(bytes).unwrap_or(0));
        }
        let read = Read::take(&mut self.inner, bytes).read_to_end(out);
        self.position += out.len() as u64;
        match read {
            Ok(read) if read as u64 == bytes => Ok(()),
            Ok(_) => self.fail(self.truncated("data", self.data_end)),
            Err(error) => self.fail(unreadable(error, self.position)),
        }
    }

    /// Gives what is not yet read of the member's data to `sink`, piece by piece; how it is cut has no meaning.
    pub fn copy_data(&mut self, sink: &mut dyn FnMut(&[u8])) -> Result<()> {
        self.buffer.resize(COPY_BYTES, 0);
        while self.position < self.data_end {
            let bytes = (self.data_end - self.position).min(COPY_BYTES as u64) as usize;
            let piece = &mut self.buffer[..bytes];
            match fill(&mut self.inner, piece) {
                Ok(read) if read == bytes => sink(piece),
                Ok(_) => return self.fail(self.truncated("data", self.data_end)),
                Err(error) => return self.fail(unreadable(error, self.position)),
            }
            self.position += bytes as u64;
        }
        Ok(())
    }

    /// How the file ends; `Missing` as long as [`Reader::next`] has not come there.
    pub fn ending(&self) -> Ending {
        self.ending
    }

    /// Offset of the end marker, or of the end of the file if there is none; 0 as long as [`Reader::next`] has not come
    /// there.
    pub fn end_offset(&self) -> u64 {
        self.end_offset
    }

    /// Offset of the first byte after the end marker that is not zero: no reader looks at what is there.
    pub fn trailing_offset(&self) -> Option<u64> {
        self.trailing_offset
    }

    fn read_member(&mut self) -> Result<Option<Member>> {
        self.leave_data()?;
        let mut announced = Announced::default();
        loop {
            let offset = self.position;
            let Some(block) = self.read_header()? else {
                return match announced.first_offset {
                    Some(first) => {
                        Err(Error::data("the file ends before the member this header is for").at_byte(first))
                    }
                    None => Ok(None),
                };
            };
            let flag = block[TYPE];
            if flag != b'g' {
                announced.first_offset.get_or_insert(offset);
            }
            match flag {
                b'g' => {
                    let records = self.read_extension(&block, offset)?;
                    Pax::parse(&records, offset + BLOCK_BYTES as u64, true)?;
                    self.global_header = true;
                }
                // `X` is what Solaris wrote before POSIX said `x`.
                b'x' | b'X' => {
                    let records = self.read_extension(&block, offset)?;
                    let pax = Pax::parse(&records, offset + BLOCK_BYTES as u64, false)?;
                    set_once(&mut announced.pax, pax, "PAX header", offset)?;
                }
                b'L' => {
                    let name = until_nul(&self.read_extension(&block, offset)?).to_vec();
                    set_once(&mut announced.long_name, name, "GNU long name", offset)?;
                }
                b'K' => {
                    self.read_extension(&block, offset)?;
                    set_once(&mut announced.long_link, (), "GNU long link", offset)?;
                }
                b'S' => return Err(sparse(offset)),
                _ => return self.enter_member(&block, offset, announced).map(Some),
            }
        }
    }

    /// The member whose USTAR header is `block`, at `offset`; its data comes next.
    fn enter_member(&mut self, block: &Block, offset: u64, announced: Announced) -> Result<Member> {
        let header_offset = announced.first_offset.unwrap_or(offset);
        let pax = announced.pax.unwrap_or_default();
        let is_pax_path = pax.path.is_some();
        let is_header_name = !is_pax_path && announced.long_name.is_none();
        let mut name = match (pax.path, announced.long_name) {
            (Some(path), Some(long)) if path != long => {
                return Err(Error::data("its GNU long name and its PAX path differ").at_byte(header_offset));
            }
            (Some(path), _) => path,
            (None, Some(long)) => long,
            (None, None) => header_name(block),
        };
        let kind = match block[TYPE] {
            // How V7 marks a folder; V7 has no long names, and a part of one may end like this by chance.
            0 if is_header_name && until_nul(&block[NAME]).ends_with(b"/") => MemberKind::Folder,
            0 | b'0' | b'7' => MemberKind::File,
            b'1' => MemberKind::HardLink,
            b'2' => MemberKind::SymLink,
            b'5' => MemberKind::Folder,
            other => MemberKind::Other(other),
        };
        if is_pax_path || kind == MemberKind::Folder {
            while name.last() == Some(&b'/') {
                name.pop();
            }
        }
        let has_data = match kind {
            MemberKind::File => true,
            MemberKind::HardLink | MemberKind::SymLink | MemberKind::Folder => false,
            // Devices and FIFOs have none, as the types above; what is not known has what its header says.
            MemberKind::Other(flag) => !matches!(flag, b'3' | b'4' | b'6'),
        };
        let stated = size_field(block, offset)?;
        let bytes = if has_data { pax.size.unwrap_or(stated) } else { 0 };
        let is_ustar = block[MAGIC] == *b"ustar\x0000" && block[SIZE.start] < 0x80;
        let plain = is_ustar && header_offset == offset && !self.global_header;
        self.enter_data(&name, header_offset, bytes)?;
        Ok(Member { name, kind, header_offset, data_offset: self.position, bytes, plain })
    }

    /// Data of an `x`, `g`, `L` or `K` header, which is read whole.
    fn read_extension(&mut self, block: &Block, offset: u64) -> Result<Vec<u8>> {
        let mut data = Vec::new();
        self.enter_data(&header_name(block), offset, size_field(block, offset)?)?;
        self.read_data(&mut data, EXTENSION_LIMIT_BYTES)?;
        self.leave_data()?;
        Ok(data)
    }

    /// Notes that `bytes` of data begin here, if they can be there.
    fn enter_data(&mut self, name: &[u8], header_offset: u64, bytes: u64) -> Result<()> {
        self.name.clear();
        self.name.extend_from_slice(name);
        self.header_offset = header_offset;
        let end = self.position.checked_add(bytes).and_then(|end| Some((end, end.checked_next_multiple_of(512)?)));
        let (data_end, next_header) = end.ok_or_else(|| {
            let what = format!("member {}: a size of {bytes} bytes, more than any file has", shown(name));
            Error::data(what).at_byte(header_offset)
        })?;
        if self.total_bytes.is_some_and(|total| data_end > total) {
            return Err(self.truncated("data", data_end));
        }
        (self.data_end, self.next_header) = (data_end, next_header);
        Ok(())
    }

    fn fail<T>(&mut self, error: Error) -> Result<T> {
        self.done = true;
        Err(error)
    }

    /// Goes to the next header.
    fn leave_data(&mut self) -> Result<()> {
        let bytes = self.next_header - self.position;
        let is_cut = self.total_bytes.is_some_and(|total| self.next_header > total);
        let skipped = if is_cut { Err(io::ErrorKind::UnexpectedEof.into()) } else { self.inner.skip(bytes) };
        skipped.map_err(|error| match error.kind() {
            io::ErrorKind::UnexpectedEof => self.truncated("padding", self.next_header),
            _ => unreadable(error, self.position),
        })?;
        self.position = self.next_header;
        Ok(())
    }

    /// The next header, or `None` at the end, of which everything is known then.
    fn read_header(&mut self) -> Result<Option<Block>> {
        let offset = self.position;
        let mut block = [0; BLOCK_BYTES];
        let read = self.read_up_to(&mut block)?;
        let is_zero = block.iter().all(|byte| *byte == 0);
        if !is_zero && read == BLOCK_BYTES {
            check_sum(&block, offset)?;
            check_numbers(&block, offset)?;
            return Ok(Some(block));
        }
        if !is_zero {
            return Err(Error::data(format!("truncated header: {read} of 512 bytes")).at_byte(offset));
        }
        self.end_offset = offset;
        if read == BLOCK_BYTES {
            self.ending = Ending::OneBlock;
            let read = self.read_up_to(&mut block)?;
            self.trailing_offset = first_nonzero(&block[..read]).map(|at| offset + (BLOCK_BYTES + at) as u64);
            if read == BLOCK_BYTES && self.trailing_offset.is_none() {
                self.ending = Ending::Marker;
                self.find_trailing()?;
            }
        }
        Ok(None)
    }

    fn find_trailing(&mut self) -> Result<()> {
        let mut buffer = vec![0; COPY_BYTES];
        while self.trailing_offset.is_none() {
            let offset = self.position;
            let read = self.read_up_to(&mut buffer)?;
            if read == 0 {
                break;
            }
            self.trailing_offset = first_nonzero(&buffer[..read]).map(|at| offset + at as u64);
        }
        Ok(())
    }

    /// Fills `buffer` as far as the file goes; says how far.
    fn read_up_to(&mut self, buffer: &mut [u8]) -> Result<usize> {
        let left = self.total_bytes.map_or(u64::MAX, |total| total.saturating_sub(self.position));
        let bytes = buffer.len().min(usize::try_from(left).unwrap_or(usize::MAX));
        let read = fill(&mut self.inner, &mut buffer[..bytes]).map_err(|error| unreadable(error, self.position))?;
        self.position += read as u64;
        match self.total_bytes {
            Some(total) if read < bytes => {
                let what = format!("the file ends here, its length was {total} bytes");
                Err(Error::data(what).at_byte(self.position))
            }
            _ => Ok(read),
        }
    }

    /// `part` of the member would end at `end`.
    fn truncated(&self, part: &str, end: u64) -> Error {
        let file = match self.total_bytes {
            Some(total) if total < end => format!("has {total}"),
            _ => "ends before".into(),
        };
        let what = format!("member {}: its {part} ends at byte {end}, the file {file}", shown(&self.name));
        Error::data(what).at_byte(self.header_offset)
    }
}

/// What PAX and GNU headers have said of the member to come.
#[derive(Default)]
struct Announced {
    first_offset: Option<u64>,
    pax: Option<Pax>,
    long_name: Option<Vec<u8>>,
    long_link: Option<()>,
}

/// A member has one header of a kind: of two, readers take different ones.
fn set_once<T>(slot: &mut Option<T>, value: T, what: &str, offset: u64) -> Result<()> {
    match slot.replace(value) {
        Some(_) => Err(Error::data(format!("a second {what} for one member")).at_byte(offset)),
        None => Ok(()),
    }
}

/// The records of a PAX header that matter here.
#[derive(Default)]
struct Pax {
    path: Option<Vec<u8>>,
    size: Option<u64>,
}

impl Pax {
    /// Reads records `<length> <key>=<value>\n`, which begin at `offset` of the file. Lengths delimit them: a value may
    /// hold a newline.
    fn parse(mut records: &[u8], mut offset: u64, global: bool) -> Result<Self> {
        let mut pax = Self::default();
        while !records.is_empty() {
            let (length, key, value) = pax_record(records)
                .ok_or_else(|| Error::data("damaged PAX header: no `length key=value` here").at_byte(offset))?;
            match key {
                _ if key.starts_with(b"GNU.sparse.") => return Err(sparse(offset)),
                // tarfile gives all members that name, so that webdataset fails at the second; others look away.
                b"path" | b"size" if global => {
                    let what = format!("a global PAX header sets {}, on which tar readers disagree", shown(key));
                    return Err(Error::data(what).at_byte(offset));
                }
                b"path" => pax.path = Some(value.to_vec()),
                b"size" => {
                    let what = || format!("PAX size: expected a number, found {}", shown(value));
                    pax.size = Some(digits(value, 10).ok_or_else(|| Error::data(what()).at_byte(offset))?);
                }
                _ => {}
            }
            records = &records[length..];
            offset += length as u64;
        }
        Ok(pax)
    }
}

/// Length, key and value of the first record.
fn pax_record(records: &[u8]) -> Option<(usize, &[u8], &[u8])> {
    let space = records.iter().position(|byte| *byte == b' ')?;
    let length = usize::try_from(digits(&records[..space], 10)?).ok()?;
    let text = records.get(space + 1..length)?.strip_suffix(b"\n")?;
    let equals = text.iter().position(|byte| *byte == b'=')?;
    Some((length, &text[..equals], &text[equals + 1..]))
}

fn check_sum(block: &Block, offset: u64) -> Result<()> {
    let field = &block[SUM];
    let stated = number(field).ok_or_else(|| not_a_number("header checksum", field, offset + SUM.start as u64))?;
    // The field itself counts as spaces.
    let mut blank = *block;
    blank[SUM].fill(b' ');
    let sum = u64::from(blank.iter().map(|byte| u32::from(*byte)).sum::<u32>());
    // Sun and NeXT summed signed bytes: 256 less for each byte above 127.
    let signed = || sum.checked_sub(256 * blank.iter().filter(|byte| **byte >= 0x80).count() as u64);
    if stated == sum || Some(stated) == signed() {
        return Ok(());
    }
    let what = format!("damaged header: its bytes sum to {sum}, its checksum says {stated}");
    Err(Error::data(what).at_byte(offset))
}

/// Checks the numbers that nothing here needs: at a header where one of them is damaged, tarfile takes the file to be
/// over, without a word unless it is the first.
fn check_numbers(block: &Block, offset: u64) -> Result<()> {
    for (what, range) in NUMBERS {
        let field = &block[range.clone()];
        // Times before 1970, and owners that are -1, begin so.
        if field[0] != 0xff && number(field).is_none() {
            return Err(not_a_number(what, field, offset + range.start as u64));
        }
    }
    Ok(())
}

fn size_field(block: &Block, offset: u64) -> Result<u64> {
    number(&block[SIZE]).ok_or_else(|| not_a_number("size", &block[SIZE], offset + SIZE.start as u64))
}

/// A header's number: octal between spaces and NULs, 0 if there is no digit, or base-256 as in GNU tar. `None` for
/// anything else, and for negative numbers.
fn number(field: &[u8]) -> Option<u64> {
    if let [0x80, rest @ ..] = field {
        return rest.iter().try_fold(0u64, |value, byte| Some(value.checked_mul(256)? + u64::from(*byte)));
    }
    let is_end = |byte: &u8| matches!(byte, 0 | b' ');
    let start = field.iter().position(|byte| *byte != b' ').unwrap_or(field.len());
    let end = field[start..].iter().position(is_end).map_or(field.len(), |length| start + length);
    if !field[end..].iter().all(is_end) {
        return None;
    }
    if start == end { Some(0) } else { digits(&field[start..end], 8) }
}

fn digits(text: &[u8], radix: u32) -> Option<u64> {
    if text.is_empty() {
        return None;
    }
    text.iter().try_fold(0u64, |value, byte| {
        value.checked_mul(u64::from(radix))?.checked_add(u64::from(char::from(*byte).to_digit(radix)?))
    })
}

fn header_name(block: &Block) -> Vec<u8> {
    let name = until_nul(&block[NAME]);
    match until_nul(&block[PREFIX]) {
        // GNU headers keep times where POSIX has the prefix.
        prefix if !prefix.is_empty() && block[MAGIC].starts_with(b"ustar\0") => [prefix, b"/", name].concat(),
        _ => name.to_vec(),
    }
}

fn until_nul(field: &[u8]) -> &[u8] {
    field.split(|byte| *byte == 0).next().unwrap_or(field)
}

fn first_nonzero(bytes: &[u8]) -> Option<usize> {
    bytes.iter().position(|byte| *byte != 0)
}

/// Fills `buffer` as far as `inner` goes; says how far.
fn fill(inner: &mut impl Read, buffer: &mut [u8]) -> io::Result<usize> {
    let mut filled = 0;
    while filled < buffer.len() {
        match inner.read(&mut buffer[filled..]) {
            Ok(0) => break,
            Ok(read) => filled += read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(filled)
}

/// A decompressor says by an error without a number from the system that its input is damaged.
fn unreadable(error: io::Error, offset: u64) -> Error {
    match error.raw_os_error() {
        Some(_) => Error::io("cannot read", error).at_byte(offset),
        None => Error::data(format!("cannot read: {error}")).at_byte(offset),
    }
}

fn sparse(offset: u64) -> Error {
    Error::data("sparse member: not read").at_byte(offset)
}

fn not_a_number(what: &str, field: &[u8], offset: u64) -> Error {
    Error::data(format!("{what}: expected a number, found `{}`", field.escape_ascii())).at_byte(offset)
}

/// `name` for a message: on one line, without what a terminal would obey, and not too long.
pub(super) fn shown(name: &[u8]) -> String {
    let text = String::from_utf8_lossy(&name[..name.len().min(SHOWN_BYTES)]);
    let mut line = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            _ if character.is_control() => line.extend(character.escape_default()),
            _ => line.push(character),
        }
    }
    if name.len() > SHOWN_BYTES {
        line.push('…');
    }
    line
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::error::ErrorKind;

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
        let rows: [(Vec<u8>, &str); 25] = [
            (vec![b'a'; 512], "byte 148: header checksum: expected a number, found `aaaaaaaa`"),
            (
                [jpg(), vec![b'0'; 512]].concat(),
                "byte 1024: damaged header: its bytes sum to 24448, its checksum says 0",
            ),
            (jpg()[..300].to_vec(), "byte 0: truncated header: 300 of 512 bytes"),
            (jpg()[..515].to_vec(), "byte 0: member a.jpg: its data ends at byte 516, the file has 515"),
            (jpg()[..516].to_vec(), "byte 0: member a.jpg: its padding ends at byte 1024, the file has 516"),
            (
                patched(jpg(), 0, b"\x1b[2J\n\xff"),
                "byte 0: member \\u{1b}[2J\\n\u{fffd}: its data ends at byte 516, the file has 515",
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
            ([jpg(), entry(b"s", b'S', b"")].concat(), "byte 1024: sparse member: not read"),
            (x(b"10 path=1\n22 GNU.sparse.major=1\n"), "byte 522: sparse member: not read"),
            (x(b"10 size=x\n"), "byte 512: PAX size: expected a number, found x"),
            (x(b"10 path=1\n8 path=1\n"), "byte 522: damaged PAX header: no `length key=value` here"),
            (x(b"11 path=1\n"), "byte 512: damaged PAX header: no `length key=value` here"),
            (x(b"0 path=1\n"), "byte 512: damaged PAX header: no `length key=value` here"),
            (pax(b'g', b"10 path=1\n"), "byte 512: a global PAX header sets path, on which tar readers disagree"),
            ([pax(b'x', b""), x(b"")].concat(), "byte 512: a second PAX header for one member"),
            ([long(b"a"), long(b"a"), jpg()].concat(), "byte 1024: a second GNU long name for one member"),
            ([long(b"a"), x(b"10 path=1\n")].concat(), "byte 0: its GNU long name and its PAX path differ"),
            (
                [jpg(), long(b"a"), END.to_vec()].concat(),
                "byte 1024: the file ends before the member this header is for",
            ),
        ];
        for (mut bytes, expected) in rows {
            if expected.contains("has 515") {
                bytes.truncate(515);
            }
            assert_eq!(error_of(&bytes), expected);
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
}

//! The members of a zip archive, by its directory.
//!
//! Allocations are bounded by the caller's limits, whatever the directory claims. Every offset and length is compared with the length
//! of the file. Names are never opened as paths.

use std::{
    io::{self, BufRead, BufReader, Read},
    ops::Range,
};

use flate2::{Crc, bufread::DeflateDecoder};
use shardpack_format::{memory, size, text};

use super::{Fault, ReadAt, Result, failed, inflate, read, u16_at, u32_at, u64_at, wrong};

/// The end of a directory, without the comment of the file.
pub(crate) const END_BYTES: usize = 22;
/// Length of the locator of the zip64 directory end.
const LOCATOR_BYTES: u64 = 20;
const END64_BYTES: usize = 56;
const ENTRY_BYTES: usize = 46;
const LOCAL_BYTES: usize = 30;
/// No stream of deflate makes more bytes of one (RFC 1951: 258 of two codes of a bit), but for those of its last block.
const MAX_RATIO: u64 = 1032;
/// Bytes that are inflated at a time.
pub(crate) const BUFFER_BYTES: usize = 64 << 10;
/// Set if a member or its directory is encrypted.
const ENCRYPTED: u16 = 1 | 1 << 6 | 1 << 13;
/// Set if lengths and checksum follow the data.
const FOLLOWED: u16 = 1 << 3;
/// Number after which a count of 16 bits begins anew.
const WRAPPED: u64 = 1 << 16;
/// System of a writer whose external attributes begin with a file mode; its bits for the kind of file, and those of a symbolic link.
const UNIX: u8 = 3;
const MODE_KIND: u16 = 0o170_000;
const MODE_LINK: u16 = 0o120_000;

/// A member, as the directory has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    pub name: String,
    /// Its length in bytes, unpacked.
    pub bytes: u64,
    /// CRC-32 of the unpacked content.
    pub crc: u32,
    flags: u16,
    method: u16,
    is_link: bool,
    packed_bytes: u64,
    /// Offset of the local header.
    offset: u64,
}

/// An archive whose directory was read.
#[derive(Debug)]
pub(crate) struct Archive<'f, R: ReadAt + ?Sized> {
    file: &'f R,
    /// Offset of the directory.
    directory: u64,
}

/// The directory of an archive.
#[derive(Debug)]
pub(crate) struct Directory {
    bytes: Vec<u8>,
    members: u64,
    /// Offset of the directory in the file.
    offset: u64,
}

/// Iterates over the members of a directory.
pub(crate) struct Entries<'d> {
    bytes: &'d [u8],
    /// Offset of the next member in the directory.
    pub at: usize,
    /// How many are to come.
    left: u64,
    /// Offset of the directory in the file.
    offset: u64,
}

impl Directory {
    /// Reads the directory of a file of `total_bytes` bytes; `check` sees the number of members first.
    ///
    /// # Errors
    /// If the directory is missing or invalid, or longer than `most_bytes`.
    pub fn read<R: ReadAt + ?Sized>(
        file: &R,
        total_bytes: u64,
        most_bytes: u64,
        check: impl FnOnce(u64) -> Result<()>,
    ) -> Result<Self> {
        let End { members, bytes, offset } = End::find(file, total_bytes)?;
        check(members)?;
        if bytes > most_bytes {
            return wrong(format!("a directory of {bytes} bytes, of {members} members"));
        }
        let mut directory = Self { bytes: vec![0; bytes as usize], members, offset };
        read(file, offset, &mut directory.bytes)?;
        Ok(directory)
    }

    /// Its members, in order.
    pub fn entries(&self) -> Entries<'_> {
        Entries { bytes: &self.bytes, at: 0, left: self.members, offset: self.offset }
    }

    /// The member at offset `at` of the directory.
    ///
    /// # Errors
    /// If it is invalid.
    pub fn entry(&self, at: usize) -> Result<Entry> {
        Entry::take(&mut self.bytes.get(at..).unwrap_or_default(), self.offset)
    }

    /// The name of the member at offset `at` of the directory, which [`Entries`] has passed.
    pub fn name(&self, at: usize) -> &[u8] {
        let fixed = self.bytes.get(at..).unwrap_or_default();
        fixed.get(ENTRY_BYTES..ENTRY_BYTES + u16_at(fixed, 28) as usize).unwrap_or_default()
    }

    /// The archive in `file`.
    pub fn archive<'f, R: ReadAt + ?Sized>(&self, file: &'f R) -> Archive<'f, R> {
        Archive { file, directory: self.offset }
    }
}

impl<'f, R: ReadAt + ?Sized> Archive<'f, R> {
    /// Range of `entry`: its header and its data.
    ///
    /// # Errors
    /// If the header differs from the directory; the message names the entry.
    pub fn place(&self, entry: &Entry) -> Result<Range<u64>> {
        Ok(entry.offset..self.data_offset(entry)? + entry.packed_bytes)
    }

    /// Range of the data of `entry`, compressed or not.
    ///
    /// # Errors
    /// As [`Archive::place`].
    pub fn data(&self, entry: &Entry) -> Result<Range<u64>> {
        let start = self.data_offset(entry)?;
        Ok(start..start + entry.packed_bytes)
    }

    /// Range of `entry` that [`member`] needs.
    ///
    /// # Errors
    /// As [`Archive::place`], and if the header lacks its lengths and checksum; the message names the entry.
    pub fn alone(&self, entry: &Entry) -> Result<Range<u64>> {
        let place = self.place(entry)?;
        let mut header = vec![0; (place.end - entry.packed_bytes - place.start) as usize];
        read(self.file, place.start, &mut header)?;
        let is_told = Local::parse(&header).is_some_and(|(local, _)| {
            (local.crc, local.bytes, local.packed_bytes) == (entry.crc, entry.bytes, entry.packed_bytes)
        });
        match is_told {
            true => Ok(place),
            false => {
                wrong("its lengths and CRC-32 are not in its header").map_err(|error| error.of_member(&entry.name))
            }
        }
    }

    /// Reads all of `entry` into `head` and `items`, whose total length is the length of the entry.
    ///
    /// # Errors
    /// If it is corrupt.
    pub fn content(&self, entry: &Entry, head: &mut [u8], items: &mut [u8]) -> Result<()> {
        self.whole(entry, |fill| {
            fill(head)?;
            fill(items)
        })
    }

    /// Reads all of `entry` in pieces, for its length and its checksum.
    ///
    /// # Errors
    /// If it is corrupt; the message names the entry.
    pub fn check(&self, entry: &Entry) -> Result<()> {
        let (mut buffer, mut left) = (vec![0; BUFFER_BYTES], entry.bytes);
        let checked = self.whole(entry, |fill| {
            while left > 0 {
                let piece = left.min(BUFFER_BYTES as u64);
                fill(&mut buffer[..piece as usize])?;
                left -= piece;
            }
            Ok(())
        });
        checked.map_err(|error| error.of_member(&entry.name))
    }

    /// Calls `take` with a function that fills a slice with the next bytes of `entry`. `take` has to take all of them.
    fn whole(
        &self,
        entry: &Entry,
        take: impl FnOnce(&mut dyn FnMut(&mut [u8]) -> Result<()>) -> Result<()>,
    ) -> Result<()> {
        let mut crc = Crc::new();
        let mut start = self.data_offset(entry)?;
        if entry.is_deflated() {
            let mut packed = Packed::new(self.file, start, entry);
            let mut unpacked = DeflateDecoder::new(&mut packed);
            take(&mut |part| {
                inflate(&mut unpacked, part)?;
                crc.update(part);
                Ok(())
            })?;
            let more = unpacked.read(&mut [0]).map_err(failed)?;
            if more > 0 {
                return wrong(format!("unpacks to more than the {} bytes in the directory", entry.bytes));
            }
            let unused = packed.left();
            if unused > 0 {
                return wrong(format!("{} after the packed data", size::counted(unused, "byte")));
            }
        } else {
            take(&mut |part| {
                read(self.file, start, part)?;
                start += part.len() as u64;
                crc.update(part);
                Ok(())
            })?;
        }
        match crc.sum() == entry.crc {
            true => Ok(()),
            false => wrong(format!("damaged: its CRC-32 is {:08x}, {:08x} in the directory", crc.sum(), entry.crc)),
        }
    }

    /// Reads the first bytes of `entry`, at most `most`, into `out`.
    ///
    /// # Errors
    /// If it is corrupt.
    pub fn first(&self, entry: &Entry, most: usize, out: &mut Vec<u8>) -> Result<()> {
        let start = self.data_offset(entry)?;
        out.clear();
        out.resize(most.min(usize::try_from(entry.bytes).unwrap_or(most)), 0);
        match entry.is_deflated() {
            false => read(self.file, start, out),
            true => inflate(&mut DeflateDecoder::new(&mut Packed::new(self.file, start, entry)), out),
        }
    }

    /// Offset of the data of `entry`: after its local header, which must match the directory.
    fn data_offset(&self, entry: &Entry) -> Result<u64> {
        let of_member = |what: &str| wrong(what).map_err(|error| error.of_member(&entry.name));
        let mut local = vec![0; LOCAL_BYTES + entry.name.len()];
        if entry.offset + local.len() as u64 > self.directory {
            return of_member("its header lies in the directory");
        }
        read(self.file, entry.offset, &mut local)?;
        let (fixed, name) = local.split_at(LOCAL_BYTES);
        let (flags, method) = (u16_at(fixed, 6), u16_at(fixed, 8));
        if fixed[..4] != *b"PK\x03\x04" {
            return of_member("no header at its offset in the directory");
        }
        let is_same = flags & ENCRYPTED == 0
            && (method == 8) == entry.is_deflated()
            && u16_at(fixed, 26) as usize == name.len()
            && name == entry.name.as_bytes()
            && (flags & FOLLOWED != 0 || u32_at(fixed, 14) == entry.crc);
        let is_length = |said: u32, bytes: u64| said == u32::MAX || flags & FOLLOWED != 0 || u64::from(said) == bytes;
        if !is_same || !is_length(u32_at(fixed, 18), entry.packed_bytes) || !is_length(u32_at(fixed, 22), entry.bytes) {
            return of_member("its header and the directory differ");
        }
        let start = entry.offset + local.len() as u64 + u64::from(u16_at(fixed, 28));
        match start + entry.packed_bytes > self.directory {
            true => of_member("its data overlaps the directory"),
            false => Ok(start),
        }
    }
}

/// Content of the local header of a member.
struct Local<'h> {
    name: &'h str,
    is_deflated: bool,
    crc: u32,
    bytes: u64,
    packed_bytes: u64,
}

impl<'h> Local<'h> {
    /// Parses the header at the beginning of `bytes`; also returns the rest. `None` if the header is missing or unsupported.
    fn parse(bytes: &'h [u8]) -> Option<(Self, &'h [u8])> {
        let (fixed, rest) =
            bytes.split_at_checked(LOCAL_BYTES).filter(|(fixed, _)| fixed.starts_with(b"PK\x03\x04"))?;
        let (name, rest) = rest.split_at_checked(u16_at(fixed, 26) as usize)?;
        let (extra, rest) = rest.split_at_checked(u16_at(fixed, 28) as usize)?;
        let [bytes, packed_bytes, _] = whole_lengths([u32_at(fixed, 22), u32_at(fixed, 18), 0], extra)?;
        let method = u16_at(fixed, 8);
        // Limited to the length of a component, which bounds the allocation.
        let is_read = u16_at(fixed, 6) & ENCRYPTED == 0 && matches!(method, 0 | 8) && bytes <= u64::from(u32::MAX);
        let (name, crc) = (str::from_utf8(name).ok().filter(|_| is_read)?, u32_at(fixed, 14));
        Some((Self { name, is_deflated: method == 8, crc, bytes, packed_bytes }, rest))
    }
}

/// The member whose header is at the beginning of `stored`, and its name; bytes after the member are ignored.
///
/// # Errors
/// If the member is corrupt, or missing.
pub(crate) fn member(stored: &[u8]) -> Result<(String, Vec<u8>)> {
    let gone = || Fault::Data("changed since it was planned: no array where it was".to_owned());
    let (local, rest) = Local::parse(stored).ok_or_else(gone)?;
    let of_member = |error: Fault| error.of_member(local.name);
    let packed = usize::try_from(local.packed_bytes).ok().and_then(|bytes| rest.get(..bytes)).ok_or_else(gone)?;
    if memory::admit(local.bytes).is_err() {
        return wrong(memory::too_long(local.bytes)).map_err(of_member);
    }
    let mut content = Vec::new();
    let mut left = &packed[..0];
    if local.is_deflated {
        let mut unpacked = DeflateDecoder::new(packed);
        // One byte more than there should be.
        Read::take(&mut unpacked, local.bytes.saturating_add(1))
            .read_to_end(&mut content)
            .map_err(failed)
            .map_err(of_member)?;
        left = unpacked.into_inner();
    } else {
        content.extend_from_slice(packed);
    }
    let mut crc = Crc::new();
    crc.update(&content);
    match content.len() as u64 == local.bytes && left.is_empty() && crc.sum() == local.crc {
        true => Ok((local.name.to_owned(), content)),
        false => wrong(format!(
            "damaged: {} bytes of CRC-32 {:08x}, {} and {:08x} in its header",
            content.len(),
            crc.sum(),
            local.bytes,
            local.crc
        ))
        .map_err(of_member),
    }
}

impl Iterator for Entries<'_> {
    type Item = Result<Entry>;

    fn next(&mut self) -> Option<Self::Item> {
        let mut rest = &self.bytes[self.at..];
        if self.left == 0 && rest.len() >= WRAPPED as usize * ENTRY_BYTES {
            // Archive Utility of macOS counts in 16 bits. Their number is right if the directory ends after the last one.
            self.left = WRAPPED;
        }
        if self.left == 0 {
            let unread = rest.len() as u64;
            self.at = self.bytes.len();
            return (unread > 0)
                .then(|| wrong(format!("{} after the last member of the directory", size::counted(unread, "byte"))));
        }
        let entry = Entry::take(&mut rest, self.offset);
        self.left -= 1;
        self.at = self.bytes.len() - rest.len();
        Some(entry)
    }
}

/// The compressed data of a member.
struct Packed<'f, R: ReadAt + ?Sized> {
    inner: BufReader<MemberRange<'f, R>>,
}

struct MemberRange<'f, R: ReadAt + ?Sized> {
    file: &'f R,
    at: u64,
    end: u64,
}

impl<R: ReadAt + ?Sized> Read for MemberRange<'_, R> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let bytes = out.len().min(usize::try_from(self.end - self.at).unwrap_or(usize::MAX));
        self.file.read_at(self.at, &mut out[..bytes])?;
        self.at += bytes as u64;
        Ok(bytes)
    }
}

impl<'f, R: ReadAt + ?Sized> Packed<'f, R> {
    fn new(file: &'f R, start: u64, entry: &Entry) -> Self {
        let part = MemberRange { file, at: start, end: start + entry.packed_bytes };
        let room = BUFFER_BYTES.min(usize::try_from(entry.packed_bytes).unwrap_or(BUFFER_BYTES)).max(1);
        Self { inner: BufReader::with_capacity(room, part) }
    }

    /// Bytes that nothing was made of.
    fn left(&self) -> u64 {
        let part = self.inner.get_ref();
        part.end - part.at + self.inner.buffer().len() as u64
    }
}

impl<R: ReadAt + ?Sized> Read for Packed<'_, R> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        self.inner.read(out)
    }
}

impl<R: ReadAt + ?Sized> BufRead for Packed<'_, R> {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        self.inner.fill_buf()
    }

    fn consume(&mut self, bytes: usize) {
        self.inner.consume(bytes);
    }
}

/// Where the directory is.
#[derive(PartialEq, Eq)]
struct End {
    members: u64,
    bytes: u64,
    offset: u64,
}

impl End {
    fn find<R: ReadAt + ?Sized>(file: &R, total_bytes: u64) -> Result<Self> {
        let mut first = [0; 4];
        if total_bytes < END_BYTES as u64 {
            return wrong("no zip file: too short for a directory");
        }
        read(file, 0, &mut first)?;
        if !first.starts_with(b"PK") {
            return wrong("no zip file by its first bytes");
        }
        let mut last = vec![0; (END_BYTES + 0xffff).min(usize::try_from(total_bytes).unwrap_or(usize::MAX))];
        // Without a comment, as numpy writes it, the last bytes suffice.
        let mut tail = vec![0; END_BYTES];
        read(file, total_bytes - END_BYTES as u64, &mut tail)?;
        if !Self::is_at(&tail) {
            read(file, total_bytes - last.len() as u64, &mut last)?;
            let starts = (0..=last.len() - END_BYTES).rev();
            let Some(start) = starts.into_iter().find(|start| Self::is_at(&last[*start..])) else {
                return wrong("truncated: a zip file without a directory at its end");
            };
            tail = last.split_off(start);
        }
        let at = total_bytes - tail.len() as u64;
        let [disk, of_disk, here, members] = [4, 6, 8, 10].map(|at| u16_at(&tail, at));
        let [bytes, offset] = [12, 16].map(|at| u32_at(&tail, at));
        let is_zip64 = [disk, of_disk, here, members].contains(&u16::MAX) || [bytes, offset].contains(&u32::MAX);
        let (end, at) = match is_zip64 {
            true => Self::find64(file, at)?,
            false => {
                if disk != 0 || of_disk != 0 || here != members {
                    return wrong("one of several files of an archive");
                }
                let plain = Self { members: members.into(), bytes: bytes.into(), offset: offset.into() };
                // Some writers add the end of zip64 although all numbers fit.
                match (!plain.ends_at(at)).then(|| Self::find64(file, at)) {
                    Some(Ok(found)) if found.0 == plain => found,
                    Some(Err(error @ Fault::Io(_))) => return Err(error),
                    None | Some(_) => (plain, at),
                }
            }
        };
        // Readers disagree on the position of bytes before or between the parts.
        match end.ends_at(at) && end.members.saturating_mul(ENTRY_BYTES as u64) <= end.bytes {
            true => Ok(end),
            false => wrong(format!(
                "a directory of {} members in {} bytes at byte {}, which should end at byte {at}",
                end.members, end.bytes, end.offset
            )),
        }
    }

    fn ends_at(&self, at: u64) -> bool {
        self.offset.checked_add(self.bytes) == Some(at)
    }

    /// Whether these bytes are the end of a directory, to the last one.
    fn is_at(bytes: &[u8]) -> bool {
        bytes.starts_with(b"PK\x05\x06") && END_BYTES + usize::from(u16_at(bytes, 20)) == bytes.len()
    }

    /// That of zip64 whose plain one begins at `at`; also where it begins.
    fn find64<R: ReadAt + ?Sized>(file: &R, at: u64) -> Result<(Self, u64)> {
        let lies = || wrong("its zip64 directory is not at the expected offset");
        let Some(locator_at) = at.checked_sub(LOCATOR_BYTES) else { return lies() };
        let (mut locator, mut end) = ([0; LOCATOR_BYTES as usize], [0; END64_BYTES]);
        read(file, locator_at, &mut locator)?;
        let start = u64_at(&locator, 8);
        if !locator.starts_with(b"PK\x06\x07") || start.checked_add(END64_BYTES as u64) != Some(locator_at) {
            return lies();
        }
        read(file, start, &mut end)?;
        let is_whole = end.starts_with(b"PK\x06\x06") && u64_at(&end, 4) == END64_BYTES as u64 - 12;
        let [here, members, bytes, offset] = [24, 32, 40, 48].map(|at| u64_at(&end, at));
        if !is_whole || here != members || u32_at(&end, 16) != 0 || u32_at(&end, 20) != 0 {
            return lies();
        }
        Ok((Self { members, bytes, offset }, start))
    }
}

impl Entry {
    /// Takes the next one off a directory that begins at `directory`. [`Entry::check`] tells whether it can be read.
    fn take(rest: &mut &[u8], directory: u64) -> Result<Self> {
        let cut = || Fault::Data("damaged: its directory ends within a member".to_owned());
        let (fixed, after) = rest.split_at_checked(ENTRY_BYTES).ok_or_else(cut)?;
        if !fixed.starts_with(b"PK\x01\x02") {
            return wrong("damaged: no member where its directory has one");
        }
        let [name_bytes, extra_bytes, comment_bytes] = [28, 30, 32].map(|at| u16_at(fixed, at) as usize);
        let (name, after) = after.split_at_checked(name_bytes).ok_or_else(cut)?;
        let (extra, after) = after.split_at_checked(extra_bytes).ok_or_else(cut)?;
        let (_, after) = after.split_at_checked(comment_bytes).ok_or_else(cut)?;
        *rest = after;
        let Ok(name) = str::from_utf8(name) else {
            return wrong(format!("member {:?}: a name that is not UTF-8", text::shown(name)));
        };
        let of_member = |what: String| wrong(what).map_err(|error| error.of_member(name));
        let [packed, bytes, offset] = [20, 24, 42].map(|at| u32_at(fixed, at));
        let Some([bytes, packed_bytes, offset]) = whole_lengths([bytes, packed, offset], extra) else {
            return of_member("its zip64 lengths are missing".to_owned());
        };
        let end = offset.checked_add(packed_bytes);
        if u16_at(fixed, 34) != 0 || end.is_none_or(|end| end > directory) {
            return of_member(format!(
                "{packed_bytes} bytes at byte {offset}, the directory begins at byte {directory}"
            ));
        }
        if name.contains(['\\', '\0']) {
            return of_member(
                "its name has a backslash, which readers take for a slash or a part of the name".to_owned(),
            );
        }
        if name.starts_with('/') || name.split('/').any(|part| part == "..") {
            return of_member("its name leads out of the file".to_owned());
        }
        let (flags, method, crc) = (u16_at(fixed, 8), u16_at(fixed, 10), u32_at(fixed, 16));
        let is_link = fixed[5] == UNIX && u16_at(fixed, 40) & MODE_KIND == MODE_LINK;
        Ok(Self { name: name.to_owned(), bytes, crc, flags, method, is_link, packed_bytes, offset })
    }

    /// Fails if the member is of a kind that is not read, or its lengths contradict each other.
    ///
    /// # Errors
    /// The message does not name the member.
    pub fn check(&self) -> Result<()> {
        let Self { bytes, packed_bytes, method, .. } = *self;
        if self.flags & ENCRYPTED != 0 {
            return wrong("is encrypted");
        }
        if !matches!(method, 0 | 8) {
            return wrong(format!("is packed by method {method}; 0 (stored) and 8 (deflate) are read"));
        }
        if self.is_link {
            return wrong("is a symbolic link");
        }
        if !self.is_deflated() && packed_bytes != bytes {
            return wrong(format!("is stored in {packed_bytes} bytes, and {bytes} long"));
        }
        if bytes > packed_bytes.saturating_mul(MAX_RATIO).saturating_add(MAX_RATIO) {
            return wrong(format!("{bytes} bytes of {packed_bytes} packed, more than deflate can pack"));
        }
        Ok(())
    }

    pub fn is_deflated(&self) -> bool {
        self.method == 8
    }

    /// Range that has the header and the first `most_packed` bytes of the data, if the header has at most `most_extra_bytes` of extra fields.
    pub fn about(&self, most_extra_bytes: u64, most_packed: u64) -> Range<u64> {
        let header = (LOCAL_BYTES + self.name.len()) as u64 + most_extra_bytes;
        self.offset..self.offset + header + self.packed_bytes.min(most_packed)
    }
}

/// Length, compressed length and offset of a member; fields of all ones are taken from its zip64 field; `None` if that field
/// lacks them.
fn whole_lengths(said: [u32; 3], mut extra: &[u8]) -> Option<[u64; 3]> {
    let mut field: &[u8] = &[];
    while let Some((head, rest)) = extra.split_at_checked(4) {
        let (content, rest) = rest.split_at_checked(u16_at(head, 2) as usize)?;
        if u16_at(head, 0) == 1 {
            field = content;
        }
        extra = rest;
    }
    let mut whole = [0; 3];
    for (whole, said) in whole.iter_mut().zip(said) {
        *whole = match said {
            u32::MAX => {
                let (number, rest) = field.split_at_checked(8)?;
                field = rest;
                u64_at(number, 0)
            }
            said => said.into(),
        };
    }
    Some(whole)
}

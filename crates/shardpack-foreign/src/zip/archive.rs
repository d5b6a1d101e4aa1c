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

use super::{
    Fault, ReadAt, Result,
    end::End,
    extra::{unicode_name, whole_lengths},
    failed, inflate, read, u16_at, u32_at, wrong,
};

/// The end of a directory, without the comment of the file.
pub(crate) const END_BYTES: usize = 22;
pub(super) const ENTRY_BYTES: usize = 46;
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
    /// The bytes of the name in both headers, if they are not those of `name`.
    stored_name: Option<Vec<u8>>,
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
    /// Bytes of another program before the archive, from whose end offsets count.
    before: u64,
}

/// Iterates over the members of a directory.
pub(crate) struct Entries<'d> {
    bytes: &'d [u8],
    /// Offset of the next member in the directory.
    pub at: usize,
    /// How many are to come.
    left: u64,
    /// As in [`Directory`].
    offset: u64,
    before: u64,
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
        let End { members, bytes, offset, before } = End::find(file, total_bytes)?;
        check(members)?;
        if bytes > most_bytes {
            return wrong(format!("a directory of {bytes} bytes, of {members} members"));
        }
        // The end of the directory is in the file, and so is its beginning.
        let mut directory = Self { bytes: vec![0; bytes as usize], members, offset: offset + before, before };
        read(file, directory.offset, &mut directory.bytes)?;
        Ok(directory)
    }

    /// Its members, in order.
    pub fn entries(&self) -> Entries<'_> {
        Entries { bytes: &self.bytes, at: 0, left: self.members, offset: self.offset, before: self.before }
    }

    /// The member at offset `at` of the directory.
    ///
    /// # Errors
    /// If it is invalid.
    pub fn entry(&self, at: usize) -> Result<Entry> {
        Entry::take(&mut self.bytes.get(at..).unwrap_or_default(), self.offset, self.before)
    }

    /// The name of the member at offset `at` of the directory, which [`Entries`] has passed.
    pub fn name(&self, at: usize) -> &[u8] {
        let fixed = self.bytes.get(at..).unwrap_or_default();
        let [name_bytes, extra_bytes] = [28, 30].map(|at| u16_at(fixed, at) as usize);
        let name = fixed.get(ENTRY_BYTES..ENTRY_BYTES + name_bytes).unwrap_or_default();
        let extra = fixed.get(ENTRY_BYTES + name_bytes..ENTRY_BYTES + name_bytes + extra_bytes);
        extra.and_then(|extra| unicode_name(name, extra)).map_or(name, str::as_bytes)
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
        let stored_name = entry.stored_name();
        let mut local = vec![0; LOCAL_BYTES + stored_name.len()];
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
            && name == stored_name
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
        let entry = Entry::take(&mut rest, self.offset, self.before);
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

impl Entry {
    /// Takes the next one off a directory that begins at `directory`, in an archive that `before` bytes precede. [`Entry::check`] tells whether it can be read.
    fn take(rest: &mut &[u8], directory: u64, before: u64) -> Result<Self> {
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
        let stored = name;
        let Some(name) = unicode_name(stored, extra).or_else(|| str::from_utf8(stored).ok()) else {
            return wrong(format!(
                "member {:?}: a name that is not UTF-8, in a code page that the archive does not name: unpack it where it was made",
                text::shown(stored)
            ));
        };
        let of_member = |what: String| wrong(what).map_err(|error| error.of_member(name));
        let [packed, bytes, offset] = [20, 24, 42].map(|at| u32_at(fixed, at));
        let Some([bytes, packed_bytes, offset]) = whole_lengths([bytes, packed, offset], extra) else {
            return of_member("its zip64 lengths are missing".to_owned());
        };
        let offset = offset.saturating_add(before);
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
        let stored_name = (stored != name.as_bytes()).then(|| stored.to_vec());
        Ok(Self { name: name.to_owned(), stored_name, bytes, crc, flags, method, is_link, packed_bytes, offset })
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

    fn stored_name(&self) -> &[u8] {
        self.stored_name.as_deref().unwrap_or(self.name.as_bytes())
    }

    /// Range that has the header and the first `most_packed` bytes of the data, if the header has at most `most_extra_bytes` of extra fields.
    pub fn about(&self, most_extra_bytes: u64, most_packed: u64) -> Range<u64> {
        let header = (LOCAL_BYTES + self.stored_name().len()) as u64 + most_extra_bytes;
        self.offset..self.offset + header + self.packed_bytes.min(most_packed)
    }
}

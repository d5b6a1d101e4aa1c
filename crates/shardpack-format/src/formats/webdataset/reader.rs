//! Reader walks the members of a tar file, trusting nothing in it.
//!
//! Holds at all times: a size is checked against the length of the file, where that is known, before it is used; at
//! most 1 MiB is allocated for a name; each step goes forward by a block or more; a link is reported, never followed.
//! Where tar readers disagree, it does as Python's tarfile, with which webdataset reads, or it refuses.
//! Source: POSIX.1-2017, pax, "ustar Interchange Format" and "pax Interchange Format"; GNU tar manual, "Basic Tar
//! Format".

use std::io::{self, Read};

use super::{
    escape::shown,
    header::{
        BLOCK_BYTES, Block, MAGIC, NAME, Pax, SIZE, TYPE, check_numbers, check_sum, header_name, size_field, until_nul,
    },
};
use crate::{
    error::{Error, Result},
    formats::foreign::{Skip, fill, unreadable},
    memory,
};

const EXTENSION_LIMIT_BYTES: u64 = 1 << 20;
const COPY_BYTES: usize = 256 << 10;
// Where an old GNU header of a sparse member, and a block of its map, say that a block of the map follows.
const SPARSE_GOES_ON: usize = 482;
const MAP_GOES_ON: usize = 504;

/// The type of a member.
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
    /// A regular file without its holes: its data is not the file.
    Sparse,
    /// Any other type byte: devices, FIFOs, and vendor extensions.
    Other(u8),
}

/// A member of a tar file, with the facts from all of its headers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    /// Name as stored, neither cleaned nor necessarily UTF-8; slashes at the end of a folder's name or of a PAX path
    /// are dropped, as tarfile does.
    pub name: Vec<u8>,
    /// Its type.
    pub kind: MemberKind,
    /// Offset of the first header that is its own: a PAX or GNU one, if it has one, else the USTAR header.
    pub header_offset: u64,
    /// Offset of its data, a multiple of 512.
    pub data_offset: u64,
    /// Length of its data, without padding; 0 for links, folders and devices, whatever their header has.
    pub bytes: u64,
    /// Whether a single POSIX USTAR header describes the member: no GNU or PAX header before it or for the whole file, and no
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
/// No member follows an error, except after a limit in [`Reader::read_data`]: the start of the next member is
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

    /// Skips the rest of the current member and returns the next; `None` at the end and after an error.
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

    /// Replaces `out` by the unread rest of the member's data; fails without reading if the rest is more than `max`
    /// bytes.
    pub fn read_data(&mut self, out: &mut Vec<u8>, max: u64) -> Result<()> {
        let bytes = self.data_end.saturating_sub(self.position);
        if bytes > max {
            let what = format!("member {}: {bytes} bytes, the limit is {max}", shown(&self.name));
            return Err(Error::data(what).at_byte(self.header_offset));
        }
        out.clear();
        if self.total_bytes.is_some() {
            memory::make_room(out, bytes).map_err(|error| error.at_byte(self.header_offset))?;
        }
        self.read_bytes(out, bytes)
    }

    /// Replaces `out` by the first bytes of the unread rest of the member's data, at most `most`.
    pub fn read_first(&mut self, out: &mut Vec<u8>, most: u64) -> Result<()> {
        out.clear();
        self.read_bytes(out, self.data_end.saturating_sub(self.position).min(most))
    }

    /// Reads the next `bytes` of the member's data into `out`, which is empty.
    fn read_bytes(&mut self, out: &mut Vec<u8>, bytes: u64) -> Result<()> {
        if let Err(error) = memory::admit(bytes) {
            return self.fail(error.at_byte(self.position));
        }
        let read = Read::take(&mut self.inner, bytes).read_to_end(out);
        self.position += out.len() as u64;
        match read {
            Ok(read) if read as u64 == bytes => Ok(()),
            Ok(_) => self.fail(self.truncated("data", self.data_end)),
            Err(error) => self.fail(unreadable(error, self.position)),
        }
    }

    /// Passes the unread rest of the member's data to `sink`, piece by piece; the size of the pieces has no meaning.
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

    /// How far the file has been read or passed over.
    pub(super) fn position(&self) -> u64 {
        self.position
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

    /// Offset of the first byte after the end marker that is not zero; no reader reads the bytes there.
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
                // Solaris wrote `X` before POSIX defined `x`.
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
        let is_sparse = pax.is_sparse || block[TYPE] == b'S';
        let mut name = match (pax.sparse_name.or(pax.path), announced.long_name) {
            (Some(path), Some(long)) if path != long => {
                return Err(Error::data("its GNU long name and its PAX path differ").at_byte(header_offset));
            }
            (Some(path), _) => path,
            (None, Some(long)) => long,
            (None, None) => header_name(block),
        };
        let kind = match block[TYPE] {
            b'S' => MemberKind::Sparse,
            0 | b'0' | b'7' if is_sparse => MemberKind::Sparse,
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
            MemberKind::File | MemberKind::Sparse => true,
            MemberKind::HardLink | MemberKind::SymLink | MemberKind::Folder => false,
            // Devices and FIFOs have no data, like the types above; an unknown type has the length in its header.
            MemberKind::Other(flag) => !matches!(flag, b'3' | b'4' | b'6'),
        };
        let stated = size_field(block, offset)?;
        let bytes = if has_data { pax.size.unwrap_or(stated) } else { 0 };
        let is_ustar = block[MAGIC] == *b"ustar\x0000" && block[SIZE.start] < 0x80;
        let plain = is_ustar && header_offset == offset && !self.global_header;
        let mut map_goes_on = block[TYPE] == b'S' && block[SPARSE_GOES_ON] != 0;
        while map_goes_on {
            let mut map = [0; BLOCK_BYTES];
            if self.read_up_to(&mut map)? < BLOCK_BYTES {
                let what = format!("member {}: the file ends within its map of holes", shown(&name));
                return Err(Error::data(what).at_byte(header_offset));
            }
            map_goes_on = map[MAP_GOES_ON] != 0;
        }
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

    /// The next header, or `None` at the end of the file.
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

    /// Fills `buffer` as far as the file goes; returns the number of bytes.
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

/// The facts from PAX and GNU headers about the next member.
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

fn first_nonzero(bytes: &[u8]) -> Option<usize> {
    bytes.iter().position(|byte| *byte != 0)
}

#[cfg(test)]
mod tests;

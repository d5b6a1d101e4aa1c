//! Finds the directory of a zip archive, also of one that unpacks itself: a program comes first, and offsets count from the start of the
//! file or from the end of the program.

use super::{
    Fault, ReadAt, Result,
    archive::{END_BYTES, ENTRY_BYTES},
    read, u16_at, u32_at, u64_at, wrong,
};

/// Length of the locator of the zip64 directory end.
const LOCATOR_BYTES: u64 = 20;
const END64_BYTES: usize = 56;

/// Where the directory is.
#[derive(PartialEq, Eq)]
pub(super) struct End {
    pub members: u64,
    /// Length of the directory.
    pub bytes: u64,
    /// Offset of the directory, behind `before`.
    pub offset: u64,
    /// Bytes of another program before the archive, from whose end offsets count.
    pub before: u64,
}

impl End {
    /// Finds it in a file of `total_bytes` bytes.
    ///
    /// # Errors
    /// If the file is no archive, or its parts contradict each other.
    pub fn find<R: ReadAt + ?Sized>(file: &R, total_bytes: u64) -> Result<Self> {
        let mut first = [0; 4];
        if total_bytes < END_BYTES as u64 {
            return wrong("no zip file: too short for a directory");
        }
        read(file, 0, &mut first)?;
        // The program of an archive that unpacks itself.
        let is_behind = !first.starts_with(b"PK");
        let mut last = vec![0; (END_BYTES + 0xffff).min(usize::try_from(total_bytes).unwrap_or(usize::MAX))];
        // Without a comment, as numpy writes it, the last bytes suffice.
        let mut tail = vec![0; END_BYTES];
        read(file, total_bytes - END_BYTES as u64, &mut tail)?;
        if !Self::is_at(&tail) {
            read(file, total_bytes - last.len() as u64, &mut last)?;
            let starts = (0..=last.len() - END_BYTES).rev();
            let Some(start) = starts.into_iter().find(|start| Self::is_at(&last[*start..])) else {
                if is_behind {
                    return wrong("no zip file by its first bytes");
                }
                return wrong("truncated: a zip file without a directory at its end");
            };
            tail = last.split_off(start);
        }
        let at = total_bytes - tail.len() as u64;
        let [disk, of_disk, here, members] = [4, 6, 8, 10].map(|at| u16_at(&tail, at));
        let [bytes, offset] = [12, 16].map(|at| u32_at(&tail, at));
        let is_zip64 = [disk, of_disk, here, members].contains(&u16::MAX) || [bytes, offset].contains(&u32::MAX);
        let (end, at) = match is_zip64 {
            true => Self::find64(file, at, is_behind)?,
            false => {
                if disk != 0 || of_disk != 0 || here != members {
                    return wrong("one of several files of an archive");
                }
                let plain = Self { members: members.into(), bytes: bytes.into(), offset: offset.into(), before: 0 };
                // Some writers add the end of zip64 although all numbers fit.
                match (!plain.ends_at(at)).then(|| Self::find64(file, at, is_behind)) {
                    Some(Ok(found)) if found.0 == plain => found,
                    Some(Err(error @ Fault::Io(_))) => return Err(error),
                    None | Some(_) => (plain, at),
                }
            }
        };
        let end = if is_behind { end.behind(file, at)? } else { end };
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
        self.offset.checked_add(self.bytes).and_then(|end| end.checked_add(self.before)) == Some(at)
    }

    /// The same for an archive behind a program: offsets count from the start of the file or of the archive, whose first member proves
    /// it.
    fn behind<R: ReadAt + ?Sized>(self, file: &R, at: u64) -> Result<Self> {
        let no_zip = || wrong("no zip file by its first bytes");
        let Some(before) = self.offset.checked_add(self.bytes).and_then(|end| at.checked_sub(end)) else {
            return no_zip();
        };
        let (end, mut entry) = (Self { before, ..self }, [0; ENTRY_BYTES]);
        if end.members == 0 || end.bytes < ENTRY_BYTES as u64 {
            return no_zip();
        }
        read(file, end.offset + before, &mut entry)?;
        let mut local = [0; 4];
        if entry.starts_with(b"PK\x01\x02") && u32_at(&entry, 42) != u32::MAX {
            read(file, u64::from(u32_at(&entry, 42)) + before, &mut local)?;
        }
        if local == *b"PK\x03\x04" { Ok(end) } else { no_zip() }
    }

    /// Whether these bytes are the end of a directory, to the last one.
    fn is_at(bytes: &[u8]) -> bool {
        bytes.starts_with(b"PK\x05\x06") && END_BYTES + usize::from(u16_at(bytes, 20)) == bytes.len()
    }

    /// That of zip64 whose plain one begins at `at`; also where it begins. Offsets of an archive that `is_behind` a program may not count
    /// from the start of the file.
    fn find64<R: ReadAt + ?Sized>(file: &R, at: u64, is_behind: bool) -> Result<(Self, u64)> {
        let lies = || wrong("its zip64 directory is not at the expected offset");
        let Some(locator_at) = at.checked_sub(LOCATOR_BYTES) else { return lies() };
        let (mut locator, mut end) = ([0; LOCATOR_BYTES as usize], [0; END64_BYTES]);
        read(file, locator_at, &mut locator)?;
        let start = match locator_at.checked_sub(END64_BYTES as u64) {
            Some(start) if is_behind => start,
            _ => u64_at(&locator, 8),
        };
        if !locator.starts_with(b"PK\x06\x07") || start.checked_add(END64_BYTES as u64) != Some(locator_at) {
            return lies();
        }
        read(file, start, &mut end)?;
        let is_whole = end.starts_with(b"PK\x06\x06") && u64_at(&end, 4) == END64_BYTES as u64 - 12;
        let [here, members, bytes, offset] = [24, 32, 40, 48].map(|at| u64_at(&end, at));
        if !is_whole || here != members || u32_at(&end, 16) != 0 || u32_at(&end, 20) != 0 {
            return lies();
        }
        Ok((Self { members, bytes, offset, before: 0 }, start))
    }
}

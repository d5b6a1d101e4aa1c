//! Reads unpacked bytes of one shard by range, with positional reads and no shared file position.

use std::{cell::Cell, ops::Range, path::PathBuf, sync::Arc};

use shardpack_format::{
    Error, Result,
    formats::{self, Choice},
    help,
    manifest::Manifest,
    seekable::{FOOTER_BYTES, Frame, SeekTable},
};
use shardpack_storage::Access;

use crate::{
    buffer::make_room,
    shard_files::ShardFiles,
    unpack::Unpacker,
    window::{Scratch, Window},
};

/// How the shards of a dataset are compressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Compression {
    None,
    /// One frame for each block, and a seek table.
    Zstd,
    /// A single frame; or as `Zstd`, if there is a seek table.
    ZstdWhole,
}

impl Compression {
    /// Compression of the shards of a dataset.
    ///
    /// # Errors
    /// When the format or the compression is unknown.
    pub fn from_manifest(manifest: &Manifest) -> Result<Self> {
        match Self::parse(&manifest.format.compression)? {
            Self::Zstd if formats::open(&Choice::of_manifest(manifest)?)?.is_one_frame() => Ok(Self::ZstdWhole),
            compression => Ok(compression),
        }
    }

    /// Parses `format.compression` of a manifest.
    ///
    /// # Errors
    /// When it is neither `none` nor `zstd:LEVEL`.
    fn parse(text: &str) -> Result<Self> {
        match text.split_once(':') {
            None if text == "none" => Ok(Self::None),
            Some(("zstd", _)) => Ok(Self::Zstd),
            _ => Err(Error::data(format!("compression {text:?}, this program reads \"none\" and \"zstd:LEVEL\""))
                .help(help::OTHER_VERSION)),
        }
    }
}

/// An open shard.
pub(crate) struct Content {
    files: Arc<ShardFiles>,
    shard: usize,
    path: PathBuf,
    /// Length of the unpacked shard in bytes.
    bytes: u64,
    /// Seek table of a compressed shard.
    frames: Option<SeekTable>,
    /// Packed bytes in one read; a longer frame is read alone.
    together_bytes: u64,
}

impl Content {
    /// Opens shard `shard` of `files`, which is `file_bytes` long and `bytes` when unpacked; errors name it `path`.
    ///
    /// # Errors
    /// When the shard is missing, its seek table is invalid, or its decoder is not built in.
    pub fn open(
        files: &Arc<ShardFiles>,
        shard: usize,
        path: PathBuf,
        (file_bytes, bytes): (u64, u64),
        compression: Compression,
    ) -> Result<Self> {
        files.open(shard)?;
        let Access { together_bytes, tail_bytes, .. } = files.access();
        let tail_bytes = tail_bytes.max(FOOTER_BYTES as u64);
        let first = Cell::new(file_bytes);
        let read = |offset: u64, into: &mut [u8]| {
            first.set(first.get().min(offset));
            files.read(shard, offset, into)
        };
        let frames = match compression {
            Compression::None => Ok(None),
            Compression::Zstd | Compression::ZstdWhole => {
                let may_be_one = compression == Compression::ZstdWhole;
                Unpacker::new().and_then(|_| read_table(&read, file_bytes, bytes, tail_bytes, may_be_one)).map(Some)
            }
        };
        // The cache may hold a seek table that was corrupted in transfer: the next read fetches it again.
        let frames = frames.inspect_err(|_| files.forget(shard, first.get()..file_bytes));
        let frames = frames.map_err(|error| error.in_file(&path))?;
        Ok(Self { files: Arc::clone(files), shard, path, bytes, frames, together_bytes })
    }

    /// End of a read that starts with `needed` and takes about `wish_bytes`: at least the end of `needed`.
    pub fn stretch(&self, needed: &Range<u64>, wish_bytes: usize) -> u64 {
        let end = match &self.frames {
            None => needed.start.saturating_add(wish_bytes as u64).min(self.bytes),
            Some(frames) => frames
                .frame_at(needed.end.saturating_sub(1))
                .map_or(needed.end, |frame| frame.offset + u64::from(frame.bytes)),
        };
        end.max(needed.end)
    }

    /// Fills `window`, which is empty or holds bytes of this shard, with bytes `needed` of the shard.
    ///
    /// # Errors
    /// When the bytes cannot be read or unpacked; then the window is empty.
    pub fn fill(&self, window: &mut Window, scratch: &mut Scratch, needed: Range<u64>) -> Result<()> {
        if needed.is_empty() || window.get(needed.clone()).is_some() {
            return Ok(());
        }
        window.clear();
        if needed.end > self.bytes {
            return Err(Error::data(format!("bytes {}–{} of {}", needed.start, needed.end, self.bytes)));
        }
        let filled = match &self.frames {
            None => self.read_into(&mut window.bytes, needed.clone()).map(|held| (needed.start, held)),
            Some(frames) => self.unpack_into(window, scratch, frames, needed),
        };
        let (start, held) = filled.map_err(|error| error.in_file(&self.path))?;
        (window.start, window.held) = (start, held);
        Ok(())
    }

    /// Reads bytes `range` of the unpacked shard into `out` and sets its length.
    ///
    /// # Errors
    /// As [`Content::fill`].
    pub fn read(&self, range: Range<u64>, out: &mut Vec<u8>) -> Result<()> {
        if self.frames.is_none() && range.end <= self.bytes {
            let held = self.read_into(out, range).map_err(|error| error.in_file(&self.path))?;
            out.truncate(held);
            return Ok(());
        }
        let mut window = Window::default();
        self.fill(&mut window, &mut Scratch::default(), range.clone())?;
        out.clear();
        out.extend_from_slice(window.get(range).unwrap_or_default());
        Ok(())
    }

    /// Whether no part of the shard can be unpacked alone.
    pub fn is_one_frame(&self) -> bool {
        self.frames.as_ref().is_some_and(|frames| frames.frames().len() == 1)
    }

    /// The whole unpacked shard.
    ///
    /// # Errors
    /// As [`Content::fill`].
    pub fn whole(&self) -> Result<Vec<u8>> {
        let mut window = Window::default();
        self.fill(&mut window, &mut Scratch::default(), 0..self.bytes)?;
        window.bytes.truncate(window.held);
        Ok(window.bytes)
    }

    /// Bytes `range` of `whole`.
    ///
    /// # Errors
    /// When `whole` is too short.
    pub fn part<'w>(&self, whole: &'w [u8], range: Range<u64>) -> Result<&'w [u8]> {
        let ends = usize::try_from(range.start).ok().zip(usize::try_from(range.end).ok());
        let part = ends.and_then(|(start, end)| whole.get(start..end));
        let beyond = || Error::data(format!("bytes {}–{} of {}", range.start, range.end, self.bytes));
        part.ok_or_else(|| beyond().in_file(&self.path))
    }

    /// Marks bytes `range` of the unpacked shard as wrong: the next read bypasses caches.
    pub fn forget(&self, range: &Range<u64>) {
        let Some(frames) = &self.frames else { return self.files.forget(self.shard, range.clone()) };
        let ends = frames.frame_at(range.start).zip(frames.frame_at(range.end.saturating_sub(1)));
        if let Some((first, last)) = ends {
            self.files.forget(self.shard, first.packed_offset..last.packed_offset + u64::from(last.packed_bytes));
        }
    }

    fn read_into(&self, out: &mut Vec<u8>, range: Range<u64>) -> Result<usize> {
        let length = range.end.saturating_sub(range.start);
        let length = usize::try_from(length).map_err(|_| Error::data(format!("a record of {length} bytes")))?;
        make_room(out, length)?;
        self.files.read(self.shard, range.start, out.get_mut(..length).unwrap_or_default())?;
        Ok(length)
    }

    /// Unpacks the frames of `needed` into `window`; returns the start of the window in the unpacked shard and its
    /// length.
    fn unpack_into(
        &self,
        window: &mut Window,
        scratch: &mut Scratch,
        frames: &SeekTable,
        needed: Range<u64>,
    ) -> Result<(u64, usize)> {
        let beyond = || Error::data("the seek table has no such frame").at_byte(needed.start);
        let first = *frames.frame_at(needed.start).ok_or_else(beyond)?;
        let (mut frame, mut held) = (first, 0);
        loop {
            // Frames that are read together.
            let (mut together, mut end) = (vec![frame], end_of(&frame));
            let mut packed_bytes = u64::from(frame.packed_bytes);
            while end < needed.end
                && let Some(next) = frames.frame_at(end)
                && packed_bytes + u64::from(next.packed_bytes) <= self.together_bytes
            {
                packed_bytes += u64::from(next.packed_bytes);
                end = end_of(next);
                together.push(*next);
            }
            self.unpack_frames(window, scratch, &together, held)
                .map_err(|error| error.at_byte(frame.packed_offset).help(help::COPY_AGAIN))?;
            held += together.iter().map(|frame| frame.bytes as usize).sum::<usize>();
            if end >= needed.end {
                return Ok((first.offset, held));
            }
            frame = *frames.frame_at(end).ok_or_else(beyond)?;
        }
    }

    /// Reads and unpacks adjacent frames to offset `at` of the window.
    fn unpack_frames(&self, window: &mut Window, scratch: &mut Scratch, frames: &[Frame], mut at: usize) -> Result<()> {
        let packed_bytes = frames.iter().map(|frame| frame.packed_bytes as usize).sum();
        make_room(&mut scratch.packed, packed_bytes)?;
        let mut packed = scratch.packed.get_mut(..packed_bytes).unwrap_or_default();
        let Some(first) = frames.first() else { return Ok(()) };
        self.files.read(self.shard, first.packed_offset, packed)?;
        let unpacker = match &mut scratch.unpacker {
            Some(unpacker) => unpacker,
            none => none.insert(Unpacker::new()?),
        };
        for frame in frames {
            let (this, rest) = packed.split_at_mut(frame.packed_bytes as usize);
            unpacker.unpack(this, frame.bytes, &mut window.bytes, at).map_err(|error| {
                let end = frame.packed_offset + u64::from(frame.packed_bytes);
                self.files.forget(self.shard, frame.packed_offset..end);
                error.at_byte(frame.packed_offset)
            })?;
            at += frame.bytes as usize;
            packed = rest;
        }
        Ok(())
    }
}

/// End of a frame in the unpacked shard.
fn end_of(frame: &Frame) -> u64 {
    frame.offset + u64::from(frame.bytes)
}

/// Reads the seek table of a file of `file_bytes` that unpacks to `bytes`; the first read takes the last `tail_bytes`.
/// `may_be_one` allows a file without a table: a single frame.
fn read_table(
    read: &dyn Fn(u64, &mut [u8]) -> Result<()>,
    file_bytes: u64,
    bytes: u64,
    tail_bytes: u64,
    may_be_one: bool,
) -> Result<SeekTable> {
    let too_short = || Error::data(format!("{file_bytes} bytes: too short to end in a zstd seek table"));
    if file_bytes < FOOTER_BYTES as u64 {
        return Err(too_short());
    }
    let mut table = vec![0; tail_bytes.min(file_bytes) as usize];
    read(file_bytes - table.len() as u64, &mut table)?;
    let footer = table.last_chunk::<FOOTER_BYTES>().ok_or_else(too_short)?;
    let table_bytes = match SeekTable::table_bytes_if_any(footer)? {
        None if may_be_one => return SeekTable::of_one(file_bytes, bytes),
        _ => SeekTable::table_bytes(footer)?,
    };
    let table_at = file_bytes.checked_sub(table_bytes).ok_or_else(too_short)?;
    // At most the length of the file, which was subtracted above.
    let table_length = usize::try_from(table_bytes).map_err(|_| too_short())?;
    if let Some(start) = table.len().checked_sub(table_length) {
        table.drain(..start);
    } else {
        table.clear();
        make_room(&mut table, table_length)?;
        read(table_at, &mut table)?;
    }
    let table = SeekTable::read(&table, file_bytes)?;
    match table.end().1 {
        end if end == bytes => Ok(table),
        end => Err(Error::data(format!("zstd seek table: the frames hold {end} bytes, {bytes} in the index"))),
    }
}

#[cfg(test)]
mod tests {
    use std::{fs::File, path::Path};

    use shardpack_format::manifest;
    use shardpack_storage::{Local, Transfers};
    use shardpack_testing::Packing;

    use super::*;

    /// A manifest with one shard.
    fn manifest() -> Manifest {
        let folder = tempfile::tempdir().unwrap();
        Packing::default().pack(folder.path(), &[b"a".to_vec()]);
        Manifest::read(&std::fs::read(folder.path().join(manifest::FILE)).unwrap()).unwrap()
    }

    fn open(path: &Path, file_bytes: u64, bytes: u64, compression: Compression) -> Result<Content> {
        let mut manifest = manifest();
        manifest.shards[0].file = path.file_name().unwrap().to_str().unwrap().to_owned();
        manifest.shards[0].bytes = file_bytes;
        let storage = Arc::new(Local::new(path.parent().unwrap()));
        let files = Arc::new(ShardFiles::new(storage, Arc::new(manifest), None, Transfers::default()));
        Content::open(&files, 0, path.to_path_buf(), (file_bytes, bytes), compression)
    }

    fn bytes(length: usize) -> Vec<u8> {
        (0..length).map(|n| (n * n / 7) as u8).collect()
    }

    /// A plain shard and, if built in, a compressed shard with the same content in frames of 1,000 bytes.
    fn contents(folder: &Path, content: &[u8]) -> Vec<Content> {
        let path = folder.join("plain");
        std::fs::write(&path, content).unwrap();
        let length = content.len() as u64;
        let mut all = vec![open(&path, length, length, Compression::None).unwrap()];
        #[cfg(feature = "zstd")]
        {
            let (mut table, mut packed) = (SeekTable::default(), Vec::new());
            for part in content.chunks(1000) {
                let frame = zstd::bulk::compress(part, 1).unwrap();
                table.push(frame.len(), part.len()).unwrap();
                packed.extend(frame);
            }
            packed.extend(table.to_bytes());
            for (name, compression) in [("packed", Compression::Zstd), ("may-be-whole", Compression::ZstdWhole)] {
                let path = folder.join(name);
                std::fs::write(&path, &packed).unwrap();
                all.push(open(&path, packed.len() as u64, length, compression).unwrap());
            }
            let path = folder.join("whole");
            let packed = zstd::bulk::compress(content, 1).unwrap();
            std::fs::write(&path, &packed).unwrap();
            all.push(open(&path, packed.len() as u64, length, Compression::ZstdWhole).unwrap());
        }
        all.reverse();
        all
    }

    #[test]
    fn every_range_reads_as_that_of_the_whole() {
        let folder = tempfile::tempdir().unwrap();
        let whole = bytes(3500);
        for content in contents(folder.path(), &whole) {
            let (mut window, mut out) = (Window::default(), vec![1; 5000]);
            for start in [0u64, 1, 999, 1000, 1001, 2500, 3499] {
                for end in [start + 1, 1000, 1001, 2000, 3000, 3499, 3500] {
                    if end <= start {
                        continue;
                    }
                    let expected = &whole[start as usize..end as usize];
                    content.fill(&mut window, &mut Scratch::default(), start..end).unwrap();
                    assert_eq!(window.get(start..end), Some(expected), "{start}..{end}");
                    content.read(start..end, &mut out).unwrap();
                    assert_eq!(out, expected, "{start}..{end}");
                    assert!(content.stretch(&(start..end), 10) >= end);
                    assert!(content.stretch(&(start..end), usize::MAX) <= 3500);
                }
            }
            content.read(7..7, &mut out).unwrap();
            assert!(out.is_empty());
            assert!(content.fill(&mut window, &mut Scratch::default(), 3000..3501).is_err());
            assert!(content.read(3501..3502, &mut out).is_err());
        }
    }

    #[test]
    fn a_file_that_is_cut_while_open_is_an_error_and_the_window_is_empty() {
        let folder = tempfile::tempdir().unwrap();
        for content in contents(folder.path(), &bytes(3500)) {
            let mut window = Window::default();
            content.fill(&mut window, &mut Scratch::default(), 0..10).unwrap();
            File::options().write(true).open(&content.path).unwrap().set_len(20).unwrap();
            // The window holds the whole of a single frame.
            let is_held = window.get(2000..2010).is_some();
            let mut window = if is_held { Window::default() } else { window };
            let error = content.fill(&mut window, &mut Scratch::default(), 2000..2010).unwrap_err();
            assert!(error.to_string().contains("cut short"), "{error}");
            assert_eq!(window.get(0..10), None);
        }
    }

    #[cfg(feature = "zstd")]
    #[test]
    fn a_seek_table_that_does_not_fit_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        drop(contents(folder.path(), &bytes(3500)));
        let path = folder.path().join("packed");
        let good = std::fs::read(&path).unwrap();
        let opens = |file: &[u8], bytes| {
            std::fs::write(&path, file).unwrap();
            open(&path, file.len() as u64, bytes, Compression::Zstd).map(drop)
        };
        opens(&good, 3500).unwrap();
        assert!(opens(&good, 3501).is_err());
        for cut in 0..good.len() {
            assert!(opens(&good[..cut], 3500).is_err(), "cut at {cut}");
        }
        let many = good.len() - FOOTER_BYTES;
        for frames in [0u32, 3, 5, u32::MAX] {
            let mut wrong = good.clone();
            wrong[many..many + 4].copy_from_slice(&frames.to_le_bytes());
            assert!(opens(&wrong, 3500).is_err(), "{frames} frames");
        }
    }

    #[test]
    fn compression_is_what_the_manifest_calls_it() {
        assert_eq!(Compression::parse("none").unwrap(), Compression::None);
        assert_eq!(Compression::parse("zstd:3").unwrap(), Compression::Zstd);
        for text in ["", "zstd", "lz4:1", "none:1", "NONE"] {
            assert!(Compression::parse(text).is_err(), "{text:?}");
        }
    }
}

//! The files in a zip archive, as a storage that is only read.
//!
//! Holds at all times: memory has the directory of the archive, and the members that are being read; no name is there twice; a file that
//! is read whole has the checksum in the directory. Data that seems damaged is read once more before it is reported.

use std::{
    cmp::Ordering,
    collections::BTreeSet,
    fs::File,
    io,
    ops::{ControlFlow, Range},
    path::{Path, PathBuf},
    sync::Arc,
};

use shardpack_format::{Error, Result, memory};
use shardpack_storage::{
    Access, Entry as Listed, FileWriter, Object, Odd, OpenFile, Page, Size, Storage, Transfers, is_key,
};

use super::{
    Fault, ReadAt,
    archive::{BUFFER_BYTES, Directory, Entry},
    wrong,
};

/// Bytes at the end of an archive that are read with one request: the whole directory of some 1,000 members.
const TAIL_BYTES: u64 = 128 << 10;
/// More than the fields of a local header that the usual writers make: times, owners, lengths of zip64.
const MAX_EXTRA_BYTES: u64 = 128;
/// Error text: the archive, or the folder in it, is not the one that was listed.
const CHANGED: &str = "changed since it was planned: the archive has another version";

/// A folder in a zip archive. Clones and subfolders share the archive.
#[derive(Clone, Debug)]
pub struct ZipFolder {
    zip: Arc<Zip>,
    root: PathBuf,
    /// Beginning of the names of its members: empty, or a folder with a slash.
    below: String,
}

/// An open archive.
#[derive(Debug)]
struct Zip {
    storage: Arc<dyn Storage>,
    file: Box<dyn OpenFile>,
    /// Version of the archive.
    stamp: i64,
    /// Whether each read is a request: then the header and the data of a member are read together.
    reads_ahead: bool,
    directory: Directory,
    /// Offsets of the files in the directory, in the order of [`compared`].
    files: Vec<u32>,
    /// Offsets of the folders in the directory.
    folders: Vec<u32>,
}

impl ZipFolder {
    /// The archive `name` of `storage`; `None` if it is missing.
    ///
    /// # Errors
    /// If the archive cannot be read, its directory is invalid, or a name in it is no path or there twice.
    pub fn open(storage: Arc<dyn Storage>, name: &str) -> Result<Option<Self>> {
        let Some(Object { bytes, stamp, .. }) = storage.look(name)? else { return Ok(None) };
        let (file, root) = (storage.open_listed(name, bytes)?, storage.path_of(name));
        let reads_ahead = !storage.access().page_cache;
        let read = || {
            let tail = Ahead::open(file.as_ref(), reads_ahead, bytes.saturating_sub(TAIL_BYTES)..bytes)?;
            let most_bytes = memory::most_of_piece().min(u32::MAX.into());
            sorted(Directory::read(&tail, bytes, most_bytes, |_| Ok(()))?)
        };
        let read = retry_damage(read).map_err(|fault| fault.into_error().in_file(&root));
        let (directory, files, folders) = read?;
        let zip = Zip { storage, file, stamp, reads_ahead, directory, files, folders };
        Ok(Some(Self { zip: Arc::new(zip), root, below: String::new() }))
    }

    /// The member of the file `name`.
    fn entry(&self, name: &str) -> Result<Option<Entry>> {
        let (zip, name) = (&self.zip, format!("{}{name}", self.below));
        let found = zip.files.binary_search_by(|at| compared(zip.name(*at), name.as_bytes()));
        let entry = found.ok().map(|found| zip.directory.entry(zip.files[found] as usize));
        entry.transpose().map_err(|fault| fault.into_error().in_file(&self.root))
    }

    /// The member of a file in the version that was listed.
    fn listed_entry(&self, listed: &Object) -> Result<Entry> {
        let entry = self.entry(&listed.name)?.filter(|_| self.zip.stamp == listed.stamp);
        entry.ok_or_else(|| Error::data(CHANGED).in_file(self.path_of(&listed.name)))
    }

    /// Fills `into` with bytes of `entry`, the member of the file `name`, from `offset` on.
    fn fill(&self, name: &str, entry: &Entry, offset: u64, into: &mut [u8]) -> Result<()> {
        self.zip.fill(entry, offset, into).map_err(|fault| fault.into_error().in_file(self.path_of(name)))
    }

    /// All bytes of `entry`, the member of the file `name`.
    fn whole(&self, name: &str, entry: &Entry, max_bytes: u64) -> Result<Vec<u8>> {
        if entry.bytes > max_bytes {
            let what = format!("{} bytes, and such a file has at most {max_bytes}", entry.bytes);
            return Err(Error::data(what).in_file(self.path_of(name)));
        }
        let mut bytes = room(entry.bytes)?;
        self.fill(name, entry, 0, &mut bytes).map(|()| bytes)
    }

    /// Names of the files in the subfolder `below`, with their offsets in the directory.
    fn files_below(&self, below: &str) -> impl Iterator<Item = (&str, u32)> {
        let slash = if below.is_empty() || below.ends_with('/') { "" } else { "/" };
        let prefix = format!("{}{below}{slash}", self.below);
        let (zip, prefix) = (&self.zip, prefix.as_bytes());
        let from = &zip.files[zip.files.partition_point(|at| compared(zip.name(*at), prefix).is_lt())..];
        let files = &from[..from.partition_point(|at| zip.name(*at).starts_with(prefix))];
        files.iter().map(|at| (self.name(*at), *at))
    }

    /// The name, below this folder, of the member at offset `at` of the directory.
    fn name(&self, at: u32) -> &str {
        let name = self.zip.name(at);
        // Names are UTF-8, and this one begins with `below`.
        str::from_utf8(name.get(self.below.len()..).unwrap_or_default()).unwrap_or_default()
    }

    fn object(&self, name: &str, entry: &Entry) -> Object {
        Object { name: name.to_owned(), bytes: entry.bytes, stamp: self.zip.stamp }
    }

    fn read_only<T>(&self) -> Result<T> {
        Err(Error::usage("a zip archive is only read from").in_file(&self.root))
    }
}

/// The directory, with the offsets of its files in the order of [`compared`], and of its folders.
fn sorted(directory: Directory) -> super::Result<(Directory, Vec<u32>, Vec<u32>)> {
    let (mut files, mut folders) = (Vec::new(), Vec::new());
    let mut entries = directory.entries();
    loop {
        let at = entries.at as u32;
        let Some(entry) = entries.next() else { break };
        let entry = entry?;
        let is_folder = entry.bytes == 0 && entry.name.ends_with('/');
        if is_folder { &mut folders } else { &mut files }.push(at);
    }
    let name = |at: &u32| directory.name(*at as usize);
    files.sort_unstable_by(|one, other| compared(name(one), name(other)));
    for two in files.windows(2) {
        let (one, next) = (name(&two[0]), name(&two[1]));
        let shown = String::from_utf8_lossy(one);
        if one == next {
            return wrong(format!("member {shown:?} is there twice"));
        }
        if next.strip_prefix(one).is_some_and(|rest| rest.starts_with(b"/")) {
            return wrong(format!("member {shown:?} is a file, and a folder of other members"));
        }
    }
    Ok((directory, files, folders))
}

/// The order of names: that of their bytes, but a folder is before all names that it begins, so that a file with its name is beside it.
fn compared(one: &[u8], other: &[u8]) -> Ordering {
    // No name has a byte 0.
    let rank = |byte: &u8| if *byte == b'/' { 0 } else { *byte };
    one.iter().map(rank).cmp(other.iter().map(rank))
}

/// A buffer of this length, if it is admitted.
fn room(bytes: u64) -> Result<Vec<u8>> {
    let mut room = Vec::new();
    memory::make_room(&mut room, bytes)?;
    room.resize(bytes as usize, 0);
    Ok(room)
}

/// Calls `read`, and once more if the first result is damage, which a network may have caused.
fn retry_damage<T>(mut read: impl FnMut() -> super::Result<T>) -> super::Result<T> {
    match read() {
        Err(Fault::Data(_)) => read(),
        found => found,
    }
}

impl Zip {
    fn name(&self, at: u32) -> &[u8] {
        self.directory.name(at as usize)
    }

    fn fill(&self, entry: &Entry, offset: u64, into: &mut [u8]) -> super::Result<()> {
        entry.check()?;
        match offset.checked_add(into.len() as u64) {
            Some(end) if end <= entry.bytes => {}
            _ => return wrong(format!("is {} bytes", entry.bytes)),
        }
        if into.len() as u64 == entry.bytes {
            return self.content(entry, into);
        }
        if offset > 0 {
            let mut whole = room(entry.bytes).map_err(|error| Fault::Io(io::Error::other(error)))?;
            self.content(entry, &mut whole)?;
            let (start, end) = (offset as usize, offset as usize + into.len());
            into.copy_from_slice(&whole[start..end]);
            return Ok(());
        }
        let most_packed = if entry.is_deflated() { BUFFER_BYTES as u64 } else { into.len() as u64 };
        let file = self.ahead(entry, most_packed)?;
        let mut first = Vec::new();
        self.directory.archive(&file).first(entry, into.len(), &mut first)?;
        into.copy_from_slice(&first);
        Ok(())
    }

    /// Fills `into` with all bytes of `entry`, whose checksum is compared.
    fn content(&self, entry: &Entry, into: &mut [u8]) -> super::Result<()> {
        retry_damage(|| {
            let file = self.ahead(entry, u64::MAX)?;
            self.directory.archive(&file).content(entry, &mut [], into)
        })
    }

    /// The archive, with the header of `entry` and at most `most_packed` bytes of its data in memory if they come over a network.
    fn ahead(&self, entry: &Entry, most_packed: u64) -> super::Result<Ahead<'_>> {
        Ahead::open(self.file.as_ref(), self.reads_ahead, entry.about(MAX_EXTRA_BYTES, most_packed))
    }
}

/// A file, some bytes of which were read with one request.
struct Ahead<'f> {
    file: &'f dyn OpenFile,
    start: u64,
    bytes: Vec<u8>,
}

impl<'f> Ahead<'f> {
    /// `file`, with its bytes of `range` in memory if `reads_ahead`.
    fn open(file: &'f dyn OpenFile, reads_ahead: bool, range: Range<u64>) -> super::Result<Self> {
        let end = if reads_ahead { range.end.min(file.bytes()) } else { range.start };
        let read = room(end.saturating_sub(range.start)).and_then(|mut bytes| {
            if !bytes.is_empty() {
                file.read_at(range.start, &mut bytes)?;
            }
            Ok(Self { file, start: range.start, bytes })
        });
        read.map_err(|error| Fault::Io(io::Error::other(error)))
    }
}

impl ReadAt for Ahead<'_> {
    fn read_at(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let at = offset.checked_sub(self.start).and_then(|at| usize::try_from(at).ok());
        match at.and_then(|at| self.bytes.get(at..)?.get(..out.len())) {
            Some(known) => out.copy_from_slice(known),
            None => self.file.read_at(offset, out).map_err(io::Error::other)?,
        }
        Ok(())
    }
}

impl Storage for ZipFolder {
    fn root(&self) -> &Path {
        &self.root
    }

    fn is_read_only(&self) -> bool {
        true
    }

    fn folder(&self, name: &str) -> Result<Arc<dyn Storage>> {
        let (root, below) = (self.root.join(name), format!("{}{name}/", self.below));
        Ok(Arc::new(Self { zip: Arc::clone(&self.zip), root, below }))
    }

    fn with_work(&self, _work: &Path) -> Arc<dyn Storage> {
        Arc::new(self.clone())
    }

    fn open(&self, name: &str) -> Result<Option<Box<dyn OpenFile>>> {
        let member = |entry| Box::new(Member { folder: self.clone(), name: name.to_owned(), entry });
        Ok(self.entry(name)?.map(|entry| member(entry) as Box<dyn OpenFile>))
    }

    fn open_listed(&self, name: &str, bytes: u64) -> Result<Box<dyn OpenFile>> {
        let file = self.open(name)?.filter(|file| file.bytes() == bytes);
        file.ok_or_else(|| Error::data(CHANGED).in_file(self.path_of(name)))
    }

    fn read(&self, name: &str, max_bytes: u64) -> Result<Option<Vec<u8>>> {
        self.entry(name)?.map(|entry| self.whole(name, &entry, max_bytes)).transpose()
    }

    fn length(&self, name: &str) -> Result<Option<u64>> {
        Ok(self.entry(name)?.map(|entry| entry.bytes))
    }

    fn changed_at_ns(&self, _name: &str) -> Result<Option<u128>> {
        Ok(None)
    }

    fn walk(&self, below: &str, take: &mut dyn FnMut(&str, u64) -> ControlFlow<()>) -> Result<()> {
        for (name, at) in self.files_below(below) {
            let entry =
                self.zip.directory.entry(at as usize).map_err(|fault| fault.into_error().in_file(&self.root))?;
            if take(name, entry.bytes).is_break() {
                break;
            }
        }
        Ok(())
    }

    fn list(&self, below: &str) -> Result<Option<Vec<Listed>>> {
        let folder = below.trim_end_matches('/');
        let entries = self.files_below(below).map(|(name, _)| {
            let rest = name.get(folder.len()..).unwrap_or_default().trim_start_matches('/');
            let above = rest.split_once('/').map(|(above, _)| above);
            Listed { name: above.unwrap_or(rest).to_owned(), is_folder: above.is_some() }
        });
        Ok(Some(entries.collect::<BTreeSet<_>>().into_iter().collect()))
    }

    fn look(&self, name: &str) -> Result<Option<Object>> {
        Ok(self.entry(name)?.map(|entry| self.object(name, &entry)))
    }

    fn first_page(&self) -> Result<(Page, bool)> {
        let mut page = Page::default();
        for (name, at) in self.files_below("") {
            let entry =
                self.zip.directory.entry(at as usize).map_err(|fault| fault.into_error().in_file(&self.root))?;
            match is_key(name) {
                true => page.objects.push(self.object(name, &entry)),
                false => page.odd.push(Odd { name: name.to_owned(), bytes: entry.bytes }),
            }
        }
        let folders = self.zip.folders.iter().filter(|at| self.zip.name(**at).starts_with(self.below.as_bytes()));
        let names = folders.map(|at| self.name(*at).trim_end_matches('/'));
        page.folders = names.filter(|name| is_key(name)).map(str::to_owned).collect();
        Ok((page, false))
    }

    fn place(&self, listed: &Object) -> Option<(&File, u64)> {
        let entry = self.listed_entry(listed).ok()?;
        self.zip.file.local().map(|file| (file, entry.about(0, 0).start))
    }

    fn read_listed(&self, listed: &Object, offset: u64, into: &mut [u8]) -> Result<()> {
        let entry = self.listed_entry(listed)?;
        match entry.bytes == listed.bytes {
            true => self.fill(&listed.name, &entry, offset, into),
            false => Err(Error::data(CHANGED).in_file(self.path_of(&listed.name))),
        }
    }

    fn read_listed_whole(&self, listed: &Object, max_bytes: u64) -> Result<Vec<u8>> {
        self.whole(&listed.name, &self.listed_entry(listed)?, max_bytes)
    }

    fn put(&self, _name: &str, _bytes: Vec<u8>) -> Result<()> {
        self.read_only()
    }

    fn create(&self, _name: &str, _size: Size) -> Result<Box<dyn FileWriter>> {
        self.read_only()
    }

    fn remove(&self, _name: &str) -> Result<()> {
        self.read_only()
    }

    fn sync(&self, _below: &str) -> Result<()> {
        Ok(())
    }

    fn access(&self) -> Access {
        self.zip.storage.access()
    }

    fn concurrency(&self) -> Option<usize> {
        self.zip.storage.concurrency()
    }

    fn short_concurrency(&self) -> Option<usize> {
        self.zip.storage.short_concurrency()
    }

    fn transfers(&self) -> Option<Transfers> {
        self.zip.storage.transfers()
    }
}

/// An open file in an archive.
#[derive(Debug)]
struct Member {
    folder: ZipFolder,
    name: String,
    entry: Entry,
}

impl OpenFile for Member {
    fn bytes(&self) -> u64 {
        self.entry.bytes
    }

    fn read_at(&self, offset: u64, into: &mut [u8]) -> Result<()> {
        self.folder.fill(&self.name, &self.entry, offset, into)
    }

    fn read_range(&self, range: Range<u64>, take: &mut dyn FnMut(&[u8])) -> Result<()> {
        let mut piece = room(range.end.saturating_sub(range.start))?;
        self.read_at(range.start, &mut piece)?;
        take(&piece);
        Ok(())
    }
}

#[cfg(test)]
mod tests;

//! Reads many images in parallel: in physical order, by many threads, with one buffer each.

use std::{
    collections::BTreeMap,
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
};

use shardpack_format::{Error, Result};
use shardpack_runtime::threads;
use shardpack_storage::Access;

use crate::{
    listing::Listing,
    monitor::{Monitor, Phase},
    source::{Look, ReadError, Refusal, SampleReader, Source},
};

/// Reader for the images of one dataset.
pub(crate) struct ImageReader<'a> {
    listing: &'a Listing,
    reader: Box<dyn SampleReader + 'a>,
    /// The source can read the first bytes of an image without the rest.
    has_heads: bool,
    access: Access,
    /// Images that could not be read, and the reason.
    unread: Mutex<BTreeMap<u64, String>>,
}

impl<'a> ImageReader<'a> {
    /// Opens the images of `split`.
    pub fn open(
        source: &'a dyn Source,
        split: Option<&str>,
        listing: &'a Listing,
        monitor: &dyn Monitor,
    ) -> Result<Self> {
        let reader = source.open(split, listing, None, monitor)?;
        let has_heads = source.is_of_files_in(split)?;
        Ok(Self { listing, reader, has_heads, access: source.access(), unread: Mutex::default() })
    }

    /// Reads the first `most` bytes of image `number` over `out`, or the whole image if it is shorter or cannot
    /// be read in part. `None` if it cannot be read.
    pub fn head(&self, number: u64, most: usize, out: &mut Vec<u8>) -> Result<Option<()>> {
        if !self.has_heads || self.listing.entry(number).bytes as usize <= most {
            return self.whole(number, out);
        }
        out.resize(most, 0);
        let read = self.reader.peek(number, out, Look::Start);
        out.truncate(self.passable(number, read)?.flatten().unwrap_or(0));
        Ok((!out.is_empty()).then_some(()))
    }

    /// Reads image `number` over `out`; `None` if it cannot be read.
    pub fn whole(&self, number: u64, out: &mut Vec<u8>) -> Result<Option<()>> {
        out.resize(self.listing.entry(number).bytes as usize, 0);
        self.passable(number, self.reader.read(number, out))
    }

    /// Reads component `which` of image `number` over `out`, and whether the image has the component; `None` if it cannot be read.
    pub fn component(&self, number: u64, which: usize, out: &mut Vec<u8>) -> Result<Option<bool>> {
        out.clear();
        let cell = self.listing.components().cells_of(number).get(which);
        let Some(bytes) = cell.and_then(|cell| cell.length()) else { return Ok(Some(false)) };
        out.resize(bytes as usize, 0);
        Ok(self.passable(number, self.reader.read_component(number, which, out))?.map(|()| true))
    }

    /// Skips an unreadable image and records it.
    fn passable<T>(&self, number: u64, read: Result<T, ReadError>) -> Result<Option<T>> {
        match read {
            Ok(read) => Ok(Some(read)),
            Err(ReadError::Refused(Refusal(why))) => {
                self.unread.lock().unwrap_or_else(PoisonError::into_inner).insert(number, why);
                Ok(None)
            }
            Err(ReadError::Fatal(error)) => Err(error),
        }
    }

    /// Checks after the last read that the source is unchanged since it was listed.
    ///
    /// # Errors
    /// As [`SampleReader::unchanged`].
    pub fn unchanged(&self) -> Result<()> {
        self.reader.unchanged()
    }

    /// The images that could not be read, and the reason. The caller must not treat them as checked.
    pub fn into_unread(self) -> BTreeMap<u64, String> {
        self.unread.into_inner().unwrap_or_else(PoisonError::into_inner)
    }

    /// Results of `look` for `numbers`, in order of the numbers.
    pub fn each<T: Send>(
        &self,
        phase: Phase,
        mut numbers: Vec<u64>,
        jobs: usize,
        monitor: &dyn Monitor,
        look: impl Fn(u64, &mut Vec<u8>) -> Result<Option<T>> + Sync,
    ) -> Result<Vec<(u64, T)>> {
        let bytes = |number: &u64| u64::from(self.listing.entry(*number).bytes);
        monitor.begin(phase, numbers.len() as u64, numbers.iter().map(bytes).sum());
        numbers.sort_unstable_by_key(|number| self.listing.entry(*number).place);
        let (next, all, failed) = (AtomicUsize::new(0), Mutex::new(Vec::new()), Mutex::new(None::<Error>));
        let work = || -> Result<()> {
            let (mut buffer, mut said) = (Vec::new(), Vec::new());
            while let Some(number) = numbers.get(next.fetch_add(1, Ordering::Relaxed)) {
                monitor.check_cancelled()?;
                if let Some(what) = look(*number, &mut buffer)? {
                    said.push((*number, what));
                }
                monitor.advance(1, bytes(number));
            }
            all.lock().unwrap_or_else(PoisonError::into_inner).append(&mut said);
            Ok(())
        };
        threads::each(self.access.threads(jobs), || {
            if let Err(error) = work() {
                next.store(numbers.len(), Ordering::Relaxed);
                failed.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
            }
        });
        if let Some(error) = failed.into_inner().unwrap_or_else(PoisonError::into_inner) {
            return Err(error);
        }
        let mut all = all.into_inner().unwrap_or_else(PoisonError::into_inner);
        all.sort_unstable_by_key(|(number, _)| *number);
        Ok(all)
    }
}

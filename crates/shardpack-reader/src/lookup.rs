//! Samples of datasets and shards, by number, by key and in stored order.

use std::{
    borrow::Cow,
    ops::{Bound, Range, RangeBounds},
};

use shardpack_format::{Error, Result, formats, index::RowRef};

use crate::{Dataset, Reader, Sample, Shard, sample, shard, window::Window};

impl Dataset {
    /// Sample `number`, from 0 in stored order.
    ///
    /// Its bytes are borrowed from a mapping of its shard. A compressed shard has no mapping: each call unpacks the
    /// block of the sample, so use [`Dataset::reader`] to read many samples in order.
    ///
    /// # Errors
    /// When there is no such sample, or its index, shard or content is damaged.
    pub fn sample(&self, number: u64) -> Result<Sample<'_>> {
        let (shard, row) = self.locate(number)?;
        let range = shard::record(&row);
        let mapped =
            shard.map()?.and_then(|map| map.get(usize::try_from(range.start).ok()?..usize::try_from(range.end).ok()?));
        let record = match mapped {
            Some(record) => Cow::Borrowed(record),
            None => {
                let mut record = Vec::new();
                shard.read(range, &mut record).map_err(|error| error.in_sample(row.name()))?;
                Cow::Owned(record)
            }
        };
        let sample = Sample::new(number, shard, row, record);
        shard.accept(sample, self.check_content)
    }

    /// Reads the image of sample `number` into `out` and sets its length; uses `pread` and no mapping of the shard.
    /// Returns the index row of the sample.
    ///
    /// # Errors
    /// As [`Dataset::sample`]; the content of `out` is then undefined.
    pub fn read(&self, number: u64, out: &mut Vec<u8>) -> Result<RowRef<'_>> {
        let (shard, row) = self.locate(number)?;
        let range = if row.in_parts { shard::record(&row) } else { sample::image_range(&row) };
        shard.read(range, out).map_err(|error| error.in_sample(row.name()))?;
        if row.in_parts {
            let joined = formats::whole(self.format()?, &row, out).map(Cow::into_owned);
            if joined.is_none() && !self.check_content {
                return Err(sample::broken_parts(&shard, &row));
            }
            *out = joined.unwrap_or_default();
        }
        if self.check_content
            && let Err(error) = sample::check_content(&shard, &row, out)
        {
            if !self.access().may_damage {
                return Err(error);
            }
            let again = shard.sample_again(number - shard.samples().start)?;
            again.check_content()?;
            out.clear();
            out.extend_from_slice(again.bytes());
        }
        Ok(row)
    }

    /// Number of the sample with `key`.
    ///
    /// If keys ascend from shard to shard, as shardpack packs them, bisection finds an existing key and opens about
    /// log₂ of the shards' indexes. For a missing key every index is searched.
    ///
    /// # Errors
    /// When an index is damaged.
    pub fn find(&self, key: impl AsRef<[u8]>) -> Result<Option<u64>> {
        let key = key.as_ref();
        let likely = self.bisect(key)?;
        if let Some(found) = likely.map(|shard| find_in(shard, key)).transpose()?.flatten() {
            return Ok(Some(found));
        }
        for shard in self.shards().filter(|shard| Some(shard.number) != likely.map(|shard| shard.number)) {
            if let Some(found) = find_in(shard, key)? {
                return Ok(Some(found));
            }
        }
        Ok(None)
    }

    /// Reads `samples` in stored order: `..` for all, `1000..2000`, or the range from [`Shard::samples`].
    ///
    /// # Errors
    /// When the range is not within the dataset.
    pub fn reader(&self, samples: impl RangeBounds<u64>) -> Result<Reader<'_>> {
        Ok(Reader::new(self, self.range(samples)?))
    }

    fn range(&self, samples: impl RangeBounds<u64>) -> Result<Range<u64>> {
        let start = match samples.start_bound() {
            Bound::Unbounded => Some(0),
            Bound::Included(start) => Some(*start),
            Bound::Excluded(before) => before.checked_add(1),
        };
        let end = match samples.end_bound() {
            Bound::Unbounded => Some(self.len()),
            Bound::Included(last) => last.checked_add(1),
            Bound::Excluded(end) => Some(*end),
        };
        match start.zip(end) {
            Some((start, end)) if start <= end && end <= self.len() => Ok(start..end),
            _ => {
                let shown = |at: Option<u64>| at.map_or_else(|| "2^64".to_owned(), |at| at.to_string());
                let what = format!("samples {}..{} of a dataset of {}", shown(start), shown(end), self.len());
                Err(Error::usage(what).in_file(self.folder()))
            }
        }
    }

    /// The last shard whose first key is at most `key`, if keys ascend from shard to shard.
    fn bisect(&self, key: &[u8]) -> Result<Option<Shard<'_>>> {
        let (mut low, mut high, mut found) = (0, self.manifest().shards.len(), None);
        while low < high {
            let middle = low + (high - low) / 2;
            let with_samples = (middle..high).map(|number| Shard { dataset: self, number }).find(|s| !s.is_empty());
            match with_samples {
                None => high = middle,
                Some(shard) if shard.row(0)?.key <= key => {
                    found = Some(shard);
                    low = shard.number + 1;
                }
                Some(_) => high = middle,
            }
        }
        Ok(found)
    }
}

impl<'d> Shard<'d> {
    /// The sample of row `row`, if `window`, filled from this shard, holds its record; else `None`.
    ///
    /// # Errors
    /// When there is no such row, or the index is damaged.
    pub fn sample_in<'a>(&self, window: &'a Window, row: u64) -> Result<Option<Sample<'a>>>
    where
        'd: 'a,
    {
        let number = self.samples().start + row;
        let row = self.row(row)?;
        Ok(window.get(shard::record(&row)).map(|record| Sample::new(number, *self, row, record.into())))
    }

    /// The sample of row `row`, read alone.
    ///
    /// # Errors
    /// When there is no such row, or the index or the shard is damaged.
    pub fn sample_alone(&self, row: u64) -> Result<Sample<'d>> {
        let number = self.samples().start + row;
        let row = self.row(row)?;
        let mut record = Vec::new();
        self.read(shard::record(&row), &mut record).map_err(|error| error.in_sample(row.name()))?;
        Ok(Sample::new(number, *self, row, record.into()))
    }

    /// As [`Shard::sample_alone`] for a sample that was wrong: bypasses every cache.
    pub(crate) fn sample_again(&self, row: u64) -> Result<Sample<'d>> {
        let record = shard::record(&self.row(row)?);
        self.dataset.open_shards.get(self.number, || self.content())?.forget(&record);
        self.dataset.wholes.forget(self.number);
        self.sample_alone(row)
    }

    /// A sample of this shard that can be delivered, with [`Shard::checked`] content if `check_content` is set.
    ///
    /// # Errors
    /// When the sample is wrong; without `check_content`, only if its image is stored in parts that do not fit together.
    pub fn accept<'a>(&self, sample: Sample<'a>, check_content: bool) -> Result<Sample<'a>>
    where
        'd: 'a,
    {
        match sample.row.in_parts && sample.joined.is_none() {
            _ if check_content => self.checked(sample),
            true => Err(sample::broken_parts(self, &sample.row)),
            false => Ok(sample),
        }
    }

    /// Compares `sample`, which is from this shard, with its content hash. If the storage may damage bytes, the whole record
    /// is compared, and read again if it is wrong.
    ///
    /// # Errors
    /// When the sample is wrong.
    pub fn checked<'a>(&self, sample: Sample<'a>) -> Result<Sample<'a>>
    where
        'd: 'a,
    {
        match self.check(&sample) {
            Ok(()) => Ok(sample),
            Err(_) if self.dataset.access().may_damage => {
                let again = self.sample_again(sample.number() - self.samples().start)?;
                self.check(&again).map(|()| again)
            }
            Err(error) => Err(error),
        }
    }

    /// Compares `sample`, which is from this shard, with its content hash; if the storage may damage bytes, the
    /// whole record with its hashes.
    ///
    /// # Errors
    /// When the sample is wrong.
    pub fn check(&self, sample: &Sample<'_>) -> Result<()> {
        sample.check_content()?;
        if self.dataset.access().may_damage { sample.check_frame() } else { Ok(()) }
    }

    /// Reads its samples in order; the first [`Reader::next`] opens the shard.
    pub fn reader(&self) -> Reader<'d> {
        Reader::new(self.dataset, self.samples())
    }
}

fn find_in(shard: Shard<'_>, key: &[u8]) -> Result<Option<u64>> {
    let found = shard.index()?.find(key).map_err(|error| error.in_file(shard.index_path()))?;
    Ok(found.map(|row| shard.samples().start + row))
}

// Guaranteed on the crate's page.
const _: () = {
    const fn send_and_sync<T: Send + Sync>() {}
    send_and_sync::<Dataset>();
    send_and_sync::<Shard<'_>>();
    send_and_sync::<Sample<'_>>();
    const fn send<T: Send>() {}
    send::<Reader<'_>>();
};

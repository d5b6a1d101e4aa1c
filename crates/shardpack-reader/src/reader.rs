//! Reads samples in stored order: a run of whole records at a time, into one reused buffer.
//!
//! Holds at all times: one run is in memory, of about `buffer_bytes` or one record; every record is read once; no
//! record is moved or cut.

use std::ops::Range;

use shardpack_format::{Result, index::RowRef};

use crate::{
    Dataset, Sample, Shard,
    content::Content,
    shard::record,
    window::{Scratch, Window},
};

/// Maximum records in a run, which bounds runs of empty records.
const MAX_ROWS: usize = 1024;

/// Measured with `examples/read_speed.rs` against `cat` of the same shards (EPYC, 2 MiB of L2, 1 GB of 110 KB images in
/// the page cache): 128 KiB 0.99, 256 KiB 1.03, 512 KiB 1.13, 1 MiB 1.21, 4 MiB 1.18; with the content hash checked
/// 256 KiB 0.75, 512 KiB 0.79, 1 MiB 0.86.
pub(crate) const BUFFER_BYTES: usize = 1024 * 1024;

/// Reads a range of samples in stored order, each borrowed from the reader's buffer until the next is requested.
///
/// It reads with `pread` in large pieces and never from a mapping of a shard. After an error, the next call continues
/// behind the sample that the error names, or behind the shard that could not be opened.
///
/// ```no_run
/// # fn main() -> shardpack_reader::Result<()> {
/// let dataset = shardpack_reader::Dataset::open("packed/train")?;
/// let mut reader = dataset.reader(1000..2000)?.check_content(true);
/// while let Some(sample) = reader.next()? {
///     println!("{:?} {} bytes", sample.class_name(), sample.bytes().len());
/// }
/// # Ok(()) }
/// ```
pub struct Reader<'d> {
    dataset: &'d Dataset,
    /// Number of the next sample.
    position: u64,
    end: u64,
    check_content: bool,
    buffer_bytes: usize,
    /// The current shard.
    open: Option<(Shard<'d>, Content)>,
    window: Window,
    scratch: Scratch,
    /// Rows whose records the window holds; the first `taken` have been handed out.
    run: Vec<RowRef<'d>>,
    taken: usize,
}

impl std::fmt::Debug for Reader<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Reader").field("position", &self.position).field("end", &self.end).finish_non_exhaustive()
    }
}

impl<'d> Reader<'d> {
    /// `samples` must lie inside the dataset.
    pub(crate) fn new(dataset: &'d Dataset, samples: Range<u64>) -> Self {
        Self {
            dataset,
            position: samples.start,
            end: samples.end,
            check_content: dataset.check_content,
            buffer_bytes: BUFFER_BYTES,
            open: None,
            window: Window::default(),
            scratch: Scratch::default(),
            run: Vec::new(),
            taken: 0,
        }
    }

    /// Whether each image is compared with its content hash before it is handed out; the default is the dataset's
    /// setting.
    #[must_use]
    pub fn check_content(mut self, on: bool) -> Self {
        self.check_content = on;
        self
    }

    /// Bytes to read at a time; 1 MiB by default.
    ///
    /// A longer record is read as a whole, and at least one frame of a compressed shard. Over a network a few MiB may
    /// be faster.
    #[must_use]
    pub fn buffer_bytes(mut self, bytes: usize) -> Self {
        self.buffer_bytes = bytes;
        self
    }

    /// Number of the next sample.
    pub fn position(&self) -> u64 {
        self.position
    }

    /// The next sample; `None` after the last.
    ///
    /// # Errors
    /// When the index, the shard or the content is damaged; the next call continues behind the damage.
    #[expect(clippy::should_implement_trait, reason = "an Iterator cannot lend from its own buffer")]
    pub fn next(&mut self) -> Result<Option<Sample<'_>>> {
        if self.taken == self.run.len() {
            self.next_run()?;
        }
        let (Some(row), Some((shard, _))) = (self.run.get(self.taken), &self.open) else { return Ok(None) };
        let number = self.position;
        self.position += 1;
        self.taken += 1;
        let record = self.window.get(record(row)).unwrap_or_default();
        let sample = Sample::new(number, *shard, *row, record.into());
        shard.accept(sample, self.check_content).map(Some)
    }

    /// Reads the next records; the run is empty after the last.
    fn next_run(&mut self) -> Result<()> {
        self.run.clear();
        self.taken = 0;
        if self.position >= self.end {
            return Ok(());
        }
        let (shard, content) = match &mut self.open {
            Some((shard, content)) if shard.samples().contains(&self.position) => (&*shard, &*content),
            open => {
                let shard = self.dataset.shard_of(self.position)?;
                // The window holds bytes of the previous shard.
                self.window.clear();
                *open = None;
                match shard.content() {
                    Ok(content) => {
                        let open = open.insert((shard, content));
                        (&open.0, &open.1)
                    }
                    Err(error) => {
                        self.position = shard.samples().end.min(self.end);
                        return Err(error);
                    }
                }
            }
        };
        let first_row = self.position - shard.samples().start;
        let first = match shard.row(first_row) {
            Ok(row) => row,
            Err(error) => {
                self.position += 1;
                return Err(error);
            }
        };
        let needed = record(&first);
        let limit = content.stretch(&needed, self.buffer_bytes);
        self.run.push(first);
        let mut end = needed.end;
        for row in first_row + 1..shard.len().min(first_row + (self.end - self.position)) {
            // A damaged row is reported when the reader reaches it.
            let Ok(row) = shard.row(row) else { break };
            let next = record(&row);
            if next.start < end || next.end > limit || self.run.len() == MAX_ROWS {
                break;
            }
            end = next.end;
            self.run.push(row);
        }
        if content.fill(&mut self.window, &mut self.scratch, needed.start..end).is_err() {
            // Only records that cannot be read are lost, not their neighbours.
            self.run.truncate(1);
            if let Err(error) = content.fill(&mut self.window, &mut self.scratch, needed) {
                self.run.clear();
                self.position += 1;
                return Err(error.in_sample(first.name()));
            }
        }
        Ok(())
    }
}

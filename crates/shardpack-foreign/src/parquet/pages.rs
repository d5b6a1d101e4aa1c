//! Reads and decompresses the pages of a column chunk in sequence.
//!
//! Memory holds one page. Every length is compared with the rest of the chunk and with the limits below before memory is
//! allocated. The decompressed length must equal the length in the page header. The page reader of the parquet crate
//! guarantees neither: it follows gzip without a limit, and allocates a dictionary with as many entries as a page claims.
//!
//! Specification: <https://github.com/apache/parquet-format>, 2.12, `parquet.thrift`.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use parquet::{
    basic::{Compression, Encoding, Type as Physical},
    column::page::{Page, PageMetadata, PageReader},
    errors::Result,
    file::metadata::ColumnChunkMetaData,
    schema::types::ColumnDescriptor,
};

use shardpack_format::{memory, size};

use super::super::Bytes;
use super::{
    codec::{Codec, external, failed, room},
    known::MAGIC,
    page_header::{Header, What},
    thrift::Thrift,
};

/// Longest page that is unpacked. Writers begin a new one after 1 MiB, but some look only every 1024 rows.
const LIMIT_BYTES: u64 = 1 << 30;
/// Maximum number of dictionary entries; an entry takes about 40 bytes in memory.
const ENTRIES_LIMIT: u64 = 1 << 22;
/// Maximum number of values in the pages of one row of lists: they are in memory together.
const LISTED_LIMIT: u64 = 1 << 24;
/// How much is read in search of the end of a page's header: with most, and with all that hold statistics.
const HEADER_BYTES: [u64; 2] = [4 << 10, 4 << 20];

/// Reads the pages of a chunk.
pub(super) struct Pages {
    file: Arc<Bytes>,
    /// Offset in the file of the next page's header, or of its content if the header has been read.
    at: u64,
    /// End of the chunk in the file.
    end: u64,
    /// Values that pages may still have.
    values_left: u64,
    /// Least bytes that an entry of the dictionary takes.
    entry_bytes: u64,
    codec: Codec,
    /// Header of the next page, if it has been read.
    header: Option<Header>,
    /// Values in lists that pages have had since the row began that is being read; `None` where there are no lists.
    listed: Option<Arc<AtomicU64>>,
}

impl Pages {
    /// The pages of the chunk `meta` in `file`, whose chunks end at `footer`; `rows` is how many its row group has.
    pub fn open(file: Arc<Bytes>, footer: u64, rows: u64, meta: &ColumnChunkMetaData) -> Result<Self> {
        if let Some(path) = meta.file_path() {
            return Err(failed(format!("it lies in another file, {path:?}, which is not supported")));
        }
        // Some writers store 0 if there is no dictionary.
        let dictionary = meta.dictionary_page_offset().filter(|at| (1..meta.data_page_offset()).contains(at));
        let at = dictionary.unwrap_or(meta.data_page_offset());
        let (at, bytes) = (u64::try_from(at).ok(), u64::try_from(meta.compressed_size()).ok());
        let end = at.zip(bytes).and_then(|(at, bytes)| at.checked_add(bytes)).filter(|end| *end <= footer);
        let (Some(at), Some(end)) = (at.filter(|at| *at >= MAGIC.len() as u64), end) else {
            let (at, bytes) = (meta.data_page_offset(), meta.compressed_size());
            return Err(failed(format!("{bytes} bytes at byte {at}, the footer begins at byte {footer}")));
        };
        let column = meta.column_descr();
        let is_listed = column.max_rep_level() > 0;
        let values = u64::try_from(meta.num_values()).ok().filter(|values| is_listed || *values == rows);
        let values = values.ok_or_else(|| failed(format!("{} values, expected {rows}", meta.num_values())))?;
        let codec = Codec::from_compression(meta.compression())?;
        let entry_bytes = match column.physical_type() {
            Physical::BOOLEAN => 1,
            Physical::INT32 | Physical::FLOAT | Physical::BYTE_ARRAY => 4,
            Physical::INT64 | Physical::DOUBLE => 8,
            Physical::INT96 => 12,
            Physical::FIXED_LEN_BYTE_ARRAY => u64::try_from(column.type_length()).unwrap_or(1).max(1),
        };
        Ok(Self {
            file,
            at,
            end,
            values_left: values,
            entry_bytes,
            codec,
            header: None,
            listed: is_listed.then(Arc::default),
        })
    }

    /// Whether the chunk metadata in the footer allows the pages to be read.
    pub fn are_read(meta: &ColumnChunkMetaData) -> bool {
        use Compression as C;
        let codec = matches!(
            meta.compression(),
            C::UNCOMPRESSED | C::SNAPPY | C::ZSTD(_) | C::GZIP(_) | C::LZ4_RAW | C::BROTLI(_)
        );
        #[expect(deprecated)]
        let is_read = |encoding: Encoding| {
            use Encoding as E;
            matches!(
                encoding,
                E::PLAIN | E::PLAIN_DICTIONARY | E::RLE | E::BIT_PACKED | E::DELTA_BINARY_PACKED | E::RLE_DICTIONARY
            )
        };
        meta.file_path().is_none() && codec && meta.encodings().all(is_read)
    }

    /// Whether so many values of a column in lists are few enough for one row.
    pub fn are_few(column: &ColumnDescriptor, values: u64) -> bool {
        column.max_rep_level() == 0 || values <= LISTED_LIMIT
    }

    /// Counts the values of lists in pages; to be set to 0 where a row begins.
    pub fn listed(&self) -> Option<Arc<AtomicU64>> {
        self.listed.clone()
    }

    /// The header of the next page; `None` after the last.
    fn header(&mut self) -> Result<Option<Header>> {
        while self.header.is_none() && self.at < self.end {
            let (header, header_bytes) = self.read_header()?;
            let at = self.at + header_bytes;
            let left = self.end.saturating_sub(at);
            if header.packed_bytes > left {
                let found = header.packed_bytes;
                return Err(failed(format!("page at byte {}: {found} bytes, {left} are left", self.at)));
            }
            let most = LIMIT_BYTES.min(memory::most_of_piece());
            let found = header.unpacked_bytes.max(header.packed_bytes);
            if found > most {
                let how = if most == LIMIT_BYTES { "" } else { "; more --memory allows more" };
                let (at, most) = (self.at, size::text(most));
                return Err(failed(format!("page at byte {at}: {found} bytes unpacked, at most {most} is read{how}")));
            }
            match header.what {
                What::Index => self.at = at + header.packed_bytes,
                _ => (self.at, self.header) = (at, Some(header)),
            }
        }
        Ok(self.header)
    }

    /// The header at `at`, and its length.
    fn read_header(&self) -> Result<(Header, u64)> {
        let left = self.end - self.at;
        for most in HEADER_BYTES {
            let mut bytes = vec![0; most.min(left) as usize];
            self.file.read_exact_at(&mut bytes, self.at).map_err(external)?;
            let mut thrift = Thrift::new(&bytes);
            if let Some(header) = Header::read(&mut thrift) {
                let header = header.map_err(|what| failed(format!("page at byte {}: {what}", self.at)))?;
                return Ok((header, (bytes.len() - thrift.left()) as u64));
            }
            if most >= left {
                break;
            }
        }
        Err(failed(format!("page at byte {}: its header cannot be read", self.at)))
    }

    /// The page whose header has been read.
    fn content(&mut self, header: &Header) -> Result<Vec<u8>> {
        let at = self.at;
        self.at += header.packed_bytes;
        let mut packed = room(header.packed_bytes)?;
        packed.resize(header.packed_bytes as usize, 0);
        self.file.read_exact_at(&mut packed, at).map_err(external)?;
        let damaged = |what: String| failed(format!("page at byte {at}: {what}"));
        if let Some(expected) = header.crc {
            let mut crc = flate2::Crc::new();
            crc.update(&packed);
            if crc.sum() != expected {
                return Err(damaged(format!("its CRC is {:08x}, expected {expected:08x}", crc.sum())));
            }
        }
        let (levels, is_packed) = match header.what {
            What::Data2 { definition_bytes, repetition_bytes, is_packed, .. } => {
                (definition_bytes as usize + repetition_bytes as usize, is_packed)
            }
            _ => (0, true),
        };
        let unpacked_bytes = header.unpacked_bytes as usize;
        let Some((before, content)) = packed.split_at_checked(levels).filter(|_| levels <= unpacked_bytes) else {
            return Err(damaged(format!("levels of {levels} bytes in a page of {unpacked_bytes}")));
        };
        let expected = unpacked_bytes - levels;
        let out = match &mut self.codec {
            codec if is_packed && !matches!(codec, Codec::None) => {
                codec.unpack(content, expected).map_err(|error| damaged(format!("cannot be unpacked: {error}")))?
            }
            _ if content.len() == expected => return Ok(packed),
            _ => return Err(damaged(format!("{} bytes, expected {expected}", content.len()))),
        };
        if out.len() != expected {
            return Err(damaged(format!("{} bytes unpacked, expected {expected}", out.len())));
        }
        Ok(if levels == 0 { out } else { [before, &out].concat() })
    }

    fn next_page(&mut self) -> Result<Option<Page>> {
        let Some(header) = self.header()? else { return Ok(None) };
        let at = self.at;
        let content = self.content(&header)?;
        self.header = None;
        let Header { values: num_values, encoding, .. } = header;
        let buf = content.into();
        if let What::Dictionary { is_sorted } = header.what {
            let entries = ENTRIES_LIMIT.min(header.unpacked_bytes / self.entry_bytes);
            if u64::from(num_values) > entries {
                let what = format!("page at byte {at}: a dictionary of {num_values}, at most {entries} are possible");
                return Err(failed(what));
            }
            return Ok(Some(Page::DictionaryPage { buf, num_values, encoding, is_sorted }));
        }
        let left = self.values_left.checked_sub(num_values.into());
        self.values_left =
            left.ok_or_else(|| failed(format!("page at byte {at}: more values than the chunk should have")))?;
        if let Some(listed) = &self.listed
            && listed.fetch_add(num_values.into(), Ordering::Relaxed) + u64::from(num_values) > LISTED_LIMIT
        {
            return Err(failed(format!(
                "page at byte {at}: a list of more than {LISTED_LIMIT} values, which is not read"
            )));
        }
        Ok(Some(match header.what {
            What::Data { of_definitions, of_repetitions } => Page::DataPage {
                buf,
                num_values,
                encoding,
                def_level_encoding: of_definitions,
                rep_level_encoding: of_repetitions,
                statistics: None,
            },
            What::Data2 { rows, nulls, definition_bytes, repetition_bytes, .. } => Page::DataPageV2 {
                buf,
                num_values,
                encoding,
                num_nulls: nulls,
                num_rows: rows,
                def_levels_byte_len: definition_bytes,
                rep_levels_byte_len: repetition_bytes,
                is_compressed: false,
                statistics: None,
            },
            What::Dictionary { .. } | What::Index => return Ok(None),
        }))
    }
}

impl PageReader for Pages {
    fn get_next_page(&mut self) -> Result<Option<Page>> {
        self.next_page()
    }

    fn peek_next_page(&mut self) -> Result<Option<PageMetadata>> {
        Ok(self.header()?.map(|header| PageMetadata {
            num_rows: match header.what {
                What::Data2 { rows, .. } => Some(rows as usize),
                _ => None,
            },
            num_levels: Some(header.values as usize),
            is_dict: matches!(header.what, What::Dictionary { .. }),
        }))
    }

    fn skip_next_page(&mut self) -> Result<()> {
        if let Some(header) = self.header()? {
            self.at += header.packed_bytes;
            self.header = None;
        }
        Ok(())
    }
}

impl Iterator for Pages {
    type Item = Result<Page>;

    fn next(&mut self) -> Option<Self::Item> {
        self.next_page().transpose()
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    #[test]
    fn a_dictionary_has_no_more_entries_than_its_bytes_can_hold() {
        for (entries, expected) in [(1, None), (2, Some("a dictionary of 2, at most 1 are possible"))] {
            // Type 2, 4 bytes unpacked, 4 packed; field 7: its entries, encoding 0.
            let page = [0x15, 4, 0x15, 8, 0x15, 8, 0x4c, 0x15, 2 * entries, 0x15, 0, 0, 0, 1, 2, 3, 4];
            let mut file = tempfile::tempfile().unwrap();
            file.write_all(&page).unwrap();
            let (at, end, file) = (0, page.len() as u64, Arc::new(file.into()));
            let mut pages =
                Pages { file, at, end, values_left: 9, entry_bytes: 4, codec: Codec::None, header: None, listed: None };
            match (pages.next_page(), expected) {
                (Ok(Some(Page::DictionaryPage { buf, num_values: 1, .. })), None) => assert_eq!(*buf, [1, 2, 3, 4]),
                (Err(error), Some(expected)) => assert!(error.to_string().ends_with(expected), "{error}"),
                (found, _) => panic!("{entries}: {}", found.is_ok()),
            }
        }
    }
}

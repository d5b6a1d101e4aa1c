//! Metadata entries of an environment (`__keys__`, `__len__`, `num-samples`), compared with the entries that are in it.

use shardpack_format::{Result, size};

use super::{
    super::{
        key_labels::KeyLabels,
        plain::{self, Value},
    },
    Database,
};

/// Keys that are no samples.
pub(super) const META_KEYS: [&[u8]; 9] =
    [b"__keys__", b"__len__", b"num-samples", b"num_samples", b"length", b"len", b"meta", b"__meta__", b"keys"];
/// Keys with the number of samples.
const COUNTS: [&str; 5] = ["__len__", "num-samples", "num_samples", "length", "len"];
/// The one that lists the keys.
const KEYS: &str = "__keys__";
/// A longer value is no number.
const MAX_COUNT_BYTES: u64 = 1 << 16;
/// A longer value is more than a list of keys is worth.
const MAX_KEYS_BYTES: u64 = 1 << 30;

/// Claims of an environment about its own content.
#[derive(Debug, Default)]
pub(super) struct Metadata {
    counts: Vec<(&'static str, i64)>,
    pub keys: Option<KeyLabels>,
}

impl Metadata {
    /// Reads the metadata in `database`. Unreadable metadata is ignored.
    ///
    /// # Errors
    /// If a page is corrupt.
    pub fn read(database: &Database) -> Result<Self> {
        let (mut claims, mut value) = (Self::default(), Vec::new());
        let read = |name: &str, most: u64, value: &mut Vec<u8>| -> Result<bool> {
            let place = database.get(name.as_bytes())?.filter(|place| place.end - place.start <= most);
            place.map_or(Ok(false), |place| database.read(place, value).map(|()| true))
        };
        for name in COUNTS {
            if read(name, MAX_COUNT_BYTES, &mut value)?
                && let Some(count) = count(&value)
            {
                claims.counts.push((name, count));
            }
        }
        if read(KEYS, MAX_KEYS_BYTES, &mut value)? {
            claims.keys = keys(&value);
        }
        Ok(claims)
    }

    /// Compares the metadata with the number of entries that are not metadata, and with the number of samples in them.
    /// Returns one line for each missing item, and one line for each inconsistency.
    pub fn differences(&self, entries: u64, samples: u64) -> (Vec<String>, Vec<String>) {
        let differs = |said: &i64| ![entries, samples].iter().any(|found| i64::try_from(*found) == Ok(*said));
        let line = |(name, said): &(&str, i64)| match entries == samples {
            true => format!("{name} is {said}, found {}", size::counted(samples, "sample")),
            false => format!(
                "{name} is {said}, found {} in {}",
                size::counted(samples, "sample"),
                size::counted(entries, "entry")
            ),
        };
        let counts = || self.counts.iter().filter(|(_, said)| differs(said));
        let is_more = |said: i64| u64::try_from(said).is_ok_and(|said| said > samples);
        let missing = counts().filter(|(_, said)| is_more(*said)).map(line);
        let odd = counts().filter(|(_, said)| !is_more(*said)).map(line);
        let keys = self.keys.as_ref();
        (
            missing.chain(keys.and_then(|keys| keys.unused(KEYS))).collect(),
            odd.chain(keys.and_then(|keys| keys.unknown(KEYS))).collect(),
        )
    }
}

fn decoded(value: &[u8]) -> impl Iterator<Item = Value> {
    [plain::pickle, plain::msgpack, plain::arrow].into_iter().filter_map(|decode| decode(value).ok())
}

fn count(value: &[u8]) -> Option<i64> {
    let text = str::from_utf8(value).ok().and_then(|text| text.trim().parse().ok());
    text.or_else(|| decoded(value).find_map(|value| value.as_int()))
}

fn keys(value: &[u8]) -> Option<KeyLabels> {
    let keys = |decoded: Value| -> Option<KeyLabels> {
        let text = |key: &Value| key.as_text(value).map(|key| key.into_owned().into_bytes());
        let keys: Vec<Vec<u8>> = decoded.items()?.iter().map(text).collect::<Option<_>>()?;
        KeyLabels::of_keys(keys.iter().map(Vec::as_slice))
    };
    decoded(value).find_map(keys)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_and_keys_are_read_however_they_are_written() {
        let rows: [&[u8]; 4] = [b"300", b" 300\n", b"\x80\x02M\x2c\x01.", b"\xcd\x01\x2c"];
        for value in rows {
            assert_eq!(count(value), Some(300), "{value:?}");
        }
        assert_eq!(count(b"many"), None);
        let mut table = keys(b"\x92\xa1a\xc4\x01b").unwrap();
        assert_eq!([&b"a"[..], b"b", b"c"].map(|key| table.get(key).is_some()), [true, true, false]);
    }

    #[test]
    fn claims_may_count_entries_or_samples() {
        let claims = Metadata { counts: vec![("__len__", 10), ("len", 3), ("length", -1)], keys: None };
        let (missing, odd) = claims.differences(3, 10);
        assert!(missing.is_empty());
        assert_eq!(odd, ["length is -1, found 10 samples in 3 entries"]);
        assert_eq!(claims.differences(10, 10).1[0], "len is 3, found 10 samples");
        assert_eq!(claims.differences(9, 9).0, ["__len__ is 10, found 9 samples"]);
    }
}

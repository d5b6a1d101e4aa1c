//! Detects the coding of the values of an environment from the first values; if that fails, the error shows these values.

use shardpack_format::{Error, Result, hash, image_header::Kind, text};

use super::{Database, coding::Coding, metadata::META_KEYS, overrides::Overrides, values::SHOWN_BYTES};

/// Values that are looked at.
const LOOKS: usize = 3;
/// Maximum offset of an image in a value.
const MAX_OFFSET: usize = 64;
/// Kinds whose first bytes come up by chance nowhere.
const SURE: [Kind; 5] = [Kind::Jpeg, Kind::Png, Kind::Webp, Kind::Gif, Kind::Tiff];

/// Result of the detection from the first values.
#[derive(Debug)]
pub(super) struct Detected {
    pub coding: Coding,
    /// Whether the first keys are paths.
    pub are_paths: bool,
}

/// Whether the key allows the entry to be a sample.
pub(super) fn is_sample(key: &[u8]) -> bool {
    !META_KEYS.contains(&key) && !key.starts_with(b"label-")
}

/// How the first values are made.
///
/// # Errors
/// If they are of no known making: shows them, and how they might be described.
pub(super) fn detect(database: &Database, said: &Overrides) -> Result<Detected> {
    let (mut walk, mut value, mut first) = (database.walk()?, Vec::new(), Vec::new());
    let mut are_paths = true;
    while first.len() < LOOKS
        && let Some(entry) = walk.next()?
    {
        if is_sample(&entry.key) {
            database.read(entry.value, &mut value)?;
            let content = value.get(said.header_bytes as usize..).unwrap_or_default();
            are_paths &= entry.key.contains(&b'/');
            first.push((Coding::detect(content, said.codings), Shown::new(&entry.key, &value)));
        }
    }
    if let [coding] = said.codings {
        return Ok(Detected { coding: *coding, are_paths });
    }
    let is_usual =
        |coding: &&Option<Coding>| first.iter().filter(|(other, _)| other == *coding).count() * 2 > first.len();
    match first.iter().map(|(coding, _)| coding).find(is_usual) {
        Some(Some(coding)) => Ok(Detected { coding: *coding, are_paths }),
        _ if first.is_empty() => Err(Error::data("holds no samples").in_file(database.path())),
        _ => Err(unknown(first.into_iter().map(|(_, shown)| shown).collect(), said).in_file(database.path())),
    }
}

/// A value, shortened for a message.
struct Shown {
    key: String,
    bytes: usize,
    first: String,
    /// Kind and offset of an image in the value.
    image: Option<(Kind, usize)>,
}

impl Shown {
    fn new(key: &[u8], value: &[u8]) -> Self {
        let image = (0..=MAX_OFFSET.min(value.len())).map(|at| (Kind::detect(&value[at..]), at));
        Self {
            key: text::shown(key).to_string(),
            bytes: value.len(),
            first: hash::hex(&value[..value.len().min(SHOWN_BYTES)]),
            image: image.into_iter().find(|(kind, _)| SURE.contains(kind)),
        }
    }

    fn text(&self) -> String {
        let image = self.image.map_or_else(String::new, |(kind, at)| format!(", {} at byte {at}", kind.name()));
        format!("{:?}: {} bytes, {}{image}", self.key, self.bytes, self.first)
    }
}

/// The error if the coding is unknown. It requests an option and reports no corruption: nothing shows that these values are
/// corrupt.
fn unknown(shown: Vec<Shown>, said: &Overrides) -> Error {
    let text: Vec<_> = shown.iter().map(Shown::text).collect();
    let error = Error::usage(format!("values that are no images, in no known encoding: {}", text.join("; ")));
    let mut offsets: Vec<_> = shown.iter().map(|one| one.image.map(|(_, at)| at)).collect();
    offsets.dedup();
    let help = match offsets[..] {
        [Some(at)] if at as u64 != said.header_bytes => {
            let label = match at {
                1 => ", or --label-from header:u8 if that is the label".to_owned(),
                2 | 4 | 8 => {
                    let bits = 8 * at;
                    format!(", or --label-from header:u{bits}le (or u{bits}be, i{bits}le) if they are the label")
                }
                _ => ", with --label-from header:u32le if they begin with the label".to_owned(),
            };
            let bytes = if at == 1 { "a byte" } else { "bytes" };
            format!("each has {at} {bytes} before its image: --skip-header {at}{label}")
        }
        _ => "values can be images, pickles, msgpack, Caffe's Datum or pyarrow.serialize: set their type with --from \
              lmdb:DIALECT, the header length with --skip-header N, the place of the label with --label-from"
            .to_owned(),
    };
    error.help(help)
}

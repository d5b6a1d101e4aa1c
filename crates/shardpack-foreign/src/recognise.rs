//! Detects the format of a file by its content, or else by its name, since the first bytes of a shard may be corrupt.

use std::path::Path;

use shardpack_format::{
    Error, Result,
    formats::{self, Choice, tfrecord, webdataset},
};

use super::{
    FileLocation, Kind, ShardFile,
    kind::READ,
    litdata,
    lmdb::{self, DATA_FILE},
};

/// Extensions of files that are compressed.
const PACKED: [&str; 9] = ["gz", "tgz", "zst", "zstd", "tzst", "bz2", "tbz2", "br", "snappy"];

/// The file as a shard, by its content or else by its name; `None` if neither identifies a format.
pub(super) fn recognise(place: &FileLocation) -> Result<Option<ShardFile>> {
    let path = place.path();
    match (ShardFile::recognise(place)?, kind_by_name(path)) {
        (None, Some(kind)) => {
            let file = ShardFile::of_kind(place, kind)?;
            // In some formats, a file without records is empty; but a compressed file is never empty.
            match file.bytes == 0 && is_named_packed(path) {
                true => Err(Error::data("0 bytes, and by its name it is compressed").in_file(path)),
                false => Ok(Some(file)),
            }
        }
        (found, _) => Ok(found),
    }
}

/// Whether a file of this name should be compressed.
fn is_named_packed(path: &Path) -> bool {
    let extension = path.extension().unwrap_or_default().to_string_lossy().to_lowercase();
    PACKED.contains(&extension.as_str())
}

/// The format that a file name implies.
pub(super) fn kind_by_name(path: &Path) -> Option<Kind> {
    let name = path.file_name()?.to_string_lossy().to_lowercase();
    if name == DATA_FILE {
        return Some(Kind::Read(&lmdb::ENTRY));
    }
    if litdata::is_called(&name) {
        return Some(Kind::Read(&litdata::ENTRY));
    }
    let mut parts = name.split('.');
    let stem = parts.next()?;
    let of_part = |part: &str| match part {
        "tgz" | "tzst" | "tbz2" => Some(webdataset::NAME),
        "tfrecord" | "tfrecords" => Some(tfrecord::NAME),
        _ if let Some(entry) = READ.iter().find(|entry| entry.name == part || entry.extensions.contains(&part)) => {
            Some(entry.name)
        }
        _ => formats::ALL.iter().map(|entry| entry.name).find(|name| {
            let format = formats::open(&Choice::new(name));
            format.is_ok_and(|format| format.extension().strip_prefix('.') == Some(part))
        }),
    };
    // `train-00000-of-01024`, as TensorFlow's own tools call them.
    let is_numbered = stem.rsplit_once("-of-").is_some_and(|(before, shards)| {
        let is_number = |text: &str| text.len() == 5 && text.bytes().all(|byte| byte.is_ascii_digit());
        is_number(shards) && before.rsplit_once('-').is_some_and(|(_, number)| is_number(number))
    });
    let found = parts.find_map(of_part).or(is_numbered.then_some(tfrecord::NAME))?;
    Kind::parse(found).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_tells_where_the_first_bytes_are_damaged() {
        let rows = [
            ("a.tar", Some("webdataset")),
            ("A.TAR.GZ", Some("webdataset")),
            ("a.tgz", Some("webdataset")),
            ("shard.00000.mds.zstd", Some("mds")),
            ("train.rec", Some("recordio")),
            ("a.tfrecord", Some("tfrecord")),
            ("train-00000-of-01024", Some("tfrecord")),
            ("train-00000-of-01024.gz", Some("tfrecord")),
            ("ILSVRC128.hdf5", Some("hdf5")),
            ("data.mdb", Some("lmdb")),
            ("train.lmdb", Some("lmdb")),
            ("chunk-0-12.bin", Some("litdata")),
            ("chunk-0-12.zstd.bin", Some("litdata")),
            ("chunk-0-12.binary", None),
            ("chunk-a-12.bin", None),
            ("lock.mdb", None),
            ("train.lmdb-lock", None),
            ("out-of-space", None),
            ("tar", None),
            ("README", None),
        ];
        for (name, kind) in rows {
            assert_eq!(kind_by_name(Path::new(name)).map(Kind::name), kind, "{name}");
        }
    }
}

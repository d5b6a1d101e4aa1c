//! Shards that say in their names how many they are, `train-00000-of-01024`: which of a set are missing.
//!
//! Source: TensorFlow `tf.io.match_filenames`, `name@1024`; Hugging Face `datasets` names parquet files so, with a hash behind.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
};

use shardpack_format::{Error, shell, size};

use super::ShardFile;

/// Minimum number of digits of a number in a name: `fold-3-of-5` is no shard of five.
const LEAST_DIGITS: usize = 3;
/// Separator between the number and the total.
const OF: &str = "-of-";
/// Runs of missing numbers that are listed.
const LISTED: usize = 8;

/// A set of numbered shards; some may be missing.
#[derive(Debug, PartialEq, Eq)]
pub struct Set {
    folder: PathBuf,
    /// The text before the number, and the total as written.
    before: String,
    of: String,
    /// The texts after the total.
    ends: BTreeSet<String>,
    present: BTreeSet<u64>,
}

/// The sets that `shards` are of and that are not whole, in the order of their names.
pub fn incomplete(shards: &[ShardFile]) -> Vec<Set> {
    let mut sets: BTreeMap<(PathBuf, String, String, &str), Set> = BTreeMap::new();
    for shard in shards {
        let name = shard.path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        let Some((before, number, of)) = parts(name) else { continue };
        let folder = shard.path.parent().unwrap_or(Path::new("")).to_path_buf();
        let key = (folder.clone(), before.to_owned(), of.to_owned(), shard.kind.name());
        let (before_it, of_it) = (before.to_owned(), of.to_owned());
        let new = || Set { folder, before: before_it, of: of_it, ends: BTreeSet::new(), present: BTreeSet::new() };
        let set = sets.entry(key).or_insert_with(new);
        set.present.insert(number);
        set.ends.insert(name[before.len() + 2 * of.len() + OF.len()..].to_owned());
    }
    sets.into_values().filter(|set| set.missing().0 > 0).collect()
}

/// Splits `train-00000-of-01024.parquet`: the text before the number, the number, and the total.
fn parts(name: &str) -> Option<(&str, u64, &str)> {
    let (before, behind) = name.rsplit_once(OF)?;
    let digits = |text: &str| text.bytes().take_while(u8::is_ascii_digit).count();
    let of = &behind[..digits(behind)];
    let is_ended = !behind[of.len()..].starts_with(|next: char| next.is_alphanumeric() || next == '_');
    let start = before.len().checked_sub(of.len())?;
    let (before, number) = (before.get(..start)?, before.get(start..)?);
    let is_number =
        of.len() >= LEAST_DIGITS && digits(number) == of.len() && !before.ends_with(|c: char| c.is_ascii_digit());
    if !is_number || !is_ended {
        return None;
    }
    Some((before, number.parse().ok()?, of))
}

impl Set {
    /// Number of missing shards, and the runs of their numbers. Numbers start at 0, or at 1 if the last number exists.
    fn missing(&self) -> (u64, Vec<(u64, u64)>) {
        let of: u64 = self.of.parse().unwrap_or(0);
        let first = u64::from(self.present.contains(&of) && !self.present.contains(&0));
        let (mut next, mut count, mut runs) = (first, 0, Vec::new());
        for number in self.present.iter().copied().filter(|number| *number < of + first).chain([of + first]) {
            if number > next {
                count += number - next;
                runs.push((next, number - 1));
            }
            next = number + 1;
        }
        (count, runs)
    }

    /// How many shards it has, how many are missing, and which.
    pub fn what(&self) -> String {
        let (count, runs) = self.missing();
        let digits = self.of.len();
        let run = |(first, last): &(u64, u64)| match first == last {
            true => format!("{first:0digits$}"),
            false => format!("{first:0digits$} to {last:0digits$}"),
        };
        let more = if runs.len() > LISTED { ", …" } else { "" };
        let runs: Vec<String> = runs.iter().take(LISTED).map(run).collect();
        let all = self.of.parse().unwrap_or(0);
        let are = if count == 1 { "is" } else { "are" };
        format!("{count} of {} {are} missing: {}{more}", size::counted(all, "shard"), runs.join(", "))
    }

    /// The folder that they are in.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Pattern of the file names, with `*` for the number and for differing suffixes.
    pub fn pattern(&self) -> PathBuf {
        let mut ends = self.ends.iter();
        let end = match (ends.next(), ends.next()) {
            (Some(one), None) => one.clone(),
            (first, _) => {
                let extension = first.and_then(|end| end.rsplit_once('.')).map(|(_, extension)| extension);
                extension.map_or("*".to_owned(), |extension| format!("*.{extension}"))
            }
        };
        self.folder.join(format!("{}*{OF}{}{end}", self.before, self.of))
    }

    /// That some are missing from the folder that should hold all.
    pub fn error(&self) -> Error {
        let pattern = self.pattern();
        // One of a list of failures, which are shown without their help.
        let what = format!("{} ({} takes those that are there)", self.what(), shell::path(&pattern));
        Error::data(what).in_file(pattern)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_tell_how_many_there_are() {
        let rows = [
            ("train-00000-of-01024", Some(("train-", 0, "01024"))),
            ("train-00003-of-00004.parquet", Some(("train-", 3, "00004"))),
            ("train-00003-of-00004-0a1b2c3d.parquet", Some(("train-", 3, "00004"))),
            ("x.tfrecord-00001-of-00002.gz", Some(("x.tfrecord-", 1, "00002"))),
            ("fold-3-of-5.tar", None),
            ("a-of-b", None),
            ("1-00001-of-002.tar", None),
            ("train-00001-of-00002x.tar", None),
        ];
        for (name, expected) in rows {
            assert_eq!(parts(name), expected, "{name}");
        }
    }

    #[test]
    fn missing_numbers_are_listed_in_runs() {
        let of = |of: &str, present: &[u64]| {
            let present = present.iter().copied().collect();
            let (before, of, ends) = ("a-".to_owned(), of.to_owned(), [".tar".to_owned()].into());
            let set = Set { folder: "x".into(), before, ends, of, present };
            assert!(set.pattern().to_str().unwrap().starts_with("x/a-*-of-0"), "{set:?}");
            set.what()
        };
        assert_eq!(of("00004", &[0, 2]), "2 of 4 shards are missing: 00001, 00003");
        assert_eq!(of("01024", &[0, 1]), "1022 of 1024 shards are missing: 00002 to 01023");
        assert_eq!(of("00003", &[1, 3]), "1 of 3 shards is missing: 00002");
        assert!(of("00040", &(0..20).map(|n| n * 2).collect::<Vec<_>>()).ends_with("00013, 00015, …"));
    }
}

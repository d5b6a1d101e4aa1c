//! Samples groups the members of a tar file into samples, as the webdataset package does.
//!
//! Holds at all times: a sample is a run of members with one key; members that webdataset skips, or fails at, are returned
//! with the reason; the work for a member does not grow with the size of its sample.
//! Source: webdataset 1.0.2, `tariterators.py` (`base_plus_ext`, `tar_file_iterator`, `group_by_keys`).

use std::{collections::HashSet, fmt};

use super::{
    escape::shown,
    reader::{Member, MemberKind},
};

/// Splits a member's name into key and extension, the latter as stored; `None` if webdataset sees no extension.
///
/// As `^((?:.*/|)[^.]+)[.]([^/]*)$` does: the key is the folder and the file name up to its first dot. Two things
/// follow from the pattern that one would not expect: if the file name begins with a dot, its folder is the key
/// (`c/._b.jpg` is `c/` and `_b.jpg`), and a folder's name may not hold a dot if a newline comes before its end.
pub fn split(name: &[u8]) -> Option<(&[u8], &[u8])> {
    let base = after_last_slash(name);
    let dot = base + name[base..].iter().position(|byte| *byte == b'.')?;
    // `.*/` takes what it can, but no newline, and leaves something for `[^.]+`, which takes all up to the dot.
    let line = name[..dot].split(|byte| *byte == b'\n').next().unwrap_or_default();
    let folder = after_last_slash(&line[..line.len().min(dot.saturating_sub(1))]);
    let stem = &name[folder..dot];
    if stem.is_empty() || stem.contains(&b'.') { None } else { Some((&name[..dot], &name[dot + 1..])) }
}

/// Whether webdataset passes over a member of this name without a word: `__[^/]*__($|/)` matches at its start, or it
/// begins and ends with two underscores and has no slash.
pub fn is_meta(name: &[u8]) -> bool {
    let Some(rest) = name.strip_prefix(b"__") else { return false };
    match rest.iter().position(|byte| *byte == b'/') {
        Some(slash) => rest[..slash].ends_with(b"__"),
        // In Python, `$` matches before a last newline too.
        None => name.ends_with(b"__") || rest.ends_with(b"__\n"),
    }
}

fn after_last_slash(name: &[u8]) -> usize {
    name.iter().rposition(|byte| *byte == b'/').map_or(0, |slash| slash + 1)
}

/// Whether the file system would hide a member of this name, or a folder above it: `._a.jpg`, `.git/x`.
pub fn is_hidden(name: &[u8]) -> bool {
    name.split(|byte| *byte == b'/').any(|part| part.first() == Some(&b'.') && !matches!(part, b"." | b".."))
}

/// A file of a sample.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Component {
    /// Extension without its first dot, in lower case.
    pub extension: Vec<u8>,
    /// Offset of its data.
    pub offset: u64,
    /// Length of its data.
    pub bytes: u64,
}

/// A sample as somebody else wrote it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ForeignSample {
    /// Folder and stem; not necessarily UTF-8.
    pub key: Vec<u8>,
    /// At least one, in file order, no extension twice.
    pub components: Vec<Component>,
    /// Offset of the first header of its first member.
    pub offset: u64,
}

/// Why a member is in no sample.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Issue {
    /// webdataset drops it without a word.
    NoExtension,
    /// webdataset drops it without a word: a link.
    Link,
    /// webdataset drops it without a word: neither file nor folder nor link.
    NotAFile,
    /// The sample has this extension already, perhaps in other case; webdataset stops with a `ValueError`.
    DuplicateExtension,
    /// The extension is a field that webdataset sets itself, or by which it drops the sample.
    ReservedExtension,
    /// Stored without its holes, so that its data is not the file.
    Sparse,
    /// webdataset drops it without a word: see [`is_meta`].
    Meta,
    /// See [`is_hidden`].
    Hidden,
}

impl Issue {
    /// The word under which a member is counted that need not be reported by name.
    pub fn counted_as(self) -> &'static str {
        match self {
            Self::NoExtension => "member without extension",
            Self::Link => "member that is a link",
            Self::NotAFile => "member that is no file",
            Self::DuplicateExtension => "member of an extension that is there twice",
            Self::ReservedExtension => "member of webdataset's own",
            Self::Sparse => "member that is sparse",
            Self::Meta => "member called __…__",
            Self::Hidden => "hidden member",
        }
    }
}

impl fmt::Display for Issue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NoExtension => "no extension, so webdataset drops it",
            Self::Link => "a link, which webdataset drops",
            Self::NotAFile => "neither file nor folder, so webdataset drops it",
            Self::DuplicateExtension => "its sample has this extension already, at which webdataset fails",
            Self::ReservedExtension => "webdataset uses its extension for itself",
            Self::Sparse => "stored sparse, which is not read: its holes are left out",
            Self::Meta => "its name begins with __…__, so webdataset drops it",
            Self::Hidden => "hidden",
        })
    }
}

/// A member that is in no sample, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Dropped {
    /// Name as stored.
    pub name: Vec<u8>,
    /// Offset of its first header.
    pub header_offset: u64,
    /// Where its data ends.
    pub end_offset: u64,
    /// Why.
    pub issue: Issue,
}

impl fmt::Display for Dropped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "member {}: {}", shown(&self.name), self.issue)
    }
}

/// Groups members into samples, one by one.
#[derive(Default)]
pub struct Grouper {
    sample: Option<ForeignSample>,
    extensions: HashSet<Vec<u8>>,
}

impl Grouper {
    /// Adds the next member, and returns the sample before it if it begins a new one. An error is a remark on this
    /// member, after which one goes on. Folders are passed over in silence.
    pub fn add(&mut self, member: Member) -> Result<Option<ForeignSample>, Dropped> {
        let Member { name, kind, header_offset, data_offset, bytes, .. } = member;
        let end_offset = data_offset.saturating_add(bytes);
        let dropped = |name, issue| Err(Dropped { name, header_offset, end_offset, issue });
        match kind {
            MemberKind::Folder => return Ok(None),
            _ if is_hidden(&name) => return dropped(name, Issue::Hidden),
            _ if is_meta(&name) => return dropped(name, Issue::Meta),
            MemberKind::File => {}
            MemberKind::Sparse => return dropped(name, Issue::Sparse),
            MemberKind::HardLink | MemberKind::SymLink => return dropped(name, Issue::Link),
            MemberKind::Other(_) => return dropped(name, Issue::NotAFile),
        }
        let Some((key, extension)) = split(&name) else { return dropped(name, Issue::NoExtension) };
        let extension = lower_case(extension);
        if matches!(&*extension, b"__key__" | b"__url__" | b"__local_path__" | b"__bad__") {
            return dropped(name, Issue::ReservedExtension);
        }
        let former = self.sample.take_if(|sample| sample.key != key);
        if self.sample.is_none() {
            // Not cleared: that takes as long as the largest sample was.
            self.extensions = HashSet::new();
        }
        if !self.extensions.insert(extension.clone()) {
            return dropped(name, Issue::DuplicateExtension);
        }
        let new = || ForeignSample { key: key.to_vec(), components: Vec::new(), offset: header_offset };
        let sample = self.sample.get_or_insert_with(new);
        sample.components.push(Component { extension, offset: data_offset, bytes });
        Ok(former)
    }

    /// The sample that the next member may still belong to.
    pub fn current(&self) -> Option<&ForeignSample> {
        self.sample.as_ref()
    }

    /// The last sample: the end of the file ends it.
    pub fn finish(self) -> Option<ForeignSample> {
        self.sample
    }
}

/// Lower case as Python's `str.lower` has it; bytes that are not UTF-8 stay.
fn lower_case(extension: &[u8]) -> Vec<u8> {
    if extension.is_ascii() {
        return extension.to_ascii_lowercase();
    }
    let mut lower = Vec::with_capacity(extension.len());
    for chunk in extension.utf8_chunks() {
        lower.extend_from_slice(chunk.valid().to_lowercase().as_bytes());
        lower.extend_from_slice(chunk.invalid());
    }
    lower
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn member(name: impl AsRef<[u8]>, kind: MemberKind, header_offset: u64) -> Member {
        let name = name.as_ref().to_vec();
        Member { name, kind, header_offset, data_offset: header_offset + 512, bytes: 7, plain: true }
    }

    fn group(members: impl IntoIterator<Item = Member>) -> (Vec<ForeignSample>, Vec<Dropped>) {
        let (mut samples, mut all_dropped) = (Vec::new(), Vec::new());
        let mut grouper = Grouper::default();
        for member in members {
            match grouper.add(member) {
                Ok(sample) => samples.extend(sample),
                Err(dropped) => all_dropped.push(dropped),
            }
        }
        samples.extend(grouper.finish());
        (samples, all_dropped)
    }

    /// Keys, each with its extensions.
    fn outline(samples: &[ForeignSample]) -> Vec<(String, Vec<String>)> {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let extensions = |sample: &ForeignSample| sample.components.iter().map(|c| text(&c.extension)).collect();
        samples.iter().map(|sample| (text(&sample.key), extensions(sample))).collect()
    }

    #[test]
    fn names_split_as_webdataset_splits_them() {
        // Seen with webdataset 1.0.2.
        let rows = [
            ("a/b.jpg", Some(("a/b", "jpg"))),
            ("./a.jpg", Some(("./a", "jpg"))),
            ("../a.jpg", Some(("../a", "jpg"))),
            ("/abs/b.jpg", Some(("/abs/b", "jpg"))),
            ("a.b/c.jpg", Some(("a.b/c", "jpg"))),
            ("x.v1.JPG", Some(("x", "v1.JPG"))),
            ("a.", Some(("a", ""))),
            ("c/._b.jpg", Some(("c/", "_b.jpg"))),
            ("a.b/c/.d", Some(("a.b/c/", "d"))),
            ("/.d", Some(("/", "d"))),
            ("a.b/.d", None),
            ("._a.jpg", None),
            (".hidden", None),
            ("noext", None),
            ("a.b/c", None),
            ("a.jpg/", None),
            ("", None),
            ("a\nb/c.jpg", Some(("a\nb/c", "jpg"))),
            ("a.x\nb/c.jpg", None),
            ("a.x/b\nc/d.jpg\n", Some(("a.x/b\nc/d", "jpg\n"))),
        ];
        for (name, expected) in rows {
            let expected = expected.map(|(key, extension)| (key.as_bytes(), extension.as_bytes()));
            assert_eq!(split(name.as_bytes()), expected, "{name:?}");
        }
    }

    #[test]
    fn meta_members_are_known_by_their_name() {
        for name in ["__x__", "__d__/a.jpg", "____", "__", "___", "__a__b__/c", "__x__\n"] {
            assert!(is_meta(name.as_bytes()), "{name:?}");
        }
        for name in ["__x__.json", "__a.jpg", "a/__x__", "__/a", "___/a.jpg", "__a/b__", "_", "", "__\n", "x__"] {
            assert!(!is_meta(name.as_bytes()), "{name:?}");
        }
    }

    #[test]
    fn a_sample_is_a_run_of_members_with_one_key() {
        use MemberKind::{File, Folder, HardLink, Other, SymLink};
        let names = [
            ("d/", Folder),
            ("d/a.cls", File),
            ("d/a.JPG", File),
            ("d/noext", File),
            ("__meta__/x.json", File),
            ("d/a.png", SymLink),
            ("d/a.gif", HardLink),
            ("d/a.fifo", Other(b'6')),
            ("d/a.jpg", File),
            ("d/a.__key__", File),
            ("d/a.Json", File),
            ("b.jpg", File),
            ("d/a.cls", File),
        ];
        let members = names.iter().zip(0..).map(|((name, kind), at)| member(name, *kind, at * 1024));
        let (samples, dropped) = group(members);
        let expected = [("d/a", vec!["cls", "jpg", "json"]), ("b", vec!["jpg"]), ("d/a", vec!["cls"])];
        let expected = expected.map(|(key, all)| (key.to_owned(), all.into_iter().map(str::to_owned).collect()));
        assert_eq!(outline(&samples), expected);
        assert_eq!((samples[0].offset, samples[1].offset), (1024, 11 * 1024));
        let jpg = Component { extension: b"jpg".to_vec(), offset: 2 * 1024 + 512, bytes: 7 };
        assert_eq!(samples[0].components[1], jpg);
        let issues: Vec<_> = dropped.iter().map(|member| (member.header_offset / 1024, member.issue)).collect();
        let expected = [
            (3, Issue::NoExtension),
            (4, Issue::Meta),
            (5, Issue::Link),
            (6, Issue::Link),
            (7, Issue::NotAFile),
            (8, Issue::DuplicateExtension),
            (9, Issue::ReservedExtension),
        ];
        assert_eq!(issues, expected);
        let text = dropped[5].to_string();
        assert_eq!(text, "member d/a.jpg: its sample has this extension already, at which webdataset fails");
    }

    #[test]
    fn extensions_are_lowered_as_python_does_and_need_not_be_utf8() {
        let (samples, dropped) = group([
            member("a.\u{dc}ÉΣ", MemberKind::File, 0),
            member(b"a.J\xffP\xe9", MemberKind::File, 512),
            member("a.üéς", MemberKind::File, 1024),
        ]);
        assert_eq!(samples[0].components[0].extension, "üéς".as_bytes());
        assert_eq!(samples[0].components[1].extension, b"j\xffp\xe9");
        assert_eq!(dropped[0].issue, Issue::DuplicateExtension);
    }

    #[test]
    fn a_sample_of_very_many_components_takes_no_more_time_than_as_many_samples() {
        let large = (0..300_000).map(|n| member(format!("a.{n}"), MemberKind::File, n));
        let small = (0..300_000).map(|n| member(format!("{n}.jpg"), MemberKind::File, n));
        let (samples, dropped) = group(large.chain(small));
        assert_eq!((samples.len(), dropped.len(), samples[0].components.len()), (300_001, 0, 300_000));
    }

    /// The pattern, by trying each way to match it.
    fn twin(name: &[u8]) -> Option<(&[u8], &[u8])> {
        let folder_ends = (0..=name.len()).rev().filter(|end| match name[..*end].split_last() {
            Some((last, folder)) => *last == b'/' && !folder.contains(&b'\n'),
            None => true,
        });
        for start in folder_ends {
            for dot in (start + 1..name.len()).rev() {
                let (stem, extension) = (&name[start..dot], &name[dot + 1..]);
                if name[dot] == b'.' && !stem.contains(&b'.') && !extension.contains(&b'/') {
                    return Some((&name[..dot], extension));
                }
            }
        }
        None
    }

    proptest! {
        #[test]
        fn any_name_splits_as_the_pattern_says(name in "[ab._/\n]{0,12}") {
            prop_assert_eq!(split(name.as_bytes()), twin(name.as_bytes()));
        }
    }
}

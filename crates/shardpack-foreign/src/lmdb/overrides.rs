//! User overrides for LMDB entries: coding of values, location of labels, pattern of keys.

use std::{fmt, path::PathBuf};

use shardpack_format::{
    Error, Result,
    formats::foreign::{Entries, Label},
    text,
};

use super::{super::key_labels::KeyLabels, coding::Coding, pattern::Pattern};

/// Most bytes before the image of a value.
const MAX_HEADER_BYTES: u64 = 1 << 20;

/// A way in which scripts make environments.
#[derive(Clone, Copy, Debug)]
pub struct Dialect {
    /// Its name, as `--from` takes it.
    pub name: &'static str,
    /// Aliases of the dialect.
    pub aliases: &'static [&'static str],
    /// Short description.
    pub about: &'static str,
    /// Possible codings: the first values decide between them.
    codings: &'static [Coding],
    label: Option<LabelFrom>,
    pub(super) is_basicsr: bool,
}

/// All that are known.
pub const DIALECTS: [Dialect; 10] = {
    use Coding::{Arrow, Datum, Image, Msgpack, Pickle};
    const fn dialect(name: &'static str, codings: &'static [Coding], about: &'static str) -> Dialect {
        Dialect { name, aliases: &[], about, codings, label: None, is_basicsr: false }
    }
    [
        Dialect { aliases: &["lmdb:raw"], ..dialect("lmdb:image", &[Image], "values are images as they are") },
        dialect("lmdb:pickle", &[Pickle], "values are pickles"),
        dialect("lmdb:msgpack", &[Msgpack], "values are msgpack"),
        Dialect { aliases: &["lmdb:arrow"], ..dialect("lmdb:pyarrow", &[Arrow], "values are of pyarrow.serialize") },
        Dialect { aliases: &["lmdb:caffe"], ..dialect("lmdb:datum", &[Datum], "values are Caffe's Datum") },
        Dialect {
            aliases: &["lmdb:torchvision"],
            label: Some(LabelFrom::Name),
            ..dialect("lmdb:lsun", &[Image], "images as they are; the class is in the name of the folder")
        },
        Dialect {
            label: Some(LabelFrom::Beside),
            ..dialect("lmdb:ocr", &[Image], "image-000000001, label-000000001, num-samples")
        },
        Dialect { is_basicsr: true, ..dialect("lmdb:basicsr", &[Image], "images as they are, named in meta_info.txt") },
        Dialect {
            label: Some(LabelFrom::Value),
            ..dialect(
                "lmdb:folder2lmdb",
                &[Pickle, Arrow],
                "(image, label) as a pickle or of pyarrow; __keys__, __len__",
            )
        },
        Dialect {
            label: Some(LabelFrom::Value),
            ..dialect("lmdb:tensorpack", &[Msgpack, Arrow], "[image, label] as msgpack or of pyarrow; __keys__")
        },
    ]
};

/// The dialect called `name`, if there is one.
pub fn dialect(name: &str) -> Option<&'static Dialect> {
    DIALECTS.iter().find(|dialect| dialect.name == name || dialect.aliases.contains(&name))
}

/// Location of the label of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LabelFrom {
    /// In the value.
    Value,
    /// Under `label-…` beside `image-…`.
    Beside,
    /// In the name of the environment.
    Name,
    /// In the key.
    Key,
    /// In a whole number that the value begins with.
    Header(Integer),
    /// In a file of keys and labels.
    File,
}

/// Encoding of a whole number in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Integer {
    /// 1, 2, 4 or 8.
    bytes: u8,
    is_signed: bool,
    is_big_endian: bool,
}

impl Integer {
    /// The number that is called so: `u8`, `i16be`, `u32le`.
    fn from_name(name: &str) -> Option<Self> {
        let is_signed = match name.get(..1)? {
            "u" => false,
            "i" => true,
            _ => return None,
        };
        let of_size = |bytes, is_big_endian| Some(Self { bytes, is_signed, is_big_endian });
        match &name[1..] {
            "8" => of_size(1, false),
            "16le" => of_size(2, false),
            "16be" => of_size(2, true),
            "32le" => of_size(4, false),
            "32be" => of_size(4, true),
            "64le" => of_size(8, false),
            "64be" => of_size(8, true),
            _ => None,
        }
    }

    /// The label that `value` begins with.
    pub fn label(self, value: &[u8]) -> Label {
        let size = usize::from(self.bytes);
        let Some(found) = value.get(..size) else {
            return Label::Unfit(format!("a value of {} bytes does not begin with {self}", value.len()));
        };
        let mut bytes = [0; 8];
        bytes[..size].copy_from_slice(found);
        if self.is_big_endian {
            bytes[..size].reverse();
        }
        let (bits, unused) = (u64::from_le_bytes(bytes), 64 - 8 * u32::from(self.bytes));
        match self.is_signed {
            true => Label::Number((bits << unused).cast_signed() >> unused),
            false => i64::try_from(bits).map_or_else(|_| Label::Unfit(format!("{bits} as {self}")), Label::Number),
        }
    }
}

impl fmt::Display for Integer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let order = match (self.bytes, self.is_big_endian) {
            (1, _) => "",
            (_, true) => "be",
            (_, false) => "le",
        };
        write!(f, "{}{}{order}", if self.is_signed { 'i' } else { 'u' }, 8 * u32::from(self.bytes))
    }
}

/// The parsed overrides.
#[derive(Clone, Debug, Default)]
pub(super) struct Overrides {
    /// Possible codings of values; empty if the user chose none.
    pub codings: &'static [Coding],
    /// Location of labels, if the user chose one.
    pub label: Option<LabelFrom>,
    /// The file of labels, if the user named one.
    pub label_file: Option<PathBuf>,
    /// The pattern of keys, if the user gave one.
    pub pattern: Option<Pattern>,
    /// Bytes at the beginning of each value that come before the image.
    pub header_bytes: u64,
    pub dialect: Option<&'static Dialect>,
}

impl Overrides {
    /// Parses the overrides.
    ///
    /// # Errors
    /// If an option is unknown, or conflicts with another.
    pub fn parse(entries: &Entries) -> Result<Self> {
        let dialect = match &entries.dialect {
            Some(name) => Some(dialect(name).ok_or_else(|| Error::usage(format!("no dialect {name:?} is known")))?),
            None => None,
        };
        let pattern = entries.key_pattern.as_deref().map(|text| {
            Pattern::parse(text).map_err(|what| {
                Error::usage(format!("--key-pattern {text:?}: {what}"))
                    .help("write it as {class}/{name}.jpg or {split}-{label}-{id}: braces for parts, * for anything")
            })
        });
        let pattern = pattern.transpose()?;
        let has_label = pattern.as_ref().is_some_and(Pattern::has_label);
        let label = match entries.label_from.as_deref().map(label_from).transpose()? {
            None if has_label => Some(LabelFrom::Key),
            None => dialect.and_then(|dialect| dialect.label),
            Some(LabelFrom::Key) if pattern.is_some() && !has_label => {
                return Err(Error::usage("--label-from key: --key-pattern has neither {label} nor {class} in it"));
            }
            Some(from) if from != LabelFrom::Key && has_label => {
                return Err(Error::usage("--label-from and --key-pattern name two places of the label"));
            }
            label => label,
        };
        let of_label = match &label {
            Some(LabelFrom::Header(integer)) => u64::from(integer.bytes),
            _ => 0,
        };
        let header_bytes = entries.header_bytes.unwrap_or(of_label);
        if header_bytes < of_label {
            let what = format!("--skip-header {header_bytes}: the label alone has {of_label} bytes");
            return Err(
                Error::usage(what).help("it counts from the beginning of the value; leave it out if the label is all")
            );
        }
        if header_bytes > MAX_HEADER_BYTES {
            return Err(Error::usage(format!("--skip-header {header_bytes}: more than {MAX_HEADER_BYTES} bytes")));
        }
        Ok(Self {
            codings: dialect.map_or(&[], |dialect| dialect.codings),
            label,
            label_file: label_file(entries),
            pattern,
            header_bytes,
            dialect,
        })
    }

    /// Name of the label file in messages.
    pub fn label_name(&self) -> String {
        self.label_file.as_deref().map_or_else(String::new, |file| text::path(&file).to_string())
    }
}

/// The overrides for keys only.
pub(crate) struct KeyPart {
    /// The pattern of keys, if the user gave one.
    pub pattern: Option<Pattern>,
    /// Whether the label is in them.
    pub has_label: bool,
}

impl KeyPart {
    /// Parses the overrides for keys.
    ///
    /// # Errors
    /// As [`Overrides::parse`].
    pub fn parse(entries: &Entries) -> Result<Self> {
        let Overrides { pattern, label, .. } = Overrides::parse(entries)?;
        Ok(Self { pattern, has_label: label == Some(LabelFrom::Key) })
    }
}

fn label_from(text: &str) -> Result<LabelFrom> {
    Ok(match text {
        "key" => LabelFrom::Key,
        "value" => LabelFrom::Value,
        _ => match text.strip_prefix("header:") {
            Some(name) => LabelFrom::Header(Integer::from_name(name).ok_or_else(|| {
                Error::usage(format!("--label-from {text}: no whole number is called {name:?}")).help(
                    "one of u8, u16le, u16be, u32le, u32be, u64le, u64be; with i in place of u where it is signed",
                )
            })?),
            None => LabelFrom::File,
        },
    })
}

/// Checks the overrides and the file of labels.
///
/// # Errors
/// If an option is unknown or conflicts with another, or the file cannot be read or holds no labels.
pub fn check(entries: &Entries) -> Result<()> {
    Overrides::parse(entries)?.label_file.map_or(Ok(()), |file| KeyLabels::of_labels(&file).map(|_| ()))
}

/// The file of labels, if the user named one.
pub fn label_file(entries: &Entries) -> Option<PathBuf> {
    let text = entries.label_from.as_deref()?;
    (label_from(text).ok()? == LabelFrom::File).then(|| PathBuf::from(text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_numbers_are_read_as_they_are_called() {
        let rows =
            [("u8", 0xfe), ("i8", -2), ("u16le", 0xfffe), ("i16be", -257), ("u32be", 0xfeff_0000), ("i64le", 65534)];
        for (name, expected) in rows {
            let integer = Integer::from_name(name).unwrap();
            assert_eq!(integer.to_string(), name);
            assert_eq!(integer.label(&[0xfe, 0xff, 0, 0, 0, 0, 0, 0, 9]), Label::Number(expected), "{name}");
            assert!(matches!(integer.label(&[]), Label::Unfit(_)), "{name}");
        }
        assert!(matches!(Integer::from_name("u64le").unwrap().label(&[0xff; 8]), Label::Unfit(_)));
        for name in ["", "u", "u32", "x8", "u8le", "i128le", "ü8"] {
            assert_eq!(Integer::from_name(name), None, "{name}");
        }
    }

    #[test]
    fn what_does_not_go_together_is_refused() {
        let said = |label: Option<&str>, pattern: Option<&str>, header_bytes| {
            let own = |text: Option<&str>| text.map(str::to_owned);
            Overrides::parse(&Entries {
                dialect: None,
                label_from: own(label),
                key_pattern: own(pattern),
                header_bytes,
            })
        };
        let fine = said(None, Some("{label}-*"), None).unwrap();
        assert_eq!(fine.label, Some(LabelFrom::Key));
        let fine = said(Some("header:u32le"), Some("{name}.jpg"), None).unwrap();
        assert_eq!(fine.header_bytes, 4);
        assert_eq!(said(Some("a.csv"), None, None).unwrap().label_file, Some("a.csv".into()));
        let rows = [
            (Some("header:u9"), None, None),
            (Some("header:u32le"), None, Some(3)),
            (Some("key"), Some("{name}.jpg"), None),
            (Some("value"), Some("{label}-*"), None),
            (None, Some("{}"), None),
            (None, None, Some(u64::MAX)),
        ];
        for row in rows {
            said(row.0, row.1, row.2).expect_err(&format!("{row:?}"));
        }
    }

    #[test]
    fn every_dialect_is_found_by_its_names() {
        for known in DIALECTS {
            for name in known.aliases.iter().chain([&known.name]) {
                assert_eq!(dialect(name).unwrap().name, known.name);
                assert!(name.starts_with("lmdb:"), "{name}");
            }
        }
        assert!(dialect("lmdb:none").is_none());
    }
}

//! The one error type of the libraries: kind, location and help.
//!
//! A layer that knows a fact (the file, the sample, the byte) adds it once, with [`Error::in_file`] and its like; the
//! kind decides the exit code in the binary.

use std::{fmt, path::Path};

use crate::text;

/// Result of a call into the libraries.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Kind of the error, by who has to act.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The bytes are invalid: damage, or a sample that was refused.
    Data,
    /// The request does not fit: an option, a path, a folder that holds something else.
    Usage,
    /// The machine refused: no space, no permission, too few file descriptors, a failing disk.
    System,
    /// The person or a signal stopped the work; the same command goes on.
    Interrupted,
}

/// Where it is wrong; every part that is known.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Location {
    /// File, as the user would type it or relative to the dataset.
    pub file: Option<String>,
    /// Key of the sample, and its original path where there is one.
    pub sample: Option<String>,
    /// Offset in bytes from the start of `file`.
    pub byte: Option<u64>,
}

/// A problem, its location, and the help for it.
#[derive(Debug)]
pub struct Error {
    kind: ErrorKind,
    at: Box<Location>,
    what: String,
    help: Option<String>,
    source: Option<std::io::Error>,
}

impl Error {
    /// An error of `kind`; `what` is lower case, one line, no full stop, with expected and found.
    pub fn new(kind: ErrorKind, what: impl Into<String>) -> Self {
        Self { kind, at: Box::default(), what: what.into(), help: None, source: None }
    }

    /// Invalid bytes.
    pub fn data(what: impl Into<String>) -> Self {
        Self::new(ErrorKind::Data, what)
    }

    /// A request that does not fit.
    pub fn usage(what: impl Into<String>) -> Self {
        Self::new(ErrorKind::Usage, what)
    }

    /// A failed system call; `what` names the action ("cannot read", "cannot create").
    pub fn io(what: impl Into<String>, source: std::io::Error) -> Self {
        Self { source: Some(source), ..Self::new(ErrorKind::System, what) }
    }

    /// Adds the file, unless a deeper layer has named one.
    #[must_use]
    pub fn in_file(mut self, file: impl AsRef<Path>) -> Self {
        self.at.file.get_or_insert_with(|| text::masked(&text::path(&file).to_string()).into_owned());
        self
    }

    /// Names `shown` in place of `file`, if the error names that: a caller does not know a folder that only keeps unfinished work.
    #[must_use]
    pub fn shown_as(mut self, file: impl AsRef<Path>, shown: impl AsRef<Path>) -> Self {
        let masked = |path: &Path| text::masked(&text::path(&path).to_string()).into_owned();
        if let Some(named) = self.at.file.as_mut().filter(|named| **named == masked(file.as_ref())) {
            *named = masked(shown.as_ref());
        }
        self
    }

    /// Adds the sample, unless a deeper layer has named one.
    #[must_use]
    pub fn in_sample(mut self, sample: impl Into<String>) -> Self {
        self.at.sample.get_or_insert_with(|| sample.into());
        self
    }

    /// Adds the offset in bytes from the start of the file, unless a deeper layer has named one.
    #[must_use]
    pub fn at_byte(mut self, offset: u64) -> Self {
        self.at.byte.get_or_insert(offset);
        self
    }

    /// Adds to the message.
    #[must_use]
    pub fn and(mut self, more: &str) -> Self {
        self.what += "; ";
        self.what += more;
        self
    }

    /// Adds help: a flag or an action that really helps.
    #[must_use]
    pub fn help(mut self, help: impl Into<String>) -> Self {
        self.help.get_or_insert_with(|| text::masked(&help.into()).into_owned());
        self
    }

    /// Who has to act.
    pub fn kind(&self) -> ErrorKind {
        self.kind
    }

    /// Where it is wrong.
    pub fn location(&self) -> &Location {
        &self.at
    }

    /// The help, if there is any.
    pub fn help_text(&self) -> Option<&str> {
        self.help.as_deref()
    }

    /// The message, without the location.
    pub fn what(&self) -> String {
        let what = match &self.source {
            Some(source) => format!("{}: {source}", self.what),
            None => self.what.clone(),
        };
        text::masked(&what).into_owned()
    }

    /// The failed system call, if this error comes from one.
    pub fn io_error(&self) -> Option<&std::io::Error> {
        self.source.as_ref()
    }
}

/// One line, whatever characters its names contain.
impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Location { file, sample, byte } = &*self.at;
        let mut place = file.as_ref().map_or_else(String::new, |file| format!("{file}: "));
        match (sample, byte) {
            (Some(sample), Some(byte)) => place += &format!("sample {sample}, byte {byte}: "),
            (Some(sample), None) => place += &format!("sample {sample}: "),
            (None, Some(byte)) => place += &format!("byte {byte}: "),
            (None, None) => {}
        }
        f.write_str(&text::line(&(place + &self.what())))
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.source.as_ref().map(|source| source as _)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_says_where_then_what() {
        let error = Error::data("payload is 5 bytes, 7 in the index").at_byte(512).in_sample("00000003");
        let error = error.in_file("train-000017.tar").in_file("outer").help("copy it again");
        assert_eq!(
            error.to_string(),
            "train-000017.tar: sample 00000003, byte 512: payload is 5 bytes, 7 in the index"
        );
        assert_eq!(error.help_text(), Some("copy it again"));
        assert_eq!(error.kind(), ErrorKind::Data);
    }

    #[test]
    fn a_folder_is_shown_as_another_only_if_the_error_names_it() {
        let of = |file: &str| Error::usage("holds x").in_file(file).shown_as("/work/1", "s3://b/x").to_string();
        assert_eq!([of("/work/1"), of("/work/1/plan")], ["s3://b/x: holds x", "/work/1/plan: holds x"]);
        assert_eq!(Error::usage("x").shown_as("/work/1", "s3://b/x").to_string(), "x");
    }

    #[test]
    fn names_neither_begin_a_line_nor_tell_a_secret() {
        let error = Error::data("is\u{1b}[2K").in_sample("a\nok      verified").in_file("https://h/x?sig=secret");
        assert_eq!(error.to_string(), r"https://h/x?sig=…: sample a\u{a}ok      verified: is\u{1b}[2K");
        // A program gets everything but the secret.
        assert_eq!(
            (error.what().as_str(), error.location().sample.as_deref()),
            ("is\u{1b}[2K", Some("a\nok      verified"))
        );
    }
}

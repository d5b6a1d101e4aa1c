//! Text for output, line by line.
//!
//! Holds at all times: only a call that adds a line starts a new line, and only our own text moves the cursor. Names, keys and
//! foreign messages are escaped when a line is added, so no caller has to do it.

use std::ops::{Add, AddAssign};

use shardpack_format::text;

/// Printable lines.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Lines(String);

/// Adds a line, formatted as by `format!`.
macro_rules! line {
    ($out:expr, $($text:tt)*) => { $out.line(&format!($($text)*)) };
}

impl Lines {
    /// One line.
    pub fn one(line: &str) -> Self {
        let mut lines = Self::default();
        lines.line(line);
        lines
    }

    /// Adds `line` as one line; line feeds in `line` do not end it.
    pub fn line(&mut self, line: &str) {
        self.0 += &text::line(line);
        self.0.push('\n');
    }

    /// Adds an empty line.
    pub fn gap(&mut self) {
        self.0.push('\n');
    }

    /// The text; every line ends with a line feed.
    pub fn text(&self) -> &str {
        &self.0
    }
}

impl AddAssign for Lines {
    fn add_assign(&mut self, more: Self) {
        self.0 += &more.0;
    }
}

impl Add for Lines {
    type Output = Self;

    fn add(mut self, more: Self) -> Self {
        self += more;
        self
    }
}

impl Extend<Self> for Lines {
    fn extend<T: IntoIterator<Item = Self>>(&mut self, more: T) {
        more.into_iter().for_each(|lines| *self += lines);
    }
}

impl FromIterator<String> for Lines {
    fn from_iter<T: IntoIterator<Item = String>>(all: T) -> Self {
        let mut lines = Self::default();
        all.into_iter().for_each(|line| lines.line(&line));
        lines
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_in_a_name_begins_no_line() {
        let mut lines = Lines::one("a");
        line!(lines, "{}: {}", "key\nok: verified", "\x1b[2J");
        lines.gap();
        lines.extend(Some(Lines::one("b")));
        assert_eq!(lines.text(), "a\nkey\\u{a}ok: verified: \\u{1b}[2J\n\nb\n");
    }
}

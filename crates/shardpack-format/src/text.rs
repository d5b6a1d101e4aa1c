//! Makes foreign names and text safe to show: one line, no cursor movement, no hidden characters, no secret of a
//! URL.
//!
//! Holds at all times: text that was already made safe stays unchanged if it passes through again.

use std::{borrow::Cow, fmt, path::Path};

/// Bytes that should be text: bytes that are not UTF-8 are shown as `\xNN`, the rest unchanged.
#[derive(Clone, Copy)]
pub struct Shown<'a>(&'a [u8]);

/// `bytes` as text.
pub fn shown(bytes: &[u8]) -> Shown<'_> {
    Shown(bytes)
}

/// `path` as text.
pub fn path<P: AsRef<Path> + ?Sized>(path: &P) -> Shown<'_> {
    Shown(path.as_ref().as_os_str().as_encoded_bytes())
}

impl Shown<'_> {
    /// Formats bytes as text: `valid` formats the parts that are UTF-8.
    fn text(self, valid: impl Fn(&str) -> String) -> String {
        let chunk = |chunk: std::str::Utf8Chunk<'_>| {
            let invalid = chunk.invalid().iter().map(|byte| format!("\\x{byte:02x}"));
            std::iter::once(valid(chunk.valid())).chain(invalid).collect::<String>()
        };
        self.0.utf8_chunks().map(chunk).collect()
    }
}

impl fmt::Display for Shown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Ok(text) = std::str::from_utf8(self.0) {
            return f.pad(text);
        }
        f.pad(&self.text(str::to_owned))
    }
}

/// In quotes.
impl fmt::Debug for Shown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\"{}\"", self.text(|text| text.escape_debug().to_string()))
    }
}

/// Whether a terminal, an editor or a log shows `c` as something else than a character in its place: a control character, one that
/// changes the order of others, or one that is not seen at all.
///
/// Source: Unicode 16, general category Cc and the property `Default_Ignorable_Code_Point`, but for the variants of a character that
/// is seen (U+FE00 to U+FE0F); and the separators U+2028 and U+2029.
pub fn is_hidden(c: char) -> bool {
    c.is_control()
        || matches!(c,
            '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}'
            | '\u{180b}'..='\u{180f}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}'
            | '\u{3164}' | '\u{feff}' | '\u{ffa0}' | '\u{fff0}'..='\u{fffb}' | '\u{1bca0}'..='\u{1bca3}'
            | '\u{1d173}'..='\u{1d17a}' | '\u{e0000}'..='\u{e0fff}')
}

/// `text` as one line for a person: without secrets of URLs, and with `\u{…}` for [hidden](is_hidden) characters, line feeds and
/// tabs among them.
pub fn line(text: &str) -> Cow<'_, str> {
    let text = masked(text);
    if !text.contains(is_hidden) {
        return text;
    }
    let mut out = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        match is_hidden(c) {
            true => out.extend(c.escape_unicode()),
            false => out.push(c),
        }
    }
    Cow::Owned(out)
}

/// The parameters of a URL that let whoever has them in.
const SECRETS: [&str; 12] = [
    "sig",
    "signature",
    "x-amz-signature",
    "x-amz-security-token",
    "x-amz-credential",
    "x-goog-signature",
    "x-goog-credential",
    "awsaccesskeyid",
    "token",
    "access_token",
    "key",
    "password",
];

/// `text` without the secrets of its URLs: a name and a password before the host, and the values of parameters.
pub fn masked(text: &str) -> Cow<'_, str> {
    if !text.contains("://") && !text.contains(['?', '&']) {
        return Cow::Borrowed(text);
    }
    let (mut out, mut rest) = (String::with_capacity(text.len()), text);
    // A word that has no URL in it may still be the end of one: `/x?sig=…`.
    while !rest.is_empty() {
        let end = rest.find(ends_a_url).unwrap_or(rest.len());
        out += &masked_word(&rest[..end]);
        let behind = rest[end..].chars().next().map_or(0, char::len_utf8);
        out += &rest[end..end + behind];
        rest = &rest[end + behind..];
    }
    if out == text { Cow::Borrowed(text) } else { Cow::Owned(out) }
}

fn ends_a_url(c: char) -> bool {
    c.is_whitespace() || c.is_control() || matches!(c, '"' | '\'' | '`' | '<' | '>')
}

fn masked_word(word: &str) -> Cow<'_, str> {
    let (before, query) = match word.find('?') {
        Some(at) => (&word[..at], Some(&word[at + 1..])),
        None => (word, None),
    };
    let mut out = String::with_capacity(word.len());
    match before.split_once("://") {
        None => out += before,
        Some((scheme, rest)) => {
            let (host, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
            let (who, host) = host.rsplit_once('@').map_or((None, host), |(who, host)| (Some(who), host));
            // CONTAINER@ACCOUNT is no secret: nobody logs in with it.
            let who = who.map(|who| {
                if who.contains(':') || !scheme.ends_with("abfss") && !scheme.ends_with("abfs") { "…" } else { who }
            });
            out += &format!("{scheme}://{}{host}{path}", who.map_or_else(String::new, |who| format!("{who}@")));
        }
    }
    let Some(query) = query else { return if out == word { word.into() } else { out.into() } };
    // Punctuation of the sentence after the URL.
    let end = query.trim_end_matches([':', ';', ',', '.', ')', ']']).len();
    let (query, behind) = query.split_at(end);
    let is_web = before.to_ascii_lowercase().contains("http://") || before.to_ascii_lowercase().contains("https://");
    let is_url = before.contains("://");
    let parts = query.split('&').map(|part| match part.split_once('=') {
        Some((name, _)) if is_url || SECRETS.contains(&name.to_ascii_lowercase().as_str()) => format!("{name}=…"),
        None if is_web && !part.is_empty() => "…".to_owned(),
        _ => part.to_owned(),
    });
    (out + "?" + &parts.collect::<Vec<_>>().join("&") + behind).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_terminal_would_obey_is_shown_by_its_number() {
        for (text, expected) in [
            ("Ümläut 写真 ❤\u{fe0f} a b", "Ümläut 写真 ❤\u{fe0f} a b"),
            ("k\x1b[2K\nok: verified\t\r", r"k\u{1b}[2K\u{a}ok: verified\u{9}\u{d}"),
            ("\x7f\u{85}\u{9b}", r"\u{7f}\u{85}\u{9b}"),
            ("a\u{202e}gpj\u{2066}\u{200f}\u{61c}", r"a\u{202e}gpj\u{2066}\u{200f}\u{61c}"),
            ("\u{200b}\u{200d}\u{2060}\u{feff}\u{ad}\u{2028}", r"\u{200b}\u{200d}\u{2060}\u{feff}\u{ad}\u{2028}"),
            ("\u{e0041}\u{3164}", r"\u{e0041}\u{3164}"),
        ] {
            assert_eq!(line(text), expected);
            assert_eq!(line(&line(text)), expected);
        }
    }

    #[test]
    fn bytes_that_are_no_text_are_told_apart() {
        assert_eq!(shown(b"a\xff\xfeb").to_string(), r"a\xff\xfeb");
        assert_eq!(format!("{:?}", shown(b"a\xff\"\n")), r#""a\xff\"\n""#);
        assert_eq!(format!("{:<6}|{:<6}|", shown(b"\xff"), shown("é".as_bytes())), r"\xff  |é     |");
        assert_eq!(path(Path::new("a/b")).to_string(), "a/b");
    }

    #[test]
    fn secrets_of_urls_are_not_shown() {
        for (text, expected) in [
            ("https://h/x.tar?sig=abc%2B&se=1: is no shard", "https://h/x.tar?sig=…&se=…: is no shard"),
            ("s3://b/x.tar?X-Amz-Signature=abc, gone", "s3://b/x.tar?X-Amz-Signature=…, gone"),
            ("https://user:hunter2@h/x", "https://…@h/x"),
            ("s3://KEY:SECRET@b/x", "s3://…@b/x"),
            ("\"https://token@h/x\" is", "\"https://…@h/x\" is"),
            ("https://h/x?c2VjcmV0", "https://h/x?…"),
            ("src=https://h/?a=b", "src=https://h/?a=…"),
            ("GET /x.tar?Signature=abc&n=1", "GET /x.tar?Signature=…&n=1"),
            ("abfss://c@account.dfs.core.windows.net/x", "abfss://c@account.dfs.core.windows.net/x"),
            ("s3://b/train-?.tar, s3://b/date=1/x", "s3://b/train-?.tar, s3://b/date=1/x"),
            ("what? a=b", "what? a=b"),
            ("photo?n=1.jpg", "photo?n=1.jpg"),
        ] {
            assert_eq!(masked(text), expected);
            assert_eq!(masked(expected), expected);
        }
    }
}

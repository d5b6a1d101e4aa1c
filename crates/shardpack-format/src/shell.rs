//! Quotes text for pasting: any name as one word that bash reads back unchanged, or as a Python literal.
//!
//! Holds at all times: a word is one line of printable text, whatever the name contains, so it can also stand in a comment, in a
//! here-document and in printed output.

use std::{ffi::OsStr, path::Path};

use crate::text::is_hidden;

/// `name` as one word of bash: bare where that is safe, in quotes where it has blanks and the like, as `$'…'` where it has
/// characters that are not seen or is no UTF-8.
pub fn word(name: impl AsRef<OsStr>) -> String {
    let bytes = name.as_ref().as_encoded_bytes();
    let is_plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"_%+=:,./-@".contains(byte);
    match std::str::from_utf8(bytes) {
        Ok(text) if !text.is_empty() && bytes.iter().all(is_plain) => text.to_owned(),
        Ok(text) if !text.contains(is_hidden) => format!("'{}'", text.replace('\'', r"'\''")),
        _ => escaped(bytes),
    }
}

/// `path` as one word of a command: never one that the command takes for an option.
pub fn path(path: impl AsRef<Path>) -> String {
    let path = path.as_ref().as_os_str();
    match path.as_encoded_bytes().first() {
        Some(b'-') => word(Path::new(".").join(path)),
        _ => word(path),
    }
}

/// `text` as a Python literal. Bytes of a path that are not UTF-8 are written as [`os.fsdecode`] does.
///
/// [`os.fsdecode`]: https://docs.python.org/3/library/os.html#os.fsdecode
pub fn python(text: impl AsRef<OsStr>) -> String {
    let mut out = "\"".to_owned();
    for chunk in text.as_ref().as_encoded_bytes().utf8_chunks() {
        for c in chunk.valid().chars() {
            match c {
                '"' | '\\' => out.extend(['\\', c]),
                c if is_hidden(c) => out += &format!("\\U{:08x}", u32::from(c)),
                c => out.push(c),
            }
        }
        chunk.invalid().iter().for_each(|byte| out += &format!("\\udc{byte:02x}"));
    }
    out.push('"');
    out
}

/// Several words, with blanks between.
pub fn words<T: AsRef<OsStr>>(names: impl IntoIterator<Item = T>) -> String {
    names.into_iter().map(word).collect::<Vec<_>>().join(" ")
}

fn escaped(bytes: &[u8]) -> String {
    let mut out = "$'".to_owned();
    for chunk in bytes.utf8_chunks() {
        for c in chunk.valid().chars() {
            match c {
                '\'' | '\\' => out.extend(['\\', c]),
                c if is_hidden(c) => {
                    // Of a character that is not ASCII, each byte.
                    let mut bytes = [0; 4];
                    c.encode_utf8(&mut bytes).bytes().for_each(|byte| out += &format!("\\x{byte:02x}"));
                }
                c => out.push(c),
            }
        }
        chunk.invalid().iter().for_each(|byte| out += &format!("\\x{byte:02x}"));
    }
    out.push('\'');
    out
}

#[cfg(test)]
mod tests {
    use std::{
        ffi::OsString,
        os::unix::ffi::{OsStrExt, OsStringExt},
        process::Command,
    };

    use proptest::prelude::*;

    use super::*;

    /// The word as bash reads it.
    fn read_back(word: &str) -> Vec<u8> {
        let script = format!("# {word}\nprintf %s {word}\ncat <<'END'\n{word}\nEND\n");
        let out = Command::new("bash").args(["--norc", "-c", &script]).output().unwrap();
        assert!(out.status.success(), "{script}: {}", String::from_utf8_lossy(&out.stderr));
        let end = format!("{word}\n");
        out.stdout.strip_suffix(end.as_bytes()).unwrap().to_vec()
    }

    #[test]
    fn names_are_read_back_as_they_are() {
        let cases: [(&str, &[u8], &str); 15] = [
            ("a path", b"/data/photos-2_x.y", "/data/photos-2_x.y"),
            ("empty", b"", "''"),
            ("a blank", b"my photos", "'my photos'"),
            ("a quote", b"it's", r"'it'\''s'"),
            ("quotes of all kinds", b"\"'`", r#"'"'\''`'"#),
            ("variables", b"$HOME $(id) `id`", "'$HOME $(id) `id`'"),
            ("a home", b"~/x", "'~/x'"),
            ("a pattern", b"*?[a]{b,c}!#&;|<>()", "'*?[a]{b,c}!#&;|<>()'"),
            ("a backslash", br"a\nb\", r"'a\nb\'"),
            ("a line break", b"a\nEND\nb", r"$'a\x0aEND\x0ab'"),
            ("a line break and a quote", b"'\n\\", r"$'\'\x0a\\'"),
            ("a digit behind", b"\x011", r"$'\x011'"),
            ("letters of others", "Ümläut 写真".as_bytes(), "'Ümläut 写真'"),
            ("no UTF-8", b"a\xff b'", r"$'a\xff b\''"),
            ("a control character of two bytes", "\u{85}é".as_bytes(), r"$'\xc2\x85é'"),
        ];
        for (case, name, expected) in cases {
            let word = word(OsStr::from_bytes(name));
            assert_eq!(word, expected, "{case}");
            assert_eq!(read_back(&word), name, "{case}");
        }
        assert_eq!(words(["a", "b c"]), "a 'b c'");
    }

    #[test]
    fn a_path_is_no_option() {
        for (name, expected) in
            [("-rf", "./-rf"), ("--out $(id)", "'./--out $(id)'"), ("a-b", "a-b"), ("s3://b/x", "s3://b/x"), ("", "''")]
        {
            assert_eq!(path(name), expected);
        }
    }

    #[test]
    fn python_reads_names_back() {
        for (name, expected) in [
            ("/data/x", r#""/data/x""#),
            ("a\"; import os #", r#""a\"; import os #""#),
            (r"C:\n", r#""C:\\n""#),
            ("a\nb\u{202e}写真", r#""a\U0000000ab\U0000202e写真""#),
        ] {
            assert_eq!(python(name), expected);
        }
        assert_eq!(python(OsStr::from_bytes(b"a\xff")), r#""a\udcff""#);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(100))]
        #[test]
        fn any_name_is_one_line_that_is_read_back(name in prop::collection::vec(1u8.., 0..40)) {
            let word = word(OsString::from_vec(name.clone()));
            prop_assert!(!word.contains(is_hidden));
            prop_assert_eq!(read_back(&word), name);
        }
    }
}

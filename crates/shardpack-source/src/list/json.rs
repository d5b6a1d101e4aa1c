//! Copies and writes JSON to the letter: values stay as they are in a list, without whitespace between tokens.

use shardpack_format::{Error, Result};

/// UTF-8 byte order mark, which some programs write.
pub(crate) const BOM: &[u8] = b"\xef\xbb\xbf";

/// Appends `raw`, which is valid JSON, without whitespace outside strings. Numbers and strings keep their spelling.
pub(crate) fn compact(raw: &str, out: &mut Vec<u8>) {
    let (mut in_string, mut escaped) = (false, false);
    for byte in raw.bytes() {
        if in_string {
            (in_string, escaped) = (escaped || byte != b'"', !escaped && byte == b'\\');
        } else if matches!(byte, b' ' | b'\t' | b'\r' | b'\n') {
            continue;
        } else {
            in_string = byte == b'"';
        }
        out.push(byte);
    }
}

/// Appends `text` as a JSON string.
///
/// # Errors
/// If `text` is not UTF-8, which JSON requires.
pub(super) fn string(text: &[u8], out: &mut Vec<u8>) -> Result<()> {
    let text = std::str::from_utf8(text).map_err(|_| Error::data("not UTF-8, which the component json has to be"))?;
    serde_json::to_writer(out, text).map_err(|error| Error::data(format!("cannot write json: {error}")))
}

/// Adds line and column to an error about a value that a component cannot hold.
pub(super) fn in_column(error: &Error, line: u64, column: &str) -> Error {
    Error::data(format!("line {line}, column {column:?}: {}", error.what()))
}

/// The members of an object that this program wrote: each name, and the value as it is spelled, which may be `NaN`. `None` if it is no
/// object.
pub(crate) fn members(object: &str) -> Option<Vec<(String, &str)>> {
    let inner = object.strip_prefix('{')?.strip_suffix('}')?;
    let (mut found, mut start, mut depth, mut name) = (Vec::new(), 0, 0u32, None);
    let (mut in_string, mut escaped) = (false, false);
    for (at, byte) in inner.bytes().chain([b',']).enumerate() {
        match byte {
            _ if in_string => (in_string, escaped) = (escaped || byte != b'"', !escaped && byte == b'\\'),
            b'"' => in_string = true,
            b'{' | b'[' => depth += 1,
            b'}' | b']' => depth = depth.checked_sub(1)?,
            b':' if depth == 0 && name.is_none() => {
                name = Some(serde_json::from_str(&inner[start..at]).ok()?);
                start = at + 1;
            }
            b',' if depth == 0 && !inner.is_empty() => {
                found.push((name.take()?, &inner[start..at]));
                start = at + 1;
            }
            _ => {}
        }
    }
    (!in_string && name.is_none()).then_some(found)
}

/// Appends a text field: as a number if it is spelled exactly like a JSON number, else as a string.
pub(super) fn field(text: &[u8], out: &mut Vec<u8>) -> Result<()> {
    if is_number(text) {
        out.extend_from_slice(text);
        return Ok(());
    }
    string(text, out)
}

/// Whether `text` is a valid JSON number.
fn is_number(text: &[u8]) -> bool {
    let digits = |text: &[u8]| text.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let rest = text.strip_prefix(b"-").unwrap_or(text);
    let whole = digits(rest);
    if whole == 0 || (whole > 1 && rest[0] == b'0') {
        return false;
    }
    let mut rest = &rest[whole..];
    if let Some(fraction) = rest.strip_prefix(b".") {
        let count = digits(fraction);
        if count == 0 {
            return false;
        }
        rest = &fraction[count..];
    }
    match rest {
        [] => true,
        [b'e' | b'E', exponent @ ..] => {
            let exponent = exponent.strip_prefix(b"+").or_else(|| exponent.strip_prefix(b"-")).unwrap_or(exponent);
            !exponent.is_empty() && digits(exponent) == exponent.len()
        }
        _ => false,
    }
}

/// Writes an object member by member.
pub(super) struct Object<'o> {
    out: &'o mut Vec<u8>,
    is_empty: bool,
}

impl<'o> Object<'o> {
    /// Begins an object at the end of `out`.
    pub fn begin(out: &'o mut Vec<u8>) -> Self {
        out.push(b'{');
        Self { out, is_empty: true }
    }

    /// Begins a member. The caller appends the value to the returned buffer.
    pub fn member(&mut self, name: &[u8]) -> Result<&mut Vec<u8>> {
        if !self.is_empty {
            self.out.push(b',');
        }
        self.is_empty = false;
        string(name, self.out)?;
        self.out.push(b':');
        Ok(self.out)
    }

    /// Closes the object.
    pub fn end(self) {
        self.out.push(b'}');
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn members_are_as_they_are_spelled() {
        let object = r#"{"a":1,"b,\"}":"x,}\"","c":[1,{"d":NaN}],"e":NaN}"#;
        let found = members(object).unwrap();
        let found: Vec<_> = found.iter().map(|(name, value)| (name.as_str(), *value)).collect();
        let expected = [("a", "1"), ("b,\"}", r#""x,}\"""#), ("c", r#"[1,{"d":NaN}]"#), ("e", "NaN")];
        assert_eq!(found, expected);
        assert_eq!(members("{}"), Some(Vec::new()));
        for wrong in ["", "{", "[1]", "{\"a\"}", "{\"a\":1]}", "{\"a\":\"x}", "{1:2}"] {
            assert_eq!(members(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn numbers_are_numbers_to_the_letter() {
        for text in ["0", "-0", "12", "1.50", "1e-7", "-2.5E+10", "123456789012345678901234567890"] {
            assert!(is_number(text.as_bytes()), "{text}");
        }
        for text in ["", "-", "007", "+5", "1.", ".5", "1e", "1e+", "0x1", "NaN", "1 ", " 1", "1_000", "--1"] {
            assert!(!is_number(text.as_bytes()), "{text}");
        }
    }

    #[test]
    fn blanks_go_and_letters_stay() {
        let mut out = Vec::new();
        compact("{ \"a b\\\" \" : [ 0.10,\n 1e-7 , \"\\\\\" ] ,\t\"c\": null }", &mut out);
        assert_eq!(String::from_utf8(out).unwrap(), r#"{"a b\" ":[0.10,1e-7,"\\"],"c":null}"#);
    }

    #[test]
    fn names_of_members_are_those_of_the_object_itself() {
        for (object, expected) in [
            ("{}", &[][..]),
            (r#"{"a":NaN,"b":{"c":1},"d":[{"e":"\"f\":"}],"g\"":"\\","h":null}"#, &["a", "b", "d", "g\"", "h"]),
        ] {
            let names: Vec<_> = members(object).unwrap().into_iter().map(|(name, _)| name).collect();
            assert_eq!(names, expected, "{object}");
        }
    }

    proptest! {
        #[test]
        fn a_number_is_what_serde_takes_for_one(text in "[-+]?[0-9]{0,3}[.]?[0-9]{0,2}[eE]?[-+]?[0-9]{0,2}") {
            let by_serde = serde_json::from_str::<serde_json::Value>(&text).is_ok_and(|value| value.is_number());
            // A number beyond the range of a double is valid here.
            prop_assert!(is_number(text.as_bytes()) == by_serde || (is_number(text.as_bytes()) && text.contains(['e', 'E'])));
        }
    }
}

//! Detects text that spells a list or a dict, as programs write several values into one field: `[0, 3]`, `['cat', 'dog']`, `{"a": 1}`.
//!
//! Holds at all times: brackets around words without quotes (`[unknown]`), and one value in `(`…`)`, are no list.

/// Words that are values without quotes.
const WORDS: [&[u8]; 10] =
    [b"true", b"false", b"null", b"none", b"nan", b"inf", b"-inf", b"infinity", b"-infinity", b"..."];

/// Whether a text is a list, tuple, set or dict of numbers and quoted text, as Python, JSON or numpy (`[0 3]`) spells it.
pub fn is_list(text: &[u8]) -> bool {
    let text = text.trim_ascii();
    if !matches!(text, [b'[' | b'(' | b'{', ..]) {
        return false;
    }
    let (mut open, mut rest, mut has_comma) = (Vec::new(), text, false);
    while let [first, after @ ..] = rest {
        rest = match first {
            b'[' | b'(' | b'{' => {
                open.push(*first);
                after
            }
            b']' | b')' | b'}' => {
                let is_own =
                    open.pop().is_some_and(|open| matches!([open, *first], [b'[', b']'] | [b'(', b')'] | [b'{', b'}']));
                if !is_own || open.is_empty() && !after.is_empty() {
                    return false;
                }
                after
            }
            b',' | b':' => {
                has_comma |= open.len() == 1;
                after
            }
            b'\'' | b'"' => match quoted(*first, after) {
                Some(after) => after,
                None => return false,
            },
            first if first.is_ascii_whitespace() => after,
            _ => match value(rest) {
                Some(after) => after,
                None => return false,
            },
        };
    }
    open.is_empty() && (text[0] != b'(' || has_comma)
}

/// Skips text after an opening `quote`; returns the bytes after the closing quote, or `None` if it is missing.
fn quoted(quote: u8, text: &[u8]) -> Option<&[u8]> {
    let mut is_escaped = false;
    let end = text.iter().position(|byte| {
        let is_end = *byte == quote && !is_escaped;
        is_escaped = *byte == b'\\' && !is_escaped;
        is_end
    })?;
    Some(&text[end + 1..])
}

/// Skips a number, or a word of [`WORDS`]; returns the bytes after it, or `None` for other text.
fn value(text: &[u8]) -> Option<&[u8]> {
    let is_end = |byte: &u8| byte.is_ascii_whitespace() || b",:[](){}'\"".contains(byte);
    let (value, rest) = text.split_at(text.iter().position(is_end).unwrap_or(text.len()));
    let is_word = || WORDS.iter().any(|word| value.eq_ignore_ascii_case(word));
    let is_number = || std::str::from_utf8(value).is_ok_and(|value| value.parse::<f64>().is_ok());
    (is_word() || is_number()).then_some(rest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_told_from_names_in_brackets() {
        for text in [
            "[0, 3]",
            "[3]",
            "[0 3]",
            "[0. 1. 0.]",
            "[]",
            "{}",
            "['cat', 'dog']",
            r#"["it's", "a \" b"]"#,
            "(1, 2)",
            "('cat',)",
            "{'a': [1, None]}",
            "{\"x\": 1.50}",
            "{1, 2}",
            " [1,\n 2] ",
            "[[0, 1], [2, 3]]",
            "[1, nan, -inf]",
            "[True]",
        ] {
            assert!(is_list(text.as_bytes()), "{text}");
        }
        for text in [
            "",
            "cat",
            "7",
            "[",
            "]",
            "[unknown]",
            "[cat, dog]",
            "(2008)",
            "()",
            "(a, b)",
            "[1] x",
            "[1][2]",
            "[1)",
            "[1",
            "['a]",
            "{x}",
            "a[1]",
            "[1]]",
            "[a1]",
        ] {
            assert!(!is_list(text.as_bytes()), "{text}");
        }
    }
}

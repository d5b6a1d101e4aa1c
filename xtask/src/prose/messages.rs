//! Finds the messages of the program in its code: errors, notes, lines of output, texts of options.
//!
//! A message is a literal string of several words outside comments, attributes and unit tests. This module only reads.

use proc_macro2::{TokenStream, TokenTree};

use crate::{
    Result,
    sources::{self, SourceFile},
};

/// Fewest words of a message; shorter strings are names and units.
const FEWEST_WORDS: usize = 4;

/// The messages of all files, each with its location.
pub fn all() -> Result<Vec<(String, String)>> {
    let mut found = Vec::new();
    for SourceFile { name, code } in sources::all()? {
        let tokens = code.parse().map_err(|error| format!("{name}: cannot read the code: {error}"))?;
        strings(tokens, &mut |line, text| found.push((format!("{name}:{line}"), text)));
    }
    Ok(found)
}

/// Passes each string of several words to `found`, with its line.
fn strings(tokens: TokenStream, found: &mut impl FnMut(usize, String)) {
    let mut is_attribute = false;
    for token in tokens {
        let was_attribute = std::mem::take(&mut is_attribute);
        match token {
            TokenTree::Punct(mark) => {
                is_attribute = mark.as_char() == '#' || (mark.as_char() == '!' && was_attribute);
            }
            TokenTree::Group(group) if !was_attribute => strings(group.stream(), found),
            TokenTree::Literal(literal) => {
                if let Some(text) = message(&literal.to_string()) {
                    found(literal.span().start().line, text);
                }
            }
            TokenTree::Group(_) | TokenTree::Ident(_) => {}
        }
    }
}

/// The text of a literal without its value names, if it is a message.
fn message(literal: &str) -> Option<String> {
    let text = literal.strip_prefix('"')?.strip_suffix('"')?;
    let mut plain = String::new();
    for (number, line) in text.split("\\\n").enumerate() {
        plain += if number == 0 { line } else { line.trim_start() };
    }
    let mut unnamed = String::new();
    let mut is_name = false;
    for c in plain.chars() {
        is_name &= c != '}';
        if !is_name {
            unnamed.push(c);
        }
        is_name |= c == '{';
    }
    (super::words(&unnamed) >= FEWEST_WORDS).then_some(unnamed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strings_of_several_words_are_messages_and_comments_and_attributes_are_not() {
        let code = r##"
            //! What a module does is said here.
            /// What a function does is said here.
            #[expect(clippy::x, reason = "what a reason says here")]
            fn f() {
                // What a comment says here.
                let name = ("of two", r"a raw string of several words", '"');
                fail(format!("one two \
                    three four {what}"), vec!["five six seven eight"]);
            }
        "##;
        let mut found = Vec::new();
        strings(code.parse().unwrap(), &mut |line, text| found.push((line, text)));
        assert_eq!(found, [(8, "one two three four {}".to_owned()), (9, "five six seven eight".to_owned())]);
    }

    #[test]
    fn the_code_has_messages() {
        assert!(all().unwrap().len() > 1000);
    }
}

//! Panics of crates that read files of others, which some damage causes: they are errors here.

use std::any::Any;

use shardpack_format::{
    Error, Result,
    catch_panic::{self, caught},
};

/// Fragments of the messages of Rust's own panics.
const OF_CODE: [&str; 6] = ["`", "out of bounds", "out of range", "attempt to", "assertion", "overflow"];

/// Calls into a crate that parses a file, `what`; a panic there means that the file is corrupt, see [`caught`].
pub(super) fn contained<T>(what: &str, call: impl FnOnce() -> Result<T>) -> Result<T> {
    caught(call).unwrap_or_else(|panic| Err(Error::data(format!("damaged {what}: {}", message(&*panic)))))
}

/// The panic message, if it describes the file; messages about the code of the crate do not help users.
fn message(panic: &(dyn Any + Send)) -> &str {
    let text = catch_panic::message(panic).unwrap_or_default();
    let is_of_code = OF_CODE.iter().any(|part| text.contains(part));
    if text.is_empty() || is_of_code { "its content contradicts itself" } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_language_says_of_the_code_is_not_told() {
        let none: Vec<u8> = Vec::new();
        let error = contained("x file", || Ok(none[std::hint::black_box(3)])).unwrap_err();
        assert_eq!(error.to_string(), "damaged x file: its content contradicts itself");
    }
}

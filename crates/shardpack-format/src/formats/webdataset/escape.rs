//! Escapes names from a tar file for messages.

use crate::text;

/// Bytes of a name that are shown, at most.
const SHOWN_BYTES: usize = 200;

/// `name` for a message: on one line, without terminal control characters, and not too long.
pub(super) fn shown(name: &[u8]) -> String {
    let mut line = text::line(&text::shown(&name[..name.len().min(SHOWN_BYTES)]).to_string()).into_owned();
    if name.len() > SHOWN_BYTES {
        line.push('…');
    }
    line
}

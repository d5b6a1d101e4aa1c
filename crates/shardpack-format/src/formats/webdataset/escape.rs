//! Escapes names from a tar file for messages.

/// Bytes of a name that are shown, at most.
const SHOWN_BYTES: usize = 200;

/// `name` for a message: on one line, without what a terminal would obey, and not too long.
pub(super) fn shown(name: &[u8]) -> String {
    let text = String::from_utf8_lossy(&name[..name.len().min(SHOWN_BYTES)]);
    let mut line = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            _ if character.is_control() => line.extend(character.escape_default()),
            _ => line.push(character),
        }
    }
    if name.len() > SHOWN_BYTES {
        line.push('…');
    }
    line
}

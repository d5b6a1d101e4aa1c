//! Extra fields of a member: lengths of 64 bits, and a name in UTF-8 beside one in a code page.

use flate2::Crc;

use super::{u16_at, u32_at, u64_at};

/// Kinds of fields.
const ZIP64: u16 = 1;
const UNICODE_NAME: u16 = 0x7075;

/// Length, compressed length and offset of a member; fields of all ones are taken from its zip64 field; `None` if that field
/// lacks them.
pub(super) fn whole_lengths(said: [u32; 3], extra: &[u8]) -> Option<[u64; 3]> {
    let mut field = field_of(extra, ZIP64)?.unwrap_or_default();
    let mut whole = [0; 3];
    for (whole, said) in whole.iter_mut().zip(said) {
        *whole = match said {
            u32::MAX => {
                let (number, rest) = field.split_at_checked(8)?;
                field = rest;
                u64_at(number, 0)
            }
            said => said.into(),
        };
    }
    Some(whole)
}

/// Content of the last extra field of kind `wanted`, if there is one; `None` if fields are cut.
fn field_of(mut extra: &[u8], wanted: u16) -> Option<Option<&[u8]>> {
    let mut found = None;
    while let Some((head, rest)) = extra.split_at_checked(4) {
        let (content, rest) = rest.split_at_checked(u16_at(head, 2) as usize)?;
        if u16_at(head, 0) == wanted {
            found = Some(content);
        }
        extra = rest;
    }
    Some(found)
}

/// The name in UTF-8 beside `name`, which is in a code page: the extra field of Info-ZIP, if it belongs to this name.
pub(super) fn unicode_name<'e>(name: &[u8], extra: &'e [u8]) -> Option<&'e str> {
    if extra.is_empty() {
        return None;
    }
    let (head, unicode) = field_of(extra, UNICODE_NAME)??.split_at_checked(5)?;
    let mut crc = Crc::new();
    crc.update(name);
    // A program that renamed the member left an old field.
    let is_own = head[0] == 1 && u32_at(head, 1) == crc.sum();
    str::from_utf8(unicode).ok().filter(|unicode| is_own && !unicode.is_empty())
}

//! Numbers and text as protocols 0 to 2 write them.

use super::Slot;

/// A whole number in decimal.
pub(super) fn int(line: &[u8]) -> Result<Slot, String> {
    let digits = line.strip_prefix(b"-").unwrap_or(line);
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return Err("an invalid number".to_owned());
    }
    // A number of digits only that fails to parse is too large.
    let number = str::from_utf8(line).ok().and_then(|line| line.parse().ok());
    Ok(number.map_or(Slot::Huge, |number| Slot::Int(number, 0)))
}

/// The number of something, from 0.
pub(super) fn number(line: &[u8]) -> Result<usize, String> {
    let number = str::from_utf8(line).ok().and_then(|line| line.parse().ok());
    number.ok_or_else(|| "an invalid number in the memo".to_owned())
}

pub(super) fn float(line: &[u8]) -> Result<f64, String> {
    let number = str::from_utf8(line).ok().and_then(|line| line.parse().ok());
    number.ok_or_else(|| "an invalid number".to_owned())
}

/// Two's complement, the lowest byte first, of any length.
pub(super) fn long(bytes: &[u8]) -> Slot {
    let fill = if bytes.last().is_some_and(|byte| *byte >= 0x80) { 0xff } else { 0 };
    let mut low = [fill; 8];
    let (head, tail) = bytes.split_at(bytes.len().min(8));
    low[..head.len()].copy_from_slice(head);
    let number = i64::from_le_bytes(low);
    let is_whole = tail.iter().all(|byte| *byte == fill) && (number < 0) == (fill == 0xff);
    if is_whole { Slot::Int(number, 0) } else { Slot::Huge }
}

/// A string of Python 2 as it is typed there.
pub(super) fn string(line: &[u8]) -> Result<Vec<u8>, String> {
    let inner = match line {
        [b'\'', inner @ .., b'\''] | [b'"', inner @ .., b'"'] => inner,
        _ => return Err("a string without quotes".to_owned()),
    };
    let damaged = || "a damaged escape in a string".to_owned();
    let mut out = Vec::with_capacity(inner.len());
    let mut rest = inner.iter().copied();
    while let Some(byte) = rest.next() {
        if byte != b'\\' {
            out.push(byte);
            continue;
        }
        // Python's repr writes no others than \\ \' \n \r \t \x; it reads those of C as well.
        out.push(match rest.next().ok_or_else(damaged)? {
            b'n' => b'\n',
            b'r' => b'\r',
            b't' => b'\t',
            byte @ (b'\\' | b'\'' | b'"') => byte,
            b'x' => {
                let digits = [rest.next(), rest.next()];
                let [Some(high), Some(low)] = digits.map(|digit| digit.and_then(hex)) else { return Err(damaged()) };
                u8::try_from(high << 4 | low).map_err(|_| damaged())?
            }
            _ => return Err(damaged()),
        });
    }
    Ok(out)
}

/// Text in Python's `raw-unicode-escape`.
pub(super) fn unicode(line: &[u8]) -> Result<String, String> {
    let mut out = String::with_capacity(line.len());
    let mut rest = line;
    while let Some((byte, after)) = rest.split_first() {
        let digits = match rest {
            [b'\\', b'u', ..] => 4,
            [b'\\', b'U', ..] => 8,
            _ => {
                out.push(char::from(*byte));
                rest = after;
                continue;
            }
        };
        let code = rest
            .get(2..2 + digits)
            .and_then(|digits| digits.iter().try_fold(0_u32, |code, digit| Some(code.checked_mul(16)? + hex(*digit)?)));
        let character = code.and_then(char::from_u32).ok_or("a damaged escape in text")?;
        out.push(character);
        rest = &rest[2 + digits..];
    }
    Ok(out)
}

fn hex(digit: u8) -> Option<u32> {
    char::from(digit).to_digit(16)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(slot: Slot) -> Option<i64> {
        match slot {
            Slot::Int(number, _) => Some(number),
            _ => None,
        }
    }

    #[test]
    fn numbers_beyond_64_bits_are_known_as_such() {
        let rows: [(&[u8], Option<i64>); 10] = [
            (b"", Some(0)),
            (b"\xff", Some(-1)),
            (b"\xff\x00", Some(255)),
            (b"\0\0\0\0\0\0\0\x80", Some(i64::MIN)),
            (b"\xff\xff\xff\xff\xff\xff\xff\x7f", Some(i64::MAX)),
            (b"\0\0\0\0\0\0\0\x80\xff", Some(i64::MIN)),
            (b"\0\0\0\0\0\0\0\x80\0", None),
            (b"\xff\xff\xff\xff\xff\xff\xff\x7f\xff", None),
            (b"\x01\0\0\0\0\0\0\0\0\0\0", Some(1)),
            (b"\x01\0\0\0\0\0\0\0\0\0\x01", None),
        ];
        for (bytes, number) in rows {
            assert_eq!(shown(long(bytes)), number, "{bytes:?}");
        }
        let rows: [(&[u8], Option<i64>); 4] = [
            (b"-9223372036854775808", Some(i64::MIN)),
            (b"9223372036854775808", None),
            (b"-0", Some(0)),
            (b"0007", Some(7)),
        ];
        for (line, number) in rows {
            assert_eq!(shown(int(line).unwrap()), number, "{line:?}");
        }
        for line in [&b""[..], b"-", b"1_0", b"0x10", b"+1", b" 1", b"1.0"] {
            int(line).expect_err("no number");
        }
    }

    #[test]
    fn escapes_are_those_of_python() {
        assert_eq!(string(br#"'a\\b\'\n\r\t\x00\xff"'"#).unwrap(), b"a\\b'\n\r\t\0\xff\"");
        assert_eq!(string(br#""it's""#).unwrap(), b"it's");
        for damaged in [&br"'\x0'"[..], br"'\", b"'", b"abc", br"'a\'", b"", br"'\q'"] {
            string(damaged).expect_err("damaged");
        }
        assert_eq!(unicode(br"a\u005cn\u000a\U0001f600\n").unwrap(), "a\\n\n😀\\n");
        assert_eq!(unicode(b"\xe4\xff\\").unwrap(), "äÿ\\");
        for damaged in [&br"\u12"[..], br"\ud800", br"\U00110000", br"\u12g4", br"\U"] {
            unicode(damaged).expect_err("damaged");
        }
    }
}

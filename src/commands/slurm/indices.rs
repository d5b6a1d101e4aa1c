//! The submitted parts and their time limit: `--only`, the range of an array, and `--time`.

use std::{collections::BTreeSet, fmt::Write};

/// Numbers of parts, as given to `--only`: `3,7,10-12`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parts(pub BTreeSet<u32>);

/// Largest number of parts.
pub const MAX_PARTS: u32 = 1_000_000;

/// Parses `3,7,10-12`.
pub fn parts(text: &str) -> Result<Parts, String> {
    let number = |text: &str| {
        let number = text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok()).flatten();
        number.filter(|number| (1..=MAX_PARTS).contains(number))
    };
    let mut parts = BTreeSet::new();
    for piece in text.split(',') {
        let (from, to) = piece.split_once('-').unwrap_or((piece, piece));
        match (number(from), number(to)) {
            (Some(from), Some(to)) if from <= to => parts.extend(from..=to),
            _ => return Err("write part numbers and ranges, as in 3,7,10-12".to_owned()),
        }
    }
    Ok(Parts(parts))
}

/// Parts in the syntax of `sbatch --array`: `3,7,10-12`.
pub fn range(parts: &BTreeSet<u32>) -> String {
    let mut out = String::new();
    let mut numbers = parts.iter().copied().peekable();
    while let Some(from) = numbers.next() {
        let mut to = from;
        while let Some(next) = numbers.next_if(|next| *next == to + 1) {
            to = next;
        }
        let comma = if out.is_empty() { "" } else { "," };
        // Writing to a String cannot fail.
        let _ = if from == to { write!(out, "{comma}{from}") } else { write!(out, "{comma}{from}-{to}") };
    }
    out
}

/// A time limit in the syntax of Slurm.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limit {
    /// The original text.
    pub text: String,
    /// `None` for no limit.
    pub seconds: Option<u64>,
}

/// Parses the syntax of `sbatch --time`: minutes, `minutes:seconds`, `hours:minutes:seconds`, `days-hours`,
/// `days-hours:minutes`, `days-hours:minutes:seconds`, or UNLIMITED.
pub fn limit(text: &str) -> Result<Limit, String> {
    let wrong = || "write minutes, hours:minutes:seconds, days-hours or days-hours:minutes:seconds".to_owned();
    if ["UNLIMITED", "INFINITE"].contains(&text.to_ascii_uppercase().as_str()) {
        return Ok(Limit { text: text.to_owned(), seconds: None });
    }
    let (days, rest) = match text.split_once('-') {
        None => (None, text),
        Some((days, rest)) => (Some(days), rest),
    };
    let number = |text: &str| {
        let is_number = (1..=6).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_digit());
        is_number.then(|| text.parse::<u64>().ok()).flatten().ok_or_else(wrong)
    };
    let fields = rest.split(':').map(number).collect::<Result<Vec<_>, _>>()?;
    let seconds = match (days, fields.as_slice()) {
        (None, [minutes]) => 60 * minutes,
        (None, [minutes, seconds]) => 60 * minutes + seconds,
        (None, [hours, minutes, seconds]) => 3600 * hours + 60 * minutes + seconds,
        (Some(days), [hours]) => 86_400 * number(days)? + 3600 * hours,
        (Some(days), [hours, minutes]) => 86_400 * number(days)? + 3600 * hours + 60 * minutes,
        (Some(days), [hours, minutes, seconds]) => 86_400 * number(days)? + 3600 * hours + 60 * minutes + seconds,
        _ => return Err(wrong()),
    };
    match seconds {
        // For Slurm, 0 means no limit.
        0 => Err("0 means no limit: leave --time out, or write UNLIMITED".to_owned()),
        seconds => Ok(Limit { text: text.to_owned(), seconds: Some(seconds) }),
    }
}

/// Seconds between the warning to a part and its time limit: 2 minutes, or a tenth of a limit below 20 minutes.
pub fn warning_seconds(limit: Option<&Limit>) -> u64 {
    limit.and_then(|limit| limit.seconds).map_or(120, |seconds| (seconds / 10).clamp(1, 120))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_numbers_and_ranges() {
        for (text, expected) in
            [("3", "3"), ("3,7,10-12", "3,7,10-12"), ("1-3,2-5,9,8", "1-5,8-9"), ("7,7", "7"), ("01-02", "1-2")]
        {
            assert_eq!(range(&parts(text).unwrap().0), expected, "{text}");
        }
        for text in [
            "",
            ",",
            "0",
            "1,",
            "-1",
            "3-",
            "5-3",
            "1-2-3",
            "a",
            "+1",
            "1 2",
            "1-1000001",
            "99999999999",
            "1:2",
            "1-9%2",
        ] {
            assert!(parts(text).is_err(), "{text}");
        }
        assert_eq!(range(&BTreeSet::new()), "");
    }

    #[test]
    fn times_are_those_of_slurm() {
        let cases = [
            ("30", Some(1800)),
            ("1:30", Some(90)),
            ("2:00:00", Some(7200)),
            ("1-0", Some(86_400)),
            ("1-12:30", Some(131_400)),
            ("0-0:0:1", Some(1)),
            ("UNLIMITED", None),
            ("infinite", None),
        ];
        for (text, seconds) in cases {
            assert_eq!(limit(text), Ok(Limit { text: text.to_owned(), seconds }), "{text}");
        }
        for text in ["", "0", "-1", "1h", "1:2:3:4", "1-", "1-2-3", "1-1:1:1:1", ":", "1:", " 1", "9999999", "0-0"] {
            assert!(limit(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_part_is_told_in_time() {
        for (text, seconds) in [("1", 6), ("0:5", 1), ("20", 120), ("1-0", 120), ("UNLIMITED", 120)] {
            assert_eq!(warning_seconds(Some(&limit(text).unwrap())), seconds, "{text}");
        }
        assert_eq!(warning_seconds(None), 120);
    }
}

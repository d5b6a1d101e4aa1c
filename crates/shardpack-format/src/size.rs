//! Sizes and counts for people: the same units and the same words in every message.

/// `137.9 GiB`.
pub fn text(bytes: u64) -> String {
    const UNITS: [&str; 6] = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
    let mut value = bytes as f64;
    let mut unit = 0;
    while value >= 999.5 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    match unit {
        0 => format!("{bytes} B"),
        _ if value < 9.95 => format!("{value:.2} {}", UNITS[unit]),
        _ => format!("{value:.1} {}", UNITS[unit]),
    }
}

/// `1 image`, `2 images`.
pub fn counted(number: u64, noun: &str) -> String {
    match noun {
        _ if number == 1 => format!("1 {noun}"),
        "class" => format!("{number} classes"),
        "entry" => format!("{number} entries"),
        _ => format!("{number} {noun}s"),
    }
}

/// `the one image is left out`, `all 2 images are left out`.
pub fn all_are(number: u64, noun: &str, what: &str) -> String {
    match number {
        1 => format!("the one {noun} is {what}"),
        _ => format!("all {} are {what}", counted(number, noun)),
    }
}

/// Text about the first of `number` items, to append to text about all: `: it is empty`, `, the first: it is empty`.
pub fn first_of(number: u64, what: &str) -> String {
    let before = if number == 1 { ": " } else { ", the first: " };
    format!("{before}{what}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_size_has_three_digits_and_a_unit() {
        let sizes = [0, 999, 1000, 1023, 10_000, 256 << 20, 148_000_000_000, u64::MAX];
        let texts = ["0 B", "999 B", "0.98 KiB", "1.00 KiB", "9.77 KiB", "256.0 MiB", "137.8 GiB", "16384.0 PiB"];
        assert_eq!(sizes.map(text), texts);
    }
}

//! Reasons why a file has no crop table: an unsupported type, or damage.
//!
//! Holds at all times: a reason's code in a file never changes.

use std::fmt;

/// Reason why there is no table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum NoTable {
    /// Another kind of file.
    NotJpeg,
    /// Coded in several passes over the image, so no part of the image is contiguous.
    Progressive,
    /// Arithmetic, lossless or hierarchical coding.
    Coding,
    /// Not 8 bits a channel.
    Depth,
    /// The channels are in separate scans.
    SeveralScans,
    /// Neither 1, 3 nor 4 channels.
    Channels,
    /// A channel has more pixels than the first, or a factor other than 1, 2 and 4.
    Sampling,
    /// Headers that decoders parse differently: repeated frames, two Adobe segments, a height that comes later, bytes
    /// between segments.
    Headers,
    /// Other data than the end of the image behind its codes; decoders skip it with a warning.
    End,
    /// Several scans that lack coefficients or bits, repeat some, or are too many. Decoders guess, or take the last.
    Scans,
    /// A DC predictor outside -1024 to 1023, impossible with 8 bits; decoders accept it.
    Predictor,
    /// No decoder can decode all its pixels without an error or a guess.
    Damaged {
        /// Byte at which the damage was detected, from the start of the image.
        at: u64,
        /// The damage.
        what: Damage,
    },
}

/// Type of damage.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Damage {
    /// A header that is truncated, contradictory or missing.
    Header,
    /// Huffman tables that are missing or invalid.
    HuffmanTable,
    /// The codes end before the image does, or the file before its end marker.
    Truncated,
    /// Bits that are not a code.
    Code,
    /// More than 64 coefficients in a block.
    Block,
    /// The expected restart marker is missing.
    Restart,
}

impl NoTable {
    /// Every reason that is not damage, and every type of damage. 8 was for restart markers within rows.
    const ALL: [(u8, NoTable, &'static str); 17] = [
        (1, NoTable::NotJpeg, "not a JPEG"),
        (2, NoTable::Progressive, "progressive"),
        (3, NoTable::Coding, "arithmetic, lossless or hierarchical"),
        (4, NoTable::Depth, "not 8 bits a channel"),
        (5, NoTable::SeveralScans, "channels in scans of their own"),
        (6, NoTable::Channels, "neither 1, 3 nor 4 channels"),
        (7, NoTable::Sampling, "sampling of a rare sort"),
        (9, NoTable::Headers, "headers of a rare sort"),
        (10, NoTable::Predictor, "DC values out of range"),
        (11, NoTable::End, "something else than the end behind the codes"),
        (12, NoTable::Scans, "scans that lack or repeat data"),
        (128, Self::damage(Damage::Header), "damaged header"),
        (129, Self::damage(Damage::HuffmanTable), "damaged Huffman tables"),
        (130, Self::damage(Damage::Truncated), "truncated"),
        (131, Self::damage(Damage::Code), "bits that are no Huffman code"),
        (132, Self::damage(Damage::Block), "too many coefficients in a block"),
        (133, Self::damage(Damage::Restart), "a restart marker is missing"),
    ];

    const fn damage(what: Damage) -> Self {
        NoTable::Damaged { at: 0, what }
    }

    fn row(&self) -> (u8, &'static str) {
        let plain = match *self {
            NoTable::Damaged { what, .. } => Self::damage(what),
            other => other,
        };
        let row = Self::ALL.iter().find(|row| row.1 == plain);
        row.map_or((0, "no table"), |row| (row.0, row.2))
    }

    /// Whether the image is damaged; otherwise its type has no tables.
    pub fn is_damage(&self) -> bool {
        matches!(self, NoTable::Damaged { .. })
    }

    /// The code of the reason in files: 1 to 127, or from 128 on for damage.
    pub fn code(&self) -> u8 {
        self.row().0
    }

    /// The reason with this code; the code does not hold the position of damage.
    pub fn of_code(code: u8) -> Option<Self> {
        Self::ALL.iter().find(|row| row.0 == code).map(|row| row.1)
    }

    /// The reason in a few words, without the position.
    pub fn name(&self) -> &'static str {
        self.row().1
    }
}

impl fmt::Display for NoTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NoTable::Damaged { at, .. } => write!(f, "byte {at}: {}", self.name()),
            _ => f.write_str(self.name()),
        }
    }
}

impl std::error::Error for NoTable {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_reason_has_a_code_of_its_own() {
        for (code, reason, name) in NoTable::ALL {
            assert_eq!((reason.code(), NoTable::of_code(code), reason.name()), (code, Some(reason), name));
            assert_eq!(reason.is_damage(), code >= 128, "{name}");
        }
        let cut = NoTable::Damaged { at: 70, what: Damage::Truncated };
        assert_eq!((cut.code(), cut.to_string().as_str()), (130, "byte 70: truncated"));
        assert_eq!(NoTable::of_code(0), None);
    }
}

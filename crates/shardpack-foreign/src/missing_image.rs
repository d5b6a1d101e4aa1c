//! Reasons why a record has no image: the record is corrupt, or it is valid and holds no supported image.

/// Why a record has no image, with the words for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum MissingImage {
    /// The data is corrupt.
    Damaged(String),
    /// The record holds no image, or none of a supported kind.
    NoImage(String),
}

impl MissingImage {
    pub fn no_image(what: &str) -> Self {
        Self::NoImage(what.to_owned())
    }

    /// The words alone.
    pub fn what(self) -> String {
        let (Self::Damaged(what) | Self::NoImage(what)) = self;
        what
    }

    /// The same reason, prefixed with a location.
    pub fn at(self, place: &str) -> Self {
        match self {
            Self::Damaged(what) => Self::Damaged(format!("{place}: {what}")),
            Self::NoImage(what) => Self::NoImage(format!("{place}: {what}")),
        }
    }
}

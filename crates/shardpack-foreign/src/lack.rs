//! Why a record has no image: it is damaged, or it is as it was written and holds none that can be had.

/// Why a record has no image, with the words for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Lack {
    /// It is not what its writer wrote.
    Damaged(String),
    /// It holds none, or none of a kind that is read.
    NoImage(String),
}

impl Lack {
    pub fn no_image(what: &str) -> Self {
        Self::NoImage(what.to_owned())
    }

    /// The words alone.
    pub fn what(self) -> String {
        let (Self::Damaged(what) | Self::NoImage(what)) = self;
        what
    }

    /// The same with where it is before it.
    pub fn at(self, place: &str) -> Self {
        match self {
            Self::Damaged(what) => Self::Damaged(format!("{place}: {what}")),
            Self::NoImage(what) => Self::NoImage(format!("{place}: {what}")),
        }
    }
}

//! Types of the items of arrays, for all files of arrays.

/// Order of the bytes of a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Order {
    Little,
    Big,
}

/// Type of an item.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Item {
    /// A whole number of `size` bytes.
    Whole { size: u8, is_signed: bool, order: Order },
    /// A float of `size` bytes.
    Real { size: u8, order: Order },
    /// A real and an imaginary float, `size` bytes together.
    Complex { size: u8, order: Order },
    /// Whole numbers with names.
    Enum { base: Box<Item>, members: Vec<Member> },
    /// Text or bytes of this length, filled up with zeros; of any length if it is `None`.
    Text(Option<u32>),
    /// Text of so many characters of 4 bytes, filled up with zeros.
    Characters { count: u32, order: Order },
    /// Any number of items.
    List(Box<Item>),
    /// A fixed number of bytes.
    Opaque { size: u32 },
    /// An unsupported type, and its name.
    Other(String),
}

/// A number of an [`Item::Enum`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Member {
    pub name: String,
    /// The number, as an item of the base type.
    pub value: Vec<u8>,
}

/// Length in bytes of a reference to bytes elsewhere, in HDF5.
const REFERENCE_BYTES: usize = 16;
/// Names of the two numbers of truth values, as h5py writes them.
const TRUTH: [&str; 2] = ["FALSE", "TRUE"];

impl Item {
    /// A truth value of one byte.
    pub fn truth() -> Self {
        let members =
            TRUTH.iter().zip(0..).map(|(name, value)| Member { name: (*name).to_owned(), value: vec![value] });
        let base = Self::Whole { size: 1, is_signed: true, order: Order::Little };
        Self::Enum { base: Box::new(base), members: members.collect() }
    }

    /// Whether the item is a truth value.
    pub fn is_truth(&self) -> bool {
        let Self::Enum { members, .. } = self else { return false };
        let mut names: Vec<_> = members.iter().map(|one| one.name.as_str()).collect();
        names.sort_unstable();
        names == TRUTH
    }

    /// Length in bytes of a stored item; `None` for an unsupported type.
    pub fn bytes(&self) -> Option<usize> {
        Some(match self {
            Self::Whole { size, .. } | Self::Real { size, .. } | Self::Complex { size, .. } => usize::from(*size),
            Self::Enum { base, .. } => return base.bytes(),
            Self::Text(Some(bytes)) | Self::Opaque { size: bytes } => *bytes as usize,
            Self::Characters { count, .. } => *count as usize * 4,
            Self::Text(None) | Self::List(_) => REFERENCE_BYTES,
            Self::Other(_) => return None,
        })
    }

    /// Whether items refer to bytes elsewhere in the file.
    pub fn is_reference(&self) -> bool {
        matches!(self, Self::List(_) | Self::Text(None))
    }
}

//! The shape of a slot, the type of its numbers, and rectangles of whole pixels.

/// Pixels down and across, in torchvision's order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Size {
    /// Pixels down, 1 to 65,535.
    pub height: u32,
    /// Pixels across, 1 to 65,535.
    pub width: u32,
}

impl Size {
    /// Number of pixels.
    pub(super) fn pixels(&self) -> u64 {
        u64::from(self.height) * u64::from(self.width)
    }

    /// A square.
    pub const fn square(side: u32) -> Self {
        Self { height: side, width: side }
    }
}

/// The order of the axes of a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Axes {
    /// `[3, H, W]`.
    Chw,
    /// `[H, W, 3]`.
    Hwc,
}

/// The type of the numbers in a slot, in the byte order of the machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dtype {
    /// 0 to 255.
    Uint8,
    /// IEEE binary32.
    Float32,
    /// IEEE binary16.
    Float16,
    /// The upper half of a binary32.
    Bfloat16,
}

impl Dtype {
    /// Bytes of one number.
    pub fn bytes(self) -> usize {
        match self {
            Dtype::Uint8 => 1,
            Dtype::Float16 | Dtype::Bfloat16 => 2,
            Dtype::Float32 => 4,
        }
    }
}

/// A rectangle of whole pixels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rect {
    /// Columns to the left of the rectangle.
    pub left: u32,
    /// Rows above the rectangle.
    pub top: u32,
    /// Pixels across, at least 1.
    pub width: u32,
    /// Pixels down, at least 1.
    pub height: u32,
}

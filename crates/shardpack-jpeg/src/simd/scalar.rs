//! Vectors without instructions of their own: one block, number by number.

use super::{Block, MOST_BLOCKS, Vector};

/// 8 numbers of 16 bits, or 4 of 32 bits with the low half first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Scalar([i16; 8]);

impl Scalar {
    fn wide(self) -> [i32; 4] {
        std::array::from_fn(|at| i32::from(self.0[2 * at] as u16) | i32::from(self.0[2 * at + 1]) << 16)
    }

    fn of_wide(wide: [i32; 4]) -> Self {
        Self(std::array::from_fn(|at| (wide[at / 2] >> (16 * (at % 2))) as i16))
    }

    fn map16(self, other: Self, call: impl Fn(i16, i16) -> i16) -> Self {
        Self(std::array::from_fn(|at| call(self.0[at], other.0[at])))
    }

    fn map32(self, other: Self, call: impl Fn(i32, i32) -> i32) -> Self {
        let (one, two) = (self.wide(), other.wide());
        Self::of_wide(std::array::from_fn(|at| call(one[at], two[at])))
    }

    /// Pieces of `count` numbers of both in turns, from the `half`-th half on.
    fn in_turns(self, other: Self, count: usize, half: usize) -> Self {
        Self(std::array::from_fn(|at| {
            let from = half * 4 + at / (2 * count) * count + at % count;
            if (at / count).is_multiple_of(2) { self.0[from] } else { other.0[from] }
        }))
    }
}

impl Vector for Scalar {
    const BLOCKS: usize = 1;

    fn load(blocks: &[&Block], row: usize) -> Self {
        Self(std::array::from_fn(|at| blocks[0][row * 8 + at]))
    }

    fn store(self, to: &mut [u8; 16 * MOST_BLOCKS]) {
        for (to, number) in to.as_chunks_mut::<2>().0.iter_mut().zip(self.0) {
            *to = number.to_le_bytes();
        }
    }

    fn halves(self) -> Self {
        self
    }

    fn zero() -> Self {
        Self([0; 8])
    }

    fn pairs(low: i16, high: i16) -> Self {
        Self([low, high, low, high, low, high, low, high])
    }

    fn all32(value: i32) -> Self {
        Self::of_wide([value; 4])
    }

    fn add16(self, other: Self) -> Self {
        self.map16(other, i16::wrapping_add)
    }

    fn sub16(self, other: Self) -> Self {
        self.map16(other, i16::wrapping_sub)
    }

    fn mul16(self, other: Self) -> Self {
        self.map16(other, i16::wrapping_mul)
    }

    fn add32(self, other: Self) -> Self {
        self.map32(other, i32::wrapping_add)
    }

    fn sub32(self, other: Self) -> Self {
        self.map32(other, i32::wrapping_sub)
    }

    fn shift32(self, bits: u32) -> Self {
        Self::of_wide(self.wide().map(|number| number >> bits))
    }

    fn sum_products(self, other: Self) -> Self {
        let product = |at: usize| i32::from(self.0[at]) * i32::from(other.0[at]);
        Self::of_wide(std::array::from_fn(|at| product(2 * at).wrapping_add(product(2 * at + 1))))
    }

    fn pack32(self, other: Self) -> Self {
        let numbers = [self.wide(), other.wide()];
        let saturated = |number: i32| number.clamp(i16::MIN.into(), i16::MAX.into()) as i16;
        Self(std::array::from_fn(|at| saturated(numbers[at / 4][at % 4])))
    }

    fn pack16(self, other: Self) -> Self {
        let numbers = [self.0, other.0];
        let byte = |at: usize| numbers[at / 8][at % 8].clamp(-128, 127) as i8 as u8;
        Self(std::array::from_fn(|at| i16::from_le_bytes([byte(2 * at), byte(2 * at + 1)])))
    }

    fn xor(self, other: Self) -> Self {
        self.map16(other, |one, other| one ^ other)
    }

    fn low16(self, other: Self) -> Self {
        self.in_turns(other, 1, 0)
    }

    fn low32(self, other: Self) -> Self {
        self.in_turns(other, 2, 0)
    }

    fn low64(self, other: Self) -> Self {
        self.in_turns(other, 4, 0)
    }

    fn high16(self, other: Self) -> Self {
        self.in_turns(other, 1, 1)
    }

    fn high32(self, other: Self) -> Self {
        self.in_turns(other, 2, 1)
    }

    fn high64(self, other: Self) -> Self {
        self.in_turns(other, 4, 1)
    }
}

//! Vectors of NEON: one block.
//!
//! Holds at all times: code with these vectors runs on every CPU of the target, which has NEON. No operation takes a pointer.

#![allow(unsafe_code, reason = "intrinsics")]

use std::arch::aarch64::*;

use super::{Block, MOST_BLOCKS, Vector};

/// Calls a function with the vectors of a level.
macro_rules! by_set {
    ($level:ident, ($($argument:ident: $of:ty),*), $body:ident) => {
        match $level.0 {
            $crate::simd::Set::Scalar => $body::<$crate::simd::Scalar>($($argument),*),
            $crate::simd::Set::Neon => $body::<$crate::simd::neon::Neon>($($argument),*),
        }
    };
}
pub(crate) use by_set;

/// The value of intrinsics without pointers.
macro_rules! neon {
    ($call:expr) => {{
        const { assert!(cfg!(target_feature = "neon")) };
        // SAFETY: the target has NEON, as asserted, and the intrinsics need nothing else.
        unsafe { $call }
    }};
}

/// One block.
#[derive(Clone, Copy)]
pub(crate) struct Neon(int16x8_t);

impl Neon {
    #[inline(always)]
    fn wide(self) -> int32x4_t {
        neon!(vreinterpretq_s32_s16(self.0))
    }

    #[inline(always)]
    fn of_wide(wide: int32x4_t) -> Self {
        Self(neon!(vreinterpretq_s16_s32(wide)))
    }

    #[inline(always)]
    fn widest(self) -> int64x2_t {
        neon!(vreinterpretq_s64_s16(self.0))
    }

    #[inline(always)]
    fn of_widest(widest: int64x2_t) -> Self {
        Self(neon!(vreinterpretq_s16_s64(widest)))
    }
}

impl Vector for Neon {
    const BLOCKS: usize = 1;

    #[inline(always)]
    fn load(blocks: &[&Block], row: usize) -> Self {
        let numbers = &blocks[0].as_chunks::<8>().0[row];
        // LLVM compiles this into one load.
        let half = |at: usize| {
            let number = |of: usize| u64::from(numbers[at + of] as u16) << (16 * of);
            neon!(vcreate_s16(number(0) | number(1) | number(2) | number(3)))
        };
        Self(neon!(vcombine_s16(half(0), half(4))))
    }

    #[inline(always)]
    fn store(self, to: &mut [u8; 16 * MOST_BLOCKS]) {
        let halves = neon!(vreinterpretq_u64_s16(self.0));
        to[..8].copy_from_slice(&neon!(vgetq_lane_u64::<0>(halves)).to_le_bytes());
        to[8..16].copy_from_slice(&neon!(vgetq_lane_u64::<1>(halves)).to_le_bytes());
    }

    #[inline(always)]
    fn halves(self) -> Self {
        self
    }

    #[inline(always)]
    fn zero() -> Self {
        Self(neon!(vdupq_n_s16(0)))
    }

    #[inline(always)]
    fn pairs(low: i16, high: i16) -> Self {
        Self::all32(i32::from(low as u16) | i32::from(high) << 16)
    }

    #[inline(always)]
    fn all32(value: i32) -> Self {
        Self::of_wide(neon!(vdupq_n_s32(value)))
    }

    #[inline(always)]
    fn add16(self, other: Self) -> Self {
        Self(neon!(vaddq_s16(self.0, other.0)))
    }

    #[inline(always)]
    fn sub16(self, other: Self) -> Self {
        Self(neon!(vsubq_s16(self.0, other.0)))
    }

    #[inline(always)]
    fn mul16(self, other: Self) -> Self {
        Self(neon!(vmulq_s16(self.0, other.0)))
    }

    #[inline(always)]
    fn add32(self, other: Self) -> Self {
        Self::of_wide(neon!(vaddq_s32(self.wide(), other.wide())))
    }

    #[inline(always)]
    fn sub32(self, other: Self) -> Self {
        Self::of_wide(neon!(vsubq_s32(self.wide(), other.wide())))
    }

    #[inline(always)]
    fn shift32(self, bits: u32) -> Self {
        // A shift to the left by a negative number.
        Self::of_wide(neon!(vshlq_s32(self.wide(), vdupq_n_s32(-(bits as i32)))))
    }

    #[inline(always)]
    fn sum_products(self, other: Self) -> Self {
        let low = neon!(vmull_s16(vget_low_s16(self.0), vget_low_s16(other.0)));
        Self::of_wide(neon!(vpaddq_s32(low, vmull_high_s16(self.0, other.0))))
    }

    #[inline(always)]
    fn pack32(self, other: Self) -> Self {
        Self(neon!(vcombine_s16(vqmovn_s32(self.wide()), vqmovn_s32(other.wide()))))
    }

    #[inline(always)]
    fn pack16(self, other: Self) -> Self {
        Self(neon!(vreinterpretq_s16_s8(vcombine_s8(vqmovn_s16(self.0), vqmovn_s16(other.0)))))
    }

    #[inline(always)]
    fn xor(self, other: Self) -> Self {
        Self(neon!(veorq_s16(self.0, other.0)))
    }

    #[inline(always)]
    fn low16(self, other: Self) -> Self {
        Self(neon!(vzip1q_s16(self.0, other.0)))
    }

    #[inline(always)]
    fn low32(self, other: Self) -> Self {
        Self::of_wide(neon!(vzip1q_s32(self.wide(), other.wide())))
    }

    #[inline(always)]
    fn low64(self, other: Self) -> Self {
        Self::of_widest(neon!(vzip1q_s64(self.widest(), other.widest())))
    }

    #[inline(always)]
    fn high16(self, other: Self) -> Self {
        Self(neon!(vzip2q_s16(self.0, other.0)))
    }

    #[inline(always)]
    fn high32(self, other: Self) -> Self {
        Self::of_wide(neon!(vzip2q_s32(self.wide(), other.wide())))
    }

    #[inline(always)]
    fn high64(self, other: Self) -> Self {
        Self::of_widest(neon!(vzip2q_s64(self.widest(), other.widest())))
    }
}

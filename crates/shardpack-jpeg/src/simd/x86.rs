//! Vectors of SSE2, AVX2 and AVX-512: one, two and four blocks. Of this crate, only this file and `neon` have unsafe code.
//!
//! Holds at all times: code for a set runs only if the CPU has that set, because a [`Level`](super::Level) with it comes from
//! [`sets`] alone. Loads and stores are of arrays and slices whose lengths are checked.

#![allow(unsafe_code, reason = "intrinsics, and functions compiled for a set of instructions")]

use std::arch::x86_64::*;

use super::{Block, MOST_BLOCKS, Set, Vector};

/// The sets that this CPU has.
pub(super) fn sets() -> impl Iterator<Item = Set> {
    let has_avx2 = is_x86_feature_detected!("avx2")
        && is_x86_feature_detected!("bmi1")
        && is_x86_feature_detected!("bmi2")
        && is_x86_feature_detected!("lzcnt");
    // The compiler takes FMA and F16C for parts of AVX-512.
    let has_avx512 = has_avx2
        && is_x86_feature_detected!("fma")
        && is_x86_feature_detected!("f16c")
        && is_x86_feature_detected!("avx512f")
        && is_x86_feature_detected!("avx512bw");
    [(true, Set::Sse2), (has_avx2, Set::Avx2), (has_avx512, Set::Avx512)]
        .into_iter()
        .filter_map(|(is_there, set)| is_there.then_some(set))
}

/// The row of a block.
#[inline(always)]
fn row(block: &Block, row: usize) -> __m128i {
    let (rows, _) = block.as_chunks::<8>();
    // SAFETY: the array has 16 bytes; the load needs no alignment, and SSE2 is part of x86-64.
    unsafe { _mm_loadu_si128(rows[row].as_ptr().cast()) }
}

/// Calls a function that is compiled for the set of a level.
macro_rules! by_set {
    ($level:ident, ($($argument:ident: $of:ty),*), $body:ident) => {{
        use $crate::simd::{Scalar, Set, x86::{Avx2, Avx512, Sse2}};
        #[target_feature(enable = "avx2,bmi1,bmi2,lzcnt")]
        fn avx2($($argument: $of),*) {
            $body::<Avx2>($($argument),*)
        }
        #[target_feature(enable = "avx512f,avx512bw,avx2,bmi1,bmi2,lzcnt")]
        fn avx512($($argument: $of),*) {
            $body::<Avx512>($($argument),*)
        }
        match $level.0 {
            Set::Scalar => $body::<Scalar>($($argument),*),
            Set::Sse2 => $body::<Sse2>($($argument),*),
            // SAFETY: `sets` gives this set only if the CPU has all these features.
            #[allow(unsafe_code)]
            Set::Avx2 => unsafe { avx2($($argument),*) },
            // SAFETY: as above.
            #[allow(unsafe_code)]
            Set::Avx512 => unsafe { avx512($($argument),*) },
        }
    }};
}
pub(crate) use by_set;

macro_rules! vector {
    ($(#[$meta:meta])* $name:ident($register:ty), $blocks:literal, load($of:ident, $at:ident) $load:expr,
     store $store:ident, halves($one:ident) $halves:expr, zero $zero:ident, all $all:ident,
     { $($method:ident = $intrinsic:ident),* }, shift $shift:ident) => {
        $(#[$meta])*
        #[derive(Clone, Copy)]
        pub(crate) struct $name($register);

        impl Vector for $name {
            const BLOCKS: usize = $blocks;

            #[inline(always)]
            fn load($of: &[&Block], $at: usize) -> Self {
                Self($load)
            }

            #[inline(always)]
            fn store(self, to: &mut [u8; 16 * MOST_BLOCKS]) {
                const { assert!(size_of::<$register>() == 16 * $blocks && $blocks <= MOST_BLOCKS) };
                // SAFETY: the array is at least as long as the register, as asserted; the store needs no alignment. The
                // set as in `zero`.
                unsafe { $store(to.as_mut_ptr().cast(), self.0) }
            }

            #[inline(always)]
            fn halves(self) -> Self {
                let $one = self.0;
                Self($halves)
            }

            #[inline(always)]
            fn zero() -> Self {
                // SAFETY: runs only in code that is compiled for the set, see above.
                Self(unsafe { $zero() })
            }

            #[inline(always)]
            fn pairs(low: i16, high: i16) -> Self {
                Self::all32(i32::from(low as u16) | i32::from(high) << 16)
            }

            #[inline(always)]
            fn all32(value: i32) -> Self {
                // SAFETY: as in `zero`.
                Self(unsafe { $all(value) })
            }

            #[inline(always)]
            fn shift32(self, bits: u32) -> Self {
                // SAFETY: as in `zero`.
                Self(unsafe { $shift(self.0, _mm_cvtsi32_si128(bits as i32)) })
            }

            $(
                #[inline(always)]
                fn $method(self, other: Self) -> Self {
                    // SAFETY: as in `zero`.
                    Self(unsafe { $intrinsic(self.0, other.0) })
                }
            )*
        }
    };
}

vector! {
    /// One block.
    Sse2(__m128i), 1, load(blocks, at) row(blocks[0], at),
    store _mm_storeu_si128, halves(one) one, zero _mm_setzero_si128, all _mm_set1_epi32,
    {
        add16 = _mm_add_epi16, sub16 = _mm_sub_epi16, mul16 = _mm_mullo_epi16, add32 = _mm_add_epi32,
        sub32 = _mm_sub_epi32, sum_products = _mm_madd_epi16, pack32 = _mm_packs_epi32, pack16 = _mm_packs_epi16,
        low16 = _mm_unpacklo_epi16, low32 = _mm_unpacklo_epi32, low64 = _mm_unpacklo_epi64,
        high16 = _mm_unpackhi_epi16, high32 = _mm_unpackhi_epi32, high64 = _mm_unpackhi_epi64, xor = _mm_xor_si128
    }, shift _mm_sra_epi32
}

vector! {
    /// Two blocks.
    Avx2(__m256i), 2, load(blocks, at) {
        // SAFETY: runs only in code that is compiled for the set, see above.
        unsafe { _mm256_set_m128i(row(blocks[1], at), row(blocks[0], at)) }
    },
    store _mm256_storeu_si256,
    // SAFETY: as in `load`.
    halves(one) unsafe { _mm256_permute4x64_epi64::<0b11_01_10_00>(one) },
    zero _mm256_setzero_si256, all _mm256_set1_epi32,
    {
        add16 = _mm256_add_epi16, sub16 = _mm256_sub_epi16, mul16 = _mm256_mullo_epi16, add32 = _mm256_add_epi32,
        sub32 = _mm256_sub_epi32, sum_products = _mm256_madd_epi16, pack32 = _mm256_packs_epi32,
        pack16 = _mm256_packs_epi16, low16 = _mm256_unpacklo_epi16, low32 = _mm256_unpacklo_epi32,
        low64 = _mm256_unpacklo_epi64, high16 = _mm256_unpackhi_epi16, high32 = _mm256_unpackhi_epi32,
        high64 = _mm256_unpackhi_epi64, xor = _mm256_xor_si256
    }, shift _mm256_sra_epi32
}

vector! {
    /// Four blocks.
    Avx512(__m512i), 4, load(blocks, at) {
        let rows = [row(blocks[0], at), row(blocks[1], at), row(blocks[2], at), row(blocks[3], at)];
        // SAFETY: runs only in code that is compiled for the set, see above.
        unsafe {
            let low = _mm512_inserti32x4::<1>(_mm512_castsi128_si512(rows[0]), rows[1]);
            _mm512_inserti32x4::<3>(_mm512_inserti32x4::<2>(low, rows[2]), rows[3])
        }
    },
    store _mm512_storeu_si512,
    // SAFETY: as in `load`.
    halves(one) unsafe { _mm512_permutexvar_epi64(_mm512_setr_epi64(0, 2, 4, 6, 1, 3, 5, 7), one) },
    zero _mm512_setzero_si512, all _mm512_set1_epi32,
    {
        add16 = _mm512_add_epi16, sub16 = _mm512_sub_epi16, mul16 = _mm512_mullo_epi16, add32 = _mm512_add_epi32,
        sub32 = _mm512_sub_epi32, sum_products = _mm512_madd_epi16, pack32 = _mm512_packs_epi32,
        pack16 = _mm512_packs_epi16, low16 = _mm512_unpacklo_epi16, low32 = _mm512_unpacklo_epi32,
        low64 = _mm512_unpacklo_epi64, high16 = _mm512_unpackhi_epi16, high32 = _mm512_unpackhi_epi32,
        high64 = _mm512_unpackhi_epi64, xor = _mm512_xor_si512
    }, shift _mm512_sra_epi32
}

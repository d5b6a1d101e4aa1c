//! Instruction sets of a CPU, and the vectors that the transform of a block is written with.
//!
//! Holds at all times: each operation gives the same numbers at every [`Level`], so pixels do not depend on the CPU.

#[cfg(target_arch = "aarch64")]
pub(crate) mod neon;
mod scalar;
#[cfg(target_arch = "x86_64")]
pub(crate) mod x86;

use std::sync::OnceLock;

pub(crate) use scalar::Scalar;

/// Coefficients of a block, or its quantisation steps: 8 rows of 8.
pub(crate) type Block = [i16; 64];

/// The name of the environment variable that selects a [`Level`].
pub const VARIABLE: &str = "SHARDPACK_SIMD";

/// A set of instructions that this CPU has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Level(pub(crate) Set);

/// The sets, from the least to the most.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Set {
    Scalar,
    #[cfg(target_arch = "x86_64")]
    Sse2,
    #[cfg(target_arch = "x86_64")]
    Avx2,
    #[cfg(target_arch = "x86_64")]
    Avx512,
    #[cfg(target_arch = "aarch64")]
    Neon,
}

impl Level {
    /// No instructions of their own, on every CPU.
    pub const SCALAR: Self = Self(Set::Scalar);

    /// All levels that this CPU has, from the slowest to the fastest.
    pub fn all() -> Vec<Self> {
        let mut all = vec![Self::SCALAR];
        #[cfg(target_arch = "x86_64")]
        all.extend(x86::sets().map(Self));
        #[cfg(target_arch = "aarch64")]
        all.push(Self(Set::Neon));
        all
    }

    /// The level that `SHARDPACK_SIMD` names (`scalar`, on x86-64 `sse2`, `avx2` or `avx512`, on aarch64 `neon`), else the fastest of
    /// this CPU. Read once.
    ///
    /// # Errors
    /// If the variable names no level of this CPU.
    pub fn from_environment() -> Result<Self, String> {
        static LEVEL: OnceLock<Result<Level, String>> = OnceLock::new();
        LEVEL
            .get_or_init(|| {
                Self::named(std::env::var_os(VARIABLE).map(|name| name.to_string_lossy().into_owned()).as_deref())
            })
            .clone()
    }

    fn named(name: Option<&str>) -> Result<Self, String> {
        let all = Self::all();
        let Some(name) = name.filter(|name| !name.is_empty()) else {
            return Ok(all.last().copied().unwrap_or(Self::SCALAR));
        };
        all.iter().find(|level| level.name() == name).copied().ok_or_else(|| {
            let names: Vec<&str> = all.iter().map(Self::name).collect();
            format!("{VARIABLE}={name} is not an instruction set of this CPU: {}", names.join(", "))
        })
    }

    /// Its name in the environment variable.
    pub fn name(&self) -> &'static str {
        match self.0 {
            Set::Scalar => "scalar",
            #[cfg(target_arch = "x86_64")]
            Set::Sse2 => "sse2",
            #[cfg(target_arch = "x86_64")]
            Set::Avx2 => "avx2",
            #[cfg(target_arch = "x86_64")]
            Set::Avx512 => "avx512",
            #[cfg(target_arch = "aarch64")]
            Set::Neon => "neon",
        }
    }
}

/// Most blocks that a vector has rows of.
pub(crate) const MOST_BLOCKS: usize = 4;

/// A row of 8 numbers of 16 bits for each of [`Vector::BLOCKS`] blocks, or half a row of 32 bits. Operations of two vectors
/// work on each block by itself; all but `pack` wrap around.
pub(crate) trait Vector: Copy {
    /// Blocks in a vector.
    const BLOCKS: usize;

    /// Row `row` of each block; there are [`Vector::BLOCKS`] blocks.
    fn load(blocks: &[&Block], row: usize) -> Self;
    /// The first `16 * BLOCKS` bytes: 16 of each block.
    fn store(self, to: &mut [u8; 16 * MOST_BLOCKS]);
    /// The first 8 bytes of each block, then the last 8 of each.
    fn halves(self) -> Self;
    fn zero() -> Self;
    /// `low` and `high` in turns, 16 bits each.
    fn pairs(low: i16, high: i16) -> Self;
    /// `value` in all numbers of 32 bits.
    fn all32(value: i32) -> Self;
    fn add16(self, other: Self) -> Self;
    fn sub16(self, other: Self) -> Self;
    /// The low 16 bits of products.
    fn mul16(self, other: Self) -> Self;
    fn add32(self, other: Self) -> Self;
    fn sub32(self, other: Self) -> Self;
    /// Shifts numbers of 32 bits, with their sign.
    fn shift32(self, bits: u32) -> Self;
    /// Sums of two products of neighbours: 16 bits to 32.
    fn sum_products(self, other: Self) -> Self;
    /// Numbers of 32 bits to 16, saturated: those of `self`, then those of `other`.
    fn pack32(self, other: Self) -> Self;
    /// Numbers of 16 bits to bytes, saturated to -128 to 127.
    fn pack16(self, other: Self) -> Self;
    fn xor(self, other: Self) -> Self;
    /// The first halves of both in turns, 16, 32 or 64 bits each.
    fn low16(self, other: Self) -> Self;
    fn low32(self, other: Self) -> Self;
    fn low64(self, other: Self) -> Self;
    /// The second halves.
    fn high16(self, other: Self) -> Self;
    fn high32(self, other: Self) -> Self;
    fn high64(self, other: Self) -> Self;
}

/// Defines `fn name(level, arguments)`, which calls `body::<V>(arguments)` compiled for the level, with its vectors.
/// `body` must be `#[inline(always)]`.
macro_rules! by_level {
    ($(#[$meta:meta])* $visible:vis fn $name:ident($($argument:ident: $of:ty),* $(,)?) = $body:ident) => {
        $(#[$meta])*
        $visible fn $name(level: $crate::simd::Level, $($argument: $of),*) {
            #[cfg(target_arch = "x86_64")]
            {
                $crate::simd::x86::by_set!(level, ($($argument: $of),*), $body);
            }
            #[cfg(target_arch = "aarch64")]
            {
                $crate::simd::neon::by_set!(level, ($($argument: $of),*), $body);
            }
            #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
            {
                let _ = level;
                $body::<$crate::simd::Scalar>($($argument),*);
            }
        }
    };
}
pub(crate) use by_level;

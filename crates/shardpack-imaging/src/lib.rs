//! Image functions for `pack`: check, decode, resize, rotate, encode, compare. And for training: parts of images
//! ([`crops`]), and slots of batches ([`training`]).
//!
//! This crate opens no path, starts no thread and reads no clock. No input makes its functions panic (a panic of a
//! decoder is a refusal), or allocate more than [`Limits`] allow; a [`Budget`] bounds the total of several threads.
//! The same input gives the same output on every machine, whatever its CPU supports.

#![cfg_attr(test, allow(clippy::disallowed_methods, clippy::excessive_nesting))]
#![cfg_attr(not(feature = "decode"), allow(dead_code, reason = "helpers of the decoders that are left out"))]

#[cfg(feature = "decode")]
mod apply;
mod budget;
mod catch_panic;
pub mod crops;
#[cfg(feature = "decode")]
mod decode;
#[cfg(feature = "decode")]
mod encode;
mod error;
#[cfg(feature = "decode")]
mod jpeg;
#[cfg(feature = "decode")]
mod mask;
mod movement;
mod nearest;
#[cfg(feature = "decode")]
mod need;
#[cfg(feature = "decode")]
mod perceptual;
mod picture;
mod recipe;
#[cfg(feature = "decode")]
mod resize;
#[cfg(feature = "decode")]
pub mod training;
#[cfg(not(feature = "decode"))]
mod without;

#[cfg(feature = "decode")]
use decode::look;
#[cfg(not(feature = "decode"))]
use without::look;

#[cfg(feature = "decode")]
pub use apply::{apply, apply_within};
pub use budget::{Budget, Reservation};
#[cfg(feature = "decode")]
pub use decode::{check, check_entropy, decode, orientation};
#[cfg(feature = "decode")]
pub use encode::encode;
pub use error::{Limits, Refused};
#[cfg(feature = "decode")]
pub use mask::{Mask, mask_size, move_mask};
pub use movement::Movement;
#[cfg(feature = "decode")]
pub use perceptual::{image_hash, perceptual_hash};
pub use picture::{Layout, Picture};
pub use recipe::{Change, Encode, Outcome, Recipe, Resize};
#[cfg(not(feature = "decode"))]
pub use without::{apply_within, check, check_entropy, image_hash, mask_size, move_mask, orientation};

/// Whether this build has decoders and encoders, which are the feature `decode`. Without them, every function for images refuses
/// with [`Refused::NoDecodeFeature`].
pub const HAS_DECODE: bool = cfg!(feature = "decode");

/// Checks the variable `SHARDPACK_SIMD`, which names the instructions for decoding JPEGs: `scalar`, `sse2`, `avx2` or `avx512`, on
/// aarch64 `neon`.
///
/// # Errors
/// If it names others than those of this CPU.
pub fn check_instructions() -> Result<(), String> {
    shardpack_jpeg::Level::from_environment().map(drop)
}

/// Version of the code behind [`apply`]: equal versions give equal outputs. Its last number grows when a file is
/// decoded to other pixels, or is no longer refused.
pub const ENGINE: &str = "shardpack-jpeg 2, zune-jpeg 0.5, fast_image_resize 6, jpeg-encoder 0.7, decoders 3";

//! Image functions for `pack`: check, decode, resize, rotate, encode, compare. And for training: parts of images
//! ([`crops`]), and slots of batches ([`training`]).
//!
//! This crate opens no path, starts no thread and reads no clock. No input makes its functions panic (a panic of a
//! decoder is a refusal), or allocate more than [`Limits`] allow; a [`Budget`] bounds the total of several threads.
//! The same input gives the same output on every machine, whatever its CPU supports.

#![cfg_attr(test, allow(clippy::disallowed_methods, clippy::excessive_nesting))]

pub mod crops;
pub mod training;

mod budget;
mod catch_panic;
mod decode;
mod encode;
mod error;
mod jpeg;
mod mask;
mod movement;
mod nearest;
mod need;
mod perceptual;
mod picture;
mod recipe;
mod resize;

pub use budget::{Budget, Reservation};
pub use decode::{check, check_entropy, decode, orientation};
pub use encode::{Encode, encode};
pub use error::{Limits, Refused};
pub use jpeg::check_instructions;
pub use mask::{Mask, MaskHeader, move_mask};
pub use movement::Movement;
pub use perceptual::{distance, perceptual_hash};
pub use picture::{Layout, Picture};
pub use recipe::{Change, Outcome, Recipe, Resize, apply, apply_within};

/// Version of the code behind [`apply`]: equal versions give equal outputs. Its last number grows when a file is
/// decoded to other pixels, or is no longer refused.
pub const ENGINE: &str = "shardpack-jpeg 2, zune-jpeg 0.5, fast_image_resize 6, jpeg-encoder 0.7, decoders 3";

//! What `pack` needs to look at images and to change them: check, decode, resize, rotate, encode, compare. And what training needs
//! of them: parts of images ([`crops`]), and slots of batches ([`training`]).
//!
//! Nothing here opens a path, starts a thread or reads a clock. No input makes these functions panic (a panic of a decoder is
//! a refusal), or allocate more than [`Limits`] allow; what threads allocate together a [`Budget`] bounds. The same input gives the same output on every machine, whatever its CPU
//! can do; the feature `turbo` gives other bytes, and [`ENGINE`] says which of the two this is.

pub mod crops;
pub mod training;

mod budget;
mod contain;
mod decode;
mod encode;
mod error;
mod need;
mod perceptual;
mod picture;
mod recipe;
mod resize;
#[cfg(feature = "turbo")]
#[allow(unsafe_code, reason = "libjpeg-turbo is C")]
mod turbo;

pub use budget::{Budget, Taken};
pub use decode::{check, check_entropy, decode};
pub use encode::{Encode, encode};
pub use error::{Limits, Refused};
pub use perceptual::{distance, perceptual_hash};
pub use picture::{Layout, Picture};
pub use recipe::{Change, Outcome, Recipe, Resize, apply, apply_within};

/// What made the pixels and bytes of [`apply`]: outputs are the same where this is the same. Its last number grows where
/// something is decoded to other pixels, or no longer refused.
pub const ENGINE: &str = if cfg!(feature = "turbo") {
    "zune-jpeg 0.5, jpeg-decoder 0.3, fast_image_resize 6, libjpeg-turbo 3.1, decoders 2"
} else {
    "zune-jpeg 0.5, jpeg-decoder 0.3, fast_image_resize 6, jpeg-encoder 0.7, decoders 2"
};

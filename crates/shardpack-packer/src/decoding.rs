//! Memory for images that are decoded: all threads share what `--memory` allows, beside the images in flight.
//!
//! Holds at all times: a decode waits for its memory; an image that needs more than the whole budget is a bad image.

use std::sync::LazyLock;

use shardpack_format::{memory, size};
use shardpack_imaging::{Budget, Limits, Refused};

/// Made when the first image is decoded: by then it has been said how much there is.
static BUDGET: LazyLock<Budget> = LazyLock::new(|| Budget::new(memory::allowed()));

/// What all decoding shares.
pub(crate) fn budget() -> &'static Budget {
    &BUDGET
}

/// Decodes all of an image by `check`, and throws the pixels away.
///
/// # Errors
/// As `check`; and where it takes too much memory.
pub(crate) fn checked<T>(
    bytes: &[u8],
    limits: &Limits,
    check: impl Fn(&[u8], &Limits) -> Result<T, Refused>,
) -> Result<T, Refused> {
    let _taken = budget().for_decode(bytes)?;
    check(bytes, limits)
}

/// Reason why an image is refused; names `--memory` if memory is the reason.
pub(crate) fn said(refused: &Refused) -> String {
    match refused {
        Refused::OverBudget { needed, allowed } => {
            format!("it takes {} of memory, --memory allows {}", size::text(*needed), size::text(*allowed))
        }
        refused => refused.to_string(),
    }
}

//! Memory for decoded images: all threads share the budget of `--memory`, beside the images in flight.
//!
//! Holds at all times: a decode waits for its memory. An image that needs more than the whole budget ends a
//! pack, because the packed samples must not depend on memory. So does any image in a build that cannot decode.

use std::sync::{Mutex, PoisonError};

use shardpack_format::{Error, ErrorKind, Result, memory, size};
use shardpack_imaging::{Budget, HAS_DECODE, Limits, Refused};

/// One budget for each size that commands of this process have had: few, and never freed.
static BUDGETS: Mutex<Vec<&Budget>> = Mutex::new(Vec::new());

/// The budget of all decodes.
pub(crate) fn budget() -> &'static Budget {
    let bytes = memory::allowed();
    let mut budgets = BUDGETS.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(budget) = budgets.iter().find(|budget| budget.bytes() == bytes) {
        return budget;
    }
    let budget: &Budget = Box::leak(Box::new(Budget::new(bytes)));
    budgets.push(budget);
    budget
}

/// Decodes a whole image with `check`, and drops the pixels.
///
/// # Errors
/// Errors of `check`; and if the image needs too much memory.
pub fn checked<T>(
    bytes: &[u8],
    limits: &Limits,
    check: impl Fn(&[u8], &Limits) -> std::result::Result<T, Refused>,
) -> std::result::Result<T, Refused> {
    let _taken = budget().for_decode(bytes)?;
    check(bytes, limits)
}

/// Reason why an image is refused; names `--memory` if memory is the reason.
pub fn said(refused: &Refused) -> String {
    match refused {
        Refused::OverBudget { needed, allowed } => {
            format!("it takes {} of memory, --memory allows {}", size::text(*needed), size::text(*allowed))
        }
        refused => refused.to_string(),
    }
}

/// Fails in a build without the feature `decode`; `option` needs it.
///
/// # Errors
/// In a build without the feature.
pub fn require_decode(option: &str) -> Result<()> {
    if HAS_DECODE { Ok(()) } else { Err(no_decode_feature(option)) }
}

/// The error for `option` in a build without the feature `decode`.
pub(crate) fn no_decode_feature(option: &str) -> Error {
    Error::new(ErrorKind::System, format!("{option}: {}", Refused::NoDecodeFeature))
}

/// Reason why the image `name` is bad, for `--on-bad`.
///
/// # Errors
/// If the reason is memory or this build, and not the image.
pub(crate) fn verdict(refused: &Refused, name: impl FnOnce() -> String) -> Result<String> {
    if *refused == Refused::NoDecodeFeature {
        return Err(Error::new(ErrorKind::System, said(refused)).in_sample(name()));
    }
    let help = match refused {
        Refused::OverBudget { needed, allowed } if *allowed == budget().bytes() => {
            format!("--memory {}MiB decodes it; --exclude leaves it out", needed.div_ceil(1 << 20))
        }
        Refused::NoMemory { .. } => "give this machine more memory, or use --exclude to leave it out".to_owned(),
        refused => return Ok(said(refused)),
    };
    Err(Error::usage(said(refused)).in_sample(name()).help(help))
}

//! Catches panics that malformed input causes in third-party crates and turns them into errors for the caller.

use std::{
    any::Any,
    cell::Cell,
    panic::{self, AssertUnwindSafe},
    sync::Once,
    thread,
};

use crate::{Error, ErrorKind, help};

thread_local! {
    /// Whether [`caught`] runs on this thread, so that the hook prints nothing for a panic.
    static IS_CONTAINED: Cell<bool> = const { Cell::new(false) };
}

/// Returns the result of `call`, or the panic, which is not printed. State that `call` was changing must not be used again. Has
/// no effect if the program is built to abort on panic.
///
/// The first call installs a hook before the hook that prints panics, for the life of the process. Other panics are unaffected.
///
/// # Errors
/// The panic.
pub fn caught<T>(call: impl FnOnce() -> T) -> thread::Result<T> {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let before = panic::take_hook();
        panic::set_hook(Box::new(move |panic| {
            if !IS_CONTAINED.try_with(Cell::get).unwrap_or(false) {
                before(panic);
            }
        }));
    });
    let was = IS_CONTAINED.replace(true);
    let outcome = panic::catch_unwind(AssertUnwindSafe(call));
    IS_CONTAINED.set(was);
    outcome
}

/// The error that a panic is to whoever may not see one; `place` is where in the code it came about, where that is known.
pub fn bug(panic: &(dyn Any + Send), place: Option<&str>) -> Error {
    let what = message(panic).unwrap_or("panic without a message");
    let place = place.map_or_else(String::new, |place| format!(" ({place})"));
    // A bug is reported in one line.
    let what = what.lines().next().unwrap_or_default();
    Error::new(ErrorKind::System, format!("a bug of shardpack: {what}{place}")).help(help::REPORT)
}

/// The message of a panic, if it is text.
pub fn message(panic: &(dyn Any + Send)) -> Option<&str> {
    panic.downcast_ref::<&str>().copied().or_else(|| panic.downcast_ref::<String>().map(String::as_str))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_is_caught_and_what_comes_after_is_as_ever() {
        let panic = caught(|| -> u8 { panic!("out of bounds") }).unwrap_err();
        assert_eq!(message(&*panic), Some("out of bounds"));
        let told = bug(&*panic, Some("src/x.rs:7"));
        assert_eq!(told.to_string(), "a bug of shardpack: out of bounds (src/x.rs:7)");
        assert!(told.help_text().is_some_and(|help| help.starts_with("please report it")));
        assert_eq!(caught(|| 7).unwrap(), 7);
        assert!(!IS_CONTAINED.get());
    }
}

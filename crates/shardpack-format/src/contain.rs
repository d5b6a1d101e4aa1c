//! Panics of crates that read what others wrote, which some bytes cause: they become errors of whoever calls.

use std::{
    cell::Cell,
    panic::{self, AssertUnwindSafe},
    sync::Once,
    thread,
};

thread_local! {
    /// Whether panics of this thread are about to be told, so that nothing is printed of them.
    static IS_CONTAINED: Cell<bool> = const { Cell::new(false) };
}

/// What `call` gives, or what it panicked with, of which nothing is printed. What it was doing must not be used again. It
/// has no effect where a program is built to abort on panic.
///
/// The first call puts a hook before the one that prints panics, for good. It changes nothing outside of these calls.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_is_caught_and_what_comes_after_is_as_ever() {
        let panic = caught(|| -> u8 { panic!("out of bounds") }).unwrap_err();
        assert_eq!(panic.downcast_ref::<&str>(), Some(&"out of bounds"));
        assert_eq!(caught(|| 7).unwrap(), 7);
        assert!(!IS_CONTAINED.get());
    }
}

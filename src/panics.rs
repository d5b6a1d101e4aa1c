//! Panics are bugs, and end a command as an error does: with one line, the exit code of an error, and the document of `--json`.

use std::{
    env,
    panic::{self, AssertUnwindSafe, catch_unwind},
    sync::{Mutex, Once, PoisonError},
};

use shardpack_format::catch_panic::{bug, message};
use shardpack_packer::Result;
use shardpack_source::parallel::start_pool;

/// Message and location of the last panic of any thread.
static SAID: Mutex<Option<(String, String)>> = Mutex::new(None);

/// Returns the result of `command`. A panic of its thread, or of a thread that it joins, becomes an error.
pub fn contained<T>(command: impl FnOnce() -> Result<T>) -> Result<T> {
    listen();
    catch_unwind(AssertUnwindSafe(|| {
        start_pool()?;
        command()
    }))
    .unwrap_or_else(|panic| {
        let said = SAID.lock().unwrap_or_else(PoisonError::into_inner).take();
        // Another thread may have panicked meanwhile.
        let place = said.filter(|(what, _)| message(&*panic) == Some(what)).map(|(_, place)| place);
        Err(bug(&*panic, place.as_deref()))
    })
}

/// Installs a hook, once per process, that records panics instead of printing them; with RUST_BACKTRACE they are printed too.
fn listen() {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        // Tests fail by a panic.
        if cfg!(test) {
            return;
        }
        let before = panic::take_hook();
        panic::set_hook(Box::new(move |panic| {
            let place = panic.location().map(ToString::to_string).unwrap_or_default();
            let what = message(panic.payload()).unwrap_or_default().to_owned();
            *SAID.lock().unwrap_or_else(PoisonError::into_inner) = Some((what, place));
            if env::var_os("RUST_BACKTRACE").is_some_and(|value| value != "0") {
                before(panic);
            }
        }));
    });
}

#[cfg(test)]
mod tests {
    use shardpack_packer::ErrorKind;

    use super::*;

    #[test]
    fn a_panic_of_a_command_is_an_error() {
        let error = contained(|| -> Result<()> { panic!("index out of bounds") }).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::System);
        assert_eq!(error.to_string(), "a bug of shardpack: index out of bounds");
        assert_eq!(contained(|| Ok(7)).unwrap(), 7);
        let of_thread = || std::thread::scope(|scope| drop(scope.spawn(|| panic!("in a thread"))));
        assert!(
            contained(|| -> Result<()> {
                of_thread();
                Ok(())
            })
            .unwrap_err()
            .to_string()
            .contains("thread")
        );
    }
}

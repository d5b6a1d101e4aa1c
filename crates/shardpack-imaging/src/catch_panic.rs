//! Contains panics of crates that read foreign files: a panic of a decoder becomes a refusal of one image.

use std::{panic, sync::Once, thread};

use shardpack_format::{catch_panic::caught, image_header::Kind};

use crate::Refused;

/// Calls decoders and encoders with the image in `bytes`; a panic inside becomes a refusal.
pub(crate) fn contained<T>(bytes: &[u8], call: impl FnOnce() -> Result<T, Refused>) -> Result<T, Refused> {
    silence_threads();
    // After a panic only `bytes` is used again, which the call cannot change.
    caught(call).unwrap_or_else(|_| Err(Refused::Damaged(Kind::detect(bytes), "its decoder gives up on it".to_owned())))
}

/// Silences panic messages of decoder threads for the whole process: the decoder itself panics when its thread does.
fn silence_threads() {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let before = panic::take_hook();
        panic::set_hook(Box::new(move |panic| {
            if !is_of_decoder() {
                before(panic);
            }
        }));
    });
}

/// Whether this is a thread that jpeg-decoder 0.3 starts for larger images.
fn is_of_decoder() -> bool {
    thread::current().name().is_some_and(|name| name.starts_with("worker thread for component "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_is_a_refusal_and_what_comes_after_is_as_ever() {
        let refused = contained(b"II\x2A\0", || -> Result<(), Refused> { panic!("out of bounds") }).unwrap_err();
        assert_eq!(refused.to_string(), "TIFF does not decode: its decoder gives up on it");
        assert_eq!(contained(b"", || Ok(7)), Ok(7));
    }

    #[test]
    fn threads_of_the_jpeg_decoder_are_contained_and_others_are_not() {
        // The decoder starts no threads for a smaller image.
        let image = image::RgbImage::from_fn(600, 600, |x, y| image::Rgb([x as u8, y as u8, (x * y) as u8]));
        let mut jpeg = std::io::Cursor::new(Vec::new());
        image.write_to(&mut jpeg, image::ImageFormat::Jpeg).unwrap();
        let jpeg = jpeg.into_inner();
        let names = || {
            let tasks = std::fs::read_dir("/proc/self/task").unwrap().filter_map(Result::ok);
            tasks.filter_map(|task| std::fs::read_to_string(task.path().join("comm")).ok()).collect::<Vec<_>>()
        };
        // Linux keeps the first fifteen letters.
        let is_seen = || names().iter().any(|name| name.trim() == "worker thread f");
        let done = std::sync::atomic::AtomicBool::new(false);
        thread::scope(|scope| {
            scope.spawn(|| {
                while !done.load(std::sync::atomic::Ordering::Relaxed) {
                    jpeg_decoder::Decoder::new(&jpeg[..]).decode().unwrap();
                }
            });
            let start = std::time::Instant::now();
            while !is_seen() {
                assert!(start.elapsed().as_secs() < 60, "its threads have another name");
            }
            done.store(true, std::sync::atomic::Ordering::Relaxed);
        });
        let named =
            |name: &str| thread::Builder::new().name(name.to_owned()).spawn(is_of_decoder).unwrap().join().unwrap();
        assert!(named("worker thread for component 2"));
        assert!(!named("worker"));
    }
}

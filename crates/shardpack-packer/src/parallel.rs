//! Many requests at a time: one function for all items, by threads that wait for answers and take no time of the processor.

use std::sync::{
    Mutex, PoisonError,
    atomic::{AtomicUsize, Ordering},
};

use shardpack_format::{Error, Result};

/// Does `work` for all of `items`, with so many threads; the error of the first item that has one ends it.
pub(crate) fn each<T: Sync>(items: &[T], threads: usize, work: impl Fn(&T) -> Result<()> + Sync) -> Result<()> {
    let (next, failed) = (AtomicUsize::new(0), Mutex::new(None::<(usize, Error)>));
    let run = || {
        loop {
            let at = next.fetch_add(1, Ordering::Relaxed);
            let Some(item) = items.get(at) else { return };
            if let Err(error) = work(item) {
                next.store(items.len(), Ordering::Relaxed);
                let mut failed = failed.lock().unwrap_or_else(PoisonError::into_inner);
                // As where they come one after the other.
                if failed.as_ref().is_none_or(|(first, _)| at < *first) {
                    *failed = Some((at, error));
                }
            }
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..items.len().min(threads) {
            scope.spawn(run);
        }
    });
    match failed.into_inner().unwrap_or_else(PoisonError::into_inner) {
        Some((_, error)) => Err(error),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn all_are_done_and_the_first_error_is_told() {
        let items: Vec<u64> = (0..500).collect();
        let done = Mutex::new(BTreeSet::new());
        each(&items, 8, |item| {
            done.lock().unwrap().insert(*item);
            Ok(())
        })
        .unwrap();
        assert_eq!(done.into_inner().unwrap().len(), 500);
        let error = each(&items, 1, |item| match item {
            7.. => Err(Error::usage(item.to_string())),
            _ => Ok(()),
        });
        assert_eq!(error.unwrap_err().what(), "7");
        each(&[], 8, |_: &u64| Err(Error::usage("nothing"))).unwrap();
    }
}

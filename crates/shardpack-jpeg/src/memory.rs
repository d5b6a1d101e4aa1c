//! Memory that is used again for other images.

/// Makes room for `length` values and no more; if there is less, the values and their memory are freed first.
pub(crate) fn reserve<T>(values: &mut Vec<T>, length: usize) {
    if values.capacity() < length {
        *values = Vec::new();
        values.reserve_exact(length);
    }
}

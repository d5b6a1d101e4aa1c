//! The nearest neighbour of a pixel in a resize.

/// The place, on an axis of `from` pixels, of the pixel at `at` on an axis of `to`; `from` is not 0.
///
/// Source: PyTorch 2, `aten/src/ATen/native/UpSample.h`, `nearest_neighbor_compute_source_index`: in float32, rounded down.
pub(crate) fn nearest(at: u64, from: u32, to: u64) -> u32 {
    let scale = from as f32 / to as f32;
    ((at as f32 * scale).floor() as u32).min(from - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn indexes_are_those_of_float32() {
        // Indexes of torchvision 0.29, `resize(torch.arange(FROM)[None, None], [1, TO], NEAREST)`, where they differ from whole numbers.
        for (from, to, places) in
            [(427, 147, [(21, 60), (42, 121), (84, 243)]), (427, 183, [(27, 62), (51, 118), (54, 125)])]
        {
            for (at, index) in places {
                assert_eq!(nearest(at, from, to), index, "{from} to {to} at {at}");
                assert_ne!(at * u64::from(from) / to, u64::from(index));
            }
        }
        let differ = |from: u32, to: u64| {
            (0..to).filter(|at| u64::from(nearest(*at, from, to)) != at * u64::from(from) / to).count()
        };
        assert_eq!([differ(100, 30), differ(640, 256), differ(500, 375), differ(7, 7), differ(7, 14)], [0; 5]);
        assert!((1..600).any(|to| differ(481, to) > 0));
        assert!((1..600).all(|to| nearest(to - 1, 481, to) < 481));
    }
}

//! Converts 8-bit CIE L*a*b* to sRGB.
//!
//! Uses only addition, multiplication and division, so that every machine returns the same levels.

/// From XYZ with white D50, here 1, 1, 1, to the red, green and blue of sRGB with white D65, by Bradford.
///
/// Source: the primaries of IEC 61966-2-1 in the connection space of ICC.1:2022, whose white is 0.9642, 1, 0.8249.
const FROM_XYZ: [[f64; 3]; 3] =
    [[3.021_983, -1.617_209, -0.404_774], [-0.943_709, 1.916_130, 0.027_579], [0.069_388, -0.228_994, 1.159_606]];

/// The greatest linear value of each sRGB level, except the last.
pub(super) fn levels() -> [f64; 255] {
    std::array::from_fn(|level| {
        let encoded = (level as f64 + 0.5) / 255.0;
        match encoded <= 0.040_45 {
            true => encoded / 12.92,
            // The power of 2.4.
            false => {
                let square = ((encoded + 0.055) / 1.055) * ((encoded + 0.055) / 1.055);
                square * fifth_root(square)
            }
        }
    })
}

/// The fifth root of a number from 0.001 to 1, by Newton's method.
fn fifth_root(of: f64) -> f64 {
    let mut root = 1.0_f64;
    for _ in 0..40 {
        let fourth = root * root * root * root;
        root -= (fourth * root - of) / (5.0 * fourth);
    }
    root
}

/// Red, green and blue of one pixel; values outside sRGB are clipped for each channel.
///
/// Source: TIFF 6.0, section 23: L* from 0 to 255, a* and b* signed. CIE 15:2004, 8.2.1.
pub(super) fn to_rgb([lightness, a, b]: [u8; 3], levels: &[f64; 255]) -> [u8; 3] {
    let y = (f64::from(lightness) * 100.0 / 255.0 + 16.0) / 116.0;
    let cube = |root: f64| match root > 6.0 / 29.0 {
        true => root * root * root,
        false => (root - 4.0 / 29.0) * 108.0 / 841.0,
    };
    let signed = |level: u8| f64::from(level.cast_signed());
    let xyz = [cube(y + signed(a) / 500.0), cube(y), cube(y - signed(b) / 200.0)];
    FROM_XYZ.map(|row| {
        let linear = row[0] * xyz[0] + row[1] * xyz[1] + row[2] * xyz[2];
        levels.partition_point(|most| *most < linear) as u8
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gray_is_gray_and_white_is_white() {
        let levels = levels();
        let gray = |lightness: u8| to_rgb([lightness, 0, 0], &levels);
        assert_eq!([gray(0), gray(255)], [[0; 3], [255; 3]]);
        for lightness in 0..=255 {
            let [red, green, blue] = gray(lightness);
            assert!(red == green && green == blue, "{lightness}: {red} {green} {blue}");
        }
        // L* 53.39 is the middle of sRGB.
        assert!(gray(136)[0].abs_diff(127) <= 1);
    }

    #[test]
    fn levels_are_those_of_the_power() {
        for (level, most) in levels().into_iter().enumerate() {
            let encoded = (level as f64 + 0.5) / 255.0;
            let linear = if encoded <= 0.04045 { encoded / 12.92 } else { ((encoded + 0.055) / 1.055).powf(2.4) };
            assert!((most - linear).abs() < 1e-12, "{level}");
        }
    }
}

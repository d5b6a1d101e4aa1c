//! Converts 32-bit floats to 16-bit floats, rounding to nearest, ties to even; and back.

/// IEEE binary16. Larger values become infinite; NaN stays NaN.
pub(super) fn float16(number: f32) -> u16 {
    let bits = number.to_bits();
    let sign = (bits >> 16) as u16 & 0x8000;
    let magnitude = bits & 0x7FFF_FFFF;
    let half = match magnitude {
        0x7F80_0001.. => 0x7E00,
        // From half a step above the largest on.
        0x477F_F000.. => 0x7C00,
        // Its exponent is 112 less than that of binary32, its significand has 13 bits fewer.
        0x3880_0000.. => rounded(magnitude - (112 << 23), 13),
        // Subnormal, multiples of 2^-24: the significand with its leading 1, shifted by the missing exponent.
        0x3300_0000.. => rounded(magnitude & 0x7F_FFFF | 0x80_0000, 126 - (magnitude >> 23)),
        _ => 0,
    };
    // At most 0x7E00.
    sign | half as u16
}

/// The binary32 with the value of a binary16.
pub(super) fn of_float16(half: u16) -> f32 {
    let (sign, magnitude) = (u32::from(half & 0x8000) << 16, u32::from(half & 0x7FFF));
    let bits = match magnitude {
        0x7C00.. => magnitude << 13 | 0x7F80_0000,
        // Its exponent is 112 less than that of binary32, its significand has 13 bits fewer.
        0x0400.. => (magnitude << 13) + (112 << 23),
        // Subnormal, multiples of 2^-24.
        _ => (magnitude as f32 * f32::from_bits(103 << 23)).to_bits(),
    };
    f32::from_bits(sign | bits)
}

/// The upper half of a binary32.
pub(super) fn bfloat16(number: f32) -> u16 {
    let bits = number.to_bits();
    // Rounding must not turn NaN into an infinity.
    if number.is_nan() { (bits >> 16) as u16 | 0x40 } else { rounded(bits, 16) as u16 }
}

/// `bits` divided by 2^`shift`, rounded to nearest, ties to even; `shift` is 1 to 24.
fn rounded(bits: u32, shift: u32) -> u32 {
    let (whole, rest, half) = (bits >> shift, bits & ((1 << shift) - 1), 1 << (shift - 1));
    whole + u32::from(rest > half || rest == half && whole & 1 == 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_half_has_its_value() {
        for half in 0..=u16::MAX {
            let (number, expected) = (f64::from(of_float16(half)), value(half));
            match half & 0x7FFF {
                0x7C00 => assert_eq!(number, f64::INFINITY.copysign(expected)),
                0x7C01.. => assert!(number.is_nan(), "{half:x}"),
                _ => assert_eq!(number.to_bits(), expected.to_bits(), "{half:x}"),
            }
        }
    }

    /// The value of a half: a sign, 5 bits of exponent, 10 of significand.
    fn value(half: u16) -> f64 {
        let (exponent, significand) = (i32::from(half >> 10 & 31), f64::from(half & 1023));
        let magnitude = match exponent {
            0 => significand * 2_f64.powi(-24),
            // Infinity, as the next value in sequence.
            31 => 65536.0,
            _ => (1024.0 + significand) * 2_f64.powi(exponent - 25),
        };
        if half >> 15 == 1 { -magnitude } else { magnitude }
    }

    fn of_bfloat16(half: u16) -> f64 {
        match half & 0x7FFF {
            0x7F80 => 2_f64.powi(128).copysign(f64::from(f32::from_bits(u32::from(half) << 16))),
            _ => f64::from(f32::from_bits(u32::from(half) << 16)),
        }
    }

    /// The nearest of all positive halves, by comparing with every one.
    fn nearest(number: f32, infinity: u16, meaning: fn(u16) -> f64) -> u16 {
        let magnitude = f64::from(number).abs().min(meaning(infinity));
        let distance = |half: &u16| (meaning(*half) - magnitude).abs();
        let nearest = (0..=infinity)
            .min_by(|one, other| distance(one).total_cmp(&distance(other)).then((one & 1).cmp(&(other & 1))));
        nearest.unwrap() | if number.is_sign_negative() { 0x8000 } else { 0 }
    }

    #[test]
    fn numbers_become_the_nearest_half_of_all() {
        let mut numbers =
            vec![0.0, -0.0, 65504.0, 65519.996, 65520.0, 1e9, 6e-8, 2.980_232_2e-8, 2.980_232_6e-8, 6.1e-5, f32::MAX];
        for level in 0..=255_u8 {
            numbers.push((f32::from(level) / 255.0 - 0.485) / 0.229);
            numbers.push(f32::from(level) / 255.0);
            let noise = u32::from(level).wrapping_mul(2_654_435_761).wrapping_add(12_345).wrapping_mul(747_796_405);
            // With any exponent of binary16, and halfway between two halves.
            numbers.push(f32::from_bits((noise & 0x8000_0000) | (0x3300_0000 + (noise >> 1) % 0x1480_0000)));
            numbers.push(f32::from_bits(((noise >> 3) % 0x4780_0000) & 0xFFFF_E000 | 0x1000));
            numbers.push(f32::from_bits(((noise >> 3) % 0x4780_0000) & 0xFFFF_0000 | 0x8000));
        }
        for number in numbers {
            assert_eq!(float16(number), nearest(number, 0x7C00, value), "{number}");
            assert_eq!(bfloat16(number), nearest(number, 0x7F80, of_bfloat16), "{number}");
        }
        for nan in [f32::NAN, f32::from_bits(0x7F80_0001), f32::from_bits(0xFFFF_FFFF)] {
            assert!(float16(nan) & 0x7FFF > 0x7C00 && bfloat16(nan) & 0x7FFF > 0x7F80);
        }
        assert_eq!((float16(f32::NEG_INFINITY), bfloat16(f32::INFINITY)), (0xFC00, 0x7F80));
    }
}

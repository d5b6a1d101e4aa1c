//! Dequantisation and the inverse DCT of blocks, to 8 × 8, 4 × 4, 2 × 2 samples or one.
//!
//! Holds at all times: samples are those of libjpeg-turbo's accurate integer transform, with its SIMD code's 16-bit sums,
//! saturation and shortcuts, at every level, also for coefficients that no image gives.
//!
//! Source: the algorithm of C. Loeffler, A. Ligtenberg and G. Moschytz (ICASSP 1989), with libjpeg's constants of 13 bits
//! (jidctint.c, jidctred.c) and the order of operations of jidctint-avx2.asm.

use crate::simd::{Block, MOST_BLOCKS, Scalar, Vector, by_level};

/// Number of bits behind the point of a constant, and of what the first pass keeps.
const CONST_BITS: u32 = 13;
const PASS1_BITS: u32 = 2;

/// Constants of the transform of 8, in units of 2^-13.
const F_0_298: i16 = 2446;
const F_0_390: i16 = 3196;
const F_0_541: i16 = 4433;
const F_0_765: i16 = 6270;
const F_0_899: i16 = 7373;
const F_1_175: i16 = 9633;
const F_1_501: i16 = 12299;
const F_1_847: i16 = 15137;
const F_1_961: i16 = 16069;
const F_2_053: i16 = 16819;
const F_2_562: i16 = 20995;
const F_3_072: i16 = 25172;
/// Further constants, of the transforms to 4 and 2.
const F_0_211: i16 = 1730;
const F_0_509: i16 = 4176;
const F_0_601: i16 = 4926;
const F_0_720: i16 = 5906;
const F_0_850: i16 = 6967;
const F_1_061: i16 = 8697;
const F_1_272: i16 = 10426;
const F_1_451: i16 = 11893;
const F_2_172: i16 = 17799;
const F_3_624: i16 = 29692;

/// Blocks of one channel, and the positions of their first samples in its plane.
pub(crate) struct Blocks<'a> {
    /// The blocks of all channels.
    pub(crate) coefficients: &'a [Block],
    pub(crate) steps: &'a Block,
    /// The first block, and from one block to the next.
    pub(crate) first: usize,
    pub(crate) stride: usize,
    pub(crate) count: usize,
    /// The position of the first block's first sample in the plane, and from one block to the next.
    pub(crate) at: usize,
    pub(crate) apart: usize,
    /// Samples of a row of the plane.
    pub(crate) row: usize,
    /// Samples of a block, across and down: 8, 4, 2 or 1.
    pub(crate) size: usize,
}

by_level! {
    /// Writes the samples of blocks into a plane.
    ///
    /// # Panics
    /// If a block, or a sample's position, is not there.
    pub(crate) fn write(blocks: &Blocks<'_>, plane: &mut [u8]) = write_all
}

#[inline(always)]
fn write_all<V: Vector>(blocks: &Blocks<'_>, plane: &mut [u8]) {
    match blocks.size {
        8 => write_vectors::<V, 8>(blocks, plane),
        4 => write_vectors::<V, 4>(blocks, plane),
        size => {
            for number in 0..blocks.count {
                let block = &blocks.coefficients[blocks.first + number * blocks.stride];
                let at = blocks.at + number * blocks.apart;
                if size == 2 {
                    let [top, bottom] = two(block, blocks.steps);
                    plane[at..][..2].copy_from_slice(&top);
                    plane[at + blocks.row..][..2].copy_from_slice(&bottom);
                } else {
                    plane[at] = one(block, blocks.steps);
                }
            }
        }
    }
}

/// Writes blocks of `SIZE` × `SIZE` samples, 8 or 4. A vector of samples has 16 bytes of each block: two rows of 8 samples, or
/// four of 4.
#[inline(always)]
fn write_vectors<V: Vector, const SIZE: usize>(blocks: &Blocks<'_>, plane: &mut [u8]) {
    let steps = [blocks.steps; MOST_BLOCKS];
    let steps = rows::<V>(&steps[..V::BLOCKS]);
    let (rows_of_16, mut bytes) = (16 / SIZE, [0; 16 * MOST_BLOCKS]);
    let mut number = 0;
    while number < blocks.count {
        // The last block stands for those that a vector has too many.
        let last = blocks.count - 1;
        let mut several = [&blocks.coefficients[blocks.first]; MOST_BLOCKS];
        for (at, block) in several.iter_mut().enumerate() {
            *block = &blocks.coefficients[blocks.first + (number + at).min(last) * blocks.stride];
        }
        let input = dequantised(&several[..V::BLOCKS], &steps);
        let rows = if SIZE == 8 { eight(input) } else { four(input) };
        let here = V::BLOCKS.min(blocks.count - number);
        let first = blocks.at + number * blocks.apart;
        for (part, rows) in rows.iter().enumerate().take(SIZE / rows_of_16) {
            rows.halves().store(&mut bytes);
            for row in 0..rows_of_16 {
                let at = first + (part * rows_of_16 + row) * blocks.row;
                let bytes = &bytes[row * SIZE / 8 * 8 * V::BLOCKS..][..8 * V::BLOCKS];
                if SIZE == 8 && blocks.apart == 8 && here == V::BLOCKS {
                    plane[at..][..8 * V::BLOCKS].copy_from_slice(bytes);
                    continue;
                }
                for block in 0..here {
                    let bytes = &bytes[block * 8 + row * SIZE % 8..][..SIZE];
                    plane[at + block * blocks.apart..][..SIZE].copy_from_slice(bytes);
                }
            }
        }
        if is_wild(input[0], &mut bytes) {
            for at in number..number + here {
                let block = &blocks.coefficients[blocks.first + at * blocks.stride];
                let at = blocks.at + at * blocks.apart;
                write_wrapped(block, blocks.steps, SIZE, |row| at + row * blocks.row, plane);
            }
        }
        number += V::BLOCKS;
    }
}

/// Whether a number of a row, times 4, may be too large for 16 bits. `bytes` is memory.
#[inline(always)]
fn is_wild<V: Vector>(row: V, bytes: &mut [u8; 16 * MOST_BLOCKS]) -> bool {
    const HALF: i16 = 1 << (15 - PASS1_BITS);
    row.add16(V::pairs(HALF, HALF)).store(bytes);
    let mut all = 0;
    for word in bytes[..16 * V::BLOCKS].as_chunks().0 {
        all |= u64::from_le_bytes(*word);
    }
    all & 0xC000_C000_C000_C000 != 0
}

/// Writes the samples of a block again if its rows are all equal: libjpeg-turbo has a shortcut for such blocks, whose first pass
/// wraps around instead of saturating.
#[cold]
#[inline(never)]
fn write_wrapped(block: &Block, steps: &Block, size: usize, place: impl Fn(usize) -> usize, plane: &mut [u8]) {
    for (row, samples) in wrapped(block, steps, size).iter().flat_map(|row| std::iter::repeat_n(row, size).enumerate())
    {
        plane[place(row)..][..size].copy_from_slice(&samples[..size]);
    }
}

/// The only row of a block whose rows are all equal.
fn wrapped(block: &Block, steps: &Block, size: usize) -> Option<[u8; 8]> {
    // Row 4 has no part in 4 × 4 samples.
    let is_flat = |row: usize| (size == 4 && row == 4) || block[8 * row..8 * row + 8].iter().all(|&number| number == 0);
    if !(1..8).all(is_flat) {
        return None;
    }
    let columns: [Scalar; 8] = std::array::from_fn(|at| {
        let column = block[at].wrapping_mul(steps[at]) << PASS1_BITS;
        Scalar::pairs(column, column)
    });
    let mut row = [0; 8];
    let mut put = |at: usize, of_rows: Scalar| {
        let mut bytes = [0; 16 * MOST_BLOCKS];
        samples(of_rows, of_rows).store(&mut bytes);
        row[at] = bytes[0];
    };
    if size == 8 {
        pass(columns, CONST_BITS + PASS1_BITS + 3).into_iter().enumerate().for_each(|(at, of_rows)| put(at, of_rows));
    } else {
        let rows = pass_of_four(columns, CONST_BITS + PASS1_BITS + 3 + 1);
        rows.into_iter().enumerate().for_each(|(at, of_rows)| put(at, of_rows));
    }
    Some(row)
}

/// The two weighted sums of pairs, low and high halves.
#[inline(always)]
fn products<V: Vector>(one: V, other: V, weights: (i16, i16)) -> [V; 2] {
    let weights = V::pairs(weights.0, weights.1);
    [one.low16(other).sum_products(weights), one.high16(other).sum_products(weights)]
}

#[inline(always)]
fn add<V: Vector>(one: [V; 2], other: [V; 2]) -> [V; 2] {
    [one[0].add32(other[0]), one[1].add32(other[1])]
}

#[inline(always)]
fn sub<V: Vector>(one: [V; 2], other: [V; 2]) -> [V; 2] {
    [one[0].sub32(other[0]), one[1].sub32(other[1])]
}

/// A number of 16 bits times 2^by, in 32 bits, plus half of 2^bits. That half is a product too, because 16 bits may not hold it.
#[inline(always)]
fn scaled<V: Vector>(number: V, by: u32, bits: u32) -> [V; 2] {
    let (one, other) = ((bits - 1) / 2, bits - 1 - (bits - 1) / 2);
    products(number, V::pairs(1 << one, 1 << one), (1 << by, 1 << other))
}

/// Sums in units of 2^bits, rounded down.
#[inline(always)]
fn units<V: Vector>(sum: [V; 2], bits: u32) -> V {
    sum[0].shift32(bits).pack32(sum[1].shift32(bits))
}

/// One pass over 8 vectors, each with 8 numbers of the same place in their column.
#[inline(always)]
fn pass<V: Vector>(input: [V; 8], bits: u32) -> [V; 8] {
    let [in0, in1, in2, in3, in4, in5, in6, in7] = input;
    let even3 = products(in2, in6, (F_0_541 + F_0_765, F_0_541));
    let even2 = products(in2, in6, (F_0_541, F_0_541 - F_1_847));
    let even0 = scaled(in0.add16(in4), CONST_BITS, bits);
    let even1 = scaled(in0.sub16(in4), CONST_BITS, bits);
    let (sum0, sum3) = (add(even0, even3), sub(even0, even3));
    let (sum1, sum2) = (add(even1, even2), sub(even1, even2));

    let (z3, z4) = (in7.add16(in3), in5.add16(in1));
    let odd3 = products(z3, z4, (F_1_175 - F_1_961, F_1_175));
    let odd4 = products(z3, z4, (F_1_175, F_1_175 - F_0_390));
    let odd0 = add(products(in7, in1, (F_0_298 - F_0_899, -F_0_899)), odd3);
    let odd1 = add(products(in5, in3, (F_2_053 - F_2_562, -F_2_562)), odd4);
    let odd2 = add(products(in5, in3, (-F_2_562, F_3_072 - F_2_562)), odd3);
    let odd3 = add(products(in7, in1, (-F_0_899, F_1_501 - F_0_899)), odd4);

    [
        units(add(sum0, odd3), bits),
        units(add(sum1, odd2), bits),
        units(add(sum2, odd1), bits),
        units(add(sum3, odd0), bits),
        units(sub(sum3, odd0), bits),
        units(sub(sum2, odd1), bits),
        units(sub(sum1, odd2), bits),
        units(sub(sum0, odd3), bits),
    ]
}

/// Rows become columns.
#[inline(always)]
fn transposed<V: Vector>(rows: [V; 8]) -> [V; 8] {
    let [a, b, c, d, e, f, g, h] = rows;
    let (ab, cd, ef, gh) = (a.low16(b), c.low16(d), e.low16(f), g.low16(h));
    let (low0, low1, low2, low3) = (ab.low32(cd), ab.high32(cd), ef.low32(gh), ef.high32(gh));
    let (ab, cd, ef, gh) = (a.high16(b), c.high16(d), e.high16(f), g.high16(h));
    let (high0, high1, high2, high3) = (ab.low32(cd), ab.high32(cd), ef.low32(gh), ef.high32(gh));
    [
        low0.low64(low2),
        low0.high64(low2),
        low1.low64(low3),
        low1.high64(low3),
        high0.low64(high2),
        high0.high64(high2),
        high1.low64(high3),
        high1.high64(high3),
    ]
}

/// All rows of blocks. A function of the standard library, like `array::from_fn`, is not compiled for a level.
#[inline(always)]
fn rows<V: Vector>(blocks: &[&Block]) -> [V; 8] {
    [
        V::load(blocks, 0),
        V::load(blocks, 1),
        V::load(blocks, 2),
        V::load(blocks, 3),
        V::load(blocks, 4),
        V::load(blocks, 5),
        V::load(blocks, 6),
        V::load(blocks, 7),
    ]
}

#[inline(always)]
fn dequantised<V: Vector>(blocks: &[&Block], steps: &[V; 8]) -> [V; 8] {
    let mut rows = rows::<V>(blocks);
    for (row, step) in rows.iter_mut().zip(steps) {
        *row = row.mul16(*step);
    }
    rows
}

/// Numbers of 16 bits to samples, in the order of [`Vector::pack32`].
#[inline(always)]
fn samples<V: Vector>(one: V, other: V) -> V {
    one.pack16(other).xor(V::all32(0x8080_8080_u32 as i32))
}

/// 8 × 8 samples, two rows a vector.
#[inline(always)]
fn eight<V: Vector>(input: [V; 8]) -> [V; 4] {
    let columns = pass(input, CONST_BITS - PASS1_BITS);
    let rows = transposed(pass(transposed(columns), CONST_BITS + PASS1_BITS + 3));
    [samples(rows[0], rows[1]), samples(rows[2], rows[3]), samples(rows[4], rows[5]), samples(rows[6], rows[7])]
}

/// One pass of the transform to 4; coefficient 4 has no part in it.
#[inline(always)]
fn pass_of_four<V: Vector>(input: [V; 8], bits: u32) -> [V; 4] {
    let [in0, in1, in2, in3, _, in5, in6, in7] = input;
    let even0 = scaled(in0, CONST_BITS + 1, bits);
    let even2 = products(in2, in6, (F_1_847, -F_0_765));
    let (sum0, sum2) = (add(even0, even2), sub(even0, even2));
    let odd0 = add(products(in1, in3, (F_1_061, -F_2_172)), products(in5, in7, (F_1_451, -F_0_211)));
    let odd2 = add(products(in1, in3, (F_2_562, F_0_899)), products(in5, in7, (-F_0_601, -F_0_509)));
    [
        units(add(sum0, odd2), bits),
        units(add(sum2, odd0), bits),
        units(sub(sum2, odd0), bits),
        units(sub(sum0, odd2), bits),
    ]
}

/// 4 × 4 samples in the first vector.
#[inline(always)]
fn four<V: Vector>(input: [V; 8]) -> [V; 4] {
    let zero = V::zero();
    let [a, b, c, d] = pass_of_four(input, CONST_BITS - PASS1_BITS + 1);
    let columns = transposed([a, b, c, d, zero, zero, zero, zero]);
    let [a, b, c, d] = pass_of_four(columns, CONST_BITS + PASS1_BITS + 3 + 1);
    let rows = transposed([a, b, c, d, zero, zero, zero, zero]);
    // The first half of each vector is a row.
    let all = samples(rows[0].low64(rows[1]), rows[2].low64(rows[3]));
    [all, zero, zero, zero]
}

/// 2 × 2 samples. Coefficients 2, 4 and 6 of a column or row have no part in it. Between the passes, column 0 has 32 bits.
#[inline(always)]
fn two(block: &Block, steps: &Block) -> [[u8; 2]; 2] {
    const ODD: [(usize, i16); 4] = [(7, -F_0_720), (5, F_0_850), (3, -F_1_272), (1, F_3_624)];
    let rounded = |sum: i32, bits: u32| sum.wrapping_add(1 << (bits - 1)) >> bits;
    // Loops over all columns become vectors; closures on arrays would be calls.
    let (mut even, mut odd, mut weights) = ([0_i32; 8], [0_i32; 8], [0; 8]);
    let number = |row: usize, column: usize| block[row * 8 + column].wrapping_mul(steps[row * 8 + column]);
    for (column, even) in even.iter_mut().enumerate() {
        *even = i32::from(number(0, column)) << (CONST_BITS + 2);
    }
    for (row, weight) in ODD {
        for (column, odd) in odd.iter_mut().enumerate() {
            *odd = odd.wrapping_add(i32::from(number(row, column)) * i32::from(weight));
        }
        weights[row] = i32::from(weight);
    }
    let (mut samples, bits) = ([[0; 2]; 2], CONST_BITS - PASS1_BITS + 2);
    for (row, sign) in [1, -1].into_iter().enumerate() {
        let (mut first, mut sum) = (0, 0_i32);
        for column in (0..8).rev() {
            first = rounded(even[column].wrapping_add(odd[column].wrapping_mul(sign)), bits);
            sum = sum.wrapping_add(first.clamp(i16::MIN.into(), i16::MAX.into()) * weights[column]);
        }
        let (first, bits) = (first.wrapping_shl(CONST_BITS + 2), CONST_BITS + PASS1_BITS + 3 + 2);
        for (column, sum) in [first.wrapping_add(sum), first.wrapping_sub(sum)].into_iter().enumerate() {
            samples[row][column] = (rounded(sum, bits).clamp(-128, 127) + 128) as u8;
        }
    }
    samples
}

/// The mean of a block. Wraps as libjpeg's table of samples, which has 10 bits.
fn one(block: &Block, steps: &Block) -> u8 {
    let mean = (i32::from(block[0]) * i32::from(steps[0]) + 4) >> 3;
    // -512 to 511.
    let folded = (mean & 1023) - if mean & 512 == 0 { 0 } else { 1024 };
    (folded.clamp(-128, 127) + 128) as u8
}

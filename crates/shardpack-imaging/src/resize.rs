//! Resizes with a bicubic filter whose support grows with the reduction.
//!
//! The filter is `BICUBIC` of Pillow and torchvision with antialiasing: of the good filters, it is the only one whose
//! weights need only additions and products, so the bytes do not depend on a machine's sine.

use fast_image_resize::{
    FilterType, PixelTrait, ResizeAlg, ResizeOptions, Resizer,
    images::TypedImage,
    pixels::{U8, U8x2, U8x3, U8x4},
};

use crate::{Layout, Picture};

/// `picture` resized to `width` × `height` pixels, both at least 1; its metadata stays.
pub(crate) fn resize(mut picture: Picture, width: u32, height: u32) -> Picture {
    if (picture.width, picture.height) == (width, height) {
        return picture;
    }
    let pixels = pixels(&mut Resizer::new(), &mut picture, width, height, FilterType::CatmullRom);
    Picture { width, height, pixels, ..picture }
}

/// Pixels of `width` × `height`, each the `filter`-weighted mean of the pixels that it covers, and of their alpha.
///
/// `picture` is only read. The generic code of the resizer is compiled here for each pair of pixel type and buffer
/// type: so only for 8-bit pixels, unlike `Resizer::resize`, and only for mutable buffers.
pub(crate) fn pixels(
    resizer: &mut Resizer,
    picture: &mut Picture,
    width: u32,
    height: u32,
    filter: FilterType,
) -> Vec<u8> {
    let resize = match picture.layout {
        Layout::Gray8 => typed::<U8>,
        Layout::GrayA8 => typed::<U8x2>,
        Layout::Rgb8 => typed::<U8x3>,
        Layout::Rgba8 => typed::<U8x4>,
    };
    let mut resized = vec![0; width as usize * height as usize * picture.layout.channels()];
    resize(resizer, picture, width, height, filter, &mut resized);
    resized
}

fn typed<P: PixelTrait>(
    resizer: &mut Resizer,
    picture: &mut Picture,
    width: u32,
    height: u32,
    filter: FilterType,
    resized: &mut [u8],
) {
    let source = TypedImage::<P>::from_buffer(picture.width, picture.height, &mut picture.pixels);
    let source = source.expect("a picture has as many bytes as its size needs");
    let mut resized = TypedImage::<P>::from_buffer(width, height, resized).expect("it was made for that size");
    let options = ResizeOptions::new().resize_alg(ResizeAlg::Convolution(filter));
    resizer.resize_typed(&source, &mut resized, &options).expect("nothing is cropped");
}

#[cfg(test)]
pub(crate) mod tests {
    use fast_image_resize::CpuExtensions;

    use super::*;

    /// All extensions that this CPU supports, beginning with none.
    pub(crate) fn extensions() -> Vec<CpuExtensions> {
        #[cfg(target_arch = "x86_64")]
        let all = [CpuExtensions::None, CpuExtensions::Sse4_1, CpuExtensions::Avx2];
        #[cfg(target_arch = "aarch64")]
        let all = [CpuExtensions::None, CpuExtensions::Neon];
        #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
        let all = [CpuExtensions::None];
        all.into_iter().filter(CpuExtensions::is_supported).collect()
    }

    #[test]
    #[expect(unsafe_code, reason = "set_cpu_extensions is unsafe; only extensions that the CPU has are set")]
    fn the_pixels_do_not_depend_on_the_cpu() {
        let mut state = 1_u32;
        let mut noise = || {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (state >> 24) as u8
        };
        for layout in [Layout::Gray8, Layout::GrayA8, Layout::Rgb8, Layout::Rgba8] {
            for (size, to) in [((97, 61), (40, 25)), ((97, 61), (31, 61)), ((33, 20), (70, 41)), ((300, 7), (3, 2))] {
                let noisy = (0..size.0 * size.1 * layout.channels() as u32).map(|_| noise()).collect();
                let mut picture = Picture::new(size.0, size.1, layout, noisy).unwrap();
                let results: Vec<_> = extensions()
                    .into_iter()
                    .map(|extension| {
                        let mut resizer = Resizer::new();
                        // SAFETY: `extensions` returns only extensions that this CPU supports.
                        unsafe { resizer.set_cpu_extensions(extension) };
                        pixels(&mut resizer, &mut picture, to.0, to.1, FilterType::CatmullRom)
                    })
                    .collect();
                assert!(results.iter().all(|pixels| *pixels == results[0]), "{layout:?}, {size:?} to {to:?}");
            }
        }
    }

    #[test]
    fn one_colour_stays_that_colour() {
        for layout in [Layout::Gray8, Layout::GrayA8, Layout::Rgb8, Layout::Rgba8] {
            let channels = layout.channels();
            let pixel: Vec<u8> = [200, 100, 50, 255][4 - channels..].to_vec();
            let picture = Picture::new(40, 30, layout, pixel.repeat(1200)).unwrap();
            assert_eq!(resize(picture, 7, 9).pixels, pixel.repeat(63), "{layout:?}");
        }
    }
}

//! Calls libjpeg-turbo: decodes a JPEG to pixels, reduced if that is enough, and encodes pixels as a JPEG.
//!
//! Holds at all times: a handle is used by one call at a time and freed once; every buffer for C has the length that C
//! receives. A warning of C is an error here: the caller then uses a stricter decoder.

use std::{ffi::CStr, ptr::NonNull};

use turbojpeg_sys as tj;

/// Pixels: across, down, and `[down, across, channels] uint8`.
pub(crate) type Pixels = (u32, u32, Vec<u8>);

/// A handle of libjpeg-turbo.
struct Handle(NonNull<std::ffi::c_void>);

impl Handle {
    fn new(init: tj::TJINIT) -> Option<Self> {
        // SAFETY: takes a number, and returns a handle or null.
        NonNull::new(unsafe { tj::tj3Init(init as i32) }).map(Self)
    }

    fn set(&mut self, parameter: tj::TJPARAM, value: i32) -> Option<()> {
        // SAFETY: the handle is alive; unknown parameters and values are refused.
        (unsafe { tj::tj3Set(self.0.as_ptr(), parameter as i32, value) } == 0).then_some(())
    }

    fn get(&mut self, parameter: tj::TJPARAM) -> i32 {
        // SAFETY: the handle is alive; unknown parameters return -1.
        unsafe { tj::tj3Get(self.0.as_ptr(), parameter as i32) }
    }

    /// Message of the last call.
    fn message(&mut self) -> String {
        // SAFETY: the handle is alive, and the text, which ends with a zero, is copied before the next call.
        unsafe { CStr::from_ptr(tj::tj3GetErrorStr(self.0.as_ptr())) }.to_string_lossy().into_owned()
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        // SAFETY: the handle came from tj3Init and is not used after this.
        unsafe { tj::tj3Destroy(self.0.as_ptr()) }
    }
}

fn format(channels: usize) -> Option<i32> {
    match channels {
        1 => Some(tj::TJPF_TJPF_GRAY),
        3 => Some(tj::TJPF_TJPF_RGB),
        _ => None,
    }
}

/// Decodes JPEGs, one after the other.
pub(crate) struct Decoder(Handle);

impl Decoder {
    /// `None` if memory is insufficient.
    pub(crate) fn new() -> Option<Self> {
        let mut handle = Handle::new(tj::TJINIT_TJINIT_DECOMPRESS)?;
        // The limit of zune-jpeg.
        handle.set(tj::TJPARAM_TJPARAM_SCANLIMIT, 100)?;
        Some(Self(handle))
    }

    /// The pixels of `bytes` in 1 or 3 channels: in the smallest of 1/8, 1/4 and 1/2 of the size that is `at_least` as
    /// large on both sides, else in full size. `None` if C fails or warns, or for more than `most` pixels.
    pub(crate) fn decode(&mut self, bytes: &[u8], channels: usize, at_least: (u32, u32), most: u64) -> Option<Pixels> {
        let format = format(channels)?;
        let handle = &mut self.0;
        // SAFETY: the handle is alive; `bytes` has the passed length.
        if unsafe { tj::tj3DecompressHeader(handle.0.as_ptr(), bytes.as_ptr(), bytes.len() as tj::size_t) } != 0 {
            return None;
        }
        let width = u32::try_from(handle.get(tj::TJPARAM_TJPARAM_JPEGWIDTH)).ok()?;
        let height = u32::try_from(handle.get(tj::TJPARAM_TJPARAM_JPEGHEIGHT)).ok()?;
        if u64::from(width) * u64::from(height) > most {
            return None;
        }
        // Rounded like TJSCALED of turbojpeg.h. Other factors have no SIMD and are slower than these.
        let reduced = |by: u32| (width.div_ceil(by), height.div_ceil(by));
        let enough = |by: &u32| reduced(*by).0 >= at_least.0 && reduced(*by).1 >= at_least.1;
        let by = [8, 4, 2].into_iter().find(enough).unwrap_or(1);
        let factor = tj::tjscalingfactor { num: 1, denom: by as i32 };
        // SAFETY: the handle is alive; an unsupported factor is refused.
        if unsafe { tj::tj3SetScalingFactor(handle.0.as_ptr(), factor) } != 0 {
            return None;
        }
        let (width, height) = reduced(by);
        let length = usize::try_from(u64::from(width) * u64::from(height) * channels as u64).ok()?;
        let mut pixels = vec![0; length];
        // SAFETY: the handle is alive and has read the header of these bytes; `pixels` has `height` rows of `width`
        // pixels of `format`, exactly as many as C writes for this factor with a pitch of 0.
        let failed = unsafe {
            let (from, length) = (bytes.as_ptr(), bytes.len() as tj::size_t);
            tj::tj3Decompress8(handle.0.as_ptr(), from, length, pixels.as_mut_ptr(), 0, format)
        };
        (failed == 0).then_some((width, height, pixels))
    }
}

/// A part of a JPEG that is reduced by 1, 2, 4 or 8.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ReducedRect {
    pub(crate) x: u32,
    pub(crate) y: u32,
    pub(crate) width: u32,
    pub(crate) height: u32,
}

/// Output of [`Parts`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct DecodedCrop {
    /// The decoded part: at least the requested part.
    pub(crate) part: ReducedRect,
    /// The reduction.
    pub(crate) by: u32,
    /// Whether the pixels are only a part of the image.
    pub(crate) is_part: bool,
    /// C warned, and continued.
    pub(crate) has_warned: bool,
}

/// Decodes parts of JPEGs one after the other. Warnings do not stop it: damage outside the part may go undetected.
pub(crate) struct Parts {
    /// `None` after an error: C keeps data of the damaged headers and then refuses all further images.
    handle: Option<Handle>,
}

impl Parts {
    pub(crate) fn new() -> Self {
        Self { handle: None }
    }

    /// Writes `[height, width, 3 or 4] uint8` of a part into `pixels`: RGB, or RGB and an undefined byte. `part`
    /// receives the full size of the JPEG and returns the requested part, reduced; the output may be larger.
    ///
    /// `None` if C fails, for more than `most` pixels in the whole image, and if `part` returns `None` or a part that
    /// is not within the image.
    pub(crate) fn decode(
        &mut self,
        bytes: &[u8],
        by: u32,
        is_padded: bool,
        most: u64,
        part: impl FnOnce(u32, u32) -> Option<ReducedRect>,
        pixels: &mut Vec<u8>,
    ) -> Option<DecodedCrop> {
        // Taken, so that an early return leaves no handle behind.
        let mut handle = match self.handle.take() {
            Some(handle) => handle,
            None => {
                let mut handle = Handle::new(tj::TJINIT_TJINIT_DECOMPRESS)?;
                handle.set(tj::TJPARAM_TJPARAM_SCANLIMIT, 100)?;
                handle.set(tj::TJPARAM_TJPARAM_SAVEMARKERS, 0)?;
                handle
            }
        };
        let (width, height, mut has_warned) = handle.header(bytes, most)?;
        let part = part(width, height)?;
        let (width, height) = (width.div_ceil(by), height.div_ceil(by));
        let is_within = |at: u32, length: u32, all: u32| length > 0 && at < all && length <= all - at;
        if !is_within(part.x, part.width, width) || !is_within(part.y, part.height, height) {
            return None;
        }
        let factor = tj::tjscalingfactor { num: 1, denom: by as i32 };
        // SAFETY: the handle is alive; an unsupported factor is refused.
        if unsafe { tj::tj3SetScalingFactor(handle.0.as_ptr(), factor) } != 0 {
            return None;
        }
        // C decodes parts from an MCU boundary on.
        let mcu_width = match handle.get(tj::TJPARAM_TJPARAM_SUBSAMP) {
            tj::TJSAMP_TJSAMP_444 | tj::TJSAMP_TJSAMP_GRAY | tj::TJSAMP_TJSAMP_440 | tj::TJSAMP_TJSAMP_441 => Some(8),
            tj::TJSAMP_TJSAMP_422 | tj::TJSAMP_TJSAMP_420 => Some(16),
            tj::TJSAMP_TJSAMP_411 => Some(32),
            _ => None,
        };
        let mut made = DecodedCrop { part: ReducedRect { x: 0, y: 0, width, height }, by, is_part: false, has_warned };
        if let Some(mcu_width) = mcu_width.filter(|_| part != made.part) {
            let x = part.x - part.x % (mcu_width / by);
            let part = ReducedRect { x, width: part.width + part.x - x, ..part };
            let [x, y, w, h] = [part.x, part.y, part.width, part.height].map(|side| side as i32);
            // SAFETY: the handle is alive and has read the header; a region that is not within the image is refused.
            if unsafe { tj::tj3SetCroppingRegion(handle.0.as_ptr(), tj::tjregion { x, y, w, h }) } == 0 {
                (made.part, made.is_part) = (part, true);
            }
        }
        let colours = u32::try_from(handle.get(tj::TJPARAM_TJPARAM_COLORSPACE)).ok()?;
        let is_ink = matches!(colours, tj::TJCS_TJCS_CMYK | tj::TJCS_TJCS_YCCK);
        let (format, channels) = match (is_ink, is_padded) {
            (true, _) => (tj::TJPF_TJPF_CMYK, 4),
            (false, true) => (tj::TJPF_TJPF_RGBX, 4),
            (false, false) => (tj::TJPF_TJPF_RGB, 3),
        };
        let length = u64::from(made.part.width) * u64::from(made.part.height) * channels;
        pixels.resize(usize::try_from(length).ok()?, 0);
        // SAFETY: the handle is alive and has read the header of these bytes; `pixels` has `part.height` rows of
        // `part.width` pixels of `format`, exactly as many as C writes for this factor and region with a pitch of 0.
        let done = unsafe {
            let (from, length) = (bytes.as_ptr(), bytes.len() as tj::size_t);
            tj::tj3Decompress8(handle.0.as_ptr(), from, length, pixels.as_mut_ptr(), 0, format)
        };
        has_warned |= handle.warned(done)?;
        if is_ink {
            without_ink(pixels, is_padded);
        }
        self.handle = Some(handle);
        Some(DecodedCrop { has_warned, ..made })
    }
}

impl Handle {
    /// Whether the call with this `result` warned; `None` if it failed.
    fn warned(&mut self, result: i32) -> Option<bool> {
        // SAFETY: the handle is alive.
        let is_warning = || unsafe { tj::tj3GetErrorCode(self.0.as_ptr()) } == tj::TJERR_TJERR_WARNING as i32;
        match result {
            0 => Some(false),
            _ => is_warning().then_some(true),
        }
    }

    /// Reads the header of a JPEG of at most `most` pixels: width, height, and whether C warned. Resets the settings
    /// of the previous image.
    fn header(&mut self, bytes: &[u8], most: u64) -> Option<(u32, u32, bool)> {
        let whole = tj::tjregion { x: 0, y: 0, w: 0, h: 0 };
        // SAFETY: the handle is alive; regions are checked, and this one resets the previous one.
        let failed = unsafe { tj::tj3SetCroppingRegion(self.0.as_ptr(), whole) };
        // SAFETY: the handle is alive; `bytes` has the passed length.
        let read = unsafe { tj::tj3DecompressHeader(self.0.as_ptr(), bytes.as_ptr(), bytes.len() as tj::size_t) };
        let has_warned = self.warned(read).filter(|_| failed == 0)?;
        let size = |handle: &mut Self, of| u32::try_from(handle.get(of)).ok().filter(|&side| side > 0);
        let width = size(self, tj::TJPARAM_TJPARAM_JPEGWIDTH)?;
        let height = size(self, tj::TJPARAM_TJPARAM_JPEGHEIGHT)?;
        if u64::from(width) * u64::from(height) > most {
            return None;
        }
        Some((width, height, has_warned))
    }
}

/// Converts Adobe's CMYK, in which 255 is no ink, to RGB: each colour times black.
fn without_ink(pixels: &mut Vec<u8>, is_padded: bool) {
    let channels = if is_padded { 4 } else { 3 };
    for at in 0..pixels.len() / 4 {
        let black = u32::from(pixels[at * 4 + 3]);
        for colour in 0..3 {
            // Rounded division by 255: J. F. Blinn, "Three Wrongs Make a Right", as zune-jpeg does it.
            let product = u32::from(pixels[at * 4 + colour]) * black + 128;
            pixels[at * channels + colour] = ((product + (product >> 8)) >> 8) as u8;
        }
    }
    pixels.truncate(pixels.len() / 4 * channels);
}

/// Encodes JPEGs, one after the other: 4:2:0, baseline.
pub(crate) struct Encoder(Handle);

impl Encoder {
    /// `None` if memory is insufficient.
    pub(crate) fn new() -> Option<Self> {
        let mut handle = Handle::new(tj::TJINIT_TJINIT_COMPRESS)?;
        // The buffer below belongs to this crate, so C must not replace it.
        handle.set(tj::TJPARAM_TJPARAM_NOREALLOC, 1)?;
        Some(Self(handle))
    }

    /// A JPEG of `pixels: [height, width, channels] uint8`, 1 or 3 channels, with `quality` of 1 to 100.
    pub(crate) fn encode(
        &mut self,
        pixels: &[u8],
        (width, height): (u16, u16),
        channels: usize,
        quality: u8,
    ) -> Result<Vec<u8>, String> {
        let needed = usize::from(width) * usize::from(height) * channels;
        let format =
            format(channels).filter(|_| pixels.len() == needed).ok_or("the number of pixels does not fit the size")?;
        let handle = &mut self.0;
        let sampling = if channels == 1 { tj::TJSAMP_TJSAMP_GRAY } else { tj::TJSAMP_TJSAMP_420 };
        let set = handle.set(tj::TJPARAM_TJPARAM_SUBSAMP, sampling);
        let set = set.and_then(|()| handle.set(tj::TJPARAM_TJPARAM_QUALITY, quality.into()));
        set.ok_or_else(|| handle.message())?;
        // SAFETY: takes three numbers and returns one, 0 if they do not fit.
        let most = unsafe { tj::tj3JPEGBufSize(width.into(), height.into(), sampling) };
        let mut bytes = vec![0_u8; usize::try_from(most).unwrap_or(0)];
        let mut length = most;
        let mut buffer = bytes.as_mut_ptr();
        // SAFETY: the handle is alive; `pixels` has `height` rows of `width` pixels of `format`, as was checked;
        // `buffer` has `length` bytes, which C neither exceeds nor replaces (NOREALLOC).
        let failed = unsafe {
            let (width, height) = (width.into(), height.into());
            let from = pixels.as_ptr();
            tj::tj3Compress8(handle.0.as_ptr(), from, width, 0, height, format, &mut buffer, &mut length)
        };
        if failed != 0 {
            return Err(handle.message());
        }
        // Drops the unused rest of the buffer.
        Ok(bytes.get(..usize::try_from(length).unwrap_or(0)).unwrap_or_default().to_vec())
    }
}

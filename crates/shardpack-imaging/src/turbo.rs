//! The calls into libjpeg-turbo, all of them: pixels of a JPEG, reduced on the way if that is enough, and a JPEG of pixels.
//!
//! Holds at all times: a handle is used by one call at a time and freed once; every buffer that C is given is as long as C
//! is told. What C warns of is an error here: the caller then asks a stricter decoder.

use std::{ffi::CStr, ptr::NonNull};

use turbojpeg_sys as tj;

/// Pixels: across, down, and `[down, across, channels] uint8`.
pub(crate) type Pixels = (u32, u32, Vec<u8>);

/// A handle of libjpeg-turbo.
struct Handle(NonNull<std::ffi::c_void>);

impl Handle {
    fn new(init: tj::TJINIT) -> Option<Self> {
        // SAFETY: takes a number, and gives a handle or null.
        NonNull::new(unsafe { tj::tj3Init(init as i32) }).map(Self)
    }

    fn set(&mut self, parameter: tj::TJPARAM, value: i32) -> Option<()> {
        // SAFETY: the handle is alive; unknown parameters and values are refused.
        (unsafe { tj::tj3Set(self.0.as_ptr(), parameter as i32, value) } == 0).then_some(())
    }

    fn get(&mut self, parameter: tj::TJPARAM) -> i32 {
        // SAFETY: the handle is alive; unknown parameters give -1.
        unsafe { tj::tj3Get(self.0.as_ptr(), parameter as i32) }
    }

    /// What the last call said.
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
    /// `None` when there is no memory.
    pub(crate) fn new() -> Option<Self> {
        let mut handle = Handle::new(tj::TJINIT_TJINIT_DECOMPRESS)?;
        // As zune-jpeg has it.
        handle.set(tj::TJPARAM_TJPARAM_SCANLIMIT, 100)?;
        Some(Self(handle))
    }

    /// The pixels of `bytes` in 1 or 3 channels: of 1/8, 1/4 and 1/2 of the size the smallest that is `at_least` so large
    /// on both sides, else the whole size. `None` where C fails or warns, or for more than `most` pixels.
    pub(crate) fn decode(&mut self, bytes: &[u8], channels: usize, at_least: (u32, u32), most: u64) -> Option<Pixels> {
        let format = format(channels)?;
        let handle = &mut self.0;
        // SAFETY: the handle is alive; `bytes` is as long as it says.
        if unsafe { tj::tj3DecompressHeader(handle.0.as_ptr(), bytes.as_ptr(), bytes.len() as tj::size_t) } != 0 {
            return None;
        }
        let width = u32::try_from(handle.get(tj::TJPARAM_TJPARAM_JPEGWIDTH)).ok()?;
        let height = u32::try_from(handle.get(tj::TJPARAM_TJPARAM_JPEGHEIGHT)).ok()?;
        if u64::from(width) * u64::from(height) > most {
            return None;
        }
        // As TJSCALED of turbojpeg.h rounds. Other factors have no SIMD and are slower than these.
        let reduced = |by: u32| (width.div_ceil(by), height.div_ceil(by));
        let enough = |by: &u32| reduced(*by).0 >= at_least.0 && reduced(*by).1 >= at_least.1;
        let by = [8, 4, 2].into_iter().find(enough).unwrap_or(1);
        let factor = tj::tjscalingfactor { num: 1, denom: by as i32 };
        // SAFETY: the handle is alive; a factor that is not one of its own is refused.
        if unsafe { tj::tj3SetScalingFactor(handle.0.as_ptr(), factor) } != 0 {
            return None;
        }
        let (width, height) = reduced(by);
        let length = usize::try_from(u64::from(width) * u64::from(height) * channels as u64).ok()?;
        let mut pixels = vec![0; length];
        // SAFETY: the handle is alive and has read the header of these bytes; `pixels` has `height` rows of `width` pixels
        // of `format`, which is what C writes for this factor with a pitch of 0.
        let failed = unsafe {
            let (from, length) = (bytes.as_ptr(), bytes.len() as tj::size_t);
            tj::tj3Decompress8(handle.0.as_ptr(), from, length, pixels.as_mut_ptr(), 0, format)
        };
        (failed == 0).then_some((width, height, pixels))
    }
}

/// Encodes JPEGs, one after the other: 4:2:0, baseline.
pub(crate) struct Encoder(Handle);

impl Encoder {
    /// `None` when there is no memory.
    pub(crate) fn new() -> Option<Self> {
        let mut handle = Handle::new(tj::TJINIT_TJINIT_COMPRESS)?;
        // The buffer below is ours, so C may not put another in its place.
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
        let format = format(channels).filter(|_| pixels.len() == needed).ok_or("other pixels than their size says")?;
        let handle = &mut self.0;
        let sampling = if channels == 1 { tj::TJSAMP_TJSAMP_GRAY } else { tj::TJSAMP_TJSAMP_420 };
        let set = handle.set(tj::TJPARAM_TJPARAM_SUBSAMP, sampling);
        let set = set.and_then(|()| handle.set(tj::TJPARAM_TJPARAM_QUALITY, quality.into()));
        set.ok_or_else(|| handle.message())?;
        // SAFETY: takes three numbers and gives one, 0 if they do not fit.
        let most = unsafe { tj::tj3JPEGBufSize(width.into(), height.into(), sampling) };
        let mut bytes = vec![0_u8; usize::try_from(most).unwrap_or(0)];
        let mut length = most;
        let mut buffer = bytes.as_mut_ptr();
        // SAFETY: the handle is alive; `pixels` has `height` rows of `width` pixels of `format`, as was checked; `buffer` has
        // `length` bytes, which C neither exceeds nor exchanges (NOREALLOC).
        let failed = unsafe {
            let (width, height) = (width.into(), height.into());
            let from = pixels.as_ptr();
            tj::tj3Compress8(handle.0.as_ptr(), from, width, 0, height, format, &mut buffer, &mut length)
        };
        if failed != 0 {
            return Err(handle.message());
        }
        // Most of it is not needed.
        Ok(bytes.get(..usize::try_from(length).unwrap_or(0)).unwrap_or_default().to_vec())
    }
}

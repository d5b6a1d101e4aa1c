//! Transforms the encoded bytes of one image into one slot of a batch.
//!
//! Holds at all times: the output depends only on the bytes, the transform and the key: not on earlier images, on crop
//! tables, or on the CPU. The whole slot is written; after an error its content is invalid.

use std::sync::Arc;

use fast_image_resize::{
    FilterType, ResizeAlg, ResizeOptions, Resizer,
    images::{TypedCroppedImage, TypedImage, TypedImageRef},
    pixels::U8x4,
};
use shardpack_format::image_header::{Header, Kind};

use super::{
    augment::{Adjustment, Augmenter, Operation},
    geometry::{Geometry, Rect, Region},
    image_traits::{Jpeg, Oddities, Oddity},
    rotate::Turn,
    slot::{self, Placing},
    transform::{Filter, Transform},
};
use crate::{
    Budget, Layout, Limits, Refused, Reservation,
    crops::{self, RegionRequest, Way},
    decode, need,
};

/// How a slot was made.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Outcome {
    /// Unusual properties of the image.
    pub oddities: Oddities,
    /// Method of decoding; [`Way::Whole`] for all kinds but JPEG.
    pub way: Way,
    /// 1, 2, 4 or 8: the reduction during decoding.
    pub reduced_by: u32,
    /// The cut of the image; `None` for a whole image, and if operations move pixels.
    pub geometry: Option<Geometry>,
}

/// A whole image, for a caller's own function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rgb<'a> {
    /// Pixels across.
    pub width: u32,
    /// Pixels down.
    pub height: u32,
    /// `[height, width, 3] uint8`, red, green, blue, C order.
    pub pixels: &'a [u8],
}

/// Makes slots from images one after the other, with one worker per thread. Reuses decoders and memory.
pub struct Worker {
    limits: Limits,
    budget: Option<Arc<Budget>>,
    decoder: crops::Decoder,
    resizer: Resizer,
    /// `[_, _, 4]`, or 3 for whole images.
    decoded: Vec<u8>,
    turned: Vec<u8>,
    resized: Vec<u8>,
    spare: Vec<u8>,
    augmenter: Augmenter,
}

/// A buffer that a huge image has made longer than this is freed: 16 million pixels.
const MAX_KEPT_BYTES: usize = 64 << 20;

/// Position of the pixels that were decoded for a window, in a buffer, with the region.
struct DecodedWindow {
    row_pixels: u32,
    left: u32,
    width: u32,
    height: u32,
    region: Region,
}

impl Worker {
    /// A worker with limits on image size.
    pub fn new(limits: Limits) -> Self {
        let (resizer, decoder) = (Resizer::new(), crops::Decoder::new(limits));
        let [decoded, turned, resized, spare] = [const { Vec::new() }; 4];
        Self {
            limits,
            budget: None,
            decoder,
            resizer,
            decoded,
            turned,
            resized,
            spare,
            augmenter: Augmenter::default(),
        }
    }

    /// As `new`, with decoding memory from the shared `budget`.
    pub fn within(limits: Limits, budget: Arc<Budget>) -> Self {
        let limits = Limits { bytes: limits.bytes.min(budget.bytes()), ..limits };
        Self { budget: Some(budget), ..Self::new(limits) }
    }

    /// Fills `slot`, which has [`Transform::slot_bytes`] bytes, from an encoded image.
    ///
    /// For a JPEG, once the buffers have grown, only the resizer's weights are allocated; decoders of other kinds
    /// allocate their output.
    ///
    /// `table` is the crop table of these very bytes, if there is one ([`crops`]): the pixels are the same, but
    /// faster.
    ///
    /// # Errors
    /// Images that [`decode`] refuses; but in a JPEG that is decoded in part, damage outside that part goes
    /// undetected. A slot of another length. After an error the content of `slot` is undefined.
    pub fn run(
        &mut self,
        transform: &Transform,
        bytes: &[u8],
        table: Option<&[u8]>,
        random_key: u64,
        slot: &mut [u8],
    ) -> Result<Outcome, Refused> {
        if slot.len() != transform.slot_bytes() {
            return Err(Refused::SlotLength { expected: transform.slot_bytes(), found: slot.len() });
        }
        let header = Header::parse(bytes);
        self.forget();
        let budget = self.budget.clone();
        let _taken = taken(budget.as_deref(), bytes, &header, 8)?;
        let (outcome, geometry, turn, part) = match header.kind {
            Kind::Jpeg if header.width > 0 => self.part_of_jpeg(transform, bytes, &header, table, random_key)?,
            _ => self.part_of_whole(transform, bytes, &header, random_key)?,
        };
        self.resize(transform, &geometry, turn, part);
        let options = transform.options();
        let Geometry { placed, flip, flip_vertical, .. } = geometry;
        let mut placing = Placing { axes: options.axes, size: options.cut.size(), placed, flip, flip_vertical };
        if !transform.operations().is_empty() {
            placing.complete(&mut self.resized, &mut self.spare);
            self.augmenter.run(transform.operations(), placing.size, random_key, &mut self.resized);
        }
        slot::fill(transform.levels(), &placing, &mut self.resized, slot);
        if let Some(erasing) = transform.erasing() {
            erasing.apply(placing.size, options.axes, options.dtype, random_key, slot);
        }
        self.forget();
        let moved = transform.operations().iter().any(Operation::moves);
        Ok(Outcome { geometry: outcome.geometry.filter(|_| !moved), ..outcome })
    }

    /// Applies only the operations of a transform to `pixels`, `[H, W, 4] uint8`, RGBX, of the size of its slots. The
    /// fourth channel is ignored, and has any value afterwards. Returns the adjustments that were drawn.
    ///
    /// # Errors
    /// Pixels of another length.
    pub fn augment(
        &mut self,
        transform: &Transform,
        random_key: u64,
        pixels: &mut [u8],
    ) -> Result<&[Adjustment], Refused> {
        let size = transform.options().cut.size();
        // At most 2^28 pixels.
        let expected = size.height as usize * size.width as usize * 4;
        if pixels.len() != expected {
            return Err(Refused::SlotLength { expected, found: pixels.len() });
        }
        Ok(self.augmenter.run(transform.operations(), size, random_key, pixels))
    }

    /// Frees buffers that grew for a huge image.
    fn forget(&mut self) {
        for buffer in [&mut self.decoded, &mut self.turned] {
            if buffer.capacity() > MAX_KEPT_BYTES {
                *buffer = Vec::new();
            }
        }
    }

    /// All pixels of an encoded image, turned by its Exif orientation if `upright`: for a caller's own functions.
    ///
    /// # Errors
    /// Images that [`decode`] refuses.
    pub fn decode(&mut self, bytes: &[u8], upright: bool) -> Result<(Rgb<'_>, Outcome), Refused> {
        let header = Header::parse(bytes);
        self.forget();
        let budget = self.budget.clone();
        let _taken = taken(budget.as_deref(), bytes, &header, 6)?;
        let jpeg = (header.kind == Kind::Jpeg && header.width > 0).then(|| Jpeg::parse(bytes));
        let by_parts = match jpeg {
            Some(jpeg) => self.whole_jpeg(bytes, &header)?.then_some((jpeg.orientation, header.width, header.height)),
            None => None,
        };
        let mut oddities = Oddities::detect(bytes, &header, jpeg);
        let (orientation, width, height) = match by_parts {
            Some(found) => found,
            None => {
                let picture = decode(bytes, &self.limits)?;
                oddities.set(Oddity::Alpha, picture.layout().has_alpha());
                oddities.set(Oddity::Turned, picture.orientation() != 1);
                self.decoded.clear();
                let pixels = picture.pixels().chunks_exact(picture.layout().channels());
                self.decoded.extend(pixels.flat_map(|pixel| colours(picture.layout(), pixel)));
                (picture.orientation(), picture.width(), picture.height())
            }
        };
        let turn = if upright { Turn::from_exif(orientation) } else { Turn::NONE };
        let mut pixels = &self.decoded;
        if turn != Turn::NONE {
            let columns = (0, width as usize, height as usize);
            turn.pixels::<3>(pixels, width as usize, columns, &mut self.turned);
            pixels = &self.turned;
        }
        let (width, height) = turn.size((width, height));
        Ok((Rgb { width, height, pixels }, Outcome { oddities, way: Way::Whole, reduced_by: 1, geometry: None }))
    }

    /// Decodes a whole JPEG into `self.decoded`, `[height, width, 3]`, with the decoder for parts; returns whether it
    /// succeeded.
    fn whole_jpeg(&mut self, bytes: &[u8], header: &Header) -> Result<bool, Refused> {
        self.limits.admit(header.width, header.height, 3)?;
        let rect = crops::Rect { x: 0, y: 0, width: header.width, height: header.height };
        match self.decoder.region(bytes, None, &RegionRequest { rect, reduce_by: 1, padded: false }, &mut self.decoded)
        {
            Ok(decoded) => Ok(!decoded.has_warned && (decoded.row_pixels, decoded.left) == (header.width, 0)),
            Err(Refused::NoSuchPart) => Ok(false),
            Err(refused) => Err(refused),
        }
    }

    /// Decodes the part of a JPEG that the transform needs.
    fn part_of_jpeg(
        &mut self,
        transform: &Transform,
        bytes: &[u8],
        header: &Header,
        table: Option<&[u8]>,
        random_key: u64,
    ) -> Result<(Outcome, Geometry, Turn, DecodedWindow), Refused> {
        self.limits.admit(header.width, header.height, 4)?;
        let options = transform.options();
        let jpeg = Jpeg::parse(bytes);
        let turn = if options.upright { Turn::from_exif(jpeg.orientation) } else { Turn::NONE };
        let stored_size = (header.width, header.height);
        let (width, height) = turn.size(stored_size);
        transform.admit(width, height)?;
        let geometry = transform.plan(width, height, random_key);
        let stored = turn.stored(geometry.window, stored_size);
        let rect = crops::Rect { x: stored.left, y: stored.top, width: stored.width, height: stored.height };
        let reduce_by = if options.reduce { reduction(&geometry) } else { 1 };
        let wanted = RegionRequest { rect, reduce_by, padded: true };
        let decoded = match self.decoder.region(bytes, table, &wanted, &mut self.decoded) {
            Ok(decoded) if !decoded.has_warned => decoded,
            // A stricter decoder has to decide whether that is damage, and a decoder that parses the headers
            // differently has to report the size.
            Ok(_) | Err(Refused::NoSuchPart) => return self.part_of_whole(transform, bytes, header, random_key),
            Err(refused) => return Err(refused),
        };
        let by = decoded.reduced_by;
        let covered = Rect { left: decoded.x, top: decoded.y, width: decoded.width, height: decoded.height };
        let (left, top) = turn.beside(stored, covered, by);
        let (across, down) = turn.size((decoded.width, decoded.height));
        let region = within(reduced(geometry.region, (left, top), by), (across, down));
        let part = DecodedWindow {
            row_pixels: decoded.row_pixels,
            left: decoded.left,
            width: decoded.width,
            height: decoded.height,
            region,
        };
        let oddities = Oddities::detect(bytes, header, Some(jpeg));
        let outcome = Outcome { oddities, way: decoded.way, reduced_by: by, geometry: Some(geometry) };
        Ok((outcome, geometry, turn, part))
    }

    /// Decodes a whole image of any kind, and keeps the part that the transform needs.
    fn part_of_whole(
        &mut self,
        transform: &Transform,
        bytes: &[u8],
        header: &Header,
        random_key: u64,
    ) -> Result<(Outcome, Geometry, Turn, DecodedWindow), Refused> {
        let picture = decode(bytes, &self.limits)?;
        let turn = if transform.options().upright { Turn::from_exif(picture.orientation()) } else { Turn::NONE };
        let stored_size = (picture.width(), picture.height());
        let (width, height) = turn.size(stored_size);
        transform.admit(width, height)?;
        let geometry = transform.plan(width, height, random_key);
        let stored = turn.stored(geometry.window, stored_size);
        let channels = picture.layout().channels();
        self.decoded.clear();
        let rows = picture.pixels().chunks_exact(picture.width() as usize * channels);
        for row in rows.skip(stored.top as usize).take(stored.height as usize) {
            let pixels = row.chunks_exact(channels).skip(stored.left as usize).take(stored.width as usize);
            self.decoded.extend(pixels.flat_map(|pixel| {
                let [red, green, blue] = colours(picture.layout(), pixel);
                [red, green, blue, 255]
            }));
        }
        let jpeg = (header.kind == Kind::Jpeg).then(|| Jpeg::parse(bytes));
        let mut oddities = Oddities::detect(bytes, header, jpeg);
        oddities.set(Oddity::Alpha, picture.layout().has_alpha());
        oddities.set(Oddity::Turned, picture.orientation() != 1);
        let outcome = Outcome { oddities, way: Way::Whole, reduced_by: 1, geometry: Some(geometry) };
        let (row_pixels, region) = (stored.width, geometry.region);
        let part = DecodedWindow { row_pixels, left: 0, width: stored.width, height: stored.height, region };
        Ok((outcome, geometry, turn, part))
    }

    /// Writes the pixels of the region into `self.resized`, `[placed.height, placed.width, 4]`.
    ///
    /// With four bytes a pixel, one byte is wasted, and the resize takes 0.87 to 0.93 of the time of three (example
    /// `training_speed`, AMD EPYC).
    fn resize(&mut self, transform: &Transform, geometry: &Geometry, turn: Turn, part: DecodedWindow) {
        let DecodedWindow { mut row_pixels, mut left, mut width, mut height, region } = part;
        let mut pixels = &self.decoded;
        if turn != Turn::NONE {
            let columns = (left as usize, width as usize, height as usize);
            turn.pixels::<4>(pixels, row_pixels as usize, columns, &mut self.turned);
            (width, height) = turn.size((width, height));
            (row_pixels, left, pixels) = (width, 0, &self.turned);
        }
        let placed = geometry.placed;
        self.resized.resize(placed.width as usize * placed.height as usize * 4, 0);
        let filter = match transform.options().filter {
            Filter::Bilinear => FilterType::Bilinear,
            // Keys' cubic with a = -1/2.
            Filter::Bicubic => FilterType::CatmullRom,
        };
        let options = ResizeOptions::new()
            .resize_alg(ResizeAlg::Convolution(filter))
            .crop(region.left, region.top, region.width, region.height)
            .use_alpha(false);
        let rows = TypedImageRef::<U8x4>::from_buffer(row_pixels, height, pixels).expect("its rows were decoded");
        let window = TypedCroppedImage::from_ref(&rows, left, 0, width, height).expect("the part lies in its rows");
        let resized = TypedImage::from_buffer(placed.width, placed.height, &mut self.resized);
        let mut resized = resized.expect("it was made for that size");
        self.resizer.resize_typed(&window, &mut resized, &options).expect("a region lies within its window");
    }
}

/// Takes memory from `budget` to decode an image and to keep `of_pixel` further bytes of each pixel.
fn taken<'b>(
    budget: Option<&'b Budget>,
    bytes: &[u8],
    header: &Header,
    of_pixel: u64,
) -> Result<Option<Reservation<'b>>, Refused> {
    let kept = u64::from(header.width).saturating_mul(header.height.into()).saturating_mul(of_pixel);
    let needed = || need::decode(bytes, header).map(|needed| needed.saturating_add(kept));
    budget.map(|budget| budget.for_work(needed())).transpose()
}

/// Red, green and blue of a pixel: grey is copied to three, alpha is dropped.
fn colours(layout: Layout, pixel: &[u8]) -> [u8; 3] {
    match layout {
        Layout::Gray8 | Layout::GrayA8 => [pixel[0]; 3],
        Layout::Rgb8 | Layout::Rgba8 => [pixel[0], pixel[1], pixel[2]],
    }
}

/// The largest of 8, 4, 2 and 1 by which the region can be divided and still be at least as large as its place in the
/// slot.
fn reduction(geometry: &Geometry) -> u32 {
    let Geometry { region, placed, .. } = geometry;
    let enough = |by: &u32| {
        let least = |pixels: u32| f64::from(pixels) * f64::from(*by);
        region.width >= least(placed.width) && region.height >= least(placed.height)
    };
    [8, 4, 2].into_iter().find(enough).unwrap_or(1)
}

/// A region in pixels of `by` times `by`; the first such pixel begins `left` and `top` before the window.
fn reduced(region: Region, (left, top): (f64, f64), by: u32) -> Region {
    let by = f64::from(by);
    Region {
        left: (region.left + left) / by,
        top: (region.top + top) / by,
        width: region.width / by,
        height: region.height / by,
    }
}

/// Clips a region to this size: rounding may have moved its end slightly beyond.
fn within(region: Region, (width, height): (u32, u32)) -> Region {
    Region {
        width: region.width.min(f64::from(width) - region.left),
        height: region.height.min(f64::from(height) - region.top),
        ..region
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::training::{Axes, Cut, Dtype, Options, Resize, Size};

    fn photo(name: &str) -> Vec<u8> {
        let photos = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/photos");
        std::fs::read(photos.join(name)).unwrap()
    }

    #[test]
    fn nothing_asked_for_is_the_image_itself() {
        let mut worker = Worker::new(Limits::default());
        let bytes = photo("animals/cat.jpg");
        let (rgb, outcome) = worker.decode(&bytes, false).unwrap();
        assert_eq!((outcome.way, outcome.reduced_by, outcome.oddities), (Way::Whole, 1, Oddities::default()));
        let (size, pixels) = (Size { height: rgb.height, width: rgb.width }, rgb.pixels.to_vec());
        for cut in [Cut::Whole { size }, Cut::Center { resize: Resize::Not, size }] {
            let options = Options { axes: Axes::Hwc, ..Options::new(cut) };
            let transform = Transform::new(options).unwrap();
            let mut slot = vec![0; transform.slot_bytes()];
            worker.run(&transform, &bytes, None, 0, &mut slot).unwrap();
            assert!(slot == pixels, "{cut:?}");
        }
    }

    #[test]
    fn a_slot_of_another_length_is_refused() {
        let transform = Transform::new(Options::new(Cut::Whole { size: Size::square(8) })).unwrap();
        for length in [0, 191, 193] {
            let refused = Worker::new(Limits::default()).run(
                &transform,
                &photo("animals/cat.jpg"),
                None,
                0,
                &mut vec![0; length],
            );
            assert_eq!(refused, Err(Refused::SlotLength { expected: 192, found: length }));
        }
    }

    #[test]
    fn small_images_lie_in_the_middle_of_black() {
        let array = [shardpack_format::npy::head("|u1", &[2, 3, 3], false), vec![200; 18]].concat();
        let cut = Cut::Center { resize: Resize::Not, size: Size { height: 5, width: 6 } };
        let options = Options { axes: Axes::Hwc, flip: 1.0, dtype: Dtype::Uint8, ..Options::new(cut) };
        let transform = Transform::new(options).unwrap();
        let mut slot = vec![1; transform.slot_bytes()];
        Worker::new(Limits::default()).run(&transform, &array, None, 0, &mut slot).unwrap();
        let rows: Vec<Vec<u8>> = slot.chunks(18).map(|row| row.chunks(3).map(|pixel| pixel[0]).collect()).collect();
        // One column is on the left and two are on the right; the flip exchanges them.
        let (black, image) = (vec![0; 6], vec![0, 0, 200, 200, 200, 0]);
        assert_eq!(rows, [black.clone(), image.clone(), image, black.clone(), black]);
    }

    #[test]
    #[expect(unsafe_code, reason = "set_cpu_extensions is unsafe; only extensions that the CPU has are set")]
    fn slots_do_not_depend_on_the_cpu() {
        let pixels: Vec<u8> = (0..97 * 61 * 3_u32).map(|at| (at.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
        let array = [shardpack_format::npy::head("|u1", &[61, 97, 3], false), pixels].concat();
        let size = Size { height: 29, width: 43 };
        for filter in [Filter::Bilinear, Filter::Bicubic] {
            for cut in [Cut::random_resized(size), Cut::Center { resize: Resize::Short(35), size }, Cut::Whole { size }]
            {
                let transform = Transform::new(Options { filter, flip: 0.5, ..Options::new(cut) }).unwrap();
                for key in 0..5 {
                    let mut slots = crate::resize::tests::extensions().into_iter().map(|extension| {
                        let mut worker = Worker::new(Limits::default());
                        // SAFETY: `extensions` returns only extensions that this CPU supports.
                        unsafe { worker.resizer.set_cpu_extensions(extension) };
                        let mut slot = vec![0; transform.slot_bytes()];
                        worker.run(&transform, &array, None, key, &mut slot).unwrap();
                        slot
                    });
                    let first = slots.next().unwrap();
                    assert!(slots.all(|slot| slot == first), "{filter:?} {cut:?} {key}");
                }
            }
        }
    }
}

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
use shardpack_format::image_header::{Header, Kind, Mode};

use super::{
    augment::{Adjustment, Augmenter},
    geometry::Geometry,
    image_traits::{Jpeg, Oddities, Oddity},
    part::{DecodedPart, DecodedWindow, cuts, enclosing, reduction},
    random::view_key,
    rotate::Turn,
    shape::{Rect, Size},
    slot::{self, Placing},
    transform::{Filter, Transform},
};
use crate::{
    Budget, Layout, Limits, Mask, Refused, Reservation,
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
        let (outcome, cuts) = self.run_views(std::slice::from_ref(transform), bytes, table, random_key, &mut [slot])?;
        Ok(Outcome { geometry: cuts.first().copied().filter(|_| !transform.moves()), ..outcome })
    }

    /// Fills a slot for each of several transforms of one image, which is decoded once: the smallest part that has all
    /// cuts. View `n` has the random key [`view_key`] of `n`, so the first view of several is that of [`Worker::run`].
    /// One reduction serves all views: the least of them.
    ///
    /// Returns how the image was decoded, and the cut of each view.
    ///
    /// # Errors
    /// As [`Worker::run`]; another number of slots than of views.
    pub fn run_views(
        &mut self,
        views: &[Transform],
        bytes: &[u8],
        table: Option<&[u8]>,
        random_key: u64,
        slots: &mut [&mut [u8]],
    ) -> Result<(Outcome, Vec<Geometry>), Refused> {
        let expected = |views: &[Transform]| views.iter().map(Transform::slot_bytes).sum();
        if views.len() != slots.len() {
            let found = slots.iter().map(|slot| slot.len()).sum();
            return Err(Refused::SlotLength { expected: expected(views), found });
        }
        for (view, slot) in views.iter().zip(slots.iter()) {
            if slot.len() != view.slot_bytes() {
                return Err(Refused::SlotLength { expected: view.slot_bytes(), found: slot.len() });
            }
        }
        let header = Header::parse(bytes);
        self.forget();
        let budget = self.budget.clone();
        // `resized` and `spare`, for one view after the other.
        let resized = views.iter().map(|view| view.options().cut.size().pixels().saturating_mul(8)).max();
        let _taken = taken(budget.as_deref(), bytes, &header, 8, resized.unwrap_or(0))?;
        let by_part = match header.kind {
            Kind::Jpeg if header.width > 0 => self.part_of_jpeg(views, bytes, &header, table, random_key)?,
            _ => None,
        };
        let (outcome, cuts, decoded) = match by_part {
            Some(found) => found,
            None => self.part_of_whole(views, bytes, &header, random_key)?,
        };
        for (number, ((view, geometry), slot)) in (0..).zip(views.iter().zip(&cuts).zip(slots)) {
            self.resize(view, geometry, &decoded);
            self.finish(view, geometry, view_key(random_key, number), slot);
        }
        self.forget();
        Ok((outcome, cuts))
    }

    /// Makes a slot and fills it as [`Worker::run`] does. Images whose size is known not to fit are refused before.
    ///
    /// # Errors
    /// As [`Worker::run`]; [`Refused::NoMemory`].
    pub fn make(
        &mut self,
        transform: &Transform,
        bytes: &[u8],
        table: Option<&[u8]>,
        random_key: u64,
    ) -> Result<Vec<u8>, Refused> {
        let Header { width, height, .. } = Header::parse(bytes);
        // Turned or not: the orientation is unknown here.
        let is_unfit = |size: (u32, u32)| transform.admit(size.0, size.1).err();
        if width > 0
            && let (Some(refused), Some(_)) = (is_unfit((width, height)), is_unfit((height, width)))
        {
            return Err(refused);
        }
        let needed = transform.slot_bytes();
        let mut slot = Vec::new();
        slot.try_reserve_exact(needed).map_err(|_| Refused::NoMemory { needed: needed as u64 })?;
        slot.resize(needed, 0);
        self.run(transform, bytes, table, random_key, &mut slot).map(|_| slot)
    }

    /// Writes `self.resized` into a slot: flips, operations, numbers, erasing.
    fn finish(&mut self, view: &Transform, geometry: &Geometry, random_key: u64, slot: &mut [u8]) {
        let options = view.options();
        let &Geometry { placed, flip, flip_vertical, .. } = geometry;
        let mut placing = Placing { axes: options.axes, size: options.cut.size(), placed, flip, flip_vertical };
        if !view.operations().is_empty() {
            placing.complete(&mut self.resized, &mut self.spare);
            self.augmenter.run(view.operations(), placing.size, random_key, &mut self.resized);
        }
        slot::fill(view.levels(), &placing, &mut self.resized, slot);
        if let Some(erasing) = view.erasing() {
            erasing.apply(placing.size, options.axes, options.dtype, random_key, slot);
        }
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
        for buffer in [&mut self.decoded, &mut self.turned, &mut self.resized, &mut self.spare] {
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
        let _taken = taken(budget.as_deref(), bytes, &header, 6, 0)?;
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

    /// The numbers of a mask, within the limits and the memory of the worker.
    ///
    /// # Errors
    /// Files that [`Mask::decode`] refuses.
    pub fn mask(&self, bytes: &[u8]) -> Result<Mask, Refused> {
        // The file's rows, and one byte or two for each number.
        let _taken = taken(self.budget.as_deref(), bytes, &Header::parse(bytes), 8, 0)?;
        Mask::decode(bytes, &self.limits)
    }

    /// The cut of a mask that is a JPEG and has the size of the image: only the pixels around the cut are decoded. `None` for other
    /// masks.
    ///
    /// # Errors
    /// Files that [`Mask::decode`] refuses, if the damage lies in the part that is decoded.
    pub fn jpeg_mask(&mut self, bytes: &[u8], geometry: &Geometry) -> Result<Option<Mask>, Refused> {
        let header = Header::parse(bytes);
        let is_one = header.kind == Kind::Jpeg && header.depth == 8;
        if !is_one || (header.width, header.height) != geometry.stored_size() {
            return Ok(None);
        }
        self.limits.admit(header.width, header.height, 3)?;
        let _taken = taken(self.budget.as_deref(), bytes, &header, 8, 0)?;
        let rect = geometry.nearest_window();
        self.decoder.region(bytes, None, &RegionRequest { rect, reduce_by: 1, padded: false }, &mut self.decoded)?;
        let channels = if header.mode == Mode::Gray { 1 } else { 3 };
        if channels == 1 {
            let pixels = self.decoded.len() / 3;
            (0..pixels).for_each(|at| self.decoded[at] = self.decoded[3 * at]);
            self.decoded.truncate(pixels);
        }
        let items = geometry.nearest_in(rect, &self.decoded, channels as usize);
        let Size { width, height } = geometry.size;
        Ok(Some(Mask { width, height, channels, bytes: 1, items }))
    }

    /// Decodes a whole JPEG into `self.decoded`, `[height, width, 3]`, with the decoder for parts; returns whether it
    /// succeeded.
    fn whole_jpeg(&mut self, bytes: &[u8], header: &Header) -> Result<bool, Refused> {
        self.limits.admit(header.width, header.height, 3)?;
        let rect = crops::Rect { x: 0, y: 0, width: header.width, height: header.height };
        match self.decoder.region(bytes, None, &RegionRequest { rect, reduce_by: 1, padded: false }, &mut self.decoded)
        {
            Ok(_) => Ok(true),
            Err(Refused::NoSuchPart) => Ok(false),
            Err(refused) => Err(refused),
        }
    }

    /// Decodes the part of a JPEG that the views need; `None` if a decoder of whole images has to decide.
    fn part_of_jpeg(
        &mut self,
        views: &[Transform],
        bytes: &[u8],
        header: &Header,
        table: Option<&[u8]>,
        random_key: u64,
    ) -> Result<Option<(Outcome, Vec<Geometry>, DecodedPart)>, Refused> {
        self.limits.admit(header.width, header.height, 4)?;
        let jpeg = Jpeg::parse(bytes);
        let cuts = cuts(views, jpeg.orientation, (header.width, header.height), random_key)?;
        let stored = enclosing(&cuts);
        let rect = crops::Rect { x: stored.left, y: stored.top, width: stored.width, height: stored.height };
        let reductions =
            views.iter().zip(&cuts).map(|(view, cut)| if view.options().reduce { reduction(cut) } else { 1 });
        let wanted = RegionRequest { rect, reduce_by: reductions.min().unwrap_or(1), padded: true };
        let region = match self.decoder.region(bytes, table, &wanted, &mut self.decoded) {
            Ok(region) => region,
            // A decoder that parses the headers differently has to report the size.
            Err(Refused::NoSuchPart) => return Ok(None),
            Err(refused) => return Err(refused),
        };
        let covered = Rect { left: region.x, top: region.y, width: region.width, height: region.height };
        let decoded = DecodedPart { covered, by: region.reduced_by };
        let oddities = Oddities::detect(bytes, header, Some(jpeg));
        let outcome = Outcome { oddities, way: region.way, reduced_by: region.reduced_by, geometry: None };
        Ok(Some((outcome, cuts, decoded)))
    }

    /// Decodes a whole image of any kind, and keeps the part that the views need.
    fn part_of_whole(
        &mut self,
        views: &[Transform],
        bytes: &[u8],
        header: &Header,
        random_key: u64,
    ) -> Result<(Outcome, Vec<Geometry>, DecodedPart), Refused> {
        let picture = decode(bytes, &self.limits)?;
        let cuts = cuts(views, picture.orientation(), (picture.width(), picture.height()), random_key)?;
        let covered = enclosing(&cuts);
        let channels = picture.layout().channels();
        self.decoded.clear();
        let rows = picture.pixels().chunks_exact(picture.width() as usize * channels);
        for row in rows.skip(covered.top as usize).take(covered.height as usize) {
            let pixels = row.chunks_exact(channels).skip(covered.left as usize).take(covered.width as usize);
            self.decoded.extend(pixels.flat_map(|pixel| {
                let [red, green, blue] = colours(picture.layout(), pixel);
                [red, green, blue, 255]
            }));
        }
        let jpeg = (header.kind == Kind::Jpeg).then(|| Jpeg::parse(bytes));
        let mut oddities = Oddities::detect(bytes, header, jpeg);
        oddities.set(Oddity::Alpha, picture.layout().has_alpha());
        oddities.set(Oddity::Turned, picture.orientation() != 1);
        let outcome = Outcome { oddities, way: Way::Whole, reduced_by: 1, geometry: None };
        Ok((outcome, cuts, DecodedPart { covered, by: 1 }))
    }

    /// Writes the pixels of the region into `self.resized`, `[placed.height, placed.width, 4]`.
    ///
    /// With four bytes a pixel, one byte is wasted, and the resize takes 0.87 to 0.93 of the time of three (example
    /// `training_speed`, AMD EPYC).
    fn resize(&mut self, transform: &Transform, geometry: &Geometry, decoded: &DecodedPart) {
        let DecodedWindow { top, mut row_pixels, mut left, mut width, mut height, region } = decoded.window(geometry);
        let turn = geometry.turn;
        let mut pixels = &self.decoded[top as usize * row_pixels as usize * 4..];
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

/// Takes memory from `budget` to decode an image, to keep `of_pixel` further bytes of each pixel, and `others`.
fn taken<'b>(
    budget: Option<&'b Budget>,
    bytes: &[u8],
    header: &Header,
    of_pixel: u64,
    others: u64,
) -> Result<Option<Reservation<'b>>, Refused> {
    let kept =
        u64::from(header.width).saturating_mul(header.height.into()).saturating_mul(of_pixel).saturating_add(others);
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
    fn each_of_several_views_is_the_image_through_its_transform_alone() {
        let size = Size { height: 40, width: 56 };
        let views = [
            Options { flip: 0.5, ..Options::new(Cut::random_resized(size)) },
            Options { dtype: Dtype::Float32, ..Options::new(Cut::random_resized(Size::square(24))) },
            Options { upright: true, axes: Axes::Hwc, ..Options::new(Cut::Whole { size }) },
            Options::new(Cut::Center { resize: Resize::Short(48), size: Size::square(40) }),
        ]
        // Alone, each view has a reduction of its own.
        .map(|options| Transform::new(Options { reduce: false, ..options }).unwrap());
        let mut worker = Worker::new(Limits::default());
        let tiff = b"MM\0\x2A\0\0\0\x08\0\x01\x01\x12\0\x03\0\0\0\x01\0\x06\0\0\0\0\0\0";
        let exif = [&[0xFF, 0xE1, 0, tiff.len() as u8 + 8][..], b"Exif\0\0", tiff].concat();
        let turned = [&photo("animals/cat.jpg")[..2], &exif, &photo("animals/cat.jpg")[2..]].concat();
        let images =
            [("a JPEG", photo("animals/cat.jpg")), ("a turned JPEG", turned), ("a PNG", photo("things/spoon.png"))];
        for (name, bytes) in images {
            for key in 0..8 {
                let mut slots = views.each_ref().map(|view| vec![1; view.slot_bytes()]);
                let mut lent: Vec<&mut [u8]> = slots.iter_mut().map(Vec::as_mut_slice).collect();
                let (_, cuts) = worker.run_views(&views, &bytes, None, key, &mut lent).unwrap();
                for (number, (view, slot)) in (0..).zip(views.iter().zip(&slots)) {
                    let mut alone = vec![2; view.slot_bytes()];
                    let made = worker.run(view, &bytes, None, view_key(key, number), &mut alone).unwrap();
                    assert!(alone == *slot, "{name} {key} {number}");
                    assert_eq!(made.geometry, Some(cuts[number as usize]));
                }
            }
        }
        let refused = worker.run_views(&views, &photo("animals/cat.jpg"), None, 0, &mut []);
        assert!(matches!(refused, Err(Refused::SlotLength { found: 0, .. })));
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

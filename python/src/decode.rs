//! Decodes one image, for functions written in Python.

use std::{
    cell::RefCell,
    num::NonZeroU16,
    sync::{Arc, LazyLock},
};

use pyo3::{prelude::*, types::PyBytes};
use shardpack_format::image_header::Header;
use shardpack_imaging::crops::scan;
use shardpack_loader::{
    Budget, Error, Limits,
    training::{Axes, Cut, Filter, Options, Rect, Size, Transform, Worker},
};

use crate::{
    arrays::Array,
    errors::{Raise, detached},
};

/// Memory for decoding in all threads, in bytes, beside the results; one image may use all of it.
static BUDGET: LazyLock<Arc<Budget>> = LazyLock::new(|| Arc::new(Budget::new(4 << 30)));

thread_local! {
    static WORKER: RefCell<Worker> = RefCell::new(Worker::within(Limits::default(), Arc::clone(&BUDGET)));
}

/// A size in Python: `(height, width)`, or one number for a square.
#[derive(FromPyObject)]
pub enum Sides {
    Square(i64),
    Both((i64, i64)),
}

impl Sides {
    fn size(&self) -> Result<Size, Error> {
        let (height, width) = match *self {
            Self::Square(side) => (side, side),
            Self::Both(both) => both,
        };
        let wrong = |_| Error::usage(format!("size ({height}, {width}): sides of 1 to 65535 pixels are possible"));
        Ok(Size { height: u32::try_from(height).map_err(wrong)?, width: u32::try_from(width).map_err(wrong)? })
    }
}

/// Decode an image or a part of it, without the GIL.
///
/// Args:
///     content: Encoded image.
///     upright: Rotate the image by its Exif orientation.
///     box: Part to decode, `(left, top, right, bottom)` in pixels, of the rotated image if `upright`; right and bottom are not
///         included. Of a JPEG, only the needed codes and pixels are decoded.
///     size: Resize the part to `(height, width)`, or to a square.
///     table: Crop table of these very bytes, from `crop_table`; the pixels are the same, in less time. A table of other bytes
///         is ignored if it does not fit them.
///     filter: `"bilinear"` or `"bicubic"`, for `size`.
///     reduce: Decode a JPEG to 1/2, 1/4 or 1/8 if the part stays at least as large as `size`: faster, pixels differ slightly.
///
/// Returns:
///     Pixels, `[H, W, 3] uint8`, RGB, for `numpy.asarray`, which makes no copy.
///
/// Raises:
///     DataError: If `content` is no image, damaged or too large, or `box` is not within it.
///     UsageError: If `box` or `size` is empty or too large.
#[pyfunction]
#[pyo3(signature = (content, upright=false, *, r#box=None, size=None, table=None, filter="bilinear", reduce=true))]
#[expect(clippy::too_many_arguments, reason = "keyword arguments of Python")]
pub fn decode(
    py: Python<'_>,
    content: &[u8],
    upright: bool,
    r#box: Option<[i64; 4]>,
    size: Option<Sides>,
    table: Option<&[u8]>,
    filter: &str,
    reduce: bool,
) -> PyResult<Array> {
    let filter = match filter {
        "bilinear" => Ok(Filter::Bilinear),
        "bicubic" => Ok(Filter::Bicubic),
        _ => Err(Error::usage(format!("filter {filter:?}: bilinear or bicubic are possible"))),
    };
    let filter = filter.or_raise(py)?;
    let cut = cut(r#box, size.as_ref()).or_raise(py)?;
    let decoded = detached(py, || {
        WORKER.with_borrow_mut(|worker| match cut {
            Some(cut) => {
                let options = Options { filter, axes: Axes::Hwc, reduce, upright, ..Options::new(cut) };
                part(worker, options, content, table)
            }
            None => {
                let (rgb, _) = worker.decode(content, upright).map_err(|refused| Error::data(refused.to_string()))?;
                Ok((rgb.pixels.to_vec(), vec![rgb.height as usize, rgb.width as usize, 3]))
            }
        })
    });
    let (pixels, shape) = decoded?.or_raise(py)?;
    Ok(Array::shaped(pixels, "|u1", shape))
}

/// The cut for a box and a size; `None` for the whole image as it is.
fn cut(corners: Option<[i64; 4]>, size: Option<&Sides>) -> Result<Option<Cut>, Error> {
    let size = size.map(Sides::size).transpose()?;
    let Some([left, top, right, bottom]) = corners else { return Ok(size.map(|size| Cut::Whole { size })) };
    if left < 0 || top < 0 || right <= left || bottom <= top {
        return Err(Error::usage(format!(
            "box ({left}, {top}, {right}, {bottom}): it is empty or begins before the image"
        )));
    }
    // No image has so many pixels.
    let number = |number: i64| u32::try_from(number).unwrap_or(u32::MAX);
    let (width, height) = (number(right - left), number(bottom - top));
    let rect = Rect { left: number(left), top: number(top), width, height };
    let size = size.unwrap_or(Size { height, width });
    Ok(Some(Cut::Box { rect, size }))
}

type Pixels = (Vec<u8>, Vec<usize>);

fn part(worker: &mut Worker, options: Options, content: &[u8], table: Option<&[u8]>) -> Result<Pixels, Error> {
    let transform = Transform::new(options).map_err(|unusable| Error::usage(unusable.to_string()))?;
    // Nothing is random.
    let pixels = worker.make(&transform, content, table, 0).map_err(|refused| Error::data(refused.to_string()))?;
    Ok((pixels, transform.shape().to_vec()))
}

/// Make the crop table of a JPEG: where its rows of blocks begin, so that `decode` can decode a part without the codes before it.
///
/// Args:
///     content: JPEG, baseline or extended sequential, in one scan.
///     every: Blocks of pixels (8 or 16 pixels wide) from one entry to the next, 1 to 65,535. With 8, a table is some 2 % of
///         the JPEG.
///
/// Returns:
///     The table. Store it with the JPEG and with a hash of both: a table of other bytes that fits them gives other pixels.
///
/// Raises:
///     DataError: If `content` is no such JPEG, or damaged.
#[pyfunction]
#[pyo3(signature = (content, every=8))]
pub fn crop_table(py: Python<'_>, content: &[u8], every: i64) -> PyResult<Py<PyBytes>> {
    let number = u16::try_from(every).ok().and_then(NonZeroU16::new);
    let every = number.ok_or_else(|| Error::usage(format!("every {every}: 1 to 65535 are possible"))).or_raise(py)?;
    let table = detached(py, || {
        scan(content, every).map_err(|why| {
            let kind = Header::parse(content).kind.name();
            Error::data(format!("no crop table of this {kind}: {why}"))
        })
    });
    Ok(PyBytes::new(py, &table?.or_raise(py)?).unbind())
}

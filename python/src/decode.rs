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

/// Memory for decoding in all threads, in bytes; one image may use all of it.
static BUDGET: LazyLock<Arc<Budget>> = LazyLock::new(|| Arc::new(Budget::new(4 << 30)));

thread_local! {
    static WORKER: RefCell<Worker> = RefCell::new(Worker::within(Limits::default(), Arc::clone(&BUDGET)));
}

/// A size in Python: `(height, width)`, or one number for a square.
#[derive(FromPyObject)]
pub enum Sides {
    Square(u32),
    Both((u32, u32)),
}

impl Sides {
    fn size(&self) -> Size {
        match *self {
            Self::Square(side) => Size::square(side),
            Self::Both((height, width)) => Size { height, width },
        }
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
    r#box: Option<[u32; 4]>,
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
fn cut(corners: Option<[u32; 4]>, size: Option<&Sides>) -> Result<Option<Cut>, Error> {
    let size = size.map(Sides::size);
    let Some([left, top, right, bottom]) = corners else { return Ok(size.map(|size| Cut::Whole { size })) };
    if right <= left || bottom <= top {
        return Err(Error::usage(format!("box ({left}, {top}, {right}, {bottom}): it is empty")));
    }
    let rect = Rect { left, top, width: right - left, height: bottom - top };
    let size = size.unwrap_or(Size { height: rect.height, width: rect.width });
    Ok(Some(Cut::Box { rect, size }))
}

type Pixels = (Vec<u8>, Vec<usize>);

fn part(worker: &mut Worker, options: Options, content: &[u8], table: Option<&[u8]>) -> Result<Pixels, Error> {
    let transform = Transform::new(options).map_err(|unusable| Error::usage(unusable.to_string()))?;
    let mut pixels = vec![0; transform.slot_bytes()];
    // Nothing is random.
    worker.run(&transform, content, table, 0, &mut pixels).map_err(|refused| Error::data(refused.to_string()))?;
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
pub fn crop_table(py: Python<'_>, content: &[u8], every: u16) -> PyResult<Py<PyBytes>> {
    let every = NonZeroU16::new(every).ok_or_else(|| Error::usage("every: at least 1 is possible")).or_raise(py)?;
    let table = detached(py, || {
        scan(content, every).map_err(|why| {
            let kind = Header::parse(content).kind.name();
            Error::data(format!("no crop table of this {kind}: {why}"))
        })
    });
    Ok(PyBytes::new(py, &table?.or_raise(py)?).unbind())
}

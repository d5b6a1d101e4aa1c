//! Transforms encoded images into slots of batches for training: decode, cut, resize, flip, augment, lay out, convert,
//! normalise, erase; then mix the images of a batch.
//!
//! ```
//! use shardpack_imaging::{Limits, training::{Axes, Cut, Dtype, Normalise, Options, Size, Transform, Worker}};
//!
//! let options = Options {
//!     flip: 0.5,
//!     axes: Axes::Chw,
//!     dtype: Dtype::Float32,
//!     normalise: Some(Normalise::IMAGENET),
//!     ..Options::new(Cut::random_resized(Size::square(224)))
//! };
//! let transform = Transform::new(options)?;
//! let mut slot = vec![0; transform.slot_bytes()];
//! # let jpeg = include_bytes!("../../../../fixtures/photos/animals/cat.jpg");
//! // One a thread. The key is the caller's, made of seed, epoch and sample; there is no crop table here.
//! let mut worker = Worker::new(Limits::default());
//! worker.run(&transform, jpeg, None, 7, &mut slot)?;
//! assert_eq!(transform.shape(), [3, 224, 224]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! The transforms match torchvision: the same distribution of boxes, the same rounding, pixels within the tolerance in
//! docs/reference/transforms.md. The output is a function of the bytes, the [`Transform`] and the key.

mod augment;
mod follow;
mod geometry;
mod half;
mod image_traits;
mod mixing;
mod part;
mod random;
mod rotate;
mod shape;
mod slot;
mod transform;
mod worker;

pub use augment::{Adjustment, Erasing, Operation, Range};
pub use geometry::{Geometry, Region};
pub use image_traits::{Oddities, Oddity};
pub use mixing::Mixing;
pub use random::view_key;
pub use shape::{Axes, Dtype, Rect, Size};
pub use transform::{Cut, Filter, Normalise, Options, Padding, Resize, Transform, Unusable};
pub use worker::{Outcome, Rgb, Worker};

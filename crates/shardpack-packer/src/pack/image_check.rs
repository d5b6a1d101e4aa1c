//! Checks every image before it is packed; a damaged image, or a file that is not an image, is refused like an
//! unreadable file.

use shardpack_format::{component, image_header::Kind};
use shardpack_imaging::{self as imaging, Limits, Refused};

use crate::{
    decoding,
    plan::{Check, Plan},
    source::{Look, ReadError, Refusal, SampleReader, Source},
};

/// A check of an image, given its number in the listing and its bytes.
type Asked<'a> = dyn Fn(u64, &[u8]) -> Result<(), ReadError> + Sync + 'a;

/// The check that `plan` needs for the images of `source`; `None` if there is none.
///
/// A dataset, or shards of other tools, declare their images; a file counts as an image by its name.
pub(super) fn asked<'a>(source: &dyn Source, plan: &'a Plan) -> Option<Box<Asked<'a>>> {
    let limits = Limits::default();
    let refused = |number, refused: Refused| {
        decoding::verdict(&refused, || plan.listing.shown(number)).map_or_else(ReadError::Fatal, bad)
    };
    match plan.options.check {
        Check::Full => Some(Box::new(move |number, image| {
            decoding::checked(image, &limits, imaging::check).map(drop).map_err(|why| refused(number, why))
        })),
        Check::Entropy => Some(Box::new(move |number, image| {
            decoding::checked(image, &limits, imaging::check_entropy).map(drop).map_err(|why| refused(number, why))
        })),
        Check::Header if source.is_of_files() && plan.options.format.payload.is_none() => {
            Some(Box::new(|number, image| begins_as_image(plan.listing.name(number), image)))
        }
        Check::Header => None,
    }
}

fn bad(why: String) -> ReadError {
    ReadError::Refused(Refusal(why))
}

/// Fails if a file has an image's extension but does not start as an image.
fn begins_as_image(name: &[u8], bytes: &[u8]) -> Result<(), ReadError> {
    let is_one = |kind: Kind| !matches!(kind, Kind::Unknown | Kind::Npy);
    let extension = name.get(component::stem(name).len() + 1..).unwrap_or_default();
    let called = std::str::from_utf8(extension).ok().and_then(|text| Kind::of_extension(&text.to_ascii_lowercase()));
    match called.is_some_and(is_one) && !is_one(Kind::detect(bytes)) {
        true => Err(bad("no image by its first bytes".to_owned())),
        false => Ok(()),
    }
}

/// A source that checks each image.
pub(super) struct ImageCheck<'a> {
    pub(super) source: Box<dyn SampleReader + 'a>,
    pub(super) asked: &'a Asked<'a>,
}

impl SampleReader for ImageCheck<'_> {
    fn read(&self, number: u64, payload: &mut [u8]) -> Result<(), ReadError> {
        self.source.read(number, payload)?;
        (self.asked)(number, payload)
    }

    fn read_component(&self, number: u64, which: usize, out: &mut [u8]) -> Result<(), ReadError> {
        self.source.read_component(number, which, out)
    }

    fn can_coalesce(&self, first: u64, before: u64, next: u64) -> bool {
        self.source.can_coalesce(first, before, next)
    }

    fn read_batch(&self, numbers: &[u64]) -> Option<Box<dyn SampleReader + '_>> {
        let source = self.source.read_batch(numbers)?;
        Some(Box::new(ImageCheck { source, asked: self.asked }))
    }

    fn concurrency(&self) -> usize {
        self.source.concurrency()
    }

    fn unchanged(&self) -> shardpack_format::Result<()> {
        self.source.unchanged()
    }

    fn peek(&self, number: u64, first: &mut [u8], look: Look) -> Result<Option<usize>, ReadError> {
        self.source.peek(number, first, look)
    }
}

//! Checks every image before it is packed; a damaged image, or a file that is not an image, is refused like an
//! unreadable file.

use shardpack_format::{
    component::{self, Component},
    image_header::Kind,
};
use shardpack_imaging::{self as imaging, Limits, Refused};

use crate::{
    decoding,
    plan::{Check, Plan},
    source::{Look, ReadError, Refusal, SampleReader, Source},
};

/// A check of an image, given its number in the listing, its component if it is no payload, and its bytes.
type Asked<'a> = dyn Fn(u64, Option<usize>, &[u8]) -> Result<(), ReadError> + Sync + 'a;

/// The check that `plan` needs for the images of `source`; `None` if there is none.
///
/// A dataset, or shards of other tools, declare their images; a file counts as an image by its name. A full check also decodes the
/// components that are images, such as masks.
pub(super) fn asked<'a>(source: &dyn Source, plan: &'a Plan) -> Option<Box<Asked<'a>>> {
    let limits = Limits::default();
    let kinds = &plan.listing.components().kinds;
    let is_checked: Vec<bool> = kinds.iter().map(is_image).collect();
    let skips = move |which: Option<usize>| which.is_some_and(|which| !is_checked.get(which).is_some_and(|one| *one));
    let refused = move |number, which: Option<usize>, refused: Refused| {
        let of =
            which.and_then(|which| kinds.get(which)).map_or_else(String::new, |kind| format!("its {}: ", kind.name()));
        decoding::verdict(&refused, || plan.listing.shown(number)).map_or_else(ReadError::Fatal, |why| bad(of + &why))
    };
    let decodes: fn(&[u8], &Limits) -> Result<(), Refused> = match plan.options.check {
        Check::Full => |image, limits| decoding::checked(image, limits, imaging::check).map(drop),
        Check::Entropy => |image, limits| decoding::checked(image, limits, imaging::check_entropy).map(drop),
        Check::Header if source.is_of_files() && plan.options.format.payload.is_none() => {
            return Some(Box::new(|number, which, image| match which {
                None => begins_as_image(plan.listing.name(number), image),
                Some(_) => Ok(()),
            }));
        }
        Check::Header => return None,
    };
    Some(Box::new(move |number, which, image| match skips(which) {
        true => Ok(()),
        false => decodes(image, &limits).map_err(|why| refused(number, which, why)),
    }))
}

/// Whether a component is a file that is an image by its extension.
fn is_image(component: &Component) -> bool {
    let kind = component.name().rsplit('.').next().and_then(Kind::of_extension);
    !component.is_value()
        && !component.is_in_list()
        && kind.is_some_and(|kind| !matches!(kind, Kind::Unknown | Kind::Npy))
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
        (self.asked)(number, None, payload)
    }

    fn read_component(&self, number: u64, which: usize, out: &mut [u8]) -> Result<(), ReadError> {
        self.source.read_component(number, which, out)?;
        (self.asked)(number, Some(which), out)
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

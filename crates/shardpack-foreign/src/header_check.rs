//! Refuses bytes that do not begin like an image although their field has an image name, unless the user named the field.

use shardpack_format::{formats::foreign::Image, hash, image_header};

/// First bytes that a message shows.
const SHOWN_BYTES: usize = 16;

/// The reason why `image`, whose first bytes are `first`, is no image; `None` if it may be one.
pub fn no_image(image: &Image, first: &[u8]) -> Option<String> {
    if image.bytes == 0 || image_header::Kind::detect(first) != image_header::Kind::Unknown {
        return None;
    }
    let shown = hash::hex(&first[..first.len().min(SHOWN_BYTES)]);
    let what = format!("{} bytes that begin like no image: {shown}", image.bytes);
    Some(match image.name.as_str() {
        "" => what,
        name => format!("{name:?} holds {what}; --image-feature takes a field as it is, whatever it holds"),
    })
}

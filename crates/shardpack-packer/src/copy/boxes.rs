//! Makes arrays of boxes from a label file and the size of the image.
//!
//! Objects in the plan are fractions of the image as it is displayed; the boxes are in pixels of the stored image, as decoders return it without
//! applying the Exif orientation.

use shardpack_format::{
    Error,
    component::{Conversion, ObjectArray},
    image_header::Header,
};
use shardpack_imaging::{Limits, Refused, orientation};

use crate::{
    decoding,
    source::{ReadError, Refusal, boxes},
};

/// The size of an image as stored, in pixels, and its Exif orientation.
#[derive(Clone, Copy, Debug)]
pub(super) struct ImageSize {
    width: u32,
    height: u32,
    orientation: u8,
}

impl ImageSize {
    /// # Errors
    /// In a build that cannot read the orientation.
    pub fn parse(image: &[u8]) -> Result<Self, Error> {
        let header = Header::parse(image);
        let orientation = match orientation(image, &Limits::default()) {
            Err(Refused::NoDecodeFeature) => return Err(decoding::no_decode_feature("boxes in pixels")),
            orientation => orientation.unwrap_or(1),
        };
        Ok(Self { width: header.width, height: header.height, orientation })
    }

    /// Writes the array that `conversion` makes of `file` over `content`.
    ///
    /// # Errors
    /// If the size of the image is unknown, or `file` is not the one that was planned.
    pub fn fill(self, conversion: Conversion, file: Option<&[u8]>, content: &mut [u8]) -> Result<(), ReadError> {
        let refused = |why: &str| ReadError::Refused(Refusal(why.to_owned()));
        if self.width == 0 {
            return Err(refused("boxes are in pixels, and the size of the image is unknown"));
        }
        let wrong = || refused("the plan has another number of objects");
        let file = file.ok_or_else(wrong)?;
        let objects = boxes::objects(conversion.file, file, self.displayed()).map_err(|why| refused(&why))?;
        let form = conversion.form(objects.len() as u64).map_err(|_| wrong())?;
        let mut array = form.head();
        for object in objects {
            match conversion.array {
                ObjectArray::Boxes => {
                    self.pixels(object.edges).iter().for_each(|edge| array.extend(edge.to_le_bytes()))
                }
                ObjectArray::Labels => array.extend(object.class.to_le_bytes()),
            }
        }
        if array.len() != content.len() {
            return Err(wrong());
        }
        content.copy_from_slice(&array);
        Ok(())
    }

    /// Width and height of the image as it is displayed.
    fn displayed(self) -> [u32; 2] {
        if self.orientation > 4 { [self.height, self.width] } else { [self.width, self.height] }
    }

    /// Edges in pixels of the stored image: left, top, right, bottom.
    fn pixels(self, [left, top, right, bottom]: [f64; 4]) -> [f32; 4] {
        // Source: CIPA DC-008, "Orientation", as for whole images in shardpack-imaging.
        let [left, top, right, bottom] = match self.orientation {
            2 => [1.0 - right, top, 1.0 - left, bottom],
            3 => [1.0 - right, 1.0 - bottom, 1.0 - left, 1.0 - top],
            4 => [left, 1.0 - bottom, right, 1.0 - top],
            5 => [top, left, bottom, right],
            6 => [top, 1.0 - right, bottom, 1.0 - left],
            7 => [1.0 - bottom, 1.0 - right, 1.0 - top, 1.0 - left],
            8 => [1.0 - bottom, left, 1.0 - top, right],
            _ => [left, top, right, bottom],
        };
        let (width, height) = (f64::from(self.width), f64::from(self.height));
        [left * width, top * height, right * width, bottom * height].map(|edge| edge as f32)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use shardpack_format::component::ObjectFile;

    #[test]
    fn boxes_are_in_pixels_of_the_stored_image() {
        let size = |orientation| ImageSize { width: 200, height: 100, orientation };
        // A box in the upper left corner of the image as displayed.
        let corner = [0.0, 0.0, 0.25, 0.5];
        for (orientation, expected) in [
            (1, [0.0, 0.0, 50.0, 50.0]),
            (2, [150.0, 0.0, 200.0, 50.0]),
            (3, [150.0, 50.0, 200.0, 100.0]),
            (4, [0.0, 50.0, 50.0, 100.0]),
            (5, [0.0, 0.0, 100.0, 25.0]),
            (6, [0.0, 75.0, 100.0, 100.0]),
            (7, [100.0, 75.0, 200.0, 100.0]),
            (8, [100.0, 0.0, 200.0, 25.0]),
        ] {
            assert_eq!(size(orientation).pixels(corner), expected, "{orientation}");
        }
    }

    #[test]
    fn arrays_have_one_row_for_each_object() {
        let size = ImageSize { width: 200, height: 100, orientation: 1 };
        let labels = Conversion { file: ObjectFile::Yolo, array: ObjectArray::Labels };
        let file = Some(&b"3 0.5 0.5 0.5 0.5\n"[..]);
        let mut content = vec![0; labels.form(1).unwrap().head().len() + 8];
        size.fill(labels, file, &mut content).unwrap();
        assert_eq!(content[content.len() - 8..], 3i64.to_le_bytes());
        assert!(size.fill(labels, file, &mut content[1..]).is_err() && size.fill(labels, None, &mut content).is_err());
        let unknown = ImageSize { width: 0, height: 0, orientation: 1 };
        assert!(unknown.fill(labels, file, &mut content).is_err());
    }
}

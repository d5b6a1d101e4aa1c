//! The options that change images on the way.

use clap::{Args, ValueEnum};
use shardpack_packer::{
    Error, Result,
    imaging::{Encode, Recipe, Resize},
    pack::Role,
};

/// How images are changed. Without these, every byte stays.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Changing images")]
pub struct Changes {
    /// Re-encode images that loaders fail on. These are CMYK, 16 bits per channel, GIF, BMP, TIFF, PNM, and files with a wrong
    /// extension
    #[arg(long)]
    fix: bool,
    /// Apply the EXIF orientation to the pixels
    #[arg(long)]
    rotate: bool,
    /// Shorter side in pixels, which never enlarges, or exactly WIDTHxHEIGHT
    #[arg(long, value_name = "SHORT|WxH", value_parser = resize)]
    resize: Option<Resize>,
    /// How --resize and --rotate change a component: mask, xyxy, xywh, cxcywh, xy (points) or keep; may be repeated. Masks in PNG, and
    /// arrays called mask, depth, boxes or keypoints need no role
    #[arg(long, value_name = "NAME=ROLE", value_parser = role)]
    role: Vec<(String, Role)>,
    /// Convert all images to this format
    #[arg(long, value_enum)]
    encode: Option<EncodeArg>,
    /// Quality of written JPEGs [default: 90]
    #[arg(long, value_name = "1-100", value_parser = clap::value_parser!(u8).range(1..=100))]
    quality: Option<u8>,
    /// Drop the colour profile of changed images
    #[arg(long)]
    drop_icc: bool,
    /// Keep the EXIF data of changed images
    #[arg(long)]
    keep_exif: bool,
}

/// `--encode`.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum EncodeArg {
    /// Lossy; alpha is dropped
    Jpeg,
    /// Lossless
    Webp,
    /// Lossless
    Png,
}

impl Changes {
    /// Roles of components, by name.
    pub fn roles(&self) -> &[(String, Role)] {
        &self.role
    }

    /// The recipe for the packer; `None` if no change is requested.
    ///
    /// # Errors
    /// If an option for written images is set and no image is changed.
    pub fn recipe(&self) -> Result<Option<Recipe>> {
        let encode = self.encode.map(|encode| match encode {
            EncodeArg::Jpeg => Encode::Jpeg,
            EncodeArg::Webp => Encode::Webp,
            EncodeArg::Png => Encode::Png,
        });
        let usual = Recipe::default();
        let recipe = Recipe {
            fix: self.fix,
            rotate: self.rotate,
            resize: self.resize,
            encode,
            quality: self.quality.unwrap_or(usual.quality),
            keep_icc: !self.drop_icc,
            keep_exif: self.keep_exif,
        };
        let changes = self.fix || self.rotate || self.resize.is_some() || encode.is_some();
        if !changes && recipe != usual {
            return Err(Error::usage("--quality, --drop-icc and --keep-exif are for images that are changed")
                .help("with --fix, --rotate, --resize or --encode; without these every byte stays"));
        }
        Ok(changes.then_some(recipe))
    }
}

/// Parses `boxes=xyxy`.
fn role(text: &str) -> std::result::Result<(String, Role), String> {
    let (name, role) = text.split_once('=').ok_or_else(|| "write NAME=ROLE, as in boxes=xyxy".to_owned())?;
    Ok((name.to_owned(), role.parse()?))
}

/// Parses `256` or `224x224`.
fn resize(text: &str) -> std::result::Result<Resize, String> {
    let side = |text: &str| text.parse().ok().filter(|side| (1..=65_535).contains(side));
    let resize = match text.split_once('x') {
        None => side(text).map(Resize::Short),
        Some((width, height)) => side(width).zip(side(height)).map(|(width, height)| Resize::Exact { width, height }),
    };
    resize.ok_or_else(|| "write the shorter side, 256, or both, 224x224: 1 to 65535 pixels".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_size_is_a_side_or_two() {
        assert_eq!(resize("256"), Ok(Resize::Short(256)));
        assert_eq!(resize("224x448"), Ok(Resize::Exact { width: 224, height: 448 }));
        for wrong in ["", "0", "x", "224x", "70000", "1x0", "-1", "2x2x2"] {
            assert!(resize(wrong).is_err(), "{wrong}");
        }
    }
}

//! Volumes and their labels: `imagesTr/hip_001.nii.gz` and `labelsTr/hip_001.nii.gz` (Medical Segmentation Decathlon), also with a file for each
//! channel, `imagesTr/hip_001_0000.nii.gz` and `imagesTr/hip_001_0001.nii.gz` (nnU-Net).

use std::collections::BTreeSet;

use shardpack_format::size;

use super::{Found, Look, left_out, on_missing};
use crate::filter;

const IMAGES: &str = "imagesTr";
const LABELS: &str = "labelsTr";
/// Test images, which have no labels.
const TEST: &str = "imagesTs";
/// Ends of the names of volumes: the part that stays in the stem, and the extension.
const ENDS: [(&str, &str); 4] = [(".nii", "gz"), ("", "nii"), ("", "nrrd"), ("", "mha")];
/// The first channel.
const FIRST: &str = "_0000";

pub(super) fn find(look: &Look<'_>) -> Option<Found> {
    let top = look.folders("");
    [IMAGES, LABELS].iter().all(|name| top.iter().any(|own| own == name)).then_some(())?;
    let (images, labels) = (look.files(IMAGES), look.files(LABELS));
    ENDS.into_iter().find_map(|(inner, extension)| {
        let end = format!("{inner}.{extension}");
        let stems = |names: &[String]| -> BTreeSet<String> {
            names.iter().filter_map(|name| name.strip_suffix(end.as_str())).map(str::to_owned).collect()
        };
        let (images, labels) = (stems(&images.0), stems(&labels.0));
        let mut options = vec![("--files", extension.to_owned())];
        let (all, lacking) = if images.intersection(&labels).next().is_some() {
            options.push(("--include", filter::below(IMAGES)));
            options.push(("--with", format!("label=../{LABELS}/*.{extension}")));
            (images.len(), images.difference(&labels).count() as u64)
        } else {
            let channels: BTreeSet<&str> = images.iter().filter_map(|stem| channel(stem)).collect();
            let first: BTreeSet<String> =
                images.iter().filter_map(|stem| stem.strip_suffix(FIRST)).map(str::to_owned).collect();
            let stem = format!("{{stem-{FIRST}{inner}}}");
            options.push(("--include", format!("{IMAGES}/*{FIRST}{end}")));
            options.push(("--with", format!("label=../{LABELS}/{stem}{end}")));
            for (number, channel) in channels.iter().enumerate().skip(1) {
                options.push(("--with", format!("channel{number}={stem}{channel}{end}")));
            }
            let has_all = |case: &&String| {
                labels.contains(*case) && channels.iter().all(|channel| images.contains(&format!("{case}{channel}")))
            };
            (first.len(), (first.len() - first.iter().filter(has_all).count()) as u64)
        };
        if images.is_empty() || labels.is_empty() || lacking == all as u64 {
            return None;
        }
        options.extend(on_missing(lacking));
        let test = if top.iter().any(|own| own == TEST) { look.files(TEST).0.len() as u64 } else { 0 };
        let left = (test > 0).then(|| format!("{} of {TEST}", size::counted(test, "file")));
        let what = format!("volumes in {IMAGES}, and their labels in {LABELS}{}", left_out(left.as_slice()));
        Some(Found::new(what, options, "packs each volume with its files"))
    })
}

/// The channel at the end of a stem: `_0001`.
fn channel(stem: &str) -> Option<&str> {
    let channel = stem.get(stem.len().checked_sub(FIRST.len())?..)?;
    let number = channel.strip_prefix('_')?;
    number.bytes().all(|byte| byte.is_ascii_digit()).then_some(channel)
}

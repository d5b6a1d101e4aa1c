//! Frames of videos: `MOT17-02/img1/000001.jpg` with `MOT17-02/gt/gt.txt` (MOT Challenge), `GOT-10k_Train_000001/00000001.jpg` with
//! `groundtruth.txt` beside it. Below splits, too.
//!
//! A video is no class. Its texts have a line for each object or frame, and are left out.

use super::{Found, Look, MAX_SPLITS, counterparts::join};
use crate::filter;

/// Texts of a video, beside its frames or above them.
const TEXTS: [&str; 5] = ["seqinfo.ini", "gt/gt.txt", "det/det.txt", "groundtruth.txt", "groundtruth_rect.txt"];

pub(super) fn find(look: &Look<'_>) -> Option<Found> {
    let splits = look.split_folders();
    let above = splits.clone().unwrap_or_else(|| vec![String::new()]);
    let videos: Vec<String> = above
        .iter()
        .flat_map(|folder| look.folders(folder).into_iter().take(MAX_SPLITS).map(move |name| join(folder, &name)))
        .collect();
    let texts =
        |video: &String| -> Vec<&str> { TEXTS.into_iter().filter(|text| has_file(look, video, text)).collect() };
    let first = videos.first().map(texts).filter(|texts| !texts.is_empty() && videos.len() > 1)?;
    let inner = inner_folder(look, &videos[0])?;
    let is_video = |video: &String| !texts(video).is_empty() && inner_folder(look, video).as_ref() == Some(&inner);
    if !videos.iter().all(is_video) {
        return None;
    }
    let mut options = Vec::new();
    options.extend(splits.map(|splits| ("--splits", splits.join(","))));
    options.extend((!inner.is_empty()).then(|| ("--include", format!("*/{}", filter::below(&inner)))));
    let what =
        format!("folders of frames of videos, which are no classes; their files {} are left out", first.join(", "));
    Some(Found::new(what, options, "packs each frame without a class"))
}

/// The folder of a video with all its frames; empty if they are right in the folder of the video.
fn inner_folder(look: &Look<'_>, video: &str) -> Option<String> {
    if !look.files(video).images().is_empty() {
        return Some(String::new());
    }
    let mut with_images =
        look.folders(video).into_iter().filter(|name| !look.files(&join(video, name)).images().is_empty());
    with_images.next().filter(|_| with_images.next().is_none())
}

fn has_file(look: &Look<'_>, video: &str, path: &str) -> bool {
    let (folder, name) = path.rsplit_once('/').unwrap_or(("", path));
    look.files(&join(video, folder)).0.iter().any(|file| file == name)
}

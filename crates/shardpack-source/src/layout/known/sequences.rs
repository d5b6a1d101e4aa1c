//! Frames of videos: `MOT17-02/img1/000001.jpg` with `MOT17-02/gt/gt.txt` (MOT Challenge), `GOT-10k_Train_000001/00000001.jpg` with
//! `groundtruth.txt` beside it. Below splits, too.
//!
//! A video is no class. Its texts have a line for each object or frame; samples have none of them.

use super::{Found, Look, MAX_SPLITS, counterparts::join, look::READ_BYTES};
use crate::filter;

/// Texts of the videos of MOT Challenge.
const OF_SEQUENCE: [&str; 3] = ["seqinfo.ini", "gt/gt.txt", "det/det.txt"];
/// Texts with a line for each frame.
const OF_FRAMES: [&str; 2] = ["groundtruth.txt", "groundtruth_rect.txt"];
/// Share of the videos that have a text, in percent.
const MOST: usize = 75;

pub(super) fn find(look: &Look<'_>) -> Option<Found> {
    if !look.splits.is_empty() {
        return None;
    }
    let splits = look.split_folders();
    let above = splits.clone().unwrap_or_else(|| vec![String::new()]);
    let videos: Vec<String> = above
        .iter()
        .flat_map(|folder| look.folders(folder).into_iter().take(MAX_SPLITS).map(move |name| join(folder, &name)))
        .collect();
    let texts: Vec<&str> = videos.iter().filter_map(|video| text(look, video)).collect();
    let first = texts.first().filter(|_| videos.len() > 1)?;
    let inner = inner_folder(look, &videos[0])?;
    let are_alike = videos.iter().all(|video| inner_folder(look, video).as_ref() == Some(&inner));
    if !are_alike || texts.len() * 100 < videos.len() * MOST {
        return None;
    }
    let mut options = Vec::new();
    options.extend(splits.map(|splits| ("--splits", splits.join(","))));
    options.extend((!inner.is_empty()).then(|| ("--include", format!("*/{}", filter::below(&inner)))));
    let what = format!("folders of frames of videos, which are no classes; their texts, such as {first}, are left out");
    Some(Found::new(what, options, "packs each frame without a class"))
}

/// The name of the text of a video: one of MOT Challenge, or one with a line for each frame. Frames are numbered.
fn text(look: &Look<'_>, video: &str) -> Option<&'static str> {
    let has = |path: &&str| look.has_file(video, path);
    let is_of_frames = |path: &str| {
        let frames = look.files(&join(video, &inner_folder(look, video)?));
        let images = frames.images();
        let are_numbered = images.iter().all(|stem| stem.bytes().all(|byte| byte.is_ascii_digit()));
        let start = look.start(&join(video, path));
        let lines = start.split(|byte| *byte == b'\n').filter(|line| !line.trim_ascii().is_empty()).count();
        let is_whole = (start.len() as u64) < READ_BYTES;
        Some(are_numbered && images.len() > 1 && (!is_whole || lines == images.len()))
    };
    let of_frames = || OF_FRAMES.into_iter().find(|path| has(path) && is_of_frames(path) == Some(true));
    OF_SEQUENCE.into_iter().find(has).or_else(of_frames)
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

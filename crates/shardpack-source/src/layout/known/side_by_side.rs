//! Two folders with the same subfolders: `images/training` and `annotations/training`, as ADE20K has them.

use shardpack_format::component::Component;

use super::{Found, Look, counterparts::with_classes, on_missing, stem};
use crate::layout::pairs;

pub(super) fn find(look: &Look<'_>) -> Option<Found> {
    let top = look.folders("");
    let names: Vec<&[u8]> = top.iter().map(String::as_bytes).collect();
    let text = |name: &[u8]| String::from_utf8_lossy(name).into_owned();
    pairs::called_so(&names).into_iter().find_map(|[a, b]| {
        let [images, beside] = pairs::images_first([a, b]);
        both(look, &text(images), &text(beside))
    })
}

fn both(look: &Look<'_>, images: &str, beside: &str) -> Option<Found> {
    let inner = look.folders(images);
    let (mut extension, mut all_lacking) = (None::<String>, 0);
    for name in &inner {
        let (files, others) = (look.files(&format!("{images}/{name}")), look.files(&format!("{beside}/{name}")));
        let own = files.images();
        let first = || others.0.iter().find(|file| own.contains(stem(file))).and_then(|file| file.rsplit_once('.'));
        if extension.is_none() {
            extension = first().map(|(_, extension)| extension.to_owned());
        }
        all_lacking += files.pairs(&others.stems(extension.as_deref().unwrap_or_default())).1;
    }
    let extension = extension?;
    let with = format!("{}=../../{beside}/{{parent}}/*.{extension}", pairs::component_of(beside));
    Component::files(&with).ok()?;
    let mut options = vec![look.folders_option(images, &inner), ("--with", with)];
    options.extend(on_missing(all_lacking));
    let what =
        format!("{images} and {beside} have the same folders and files of the same names: pairs, and no classes");
    let other = with_classes(look, images, &inner, &options);
    Some(Found { other, ..Found::new(what, options, "packs each image with its file") })
}

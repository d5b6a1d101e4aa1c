//! Images and their files in folders whose names have the split: `train_images` and `train_masks`, `train` and `train_masks` (Carvana), `trainA`
//! and `trainB`, `DIV2K_train_HR` and `DIV2K_train_LR_bicubic/X4`.

use std::collections::BTreeMap;

use shardpack_format::{size, splits};

use super::{
    Found, Look, MAX_SPLITS,
    counterparts::{Images, add, component},
    left_out, on_missing,
    relation::Beside,
};
use crate::layout::pairs;

/// Words that stand for splits, the longer ones first.
const WORDS: [&str; 9] = ["trainval", "training", "train", "validation", "valid", "val", "testing", "test", "eval"];

/// The text before and after the split in the name of a folder.
type Form = (String, String);

pub(super) fn find(look: &Look<'_>) -> Option<Found> {
    let top = look.folders("");
    if top.len() > MAX_SPLITS {
        return None;
    }
    let mut forms = BTreeMap::<Form, Vec<String>>::new();
    for (form, split) in top.iter().filter_map(|name| taken_apart(name)) {
        forms.entry(form).or_default().push(split);
    }
    let name = |(before, after): &Form, split: &str| format!("{before}{split}{after}");
    for (a, of_a) in &forms {
        for (b, of_b) in forms.iter().filter(|(b, _)| *b > a) {
            let Some(split) = of_a.iter().find(|split| of_b.contains(split)) else { continue };
            let names = [name(a, split), name(b, split)];
            let are_a_and_b = a.0 == b.0 && [a.1.as_str(), b.1.as_str()] == ["A", "B"];
            let pair = [names[0].as_bytes(), names[1].as_bytes()];
            if !are_a_and_b && pairs::called_so(&pair).is_empty() {
                continue;
            }
            let is_first = pairs::images_first(pair)[0] == names[0].as_bytes();
            let (images, beside) = if is_first { (a, b) } else { (b, a) };
            if let Some(found) = pair_of(look, &top, images, &forms[images], beside) {
                return Some(found);
            }
        }
    }
    None
}

/// The name without its split word, and this word.
fn taken_apart(name: &str) -> Option<(Form, String)> {
    let lower = name.to_ascii_lowercase();
    WORDS.iter().find_map(|word| {
        let at = lower.find(word)?;
        let (before, rest) = name.split_at(at);
        let (split, after) = rest.split_at(word.len());
        let is_letter = |letter: char| letter.is_alphabetic();
        // `trainA`: a capital begins a word.
        let is_word = !before.ends_with(is_letter) && !after.starts_with(|letter: char| letter.is_lowercase());
        (is_word && splits::check_name(split).is_ok())
            .then(|| ((before.to_owned(), after.to_owned()), split.to_owned()))
    })
}

/// The name of a folder `beside` in a pattern, from the name of the folder of the image.
fn beside_in_pattern(images: &Form, beside: &Form) -> Option<String> {
    let parent = |cut: &str| if cut.is_empty() { "{parent}".to_owned() } else { format!("{{parent-{cut}}}") };
    match (images, beside) {
        ((a, end), (b, after)) if a == b => Some(format!("{}{after}", parent(end))),
        ((start, a), (before, b)) if a == b => Some(format!("{before}{}", parent(start))),
        ((a, b), (before, after)) if a.is_empty() && b.is_empty() => Some(format!("{before}{{parent}}{after}")),
        _ => None,
    }
}

/// Whether the folders of these names hold only a folder of their own name, as archives that are unpacked into a folder do; `None` if some do.
fn are_doubled(look: &Look<'_>, names: &[String]) -> Option<bool> {
    let is_doubled = |name: &String| look.folders(name) == [name.as_str()] && look.files(name).images().is_empty();
    let doubled = names.iter().filter(|name| is_doubled(name)).count();
    (doubled == 0 || doubled == names.len()).then_some(doubled > 0)
}

fn pair_of(look: &Look<'_>, top: &[String], images: &Form, of_images: &[String], beside: &Form) -> Option<Found> {
    let name = |(before, after): &Form, split: &str| format!("{before}{split}{after}");
    let names = |form: &Form| of_images.iter().map(|split| name(form, split)).collect::<Vec<_>>();
    let existing: Vec<String> = names(beside).into_iter().filter(|name| top.contains(name)).collect();
    let (is_image_inner, is_other_inner) = (are_doubled(look, &names(images))?, are_doubled(look, &existing)?);
    let inner = |is_inner: bool, name: String| if is_inner { format!("{name}/{name}") } else { name };
    let path = inner(is_other_inner, beside_in_pattern(images, beside)?);
    let path = if is_image_inner { format!("../{path}") } else { path };
    let places = names(images).into_iter().map(|name| (inner(is_image_inner, name), String::new())).collect();
    let found = Images::find(look, places)?;
    let folders: Vec<String> = names(beside).into_iter().map(|name| inner(is_other_inner, name)).collect();
    // Other folders of images would be splits.
    let is_open = images.0.is_empty() && images.1.is_empty();
    let is_known = |one: &&String| existing.contains(one) || of_images.contains(one);
    let has_images = |one: &String| look.has_images(one, usize::from(is_image_inner));
    if found.is_nested() || is_open && top.iter().filter(|one| !is_known(one)).any(has_images) {
        return None;
    }
    let both = if images.0 == beside.0 { beside.1.clone() } else { format!("{}{}", beside.0, beside.1) };
    let above = if is_image_inner { "*/" } else { "" };
    let mut options = vec![("--splits", format!("{above}{}", name(images, "{split}")))];
    let unpaired = add(&mut options, found.with(look, &folders, &path, &component(&both), Beside::Pair));
    (options.len() > 1).then_some(())?;
    options.extend(on_missing(unpaired.lacking));
    let (first, other) = of_images
        .iter()
        .map(|split| (name(images, split), name(beside, split)))
        .find(|(_, other)| top.contains(other))?;
    let without = of_images.iter().filter(|split| !top.contains(&name(beside, split)));
    let without: Vec<String> = without.map(|split| name(images, split)).collect();
    let lacking = if without.is_empty() { String::new() } else { format!("; {} has none", without.join(", ")) };
    let left = (unpaired.files > 0).then(|| format!("{} of {other}", size::counted(unpaired.files, "file")));
    let left_out = left_out(left.as_slice());
    let what = format!("splits of pairs: the files in {other} belong to the images in {first}{lacking}{left_out}");
    Some(Found::new(what, options, "packs each image with its files"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn splits_are_words_in_names() {
        for (name, expected) in [
            ("train", Some(("", "train", ""))),
            ("train_images", Some(("", "train", "_images"))),
            ("trainA", Some(("", "train", "A"))),
            ("DIV2K_valid_LR_bicubic", Some(("DIV2K_", "valid", "_LR_bicubic"))),
            ("images-Test", Some(("images-", "Test", ""))),
            ("trains", None),
            ("contest", None),
            ("valley", None),
        ] {
            let found = taken_apart(name);
            let found =
                found.as_ref().map(|((before, after), split)| (before.as_str(), split.as_str(), after.as_str()));
            assert_eq!(found, expected, "{name}");
        }
    }
}

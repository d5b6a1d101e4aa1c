//! Sounds and their texts in folders side by side: `wavs/1.wav` and `txt/1.txt`; or by speaker, as VCTK has them: `wav48/p225/p225_001.wav` and
//! `txt/p225/p225_001.txt`.

use shardpack_format::component::Component;

use super::{
    Found, Look,
    counterparts::{component, join},
    on_missing,
    relation::{self, Group},
    stem,
};
use crate::{filter, names::SOUNDS};

/// Extensions of texts about a sound.
const TEXTS: [&str; 5] = ["txt", "lab", "json", "TextGrid", "srt"];
/// Most folders side by side: more are classes.
const MAX_FOLDERS: usize = 8;
/// Most speakers.
const MAX_SPEAKERS: usize = 4096;

pub(super) fn find(look: &Look<'_>) -> Option<Found> {
    match look.split_folders_of(|folder| !look.folders(folder).is_empty()) {
        Some(splits) => below(look, &splits),
        None => below(look, &[String::new()]),
    }
}

/// The layout of the folders in `above`: splits, or the source.
fn below(look: &Look<'_>, above: &[String]) -> Option<Found> {
    let names = look.folders(&above[0]);
    if names.len() < 2 || names.len() > MAX_FOLDERS {
        return None;
    }
    let (sounds, (extension, speakers)) =
        names.iter().find_map(|name| Some((name, sounds_in(look, &above[0], name)?)))?;
    let up = if speakers[0].is_empty() { ".." } else { "../.." };
    // Splits have speakers of their own.
    let places: Vec<(&String, String)> = match speakers[0].is_empty() {
        true => above.iter().map(|folder| (folder, String::new())).collect(),
        false => {
            let speakers = |folder: &String| look.folders(&join(folder, sounds));
            let all =
                above.iter().flat_map(|folder| speakers(folder).into_iter().map(move |speaker| (folder, speaker)));
            all.take(MAX_SPEAKERS).collect()
        }
    };
    let (mut with, mut all_lacking, mut others_have_sounds) = (Vec::new(), 0, false);
    for other in names.iter().filter(|name| *name != sounds) {
        others_have_sounds |= sounds_in(look, &above[0], other).is_some();
        let group = |(folder, speaker): &(&String, String)| -> Group {
            let own = look.files(&join(&join(folder, sounds), speaker)).0;
            let own = own.iter().filter(|name| name.ends_with(extension)).map(|name| stem(name).to_owned());
            let texts = look.files(&join(&join(folder, other), speaker)).0.into_iter();
            let is_text = |name: &String| TEXTS.iter().any(|extension| name.ends_with(&format!(".{extension}")));
            (own.collect(), texts.filter(is_text).collect())
        };
        let Some(found) = relation::find(&places.iter().map(group).collect::<Vec<_>>()) else { continue };
        let below = if speakers[0].is_empty() { "" } else { "{parent}/" };
        let value = format!("{}={up}/{other}/{below}{}", component(other), found.pattern);
        if Component::with(&value).is_ok() {
            with.push(("--with", value));
            all_lacking += found.lacking;
        }
    }
    let what = format!("sounds in {sounds}, and their texts beside it");
    let mut options = vec![("--files", extension.to_owned())];
    if !above[0].is_empty() {
        options.push(("--splits", above.join(",")));
    }
    if others_have_sounds {
        options.push(("--include", filter::below(sounds)));
    }
    let is_any = !with.is_empty();
    options.extend(with);
    options.extend(on_missing(all_lacking));
    is_any.then(|| Found::new(what, options, "packs each sound with its text"))
}

/// The extension of the sounds in the folder `name` of `above`, if it has nothing else, and the folders of its speakers; one empty name if the
/// sounds are right in it.
fn sounds_in(look: &Look<'_>, above: &str, name: &str) -> Option<(&'static str, Vec<String>)> {
    let folder = join(above, name);
    let only = |folder: &str| {
        let files = look.files(folder);
        let is_it = |extension: &&&str| {
            let of_it = files.stems(extension).len();
            of_it > 0 && of_it == files.0.len()
        };
        SOUNDS.iter().find(is_it).copied()
    };
    if let Some(extension) = only(&folder) {
        return Some((extension, vec![String::new()]));
    }
    let speakers = look.folders(&folder);
    let extension = only(&join(&folder, speakers.first()?))?;
    Some((extension, speakers))
}

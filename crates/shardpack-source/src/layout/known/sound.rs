//! Sounds and their texts in folders side by side: `wavs/1.wav` and `txt/1.txt`; or by speaker, as VCTK has them: `wav48/p225/p225_001.wav` and
//! `txt/p225/p225_001.txt`.

use shardpack_format::component::Component;

use super::{
    Found, Look,
    counterparts::{component, join},
    look::has_extension,
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

/// The layout of the folders in `above`: splits, or the source. Sounds right in a folder go before those of speakers.
fn below(look: &Look<'_>, above: &[String]) -> Option<Found> {
    let names = look.folders(&above[0]);
    if names.len() < 2 || names.len() > MAX_FOLDERS {
        return None;
    }
    let mut all: Vec<(&String, Sounds)> =
        names.iter().filter_map(|name| Some((name, sounds_in(look, &above[0], name)?))).collect();
    all.sort_by_key(|(_, sounds)| sounds.are_by_speaker);
    let several = all.len() > 1;
    all.into_iter().find_map(|(name, sounds)| beside(look, above, (name, &sounds), several))
}

/// The layout with the sounds in folders called `name`, if folders beside them have their texts.
fn beside(look: &Look<'_>, above: &[String], (name, sounds): (&String, &Sounds), several: bool) -> Option<Found> {
    // Splits have speakers of their own.
    let places: Vec<(&String, String)> = match sounds.are_by_speaker {
        false => above.iter().map(|folder| (folder, String::new())).collect(),
        true => {
            let speakers = |folder: &String| look.folders(&join(folder, name));
            let all =
                above.iter().flat_map(|folder| speakers(folder).into_iter().map(move |speaker| (folder, speaker)));
            all.take(MAX_SPEAKERS).collect()
        }
    };
    let (up, inner) = if sounds.are_by_speaker { ("../..", "{parent}/") } else { ("..", "") };
    let (mut with, mut lacking, mut include) = (Vec::new(), u64::from(places.len() == MAX_SPEAKERS), None);
    for other in look.folders(&above[0]).iter().filter(|other| *other != name) {
        let group = |(folder, speaker): &(&String, String)| -> Group {
            let own = look.files(&join(&join(folder, name), speaker)).0;
            let own = own.iter().filter(|name| name.ends_with(sounds.extension)).map(|name| stem(name).to_owned());
            let texts = look.files(&join(&join(folder, other), speaker)).0.into_iter();
            let is_text = |name: &String| TEXTS.iter().any(|extension| has_extension(name, extension));
            (own.collect(), texts.filter(is_text).collect())
        };
        let groups: Vec<Group> = places.iter().map(group).collect();
        let Some(found) = relation::find(&groups, relation::Beside::Known) else { continue };
        let value = format!("{}={up}/{other}/{inner}{}", component(other), found.pattern);
        if Component::with(&value).is_ok() {
            with.push(("--with", value));
            // Of several microphones, only one has texts.
            let end = found.pattern.split_once("{stem-").and_then(|(_, rest)| rest.split_once('}')).map(|(end, _)| end);
            let with_end =
                |end: &str| groups.iter().flat_map(|(own, _)| own).filter(|stem| stem.ends_with(end)).count();
            let all: usize = groups.iter().map(|(own, _)| own.len()).sum();
            match end.map(|end| (end, with_end(end))) {
                Some((end, count)) if (all - count) as u64 == found.lacking && found.lacking > 0 => {
                    include = Some(format!("**/*{}.{}", globset::escape(end), sounds.extension));
                }
                _ => lacking += found.lacking,
            }
        }
    }
    let others = if include.is_some() { "; sounds of other names have no text" } else { "" };
    let what = format!("sounds in {name}, and their texts beside it{others}");
    let mut options = vec![("--files", sounds.extension.to_owned())];
    if !above[0].is_empty() {
        options.push(("--splits", above.join(",")));
    }
    options.extend(include.or_else(|| several.then(|| filter::below(name))).map(|glob| ("--include", glob)));
    let is_any = !with.is_empty();
    options.extend(with);
    options.extend(on_missing(lacking));
    is_any.then(|| Found::new(what, options, "packs each sound with its text"))
}

/// Sounds in a folder.
struct Sounds {
    extension: &'static str,
    /// Whether they are in folders of it.
    are_by_speaker: bool,
}

/// The sounds in the folder `name` of `above`, if it has nothing else.
fn sounds_in(look: &Look<'_>, above: &str, name: &str) -> Option<Sounds> {
    let folder = join(above, name);
    let only = |folder: &str| {
        let files = look.files(folder);
        let is_it = |extension: &&&str| {
            let of_it = files.stems(extension).len();
            of_it > 0 && of_it == files.0.len()
        };
        SOUNDS.iter().find(is_it).copied()
    };
    let of_speaker = || only(&join(&folder, look.folders(&folder).first()?));
    let right_in = only(&folder).map(|extension| Sounds { extension, are_by_speaker: false });
    right_in.or_else(|| of_speaker().map(|extension| Sounds { extension, are_by_speaker: true }))
}

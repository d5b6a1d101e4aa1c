//! Sounds and their texts in folders side by side: `wavs/1.wav` and `txt/1.txt`.

use shardpack_format::component::Component;

use super::{
    Found, Look,
    counterparts::{component, join},
    on_missing,
    relation::{self, Group},
    stem,
};
use crate::names::SOUNDS;

/// Extensions of texts about a sound.
const TEXTS: [&str; 5] = ["txt", "lab", "json", "TextGrid", "srt"];
/// Most folders side by side: more are classes.
const MAX_FOLDERS: usize = 8;

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
    let (sounds, extension) = names.iter().find_map(|name| {
        let files = look.files(&join(&above[0], name));
        let is_it = |extension: &&&str| {
            let of_it = files.stems(extension).len();
            of_it > 0 && of_it == files.0.len()
        };
        SOUNDS.iter().find(is_it).map(|extension| (name, *extension))
    })?;
    let (mut with, mut all_lacking) = (Vec::new(), 0);
    for other in names.iter().filter(|name| *name != sounds) {
        let group = |folder: &String| -> Group {
            let own = look.files(&join(folder, sounds)).0;
            let own = own.iter().filter(|name| name.ends_with(extension)).map(|name| stem(name).to_owned());
            let texts = look.files(&join(folder, other)).0.into_iter();
            let is_text = |name: &String| TEXTS.iter().any(|extension| name.ends_with(&format!(".{extension}")));
            (own.collect(), texts.filter(is_text).collect())
        };
        let Some(found) = relation::find(&above.iter().map(group).collect::<Vec<_>>()) else { continue };
        let value = format!("{}=../{other}/{}", component(other), found.pattern);
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
    let is_any = !with.is_empty();
    options.extend(with);
    options.extend(on_missing(all_lacking));
    is_any.then(|| Found::new(what, options, "packs each sound with its text"))
}

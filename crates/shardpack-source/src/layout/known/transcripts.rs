//! Sounds with the texts of a folder in one file, as LibriSpeech has them: `dev-clean/84/121123/84-121123.trans.txt` with lines `ID TEXT`.

use shardpack_format::{shell, splits};

use super::{super::Likeness, Found, Look, MAX_SPLITS, counterparts::join};
use crate::{list::anywhere, names::SOUNDS};

/// End of the names of the files of texts.
const TEXTS: &str = ".trans.txt";
/// Most levels of folders above the sounds, and most folders of a level that are looked into.
const MAX_DEPTH: usize = 4;
const MAX_LOOKED: usize = 4;
/// End of the names of the lists that the command makes.
const LIST: &str = ".texts.txt";

pub(super) fn find(look: &Look<'_>) -> Option<Found> {
    // The only folder is looked at by itself.
    if look.only_folder().is_some() {
        return None;
    }
    let top = look.folders("");
    let levels_of = |folder: &String| levels(look, folder, MAX_DEPTH);
    // Each look is folders to read, and there may be 100,000 classes.
    if !top.iter().take(MAX_SPLITS).any(|folder| levels_of(folder).is_some()) {
        return None;
    }
    let (splits, others): (Vec<&String>, Vec<&String>) = top.iter().partition(|folder| levels_of(folder).is_some());
    let is_split =
        |folder: &&String| Likeness::classify(folder.as_bytes()).word().is_some() && splits::check_name(folder).is_ok();
    let has_splits = !splits.is_empty() && splits.iter().all(is_split);
    // `awk 1` ends the last line of a file that has no end.
    let list = |folder: &str, name: &str| {
        let (path, below) = (look.path(folder), "/*".repeat(levels(look, folder, MAX_DEPTH)?));
        Some(format!("awk 1 {}{below}/*{TEXTS} > {name}", shell::path(&path)))
    };
    let (mut steps, mut sources, mut what) = (Vec::new(), Vec::new(), String::new());
    if has_splits {
        for split in &splits {
            let name = format!("{split}{LIST}");
            steps.push(list(split, &shell::word(&name).to_string())?);
            sources.push(format!("--split {}", shell::word(format!("{split}={name}"))));
        }
        if !others.is_empty() {
            let others: Vec<&str> = others.into_iter().map(String::as_str).collect();
            what = format!("; none are in {}", others.join(", "));
        }
    } else {
        let name = format!("all{LIST}");
        steps.push(list("", &name)?);
        sources.push(name);
    }
    let (sources, root) = (sources.join(" "), shell::path(anywhere(&look.path(""))).to_string());
    steps.push(format!("shardpack pack {sources} DST --root {root} --no-labels"));
    let what = format!("sounds, and the texts of each folder in a file *{TEXTS}{what}");
    let found = Found::new(what, Vec::new(), "packs each sound with its text");
    Some(Found { command: Some(steps.join(" && ")), ..found })
}

/// Levels of folders below `folder` above sounds with such a file, by the first folders that have one.
fn levels(look: &Look<'_>, folder: &str, most: usize) -> Option<usize> {
    let files = look.files(folder);
    if let Some(texts) = files.0.iter().find(|name| name.ends_with(TEXTS)) {
        let text = look.start(&join(folder, texts));
        let id = String::from_utf8(text.split(u8::is_ascii_whitespace).next()?.to_vec()).ok()?;
        return SOUNDS.iter().any(|sound| files.stems(sound).contains(id.as_str())).then_some(0);
    }
    let most = most.checked_sub(1)?;
    let mut inner = look.folders(folder).into_iter().take(MAX_LOOKED);
    inner.find_map(|name| levels(look, &join(folder, &name), most)).map(|levels| levels + 1)
}

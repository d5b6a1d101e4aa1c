//! Sounds with the texts of a folder in one file, as LibriSpeech has them: `dev-clean/84/121123/84-121123.trans.txt` with lines `ID TEXT`.

use shardpack_format::shell;

use super::{Found, Look, counterparts::join};
use crate::{list::anywhere, names::SOUNDS};

/// End of the names of the files of texts.
const TEXTS: &str = ".trans.txt";
/// Most levels of folders above the sounds.
const MAX_DEPTH: usize = 4;

pub(super) fn find(look: &Look<'_>) -> Option<Found> {
    let splits = look.split_folders_of(|folder| levels(look, folder).is_some());
    let list = |folder: &str, name: &str| {
        let (path, below) = (look.path(folder), "/*".repeat(levels(look, folder)?));
        Some(format!("cat {}{below}/*{TEXTS} > {name}", shell::path(&path)))
    };
    let (mut steps, mut sources) = (Vec::new(), Vec::new());
    for split in splits.iter().flatten() {
        let name = format!("{split}.txt");
        steps.extend(list(split, &shell::word(&name).to_string()));
        sources.push(format!("--split {}", shell::word(format!("{split}={name}"))));
    }
    if splits.is_none() {
        steps.push(list("", "texts.txt")?);
        sources.push("texts.txt".to_owned());
    }
    let (sources, root) = (sources.join(" "), shell::path(anywhere(&look.path(""))).to_string());
    steps.push(format!("shardpack pack {sources} DST --root {root} --no-labels"));
    let what = format!("sounds, and the texts of each folder in a file *{TEXTS}");
    let found = Found::new(what, Vec::new(), "packs each sound with its text");
    Some(Found { command: Some(steps.join(" && ")), ..found })
}

/// Levels of folders below `folder` above sounds with such a file, by its first folders.
fn levels(look: &Look<'_>, folder: &str) -> Option<usize> {
    let mut folder = folder.to_owned();
    for level in 0..MAX_DEPTH {
        let files = look.files(&folder);
        if let Some(texts) = files.0.iter().find(|name| name.ends_with(TEXTS)) {
            let text = look.start(&join(&folder, texts));
            let id = String::from_utf8(text.split(u8::is_ascii_whitespace).next()?.to_vec()).ok()?;
            return SOUNDS.iter().any(|sound| files.stems(sound).contains(id.as_str())).then_some(level);
        }
        folder = join(&folder, look.folders(&folder).first()?);
    }
    None
}

//! Checks the English of pages: paraphrases and long sentences.
//!
//! Counts per 1,000 words of prose; code blocks, tables and indented lines are no prose. Pages that are not yet written this way are not
//! in [`PAGES`]: a page joins the list when it is rewritten, and none leaves it.

use crate::{
    Result,
    command::{read, root},
};

/// Pages that are checked.
const PAGES: [&str; 10] = [
    "README.md",
    "python/README.md",
    "docs/how-to/convert.md",
    "docs/index.md",
    "docs/how-to/object-stores.md",
    "docs/how-to/selection.md",
    "docs/how-to/sources.md",
    "docs/start/ten-minutes.md",
    "docs/how-to/training.md",
    "docs/how-to/verify.md",
];
/// Words in a long sentence, and in one that is too long anywhere.
const LONG: usize = 30;
const TOO_LONG: usize = 40;
/// Most long sentences in a hundred.
const LONG_PERCENT: usize = 3;
/// Sentences that are shown, the worst first.
const SHOWN: usize = 10;

/// Paraphrases: a name, words that begin one, and how many 1,000 words may have.
const PARAPHRASES: [(&str, &[&str], f64); 3] = [
    ("what", &["what"], 4.0),
    ("of which", &["of which", "of what", "of whose", "of those", "of it", "of them", "of that"], 2.5),
    ("told, said, asked", &["told", "tells", "tell", "said", "says", "asked", "asks"], 1.5),
];
/// Phrases that the field has a word for.
const AVOIDED: [(&str, &str); 14] = [
    ("goes on", "resumes"),
    ("go on in", "resume in"),
    ("found out", "detected"),
    ("is told", "is reported"),
    ("take turns", "are limited by"),
    ("what becomes of", "name the result"),
    ("says it", "sets it"),
    ("there are none that", "no"),
    ("such as are", "name them"),
    ("makes its way", "is copied"),
    ("by looking", "detected"),
    ("from nothing", "from scratch"),
    ("at the same time as", "while"),
    ("in the midst of", "mid-"),
];

/// `check`'s step: every page of [`PAGES`].
pub fn check() -> Result<()> {
    let pages = PAGES.iter().map(|page| Ok((*page, prose(&read(&root().join(page))?))));
    let pages: Vec<(&str, String)> = pages.collect::<Result<_>>()?;
    let wrong = judge(&pages);
    match wrong.is_empty() {
        true => Ok(()),
        false => Err(wrong.join("\n")),
    }
}

/// The prose of a page.
fn prose(page: &str) -> String {
    let (mut text, mut in_block) = (String::new(), false);
    for line in page.lines() {
        if line.starts_with("```") {
            in_block = !in_block;
        } else if !in_block && !line.starts_with('|') && !line.starts_with("    ") {
            text += line;
        }
        text.push('\n');
    }
    text
}

/// The problems of these pages, one line each.
fn judge(pages: &[(&str, String)]) -> Vec<String> {
    let (mut words, mut wrong, mut sentences) = (0, Vec::new(), Vec::new());
    let mut counts = [0usize; PARAPHRASES.len()];
    for (page, text) in pages {
        words += text.split_whitespace().filter(|word| word.contains(char::is_alphabetic)).count();
        let flat = text.to_lowercase();
        for (phrase, instead) in AVOIDED.iter().filter(|(phrase, _)| count(&flat, phrase) > 0) {
            wrong.push(format!("{page}: {phrase:?}: write {instead:?}"));
        }
        for sentence in split(text) {
            let (length, paraphrases) = (sentence.split_whitespace().count(), paraphrases(&sentence));
            counts.iter_mut().zip(paraphrases).for_each(|(all, own)| *all += own);
            if length > TOO_LONG {
                wrong.push(format!("{page}: a sentence of {length} words: {sentence}"));
            }
            sentences.push((length + 10 * paraphrases.iter().sum::<usize>(), length, *page, sentence));
        }
    }
    let mut is_over = false;
    for ((name, _, most), count) in PARAPHRASES.iter().zip(counts) {
        let rate = 1000.0 * count as f64 / words.max(1) as f64;
        if rate > *most {
            wrong.push(format!("{name:?} {rate:.1} times in 1,000 words, at most {most}"));
            is_over = true;
        }
    }
    let long = sentences.iter().filter(|(_, length, ..)| *length > LONG).count();
    if long * 100 > sentences.len() * LONG_PERCENT {
        wrong.push(format!("{long} of {} sentences have more than {LONG} words", sentences.len()));
        is_over = true;
    }
    if is_over {
        sentences.sort_by(|a, b| b.cmp(a));
        wrong.extend(sentences.into_iter().take(SHOWN).map(|(_, _, page, sentence)| format!("  {page}: {sentence}")));
    }
    wrong
}

/// Sentences of more than two words: they end at a mark before a blank, at an empty line and at an item of a list.
fn split(text: &str) -> Vec<String> {
    let mut all = Vec::new();
    let items = text.split("\n\n").flat_map(|part| part.split("\n- ").flat_map(|part| part.split("\n#")));
    for item in items {
        let mut sentence = Vec::new();
        for word in item.split_whitespace() {
            sentence.push(word);
            if word.ends_with(['.', '!', '?', ':', ';']) {
                all.push(std::mem::take(&mut sentence).join(" "));
            }
        }
        all.push(sentence.join(" "));
    }
    all.retain(|sentence| sentence.split_whitespace().count() > 2);
    all
}

fn paraphrases(sentence: &str) -> [usize; PARAPHRASES.len()] {
    let sentence = sentence.to_lowercase();
    PARAPHRASES.map(|(_, phrases, _)| phrases.iter().map(|phrase| count(&sentence, phrase)).sum())
}

/// How often whole words are in a text, which is in lower case.
fn count(text: &str, phrase: &str) -> usize {
    let is_end = |c: Option<char>| c.is_none_or(|c| !c.is_alphanumeric());
    let places = text.match_indices(phrase);
    places
        .filter(|(at, _)| is_end(text[..*at].chars().next_back()) && is_end(text[at + phrase.len()..].chars().next()))
        .count()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wrong(text: &str) -> String {
        judge(&[("page", prose(text))]).join("\n")
    }

    #[test]
    fn paraphrases_and_long_sentences_are_shown() {
        assert_eq!(wrong("# Title\n\nThe loader reads shards. It resumes after a crash.\n\n- one item more\n"), "");
        assert!(wrong("What is read is what was packed.").contains("\"what\" 285.7 times in 1,000 words, at most 4"));
        assert!(wrong("The loader goes on after a crash.").contains("\"goes on\": write \"resumes\""));
        assert!(wrong("The shards, of which it reads two.").contains("page: The shards, of which it reads two."));
        let long = |words: usize| format!("{}.", vec!["word"; words].join(" "));
        assert_eq!(wrong(&long(30)), "");
        assert!(wrong(&long(31)).contains("1 of 1 sentences have more than 30 words"));
        assert!(wrong(&format!("{}\n", long(41))).contains("a sentence of 41 words"));
    }

    #[test]
    fn the_pages_pass() {
        check().unwrap();
    }

    #[test]
    fn code_and_tables_are_no_prose_and_words_are_whole() {
        assert_eq!(wrong("Some prose here.\n\n```sh\nwhat it says\n```\n\n| what | says |\n\n    what it says\n"), "");
        assert_eq!(count("whatever is somewhat what", "what"), 1);
        assert_eq!(split("One two three. Four five six:\nseven\n\n- eight nine ten\n- a b").len(), 3);
    }
}

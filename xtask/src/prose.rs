//! Checks the English of pages, `--help`, docstrings, messages and comments: paraphrases and long sentences.
//!
//! Counts per 1,000 words of prose; code blocks, tables and indented lines are not prose. The page of the Python API is made of
//! docstrings and checks them; the page of the command line holds `--help`. Help, messages and comments are each counted apart.

mod comments;
mod messages;

use crate::{
    Result,
    command::{read, root},
    sources,
};

/// Pages outside `docs/`.
const PAGES: [&str; 3] = ["CONTRIBUTING.md", "README.md", "python/README.md"];
/// The page generated from docstrings.
const API: &str = "docs/reference/python-api.md";
/// The page of `--help`; its text is in a code block.
const HELP: &str = "docs/reference/cli.md";
/// Words in a long sentence, and in a sentence that is too long anywhere.
const LONG: usize = 30;
const TOO_LONG: usize = 40;
/// Maximum percentage of long sentences.
const LONG_PERCENT: usize = 3;
/// Maximum words of prose in all pages, and in one page; generated parts are not counted.
const MAX_WORDS: usize = 30_000;
const MAX_WORDS_OF_ONE: usize = 3_000;
/// Number of sentences shown, worst first.
const SHOWN: usize = 10;

/// Paraphrases: name, words that start it, and the limit per 1,000 words.
const PARAPHRASES: [(&str, &[&str], f64); 3] = [
    ("what", &["what"], 4.0),
    ("of which", &["of which", "of what", "of whose", "of those", "of it", "of them", "of that"], 2.5),
    ("told, said, asked", &["told", "tells", "tell", "said", "says", "asked", "asks"], 1.5),
];
/// Phrases to avoid, with the field's word.
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

/// Step of `check`: checks every page and the texts of `--help`.
pub fn check() -> Result<()> {
    let mut names: Vec<String> = PAGES.map(str::to_owned).into();
    sources::files_below("docs", ".md", &mut names)?;
    names.retain(|name| name != HELP);
    names.sort();
    let pages = names.into_iter().map(|name| Ok((name.clone(), read(&root().join(name))?)));
    let pages = pages.collect::<Result<Vec<_>>>()?;
    let mut wrong = lengths(&pages);
    wrong.extend(judge(&pages.into_iter().map(|(name, page)| (name, prose(&page))).collect::<Vec<_>>()));
    wrong.extend(judge(&[("--help".to_owned(), help(&read(&root().join(HELP))?))]));
    wrong.extend(judge(&messages::all()?));
    wrong.extend(comments::check()?);
    match wrong.is_empty() {
        true => Ok(()),
        false => Err(wrong.join("\n")),
    }
}

/// Returns the pages that exceed the word limits.
fn lengths(pages: &[(String, String)]) -> Vec<String> {
    let written =
        pages.iter().filter(|(name, _)| name != API).map(|(name, page)| (name, words(&prose(&by_hand(page)))));
    let lengths: Vec<_> = written.collect();
    let all: usize = lengths.iter().map(|(_, words)| words).sum();
    let long = lengths.iter().filter(|(_, words)| *words > MAX_WORDS_OF_ONE);
    let long = long.map(|(name, words)| format!("{name}: {words} words of prose, at most {MAX_WORDS_OF_ONE}"));
    let all = (all > MAX_WORDS).then(|| format!("{all} words of prose in all pages, at most {MAX_WORDS}"));
    long.chain(all).collect()
}

/// A page without its generated parts, which stand between `<!-- NAME:begin -->` and `<!-- NAME:end -->`.
fn by_hand(page: &str) -> String {
    let mut is_generated = false;
    let kept = page.lines().filter(|line| {
        let was = is_generated;
        if line.starts_with("<!--") {
            is_generated = line.ends_with(":begin -->");
        }
        !was && !is_generated
    });
    kept.collect::<Vec<_>>().join("\n")
}

fn words(text: &str) -> usize {
    text.split_whitespace().filter(|word| word.contains(char::is_alphabetic)).count()
}

/// The texts of `--help` as paragraphs, without examples, usage and option names.
fn help(page: &str) -> String {
    let is_text = |line: &&str| {
        let line = line.trim_start();
        !["-", "```", "Usage:", "shardpack ", "<", "["].iter().any(|start| line.starts_with(start))
    };
    let mut text = String::new();
    for line in page.lines().map(|line| if is_text(&line) { line.trim_start() } else { "" }) {
        // Each row of a list in columns is a paragraph.
        let end = if line.contains("  ") { "\n\n" } else { "\n" };
        text += line;
        text += end;
    }
    text
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
fn judge(pages: &[(String, String)]) -> Vec<String> {
    let (mut all, mut wrong, mut sentences) = (0, Vec::new(), Vec::new());
    let mut counts = [0usize; PARAPHRASES.len()];
    for (page, text) in pages {
        all += words(text);
        let flat = text.to_lowercase();
        for (phrase, instead) in AVOIDED.iter().filter(|(phrase, _)| count(&flat, phrase) > 0) {
            wrong.push(format!("{page}: {phrase:?}: write {instead:?}"));
        }
        for sentence in split(text) {
            let (length, paraphrases) = (sentence.split_whitespace().count(), paraphrases(&sentence));
            counts.iter_mut().zip(paraphrases).for_each(|(sum, own)| *sum += own);
            if length > TOO_LONG {
                wrong.push(format!("{page}: a sentence of {length} words: {sentence}"));
            }
            sentences.push((length + 10 * paraphrases.iter().sum::<usize>(), length, page, sentence));
        }
    }
    let mut is_over = false;
    for ((name, _, most), count) in PARAPHRASES.iter().zip(counts) {
        let rate = 1000.0 * count as f64 / all.max(1) as f64;
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

/// Sentences of more than two words. A sentence ends at a mark before a blank, at an empty line and at a list item.
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

/// Number of whole-word matches in a text in lower case.
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
        judge(&[("page".to_owned(), prose(text))]).join("\n")
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
    fn long_pages_are_named_and_generated_parts_are_not_counted() {
        let page = |text: String| [("page".to_owned(), text)];
        assert!(lengths(&page("word ".repeat(3_000))).is_empty());
        assert_eq!(lengths(&page("word ".repeat(3_001))), ["page: 3001 words of prose, at most 3000"]);
        let generated = format!("one\n<!-- bench:begin -->\n{}\n<!-- bench:end -->\ntwo", "word ".repeat(4_000));
        assert_eq!(by_hand(&generated), "one\ntwo");
        let many: Vec<_> = (0..11).map(|at| (format!("page {at}"), "word ".repeat(3_000))).collect();
        assert_eq!(lengths(&many), ["33000 words of prose in all pages, at most 30000"]);
    }

    #[test]
    fn the_texts_of_options_are_prose_and_their_names_are_not() {
        let page = "```text\nUsage: shardpack what\n\n      --what <SAYS>\n          Number of\n          threads\n\n  pack  Pack a tree\n  man   Print it\n";
        assert_eq!(split(&help(page)), ["Number of threads", "pack Pack a tree", "man Print it"]);
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

//! Builds the list of classes from the labels of records, and a listing from samples in any order.
//!
//! Numeric labels keep their numbers: class 7 is the eighth in the list, even if class 6 has no sample. Word labels are
//! numbered in sorted order, like the folders of an ImageFolder.
//!
//! Text labels count as numbers if every sample's text spells a valid class number: `7`, or `7.0` as in tables with
//! gaps. Otherwise all text labels are words: `007` and `7` are two classes, and `2019` among words is a class. `NaN`
//! and similar among numbers are missing labels.

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    num::NonZero,
    sync::Arc,
};

use shardpack_format::{
    Result,
    formats::foreign::{Label, LabelTypes, is_list, whole},
    sample,
};

use crate::{
    component_table::{Cell, ComponentTable},
    listing::{Builder, Folder, Listing},
};

/// Numeric labels are plausible below this multiple of the number of samples, or below [`FEW_CLASSES`].
const CLASSES_PER_SAMPLE: u64 = 16;
const FEW_CLASSES: u64 = 1 << 16;
/// Upper limit on classes, far above real datasets. Every class takes memory, even without a sample.
const MAX_CLASSES: u64 = 1 << 24;

/// The label of samples whose labels are withheld, as in test splits.
pub const NO_LABEL: i64 = -1;

/// The reason for a text label that spells a list.
pub(crate) const IS_LIST: &str = "label: a list, and no class";

/// The label information of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LabelInfo {
    /// The label, if it is a number or text that spells a number.
    pub number: Option<i64>,
    /// The class name or label, if it is text.
    pub(crate) word: Option<Word>,
    /// The form of the label.
    pub(crate) form: Form,
    /// The class name beside the label.
    pub(crate) naming: Naming,
}

/// The class name that a record has beside its label.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Naming {
    Absent,
    /// The same word as the label.
    Word,
    /// A name that is dropped.
    Left,
}

/// Form of a label.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    /// A number, a name, or no label.
    Settled,
    /// Text. The word is the class name, if the record has one.
    Text,
    /// Text that spells a number. The word is a possible name for the number.
    Called,
    /// Text that spells a list, which is no class.
    List,
}

impl LabelInfo {
    /// No label information.
    pub const NOTHING: Self = Self { number: None, word: None, form: Form::Settled, naming: Naming::Absent };

    /// Whether the label, if it is a number, is a plausible class for this number of samples.
    pub fn is_believed(&self, samples: u64) -> bool {
        self.number.is_none_or(|number| (0..most_classes(samples)).contains(&number))
    }

    /// A copy for word labels: text that spells a number becomes a word.
    fn in_words(self, words: &Words) -> Self {
        let word = match (self.form, self.number) {
            (Form::Called, Some(number)) => words.numbers.get(number.to_string().as_bytes()).copied(),
            _ => self.word,
        };
        let form = if self.form == Form::List { Form::List } else { Form::Text };
        Self { number: None, word, form, ..self }
    }

    /// A copy with words renumbered by `numbers`.
    pub fn renumbered(self, numbers: &[Word]) -> Self {
        Self { word: self.word.map(|word| numbers[word.place()]), ..self }
    }
}

/// Number of a word in [`Words`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Word(NonZero<u32>);

impl Word {
    fn place(self) -> usize {
        self.0.get() as usize - 1
    }
}

/// Interned words.
#[derive(Debug, Default)]
pub struct Words {
    list: Vec<Box<[u8]>>,
    numbers: HashMap<Box<[u8]>, Word>,
}

impl Words {
    /// Adds `word` if it is new, and returns its number.
    pub(crate) fn intern(&mut self, word: &[u8]) -> Word {
        if let Some(known) = self.numbers.get(word) {
            return *known;
        }
        self.list.push(word.into());
        let new = Word(NonZero::new(self.list.len() as u32).unwrap_or(NonZero::<u32>::MAX));
        self.numbers.insert(word.into(), new);
        new
    }

    /// Whether a word means a missing number, as in tables from pandas, R and databases.
    pub(crate) fn is_missing(&self, word: Word) -> bool {
        let text = self.text(word);
        ["nan", "none", "null", "na", "n/a", "<na>", "nil"]
            .iter()
            .any(|word| text.eq_ignore_ascii_case(word.as_bytes()))
    }

    fn text(&self, word: Word) -> &[u8] {
        &self.list[word.place()]
    }

    /// Adds words that may occur later.
    pub fn intern_all(&mut self, words: &[Vec<u8>]) {
        for word in words {
            self.intern(word);
        }
    }

    /// Interprets a record's label and class name, or returns the reason why the label is invalid. `called` is a
    /// possible name for a numeric label.
    pub fn said(&mut self, label: &Label, class: Option<&[u8]>, called: Option<&[u8]>) -> Result<LabelInfo, String> {
        let class = class.filter(|class| !class.is_empty());
        let (number, word, form) = match (label, called.filter(|_| class.is_none())) {
            // If all samples of a split have this label, the split has no labels.
            (Label::Number(NO_LABEL), _) => (Some(NO_LABEL), None, Form::Settled),
            (Label::Number(number), _) if *number < 0 => return Err(below_zero(*number)),
            (Label::Number(number), called) => (Some(*number), class.or(called), Form::Settled),
            (Label::Text(text), _) if is_list(text) => (None, Some(text.as_slice()), Form::List),
            (Label::Text(text), called) if !text.is_empty() => match (whole_of(text), called) {
                (Some(number), Some(called)) => {
                    self.intern(number.to_string().as_bytes());
                    (Some(number), Some(called), Form::Called)
                }
                (None, _) => (None, Some(text.as_slice()), Form::Text),
                (number, _) => (number, class.or(Some(text)), Form::Text),
            },
            (Label::Name(name), _) if !name.is_empty() => (None, class.or(Some(name)), Form::Settled),
            (Label::Missing | Label::Text(_) | Label::Name(_), _) => (None, class, Form::Settled),
            (Label::Unfit(reason), _) => return Err(format!("label: {reason}")),
        };
        let naming = match (class, word) {
            (None, _) => Naming::Absent,
            (Some(class), Some(word)) if class == word => Naming::Word,
            (Some(_), _) => Naming::Left,
        };
        Ok(LabelInfo { number, word: word.map(|word| self.intern(word)), form, naming })
    }

    /// The type of text labels that are not classes: measured values or lists.
    pub fn no_classes(&self, said: impl Iterator<Item = LabelInfo>) -> Option<&'static str> {
        let mut types = LabelTypes::default();
        for said in said {
            match (said.number, said.word) {
                (Some(_), _) => types.whole += 1,
                // Folder names and recognized text are names, even if they spell a number.
                (None, Some(_)) if said.form == Form::Settled => types.words += 1,
                (None, Some(word)) => types.add(self.text(word)),
                (None, None) => {}
            }
        }
        types.no_classes()
    }

    /// Adds the words of `other`. Returns the new number of each of its words.
    pub fn merge(&mut self, other: &Self) -> Vec<Word> {
        other.list.iter().map(|word| self.intern(word)).collect()
    }
}

/// The final list of classes.
#[derive(Debug)]
pub struct Classes {
    /// Class names in the order of labels. Empty if no record has a label, because readers would take an invented class
    /// for a real label.
    pub names: Arc<Vec<Box<[u8]>>>,
    /// Whether labels are numbers.
    pub is_numbered: bool,
    /// Whether no record has a label.
    pub is_unlabelled: bool,
    /// A note for the user on how labels were interpreted.
    pub note: Option<String>,
    /// Class by name; `None` if two classes share the name.
    by_word: HashMap<Word, Option<u32>>,
}

impl Classes {
    /// Builds the classes from the label information of all samples. `known` are class names from the source itself.
    pub fn decide(said: impl Iterator<Item = LabelInfo> + Clone, words: &Words, known: &[Vec<u8>]) -> Self {
        let (mut samples, mut numbered, mut worded) = (0u64, false, false);
        for said in said.clone() {
            samples += 1;
            numbered |= said.number.is_some_and(|number| number != NO_LABEL) && said.form == Form::Settled;
            worded |= said.word.is_some();
        }
        let mut note = None;
        if !numbered {
            let names: HashSet<Word> =
                known.iter().filter_map(|name| words.numbers.get(name.as_slice()).copied()).collect();
            (numbered, note) = spelled(said.clone(), samples, words, &names);
        }
        let said = said.map(|said| if numbered { said } else { said.in_words(words) });
        let is_unlabelled = !numbered && !worded && known.is_empty();
        let names: Vec<Box<[u8]>> = if is_unlabelled {
            Vec::new()
        } else if numbered || !known.is_empty() {
            numbered_names(said, samples, words, known)
        } else {
            let used: HashSet<Word> =
                said.filter(|said| said.form != Form::List).filter_map(|said| said.word).collect();
            let mut names: Vec<Box<[u8]>> = used.into_iter().map(|word| words.text(word).into()).collect();
            names.sort_unstable();
            names
        };
        let mut by_word = HashMap::new();
        for (number, name) in names.iter().enumerate() {
            let Some(word) = words.numbers.get(name) else { continue };
            by_word.entry(*word).and_modify(|class| *class = None).or_insert(Some(number as u32));
        }
        Self { names: Arc::new(names), is_numbered: numbered, is_unlabelled, note, by_word }
    }

    /// Whether the class name in a record differs from the name of its `class`.
    pub fn loses_name(&self, said: LabelInfo, class: Option<u32>, words: &Words) -> bool {
        let name = class.and_then(|class| self.names.get(class as usize));
        match said.naming {
            Naming::Absent => false,
            Naming::Word => said.word.is_some_and(|word| name.is_none_or(|name| **name != *words.text(word))),
            Naming::Left => true,
        }
    }

    /// The class number for `said`; `None` if samples have no labels.
    ///
    /// # Errors
    /// The reason, if this sample has no valid class and others have labels.
    pub fn number(&self, said: LabelInfo, words: &Words) -> Result<Option<u32>, String> {
        let of_word = |word: Word| {
            let name = || sample::name(words.text(word), b"");
            match self.by_word.get(&word) {
                Some(Some(class)) => Ok(Some(*class)),
                _ if said.form == Form::List => Err(IS_LIST.to_owned()),
                Some(None) => Err(format!("label {:?} is the name of two classes", name())),
                None if self.is_numbered => Err(format!("label {:?} is not a number, but other labels are", name())),
                None => Err(format!("label {:?} is not a known class", name())),
            }
        };
        let said = if self.is_numbered { said } else { said.in_words(words) };
        match (said.number, said.word) {
            _ if self.is_unlabelled => Ok(None),
            (Some(number), _) if number < 0 => Err(below_zero(number)),
            (Some(number), _) => {
                let number = u32::try_from(number).ok().filter(|number| (*number as usize) < self.names.len());
                number.map(Some).ok_or_else(|| {
                    format!("label {}: too large for the number of a class", said.number.unwrap_or_default())
                })
            }
            (None, Some(word)) => of_word(word),
            (None, None) => Err("no label".to_owned()),
        }
    }
}

/// Whether text labels are numbers, for samples without numeric labels. They are if every text spells a plausible
/// number and the texts are not all known class names in `names`. The note reports words that spell numbers.
fn spelled(
    said: impl Iterator<Item = LabelInfo>,
    samples: u64,
    words: &Words,
    names: &HashSet<Word>,
) -> (bool, Option<String>) {
    let most = most_classes(samples);
    let (mut numbers, mut other, mut others, mut are_names) = (0u64, None, 0u64, true);
    for said in said.filter(|said| !matches!(said.form, Form::Settled | Form::List)) {
        are_names &= said.in_words(words).word.is_some_and(|word| names.contains(&word));
        // Negative numbers count as numbers here; `Classes::number` refuses them.
        let word = said.in_words(words).word;
        match said.number.filter(|number| *number < most) {
            Some(_) => numbers += 1,
            // No class has such a name: the label is missing.
            None if word.is_some_and(|word| words.is_missing(word)) => {}
            None => {
                others += 1;
                other = other.or(word);
            }
        }
    }
    match other {
        _ if are_names => (false, None),
        None => (numbers > 0, None),
        Some(_) if numbers == 0 => (false, None),
        Some(word) => {
            let word = sample::name(words.text(word), b"");
            let what = format!("labels are words, also the {numbers} of {} that spell numbers", numbers + others);
            (false, Some(format!("{what}: {word:?} is not a class number")))
        }
    }
}

/// Parses a whole number, also `7.0` as in tables with gaps.
fn whole_of(text: &[u8]) -> Option<i64> {
    whole(text).or_else(|| whole(text.strip_suffix(b".0")?))
}

/// The smallest number that is too large for a class with this number of samples.
pub(crate) fn most_classes(samples: u64) -> i64 {
    samples.saturating_mul(CLASSES_PER_SAMPLE).clamp(FEW_CLASSES, MAX_CLASSES).cast_signed()
}

fn below_zero(number: i64) -> String {
    format!("label {number}: no class has a number below 0")
}

/// Class names by label: the source's name, the common word of all samples with the label, or the number itself. A word
/// that spells the number of another, unnamed class is not used.
fn numbered_names(
    said: impl Iterator<Item = LabelInfo>,
    samples: u64,
    words: &Words,
    known: &[Vec<u8>],
) -> Vec<Box<[u8]>> {
    let most = most_classes(samples).cast_unsigned();
    // `None` if samples of one label have different words.
    let mut word_of: BTreeMap<u64, Option<Word>> = BTreeMap::new();
    let mut count = known.len() as u64;
    for said in said {
        let Some(number) = said.number.map(|number| number as u64).filter(|number| *number < most) else { continue };
        count = count.max(number + 1);
        let word = word_of.entry(number).or_insert(said.word);
        if *word != said.word {
            *word = None;
        }
    }
    let mut uses: HashMap<Word, u64> = HashMap::new();
    word_of.values().flatten().for_each(|word| *uses.entry(*word).or_default() += 1);
    let is_named = |word_of: &BTreeMap<u64, Option<Word>>, number: u64| {
        number < known.len() as u64 || matches!(word_of.get(&number), Some(Some(word)) if uses[word] == 1)
    };
    // Each dropped name leaves another unnamed class, so repeat until nothing changes.
    loop {
        let spells_unnamed = |(number, word): (&u64, &Option<Word>)| {
            let spelled = whole(words.text((*word)?))?.cast_unsigned();
            (spelled != *number && spelled < count && !is_named(&word_of, spelled)).then_some(*number)
        };
        let own = word_of.iter().filter(|(number, _)| is_named(&word_of, **number));
        let wrong: Vec<u64> = own.filter_map(spells_unnamed).collect();
        if wrong.is_empty() {
            break;
        }
        word_of.extend(wrong.into_iter().map(|number| (number, None)));
    }
    let name = |number: u64| -> Box<[u8]> {
        if let Some(name) = known.get(number as usize) {
            return name.as_slice().into();
        }
        match word_of.get(&number) {
            Some(Some(word)) if uses[word] == 1 => words.text(*word).into(),
            _ => number.to_string().into_bytes().into(),
        }
    };
    (0..count).map(name).collect()
}

/// Builds a listing from samples in any order.
pub(super) struct Collector {
    classes: Arc<Vec<Box<[u8]>>>,
    builder: Builder,
    /// Numbers of the folders in the listing, by path and class.
    folders: HashMap<Box<[u8]>, HashMap<Option<u32>, u32>>,
    path: Vec<u8>,
}

impl Collector {
    /// An empty listing whose samples have these components.
    pub fn with(classes: &Arc<Vec<Box<[u8]>>>, components: ComponentTable) -> Self {
        let builder = Builder::with(components);
        Self { classes: Arc::clone(classes), builder, folders: HashMap::new(), path: Vec::new() }
    }

    /// The path of the sample `name`: in the folder of its class, as in an ImageFolder, if it has a class.
    pub fn path(&mut self, class: Option<u32>, name: &[u8]) -> &[u8] {
        path_of(class.map(|class| &*self.classes[class as usize]), name, &mut self.path);
        &self.path
    }

    /// Adds a sample.
    ///
    /// # Errors
    /// If its name is too long.
    pub fn add(&mut self, class: Option<u32>, name: &[u8], bytes: u32, place: u64, stamp: i64) -> Result<()> {
        let mut path = std::mem::take(&mut self.path);
        path_of(class.map(|class| &*self.classes[class as usize]), name, &mut path);
        let added = self.add_path(class, &path, bytes, place, stamp);
        self.path = path;
        added
    }

    /// Adds a sample with its own path.
    ///
    /// # Errors
    /// If its name is too long.
    pub fn add_path(&mut self, class: Option<u32>, path: &[u8], bytes: u32, place: u64, stamp: i64) -> Result<()> {
        let (folder, name) = match path.iter().rposition(|byte| *byte == b'/') {
            Some(at) => (&path[..at], &path[at + 1..]),
            None => (&[][..], path),
        };
        let folder = match self.folders.get(folder).and_then(|of_path| of_path.get(&class)) {
            Some(number) => *number,
            None => {
                let number = self.builder.add_folder(Folder { path: folder.into(), class });
                self.folders.entry(folder.into()).or_default().insert(class, number);
                number
            }
        };
        self.builder.add_sample(folder, name, bytes, place, stamp)
    }

    /// Adds the components of the last sample, and its line in a list.
    pub fn add_components(&mut self, cells: &[Cell], line: Option<u64>) {
        self.builder.add_components(cells, line);
    }

    pub fn add_payload_form(&mut self, form: u32) {
        self.builder.add_payload_form(form);
    }

    pub fn set_forms(&mut self, forms: Arc<Vec<shardpack_format::component::Form>>) {
        self.builder.set_forms(forms);
    }

    pub fn finish(self) -> Listing {
        self.builder.finish(self.classes)
    }
}

fn path_of(class: Option<&[u8]>, name: &[u8], out: &mut Vec<u8>) {
    out.clear();
    let Some(class) = class else { return out.extend_from_slice(name) };
    let inside = name.strip_prefix(class).and_then(|rest| rest.strip_prefix(b"/"));
    out.extend_from_slice(class);
    out.push(b'/');
    out.extend_from_slice(inside.unwrap_or(name));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decide(labels: &[(Label, Option<&str>)], known: &[&str]) -> (Vec<String>, Vec<Result<Option<u32>, String>>) {
        let mut words = Words::default();
        let said: Vec<_> =
            labels.iter().map(|(label, class)| words.said(label, class.map(str::as_bytes), None).unwrap()).collect();
        let known: Vec<_> = known.iter().map(|name| name.as_bytes().to_vec()).collect();
        let classes = Classes::decide(said.iter().copied(), &words, &known);
        let names = classes.names.iter().map(|name| String::from_utf8_lossy(name).into_owned()).collect();
        (names, said.iter().map(|said| classes.number(*said, &words)).collect())
    }

    #[test]
    fn numbers_stay_and_take_the_names_that_all_agree_on() {
        let number = Label::Number;
        let (names, numbers) = decide(
            &[(number(3), Some("cat")), (number(1), None), (number(3), Some("cat")), (number(2), Some("x"))],
            &[],
        );
        assert_eq!(names, ["0", "1", "x", "cat"]);
        assert_eq!(numbers, [3, 1, 3, 2].map(|number| Ok(Some(number))));
        // Labels that share a name, and a label with two names, are identified by number.
        let two = [(number(0), Some("a")), (number(1), Some("a")), (number(2), Some("b")), (number(2), Some("c"))];
        assert_eq!(decide(&two, &[]).0, ["0", "1", "2"]);
        assert_eq!(decide(&[(number(1), None)], &["cat", "dog", "eel"]).0, ["cat", "dog", "eel"]);
    }

    #[test]
    fn words_are_numbered_in_their_order_and_nothing_is_no_class() {
        let text = |text: &str| Label::Text(text.as_bytes().to_vec());
        let (names, numbers) = decide(&[(text("dog"), None), (text("cat"), None), (Label::Missing, None)], &[]);
        assert_eq!(names, ["cat", "dog"]);
        assert_eq!(numbers, [Ok(Some(1)), Ok(Some(0)), Err("no label".to_owned())]);
        assert_eq!(decide(&[(Label::Missing, None)], &[]), (Vec::new(), vec![Ok(None)]));
        let mixed = decide(&[(text("dog"), None), (Label::Number(0), None)], &[]);
        assert!(mixed.1[0].as_ref().unwrap_err().contains("is not a number"), "{mixed:?}");
    }

    #[test]
    fn text_is_numbers_only_if_all_of_it_is() {
        let all = |texts: &[&str], known: &[&str]| {
            let labels: Vec<_> = texts.iter().map(|text| (Label::Text(text.as_bytes().to_vec()), None)).collect();
            decide(&labels, known)
        };
        assert_eq!(
            all(&["2", "0"], &[]),
            (["0", "1", "2"].map(str::to_owned).to_vec(), vec![Ok(Some(2)), Ok(Some(0))])
        );
        for texts in [["007", "7"], ["7", "+7"], ["2019", "hello"], ["7", "20190405"], ["7", "7777777777777777777777"]]
        {
            let mut sorted = texts;
            sorted.sort_unstable();
            let (names, numbers) = all(&texts, &[]);
            assert_eq!(names, sorted);
            assert_eq!(numbers, texts.map(|text| Ok(sorted.iter().position(|one| *one == text).map(|at| at as u32))));
        }
        assert_eq!(all(&["7", "7.0"], &[]).1, [Ok(Some(7)), Ok(Some(7))]);
        let missing = all(&["7", "NaN"], &[]).1;
        assert!(missing[0] == Ok(Some(7)) && missing[1].is_err(), "{missing:?}");
        assert_eq!(all(&["none", "nan"], &[]).1, [Ok(Some(1)), Ok(Some(0))], "words alone");
        // Known class names are words; a label below 0 is still invalid.
        assert_eq!(all(&["7", "8"], &["7", "8"]).1, [Ok(Some(0)), Ok(Some(1))]);
        let below = all(&["1", "-1"], &[]);
        assert!(below.0 == ["0", "1"] && below.1[1].as_ref().unwrap_err().contains("below 0"), "{below:?}");
        let name = decide(&[(Label::Name(b"2".to_vec()), None), (Label::Name(b"10".to_vec()), None)], &[]);
        assert_eq!(name, (["10", "2"].map(str::to_owned).to_vec(), vec![Ok(Some(1)), Ok(Some(0))]));
    }

    #[test]
    fn what_a_number_is_called_is_no_class_where_text_is_words() {
        let names = |texts: [&str; 2]| {
            let mut words = Words::default();
            let said = texts.map(|text| words.said(&Label::Text(text.into()), None, Some(b"folder")).unwrap());
            let classes = Classes::decide(said.into_iter(), &words, &[]);
            let numbers = said.map(|said| classes.number(said, &words).unwrap().unwrap());
            (numbers.map(|number| String::from_utf8(classes.names[number as usize].to_vec()).unwrap()), classes.note)
        };
        assert_eq!(names(["1", "1"]), (["folder", "folder"].map(str::to_owned), None));
        let (classes, note) = names(["2019", "hello"]);
        assert_eq!(classes, ["2019", "hello"]);
        assert!(note.unwrap().contains("also the 1 of 2 that spell numbers: \"hello\""));
    }

    #[test]
    fn a_label_that_no_dataset_can_have_takes_no_memory() {
        let (names, numbers) = decide(&[(Label::Number(1 << 40), None), (Label::Number(1), None)], &[]);
        assert_eq!(names, ["0", "1"]);
        assert!(numbers[0].as_ref().unwrap_err().contains("too large"));
        assert!(Words::default().said(&Label::Number(-2), None, None).is_err());
    }

    #[test]
    fn paths_begin_with_the_class_once() {
        let classes = Arc::new(vec![b"cat".as_slice().into()]);
        let mut collector = Collector::with(&classes, ComponentTable::default());
        assert_eq!(collector.path(Some(0), b"cat/1.jpg"), b"cat/1.jpg");
        assert_eq!(collector.path(Some(0), b"cats/1.jpg"), b"cat/cats/1.jpg");
        assert_eq!(collector.path(None, b"cats/1.jpg"), b"cats/1.jpg");
        collector.add(Some(0), b"cat/x/2.jpg", 1, 0, 0).unwrap();
        collector.add(Some(0), b"1.jpg", 1, 1, 0).unwrap();
        let listing = collector.finish();
        assert_eq!([b"cat/1.jpg".as_slice(), b"cat/x/2.jpg"].map(|path| listing.find(Some(0), path)), [0..1, 1..2]);
    }
}

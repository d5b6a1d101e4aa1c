//! Builds listings from the rows of a list: the samples of each split with classes, texts and files.
//!
//! Holds at all times: of lines that repeat the same row, one is a sample. The others are reported with its line.

use std::{
    collections::{BTreeSet, HashMap, HashSet},
    sync::Arc,
};

use rayon::prelude::*;
use shardpack_format::{
    Error, Result,
    component::{self, Component},
    formats::webdataset,
    text,
};

use super::{
    super::{
        columns::FOLDER,
        files::{Files, Paths, RowFile},
        multi_label::Arrays,
        targets::TargetArrays,
    },
    Rows, StoredRow,
};
use crate::{
    SourceListing,
    classes::{self, Classes, Collector, LabelInfo},
    companions::Refused,
    component_table::{Cell, ComponentTable},
    filter::PathFilter,
    layout::containers::are_parts,
    ledger::{Fate, Unpacked, order},
    missing_components::lacking,
    monitor::Monitor,
    names,
    options::{OnMissing, Options, SPLITS, Splits},
};

/// The files of a row, or the reason why it is no sample.
type Looked = Result<RowFile, Refused>;

/// Part of the reason for a line that repeats another.
const SAME_LINE: &str = "says the same as line";

/// Fewest rows for the note that each row is a class of its own.
const LEAST_OWN_CLASSES: usize = 4;
/// Fewest rows for a note that most of them are.
const LEAST_ROWS: usize = 10;

/// Whether `unpacked` is a repeated line, whose image is packed under another line.
pub fn is_same_line(unpacked: &Unpacked) -> bool {
    unpacked.fate == Fate::Duplicate && unpacked.reason.contains(SAME_LINE)
}

/// The numbers of rows and of labels, if nearly every row has a label of its own. Names of classes beside numbers show that labels are classes.
pub(super) fn own_labels(said: &[LabelInfo]) -> Option<(usize, usize)> {
    let alone = |said: &&LabelInfo| said.number.is_some() != said.word.is_some();
    let own: HashSet<_> = said.iter().filter(alone).map(|said| (said.number, said.word)).collect();
    let (rows, own) = (said.len(), own.len());
    let are_own = own == rows && rows >= LEAST_OWN_CLASSES || rows >= LEAST_ROWS && own * 10 >= rows * 8;
    are_own.then_some((rows, own))
}

impl Rows<'_> {
    /// The class label of each row: numbers if every label is missing or a valid class number, else words.
    pub(super) fn said(&self) -> Vec<LabelInfo> {
        let most = classes::most_classes(self.rows.len() as u64);
        let is_number = |row: &StoredRow| row.number.is_some_and(|number| number < most);
        let is_missing = |row: &StoredRow| row.word.is_some_and(|word| self.words.is_missing(word));
        let is_numbered = self.rows.iter().any(&is_number)
            && self.rows.iter().all(|row| row.word.is_none() || is_number(row) || is_missing(row));
        let said = |row: &StoredRow| {
            let (number, word) = match (is_numbered, row.word) {
                (false, Some(word)) => (None, Some(word)),
                (false, None) => (row.number, None),
                (true, _) => (row.number, row.class.filter(|_| row.number.is_some())),
            };
            LabelInfo { number, word, form: classes::Form::Settled, naming: classes::Naming::Absent }
        };
        self.rows.iter().map(said).collect()
    }

    /// A note if labels are words and some words spell numbers.
    fn numbers_among_words(&self, said: &[LabelInfo]) -> Option<String> {
        let are_numbers = || self.rows.iter().zip(said).filter(|(row, _)| row.number.is_some());
        let numbers = are_numbers().filter(|(_, said)| said.number.is_none()).count();
        let labels = said.iter().filter(|said| said.word.is_some()).count();
        let is_mixed = numbers > 0 && numbers < labels;
        is_mixed.then(|| format!("labels are words, also the {numbers} of {labels} that spell numbers"))
    }

    /// A note if nearly every row has a label of its own.
    fn own_classes(&self, said: &[LabelInfo]) -> Option<String> {
        let (rows, own) = own_labels(said)?;
        let what = match own == rows {
            true => format!("each of {rows} rows is a class of its own"),
            false => format!("{rows} rows are of {own} classes"),
        };
        Some(format!("{what}: if labels are ids or texts, --no-labels packs them in the component json"))
    }

    /// A note if no row has a label, and folders of the paths may be classes.
    fn folders_of_paths(&self) -> Option<String> {
        if self.has_labels
            || self.no_labels
            || !self.has_columns
            || self.multi_label.is_some()
            || !self.targets.is_empty()
        {
            return None;
        }
        let folders: Option<BTreeSet<&[u8]>> = self.rows.iter().map(|row| names::folder(self.path(row))).collect();
        let folders = folders.filter(|folders| folders.len() > 1 && folders.len() * 2 <= self.rows.len())?;
        if are_parts(&folders.iter().copied().collect::<Vec<_>>()) {
            return None;
        }
        let is_split = |folder: &&[u8]| SPLITS.iter().any(|name| name.as_bytes() == *folder);
        let first = folders.iter().find(|folder| !is_split(folder))?;
        let (count, option) = (folders.len(), format!("--label-column {FOLDER}"));
        Some(format!("the paths are in {count} folders, such as {}: {option} makes them classes", text::shown(first)))
    }

    /// Adds notes about all rows.
    fn add_notes(&mut self, said: &[LabelInfo]) {
        let notes = [self.numbers_among_words(said), self.own_classes(said), self.folders_of_paths()];
        self.notes.extend(notes.into_iter().flatten().chain(self.extensions.note()));
    }

    /// Returns one listing for each split, or one for all rows.
    ///
    /// # Errors
    /// If the root cannot be opened or the user cancels.
    pub fn finish(mut self, options: &Options, monitor: &dyn Monitor) -> Result<Vec<SourceListing>> {
        if let Splits::Names(names) = &options.splits
            && let Some(missing) = names.iter().find(|name| !self.split_names.contains(name))
        {
            return Err(Error::usage(format!("no split {missing:?}, which --splits names"))
                .help("choose the split column with --split-column NAME"));
        }
        let said = self.said();
        self.add_notes(&said);
        let (mut words, unfit) = (std::mem::take(&mut self.words), std::mem::take(&mut self.unfit));
        let are_listed = self.has_labels && !self.is_label_folder;
        let known = if are_listed { std::mem::take(&mut self.known) } else { Vec::new() };
        words.intern_all(&known);
        let classes = Classes::decide(said.iter().copied(), &words, &known);
        let has_labels = self.has_labels && !classes.is_unlabelled;
        if self.has_labels && !has_labels {
            self.notes.push("no row has a label".to_owned());
        }
        let class_of = |number: usize| match unfit.get(&number) {
            _ if !has_labels => Ok(None),
            Some(why) => Err(why.clone()),
            None if said[number].number.is_some_and(|number| number < 0) => {
                Err(format!("label {}: no class has a number below 0", said[number].number.unwrap_or_default()))
            }
            None => classes.number(said[number], &words),
        };
        let (numbers, same) = self.order(&class_of);
        let keep = PathFilter::new(options)?;
        let paths = numbers.iter().map(|number| {
            let image = self.path(&self.rows[*number]);
            keep.wants(image).then(|| Paths { image, files: self.files_of(*number) })
        });
        let paths: Vec<Option<Paths<'_>>> = paths.collect();
        let columns = self.file_kinds()?;
        // A dataset that was converted since names its files beside the images.
        let is_of_column = |kind: &Component| {
            kind.file_column().is_some()
                || kind.listed().is_some()
                || (!options.guess && columns.iter().any(|column| column.name() == kind.name()))
        };
        let with: Vec<Component> = options.with.iter().filter(|kind| !is_of_column(kind)).cloned().collect();
        let (root, remote, threads) = (self.root, self.remote, options.threads);
        let looked =
            Files { root, remote, with: &with, columns: &columns, keep: &keep, threads }.look(&paths, monitor)?;
        drop(paths);
        let names = if has_labels { Arc::clone(&classes.names) } else { Arc::default() };
        let (mut texts, starts) = self.all_texts(&numbers, &class_of, &names)?;
        let arrays = self.multi_label.as_ref().map(|several| several.arrays(&mut texts)).transpose()?;
        let line = |number: usize| self.rows[number].line;
        let targets = self.targets.arrays(&mut texts, u32::from(arrays.is_some()), line)?;
        let looked = self.with_listed(looked, &numbers, &mut texts, arrays.as_ref())?;
        let looked = self.with_targets(looked, &numbers, &targets, &keep);
        let listed = arrays.as_ref().map(|arrays| arrays.kind.clone()).into_iter().chain(targets.kinds);
        let kinds: Vec<Component> =
            self.has_text.then(Component::text).into_iter().chain(with).chain(columns).chain(listed).collect();
        component::check(&kinds)?;
        let forms = arrays.iter().map(|arrays| arrays.form.clone()).chain(targets.forms);
        let forms = Arc::new(forms.collect());
        let table = ComponentTable { texts: Arc::new(texts), forms, ..ComponentTable::new(kinds) };
        let collector = || Collector::with(&names, table.clone());
        let splits = self.split_names.len().max(1);
        let mut parts: Vec<(Collector, Vec<Unpacked>)> = (0..splits).map(|_| (collector(), Vec::new())).collect();
        for (number, first) in same {
            let (row, first) = (&self.rows[number], self.rows[first].line);
            parts[row.split as usize].1.push(Unpacked {
                path: self.path(row).to_vec(),
                class: class_of(number).ok().flatten(),
                fate: Fate::Duplicate,
                reason: format!("line {} {SAME_LINE} {first}", row.line).into(),
            });
        }
        for ((number, looked), text) in numbers.iter().zip(looked).zip(starts) {
            let row = &self.rows[*number];
            let (collector, unpacked) = &mut parts[row.split as usize];
            let class = class_of(*number);
            let mut refuse = |fate, reason: String| {
                let class = class.clone().ok().flatten();
                unpacked.push(Unpacked { path: self.path(row).to_vec(), class, fate, reason: reason.into() });
            };
            match (&class, looked) {
                (_, None) => refuse(Fate::Filtered, "left out by --include or --exclude".to_owned()),
                (Err(reason), _) => refuse(Fate::Skipped, reason.clone()),
                (_, Some(Err(Refused { fate, why }))) => refuse(fate, why),
                (Ok(class), Some(Ok(looked))) => {
                    collector.add_path(*class, self.path(row), looked.bytes, looked.place, looked.stamp)?;
                    let mut cells = looked.cells;
                    if self.has_text {
                        cells.insert(0, Cell::file(text.1, text.0.cast_signed()));
                    }
                    collector.add_components(&cells, Some(row.line));
                }
            }
        }
        let is_numbered = classes.is_numbered;
        let mut found = self.listings(parts, is_numbered, options);
        self.suggest_root(&mut found);
        if let Some(Arrays { kind, classes, .. }) = &arrays {
            found
                .iter_mut()
                .for_each(|one| drop(one.component_classes.insert(kind.name().to_owned(), classes.clone())));
        }
        Ok(found)
    }

    /// Gives listings without samples a help, if the files of the first rows are elsewhere.
    fn suggest_root(&self, found: &mut [SourceListing]) {
        if found.iter().all(|one| one.listing.is_empty()) {
            let is_missing = |path: &&[u8]| self.is_file(path).is_ok_and(|is_file| !is_file);
            let help =
                self.help_with_root(self.rows.iter().take(LEAST_ROWS).map(|row| self.path(row)).filter(is_missing));
            found.iter_mut().for_each(|one| one.help.clone_from(&help));
        }
    }

    /// The components of the columns of files.
    fn file_kinds(&self) -> Result<Vec<Component>> {
        let paths = |at: usize| (0..self.rows.len()).filter_map(move |number| self.files_of(number).get(at).copied());
        self.files.iter().enumerate().map(|(at, column)| column.kind(paths(at))).collect()
    }

    /// Gives the cells of the columns of files, which are the last of each row, slots in `texts`, and appends the cells of `arrays`.
    fn with_listed(
        &mut self,
        mut looked: Vec<Option<Looked>>,
        numbers: &[usize],
        texts: &mut Vec<u8>,
        arrays: Option<&Arrays>,
    ) -> Result<Vec<Option<Looked>>> {
        for (file, number) in looked
            .iter_mut()
            .zip(numbers)
            .filter_map(|(looked, number)| Some((looked.as_mut()?.as_mut().ok()?, number)))
        {
            let first = file.cells.len().saturating_sub(self.files.len());
            let cells = file.cells.iter_mut().skip(first).zip(self.files_of(*number));
            for (cell, path) in cells.filter(|(cell, _)| cell.length().is_some()) {
                cell.stamp = ComponentTable::push_named_file(texts, path, cell.stamp)?;
            }
            // The forms of the table are that of the arrays alone.
            file.cells.extend(arrays.map(|arrays| Cell {
                bytes: arrays.bytes,
                form: 0,
                stamp: arrays.starts[*number],
            }));
        }
        let note = arrays.zip(self.multi_label.as_ref()).map(|(arrays, several)| several.note(arrays));
        self.notes.extend(note);
        Ok(looked)
    }

    /// Appends the cells of `targets`. A row with a bad value is bad; a row without a value is decided by `--on-missing`.
    fn with_targets(
        &mut self,
        mut looked: Vec<Option<Looked>>,
        numbers: &[usize],
        targets: &TargetArrays,
        keep: &PathFilter,
    ) -> Vec<Option<Looked>> {
        for (looked, number) in looked.iter_mut().zip(numbers) {
            let missing = self.targets.missing(*number);
            if let (Some(looked), Some((column, what))) =
                (looked.as_mut().filter(|one| one.is_ok()), targets.bad(*number))
            {
                let why = format!("line {}, column {column:?}: {what}", self.rows[*number].line);
                *looked = Err(Refused { fate: Fate::Skipped, why });
                continue;
            }
            match (looked, missing, keep.on_missing()) {
                (Some(looked), Some(column), on_missing) if on_missing != Some(OnMissing::Empty) && looked.is_ok() => {
                    let fate = if on_missing == Some(OnMissing::Skip) { Fate::Filtered } else { Fate::Skipped };
                    let why = format!("line {}: no value in column {column:?}", self.rows[*number].line);
                    *looked = Err(Refused { fate, why });
                }
                (Some(Ok(file)), ..) => file.cells.extend(targets.of_row(*number)),
                _ => {}
            }
        }
        looked
    }

    /// The listings of these parts, one for each split, in the order of the splits.
    fn listings(
        &mut self,
        parts: Vec<(Collector, Vec<Unpacked>)>,
        is_numbered: bool,
        options: &Options,
    ) -> Vec<SourceListing> {
        let mut found: Vec<SourceListing> = Vec::new();
        let mut ignored = std::mem::take(&mut self.ignored);
        let mut notes = std::mem::take(&mut self.notes);
        for (number, (collector, mut unpacked)) in parts.into_iter().enumerate() {
            let listing = Arc::new(collector.finish());
            unpacked.sort_by(order);
            notes.extend(lacking(&listing, "image"));
            found.push(SourceListing {
                split: self.split_names.get(number).cloned(),
                listing,
                unpacked,
                ignored: std::mem::take(&mut ignored),
                notes: std::mem::take(&mut notes),
                meta: self.meta && self.has_text,
                is_numbered,
                ..SourceListing::default()
            });
        }
        let clues = self.all_clues().text();
        found.iter_mut().for_each(|one| one.list_clues.clone_from(&clues));
        let place = |found: &SourceListing| {
            let split = found.split.as_deref().unwrap_or_default();
            let names = match &options.splits {
                Splits::Names(names) => names.iter().position(|name| name == split),
                _ => SPLITS.iter().position(|name| *name == split),
            };
            (names.unwrap_or(usize::MAX), split.to_owned())
        };
        found.sort_by_key(place);
        found
    }

    /// Row numbers sorted by split, path and line, without duplicates; and the duplicates, each with the row that it
    /// repeats.
    fn order(&self, class_of: &dyn Fn(usize) -> Result<Option<u32>, String>) -> (Vec<usize>, Vec<(usize, usize)>) {
        let mut numbers: Vec<usize> = (0..self.rows.len()).collect();
        let key = |number: &usize| {
            let row = &self.rows[*number];
            (row.split, self.path(row))
        };
        numbers.par_sort_by(|a, b| key(a).cmp(&key(b)));
        let mut kept: Vec<usize> = Vec::with_capacity(numbers.len());
        let mut same = Vec::new();
        for rows in numbers.chunk_by(|a, b| key(a) == key(b)) {
            let mut said = HashMap::new();
            for number in rows {
                let first = match rows {
                    [_] => *number,
                    _ => {
                        let several = self.multi_label.as_ref().map(|several| several.of_row(*number));
                        let values = (several, self.targets.of_row(*number));
                        let row = (class_of(*number), self.text(&self.rows[*number]), self.files_of(*number), values);
                        *said.entry(row).or_insert(*number)
                    }
                };
                if first == *number { kept.push(*number) } else { same.push((*number, first)) }
            }
        }
        (kept, same)
    }

    /// All texts end to end, and start and length of the text of each row in `numbers`.
    fn all_texts(
        &mut self,
        numbers: &[usize],
        class_of: &dyn Fn(usize) -> Result<Option<u32>, String>,
        names: &[Box<[u8]>],
    ) -> Result<(Vec<u8>, Vec<(u64, u32)>)> {
        if !self.meta || !self.has_text {
            let starts = numbers.iter().map(|number| self.rows[*number].text).collect();
            return Ok((std::mem::take(&mut self.texts), starts));
        }
        let (mut texts, mut starts) = (Vec::new(), Vec::with_capacity(numbers.len()));
        for number in numbers {
            let row = &self.rows[*number];
            let class = class_of(*number).ok().flatten();
            let name = class.map_or(&[][..], |class| &names[class as usize]);
            let start = texts.len();
            texts.extend(webdataset::meta(name, class.map(i64::from), self.path(row))?);
            if let [b'{', members @ .., b'}'] = self.text(row)
                && !members.is_empty()
            {
                texts.pop();
                texts.push(b',');
                texts.extend_from_slice(members);
                texts.push(b'}');
            }
            starts.push((start as u64, (texts.len() - start) as u32));
        }
        Ok((texts, starts))
    }
}

//! Preprocesses images as a recipe requires (resize, encode, rotate), before planning.
//!
//! Holds at all times: the result depends only on source and recipe, for any number of threads and after any
//! crash. An image that cannot be preprocessed is reported and never packed in its original form.

use std::{
    collections::{BTreeMap, HashMap},
    num::NonZeroU32,
    ops::Range,
    path::Path,
    sync::Arc,
};

use shardpack_format::{Result, component::Form, hash, image_header::Kind, sample::Forms, size};
use shardpack_imaging::{Change, ENGINE, Encode, Movement, Outcome as Applied, Recipe, Resize, apply_within};
use shardpack_storage::Local;

use super::{
    moving::{self, Failure},
    roles::{Assigned, Role, Roles},
    work_folder::SPOOL_FILE,
};
use crate::{
    component_table::{ComponentTable, Interner},
    decoding,
    ledger::{Fate, Unpacked, order},
    listing::Listing,
    monitor::{Monitor, Phase},
    selection::ImageReader,
    source::{
        SharedSource, Source, SourceListing,
        transformed::{MovedComponent, Record, Split, Spool, SpoolPosition, Spools, Transformed, What},
    },
};

/// A recipe as text, with the roles of the components that it changes too, and the codec that applies it: the same text means the same bytes.
pub fn words(recipe: &Recipe, roles: &Roles) -> String {
    let mut words = Vec::new();
    let mut say = |is_said: bool, word: &str| {
        if is_said {
            words.push(word.to_owned());
        }
    };
    say(recipe.fix, "fix");
    say(recipe.rotate, "rotate");
    match recipe.resize {
        Some(Resize::Short(side)) => say(true, &format!("resize {side}")),
        Some(Resize::Exact { width, height }) => say(true, &format!("resize {width}x{height}")),
        None => {}
    }
    match recipe.encode {
        Some(Encode::Jpeg) => say(true, "encode jpeg"),
        Some(Encode::Png) => say(true, "encode png"),
        Some(Encode::Webp) => say(true, "encode webp"),
        None => {}
    }
    say(true, &format!("quality {}", recipe.quality));
    say(recipe.keep_icc, "icc");
    say(recipe.keep_exif, "exif");
    words.extend(roles.words());
    format!("{} ({ENGINE})", words.join(", "))
}

/// Applies `recipe` to all images of `found`, through a spool in `work`.
pub(super) fn transform(
    source: SharedSource,
    found: Vec<SourceListing>,
    (recipe, roles): (&Recipe, &Roles),
    work: &Path,
    jobs: usize,
    monitor: &dyn Monitor,
) -> Result<(SharedSource, Vec<SourceListing>)> {
    let (spool, known) = Spool::open(&work.join(SPOOL_FILE), &words(recipe, roles))?;
    let maker = Maker { source: source.as_ref(), recipe, roles, spool, known, jobs, monitor };
    let mut made = Outcomes::new(&found, recipe, roles);
    for (split, one) in found.iter().enumerate() {
        for (number, sample) in maker.make(one, 0..one.listing.len())? {
            made.set(split, number, 1, sample)?;
        }
    }
    let names = Arc::new(vec![SPOOL_FILE.to_owned()]);
    Ok(made.into_source(source, found, Spools { storage: Arc::new(Local::new(work)), names }))
}

/// Preprocesses images, and the components that move with them, into a spool.
pub(super) struct Maker<'a> {
    pub source: &'a dyn Source,
    pub recipe: &'a Recipe,
    pub roles: &'a Roles,
    pub spool: Spool,
    /// Records of the spool, by key.
    pub known: HashMap<u128, Record>,
    pub jobs: usize,
    pub monitor: &'a dyn Monitor,
}

/// Records of one sample.
#[derive(Clone, Debug)]
pub(super) struct MadeSample {
    pub image: Record,
    /// For each component that moves, in the order of the components; the text is the form of a changed array.
    pub components: Vec<Record>,
}

impl Maker<'_> {
    /// Results for the samples of a split with these numbers, in this order.
    pub fn make(&self, found: &SourceListing, numbers: Range<u64>) -> Result<Vec<(u64, MadeSample)>> {
        let listing = &found.listing;
        let columns = self.roles.columns(found);
        let reader = ImageReader::open(self.source, found.split.as_deref(), listing, self.monitor)?;
        let work = |number, buffer: &mut Vec<u8>| {
            let key = key(found.split.as_deref(), listing, number, &columns);
            if let Some(known) = self.known_sample(key, &columns) {
                return Ok(Some(known));
            }
            // An unreadable image is not recorded in the spool: the next run reads it again.
            let Some(()) = reader.whole(number, buffer)? else { return Ok(None) };
            self.make_one(&reader, listing, number, key, &columns, buffer)
        };
        let mut samples = reader.each(Phase::Making, numbers.collect(), self.jobs, self.monitor, work)?;
        reader.unchanged()?;
        let refused = |text| MadeSample {
            image: Record { what: What::Refused, text, place: 0, bytes: 0 },
            components: vec![untouched(); columns.len()],
        };
        samples.extend(reader.into_unread().into_iter().map(|(number, why)| (number, refused(why))));
        samples.sort_unstable_by_key(|(number, _)| *number);
        Ok(samples)
    }

    /// The records of an earlier run. The record of the image comes last, so the others exist if it does.
    fn known_sample(&self, key: u128, columns: &[(usize, &Assigned)]) -> Option<MadeSample> {
        let image = self.known.get(&key)?.clone();
        let component = |(column, _)| self.known.get(&component_key(key, column)).cloned().unwrap_or_else(untouched);
        Some(MadeSample { image, components: (0..).zip(columns).map(component).collect() })
    }

    /// Changes the image in `bytes` and its components; `None` if a component cannot be read.
    fn make_one(
        &self,
        reader: &ImageReader<'_>,
        listing: &Listing,
        number: u64,
        key: u128,
        columns: &[(usize, &Assigned)],
        bytes: &[u8],
    ) -> Result<Option<MadeSample>> {
        let Self { recipe, spool, .. } = self;
        let components = vec![untouched(); columns.len()];
        let refuse = |why: &str| {
            let image = spool.add(key, What::Refused, why, &[])?;
            Ok(Some(MadeSample { image, components: vec![untouched(); columns.len()] }))
        };
        let called = named(listing.name(number)).filter(|_| recipe.fix && recipe.encode.is_none());
        let of_name = called.map(|encode| Recipe { encode: Some(encode), ..(*recipe).clone() });
        let made = match apply_within(bytes, of_name.as_ref().unwrap_or(recipe), decoding::budget()) {
            Ok(made) => made,
            Err(refused) => return refuse(&decoding::verdict(&refused, || listing.shown(number))?),
        };
        let mut sample = MadeSample { image: untouched(), components };
        if !columns.is_empty() {
            let movement = match Movement::of(bytes, recipe, &decoding::budget().limits()) {
                Ok(movement) => movement,
                Err(refused) => return refuse(&decoding::verdict(&refused, || listing.shown(number))?),
            };
            let mut content = Vec::new();
            for (column, (which, assigned)) in columns.iter().enumerate() {
                let Some(is_there) = reader.component(number, *which, &mut content)? else { return Ok(None) };
                if !is_there {
                    continue;
                }
                let moved = match moving::moved(assigned, &content, &movement, decoding::budget()) {
                    Ok(moved) => moved,
                    Err(failure) => {
                        let why = match failure {
                            Failure::Bad(why) => why,
                            Failure::Refused(refused) => decoding::verdict(&refused, || listing.shown(number))?,
                        };
                        return refuse(&format!("{}: {why}", assigned.name));
                    }
                };
                if let Some(moved) = moved {
                    let (key, form) = (component_key(key, column), moved.form.to_string());
                    sample.components[column] = spool.add(key, What::Made, &form, &moved.content)?;
                }
            }
        }
        sample.image = match made {
            Applied::Untouched => spool.add(key, What::Untouched, "", &[])?,
            Applied::Made { bytes, changes, .. } => spool.add(key, What::Made, &in_words(&changes), &bytes)?,
        };
        Ok(Some(sample))
    }
}

/// Stands for a component that the source has as it is.
fn untouched() -> Record {
    Record { what: What::Untouched, text: String::new(), place: 0, bytes: 0 }
}

/// Kind of a file by its name, if it can be encoded: `fix` re-encodes a file as the kind of its name.
fn named(name: &[u8]) -> Option<Encode> {
    let at = name.iter().rposition(|byte| *byte == b'.')?;
    match name[at + 1..].to_ascii_lowercase().as_slice() {
        b"jpg" | b"jpeg" => Some(Encode::Jpeg),
        b"png" => Some(Encode::Png),
        b"webp" => Some(Encode::Webp),
        _ => None,
    }
}

/// Key of an unchanged sample, to find it after a crash: hash of split, path, length, stamp and place, and, if components move, of all that
/// identifies the content of the components.
fn key(split: Option<&str>, listing: &Listing, number: u64, columns: &[(usize, &Assigned)]) -> u128 {
    let entry = listing.entry(number);
    let (mut path, mut text) = (Vec::new(), split.unwrap_or_default().as_bytes().to_vec());
    listing.path(number, &mut path);
    text.push(0);
    text.extend_from_slice(&path);
    text.extend_from_slice(&entry.bytes.to_le_bytes());
    text.extend_from_slice(&entry.stamp.to_le_bytes());
    text.extend_from_slice(&entry.place.to_le_bytes());
    if !columns.is_empty() {
        for (cell, content) in listing.components().content_of(number) {
            text.extend_from_slice(&cell.bytes.to_le_bytes());
            match content {
                Some(content) => text.extend_from_slice(&hash::content(content).to_le_bytes()),
                None => text.extend_from_slice(&cell.stamp.to_le_bytes()),
            }
        }
    }
    hash::content(&text)
}

/// Key of a component of the sample with `key`: the one in the column with this number, of those that move.
fn component_key(key: u128, column: usize) -> u128 {
    hash::content(&[&key.to_le_bytes()[..], &(column as u64).to_le_bytes()].concat())
}

fn in_words(changes: &[Change]) -> String {
    changes.iter().map(Change::to_string).collect::<Vec<_>>().join(", ")
}

/// Result for an image or a component.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Outcome {
    pub what: What,
    /// Length in bytes of the new image.
    pub bytes: u32,
    /// Its place, and the number of its spool, counted from 1; 0 if not set yet.
    pub place: u64,
    pub spool: u32,
    /// Of a component that is an array: the number of its form in [`Outcomes::forms`]; else [`Forms::BYTES`].
    pub form: u32,
}

impl Outcome {
    const UNKNOWN: Self = Self { what: What::Untouched, bytes: 0, place: 0, spool: 0, form: Forms::BYTES };

    /// From a record, without a spool and a form yet.
    pub fn from_record(record: &Record) -> Self {
        Self { what: record.what, bytes: record.bytes, place: record.place, ..Self::UNKNOWN }
    }

    /// Where it is, if it is in a spool.
    fn position(&self) -> Option<SpoolPosition> {
        let spool = NonZeroU32::new(self.spool).filter(|_| self.what == What::Made)?;
        Some(SpoolPosition { place: self.place, spool })
    }
}

/// Results for all images, by split and number.
pub(super) struct Outcomes {
    splits: Vec<Vec<Outcome>>,
    /// Components that move, by split: the columns, and the results, for each sample as many as there are columns.
    components: Vec<(Vec<usize>, Vec<Outcome>)>,
    /// Forms of components.
    pub forms: Interner,
    /// Names and roles of the components that move.
    moved: Vec<(String, Role)>,
    /// Change or reason of refusal, for images in the ledger.
    texts: Vec<BTreeMap<u64, String>>,
    /// Number of images by change.
    changes: BTreeMap<String, u64>,
    names_changed: bool,
}

impl Outcomes {
    /// Results for images that are all unknown yet.
    pub fn new(found: &[SourceListing], recipe: &Recipe, roles: &Roles) -> Self {
        let columns = |one: &SourceListing| roles.columns(one).into_iter().map(|(which, _)| which).collect::<Vec<_>>();
        let of_split = |one: &SourceListing| {
            let columns = columns(one);
            let unknown = vec![Outcome::UNKNOWN; one.listing.len() as usize * columns.len()];
            (columns, unknown)
        };
        Self {
            splits: found.iter().map(|one| vec![Outcome::UNKNOWN; one.listing.len() as usize]).collect(),
            components: found.iter().map(of_split).collect(),
            forms: Interner::default(),
            moved: roles.moved().map(|one| (one.name.clone(), one.role)).collect(),
            texts: vec![BTreeMap::new(); found.len()],
            changes: BTreeMap::new(),
            names_changed: names_changed(recipe),
        }
    }

    /// Number of components that move in a split.
    pub fn columns(&self, split: usize) -> usize {
        self.components[split].0.len()
    }

    /// Sets the results of an existing sample, which are in `spool`.
    pub fn set(&mut self, split: usize, number: u64, spool: u32, sample: MadeSample) -> Result<()> {
        let MadeSample { image, components } = sample;
        if image.what == What::Made {
            count_changes(&mut self.changes, &image.text, 1);
        }
        self.put(split, number, Outcome { spool, ..Outcome::from_record(&image) });
        for (column, record) in components.iter().enumerate() {
            let form = form_of(record, &mut self.forms)?;
            self.put_component(split, number, column, Outcome { spool, form, ..Outcome::from_record(record) });
        }
        if image.what == What::Refused || (image.what == What::Made && self.names_changed) {
            self.texts[split].insert(number, image.text);
        }
        Ok(())
    }

    /// Sets the result of an image whose changes are counted already.
    pub fn put(&mut self, split: usize, number: u64, outcome: Outcome) {
        self.splits[split][number as usize] = outcome;
    }

    /// Sets the result of a component: the one in the column with this number, of those that move.
    pub fn put_component(&mut self, split: usize, number: u64, column: usize, outcome: Outcome) {
        let (columns, outcomes) = &mut self.components[split];
        outcomes[number as usize * columns.len() + column] = outcome;
    }

    /// Sets the change, or the reason of refusal, of an image in the ledger.
    pub fn put_text(&mut self, split: usize, number: u64, text: String) {
        self.texts[split].insert(number, text);
    }

    /// Counts changes of many images.
    pub fn count(&mut self, change: &str, images: u64) {
        count_changes(&mut self.changes, change, images);
    }

    /// The source and its contents after all images were preprocessed into `spools`.
    pub fn into_source(
        self,
        source: SharedSource,
        found: Vec<SourceListing>,
        spools: Spools,
    ) -> (SharedSource, Vec<SourceListing>) {
        let mut notes = self.notes();
        notes.extend(self.notes_of_components(&found));
        let (mut splits, mut after) = (Vec::new(), Vec::new());
        let forms = self.forms.finish();
        let results = self.splits.into_iter().zip(self.components).zip(self.texts);
        for (one, ((outcomes, components), texts)) in found.into_iter().zip(results) {
            let (split, found) =
                transformed_split(one, &outcomes, &Components { of: components, forms: &forms }, &texts);
            splits.push(split);
            after.push(found);
        }
        share_forms(&mut after);
        if let Some(first) = after.first_mut() {
            first.notes.extend(notes);
        }
        (Arc::new(Transformed::new(source, spools, splits)), after)
    }

    fn notes(&self) -> Vec<String> {
        let several = Change::FirstOfSeveral.to_string();
        let changes = self.changes.iter().filter(|(change, _)| **change != several);
        let all: Vec<_> = changes.map(|(change, images)| format!("{images} {change}")).collect();
        let mut notes = vec![match all.is_empty() {
            true => "no image had to be changed".to_owned(),
            false => format!("images changed: {}", all.join(", ")),
        }];
        if let Some(images) = self.changes.get(&several) {
            let images = size::counted(*images, "image");
            notes.push(format!("{images} had more pages or frames: only the first of each was kept"));
        }
        notes
    }

    /// How many of each component moved.
    fn notes_of_components(&self, found: &[SourceListing]) -> Vec<String> {
        let note = |(name, role): &(String, Role)| {
            let (mut moved, mut all) = (0, 0);
            for (split, one) in found.iter().enumerate() {
                let (table, (columns, outcomes)) = (one.listing.components(), &self.components[split]);
                let Some(column) = columns.iter().position(|which| table.kinds[*which].name() == name) else {
                    continue;
                };
                for number in 0..one.listing.len() {
                    let is_there = table.cells_of(number)[columns[column]].length().is_some();
                    let is_packed = self.splits[split][number as usize].what != What::Refused;
                    all += u64::from(is_there && is_packed);
                    let outcome = outcomes[number as usize * columns.len() + column];
                    moved += u64::from(is_packed && outcome.what == What::Made);
                }
            }
            format!("component {name} as {role}: moved in {moved} of {}", size::counted(all, "sample"))
        };
        self.moved.iter().map(note).collect()
    }
}

/// Number of the form in a component's record.
pub(super) fn form_of(record: &Record, forms: &mut Interner) -> Result<u32> {
    let form: Form = if record.what == What::Made { record.text.parse()? } else { Form::Bytes };
    Ok(if form == Form::Bytes { Forms::BYTES } else { forms.number(&form) })
}

/// Results for the components of a split that move.
struct Components<'a> {
    /// The columns, and the results, for each sample as many as there are columns.
    of: (Vec<usize>, Vec<Outcome>),
    forms: &'a [Form],
}

impl Components<'_> {
    /// The components of `listing`, of which `kept` are kept, in this order, and the places of those that move.
    fn after(&self, before: &Listing, kept: &[u64]) -> (ComponentTable, Vec<MovedComponent>) {
        let (columns, outcomes) = &self.of;
        let mut table = before.components().clone();
        let mut forms = Interner::of(&table.forms);
        let mut moved = Vec::new();
        for (column, which) in columns.iter().enumerate() {
            let is_typed = table.kinds[*which].kind().is_some();
            let mut places = vec![None; kept.len()];
            for (at, number) in kept.iter().enumerate() {
                let outcome = &outcomes[*number as usize * columns.len() + column];
                let Some(place) = outcome.position() else { continue };
                places[at] = Some(place);
                let cell = &mut table.cells[at * table.kinds.len() + which];
                cell.bytes = outcome.bytes;
                if let Some(form) = self.forms.get(outcome.form as usize).filter(|_| is_typed) {
                    cell.form = forms.number(form);
                }
            }
            moved.push(MovedComponent { name: table.kinds[*which].name().to_owned(), places: Arc::new(places) });
        }
        table.forms = forms.finish();
        (table, moved)
    }
}

/// Gives the listings of one source the same forms, and only those that samples have.
fn share_forms(found: &mut [SourceListing]) {
    if found.iter().all(|one| one.listing.components().forms.is_empty()) {
        return;
    }
    let mut forms = Interner::default();
    let mut tables: Vec<ComponentTable> = found.iter().map(|one| one.listing.components().clone()).collect();
    for table in &mut tables {
        let before = Arc::clone(&table.forms);
        let mut number = |form: &mut u32| {
            if let Some(known) = before.get(*form as usize) {
                *form = forms.number(known);
            }
        };
        table.payload_forms.iter_mut().for_each(&mut number);
        table.cells.iter_mut().filter(|cell| cell.length().is_some()).for_each(|cell| number(&mut cell.form));
    }
    let forms = forms.finish();
    for (one, table) in found.iter_mut().zip(tables) {
        one.listing = Arc::new(one.listing.with_values(&[], ComponentTable { forms: Arc::clone(&forms), ..table }));
    }
}

/// Counts each of the changes in `text`.
pub(super) fn count_changes(changes: &mut BTreeMap<String, u64>, text: &str, images: u64) {
    for change in text.split(", ") {
        let word = change.strip_prefix("resized ").map_or(change, |_| "resized");
        *changes.entry(word.to_owned()).or_default() += images;
    }
}

/// Whether the ledger lists changed images. If all are changed, listing each would be no information.
pub(super) fn names_changed(recipe: &Recipe) -> bool {
    recipe.resize.is_none() && recipe.encode.is_none()
}

/// Contents of one split after preprocessing.
fn transformed_split(
    found: SourceListing,
    outcomes: &[Outcome],
    components: &Components<'_>,
    texts: &BTreeMap<u64, String>,
) -> (Split, SourceListing) {
    let listing = Arc::clone(&found.listing);
    let of = |number: u64| &outcomes[number as usize];
    let kept: Vec<u64> = (0..listing.len()).filter(|number| of(*number).what != What::Refused).collect();
    let before = Arc::new(listing.chosen(&listing.classes, Some, |number| of(number).what != What::Refused));
    let places: Vec<Option<SpoolPosition>> = kept.iter().map(|number| of(*number).position()).collect();
    let after = before.with_bytes(|number, bytes| {
        let outcome = of(kept[number as usize]);
        if outcome.what == What::Made { outcome.bytes } else { bytes }
    });
    let (table, moved) = components.after(&before, &kept);
    let after = after.with_values(&[], table);
    let mut unpacked = found.unpacked.clone();
    unpacked.extend(texts.iter().map(|(number, text)| {
        let mut path = Vec::new();
        listing.path(*number, &mut path);
        let (fate, reason) = match of(*number).what {
            What::Refused => (Fate::Skipped, text.clone()),
            What::Made | What::Untouched => (Fate::Kept, format!("changed: {text}")),
        };
        Unpacked { path, class: listing.class(*number), fate, reason: reason.into() }
    }));
    unpacked.sort_by(order);
    let split = Split { name: found.split.clone(), before, places: Arc::new(places), moved };
    let before = Some(Arc::new(found.clone()));
    (split, SourceListing { listing: Arc::new(after), unpacked, kinds: BTreeMap::new(), before, ..found })
}

/// Kind of an image of `kind` after the recipe.
pub(super) fn becomes(kind: Kind, recipe: &Recipe) -> Kind {
    let is_odd = recipe.fix && matches!(kind, Kind::Gif | Kind::Bmp | Kind::Tiff | Kind::Pnm);
    match recipe.encode {
        Some(encode) => encode.kind(),
        None if is_odd || recipe.resize.is_some() => Encode::like(kind).kind(),
        None => kind,
    }
}

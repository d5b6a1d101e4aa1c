//! Reads images and labels from the entries of an environment, whatever script wrote them.
//!
//! The first values decide the coding, not names, see `detect.rs`; the user can override it. A label is in the value, under a
//! separate key (`label-000000001`), in a separate database, in the key, in the name of the environment (LSUN), or in a file.
//!
//! Memory holds one value, or two batches of [`BATCH_BYTES`] plus a value each, which other threads parse. An invalid value
//! is reported for its sample, and the walk continues.

use std::{
    borrow::Cow,
    collections::{BTreeMap, VecDeque},
    mem,
    ops::Range,
    sync::Arc,
};

use shardpack_format::{
    Error, Result,
    field_names::{self, LABELS},
    formats::foreign::{self, FieldSelection, Image, Label, Other, Record},
    help,
    image_header::{Kind, SNIFF_BYTES},
    size, text,
};

use super::{
    super::{
        FileLocation, MissingImage,
        key_labels::{self, KeyLabels},
    },
    Database, Entry, Environment, Walk,
    batch::{Ahead, BATCH_BYTES, BATCH_ENTRIES, Batch, Decode},
    coding::Coding,
    detect::{Detected, detect, is_sample},
    fields::{self, Field},
    image_recipe::{ImageContent, recipe, within},
    labels::{IMAGE_KEY, LABEL_KEY, Labels, folder_of},
    metadata::Metadata,
    overrides::{LabelFrom, Overrides},
    pattern::label,
    values::{IMAGES, ValueSample},
};

/// Entries of an environment that may all be names of databases.
const MAX_NAMES: u64 = 1 << 16;
/// Longest value in bytes that several samples with images share: each of them reads the whole value to get its other fields.
const MAX_SHARED_BYTES: u64 = 4 << 20;
/// Name of basicsr's list in messages.
const META_INFO: &str = "meta_info.txt";

/// Starts to walk an environment.
///
/// # Errors
/// If the file is no environment or is corrupt, or the coding of its values is unknown: then the error shows the first
/// values.
pub fn walk(file: impl Into<FileLocation>, wanted: &FieldSelection) -> Result<Box<dyn foreign::Walk>> {
    let said = Overrides::parse(&wanted.entries)?;
    let environment = Environment::open(file)?;
    let path = environment.path();
    // To list names is to read every leaf, and an environment of databases alone has a few.
    let names = if environment.entries() <= MAX_NAMES { environment.names()? } else { Vec::new() };
    let is_named = !names.is_empty() && names.len() as u64 == environment.entries();
    let named = |wanted: &Option<String>, likely: &[&str]| -> Result<Option<Vec<u8>>> {
        let is = |name: &str| names.iter().any(|known| known == name.as_bytes());
        match wanted {
            // Though there are entries beside.
            Some(name) if is(name) => Ok(Some(name.clone().into_bytes())),
            Some(name) if is_named => {
                let names: Vec<_> = names.iter().map(|name| text::shown(name).to_string()).collect();
                Err(Error::usage(format!("no database {name:?}, there is {}", names.join(", "))).in_file(path))
            }
            _ if is_named => {
                let shown: Vec<_> = names.iter().map(|name| String::from_utf8_lossy(name)).collect();
                let found = field_names::ranked(shown.iter().map(|name| &**name), likely);
                Ok(found.first().map(|(place, _)| names[*place].clone()))
            }
            _ => Ok(None),
        }
    };
    let image = match (named(&wanted.image, &IMAGES)?, &*names) {
        (None, [one]) if is_named => Some(one.clone()),
        (None, [_, _, ..]) if is_named => {
            let names: Vec<_> = names.iter().map(|name| text::shown(name).to_string()).collect();
            let what = format!("several databases, and no name shows which holds the images: {}", names.join(", "));
            return Err(Error::usage(what).in_file(path).help(help::WHICH_IMAGES));
        }
        (image, _) => image,
    };
    // A database that was named is all that is meant.
    let is_named = is_named || image.is_some();
    let database = environment.database(image.as_deref())?;
    let of_labels = match said.label {
        Some(_) => None,
        None if wanted.no_labels => None,
        None => named(&wanted.label, &LABELS)?.filter(|label| Some(label) != image.as_ref()),
    };
    let passed = match is_named {
        true => others(&environment, &names, [&image, &of_labels])?,
        false => BTreeMap::new(),
    };
    let labels = Labels::detect(&environment, &database, said.label, of_labels)?;
    let label_list = said.label_file.as_deref().map(KeyLabels::of_labels).transpose()?;
    let Detected { coding, are_paths } = detect(&database, &said)?;
    let is_basicsr = said.dialect.is_some_and(|dialect| dialect.is_basicsr);
    let may_be = coding == Coding::Image && (is_basicsr || said.dialect.is_none());
    let read = || environment.place().read_beside(META_INFO, key_labels::MAX_BYTES);
    let list = if may_be { read()? } else { None };
    let mut notes = Vec::new();
    if is_basicsr && list.is_none() {
        notes.push("meta_info.txt, which names the images, is missing".to_owned());
    }
    let mut lost: Vec<Error> = environment.damage().into_iter().collect();
    lost.extend(unread(&environment, &names, is_named)?);
    // A database was meant, not a field.
    let wanted = match is_named {
        true => FieldSelection {
            label_number: wanted.label_number,
            no_labels: wanted.no_labels,
            ..FieldSelection::default()
        },
        false => wanted.clone(),
    };
    Ok(Box::new(Samples {
        walk: database.walk()?,
        claims: Metadata::read(&database)?,
        names: list.map(|(path, text)| KeyLabels::of_meta_info(&path, &text)).transpose()?,
        database,
        labels,
        label_list,
        coding,
        are_paths,
        of_database: image.filter(|_| is_named),
        decode: Arc::new(Decode { coding, header_bytes: said.header_bytes, wanted: wanted.clone() }),
        wanted,
        said,
        value: Vec::new(),
        ahead: None,
        read_ahead: None,
        ready: VecDeque::new(),
        image: None,
        entries: 0,
        samples: 0,
        of_planes: 0,
        in_folders: 0,
        passed,
        labelled: 0,
        has_ended: false,
        lost,
        notes,
    }))
}

/// Number of entries of each database that is not read.
fn others(
    environment: &Arc<Environment>,
    names: &[Vec<u8>],
    read: [&Option<Vec<u8>>; 2],
) -> Result<BTreeMap<String, u64>> {
    let others = names.iter().filter(|name| read.into_iter().flatten().all(|read| read != *name));
    let count = |name: &Vec<u8>| {
        let entries = environment.database(Some(name))?.entries();
        Ok((format!("entry of database {}", text::shown(name)), entries))
    };
    others.map(count).collect()
}

/// Reports databases beside the entries that are not read.
fn unread(environment: &Arc<Environment>, names: &[Vec<u8>], is_named: bool) -> Result<Vec<Error>> {
    let unread = |name: &Vec<u8>| {
        let entries = environment.database(Some(name))?.entries();
        let shown = text::shown(name);
        Ok(Error::data(format!(
            "database {shown:?} of {} beside entries that are samples: it is not read",
            size::counted(entries, "entry")
        )))
    };
    if is_named { Ok(Vec::new()) } else { names.iter().map(unread).collect() }
}

/// A sample, the range that its image is built from, and the recipe.
type Ready = (Record, Option<(Range<u64>, u32)>);

/// The samples of an environment, in the order of its pages.
struct Samples {
    walk: Walk,
    database: Database,
    labels: Labels,
    /// The labels in a file, if they are there.
    label_list: Option<KeyLabels>,
    /// Names of images by key, if basicsr's list exists.
    names: Option<KeyLabels>,
    claims: Metadata,
    coding: Coding,
    are_paths: bool,
    /// The database with the images, if there are several.
    of_database: Option<Vec<u8>>,
    said: Overrides,
    wanted: FieldSelection,
    value: Vec<u8>,
    /// How values are taken apart.
    decode: Arc<Decode>,
    /// The last batch that was read, which is being taken apart.
    ahead: Option<Ahead>,
    /// The entry after the batch, already read.
    read_ahead: Option<Result<Option<Entry>>>,
    /// Samples of the last values that are to come.
    ready: VecDeque<Ready>,
    /// Range of the image of the last record, and its recipe.
    image: Option<(Range<u64>, u32)>,
    /// Entries that are samples, and samples in them.
    entries: u64,
    samples: u64,
    /// Images that were planes of blue, green and red.
    of_planes: u64,
    /// Samples whose class is the folder of their key.
    in_folders: u64,
    /// Number of entries that are no samples, by kind.
    passed: BTreeMap<String, u64>,
    /// Number of entries with a label in the database of labels.
    labelled: u64,
    has_ended: bool,
    /// Missing and corrupt items, and warnings.
    lost: Vec<Error>,
    notes: Vec<String>,
}

impl Samples {
    /// Reads the image that an entry is.
    fn read_image(&mut self, entry: &Entry) -> Result<()> {
        let bytes = entry.value.end - entry.value.start;
        // Only the beginning of the value is needed.
        let looked_at = bytes.min(self.said.header_bytes + SNIFF_BYTES as u64);
        let mut value = mem::take(&mut self.value);
        self.database.read(entry.value.start..entry.value.start + looked_at, &mut value)?;
        let found = self.decode.found(&value, bytes);
        let taken = self.take(entry, &value, found);
        self.value = value;
        taken
    }

    /// Reads the values of an entry and of the entries after it. Other threads parse these values while the caller takes
    /// earlier samples.
    fn read_batch(&mut self, first: Entry) {
        let mut batch = Batch::default();
        let mut next = Some(first);
        while let Some(entry) = next.take() {
            let start = batch.values.len();
            match self.walk.value(&entry) {
                Some(value) => batch.values.extend_from_slice(value),
                None => match self.database.read(entry.value.clone(), &mut self.value) {
                    Ok(()) => batch.values.extend_from_slice(&self.value),
                    Err(error) => {
                        self.read_ahead = Some(Err(error));
                        break;
                    }
                },
            }
            batch.entries.push((entry, start..batch.values.len()));
            if batch.values.len() >= BATCH_BYTES || batch.entries.len() >= BATCH_ENTRIES {
                break;
            }
            match self.walk.next() {
                Ok(Some(entry)) if !self.is_odd(&entry) => next = Some(entry),
                other => self.read_ahead = Some(other),
            }
        }
        let (decode, threads) = (Arc::clone(&self.decode), rayon::current_num_threads());
        let before = self.ahead.replace(Ahead::begin(batch, decode, threads));
        if let Some(before) = before {
            self.take_batch(before);
        }
    }

    /// Takes the samples of a batch.
    fn take_batch(&mut self, batch: Ahead) {
        let batch = batch.end();
        for ((entry, place), found) in batch.entries.iter().zip(batch.found) {
            if let Err(error) = self.take(entry, &batch.values[place.clone()], found) {
                // The error is returned after the entries before it.
                (self.read_ahead, self.ahead) = (Some(Err(error)), None);
                return;
            }
        }
    }

    /// Takes the parsed value of an entry.
    fn take(&mut self, entry: &Entry, value: &[u8], found: Vec<ValueSample>) -> Result<()> {
        self.entries += 1;
        self.samples += found.len() as u64;
        if let Some(keys) = &mut self.claims.keys {
            keys.get(&entry.key);
        }
        let several = found.len() > 1;
        let beside = if several { None } else { self.labels.beside(&self.database, &entry.key)? };
        self.labelled += u64::from(beside.as_ref().is_some_and(|label| *label != Label::Missing));
        for (number, one) in found.into_iter().enumerate() {
            let record = self.record(entry, value, one, several.then_some(number), beside.as_ref());
            self.ready.push_back(record);
        }
        Ok(())
    }

    /// The label of the sample `key` from the location that the user chose; and the name of the sample, if the key has one.
    fn label_said(&mut self, key: &[u8], value: &[u8]) -> (Option<Label>, Option<Vec<u8>>) {
        let told = match &self.said.pattern {
            None => None,
            Some(pattern) => match pattern.read(key) {
                Some(told) => Some(told),
                None => return (Some(Label::Unfit("the key does not match --key-pattern".to_owned())), None),
            },
        };
        let (in_key, name) = told.map_or((None, None), |told| (Some(told.label), told.name));
        let label = match &self.labels {
            Labels::Said(LabelFrom::Key) => Some(in_key.unwrap_or_else(|| match folder_of(key) {
                Some(folder) => Label::Name(folder),
                None => Label::Unfit("the key has no folder; set the place of the label with --key-pattern".to_owned()),
            })),
            Labels::Said(LabelFrom::Header(integer)) => Some(integer.label(value)),
            Labels::Said(LabelFrom::File) => {
                let said = self.label_list.as_mut().and_then(|list| list.get(key));
                let none = || Label::Unfit(format!("{} has no label for the key", self.said.label_name()));
                Some(said.map_or_else(none, label))
            }
            _ => None,
        };
        (label, name)
    }

    fn record(
        &mut self,
        entry: &Entry,
        value: &[u8],
        found: ValueSample,
        number: Option<usize>,
        beside: Option<&Label>,
    ) -> Ready {
        let ValueSample { mut held, label, filename, others, mut fields, image_field, label_field } = found;
        let is_beyond = number.is_some_and(|number| number >= fields::MAX_SAMPLES) && !fields.is_empty();
        if is_beyond && image_field.is_none() {
            let what = format!("more than {} samples of values in one entry, the limit for one", fields::MAX_SAMPLES);
            (held, fields) = (Err(MissingImage::NoImage(what)), Vec::new());
        }
        let mut key = entry.key.clone();
        if let Some(number) = number {
            key.extend_from_slice(format!("/{number}").as_bytes());
        }
        let (said, name) = self.label_said(&key, value);
        let label = said.or_else(|| beside.cloned()).unwrap_or(label);
        let listed = self.names.as_mut().and_then(|names| names.get(&key)).map(<[u8]>::to_vec);
        let is_name = number.is_none() && (entry.key.contains(&b'/') || entry.key.contains(&b'.'));
        let class = match &self.labels {
            Labels::One(class) => Some(class.clone()),
            // As in an ImageFolder, if there is no other label.
            _ if label == Label::Missing && is_name => folder_of(&entry.key),
            _ => None,
        };
        self.in_folders += u64::from(class.is_some() && !matches!(self.labels, Labels::One(_)));
        let label_name = match (&self.labels, &self.wanted.label) {
            (Labels::Database(_, name), _) => name.clone(),
            (Labels::InValue, _) if label_field.is_some() => label_field.unwrap_or_default(),
            (Labels::InValue, Some(name)) if label != Label::Missing => name.clone(),
            _ => String::new(),
        };
        let start = entry.value.start + self.said.header_bytes;
        self.of_planes += u64::from(matches!(held, Ok(ImageContent::BluePlanes(_))));
        let image = held.and_then(|held| {
            let (place, bytes, recipe) = recipe(&held).map_err(MissingImage::NoImage)?;
            let bytes = u32::try_from(bytes).map_err(|_| MissingImage::no_image("an image of 4 GiB or more"))?;
            let fetch = start + place.start as u64..start + place.end as u64;
            let offset = fetch.start;
            Ok(Image { name: String::new(), fetch, bytes, offset, in_parts: recipe != 0, recipe })
        });
        if image.is_err() && image_field.is_some() {
            // Without the image that is there, they are no sample.
            fields.iter_mut().for_each(|field| field.form = Err("beside an image that cannot be read".to_owned()));
        }
        let place = image.as_ref().ok().map(|image| (image.fetch.clone(), image.recipe));
        // An array beside an image that is stored unchanged is fetched from its own range. Other fields are fetched as part
        // of the whole value and count the length fetched for the image: of a long value, too much for each of its samples.
        let is_long = number.is_some() && entry.value.end - entry.value.start > MAX_SHARED_BYTES;
        fields.iter_mut().for_each(|field| match (image_field, &field.place) {
            (None, _) => field.place = None,
            (Some(_), None) if is_long || is_beyond => field.form = Err("in too long a value".to_owned()),
            (Some(_), _) => {}
        });
        let sample = number.unwrap_or(0);
        let is_made = fields.iter().any(|field| field.place.is_none() && field.form.is_ok());
        let whole = image_field.filter(|_| is_made).and_then(|field| within(self.coding, sample, field));
        let image = image.map(|image| match whole {
            Some(recipe) => Image { fetch: start..entry.value.end, offset: start, in_parts: true, recipe, ..image },
            None => image,
        });
        let others = others.into_iter().map(|(name, place)| Other {
            name,
            bytes: place.as_ref().map_or(0, |place| place.len() as u64),
            offset: place.map(|place| start + place.start as u64),
            recipe: 0,
            form: None,
        });
        let coding = self.coding;
        let of_field = |Field { name, number: field, form, place }: Field| {
            let (form, bytes) = form.ok().unzip();
            // A failed sample has no position.
            let (offset, recipe) = match place {
                Some(place) => (form.as_ref().map(|_| start + place.start as u64), None),
                None => {
                    let recipe = form.as_ref().and_then(|_| fields::recipe(coding, sample, field));
                    (recipe.map(|_| start), recipe)
                }
            };
            Other { name, bytes: bytes.unwrap_or(0), offset, recipe: recipe.unwrap_or(0), form }
        };
        let others = others.chain(fields.into_iter().map(of_field));
        let is_damaged = matches!(image, Err(MissingImage::Damaged(_)));
        let record = Record {
            others: others.collect(),
            range: entry.value.clone(),
            key,
            key_is_unique: true,
            filename: name.or(filename).or(listed).or_else(|| is_name.then(|| entry.key.clone())),
            class,
            label_name,
            labels: usize::from(label != Label::Missing),
            label,
            is_damaged,
            image: image.map_err(MissingImage::what),
        };
        (record, place)
    }

    /// Checks that need all entries.
    fn end(&mut self) {
        self.has_ended = true;
        let (missing, odd) = self.claims.differences(self.entries, self.samples);
        self.lost.extend(missing.into_iter().map(Error::data));
        self.notes.extend(odd);
        if !self.are_paths && self.in_folders > 0 {
            let (some, all) = (self.in_folders, self.samples);
            self.notes.push(format!(
                "the keys of {some} of {all} samples have a folder, which is their class; the first have none"
            ));
        }
        if self.of_planes > 0 {
            self.notes.push(format!(
                "three planes in {} are blue, green and red, as Caffe's tools write them: made red, green and blue",
                size::counted(self.of_planes, "Datum")
            ));
        }
        if let Labels::Database(labels, name) = &self.labels {
            let unused = labels.entries().saturating_sub(self.labelled);
            if self.labelled == 0 && unused > 0 {
                self.lost.push(Error::data(format!("no entry of database {name:?} is the label of a sample")));
            } else if unused > 0 {
                self.passed.insert(format!("entry of database {name}"), unused);
            }
        }
        if let Some(list) = &self.label_list {
            let name = self.said.label_name();
            self.notes.extend(list.unknown(&name).into_iter().chain(list.unused(&name)));
        }
        if let Some(names) = &self.names {
            self.lost.extend(names.unused(META_INFO).map(Error::data));
            self.notes.extend(names.unknown(META_INFO));
        }
    }

    /// Counts an entry that is no sample.
    fn pass(&mut self, what: &str) {
        match self.passed.get_mut(what) {
            Some(entries) => *entries += 1,
            None => drop(self.passed.insert(what.to_owned(), 1)),
        }
    }

    /// Whether the key of an entry is no sample key. Other keys of such environments hold lexicons, paths and similar data.
    fn is_odd(&self, entry: &Entry) -> bool {
        !is_sample(&entry.key) || matches!(self.labels, Labels::Beside) && !entry.key.starts_with(IMAGE_KEY)
    }

    /// Reads an entry whose key is no sample key: the entry may be a sample all the same.
    fn read_odd(&mut self, entry: &Entry) -> Result<()> {
        let looked_at = (entry.value.end - entry.value.start).min(self.said.header_bytes + SNIFF_BYTES as u64);
        self.database.read(entry.value.start..entry.value.start + looked_at, &mut self.value)?;
        let first = self.value.get(self.said.header_bytes as usize..).unwrap_or_default();
        let is_image = self.coding == Coding::Image && Kind::detect(first) != Kind::Unknown;
        let number = entry.key.strip_prefix(LABEL_KEY);
        let shown = || text::shown(&entry.key).to_string();
        let lacking = |why: String| {
            let mut record = Record::numbered(entry.value.clone(), 0, why);
            (record.key, record.key_is_unique) = (entry.key.clone(), true);
            (record, None)
        };
        match (&self.labels, number) {
            (Labels::Beside, Some(number)) => {
                let image = [IMAGE_KEY, number].concat();
                match self.database.get(&image)? {
                    Some(_) => self.pass("entry label-…"),
                    None => {
                        let why = format!("a label without its image: there is no {:?}", text::shown(&image));
                        self.ready.push_back(lacking(why));
                    }
                }
            }
            (Labels::Beside, None) if is_image => {
                self.ready.push_back(lacking("an image whose key does not begin with image-, as others do".to_owned()));
            }
            (Labels::Beside, None) if is_sample(&entry.key) => self.pass("entry that is neither image-… nor label-…"),
            _ if is_image => self.read_image(entry)?,
            (_, Some(_)) => self.pass("entry label-…"),
            (_, None) => self.pass(&format!("entry {}", shown())),
        }
        Ok(())
    }
}

impl foreign::Walk for Samples {
    fn next(&mut self) -> Result<Option<Record>> {
        while self.ready.is_empty() {
            let next = match self.read_ahead.take() {
                Some(next) => next,
                None => self.walk.next(),
            };
            match (next, self.ahead.take()) {
                (Ok(Some(entry)), ahead) if self.coding != Coding::Image && !self.is_odd(&entry) => {
                    self.ahead = ahead;
                    self.read_batch(entry);
                }
                // Those before it come first.
                (next, Some(ahead)) => {
                    self.read_ahead = Some(next);
                    self.take_batch(ahead);
                }
                (Ok(None), None) => {
                    if !self.has_ended {
                        self.end();
                    }
                    return Ok(None);
                }
                (Ok(Some(entry)), None) if self.is_odd(&entry) => self.read_odd(&entry)?,
                (Ok(Some(entry)), None) => self.read_image(&entry)?,
                (Err(error), None) => return Err(error),
            }
        }
        let (record, image) = self.ready.pop_front().unzip();
        self.image = image.flatten();
        Ok(record)
    }

    fn image(&mut self, out: &mut Vec<u8>) -> Result<()> {
        let (place, recipe) = self.image.clone().ok_or_else(|| Error::usage("the last record has no image"))?;
        self.database.read(place, out)?;
        if let Cow::Owned(bytes) = super::image(out, recipe)? {
            *out = bytes;
        }
        Ok(())
    }

    fn first(&mut self, out: &mut Vec<u8>) -> Result<()> {
        match &self.image {
            Some((place, 0)) => {
                let end = place.end.min(place.start + SNIFF_BYTES as u64);
                self.database.read(place.start..end, out)
            }
            _ => {
                self.image(out)?;
                out.truncate(SNIFF_BYTES);
                Ok(())
            }
        }
    }

    fn understood(&self) -> Vec<String> {
        let shown = |name: &[u8]| text::shown(name).to_string();
        let entries = match &self.of_database {
            Some(name) => format!("{} in database {:?}", size::counted(self.database.entries(), "entry"), shown(name)),
            None => size::counted(self.database.entries(), "entry"),
        };
        let header = match self.said.header_bytes {
            0 => String::new(),
            bytes => format!(" behind {bytes} bytes"),
        };
        let label = self.labels.describe(&self.said, self.coding, self.are_paths);
        let mut lines = vec![entries, format!("values {}{header}", self.coding.name()), format!("label {label}")];
        lines.extend(self.names.as_ref().map(|_| "names in meta_info.txt".to_owned()));
        lines
    }

    fn lost(&mut self) -> Vec<Error> {
        mem::take(&mut self.lost)
    }

    fn notes(&self) -> Vec<String> {
        self.notes.clone()
    }

    fn passed(&self) -> BTreeMap<String, u64> {
        self.passed.clone()
    }
}

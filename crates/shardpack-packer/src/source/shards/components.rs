//! Which fields of records go along as components, what they are, and where they lie.
//!
//! Holds at all times: a field that a record has goes along with its sample, or is counted among what was left out; of two
//! fields that would be one component, the first that is met is it.

use std::{
    borrow::Cow,
    cmp::Reverse,
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::Arc,
};

use shardpack_format::{
    Error, Result,
    component::{Component, Form, Kind, MOST, TEXT, Type},
    formats::foreign::Other,
    sample::Forms,
};

use super::{Scanned, open};
use crate::{
    component_table::{Cell, ComponentTable, Interner},
    source::{
        COMPONENT,
        options::{Components, Extensions, Options},
        payload::is_text,
    },
};

/// Names that a message tells.
const TOLD: usize = 64;

/// Extension of the label in a tar.
const LABEL: &str = "cls";
/// The component that it is where it is none that classes have.
const UNBELIEVED: &str = "cls.txt";

/// A field of some samples of a file.
struct Field {
    name: String,
    /// The component that it is; of the type of the first sample that has it, if of any.
    component: Component,
    /// Whether its values are single ones, which may be wider.
    is_single: bool,
}

/// A field of a sample.
struct Found {
    /// Number of the field.
    field: u32,
    bytes: u32,
    /// Number of its form, or [`Forms::BYTES`].
    form: u32,
    /// Length in bytes of what its form is wider, where it is a single value.
    wider_bytes: u32,
    /// Where and how it is fetched.
    stamp: i64,
}

/// Name of a field, the extension of its values where they are of a form, and whether they are single ones.
type Key = (String, Option<&'static str>, bool);

/// The fields of the samples of a file that may go along.
#[derive(Default)]
pub(super) struct Fields {
    /// Their names are extensions of files; the content of a field is a file, if it is nothing else.
    pub are_files: bool,
    /// They are beside an image, where single values are told as text unless others of their field are lists.
    pub are_beside: bool,
    all: Vec<Field>,
    /// Numbers of fields; `None` for those that cannot go along, or should not.
    known: HashMap<Key, Option<u32>>,
    /// Those of the last sample, in its order: most have the same fields in the same places.
    last: Vec<(Key, Option<u32>)>,
    /// Those of all samples end to end.
    found: Vec<Found>,
    forms: Interner,
    /// Of how many samples a field is there and cannot be had as it is.
    missed: BTreeMap<String, u64>,
}

impl Fields {
    /// Takes those of a sample, of which `wider` says what [`shardpack_format::formats::foreign::Walk::wider`] does, and says how
    /// many there are now.
    pub fn take(&mut self, others: &[Other], wider: &[Option<u32>], options: &Options) -> u64 {
        let first = self.found.len();
        for (at, other) in others.iter().enumerate() {
            let wider_bytes = wider.get(at).copied().flatten();
            let Some(field) = self.number(at, other, wider_bytes.is_some(), options) else { continue };
            let bytes = u32::try_from(other.bytes).ok().filter(|bytes| *bytes != Cell::ABSENT.bytes);
            let stamp = other.offset.and_then(|offset| open::component_stamp(offset, other.recipe));
            match (stamp, bytes) {
                (Some(stamp), Some(bytes)) if self.found[first..].iter().all(|known| known.field != field) => {
                    let form = value_form(other, self.are_files).map_or(Forms::BYTES, |form| self.forms.number(form));
                    self.found.push(Found { field, bytes, form, wider_bytes: wider_bytes.unwrap_or(0), stamp });
                }
                _ => *self.missed.entry(other.name.clone()).or_default() += 1,
            }
        }
        self.found.len() as u64
    }

    /// The number of a field, which is in place `at` of its sample.
    fn number(&mut self, at: usize, other: &Other, is_single: bool, options: &Options) -> Option<u32> {
        let is_text = is_single && self.are_beside;
        let extension = value_form(other, self.are_files).filter(|_| !is_text).map(Form::extension);
        if let Some((key, number)) = self.last.get(at)
            && (&*key.0, key.1, key.2) == (&*other.name, extension, is_single)
        {
            return *number;
        }
        let key = (other.name.clone(), extension, is_single);
        let number = match self.known.get(&key) {
            Some(known) => *known,
            None => self.new_number(&key, other, options),
        };
        self.last.truncate(at);
        self.last.push((key, number));
        number
    }

    /// The number of a field that has not been met.
    fn new_number(&mut self, key: &Key, other: &Other, options: &Options) -> Option<u32> {
        let is_single = key.2;
        let component = match is_single && self.are_beside {
            true => Component::field(&other.name).ok(),
            false => component(other, self.are_files),
        };
        let is_wanted = |one: &Component| match &options.components {
            // Samples of values have a payload all the same.
            Components::None => other.form.is_some(),
            Components::All => options.components.wants_field(&other.name),
            components => {
                // A single value may become another component than it is alone.
                let form = other.form.as_ref().filter(|_| is_single);
                let taken = form.into_iter().flat_map(|form| Taken::ALL.map(|taken| taken.form(form)));
                let mut values = taken.filter_map(|form| Component::value(&other.name, &form).ok());
                // An array in a `.npz` is a file in it, and called without extension, too.
                components.wants_field(&other.name)
                    || [one.name(), one.column()].iter().any(|name| components.wants(name))
                    || values.any(|one| components.wants(one.name()))
            }
        };
        let number = component.filter(is_wanted).map(|component| {
            self.all.push(Field { name: other.name.clone(), component, is_single });
            self.all.len() as u32 - 1
        });
        self.known.insert(key.clone(), number);
        number
    }
}

/// What the value is that a field has; `None` where it is bytes, or one of the files of a sample.
fn value_form(field: &Other, are_files: bool) -> Option<&Form> {
    field.form.as_ref().filter(|form| !are_files || **form != Form::Bytes)
}

/// The component that a field is, whose name is the extension of a file if such `are_files`; `None` where no component can be
/// called so.
pub(super) fn component(field: &Other, are_files: bool) -> Option<Component> {
    match value_form(field, are_files) {
        // Where it is not the label, which alone is called so.
        None if are_files && field.name == LABEL => Component::field(UNBELIEVED),
        None => Component::field(&field.name),
        Some(form) => Component::value(&field.name, form),
    }
    .ok()
}

/// What the components of all samples are, and which fields of each file they are.
#[derive(Default)]
pub(super) struct Settled {
    /// Those beside the payload.
    pub kinds: Vec<Component>,
    /// The payload, where samples have no images.
    pub payload: Option<Component>,
    /// The forms of all.
    pub forms: Arc<Vec<Form>>,
    /// What is known of fields, for other sources of the same dataset.
    pub extensions: Extensions,
    /// What a person should know.
    pub notes: Vec<String>,
    files: Vec<OfFile>,
}

/// The same of a file.
#[derive(Default)]
struct OfFile {
    /// What a field is, by its number.
    places: Vec<Option<Place>>,
    /// Numbers of forms among those of all, by their numbers in the file.
    forms: Vec<u32>,
    /// How the values of a field are taken, by its number.
    taken: Vec<Taken>,
    /// Numbers of the wider forms among those of all, by the numbers of the forms in the file.
    wider: Vec<u32>,
    /// Number of the form of bytes among those of all, where text is taken as such.
    bytes: u32,
}

/// How the values of a field are taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Taken {
    /// As they are.
    Itself,
    /// As their wider form: others of the field are of that kind.
    Wider,
    /// Text as bytes: others of the field are no text.
    Bytes,
    /// As the text that it is told as, of no form: it is beside an image, and so are others of the field.
    Told,
}

impl Taken {
    const ALL: [Self; 3] = [Self::Itself, Self::Wider, Self::Bytes];

    /// How single values with this form are taken where other values of their field have these extensions; `is_text` says that they are
    /// told as text.
    fn of(form: &Form, others: Option<&BTreeSet<&'static str>>, is_text: bool) -> Self {
        let have = |form: &Form| others.is_some_and(|others| others.contains(form.extension()));
        match form.wider() {
            Some(wider) if have(&wider) => Self::Wider,
            _ if is_text => Self::Told,
            Some(_) if *form == Form::Text && have(&Form::Bytes) => Self::Bytes,
            _ => Self::Itself,
        }
    }

    /// The form that is taken.
    fn form(self, form: &Form) -> Form {
        match self {
            Self::Wider => form.wider().unwrap_or_default(),
            Self::Bytes => Form::Bytes,
            Self::Itself | Self::Told => form.clone(),
        }
    }
}

/// Extensions of values of fields that are no single ones, by what the fields are called as components; `known` are those of other sources.
fn extensions(scanned: &[Scanned], known: &Extensions) -> Extensions {
    let mut own = BTreeMap::<&str, BTreeSet<&'static str>>::new();
    for Scanned { fields, .. } in scanned {
        for found in fields.found.iter().filter(|found| !fields.all[found.field as usize].is_single) {
            let form = fields.forms.forms().get(found.form as usize).map_or("", Form::extension);
            own.entry(&fields.all[found.field as usize].name).or_default().insert(form);
        }
    }
    let mut extensions = known.clone();
    own.into_iter().for_each(|(name, own)| extensions.entry(column_of(name)).or_default().extend(own));
    extensions
}

/// What a field is called as a component, without what an extension says of it.
fn column_of(field: &str) -> String {
    Component::field(field).map_or_else(|_| field.to_owned(), |one| one.name().to_owned())
}

/// What a field is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    Payload,
    /// The component with this number among [`Settled::kinds`].
    Component(usize),
}

/// What is known of a component of all files.
struct Candidate {
    one: Component,
    /// The field that it is.
    field: String,
    kind: Option<Type>,
    /// Samples that have it.
    samples: u64,
    /// Those among them where it is a file: if any, it is one in all.
    files: u64,
}

impl Candidate {
    /// How well it stands for a sample: arrays before bytes, text and numbers.
    fn rank(&self) -> u8 {
        match self.kind.as_ref().map(|kind| &kind.kind) {
            Some(Kind::Array { .. }) => 4,
            Some(Kind::Bytes) | None => 3,
            Some(Kind::Text) => 2,
            Some(Kind::Json | Kind::Int | Kind::Float) => 1,
        }
    }
}

/// Settles the components of samples; `label` is the field that is their label, if they are values and one is.
///
/// # Errors
/// When there are more than a sample has room for: which of them matter, a person knows.
pub(super) fn settle(scanned: &[Scanned], options: &Options, label: Option<&str>) -> Result<Settled> {
    // An image has bytes, and a value is told by its fields alone.
    let is_valued = scanned.iter().flat_map(|file| &file.rows).any(|row| row.bytes == 0);
    let no_more = match &options.components {
        Components::None => true,
        Components::All => options.no_text,
        Components::Named(_) => false,
    };
    if no_more && !is_valued {
        return Ok(Settled::default());
    }
    let (mut all, mut forms) = (Vec::<Candidate>::new(), Interner::default());
    let mut by_name = HashMap::<String, usize>::new();
    let extensions = extensions(scanned, &options.extensions);
    // The component of each field of each file, where the field is it.
    let mut of_files: Vec<(Vec<Option<usize>>, OfFile)> = Vec::new();
    for Scanned { fields, .. } in scanned {
        // Forms of single values that are told as text are of nothing.
        let mut is_used = vec![!fields.are_beside; fields.forms.forms().len()];
        for found in fields.found.iter().filter(|found| !fields.all[found.field as usize].is_single) {
            is_used.get_mut(found.form as usize).into_iter().for_each(|is_used| *is_used = true);
        }
        let numbers: Vec<u32> = fields
            .forms
            .forms()
            .iter()
            .zip(&is_used)
            .map(|(form, is_used)| if *is_used { forms.number(form) } else { Forms::BYTES })
            .collect();
        let mut samples = vec![0u64; fields.all.len()];
        let mut seen = BTreeSet::new();
        for found in &fields.found {
            samples[found.field as usize] += 1;
            if found.form != Forms::BYTES {
                seen.insert((found.field, found.form));
            }
        }
        let mut owned = Vec::with_capacity(fields.all.len());
        let mut taken = vec![Taken::Itself; fields.all.len()];
        let (mut wider, mut bytes) = (vec![Forms::BYTES; numbers.len()], Forms::BYTES);
        for (number, (field, samples)) in fields.all.iter().zip(samples).enumerate() {
            if samples == 0 || label == Some(&*field.name) || (options.meta && field.component.name() == TEXT) {
                owned.push(None);
                continue;
            }
            let of_field = seen.range((number as u32, 0)..=(number as u32, u32::MAX));
            let mut of_field: Vec<_> =
                of_field.map(|(_, form)| (*form as usize, &fields.forms.forms()[*form as usize])).collect();
            let mut one = field.component.clone();
            if let Some((_, form)) = of_field.first().filter(|_| field.is_single) {
                taken[number] = Taken::of(form, extensions.get(&column_of(&field.name)), fields.are_beside);
                match taken[number] {
                    Taken::Told => of_field.clear(),
                    taken => one = Component::value(&field.name, &taken.form(form)).unwrap_or(one),
                }
            }
            let is_file = one.kind().is_none();
            let at = *by_name.entry(one.name().to_owned()).or_insert_with(|| {
                let field = field.name.clone();
                all.push(Candidate { one, field, kind: None, samples: 0, files: 0 });
                all.len() - 1
            });
            let component = &mut all[at];
            if component.field != field.name {
                owned.push(None);
                continue;
            }
            component.samples += samples;
            if is_file {
                component.files += samples;
                component.one = field.component.clone();
            }
            for (form_number, form) in of_field {
                let form = taken[number].form(form);
                match taken[number] {
                    Taken::Wider => wider[form_number] = forms.number(&form),
                    Taken::Bytes => bytes = forms.number(&form),
                    Taken::Itself | Taken::Told => {}
                }
                let of = Type::of(&form);
                component.kind = match component.kind.take() {
                    None => Some(of),
                    // All have one extension, so they join.
                    Some(kind) => kind.join(of),
                };
            }
            owned.push(Some(at));
        }
        of_files.push((owned, OfFile { places: Vec::new(), forms: numbers, taken, wider, bytes }));
    }
    let total: u64 = scanned.iter().map(|file| file.rows.len() as u64).sum();
    let typed = |component: &Candidate| match &component.kind {
        None => component.one.clone(),
        Some(_) if component.files > 0 => component.one.clone(),
        Some(kind) => {
            let kind = Type { is_optional: component.samples < total, ..kind.clone() };
            component.one.clone().with_kind(kind)
        }
    };
    let are_files = scanned.iter().any(|file| file.fields.are_files);
    let payload = match is_valued {
        true => {
            // Of files it is the same that it is of a tree of them.
            let before = |name: &str| all.iter().filter(|other| other.one.name() < name).count();
            let key = |(at, one): &(usize, &Candidate)| match are_files {
                true => (one.samples, u8::from(!is_text(one.one.name())), Reverse(before(one.one.name()))),
                false => (one.samples, one.rank(), Reverse(*at)),
            };
            all.iter().enumerate().max_by_key(key).map(|(at, _)| at)
        }
        false => None,
    };
    let mut chosen: Vec<(usize, Component)> = match &options.components {
        _ if no_more => Vec::new(),
        Components::Named(wanted) => {
            // The field of one may be the name of another: `tags.npy` and `tags`.
            let is_named = |one: &Candidate| wanted.iter().any(|wanted| wanted.name() == one.one.name());
            let of = |wanted: &Component| {
                let has_name = |one: &Candidate| one.one.name() == wanted.name();
                let is_there = all.iter().any(has_name);
                let is_field =
                    |one: &Candidate| Component::field(&one.field).is_ok_and(|own| own.name() == wanted.name());
                let is = |one: &Candidate| {
                    has_name(one) || one.one.column() == wanted.name() && !is_named(one) && (is_field(one) || !is_there)
                };
                let found: Vec<_> = all.iter().enumerate().filter(|(_, one)| is(one)).collect();
                match found.is_empty() {
                    // That nobody has it is said where all splits are known.
                    true => vec![(usize::MAX, wanted.clone())],
                    false => found.into_iter().map(|(at, one)| (at, typed(one))).collect(),
                }
            };
            wanted.iter().flat_map(of).collect()
        }
        _ => {
            let mut chosen: Vec<_> = all.iter().enumerate().map(|(at, one)| (at, typed(one))).collect();
            chosen.sort_by(|(_, a), (_, b)| a.name().cmp(b.name()));
            chosen
        }
    };
    chosen.retain(|(at, _)| Some(*at) != payload);
    if chosen.len() > MOST {
        let told: Vec<_> = chosen.iter().take(TOLD).map(|(_, one)| one.name()).collect();
        let more = if chosen.len() > TOLD { format!(" and {} more", chosen.len() - TOLD) } else { String::new() };
        let what = format!("{} components beside the images, a sample has room for {MOST}: ", chosen.len());
        return Err(Error::usage(format!("{what}{}{more}", told.join(", ")))
            .help("--components NAMES takes some of them, with commas between; --components none leaves all"));
    }
    let place = |at: usize| match Some(at) == payload {
        true => Some(Place::Payload),
        false => chosen.iter().position(|(one, _)| *one == at).map(Place::Component),
    };
    let files = of_files
        .into_iter()
        .map(|(owned, file)| OfFile { places: owned.into_iter().map(|at| at.and_then(place)).collect(), ..file });
    let notes = all.iter().filter(|one| one.kind.is_some() && one.files > 0).map(|one| {
        let name = one.one.name();
        format!("component {name} is files, and no arrays: {} of {} begin as none, or are cut", one.files, one.samples)
    });
    Ok(Settled {
        notes: notes.collect(),
        files: files.collect(),
        // A sample without it is refused.
        payload: payload.map(|at| {
            let typed = typed(&all[at]);
            typed.kind().cloned().map_or(typed.clone(), |kind| typed.with_kind(Type { is_optional: false, ..kind }))
        }),
        kinds: chosen.into_iter().map(|(_, one)| one).collect(),
        forms: forms.finish(),
        extensions,
    })
}

impl Settled {
    /// What a listing keeps of samples that have these components, of no sample so far.
    pub fn component_table(&self) -> ComponentTable {
        // Of files nothing is kept, as of images.
        let payload = self.payload.clone().filter(|payload| payload.kind().is_some());
        ComponentTable { payload, forms: Arc::clone(&self.forms), ..ComponentTable::of(self.kinds.clone()) }
    }

    /// What the sample is called whose key is `key`: where its payload is a file, as that is.
    pub fn name_of<'k>(&self, key: &'k [u8]) -> Cow<'k, [u8]> {
        let extension = self.payload.as_ref().filter(|payload| payload.kind().is_none());
        match extension.map(|extension| [b".", extension.name().as_bytes()].concat()) {
            Some(extension) if !key.ends_with(&extension) => Cow::Owned([key, &extension].concat()),
            _ => Cow::Borrowed(key),
        }
    }

    /// The cells of a sample of file `number` whose fields begin at `start` and end at `end`: of the payload, if it is a value
    /// that the sample has, and of all other components.
    pub fn cells(&self, number: usize, fields: &Fields, start: u64, end: u64) -> (Option<Cell>, Vec<Cell>) {
        let (mut payload, mut cells) = (None, vec![Cell::ABSENT; self.kinds.len()]);
        let Some(of_file) = self.files.get(number) else { return (payload, cells) };
        for found in &fields.found[start as usize..end as usize] {
            let form_of = |forms: &[u32]| forms.get(found.form as usize).copied().unwrap_or(Forms::BYTES);
            let taken = of_file.taken.get(found.field as usize).copied().unwrap_or(Taken::Itself);
            let (form, bytes, stamp) = match taken {
                Taken::Itself => (form_of(&of_file.forms), found.bytes, found.stamp),
                Taken::Wider => (form_of(&of_file.wider), found.wider_bytes, open::wider_stamp(found.stamp)),
                Taken::Bytes => (of_file.bytes, found.bytes, found.stamp),
                Taken::Told => (Forms::BYTES, found.bytes, found.stamp),
            };
            let place = of_file.places.get(found.field as usize).copied().flatten();
            let one = match place {
                Some(Place::Payload) => self.payload.as_ref(),
                Some(Place::Component(which)) => self.kinds.get(which),
                None => None,
            };
            let is_file = one.is_some_and(|one| one.kind().is_none());
            let is_there = open::of_component_stamp(stamp).1 == 0;
            let cell = match self.forms.get(form as usize).filter(|_| is_file) {
                Some(_) if !is_there => Cell::file(bytes, stamp),
                // An array is one of the files: all of it, and not its items alone.
                Some(form) => Cell::file(bytes, stamp - form.head().len() as i64),
                None => Cell { form, ..Cell::file(bytes, stamp) },
            };
            match place {
                Some(Place::Payload) => payload = Some(cell),
                Some(Place::Component(which)) => cells[which] = cell,
                None => {}
            }
        }
        (payload, cells)
    }

    /// What became of the fields of file `number`: adds to what is left out, by name, and to what goes along.
    pub fn count(
        &self,
        number: usize,
        scanned: &Scanned,
        label: Option<&str>,
        ignored: &mut BTreeMap<String, u64>,
        carried: &mut BTreeMap<String, u64>,
    ) {
        let places = self.files.get(number).map_or(&[][..], |of_file| &of_file.places);
        let (mut kept, mut is_payload) = (BTreeMap::<&str, u64>::new(), BTreeSet::new());
        for found in &scanned.fields.found {
            let name = &*scanned.fields.all[found.field as usize].name;
            match places.get(found.field as usize).copied().flatten() {
                Some(Place::Component(_)) => *kept.entry(name).or_default() += 1,
                Some(Place::Payload) => drop(is_payload.insert(name)),
                None => {}
            }
        }
        for (field, samples) in &scanned.others {
            if label == Some(&**field) || is_payload.contains(&**field) {
                continue;
            }
            let along = kept.get(&**field).copied().unwrap_or(0);
            let add = |counts: &mut BTreeMap<String, u64>, samples: u64| {
                if samples > 0 {
                    *counts.entry(format!("{COMPONENT}{field}")).or_default() += samples;
                }
            };
            add(carried, along);
            add(ignored, samples.saturating_sub(along));
        }
    }
}

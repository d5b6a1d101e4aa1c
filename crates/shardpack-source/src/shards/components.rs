//! Chooses the fields of records that become components, with their types and locations.
//!
//! Holds at all times: each field of a record becomes a component of its sample or is counted as left out. If two fields map to one
//! component, the first field seen wins.

use std::{
    borrow::Cow,
    cmp::Reverse,
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::Arc,
};

use shardpack_format::{
    Error, Result,
    component::{Component, Form, Kind, MAX_DATASET_COMPONENTS, TEXT, Type},
    sample::Forms,
};

use super::{
    Scanned,
    fields::{Conversion, Fields},
    shard_reader,
};
use crate::{
    COMPONENT,
    component_table::{Cell, ComponentTable, Interner},
    options::{Components, Extensions, Options},
    sample_files::is_text,
};

/// Maximum number of names in a message.
const TOLD: usize = 64;

/// The components of all samples, and the mapping from each file's fields to the components.
#[derive(Default)]
pub(super) struct Settled {
    /// Components besides the payload.
    pub kinds: Vec<Component>,
    /// The payload, if samples have no images.
    pub payload: Option<Component>,
    /// The forms of all values.
    pub forms: Arc<Vec<Form>>,
    /// Field extensions, passed on to other sources of the same dataset.
    pub extensions: Extensions,
    /// Notes for the user.
    pub notes: Vec<String>,
    files: Vec<OfFile>,
}

/// The mapping for one file.
#[derive(Default)]
struct OfFile {
    /// Target of each field, by field number.
    places: Vec<Option<FieldTarget>>,
    /// Global form number for each form number of the file.
    forms: Vec<u32>,
    /// Conversion of the field's values, by field number.
    taken: Vec<Conversion>,
    /// Global number of the wider form for each form number of the file.
    wider: Vec<u32>,
    /// Global number of the bytes form, used for text that is stored as bytes.
    bytes: u32,
}

/// Extensions of the values that are not single values, by component name; starts from `known`, the extensions of other sources.
fn extensions(scanned: &[Scanned], known: &Extensions) -> Extensions {
    let mut own = BTreeMap::<&str, BTreeSet<&'static str>>::new();
    for Scanned { fields, .. } in scanned {
        for (field, form) in fields.forms_of_fields() {
            let field = &fields.all[field as usize];
            if !field.is_single {
                let extension = fields.forms.forms().get(form as usize).map_or("", Form::extension);
                own.entry(&field.name).or_default().insert(extension);
            }
        }
    }
    let mut extensions = known.clone();
    own.into_iter().for_each(|(name, own)| extensions.entry(column_of(name)).or_default().extend(own));
    extensions
}

/// Component name of a field, ignoring the value's extension.
fn column_of(field: &str) -> String {
    Component::field(field).map_or_else(|_| field.to_owned(), |one| one.name().to_owned())
}

/// Target of a field.
#[derive(Clone, Copy, PartialEq, Eq)]
enum FieldTarget {
    Payload,
    /// Index into [`Settled::kinds`].
    Component(usize),
}

/// A component over all files, while types are being collected.
struct Candidate {
    one: Component,
    /// Name of the field that becomes this component.
    field: String,
    kind: Option<Type>,
    /// Number of samples that have the component.
    samples: u64,
    /// Number of samples in which the component is a file. If there is any, the component is a file in all samples.
    files: u64,
}

impl Candidate {
    /// The component with its type, if `total` samples are packed.
    fn typed(&self, total: u64) -> Component {
        match &self.kind {
            Some(kind) if self.files == 0 => {
                let kind = Type { is_optional: self.samples < total, ..kind.clone() };
                self.one.clone().with_kind(kind)
            }
            _ => self.one.clone(),
        }
    }

    /// Preference as payload: arrays before bytes, bytes before text, text before numbers.
    fn rank(&self) -> u8 {
        match self.kind.as_ref().map(|kind| &kind.kind) {
            Some(Kind::Array { .. }) => 4,
            Some(Kind::Bytes) | None => 3,
            Some(Kind::Text) => 2,
            Some(Kind::Json | Kind::Int | Kind::Float) => 1,
        }
    }
}

/// The components over all files, while they are being collected.
#[derive(Default)]
struct Candidates {
    all: Vec<Candidate>,
    by_name: HashMap<String, usize>,
    forms: Interner,
    /// As [`Settled::extensions`].
    extensions: Extensions,
}

impl Candidates {
    /// Adds the fields of a file. Returns the candidate that each field becomes, if any, with the forms of the file; the places are
    /// settled later.
    fn add(&mut self, fields: &Fields, label: Option<&str>, meta: bool) -> (Vec<Option<usize>>, OfFile) {
        let mut seen = fields.forms_of_fields();
        let numbers = self.form_numbers(fields, &seen);
        seen.retain(|(_, form)| *form != Forms::BYTES);
        let mut samples = vec![0u64; fields.all.len()];
        fields.found.iter().for_each(|found| samples[found.field as usize] += 1);
        let mut owned = Vec::with_capacity(fields.all.len());
        let mut of_file = OfFile {
            places: Vec::new(),
            taken: vec![Conversion::Itself; fields.all.len()],
            wider: vec![Forms::BYTES; numbers.len()],
            bytes: Forms::BYTES,
            forms: numbers,
        };
        for (number, (field, samples)) in fields.all.iter().zip(samples).enumerate() {
            if samples == 0 || label == Some(&*field.name) || (meta && field.component.name() == TEXT) {
                owned.push(None);
                continue;
            }
            let of_field = seen.range((number as u32, 0)..=(number as u32, u32::MAX));
            let of_field =
                of_field.map(|(_, form)| (*form as usize, &fields.forms.forms()[*form as usize])).collect::<Vec<_>>();
            owned.push(self.add_field(fields, number, samples, of_field, &mut of_file));
        }
        (owned, of_file)
    }

    /// Numbers of the forms of a file, which are `seen` in its fields, among all forms. The forms of single values that are stored as text are
    /// not used.
    fn form_numbers(&mut self, fields: &Fields, seen: &BTreeSet<(u32, u32)>) -> Vec<u32> {
        let mut is_used = vec![!fields.are_beside; fields.forms.forms().len()];
        for (_, form) in seen.iter().filter(|(field, _)| !fields.all[*field as usize].is_single) {
            is_used.get_mut(*form as usize).into_iter().for_each(|is_used| *is_used = true);
        }
        let forms = fields.forms.forms().iter().zip(&is_used);
        forms.map(|(form, is_used)| if *is_used { self.forms.number(form) } else { Forms::BYTES }).collect()
    }

    /// Adds field `number` of a file, which so many samples have in these forms. Returns its candidate, unless another field has that
    /// name.
    fn add_field(
        &mut self,
        fields: &Fields,
        number: usize,
        samples: u64,
        mut of_field: Vec<(usize, &Form)>,
        of_file: &mut OfFile,
    ) -> Option<usize> {
        let field = &fields.all[number];
        let mut one = field.component.clone();
        if let Some((_, form)) = of_field.first().filter(|_| field.is_single) {
            let taken = Conversion::for_form(form, self.extensions.get(&column_of(&field.name)), fields.are_beside);
            of_file.taken[number] = taken;
            match taken {
                Conversion::Told => of_field.clear(),
                taken => one = Component::value(&field.name, &taken.form(form)).unwrap_or(one),
            }
        }
        let is_file = one.kind().is_none();
        let all = &mut self.all;
        let at = *self.by_name.entry(one.name().to_owned()).or_insert_with(|| {
            let field = field.name.clone();
            all.push(Candidate { one, field, kind: None, samples: 0, files: 0 });
            all.len() - 1
        });
        let component = &mut self.all[at];
        if component.field != field.name {
            return None;
        }
        component.samples += samples;
        if is_file {
            component.files += samples;
            component.one = field.component.clone();
        }
        for (form_number, form) in of_field {
            let form = of_file.taken[number].form(form);
            match of_file.taken[number] {
                Conversion::Wider => of_file.wider[form_number] = self.forms.number(&form),
                Conversion::Bytes => of_file.bytes = self.forms.number(&form),
                Conversion::Itself | Conversion::Told => {}
            }
            let of = Type::from_form(&form);
            component.kind = match component.kind.take() {
                None => Some(of),
                // All values have one extension, so their types join.
                Some(kind) => kind.join(of),
            };
        }
        Some(at)
    }

    /// The candidate that is the payload of samples that are values. For members of a tar, it is chosen as for a tree of files.
    fn payload(&self, are_files: bool) -> Option<usize> {
        let before = |name: &str| self.all.iter().filter(|other| other.one.name() < name).count();
        let key = |(at, one): &(usize, &Candidate)| match are_files {
            true => (one.samples, u8::from(!is_text(one.one.name())), Reverse(before(one.one.name()))),
            false => (one.samples, one.rank(), Reverse(*at)),
        };
        self.all.iter().enumerate().max_by_key(key).map(|(at, _)| at)
    }

    /// All components of `total` samples, by name.
    fn by_name(&self, total: u64) -> Vec<(usize, Component)> {
        let mut chosen: Vec<_> = self.all.iter().enumerate().map(|(at, one)| (at, one.typed(total))).collect();
        chosen.sort_by(|(_, a), (_, b)| a.name().cmp(b.name()));
        chosen
    }

    /// The components of `total` samples that the user named, in that order.
    fn named(&self, wanted: &[Component], total: u64) -> Vec<(usize, Component)> {
        // A component's field name may equal another component's name: `tags.npy` and `tags`.
        let is_named = |one: &Candidate| wanted.iter().any(|wanted| wanted.name() == one.one.name());
        let of = |wanted: &Component| {
            let has_name = |one: &Candidate| one.one.name() == wanted.name();
            let is_there = self.all.iter().any(has_name);
            let is_field = |one: &Candidate| Component::field(&one.field).is_ok_and(|own| own.name() == wanted.name());
            let is = |one: &Candidate| {
                has_name(one) || one.one.column() == wanted.name() && !is_named(one) && (is_field(one) || !is_there)
            };
            let found: Vec<_> = self.all.iter().enumerate().filter(|(_, one)| is(one)).collect();
            match found.is_empty() {
                // A name that no sample has is reported later, when all splits are known.
                true => vec![(usize::MAX, wanted.clone())],
                false => found.into_iter().map(|(at, one)| (at, one.typed(total))).collect(),
            }
        };
        wanted.iter().flat_map(of).collect()
    }

    /// Notes about components that are files, though some have a header of an array.
    fn notes(&self) -> Vec<String> {
        let notes = self.all.iter().filter(|one| one.kind.is_some() && one.files > 0).map(|one| {
            let name = one.one.name();
            format!("component {name} is files, not arrays: {} of {} have no header or are cut", one.files, one.samples)
        });
        notes.collect()
    }
}

/// Chooses the components of the samples. `label` is the field used as label, if samples are values and one field is the label.
///
/// # Errors
/// If there are more components than a sample can hold; the user must choose.
pub(super) fn decide_components(scanned: &[Scanned], options: &Options, label: Option<&str>) -> Result<Settled> {
    // An image has bytes; a row of values has 0 bytes.
    let is_valued = scanned.iter().flat_map(|file| &file.rows).any(|row| row.bytes == 0);
    let no_more = match &options.components {
        Components::None => true,
        Components::All => options.no_text,
        Components::Named(_) => false,
    };
    if no_more && !is_valued {
        return Ok(Settled::default());
    }
    let mut candidates = Candidates { extensions: extensions(scanned, &options.extensions), ..Candidates::default() };
    let of_files: Vec<_> = scanned.iter().map(|file| candidates.add(&file.fields, label, options.meta)).collect();
    let total: u64 = scanned.iter().map(|file| file.rows.len() as u64).sum();
    let are_files = scanned.iter().any(|file| file.fields.are_files);
    let payload = if is_valued { candidates.payload(are_files) } else { None };
    let mut chosen: Vec<(usize, Component)> = match &options.components {
        _ if no_more => Vec::new(),
        Components::Named(wanted) => candidates.named(wanted, total),
        _ => candidates.by_name(total),
    };
    chosen.retain(|(at, _)| Some(*at) != payload);
    if chosen.len() > MAX_DATASET_COMPONENTS {
        let told: Vec<_> = chosen.iter().take(TOLD).map(|(_, one)| one.name()).collect();
        let more = if chosen.len() > TOLD { format!(" and {} more", chosen.len() - TOLD) } else { String::new() };
        let what =
            format!("{} components beside the images, a sample has room for {MAX_DATASET_COMPONENTS}: ", chosen.len());
        return Err(Error::usage(format!("{what}{}{more}", told.join(", ")))
            .help("choose components with --components NAMES, separated by commas; --components none leaves out all"));
    }
    let place = |at: usize| match Some(at) == payload {
        true => Some(FieldTarget::Payload),
        false => chosen.iter().position(|(one, _)| *one == at).map(FieldTarget::Component),
    };
    let files = of_files
        .into_iter()
        .map(|(owned, file)| OfFile { places: owned.into_iter().map(|at| at.and_then(place)).collect(), ..file });
    Ok(Settled {
        notes: candidates.notes(),
        files: files.collect(),
        // Samples without the payload are refused.
        payload: payload.map(|at| {
            let typed = candidates.all[at].typed(total);
            typed.kind().cloned().map_or(typed.clone(), |kind| typed.with_kind(Type { is_optional: false, ..kind }))
        }),
        kinds: chosen.into_iter().map(|(_, one)| one).collect(),
        forms: candidates.forms.finish(),
        extensions: candidates.extensions,
    })
}

impl Settled {
    /// An empty component table for a listing of samples with these components.
    pub fn component_table(&self) -> ComponentTable {
        // Files need no payload form, as images need none.
        let payload = self.payload.clone().filter(|payload| payload.kind().is_some());
        ComponentTable { payload, forms: Arc::clone(&self.forms), ..ComponentTable::new(self.kinds.clone()) }
    }

    /// Name of the sample with `key`: if the payload is a file, the key with the payload's extension.
    pub fn name_of<'k>(&self, key: &'k [u8]) -> Cow<'k, [u8]> {
        let extension = self.payload.as_ref().filter(|payload| payload.kind().is_none());
        match extension.map(|extension| [b".", extension.name().as_bytes()].concat()) {
            Some(extension) if !key.ends_with(&extension) => Cow::Owned([key, &extension].concat()),
            _ => Cow::Borrowed(key),
        }
    }

    /// The payload cell and the component cells of a sample of file `number` whose fields are `start..end` of `fields`.
    ///
    /// The payload cell is `None` if the payload is an image or the sample has no payload.
    pub fn cells(&self, number: usize, fields: &Fields, start: u64, end: u64) -> (Option<Cell>, Vec<Cell>) {
        let (mut payload, mut cells) = (None, vec![Cell::ABSENT; self.kinds.len()]);
        let Some(of_file) = self.files.get(number) else { return (payload, cells) };
        for found in &fields.found[start as usize..end as usize] {
            let form_of = |forms: &[u32]| forms.get(found.form as usize).copied().unwrap_or(Forms::BYTES);
            let taken = of_file.taken.get(found.field as usize).copied().unwrap_or(Conversion::Itself);
            let (form, bytes, stamp) = match taken {
                Conversion::Itself => (form_of(&of_file.forms), found.bytes, found.stamp),
                Conversion::Wider => {
                    (form_of(&of_file.wider), found.wider_bytes, shard_reader::wider_stamp(found.stamp))
                }
                Conversion::Bytes => (of_file.bytes, found.bytes, found.stamp),
                Conversion::Told => (Forms::BYTES, found.bytes, found.stamp),
            };
            let place = of_file.places.get(found.field as usize).copied().flatten();
            let one = match place {
                Some(FieldTarget::Payload) => self.payload.as_ref(),
                Some(FieldTarget::Component(which)) => self.kinds.get(which),
                None => None,
            };
            let is_file = one.is_some_and(|one| one.kind().is_none());
            let is_there = shard_reader::of_component_stamp(stamp).1 == 0;
            let cell = match self.forms.get(form as usize).filter(|_| is_file) {
                Some(_) if !is_there => Cell::file(bytes, stamp),
                // In a file component an array is stored with its `.npy` head, not as items only.
                Some(form) => Cell::file(bytes, stamp - form.head().len() as i64),
                None => Cell { form, ..Cell::file(bytes, stamp) },
            };
            match place {
                Some(FieldTarget::Payload) => payload = Some(cell),
                Some(FieldTarget::Component(which)) => cells[which] = cell,
                None => {}
            }
        }
        (payload, cells)
    }

    /// Counts the fields of file `number` by name: adds to `ignored` for values left out and to `carried` for values kept.
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
                Some(FieldTarget::Component(_)) => *kept.entry(name).or_default() += 1,
                Some(FieldTarget::Payload) => drop(is_payload.insert(name)),
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

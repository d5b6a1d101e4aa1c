//! Frames samples as TFRecords: each has the length of its layout, with features in the order of their keys.

mod out;
mod recipes;

use std::{borrow::Cow, collections::BTreeMap, path::Path};

use out::Out;

use super::{
    example::{self, Example},
    layout::{
        self, FRAME_BYTES, Fault, Feature, HEAD_BYTES, MAX_DATA_BYTES, Nest, SLOT_BYTES, TAG_FIRST, TAG_INTS,
        TAG_VALUE, Value, field_bytes, masked_crc, varint_bytes,
    },
    sidecars, values,
};
use crate::{
    Error, Result,
    component::{self, Form},
    formats::{self, Choice, Format, Layout, encoding::Encoding, sidecars as all_sidecars},
    image_header::{Header, Kind},
    index::RowRef,
    sample::{Extent, Sample},
    shell,
};

/// Name of the setting for the number that is added to every label.
pub(super) const LABEL_OFFSET: &str = "label_offset";
/// Name of the setting for the features to write.
pub(super) const FEATURES: &str = "features";

/// The format with its settings.
#[derive(Clone, Debug)]
pub struct TfRecord {
    label_offset: i64,
    /// Features to write, in the order of keys.
    features: Vec<Feature>,
    /// All entries of an example, in the order of keys: `features`, and the components of the source.
    entries: Vec<(String, Entry)>,
    components: Vec<String>,
    /// Encoding of each component.
    encodings: Vec<Encoding>,
    /// Python code of TensorFlow's parsers, if the examples have values.
    parsed: Option<String>,
}

/// An entry of an example.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Entry {
    Own(Feature),
    /// The component with this number, as bytes. All examples have this entry; it is empty if a sample lacks the component.
    File(usize),
    /// The component with this number, as a value in a list with this tag. An example has this entry if its sample has the value.
    Value(usize, u8),
    /// The dtype of a value, if the type of its list does not determine the dtype.
    Dtype(usize),
    /// The shape of a value.
    Shape(usize),
}

/// Omits the features of the label, unless the user chose features.
pub(super) fn without_labels(choice: &mut Choice) {
    let others = Feature::ALL.into_iter().filter(|feature| !matches!(feature, Feature::Label | Feature::Text));
    let others: Vec<_> = others.map(Feature::key).collect();
    choice.settings.entry(FEATURES.to_owned()).or_insert_with(|| others.join(","));
}

impl TfRecord {
    /// The format for `choice`.
    ///
    /// # Errors
    /// If a setting is invalid, or two features have the same key.
    pub fn new(choice: &Choice) -> Result<Self> {
        let label_offset = match choice.settings.get(LABEL_OFFSET) {
            None => 0,
            Some(text) => text.parse().ok().filter(|offset| *offset >= 0).ok_or_else(|| {
                Error::usage(format!("{LABEL_OFFSET} {text:?}: a whole number that is added to labels, 0 or more"))
            })?,
        };
        let mut features = match choice.settings.get(FEATURES) {
            None => Feature::ALL.to_vec(),
            Some(text) => {
                text.split(',').map(str::trim).filter(|key| !key.is_empty()).map(feature).collect::<Result<_>>()?
            }
        };
        match choice.payload {
            None => features.push(Feature::Encoded),
            // Without an image, the features of images are omitted.
            Some(_) => features.retain(|feature| feature.plain_key().is_some()),
        }
        features.sort_unstable();
        features.dedup();
        let key = |feature: &Feature| match choice.payload {
            Some(_) => feature.plain_key().unwrap_or_default(),
            None => feature.key(),
        };
        let mut entries: Vec<_> =
            features.iter().map(|feature| (key(feature).to_owned(), Entry::Own(*feature))).collect();
        let mut components = vec![match &choice.payload {
            None => Feature::Encoded.key().to_owned(),
            Some(payload) => payload.name().to_owned(),
        }];
        components.extend(choice.components.iter().map(|one| one.name().to_owned()));
        let mut encodings = vec![Encoding::Content; components.len()];
        let mut parsed: Vec<String> = entries
            .iter()
            .filter_map(|(key, entry)| match entry {
                Entry::Own(feature) => Some(recipes::parsed_own(key, *feature)),
                _ => None,
            })
            .collect();
        let has_values = choice.columns().iter().any(|(_, one, _)| one.kind().is_some());
        for (number, one, name) in choice.columns() {
            let Some(kind) = one.kind() else {
                parsed.push(format!("{}: tf.io.FixedLenFeature([], tf.string, \"\")", shell::python(&name)));
                entries.push((name, Entry::File(number)));
                continue;
            };
            let (encoding, tag, has_dtype) = values::stored(&kind.kind);
            encodings[number] = encoding;
            parsed.push(values::parsed(&name, kind, tag));
            entries.push((name.clone(), Entry::Value(number, tag)));
            if has_dtype {
                parsed.push(format!(
                    "{}: tf.io.FixedLenFeature([], tf.string, \"\")",
                    shell::python(format!("{name}/dtype"))
                ));
                entries.push((format!("{name}/dtype"), Entry::Dtype(number)));
            }
            if matches!(kind.kind, component::Kind::Array { .. }) {
                parsed.push(format!("{}: tf.io.RaggedFeature(tf.int64)", shell::python(format!("{name}/shape"))));
                entries.push((format!("{name}/shape"), Entry::Shape(number)));
            }
        }
        entries.sort_by(|(a, _), (b, _)| a.cmp(b));
        if let Some(pair) = entries.windows(2).find(|pair| pair[0].0 == pair[1].0) {
            return Err(Error::usage(format!("two features are called {:?}", pair[0].0)));
        }
        parsed.sort();
        let parsed = has_values.then(|| parsed.join(", "));
        Ok(Self { label_offset, features, entries, components, encodings, parsed })
    }

    fn writes(&self, feature: Feature) -> bool {
        self.features.contains(&feature)
    }

    /// The number to write for `label`.
    ///
    /// # Errors
    /// If the label is missing, or the sum with the offset exceeds 64 bits.
    fn label(&self, label: Option<i64>) -> Result<i64> {
        let label = label.ok_or_else(|| {
            Error::usage("a sample without a label: tf.data and DALI stop at an example without image/class/label")
                .help("leave image/class/label out of the features")
        })?;
        label.checked_add(self.label_offset).ok_or_else(|| {
            Error::usage(format!("label {label} with {LABEL_OFFSET} {} is beyond 64 bits", self.label_offset))
        })
    }

    /// Length of the value of `entry`; `None` if the example does not have the entry.
    fn value(&self, entry: Entry, sample: &Sample<'_>) -> Result<Option<Value>> {
        let bytes = |bytes: u64| Ok(Some(Value::Bytes(bytes)));
        let feature = match entry {
            Entry::Own(feature) => feature,
            // All examples have the same files, so a missing file is empty.
            Entry::File(number) => return bytes(sample.content(number).map_or(0, |(bytes, _)| bytes.into())),
            Entry::Value(..) | Entry::Dtype(_) | Entry::Shape(_) => {
                let (Entry::Value(number, _) | Entry::Dtype(number) | Entry::Shape(number)) = entry else {
                    return Ok(None);
                };
                let Some((content_bytes, form)) = sample.content(number) else { return Ok(None) };
                return bytes(match entry {
                    Entry::Dtype(_) => values::dtype(form).len() as u64,
                    Entry::Shape(_) => values::shape(form).iter().map(|axis| varint_bytes(*axis)).sum(),
                    _ => self.encodings[number].stored_bytes(form, content_bytes)?,
                });
            }
        };
        Ok(Some(match feature {
            Feature::Label => Value::Varint(varint_bytes(self.label(sample.label)?.cast_unsigned())),
            Feature::Text => Value::Bytes(sample.class.len() as u64),
            Feature::Encoded => Value::Bytes(sample.payload_bytes.into()),
            Feature::Filename => Value::Bytes(filename(sample).len() as u64),
            Feature::Format => Value::Slot,
            Feature::Height | Feature::Width => Value::Varint(SLOT_BYTES),
        }))
    }

    /// Length of all features in bytes, and the offset and length of each component in the features.
    fn features_bytes(&self, sample: &Sample<'_>) -> Result<(u64, [Option<(u64, u64)>; formats::MAX_WRITTEN])> {
        let (mut at, mut places) = (0, [None; formats::MAX_WRITTEN]);
        for (key, entry) in &self.entries {
            let Some(value) = self.value(*entry, sample)? else { continue };
            at += Nest::new(key, value).whole;
            let number = match entry {
                Entry::Own(Feature::Encoded) => 0,
                Entry::File(number) | Entry::Value(number, _) => *number,
                Entry::Own(_) | Entry::Dtype(_) | Entry::Shape(_) => continue,
            };
            if let Value::Bytes(bytes) = value {
                // The value ends its entry.
                places[number] = Some((at - bytes, bytes));
            }
        }
        Ok((at, places))
    }

    /// Compares `feature`, with key `key`, in the example with the index `row`; the error text has the difference.
    fn same(
        &self,
        (key, feature): (&str, Feature),
        row: &RowRef<'_>,
        example: &Example<'_>,
        data: &[u8],
    ) -> Result<(), String> {
        let list = example.list(key.as_bytes()).ok_or_else(|| format!("{key} is missing"))?;
        let value = example.value(list, 0).filter(|_| list.values == 1);
        let expected_number = match feature {
            Feature::Label => Some(self.label(row.label).map_err(|error| error.what())?),
            Feature::Height => Some(row.image.height.into()),
            Feature::Width => Some(row.image.width.into()),
            _ => None,
        };
        let value = value.ok_or_else(|| format!("{key} has {} values, not one", list.values))?;
        match (value, expected_number) {
            (example::Value::Int(found), Some(expected)) if found == expected => Ok(()),
            (found, Some(expected)) => Err(format!("{key} is {found:?}, {expected} in the index")),
            (example::Value::Bytes(range), None) => {
                let bytes = data.get(range.clone()).unwrap_or_default();
                let place = (Some(range.start + HEAD_BYTES), Some(range.len()));
                let image = row.component(0);
                match feature {
                    Feature::Encoded
                        if place != (image.map(|at| at.offset as usize), image.map(|at| at.bytes as usize)) =>
                    {
                        Err(format!("{key} is at {}, elsewhere in the index", HEAD_BYTES + range.start))
                    }
                    Feature::Format if bytes != format_name(row.image.kind).as_bytes() => {
                        Err(format!("{key} is {:?}, {} in the index", lossy(bytes), row.image.kind.name()))
                    }
                    Feature::Filename if !row.path.ends_with(bytes) => {
                        Err(format!("{key} is {:?}, {:?} in the index", lossy(bytes), lossy(row.path)))
                    }
                    _ => Ok(()),
                }
            }
            (_, None) => Err(format!("{key} holds no bytes")),
        }
    }
}

impl Format for TfRecord {
    fn name(&self) -> &'static str {
        super::NAME
    }

    fn components(&self) -> &[String] {
        &self.components
    }

    fn settings(&self) -> BTreeMap<String, String> {
        let keys: Vec<_> = self.features.iter().map(|feature| feature.key()).collect();
        BTreeMap::from([
            (LABEL_OFFSET.to_owned(), self.label_offset.to_string()),
            (FEATURES.to_owned(), keys.join(",")),
        ])
    }

    fn needs_path(&self) -> bool {
        self.writes(Feature::Filename)
    }

    fn layout(&self, sample: &Sample<'_>) -> Result<Layout> {
        let (features_bytes, places) = self.features_bytes(sample).map_err(|error| error.in_sample(sample.key))?;
        let data_bytes = field_bytes(features_bytes);
        let record = u32::try_from(data_bytes + FRAME_BYTES as u64);
        let (Ok(record_bytes), true) = (record, data_bytes <= MAX_DATA_BYTES) else {
            return Err(Error::usage(format!(
                "image of {} bytes: protobuf messages must be below 2 GiB",
                sample.payload_bytes
            ))
            .in_sample(sample.key));
        };
        let mut components = [Extent::ABSENT; formats::MAX_WRITTEN];
        let before = HEAD_BYTES as u64 + data_bytes - features_bytes;
        for (extent, place) in components.iter_mut().zip(places).take(self.components.len()) {
            if let Some((at, bytes)) = place {
                // Offset and length are within the record, whose length fits in 32 bits.
                *extent = Extent { offset: (before + at) as u32, bytes: bytes as u32 };
            }
        }
        Ok(Layout { record_bytes, components })
    }

    fn frame(&self, sample: &Sample<'_>, image: &Header, record: &mut [u8]) -> Result<()> {
        let short = || Error::data("the record is not as long as its layout").in_sample(sample.key);
        let data_bytes = record.len().checked_sub(FRAME_BYTES).ok_or_else(short)?;
        let (head, rest) = record.split_first_chunk_mut::<HEAD_BYTES>().ok_or_else(short)?;
        let (data, foot) = rest.split_at_mut_checked(data_bytes).ok_or_else(short)?;
        let mut out = Out { rest: &mut *data, is_short: false };
        out.tagged(TAG_FIRST, self.features_bytes(sample)?.0);
        for (key, entry) in &self.entries {
            let Some(value) = self.value(*entry, sample)? else { continue };
            let nest = Nest::new(key, value);
            out.tagged(TAG_FIRST, nest.entry);
            out.bytes(key.as_bytes());
            out.tagged(TAG_VALUE, nest.feature);
            let feature = match (entry, value) {
                (Entry::Own(feature), _) => *feature,
                (Entry::File(_), Value::Bytes(bytes)) => {
                    out.tagged(TAG_FIRST, nest.list);
                    out.tagged(TAG_FIRST, bytes);
                    out.skip(bytes as usize);
                    continue;
                }
                (Entry::Value(_, tag), Value::Bytes(bytes)) => {
                    out.tagged(*tag, nest.list);
                    out.tagged(TAG_FIRST, bytes);
                    out.skip(bytes as usize);
                    continue;
                }
                (Entry::Dtype(number), _) => {
                    out.tagged(TAG_FIRST, nest.list);
                    out.bytes(sample.content(*number).map_or("", |(_, form)| values::dtype(form)).as_bytes());
                    continue;
                }
                (Entry::Shape(number), Value::Bytes(bytes)) => {
                    out.tagged(TAG_INTS, nest.list);
                    out.tagged(TAG_FIRST, bytes);
                    let axes = sample.content(*number).map_or(&[][..], |(_, form)| values::shape(form));
                    axes.iter().for_each(|axis| out.varint(*axis, varint_bytes(*axis)));
                    continue;
                }
                _ => return Err(short()),
            };
            match feature {
                Feature::Label | Feature::Height | Feature::Width => out.tagged(TAG_INTS, nest.list),
                _ => out.tagged(TAG_FIRST, nest.list),
            }
            match feature {
                Feature::Label => {
                    let label = self.label(sample.label)?.cast_unsigned();
                    out.tagged(TAG_FIRST, varint_bytes(label));
                    out.varint(label, varint_bytes(label));
                }
                Feature::Text => out.bytes(sample.class),
                Feature::Encoded => {
                    out.tagged(TAG_FIRST, sample.payload_bytes.into());
                    out.skip(sample.payload_bytes as usize);
                }
                Feature::Filename => out.bytes(filename(sample)),
                Feature::Format => {
                    let name = format_name(image.kind);
                    out.put(&[TAG_FIRST]);
                    out.varint(name.len() as u64, SLOT_BYTES - name.len() as u64);
                    out.put(name.as_bytes());
                }
                Feature::Height | Feature::Width => {
                    let number = if feature == Feature::Height { image.height } else { image.width };
                    out.tagged(TAG_FIRST, SLOT_BYTES);
                    out.varint(number.into(), SLOT_BYTES);
                }
            }
        }
        if out.is_short || !out.rest.is_empty() {
            return Err(short());
        }
        let length = (data_bytes as u64).to_le_bytes();
        head[..length.len()].copy_from_slice(&length);
        head[length.len()..].copy_from_slice(&masked_crc(&length).to_le_bytes());
        foot.copy_from_slice(&masked_crc(data).to_le_bytes());
        Ok(())
    }

    fn check(&self, row: &RowRef<'_>, record: &[u8]) -> Result<()> {
        let wrong = |fault: Fault| Error::data(fault.what).at_byte(fault.at as u64);
        let data = layout::data(record).map_err(wrong)?;
        let in_data = |fault: Fault| wrong(Fault { at: fault.at + HEAD_BYTES, ..fault });
        let example = Example::parse(data).map_err(in_data)?;
        if let Some((key, _)) =
            example.iter().find(|(key, _)| !self.entries.iter().any(|(own, _)| own.as_bytes() == *key))
        {
            return Err(Error::data(format!("unexpected feature {:?}", lossy(key))).at_byte(0));
        }
        for (key, entry) in &self.entries {
            let told = |number: usize| row.component(number).map(|at| (at.offset as usize, at.bytes as usize));
            let list = example.list(key.as_bytes());
            let same = match entry {
                Entry::Own(feature) => self.same((key, *feature), row, &example, data),
                Entry::File(number) => {
                    let found = list.and_then(|list| example.only_bytes(list));
                    let found = found.map(|range| (range.start + HEAD_BYTES, range.len()));
                    match found.is_some() && found == told(*number) {
                        true => Ok(()),
                        false => Err(format!("{key} is elsewhere in the index")),
                    }
                }
                Entry::Value(number, _) | Entry::Dtype(number) | Entry::Shape(number) => {
                    let same = match (list, told(*number), row.form(*number)) {
                        (Some(list), Some(place), Some(form)) => match entry {
                            Entry::Value(_, tag) => values::is_at(list, *tag, place),
                            Entry::Dtype(_) => values::is_dtype(list, form, &example, data),
                            _ => values::is_shape(list, form, &example),
                        },
                        (list, place, _) => list.is_none() && place.is_none(),
                    };
                    if same { Ok(()) } else { Err(format!("{key} differs from the index")) }
                }
            };
            same.map_err(|what| Error::data(what).at_byte(0))?;
        }
        Ok(())
    }

    fn is_encoded(&self, number: usize) -> bool {
        self.encodings.get(number).is_some_and(|encoding| *encoding != Encoding::Content)
    }

    fn encode(&self, number: usize, form: &Form, content: &[u8], stored: &mut [u8]) -> Result<()> {
        self.encodings.get(number).unwrap_or(&Encoding::Content).encode(form, content, stored)
    }

    fn decode<'s>(&self, number: usize, form: &Form, stored: &'s [u8]) -> Result<Cow<'s, [u8]>> {
        self.encodings.get(number).unwrap_or(&Encoding::Content).decode(form, stored)
    }

    fn items<'s>(&self, number: usize, form: &Form, stored: &'s [u8]) -> Result<Option<Cow<'s, [u8]>>> {
        self.encodings.get(number).unwrap_or(&Encoding::Content).items(form, stored)
    }

    fn shard_file(&self, name: &str, number: u64, shards: u64) -> String {
        format!("{name}-{number:05}-of-{shards:05}")
    }

    fn extension(&self) -> &'static str {
        ""
    }

    fn shard_sidecar(
        &self,
        name: &str,
        of: &all_sidecars::Sealed<'_>,
        out: &mut dyn all_sidecars::Files,
    ) -> Result<()> {
        if name == sidecars::DALI { sidecars::dali(of, out) } else { Ok(()) }
    }

    fn sidecar(
        &self,
        name: &str,
        dataset: &all_sidecars::Dataset<'_>,
        out: &mut dyn all_sidecars::Files,
    ) -> Result<()> {
        match name {
            sidecars::DALI => Ok(()),
            _ => all_sidecars::write(super::NAME, name, dataset, out),
        }
    }

    fn recipes(&self, folder: &Path, name: &str, shards: u64, _: bool) -> Vec<(&'static str, String)> {
        let files = recipes::Files { folder, pattern: format!("{name}-*-of-{shards:05}") };
        if let Some(parsed) = &self.parsed {
            return recipes::values(&files, parsed);
        }
        let key = |own| self.entries.iter().find(|(_, entry)| *entry == Entry::Own(own)).map_or("", |(key, _)| key);
        let label = self.writes(Feature::Label).then(|| key(Feature::Label));
        recipes::images(&files, self.components.first().map_or("", String::as_str), label)
    }
}

fn feature(key: &str) -> Result<Feature> {
    let is_called = |feature: &Feature| feature.key() == key || feature.plain_key() == Some(key);
    Feature::ALL.into_iter().find(is_called).ok_or_else(|| {
        Error::usage(format!("feature {key:?}, {} writes {}", super::NAME, Feature::ALL.map(Feature::key).join(", ")))
    })
}

/// The path below the folder of the class; the whole path if the class is not its folder.
fn filename<'a>(sample: &Sample<'a>) -> &'a [u8] {
    let below = sample.path.strip_prefix(sample.class).and_then(|rest| rest.strip_prefix(b"/"));
    below.unwrap_or(sample.path)
}

/// Content of `image/format`: at most four letters, the capacity of its slot.
fn format_name(kind: Kind) -> &'static str {
    match kind {
        Kind::Unknown => "",
        Kind::Jpeg => "JPEG",
        Kind::Png => "PNG",
        Kind::Webp => "WEBP",
        Kind::Gif => "GIF",
        Kind::Bmp => "BMP",
        Kind::Tiff => "TIFF",
        Kind::Pnm => "PNM",
        Kind::Jp2 => "JP2",
        Kind::Jxl => "JXL",
        Kind::Avif => "AVIF",
        Kind::Heif => "HEIF",
        Kind::Npy => "NPY",
    }
}

fn lossy(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[cfg(test)]
pub(super) mod tests;

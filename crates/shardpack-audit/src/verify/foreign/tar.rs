//! Verifies a tar file by member: components of each sample, members that readers drop, and the end of the file.

use std::{collections::BTreeMap, ops::Range};

use shardpack_format::{
    Error, Result,
    formats::{
        foreign::FieldSelection,
        webdataset::{
            image_of, is_lost, is_named_image,
            reader::{Ending, Member},
            samples::{Component, ForeignSample, Grouper, Issue},
            texts::{Texts, Told},
        },
    },
    hash,
    image_header::SNIFF_BYTES,
    text,
};

use super::{Options, Problem, Walked, decode, list, of_sample, shown};
use crate::{
    foreign::{Archive, ShardFile, header_check::no_image},
    monitor::Monitor,
};

/// First bytes of members with an image name, by the offset of their data.
type Firsts = BTreeMap<u64, Vec<u8>>;

/// Maximum length in bytes of an image that is decoded.
const MAX_BYTES: u64 = 1 << 30;

/// Adds the findings to `walked`; an error means that the file cannot be parsed further or ends badly.
pub(super) fn walk(
    file: &ShardFile,
    mut reader: Archive,
    options: &Options,
    monitor: &dyn Monitor,
    walked: &mut Walked,
) -> Result<()> {
    let mut grouper = Grouper::default();
    let (mut data, mut is_twice, mut texts) = (Vec::new(), false, Texts::default());
    let mut firsts = Firsts::new();
    let wanted = FieldSelection::default();
    let of_bytes =
        |bytes: Range<u64>, what: String| Problem { file: shown(file), bytes: Some(bytes), what, ..Problem::default() };
    loop {
        monitor.check_cancelled()?;
        let member = match reader.next() {
            Ok(Some(member)) => member,
            Ok(None) => break,
            Err(error) => {
                // The last sample may be complete or lack the truncated part: it counts as a sample, and the error reports the rest.
                walked.sample(file, grouper.finish(), &texts, &firsts, is_twice);
                return Err(error);
            }
        };
        let mut first = None;
        if is_image(&member) || is_named_image(&member.name) {
            data.clear();
            match options.decode && is_image(&member) {
                true => reader.read_data(&mut data, MAX_BYTES)?,
                false => reader.read_first(&mut data, SNIFF_BYTES as u64)?,
            }
            first = Some((member.data_offset, data[..data.len().min(SNIFF_BYTES)].to_vec()));
        }
        if options.decode
            && is_image(&member)
            && let Err(what) = decode::decode(&data, &mut walked.not_decoded)
        {
            let what = format!("{}: {what}", text::shown(&member.name));
            walked.add(of_bytes(member.data_offset..member.data_offset + member.bytes, what));
        }
        let data_offset = member.data_offset;
        match grouper.add(member) {
            Ok(sample) => {
                if sample.is_some() {
                    let (texts, firsts) = (std::mem::take(&mut texts), std::mem::take(&mut firsts));
                    walked.sample(file, sample, &texts, &firsts, std::mem::take(&mut is_twice));
                }
                firsts.extend(first);
                // Folders and similar members are accepted but belong to no sample.
                let last = grouper.current().and_then(|sample| sample.components.last());
                if let Some(Component { extension, bytes, .. }) = last.filter(|last| last.offset == data_offset)
                    && let Some(text) = texts.slot(extension, *bytes, &wanted)
                    && let Err(error) = reader.read_data(text, *bytes)
                {
                    walked.sample(file, grouper.finish(), &texts, &firsts, is_twice);
                    return Err(error);
                }
            }
            Err(dropped) => {
                match first {
                    Some((_, bytes)) => data = bytes,
                    None => reader.read_first(&mut data, SNIFF_BYTES as u64)?,
                }
                if !is_lost(&dropped, &data, grouper.current()) {
                    *walked.passed.entry(dropped.issue.counted_as()).or_default() += 1;
                    continue;
                }
                let name = text::shown(&dropped.name);
                let what = format!("member {name:?} is not read: {}", dropped.issue);
                let mut problem = of_bytes(dropped.header_offset..dropped.header_offset + 512, what);
                if dropped.issue == Issue::DuplicateExtension && !std::mem::replace(&mut is_twice, true) {
                    // It is ambiguous which member is right, so the sample is damaged.
                    problem.key = grouper.current().map(|sample| text::shown(&sample.key).to_string());
                }
                walked.add(problem);
            }
        }
    }
    walked.sample(file, grouper.finish(), &texts, &firsts, is_twice);
    match reader.ending() {
        Ending::Marker => {}
        Ending::OneBlock => return Err(Error::data("ends in one block of zeros, not two: cut short?")),
        Ending::Missing => return Err(Error::data("ends without two blocks of zeros: cut short?")),
    }
    match reader.trailing_offset() {
        Some(at) => Err(Error::data("more bytes follow the end of the archive: readers do not see them").at_byte(at)),
        None => Ok(()),
    }
}

fn is_image(member: &Member) -> bool {
    is_image_extension(last(&member.name))
}

fn is_image_extension(extension: &[u8]) -> bool {
    crate::source::is_image_extension(&extension.to_ascii_lowercase())
}

fn last(name: &[u8]) -> &[u8] {
    name.rsplit(|byte| *byte == b'.').next().unwrap_or_default()
}

/// Role of a component: images of different kinds have the same role.
fn part(extension: Vec<u8>) -> Vec<u8> {
    let last = last(&extension);
    match is_image_extension(last) {
        true => [&extension[..extension.len() - last.len()], b"image"].concat(),
        false => extension,
    }
}

impl Walked {
    fn sample(
        &mut self,
        file: &ShardFile,
        sample: Option<ForeignSample>,
        texts: &Texts,
        firsts: &Firsts,
        is_twice: bool,
    ) {
        let Some(sample) = sample else { return };
        self.samples += 1;
        self.keys.push((hash::content(&sample.key), sample.offset));
        let is_image = |component: &Component| is_named_image(&component.extension);
        let problem = |what: String| of_sample(file, &sample.key, sample.offset, what);
        let images = sample.components.iter().filter(|component| is_image(component)).count();
        let Told { label, component: of_label, class, .. } =
            texts.parse(&sample.components, &FieldSelection::default());
        self.images += u64::from(images > 0);
        if !is_twice {
            match image_of(&sample.components, &FieldSelection::default()) {
                Err(_) if images == 0 => {
                    // Files of another kind, with or without a label.
                    self.values += u64::from(sample.components.len() > usize::from(of_label.is_some()));
                    let names: Vec<_> = sample.components.iter().map(|component| component.extension.clone()).collect();
                    return self.lacks(problem(format!("there is {}", list(&names))));
                }
                Err(why) if images > 1 => self.several(problem(why)),
                Err(why) => self.add(problem(why)),
                // Reported below.
                Ok(image) if image.bytes == 0 => {}
                Ok(image) if let Some(why) = no_image(&image, firsts.get(&image.offset).map_or(&[], Vec::as_slice)) => {
                    return self.lacks(problem(why));
                }
                Ok(_) => match self.words.said(&label, class.as_deref(), None) {
                    Ok(said) => self.said.push((said, sample.offset)),
                    Err(why) => self.add(problem(why)),
                },
            }
        }
        if let Some(empty) = sample.components.iter().find(|component| component.bytes == 0 && is_image(component)) {
            let what = format!("an empty image, {}", text::shown(&empty.extension));
            self.add(problem(what));
        }
        // Whether a missing label is a problem depends on the other samples.
        let of_label = of_label.map(|component| component.offset);
        let others = sample.components.into_iter().filter(|component| Some(component.offset) != of_label);
        let components = others.map(|component| part(component.extension)).collect();
        self.note(components, &sample.key);
    }
}

//! Splits `KEY.npz` in the samples of a tar: each array becomes a component, read from its range in the tar.
//!
//! An archive that cannot be parsed stays one component, and such archives are counted. Reading an array fetches the whole
//! member and checks its CRC-32.

use std::io;

use shardpack_format::{
    Error, Result,
    component::{Component, Form},
    formats::foreign::{FieldSelection, Other, Record},
    size, text,
};

use super::super::Bytes;
use super::{EXTENSION, Fault, Npz, ReadAt};
use crate::zip::{archive, wrong};

/// Unit of fetch lengths in recipes. The unit is smaller than the directory after the last array, so that every fetch lies in
/// the file.
const UNIT_BYTES: u64 = 64;

/// How many bytes a component with this recipe is made of.
pub(crate) fn fetched_bytes(recipe: u32) -> usize {
    recipe as usize * UNIT_BYTES as usize
}

/// Builds the component of an array from the fetched bytes: its local header, its data, and the bytes after them.
///
/// # Errors
/// If the fetched bytes are corrupt.
pub(crate) fn component(fetched: &[u8]) -> Result<Vec<u8>> {
    let made = archive::member(fetched).and_then(|(name, content)| {
        let array = super::array_of(&content, content.len() as u64).map_err(|fault| fault.of_member(&name))?;
        Ok(match array.form {
            Form::Bytes => content,
            form => [&form.head(), &content[array.head_bytes..]].concat(),
        })
    });
    made.map_err(|fault| match fault {
        Fault::Data(what) => Error::data(what),
        Fault::Io(error) => Error::io("cannot read", error),
    })
}

/// Splits archives in the samples of an uncompressed tar.
pub(crate) struct TakenApart {
    file: Bytes,
    wanted: FieldSelection,
    /// Number of archives that stay whole, and the reason for the first.
    left: u64,
    why: String,
}

/// A file in the tar.
struct Section<'f> {
    file: &'f Bytes,
    start: u64,
    bytes: u64,
}

impl ReadAt for Section<'_> {
    fn read_at(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        match offset.checked_add(out.len() as u64) {
            Some(end) if end <= self.bytes => self.file.read_exact_at(out, self.start + offset),
            _ => Err(io::ErrorKind::UnexpectedEof.into()),
        }
    }
}

impl TakenApart {
    /// In the samples of `file`.
    pub fn new(file: Bytes, wanted: &FieldSelection) -> Self {
        Self { file, wanted: wanted.clone(), left: 0, why: String::new() }
    }

    /// Whether a field is such a file, and not wanted as it is.
    fn is_meant(&self, other: &Other) -> bool {
        let is_named = |names: &Vec<String>| {
            Component::field(&other.name).is_ok_and(|own| names.iter().any(|name| name == own.name()))
        };
        other.name == EXTENSION
            && self.wanted.components.as_ref().is_none_or(|names| !names.is_empty() && !is_named(names))
            && !self.wanted.keeps_archives
            && self.wanted.renames.iter().all(|(from, _)| *from != other.name)
    }

    /// The arrays in a field of a sample that has components of these `names`.
    fn arrays(&self, other: &Other, start: u64, names: &[String]) -> std::result::Result<Vec<Other>, Fault> {
        let section = Section { file: &self.file, start, bytes: other.bytes };
        let npz = Npz::open(&section, other.bytes)?;
        npz.check_places()?;
        if let Some(member) = npz.members().iter().find(|member| names.contains(&member.component)) {
            return wrong(format!("{} is a component of its own", member.component));
        }
        let array = |member: &super::Member| {
            let form = npz.array(member)?.form;
            let place = npz.archive.alone(&member.entry)?;
            let units = (place.end - place.start).div_ceil(UNIT_BYTES);
            let recipe = u32::try_from(units).ok().filter(|recipe| *recipe < Other::RECIPES);
            let too_long =
                || wrong::<u32>("longer than the limit for one read").map_err(|fault| fault.of_member(member.name()));
            let recipe = recipe.map_or_else(too_long, Ok)?;
            let bytes = form.items_bytes().map_or(member.bytes().into(), |items| items + form.head().len() as u64);
            // Bytes take the form of the archive: a file in a sample of files, no form beside an image.
            let form = if form == Form::Bytes { other.form.clone() } else { Some(form) };
            let name = member.component.clone();
            Ok(Other { name, bytes, offset: Some(start + place.start), recipe, form })
        };
        npz.members().iter().map(array).collect()
    }

    /// Puts the arrays in the place of each such file of a sample.
    ///
    /// # Errors
    /// If the system fails.
    pub fn take_apart(&mut self, record: &mut Record) -> Result<()> {
        if !record.others.iter().any(|other| self.is_meant(other)) {
            return Ok(());
        }
        let is_image = record.image.is_ok();
        let names = record.others.iter().filter_map(|other| Component::field(&other.name).ok());
        let names: Vec<_> = names.map(|component| component.name().to_owned()).collect();
        let mut others = Vec::with_capacity(record.others.len());
        for other in std::mem::take(&mut record.others) {
            let start = other.offset.filter(|_| (is_image || other.form.is_some()) && self.is_meant(&other));
            match start.map(|start| self.arrays(&other, start, &names)) {
                None => others.push(other),
                Some(Ok(arrays)) if !arrays.is_empty() => others.extend(arrays),
                Some(Err(Fault::Io(error))) => return Err(Error::io("cannot read", error)),
                Some(told) => {
                    if self.left == 0 {
                        let what = match told {
                            Err(Fault::Data(what)) => what,
                            _ => "it holds no array".to_owned(),
                        };
                        self.why = format!("{}.{}: {what}", text::shown(&record.key), other.name);
                    }
                    self.left += 1;
                    others.push(other);
                }
            }
        }
        record.others = others;
        Ok(())
    }

    /// Number of archives that stay whole, if any.
    pub fn note(&self) -> Option<String> {
        (self.left > 0).then(|| {
            let all = size::counted(self.left, "file");
            format!("{all} .npz stay as they are, their arrays are no components: {}", self.why)
        })
    }
}

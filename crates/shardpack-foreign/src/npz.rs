//! Reads `.npz` files: zip archives of numpy, each member an array.
//!
//! A file has at most [`MAX_MEMBERS`] members. Allocations are bounded by this number and by the caller's limit. A member
//! that is read has exactly the length that its header claims.
//!
//! # Specification
//! numpy 2, `lib/_npyio_impl.py`, `savez`: members `NAME.npy`, stored or deflated, not encrypted, each with a zip64 field in its local
//! header.

mod in_samples;

use shardpack_format::{
    component::{Component, Form, MAX_DATASET_COMPONENTS},
    npy,
};

pub use crate::zip::{Fault, ReadAt};
use crate::zip::{
    Result,
    archive::{Archive, Directory, Entry},
    wrong,
};
pub(crate) use in_samples::{TakenApart, component, fetched_bytes};

/// Maximum number of members: a payload, and the other fields that a sample may have.
pub const MAX_MEMBERS: usize = MAX_DATASET_COMPONENTS + 1;
/// Extension of the files.
pub const EXTENSION: &str = "npz";
/// Maximum length of a directory in bytes: the maximum number of members, with the longest names and fields of real writers.
const MAX_DIRECTORY_BYTES: u64 = 1 << 16;
/// Bytes of an array in which its head ends, but for one that numpy does not write.
const HEAD_BYTES: usize = 1024;

/// An array in a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    /// Name of the component that it is: `x.npy`.
    pub component: String,
    bytes: u32,
    entry: Entry,
}

/// A file whose directory was read.
#[derive(Debug)]
pub struct Npz<'f, R: ReadAt + ?Sized> {
    archive: Archive<'f, R>,
    members: Vec<Member>,
}

/// Description of an array.
#[derive(Debug)]
pub struct Array {
    /// Form as a component whose content is `.npy`; bytes if the header has features that no component has: Fortran order,
    /// dates.
    pub form: Form,
    /// Offset of the items in the member.
    head_bytes: usize,
}

impl<'f, R: ReadAt + ?Sized> Npz<'f, R> {
    /// Parses the directory of a file of `total_bytes` bytes.
    ///
    /// # Errors
    /// If the directory is missing or invalid.
    pub fn open(file: &'f R, total_bytes: u64) -> Result<Self> {
        let check = |members: u64| match members > MAX_MEMBERS as u64 {
            true => wrong(format!("{members} members, a sample has room for {MAX_MEMBERS}")),
            false => Ok(()),
        };
        let directory = Directory::read(file, total_bytes, MAX_DIRECTORY_BYTES, check)?;
        let mut members = Vec::<Member>::new();
        for entry in directory.entries() {
            let member = Member::from_entry(entry?)?;
            if let Some(other) = members.iter().find(|other| other.component == member.component) {
                let (other, name) = (&other.entry.name, &member.entry.name);
                return wrong(match other == name {
                    true => format!("member {name:?} is there twice"),
                    false => format!("members {other:?} and {name:?} would be one component, {}", member.component),
                });
            }
            members.push(member);
        }
        Ok(Self { archive: directory.archive(file), members })
    }

    /// The arrays, in the order of the directory.
    pub fn members(&self) -> &[Member] {
        &self.members
    }

    /// Fails if members overlap.
    ///
    /// # Errors
    /// The message names the members.
    pub fn check_places(&self) -> Result<()> {
        let mut places = Vec::with_capacity(self.members.len());
        for member in &self.members {
            let place = self.archive.place(&member.entry)?;
            places.push((place.start, place.end, &member.entry.name));
        }
        places.sort_unstable();
        match places.windows(2).find(|two| two[1].0 < two[0].1) {
            Some(two) => wrong(format!("members {:?} and {:?} lie in each other", two[0].2, two[1].2)),
            None => Ok(()),
        }
    }

    /// Describes the array of `member` from its header.
    ///
    /// # Errors
    /// If the member is no array, or its length differs from the directory; the message names the member.
    pub fn array(&self, member: &Member) -> Result<Array> {
        let of_member = |error: Fault| error.of_member(&member.entry.name);
        let mut first = Vec::new();
        for most in [HEAD_BYTES, npy::HEAD_MAX_BYTES] {
            self.archive.first(&member.entry, most, &mut first).map_err(of_member)?;
            // The header may be longer: retry with the maximum length.
            if npy::read_head(&first).is_ok() || first.len() < most {
                break;
            }
        }
        array_of(&first, member.entry.bytes).map_err(of_member)
    }

    /// Reads the component called `component` over `out`, which is as long as its content: of an array that of `form`, else the
    /// `.npy` file as it is.
    ///
    /// # Errors
    /// If it is no longer there or another one, or is corrupt; names the member.
    pub fn read(&self, component: &str, form: &Form, out: &mut [u8]) -> Result<()> {
        let Some(member) = self.members.iter().find(|member| member.component == component) else {
            return wrong(format!("changed since it was planned: no member is component {component} any more"));
        };
        let of_member = |error: Fault| error.of_member(&member.entry.name);
        let changed = || wrong("changed since it was planned: another array").map_err(of_member);
        if *form == Form::Bytes {
            return match out.len() == member.bytes as usize {
                true => self.archive.content(&member.entry, &mut [], out).map_err(of_member),
                false => changed(),
            };
        }
        let (array, head) = (self.array(member)?, form.head());
        match out.split_at_mut_checked(head.len()) {
            Some((place, items)) if array.form == *form && items.len() + array.head_bytes == member.bytes as usize => {
                place.copy_from_slice(&head);
                self.archive.content(&member.entry, &mut vec![0; array.head_bytes], items).map_err(of_member)
            }
            _ => changed(),
        }
    }
}

/// Describes the array of a `.npy` file of `bytes` bytes that begins with `first`.
fn array_of(first: &[u8], bytes: u64) -> Result<Array> {
    let head = npy::read_head(first).and_then(|head| head.check_length(bytes).map(|()| head));
    let head = head.map_err(|error| Fault::Data(error.what()))?;
    // With at most one axis longer than 1, both orders are equal, whatever the header claims.
    let is_fortran = head.is_fortran && head.shape.iter().filter(|axis| **axis != 1).count() > 1;
    let form = Form::array(head.dtype, &head.shape).ok().filter(|_| !is_fortran);
    Ok(Array { form: form.unwrap_or_default(), head_bytes: head.data_offset })
}

/// Form that stands for all arrays in messages.
const ANY_ARRAY: Form = Form::Array { dtype: String::new(), shape: Vec::new() };

impl Member {
    fn from_entry(entry: Entry) -> Result<Self> {
        let of_member = |what: String| wrong(what).map_err(|error| error.of_member(&entry.name));
        entry.check().map_err(|error| error.of_member(&entry.name))?;
        let Ok(bytes) = u32::try_from(entry.bytes) else {
            return of_member(format!("{} bytes: a component must stay below 4 GiB", entry.bytes));
        };
        let Some(field) = entry.name.strip_suffix(".npy").filter(|field| !field.is_empty()) else {
            return of_member("is no array: numpy calls those NAME.npy".to_owned());
        };
        match Component::value(field, &ANY_ARRAY) {
            Ok(component) => Ok(Self { component: component.name().to_owned(), bytes, entry }),
            Err(error) => of_member(format!("no component can be called so: {}", error.what())),
        }
    }

    /// Length in bytes of the `.npy` file that it is.
    pub fn bytes(&self) -> u32 {
        self.bytes
    }

    /// Its name in the file.
    fn name(&self) -> &str {
        &self.entry.name
    }

    /// CRC-32 of the `.npy` file.
    pub fn crc(&self) -> u32 {
        self.entry.crc
    }
}

#[cfg(test)]
mod tests;

//! Files of `torch.save`: a zip archive, or before PyTorch 1.6 pickles with the storages behind them.
//!
//! # Specification
//! PyTorch 1.6, `torch/serialization.py`: members `NAME/data.pkl` and `NAME/data/KEY`, stored. `_legacy_save`: pickles of a magic number, a
//! version, facts of the machine, the object, and the keys of its storages; then for each key the number of items in 64 bits, and the items.

use std::{cell::RefCell, collections::BTreeMap, ops::Range, sync::Arc};

use shardpack_format::{Error, Result, memory};

use super::{
    pickled::{Opened, Source},
    stored::Stored,
};
use crate::{
    Bytes,
    plain::{Value, torch_pickle},
    zip::{
        Fault,
        archive::{Directory, Entry},
    },
};

/// First bytes of a file before archives: a pickle of the magic number.
const MAGIC: &[u8] = b"\x80\x02\x8a\nl\xfc\x9cF\xf9 j\xa8P\x19.";
/// The only version of such a file.
const VERSION: i64 = 1001;
/// Longest directory of an archive of storages.
const MAX_DIRECTORY_BYTES: u64 = 16 << 20;

/// The tensors in a zip archive of `torch.save`.
///
/// # Errors
/// If the archive is corrupt, or no file of tensors.
pub(super) fn in_archive(file: &Arc<Bytes>, bytes: u64) -> Result<Opened> {
    let into_error = Fault::into_error;
    let most_bytes = MAX_DIRECTORY_BYTES.min(memory::most_of_piece());
    let directory = Directory::read(&**file, bytes, most_bytes, |_| Ok(())).map_err(into_error)?;
    let archive = directory.archive(&**file);
    let mut members = Vec::new();
    for entry in directory.entries() {
        let entry = entry.map_err(into_error)?;
        entry.check().map_err(|fault| fault.of_member(&entry.name).into_error())?;
        // The data of a member, and what it is called behind the folder of all.
        let name = entry.name.split_once('/').map_or("", |(_, name)| name).to_owned();
        let range = archive.data(&entry).map_err(into_error)?;
        members.push((name, range, entry));
    }
    let find = |wanted: &str| members.iter().find(|(name, ..)| name == wanted);
    let content = |(_, _, entry): &(String, Range<u64>, Entry)| -> Result<Vec<u8>> {
        let mut content = Vec::new();
        memory::make_room(&mut content, entry.bytes)?;
        content.resize(entry.bytes as usize, 0);
        archive.content(entry, &mut [], &mut content).map_err(|fault| fault.of_member(&entry.name).into_error())?;
        Ok(content)
    };
    let Some(pickled) = find("data.pkl") else {
        return Err(Error::data("no data.pkl in it: no file of torch.save"));
    };
    if let Some(order) = find("byteorder")
        && content(order)? != b"little"
    {
        return Err(Error::usage("tensors of a big-endian machine, which are not read"));
    }
    let input = content(pickled)?;
    // Ranges of storages are behind the pickle.
    let shift = input.len();
    let storage = |key: &[u8], _| {
        let name = format!("data/{}", str::from_utf8(key).ok()?);
        let (_, range, _) = find(&name).filter(|(_, _, entry)| !entry.is_deflated())?;
        let place = |at: u64| usize::try_from(at).ok()?.checked_add(shift);
        Some(place(range.start)?..place(range.end)?)
    };
    let (value, _) = torch_pickle(&input, &storage).map_err(Error::data)?;
    let arrays = Source { file, input: &input, shift, begin: 0 }.arrays(&value)?;
    let member_of = |array: &Stored| {
        let is_it = |(_, range, _): &&(String, Range<u64>, Entry)| {
            range.start <= array.content.range.start && array.content.range.end <= range.end
        };
        let is_outer = Arc::ptr_eq(&array.content.file, file) && array.data_bytes > 0;
        // An array in memory is of the pickle, which was compared.
        members.iter().find(is_it).filter(|_| is_outer).unwrap_or(pickled).2.clone()
    };
    let entries = arrays.iter().map(member_of).collect();
    Ok((arrays, Some((Arc::clone(file), directory, entries))))
}

/// The value in a file before archives, and where its pickle begins in `input`, the whole file; its tensors are ranges behind the pickle.
/// `None` if it is no such file.
pub(super) fn before_archives(input: &[u8]) -> Option<Result<(Value, usize)>> {
    input.starts_with(MAGIC).then(|| legacy(input).map_err(Error::data))
}

fn legacy(input: &[u8]) -> Result<(Value, usize), String> {
    let mut at = MAGIC.len();
    let mut next = |storages: &dyn Fn(&[u8], u64) -> Option<Range<usize>>| -> Result<(Value, usize), String> {
        let begin = at;
        let (value, bytes) = torch_pickle(input.get(at..).unwrap_or_default(), storages)?;
        at += bytes;
        Ok((value, begin))
    };
    let none = |_: &[u8], _| None;
    if next(&none)?.0 != Value::Int(VERSION) {
        return Err(format!("a file of torch.save whose version is not {VERSION}"));
    }
    let (machine, begin) = next(&none)?;
    if machine.get(&input[begin..], "little_endian") != Some(&Value::Bool(true)) {
        return Err("tensors of a machine that is not little-endian".to_owned());
    }
    // Where the storages lie is known behind the object: the first pass has their lengths.
    let lengths = RefCell::new(BTreeMap::new());
    let (_, object) = next(&|key, bytes| {
        lengths.borrow_mut().insert(key.to_vec(), bytes);
        Some(0..usize::try_from(bytes).ok()?)
    })?;
    let (keys, begin) = next(&none)?;
    let mut places = BTreeMap::new();
    for key in keys.items().ok_or("a file of torch.save without the keys of its storages")? {
        let key = key.as_text(&input[begin..]).ok_or("a key of a storage that is no text")?.into_owned().into_bytes();
        let start = at.checked_add(size_of::<i64>()).ok_or("a storage too far")?;
        let lies = || "a storage that does not lie in the file".to_owned();
        let bytes = *lengths.borrow().get(&key).ok_or_else(lies)?;
        let end = usize::try_from(bytes).ok().and_then(|bytes| start.checked_add(bytes));
        at = end.filter(|end| *end <= input.len()).ok_or_else(lies)?;
        let items = input.get(start - size_of::<i64>()..).and_then(|rest| rest.first_chunk());
        let items = items.map_or(0, |items| u64::from_le_bytes(*items));
        // The items have one of these lengths.
        if ![1, 2, 4, 8, 16].iter().any(|item_bytes| items.checked_mul(*item_bytes) == Some(bytes)) {
            return Err(format!("a storage of {items} items in {bytes} bytes"));
        }
        places.insert(key, start..at);
    }
    // Ranges count from the beginning of the pickle.
    let place = |key: &[u8], _| {
        let range: &Range<usize> = places.get(key)?;
        Some(range.start.checked_sub(object)?..range.end - object)
    };
    torch_pickle(&input[object..], &place).map(|(value, _)| (value, object))
}

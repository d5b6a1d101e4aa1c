//! Preprocesses images in parts: a spool for each part, and a list of its contents.
//!
//! The lengths of the new images decide all positions, so planning waits until all parts have preprocessed
//! theirs. A spool holds the images too; each part has to read only the lists of the other parts:
//!
//! ```text
//! 0   magic "shardls2" | u32 length of the head | head, JSON
//!     for each image of the part, and then for each of its components that move: u8 what became of it | u32 length
//!         | u64 place in the spool | u32 number of its form in the head, or FFFFFFFF
//!     32 bytes BLAKE3 of all before
//! ```
//! All little-endian. Holds at all times: one process writes a spool, under a unique name, in the work folder of its machine; a list
//! gets its name in the storage of the destination once its spool is durable there. So a part can be stopped anywhere and run again,
//! or run twice at once. In a folder the spool is written in place; to a store it is sent when it is complete.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    ops::Range,
    path::Path,
    sync::Arc,
};

use serde::{Deserialize, Serialize};
use shardpack_format::{Error, Result, hash, manifest::Blake3, regular, sample::Forms};
use shardpack_storage::Storage;

use super::{
    process_dirs, receipt,
    roles::Roles,
    transformed::{MadeSample, Maker, Outcome, Outcomes, count_changes, form_of, names_changed, words},
    work_folder::{SPOOLS_FOLDER, spools_folder},
};
use crate::{
    component_table::Interner,
    listing::take,
    monitor::Monitor,
    own,
    part::Part,
    plan::Plan,
    source::{
        Source, SourceListing,
        transformed::{Record, Spool, Spools, What},
    },
    sys,
    transfer::put_file,
};
use shardpack_imaging::Recipe;

const LIST: &str = "list";
/// Most bytes of a list: of a part of a billion images.
const MAX_LIST_BYTES: u64 = 16 << 30;
const MAGIC: &[u8; 8] = b"shardls2";
const OUTCOME_BYTES: usize = 17;
const HASH_BYTES: usize = 32;

/// A request to preprocess images.
pub(super) struct Request<'a> {
    pub source: &'a dyn Source,
    pub found: &'a [SourceListing],
    pub recipe: &'a Recipe,
    pub roles: &'a Roles,
    /// Plans of `found` without cuts; their hashes identify the images of a list.
    pub plans: &'a [Plan],
}

impl Request<'_> {
    /// Number of results for the images with these numbers, which count over all splits, and for their components.
    fn outcomes(&self, images: Range<u64>) -> u64 {
        let (mut start, mut outcomes) = (0, 0);
        for one in self.found {
            let end = start + one.listing.len();
            let own = images.end.clamp(start, end) - images.start.clamp(start, end);
            outcomes += own * (1 + self.roles.columns(one).len() as u64);
            start = end;
        }
        outcomes
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Head {
    /// Version of the program that preprocessed the images.
    shardpack: String,
    recipe: String,
    /// Hash of the plan of each split.
    plans: Vec<Blake3>,
    part: String,
    /// Name of the spool.
    spool: String,
    /// Number of images by change.
    changes: BTreeMap<String, u64>,
    /// Forms of components.
    forms: Vec<String>,
    /// For images in the ledger: the change, or the reason of the refusal. Numbers count over all splits.
    texts: Vec<(u64, String)>,
}

/// Results for the images of a part.
struct List {
    head: Head,
    outcomes: Vec<Outcome>,
}

impl List {
    fn to_bytes(&self) -> Result<Vec<u8>> {
        let head =
            serde_json::to_vec(&self.head).map_err(|error| Error::data(format!("cannot write json: {error}")))?;
        let head_bytes =
            u32::try_from(head.len()).map_err(|_| Error::data("more than 4 GiB of changes in one part"))?;
        let mut bytes = [&MAGIC[..], &head_bytes.to_le_bytes(), &head].concat();
        for Outcome { what, bytes: length, place, form, .. } in &self.outcomes {
            bytes.push(*what as u8);
            bytes.extend_from_slice(&length.to_le_bytes());
            bytes.extend_from_slice(&place.to_le_bytes());
            bytes.extend_from_slice(&form.to_le_bytes());
        }
        bytes.extend_from_slice(&hash::file(&bytes));
        Ok(bytes)
    }

    /// `None` if the bytes are not a list, or are truncated.
    fn read(bytes: &[u8]) -> Option<Self> {
        let (content, found) = bytes.split_at_checked(bytes.len().checked_sub(HASH_BYTES)?)?;
        let (head_bytes, rest) = content.strip_prefix(MAGIC)?.split_first_chunk()?;
        let (head, rest) = rest.split_at_checked(u32::from_le_bytes(*head_bytes) as usize)?;
        if found != hash::file(content) || rest.len() % OUTCOME_BYTES != 0 {
            return None;
        }
        let outcome = |bytes: &[u8; OUTCOME_BYTES]| {
            let ([what], rest) = take(bytes);
            let (length, place) = take(rest);
            let (place, form) = take(place);
            let (form, _) = take(form);
            let (what, form) = (What::from_number(what)?, u32::from_le_bytes(form));
            Some(Outcome { what, bytes: u32::from_le_bytes(length), place: u64::from_le_bytes(place), spool: 0, form })
        };
        let outcomes = rest.as_chunks().0.iter().map(outcome).collect::<Option<_>>()?;
        Some(Self { head: serde_json::from_slice(head).ok()?, outcomes })
    }

    /// Fails if the list belongs to another request.
    fn check(&self, part: Part, request: &Request<'_>) -> Result<()> {
        let (head, own) = (&self.head, env!("CARGO_PKG_VERSION"));
        if head.shardpack != own {
            let what = format!("holds images that shardpack {} has changed, this is {own}", head.shardpack);
            return Err(Error::usage(what).help(receipt::ONE_VERSION));
        }
        let recipe = words(request.recipe, request.roles);
        if head.recipe != recipe {
            let what = format!("holds images that were changed by another recipe: {}; this is {recipe}", head.recipe);
            return Err(Error::usage(what).help(OTHER_FOLDER));
        }
        if head.plans != hashes(request.plans)? {
            let what =
                "holds images that were changed for another plan: of other options, another seed or another source";
            return Err(Error::usage(what).help(OTHER_FOLDER));
        }
        let images = part.share(images(request.found));
        let fits = |number: &u64| images.contains(number);
        match head.part == part.to_string()
            && self.outcomes.len() as u64 == request.outcomes(images.clone())
            && head.texts.iter().all(|(number, _)| fits(number))
            && spool_part(&head.spool) == Some(part)
        {
            true => Ok(()),
            false => Err(Error::data("holds other images than those of its name").help(REMOVE)),
        }
    }
}

const OTHER_FOLDER: &str = "the same options for all parts; another folder for another plan";
const REMOVE: &str = "remove it: then that part changes its images anew";

fn hashes(plans: &[Plan]) -> Result<Vec<Blake3>> {
    plans.iter().map(|plan| plan.hash().map(Blake3)).collect()
}

/// Number of images of all splits.
fn images(found: &[SourceListing]) -> u64 {
    found.iter().map(|one| one.listing.len()).sum()
}

fn list_file(part: Part) -> String {
    format!("{}-of-{}.{LIST}", part.number, part.of)
}

/// The part in the name `I-of-N-RANDOM` of a spool or a process.
fn spool_part(name: &str) -> Option<Part> {
    let (of_part, random) = name.rsplit_once('-')?;
    let (number, of) = of_part.split_once("-of-")?;
    let is_ours = !random.is_empty() && random.bytes().all(|byte| byte.is_ascii_hexdigit());
    Part::new(number.parse().ok()?, of.parse().ok()?).ok().filter(|_| is_ours)
}

/// The part in the name `I-of-N.list` of a list.
fn list_part(name: &str) -> Option<Part> {
    let (number, of) = name.strip_suffix(&format!(".{LIST}"))?.split_once("-of-")?;
    Part::new(number.parse().ok()?, of.parse().ok()?).ok()
}

/// Names of all spools and lists in a storage.
pub(super) fn all_names(storage: &dyn Storage) -> Result<Vec<String>> {
    let files = storage.list(&spools_folder())?.unwrap_or_default().into_iter().filter(|entry| !entry.is_folder);
    let files = files.map(|entry| entry.name).filter(|file| list_part(file).is_some() || spool_part(file).is_some());
    Ok(files.map(|file| spools_folder() + &file).collect())
}

/// The parts whose images are all preprocessed, from their lists.
pub(super) fn parts(storage: &dyn Storage) -> Result<Vec<Part>> {
    let (folder, names) = (spools_folder(), all_names(storage)?);
    let mut parts: Vec<_> = names.iter().filter_map(|name| list_part(name.strip_prefix(&folder)?)).collect();
    parts.sort_by_key(|part| (part.of, part.number));
    Ok(parts)
}

/// Names of all entries in the folder of a work folder.
fn names(work: &Path) -> Result<Vec<String>> {
    let folder = work.join(SPOOLS_FOLDER);
    if !sys::exists(&folder)? {
        return Ok(Vec::new());
    }
    let failed = |e| sys::io_error("cannot read folder", &folder, e);
    let entries = fs::read_dir(&folder).map_err(failed)?.collect::<Result<Vec<_>, _>>().map_err(failed)?;
    Ok(entries.into_iter().filter_map(|entry| entry.file_name().into_string().ok()).collect())
}

/// The list of `part`, if it is complete.
fn read(storage: &dyn Storage, part: Part, request: &Request<'_>) -> Result<Option<List>> {
    let name = spools_folder() + &list_file(part);
    let Some(bytes) = storage.read(&name, MAX_LIST_BYTES)? else { return Ok(None) };
    let damaged = || Error::data("is damaged").help(REMOVE);
    let list = List::read(&bytes).ok_or_else(damaged);
    let list = list
        .and_then(|list| list.check(part, request).map(|()| list))
        .map_err(|error| error.in_file(storage.path_of(&name)))?;
    let end = list.outcomes.iter().map(|outcome| outcome.place.saturating_add(outcome.bytes.into())).max();
    let bytes = storage.length(&(spools_folder() + &list.head.spool))?;
    Ok(bytes.is_some_and(|bytes| bytes >= end.unwrap_or(0)).then_some(list))
}

/// The lists of all parts, if all are complete; otherwise the missing parts of `of`.
pub(super) fn all(
    storage: &Arc<dyn Storage>,
    of: u32,
    request: &Request<'_>,
) -> Result<std::result::Result<(Outcomes, Spools), Vec<Part>>> {
    let there = parts(storage.as_ref())?;
    // Any number of parts is valid once all of them are complete.
    let counts: BTreeSet<u32> = there.iter().map(|part| part.of).collect();
    let is_complete = |of: &u32| there.iter().filter(|part| part.of == *of).count() == *of as usize;
    let complete = if is_complete(&of) { Some(of) } else { counts.into_iter().find(is_complete) };
    let Some(of) = complete else {
        // Lists are long: one list shows whether the lists belong to this request.
        there.first().map(|first| read(storage.as_ref(), *first, request)).transpose()?;
        return Ok(Err(Part::all(of).filter(|part| !there.contains(part)).collect()));
    };
    let (mut outcomes, mut spools, mut missing) =
        (Outcomes::new(request.found, request.recipe, request.roles), Vec::new(), Vec::new());
    let starts: Vec<u64> = request
        .found
        .iter()
        .scan(0, |next, one| {
            *next += one.listing.len();
            Some(*next - one.listing.len())
        })
        .collect();
    for part in Part::all(of) {
        let Some(List { head, outcomes: made }) = read(storage.as_ref(), part, request)? else {
            missing.push(part);
            continue;
        };
        spools.push(spools_folder() + &head.spool);
        let split_of = |number: u64| starts.partition_point(|start| *start <= number) - 1;
        let damaged = || Error::data("a form is damaged").in_file(storage.path_of(&spools_folder()));
        let forms = head.forms.iter().map(|form| Ok(outcomes.forms.number(&form.parse()?)));
        let forms = forms.collect::<Result<Vec<u32>>>()?;
        let mut made = made.into_iter();
        for number in part.share(images(request.found)) {
            let split = split_of(number);
            let (spool, number) = (part.number, number - starts[split]);
            let image = made.next().ok_or_else(damaged)?;
            outcomes.put(split, number, Outcome { spool, ..image });
            for column in 0..outcomes.columns(split) {
                let outcome = made.next().ok_or_else(damaged)?;
                let form = match outcome.form {
                    Forms::BYTES => Forms::BYTES,
                    form => *forms.get(form as usize).ok_or_else(damaged)?,
                };
                outcomes.put_component(split, number, column, Outcome { spool, form, ..outcome });
            }
        }
        for (number, text) in head.texts {
            let split = split_of(number);
            outcomes.put_text(split, number - starts[split], text);
        }
        head.changes.iter().for_each(|(change, images)| outcomes.count(change, *images));
    }
    let spools = Spools { storage: Arc::clone(storage), names: Arc::new(spools) };
    Ok(if missing.is_empty() { Ok((outcomes, spools)) } else { Err(missing) })
}

/// Preprocesses the images of `part`, unless an earlier run did; `run` is the folder of this process in the
/// work folder of this machine. Resumes the spool of a process that has ended. If images are refused and `names_refused` is
/// set, no list is written, and each refused image is returned: split, number in it, and reason.
pub(super) fn make(
    storage: &dyn Storage,
    (work, run): (&Path, &Path),
    part: Part,
    request: &Request<'_>,
    jobs: usize,
    names_refused: bool,
    monitor: &dyn Monitor,
) -> Result<Vec<(usize, u64, String)>> {
    let folder = own::folder(work, SPOOLS_FOLDER)?;
    let Some(name) = run.file_name().and_then(|name| name.to_str()) else {
        return Err(Error::data("a process without a name").in_file(run));
    };
    // The order matters. A process exists before its spool, so a spool that is seen here and whose process does not run afterwards is
    // abandoned; a spool of a process that begins later is not seen. If the process finished, its list exists.
    let seen = spools(work, part)?;
    let running = process_dirs::all(work)?.into_iter().filter(|run| run.is_running()).map(|run| run.name()).collect();
    if read(storage, part, request)?.is_some() {
        return Ok(Vec::new());
    }
    take_over(&folder, seen, name, &running)?;
    let Request { source, found, recipe, roles, plans } = *request;
    let (spool, known) = Spool::open(&folder.join(name), &words(recipe, roles))?;
    let maker = Maker { source, recipe, roles, spool, known, jobs, monitor };
    let share = part.share(images(found));
    let mut head = Head {
        shardpack: env!("CARGO_PKG_VERSION").to_owned(),
        recipe: words(recipe, roles),
        plans: hashes(plans)?,
        part: part.to_string(),
        spool: name.to_owned(),
        changes: BTreeMap::new(),
        forms: Vec::new(),
        texts: Vec::new(),
    };
    let (mut start, mut outcomes, mut refused, mut forms) = (0, Vec::new(), Vec::new(), Interner::default());
    for (split, one) in found.iter().enumerate() {
        let end = start + one.listing.len();
        let own = share.start.clamp(start, end) - start..share.end.clamp(start, end) - start;
        let records = if own.is_empty() { Vec::new() } else { maker.make(one, own)? };
        for (number, MadeSample { image, components }) in records {
            outcomes.push(Outcome::from_record(&image));
            for record in &components {
                outcomes.push(Outcome { form: form_of(record, &mut forms)?, ..Outcome::from_record(record) });
            }
            let Record { what, text, .. } = image;
            if what == What::Made {
                count_changes(&mut head.changes, &text, 1);
            }
            if what == What::Refused {
                refused.push((split, number, text.clone()));
            }
            if what == What::Refused || (what == What::Made && names_changed(recipe)) {
                head.texts.push((start + number, text));
            }
        }
        start = end;
    }
    if names_refused && !refused.is_empty() {
        return Ok(refused);
    }
    head.forms = forms.forms().iter().map(ToString::to_string).collect();
    maker.spool.sync()?;
    let below = spools_folder();
    if storage.local().is_none() {
        send(storage, &(below.clone() + name), &folder.join(name), monitor)?;
    }
    storage.sync(below.trim_end_matches('/'))?;
    storage.put(&(below.clone() + &list_file(part)), List { head, outcomes }.to_bytes()?)?;
    storage.sync(below.trim_end_matches('/'))?;
    Ok(Vec::new())
}

/// Sends a complete spool to a store.
fn send(storage: &dyn Storage, name: &str, path: &Path, monitor: &dyn Monitor) -> Result<()> {
    let failed = |error| sys::io_error("cannot read", path, error);
    let file = regular::open(path).map_err(failed)?;
    let mut hasher = blake3::Hasher::new();
    hasher.update_reader(&file).map_err(failed)?;
    let bytes = file.metadata().map_err(failed)?.len();
    put_file(storage, name, path, (bytes, hasher.finalize().as_bytes()), monitor)
}

/// Names of the spools of `part`.
fn spools(work: &Path, part: Part) -> Result<Vec<String>> {
    Ok(names(work)?.into_iter().filter(|name| spool_part(name) == Some(part)).collect())
}

/// Renames the longest of the spools `seen` that no running process writes to `name`.
fn take_over(folder: &Path, seen: Vec<String>, name: &str, running: &BTreeSet<String>) -> Result<()> {
    let mut left = Vec::new();
    for other in seen.into_iter().filter(|other| !running.contains(other)) {
        if let Some(stat) = sys::metadata_opt(&folder.join(&other))? {
            left.push((stat.len(), other));
        }
    }
    if let Some((_, longest)) = left.iter().max() {
        // Another process may be faster: then there is no spool to resume.
        let _ = own::rename(&folder.join(longest), &folder.join(name));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_abandoned_spools_that_were_seen_are_taken_over_and_the_longest_first() {
        let work = tempfile::tempdir().unwrap();
        let folder = work.path().join(SPOOLS_FOLDER);
        fs::create_dir(&folder).unwrap();
        let part = Part::new(1, 2).unwrap();
        for (name, bytes) in [("1-of-2-a", 1), ("1-of-2-b", 3), ("1-of-2-c", 9), ("2-of-2-d", 20), ("1-of-2.list", 30)]
        {
            fs::write(folder.join(name), vec![0; bytes]).unwrap();
        }
        let mut seen = spools(work.path(), part).unwrap();
        seen.sort();
        assert_eq!(seen, ["1-of-2-a", "1-of-2-b", "1-of-2-c"]);
        // Its process began after the look: nobody knows yet whether it runs.
        fs::write(folder.join("1-of-2-e"), vec![0; 40]).unwrap();
        let running = BTreeSet::from(["1-of-2-c".to_owned()]);
        take_over(&folder, seen, "1-of-2-f", &running).unwrap();
        let mut left = names(work.path()).unwrap();
        left.sort();
        assert_eq!(left, ["1-of-2-a", "1-of-2-c", "1-of-2-e", "1-of-2-f", "1-of-2.list", "2-of-2-d"]);
        assert_eq!(fs::metadata(folder.join("1-of-2-f")).unwrap().len(), 3);
    }
}

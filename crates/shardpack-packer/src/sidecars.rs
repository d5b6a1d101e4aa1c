//! Sidecars, written after all shards of a dataset are sealed and before the manifest that names them.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs::File,
    io::{BufWriter, Read, Write},
    path::{Path, PathBuf},
};

use rayon::prelude::*;
use shardpack_format::{
    Error, Result,
    formats::{self, Format, sidecars},
    hash::digest,
    index::Index,
    manifest::{self, Blake3, Manifest},
    regular, text,
};
use shardpack_storage::Storage;

use crate::{
    copy::ShardHashes,
    own,
    plan::{Compression, Plan},
    sys,
};

/// Number of bytes that are written at a time.
const WRITE_BYTES: usize = 256 << 10;

/// Sidecars that declare the payload as an image.
const OF_IMAGES: [&str; 2] = ["energon", "timm"];

/// Which sidecars are written.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Choice {
    /// All sidecars of the format that readers need.
    #[default]
    Auto,
    /// None.
    None,
    /// These, by name.
    Names(Vec<String>),
}

impl Choice {
    /// The names of the sidecars for the format of `plan`.
    ///
    /// # Errors
    /// If the format has no sidecar of a name.
    pub fn names(&self, plan: &Plan) -> Result<Vec<&'static str>> {
        let format = plan.format().name();
        let kinds = formats::entry(format)?.sidecars;
        let fits = |kind: &&sidecars::Kind| plan.options.format.payload.is_none() || !OF_IMAGES.contains(&kind.name);
        match self {
            Self::Auto => Ok(kinds.iter().filter(|kind| kind.auto).filter(fits).map(|kind| kind.name).collect()),
            Self::None => Ok(Vec::new()),
            Self::Names(names) => {
                let mut all = Vec::new();
                for name in names {
                    if name == "auto" {
                        all.extend(Self::Auto.names(plan)?);
                        continue;
                    }
                    let kind = kinds.iter().find(|kind| kind.name == name).ok_or_else(|| {
                        let known: Vec<_> = kinds.iter().map(|kind| kind.name).collect();
                        Error::usage(format!("--sidecars {name}: {format} has {}", known.join(", ")))
                    })?;
                    all.push(kind.name);
                }
                let mut known = BTreeSet::new();
                all.retain(|name| known.insert(*name));
                Ok(all)
            }
        }
    }

    /// Number of chosen sidecars for catalogues.
    pub(crate) fn catalogues(&self, plan: &Plan) -> Result<u64> {
        let names = self.names(plan)?;
        let kinds = formats::entry(plan.format().name())?.sidecars.iter().filter(|kind| names.contains(&kind.name));
        Ok(kinds.filter(|kind| kind.catalogue.is_some()).count() as u64)
    }

    /// Names of the hashes of shard files for `plan`: see [`hashes_of`].
    pub(crate) fn hashes(&self, plan: &Plan) -> Result<Vec<String>> {
        hashes_of(plan.format(), &self.names(plan)?)
    }

    /// Whether sealed datasets have sidecars though none are chosen, or lack chosen ones.
    pub(crate) fn differ(&self, plans: &[Plan], manifests: &[Manifest]) -> Result<bool> {
        let all = plans.iter().zip(manifests);
        all.map(|(plan, manifest)| self.differs(plan, manifest)).try_fold(false, |any, one| Ok(any | one?))
    }

    /// Whether the dataset of `manifest` has sidecars though none are chosen, or has none or no catalogue that are chosen.
    fn differs(&self, plan: &Plan, manifest: &Manifest) -> Result<bool> {
        let names = self.names(plan)?;
        let has = |file: &str| manifest.sidecars.iter().any(|sidecar| sidecar.file == file);
        let kinds = formats::entry(plan.format().name())?.sidecars.iter().filter(|kind| names.contains(&kind.name));
        let lacks_one = kinds.filter_map(|kind| kind.catalogue).any(|catalogue| !has(catalogue.file));
        Ok(lacks_one || names.is_empty() != manifest.sidecars.is_empty())
    }
}

/// Names of the hashes of shard files that these sidecars of `format` contain: see [`shardpack_format::hash::Named`].
fn hashes_of(format: &dyn Format, names: &[&str]) -> Result<Vec<String>> {
    if names.is_empty() {
        return Ok(Vec::new());
    }
    let kinds = formats::entry(format.name())?.sidecars.iter().filter(|kind| names.contains(&kind.name));
    let of_kinds = kinds.filter_map(|kind| kind.catalogue).flat_map(|catalogue| catalogue.hashes);
    let all: BTreeSet<String> =
        format.file_hashes().iter().cloned().chain(of_kinds.map(|name| (*name).to_owned())).collect();
    Ok(all.into_iter().collect())
}

/// Whether the file at `path` exists, has a name of a sidecar, and was written by somebody else.
pub(crate) fn is_foreign(path: &Path) -> Result<bool> {
    let name = path.to_string_lossy();
    if !sidecars::is_shared_name(&name) || !sys::exists(path)? {
        return Ok(false);
    }
    let bytes = regular::read(path).map_err(|e| sys::io_error("cannot read", path, e))?;
    Ok(!sidecars::is_ours(&name, &bytes))
}

/// Whether the file `name` in `storage` exists, has a name of a sidecar, and was written by somebody else.
///
/// # Errors
/// If it cannot be read.
pub fn is_foreign_in(storage: &dyn Storage, name: &str) -> Result<bool> {
    let is_shared = sidecars::is_shared_name(name);
    Ok(is_shared && storage.read_small(name)?.is_some_and(|bytes| !sidecars::is_ours(name, &bytes)))
}

/// Fails if [`is_foreign`].
pub(crate) fn refuse_foreign(path: &Path) -> Result<()> {
    if is_foreign(path)? { Err(foreign(path)) } else { Ok(()) }
}

/// Fails if a file in `dst` that somebody else wrote has the name of a chosen sidecar.
pub(crate) fn refuse_strangers(choice: &Choice, plans: &[Plan], dst: &Path) -> Result<()> {
    for plan in plans {
        let names = choice.files(plan)?;
        let folders = [Some(dst.to_path_buf()), plan.split.as_ref().map(|split| dst.join(split))];
        let paths = folders.iter().flatten().flat_map(|folder| names.iter().map(|name| folder.join(name)));
        for path in paths {
            refuse_foreign(&path)?;
        }
    }
    Ok(())
}

/// Error for a file at `path` that somebody else wrote, where a sidecar must be written.
pub fn foreign(path: &Path) -> Error {
    Error::usage("was not written by shardpack, and a sidecar needs its name")
        .in_file(path)
        .help("move it away and repeat the command")
}

/// Fails if one of the sidecars of `choice` cannot represent a sample of `plan`.
pub(crate) fn check(choice: &Choice, plan: &Plan) -> Result<()> {
    let format = plan.format().name();
    let names = choice.names(plan)?;
    if let (Some(payload), Some(name)) = (&plan.options.format.payload, OF_IMAGES.iter().find(|of| names.contains(of)))
    {
        return Err(Error::usage(format!(
            "sidecar {name} describes images, and these samples are .{} files",
            payload.name()
        ))
        .help("--sidecars names others, or none"));
    }
    let wanted = formats::entry(format)?.sidecars.iter().filter(|kind| names.contains(&kind.name));
    if let (Some(kind), Compression::Zstd(_)) =
        (wanted.clone().find(|kind| kind.catalogue.is_some()), plan.options.compression)
    {
        return Err(Error::usage(format!("sidecar {}: its readers do not read shards compressed by zstd", kind.name))
            .help("leave out --compress, or this sidecar"));
    }
    let mut path = Vec::new();
    for fits in wanted.filter_map(|kind| kind.path_fits) {
        for number in 0..plan.listing.len() {
            plan.listing.path(number, &mut path);
            fits(&path).map_err(|error| error.in_sample(text::shown(&path).to_string()))?;
        }
    }
    Ok(())
}

/// Destination and choice of sidecars.
pub struct Writer<'a> {
    /// The format of the shards.
    pub format: &'a dyn Format,
    /// Names of the sidecars.
    pub names: &'a [&'a str],
    /// Write only these files, if set.
    pub only: Option<&'a BTreeSet<&'a str>>,
    /// Known hashes of shards, by file name.
    pub hashes: BTreeMap<&'a str, &'a ShardHashes>,
    /// Folder of the dataset.
    pub dst: &'a Path,
    /// Has the shards: `dst`, or the URL that `dst` is sent to.
    pub storage: &'a dyn Storage,
    /// Work folder; this process alone uses it.
    pub work: &'a Path,
}

impl Writer<'_> {
    /// Writes all files for the dataset of `manifest`; returns them by name.
    pub fn write(&self, manifest: &Manifest) -> Result<Vec<manifest::File>> {
        let of_shards = self.write_of_shards(&manifest.shards, &manifest.components, &manifest.format.compression)?;
        let mut files = self.write_of_dataset(manifest)?;
        files.extend(of_shards.into_iter().flatten());
        Ok(in_order(files))
    }

    /// Writes the files for each of these shards; returns them for each shard.
    pub fn write_of_shards(
        &self,
        shards: &[manifest::Shard],
        components: &[String],
        compression: &str,
    ) -> Result<Vec<Vec<manifest::File>>> {
        let kinds = formats::entry(self.format.name())?.sidecars.iter();
        let names: Vec<_> =
            kinds.filter(|kind| kind.of_shards && self.names.contains(&kind.name)).map(|kind| kind.name).collect();
        if names.is_empty() {
            return Ok(vec![Vec::new(); shards.len()]);
        }
        let of_shard = |shard: &manifest::Shard| {
            let index = self.index(shard)?;
            let of = sidecars::Sealed { shard, index: &index, components, compression };
            let mut files = self.files(&shard.file);
            names.iter().try_for_each(|name| self.format.shard_sidecar(name, &of, &mut files))?;
            files.finish()
        };
        let written = shards.par_iter().map(of_shard).collect::<Result<Vec<_>>>()?;
        self.make_durable(written.iter().flatten())?;
        Ok(written)
    }

    /// Writes the files for the whole dataset of `manifest`; returns them by name.
    pub fn write_of_dataset(&self, manifest: &Manifest) -> Result<Vec<manifest::File>> {
        if self.names.is_empty() {
            return Ok(Vec::new());
        }
        let format = self.format;
        let index = |number: usize| self.index(&manifest.shards[number]);
        let needed = self.needed();
        let names = hashes_of(format, &needed)?;
        let per_shard = manifest.shards.par_iter().map(|shard| self.hash_file(shard, &names, false));
        let hashes = per_shard.collect::<Result<Vec<_>>>()?;
        let unpacked = match manifest.format.compression.as_str() {
            "none" => Vec::new(),
            _ => {
                let per_shard = manifest.shards.par_iter().enumerate().map(|(number, shard)| {
                    let bytes = index(number)?.summary().content_bytes;
                    Ok((bytes, self.hash_file(shard, format.file_hashes(), true)?))
                });
                per_shard.collect::<Result<Vec<_>>>()?
            }
        };
        let dataset = sidecars::Dataset {
            name: &manifest.name,
            shards: &manifest.shards,
            classes: &manifest.classes,
            samples: manifest.samples,
            kinds: &manifest.kinds,
            components: &manifest.components,
            settings: &manifest.format.settings,
            compression: &manifest.format.compression,
            hashes: &hashes,
            unpacked: &unpacked,
            index: &index,
        };
        let written = needed.par_iter().map(|name| {
            let mut files = self.files(name);
            format.sidecar(name, &dataset, &mut files)?;
            files.finish()
        });
        let files: Vec<_> = written.collect::<Result<Vec<_>>>()?.into_iter().flatten().collect();
        self.make_durable(files.iter())?;
        Ok(files)
    }

    /// Names of the sidecars of which a file is written.
    fn needed(&self) -> Vec<&str> {
        let is_written = |kind: &sidecars::Kind| match (self.only, kind.catalogue) {
            (Some(only), Some(catalogue)) => only.contains(catalogue.file),
            _ => true,
        };
        let kinds = formats::entry(self.format.name()).map_or(&[][..], |entry| entry.sidecars);
        let kinds = kinds.iter().filter(|kind| self.names.contains(&kind.name) && is_written(kind));
        kinds.map(|kind| kind.name).collect()
    }

    /// The hashes of a shard, or of its decompressed bytes with `unpack`; the shard is not read if they are known.
    fn hash_file(&self, shard: &manifest::Shard, names: &[String], unpack: bool) -> Result<BTreeMap<String, String>> {
        let known = self.hashes.get(shard.file.as_str()).map(|known| if unpack { &known.content } else { &known.file });
        let known = names.iter().map(|name| Some((name.clone(), known?.get(name)?.clone())));
        if let Some(known) = known.collect::<Option<BTreeMap<_, _>>>() {
            return Ok(known);
        }
        let path = self.storage.path_of(&shard.file);
        let failed = |e| sys::io_error("cannot read", &path, e);
        let file: Box<dyn Read> = self.storage.reader(&shard.file, shard.bytes)?;
        let mut inner: Box<dyn Read> = if unpack { Box::new(zstd::Decoder::new(file).map_err(failed)?) } else { file };
        let names = names.iter().map(String::as_str);
        Ok(digest(&mut inner, names, &|| Ok(())).map_err(|error| error.in_file(path))?.1)
    }

    fn index(&self, shard: &manifest::Shard) -> Result<Index<Vec<u8>>> {
        let path = self.dst.join(&shard.index.file);
        let bytes = regular::read(&path).map_err(|e| sys::io_error("cannot read", &path, e))?;
        Index::open(bytes).map_err(|error| error.in_file(&path))
    }

    /// A receiver of files, which are written one by one under a temporary name; the name is unique if `of` is.
    fn files(&self, of: &str) -> Files<'_> {
        let part = format!("sidecar-{of}.part");
        Files { writer: self, part, open: None, passed_over: false, done: Vec::new() }
    }

    fn make_durable<'f>(&self, files: impl Iterator<Item = &'f manifest::File>) -> Result<()> {
        let folders: BTreeSet<&Path> = files.filter_map(|file| Path::new(&file.file).parent()).collect();
        folders.into_iter().try_for_each(|folder| sys::sync_folder(&self.dst.join(folder)))
    }
}

/// Sidecars in the order of the manifest: by name.
pub(crate) fn in_order(mut files: Vec<manifest::File>) -> Vec<manifest::File> {
    files.sort_by(|a, b| a.file.cmp(&b.file));
    files
}

/// Names of all sidecars that the dataset of `plan` may have, chosen or not.
pub(crate) fn all_names(plan: &Plan) -> Result<Vec<String>> {
    file_names(plan, |_| true)
}

impl Choice {
    /// Names of the files of the sidecars for `plan`.
    ///
    /// # Errors
    /// As [`Choice::names`].
    pub fn files(&self, plan: &Plan) -> Result<Vec<String>> {
        let names = self.names(plan)?;
        file_names(plan, |name| names.contains(&name))
    }
}

fn file_names(plan: &Plan, is_chosen: impl Fn(&str) -> bool) -> Result<Vec<String>> {
    let shards: Vec<String> = (0..plan.shards.len()).map(|number| plan.shard_file(number)).collect();
    let kinds = formats::entry(plan.format().name())?.sidecars.iter().filter(|kind| is_chosen(kind.name));
    Ok(kinds.flat_map(|kind| kind.names(&plan.name, shards.iter().map(String::as_str))).collect())
}

/// Writes sidecars under a temporary name, one by one.
struct Files<'a> {
    writer: &'a Writer<'a>,
    part: String,
    open: Option<Open>,
    /// The present file is skipped.
    passed_over: bool,
    done: Vec<manifest::File>,
}

struct Open {
    name: String,
    temporary: PathBuf,
    out: BufWriter<File>,
    hasher: blake3::Hasher,
    bytes: u64,
}

impl Files<'_> {
    fn end(&mut self) -> Result<()> {
        let Some(Open { name, temporary, out, hasher, bytes }) = self.open.take() else { return Ok(()) };
        let file = out.into_inner().map_err(|e| sys::io_error("cannot write", &temporary, e.into_error()))?;
        let path = self.writer.dst.join(&name);
        own::folder(self.writer.dst, Path::new(&name).parent().unwrap_or(Path::new("")))?;
        refuse_foreign(&path)?;
        sys::finish_durably(&file, &temporary, &path)?;
        self.done.push(manifest::File { file: name, bytes, blake3: Blake3(*hasher.finalize().as_bytes()) });
        Ok(())
    }

    fn finish(mut self) -> Result<Vec<manifest::File>> {
        self.end()?;
        Ok(self.done)
    }
}

impl sidecars::Files for Files<'_> {
    fn begin(&mut self, name: &str) -> Result<()> {
        self.end()?;
        self.passed_over = self.writer.only.is_some_and(|only| !only.contains(name));
        if self.passed_over {
            return Ok(());
        }
        let temporary = self.writer.work.join(&self.part);
        let file = own::create(&temporary)?;
        let out = BufWriter::with_capacity(WRITE_BYTES, file);
        self.open = Some(Open { name: name.to_owned(), temporary, out, hasher: blake3::Hasher::new(), bytes: 0 });
        Ok(())
    }

    fn write(&mut self, bytes: &[u8]) -> Result<()> {
        if self.passed_over {
            return Ok(());
        }
        let Some(open) = &mut self.open else { return Err(Error::usage("a sidecar is begun before it is written")) };
        open.hasher.update(bytes);
        open.bytes += bytes.len() as u64;
        open.out.write_all(bytes).map_err(|e| sys::io_error("cannot write", &open.temporary, e))
    }
}

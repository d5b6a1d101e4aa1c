//! Sidecars, written when all shards of a dataset are sealed and before its manifest, which names them.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs::{self, File},
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
};

use crate::{plan::Plan, sys};

/// Bytes that are written at a time.
const WRITE_BYTES: usize = 256 << 10;
/// In the work folder: the names of sidecars that were begun, a line each, so that they can be removed again.
const BEGUN: &str = "sidecars";

/// Sidecars that say of the payload that it is an image.
const OF_IMAGES: [&str; 2] = ["energon", "timm"];

/// Which sidecars are written.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Choice {
    /// All that the format has for readers that need them.
    #[default]
    Auto,
    /// None.
    None,
    /// These, by name.
    Names(Vec<String>),
}

impl Choice {
    /// The names that this means for the format of `plan`.
    ///
    /// # Errors
    /// When the format has no sidecar of a name.
    pub fn names(&self, plan: &Plan) -> Result<Vec<&'static str>> {
        let format = plan.format().name();
        let kinds = formats::entry(format)?.sidecars;
        let fits = |kind: &&sidecars::Kind| plan.options.format.payload.is_none() || !OF_IMAGES.contains(&kind.name);
        match self {
            Self::Auto => Ok(kinds.iter().filter(|kind| kind.auto).filter(fits).map(|kind| kind.name).collect()),
            Self::None => Ok(Vec::new()),
            Self::Names(names) => names
                .iter()
                .map(|name| {
                    kinds.iter().find(|kind| kind.name == name).map(|kind| kind.name).ok_or_else(|| {
                        let known: Vec<_> = kinds.iter().map(|kind| kind.name).collect();
                        Error::usage(format!("--sidecars {name}: {format} has {}", known.join(", ")))
                    })
                })
                .collect(),
        }
    }
}

/// Fails where one of the sidecars that `choice` means cannot tell a sample of `plan`.
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
    let mut path = Vec::new();
    for fits in wanted.filter_map(|kind| kind.path_fits) {
        for number in 0..plan.listing.len() {
            plan.listing.path(number, &mut path);
            fits(&path).map_err(|error| error.in_sample(String::from_utf8_lossy(&path)))?;
        }
    }
    Ok(())
}

/// Writes the sidecars `names` of the dataset that `manifest` is to be of, in `dst`, by way of `work`, or only those of
/// their files that are in `only`; tells the files by name.
pub(crate) fn write(
    format: &dyn Format,
    manifest: &Manifest,
    names: &[&str],
    only: Option<&BTreeSet<&str>>,
    dst: &Path,
    work: &Path,
) -> Result<Vec<manifest::File>> {
    if names.is_empty() {
        return Ok(Vec::new());
    }
    let index = |number: usize| {
        let path = dst.join(&manifest.shards[number].index.file);
        let bytes = fs::read(&path).map_err(|e| sys::io_error("cannot read", &path, e))?;
        Index::open(bytes).map_err(|error| error.in_file(&path))
    };
    let per_shard =
        manifest.shards.par_iter().map(|shard| hash_file(&dst.join(&shard.file), format.file_hashes(), false));
    let hashes = per_shard.collect::<Result<Vec<_>>>()?;
    let unpacked = match manifest.format.compression.as_str() {
        "none" => Vec::new(),
        _ => {
            let per_shard = manifest.shards.par_iter().enumerate().map(|(number, shard)| {
                let bytes = index(number)?.summary().content_bytes;
                Ok((bytes, hash_file(&dst.join(&shard.file), format.file_hashes(), true)?))
            });
            per_shard.collect::<Result<Vec<_>>>()?
        }
    };
    let dataset = sidecars::Dataset {
        name: &manifest.name,
        shards: &manifest.shards,
        classes: &manifest.classes,
        samples: manifest.samples,
        components: &manifest.components,
        compression: &manifest.format.compression,
        hashes: &hashes,
        unpacked: &unpacked,
        index: &index,
    };
    let written = names.par_iter().map(|name| {
        let mut files = Files {
            dst,
            work,
            only,
            part: format!("sidecar-{name}.part"),
            open: None,
            passed_over: false,
            done: Vec::new(),
        };
        format.sidecar(name, &dataset, &mut files)?;
        files.finish()
    });
    let mut files: Vec<_> = written.collect::<Result<Vec<_>>>()?.into_iter().flatten().collect();
    files.sort_by(|a: &manifest::File, b| a.file.cmp(&b.file));
    let mut folders: Vec<&Path> = files.iter().filter_map(|file| Path::new(&file.file).parent()).collect();
    folders.dedup();
    folders.into_iter().try_for_each(|folder| sys::sync_folder(&dst.join(folder)))?;
    Ok(files)
}

/// Names of the sidecars that an unfinished pack has begun.
pub(crate) fn begun(work: &Path) -> Result<Vec<String>> {
    let names = sys::read_if_there(&work.join(BEGUN))?.unwrap_or_default();
    Ok(String::from_utf8_lossy(&names).lines().filter(|name| !name.is_empty()).map(str::to_owned).collect())
}

/// The hashes of a file, unpacked where it is so wished; it is not read where there are none.
fn hash_file(path: &Path, names: &[String], unpack: bool) -> Result<BTreeMap<String, String>> {
    if names.is_empty() {
        return Ok(BTreeMap::new());
    }
    let failed = |e| sys::io_error("cannot read", path, e);
    let file = File::open(path).map_err(failed)?;
    let mut inner: Box<dyn Read> =
        if unpack { Box::new(zstd::Decoder::new(file).map_err(failed)?) } else { Box::new(file) };
    let names = names.iter().map(String::as_str);
    Ok(digest(&mut inner, names, &|| Ok(())).map_err(|error| error.in_file(path))?.1)
}

/// Writes sidecars under a temporary name, one after the other.
struct Files<'a> {
    dst: &'a Path,
    work: &'a Path,
    only: Option<&'a BTreeSet<&'a str>>,
    part: String,
    open: Option<Open>,
    /// The file under way is not wanted.
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
        let path = self.dst.join(&name);
        // The name first: what is there and named nowhere would be taken for somebody else's.
        let list = self.work.join(BEGUN);
        let mut begun = File::options().create(true).append(true).open(&list);
        begun
            .as_mut()
            .map_err(|e| std::io::Error::from(e.kind()))
            // In one write: others append to the list at the same time.
            .and_then(|begun| begun.write_all(format!("{name}\n").as_bytes()))
            .map_err(|e| sys::io_error("cannot write", &list, e))?;
        if let Some(folder) = path.parent() {
            sys::create_folder(folder)?;
        }
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
        self.passed_over = self.only.is_some_and(|only| !only.contains(name));
        if self.passed_over {
            return Ok(());
        }
        let temporary = self.work.join(&self.part);
        let file = File::create(&temporary).map_err(|e| sys::io_error("cannot create", &temporary, e))?;
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

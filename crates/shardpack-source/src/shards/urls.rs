//! Resolves user URLs to shards: object names, brace patterns, and, in buckets, folders and globs.
//!
//! Holds at all times: a read object has the version that was found; store settings are never written to a file.

use std::{
    collections::BTreeMap,
    path::Path,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use globset::GlobBuilder;
use shardpack_format::{Error, ErrorKind, Result, help, manifest, splits};
use shardpack_reader::{StoreSettings, Transfers, format_folders};
use shardpack_storage::{Object, Storage};

use super::{declared, splits as of_splits};
use crate::{
    foreign::{Kind, Readers, Remote, files, lmdb::DATA_FILE, many, patterns::braces},
    options::{SPLITS, Splits},
    packed::{self, InFolder, Input},
    strangers::DatasetFiles,
    url::{self, Named},
};

/// Maximum number of files listed in a folder.
const MAX_LISTED: usize = 1 << 24;
/// Message for a URL without an object or folder.
const NOTHING: &str = "no such object, and nothing below it";

/// The folders that hold the shards.
#[derive(Debug, Default)]
pub(crate) struct UrlResolver {
    /// For all folders.
    settings: StoreSettings,
    /// By URL, which ends with a slash.
    folders: Mutex<BTreeMap<String, Arc<dyn Storage>>>,
    readers: Arc<Readers>,
}

/// The URL of a folder, which ends with a slash.
fn url_of(folder: &dyn Storage) -> String {
    folder.root().to_string_lossy().into_owned()
}

/// Content of a folder.
struct Level {
    /// The shards directly in it.
    files: files::Files,
    /// Names of its folders.
    folders: Vec<String>,
    /// Its files that may declare splits.
    declares: Vec<&'static str>,
}

/// Shards of a split.
type SplitShards = (Option<String>, files::Files);

impl UrlResolver {
    pub fn new(settings: &StoreSettings) -> Self {
        Self { settings: settings.clone(), ..Self::default() }
    }

    fn folders(&self) -> MutexGuard<'_, BTreeMap<String, Arc<dyn Storage>>> {
        self.folders.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Transfers so far.
    pub fn transfers(&self) -> Transfers {
        self.folders().values().filter_map(|store| store.transfers()).fold(Transfers::default(), Transfers::and)
    }

    /// The folder at `url`; sends no request.
    fn store(&self, url: &str) -> Result<Arc<dyn Storage>> {
        if let Some(store) = self.folders().get(url) {
            return Ok(Arc::clone(store));
        }
        let store = shardpack_storage::open_later(url, &self.settings)?;
        Ok(Arc::clone(self.folders().entry(url_of(store.as_ref())).or_insert(store)))
    }

    fn remote(&self, folder: &Arc<dyn Storage>, object: Object) -> Remote {
        Remote::new(Arc::clone(folder), object, &self.readers)
    }

    /// The file that a plan recorded at `url`; sends no request.
    pub fn known(&self, url: &str, bytes: u64, stamp: i64) -> Result<Remote> {
        let parts = url.rfind('/').map(|slash| url.split_at(slash + 1));
        let (folder, name) = parts.ok_or_else(|| Error::data("no URL of a shard").in_file(url))?;
        Ok(self.remote(&self.store(folder)?, Object { name: name.to_owned(), bytes, stamp }))
    }

    /// The file at `named`, if it exists.
    fn file(&self, named: &Named) -> Result<Option<Remote>> {
        let store = self.store(&named.folder)?;
        Ok(store.look(&named.name)?.map(|object| self.remote(&store, object)))
    }

    /// The shards that `source` names, grouped by split; one group without a split if its folders are not splits.
    ///
    /// # Errors
    /// If `source` matches nothing, or the server does not answer.
    pub fn of_source(&self, source: &str, from: Option<Kind>, splits: &Splits) -> Result<Vec<SplitShards>> {
        let expanded = braces(source).map_err(|error| error.in_file(source))?;
        let is_one = expanded.len() == 1;
        let (mut names, mut found) = (Vec::new(), Vec::new());
        for url in expanded {
            if let Some(folder) = url::before_glob(&url)? {
                names.extend(self.glob(folder, &url)?);
                continue;
            }
            match url::named(&url)? {
                Some(named) => names.push(named),
                None if is_one => return self.folder(&url, from, splits),
                None => found.push((None, self.level(&url, from)?.files)),
            }
        }
        // A name without a shard extension is more likely a folder, and some servers fail if a folder is requested as an object.
        if is_one && !url::is_web(source) && !packed::names_shards(Path::new(source)) {
            match self.folder(source, from, splits) {
                Err(error) if error.what() == NOTHING => {}
                found => return found,
            }
        }
        let looked = many(&names, |named| self.file(named));
        let mut remotes = Vec::new();
        for (named, remote) in names.iter().zip(looked) {
            // A web server may refuse to show a folder.
            let is_folder = is_one && url::is_web(source) && !files::is_called_shard(Path::new(source));
            match remote {
                Err(_) if is_folder => return self.folder(source, from, splits),
                Err(error) => return Err(error),
                Ok(Some(remote)) => remotes.push(remote),
                Ok(None) if is_one => return self.folder(source, from, splits),
                Ok(None) => {
                    return Err(Error::usage("no such object").in_file(format!("{}{}", named.folder, named.name)));
                }
            }
        }
        found.push((None, files::of_urls(remotes, from)));
        Ok(found)
    }

    /// The things that `url` stands for: a dataset, files, or something else.
    pub fn input(&self, url: &str) -> Result<Input> {
        let path = Path::new(url);
        if path.file_name().is_some_and(|name| name == manifest::FILE) {
            return Ok(Input::Dataset(packed::folder_of(path)));
        }
        if packed::names_shards(path) {
            return self.by_folder(url).map(Input::Files);
        }
        let folder = self.store(url)?;
        Ok(match folder.look(manifest::FILE)?.is_some() || folder.look(splits::FILE)?.is_some() {
            true => Input::Dataset(path.to_path_buf()),
            false => Input::Other,
        })
    }

    /// Whether the folder at `url`, which has no manifest, has datasets of a pack to several formats. Lists the folder.
    pub fn has_formats(&self, url: &str) -> Result<bool> {
        Ok(!format_folders(self.store(url)?.as_ref())?.is_empty())
    }

    /// Fails if the folder at `url`, which has no manifest, holds an unfinished pack or the remains of a dataset.
    ///
    /// The shards of such a folder are not foreign shards.
    pub fn refuse_without_manifest(&self, url: &str) -> Result<()> {
        let store = self.store(url)?;
        // A web server lists nothing and is never the destination of a pack.
        let has = |folder: &str, end: &str| {
            let named = |object: &Object| object.name.ends_with(end);
            Ok::<_, Error>(!url::is_web(url) && store.level(&format!("{folder}/"))?.objects.iter().any(named))
        };
        if has(manifest::WORK_FOLDER, "")? {
            let error = Error::data("an unfinished pack: it has no manifest yet");
            return Err(error.in_file(store.root()).help(help::FINISH_PACK));
        }
        match store.look(manifest::SUMS_FILE)?.is_some() || has(manifest::INDEX_FOLDER, ".index")? {
            true => Err(packed::lost_manifest(store.root())),
            false => Ok(()),
        }
    }

    /// The objects that `url`, a pattern or the name of a shard, stands for, by folder.
    fn by_folder(&self, url: &str) -> Result<Vec<InFolder>> {
        let mut by_folder = BTreeMap::<String, Vec<String>>::new();
        for url in braces(url).map_err(|error| error.in_file(url))? {
            let names = match url::before_glob(&url)? {
                Some(folder) => self.glob(folder, &url)?,
                None => url::named(&url)?.into_iter().collect(),
            };
            for Named { folder, name } in names {
                by_folder.entry(url_of(self.store(&folder)?.as_ref())).or_default().push(name);
            }
        }
        let folders: Vec<_> = by_folder.into_iter().collect();
        let looked = many(&folders, |(folder, names)| {
            let known = DatasetFiles::in_folder(self.store(folder)?.as_ref())?;
            Ok(InFolder { folder: folder.into(), names: names.clone(), known })
        });
        looked.into_iter().collect()
    }

    /// The files that `source` names, with split and format detection left at their defaults.
    pub fn look(&self, source: &str) -> Result<files::Files> {
        let mut found = files::Files::default();
        let of_source = self.of_source(source, None, &Splits::None);
        for (_, files) in of_source.map_err(|error| match error.kind() {
            ErrorKind::Usage if url::is_web(source) && !packed::names_shards(Path::new(source)) => {
                let what = format!(
                    "no dataset: there is neither {} nor {}, and a web server has no listing",
                    manifest::FILE,
                    splits::FILE
                );
                let error = Error::usage(what.as_str()).in_file(source).help(help::URL_OF_FOLDER);
                // One folder of the server may know the reason.
                self.folders().values().fold(error, |error, store| match error.what() == what {
                    true => store.explain_missing(error),
                    false => error,
                })
            }
            _ => error,
        })? {
            found.append(files);
        }
        Ok(found)
    }

    /// The objects that match `pattern`; `folder` is the part of the pattern before the first wildcard.
    fn glob(&self, folder: &str, pattern: &str) -> Result<Vec<Named>> {
        let wrong = |error: globset::Error| Error::usage(error.to_string()).in_file(pattern);
        let rest = &pattern[folder.len()..];
        let matcher = GlobBuilder::new(rest).literal_separator(true).build().map_err(wrong)?.compile_matcher();
        let parts: Vec<&str> = rest.split('/').collect();
        let store = self.store(folder)?;
        let mut names = Vec::new();
        let mut take = |objects: Vec<Object>| {
            let is_hidden = |name: &str| {
                name.split('/').zip(&parts).any(|(name, part)| name.starts_with('.') && !part.starts_with('.'))
            };
            let matching = objects.into_iter().map(|object| object.name);
            names.extend(matching.filter(|name| matcher.is_match(name) && !is_hidden(name)));
            if names.len() > MAX_LISTED { Err(too_many(pattern)) } else { Ok(()) }
        };
        match parts.len() {
            1 => take(store.level("")?.objects),
            _ => store.pages("", &mut |page| take(page.objects)),
        }?;
        if names.is_empty() {
            return Err(Error::usage("no object matches this pattern").in_file(pattern));
        }
        names.sort_by(|one, other| one.split('/').cmp(other.split('/')));
        let url = url_of(store.as_ref());
        let named = |name: String| match name.rsplit_once('/') {
            Some((below, name)) => Named { folder: format!("{url}{below}/"), name: name.to_owned() },
            None => Named { folder: url.clone(), name },
        };
        Ok(names.into_iter().map(named).collect())
    }

    /// The shards directly in the folder at `url`, or in its folders that are splits.
    fn folder(&self, url: &str, from: Option<Kind>, splits: &Splits) -> Result<Vec<SplitShards>> {
        let Level { files: mut all, folders, declares } = self.level(url, from)?;
        let store = self.store(url)?;
        let read = |name: &str| match declares.contains(&name) {
            true => store.read_optional(name, declared::LIMIT_BYTES),
            false => Ok(None),
        };
        if let Some(declared) = declared::of_folder(url, &read)? {
            let of_pattern = |pattern: &str| {
                let mut files = files::Files::default();
                let url = format!("{}/{pattern}", url.trim_end_matches('/'));
                let found = match folders.iter().any(|folder| folder == pattern) {
                    true => vec![(None, self.level(&url, from)?.files)],
                    false => self.of_source(&url, from, &Splits::None)?,
                };
                found.into_iter().for_each(|(_, found)| files.append(found));
                Ok(files)
            };
            return of_splits::declared_files(Path::new(url), declared, all, splits, &of_pattern);
        }
        let names: Vec<&str> = match splits {
            _ if !all.shards.is_empty() => Vec::new(),
            Splits::None => Vec::new(),
            Splits::Auto => SPLITS.to_vec(),
            Splits::Names(names) | Splits::Compared(names) => names.iter().map(String::as_str).collect(),
        };
        let mut found = Vec::new();
        for name in names.into_iter().filter(|name| folders.iter().any(|folder| folder == name)) {
            let Level { files, .. } = self.level(&format!("{}/{name}", url.trim_end_matches('/')), from)?;
            if !files.shards.is_empty() {
                // The folder no longer counts as ignored.
                if let Some(folders) = all.ignored.get_mut(files::FOLDER) {
                    *folders = folders.saturating_sub(1);
                }
                found.push((Some(name.to_owned()), files));
            }
        }
        all.ignored.retain(|_, files| *files > 0);
        found.push((None, all));
        Ok(found)
    }

    /// The content of the folder at `url`. On a web server: the shards listed in `index.json`.
    fn level(&self, url: &str, from: Option<Kind>) -> Result<Level> {
        let store = self.store(url)?;
        let (folder, own) = (store.root(), url_of(store.as_ref()));
        let at = |name: &str| {
            let named = match name.rsplit_once('/') {
                Some((below, name)) => Named { folder: format!("{own}{below}/"), name: name.to_owned() },
                None => Named { folder: own.clone(), name: name.to_owned() },
            };
            self.file(&named)
        };
        if url::is_web(url) {
            let index = at(files::INDEX_JSON)?;
            let index = index.ok_or_else(|| url::no_list(url))?;
            let files = files::of_url_folder(folder, vec![index], 0, &at, from)?;
            return Ok(Level { files, folders: Vec::new(), declares: Vec::new() });
        }
        let level = store.level("")?;
        // The caller already checked the top folder: this is the folder of a split whose splits record is missing.
        if from.is_none() && level.objects.iter().any(|object| object.name == manifest::FILE) {
            let what = "is a sealed dataset, but the folder above it has no splits.json";
            return Err(Error::data(what).in_file(store.root()).help(help::COPY_OR_PACK));
        }
        if level.objects.len() > MAX_LISTED {
            return Err(too_many(url));
        }
        if level.objects.is_empty() && level.folders.is_empty() && level.odd.iter().all(|odd| odd.is_folder()) {
            return Err(Error::usage(NOTHING).in_file(url));
        }
        let has = |name: &&str| level.objects.iter().any(|object| object.name == **name);
        let declares = declared::NAMES.into_iter().filter(has).collect();
        let mut remotes: Vec<Remote> = level.objects.into_iter().map(|object| self.remote(&store, object)).collect();
        // The folder of an LMDB stands for its file.
        let data = |name: &String| Named { folder: format!("{own}{name}/"), name: DATA_FILE.to_owned() };
        let databases: Vec<Named> = level.folders.iter().filter(|name| !name.starts_with('.')).map(data).collect();
        let looked = many(&databases, |named| self.file(named));
        let looked = looked.into_iter().collect::<Result<Vec<_>>>()?;
        let folders = level.folders.len() - looked.iter().flatten().count();
        remotes.extend(looked.into_iter().flatten());
        remotes.sort_by(|one, other| one.path().cmp(other.path()));
        let mut found = files::of_url_folder(folder, remotes, folders as u64, &at, from)?;
        // An object whose name is not a valid path cannot be requested.
        for odd in level.odd.iter().filter(|odd| !odd.is_folder()) {
            found.problems.push(Error::data("has a name that is no path").in_file(format!("{own}{}", odd.name)));
        }
        Ok(Level { files: found, folders: level.folders, declares })
    }
}

fn too_many(pattern: &str) -> Error {
    Error::usage(format!("stands for more than {MAX_LISTED} files")).in_file(pattern)
}

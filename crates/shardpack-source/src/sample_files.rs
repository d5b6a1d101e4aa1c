//! Chooses the files of a tree that are samples, and the files of the same name that belong to them.
//!
//! Samples are images, or the files that `--files` selects. If there are no images, samples are the only files of a possible kind.
//! The choice depends on names only. If several kinds are possible, the result is an error, never a guess.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    io::Read,
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
};

use shardpack_format::{
    Error, Result,
    component::{self, Component},
    image_header::{Kind, SNIFF_BYTES},
    regular,
};

use super::{
    SourceListing,
    names::{self, Name},
    options::{Options, Splits},
    payloads::{FILE, Payloads, is_image},
    tree::Tree,
};

/// Extensions of files that usually describe samples and are not samples themselves.
const TEXTS: [&str; 8] = ["csv", "json", "md", "tsv", "txt", "xml", "yaml", "yml"];
/// Maximum number of extensions in a message.
const NAMED: usize = 8;

/// The payload component of listed files, if none of the inspected files starts as an image does. Based on file extensions.
///
/// `None` if a file has no extension or an image extension.
pub fn of_names(found: &[SourceListing]) -> Result<Option<Component>> {
    let mut extensions = BTreeSet::new();
    for listing in found.iter().map(|found| &found.listing) {
        for number in 0..listing.len() {
            match extension_of(listing.name(number)) {
                Some(extension) if !is_image(&extension.to_ascii_lowercase()) => {
                    extensions.insert(extension.to_ascii_lowercase());
                }
                _ => return Ok(None),
            }
        }
    }
    let name = match extensions.len() {
        0 => return Ok(None),
        1 => extensions.pop_first().unwrap_or_default(),
        _ => FILE.to_owned(),
    };
    Component::field(&name).map(Some)
}

/// The extension of a name, in its original case.
fn extension_of(name: &[u8]) -> Option<String> {
    let extension = name.get(component::stem(name).len() + 1..).filter(|extension| !extension.is_empty())?;
    Some(String::from_utf8_lossy(extension).into_owned())
}

/// Counts of files by name.
#[derive(Default)]
struct Seen {
    /// Number of files per extension, in original case.
    extensions: BTreeMap<String, u64>,
    /// Number of distinct names without extension, per folder.
    stems: u64,
    /// The first file of each extension, by lower-case extension.
    first: BTreeMap<String, PathBuf>,
    /// A name that several payloads share.
    twice: Option<PathBuf>,
    /// Visited folders by device and inode: links may form loops.
    folders: BTreeSet<(u64, u64)>,
}

impl Seen {
    /// Counts the files in `folder` and its subfolders. If `folder` `is_root` of classes, its own files are not counted.
    fn folder(&mut self, tree: Tree<'_>, folder: &Path, is_root: bool, options: &Options, payloads: &Payloads) {
        let (mut names, mut below) = (Vec::new(), Vec::new());
        for (name, is_folder) in self.entries(tree, folder) {
            let (name, path) = (name.as_slice(), folder.join(names::as_path(&name)));
            if matches!(names::classify(name, |_| false), Name::Hidden | Name::System) {
                continue;
            }
            match is_folder {
                true => below.push(path),
                false if is_root || options.with.iter().any(|kind| kind.takes(folder.as_os_str().as_bytes(), name)) => {
                }
                false => names.extend(extension_of(name).map(|extension| (component::stem(name).to_vec(), extension))),
            }
        }
        names.sort_unstable();
        for group in names.chunk_by(|(a, _), (b, _)| a == b) {
            self.stems += 1;
            let name = |(stem, extension): &(Vec<u8>, String)| [stem, b".".as_slice(), extension.as_bytes()].concat();
            if group.iter().filter(|one| payloads.takes(&name(one))).count() > 1 {
                self.twice.get_or_insert_with(|| folder.join(names::as_path(&group[0].0)));
            }
            for one @ (_, extension) in group {
                let file = || folder.join(names::as_path(&name(one)));
                self.first.entry(extension.to_ascii_lowercase()).or_insert_with(file);
                *self.extensions.entry(extension.clone()).or_default() += 1;
            }
        }
        below.sort_unstable();
        below.iter().for_each(|folder| self.folder(tree, folder, false, options, payloads));
    }

    /// Names in `folder`, each with whether it is a folder. Empty for visited folders and for unreadable folders, which the walk reports.
    fn entries(&mut self, tree: Tree<'_>, folder: &Path) -> Vec<(Vec<u8>, bool)> {
        use std::os::unix::fs::MetadataExt;
        if let Some((listed, _)) = tree.listed {
            let below = folder.strip_prefix(tree.root).unwrap_or(folder).as_os_str().as_bytes();
            return listed.names(below).map(|(name, is_folder)| (name.to_vec(), is_folder)).collect();
        }
        let (Ok(entries), Ok(facts)) = (fs::read_dir(folder), fs::metadata(folder)) else { return Vec::new() };
        if !self.folders.insert((facts.dev(), facts.ino())) {
            return Vec::new();
        }
        let named = |entry: fs::DirEntry| {
            let is_folder = match entry.file_type() {
                Ok(kind) if kind.is_symlink() => entry.path().is_dir(),
                kind => kind.is_ok_and(|kind| kind.is_dir()),
            };
            (entry.file_name().as_bytes().to_vec(), is_folder)
        };
        entries.flatten().map(named).collect()
    }

    fn new(tree: Tree<'_>, found: &[SourceListing], options: &Options, payloads: &Payloads) -> Self {
        let (mut seen, root) = (Self::default(), tree.root);
        for one in found {
            let folder = one.split.as_ref().map_or_else(|| root.to_path_buf(), |split| root.join(split));
            seen.folder(tree, &folder, !options.no_labels, options, payloads);
        }
        seen
    }

    /// Whether the first file of any extension starts as an image does. Misnamed images are not guessed at.
    fn begin_as_images(&self, tree: Tree<'_>) -> bool {
        let begins = |first: &[u8]| !matches!(Kind::detect(first), Kind::Unknown | Kind::Npy);
        self.first.values().any(|file| match tree.listed {
            Some((_, first_bytes)) => begins(&first_bytes(file, SNIFF_BYTES as u64)),
            None => {
                let mut first = [0; SNIFF_BYTES];
                let read = regular::open(file).and_then(|mut file| file.read(&mut first)).unwrap_or(0);
                begins(&first[..read])
            }
        })
    }

    /// Number of files per lower-case extension.
    fn kinds(&self) -> BTreeMap<String, u64> {
        let mut kinds = BTreeMap::new();
        for (extension, files) in &self.extensions {
            *kinds.entry(extension.to_ascii_lowercase()).or_default() += files;
        }
        kinds
    }
}

/// Names in `folder`, each with whether it is a folder.
pub(super) fn entries(tree: Tree<'_>, folder: &Path) -> Vec<(Vec<u8>, bool)> {
    Seen::default().entries(tree, folder)
}

/// Names of the files in `folder`.
pub(super) fn files_right_in(tree: Tree<'_>, folder: &Path) -> Vec<Vec<u8>> {
    entries(tree, folder).into_iter().filter(|(_, is_folder)| !is_folder).map(|(name, _)| name).collect()
}

/// Names of the files in `folder` and in its direct subfolders.
pub(super) fn files_in(tree: Tree<'_>, folder: &Path) -> Vec<Vec<u8>> {
    let (mut seen, mut files) = (Seen::default(), Vec::new());
    let is_meant = |name: &[u8]| !matches!(names::classify(name, |_| false), Name::Hidden | Name::System);
    for (name, is_folder) in seen.entries(tree, folder).into_iter().filter(|(name, _)| is_meant(name)) {
        match is_folder {
            false => files.push(name),
            true => {
                let inner = seen.entries(tree, &folder.join(names::as_path(&name)));
                files.extend(
                    inner.into_iter().filter(|(name, is_folder)| !is_folder && is_meant(name)).map(|(name, _)| name),
                );
            }
        }
    }
    files
}

/// Fails if the files of a tree without images are archives or indexes of shards. `--files` packs them as samples.
fn refuse_archives(tree: Tree<'_>, seen: &Seen, kinds: &BTreeMap<String, u64>) -> Result<()> {
    // The first `.gz` may be a `.tar.gz`, an MNIST table, or a medical volume.
    let ends = |kind: &String, ends: &[&str]| {
        let first = seen.first.get(kind).and_then(|file| file.file_stem()).unwrap_or_default();
        let first = first.to_string_lossy().to_lowercase();
        ends.iter().any(|end| first.ends_with(end))
    };
    let is_packed = |kind: &String| ends(kind, &[".tar", "-ubyte"]);
    let is_volume = |kind: &String| {
        let is_one = VOLUMES.contains(&kind.as_str()) || ends(kind, &[".nii"]);
        is_one && seen.first.get(kind).is_some_and(|file| is_of_patient(tree, file))
    };
    let is_of_many = |kind: &String| OF_MANY.contains(&kind.as_str());
    let is_one = |kind: &&String| {
        *kind == INDEX || names::is_archive(kind) || is_packed(kind) || is_of_many(kind) || is_volume(kind)
    };
    let (what, help) = match kinds.keys().find(is_one) {
        Some(kind) if kind == INDEX => {
            ("no images in here, but indexes of shards", "shardpack convert reads shards".to_owned())
        }
        Some(kind) if is_of_many(kind) => (
            "no images in here, but files that hold many samples each",
            format!("shardpack convert reads the samples in them; --files {kind} packs each file as a sample"),
        ),
        Some(kind) if is_volume(kind) => {
            let end = if kind == "gz" { "nii.gz" } else { kind };
            let one = format!("--files '*_NAME.{end}' packs those of one kind, and --with others beside them");
            (
                "no images in here, but several medical volumes of a patient in a folder",
                format!("--files '*.{end}' packs each file as a sample; {one}"),
            )
        }
        Some(kind) => (
            "no images in here, but archives",
            format!(
                "unpack them into folders, or convert them if they are shards; --files {kind} packs each as a sample"
            ),
        ),
        None => return Ok(()),
    };
    let first = kinds.keys().find(is_one).and_then(|kind| seen.first.get(kind));
    Err(Error::usage(what).in_file(first.map_or(Path::new(""), |first| first)).help(help))
}

/// Whether `file` is one of several volumes of a patient, whose folder they are named after: `BraTS20_Training_001_flair.nii.gz`. Numbered
/// volumes are those of a class.
fn is_of_patient(tree: Tree<'_>, file: &Path) -> bool {
    let Some((folder, name)) = file.parent().and_then(|folder| Some((folder, folder.file_name()?))) else {
        return false;
    };
    let is_kind = |file: &Vec<u8>| {
        let rest = file.strip_prefix(name.as_bytes()).and_then(|rest| rest.split(|byte| *byte == b'.').next());
        rest.is_some_and(|rest| rest.iter().any(u8::is_ascii_alphabetic))
    };
    files_right_in(tree, folder).iter().filter(|file| is_kind(file)).count() > 1
}

/// Extensions of medical volumes: NIfTI, MetaImage, NRRD.
const VOLUMES: [&str; 3] = ["nii", "mha", "nrrd"];
/// Extensions of files that usually hold many samples each.
const OF_MANY: [&str; 13] =
    ["arrow", "beton", "feather", "h5", "hdf5", "lmdb", "mdb", "mds", "parquet", "pq", "rec", "tfrecord", "tfrecords"];

/// Extension of shardpack indexes.
const INDEX: &str = "index";

/// The payload extension of groups without images: alphabetically the first that is not text.
fn first(kinds: &BTreeMap<String, u64>) -> Option<&String> {
    kinds.keys().find(|kind| !is_text(kind)).or_else(|| kinds.keys().next())
}

/// Whether files with this name usually describe a sample.
pub(super) fn is_text(name: &str) -> bool {
    TEXTS.contains(&name.rsplit('.').next().unwrap_or_default())
}

/// Returns changed options and notes if the tree must be listed again: with files of one name as one sample, or with non-image files.
///
/// `found` is the first listing.
///
/// # Errors
/// If there are no images and several kinds of files, or the payload among several files is ambiguous.
pub(super) fn decide_payload(
    tree: Tree<'_>,
    found: &[SourceListing],
    options: &Options,
) -> Result<Option<(Options, Vec<String>)>> {
    // An unreadable folder has unknown content; an image that cannot be packed still counts as an image.
    let has_images = |one: &SourceListing| one.unpacked.iter().any(|unpacked| names::is_image(&unpacked.path));
    let is_empty = found.iter().all(|one| one.listing.is_empty() && !has_images(one));
    let guesses =
        options.guess && is_empty && options.files.is_empty() && !matches!(options.splits, Splits::Compared(_));
    if options.groups {
        return groups(tree, found, options, is_empty).map(Some);
    }
    if !guesses {
        return Ok(None);
    }
    let payloads = Payloads::new(&[])?;
    let seen = Seen::new(tree, found, options, &payloads);
    let kinds = seen.kinds();
    let Some(payload) = first(&kinds) else { return Ok(None) };
    if seen.begin_as_images(tree) {
        return Ok(None);
    }
    refuse_archives(tree, &seen, &kinds)?;
    let is_whole = kinds.values().all(|files| *files == seen.stems);
    let of = |options: Options, what: String| {
        let note = format!("no images in here: {what}");
        Ok(Some((Options { guess: false, ..options }, vec![note])))
    };
    match kinds.len() {
        _ if TEXTS.contains(&payload.as_str()) => {}
        1 => {
            let options = Options { files: vec![payload.clone()], ..options.clone() };
            return of(options, format!("the samples are its .{payload} files"));
        }
        _ if is_whole => {
            let (options, _) = groups(tree, found, options, is_empty)?;
            let names: Vec<_> = kinds.keys().map(|kind| format!(".{kind}")).collect();
            return of(options, format!("files of one name are a sample, {}", names.join(" and ")));
        }
        _ => {}
    }
    let mut counts: Vec<_> = kinds.iter().map(|(kind, files)| format!("{files} .{kind}")).collect();
    if counts.len() > NAMED {
        let more = counts.len() - NAMED;
        counts.truncate(NAMED);
        counts.push(format!("{more} other kinds"));
    }
    let help = match kinds.len() {
        1 => format!("--files {payload} packs them"),
        _ => format!("--files {payload} packs only these; --group stem combines files of one name into one sample"),
    };
    Err(Error::usage(format!("no images found, but {}", counts.join(", "))).in_file(tree.root).help(help))
}

/// Options that combine files of one name into one sample.
fn groups(
    tree: Tree<'_>,
    found: &[SourceListing],
    options: &Options,
    is_empty: bool,
) -> Result<(Options, Vec<String>)> {
    let mut options = Options { groups: false, guess: false, ..options.clone() };
    let mut payloads = Payloads::new(&options.files)?;
    let mut seen = Seen::new(tree, found, &options, &payloads);
    let kinds = seen.kinds();
    if is_empty && options.files.is_empty() {
        let Some(payload) = first(&kinds) else { return Ok((options, Vec::new())) };
        options.files = vec![payload.clone()];
        payloads = Payloads::new(&options.files)?;
        seen = Seen::new(tree, found, &options, &payloads);
    }
    if let Some(twice) = &seen.twice {
        return Err(Error::usage(format!("several {}s of one name: which is the payload?", called(&payloads)))
            .in_file(twice)
            .help("choose one with --files EXT; the other files become components"));
    }
    let is_payload = |extension: &String| payloads.takes(format!("x.{extension}").as_bytes());
    let of_payload = |extension: &String| {
        let lower = extension.to_ascii_lowercase();
        // With a pattern of names, other files of the same extension may be anything.
        is_payload(extension) || payloads.payload().is_some_and(|payload| payload.name() == lower)
    };
    for extension in seen.extensions.keys().filter(|extension| !of_payload(extension)) {
        options.with.push(Component::files(extension)?);
    }
    component::check(&options.with)?;
    let names: Vec<_> = options.with.iter().map(Component::name).collect();
    let with = if names.is_empty() { "nothing".to_owned() } else { names.join(", ") };
    Ok((options, vec![format!("samples are files of one name: {}, and beside it {with}", called(&payloads))]))
}

fn called(payloads: &Payloads) -> &str {
    payloads.payload().map_or("image", Component::name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn payloads(patterns: &[&str]) -> Result<Payloads> {
        Payloads::new(&patterns.iter().map(|pattern| (*pattern).to_owned()).collect::<Vec<_>>())
    }

    #[test]
    fn payloads_are_told_by_extension_or_pattern() {
        let rows: [(&[&str], &[&str], &[&str], Option<&str>); 6] = [
            (&[], &["a.jpg", "a.JPEG"], &["a.flac", "jpg", "a.gif"], None),
            (&["flac"], &["a.flac", "a.FLAC"], &["a.jpg", "flac", "aflac"], Some("flac")),
            (&["*.flac"], &["a.Flac"], &["a.jpg"], Some("flac")),
            (&["*_rec.flac"], &["a_rec.flac"], &["a.flac", "a_rec.FLAC"], Some("flac")),
            (&[".wav", "flac"], &["a.wav", "b.flac"], &["a.mp3"], Some("file")),
            (&["gif", "avif"], &["a.gif", "a.avif"], &["a.jpg"], None),
        ];
        for (patterns, takes, leaves, name) in rows {
            let payloads = payloads(patterns).unwrap();
            assert!(takes.iter().all(|file| payloads.takes(file.as_bytes())), "{patterns:?}");
            assert!(!leaves.iter().any(|file| payloads.takes(file.as_bytes())), "{patterns:?}");
            assert_eq!(payloads.payload().map(Component::name), name, "{patterns:?}");
        }
        for wrong in [&["*"][..], &["a/*.flac"], &["*.*"], &[""], &["cls"], &["jpg", "flac"], &["x.[a"]] {
            assert!(payloads(wrong).is_err(), "{wrong:?}");
        }
    }
}

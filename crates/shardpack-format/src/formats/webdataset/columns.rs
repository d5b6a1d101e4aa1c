//! The columns of tar shards, as catalogues of datasets describe them: names of members, and the type of their content.
//!
//! The types are those that Hugging Face datasets 5.2.0 decodes by extension (`packaged_modules/webdataset/webdataset.py`).

use std::collections::{BTreeMap, BTreeSet};

use crate::{
    Result,
    component::{Kind as ValueKind, Type, numpy_name},
    formats::declared_types,
    formats::sidecars::{Dataset, OfSplit, readable},
    hash,
    image_header::Kind,
    manifest::{BY_KIND, Class, Shard},
};

const IMAGES: &[&str] = &[
    "apng", "blp", "bmp", "bufr", "bw", "cur", "dcx", "dds", "dib", "emf", "eps", "fit", "fits", "flc", "fli", "ftc",
    "ftu", "gbr", "gif", "grib", "h5", "hdf", "icb", "icns", "ico", "im", "j2c", "j2k", "jfif", "jp2", "jpc", "jpe",
    "jpeg", "jpf", "jpg", "jpx", "mpeg", "mpg", "msp", "pbm", "pcd", "pcx", "pgm", "png", "pnm", "ppm", "ps", "psd",
    "pxr", "ras", "rgb", "rgba", "sgi", "tga", "tif", "tiff", "vda", "vst", "webp", "wmf", "xbm", "xpm",
];
const SOUNDS: &[&str] = &[
    "aiff", "au", "avr", "caf", "flac", "htk", "ircam", "mat4", "mat5", "mp3", "mpc2k", "nist", "ogg", "opus", "paf",
    "pvf", "raw", "rf64", "sd2", "sds", "svx", "voc", "w64", "wav", "wavex", "wve", "xi",
];
const VIDEOS: &[&str] = &["avi", "mkv", "mov", "mp4", "mpeg"];
const MESHES: &[&str] = &["glb", "ply", "stl"];
/// Extensions of compressed members, which are decompressed before they are decoded.
const COMPRESSED: &[&str] = &["bz2", "gz", "lz4", "xz", "zst"];

/// The content of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Content {
    Image,
    Sound,
    Video,
    Mesh,
    Text,
    Integer,
    Json,
    /// An array or another value, whose extension does not determine its type.
    Value,
    Bytes,
}

impl Content {
    fn of(extension: &str) -> Self {
        let extension = extension.to_ascii_lowercase();
        let mut parts = extension.rsplit('.');
        let last = parts.next().unwrap_or_default();
        // In the order in which the reader decides.
        match last {
            _ if MESHES.contains(&last) => return Self::Mesh,
            _ if VIDEOS.contains(&last) => return Self::Video,
            _ if SOUNDS.contains(&last) => return Self::Sound,
            _ if IMAGES.contains(&last) => return Self::Image,
            _ => {}
        }
        match if COMPRESSED.contains(&last) { parts.next().unwrap_or_default() } else { last } {
            "txt" | "text" | "transcript" => Self::Text,
            "cls" | "cls2" | "index" | "inx" | "id" => Self::Integer,
            "json" | "jsn" => Self::Json,
            "cbor" | "mp" | "msg" | "npy" | "npz" | "pth" | "tb" | "ten" => Self::Value,
            _ => Self::Bytes,
        }
    }
}

/// A column.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Column {
    /// Extensions of its members: one, or for [`BY_KIND`] those of all kinds of images.
    pub extensions: Vec<String>,
    pub content: Content,
    /// The type of its values, if all parts declare one.
    pub declared: Option<Type>,
}

impl Column {
    /// Whether it has the labels of the classes.
    pub fn is_label(&self) -> bool {
        self.extensions == ["cls"]
    }

    /// For arrays of one dtype that readers know, with as many axes each: numpy's name of the dtype, and the number of axes.
    pub fn array(&self) -> Option<(&'static str, usize)> {
        match &self.declared.as_ref()?.kind {
            ValueKind::Array { dtype: Some(dtype), shape: Some(shape) } => Some((numpy_name(dtype)?, shape.len())),
            _ => None,
        }
    }

    /// Its name: its extension, or `image` for several.
    pub fn name(&self) -> &str {
        match &self.extensions[..] {
            [one] => one,
            _ => "image",
        }
    }
}

/// A dataset, or a split, as catalogues describe it.
pub(super) struct Part<'a> {
    /// Prefix of its files: empty, or the folder of the split and `/`.
    pub prefix: String,
    /// Name of the dataset, with which the names of shards begin.
    pub name: &'a str,
    pub shards: &'a [Shard],
    pub samples: u64,
    pub classes: &'a [Class],
    components: &'a [String],
    types: BTreeMap<String, Type>,
    kinds: &'a BTreeMap<String, u64>,
    pub license: Option<&'a str>,
    /// Id of its manifest; `None` in a file that the manifest itself names.
    pub id: Option<String>,
}

impl<'a> Part<'a> {
    /// The part that is a dataset.
    ///
    /// # Errors
    /// If its settings are invalid.
    pub fn of_dataset(dataset: &Dataset<'a>, license: Option<&'a str>) -> Result<Self> {
        Ok(Self {
            prefix: String::new(),
            name: dataset.name,
            shards: dataset.shards,
            samples: dataset.samples,
            classes: dataset.classes,
            components: dataset.components,
            types: declared_types(dataset.settings)?,
            kinds: dataset.kinds,
            license,
            id: None,
        })
    }

    /// A split `name` with these shards and their samples.
    #[cfg(test)]
    pub fn for_test(
        name: &'a str,
        (shards, samples): (&'a [Shard], u64),
        classes: &'a [Class],
        components: &'a [String],
        kinds: &'a BTreeMap<String, u64>,
    ) -> Self {
        let (prefix, types) = (format!("{name}/"), BTreeMap::new());
        Self { prefix, name, shards, samples, classes, components, types, kinds, license: None, id: None }
    }

    /// The same, with declared types.
    #[cfg(test)]
    pub fn with_types(self, types: BTreeMap<String, Type>) -> Self {
        Self { types, ..self }
    }

    /// The part that is a split.
    ///
    /// # Errors
    /// If its settings are invalid.
    pub fn of_split(split: &OfSplit<'a>) -> Result<Self> {
        let manifest = split.manifest;
        Ok(Self {
            prefix: format!("{}/", split.folder),
            name: &manifest.name,
            shards: &manifest.shards,
            samples: manifest.samples,
            classes: &manifest.classes,
            components: &manifest.components,
            types: declared_types(&manifest.format.settings)?,
            kinds: &manifest.kinds,
            license: manifest.format.settings.get(super::LICENSE).map(String::as_str),
            id: Some(hash::hex(&manifest.id.0)),
        })
    }
}

/// The columns of all `parts` together, in the order of their components.
pub(super) fn columns(parts: &[&Part<'_>]) -> Vec<Column> {
    let mut all: Vec<Column> = Vec::new();
    for component in parts.iter().flat_map(|part| part.components) {
        let with = parts.iter().filter(|part| part.components.contains(component));
        let declared = with.map(|part| part.types.get(component).cloned());
        let declared = declared.reduce(|one, other| one?.join(other?)).flatten();
        let extensions = match component == BY_KIND {
            true => {
                let has = |kind: &Kind| parts.iter().any(|part| part.kinds.contains_key(kind.name()));
                let mut extensions: Vec<_> = Kind::ALL.into_iter().filter(has).map(Kind::extension).collect();
                extensions.sort_unstable();
                extensions.into_iter().map(str::to_owned).collect()
            }
            false => vec![component.clone()],
        };
        let content = if component == BY_KIND { Content::Image } else { Content::of(component) };
        let column = Column { extensions, content, declared };
        if !column.extensions.is_empty() && !all.contains(&column) {
            all.push(column);
        }
    }
    all
}

/// The names of the classes as text, in the order of their labels; `None` if there are none, or two are equal as text.
pub(super) fn class_names(parts: &[&Part<'_>]) -> Option<Vec<String>> {
    let part = parts.iter().find(|part| !part.classes.is_empty())?;
    let names: Vec<_> = part.classes.iter().map(|class| readable(&class.name_bytes(), false)).collect();
    let distinct: BTreeSet<_> = names.iter().collect();
    (distinct.len() == names.len()).then_some(names)
}

//! Lists links that lead out of the file, or to a missing object.
//!
//! Other files are never opened; a link that may stand for the images or the labels is refused by
//! its name, all others are counted.

use std::collections::BTreeMap;

use hdf5_reader::{
    Hdf5File,
    btree_v1::collect_btree_v1_leaves_storage,
    btree_v2::{BTreeV2Header, BTreeV2Record, collect_btree_v2_records_storage},
    error::Result as Hdf5Result,
    fractal_heap::{FractalHeap, FractalHeapDirectBlockCache},
    group::Group,
    io::Cursor,
    local_heap::LocalHeap,
    messages::{
        HdfMessage,
        link::{self, LinkTarget},
        link_info::LinkInfoMessage,
        symbol_table_msg::SymbolTableMessage,
    },
    symbol_table::SymbolTableNode,
};
use shardpack_format::{Error, Result, formats::foreign::FieldSelection};

use super::{
    super::tables::{
        names::{IMAGES, is_called, label_rank},
        seen::TOLD,
    },
    names::{self, join},
    open,
};

/// Bytes of a symbol table node before its entries, and of an entry without its two addresses.
const NODE_BYTES: (usize, usize) = (8, 24);
/// The cache type of an entry that is a soft link.
const SOFT: u32 = 2;

/// A link that is not followed.
struct Link {
    path: String,
    is_external: bool,
    /// Target of the link.
    target: String,
}

impl Link {
    fn kind(&self) -> &'static str {
        if self.is_external { "external link" } else { "broken link" }
    }

    /// Description for the user.
    fn describe(&self) -> String {
        match self.is_external {
            true => format!("{} is an external link to {}, and other files are not read", self.path, self.target),
            false => format!("{} is a link to {}, which is not in the file", self.path, self.target),
        }
    }
}

/// The links of a file that are not followed.
#[derive(Default)]
pub(super) struct Links(Vec<Link>);

impl Links {
    /// The links of `file`.
    ///
    /// # Errors
    /// If a link has the name of images or labels, or is wanted as such.
    pub fn find(file: &Hdf5File, wanted: &FieldSelection) -> Result<Self> {
        let mut all = Vec::new();
        names::each_group(file, &mut |path, group, groups, datasets| {
            let is_followed = |name: &String| groups.contains(name) || datasets.contains(name);
            let links = links(file, group).map_err(open::to_error)?;
            all.extend(links.into_iter().filter(|(name, _)| !is_followed(name)).map(|(name, target)| {
                let (is_external, target) = match target {
                    LinkTarget::External { filename, path } => (true, format!("{path} of {filename}")),
                    LinkTarget::Soft { path } => (false, path),
                    LinkTarget::Hard { address } => (false, format!("{address:#x}")),
                };
                Link { path: join(path, &name), is_external, target }
            }));
            Ok(())
        })?;
        let is_meant = |link: &&Link| {
            let is = |said: &Option<String>| said.as_ref().is_some_and(|said| said.trim_matches('/') == link.path);
            let may_be_labels = !wanted.no_labels && wanted.label.is_none() && wanted.entries.is_unsaid();
            is(&wanted.image)
                || is(&wanted.label)
                || wanted.image.is_none() && is_called(&link.path, &IMAGES)
                || may_be_labels && label_rank(&link.path).is_some()
        };
        match all.iter().find(is_meant) {
            Some(link) => Err(Error::data(link.describe()).help(COPY)),
            None => Ok(Self(all)),
        }
    }

    /// Number of links by description; long lists are reduced to a count.
    pub fn counted(&self) -> BTreeMap<String, u64> {
        let mut counted = BTreeMap::new();
        for link in &self.0 {
            let name = match self.0.len() {
                0..=TOLD => format!("{} {}", link.kind(), link.path),
                _ => link.kind().to_owned(),
            };
            *counted.entry(name).or_default() += 1;
        }
        counted
    }

    /// Why a file has no samples, with the first link, which may lead to some.
    pub fn beside(&self, error: Error) -> Error {
        let Some(link) = self.0.first() else { return error };
        Error::new(error.kind(), format!("{}; {}", error.what(), link.describe())).help(COPY)
    }
}

/// Advice for links that are not followed.
const COPY: &str = "copy the target of the link into the file with `h5copy`, or choose other datasets with \
                    --image-feature PATH and --label-feature PATH";

/// The links of a group that are no hard ones, with their names.
fn links(file: &Hdf5File, group: &Group) -> Hdf5Result<Vec<(String, LinkTarget)>> {
    let mut all = Vec::new();
    for message in &file.get_or_parse_header(group.address())?.messages {
        match message {
            HdfMessage::Link(link) => all.push((link.name.clone(), link.target.clone())),
            HdfMessage::LinkInfo(info)
                if !Cursor::is_undefined_offset(info.fractal_heap_address, group.offset_size()) =>
            {
                dense(group, info, &mut all)?;
            }
            HdfMessage::SymbolTable(table) => old(group, table, &mut all)?,
            _ => {}
        }
    }
    all.retain(|(_, target)| !matches!(target, LinkTarget::Hard { .. }));
    Ok(all)
}

/// The links of a large group, which are in a heap.
fn dense(group: &Group, info: &LinkInfoMessage, all: &mut Vec<(String, LinkTarget)>) -> Hdf5Result<()> {
    let (storage, offset, length) = (group.storage(), group.offset_size(), group.length_size());
    let heap = FractalHeap::parse_at_storage(storage, info.fractal_heap_address, offset, length)?;
    let tree = BTreeV2Header::parse_at_storage(storage, info.btree_name_index_address, offset, length)?;
    let mut blocks = FractalHeapDirectBlockCache::default();
    for record in collect_btree_v2_records_storage(storage, &tree, offset, length, None, &[], None)? {
        let BTreeV2Record::LinkNameHash { heap_id, .. } = record else { continue };
        let bytes = heap.get_object_storage_cached(&heap_id, storage, offset, length, &mut blocks)?;
        let link = link::parse(&mut Cursor::new(&bytes), offset, length, bytes.len())?;
        all.push((link.name, link.target));
    }
    Ok(())
}

/// The links of a group in the form before HDF5 1.8, which has no external links.
fn old(group: &Group, table: &SymbolTableMessage, all: &mut Vec<(String, LinkTarget)>) -> Hdf5Result<()> {
    let (storage, offset, length) = (group.storage(), group.offset_size(), group.length_size());
    let heap = LocalHeap::parse_at_storage(storage, table.heap_address, offset, length)?;
    for (_, node) in collect_btree_v1_leaves_storage(storage, table.btree_address, offset, length, None, &[], None)? {
        let head = storage.read_range(node, NODE_BYTES.0)?;
        let entries = head.as_ref().last_chunk().copied().map_or(0, u16::from_le_bytes);
        let bytes = NODE_BYTES.0 + usize::from(entries) * (NODE_BYTES.1 + 2 * usize::from(offset));
        let read = storage.read_range(node, bytes)?;
        let node = SymbolTableNode::parse(&mut Cursor::new(read.as_ref()), offset, length)?;
        for entry in node.entries.iter().filter(|entry| entry.cache_type == SOFT) {
            let at = entry.scratch.first_chunk().copied().map_or(0, u32::from_le_bytes);
            let path = heap.get_string_storage(at.into(), storage)?;
            let name = heap.get_string_storage(entry.link_name_offset, storage)?;
            all.push((name, LinkTarget::Soft { path }));
        }
    }
    Ok(())
}

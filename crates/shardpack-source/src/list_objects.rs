//! Lists all objects below a URL, with as few list requests as keep many requests in flight.
//!
//! A list request returns names with one prefix, page by page, and each page starts where the previous page ends. If
//! the first page is incomplete, the tree is listed in parts. The listing descends to the first level with enough
//! folders, and each distinct prefix of these folders gets its own list. Small folders share a list of a few pages; the
//! first page gives the estimate of folders per page. Names that the levels above already returned are dropped from
//! these lists.

use std::{
    collections::BTreeSet,
    sync::{Mutex, PoisonError},
};

use shardpack_format::{Error, ErrorKind, Result, text};
use shardpack_storage::{Page, Storage, is_key};

use super::listed_tree::ListedTree;
use crate::{
    monitor::{Monitor, Phase},
    parallel::each,
};

/// Concurrent lists. The listing descends until it has this many folders.
const LISTS: usize = 32;
/// Most levels to descend.
const LEVELS: usize = 3;
/// Pages of a shared list, if there are enough folders.
const PAGES: usize = 2;

/// Lists all objects in the folder of `store`.
///
/// # Errors
/// If a request fails, an object is listed twice, or the monitor cancels.
pub(super) fn all(store: &dyn Storage, monitor: &dyn Monitor) -> Result<ListedTree> {
    monitor.begin(Phase::Walking, 0, 0);
    let listed = Mutex::new(ListedTree::default());
    let take = |page| take(page, &listed, monitor);
    let (first, has_more) = store.first_page()?;
    if !has_more {
        let mut known = listed.lock().unwrap_or_else(PoisonError::into_inner);
        first.folders.iter().for_each(|folder| known.add_folder(folder.as_bytes()));
        drop(known);
        take(first)?;
        return whole(store, listed);
    }
    let mut folders = vec![String::new()];
    for _ in 0..LEVELS {
        if folders.len() >= LISTS || folders.is_empty() {
            break;
        }
        let below = Mutex::new(Vec::new());
        each(&folders, LISTS, |folder| {
            let page = store.level(folder)?;
            let names = page.folders.iter().map(|name| format!("{name}/"));
            below.lock().unwrap_or_else(PoisonError::into_inner).extend(names);
            take(page)
        })?;
        folders = below.into_inner().unwrap_or_else(PoisonError::into_inner);
    }
    folders.sort_unstable();
    let most = (folders.len() / LISTS).max(PAGES * folders_in(&first, &folders)).max(1);
    each(&beginnings(&folders, most), LISTS, |beginning| {
        store.pages(&beginning.name, &mut |mut page: Page| {
            page.objects.retain(|object| !beginning.is_told(&object.name));
            page.odd.retain(|odd| !beginning.is_told(&odd.name));
            take(page)
        })
    })?;
    whole(store, listed)
}

/// The complete listing, if no object is listed twice.
fn whole(store: &dyn Storage, listed: Mutex<ListedTree>) -> Result<ListedTree> {
    let listed = listed.into_inner().unwrap_or_else(PoisonError::into_inner);
    match listed.listed_twice() {
        Some(name) => {
            let what = format!("the server lists {:?} twice", text::shown(&name));
            Err(Error::new(ErrorKind::System, what).in_file(store.root()))
        }
        None => Ok(listed),
    }
}

fn take(page: Page, listed: &Mutex<ListedTree>, monitor: &dyn Monitor) -> Result<()> {
    monitor.check_cancelled()?;
    monitor.advance(page.objects.len() as u64, page.objects.iter().map(|object| object.bytes).sum());
    let mut listed = listed.lock().unwrap_or_else(PoisonError::into_inner);
    for object in page.objects {
        listed.add(object.name.as_bytes(), object.bytes, object.stamp);
    }
    for odd in page.odd {
        match odd.is_folder() {
            true => listed.add_marker(odd.name.trim_end_matches('/').as_bytes()),
            false => listed.add_odd(odd.name.as_bytes()),
        }
    }
    Ok(())
}

/// A common prefix of some folders in one level, and of all names in them.
#[derive(Debug, PartialEq, Eq)]
struct Beginning {
    name: String,
    /// Length of the parent folder's name in bytes.
    above: usize,
}

impl Beginning {
    /// Whether the level already returned `name`: a name directly in the level, or in a folder whose name is invalid.
    fn is_told(&self, name: &str) -> bool {
        let own = name.get(self.above..).unwrap_or_default();
        own.split_once('/').is_none_or(|(folder, _)| !is_key(folder))
    }
}

/// Number of `folders` that `page` holds completely, if their objects are adjacent. `folders` are sorted and end with a
/// slash.
fn folders_in(page: &Page, folders: &[String]) -> usize {
    let folder = |name: &str| {
        let at = folders.partition_point(|folder| folder.as_str() <= name);
        at.checked_sub(1).filter(|at| name.starts_with(&folders[*at]))
    };
    let seen: BTreeSet<_> = page.objects.iter().filter_map(|object| folder(&object.name)).collect();
    // The last folder is usually cut off.
    seen.len().saturating_sub(1)
}

/// Disjoint prefixes for `folders`, sorted names of one level that end with a slash. Each prefix covers at most `most`
/// folders, if the names differ.
fn beginnings(folders: &[String], most: usize) -> Vec<Beginning> {
    let mut out = Vec::new();
    let above = |folder: &String| folder.trim_end_matches('/').rfind('/').map_or(0, |at| at + 1);
    for beside in folders.chunk_by(|one, next| one[..above(one)] == next[..above(next)]) {
        divide(beside, above(&beside[0]), most, &mut out);
    }
    out
}

/// Adds prefixes for sorted `folders`, each for at most `most` folders, if the names differ.
fn divide(folders: &[String], above: usize, most: usize, out: &mut Vec<Beginning>) {
    let [first, .., last] = folders else {
        out.extend(folders.iter().map(|folder| Beginning { name: folder.clone(), above }));
        return;
    };
    let alike = first.char_indices().zip(last.chars()).find(|((_, one), other)| one != other);
    let alike = alike.map_or(first.len(), |((at, _), _)| at);
    if folders.len() <= most || alike == first.len() {
        out.push(Beginning { name: first[..alike].to_owned(), above });
        return;
    }
    for same in folders.chunk_by(|one, next| one[alike..].chars().next() == next[alike..].chars().next()) {
        divide(same, above, most, out);
    }
}

#[cfg(test)]
mod tests {
    use shardpack_storage::Object;

    use super::*;

    fn names(folders: &[&str]) -> Vec<String> {
        let mut folders: Vec<_> = folders.iter().map(|&name| name.to_owned()).collect();
        folders.sort_unstable();
        beginnings(&folders, 1).into_iter().map(|beginning| beginning.name).collect()
    }

    #[test]
    fn few_folders_are_listed_each_by_itself() {
        assert_eq!(names(&["b/", "a/", "ab/"]), ["a/", "ab/", "b/"]);
        assert_eq!(names(&["a/x/", "a b/x/", "a/y/"]), ["a b/x/", "a/x/", "a/y/"]);
        assert!(names(&[]).is_empty());
    }

    #[test]
    fn many_folders_share_lists() {
        let folders: Vec<_> = (0..1000).map(|number| format!("class{number:04}/")).collect();
        for (most, lists, first, last) in [(31, 100, "class000", "class099"), (200, 10, "class00", "class09")] {
            let found = beginnings(&folders, most);
            assert_eq!(found.len(), lists);
            assert_eq!((found[0].name.as_str(), found[lists - 1].name.as_str()), (first, last));
        }
    }

    #[test]
    fn beginnings_are_of_each_folder_once_whatever_its_name_is() {
        let letters = ["é", "e\u{301}", "日", "-", " ", "0", "a", "aa", "😀"];
        let mut folders = Vec::new();
        for one in letters {
            for other in letters {
                folders.extend(["train/", "日/", "a/", "a-/"].map(|above| format!("{above}{one}{other}/")));
            }
        }
        folders.sort_unstable();
        folders.dedup();
        let found = beginnings(&folders, folders.len() / LISTS);
        assert!(found.len() < folders.len() / 2, "{}", found.len());
        for folder in &folders {
            let of: Vec<_> = found.iter().filter(|found| folder.starts_with(&found.name)).collect();
            assert_eq!(of.len(), 1, "{folder}: {of:?}");
            assert!(!of[0].is_told(&format!("{folder}a.jpg")) && !of[0].is_told(folder));
            assert!(of[0].is_told(folder.trim_end_matches('/')));
        }
    }

    #[test]
    fn what_the_first_page_has_of_folders_tells_how_many_share_a_list() {
        let folders: Vec<_> = ["a/b/", "a/c/", "b/"].map(str::to_owned).to_vec();
        let page = |names: &[&str]| Page {
            objects: names.iter().map(|&name| Object { name: name.to_owned(), bytes: 1, stamp: 0 }).collect(),
            ..Page::default()
        };
        let all = ["0", "a/a/x", "a/b/x/y", "a/b/z", "a/ba", "a/c/x", "b.jpg", "b/x", "c"];
        assert_eq!(folders_in(&page(&all), &folders), 2);
        assert_eq!(folders_in(&page(&all[..4]), &folders), 0);
        assert_eq!((folders_in(&page(&[]), &folders), folders_in(&page(&all), &[])), (0, 0));
    }

    #[test]
    fn what_a_level_tells_is_left_out() {
        let beginning = Beginning { name: "a/.".to_owned(), above: 2 };
        let told = ["a/.jpg", "a/../x.jpg", "a//x.jpg", "a/./", "a/.x\ny/z"];
        assert!(told.iter().all(|name| beginning.is_told(name)));
        assert!(["a/.x/y.jpg", "a/.x/", "a/.x//", "a/...x/../y"].iter().all(|name| !beginning.is_told(name)));
    }
}

//! Lists of splits: `train.tsv` and `test.tsv`, `train/metadata.jsonl` and `test/metadata.jsonl`, `images_variant_train.txt` and
//! `images_variant_test.txt` (FGVC-Aircraft).

use std::collections::BTreeMap;

use super::{super::split_names::Likeness, listed::List};

/// Groups of lists, one list for each of several splits. All lists of splits are one group if no split has two; else lists of one name are.
/// Groups with classes come first.
pub(super) fn of_splits(lists: &[List]) -> Vec<Vec<&List>> {
    let all: Vec<&List> = lists.iter().filter(|list| list.split.is_some()).collect();
    if let Some(all) = one_of_each(&all) {
        return vec![all];
    }
    let mut by_form = BTreeMap::<_, Vec<&List>>::new();
    for list in all {
        let form = list.split.as_ref().map(|(_, form)| form);
        // Lists of one name are in one folder, or in folders of splits.
        let folder = (list.root != list.folder).then_some(&list.folder);
        by_form.entry((folder, form)).or_default().push(list);
    }
    let mut found: Vec<Vec<&List>> = by_form.into_values().filter_map(|lists| one_of_each(&lists)).collect();
    found.sort_by_key(|lists| (!lists.iter().any(|list| list.trial.has_classes), !lists[0].has_class_folders));
    found
}

/// A list for each of several splits, whatever their roots; `None` if a split has several lists.
pub(super) fn one_per_split(lists: &[List]) -> Option<Vec<&List>> {
    of_distinct_splits(&lists.iter().filter(|list| list.split.is_some()).collect::<Vec<_>>())
}

/// As [`of_distinct_splits`]; `None` if the roots differ: neither one root, nor the folder of each list.
fn one_of_each<'l>(lists: &[&'l List]) -> Option<Vec<&'l List>> {
    let lists = of_distinct_splits(lists)?;
    let first = lists.first()?;
    let are_alike =
        lists.iter().all(|list| list.root == first.root) || lists.iter().all(|list| list.root == list.folder);
    are_alike.then_some(lists)
}

/// The lists in the order of their splits, without `trainval` if `train` and `val` have lists. `None` if there is one split, or a split has
/// several lists.
fn of_distinct_splits<'l>(lists: &[&'l List]) -> Option<Vec<&'l List>> {
    let mut by_split = BTreeMap::new();
    for list in lists {
        let (split, _) = list.split.as_ref()?;
        if by_split.insert(split.as_str(), *list).is_some() {
            return None;
        }
    }
    let has = |word: &str| by_split.keys().any(|split| Likeness::classify(split.as_bytes()).word() == Some(word));
    if by_split.contains_key("train") && has("val") {
        by_split.remove("trainval");
    }
    let lists: Vec<&List> = by_split.into_values().collect();
    (lists.len() > 1).then_some(lists)
}

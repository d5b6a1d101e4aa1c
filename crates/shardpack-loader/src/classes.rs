//! Classes of a mix: merges the classes of all datasets into one list, by name.
//!
//! Holds at all times: two classes share a label only if they have the same name. If the lists differ, a list with a duplicate
//! name is refused. `convert` makes the same list from these datasets. If labels are renumbered, the list of a dataset has its
//! chosen classes only.

use std::collections::{BTreeSet, HashMap};

use shardpack_format::{Error, Result};

use crate::{batch::NO_LABEL, plan::PlanSource};

/// Names of classes, in the order of their labels.
type Names = Vec<Vec<u8>>;

/// Returns the class names of all sources, and sets the labels of each source in the merged list.
///
/// # Errors
/// If one source numbers its classes and another names them, or one list has a duplicate name and the lists differ.
pub(crate) fn merge(sources: &mut [PlanSource]) -> Result<Vec<String>> {
    let names =
        |source: &PlanSource| -> Names { source.dataset.classes().iter().map(|class| class.name_bytes()).collect() };
    let whole: Vec<Names> = sources.iter().map(names).collect();
    let lists: Vec<Names> = sources
        .iter()
        .zip(&whole)
        .map(|(source, whole)| match &source.chosen {
            None => whole.clone(),
            Some(chosen) => {
                chosen.iter().filter_map(|label| whole.get(usize::try_from(*label).ok()?).cloned()).collect()
            }
        })
        .collect();
    let numbered: Vec<bool> = whole.iter().map(is_numbered).collect();
    let all = merged(&lists, &numbered).map_err(|unclear| {
        let folder = |at: usize| sources.get(at).map(|source| source.dataset.folder().display().to_string());
        match unclear {
            Unclear::Numbered(numbered, named) => {
                let what = format!("it numbers its classes, and {} names them", folder(named).unwrap_or_default());
                Error::usage(what)
                    .in_file(folder(numbered).unwrap_or_default())
                    .help("name the classes of both: shardpack convert --class-map FILE")
            }
            Unclear::Double(at, name) => {
                let name = String::from_utf8_lossy(&name).into_owned();
                Error::usage(format!(
                    "two of its classes are called {name:?}, and the classes of a mix are identified by name"
                ))
                .in_file(folder(at).unwrap_or_default())
            }
        }
    })?;
    for ((source, own), whole) in sources.iter_mut().zip(&lists).zip(&whole) {
        source.labels = labels(own, &all);
        if let Some(chosen) = &source.chosen {
            // Samples of other classes are not in the subset.
            let mut table = vec![NO_LABEL; whole.len()];
            for (at, label) in chosen.iter().enumerate() {
                let new = source.labels.as_ref().map_or(Some(at as i64), |labels| labels.get(at).copied());
                if let Some((entry, new)) = usize::try_from(*label).ok().and_then(|label| table.get_mut(label)).zip(new)
                {
                    *entry = new;
                }
            }
            source.labels = Some(table.into());
        }
    }
    Ok(all.iter().map(|name| String::from_utf8_lossy(name).into_owned()).collect())
}

/// Reasons why lists of classes cannot be merged.
#[derive(Debug, PartialEq, Eq)]
enum Unclear {
    /// The index of a list of numbers, and of a list of names.
    Numbered(usize, usize),
    /// The index of a list with a duplicate name, and that name.
    Double(usize, Vec<u8>),
}

/// Whether the names of classes are their numbers.
fn is_numbered(list: &Names) -> bool {
    list.iter().enumerate().all(|(number, name)| number.to_string().as_bytes() == &**name)
}

/// The merged list; `numbered` has for each list whether its dataset numbers its classes.
fn merged(lists: &[Names], numbered: &[bool]) -> std::result::Result<Names, Unclear> {
    // A part without classes has no labels that could be confused with those of another part.
    let with: Vec<(usize, &Names)> = lists.iter().enumerate().filter(|(_, list)| !list.is_empty()).collect();
    let Some((_, longest)) = with.iter().max_by_key(|(_, list)| list.len()) else { return Ok(Names::new()) };
    if with.iter().all(|(_, list)| longest.starts_with(list)) {
        return Ok(longest.to_vec());
    }
    let find = |wanted: bool| with.iter().map(|(at, _)| *at).find(|at| numbered[*at] == wanted);
    if let (Some(numbered), Some(named)) = (find(true), find(false)) {
        return Err(Unclear::Numbered(numbered, named));
    }
    for (at, list) in &with {
        let mut seen = BTreeSet::new();
        if let Some(double) = list.iter().find(|name| !seen.insert(*name)) {
            return Err(Unclear::Double(*at, double.clone()));
        }
    }
    let mut seen: BTreeSet<&[u8]> = BTreeSet::new();
    let in_turn: Vec<&Vec<u8>> = with.iter().flat_map(|(_, list)| *list).filter(|name| seen.insert(name)).collect();
    if let Some((_, whole)) = with.iter().find(|(_, list)| list.len() == in_turn.len()) {
        return Ok(whole.to_vec());
    }
    let mut all: Names = in_turn.into_iter().cloned().collect();
    if with.iter().all(|(_, list)| list.is_sorted()) {
        all.sort_unstable();
    }
    Ok(all)
}

/// The index in `all` for each name of `own`; `None` if the labels are unchanged.
fn labels(own: &Names, all: &Names) -> Option<Box<[i64]>> {
    if all.starts_with(own) {
        return None;
    }
    let numbers: HashMap<&[u8], i64> = all.iter().map(Vec::as_slice).zip(0..).collect();
    Some(own.iter().filter_map(|name| numbers.get(name.as_slice()).copied()).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn merged(lists: &[Names]) -> std::result::Result<Names, Unclear> {
        super::merged(lists, &lists.iter().map(is_numbered).collect::<Vec<_>>())
    }

    fn names(list: &[&str]) -> Names {
        list.iter().map(|name| name.as_bytes().to_vec()).collect()
    }

    #[test]
    fn classes_are_one_where_their_names_are() {
        let rows: [(&[&str], &[&str], &[&str], Option<&[i64]>); 8] = [
            (&["a", "b"], &["a", "b"], &["a", "b"], None),
            (&["a", "b", "c"], &["a", "c"], &["a", "b", "c"], Some(&[0, 2])),
            (&["a", "c"], &["b", "c"], &["a", "b", "c"], Some(&[1, 2])),
            (&["dog", "cat"], &["cat", "dog"], &["dog", "cat"], Some(&[1, 0])),
            (&["dog", "cat"], &["ant", "cat"], &["dog", "cat", "ant"], Some(&[2, 1])),
            (&["0", "1"], &["0", "1", "2"], &["0", "1", "2"], None),
            (&["cat"], &[], &["cat"], None),
            (&[], &[], &[], None),
        ];
        for (first, second, expected, second_labels) in rows {
            let lists = [names(first), names(second)];
            let all = merged(&lists).unwrap();
            assert_eq!(all, names(expected));
            assert_eq!(labels(&lists[1], &all).as_deref(), second_labels, "{second:?} of {expected:?}");
        }
        assert_eq!(merged(&[names(&["cat", "dog"]), names(&[]), names(&["0", "1"])]), Err(Unclear::Numbered(2, 0)));
        let double = [names(&["crane", "dog", "crane"]), names(&["cat"])];
        assert_eq!(merged(&double), Err(Unclear::Double(0, b"crane".to_vec())));
    }
}

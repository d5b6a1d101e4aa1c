//! Merges several class lists into one, by name, or by number if the classes have numbers only.
//!
//! Holds at all times: a class keeps its name; two classes merge only if their names are equal. A name that occurs twice in one list,
//! such as "crane" in ImageNet, stands for two classes: they stay separate by number, or the merge fails.

use std::collections::{BTreeSet, HashMap};

use shardpack_format::{Error, Result, sample};

/// The name of a class.
pub(super) type Name = Box<[u8]>;

/// A class list to merge with others.
pub(super) struct Named<'a> {
    /// Owner of the list, for messages.
    pub who: String,
    /// Names in label order.
    pub names: &'a [Name],
    /// The source assigns the label numbers itself.
    pub is_numbered: bool,
}

impl Named<'_> {
    /// Whether each class is named after its number.
    fn is_unnamed(&self) -> bool {
        self.names.iter().enumerate().all(|(number, name)| number.to_string().as_bytes() == &**name)
    }

    fn starts(&self, names: &[Name]) -> bool {
        names.starts_with(self.names)
    }

    fn holds(&self, other: &Self) -> bool {
        let own: BTreeSet<&Name> = self.names.iter().collect();
        other.names.iter().all(|name| own.contains(name))
    }

    fn first(&self) -> String {
        self.names.first().map_or_else(String::new, |name| sample::name(name, b"").to_string())
    }
}

/// The merged list; each class keeps its name.
///
/// # Errors
/// If one list has no classes and another has some, if numbers conflict with names or other numbers, or if a name occurs twice in a
/// list that is not a prefix of the merged list.
pub(super) fn merge(lists: &[Named<'_>]) -> Result<Vec<Name>> {
    let Some(longest) = lists.iter().max_by_key(|list| list.names.len()) else { return Ok(Vec::new()) };
    if let Some(without) = lists.iter().find(|list| list.names.is_empty())
        && !longest.names.is_empty()
    {
        return Err(Error::usage(format!("{} has labels and {} has none", longest.who, without.who))
            .help("pack --no-labels leaves labels out; or pack sources with and without labels as two datasets"));
    }
    // All lists are prefixes of the longest: numbers and names agree.
    if lists.iter().all(|list| list.starts(longest.names)) {
        return Ok(longest.names.to_vec());
    }
    for list in lists {
        refuse_double(&list.who, list.names)?;
    }
    let is_bound = |list: &&Named<'_>| list.is_numbered || list.is_unnamed();
    let whole = lists.iter().find(|whole| lists.iter().all(|list| whole.holds(list)));
    if let Some(whole) = whole.filter(|whole| lists.iter().filter(is_bound).all(|list| list.starts(whole.names))) {
        return Ok(whole.names.to_vec());
    }
    if let Some(bound) = lists.iter().find(is_bound) {
        let differs = |list: &&Named<'_>| !bound.starts(list.names) && !list.starts(bound.names);
        let other = lists.iter().find(differs).unwrap_or(longest);
        let what = match bound.is_unnamed() {
            true => format!(
                "{} numbers its classes, {} in all, and {} names them, the first {:?}: names cannot be matched to \
                 numbers",
                bound.who,
                bound.names.len(),
                other.who,
                other.first()
            ),
            false => {
                let at = bound.names.iter().zip(other.names).position(|(a, b)| a != b).unwrap_or(0);
                let name =
                    |list: &Named<'_>| list.names.get(at).map_or_else(String::new, |name| sample::name(name, b""));
                format!("class {at} is {:?} in {} and {:?} in {}", name(bound), bound.who, name(other), other.who)
            }
        };
        return Err(Error::usage(what).help(
            "name the classes of both: in a list by a column with names (docs/how-to/recipes.md shows it for \
             ImageNet), in a dataset by shardpack convert --class-map FILE",
        ));
    }
    let all: BTreeSet<&Name> = lists.iter().flat_map(|list| list.names).collect();
    if lists.iter().all(|list| list.names.is_sorted()) {
        return Ok(all.into_iter().cloned().collect());
    }
    let mut seen = BTreeSet::new();
    Ok(lists.iter().flat_map(|list| list.names).filter(|name| seen.insert(*name)).cloned().collect())
}

/// Fails if two classes in the list of `who` have one name: a name from another list would be ambiguous.
///
/// # Errors
/// The message has the class name and both numbers.
pub(super) fn refuse_double(who: &str, names: &[impl AsRef<[u8]>]) -> Result<()> {
    let Some((name, [first, second])) = double(names) else { return Ok(()) };
    let name = sample::name(name, b"");
    Err(Error::usage(format!(
        "classes {first} and {second} of {who} are both called {name:?}, and other lists differ from its list"
    ))
    .help("convert it by itself to keep its labels as numbers; or use --no-labels"))
}

/// The first name that two classes share, and their numbers.
pub fn double(names: &[impl AsRef<[u8]>]) -> Option<(&[u8], [usize; 2])> {
    let mut seen = HashMap::with_capacity(names.len());
    let mut names = names.iter().map(AsRef::as_ref).enumerate();
    names.find_map(|(number, name)| Some((name, [seen.insert(name, number)?, number])))
}

/// For each of `names`, its number in `all`.
///
/// If `all` starts with `names`, numbers are unchanged, so a name may occur twice and each occurrence is a class of its own.
pub fn numbers(names: &[impl AsRef<[u8]>], all: &[Name]) -> Vec<Option<u32>> {
    if names.len() <= all.len() && names.iter().zip(all).all(|(own, name)| own.as_ref() == &**name) {
        return (0..names.len() as u32).map(Some).collect();
    }
    let of: HashMap<&[u8], u32> = all.iter().map(AsRef::as_ref).zip(0..).collect();
    names.iter().map(|name| of.get(name.as_ref()).copied()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(list: &[&str]) -> Vec<Name> {
        list.iter().map(|name| name.as_bytes().into()).collect()
    }

    #[test]
    fn classes_are_one_where_their_names_are() {
        let rows: [(&[&str], &[&str], &[&str]); 7] = [
            (&["a", "b"], &["a", "b"], &["a", "b"]),
            (&["a", "b", "c"], &["a", "c"], &["a", "b", "c"]),
            (&["a", "c"], &["b", "c"], &["a", "b", "c"]),
            (&["dog", "cat"], &["cat", "dog"], &["dog", "cat"]),
            (&["dog", "cat"], &["ant", "cat"], &["dog", "cat", "ant"]),
            (&["0", "1"], &["0", "1", "2"], &["0", "1", "2"]),
            (&[], &[], &[]),
        ];
        for (first, second, expected) in rows {
            let (first, second) = (names(first), names(second));
            let list = |who: &str, names| Named { who: who.to_owned(), names, is_numbered: false };
            let merged = merge(&[list("x", &first), list("y", &second)]).unwrap();
            assert_eq!(merged, names(expected));
        }
    }

    #[test]
    fn classes_of_one_name_keep_their_numbers() {
        let (all, first) = (names(&["crane", "dog", "crane"]), names(&["crane", "dog"]));
        let list = |who: &str, names| Named { who: who.to_owned(), names, is_numbered: false };
        assert_eq!(merge(&[list("x", &all), list("y", &first)]).unwrap(), all);
        assert_eq!(numbers(&all, &all), [Some(0), Some(1), Some(2)]);
        assert_eq!(numbers(&first, &all), [Some(0), Some(1)]);
    }

    #[test]
    fn what_cannot_be_told_is_refused() {
        let rows: [(&[&str], bool, &[&str], &str); 5] = [
            (&["crane", "dog", "crane"], false, &["cat", "dog"], "classes 0 and 2 of x are both called \"crane\""),
            (&["0", "1"], true, &["cat", "dog"], "x numbers its classes"),
            (&["0", "1"], false, &["cat", "dog"], "x numbers its classes"),
            (&["ant", "cat"], true, &["cat", "dog"], "class 0 is \"ant\" in x and \"cat\" in y"),
            (&[], false, &["cat"], "y has labels and x has none"),
        ];
        for (first, is_numbered, second, says) in rows {
            let (first, second) = (names(first), names(second));
            let lists = [
                Named { who: "x".to_owned(), names: &first, is_numbered },
                Named { who: "y".to_owned(), names: &second, is_numbered: false },
            ];
            let error = merge(&lists).unwrap_err().to_string();
            assert!(error.contains(says), "{error}");
        }
        // A list that numbers the classes of the other, and more.
        let (numbered, folders) = (names(&["dog", "cat", "ant"]), names(&["ant", "dog"]));
        let lists = [
            Named { who: "x".to_owned(), names: &numbered, is_numbered: true },
            Named { who: "y".to_owned(), names: &folders, is_numbered: false },
        ];
        assert_eq!(merge(&lists).unwrap(), numbered);
    }
}

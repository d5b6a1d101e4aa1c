//! Which column of a list is the path, the label, the split: as a person says, or by its name.

use shardpack_format::{Error, Result, field_names::LABELS};

use super::Columns;

/// Names of columns with paths, the likeliest first.
const PATHS: [&str; 16] = [
    "path",
    "file",
    "filename",
    "file_name",
    "filepath",
    "file_path",
    "image",
    "image_path",
    "image_file",
    "image_name",
    "imagepath",
    "img",
    "img_path",
    "img_name",
    "impath",
    "image_filename",
];
/// Names of columns with names of classes, beside labels that are numbers; such a column goes along in any case.
const CLASSES: [&str; 6] = ["class_name", "classname", "label_name", "category_name", "class", "category"];
/// Name of the column with splits.
const SPLIT: &str = "split";

/// What columns are for, by their numbers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Roles {
    pub path: usize,
    pub label: Option<usize>,
    /// Names of the classes, beside labels that are numbers.
    pub class: Option<usize>,
    pub split: Option<usize>,
}

impl Roles {
    /// By the names of the columns; `None` where none of them is one of paths.
    ///
    /// # Errors
    /// When there is no column of a name that was said, and when labels are to be the paths.
    pub fn of(names: &[String], columns: &Columns, no_labels: bool, splits: bool) -> Result<Option<Self>> {
        let said = |name: &Option<String>| name.as_ref().map(|name| named(names, name)).transpose();
        let known = |likely: &[&str]| known(names, likely);
        let Some(path) = said(&columns.path)?.or_else(|| known(&PATHS)) else { return Ok(None) };
        let label = match said(&columns.label)?.filter(|_| !no_labels) {
            Some(label) => Some(apart(label, path, &names[label])?),
            None => known(&LABELS).filter(|label| *label != path && !no_labels),
        };
        let class = label.and_then(|label| known(&CLASSES).filter(|class| *class != label && *class != path));
        let split = said(&columns.split)?.or_else(|| known(&[SPLIT]));
        let split = split.filter(|split| splits && *split != path && Some(*split) != label);
        Ok(Some(Self { path, label, class, split }))
    }

    /// Of columns without names, of which number `path` is that of paths: the label is behind it, or else before it.
    pub fn unnamed(count: usize, path: usize, columns: &Columns, no_labels: bool) -> Result<Self> {
        let said = |name: &Option<String>| name.as_ref().map(|name| numbered(count, name)).transpose();
        let neighbour = if path + 1 < count { Some(path + 1) } else { path.checked_sub(1) };
        let label = match said(&columns.label)?.filter(|_| !no_labels) {
            Some(label) => Some(apart(label, path, &(label + 1).to_string())?),
            None => neighbour.filter(|_| !no_labels),
        };
        Ok(Self { path, label, class: None, split: said(&columns.split)? })
    }

    /// Whether column `number` tells something that no other place has.
    pub fn is_component(&self, number: usize) -> bool {
        number != self.path && Some(number) != self.label && Some(number) != self.split
    }
}

/// The one of `names` that is likeliest that of a column of paths.
pub(super) fn path_of(names: &[String]) -> Option<String> {
    known(names, &PATHS).map(|at| names[at].clone())
}

/// The number of the first of the `likely` names that a column has.
fn known(names: &[String], likely: &[&str]) -> Option<usize> {
    let find = |likely: &&str| names.iter().position(|name| name.trim().eq_ignore_ascii_case(likely));
    likely.iter().find_map(find)
}

/// The column `label` that was said, if it is another than that of paths.
fn apart(label: usize, path: usize, name: &str) -> Result<usize> {
    match label == path {
        true => Err(Error::usage(format!("--label-column {name}: the column with the paths"))
            .help("--path-column NAME says which has the paths; --no-labels packs samples without a class")),
        false => Ok(label),
    }
}

/// The number of the column `name`.
fn named(names: &[String], name: &str) -> Result<usize> {
    let exact = names.iter().position(|own| own == name);
    exact.or_else(|| names.iter().position(|own| own.eq_ignore_ascii_case(name))).ok_or_else(|| {
        let have: Vec<_> = names.iter().take(20).map(String::as_str).collect();
        Error::usage(format!("no column {name:?}: it has {}", have.join(", ")))
    })
}

/// The number of a column that is told by its number, from 1.
pub(super) fn numbered(count: usize, name: &str) -> Result<usize> {
    let number = name.parse::<usize>().ok().and_then(|number| number.checked_sub(1));
    number.filter(|number| *number < count).ok_or_else(|| {
        Error::usage(format!(
            "no column {name:?}: the list has no line of names, and {count} columns, told by their numbers"
        ))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_found_by_their_names() {
        let of = |names: &[&str], columns: &Columns| {
            let names: Vec<_> = names.iter().map(|name| (*name).to_owned()).collect();
            Roles::of(&names, columns, false, true)
        };
        let auto = Columns::default();
        let roles = of(&["id", "Filename", "split", "class_name", "LABEL"], &auto).unwrap().unwrap();
        assert_eq!(roles, Roles { path: 1, label: Some(4), class: Some(3), split: Some(2) });
        assert!(roles.is_component(0) && roles.is_component(3) && !roles.is_component(2));
        assert_eq!(of(&["a", "b"], &auto).unwrap(), None);
        let said = Columns { path: Some("b".into()), label: Some("a".into()), ..auto.clone() };
        assert_eq!(of(&["a", "b"], &said).unwrap().unwrap(), Roles { path: 1, label: Some(0), ..Roles::default() });
        let error = of(&["a", "b"], &Columns { label: Some("c".into()), ..said }).unwrap_err();
        assert!(error.to_string().contains("it has a, b"), "{error}");
        assert_eq!(Roles::unnamed(3, 2, &auto, false).unwrap().label, Some(1));
        assert_eq!(Roles::unnamed(1, 0, &auto, false).unwrap().label, None);
    }
}

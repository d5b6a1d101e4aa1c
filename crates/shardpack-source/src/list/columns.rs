//! Assigns the path, label, class and split columns of a list, by user settings or by known names.

use shardpack_format::{Error, Result, field_names::LABELS};

use super::stored::Columns;

/// Most columns of a list.
pub(super) const MAX_COLUMNS: usize = 4096;
/// Known names of path columns, most likely first.
const PATHS: [&str; 17] = [
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
    "slice_file_name",
];
/// A numeric label that [`LABELS`] spells `class_id`, as UrbanSound8K and GTSRB spell it.
const CLASS_ID: &str = "classid";
/// Known names of class name columns beside numeric labels. Such a column is always packed in the component json too.
const CLASSES: [&str; 6] = ["class_name", "classname", "label_name", "category_name", "class", "category"];
/// Known name of the split column.
const SPLIT: &str = "split";

/// The value of `--label-column` for labels from the folders of paths.
pub(super) const FOLDER: &str = "folder";

/// Column numbers by role, from 0.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Roles {
    pub path: usize,
    pub label: Option<usize>,
    /// Whether labels are the folders of the paths.
    pub is_label_folder: bool,
    /// Class names beside numeric labels.
    pub class: Option<usize>,
    pub split: Option<usize>,
    /// Columns with paths of files that become components.
    pub files: Vec<usize>,
    /// The column with several classes, or the columns of one class each.
    pub several: Vec<usize>,
    /// Columns whose values are arrays.
    pub targets: Vec<usize>,
}

impl Roles {
    /// Assigns roles by column names; `None` if no column has paths.
    ///
    /// # Errors
    /// If a requested column is missing, or the label column is the path column.
    pub fn assign(names: &[String], columns: &Columns, no_labels: bool, splits: bool) -> Result<Option<Self>> {
        let said = |name: &Option<String>| name.as_ref().map(|name| named(names, name)).transpose();
        let known = |likely: &[&str]| known(names, likely);
        let Some(path) = said(&columns.path)?.or_else(|| known(&PATHS)) else { return Ok(None) };
        let is_label_folder = is_label_folder(columns, names);
        let chosen = if is_label_folder { None } else { said(&columns.label)? };
        let label = match chosen.filter(|_| !no_labels) {
            Some(label) => Some(apart(label, path, &names[label])?),
            None if is_label_folder => None,
            None => {
                let found = known(&LABELS).filter(|label| *label != path);
                let is_name = |label: usize| CLASSES.iter().any(|name| names[label].trim().eq_ignore_ascii_case(name));
                let number = known(&[CLASS_ID]).filter(|_| found.is_none_or(is_name));
                number.or(found).filter(|_| !no_labels)
            }
        };
        let class = label.and_then(|label| known(&CLASSES).filter(|class| *class != label && *class != path));
        let split = said(&columns.split)?.or_else(|| known(&[SPLIT]));
        let split = split.filter(|split| splits && *split != path && Some(*split) != label);
        Ok(Some(Self { path, label, is_label_folder: is_label_folder && !no_labels, class, split, ..Self::default() }))
    }

    /// Assigns roles in a list without a header. `path` is the path column; the label follows it, or else precedes it.
    pub fn unnamed(count: usize, path: usize, columns: &Columns, no_labels: bool) -> Result<Self> {
        let said = |name: &Option<String>| name.as_ref().map(|name| numbered(count, name)).transpose();
        let neighbour = if path + 1 < count { Some(path + 1) } else { path.checked_sub(1) };
        let is_label_folder = is_label_folder(columns, &[]);
        let chosen = if is_label_folder { None } else { said(&columns.label)? };
        let label = match chosen.filter(|_| !no_labels) {
            Some(label) => Some(apart(label, path, &(label + 1).to_string())?),
            None => neighbour.filter(|_| !no_labels && !is_label_folder),
        };
        let is_label_folder = is_label_folder && !no_labels;
        Ok(Self { path, label, is_label_folder, split: said(&columns.split)?, ..Self::default() })
    }

    /// Roles in lines `path label`, or in lines of paths alone: `names` has the one or the two names.
    ///
    /// # Errors
    /// If a requested column is missing, or has another role.
    pub fn of_lines(names: &[String], columns: &Columns, no_labels: bool) -> Result<Self> {
        let said = |name: &Option<String>, option| name.as_ref().map(|name| find(names, name, option)).transpose();
        let others =
            [(said(&columns.path, "--path-column")?, 0), (said(&columns.split, "--split-column")?, names.len())];
        if others.iter().any(|(at, role)| at.is_some_and(|at| at != *role)) {
            let what = "--path-column and --split-column: a line is a path, or a path and a label";
            return Err(Error::usage(what).help("leave out both options; in a CSV, columns have names"));
        }
        let is_label_folder = is_label_folder(columns, names);
        let label = match &columns.label {
            Some(name) if !is_label_folder => {
                let label = find(names, name, "--label-column")?;
                Some(apart(label, 0, &names[label])?)
            }
            _ => Some(1).filter(|at| *at < names.len() && !is_label_folder),
        };
        let label = label.filter(|_| !no_labels);
        Ok(Self { label, is_label_folder: is_label_folder && !no_labels, ..Self::default() })
    }

    /// Makes `files` the columns of files, `several` those of classes, and `targets` those of arrays. They have no other role.
    pub fn with_components(&mut self, files: Vec<usize>, several: Vec<usize>, targets: Vec<usize>) {
        let is_free = |at: &usize| !files.contains(at) && !several.contains(at) && !targets.contains(at);
        self.label = self.label.filter(is_free);
        self.class = self.class.filter(|class| self.label.is_some() && is_free(class));
        (self.files, self.several, self.targets) = (files, several, targets);
    }

    /// Whether column `number` belongs in the text of a row: the component json, and the values of targets.
    pub fn is_component(&self, number: usize) -> bool {
        let has_role = number == self.path || Some(number) == self.label || Some(number) == self.split;
        !has_role && !self.several.contains(&number) && !self.files.contains(&number)
    }
}

/// The most likely path column among `names`.
pub(super) fn path_of(names: &[String]) -> Option<String> {
    known(names, &PATHS).map(|at| names[at].clone())
}

/// Whether `--label-column` is [`FOLDER`], and no column has this name.
fn is_label_folder(columns: &Columns, names: &[String]) -> bool {
    columns.label.as_deref() == Some(FOLDER) && !names.iter().any(|name| name.eq_ignore_ascii_case(FOLDER))
}

/// The number of the column with the first matching name in `likely`.
fn known(names: &[String], likely: &[&str]) -> Option<usize> {
    let find = |likely: &&str| names.iter().position(|name| name.trim().eq_ignore_ascii_case(likely));
    likely.iter().find_map(find)
}

/// The requested column `label`, if it differs from the path column.
fn apart(label: usize, path: usize, name: &str) -> Result<usize> {
    match label == path {
        true => Err(Error::usage(format!("--label-column {name}: this is the path column"))
            .help("choose the path column with --path-column NAME; --no-labels packs samples without a class")),
        false => Ok(label),
    }
}

/// The number of the column `name`; the exact case is preferred.
fn named(names: &[String], name: &str) -> Result<usize> {
    let exact = names.iter().position(|own| own == name);
    exact.or_else(|| names.iter().position(|own| own.eq_ignore_ascii_case(name))).ok_or_else(|| {
        let have: Vec<_> = names.iter().take(20).map(String::as_str).collect();
        Error::usage(format!("no column {name:?}: it has {}", have.join(", ")))
    })
}

/// Parses a column number, which counts from 1.
pub(super) fn numbered(count: usize, name: &str) -> Result<usize> {
    let number = name.parse::<usize>().ok().and_then(|number| number.checked_sub(1));
    number.filter(|number| *number < count).ok_or_else(|| {
        Error::usage(format!("no column {name:?}: the list has no header line, give a column number from 1 to {count}"))
    })
}

/// The number of the column `column` of an option among `names`: by name, or else by its number from 1.
///
/// # Errors
/// If there is none.
pub(super) fn find(names: &[String], column: &str, option: &str) -> Result<usize> {
    let number = || column.parse::<usize>().ok()?.checked_sub(1).filter(|at| *at < names.len());
    let exact = names.iter().position(|own| own == column);
    exact.or_else(|| names.iter().position(|own| own.eq_ignore_ascii_case(column))).or_else(number).ok_or_else(|| {
        let have: Vec<_> = names.iter().take(20).map(String::as_str).collect();
        Error::usage(format!("{option} {column}: no such column: it has {}", have.join(", ")))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_found_by_their_names() {
        let of = |names: &[&str], columns: &Columns| {
            let names: Vec<_> = names.iter().map(|name| (*name).to_owned()).collect();
            Roles::assign(&names, columns, false, true)
        };
        let auto = Columns::default();
        let roles = of(&["id", "Filename", "split", "class_name", "LABEL"], &auto).unwrap().unwrap();
        assert_eq!(roles, Roles { path: 1, label: Some(4), class: Some(3), split: Some(2), ..Roles::default() });
        assert!(roles.is_component(0) && roles.is_component(3) && !roles.is_component(2));
        assert_eq!(of(&["a", "b"], &auto).unwrap(), None);
        let said = Columns { path: Some("b".into()), label: Some("a".into()), ..auto.clone() };
        assert_eq!(of(&["a", "b"], &said).unwrap().unwrap(), Roles { path: 1, label: Some(0), ..Roles::default() });
        let roles = of(&["slice_file_name", "fold", "classID", "class"], &auto).unwrap().unwrap();
        assert_eq!(roles, Roles { label: Some(2), class: Some(3), ..Roles::default() });
        let roles = of(&["path", "label", "ClassId"], &auto).unwrap().unwrap();
        assert_eq!(roles.label, Some(1));
        let error = of(&["a", "b"], &Columns { label: Some("c".into()), ..said }).unwrap_err();
        assert!(error.to_string().contains("it has a, b"), "{error}");
        assert_eq!(Roles::unnamed(3, 2, &auto, false).unwrap().label, Some(1));
        assert_eq!(Roles::unnamed(1, 0, &auto, false).unwrap().label, None);
    }
}

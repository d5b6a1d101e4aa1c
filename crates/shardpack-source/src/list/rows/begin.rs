//! Decides the columns of components, and notes the columns with their roles.

use shardpack_format::Result;

use super::Rows;
use crate::list::columns::{MAX_COLUMNS, Roles, find};

impl Rows<'_> {
    /// Adds the columns of components to `roles`, and a note with the columns and their roles.
    ///
    /// # Errors
    /// If a column is missing, or has another role.
    pub fn begin(&mut self, names: &[String], roles: &mut Roles) -> Result<()> {
        roles.files = self.file_columns(names, roles)?;
        let several = self.columns_of_classes(names, roles)?;
        let is_chosen = self.columns.label.is_some();
        let is_taken = |at: usize| {
            let is_label = Some(at) == roles.label && is_chosen;
            at == roles.path
                || Some(at) == roles.split
                || roles.files.contains(&at)
                || several.contains(&at)
                || is_label
        };
        let targets = self.targets.columns(names, is_taken)?;
        let files = std::mem::take(&mut roles.files);
        roles.with_components(files, several, targets);
        self.has_labels = roles.label.is_some() || roles.is_label_folder;
        self.is_label_folder = roles.is_label_folder;
        self.label_column = roles.label.and_then(|at| names.get(at).cloned());
        let name = |at: usize| names.get(at).map_or("", String::as_str);
        let mut told = vec![format!("path {}", name(roles.path))];
        told.extend(roles.label.map(|at| format!("label {}", name(at))));
        told.extend(roles.class.map(|at| format!("class {}", name(at))));
        told.extend(roles.split.map(|at| format!("split {}", name(at))));
        if !roles.files.is_empty() {
            let files: Vec<_> = roles.files.iter().map(|at| name(*at)).collect();
            told.push(format!("files {}", files.join(", ")));
        }
        told.extend(match roles.several.as_slice() {
            [] => None,
            [at] => Some(format!("several classes {}", name(*at))),
            [first, .., last] => Some(format!("a class each {} to {}", name(*first), name(*last))),
        });
        if !roles.targets.is_empty() {
            let targets: Vec<_> = roles.targets.iter().map(|at| name(*at)).collect();
            told.push(format!("targets {}", targets.join(", ")));
        }
        match (roles.label, roles.is_label_folder) {
            (None, true) => told.push("labels are the folders of the paths".to_owned()),
            (None, false) => told.push("no labels".to_owned()),
            (Some(_), _) => {}
        }
        let is_text = |at: &usize| roles.is_component(*at) && !roles.targets.contains(at);
        let components: Vec<_> = (0..names.len()).filter(is_text).map(name).collect();
        if self.keeps_text && !components.is_empty() {
            // Each JSON object may have its own member names.
            let more = components.len().saturating_sub(MAX_COLUMNS);
            let shown = components[..components.len() - more].join(", ");
            let more = if more > 0 { format!(", and {more} more") } else { String::new() };
            told.push(format!("in a component json: {shown}{more}"));
        }
        self.notes.push(format!("columns: {}", told.join("; ")));
        Ok(())
    }

    /// The numbers of the columns of classes among `names`, if the user chooses some.
    fn columns_of_classes(&mut self, names: &[String], roles: &Roles) -> Result<Vec<usize>> {
        let is_label_chosen = self.columns.label.is_some();
        let is_taken = |at: usize| {
            let is_label = Some(at) == roles.label && is_label_chosen;
            at == roles.path || Some(at) == roles.split || roles.files.contains(&at) || is_label
        };
        let find = |column: &str| find(names, column, "--multi-label");
        self.multi_label.as_mut().map_or(Ok(Vec::new()), |several| several.columns(names, find, is_taken))
    }
}

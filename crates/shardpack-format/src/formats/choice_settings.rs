//! The settings of a choice in a manifest: those of every format, beside the settings of the format itself.

use std::collections::BTreeMap;

use super::{Choice, ComponentClasses, Format, foreign::FieldSelection};
use crate::{
    Error, Result,
    component::{self, Component, Type},
    manifest::{BY_KIND, Manifest},
};

/// Manifest setting of every format: the source's own components; see [`Choice::components`].
const COMPONENTS: &str = "beside";
/// Manifest setting of every format: the payload if it is no image; see [`Choice::payload`].
const PAYLOAD: &str = "payload";
/// Manifest setting of every format: the source files that are payloads; see [`Choice::files`].
const FILES: &str = "files";
/// Manifest setting of every format: the split of the source by fractions; see [`Choice::fractions`].
const FRACTIONS: &str = "split_fraction";
/// Manifest setting of every format: the split of the source by folders; see [`Choice::split_folders`].
const SPLIT_FOLDERS: &str = "split_folders";
/// Manifest setting of every format: the pattern of labels in file names; see [`Choice::label_pattern`].
const LABEL_PATTERN: &str = "label_pattern";
/// Manifest setting of every format: names of class numbers in components; see [`Choice::component_classes`].
const COMPONENT_CLASSES: &str = "component_classes";
/// Manifest setting of every format: how a list was read; see [`Choice::list_clues`].
const LIST_CLUES: &str = "list_clues";
/// The value is always [`component::TEXT`].
const META: &str = "meta";

/// The names of class numbers that the settings of a manifest have for components, such as `multi_hot`.
///
/// # Errors
/// If the setting is invalid.
pub fn component_classes(settings: &BTreeMap<String, String>) -> Result<ComponentClasses> {
    let Some(classes) = settings.get(COMPONENT_CLASSES) else { return Ok(ComponentClasses::new()) };
    serde_json::from_str(classes).map_err(|error| Error::data(format!("setting {COMPONENT_CLASSES:?}: {error}")))
}

/// The types that the settings of a manifest declare for the values of components, the payload among them, by component.
///
/// # Errors
/// If a declaration is invalid.
pub fn declared_types(settings: &BTreeMap<String, String>) -> Result<BTreeMap<String, Type>> {
    let mut all = settings.get(COMPONENTS).map(|list| Component::of_list(list)).transpose()?.unwrap_or_default();
    all.extend(settings.get(PAYLOAD).map(|one| Component::try_from(one.clone())).transpose()?);
    let typed = all.into_iter().filter_map(|one| Some((one.name().to_owned(), one.kind()?.clone())));
    Ok(typed.collect())
}

impl Choice {
    /// The settings that a manifest stores for this choice: the settings of `format`, and the source's own components.
    pub fn stored(&self, format: &dyn Format) -> BTreeMap<String, String> {
        let mut settings = format.settings();
        if !self.components.is_empty() {
            settings.insert(COMPONENTS.to_owned(), Component::list(&self.components));
        }
        if let Some(payload) = &self.payload {
            settings.insert(PAYLOAD.to_owned(), payload.to_string());
        }
        if !self.files.is_empty() {
            settings.insert(FILES.to_owned(), self.files.join(","));
        }
        if let Some(fractions) = &self.fractions {
            settings.insert(FRACTIONS.to_owned(), fractions.clone());
        }
        if let Some(folders) = &self.split_folders {
            settings.insert(SPLIT_FOLDERS.to_owned(), folders.clone());
        }
        if let Some(pattern) = &self.label_pattern {
            settings.insert(LABEL_PATTERN.to_owned(), pattern.clone());
        }
        settings.extend(self.list_clues.clone().map(|clues| (LIST_CLUES.to_owned(), clues)));
        if !self.component_classes.is_empty() {
            settings.insert(COMPONENT_CLASSES.to_owned(), serde_json::json!(self.component_classes).to_string());
        }
        settings.extend(self.wanted.described().map(|(name, said)| (name.to_owned(), said)));
        if self.has_text() && self.json {
            settings.insert(META.to_owned(), component::TEXT.to_owned());
        }
        settings
    }

    /// Restores the choice from the manifest of a dataset.
    ///
    /// # Errors
    /// If a setting that [`Choice::stored`] added is invalid.
    pub fn of_manifest(manifest: &Manifest) -> Result<Self> {
        let Manifest { format, components, .. } = manifest;
        let has = |name: &str| components.iter().skip(1).any(|component| component == name);
        let mut choice = Self {
            extension: components.first().filter(|name| *name != BY_KIND).cloned(),
            cls: has("cls"),
            json: has("json"),
            settings: format.settings.clone(),
            ..Self::new(&format.name)
        };
        choice.take_stored().map(|()| choice)
    }

    /// Parses and removes the settings that [`Choice::stored`] added to the settings of the format.
    pub(super) fn take_stored(&mut self) -> Result<()> {
        if let Some(list) = self.settings.remove(COMPONENTS) {
            self.components = Component::of_list(&list)?;
        }
        if let Some(payload) = self.settings.remove(PAYLOAD) {
            let payload = Component::try_from(payload)?;
            self.extension = Some(payload.name().to_owned());
            self.payload = Some(payload);
        }
        if let Some(files) = self.settings.remove(FILES) {
            self.files = files.split(',').map(str::to_owned).collect();
        }
        self.fractions = self.settings.remove(FRACTIONS);
        self.split_folders = self.settings.remove(SPLIT_FOLDERS);
        self.label_pattern = self.settings.remove(LABEL_PATTERN);
        self.list_clues = self.settings.remove(LIST_CLUES);
        self.component_classes = component_classes(&self.settings)?;
        self.settings.remove(COMPONENT_CLASSES);
        self.wanted = FieldSelection::of_said(|name| self.settings.remove(name))?;
        if self.components.iter().any(|one| one.name() == component::TEXT) {
            self.json = self.settings.remove(META).is_some();
        }
        Ok(())
    }
}

//! Roles of components beside an image: how a change that moves pixels changes each of them.
//!
//! Holds at all times: a role is a component's declared name and type, or the user's word; the recipe in the manifest names all of them.

use std::{fmt, str::FromStr, sync::Arc};

use shardpack_format::component::{Component, Kind, Type};
use shardpack_imaging::{Recipe, Resize};

use crate::source::SourceListing;

/// How a component is changed if pixels move.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// A PNG or an array of the image's size, as stored: its levels are moved, and never mixed.
    Mask,
    /// An array whose last axis is a box, in pixels of the image as stored.
    Boxes(BoxForm),
    /// An array whose last axis is x, y, or x, y and a third number, in pixels of the image as stored.
    Points,
    /// Stays as it is.
    Keep,
}

/// The four numbers of a box.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BoxForm {
    /// Left, top, right, bottom.
    Xyxy,
    /// Left, top, width, height.
    Xywh,
    /// X and y of the centre, width, height.
    Cxcywh,
}

const NAMES: [(&str, Role); 6] = [
    ("mask", Role::Mask),
    ("xyxy", Role::Boxes(BoxForm::Xyxy)),
    ("xywh", Role::Boxes(BoxForm::Xywh)),
    ("cxcywh", Role::Boxes(BoxForm::Cxcywh)),
    ("xy", Role::Points),
    ("keep", Role::Keep),
];

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(NAMES.iter().find(|(_, role)| role == self).map_or("", |(name, _)| name))
    }
}

impl FromStr for Role {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let role = NAMES.iter().find(|(name, _)| *name == text).map(|(_, role)| *role);
        role.ok_or_else(|| format!("{text:?} is no role; {} are", NAMES.map(|(name, _)| name).join(", ")))
    }
}

/// A component with its role.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Assigned {
    /// Name of the component.
    pub name: String,
    pub role: Role,
    /// Whether the user gave the role, so that content is not compared with it before the change.
    pub is_said: bool,
    /// For a mask that is an array: its axis with rows of the image, if it is the same in all samples.
    pub axis: Option<usize>,
}

/// The components with a role, in the order of the components.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Roles(pub Vec<Assigned>);

impl Roles {
    /// The components that move.
    pub fn moved(&self) -> impl Iterator<Item = &Assigned> {
        self.0.iter().filter(|one| one.role != Role::Keep)
    }

    /// The role of the component called `name`.
    pub fn of(&self, name: &str) -> Option<&Assigned> {
        self.0.iter().find(|one| one.name == name)
    }

    /// The roles as text for the recipe in the manifest.
    pub fn words(&self) -> Vec<String> {
        self.0.iter().map(|one| format!("{} as {}", one.name, one.role)).collect()
    }

    /// The columns of `found` that move, and their roles.
    pub fn columns<'r>(&'r self, found: &SourceListing) -> Vec<(usize, &'r Assigned)> {
        let kinds = found.listing.components().kinds.iter().enumerate();
        let role = |name: &str| self.of(name).filter(|one| one.role != Role::Keep);
        kinds.filter_map(|(which, kind)| Some((which, role(kind.name())?))).collect()
    }

    /// Gives arrays that are masks the type that they have after `recipe`.
    pub fn set_types(&self, found: &mut [SourceListing], recipe: &Recipe) {
        let is_mask = |kind: &Component| self.of(kind.name()).filter(|one| one.role == Role::Mask && is_array(kind));
        for one in found {
            let components = one.listing.components();
            if !components.kinds.iter().any(|kind| is_mask(kind).is_some()) {
                continue;
            }
            let after = |kind: &Component| match (is_mask(kind), kind.kind().cloned()) {
                (Some(assigned), Some(kind_before)) => {
                    kind.clone().with_kind(type_after(kind_before, assigned.axis, recipe))
                }
                _ => kind.clone(),
            };
            let (kinds, payload) = (components.kinds.iter().map(after).collect(), components.payload.clone());
            one.listing = Arc::new(one.listing.with_types(kinds, payload));
        }
    }
}

/// The type of masks after `recipe`, whose rows are in `axis`.
fn type_after(mut before: Type, axis: Option<usize>, recipe: &Recipe) -> Type {
    let Kind::Array { shape: Some(shape), .. } = &mut before.kind else { return before };
    let Some(axis) = axis.or((shape.len() == 2).then_some(0)).filter(|axis| axis + 1 < shape.len()) else {
        shape.fill(None);
        return before;
    };
    let known = |axis: Option<u64>| axis.and_then(|axis| u32::try_from(axis).ok());
    let size = match (recipe.resize, known(shape[axis + 1]), known(shape[axis])) {
        (Some(Resize::Exact { width, height }), ..) => Some((width, height)),
        // A turn swaps the sides, and not of all images.
        (_, Some(width), Some(height)) if !recipe.rotate || width == height => Some(recipe.resized((width, height))),
        _ => None,
    };
    (shape[axis], shape[axis + 1]) = (size.map(|size| size.1.into()), size.map(|size| size.0.into()));
    before
}

/// Whether the values of a component are arrays: declared, or files with the extension.
pub(super) fn is_array(kind: &Component) -> bool {
    match kind.kind() {
        Some(Type { kind: Kind::Array { .. }, .. }) => true,
        Some(_) => false,
        None => extension(kind) == "npy",
    }
}

/// The extension in a component's name.
pub(super) fn extension(kind: &Component) -> &str {
    kind.name().rsplit('.').next().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn masks_have_a_common_size_after_a_change_if_they_had_one_before() {
        let short = |side| Recipe { resize: Some(Resize::Short(side)), ..Recipe::default() };
        let exact = Recipe { resize: Some(Resize::Exact { width: 9, height: 7 }), ..Recipe::default() };
        let turned = |recipe: Recipe| Recipe { rotate: true, ..recipe };
        for (before, axis, recipe, after) in [
            ("<f4[480x640]", None, short(240), "<f4[240x320]"),
            ("<f4[480x640]", None, short(999), "<f4[480x640]"),
            ("<f4[480x640]", Some(0), turned(short(240)), "<f4[?x?]"),
            ("<f4[480x480]", Some(0), turned(short(240)), "<f4[240x240]"),
            ("<f4[?x640]", Some(0), short(240), "<f4[?x?]"),
            ("|u1[3x480x640]", Some(1), turned(exact.clone()), "|u1[3x7x9]"),
            ("|u1[480x640x3]", Some(0), exact.clone(), "|u1[7x9x3]"),
            ("|u1[480x640x3]", None, exact.clone(), "|u1[?x?x?]"),
            ("|u1", None, exact, "|u1"),
        ] {
            assert_eq!(type_after(before.parse().unwrap(), axis, &recipe).to_string(), after, "{before}");
        }
    }

    #[test]
    fn roles_come_back_from_their_text() {
        for (name, role) in NAMES {
            assert_eq!((name.parse(), role.to_string().as_str()), (Ok(role), name));
        }
        assert_eq!("box".parse::<Role>(), Err("\"box\" is no role; mask, xyxy, xywh, cxcywh, xy, keep are".to_owned()));
    }
}

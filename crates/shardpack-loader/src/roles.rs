//! Roles of components: masks, second images, boxes and points follow the cut of the sample's image.
//!
//! Holds at all times: a value with a role either fits its image or makes the sample bad; the form of a column does not
//! depend on the samples of a batch.

use std::{borrow::Cow, collections::BTreeMap};

use shardpack_format::{
    Error, Result,
    component::{Form, Kind, Number, Type, item_bytes},
    formats::component_classes,
};
use shardpack_imaging::{
    Mask, Refused,
    training::{Axes, Dtype, Geometry, Size, Transform, Worker},
};

use crate::columns::{Value, Wanted};

/// Relation of a component to the image of its sample.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// A file or array whose pixels are numbers, as large as the image: cut by nearest neighbours. `[H, W]`, or
    /// with several numbers a pixel the axes of the images.
    Mask,
    /// An image as large as the image of the sample: transformed with the same random numbers.
    Image,
    /// Boxes `[n, 4]`: left, top, right, bottom in pixels of the stored image. Clipped to the cut; those below a pixel
    /// across or down are dropped. `float32 [n, 4]`.
    Boxes,
    /// Points `[…, 2]`: x, y in pixels of the stored image, or `[…, 3]` with a third number that stays. Points outside
    /// the cut stay outside. `float32`.
    Points,
    /// As [`Role::Points`], with a row for each box: rows of dropped boxes are dropped.
    PointsPerBox,
    /// An array with a row for each box, such as labels: rows of dropped boxes are dropped.
    PerBox,
}

impl Role {
    /// All, with their names.
    pub const ALL: [(&'static str, Self); 6] = [
        ("mask", Self::Mask),
        ("image", Self::Image),
        ("xyxy", Self::Boxes),
        ("xy", Self::Points),
        ("xy per box", Self::PointsPerBox),
        ("per box", Self::PerBox),
    ];

    /// The name.
    pub fn name(self) -> &'static str {
        Self::ALL.into_iter().find(|(_, role)| *role == self).map_or("", |(name, _)| name)
    }

    /// Whether a value has a row for each box.
    fn is_per_box(self) -> bool {
        matches!(self, Self::PerBox | Self::PointsPerBox)
    }

    /// The declared type of the moved values, for that of the stored ones.
    pub(crate) fn moved_type(self, declared: Option<Type>, is_cut: bool) -> Option<Type> {
        let array = |dtype: Option<&str>, shape: Option<Vec<Option<u64>>>, is_optional| {
            Some(Type { kind: Kind::Array { dtype: dtype.map(str::to_owned), shape }, is_optional })
        };
        match self {
            // Arrays of the slot's size are stacked, all others are a list.
            Self::Mask | Self::Image if is_cut => None,
            Self::Mask | Self::Image => array(None, None, false),
            _ if !is_cut => declared,
            Self::Boxes => {
                let is_optional = declared.is_some_and(|declared| declared.is_optional);
                array(Some("<f4"), Some(vec![None, Some(4)]), is_optional)
            }
            Self::Points | Self::PointsPerBox | Self::PerBox => declared.map(|declared| match declared.kind {
                Kind::Array { dtype, shape } => {
                    let dtype = if self == Self::PerBox { dtype } else { Some("<f4".to_owned()) };
                    // Boxes are dropped, so lengths of their rows differ.
                    let rows = |mut shape: Vec<Option<u64>>| {
                        shape.iter_mut().take(usize::from(self.is_per_box())).for_each(|axis| *axis = None);
                        shape
                    };
                    Type { kind: Kind::Array { dtype, shape: shape.map(rows) }, ..declared }
                }
                kind => Type { kind, ..declared },
            }),
        }
    }
}

/// The components with boxes that `pack` makes from annotations, and their labels: names and shapes of a row. Other dtypes are
/// those of rows of a program, or of the parts of a mix.
const KNOWN: [(&str, &[Option<u64>], Role); 2] =
    [("boxes.npy", &[Some(4)], Role::Boxes), ("box_labels.npy", &[], Role::PerBox)];

/// The roles of `components`, in their order: the given ones, where `None` is a component that stays as stored, and those
/// of boxes that `pack` makes if there is a transform. `types` has the declared types.
///
/// # Errors
/// If a role belongs to no component, several components have boxes, rows have no boxes to belong to, or components cannot
/// follow the transform.
pub(crate) fn resolve(
    given: &BTreeMap<String, Option<Role>>,
    components: &[String],
    types: &[Option<Type>],
    kind: CutKind,
) -> Result<Vec<Option<Role>>> {
    if let Some(name) = given.keys().find(|name| !components.contains(name)) {
        return Err(Error::usage(format!("a role of {name:?}, which is none of the components to load")));
    }
    let has_other_boxes = given.values().any(|role| *role == Some(Role::Boxes));
    let known = |name: &str, declared: Option<&Type>| {
        let Kind::Array { shape: Some(shape), .. } = &declared?.kind else { return None };
        let [_, row @ ..] = &shape[..] else { return None };
        let is_known = |known: &(&str, &[Option<u64>], Role)| (known.0, known.1) == (name, row);
        KNOWN.iter().find(|known| kind != CutKind::None && !has_other_boxes && is_known(known)).map(|known| known.2)
    };
    let role = |(name, declared): (&String, &Option<Type>)| match given.get(name) {
        Some(role) => *role,
        None => known(name, declared.as_ref()),
    };
    let mut roles: Vec<Option<Role>> = components.iter().zip(types).map(role).collect();
    let boxes: Vec<&str> = components
        .iter()
        .zip(&roles)
        .filter(|(_, role)| **role == Some(Role::Boxes))
        .map(|(name, _)| name.as_str())
        .collect();
    if boxes.len() > 1 {
        return Err(Error::usage(format!("{} have boxes: only one component of a sample can", boxes.join(" and "))));
    }
    if boxes.is_empty() {
        for (name, role) in components.iter().zip(&mut roles) {
            match role {
                Some(one) if one.is_per_box() && given.contains_key(name) => {
                    let what = format!("{name} has a row for each box, and no component has boxes (the role xyxy)");
                    return Err(Error::usage(what));
                }
                // Labels without their boxes stay as stored.
                Some(one) if one.is_per_box() => *role = None,
                _ => {}
            }
        }
    }
    let what = match kind {
        CutKind::Moved => "RandAugment and TrivialAugmentWide move pixels, and components do not follow them",
        CutKind::Mixed => NOT_MIXED,
        CutKind::None | CutKind::Known => return Ok(roles),
    };
    match components.iter().zip(&roles).find(|(_, role)| role.is_some()) {
        Some((name, _)) => Err(as_stored(name, what)),
        None => Ok(roles),
    }
}

/// The error of a component that cannot follow.
fn as_stored(name: &str, what: &str) -> Error {
    let help = format!("roles={{{name:?}: None}} leaves it as stored");
    Error::usage(format!("{name}: {what}")).help(help)
}

/// Refuses components that name classes, as `multi_hot` does, beside mixed images, unless they are to stay as stored.
///
/// # Errors
/// If there is one, or a manifest has invalid classes.
pub(crate) fn check_mixed(
    given: &BTreeMap<String, Option<Role>>,
    components: &[String],
    settings: &BTreeMap<String, String>,
) -> Result<()> {
    let classes = component_classes(settings)?;
    match components.iter().find(|name| classes.contains_key(*name) && !given.contains_key(*name)) {
        Some(name) => Err(as_stored(name, NOT_MIXED)),
        None => Ok(()),
    }
}

const NOT_MIXED: &str = "MixUp and CutMix mix images, and components are not mixed";

/// What components can follow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CutKind {
    /// No transform.
    None,
    /// The cut of each view of an image.
    Known,
    /// Pixels of a view move further after the cut.
    Moved,
    /// Images are mixed.
    Mixed,
}

/// Boxes below this many pixels across or down are dropped, as by torchvision's `SanitizeBoundingBoxes`.
const LEAST_SIDE: f32 = 1.0;

/// A value that fits its image, or the reason why it does not.
type Fit<T> = std::result::Result<T, String>;

/// The cut of the image of a sample.
pub(crate) struct CutOf<'t> {
    pub transform: &'t Transform,
    pub geometry: Geometry,
    pub random_key: u64,
}

/// Applies the roles of `wanted` to the values of a sample, one for each; `cut` is `None` without a transform.
///
/// # Errors
/// The index of the value that does not fit, and the reason.
pub(crate) fn follow<'s>(
    worker: &mut Worker,
    cut: Option<&CutOf<'_>>,
    wanted: &[Wanted],
    values: Vec<Value<'s>>,
) -> std::result::Result<Vec<Value<'s>>, (usize, String)> {
    let mut keeps = None;
    if let (Some(cut), Some(at)) = (cut, wanted.iter().position(|one| one.role == Some(Role::Boxes)))
        && let Some(value) = values.get(at)
    {
        keeps = boxes(value, &cut.geometry).map_err(|what| (at, what))?;
    }
    let mut moved = |wanted: &Wanted, value: Value<'s>| match (wanted.role, cut) {
        (Some(role @ (Role::Mask | Role::Image)), _) => pixels(worker, cut, role, &value),
        (Some(role), Some(cut)) if !matches!(value, Value::Missing) => {
            positions(role, &value, &cut.geometry, keeps.as_ref())
        }
        _ => Ok(value),
    };
    let all = values.into_iter().zip(wanted).enumerate();
    all.map(|(at, (value, wanted))| moved(wanted, value).map_err(|what| (at, what))).collect()
}

/// The moved boxes of a sample, and which of the stored ones they are.
struct MovedBoxes {
    moved: Vec<f32>,
    keeps: Vec<bool>,
}

fn boxes(value: &Value<'_>, geometry: &Geometry) -> Fit<Option<MovedBoxes>> {
    let (dtype, shape, items) = match value {
        Value::Missing => return Ok(None),
        value => array(value)?,
    };
    let [_, 4] = shape else { return Err(format!("boxes of shape {shape:?}: [n, 4] is wanted")) };
    let numbers = numbers(dtype, items)?;
    let is_share = |number: &f64| (0.0..=1.0).contains(number);
    if numbers.iter().all(is_share) && numbers.iter().any(|number| number.fract() != 0.0) {
        return Err("boxes are fractions of the image, and pixels are wanted".to_owned());
    }
    let (mut moved, mut keeps) = (Vec::with_capacity(numbers.len()), Vec::new());
    for (number, edges) in numbers.as_chunks::<4>().0.iter().enumerate() {
        let [left, top, right, bottom] = *edges;
        // Also false for NaN.
        if !(left < right && top < bottom && edges.iter().all(|edge| edge.is_finite())) {
            return Err(format!("box {number} has no area: {left}, {top}, {right}, {bottom}"));
        }
        let found = geometry.move_box(*edges, LEAST_SIDE);
        keeps.push(found.is_some());
        moved.extend(found.into_iter().flatten());
    }
    Ok(Some(MovedBoxes { moved, keeps }))
}

/// Boxes, points, and rows beside boxes.
fn positions<'s>(role: Role, value: &Value<'_>, geometry: &Geometry, boxes: Option<&MovedBoxes>) -> Fit<Value<'s>> {
    if let (Role::Boxes, Some(boxes)) = (role, boxes) {
        let shape = vec![boxes.moved.len() as u64 / 4, 4];
        return Ok(floats(shape, &boxes.moved));
    }
    let (dtype, shape, items) = array(value)?;
    let (mut dtype, mut shape, mut items) = (dtype.to_owned(), shape.to_vec(), Cow::Borrowed(items));
    if matches!(role, Role::Points | Role::PointsPerBox) {
        let Some(width @ (2 | 3)) = shape.last().copied() else {
            return Err(format!("points of shape {shape:?}: […, 2] or […, 3] is wanted"));
        };
        let mut numbers = numbers(&dtype, &items)?;
        // COCO writes 0, 0, 0 for a point without a position.
        for point in numbers.chunks_exact_mut(width as usize).filter(|point| **point != [0.0; 3]) {
            let [x, y] = geometry.move_point([point[0], point[1]]);
            (point[0], point[1]) = (f64::from(x), f64::from(y));
        }
        items = Cow::Owned(numbers.iter().flat_map(|number| (*number as f32).to_le_bytes()).collect());
        dtype = "<f4".to_owned();
    }
    if role.is_per_box() {
        let Some(boxes) = boxes else { return Err("the sample has no boxes for its rows".to_owned()) };
        let rows = shape.first().copied().unwrap_or(0);
        if rows != boxes.keeps.len() as u64 {
            return Err(format!("{rows} rows, and the sample has {} boxes", boxes.keeps.len()));
        }
        let row_bytes = items.len() / boxes.keeps.len().max(1);
        let kept = items.chunks_exact(row_bytes.max(1)).zip(&boxes.keeps).filter(|(_, keeps)| **keeps);
        items = Cow::Owned(kept.flat_map(|(row, _)| row).copied().collect());
        shape[0] = boxes.keeps.iter().filter(|keeps| **keeps).count() as u64;
    }
    Ok(Value::Array(Cow::Owned(Form::Array { dtype, shape }), Cow::Owned(items.into_owned())))
}

fn floats<'s>(shape: Vec<u64>, numbers: &[f32]) -> Value<'s> {
    let items = numbers.iter().flat_map(|number| number.to_le_bytes()).collect();
    Value::Array(Cow::Owned(Form::Array { dtype: "<f4".to_owned(), shape }), Cow::Owned(items))
}

/// dtype, shape and items of an array.
fn array<'v>(value: &'v Value<'_>) -> Fit<(&'v str, &'v [u64], &'v [u8])> {
    match value {
        Value::Array(form, items) => match &**form {
            Form::Array { dtype, shape } => Ok((dtype, shape, items)),
            _ => Err("no array".to_owned()),
        },
        Value::Content(form, _) => Err(format!("an array is wanted, and the component is {form}")),
        Value::Missing => Err("the sample lacks it".to_owned()),
    }
}

/// Numbers as float64, which has all of float32 and of whole numbers up to 2^53.
fn numbers(dtype: &str, items: &[u8]) -> Fit<Vec<f64>> {
    let wrong = || format!("positions of dtype {dtype}: floats or whole numbers are wanted");
    let is_flag = dtype.chars().nth(1) == Some('b');
    let bytes = item_bytes(dtype).and_then(|bytes| usize::try_from(bytes).ok()).filter(|bytes| *bytes > 0 && !is_flag);
    let all = items.chunks_exact(bytes.ok_or_else(wrong)?);
    all.map(|item| Number::of_item(dtype, item).map(Number::as_f64).ok_or_else(wrong)).collect()
}

/// A mask or a second image.
fn pixels<'s>(worker: &mut Worker, cut: Option<&CutOf<'_>>, role: Role, value: &Value<'_>) -> Fit<Value<'s>> {
    let content = match value {
        Value::Missing => return Err("the sample lacks it".to_owned()),
        Value::Content(_, content) => content,
        Value::Array(..) if role == Role::Mask => return array_mask(cut, value),
        Value::Array(..) => return Err("an encoded image is wanted, and it is an array".to_owned()),
    };
    match (role, cut) {
        (Role::Mask, None) => worker.mask(content).map(|mask| mask_value(mask, Axes::Chw)).map_err(said),
        (Role::Mask, Some(cut)) => file_mask(worker, cut, content),
        (_, Some(cut)) => second_image(worker, cut, content),
        (_, None) => {
            let (rgb, _) = worker.decode(content, false).map_err(said)?;
            let (width, height) = (rgb.width as usize, rgb.height as usize);
            let planes = in_planes(rgb.pixels, 3, 1);
            Ok(bytes("|u1", &[3, height, width], planes))
        }
    }
}

/// Fails unless both have one size.
fn same_size(what: &str, (width, height): (u32, u32), geometry: &Geometry) -> Fit<()> {
    let image = geometry.stored_size();
    match (width, height) == image {
        true => Ok(()),
        false => Err(format!("{what} of {width} × {height} pixels, and its image has {} × {}", image.0, image.1)),
    }
}

fn said(refused: Refused) -> String {
    refused.to_string()
}

/// The cut of a mask in a file.
fn file_mask<'s>(worker: &mut Worker, cut: &CutOf<'_>, content: &[u8]) -> Fit<Value<'s>> {
    let mask = match worker.jpeg_mask(content, &cut.geometry).map_err(said)? {
        Some(mask) => mask,
        None => {
            let mask = worker.mask(content).map_err(said)?;
            same_size("a mask", (mask.width, mask.height), &cut.geometry)?;
            let items = cut.geometry.nearest(&mask.items, mask.pixel_bytes()).unwrap_or_default();
            let Size { width, height } = cut.geometry.size;
            Mask { width, height, items, ..mask }
        }
    };
    Ok(mask_value(mask, cut.transform.options().axes))
}

fn mask_value<'s>(mask: Mask, axes: Axes) -> Value<'s> {
    let dtype = if mask.bytes == 2 { "<u2" } else { "|u1" };
    let [channels, height, width] = [mask.channels, mask.height, mask.width].map(|number| number as usize);
    match (channels, axes) {
        (1, _) => bytes(dtype, &[height, width], mask.items),
        (_, Axes::Chw) => {
            let planes = in_planes(&mask.items, channels, mask.bytes as usize);
            bytes(dtype, &[channels, height, width], planes)
        }
        (_, Axes::Hwc) => bytes(dtype, &[height, width, channels], mask.items),
    }
}

/// The mask in an array `[H, W]`, `[H, W, C]` or `[C, H, W]`; the axes keep their order.
fn array_mask<'s>(cut: Option<&CutOf<'_>>, value: &Value<'_>) -> Fit<Value<'s>> {
    let (dtype, shape, items) = array(value)?;
    let Some(cut) = cut else {
        let form = Form::Array { dtype: dtype.to_owned(), shape: shape.to_vec() };
        return Ok(Value::Array(Cow::Owned(form), Cow::Owned(items.to_vec())));
    };
    let (width, height) = cut.geometry.stored_size();
    let sides = [u64::from(height), u64::from(width)];
    let size = cut.geometry.size;
    let out = [u64::from(size.height), u64::from(size.width)];
    let pixels = (u64::from(height) * u64::from(width)) as usize;
    let wrong = || format!("a mask of shape {shape:?}, and its image has {height} rows and {width} columns");
    let (shape, items) = match shape {
        [rows, columns, rest @ ..] if [*rows, *columns] == sides && rest.len() <= 1 => {
            let shape = [&out[..], rest].concat();
            (shape, cut.geometry.nearest(items, items.len() / pixels.max(1)).ok_or_else(wrong)?)
        }
        [planes, rows, columns] if [*rows, *columns] == sides && *planes > 0 => {
            let plane_bytes = items.len() / *planes as usize;
            let moved = items.chunks_exact(plane_bytes.max(1));
            let moved = moved.map(|plane| cut.geometry.nearest(plane, plane_bytes / pixels.max(1)));
            let moved = moved.collect::<Option<Vec<_>>>().ok_or_else(wrong)?;
            ([&[*planes][..], &out].concat(), moved.concat())
        }
        _ => return Err(wrong()),
    };
    Ok(Value::Array(Cow::Owned(Form::Array { dtype: dtype.to_owned(), shape }), Cow::Owned(items)))
}

/// A second image through the transform of the first, with the same random numbers.
fn second_image<'s>(worker: &mut Worker, cut: &CutOf<'_>, content: &[u8]) -> Fit<Value<'s>> {
    let mut slot = vec![0; cut.transform.slot_bytes()];
    let made = worker.run(cut.transform, content, None, cut.random_key, &mut slot);
    let made = made.map_err(|refused| refused.to_string())?;
    if let Some(geometry) = made.geometry {
        same_size("an image", geometry.stored_size(), &cut.geometry)?;
    }
    let dtype = match cut.transform.options().dtype {
        Dtype::Uint8 => "|u1",
        Dtype::Float32 => "<f4",
        Dtype::Float16 => "<f2",
        // numpy has no name for it; the caller knows the dtype of the images.
        Dtype::Bfloat16 => "<u2",
    };
    Ok(bytes(dtype, &cut.transform.shape(), slot))
}

fn bytes<'s>(dtype: &str, shape: &[usize], items: Vec<u8>) -> Value<'s> {
    let shape = shape.iter().map(|axis| *axis as u64).collect();
    Value::Array(Cow::Owned(Form::Array { dtype: dtype.to_owned(), shape }), Cow::Owned(items))
}

/// `[pixels, channels]` as `[channels, pixels]`.
fn in_planes(items: &[u8], channels: usize, number_bytes: usize) -> Vec<u8> {
    let channel = |channel: usize| {
        items
            .chunks_exact(channels * number_bytes)
            .flat_map(move |pixel| &pixel[channel * number_bytes..][..number_bytes])
    };
    (0..channels).flat_map(channel).copied().collect()
}

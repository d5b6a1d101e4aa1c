//! Moves the content of one component as the pixels of its image move: masks, boxes, points.
//!
//! Holds at all times: a component keeps its mode and its dtype; numbers are computed in float64 and rounded once.

use shardpack_format::{
    component::{Form, item_bytes},
    npy,
};
use shardpack_imaging::{Budget, Movement, Refused, mask_size, move_mask};

use super::roles::{Assigned, BoxForm, Role};

/// A component after the movement.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Moved {
    pub content: Vec<u8>,
    /// Of an array; else [`Form::Bytes`].
    pub form: Form,
}

/// Why a component cannot be moved.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Failure {
    /// The reason is in its content.
    Bad(String),
    /// The decoder refuses it, perhaps for lack of memory.
    Refused(Refused),
}

impl From<Refused> for Failure {
    fn from(refused: Refused) -> Self {
        Self::Refused(refused)
    }
}

/// The component with this role and this content after `movement`; `None` if it stays as it is.
///
/// A component is checked even if no pixel moves: whether a sample is bad does not depend on the size of its image.
pub(super) fn moved(
    assigned: &Assigned,
    content: &[u8],
    movement: &Movement,
    budget: &Budget,
) -> Result<Option<Moved>, Failure> {
    match assigned.role {
        Role::Keep => Ok(None),
        Role::Mask if content.starts_with(b"\x93NUMPY") => {
            let array = Array::parse(content)?;
            let (axis, moves) = (array.rows_axis(assigned.axis, movement)?, !movement.is_still());
            Ok(if moves { Some(array.levels(axis, movement)?) } else { None })
        }
        Role::Mask => {
            check_size(mask_size(content, budget)?, movement)?;
            let moves = !movement.is_still();
            Ok(if moves {
                Some(Moved { content: move_mask(content, movement, budget)?, form: Form::Bytes })
            } else {
                None
            })
        }
        Role::Boxes(form) => Array::parse(content)?.rows(&[4], movement, |row| {
            let numbers = [row[0], row[1], row[2], row[3]];
            row.copy_from_slice(&form.of_edges(movement.edges(form.edges(numbers))));
        }),
        Role::Points => Array::parse(content)?.rows(&[2, 3], movement, |row| {
            // COCO: key points that are not labelled are 0, 0, 0.
            if row.len() == 2 || row.iter().any(|number| *number != 0.0) {
                let point = movement.point([row[0], row[1]]);
                row[..2].copy_from_slice(&point);
            }
        }),
    }
}

/// Fails if a mask has another size than its image.
fn check_size(mask: (u32, u32), movement: &Movement) -> Result<(), Failure> {
    let image = movement.from();
    if mask == image {
        return Ok(());
    }
    let turned = match mask == (image.1, image.0) {
        true => "; a mask has the size of the image as stored, before its EXIF orientation is applied",
        false => "",
    };
    let ((width, height), (across, down)) = (mask, image);
    Err(Failure::Bad(format!("is {width}×{height} pixels, and its image is {across}×{down}{turned}")))
}

impl BoxForm {
    /// Left, top, right and bottom edge.
    fn edges(self, [x, y, across, down]: [f64; 4]) -> [f64; 4] {
        match self {
            Self::Xyxy => [x, y, across, down],
            Self::Xywh => [x, y, x + across, y + down],
            Self::Cxcywh => [x - across / 2.0, y - down / 2.0, x + across / 2.0, y + down / 2.0],
        }
    }

    /// The inverse of [`BoxForm::edges`].
    fn of_edges(self, [left, top, right, bottom]: [f64; 4]) -> [f64; 4] {
        let (across, down) = (right - left, bottom - top);
        match self {
            Self::Xyxy => [left, top, right, bottom],
            Self::Xywh => [left, top, across, down],
            Self::Cxcywh => [left + across / 2.0, top + down / 2.0, across, down],
        }
    }
}

/// A `.npy` file in C order.
pub(super) struct Array<'a> {
    pub dtype: &'a str,
    pub shape: Vec<u64>,
    pub items: &'a [u8],
}

impl<'a> Array<'a> {
    pub fn parse(content: &'a [u8]) -> Result<Self, Failure> {
        let bad = |error: shardpack_format::Error| Failure::Bad(error.what());
        let head = npy::read_head(content).map_err(bad)?;
        head.check_length(content.len() as u64).map_err(bad)?;
        if head.is_fortran && head.shape.len() > 1 {
            return Err(Failure::Bad(
                "is an array in the order of Fortran, and only arrays in C order are moved".to_owned(),
            ));
        }
        if item_bytes(head.dtype).is_none() {
            return Err(Failure::Bad(format!("is an array of {}, which is not moved", head.dtype)));
        }
        Ok(Self { dtype: head.dtype, shape: head.shape, items: &content[head.data_offset..] })
    }

    /// All numbers of an array of float32 or float64.
    pub fn numbers(&self) -> Option<Vec<f64>> {
        match self.dtype {
            "<f4" => Some(self.items.as_chunks().0.iter().map(|item| f32::from_le_bytes(*item).into()).collect()),
            "<f8" => Some(self.items.as_chunks().0.iter().map(|item| f64::from_le_bytes(*item)).collect()),
            _ => None,
        }
    }

    fn shape_text(&self) -> String {
        format!("[{}]", self.shape.iter().map(u64::to_string).collect::<Vec<_>>().join(", "))
    }

    /// Applies `change` to all rows, whose last axis is one of `lengths`.
    fn rows(
        self,
        lengths: &[usize],
        movement: &Movement,
        change: impl Fn(&mut [f64]),
    ) -> Result<Option<Moved>, Failure> {
        let length = self.shape.last().copied().unwrap_or(0) as usize;
        if !self.items.is_empty() && !lengths.contains(&length) {
            let lengths = lengths.iter().map(usize::to_string).collect::<Vec<_>>().join(" or ");
            return Err(Failure::Bad(format!(
                "is an array {}, and its rows need {lengths} numbers",
                self.shape_text()
            )));
        }
        let Some(mut numbers) = self.numbers() else {
            return Err(Failure::Bad(format!("is an array of {}, and positions are moved as <f4 or <f8", self.dtype)));
        };
        if numbers.is_empty() || movement.is_still() {
            return Ok(None);
        }
        numbers.chunks_exact_mut(length).for_each(change);
        let items = match self.dtype {
            "<f4" => numbers.iter().flat_map(|number| (*number as f32).to_le_bytes()).collect(),
            _ => numbers.iter().flat_map(|number| number.to_le_bytes()).collect(),
        };
        let shape = self.shape.clone();
        self.with(shape, items).map(Some)
    }

    /// The axis with rows of the image, which is `axis` if that is known from other samples.
    fn rows_axis(&self, axis: Option<usize>, movement: &Movement) -> Result<usize, Failure> {
        let ((across, down), shape) = (movement.from(), self.shape_text());
        match (image_axes(&self.shape, movement.from())[..].as_ref(), axis) {
            (axes, Some(axis)) if axes.contains(&axis) => Ok(axis),
            ([axis], None) => Ok(*axis),
            ([_, _, ..], None) => Err(Failure::Bad(format!(
                "is an array {shape} with several axes of its image's {across}×{down} pixels"
            ))),
            _ => Err(Failure::Bad(format!("is an array {shape}, and its image is {across}×{down} pixels"))),
        }
    }

    /// The nearest levels; `axis` has the rows of the image, and the next one its columns.
    fn levels(self, axis: usize, movement: &Movement) -> Result<Moved, Failure> {
        let product = |axes: &[u64]| axes.iter().product::<u64>() as usize;
        let item = item_bytes(self.dtype).unwrap_or(0) as usize;
        let (planes, pixel_bytes) = (product(&self.shape[..axis]), product(&self.shape[axis + 2..]) * item);
        let plane_bytes = product(&self.shape[axis..axis + 2]) * pixel_bytes;
        let mut items = Vec::new();
        for plane in (0..planes).map(|plane| &self.items[plane * plane_bytes..][..plane_bytes]) {
            items.extend(movement.levels(plane, pixel_bytes));
        }
        let mut shape = self.shape.clone();
        let (width, height) = movement.to();
        (shape[axis], shape[axis + 1]) = (height.into(), width.into());
        self.with(shape, items)
    }

    /// An array of this dtype.
    fn with(self, shape: Vec<u64>, items: Vec<u8>) -> Result<Moved, Failure> {
        let form = Form::array(self.dtype, &shape).map_err(|error| Failure::Bad(error.what()))?;
        let mut content = form.head();
        content.extend(items);
        Ok(Moved { content, form })
    }
}

/// Axes that can be the rows of an image of `(width, height)` pixels, with its columns in the next axis.
pub(super) fn image_axes(shape: &[u64], (width, height): (u32, u32)) -> Vec<usize> {
    let size = [u64::from(height), u64::from(width)];
    shape.windows(2).enumerate().filter(|(_, axes)| *axes == size).map(|(axis, _)| axis).collect()
}

#[cfg(test)]
mod tests {
    use shardpack_imaging::{Encode, Layout, Limits, Picture, Recipe, Resize, encode};

    use super::*;

    /// A PNG of `width` × `height` levels that differ.
    fn png(width: u32, height: u32) -> Vec<u8> {
        let levels = (0..width * height).map(|at| (at * 7 % 251) as u8).collect();
        encode(&Picture::new(width, height, Layout::Gray8, levels).unwrap(), Encode::Png, 90).unwrap()
    }

    fn movement(width: u32, height: u32, resize: Option<Resize>) -> Movement {
        Movement::of(&png(width, height), &Recipe { resize, ..Recipe::default() }, &Limits::default()).unwrap()
    }

    fn array(dtype: &str, shape: &[u64], items: &[u8]) -> Vec<u8> {
        [&Form::array(dtype, shape).unwrap().head()[..], items].concat()
    }

    fn floats(shape: &[u64], numbers: &[f32]) -> Vec<u8> {
        array("<f4", shape, &numbers.iter().flat_map(|number| number.to_le_bytes()).collect::<Vec<_>>())
    }

    fn of(role: Role, content: &[u8], movement: &Movement) -> Result<Option<Moved>, Failure> {
        let assigned = Assigned { name: "x".to_owned(), role, is_said: true, axis: None };
        moved(&assigned, content, movement, &Budget::new(1 << 30))
    }

    fn says(role: Role, content: &[u8], movement: &Movement) -> String {
        match of(role, content, movement) {
            Err(Failure::Bad(why)) => why,
            other => format!("{other:?}"),
        }
    }

    #[test]
    fn boxes_and_points_are_scaled_in_their_form() {
        let half = movement(40, 30, Some(Resize::Exact { width: 20, height: 60 }));
        let boxes = [4.0, 6.0, 14.0, 16.0, 0.0, 0.0, 40.0, 30.0];
        for (form, expected) in [
            (BoxForm::Xyxy, [2.0, 12.0, 7.0, 32.0, 0.0, 0.0, 20.0, 60.0]),
            (BoxForm::Xywh, [2.0, 12.0, 7.0, 32.0, 0.0, 0.0, 20.0, 60.0]),
            (BoxForm::Cxcywh, [2.0, 12.0, 7.0, 32.0, 0.0, 0.0, 20.0, 60.0]),
        ] {
            let made = of(Role::Boxes(form), &floats(&[2, 4], &boxes), &half).unwrap().unwrap();
            assert_eq!(made.content, floats(&[2, 4], &expected), "{form:?}");
            assert_eq!(made.form, Form::array("<f4", &[2, 4]).unwrap());
        }
        let points = [10.0, 10.0, 2.0, 0.0, 0.0, 0.0];
        let made = of(Role::Points, &floats(&[1, 2, 3], &points), &half).unwrap().unwrap();
        assert_eq!(made.content, floats(&[1, 2, 3], &[5.0, 20.0, 2.0, 0.0, 0.0, 0.0]));
        let doubles = |numbers: [f64; 2]| array("<f8", &[2], &numbers.map(f64::to_le_bytes).concat());
        let made = of(Role::Points, &doubles([1.0, 0.1]), &half).unwrap().unwrap();
        assert_eq!(made.content, doubles([0.5, 0.2]));
        // Without a row, or without a movement, the bytes stay.
        assert_eq!(of(Role::Boxes(BoxForm::Xyxy), &floats(&[0, 4], &[]), &half), Ok(None));
        assert_eq!(of(Role::Boxes(BoxForm::Xyxy), &floats(&[0], &[]), &half), Ok(None));
        assert_eq!(of(Role::Points, &floats(&[1, 2], &[1.0, 2.0]), &movement(40, 30, None)), Ok(None));
    }

    #[test]
    fn masks_that_are_arrays_take_the_nearest_levels_of_each_plane() {
        let (width, height) = (7, 5);
        let movement = movement(width, height, Some(Resize::Exact { width: 3, height: 4 }));
        for (shape, item, dtype) in [
            (vec![5, 7], 4, "<f4"),
            (vec![5, 7, 2], 1, "|u1"),
            (vec![3, 5, 7], 2, "<u2"),
            (vec![2, 2, 5, 7, 3], 8, "<i8"),
        ] {
            let bytes = shape.iter().product::<u64>() * item;
            let items: Vec<u8> = (0..bytes).map(|at| (at * 31 % 253) as u8).collect();
            let made = of(Role::Mask, &array(dtype, &shape, &items), &movement).unwrap().unwrap();
            let axis = shape.windows(2).position(|axes| axes == [5, 7]).unwrap();
            let (planes, pixel) =
                (shape[..axis].iter().product::<u64>(), shape[axis + 2..].iter().product::<u64>() * item);
            let mut expected = Vec::new();
            for (plane, y, x) in (0..planes).flat_map(|plane| (0..12).map(move |at| (plane, at / 3, at % 3))) {
                let at = ((plane * 5 + y * 5 / 4) * 7 + x * 7 / 3) * pixel;
                expected.extend_from_slice(&items[at as usize..(at + pixel) as usize]);
            }
            let mut after = shape.clone();
            (after[axis], after[axis + 1]) = (4, 3);
            assert_eq!(made.form, Form::array(dtype, &after).unwrap());
            assert_eq!(made.content, array(dtype, &after, &expected), "{shape:?}");
        }
    }

    #[test]
    fn components_that_do_not_fit_their_image_are_bad_even_if_nothing_moves() {
        let boxes = Role::Boxes(BoxForm::Xyxy);
        for movement in [movement(7, 5, None), movement(7, 5, Some(Resize::Short(2)))] {
            let check = |role, content: &[u8], expected: &str| assert_eq!(says(role, content, &movement), expected);
            check(Role::Mask, &png(7, 4), "is 7×4 pixels, and its image is 7×5");
            check(
                Role::Mask,
                &png(5, 7),
                "is 5×7 pixels, and its image is 7×5; a mask has the size of the image as stored, before its EXIF orientation is applied",
            );
            check(Role::Mask, &floats(&[7, 5], &[0.0; 35]), "is an array [7, 5], and its image is 7×5 pixels");
            check(boxes, &floats(&[1, 5], &[0.0; 5]), "is an array [1, 5], and its rows need 4 numbers");
            check(Role::Points, &floats(&[4], &[0.0; 4]), "is an array [4], and its rows need 2 or 3 numbers");
            check(boxes, &array("<i8", &[1, 4], &[0; 32]), "is an array of <i8, and positions are moved as <f4 or <f8");
            check(boxes, b"{}", "does not begin as an array of numpy");
            let head = npy::head("<f4", &[1, 4], true);
            check(
                boxes,
                &[&head[..], &[0; 16]].concat(),
                "is an array in the order of Fortran, and only arrays in C order are moved",
            );
            assert!(of(Role::Mask, b"\xff\xd8\xff no PNG", &movement).is_err());
            assert_eq!(of(Role::Keep, b"any", &movement), Ok(None));
        }
        let square = movement(5, 5, None);
        let what = "is an array [5, 5, 5] with several axes of its image's 5×5 pixels";
        assert_eq!(says(Role::Mask, &floats(&[5, 5, 5], &[0.0; 125]), &square), what);
        let assigned = Assigned { name: "x".to_owned(), role: Role::Mask, is_said: false, axis: Some(1) };
        assert_eq!(moved(&assigned, &floats(&[5, 5, 5], &[0.0; 125]), &square, &Budget::new(1 << 30)), Ok(None));
    }
}

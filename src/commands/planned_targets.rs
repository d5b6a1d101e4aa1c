//! The targets of a plan: components beside images that are arrays, with dtype and shape over all samples.

use serde::Serialize;
use shardpack_format::component::{Component, Form, Kind, numpy_name};
use shardpack_packer::plan::Plan;

/// A component of a plan whose values are arrays.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct PlannedTarget {
    /// Name of the component, without its extension.
    name: String,
    /// dtype of all arrays, in numpy's words; null if they have several.
    dtype: Option<String>,
    /// Length of each axis, null if lengths differ; null if arrays have different numbers of axes.
    shape: Option<Vec<Option<u64>>>,
    /// Mean length of the first axis, if lengths differ; else null.
    mean_length: Option<f64>,
    /// Number of samples with the component.
    samples: u64,
}

impl PlannedTarget {
    /// The targets of a plan, in the order of its components. Samples that are no images are values, which have notes of their own.
    pub fn all(plan: &Plan) -> Vec<Self> {
        if plan.listing.components().payload.is_some() {
            return Vec::new();
        }
        let kinds = &plan.listing.components().kinds;
        let is_held = |kind: &Component| plan.options.format.components.iter().any(|own| own.name() == kind.name());
        let held = kinds.iter().enumerate().filter(|(_, kind)| is_held(kind));
        held.filter_map(|(which, kind)| Self::new(plan, which, kind)).collect()
    }

    fn new(plan: &Plan, which: usize, kind: &Component) -> Option<Self> {
        let Kind::Array { dtype, shape } = &kind.kind()?.kind else { return None };
        let table = plan.listing.components();
        let cells = table.cells.iter().skip(which).step_by(table.kinds.len().max(1));
        let (mut samples, mut length, mut forms) = (0u64, 0u64, 0u64);
        for cell in cells.filter(|cell| cell.length().is_some()) {
            samples += 1;
            if let Form::Array { shape, .. } = table.form(cell.form)
                && let Some(first) = shape.first()
            {
                (length, forms) = (length.saturating_add(*first), forms + 1);
            }
        }
        let differs = shape.as_ref().is_none_or(|shape| matches!(shape.first(), Some(None)));
        Some(Self {
            name: kind.column().to_owned(),
            dtype: dtype.as_deref().map(|dtype| numpy_name(dtype).unwrap_or(dtype).to_owned()),
            shape: shape.clone(),
            mean_length: (differs && forms > 0).then(|| length as f64 / forms as f64),
            samples,
        })
    }

    /// The line for the user: `target  boxes: float32[n,4] (of 4 annotations on average)`.
    pub fn line(&self) -> String {
        let dtype = self.dtype.as_deref().unwrap_or("several dtypes ");
        let axis = |axis: &Option<u64>| axis.map_or_else(|| "n".to_owned(), |axis| axis.to_string());
        let shape = match &self.shape {
            Some(shape) => shape.iter().map(axis).collect::<Vec<_>>().join(","),
            None => "any shape".to_owned(),
        };
        let mean =
            self.mean_length.map(|mean| format!(" (of {} annotations on average)", (mean * 10.0).round() / 10.0));
        format!("target  {}: {dtype}[{shape}]{}", self.name, mean.unwrap_or_default())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_has_dtype_and_shape() {
        let target = |dtype: Option<&str>, shape: Option<&[Option<u64>]>, mean_length| PlannedTarget {
            name: "boxes".to_owned(),
            dtype: dtype.map(str::to_owned),
            shape: shape.map(<[_]>::to_vec),
            mean_length,
            samples: 3,
        };
        for (target, expected) in [
            (target(Some("float32"), Some(&[]), None), "target  boxes: float32[]"),
            (target(Some("float32"), Some(&[Some(3)]), None), "target  boxes: float32[3]"),
            (
                target(Some("float32"), Some(&[None, Some(4)]), Some(4.26)),
                "target  boxes: float32[n,4] (of 4.3 annotations on average)",
            ),
            (target(Some("int64"), None, Some(4.0)), "target  boxes: int64[any shape] (of 4 annotations on average)"),
            (target(None, Some(&[None]), None), "target  boxes: several dtypes [n]"),
        ] {
            assert_eq!(target.line(), expected);
        }
    }
}

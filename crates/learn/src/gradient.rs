//! A gradient: a flat vector of the model's layout. Of a table of rows, only the touched rows count.

use std::ops::Range;

use crate::factors::Factors;
use crate::kernels::matmul::{Matrix, matmul_shared};
use crate::layout::{Layout, Slot, TensorKind};

/// The sum over samples of the gradients of their losses.
#[derive(Clone, Debug)]
pub struct Gradient {
    /// One value for each parameter. In a table, rows that are not touched hold values of earlier steps.
    pub values: Vec<f32>,
    /// How many losses were summed: samples, or words of a tagger; where classes have weights, how much they weigh.
    pub weight: f64,
    tensors: Vec<TensorGradient>,
    keeps_factors: bool,
}

#[derive(Clone, Debug)]
struct TensorGradient {
    range: Range<usize>,
    content: GradientContent,
}

#[derive(Clone, Debug)]
enum GradientContent {
    Dense {
        written: bool,
        /// If there are any, they are the tensor's gradient, and `values` has values of earlier steps.
        factors: Factors,
    },
    Rows(Rows),
}

/// The touched rows of a table.
#[derive(Clone, Debug)]
pub struct Rows {
    pub width: usize,
    /// In the order in which they were touched, each once.
    pub touched: Vec<u32>,
    is_touched: Vec<bool>,
}

impl Gradient {
    /// A gradient of nothing.
    pub fn new(layout: &Layout) -> Self {
        let content = |kind: TensorKind, len: usize| match kind {
            TensorKind::Dense | TensorKind::Buffer => {
                GradientContent::Dense { written: false, factors: Factors::default() }
            }
            TensorKind::Rows { width } => {
                let is_touched = vec![false; len / width];
                GradientContent::Rows(Rows {
                    width,
                    touched: Vec::with_capacity(is_touched.len()),
                    is_touched,
                })
            }
        };
        let tensors = layout.tensors().iter();
        let tensors = tensors
            .map(|t| TensorGradient { range: t.range.clone(), content: content(t.kind, t.range.len()) });
        Self {
            values: vec![0.0; layout.len()],
            weight: 0.0,
            tensors: tensors.collect(),
            keeps_factors: false,
        }
    }

    /// A gradient that keeps the factors of large products instead of computing them. It can be added and
    /// applied, and does not have all of its values.
    pub fn in_factors(layout: &Layout) -> Self {
        Self { keeps_factors: true, ..Self::new(layout) }
    }

    /// Forgets everything, in time that depends on what was touched.
    pub fn clear(&mut self) {
        self.weight = 0.0;
        for TensorGradient { content, .. } in &mut self.tensors {
            match content {
                GradientContent::Dense { written, factors } => {
                    *written = false;
                    factors.clear();
                }
                GradientContent::Rows(rows) => {
                    for row in rows.touched.drain(..) {
                        rows.is_touched[row as usize] = false;
                    }
                }
            }
        }
    }

    /// Fills with zeros what no layer wrote. To be called after the last layer.
    pub fn finish(&mut self) {
        self.finish_from(0);
    }

    /// The same for the tensors from a place on.
    pub(crate) fn finish_from(&mut self, start: usize) {
        for TensorGradient { range, content } in self.tensors.iter_mut().rev() {
            if range.start < start {
                break;
            }
            if let GradientContent::Dense { written: written @ false, .. } = content {
                self.values[range.clone()].fill(0.0);
                *written = true;
            }
        }
    }

    /// The place of a dense tensor, and whether to add to it: a tensor used twice in a step gets the sum.
    pub(crate) fn dense(&mut self, slot: &Slot) -> (&mut [f32], bool) {
        let GradientContent::Dense { written, factors } = &mut self.tensors[slot.tensor].content else {
            unreachable!("tensor {} is a table of rows", slot.tensor);
        };
        assert!(factors.is_empty(), "a tensor is a product or not");
        let add = std::mem::replace(written, true);
        (&mut self.values[slot.range.clone()], add)
    }

    /// Adds the product of two matrices to a dense tensor of the product's sizes.
    pub(crate) fn add_product(&mut self, slot: &Slot, a: Matrix<'_>, b: Matrix<'_>) {
        if let GradientContent::Dense { written: written @ false, factors } =
            &mut self.tensors[slot.tensor].content
            && self.keeps_factors
            && Factors::are_worthwhile(a, b)
        {
            *written = true;
            factors.keep(a, b);
            return;
        }
        let (product, add) = self.dense(slot);
        matmul_shared(product, b.columns(), a, b, add);
    }

    /// Adds the gradient of one row of a table.
    #[inline]
    pub(crate) fn add_row(&mut self, slot: &Slot, row: u32, gradient: &[f32]) {
        let GradientContent::Rows(rows) = &mut self.tensors[slot.tensor].content else {
            unreachable!("tensor {} is dense", slot.tensor);
        };
        let start = slot.range.start + row as usize * rows.width;
        let values = &mut self.values[start..start + rows.width];
        if std::mem::replace(&mut rows.is_touched[row as usize], true) {
            for (value, gradient) in values.iter_mut().zip(gradient) {
                *value += gradient;
            }
        } else {
            rows.touched.push(row);
            values.copy_from_slice(gradient);
        }
    }

    /// The values of a tensor. In a table, rows that are not touched hold values of earlier steps.
    pub fn tensor_values(&self, tensor: usize) -> &[f32] {
        &self.values[self.tensors[tensor].range.clone()]
    }

    /// The touched rows of tensor `tensor`, if it is a table.
    pub fn rows(&self, tensor: usize) -> Option<&Rows> {
        match &self.tensors[tensor].content {
            GradientContent::Rows(rows) => Some(rows),
            GradientContent::Dense { .. } => None,
        }
    }

    /// A row of a table, which counts as touched from now on.
    pub fn touch(&mut self, tensor: usize, row: u32) -> &mut [f32] {
        let TensorGradient { range, content } = &mut self.tensors[tensor];
        let GradientContent::Rows(rows) = content else { unreachable!("tensor {tensor} is dense") };
        if !std::mem::replace(&mut rows.is_touched[row as usize], true) {
            rows.touched.push(row);
        }
        let start = range.start + row as usize * rows.width;
        &mut self.values[start..start + rows.width]
    }

    /// The values of a tensor that is no table, which counts as written from now on.
    pub fn write(&mut self, tensor: usize) -> &mut [f32] {
        let TensorGradient { range, content } = &mut self.tensors[tensor];
        let GradientContent::Dense { written, .. } = content else {
            unreachable!("tensor {tensor} is a table of rows")
        };
        *written = true;
        &mut self.values[range.clone()]
    }

    /// The factors of a tensor that is no table, if its values are not multiplied out.
    pub(crate) fn factors(&self, tensor: usize) -> Option<&Factors> {
        match &self.tensors[tensor].content {
            GradientContent::Dense { factors, .. } if !factors.is_empty() => Some(factors),
            _ => None,
        }
    }

    /// One row of a table, if it is touched.
    pub(crate) fn row(&self, tensor: usize, row: u32) -> Option<&[f32]> {
        let TensorGradient { range, content: GradientContent::Rows(rows) } = &self.tensors[tensor] else {
            return None;
        };
        let start = range.start + row as usize * rows.width;
        rows.is_touched(row).then(|| &self.values[start..start + rows.width])
    }
}

impl Rows {
    /// Whether the row has a gradient.
    pub fn is_touched(&self, row: u32) -> bool {
        self.is_touched[row as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::{Init, MemoryOrder};

    #[test]
    fn touched_rows_are_summed_and_forgotten() {
        let mut layout = Layout::default();
        let table = layout.rows("table".into(), 4, 2, Init::Uniform(1.0));
        let dense = layout.dense("dense".into(), &[2], MemoryOrder::plain(&[2]), Init::Uniform(1.0));
        let mut gradient = Gradient::new(&layout);
        gradient.values.fill(9.0);
        gradient.add_row(&table, 2, &[1.0, 2.0]);
        gradient.add_row(&table, 2, &[1.0, 2.0]);
        gradient.finish();
        assert_eq!(gradient.rows(0).expect("a table").touched, [2]);
        assert_eq!(gradient.values[4..6], [2.0, 4.0]);
        assert_eq!(gradient.values[8..], [0.0, 0.0], "no layer wrote it");
        gradient.clear();
        assert!(gradient.rows(0).expect("a table").touched.is_empty());
        assert!(!gradient.dense(&dense).1, "the first write replaces");
        assert!(gradient.dense(&dense).1, "the second adds");
    }
}

//! The list of named tensors of a model, with their places in one flat vector.

use std::fmt;
use std::ops::Range;

use crate::layer_list::InitSpec;
use crate::random::Random;

/// The tensors of a model, in the order in which they lie in the flat vector.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Layout {
    tensors: Vec<Tensor>,
    len: usize,
}

/// One named tensor. Its name and shape are PyTorch's; its memory order is the one the kernels like best.
#[derive(Clone, PartialEq)]
pub struct Tensor {
    pub name: String,
    /// What the tensor is called in files of others.
    alias: Option<String>,
    pub shape: Vec<usize>,
    pub range: Range<usize>,
    pub kind: TensorKind,
    order: MemoryOrder,
    init: Init,
}

/// What kind of gradient a tensor has, and how it is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TensorKind {
    /// Every value has a gradient in every step.
    Dense,
    /// A table of rows, of which a step touches a few: an embedding.
    Rows { width: usize },
    /// A statistic, not a parameter: averaged between workers, never changed by the optimiser.
    Buffer,
}

/// What a tensor holds before the first step.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Init {
    /// The same everywhere.
    Constant(f32),
    /// Uniform in ±bound.
    Uniform(f32),
    /// Normal with mean 0; row `zero_row` (padding) is zero.
    Normal { deviation: f32, zero_row: Option<usize> },
}

/// Where a layer finds its tensor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Slot {
    /// The number of the tensor in the layout.
    pub tensor: usize,
    pub range: Range<usize>,
}

/// The memory order of a tensor: `axes` lists PyTorch's axes from the slowest to the fastest. `factors` is PyTorch's
/// shape, cut finer where one of its axes hides several (a linear layer behind a flattened image).
#[derive(Clone, PartialEq)]
pub(crate) struct MemoryOrder {
    factors: Vec<usize>,
    axes: Vec<usize>,
}

/// Part of the text of a [`Tensor`], and so of the checksums of checkpoints. They know it as `Order`.
impl fmt::Debug for MemoryOrder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { factors, axes } = self;
        f.debug_struct("Order").field("factors", factors).field("axes", axes).finish()
    }
}

impl MemoryOrder {
    /// The same order as PyTorch's.
    pub(crate) fn plain(shape: &[usize]) -> Self {
        Self { factors: shape.to_vec(), axes: (0..shape.len()).collect() }
    }

    /// `axes` of `factors`, from the slowest to the fastest.
    pub(crate) fn permuted(factors: &[usize], axes: &[usize]) -> Self {
        assert_eq!(factors.len(), axes.len(), "an order names every axis once");
        Self { factors: factors.to_vec(), axes: axes.to_vec() }
    }

    /// Whether it is the same as PyTorch's.
    fn is_plain(&self) -> bool {
        self.axes.is_sorted()
    }

    /// PyTorch's offsets in the order of memory.
    fn offsets(&self) -> Vec<usize> {
        let mut strides = vec![1; self.factors.len()];
        for axis in (1..self.factors.len()).rev() {
            strides[axis - 1] = strides[axis] * self.factors[axis];
        }
        let mut offsets = vec![0];
        for &axis in &self.axes {
            let steps = (0..self.factors[axis]).map(|step| step * strides[axis]);
            offsets = offsets.iter().flat_map(|base| steps.clone().map(move |step| base + step)).collect();
        }
        offsets
    }
}

/// Checkpoints contain a checksum of this text, so it must not change: with another text, every checkpoint would be one
/// of another model. The alias is left out for the same reason.
impl fmt::Debug for Tensor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, alias: _, shape, range, kind, order, init } = self;
        f.debug_struct("Tensor")
            .field("name", name)
            .field("shape", shape)
            .field("range", range)
            .field("kind", kind)
            .field("order", order)
            .field("init", init)
            .finish()
    }
}

impl Tensor {
    /// The names under which a file may hold the tensor, its own first.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        std::iter::once(&*self.name).chain(self.alias.as_deref())
    }

    /// The order of memory: PyTorch's shape, cut finer where one of its axes hides several, and these axes from the
    /// slowest to the fastest.
    pub fn memory_order(&self) -> (&[usize], &[usize]) {
        (&self.order.factors, &self.order.axes)
    }

    /// The tensor's values in PyTorch's order, from the flat vector.
    pub fn to_torch(&self, flat: &[f32]) -> Vec<f32> {
        let memory = &flat[self.range.clone()];
        if self.order.is_plain() {
            return memory.to_vec();
        }
        let mut values = vec![0.0; memory.len()];
        for (value, offset) in memory.iter().zip(self.order.offsets()) {
            values[offset] = *value;
        }
        values
    }

    /// Puts values in PyTorch's order into the flat vector.
    pub fn set_from_torch(&self, values: &[f32], flat: &mut [f32]) {
        let memory = &mut flat[self.range.clone()];
        assert_eq!(values.len(), memory.len(), "{} has {} values", self.name, memory.len());
        if self.order.is_plain() {
            memory.copy_from_slice(values);
            return;
        }
        for (value, offset) in memory.iter_mut().zip(self.order.offsets()) {
            *value = values[offset];
        }
    }
}

impl Layout {
    /// Adds a tensor whose every value has a gradient in every step.
    pub(crate) fn dense(&mut self, name: String, shape: &[usize], order: MemoryOrder, init: Init) -> Slot {
        self.add(name, shape, TensorKind::Dense, order, init)
    }

    /// Adds a table of rows, of which a step touches a few.
    pub fn rows(&mut self, name: String, rows: usize, width: usize, init: Init) -> Slot {
        let shape = [rows, width];
        self.add(name, &shape, TensorKind::Rows { width }, MemoryOrder::plain(&shape), init)
    }

    /// Adds a row of parameters.
    pub fn vector(&mut self, name: String, len: usize, init: Init) -> Slot {
        self.dense(name, &[len], MemoryOrder::plain(&[len]), init)
    }

    /// Adds a matrix of parameters.
    pub fn matrix(&mut self, name: String, rows: usize, columns: usize, init: Init) -> Slot {
        let shape = [rows, columns];
        self.dense(name, &shape, MemoryOrder::plain(&shape), init)
    }

    /// Adds a row of statistics.
    pub fn buffer(&mut self, name: String, len: usize, init: Init) -> Slot {
        self.buffer_in_order(name, len, MemoryOrder::plain(&[len]), init)
    }

    /// The same in another order of memory.
    pub(crate) fn buffer_in_order(
        &mut self,
        name: String,
        len: usize,
        order: MemoryOrder,
        init: Init,
    ) -> Slot {
        self.add(name, &[len], TensorKind::Buffer, order, init)
    }

    /// How many parameters the model has. Statistics do not count.
    pub fn parameters(&self) -> usize {
        self.tensors
            .iter()
            .filter(|tensor| tensor.kind != TensorKind::Buffer)
            .map(|tensor| tensor.range.len())
            .sum()
    }

    fn add(
        &mut self,
        name: String,
        shape: &[usize],
        kind: TensorKind,
        order: MemoryOrder,
        init: Init,
    ) -> Slot {
        assert!(self.tensors.iter().all(|t| t.name != name), "two tensors are named {name}");
        let range = self.len..self.len + shape.iter().product::<usize>();
        assert_eq!(
            range.len(),
            order.factors.iter().product::<usize>(),
            "order of {name} does not cover its shape"
        );
        self.len = range.end;
        let (shape, alias) = (shape.to_vec(), None);
        self.tensors.push(Tensor { name, alias, shape, range: range.clone(), kind, order, init });
        Slot { tensor: self.tensors.len() - 1, range }
    }

    /// Says that files of others may call the layer `name` by another name, `alias`.
    pub fn alias(&mut self, name: &str, alias: &str) {
        for tensor in &mut self.tensors {
            if let Some(part) = tensor.name.strip_prefix(name).filter(|part| part.starts_with('.')) {
                tensor.alias = Some(format!("{alias}{part}"));
            }
        }
    }

    /// Initialises the parameters from tensor `first` on anew; the row of padding stays zero.
    pub(crate) fn init_from(&mut self, first: usize, init: InitSpec) {
        for tensor in self.tensors[first..].iter_mut().filter(|tensor| tensor.kind != TensorKind::Buffer) {
            let zero_row = match tensor.init {
                Init::Normal { zero_row, .. } => zero_row,
                Init::Uniform(_) | Init::Constant(_) => None,
            };
            tensor.init = match init {
                InitSpec::Normal(deviation) => Init::Normal { deviation, zero_row },
                InitSpec::Uniform(bound) => Init::Uniform(bound),
            };
        }
    }

    /// The length of the flat vector.
    pub fn len(&self) -> usize {
        self.len
    }

    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    pub fn tensors(&self) -> &[Tensor] {
        &self.tensors
    }

    /// Parameters as they are before the first step; each tensor's depend on the seed and its name alone.
    pub fn initial(&self, seed: u64) -> Vec<f32> {
        let mut flat = vec![0.0; self.len];
        for tensor in &self.tensors {
            let mut random = Random::named(seed, &tensor.name);
            let values = &mut flat[tensor.range.clone()];
            match tensor.init {
                Init::Constant(value) => values.fill(value),
                Init::Uniform(bound) => values.fill_with(|| random.between(-bound, bound)),
                Init::Normal { deviation, zero_row } => {
                    values.fill_with(|| random.normal() * deviation);
                    if let Some(row) = zero_row {
                        let width = tensor.shape[1];
                        values[row * width..(row + 1) * width].fill(0.0);
                    }
                }
            }
        }
        flat
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn orders_map_memory_to_pytorch_and_back() {
        let check = |shape: &[usize], order: MemoryOrder, expect: &[f32]| {
            let mut layout = Layout::default();
            layout.dense("t".into(), shape, order, Init::Uniform(1.0));
            let flat: Vec<f32> = (0..layout.len()).map(|i| i as f32).collect();
            let torch = layout.tensors()[0].to_torch(&flat);
            assert_eq!(torch, expect);
            let mut back = vec![0.0; flat.len()];
            layout.tensors()[0].set_from_torch(&torch, &mut back);
            assert_eq!(back, flat);
        };
        check(&[2, 3], MemoryOrder::plain(&[2, 3]), &[0.0, 1.0, 2.0, 3.0, 4.0, 5.0]);
        // (in, out) in memory, (out, in) in PyTorch.
        check(&[2, 3], MemoryOrder::permuted(&[2, 3], &[1, 0]), &[0.0, 2.0, 4.0, 1.0, 3.0, 5.0]);
        // One output behind an image of 2 channels of 1×3: memory runs over width, then channel.
        check(&[1, 6], MemoryOrder::permuted(&[1, 2, 1, 3], &[2, 3, 1, 0]), &[0.0, 2.0, 4.0, 1.0, 3.0, 5.0]);
    }

    /// Checkpoints of all versions have a checksum of this text. It must not change.
    #[test]
    fn the_text_that_checkpoints_are_sealed_with_stays() {
        let mut layout = Layout::default();
        let normal = Init::Normal { deviation: 0.1, zero_row: Some(0) };
        layout.rows("embedding.weight".into(), 3, 2, normal);
        layout.dense(
            "fc.weight".into(),
            &[2, 3],
            MemoryOrder::permuted(&[2, 3], &[1, 0]),
            Init::Uniform(0.5),
        );
        layout.buffer("bn.running_var".into(), 2, Init::Constant(1.0));
        layout.alias("fc", "classifier.1");
        let expect = [
            "Layout { tensors: [",
            r#"Tensor { name: "embedding.weight", shape: [3, 2], range: 0..6, kind: Rows { width: 2 }, "#,
            "order: Order { factors: [3, 2], axes: [0, 1] }, ",
            "init: Normal { deviation: 0.1, zero_row: Some(0) } }, ",
            r#"Tensor { name: "fc.weight", shape: [2, 3], range: 6..12, kind: Dense, "#,
            "order: Order { factors: [2, 3], axes: [1, 0] }, init: Uniform(0.5) }, ",
            r#"Tensor { name: "bn.running_var", shape: [2], range: 12..14, kind: Buffer, "#,
            "order: Order { factors: [2], axes: [0] }, init: Constant(1.0) }], len: 14 }",
        ];
        assert_eq!(format!("{layout:?}"), expect.concat());
    }

    #[test]
    fn a_layer_may_have_another_name_in_files_of_others() {
        let mut layout = Layout::default();
        for name in ["fc.1.weight", "fc.1.bias", "fc.10.bias"] {
            layout.vector(name.into(), 1, Init::Constant(0.0));
        }
        layout.alias("fc.1", "fc.0");
        let names: Vec<Vec<&str>> = layout.tensors().iter().map(|tensor| tensor.names().collect()).collect();
        assert_eq!(
            names,
            [vec!["fc.1.weight", "fc.0.weight"], vec!["fc.1.bias", "fc.0.bias"], vec!["fc.10.bias"]]
        );
    }

    #[test]
    fn initial_values_depend_on_seed_and_name() {
        let layout = |name: &str| {
            let mut layout = Layout::default();
            layout.rows(name.into(), 3, 4, Init::Normal { deviation: 0.1, zero_row: Some(1) });
            layout
        };
        let (a, b) = (layout("a").initial(1), layout("b").initial(1));
        assert_eq!(a, layout("a").initial(1));
        assert_ne!(a, b);
        assert_ne!(a, layout("a").initial(2));
        assert_eq!(a[4..8], [0.0; 4]);
    }
}

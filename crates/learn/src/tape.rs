//! The tape: what a forward pass did, so that the backward pass can undo it in reverse.
//!
//! A layer computes its result at once, leaves a record of what the backward pass needs, and hands out a [`Var`]. All
//! memory comes from the workspace's pool and goes back to it, so a step after the first allocates nothing.
//!
//! An evaluation has no backward pass. It keeps no record, and the memory of a value serves the next layers as soon as
//! nobody has the value's [`Var`] any more.

use std::sync::Arc;

use crate::batch::{Batch, Inputs};
use crate::buffer::{FloatBuffer, FloatPool};
use crate::class_weights::ClassWeights;
use crate::gradient::Gradient;
use crate::kernels::lanes::lanes;
use crate::kernels::pointwise;
use crate::layers::LayerRecord;
use crate::layout::Slot;
use crate::random::mix;
use crate::tally::Tally;

/// A value on the tape. A layer takes the values that it reads; a network that reads a value twice clones its `Var`.
#[derive(Clone, Debug)]
pub struct Var {
    number: usize,
    /// A clone of the tape's handle of this value: as long as there is one, the value may still be read.
    handle: Arc<()>,
}

/// The sizes of a value: `(N, H, W, C)` of images, `(T, B, 1, F)` of sequences, `(N, 1, 1, F)` of plain rows.
pub(crate) type Dims = [usize; 4];

/// How a value lies in memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum MemoryFormat {
    /// In the order of its sizes, features innermost.
    #[default]
    Rows,
    /// With the samples of `(N, H, W, C)` innermost, rounded up to full registers: `(H, W, C, L)`. This is
    /// faster for small nets; see [`lanes`](crate::kernels::lanes).
    Lanes,
}

/// Where the floats of a value are.
#[derive(Debug)]
enum ValueData {
    Own(FloatBuffer),
    /// The pixels of the batch, as they are.
    Pixels,
    /// Nowhere: nobody reads this value any more, and its number is free for another.
    Released,
}

#[derive(Debug)]
struct TapeValue {
    data: ValueData,
    /// The gradient of the loss with respect to this value: the upstream gradient of the layer that made it.
    upstream: Option<FloatBuffer>,
    dims: Dims,
    format: MemoryFormat,
    requires_grad: bool,
}

/// The memory of a tape, kept from step to step.
#[derive(Debug, Default)]
pub(crate) struct Workspace {
    values: Vec<TapeValue>,
    /// One handle for each number of a value. They are kept from step to step.
    handles: Vec<Arc<()>>,
    /// How many of the values have a record.
    recorded: usize,
    entries: Vec<TapeEntry>,
    /// Where the tensors of all layers with a record end.
    end_of_tensors: usize,
    pool: FloatPool,
}

/// What one layer did.
#[derive(Debug)]
struct TapeEntry {
    record: LayerRecord,
    /// Where the layer's values begin. No earlier layer reads them, so they are released with the layer.
    first_value: usize,
    /// Where the tensors of all earlier layers end: once this layer is done, the gradient is settled from here on.
    settled_from: usize,
}

impl Workspace {
    /// Takes back the memory of all values from `first` on.
    fn release(&mut self, first: usize) {
        for value in self.values.drain(first..) {
            if let ValueData::Own(data) = value.data {
                self.pool.give(data);
            }
            self.pool.give(value.upstream.unwrap_or_default());
        }
        self.recorded = first;
    }

    /// Takes back the memory of all values whose handle nobody has any more.
    fn release_unheld(&mut self) {
        for (value, handle) in self.values.iter_mut().zip(&mut self.handles) {
            if Arc::get_mut(handle).is_some()
                && let ValueData::Own(data) = std::mem::replace(&mut value.data, ValueData::Released)
            {
                self.pool.give(data);
            }
        }
    }
}

fn floats<'a>(data: &'a ValueData, batch: &'a Batch) -> &'a [f32] {
    match (data, &batch.inputs) {
        (ValueData::Own(buffer), _) => buffer,
        (ValueData::Pixels, Inputs::Images { pixels, .. }) => pixels,
        (ValueData::Pixels, Inputs::Words { .. }) => unreachable!("words have no pixels"),
        (ValueData::Released, _) => unreachable!("a value is kept as long as anybody can read it"),
    }
}

/// How many floats a value has, the unused lanes included.
pub(crate) fn len_in_format(dims: Dims, format: MemoryFormat) -> usize {
    let [samples, height, width, channels] = dims;
    let samples = if format == MemoryFormat::Lanes { lanes(samples) } else { samples };
    samples * height * width * channels
}

/// Hears from which place on the values of a gradient are settled: no layer will change them any more.
pub type Settled<'s> = dyn FnMut(&Gradient, usize) + Send + 's;

/// One step under way. A tape with a gradient trains; one without evaluates.
#[derive(Debug)]
pub struct Tape<'a> {
    pub batch: &'a Batch,
    parameters: &'a [f32],
    gradient: Option<&'a mut Gradient>,
    tally: &'a mut Tally,
    work: &'a mut Workspace,
    weights: &'a ClassWeights,
    seed: u64,
    /// Where the scores of an evaluation are wanted.
    scores: Option<&'a mut Vec<f32>>,
}

impl<'a> Tape<'a> {
    /// A tape on which to compute the gradient of `batch`. `seed` decides what dropout drops.
    pub(crate) fn training(
        work: &'a mut Workspace,
        weights: &'a ClassWeights,
        parameters: &'a [f32],
        batch: &'a Batch,
        seed: u64,
        gradient: &'a mut Gradient,
        tally: &'a mut Tally,
    ) -> Self {
        Self { batch, parameters, gradient: Some(gradient), tally, work, weights, seed, scores: None }
    }

    /// A tape on which to measure `batch`.
    pub(crate) fn evaluating(
        work: &'a mut Workspace,
        weights: &'a ClassWeights,
        parameters: &'a [f32],
        batch: &'a Batch,
        tally: &'a mut Tally,
    ) -> Self {
        Self { batch, parameters, gradient: None, tally, work, weights, seed: 0, scores: None }
    }

    /// Keeps the scores that the losses are computed from.
    pub(crate) fn keep_scores(&mut self, scores: &'a mut Vec<f32>) {
        self.scores = Some(scores);
    }

    /// Hands scores to whoever wants them.
    pub(crate) fn tell_scores(&mut self, scores: &Var) {
        let value = floats(&self.work.values[scores.number].data, self.batch);
        if let Some(kept) = &mut self.scores {
            kept.extend_from_slice(value);
        }
    }

    /// Runs the backward pass, if training, and empties the tape. The memory of a layer that is done serves the
    /// gradients of the layers before it. `settled` hears from where on the gradient is settled: first that nothing is,
    /// when the forward pass is over, then layer by layer.
    pub(crate) fn finish(mut self, settled: &mut Settled<'_>) {
        let mut settled_from = usize::MAX;
        if let Some(gradient) = &self.gradient {
            settled(gradient, self.parameters.len());
        }
        while let Some(entry) = self.work.entries.pop() {
            let TapeEntry { mut record, first_value, .. } = entry;
            if self.is_training() {
                record.backward(&mut self);
            }
            record.recycle(&mut self.work.pool);
            self.work.release(first_value);
            if let Some(gradient) = &mut self.gradient
                && entry.settled_from < settled_from
            {
                settled_from = entry.settled_from;
                gradient.finish_from(settled_from);
                settled(gradient, settled_from);
            }
        }
        self.work.release(0);
        self.work.end_of_tensors = 0;
        if let Some(gradient) = self.gradient {
            gradient.finish();
        }
    }

    /// Whether this is a training step, in which dropout drops and gradients are computed.
    pub fn is_training(&self) -> bool {
        self.gradient.is_some()
    }

    /// The sizes of a value.
    pub fn dims(&self, var: &Var) -> Dims {
        self.at(var).dims
    }

    /// How a value lies in memory.
    pub(crate) fn format(&self, var: &Var) -> MemoryFormat {
        self.at(var).format
    }

    /// How many rows of features a value has, and how many features.
    pub(crate) fn rows(&self, var: &Var) -> (usize, usize) {
        let [a, b, c, features] = self.dims(var);
        (a * b * c, features)
    }

    /// A value of the forward pass.
    pub fn value(&self, var: &Var) -> &[f32] {
        floats(&self.at(var).data, self.batch)
    }

    fn at(&self, var: &Var) -> &TapeValue {
        debug_assert!(Arc::ptr_eq(&self.work.handles[var.number], &var.handle), "a value of another tape");
        &self.work.values[var.number]
    }

    // What follows is for layers.

    pub(crate) fn parameters(&self, slot: &Slot) -> &'a [f32] {
        &self.parameters[slot.range.clone()]
    }

    /// Whether any parameter lies behind this value, so that its gradient is of use.
    pub(crate) fn requires_grad(&self, var: &Var) -> bool {
        self.at(var).requires_grad
    }

    pub(crate) fn pool(&mut self) -> &mut FloatPool {
        &mut self.work.pool
    }

    /// A seed that differs for every layer of a step.
    pub(crate) fn layer_seed(&self) -> u64 {
        mix(self.seed ^ mix(self.work.entries.len() as u64))
    }

    /// How much the classes count in the loss.
    pub(crate) fn class_weights(&self) -> &'a ClassWeights {
        self.weights
    }

    /// Where losses are counted.
    pub(crate) fn tally(&mut self) -> &mut Tally {
        self.tally
    }

    /// Puts a new value on the tape.
    pub(crate) fn push(&mut self, data: FloatBuffer, dims: Dims, requires_grad: bool) -> Var {
        self.push_in_format(data, dims, MemoryFormat::Rows, requires_grad)
    }

    /// Puts a new value of either format on the tape.
    pub(crate) fn push_in_format(
        &mut self,
        data: FloatBuffer,
        dims: Dims,
        format: MemoryFormat,
        requires_grad: bool,
    ) -> Var {
        debug_assert_eq!(data.len(), len_in_format(dims, format));
        self.push_value(TapeValue { data: ValueData::Own(data), upstream: None, dims, format, requires_grad })
    }

    /// Puts the pixels of the batch on the tape, where they are.
    pub(crate) fn push_pixels(&mut self, dims: Dims) -> Var {
        let format = MemoryFormat::Rows;
        self.push_value(TapeValue {
            data: ValueData::Pixels,
            upstream: None,
            dims,
            format,
            requires_grad: false,
        })
    }

    fn push_value(&mut self, value: TapeValue) -> Var {
        let evaluates = !self.is_training();
        let Workspace { values, handles, .. } = &mut *self.work;
        let is_released = |value: &TapeValue| matches!(value.data, ValueData::Released);
        // While training, a value's number also says which layer made it.
        let number = if evaluates { values.iter().position(is_released) } else { None };
        let number = number.unwrap_or(values.len());
        match values.get_mut(number) {
            Some(released) => *released = value,
            None => values.push(value),
        }
        if handles.len() < values.len() {
            handles.push(Arc::default());
        }
        Var { number, handle: Arc::clone(&handles[number]) }
    }

    /// Remembers how the values since the last record came about. An evaluation has no use for it, nor for the values
    /// that only this layer read.
    pub(crate) fn record(&mut self, record: LayerRecord) {
        if !self.is_training() {
            record.recycle(&mut self.work.pool);
            self.work.release_unheld();
            return;
        }
        let first_value = self.work.recorded;
        self.work.recorded = self.work.values.len();
        let settled_from = self.work.end_of_tensors;
        self.work.end_of_tensors = settled_from.max(record.end_of_tensors());
        self.work.entries.push(TapeEntry { record, first_value, settled_from });
    }

    /// Takes the upstream gradient of the layer that made a value off the tape; none if nothing depends on the value.
    pub(crate) fn take_upstream(&mut self, var: &Var) -> Option<FloatBuffer> {
        self.work.values[var.number].upstream.take()
    }

    /// Adds to the upstream gradient of the layer that made a value.
    pub(crate) fn add_upstream(&mut self, var: &Var, gradient: FloatBuffer) {
        let value = &mut self.work.values[var.number];
        debug_assert_eq!(gradient.len(), len_in_format(value.dims, value.format));
        match &mut value.upstream {
            None => value.upstream = Some(gradient),
            Some(sum) => {
                pointwise::add(sum, &gradient);
                self.work.pool.give(gradient);
            }
        }
    }

    /// The gradient; only layers in the backward pass ask for it.
    pub(crate) fn gradient(&mut self) -> &mut Gradient {
        match &mut self.gradient {
            Some(gradient) => gradient,
            None => unreachable!("an evaluation has no backward pass"),
        }
    }

    /// The gradient together with a value of the forward pass.
    pub(crate) fn gradient_and_value(&mut self, var: &Var) -> (&mut Gradient, &[f32]) {
        match &mut self.gradient {
            Some(gradient) => (gradient, floats(&self.work.values[var.number].data, self.batch)),
            None => unreachable!("an evaluation has no backward pass"),
        }
    }
}

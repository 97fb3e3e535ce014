//! GRU and LSTM over whole sequences: one large product for the input of all steps, one small one a step.

use serde::{Deserialize, Serialize};

use super::LayerRecord;
use crate::buffer::{FloatBuffer, FloatPool};
use crate::kernels::matmul::{Matrix, matmul};
use crate::kernels::pointwise::{add, column_sums, column_sums_strided, fill_rows, transpose};
use crate::kernels::recur;
use crate::layout::{Init, Layout, MemoryOrder, Slot};
use crate::tape::{Tape, Var};

/// The kind of a recurrent layer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Cell {
    #[default]
    Gru,
    Lstm,
}

impl Cell {
    fn gates(self) -> usize {
        match self {
            Self::Gru => 3,
            Self::Lstm => 4,
        }
    }
}

/// The sizes of a stack of recurrent layers.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Stack {
    pub cell: Cell,
    /// The size of a layer's state in one direction.
    pub hidden: usize,
    pub layers: usize,
    /// Whether each layer also reads from the last word to the first.
    pub bidirectional: bool,
    /// Between the layers.
    pub dropout: f32,
}

impl Stack {
    /// How many features the stack gives for every word.
    pub fn outputs(&self) -> usize {
        if self.bidirectional { 2 * self.hidden } else { self.hidden }
    }
}

/// Some recurrent layers on top of each other, with dropout between.
#[derive(Clone, Debug)]
pub struct Recurrent {
    layers: Vec<Directions>,
    dropout: f32,
}

/// A layer from the first word to the last, and perhaps one the other way.
#[derive(Clone, Debug)]
struct Directions {
    forward: Layer,
    reverse: Option<Layer>,
}

/// One layer. In memory the weights are `(inputs, gates)` and `(hidden, gates)`.
#[derive(Clone, Debug)]
struct Layer {
    cell: Cell,
    input_weight: Slot,
    state_weight: Slot,
    input_bias: Slot,
    state_bias: Slot,
    inputs: usize,
    hidden: usize,
}

impl Recurrent {
    pub fn new(layout: &mut Layout, name: &str, inputs: usize, stack: &Stack) -> Self {
        let layers = (0..stack.layers).map(|i| {
            let inputs = if i == 0 { inputs } else { stack.outputs() };
            let mut layer = |suffix| Layer::new(layout, name, &format!("l{i}{suffix}"), inputs, stack);
            Directions { forward: layer(""), reverse: stack.bidirectional.then(|| layer("_reverse")) }
        });
        Self { layers: layers.collect(), dropout: stack.dropout }
    }

    /// The states of the last layer, `(T, B, 1, outputs)`.
    pub fn forward(&self, tape: &mut Tape<'_>, mut x: Var) -> Var {
        for (i, Directions { forward, reverse }) in self.layers.iter().enumerate() {
            if i > 0 {
                x = tape.dropout(x, self.dropout);
            }
            x = match reverse {
                None => forward.forward(tape, x),
                Some(reverse) => {
                    let states = forward.forward(tape, x.clone());
                    let reversed = tape.reverse_words(x);
                    let reversed = reverse.forward(tape, reversed);
                    let reversed = tape.reverse_words(reversed);
                    tape.concatenate(states, reversed)
                }
            };
        }
        x
    }
}

impl Layer {
    fn new(layout: &mut Layout, name: &str, suffix: &str, inputs: usize, stack: &Stack) -> Self {
        let &Stack { cell, hidden, .. } = stack;
        let gates = cell.gates() * hidden;
        let init = Init::Uniform(1.0 / (hidden as f32).sqrt());
        let mut weight = |part: &str, inputs: usize| {
            let order = MemoryOrder::permuted(&[gates, inputs], &[1, 0]);
            layout.dense(format!("{name}.weight_{part}_{suffix}"), &[gates, inputs], order, init)
        };
        let (input_weight, state_weight) = (weight("ih", inputs), weight("hh", hidden));
        let mut bias = |part: &str| {
            layout.dense(format!("{name}.bias_{part}_{suffix}"), &[gates], MemoryOrder::plain(&[gates]), init)
        };
        let (input_bias, state_bias) = (bias("ih"), bias("hh"));
        Self { cell, input_weight, state_weight, input_bias, state_bias, inputs, hidden }
    }

    fn forward(&self, tape: &mut Tape<'_>, x: Var) -> Var {
        let [steps, batch, _, _] = tape.dims(&x);
        let (hidden, width) = (self.hidden, self.cell.gates() * self.hidden);
        // Only the backward pass needs the gates of all steps.
        let kept = if tape.is_training() { steps } else { block(batch).min(steps) };
        let pool = tape.pool();
        let mut states = pool.take(steps * batch * hidden);
        let mut saved = SavedSteps {
            kept,
            gates: pool.take(kept * batch * width),
            cells: pool.take(if self.cell == Cell::Lstm { steps * batch * hidden } else { 0 }),
            extra: pool.take(kept * batch * hidden),
            zeros: pool.zeros(batch * hidden),
        };
        let mut bias = pool.take(width);
        let mut sums = pool.zeros(if self.cell == Cell::Gru { batch * width } else { 0 });
        self.join_biases(tape, &mut bias);
        for step in 0..steps {
            self.project_input(tape, &x, &bias, &mut saved, step);
            self.step(tape, step, batch, &mut states, &mut saved, &mut sums);
        }
        tape.pool().give(sums);
        tape.pool().give(bias);
        let y = tape.push(states, [steps, batch, 1, hidden], true);
        tape.record(LayerRecord::Recurrent(Recurred { layer: self.clone(), x, y: y.clone(), saved }));
        y
    }

    /// Both biases as one. Only a GRU's candidate needs the state's apart: there the reset gate comes between.
    fn join_biases(&self, tape: &Tape<'_>, bias: &mut [f32]) {
        bias.copy_from_slice(tape.parameters(&self.input_bias));
        let joined = match self.cell {
            Cell::Gru => 2 * self.hidden,
            Cell::Lstm => 4 * self.hidden,
        };
        add(&mut bias[..joined], &tape.parameters(&self.state_bias)[..joined]);
    }

    /// At the first step of every block of steps, computes the input's share of the gates for the whole block.
    fn project_input(&self, tape: &Tape<'_>, x: &Var, bias: &[f32], saved: &mut SavedSteps, step: usize) {
        let [steps, batch, _, _] = tape.dims(x);
        let (inputs, width) = (self.inputs, self.cell.gates() * self.hidden);
        let block = block(batch);
        if !step.is_multiple_of(block) {
            return;
        }
        let rows = block.min(steps - step) * batch;
        let gates = &mut saved.gates[step % saved.kept * batch * width..][..rows * width];
        fill_rows(gates, bias);
        let x = Matrix::new(&tape.value(x)[step * batch * inputs..], rows, inputs);
        matmul(gates, width, x, Matrix::new(tape.parameters(&self.input_weight), inputs, width), true);
    }

    /// One step of all sequences: the state's share of the gates, then the cell.
    fn step(
        &self,
        tape: &Tape<'_>,
        step: usize,
        batch: usize,
        states: &mut [f32],
        saved: &mut SavedSteps,
        sums: &mut [f32],
    ) {
        let (hidden, width) = (self.hidden, self.cell.gates() * self.hidden);
        let size = batch * hidden;
        let SavedSteps { kept, gates, cells, extra, zeros } = saved;
        let gates = &mut gates[step % *kept * batch * width..][..batch * width];
        let extra = &mut extra[step % *kept * size..][..size];
        let (past, state) = states.split_at_mut(step * size);
        let before = if step == 0 { &zeros[..] } else { &past[(step - 1) * size..] };
        let weight = Matrix::new(tape.parameters(&self.state_weight), hidden, width);
        match self.cell {
            Cell::Gru => {
                if step > 0 {
                    matmul(sums, width, Matrix::new(before, batch, hidden), weight, false);
                }
                let bias = &tape.parameters(&self.state_bias)[2 * hidden..];
                recur::gru_forward(gates, sums, bias, before, extra, &mut state[..size]);
            }
            Cell::Lstm => {
                if step > 0 {
                    matmul(gates, width, Matrix::new(before, batch, hidden), weight, true);
                }
                let (past, cell) = cells.split_at_mut(step * size);
                let cell_before = if step == 0 { &zeros[..] } else { &past[(step - 1) * size..] };
                recur::lstm_forward(gates, cell_before, &mut cell[..size], extra, &mut state[..size], hidden);
            }
        }
    }
}

/// For how many steps of `batch` sequences the input is multiplied at a time: few enough that their gates are still in
/// the cache when their step comes.
fn block(batch: usize) -> usize {
    const ROWS: usize = 1024;
    (ROWS / batch.max(1)).max(1)
}

/// What a layer keeps for the backward pass.
#[derive(Debug)]
struct SavedSteps {
    /// Of how many steps gates and extra are kept. An evaluation keeps those of a block of steps, and then of the next.
    kept: usize,
    /// The gates, `(T, B, gates)`; in the backward pass, the gradients of their sums.
    gates: FloatBuffer,
    /// The cells of an LSTM, `(T, B, H)`.
    cells: FloatBuffer,
    /// `(T, B, H)`: of a GRU the state's share of the candidate, in the backward pass its gradient; of an LSTM the
    /// cells' tanh.
    extra: FloatBuffer,
    /// What comes before the first step.
    zeros: FloatBuffer,
}

#[derive(Debug)]
pub(crate) struct Recurred {
    layer: Layer,
    x: Var,
    y: Var,
    saved: SavedSteps,
}

impl Recurred {
    pub(super) fn slots(&self) -> [&Slot; 4] {
        let Layer { input_weight, state_weight, input_bias, state_bias, .. } = &self.layer;
        [input_weight, state_weight, input_bias, state_bias]
    }

    pub(super) fn recycle(self, pool: &mut FloatPool) {
        let SavedSteps { gates, cells, extra, zeros, .. } = self.saved;
        for buffer in [gates, cells, extra, zeros] {
            pool.give(buffer);
        }
    }

    pub(super) fn backward(&mut self, tape: &mut Tape<'_>) {
        let Some(dy) = tape.take_upstream(&self.y) else { return };
        let [steps, batch, _, hidden] = tape.dims(&self.y);
        if steps == 0 || batch == 0 {
            return;
        }
        self.through_time(tape, &dy, steps, batch);
        tape.pool().give(dy);
        self.parameter_gradients(tape, steps, batch);
        if tape.requires_grad(&self.x) {
            let Layer { input_weight, inputs, cell, .. } = &self.layer;
            let width = cell.gates() * hidden;
            let mut dx = tape.pool().take(steps * batch * inputs);
            let weight = Matrix::new(tape.parameters(input_weight), *inputs, width);
            let upstream = Matrix::new(&self.saved.gates, steps * batch, width);
            matmul(&mut dx, *inputs, upstream, weight.transposed(), false);
            tape.add_upstream(&self.x, dx);
        }
    }

    /// From the last step to the first: turns the gates into the gradients of their sums.
    fn through_time(&mut self, tape: &mut Tape<'_>, dy: &[f32], steps: usize, batch: usize) {
        let Layer { cell, state_weight, hidden, .. } = &self.layer;
        let (hidden, width, size) = (*hidden, cell.gates() * hidden, batch * hidden);
        // The weight is needed once a step with its rows adjacent: transposing it once is cheaper.
        let mut weight = tape.pool().take(width * hidden);
        transpose(tape.parameters(state_weight), width, &mut weight, hidden);
        let mut dh = tape.pool().zeros(size);
        let mut dc = tape.pool().zeros(size);
        let states = tape.value(&self.y);
        let SavedSteps { gates, cells, extra, zeros, .. } = &mut self.saved;
        for step in (0..steps).rev() {
            add(&mut dh, &dy[step * size..][..size]);
            let past = (step.max(1) - 1) * size..step.max(1) * size;
            let gates = &mut gates[step * batch * width..][..batch * width];
            let extra = &mut extra[step * size..][..size];
            match cell {
                Cell::Gru => {
                    let before = if step == 0 { &zeros[..] } else { &states[past] };
                    recur::gru_backward(gates, extra, before, &mut dh, hidden);
                    let (reset_update, candidate) = weight.split_at(2 * hidden * hidden);
                    let upstream = Matrix::strided(gates, batch, 2 * hidden, width);
                    matmul(&mut dh, hidden, upstream, Matrix::new(reset_update, 2 * hidden, hidden), true);
                    let upstream = Matrix::new(extra, batch, hidden);
                    matmul(&mut dh, hidden, upstream, Matrix::new(candidate, hidden, hidden), true);
                }
                Cell::Lstm => {
                    let before = if step == 0 { &zeros[..] } else { &cells[past] };
                    recur::lstm_backward(gates, before, extra, &dh, &mut dc, hidden);
                    let upstream = Matrix::new(gates, batch, width);
                    matmul(&mut dh, hidden, upstream, Matrix::new(&weight, width, hidden), false);
                }
            }
        }
        for buffer in [weight, dh, dc] {
            tape.pool().give(buffer);
        }
    }

    /// The gradients of weights and biases: large products over all steps at once.
    fn parameter_gradients(&self, tape: &mut Tape<'_>, steps: usize, batch: usize) {
        let Layer { cell, input_weight, state_weight, input_bias, state_bias, inputs, hidden } = &self.layer;
        let (width, size) = (cell.gates() * hidden, batch * hidden);
        let SavedSteps { gates, extra, .. } = &self.saved;
        let rows = steps * batch;

        let (gradient, x) = tape.gradient_and_value(&self.x);
        let (dw, more) = gradient.dense(input_weight);
        let x = Matrix::new(x, rows, *inputs).transposed();
        matmul(dw, width, x, Matrix::new(gates, rows, width), more);
        let (db, more) = gradient.dense(input_bias);
        column_sums(gates, db, more);

        // The state before the first step is zero, so the first step has no share in the state's weight.
        let (gradient, states) = tape.gradient_and_value(&self.y);
        let rows = rows - batch;
        let states = Matrix::new(&states[..rows * hidden], rows, *hidden).transposed();
        let (dw, more) = gradient.dense(state_weight);
        let later = &gates[batch * width..];
        match cell {
            Cell::Lstm => {
                matmul(dw, width, states, Matrix::new(later, rows, width), more);
                let (db, more) = gradient.dense(state_bias);
                column_sums(gates, db, more);
            }
            Cell::Gru => {
                let upstream = Matrix::strided(later, rows, 2 * hidden, width);
                matmul(dw, width, states, upstream, more);
                let candidate = Matrix::new(&extra[size..], rows, *hidden);
                matmul(&mut dw[2 * hidden..], width, states, candidate, more);
                let (db, more) = gradient.dense(state_bias);
                let (reset_update, candidate) = db.split_at_mut(2 * hidden);
                column_sums_strided(gates, width, reset_update, more);
                column_sums(extra, candidate, more);
            }
        }
    }
}

//! Operations on the words of sequences `(T, B, 1, F)`, which end at different steps.

use super::LayerRecord;
use crate::batch::Inputs;
use crate::tape::{Tape, Var};

impl Tape<'_> {
    /// The features at each sequence's last real word, `(B, 1, 1, F)`.
    pub fn last_word(&mut self, x: Var) -> Var {
        self.one_word(x, WordChoice::LastWord)
    }

    /// The features at the last step of all, behind the padding of shorter sequences, `(B, 1, 1, F)`.
    pub fn last_step(&mut self, x: Var) -> Var {
        self.one_word(x, WordChoice::LastStep)
    }

    fn one_word(&mut self, x: Var, chosen: WordChoice) -> Var {
        let [_, batch, _, features] = self.dims(&x);
        let mut data = self.pool().take(batch * features);
        for (b, row) in data.chunks_exact_mut(features).enumerate() {
            row.copy_from_slice(&self.value(&x)[chosen.row(self, &x, b) * features..][..features]);
        }
        let requires_grad = self.requires_grad(&x);
        let y = self.push(data, [batch, 1, 1, features], requires_grad);
        self.record(LayerRecord::OneWord(OneWord { x, y: y.clone(), chosen }));
        y
    }

    /// Each sequence from its last real word to its first; padding stays where it is.
    pub(super) fn reverse_words(&mut self, x: Var) -> Var {
        let len = self.value(&x).len();
        let mut data = self.pool().take(len);
        reverse(self, &x, self.value(&x), &mut data);
        let (dims, requires_grad) = (self.dims(&x), self.requires_grad(&x));
        let y = self.push(data, dims, requires_grad);
        self.record(LayerRecord::Reversed(Reversed { x, y: y.clone() }));
        y
    }

    /// The features of two values side by side.
    pub(super) fn concatenate(&mut self, a: Var, b: Var) -> Var {
        let ([steps, batch, _, left], [.., right]) = (self.dims(&a), self.dims(&b));
        let mut data = self.pool().take(steps * batch * (left + right));
        let rows = self.value(&a).chunks_exact(left).zip(self.value(&b).chunks_exact(right));
        for (y, (a, b)) in data.chunks_exact_mut(left + right).zip(rows) {
            y[..left].copy_from_slice(a);
            y[left..].copy_from_slice(b);
        }
        let y = self.push(data, [steps, batch, 1, left + right], true);
        self.record(LayerRecord::Concatenated(Concatenated { a, b, y: y.clone() }));
        y
    }
}

/// The numbers of real words of the batch's sequences.
fn lengths<'a>(tape: &Tape<'a>) -> &'a [u32] {
    match &tape.batch.inputs {
        Inputs::Words { lengths, .. } => lengths,
        Inputs::Images { .. } => unreachable!("only texts have words"),
    }
}

/// Which word of a sequence is taken.
#[derive(Clone, Copy, Debug)]
enum WordChoice {
    LastWord,
    LastStep,
}

impl WordChoice {
    /// The row of sequence `b`'s word in `(T, B)`.
    fn row(self, tape: &Tape<'_>, x: &Var, b: usize) -> usize {
        let [steps, batch, ..] = tape.dims(x);
        let step = match self {
            Self::LastWord => lengths(tape)[b].max(1) as usize - 1,
            Self::LastStep => steps - 1,
        };
        step * batch + b
    }
}

#[derive(Debug)]
pub(crate) struct OneWord {
    x: Var,
    y: Var,
    chosen: WordChoice,
}

impl OneWord {
    pub(super) fn backward(&self, tape: &mut Tape<'_>) {
        let Some(dy) = tape.take_upstream(&self.y) else { return };
        if tape.requires_grad(&self.x) {
            let [.., features] = tape.dims(&self.x);
            let len = tape.value(&self.x).len();
            let mut dx = tape.pool().zeros(len);
            for (b, dy) in dy.chunks_exact(features).enumerate() {
                dx[self.chosen.row(tape, &self.x, b) * features..][..features].copy_from_slice(dy);
            }
            tape.add_upstream(&self.x, dx);
        }
        tape.pool().give(dy);
    }
}

/// Reverses the sequences of `from`, a value of the sizes of `x`.
fn reverse(tape: &Tape<'_>, x: &Var, from: &[f32], to: &mut [f32]) {
    let [steps, batch, _, features] = tape.dims(x);
    let lengths = lengths(tape);
    for step in 0..steps {
        for (b, &length) in lengths.iter().enumerate() {
            let length = length as usize;
            let other = if step < length { length - 1 - step } else { step };
            let (to_row, from_row) = ((step * batch + b) * features, (other * batch + b) * features);
            to[to_row..to_row + features].copy_from_slice(&from[from_row..from_row + features]);
        }
    }
}

#[derive(Debug)]
pub(crate) struct Reversed {
    x: Var,
    y: Var,
}

impl Reversed {
    pub(super) fn backward(&self, tape: &mut Tape<'_>) {
        let Some(dy) = tape.take_upstream(&self.y) else { return };
        if tape.requires_grad(&self.x) {
            let mut dx = tape.pool().take(dy.len());
            reverse(tape, &self.x, &dy, &mut dx);
            tape.add_upstream(&self.x, dx);
        }
        tape.pool().give(dy);
    }
}

#[derive(Debug)]
pub(crate) struct Concatenated {
    a: Var,
    b: Var,
    y: Var,
}

impl Concatenated {
    pub(super) fn backward(&self, tape: &mut Tape<'_>) {
        let Some(dy) = tape.take_upstream(&self.y) else { return };
        let (left, right) = (tape.dims(&self.a)[3], tape.dims(&self.b)[3]);
        for (var, features, start) in [(&self.a, left, 0), (&self.b, right, left)] {
            if tape.requires_grad(var) {
                let mut dx = tape.pool().take(dy.len() / (left + right) * features);
                for (dx, dy) in dx.chunks_exact_mut(features).zip(dy.chunks_exact(left + right)) {
                    dx.copy_from_slice(&dy[start..start + features]);
                }
                tape.add_upstream(var, dx);
            }
        }
        tape.pool().give(dy);
    }
}

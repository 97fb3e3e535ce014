use super::LayerRecord;
use crate::batch::{Inputs, PADDING};
use crate::layout::{Init, Layout, Slot};
use crate::tape::{Tape, Var};

/// A table with a row of numbers for every word. Only the rows of a batch's words get a gradient; the row of the
/// padding never does.
#[derive(Clone, Debug)]
pub struct Embedding {
    table: Slot,
    words: usize,
    width: usize,
}

impl Embedding {
    pub fn new(layout: &mut Layout, name: &str, words: usize, width: usize) -> Self {
        let init = Init::Normal { deviation: 1.0, zero_row: Some(PADDING as usize) };
        Self { table: layout.rows(format!("{name}.weight"), words, width, init), words, width }
    }

    /// The rows of the batch's words, `(T, B, 1, width)`.
    pub fn forward(&self, tape: &mut Tape<'_>) -> Var {
        let (steps, numbers) = words(tape);
        let mut data = tape.pool().take(numbers.len() * self.width);
        let table = tape.parameters(&self.table);
        for (row, &number) in data.chunks_exact_mut(self.width).zip(numbers) {
            assert!((number as usize) < self.words, "word {number} of a vocabulary of {}", self.words);
            row.copy_from_slice(&table[number as usize * self.width..][..self.width]);
        }
        let y = tape.push(data, [steps, numbers.len() / steps.max(1), 1, self.width], true);
        tape.record(LayerRecord::Embedding(Embedded { layer: self.clone(), y: y.clone() }));
        y
    }
}

/// The batch's words, with how many steps they take.
fn words<'a>(tape: &Tape<'a>) -> (usize, &'a [u32]) {
    match &tape.batch.inputs {
        Inputs::Words { steps, numbers, .. } => (*steps, numbers),
        Inputs::Images { .. } => unreachable!("a model of text is made for data of text"),
    }
}

#[derive(Debug)]
pub(crate) struct Embedded {
    layer: Embedding,
    y: Var,
}

impl Embedded {
    pub(super) fn slots(&self) -> [&Slot; 1] {
        [&self.layer.table]
    }

    pub(super) fn backward(&self, tape: &mut Tape<'_>) {
        let Some(dy) = tape.take_upstream(&self.y) else { return };
        let (_, numbers) = words(tape);
        let gradient = tape.gradient();
        for (dy, &number) in dy.chunks_exact(self.layer.width).zip(numbers) {
            if number != PADDING {
                gradient.add_row(&self.layer.table, number, dy);
            }
        }
        tape.pool().give(dy);
    }
}

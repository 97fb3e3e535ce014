use super::LayerRecord;
use crate::kernels::function::{self, Function};
use crate::kernels::pointwise;
use crate::tape::{Tape, Var};

impl Tape<'_> {
    /// A function of every number. Where it follows a layer that takes an activation, that is faster.
    pub fn function(&mut self, x: Var, function: Function) -> Var {
        let len = self.value(&x).len();
        let mut data = self.pool().take(len);
        function::apply(self.value(&x), &mut data, function);
        let (dims, format, requires_grad) = (self.dims(&x), self.format(&x), self.requires_grad(&x));
        let y = self.push_in_format(data, dims, format, requires_grad);
        self.record(LayerRecord::Function(Mapped { x, y: y.clone(), function }));
        y
    }

    /// The sum of two values of the same sizes.
    pub fn sum(&mut self, a: Var, b: Var) -> Var {
        assert_eq!(
            (self.dims(&a), self.format(&a)),
            (self.dims(&b), self.format(&b)),
            "values of the same sizes"
        );
        let len = self.value(&a).len();
        let mut data = self.pool().take(len);
        data.copy_from_slice(self.value(&a));
        pointwise::add(&mut data, self.value(&b));
        let (dims, format) = (self.dims(&a), self.format(&a));
        let requires_grad = self.requires_grad(&a) || self.requires_grad(&b);
        let y = self.push_in_format(data, dims, format, requires_grad);
        self.record(LayerRecord::Added(Added { a, b, y: y.clone() }));
        y
    }
}

#[derive(Debug)]
pub(crate) struct Mapped {
    x: Var,
    y: Var,
    function: Function,
}

impl Mapped {
    pub(super) fn backward(&self, tape: &mut Tape<'_>) {
        let Some(mut dy) = tape.take_upstream(&self.y) else { return };
        if !tape.requires_grad(&self.x) {
            tape.pool().give(dy);
            return;
        }
        function::backward(tape.value(&self.x), tape.value(&self.y), &mut dy, self.function);
        tape.add_upstream(&self.x, dy);
    }
}

#[derive(Debug)]
pub(crate) struct Added {
    a: Var,
    b: Var,
    y: Var,
}

impl Added {
    pub(super) fn backward(&self, tape: &mut Tape<'_>) {
        let Some(dy) = tape.take_upstream(&self.y) else { return };
        if tape.requires_grad(&self.a) {
            let mut copy = tape.pool().take(dy.len());
            copy.copy_from_slice(&dy);
            tape.add_upstream(&self.a, copy);
        }
        if tape.requires_grad(&self.b) {
            tape.add_upstream(&self.b, dy);
        } else {
            tape.pool().give(dy);
        }
    }
}

//! What a member learns by itself between two exchanges.

use bonfire_learn::Gradient;
use bonfire_learn::layout::{Layout, TensorKind};
use bonfire_run::replica::Replica;
use bonfire_run::run_file::Settings;

use crate::trainer::{Computed, Trainer};

/// A round of several steps, from which all come back with how far they went.
#[derive(Debug, Default)]
pub(crate) struct Apart {
    /// So many steps of the next round are made while an exchange goes on.
    pub delay: u64,
    /// Which part of the way to the centre a member goes, where it does not go all of it.
    rho: Option<f32>,
    /// Where this member is after the exchange, if that is not where all are.
    pub away: Option<Away>,
    /// The parameters that the round began with.
    start: Vec<f32>,
    /// Memory to use while an exchange goes on: what is exchanged, and where the member was when it began.
    pub exchanged: Option<Gradient>,
    pub here: Vec<f32>,
    /// Of the gradients of all steps so far.
    pub weight: f64,
    /// Whether what was summed last is how far members went, and not their gradients.
    was: bool,
}

/// Where a member is that does not begin a round where all others do.
#[derive(Debug, Default)]
pub(crate) struct Away {
    /// How far from where they begin, in every parameter.
    pub way: Vec<f32>,
    /// What it has done of the round: so many steps, and what came of them.
    pub steps: u64,
    pub computed: Computed,
    pub weight: f64,
}

impl Apart {
    pub(crate) fn of(settings: &Settings) -> Self {
        let file = &settings.file;
        let delay = file.outer.as_ref().map_or(0, |outer| outer.delay);
        Self { delay, rho: file.easgd.map(|easgd| easgd.rho), ..Self::default() }
    }

    /// All begin anew where all are.
    pub(crate) fn forget(&mut self) {
        self.away = None;
    }

    /// Notes whether the next round is of several steps. True if what is summed is of another kind than before.
    pub(crate) fn turn(&mut self, is: bool) -> bool {
        std::mem::replace(&mut self.was, is) != is
    }

    /// Begins a round: with what was done of it, and how many steps that were.
    pub(crate) fn begin(&mut self, replica: &mut Replica) -> (Computed, u64) {
        self.start.clone_from(&replica.parameters);
        let Away { way, steps, computed, weight } = self.away.take().unwrap_or_default();
        for (parameter, way) in replica.parameters.iter_mut().zip(&way) {
            *parameter -= way;
        }
        self.weight = weight;
        (computed, steps)
    }

    /// Under elastic averaging: goes a part of the way to the centre, as it is before the exchange. To be called when
    /// the round has ended.
    pub(crate) fn draw_to_centre(&mut self, trainer: &Trainer) {
        let Some(rho) = self.rho else { return };
        for (own, centre) in self.start.iter_mut().zip(&trainer.replica.parameters) {
            *own += rho * (centre - *own);
        }
        self.away = Some(Away::default());
    }

    /// Notes how far that is from the centre after the exchange.
    pub(crate) fn keep_apart(&mut self, replica: &Replica) {
        if let (Some(_), Some(away)) = (self.rho, &mut self.away) {
            let way = replica.parameters.iter().zip(&self.start).map(|(centre, own)| centre - own);
            away.way.clear();
            away.way.extend(way);
        }
    }

    /// Changes between where the member is and where the round began.
    pub(crate) fn swap(&mut self, replica: &mut Replica) {
        std::mem::swap(&mut self.start, &mut replica.parameters);
    }

    /// Goes back to where the round began.
    pub(crate) fn give_up(&mut self, replica: &mut Replica) {
        self.swap(replica);
    }

    /// Puts how far the member went into the trainer's gradient, and goes back to where the round began: from there all
    /// step together.
    pub(crate) fn end(&mut self, trainer: &mut Trainer) {
        let layout = trainer.layout().clone();
        self.give_up(&mut trainer.replica);
        way(&layout, &trainer.replica.parameters, &self.start, self.weight, &mut trainer.gradient);
    }
}

/// The way from `start` to `end`, so many times, as a gradient that weighs as much. Rows that have not moved are not in
/// it; of statistics it has those at the end.
fn way(layout: &Layout, start: &[f32], end: &[f32], weight: f64, gradient: &mut Gradient) {
    gradient.clear();
    gradient.weight = weight;
    let times = weight as f32;
    let difference = |values: &mut [f32], start: &[f32], end: &[f32]| {
        for ((value, start), end) in values.iter_mut().zip(start).zip(end) {
            *value = times * (start - end);
        }
    };
    for (i, tensor) in layout.tensors().iter().enumerate() {
        let (start, end) = (&start[tensor.range.clone()], &end[tensor.range.clone()]);
        match tensor.kind {
            TensorKind::Dense => difference(gradient.write(i), start, end),
            TensorKind::Buffer => gradient.write(i).copy_from_slice(end),
            TensorKind::Rows { width } => {
                for (row, (start, end)) in start.chunks(width).zip(end.chunks(width)).enumerate() {
                    if start != end {
                        difference(gradient.touch(i, row as u32), start, end);
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bonfire_learn::layout::Init;
    use bonfire_learn::{Optimizer, OptimizerSpec, SgdOptions};

    fn layout() -> Layout {
        let mut layout = Layout::default();
        layout.vector("dense".into(), 2, Init::Uniform(1.0));
        layout.rows("table".into(), 3, 2, Init::Uniform(1.0));
        layout.buffer("mean".into(), 2, Init::Constant(0.0));
        layout
    }

    #[test]
    fn a_step_by_the_way_of_one_is_where_it_went() {
        let layout = layout();
        let start = [1.0, 2.0, 0.5, 0.5, 3.0, 3.0, 8.0, 8.0, 0.0, 0.0];
        let end = [0.5, 2.5, 0.5, 0.5, 3.0, 1.0, 8.0, 8.0, 7.0, -7.0];
        let mut gradient = Gradient::new(&layout);
        way(&layout, &start, &end, 4.0, &mut gradient);
        assert_eq!(gradient.weight, 4.0);
        assert_eq!(gradient.rows(1).expect("a table").touched, [1], "the only row that has moved");
        assert_eq!(gradient.values[..2], [2.0, -2.0]);
        let sgd = SgdOptions { lr: 1.0, ..SgdOptions::default() };
        let mut parameters = start;
        let mut outer = Optimizer::new(OptimizerSpec::Sgd(sgd), &layout);
        outer.step(&mut parameters, std::slice::from_ref(&gradient), 1.0, None);
        assert_eq!(parameters, end);
    }

    #[test]
    fn a_momentum_goes_on_where_nobody_went() {
        let layout = layout();
        let start = [1.0; 10];
        let mut end = start;
        end[4] = 0.0;
        let mut gradient = Gradient::new(&layout);
        way(&layout, &start, &end, 2.0, &mut gradient);
        for (nesterov, expect) in [(false, [0.0, -0.5]), (true, [-0.5, -0.75])] {
            let sgd = SgdOptions { lr: 1.0, momentum: 0.5, nesterov, ..SgdOptions::default() };
            let mut outer = Optimizer::new(OptimizerSpec::Sgd(sgd), &layout);
            let mut parameters = start;
            outer.step(&mut parameters, std::slice::from_ref(&gradient), 1.0, None);
            assert_eq!(parameters[4], expect[0], "its first step");
            let mut rest = Gradient::new(&layout);
            way(&layout, &start, &start, 2.0, &mut rest);
            outer.step(&mut parameters, std::slice::from_ref(&rest), 1.0, None);
            assert_eq!(parameters[4], expect[1], "it rolls on");
            assert_eq!(parameters[0], 1.0);
        }
    }
}

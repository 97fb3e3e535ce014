//! The first steps of a round, made while the exchange of the round before goes on.

use bonfire_learn::Gradient;

use super::apart::Away;
use super::{Break, Formed, LocalStep, Participant};
use crate::roles::node::Connections;
use crate::trainer::{Computed, Trainer};

impl Participant<'_> {
    /// Whether the next steps are made during an exchange.
    pub(super) fn goes_ahead(&self, formed: &Formed) -> bool {
        self.apart.delay > 0 && self.world.is_none() && formed.links.len() > 1
    }

    /// Begins the exchange of how far this member went in a round, and makes its first steps of the next one meanwhile.
    /// The trainer then is where it was: at the beginning of the round, with how far it went as its gradient.
    pub(super) fn go_ahead(
        &mut self,
        connections: &mut Connections,
        trainer: &mut Trainer,
        formed: &Formed,
        round: u64,
    ) -> Result<(), Break> {
        // From where it went to.
        self.apart.swap(&mut trainer.replica);
        self.apart.here.clone_from(&trainer.replica.parameters);
        let spare = self.apart.exchanged.take().unwrap_or_else(|| Gradient::new(trainer.layout()));
        let exchanged = std::mem::replace(&mut trainer.gradient, spare);
        let stepped = self.steps_ahead(connections, trainer, formed, (round, &exchanged));
        self.apart.exchanged = Some(std::mem::replace(&mut trainer.gradient, exchanged));
        std::mem::swap(&mut self.apart.here, &mut trainer.replica.parameters);
        let (here, there) = (&trainer.replica.parameters, &self.apart.here);
        let way = here.iter().zip(there).map(|(here, there)| here - there).collect();
        self.apart.swap(&mut trainer.replica);
        let (steps, computed, weight) = stepped?;
        self.apart.away = Some(Away { way, steps, computed, weight });
        Ok(())
    }

    /// How many steps these were, what came of them, and what they weigh.
    fn steps_ahead(
        &mut self,
        connections: &mut Connections,
        trainer: &mut Trainer,
        formed: &Formed,
        (round, exchanged): (u64, &Gradient),
    ) -> Result<(u64, Computed, f64), Break> {
        let Self { incoming, sums, early, plan, schedule, apart, .. } = self;
        let mut receive = |_| incoming.piece_now(connections);
        let mut peers = formed.peers(&mut receive, early, round);
        sums.begin(&peers, false);
        sums.advance(&mut peers, exchanged, 0)?;
        let (mut steps, mut all, mut weight) = (0, Computed::default(), 0.0);
        for step in formed.steps(plan, round + 1).into_iter().take(apart.delay as usize) {
            let LocalStep { unit, place } = step;
            let mut advanced = Ok(());
            let computed = trainer.compute_by_layers(unit, &mut |_, _, _| {
                if advanced.is_ok() {
                    advanced = sums.advance(&mut peers, exchanged, 0);
                }
            });
            advanced?;
            all.add(&computed?);
            sums.advance(&mut peers, exchanged, 0)?;
            trainer.step(schedule.step(place).lr);
            weight += trainer.gradient.weight;
            steps += 1;
        }
        Ok((steps, all, weight))
    }
}

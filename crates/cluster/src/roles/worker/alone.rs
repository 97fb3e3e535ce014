//! What a worker learns by itself before it pushes how far it went.

use std::collections::VecDeque;
use std::time::Instant;

use anyhow::{Result, ensure};
use bonfire_exchange::state::moments_of;
use bonfire_wire::proto::frame::Body;
use bonfire_wire::{Frame, Outbox, proto};

use super::{GradientPush, Working, tasks, to_proto};
use crate::roles::node::Connections;
use crate::trainer::{Computed, Task, Trainer};

/// Units that are trained on one after the other, to answer an order.
pub(super) struct Learning {
    order: u64,
    /// Of the parameters that it begins with.
    version: u64,
    exact: bool,
    /// Whether the push comes with the optimiser's moments.
    moments: bool,
    left: VecDeque<Task>,
    units: Vec<proto::Unit>,
    computed: Computed,
    begun: Instant,
}

impl Working {
    /// Begins to train on what an order asks for.
    pub(super) fn begin(&mut self, trainer: &mut Trainer, go: &proto::Go, begun: Instant) -> Result<()> {
        let left: VecDeque<Task> = tasks(go).collect();
        let (Some(order), false) = (go.order, left.is_empty()) else { return Ok(()) };
        for task in &left {
            ensure!(trainer.has(task), "{} is none of this run's", task.unit);
        }
        trainer.idle();
        let (computed, _) = self.apart.begin(&mut trainer.replica);
        let units = left.iter().map(|task| to_proto(task.unit)).collect();
        let &proto::Go { version, exact, moments, .. } = go;
        self.learning = Some(Learning { order, version, exact, moments, left, units, computed, begun });
        Ok(())
    }

    /// Trains on the next unit. After the last one, how far it went is what is to be pushed.
    pub(super) fn learn(
        &mut self,
        connections: &Connections,
        trainer: &mut Trainer,
        outbox: &Outbox,
    ) -> Result<()> {
        let Some(learning) = &mut self.learning else { return Ok(()) };
        if let Some(task) = learning.left.pop_front() {
            let place = task.unit.place(self.schedule.units_per_epoch() as u32);
            learning.computed.add(&trainer.compute(task)?);
            trainer.step(self.schedule.step(place).lr);
            self.apart.weight += trainer.gradient.weight;
        }
        if !learning.left.is_empty() {
            return Ok(());
        }
        let Some(learning) = self.learning.take() else { return Ok(()) };
        if learning.moments {
            for (state, payload) in moments_of(&trainer.replica) {
                // A parent that is gone is heard of in the mail.
                let _ = outbox.send(Frame { body: Body::State(state), payload });
            }
        }
        self.apart.end(trainer);
        let Learning { order, version, exact, units, computed, begun, .. } = learning;
        let mut push = GradientPush::new(&trainer.encoder, order, exact);
        (push.version, push.window) = (version, self.window);
        push.whole = proto::Push {
            order,
            weight: trainer.gradient.weight,
            tally: Some(computed.tally),
            units,
            compute_s: computed.seconds,
            busy_s: (connections.mailbox.now() - begun).as_secs_f64(),
            most_samples: computed.most_samples,
            ..proto::Push::default()
        };
        self.push = Some(push);
        Ok(())
    }

    /// What comes from the parent is for where the worker began.
    pub(super) fn give_up(&mut self, trainer: &mut Trainer) {
        if self.learning.take().is_some() {
            self.apart.give_up(&mut trainer.replica);
        }
    }
}

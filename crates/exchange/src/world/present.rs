use std::fmt;

use anyhow::{Context, Result, ensure};
use mpi::Threading;
use mpi::collective::SystemOperation;
use mpi::environment::Universe;
use mpi::topology::{Color, SimpleCommunicator};
use mpi::traits::{Communicator, CommunicatorCollectives};

use super::Agreement;

/// All ranks that one mpirun started, and those among them who sum.
///
/// Dropped, it waits for all others to leave too.
pub struct World {
    /// Before the universe, which ends all that is in it.
    members: SimpleCommunicator,
    universe: Universe,
}

impl fmt::Debug for World {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("World").field("rank", &self.rank()).field("ranks", &self.ranks()).finish()
    }
}

impl World {
    /// Enters it; a process can do that once. Waits for all other ranks to do the same.
    pub fn enter() -> Result<Self> {
        let (universe, threading) = mpi::initialize_with_threading(Threading::Funneled)
            .context("MPI was entered before in this process, and can be only once")?;
        ensure!(threading >= Threading::Funneled, "this MPI library cannot be used beside other threads");
        Ok(Self { members: universe.world(), universe })
    }

    /// How many ranks there are.
    pub fn ranks(&self) -> usize {
        self.universe.world().size() as usize
    }

    /// Which of them this is.
    pub fn rank(&self) -> usize {
        self.universe.world().rank() as usize
    }

    /// Parts those who sum from those who do not. Every rank must say what it is.
    pub fn divide(&mut self, is_member: bool) {
        let color = if is_member { Color::with_value(0) } else { Color::undefined() };
        if let Some(members) = self.universe.world().split_by_color(color) {
            self.members = members;
        }
    }

    /// How many sum.
    pub fn members(&self) -> usize {
        self.members.size() as usize
    }

    /// What all members say together.
    pub fn agree(&self, weight: f64, leave: bool) -> Agreement {
        let mut all = [0.0; 2];
        self.members.all_reduce_into(&[weight, f64::from(leave)], &mut all, SystemOperation::sum());
        Agreement { weight: all[0], leave: all[1] > 0.0 }
    }

    /// Sums over all members: the same bits for each.
    pub fn sum(&self, own: &[f32], sum: &mut [f32]) {
        assert_eq!(own.len(), sum.len(), "a sum has the length of its parts");
        if !own.is_empty() {
            self.members.all_reduce_into(own, sum, SystemOperation::sum());
        }
    }

    /// The bytes of all members behind each other; all have as many.
    pub fn gathered(&self, own: &[u8]) -> Vec<u8> {
        let mut all = vec![0; own.len() * self.members()];
        self.members.all_gather_into(own, &mut all[..]);
        all
    }

    /// Leaves without a farewell: this rank failed, and the launcher will end the others, who may not be listening.
    pub fn abandon(self) {
        std::mem::forget(self);
    }
}

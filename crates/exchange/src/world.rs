//! The world of MPI: sums among all ranks by the collectives of whatever MPI library the machine has.
//!
//! Without the feature `mpi` there is no such world, and nobody can enter it. MPI ends all ranks when one dies, and its
//! sums wait for ever; the head, which is told of lost ranks by their links, ends the run then. All calls are made by
//! the thread that entered.

#[cfg(not(feature = "mpi"))]
mod absent;
#[cfg(feature = "mpi")]
mod present;

use bonfire_run::{Ranks, Settings};
use bonfire_yaml::YamlError;
use bytes::Bytes;

use crate::peers::Gather;

#[cfg(not(feature = "mpi"))]
pub use absent::World;
#[cfg(feature = "mpi")]
pub use present::World;

/// Whether this program, started as these ranks, can do what a run file wants of MPI.
pub fn check_engine(settings: &Settings, ranks: Option<Ranks>) -> Result<(), YamlError> {
    let is_at_hand = ranks.is_some_and(|ranks| ranks.mpi && !ranks.head_apart);
    let wrong = |message: String| Err(settings.wrong("allreduce.engine", message));
    if !settings.topology.uses_mpi() {
        Ok(())
    } else if !cfg!(feature = "mpi") {
        wrong("mpi is not in this program: build it with `cargo build --release --features mpi`".into())
    } else if !is_at_hand {
        let nodes = settings.topology.nodes() + usize::from(settings.file.evaluator);
        wrong(format!("mpi needs ranks that MPI started: `mpirun -n {nodes} bonfire train RUN.yml`"))
    } else {
        Ok(())
    }
}

/// What all members said before a sum.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Agreement {
    /// Of all members together.
    pub weight: f64,
    /// Whether one of them was told to leave.
    pub leave: bool,
}

impl<E> Gather<E> for &World {
    fn gather(&mut self, own: Bytes) -> Result<Vec<Bytes>, E> {
        let len = own.len();
        let all = Bytes::from(self.gathered(&own));
        Ok((0..self.members()).map(|i| all.slice(i * len..(i + 1) * len)).collect())
    }
}

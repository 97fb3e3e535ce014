//! The world of MPI: sums among all ranks by the collectives of whatever MPI library the machine has.
//!
//! Without the feature `mpi` there is no such world, and nobody can enter it. MPI ends all ranks when one dies, and its
//! sums wait for ever; the head, which is told of lost ranks by their links, ends the run then. All calls are made by the
//! thread that entered.

#[cfg(not(feature = "mpi"))]
mod absent;
#[cfg(feature = "mpi")]
mod present;

use bytes::Bytes;

use crate::allreduce::Gather;

#[cfg(not(feature = "mpi"))]
pub use absent::World;
#[cfg(feature = "mpi")]
pub use present::World;

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

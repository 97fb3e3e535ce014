//! How fast this machine is at exchanging gradients.

pub mod exchange;
pub mod mpi;

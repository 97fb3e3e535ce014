//! How fast this machine is: at a training step, and at exchanging gradients.

pub mod exchange;
pub mod mpi;
pub mod step;

//! How fast this machine is at a training step.

pub mod step;

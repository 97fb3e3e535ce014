//! How fast this machine is at exchanging gradients, and at all else that a run asks of it.

mod acquaint;
mod alone;
mod core_time;
pub mod exchange;
pub mod gauge;
mod gauge_codec;
mod gauge_round;
pub mod link;
pub mod mpi;
pub mod trial;

//! The roles of a run, each a loop over its mail: the head, and what a node may be told to be.

pub mod claim;
pub mod cpus;
pub mod evaluator;
pub mod feed;
pub mod head;
pub mod member;
pub mod network;
pub mod node;
pub mod registry;
pub mod relay;
pub mod worker;

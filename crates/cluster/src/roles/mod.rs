//! The roles of a run, each a loop over its mail: the head, and what a node may be told to be.

pub(crate) mod claim;
pub(crate) mod cpus;
pub(crate) mod evaluator;
pub(crate) mod feed;
mod group_server;
pub(crate) mod head;
pub(crate) mod member;
pub(crate) mod network;
pub(crate) mod node;
pub(crate) mod registry;
pub(crate) mod relay;
pub(crate) mod vitals;
pub(crate) mod worker;

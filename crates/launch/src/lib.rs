//! From a list of hosts to processes on them: inventories, ssh, emulated clusters, foreign launchers.
//!
//! This crate knows hosts and processes, and nothing of learning or of the network protocol between nodes.

pub mod foreign;
mod inventory;
mod lab;

pub use inventory::{Host, Inventory, InventoryError};
pub use lab::{Delay, Lab, LabError, LabSpec, MAX_HOSTS, Progress, Rate, Shape};

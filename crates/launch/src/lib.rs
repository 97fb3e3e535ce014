//! From a list of hosts to processes on them: inventories, ssh and emulated clusters.
//!
//! This crate knows hosts and processes, and nothing of learning or of the network protocol between nodes.
//!
//! Reading order:
//!
//! 1. `inventory`: the hosts; [`place`]: which of them gets which role;
//! 2. `ssh`: how a host is reached; [`shell`] and `deadline` make its commands, `trouble` says in words what went wrong;
//! 3. `facts` and `program`: what a host is, and how this program gets there;
//! 4. [`guard`]: who watches over a process there; [`run_process`] and `process`: what is known of it;
//! 5. `session`: a program there that goes on; [`parcel`], [`reach`]: folders on their way, and the way itself;
//! 6. `run_list`: what is remembered here.

mod deadline;
mod facts;
pub mod guard;
mod inventory;
mod lab;
pub mod parcel;
pub mod place;
mod process;
mod program;
pub mod reach;
mod run_list;
pub mod run_process;
mod session;
pub mod shell;
mod ssh;
mod trouble;

pub use facts::Facts;
pub use inventory::{Host, Inventory, InventoryError};
pub use lab::{Delay, Lab, LabError, LabProgress, LabSpec, LinkShape, MAX_HOSTS, Rate};
pub use process::{ProcessId, Signal};
pub use program::{Program, call, call_and_read};
pub use run_list::{HostRecord, ProcessPlan, RunList, RunRecord};
pub use session::{Session, SessionNews};
pub use ssh::{PATIENCE, Remote, Ssh};
pub use trouble::{Trouble, last_line};

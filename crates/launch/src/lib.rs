//! From a list of hosts to the processes of a run on them, over ssh, and back.
//!
//! This crate knows hosts and processes, and nothing of learning or of the network protocol between nodes. What it has
//! to know of a run is told by a [`RunSpec`]: command lines, roles, and how a ticket is read.
//!
//! Reading order:
//!
//! 1. `inventory`: the hosts; `place`: which of them gets which role;
//! 2. `ssh`: how a host is reached; `shell` and `deadline` make its commands, `trouble` says in words what went wrong;
//! 3. `fleet` and `checkup`: all hosts at once, asked what they are (`facts`), given this program (`program`), and
//!    measured (`measure`, `reach`);
//! 4. `start`: the head, its ticket, the way to it, the nodes; `shipment` and `parcel`: data and folders on their way;
//! 5. `guard`: who watches over a process on a host; `run_process` and `process`: what is known of it there;
//! 6. `live_run`: a run while its launcher is there; `session` and `follower`: what is heard of it; `backup`: what is
//!    kept of it meanwhile; `collect`: its end;
//! 7. `run_list` and `remote_run`: what is remembered here, and how one comes back to a run; `leftover`: what is left
//!    of runs that are over;
//! 8. [`host_side`]: what this program does on a host when it is called there;
//! 9. `lab`: a cluster on one machine, to try all this on.
//!
//! # Example
//!
//! Which host gets which role can be told before any host is asked:
//!
//! ```
//! use bonfire_launch::ProcessRole::{Head, Worker};
//! use bonfire_launch::{Inventory, in_order};
//!
//! let hosts = Inventory::from_list("pi1,pi2,desk:2")?.hosts;
//! let slots: Vec<usize> = hosts.iter().map(|host| host.slots).collect();
//! let places = in_order(&[Head, Worker, Worker, Worker], &slots)?;
//! let names: Vec<&str> = places.iter().map(|&place| hosts[place].name.as_str()).collect();
//! assert_eq!(names, ["pi1", "pi2", "desk", "desk"]);
//!
//! let shortage = in_order(&[Head, Worker, Worker, Worker, Worker], &slots).unwrap_err();
//! assert!(shortage.to_string().ends_with("1 worker is missing"));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod backup;
mod checkup;
mod collect;
mod deadline;
mod elsewhere;
mod error;
mod facts;
mod fleet;
mod follower;
mod guard;
pub mod host_side;
mod inventory;
mod lab;
mod leftover;
mod live_run;
mod measure;
mod parcel;
mod place;
mod process;
mod program;
mod programs;
mod reach;
mod remote_run;
mod run_list;
mod run_process;
mod session;
mod shell;
mod shipment;
mod ssh;
mod start;
mod trouble;
mod whole_file;

pub use checkup::{CheckedFleet, Checkup};
pub use error::LaunchError;
pub use facts::Facts;
pub use inventory::{Host, HostWatts, Inventory, InventoryError};
pub use lab::{
    CpuShare, Delay, HostArch, HostShape, Lab, LabError, LabProgress, LabSpec, LinkShape, Rate, govern,
    read_shapes, throttle,
};
pub use live_run::{LiveRun, RunNews};
pub use measure::{Said, SpeedTest, WaySaid};
pub use place::{ProcessRole, Shortage, in_order};
pub use program::Program;
pub use programs::Programs;
pub use reach::Speed;
pub use remote_run::RemoteRun;
pub use run_list::{HostRecord, ProcessPlan, RunList, RunRecord};
pub use run_process::{ProcessEnd, RUN_FOLDER, TICKET};
pub use shipment::Shipment;
pub use ssh::PATIENCE;
pub use start::{Resumed, RunSpec, TicketFormat, run_id};
pub use trouble::Trouble;

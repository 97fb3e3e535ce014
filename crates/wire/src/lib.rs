//! Links between the nodes of a run: on each, both ends send frames, in order, over gRPC with TLS or in memory.
//!
//! This crate knows no learning: a frame is a message of `proto/fire.proto` and a payload of bytes. It is used from
//! plain threads; the asynchronous part stays inside.
//!
//! Reading order:
//!
//! 1. `proto/fire.proto`: what nodes say to each other;
//! 2. `link` and `frame`: what a link is to those who use it, and what goes over it;
//! 3. `memory`: the link within a process, the shortest that keeps every promise;
//! 4. `grpc`: the link between processes. `connect` and `listen` make it, `end` sends (by `outgoing`) and reads,
//!    `pulse` notices silence, `handshakes` and `reports` deal with strangers;
//! 5. `ticket`, `identity` and `passphrase`: who may come in, and how each side knows the other;
//! 6. `pool`: the memory of payloads, which are what `bonfire-payload` makes of numbers.
//!
//! # Example
//!
//! ```
//! use std::sync::mpsc::channel;
//!
//! use bonfire_wire::proto::Hello;
//! use bonfire_wire::{Body, Incoming, memory_link};
//!
//! let (sender, inbox) = channel();
//! let (here, _there) = memory_link(
//!     Box::new(|_: Incoming| {}),
//!     Box::new(move |incoming: Incoming| sender.send(incoming).unwrap_or_default()),
//! );
//! here.send(Body::Hello(Hello { node: 3, generation: 1 }))?;
//! here.close();
//! assert!(matches!(inbox.recv(), Ok(Incoming::Frame(frame)) if frame.payload.is_empty()));
//! assert!(matches!(inbox.recv(), Ok(Incoming::Closed(why)) if why == "the other side closed the link"));
//! # Ok::<(), bonfire_wire::Closed>(())
//! ```

mod base64url;
mod frame;
mod grpc;
mod identity;
mod link;
mod memory;
mod passphrase;
mod pool;
mod ticket;

#[allow(missing_docs, reason = "the comments of `proto/fire.proto` are the documentation")]
pub mod proto {
    include!(concat!(env!("OUT_DIR"), "/bonfire.v1.rs"));
}

pub use frame::Frame;
pub use grpc::{ConnectError, ConnectErrorKind, ConnectSecurity, ListenSecurity, Listener, Wire};
pub use identity::{Der, Fingerprint, Identity, random_number};
pub use link::{
    Closed, Incoming, Inlet, LinkTraffic, MAX_WAITING_BYTES, MAX_WAITING_FRAMES, Outbox, Sink, Timeouts,
};
pub use memory::memory_link;
pub use passphrase::Passphrase;
pub use pool::{PayloadBuffer, PayloadPool};
pub use proto::frame::Body;
pub use ticket::{Secret, Ticket, TicketError};

#[cfg(test)]
#[global_allocator]
static COUNTING: bonfire_spoil::Counting = bonfire_spoil::Counting;

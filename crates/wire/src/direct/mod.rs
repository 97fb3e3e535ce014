//! Direct links: the same frames over a connection of their own, without HTTP/2, for those who send much.
//!
//! What follows the handshake is gRPC's messages one after the other, each with its length before it, and between them
//! signs. TCP holds a sender back whose receiver is busy. Reading order: `handshake`, `end`, then its two halves
//! `outgoing` and `incoming`, and `records`, which is TLS.

mod connect;
mod end;
mod handshake;
mod hearing;
mod incoming;
mod outgoing;
mod records;
mod sign;

pub(crate) use end::DirectEnd;
pub(crate) use handshake::{COME_IN, Channel, ENCRYPTED, GREETING, OTHER_SECRET, PLAIN, TlsError};

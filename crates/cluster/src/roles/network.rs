//! How a node reaches another: over gRPC, or in this process over memory.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Context, Result, anyhow};
use bonfire_wire::{ConnectSecurity, Fingerprint, Outbox, Secret, Sink, Timeouts, Wire, memory_link, proto};

use crate::mail::Post;

/// The way to other nodes.
pub trait Network: std::fmt::Debug + Send + Sync {
    /// Opens a link to a peer.
    fn connect(&self, peer: &proto::Peer, sink: Sink) -> Result<Outbox>;
}

/// What it takes to connect to a node over gRPC.
#[derive(Debug)]
pub struct Grpc {
    pub wire: Arc<Wire>,
    pub secret: Secret,
    pub timeouts: Timeouts,
}

/// The nodes of one process by their addresses.
#[derive(Debug, Default)]
pub struct Switchboard {
    nodes: Mutex<HashMap<String, Post>>,
}

impl Switchboard {
    /// Has links to this address end in a mailbox.
    pub fn register(&self, address: &str, post: &Post) {
        self.nodes.lock().unwrap_or_else(PoisonError::into_inner).insert(address.to_owned(), post.clone());
    }
}

impl Network for Switchboard {
    fn connect(&self, peer: &proto::Peer, sink: Sink) -> Result<Outbox> {
        let post = self.nodes.lock().unwrap_or_else(PoisonError::into_inner).get(&peer.address).cloned();
        let post = post.ok_or_else(|| anyhow!("nobody is at {}", peer.address))?;
        let link = post.number();
        let (here, there) = memory_link(sink, post.sink(link));
        post.announce(link, there);
        Ok(here)
    }
}

impl Network for Grpc {
    fn connect(&self, peer: &proto::Peer, sink: Sink) -> Result<Outbox> {
        let security = match peer.fingerprint.is_empty() {
            true => ConnectSecurity::Plain,
            false => {
                let bytes: [u8; 32] = peer.fingerprint.as_ref().try_into()?;
                ConnectSecurity::Tls(Fingerprint::from(bytes))
            }
        };
        self.wire
            .connect(&peer.address, security, &self.secret, self.timeouts, sink)
            .with_context(|| format!("cannot reach {}", peer.name))
    }
}

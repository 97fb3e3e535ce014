//! How a node reaches another: over gRPC, or in this process over memory.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Context, Result, anyhow};
use bonfire_wire::{ConnectSecurity, Fingerprint, Outbox, Secret, Sink, Timeouts, Wire, memory_link, proto};

use crate::mail::Post;

/// The way to other nodes.
pub(crate) trait Network: std::fmt::Debug + Send + Sync {
    /// Opens a link to a peer.
    fn connect(&self, peer: &proto::Peer, sink: Sink) -> Result<Outbox>;
}

/// What it takes to connect to a node over gRPC.
#[derive(Debug)]
pub(crate) struct Grpc {
    pub wire: Arc<Wire>,
    pub secret: Secret,
    pub timeouts: Timeouts,
    /// Where this node reaches the head.
    pub head: String,
}

/// The nodes of one process by their addresses.
#[derive(Debug, Default)]
pub(crate) struct Switchboard {
    nodes: Mutex<HashMap<String, Post>>,
}

impl Switchboard {
    /// Has links to this address end in a mailbox.
    pub(crate) fn register(&self, address: &str, post: &Post) {
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

impl Grpc {
    /// Where a peer is reached. One that names no host is at the head's, which it need not know by the name that this
    /// node has for it.
    fn address(&self, peer: &proto::Peer) -> String {
        let nowhere = peer.address.parse::<SocketAddr>().ok().filter(|address| address.ip().is_unspecified());
        match (nowhere, self.head.rsplit_once(':')) {
            (Some(address), Some((host, _))) => format!("{host}:{}", address.port()),
            _ => peer.address.clone(),
        }
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
            .connect(&self.address(peer), security, &self.secret, self.timeouts, sink)
            .with_context(|| format!("cannot reach {}", peer.name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_peer_without_a_host_is_at_the_heads() {
        let check = |head: &str, peer: &str, expect: &str| {
            let wire = Arc::new(Wire::start().expect("threads"));
            let (secret, timeouts) = (Secret::from([0; 16]), Timeouts::default());
            let network = Grpc { wire, secret, timeouts, head: head.to_owned() };
            let peer = proto::Peer { address: peer.to_owned(), ..proto::Peer::default() };
            assert_eq!(network.address(&peer), expect);
        };
        check("10.0.0.1:4711", "10.0.0.2:5000", "10.0.0.2:5000");
        check("10.0.0.1:4711", "0.0.0.0:5000", "10.0.0.1:5000");
        check("pi1.local:4711", "[::]:5000", "pi1.local:5000");
        check("[fd00::1]:4711", "[::]:5000", "[fd00::1]:5000");
        check("10.0.0.1:4711", "pi2:5000", "pi2:5000");
    }
}

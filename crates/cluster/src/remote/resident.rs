//! A node in the process of its own head: it shares the head's data, and hears of it over memory. Others reach it as they
//! reach every node.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, sync_channel};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result};
use bonfire_wire::proto::frame::Body;
use bonfire_wire::{memory_link, proto};

use super::gate::Gate;
use super::{Part, introduce, timeouts};
use crate::mail::mailbox;
use crate::roles::network::Grpc;
use crate::roles::node::{self, Desk, Equipment};
use crate::roles::registry::Registry;
use bonfire_run::run::Run;

/// A node of this process, on a thread of its own.
#[derive(Debug)]
pub struct Resident {
    /// Closes when the node is at its end.
    ended: Receiver<()>,
}

/// How long the node may take to end after its head.
const FAREWELL: Duration = Duration::from_secs(5);

impl Resident {
    /// Starts a node that has joined already, as rank 0.
    pub fn move_in(run: &Run, gate: &Gate, registry: &mut Registry) -> Result<Self> {
        let ticket = gate.ticket();
        let (post, mail) = mailbox();
        let part = Part {
            name: None,
            listen: None,
            wait: Duration::ZERO,
            patience: Duration::ZERO,
            cache: None,
            rank: Some(0),
        };
        let (listener, join) = introduce(&gate.wire, ticket, &part, &post)?;
        let (head_link, link) = (post.number(), gate.post.number());
        let (head, outbox) = memory_link(post.sink(head_link), gate.post.sink(link));
        let number = registry.admit(link, outbox, join);
        if let Some(node) = registry.get_mut(number) {
            node.is_ready = true;
        }
        let settings = run.job.settings.clone();
        let (wire, secret) = (Arc::clone(&gate.wire), ticket.secret.clone());
        let network = Arc::new(Grpc { wire, secret, timeouts: timeouts(&settings) });
        let (dataset, layout) = (Arc::clone(&run.job.dataset), run.job.layout().clone());
        let (end, ended) = sync_channel(1);
        thread::Builder::new()
            .name("resident".to_owned())
            .spawn(move || {
                let (_listener, _end) = (listener, end);
                let mut desk = Desk::new(number, head_link, head, post, mail, network);
                let equipment = Equipment { settings, dataset, layout, worker: None };
                if let Err(error) = node::serve(&mut desk, equipment, &mut |_| ()) {
                    let reason = format!("{error:#}");
                    // A head that is gone does not lose this node, but the run.
                    let _ = desk.head.send(Body::Trouble(proto::Trouble { reason, unreachable: 0 }));
                }
            })
            .context("cannot start a thread for a node")?;
        Ok(Self { ended })
    }

    /// Waits for its end, but not for long: one that hangs ends with the process.
    pub fn move_out(self) {
        let _ = self.ended.recv_timeout(FAREWELL);
    }
}

//! Who works for whom under a server: losses, relays, and workers that move from one parent to another.

use anyhow::Result;
use bonfire_strategy::server;
use bonfire_wire::proto;

use super::super::super::registry::{Node, Role};
use super::Serving;

impl Serving<'_, '_> {
    /// A relay's workers have changed. Nobody else has any, and none more than there are nodes.
    pub(super) fn offered(&mut self, node: u64, offer: &proto::Offer) -> Result<()> {
        let is_relay = |node: &Node| matches!(node.role, Some(Role::Relay { .. }));
        if !self.head.registry.get(node).is_some_and(is_relay) {
            // One that was a relay may still have said this.
            return Ok(());
        }
        let nodes = u32::try_from(self.head.registry.nodes().count()).unwrap_or(u32::MAX);
        self.offered.insert(node, offer.workers.min(nodes));
        if offer.workers > 0 {
            self.send_echo(node);
        }
        let lease = offer.lease.min(nodes.saturating_mul(2));
        if let Some(later) = self.behind.get_mut(&node) {
            *later = lease;
            return Ok(());
        }
        self.decide(server::Event::Lease { member: node, lease })
    }

    /// The relay with the fewest workers of those that a worker can reach, if there is any.
    pub(super) fn smallest_relay(&self, worker: u64) -> Option<u64> {
        let nodes = || self.head.registry.nodes();
        let workers = |relay: u64| {
            nodes()
                .filter(|node| matches!(node.role, Some(Role::Worker { relay: Some(at), .. }) if at == relay))
                .count()
        };
        let relays = nodes().filter(|node| matches!(node.role, Some(Role::Relay { .. })));
        let relays = relays.map(|node| node.number).filter(|&relay| !self.apart.contains(&(worker, relay)));
        relays.min_by_key(|&relay| workers(relay))
    }

    pub(super) fn lost(&mut self, node: &Node, reason: &str) -> Result<()> {
        let round = self.server.version() + 1;
        let consequence = match node.role {
            Some(Role::Worker { relay: None, .. }) => format!("round {round} goes on without it"),
            Some(Role::Worker { .. }) => "its relay goes on without it".to_owned(),
            Some(Role::Relay { .. }) => "its workers move elsewhere".to_owned(),
            Some(Role::Evaluator) => "the head measures instead".to_owned(),
            Some(Role::GroupMember { .. } | Role::GroupServer { .. }) | None => "the run goes on".to_owned(),
        };
        self.head.tell_lost(node, reason, &consequence);
        self.remove(node.number);
        self.offered.remove(&node.number);
        self.apart.retain(|&(worker, relay)| worker != node.number && relay != node.number);
        match node.role {
            Some(Role::Evaluator) => self.head.evaluator_lost(),
            Some(Role::Relay { .. }) => self.rehouse(node.number)?,
            _ => {}
        }
        self.decide(server::Event::Lost { member: node.number })?;
        match self.head.recruit(Role::Worker { number: 0, relay: None }) {
            Some(node) => {
                self.remove(node);
                self.offered.remove(&node);
                self.admit(node, 1)
            }
            None => Ok(()),
        }
    }

    /// Gives the workers of a relay that is gone another parent.
    pub(super) fn rehouse(&mut self, relay: u64) -> Result<()> {
        let orphans: Vec<(u64, usize)> = self
            .head
            .registry
            .nodes()
            .filter_map(|node| match node.role {
                Some(Role::Worker { number, relay: Some(at) }) if at == relay => Some((node.number, number)),
                _ => None,
            })
            .collect();
        for (node, number) in orphans {
            self.settle_worker(node, number)?;
        }
        Ok(())
    }

    /// Gives a worker that cannot reach its relay another parent: the head itself, if no relay is left for it.
    pub(super) fn move_away(&mut self, node: u64, relay: u64) -> Result<()> {
        match self.head.registry.get(node).and_then(|node| node.role) {
            Some(Role::Worker { number, relay: Some(at) }) if at == relay => {
                self.apart.insert((node, relay));
                self.settle_worker(node, number)
            }
            // Said of a relay that it was taken from meanwhile.
            _ => Ok(()),
        }
    }

    pub(super) fn settle_worker(&mut self, node: u64, number: usize) -> Result<()> {
        let role = Role::Worker { number, relay: self.smallest_relay(node) };
        if let Some(node) = self.head.registry.get_mut(node) {
            node.role = Some(role);
        }
        self.head.appoint(node, role, None);
        self.remove(node);
        match role {
            Role::Worker { relay: None, .. } => self.admit(node, 1),
            _ => Ok(()),
        }
    }
}

//! How members exchange, where the run file leaves that open: chosen once, by what their first rounds took.

use std::net::{IpAddr, SocketAddr};

use anyhow::Result;
use bonfire_run::schedule::Chosen;
use bonfire_strategy::choice::{self, Choice, Measured};
use bonfire_strategy::group;

use super::Leading;
use crate::roles::registry::Node;

impl Leading<'_, '_> {
    /// Whether the run leaves something open that is not decided yet.
    pub(super) fn is_open(&self) -> bool {
        self.head.leaves_open() && self.choosing.is_none()
    }

    /// Chooses what suits. If that is another way, the members stop, and go on in it from the same round.
    pub(super) fn choose(&mut self, measured: &Measured) -> Result<()> {
        if self.finished || self.stopping {
            return Ok(());
        }
        let choice = self.head.suits(measured);
        if !choice.way.int8 && choice.way.steps == 1 {
            let chosen = Chosen { int8: false, steps: 1, after: 0 };
            self.head.run.settle(chosen, choice.reason);
            return Ok(());
        }
        let after = choice::together_up_to(self.head.run.job.schedule.updates());
        let steps = choice.way.steps;
        let pace = (steps > 1).then_some(group::Pace { after, steps });
        self.choosing = Some(choice);
        self.decide(group::Event::Changed { pace })
    }

    /// Takes what was chosen with the view that is the first of that way.
    pub(super) fn settle(&mut self, view: &group::View) {
        let Some(Choice { way, reason, .. }) = self.choosing.take() else { return };
        let chosen = Chosen { int8: way.int8, steps: way.steps, after: view.pace.after };
        self.head.run.settle(chosen, reason);
    }

    /// Whether all members of the group are threads or processes of one machine.
    pub(super) fn is_one_machine(&self) -> bool {
        let members = self.view.iter().flat_map(|view| &view.members);
        is_one_machine(members.filter_map(|&member| self.head.registry.get(member)))
    }
}

/// Whether nodes are threads or processes of one machine.
pub(crate) fn is_one_machine<'a>(nodes: impl Iterator<Item = &'a Node>) -> bool {
    let nodes: Vec<&Node> = nodes.collect();
    let addresses = nodes.iter().map(|node| node.address.as_str());
    nodes.iter().all(|node| node.machine == nodes[0].machine) && is_one_place(addresses)
}

/// Whether addresses of nodes under one kernel are all in one place. Those of network namespaces are not.
fn is_one_place<'a>(addresses: impl Iterator<Item = &'a str>) -> bool {
    // Threads have no address on any network.
    let hosts: Vec<IpAddr> =
        addresses.filter_map(|text| text.parse().ok()).map(|at: SocketAddr| at.ip()).collect();
    let is_here = |host: &IpAddr| host.is_loopback() || host.is_unspecified();
    hosts.iter().all(is_here) || hosts.iter().all(|host| *host == hosts[0])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn namespaces_are_places_of_their_own() {
        let check = |addresses: &[&str], expect| {
            assert_eq!(is_one_place(addresses.iter().copied()), expect, "{addresses:?}");
        };
        check(&["node 1", "node 2"], true);
        check(&["127.0.0.1:5000", "127.0.0.1:5001"], true);
        check(&["0.0.0.0:5000", "127.0.0.1:5001", "[::1]:5001"], true);
        check(&["192.168.2.7:5000", "192.168.2.7:5001"], true);
        check(&["10.77.0.1:5000", "10.77.0.2:5000"], false);
        check(&["0.0.0.0:5000", "10.77.0.2:5000"], false);
    }
}

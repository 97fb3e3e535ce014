//! How a group is formed: who is told of whom, and who takes the state first.

use bonfire_run::run_file::Topology;
use bonfire_strategy::group;
use bonfire_wire::proto;
use bonfire_wire::proto::frame::Body;

use super::super::super::registry::{Node, Role};
use super::Leading;

impl Leading<'_, '_> {
    /// Names the members of a view to each other, and to those who sum for them.
    pub(super) fn form(&mut self, view: group::View, source: Option<u64>, behind: Vec<u64>) {
        let peers: Vec<proto::Peer> = view
            .members
            .iter()
            .filter_map(|&member| self.head.registry.get(member))
            .map(Node::peer)
            .collect();
        let servers = self.servers();
        let summing: Vec<proto::Peer> =
            servers.iter().filter_map(|&server| self.head.registry.get(server)).map(Node::peer).collect();
        // Without a source all begin from a checkpoint, which only the head has, or from the seed, which all have.
        let from_head = source.is_none() && view.round > 0;
        // What is due with the state of an earlier round is lost with the member that had it.
        self.due = self.due.take_if(|(round, _)| *round == view.round);
        self.asked.clear();
        self.fetch = None;
        self.settle(&view);
        self.first_rounds.begin_again(view.round);
        self.reshares = false;
        self.head.share_out(&view.members, view.round);
        let shares = self.head.balance.shares(&view.members).unwrap_or_default();
        for &member in view.members.iter().chain(&servers) {
            let group = proto::Group {
                generation: view.generation,
                members: peers.clone(),
                round: view.round,
                units_done: view.units_done,
                behind: from_head || behind.contains(&member),
                steps: view.pace.steps,
                steps_after: view.pace.after,
                int8: self.head.run.job.schedule.int8,
                measured: self.is_open(),
                servers: summing.clone(),
                shares: shares.clone(),
            };
            self.send(&[member], &Body::Group(group));
        }
        if let Some(source) = source.filter(|_| view.round > 0 && (!behind.is_empty() || self.due.is_some()))
        {
            self.fetch(source, view.round, false);
        }
        self.rounds.retain(|round, _| *round <= view.round);
        self.view = Some(view);
    }

    /// Those who only sum, in their order.
    fn servers(&self) -> Vec<u64> {
        let place = |node: &Node| match node.role {
            Some(Role::GroupServer { number }) => Some((number, node.number)),
            _ => None,
        };
        let mut servers: Vec<(usize, u64)> = self.head.registry.nodes().filter_map(place).collect();
        servers.sort_unstable();
        servers.into_iter().map(|(_, node)| node).collect()
    }

    /// The number of a server that is missing while others work.
    pub(super) fn vacant_server(&self) -> Option<usize> {
        let Topology::Allreduce { servers, .. } = self.head.run.job.settings.topology else { return None };
        let is_taken = |number: usize| {
            self.head.registry.nodes().any(|node| node.role == Some(Role::GroupServer { number }))
        };
        (0..servers).find(|&number| !is_taken(number)).filter(|_| self.head.somebody_works())
    }
}

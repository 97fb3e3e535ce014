//! How a group is formed: who is told of whom, and who learns the state.

use bonfire_run::run_file::Topology;
use bonfire_strategy::group;
use bonfire_wire::proto;
use bonfire_wire::proto::frame::Body;

use super::super::super::registry::{Node, Role};
use super::Leading;

impl Leading<'_, '_> {
    /// Names the members of a view to each other, to those who learn from them, and to those who sum for them.
    pub(super) fn form(&mut self, view: group::View, source: Option<u64>, learners: &[u64]) {
        let servers = self.servers();
        let (members, learning, summing) =
            (self.peers(&view.members), self.peers(learners), self.peers(&servers));
        // What is due with the state of an earlier round is lost with the member that had it.
        if self.fetch.as_ref().is_none_or(|fetch| source.is_none() || !view.members.contains(&fetch.from)) {
            self.fetch = None;
            self.due = self.due.take_if(|(round, _)| *round == view.round);
        }
        self.teaches = !learners.is_empty();
        self.settle(&view);
        self.first_rounds.begin_again(view.round);
        self.reshares = false;
        self.head.share_out(&view.members, view.round);
        let shares = self.head.balance.shares(&view.members).unwrap_or_default();
        for &member in view.members.iter().chain(learners).chain(&servers) {
            let group = proto::Group {
                generation: view.generation,
                members: members.clone(),
                round: view.round,
                units_done: view.units_done,
                // From a checkpoint, which only the head has, or from the seed, which all have.
                behind: source.is_none(),
                steps: view.pace.steps,
                steps_after: view.pace.after,
                int8: self.head.run.job.schedule.int8,
                measured: self.is_open(),
                servers: summing.clone(),
                shares: shares.clone(),
                learners: learning.clone(),
            };
            self.send(&[member], &Body::Group(group));
        }
        if let Some(source) = source.filter(|_| self.due.is_some() && self.fetch.is_none()) {
            self.fetch(source, view.round, false);
        }
        self.rounds.retain(|round, _| *round <= view.round);
        self.view = Some(view);
    }

    fn peers(&self, nodes: &[u64]) -> Vec<proto::Peer> {
        nodes.iter().filter_map(|&node| self.head.registry.get(node)).map(Node::peer).collect()
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

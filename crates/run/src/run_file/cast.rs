//! The roles that a run has to give, in the order in which they are given.

use super::{RelayPlan, Topology};

/// One of the roles that a run has to give.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wanted {
    /// Of the relay before it, if there is one.
    Worker,
    Relay(RelayPlan),
    GroupMember,
    /// Only sums for the members.
    GroupServer,
    Evaluator,
}

/// Which roles a run has beside its head, in the order in which nodes get them.
pub fn wanted(topology: &Topology, evaluator: bool) -> Vec<Wanted> {
    let mut wanted = match topology {
        Topology::Single { workers } => vec![Wanted::Worker; *workers],
        Topology::Flat { workers, backup, .. } => vec![Wanted::Worker; workers + backup],
        Topology::Allreduce { workers, servers, .. } => {
            [vec![Wanted::GroupMember; *workers], vec![Wanted::GroupServer; *servers]].concat()
        }
        Topology::Hierarchical { relays, .. } => relays
            .iter()
            .flat_map(|relay| {
                std::iter::once(Wanted::Relay(*relay)).chain(vec![Wanted::Worker; relay.workers])
            })
            .collect(),
    };
    if evaluator {
        wanted.push(Wanted::Evaluator);
    }
    wanted
}

/// `2 workers, 1 evaluator`
pub fn in_words(missing: &[Wanted]) -> String {
    let is_worker = |wanted: &&Wanted| matches!(wanted, Wanted::Worker | Wanted::GroupMember);
    let count = |what: &str, count: usize| match count {
        0 => None,
        1 => Some(format!("1 {what}")),
        _ => Some(format!("{count} {what}s")),
    };
    let relays = missing.iter().filter(|wanted| matches!(wanted, Wanted::Relay(_))).count();
    let evaluators = missing.iter().filter(|wanted| **wanted == Wanted::Evaluator).count();
    let servers = missing.iter().filter(|wanted| **wanted == Wanted::GroupServer).count();
    let parts = [
        count("relay", relays),
        count("worker", missing.iter().filter(is_worker).count()),
        count("server", servers),
        count("evaluator", evaluators),
    ];
    parts.into_iter().flatten().collect::<Vec<_>>().join(", ")
}

/// What a smaller number of nodes can be. A relay that nobody is left to work for works itself.
pub fn reduced(wanted: &[Wanted], nodes: usize) -> Vec<Wanted> {
    let mut some = wanted[..nodes.min(wanted.len())].to_vec();
    if let Some(last @ Wanted::Relay(_)) = some.last_mut() {
        *last = Wanted::Worker;
    }
    some
}

/// How many of these train.
pub fn workers(wanted: &[Wanted]) -> usize {
    wanted.iter().filter(|wanted| matches!(wanted, Wanted::Worker | Wanted::GroupMember)).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn roles_are_given_in_the_order_of_the_run_file() {
        let rule = Topology::Single { workers: 1 }.rule();
        let plan = |workers, is_async| RelayPlan { is_async, workers };
        let relays = vec![plan(2, false), plan(1, true)];
        let hierarchical = Topology::Hierarchical { rule, relays };
        let expect = [
            Wanted::Relay(plan(2, false)),
            Wanted::Worker,
            Wanted::Worker,
            Wanted::Relay(plan(1, true)),
            Wanted::Worker,
            Wanted::Evaluator,
        ];
        assert_eq!(wanted(&hierarchical, true), expect);
        let flat = Topology::Flat { rule, workers: 2, backup: 1 };
        assert_eq!(wanted(&flat, false), [Wanted::Worker; 3]);
    }

    #[test]
    fn fewer_nodes_than_wanted_still_train() {
        let rule = Topology::Single { workers: 1 }.rule();
        let plan = RelayPlan { is_async: false, workers: 2 };
        let all = wanted(&Topology::Hierarchical { rule, relays: vec![plan; 2] }, true);
        let (relay, worker) = (Wanted::Relay(plan), Wanted::Worker);
        let check = |nodes, expect: &[Wanted]| assert_eq!(reduced(&all, nodes), expect, "{nodes} nodes");
        check(0, &[]);
        check(1, &[worker]);
        check(3, &[relay, worker, worker]);
        check(4, &[relay, worker, worker, worker]);
        check(6, &[relay, worker, worker, relay, worker, worker]);
        check(9, &all);
    }

    #[test]
    fn what_is_missing_is_said_in_words() {
        let rule = Topology::Single { workers: 1 }.rule();
        let relays = vec![RelayPlan { is_async: false, workers: 2 }; 2];
        let all = wanted(&Topology::Hierarchical { rule, relays }, true);
        let check =
            |joined: usize, expect: &str| assert_eq!(in_words(&all[joined..]), expect, "{joined} joined");
        check(0, "2 relays, 4 workers, 1 evaluator");
        check(3, "1 relay, 2 workers, 1 evaluator");
        check(6, "1 evaluator");
        check(7, "");
    }
}

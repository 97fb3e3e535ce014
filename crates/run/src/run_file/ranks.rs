use bonfire_yaml::YamlError;

use super::arch::{RelayPlan, Topology};

/// The processes that a launcher started for a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ranks {
    pub size: usize,
    /// Whether the first one is the head only; otherwise it is a node too.
    pub head_apart: bool,
    /// Whether the launcher is one of MPI's.
    pub mpi: bool,
}

impl Ranks {
    /// How many workers there are if the run file does not say.
    pub(super) fn workers(self, evaluator: bool) -> usize {
        self.size.saturating_sub(usize::from(self.head_apart) + usize::from(evaluator)).max(1)
    }

    /// Whether there are as many as the run asks for.
    pub(super) fn check(self, topology: &Topology, evaluator: bool) -> Result<(), YamlError> {
        let needed = topology.nodes() + usize::from(evaluator) + usize::from(self.head_apart);
        if needed == self.size {
            return Ok(());
        }
        let mut parts = asked(topology);
        parts.extend(evaluator.then(|| "an evaluator".to_owned()));
        parts.extend(self.head_apart.then(|| "a head of its own".to_owned()));
        let (parts, size) = (parts.join(", "), self.size);
        Err(YamlError::new(format!(
            "the run asks for {parts}: that is {needed} ranks, but {size} were started; \
             start {needed}, or change the run file"
        )))
    }
}

/// What a topology asks for, in words.
fn asked(topology: &Topology) -> Vec<String> {
    let count = |number: usize, what: &str| match number {
        1 => format!("1 {what}"),
        _ => format!("{number} {what}s"),
    };
    match topology {
        Topology::Allreduce { workers, servers: servers @ 1.., .. } => {
            vec![count(*workers, "worker"), count(*servers, "server")]
        }
        Topology::Single { workers }
        | Topology::Allreduce { workers, .. }
        | Topology::Flat { workers, backup: 0, .. } => {
            vec![count(*workers, "worker")]
        }
        Topology::Flat { workers, backup, .. } => {
            vec![count(*workers, "worker"), count(*backup, "backup worker")]
        }
        Topology::Hierarchical { relays, .. } => {
            let workers = relays.iter().map(|relay: &RelayPlan| relay.workers).sum();
            vec![count(relays.len(), "relay"), count(workers, "worker")]
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Overrides, Settings};
    use super::*;

    /// The number of workers, or what is wrong.
    fn read(text: &str, size: usize, head_apart: bool) -> Result<usize, String> {
        let overrides =
            Overrides { ranks: Some(Ranks { size, head_apart, mpi: false }), ..Overrides::default() };
        let read = Settings::read("run.yml", text, &overrides, 2);
        read.map(|settings| settings.workers).map_err(|error| error.to_string())
    }

    #[test]
    fn ranks_are_workers() {
        let check = |text: &str, size: usize, head_apart: bool, workers: usize| {
            assert_eq!(read(text, size, head_apart), Ok(workers), "{text}");
        };
        check("", 3, false, 3);
        check("", 3, true, 2);
        check("{evaluator: true}", 3, false, 2);
        check("{workers: 3}", 3, false, 3);
        check("{arch: flat, parameter_server: {num_workers: 2, backup_workers: 1}}", 3, false, 2);
        check("{arch: allreduce, allreduce: {num_workers: 4}, evaluator: true}", 6, true, 4);
        let tree =
            "{arch: hierarchical, global_server: {local_servers: [{num_workers: 2}, {num_workers: 1}]}}";
        check(tree, 5, false, 3);
    }

    #[test]
    fn too_few_or_too_many_are_refused() {
        let check = |text: &str, size: usize, expect: &str| {
            let error = read(text, size, false).expect_err("refused");
            assert!(error.contains(expect), "{error}");
        };
        check("{workers: 2}", 3, "2 workers: that is 2 ranks, but 3 were started");
        check(
            "{arch: allreduce, allreduce: {num_workers: 4}}",
            3,
            "4 workers: that is 4 ranks, but 3 were started",
        );
        let tree =
            "{arch: hierarchical, evaluator: true, global_server: {local_servers: [{num_workers: 2}]}}";
        check(tree, 3, "1 relay, 2 workers, an evaluator: that is 4 ranks");
        let backup = "{arch: flat, parameter_server: {num_workers: 2, backup_workers: 1}}";
        check(backup, 2, "2 workers, 1 backup worker: that is 3 ranks");
    }
}

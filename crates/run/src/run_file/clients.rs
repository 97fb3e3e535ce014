//! Rounds as the federated world has them: data that stay where they are, and workers that take turns.

use bonfire_yaml::{Tree, YamlError};

use super::{Distribute, ReduceOp, RunFile, Topology};

/// Into how many shares a round is cut, if what the file says of its workers makes sense.
pub(super) fn workers(tree: &Tree, file: &RunFile, topology: &Topology) -> Result<usize, YamlError> {
    if file.distribute == Distribute::Own {
        check_own(tree, file, topology)?;
    }
    let (all, Some(clients)) = (topology.workers(), file.clients_per_round) else {
        return Ok(topology.workers());
    };
    let reason = match topology {
        _ if clients == 0 || clients > all => {
            format!("must be from 1 to the number of workers, which is {all}")
        }
        Topology::Allreduce { op: ReduceOp::Mean, .. } if !topology.uses_mpi() => return Ok(clients),
        _ => "is only for `arch: allreduce` with `op: mean` over our own links".to_owned(),
    };
    Err(tree.wrong("clients_per_round", reason))
}

fn check_own(tree: &Tree, file: &RunFile, topology: &Topology) -> Result<(), YamlError> {
    if matches!(topology, Topology::Single { .. }) {
        let message = "own is for nodes that have data of their own: name `arch: allreduce` or a server";
        return Err(tree.wrong("distribute", message));
    }
    if file.evaluator {
        let message = "cannot be given together with `distribute: own`: the head measures, on its own data";
        return Err(tree.wrong("evaluator", message));
    }
    Ok(())
}

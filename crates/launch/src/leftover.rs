//! What is left on hosts of runs that are over: a host that was lost has not heard of their end.
//!
//! Only runs of this machine's list are touched, and of those only such as were fetched, or went on elsewhere. What one
//! left that can still be fetched is told of, and stays.

use crate::checkup::CheckedFleet;
use crate::run_list::{RunList, RunRecord};
use crate::trouble::Trouble;

impl CheckedFleet {
    /// Sweeps all hosts that have the program. Returns what there is to say of it.
    pub fn sweep(&self, list: &RunList) -> Vec<String> {
        let runs = list.all();
        let ours = |host: usize, is_wanted: fn(&RunRecord) -> bool| -> Vec<&str> {
            let facts = self.checkups[host].facts.as_ref();
            let there = facts.map(|facts| facts.runs.as_slice()).unwrap_or_default();
            let ours = runs.iter().filter(|run| is_wanted(run) && there.contains(&run.id));
            ours.map(|run| run.id.as_str()).collect()
        };
        let is_over = |run: &RunRecord| run.is_collected && !run.is_kept;
        let hosts: Vec<usize> =
            self.with_program().into_iter().filter(|&host| !ours(host, is_over).is_empty()).collect();
        let place = self.place();
        let swept = self.fleet.each_of(&hosts, |number, host| {
            let mut arguments = vec!["host", "sweep"];
            arguments.extend(ours(number, is_over));
            host.ask_json::<Vec<String>>(&place, &arguments)
        });
        let mut said = Vec::new();
        for (&host, swept) in hosts.iter().zip(swept) {
            let name = self.fleet.hosts[host].name();
            said.extend(in_words(name, swept));
        }
        let is_unfetched = |run: &RunRecord| !run.is_collected && !run.is_detached && !run.is_followed();
        for (number, host) in self.fleet.hosts.iter().enumerate() {
            let unfetched = ours(number, is_unfetched);
            let is_here = |run: &&RunRecord| {
                let head = run.processes.first();
                unfetched.contains(&run.id.as_str()) && head.is_some_and(|head| head.name == host.name())
            };
            for RunRecord { id, out, .. } in runs.iter().filter(is_here) {
                let (name, out) = (host.name(), out.display());
                said.push(format!(
                    "{name}: run {id} was never fetched: `bonfire attach {id}` does that, `bonfire run --resume {out}` \
                     goes on with it"
                ));
            }
        }
        said
    }
}

fn in_words(name: &str, swept: Result<Vec<String>, Trouble>) -> Option<String> {
    match swept {
        Ok(runs) if runs.is_empty() => None,
        Ok(runs) => Some(format!("{name}: took away what was left of {}", runs.join(", "))),
        Err(trouble) => Some(format!("{name}: what is left of earlier runs stays there: {trouble}")),
    }
}

//! What energy a run took, host by host, by the samples of its machines.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::EnergyLabel;
use crate::event::{Event, SampleLine};
use crate::phases::{Phase, Phases};

/// The energy of a host during a run.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct HostEnergy {
    pub wh: f64,
    /// Of that, while its workers waited for others or for the wire.
    pub waiting_wh: f64,
    /// Where the figure comes from.
    pub energy: EnergyLabel,
}

/// Adds up what machines took.
#[derive(Clone, Debug, Default)]
pub struct EnergyBook {
    hosts: BTreeMap<String, HostEnergy>,
}

impl EnergyBook {
    pub fn count(&mut self, event: &Event) {
        let Event::Sampled { seconds, lines, .. } = event else { return };
        // Of workers without watts of their own these are in the line that has no phases of work.
        let mut inside = Phases::default();
        let has_watts = |line: &&SampleLine| line.machine.is_some_and(|machine| machine.watts.is_some());
        lines.iter().filter(|line| !has_watts(line)).for_each(|line| inside.add_all(&line.phases));
        for SampleLine { name, phases, machine, .. } in lines {
            let Some((watts, energy)) = machine.and_then(|machine| machine.watts.zip(machine.energy)) else {
                continue;
            };
            let wh = watts * seconds / 3600.0;
            let own = if phases.trains() { phases } else { &inside };
            let host =
                self.hosts.entry(name.clone()).or_insert(HostEnergy { wh: 0.0, waiting_wh: 0.0, energy });
            host.wh += wh;
            host.waiting_wh += wh * own.share(Phase::Wait);
            host.energy = host.energy.max(energy);
        }
    }

    /// By the names of the hosts.
    #[must_use]
    pub fn hosts(&self) -> &BTreeMap<String, HostEnergy> {
        &self.hosts
    }

    /// Of all together, with the least sure of their labels.
    #[must_use]
    pub fn all(&self) -> Option<HostEnergy> {
        let add = |sum: HostEnergy, host: HostEnergy| HostEnergy {
            wh: sum.wh + host.wh,
            waiting_wh: sum.waiting_wh + host.waiting_wh,
            energy: sum.energy.max(host.energy),
        };
        self.hosts.values().copied().reduce(add)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::MachineSample;

    fn line(name: &str, phases: &[(Phase, f64)], watts: Option<(f64, EnergyLabel)>) -> SampleLine {
        let mut counted = Phases::default();
        phases.iter().for_each(|&(phase, seconds)| counted.add_s(phase, seconds));
        let machine = watts.map(|(watts, energy)| MachineSample {
            watts: Some(watts),
            energy: Some(energy),
            ..MachineSample::default()
        });
        SampleLine { node: None, name: name.to_owned(), phases: counted, machine }
    }

    #[test]
    fn hosts_are_added_up_and_waiting_is_told_apart() {
        use EnergyLabel::{Given, Measured, Modelled};
        let mut book = EnergyBook::default();
        assert_eq!(book.all(), None);
        let lines = vec![
            line("pi1", &[(Phase::Backward, 6.0), (Phase::Wait, 2.0)], Some((36.0, Modelled))),
            line("pi2", &[(Phase::Backward, 8.0)], Some((72.0, Given))),
            line("pi3", &[(Phase::Backward, 8.0)], None),
            line("run", &[(Phase::Evaluate, 1.0)], Some((3.6, Measured))),
        ];
        let event = Event::Sampled { round: 1, seconds: 100.0, lines };
        book.count(&event);
        book.count(&event);
        let hosts = book.hosts();
        assert_eq!(hosts["pi1"], HostEnergy { wh: 2.0, waiting_wh: 0.5, energy: Modelled });
        assert_eq!(hosts["pi2"], HostEnergy { wh: 4.0, waiting_wh: 0.0, energy: Given });
        assert_eq!(hosts.len(), 3, "nothing is known of pi3");
        let all = book.all().expect("all");
        assert!((all.wh - 6.2).abs() < 1e-9 && all.energy == Modelled, "{all:?}");
    }

    #[test]
    fn workers_of_a_process_wait_at_the_cost_of_its_machine() {
        let mut book = EnergyBook::default();
        let worker = |wait| line("worker", &[(Phase::Backward, 4.0 - wait), (Phase::Wait, wait)], None);
        let lines = vec![worker(1.0), worker(3.0), line("run", &[], Some((36.0, EnergyLabel::Measured)))];
        book.count(&Event::Sampled { round: 1, seconds: 100.0, lines });
        assert_eq!(book.all().map(|all| (all.wh, all.waiting_wh)), Some((1.0, 0.5)));
    }
}

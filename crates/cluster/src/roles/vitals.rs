//! What a node tells the head of itself, once a second at most: where its time went, and how its machine is.

use std::path::Path;
use std::time::{Duration, Instant};

use bonfire_report::{EnergyLabel, EnergyMeter, MachineSample, MachineWatch, Phase, Phases, Watts};
use bonfire_wire::proto;

use super::claim::seconds;

const EVERY: Duration = Duration::from_secs(1);

/// The first time it is told sooner: a run may be over within a second, and what its hosts took is wanted of it, too.
const FIRST: Duration = Duration::from_millis(10);

/// Counts what is to be told next.
#[derive(Debug)]
pub(crate) struct Vitals {
    told: Instant,
    /// After how long the next.
    every: Duration,
    /// Of a node that has a process of its own.
    machine: Option<(MachineWatch, Option<EnergyMeter>)>,
}

impl Vitals {
    /// Of a node in the process of its head, which looks at their machine itself.
    pub(crate) fn of_thread(now: Instant) -> Self {
        Self { told: now, every: FIRST, machine: None }
    }

    /// Of one in a process of its own, on a machine that takes such watts, if that was said.
    pub(crate) fn of_process(watts: Option<Watts>, now: Instant) -> Self {
        let root = Path::new("/");
        let machine = (MachineWatch::start(root, now), EnergyMeter::start(root, watts, now));
        Self { told: now, every: FIRST, machine: Some(machine) }
    }

    /// What to tell of these phases, if it is time.
    pub(crate) fn tell(&mut self, now: Instant, phases: &mut Phases) -> Option<proto::Vitals> {
        if now.saturating_duration_since(self.told) < self.every {
            return None;
        }
        (self.told, self.every) = (now, EVERY);
        let machine = self.machine.as_mut().map(|(machine, energy)| machine.look(now, energy.as_mut()));
        let (phases, machine) = (phases.take(), machine.unwrap_or_default());
        Some(proto::Vitals {
            data_s: phases.get(Phase::Data),
            forward_s: phases.get(Phase::Forward),
            backward_s: phases.get(Phase::Backward),
            encode_s: phases.get(Phase::Encode),
            wait_s: phases.get(Phase::Wait),
            apply_s: phases.get(Phase::Apply),
            evaluate_s: phases.get(Phase::Evaluate),
            cores: machine.cores,
            busy: machine.busy,
            rss_mb: machine.rss_mb,
            received_bytes_per_s: machine.received_bytes_per_s,
            sent_bytes_per_s: machine.sent_bytes_per_s,
            celsius: machine.celsius,
            throttled: machine.throttled,
            watts: machine.watts,
            energy: machine.energy.map(|label| label as u32),
        })
    }
}

/// The phases that a node tells of, as far as they can be.
pub(crate) fn phases(vitals: &proto::Vitals) -> Phases {
    let mut phases = Phases::default();
    for (phase, claimed) in [
        (Phase::Data, vitals.data_s),
        (Phase::Forward, vitals.forward_s),
        (Phase::Backward, vitals.backward_s),
        (Phase::Encode, vitals.encode_s),
        (Phase::Wait, vitals.wait_s),
        (Phase::Apply, vitals.apply_s),
        (Phase::Evaluate, vitals.evaluate_s),
    ] {
        phases.add_s(phase, seconds(claimed));
    }
    phases
}

/// More than any figure of a machine is.
const MOST: f64 = 1e12;

/// What a node tells of its machine, as far as it can be.
pub(crate) fn machine(vitals: &proto::Vitals) -> Option<MachineSample> {
    let sane = |claimed: Option<f64>| claimed.filter(|number| (-MOST..MOST).contains(number));
    let sample = MachineSample {
        cores: sane(vitals.cores),
        busy: sane(vitals.busy),
        rss_mb: sane(vitals.rss_mb),
        received_bytes_per_s: sane(vitals.received_bytes_per_s),
        sent_bytes_per_s: sane(vitals.sent_bytes_per_s),
        celsius: sane(vitals.celsius),
        throttled: vitals.throttled,
        watts: sane(vitals.watts),
        energy: vitals.energy.and_then(|label| EnergyLabel::ALL.get(label as usize).copied()),
    };
    (sample != MachineSample::default()).then_some(sample)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn are_told_once_a_second_at_most() {
        let start = Instant::now();
        let mut vitals = Vitals::of_thread(start);
        let mut counted = Phases::default();
        assert_eq!(vitals.tell(start + FIRST / 2, &mut counted), None);
        assert!(vitals.tell(start + FIRST, &mut counted).is_some(), "the first time sooner");
        counted.add_s(Phase::Backward, 0.75);
        assert_eq!(vitals.tell(start + EVERY, &mut counted), None);
        counted.add_s(Phase::Wait, 0.25);
        let told = vitals.tell(start + FIRST + EVERY, &mut counted).expect("it is time");
        assert_eq!((told.backward_s, told.wait_s, machine(&told)), (0.75, 0.25, None));
        assert_eq!(phases(&told).iter().count(), 2);
        assert_eq!(vitals.tell(start + FIRST + EVERY, &mut counted), None);
        assert_eq!(counted, Phases::default(), "told, and so counted anew");
    }

    #[test]
    fn what_cannot_be_is_not_believed() {
        let told = proto::Vitals {
            backward_s: f64::NAN,
            wait_s: -1.0,
            cores: Some(f64::INFINITY),
            rss_mb: Some(1e300),
            celsius: Some(61.5),
            ..proto::Vitals::default()
        };
        assert_eq!(phases(&told), Phases::default());
        let expect = MachineSample { celsius: Some(61.5), ..MachineSample::default() };
        assert_eq!(machine(&told), Some(expect));
    }
}

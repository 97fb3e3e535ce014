//! Which way of exchanging suits a run, by what its first rounds took: chosen where the run file leaves that open, and
//! otherwise said.

use bonfire_report::Event;
use bonfire_run::run_file::{Compression, LocalSteps, ReduceOp, Settings, Topology};
use bonfire_strategy::choice::{self, Choice, Freedom, Measured, Way};

use super::Head;

impl Head<'_> {
    /// Whether the run leaves something open that is not decided yet.
    pub(super) fn leaves_open(&self) -> bool {
        is_auto(&self.run.job.settings) && self.run.progress.chosen.is_none()
    }

    /// How many units workers may do between two exchanges in what is left of the run.
    fn most_steps(&self) -> u64 {
        let (schedule, progress) = (&self.run.job.schedule, &self.run.progress);
        let rounds = schedule.updates();
        let done = progress.round.max(choice::together_up_to(rounds));
        choice::most_steps(schedule.rounds_per_epoch, rounds.saturating_sub(done))
    }

    /// What suits, as far as the run file leaves it open.
    pub(super) fn suits(&self, measured: &Measured) -> Choice {
        let job = &self.run.job;
        let (file, pace) = (&job.settings.file, job.schedule.pace);
        let freedom = Freedom {
            compression: file.compression == Compression::Auto,
            steps: file.local_steps == LocalSteps::Auto,
            most_steps: self.most_steps(),
        };
        // Rounds may be about to become longer, as the run file says.
        let longer = if self.run.progress.round <= pace.after { pace.steps as f64 } else { 1.0 };
        let (compute_s, alone_s) = (measured.compute_s * longer, measured.alone_s * longer);
        let measured = Measured { compute_s, alone_s, ..*measured };
        let mut choice = choice::choose(&measured, freedom);
        if let Some(alone) = choice::alone(&measured, choice.exchange_s).filter(|_| !measured.is_one_machine)
        {
            choice.reason += &format!("; {alone}");
        }
        choice
    }

    /// Says where the time goes and what would help.
    pub(super) fn advise(&mut self, measured: &Measured) {
        let settings = &self.run.job.settings;
        let advice = advice(measured, freedom(settings, self.most_steps()));
        if let Some(message) = advice.filter(|_| !is_auto(settings) && !measured.is_one_machine) {
            self.run.tell(Event::Noted { message });
        }
    }
}

fn is_auto(settings: &Settings) -> bool {
    settings.file.compression == Compression::Auto || settings.file.local_steps == LocalSteps::Auto
}

/// What a run with these settings, which may do so many steps between two exchanges, could do about a slow wire.
fn freedom(settings: &Settings, most_steps: u64) -> Freedom {
    let topology = &settings.topology;
    let is_free = match topology {
        Topology::Allreduce { op, .. } => *op == ReduceOp::Mean && !topology.uses_mpi(),
        Topology::Flat { .. } | Topology::Hierarchical { .. } => topology.is_sync(),
        Topology::Single { .. } => false,
    };
    Freedom {
        compression: is_free && settings.file.compression == Compression::None,
        steps: is_free && settings.file.local_steps.steps() == 1,
        most_steps,
    }
}

/// Where the time goes and what would help, if the wire takes more than a third of it; and whether one machine alone
/// would be faster.
fn advice(measured: &Measured, freedom: Freedom) -> Option<String> {
    let alone = choice::alone(measured, measured.exchange_s);
    if !choice::is_wire_bound(measured) {
        return alone;
    }
    let choice = choice::choose(measured, freedom);
    let Way { int8, steps } = choice.way;
    let keys = [
        int8.then(|| "`compression: int8`".to_owned()),
        (steps > 1).then(|| format!("`local_steps: {steps}`")),
    ];
    let keys: Vec<String> = keys.into_iter().flatten().collect();
    let mut said = choice.reason;
    if !keys.is_empty() {
        let before = measured.compute_s + measured.exchange_s;
        let times = before / (measured.compute_s + choice.exchange_s);
        said += &format!(", {times:.1} times as fast; to have that: {}", keys.join(" and "));
    }
    Some(alone.into_iter().fold(said, |said, alone| format!("{said}; {alone}")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use bonfire_run::run_file::Overrides;
    use bonfire_strategy::choice::Through;

    fn settings(rest: &str) -> Settings {
        Settings::read("run.yml", &format!("{{{rest}}}"), &Overrides::default(), 1).expect("a run file")
    }

    #[test]
    fn who_waits_for_the_wire_is_told_so() {
        let check = |exchange_s: f64, rest: &str, expect: Option<&str>| {
            let measured = Measured {
                compute_s: 0.4,
                exchange_s,
                latency_s: 0.0,
                alone_s: 1.0,
                sent_bytes: 1e6,
                members: 3,
                through: if rest.contains("flat") { Through::Server } else { Through::Members },
                is_one_machine: false,
            };
            assert_eq!(advice(&measured, freedom(&settings(rest), 50)).as_deref(), expect, "{rest}");
        };
        let group = "arch: allreduce, allreduce: {num_workers: 3}";
        check(0.1, group, None);
        let wire = "the wire takes 1600 ms of 2000 ms: 1.0 MB";
        let help = "int8 and 16 local steps: 25 ms, 4.7 times as fast; \
                    to have that: `compression: int8` and `local_steps: 16`";
        let alone = "one machine alone: 1000 ms, 2.0 times as fast";
        check(1.6, group, Some(&format!("{wire} at 5 Mbit/s; {help}; {alone}")));
        let server = "arch: flat, parameter_server: {num_workers: 3}";
        check(1.6, server, Some(&format!("{wire} through the server's link at 5 Mbit/s; {help}; {alone}")));
        let adasum = "arch: allreduce, allreduce: {num_workers: 3, op: adasum}";
        check(1.6, adasum, Some(&format!("{wire} at 5 Mbit/s; {alone}")));
        check(0.5, adasum, Some("the wire takes 500 ms of 900 ms: 1.0 MB at 16 Mbit/s"));
    }
}

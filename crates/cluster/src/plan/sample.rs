//! Hosts and work in round numbers, for tests.

use super::figures::{
    CodecFigures, FrameFigures, HostFigures, InRounds, LinkFigures, StepFigures, Work, WorkFigures,
};

/// A host whose step takes a second and whose wire's threads take no time.
pub(super) fn host(name: &str, rate: f64, burst: f64) -> HostFigures {
    let free = FrameFigures { frame_s: 0.0, byte_s: 0.0 };
    let step = |batch: usize, core_s: f64| StepFigures {
        threads: 1,
        batch,
        work: Work { core_s, width: 1.0 },
        settled: Vec::new(),
        spread: vec![1.0],
    };
    let none = Work { core_s: 0.0, width: 1.0 };
    let codec = |name: &str| CodecFigures { name: name.to_owned(), ..CodecFigures::default() };
    HostFigures {
        name: name.to_owned(),
        machine: name.to_owned(),
        cores: 1,
        allowance: 1.0,
        hold_s: 0.0,
        memory_mb: None,
        power: None,
        work: WorkFigures {
            steps: vec![step(16, 0.5), step(32, 1.0), step(64, 2.0)],
            update: none,
            together: none,
            codecs: vec![codec("none"), codec("f16"), codec("int8")],
            hop_s: 0.0,
            memory_mb: None,
            crowds: Vec::new(),
            factors: [none; 3],
            alone_s: None,
        },
        link: LinkFigures {
            up: rate,
            down: rate,
            burst,
            latency_s: 0.0,
            wake_s: 0.0,
            rest_s: 0.0,
            send: free,
            receive: free,
        },
        in_rounds: InRounds::default(),
    }
}

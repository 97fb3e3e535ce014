//! A node that measures parameters while the others train.

use std::time::{Duration, Instant};

use anyhow::{Result, bail, ensure};
use bonfire_report::{Phase, Phases};
use bonfire_wire::proto::frame::Body;
use bonfire_wire::{Frame, proto};

use super::node::{Connections, Next};
use crate::mail::News;
use bonfire_exchange::bytes_to_floats;
use bonfire_run::job::Job;
use bonfire_run::run::Evaluated;

/// Of more classes the table of who was taken for whom is not sent: a frame is no place for it.
const MOST_CLASSES: usize = 256;

/// Measures what the head sends, one after the other.
pub(crate) fn evaluate(connections: &mut Connections, job: &mut Job) -> Result<Next> {
    let mut phases = Phases::default();
    loop {
        connections.tell_vitals(&mut phases);
        let Some(mail) = connections.mailbox.next(Duration::from_secs(1)) else { continue };
        if let News::Frame(Frame { body: Body::Measure(measure), payload }) = &mail.news
            && mail.link == connections.head_link
        {
            if take(job, measure, payload)? {
                let found = measure_one(job, measure.round);
                if let Some((_, error)) = job.dataset.test.failure() {
                    bail!("{error}");
                }
                phases.add_s(Phase::Evaluate, found.seconds);
                // A head that is gone is heard of in the mail.
                let _ = connections.head.send(Body::Evaluated(found));
            }
        } else if let Some(next) = connections.hear(mail)? {
            return Ok(next);
        }
    }
}

/// Takes some parameters; true if they are the last ones.
fn take(job: &mut Job, measure: &proto::Measure, payload: &[u8]) -> Result<bool> {
    let parameters = &mut job.replica.parameters;
    let start = usize::try_from(measure.offset).unwrap_or(usize::MAX).min(parameters.len());
    let end = start + payload.len() / 4;
    ensure!(end <= parameters.len(), "the head sent more parameters than there are");
    bytes_to_floats(payload, &mut parameters[start..end])?;
    Ok(end == parameters.len())
}

fn measure_one(job: &mut Job, round: u64) -> proto::Evaluated {
    let started = Instant::now();
    let tally = job.measure();
    let found = Evaluated::of(&tally, started.elapsed().as_secs_f64());
    let confusion = found.confusion.unwrap_or_default();
    proto::Evaluated {
        round,
        loss: found.loss,
        accuracy: found.accuracy,
        macro_f1: found.macro_f1,
        samples: job.dataset.test.len() as u64,
        seconds: found.seconds,
        mae: found.mae,
        r2: found.r2,
        top5: found.top5,
        confusion: if confusion.len() <= MOST_CLASSES { confusion.concat() } else { Vec::new() },
    }
}

/// What an evaluator has to tell.
pub(super) fn from_proto(found: &proto::Evaluated) -> Evaluated {
    let classes = found.confusion.len().isqrt();
    let is_square = classes > 0 && classes * classes == found.confusion.len();
    Evaluated {
        loss: found.loss,
        accuracy: found.accuracy,
        macro_f1: found.macro_f1,
        mae: found.mae,
        r2: found.r2,
        top5: found.top5,
        confusion: is_square.then(|| found.confusion.chunks_exact(classes).map(<[u64]>::to_vec).collect()),
        seconds: found.seconds,
    }
}

//! A node that measures parameters while the others train.

use std::time::{Duration, Instant};

use anyhow::Result;
use bonfire_wire::proto::frame::Body;
use bonfire_wire::{Frame, proto};

use super::node::{Desk, Next};
use crate::exchange::bytes_to_floats;
use crate::mail::News;
use bonfire_run::job::Job;

/// Measures what the head sends, one after the other.
pub fn evaluate(desk: &mut Desk, job: &mut Job) -> Result<Next> {
    loop {
        let Some(mail) = desk.mailbox.next(Duration::from_secs(1)) else { continue };
        if let News::Frame(Frame { body: Body::Measure(measure), payload }) = &mail.news
            && mail.link == desk.head_link
        {
            let evaluated = measure_one(job, measure.round, payload)?;
            // A head that is gone is heard of in the mail.
            let _ = desk.head.send(Body::Evaluated(evaluated));
        } else if let Some(next) = desk.hear(mail)? {
            return Ok(next);
        }
    }
}

fn measure_one(job: &mut Job, round: u64, payload: &[u8]) -> Result<proto::Evaluated> {
    let started = Instant::now();
    bytes_to_floats(payload, &mut job.replica.parameters)?;
    let tally = job.measure();
    Ok(proto::Evaluated {
        round,
        loss: tally.mean_loss(),
        accuracy: tally.accuracy(),
        macro_f1: tally.macro_f1(),
        samples: job.dataset.test.len() as u64,
        seconds: started.elapsed().as_secs_f64(),
    })
}

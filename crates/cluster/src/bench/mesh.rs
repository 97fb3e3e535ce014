//! What goes between hosts when all of them send to each other, as the members of a group do: the links are full both
//! ways, several senders meet at each receiver, and every host's threads take turns.
//!
//! Every host answers others and asks others at the same time. Who asks has a few frames on their way to each of its
//! partners and sends the next one when one comes back.

use std::io::{self, BufRead, BufReader, Read};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use bonfire_wire::proto::frame::Body;
use bonfire_wire::{Frame, Outbox, Wire, proto};
use bytes::Bytes;
use serde::{Deserialize, Serialize};

use super::core_time::Watch;
use super::link::{LinkQuestion, PATIENCE, answer, reach, step};
use crate::mail::{Mailbox, News, mailbox};
use crate::plan::figures::FrameFigures;

/// Whom to ask, and with how many bytes.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct MeshQuestion {
    pub partners: Vec<LinkQuestion>,
    /// Of a frame like those of the run.
    pub bytes: usize,
}

/// What one host found, while all others asked too.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct MeshSpeed {
    /// Bytes a second to every partner, and as many back.
    pub rates: Vec<f64>,
    pub large: Echoes,
    pub small: Echoes,
}

/// Frames that were sent and came back.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Echoes {
    /// In each of them.
    pub bytes: usize,
    pub frames: f64,
    pub seconds: f64,
    /// Of this process.
    pub core_s: f64,
}

/// So many frames are on their way to each partner.
const UNDER_WAY: usize = 4;

/// A frame that is mostly head.
const SMALL: usize = 1 << 10;

/// Others begin a little sooner or later: what is counted begins after a while, and ends before the end.
const SMALL_FOR_MS: [u64; 3] = [300, 600, 800];
const LARGE_FOR_MS: [u64; 3] = [400, 1400, 1600];

/// Reads a question from the input and measures.
///
/// # Errors
/// When it is none, or a partner cannot be reached or falls silent.
pub fn measure_from(input: impl Read) -> Result<MeshSpeed> {
    let question: MeshQuestion = serde_json::from_reader(input).context("the question is missing")?;
    measure(&question, SMALL_FOR_MS, LARGE_FOR_MS)
}

fn measure(question: &MeshQuestion, small_ms: [u64; 3], large_ms: [u64; 3]) -> Result<MeshSpeed> {
    ensure!(!question.partners.is_empty(), "there is nobody to ask");
    let wire = Arc::new(Wire::start()?);
    let (post, mailbox) = mailbox();
    let mut asker = Asker { partners: Vec::new(), mailbox };
    for partner in &question.partners {
        let link = post.number();
        asker.partners.push((link, reach(&wire, partner, || post.sink(link))?));
    }
    let (small, _) = asker.echo(SMALL, small_ms)?;
    let (large, rates) = asker.echo(question.bytes.max(SMALL * 2), large_ms)?;
    Ok(MeshSpeed { rates, large, small })
}

/// Between two ends in this process nobody begins sooner or later.
const HERE_FOR_MS: [u64; 3] = [50, 250, 300];

/// What frames of this size take of this machine's processor, by frames from this process to itself.
///
/// # Errors
/// When it cannot listen on loopback.
pub fn frames_here(bytes: usize) -> Result<FrameFigures> {
    let (said, mut say) = io::pipe()?;
    // The one who answers does so until this end is dropped.
    let (input, until) = io::pipe()?;
    let answering = thread::spawn(move || answer(input, &mut say).is_ok());
    let mut line = String::new();
    BufReader::new(said).read_line(&mut line)?;
    let answer = serde_json::from_str(&line).context("nobody answers on loopback")?;
    let partners = vec![LinkQuestion { answer, addresses: vec!["127.0.0.1".to_owned()] }];
    let found = measure(&MeshQuestion { partners, bytes }, HERE_FOR_MS, HERE_FOR_MS);
    drop((until, answering));
    let mut found = found?;
    // Both ends are here.
    (found.large.core_s, found.small.core_s) = (found.large.core_s / 2.0, found.small.core_s / 2.0);
    Ok(found.frame_figures())
}

impl MeshSpeed {
    /// What a frame and a byte take: who asks sends each frame and receives it again, and as many are sent as received
    /// in every exchange.
    #[must_use]
    pub fn frame_figures(&self) -> FrameFigures {
        let each = |echoes: Echoes| echoes.core_s / echoes.frames.max(1.0) / 2.0;
        let (large, small) = (each(self.large), each(self.small));
        let (bytes, few) = (self.large.bytes as f64, self.small.bytes as f64);
        let byte_s = ((large - small) / (bytes - few).max(1.0)).max(large / bytes * 0.2);
        FrameFigures { frame_s: (large - byte_s * bytes).max(0.0), byte_s }
    }
}

struct Asker {
    partners: Vec<(u64, Outbox)>,
    mailbox: Mailbox,
}

impl Asker {
    /// Sends frames of a size and takes them back, and counts from one time to another of three, the end.
    fn echo(&self, bytes: usize, times_ms: [u64; 3]) -> Result<(Echoes, Vec<f64>)> {
        let [from, to, end] = times_ms.map(Duration::from_millis);
        let payload = Bytes::from(vec![0x5a; bytes]);
        let say = |to: &Outbox| {
            let piece = proto::Piece { step: step::PING, ..proto::Piece::default() };
            to.send(Frame { body: Body::Piece(piece), payload: payload.clone() })
        };
        for (_, partner) in &self.partners {
            (0..UNDER_WAY).try_for_each(|_| say(partner))?;
        }
        let began = Instant::now();
        let mut counts = vec![0.0; self.partners.len()];
        let (mut watch, mut counted) = (None, None);
        let mut left = UNDER_WAY * self.partners.len();
        while left > 0 {
            let Some(mail) = self.mailbox.next(PATIENCE) else { bail!("the other hosts are silent") };
            let now = began.elapsed();
            if now >= from && watch.is_none() {
                watch = Some(Watch::start());
                counts.fill(0.0);
            }
            if now >= to && counted.is_none() {
                counted = watch.as_ref().map(|watch| (watch.wall_s(), watch.core_s(), counts.clone()));
            }
            let place = self.partners.iter().position(|(link, _)| *link == mail.link);
            match (mail.news, place) {
                (News::Frame(_), Some(place)) => {
                    counts[place] += 1.0;
                    if now < end {
                        say(&self.partners[place].1)?;
                    } else {
                        left -= 1;
                    }
                }
                (News::Closed(reason), _) => bail!("another host is gone: {reason}"),
                _ => {}
            }
        }
        // Where frames take longer than that, all of them are counted.
        let (seconds, core_s, counts) = counted.unwrap_or_else(|| match watch {
            Some(watch) => (watch.wall_s(), watch.core_s(), counts),
            None => (began.elapsed().as_secs_f64(), 0.0, counts),
        });
        let frames = counts.iter().sum();
        let rates = counts.iter().map(|count| count * bytes as f64 / seconds.max(1e-6)).collect();
        Ok((Echoes { bytes, frames, seconds, core_s }, rates))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_to_this_process_take_time_of_its_processor() {
        let FrameFigures { frame_s, byte_s } = frames_here(64 << 10).expect("figures");
        assert!(byte_s > 0.0 && byte_s < 1e-6 && (0.0..0.1).contains(&frame_s), "{frame_s} {byte_s}");
    }

    #[test]
    fn a_frame_and_a_byte_are_told_apart() {
        let echoes = |bytes, core_s| Echoes { bytes, frames: 10.0, seconds: 1.0, core_s };
        let speed = MeshSpeed { rates: Vec::new(), large: echoes(3000, 0.08), small: echoes(1000, 0.04) };
        let FrameFigures { frame_s, byte_s } = speed.frame_figures();
        assert!((byte_s - 1e-6).abs() < 1e-12 && (frame_s - 1e-3).abs() < 1e-12, "{frame_s} {byte_s}");
    }
}

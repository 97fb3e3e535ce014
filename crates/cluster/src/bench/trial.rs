//! Real rounds of a run, on all hosts at the same time and over their links: what a plan is held against before it says
//! anything.
//!
//! Frames of a run find threads asleep or behind others, in caches that computing has filled, on links that carry both
//! ways at a time. No stream of frames tells what they take of the processor then; some rounds do.

use std::io::{self, BufRead, BufReader, Write};
use std::sync::Arc;
use std::thread;
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use bonfire_data::Dataset;
use bonfire_exchange::gradient_sums::GradientSums;
use bonfire_exchange::peers::{Early, Gather, Peers};
use bonfire_run::run_file::Compression;
use bonfire_strategy::Unit;
use bonfire_wire::{Outbox, Wire};
use bytes::Bytes;
use serde::{Deserialize, Serialize};

use super::acquaint::{Broken, acquaint, pieces};
use super::core_time::Watch;
use super::gauge::{settings, trainer};
use super::link::{LinkQuestion, open, reach};
use crate::mail::mailbox;
use crate::trainer::Trainer;

/// What is to be tried.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct TrialTask {
    /// The run file.
    pub text: String,
    /// How many workers this machine has.
    pub workers: usize,
    /// Of factors, if they are tried.
    pub rank: Option<usize>,
    /// How long rounds of one way are measured.
    pub seconds: f64,
}

/// Who takes part.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct TrialQuestion {
    /// Which of them this one is.
    pub index: usize,
    pub all: Vec<LinkQuestion>,
    /// Which part of the sums each has.
    pub parts: Vec<f64>,
}

/// Some rounds that went well, as one of the hosts saw them: all in the mean of a round.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TrialRound {
    pub seconds: f64,
    /// Seconds of a core that computing, coding and summing took.
    pub work_s: f64,
    /// What the wire's threads took.
    pub wire_s: f64,
    /// As many are sent as received.
    pub frames: f64,
    pub bytes: f64,
}

/// How gradients travel: a frame and a byte are told apart by frames of unequal sizes. Where a plan may propose
/// factors, these are tried too: everybody waits for their few frames, twice a round.
#[must_use]
pub fn ways(rank: Option<usize>) -> Vec<Compression> {
    [Compression::None, Compression::Int8].into_iter().chain(rank.map(Compression::PowerSgd)).collect()
}

/// So long rounds of one way are measured, where hosts are real and where they are described, but at most so many, in
/// stretches: the shortest and the longest quarter of these do not count, for others may be at work for a moment.
pub const MEASURED_S: f64 = 3.0;
const HERE_S: f64 = 1.0;
const MOST_ROUNDS: u32 = 1200;
const STRETCHES: u32 = 12;

/// The first round makes room for the others. Where it is short, some more are made before it counts, for as long as
/// runs get faster: this part of the time. Where it is as long as this, it counts itself.
const SHORT_S: f64 = 0.3;
const WARM: f64 = 0.2;
const LONG_S: f64 = 4.0;

/// The exchanges of a round are fewer.
const WORD: u32 = 1000;

/// Takes part. The task and the data are the first that comes in; then it says where it is found, and is told of the
/// others.
///
/// # Errors
/// When the run file does not fit the data, or the others cannot be reached or fall silent.
pub fn take_part(mut input: impl BufRead, out: &mut impl Write) -> Result<()> {
    let task: TrialTask = line(&mut input).context("the task is missing")?;
    let dataset = bonfire_data::pack::read(&mut input)?;
    let wire = Arc::new(Wire::start()?);
    let (post, mut mailbox) = mailbox();
    let (_listener, answer) = open(&wire, &post)?;
    writeln!(out, "{}", serde_json::to_string(&answer)?)?;
    out.flush()?;
    let TrialQuestion { index, all, parts } = line(&mut input).context("the others are missing")?;
    let count = all.len();
    ensure!(index < count && parts.len() == count, "{index} of {count} hosts is none");
    let mut early = Early::new();
    let call = |to: usize, sink: &dyn Fn() -> _| reach(&wire, &all[to], sink);
    let (members, links) = acquaint((index, count, count), (&post, &mailbox), &mut early, call)?;
    let mut rounds = Rounds::new(&task, &dataset, (index, count), &links)?;
    let mut peers = Peers {
        index,
        links: &links,
        servers: &[],
        receive: &mut pieces(&mut mailbox, &members),
        early: &mut early,
        generation: 1,
        round: 0,
        step: 0,
    };
    let mut measure = |way| rounds.measure(&mut peers, way, &parts).map_err(|Broken(error)| error);
    let measured = ways(task.rank).into_iter().map(&mut measure).collect::<Result<Vec<_>>>()?;
    writeln!(out, "{}", serde_json::to_string(&measured)?)?;
    out.flush()?;
    // Others may be at work yet: links end with this process.
    let _ = io::copy(&mut input, &mut io::sink());
    Ok(())
}

/// Rounds of two members on this machine, in the mean of both; none if they fail.
///
/// # Errors
/// When the data cannot be packed, or there are no pipes.
pub fn rounds_here(text: &str, dataset: &Dataset) -> Result<Option<[TrialRound; 2]>> {
    let task = TrialTask { text: text.to_owned(), workers: 2, rank: None, seconds: HERE_S };
    let task = serde_json::to_string(&task)?;
    let mut data = Vec::new();
    bonfire_data::pack::write(dataset, &mut data)?;
    let mut members = Vec::new();
    for _ in 0..2 {
        let ((input, mut tell), (hear, mut out)) = (io::pipe()?, io::pipe()?);
        let member = thread::spawn(move || take_part(BufReader::new(input), &mut out).is_ok());
        tell.write_all(format!("{task}\n").as_bytes())?;
        tell.write_all(&data)?;
        let mut hear = BufReader::new(hear);
        let answer = line(&mut hear).context("nobody answers on loopback")?;
        members.push((tell, hear, LinkQuestion { answer, addresses: vec!["127.0.0.1".to_owned()] }, member));
    }
    let all: Vec<LinkQuestion> = members.iter().map(|member| member.2.clone()).collect();
    for (index, member) in members.iter_mut().enumerate() {
        let question = TrialQuestion { index, all: all.clone(), parts: vec![0.5; 2] };
        member.0.write_all(format!("{}\n", serde_json::to_string(&question)?).as_bytes())?;
    }
    let said: Result<Vec<[TrialRound; 2]>> = members.iter_mut().map(|member| line(&mut member.1)).collect();
    let Ok([first, _]) = said.as_deref() else { return Ok(None) };
    // Each has counted the threads of both.
    Ok(Some(first.map(|round| TrialRound {
        work_s: round.work_s / 2.0,
        wire_s: round.wire_s / 2.0,
        ..round
    })))
}

fn line<T: serde::de::DeserializeOwned>(input: &mut impl BufRead) -> Result<T> {
    let mut line = String::new();
    input.read_line(&mut line)?;
    Ok(serde_json::from_str(&line)?)
}

/// A member that goes through rounds.
struct Rounds<'a> {
    trainer: Trainer,
    links: &'a [Option<Outbox>],
    /// How many units a round has; those of one are of similar length, so nobody waits for who has long ones.
    stride: u32,
    units: u32,
    first: u32,
    next: u32,
    /// How long rounds of one way are measured.
    seconds: f64,
}

impl<'a> Rounds<'a> {
    fn new(
        task: &TrialTask,
        dataset: &Dataset,
        (index, count): (usize, usize),
        links: &'a [Option<Outbox>],
    ) -> Result<Self> {
        let mut settings = settings(&task.text, None)?;
        let cores = thread::available_parallelism().map_or(1, usize::from);
        let batches = (dataset.train.len() / settings.file.batch_size).max(1);
        // Data that are enough to measure with may be less than a round of many.
        settings.workers = count.min(batches);
        let trainer = trainer(&settings, dataset, settings.file.threads_on(cores, task.workers))?;
        let (stride, first) = (settings.workers as u32, (index % settings.workers) as u32);
        let units = batches as u32 / stride * stride;
        Ok(Self { trainer, links, stride, units, first, next: first, seconds: task.seconds })
    }

    /// What rounds of a way take. All make as many, as the first of them says.
    fn measure(
        &mut self,
        peers: &mut Peers<'_, Broken>,
        way: Compression,
        parts: &[f64],
    ) -> Result<TrialRound, Broken> {
        let mut sums = GradientSums::new(self.trainer.layout(), way, 0);
        sums.share_out(parts);
        self.next = self.first;
        agree(peers, 0.0)?;
        let first = self.watch(peers, &mut sums, 1)?;
        let mut one_s = agree(peers, first.seconds)?;
        if one_s >= LONG_S {
            return Ok(first);
        }
        if one_s < SHORT_S {
            let seconds = self.go(peers, &mut sums, 4)?;
            one_s = agree(peers, seconds)?;
            let warm = (self.seconds * WARM / one_s.max(1e-6)) as u32;
            self.go(peers, &mut sums, warm.min(MOST_ROUNDS))?;
        }
        let count = ((self.seconds / one_s.max(1e-6)) as u32).clamp(1, MOST_ROUNDS);
        let measured = self.watch(peers, &mut sums, count)?;
        agree(peers, 0.0)?;
        Ok(measured)
    }

    /// What so many rounds take, in their mean.
    fn watch(
        &mut self,
        peers: &mut Peers<'_, Broken>,
        sums: &mut GradientSums,
        count: u32,
    ) -> Result<TrialRound, Broken> {
        let (watch, before) = (Watch::start(), self.traffic());
        let stretches = count.min(STRETCHES);
        let mut seconds = Vec::new();
        for stretch in 0..stretches {
            let rounds = count * (stretch + 1) / stretches - count * stretch / stretches;
            seconds.push(self.go(peers, sums, rounds)?);
        }
        let seconds = middle_half(seconds);
        let (all_s, wire_s) = (watch.core_s(), watch.wire_s());
        let [frames, bytes] = [0, 1].map(|place| (self.traffic()[place] - before[place]) / f64::from(count));
        let [work_s, wire_s] = [all_s - wire_s, wire_s].map(|all| all / f64::from(count));
        Ok(TrialRound { seconds, work_s, wire_s, frames, bytes })
    }

    /// Seconds of a round, of so many.
    fn go(
        &mut self,
        peers: &mut Peers<'_, Broken>,
        sums: &mut GradientSums,
        count: u32,
    ) -> Result<f64, Broken> {
        let started = Instant::now();
        for _ in 0..count {
            (peers.round, peers.step) = (peers.round + 1, 0);
            sums.begin(peers, false);
            let (overlaps, mut sent) = (self.trainer.overlaps(), Ok(()));
            let unit = Unit { epoch: 0, index: self.next };
            self.next = (self.next + self.stride) % self.units;
            let computed = self.trainer.compute_by_layers(unit, &mut |_, gradient, settled_from| {
                if overlaps && sent.is_ok() {
                    sent = sums.advance(peers, gradient, settled_from);
                }
            });
            sent?;
            computed.map_err(Broken)?;
            let Trainer { gradient, pool, .. } = &mut self.trainer;
            sums.complete(peers, gradient, false, pool)?;
            self.trainer.step(0.0);
        }
        Ok(started.elapsed().as_secs_f64() / f64::from(count))
    }

    /// Frames and bytes that were sent so far.
    fn traffic(&self) -> [f64; 2] {
        let traffic = self.links.iter().flatten().map(Outbox::traffic);
        let sum = |(frames, bytes), link: bonfire_wire::LinkTraffic| {
            (frames + link.sent_frames, bytes + link.sent_bytes)
        };
        let (frames, bytes) = traffic.fold((0, 0), sum);
        [frames as f64, bytes as f64]
    }
}

/// The mean of what is left without the least and the most quarter.
fn middle_half(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    let quarter = values.len() / 4;
    let middle = &values[quarter..values.len() - quarter];
    middle.iter().sum::<f64>() / middle.len().max(1) as f64
}

/// What the first has to say; when it is heard, all are there.
fn agree(peers: &mut Peers<'_, Broken>, own: f64) -> Result<f64, Broken> {
    peers.step += WORD;
    let said = peers.gather(Bytes::copy_from_slice(&own.to_le_bytes()))?;
    Ok(said[0].as_ref().try_into().map_or(0.0, f64::from_le_bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stretch_that_took_long_does_not_count() {
        assert_eq!(middle_half(vec![9.0, 2.0, 1.0, 2.0, 4.0]), 8.0 / 3.0);
        assert_eq!(middle_half(vec![1.0, 3.0]), 2.0);
        assert_eq!(middle_half(vec![7.0]), 7.0);
    }

    #[test]
    fn two_members_go_through_rounds_on_this_machine() {
        let text = "{model: {mlp: {hidden: [32]}}, data: {name: digits, train: 64, test: 8}, batch_size: 8}";
        let dataset = settings(text, None).expect("settings").file.data.load().expect("data");
        let [plain, small] = rounds_here(text, &dataset).expect("pipes").expect("rounds");
        assert!(plain.seconds > 0.0 && plain.work_s > 0.0, "{plain:?}");
        assert!(plain.frames >= 2.0 && plain.bytes > 2.0 * small.bytes, "{plain:?} {small:?}");
    }
}

//! The batches of the rounds to come, made while the workers compute.
//!
//! What is in a batch follows from the seed, the round and the worker alone ([`Shares`]), so it makes no difference to
//! the result who fills it: the worker itself, or this thread ahead of it.

use std::panic::resume_unwind;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::{self, JoinHandle};

use bonfire_data::{Cut, Effort, EpochOrder, EpochSeed, Samples};
use bonfire_learn::Batch;

use crate::run_file::Settings;

/// How many rounds wait to be taken, at most. One would do if every round took as long; a second one evens them out.
const DEPTH: usize = 2;

/// How the samples of a run are shared out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sharing {
    pub seed: u64,
    pub workers: usize,
    /// Of every worker.
    pub copies: usize,
    /// Over all workers.
    pub round_size: usize,
    pub rounds_per_epoch: u64,
}

impl Sharing {
    /// How a run with these settings shares out so many samples.
    pub fn of(settings: &Settings, samples: usize, copies: usize) -> Self {
        let workers = settings.workers;
        let round_size = settings.file.batch_size.saturating_mul(workers).min(samples);
        let rounds_per_epoch = EpochOrder::rounds(samples, round_size) as u64;
        Self { seed: settings.file.seed, workers, copies, round_size, rounds_per_epoch }
    }
}

impl Sharing {
    /// How a node with data of its own goes through them, where all nodes together have `total` samples: in as many
    /// rounds as all need, so that each has every sample once an epoch and counts by how many it has.
    pub fn own(settings: &Settings, samples: usize, total: usize, copies: usize) -> Self {
        let rounds = Self::of(settings, total.max(samples), copies).rounds_per_epoch.max(1) as usize;
        // In how many of them a node works, where they take turns.
        let rounds = rounds.saturating_mul(settings.workers).div_ceil(settings.topology.workers());
        let round_size = samples.div_ceil(rounds).max(1);
        let rounds_per_epoch = EpochOrder::rounds(samples, round_size) as u64;
        Self { seed: settings.file.seed, workers: 1, copies, round_size, rounds_per_epoch }
    }
}

/// The samples of every worker in one round after the other.
#[derive(Debug)]
pub struct Shares {
    sharing: Sharing,
    order: EpochOrder,
    /// The epoch that `order` is of.
    epoch: Option<u64>,
    /// Within the epoch.
    round: usize,
    /// Which part is filled, where workers have unequal ones.
    cut: Option<Cut>,
}

impl Shares {
    pub fn new(sharing: Sharing) -> Self {
        Self { sharing, order: EpochOrder::default(), epoch: None, round: 0, cut: None }
    }

    pub fn sharing(&self) -> Sharing {
        self.sharing
    }

    /// Goes to round `number`, counted from 0 over the whole run.
    pub fn go_to(&mut self, samples: &Samples, number: u64) {
        let Sharing { seed, round_size, rounds_per_epoch, .. } = self.sharing;
        let epoch = number / rounds_per_epoch;
        if self.epoch != Some(epoch) {
            self.order.shuffle(samples, round_size, seed, epoch);
            self.epoch = Some(epoch);
        }
        self.round = (number % rounds_per_epoch) as usize;
        self.cut = None;
    }

    /// What is filled is this part of some batches of the epoch, whatever the slot.
    pub fn cut(&mut self, cut: Cut) {
        self.cut = Some(cut);
    }

    /// Fills the batch of one copy of the worker that has a slot. `numbers` is memory to use.
    pub fn fill(
        &self,
        samples: &Samples,
        (slot, copy): (usize, usize),
        numbers: &mut Vec<u32>,
        batch: &mut Batch,
    ) {
        match &self.cut {
            Some(cut) => self.order.part(cut, self.sharing.workers, numbers),
            None => self.order.share(self.round, slot, self.sharing.workers, numbers),
        }
        // Dealt out like the round itself.
        let mut place = 0..;
        numbers.retain(|_| place.next().is_some_and(|place: usize| place % self.sharing.copies == copy));
        let seed = EpochSeed { seed: self.sharing.seed, epoch: self.epoch.unwrap_or_default() };
        samples.fill_augmented(batch, numbers, seed);
    }
}

/// Whether a thread of its own pays. A hand-over between threads costs some hundredths of a millisecond a round, more
/// than it takes to copy a batch, and on cores that all compute the thread would only take the time of one worker,
/// for which the others wait. So it is for work that a spare core can do, and for waiting, which needs no core.
pub fn pays(effort: Effort, copies: usize, cores: usize) -> bool {
    match effort {
        Effort::Copy => false,
        Effort::Work => copies < cores,
        Effort::Wait => true,
    }
}

/// A thread that fills the batches of the next rounds. It ends when this is dropped.
#[derive(Debug)]
pub struct Loader {
    sharing: Sharing,
    samples: Arc<Samples>,
    /// The round that comes next.
    next: u64,
    /// Some until this is dropped.
    full: Option<Receiver<Vec<Batch>>>,
    empty: SyncSender<Vec<Batch>>,
    thread: Option<JoinHandle<()>>,
}

impl Loader {
    /// Starts to load from round `first` on.
    pub fn start(samples: &Arc<Samples>, sharing: Sharing, first: u64) -> std::io::Result<Self> {
        let (fill, full) = sync_channel(DEPTH);
        // Room for every set of batches that can be under way, so that nobody waits to give one back.
        let (empty, emptied) = sync_channel(DEPTH + 2);
        let samples = Arc::clone(samples);
        let source = Arc::clone(&samples);
        let thread = thread::Builder::new()
            .name("loader".into())
            .spawn(move || load(&source, sharing, first, &emptied, &fill))?;
        Ok(Self { sharing, samples, next: first, full: Some(full), empty, thread: Some(thread) })
    }

    /// Whether what comes next is this round of these samples.
    pub fn is_at(&self, samples: &Arc<Samples>, sharing: Sharing, round: u64) -> bool {
        self.sharing == sharing && self.next == round && Arc::ptr_eq(&self.samples, samples)
    }

    /// The batches of the next round, one a copy. `used` are those of an earlier one, whose memory serves again. A
    /// panic of the thread goes on here.
    pub fn take(&mut self, used: Vec<Batch>) -> Vec<Batch> {
        // If there is no room, the memory is let go.
        let _ = self.empty.try_send(used);
        self.next += 1;
        match self.full.as_ref().and_then(|full| full.recv().ok()) {
            Some(batches) => batches,
            None => match self.thread.take().map(JoinHandle::join) {
                Some(Err(panic)) => resume_unwind(panic),
                _ => unreachable!("the loader ends only when nobody takes from it"),
            },
        }
    }
}

fn load(
    samples: &Samples,
    sharing: Sharing,
    first: u64,
    emptied: &Receiver<Vec<Batch>>,
    fill: &SyncSender<Vec<Batch>>,
) {
    let (mut shares, mut numbers) = (Shares::new(sharing), Vec::new());
    for round in first.. {
        let mut batches = emptied.try_recv().unwrap_or_default();
        batches.resize_with(sharing.workers * sharing.copies, Batch::default);
        shares.go_to(samples, round);
        for (i, batch) in batches.iter_mut().enumerate() {
            shares.fill(samples, (i / sharing.copies, i % sharing.copies), &mut numbers, batch);
        }
        if fill.send(batches).is_err() {
            return;
        }
    }
}

impl Drop for Loader {
    fn drop(&mut self) {
        // Without a receiver the thread's next hand-over fails, and it ends.
        self.full = None;
        if let Some(thread) = self.thread.take() {
            // A panic in it concerns nobody any more.
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bonfire_data::{Augment, Images, Sentences};
    use bonfire_learn::Inputs;

    fn images(count: usize) -> Images {
        let pixels: Vec<u8> = (0..count * 12).map(|i| (i * 7) as u8).collect();
        let labels = (0..count).map(|i| (i % 5) as u8).collect();
        let augment = Some(Augment { pad: 1, flip: true, ..Augment::default() });
        Images {
            height: 2,
            width: 3,
            channels: 2,
            pixels: pixels.into(),
            labels,
            augment,
            ..Images::default()
        }
    }

    fn sentences(count: u32) -> Sentences {
        let starts: Vec<u32> =
            (0..=count).scan(0, |end, i| Some(std::mem::replace(end, *end + 1 + i % 9))).collect();
        let words = (0..*starts.last().unwrap()).collect::<Vec<u32>>();
        Sentences { tags: words.iter().map(|word| (word % 3) as u8).collect(), starts, words }
    }

    fn sharing(samples: &Samples, workers: usize) -> Sharing {
        let round_size = 8 * workers;
        let rounds_per_epoch = EpochOrder::rounds(samples.len(), round_size) as u64;
        Sharing { seed: 5, workers, copies: 1, round_size, rounds_per_epoch }
    }

    fn content(batch: &Batch) -> (Vec<u32>, Vec<u32>) {
        let inputs = match &batch.inputs {
            Inputs::Images { pixels, .. } => pixels.iter().map(|value| value.to_bits()).collect(),
            Inputs::Words { numbers, lengths, .. } => [&numbers[..], lengths].concat(),
        };
        (inputs, batch.targets.clone())
    }

    #[test]
    fn what_is_loaded_ahead_is_what_is_loaded_in_place() {
        for samples in [Samples::Images(images(100)), Samples::Sentences(sentences(203))] {
            let samples = Arc::new(samples);
            for (workers, first) in [(1, 0), (2, 0), (3, 17)] {
                let sharing = sharing(&samples, workers);
                let mut loader = Loader::start(&samples, sharing, first).unwrap();
                let (mut shares, mut numbers) = (Shares::new(sharing), Vec::new());
                let (mut batches, mut batch) = (Vec::new(), Batch::default());
                for round in first..first + 60 {
                    assert!(loader.is_at(&samples, sharing, round));
                    batches = loader.take(batches);
                    shares.go_to(&samples, round);
                    for (worker, ahead) in batches.iter().enumerate() {
                        shares.fill(&samples, (worker, 0), &mut numbers, &mut batch);
                        assert_eq!(content(ahead), content(&batch), "round {round}, worker {worker}");
                    }
                }
            }
        }
    }

    #[test]
    fn it_pays_where_there_is_something_to_gain() {
        let check =
            |effort, workers, expect| assert_eq!(pays(effort, workers, 4), expect, "{effort:?} {workers}");
        check(Effort::Copy, 1, false);
        check(Effort::Work, 3, true);
        check(Effort::Work, 4, false);
        check(Effort::Wait, 4, true);
    }

    #[test]
    fn memory_is_used_again() {
        let samples = Arc::new(Samples::Images(images(100)));
        let mut loader = Loader::start(&samples, sharing(&samples, 2), 0).unwrap();
        let (mut batches, mut seen) = (Vec::new(), std::collections::BTreeSet::new());
        for _ in 0..200 {
            batches = loader.take(batches);
            for batch in &batches {
                let Inputs::Images { pixels, .. } = &batch.inputs else { panic!("not images") };
                seen.insert(pixels.as_ptr() as usize);
            }
        }
        // Two sets wait, one is being filled and one is in use; the rounds at the ends of epochs are smaller, and grow.
        assert!(seen.len() <= 2 * (DEPTH + 2) * 3, "{} buffers", seen.len());
    }

    #[test]
    fn it_ends_when_it_is_dropped_whatever_it_is_doing() {
        let samples = Arc::new(Samples::Images(images(100)));
        for taken in 0..5 {
            let mut loader = Loader::start(&samples, sharing(&samples, 2), 0).unwrap();
            for _ in 0..taken {
                loader.take(Vec::new());
            }
            drop(loader);
        }
        assert_eq!(Arc::strong_count(&samples), 1, "a thread lives on");
    }

    #[test]
    #[should_panic(expected = "out of range")]
    fn a_panic_of_the_thread_goes_on_in_who_takes() {
        // Labels without pixels: a bug, which must not become a hang.
        let broken = Images { pixels: Vec::new().into(), ..images(100) };
        let samples = Arc::new(Samples::Images(broken));
        Loader::start(&samples, sharing(&samples, 1), 0).unwrap().take(Vec::new());
    }
}

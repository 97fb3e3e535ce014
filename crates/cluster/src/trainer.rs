//! What a node that trains has at hand: the data, a worker, and a copy of the parameters.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use bonfire_data::{Cut, Dataset, Samples};
use bonfire_learn::{Gradient, Layout, Tally};
use bonfire_report::{Phase, Phases};
use bonfire_strategy::Unit;
use bonfire_wire::proto;
use rayon::{ThreadPool, ThreadPoolBuilder};

use bonfire_exchange::chunks::Chunks;
use bonfire_exchange::codec::{ChunkEncoder, Coding};
use bonfire_exchange::updates::Updates;
use bonfire_run::crew::round_seed;
use bonfire_run::loader::{Shares, Sharing, pays};
use bonfire_run::replica::{Replica, StepSize};
use bonfire_run::run_file::{Distribute, Settings};
use bonfire_run::worker::{UnitSeed, Worker};

use crate::exertion::{Exertion, processor_time};
use crate::forerunner::{Forerunner, Place};
use crate::room::Room;

/// A worker and all that it needs.
#[derive(Debug)]
pub(crate) struct Trainer {
    samples: Arc<Samples>,
    worker: Worker,
    shares: Shares,
    /// Where batches are made ahead.
    forerunner: Option<Forerunner>,
    /// Which unit was the last, and how many after the one before it.
    last: Option<u64>,
    stride: u64,
    pub replica: Replica,
    /// What is new, on its way into the replica.
    pub updates: Updates,
    pub encoder: ChunkEncoder,
    /// Of the last unit that was computed.
    pub gradient: Gradient,
    settings: Settings,
    /// How many samples all workers have together.
    total: usize,
    /// Of a worker that has data of its own: which round of them comes next.
    own_round: Option<u64>,
    pub pool: ThreadPool,
    room: Room,
    /// What it spent its time on, since that was last told.
    pub phases: Phases,
    pub exertion: Exertion,
    /// Whether it has computed anything.
    has_begun: bool,
}

/// What to compute: a unit, or in its place a part of several where workers have unequal shares.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Task {
    pub unit: Unit,
    pub cut: Option<Cut>,
}

impl From<Unit> for Task {
    fn from(unit: Unit) -> Self {
        Self { unit, cut: None }
    }
}

/// What computing a unit took and gave.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Computed {
    pub tally: proto::Tally,
    pub seconds: f64,
    /// How many samples at a time the memory is for; 0 if that is not known.
    pub most_samples: u32,
}

/// A sample cannot be read, so nothing can come of its unit.
#[derive(Debug)]
pub(crate) struct Unreadable {
    pub sample: u64,
    reason: String,
}

impl std::fmt::Display for Unreadable {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.reason)
    }
}

impl std::error::Error for Unreadable {}

impl Computed {
    /// Counts another unit.
    pub(crate) fn add(&mut self, other: &Self) {
        let (sum, tally) = (&mut self.tally, &other.tally);
        sum.loss += tally.loss;
        sum.weight += tally.weight;
        sum.answers += tally.answers;
        sum.correct += tally.correct;
        sum.samples += tally.samples;
        sum.words += tally.words;
        self.seconds += other.seconds;
    }
}

impl Trainer {
    /// A trainer for a worker, on a run's data: of `total` samples, where those of every node are its own.
    pub(crate) fn new(
        settings: &Settings,
        dataset: &Dataset,
        mut worker: Worker,
        total: usize,
    ) -> Result<Self> {
        let (copies, threads) = (worker.copies().len(), worker.threads());
        let layout = worker.layout().clone();
        let file = &settings.file;
        let samples = dataset.train.len();
        let (total, sharing) = match file.distribute {
            Distribute::Own => (total, Sharing::own(settings, samples, total, copies)),
            Distribute::Local | Distribute::Ship => (samples, Sharing::of(settings, samples, copies)),
        };
        let pool = ThreadPoolBuilder::new()
            .num_threads(threads)
            .thread_name(|i| format!("copy-{i}"))
            .build()
            .context("cannot start the worker's threads")?;
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let is_ahead = pays(dataset.train.effort(), copies, cores);
        Ok(Self {
            samples: Arc::clone(&dataset.train),
            worker,
            shares: Shares::new(sharing),
            forerunner: is_ahead.then(|| Forerunner::start(&dataset.train, sharing)).transpose()?,
            last: None,
            stride: settings.workers as u64,
            replica: Replica::of(settings, &layout),
            updates: Updates::new(&layout, file.clip_norm),
            encoder: ChunkEncoder::new(&Arc::new(Chunks::of(&layout)), Coding::of(file.compression)),
            gradient: Gradient::new(&layout),
            settings: settings.clone(),
            total,
            own_round: None,
            pool,
            room: Room::new(),
            phases: Phases::default(),
            exertion: Exertion::default(),
            has_begun: false,
        })
    }

    pub(crate) fn layout(&self) -> &Layout {
        self.worker.layout()
    }

    /// Computes the gradient of a unit. An error if its samples cannot be read.
    pub(crate) fn compute(&mut self, task: impl Into<Task>) -> Result<Computed> {
        self.compute_by_layers(task, &mut |_, _, _| ())
    }

    /// The same. Where the worker has one copy of the model, `settled` hears layer by layer from where on the gradient
    /// will not change any more, and has the encoder at hand.
    pub(crate) fn compute_by_layers(
        &mut self,
        task: impl Into<Task>,
        settled: &mut (dyn FnMut(&mut ChunkEncoder, &Gradient, usize) + Send),
    ) -> Result<Computed> {
        let (started, used) = (Instant::now(), processor_time());
        let task = task.into();
        let place = self.place(&task);
        let next = self.next_place(&task, &place);
        let ahead = self.forerunner.as_mut().and_then(|forerunner| forerunner.take(&place));
        let Place { round, slot, cut } = place;
        self.shares.go_to(&self.samples, round);
        cut.into_iter().for_each(|cut| self.shares.cut(cut));
        let (worker, shares, samples) = (&mut self.worker, &self.shares, &self.samples);
        let (parameters, gradient) = (&self.replica.parameters, &mut self.gradient);
        let seed = UnitSeed { seed: round_seed(self.settings.file.seed, round), slot };
        let (encoder, mut aside) = (&mut self.encoder, Duration::ZERO);
        let (forerunner, mut batches) = (&mut self.forerunner, ahead.unwrap_or_default());
        let loaded = self.pool.install(|| {
            match batches.is_empty() {
                true => worker.load(samples, shares, slot),
                false => worker.exchange(&mut batches),
            }
            if samples.failure().is_some() {
                return None;
            }
            if let (Some(forerunner), Some(next)) = (forerunner, next) {
                forerunner.go_to(next, batches);
            }
            let loaded = Instant::now();
            worker.compute(parameters, seed, gradient, &mut |gradient, from| {
                let begun = Instant::now();
                settled(encoder, gradient, from);
                aside += begun.elapsed();
            });
            Some(loaded)
        });
        let loaded = loaded.ok_or_else(|| self.unreadable())?;
        let done = Instant::now();
        self.phases.add(Phase::Data, loaded - started);
        let turned = self.worker.forward_done().unwrap_or(loaded);
        self.phases.add(Phase::Forward, turned - loaded);
        self.phases.add(Phase::Backward, (done - turned).saturating_sub(aside));
        self.phases.add(Phase::Encode, aside);
        self.exertion.computed(processor_time().saturating_sub(used), done - started);
        self.has_begun = true;
        let tally = to_proto(self.worker.tally(), self.worker.samples() as u64, self.worker.words());
        let (seconds, most_samples) = ((done - started).as_secs_f64(), self.room.after(tally.samples));
        #[cfg(test)]
        let seconds = crate::simulation::toil(tally.samples).map_or(seconds, |time| time.as_secs_f64());
        Ok(Computed { tally, seconds, most_samples })
    }

    /// What is wrong with the sample that could not be read.
    fn unreadable(&self) -> Unreadable {
        let (sample, reason) = match self.samples.failure() {
            Some((sample, error)) => (sample as u64, error.to_string()),
            None => (0, "its data cannot be read".to_owned()),
        };
        Unreadable { sample, reason }
    }

    /// Waited for others so long. What comes before its first unit is no part of the training.
    pub(crate) fn waited(&mut self, time: Duration) {
        if self.has_begun {
            self.phases.add(Phase::Wait, time);
        }
    }

    /// Which samples a task is of. Data of one's own are gone through one round after the other, from where the first
    /// unit would be on, whatever becomes of the other workers.
    fn place(&mut self, Task { unit, cut }: &Task) -> Place {
        if self.settings.file.distribute != Distribute::Own {
            return self.shared_place(*unit, cut.clone());
        }
        let (index, sharing) = (unit.index as usize, self.shares.sharing());
        let first = unit.epoch * sharing.rounds_per_epoch + (index / self.settings.workers) as u64;
        let round = self.own_round.map_or(first, |last| last + 1);
        self.own_round = Some(round);
        Place { round, slot: 0, cut: cut.clone() }
    }

    fn shared_place(&self, unit: Unit, cut: Option<Cut>) -> Place {
        let (index, sharing) = (unit.index as usize, self.shares.sharing());
        let within = (index / sharing.workers) as u64;
        Place { round: unit.epoch * sharing.rounds_per_epoch + within, slot: index % sharing.workers, cut }
    }

    /// Where the samples of the next task will be, if units come at equal distances.
    fn next_place(&mut self, task: &Task, place: &Place) -> Option<Place> {
        if self.settings.file.distribute == Distribute::Own {
            return Some(Place { round: place.round + 1, ..place.clone() });
        }
        let units_per_epoch = u32::try_from(self.units_per_epoch()).ok()?;
        let at = task.unit.place(units_per_epoch);
        let stride = self.last.replace(at).map_or(self.stride, |last| at.wrapping_sub(last));
        if std::mem::replace(&mut self.stride, stride) != stride || stride > u64::from(units_per_epoch) {
            return None;
        }
        let unit = Unit::at(at + stride, units_per_epoch);
        let cut = task.cut.as_ref().map(|cut| {
            let first = unit.index.checked_sub(task.unit.index.checked_sub(cut.first)?)?;
            Some(Cut { first, ..cut.clone() }).filter(|cut| cut.fits(units_per_epoch.into()))
        });
        match cut {
            Some(None) => None,
            cut => Some(self.shared_place(unit, cut.flatten())),
        }
    }

    /// Whether gradients leave while they are computed.
    pub(crate) fn overlaps(&self) -> bool {
        self.settings.file.overlap
    }

    /// Whether the head sums a chunk, and sends the sum, as soon as all have pushed it.
    pub(crate) fn hears_sums_meanwhile(&self) -> bool {
        self.settings.topology.waits_for_all()
    }

    /// Whether there is such a unit, or part of several.
    pub(crate) fn has(&self, Task { unit, cut }: &Task) -> bool {
        let per_epoch = self.units_per_epoch();
        u64::from(unit.index) < per_epoch
            && unit.epoch.checked_mul(per_epoch).is_some()
            && cut.as_ref().is_none_or(|cut| cut.fits(per_epoch))
    }

    fn units_per_epoch(&self) -> u64 {
        let Sharing { rounds_per_epoch, .. } = Sharing::of(&self.settings, self.total.max(1), 1);
        rounds_per_epoch.saturating_mul(self.settings.workers as u64)
    }

    /// A round without a share: a gradient of nothing.
    pub(crate) fn idle(&mut self) -> Computed {
        self.gradient.clear();
        self.gradient.finish();
        Computed::default()
    }

    /// Back to the parameters that every run begins with.
    pub(crate) fn restart(&mut self) {
        self.replica = Replica::of(&self.settings, self.worker.layout());
    }

    /// How many samples there are to train on, over all workers.
    pub(crate) fn samples(&self) -> usize {
        self.total
    }

    /// One step by a sum of gradients.
    pub(crate) fn step(&mut self, lr: f32) {
        let (replica, gradient) = (&mut self.replica, &self.gradient);
        let step = StepSize { lr, clip: self.settings.file.clip_norm };
        let begun = Instant::now();
        self.pool.install(|| replica.step(std::slice::from_ref(gradient), step));
        self.phases.add(Phase::Apply, begun.elapsed());
    }

    /// What a step of all others does to the first `len` parameters, of which alone the trainer has the state: by a
    /// sum of gradients and a rate, or without one by how far they went.
    pub(crate) fn step_first(&mut self, len: usize, lr: Option<f32>) {
        let (replica, sum) = (&mut self.replica, std::slice::from_ref(&self.gradient));
        let clip = self.settings.file.clip_norm;
        let begun = Instant::now();
        self.pool.install(|| match lr {
            Some(lr) => replica.step_first(len, sum, StepSize { lr, clip }),
            None => replica.step_together_first(len, sum),
        });
        self.phases.add(Phase::Apply, begun.elapsed());
    }

    /// One step by the sum of how far the members of a group went, each by itself.
    pub(crate) fn step_together(&mut self) {
        let (replica, gradient) = (&mut self.replica, &self.gradient);
        let begun = Instant::now();
        self.pool.install(|| replica.step_together(std::slice::from_ref(gradient)));
        self.phases.add(Phase::Apply, begun.elapsed());
    }
}

/// What the head is to hear of a replica that is not what the head's was at that version: it was not computed right, or
/// is no longer what was computed. Bad memory does that to old machines.
pub(crate) fn compare(replica: &Replica, go: &proto::Go) -> Option<proto::Trouble> {
    let differs = go.digest.is_some_and(|digest| digest != replica.digest());
    let reason = || format!("has other parameters than the head at version {}", go.version);
    differs.then(|| proto::Trouble { reason: reason(), ..proto::Trouble::default() })
}

pub(crate) fn to_proto(tally: &Tally, samples: u64, words: u64) -> proto::Tally {
    let &Tally { loss, weight, answers, correct, .. } = tally;
    proto::Tally { loss, weight, answers, correct, samples, words }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bonfire_learn::OptimizerSpec;
    use bonfire_learn::layout::Init;
    use bonfire_run::run_file::Overrides;

    use crate::roles::node::build_worker;

    /// A trainer of one of three workers, on images that are changed by chance.
    fn trainer() -> Trainer {
        let text = "data: {name: digits, train: 600, test: 10, augment: {pad: 2}}\nmodel: mlp\nbatch_size: 20\n\
                    arch: allreduce\nallreduce: {num_workers: 3}";
        let settings = Settings::read("run.yml", text, &Overrides::default(), 2).expect("a run file");
        let dataset = settings.file.data.load().expect("data");
        let worker = build_worker(&settings, &dataset, 2).expect("a worker");
        Trainer::new(&settings, &dataset, worker, 600).expect("a trainer")
    }

    /// By index of the unit and first unit of the cut. Every third one is a member's; then one is lost, and the others
    /// have every second; then shares are unequal.
    #[test]
    fn what_comes_next_is_made_ahead_and_is_the_same() {
        let (mut ahead, mut in_place) = (trainer(), trainer());
        let sharing = ahead.shares.sharing();
        ahead.forerunner = Some(Forerunner::start(&ahead.samples, sharing).expect("a thread"));
        in_place.forerunner = None;
        let cut = |first, place| Some(Cut { first, place, shares: vec![3, 1] });
        let tasks = [1, 4, 7, 10, 12, 14, 16, 18, 20, 28].map(|index| (index, None));
        let cuts = [(1, 0), (3, 2), (5, 4), (7, 6)].map(|(index, first)| (index, cut(first, 1)));
        let (mut hits, mut before) = (Vec::new(), 0);
        for (index, cut) in tasks.into_iter().chain(cuts) {
            let task = || Task { unit: Unit { epoch: 1, index }, cut: cut.clone() };
            for trainer in [&mut ahead, &mut in_place] {
                trainer.compute(task()).expect("what can be read");
            }
            assert_eq!(ahead.gradient.values, in_place.gradient.values, "unit {index}");
            let all = ahead.forerunner.as_ref().map_or(0, |forerunner| forerunner.hits);
            hits.push(all - std::mem::replace(&mut before, all));
        }
        assert_eq!(hits, [0, 1, 1, 1, 0, 0, 1, 1, 1, 0, 0, 0, 0, 1]);
    }

    #[test]
    fn a_replica_with_a_wrong_bit_is_told() {
        let mut layout = Layout::default();
        layout.vector("all".into(), 100, Init::Uniform(1.0));
        let mut replica = Replica::new(&layout, OptimizerSpec::default(), 1);
        let go = |digest| proto::Go { version: 300, digest, ..proto::Go::default() };
        let heads = go(Some(replica.digest()));
        assert_eq!(compare(&replica, &heads), None);
        replica.parameters[50] = f32::from_bits(replica.parameters[50].to_bits() ^ 1);
        let trouble = compare(&replica, &heads).expect("a difference");
        assert_eq!(trouble.reason, "has other parameters than the head at version 300");
        assert_eq!(compare(&replica, &go(None)), None, "nobody asked");
    }
}

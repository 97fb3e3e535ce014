//! The run file: what to train, on what, how, and for how long.
//!
//! [`RunFile`] is what was written, over the defaults; [`Settings`] is that after everything that can be checked
//! without the data was checked. Only the second can start a run.

pub(crate) mod agreed;
pub mod arch;
pub mod cast;
mod clients;
mod elsewhere;
mod every;
mod local_steps;
mod ranks;
mod shares;
mod span;
mod travel;
mod validation;

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use bonfire_data::{Dataset, Source, Validation};
use bonfire_learn::kernels::low_rank::MOST_RANK;
use bonfire_learn::{ClassWeights, ModelSpec, OptimizerSpec, Schedule, SgdOptions};
use bonfire_report::Watts;
use bonfire_yaml::{Tree, YamlError, to_yaml};

use arch::{Allreduce, Arch, GlobalServer, MOST_SECONDS, ParameterServer, is_default};
pub use arch::{Engine, HeadSpec, ReduceOp, RelayPlan, ServerRule, Topology};
pub use elsewhere::of_flag;
pub use every::Every;
pub use local_steps::{Easgd, LaterSteps, LocalSteps, Outer};
pub use ranks::Ranks;
pub use shares::{ShareRule, Shares};
pub use span::Span;
pub use travel::{Compression, Distribute};
pub use validation::BestBy;

/// The keys below which exactly one name stands: another replaces it.
const CHOICES: &[&str] = &["model", "optimizer", "schedule", "compression"];

/// A run file as it is written, with defaults for what it leaves out.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct RunFile {
    pub name: String,
    pub model: ModelSpec,
    pub data: Source,
    pub optimizer: OptimizerSpec,
    pub schedule: Schedule,
    /// How long the learning rate grows from 0.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub warmup: Option<Span>,
    /// Gradients longer than this are shortened to it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub clip_norm: Option<f32>,
    /// How much the loss of each class counts, in the order of the classes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub class_weights: Option<Vec<f32>>,
    /// Per worker.
    pub batch_size: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub epochs: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub num_server_rounds: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub target_accuracy: Option<f64>,
    /// What a run is judged by while it trains. Then the test half is measured once, at the end.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub validation: Option<Validation>,
    /// With it: which evaluation is the best.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub best_by: Option<BestBy>,
    /// With it: after so many evaluations without a better one the run ends.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub patience: Option<u64>,
    pub eval_every: Span,
    /// Whether the parameters are also measured before the first round.
    #[serde(skip_serializing_if = "is_default")]
    pub eval_at_start: bool,
    pub checkpoint_every: Every,
    pub keep_checkpoints: usize,
    pub seed: u64,
    pub arch: Arch,
    /// For `arch: single`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub workers: Option<usize>,
    /// For `arch: flat`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parameter_server: Option<ParameterServer>,
    /// For `arch: hierarchical`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub global_server: Option<GlobalServer>,
    /// For `arch: allreduce`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub allreduce: Option<Allreduce>,
    /// Of runs on several machines.
    #[serde(skip_serializing_if = "is_default")]
    pub head: HeadSpec,
    /// Over how many threads a worker splits its batch, or the products of a model that is mostly weights; otherwise
    /// the cores of its machine are shared out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub threads: Option<usize>,
    pub distribute: Distribute,
    pub compression: Compression,
    /// Whether gradients leave layer by layer while the others are still computed. Only for comparison is it not so.
    #[serde(skip_serializing_if = "is_true")]
    pub overlap: bool,
    /// How many batches a worker trains on by itself between two exchanges.
    #[serde(skip_serializing_if = "LocalSteps::is_default")]
    pub local_steps: LocalSteps,
    /// With `arch: allreduce`: only so many workers, by chance, work in a round.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub clients_per_round: Option<usize>,
    /// With local steps: the step that all make together after an exchange.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub outer: Option<Outer>,
    /// Instead of it: elastic averaging.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub easgd: Option<Easgd>,
    /// How large a part of every round each worker computes. Who starts the run decides if the file does not say.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub shares: Option<Shares>,
    /// Shares by speed at the end of epochs: -1 never, 0 after the first, or after every so many.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dynamic: Option<i64>,
    /// Whether a node of its own measures the checkpoints.
    pub evaluator: bool,
    /// After so long without a sign of life a node counts as lost.
    pub silence_s: f64,
    /// With fewer workers, or relays, the run waits.
    pub min_workers: usize,
    /// What the machine of a run on one takes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub watts: Option<Watts>,
    /// Whether a page with charts is written into the run folder in the end.
    #[serde(skip_serializing_if = "is_true")]
    pub report: bool,
    /// Whether TensorBoard's files have histograms of the weights, with every evaluation.
    #[serde(skip_serializing_if = "is_default")]
    pub histograms: bool,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde gives a reference")]
fn is_true(value: &bool) -> bool {
    *value
}

impl Default for RunFile {
    fn default() -> Self {
        Self {
            name: String::new(),
            model: ModelSpec::default(),
            data: Source::default(),
            optimizer: OptimizerSpec::default(),
            schedule: Schedule::default(),
            warmup: None,
            clip_norm: None,
            class_weights: None,
            batch_size: 32,
            epochs: None,
            num_server_rounds: None,
            target_accuracy: None,
            validation: None,
            best_by: None,
            patience: None,
            eval_every: Span::Epochs(1),
            eval_at_start: false,
            checkpoint_every: Every::Span(Span::Epochs(1)),
            keep_checkpoints: 3,
            seed: 1234,
            arch: Arch::default(),
            workers: None,
            parameter_server: None,
            global_server: None,
            allreduce: None,
            head: HeadSpec::default(),
            threads: None,
            distribute: Distribute::default(),
            compression: Compression::default(),
            overlap: true,
            local_steps: LocalSteps::default(),
            clients_per_round: None,
            outer: None,
            easgd: None,
            shares: None,
            dynamic: None,
            evaluator: false,
            silence_s: 5.0,
            min_workers: 1,
            watts: None,
            report: true,
            histograms: false,
        }
    }
}

/// A run file in which everything holds that can be told without the data.
#[derive(Clone, Debug)]
pub struct Settings {
    /// With every default filled in.
    pub file: RunFile,
    pub topology: Topology,
    /// Into how many shares every round is cut.
    pub workers: usize,
    /// Of each worker of this machine, if all of them are on it.
    pub threads: usize,
    pub length: Span,
    pub class_weights: Option<ClassWeights>,
    /// How all step together where workers train by themselves between two exchanges, if they do.
    pub outer: Option<SgdOptions>,
    pub shares: ShareRule,
    /// The words, classes and scales of all owners of the data, once they have agreed.
    pub form: Option<Arc<Dataset>>,
    /// Where each key stands, for errors that show only later.
    tree: Tree,
}

/// What the command line adds to a run file.
#[derive(Clone, Debug, Default)]
pub struct Overrides<'a> {
    /// `key=value`, in order.
    pub set: &'a [String],
    pub workers: Option<usize>,
    /// The processes that a launcher started, which must be as many as the run asks for.
    pub ranks: Option<Ranks>,
}

/// How many epochs a run has that does not say.
const EPOCHS: u64 = 5;

/// Beyond this many workers, one a core makes the default batch so large that small data learn badly.
const DEFAULT_WORKERS: usize = 8;

/// A thread with fewer samples than this costs more than it saves.
const LEAST_SHARE: usize = 8;

impl RunFile {
    /// How many threads a worker has on a machine of so many cores with so many workers.
    pub fn threads_on(&self, cores: usize, workers: usize) -> usize {
        self.threads.unwrap_or_else(|| (cores / workers.max(1)).clamp(1, self.most_threads()))
    }

    /// Over how many threads it pays to split a batch.
    pub fn most_threads(&self) -> usize {
        (self.batch_size / LEAST_SHARE).max(1)
    }
}

impl Settings {
    /// Reads a run file's text under the name `origin`, with the command line over it, for a machine of so many cores.
    pub fn read(
        origin: &str,
        text: &str,
        overrides: &Overrides<'_>,
        cores: usize,
    ) -> Result<Self, YamlError> {
        let mut tree = Tree::parse(origin, text)?;
        for assignment in overrides.set {
            if assignment.starts_with("data.") {
                tree.spell_out("data", "name");
            }
            tree.set(assignment, CHOICES)?;
        }
        let changes_data = overrides.set.iter().any(|assignment| assignment.starts_with("data."));
        if changes_data && !["data.name", "data.path", "data.prepare"].iter().any(|key| tree.has(key)) {
            tree.set(&format!("data.name={}", Source::default().name), CHOICES)?;
        }
        elsewhere::check(&tree)?;
        let mut file: RunFile = tree.read()?;
        check_ranges(&tree, &file)?;
        validation::check(&tree, &mut file)?;
        if let Some(workers) = overrides.workers {
            set_workers(&mut file, workers)?;
        }
        let class_weights = file.class_weights.as_deref().map(ClassWeights::new).transpose();
        let class_weights = class_weights.map_err(|error| tree.wrong("class_weights", error))?;
        let length = length(&tree, &mut file)?;
        let unasked = match overrides.ranks {
            Some(ranks) => ranks.workers(file.evaluator),
            None => cores.clamp(1, DEFAULT_WORKERS),
        };
        let topology = Topology::read(&tree, &mut file, unasked)?;
        if let Some(ranks) = overrides.ranks {
            ranks.check(&topology, file.evaluator)?;
        }
        let workers = topology.workers();
        if file.min_workers > workers {
            let message = format!("must be at most the number of workers, which is {workers}");
            return Err(tree.wrong("min_workers", message));
        }
        if let Some(reason) = topology.refuses_compression(file.compression) {
            return Err(tree.wrong("compression", reason));
        }
        if file.compression == Compression::Auto
            && let Some(reason) = topology.refuses_auto()
        {
            return Err(tree.wrong("compression", format!("auto {reason}")));
        }
        let workers = clients::workers(&tree, &file, &topology)?;
        let outer = local_steps::outer(&tree, &mut file, &topology)?;
        let shares = shares::rule(&tree, &file, &topology)?.unwrap_or_default();
        if file.name.is_empty() {
            file.name = format!("{}-{}", file.model.name(), data_name(&file.data));
        }
        let threads = file.threads_on(cores, topology.workers());
        let form = None;
        Ok(Self { file, topology, workers, threads, length, class_weights, outer, shares, form, tree })
    }

    /// Lets shares follow speed if the file does not say otherwise and the architecture can have it.
    pub fn share_by_speed(&mut self) {
        let is_open = self.file.shares.is_none() && self.file.dynamic.is_none();
        if is_open && shares::refusal(&self.file, &self.topology, &ShareRule::Auto).is_none() {
            self.shares = ShareRule::Auto;
        }
    }

    /// Whether workers that share memory do exactly this.
    pub fn is_in_step(&self) -> bool {
        let is_measured = self.file.compression == Compression::Auto;
        let steps_alone = self.outer.is_some();
        self.topology.is_in_step() && self.shares == ShareRule::Equal && !steps_alone && !is_measured
    }

    /// The first key of which another value does not fit the checkpoints of a run with these settings.
    pub fn differs_for_good(&self, other: &Self) -> Option<&'static str> {
        let (a, b) = (&self.file, &other.file);
        let same = [
            ("model", a.model == b.model),
            ("data", a.data == b.data),
            ("optimizer", a.optimizer.name() == b.optimizer.name()),
            ("batch_size", a.batch_size == b.batch_size),
            ("seed", a.seed == b.seed),
            ("validation", a.validation == b.validation),
            ("the number of workers", self.workers == other.workers),
        ];
        same.iter().find(|(_, same)| !same).map(|(key, _)| *key)
    }

    /// No batch of one worker has more samples. Data of one's own are gone through in as many rounds as all need, so
    /// that who has many has large batches.
    pub fn most_samples(&self) -> usize {
        match self.file.distribute {
            Distribute::Own => self.file.batch_size.saturating_mul(self.topology.workers()),
            Distribute::Local | Distribute::Ship => self.file.batch_size,
        }
    }

    /// Whether the file, or what was laid over it, has this key.
    pub fn says(&self, key: &str) -> bool {
        self.tree.has(key)
    }

    /// An error about one of the keys, with the line on which it stands.
    pub fn wrong(&self, key: &str, message: impl std::fmt::Display) -> YamlError {
        self.tree.wrong(key, message)
    }

    /// The run file with everything resolved, to be saved with the run.
    pub fn to_yaml(&self) -> Result<String, YamlError> {
        to_yaml(&self.file)
    }
}

/// What a run on these data is called: a known name, or the last part of a path.
fn data_name(data: &Source) -> String {
    let last = std::path::Path::new(&data.name).file_name();
    last.map_or_else(|| "data".to_owned(), |name| name.to_string_lossy().into_owned())
}

fn check_ranges(tree: &Tree, file: &RunFile) -> Result<(), YamlError> {
    let at_least_1 = [
        ("batch_size", Some(file.batch_size as u64)),
        ("epochs", file.epochs),
        ("num_server_rounds", file.num_server_rounds),
        ("keep_checkpoints", Some(file.keep_checkpoints as u64)),
        ("workers", file.workers.map(|workers| workers as u64)),
        ("threads", file.threads.map(|threads| threads as u64)),
        ("min_workers", Some(file.min_workers as u64)),
    ];
    if let Some((key, _)) = at_least_1.iter().find(|(_, value)| *value == Some(0)) {
        return Err(tree.wrong(key, "must be at least 1"));
    }
    if file.target_accuracy.is_some_and(|target| !(target > 0.0 && target <= 1.0)) {
        return Err(tree.wrong("target_accuracy", "must be above 0 and at most 1; 0.9 is 90 %"));
    }
    if !(file.silence_s >= 0.5 && file.silence_s <= MOST_SECONDS) {
        return Err(tree.wrong("silence_s", format!("must be from 0.5 to {MOST_SECONDS}")));
    }
    if file.clip_norm.is_some_and(|norm| !(norm > 0.0 && norm.is_finite())) {
        return Err(tree.wrong("clip_norm", "must be above 0"));
    }
    if let Compression::PowerSgd(rank) = file.compression
        && !(1..=MOST_RANK).contains(&rank)
    {
        return Err(tree.wrong("compression.powersgd", format!("must be from 1 to {MOST_RANK}")));
    }
    if let Compression::TopK(part) = file.compression {
        if !(part > 0.0 && part <= 1.0) {
            return Err(
                tree.wrong("compression.top_k", "must be above 0 and at most 1; 0.01 is one value of 100")
            );
        }
        if file.local_steps != LocalSteps::default() {
            let message = "top_k is for gradients: leave out `local_steps`, or name int8 instead";
            return Err(tree.wrong("compression", message));
        }
        if !matches!(file.optimizer, OptimizerSpec::Sgd(_)) {
            let message = format!(
                "top_k is for `optimizer: sgd`: {} would divide what comes late and together by what came before; \
                 name int8 instead",
                file.optimizer.name()
            );
            return Err(tree.wrong("compression", message));
        }
    }
    if let Some((key, rule)) = file.watts.and_then(|watts| watts.check().err()) {
        return Err(tree.wrong(&format!("watts.{key}"), rule));
    }
    if let Some((option, rule)) = file.optimizer.wrong_option() {
        let key = format!("optimizer.{}.{option}", file.optimizer.name());
        return Err(tree.wrong(&key, format!("must be {rule}")));
    }
    if let Schedule::Steps(steps) = &file.schedule
        && (steps.is_empty()
            || steps.iter().any(|step| step.epochs == 0 || step.lr.is_nan() || step.lr < 0.0))
    {
        let rule = "must list steps of at least one epoch with a rate that is not negative";
        return Err(tree.wrong("schedule", rule));
    }
    if let Schedule::Steps(steps) = &file.schedule
        && steps.iter().try_fold(0u64, |sum, step| sum.checked_add(step.epochs)).is_none()
    {
        return Err(tree.wrong("schedule", "its steps have more epochs than can be counted"));
    }
    Ok(())
}

/// `--workers` means whatever the file's architecture calls its workers.
fn set_workers(file: &mut RunFile, workers: usize) -> Result<(), YamlError> {
    if workers == 0 {
        return Err(YamlError::new("--workers must be at least 1"));
    }
    match (file.arch, &mut file.parameter_server) {
        (Arch::Single, _) => file.workers = Some(workers),
        (Arch::Flat, Some(server)) => server.num_workers = workers,
        (Arch::Flat, None) => {
            file.parameter_server =
                Some(ParameterServer { num_workers: workers, ..ParameterServer::default() });
        }
        (Arch::Allreduce, _) => match &mut file.allreduce {
            Some(group) => group.num_workers = workers,
            none => {
                let (op, engine) = Default::default();
                *none = Some(Allreduce { num_workers: workers, servers: 0, op, engine });
            }
        },
        (Arch::Hierarchical, _) => {
            return Err(YamlError::new(
                "--workers cannot be given with `arch: hierarchical`: set num_workers of each local server",
            ));
        }
    }
    Ok(())
}

fn length(tree: &Tree, file: &mut RunFile) -> Result<Span, YamlError> {
    match (file.epochs, file.num_server_rounds) {
        (Some(_), Some(_)) => {
            Err(tree
                .wrong("num_server_rounds", "cannot be given together with epochs: leave one of them out"))
        }
        (None, Some(rounds)) => Ok(Span::Rounds(rounds)),
        (epochs, None) => Ok(Span::Epochs(*file.epochs.insert(epochs.unwrap_or(EPOCHS)))),
    }
}

#[cfg(test)]
mod tests;

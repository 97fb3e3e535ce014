//! What the parameters of a run are worth, and what follows from it: which are the best, and whether it is to end.

use std::time::Instant;

use bonfire_learn::Tally;
use bonfire_learn::tally::ClassCount;
use bonfire_report::{ClassLine, Event, Exit, Phase};

use super::Run;
use crate::checkpoint::{BestRound, Progress, best};
use crate::job::Job;
use crate::schedule::Due;

/// What the parameters of a round are worth.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Evaluated {
    pub loss: f64,
    pub accuracy: f64,
    pub macro_f1: Option<f64>,
    /// Of numbers: how far they are off on average, and which part of their variance is explained.
    pub mae: Option<f64>,
    pub r2: Option<f64>,
    /// How often the right class was among the five most likely.
    pub top5: Option<f64>,
    /// Answers by class: a row for each right class, in it a number for each given one.
    pub confusion: Option<Vec<Vec<u64>>>,
    pub seconds: f64,
}

impl Evaluated {
    /// What was counted in so many seconds.
    pub fn of(tally: &Tally, seconds: f64) -> Self {
        Self {
            loss: tally.mean_loss(),
            accuracy: tally.accuracy(),
            macro_f1: tally.macro_f1(),
            mae: tally.mean_absolute_error(),
            r2: tally.r2(),
            top5: tally.top5(),
            confusion: tally.confusion(),
            seconds,
        }
    }

    /// The figures of every class. Those of a model that tells other classes than the data have are numbers.
    pub(super) fn by_class(&self, names: &[String]) -> Option<Vec<ClassLine>> {
        let rows = self.confusion.as_ref()?;
        let line = |class: usize| {
            let name = if names.len() == rows.len() { names[class].clone() } else { class.to_string() };
            let count = ClassCount {
                right: rows[class].iter().sum(),
                given: rows.iter().filter_map(|row| row.get(class)).sum(),
                hits: rows[class].get(class).copied().unwrap_or_default(),
            };
            let (precision, recall, f1) = (count.precision(), count.recall(), count.f1());
            ClassLine { name, count: count.right, precision, recall, f1 }
        };
        Some((0..rows.len()).map(line).collect())
    }
}

/// Whether the best evaluation is as long ago as the run may go on without a better one.
pub(super) fn is_out_of_patience(job: &Job, progress: &Progress) -> bool {
    job.settings.file.patience.is_some_and(|patience| progress.since_best >= patience)
}

impl Run {
    /// Measures the parameters before the first round, if that was asked for. Some if the run is to end with it.
    pub(super) fn measure_start(&mut self) -> Option<Exit> {
        if !self.job.settings.file.eval_at_start || self.progress.round > 0 {
            return None;
        }
        self.carry_out(Due { evaluation: true, checkpoint: false })
    }

    /// Measures the parameters as they are; some if the run is to end with that.
    pub(super) fn evaluate(&mut self) -> Option<Exit> {
        let started = Instant::now();
        let tally = self.job.measure();
        let evaluated = Evaluated::of(&tally, started.elapsed().as_secs_f64());
        self.watch.add(Phase::Evaluate, started.elapsed());
        self.measured(self.progress.round, self.epochs(), evaluated, None)
    }

    /// Takes what an evaluation of a round's parameters found; some if the run is to end with that. These are the
    /// parameters, unless they are what the run has now.
    pub fn measured(
        &mut self,
        round: u64,
        epoch: f64,
        evaluated: Evaluated,
        parameters: Option<&[f32]>,
    ) -> Option<Exit> {
        let Evaluated { loss, accuracy, macro_f1, seconds, .. } = evaluated;
        self.evaluated = Some(evaluated);
        self.progress.best_accuracy =
            Some(self.progress.best_accuracy.map_or(accuracy, |best| best.max(accuracy)));
        let samples = self.job.dataset.test.len() as u64;
        self.tell(Event::Evaluated { round, epoch, loss, accuracy, macro_f1, samples, seconds });
        if self.job.held_out.is_some() {
            self.judge(round, (loss, accuracy), parameters);
        }
        if let Some(target) = self.job.settings.file.target_accuracy.filter(|target| accuracy >= *target) {
            self.progress.target_reached_round.get_or_insert(round);
            self.tell(Event::TargetReached { round, accuracy, target });
            return Some(Exit::TargetReached);
        }
        if !is_out_of_patience(&self.job, &self.progress) {
            return None;
        }
        let best_round = self.progress.best.as_ref().map_or(0, |best| best.round);
        self.tell(Event::StoppedEarly { round, best_round, evaluations: self.progress.since_best });
        Some(Exit::StoppedEarly)
    }

    /// Keeps what is better than all before.
    fn judge(&mut self, round: u64, (loss, accuracy): (f64, f64), parameters: Option<&[f32]>) {
        let by = self.job.settings.file.best_by.unwrap_or_default();
        let is_better = |best: &BestRound| by.is_better((loss, accuracy), (best.loss, best.accuracy));
        if !loss.is_finite() || !self.progress.best.as_ref().is_none_or(is_better) {
            self.progress.since_best += 1;
            return;
        }
        let parameters = parameters.unwrap_or(&self.job.replica.parameters);
        match best::keep(&self.folder.checkpoints(), self.job.layout(), parameters) {
            Ok(sha256) => {
                self.progress.best = Some(BestRound { round, loss, accuracy, sha256 });
                self.progress.since_best = 0;
            }
            Err(error) => {
                self.progress.since_best += 1;
                let message = format!("the best parameters, of round {round}, could not be kept: {error:#}");
                self.tell(Event::Warned { message });
            }
        }
    }

    /// Measures the best parameters on the test half that was kept for the end.
    pub(super) fn test(&mut self) {
        let Some(samples) = self.job.held_out.clone() else { return };
        let folder = self.folder.checkpoints();
        // No other checkpoint will come. What cannot be removed does no harm.
        let _ = best::settle(&folder);
        let best = self.progress.best.as_ref();
        let kept = best.map(|best| (best.round, best::read(&folder, self.job.layout(), best)));
        let (round, parameters) = match kept {
            Some((round, Ok(parameters))) => (round, parameters),
            other => {
                let reason = match other {
                    Some((_, Err(error))) => format!("the best parameters cannot be read: {error:#}"),
                    _ => "no evaluation gave a loss that is a number".to_owned(),
                };
                self.tell(Event::Warned { message: format!("{reason}; the last parameters are tested") });
                (self.progress.round, self.job.replica.parameters.clone())
            }
        };
        let started = Instant::now();
        let tally = self.job.evaluate_on(&samples, &parameters);
        let tested = Evaluated::of(&tally, started.elapsed().as_secs_f64());
        self.watch.add(Phase::Evaluate, started.elapsed());
        let Evaluated { loss, accuracy, macro_f1, seconds, .. } = tested;
        let samples = samples.len() as u64;
        self.tell(Event::Tested { round, loss, accuracy, macro_f1, samples, seconds });
        self.tested = Some(tested);
    }
}

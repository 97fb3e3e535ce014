//! A run in a few numbers.

use bonfire_report::{EnergyLabel, Exit, Summary, peak_rss_mb};

use super::Run;

impl Run {
    /// With the joules that it took, if that is known.
    pub(super) fn summary(&self, exit: Exit, energy: Option<(f64, EnergyLabel)>) -> Summary {
        let seconds = self.started.elapsed().as_secs_f64();
        let progress = &self.progress;
        let of_hosts = self.watch.energy.all();
        // Of a run on one machine its meter knows better than samples do.
        let is_spread = self.traffic.is_some();
        let wh = match is_spread {
            true => of_hosts.map(|all| all.wh),
            false => energy.map(|(joules, _)| joules / 3600.0),
        };
        let label = if is_spread { of_hosts.map(|all| all.energy) } else { energy.map(|(_, label)| label) };
        // Of a run that is judged by validation only the test at its end counts.
        let is_validated = self.job.held_out.is_some();
        let measured = if is_validated { &self.tested } else { &self.evaluated }.as_ref();
        // What learns a number has no accuracy.
        let is_number = self.job.dataset.classes.is_empty();
        Summary {
            name: self.job.settings.file.name.clone(),
            model: self.job.model_name.clone(),
            data: self.job.dataset.name.clone(),
            workers: self.job.settings.workers,
            exit,
            rounds: progress.round,
            epochs: self.epochs(),
            samples: progress.samples,
            seconds,
            samples_per_s: self.samples as f64 / seconds,
            train_loss: progress
                .train_loss
                .filter(|_| exit != Exit::Failed)
                .unwrap_or(progress.ledger.mean_loss()),
            eval_loss: measured.map(|measured| measured.loss),
            accuracy: measured.map(|measured| measured.accuracy).filter(|_| !is_number),
            best_accuracy: progress.best_accuracy.filter(|_| !is_number),
            rmse: measured.filter(|_| is_number).map(|measured| measured.loss.sqrt()),
            mae: measured.and_then(|measured| measured.mae),
            r2: measured.and_then(|measured| measured.r2),
            macro_f1: measured.and_then(|measured| measured.macro_f1),
            top5_accuracy: measured.and_then(|measured| measured.top5),
            validation_loss: progress.best.as_ref().map(|best| best.loss),
            validation_accuracy: progress.best.as_ref().map(|best| best.accuracy).filter(|_| !is_number),
            best_round: progress.best.as_ref().map(|best| best.round),
            classes: measured.and_then(|measured| measured.by_class(&self.job.dataset.classes)),
            confusion: measured.and_then(|measured| measured.confusion.clone()),
            target_reached_round: progress.target_reached_round,
            peak_rss_mb: peak_rss_mb(),
            first_step_s: self.first_step_s,
            nodes: self.traffic.map(|traffic| traffic.nodes),
            sent_bytes: self.traffic.map(|traffic| traffic.sent_bytes),
            received_bytes: self.traffic.map(|traffic| traffic.received_bytes),
            late: self.traffic.map(|traffic| traffic.late),
            head_share: self.traffic.map(|traffic| traffic.head_share),
            wh,
            waiting_wh: of_hosts.map(|all| all.waiting_wh),
            hosts_wh: of_hosts.filter(|_| is_spread).map(|_| self.watch.energy.hosts().clone()),
            wh_per_1000_samples: wh.filter(|_| self.samples > 0).map(|wh| wh * 1000.0 / self.samples as f64),
            energy: label,
            time: self.watch.sentence(),
        }
    }
}

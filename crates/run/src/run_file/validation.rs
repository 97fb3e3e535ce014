//! What a run is judged by while it trains.

use std::sync::Arc;

use bonfire_data::{Dataset, Error, Samples, Validation};
use bonfire_yaml::{Tree, YamlError};
use serde::{Deserialize, Serialize};

use super::{RunFile, Settings};

/// Which of two evaluations is the better one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum BestBy {
    /// That with the smaller loss.
    #[default]
    Loss,
    /// That with the larger accuracy; of equal ones that with the smaller loss.
    Accuracy,
}

impl BestBy {
    /// Whether an evaluation, its loss and accuracy, is better than another. Equal ones are not.
    pub fn is_better(self, (loss, accuracy): (f64, f64), (than_loss, than_accuracy): (f64, f64)) -> bool {
        // A loss that is no number is never better, and anything is better than it.
        let smaller = loss < than_loss || (than_loss.is_nan() && !loss.is_nan());
        match self {
            Self::Loss => smaller,
            Self::Accuracy => accuracy > than_accuracy || (accuracy == than_accuracy && smaller),
        }
    }
}

impl Settings {
    /// Has data that were loaded measured on what the run is judged by. Returns the test half if that is for the end.
    pub fn hold_out(&self, dataset: &mut Dataset) -> Result<Option<Arc<Samples>>, Error> {
        self.file.validation.map(|validation| dataset.hold_out(validation, self.file.seed)).transpose()
    }
}

/// Checks the keys that go together, and tells the data whether their own part is wanted.
pub(super) fn check(tree: &Tree, file: &mut RunFile) -> Result<(), YamlError> {
    if let Some(Validation::Part(part)) = file.validation
        && !(part > 0.0 && part < 1.0)
    {
        let message = format!(
            "must be above 0 and below 1, such as 0.1 for a tenth of the training half, or dev; found {part}"
        );
        return Err(tree.wrong("validation", message));
    }
    if file.patience == Some(0) {
        return Err(tree.wrong("patience", "must be at least 1"));
    }
    let given = [("best_by", file.best_by.is_some()), ("patience", file.patience.is_some())];
    if let (None, Some((key, _))) = (file.validation, given.iter().find(|(_, given)| *given)) {
        let message = "is judged by validation: give `validation: 0.1`, or dev, too; \
                       the test half is for the end";
        return Err(tree.wrong(key, message));
    }
    check_numbers(tree, file)?;
    file.data.dev = file.validation == Some(Validation::Dev);
    Ok(())
}

/// What only classes have, where a number is learned.
fn check_numbers(tree: &Tree, file: &RunFile) -> Result<(), YamlError> {
    if file.data.value.is_none() {
        return Ok(());
    }
    let given = [
        ("target_accuracy", file.target_accuracy.is_some()),
        ("best_by", file.best_by == Some(BestBy::Accuracy)),
        ("class_weights", file.class_weights.is_some()),
    ];
    match given.iter().find(|(_, given)| *given) {
        Some((key, _)) => {
            Err(tree.wrong(key, "is for classes, but `data.value` is a number to learn: leave it out"))
        }
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run_file::Overrides;

    #[test]
    fn the_better_of_two_is_known() {
        let check = |by: BestBy, one, other, expect| {
            assert_eq!(by.is_better(one, other), expect, "{by:?}: {one:?} and {other:?}");
        };
        check(BestBy::Loss, (0.5, 0.1), (0.6, 0.9), true);
        check(BestBy::Loss, (0.6, 0.9), (0.6, 0.1), false);
        check(BestBy::Loss, (f64::NAN, 0.9), (0.6, 0.1), false);
        check(BestBy::Loss, (0.6, 0.1), (f64::NAN, 0.9), true);
        check(BestBy::Loss, (f64::NAN, 0.9), (f64::NAN, 0.1), false);
        check(BestBy::Accuracy, (0.9, 0.7), (0.1, 0.6), true);
        check(BestBy::Accuracy, (0.1, 0.6), (0.2, 0.6), true);
        check(BestBy::Accuracy, (0.2, 0.6), (0.2, 0.6), false);
    }

    fn read(text: &str) -> Result<Settings, YamlError> {
        Settings::read("run.yml", text, &Overrides::default(), 1)
    }

    #[test]
    fn keys_that_cannot_be_are_refused_with_their_line() {
        let check = |text: &str, expect: &str| {
            let error = read(text).expect_err("a wrong key").to_string();
            assert!(error.contains(expect), "{error:?} should say {expect:?}");
        };
        for part in ["0", "1", "1.5", "-0.1", "0.0", "1.0"] {
            check(
                &format!("epochs: 1\nvalidation: {part}"),
                "run.yml:2: validation: must be above 0 and below 1, such as 0.1",
            );
        }
        check("validation: test", "run.yml:1: validation: expected a part of the training half such as 0.1");
        check("validation: 0.1\npatience: 0", "run.yml:2: patience: must be at least 1");
        check("patience: 3", "run.yml:1: patience: is judged by validation: give `validation: 0.1`");
        check("best_by: loss", "run.yml:1: best_by: is judged by validation");
        check("validation: 0.1\nbest_by: f1", "run.yml:2: best_by");
        check("checkpoint_every: seldom", "or `never`");
        let number = "data: {name: a.csv, value: price}\nvalidation: 0.1";
        let line = "is for classes, but `data.value` is a number to learn";
        for key in ["target_accuracy: 0.9", "best_by: accuracy", "class_weights: [1, 2]"] {
            let name = key.split(':').next().expect("a key");
            check(&format!("{number}\n{key}"), &format!("run.yml:3: {name}: {line}"));
        }
        check(
            "data: {name: a.csv, value: price, label: kind}",
            "`value`, a number to learn from numbers, and `label`",
        );
    }

    #[test]
    fn what_is_read_is_saved_and_read_again() {
        let text =
            "{validation: dev, best_by: accuracy, patience: 3, eval_at_start: true, checkpoint_every: never}";
        let settings = read(text).expect("a run file");
        assert!(settings.file.data.dev);
        let again = read(&settings.to_yaml().expect("YAML")).expect("a run file");
        assert_eq!(again.file, settings.file);
        let plain = read("").expect("a run file").to_yaml().expect("YAML");
        for key in ["validation", "best_by", "patience", "eval_at_start"] {
            assert!(!plain.contains(key), "{key} in {plain}");
        }
    }
}

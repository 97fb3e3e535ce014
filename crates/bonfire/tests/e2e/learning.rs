//! That what is trained was learned.

use crate::program::Dir;
use crate::record::Record;

/// The accuracy after a run with these settings.
#[track_caller]
fn accuracy(settings: &str) -> f64 {
    let dir = Dir::new();
    dir.bonfire("train --quiet --out run").set(settings).succeed();
    Record::of(dir.path("run")).number("accuracy")
}

#[test]
fn lenet5_reads_digits() {
    let accuracy = accuracy("epochs=5");
    assert!(accuracy >= 0.97, "{accuracy}");
}

#[test]
fn a_tagger_learns_grammar() {
    let accuracy = accuracy("model=tagger\n data=grammar\n epochs=3");
    assert!(accuracy >= 0.97, "{accuracy}");
}

#[test]
fn sentiment_is_more_than_counting_words() {
    let accuracy = accuracy("model=sentiment\n data=reviews\n epochs=1");
    assert!(accuracy > 0.844, "{accuracy}");
}

#[test]
fn a_linear_model_is_not_enough_for_digits() {
    let accuracy = accuracy("model.mlp.hidden=[]\n epochs=5");
    assert!((0.5..0.9).contains(&accuracy), "{accuracy}");
}

#[test]
fn an_mlp_learns_too() {
    let accuracy = accuracy("model=mlp\n data={name: digits, train: 4000, test: 500}\n epochs=2");
    assert!(accuracy > 0.5, "{accuracy}");
}

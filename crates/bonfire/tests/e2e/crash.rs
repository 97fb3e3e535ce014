//! A run that dies at any moment goes on as if it had not.

use std::fs;
use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::program::{Bonfire, Dir, Outcome};
use crate::record::Record;
use crate::{ROUNDS_PER_EPOCH, SMALL};

/// A run that would go on for hours, so that it is always caught in the middle, however fast the machine.
const ENDLESS: &str = "epochs=1000000\n checkpoint_every=20 rounds";

fn train(dir: &Dir, run: &Record, settings: &str) -> Bonfire {
    dir.bonfire("train --quiet --out").arg(&run.0).set(SMALL).set(settings)
}

fn resume(dir: &Dir, run: &Record) -> Bonfire {
    dir.bonfire("train --quiet --resume").arg(&run.0)
}

/// Lets a run go on for a while from its newest checkpoint and end. It must end like one that nothing disturbed.
#[track_caller]
fn check_end(dir: &Dir, run: &Record, newest_round: u64) -> Outcome {
    let length = format!("epochs={}", newest_round / ROUNDS_PER_EPOCH + 2);
    let outcome = resume(dir, run).set(&length).succeed();
    let undisturbed = Record::of(run.0.with_extension("undisturbed"));
    train(dir, &undisturbed, &length).succeed();
    assert!(
        run.parameters() == undisturbed.parameters(),
        "it ended otherwise than undisturbed, with {length}"
    );
    assert_eq!(run.events().last().expect("events")["event"], "ended");
    outcome
}

/// The clock, unless `BONFIRE_TEST_SEED` asks for the same chance again.
fn chance() -> impl FnMut(u64) -> u64 {
    let clock = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970").as_nanos() as u64;
    let seed = std::env::var("BONFIRE_TEST_SEED").map_or(clock, |seed| seed.parse().expect("a number"));
    eprintln!("to have the same chance again: BONFIRE_TEST_SEED={seed}");
    let mut state = seed | 1;
    move |below| {
        // A linear congruence, of which the upper bits are the good ones.
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % below
    }
}

#[test]
fn killed_at_random_moments_it_ends_the_same() {
    let (dir, mut chance) = (Dir::new(), chance());
    for attempt in 0..3 {
        let run = Record::of(dir.path(&format!("killed-{attempt}")));
        let mut running = train(&dir, &run, ENDLESS).start();
        // What dies before its first event has left no run to go on with.
        running.until("the first event", || run.has_started());
        for _ in 0..4 {
            running.kill_after(Duration::from_millis(chance(120)));
            running = resume(&dir, &run).start();
        }
        running.kill_after(Duration::from_millis(chance(120)));
        check_end(&dir, &run, run.newest_round());
    }
}

/// The last checkpoint is written before the last word: a run that is killed between them still has to say it.
#[test]
fn killed_after_its_last_checkpoint_it_still_ends() {
    let dir = Dir::new();
    let run = Record::of(dir.path("run"));
    let check = |settings: &str, exit: &str| {
        train(&dir, &run, settings).succeed();
        let summary = run.summary();
        let events = fs::read_to_string(run.0.join("events.jsonl")).expect("events");
        let (all_but_the_end, _) = events.trim_end().rsplit_once('\n').expect("lines");
        fs::write(run.0.join("events.jsonl"), format!("{all_but_the_end}\n{{\"at_s\":")).expect("written");
        fs::remove_file(run.0.join("summary.json")).expect("removed");
        resume(&dir, &run).succeed();
        for key in ["rounds", "samples", "accuracy", "eval_loss", "best_accuracy", "target_reached_round"] {
            assert_eq!(run.summary()[key], summary[key], "{key}");
        }
        assert_eq!(run.summary()["exit"], exit);
        assert_eq!(run.events().last().expect("events")["event"], "ended");
        resume(&dir, &run).run().refuse("to go on: --set");
        fs::remove_dir_all(&run.0).expect("removed");
    };
    check("epochs=1", "done");
    check("target_accuracy=0.3", "target_reached");
}

/// Kills a run when it has some checkpoints, does something to the newest, and lets it go on. Returns what it said.
#[track_caller]
fn check_damage(damage: impl Fn(&Path)) -> String {
    let dir = Dir::new();
    let run = Record::of(dir.path("killed"));
    let mut running = train(&dir, &run, ENDLESS).start();
    running.until("a third checkpoint", || run.newest_round() >= 60);
    running.kill_after(Duration::ZERO);
    let newest_round = run.newest_round();
    damage(&run.newest());
    check_end(&dir, &run, newest_round).stderr
}

fn cut_in_half(file: &Path) {
    let bytes = fs::read(file).expect("a file");
    fs::write(file, &bytes[..bytes.len() / 2]).expect("written");
}

#[test]
fn half_a_file_of_parameters_is_passed_over() {
    let warned = check_damage(cut_in_half);
    assert!(warned.contains("warning: passed over") && warned.contains(".safetensors"), "{warned}");
}

#[test]
fn half_a_state_is_passed_over() {
    let warned = check_damage(|file| cut_in_half(&file.with_extension("state")));
    assert!(warned.contains("warning: passed over"), "{warned}");
}

#[test]
fn half_written_checkpoints_are_not_looked_at() {
    check_damage(|file| {
        let folder = file.parent().expect("a folder");
        for name in ["step-999980.safetensors.part", "step-999980.state.part", "step-999990.state"] {
            fs::write(folder.join(name), "half of it").expect("written");
        }
    });
}

#[test]
fn without_a_checkpoint_it_begins_again() {
    let dir = Dir::new();
    let run = Record::of(dir.path("killed"));
    let mut running = train(&dir, &run, "epochs=1000000\n checkpoint_every=1000000 epochs").start();
    running.until("an evaluation", || run.has_started() && !run.told_so_far("evaluated").is_empty());
    running.kill_after(Duration::ZERO);
    assert_eq!(run.checkpoints().len(), 0);
    check_end(&dir, &run, 0);
    assert_eq!(run.told("resumed")[0]["round"], 0);
}

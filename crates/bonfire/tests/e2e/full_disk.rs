//! Disks that are full, files that may not grow, folders that are taken away: the run goes on and says so.

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};

use crate::program::{Bonfire, Dir, Running, names};
use crate::record::Record;
use crate::{SMALL, TINY};

/// A run that goes on until it is stopped.
const ENDLESS: &str = "epochs=1000000\n checkpoint_every=20 rounds\n keep_checkpoints=1";

/// Starts a program in a mount namespace of its own, where `disk` has only so many kilobytes. None without the right
/// to.
fn on_small_disk(program: Bonfire, disk: &Path, kilobytes: usize, after: &str) -> Option<Bonfire> {
    let may = std::process::Command::new("unshare").args(["-m", "true"]).status();
    if !may.is_ok_and(|status| status.success()) {
        eprintln!("SKIPPED: a disk of its own takes root");
        return None;
    }
    fs::create_dir_all(disk).expect("a folder");
    let mount = format!("mount -t tmpfs -o size={kilobytes}k none '{}'", disk.display());
    Some(program.under(&["unshare", "-m"], &format!("{mount} && {after}")))
}

/// The disk as the program sees it.
fn seen_by(running: &Running, disk: &Path) -> PathBuf {
    PathBuf::from(format!("/proc/{}/root{}", running.id(), disk.display()))
}

/// Takes all the room that is left.
fn fill(path: &Path) {
    let mut file = File::create(path).expect("a file");
    while file.write_all(&[0; 4096]).is_ok() {}
}

#[test]
fn a_disk_that_is_full_for_a_while_leaves_a_gap() {
    let dir = Dir::new();
    let disk = dir.path("disk");
    let train = dir.bonfire("train --out disk/run").set(SMALL).set(ENDLESS);
    let Some(train) = on_small_disk(train, &disk, 4000, "exec \"$@\"") else { return };
    let mut running = train.start();
    let seen = seen_by(&running, &disk);
    let run = Record::of(seen.join("run"));
    running.until("a checkpoint", || run.newest_round() > 0);
    fill(&seen.join("filler"));
    running.until_said("no checkpoint of round");
    running.until_said("the run goes on, its log has gaps");
    let kept = run.newest_round();
    assert!(kept > 0, "the last good checkpoint is kept: {:?}", names(&seen.join("run/checkpoints")));
    fs::remove_file(seen.join("filler")).expect("removed");
    running.until_said("checkpoints can be written again");
    running.until_said("the log can be written again");
    assert!(run.newest_round() > kept);
    assert_eq!(names(&seen.join("run/checkpoints")).len(), 2, "nothing is left of what failed");
    let noted = run.told_so_far("noted");
    let gaps = noted.iter().filter(|note| note["message"].to_string().contains("before this could not be"));
    assert_eq!(gaps.count(), 1, "{noted:?}");
    let said = running.said();
    for once in ["no checkpoint of round", "its log has gaps"] {
        assert_eq!(said.matches(once).count(), 1, "{once:?} once in\n{said}");
    }
    running.signal("INT");
    running.wait().expect(130);
}

#[test]
fn a_disk_without_room_for_the_next_checkpoint_keeps_the_last() {
    let dir = Dir::new();
    let train = dir.bonfire("train --out disk/run").set(SMALL).set("checkpoint_every=40 rounds");
    // Room for one checkpoint of LeNet-5 and half of another.
    let keep = "{ \"$@\"; code=$?; cp -r disk/run kept; exit $code; }";
    let Some(train) = on_small_disk(train, &dir.path("disk"), 640, keep) else { return };
    let outcome = train.run().expect(1);
    assert_eq!(outcome.stderr.matches("no checkpoint of round").count(), 1, "{}", outcome.stderr);
    assert!(outcome.stderr.contains("its last parameters could not be saved"), "{}", outcome.stderr);
    assert!(outcome.stderr.contains("accuracy"), "the result is said all the same: {}", outcome.stderr);
    let kept = Record::of(dir.path("kept"));
    assert_eq!(names(&kept.0.join("checkpoints")), ["step-000040.safetensors", "step-000040.state"]);
    dir.bonfire("eval kept").succeed();
    dir.bonfire("train --quiet --resume kept").succeed();
    assert_eq!(kept.summary()["rounds"], 160);
}

#[test]
fn a_disk_that_is_full_at_the_start_refuses_the_run() {
    let check = |command: &str, kilobytes: usize| {
        let dir = Dir::new();
        let program = dir.bonfire(&format!("{command} --out disk/run")).set(TINY);
        let list = "{ \"$@\"; code=$?; ls -A disk; exit $code; }";
        let Some(program) = on_small_disk(program, &dir.path("disk"), kilobytes, list) else { return };
        let outcome = program.run().expect(2);
        assert!(outcome.stderr.contains("error: "), "{}", outcome.stderr);
        assert_eq!(outcome.stdout, "", "nothing is left behind");
    };
    check("train", 4);
    check("head --listen 127.0.0.1:0", 8);
}

#[test]
fn files_that_may_not_grow_cost_the_checkpoint_not_the_run() {
    let dir = Dir::new();
    // In blocks of 512 bytes: the log is smaller, a checkpoint is larger.
    let train = dir.bonfire("train --out run").set(SMALL).under(&[], "ulimit -f 400 && exec \"$@\"");
    let outcome = train.run().expect(1);
    assert_eq!(outcome.stderr.matches("no checkpoint of round").count(), 1, "{}", outcome.stderr);
    assert!(outcome.stderr.contains("its last parameters could not be saved"), "{}", outcome.stderr);
    let run = Record::of(dir.path("run"));
    assert_eq!(run.summary()["rounds"], 160, "it went on to its end");
    assert_eq!(names(&run.0.join("checkpoints")), [""; 0], "and left no half of a file");

    let before = dir.entries();
    let train = dir.bonfire("train --out none").set(TINY).under(&[], "ulimit -f 0 && exec \"$@\"");
    train.run().refuse("none/run.yml: ");
    assert_eq!(dir.entries(), before, "nothing was started");
}

/// Trains until there is a checkpoint, then takes something away; gives it back when the run has said so.
#[track_caller]
fn check_loss(take: impl Fn(&Path), said: &[&str], give_back: impl Fn(&Path), again: &[&str]) {
    let dir = Dir::new();
    let run = Record::of(dir.path("run"));
    let mut running = dir.bonfire("train --out run").set(SMALL).set(ENDLESS).start();
    running.until("a checkpoint", || run.newest_round() > 0);
    take(&run.0);
    said.iter().for_each(|said| running.until_said(said));
    give_back(&run.0);
    again.iter().for_each(|said| running.until_said(said));
    running.signal("INT");
    running.wait().expect(130);
    let length = format!("epochs={}", run.newest_round() / crate::ROUNDS_PER_EPOCH + 2);
    dir.bonfire("train --quiet --resume run").set(&length).succeed();
}

#[test]
fn a_folder_that_is_taken_away_and_given_back() {
    check_loss(
        |run| {
            // The run may make the folder anew in between.
            while fs::rename(run.join("checkpoints"), run.with_extension("elsewhere")).is_err()
                || File::create_new(run.join("checkpoints")).is_err()
            {
                fs::remove_dir_all(run.with_extension("elsewhere")).expect("removed");
            }
        },
        &["no checkpoint of round"],
        |run| {
            fs::remove_file(run.join("checkpoints")).expect("removed");
        },
        &["checkpoints can be written again"],
    );
}

#[test]
fn a_run_folder_that_is_removed_is_made_again() {
    check_loss(
        |run| while run.join("events.jsonl").exists() && fs::remove_dir_all(run).is_err() {},
        &["events.jsonl: the file was removed; the run goes on"],
        |_| (),
        &["the log can be written again"],
    );
}

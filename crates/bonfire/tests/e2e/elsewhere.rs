//! Coming back to a run from another machine than the one that started it.

use std::fs;

use crate::bed::{Bed, is_wanted};
use crate::launch::{complete, endless};
use crate::program::Dir;
use crate::record::Record;

#[test]
fn a_run_that_another_machine_started_is_shown_stopped_and_fetched() {
    if !is_wanted("a_run_that_another_machine_started_is_shown_stopped_and_fetched") {
        return;
    }
    let bed = Bed::of('z', 3);
    endless(&bed, "--detach", 2).wait().expect(0);
    // Another home, and so another list of runs; the way to the hosts is its own.
    let other = Dir::new();
    fs::copy(bed.lab.dir.path("hosts.ini"), other.path("mine.ini")).expect("a list");
    other.bonfire("attach").run().refuse("no run was started from here");
    other.bonfire("attach --from pi2 -i mine.ini").run().refuse("pi2 has no run's head");
    other.bonfire("attach 2001 --from pi1 -i mine.ini").run().refuse("pi1 has no head of a run 2001");
    let mut attached = other.bonfire("attach --from pi1 -i mine.ini --out fetched").start();
    attached.until_said("epoch");
    attached.signal("INT");
    attached.wait().expect(130);
    // From now on it is a run of that machine, too.
    let stopped = other.bonfire("stop").succeed();
    assert!(stopped.stderr.contains("3 processes have ended"), "{}", stopped.stderr);
    other.bonfire("attach --quiet").run().expect(130);
    let record = Record::of(other.path("fetched"));
    complete(&record, &["pi1", "pi2", "pi3"]);
    assert_eq!(record.summary()["exit"], "interrupted");
    // The machine that started it is told that nothing is left there.
    let late = bed.here("attach").run().expect(1).stderr;
    assert!(late.contains("pi1 has nothing of run"), "{late}");
    bed.end();
}

//! `BONFIRE_INSTRUCTIONS`: what it may be, and that every set of instructions trains.

use bonfire::learn::kernels::instructions::{VARIABLE, available};

use crate::SMALL;
use crate::program::Dir;
use crate::record::Record;

#[test]
fn a_set_that_the_machine_lacks_is_refused_by_what_computes() {
    let dir = Dir::new();
    let has = available().collect::<Vec<_>>().join(", ");
    let check = |command: &str| {
        let refused = dir.bonfire(command).env(&format!("{VARIABLE}=mmx")).run();
        refused.refuse(&format!("{VARIABLE}=mmx: this machine has {has}"));
        assert!(dir.entries().is_empty(), "something was left behind");
    };
    check("train");
    check("head --listen 127.0.0.1:0");
    check("node bonfire://127.0.0.1:1/nobody");
    check("eval nowhere");
    check("bench step --model lenet5 --seconds 0.1");
    dir.bonfire("data list").env(&format!("{VARIABLE}=mmx")).succeed();
}

/// Other instructions add in another order, so the bytes differ; what is learnt does not.
#[test]
fn every_set_learns_and_goes_on_from_what_another_learnt() {
    let dir = Dir::new();
    for name in available() {
        let run = Record::of(dir.path(name));
        let command = dir.bonfire("train --quiet --out").arg(&run.0).set(SMALL).set("epochs=2");
        command.env(&format!("{VARIABLE}={name}")).succeed();
        assert_eq!(run.json("state.json")["host"]["simd"], name);
        let half = run.number("eval_loss");
        dir.bonfire("train --quiet --resume").arg(&run.0).set("epochs=5").succeed();
        let (loss, accuracy) = (run.number("eval_loss"), run.number("accuracy"));
        assert!(loss < half, "a loss of {half} with {name} became {loss}");
        assert!(accuracy > 0.75, "an accuracy of {accuracy} after {name}");
    }
}

//! How much memory a run takes at most. `bench/memory.py` measures the same at full size.

use crate::fire::burn;
use crate::program::Dir;
use crate::record::Record;

/// A deep net on few images at a time, measured on many: resnet18 with a quarter of its channels.
const DEEP: &str = "
    model={resnet18: {width: 16}}
    data={name: digits, train: 64, test: 256}
    batch_size=8
    epochs=1
";

/// Parameters, moments and a gradient are 11 MB, a step on 8 images takes 10 MB more. It once was 119 MB.
#[test]
fn an_evaluation_takes_no_more_than_a_step() {
    let dir = Dir::new();
    dir.bonfire("train --quiet --out run").set(DEEP).set("workers=1").succeed();
    let peak = Record::of(dir.path("run")).number("peak_rss_mb");
    assert!(peak < 70.0, "{peak} MB");
}

/// Beside that there are the gradients that came and the one that goes. It once was 340 MB.
#[test]
fn a_head_needs_little_more() {
    let dir = Dir::new();
    let check = |name: &str, arch: &str| {
        let peak = burn(&dir, name, 2, &format!("{DEEP}\n{arch}")).number("peak_rss_mb");
        assert!(peak < 110.0, "{name}: {peak} MB");
    };
    check("flat", "arch=flat\n parameter_server={num_workers: 2}");
    check("group", "arch=allreduce\n allreduce={num_workers: 2}");
}

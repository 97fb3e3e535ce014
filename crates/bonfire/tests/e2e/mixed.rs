//! Hosts of two architectures in one run, in a lab whose ARM hosts are emulated.
//!
//! Needs root, sshd, Debian's qemu-user and libc6-arm64-cross, `BONFIRE_TEST_LAB=1`, and in `BONFIRE_TEST_AARCH64` the
//! program for aarch64 that `release/build aarch64` makes.

use crate::bed::{Bed, is_wanted};
use crate::launch::complete;
use crate::record::Record;

/// Parameters after so many rounds may differ by what the last bits of gradients have become.
const CLOSE: f32 = 2e-3;

/// So that emulated hosts are done in a moment. Shares by speed would differ from run to run.
const MOMENT: &str = "
    data={name: digits, train: 600, test: 100}
    epochs=2
    shares=equal
";

#[test]
fn x86_64_and_aarch64_hosts_train_together() {
    let test = "x86_64_and_aarch64_hosts_train_together";
    if !is_wanted(test) {
        return;
    }
    let Ok(program) = std::env::var("BONFIRE_TEST_AARCH64") else {
        eprintln!(
            "SKIPPED: {test}: BONFIRE_TEST_AARCH64 names no program for aarch64 (release/build aarch64)"
        );
        return;
    };
    let bed = Bed::shaped('y', 4, "--arch x86_64,x86_64,aarch64,aarch64");
    assert_eq!(bed.lab.said(1, "uname -m"), "x86_64");
    assert_eq!(bed.lab.said(3, "uname -m"), "aarch64");
    let program = format!("--program=aarch64={program}");
    let setup = bed.bonfire("setup").arg(&program).succeed();
    assert_eq!(setup.stderr.matches("copied").count(), 4, "{}", setup.stderr);
    let said = bed.lab.said(4, "~/.bonfire/bin/bonfire-* version");
    assert!(said.contains("for aarch64-unknown-linux-gnu, with neon"), "{said}");
    let checked = bed.bonfire("check --json").arg(&program).succeed().json_lines();
    for (host, arch) in checked.iter().zip(["x86_64", "x86_64", "aarch64", "aarch64"]) {
        assert_eq!(host["facts"]["arch"], arch, "{host}");
        assert!(host["has_program"] == true && host["samples_per_s"].as_f64() > Some(1.0), "{host}");
    }
    bed.lab.dir.write("plain.ini", bed.lines(&[1, 2, 3, 4]).replace(" slots=1", ""));
    for (arch, workers, hosts) in [
        ("arch=flat\n parameter_server={num_workers: 3}", 3, "hosts.ini"),
        ("arch=allreduce\n allreduce={num_workers: 4}", 4, "plain.ini"),
    ] {
        let out = format!("of-{workers}");
        let run = bed.here(&format!("run -i {hosts} --out {out}")).arg(&program);
        run.set(&format!("{MOMENT}\n {arch}")).succeed();
        let record = Record::of(bed.lab.dir.path(&out));
        complete(&record, &["pi1", "pi2", "pi3", "pi4"]);
        assert_eq!(record.told("warned").len(), 0, "{:?}", record.told("warned"));
        assert_eq!(record.number("samples"), 1200.0, "every sample once an epoch");
        // The same learning as on one machine, but for the last bits.
        let alone = format!("alone-{workers}");
        bed.here(&format!("train --quiet --workers {workers} --out {alone}")).set(MOMENT).succeed();
        let alone = Record::of(bed.lab.dir.path(&alone)).floats();
        let far = record.floats().iter().zip(&alone).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
        assert!(far < CLOSE, "with {workers} workers parameters are apart by {far}");
    }
    let endless = format!("{MOMENT}\n epochs=100000\n arch=flat\n parameter_server={{num_workers: 3}}");
    bed.here("run -i hosts.ini --detach").arg(&program).set(&endless).succeed();
    let stopped = bed.here("stop").succeed();
    assert!(stopped.stderr.contains("4 processes have ended"), "{}", stopped.stderr);
    bed.here("attach --quiet").run().expect(130);
    bed.end();
}

//! Plans: what a run would take on some hosts, told beforehand.

use std::fs;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::bed::{Bed, is_wanted};
use crate::program::{Dir, Outcome};

const RUN: &str = "# mine\nmodel: {mlp: {hidden: [64]}}\ndata: {name: digits, train: 640, test: 50}\nepochs: 2\n\
                   optimizer: {sgd: {lr: 0.1}}\n";

const PIS: &str = "- {name: pi, count: 4, cpu: 0.25, cores: 4, rate: 100mbit, latency: 0.3ms, memory: 4GB,\n   \
                   watts: {idle: 2.7, full: 6.4}}\n";

fn dir() -> Dir {
    let dir = Dir::new();
    dir.write("run.yml", RUN);
    dir.write("pis.yml", PIS);
    dir
}

/// The lines of a plan.
#[track_caller]
fn lines(finished: &Outcome) -> Vec<Value> {
    finished.stdout.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
}

#[test]
fn described_hosts_are_ranked() {
    let dir = dir();
    let lines = lines(&dir.bonfire("plan --hosts pis.yml run.yml --json").succeed());
    let numbers =
        ["seconds_per_epoch", "computing_s", "wire_s", "waiting_s", "bytes_per_round", "wh_per_epoch"];
    let mut before = 0.0;
    for line in &lines {
        let number = |key: &str| line[key].as_f64().unwrap_or_else(|| panic!("{key} of {line}"));
        assert!(numbers.iter().all(|key| number(key) >= 0.0), "{line}");
        assert!(
            line["arch"].is_string() && line["compression"].is_string() && line["best"].is_boolean(),
            "{line}"
        );
        assert!(number("workers") >= 1.0 && number("local_steps") >= 1.0, "{line}");
        let parts = number("computing_s") + number("wire_s") + number("waiting_s");
        assert!((parts / number("seconds_per_epoch") - 1.0).abs() < 1e-6, "{line}");
        assert!(number("seconds_per_epoch") >= before, "the fastest first");
        before = number("seconds_per_epoch");
    }
    assert_eq!(lines.iter().filter(|line| line["best"] == true).count(), 1);
    let has = |arch: &str, workers: u64, compression: &str| {
        lines.iter().any(|line| {
            line["arch"] == arch && line["workers"] == workers && line["compression"] == compression
        })
    };
    for workers in [2, 4] {
        for compression in ["none", "f16", "int8", "powersgd 2"] {
            assert!(has("allreduce", workers, compression), "{workers}, {compression}");
        }
        assert!(has("flat", workers, "int8") && !has("flat", workers, "powersgd 2"), "{workers}");
    }
    assert!(has("single", 1, "none") && has("flat", 3, "none"));
}

#[test]
fn a_plan_is_a_chart_and_two_sentences() {
    let dir = dir();
    let said = dir.bonfire("plan --hosts pis.yml run.yml -o plan.html --save pool.yml").succeed().stdout;
    assert!(said.lines().all(|line| line.chars().count() <= 80 || line.starts_with("The best")), "{said}");
    let sentence = said.lines().find(|line| line.starts_with("The best is ")).expect("the best");
    assert!(sentence.contains(" s an epoch"), "{sentence}");
    assert!(
        said.lines().any(|line| line.starts_with("What would help most: ") || line.starts_with("Nothing"))
    );
    assert!(said.contains("▸ ") && said.contains('█'), "{said}");
    let page = fs::read_to_string(dir.path("plan.html")).expect("a page");
    assert!(page.contains("<svg") && page.contains(sentence) && !page.contains("<script"), "{page}");
    assert!(!page.contains("http"), "nothing is from elsewhere");
    // What was measured once is not measured again.
    let again = dir.bonfire("plan --measured pool.yml run.yml").succeed();
    assert!(again.stdout.replace('\n', " ").contains(sentence), "{}", again.stdout);
    dir.bonfire("plan --measured pool.yml run.yml --set model=lenet5")
        .run()
        .refuse("pool.yml:1: of: was measured with mlp on digits, and this run is lenet5 on digits");
}

#[test]
fn what_is_best_can_be_run() {
    let dir = dir();
    // Where the wire is no matter, all hosts are best.
    dir.write("pis.yml", "- {name: pi, count: 2, cpu: 0.001, rate: 10gbit}\n");
    dir.bonfire("plan --hosts pis.yml run.yml --write best.yml").succeed();
    let best = fs::read_to_string(dir.path("best.yml")).expect("a run file");
    assert!(best.starts_with("# mine\n") && best.contains("arch: allreduce"), "{best}");
    dir.bonfire("train best.yml --quiet --out run").succeed();
    let summary = fs::read_to_string(dir.path("run/summary.json")).expect("a summary");
    let summary: Value = serde_json::from_str(&summary).expect("JSON");
    assert_eq!((&summary["exit"], &summary["workers"]), (&"done".into(), &2.into()), "{summary}");
}

#[test]
fn large_pools_are_planned_in_time() {
    let dir = dir();
    for count in [2, 8, 32, 128] {
        dir.write("pis.yml", PIS.replace("count: 4", &format!("count: {count}")));
        let started = Instant::now();
        let lines = lines(&dir.bonfire("plan --hosts pis.yml run.yml --json --set model=lenet").succeed());
        assert!(lines.iter().any(|line| line["workers"] == count), "{count}");
        // Ten seconds where nobody else is at work.
        assert!(started.elapsed() < Duration::from_secs(60), "{count}: {:?}", started.elapsed());
    }
}

#[test]
fn what_cannot_be_planned_is_refused() {
    let dir = dir();
    let check = |hosts: &str, expect: &str| {
        dir.write("pis.yml", hosts);
        dir.bonfire("plan --hosts pis.yml run.yml").run().refuse(expect);
    };
    check("[]\n", "pis.yml:1: hosts: has no hosts");
    check("hosts: []\n", "pis.yml:1: hosts: has no hosts");
    check(
        "- name: a\n  watts: {idle: -2, full: 5}\n",
        "pis.yml:2: hosts[0].watts.idle: must be from 0 to 100000",
    );
    check("- name: a\n  speed: 3\n", "pis.yml:2: ");
    check("- name: a\n  rate: 100\n", "pis.yml:2: ");
    check("- name: a\n  cpu: -1\n", "pis.yml:2: hosts[0].cpu: must be above 0");
    dir.write("pis.yml", PIS);
    let refuse = |arguments: &str, expect: &str| dir.bonfire(arguments).run().refuse(expect);
    refuse("plan --hosts nowhere.yml run.yml", "cannot read nowhere.yml");
    refuse("plan --hosts pis.yml nowhere.yml", "cannot read the run file nowhere.yml");
    refuse(
        "plan --hosts pis.yml run.yml --set data=no-such-folder",
        "data=no-such-folder: \"no-such-folder\" is neither",
    );
    refuse("plan --hosts pis.yml run.yml --set epoch=3", "epoch");
    refuse("plan run.yml", "which hosts?");
    dir.write("empty.ini", "[pool]\n");
    refuse("plan -i empty.ini run.yml", "empty.ini has no hosts in the group `pool`");
}

/// A lab is measured, planned, and run by the plan; in the end the run says how far off that was.
#[test]
fn a_lab_is_planned_and_run() {
    if !is_wanted("a_lab_is_planned_and_run") {
        return;
    }
    let bed = Bed::shaped('p', 2, "--rate 100mbit");
    let hosts = bed.lines(&[1, 2]);
    bed.lab.dir.write("hosts.ini", &hosts);
    bed.lab.dir.write("run.yml", RUN);
    let plan = bed.here("plan -i hosts.ini run.yml --json --save pool.yml").succeed();
    let found = lines(&plan);
    assert!(found.iter().any(|line| line["arch"] == "allreduce" && line["workers"] == 2), "{}", plan.stdout);
    let pool = fs::read_to_string(bed.lab.dir.path("pool.yml")).expect("figures");
    let up = pool.lines().find_map(|line| line.trim().strip_prefix("up: ")).expect("a rate");
    let up: f64 = up.parse().expect("a number");
    assert!((6e6..12.6e6).contains(&up), "{up} bytes a second over 100 Mbit/s");
    let run = bed.here("run -i hosts.ini run.yml --auto --out run").succeed();
    assert!(run.stderr.contains("chose "), "{}", run.stderr);
    assert!(run.stderr.contains("an epoch took ") && run.stderr.contains("the plan"), "{}", run.stderr);
    let forecast = fs::read_to_string(bed.lab.dir.path("run/forecast.json")).expect("a forecast");
    let forecast: Value = serde_json::from_str(&forecast).expect("JSON");
    assert!(forecast["off"].is_number() && forecast["forecast"]["best"] == true, "{forecast}");
    bed.end();
}

use super::*;
use bonfire_report::Exit;

const HERE: SweepPlace = SweepPlace::Here { cores: 4, jobs: None };

fn read_at(text: &str, place: SweepPlace) -> Result<Sweep> {
    Sweep::read("sweep.yml", text, |_| Ok("epochs: 1\nworkers: 1".to_owned()), place)
}

fn read(text: &str) -> Sweep {
    read_at(text, HERE).expect("a sweep")
}

#[test]
fn a_grid_has_every_combination_with_every_seed() {
    let sweep =
        read("{run: base.yml, grid: {optimizer.sgd.lr: [0.1, 0.2], batch_size: [8, 16, 32]}, seeds: 2}");
    assert_eq!((sweep.settings.len(), sweep.runs.len()), (6, 12));
    assert_eq!(sweep.runs[0].name, "001-lr=0.1-batch_size=8-seed=1");
    assert_eq!(sweep.runs[11].name, "012-lr=0.2-batch_size=32-seed=2");
    assert_eq!(
        sweep.runs[3].set,
        ["optimizer.sgd.lr=0.1", "batch_size=16", "seed=2", "threads=1"],
        "with one thread each there is room for four"
    );
    assert_eq!((sweep.jobs, sweep.best_by, sweep.is_judged_by_test), (4, Measure::EvalLoss, true));
}

#[test]
fn values_may_be_powers_or_even_steps() {
    let values = |text: &str| -> Vec<Value> {
        let sweep = read(&format!("{{run: base.yml, grid: {{optimizer.sgd.lr: {text}}}}}"));
        sweep.settings.iter().map(|keys| keys[0].1.clone()).collect()
    };
    assert_eq!(values("{powers: 2, from: -7, to: -1}").len(), 7);
    assert_eq!(values("{powers: 2, from: -7, to: -6}"), [0.0078125, 0.015625]);
    assert_eq!(values("{from: 0.1, to: 0.3, steps: 3}"), [0.1, 0.2, 0.3]);
}

#[test]
fn values_by_chance_are_the_same_for_a_seed() {
    let text = |seed: u64| {
        format!(
            "{{run: base.yml, random: {{runs: 20, seed: {seed}, keys: {{optimizer.adam.lr: {{log: [0.0001, 0.1]}}, \
             batch_size: {{whole: [8, 9]}}, clip_norm: [1, 2]}}}}, grid: {{workers: [1, 2]}}}}"
        )
    };
    let sweep = read(&text(1));
    assert_eq!((sweep.settings.len(), &sweep.settings), (40, &read(&text(1)).settings));
    assert!(sweep.settings != read(&text(2)).settings);
    for keys in &sweep.settings {
        let value = |key: &str| keys.iter().find(|(other, _)| other == key).map(|(_, value)| value.as_f64());
        let rate = value("optimizer.adam.lr").flatten().expect("a rate");
        assert!((0.0001..=0.1).contains(&rate), "{rate}");
        assert!([Some(8.0), Some(9.0)].contains(&value("batch_size").flatten()));
    }
}

#[test]
fn workers_are_what_the_architecture_calls_so() {
    let check = |base: &str, expect: &str| {
        let sweep =
            Sweep::read("sweep.yml", "{run: b.yml, grid: {workers: [2]}}", |_| Ok(base.to_owned()), HERE);
        let sweep = sweep.expect("a sweep");
        assert!(sweep.runs[0].set.contains(&expect.to_owned()), "{:?}", sweep.runs[0].set);
    };
    check("", "workers=2");
    check("{arch: flat, parameter_server: {num_workers: 1}}", "parameter_server.num_workers=2");
    check("{arch: allreduce}", "allreduce.num_workers=2");
}

#[test]
fn as_many_go_on_side_by_side_as_there_are_cores_for() {
    let jobs = |base: &str, grid: &str, jobs| {
        let text = format!("{{run: b.yml, grid: {{{grid}}}}}");
        let place = SweepPlace::Here { cores: 4, jobs };
        Sweep::read("sweep.yml", &text, |_| Ok(base.to_owned()), place).expect("a sweep").jobs
    };
    assert_eq!(jobs("workers: 1", "seed: [1, 2]", None), 4);
    assert_eq!(jobs("{workers: 1, threads: 2}", "seed: [1, 2]", None), 2);
    assert_eq!(jobs("", "workers: [1, 2, 4]", None), 1);
    assert_eq!(jobs("", "seed: [1, 2]", None), 1, "nobody says how many workers one has");
    assert_eq!(jobs("", "seed: [1, 2]", Some(3)), 3);
}

#[test]
fn what_cannot_be_is_refused() {
    let check = |text: &str, expect: &str| {
        let error = format!("{:#}", read_at(text, HERE).expect_err("a wrong sweep"));
        assert!(error.contains(expect), "{error:?} should say {expect:?}");
    };
    check("grid: {optimizer.sgd.rate: [1]}", "unknown key `rate`");
    check("grid: {epoch: [1]}", "unknown key `epoch`; did you mean `epochs`?");
    check("run: {epoch: 1}", "unknown key `epoch`");
    check("gird: {epochs: [1]}", "sweep.yml:1: unknown key `gird`; did you mean `grid`?");
    check("grid: {epochs: 5}", "expected a list, `{powers: 2, from: -7, to: -1}`");
    check("grid: {epochs: []}", "epochs: has no values");
    check("grid: {batch_size: [0]}", "batch_size=0: must be at least 1");
    check("seeds: 0", "seeds: must be a number from 1 to 1000");
    check("best_by: luck", "best_by");
    check("best_by: validation_loss", "is of runs with `validation` in their run file");
    check("median_stop: {after: 0}", "after and runs must be at least 1");
    check("grid: {workers: [many]}", "workers: expected whole numbers");
    check("{grid: {workers: [2]}, run: {arch: hierarchical}}", "arch");
    check("{random: {runs: 2, keys: {epochs: {log: [0, 1]}}}}", "log must be of two numbers above 0");
    let text = "{median_stop: {}}";
    let error = format!("{:#}", read_at(text, SweepPlace::Hosts).expect_err("on hosts"));
    assert!(error.contains("is for runs on this machine"), "{error}");
}

fn summary(accuracy: f64, samples_per_s: f64) -> bonfire_report::Summary {
    let text = serde_json::json!({
        "name": "a", "model": "b", "data": "c", "workers": 1, "exit": "done", "rounds": 1, "epochs": 1.0,
        "samples": 1, "seconds": 2.0, "samples_per_s": samples_per_s, "train_loss": 0.5, "accuracy": accuracy,
    });
    serde_json::from_value(text).expect("a summary")
}

#[test]
fn the_table_has_means_and_deviations_the_best_first() {
    let sweep = read("{run: base.yml, grid: {workers: [1, 2]}, seeds: 2, best_by: accuracy}");
    let done = |accuracy, speed| Some(Ended { end: RunEnd::Done, summary: Some(summary(accuracy, speed)) });
    let ended = [done(0.8, 100.0), done(0.9, 100.0), done(0.9, 180.0), done(0.9, 200.0)];
    let table = SweepTable::of(&sweep, &ended);
    assert_eq!(table.rows[0].keys["workers"], 2);
    let found = table.rows[1].figures[&Measure::Accuracy];
    assert!(
        (found.mean - 0.85).abs() < 1e-12 && (found.deviation - 0.005_f64.sqrt()).abs() < 1e-12,
        "{found:?}"
    );
    assert_eq!(table.rows[0].speed_up, Some(1.9));
    let lines = table.lines();
    assert_eq!(lines[0], "workers  runs  test acc*         train loss       seconds    samples/s   speed-up");
    assert!(lines[1].starts_with("2        2     90.00 % ± 0.00 %  0.5000 ± 0.0000"), "{lines:#?}");
    assert_eq!(table.csv().lines().count(), 3);
    assert_eq!(table.json(&sweep, &ended)["runs"][3]["figures"]["accuracy"], 0.9);
    let best = table.best().expect("a best");
    let file = sweep.run_file(best.row).expect("a run file");
    assert!(file.contains("workers: 2") && file.contains("epochs: 1"), "{file}");
}

#[test]
fn settings_with_a_run_that_failed_are_never_the_best() {
    let sweep = read("{run: base.yml, grid: {batch_size: [8, 16]}, seeds: 2, best_by: accuracy}");
    let done = |accuracy| Some(Ended { end: RunEnd::Done, summary: Some(summary(accuracy, 1.0)) });
    let failed = Some(Ended { end: RunEnd::Failed, summary: None });
    let table = SweepTable::of(&sweep, &[done(0.99), failed.clone(), done(0.5), done(0.5)]);
    assert_eq!(table.best().expect("a best").keys["batch_size"], 16);
    assert!(table.lines()[2].contains("1, 1 failed"), "{:#?}", table.lines());
    let table = SweepTable::of(&sweep, &[failed.clone(), failed.clone(), failed.clone(), failed]);
    assert!(table.best().is_none());
    assert_eq!(end_of(&summary(0.5, 1.0)), Some(RunEnd::Done));
    let interrupted = bonfire_report::Summary { exit: Exit::Interrupted, ..summary(0.5, 1.0) };
    assert_eq!(end_of(&interrupted), None, "it can go on");
}

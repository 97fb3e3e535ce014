//! `bonfire bench exchange`: real processes that exchange real bytes.

use crate::program::Dir;

#[test]
fn a_line_with_the_promised_fields() {
    let dir = Dir::new();
    for (via, workers) in [("sharded", 2), ("sharded", 3), ("server", 2)] {
        for tls in ["", "--tls"] {
            let line = format!(
                "bench exchange --via {via} --workers {workers} --bytes 400000 --seconds 0.05 --json {tls}"
            );
            let outcome = dir.bonfire(&line).succeed();
            assert_eq!(outcome.stderr, "", "nobody complains of the others' end");
            let lines = outcome.json_lines();
            let [speed] = lines.as_slice() else { panic!("{lines:?}") };
            assert_eq!(speed["via"], via);
            assert_eq!(speed["workers"], workers);
            assert_eq!(speed["bytes"], 400_000);
            let (ms, speed) = (speed["ms"].as_f64().expect("ms"), speed["gb_per_s"].as_f64().expect("GB/s"));
            assert!((0.4e-3 / ms / speed * 1e3 - 1e3).abs() < 1e3, "{ms} ms, {speed} GB/s");
        }
    }
}

#[test]
fn every_way_of_a_run_file_can_be_measured() {
    let dir = Dir::new();
    for way in [
        "--servers 1",
        "--compression lossless",
        "--compression top_k --tls",
        "--compression powersgd --tls",
        "--servers 2 --compression int8",
    ] {
        let line = format!("bench exchange --workers 2 --bytes 400000 --seconds 0.05 --json {way}");
        let outcome = dir.bonfire(&line).succeed();
        assert_eq!(outcome.stderr, "", "{way}");
        assert!(outcome.json_lines()[0]["ms"].as_f64().is_some_and(|ms| ms > 0.0), "{way}");
    }
}

#[test]
fn what_cannot_be_measured_is_refused() {
    let dir = Dir::new();
    dir.bonfire("bench exchange --workers 0").run().refuse("--workers must be from 1 to 64");
    dir.bonfire("bench exchange --bytes 3").run().refuse("--bytes must be from 4");
    dir.bonfire("bench exchange --workers 1 --seconds 0.1").run().refuse("nothing to exchange");
}

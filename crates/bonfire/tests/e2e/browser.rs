//! Pages in a real browser: `BONFIRE_TEST_BROWSER` names a Chromium. Without one they are only made and asked for.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::program::{Dir, Running};
use crate::record::Record;

/// Opens a page and checks it there; see `browser.py`. Nothing without a browser, but loudly.
#[track_caller]
fn check(url: &str, checks: &[&str]) {
    let Ok(browser) = std::env::var("BONFIRE_TEST_BROWSER") else {
        eprintln!("SKIPPED: BONFIRE_TEST_BROWSER names no Chromium, so nobody looked at {url}");
        return;
    };
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/e2e/browser.py");
    let mut command = Command::new("python3");
    let output = command.arg(script).arg(browser).arg(url).args(checks).output().expect("python3");
    let (stdout, stderr) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{url}: {checks:?}\n{stdout}\n{stderr}");
    eprint!("{stdout}");
}

/// A run folder with a log that was made up.
fn made_up(dir: &Dir, name: &str, lines: &str) {
    dir.write(&format!("{name}/run.yml"), "name: made up\nepochs: 5\n");
    dir.write(&format!("{name}/events.jsonl"), lines);
}

fn started(rounds: u64, workers: u64) -> Value {
    json!({"at_s": 0.0, "event": "started", "name": "made up", "model": "lenet5", "parameters": 44_426,
        "data": "digits", "train_samples": 20_000, "test_samples": 4000, "workers": workers, "batch_size": 32,
        "rounds_per_epoch": 2000, "rounds": rounds, "seed": 1})
}

fn progress(round: u64) -> Value {
    let x = round as f64;
    json!({"at_s": x * 0.25, "event": "progress", "round": round, "epoch": x / 2000.0,
        "loss": 2.0 / (1.0 + x / 500.0) + (x * 0.7).sin() * 0.02, "accuracy": 1.0 - 0.9 / (1.0 + x / 300.0),
        "lr": 0.001, "samples": round * 64, "samples_per_s": 30_000.0 + (x * 0.3).cos() * 2000.0})
}

fn evaluated(round: u64) -> Value {
    json!({"at_s": round as f64 * 0.25, "event": "evaluated", "round": round, "epoch": round as f64 / 2000.0,
        "loss": 0.3, "accuracy": 0.9, "macro_f1": 0.9, "samples": 4000, "seconds": 0.1})
}

/// What a page was given to show.
fn shown(page: &Path) -> Vec<Value> {
    let text = fs::read_to_string(page).expect("a page");
    let (_, data) = text.split_once("id=\"data\">").expect("data");
    let (data, _) = data.split_once("</script>").expect("an end of the data");
    let data: Value = serde_json::from_str(data).expect("JSON");
    data["runs"][0]["events"].as_array().expect("events").clone()
}

fn count(events: &[Value], kind: &str) -> usize {
    events.iter().filter(|event| event[0] == kind).count()
}

#[test]
fn a_report_of_many_rounds_has_all_that_stands_out() {
    let dir = Dir::new();
    let mut lines = format!("{}\n", started(10_000, 2));
    for round in 1..=10_000 {
        let mut line = progress(round);
        if round == 5003 {
            line["loss"] = json!(7.5);
        }
        let _ = writeln!(lines, "{line}");
        if round % 500 == 0 {
            let _ = writeln!(lines, "{}", evaluated(round));
        }
    }
    made_up(&dir, "run", &lines);
    dir.bonfire("report run").succeed();
    let page = dir.path("run/report.html");
    let events = shown(&page);
    let (points, tests) = (count(&events, "p"), count(&events, "t"));
    assert!(points > 500 && tests == 20, "{points} and {tests}");
    assert!(events.iter().any(|event| event[2] == 5003 && event[4] == 7.5), "the peak");
    let bytes = fs::metadata(&page).expect("a page").len() as usize;
    assert!(bytes <= 150_000 + 40 * (4 * points + 2 * tests), "{bytes} bytes for {points} points");
    let loss = format!("points Loss={}", points + tests);
    let speed = format!("points Samples per second={points}");
    check(
        &format!("file://{}", page.display()),
        &[&loss, &speed, "keyboard", "click input[value=time]", &loss],
    );
}

#[test]
fn a_million_events_are_opened_soon() {
    let dir = Dir::new();
    let mut lines = format!("{}\n", started(1_000_000, 2));
    for round in 1..=1_000_000 {
        let _ = writeln!(lines, "{}", progress(round));
    }
    made_up(&dir, "run", &lines);
    let begun = Instant::now();
    dir.bonfire("report run").succeed();
    eprintln!("the report of a million events took {:.1} s", begun.elapsed().as_secs_f64());
    let page = dir.path("run/report.html");
    assert!(fs::metadata(&page).expect("a page").len() < 400_000);
    let points = format!("points Loss={}", count(&shown(&page), "p"));
    check(&format!("file://{}", page.display()), &[&points]);
}

#[test]
fn a_report_of_many_nodes_has_them_all() {
    let dir = Dir::new();
    let mut lines = format!("{}\n", started(400, 64));
    for node in 1..=64 {
        let joined = json!({"at_s": 0.0, "event": "node_joined", "node": node, "name": format!("pi{node}"),
            "role": format!("worker {node}"), "address": "10.0.0.1:4711", "cores": 4, "threads": 4});
        let _ = writeln!(lines, "{joined}");
    }
    for round in 1..=400_u64 {
        let _ = writeln!(lines, "{}", progress(round));
        let at_s = round as f64 * 0.25;
        let each = |of: &dyn Fn(u64) -> Value| (1..=64).map(of).collect::<Vec<_>>();
        let nodes = each(&|node| {
            json!({"node": node, "name": format!("pi{node}"), "role": format!("worker {node}"),
                "samples_per_s": 500.0, "wait": 0.3, "sent_bytes": 1000, "received_bytes": 1000, "late": 0})
        });
        let _ =
            writeln!(lines, "{}", json!({"at_s": at_s, "event": "nodes", "round": round, "nodes": nodes}));
        let samples = each(&|node| {
            json!({"node": node, "name": format!("pi{node}"),
                "phases": {"forward": 0.05, "backward": 0.1, "wait": 0.08},
                "machine": {"cores": 3.5, "busy": 0.9, "rss_mb": 100.0 + node as f64, "celsius": 61.0}})
        });
        let sampled =
            json!({"at_s": at_s, "event": "sampled", "round": round, "seconds": 0.25, "lines": samples});
        let _ = writeln!(lines, "{sampled}");
    }
    let lost = json!({"at_s": 100.0, "event": "node_lost", "node": 7, "name": "pi7", "role": "worker 7",
        "round": 400, "reason": "silent for 5.0 s", "consequence": "round 401 goes on without it"});
    let _ = writeln!(lines, "{lost}");
    made_up(&dir, "run", &lines);
    dir.bonfire("report run").succeed();
    let url = format!("file://{}", dir.path("run/report.html").display());
    check(&url, &["text pi64", "text pi7 (worker 7) was lost", "text pi7 is lost", "points Loss=400"]);
}

#[test]
fn runs_are_compared_and_drawn() {
    let dir = Dir::new();
    for workers in [1, 2] {
        let settings = "data.train=1200\n data.test=200\n epochs=2";
        let train = dir.bonfire("train --quiet --out").arg(format!("w{workers}"));
        train.set(settings).set(&format!("workers={workers}")).succeed();
    }
    dir.bonfire("report w1 w2 --out both.html --svg figures --csv points.csv").succeed();
    assert!(fs::read_to_string(dir.path("figures/speed-up.svg")).expect("a chart").contains("ideal"));
    assert!(fs::read_to_string(dir.path("points.csv")).expect("points").contains("\nw2,test,"));
    let url = format!("file://{}", dir.path("both.html").display());
    check(&url, &["text efficiency", "points Speed-up=4", "points Test accuracy=4", "keyboard"]);
    assert!(dir.path("w1/report.html").is_file(), "written by the run itself");
    let without =
        dir.bonfire("train --quiet --out bare --set report=false --set data.train=200 --set epochs=1");
    without.succeed();
    assert!(!dir.path("bare/report.html").exists());
    dir.bonfire("report nowhere").run().refuse("there is no such folder");
}

/// The address that a command has said.
fn address(running: &mut Running) -> String {
    running.until_said("http://127.0.0.1:");
    let said = running.said();
    let from = said.find("http://127.0.0.1:").expect("an address");
    said[from..].split_whitespace().next().expect("an address").to_owned()
}

#[test]
fn a_run_that_goes_on_moves_its_page() {
    let dir = Dir::new();
    let run = Record::of(dir.path("run"));
    let mut running = dir.bonfire("train --quiet --out run --page=127.0.0.1:0 --set epochs=100000").start();
    let url = address(&mut running);
    running.until("the first event", || run.has_started());
    check(&url, &["moves", "until going on", "keyboard"]);
    running.kill_after(Duration::ZERO);
}

#[test]
fn a_page_goes_on_with_a_run_that_was_killed_and_resumed() {
    let dir = Dir::new();
    let run = Record::of(dir.path("runs/first"));
    let train = dir.bonfire("train --quiet --out runs/first --set epochs=100000 --set");
    let mut running = train.arg("checkpoint_every=50 rounds").start();
    running.until("the first event", || run.has_started());
    running.until("a checkpoint", || !run.told_so_far("checkpointed").is_empty());
    let mut pages = dir.bonfire("page runs --listen 127.0.0.1:0").start();
    let url = pages.first_line();
    running.kill_after(Duration::ZERO);
    let resumed = std::thread::scope(|scope| {
        // The page is open by the time that the run goes on.
        let looking = scope.spawn(|| check(&format!("{url}run/first/"), &["until goes on from", "moves"]));
        std::thread::sleep(Duration::from_secs(2));
        let resumed = dir.bonfire("train --quiet --resume runs/first").start();
        looking.join().expect("the page");
        resumed
    });
    check(&url, &["text first", "keyboard"]);
    resumed.kill_after(Duration::ZERO);
}

//! What a run tells of where its time goes and of its machines, and who may look at its page.

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Command, Stdio};
use std::time::Duration;

use serde_json::Value;

use crate::fire::Fire;
use crate::program::{Dir, Running};
use crate::record::Record;

/// Long enough that every node tells something of itself.
const SECONDS: &str = "
    data={name: digits, train: 6000, test: 500}
    epochs=1000000
";

/// All lines of all samples.
fn lines(run: &Record) -> Vec<Value> {
    let told = run.told_so_far("sampled");
    told.iter().flat_map(|event| event["lines"].as_array().expect("lines").clone()).collect()
}

/// Names of those who have told of a phase, or of a figure of their machine.
fn who_tells(run: &Record, part: &str, figure: &str) -> BTreeSet<String> {
    let lines = lines(run);
    let telling = lines.iter().filter(|line| line[part][figure].as_f64().is_some_and(|number| number > 0.0));
    telling.filter_map(|line| Some(line["name"].as_str()?.to_owned())).collect()
}

#[test]
fn workers_of_a_process_and_their_machine_are_sampled() {
    let dir = Dir::new();
    let run = Record::of(dir.path("run"));
    let mut running = dir.bonfire("train --quiet --out run --workers 2").set(SECONDS).start();
    running.until("the first event", || run.has_started());
    running.until("three samples", || run.told_so_far("sampled").len() >= 3);
    running.signal("INT");
    running.wait().expect(130);
    for phase in ["forward", "backward", "data", "apply"] {
        let telling = who_tells(&run, "phases", phase);
        assert!(telling.contains("worker 0") && telling.contains("worker 1"), "{phase}: {telling:?}");
    }
    for figure in ["cores", "busy", "rss_mb"] {
        assert!(who_tells(&run, "machine", figure).contains("run"), "{figure}");
    }
    for event in run.told("sampled") {
        let seconds = event["seconds"].as_f64().expect("seconds");
        for line in event["lines"].as_array().expect("lines") {
            let phases = line["phases"].as_object().expect("phases").values();
            let sum: f64 = phases.filter_map(Value::as_f64).sum();
            assert!(sum <= seconds * 1.05 + 0.01, "{sum} s of {seconds} s: {line}");
        }
    }
    let time = run.summary()["time"].as_str().expect("a sentence").to_owned();
    assert!(time.contains("% computing"), "{time}");
}

/// Where the program is built for it.
#[cfg(feature = "flame")]
#[test]
fn a_flame_graph_is_drawn() {
    let dir = Dir::new();
    let short = "data={name: digits, train: 6000, test: 500}\n epochs=2";
    let ended = dir.bonfire("train --quiet --out run --flame flame.svg").set(short).succeed();
    assert!(ended.stderr.contains("flame graph: flame.svg"), "{}", ended.stderr);
    let drawn = std::fs::read_to_string(dir.path("flame.svg")).expect("a file");
    assert!(drawn.contains("<svg") && drawn.contains("worker-0"), "{drawn}");
    dir.bonfire("train --quiet --flame none/flame.svg").run().refuse("--flame: cannot write none/flame.svg");
}

#[test]
fn nodes_tell_the_head_how_they_are() {
    for (settings, phases) in [
        ("arch=allreduce\n allreduce={num_workers: 2}", ["backward", "wait", "apply"]),
        ("arch=flat\n parameter_server={num_workers: 2}", ["forward", "wait", "encode"]),
    ] {
        let dir = Dir::new();
        let settings = format!("{SECONDS}\n{settings}\n evaluator=true");
        let mut fire = Fire::light(&dir, "run", "--quiet", &settings).join(&dir, 3);
        let run = Record::of(dir.path("run"));
        let all = BTreeSet::from(["n1", "n2", "n3", "run"].map(str::to_owned));
        fire.head.until("all nodes' memory", || who_tells(&run, "machine", "rss_mb") == all);
        fire.head.until("two workers' phases", || {
            phases.iter().all(|phase| who_tells(&run, "phases", phase).len() == 2)
        });
        fire.head.signal("INT");
        fire.head.wait().expect(130);
        let time = run.summary()["time"].as_str().expect("a sentence").to_owned();
        // The wire of one machine may be less than what is worth a word.
        assert!(time.contains("% computing"), "{time}");
    }
}

/// What is answered at an address to a request for a path.
fn get(address: &str, host: &str, path: &str) -> String {
    let mut connection = TcpStream::connect(address).expect("a server");
    connection.set_read_timeout(Some(Duration::from_secs(20))).expect("a deadline");
    write!(connection, "GET {path} HTTP/1.1\r\nHost: {host}\r\n\r\n").expect("sent");
    let mut answer = String::new();
    let _ = connection.read_to_string(&mut answer);
    answer
}

#[test]
fn a_head_has_a_page_that_only_those_see_who_may() {
    let dir = Dir::new();
    let settings = format!("{SECONDS}\n arch=flat\n parameter_server={{num_workers: 1}}");
    let mut fire = Fire::light(&dir, "run", "--quiet --page=0.0.0.0:0", &settings).join(&dir, 1);
    fire.head.until_said("page: http://localhost:");
    let said = fire.head.said();
    let (_, url) = said.split_once("page: http://localhost:").expect("an address");
    let (port, token) = url.split_whitespace().next().and_then(|url| url.split_once('/')).expect("a secret");
    assert!(token.len() >= 32, "{token}");
    let (address, run) = (format!("127.0.0.1:{port}"), Record::of(dir.path("run")));
    fire.head.until("progress", || !run.told_so_far("progress").is_empty());
    let status = |host: &str, path: &str| get(&address, host, path).get(9..12).map(str::to_owned);
    assert_eq!(status(&address, &format!("/{token}")).as_deref(), Some("200"));
    assert!(get(&address, &address, &format!("/{token}metrics")).contains("\nbonfire_running{"));
    for path in ["/", "/metrics", "/events", "/0123456789abcdef0123456789abcdef/"] {
        assert_eq!(status(&address, path).as_deref(), Some("404"), "{path}");
    }
    assert_eq!(status("evil.example", &format!("/{token}")).as_deref(), Some("421"));
    fire.head.signal("INT");
    fire.head.wait().expect(130);
}

/// A run that goes on, and the address of its page.
fn with_page(dir: &Dir) -> (Running, String) {
    let mut running = dir.bonfire("train --quiet --out run --page=127.0.0.1:0").set(SECONDS).start();
    running.until_said("page: http://");
    let said = running.said();
    let address =
        said.split_once("page: http://").and_then(|(_, url)| url.split_once('/')).expect("a page").0;
    (running, address.to_owned())
}

/// Holds a thousand connections to an address until its stdin ends: half say nothing, half ask and do not listen.
const CROWD: &str = r#"
import resource, socket, sys
most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
resource.setrlimit(resource.RLIMIT_NOFILE, (min(most, 4096), most))
host, port = sys.argv[1].split(":")
crowd = []
for i in range(1000):
    one = socket.create_connection((host, int(port)))
    one.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
    if i % 2:
        try:
            one.send(f"GET /events HTTP/1.1\r\nHost: {sys.argv[1]}\r\n\r\n".encode())
        except OSError:
            pass
    crowd.append(one)
print(len(crowd), flush=True)
sys.stdin.read()
"#;

#[test]
fn a_thousand_idle_connections_do_not_hold_up_a_run() {
    let dir = Dir::new();
    let (mut running, address) = with_page(&dir);
    let (address, run) = (address.as_str(), Record::of(dir.path("run")));
    running.until("progress", || !run.told_so_far("progress").is_empty());
    let (pipe, words) = (Stdio::piped, ["-c", CROWD, address]);
    let Ok(mut crowd) = Command::new("python3").args(words).stdin(pipe()).stdout(pipe()).spawn() else {
        eprintln!("SKIPPED: without python3 nobody holds a thousand connections");
        return;
    };
    let mut count = String::new();
    let mut counted = BufReader::new(crowd.stdout.take().expect("a pipe"));
    counted.read_line(&mut count).expect("a crowd");
    assert_eq!(count, "1000\n");
    let before = run.told_so_far("progress").len();
    running.until("more progress", || run.told_so_far("progress").len() > before + 1);
    drop(crowd.stdin.take());
    assert!(crowd.wait().expect("the crowd goes home").success());
    running.until("a page for others", || get(address, address, "/").starts_with("HTTP/1.1 200"));
    running.signal("INT");
    running.wait().expect(130);
}

/// `BONFIRE_TEST_PROMTOOL` names the program that Prometheus has for it.
#[test]
fn prometheus_is_content_with_the_figures() {
    let Ok(promtool) = std::env::var("BONFIRE_TEST_PROMTOOL") else {
        eprintln!("SKIPPED: BONFIRE_TEST_PROMTOOL names no promtool, so nobody checked /metrics");
        return;
    };
    let dir = Dir::new();
    let (mut running, address) = with_page(&dir);
    let (address, run) = (address.as_str(), Record::of(dir.path("run")));
    running.until("a sample", || !run.told_so_far("sampled").is_empty());
    let answer = get(address, address, "/metrics");
    let figures = answer.split_once("\r\n\r\n").expect("a body").1;
    assert!(figures.contains("bonfire_round"), "{figures}");
    let mut check =
        Command::new(promtool).args(["check", "metrics"]).stdin(Stdio::piped()).spawn().expect("promtool");
    check.stdin.take().expect("a pipe").write_all(figures.as_bytes()).expect("read");
    assert!(check.wait().expect("an end").success(), "{figures}");
    running.signal("INT");
    running.wait().expect(130);
}

#[test]
fn an_address_that_cannot_be_had_is_wrong_input() {
    let dir = Dir::new();
    dir.bonfire("train --page=nonsense").run().refuse("--page: cannot listen at nonsense");
    dir.bonfire("page nowhere").run().refuse("nowhere: there is no such folder");
    assert!(dir.entries().is_empty(), "nothing was started");
}

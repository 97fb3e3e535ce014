//! Those who have no business with a run, and those who misbehave in it: the run is none the worse for them, and says
//! who they were. `STRANGERS=count` brings more than the thousand that come at once otherwise.

use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crate::adversary::{Adversary, Kind};
use crate::fire::Fire;
use crate::program::{Dir, Running};
use crate::record::Record;

const DIGITS: &str = "data={name: digits, train: 3000, test: 500}";

const PAIR: &str = "arch=flat\n parameter_server={num_workers: 2}";

/// How many come at once.
fn many() -> usize {
    std::env::var("STRANGERS").map_or(1000, |count| count.parse().expect("a number"))
}

/// Lets this program, and those that it starts, have as many connections as the system allows.
fn allow_many_files() {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: both calls only read or write the struct that they are given.
    unsafe {
        if libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) == 0 {
            limit.rlim_cur = limit.rlim_max;
            libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit);
        }
    }
}

/// A figure of a process's memory in kilobytes, such as `VmRSS`.
fn memory_kb(process: &Running, figure: &str) -> u64 {
    let status = fs::read_to_string(format!("/proc/{}/status", process.id())).expect("a status");
    let line = status.lines().find(|line| line.starts_with(figure)).expect("the figure");
    line.split_whitespace().nth(1).and_then(|number| number.parse().ok()).expect("a number")
}

/// The warnings of a run that have this in them.
fn warned(record: &Record, fragment: &str) -> Vec<String> {
    let all = record.told("warned");
    let text = |event: &serde_json::Value| event["message"].as_str().unwrap_or_default().to_owned();
    all.iter().map(text).filter(|message| message.contains(fragment)).collect()
}

/// The numbers in what is summed up, such as `and 312 more`.
fn summed(warnings: &[String]) -> u64 {
    let number = |text: &String| text.split("and ").nth(1)?.split_whitespace().next()?.parse::<u64>().ok();
    warnings.iter().filter_map(number).sum()
}

/// Every kind of stranger twice, then a thousand of all kinds at once, to the head and to a node.
#[test]
fn strangers_do_a_run_no_harm() {
    allow_many_files();
    let dir = Dir::new();
    // However fast the machine, the run is not over before all strangers have come.
    let endless = "epochs=1000000\n eval_every=5 epochs\n checkpoint_every=50 epochs";
    let mut fire = Fire::light(&dir, "fire", "", &format!("{DIGITS}\n{endless}\n{PAIR}"));
    // A node listens, too: in a group or a hierarchy others come to it.
    let port = TcpListener::bind("127.0.0.1:0").and_then(|free| free.local_addr()).expect("a port").port();
    let line = format!("node --name n1 --listen 127.0.0.1:{port}");
    fire.nodes.push(dir.bonfire(&line).arg(&fire.ticket).start());
    let mut fire = fire.join(&dir, 1);
    let record = Record::of(dir.path("fire"));
    assert!(fire.head.until("two evaluations", || record.told_so_far("evaluated").len() >= 2));

    let adversary = Adversary::new(&fire.ticket);
    let memory = || (memory_kb(&fire.head, "VmRSS"), memory_kb(&fire.head, "VmHWM"));
    let before = memory();
    for kind in Kind::ALL {
        adversary.come(*kind);
        adversary.come(*kind);
    }
    adversary.at(SocketAddr::from(([127, 0, 0, 1], port))).come(Kind::Noise);
    let one_by_one = memory();
    let (begun, count) = (Instant::now(), many());
    adversary.come_all_at_once(count);
    let (took, first) = (begun.elapsed(), memory());
    adversary.come_all_at_once(count);
    let second = memory();
    eprintln!(
        "{count} at once took {took:.1?}; VmRSS and VmHWM of the head in kB: {before:?}, \
         after one of each kind {one_by_one:?}, then {first:?}, then {second:?}"
    );

    fire.head.signal("INT");
    fire.head.wait().expect(130);
    fire.nodes.into_iter().for_each(|node| drop(node.wait().expect(0)));
    let rounds = record.newest_round();
    let length = format!("epochs=\n num_server_rounds={rounds}");
    dir.bonfire("train --quiet --out alone --workers 2").set(DIGITS).set(&length).succeed();
    let alone = Record::of(dir.path("alone"));
    assert!(record.parameters() == alone.parameters(), "{rounds} rounds have taught something else");
    assert_eq!(record.told("node_lost").len(), 0);
    let lines = record.told("warned").len();
    assert!((10..100).contains(&lines), "{lines} lines of warnings");
    for kind in Kind::ALL {
        let told = warned(&record, kind.expect());
        assert!(
            !told.is_empty(),
            "{kind:?}: nothing with {:?} in {:?}",
            kind.expect(),
            record.told("warned")
        );
        assert!(told.iter().any(|told| told.contains("127.0.0.1")), "{told:?}");
    }
    assert!(!warned(&record, "n1: turned a stranger away: 127.0.0.1").is_empty());
    let more = summed(&warned(&record, "more"));
    assert!(more >= count as u64, "of {count} only {more} were summed up");
    // The places for strangers have their memory once; after that nothing grows with their number.
    assert!(first.1 <= before.1 + 8192, "{before:?} kB have become {first:?} kB");
    for (first, second) in [(first.0, second.0), (first.1, second.1)] {
        assert!(second <= first + 4096, "{first} kB have become {second} kB");
    }
}

/// Connections that say nothing keep coming, as fast as one thread can open them, while nodes want to join.
#[test]
fn nodes_come_in_through_a_crowd() {
    allow_many_files();
    let dir = Dir::new();
    let settings = "data={name: digits, train: 400, test: 50}\n num_server_rounds=20";
    let fire = Fire::light(&dir, "fire", "", &format!("{settings}\n{PAIR}"));
    let address = Adversary::new(&fire.ticket).address;
    let (is_over, opened) = (AtomicBool::new(false), AtomicU64::new(0));
    let joined = thread::scope(|scope| {
        let crowd = scope.spawn(|| {
            let mut held = std::collections::VecDeque::new();
            while !is_over.load(Ordering::Relaxed) {
                if let Ok(stream) = TcpStream::connect_timeout(&address, Duration::from_secs(5)) {
                    held.push_back(stream);
                    opened.fetch_add(1, Ordering::Relaxed);
                }
                if held.len() > 1000 {
                    held.pop_front();
                }
                // Two thousand a second leave the nodes some of the machine.
                thread::sleep(Duration::from_micros(500));
            }
        });
        while opened.load(Ordering::Relaxed) < 200 {
            thread::yield_now();
        }
        let begun = Instant::now();
        let mut fire = fire.join(&dir, 2);
        let record = Record::of(dir.path("fire"));
        let all = || record.told_so_far("node_joined").len() == 2;
        let are_in = fire.head.until("both nodes", all);
        let joined = begun.elapsed();
        is_over.store(true, Ordering::Relaxed);
        assert!(crowd.join().is_ok() && are_in, "the nodes came in");
        fire.burn_down();
        joined
    });
    let opened = opened.load(Ordering::Relaxed);
    eprintln!("both nodes were in after {joined:.1?}, among {opened} who said nothing");
    assert!(joined < Duration::from_secs(10), "{joined:?}");
}

/// One that has the ticket, joins as a worker, and sends what is none of the run's.
#[test]
fn a_worker_that_misbehaves_is_told_apart() {
    let dir = Dir::new();
    let mut fire = Fire::light(&dir, "fire", "", &format!("{DIGITS}\n epochs=20\n{PAIR}")).join(&dir, 2);
    fire.head.until_said("epoch  2/20");
    let said = Adversary::new(&fire.ticket).join_and_misbehave();
    let record = fire.burn_down();
    assert!(said >= 6, "it was asked {said} times");
    // What it spoilt is missing, and nothing else: seven batches of 32 among 60,000 samples.
    let epochs = record.number("epochs");
    assert!(epochs <= 20.0 && epochs > 20.0 - 7.0 * 32.0 / 3000.0, "{epochs}");
    assert!(record.number("accuracy") > 0.9, "{}", record.number("accuracy"));
    for fragment in [
        "refused a gradient of evil: 9 bytes are not this chunk",
        "refused a gradient of evil: it has chunk 1000000 of",
        "refused a gradient of evil: it has values that are no numbers",
        "refused a gradient of evil: it weighs",
    ] {
        assert!(!warned(&record, fragment).is_empty(), "{fragment} in {:?}", record.told("warned"));
    }
    let late = record.told("node_late");
    let odd = |event: &serde_json::Value| {
        event["reason"].as_str().is_some_and(|reason| reason.contains("answers order"))
    };
    assert!(late.iter().any(odd), "{late:?}");
    // A gradient that is sent again comes while the first is held, or after it was applied.
    let again = warned(&record, "evil sent the same gradient twice").len();
    assert!(again > 0 || late.iter().filter(|event| odd(event)).count() > 1, "{late:?}");
}

/// Nothing but the port is known, and nothing is said: the head hangs up in time.
#[test]
fn who_says_nothing_is_not_waited_for() {
    let dir = Dir::new();
    let fire = Fire::light(&dir, "fire", "--quiet", PAIR);
    let mut stream = TcpStream::connect(Adversary::new(&fire.ticket).address).expect("a connection");
    stream.set_read_timeout(Some(Duration::from_secs(20))).expect("a limit");
    let begun = Instant::now();
    stream.write_all(&[22]).expect("a byte of TLS");
    let end = stream.read(&mut [0; 100]);
    assert!(matches!(end, Ok(0)) || end.is_err_and(|error| error.kind() != std::io::ErrorKind::WouldBlock));
    assert!((4..10).contains(&begun.elapsed().as_secs()), "{:?}", begun.elapsed());
}

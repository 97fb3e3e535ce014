//! Joining a run with something that cannot be right: a clear message on both sides, and no hang.

use crate::fire::Fire;
use crate::program::Dir;

/// A run of a moment with two nodes.
const PAIR: &str = "
    data={name: digits, train: 200, test: 50}
    num_server_rounds=2
    arch=flat
    parameter_server={num_workers: 2}
";

#[test]
fn tickets_that_are_none() {
    let dir = Dir::new();
    let fire = Fire::light(&dir, "run", "--quiet", PAIR);
    let check = |ticket: &str, fragment: &str| dir.bonfire("node").arg(ticket).run().refuse(fragment);
    check("hello", "the ticket cannot be used: ");
    check("http://127.0.0.1:80/", "the ticket cannot be used: ");
    check(&fire.ticket[..fire.ticket.len() - 3], "the ticket cannot be used: ");
    let mistyped = fire.ticket.replacen("127.0.0.1", "127.0.0.2", 1);
    check(&mistyped, "the ticket cannot be used: ");
    fire.join(&dir, 2).burn_down();
}

#[test]
fn a_ticket_of_another_run() {
    for (insecure, expect) in
        [("", "shows another certificate"), ("--insecure", "does not accept the ticket's secret")]
    {
        let dir = Dir::new();
        let old = Fire::light(&dir, "old", &format!("--quiet {insecure}"), PAIR).ticket;
        // The old head is gone; a new one has its address.
        let port = old.split(['/', ':']).nth(4).expect("a port");
        let line = format!("head --quiet --listen 127.0.0.1:{port} --wait 30 --out new {insecure}");
        let mut head = dir.bonfire(&line).set(PAIR).start();
        assert_ne!(head.first_line(), old);
        let outcome = dir.bonfire("node --wait 5").arg(&old).run().expect(1);
        assert!(outcome.stderr.contains(expect), "{}", outcome.stderr);
        assert!(outcome.stderr.contains("another run?"), "{}", outcome.stderr);
    }
}

#[test]
fn a_head_that_is_not_there() {
    let dir = Dir::new();
    let fire = Fire::light(&dir, "run", "--quiet", PAIR);
    let ticket = fire.ticket.clone();
    drop(fire);
    let outcome = dir.bonfire("node --wait 1").arg(&ticket).run().expect(1);
    assert!(outcome.stderr.contains("cannot reach 127.0.0.1:"), "{}", outcome.stderr);
}

#[test]
fn an_address_that_is_in_use() {
    let dir = Dir::new();
    let taken = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = taken.local_addr().expect("an address");
    let before = dir.entries();
    dir.bonfire(&format!("head --listen {address}"))
        .set(PAIR)
        .run()
        .refuse(&format!("cannot listen on {address}"));
    assert_eq!(dir.entries(), before, "nothing was started");
    dir.bonfire("head --listen nowhere").set(PAIR).run().refuse("cannot listen on nowhere");
}

#[test]
fn fewer_nodes_than_the_run_asks_for() {
    let dir = Dir::new();
    let head = dir.bonfire("head --listen 127.0.0.1:0 --wait 2 --out run").set(PAIR);
    let mut head = head.start();
    let ticket = head.first_line();
    let node = dir.bonfire("node").arg(&ticket).start();
    let head = head.wait().expect(1);
    assert!(
        head.stderr.contains("only 1 of 2 nodes were there after 2 s; missing: 1 worker"),
        "{}",
        head.stderr
    );
    let node = node.wait().expect(1);
    assert!(node.stderr.contains("only 1 of 2 nodes"), "{}", node.stderr);
}

#[test]
fn data_that_are_not_the_heads() {
    let dir = Dir::new();
    let rows = |from: u32| -> String {
        (0..60).map(|i| format!("{},{},{}\n", (i * 7 + from) % 10, (i * 3) % 5, i % 2)).collect()
    };
    dir.write("data/train.csv", rows(0));
    dir.write("data/test.csv", rows(1));
    let settings =
        "model=mlp\n data=data\n num_server_rounds=2\n arch=flat\n parameter_server={num_workers: 1}";
    let mut fire = Fire::light(&dir, "run", "", settings);
    let elsewhere = Dir::new();
    let without = elsewhere.bonfire("node").arg(&fire.ticket).run().expect(1);
    assert!(without.stderr.contains("distribute: ship"), "{}", without.stderr);
    elsewhere.write("data/train.csv", rows(2));
    elsewhere.write("data/test.csv", rows(1));
    let other = elsewhere.bonfire("node").arg(&fire.ticket).run().expect(1);
    assert!(other.stderr.contains("its data are not the head's"), "{}", other.stderr);
    fire.head.until_said("turned");
    fire.join(&dir, 1).burn_down();
}

#[test]
fn plain_text_only_when_asked_for_by_name() {
    let dir = Dir::new();
    let plain = Fire::light(&dir, "plain", "--quiet --insecure", PAIR);
    assert!(plain.ticket.len() < 70, "no fingerprint is in {}", plain.ticket);
    plain.join(&dir, 2).burn_down();
}

#[test]
fn head_and_train_say_the_same_of_wrong_settings() {
    let dir = Dir::new();
    let check = |settings: &str, fragment: &str| {
        dir.bonfire("head --listen 127.0.0.1:0").set(settings).run().refuse(fragment);
    };
    check("epochs=many", "expected a whole number");
    check("arch=flat", "needs the key `parameter_server`");
    check("arch=ring", "known: single, flat, hierarchical, allreduce");
    check("compression=f8", "known: none, lossless, f16");
    assert_eq!(dir.entries(), [""; 0], "nothing was started");
}

//! Machines that only sum for the workers of an all-reduce.

use std::time::Duration;

use crate::fire::{Fire, burn};
use crate::program::Dir;

const DIGITS: &str = "
    data={name: digits, train: 2048, test: 50}
    arch=allreduce
";

#[test]
fn they_change_nothing_of_what_is_learnt() {
    let dir = Dir::new();
    for compression in ["none", "int8"] {
        let settings = format!("{DIGITS} num_server_rounds=30\n compression={compression}\n");
        let name = |name: &str| format!("{name}-{compression}");
        let alone = burn(&dir, &name("alone"), 3, &format!("{settings} allreduce={{num_workers: 3}}"));
        let helped = format!("{settings} allreduce={{num_workers: 3, servers: 2}}");
        let helped = burn(&dir, &name("helped"), 5, &helped);
        assert!(alone.parameters() == helped.parameters(), "{compression}");
        let joined = helped.told("node_joined");
        let servers = joined.iter().filter(|event| event["role"].as_str().unwrap_or("").contains("server"));
        assert_eq!(servers.count(), 2, "{joined:?}");
    }
}

#[test]
fn one_that_dies_is_done_without_and_one_that_comes_helps_again() {
    let dir = Dir::new();
    let settings = format!("{DIGITS} epochs=12\n allreduce={{num_workers: 2, servers: 1}}\n silence_s=1");
    let mut fire = Fire::light(&dir, "run", "--quiet", &settings).join(&dir, 3);
    let Fire { head, nodes, .. } = &mut fire;
    head.until("roles", || nodes.iter().all(|node| node.said().contains("works as")));
    let server = fire.index_of("a server of the group");
    fire.nodes.remove(server).kill_after(Duration::from_millis(300));
    let record = fire.join(&dir, 1).burn_down();
    let roles: Vec<String> =
        record.told("node_joined").iter().map(|event| event["role"].to_string()).collect();
    assert_eq!(roles.iter().filter(|role| role.contains("server")).count(), 2, "{roles:?}");
    let lost = record.told("node_lost");
    assert!(lost.iter().any(|event| event["role"].to_string().contains("server")), "{lost:?}");
    // Every sample once an epoch.
    assert_eq!(record.number("samples"), 12.0 * 2048.0);
}

#[test]
fn those_that_cannot_help_are_refused() {
    let dir = Dir::new();
    let check = |settings: &str, fragment: &str| dir.bonfire("train").set(settings).run().refuse(fragment);
    let group = |keys: &str| format!("arch=allreduce\n allreduce={{num_workers: 2, {keys}}}");
    check(&group("servers: 3"), "allreduce.servers: must be at most num_workers, which is 2");
    check(&group("servers: 1, op: adasum"), "allreduce.servers: is only for `op: mean`");
    check(
        &format!("{}\n compression={{powersgd: 2}}", group("servers: 1")),
        "allreduce.servers: is not for `compression: {powersgd",
    );
    assert_eq!(dir.entries(), [""; 0], "nothing was started");
}

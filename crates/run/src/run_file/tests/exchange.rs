//! How gradients travel: what may be said of it, and what not.

use super::*;

/// A group of so many workers with these lines.
fn group(workers: usize, rest: &str) -> String {
    format!("arch: allreduce\nallreduce: {{num_workers: {workers}}}\n{rest}")
}

#[test]
fn members_may_train_by_themselves() {
    let check = |workers: usize, rest: &str, expect: (LocalSteps, f32, f32, bool)| {
        let settings = read(&group(workers, rest), &[]);
        let outer = settings.outer.as_ref().unwrap();
        let found = (settings.file.local_steps, outer.lr, outer.momentum, outer.nesterov);
        assert_eq!(found, expect, "{workers} {rest}");
        let again = read(&settings.to_yaml().unwrap(), &[]);
        assert_eq!(again.file, settings.file, "what is saved says the same");
    };
    let always = LocalSteps::Always(16);
    for (workers, momentum) in [(1, 0.0), (3, 0.0), (4, 0.2), (7, 0.2), (8, 0.5), (16, 0.6), (100, 0.6)] {
        check(workers, "local_steps: 16", (always, 1.0, momentum, false));
    }
    for (steps, momentum) in [(2, 0.0), (3, 0.0), (4, 0.2), (7, 0.2), (8, 0.5)] {
        check(8, &format!("local_steps: {steps}"), (LocalSteps::Always(steps), 1.0, momentum, false));
    }
    let later = LocalSteps::After(LaterSteps { after: Span::Rounds(100), steps: 8 });
    check(2, "local_steps: {after: 100 rounds, steps: 8}", (later, 1.0, 0.0, false));
    check(8, "local_steps: 16\nouter: {lr: 0.7, momentum: 0.9, nesterov: true}", (always, 0.7, 0.9, true));
    check(8, "local_steps: 16\nouter: {nesterov: true}", (always, 1.0, 0.5, true));
    for rest in ["", "local_steps: 1", "local_steps: {after: 3 epochs, steps: 1}"] {
        assert_eq!(read(&group(4, rest), &[]).outer, None, "{rest}");
    }
}

#[test]
fn workers_of_servers_in_step_may_train_by_themselves() {
    for servers in [
        "arch: flat\nparameter_server: {num_workers: 4, backup_workers: 1, straggler_s: 3}",
        "arch: hierarchical\nglobal_server: {local_servers: [{num_workers: 2}, {num_workers: 2}]}",
    ] {
        let settings = read(&format!("{servers}\nlocal_steps: {{after: 9 rounds, steps: 8}}"), &[]);
        assert_eq!(settings.outer.as_ref().map(|outer| outer.momentum), Some(0.2), "as in a group");
        assert!(!settings.is_in_step());
    }
}

#[test]
fn what_suits_the_network_may_be_left_open() {
    let both = read(&group(8, "compression: auto\nlocal_steps: auto"), &[]);
    assert_eq!((both.file.compression, both.file.local_steps), (Compression::Auto, LocalSteps::Auto));
    let outer = both.outer.as_ref().unwrap();
    assert_eq!((outer.lr, outer.momentum), (1.0, 0.5), "as with a number");
    assert_eq!(read(&both.to_yaml().unwrap(), &[]).file, both.file, "what is saved says the same");
    read(&group(3, "compression: auto\nnum_server_rounds: 9"), &[]);
    let own = read(&group(3, "local_steps: auto\nouter: {momentum: 0.3}"), &[]);
    assert_eq!(own.outer.unwrap().momentum, 0.3);
    for servers in [
        "arch: flat\nparameter_server: {num_workers: 8}",
        "arch: hierarchical\nglobal_server: {local_servers: [{num_workers: 4}, {num_workers: 4}]}",
    ] {
        let served = read(&format!("{servers}\ncompression: auto\nlocal_steps: auto"), &[]);
        assert_eq!(served.outer.as_ref().map(|outer| outer.momentum), Some(0.5));
        let bytes = read(&format!("{servers}\ncompression: auto"), &[]);
        assert!(bytes.outer.is_none() && !bytes.is_in_step(), "what it takes is measured by the roles");
    }
}

#[test]
fn what_cannot_be_left_open_is_refused() {
    let check = |text: &str, expect: &str| refuse(text, &[], &format!("run.yml:{expect}"));
    let alone = "is for several machines: on one, exchanges cost nothing";
    check("local_steps: auto", &format!("1: local_steps: auto {alone}"));
    check("compression: auto", &format!("1: compression: auto {alone}"));
    let server = "arch: flat\nparameter_server: {aggr_type: async, num_workers: 2}";
    check(
        &format!("compression: auto\n{server}"),
        "1: compression: auto is only for `aggr_type: sync`: an async server has no rounds that could be measured",
    );
    check(
        &format!("local_steps: auto\n{server}"),
        "1: local_steps: auto is only for `aggr_type: sync`: workers of an async server begin at different places",
    );
    check(
        "compression: auto\narch: allreduce\nallreduce: {num_workers: 2, op: adasum}",
        "1: compression: adasum combines gradients as they are: leave it out",
    );
    check(
        "compression: auto\narch: allreduce\nallreduce: {num_workers: 2, engine: mpi}",
        "1: compression: MPI sums in f32: leave it out, or leave out `engine: mpi`",
    );
    check(
        &group(3, "num_server_rounds: 500\nlocal_steps: auto"),
        "4: local_steps: auto cannot be given together with num_server_rounds, whose rounds would be of a length \
         that is not known beforehand: name a number, or give epochs instead",
    );
}

#[test]
fn local_steps_that_make_no_sense_are_refused() {
    let check = |text: &str, expect: &str| refuse(text, &[], &format!("run.yml:{expect}"));
    let member = |rest: &str, expect: &str| check(&group(3, rest), expect);
    member("local_steps: 0", "3: local_steps: must be at least 1");
    member("local_steps: -2", "3: local_steps: must be at least 1");
    member("local_steps: {after: 1 epoch, steps: 0}", "3: local_steps.steps: must be at least 1");
    member("outer: {lr: 1}", "3: outer: is only for `local_steps` above 1");
    member("local_steps: 2\nouter: {lr: 0}", "4: outer.lr: must be above 0");
    member("local_steps: 2\nouter: {momentum: 1}", "4: outer.momentum: must be from 0 to below 1");
    member(
        "local_steps: 2\nouter: {nesterov: true}",
        "4: outer.nesterov: must be used with a momentum above 0",
    );
    member("outer: {delay: 1}", "3: outer: is only for `local_steps` above 1");
    member(
        "local_steps: 4\nouter: {delay: 4}",
        "4: outer.delay: must be below the number of local steps, which is 4",
    );
    member(
        "local_steps: auto\nouter: {delay: 1}",
        "4: outer.delay: is for a number of local steps: name one instead of auto",
    );
    member("easgd: {rho: 0.1}", "3: easgd: is only for `local_steps` above 1");
    member(
        "local_steps: 4\neasgd: {rho: 0.5}",
        "4: easgd.rho: must be above 0 and at most 0.333, one part for each of 3 workers",
    );
    member(
        "local_steps: 4\neasgd: {rho: 0.1}\nouter: {lr: 1}",
        "4: easgd: is another step than `outer`: leave one of them out",
    );
    check(
        "local_steps: 2",
        "1: local_steps: above 1 is for several machines: on one, exchanges cost nothing",
    );
    let in_step =
        "above 1 is only for `aggr_type: sync`: workers of an async server begin at different places";
    let relays = |head: &str, relay: &str| {
        let server =
            format!("{{aggr_type: {head}, local_servers: [{{aggr_type: {relay}, num_workers: 2}}]}}");
        format!("local_steps: 2\narch: hierarchical\nglobal_server: {server}")
    };
    for servers in [
        "local_steps: 2\narch: flat\nparameter_server: {aggr_type: async, num_workers: 2}".to_owned(),
        relays("async", "sync"),
        relays("sync", "async"),
    ] {
        check(&servers, &format!("1: local_steps: {in_step}"));
    }
    let flat = "local_steps: 2\narch: flat\nparameter_server: {num_workers: 2}";
    let only = "is only for `arch: allreduce`: workers of a server wait for its answer, and go on from there";
    check(&format!("{flat}\nouter: {{delay: 1}}"), &format!("4: outer.delay: {only}"));
    check(&format!("{flat}\neasgd: {{rho: 0.1}}"), &format!("4: easgd: {only}"));
    check(
        &format!("{flat}\nclients_per_round: 1"),
        "4: clients_per_round: is only for `arch: allreduce` with `op: mean` over our own links",
    );
    check(
        "local_steps: 2\narch: allreduce\nallreduce: {num_workers: 2, op: adasum}",
        "1: local_steps: above 1 is only for `op: mean`: adasum combines gradients of one point",
    );
    check(
        "local_steps: 2\narch: allreduce\nallreduce: {num_workers: 2, engine: mpi}",
        "1: local_steps: above 1 is not for `engine: mpi`, which sums gradients: leave one of them out",
    );
}

#[test]
fn factors_are_for_sums_over_all_workers() {
    let check = |powersgd: &str, arch: &str, expect: &str| {
        refuse(&format!("compression: {powersgd}\n{arch}"), &[], &format!("run.yml:1: compression{expect}"));
    };
    let group = "arch: allreduce\nallreduce: {num_workers: 2}";
    check("{powersgd: 0}", group, ".powersgd: must be from 1 to 64");
    check("{powersgd: 65}", group, ".powersgd: must be from 1 to 64");
    check("{powersgd: two}", group, ".powersgd: expected a whole number, 0 or more, found the text \"two\"");
    check("powersgd", group, ".powersgd: expected a whole number, 0 or more, found nothing");
    let adasum = "arch: allreduce\nallreduce: {num_workers: 2, op: adasum}";
    check("{powersgd: 2}", adasum, ": adasum combines gradients as they are: leave it out");
    let mpi = "arch: allreduce\nallreduce: {num_workers: 2, engine: mpi}";
    check("{powersgd: 2}", mpi, ": MPI sums in f32: leave it out, or leave out `engine: mpi`");
    let only = ": powersgd is only for `arch: allreduce`:";
    check("{powersgd: 2}", "seed: 1", &format!("{only} on one machine nothing travels"));
    let servers = [
        "arch: flat\nparameter_server: {aggr_type: sync, num_workers: 2}",
        "arch: hierarchical\nglobal_server: {aggr_type: sync, local_servers: [{aggr_type: sync, num_workers: 2}]}",
    ];
    for arch in servers {
        check("{powersgd: 2}", arch, &format!("{only} its two factors are two sums over all workers"));
    }
    let settings = read(&format!("compression: int8\n{group}"), &["compression.powersgd=4"]);
    assert_eq!(settings.file.compression, Compression::PowerSgd(4));
}

//! Tables: a run file and a command line in, the settings or the error out.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod exchange;

use super::*;

fn read_with(text: &str, set: &[&str], workers: Option<usize>) -> Result<Settings, YamlError> {
    let set: Vec<String> = set.iter().map(|&set| set.to_owned()).collect();
    Settings::read("run.yml", text, &Overrides { set: &set, workers, ranks: None }, 4)
}

#[track_caller]
fn read(text: &str, set: &[&str]) -> Settings {
    read_with(text, set, None).unwrap_or_else(|wrong| panic!("{wrong}\nin\n{text}\nwith {set:?}"))
}

#[track_caller]
fn refuse(text: &str, set: &[&str], expect: &str) {
    match read_with(text, set, None) {
        Ok(settings) => panic!("read {text:?} with {set:?} as {:?}", settings.file),
        Err(wrong) => assert_eq!(wrong.to_string(), expect, "{text:?} with {set:?}"),
    }
}

#[test]
fn everything_has_a_default() {
    let Settings { file, workers, length, threads, .. } = read("", &[]);
    let expect =
        RunFile { name: "lenet5-digits".to_owned(), epochs: Some(5), workers: Some(4), ..RunFile::default() };
    assert_eq!(file, expect);
    assert_eq!((workers, length, threads), (4, Span::Epochs(5), 1));
    assert_eq!(read("{}", &[]).file, expect);
}

#[test]
fn one_worker_a_core_up_to_a_limit() {
    for (cores, expect) in [(0, 1), (1, 1), (2, 2), (8, 8), (64, 8)] {
        let settings = Settings::read("run.yml", "", &Overrides::default(), cores).unwrap();
        assert_eq!(settings.workers, expect, "{cores} cores");
    }
}

#[test]
fn the_command_line_goes_over_the_file_over_the_defaults() {
    let check = |text: &str, set: &[&str], expect: &str| {
        let file = read(text, set).file;
        let lr = file.optimizer.lr();
        let found = format!(
            "{} {} {lr} {} {:?}",
            file.model.name(),
            file.optimizer.name(),
            file.data.name,
            file.data.train
        );
        assert_eq!(found, expect, "{text:?} with {set:?}");
    };
    check("", &[], "lenet5 adam 0.001 digits Some(20000)");
    check("optimizer: sgd", &[], "lenet5 sgd 0.01 digits Some(20000)");
    check("optimizer: {sgd: {lr: 0.5}}", &["model=mlp"], "mlp sgd 0.5 digits Some(20000)");
    check("optimizer: {sgd: {lr: 0.5}}", &["optimizer.sgd.lr=0.25"], "lenet5 sgd 0.25 digits Some(20000)");
    check("optimizer: {sgd: {lr: 0.5}}", &["optimizer.adam.lr=0.25"], "lenet5 adam 0.25 digits Some(20000)");
    check("", &["optimizer.sgd.lr=1", "optimizer.sgd.lr=2"], "lenet5 sgd 2 digits Some(20000)");
    check("data: reviews", &["data=grammar"], "lenet5 adam 0.001 grammar Some(8000)");
    check("data: {name: digits, test: 5}", &["data.train=7"], "lenet5 adam 0.001 digits Some(7)");
    check("", &["data.train=7"], "lenet5 adam 0.001 digits Some(7)");
    check("", &["data.train=7", "data.name=grammar"], "lenet5 adam 0.001 grammar Some(7)");
    check("data: grammar", &["data.train=7"], "lenet5 adam 0.001 grammar Some(7)");
    check("", &["data=grammar", "data.train=7"], "lenet5 adam 0.001 grammar Some(7)");
    check("data: some/folder", &[], "lenet5 adam 0.001 some/folder None");
}

#[test]
fn a_run_is_named_after_what_it_trains() {
    let check = |text: &str, expect: &str| assert_eq!(read(text, &[]).file.name, expect, "{text}");
    check("name: mine", "mine");
    check("model: tagger\ndata: /data/treebanks/english", "tagger-english");
    check("data: {name: digits, train: 5}", "lenet5-digits");
    check("data: ..", "lenet5-data");
}

#[test]
fn a_length_is_given_once() {
    let check = |text: &str, set: &[&str], expect: Span| assert_eq!(read(text, set).length, expect, "{text}");
    check("epochs: 3", &[], Span::Epochs(3));
    check("num_server_rounds: 7", &[], Span::Rounds(7));
    check("epochs: 3", &["epochs=", "num_server_rounds=7"], Span::Rounds(7));
    check("num_server_rounds: 7", &["num_server_rounds=", "epochs=2"], Span::Epochs(2));
    assert_eq!(read("num_server_rounds: 7", &[]).file.epochs, None);
    let both = "num_server_rounds: cannot be given together with epochs: leave one of them out";
    refuse("epochs: 3\nnum_server_rounds: 7", &[], &format!("run.yml:2: {both}"));
    refuse("num_server_rounds: 7\nepochs: 3", &[], &format!("run.yml:1: {both}"));
    let set = "--set num_server_rounds=7: cannot be given together with epochs: leave one of them out";
    refuse("epochs: 3", &["num_server_rounds=7"], set);
}

#[test]
fn what_is_out_of_range_is_refused_with_its_line() {
    let check =
        |text: &str, expect: &str| refuse(&format!("seed: 1\n{text}"), &[], &format!("run.yml:2: {expect}"));
    for key in ["batch_size", "epochs", "num_server_rounds", "keep_checkpoints", "workers"] {
        check(&format!("{key}: 0"), &format!("{key}: must be at least 1"));
    }
    for target in ["0", "-0.5", "1.5", "90"] {
        let expect = "target_accuracy: must be above 0 and at most 1; 0.9 is 90 %";
        check(&format!("target_accuracy: {target}"), expect);
    }
    for norm in ["0", "-1"] {
        check(&format!("clip_norm: {norm}"), "clip_norm: must be above 0");
    }
    for (weights, shown) in [
        ("[]", "[]"),
        ("[0, 0]", "[0.0, 0.0]"),
        ("[1, -2]", "[1.0, -2.0]"),
        ("[1, .nan]", "[1.0, NaN]"),
        ("[1, .inf]", "[1.0, inf]"),
    ] {
        let rule = "must be one number a class, none of them negative and not all of them 0";
        check(&format!("class_weights: {weights}"), &format!("class_weights: {rule}; they are {shown}"));
    }
    check("optimizer: {sgd: {lr: -1}}", "optimizer.sgd.lr: must be a number that is not negative");
    check("optimizer: {sgd: {momentum: 1}}", "optimizer.sgd.momentum: must be from 0 to below 1");
    check(
        "optimizer: {sgd: {nesterov: true}}",
        "optimizer.sgd.nesterov: must be used with a momentum above 0",
    );
    check(
        "optimizer: {adam: {betas: [0.9, 1]}}",
        "optimizer.adam.betas: must be two numbers from 0 to below 1",
    );
    check(
        "compression: f16\narch: allreduce\nallreduce: {num_workers: 2, op: adasum}",
        "compression: adasum combines gradients as they are: leave it out",
    );
    check("optimizer: {adamw: {epsilon: 0}}", "optimizer.adamw.epsilon: must be above 0");
    for steps in ["[]", "[{epochs: 0, lr: 1}]", "[{epochs: 1, lr: -1}]"] {
        let expect = "schedule: must list steps of at least one epoch with a rate that is not negative";
        check(&format!("schedule: {steps}"), expect);
    }
    check(
        "schedule: [{epochs: 9223372036854775808, lr: 1}, {epochs: 9223372036854775808, lr: 1}]",
        "schedule: its steps have more epochs than can be counted",
    );
    refuse("", &["batch_size=0"], "--set batch_size=0: must be at least 1");
    refuse(
        "optimizer: sgd",
        &["optimizer.sgd.lr=-1"],
        "--set optimizer.sgd.lr=-1: must be a number that is not negative",
    );
}

#[test]
fn lengths_have_a_number_and_a_unit() {
    let check = |text: &str, expect: Span, written: &str| {
        let span = read("", &[&format!("eval_every={text}")]).file.eval_every;
        assert_eq!((span, span.to_string().as_str()), (expect, written));
    };
    check("1 epoch", Span::Epochs(1), "1 epoch");
    check("2 epoch", Span::Epochs(2), "2 epochs");
    check("  50   rounds ", Span::Rounds(50), "50 rounds");
    check("1 rounds", Span::Rounds(1), "1 round");
    for text in ["5", "epoch", "0 rounds", "-1 epochs", "1.5 epochs", "1 minute", "1 epoch 5 rounds"] {
        let wrong = read_with(&format!("warmup: {text}"), &[], None).unwrap_err().to_string();
        assert!(
            wrong.starts_with("run.yml:1: warmup: expected a length such as `1 epoch`"),
            "{text}: {wrong}"
        );
    }
    assert_eq!(Span::Epochs(3).rounds(100), 300);
    assert_eq!(Span::Rounds(3).rounds(100), 3);
    assert_eq!(Span::Epochs(u64::MAX).rounds(2), u64::MAX);
}

const HIERARCHY: &str = "arch: hierarchical\nglobal_server:\n  type: sync\n  local_servers:\n  \
                         - {type: async, num_workers: 2}\n  - {num_workers: 3}\n";

#[test]
fn workers_are_where_the_architecture_has_them() {
    let check = |text: &str, workers: Option<usize>, expect: Result<usize, &str>| {
        let found =
            read_with(text, &[], workers).map(|settings| settings.workers).map_err(|wrong| wrong.to_string());
        assert_eq!(found, expect.map_err(str::to_owned), "{text:?} with --workers {workers:?}");
    };
    check("", Some(3), Ok(3));
    check("workers: 2", None, Ok(2));
    check("workers: 2", Some(3), Ok(3));
    check("arch: flat\nparameter_server: {num_workers: 6}", None, Ok(6));
    check("arch: flat\nparameter_server: {num_workers: 6}", Some(3), Ok(3));
    check("arch: flat", Some(3), Ok(3));
    check("arch: flat", None, Err("run.yml:1: arch: flat needs the key `parameter_server`"));
    check(HIERARCHY, None, Ok(5));
    let each = "--workers cannot be given with `arch: hierarchical`: set num_workers of each local server";
    check(HIERARCHY, Some(3), Err(each));
    check("arch: hierarchical", None, Err("run.yml:1: arch: hierarchical needs the key `global_server`"));
    check("", Some(0), Err("--workers must be at least 1"));
    check(
        "parameter_server: {num_workers: 6}",
        None,
        Err("run.yml:1: parameter_server: is only for `arch: flat`"),
    );
    check(
        "arch: flat\nworkers: 2\nparameter_server: {num_workers: 6}",
        None,
        Err("run.yml:2: workers: is only for `arch: single`"),
    );
    check(
        "arch: flat\nparameter_server: {num_workers: 0}",
        None,
        Err("run.yml:2: parameter_server.num_workers: must be at least 1"),
    );
    check(
        &HIERARCHY.replace('3', "0"),
        None,
        Err("run.yml:6: global_server.local_servers[1].num_workers: must be at least 1"),
    );
    check(
        "arch: hierarchical\nglobal_server: {local_servers: []}",
        None,
        Err("run.yml:2: global_server.local_servers: must list at least one server"),
    );
}

#[test]
fn every_architecture_comes_to_a_topology() {
    let sync = ServerRule { is_async: false, max_staleness: 0, damping: 0.0, straggler: None };
    let check = |text: &str, expect: Topology| assert_eq!(read(text, &[]).topology, expect, "{text}");
    check("workers: 5", Topology::Single { workers: 5 });
    check(
        "arch: flat\nparameter_server: {num_workers: 5, backup_workers: 2, straggler_s: 1.5}",
        Topology::Flat {
            rule: ServerRule { straggler: Some(std::time::Duration::from_millis(1500)), ..sync },
            workers: 5,
            backup: 2,
        },
    );
    let bounded = |max_staleness| ServerRule { is_async: true, max_staleness, ..sync };
    let flat = |rule| Topology::Flat { rule, workers: 5, backup: 0 };
    check("arch: flat\nparameter_server: {type: async, num_workers: 5}", flat(bounded(8)));
    check(
        "arch: flat\nparameter_server: {type: async, num_workers: 5, max_staleness: 0, damping: 0.5}",
        flat(ServerRule { damping: 0.5, ..bounded(0) }),
    );
    let relay = |is_async, workers| RelayPlan { is_async, workers };
    check(HIERARCHY, Topology::Hierarchical { rule: sync, relays: vec![relay(true, 2), relay(false, 3)] });
    let group = |op| Topology::Allreduce { workers: 3, servers: 0, op, engine: Engine::Grpc };
    check("arch: allreduce\nallreduce: {num_workers: 3}", group(ReduceOp::Mean));
    check("arch: allreduce\nallreduce: {num_workers: 3, op: adasum, engine: grpc}", group(ReduceOp::Adasum));
}

#[test]
fn options_of_another_kind_of_server_are_refused() {
    let check = |server: &str, expect: &str| {
        refuse(&format!("arch: flat\nparameter_server: {{num_workers: 2, {server}}}"), &[], expect);
    };
    let at = |key: &str, rule: &str| format!("run.yml:2: parameter_server.{key}: {rule}");
    check("max_staleness: 2", &at("max_staleness", "is only for `aggr_type: async`"));
    check("damping: 1", &at("damping", "is only for `aggr_type: async`"));
    check("type: async, straggler_s: 1", &at("straggler_s", "is only for `aggr_type: sync`"));
    check("type: async, damping: -1", &at("damping", "must be from 0 (none) to 4"));
    check("straggler_s: 0", &at("straggler_s", "must be above 0 and at most 86400"));
    let backup = "is only for `aggr_type: sync`: an async server waits for nobody";
    check("type: async, backup_workers: 1", &at("backup_workers", backup));
    refuse("silence_s: 0.1", &[], "run.yml:1: silence_s: must be from 0.5 to 86400");
    refuse("watts: {idle: -1, full: 5}", &[], "run.yml:1: watts.idle: must be from 0 to 100000");
    refuse(
        "watts:\n  idle: 6\n  full: 5",
        &[],
        "run.yml:3: watts.full: must be from 6, as when it is idle, to 100000",
    );
    refuse("watts: {idle: 6}", &[], "run.yml:1: watts: the key `full` is missing");
    refuse("watts: {idle: 6, fall: 7}", &[], "run.yml:1: watts: unknown key `fall`; did you mean `full`?");
    refuse(
        "workers: 2\nmin_workers: 3",
        &[],
        "run.yml:2: min_workers: must be at most the number of workers, which is 2",
    );
}

#[test]
fn cores_are_shared_out_among_workers() {
    let check = |text: &str, cores: usize, workers: usize, expect: usize| {
        assert_eq!(
            read(text, &[]).file.threads_on(cores, workers),
            expect,
            "{text}: {workers} on {cores} cores"
        );
    };
    check("", 4, 4, 1);
    check("", 4, 2, 2);
    check("", 4, 3, 1);
    check("", 2, 8, 1);
    check("batch_size: 16", 64, 1, 2);
    check("batch_size: 4", 64, 1, 1);
    check("threads: 3", 1, 8, 3);
}

#[test]
fn the_resolved_file_reads_back_the_same() {
    let files = [
        "",
        HIERARCHY,
        "arch: flat\nparameter_server: {aggr_type: async, num_workers: 2}\nnum_server_rounds: 5",
        "arch: flat\nparameter_server: {type: async, num_workers: 2, max_staleness: 3, damping: 0.25}",
        "arch: flat\nparameter_server: {num_workers: 2, backup_workers: 1, straggler_s: 2.5}\nthreads: 2",
        "arch: allreduce\nallreduce: {num_workers: 2, op: adasum}\ndistribute: ship",
        "arch: flat\nparameter_server: {num_workers: 2}\nhead: {works: true}",
        "head: {works: false}",
        "evaluator: true\nsilence_s: 2.5\nworkers: 3\nmin_workers: 2",
        "watts: {idle: 2.7, full: 6.4}",
        "model: {tagger: {cell: lstm, dropout: 0.1}}\ndata: {name: grammar, tags: xpos, lower_case: false}",
        "model: {sentiment: {classes: 5}}\ndata: {path: 'a: b # c', max_words: 50}\nname: \"yes\"",
        "model: {mlp: {hidden: []}}\noptimizer: {sgd: {lr: 0.1, momentum: 0.9, nesterov: true, rows: all}}",
        "optimizer: {adamw: {betas: [0.8, 0.99], epsilon: 1e-7}}\nwarmup: 10 rounds\nclip_norm: 0.5",
        "schedule: cosine\ndata: /some/where\nclass_weights: [1, 0.25, 0]",
        "schedule: {cosine: {final_lr: 1e-5}}\nkeep_checkpoints: 1\ncheckpoint_every: 7 rounds",
        "schedule: [{epochs: 2, lr: 0.1}, {epochs: 1, lr: 0.01}]\ntarget_accuracy: 0.9\nseed: 18446744073709551615",
    ];
    for text in files {
        let Ok(settings) = read_with(text, &[], None) else {
            panic!("{text}: {}", read_with(text, &[], None).unwrap_err())
        };
        let yaml = settings.to_yaml().unwrap();
        // On a machine of any size: the number of workers is part of the resolved file.
        let again = Settings::read("saved.yml", &yaml, &Overrides::default(), 1)
            .unwrap_or_else(|wrong| panic!("{wrong}\n{yaml}"));
        assert_eq!(again.file, settings.file, "{yaml}");
        assert_eq!((again.workers, again.length), (settings.workers, settings.length), "{yaml}");
        assert_eq!(again.to_yaml().unwrap(), yaml);
        assert_eq!(settings.differs_for_good(&again), None);
    }
}

#[test]
fn a_head_works_or_not_or_does_not_say() {
    let check = |text: &str, set: &[&str], works: Option<bool>| {
        let settings = read(text, set);
        assert_eq!(settings.file.head.works, works, "{text:?} with {set:?}");
        assert_eq!(settings.to_yaml().unwrap().contains("head:"), works.is_some(), "{text:?}");
    };
    check("", &[], None);
    check("head: {}", &[], None);
    check("head:", &[], None);
    check("head: {works: true}", &[], Some(true));
    check("head: {works: true}", &["head.works=false"], Some(false));
    check("", &["head={works: true}"], Some(true));
    let refuse = |text: &str, expect: &str| refuse(text, &[], expect);
    let maybe = "run.yml:2: head.works: expected true or false, found the text \"maybe\"";
    refuse("seed: 1\nhead: {works: maybe}", maybe);
    refuse("seed: 1\nhead:\n  work: true", "run.yml:3: head: unknown key `work`; did you mean `works`?");
    refuse("head: true", "run.yml:1: head: expected a mapping, found true");
    refuse("head: [true]", "run.yml:1: head: expected a mapping, found a list");
}

#[test]
fn some_things_cannot_change_after_the_first_checkpoint() {
    let check = |set: &str, expect: Option<&str>| {
        let (before, after) = (read("epochs: 5", &[]), read("epochs: 5", &[set]));
        assert_eq!(before.differs_for_good(&after), expect, "{set}");
    };
    check("model=mlp", Some("model"));
    check("model.lenet5.kernel=3", Some("model"));
    check("data=grammar", Some("data"));
    check("data={name: digits, train: 5}", Some("data"));
    check("optimizer=sgd", Some("optimizer"));
    check("batch_size=16", Some("batch_size"));
    check("seed=1", Some("seed"));
    check("workers=2", Some("the number of workers"));
    check("workers=4", None);
    check("epochs=6", None);
    check("optimizer.adam.lr=0.1", None);
    check("target_accuracy=0.9", None);
    check("eval_every=5 rounds", None);
    check("clip_norm=1", None);
    check("class_weights=[1, 2]", None);
    check("name=other", None);
}

#[test]
fn errors_that_show_later_point_to_their_key() {
    let settings = read("seed: 1\nmodel:\n  tagger:\n    hidden: 5", &["data=grammar"]);
    let check = |key: &str, expect: &str| assert_eq!(settings.wrong(key, "no").to_string(), expect);
    check("model", "run.yml:2: model: no");
    check("model.tagger.hidden", "run.yml:4: model.tagger.hidden: no");
    check("data", "--set data=grammar: no");
    check("workers", "run.yml: workers: no");
}

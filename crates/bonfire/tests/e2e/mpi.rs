//! All-reduce by MPI: under a real mpirun where this program has MPI, and refused where it cannot be.

use crate::program::Dir;

const GROUP: &str = "
    data={name: digits, train: 3000, test: 500}
    epochs=3
    arch=allreduce
";

#[test]
fn mpi_is_asked_for_only_where_it_is() {
    let dir = Dir::new();
    let settings = format!("{GROUP}\n allreduce={{num_workers: 2, engine: mpi}}");
    let expect = match cfg!(feature = "mpi") {
        true => "mpirun -n 2 bonfire train",
        false => "cargo build --release --features mpi",
    };
    let refuse =
        |line: &str, variables: &str| dir.bonfire(line).set(&settings).env(variables).run().refuse(expect);
    refuse("train", "");
    refuse("head --listen 127.0.0.1:0", "");
    refuse("train --wait 5 -n 2 -nr 1 --master 127.0.0.1", "");
    refuse("train --wait 5", "RANK=1 WORLD_SIZE=2 MASTER_ADDR=127.0.0.1");
    dir.bonfire("train").set("allreduce.engine=tcp").run().refuse("known: grpc, mpi");
    assert_eq!(dir.entries(), [""; 0], "nothing was started");
}

#[cfg(not(feature = "mpi"))]
#[test]
fn the_bench_says_how_to_get_mpi() {
    let dir = Dir::new();
    dir.bonfire("bench exchange --engine mpi").run().refuse("--features mpi");
    eprintln!(
        "LEFT OUT: all-reduce by MPI, which this program was built without; .ci/run builds one with it"
    );
}

#[cfg(feature = "mpi")]
mod under_mpirun {
    use std::process::Command;

    use super::GROUP;
    use crate::launchers::{MPIRUN, has_mpirun};
    use crate::program::{Bonfire, Dir};
    use crate::record::Record;

    fn mpirun(dir: &Dir, ranks: usize, arguments: &str) -> Bonfire {
        dir.bonfire_under("mpirun", &format!("{MPIRUN} -n {ranks}"), arguments)
    }

    fn group(workers: usize, op: &str, engine: &str) -> String {
        format!("arch=allreduce\n allreduce={{num_workers: {workers}, op: {op}, engine: {engine}}}")
    }

    #[track_caller]
    fn train(dir: &Dir, ranks: usize, name: &str, settings: &str) -> Record {
        mpirun(dir, ranks, &format!("train --quiet --out {name}")).set(settings).succeed();
        let record = Record::of(dir.path(name));
        assert_eq!(record.told("warned").len(), 0, "all members have the same parameters: {record:?}");
        record
    }

    /// Of two numbers there is one sum.
    #[test]
    fn two_ranks_are_a_group_of_two_bit_for_bit() {
        if !has_mpirun() {
            return;
        }
        let grammar = "model=tagger\n data={name: grammar, train: 1000, test: 200}\n epochs=1";
        let norm = "model=resnet20\n data={name: digits, train: 200, test: 50}\n num_server_rounds=2";
        for (data, op) in [(GROUP, "mean"), (grammar, "mean"), (grammar, "adasum"), (norm, "mean")] {
            let dir = Dir::new();
            let run = |engine: &str| train(&dir, 2, engine, &format!("{data}\n{}", group(2, op, engine)));
            let (links, mpi) = (run("grpc").parameters(), run("mpi").parameters());
            assert!(links == mpi, "{op} of {data}");
        }
    }

    #[test]
    fn more_ranks_learn_as_a_group_does() {
        if !has_mpirun() {
            return;
        }
        for op in ["mean", "adasum"] {
            let dir = Dir::new();
            let run = |engine: &str| train(&dir, 3, engine, &format!("{GROUP}\n{}", group(3, op, engine)));
            let (links, mpi) = (run("grpc"), run("mpi"));
            let (expect, found) = (links.number("accuracy"), mpi.number("accuracy"));
            assert!((expect - found).abs() < 0.05, "{op}: {found} against {expect}");
            assert!((mpi.number("epochs") - 3.0).abs() < 1e-9, "{op}");
        }
    }

    #[test]
    fn an_evaluator_is_no_member_and_a_target_ends_all() {
        if !has_mpirun() {
            return;
        }
        let dir = Dir::new();
        let settings = format!(
            "{GROUP}\n{}\n evaluator=true\n epochs=500\n target_accuracy=0.7",
            group(2, "mean", "mpi")
        );
        let record = train(&dir, 3, "run", &settings);
        assert_eq!(record.summary()["exit"], "target_reached");
    }

    /// Long enough to be stopped.
    const LONG: &str = "data={name: digits, train: 6000, test: 200}\n epochs=1000\n eval_every=1000 epochs";

    #[test]
    fn a_run_that_was_stopped_goes_on() {
        if !has_mpirun() {
            return;
        }
        let dir = Dir::new();
        let settings = format!("{LONG}\n checkpoint_every=1000 epochs\n{}", group(2, "mean", "mpi"));
        let mut run = mpirun(&dir, 2, "train --quiet --out run").set(&settings).start();
        let record = Record::of(dir.path("run"));
        assert!(run.until("a round", || !record.told_so_far("progress").is_empty()));
        run.signal("TERM");
        run.wait();
        let round = record.newest_round();
        assert!(round > 0, "a checkpoint");
        let line = "train --quiet --resume run --set num_server_rounds=";
        let more = format!("{line}{} --set epochs=", round + 20);
        mpirun(&dir, 2, &more).succeed();
        assert_eq!(record.newest_round(), round + 20);
    }

    #[test]
    fn a_rank_that_dies_ends_all() {
        if !has_mpirun() {
            return;
        }
        let dir = Dir::new();
        let settings = format!("{LONG}\n{}", group(3, "mean", "mpi"));
        let mut run = mpirun(&dir, 3, "train --out doomed-run").set(&settings).start();
        let record = Record::of(dir.path("doomed-run"));
        assert!(run.until("a round", || !record.told_so_far("progress").is_empty()));
        let victim = format!("kill -KILL $(pgrep -P {} bonfire | tail -1)", run.id());
        assert!(Command::new("sh").args(["-c", &victim]).status().expect("a shell").success());
        let outcome = run.wait();
        assert_ne!(outcome.code, Some(0), "{outcome:?}");
    }

    #[test]
    fn the_bench_measures_both_in_one_run() {
        if !has_mpirun() {
            return;
        }
        let dir = Dir::new();
        let line = "bench exchange --engine mpi --bytes 400000 --seconds 0.3 --json";
        let speed = mpirun(&dir, 2, line).succeed().json_lines().remove(0);
        assert_eq!((speed["engine"].as_str(), speed["workers"].as_u64()), (Some("mpi"), Some(2)));
        let number = |key: &str| speed[key].as_f64().unwrap_or_else(|| panic!("{key} in {speed}"));
        assert!(number("gb_per_s") > 0.0 && number("bare_gb_per_s") > 0.0);
        assert!((number("ratio") - number("bare_ms") / number("ms")).abs() < 1e-6);
        mpirun(&dir, 2, "bench exchange --engine mpi --workers 3").run().expect(2);
    }
}

//! Tables with a number to learn: mean squared error, and what only classes have is refused.

use std::fs;

use crate::program::Dir;
use crate::record::Record;

/// A table whose last column is 3 a - 2 b + 1, with a column that says nothing.
fn table(dir: &Dir) {
    let row = |i: u32| {
        let (a, b) = (f64::from(i * 7 % 23) / 10.0, f64::from(i * 13 % 29) / 10.0);
        format!("{a},{},{b},{}\n", i % 2, 3.0 * a - 2.0 * b + 1.0)
    };
    dir.write("houses.csv", format!("a,side,b,price\n{}", (0..600).map(row).collect::<String>()));
}

const SETTINGS: &str = "
    data={name: houses.csv, value: price}
    model={layers: [flatten, {linear: 16}, tanh, {linear: 1}]}
    optimizer.adam.lr=0.01
    batch_size=16
    epochs=40
    seed=3
";

#[test]
fn a_number_is_learned_measured_and_predicted() {
    let dir = Dir::new();
    table(&dir);
    dir.bonfire("train --out run --workers 2").set(SETTINGS).set("validation=0.1").succeed();
    let run = Record::of(dir.path("run"));
    let (rmse, mae, r2) = (run.number("rmse"), run.number("mae"), run.number("r2"));
    assert!(rmse < 0.3 && mae <= rmse && r2 > 0.98, "RMSE {rmse}, MAE {mae}, R² {r2}");
    assert!((rmse * rmse - run.number("eval_loss")).abs() < 1e-9);
    let summary = run.summary();
    for key in ["accuracy", "best_accuracy", "validation_accuracy", "macro_f1", "confusion"] {
        assert!(summary[key].is_null(), "{key} in {summary}");
    }
    assert!(run.number("best_round") > 0.0);
    let found = dir.bonfire("predict run --json 1,0,1 2,1,0.5").succeed().json_lines();
    for (line, expect) in found.iter().zip([2.0, 6.0]) {
        let value = line["value"].as_f64().expect("a value");
        assert!((value - expect).abs() < 0.5, "{line}, not {expect}");
    }
    assert_eq!(found[0]["input"], "1,0,1");
    let said = dir.bonfire("predict run 1,0,1").succeed().stdout;
    assert!(said.ends_with("  1,0,1\n") && !said.contains('%'), "{said}");
    let said = dir.bonfire("eval run").succeed().stdout;
    assert!(said.contains("  RMSE 0.") && !said.contains("accuracy"), "{said}");
    let module = dir.bonfire("model run/run.yml --pytorch").succeed().stdout;
    assert!(module.contains("# loss: nn.MSELoss()(scores[:, 0], values)"), "{module}");
    assert!(dir.bonfire("model run/run.yml").succeed().stdout.contains("total"), "a table");
    dir.bonfire("export run --onnx -o model.onnx").succeed();
}

/// So that a few epochs do.
const LONGER: &str = "epochs=12\n optimizer.adam.lr=0.03";

#[test]
fn every_architecture_learns_the_same_number() {
    let dir = Dir::new();
    table(&dir);
    let newest = |name: &str| fs::read(Record::of(dir.path(name)).newest()).expect("parameters");
    let train = |name: &str, settings: &str| {
        dir.bonfire("train --quiet --out").arg(name).set(SETTINGS).set(LONGER).set(settings).succeed();
        newest(name)
    };
    let plain = train("plain", "workers=4");
    assert!(plain == train("flat", "arch=flat\n parameter_server={num_workers: 4}"), "a server");
    assert!(plain == train("ring", "arch=allreduce\n allreduce={num_workers: 4}"), "a group");
    let tree = "{type: sync, num_workers: 2}";
    let tree = format!("arch=hierarchical\n global_server={{local_servers: [{tree}, {tree}]}}");
    train("tree", &tree);
    train("apart", "arch=flat\n parameter_server={num_workers: 4, aggr_type: async}");
    for name in ["flat", "tree", "apart"] {
        let r2 = Record::of(dir.path(name)).number("r2");
        assert!(r2 > 0.5, "{name}: R² {r2}");
    }
    // Data that are sent, and a node that measures, over sockets.
    let mut fire = crate::fire::Fire::light(
        &dir,
        "sent",
        "--quiet",
        &format!("{SETTINGS}\n {LONGER}\n arch=flat\n parameter_server={{num_workers: 4}}\n evaluator=true"),
    );
    for i in 1..=5 {
        let elsewhere = dir.bonfire("node --name").arg(format!("n{i}")).arg(&fire.ticket);
        fire.nodes.push(elsewhere.start());
    }
    let sent = fire.burn_down();
    assert!(newest("sent") == plain, "over sockets");
    assert!(sent.number("r2") > 0.5 && sent.number("mae") > 0.0, "an evaluator tells both");
}

#[test]
fn a_run_goes_on_from_its_best() {
    let dir = Dir::new();
    table(&dir);
    let settings = format!("{SETTINGS}\n validation=0.2\n checkpoint_every=1 epoch\n workers=1");
    dir.bonfire("train --quiet --out whole").set(&settings).set("epochs=6").succeed();
    dir.bonfire("train --quiet --out part").set(&settings).set("epochs=3").succeed();
    dir.bonfire("train --quiet --resume part --set epochs=6").succeed();
    let [whole, part] = ["whole", "part"].map(|name| Record::of(dir.path(name)).summary());
    for key in ["rmse", "mae", "r2", "validation_loss", "best_round"] {
        assert_eq!(whole[key], part[key], "{key}");
    }
}

#[test]
fn what_cannot_be_is_refused_with_the_reason() {
    let dir = Dir::new();
    table(&dir);
    let check = |settings: &str, expect: &str| {
        dir.bonfire("train").set(SETTINGS).set(settings).run().refuse(expect);
    };
    check("target_accuracy=0.9", "is for classes, but `data.value` is a number to learn");
    check("class_weights=[1, 2]", "is for classes, but `data.value` is a number to learn");
    check("model={layers: [flatten, {linear: 2}]}", "the data need (1): end with `linear: 1`");
    check("model={layers: [flatten, {linear: 1}, binary]}", "end with `linear: 1`, not `binary`");
    check("model={layers: [flatten, {linear: 1}, softmax]}", "end with `linear: 1`, not `softmax`");
    check(
        "data={name: houses.csv, value: cost}",
        "has no column \"cost\"; its columns are a, side, b, price",
    );
    check("data={name: houses.csv, value: price, label: a}", "and `label` exclude each other");
    check("data={name: digits, value: price}", "value is for tables");
    dir.write("wrong.csv", "a,price\n1,2\n2,cheap\n3,4\n");
    check("data={name: wrong.csv, value: price}", "wrong.csv:3: the value \"cheap\" is not a number");
    dir.write("texts.jsonl", "{\"text\": \"a\", \"price\": 1}\n".repeat(4));
    check("data={name: texts.jsonl, value: price}", "`value` is for tables of numbers, which are CSV here");
}

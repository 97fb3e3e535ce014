//! That the commands of `docs/coming-from.md` run as they are printed, and the recipes do what they say, on small data.

use std::fs;
use std::path::{Path, PathBuf};

use crate::bed::{self, Bed};
use crate::program::{Bonfire, Dir, Outcome, names};
use crate::readme::{commands, root};

/// What stands for the address of the first machine.
const ADDRESS: &str = "172.31.35.159";

/// A recipe of hours as one of a moment: other data, fewer rounds, smaller batches. All other keys stay.
fn shortened(text: &str) -> String {
    let data = match text {
        text if text.contains("tagger") => "{name: grammar, train: 200, test: 50}",
        text if text.contains("sentiment:") => "{name: reviews, train: 200, test: 50}",
        _ => "{name: digits, train: 200, test: 50}",
    };
    let line = |line: &str| {
        let (key, _) = line.split_once(':').unwrap_or((line, ""));
        let value = match key.trim_start() {
            "data" => data,
            "epochs" => "1",
            "num_server_rounds" => "4",
            "batch_size" if !line.contains('[') => "8",
            "model" if line.contains("resnet18") => "{resnet18: {width: 4}}",
            _ => return format!("{line}\n"),
        };
        format!("{key}: {value}\n")
    };
    text.lines().map(line).collect()
}

/// All recipes, shortened, in a folder in which they can be started as from this repository.
fn recipes(dir: &Dir) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for folder in names(&root().join("recipes")) {
        for name in names(&root().join("recipes").join(&folder)) {
            let path = Path::new("recipes").join(&folder).join(&name);
            let text = fs::read_to_string(root().join(&path)).expect("a recipe");
            let is_run_file = name.ends_with(".yml");
            let text = if is_run_file { shortened(&text) } else { text };
            dir.write(&path.display().to_string(), text);
            files.extend(is_run_file.then_some(path));
        }
    }
    files
}

#[test]
fn every_recipe_runs() {
    let dir = Dir::new();
    let recipes = recipes(&dir);
    assert!(recipes.len() > 15, "{recipes:?}");
    for recipe in recipes {
        let text = fs::read_to_string(dir.path(&recipe.display().to_string())).expect("a recipe");
        let is_sweep = text.contains("\ngrid:") || text.contains("\nseeds:");
        let command = if is_sweep { "sweep --quiet" } else { "train --quiet" };
        dir.bonfire(command).arg(&recipe).succeed();
    }
}

/// A printed command in the folder, with this machine for the first one.
fn command(dir: &Dir, words: &[String]) -> Bonfire {
    let word = |word: &String| word.replace(ADDRESS, "127.0.0.1");
    words.iter().fold(dir.bonfire(""), |command, it| command.arg(word(it)))
}

/// Where a command is for hosts that are not there, it must get as far as to ask them.
#[track_caller]
fn check_hosts(outcome: Outcome, words: &[String]) {
    let text = format!("{}{}", outcome.stdout, outcome.stderr);
    assert!(matches!(outcome.code, Some(1 | 2)), "{words:?}:\n{text}");
    let is_named = ["pi01.local", "pi1", "192.168.2.101", "deeplearning-master", "172.31.16.226"]
        .iter()
        .any(|host| text.contains(host));
    assert!(is_named, "a host in what {words:?} said:\n{text}");
}

#[test]
fn every_printed_command_runs() {
    let text = fs::read_to_string(root().join("docs/coming-from.md")).expect("the page");
    let commands = commands(&text);
    assert!(commands.len() > 25, "{commands:?}");
    let dir = Dir::new();
    recipes(&dir);
    let mut together: Vec<(Vec<String>, Bonfire)> = Vec::new();
    let is_rank = |words: &[String]| words.iter().any(|word| word == "--master");
    for (i, words) in commands.iter().enumerate() {
        if is_rank(words) {
            together.push((words.clone(), command(&dir, words)));
            // The ranks of one run are printed one after the other.
            let node = |words: &[String]| {
                let place = words.iter().position(|word| word == "-nr");
                place.map(|place| words[place + 1].clone())
            };
            let is_last =
                commands.get(i + 1).is_none_or(|next| !is_rank(next) || node(next).as_deref() == Some("0"));
            if is_last {
                let started: Vec<_> = together.drain(..).map(|(_, command)| command.start()).collect();
                started.into_iter().for_each(|rank| drop(rank.wait().expect(0)));
            }
        } else if words.iter().any(|word| word == "-i") {
            check_hosts(command(&dir, words).args("--timeout 2").run(), words);
        } else if words[0] == "data" {
            // Nothing is downloaded by a test.
            command(&dir, words).arg("--help").succeed();
        } else {
            command(&dir, words).succeed();
        }
    }
}

/// The lists of hosts that the recipes have, with hosts of a lab under the names that are printed.
fn lists_of(bed: &Bed) {
    for folder in names(&root().join("recipes")) {
        for name in names(&root().join("recipes").join(&folder)).iter().filter(|name| !name.contains('.')) {
            let path = format!("recipes/{folder}/{name}");
            let text = fs::read_to_string(root().join(&path)).expect("a list of hosts");
            let hosts = text.lines().filter(|line| !line.starts_with('['));
            let first_words = hosts.filter_map(|line| line.split_whitespace().next());
            let line = |(i, host): (usize, &str)| bed.line(i + 1).replacen(&format!("pi{}", i + 1), host, 1);
            let lines: String = first_words.enumerate().map(line).collect();
            bed.lab.dir.write(&path, format!("[pool]\n{lines}"));
        }
    }
}

/// A home, a user and a network are those of a lab; all else is as printed.
#[test]
fn commands_for_hosts_run_in_a_lab() {
    if !bed::is_wanted("commands_for_hosts_run_in_a_lab") {
        return;
    }
    let text = fs::read_to_string(root().join("docs/coming-from.md")).expect("the page");
    let bed = Bed::of('r', 12);
    recipes(&bed.lab.dir);
    lists_of(&bed);
    let mut runs = 0;
    for words in commands(&text).iter().filter(|words| words.iter().any(|word| word == "-i")) {
        let said = words.iter().fold(bed.here(""), |command, word| command.arg(word)).succeed();
        runs += usize::from(words[0] == "run");
        let said = format!("{}{}", said.stdout, said.stderr);
        assert!(
            words[0] == "run" || said.contains("pi7") || said.contains("192.168.2.107"),
            "{words:?}: {said}"
        );
        assert_eq!(names(&bed.lab.dir.path("runs")).len(), runs, "a run folder of each run: {words:?}");
    }
    assert!(runs > 7, "{runs} runs");
    // What `setup` has left is meant to stay.
    bed.is_quiet();
    bed.take_down();
}

#[test]
fn a_file_of_the_device_pool_says_what_it_trains_on() {
    let dir = Dir::new();
    recipes(&dir);
    let said = dir.bonfire("train recipes/device-pool/config.yml").succeed().stderr;
    assert!(said.contains("note: the run file names no data"), "{said}");
    let is_here = Path::new("/usr/share/datasets/fashion-mnist").exists();
    assert_eq!(said.contains("to get it: bonfire data get fashion-mnist"), !is_here, "{said}");
    assert_eq!(said.contains("data      fashion-mnist"), is_here, "{said}");
}

#[test]
fn twelve_hosts_have_room_for_twelve_workers() {
    let dir = Dir::new();
    recipes(&dir);
    let thirteen =
        "run -i recipes/pos-tagging/hostfile recipes/pos-tagging/ddp.yml --set allreduce.num_workers=13";
    dir.bonfire(thirteen).run().refuse("the inventory has 12");
}

#[test]
fn several_processes_of_a_node_are_several_workers() {
    let dir = Dir::new();
    recipes(&dir);
    let saved = "checkpoint_every=1 epoch";
    dir.bonfire("train recipes/course/nodes.yml --quiet --out two -n 1 -np 2 -nr 0").set(saved).succeed();
    dir.bonfire("train recipes/course/nodes.yml --quiet --out threads --workers 2").set(saved).succeed();
    let [two, threads] = ["two", "threads"].map(|name| crate::record::Record::of(dir.path(name)));
    assert!(two.parameters() == threads.parameters());
    dir.bonfire("train -n 3 -np 1 -nr 0")
        .run()
        .refuse("give all of them --master ADDRESS, or set MASTER_ADDR");
}

#[test]
fn machines_of_a_cloud_are_hosts() {
    let dir = Dir::new();
    let aws = r#"{"Reservations": [{"Instances": [{"InstanceId": "i-1", "State": {"Name": "running"}}]}]}"#;
    dir.write("instances.json", aws);
    dir.bonfire("run -i instances.json").run().refuse("i-1, which runs, has no address");
    dir.bonfire("check -i instances.json").run().refuse("i-1, which runs, has no address");
    dir.bonfire("check -i -").run().refuse("stdin has no hosts");
    assert_eq!(dir.entries(), ["instances.json"], "nothing was started");
    dir.write("instances.json", aws.replace(r#""State""#, r#""PublicIpAddress": "127.0.0.254", "State""#));
    let said = dir.bonfire("check -i instances.json --timeout 2 --user nobody-there").run().expect(1);
    assert!(said.stdout.contains("i-1"), "{said:?}");
}

//! Raw reviews become training data: the same bytes as by the plain rules, whatever happens on the way.

use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use serde_json::Value;

use crate::program::{Dir, names};
use crate::record::Record;

/// Rows that are hard to read, and rows that nobody can.
const HARD: &[&str] = &[
    r#"{"reviewText": "Caf\u00e9 na\u00efve \u0027quoted\u0027 don\u0027t 100%", "overall": 4.0}"#,
    r#"{"reviewText": "one\ntwo\tthree \"four\" \\ five\/six", "overall": 3}"#,
    r#"{"reviewText": "half a pair \ud83d and a whole one \ud83d\ude00", "overall": "2"}"#,
    r#"{"text": "by Yelp's keys: «très» bien", "stars": 5, "useful": {"a": [1, {"text": "no"}]}}"#,
    r#"{"reviewText": "both", "text": "keys", "overall": 1, "stars": 5}"#,
    r#"{"reviewText": "twice", "reviewText": "the last one counts", "overall": 1, "overall": 2}"#,
    r#"{"reviewText": "same text", "overall": 5}"#,
    r#"{"reviewText": "Same, TEXT!", "overall": 1}"#,
    r#"{"reviewText": "same text", "overall": 5}"#,
    r#"{"reviewText": "tie text", "overall": 4}"#,
    r#"{"reviewText": "tie text", "overall": 2}"#,
    r#"{"reviewText": "", "overall": 5}"#,
    r#"{"reviewText": null, "overall": 5}"#,
    r#"{"reviewText": "the and of", "overall": 5}"#,
    r#"{"overall": 5}"#,
    r#"{"reviewText": "no rating"}"#,
    r#"{"reviewText": "wrong rating", "overall": 4.5}"#,
    r#"{"reviewText": "wrong rating", "overall": 0}"#,
    r#"{"reviewText": "wrong rating", "overall": true}"#,
    r#"{"reviewText": 5, "overall": 5}"#,
    r#"{"reviewText": "written by Python", "overall": 5, "price": NaN, "rank": -Infinity}"#,
    r#"{"reviewText": "an escaped rating", "overall": "\u0034\n"}"#,
    r#"{"reviewText": "no rating at all", "overall": NaN}"#,
    r#"{"\u0074ext": "\u0057ith \u0000\u001f\u007f\uffff escapes \ude00\ud83d", "star\u0073": 50e-1}"#,
    "{\"reviewText\": \"\u{212a}elvin \u{17f}harp İstanbul ﬁne\u{2028}line co\u{ad}op\", \"overall\": \" 3. \"}",
    "{\"reviewText\": \"a raw\ttab\", \"overall\": 5}",
    r#" { "reviewText" : "spaces" , "overall" : 5 }  "#,
    r#"{"reviewText": "", "reviewText": "the last of three", "text": "no", "overall": 3}"#,
    r#"{"reviewText": "twice one line", "overall": 5}{"reviewText": "x", "overall": 5}"#,
    r#"{"reviewText": "incomprehensibilities anticonstitutionnellement'", "overall": 5}"#,
    r#"{"reviewText": "broken", "overall": 5"#,
    "",
    "   ",
    "not json",
    "[1, 2]",
];

/// A file of made reviews with hard rows among them.
pub(crate) fn raw(dir: &Dir, name: &str, count: usize) {
    dir.bonfire(&format!("data make reviews -o made-{name} --test 1 --train"))
        .arg(count.to_string())
        .succeed();
    let made = fs::read_to_string(dir.path(&format!("made-{name}/train.jsonl"))).expect("reviews");
    let mut text = String::new();
    for (i, line) in made.lines().enumerate() {
        text += line;
        text += "\n";
        if i.is_multiple_of(7) {
            text += HARD[i / 7 % HARD.len()];
            text += "\n";
        }
    }
    text += &format!("{{\"reviewText\": \"{}\", \"overall\": 5}}\n", "a very long text ".repeat(500));
    dir.write(name, text);
}

/// The rows and the vocabulary of a result.
pub(crate) fn content(folder: &Path) -> Vec<(String, Vec<u8>)> {
    let files = names(folder).into_iter().filter(|name| name != "prepare.json");
    files.map(|name| (name.clone(), fs::read(folder.join(name)).expect("a file"))).collect()
}

fn report(folder: &Path) -> Value {
    serde_json::from_slice(&fs::read(folder.join("prepare.json")).expect("a report")).expect("JSON")
}

fn python() -> Option<&'static str> {
    let is_there =
        Command::new("python3").arg("--version").output().is_ok_and(|output| output.status.success());
    if !is_there {
        eprintln!("SKIPPED: there is no python3, so nothing was compared with the plain rules");
    }
    is_there.then_some("python3")
}

/// What the plain rules make of a file, and what they count.
fn reference(dir: &Dir, python: &str, out: &str, options: &str, input: &str) -> Value {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/e2e/prepare_reference.py");
    let mut command = Command::new(python);
    command.arg(script).args(options.split_whitespace()).args([dir.path(out), dir.path(input)]);
    let output = command.output().expect("python3");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).expect("counts")
}

#[test]
fn the_output_is_that_of_the_plain_rules() {
    let Some(python) = python() else { return };
    let dir = Dir::new();
    raw(&dir, "reviews.json", 3000);
    dir.write("stop.txt", "good\nbad\n");
    let ways = [
        "",
        "--other space --stop-words none",
        "--words 100 --length 7 --classes 2 --vocabulary all",
        "--seed 7 --test 0.25 --validation 0.05",
        "--test 0 --validation 0 --words 3 --length 1",
    ];
    let stop = format!("--stop-words {}", dir.path("stop.txt").display());
    for (i, options) in ways.into_iter().chain([stop.as_str()]).enumerate() {
        let (ours, plain) = (format!("ours-{i}"), format!("plain-{i}"));
        let prepare = dir.bonfire("prepare reviews.json --format jsonl --threads 2 -o").arg(&ours);
        prepare.args(options).succeed();
        let counts = reference(&dir, python, &plain, options, "reviews.json");
        assert!(content(&dir.path(&ours)) == content(&dir.path(&plain)), "with {options:?}");
        let report = report(&dir.path(&ours));
        for key in ["read", "bad", "empty", "texts"] {
            assert_eq!(report[key], counts[key], "{key} with {options:?}");
        }
    }
}

/// Feeds a program and returns what it writes.
fn piped(program: &mut Command, input: &[u8]) -> Vec<u8> {
    program.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut child = program.spawn().expect("a program");
    let mut stdin = child.stdin.take().expect("a pipe");
    let input = input.to_vec();
    let feeder = std::thread::spawn(move || stdin.write_all(&input));
    let output = child.wait_with_output().expect("its output");
    feeder.join().expect("a thread").expect("all is read");
    assert!(output.status.success(), "{program:?}");
    output.stdout
}

#[test]
fn filters_around_sort_give_the_same_bytes() {
    let dir = Dir::new();
    raw(&dir, "reviews.json", 2000);
    // All filters take all of the rules.
    let rules =
        "--words 500 --other space --stop-words none --seed 7 --length 30 --classes 2 --vocabulary all";
    dir.bonfire("prepare reviews.json --format jsonl -o out").args(rules).succeed();
    let filter = |arguments: &str, input: &[u8]| {
        let mut program = Command::new(env!("CARGO_BIN_EXE_bonfire"));
        let arguments = arguments.split_whitespace().chain(rules.split_whitespace());
        piped(program.current_dir(dir.path("")).arg("prepare").args(arguments), input)
    };
    let sort = |input: &[u8]| piped(Command::new("sort").env("LC_ALL", "C"), input);
    let texts =
        filter("reduce", &sort(&filter("map", &fs::read(dir.path("reviews.json")).expect("reviews"))));
    let words = filter("count --sum", &sort(&filter("count", &texts)));
    let vocabulary = dir.write("vocabulary.txt", &words);
    let mut found = vec![("vocabulary.txt".to_owned(), words)];
    for part in ["test", "train", "validation"] {
        let arguments = format!("encode --part {part} --vocabulary-file {}", vocabulary.display());
        found.push((format!("{part}.jsonl"), filter(&arguments, &texts)));
    }
    found.sort();
    assert!(found == content(&dir.path("out")));
    // What was reduced elsewhere can be the input here.
    dir.write("texts.tsv", &texts);
    dir.bonfire("prepare texts.tsv --format jsonl -o again").args(rules).succeed();
    assert!(content(&dir.path("again")) == content(&dir.path("out")));
}

/// So many reviews that there is time to do something to whoever prepares them, different in every copy.
fn many(dir: &Dir, name: &str) {
    raw(dir, "one.json", 3000);
    let one = fs::read_to_string(dir.path("one.json")).expect("reviews");
    let copies = (0..40u8).map(|i| {
        let letters = format!("{}{}", char::from(b'a' + i % 26), char::from(b'a' + i / 26));
        one.replace("reviewText\": \"", &format!("reviewText\": \"copy{letters} "))
    });
    dir.write(name, copies.collect::<String>());
}

#[test]
fn killed_and_started_again_it_goes_on() {
    let dir = Dir::new();
    many(&dir, "reviews.json");
    let command = "prepare reviews.json --format jsonl --memory 64MB --threads 1 -o";
    dir.bonfire(command).arg("whole").succeed();
    let mut goings_on = 0;
    for wait in [30, 80, 150, 250, 400] {
        let running = dir.bonfire(command).arg("out").start();
        running.kill_after(Duration::from_millis(wait));
        if dir.path("out").exists() {
            break;
        }
        goings_on += 1;
    }
    if !dir.path("out").exists() {
        let outcome = dir.bonfire(command).arg("out").succeed();
        eprintln!("killed {goings_on} times; then: {}", outcome.stderr);
    }
    assert!(content(&dir.path("out")) == content(&dir.path("whole")));
    assert_eq!(dir.entries().iter().filter(|name| name.contains("partial")).count(), 0);
}

#[test]
fn input_that_disappears_is_said_and_gone_on_with_when_it_is_back() {
    let dir = Dir::new();
    many(&dir, "a.json");
    raw(&dir, "b.json", 500);
    let command = "prepare a.json b.json --format jsonl --threads 1 -o";
    dir.bonfire(command).arg("whole").succeed();
    let mut running = dir.bonfire(command).arg("out").start();
    // By then all files have been looked at, and the first is being read.
    running.until("a plan", || dir.path("out.partial/plan.json").is_file());
    fs::rename(dir.path("b.json"), dir.path("away")).expect("renamed");
    running.wait().refuse("b.json: No such file");
    assert!(!dir.path("out").exists());
    fs::rename(dir.path("away"), dir.path("b.json")).expect("renamed");
    dir.bonfire(command).arg("out").succeed();
    assert!(content(&dir.path("out")) == content(&dir.path("whole")));
    assert!(!dir.path("out.partial").exists());
}

#[test]
fn a_full_disk_is_said_and_leaves_nothing_that_looks_whole() {
    let may = Command::new("unshare").args(["-m", "true"]).status().is_ok_and(|status| status.success());
    if !may {
        eprintln!("SKIPPED: a disk of its own takes root");
        return;
    }
    let dir = Dir::new();
    raw(&dir, "reviews.json", 5000);
    fs::create_dir(dir.path("disk")).expect("a folder");
    let mount = "mount -t tmpfs -o size=600k none disk && { \"$@\"; code=$?; ls disk > listed; exit $code; }";
    let prepare = dir.bonfire("prepare reviews.json -o disk/out").under(&["unshare", "-m"], mount);
    prepare.run().refuse("No space left on device");
    let listed = fs::read_to_string(dir.path("listed")).expect("a list");
    assert!(listed.lines().all(|name| name.starts_with("out.partial")), "{listed}");
    // With room again, it goes on from what was done.
    dir.bonfire("prepare reviews.json -o whole").succeed();
    let mount = "mount -t tmpfs -o size=900k none disk && { \"$@\" 2> first; mount -o remount,size=90m disk; \"$@\"; \
                 code=$?; cp -r disk/out kept; exit $code; }";
    let prepare = dir.bonfire("prepare reviews.json -o disk/out").under(&["unshare", "-m"], mount);
    let outcome = prepare.succeed();
    let first = fs::read_to_string(dir.path("first")).expect("what was said");
    assert!(first.contains("No space left on device"), "{first}");
    assert!(outcome.stderr.contains("going on from what was done before"), "{}", outcome.stderr);
    assert!(content(&dir.path("kept")) == content(&dir.path("whole")));
}

#[test]
fn what_is_wrong_is_said() {
    let dir = Dir::new();
    dir.write("good.json", "{\"text\": \"good\", \"stars\": 5}\n");
    dir.write("bad.json", "{\"text\": \"good\", \"stars\": 5}\nbad\n");
    dir.write("other.json", "{\"review\": \"good\", \"score\": 5}\n");
    let check = |arguments: &str, expect: &str| {
        dir.bonfire("prepare").args(arguments).run().refuse(expect);
        assert!(!dir.path("out").exists(), "{arguments}");
    };
    check("nowhere.json -o out", "nowhere.json: No such file");
    check("bad.json -o out --strict", "bad.json:2: expected a JSON object");
    check("other.json -o out", "of 1 rows none is a review with words");
    check("good.json -o out --test 0.9", "leaves nothing to train on");
    check("good.json -o out --words 0", "words is 0");
    check("good.json -o out --classes 3", "classes is 3, expected 2");
    check("good.json -o out --memory 1MB", "memory is less than 64 MB");
    check("good.json -o out --threads 0", "--threads is 0");
    check("good.json -o out --stop-words german", "english, none, or a file");
    check("good.json -o good.json", "good.json: is not empty");
    let outcome = dir.bonfire("prepare bad.json other.json good.json --label stars -o out").succeed();
    assert!(outcome.stderr.contains("warning: bad.json:2: expected a JSON object"), "{}", outcome.stderr);
    assert!(outcome.stdout.contains("4 rows: 2 bad, 0 without words, 1 duplicates"), "{}", outcome.stdout);
    check_filters(&dir);
}

fn check_filters(dir: &Dir) {
    dir.bonfire("prepare encode --vocabulary-file nowhere").run().refuse("nowhere: No such file");
    dir.bonfire("prepare map --strict").succeed();
}

/// What the reader of the command line refuses, in several lines.
#[test]
fn wrong_arguments_are_said() {
    let dir = Dir::new();
    let check = |arguments: &str, expect: &str| {
        let outcome = dir.bonfire("prepare").args(arguments).run().expect(2);
        assert!(outcome.stderr.contains(expect), "{arguments}: {}", outcome.stderr);
    };
    check("good.json", "--out");
    check("-o out", "INPUT");
    check("good.json -o out --test many", "invalid value 'many' for '--test");
    check("good.json -o out --memory lots", "expected a size such as 512MB");
    check("good.json -o out --format parquet", "writes no Parquet");
    check("good.json -o out --other drop", "expected delete or space");
    check("good.json -o out --ratings 1-10", "expected 1-5 or 0-1");
    check("encode", "--vocabulary-file");
    check("encode --vocabulary-file v --part tset", "expected train, validation or test");
    check("map good.json", "unexpected argument");
}

#[test]
fn a_run_trains_on_what_was_prepared() {
    let dir = Dir::new();
    raw(&dir, "reviews.json", 3000);
    dir.bonfire("prepare reviews.json -o out").succeed();
    let settings = "model={sentiment: {hidden: 8, layers: 1}}\n epochs=3\n workers=2";
    dir.bonfire("train --quiet --out run --set data=out").set(settings).succeed();
    let run = Record::of(dir.path("run"));
    // Straight from the raw file: the same data, and so the same bytes.
    let raw = "data={prepare: reviews.json}";
    dir.bonfire("train --quiet --out raw").set(raw).set(settings).succeed();
    let raw_run = Record::of(dir.path("raw"));
    assert_eq!(run.floats(), raw_run.floats());
    let cache = dir.path(".cache/bonfire/prepared");
    let prepared = |names: Vec<String>| names.into_iter().filter(|name| name.len() == 32).count();
    assert_eq!(prepared(names(&cache)), 1, "{:?}", names(&cache));
    // From the cache now, by another name of the same file; other options are others.
    fs::rename(dir.path("reviews.json"), dir.path("renamed.json")).expect("renamed");
    let renamed = "data={prepare: [renamed.json], words: 10000}";
    dir.bonfire("train --quiet --out again").set(renamed).set(settings).succeed();
    assert_eq!(run.floats(), Record::of(dir.path("again")).floats());
    assert_eq!(prepared(names(&cache)), 1, "{:?}", names(&cache));
    let fewer = "data={prepare: renamed.json, words: 100, test: 0.2, stop_words: none}";
    dir.bonfire("train --quiet --out fewer").set(fewer).set(settings).succeed();
    assert_eq!(prepared(names(&cache)), 2, "{:?}", names(&cache));
    dir.bonfire("train --quiet --resume fewer --set epochs=4").succeed();
    let refuse = |data: &str, expect: &str| dir.bonfire("train").set(data).set(settings).run().refuse(expect);
    refuse("data={prepare: renamed.json, max_words: 5}", "with prepare it is `words`");
    refuse("data={prepare: nowhere.json}", "nowhere.json: No such file");
    refuse("data={name: digits, words: 5}", "`words` is an option of prepare");
    refuse("data={prepare: renamed.json, test: 3}", "test is 3, expected a share from 0 to 1");
    refuse("data={prepare: renamed.json, stop_words: german}", "english, none, or a file");
}

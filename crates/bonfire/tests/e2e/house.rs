//! What keeps the sources readable: short functions, short files, short lines, and names that mean one thing.

mod reader;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use reader::{Code, Place};

const MOST_FUNCTION_LINES: usize = 70;
const MOST_FILE_LINES: usize = 500;
const MOST_COLUMNS: usize = 120;

/// Names that a module may have for itself, because they are qualified where they are used: `server::Event`.
const QUALIFIED: &[&str] = &["Action", "Error", "Event", "Options", "Result"];

/// A source file: its path below the workspace, and its text.
type Source = (String, String);

/// All sources and tests of all crates.
fn sources() -> Vec<Source> {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let (mut found, mut folders) = (Vec::new(), Vec::new());
    for entry in entries(&crates) {
        folders.extend([entry.join("src"), entry.join("tests")]);
    }
    while let Some(folder) = folders.pop() {
        for path in entries(&folder) {
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let name = path.strip_prefix(&crates).expect("below the crates").display().to_string();
                found.push((format!("crates/{name}"), fs::read_to_string(&path).expect("a source")));
            }
        }
    }
    found.sort();
    found
}

/// What is in a folder; nothing if there is no such folder.
fn entries(folder: &Path) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(folder) else { return Vec::new() };
    entries.map(|entry| entry.expect("an entry").path()).collect()
}

fn long_functions(path: &str, text: &str) -> Vec<String> {
    let functions = Code::read(text).functions();
    let long = functions.into_iter().filter(|function| function.lines > MOST_FUNCTION_LINES);
    long.map(|Place { name, line, lines }| format!("{path}:{line}: fn {name} has {lines} lines")).collect()
}

fn long_file(path: &str, text: &str) -> Option<String> {
    let lines = text.lines().count();
    (lines > MOST_FILE_LINES).then(|| format!("{path} has {lines} lines"))
}

fn long_lines(path: &str, text: &str) -> Vec<String> {
    let columns = text.lines().map(|line| line.chars().count()).enumerate();
    let long = columns.filter(|(_, columns)| *columns > MOST_COLUMNS);
    long.map(|(i, columns)| format!("{path}:{}: {columns} columns", i + 1)).collect()
}

/// The names of more than one type, each with its places, and how many names there are in all.
fn shared_names(sources: &[Source]) -> (Vec<(String, Vec<String>)>, usize) {
    let mut names: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for (path, text) in sources.iter().filter(|(path, _)| is_production(path)) {
        for Place { name, line, .. } in Code::read(text).types() {
            names.entry(name).or_default().push(format!("{path}:{line}"));
        }
    }
    names.retain(|name, _| !QUALIFIED.contains(&name.as_str()));
    let all = names.len();
    (names.into_iter().filter(|(_, places)| places.len() > 1).collect(), all)
}

fn is_production(path: &str) -> bool {
    path.contains("/src/") && !path.ends_with("/tests.rs") && !path.contains("/tests/")
}

#[track_caller]
fn expect_none(what: &str, places: &[String]) {
    assert!(places.is_empty(), "{} {what}:\n{}", places.len(), places.join("\n"));
}

#[test]
fn functions_and_files_are_short() {
    let sources = sources();
    assert!(sources.iter().any(|(path, _)| path == "crates/bonfire/tests/e2e/house.rs"));
    let functions: Vec<String> = sources.iter().flat_map(|(path, text)| long_functions(path, text)).collect();
    expect_none(&format!("functions have more than {MOST_FUNCTION_LINES} lines"), &functions);
    let files: Vec<String> = sources.iter().filter_map(|(path, text)| long_file(path, text)).collect();
    expect_none(&format!("files have more than {MOST_FILE_LINES} lines"), &files);
}

#[test]
fn lines_are_short() {
    let long: Vec<String> = sources().iter().flat_map(|(path, text)| long_lines(path, text)).collect();
    expect_none(&format!("lines have more than {MOST_COLUMNS} columns"), &long);
}

/// Tells them; whether a name explains itself nobody but a reader can say.
#[test]
fn names_of_several_types_are_told() {
    let (shared, all) = shared_names(&sources());
    for (name, places) in &shared {
        eprintln!("{name}: {}", places.join(", "));
    }
    eprintln!("{} of {all} names of types mean several", shared.len());
    assert!(all > 100, "only {all} names were found");
}

#[test]
fn what_is_too_long_is_noticed() {
    let function = |lines: usize| format!("fn long() {{\n{}}}\n", "    1;\n".repeat(lines - 2));
    assert_eq!(long_functions("a.rs", &function(70)), [""; 0]);
    let both = format!("fn short() {{}}\n\n{}", function(71));
    assert_eq!(long_functions("a.rs", &both), ["a.rs:3: fn long has 71 lines"]);
    assert_eq!(long_file("a.rs", &"\n".repeat(500)), None);
    assert_eq!(long_file("a.rs", &"\n".repeat(501)), Some("a.rs has 501 lines".to_owned()));
    let text = format!("{}\n{}\n", "ä".repeat(120), "a".repeat(121));
    assert_eq!(long_lines("a.rs", &text), ["a.rs:2: 121 columns"]);
}

#[test]
fn a_name_of_two_types_is_noticed() {
    let source = |path: &str, text: &str| (path.to_owned(), text.to_owned());
    let (shared, all) = shared_names(&[
        source("crates/a/src/lib.rs", "struct Kind;\nenum Event {}\nstruct Alone { kind: Kind }"),
        source("crates/b/src/lib.rs", "pub(crate) enum Kind { One }\nenum Event {}"),
        source("crates/b/src/tests.rs", "struct Alone;"),
        source("crates/b/tests/all.rs", "struct Alone;"),
    ]);
    let places = vec!["crates/a/src/lib.rs:1".to_owned(), "crates/b/src/lib.rs:1".to_owned()];
    assert_eq!((shared, all), (vec![("Kind".to_owned(), places)], 2));
}

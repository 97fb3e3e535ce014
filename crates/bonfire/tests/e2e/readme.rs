//! That the README and the example say what is so.

use std::fs;
use std::path::{Path, PathBuf};

use crate::program::Dir;

pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The arguments of every command of ours in the console blocks of a text.
pub(crate) fn commands(text: &str) -> Vec<Vec<String>> {
    let mut commands = Vec::new();
    let mut in_console = false;
    for line in text.lines().map(str::trim) {
        if line.starts_with("```") {
            in_console = line == "```console";
        }
        let ours =
            ["$ cargo run --release -- ", "$ bonfire "].iter().find_map(|start| line.strip_prefix(start));
        if let (true, Some(arguments)) = (in_console, ours) {
            commands.push(words(arguments));
        }
    }
    commands
}

/// The words of a command line as a shell splits them, up to a comment or a pipe.
fn words(line: &str) -> Vec<String> {
    let (mut words, mut word, mut quote) = (Vec::new(), None::<String>, None);
    for letter in line.chars() {
        match (quote, letter) {
            (Some(open), _) if open == letter => quote = None,
            (None, '\'' | '"') => {
                quote = Some(letter);
                word.get_or_insert_default();
            }
            (None, '#' | '|' | '&' | '>') if word.is_none() => return words,
            (None, ' ') => words.extend(word.take()),
            _ => word.get_or_insert_default().push(letter),
        }
    }
    words.extend(word);
    words
}

#[test]
fn every_command_of_the_readme_is_understood() {
    let text = fs::read_to_string(root().join("README.md")).expect("README.md");
    let commands = commands(&text);
    assert!(commands.iter().any(|words| words == &["train"]), "the first command is missing: {commands:?}");
    let dir = Dir::new();
    for words in commands {
        // What comes before the question for help is read first, and must be right.
        let command = words.iter().fold(dir.bonfire(""), |command, word| command.arg(word));
        command.arg("--help").succeed();
    }
}

#[test]
fn the_test_of_the_readme_finds_wrong_commands() {
    let text = "$ bonfire outside\n```console\n$ cargo run --release -- train --set 'a b=c' # why\noutput\n\
                $ bonfire eval x\n```\n";
    let expect = [vec!["train", "--set", "a b=c"], vec!["eval", "x"]];
    assert_eq!(commands(text), expect);
    let dir = Dir::new();
    dir.bonfire("train --epochs 5 --help").run().expect(2);
    dir.bonfire("trian --help").run().expect(2);
}

#[test]
fn a_model_of_ones_own_is_short() {
    let example =
        fs::read_to_string(root().join("crates/bonfire/examples/own_model.rs")).expect("the example");
    assert!(example.lines().count() < 60, "{} lines", example.lines().count());
}

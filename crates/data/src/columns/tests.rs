use crate::{Dataset, Samples, Source};
use std::path::Path;

fn write(folder: &Path, name: &str, content: &str) -> String {
    std::fs::write(folder.join(name), content).unwrap();
    folder.join(name).to_str().unwrap().to_owned()
}

fn source(name: &str, text: Option<&str>, label: Option<&str>) -> Source {
    let (text, label) = (text.map(str::to_owned), label.map(str::to_owned));
    Source { text, label, min_frequency: 1, ..Source::new(name) }
}

/// The labels of both halves by name, sorted.
fn labels(data: &Dataset) -> Vec<String> {
    let mut all = Vec::new();
    for half in [&data.train, &data.test] {
        let Samples::Texts(texts) = &**half else { panic!("texts") };
        all.extend(texts.labels.iter().map(|&label| data.classes[usize::from(label)].clone()));
    }
    all.sort();
    all
}

#[test]
fn a_file_is_split() {
    let folder = tempfile::tempdir().unwrap();
    let rows: String =
        (0..20).map(|i| format!("{i},\"good, {i} \"\"times\"\"\",{}\n", ["no", "yes"][i % 2])).collect();
    let path = write(folder.path(), "a.csv", &format!("id,review,liked\n{rows}"));
    let data = source(&path, Some("review"), Some("liked")).load().unwrap();
    assert_eq!((data.train.len(), data.test.len()), (18, 2));
    assert_eq!(data.classes, ["no", "yes"]);
    assert_eq!(labels(&data).iter().filter(|label| *label == "no").count(), 10);

    let lines: String =
        (0..20).map(|i| format!("{{\"body\": \"word {i} x\", \"stars\": {}}}\n", 1 + i % 5)).collect();
    let path = write(folder.path(), "a.jsonl", &lines);
    let data = source(&path, Some("body"), Some("stars")).load().unwrap();
    assert_eq!((data.train.len(), data.classes.len()), (18, 5));
    assert_eq!(data.classes[0], "1 star");
}

#[test]
fn a_table_has_its_label_by_name() {
    let folder = tempfile::tempdir().unwrap();
    let rows: String = (0..20).map(|i| format!("{},{i},{}\n", ["a", "b"][i % 2], 2 * i)).collect();
    let path = write(folder.path(), "a.csv", &format!("kind,x,y\n{rows}"));
    let data = source(&path, None, Some("kind")).load().unwrap();
    assert_eq!((data.train.len(), data.test.len(), data.classes.len()), (18, 2, 2));
}

#[test]
fn folders_have_halves_and_perhaps_a_part_to_validate_on() {
    let folder = tempfile::tempdir().unwrap();
    let head = "text\tlabel\n";
    write(folder.path(), "train.tsv", &format!("{head}good\ta\nbad\tb\n"));
    write(folder.path(), "test.tsv", &format!("{head}good\ta\nbad\tb\n"));
    let name = folder.path().to_str().unwrap();
    let source = source(name, Some("text"), None);
    let data = source.load().unwrap();
    assert_eq!(data.train.len(), 2);
    assert_eq!(source.load_validation(&data).unwrap(), None);
    write(folder.path(), "validation.tsv", &format!("{head}good\tb\nbad bad\tb\nnew\ta\n"));
    assert_eq!(source.load_validation(&data).unwrap().expect("a part").len(), 3);
}

#[test]
fn wrong_files_are_refused_by_name_and_place() {
    let folder = tempfile::tempdir().unwrap();
    let check = |name: &str, content: &str, expect: &str| {
        let path = write(folder.path(), name, content);
        let error = source(&path, Some("review"), Some("stars")).load().unwrap_err().to_string();
        assert!(error.contains(expect), "{error:?} should say {expect:?}");
    };
    check(
        "a.csv",
        "text,stars\na,1\nb,2\n",
        "a.csv:1: has no column \"review\"; its columns are text, stars",
    );
    check("a.csv", "review,stars\na,1\nb\n", "a.csv:3: has 1 columns, the first line has 2");
    check("a.csv", "review,stars\na,1\n\"b,2\n", "a.csv:3: a cell lacks its closing quotation mark");
    check("a.csv", "review,stars\na,1\nb,\n", "a.csv:3: the label is missing");
    check("a.csv", "review,stars\n", "holds too few texts");
    check(
        "a.jsonl",
        "{\"review\": \"a\", \"stars\": 1}\n{\"stars\": 3}\n",
        "a.jsonl:2: has no key \"review\"",
    );
    check("a.jsonl", "{\"review\": 3, \"stars\": 1}\n", "a.jsonl:1: the text is 3, expected a string");
    check("a.jsonl", "not json\n", "a.jsonl:1: expected a JSON object");
    let path = write(folder.path(), "a.parquet", "PAR1");
    let error = source(&path, Some("a"), None).load().unwrap_err().to_string();
    let expect = if cfg!(feature = "parquet") { "a.parquet: " } else { "this program was built without" };
    assert!(error.contains(expect), "{error}");
}

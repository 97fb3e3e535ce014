use super::*;
use std::path::PathBuf;

/// Written by pyarrow: `text` (strings, one of them null), `stars` (64-bit floats), `tags` (lists), with dictionaries,
/// in two row groups; packed by snappy and by zstd.
fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures").join(name)
}

fn read(name: &str, wanted: &[&str]) -> String {
    let wanted: Vec<String> = wanted.iter().map(|&name| name.to_owned()).collect();
    let mut text = String::new();
    let mut rows = lines(&fixture(name), &wanted).expect("rows");
    rows.read_to_string(&mut text).expect("text");
    text
}

#[test]
fn rows_are_lines() {
    for name in ["snappy.parquet", "zstd.parquet"] {
        let all = read(name, &[]);
        let first = r#"{"text":"Good, \"very\" good\ncafé","stars":5.0,"tags":[]}"#;
        assert_eq!(all.lines().next(), Some(first), "{name}");
        assert_eq!(all.lines().count(), 40, "{name}");
        let two = read(name, &["stars", "text", "nothing"]);
        assert_eq!(two.lines().nth(1), Some(r#"{"text":null,"stars":1.0}"#), "{name}");
    }
    let Err(error) = lines(&fixture("zstd.parquet"), &["review".to_owned()]) else {
        panic!("a column is missing")
    };
    assert!(
        error.to_string().contains("has none of the columns review; it has text, stars, tags"),
        "{error}"
    );
}

#[test]
fn reviews_are_prepared_and_trained_on() {
    let rows = crate::Source {
        text: Some("text".to_owned()),
        label: Some("stars".to_owned()),
        ..crate::Source::new(fixture("named.parquet").to_str().unwrap())
    };
    rows.load().unwrap();
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("lines.json"), read("zstd.parquet", &[])).unwrap();
    let prepared = |input: PathBuf, out: &str| {
        let it = crate::prepare::Preparation {
            inputs: vec![input],
            out: folder.path().join(out),
            rules: crate::prepare::Rules::default(),
            format: crate::prepare::Format::Jsonl,
            threads: 2,
            memory: 100_000_000,
            is_strict: false,
        };
        let report = it.run(&crate::prepare::Meter::default(), |_| {}).unwrap();
        (report.read, report.empty, std::fs::read(it.out.join("train.jsonl")).unwrap())
    };
    let (here, there) =
        (prepared(fixture("zstd.parquet"), "a"), prepared(folder.path().join("lines.json"), "b"));
    assert_eq!((here.0, here.1), (40, 1));
    assert!(here == there);
}

#[test]
fn what_is_written_is_read() {
    let folder = tempfile::tempdir().unwrap();
    let (one, other, out) =
        (folder.path().join("1"), folder.path().join("2"), folder.path().join("out.parquet"));
    std::fs::write(&one, "{\"text\":\"good case\",\"stars\":5,\"ids\":[3,4,1]}\n").unwrap();
    std::fs::write(&other, "{\"text\":\"z\",\"stars\":1,\"ids\":[2,1,1]}\n".repeat(40_000)).unwrap();
    write(&[one.clone(), other], &out).unwrap();
    assert!(!one.exists());
    let mut text = String::new();
    lines(&out, &[]).unwrap().read_to_string(&mut text).unwrap();
    assert_eq!(text.lines().next(), Some(r#"{"text":"good case","stars":5,"ids":[]}"#));
    assert_eq!(text.lines().last(), Some(r#"{"text":"z","stars":1,"ids":[]}"#));
    assert_eq!(text.lines().count(), 40_001);
}

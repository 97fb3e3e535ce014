//! Whole preparations: what comes out for what goes in, however it is packed, cut and interrupted.

mod elsewhere;
mod results;

use super::*;
use crate::error::{Error, Result};
use bonfire_learn::random::Random;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

/// All texts of a preparation and their labels, in the order of the texts.
type Labelled = Vec<(String, u64)>;

fn preparation(inputs: &[&Path], out: &Path) -> Preparation {
    Preparation {
        inputs: inputs.iter().map(|path| path.to_path_buf()).collect(),
        out: out.to_owned(),
        rules: Rules::default(),
        format: Format::Jsonl,
        threads: 2,
        memory: 64_000_000,
        is_strict: false,
    }
}

fn run(preparation: &Preparation) -> Result<PrepareReport> {
    preparation.run(&Meter::default(), |_| {})
}

/// All files of a folder but for the report, whose times differ.
fn content(folder: &Path) -> Vec<(String, Vec<u8>)> {
    let mut files: Vec<(String, Vec<u8>)> = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.file_name().unwrap() != "prepare.json")
        .map(|path| (path.file_name().unwrap().to_string_lossy().into_owned(), fs::read(&path).unwrap()))
        .collect();
    files.sort();
    files
}

fn labelled(out: &Path) -> Labelled {
    let mut found = Vec::new();
    for part in Part::ALL {
        for line in fs::read_to_string(out.join(Format::Jsonl.file(part))).unwrap().lines() {
            let row: serde_json::Value = serde_json::from_str(line).unwrap();
            found.push((row["text"].as_str().unwrap().to_owned(), row["stars"].as_u64().unwrap()));
        }
    }
    found.sort();
    found
}

fn check_with(rules: &Rules, lines: &str, expect: &[(&str, u64)]) -> PrepareReport {
    let folder = tempfile::tempdir().unwrap();
    let (input, out) = (folder.path().join("reviews.json"), folder.path().join("out"));
    fs::write(&input, lines).unwrap();
    let report = run(&Preparation { rules: rules.clone(), ..preparation(&[&input], &out) }).unwrap();
    let expect: Labelled = expect.iter().map(|&(text, label)| (text.to_owned(), label)).collect();
    assert_eq!(labelled(&out), expect, "{lines}");
    report
}

/// Reviews with these texts and ratings.
fn reviews(rows: &[(&str, u8)]) -> String {
    let line = |(text, stars): &(&str, u8)| {
        format!("{}\n", serde_json::json!({"reviewText": text, "overall": f64::from(*stars)}))
    };
    rows.iter().map(line).collect()
}

#[test]
fn equal_texts_are_one_with_the_mode_of_their_ratings() {
    let check = |rows: &[(&str, u8)], expect: &[(&str, u64)]| {
        check_with(&Rules::default(), &reviews(rows), expect);
    };
    check(&[("Good", 5)], &[("good", 5)]);
    check(&[("Good", 5), ("good!", 5)], &[("good", 5)]);
    check(&[("good", 5), ("good", 5), ("GOOD", 2)], &[("good", 5)]);
    check(&[("good", 2), ("good", 5), ("good", 5)], &[("good", 5)]);
    check(&[("good", 5), ("good", 4)], &[("good", 4)]);
    check(&[("good", 1), ("good", 5)], &[("good", 1)]);
    check(&[("good", 3), ("good", 2), ("good", 3), ("good", 2)], &[("good", 2)]);
    check(&[("good", 5), ("good", 4), ("good", 3), ("good", 2), ("good", 1)], &[("good", 1)]);
    check(&[("good", 5), ("good", 5), ("good", 1), ("good", 1), ("good", 3)], &[("good", 1)]);
    // Equal after cleaning; nearly equal.
    check(&[("the good", 4), ("good, it is", 4), ("go od", 1)], &[("go od", 1), ("good", 4)]);
    check(
        &[("good a", 4), ("good case", 5), ("good cas", 3)],
        &[("good", 4), ("good cas", 3), ("good case", 5)],
    );
    check(&[("it's good", 4), ("its good", 5), ("i'ts good", 3)], &[("good", 4), ("i'ts good", 3)]);
}

#[test]
fn the_mode_comes_before_the_class() {
    let rules = Rules { classes: Some(2), ..Rules::default() };
    let check = |rows: &[(&str, u8)], expect: &[(&str, u64)]| {
        check_with(&rules, &reviews(rows), expect);
    };
    check(&[("a1 one", 1), ("two", 2), ("three", 3)], &[("one", 0), ("three", 0), ("two", 0)]);
    check(&[("four", 4), ("five", 5)], &[("five", 1), ("four", 1)]);
    // Of five ratings most are good, but the most frequent is not.
    check(&[("good", 4), ("good", 5), ("good", 3), ("good", 3)], &[("good", 0)]);
    check(&[("good", 4), ("good", 3)], &[("good", 0)]);
}

#[test]
fn rows_that_are_no_reviews_are_counted_and_named() {
    let lines = [
        r#"{"reviewText": "first", "overall": 5}"#,
        r#"{"reviewText": "broken"#,
        "",
        r#"{"reviewText": "no rating"}"#,
        r#"{"reviewText": null, "overall": 1}"#,
        r#"{"reviewText": "the", "overall": 1}"#,
        r#"{"overall": 2}"#,
        "[]",
        r#"{"reviewText": "last", "overall": "4"}"#,
    ];
    let report = check_with(&Rules::default(), &lines.join("\n"), &[("first", 5), ("last", 4)]);
    assert_eq!((report.read, report.bad, report.empty, report.duplicates, report.texts), (8, 3, 3, 0, 2));
    let named: Vec<(u64, &str)> =
        report.bad_lines.iter().map(|bad| (bad.line, bad.reason.as_str())).collect();
    assert_eq!(named[0], (2, "the line ends too early (column 23)"));
    assert_eq!(named[1].0, 4);
    assert_eq!(named[2], (8, "expected a JSON object (column 1)"));
}

#[test]
fn strict_ends_at_the_first_bad_line_of_the_first_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let good = reviews(&[("good", 5)]);
    fs::write(path("a.json"), good.repeat(300_000) + "bad\n" + &good.repeat(10)).unwrap();
    fs::write(path("b.json"), "worse\n").unwrap();
    let strict = Preparation { is_strict: true, ..preparation(&[folder.path()], &path("out")) };
    for threads in [1, 3] {
        let error = run(&Preparation { threads, ..strict.clone() }).unwrap_err().to_string();
        assert!(error.ends_with("a.json:300001: expected a JSON object (column 1)"), "{error}");
        assert!(!path("out").exists() && !path("out.partial").exists());
    }
    fs::write(path("a.json"), &good).unwrap();
    let error = run(&strict).unwrap_err().to_string();
    assert!(error.contains("b.json:1: "), "{error}");
    // What was begun without it, and ended early, does not slip through.
    let lenient = Preparation { is_strict: false, ..strict.clone() };
    let files = Preparation { inputs: vec![path("a.json"), path("b.json")], ..lenient.clone() };
    let (place, ..) = journal::Workplace::open(&path("out.partial"), &spec(&files)).unwrap();
    fs::create_dir(place.path("rows-0-0")).unwrap();
    drop(place);
    assert!(run(&lenient).unwrap_err().system().is_some());
    let error = run(&strict).unwrap_err().to_string();
    assert!(error.contains("b.json:1: "), "{error}");
    assert_eq!(run(&lenient).unwrap().bad, 1);
}

#[test]
fn nothing_to_learn_from_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let check = |content: &[u8], expect: &str| {
        fs::write(path("reviews.json"), content).unwrap();
        let error = run(&preparation(&[&path("reviews.json")], &path("out"))).unwrap_err().to_string();
        assert!(error.contains(expect), "{error:?} should say {expect:?}");
        assert!(!path("out").exists() && !path("out.partial").exists());
    };
    check(b"", "of 0 rows none is a review");
    check(b"{\"t\": \"good\", \"s\": 1}\n", "the first: ");
    check(b"{\"t\": \"good\", \"s\": 1}\n", "other names are given by --text and --label");
    check(b"{\"text\": \"good\", \"stars\": 0}\n", "labels of 0 and 1 by --ratings 0-1");
    let parquet =
        if cfg!(feature = "parquet") { "cannot be read: " } else { "build it with `--features parquet`" };
    check(b"PAR1....", parquet);
    check(b"\x1f\x8b\x08\x00broken", "cannot be read as gzip: ");
    fs::remove_file(path("reviews.json")).unwrap();
    let check = |inputs: &[&Path], expect: &str| {
        let error = run(&preparation(inputs, &path("out"))).unwrap_err().to_string();
        assert!(error.contains(expect), "{error:?} should say {expect:?}");
    };
    check(&[&path("reviews.json")], "reviews.json: No such file");
    check(&[folder.path()], "holds no file that ends in .json, .jsonl");
    fs::write(path("a.csv"), "id,stars\n1,5\n").unwrap();
    check(&[&path("a.csv")], "a.csv:1: has no column");
    check(&[&path("a.csv"), folder.path()], "is given twice");
}

#[test]
fn a_result_is_never_overwritten() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    fs::write(path("reviews.json"), reviews(&[("good", 5)])).unwrap();
    let it = preparation(&[&path("reviews.json")], &path("out"));
    fs::create_dir(path("out")).unwrap();
    run(&it).unwrap();
    let error = run(&it).unwrap_err().to_string();
    assert!(error.contains("out: is not empty"), "{error}");
    let few = Preparation { memory: 1_000_000, out: path("new"), ..it.clone() };
    assert!(run(&few).unwrap_err().to_string().contains("less than 64 MB"));
}

#[test]
fn results_may_lie_among_the_inputs() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    fs::create_dir(path("more")).unwrap();
    fs::write(path("a.json"), reviews(&[("good", 5), ("bad", 1)])).unwrap();
    fs::write(path("more/b.json"), reviews(&[("fine", 4)])).unwrap();
    for out in ["one", "more/two"] {
        let report = run(&preparation(&[folder.path()], &path(out))).unwrap();
        assert_eq!((report.files, report.read, report.bad), (2, 3, 0), "{out}");
        assert!(content(&path(out)) == content(&path("one")), "{out}");
    }
}

#[test]
fn words_are_numbered_by_count_and_texts_cut_and_filled() {
    let folder = tempfile::tempdir().unwrap();
    let (input, out) = (folder.path().join("reviews.json"), folder.path().join("out"));
    let texts = ["b a c", "b a", "b z y x", "w"];
    fs::write(&input, reviews(&texts.map(|text| (text, 5)))).unwrap();
    let rules = Rules {
        test: 0.0,
        validation: 0.0,
        words: 4,
        length: 3,
        stop_words: "none".into(),
        ..Rules::default()
    };
    let report = run(&Preparation { rules, ..preparation(&[&input], &out) }).unwrap();
    assert_eq!(fs::read_to_string(out.join("vocabulary.txt")).unwrap(), "b\na\nc\nw\n");
    assert_eq!((report.words, report.distinct_words, report.counted_words), (4, 7, 10));
    let expect = [
        r#"{"text":"b a","stars":5,"ids":[3,4,1]}"#,
        r#"{"text":"b a c","stars":5,"ids":[3,4,5]}"#,
        r#"{"text":"b z y x","stars":5,"ids":[3,2,2]}"#,
        r#"{"text":"w","stars":5,"ids":[6,1,1]}"#,
    ];
    assert_eq!(fs::read_to_string(out.join("train.jsonl")).unwrap(), expect.join("\n") + "\n");
    assert_eq!(fs::read_to_string(out.join("test.jsonl")).unwrap(), "");
}

#[test]
fn words_of_the_other_parts_count_only_if_asked() {
    let folder = tempfile::tempdir().unwrap();
    let input = folder.path().join("reviews.json");
    let rows: Vec<String> = (0..60).map(|i| format!("word{} common", "x".repeat(i))).collect();
    fs::write(&input, rows.iter().map(|row| reviews(&[(row, 5)])).collect::<String>()).unwrap();
    let words = |vocabulary| {
        let out = folder.path().join(format!("{vocabulary:?}"));
        let rules = Rules { vocabulary, test: 0.3, validation: 0.3, ..Rules::default() };
        let report = run(&Preparation { rules, ..preparation(&[&input], &out) }).unwrap();
        assert!(report.train > 5 && report.test > 5 && report.validation > 5, "{report:?}");
        (report.words, report.train)
    };
    assert_eq!(words(Counted::All).0, 61);
    let (count, train) = words(Counted::Train);
    assert_eq!(count, train + 1);
}

/// Reviews enough for several chunks, many of them equal.
fn many(count: usize) -> String {
    let mut random = Random::at(11, &[]);
    let mut lines = String::new();
    for _ in 0..count {
        let seed = random.below(count / 2) as u64;
        let made = &crate::reviews::make(1, seed)[0];
        let stars = 1 + random.below(5);
        lines += &format!("{}\n", serde_json::json!({"reviewText": made.text, "overall": stars}));
        if random.below(500) == 0 {
            lines += "{\"reviewText\": \n";
        }
    }
    lines
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

#[test]
fn threads_memory_packing_and_files_do_not_change_a_byte() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let lines = many(40_000);
    assert!(lines.len() > 4 * feed::CHUNK / 2, "{} bytes are several chunks", lines.len());
    fs::write(path("plain.json"), &lines).unwrap();
    fs::write(path("packed.json.gz"), gzip(lines.as_bytes())).unwrap();
    fs::write(path("packed.json.zst"), zstd::encode_all(lines.as_bytes(), 1).unwrap()).unwrap();
    fs::create_dir_all(path("parts/more")).unwrap();
    let rows: Vec<&str> = lines.split_inclusive('\n').collect();
    for (number, part) in rows.chunks(rows.len() / 5 + 1).enumerate() {
        let (name, bytes) = (format!("parts/{number}.jsonl"), part.concat().into_bytes());
        match number % 3 {
            0 => fs::write(path(&name), bytes).unwrap(),
            1 => fs::write(path(&format!("{name}.gz")), gzip(&bytes)).unwrap(),
            _ => fs::write(path(&format!("parts/more/{number}.zst.jsonl")), bytes).unwrap(),
        }
    }
    for format in [Format::Native, Format::Jsonl, Format::Hdf5] {
        let mut expect = None;
        let ways = [("plain.json", 1), ("plain.json", 2), ("plain.json", 5)];
        let others = [("packed.json.gz", 3), ("packed.json.zst", 2), ("parts", 4)];
        for (input, threads) in ways.into_iter().chain(others) {
            let out = path(&format!("out-{}-{input}-{threads}", format.name()));
            let it = Preparation { format, threads, ..preparation(&[&path(input)], &out) };
            let report = run(&it).unwrap();
            let counts =
                [report.read, report.bad, report.duplicates, report.train, report.test, report.words];
            let found = (counts, content(&out));
            let expect = expect.get_or_insert_with(|| found.clone());
            assert!(found == *expect, "{} {input} {threads}", format.name());
        }
    }
}

#[test]
fn ends_of_lines_marks_and_members_do_not_change_a_byte() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let lines = many(3000);
    let in_pieces =
        |pack: &dyn Fn(&[u8]) -> Vec<u8>| lines.as_bytes().chunks(99_999).flat_map(pack).collect::<Vec<u8>>();
    let zstd = |bytes: &[u8]| zstd::encode_all(bytes, 1).unwrap();
    let skipped = b"\x50\x2A\x4D\x18\x03\0\0\0abc";
    let inputs = [
        ("lines.json", lines.clone().into_bytes()),
        ("crlf.json", lines.replace('\n', "\r\n").into_bytes()),
        ("mark.json", format!("\u{feff}{lines}").into_bytes()),
        ("blank.json", lines.replace('\n', "\n \t\r\n\n").into_bytes()),
        ("unended.json", lines.trim_end().as_bytes().to_vec()),
        ("members.json.gz", in_pieces(&gzip)),
        ("padded.json.gz", [gzip(lines.as_bytes()), vec![0; 300_000]].concat()),
        ("mark.json.gz", gzip(format!("\u{feff}{lines}").as_bytes())),
        ("frames.json.zst", in_pieces(&zstd)),
        ("skipped.json.zst", [skipped, zstd(lines.as_bytes()).as_slice(), skipped].concat()),
    ];
    for (name, bytes) in inputs {
        let out = path(&format!("out-{name}"));
        fs::write(path(name), bytes).unwrap();
        run(&preparation(&[&path(name)], &out)).unwrap();
        assert!(content(&out) == content(&path("out-lines.json")), "{name}");
    }
}

/// A file that was not fetched to its end is no shorter file.
#[test]
fn packed_files_that_are_cut_or_go_on_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let lines = many(3000);
    let check = |name: &str, bytes: &[u8]| {
        fs::write(path(name), bytes).unwrap();
        let error = run(&preparation(&[&path(name)], &path("out"))).unwrap_err().to_string();
        assert!(
            error.contains(name) && error.contains("cannot be read as"),
            "{} bytes: {error}",
            bytes.len()
        );
        assert!(!path("out").exists() && !path("out.partial").exists());
    };
    let packed = [
        ("a.json.gz", gzip(lines.as_bytes())),
        ("a.json.zst", zstd::encode_all(lines.as_bytes(), 1).unwrap()),
    ];
    for (name, bytes) in packed {
        for left in [20, bytes.len() / 2, bytes.len() - 4, bytes.len() - 1] {
            check(name, &bytes[..left]);
        }
        check(name, &[bytes.as_slice(), b"and more"].concat());
    }
}

/// Every chunk becomes a run, and there are more of them than are merged at once.
#[test]
fn many_runs_are_joined() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    fs::create_dir(path("parts")).unwrap();
    let lines = many(4000);
    let rows: Vec<&str> = lines.split_inclusive('\n').collect();
    for (number, part) in rows.chunks(rows.len() / 300).enumerate() {
        fs::write(path(&format!("parts/{number}.json")), part.concat()).unwrap();
    }
    let whole = preparation(&[&path("parts")], &path("whole"));
    run(&whole).unwrap();
    // By hand, because no real amount of memory is so small.
    let mapper = Rules::default().mapper().unwrap();
    let inputs = input::list(&[path("parts")]).unwrap();
    let inputs: Vec<_> = inputs.iter().map(|path| input::Input::open(path, &mapper).unwrap()).collect();
    let files = inputs.iter().map(|input| input.file.clone()).collect();
    let spec = journal::PrepareSpec::new(Rules::default().fingerprint().unwrap(), "jsonl", files);
    let (place, done, _) = journal::Workplace::open(&path("joined.partial"), &spec).unwrap();
    let meter = Meter::default();
    let mapping = mapping::Mapping {
        inputs: &inputs,
        mapper: &mapper,
        threads: 1,
        memory: 0,
        is_strict: false,
        meter: &meter,
    };
    let books = mapping.run(mapping::Books { place, done }).unwrap();
    assert!(books.done.runs.len() > 250, "{}", books.done.runs.len());
    drop(books);
    let joined = Preparation { out: path("joined"), ..whole };
    let mut beginning = None;
    joined.run(&meter, |begun| beginning = Some(begun)).unwrap();
    assert_eq!(beginning, Some(Beginning::GoesOn));
    assert!(content(&path("joined")) == content(&path("whole")));
    assert!(!path("joined.partial").exists() && !path("joined.partial.lock").exists());
}

#[test]
fn what_ended_early_goes_on() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let (one, other) = (many(30_000), many(7000));
    fs::write(path("a.json"), &one).unwrap();
    fs::write(path("b.json.gz"), gzip(other.as_bytes())).unwrap();
    let inputs = [path("a.json"), path("b.json.gz")];
    let inputs: Vec<&Path> = inputs.iter().map(PathBuf::as_path).collect();
    run(&preparation(&inputs, &path("whole"))).unwrap();
    // The disk takes so much and no more: something that is in the way where the last stage writes.
    let it = preparation(&inputs, &path("out"));
    fs::create_dir_all(path("out.partial/rows-0-0")).unwrap();
    let error = run(&it).unwrap_err();
    assert!(error.to_string().contains("is in the way"), "{error}");
    fs::remove_dir_all(path("out.partial")).unwrap();
    for stage in ["run-0.new", "rows-0-0", "words-0-0", "out"] {
        let (place, ..) = journal::Workplace::open(&path("out.partial"), &spec(&it)).unwrap();
        // Where a folder will be, a file is in the way.
        if stage == "out" {
            fs::write(place.path(stage), "").unwrap();
        } else {
            fs::create_dir_all(place.path(stage)).unwrap();
        }
        drop(place);
        let error = run(&it).unwrap_err();
        assert!(error.system().is_some(), "{stage}: {error}");
        assert!(!path("out").exists(), "{stage}");
        let _ = fs::remove_dir(path("out.partial").join(stage));
        let _ = fs::remove_file(path("out.partial").join(stage));
    }
    let mut beginning = None;
    it.run(&Meter::default(), |begun| beginning = Some(begun)).unwrap();
    assert_eq!(beginning, Some(Beginning::GoesOn));
    assert!(content(&path("out")) == content(&path("whole")));
}

fn spec(it: &Preparation) -> journal::PrepareSpec {
    let files = it.inputs.iter().map(|path| input::InputFile::look(path).unwrap()).collect();
    journal::PrepareSpec::new(it.rules.fingerprint().unwrap(), it.format.name(), files)
}

#[test]
fn tables_give_what_lines_give() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let made = crate::reviews::make(3000, 5);
    let (mut lines, mut table, mut tabs) = (String::new(), "\u{feff}stars,text\n".to_owned(), String::new());
    for review in &made {
        let text = format!("{}\n\"{}\", he said", review.text, review.category);
        lines += &format!("{}\n", serde_json::json!({"text": text, "stars": review.stars}));
        table += &format!("{},\"{}\"\r\n", review.stars, text.replace('"', "\"\""));
        tabs += &format!("{}\t{}\n", text.replace('\n', ""), review.stars);
    }
    fs::write(path("lines.json"), lines).unwrap();
    fs::write(path("table.csv"), &table).unwrap();
    fs::write(path("table.csv.gz"), gzip(table.as_bytes())).unwrap();
    fs::write(path("tabs.tsv"), tabs).unwrap();
    fs::create_dir(path("with-empty")).unwrap();
    fs::write(path("with-empty/table.csv"), &table).unwrap();
    fs::write(path("with-empty/empty.csv"), "").unwrap();
    fs::write(path("with-empty/empty.tsv.gz"), gzip(b"")).unwrap();
    fs::write(path("with-empty/empty.json"), "").unwrap();
    let out = |name: &str| path(&format!("out-{name}"));
    for name in ["lines.json", "table.csv", "table.csv.gz", "tabs.tsv", "with-empty"] {
        run(&preparation(&[&path(name)], &out(name))).unwrap();
        assert!(content(&out(name)) == content(&out("lines.json")), "{name}");
    }
}

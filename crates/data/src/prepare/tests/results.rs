//! What others make of a preparation: filters, and runs that read it.

use super::{many, preparation, run};
use crate::error::Result;
use crate::prepare::{Format, Part, Preparation, Rules, filter};
use crate::{Samples, Source};
use std::fs;
use std::path::Path;

#[test]
fn filters_give_the_same_bytes() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let lines = many(5000);
    fs::write(path("reviews.json"), &lines).unwrap();
    run(&preparation(&[&path("reviews.json")], &path("out"))).unwrap();
    let rules = Rules::default();
    let sorted = |bytes: &[u8]| {
        let mut lines: Vec<&[u8]> = bytes.split_inclusive(|&byte| byte == b'\n').collect();
        lines.sort_unstable();
        lines.concat()
    };
    let (mut mapped, mut texts, mut counts, mut words) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    // As two mappers would.
    let half = lines.len() / 2 + lines[lines.len() / 2..].find('\n').unwrap() + 1;
    for half in [&lines[..half], &lines[half..]] {
        filter::map(&rules, false, half.as_bytes(), &mut mapped).unwrap();
    }
    filter::reduce(&rules, sorted(&mapped).as_slice(), &mut texts).unwrap();
    filter::count(&rules, texts.as_slice(), &mut counts).unwrap();
    filter::count(&rules, &b""[..], &mut counts).unwrap();
    filter::sum(&rules, sorted(&counts).as_slice(), &mut words).unwrap();
    assert_eq!(words, fs::read(path("out/vocabulary.txt")).unwrap());
    // As Hadoop writes it.
    let vocabulary = path("vocabulary.txt");
    fs::write(&vocabulary, String::from_utf8(words).unwrap().replace('\n', "\t\n")).unwrap();
    let mut all = Vec::new();
    filter::encode(&rules, &vocabulary, None, texts.as_slice(), &mut all).unwrap();
    for part in Part::ALL {
        let mut encoded = Vec::new();
        filter::encode(&rules, &vocabulary, Some(part), texts.as_slice(), &mut encoded).unwrap();
        let expect = fs::read(path("out").join(Format::Jsonl.file(part))).unwrap();
        assert!(encoded == expect && !encoded.is_empty(), "{}", part.name());
        let key = format!("{}\t", part.name());
        let all = String::from_utf8(all.clone()).unwrap();
        let keyed: String =
            all.lines().filter_map(|line| line.strip_prefix(&key)).map(|line| format!("{line}\n")).collect();
        assert_eq!(keyed.into_bytes(), expect);
    }
}

#[test]
fn filters_refuse_lines_that_are_not_theirs() {
    let rules = Rules::default();
    let check = |result: Result<()>, expect: &str| {
        let error = result.unwrap_err().to_string();
        assert!(error.contains(expect), "{error:?} should say {expect:?}");
    };
    let mut out = Vec::new();
    check(filter::reduce(&rules, &b"b\t5\na\t5\n"[..], &mut out), "stdin:2: is smaller than the line before");
    check(filter::reduce(&rules, &b"b\n"[..], &mut out), "stdin:1: expected a text, a tab and a rating");
    check(filter::reduce(&rules, &b"b\t7\n"[..], &mut out), "the rating is \"7\"");
    check(filter::sum(&rules, &b"b\tmany\n"[..], &mut out), "expected a word, a tab and a count");
    check(filter::sum(&rules, &b"b\t1\na\t1\n"[..], &mut out), "LC_ALL=C sort");
    check(filter::map(&rules, true, &b"\nbad\n"[..], &mut out).map(drop), "stdin:2: expected a JSON object");
    let counts = filter::map(&rules, false, &b"bad\n{\"text\": \"\", \"stars\": 5}\n"[..], &mut out).unwrap();
    assert_eq!((counts.read, counts.bad, counts.empty), (2, 1, 1));
    check(filter::encode(&rules, Path::new("nowhere"), None, &b""[..], &mut out), "nowhere");
}

#[test]
fn what_is_written_natively_is_what_a_run_reads() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    fs::write(path("reviews.json"), many(3000)).unwrap();
    let rules = Rules { words: 50, length: 20, ..Rules::default() };
    let lines = Preparation { rules, ..preparation(&[&path("reviews.json")], &path("lines")) };
    let native = Preparation { format: Format::Native, out: path("native"), ..lines.clone() };
    let (_, report) = (run(&lines).unwrap(), run(&native).unwrap());
    let dataset = Source::new(path("native").to_str().unwrap()).load().unwrap();
    for (half, part) in [(&dataset.train, Part::Train), (&dataset.test, Part::Test)] {
        let Samples::Texts(texts) = &**half else { panic!("not texts") };
        let lines = fs::read_to_string(path("lines").join(Format::Jsonl.file(part))).unwrap();
        assert_eq!(texts.labels.len(), lines.lines().count());
        for (i, line) in lines.lines().enumerate() {
            let row: serde_json::Value = serde_json::from_str(line).unwrap();
            let ids: Vec<u64> =
                row["ids"].as_array().unwrap().iter().map(|id| id.as_u64().unwrap()).collect();
            let mut words = Vec::new();
            let range = texts.starts[i] as usize..texts.starts[i + 1] as usize;
            texts.words.each(range, |word| words.push(u64::from(word) + 1));
            words.resize(20, 1);
            assert_eq!((words, u64::from(texts.labels[i]) + 1), (ids, row["stars"].as_u64().unwrap()));
        }
    }
    assert_eq!(dataset.train.len() as u64, report.train);
    let source = Source::new(path("native").to_str().unwrap());
    let validation = source.load_validation(&dataset).unwrap().expect("a part to validate on");
    assert_eq!(validation.len() as u64, report.validation);
    // What a model is asked about is cleaned by the same rules.
    let first = fs::read_to_string(path("lines/train.jsonl")).unwrap().lines().next().unwrap().to_owned();
    let first: serde_json::Value = serde_json::from_str(&first).unwrap();
    let asked = format!("The {}!", first["text"].as_str().unwrap().to_uppercase());
    let Samples::Texts(asked) = dataset.texts(&source, &[asked]).unwrap() else { panic!("not texts") };
    let Samples::Texts(known) = &*dataset.train else { panic!("not texts") };
    assert_eq!(asked.words.to_vec(), known.words.to_vec()[..known.starts[1] as usize]);
    let vocabulary = dataset.vocabulary.unwrap();
    assert_eq!(vocabulary.len() as u64, report.words + 2);
    let some = Source { train: Some(7), max_words: 10, ..Source::new(path("native").to_str().unwrap()) };
    let some = some.load().unwrap();
    assert_eq!((some.train.len(), some.vocabulary.unwrap().len()), (7, 12));
}

#[test]
fn damaged_results_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    fs::write(path("reviews.json"), many(2000)).unwrap();
    run(&Preparation { format: Format::Native, ..preparation(&[&path("reviews.json")], &path("out")) })
        .unwrap();
    let source = Source::new(path("out").to_str().unwrap());
    let sound = fs::read(path("out/train.texts")).unwrap();
    let check = |bytes: &[u8], expect: &str| {
        fs::write(path("out/train.texts"), bytes).unwrap();
        let error = source.load().unwrap_err().to_string();
        assert!(error.contains(expect), "{error:?} should say {expect:?}");
    };
    let with = |place: usize, byte: u8| {
        let mut bytes = sound.clone();
        bytes[place] = byte;
        bytes
    };
    check(&sound[..sound.len() - 1], "bytes, but");
    check(&sound[..10], "has no head");
    check(&with(0, b'x'), "does not begin as prepared texts do");
    check(&with(8, 9), "is of version 9");
    check(&with(23, 1), "holds more than 2^32");
    check(&with(66, 1), "more words than");
    let rows = u64::from_le_bytes(sound[16..24].try_into().unwrap()) as usize;
    check(&with(64 + 4 * rows, 6), "has the label 6");
    // A number that no word has is an unknown word.
    let end = sound.len() - 1;
    fs::write(path("out/train.texts"), with(end, 0xFF)).unwrap();
    source.load().unwrap();
    let refused = |source: Source, expect: &str| {
        let error = source.load().unwrap_err().to_string();
        assert!(error.contains(expect), "{error:?} should say {expect:?}");
    };
    refused(Source { stop_words: true, ..source.clone() }, "stop_words is for texts");
    refused(Source { max_length: 5, ..source.clone() }, "max_length is for texts");
    run(&preparation(&[&path("reviews.json")], &path("lines"))).unwrap();
    refused(Source::new(path("lines").to_str().unwrap()), "was prepared as jsonl for other programs");
}

#[test]
fn what_is_written_as_hdf5_is_read_back() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    fs::write(path("reviews.json"), many(2000)).unwrap();
    let it = Preparation { format: Format::Hdf5, ..preparation(&[&path("reviews.json")], &path("out")) };
    let report = run(&it).unwrap();
    let dataset = Source::new(path("out/train.h5").to_str().unwrap()).load().unwrap();
    assert_eq!((dataset.train.len() + dataset.test.len()) as u64, report.train);
}

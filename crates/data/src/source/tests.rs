use super::*;
use crate::conllu::TaggedSentence;
use crate::normalize::Moments;
use crate::{Images, Samples, Vocabulary, conllu, idx};
use bonfire_learn::Shape;
use bonfire_spoil::Counting;
use serde_json::json;
use std::fs;

fn source(value: serde_json::Value) -> Source {
    serde_json::from_value(value).unwrap()
}

fn in_folder(folder: &Path) -> Source {
    Source::new(folder.to_str().unwrap())
}

#[test]
fn a_source_is_a_name_or_a_mapping() {
    assert_eq!(source(json!("digits")), Source::default());
    assert_eq!(source(json!({"name": "digits"})), Source::default());
    assert_eq!(source(json!({"path": "some/folder"})), Source::new("some/folder"));
    let given =
        source(json!({"name": "grammar", "train": 5, "seed": 9, "tags": "xpos", "lower_case": false}));
    let expect = Source {
        train: Some(5),
        seed: 9,
        tags: TagColumn::Xpos,
        lower_case: false,
        ..Source::new("grammar")
    };
    assert_eq!(given, expect);
    assert_eq!(given.test, Some(1_000));
}

#[test]
fn a_wrong_mapping_says_what_is_wrong() {
    let check = |value: serde_json::Value, expect: &str| {
        let error = serde_json::from_value::<Source>(value).unwrap_err().to_string();
        assert!(error.contains(expect), "{error:?} should say {expect:?}");
    };
    check(json!({"name": "digits", "trian": 5}), "unknown field `trian`, expected one of");
    check(json!({"train": 5}), "missing field `name`");
    check(json!({"name": "digits", "train": -5}), "invalid value: integer `-5`, expected usize");
    check(json!({"name": "digits", "tags": "ptb"}), "unknown variant `ptb`, expected `upos` or `xpos`");
    check(json!(5), "expected the name of a data set, a folder, or a mapping");
}

#[test]
fn what_is_saved_has_every_field_and_is_read_back() {
    for given in [Source::new("reviews"), Source::new("mnist")] {
        let saved = serde_json::to_value(&given).unwrap();
        assert_eq!(saved.as_object().unwrap().len(), 13);
        assert_eq!(source(saved), given);
    }
}

#[test]
fn made_data_has_the_sizes_asked_for() {
    let check = |name: &str, shape: &dyn Fn(&Shape) -> bool, classes: usize| {
        let given = Source { train: Some(400), test: Some(7), ..Source::new(name) };
        let dataset = given.load().unwrap();
        assert_eq!((dataset.train.len(), dataset.test.len()), (400, 7), "{name}");
        assert!(shape(&dataset.shape), "{:?}", dataset.shape);
        assert_eq!(dataset.classes.len(), classes, "{name}");
        let words = dataset.vocabulary.as_ref().map(Vocabulary::len);
        match dataset.shape {
            Shape::Images { .. } => assert_eq!(words, None),
            Shape::Tagging { words: rows, .. } | Shape::Texts { words: rows, .. } => {
                assert_eq!(words, Some(rows))
            }
        }
        // The test half does not depend on the size of the training half.
        if let Samples::Images(test) = &*dataset.test {
            let other = Source { train: Some(1), ..given.clone() }.load().unwrap();
            assert_eq!(*other.test, Samples::Images(test.clone()));
        }
    };
    check("digits", &|shape| *shape == Shape::Images { height: 28, width: 28, channels: 1, classes: 10 }, 10);
    check("grammar", &|shape| matches!(shape, Shape::Tagging { tags: 15, .. }), 15);
    check("reviews", &|shape| matches!(shape, Shape::Texts { classes: 5, .. }), 5);
}

#[test]
fn the_halves_of_made_data_share_no_sample() {
    let given = Source { train: Some(300), test: Some(300), ..Source::new("digits") };
    let dataset = given.load().unwrap();
    let (Samples::Images(train), Samples::Images(test)) = (&*dataset.train, &*dataset.test) else {
        panic!("not images")
    };
    let seen: std::collections::HashSet<&[u8]> = train.pixels.as_ref().chunks(784).collect();
    assert!(test.pixels.as_ref().chunks(784).all(|image| !seen.contains(image)));
}

#[test]
fn a_source_that_is_not_there_says_what_would_be_right() {
    let check = |given: Source, expect: &str| {
        let error = given.load().unwrap_err().to_string();
        assert!(error.contains(expect), "{error:?} should say {expect:?}");
    };
    check(
        Source::new("digit"),
        "known are digits, grammar, reviews, fashion-mnist, mnist, cifar-10, cifar-100, svhn, \
         ud-english-ewt; did you mean digits?",
    );
    check(Source { train: Some(0), ..Source::default() }, "data: train is 0");
    check(Source { max_length: 0, ..Source::new("reviews") }, "data: max_length is 0");
    let folder = tempfile::tempdir().unwrap();
    check(in_folder(folder.path()), "no data found; looked for train-images-idx3-ubyte");
    let file = folder.path().join("notes.txt");
    fs::write(&file, "").unwrap();
    check(in_folder(&file), "notes.txt: is a file, expected the folder");
}

fn few_images(labels: &[u8]) -> Images {
    let pixels = vec![9; labels.len() * 6].into();
    Images { height: 2, width: 3, channels: 1, pixels, labels: labels.to_vec(), ..Images::default() }
}

fn write_images(folder: &Path, train: &Images, test: &Images, end: &str) {
    for (half, name) in [(train, "train"), (test, "t10k")] {
        let path = |what: &str| folder.join(format!("{name}-{what}-ubyte{end}"));
        idx::write(half, &path("images-idx3"), &path("labels-idx1")).unwrap();
    }
}

#[test]
fn a_folder_of_images_is_read() {
    for end in ["", ".gz"] {
        let folder = tempfile::tempdir().unwrap();
        write_images(folder.path(), &few_images(&[0, 1, 2]), &few_images(&[2, 1]), end);
        let dataset = Source { train: Some(2), ..in_folder(folder.path()) }.load().unwrap();
        assert_eq!(dataset.shape, Shape::Images { height: 2, width: 3, channels: 1, classes: 3 });
        assert_eq!(*dataset.train, Samples::Images(few_images(&[0, 1])));
        assert_eq!(*dataset.test, Samples::Images(few_images(&[2, 1])));
    }
}

#[test]
fn halves_that_do_not_fit_are_refused() {
    let check = |train: &Images, test: &Images, expect: &str| {
        let folder = tempfile::tempdir().unwrap();
        write_images(folder.path(), train, test, "");
        let error = in_folder(folder.path()).load().unwrap_err().to_string();
        assert!(error.contains(expect), "{error:?} should say {expect:?}");
    };
    check(
        &few_images(&[0, 1]),
        &few_images(&[2]),
        "test half has the class 2, but the training half ends at 1",
    );
    check(&few_images(&[]), &few_images(&[2]), "the training half holds no images");
    check(&few_images(&[0]), &few_images(&[]), "the test half holds no images");
    let other = Images { height: 3, width: 2, ..few_images(&[0]) };
    check(&few_images(&[0]), &other, "[2, 3, 1] (height, width, channels), those to test on [3, 2, 1]");
}

#[test]
fn a_folder_of_text_is_read() {
    let folder = tempfile::tempdir().unwrap();
    let sentence = |words: &[&str], tags: &[&str]| TaggedSentence {
        words: words.iter().map(|&word| word.to_owned()).collect(),
        tags: tags.iter().map(|&tag| tag.to_owned()).collect(),
    };
    conllu::write(&folder.path().join("train.conllu"), &[sentence(&["The", "the", "dog"], &["D", "D", "N"])])
        .unwrap();
    let error = in_folder(folder.path()).load().unwrap_err().to_string();
    assert!(error.contains("holds no test.conllu or test.conllu.gz"), "{error}");
    conllu::write(&folder.path().join("test.conllu.gz"), &[]).unwrap();
    let error = in_folder(folder.path()).load().unwrap_err().to_string();
    assert!(error.contains("test.conllu.gz: holds no samples"), "{error}");
    conllu::write(&folder.path().join("test.conllu.gz"), &[sentence(&["THE", "dog"], &["D", "A"])]).unwrap();
    let dataset = in_folder(folder.path()).load().unwrap();
    assert_eq!(dataset.classes, ["A", "D", "N"]);
    let Samples::Sentences(test) = &*dataset.test else { panic!("not sentences") };
    assert_eq!((&test.starts[..], &test.words[..], &test.tags[..]), (&[0, 2][..], &[2, 1][..], &[1, 0][..]));
}

#[test]
fn a_folder_of_reviews_is_read() {
    let folder = tempfile::tempdir().unwrap();
    for name in ["train.jsonl", "test.jsonl"] {
        let line = |text: &str| format!("{{\"reviewText\": \"{text}\", \"overall\": 4.0}}\n");
        fs::write(folder.path().join(name), line("good good stuff") + &line("!!") + &line("bad")).unwrap();
    }
    let dataset = Source { max_length: 2, ..in_folder(folder.path()) }.load().unwrap();
    let Samples::Texts(train) = &*dataset.train else { panic!("not texts") };
    // The second text has no words and is left out.
    assert_eq!((&train.starts[..], &train.words.to_vec()[..]), (&[0, 2, 3][..], &[2, 2, 1][..]));
    assert_eq!(train.labels, [3, 3]);
}

#[test]
fn stop_words_are_left_out_before_texts_are_cut() {
    let folder = tempfile::tempdir().unwrap();
    let line = "{\"reviewText\": \"The sound is good, and the price is GOOD\", \"overall\": 5}\n";
    for name in ["train.jsonl", "test.jsonl"] {
        fs::write(folder.path().join(name), line).unwrap();
    }
    let given = Source { stop_words: true, min_frequency: 1, max_length: 3, ..in_folder(folder.path()) };
    let dataset = given.load().unwrap();
    let (Samples::Texts(train), Some(vocabulary)) = (&*dataset.train, &dataset.vocabulary) else {
        panic!("not texts")
    };
    let words: Vec<&str> = train.words.to_vec().into_iter().map(|word| vocabulary.word(word)).collect();
    assert_eq!(words, ["sound", "good", "price"]);
}

#[test]
fn images_are_prepared_as_asked() {
    let given = Source { train: Some(50), test: Some(10), ..Source::default() };
    let augment: Augment = serde_json::from_value(json!({"pad": 4, "flip": true})).unwrap();
    let prepared =
        Source { normalize: Some(Normalize::Own), augment: Some(augment), ..given.clone() }.load().unwrap();
    let (Samples::Images(train), Samples::Images(test)) = (&*prepared.train, &*prepared.test) else {
        panic!("not images")
    };
    assert_eq!((train.augment, test.augment), (Some(augment), None));
    assert_eq!((train.scales.len(), &train.scales), (1, &test.scales));
    let check = |source: Source, expect: &str| {
        let error = source.load().unwrap_err().to_string();
        assert!(error.contains(expect), "{error:?} should say {expect:?}");
    };
    let by = |mean: &[f32], deviation: &[f32]| {
        let moments = Moments { mean: mean.to_vec(), deviation: deviation.to_vec() };
        Source { normalize: Some(Normalize::By(moments)), ..given.clone() }
    };
    check(by(&[0.5; 3], &[0.5; 3]), "data: normalize: mean has 3 values, the data have 1 channels");
    check(by(&[0.5], &[0.0]), "data: normalize: deviation must be above 0");
    let wide = Augment { pad: 28, ..Augment::default() };
    check(Source { augment: Some(wide), ..given.clone() }, "pad is 28, it must be below 28");
}

#[test]
fn both_forms_of_normalize_are_read_and_saved() {
    let check = |value: serde_json::Value, expect: Option<Normalize>| {
        let given = source(json!({"name": "mnist", "normalize": value}));
        assert_eq!(given.normalize, expect);
        assert_eq!(source(serde_json::to_value(&given).unwrap()), given);
    };
    check(json!(true), Some(Normalize::Own));
    check(json!(false), Some(Normalize::Off));
    check(json!(null), None);
    let moments = Moments { mean: vec![0.5], deviation: vec![0.25] };
    check(json!({"mean": [0.5], "std": [0.25]}), Some(Normalize::By(moments)));
    let error = serde_json::from_value::<Source>(json!({"name": "mnist", "normalize": 3})).unwrap_err();
    assert!(
        error.to_string().contains("expected true, false, or a mapping of mean and deviation"),
        "{error}"
    );
}

/// How many bytes are held at most while a folder of these files is loaded, and how many the first file has.
fn loading(files: &[(&str, &[u8])]) -> (usize, usize) {
    let folder = tempfile::tempdir().unwrap();
    for (name, content) in files {
        fs::write(folder.path().join(name), content).unwrap();
    }
    let (dataset, peak) = Counting::peak(|| in_folder(folder.path()).load());
    dataset.unwrap();
    (peak, files[0].1.len())
}

#[test]
fn large_files_of_images_are_not_held_in_memory() {
    let images = |count: u32| {
        let sizes = [count, 32, 32].map(u32::to_be_bytes).concat();
        [&[0, 0, 8, 3][..], &sizes, &vec![7; count as usize * 1024]].concat()
    };
    let labels = |count: u32| [&[0, 0, 8, 1][..], &count.to_be_bytes(), &vec![3; count as usize]].concat();
    let (many, few) = (8 << 10, 2 << 10);
    let (peak, size) = loading(&[
        ("train-images-idx3-ubyte", &images(many)),
        ("train-labels-idx1-ubyte", &labels(many)),
        ("t10k-images-idx3-ubyte", &images(few)),
        ("t10k-labels-idx1-ubyte", &labels(few)),
    ]);
    assert!(peak < size / 16, "{peak} bytes for a file of {size}");
    let records = vec![3; 2000 * 3074];
    let (peak, size) = loading(&[("train.bin", &records), ("test.bin", &records)]);
    assert!(peak < size / 16, "{peak} bytes for a file of {size}");
}

#[test]
fn of_large_files_of_text_only_numbers_are_held_in_memory() {
    let word = |i: usize| {
        format!(
            "{}\tword{}\tlemma{}\tNOUN\tNN\tNumber=Sing\t0\troot\t_\tSpaceAfter=No\n",
            i % 20 + 1,
            i % 500,
            i % 500
        )
    };
    let treebank: String =
        (0..100_000).map(|i| if i % 20 == 19 { word(i) + "\n" } else { word(i) }).collect();
    let (peak, size) =
        loading(&[("train.conllu", treebank.as_bytes()), ("test.conllu", treebank.as_bytes())]);
    assert!(peak < size / 2, "{peak} bytes for a file of {size}");
    let line = |i: usize| {
        format!("{{\"reviewText\": \"{}\", \"overall\": 4.0}}\n", format!("w{} ", i % 500).repeat(1600))
    };
    let reviews: String = (0..1250).map(line).collect();
    let (peak, size) = loading(&[("train.jsonl", reviews.as_bytes()), ("test.jsonl", reviews.as_bytes())]);
    assert!(peak < size, "{peak} bytes for a file of {size}");
}

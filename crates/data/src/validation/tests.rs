use super::*;
use crate::source::Source;
use crate::{Augment, pack};
use std::fs;

fn made(name: &str, train: usize) -> Source {
    Source { train: Some(train), test: Some(30), ..Source::new(name) }
}

/// What tells a sample from others.
fn samples(all: &Samples) -> Vec<Vec<u32>> {
    let words =
        |starts: &[u32], words: &[u32], i: usize| words[starts[i] as usize..starts[i + 1] as usize].to_vec();
    (0..all.len())
        .map(|i| match all {
            Samples::Images(images) => {
                images.pixels.image(i, images.values()).iter().map(|&byte| u32::from(byte)).collect()
            }
            Samples::Sentences(sentences) => words(&sentences.starts, &sentences.words, i),
            Samples::Texts(texts) => words(&texts.starts, &texts.words.to_vec(), i),
        })
        .collect()
}

#[test]
fn a_part_is_drawn_by_the_seed_and_every_sample_is_in_one() {
    for name in ["digits", "grammar", "reviews"] {
        let whole = made(name, 200).load().unwrap();
        let cut = |seed: u64| {
            let mut dataset = made(name, 200).load().unwrap();
            let test = dataset.hold_out(Validation::Part(0.1), seed).unwrap();
            assert_eq!(*test, *whole.test, "{name}: the test half stays whole");
            (samples(&dataset.train), samples(&dataset.test))
        };
        let (train, held) = cut(1);
        assert_eq!((train.len(), held.len()), (180, 20), "{name}");
        let mut together = [&train[..], &held[..]].concat();
        let mut all = samples(&whole.train);
        together.sort_unstable();
        all.sort_unstable();
        assert!(together == all, "{name}: each sample once");
        assert!(cut(1) == (train, held.clone()), "{name}: the same seed, the same part");
        assert!(cut(2).1 != held, "{name}: another seed, another part");
    }
}

#[test]
fn a_part_that_leaves_nothing_is_refused() {
    let check = |train: usize, part: f64, expect: &str| {
        let mut dataset = made("digits", train).load().unwrap();
        let error = dataset.hold_out(Validation::Part(part), 1).unwrap_err().to_string();
        assert!(error.contains(expect), "{error:?} should say {expect:?}");
    };
    check(3, 0.1, "0.1 of 3 training samples leaves none to validate by");
    check(3, 0.9, "0.9 of 3 training samples leaves none to train on");
}

#[test]
fn made_data_have_a_part_of_their_own() {
    for name in ["digits", "grammar", "reviews"] {
        let plain = made(name, 60).load().unwrap();
        assert!(plain.dev.is_none(), "{name}: only if it is wanted");
        let mut dataset = Source { dev: true, ..made(name, 60) }.load().unwrap();
        let test = dataset.hold_out(Validation::Dev, 1).unwrap();
        assert_eq!((test.len(), dataset.test.len(), dataset.train.len()), (30, 30, 60), "{name}");
        assert!(samples(&test) != samples(&dataset.test), "{name}: it is another part");
        assert_eq!(*dataset.train, *plain.train, "{name}: the training half stays whole");
    }
}

#[test]
fn the_part_of_a_folder_is_read_with_its_words_and_classes() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| fs::write(folder.path().join(name), text).unwrap();
    let word = |word: &str, tag: &str| format!("1\t{word}\t_\t{tag}\t_\t_\t_\t_\t_\t_\n\n");
    write("train.conllu", &(word("the", "DET") + &word("the", "DET")));
    write("test.conllu", &word("dog", "NOUN"));
    let source = Source { dev: true, ..Source::new(folder.path().display().to_string()) };
    assert!(source.load().unwrap().dev.is_none());
    write("dev.conllu", &word("!", "SYM"));
    let error = source.load().unwrap_err().to_string();
    assert!(error.contains("the class SYM is not among those that the run learns: DET, NOUN"), "{error}");
    write("dev.conllu", &(word("the", "DET") + &word("!", "NOUN")));
    let dataset = source.load().unwrap();
    assert_eq!(dataset.classes, ["DET", "NOUN"]);
    let Some(Samples::Sentences(dev)) = dataset.dev.as_deref() else { panic!("sentences") };
    assert_eq!((&dev.words[..], &dev.tags[..]), (&[2, 1][..], &[0, 1][..]));
}

#[test]
fn rows_of_a_table_are_scaled_like_the_training_half() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| fs::write(folder.path().join(name), text).unwrap();
    write("train.csv", "1,2,a\n3,4,b\n");
    write("test.csv", "1,2,a\n");
    write("validation.csv", "5,6,b\n");
    let source = Source { dev: true, ..Source::new(folder.path().display().to_string()) };
    let dataset = source.load().unwrap();
    let (Samples::Images(train), Some(Samples::Images(dev))) = (&*dataset.train, dataset.dev.as_deref())
    else {
        panic!("rows")
    };
    assert_eq!((&dev.scales, dev.labels.as_slice()), (&train.scales, &[1][..]));
    write("validation.csv", "5,6,7,b\n");
    let error = source.load().unwrap_err().to_string();
    assert!(error.contains("are rows of 3 numbers, but those of the run are rows of 2 numbers"), "{error}");
}

#[test]
fn data_without_a_part_say_so() {
    let folder = tempfile::tempdir().unwrap();
    for name in ["train", "test"] {
        fs::write(folder.path().join(format!("{name}.bin")), vec![3; 10 * 3074]).unwrap();
    }
    let source = Source { dev: true, ..Source::new(folder.path().display().to_string()) };
    let error = source.load().unwrap().hold_out(Validation::Dev, 1).unwrap_err().to_string();
    assert!(error.contains("has no part of its own called dev; 0.1 takes a tenth"), "{error}");
}

/// Images that lie in a file are not copied, and are the same ones.
#[test]
fn a_part_of_a_large_file_stays_there() {
    let folder = tempfile::tempdir().unwrap();
    let record = |i: usize| (0..3074).map(move |place| if place < 2 { 0 } else { (i * 7 + place) as u8 });
    let bytes: Vec<u8> = (0..500).flat_map(record).collect();
    fs::write(folder.path().join("train.bin"), &bytes).unwrap();
    fs::write(folder.path().join("test.bin"), &bytes[..3074]).unwrap();
    let augment = Some(Augment { pad: 2, ..Augment::default() });
    let source = Source { augment, ..Source::new(folder.path().display().to_string()) };
    let mut dataset = source.load().unwrap();
    dataset.hold_out(Validation::Part(0.2), 5).unwrap();
    let (Samples::Images(train), Samples::Images(held)) = (&*dataset.train, &*dataset.test) else {
        panic!("images")
    };
    assert!(train.pixels.is_in_files() && held.pixels.is_in_files());
    assert_eq!((train.augment, held.augment), (augment, None));
    let (kept, drawn) = draw(500, 0.2, 5).unwrap();
    for (images, numbers) in [(train, kept), (held, drawn)] {
        for (i, &number) in numbers.iter().enumerate() {
            let expect: Vec<u8> = record(number as usize).skip(2).collect();
            assert_eq!(*images.pixels.image(i, 3072), expect, "image {i}");
        }
        let pieces: usize = images.pieces().map(|piece| piece.len()).sum();
        assert_eq!(pieces, numbers.len() * 3072);
    }
    let mut packed = Vec::new();
    pack::write(&dataset, &mut packed).unwrap();
    let read = pack::read(&mut packed.as_slice()).unwrap();
    assert_eq!((read.train.len(), read.test.len()), (400, 100));
    assert_eq!(samples(&read.test), samples(&dataset.test));
}

#[test]
fn both_forms_are_read_and_saved() {
    let check = |text: &str, expect: Validation| {
        let read: Validation = serde_json::from_str(text).unwrap();
        assert_eq!((read, serde_json::to_string(&read).unwrap()), (expect, text.to_owned()));
    };
    check("0.1", Validation::Part(0.1));
    check("\"dev\"", Validation::Dev);
    let error = serde_json::from_str::<Validation>("\"test\"").unwrap_err().to_string();
    assert!(error.contains("expected a part of the training half such as 0.1, or dev"), "{error}");
}

use super::*;
use crate::augment::Augment;
use crate::bytes::Bytes;
use crate::normalize::Normalize;
use crate::{EpochSeed, Source};
use bonfire_learn::{Batch, Gradient, Inputs, ModelSpec, Tally};
use bonfire_spoil::{Chance, Trial};
use std::fs;

fn packed(dataset: &Dataset) -> Vec<u8> {
    let mut bytes = Vec::new();
    write(dataset, &mut bytes).unwrap();
    bytes
}

fn unpacked(mut bytes: &[u8]) -> Result<Dataset> {
    read(&mut bytes)
}

/// Data that are made, of a few samples.
fn made(name: &str, train: usize, test: usize) -> Dataset {
    Source { train: Some(train), test: Some(test), ..Source::new(name) }.load().unwrap()
}

fn augmented() -> Dataset {
    let augment = Some(Augment { pad: 2, fill: Padding::Reflect, flip: true });
    let normalize = Some(Normalize::Own);
    Source { train: Some(30), test: Some(7), augment, normalize, ..Source::default() }.load().unwrap()
}

fn table() -> Dataset {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("train.csv"), "size,colour,kind\n1.5,-2,cat\n2,7e8,dog\n-0.0,0,cat\n")
        .unwrap();
    fs::write(folder.path().join("test.csv"), "size,colour,kind\n3,1e-30,dog\n").unwrap();
    let mut dataset = Source::new(folder.path().to_str().unwrap()).load().unwrap();
    dataset.name = "table".to_owned();
    dataset
}

/// Rows with a number to learn.
fn numbers() -> Dataset {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("houses.csv");
    fs::write(&path, "size,price\n1,-2.5\n2,7e8\n3,0\n4,1e-30\n").unwrap();
    let source = Source { value: Some("price".to_owned()), ..Source::new(path.to_str().unwrap()) };
    let mut dataset = source.load().unwrap();
    assert_eq!(dataset.shape, Shape::Images { height: 1, width: 1, channels: 1, classes: 0 });
    dataset.name = "numbers".to_owned();
    dataset
}

/// Images of 2 x 3 with two channels, each behind a byte of something else, in a file.
fn mapped(format: PixelFormat) -> Dataset {
    let file = tempfile::NamedTempFile::new().unwrap();
    let bytes: Vec<u8> = (0..4 + 5 * 13).map(|i| (i * 7) as u8).collect();
    fs::write(file.path(), &bytes).unwrap();
    let half = |bytes: Bytes| {
        let pixels = Pixels::new(bytes, 4, 1, format);
        let images = Images {
            height: 2,
            width: 3,
            channels: 2,
            pixels,
            labels: vec![0, 1, 2, 1, 0],
            numbers: Vec::new(),
            scales: vec![[0.5, -1.0], [0.25, f32::MIN_POSITIVE]],
            augment: None,
        };
        Arc::new(Samples::Images(images))
    };
    Dataset {
        name: "a half in a file".to_owned(),
        shape: Shape::Images { height: 2, width: 3, channels: 2, classes: 3 },
        train: half(Bytes::map(file.path()).unwrap()),
        test: half(bytes.into()),
        vocabulary: None,
        classes: ["null", "één", "два"].map(str::to_owned).to_vec(),
        dev: None,
    }
}

/// One of every kind, small.
fn every_kind() -> Vec<Dataset> {
    vec![
        made("digits", 5, 2),
        augmented(),
        made("grammar", 40, 10),
        made("reviews", 20, 5),
        table(),
        numbers(),
        mapped(PixelFormat::Planes),
        mapped(PixelFormat::Columns),
    ]
}

/// All samples of a half as a model sees them, to the bit.
fn seen(samples: &Samples, seed: Option<EpochSeed>) -> (Vec<u32>, Vec<u32>) {
    let numbers: Vec<u32> = (0..samples.len() as u32).collect();
    let mut batch = Batch::default();
    match seed {
        Some(seed) => samples.fill_augmented(&mut batch, &numbers, seed),
        None => samples.fill(&mut batch, &numbers),
    }
    let inputs = match batch.inputs {
        Inputs::Images { pixels, .. } => pixels.iter().map(|value| value.to_bits()).collect(),
        Inputs::Words { numbers, lengths, .. } => [numbers, lengths].concat(),
    };
    (inputs, batch.targets)
}

#[test]
fn what_is_packed_is_unpacked() {
    for dataset in every_kind() {
        let found = unpacked(&packed(&dataset)).unwrap();
        let name = &dataset.name;
        assert_eq!((&found.name, &found.shape), (name, &dataset.shape));
        assert_eq!((&found.classes, &found.vocabulary), (&dataset.classes, &dataset.vocabulary), "{name}");
        for (found, expect) in [(&found.train, &dataset.train), (&found.test, &dataset.test)] {
            assert_eq!(found.len(), expect.len(), "{name}");
            for seed in [None, Some(EpochSeed { seed: 7, epoch: 3 })] {
                assert!(seen(found, seed) == seen(expect, seed), "{name}: samples differ");
            }
            let lengths =
                |samples: &Samples| (0..samples.len()).map(|i| samples.length(i)).collect::<Vec<_>>();
            assert_eq!(lengths(found), lengths(expect), "{name}");
        }
        // Nothing is left of where the bytes came from.
        assert_eq!(packed(&found), packed(&dataset), "{name}");
    }
}

#[test]
fn samples_that_lie_in_memory_are_equal_in_every_field() {
    for dataset in [made("digits", 5, 2), augmented(), made("grammar", 9, 2), made("reviews", 9, 2), table()]
    {
        let found = unpacked(&packed(&dataset)).unwrap();
        assert!(found.train == dataset.train && found.test == dataset.test, "{}", dataset.name);
    }
}

#[test]
fn training_on_what_was_unpacked_gives_the_same_bits() {
    let learned = |dataset: &Dataset| {
        let mut model = ModelSpec::default().build(&dataset.shape).unwrap();
        let parameters = model.layout().initial(1234);
        let (mut gradient, mut tally) = (Gradient::new(model.layout()), Tally::default());
        let mut batch = Batch::default();
        dataset.train.fill_augmented(&mut batch, &[1, 4, 7, 20], EpochSeed { seed: 1, epoch: 2 });
        model.gradient(&parameters, &batch, 0, &mut gradient, &mut tally);
        gradient.values.iter().map(|value| value.to_bits()).collect::<Vec<_>>()
    };
    let dataset = augmented();
    assert!(learned(&dataset) == learned(&unpacked(&packed(&dataset)).unwrap()));
}

#[test]
fn texts_become_short() {
    let dataset = made("reviews", 2000, 100);
    let Samples::Texts(texts) = &*dataset.train else { panic!("not texts") };
    let (size, words) = (packed(&dataset).len(), texts.words.len());
    assert!(size < 2 * words, "{size} bytes for {words} words");
}

#[test]
fn nothing_behind_the_data_is_read() {
    let mut bytes = packed(&made("grammar", 3, 1));
    bytes.extend(b"more");
    let mut source = bytes.as_slice();
    read(&mut source).unwrap();
    assert_eq!(source, b"more");
}

#[test]
fn no_data_are_read_without_their_end() {
    for dataset in every_kind() {
        let bytes = packed(&dataset);
        for len in (0..bytes.len().min(300)).chain((0..bytes.len()).step_by(97)).chain([bytes.len() - 1]) {
            let error = unpacked(&bytes[..len]).unwrap_err().to_string();
            assert!(error.starts_with("packed data: breaks off"), "{len} of {}: {error}", dataset.name);
        }
    }
}

#[test]
fn every_changed_byte_is_noticed() {
    for dataset in [made("grammar", 3, 1), table(), mapped(PixelFormat::Rows)] {
        let mut bytes = packed(&dataset);
        for place in 0..bytes.len() {
            bytes[place] ^= 4;
            assert!(unpacked(&bytes).is_err(), "byte {place} of {}", dataset.name);
            bytes[place] ^= 4;
        }
    }
}

/// A stream written by hand, with the checksum that belongs to it.
struct HandMade(Vec<u8>);

impl HandMade {
    /// Up to the kind of samples: one class, and some words.
    fn new(kind: u64, words: &[&str]) -> Self {
        let mut hand =
            Self(Vec::new()).bytes(&MAGIC).numbers(&[VERSION]).string("x").numbers(&[1]).string("c");
        hand = hand.numbers(&[if words.is_empty() { 0 } else { words.len() as u64 + 2 }]);
        words.iter().fold(hand, |hand, word| hand.string(word)).numbers(&[kind])
    }

    fn bytes(mut self, bytes: &[u8]) -> Self {
        self.0.extend(bytes);
        self
    }

    fn numbers(mut self, numbers: &[u64]) -> Self {
        for &number in numbers {
            let mut digits = number;
            while digits >= 0x80 {
                self.0.push(digits as u8 | 0x80);
                digits >>= 7;
            }
            self.0.push(digits as u8);
        }
        self
    }

    fn string(self, string: &str) -> Self {
        self.numbers(&[string.len() as u64]).bytes(string.as_bytes())
    }

    fn sealed(mut self) -> Vec<u8> {
        let mut checksum = flate2::Crc::new();
        checksum.update(&self.0);
        self.0.extend(checksum.sum().to_le_bytes());
        self.0
    }
}

#[test]
fn wrong_data_are_refused_in_words() {
    let check = |hand: HandMade, expect: &str| {
        let error = unpacked(&hand.sealed()).unwrap_err().to_string();
        assert!(error.contains(expect), "{error:?} should say {expect:?}");
    };
    let start = || HandMade(Vec::new()).bytes(&MAGIC);
    check(HandMade(b"something else entirely".to_vec()), "does not begin as a packed data set does (byte 8)");
    check(start().numbers(&[9]), "is of version 9, this program reads version 1");
    check(start().numbers(&[1, 1 << 40]), "the length of the name is 1099511627776, expected 0 to 1048576");
    check(start().bytes(&[1, 2, 0xC3, 0x28]), "the name is not valid UTF-8");
    check(start().bytes(&[0xFF; 11]), "the version has more than 64 bits");
    check(
        start().numbers(&[1]).string("x").numbers(&[300]),
        "the number of classes is 300, expected 0 to 256",
    );
    check(HandMade::new(IMAGES, &["a", "b", "a"]), "the vocabulary of 5 has some words twice");
    check(HandMade::new(3, &[]), "the kind of samples is 3, expected 0 to 2");

    let images = || HandMade::new(IMAGES, &[]);
    check(images().numbers(&[0]), "the height is 0, expected 1 to");
    check(images().numbers(&[1 << 20, 1 << 20, 3]), "an image has 3298534883328 values");
    check(images().numbers(&[2, 2, 1, 5]), "the form of the images is 5, expected 0 to 4");
    check(images().numbers(&[2, 2, 3, 0, 2]), "has 2 scales, expected none or 3, one a channel");
    check(images().numbers(&[2, 2, 1, 0, 0, 1, 2]), "the pad of augment is 2, expected 0 to 1");
    check(images().numbers(&[2, 2, 1, 3, 0, 1, 1, 0, 0]), "rows of numbers cannot be augmented");
    check(images().numbers(&[2, 2, 1, 0, 0, 0, 0]), "the number of images is 0");
    check(images().numbers(&[1, 1, 1, 0, 0, 0, 2, 0, 1]), "has the class 1, but the last is 0");
    let half = [1, 1, 1, 0, 0, 0, 1, 0, 99];
    check(images().numbers(&half).numbers(&[1, 2, 1, 0, 0, 0, 1, 0, 99, 99]), "the halves do not fit");

    let texts = || HandMade::new(TEXTS, &["a"]);
    check(HandMade::new(TEXTS, &[]), "has no vocabulary");
    check(texts().numbers(&[0]), "the number of samples is 0");
    check(texts().numbers(&[1, 0]), "the length of a sample is 0");
    check(texts().numbers(&[2, u64::from(u32::MAX), 1]), "the length of a sample is 1, expected 1 to 0");
    check(texts().numbers(&[1, 1, 3]), "the number of a word is 3, expected 0 to 2");
}

/// If any of these were believed before they arrive, the memory of no machine would do.
#[test]
fn what_is_claimed_takes_no_memory() {
    let check = |hand: HandMade| {
        let error = unpacked(&hand.0).unwrap_err().to_string();
        assert!(error.contains("breaks off"), "{error}");
    };
    let most = u64::from(u32::MAX);
    check(HandMade::new(IMAGES, &[]).numbers(&[1, 1, 1, 0, 0, 0, most, 0]));
    let images = HandMade::new(IMAGES, &[]).numbers(&[1 << 14, 1 << 14, 1, 3, 0, 0, 1 << 16]);
    check(images.bytes(&[0; (1 << 16) + 9]));
    check(HandMade::new(TEXTS, &["a"]).numbers(&[most, 1, 1, 1]));
    check(HandMade::new(SENTENCES, &["a"]).numbers(&[1, most, 1, 1]));
    check(HandMade(Vec::new()).bytes(&MAGIC).numbers(&[1, 0, 1, 0, most]));
}

#[test]
fn no_spoilt_data_take_the_program_down() {
    let all =
        [made("grammar", 6, 2), made("reviews", 3, 1), table(), mapped(PixelFormat::Planes), augmented()];
    let all = all.map(|dataset| packed(&dataset));
    let make = |chance: &mut Chance| {
        // The larger ones cost as much time and have no more to be damaged.
        let good = if chance.percent(90) { &all[chance.below(3)] } else { chance.pick(&all) };
        let mut bytes = chance.spoil(&good[..good.len() - 4]);
        if chance.percent(95) {
            bytes = HandMade(bytes).sealed();
        }
        // Memory grows by steps with what arrives. The smallest part, a word of two bytes, has a place in a list and in
        // a table of words.
        let most = (3 << 20) + 600 * bytes.len();
        (bytes, most)
    };
    Trial { name: "data packs", cases: 60_000 }.run(make, |bytes| match unpacked(&bytes) {
        Err(_) => false,
        // What was read can be used.
        Ok(dataset) => {
            for half in [&dataset.train, &dataset.test] {
                seen(half, Some(EpochSeed { seed: 1, epoch: 2 }));
            }
            true
        }
    });
}

#[test]
fn data_that_could_not_be_read_again_are_not_written() {
    let mut dataset = made("grammar", 3, 1);
    dataset.vocabulary = None;
    let error = write(&dataset, &mut Vec::new()).unwrap_err().to_string();
    assert_eq!(error, "data grammar: the shape does not fit the samples");
    let mut dataset = made("digits", 3, 1);
    dataset.name = "x".repeat(2 << 20);
    assert!(write(&dataset, &mut Vec::new()).unwrap_err().to_string().contains("at most 1048576"));
}

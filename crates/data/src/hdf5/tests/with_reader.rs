use super::*;
use crate::hdf5::table::{self, Whole};
use crate::source::file;
use crate::{Samples, Texts, Vocabulary};
use bonfire_learn::Shape;
use bonfire_learn::random::Random;
use std::fs;
use std::path::PathBuf;

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/reviews").join(format!("{name}.h5"))
}

fn source(path: &Path) -> Source {
    Source::new(path.to_str().unwrap())
}

/// The formula of `reviews.py`.
fn row(i: i64, words: usize, stars: bool) -> Vec<i64> {
    let length = i as usize % (words + 1);
    let mut row: Vec<i64> = (0..length as i64).map(|t| 2 + (t % 7 * 1009 + i * 37) % 10_001).collect();
    row.resize(words, 1);
    row.push(if stars { 1 + i % 5 } else { i % 3 % 2 });
    row
}

fn rows_of(path: &Path) -> Result<Vec<Vec<i64>>> {
    let mut rows = Vec::new();
    for table in table::open(path)? {
        table.each_row(|row| {
            rows.push(row.iter().map(|&Whole(value)| value).collect());
            Ok(())
        })?;
    }
    Ok(rows)
}

fn texts(samples: &Samples) -> &Texts {
    let Samples::Texts(texts) = samples else { panic!("not texts") };
    texts
}

/// Words and class of every text, training half first.
fn all_texts(dataset: &Dataset) -> Vec<(Vec<u32>, u8)> {
    let half = |samples: &Samples| -> Vec<(Vec<u32>, u8)> {
        let texts = texts(samples);
        let words =
            |i: usize| texts.words.to_vec()[texts.starts[i] as usize..texts.starts[i + 1] as usize].to_vec();
        texts.labels.iter().enumerate().map(|(i, &label)| (words(i), label)).collect()
    };
    [half(&dataset.train), half(&dataset.test)].concat()
}

#[test]
fn every_way_to_store_a_table_is_read() {
    let check = |name: &str, count: i64, words: usize, stars: bool| {
        let expect: Vec<_> = (0..count).map(|i| row(i, words, stars)).collect();
        assert_eq!(rows_of(&fixture(name)).unwrap(), expect, "{name}");
    };
    check("plain", 8, 100, false);
    check("several", 24, 100, false);
    check("nested", 24, 6, false);
    check("latest", 24, 6, true);
}

#[test]
fn numbers_of_every_size_and_order_are_read() {
    use hdf5_reader::{ByteOrder, Datatype, H5Type};
    let check = |bytes: &[u8], signed: bool, expect: i64| {
        let read = |bytes: &[u8], byte_order| {
            let size = bytes.len() as u8;
            Whole::from_bytes(bytes, &Datatype::FixedPoint { size, signed, byte_order }).unwrap().0
        };
        let mirrored: Vec<u8> = bytes.iter().rev().copied().collect();
        assert_eq!(read(bytes, ByteOrder::BigEndian), expect, "{bytes:?}");
        assert_eq!(read(&mirrored, ByteOrder::LittleEndian), expect, "{bytes:?}");
    };
    check(&[7], false, 7);
    check(&[0xFF], false, 255);
    check(&[0xFF], true, -1);
    check(&[0x27, 0x12], true, 10_002);
    check(&[0xFF, 0xFF, 0xFE], true, -2);
    check(&[0x80, 0, 0, 0], false, 1 << 31);
    check(&[0x80, 0, 0, 0, 0, 0, 0, 0], true, i64::MIN);
    check(&[0xFF; 8], false, i64::MAX);
}

#[test]
fn rows_become_texts_without_padding() {
    let path = fixture("several");
    let dataset = source(&path).load().unwrap();
    assert_eq!(dataset.shape, Shape::Texts { words: 10_002, classes: 5 });
    // Row 0 is padding alone. Of 24 rows 2 are measured on.
    assert_eq!((dataset.train.len(), dataset.test.len()), (21, 2));
    let expect = |i: i64| -> (Vec<u32>, u8) {
        let row = row(i, 100, false);
        let words = row[..i as usize].iter().map(|&word| word as u32 - 1).collect();
        (words, if row[100] == 1 { 4 } else { 0 })
    };
    let mut found = all_texts(&dataset);
    found.sort_by_key(|(words, _)| words.len());
    assert_eq!(found, (1..24).map(expect).collect::<Vec<_>>());
    let classes: Vec<u8> =
        all_texts(&source(&fixture("latest")).load().unwrap()).iter().map(|text| text.1).collect();
    assert!((0..5).all(|class| classes.contains(&class)), "{classes:?}");
}

#[test]
fn a_seed_has_its_halves() {
    let path = fixture("several");
    let halves = |seed: u64| all_texts(&Source { seed, ..source(&path) }.load().unwrap());
    assert_eq!(halves(1), halves(1));
    assert!((2..10).any(|seed| halves(seed) != halves(1)));
}

#[test]
fn options_that_numbers_allow_are_kept() {
    let path = fixture("several");
    let given = Source { max_words: 5_000, max_length: 3, train: Some(5), test: Some(1), ..source(&path) };
    let dataset = given.load().unwrap();
    assert_eq!(dataset.shape, Shape::Texts { words: 5_002, classes: 5 });
    assert_eq!((dataset.train.len(), dataset.test.len()), (5, 1));
    let found = all_texts(&dataset);
    assert!(found.iter().all(|(words, _)| (1..=3).contains(&words.len())));
    let numbers: Vec<u32> = found.into_iter().flat_map(|(words, _)| words).collect();
    assert!(numbers.iter().all(|number| (Vocabulary::UNKNOWN..5_002).contains(number)), "{numbers:?}");

    let check = |given: Source, expect: &str| {
        let error = given.load().unwrap_err().to_string();
        assert!(error.contains(expect), "{error:?} should say {expect:?}");
    };
    check(Source { stop_words: true, ..source(&path) }, "data: stop_words is for words");
    check(Source { lower_case: false, ..source(&path) }, "data: lower_case is for words");
    check(Source { min_frequency: 1, ..source(&path) }, "data: min_frequency is for words");
}

#[test]
fn a_packed_file_is_read() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("result.h5.gz");
    file::create(&path, |out| out.write_all(&fs::read(fixture("plain")).unwrap())).unwrap();
    assert_eq!(rows_of(&path).unwrap(), rows_of(&fixture("plain")).unwrap());
    assert_eq!(source(&path).load().unwrap().train.len(), 6);
}

#[test]
fn several_files_of_a_folder_are_one() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    fs::copy(fixture("plain"), path("b.h5")).unwrap();
    file::create(&path("a.h5.gz"), |out| out.write_all(&fs::read(fixture("several")).unwrap())).unwrap();
    fs::write(path("notes.txt"), "of nobody's concern").unwrap();
    let dataset = source(folder.path()).load().unwrap();
    // 24 rows and 8, of each of which one is padding alone.
    assert_eq!(dataset.train.len() + dataset.test.len(), 30);
    let sorted = |mut texts: Vec<(Vec<u32>, u8)>| {
        texts.sort();
        texts
    };
    let each = ["plain", "several"].map(|name| all_texts(&source(&fixture(name)).load().unwrap()));
    assert_eq!(sorted(all_texts(&dataset)), sorted(each.concat()));
    fs::write(path("c.h5"), "no table").unwrap();
    let error = source(folder.path()).load().unwrap_err().to_string();
    assert!(error.contains("c.h5: is not an HDF5 file"), "{error}");
}

#[test]
fn what_is_no_table_of_texts_is_refused() {
    let check = |name: &str, expect: &str| {
        let error = source(&fixture(name)).load().unwrap_err().to_string();
        assert!(error.contains(expect), "{error:?} should say {expect:?}");
    };
    check("bare", "bare.h5: holds no rows, expected a text in each row");
    check("empty", "empty.h5: holds no rows");
    check("list", "list.h5: result has 1 dimensions, expected a text in each row");
    check("narrow", "narrow.h5: result has 1 columns, expected");
    check("floats", "floats.h5: result does not hold whole numbers, expected");
    check("names", "names.h5: result does not hold whole numbers, expected");
    check("absurd", "absurd.h5: claims to hold 111050674405376 numbers, which do not fit into");
    check("wide", "wide.h5: result is stored in pieces of 500000 rows, expected smaller ones");
    check("missing", "missing.h5: No such file");
}

/// The plain fixture, in which the number at a place is another one.
fn changed(row: i64, column: usize, value: i64) -> Vec<u8> {
    let mut content = fs::read(fixture("plain")).unwrap();
    let bytes: Vec<u8> = self::row(row, 100, false).into_iter().flat_map(i64::to_le_bytes).collect();
    let start = content.windows(bytes.len()).position(|window| window == bytes).unwrap();
    content[start + 8 * column..][..8].copy_from_slice(&value.to_le_bytes());
    content
}

fn load_bytes(content: &[u8]) -> Result<Dataset> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("result.h5");
    fs::write(&path, content).unwrap();
    source(&path).load()
}

#[test]
fn a_wrong_number_is_refused_with_its_place() {
    let check = |content: &[u8], expect: &str| {
        let error = load_bytes(content).unwrap_err().to_string();
        assert!(error.contains(expect), "{error:?} should say {expect:?}");
    };
    check(&changed(4, 2, 0), "result.h5: result[4, 2]: the number of a word is 0, expected 1 for padding");
    check(&changed(5, 0, -3), "result[5, 0]: the number of a word is -3");
    check(&changed(3, 100, 6), "result[3, 100]: the label is 6, expected 0 and 1, or stars from 1 to 5");
    check(&changed(3, 100, -1), "result[3, 100]: the label is -1");
    // Row 2 has label 0, row 3 too.
    check(&changed(4, 100, 5), "result[4, 100]: the label is 5, but a row before has 0");
    check(&changed(1, 100, 2), "result[2, 100]: the label is 0, but a row before has more than 1");
    // A number without a word is an unknown word.
    assert!(load_bytes(&changed(4, 2, i64::MAX)).is_ok());
}

#[test]
fn a_broken_file_is_refused() {
    let check = |content: &[u8], expect: &str| {
        let error = load_bytes(content).unwrap_err().to_string();
        assert!(error.contains(expect), "{error:?} should say {expect:?}");
    };
    let content = fs::read(fixture("plain")).unwrap();
    check(b"", "result.h5: is not an HDF5 file");
    check(b"reviewText,overall\n", "result.h5: is not an HDF5 file");
    check(&[&content[..3], &content[4..]].concat(), "result.h5: is not an HDF5 file");
    check(&content[..50], "result.h5: ");
    check(&content[..content.len() / 2], "result.h5: ");
    check(&content[..content.len() - 100], "result.h5: ");
}

/// Damages a file: some bytes changed, numbers replaced by extreme ones, or its end cut off.
fn spoil(content: &[u8], random: &mut Random) -> Vec<u8> {
    let mut bytes = content.to_vec();
    for _ in 0..1 + random.below(4) {
        // What describes the rows stands before them, and there is less of it.
        let reach = if random.chance(0.5) { bytes.len().min(2500) } else { bytes.len() };
        let place = random.below(reach);
        let end = (place + (1 << random.below(4))).min(bytes.len());
        match random.below(8) {
            0..=2 => bytes[place] = random.bits() as u8,
            3 | 4 => bytes[place] ^= 1 << random.below(8),
            5 => bytes[place..end].fill(*random.pick(&[0, 0x7F, 0xFF])),
            6 => {
                let other = random.below(bytes.len() - (end - place) + 1);
                bytes.copy_within(place..end, other);
            }
            _ if random.chance(0.2) && place > 0 => bytes.truncate(place),
            _ => bytes[place] = bytes[place].wrapping_add(1),
        }
    }
    bytes
}

#[test]
fn no_damaged_file_takes_the_program_down() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("result.h5");
    for name in ["plain", "several", "nested", "latest", "absurd"] {
        let content = fs::read(fixture(name)).unwrap();
        let mut random = Random::named(1, name);
        let mut refused = 0;
        for _ in 0..FUZZ_ROUNDS {
            let _ = fs::remove_file(&path);
            fs::write(&path, spoil(&content, &mut random)).unwrap();
            refused += usize::from(source(&path).load().is_err());
        }
        assert!(refused > FUZZ_ROUNDS / 50, "{name}: only {refused} were refused");
    }
}

const FUZZ_ROUNDS: usize = 1000;

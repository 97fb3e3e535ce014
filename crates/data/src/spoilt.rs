//! Every reader on files that are damaged in thousands of ways: each is read or refused, and none takes the program
//! down or more memory than the file can fill.

use crate::conllu::TagColumn;
use crate::error::{Error, Result};
use crate::source::file;
use crate::{
    Images, Source, Vocabulary, cifar, conllu, csv, idx, image_folder, mat, numpy, reviews, svhn, udpos,
};
use bonfire_learn::random::Random;
use std::fs;
#[cfg(feature = "parquet")]
use std::io::Read;
use std::path::Path;

/// A format: the name of its file, a small valid content, and its reader.
struct FormatSample {
    file: &'static str,
    content: Vec<u8>,
    read: fn(&Path) -> Result<()>,
}

fn formats() -> Vec<FormatSample> {
    let mut formats = older_formats();
    formats.extend(files_of_others());
    #[cfg(feature = "parquet")]
    formats.push(parquet(include_bytes!("../fixtures/snappy.parquet")));
    #[cfg(feature = "parquet")]
    formats.push(parquet(include_bytes!("../fixtures/zstd.parquet")));
    formats
}

#[cfg(feature = "parquet")]
fn parquet(content: &[u8]) -> FormatSample {
    FormatSample {
        file: "a.parquet",
        content: content.to_vec(),
        read: |path| {
            let mut rows = crate::parquet::lines(path, &[])?.take(1 << 20);
            std::io::copy(&mut rows, &mut std::io::sink()).map_err(Error::io(path))?;
            Ok(())
        },
    }
}

/// What people have: files of torchtext, of spreadsheets, of NumPy, and images.
fn files_of_others() -> Vec<FormatSample> {
    vec![
        FormatSample {
            file: "a.txt",
            content: b"The\tDET\tDT\ndog\tNOUN\tNN\n\nbarks\tVERB\tVBZ\n".to_vec(),
            read: |path| udpos::open(path, TagColumn::Upos)?.try_for_each(|sentence| sentence.map(|_| ())),
        },
        FormatSample {
            file: "b.csv",
            content: b"text,label\n\"good, \"\"very\"\"\",1\nbad,2\nfine,1\n".to_vec(),
            read: |path| {
                let (text, label) = (Some("text".to_owned()), Some("label".to_owned()));
                Source { text, label, ..Source::new(path.to_str().unwrap()) }.load().map(|_| ())
            },
        },
        FormatSample {
            file: "a.npy",
            content: numpy::tests::npy("<i4", "(2, 2)", &[1; 16]),
            read: |path| {
                let bytes = file::content(path, 1 << 20)?;
                numpy::Array::parse(&bytes).map(|_| ()).map_err(|message| Error::format(path, message))
            },
        },
        FormatSample {
            file: "a.npz",
            content: include_bytes!("../fixtures/small.npz").to_vec(),
            read: |path| numpy::load_file(path, &Source::new("a")).map(|_| ()),
        },
        FormatSample {
            file: "a.png",
            content: include_bytes!("../fixtures/small.png").to_vec(),
            read: |path| {
                image_folder::read(path, &fs::read(path).map_err(Error::io(path))?, None).map(|_| ())
            },
        },
        FormatSample {
            file: "a.jpg",
            content: include_bytes!("../fixtures/small.jpg").to_vec(),
            read: |path| {
                image_folder::read(path, &fs::read(path).map_err(Error::io(path))?, None).map(|_| ())
            },
        },
    ]
}

fn older_formats() -> Vec<FormatSample> {
    let images = mat::tests::array_of_bytes("X", &[2, 2, 3, 2], &[7; 24]);
    let labels = mat::tests::array_of_doubles("y", &[2, 1], &[10.0, 3.0]);
    let arrays = [images, labels];
    let svhn_read: fn(&Path) -> Result<()> = |path| svhn::read(path).map(|images| draw_all(&images));
    let idx_header = [0, 0, 8, 3, 0, 0, 0, 2, 0, 0, 0, 2, 0, 0, 0, 3];
    vec![
        FormatSample { file: "images", content: [&idx_header[..], &[9; 12]].concat(), read: read_idx },
        FormatSample { file: "data_batch_1.bin", content: [[3; 3073], [9; 3073]].concat(), read: read_cifar },
        FormatSample { file: "a.mat", content: mat::tests::file_of(&arrays, false), read: svhn_read },
        FormatSample { file: "b.mat", content: mat::tests::file_of(&arrays, true), read: svhn_read },
        FormatSample {
            file: "a.csv",
            content: b"size;label;weight\n1.5;cat;-2e3\n2;dog;0\n7;cat;1\n".to_vec(),
            read: |path| {
                csv::read(path, None).map(|table| assert_eq!(table.values.len() % table.columns.max(1), 0))
            },
        },
        FormatSample {
            file: "a.conllu",
            content: b"# text\n1\tA\t_\tDET\tD\t_\t_\t_\t_\t_\n2\tdog\t_\tNOUN\tN\t_\t_\t_\t_\t_\n\n"
                .to_vec(),
            read: |path| conllu::read(path, TagColumn::Xpos).map(|_| ()),
        },
        FormatSample {
            file: "a.jsonl",
            content: b"{\"reviewText\": \"fine \\u00e9\", \"overall\": 4.0}\n{\"overall\": 1}\n".to_vec(),
            read: |path| reviews::read(path).map(|_| ()),
        },
        FormatSample {
            file: "words.txt",
            content: "good\nbad\nna\u{ef}ve\n".as_bytes().to_vec(),
            read: |path| Vocabulary::load(path).map(|_| ()),
        },
    ]
}

/// Replaces a file. What is overwritten some systems write to the disk at once, which takes a hundred times as long.
fn write(path: &Path, content: &[u8]) {
    let _ = fs::remove_file(path);
    fs::write(path, content).unwrap();
}

fn read_idx(path: &Path) -> Result<()> {
    let labels = path.with_file_name("labels");
    write(&labels, &[0, 0, 8, 1, 0, 0, 0, 2, 1, 0]);
    idx::read(path, &labels).map(|images| draw_all(&images))
}

fn read_cifar(path: &Path) -> Result<()> {
    let folder = path.parent().unwrap();
    // The folder is where the file is, packed or not; the other half is always good.
    write(&folder.join("test_batch.bin"), &[1; 3073]);
    let _ = fs::remove_file(folder.join(if path.ends_with("data_batch_1.bin") {
        "data_batch_1.bin.gz"
    } else {
        "data_batch_1.bin"
    }));
    cifar::load_ten(folder, &Source::new(folder.to_str().unwrap())).map(|_| ())
}

/// What was read can be used.
fn draw_all(images: &Images) {
    assert!(images.values() < 1 << 24, "an image is no larger than its file");
    let mut image = vec![0.0; images.values()];
    for number in 0..images.labels.len() {
        images.draw(number as u32, None, &mut image);
    }
}

/// Damages a file: some bytes changed, cut out, put in or doubled, or its end cut off.
fn spoil(content: &[u8], random: &mut Random) -> Vec<u8> {
    let mut bytes = content.to_vec();
    for _ in 0..1 + random.below(3) {
        let place = random.below(bytes.len().max(1)).min(bytes.len().saturating_sub(1));
        match random.below(6) {
            _ if bytes.is_empty() => bytes.push(random.bits() as u8),
            0 => bytes[place] = random.bits() as u8,
            1 => bytes[place] ^= 1 << random.below(8),
            2 => bytes.truncate(place),
            3 => bytes.insert(place, *random.pick(b"\0\xFF\n\t;\"9-{")),
            4 => {
                let end = (place + 1 + random.below(8)).min(bytes.len());
                bytes.drain(place..end);
            }
            _ => {
                // Sizes in headers: the largest and the smallest that there are.
                let end = (place + 4).min(bytes.len());
                bytes[place..end].fill(*random.pick(&[0, 0x7F, 0xFF]));
            }
        }
    }
    bytes
}

#[test]
fn no_damaged_file_takes_the_program_down() {
    let folder = tempfile::tempdir().unwrap();
    for format in formats() {
        let mut refused = 0;
        let path = folder.path().join(format.file);
        write(&path, &format.content);
        (format.read)(&path).unwrap_or_else(|error| panic!("{}: {error}", format.file));
        let mut random = Random::named(1, format.file);
        for _ in 0..800 {
            write(&path, &spoil(&format.content, &mut random));
            refused += usize::from((format.read)(&path).is_err());
        }
        for len in 0..150 {
            let bytes: Vec<u8> = (0..len).map(|_| random.bits() as u8).collect();
            write(&path, &bytes);
            refused += usize::from((format.read)(&path).is_err());
        }
        assert!(refused > 150, "{}: only {refused} were refused", format.file);
    }
}

#[test]
fn no_damaged_packed_file_takes_the_program_down() {
    let folder = tempfile::tempdir().unwrap();
    for format in formats() {
        // Images and Parquet are packed already.
        if ["png", "jpg", "parquet"].iter().any(|end| format.file.ends_with(end)) {
            continue;
        }
        let path = folder.path().join(format!("{}.gz", format.file));
        file::create(&path, |out| out.write_all(&format.content)).unwrap();
        let content = fs::read(&path).unwrap();
        (format.read)(&path).unwrap_or_else(|error| panic!("{}: {error}", format.file));
        let mut random = Random::named(2, format.file);
        for _ in 0..300 {
            write(&path, &spoil(&content, &mut random));
            // A mark that was hit makes it a plain file of rubbish, which some readers can read.
            let _ = (format.read)(&path);
        }
    }
}

//! Folders that `bonfire prepare` wrote: texts as numbers, which are mapped, not read.
//!
//! `train.texts` and `test.texts` hold the texts, `vocabulary.txt` the words. A file begins with [`HEAD`] bytes that
//! say how much there is; then come the lengths of all texts as 32-bit numbers, their labels as bytes, and from a
//! multiple of eight on the numbers of all words, of 16 bits if the vocabulary allows. All is little-endian. Number 1
//! is padding, which is not written here, 2 an unknown word, and from 3 on are the words.

use crate::bytes::Bytes;
use crate::error::{Error, Result};
use crate::prepare::{Format, Mapper, Part, Rules};
use crate::source::{SamplePart, text};
use crate::words::Words;
use crate::{Dataset, Samples, Source, Texts, Vocabulary};
use bonfire_learn::Shape;
use serde::Deserialize;
use std::fs::{self, File};
use std::io::{BufReader, Read};
use std::path::Path;
use std::sync::Arc;

/// How many bytes a file begins with.
pub(crate) const HEAD: u64 = 64;

const MAGIC: [u8; 8] = *b"bonftext";
const VERSION: u64 = 1;

/// A number of a file less this is the number of the same word here.
const SHIFT: u32 = 1;

/// The name of the file by which such a folder is recognised.
pub(crate) const REPORT: &str = "prepare.json";

/// How much a file holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Head {
    pub rows: u64,
    pub words: u64,
    /// How many numbers words have, padding and unknown included.
    pub numbers: u64,
}

impl Head {
    pub(crate) fn bytes(&self) -> Vec<u8> {
        let mut bytes = MAGIC.to_vec();
        let numbers = [VERSION, self.rows, self.words, self.numbers];
        bytes.extend(numbers.iter().flat_map(|number| number.to_le_bytes()));
        bytes.resize(HEAD as usize, 0);
        bytes
    }

    fn read(path: &Path, file: &mut impl Read) -> Result<Self> {
        let mut bytes = [0; HEAD as usize];
        let broken = |error: std::io::Error| Error::format(path, format!("has no head: {error}"));
        file.read_exact(&mut bytes).map_err(broken)?;
        let (eights, _) = bytes.as_chunks::<8>();
        if eights[0] != MAGIC {
            return Err(Error::format(path, "does not begin as prepared texts do"));
        }
        let number = |place: usize| u64::from_le_bytes(eights[place]);
        if number(1) != VERSION {
            let message = format!("is of version {}, this program reads version {VERSION}", number(1));
            return Err(Error::format(path, message));
        }
        let head = Self { rows: number(2), words: number(3), numbers: number(4) };
        let most = u64::from(u32::MAX);
        if [head.rows, head.words, head.numbers].iter().any(|&count| count >= most) {
            return Err(Error::format(path, "holds more than 2^32 texts or words"));
        }
        Ok(head)
    }

    /// Bytes of the number of a word.
    pub(crate) fn width(&self) -> usize {
        if self.numbers <= 1 << 16 { 2 } else { 4 }
    }

    /// Where the length of a text stands.
    pub(crate) fn lengths_at(&self, row: u64) -> u64 {
        HEAD + 4 * row
    }

    pub(crate) fn labels_at(&self, row: u64) -> u64 {
        self.lengths_at(self.rows) + row
    }

    pub(crate) fn words_at(&self, word: u64) -> u64 {
        self.labels_at(self.rows).next_multiple_of(8) + self.width() as u64 * word
    }

    /// How large the file is.
    pub(crate) fn size(&self) -> u64 {
        self.words_at(self.words)
    }
}

/// What the loader wants to know of a preparation.
#[derive(Deserialize)]
struct Report {
    format: Format,
    /// The labels: `1-5`, `0-1`.
    labels: String,
    rules: Rules,
}

impl Report {
    fn read(folder: &Path) -> Result<Self> {
        let path = folder.join(REPORT);
        let report = fs::read(&path).map_err(Error::io(&path))?;
        serde_json::from_slice(&report).map_err(|error| Error::format(&path, error.to_string()))
    }
}

/// How texts are cleaned and cut that are to be read like those of a source; none if it has no prepared texts.
pub(crate) fn reading(source: &Source) -> Result<Option<(Mapper, usize)>> {
    if source.prepare.is_none() && !Path::new(&source.name).join(REPORT).is_file() {
        return Ok(None);
    }
    let rules = match &source.prepare {
        Some(raw) => raw.rules.clone(),
        None => Report::read(Path::new(&source.name))?.rules,
    };
    Ok(Some((rules.mapper()?, rules.length)))
}

/// Reads a folder of this format.
pub(crate) fn load(folder: &Path, source: &Source) -> Result<Dataset> {
    check_options(source)?;
    let report = Report::read(folder)?;
    if report.format != Format::Native {
        let message = format!(
            "was prepared as {} for other programs; to train on it: bonfire prepare … --format native",
            report.format.name()
        );
        return Err(Error::format(folder, message));
    }
    let path = folder.join("vocabulary.txt");
    let vocabulary = Vocabulary::load(&path)?.first(source.max_words);
    let half = |part: Part, limit: Option<usize>| {
        let path = folder.join(Format::Native.file(part));
        read(&path, &report.labels, vocabulary.len(), limit, source)
    };
    let (train, test) = match source.part {
        SamplePart::Halves => (half(Part::Train, source.train)?, half(Part::Test, source.test)?),
        SamplePart::Validation => (half(Part::Validation, None)?, half(Part::Validation, Some(1))?),
    };
    Ok(Dataset {
        name: source.name.clone(),
        shape: Shape::Texts { words: vocabulary.len(), classes: text::STARS.len() },
        train: Arc::new(Samples::Texts(train)),
        test: Arc::new(Samples::Texts(test)),
        dev: None,
        classes: text::STARS.map(str::to_owned).to_vec(),
        vocabulary: Some(vocabulary),
    })
}

/// Refuses options that need the texts themselves, rather than to leave a wish without effect.
fn check_options(source: &Source) -> Result<()> {
    let default = Source::new(source.name.clone());
    let same = [
        ("min_frequency", [1, default.min_frequency].contains(&source.min_frequency)),
        ("max_length", source.max_length == default.max_length),
        ("lower_case", source.lower_case == default.lower_case),
        ("stop_words", source.stop_words == default.stop_words),
    ];
    match same.iter().find(|(_, same)| !same) {
        Some((key, _)) => Err(Error::mismatch(format!(
            "data: {key} is for texts, but those of {} are prepared already; it is an option of bonfire prepare",
            source.name
        ))),
        None => Ok(()),
    }
}

/// Reads lengths and labels, and maps the words.
fn read(path: &Path, labels: &str, numbers: usize, limit: Option<usize>, source: &Source) -> Result<Texts> {
    let mut file = BufReader::new(File::open(path).map_err(Error::io(path))?);
    let head = Head::read(path, &mut file)?;
    let size = file.get_ref().metadata().map_err(Error::io(path))?.len();
    if size != head.size() {
        let message = format!(
            "has {size} bytes, but {} texts and {} words take {}",
            head.rows,
            head.words,
            head.size()
        );
        return Err(Error::format(path, message));
    }
    if head.rows == 0 {
        return Err(Error::format(path, "holds no samples"));
    }
    let rows = limit.unwrap_or(usize::MAX).min(head.rows as usize);
    let bytes = Bytes::map(path)?;
    bytes.will_jump();
    let (mut starts, mut end) = (vec![0], 0);
    let lengths = &bytes[head.lengths_at(0) as usize..head.lengths_at(rows as u64) as usize];
    for &length in lengths.as_chunks().0 {
        end += u64::from(u32::from_le_bytes(length));
        if end > head.words {
            return Err(Error::format(path, format!("its texts have more words than {}", head.words)));
        }
        starts.push(text::start(source, end as usize)?);
    }
    let given = &bytes[head.labels_at(0) as usize..head.labels_at(rows as u64) as usize];
    let class = |&label: &u8| {
        class(label, labels)
            .ok_or_else(|| Error::format(path, format!("has the label {label}, expected {labels}")))
    };
    let labels = given.iter().map(class).collect::<Result<_>>()?;
    let words =
        Words::mapped(bytes, head.words_at(0) as usize, end as usize, head.width(), SHIFT, numbers as u32);
    Ok(Texts { starts, words, labels })
}

/// The class of a label: of two, the worse is one star and the better five.
fn class(label: u8, labels: &str) -> Option<u8> {
    match (labels, label) {
        ("0-1", 0) => Some(0),
        ("0-1", 1) => Some(text::STARS.len() as u8 - 1),
        ("1-5", 1..=5) => Some(label - 1),
        _ => None,
    }
}

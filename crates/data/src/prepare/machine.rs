//! A whole preparation on one machine.

use super::collected::Collector;
use super::encode::Encoding;
use super::frequent::{self, FIRST_WORD, FrequentWords, WordNumbers};
use super::input::{self, Input};
use super::journal::{Beginning, ChunkReport, Done, Entry, PrepareSpec, StretchReport, Workplace};
use super::mapper::Mapper;
use super::mapping::{Books, Mapping};
use super::meter::Meter;
use super::output::{Amount, Format, PartFile};
use super::part::Part;
use super::rating::RatingScale;
use super::reduce::Reducing;
use super::rules::Rules;
use super::segment::Segment;
use super::shares::{self, InputShare};
use crate::error::{Error, Result};
use crate::{parquet, prepared};
use serde::{Deserialize, Serialize};
use std::fs::{self, File};
use std::io::{BufWriter, ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::time::Instant;

/// What is to be prepared, and how.
#[derive(Clone, Debug)]
pub struct Preparation {
    /// Files and folders.
    pub inputs: Vec<PathBuf>,
    /// The folder to write. It appears when all of it is there.
    pub out: PathBuf,
    pub rules: Rules,
    pub format: Format,
    pub threads: usize,
    /// Bytes.
    pub memory: u64,
    /// Whether a bad line ends the preparation.
    pub is_strict: bool,
}

/// Less memory is not enough for anything.
const LEAST_MEMORY: u64 = 64_000_000;

/// A thread wants at least so much.
const MEMORY_OF_THREAD: u64 = 32_000_000;

/// So many bad lines are named in a report.
const NAMED_LINES: usize = 100;

/// What came of a preparation: the content of `prepare.json`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PrepareReport {
    pub format: Format,
    /// The labels that there may be: `1-5` or `0-1`.
    pub labels: String,
    /// Rows of all files, without blank lines.
    pub read: u64,
    /// Rows that are no review.
    pub bad: u64,
    /// Reviews without a word.
    pub empty: u64,
    /// Reviews whose text another one has.
    pub duplicates: u64,
    /// Different texts.
    pub texts: u64,
    /// Words that have numbers.
    pub words: u64,
    /// All words of the texts that were counted: different ones, and all.
    pub distinct_words: u64,
    pub counted_words: u64,
    pub train: u64,
    pub validation: u64,
    pub test: u64,
    pub files: u64,
    /// Of the input, unpacked.
    pub bytes: u64,
    pub seconds: f64,
    pub mb_per_s: f64,
    pub rules: Rules,
    /// The first bad lines, by file and line.
    pub bad_lines: Vec<BadLine>,
}

/// A line that is no review.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BadLine {
    pub file: PathBuf,
    pub line: u64,
    pub reason: String,
}

/// What the first stage has to work with.
struct FirstStage<'a> {
    inputs: &'a [Input],
    mapper: &'a Mapper,
    books: Books,
    threads: usize,
    memory: usize,
}

impl Preparation {
    /// Checks everything that can be wrong without reading the input.
    pub fn check(&self) -> Result<()> {
        self.rules.check()?;
        if self.format == Format::Parquet {
            parquet::is_built()?;
        }
        if self.memory < LEAST_MEMORY {
            let least = LEAST_MEMORY / 1_000_000;
            return Err(Error::mismatch(format!("memory is less than {least} MB, which is too little")));
        }
        let is_taken = match fs::read_dir(&self.out) {
            Ok(mut entries) => entries.next().is_some(),
            Err(_) => self.out.exists(),
        };
        if is_taken {
            return Err(Error::format(&self.out, "is not empty; choose another folder or remove it"));
        }
        Ok(())
    }

    /// Prepares. `begin` is told whether this goes on from what another process did.
    pub fn run(&self, meter: &Meter, begin: impl FnOnce(Beginning)) -> Result<PrepareReport> {
        self.begin(meter, begin, |here| {
            let FirstStage { inputs, mapper, books, threads, memory } = here;
            meter.begin_stage(0, inputs.iter().map(|input| input.file.size).sum());
            Mapping { inputs, mapper, threads, memory, is_strict: self.is_strict, meter }.run(books)
        })
    }

    /// Prepares texts that others read and map: `elsewhere` has them map at least so many shares of the input, and
    /// hands on all lines that come of it. It is not called if that was done before.
    pub fn run_elsewhere<E: From<Error>>(
        &self,
        meter: &Meter,
        begin: impl FnOnce(Beginning),
        least: usize,
        elsewhere: impl FnOnce(Vec<InputShare>, &mut Collector<'_>) -> Result<(), E>,
    ) -> Result<PrepareReport, E> {
        let mut failure = None;
        let result = self.begin(meter, begin, |here| {
            let FirstStage { inputs, mut books, .. } = here;
            meter.begin_stage(0, inputs.iter().map(|input| input.file.size).sum());
            let shares = shares::shares(inputs, &books.done, least);
            if !shares.is_empty() {
                let mut collector = Collector::new(&books);
                if let Err(error) = elsewhere(shares, &mut collector) {
                    failure = Some(error);
                    return Err(Error::io(&self.out)(ErrorKind::Interrupted.into()));
                }
                let entry = collector.finish()?;
                books.note(entry)?;
            }
            Ok(books)
        });
        result.map_err(|error| failure.unwrap_or_else(|| error.into()))
    }

    fn begin(
        &self,
        meter: &Meter,
        begin: impl FnOnce(Beginning),
        first_stage: impl FnOnce(FirstStage<'_>) -> Result<Books>,
    ) -> Result<PrepareReport> {
        self.check()?;
        let mapper = self.rules.mapper()?;
        let paths = input::list(&self.inputs)?;
        let inputs = paths.iter().map(|path| Input::open(path, &mapper)).collect::<Result<Vec<_>>>()?;
        let files = inputs.iter().map(|input| input.file.clone()).collect();
        let spec = PrepareSpec::new(self.rules.fingerprint()?, self.format.name(), files);
        let folder = Workplace::beside(&self.out);
        let (place, done, beginning) = Workplace::open(&folder, &spec)?;
        begin(beginning);
        // It may have been another process that came first.
        self.check()?;
        let result = self.go_on(meter, &inputs, &mapper, Books { place, done }, first_stage);
        if result.as_ref().is_err_and(|error| error.system().is_none()) {
            // What is wrong with the input does not get better by going on.
            let _ = fs::remove_dir_all(&folder);
            let _ = fs::remove_file(Workplace::lock_beside(&self.out));
        }
        result
    }

    fn go_on(
        &self,
        meter: &Meter,
        inputs: &[Input],
        mapper: &Mapper,
        mut books: Books,
        first_stage: impl FnOnce(FirstStage<'_>) -> Result<Books>,
    ) -> Result<PrepareReport> {
        let start = Instant::now();
        let known: u64 = books.done.chunks.iter().map(|chunk| chunk.bytes).sum();
        let result = books.place.path("out");
        let threads = self.threads.clamp(1, (self.memory / MEMORY_OF_THREAD).max(1) as usize);
        // The rest is for the program itself and for what is being read and written.
        let memory = (self.memory - self.memory / 8).min(usize::MAX as u64 / 2) as usize;
        if books.done.cuts.is_none() {
            books = first_stage(FirstStage { inputs, mapper, books, threads, memory })?;
        }
        // Whoever read them may not have been strict.
        if let (true, Some(bad)) = (self.is_strict, bad_lines(inputs, &books.done.chunks, 1).pop()) {
            return Err(Error::line(&bad.file, bad.line as usize, bad.reason));
        }
        if !books.done.is_written {
            self.refuse_nothing(inputs, &books.done, self.rules.ratings)?;
            let split = &self.rules.split()?;
            let (rules, keeps_text, memory) = (&self.rules, self.format.keeps_text(), memory / 2);
            books = Reducing { rules, split, keeps_text, threads, memory, meter }.run(books)?;
            let mut report = self.write(meter, inputs, &books, &result, threads)?;
            report.seconds = start.elapsed().as_secs_f64();
            report.mb_per_s = (report.bytes - known) as f64 / 1e6 / report.seconds.max(1e-9);
            write_report(&result.join(prepared::REPORT), &report)?;
            sync(&result)?;
            books.note(Entry::Written)?;
        }
        let path = result.join(prepared::REPORT);
        let report = fs::read(&path).map_err(Error::io(&path))?;
        let report =
            serde_json::from_slice(&report).map_err(|error| Error::format(&path, error.to_string()))?;
        if self.out.is_dir() {
            fs::remove_dir(&self.out).map_err(Error::io(&self.out))?;
        }
        fs::rename(&result, &self.out).map_err(Error::io(&self.out))?;
        books.place.remove()?;
        Ok(report)
    }

    /// Nothing to learn from is a mistake, and most often one about names.
    fn refuse_nothing(&self, inputs: &[Input], done: &Done, scale: RatingScale) -> Result<()> {
        let sum = |count: fn(&ChunkReport) -> u64| done.chunks.iter().map(count).sum::<u64>();
        let (read, bad, empty) = (sum(|chunk| chunk.read), sum(|chunk| chunk.bad), sum(|chunk| chunk.empty));
        if read > bad + empty {
            return Ok(());
        }
        let first = bad_lines(inputs, &done.chunks, 1).pop();
        let first = first.map_or(String::new(), |BadLine { file, line, reason }| {
            let hint = match scale {
                RatingScale::Stars => {
                    "; other names are given by --text and --label, labels of 0 and 1 by --ratings 0-1"
                }
                RatingScale::Classes => "; other names are given by --text and --label",
            };
            format!("; the first: {}:{line}: {reason}{hint}", file.display())
        });
        Err(Error::mismatch(format!(
            "of {read} rows none is a review with words: {bad} are bad and {empty} are without words{first}"
        )))
    }

    /// Numbers the words and writes everything but the report.
    fn write(
        &self,
        meter: &Meter,
        inputs: &[Input],
        books: &Books,
        result: &Path,
        threads: usize,
    ) -> Result<PrepareReport> {
        let folder = &books.place.path("");
        let stretches: Vec<StretchReport> = books.done.stretches.values().cloned().collect();
        let segments = (0..).zip(&stretches).flat_map(|(stretch, report)| {
            (0..report.segments).map(move |number| Segment::of(folder, stretch, number))
        });
        let word_lists: Vec<PathBuf> = segments.map(|segment| segment.words).collect();
        let FrequentWords { words, distinct } = frequent::elect(&word_lists, self.rules.words)?;
        let numbers = &WordNumbers::new(words.iter().map(Vec::as_slice));
        if result.exists() {
            fs::remove_dir_all(result).map_err(Error::io(result))?;
        }
        fs::create_dir_all(result).map_err(Error::io(result))?;
        let amount = |part: Part| Amount {
            rows: stretches.iter().map(|stretch| stretch.rows[part as usize]).sum(),
            words: stretches.iter().map(|stretch| stretch.words[part as usize]).sum(),
        };
        let files = &Part::ALL.map(|part| PartFile {
            format: self.format,
            path: result.join(self.format.file(part)),
            all: amount(part),
            numbers: numbers.len() + FIRST_WORD as usize,
            length: self.rules.length,
        });
        meter.begin_stage(2, Part::ALL.iter().map(|&part| 4 * amount(part).words).sum());
        Encoding { folder, numbers, files, stretches: &stretches, threads, meter }.run()?;
        write_vocabulary(&result.join("vocabulary.txt"), &words)?;
        let [train, validation, test] = Part::ALL.map(|part| amount(part).rows);
        let sum = |count: fn(&ChunkReport) -> u64| books.done.chunks.iter().map(count).sum::<u64>();
        let texts = train + validation + test;
        Ok(PrepareReport {
            format: self.format,
            labels: self.rules.labels().to_owned(),
            read: sum(|chunk| chunk.read),
            bad: sum(|chunk| chunk.bad),
            empty: sum(|chunk| chunk.empty),
            duplicates: stretches.iter().map(|stretch| stretch.reviews).sum::<u64>() - texts,
            texts,
            words: words.len() as u64,
            distinct_words: distinct,
            counted_words: stretches.iter().map(|stretch| stretch.counted).sum(),
            train,
            validation,
            test,
            files: inputs.len() as u64,
            bytes: sum(|chunk| chunk.bytes),
            seconds: 0.0,
            mb_per_s: 0.0,
            rules: self.rules.clone(),
            bad_lines: bad_lines(inputs, &books.done.chunks, NAMED_LINES),
        })
    }
}

/// The first bad lines of all files, with their numbers.
fn bad_lines(inputs: &[Input], chunks: &[ChunkReport], limit: usize) -> Vec<BadLine> {
    let mut chunks: Vec<&ChunkReport> = chunks.iter().collect();
    chunks.sort_by_key(|chunk| chunk.id());
    let (mut found, mut file, mut lines) = (Vec::new(), 0, 0);
    for chunk in chunks {
        if chunk.file != file {
            (file, lines) = (chunk.file, 0);
        }
        found.extend(chunk.flaws.iter().map(|(line, reason)| BadLine {
            file: inputs[file as usize].file.path.clone(),
            line: lines + line + 1,
            reason: reason.clone(),
        }));
        lines += chunk.lines;
        if found.len() >= limit {
            break;
        }
    }
    found.truncate(limit);
    found
}

fn write_vocabulary(path: &Path, words: &[Vec<u8>]) -> Result<()> {
    let write = || {
        let mut out = BufWriter::new(File::create(path)?);
        for word in words {
            out.write_all(word)?;
            out.write_all(b"\n")?;
        }
        out.flush()
    };
    write().map_err(Error::io(path))
}

fn write_report(path: &Path, report: &PrepareReport) -> Result<()> {
    let mut text =
        serde_json::to_vec_pretty(report).map_err(|error| Error::format(path, error.to_string()))?;
    text.push(b'\n');
    fs::write(path, text).map_err(Error::io(path))
}

/// Has the system write all files of a folder to the disk.
fn sync(folder: &Path) -> Result<()> {
    for entry in fs::read_dir(folder).map_err(Error::io(folder))? {
        let path = entry.map_err(Error::io(folder))?.path();
        File::open(&path).and_then(|file| file.sync_all()).map_err(Error::io(&path))?;
    }
    Ok(())
}

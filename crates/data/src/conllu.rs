//! CoNLL-U, the format of the Universal Dependencies treebanks.
//!
//! One word a line with ten columns between tabs, a blank line after each sentence, comments after `#`. Of the columns
//! we use the second (the word) and the fourth or fifth (its tag).

use crate::Dataset;
use crate::error::Result;
use crate::source::file::{self, NumberedLines};
use crate::source::{Source, text};
use serde::{Deserialize, Serialize};
use std::path::Path;

/// A sentence with one tag a word.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TaggedSentence {
    pub words: Vec<String>,
    pub tags: Vec<String>,
}

/// Which of the two columns of tags is learned.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum TagColumn {
    /// The universal tags, the same for all languages.
    #[default]
    Upos,
    /// The tags of the language or treebank.
    Xpos,
}

impl TagColumn {
    pub(crate) fn place(self) -> usize {
        match self {
            Self::Upos => 3,
            Self::Xpos => 4,
        }
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Upos => "UPOS",
            Self::Xpos => "XPOS",
        }
    }
}

const COLUMNS: usize = 10;

/// The files of a folder of this format: to train on, to test on, to validate on.
const FILES: [&str; 3] = ["train.conllu", "test.conllu", "dev.conllu"];

/// The same as a treebank of the Universal Dependencies is downloaded.
const UD_FILES: [&str; 3] = ["*-ud-train.conllu", "*-ud-test.conllu", "*-ud-dev.conllu"];

/// Reads a folder of this format.
pub(crate) fn load(folder: &Path, source: &Source) -> Result<Dataset> {
    load_files(folder, source, FILES)
}

/// Reads a treebank as it is downloaded.
pub(crate) fn load_ud(folder: &Path, source: &Source) -> Result<Dataset> {
    load_files(folder, source, UD_FILES)
}

fn load_files(folder: &Path, source: &Source, files: [&str; 3]) -> Result<Dataset> {
    let open = |path: &Path| TaggedSentences::open(path, source.tags, parse);
    text::tagging(source, text::halves(folder, files, source, open)?)
}

/// The word and tag of a line, or nothing if it has none; the line's word would be the sentence's so-and-so-many-th.
pub(crate) type ParseLine =
    fn(line: &str, expected: usize, TagColumn) -> Result<Option<(&str, &str)>, String>;

/// The sentences of a file with a word a line and a blank line after each sentence, plain or packed with gzip.
pub(crate) struct TaggedSentences {
    lines: NumberedLines,
    column: TagColumn,
    parse: ParseLine,
}

impl TaggedSentences {
    pub(crate) fn open(path: &Path, column: TagColumn, parse: ParseLine) -> Result<Self> {
        Ok(Self { lines: NumberedLines::open(path)?, column, parse })
    }

    fn read_next(&mut self) -> Result<Option<TaggedSentence>> {
        let mut sentence = TaggedSentence::default();
        while let Some((_, line)) = self.lines.next()? {
            if line.is_empty() {
                if sentence.words.is_empty() {
                    continue;
                }
                return Ok(Some(sentence));
            }
            match (self.parse)(line, sentence.words.len() + 1, self.column) {
                Ok(None) => {}
                Ok(Some((word, tag))) => {
                    sentence.words.push(word.to_owned());
                    sentence.tags.push(tag.to_owned());
                }
                Err(message) => return Err(self.lines.error(message)),
            }
        }
        Ok(Some(sentence).filter(|sentence| !sentence.words.is_empty()))
    }
}

impl Iterator for TaggedSentences {
    type Item = Result<TaggedSentence>;

    fn next(&mut self) -> Option<Result<TaggedSentence>> {
        self.read_next().transpose()
    }
}

/// Reads all sentences of a file.
pub fn read(path: &Path, column: TagColumn) -> Result<Vec<TaggedSentence>> {
    TaggedSentences::open(path, column, parse)?.collect()
}

/// Writes sentences with universal tags, packed if the name ends in `.gz`.
pub fn write(path: &Path, sentences: &[TaggedSentence]) -> Result<()> {
    file::create(path, |out| {
        for sentence in sentences {
            for (i, (word, tag)) in sentence.words.iter().zip(&sentence.tags).enumerate() {
                writeln!(out, "{}\t{word}\t_\t{tag}\t_\t_\t_\t_\t_\t_", i + 1)?;
            }
            writeln!(out)?;
        }
        Ok(())
    })
}

/// The word and tag of a line; nothing if it is a comment or describes no word of its own.
fn parse(line: &str, expected: usize, column: TagColumn) -> Result<Option<(&str, &str)>, String> {
    if line.starts_with('#') {
        return Ok(None);
    }
    let mut fields = [""; COLUMNS];
    let mut count = 0;
    for field in line.split('\t') {
        if count < COLUMNS {
            fields[count] = field;
        }
        count += 1;
    }
    if count != COLUMNS {
        return Err(format!("has {count} columns, expected {COLUMNS} between tabs"));
    }
    if is_span(fields[0]) {
        return Ok(None);
    }
    match fields[0].parse::<usize>() {
        Ok(id) if id == expected => {}
        Ok(id) => {
            return Err(format!("the word has the id {id}, expected {expected}; is a blank line missing?"));
        }
        Err(_) => {
            return Err(format!("the id {:?} is not a number such as 1, a range 1-2 or 1.1", fields[0]));
        }
    }
    let (word, tag) = (fields[1], fields[column.place()]);
    if word.is_empty() {
        return Err("the word (column 2) is empty".to_owned());
    }
    if tag.is_empty() || tag == "_" {
        return Err(format!(
            "the word {word:?} has no tag in column {} ({})",
            column.place() + 1,
            column.name()
        ));
    }
    Ok(Some((word, tag)))
}

/// Whether an id is a range (`1-2`: the next words are written as one) or an empty node (`1.1`: a word left out).
fn is_span(id: &str) -> bool {
    let is_number = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    id.split_once(['-', '.']).is_some_and(|(first, last)| is_number(first) && is_number(last))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read_text(text: &[u8], column: TagColumn) -> Result<Vec<TaggedSentence>> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("train.conllu");
        std::fs::write(&path, text).unwrap();
        read(&path, column)
    }

    /// A line with the columns that we read, in the order id, word, universal tag, own tag.
    fn line(id: &str, word: &str, upos: &str, xpos: &str) -> String {
        format!("{id}\t{word}\t_\t{upos}\t{xpos}\t_\t_\t_\t_\t_\n")
    }

    fn sentence(pairs: &[(&str, &str)]) -> TaggedSentence {
        let (words, tags) = pairs.iter().map(|&(word, tag)| (word.to_owned(), tag.to_owned())).unzip();
        TaggedSentence { words, tags }
    }

    #[test]
    fn words_and_tags_are_read() {
        let text = "# sent_id = 1\n".to_owned()
            + &line("1-2", "vámonos", "_", "_")
            + &line("1", "vamos", "VERB", "V")
            + &line("2", "nos", "PRON", "P")
            + &line("2.1", "ya", "ADV", "A")
            + "\n\n# sent_id = 2\n"
            + &line("1", "sí", "INTJ", "I");
        let check = |column, first: &[(&str, &str)], second: &[(&str, &str)]| {
            let found = read_text(text.as_bytes(), column).unwrap();
            assert_eq!(found, [sentence(first), sentence(second)]);
        };
        check(TagColumn::Upos, &[("vamos", "VERB"), ("nos", "PRON")], &[("sí", "INTJ")]);
        check(TagColumn::Xpos, &[("vamos", "V"), ("nos", "P")], &[("sí", "I")]);
        let with_carriage_returns = text.replace('\n', "\r\n");
        assert_eq!(read_text(with_carriage_returns.as_bytes(), TagColumn::Upos).unwrap().len(), 2);
    }

    #[test]
    fn a_wrong_line_is_refused_with_its_number() {
        let check = |bad: &[u8], column, expect: &str| {
            let good = line("1", "a", "DET", "D");
            let error = read_text(&[good.as_bytes(), bad].concat(), column).unwrap_err().to_string();
            assert!(error.contains(expect), "{error:?} should say {expect:?}");
        };
        let upos = TagColumn::Upos;
        check(b"2\tb\tNOUN\n", upos, "train.conllu:2: has 3 columns, expected 10");
        check(b"2 b _ NOUN\n", upos, "has 1 columns");
        check([line("2", "b", "NOUN", "N").trim_end(), "\t_\n"].concat().as_bytes(), upos, "has 11 columns");
        check(line("x", "b", "NOUN", "N").as_bytes(), upos, "the id \"x\" is not a number");
        check(line("1-", "b", "NOUN", "N").as_bytes(), upos, "the id \"1-\" is not a number");
        check(line("1", "b", "NOUN", "N").as_bytes(), upos, "the id 1, expected 2; is a blank line missing?");
        check(line("2", "", "NOUN", "N").as_bytes(), upos, "column 2) is empty");
        check(line("2", "b", "_", "N").as_bytes(), upos, "no tag in column 4 (UPOS)");
        check(line("2", "b", "NOUN", "_").as_bytes(), TagColumn::Xpos, "no tag in column 5 (XPOS)");
        check(b"2\t\xFF\n", upos, "train.conllu:2: not valid UTF-8 at byte 3");
    }

    #[test]
    fn what_is_written_is_read() {
        let sentences = [sentence(&[("the", "DET"), ("fire", "NOUN")]), sentence(&[("burns", "VERB")])];
        for name in ["a.conllu", "a.conllu.gz"] {
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join(name);
            write(&path, &sentences).unwrap();
            assert_eq!(read(&path, TagColumn::Upos).unwrap(), sentences, "{name}");
        }
        assert_eq!(read_text(b"", TagColumn::Upos).unwrap(), []);
    }
}

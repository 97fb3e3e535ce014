//! The files of torchtext's UDPOS: a word a line with its universal tag and that of the treebank between tabs, a blank
//! line after each sentence.

use crate::Dataset;
use crate::conllu::{TagColumn, TaggedSentences};
use crate::error::Result;
use crate::source::{Source, text};
use std::path::Path;

const FILES: [&str; 3] = ["*-ud-tag.v2.train.txt", "*-ud-tag.v2.test.txt", "*-ud-tag.v2.dev.txt"];

/// Reads a folder of this format.
pub(crate) fn load(folder: &Path, source: &Source) -> Result<Dataset> {
    let open = |path: &Path| open(path, source.tags);
    text::tagging(source, text::halves(folder, FILES, source, open)?)
}

pub(crate) fn open(path: &Path, column: TagColumn) -> Result<TaggedSentences> {
    TaggedSentences::open(path, column, parse)
}

fn parse(line: &str, _: usize, column: TagColumn) -> Result<Option<(&str, &str)>, String> {
    let fields: Vec<&str> = line.split('\t').collect();
    let &[word, upos, xpos] = &fields[..] else {
        return Err(format!("has {} columns, expected a word and two tags between tabs", fields.len()));
    };
    let tag = if column == TagColumn::Upos { upos } else { xpos };
    if word.is_empty() {
        return Err("the word is empty".to_owned());
    }
    if tag.is_empty() {
        return Err(format!("the word {word:?} has no tag ({})", column.name()));
    }
    Ok(Some((word, tag)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_and_tags_are_read() {
        let folder = tempfile::tempdir().unwrap();
        let write = |part: &str, text: &str| {
            std::fs::write(folder.path().join(format!("en-ud-tag.v2.{part}.txt")), text).unwrap();
        };
        write("train", "The\tDET\tDT\ndog\tNOUN\tNN\n\nbarks\tVERB\tVBZ\n\n");
        write("test", "a\tDET\tDT\n");
        write("dev", "dog\tNOUN\tNN\n");
        let mut source = Source { min_frequency: 1, ..Source::new(folder.path().to_str().unwrap()) };
        let data = source.load().unwrap();
        assert_eq!((data.train.len(), data.test.len()), (2, 1));
        assert_eq!(data.classes, ["DET", "NOUN", "VERB"]);
        let dev = source.load_validation(&data).unwrap().expect("a part to validate on");
        assert_eq!(dev.len(), 1);
        source.tags = TagColumn::Xpos;
        assert_eq!(source.load().unwrap().classes, ["DT", "NN", "VBZ"]);
        write("test", "a\tDET\n");
        let error = source.load().unwrap_err().to_string();
        assert!(error.contains("en-ud-tag.v2.test.txt:1: has 2 columns"), "{error}");
    }
}

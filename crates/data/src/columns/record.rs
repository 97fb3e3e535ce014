use crate::error::{Error, Result};
use crate::source::file::NumberedLines;
use std::path::{Path, PathBuf};

/// No record is longer; a longer one means that a quotation mark is missing.
const RECORD_LIMIT: usize = 64 << 20;

/// The records of a CSV file with quotation marks, in which cells may have commas and ends of lines.
pub(super) struct Records {
    lines: NumberedLines,
    path: PathBuf,
    separator: Option<char>,
}

impl Records {
    pub(super) fn open(path: &Path) -> Result<Self> {
        Ok(Self { lines: NumberedLines::open(path)?, path: path.to_owned(), separator: None })
    }

    /// The cells of the next record, and the line on which it begins; none after the last.
    pub(super) fn next(&mut self) -> Result<Option<(usize, Vec<String>)>> {
        let (start, mut text) = loop {
            match self.lines.next()? {
                None => return Ok(None),
                Some((_, line)) if line.trim().is_empty() => {}
                Some((number, line)) => break (number, line.to_owned()),
            }
        };
        if start == 1 {
            // Some programs mark their UTF-8 at the beginning of the file.
            text = text.trim_start_matches('\u{FEFF}').to_owned();
        }
        let separator = *self.separator.get_or_insert_with(|| separator(&text));
        loop {
            if let Some(cells) = cells(&text, separator) {
                return Ok(Some((start, cells)));
            }
            match self.lines.next()? {
                Some((_, line)) if text.len() + line.len() < RECORD_LIMIT => {
                    text.push('\n');
                    text.push_str(line);
                }
                _ => return Err(Error::line(&self.path, start, "a cell lacks its closing quotation mark")),
            }
        }
    }
}

/// What stands between the cells: the sign that the first line has most often.
fn separator(line: &str) -> char {
    let count = |sign: &char| line.matches(*sign).count();
    [',', ';', '\t'].into_iter().rev().max_by_key(count).unwrap_or(',')
}

/// The cells of a record; none if it goes on in the next line.
fn cells(text: &str, separator: char) -> Option<Vec<String>> {
    let (mut cells, mut cell, mut is_quoted) = (Vec::new(), String::new(), false);
    let mut letters = text.chars().peekable();
    while let Some(letter) = letters.next() {
        match letter {
            '"' if is_quoted && letters.peek() == Some(&'"') => {
                letters.next();
                cell.push('"');
            }
            '"' if is_quoted => is_quoted = false,
            '"' if cell.trim().is_empty() => {
                cell.clear();
                is_quoted = true;
            }
            _ if letter == separator && !is_quoted => cells.push(std::mem::take(&mut cell)),
            _ => cell.push(letter),
        }
    }
    cells.push(cell);
    (!is_quoted).then_some(cells)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_are_cut_as_spreadsheets_write_them() {
        let check = |text: &str, expect: Option<&[&str]>| {
            let found = cells(text, ',');
            assert_eq!(
                found.as_deref().map(<[String]>::to_vec),
                expect.map(|e| e.iter().map(|&c| c.to_owned()).collect())
            );
        };
        check("a,b", Some(&["a", "b"]));
        check("a,", Some(&["a", ""]));
        check(r#""a, b",c"#, Some(&["a, b", "c"]));
        check(r#""say ""hi""",2"#, Some(&["say \"hi\"", "2"]));
        check("\"two\nlines\",1", Some(&["two\nlines", "1"]));
        check(r#"5" wide,1"#, Some(&["5\" wide", "1"]));
        check(r#""open,1"#, None);
        assert_eq!(separator("a;b;c,d"), ';');
        assert_eq!(separator("alone"), ',');
    }
}

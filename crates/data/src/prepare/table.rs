//! Rows of a table: between commas or semicolons, where a cell may stand in quotation marks, or between tabs.

use super::json::Keys;
use super::mapper::{MappedLine, Mapper, is_blank, named};
use super::rating::RatingScale;
use std::borrow::Cow;

/// How the rows of a file are cut, as its first row tells.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Columns {
    separator: u8,
    count: usize,
    /// The places of the text and the rating.
    text: usize,
    label: usize,
    /// Whether the first row names the columns.
    pub has_names: bool,
}

/// What parts cells.
const SEPARATORS: [u8; 3] = [b'\t', b';', b','];

impl Columns {
    /// Of a file that begins with this row.
    pub(crate) fn of(row: &[u8], keys: &Keys, scale: RatingScale) -> Result<Self, String> {
        let separator = SEPARATORS.into_iter().find(|separator| row.contains(separator));
        let separator = separator
            .ok_or("has one column, expected a text and a rating between commas, semicolons or tabs")?;
        let mut columns = Self { separator, count: usize::MAX, text: 0, label: 1, has_names: true };
        let mut names: Vec<String> = Vec::new();
        columns.cells(row, |cell| names.push(String::from_utf8_lossy(&cell).trim().to_owned()));
        columns.count = names.len();
        // What the filters write: a text, a tab and a rating.
        if separator == b'\t' && names.len() == 2 && scale.parse(names[1].as_bytes()).is_some() {
            columns.has_names = false;
            return Ok(columns);
        }
        let find = |wanted: &[String]| {
            let place = |name: &String| names.iter().position(|column| column == name);
            wanted.iter().find_map(place).ok_or_else(|| {
                let known = names.iter().take(20).map(String::as_str).collect::<Vec<_>>().join(", ");
                format!("has no column {}; the first row has {known}", named(wanted))
            })
        };
        (columns.text, columns.label) = (find(&keys.text)?, find(&keys.label)?);
        Ok(columns)
    }

    /// Where the row at the beginning of these bytes ends: the place of its newline. None if it goes on behind them.
    pub(crate) fn end_of_row(&self, bytes: &[u8]) -> Option<usize> {
        let mut at = 0;
        loop {
            at = self.end_of_cell(bytes, at)?;
            if bytes[at] == b'\n' {
                return Some(at);
            }
            at += 1;
        }
    }

    /// The place of the separator or newline behind the cell that begins here.
    fn end_of_cell(&self, bytes: &[u8], start: usize) -> Option<usize> {
        let mut at = start;
        if self.is_quoted(bytes, start) {
            at += 1;
            loop {
                at += bytes[at..].iter().position(|&byte| byte == b'"')? + 1;
                if bytes.get(at) != Some(&b'"') {
                    break;
                }
                at += 1;
            }
        }
        let is_end = |&byte: &u8| byte == self.separator || byte == b'\n';
        Some(at + bytes[at..].iter().position(is_end)?)
    }

    /// Between tabs quotation marks are letters as any other.
    fn is_quoted(&self, bytes: &[u8], start: usize) -> bool {
        self.separator != b'\t' && bytes.get(start) == Some(&b'"')
    }

    /// The cells of a row, which has no newline at its end.
    fn cells<'a>(&self, row: &'a [u8], mut take: impl FnMut(Cow<'a, [u8]>)) {
        let row = row.strip_suffix(b"\r").unwrap_or(row);
        let mut start = 0;
        loop {
            // A newline in quotation marks does not end a cell, and there is no other.
            let end = self.end_of_cell(row, start).unwrap_or(row.len());
            let cell = &row[start..end];
            take(if self.is_quoted(row, start) { unquoted(cell) } else { Cow::Borrowed(cell) });
            if end >= row.len() {
                return;
            }
            start = end + 1;
        }
    }

    /// Reads a row, and appends its cleaned text to `out` if it has one.
    pub(crate) fn row(&self, row: &[u8], mapper: &Mapper, out: &mut Vec<u8>) -> MappedLine {
        if is_blank(row) {
            return MappedLine::Blank;
        }
        if let Err(error) = std::str::from_utf8(row) {
            return MappedLine::Bad(format!("not valid UTF-8 at byte {}", error.valid_up_to() + 1));
        }
        let (mut count, mut text, mut label) = (0, Cow::default(), Cow::default());
        self.cells(row, |cell| {
            if count == self.text {
                text = cell;
            } else if count == self.label {
                label = cell;
            }
            count += 1;
        });
        if count != self.count {
            return MappedLine::Bad(format!("has {count} columns, the first row has {}", self.count));
        }
        mapper.row(&text, &label, out)
    }
}

/// A cell without its quotation marks, of which two inside stand for one.
fn unquoted(cell: &[u8]) -> Cow<'_, [u8]> {
    if let Some(inside) = cell.get(1..cell.len() - 1)
        && cell.last() == Some(&b'"')
        && !inside.contains(&b'"')
    {
        return Cow::Borrowed(inside);
    }
    let (mut out, mut at, mut is_inside) = (Vec::new(), 1, true);
    while at < cell.len() {
        match (cell[at], cell.get(at + 1)) {
            (b'"', Some(b'"')) if is_inside => {
                out.push(b'"');
                at += 1;
            }
            (b'"', _) if is_inside => is_inside = false,
            (byte, _) => out.push(byte),
        }
        at += 1;
    }
    Cow::Owned(out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::prepare::Rules;

    fn rows(table: &str) -> Vec<String> {
        let mapper = Rules { stop_words: "none".into(), ..Rules::default() }.mapper().unwrap();
        let mut rest = table.as_bytes();
        let mut columns: Option<Columns> = None;
        let mut found = Vec::new();
        while !rest.is_empty() {
            let probe = columns.clone().unwrap_or(Columns {
                separator: b',',
                count: 0,
                text: 0,
                label: 1,
                has_names: true,
            });
            let end = probe.end_of_row(rest).unwrap_or(rest.len());
            let row = &rest[..end];
            rest = rest.get(end + 1..).unwrap_or_default();
            let Some(columns) = &columns else {
                columns = Some(Columns::of(row, mapper.keys(), mapper.scale()).unwrap());
                continue;
            };
            let mut out = Vec::new();
            let line = columns.row(row, &mapper, &mut out);
            found.push(format!("{line:?} {}", String::from_utf8(out).unwrap()));
        }
        found
    }

    #[test]
    fn rows_are_cut_as_others_cut_them() {
        let check = |table: &str, expect: &[&str]| assert_eq!(rows(table), expect, "{table}");
        check("text,stars\ngood,5\nbad,1\n", &["Kept(5) good", "Kept(1) bad"]);
        check("stars;id;text\r\n5;1;good\r\n", &["Kept(5) good"]);
        check("text,stars\n\"good, really\",5", &["Kept(5) good really"]);
        check("text,stars\n\"two\nlines\",\"4\"\n", &["Kept(4) twolines"]);
        check("text,stars\n\"say \"\"hello\"\"\",4\n", &["Kept(4) say hello"]);
        check("text,stars\nsay \"hello\",4\n", &["Kept(4) say hello"]);
        check("text\tstars\n\"open quote\t4\n\nnext\t5", &["Kept(4) open quote", "Blank ", "Kept(5) next"]);
        check("text,stars\n,4\n", &["Empty "]);
        check("text,stars\ngood\n", &["Bad(\"has 1 columns, the first row has 2\") "]);
        check("text,stars\ngood,5,6\n", &["Bad(\"has 3 columns, the first row has 2\") "]);
    }

    #[test]
    fn the_first_row_tells_the_columns() {
        let mapper = Rules::default().mapper().unwrap();
        let of = |row: &str| Columns::of(row.as_bytes(), mapper.keys(), mapper.scale());
        let columns = of("marketplace\tstar_rating\treview_body").unwrap();
        assert_eq!((columns.text, columns.label, columns.has_names), (2, 1, true));
        assert!(!of("good case\t5").unwrap().has_names);
        let error = of("id,stars").unwrap_err();
        assert!(error.contains(r#"has no column "reviewText" or "text" or"#), "{error}");
        assert!(error.ends_with("the first row has id, stars"), "{error}");
        assert!(of("text").unwrap_err().contains("has one column"));
    }
}

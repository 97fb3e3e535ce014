//! A terminal for the tests: it remembers what it shows, where the cursor may move back.

use std::io::{self, Write};
use std::sync::{Arc, Mutex};

use indicatif::TermLike;

const WIDTH: usize = 80;

#[derive(Clone, Debug, Default)]
pub(crate) struct Pane(Arc<Mutex<Cells>>);

#[derive(Debug, Default)]
struct Cells {
    rows: Vec<Vec<char>>,
    row: usize,
    column: usize,
}

impl Pane {
    /// The lines it shows, without the blanks and the empty lines at the end.
    pub(crate) fn lines(&self) -> Vec<String> {
        let text = |row: &Vec<char>| row.iter().collect::<String>().trim_end().to_owned();
        let mut lines: Vec<String> = self.0.lock().unwrap().rows.iter().map(text).collect();
        while lines.pop_if(|line| line.is_empty()).is_some() {}
        lines
    }

    fn change(&self, change: impl FnOnce(&mut Cells)) -> io::Result<()> {
        change(&mut self.0.lock().unwrap());
        Ok(())
    }
}

impl Cells {
    fn put(&mut self, text: &str) {
        let mut letters = text.chars();
        while let Some(letter) = letters.next() {
            match letter {
                '\n' => (self.row, self.column) = (self.row + 1, 0),
                '\r' => self.column = 0,
                // A colour.
                '\x1b' => drop(letters.by_ref().find(|letter| letter.is_alphabetic())),
                letter => self.put_one(letter),
            }
        }
    }

    /// A line that is full goes on below, as on a real terminal.
    fn put_one(&mut self, letter: char) {
        if self.column == WIDTH {
            (self.row, self.column) = (self.row + 1, 0);
        }
        if self.rows.len() <= self.row {
            self.rows.resize(self.row + 1, Vec::new());
        }
        let row = &mut self.rows[self.row];
        if row.len() <= self.column {
            row.resize(self.column + 1, ' ');
        }
        row[self.column] = letter;
        self.column += 1;
    }
}

impl Write for Pane {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.write_str(std::str::from_utf8(bytes).unwrap())?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl TermLike for Pane {
    fn width(&self) -> u16 {
        WIDTH as u16
    }

    fn height(&self) -> u16 {
        40
    }

    fn move_cursor_up(&self, n: usize) -> io::Result<()> {
        self.change(|cells| cells.row = cells.row.saturating_sub(n))
    }

    fn move_cursor_down(&self, n: usize) -> io::Result<()> {
        self.change(|cells| cells.row += n)
    }

    fn move_cursor_right(&self, n: usize) -> io::Result<()> {
        self.change(|cells| cells.column += n)
    }

    fn move_cursor_left(&self, n: usize) -> io::Result<()> {
        self.change(|cells| cells.column = cells.column.saturating_sub(n))
    }

    fn write_line(&self, text: &str) -> io::Result<()> {
        self.change(|cells| cells.put(&format!("{text}\n")))
    }

    fn write_str(&self, text: &str) -> io::Result<()> {
        self.change(|cells| cells.put(text))
    }

    fn clear_line(&self) -> io::Result<()> {
        self.change(|cells| {
            if let Some(row) = cells.rows.get_mut(cells.row) {
                row.clear();
            }
            cells.column = 0;
        })
    }

    fn flush(&self) -> io::Result<()> {
        Ok(())
    }
}

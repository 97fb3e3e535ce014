//! The lines of a log as they come, as server-sent events: the number of the line, and the event as the page takes it.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Write};
use std::net::TcpStream;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crate::event::Stamped;
use crate::page::{encode, encode_text};

/// How often it is looked for more.
const LOOK: Duration = Duration::from_millis(200);

/// How often something is sent when there is nothing to say, so that a reader who is gone is noticed.
const BEAT: Duration = Duration::from_secs(10);

const HEAD: &str = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nCache-Control: no-store\r\n\
                    X-Content-Type-Options: nosniff\r\nConnection: close\r\n\r\nretry: 1000\n\n";

/// Sends every line after `from`, until the reader is gone or all is over.
pub(super) fn follow(
    connection: &mut TcpStream,
    path: &Path,
    from: u64,
    is_over: &AtomicBool,
) -> io::Result<()> {
    let mut lines = BufReader::new(File::open(path)?);
    connection.write_all(HEAD.as_bytes())?;
    let (mut number, mut line, mut sent) = (0, Vec::new(), Instant::now());
    loop {
        // Read before the lines, so that none is left behind.
        let is_last = is_over.load(Ordering::Relaxed);
        let mut text = String::new();
        while lines.read_until(b'\n', &mut line)? > 0 && line.last() == Some(&b'\n') {
            number += 1;
            if number > from {
                add(&line, number, &mut text);
            }
            line.clear();
            if text.len() > 64 << 10 {
                connection.write_all(std::mem::take(&mut text).as_bytes())?;
            }
        }
        if text.is_empty() && sent.elapsed() > BEAT {
            text.push_str(":\n\n");
        }
        if !text.is_empty() {
            connection.write_all(text.as_bytes())?;
            sent = Instant::now();
        }
        if is_last {
            return Ok(());
        }
        thread::sleep(LOOK);
    }
}

/// What the page shows of a line. The number is only told with the last of a line's messages: a reader who comes again
/// gets all of a line or nothing of it.
fn add(line: &[u8], number: u64, text: &mut String) {
    let Ok(stamped) = serde_json::from_slice::<Stamped>(line) else { return };
    let values: Vec<_> = [encode(&stamped), encode_text(&stamped)].into_iter().flatten().collect();
    for (i, value) in values.iter().enumerate() {
        if i + 1 == values.len() {
            text.push_str(&format!("id: {number}\n"));
        }
        text.push_str(&format!("data: {value}\n\n"));
    }
}

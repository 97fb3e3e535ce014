use std::fmt;
use std::io::{self, Write};
use std::net::TcpStream;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

/// How long an answer may take to be taken.
const ANSWER: Duration = Duration::from_secs(30);

/// What comes after a request.
pub enum Reply {
    Answer(Answer),
    /// Written by itself, until nobody reads it or all is over.
    Stream(Stream),
}

type Stream = Box<dyn FnOnce(&mut TcpStream, &AtomicBool) -> io::Result<()>>;

impl fmt::Debug for Reply {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Answer(answer) => answer.fmt(f),
            Self::Stream(_) => f.write_str("Stream"),
        }
    }
}

/// An answer that is not a stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    pub status: &'static str,
    pub kind: &'static str,
    pub body: String,
}

impl Answer {
    pub fn html(body: String) -> Self {
        Self { status: "200 OK", kind: "text/html; charset=utf-8", body }
    }

    pub fn json(body: String) -> Self {
        Self { status: "200 OK", kind: "application/json", body }
    }

    /// A status that says all.
    pub fn none(status: &'static str) -> Self {
        Self { status, kind: "text/plain; charset=utf-8", body: format!("{status}\n") }
    }

    pub(super) fn write(&self, connection: &mut TcpStream, has_body: bool) -> io::Result<()> {
        let Self { status, kind, body } = self;
        let head = format!(
            "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {}\r\nConnection: close\r\n\
             Cache-Control: no-store\r\nX-Content-Type-Options: nosniff\r\nReferrer-Policy: no-referrer\r\n\
             X-Frame-Options: DENY\r\nCross-Origin-Resource-Policy: same-origin\r\n\
             Content-Security-Policy: frame-ancestors 'none'\r\n\r\n",
            body.len()
        );
        let until = Instant::now() + ANSWER;
        connection.write_all(head.as_bytes())?;
        for part in body.as_bytes().chunks(16 << 10).take_while(|_| has_body) {
            if Instant::now() > until {
                return Err(io::ErrorKind::TimedOut.into());
            }
            connection.write_all(part)?;
        }
        Ok(())
    }
}

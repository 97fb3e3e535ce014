//! A request, as far as it is looked at.

use std::io::{self, Read};
use std::net::TcpStream;
use std::time::Instant;

/// Browsers send less.
const MOST_BYTES: usize = 8 << 10;

#[derive(Debug, PartialEq)]
pub(super) struct Request {
    pub is_head: bool,
    /// Up to the question mark, as it came.
    pub path: String,
    query: String,
    pub host: String,
    /// The last line that a stream has brought before it broke.
    pub last_event: Option<u64>,
}

impl Request {
    /// Reads a request until a time; or says what to answer to what is none.
    pub(super) fn read(connection: &mut TcpStream, until: Instant) -> io::Result<Result<Self, &'static str>> {
        let (mut bytes, mut part) = (Vec::new(), [0; 1024]);
        while !bytes.windows(4).any(|window| window == b"\r\n\r\n") {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(io::ErrorKind::TimedOut.into());
            }
            connection.set_read_timeout(Some(left))?;
            let length = connection.read(&mut part)?;
            if length == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            bytes.extend_from_slice(&part[..length]);
            if bytes.len() > MOST_BYTES {
                return Ok(Err("431 Request Header Fields Too Large"));
            }
        }
        Ok(Self::parse(&bytes))
    }

    pub(super) fn parse(bytes: &[u8]) -> Result<Self, &'static str> {
        let bad = "400 Bad Request";
        let text = std::str::from_utf8(bytes).map_err(|_| bad)?;
        let mut lines = text.split("\r\n");
        let mut words = lines.next().unwrap_or_default().split(' ');
        let (method, target, version) = (words.next(), words.next(), words.next());
        let (Some(method), Some(target), Some("HTTP/1.1" | "HTTP/1.0"), None) =
            (method, target, version, words.next())
        else {
            return Err(bad);
        };
        let is_head = match method {
            "GET" => false,
            "HEAD" => true,
            _ => return Err("405 Method Not Allowed"),
        };
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        if !path.starts_with('/') {
            return Err(bad);
        }
        let (mut host, mut last_event) = (None, None);
        for (name, value) in lines.filter_map(|line| line.split_once(':')) {
            match name.to_ascii_lowercase().as_str() {
                "host" if host.is_some() => return Err(bad),
                "host" => host = Some(value.trim().to_owned()),
                "last-event-id" => last_event = value.trim().parse().ok(),
                _ => {}
            }
        }
        let host = host.ok_or(bad)?;
        Ok(Self { is_head, path: path.to_owned(), query: query.to_owned(), host, last_event })
    }

    /// All values of a key of the query.
    pub(super) fn values(&self, key: &str) -> Vec<String> {
        let pairs = self.query.split('&').filter_map(|pair| pair.split_once('='));
        pairs.filter(|(name, _)| *name == key).filter_map(|(_, value)| decoded(value)).collect()
    }

    pub(super) fn number(&self, key: &str) -> Option<u64> {
        self.values(key).first()?.parse().ok()
    }
}

/// Text with `%41` made `A`.
pub(super) fn decoded(text: &str) -> Option<String> {
    let (mut bytes, mut rest) = (Vec::new(), text.bytes());
    while let Some(byte) = rest.next() {
        if byte == b'%' {
            let digits = [rest.next()?, rest.next()?];
            bytes.push(u8::from_str_radix(std::str::from_utf8(&digits).ok()?, 16).ok()?);
        } else {
            bytes.push(byte);
        }
    }
    String::from_utf8(bytes).ok()
}

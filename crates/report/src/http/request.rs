//! A request, as far as it is looked at.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::time::Instant;

/// Browsers send less.
const MOST_BYTES: usize = 8 << 10;

/// What is wanted of a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    Get,
    Head,
    Post,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Request {
    pub method: Method,
    /// Up to the question mark, as it came.
    pub path: String,
    query: String,
    pub host: String,
    /// What the body is, in lower case and without what stands behind a semicolon.
    pub kind: String,
    /// The token, if it is not in the path.
    pub(super) bearer: Option<String>,
    /// The last line that a stream has brought before it broke.
    pub last_event: Option<u64>,
    length: usize,
    /// The sender waits for a word before it sends the body.
    waits: bool,
    pub body: Vec<u8>,
}

impl Request {
    /// Reads a request until a time, up to its body, with what of that has come already; or says what to answer to what
    /// is none.
    pub(super) fn read(
        connection: &mut TcpStream,
        most_body: usize,
        until: Instant,
    ) -> io::Result<Result<(Self, Vec<u8>), &'static str>> {
        let mut bytes = Vec::new();
        loop {
            let end = bytes.windows(4).position(|window| window == b"\r\n\r\n");
            if end.map_or(bytes.len(), |end| end + 4) > MOST_BYTES {
                return Ok(Err("431 Request Header Fields Too Large"));
            }
            if let Some(end) = end {
                let rest = bytes.split_off(end + 4);
                return Ok(Self::parse(&bytes, most_body).map(|request| (request, rest)));
            }
            take(connection, &mut bytes, until)?;
        }
    }

    /// Reads the body until a time; `begun` has come with the head.
    pub(super) fn read_body(
        &mut self,
        connection: &mut TcpStream,
        begun: Vec<u8>,
        until: Instant,
    ) -> io::Result<()> {
        self.body = begun;
        if self.waits && self.body.len() < self.length {
            connection.write_all(b"HTTP/1.1 100 Continue\r\n\r\n")?;
        }
        while self.body.len() < self.length {
            take(connection, &mut self.body, until)?;
        }
        self.body.truncate(self.length);
        Ok(())
    }

    pub(super) fn parse(bytes: &[u8], most_body: usize) -> Result<Self, &'static str> {
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
        let method = match method {
            "GET" => Method::Get,
            "HEAD" => Method::Head,
            "POST" if most_body > 0 => Method::Post,
            _ => return Err("405 Method Not Allowed"),
        };
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        if !path.starts_with('/') {
            return Err(bad);
        }
        let headers = Headers::of(lines)?;
        let request = Self {
            method,
            path: path.to_owned(),
            query: query.to_owned(),
            host: headers.host.ok_or(bad)?,
            kind: headers.kind,
            bearer: headers.bearer,
            last_event: headers.last_event,
            length: headers.length.unwrap_or(0),
            waits: headers.waits,
            body: Vec::new(),
        };
        match method {
            Method::Post if headers.is_chunked || headers.length.is_none() => Err("411 Length Required"),
            Method::Post if request.length > most_body => Err("413 Content Too Large"),
            Method::Get | Method::Head if headers.is_chunked || request.length > 0 => Err(bad),
            _ => Ok(request),
        }
    }

    /// All values of a key of the query.
    pub fn values(&self, key: &str) -> Vec<String> {
        let pairs = self.query.split('&').filter_map(|pair| pair.split_once('='));
        pairs.filter(|(name, _)| *name == key).filter_map(|(_, value)| decoded(value)).collect()
    }

    pub(crate) fn number(&self, key: &str) -> Option<u64> {
        self.values(key).first()?.parse().ok()
    }
}

/// Adds what comes next.
fn take(connection: &mut TcpStream, bytes: &mut Vec<u8>, until: Instant) -> io::Result<()> {
    let left = until.saturating_duration_since(Instant::now());
    if left.is_zero() {
        return Err(io::ErrorKind::TimedOut.into());
    }
    connection.set_read_timeout(Some(left))?;
    let mut part = [0; 16 << 10];
    let length = connection.read(&mut part)?;
    if length == 0 {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    bytes.extend_from_slice(&part[..length]);
    Ok(())
}

/// The headers that are looked at.
#[derive(Debug, Default)]
struct Headers {
    host: Option<String>,
    kind: String,
    bearer: Option<String>,
    last_event: Option<u64>,
    length: Option<usize>,
    is_chunked: bool,
    waits: bool,
}

impl Headers {
    /// A host or a length that is told twice means that two programs could read the request differently.
    fn of<'a>(lines: impl Iterator<Item = &'a str>) -> Result<Self, &'static str> {
        let bad = "400 Bad Request";
        let mut found = Self::default();
        for (name, value) in lines.filter_map(|line| line.split_once(':')) {
            let value = value.trim();
            match name.to_ascii_lowercase().as_str() {
                "host" if found.host.is_some() => return Err(bad),
                "host" => found.host = Some(value.to_owned()),
                "content-length" if found.length.is_some() => return Err(bad),
                "content-length" if !value.bytes().all(|byte| byte.is_ascii_digit()) => return Err(bad),
                "content-length" => found.length = Some(value.parse().map_err(|_| bad)?),
                "transfer-encoding" => found.is_chunked = true,
                "content-type" => {
                    let kind = value.split(';').next().unwrap_or_default();
                    found.kind = kind.trim().to_ascii_lowercase();
                }
                "authorization" => found.bearer = value.strip_prefix("Bearer ").map(str::to_owned),
                "expect" => found.waits = value.eq_ignore_ascii_case("100-continue"),
                "last-event-id" => found.last_event = value.parse().ok(),
                _ => {}
            }
        }
        Ok(found)
    }
}

/// Text with `%41` made `A`.
pub(crate) fn decoded(text: &str) -> Option<String> {
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

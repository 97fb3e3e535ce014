//! Numbers, strings and bytes, one after the other, with a checksum behind them.

use crate::error::{Error, Result};
use flate2::Crc;
use std::fmt;
use std::io::{self, BufRead, Write};
use std::ops::RangeInclusive;
use std::path::Path;

/// No name and no word is longer.
const STRING_LIMIT: u64 = 1 << 20;

/// Memory is asked for in steps of this size until that much has arrived.
const STEP: usize = 1 << 20;

/// So much is collected before it is written.
const BUFFER: usize = 1 << 16;

/// Writes to something that need not be buffered.
pub(crate) struct PackWriter<'a, W> {
    out: &'a mut W,
    buffer: Vec<u8>,
    checksum: Crc,
}

impl<'a, W: Write> PackWriter<'a, W> {
    pub(crate) fn new(out: &'a mut W) -> Self {
        Self { out, buffer: Vec::with_capacity(BUFFER), checksum: Crc::new() }
    }

    pub(crate) fn bytes(&mut self, bytes: &[u8]) -> io::Result<()> {
        for bytes in bytes.chunks(BUFFER) {
            if self.buffer.len() + bytes.len() > BUFFER {
                self.flush()?;
            }
            self.buffer.extend_from_slice(bytes);
        }
        Ok(())
    }

    /// Seven bits a byte, the lowest first; the eighth says that there are more.
    pub(crate) fn number(&mut self, mut number: u64) -> io::Result<()> {
        let (mut bytes, mut len) = ([0; 10], 0);
        while number >= 0x80 {
            bytes[len] = number as u8 | 0x80;
            number >>= 7;
            len += 1;
        }
        bytes[len] = number as u8;
        self.bytes(&bytes[..=len])
    }

    pub(crate) fn string(&mut self, string: &str) -> io::Result<()> {
        if string.len() as u64 > STRING_LIMIT {
            let message = format!("a word of {} bytes, at most {STRING_LIMIT} can be packed", string.len());
            return Err(io::Error::new(io::ErrorKind::InvalidInput, message));
        }
        self.number(string.len() as u64)?;
        self.bytes(string.as_bytes())
    }

    /// Writes the checksum and whatever is still here.
    pub(crate) fn finish(mut self) -> io::Result<()> {
        self.flush()?;
        self.out.write_all(&self.checksum.sum().to_le_bytes())?;
        self.out.flush()
    }

    fn flush(&mut self) -> io::Result<()> {
        self.checksum.update(&self.buffer);
        self.out.write_all(&self.buffer)?;
        self.buffer.clear();
        Ok(())
    }
}

/// Reads what a [`PackWriter`] wrote, and says at which byte something is wrong.
pub(crate) struct PackReader<'a, R> {
    source: &'a mut R,
    /// How many bytes were read.
    place: u64,
    checksum: Crc,
}

impl<'a, R: BufRead> PackReader<'a, R> {
    pub(crate) fn new(source: &'a mut R) -> Self {
        Self { source, place: 0, checksum: Crc::new() }
    }

    /// An error at the byte that was read last.
    pub(crate) fn wrong(&self, message: impl AsRef<str>) -> Error {
        Error::format(name(), format!("{} (byte {})", message.as_ref(), self.place))
    }

    /// A number that must be in the range.
    pub(crate) fn number(&mut self, what: impl fmt::Display, range: RangeInclusive<u64>) -> Result<u64> {
        let mut number = 0u64;
        for shift in (0..64).step_by(7) {
            let mut byte = [0];
            self.fill(&mut byte)?;
            let bits = u64::from(byte[0] & 0x7F);
            // Of the tenth byte only one bit has room.
            if bits << shift >> shift != bits {
                break;
            }
            number |= bits << shift;
            if byte[0] < 0x80 {
                return if range.contains(&number) {
                    Ok(number)
                } else {
                    Err(self.beyond(what, number, &range))
                };
            }
        }
        Err(self.wrong(format!("{what} has more than 64 bits")))
    }

    fn beyond(&self, what: impl fmt::Display, number: u64, range: &RangeInclusive<u64>) -> Error {
        self.wrong(format!("{what} is {number}, expected {} to {}", range.start(), range.end()))
    }

    pub(crate) fn string(&mut self, what: &str) -> Result<String> {
        let len = self.number(format_args!("the length of {what}"), 0..=STRING_LIMIT)?;
        let bytes = self.bytes(len)?;
        String::from_utf8(bytes).map_err(|_| self.wrong(format!("{what} is not valid UTF-8")))
    }

    /// So many bytes. The memory for them at most doubles with what has arrived, and ends as large as they are.
    pub(crate) fn bytes(&mut self, len: u64) -> Result<Vec<u8>> {
        let len =
            usize::try_from(len).map_err(|_| self.wrong(format!("{len} bytes do not fit into memory")))?;
        let mut bytes = Vec::new();
        while bytes.len() < len {
            let start = bytes.len();
            if start == bytes.capacity() {
                bytes.reserve_exact((len - start).min(start.max(STEP)));
            }
            bytes.resize(len.min(start + STEP).min(bytes.capacity()), 0);
            self.fill(&mut bytes[start..])?;
        }
        Ok(bytes)
    }

    /// Reads the checksum, which must be that of everything before it.
    pub(crate) fn finish(&mut self) -> Result<()> {
        let expect = self.checksum.sum();
        let mut found = [0; 4];
        self.fill(&mut found)?;
        if u32::from_le_bytes(found) != expect {
            return Err(self.wrong("does not have its checksum: some bytes were changed on their way"));
        }
        Ok(())
    }

    fn fill(&mut self, bytes: &mut [u8]) -> Result<()> {
        self.source.read_exact(bytes).map_err(|source| match source.kind() {
            io::ErrorKind::UnexpectedEof => {
                self.wrong(format!("breaks off where {} more bytes belong", bytes.len()))
            }
            _ => Error::io(name())(source),
        })?;
        self.checksum.update(bytes);
        self.place += bytes.len() as u64;
        Ok(())
    }
}

/// What stands in an error where other data have the name of their file.
fn name() -> &'static Path {
    Path::new("packed data")
}

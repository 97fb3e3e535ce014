use std::io::{self, IoSliceMut, Read};
use std::net::TcpStream;
use std::ops::Range;
use std::sync::Arc;

use super::hearing::Hearing;
use super::records::{Opened, Opener, SEALED_BYTES};

/// How much is read ahead of a frame's head. All but the first of a payload goes from the socket to its own place.
const AHEAD_BYTES: usize = 16 << 10;

/// How much is read before it is opened.
const SEALED_AHEAD_BYTES: usize = 8 * SEALED_BYTES;

/// The incoming half of a link: what comes out of its socket.
#[derive(Debug)]
pub(super) struct Source {
    socket: Arc<TcpStream>,
    hearing: Arc<Hearing>,
    opener: Option<Opener>,
    memory: Vec<u8>,
    /// What is to be taken next.
    ready: Range<usize>,
    /// What came behind it, and is not opened yet.
    sealed: Range<usize>,
}

impl Source {
    /// Of some bytes have come already.
    pub(super) fn new(
        socket: Arc<TcpStream>,
        hearing: Arc<Hearing>,
        opener: Option<Opener>,
        came: &[u8],
    ) -> Self {
        let len = if opener.is_some() { SEALED_AHEAD_BYTES } else { AHEAD_BYTES };
        let mut memory = vec![0; len.max(came.len())];
        memory[..came.len()].copy_from_slice(came);
        let (ready, sealed) = match opener {
            Some(_) => (0..0, 0..came.len()),
            None => (0..came.len(), 0..0),
        };
        Self { socket, hearing, opener, memory, ready, sealed }
    }

    /// What has come; nothing only after the last. Waits for it.
    pub(super) fn ahead(&mut self) -> io::Result<&[u8]> {
        while self.ready.is_empty() {
            let has_more = match self.opener {
                Some(_) => self.open()?,
                None => {
                    let n = self.hearing.listen(|| (&*self.socket).read(&mut self.memory))?;
                    self.ready = 0..n;
                    n > 0
                }
            };
            if !has_more {
                break;
            }
        }
        Ok(&self.memory[self.ready.clone()])
    }

    /// So much of what has come is done with.
    pub(super) fn take(&mut self, n: usize) {
        self.ready.start += n;
    }

    /// Reads straight into a place, if nothing is ahead and it need not be opened first. None at the end.
    pub(super) fn read_into(&mut self, place: &mut [u8]) -> io::Result<Option<usize>> {
        let len = place.len();
        let mut parts = [IoSliceMut::new(place), IoSliceMut::new(&mut self.memory)];
        let n = self.hearing.listen(|| (&*self.socket).read_vectored(&mut parts))?;
        self.ready = 0..n.saturating_sub(len);
        Ok((n > 0).then_some(n.min(len)))
    }

    /// Whether payloads can be read into their places.
    pub(super) fn is_open(&self) -> bool {
        self.opener.is_none() && self.ready.is_empty()
    }

    /// Opens the next record, reading what it takes. False at the end.
    fn open(&mut self) -> io::Result<bool> {
        let Some(opener) = &mut self.opener else { return Ok(false) };
        loop {
            let start = self.sealed.start;
            match opener.open(&mut self.memory[self.sealed.clone()])? {
                Opened::Record { len, content } => {
                    self.ready = start + content.start..start + content.end;
                    self.sealed.start += len;
                    return Ok(true);
                }
                Opened::Part => {
                    self.memory.copy_within(self.sealed.clone(), 0);
                    self.sealed = 0..self.sealed.len();
                    let place = &mut self.memory[self.sealed.end..];
                    let n = self.hearing.listen(|| (&*self.socket).read(place))?;
                    if n == 0 {
                        return Ok(false);
                    }
                    self.sealed.end += n;
                }
            }
        }
    }
}

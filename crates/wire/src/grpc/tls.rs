//! A connection under TLS, after its handshake.

use std::io::{self, IoSlice};
use std::ops::Range;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use rustls::kernel::KernelConnection;
use rustls::{ConnectionTrafficSecrets, ExtractedSecrets};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::pulse::WatchedStream;
use super::records::{
    ALERT, CONTENT_BYTES, DATA, HANDSHAKE, OVERHEAD_BYTES, RecordKey, first_record, garbled,
};

/// Bytes go through it in records. Where there is room for many, these are read into the place where their content is
/// wanted, and opened there.
pub(crate) struct TlsStream {
    io: WatchedStream,
    keys: Box<dyn NextKeys>,
    opening: RecordKey,
    sealing: RecordKey,
    /// What was read and is not wanted yet: contents of a record, then records.
    memory: Vec<u8>,
    plain: Range<usize>,
    sealed: Range<usize>,
    /// How many reads were into `memory` since the last one to where the content is wanted.
    reads_apart: u32,
    /// Records to write, and how much of them is written.
    outgoing: Vec<u8>,
    written: usize,
    /// The peer wants this side to change its key.
    must_change: bool,
    is_closed: bool,
    /// The peer has said that nothing more comes.
    is_over: bool,
}

/// Where the keys come from when some are used up.
pub(super) trait NextKeys: Send {
    fn sealing(&mut self) -> Result<(u64, ConnectionTrafficSecrets), rustls::Error>;
    fn opening(&mut self) -> Result<(u64, ConnectionTrafficSecrets), rustls::Error>;
}

impl<Data: Send> NextKeys for KernelConnection<Data> {
    fn sealing(&mut self) -> Result<(u64, ConnectionTrafficSecrets), rustls::Error> {
        self.update_tx_secret()
    }

    fn opening(&mut self) -> Result<(u64, ConnectionTrafficSecrets), rustls::Error> {
        self.update_rx_secret()
    }
}

/// How much is read at a time where few bytes are wanted.
const READ_BYTES: usize = 128 << 10;

/// From so much room on, records are read into it.
const ROOM_BYTES: usize = 64 << 10;

/// Any record fits.
const RECORD_BYTES: usize = CONTENT_BYTES + OVERHEAD_BYTES;

/// Between two payloads with much room there may be so many reads without: of the end of one and the head of the next.
/// These read no more than a record, because what is read ahead of its room has to be copied.
const READS_BETWEEN: u32 = 2;

/// How much is sealed before it is written.
const SEALED_BYTES: usize = 256 << 10;

/// So many records are sealed with one key: half of what is safe with AES-GCM.
const KEY_RECORDS: u64 = 1 << 23;

const CLOSE_NOTIFY: u8 = 0;
const NEW_SESSION_TICKET: u8 = 4;
const KEY_UPDATE: u8 = 24;

impl TlsStream {
    /// After a handshake in which this was heard already: contents, then records.
    pub(super) fn new(
        io: WatchedStream,
        secrets: ExtractedSecrets,
        keys: Box<dyn NextKeys>,
        plain: &[u8],
        sealed: &[u8],
    ) -> io::Result<Self> {
        Ok(Self {
            io,
            keys,
            opening: RecordKey::new(secrets.rx)?,
            sealing: RecordKey::new(secrets.tx)?,
            memory: [plain, sealed].concat(),
            plain: 0..plain.len(),
            sealed: plain.len()..plain.len() + sealed.len(),
            reads_apart: READS_BETWEEN,
            outgoing: Vec::new(),
            written: 0,
            must_change: false,
            is_closed: false,
            is_over: false,
        })
    }

    /// Opens a record. Of what is for this side itself nothing is left.
    fn open(&mut self, memory: &mut [u8], to: usize, record: Range<usize>) -> io::Result<usize> {
        let (kind, len) = self.opening.open(memory, to, record)?;
        let content = &memory[to..to + len];
        match (kind, content) {
            (DATA, _) => return Ok(len),
            (ALERT, [_, CLOSE_NOTIFY]) => self.is_over = true,
            (ALERT, _) => return Err(garbled("an alert")),
            (HANDSHAKE, [KEY_UPDATE, 0, 0, 1, wants @ 0..=1]) => {
                self.opening = RecordKey::new(self.keys.opening().map_err(io::Error::other)?)?;
                self.must_change |= *wants == 1;
            }
            // Nobody resumes sessions here.
            (HANDSHAKE, [NEW_SESSION_TICKET, ..]) => {}
            _ => return Err(garbled("a record that is not expected")),
        }
        Ok(0)
    }

    /// Opens the first of the records that were read, if it is whole.
    fn open_next(&mut self) -> io::Result<bool> {
        let Some(len) = first_record(&self.memory[self.sealed.clone()])? else { return Ok(false) };
        let record = self.sealed.start..self.sealed.start + len;
        let mut memory = std::mem::take(&mut self.memory);
        let opened = self.open(&mut memory, record.start, record.clone());
        self.memory = memory;
        self.plain = record.start..record.start + opened?;
        self.sealed.start = record.end;
        Ok(true)
    }

    /// Reads behind what is left of a record.
    fn poll_more(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.memory.copy_within(self.sealed.clone(), 0);
        self.sealed = 0..self.sealed.len();
        let is_short = self.reads_apart < READS_BETWEEN || !self.io.is_known();
        let wanted = if is_short { RECORD_BYTES } else { READ_BYTES };
        if self.memory.len() < wanted {
            self.memory.resize(wanted, 0);
        }
        let mut place = ReadBuf::new(&mut self.memory[self.sealed.end..wanted]);
        ready!(Pin::new(&mut self.io).poll_read(context, &mut place))?;
        self.reads_apart = self.reads_apart.saturating_add(1);
        match place.filled().len() {
            0 => Poll::Ready(Err(io::ErrorKind::UnexpectedEof.into())),
            n => {
                self.sealed.end += n;
                Poll::Ready(Ok(()))
            }
        }
    }

    /// Reads records to where their content is wanted. What is left of the last one is kept.
    fn poll_into(&mut self, context: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let start = buffer.filled().len();
        buffer.put_slice(&self.memory[self.sealed.clone()]);
        let before = buffer.filled().len();
        let read = Pin::new(&mut self.io).poll_read(context, buffer);
        let came = buffer.filled().len() - before;
        if came == 0 {
            buffer.set_filled(start);
            return read.map(|read| read.and(Err(io::ErrorKind::UnexpectedEof.into())));
        }
        self.reads_apart = 0;
        let memory = &mut buffer.filled_mut()[start..];
        let (mut from, mut to) = (0, 0);
        while !self.is_over
            && let Some(len) = first_record(&memory[from..])?
        {
            to += self.open(memory, to, from..from + len)?;
            from += len;
        }
        let rest = &memory[from..];
        if self.memory.len() < rest.len() {
            self.memory.resize(rest.len(), 0);
        }
        self.memory[..rest.len()].copy_from_slice(rest);
        self.sealed = 0..rest.len();
        buffer.set_filled(start + to);
        Poll::Ready(Ok(()))
    }

    /// Seals some of what is to be sent. Returns how much.
    fn seal(&mut self, parts: &[IoSlice<'_>]) -> io::Result<usize> {
        self.outgoing.clear();
        self.written = 0;
        let mut parts = parts.iter().map(|part| &part[..]).filter(|part| !part.is_empty());
        let mut part = parts.next().unwrap_or_default();
        let mut sealed = 0;
        while !part.is_empty() && self.outgoing.len() + CONTENT_BYTES < SEALED_BYTES {
            if self.must_change || self.sealing.count() >= KEY_RECORDS {
                self.change_key()?;
            }
            let (mut record, mut room) = ([&[][..]; 4], CONTENT_BYTES);
            for place in &mut record {
                let later;
                (*place, later) = part.split_at(part.len().min(room));
                room -= place.len();
                part = if later.is_empty() { parts.next().unwrap_or_default() } else { later };
            }
            self.sealing.seal(DATA, record.into_iter(), &mut self.outgoing)?;
            sealed += CONTENT_BYTES - room;
        }
        Ok(sealed)
    }

    fn change_key(&mut self) -> io::Result<()> {
        self.sealing.seal(HANDSHAKE, [&[KEY_UPDATE, 0, 0, 1, 0][..]].into_iter(), &mut self.outgoing)?;
        self.sealing = RecordKey::new(self.keys.sealing().map_err(io::Error::other)?)?;
        self.must_change = false;
        Ok(())
    }

    /// Writes the records that are sealed.
    fn poll_drain(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        while self.written < self.outgoing.len() {
            let left = &self.outgoing[self.written..];
            match ready!(Pin::new(&mut self.io).poll_write(context, left))? {
                0 => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                n => self.written += n,
            }
        }
        Poll::Ready(Ok(()))
    }
}

impl AsyncRead for TlsStream {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let start = buffer.filled().len();
        while buffer.filled().len() == start && buffer.remaining() > 0 {
            if !this.plain.is_empty() {
                let n = this.plain.len().min(buffer.remaining());
                buffer.put_slice(&this.memory[this.plain.start..this.plain.start + n]);
                this.plain.start += n;
            } else if this.is_over {
                break;
            } else if !this.open_next()? {
                let least = if this.reads_apart == 0 { RECORD_BYTES } else { ROOM_BYTES };
                let has_room = buffer.remaining() >= least && this.io.is_known();
                ready!(if has_room { this.poll_into(context, buffer) } else { this.poll_more(context) })?;
            }
        }
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for TlsStream {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.poll_write_vectored(context, &[IoSlice::new(bytes)])
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        parts: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        ready!(this.poll_drain(context))?;
        let sealed = this.seal(parts)?;
        // What is sealed counts as sent; if there is no room for it now, the next call writes it.
        if let Poll::Ready(Err(error)) = this.poll_drain(context) {
            return Poll::Ready(Err(error));
        }
        Poll::Ready(Ok(sealed))
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        ready!(this.poll_drain(context))?;
        Pin::new(&mut this.io).poll_flush(context)
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        if !this.is_closed {
            this.is_closed = true;
            this.sealing.seal(ALERT, [&[1, CLOSE_NOTIFY][..]].into_iter(), &mut this.outgoing)?;
        }
        ready!(this.poll_drain(context))?;
        Pin::new(&mut this.io).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests;

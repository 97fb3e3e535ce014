use std::fmt;

use bytes::{Buf, BufMut, Bytes, BytesMut};
use prost::Message;

use crate::pool::{PayloadBuffer, PayloadPool};
use crate::proto::{self, frame::Body};

/// The largest control part of a frame: all but its payload.
const MAX_CONTROL_BYTES: usize = 1 << 20;

/// One message: what it says, and the numbers that go with it.
#[derive(Clone, Debug, PartialEq)]
pub struct Frame {
    /// What the message says.
    pub body: Body,
    /// Its numbers, often none.
    pub payload: Bytes,
}

impl Frame {
    /// A frame without a payload.
    pub fn bare(body: Body) -> Self {
        Self { body, payload: Bytes::new() }
    }

    /// How long the frame is on the wire, from its gRPC prefix to the last byte of its payload.
    pub fn wire_len(&self) -> usize {
        PREFIX_BYTES + self.body.encoded_len() + payload_head_len(self.payload.len()) + self.payload.len()
    }

    /// All of the frame's bytes up to its payload, which follows as it is: it need not be copied to be framed.
    pub(crate) fn encode_head(&self) -> Bytes {
        let head_len = PREFIX_BYTES + self.body.encoded_len() + payload_head_len(self.payload.len());
        let message_len = head_len - PREFIX_BYTES + self.payload.len();
        assert!(message_len <= u32::MAX as usize, "a payload of {} bytes is too long", self.payload.len());
        let mut head = BytesMut::with_capacity(head_len);
        head.put_u8(0);
        head.put_u32(message_len as u32);
        self.body.encode(&mut head);
        if !self.payload.is_empty() {
            prost::encoding::encode_varint(PAYLOAD_KEY, &mut head);
            prost::encoding::encode_varint(self.payload.len() as u64, &mut head);
        }
        head.freeze()
    }
}

impl From<Body> for Frame {
    fn from(body: Body) -> Self {
        Self::bare(body)
    }
}

/// gRPC puts before each message whether it is compressed, and its length.
const PREFIX_BYTES: usize = 5;

/// The smallest payload that may stay where it came: it keeps all the memory around it, which HTTP/2 takes in blocks of
/// 64 KiB for frames that are smaller.
const SHARED_BYTES: usize = 64 << 10;

const LENGTH_DELIMITED: u64 = 2;
const PAYLOAD_KEY: u64 = 2047 << 3 | LENGTH_DELIMITED;

fn payload_head_len(payload_len: usize) -> usize {
    match payload_len {
        0 => 0,
        len => {
            prost::encoding::encoded_len_varint(PAYLOAD_KEY) + prost::encoding::encoded_len_varint(len as u64)
        }
    }
}

/// Why bytes are not a frame that may come.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum FrameError {
    /// It is no frame.
    Garbled(&'static str),
    /// It is longer than what is accepted now.
    TooLarge { bytes: u64, limit: usize },
}

impl fmt::Display for FrameError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Garbled(what) => write!(f, "a malformed frame: {what}"),
            Self::TooLarge { bytes, limit } => {
                write!(f, "a frame with {bytes} bytes where at most {limit} are accepted")
            }
        }
    }
}

/// Takes frames out of the bytes of a gRPC stream, however these are cut.
///
/// The payload is copied once, from what came from the socket to a buffer of its own, where it is aligned. Only that of
/// a ring's piece, which is read as bytes, stays where it came. No other part is large. Every length is compared with
/// its limit before there is memory for it.
#[derive(Debug)]
pub(crate) struct Decoder {
    pool: PayloadPool,
    state: DecoderState,
    /// How much of the message is still to come.
    remaining: usize,
    message_len: usize,
    varint: Varint,
    control: BytesMut,
    payload: Bytes,
}

#[derive(Debug)]
enum DecoderState {
    Prefix { bytes: [u8; PREFIX_BYTES], filled: usize },
    Key,
    Length { key: u64 },
    Control { left: usize },
    Payload { len: usize },
    PartOfPayload { buffer: PayloadBuffer, filled: usize },
    SkippedVarint,
    Skipped { left: usize },
}

impl DecoderState {
    const START: Self = Self::Prefix { bytes: [0; PREFIX_BYTES], filled: 0 };
}

/// A number of up to ten bytes, of which some may not have come.
#[derive(Debug, Default)]
struct Varint {
    value: u64,
    shift: u32,
}

impl Varint {
    fn push(&mut self, byte: u8) -> Result<Option<u64>, FrameError> {
        if self.shift >= 63 && byte > 1 {
            return Err(FrameError::Garbled("a number does not end"));
        }
        self.value |= u64::from(byte & 0x7f) << self.shift;
        self.shift += 7;
        if byte & 0x80 != 0 {
            return Ok(None);
        }
        Ok(Some(std::mem::take(self).value))
    }
}

impl Decoder {
    pub(crate) fn new(pool: PayloadPool) -> Self {
        Self {
            pool,
            state: DecoderState::START,
            remaining: 0,
            message_len: 0,
            varint: Varint::default(),
            control: BytesMut::new(),
            payload: Bytes::new(),
        }
    }

    /// Whether all that came made whole frames.
    pub(crate) fn is_between_frames(&self) -> bool {
        matches!(self.state, DecoderState::Prefix { filled: 0, .. })
    }

    /// The next frame and its length on the wire, as soon as all of it has come. Takes from `input` only what it needs.
    pub(crate) fn next(
        &mut self,
        input: &mut Bytes,
        payload_limit: usize,
    ) -> Result<Option<(Frame, usize)>, FrameError> {
        loop {
            let in_message = !matches!(self.state, DecoderState::Prefix { .. });
            if in_message && self.remaining == 0 {
                return self.finish().map(Some);
            }
            if input.is_empty() {
                return Ok(None);
            }
            self.step(input, payload_limit)?;
        }
    }

    fn step(&mut self, input: &mut Bytes, payload_limit: usize) -> Result<(), FrameError> {
        match &mut self.state {
            DecoderState::Prefix { bytes, filled } => {
                let n = input.len().min(PREFIX_BYTES - *filled);
                input.copy_to_slice(&mut bytes[*filled..*filled + n]);
                *filled += n;
                if *filled == PREFIX_BYTES {
                    let [flag, a, b, c, d] = *bytes;
                    self.begin(flag, u32::from_be_bytes([a, b, c, d]), payload_limit)?;
                }
            }
            DecoderState::Key => {
                if let Some(key) = self.number(input)? {
                    self.field(key)?;
                }
            }
            DecoderState::Length { key } => {
                let key = *key;
                if let Some(len) = self.number(input)? {
                    self.content(key, len, payload_limit)?;
                }
            }
            DecoderState::SkippedVarint => {
                if self.number(input)?.is_some() {
                    self.state = DecoderState::Key;
                }
            }
            DecoderState::Payload { len } => {
                let len = *len;
                self.place(input, len);
            }
            DecoderState::Control { .. }
            | DecoderState::PartOfPayload { .. }
            | DecoderState::Skipped { .. } => self.fill(input),
        }
        Ok(())
    }

    fn begin(&mut self, flag: u8, len: u32, payload_limit: usize) -> Result<(), FrameError> {
        if flag != 0 {
            return Err(FrameError::Garbled("it is compressed, which no one asked for"));
        }
        let limit = payload_limit.saturating_add(MAX_CONTROL_BYTES);
        if len as usize > limit {
            return Err(FrameError::TooLarge { bytes: u64::from(len), limit: payload_limit });
        }
        (self.message_len, self.remaining) = (len as usize, len as usize);
        self.state = DecoderState::Key;
        Ok(())
    }

    /// One more byte of a number.
    fn number(&mut self, input: &mut Bytes) -> Result<Option<u64>, FrameError> {
        self.remaining -= 1;
        self.varint.push(input.get_u8())
    }

    fn field(&mut self, key: u64) -> Result<(), FrameError> {
        // Whatever is not of known length in advance is a field of a later version: all of today's are.
        self.state = match key & 7 {
            0 => DecoderState::SkippedVarint,
            1 => DecoderState::Skipped { left: 8 },
            LENGTH_DELIMITED => DecoderState::Length { key },
            5 => DecoderState::Skipped { left: 4 },
            _ => return Err(FrameError::Garbled("a field is of no known kind")),
        };
        match self.state {
            DecoderState::Skipped { left } if left > self.remaining => {
                Err(FrameError::Garbled("a field is longer than the frame"))
            }
            _ => Ok(()),
        }
    }

    fn content(&mut self, key: u64, len: u64, payload_limit: usize) -> Result<(), FrameError> {
        if len > self.remaining as u64 {
            return Err(FrameError::Garbled("a field is longer than the frame"));
        }
        let size = len as usize;
        if key == PAYLOAD_KEY {
            if size > payload_limit {
                return Err(FrameError::TooLarge { bytes: len, limit: payload_limit });
            }
            self.payload = Bytes::new();
            self.state = if size == 0 { DecoderState::Key } else { DecoderState::Payload { len: size } };
            return Ok(());
        }
        if self.control.len() + size + 20 > MAX_CONTROL_BYTES {
            return Err(FrameError::TooLarge { bytes: len, limit: MAX_CONTROL_BYTES });
        }
        prost::encoding::encode_varint(key, &mut self.control);
        prost::encoding::encode_varint(len, &mut self.control);
        self.state = if size == 0 { DecoderState::Key } else { DecoderState::Control { left: size } };
        Ok(())
    }

    /// Leaves a payload where it came, if all of it is there and it may stay, or finds it another place.
    fn place(&mut self, input: &mut Bytes, len: usize) {
        if input.len() < len || len < SHARED_BYTES || !self.is_piece() {
            self.state = DecoderState::PartOfPayload { buffer: self.pool.take(len), filled: 0 };
            return;
        }
        self.payload = input.split_to(len);
        self.remaining -= len;
        self.state = DecoderState::Key;
    }

    /// Whether what has come of the frame says that it is a piece of a ring's sum.
    fn is_piece(&self) -> bool {
        let control = proto::Frame::decode(&self.control[..]);
        matches!(control, Ok(proto::Frame { body: Some(Body::Piece(_)), .. }))
    }

    /// Moves what has come of a field's content.
    fn fill(&mut self, input: &mut Bytes) {
        let (left, n);
        match &mut self.state {
            DecoderState::Control { left: wanted } => {
                n = input.len().min(*wanted);
                self.control.put_slice(&input[..n]);
                *wanted -= n;
                left = *wanted;
            }
            DecoderState::PartOfPayload { buffer, filled } => {
                n = input.len().min(buffer.len() - *filled);
                buffer.write(*filled, &input[..n]);
                *filled += n;
                left = buffer.len() - *filled;
            }
            DecoderState::Skipped { left: wanted } => {
                n = input.len().min(*wanted);
                *wanted -= n;
                left = *wanted;
            }
            _ => return,
        }
        input.advance(n);
        self.remaining -= n;
        if left == 0
            && let DecoderState::PartOfPayload { buffer, .. } =
                std::mem::replace(&mut self.state, DecoderState::Key)
        {
            self.payload = buffer.freeze();
        }
    }

    fn finish(&mut self) -> Result<(Frame, usize), FrameError> {
        if !matches!(self.state, DecoderState::Key) || self.varint.shift != 0 {
            return Err(FrameError::Garbled("a field is longer than the frame"));
        }
        self.state = DecoderState::START;
        let control = self.control.split().freeze();
        let payload = std::mem::take(&mut self.payload);
        let message =
            proto::Frame::decode(control).map_err(|_| FrameError::Garbled("its fields do not parse"))?;
        let body = message.body.ok_or(FrameError::Garbled("it says nothing that is known here"))?;
        Ok((Frame { body, payload }, PREFIX_BYTES + self.message_len))
    }
}

#[cfg(test)]
mod tests;

//! What is said beside frames: that one is alive, and that nothing more comes.
//!
//! A frame begins with a zero and its length; these with another byte and the length of what follows.

use std::ops::ControlFlow;

use bytes::{Buf, BufMut, Bytes, BytesMut};

use super::outgoing::FrameBytes;

const ALIVE: u8 = 2;
const END: u8 = 3;

const PREFIX_BYTES: usize = 5;

/// No reason is longer.
const MOST_REASON: usize = 1 << 10;

pub(super) fn alive() -> FrameBytes {
    sign(ALIVE, "")
}

/// The end, and why if something was wrong.
pub(super) fn end(refusal: Option<&str>) -> FrameBytes {
    let reason = refusal.unwrap_or_default();
    sign(END, reason.get(..MOST_REASON).unwrap_or(reason))
}

fn sign(kind: u8, text: &str) -> FrameBytes {
    let mut bytes = BytesMut::with_capacity(PREFIX_BYTES + text.len());
    bytes.put_u8(kind);
    bytes.put_u32(text.len() as u32);
    bytes.put_slice(text.as_bytes());
    bytes.freeze().chain(Bytes::new())
}

/// A sign that may have come in part.
#[derive(Debug, Default)]
pub(super) struct Signs {
    came: Vec<u8>,
}

/// The other side says no more; with a reason if it did not like what it heard.
#[derive(Debug, PartialEq)]
pub(super) enum End {
    InOrder,
    Refused(String),
    /// What it said is neither a frame nor a sign.
    Garbled,
}

impl Signs {
    /// Takes signs from the beginning of what came between two frames. Breaks at the end.
    pub(super) fn take(&mut self, bytes: &mut &[u8]) -> ControlFlow<End> {
        while !self.came.is_empty() || matches!(bytes.first(), Some(&(ALIVE | END))) {
            let wanted = match self.came.first_chunk::<PREFIX_BYTES>() {
                None => PREFIX_BYTES,
                Some([_, len @ ..]) => PREFIX_BYTES + u32::from_be_bytes(*len) as usize,
            };
            if wanted > PREFIX_BYTES + MOST_REASON {
                return ControlFlow::Break(End::Garbled);
            }
            let n = bytes.len().min(wanted - self.came.len());
            self.came.extend_from_slice(&bytes[..n]);
            bytes.advance(n);
            match &self.came[..] {
                [ALIVE, 0, 0, 0, 0] => self.came.clear(),
                [END, 0, 0, 0, 0] => return ControlFlow::Break(End::InOrder),
                [END, _, _, _, _, reason @ ..] if !reason.is_empty() && self.came.len() == wanted => {
                    return ControlFlow::Break(End::Refused(String::from_utf8_lossy(reason).into_owned()));
                }
                [ALIVE, _, _, _, _, ..] => return ControlFlow::Break(End::Garbled),
                _ if bytes.is_empty() => break,
                _ => {}
            }
        }
        ControlFlow::Continue(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is left of the bytes, and how it went.
    fn take(signs: &mut Signs, bytes: &[u8]) -> (usize, ControlFlow<End>) {
        let mut rest = bytes;
        let taken = signs.take(&mut rest);
        (rest.len(), taken)
    }

    fn bytes(mut sign: FrameBytes) -> Bytes {
        sign.copy_to_bytes(sign.remaining())
    }

    #[test]
    fn signs_come_back_however_they_are_cut() {
        let all = [&bytes(alive())[..], &bytes(alive()), &bytes(end(Some("a malformed frame")))].concat();
        for size in 1..=all.len() {
            let (mut signs, mut last) = (Signs::default(), ControlFlow::Continue(()));
            for piece in all.chunks(size) {
                assert!(last.is_continue());
                last = take(&mut signs, piece).1;
            }
            assert_eq!(last, ControlFlow::Break(End::Refused("a malformed frame".to_owned())), "by {size}");
        }
        assert_eq!(take(&mut Signs::default(), &bytes(end(None))), (0, ControlFlow::Break(End::InOrder)));
    }

    #[test]
    fn frames_are_left_alone_and_vast_signs_refused() {
        let frame = [&bytes(alive())[..], &[0, 0, 0, 0, 9]].concat();
        assert_eq!(take(&mut Signs::default(), &frame), (5, ControlFlow::Continue(())));
        for vast in [[3, 0xff, 0, 0, 0], [2, 0, 0, 0, 1]] {
            let (mut signs, more) = (Signs::default(), [&vast[..], &[0; 9]].concat());
            assert_eq!(take(&mut signs, &more).1, ControlFlow::Break(End::Garbled));
        }
    }
}

//! Records of TLS 1.3 after the handshake, sealed and opened where they lie.
//!
//! rustls's own streams copy every byte three times on its way in, and take memory for every record: with large
//! payloads that costs more than the cipher. So rustls does the handshake and makes all keys, and this is what is left:
//! a record is a head, a sealed content and a tag (RFC 8446, 5.2).

use std::io;
use std::ops::Range;

use ring::aead::{AES_128_GCM, Aad, CHACHA20_POLY1305, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use rustls::ConnectionTrafficSecrets;

/// The most that a record holds.
pub(super) const CONTENT_BYTES: usize = 16 << 10;

/// A record's kind, version and length.
pub(super) const HEAD_BYTES: usize = 5;

/// What a record may be longer than its content.
pub(super) const OVERHEAD_BYTES: usize = HEAD_BYTES + 256;

const TAG_BYTES: usize = 16;

/// What is in a record. From outside all are of the last kind.
pub(super) const ALERT: u8 = 21;
pub(super) const HANDSHAKE: u8 = 22;
pub(super) const DATA: u8 = 23;

/// The key of one direction.
pub(super) struct RecordKey {
    key: LessSafeKey,
    iv: [u8; NONCE_LEN],
    /// How many records it has sealed or opened.
    count: u64,
}

impl RecordKey {
    pub(super) fn new((count, secrets): (u64, ConnectionTrafficSecrets)) -> io::Result<Self> {
        let (algorithm, key, iv) = match &secrets {
            ConnectionTrafficSecrets::Aes128Gcm { key, iv } => (&AES_128_GCM, key, iv),
            ConnectionTrafficSecrets::Chacha20Poly1305 { key, iv } => (&CHACHA20_POLY1305, key, iv),
            _ => return Err(io::Error::other("a cipher that nobody has offered")),
        };
        let key =
            UnboundKey::new(algorithm, key.as_ref()).map_err(|_| io::Error::other("a key of no length"))?;
        let iv = iv.as_ref().try_into().map_err(|_| io::Error::other("a nonce of no length"))?;
        Ok(Self { key: LessSafeKey::new(key), iv, count })
    }

    pub(super) fn count(&self) -> u64 {
        self.count
    }

    /// Every record has its own.
    fn nonce(&mut self) -> Nonce {
        let mut nonce = self.iv;
        let places = nonce[NONCE_LEN - 8..].iter_mut();
        places.zip(self.count.to_be_bytes()).for_each(|(place, byte)| *place ^= byte);
        self.count += 1;
        Nonce::assume_unique_for_key(nonce)
    }

    /// Appends a record with a content that comes in parts.
    pub(super) fn seal<'a>(
        &mut self,
        kind: u8,
        content: impl Iterator<Item = &'a [u8]>,
        out: &mut Vec<u8>,
    ) -> io::Result<()> {
        let start = out.len();
        out.extend_from_slice(&[DATA, 3, 3, 0, 0]);
        content.for_each(|part| out.extend_from_slice(part));
        out.push(kind);
        let len = out.len() - start - HEAD_BYTES + TAG_BYTES;
        let head = [DATA, 3, 3, (len >> 8) as u8, len as u8];
        out[start..start + HEAD_BYTES].copy_from_slice(&head);
        let nonce = self.nonce();
        let sealed =
            self.key.seal_in_place_separate_tag(nonce, Aad::from(head), &mut out[start + HEAD_BYTES..]);
        out.extend_from_slice(
            sealed.map_err(|_| io::Error::other("a record that cannot be sealed"))?.as_ref(),
        );
        Ok(())
    }

    /// Opens a record. Its content begins at a place that is not behind the record's beginning. Returns its kind and
    /// how long it is.
    pub(super) fn open(
        &mut self,
        memory: &mut [u8],
        to: usize,
        record: Range<usize>,
    ) -> io::Result<(u8, usize)> {
        let mut head = [0; HEAD_BYTES];
        head.copy_from_slice(&memory[record.start..record.start + HEAD_BYTES]);
        let sealed = record.start + HEAD_BYTES - to..;
        let nonce = self.nonce();
        let opened = self.key.open_within(nonce, Aad::from(head), &mut memory[to..record.end], sealed);
        let opened = opened.map_err(|_| garbled("a record that was changed on its way"))?;
        // The kind follows the content, and zeros may follow the kind.
        let last =
            opened.iter().rposition(|byte| *byte != 0).ok_or_else(|| garbled("a record of no kind"))?;
        if last > CONTENT_BYTES {
            return Err(garbled("a record that is too long"));
        }
        Ok((opened[last], last))
    }
}

/// How long the first record of some bytes is, if all of it is there.
pub(super) fn first_record(bytes: &[u8]) -> io::Result<Option<usize>> {
    let Some(&[kind, _, _, high, low]) = bytes.first_chunk() else { return Ok(None) };
    let len = HEAD_BYTES + usize::from(u16::from_be_bytes([high, low]));
    if kind != DATA || len > CONTENT_BYTES + OVERHEAD_BYTES {
        return Err(garbled("what is no record"));
    }
    Ok((bytes.len() >= len).then_some(len))
}

pub(super) fn garbled(what: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("TLS: the peer sent {what}"))
}

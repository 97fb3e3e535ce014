//! The records of TLS 1.3 once the handshake is done: sealed from where frames lie, opened where they came.
//!
//! rustls makes the keys. Its own records would be copied four times on their way, each into new memory, and one thread
//! could not seal while another opens.

use std::io;
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Buf;
use ring::aead::{AES_128_GCM, AES_256_GCM, Aad, CHACHA20_POLY1305, LessSafeKey, Nonce, UnboundKey};
use rustls::client::ClientConnectionData;
use rustls::kernel::KernelConnection;
use rustls::server::ServerConnectionData;
use rustls::{ConnectionTrafficSecrets, ExtractedSecrets};

/// The most that a record holds.
const RECORD_BYTES: usize = 16 << 10;

const HEADER_BYTES: usize = 5;
const TAG_BYTES: usize = 16;

/// A whole record: its header, content, kind of content, and tag.
pub(super) const SEALED_BYTES: usize = HEADER_BYTES + RECORD_BYTES + 1 + TAG_BYTES;

/// No record of others is longer: its content may be padded.
const MOST_SEALED: usize = HEADER_BYTES + RECORD_BYTES + 256;

const HANDSHAKE: u8 = 22;
const APPLICATION: u8 = 23;

/// The message that says that what follows has the next key.
const KEY_UPDATE: [u8; 5] = [24, 0, 0, 1, 0];

/// How many records have one key. With AES-GCM it may be four times as many.
const RECORDS_A_KEY: u64 = 1 << 22;

/// What makes the next keys of a connection.
#[derive(Clone)]
struct Renewal(Arc<Mutex<KeySchedule>>);

pub(crate) enum KeySchedule {
    Caller(KernelConnection<ClientConnectionData>),
    Called(KernelConnection<ServerConnectionData>),
}

impl From<KernelConnection<ClientConnectionData>> for KeySchedule {
    fn from(kernel: KernelConnection<ClientConnectionData>) -> Self {
        Self::Caller(kernel)
    }
}

impl From<KernelConnection<ServerConnectionData>> for KeySchedule {
    fn from(kernel: KernelConnection<ServerConnectionData>) -> Self {
        Self::Called(kernel)
    }
}

impl Renewal {
    fn sealing(&self) -> io::Result<RecordKey> {
        let mut schedule = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let next = match &mut *schedule {
            KeySchedule::Caller(kernel) => kernel.update_tx_secret(),
            KeySchedule::Called(kernel) => kernel.update_tx_secret(),
        };
        RecordKey::new(next.map_err(io::Error::other)?)
    }

    fn opening(&self) -> io::Result<RecordKey> {
        let mut schedule = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let next = match &mut *schedule {
            KeySchedule::Caller(kernel) => kernel.update_rx_secret(),
            KeySchedule::Called(kernel) => kernel.update_rx_secret(),
        };
        RecordKey::new(next.map_err(io::Error::other)?)
    }
}

/// A key of one direction, and the number of its next record.
struct RecordKey {
    key: LessSafeKey,
    iv: [u8; 12],
    number: u64,
}

impl RecordKey {
    fn new((number, secrets): (u64, ConnectionTrafficSecrets)) -> io::Result<Self> {
        let (algorithm, key, iv) = match &secrets {
            ConnectionTrafficSecrets::Aes128Gcm { key, iv } => (&AES_128_GCM, key, iv),
            ConnectionTrafficSecrets::Aes256Gcm { key, iv } => (&AES_256_GCM, key, iv),
            ConnectionTrafficSecrets::Chacha20Poly1305 { key, iv } => (&CHACHA20_POLY1305, key, iv),
            _ => return Err(io::Error::other("a cipher that is not known here")),
        };
        let key =
            UnboundKey::new(algorithm, key.as_ref()).map_err(|_| io::Error::other("a key that is none"))?;
        let iv = iv.as_ref().try_into().map_err(io::Error::other)?;
        Ok(Self { key: LessSafeKey::new(key), iv, number })
    }

    /// What makes the next record unlike all others of this key.
    fn nonce(&mut self) -> Nonce {
        let mut nonce = self.iv;
        for (byte, number) in nonce[4..].iter_mut().zip(self.number.to_be_bytes()) {
            *byte ^= number;
        }
        self.number += 1;
        Nonce::assume_unique_for_key(nonce)
    }
}

/// Both directions of a connection whose handshake is done.
pub(super) fn records(
    secrets: ExtractedSecrets,
    schedule: impl Into<KeySchedule>,
) -> io::Result<(Sealer, Opener)> {
    let renewal = Renewal(Arc::new(Mutex::new(schedule.into())));
    let sealer =
        Sealer { key: RecordKey::new(secrets.tx)?, renewal: renewal.clone(), records_a_key: RECORDS_A_KEY };
    Ok((sealer, Opener { key: RecordKey::new(secrets.rx)?, renewal }))
}

/// Seals what goes out.
pub(crate) struct Sealer {
    key: RecordKey,
    renewal: Renewal,
    records_a_key: u64,
}

/// Memory for so much that is sealed is enough for the longest record, and for a new key before it.
pub(super) const LEAST_ROOM: usize = SEALED_BYTES + 64;

impl Sealer {
    /// Seals as much of some bytes as `place` has room for. Returns how much of it the records take.
    pub(super) fn seal(&mut self, bytes: &mut impl Buf, place: &mut [u8]) -> io::Result<usize> {
        let mut at = 0;
        while bytes.has_remaining() && place.len() - at >= LEAST_ROOM {
            if self.key.number >= self.records_a_key {
                at += self.record(HANDSHAKE, &mut &KEY_UPDATE[..], &mut place[at..])?;
                self.key = self.renewal.sealing()?;
            }
            at += self.record(APPLICATION, bytes, &mut place[at..])?;
        }
        Ok(at)
    }

    fn record(&mut self, kind: u8, bytes: &mut impl Buf, place: &mut [u8]) -> io::Result<usize> {
        let len = bytes.remaining().min(RECORD_BYTES);
        let (header, rest) = place.split_at_mut(HEADER_BYTES);
        let (content, tag) = rest.split_at_mut(len + 1);
        let [high, low] = ((len + 1 + TAG_BYTES) as u16).to_be_bytes();
        header.copy_from_slice(&[APPLICATION, 3, 3, high, low]);
        bytes.copy_to_slice(&mut content[..len]);
        content[len] = kind;
        let nonce = self.key.nonce();
        let sealed = self.key.key.seal_in_place_separate_tag(nonce, Aad::from(&*header), content);
        tag[..TAG_BYTES].copy_from_slice(sealed.map_err(|_| io::Error::other("cannot seal"))?.as_ref());
        Ok(HEADER_BYTES + len + 1 + TAG_BYTES)
    }
}

impl std::fmt::Debug for Sealer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Sealer")
    }
}

/// Opens what comes in.
pub(crate) struct Opener {
    key: RecordKey,
    renewal: Renewal,
}

/// What the beginning of some bytes is.
#[derive(Debug, PartialEq)]
pub(super) enum Opened {
    /// The first part of a record.
    Part,
    /// A record: how long it is, and where its content lies.
    Record { len: usize, content: Range<usize> },
}

impl Opener {
    /// Opens the record at the beginning of some bytes, where it lies.
    pub(super) fn open(&mut self, bytes: &mut [u8]) -> io::Result<Opened> {
        let garbled = || io::Error::new(io::ErrorKind::InvalidData, "a record that is none");
        let Some((&mut header, _)) = bytes.split_first_chunk_mut::<HEADER_BYTES>() else {
            return Ok(Opened::Part);
        };
        let [kind, _, _, high, low] = header;
        let len = HEADER_BYTES + usize::from(u16::from_be_bytes([high, low]));
        if kind != APPLICATION || len > MOST_SEALED {
            return Err(garbled());
        }
        let Some(sealed) = bytes.get_mut(HEADER_BYTES..len) else { return Ok(Opened::Part) };
        let nonce = self.key.nonce();
        let content = self.key.key.open_in_place(nonce, Aad::from(header), sealed).map_err(|_| garbled())?;
        // Behind the content come its kind, and zeros.
        let end = content.iter().rposition(|byte| *byte != 0).ok_or_else(garbled)?;
        match (content[end], &content[..end]) {
            (APPLICATION, _) => {}
            (HANDSHAKE, message) if *message == KEY_UPDATE => {
                self.key = self.renewal.opening()?;
                return Ok(Opened::Record { len, content: 0..0 });
            }
            // A peer that ends says so within its records; so nothing else is spoken here.
            _ => return Err(garbled()),
        }
        Ok(Opened::Record { len, content: HEADER_BYTES..HEADER_BYTES + end })
    }
}

impl std::fmt::Debug for Opener {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Opener")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::direct::Channel;
    use crate::identity::{Identity, NAME, client_config};
    use rustls::client::UnbufferedClientConnection;
    use rustls::pki_types::ServerName;
    use rustls::server::UnbufferedServerConnection;

    /// Both ends of a connection whose handshake is done: what seals on one, and opens on the other.
    fn ends() -> (Sealer, Opener) {
        let identity = Identity::generate().unwrap();
        let config = client_config(identity.fingerprint()).unwrap();
        let caller = UnbufferedClientConnection::new(config, ServerName::try_from(NAME).unwrap()).unwrap();
        let called = UnbufferedServerConnection::new(identity.config()).unwrap();
        let (here, there) = tokio::io::duplex(1 << 16);
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let (here, there) = runtime.block_on(async {
            tokio::join!(Channel::encrypted(here, caller), Channel::encrypted(there, called))
        });
        (here.unwrap().keys.unwrap().0, there.unwrap().keys.unwrap().1)
    }

    /// Opens all records of some bytes. Returns what was in them, and how many they were.
    fn open_all(opener: &mut Opener, bytes: &mut [u8]) -> io::Result<(Vec<u8>, usize)> {
        let (mut all, mut at, mut count) = (Vec::new(), 0, 0);
        while at < bytes.len() {
            match opener.open(&mut bytes[at..])? {
                Opened::Part => break,
                Opened::Record { len, content } => {
                    all.extend_from_slice(&bytes[at + content.start..at + content.end]);
                    (at, count) = (at + len, count + 1);
                }
            }
        }
        Ok((all, count))
    }

    #[test]
    fn what_is_sealed_is_opened_also_with_new_keys() {
        let (mut sealer, mut opener) = ends();
        sealer.records_a_key = 3;
        let sent: Vec<u8> = (0..200_000u32).map(|i| (i * 31 >> 4) as u8).collect();
        let (mut rest, mut came, mut records) = (&sent[..], Vec::new(), 0);
        while !rest.is_empty() {
            let mut place = vec![0; 4 * SEALED_BYTES];
            let len = sealer.seal(&mut rest, &mut place).unwrap();
            let (more, count) = open_all(&mut opener, &mut place[..len]).unwrap();
            came.extend(more);
            records += count;
        }
        assert!(came == sent);
        // Of 13 records the fourth, seventh, tenth and thirteenth have new keys.
        assert_eq!(records, 13 + 4);
    }

    #[test]
    fn what_was_changed_is_not_opened() {
        let sealed = |bytes: &[u8]| {
            let (mut sealer, opener) = ends();
            let mut place = vec![0; LEAST_ROOM];
            let len = sealer.seal(&mut &bytes[..], &mut place).unwrap();
            place.truncate(len);
            (place, opener)
        };
        let (bytes, mut opener) = sealed(b"frames");
        assert_eq!(bytes.len(), HEADER_BYTES + 6 + 1 + TAG_BYTES);
        for part in 0..bytes.len() {
            assert_eq!(opener.open(&mut bytes.clone()[..part]).unwrap(), Opened::Part);
        }
        for place in [0, 3, 5, 8, bytes.len() - 1] {
            let (mut bytes, mut opener) = sealed(b"frames");
            bytes[place] ^= 1;
            let opened = opener.open(&mut bytes);
            // A length that grew waits for the rest.
            assert!(opened.is_err() || place == 3, "byte {place}: {opened:?}");
        }
        // The same record a second time is another one.
        let mut again = bytes.clone();
        assert!(opener.open(&mut bytes.clone()).is_ok());
        assert!(opener.open(&mut again).is_err());
    }
}

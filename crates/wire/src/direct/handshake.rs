//! How a direct link begins: both sides say how they speak, agree on keys, and the caller shows the secret.
//!
//! | who | bytes |
//! |---|---|
//! | caller | `BONFIRE`, and `T` for TLS or `P` for plain text |
//! | both | with TLS the handshake of TLS 1.3, as of gRPC; all that follows is in its records |
//! | caller | the secret, 16 bytes |
//! | called | 1: come in; 0: another secret is wanted. Then both send frames |

use std::io;

use rustls::client::{ClientConnectionData, UnbufferedClientConnection};
use rustls::server::{ServerConnectionData, UnbufferedServerConnection};
use rustls::unbuffered::{ConnectionState, EncodeError, UnbufferedStatus};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

use super::records::{LEAST_ROOM, Opened, Opener, Sealer, records};

/// How a caller begins. No other language begins with the same letter.
pub(crate) const GREETING: [u8; 7] = *b"BONFIRE";
pub(crate) const ENCRYPTED: u8 = b'T';
pub(crate) const PLAIN: u8 = b'P';

pub(crate) const COME_IN: u8 = 1;
pub(crate) const OTHER_SECRET: u8 = 0;

/// What both sides of a handshake of TLS need, and the longest that one says in it.
const MOST_HANDSHAKE: usize = 32 << 10;

/// A connection on which frames can be sent.
#[derive(Debug)]
pub(crate) struct Channel<IO> {
    pub(crate) io: IO,
    pub(super) keys: Option<(Sealer, Opener)>,
    /// What has come and is not opened yet.
    pub(super) came: Vec<u8>,
    /// What the caller said with the end of its handshake.
    pub(super) early: Vec<u8>,
}

impl<IO: AsyncRead + AsyncWrite + Unpin> Channel<IO> {
    pub(crate) fn plain(io: IO) -> Self {
        Self { io, keys: None, came: Vec::new(), early: Vec::new() }
    }

    /// Agrees on keys with the other side.
    pub(crate) async fn encrypted(io: IO, side: impl TlsSide) -> Result<Self, TlsError> {
        let mut shaking = Shaking { io, incoming: Vec::new(), outgoing: Vec::new(), early: Vec::new() };
        let keys = shaking.shake(side).await?;
        let Shaking { io, incoming, early, .. } = shaking;
        Ok(Self { io, keys: Some(keys), came: incoming, early })
    }

    /// Says a few bytes.
    pub(crate) async fn say(&mut self, mut bytes: &[u8]) -> io::Result<()> {
        match &mut self.keys {
            None => self.io.write_all(bytes).await,
            Some((sealer, _)) => {
                let mut sealed = vec![0; LEAST_ROOM];
                let len = sealer.seal(&mut bytes, &mut sealed)?;
                self.io.write_all(&sealed[..len]).await
            }
        }
    }

    /// Hears exactly so many bytes; the other side must not say more until it is answered.
    pub(crate) async fn hear<const N: usize>(&mut self) -> io::Result<[u8; N]> {
        let exactly = |content: &[u8]| -> io::Result<[u8; N]> {
            content.try_into().map_err(|_| io::Error::other("not what belongs here"))
        };
        let Some((_, opener)) = &mut self.keys else {
            let mut heard = [0; N];
            self.io.read_exact(&mut heard).await?;
            return Ok(heard);
        };
        if !self.early.is_empty() {
            return exactly(&std::mem::take(&mut self.early));
        }
        loop {
            if let Opened::Record { len, content } = opener.open(&mut self.came)? {
                let heard = exactly(&self.came[content]);
                self.came.drain(..len);
                return heard;
            }
            if read_more(&mut self.io, &mut self.came).await? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
    }
}

/// Appends what comes next. Returns how much that is.
async fn read_more(io: &mut (impl AsyncRead + Unpin), came: &mut Vec<u8>) -> io::Result<usize> {
    let before = came.len();
    came.resize(before + (4 << 10), 0);
    let n = io.read(&mut came[before..]).await;
    came.truncate(before + n.as_ref().map_or(0, |n| *n));
    n
}

/// Why there is no encrypted channel.
#[derive(Debug)]
pub(crate) enum TlsError {
    Io(io::Error),
    Tls(rustls::Error),
}

impl From<io::Error> for TlsError {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

impl From<rustls::Error> for TlsError {
    fn from(error: rustls::Error) -> Self {
        Self::Tls(error)
    }
}

/// One of the two sides of a handshake.
pub(crate) trait TlsSide: Send {
    type Data;

    fn process<'c, 'i>(&'c mut self, incoming: &'i mut [u8]) -> UnbufferedStatus<'c, 'i, Self::Data>;

    /// What is known when it is done.
    fn keys(self) -> Result<(Sealer, Opener), TlsError>;
}

impl TlsSide for UnbufferedClientConnection {
    type Data = ClientConnectionData;

    fn process<'c, 'i>(&'c mut self, incoming: &'i mut [u8]) -> UnbufferedStatus<'c, 'i, Self::Data> {
        self.process_tls_records(incoming)
    }

    fn keys(self) -> Result<(Sealer, Opener), TlsError> {
        let (secrets, schedule) = self.dangerous_into_kernel_connection()?;
        Ok(records(secrets, schedule)?)
    }
}

impl TlsSide for UnbufferedServerConnection {
    type Data = ServerConnectionData;

    fn process<'c, 'i>(&'c mut self, incoming: &'i mut [u8]) -> UnbufferedStatus<'c, 'i, Self::Data> {
        self.process_tls_records(incoming)
    }

    fn keys(self) -> Result<(Sealer, Opener), TlsError> {
        let (secrets, schedule) = self.dangerous_into_kernel_connection()?;
        Ok(records(secrets, schedule)?)
    }
}

struct Shaking<IO> {
    io: IO,
    incoming: Vec<u8>,
    outgoing: Vec<u8>,
    early: Vec<u8>,
}

/// What is to be done next.
enum Next {
    Again,
    Write,
    Read,
    Done,
}

impl<IO: AsyncRead + AsyncWrite + Unpin> Shaking<IO> {
    async fn shake(&mut self, mut side: impl TlsSide) -> Result<(Sealer, Opener), TlsError> {
        loop {
            match self.step(&mut side) {
                Ok(Next::Again) => {}
                Ok(Next::Write) => self.write().await?,
                Ok(Next::Done) => {
                    self.write().await?;
                    return side.keys();
                }
                Ok(Next::Read) if self.incoming.len() >= MOST_HANDSHAKE => {
                    return Err(io::Error::other("too long a handshake").into());
                }
                Ok(Next::Read) => {
                    if read_more(&mut self.io, &mut self.incoming).await? == 0 {
                        return Err(io::Error::from(io::ErrorKind::UnexpectedEof).into());
                    }
                }
                Err(error) => {
                    // The other side shall hear why.
                    while let Ok(Next::Again) = self.step(&mut side) {}
                    let _ = self.write().await;
                    return Err(error.into());
                }
            }
        }
    }

    async fn write(&mut self) -> io::Result<()> {
        self.io.write_all(&self.outgoing).await?;
        self.outgoing.clear();
        self.io.flush().await
    }

    fn step(&mut self, side: &mut impl TlsSide) -> Result<Next, rustls::Error> {
        let UnbufferedStatus { mut discard, state, .. } = side.process(&mut self.incoming);
        let next = match state? {
            ConnectionState::EncodeTlsData(mut data) => {
                let before = self.outgoing.len();
                let mut written = data.encode(&mut []);
                if let Err(EncodeError::InsufficientSize(size)) = &written {
                    self.outgoing.resize(before + size.required_size, 0);
                    written = data.encode(&mut self.outgoing[before..]);
                }
                written.map_err(|error| rustls::Error::General(error.to_string()))?;
                Next::Again
            }
            ConnectionState::TransmitTlsData(data) => {
                data.done();
                Next::Write
            }
            ConnectionState::BlockedHandshake => Next::Read,
            ConnectionState::WriteTraffic(_) => Next::Done,
            ConnectionState::ReadTraffic(mut traffic) => {
                while let Some(record) = traffic.next_record() {
                    let record = record?;
                    self.early.extend_from_slice(record.payload);
                    discard += record.discard;
                }
                Next::Again
            }
            _ => {
                return Err(rustls::Error::General(
                    "said something before the handshake was done".to_owned(),
                ));
            }
        };
        self.incoming.drain(..discard);
        Ok(next)
    }
}

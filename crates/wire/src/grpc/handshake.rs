//! The handshake of TLS, by rustls, up to the keys.

use std::io;
use std::sync::Arc;

use rustls::client::UnbufferedClientConnection;
use rustls::pki_types::ServerName;
use rustls::server::UnbufferedServerConnection;
use rustls::unbuffered::{ConnectionState, EncodeError, EncodeTlsData, UnbufferedStatus};
use rustls::{ClientConfig, ServerConfig};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::UNKNOWN_BYTES;
use super::pulse::WatchedStream;
use super::tls::TlsStream;

/// Makes a connection secure, as the side that has opened it.
pub(super) async fn call(
    mut io: WatchedStream,
    config: Arc<ClientConfig>,
    name: ServerName<'static>,
) -> io::Result<TlsStream> {
    let mut connection = UnbufferedClientConnection::new(config, name).map_err(refused)?;
    let heard = shake_hands(&mut io, |heard, reply| {
        let step = advance(connection.process_tls_records(&mut heard.sealed), &mut heard.plain, reply);
        Advance { is_over: !connection.is_handshaking(), has_alert: connection.wants_write(), ..step }
    });
    let heard = heard.await?;
    let (secrets, keys) = connection.dangerous_into_kernel_connection().map_err(refused)?;
    TlsStream::new(io, secrets, Box::new(keys), &heard.plain, &heard.sealed)
}

/// The same as the other side.
pub(super) async fn answer(mut io: WatchedStream, config: Arc<ServerConfig>) -> io::Result<TlsStream> {
    let mut connection = UnbufferedServerConnection::new(config).map_err(refused)?;
    let heard = shake_hands(&mut io, |heard, reply| {
        let step = advance(connection.process_tls_records(&mut heard.sealed), &mut heard.plain, reply);
        Advance { is_over: !connection.is_handshaking(), has_alert: connection.wants_write(), ..step }
    });
    let heard = heard.await?;
    let (secrets, keys) = connection.dangerous_into_kernel_connection().map_err(refused)?;
    TlsStream::new(io, secrets, Box::new(keys), &heard.plain, &heard.sealed)
}

/// What came: records, and what was in those that came right behind the handshake.
#[derive(Default)]
struct Heard {
    sealed: Vec<u8>,
    plain: Vec<u8>,
}

/// What rustls wants next, and how many bytes of what came are done with.
struct Advance {
    step: Result<Step, rustls::Error>,
    done: usize,
    /// The handshake is done.
    is_over: bool,
    /// After an error: there is something to tell the peer.
    has_alert: bool,
}

enum Step {
    Again,
    Write,
    /// More must come, unless the handshake is done.
    Read,
    Closed,
}

/// A read of a handshake, which has a few kilobytes.
const READ_BYTES: usize = 4 << 10;

async fn shake_hands(
    io: &mut WatchedStream,
    mut advance: impl FnMut(&mut Heard, &mut Vec<u8>) -> Advance,
) -> io::Result<Heard> {
    let (mut heard, mut reply) = (Heard::default(), Vec::new());
    loop {
        let Advance { step, done, is_over, has_alert } = advance(&mut heard, &mut reply);
        heard.sealed.drain(..done);
        match step {
            Ok(Step::Again) => {}
            Ok(Step::Write) => {
                io.write_all(&reply).await?;
                reply.clear();
            }
            Ok(Step::Read) if is_over => return Ok(heard),
            Ok(Step::Read) => {
                let start = heard.sealed.len();
                if start > UNKNOWN_BYTES {
                    return Err(io::Error::other("a handshake without end"));
                }
                heard.sealed.resize(start + READ_BYTES, 0);
                let came = io.read(&mut heard.sealed[start..]).await?;
                heard.sealed.truncate(start + came);
                if came == 0 {
                    return Err(io::ErrorKind::UnexpectedEof.into());
                }
            }
            Ok(Step::Closed) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Err(error) => {
                // The peer is told why. Nothing that came is looked at once more.
                if has_alert {
                    advance(&mut Heard::default(), &mut reply);
                    let _ = io.write_all(&reply).await;
                }
                return Err(refused(error));
            }
        }
    }
}

fn advance<Data>(
    status: UnbufferedStatus<'_, '_, Data>,
    plain: &mut Vec<u8>,
    reply: &mut Vec<u8>,
) -> Advance {
    let step = status.state.and_then(|state| {
        Ok(match state {
            ConnectionState::EncodeTlsData(data) => {
                encode(data, reply);
                Step::Again
            }
            ConnectionState::TransmitTlsData(data) => {
                data.done();
                Step::Write
            }
            ConnectionState::ReadTraffic(mut traffic) => {
                while let Some(record) = traffic.next_record() {
                    plain.extend_from_slice(record?.payload);
                }
                Step::Again
            }
            ConnectionState::WriteTraffic(_) | ConnectionState::BlockedHandshake => Step::Read,
            _ => Step::Closed,
        })
    });
    Advance { step, done: status.discard, is_over: false, has_alert: false }
}

fn encode<Data>(mut data: EncodeTlsData<'_, Data>, reply: &mut Vec<u8>) {
    if let Err(EncodeError::InsufficientSize(size)) = data.encode(&mut []) {
        let start = reply.len();
        reply.resize(start + size.required_size, 0);
        // There is as much room as it asked for.
        let _ = data.encode(&mut reply[start..]);
    }
}

fn refused(error: rustls::Error) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, error)
}

//! How those who want a direct link come in, by the same door as all others.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use rustls::server::UnbufferedServerConnection;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::UNKNOWN_BYTES;
use super::handshakes::HandshakeSlot;
use super::listen::{DISPLACED, Door, FAREWELL, LATE, SAID_TOO_MUCH, why_no_tls};
use super::pulse::{Pulse, WatchedStream};
use crate::direct::{COME_IN, Channel, DirectEnd, ENCRYPTED, GREETING, OTHER_SECRET, PLAIN, TlsError};
use crate::link::{FIRST_PAYLOAD_BYTES, Outbox};
use crate::ticket::Secret;

const LEFT: &str = "left during the handshake";

/// What one hears who wants to speak otherwise; neither a record of TLS nor an answer to a secret.
const OTHERWISE: &[u8] = b"OTHERWISE";

/// The life of a connection that is to be a direct link.
pub(super) async fn greet(door: &Arc<Door>, tcp: TcpStream, address: SocketAddr, slot: HandshakeSlot) {
    let pulse = Pulse::of_unknown(UNKNOWN_BYTES);
    let Ok(io) = WatchedStream::new(tcp, &pulse) else { return };
    let handshake = timeout(door.timeouts.handshake, agree(door, io, &slot));
    let agreed = tokio::select! {
        agreed = handshake => agreed.unwrap_or(Err(LATE)),
        () = slot.is_taken() => Err(DISPLACED),
    };
    match agreed {
        Err(_) if pulse.is_spent() => door.report(address, SAID_TOO_MUCH),
        Err(what) => door.report(address, what),
        Ok(channel) => {
            if slot.leave()
                && let Ok(end) = let_in(door, channel, address)
            {
                end.watch().await;
            }
        }
    }
}

/// Hears how the caller speaks, agrees on keys, and is shown the secret.
async fn agree(
    door: &Door,
    mut io: WatchedStream,
    slot: &HandshakeSlot,
) -> Result<Channel<WatchedStream>, &'static str> {
    let mut greeting = [0; GREETING.len() + 1];
    io.read_exact(&mut greeting).await.map_err(|_| LEFT)?;
    let [word @ .., how] = greeting;
    if word != GREETING {
        return Err("did not speak as Bonfire does");
    }
    let mut channel = match (&door.acceptor, how) {
        (None, PLAIN) => Channel::plain(io),
        (Some(acceptor), ENCRYPTED) => {
            let side = UnbufferedServerConnection::new(Arc::clone(acceptor.config()));
            let side = side.map_err(|_| "found no way to speak TLS")?;
            Channel::encrypted(io, side).await.map_err(|error| match error {
                TlsError::Tls(error) => why_no_tls(Some(&error)),
                TlsError::Io(_) => LEFT,
            })?
        }
        (acceptor, _) => {
            let _ = timeout(FAREWELL, turn_away(io)).await;
            return Err(if acceptor.is_some() { "did not speak TLS" } else { "did not speak plain text" });
        }
    };
    slot.progress();
    let shown = channel.hear().await.map_err(|_| LEFT)?;
    let is_right = Secret::from(shown) == door.secret;
    let answer = if is_right { COME_IN } else { OTHER_SECRET };
    channel.say(&[answer]).await.map_err(|_| LEFT)?;
    if is_right { Ok(channel) } else { Err("showed a wrong secret") }
}

/// Says that another way of speaking is wanted, and waits until the caller leaves: what a socket has not read when it
/// closes takes back what it said.
async fn turn_away(mut io: WatchedStream) -> io::Result<()> {
    io.write_all(OTHERWISE).await?;
    io.shutdown().await?;
    while io.read(&mut [0; 1024]).await? > 0 {}
    Ok(())
}

/// Makes a link of a connection.
fn let_in(
    door: &Arc<Door>,
    channel: Channel<WatchedStream>,
    address: SocketAddr,
) -> io::Result<Arc<DirectEnd>> {
    let channel = channel.into_std(WatchedStream::into_tcp)?;
    let at = Arc::clone(door);
    let sink = move |end| (at.accept)(address, Outbox::direct(end));
    let pool = door.pool.clone();
    let end = DirectEnd::start(address.to_string(), channel, door.timeouts, FIRST_PAYLOAD_BYTES, pool, sink);
    end.inspect_err(|_| door.report(address, "is one too many: no thread for it"))
}

use std::io;
use std::net::TcpStream;
use std::sync::Arc;

use rustls::client::UnbufferedClientConnection;
use rustls::pki_types::ServerName;
use tokio::io::AsyncWriteExt;
use tokio::time::timeout;

use super::{COME_IN, Channel, DirectEnd, ENCRYPTED, GREETING, OTHER_SECRET, PLAIN, TlsError};
use crate::grpc::{
    ConnectError, ConnectErrorKind, ConnectSecurity, Wire, dial, hung_up, local, no_tls_there,
};
use crate::identity::{NAME, client_config};
use crate::link::{MAX_PAYLOAD_BYTES, Outbox, Sink, Timeouts};
use crate::ticket::Secret;

impl Wire {
    /// Connects to a listener as [`connect`](Self::connect) does, for a link on which much is sent: frames go without
    /// HTTP/2.
    pub fn connect_directly(
        &self,
        address: &str,
        security: ConnectSecurity,
        secret: &Secret,
        timeouts: Timeouts,
        sink: Sink,
    ) -> Result<Outbox, ConnectError> {
        let end = self.reach_directly(address, security, secret, timeouts, sink);
        end.map(Outbox::direct).map_err(|kind| ConnectError { address: address.to_owned(), kind })
    }

    fn reach_directly(
        &self,
        address: &str,
        security: ConnectSecurity,
        secret: &Secret,
        timeouts: Timeouts,
        sink: Sink,
    ) -> Result<Arc<DirectEnd>, ConnectErrorKind> {
        let runtime = self.runtime().map_err(local)?;
        let called = runtime.block_on(async {
            let call = reach(address, security, secret, timeouts);
            timeout(timeouts.handshake, call).await.unwrap_or_else(|_| {
                let seconds = timeouts.handshake.as_secs_f64();
                Err(ConnectErrorKind::Unreachable(format!("no answer within {seconds:.1} s")))
            })
        });
        let peer = address.to_owned();
        let pool = self.pool().clone();
        let end = DirectEnd::start(peer, called?, timeouts, MAX_PAYLOAD_BYTES, pool, move |_| sink);
        let end = end.map_err(local)?;
        runtime.spawn(Arc::clone(&end).watch());
        Ok(end)
    }
}

async fn reach(
    address: &str,
    security: ConnectSecurity,
    secret: &Secret,
    timeouts: Timeouts,
) -> Result<Channel<TcpStream>, ConnectErrorKind> {
    let mut tcp = dial(address, timeouts.handshake).await?;
    tcp.set_nodelay(true).map_err(local)?;
    let mut greeting = GREETING.to_vec();
    greeting.push(if security == ConnectSecurity::Plain { PLAIN } else { ENCRYPTED });
    tcp.write_all(&greeting).await.map_err(|error| hung_up(&error))?;
    let mut channel = match security {
        ConnectSecurity::Plain => Channel::plain(tcp),
        ConnectSecurity::Tls(fingerprint) => {
            let failed = |error: rustls::Error| ConnectErrorKind::Local(error.to_string());
            let name =
                ServerName::try_from(NAME).map_err(|error| ConnectErrorKind::Local(error.to_string()))?;
            let config = client_config(fingerprint).map_err(failed)?;
            let side = UnbufferedClientConnection::new(config, name).map_err(failed)?;
            Channel::encrypted(tcp, side).await.map_err(no_channel)?
        }
    };
    let answer = async {
        channel.say(&secret.reveal()).await?;
        channel.hear::<1>().await
    };
    match answer.await {
        Ok([COME_IN]) => channel.into_std(|tcp| tcp).map_err(local),
        Ok([OTHER_SECRET]) => Err(ConnectErrorKind::WrongSecret),
        Ok(_) => Err(ConnectErrorKind::NotBonfire("no plain text there; does it want TLS?".to_owned())),
        Err(error) => Err(hung_up(&error)),
    }
}

fn no_channel(error: TlsError) -> ConnectErrorKind {
    match error {
        TlsError::Io(error) => hung_up(&error),
        TlsError::Tls(rustls::Error::InvalidCertificate(_)) => ConnectErrorKind::OtherCertificate,
        TlsError::Tls(error) => no_tls_there(&io::Error::other(error)),
    }
}

impl<IO> Channel<IO> {
    /// The same for plain threads.
    pub(crate) fn into_std(
        self,
        tcp: impl FnOnce(IO) -> tokio::net::TcpStream,
    ) -> io::Result<Channel<TcpStream>> {
        let Self { io, keys, came, early } = self;
        Ok(Channel { io: tcp(io).into_std()?, keys, came, early })
    }
}

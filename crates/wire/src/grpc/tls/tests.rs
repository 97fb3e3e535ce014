use rustls::pki_types::ServerName;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use super::*;
use crate::grpc::handshake;
use crate::grpc::pulse::Pulse;
use crate::identity::{Identity, NAME, client_config};

/// Both ends of a connection: that of the caller, and the other.
async fn pair() -> (TlsStream, TlsStream) {
    let identity = Identity::generate().expect("an identity");
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("an address");
    let config = client_config(identity.fingerprint()).expect("a config");
    let call = async {
        let tcp = TcpStream::connect(address).await?;
        let io = WatchedStream::new(tcp, &Pulse::new())?;
        handshake::call(io, config, ServerName::try_from(NAME).expect("a name")).await
    };
    let answer = async {
        let (tcp, _) = listener.accept().await?;
        handshake::answer(WatchedStream::new(tcp, &Pulse::new())?, identity.config()).await
    };
    let (caller, called) = tokio::join!(call, answer);
    (caller.expect("a caller"), called.expect("an answer"))
}

fn run(test: impl Future<Output = ()>) {
    tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime").block_on(test);
}

/// Bytes of which no stretch is like another.
fn bytes(count: usize) -> Vec<u8> {
    (0..count as u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 13) as u8).collect()
}

#[test]
fn what_is_written_is_read_whatever_the_pieces() {
    run(async {
        let (mut caller, mut called) = pair().await;
        for (count, piece) in
            [(1, 1), (100, 7), (70_000, 16_384), (3_000_000, 1_000_003), (3_000_000, 40_000)]
        {
            let sent = bytes(count);
            let send = async {
                for (i, part) in sent.chunks(piece).enumerate() {
                    // Now and then a key is used up.
                    caller.must_change = i % 3 == 2;
                    caller.write_all(part).await.expect("room");
                }
                caller.flush().await.expect("room");
            };
            let take = async {
                // As HTTP/2 reads: into little room, into much, and into what is left of much.
                let mut came = Vec::new();
                while came.len() < count {
                    let room = [9, 200_000, 20_000][came.len() % 3];
                    let mut place = vec![0; room.min(count - came.len())];
                    let n = called.read(&mut place).await.expect("more");
                    assert!(n > 0);
                    came.extend_from_slice(&place[..n]);
                }
                came
            };
            let ((), came) = tokio::join!(send, take);
            assert!(came == sent, "{count} bytes in pieces of {piece}");
        }
    });
}

#[test]
fn the_end_is_told_and_a_cut_is_an_error() {
    run(async {
        let (mut caller, mut called) = pair().await;
        caller.write_all(b"last words").await.expect("room");
        caller.shutdown().await.expect("room");
        let mut came = Vec::new();
        called.read_to_end(&mut came).await.expect("an end");
        assert_eq!(came, b"last words");

        let (caller, mut called) = pair().await;
        drop(caller);
        let cut = called.read(&mut [0; 9]).await.expect_err("a cut");
        assert_eq!(cut.kind(), io::ErrorKind::UnexpectedEof);
    });
}

#[test]
fn what_was_changed_on_its_way_is_refused() {
    run(async {
        for place in [0, 4, 5, 20, 30] {
            let (mut caller, mut called) = pair().await;
            caller
                .sealing
                .seal(DATA, [&b"some words"[..]].into_iter(), &mut caller.outgoing)
                .expect("sealed");
            caller.outgoing[place] ^= 1;
            // So that a record that claims to be longer is whole, too.
            caller.outgoing.extend([0; 300]);
            caller.flush().await.expect("room");
            let refused = called.read(&mut [0; 9]).await.expect_err("refused");
            assert_eq!(refused.kind(), io::ErrorKind::InvalidData, "byte {place}");
        }
    });
}

//! Whoever comes to a head without being one of its nodes, and one of its nodes that is no friend.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::Duration;

use bonfire_cluster::push_frames;
use bonfire_learn::{Gradient, Layout};
use bonfire_run::checkpoint::layout_digest;
use bonfire_run::{Overrides, Settings};
use bonfire_wire::proto::{self, frame::Body};
use bonfire_wire::{
    ConnectSecurity, Fingerprint, Frame, Incoming, Outbox, Secret, Sink, Ticket, Timeouts, Wire,
};
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{ClientConfig, ClientConnection, DigitallySignedStruct, SignatureScheme, StreamOwned};

/// Somebody at a head's door.
#[derive(Debug)]
pub(crate) struct Adversary {
    pub address: SocketAddr,
    ticket: Ticket,
}

/// What it tries.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Kind {
    /// Another secret, otherwise a node.
    WrongSecret,
    /// TLS and the right call, but no secret.
    NoSecret,
    /// TLS and another call.
    WrongPath,
    /// A node with the ticket of another run.
    OtherCertificate,
    /// TLS, then something that is not HTTP/2.
    NoHttp2,
    /// A web browser that takes the port for a web server's.
    PlainText,
    /// Any bytes.
    Noise,
    /// Lengths up to four gigabytes, and nothing behind them.
    HugeLengths,
    /// TLS, and pings without end.
    Pings,
    /// Says a byte of TLS and leaves.
    Gone,
    /// Has the ticket and does not introduce itself.
    NoJoin,
    /// Has the ticket and says it is called something of a megabyte.
    LongName,
    /// Has the ticket and is of another version.
    OtherVersion,
}

impl Kind {
    pub(crate) const ALL: &[Self] = &[
        Self::WrongSecret,
        Self::NoSecret,
        Self::WrongPath,
        Self::OtherCertificate,
        Self::NoHttp2,
        Self::PlainText,
        Self::Noise,
        Self::HugeLengths,
        Self::Pings,
        Self::Gone,
        Self::NoJoin,
        Self::LongName,
        Self::OtherVersion,
    ];

    /// What the head says of it.
    pub(crate) fn expect(self) -> &'static str {
        match self {
            Self::WrongSecret => "showed a wrong secret",
            Self::NoSecret => "showed no secret",
            Self::WrongPath => "made a call that is not known here",
            Self::OtherCertificate => "did not accept the certificate",
            Self::NoHttp2 => "did not speak HTTP/2",
            Self::PlainText | Self::Noise | Self::HugeLengths => "did not speak TLS",
            Self::Pings => "said too much before it showed a secret",
            Self::Gone => "left during the handshake",
            Self::NoJoin => "away: it did not ask to join",
            Self::LongName => "is too long to be one",
            Self::OtherVersion => "it runs Bonfire 0.0.0",
        }
    }
}

/// No answer takes longer; a head that does not hang up fails the test.
const DEADLINE: Duration = Duration::from_secs(15);

const TIMEOUTS: Timeouts = Timeouts { handshake: DEADLINE, silence: DEADLINE, patience: DEADLINE };

impl Adversary {
    pub(crate) fn new(ticket: &str) -> Self {
        let ticket: Ticket = ticket.parse().expect("a ticket");
        Self { address: ticket.address.parse().expect("an address"), ticket }
    }

    /// The same at another's door.
    pub(crate) fn at(&self, address: SocketAddr) -> Self {
        Self { address, ticket: self.ticket.clone() }
    }

    /// Comes once, and stays until it is shown out.
    pub(crate) fn come(&self, kind: Kind) {
        let call = |path: &str| [PREFACE, &frame(4, 0, 0, &[]), &frame(1, 4, 1, &headers(path))].concat();
        match kind {
            Kind::Gone => drop(self.connect().write_all(&[22])),
            Kind::PlainText => say(&mut self.connect(), b"GET / HTTP/1.1\r\nHost: head\r\n\r\n"),
            Kind::Noise => {
                let noise: Vec<u8> =
                    (1..5000u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
                say(&mut self.connect(), &noise);
            }
            Kind::HugeLengths => say(&mut self.connect(), &[0xff; 400]),
            Kind::NoSecret => hear(&mut self.encrypted(), &call("/bonfire.v1.Fire/Link")),
            Kind::WrongPath => hear(&mut self.encrypted(), &call("/index.html")),
            Kind::NoHttp2 => say(&mut self.encrypted(), b"GET / HTTP/1.1\r\nHost: head\r\n\r\n"),
            Kind::Pings => {
                let pings = frame(6, 0, 0, &[7; 8]).repeat(20_000);
                say(&mut self.encrypted(), &[PREFACE, &frame(4, 0, 0, &[]), &pings].concat());
            }
            Kind::WrongSecret => self.fail_to_link(self.security(), &Secret::from([1; 16])),
            Kind::OtherCertificate => {
                self.fail_to_link(ConnectSecurity::Tls(Fingerprint::from([1; 32])), &self.ticket.secret);
            }
            Kind::NoJoin => {
                self.say_as_node(Body::Push(proto::Push { order: u64::MAX, ..proto::Push::default() }))
            }
            Kind::LongName => self.say_as_node(join(&"x".repeat(1_000_000), env!("CARGO_PKG_VERSION"))),
            Kind::OtherVersion => self.say_as_node(join("evil", "0.0.0")),
        }
    }

    /// So many of all kinds that need no patience, and as many again that say nothing at all.
    pub(crate) fn come_all_at_once(&self, count: usize) {
        let silent: Vec<TcpStream> =
            (0..count / 2).filter_map(|_| TcpStream::connect_timeout(&self.address, DEADLINE).ok()).collect();
        thread::scope(|scope| {
            for helper in 0..4 {
                scope.spawn(move || {
                    let kinds = [Kind::Noise, Kind::PlainText, Kind::HugeLengths, Kind::NoSecret, Kind::Gone];
                    for i in (helper..count - count / 2).step_by(4) {
                        self.come(kinds[i % kinds.len()]);
                    }
                });
            }
        });
        drop(silent);
    }

    fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect_timeout(&self.address, DEADLINE).expect("a connection");
        stream.set_read_timeout(Some(DEADLINE)).expect("a limit");
        stream.set_write_timeout(Some(DEADLINE)).expect("a limit");
        stream
    }

    /// A connection with TLS, whoever the other side is.
    fn encrypted(&self) -> StreamOwned<ClientConnection, TcpStream> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config =
            ClientConfig::builder_with_provider(provider).with_protocol_versions(&[&rustls::version::TLS13]);
        let mut config = config
            .expect("a version")
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(Anybody))
            .with_no_client_auth();
        config.alpn_protocols = vec![b"h2".to_vec()];
        let name = ServerName::try_from("bonfire").expect("a name");
        let connection = ClientConnection::new(Arc::new(config), name).expect("TLS");
        StreamOwned::new(connection, self.connect())
    }

    fn security(&self) -> ConnectSecurity {
        ConnectSecurity::Tls(self.ticket.fingerprint.expect("a fingerprint"))
    }

    fn fail_to_link(&self, security: ConnectSecurity, secret: &Secret) {
        let wire = Wire::start().expect("threads");
        let sink: Sink = Box::new(|_: Incoming| ());
        let link = wire.connect(&self.address.to_string(), security, secret, TIMEOUTS, sink);
        assert!(link.is_err(), "a stranger was let in");
    }

    /// A link as a node has it.
    fn link(&self, wire: &Wire) -> (Outbox, Receiver<Incoming>) {
        let (sender, receiver) = channel();
        let sink: Sink = Box::new(move |incoming: Incoming| drop(sender.send(incoming)));
        let address = self.address.to_string();
        let outbox = wire.connect(&address, self.security(), &self.ticket.secret, TIMEOUTS, sink);
        (outbox.expect("a link"), receiver)
    }

    /// Says one thing to the head, which must hang up.
    fn say_as_node(&self, body: Body) {
        let wire = Wire::start().expect("threads");
        let (outbox, inbox) = self.link(&wire);
        outbox.send(body).expect("sent");
        while let Incoming::Frame(_) = inbox.recv_timeout(DEADLINE).expect("the end of the link") {}
    }

    /// Joins as a worker, and answers each order with something else that is wrong. Returns how many there were.
    pub(crate) fn join_and_misbehave(&self) -> usize {
        let wire = Wire::start().expect("threads");
        let (head, inbox) = self.link(&wire);
        head.send(join("evil", env!("CARGO_PKG_VERSION"))).expect("sent");
        let mut layout = Layout::default();
        let mut orders = 0;
        loop {
            let frame = match inbox.recv_timeout(DEADLINE).expect("something from the head") {
                Incoming::Frame(frame) => frame,
                Incoming::Closed(reason) => panic!("the head closed the link: {reason}"),
            };
            match frame.body {
                Body::Welcome(welcome) => {
                    layout = layout_of(&welcome.run_file);
                    let layout_digest = layout_digest(&layout).into_bytes().into();
                    let ready = proto::Ready {
                        samples: 0,
                        data_digest: welcome.data_digest,
                        layout_digest,
                        error: String::new(),
                    };
                    head.send(Body::Ready(ready)).expect("sent");
                }
                // It says that it has the state, and never asks for it.
                Body::TakeState(_) => head.send(Body::StateTaken(proto::StateTaken {})).expect("sent"),
                Body::Go(proto::Go { order: Some(order), units, .. }) => {
                    misbehave(orders, &head, order, units, &layout);
                    orders += 1;
                    if orders == MISDEEDS {
                        head.close();
                        // Until all has been heard.
                        while let Ok(Incoming::Frame(_)) = inbox.recv_timeout(DEADLINE) {}
                        return orders;
                    }
                }
                _ => {}
            }
        }
    }
}

/// How many ways there are to answer an order wrongly.
const MISDEEDS: usize = 7;

fn misbehave(number: usize, head: &Outbox, order: u64, units: Vec<proto::Unit>, layout: &Layout) {
    let tally = proto::Tally { loss: 1.0, weight: 1.0, answers: 1, correct: 1, samples: 1, words: 1 };
    let push = proto::Push { order, weight: 1.0, tally: Some(tally), units, ..proto::Push::default() };
    let mut gradient = Gradient::new(layout);
    gradient.weight = 1.0;
    gradient.clear();
    gradient.finish();
    gradient.weight = 1.0;
    // A push with its chunks, of which the first is spoilt.
    let send_spoilt = |push: &proto::Push, gradient: &Gradient, spoil: &dyn Fn(&mut Frame)| {
        for (i, mut frame) in push_frames(gradient, layout, push.order).into_iter().enumerate() {
            if i == 0 {
                spoil(&mut frame);
            }
            head.send(frame).expect("sent");
        }
        head.send(Body::Push(push.clone())).expect("sent");
    };
    let send = |push: &proto::Push| send_spoilt(push, &gradient, &|_| ());
    match number {
        // No gradient at all, and one of another model.
        0 => send_spoilt(&push, &gradient, &|frame| frame.payload = vec![1, 2, 3, 4, 5, 6, 7, 8, 9].into()),
        1 => {
            let spoil = |frame: &mut Frame| {
                if let Body::Piece(piece) = &mut frame.body {
                    piece.index = 1_000_000;
                }
            };
            send_spoilt(&push, &gradient, &spoil);
        }
        // Not a number.
        2 => {
            let tensor = layout.tensors()[0].range.start;
            gradient.write(0)[tensor] = f32::NAN;
            send_spoilt(&push, &gradient, &|_| ());
        }
        3 => send(&proto::Push { weight: f64::INFINITY, ..push }),
        // An order that was never given, before the one that was; and units that nobody has.
        4 => {
            send(&proto::Push { order: order + 1_000_000, ..push.clone() });
            let nowhere = vec![proto::Unit { epoch: u64::MAX, index: u32::MAX }; 1000];
            send(&proto::Push { units: nowhere, ..push });
        }
        // The same again and again.
        5 => (0..20).for_each(|_| send(&push)),
        _ => {
            head.send(Body::Offer(proto::Offer { lease: u32::MAX, workers: u32::MAX })).expect("sent");
            head.send(Body::State(proto::State { round: 1, steps: 1, moments: u32::MAX, offset: 0 }))
                .expect("sent");
            send(&push);
        }
    }
}

fn layout_of(run_file: &str) -> Layout {
    let settings = Settings::read("the run file", run_file, &Overrides::default(), 1).expect("settings");
    let shape = settings.file.data.load().expect("data").shape;
    settings.file.model.build(&shape).expect("a model").layout().clone()
}

fn join(name: &str, version: &str) -> Body {
    Body::Join(proto::Join { version: version.to_owned(), name: name.to_owned(), ..proto::Join::default() })
}

/// Says something and waits to be shown out.
fn say(stream: &mut (impl Read + Write), words: &[u8]) {
    // The other side may hang up before it has heard all.
    let _ = stream.write_all(words).and_then(|()| stream.flush());
    let mut answer = [0; 4096];
    loop {
        match stream.read(&mut answer) {
            Ok(1..) => {}
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => panic!("it does not hang up"),
            _ => return,
        }
    }
}

/// Makes a call of HTTP/2 and leaves when the other side has said that it wants no more of them.
fn hear(stream: &mut (impl Read + Write), call: &[u8]) {
    const GOAWAY: u8 = 7;
    let _ = stream.write_all(call).and_then(|()| stream.flush());
    loop {
        let mut head = [0; 9];
        if stream.read_exact(&mut head).is_err() || head[3] == GOAWAY {
            return;
        }
        let len = u32::from_be_bytes([0, head[0], head[1], head[2]]);
        let mut content = vec![0; len as usize];
        if stream.read_exact(&mut content).is_err() {
            return;
        }
    }
}

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// A frame of HTTP/2.
fn frame(kind: u8, flags: u8, stream: u32, content: &[u8]) -> Vec<u8> {
    let mut bytes = (content.len() as u32).to_be_bytes()[1..].to_vec();
    bytes.extend([kind, flags]);
    bytes.extend(stream.to_be_bytes());
    bytes.extend(content);
    bytes
}

/// The headers of a call without a secret, each spelled out.
fn headers(path: &str) -> Vec<u8> {
    let fields = [
        (":method", "POST"),
        (":scheme", "https"),
        (":path", path),
        (":authority", "head"),
        ("content-type", "application/grpc"),
    ];
    let mut bytes = Vec::new();
    for (name, value) in fields {
        bytes.push(0);
        for text in [name, value] {
            bytes.push(text.len() as u8);
            bytes.extend(text.as_bytes());
        }
    }
    bytes
}

/// Trusts whoever is there.
#[derive(Debug)]
struct Anybody;

impl ServerCertVerifier for Anybody {
    fn verify_server_cert(
        &self,
        _end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _message: &[u8],
        _certificate: &CertificateDer<'_>,
        _signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn verify_tls13_signature(
        &self,
        _message: &[u8],
        _certificate: &CertificateDer<'_>,
        _signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        vec![SignatureScheme::ECDSA_NISTP256_SHA256, SignatureScheme::ED25519]
    }
}

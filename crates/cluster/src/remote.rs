//! A run whose nodes are processes, here or on other machines: links are gRPC.

use std::fs::{self, File};
use std::io::{BufReader, Read, Write};
use std::net::{SocketAddr, ToSocketAddrs, UdpSocket};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail, ensure};
use bonfire_learn::data::{Dataset, Source, pack};
use bonfire_report::{HostFacts, Summary};
use bonfire_wire::proto::frame::Body;
use bonfire_wire::{
    ConnectErrorKind, Der, Frame, Identity, ListenSecurity, Listener, Outbox, Secret, Ticket, Timeouts, Wire,
    proto,
};
use bytes::Bytes;
use serde::{Deserialize, Serialize};

use crate::checkpoint::layout_digest;
use crate::mail::{Mailbox, News, Post, mailbox};
use crate::roles::head;
use crate::roles::network::{Grpc, Network};
use crate::roles::node::{self, Desk, Equipment, HeadGone};
use crate::roles::registry::{Entry, Registry};
use crate::run::Run;
use crate::run_file::{Distribute, Overrides, Settings};
use crate::state::data_digest;

/// The version that all nodes of a run must share.
const VERSION: &str = env!("CARGO_PKG_VERSION");

/// How a head is reached.
#[derive(Clone, Debug)]
pub struct Access {
    /// Where it listens; a run that is resumed otherwise listens where it did before.
    pub listen: Option<String>,
    /// The host that the ticket names, if it is another than the one it listens on.
    pub advertise: Option<String>,
    /// Without TLS.
    pub insecure: bool,
    /// How long nodes may take to come.
    pub wait: Duration,
}

/// Where a head listens that was not told.
const LISTEN: &str = "0.0.0.0:4711";

/// What a head needs to come back under the same ticket. In a file that only its owner can read.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Keys {
    listen: String,
    advertise: Option<String>,
    secret: [u8; 16],
    /// Certificate and key; none without TLS.
    identity: Option<(Vec<u8>, Vec<u8>)>,
}

impl Keys {
    fn new(access: &Access) -> Result<Self> {
        let secret = Secret::generate().context("cannot make a secret")?.reveal();
        let identity = (!access.insecure).then(Identity::generate).transpose()?;
        let identity =
            identity.map(|identity| (identity.to_der().certificate.clone(), identity.to_der().key.clone()));
        let listen = access.listen.clone().unwrap_or_else(|| LISTEN.to_owned());
        Ok(Self { listen, advertise: access.advertise.clone(), secret, identity })
    }

    /// Those of a run that is to be resumed.
    pub fn load(folder: &Path) -> Result<Self> {
        let path = folder.join(KEYS);
        let text = fs::read_to_string(&path).with_context(|| {
            format!("{}: without it the nodes' ticket is of no use; start a new head", path.display())
        })?;
        serde_json::from_str(&text).with_context(|| format!("{}", path.display()))
    }

    fn save(&self, folder: &Path) -> Result<()> {
        let path = folder.join(KEYS);
        let mut options = File::options();
        options.write(true).create(true).truncate(true);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        let text = serde_json::to_string(self)?;
        options.open(&path)?.write_all(text.as_bytes()).with_context(|| format!("{}", path.display()))
    }
}

/// The file of a run folder that holds its keys.
const KEYS: &str = "keys.json";

/// An address at which a head can be reached.
#[derive(Debug)]
pub struct Gate {
    ticket: Ticket,
    keys: Keys,
    wait: Duration,
    mailbox: Mailbox,
    /// Dropped after the listener: links end with it.
    _listener: Listener,
    _wire: Wire,
}

impl Gate {
    /// Opens an address for the run of these settings: a new one, or that of a run that comes back.
    pub fn open(access: &Access, settings: &Settings, keys: Option<Keys>) -> Result<Self> {
        let wire = Wire::start().context("cannot start the network's threads")?;
        let mut keys = keys.map_or_else(|| Keys::new(access), Ok)?;
        if let Some(listen) = &access.listen {
            keys.listen.clone_from(listen);
        }
        if let Some(host) = &access.advertise {
            keys.advertise = Some(host.clone());
        }
        let secret = Secret::from(keys.secret);
        let identity =
            keys.identity.clone().map(|(certificate, key)| Identity::from_der(Der { certificate, key }));
        let identity = identity.transpose()?;
        let fingerprint = identity.as_ref().map(Identity::fingerprint);
        let security = identity.map_or(ListenSecurity::Plain, ListenSecurity::Tls);
        let (post, mailbox) = mailbox();
        let listener = listen(&wire, &keys.listen, security, &secret, timeouts(settings), &post)?;
        let address = listener.local_addr();
        // A port that was free is the one to come back to.
        if let Some((host, _)) = keys.listen.rsplit_once(':') {
            keys.listen = format!("{host}:{}", address.port());
        }
        let host = keys.advertise.clone().unwrap_or_else(|| host_of(address));
        let ticket = Ticket { address: format!("{host}:{}", address.port()), fingerprint, secret };
        Ok(Self { ticket, keys, wait: access.wait, mailbox, _listener: listener, _wire: wire })
    }

    /// What lets a node join.
    pub fn ticket(&self) -> &Ticket {
        &self.ticket
    }

    /// Keeps what the head needs to come back.
    pub fn save(&self, run: &Run) -> Result<()> {
        self.keys.save(run.folder())
    }
}

/// How others name this machine: by the address it listens on, or by the one on the way out.
fn host_of(address: SocketAddr) -> String {
    let name = || HostFacts::collect(None).hostname.unwrap_or_else(|| "localhost".to_owned());
    let ip = match address.ip() {
        ip if !ip.is_unspecified() => ip,
        _ => match own_address("192.0.2.1:9") {
            Some(own) => own.ip(),
            None => return name(),
        },
    };
    match ip {
        std::net::IpAddr::V6(ip) => format!("[{ip}]"),
        std::net::IpAddr::V4(ip) => ip.to_string(),
    }
}

fn timeouts(settings: &Settings) -> Timeouts {
    Timeouts { silence: Duration::from_secs_f64(settings.file.silence_s), ..Timeouts::default() }
}

/// Listens for peers, which come into a mailbox.
fn listen(
    wire: &Wire,
    address: &str,
    security: ListenSecurity,
    secret: &Secret,
    timeouts: Timeouts,
    post: &Post,
) -> Result<Listener> {
    let (accept, turned_away) = (post.clone(), post.clone());
    let accept = move |_: SocketAddr, outbox: Outbox| {
        let link = accept.number();
        accept.announce(link, outbox);
        accept.sink(link)
    };
    let strangers =
        move |address: SocketAddr, reason: &str| turned_away.stranger(&address.to_string(), reason);
    Ok(wire.listen(address, security, secret, timeouts, accept, strangers)?)
}

/// The address of this machine on the way to another. Nothing is sent.
fn own_address(towards: &str) -> Option<SocketAddr> {
    let target = towards.to_socket_addrs().ok()?.next()?;
    let any = if target.is_ipv4() { "0.0.0.0:0" } else { "[::]:0" };
    let socket = UdpSocket::bind(any).ok()?;
    socket.connect(target).ok()?;
    socket.local_addr().ok()
}

impl Run {
    /// Trains with the nodes that come to the gate. As [`Run::finish`] in all else.
    pub fn lead(mut self, gate: &Gate, stop: &AtomicBool) -> Result<Summary> {
        let led = self
            .entry()
            .and_then(|entry| head::lead(&mut self, Registry::new(entry), &gate.mailbox, stop, gate.wait));
        self.end(led)
    }

    /// What nodes must know, and be.
    fn entry(&self) -> Result<Entry> {
        let job = &self.job;
        let shipment = match job.settings.file.distribute {
            Distribute::Local => None,
            Distribute::Ship => {
                let mut bytes = Vec::new();
                pack::write(&job.dataset, &mut bytes)?;
                Some(Bytes::from(bytes))
            }
        };
        let state = 1 + job.replica.optimizer.moments().len();
        Ok(Entry {
            version: VERSION.to_owned(),
            run_file: job.settings.to_yaml()?,
            data_digest: data_digest(&job.dataset)?,
            layout_digest: layout_digest(job.layout()).into_bytes(),
            shipment,
            payload_bytes: job.layout().len() * 4 * state + (1 << 16),
        })
    }
}

/// How a node takes part.
#[derive(Clone, Debug)]
pub struct Part {
    /// What the head calls it; otherwise the machine's name.
    pub name: Option<String>,
    /// Where other nodes reach it; otherwise a free port on the way to the head.
    pub listen: Option<String>,
    /// How long the head may take to answer at first.
    pub wait: Duration,
    /// How long a head that is gone is waited for.
    pub patience: Duration,
    /// Where data that were shipped are kept.
    pub cache: Option<PathBuf>,
}

/// What a node has to tell while it takes part.
#[derive(Clone, Debug, PartialEq)]
pub enum Stage {
    Connected {
        address: String,
    },
    /// So many bytes of the data have come.
    Fetching {
        bytes: u64,
        of: u64,
    },
    Ready {
        name: String,
    },
    /// The head has given this node a role.
    Assigned {
        role: String,
    },
    /// The head is gone; it is waited for so many seconds.
    HeadGone {
        reason: String,
        patience_s: u64,
    },
    Stopped {
        reason: String,
    },
}

/// Takes part in a run until it is over. An error if it failed, or this node did. A head that is gone is waited for.
pub fn take_part(ticket: &Ticket, part: &Part, tell: &mut dyn FnMut(Stage)) -> Result<()> {
    let wire = Arc::new(Wire::start().context("cannot start the network's threads")?);
    let mut loaded = None;
    let mut wait = part.wait;
    loop {
        let attended = attend(&wire, ticket, part, wait, &mut loaded, tell);
        match attended {
            Err(error) if error.is::<HeadGone>() && !part.patience.is_zero() => {
                let reason = format!("{error:#}");
                tell(Stage::HeadGone { reason, patience_s: part.patience.as_secs() });
                wait = part.patience;
            }
            Err(error) => return Err(error),
            Ok(stop) => {
                tell(Stage::Stopped { reason: stop.reason.clone() });
                ensure!(!stop.failed, "the run failed: {}", stop.reason);
                return Ok(());
            }
        }
    }
}

/// Takes part as long as the head is there. What was `loaded` before need not be loaded again.
fn attend(
    wire: &Arc<Wire>,
    ticket: &Ticket,
    part: &Part,
    wait: Duration,
    loaded: &mut Option<Loaded>,
    tell: &mut dyn FnMut(Stage),
) -> Result<proto::Stop> {
    let (post, mailbox) = mailbox();
    let head_link = post.number();
    let head = connect(wire, ticket, wait, (&post, head_link), loaded.is_some())?;
    tell(Stage::Connected { address: ticket.address.clone() });
    let identity = ticket.fingerprint.is_some().then(Identity::generate).transpose()?;
    let fingerprint = identity.as_ref().map(|identity| identity.fingerprint().as_bytes().to_vec());
    let security = identity.map_or(ListenSecurity::Plain, ListenSecurity::Tls);
    let at = match (&part.listen, own_address(&ticket.address)) {
        (Some(address), _) => address.clone(),
        (None, Some(own)) => SocketAddr::new(own.ip(), 0).to_string(),
        (None, None) => "0.0.0.0:0".to_owned(),
    };
    let listener = listen(wire, &at, security, &ticket.secret, Timeouts::default(), &post)?;
    let facts = HostFacts::collect(None);
    let name = part.name.clone().or(facts.hostname).unwrap_or_else(|| "node".to_owned());
    head.send(Body::Join(proto::Join {
        version: VERSION.to_owned(),
        name,
        machine: machine_id(),
        cores: facts.cores.unwrap_or(1) as u32,
        memory_mb: facts.memory_mb.unwrap_or(0),
        address: listener.local_addr().to_string(),
        fingerprint: fingerprint.unwrap_or_default().into(),
    }))?;
    let welcome = await_welcome(&mailbox, head_link, part.wait)?;
    let newcomer = Newcomer { head: &head, head_link, mailbox: &mailbox, cache: part.cache.as_deref() };
    let equipment = match newcomer.prepare(&welcome, loaded, tell) {
        Ok(equipment) => equipment,
        Err(error) => {
            let ready = proto::Ready { error: format!("{error:#}"), ..proto::Ready::default() };
            let _ = head.send(Body::Ready(ready));
            head.close();
            return Err(error);
        }
    };
    let (secret, timeouts) = (ticket.secret.clone(), timeouts(&equipment.settings));
    let network = Network::Grpc(Arc::new(Grpc { wire: Arc::clone(wire), secret, timeouts }));
    tell(Stage::Ready { name: format!("node {}", welcome.node) });
    let mut desk = Desk::new(welcome.node, head_link, head, post, mailbox, network);
    node::serve(&mut desk, equipment, &mut |role| tell(Stage::Assigned { role: role.to_owned() }))
}

/// Connects to the head, which may not be there yet; or, if it was there before, may be on its way down or up.
fn connect(
    wire: &Wire,
    ticket: &Ticket,
    wait: Duration,
    (post, link): (&Post, u64),
    was_there: bool,
) -> Result<Outbox> {
    let deadline = Instant::now() + wait;
    let may_come = |kind: &ConnectErrorKind| match kind {
        ConnectErrorKind::Unreachable(_) => true,
        ConnectErrorKind::NotBonfire(_) => was_there,
        _ => false,
    };
    loop {
        let (security, timeouts) = (ticket.security(), Timeouts::default());
        let connected = wire.connect(&ticket.address, security, &ticket.secret, timeouts, post.sink(link));
        match connected {
            Err(error) if may_come(&error.kind) && Instant::now() < deadline => {
                std::thread::sleep(Duration::from_millis(200));
            }
            connected => return Ok(connected?),
        }
    }
}

fn await_welcome(mailbox: &Mailbox, head_link: u64, wait: Duration) -> Result<proto::Welcome> {
    let deadline = Instant::now() + wait;
    while Instant::now() < deadline {
        let Some(mail) = mailbox.next(Duration::from_millis(200)) else { continue };
        if mail.link != head_link {
            continue;
        }
        match mail.news {
            News::Frame(Frame { body: Body::Welcome(welcome), .. }) => return Ok(welcome),
            News::Frame(Frame { body: Body::Refused(refused), .. }) => {
                bail!("the head turned this node away: {}", refused.reason)
            }
            News::Closed(reason) => return Err(HeadGone(reason).into()),
            _ => {}
        }
    }
    bail!("the head did not answer within {} s", wait.as_secs())
}

/// The same for all processes on a machine, and for no other machine.
fn machine_id() -> String {
    let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id");
    let name = || HostFacts::collect(None).hostname.unwrap_or_default();
    boot.map_or_else(|_| name(), |boot| boot.trim().to_owned())
}

/// What a node has loaded for a run.
#[derive(Debug)]
struct Loaded {
    digest: Bytes,
    source: Source,
    dataset: Arc<Dataset>,
}

/// A node between its welcome and its first role.
struct Newcomer<'a> {
    head: &'a Outbox,
    head_link: u64,
    mailbox: &'a Mailbox,
    cache: Option<&'a Path>,
}

impl Newcomer<'_> {
    /// Loads data and model, and says that this node is ready.
    fn prepare(
        &self,
        welcome: &proto::Welcome,
        loaded: &mut Option<Loaded>,
        tell: &mut dyn FnMut(Stage),
    ) -> Result<Equipment> {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let settings =
            Settings::read("the head's run file", &welcome.run_file, &Overrides::default(), cores)?;
        let source = &settings.file.data;
        let is_same = |loaded: &Loaded| loaded.digest == welcome.data_digest && loaded.source == *source;
        let kept = loaded.take_if(|loaded| is_same(loaded));
        let Loaded { digest, dataset, .. } = loaded.insert(match kept {
            Some(kept) => kept,
            None => self.load(welcome, source, tell)?,
        });
        let layout = settings.file.model.build(&dataset.shape)?.layout().clone();
        let layout_digest = layout_digest(&layout).into_bytes().into();
        let ready = proto::Ready { data_digest: digest.clone(), layout_digest, error: String::new() };
        self.head.send(Body::Ready(ready))?;
        Ok(Equipment { settings, dataset: Arc::clone(dataset), layout, worker: None })
    }

    fn load(&self, welcome: &proto::Welcome, source: &Source, tell: &mut dyn FnMut(Stage)) -> Result<Loaded> {
        let (dataset, digest) = match welcome.ship {
            true => (self.shipped(welcome, tell)?, welcome.data_digest.clone()),
            false => {
                let dataset = source.load().map_err(|error| {
                    anyhow!("{error}; `distribute: ship` in the run file takes the data from the head")
                })?;
                let digest = data_digest(&dataset)?.into();
                (dataset, digest)
            }
        };
        Ok(Loaded { digest, source: source.clone(), dataset: Arc::new(dataset) })
    }

    /// The head's data: from the cache, or over the wire.
    fn shipped(&self, welcome: &proto::Welcome, tell: &mut dyn FnMut(Stage)) -> Result<Dataset> {
        let digest: String = welcome.data_digest.iter().map(|byte| format!("{byte:02x}")).collect();
        let file = self.cache.map(|cache| cache.join(format!("{digest}.pack")));
        let cached = file.as_ref().and_then(|file| read_pack(file, &welcome.data_digest).ok());
        if let Some(dataset) = cached {
            return Ok(dataset);
        }
        let bytes = self.fetch(welcome.data_bytes, tell)?;
        let dataset = pack::read(&mut bytes.as_slice())?;
        ensure!(*data_digest(&dataset)? == *welcome.data_digest, "the data that the head sent are damaged");
        if let Some(file) = file {
            // A cache that cannot be written costs time, not the run.
            let _ = keep(&file, &bytes);
        }
        Ok(dataset)
    }

    fn fetch(&self, of: u64, tell: &mut dyn FnMut(Stage)) -> Result<Vec<u8>> {
        let mut bytes = Vec::new();
        while (bytes.len() as u64) < of {
            self.head.send(Body::Fetch(proto::Fetch { offset: bytes.len() as u64 }))?;
            let chunk = self.chunk(bytes.len() as u64)?;
            ensure!(!chunk.is_empty(), "the head's data ended too soon");
            bytes.extend_from_slice(&chunk);
            tell(Stage::Fetching { bytes: bytes.len() as u64, of });
        }
        Ok(bytes)
    }

    fn chunk(&self, offset: u64) -> Result<Bytes> {
        let deadline = Instant::now() + CHUNK_WAIT;
        while Instant::now() < deadline {
            let Some(mail) = self.mailbox.next(Duration::from_millis(200)) else { continue };
            match mail.news {
                News::Frame(Frame { body: Body::Data(data), payload }) if data.offset == offset => {
                    return Ok(payload);
                }
                News::Closed(reason) if mail.link == self.head_link => return Err(HeadGone(reason).into()),
                _ => {}
            }
        }
        bail!("the head sent no data for {} s", CHUNK_WAIT.as_secs())
    }
}

/// How long a piece of the data may take.
const CHUNK_WAIT: Duration = Duration::from_secs(60);

fn read_pack(file: &Path, digest: &[u8]) -> Result<Dataset> {
    let dataset = pack::read(&mut BufReader::new(File::open(file)?))?;
    ensure!(data_digest(&dataset)? == digest, "{} is not what its name says", file.display());
    Ok(dataset)
}

fn keep(file: &Path, mut bytes: &[u8]) -> Result<()> {
    let folder = file.parent().context("a folder")?;
    fs::create_dir_all(folder)?;
    let aside = file.with_extension(format!("{}.part", std::process::id()));
    let mut out = File::create(&aside)?;
    std::io::copy(&mut bytes.by_ref(), &mut out)?;
    out.flush()?;
    fs::rename(&aside, file)?;
    Ok(())
}

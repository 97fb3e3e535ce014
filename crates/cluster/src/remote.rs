//! A run whose nodes are processes, here or on other machines: links are gRPC.

mod agreement;
mod gate;
mod local_node;
mod newcomer;
mod owner;
mod rendezvous;
mod supply;

use std::fs;
use std::net::{SocketAddr, ToSocketAddrs, UdpSocket};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use bonfire_report::{HostFacts, Watts};
use bonfire_wire::proto::frame::Body;
use bonfire_wire::{
    ConnectErrorKind, Frame, Identity, ListenSecurity, Listener, Outbox, Secret, Ticket, Timeouts, Wire,
    proto, random_number,
};

use crate::mail::{Mailbox, News, Post, mailbox};
use crate::roles::cpus::Cpus;
use crate::roles::network::Grpc;
use crate::roles::node::{self, Connections, HeadGone};
use crate::roles::vitals::Vitals;
use bonfire_run::run_file::Settings;

pub use crate::roles::head::Absent;
pub use gate::{Access, Gate, Keys};
use newcomer::{Loaded, Newcomer};
pub use rendezvous::{Announcement, Point, Refused, Rendezvous};
pub(crate) use supply::supply;

/// The version that all nodes of a run must share.
const VERSION: &str = env!("CARGO_PKG_VERSION");

/// How a node takes part.
#[derive(Clone, Debug)]
pub struct Part {
    /// What the head calls it; otherwise the machine's name.
    pub name: Option<String>,
    /// Nodes with one get the first roles, in its order.
    pub rank: Option<u32>,
    /// Where other nodes reach it; otherwise a free port on the way to the head.
    pub listen: Option<String>,
    /// How long the head may take to answer at first.
    pub wait: Duration,
    /// How long a head that is gone is waited for.
    pub patience: Duration,
    /// Where data that were shipped are kept.
    pub cache: Option<PathBuf>,
    /// What its machine takes; otherwise what the run file says.
    pub watts: Option<Watts>,
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
        /// By the user, before its time.
        interrupted: bool,
    },
}

/// Takes part in a run until it is over. An error if it failed, or this node did. A head that is gone is waited for.
pub fn take_part(ticket: &Ticket, part: &Part, tell: &mut dyn FnMut(Stage)) -> Result<()> {
    join(ticket, part, part.wait, tell)
}

/// The same with a head that must be there within `wait`.
fn join(ticket: &Ticket, part: &Part, mut wait: Duration, tell: &mut dyn FnMut(Stage)) -> Result<()> {
    let wire = Arc::new(Wire::start().context("cannot start the network's threads")?);
    let process = random_number().context("cannot name this process")?;
    let mut loaded = None;
    loop {
        let attended = attend(&wire, ticket, (part, process), wait, &mut loaded, tell);
        match attended {
            Err(error) if error.is::<HeadGone>() && !part.patience.is_zero() => {
                let reason = format!("{error:#}");
                tell(Stage::HeadGone { reason, patience_s: part.patience.as_secs() });
                wait = part.patience;
            }
            Err(error) => return Err(error),
            Ok(stop) => {
                tell(Stage::Stopped { reason: stop.reason.clone(), interrupted: stop.interrupted });
                ensure!(!stop.failed, "the run failed: {}", stop.reason);
                return Ok(());
            }
        }
    }
}

/// Takes part as long as the head is there, under the `process` that the head knows this one by. What was `loaded`
/// before need not be loaded again.
fn attend(
    wire: &Arc<Wire>,
    ticket: &Ticket,
    (part, process): (&Part, u64),
    wait: Duration,
    loaded: &mut Option<Loaded>,
    tell: &mut dyn FnMut(Stage),
) -> Result<proto::Stop> {
    let (post, mailbox) = mailbox();
    let head_link = post.number();
    let head = connect(wire, ticket, wait, (&post, head_link), loaded.is_some())?;
    tell(Stage::Connected { address: ticket.address.clone() });
    let (_listener, join) = introduce(wire, ticket, (part, process), &post)?;
    head.send(Body::Join(join))?;
    let (welcome, own) = match await_answer(&mailbox, head_link, part.wait)? {
        Answer::Welcome(welcome) => (welcome, None),
        Answer::Tell(wish) => match owner::tell(&wish, (head_link, &head), &mailbox)? {
            owner::Outcome::Welcome(welcome, own) => (welcome, Some(*own)),
            owner::Outcome::Stop(stop) => return Ok(stop),
        },
    };
    let (secret, head_address) = (ticket.secret.clone(), ticket.address.clone());
    let (wire, timeouts) = (Arc::clone(wire), Timeouts::default());
    let mut network = Grpc { wire, secret, timeouts, head: head_address };
    let mut newcomer = Newcomer {
        head: (head_link, &head),
        post: &post,
        mailbox: &mailbox,
        network: &network,
        cache: part.cache.as_deref(),
        customers: Vec::new(),
        own,
    };
    let equipment = match newcomer.prepare(&welcome, loaded, tell) {
        Ok(equipment) => equipment,
        Err(error) => {
            let ready = proto::Ready { error: format!("{error:#}"), ..proto::Ready::default() };
            let _ = head.send(Body::Ready(ready));
            head.close();
            return Err(error);
        }
    };
    let (customers, pack) = (newcomer.customers(), newcomer.pack(&welcome));
    network.timeouts = crate::remote::timeouts(&equipment.settings);
    tell(Stage::Ready { name: format!("node {}", welcome.node) });
    let mut connections = Connections::new(welcome.node, head_link, head, post, mailbox, Arc::new(network));
    (connections.waiting, connections.pack) = (customers, pack);
    let watts = part.watts.or(equipment.settings.file.watts);
    connections.vitals = Some(Vitals::of_process(watts, Instant::now()));
    node::serve(&mut connections, equipment, &mut |role| tell(Stage::Assigned { role: role.to_owned() }))
}

/// Opens a way for other nodes to this one, as long as the listener lives, and says what the head is to know of it.
fn introduce(
    wire: &Wire,
    ticket: &Ticket,
    (part, process): (&Part, u64),
    post: &Post,
) -> Result<(Listener, proto::Join)> {
    let identity = ticket.fingerprint.is_some().then(Identity::generate).transpose()?;
    let fingerprint = identity.as_ref().map(|identity| identity.fingerprint().as_bytes().to_vec());
    let security = identity.map_or(ListenSecurity::Plain, ListenSecurity::Tls);
    let at = match (&part.listen, own_address(&ticket.address)) {
        (Some(address), _) => address.clone(),
        (None, Some(own)) => SocketAddr::new(own.ip(), 0).to_string(),
        (None, None) => "0.0.0.0:0".to_owned(),
    };
    // Who has the secret may send at once what it computed.
    let most = Some(usize::MAX);
    let listener = listen(wire, &at, security, &ticket.secret, Timeouts::default(), post, most)?;
    let facts = HostFacts::collect(None);
    let machine = facts.hostname.unwrap_or_else(|| "node".to_owned());
    let name = match (&part.name, part.rank) {
        (Some(name), _) => name.clone(),
        (None, Some(rank)) => format!("{machine}:{rank}"),
        (None, None) => machine,
    };
    let join = proto::Join {
        version: VERSION.to_owned(),
        name,
        machine: machine_id(),
        cores: facts.cores.unwrap_or(1) as u32,
        memory_mb: facts.memory_mb.unwrap_or(0),
        address: listener.local_addr().to_string(),
        fingerprint: fingerprint.unwrap_or_default().into(),
        rank: part.rank,
        cpus: Cpus::own(),
        process: Some(process),
    };
    Ok((listener, join))
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

/// What the head says to who joins.
pub(crate) enum Answer {
    Welcome(proto::Welcome),
    /// First of all it wants to know of the node's own data.
    Tell(proto::Tell),
}

pub(crate) fn await_answer(mailbox: &Mailbox, head_link: u64, wait: Duration) -> Result<Answer> {
    let deadline = mailbox.now() + wait;
    while mailbox.now() < deadline {
        let Some(mail) = mailbox.next(Duration::from_millis(200)) else { continue };
        if mail.link != head_link {
            continue;
        }
        match mail.news {
            News::Frame(Frame { body: Body::Welcome(welcome), .. }) => return Ok(Answer::Welcome(welcome)),
            News::Frame(Frame { body: Body::Tell(tell), .. }) => return Ok(Answer::Tell(tell)),
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
pub(crate) fn machine_id() -> String {
    let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id");
    let name = || HostFacts::collect(None).hostname.unwrap_or_default();
    boot.map_or_else(|_| name(), |boot| boot.trim().to_owned())
}

fn timeouts(settings: &Settings) -> Timeouts {
    Timeouts { silence: Duration::from_secs_f64(settings.file.silence_s), ..Timeouts::default() }
}

/// Listens for peers, which come into a mailbox. Larger payloads than the first ones of all may be only if that is
/// said.
pub(crate) fn listen(
    wire: &Wire,
    address: &str,
    security: ListenSecurity,
    secret: &Secret,
    timeouts: Timeouts,
    post: &Post,
    payload_bytes: Option<usize>,
) -> Result<Listener> {
    let (accept, turned_away) = (post.clone(), post.clone());
    let accept = move |_: SocketAddr, outbox: Outbox| {
        let link = accept.number();
        if let Some(bytes) = payload_bytes {
            outbox.accept_payloads_up_to(bytes);
        }
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

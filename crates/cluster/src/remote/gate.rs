//! Where a head is reached, and the run that it leads from there.

use std::fs::{self, File};
use std::io::Write;
use std::net::{IpAddr, SocketAddr};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use anyhow::{Context, Result};
use bonfire_data::pack;
use bonfire_report::{Event, Exit, HostFacts, Summary};
use bonfire_wire::{Der, Identity, ListenSecurity, Listener, Passphrase, Secret, Ticket, Wire};
use bytes::Bytes;
use serde::{Deserialize, Serialize};

use super::local_node::LocalNode;
use super::{VERSION, agreement, listen, own_address, timeouts};
use crate::mail::{Mailbox, News, Post, mailbox};
use crate::roles::head;
use crate::roles::registry::{CHUNK, COMPARE_EVERY, Entry, Registry, turned_away};
use bonfire_exchange::chunks::Chunks;
use bonfire_exchange::state;
use bonfire_run::checkpoint::layout_digest;
use bonfire_run::run::Run;
use bonfire_run::run_file::{Distribute, Settings};
use bonfire_run::state::data_digest;

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

/// What nodes show where nothing is secret.
pub(super) const NO_SECRET: [u8; 16] = [0; 16];

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

    /// Those that follow from a passphrase; without TLS only its secret is used.
    pub(super) fn of_passphrase(access: &Access, passphrase: &Passphrase) -> Self {
        let der = passphrase.identity.to_der();
        Self {
            listen: access.listen.clone().unwrap_or_else(|| LISTEN.to_owned()),
            advertise: access.advertise.clone(),
            secret: passphrase.secret.reveal(),
            identity: (!access.insecure).then(|| (der.certificate.clone(), der.key.clone())),
        }
    }

    /// Those that everybody knows: for networks that are one's own.
    pub(super) fn of_nobody(access: &Access) -> Self {
        let listen = access.listen.clone().unwrap_or_else(|| LISTEN.to_owned());
        Self { listen, advertise: access.advertise.clone(), secret: NO_SECRET, identity: None }
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
        let written = options.open(&path).and_then(|mut file| file.write_all(text.as_bytes()));
        if written.is_err() {
            // Half of a key opens nothing.
            let _ = fs::remove_file(&path);
        }
        written.with_context(|| format!("{}", path.display()))
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
    pub(super) post: Post,
    mailbox: Mailbox,
    /// Dropped after the listener: links end with it.
    listener: Listener,
    pub(super) wire: Arc<Wire>,
}

impl Gate {
    /// Opens an address for the run of these settings: a new one, or that of a run that comes back.
    pub fn open(access: &Access, settings: &Settings, keys: Option<Keys>) -> Result<Self> {
        let wire = Arc::new(Wire::start().context("cannot start the network's threads")?);
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
        let listener = listen(&wire, &keys.listen, security, &secret, timeouts(settings), &post, None)?;
        let address = listener.local_addr();
        // A port that was free is the one to come back to.
        if let Some((host, _)) = keys.listen.rsplit_once(':') {
            keys.listen = format!("{host}:{}", address.port());
        }
        let host = keys.advertise.clone().unwrap_or_else(|| host_of(address));
        let ticket = Ticket { address: format!("{host}:{}", address.port()), fingerprint, secret };
        Ok(Self { ticket, keys, wait: access.wait, post, mailbox, listener, wire })
    }

    /// What lets a node join.
    pub fn ticket(&self) -> &Ticket {
        &self.ticket
    }

    /// The address of all ways to this machine, if the head listens on all of them: who reaches the head by one of them
    /// reaches others here by it, too.
    pub(super) fn open_host(&self) -> Option<IpAddr> {
        Some(self.listener.local_addr().ip()).filter(IpAddr::is_unspecified)
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
        IpAddr::V6(ip) => format!("[{ip}]"),
        IpAddr::V4(ip) => ip.to_string(),
    }
}

impl Gate {
    /// Trains with the nodes that come to the gate. Whatever happens, the summary is written.
    pub fn lead(&self, mut run: Run, stop: &AtomicBool) -> Result<Summary> {
        let led = match self.receive(&mut run, stop, false) {
            Ok(Some(registry)) => self.conduct(&mut run, registry, stop),
            Ok(None) => Ok(Exit::Interrupted),
            Err(error) => Err(error),
        };
        self.conclude(run, led)
    }

    /// The same with this process as a node too, of this name: the first of those that the run asks for.
    pub fn lead_at_work(&self, mut run: Run, stop: &AtomicBool, name: Option<String>) -> Result<Summary> {
        let led = self.receive(&mut run, stop, true).and_then(|registry| {
            let Some(mut registry) = registry else { return Ok(Exit::Interrupted) };
            let local_node = LocalNode::move_in(name, &run, self, &mut registry)?;
            let led = self.conduct(&mut run, registry, stop);
            local_node.move_out();
            led
        });
        self.conclude(run, led)
    }

    /// The list of nodes. Those with data of their own agree first on words and classes; none if the user stopped that.
    fn receive(&self, run: &mut Run, stop: &AtomicBool, works: bool) -> Result<Option<Registry>> {
        match run.job.settings.is_to_agree() {
            true => agreement::reach(run, &self.mailbox, stop, self.wait, works),
            false => Ok(Some(Registry::new(entry(run)?))),
        }
    }

    fn conduct(&self, run: &mut Run, registry: Registry, stop: &AtomicBool) -> Result<Exit> {
        head::lead(run, registry, &self.mailbox, stop, self.wait)
    }

    fn conclude(&self, mut run: Run, led: Result<Exit>) -> Result<Summary> {
        self.listener.sum_up();
        while let Some(mail) = self.mailbox.next(Duration::ZERO) {
            if let News::Stranger(reason) = mail.news {
                run.tell(Event::Warned { message: turned_away(&reason) });
            }
        }
        run.end(led)
    }
}

/// What nodes must know who are to tell of their data.
pub(super) fn entry_to_agree(run: &Run) -> Result<Entry> {
    Ok(Entry {
        version: VERSION.to_owned(),
        run_file: run.job.settings.to_yaml()?,
        data_digest: Vec::new(),
        layout_digest: Vec::new(),
        shipment: None,
        payload_bytes: CHUNK,
        compare_every: COMPARE_EVERY,
    })
}

/// What nodes must know, and be.
pub(super) fn entry(run: &Run) -> Result<Entry> {
    let job = &run.job;
    let shared = match job.settings.file.distribute {
        // Which words and classes there are, and no sample.
        Distribute::Own => Arc::new(job.dataset.form()),
        Distribute::Local | Distribute::Ship => Arc::clone(&job.dataset),
    };
    let shipment = match job.settings.file.distribute {
        Distribute::Local => None,
        Distribute::Ship | Distribute::Own => {
            let mut bytes = Vec::new();
            pack::write(&shared, &mut bytes)?;
            Some(Bytes::from(bytes))
        }
    };
    Ok(Entry {
        data_digest: data_digest(&shared)?,
        layout_digest: layout_digest(job.layout()).into_bytes(),
        shipment,
        payload_bytes: Chunks::of(job.layout()).most_bytes().max(state::MOST_BYTES),
        ..entry_to_agree(run)?
    })
}

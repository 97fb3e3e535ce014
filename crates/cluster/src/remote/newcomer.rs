//! A node between its welcome and its first role: gets the data, and says that it is ready.

use std::fs::{self, File};
use std::io::{BufReader, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail, ensure};
use bonfire_data::{Dataset, Source, pack};
use bonfire_wire::proto::frame::Body;
use bonfire_wire::{Frame, Outbox, proto};
use bytes::Bytes;

use super::Stage;
use super::supply::Customer;
use crate::mail::{Mailbox, News, Post};
use crate::roles::network::Network;
use crate::roles::node::{Equipment, HeadGone};
use crate::roles::registry::CHUNK;
use bonfire_run::checkpoint::layout_digest;
use bonfire_run::run_file::{Distribute, Overrides, Settings};
use bonfire_run::state::data_digest;

/// What a node has loaded for a run.
#[derive(Debug)]
pub(crate) struct Loaded {
    digest: Bytes,
    source: Source,
    dataset: Arc<Dataset>,
}

/// What a newcomer has at hand.
#[derive(Debug)]
pub(crate) struct Newcomer<'a> {
    pub head: (u64, &'a Outbox),
    pub post: &'a Post,
    pub mailbox: &'a Mailbox,
    pub network: &'a dyn Network,
    /// Where data that were shipped are kept.
    pub cache: Option<&'a Path>,
    /// Who takes the data from this node.
    pub customers: Vec<Customer>,
    /// Data of its own with all their words, if it has told of them.
    pub own: Option<Dataset>,
}

/// What the head asks for, on this machine.
pub(super) fn read_settings(run_file: &str) -> Result<Settings> {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    Ok(Settings::read("the head's run file", run_file, &Overrides::default(), cores)?)
}

/// Another node that has the data, or is getting them.
struct Supplier {
    link: u64,
    outbox: Outbox,
}

impl Newcomer<'_> {
    /// Loads data and model, and says that this node is ready.
    pub(crate) fn prepare(
        &mut self,
        welcome: &proto::Welcome,
        loaded: &mut Option<Loaded>,
        tell: &mut dyn FnMut(Stage),
    ) -> Result<Equipment> {
        let settings = read_settings(&welcome.run_file)?;
        let source = &settings.file.data;
        let is_same = |loaded: &Loaded| loaded.digest == welcome.data_digest && loaded.source == *source;
        let kept = loaded.take_if(|loaded| is_same(loaded));
        let Loaded { digest, dataset, .. } = loaded.insert(match kept {
            Some(kept) => kept,
            None => self.load(welcome, &settings, tell)?,
        });
        let layout = settings.file.model.build(&dataset.shape)?.layout().clone();
        let layout_digest = layout_digest(&layout).into_bytes().into();
        let (data_digest, samples) = (digest.clone(), dataset.train.len() as u64);
        let ready = proto::Ready { data_digest, layout_digest, samples, error: String::new() };
        self.head.1.send(Body::Ready(ready))?;
        Ok(Equipment { settings, dataset: Arc::clone(dataset), layout, worker: None })
    }

    fn load(
        &mut self,
        welcome: &proto::Welcome,
        settings: &Settings,
        tell: &mut dyn FnMut(Stage),
    ) -> Result<Loaded> {
        let source = &settings.file.data;
        let (dataset, digest) = match welcome.ship {
            true if settings.file.distribute == Distribute::Own => {
                let form = self.shipped(welcome, tell)?;
                let own = self.own.take().map_or_else(|| source.load_all_words(), Ok);
                let mut own = own.and_then(|own| source.in_form(own, &form)).map_err(|error| {
                    anyhow!("{error}; `distribute: own` in the run file has every node train on its own data")
                })?;
                settings.hold_out(&mut own)?;
                (own, welcome.data_digest.clone())
            }
            true => (self.shipped(welcome, tell)?, welcome.data_digest.clone()),
            false => {
                let mut dataset = source.load().map_err(|error| {
                    anyhow!("{error}; `distribute: ship` in the run file takes the data from the head")
                })?;
                settings.hold_out(&mut dataset)?;
                let digest = data_digest(&dataset)?.into();
                (dataset, digest)
            }
        };
        Ok(Loaded { digest, source: source.clone(), dataset: Arc::new(dataset) })
    }

    /// The head's data: from the cache, or over the wire.
    fn shipped(&mut self, welcome: &proto::Welcome, tell: &mut dyn FnMut(Stage)) -> Result<Dataset> {
        let file = self.pack(welcome);
        let cached = file.as_ref().and_then(|file| read_pack(file, &welcome.data_digest).ok());
        if let Some(dataset) = cached {
            return Ok(dataset);
        }
        let is_whole = |bytes: &[u8]| {
            let dataset = pack::read(&mut &*bytes)?;
            ensure!(*data_digest(&dataset)? == *welcome.data_digest, "the data that were sent are damaged");
            Ok(dataset)
        };
        let mut bytes = self.fetch(welcome.data_bytes, welcome.supplier.as_ref(), tell)?;
        let dataset = match is_whole(&bytes) {
            // Another node's memory, or disk, may be bad.
            Err(_) if welcome.supplier.is_some() => {
                bytes = self.fetch(welcome.data_bytes, None, tell)?;
                is_whole(&bytes)?
            }
            dataset => dataset?,
        };
        if let Some(file) = file {
            // A cache that cannot be written costs time, not the run.
            let _ = keep(&file, &bytes);
        }
        Ok(dataset)
    }

    /// Where the data are kept as they were shipped, if they are.
    pub(crate) fn pack(&self, welcome: &proto::Welcome) -> Option<PathBuf> {
        let digest: String = welcome.data_digest.iter().map(|byte| format!("{byte:02x}")).collect();
        self.cache.filter(|_| welcome.ship).map(|cache| cache.join(format!("{digest}.pack")))
    }

    /// The links of those who take the data from this node.
    pub(crate) fn customers(&mut self) -> Vec<(u64, Outbox)> {
        std::mem::take(&mut self.customers).into_iter().map(|one| (one.link, one.outbox)).collect()
    }

    /// Takes the data from another node, as long as it has them, and from the head.
    fn fetch(
        &mut self,
        of: u64,
        supplier: Option<&proto::Peer>,
        tell: &mut dyn FnMut(Stage),
    ) -> Result<Vec<u8>> {
        let mut supplier = supplier.and_then(|peer| self.reach(peer));
        let mut bytes = Vec::new();
        while (bytes.len() as u64) < of {
            let offset = bytes.len() as u64;
            let (link, outbox, wait) = match &supplier {
                Some(Supplier { link, outbox }) => (*link, outbox, SUPPLIER_WAIT),
                None => (self.head.0, self.head.1, CHUNK_WAIT),
            };
            let asked = outbox.send(Body::Fetch(proto::Fetch { offset }));
            let chunk = match asked {
                Ok(()) => self.chunk(link, wait, &bytes, of)?,
                Err(_) => None,
            };
            match chunk.filter(|chunk| !chunk.is_empty()) {
                Some(chunk) => bytes.extend_from_slice(&chunk),
                None if supplier.take().is_some() => continue,
                None => bail!("the head sent no data for {} s, or too few", CHUNK_WAIT.as_secs()),
            }
            self.customers.iter_mut().for_each(|customer| customer.serve(&bytes, of));
            tell(Stage::Fetching { bytes: bytes.len() as u64, of });
        }
        Ok(bytes)
    }

    /// Another node; none if it cannot be reached.
    fn reach(&self, peer: &proto::Peer) -> Option<Supplier> {
        let link = self.post.number();
        let outbox = self.network.connect(peer, self.post.sink(link)).ok()?;
        outbox.accept_payloads_up_to(CHUNK);
        Some(Supplier { link, outbox })
    }

    /// The piece from where those end that are here. None if it does not come, or somebody else is to be asked for it.
    fn chunk(&mut self, from: u64, wait: Duration, bytes: &[u8], of: u64) -> Result<Option<Bytes>> {
        let deadline = Instant::now() + wait;
        while Instant::now() < deadline {
            let Some(mail) = self.mailbox.next(Duration::from_millis(200)) else { continue };
            match mail.news {
                News::Frame(Frame { body: Body::Data(data), payload })
                    if mail.link == from && data.offset == bytes.len() as u64 =>
                {
                    return Ok(Some(payload));
                }
                News::Frame(Frame { body: Body::Fetch(fetch), .. }) => {
                    let mut customers = self.customers.iter_mut();
                    if let Some(customer) = customers.find(|customer| customer.link == mail.link) {
                        customer.wants = Some(fetch.offset);
                        customer.serve(bytes, of);
                    }
                }
                News::Opened(outbox) => {
                    self.customers.push(Customer { link: mail.link, outbox, wants: None });
                }
                News::Closed(reason) if mail.link == self.head.0 => return Err(HeadGone(reason).into()),
                News::Closed(_) if mail.link == from => return Ok(None),
                News::Closed(_) => self.customers.retain(|customer| customer.link != mail.link),
                _ => {}
            }
        }
        Ok(None)
    }
}

/// How long another node may take for a piece before the head is asked instead: it may be waiting for one itself.
const SUPPLIER_WAIT: Duration = Duration::from_secs(20);

/// How long a piece of the data may take.
const CHUNK_WAIT: Duration = Duration::from_secs(60);

fn read_pack(file: &Path, digest: &[u8]) -> Result<Dataset> {
    let dataset = pack::read(&mut BufReader::new(File::open(file)?))?;
    ensure!(data_digest(&dataset)? == digest, "{} is not what its name says", file.display());
    Ok(dataset)
}

fn keep(file: &Path, bytes: &[u8]) -> Result<()> {
    let folder = file.parent().context("a folder")?;
    fs::create_dir_all(folder)?;
    let aside = file.with_extension(format!("{}.part", std::process::id()));
    let mut out = File::create(&aside)?;
    out.write_all(bytes)?;
    fs::rename(&aside, file)?;
    Ok(())
}

//! A node between its welcome and its first role: gets the data, and says that it is ready.

use std::fs::{self, File};
use std::io::{BufReader, Write};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail, ensure};
use bonfire_data::{Dataset, Source, pack};
use bonfire_wire::proto::frame::Body;
use bonfire_wire::{Frame, Outbox, proto};
use bytes::Bytes;

use super::Stage;
use crate::mail::{Mailbox, News};
use crate::roles::node::{Equipment, HeadGone};
use bonfire_run::checkpoint::layout_digest;
use bonfire_run::run_file::{Overrides, Settings};
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
    pub head: &'a Outbox,
    pub head_link: u64,
    pub mailbox: &'a Mailbox,
    /// Where data that were shipped are kept.
    pub cache: Option<&'a Path>,
}

impl Newcomer<'_> {
    /// Loads data and model, and says that this node is ready.
    pub(crate) fn prepare(
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
        Ok(Equipment {
            settings,
            dataset: Arc::clone(dataset),
            layout,
            worker: None,
            #[cfg(test)]
            toil: None,
        })
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
                News::Frame(Frame { body: Body::Data(data), payload })
                    if mail.link == self.head_link && data.offset == offset =>
                {
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

fn keep(file: &Path, bytes: &[u8]) -> Result<()> {
    let folder = file.parent().context("a folder")?;
    fs::create_dir_all(folder)?;
    let aside = file.with_extension(format!("{}.part", std::process::id()));
    let mut out = File::create(&aside)?;
    out.write_all(bytes)?;
    fs::rename(&aside, file)?;
    Ok(())
}

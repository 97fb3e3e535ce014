//! The page of a run while it goes on, for the commands that have one.

use std::fs::{self, File};
use std::io::{self, Write};
use std::net::TcpListener;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use bonfire_report::{PageServer, PageSource};
use bonfire_wire::random_number;

use crate::terminal::say;

/// Tried first, so that a page is found where it was.
pub(crate) const USUAL: &str = "127.0.0.1:4780";

#[derive(Debug, clap::Args)]
pub(crate) struct PageArgs {
    /// Show the run in a browser while it goes on; at another address by `--page=ADDRESS:PORT`, with a secret in its
    /// address where others can reach it [default: 127.0.0.1:4780, or a free port]
    #[arg(long, value_name = "ADDRESS:PORT", num_args = 0..=1, require_equals = true, default_missing_value = "")]
    page: Option<String>,
}

impl PageArgs {
    /// Takes the address before anything is started: one that cannot be had is wrong input.
    pub(crate) fn listen(&self) -> Result<Option<TcpListener>> {
        self.page.as_deref().map(|address| listen("--page", address, USUAL)).transpose()
    }
}

/// A listener at the address that an option gives; the usual one if it is empty, or a free port.
pub(crate) fn listen(option: &str, address: &str, usual: &str) -> Result<TcpListener> {
    if address.is_empty() {
        let usual = TcpListener::bind(usual).or_else(|_| TcpListener::bind("127.0.0.1:0"));
        return usual.with_context(|| format!("{option}: no port is free"));
    }
    TcpListener::bind(address).with_context(|| format!("{option}: cannot listen at {address}"))
}

/// Opens the page, and says where it is. One that cannot be opened costs itself.
pub(crate) fn open(listener: Option<TcpListener>, source: PageSource) -> Option<PageServer> {
    let listener = listener?;
    match serve(listener, source) {
        Ok(server) => {
            say(&format!("page: {}", server.url()));
            Some(server)
        }
        Err(error) => {
            say(&format!("warning: no page: {error:#}"));
            None
        }
    }
}

pub(crate) fn serve(listener: TcpListener, source: PageSource) -> Result<PageServer> {
    let token = token(&listener)?;
    PageServer::start(listener, source, token).context("cannot serve a page")
}

/// What has to be known to be answered there, where others can reach it.
pub(crate) fn token(listener: &TcpListener) -> Result<Option<String>> {
    let is_here = listener.local_addr().is_ok_and(|address| address.ip().is_loopback());
    let secret = || Ok::<_, io::Error>(format!("{:016x}{:016x}", random_number()?, random_number()?));
    (!is_here).then(secret).transpose().context("no randomness")
}

/// The log of a run elsewhere, kept here while it is followed.
#[derive(Debug)]
pub(crate) struct Mirror {
    folder: PathBuf,
    log: File,
}

impl Mirror {
    pub(crate) fn create(name: &str) -> io::Result<Self> {
        let folder = std::env::temp_dir().join(format!("bonfire-page-{}", std::process::id())).join(name);
        fs::create_dir_all(&folder)?;
        let log = File::create(folder.join("events.jsonl"))?;
        Ok(Self { folder, log })
    }

    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    /// A line of the log. One that cannot be kept is missing on the page.
    pub(crate) fn line(&mut self, line: &str) {
        let _ = self.log.write_all(format!("{}\n", line.trim_end()).as_bytes());
    }
}

impl Drop for Mirror {
    fn drop(&mut self) {
        if let Some(parent) = self.folder.parent() {
            let _ = fs::remove_dir_all(parent);
        }
    }
}

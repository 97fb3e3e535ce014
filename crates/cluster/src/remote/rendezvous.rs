//! The rendezvous of ranks that a launcher started: how they come by the ticket, which only rank 0 can make. By a file
//! that they share, or by a passphrase that all of them were told.

use std::fs::{self, DirBuilder, File};
use std::io::{ErrorKind, Write};
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use anyhow::{Context, Result, anyhow, bail};
use bonfire_wire::{ConnectError, ConnectErrorKind, Passphrase, Secret, Ticket};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::gate::NO_SECRET;
use super::{Access, Keys, Part, Stage, join};

/// Where and how the ranks of a run find each other.
#[derive(Clone, Debug)]
pub enum Rendezvous {
    /// Rank 0 leaves the ticket in a file.
    File {
        path: PathBuf,
        /// Where rank 0 is to be reached, if that was said.
        master: Option<Point>,
        /// Whether all ranks are on one machine.
        here: bool,
    },
    /// All know a passphrase, and where rank 0 is.
    Passphrase { master: Point, passphrase: Passphrase },
    /// In plain text; the passphrase, if there is one, still keeps strangers out.
    Plain { master: Point, passphrase: Option<Passphrase> },
}

/// A place in the network: `HOST` or `HOST:PORT`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Point {
    host: String,
    port: Option<u16>,
}

/// Where rank 0 listens if a host was told but no port.
const PORT: u16 = 4711;

/// How often a rank looks for the file.
const LOOK: Duration = Duration::from_millis(50);

/// How long a ticket from the file is tried before the file is read again: it may be left over from an earlier run.
const TRY: Duration = Duration::from_secs(2);

/// What rank 0 has to say to the others.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Note {
    Ticket(String),
    /// It cannot start, and why.
    Refused(String),
}

/// Rank 0 cannot start: its input is wrong.
#[derive(Debug)]
pub struct Refused(String);

impl std::fmt::Display for Refused {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "rank 0 cannot start: {}", self.0)
    }
}

impl std::error::Error for Refused {}

/// A note that lies there for the other ranks, until this is dropped.
#[derive(Debug)]
pub struct Announcement(Option<(PathBuf, String)>);

impl Drop for Announcement {
    fn drop(&mut self) {
        if let Some((path, text)) = &self.0
            && fs::read_to_string(path).is_ok_and(|found| found == *text)
        {
            // One that is left behind is tried in vain by the next run, and no more.
            let _ = fs::remove_file(path);
        }
    }
}

/// The times of files are coarser than the clock: a note of now may seem to be older.
const GRAIN: Duration = Duration::from_millis(100);

impl Rendezvous {
    /// The file by which ranks with the same `job` find each other, below a folder of the user's.
    pub fn file(folder: &Path, job: &str) -> PathBuf {
        let digest = Sha256::digest(job);
        let name: String = digest.iter().take(12).map(|byte| format!("{byte:02x}")).collect();
        folder.join(format!("{name}.json"))
    }

    /// How rank 0 is reached, if the others may take so long to come.
    pub fn access(&self, wait: Duration) -> Access {
        let (master, port, here) = match self {
            Self::File { master, here, .. } => (master.as_ref(), 0, *here),
            Self::Passphrase { master, .. } | Self::Plain { master, .. } => (Some(master), PORT, false),
        };
        let port = master.and_then(|master| master.port).unwrap_or(port);
        let any = if master.is_some_and(Point::is_v6) { "[::]" } else { "0.0.0.0" };
        let (host, advertise) = match master {
            _ if here => ("127.0.0.1", None),
            Some(master) => (master.loopback().unwrap_or(any), Some(master.host.clone())),
            None => (any, None),
        };
        let insecure = matches!(self, Self::Plain { .. });
        Access { listen: Some(format!("{host}:{port}")), advertise, insecure, wait }
    }

    /// What rank 0 is known by; new keys if the others learn it from the file.
    pub fn keys(&self, access: &Access) -> Option<Keys> {
        match self {
            Self::File { .. } => None,
            Self::Passphrase { passphrase, .. } | Self::Plain { passphrase: Some(passphrase), .. } => {
                Some(Keys::of_passphrase(access, passphrase))
            }
            Self::Plain { passphrase: None, .. } => Some(Keys::of_nobody(access)),
        }
    }

    /// Tells the other ranks where the run is.
    pub fn announce(&self, ticket: &Ticket) -> Result<Announcement> {
        let Self::File { path, .. } = self else { return Ok(Announcement(None)) };
        let text = leave(path, &Note::Ticket(ticket.to_string()))?;
        Ok(Announcement(Some((path.clone(), text))))
    }

    /// Tells the ranks that wait already that they wait in vain.
    pub fn refuse(&self, reason: &str) {
        if let Self::File { path, .. } = self {
            // Who does not hear it gives up at its deadline.
            let _ = leave(path, &Note::Refused(reason.to_owned()));
        }
    }

    /// Takes part in the run as another rank than 0, until it is over. Rank 0 may take `wait` to be there.
    pub fn join(&self, part: &Part, wait: Duration, tell: &mut dyn FnMut(Stage)) -> Result<()> {
        let (master, fingerprint, secret) = match self {
            Self::File { path, .. } => return self.join_by(path, part, wait, tell),
            Self::Passphrase { master, passphrase } => {
                (master, Some(passphrase.identity.fingerprint()), passphrase.secret.clone())
            }
            Self::Plain { master, passphrase: Some(passphrase) } => (master, None, passphrase.secret.clone()),
            Self::Plain { master, passphrase: None } => (master, None, Secret::from(NO_SECRET)),
        };
        let address = format!("{}:{}", master.host, master.port.unwrap_or(PORT));
        let ticket = Ticket { address, fingerprint, secret };
        join(&ticket, part, wait, tell).map_err(|error| self.explain(error, wait))
    }

    fn join_by(&self, path: &Path, part: &Part, wait: Duration, tell: &mut dyn FnMut(Stage)) -> Result<()> {
        let (deadline, began) = (Instant::now() + wait, SystemTime::now() - GRAIN);
        let mut vain = None;
        loop {
            match read(path) {
                Some((Note::Refused(reason), written)) if written >= began => bail!(Refused(reason)),
                Some((Note::Ticket(ticket), _)) => {
                    let ticket: Ticket = ticket.parse().with_context(|| format!("{}", path.display()))?;
                    match join(&ticket, part, TRY.min(wait), tell) {
                        Err(error) if error.is::<ConnectError>() => vain = Some(error),
                        joined => return joined,
                    }
                }
                _ => {}
            }
            if Instant::now() >= deadline {
                let error = vain.unwrap_or_else(|| anyhow!("rank 0 left no word in {}", path.display()));
                return Err(self.explain(error, wait));
            }
            thread::sleep(LOOK);
        }
    }

    /// Says what would help.
    fn explain(&self, error: anyhow::Error, wait: Duration) -> anyhow::Error {
        let kind = error.downcast_ref::<ConnectError>().map(|error| &error.kind);
        let differs =
            matches!(kind, Some(ConnectErrorKind::OtherCertificate | ConnectErrorKind::WrongSecret));
        if differs && !matches!(self, Self::File { .. }) {
            return anyhow!(
                "rank 0 has another secret: --secret, or BONFIRE_SECRET, must be the same everywhere"
            );
        }
        anyhow!("no way to rank 0 within {} s: {error:#}; {}", wait.as_secs(), self.advice())
    }

    /// What to do if ranks do not find each other.
    pub fn advice(&self) -> String {
        match self {
            Self::File { path, .. } => {
                let folder = path.parent().unwrap_or(path).display();
                format!(
                    "where ranks do not share the folder {folder}, give all of them the same --secret PASSPHRASE \
                     (or BONFIRE_SECRET) and --master ADDRESS of rank 0"
                )
            }
            Self::Passphrase { master, .. } | Self::Plain { master, .. } => {
                let port = master.port.unwrap_or(PORT);
                format!(
                    "every rank must have been started, and --master {}:{port} must be an address of rank 0 that \
                     the others can reach",
                    master.host
                )
            }
        }
    }
}

impl std::str::FromStr for Point {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("{text:?} is no address: HOST or HOST:PORT, as in 192.168.2.101:4711");
        let (host, port) = match text.rsplit_once(':') {
            Some((host, port)) if !host.contains(':') || host.ends_with(']') => (host, Some(port)),
            _ => (text, None),
        };
        let port = port.map(str::parse).transpose().map_err(|_| wrong())?.filter(|&port| port != 0);
        let is_bare_v6 = host.contains(':') && !host.starts_with('[');
        let host = if is_bare_v6 { format!("[{host}]") } else { host.to_owned() };
        if host.is_empty() || host.contains(|letter: char| letter.is_whitespace() || letter == '/') {
            return Err(wrong());
        }
        Ok(Self { host, port })
    }
}

impl Point {
    fn ip(&self) -> Option<IpAddr> {
        self.host.trim_start_matches('[').trim_end_matches(']').parse().ok()
    }

    fn is_v6(&self) -> bool {
        self.ip().is_some_and(|ip| ip.is_ipv6())
    }

    /// The host itself if only this machine can reach it.
    fn loopback(&self) -> Option<&str> {
        match self.ip() {
            Some(ip) => ip.is_loopback().then_some(&self.host),
            None => (self.host == "localhost").then_some("127.0.0.1"),
        }
    }
}

/// Writes a note so that nobody else can read it, and nobody sees half of it.
fn leave(path: &Path, note: &Note) -> Result<String> {
    let folder = path.parent().context("a folder")?;
    let mut builder = DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(folder).with_context(|| format!("cannot make the folder {}", folder.display()))?;
    let text = serde_json::to_string(note)?;
    let aside = path.with_extension(format!("{}.part", std::process::id()));
    let written = write_private(&aside, &text).and_then(|()| fs::rename(&aside, path));
    if written.is_err() {
        let _ = fs::remove_file(&aside);
    }
    written.with_context(|| format!("cannot write {}", path.display()))?;
    Ok(text)
}

fn write_private(path: &Path, text: &str) -> std::io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut options = File::options();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let mut file = options.open(path)?;
    file.write_all(text.as_bytes())?;
    // Other machines see what the server of the files has, not what this one still keeps.
    file.sync_all()
}

/// A note and when it was written. One that others can read, or that is half there, is none.
fn read(path: &Path) -> Option<(Note, SystemTime)> {
    let about = fs::metadata(path).ok()?;
    #[cfg(unix)]
    if std::os::unix::fs::PermissionsExt::mode(&about.permissions()) & 0o077 != 0 {
        return None;
    }
    let note = serde_json::from_str(&fs::read_to_string(path).ok()?).ok()?;
    Some((note, about.modified().ok()?))
}

#[cfg(test)]
mod tests;

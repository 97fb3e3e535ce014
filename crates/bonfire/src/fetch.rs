//! Public data sets from elsewhere: a folder of this machine or a web server, into a folder of our own.
//!
//! Every file is unpacked on the way and compared with the checksum of its known content, so it does not matter where
//! it came from or how it was packed. All files are written aside and get their place in one rename: a data set is
//! there as a whole or not at all.

use crate::failure::Failed;
use crate::terminal::{say, write};
use anyhow::{Context, Result, anyhow, bail, ensure};
use flate2::bufread::MultiGzDecoder;
use sha2::{Digest, Sha256};
use std::fs::{self, File};
use std::io::{BufRead, BufReader, IsTerminal, Read, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;
use ureq::Agent;

/// A public data set.
#[derive(Debug)]
pub(crate) struct Collection {
    pub name: &'static str,
    /// The address of the folder on the web.
    pub address: &'static str,
    /// The package of Debian and its kin that holds it, if there is one.
    pub package: Option<&'static str>,
    pub parts: [CollectionFile; 4],
}

/// A file of a data set, unpacked.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CollectionFile {
    pub name: &'static str,
    pub size: u64,
    /// SHA-256, in hexadecimal.
    pub checksum: &'static str,
}

pub(crate) const COLLECTIONS: [Collection; 2] = [
    Collection {
        name: "fashion-mnist",
        address: "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/",
        package: Some("dataset-fashion-mnist"),
        parts: [
            CollectionFile {
                name: "train-images-idx3-ubyte",
                size: 47_040_016,
                checksum: "c59f468a2f672dc815687fe0f83887768d799fd8a3f3276145d20f83aa44d888",
            },
            CollectionFile {
                name: "train-labels-idx1-ubyte",
                size: 60_008,
                checksum: "bad3541b69d912435c50bb6ba87bec294ff4f6a2e1246121d8633921760443d9",
            },
            CollectionFile {
                name: "t10k-images-idx3-ubyte",
                size: 7_840_016,
                checksum: "5b4141f0afbad91edebe8549f8fcffe087ea10ca49f1dbef5c9a5cd8815ce37b",
            },
            CollectionFile {
                name: "t10k-labels-idx1-ubyte",
                size: 10_008,
                checksum: "0402a96d92fd2663957122ceb108a494c5af83dab82d92729df917d7dec38c34",
            },
        ],
    },
    Collection {
        name: "mnist",
        address: "http://ossci-datasets.s3.amazonaws.com/mnist/",
        package: None,
        parts: [
            CollectionFile {
                name: "train-images-idx3-ubyte",
                size: 47_040_016,
                checksum: "ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db",
            },
            CollectionFile {
                name: "train-labels-idx1-ubyte",
                size: 60_008,
                checksum: "65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5",
            },
            CollectionFile {
                name: "t10k-images-idx3-ubyte",
                size: 7_840_016,
                checksum: "0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7",
            },
            CollectionFile {
                name: "t10k-labels-idx1-ubyte",
                size: 10_008,
                checksum: "ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2",
            },
        ],
    },
];

/// Where the files come from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Origin {
    Folder(PathBuf),
    /// An address that ends in a slash.
    Web(String),
}

impl Origin {
    /// What a user wrote: an address or a folder.
    pub(crate) fn parse(given: &str) -> Result<Self> {
        if given.starts_with("http://") {
            return Ok(Self::Web(format!("{}/", given.trim_end_matches('/'))));
        }
        ensure!(
            !given.starts_with("https://"),
            "{given}: only http:// can be fetched from here (the content is checked); or download the files \
             otherwise and give their folder"
        );
        ensure!(
            Path::new(given).is_dir(),
            "{given} is neither a folder nor an address that begins with http://"
        );
        Ok(Self::Folder(PathBuf::from(given)))
    }
}

/// Fetches all files of a data set into the folder `into`, which must be new or empty.
pub(crate) fn fetch(collection: &Collection, origin: &Origin, into: &Path) -> Result<()> {
    fetch_with(&agent(Duration::from_secs(20)), collection, origin, into)
}

fn fetch_with(agent: &Agent, collection: &Collection, origin: &Origin, into: &Path) -> Result<()> {
    let aside = Aside::beside(into)?;
    for part in &collection.parts {
        let goal = aside.path.join(part.name);
        match origin {
            Origin::Folder(folder) => copy(part, folder, &goal)?,
            Origin::Web(address) => {
                download(agent, part, address, &goal).map_err(|error| advise(error, collection))?;
            }
        }
    }
    aside.place(into)
}

/// An error of the network is not the user's: it is marked as a failure and says what else can be done.
fn advise(error: anyhow::Error, collection: &Collection) -> anyhow::Error {
    if error.is::<Failed>() {
        return error;
    }
    let mut ways = Vec::new();
    if let Some(package) = collection.package {
        ways.push(format!("install the package {package} (Debian, Ubuntu)"));
    }
    ways.push(format!(
        "put {} and the other three files into a folder and run: bonfire data get {} --from FOLDER",
        collection.parts[0].name, collection.name
    ));
    anyhow!(Failed(format!("{error:#}\nwithout the network: {}", ways.join(", or "))))
}

fn agent(patience: Duration) -> Agent {
    Agent::config_builder()
        .timeout_resolve(Some(patience))
        .timeout_connect(Some(patience))
        .timeout_recv_response(Some(patience))
        // A whole file over a slow line.
        .timeout_recv_body(Some(30 * patience))
        .build()
        .into()
}

fn download(agent: &Agent, part: &CollectionFile, address: &str, goal: &Path) -> Result<()> {
    let address = format!("{address}{}.gz", part.name);
    let response = agent.get(&address).call().with_context(|| format!("cannot fetch {address}"))?;
    let body = response.into_body().into_reader();
    unpack(part, body, goal).with_context(|| format!("fetched {address}"))
}

fn copy(part: &CollectionFile, folder: &Path, goal: &Path) -> Result<()> {
    let names = [part.name.to_owned(), format!("{}.gz", part.name)];
    let Some(path) = names.iter().map(|name| folder.join(name)).find(|path| path.is_file()) else {
        bail!("{} holds neither {} nor {}", folder.display(), names[0], names[1]);
    };
    let file = File::open(&path).with_context(|| format!("cannot open {}", path.display()))?;
    unpack(part, file, goal).with_context(|| path.display().to_string())
}

/// Writes the content of a file, unpacked if it was packed, and checks that it is the known one.
///
/// It stays unpacked, because a run that starts every few minutes should not unpack it each time.
fn unpack(part: &CollectionFile, packed: impl Read, goal: &Path) -> Result<()> {
    // Neither side may exceed what is known of the file, whatever a server sends.
    let mut packed = BufReader::new(packed.take(part.size + (1 << 20)));
    let is_packed = packed.fill_buf().context("cannot be read")?.starts_with(&[0x1F, 0x8B]);
    let content: Box<dyn Read + '_> =
        if is_packed { Box::new(MultiGzDecoder::new(packed)) } else { Box::new(packed) };
    let mut content = content.take(part.size + 1);
    let mut out = File::create(goal).map_err(unwritable(goal))?;
    let (mut hash, mut size, mut progress) = (Sha256::new(), 0, FetchProgress::new(part));
    let mut buffer = vec![0; 1 << 16];
    loop {
        let count = content
            .read(&mut buffer)
            .with_context(|| format!("breaks off after {size} of {} bytes", part.size))?;
        if count == 0 {
            break;
        }
        out.write_all(&buffer[..count]).map_err(unwritable(goal))?;
        hash.update(&buffer[..count]);
        size += count as u64;
        progress.show(size);
    }
    ensure!(size >= part.size, "truncated: {size} of {} bytes", part.size);
    ensure!(size == part.size, "longer than the {} bytes that {} has", part.size, part.name);
    let found: String = hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect();
    ensure!(
        found == part.checksum,
        "not the content that was expected: its SHA-256 is {found}, that of {} is {}",
        part.name,
        part.checksum
    );
    Ok(())
}

/// A full disk is a failure, wherever the files came from.
fn unwritable(goal: &Path) -> impl FnOnce(std::io::Error) -> Failed + '_ {
    move |error| Failed(format!("cannot write {}: {error}", goal.display()))
}

/// A folder beside the one that is wanted, gone again if anything fails.
#[derive(Debug)]
pub(crate) struct Aside {
    pub path: PathBuf,
}

impl Aside {
    /// Creates it, if `wanted` is a place where a folder can be put: not there yet, or empty.
    pub(crate) fn beside(wanted: &Path) -> Result<Self> {
        if wanted.exists() {
            let mut entries =
                fs::read_dir(wanted).with_context(|| format!("{} is no folder", wanted.display()))?;
            ensure!(
                entries.next().is_none(),
                "{} is not empty; choose another folder with -o",
                wanted.display()
            );
        }
        let name =
            wanted.file_name().with_context(|| format!("{} is no name for a folder", wanted.display()))?;
        let mut aside = name.to_owned();
        aside.push(format!(".part-{}", std::process::id()));
        let path = wanted.with_file_name(aside);
        fs::create_dir_all(&path).with_context(|| format!("cannot create {}", path.display()))?;
        Ok(Self { path })
    }

    /// Gives it its place.
    pub(crate) fn place(self, wanted: &Path) -> Result<()> {
        if wanted.exists() {
            // Empty, or else `beside` had refused; not every system renames over an empty folder.
            fs::remove_dir(wanted).with_context(|| format!("cannot replace {}", wanted.display()))?;
        }
        fs::rename(&self.path, wanted).with_context(|| format!("cannot create {}", wanted.display()))
    }
}

impl Drop for Aside {
    fn drop(&mut self) {
        // After `place` there is nothing left to remove, and a failure here must not hide the one that led here.
        let _ = fs::remove_dir_all(&self.path);
    }
}

/// One line on the terminal that says how far a file is.
struct FetchProgress {
    name: &'static str,
    size: u64,
    shown: u64,
    visible: bool,
}

impl FetchProgress {
    fn new(part: &CollectionFile) -> Self {
        Self { name: part.name, size: part.size, shown: 0, visible: std::io::stderr().is_terminal() }
    }

    fn show(&mut self, done: u64) {
        let step = 1 << 20;
        if self.visible && (done / step != self.shown / step || done == self.size) {
            self.shown = done;
            let mebibytes = |bytes: u64| bytes as f64 / f64::from(step as u32);
            write(&format!("\r{:<26} {:6.1} of {:.1} MiB", self.name, mebibytes(done), mebibytes(self.size)));
        }
    }
}

impl Drop for FetchProgress {
    fn drop(&mut self) {
        if self.visible && self.shown > 0 {
            say("");
        }
    }
}

#[cfg(test)]
mod tests;

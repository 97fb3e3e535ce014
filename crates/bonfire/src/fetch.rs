//! Public data sets from elsewhere: a folder of this machine or a web server, into a folder of our own.
//!
//! Every file is unpacked on the way and compared with the checksum of its known content, so it does not matter where
//! it came from or how it was packed. All files are written aside and get their place in one rename: a data set is
//! there as a whole or not at all. What has come over a connection that broke is kept, and the rest is asked for.

mod archive;
mod collection;
mod download;
mod progress;

use crate::failure::Failed;
use anyhow::{Context, Result, anyhow, bail, ensure};
use bonfire_report::number;
use flate2::bufread::MultiGzDecoder;
use sha2::{Digest, Sha256};
use std::fs::{self, File};
use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};

pub(crate) use collection::{COLLECTIONS, Collection};
use collection::{CollectionFile, Packing};
use download::Downloader;

/// The names of classes take less.
const MOST_NAMES: u64 = 64 << 10;

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
        if given.starts_with("http://") || given.starts_with("https://") {
            return Ok(Self::Web(format!("{}/", given.trim_end_matches('/'))));
        }
        ensure!(
            Path::new(given).is_dir(),
            "{given} is neither a folder nor an address that begins with https:// or http://"
        );
        Ok(Self::Folder(PathBuf::from(given)))
    }
}

/// Fetches all files of a data set into the folder `into`, which must be new or empty.
pub(crate) fn fetch(collection: &Collection, origin: &Origin, into: &Path) -> Result<()> {
    // What has come so far outlives this process, so that the next one goes on with it.
    let beside = || into.with_extension("download");
    let folder = download::cache_folder(collection.name).unwrap_or_else(beside);
    fetch_with(&Downloader::new(folder)?, collection, origin, into)
}

fn fetch_with(downloader: &Downloader, collection: &Collection, origin: &Origin, into: &Path) -> Result<()> {
    let aside = Aside::beside(into)?;
    let fetched = match (origin, collection.packing) {
        (Origin::Folder(folder), packing) => from_folder(collection, packing, folder, &aside.path),
        (Origin::Web(address), Packing::Tar(archive)) => {
            from_archive(downloader, collection, &archive, address, &aside.path)
                .map_err(|error| advise(error, collection))
        }
        (Origin::Web(address), packing) => {
            let end = if matches!(packing, Packing::Gzip) { ".gz" } else { "" };
            let mut parts = collection.parts.iter();
            parts
                .try_for_each(|part| {
                    from_web(downloader, part, &format!("{address}{}{end}", part.name), &aside.path)
                })
                .map_err(|error| advise(error, collection))
        }
    };
    fetched?;
    aside.place(into)?;
    downloader.forget_all();
    Ok(())
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
    let files = match (collection.packing, collection.parts.len()) {
        (Packing::Tar(archive), _) => archive.name.to_owned(),
        (_, count) => {
            format!("{} and the other {}", collection.parts[0].name, number::of(count as u64 - 1, "file"))
        }
    };
    ways.push(format!(
        "put {files} into a folder and run: bonfire data get {} --from FOLDER",
        collection.name
    ));
    anyhow!(Failed(format!("{error:#}\nwithout the network: {}", ways.join(", or "))))
}

/// One file from the web. What came is kept while more of it may come, and thrown away if it is wrong.
fn from_web(downloader: &Downloader, part: &CollectionFile, address: &str, into: &Path) -> Result<()> {
    // Neither side may exceed what is known of the file, whatever a server sends.
    let came = downloader.download(address, part.name, part.size + (1 << 20))?;
    let file = File::open(&came).with_context(|| format!("cannot open {}", came.display()))?;
    let unpacked = unpack(part, file, &into.join(part.name));
    if unpacked.is_err() {
        downloader.forget(&came);
    }
    unpacked.with_context(|| format!("fetched {address}"))
}

/// All files of an archive from the web.
fn from_archive(
    downloader: &Downloader,
    collection: &Collection,
    archive: &CollectionFile,
    address: &str,
    into: &Path,
) -> Result<()> {
    let address = format!("{address}{}", archive.name);
    let came = downloader.download(&address, archive.name, archive.size)?;
    let unpacked = unpack_archive(collection, archive, &came, into);
    if unpacked.is_err() {
        downloader.forget(&came);
    }
    unpacked.with_context(|| format!("fetched {address}"))
}

/// Checks an archive as a whole, then every file that it must hold.
fn unpack_archive(collection: &Collection, archive: &CollectionFile, path: &Path, into: &Path) -> Result<()> {
    let open = || File::open(path).with_context(|| format!("cannot open {}", path.display()));
    let mut check = ContentCheck::new(archive);
    let (mut file, mut buffer) = (open()?, vec![0; 1 << 16]);
    loop {
        match file.read(&mut buffer).context("cannot be read")? {
            0 => break,
            count => check.add(&buffer[..count]),
        }
    }
    check.end()?;
    let mut missing: Vec<&CollectionFile> = collection.parts.iter().collect();
    archive::each_file(MultiGzDecoder::new(BufReader::new(open()?)), |name, content| {
        if let Some(place) = missing.iter().position(|part| part.name == name) {
            return unpack(missing.swap_remove(place), content, &into.join(name));
        }
        if collection.names.contains(&name) {
            let goal = into.join(name);
            let mut text = Vec::new();
            content.take(MOST_NAMES).read_to_end(&mut text).context("cannot be read")?;
            fs::write(&goal, text).map_err(unwritable(&goal))?;
        }
        Ok(())
    })?;
    match missing.first() {
        Some(part) => bail!("{} holds no {}", archive.name, part.name),
        None => Ok(()),
    }
}

fn from_folder(collection: &Collection, packing: Packing, folder: &Path, into: &Path) -> Result<()> {
    if let Packing::Tar(archive) = packing
        && folder.join(archive.name).is_file()
    {
        let path = folder.join(archive.name);
        return unpack_archive(collection, &archive, &path, into).with_context(|| path.display().to_string());
    }
    for part in collection.parts {
        copy(part, folder, &into.join(part.name))?;
    }
    for name in collection.names.iter().filter(|name| folder.join(name).is_file()) {
        let goal = into.join(name);
        fs::copy(folder.join(name), &goal).map_err(unwritable(&goal))?;
    }
    Ok(())
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
    let (mut check, mut buffer) = (ContentCheck::new(part), vec![0; 1 << 16]);
    loop {
        let count = content
            .read(&mut buffer)
            .with_context(|| format!("breaks off after {} of {} bytes", check.size, part.size))?;
        if count == 0 {
            return check.end();
        }
        out.write_all(&buffer[..count]).map_err(unwritable(goal))?;
        check.add(&buffer[..count]);
    }
}

/// Whether content that comes piece by piece is the known one.
struct ContentCheck<'a> {
    part: &'a CollectionFile,
    hash: Sha256,
    size: u64,
}

impl<'a> ContentCheck<'a> {
    fn new(part: &'a CollectionFile) -> Self {
        Self { part, hash: Sha256::new(), size: 0 }
    }

    fn add(&mut self, bytes: &[u8]) {
        self.hash.update(bytes);
        self.size += bytes.len() as u64;
    }

    fn end(self) -> Result<()> {
        let Self { part, hash, size } = self;
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

#[cfg(test)]
mod tests;

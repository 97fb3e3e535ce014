//! Raw reviews as data of a run: prepared once, into a cache, and read from there.

use crate::error::{Error, Result};
use crate::prepare::{Format, Meter, Preparation, Rules, is_busy};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Files of reviews, and how to prepare them.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RawReviews {
    /// Files and folders.
    pub inputs: Vec<PathBuf>,
    pub rules: Rules,
}

/// What a run may use of memory to prepare.
const MEMORY: u64 = 512_000_000;

/// How long one waits for another process that prepares the same, and how often it looks.
const PATIENCE: Duration = Duration::from_secs(6 * 3600);
const LOOK: Duration = Duration::from_millis(200);

impl RawReviews {
    /// What a run on these is called.
    pub(crate) fn name(&self) -> String {
        let name =
            self.inputs.first().and_then(|path| path.file_name()).unwrap_or_default().to_string_lossy();
        let stem = name.split('.').find(|part| !part.is_empty()).unwrap_or("reviews");
        format!("{stem}-prepared")
    }

    /// The folder in the cache, which is there if all of it is, and what is to be done otherwise.
    pub fn preparation(&self) -> Result<Preparation> {
        let cache = cache_folder()?;
        self.rules.check()?;
        self.rules.mapper()?;
        let mut hash = Sha256::new();
        hash.update(self.rules.fingerprint()?.as_bytes());
        for checksum in checksums(&cache, &self.inputs)? {
            hash.update(checksum.as_bytes());
        }
        Ok(Preparation {
            inputs: self.inputs.clone(),
            out: cache.join(&hexadecimal(&hash.finalize())[..32]),
            rules: self.rules.clone(),
            format: Format::Native,
            threads: std::thread::available_parallelism().map_or(1, usize::from),
            memory: MEMORY,
            is_strict: false,
        })
    }

    /// The folder with what was prepared; it is prepared now if it was not before. If another process is at it, that
    /// one is waited for.
    pub(crate) fn folder(&self) -> Result<PathBuf> {
        let preparation = self.preparation()?;
        let deadline = Instant::now() + PATIENCE;
        while !preparation.out.is_dir() {
            match preparation.run(&Meter::default(), |_| {}) {
                Ok(_) => break,
                Err(_) if preparation.out.is_dir() => break,
                Err(error) if is_busy(&error) && Instant::now() < deadline => std::thread::sleep(LOOK),
                Err(error) => return Err(error),
            }
        }
        Ok(preparation.out)
    }
}

fn cache_folder() -> Result<PathBuf> {
    let absolute = |key: &str| std::env::var_os(key).map(PathBuf::from).filter(|path| path.is_absolute());
    let cache = absolute("XDG_CACHE_HOME").or_else(|| Some(absolute("HOME")?.join(".cache")));
    let cache = cache.ok_or_else(|| {
        let message =
            "data: prepare needs a cache, but neither HOME nor XDG_CACHE_HOME is set; use bonfire prepare";
        Error::mismatch(message)
    })?;
    let folder = cache.join("bonfire").join("prepared");
    fs::create_dir_all(&folder).map_err(Error::io(&folder))?;
    Ok(folder)
}

/// What is remembered of a file, so that it is not read again only to find that it is the same.
#[derive(Serialize, Deserialize)]
struct KnownFile {
    size: u64,
    modified: u64,
    checksum: String,
}

/// The checksums of all files, in the order of their paths. The order of files does not matter for the result, but that
/// of paths is one.
fn checksums(cache: &Path, inputs: &[PathBuf]) -> Result<Vec<String>> {
    let path = cache.join("checksums.json");
    let known = fs::read(&path).ok().and_then(|text| serde_json::from_slice(&text).ok());
    let mut known: BTreeMap<PathBuf, KnownFile> = known.unwrap_or_default();
    let mut found = Vec::new();
    let mut is_new = false;
    for (file, size, modified) in crate::prepare::input_files(inputs)? {
        let place = file.canonicalize().map_err(Error::io(&file))?;
        let checksum = match known.get(&place) {
            Some(same) if (same.size, same.modified) == (size, modified) => same.checksum.clone(),
            _ => {
                let checksum = checksum(&file)?;
                is_new = true;
                known.insert(place, KnownFile { size, modified, checksum: checksum.clone() });
                checksum
            }
        };
        found.push(checksum);
    }
    if is_new {
        // To remember it saves time, and nothing else.
        let aside = cache.join(format!("checksums-{}", std::process::id()));
        let text = serde_json::to_vec(&known).unwrap_or_default();
        let _ = fs::write(&aside, text).and_then(|()| fs::rename(&aside, &path));
    }
    found.sort_unstable();
    Ok(found)
}

fn checksum(path: &Path) -> Result<String> {
    let mut file = File::open(path).map_err(Error::io(path))?;
    let (mut hash, mut piece) = (Sha256::new(), vec![0; 1 << 20]);
    loop {
        let length = file.read(&mut piece).map_err(Error::io(path))?;
        if length == 0 {
            return Ok(hexadecimal(&hash.finalize()));
        }
        hash.update(&piece[..length]);
    }
}

fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

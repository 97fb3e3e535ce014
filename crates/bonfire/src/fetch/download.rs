//! Files over HTTP or HTTPS, which go on where they broke off.

use super::progress::DownloadBar;
use super::unwritable;
use anyhow::{Context, Result, anyhow, bail, ensure};
use std::fs::{self, File, OpenOptions};
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use ureq::http::{Response, StatusCode};
use ureq::tls::{Certificate, PemItem, RootCerts, TlsConfig, TlsProvider, parse_pem};
use ureq::{Agent, Proxy};

/// How long a server may take to be found, to be reached and to begin its answer.
const PATIENCE: Duration = Duration::from_secs(20);

/// How often a connection that broke is made anew, as long as each brings something.
const ATTEMPTS: usize = 5;

/// Where systems keep the certificates of those whom they trust.
const BUNDLES: [&str; 5] = [
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
    "/etc/ssl/cert.pem",
    "/usr/local/share/certs/ca-root-nss.crt",
];

/// Names another one.
const BUNDLE_VARIABLE: &str = "SSL_CERT_FILE";

/// Fetches files into a folder in which they may be a while.
#[derive(Debug)]
pub(super) struct Downloader {
    agent: Agent,
    /// Some without certificates of authorities; then nothing comes over HTTPS.
    lacks: Option<String>,
    folder: PathBuf,
    /// How long to wait before a connection that broke is made anew.
    pause: Duration,
}

/// What an answer brings.
struct Piece {
    /// From which byte on.
    from: u64,
    /// How many bytes there are in all, if that is told.
    size: Option<u64>,
    response: Response<ureq::Body>,
}

impl Downloader {
    /// With the certificates that this system trusts.
    pub(super) fn new(folder: PathBuf) -> Result<Self> {
        let (roots, lacks) = match system_roots() {
            Ok(roots) => (roots, None),
            Err(error) => (Vec::new(), Some(format!("{error:#}"))),
        };
        Ok(Self { lacks, ..Self::trusting(&roots, folder, PATIENCE, Proxy::try_from_env()) })
    }

    pub(super) fn trusting(
        roots: &[Certificate<'static>],
        folder: PathBuf,
        patience: Duration,
        proxy: Option<Proxy>,
    ) -> Self {
        let tls = TlsConfig::builder()
            .provider(TlsProvider::Rustls)
            .root_certs(RootCerts::new_with_certs(roots))
            .unversioned_rustls_crypto_provider(Arc::new(rustls::crypto::ring::default_provider()))
            .build();
        let agent = Agent::config_builder()
            .tls_config(tls)
            .proxy(proxy)
            .http_status_as_error(false)
            .timeout_resolve(Some(patience))
            .timeout_connect(Some(patience))
            .timeout_recv_response(Some(patience))
            // A large file over a slow line; what has come by then is kept.
            .timeout_recv_body(Some(180 * patience))
            .build();
        Self { agent: agent.into(), lacks: None, folder, pause: patience / 20 }
    }

    /// The file of an address, whole, of at most so many bytes.
    pub(super) fn download(&self, address: &str, name: &str, most: u64) -> Result<PathBuf> {
        if let Some(lacks) = self.lacks.as_ref().filter(|_| address.starts_with("https://")) {
            bail!("cannot fetch {address}: {lacks}");
        }
        fs::create_dir_all(&self.folder).map_err(unwritable(&self.folder))?;
        let (whole, part) = (self.folder.join(name), self.folder.join(format!("{name}.part")));
        if whole.is_file() {
            return Ok(whole);
        }
        for attempt in 1.. {
            let had = length(&part);
            match self.go_on(address, name, &part, most) {
                Ok(()) => break,
                Err(error) if error.is::<crate::failure::Failed>() => return Err(error),
                Err(error) if attempt >= ATTEMPTS || length(&part) <= had => {
                    let kept = length(&part);
                    let hint = "; what came is kept: the same command goes on from there";
                    let hint = if kept > 0 { hint } else { "" };
                    return Err(error.context(format!("cannot fetch {address}{hint}")));
                }
                Err(_) => std::thread::sleep(self.pause),
            }
        }
        fs::rename(&part, &whole).map_err(unwritable(&whole))?;
        Ok(whole)
    }

    /// Asks for what is missing of a file and adds it.
    fn go_on(&self, address: &str, name: &str, part: &Path, most: u64) -> Result<()> {
        let Some(Piece { from, size, response }) = self.ask(address, part)? else { return Ok(()) };
        ensure!(
            size.is_none_or(|size| size <= most),
            "{} bytes are too many: at most {most}",
            size.unwrap_or(0)
        );
        let mut file = OpenOptions::new().create(true).truncate(false).write(true).open(part);
        let file = file.as_mut().map_err(|error| anyhow!("{}: {error}", part.display()))?;
        file.set_len(from).map_err(unwritable(part))?;
        std::io::Seek::seek(file, std::io::SeekFrom::Start(from)).map_err(unwritable(part))?;
        let (mut bar, mut done) = (DownloadBar::new(name, from, size), from);
        let mut body = response.into_body().into_reader();
        let mut buffer = vec![0; 1 << 16];
        loop {
            let count = body.read(&mut buffer).with_context(|| format!("breaks off after {done} bytes"))?;
            if count == 0 {
                ensure!(size.is_none_or(|size| size == done), "breaks off after {done} bytes");
                return Ok(());
            }
            file.write_all(&buffer[..count]).map_err(unwritable(part))?;
            done += count as u64;
            ensure!(done <= most, "longer than the {most} bytes that it may have");
            bar.show(done);
        }
    }

    /// The answer with what is missing; none if nothing is.
    fn ask(&self, address: &str, part: &Path) -> Result<Option<Piece>> {
        let had = length(part);
        let request = self.agent.get(address);
        let request = if had > 0 { request.header("Range", format!("bytes={had}-")) } else { request };
        let response = request.call()?;
        let told = |name: &str| response.headers().get(name).and_then(|value| value.to_str().ok());
        let length = told("content-length").and_then(|length| length.parse::<u64>().ok());
        match response.status() {
            StatusCode::OK => Ok(Some(Piece { from: 0, size: length, response })),
            StatusCode::PARTIAL_CONTENT => {
                let range =
                    told("content-range").and_then(|range| range.strip_prefix("bytes ")?.split_once('-'));
                ensure!(
                    range.is_some_and(|(from, _)| from.parse() == Ok(had)),
                    "the answer is about another range"
                );
                Ok(Some(Piece { from: had, size: length.map(|length| had + length), response }))
            }
            StatusCode::RANGE_NOT_SATISFIABLE if had > 0 => {
                if told("content-range") == Some(format!("bytes */{had}").as_str()) {
                    return Ok(None);
                }
                // Of another file, perhaps.
                fs::remove_file(part).map_err(unwritable(part))?;
                self.ask(address, part)
            }
            other => bail!("the server answers {other}"),
        }
    }

    /// What came is of no use.
    pub(super) fn forget(&self, came: &Path) {
        // What cannot be removed is overwritten next time, or refused again.
        let _ = fs::remove_file(came);
    }

    /// All is in its place.
    pub(super) fn forget_all(&self) {
        let _ = fs::remove_dir_all(&self.folder);
    }
}

/// Where downloads of a data set are until they are whole.
pub(super) fn cache_folder(name: &str) -> Option<PathBuf> {
    let absolute = |key: &str| std::env::var_os(key).map(PathBuf::from).filter(|path| path.is_absolute());
    let cache = absolute("XDG_CACHE_HOME").or_else(|| Some(absolute("HOME")?.join(".cache")))?;
    Some(cache.join("bonfire/downloads").join(name))
}

fn length(path: &Path) -> u64 {
    fs::metadata(path).map_or(0, |facts| facts.len())
}

/// The certificates of those whom this system trusts.
fn system_roots() -> Result<Vec<Certificate<'static>>> {
    let named = std::env::var_os(BUNDLE_VARIABLE).map(PathBuf::from);
    let found = named.or_else(|| BUNDLES.iter().map(PathBuf::from).find(|path| path.is_file()));
    let path = found.with_context(|| {
        format!(
            "no certificates of authorities were found in {}; {BUNDLE_VARIABLE} names a file",
            BUNDLES.join(", ")
        )
    })?;
    let mut text = Vec::new();
    let file = File::open(&path).with_context(|| format!("{}", path.display()))?;
    file.take(16 << 20).read_to_end(&mut text).with_context(|| format!("{}", path.display()))?;
    let certificates: Vec<_> = parse_pem(&text)
        .filter_map(|item| match item {
            Ok(PemItem::Certificate(certificate)) => Some(certificate),
            _ => None,
        })
        .collect();
    ensure!(!certificates.is_empty(), "{}: holds no certificate", path.display());
    Ok(certificates)
}

//! The same over HTTPS, from a server with a certificate of its own.

use super::*;
use crate::fetch::archive::tests::archive_of;
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use rustls::{ServerConfig, ServerConnection, StreamOwned};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use ureq::tls::Certificate;

/// A server that knows one file, and how often it was asked for which part of it.
struct Server {
    address: String,
    certificate: Certificate<'static>,
    asked: Arc<Mutex<Vec<u64>>>,
}

/// How the server behaves.
#[derive(Clone, Copy, PartialEq)]
enum Habit {
    /// It hangs up after so many bytes of an answer, as often as said.
    HangsUp { after: usize, times: usize },
    /// It does so and never sends but the whole.
    KnowsNoRanges { after: usize, times: usize },
}

impl Server {
    fn start(path: &'static str, content: Vec<u8>, habit: Habit) -> Self {
        let made = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
        let der = made.cert.der().clone();
        let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(made.signing_key.serialize_der()));
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config =
            ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
        let config = config.with_no_client_auth().with_single_cert(vec![der.clone()], key).unwrap();
        let (config, listener) = (Arc::new(config), TcpListener::bind("127.0.0.1:0").unwrap());
        let address = format!("https://localhost:{}/", listener.local_addr().unwrap().port());
        let (asked, failures) = (Arc::new(Mutex::new(Vec::new())), Arc::new(AtomicUsize::new(0)));
        let told = Arc::clone(&asked);
        thread::spawn(move || {
            for stream in listener.incoming() {
                let connection = ServerConnection::new(Arc::clone(&config)).unwrap();
                let stream = StreamOwned::new(connection, stream.unwrap());
                // A client that trusts nobody hangs up.
                let _ = answer(stream, path, &content, habit, &told, &failures);
            }
        });
        Self { address, certificate: Certificate::from_der(der.as_ref()).to_owned(), asked }
    }

    fn downloader(&self, folder: &Path) -> Downloader {
        let roots = std::slice::from_ref(&self.certificate);
        Downloader::trusting(roots, folder.join("downloads"), Duration::from_secs(5), None)
    }
}

fn answer(
    stream: StreamOwned<ServerConnection, TcpStream>,
    path: &str,
    content: &[u8],
    habit: Habit,
    asked: &Mutex<Vec<u64>>,
    failures: &AtomicUsize,
) -> std::io::Result<()> {
    let mut stream = BufReader::new(stream);
    let (mut request, mut from) = (String::new(), 0);
    stream.read_line(&mut request)?;
    loop {
        let mut header = String::new();
        if stream.read_line(&mut header)? <= 2 {
            break;
        }
        if let Some(range) = header.to_lowercase().strip_prefix("range: bytes=") {
            from = range.trim().trim_end_matches('-').parse().unwrap();
        }
    }
    let stream = stream.get_mut();
    if request != format!("GET /{path} HTTP/1.1\r\n") {
        return stream.write_all(b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n");
    }
    asked.lock().unwrap().push(from as u64);
    let (Habit::HangsUp { after, times } | Habit::KnowsNoRanges { after, times }) = habit;
    let from = if matches!(habit, Habit::KnowsNoRanges { .. }) { 0 } else { from };
    let (rest, size) = (&content[from..], content.len());
    let head = match from {
        0 => format!("HTTP/1.1 200 OK\r\nContent-Length: {size}\r\n\r\n"),
        _ => format!(
            "HTTP/1.1 206 Partial Content\r\nContent-Range: bytes {from}-{}/{size}\r\nContent-Length: {}\r\n\r\n",
            size - 1,
            rest.len()
        ),
    };
    stream.write_all(head.as_bytes())?;
    let fails = failures.fetch_add(1, Ordering::Relaxed) < times;
    stream.write_all(if fails { &rest[..after.min(rest.len())] } else { rest })?;
    stream.flush()?;
    // Without a farewell, as a line that is cut.
    stream.sock.shutdown(std::net::Shutdown::Both)
}

/// One file of 300,000 zeros.
const ZEROS: Collection = Collection {
    name: "zeros",
    address: "",
    package: None,
    packing: Packing::Plain,
    names: &[],
    parts: &[CollectionFile { name: "zeros", size: 300_000, checksum: "" }],
};

fn zeros() -> Collection {
    let checksum: String =
        Sha256::digest(vec![0; 300_000]).iter().map(|byte| format!("{byte:02x}")).collect();
    let part = CollectionFile { checksum: checksum.leak(), ..ZEROS.parts[0] };
    Collection { parts: vec![part].leak(), ..ZEROS }
}

#[test]
fn a_download_that_breaks_off_goes_on() {
    let habit = Habit::HangsUp { after: 100_000, times: 2 };
    let server = Server::start("zeros", vec![0; 300_000], habit);
    let folder = tempfile::tempdir().unwrap();
    let into = folder.path().join("zeros");
    let origin = Origin::Web(server.address.clone());
    fetch_with(&server.downloader(folder.path()), &zeros(), &origin, &into).unwrap();
    assert_eq!(fs::read(into.join("zeros")).unwrap(), vec![0; 300_000]);
    let asked = server.asked.lock().unwrap().clone();
    assert!(asked.len() == 3 && asked[0] == 0 && asked[1] > 0, "{asked:?}");
    assert!(asked[2] > asked[1], "only what is missing is asked for: {asked:?}");
    assert!(!folder.path().join("downloads").exists(), "nothing is left");
}

#[test]
fn another_process_goes_on_with_it() {
    // Every connection brings one byte; so often is not tried.
    let server = Server::start("zeros", vec![0; 300_000], Habit::HangsUp { after: 1, times: 5 });
    let folder = tempfile::tempdir().unwrap();
    let (into, origin) = (folder.path().join("zeros"), Origin::Web(server.address.clone()));
    let error = fetch_with(&server.downloader(folder.path()), &zeros(), &origin, &into).unwrap_err();
    let text = error.to_string();
    assert!(error.is::<Failed>() && text.contains("breaks off after "), "{text}");
    assert!(text.contains("what came is kept: the same command goes on from there"), "{text}");
    assert!(!into.exists(), "a data set is there as a whole or not at all");
    fetch_with(&server.downloader(folder.path()), &zeros(), &origin, &into).unwrap();
    assert!(server.asked.lock().unwrap().last().is_some_and(|from| *from > 0));
    assert_eq!(fs::read(into.join("zeros")).unwrap().len(), 300_000);
}

#[test]
fn a_server_without_ranges_sends_all_again() {
    let habit = Habit::KnowsNoRanges { after: 100_000, times: 1 };
    let server = Server::start("zeros", vec![0; 300_000], habit);
    let folder = tempfile::tempdir().unwrap();
    let (into, origin) = (folder.path().join("zeros"), Origin::Web(server.address.clone()));
    fetch_with(&server.downloader(folder.path()), &zeros(), &origin, &into).unwrap();
    assert_eq!(fs::read(into.join("zeros")).unwrap(), vec![0; 300_000]);
}

#[test]
fn wrong_content_is_thrown_away_and_a_stranger_is_not_trusted() {
    let server = Server::start("zeros", vec![1; 300_000], Habit::HangsUp { after: 0, times: 0 });
    let folder = tempfile::tempdir().unwrap();
    let (into, origin) = (folder.path().join("zeros"), Origin::Web(server.address.clone()));
    let error = fetch_with(&server.downloader(folder.path()), &zeros(), &origin, &into).unwrap_err();
    assert!(error.to_string().contains("its SHA-256 is"), "{error}");
    let left = fs::read_dir(folder.path().join("downloads")).unwrap().count();
    assert_eq!((into.exists(), left), (false, 0));
    let stranger = impatient(folder.path());
    let error = fetch_with(&stranger, &zeros(), &origin, &into).unwrap_err();
    assert!(error.is::<Failed>() && error.to_string().contains("cannot fetch https://localhost"), "{error}");
    assert!(!into.exists());
}

#[test]
fn an_archive_is_taken_apart() {
    let files: [(&str, &[u8]); 4] =
        [("small/", b""), ("small/one", b"one"), ("small/names.txt", b"a\nb\n"), ("small/more/two", b"two")];
    let packed = packed(&archive_of(&files));
    let checksum: String = Sha256::digest(&packed).iter().map(|byte| format!("{byte:02x}")).collect();
    let archive =
        CollectionFile { name: "small.tar.gz", size: packed.len() as u64, checksum: checksum.leak() };
    let whole = Collection {
        packing: Packing::Tar(archive),
        names: &["names.txt"],
        parts: &SMALL.parts[..2],
        ..SMALL
    };
    let server = Server::start("small.tar.gz", packed.clone(), Habit::HangsUp { after: 50, times: 1 });
    let folder = tempfile::tempdir().unwrap();
    let (into, origin) = (folder.path().join("small"), Origin::Web(server.address.clone()));
    fetch_with(&server.downloader(folder.path()), &whole, &origin, &into).unwrap();
    let read = |name: &str| fs::read_to_string(into.join(name)).unwrap();
    assert_eq!([read("one"), read("two"), read("names.txt")], ["one", "two", "a\nb\n"]);
    // From a folder that holds the archive, and one that lacks a file.
    fs::create_dir(folder.path().join("here")).unwrap();
    fs::write(folder.path().join("here/small.tar.gz"), &packed).unwrap();
    let here = Origin::Folder(folder.path().join("here"));
    fetch(&whole, &here, &folder.path().join("again")).unwrap();
    let more = Collection { parts: SMALL.parts, ..whole };
    let error = fetch(&more, &here, &folder.path().join("more")).unwrap_err();
    assert!(format!("{error:#}").contains("small.tar.gz holds no "), "{error:#}");
}

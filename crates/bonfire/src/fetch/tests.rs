use super::*;
use flate2::Compression;
use flate2::write::GzEncoder;
use std::net::{TcpListener, TcpStream};
use std::thread;
use std::time::Duration;

mod secure;

/// A data set small enough to type: the content of each part is its name.
const SMALL: Collection = Collection {
    name: "small",
    address: "",
    package: Some("dataset-small"),
    packing: Packing::Gzip,
    names: &[],
    parts: &[
        CollectionFile {
            name: "one",
            size: 3,
            checksum: "7692c3ad3540bb803c020b3aee66cd8887123234ea0c6e7143c0add73ff431ed",
        },
        CollectionFile {
            name: "two",
            size: 3,
            checksum: "3fc4ccfe745870e2c0d99f71f30ff0656c8dedd41cc1d7d3d376b0dbe685e2f3",
        },
        CollectionFile {
            name: "six",
            size: 3,
            checksum: "44778d82365e4af681c40d5f0eef5cf6f5899d3f0ac335050a7ed6779cf3f674",
        },
        CollectionFile {
            name: "ten",
            size: 3,
            checksum: "e4432baa90819aaef51d2a7f8e148bf7e679610f3173752fabb4dcb2d0f418d3",
        },
    ],
};

fn packed(content: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(content).unwrap();
    encoder.finish().unwrap()
}

/// A downloader that is not sent through a proxy by the environment and does not wait long.
fn impatient(folder: &Path) -> Downloader {
    Downloader::trusting(&[], folder.join("downloads"), Duration::from_secs(5), None)
}

/// A web server on a port of its own, and its address. `spoil` gets the name of the part that was asked for and the
/// right reply, and says what is sent.
fn serve(spoil: impl Fn(&str, Vec<u8>) -> Vec<u8> + Send + 'static) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}/data/", listener.local_addr().unwrap());
    thread::spawn(move || {
        for stream in listener.incoming() {
            answer(stream.unwrap(), &spoil);
        }
    });
    address
}

fn answer(mut stream: TcpStream, spoil: &dyn Fn(&str, Vec<u8>) -> Vec<u8>) {
    let mut request = String::new();
    let mut lines = BufReader::new(stream.try_clone().unwrap());
    lines.read_line(&mut request).unwrap();
    let mut header = String::new();
    while lines.read_line(&mut header).unwrap() > 2 {
        header.clear();
    }
    let part = request.strip_prefix("GET /data/").and_then(|rest| rest.split(".gz ").next()).unwrap();
    let body = packed(part.as_bytes());
    let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\nConnection: close\r\n\r\n", body.len());
    let reply = [head.into_bytes(), body].concat();
    // The client may hang up on a spoilt answer before it is all sent.
    let _ = stream.write_all(&spoil(part, reply));
}

/// What lies in a folder after a download from `address`, and the error if there was one.
fn get(address: String) -> (Vec<String>, Option<anyhow::Error>) {
    let (folder, cache) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let into = folder.path().join("small");
    let result = fetch_with(&impatient(cache.path()), &SMALL, &Origin::Web(address), &into);
    let names = |path: &Path| -> Vec<String> {
        let entries = fs::read_dir(path).into_iter().flatten();
        let mut names: Vec<_> =
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    };
    match result {
        Ok(()) => (names(&into), None),
        Err(error) => (names(folder.path()), Some(error)),
    }
}

#[test]
fn good_files_are_fetched_and_unpacked() {
    let (names, error) = get(serve(|_, reply| reply));
    assert!(error.is_none(), "{error:?}");
    assert_eq!(names, ["one", "six", "ten", "two"]);
}

#[test]
fn a_bad_answer_leaves_nothing_and_is_a_failure() {
    let check = |spoil: fn(Vec<u8>) -> Vec<u8>, expect: &str| {
        let (names, error) = get(serve(move |part, reply| if part == "two" { spoil(reply) } else { reply }));
        let error = error.unwrap();
        assert!(error.is::<Failed>(), "{error:?}");
        let text = format!("{error:#}");
        assert!(text.contains(expect), "{text:?} should say {expect:?}");
        assert!(text.contains("install the package dataset-small"), "{text}");
        assert!(text.contains("bonfire data get small --from FOLDER"), "{text}");
        assert!(names.is_empty(), "{names:?} were left");
    };
    check(|_| b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n".to_vec(), "404");
    check(|_| Vec::new(), "cannot fetch http://127.0.0.1");
    check(|reply| reply[..reply.len() - 4].to_vec(), "breaks off after");
    check(|_| reply_with(&packed(b"owt")), "its SHA-256 is ");
    check(|_| reply_with(&packed(b"tw")), "truncated: 2 of 3 bytes");
    check(|_| reply_with(b"tw"), "truncated: 2 of 3 bytes");
    check(|_| reply_with(&packed(&[0; 5000])), "longer than the 3 bytes");
}

fn reply_with(body: &[u8]) -> Vec<u8> {
    let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", body.len());
    [head.as_bytes(), body].concat()
}

#[test]
fn nobody_there_is_a_failure() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}/", listener.local_addr().unwrap());
    drop(listener);
    let (names, error) = get(address);
    let error = error.unwrap();
    assert!(error.is::<Failed>(), "{error:?}");
    assert!(error.to_string().contains("cannot fetch"), "{error}");
    assert!(names.is_empty(), "{names:?} were left");
}

#[test]
fn a_folder_is_copied_if_its_content_is_right() {
    let folder = tempfile::tempdir().unwrap();
    let (from, into) = (folder.path().join("from"), folder.path().join("into"));
    fs::create_dir(&from).unwrap();
    let origin = Origin::parse(from.to_str().unwrap()).unwrap();
    let check = |expect: Option<&str>| match (fetch(&SMALL, &origin, &into), expect) {
        (Ok(()), None) => assert_eq!(fs::read(into.join("ten")).unwrap(), b"ten"),
        (Err(error), Some(expect)) => {
            let text = format!("{error:#}");
            assert!(text.contains(expect), "{text:?} should say {expect:?}");
            assert!(!error.is::<Failed>(), "a wrong folder is wrong input");
            assert_eq!(fs::read_dir(folder.path()).unwrap().filter(|entry| entry.is_ok()).count(), 1);
        }
        (result, expect) => panic!("{result:?}, expected {expect:?}"),
    };
    fs::write(from.join("one"), "one").unwrap();
    fs::write(from.join("two.gz"), packed(b"two")).unwrap();
    fs::write(from.join("six"), "six").unwrap();
    check(Some("holds neither ten nor ten.gz"));
    fs::write(from.join("ten"), "net").unwrap();
    check(Some("its SHA-256 is"));
    fs::write(from.join("ten"), "ten").unwrap();
    check(None);
    let error = fetch(&SMALL, &origin, &into).unwrap_err();
    assert!(error.to_string().contains("is not empty; choose another folder"), "{error}");
}

#[test]
fn origins_are_addresses_or_folders() {
    let check = |given: &str, expect: Result<Origin, &str>| match (Origin::parse(given), expect) {
        (Ok(found), Ok(expect)) => assert_eq!(found, expect),
        (Err(found), Err(expect)) => assert!(found.to_string().contains(expect), "{found}"),
        (found, expect) => panic!("{given}: {found:?}, expected {expect:?}"),
    };
    check("http://a/b", Ok(Origin::Web("http://a/b/".to_owned())));
    check("http://a/b/", Ok(Origin::Web("http://a/b/".to_owned())));
    check("https://a/b", Ok(Origin::Web("https://a/b/".to_owned())));
    check("/", Ok(Origin::Folder(PathBuf::from("/"))));
    check("no/such/folder", Err("neither a folder nor an address"));
}

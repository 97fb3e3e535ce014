use std::io::{Read, Write};
use std::net::TcpStream;
use std::thread;
use std::time::{Duration, Instant};

use super::*;
use crate::event::Event;
use crate::folder::RunFolder;
use crate::http::{MOST_CONNECTIONS, PATIENCE};
use crate::log::Log;
use crate::sample;

struct Scene {
    _temp: tempfile::TempDir,
    root: PathBuf,
    log: Log,
}

/// A folder with one run that goes on.
fn scene() -> Scene {
    let temp = tempfile::tempdir().unwrap();
    let root = temp.path().join("runs");
    let folder = RunFolder::create(&root.join("first run")).unwrap();
    fs::write(folder.run_file(), "name: first\n").unwrap();
    fs::write(temp.path().join("secret"), "nobody is to read this").unwrap();
    let mut log = Log::open(&folder, Instant::now(), Vec::new()).unwrap();
    log.record(Instant::now(), sample::started());
    log.record(Instant::now(), sample::progress(1));
    Scene { _temp: temp, root, log }
}

impl Scene {
    fn serve(&self, source: PageSource) -> PageServer {
        PageServer::start(TcpListener::bind("127.0.0.1:0").unwrap(), source, None).unwrap()
    }

    fn run(&self) -> PageSource {
        PageSource::Run(self.root.join("first run"))
    }
}

fn connect(server: &PageServer) -> TcpStream {
    let connection = TcpStream::connect(server.0.address()).unwrap();
    connection.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    connection
}

fn ask(server: &PageServer, request: &str) -> String {
    let mut connection = connect(server);
    connection.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    // A server that has not read all of a long request resets the connection behind its answer.
    let _ = connection.read_to_string(&mut answer);
    answer
}

fn get(server: &PageServer, path: &str) -> String {
    ask(server, &format!("GET {path} HTTP/1.1\r\nHost: {}\r\n\r\n", server.0.address()))
}

fn status(answer: &str) -> &str {
    answer.get(9..12).unwrap_or_default()
}

#[test]
fn a_run_has_a_page_and_figures() {
    let scene = scene();
    let server = scene.serve(scene.run());
    let page = get(&server, "/");
    assert_eq!(status(&page), "200", "{page:.300}");
    assert!(page.contains("<title>first run</title>") && page.contains("\"live\":\"events\""), "{page:.300}");
    assert!(get(&server, "/metrics").contains("\nbonfire_round{run=\"fashion\"} 1\n"));
    let head = ask(&server, "HEAD / HTTP/1.1\r\nHost: localhost\r\n\r\n");
    assert!(status(&head) == "200" && head.ends_with("\r\n\r\n"), "{head:.300}");
}

#[test]
fn a_folder_has_a_list_and_a_page_for_each() {
    let scene = scene();
    let server = scene.serve(PageSource::Runs(scene.root.clone()));
    assert!(get(&server, "/").contains("\"label\":\"first run\""));
    assert!(get(&server, "/list.json").contains("\"label\":\"first run\""));
    assert!(get(&server, "/run/first%20run/").contains("\"home\":\"../../\""));
    assert!(get(&server, "/run/first%20run/metrics").contains("bonfire_round"));
    assert!(get(&server, "/compare?run=first%20run").contains("\"label\":\"first run\""));
    assert_eq!(status(&get(&server, "/compare?run=second")), "404");
}

#[test]
fn strangers_see_nothing() {
    let scene = scene();
    let server = scene.serve(PageSource::Runs(scene.root.clone()));
    for path in [
        "/run/../secret/",
        "/run/..%2Fsecret/",
        "/run/%2e%2e/",
        "/../secret",
        "//etc/passwd",
        "/run/first%20run/../../../secret",
        "/run/first%20run/events.jsonl",
        "/run/%/",
        "/run/%ff%fe/events",
    ] {
        let answer = get(&server, path);
        assert_eq!(status(&answer), "404", "{path}: {answer:.200}");
        assert!(!answer.contains("nobody is to read"), "{path}");
    }
    let check = |request: &str, expect: &str| {
        let answer = ask(&server, request);
        assert_eq!(status(&answer), expect, "{request:.60}: {answer:.200}");
    };
    check("GET / HTTP/1.1\r\nHost: evil.example:80\r\n\r\n", "421");
    check("GET / HTTP/1.1\r\nHost: 10.0.0.1\r\n\r\n", "421");
    check("GET / HTTP/1.1\r\n\r\n", "400");
    check("GET / HTTP/1.1\r\nHost: localhost\r\nHost: evil.example\r\n\r\n", "400");
    check("POST / HTTP/1.1\r\nHost: localhost\r\n\r\n", "405");
    check("GET http://localhost/ HTTP/1.1\r\nHost: localhost\r\n\r\n", "400");
    check("nonsense\r\n\r\n", "400");
    check(&format!("GET / HTTP/1.1\r\nHost: localhost\r\nX: {}\r\n\r\n", "x".repeat(9000)), "431");
}

#[test]
fn off_loopback_a_token_is_part_of_the_address() {
    let scene = scene();
    let listener = TcpListener::bind("0.0.0.0:0").unwrap();
    assert!(PageServer::start(listener, scene.run(), None).is_err());
    let listener = TcpListener::bind("0.0.0.0:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let server = PageServer::start(listener, scene.run(), Some("0123abcd".to_owned())).unwrap();
    assert_eq!(server.url(), format!("http://localhost:{port}/0123abcd/"));
    for (path, expect) in [("/", "404"), ("/0123abce/", "404"), ("/0123abcd", "404"), ("/0123abcd/", "200")] {
        let host = format!("127.0.0.1:{port}");
        let mut connection = TcpStream::connect(&host).unwrap();
        write!(connection, "GET {path} HTTP/1.1\r\nHost: {host}\r\n\r\n").unwrap();
        let mut answer = String::new();
        let _ = connection.read_to_string(&mut answer);
        assert_eq!(status(&answer), expect, "{path}");
    }
}

/// Reads a stream until it has brought something.
fn until(connection: &mut TcpStream, fragment: &str) -> String {
    let (mut text, mut part) = (String::new(), [0; 4096]);
    while !text.contains(fragment) {
        let length = connection.read(&mut part).expect("in time");
        assert!(length > 0, "ended before {fragment:?}: {text}");
        text.push_str(&String::from_utf8_lossy(&part[..length]));
    }
    text
}

#[test]
fn lines_come_as_they_are_written_and_go_on_by_their_number() {
    let mut scene = scene();
    let server = scene.serve(scene.run());
    let mut first = connect(&server);
    first.write_all(b"GET /events?from=1 HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
    let text = until(&mut first, "id: 2\n");
    assert!(!text.contains("id: 1\n") && text.contains("data: [\"p\","), "{text}");
    scene.log.record(Instant::now(), sample::progress(2));
    until(&mut first, "id: 3\n");
    drop(first);
    let mut again = connect(&server);
    again.write_all(b"GET /events?from=1 HTTP/1.1\r\nHost: localhost\r\nLast-Event-ID: 3\r\n\r\n").unwrap();
    until(&mut again, "retry");
    scene.log.record(Instant::now(), Event::Ended { summary: Box::new(sample::summary()) });
    drop(server);
    let mut rest = String::new();
    again.read_to_string(&mut rest).unwrap();
    assert!(!rest.contains("id: 3\n") && rest.contains("id: 4\n"), "also what came at the very end: {rest}");
}

#[test]
fn idle_connections_are_few_and_let_go() {
    let scene = scene();
    let server = scene.serve(scene.run());
    let idle: Vec<TcpStream> = (0..300).map(|_| connect(&server)).collect();
    // The last ones are closed at once.
    let mut last = idle.last().unwrap();
    assert_eq!(last.read(&mut [0]).unwrap_or(0), 0);
    assert!(server.0.connections() <= MOST_CONNECTIONS);
    let begun = Instant::now();
    loop {
        // A connection that is refused has no answer.
        if status(&get(&server, "/")) == "200" {
            break;
        }
        assert!(begun.elapsed() < PATIENCE * 3, "the others are closed when they say nothing");
        thread::sleep(Duration::from_millis(100));
    }
    drop(idle);
}

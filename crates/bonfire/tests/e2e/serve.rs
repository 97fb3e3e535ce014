//! A trained model answers over HTTP what `predict` prints.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::program::{Dir, Running};

/// A server of a run, and its address.
#[track_caller]
fn serve(dir: &Dir, arguments: &str) -> (Running, String, String) {
    let mut running = dir.bonfire("serve run").args(arguments).start();
    let url = running.first_line();
    let rest = url.strip_prefix("http://").expect("an address");
    let (address, path) = rest.split_once('/').expect("a path");
    (running, address.replace("localhost", "127.0.0.1"), format!("/{path}"))
}

/// What is answered to a request: its status and its body.
fn ask(address: &str, head: &str, body: &[u8]) -> (String, String) {
    let mut connection = TcpStream::connect(address).expect("a server");
    connection.set_read_timeout(Some(Duration::from_secs(60))).expect("a deadline");
    // A server that has too many connections, or has refused, does not read on.
    let _ = connection.write_all(format!("{head}\r\n\r\n").as_bytes());
    let _ = connection.write_all(body);
    let mut answer = String::new();
    let _ = connection.read_to_string(&mut answer);
    let answer = answer.strip_prefix("HTTP/1.1 100 Continue\r\n\r\n").unwrap_or(&answer);
    let (head, body) = answer.rsplit_once("\r\n\r\n").unwrap_or_default();
    (head.get(9..12).unwrap_or_default().to_owned(), body.to_owned())
}

fn post(address: &str, path: &str, headers: &str, body: &[u8]) -> (String, String) {
    let length = body.len();
    ask(
        address,
        &format!("POST {path} HTTP/1.1\r\nHost: {address}\r\nContent-Length: {length}{headers}"),
        body,
    )
}

const JSON: &str = "\r\nContent-Type: application/json; charset=utf-8";

#[track_caller]
fn found((status, body): (String, String)) -> Vec<Value> {
    assert_eq!(status, "200", "{body}");
    serde_json::from_str(&body).unwrap_or_else(|error| panic!("{error}: {body}"))
}

#[track_caller]
fn refused((status, body): (String, String), reason: &str) {
    assert_eq!(status, "400", "{body}");
    let error: Value = serde_json::from_str(&body).expect("JSON");
    assert!(error["error"].as_str().is_some_and(|error| error.contains(reason)), "{reason:?} in {body}");
}

#[test]
fn sentences_get_the_tags_that_predict_prints() {
    let dir = Dir::new();
    let data = "data={name: grammar, train: 300, test: 50}\n epochs=1";
    dir.bonfire("train --quiet --out run").set("model.tagger={hidden: 16}").set(data).succeed();
    dir.write("both.txt", "The old dog sees.\nA cat\n");
    let said = dir.bonfire("predict run --json both.txt").succeed().json_lines();
    let alone = dir.bonfire("predict run --json").arg("A cat").succeed().json_lines();
    let (running, address, path) = serve(&dir, "--listen 127.0.0.1:0");
    assert_eq!(path, "/");
    let at = |headers: &str, body: &str| post(&address, "/predict", headers, body.as_bytes());
    assert_eq!(found(at(JSON, r#"["The old dog sees.", "A cat"]"#)), said);
    assert_eq!(found(at("", "The old dog sees.\n\nA cat\n")), said);
    assert_eq!(found(at(JSON, r#""A cat""#)), alone);
    let patient = post(&address, "/predict", "\r\nExpect: 100-continue", b"A cat");
    assert_eq!(found(patient), alone);
    let about = ask(&address, &format!("GET / HTTP/1.1\r\nHost: {address}"), b"");
    assert!(about.0 == "200" && about.1.contains("\"takes\":\"sentences\""), "{about:?}");

    refused(at(JSON, "{"), "the body is not JSON");
    refused(at(JSON, "[[true]]"), "an input is a text");
    refused(at("", ""), "the body is empty");
    refused(at("", " \n"), "no input");
    refused(post(&address, "/predict", "", &[0xFF, 0xFE]), "not UTF-8");
    refused(at("", &"a ".repeat(10_001)), "a sentence has over 10000 words");
    refused(at("", &"a\n".repeat(4097)), "at most 4096");
    let status = |head: &str, body: &[u8]| ask(&address, head, body).0;
    assert_eq!(status(&format!("GET /predict HTTP/1.1\r\nHost: {address}"), b""), "405");
    assert_eq!(status(&format!("GET /nothing HTTP/1.1\r\nHost: {address}"), b""), "404");
    assert_eq!(status("GET / HTTP/1.1\r\nHost: evil.example", b""), "421");
    let post = |headers: &str| format!("POST /predict HTTP/1.1\r\nHost: {address}\r\n{headers}");
    assert_eq!(status(&post("Transfer-Encoding: chunked"), b"5\r\nA cat\r\n0\r\n\r\n"), "411");
    assert_eq!(status(&post("Content-Length: 16777217"), &[b'a'; 1 << 20]), "413");
    assert_eq!(status(&post("Content-Length: 5\r\nContent-Length: 6"), b"A cat"), "400");
    running.signal("INT");
    running.wait().expect(0);
}

#[test]
fn rows_and_images_are_answered_too() {
    let dir = Dir::new();
    let rows: String =
        (0..100).map(|i| format!("{},{},{}\n", i % 20, 7, ["low", "high"][i % 20 / 10])).collect();
    dir.write("table.csv", format!("size,weight,kind\n{rows}"));
    let settings = "model.mlp={hidden: [8]}\n data={name: table.csv, label: kind}\n epochs=2\n batch_size=8";
    dir.bonfire("train --quiet --out run").set(settings).succeed();
    dir.write("both.txt", "1,7\n19.5,7\n");
    let said = dir.bonfire("predict run --json both.txt").succeed().json_lines();
    let alone = dir.bonfire("predict run --json 1,7").succeed().json_lines();
    let (_running, address, _) = serve(&dir, "--listen 127.0.0.1:0");
    assert_eq!(found(post(&address, "/predict", JSON, b"[[1, 7], [19.5, 7]]")), said);
    assert_eq!(found(post(&address, "/predict", JSON, b"[1, 7]")), alone);
    refused(post(&address, "/predict", JSON, b"[[1, 7, 2]]"), "a row has 3 numbers, the data have 2");

    let dir = Dir::new();
    let settings = "data={name: digits, train: 200, test: 20}\n epochs=1";
    dir.bonfire("train --quiet --out run").set(settings).succeed();
    let (_running, address, _) = serve(&dir, "--listen 127.0.0.1:0");
    for name in ["small.png", "small.jpg"] {
        let image = std::fs::read(format!("{}/../data/fixtures/{name}", env!("CARGO_MANIFEST_DIR")));
        let image = image.expect("a fixture");
        dir.write(name, &image);
        let said = dir.bonfire("predict run --json").arg(name).succeed().json_lines();
        assert_eq!(found(post(&address, &format!("/predict?name={name}"), "", &image)), said);
        refused(post(&address, "/predict", "", &image[..image.len() / 2]), "image: is not a whole ");
    }
    refused(post(&address, "/predict", "", b"no image"), "image: is neither PNG nor JPEG");
}

#[test]
fn others_need_the_token_and_the_idle_are_let_go() {
    let dir = Dir::new();
    let settings = "data={name: digits, train: 200, test: 20}\n epochs=1";
    dir.bonfire("train --quiet --out run").set(settings).succeed();
    let (_running, address, path) = serve(&dir, "--listen 0.0.0.0:0");
    let token = path.trim_matches('/');
    assert!(token.len() >= 32, "{path}");
    let get = |path: &str, header: &str| {
        ask(&address, &format!("GET {path} HTTP/1.1\r\nHost: {address}{header}"), b"").0
    };
    assert_eq!(get("/", ""), "404");
    assert_eq!(get("/0123456789abcdef0123456789abcdef/", ""), "404");
    assert_eq!(get("/", "\r\nAuthorization: Bearer 0123456789abcdef0123456789abcdef"), "404");
    assert_eq!(get(&path, ""), "200");
    assert_eq!(get("/", &format!("\r\nAuthorization: Bearer {token}")), "200");
    let idle: Vec<_> = (0..200).map(|_| TcpStream::connect(&address).expect("a connection")).collect();
    let begun = Instant::now();
    while get(&path, "") != "200" {
        assert!(begun.elapsed() < Duration::from_secs(30), "those that say nothing are closed");
        std::thread::sleep(Duration::from_millis(100));
    }
    drop(idle);
    dir.bonfire("serve run --listen nonsense").run().refuse("--listen: cannot listen at nonsense");
    dir.bonfire("serve nowhere").run().refuse("nowhere");
}

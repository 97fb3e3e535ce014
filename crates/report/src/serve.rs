//! The page of a run, or of a folder of runs, for browsers: read-only, small, and never in the way of the run.
//!
//! HTTP by hand over threads: four kinds of answers, each after one short request, and a stream of lines. Every read
//! and write has a deadline, and so many connections at most are open at a time; more are closed at once.

mod request;
mod stream;

use std::fs;
use std::io::{self, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::metrics::Metrics;
use crate::page::{PageData, PageRun, document};
use crate::summary::Summary;
use request::Request;

/// What is shown.
#[derive(Clone, Debug)]
pub enum PageSource {
    /// A run, by its folder.
    Run(PathBuf),
    /// The runs whose folders are in this one.
    Runs(PathBuf),
}

/// A server of pages on threads of its own, as long as it lives.
#[derive(Debug)]
pub struct PageServer {
    address: SocketAddr,
    token: Option<String>,
    state: Arc<Shared>,
}

/// What all connections need.
#[derive(Debug)]
struct Shared {
    source: PageSource,
    token: Option<String>,
    address: SocketAddr,
    is_over: AtomicBool,
    connections: AtomicUsize,
    metrics: Mutex<Option<Metrics>>,
}

/// More than the browsers of a few people open.
const MOST_CONNECTIONS: usize = 64;

/// How long a request may take to come, and an answer to be taken.
const PATIENCE: Duration = Duration::from_secs(5);
const ANSWER: Duration = Duration::from_secs(30);

/// How long streams may take to end.
const FAREWELL: Duration = Duration::from_secs(2);

impl PageServer {
    /// Serves on a listener. Off loopback a token is part of every address.
    ///
    /// # Errors
    /// When no thread can be started, or an address that others reach has no token.
    pub fn start(listener: TcpListener, source: PageSource, token: Option<String>) -> io::Result<Self> {
        let address = listener.local_addr()?;
        if token.is_none() && !address.ip().is_loopback() {
            return Err(io::Error::other("pages that others can reach need a token"));
        }
        let state = Arc::new(Shared {
            source,
            token: token.clone(),
            address,
            is_over: AtomicBool::new(false),
            connections: AtomicUsize::new(0),
            metrics: Mutex::new(None),
        });
        let shared = Arc::clone(&state);
        thread::Builder::new().name("page".into()).spawn(move || accept(&listener, &shared))?;
        Ok(Self { address, token, state })
    }

    /// What to open in a browser on this machine.
    #[must_use]
    pub fn url(&self) -> String {
        let token = self.token.as_ref().map_or(String::new(), |token| format!("{token}/"));
        match self.address.ip().is_unspecified() {
            true => format!("http://localhost:{}/{token}", self.address.port()),
            false => format!("http://{}/{token}", self.address),
        }
    }
}

/// Streams get what is left in the log before they end.
impl Drop for PageServer {
    fn drop(&mut self) {
        self.state.is_over.store(true, Ordering::Relaxed);
        // Wakes the thread that accepts; if it cannot be reached, it is gone.
        let _ = TcpStream::connect_timeout(&self.address, Duration::from_millis(200));
        let until = Instant::now() + FAREWELL;
        while self.state.connections.load(Ordering::Relaxed) > 0 && Instant::now() < until {
            thread::sleep(Duration::from_millis(20));
        }
    }
}

fn accept(listener: &TcpListener, shared: &Arc<Shared>) {
    loop {
        let accepted = listener.accept();
        if shared.is_over.load(Ordering::Relaxed) {
            return;
        }
        let Ok((connection, _)) = accepted else {
            // Too many open files, perhaps: they pass.
            thread::sleep(Duration::from_millis(100));
            continue;
        };
        if shared.connections.fetch_add(1, Ordering::Relaxed) >= MOST_CONNECTIONS {
            shared.connections.fetch_sub(1, Ordering::Relaxed);
            continue;
        }
        let here = Arc::clone(shared);
        let serve = move || {
            // Whoever does not take its answer goes without.
            let _ = here.serve(connection);
            here.connections.fetch_sub(1, Ordering::Relaxed);
        };
        if thread::Builder::new().name("page-reader".into()).stack_size(256 << 10).spawn(serve).is_err() {
            shared.connections.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

/// An answer that is not a stream.
struct Answer {
    status: &'static str,
    kind: &'static str,
    body: String,
}

impl Answer {
    fn html(body: String) -> Self {
        Self { status: "200 OK", kind: "text/html; charset=utf-8", body }
    }

    fn none(status: &'static str) -> Self {
        Self { status, kind: "text/plain; charset=utf-8", body: format!("{status}\n") }
    }

    fn write(&self, connection: &mut TcpStream, has_body: bool) -> io::Result<()> {
        let Self { status, kind, body } = self;
        let head = format!(
            "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {}\r\nConnection: close\r\n\
             Cache-Control: no-store\r\nX-Content-Type-Options: nosniff\r\nReferrer-Policy: no-referrer\r\n\
             X-Frame-Options: DENY\r\nCross-Origin-Resource-Policy: same-origin\r\n\
             Content-Security-Policy: frame-ancestors 'none'\r\n\r\n",
            body.len()
        );
        let until = Instant::now() + ANSWER;
        connection.write_all(head.as_bytes())?;
        for part in body.as_bytes().chunks(16 << 10).take_while(|_| has_body) {
            if Instant::now() > until {
                return Err(io::ErrorKind::TimedOut.into());
            }
            connection.write_all(part)?;
        }
        Ok(())
    }
}

impl Shared {
    fn serve(&self, mut connection: TcpStream) -> io::Result<()> {
        connection.set_write_timeout(Some(PATIENCE))?;
        connection.set_nodelay(true)?;
        let request = match Request::read(&mut connection, Instant::now() + PATIENCE)? {
            Ok(request) => request,
            Err(status) => return Answer::none(status).write(&mut connection, true),
        };
        if !self.is_host(&request.host) {
            return Answer::none("421 Misdirected Request").write(&mut connection, true);
        }
        let Some(path) = self.without_token(&request.path) else {
            return Answer::none("404 Not Found").write(&mut connection, true);
        };
        if let Some((folder, _)) = self.run_of(path).filter(|(_, rest)| *rest == "events") {
            let from = request.last_event.or_else(|| request.number("from")).unwrap_or(0);
            return stream::follow(&mut connection, &folder.join("events.jsonl"), from, &self.is_over);
        }
        let answer = self.answer(path, &request).unwrap_or_else(|| Answer::none("404 Not Found"));
        answer.write(&mut connection, !request.is_head)
    }

    /// Pages of other hosts' names could read this one under a name of their own.
    fn is_host(&self, host: &str) -> bool {
        let name = host.rsplit_once(':').filter(|(_, port)| port.bytes().all(|byte| byte.is_ascii_digit()));
        let name = name.map_or(host, |(name, _)| name).trim_matches(['[', ']']);
        match name.parse::<IpAddr>() {
            Ok(address) => address.is_loopback() || !self.address.ip().is_loopback(),
            Err(_) => {
                let own = fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
                name == "localhost" || self.token.is_some() && name == own.trim()
            }
        }
    }

    fn without_token<'a>(&self, path: &'a str) -> Option<&'a str> {
        let path = path.strip_prefix('/')?;
        match &self.token {
            None => Some(path),
            Some(token) => {
                let (given, rest) = path.split_once('/')?;
                is_equal(given.as_bytes(), token.as_bytes()).then_some(rest)
            }
        }
    }

    /// The folder of the run that a path is about, and the rest of the path. Names are those of a listing, so no path
    /// leads anywhere else.
    fn run_of<'a>(&self, path: &'a str) -> Option<(PathBuf, &'a str)> {
        match &self.source {
            PageSource::Run(folder) => Some((folder.clone(), path)),
            PageSource::Runs(_) => {
                let (name, rest) = path.strip_prefix("run/")?.split_once('/')?;
                let name = request::decoded(name)?;
                Some((self.runs().into_iter().find(|(run, _)| *run == name)?.1, rest))
            }
        }
    }

    /// Names and folders of all runs, the newest first.
    fn runs(&self) -> Vec<(String, PathBuf)> {
        let PageSource::Runs(root) = &self.source else { return Vec::new() };
        let entries = fs::read_dir(root).into_iter().flatten().flatten();
        let run = |path: PathBuf| {
            let name = path.file_name()?.to_str()?.to_owned();
            path.join("events.jsonl").is_file().then_some((name, path))
        };
        let mut runs: Vec<_> = entries.filter_map(|entry| run(entry.path())).collect();
        runs.sort_by(|a, b| b.0.cmp(&a.0));
        runs
    }

    fn answer(&self, path: &str, request: &Request) -> Option<Answer> {
        if let (PageSource::Runs(root), "" | "list.json" | "compare") = (&self.source, path) {
            let folder = Some(root.display().to_string());
            let data = PageData { runs: Vec::new(), list: Some(self.list()), folder, home: None };
            return match path {
                "" => Some(Answer::html(document(&data, "runs"))),
                "compare" => self.compared(request),
                _ => Some(Answer {
                    status: "200 OK",
                    kind: "application/json",
                    body: json!({ "list": data.list }).to_string(),
                }),
            };
        }
        let (folder, rest) = self.run_of(path)?;
        match rest {
            "" => self.page(&folder),
            "metrics" => self.measured(&folder),
            _ => None,
        }
    }

    fn page(&self, folder: &Path) -> Option<Answer> {
        let label = folder.file_name()?.to_string_lossy().into_owned();
        let mut run = PageRun::read(folder, label.clone()).ok()?;
        run.live = Some("events".to_owned());
        run.age_s = age_s(folder);
        let home = matches!(self.source, PageSource::Runs(_)).then(|| "../../".to_owned());
        Some(Answer::html(document(&PageData { runs: vec![run], list: None, folder: None, home }, &label)))
    }

    fn compared(&self, request: &Request) -> Option<Answer> {
        let runs = self.runs();
        let wanted = request.values("run");
        let chosen = runs.iter().filter(|(name, _)| wanted.contains(name));
        let runs: Vec<PageRun> =
            chosen.filter_map(|(name, folder)| PageRun::read(folder, name.clone()).ok()).collect();
        let data = PageData { runs, list: None, folder: None, home: Some(".".to_owned()) };
        (!data.runs.is_empty()).then(|| Answer::html(document(&data, "runs")))
    }

    fn list(&self) -> Value {
        let line = |(label, folder): (String, PathBuf)| {
            let summary = fs::read(folder.join("summary.json")).ok();
            let summary: Option<Summary> = summary.and_then(|bytes| serde_json::from_slice(&bytes).ok());
            let is_fresh = age_s(&folder).is_some_and(|age| age < 60.0);
            let end = match &summary {
                _ if is_fresh && summary.is_none() => "going on",
                Some(summary) => summary.exit.name(),
                None => "no end in the log",
            };
            json!({ "label": label, "summary": summary, "end": end })
        };
        self.runs().into_iter().map(line).collect()
    }

    fn measured(&self, folder: &Path) -> Option<Answer> {
        let mut kept = self.metrics.lock().ok()?;
        let path = folder.join("events.jsonl");
        let metrics = match kept.take().filter(|metrics| metrics.path() == path) {
            Some(metrics) => metrics,
            None => Metrics::of(path),
        };
        let body = kept.insert(metrics).text();
        Some(Answer { status: "200 OK", kind: "text/plain; version=0.0.4; charset=utf-8", body })
    }
}

/// Seconds since the log of a run was last written.
fn age_s(folder: &Path) -> Option<f64> {
    let written = fs::metadata(folder.join("events.jsonl")).and_then(|facts| facts.modified()).ok()?;
    written.elapsed().ok().map(|age| age.as_secs_f64().round())
}

/// In a time that does not tell how much of it is right.
fn is_equal(a: &[u8], b: &[u8]) -> bool {
    a.len() == b.len() && a.iter().zip(b).fold(0, |differences, (a, b)| differences | (a ^ b)) == 0
}

#[cfg(test)]
#[path = "serve/tests.rs"]
mod tests;

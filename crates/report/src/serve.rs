//! The page of a run, or of a folder of runs, for browsers: read-only, small, and never in the way of the run.
//!
//! Four kinds of answers, and a stream of lines.

mod stream;

use std::fs;
use std::io;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use serde_json::{Value, json};

use crate::http::{self, Answer, HttpServer, Reply, Request, Site};
use crate::metrics::Metrics;
use crate::page::{PageData, PageRun, document};
use crate::summary::Summary;

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
pub struct PageServer(HttpServer);

impl PageServer {
    /// Serves on a listener. Off loopback a token is part of every address.
    ///
    /// # Errors
    /// When no thread can be started, or an address that others reach has no token.
    pub fn start(listener: TcpListener, source: PageSource, token: Option<String>) -> io::Result<Self> {
        HttpServer::start(listener, Pages { source, metrics: Mutex::new(None) }, token).map(Self)
    }

    /// What to open in a browser on this machine.
    #[must_use]
    pub fn url(&self) -> String {
        self.0.url()
    }
}

/// What all connections need.
#[derive(Debug)]
struct Pages {
    source: PageSource,
    metrics: Mutex<Option<Metrics>>,
}

impl Site for Pages {
    /// The page is read-only.
    const MOST_BODY: usize = 0;

    fn reply(&self, path: &str, request: &Request) -> Reply {
        if let Some((folder, _)) = self.run_of(path).filter(|(_, rest)| *rest == "events") {
            let from = request.last_event.or_else(|| request.number("from")).unwrap_or(0);
            let log = folder.join("events.jsonl");
            return Reply::Stream(Box::new(move |connection, is_over| {
                stream::follow(connection, &log, from, is_over)
            }));
        }
        Reply::Answer(self.answer(path, request).unwrap_or_else(|| Answer::none("404 Not Found")))
    }
}

impl Pages {
    /// The folder of the run that a path is about, and the rest of the path. Names are those of a listing, so no path
    /// leads anywhere else.
    fn run_of<'a>(&self, path: &'a str) -> Option<(PathBuf, &'a str)> {
        match &self.source {
            PageSource::Run(folder) => Some((folder.clone(), path)),
            PageSource::Runs(_) => {
                let (name, rest) = path.strip_prefix("run/")?.split_once('/')?;
                let name = http::decoded(name)?;
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
                _ => Some(Answer::json(json!({ "list": data.list }).to_string())),
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

#[cfg(test)]
#[path = "serve/tests.rs"]
mod tests;

//! A page with charts of one run or of several: one file that needs no network, and the same page while a run goes on.
//!
//! It shows events and nothing else. Rust makes a log small ([`thin`]) and puts the parts of the page together; what is
//! drawn is up to `page/*.js`.

mod encode;
pub(crate) mod thin;

use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};

use flate2::read::DeflateDecoder;
use serde::Serialize;
use serde_json::Value;
use sha2::{Digest, Sha256};

use crate::error::Result;
use crate::event::{Event, Stamped};
use crate::folder::{RunFolder, write_atomically};
pub(crate) use encode::{encode, encode_mark, encode_text};
use thin::ThinLog;

const TEMPLATE: &str = include_str!("../page/page.html");
/// All of `page/*.css` and `page/*.js`, as `build.rs` packs them.
const STYLE: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/style"));
const SCRIPT: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/script"));

/// A run as a page is given it.
#[derive(Debug, Serialize)]
pub(crate) struct PageRun {
    label: String,
    folder: String,
    /// Where more events come from, if the run goes on.
    pub live: Option<String>,
    /// How long ago the log was written, of a run that may go on.
    pub age_s: Option<f64>,
    /// How many lines of the log are in `events`.
    line: u64,
    run_file: Option<String>,
    state: Value,
    /// The command that goes on with it.
    resume: Option<String>,
    events: Vec<Value>,
}

impl PageRun {
    /// The run of a folder, as far as it is there.
    pub(crate) fn read(folder: &Path, label: String) -> Result<Self> {
        let ThinLog { lines, broken, mut events } = ThinLog::read(&folder.join("events.jsonl"))?;
        if broken > 0 {
            let said =
                if broken == 1 { "a line of the log is" } else { &format!("{broken} lines of the log are") };
            let message = format!("{said} broken and left out");
            let at_s = events.last().and_then(|event| event[1].as_f64()).unwrap_or_default();
            events.extend(encode(&Stamped { at_s, event: Event::Noted { message } }));
        }
        let state = fs::read(folder.join("state.json")).unwrap_or_default();
        let mut state: Value = serde_json::from_slice(&state).unwrap_or_default();
        let run_file = fs::read_to_string(folder.join("run.yml")).ok();
        // The log of a run on other machines is here for a while, and its folder is not.
        let is_here = run_file.is_some();
        let resume = is_here.then(|| resume(folder, &state));
        hide_secrets(&mut state);
        Ok(Self {
            label,
            folder: if is_here { folder.display().to_string() } else { String::new() },
            live: None,
            age_s: None,
            line: lines,
            run_file,
            resume,
            state,
            events,
        })
    }
}

fn resume(folder: &Path, state: &Value) -> String {
    let was = |command: &str| state["command"].get(1).is_some_and(|word| word == command);
    let command = if was("head") { "head" } else { "train" };
    let path = folder.display().to_string();
    let is_plain = path.chars().all(|letter| letter.is_ascii_alphanumeric() || "/._-+:,@".contains(letter));
    let path = if is_plain { path } else { format!("'{}'", path.replace('\'', r"'\''")) };
    format!("bonfire {command} --resume {path}")
}

/// A page is shown to others: what follows `--secret` on the command line is not for them.
fn hide_secrets(state: &mut Value) {
    let Some(words) = state.get_mut("command").and_then(Value::as_array_mut) else { return };
    for i in 0..words.len() {
        let word = words[i].as_str().unwrap_or_default().to_owned();
        let is_ticket = word.starts_with("bonfire://");
        if i > 0 && words[i - 1] == "--secret" || is_ticket {
            words[i] = "…".into();
        } else if word.starts_with("--secret=") {
            words[i] = "--secret=…".into();
        }
    }
}

/// What a page is told.
#[derive(Debug, Serialize)]
pub(crate) struct PageData {
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub runs: Vec<PageRun>,
    /// Of a folder of runs, instead of runs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub list: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub folder: Option<String>,
    /// Where the list of all runs is, if there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub home: Option<String>,
}

/// Makes the page.
pub(crate) fn document(data: &PageData, title: &str) -> String {
    let (style, script) = (unpacked(STYLE), unpacked(SCRIPT));
    // No text may end the element that it is in.
    let data = serde_json::to_string(data).unwrap_or_default().replace('<', "\\u003c");
    let parts = [
        ("policy", policy(&style, &script)),
        ("title", escaped(title)),
        ("style", style),
        ("data", data),
        ("script", script),
    ];
    fill(TEMPLATE, &parts)
}

fn unpacked(packed: &[u8]) -> String {
    let mut text = String::new();
    DeflateDecoder::new(packed).read_to_string(&mut text).expect("what build.rs packed");
    text
}

/// Only what is in the page may run, and it may ask only where it comes from.
fn policy(style: &str, script: &str) -> String {
    let hash = |text: &str| base64(&Sha256::digest(text));
    format!(
        "default-src 'none'; script-src 'sha256-{}'; style-src 'sha256-{}'; img-src data:; connect-src 'self'; \
         base-uri 'none'; form-action 'none'",
        hash(script),
        hash(style)
    )
}

/// Each `{{name}}` of the template becomes a part, and what is in the parts stays as it is.
fn fill(template: &str, parts: &[(&str, String)]) -> String {
    let mut filled = String::new();
    let mut rest = template;
    while let Some((before, after)) = rest.split_once("{{") {
        let (name, after) = after.split_once("}}").unwrap_or((after, ""));
        filled.push_str(before);
        let part = parts.iter().find(|(part, _)| *part == name);
        filled.push_str(part.map_or("", |(_, text)| text));
        rest = after;
    }
    filled + rest
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

fn base64(bytes: &[u8]) -> String {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::new();
    for group in bytes.chunks(3) {
        let bits =
            group.iter().fold(0_u32, |bits, &byte| bits << 8 | u32::from(byte)) << (8 * (3 - group.len()));
        for place in 0..4 {
            let letter = char::from(LETTERS[(bits >> (18 - 6 * place)) as usize & 63]);
            text.push(if place <= group.len() { letter } else { '=' });
        }
    }
    text
}

/// What a folder is called among others: its name, or more of its path where names are the same.
pub(crate) fn labels(folders: &[PathBuf]) -> Vec<String> {
    let tail = |folder: &PathBuf, parts: usize| {
        let parts: Vec<_> = folder.iter().rev().take(parts).map(|part| part.to_string_lossy()).collect();
        parts.into_iter().rev().collect::<Vec<_>>().join("/")
    };
    let name = |folder: &PathBuf| {
        let is_alone =
            |parts| folders.iter().filter(|other| tail(other, parts) == tail(folder, parts)).count() == 1;
        let parts = (1..=folder.iter().count()).find(|&parts| is_alone(parts));
        tail(folder, parts.unwrap_or(usize::MAX))
    };
    folders.iter().map(name).collect()
}

/// One page of the runs of these folders.
///
/// # Errors
/// When a log cannot be read.
pub fn report_page(folders: &[PathBuf]) -> Result<String> {
    let labels = labels(folders);
    let runs = folders.iter().zip(&labels).map(|(folder, label)| PageRun::read(folder, label.clone()));
    let runs = runs.collect::<Result<Vec<_>>>()?;
    let title = if let [label] = &labels[..] { label.clone() } else { format!("{} runs", labels.len()) };
    Ok(document(&PageData { runs, list: None, folder: None, home: None }, &title))
}

/// Writes the page of a run into its folder.
///
/// # Errors
/// When the log cannot be read or the page not be written.
pub fn write_report(folder: &RunFolder) -> Result<()> {
    let page = report_page(&[folder.path().to_owned()])?;
    write_atomically(&folder.report(), page.as_bytes())
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::*;
    use crate::event::Stamped;
    use crate::log::Log;
    use crate::sample;

    #[test]
    fn text_is_base64() {
        for (text, expect) in
            [("", ""), ("f", "Zg=="), ("fo", "Zm8="), ("foo", "Zm9v"), ("foobar", "Zm9vYmFy")]
        {
            assert_eq!(base64(text.as_bytes()), expect);
        }
    }

    #[test]
    fn the_vendored_files_are_those_of_npm() {
        let readme = include_str!("../page/uplot/README.md");
        for (name, text) in [
            ("uPlot.iife.min.js", include_str!("../page/uplot/uPlot.iife.min.js")),
            ("uPlot.min.css", include_str!("../page/uplot/uPlot.min.css")),
        ] {
            let digest: String = Sha256::digest(text).iter().map(|byte| format!("{byte:02x}")).collect();
            assert!(readme.contains(&format!("{digest}  {name}")), "{name} has the checksum {digest}");
        }
    }

    #[test]
    fn our_own_script_is_short() {
        let (style, script) = (unpacked(STYLE), unpacked(SCRIPT));
        let lines = script.lines().count() - include_str!("../page/uplot/uPlot.iife.min.js").lines().count();
        assert!(lines < 1000, "{lines} lines");
        assert!(!script.contains("</script"));
        assert!(!style.contains("</style") && !style.contains("url("));
    }

    #[test]
    fn nothing_in_a_log_gets_out_of_its_element() {
        let temp = tempfile::tempdir().unwrap();
        let folder = RunFolder::create(&temp.path().join("<b>{{script}}")).unwrap();
        let started = Instant::now();
        let mut log = Log::open(&folder, started, Vec::new()).unwrap();
        let message = "</script><script>alert(1)</script>{{policy}}".to_owned();
        log.record(started, Event::Warned { message });
        let page = report_page(&[folder.path().to_owned()]).unwrap();
        assert_eq!(page.matches("</script>").count(), 2, "that of the data and that of the script");
        assert_eq!(page.matches("<script").count(), 2);
        assert!(page.contains("{{policy}}") && page.contains("&lt;b&gt;{{script}}"));
    }

    #[test]
    fn a_page_is_small() {
        let temp = tempfile::tempdir().unwrap();
        let folder = RunFolder::create(&temp.path().join("run")).unwrap();
        let started = Instant::now();
        let mut log = Log::open(&folder, started, Vec::new()).unwrap();
        sample::events().into_iter().for_each(|event| log.record(started, event));
        let (bare, points) = (report_page(&[folder.path().to_owned()]).unwrap(), 10_000);
        for round in 1..=points {
            log.record(started + Duration::from_millis(round), sample::progress(round));
        }
        let page = report_page(&[folder.path().to_owned()]).unwrap();
        let shown = ThinLog::read(&folder.events()).unwrap().events.len();
        assert!(bare.len() <= 150_000, "{} bytes without points", bare.len());
        // An event of progress is four points.
        assert!(page.len() <= 150_000 + 40 * 4 * shown, "{} bytes for {shown} events", page.len());
    }

    #[test]
    fn runs_of_the_same_name_are_told_apart() {
        let check = |folders: &[&str], expect: &[&str]| {
            let folders: Vec<PathBuf> = folders.iter().map(PathBuf::from).collect();
            assert_eq!(labels(&folders), expect);
        };
        check(&["runs/a", "runs/b"], &["a", "b"]);
        check(&["one/a", "two/a", "two/b"], &["one/a", "two/a", "b"]);
    }

    #[test]
    fn secrets_of_the_command_line_are_not_shown() {
        let mut state =
            serde_json::json!({"command": ["bonfire", "train", "--secret", "a", "--secret=b", "x"]});
        hide_secrets(&mut state);
        assert_eq!(
            state["command"],
            serde_json::json!(["bonfire", "train", "--secret", "…", "--secret=…", "x"])
        );
    }

    #[test]
    fn live_lines_are_those_of_the_report() {
        let stamped = Stamped { at_s: 1.0, event: sample::progress(3) };
        assert_eq!(ThinLog::of([stamped.clone()]).events, [encode(&stamped).unwrap()]);
    }
}

use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::sync::{Mutex, TryLockError};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use bonfire_report::http::{Answer, HttpServer, Method, Reply, Request, Site};
use bonfire_run::predict::{Prediction, Predictor};
use serde_json::{Value, json};

use super::page_args::{listen, token};
use super::stop_on_ctrl_c;
use crate::terminal::print;

/// Answer over HTTP what a trained model says about inputs that have no label.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "POST /predict answers with a list of what `bonfire predict --json` prints. A body of JSON \
                  (Content-Type: application/json) is one input or a list of them: texts, sentences, or rows, which \
                  may be lists of numbers. Any other body is one input a line; for a model of images it is a PNG or \
                  JPEG. GET / says what the model takes. What cannot be read is answered with 400 and the reason. Off \
                  this machine the address has a secret in it, which is printed. Ctrl-C ends it.\n\n\
                  Examples:\n  bonfire serve runs/tagger\n  \
                  curl --json '[\"The old dog barks.\"]' http://127.0.0.1:4790/predict\n  \
                  curl --data-binary @cat.jpg http://127.0.0.1:4790/predict"
)]
pub(crate) struct ServeArgs {
    /// The folder of the run
    run_dir: PathBuf,
    /// Where [default: 127.0.0.1:4790, or a free port]
    #[arg(long, value_name = "ADDRESS:PORT")]
    listen: Option<String>,
    /// The checkpoint of this round [default: the one that did best on the test data]
    #[arg(long, value_name = "N")]
    round: Option<u64>,
}

const USUAL: &str = "127.0.0.1:4790";

/// No request has more inputs.
const MOST_INPUTS: usize = 4096;

/// How long a request waits for those before it.
const TURN: Duration = Duration::from_secs(30);

pub(crate) fn run(args: &ServeArgs) -> Result<()> {
    let listener = listen("--listen", args.listen.as_deref().unwrap_or_default(), USUAL)?;
    let predictor = Predictor::open(&args.run_dir, args.round)?;
    let token = token(&listener)?;
    let oracle = Oracle { about: about(&predictor).to_string(), predictor: Mutex::new(predictor) };
    let server = HttpServer::start(listener, oracle, token).context("cannot serve")?;
    print(&server.url())?;
    let stop = stop_on_ctrl_c()?;
    while !stop.load(Ordering::Relaxed) {
        thread::sleep(Duration::from_millis(100));
    }
    Ok(())
}

fn about(predictor: &Predictor) -> Value {
    json!({
        "model": predictor.model(),
        "round": predictor.round,
        "takes": predictor.takes(),
        "classes": predictor.classes_by_name(),
        "predict": "POST predict",
    })
}

/// A model that is asked by many, one at a time: all its threads compute for one request.
struct Oracle {
    about: String,
    predictor: Mutex<Predictor>,
}

impl Site for Oracle {
    /// A photograph, or the reviews of a shop.
    const MOST_BODY: usize = 16 << 20;

    fn reply(&self, path: &str, request: &Request) -> Reply {
        Reply::Answer(match (path, request.method) {
            ("", Method::Get | Method::Head) => Answer::json(self.about.clone()),
            ("predict", Method::Post) => self.predictions(request),
            ("", _) | ("predict", _) => Answer::none("405 Method Not Allowed"),
            _ => Answer::none("404 Not Found"),
        })
    }
}

impl Oracle {
    fn predictions(&self, request: &Request) -> Answer {
        let until = Instant::now() + TURN;
        let mut predictor = loop {
            match self.predictor.try_lock() {
                Ok(predictor) => break predictor,
                // Whatever broke down, the parameters and the form of the data are never changed.
                Err(TryLockError::Poisoned(broken)) => break broken.into_inner(),
                Err(TryLockError::WouldBlock) if Instant::now() > until => {
                    return refusal("503 Service Unavailable", "too many requests are before this one");
                }
                Err(TryLockError::WouldBlock) => thread::sleep(Duration::from_millis(1)),
            }
        };
        match answered(&mut predictor, request) {
            Ok(found) => match serde_json::to_string(&found) {
                Ok(body) => Answer::json(body),
                Err(error) => refusal("500 Internal Server Error", &error.to_string()),
            },
            Err(error) => refusal("400 Bad Request", &format!("{error:#}")),
        }
    }
}

fn refusal(status: &'static str, reason: &str) -> Answer {
    Answer { status, kind: "application/json", body: json!({ "error": reason }).to_string() }
}

fn answered(predictor: &mut Predictor, request: &Request) -> Result<Vec<Prediction>> {
    ensure!(!request.body.is_empty(), "the body is empty: it has to be the input");
    if predictor.takes_images() {
        let name = request.values("name").into_iter().next();
        return predictor.image(&name.unwrap_or_else(|| "image".to_owned()), &request.body);
    }
    let lines = if request.kind == "application/json" {
        let value: Value = serde_json::from_slice(&request.body).context("the body is not JSON")?;
        inputs(&value)?
    } else {
        let text = std::str::from_utf8(&request.body).context("the body is not UTF-8")?;
        text.lines().filter(|line| !line.trim().is_empty()).map(str::to_owned).collect()
    };
    ensure!(!lines.is_empty(), "the body has no input");
    ensure!(lines.len() <= MOST_INPUTS, "{} inputs are too many: at most {MOST_INPUTS}", lines.len());
    predictor.lines(&lines)
}

/// One input, or a list of them.
fn inputs(value: &Value) -> Result<Vec<String>> {
    match value {
        Value::Array(items) if items.iter().all(Value::is_number) => Ok(vec![input(value)?]),
        Value::Array(items) => items.iter().map(input).collect(),
        one => Ok(vec![input(one)?]),
    }
}

/// A text, or a row as a list of numbers.
fn input(value: &Value) -> Result<String> {
    match value {
        Value::String(text) => Ok(text.replace(['\n', '\r'], " ")),
        Value::Array(row) if !row.is_empty() && row.iter().all(Value::is_number) => {
            Ok(row.iter().map(Value::to_string).collect::<Vec<_>>().join(","))
        }
        other => bail!("an input is a text, or a list of numbers, not {other}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_input_or_a_list_of_them() {
        let check = |body: &str, expect: std::result::Result<&[&str], &str>| {
            let found = inputs(&serde_json::from_str(body).unwrap());
            match (found, expect) {
                (Ok(found), Ok(expect)) => assert_eq!(found, expect, "{body}"),
                (Err(found), Err(expect)) => assert!(found.to_string().contains(expect), "{body}: {found}"),
                (found, expect) => panic!("{body}: {found:?}, expected {expect:?}"),
            }
        };
        check(r#""The dog.""#, Ok(&["The dog."]));
        check(r#"["The dog.", "A\ncat"]"#, Ok(&["The dog.", "A cat"]));
        check("[1, 2.5]", Ok(&["1,2.5"]));
        check("[[1, 2.5], [3, 4]]", Ok(&["1,2.5", "3,4"]));
        check(r#"[[1, 2.5], "3,4"]"#, Ok(&["1,2.5", "3,4"]));
        check("[]", Err("not []"));
        check(r#"{"text": "The dog."}"#, Err("an input is a text"));
        check("[null]", Err("not null"));
        check("[[1, true]]", Err("not [1,true]"));
    }
}

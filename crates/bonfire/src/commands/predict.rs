use std::io::{BufRead, Read};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use bonfire_report::number;
use bonfire_run::predict::{Prediction, Predictor};

use crate::terminal::print;

/// Say what a trained model says about inputs that have no label.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Sentences get a tag for each word, texts and rows a class, images (PNG, JPEG, IDX) too. An input is \
                  itself, or a file of them, one a line; without any, stdin is read.\n\n\
                  Examples:\n  bonfire predict runs/tagger \"The old dog barks.\"\n  \
                  bonfire predict runs/photos cat.jpg dog.png --json\n  \
                  bonfire predict runs/reviews < texts.txt"
)]
pub(crate) struct PredictArgs {
    /// The folder of the run
    run_dir: PathBuf,
    /// Texts, sentences, rows of numbers between commas, or files of them; files of images
    input: Vec<String>,
    /// The checkpoint of this round [default: the one that did best on the test data]
    #[arg(long, value_name = "N")]
    round: Option<u64>,
    /// Print a line of JSON for every input
    #[arg(long)]
    json: bool,
}

/// No file of texts is larger.
const MOST_BYTES: u64 = 1 << 30;

pub(crate) fn run(args: &PredictArgs) -> Result<()> {
    let mut predictor = Predictor::open(&args.run_dir, args.round)?;
    if args.input.is_empty() || args.input == ["-"] {
        ensure!(!predictor.takes_images(), "the model is for images: give files (PNG, JPEG or IDX)");
        return from_stdin(&mut predictor, args.json);
    }
    for input in &args.input {
        let path = Path::new(input);
        let found = if predictor.takes_images() {
            predictor.image_file(path)?
        } else if path.is_file() {
            predictor.lines(&read_lines(path)?).with_context(|| format!("{}", path.display()))?
        } else {
            predictor.lines(std::slice::from_ref(input))?
        };
        tell(&found, args.json)?;
    }
    Ok(())
}

/// Line by line, so that whoever writes one gets an answer to it.
fn from_stdin(predictor: &mut Predictor, json: bool) -> Result<()> {
    for line in std::io::stdin().lock().lines() {
        let line = line.context("stdin cannot be read")?;
        if !line.trim().is_empty() {
            tell(&predictor.lines(&[line])?, json)?;
        }
    }
    Ok(())
}

/// The lines of a file that are not empty.
fn read_lines(path: &Path) -> Result<Vec<String>> {
    let mut text = String::new();
    let file = std::fs::File::open(path).with_context(|| format!("{}", path.display()))?;
    file.take(MOST_BYTES).read_to_string(&mut text).with_context(|| format!("{}", path.display()))?;
    Ok(text.lines().filter(|line| !line.trim().is_empty()).map(str::to_owned).collect())
}

fn tell(predictions: &[Prediction], json: bool) -> Result<()> {
    for prediction in predictions {
        print(&if json { serde_json::to_string(prediction)? } else { in_words(prediction) })?;
    }
    Ok(())
}

fn in_words(prediction: &Prediction) -> String {
    match prediction {
        Prediction::Class { input, label, probability, .. } => {
            format!("{label}  {}  {input}", number::percent(f64::from(*probability)))
        }
        Prediction::Value { input, value } => format!("{value}  {input}"),
        Prediction::Tags { words, tags, .. } => {
            let pairs: Vec<String> =
                words.iter().zip(tags).map(|(word, tag)| format!("{word}/{tag}")).collect();
            pairs.join(" ")
        }
    }
}

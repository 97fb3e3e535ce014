//! What a trained model says about samples that have no label.

use std::path::Path;

use anyhow::{Context, Result, anyhow, bail, ensure};
use bonfire_data::{Dataset, Samples};
use bonfire_learn::layer_list::{Head, LayerPlan};
use bonfire_learn::{Batch, Model, Shape};
use bonfire_report::RunFolder;
use serde::Serialize;

use crate::interchange;
use crate::job;
use crate::run_file::Settings;

/// A model with the parameters of a checkpoint, and the form of the data that it was trained on.
#[expect(missing_debug_implementations, reason = "holds a model")]
pub struct Predictor {
    settings: Settings,
    /// Without its samples.
    form: Dataset,
    plan: LayerPlan,
    model: Box<dyn Model>,
    parameters: Vec<f32>,
    /// The round of the checkpoint.
    pub round: u64,
}

/// What is said about one input.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(untagged)]
pub enum Prediction {
    /// Of an image, a text or a row.
    Class {
        input: String,
        label: String,
        probability: f32,
        /// Of every class, in their order, before softmax; one if it decides between two.
        scores: Vec<f32>,
    },
    /// Of a row, where a number was learned.
    Value { input: String, value: f32 },
    /// Of a sentence.
    Tags { input: String, words: Vec<String>, tags: Vec<String>, probabilities: Vec<f32> },
}

/// So many samples are computed at a time.
const BATCH: usize = 64;

/// The most words of a sentence that a tagger reads.
const MOST_WORDS: usize = 10_000;

impl Predictor {
    /// Loads the best checkpoint of a run, or that of a round, and what the run file says of its data.
    pub fn open(run_dir: &Path, round: Option<u64>) -> Result<Self> {
        let folder = RunFolder::open(run_dir)?;
        let settings = Settings::of_run(&folder, 1)?;
        let (form, plan) = job::form(&settings)?;
        let model = plan.build();
        let (round, parameters) =
            interchange::parameters(&folder, round, model.layout(), settings.file.model.name())?;
        Ok(Self { settings, form, plan, model, parameters, round })
    }

    /// Whether inputs are files of images, and not texts or rows.
    pub fn takes_images(&self) -> bool {
        self.takes() == "images"
    }

    /// What the model says about the images of a file: PNG, JPEG or IDX.
    pub fn image_file(&mut self, path: &Path) -> Result<Vec<Prediction>> {
        let samples = self.form.image_file(path)?;
        let name = |i: usize| match samples.len() {
            1 => path.display().to_string(),
            _ => format!("{}[{i}]", path.display()),
        };
        Ok(self.classes(&samples, &(0..samples.len()).map(name).collect::<Vec<_>>()))
    }

    /// What the model says about an image, PNG or JPEG, under a name.
    pub fn image(&mut self, name: &str, bytes: &[u8]) -> Result<Vec<Prediction>> {
        let samples = self.form.image(bytes).map_err(|message| anyhow!("{name}: {message}"))?;
        Ok(self.classes(&samples, &[name.to_owned()]))
    }

    /// What inputs are: images, rows, texts or sentences.
    pub fn takes(&self) -> &'static str {
        match self.form.shape {
            Shape::Texts { .. } => "texts",
            Shape::Tagging { .. } => "sentences",
            Shape::Images { height: 1, width: 1, .. } => "rows",
            Shape::Images { .. } => "images",
        }
    }

    /// What the model tells apart.
    pub fn classes_by_name(&self) -> &[String] {
        &self.form.classes
    }

    /// The name of the model.
    pub fn model(&self) -> &str {
        self.settings.file.model.name()
    }

    /// What the model says about lines: texts, sentences, or rows of numbers between commas.
    pub fn lines(&mut self, lines: &[String]) -> Result<Vec<Prediction>> {
        match self.form.shape {
            Shape::Texts { .. } => {
                let samples = self.form.texts(&self.settings.file.data, lines)?;
                Ok(self.classes(&samples, lines))
            }
            Shape::Tagging { .. } => self.sentences(lines),
            Shape::Images { height: 1, width: 1, .. } => {
                let rows = lines.iter().map(|line| row(line)).collect::<Result<Vec<_>>>()?;
                let samples = self.form.rows(&rows)?;
                Ok(self.classes(&samples, lines))
            }
            Shape::Images { .. } => bail!("the model is for images: give files (PNG, JPEG or IDX)"),
        }
    }

    fn sentences(&mut self, lines: &[String]) -> Result<Vec<Prediction>> {
        let sentences: Vec<Vec<String>> = lines.iter().map(|line| words(line)).collect();
        ensure!(
            sentences.iter().all(|words| words.len() <= MOST_WORDS),
            "a sentence has over {MOST_WORDS} words"
        );
        let samples = self.form.sentences(&self.settings.file.data, &sentences);
        let mut found = Vec::new();
        for (part, batch) in self.batches(&samples).into_iter().enumerate() {
            let (rows, width) = self.scores(&batch);
            for (b, words) in sentences[part * BATCH..].iter().take(batch.samples).enumerate() {
                // Words lie time first.
                let answer = |t: usize| {
                    let at = (t * batch.samples + b) * width;
                    self.answer(&rows[at..at + width])
                };
                let (tags, probabilities) = (0..words.len()).map(answer).unzip();
                let input = lines[part * BATCH + b].clone();
                found.push(Prediction::Tags { input, words: words.clone(), tags, probabilities });
            }
        }
        Ok(found)
    }

    fn classes(&mut self, samples: &Samples, inputs: &[String]) -> Vec<Prediction> {
        let mut found = Vec::new();
        for batch in self.batches(samples) {
            let (rows, width) = self.scores(&batch);
            for row in rows.chunks_exact(width) {
                let input = inputs[found.len()].clone();
                if let Head::SquaredError = self.plan.head {
                    found.push(Prediction::Value { input, value: row[0] });
                    continue;
                }
                let (label, probability) = self.answer(row);
                found.push(Prediction::Class { input, label, probability, scores: row.to_vec() });
            }
        }
        found
    }

    fn batches(&self, samples: &Samples) -> Vec<Batch> {
        let numbers: Vec<u32> = (0..samples.len() as u32).collect();
        let batch = |numbers: &[u32]| {
            let mut batch = Batch::default();
            samples.fill(&mut batch, numbers);
            batch
        };
        numbers.chunks(BATCH).map(batch).collect()
    }

    /// The scores of a batch, and how many each answer has.
    fn scores(&mut self, batch: &Batch) -> (Vec<f32>, usize) {
        let mut scores = Vec::new();
        self.model.scores(&self.parameters, batch, &mut scores);
        let width = scores.len() / batch.targets.len().max(1);
        (scores, width.max(1))
    }

    /// The likeliest class of some scores, and how likely it is.
    fn answer(&self, scores: &[f32]) -> (String, f32) {
        let classes = &self.form.classes;
        if let Head::Binary { positive_from, .. } = self.plan.head {
            let positive = 1.0 / (1.0 + (-f64::from(scores[0])).exp());
            let is_positive = scores[0] >= 0.0;
            let (from, to) = (positive_from as usize, classes.len());
            let range = if is_positive { from..to } else { 0..from };
            let label = match &classes[range] {
                [one] => one.clone(),
                [first, .., last] => format!("{first} to {last}"),
                [] => String::new(),
            };
            return (label, if is_positive { positive } else { 1.0 - positive } as f32);
        }
        let best = (0..scores.len()).rev().max_by(|&a, &b| scores[a].total_cmp(&scores[b])).unwrap_or(0);
        let sum: f64 = scores.iter().map(|score| f64::from(score - scores[best]).exp()).sum();
        (classes.get(best).cloned().unwrap_or_else(|| best.to_string()), (1.0 / sum) as f32)
    }
}

/// The numbers of a row.
fn row(line: &str) -> Result<Vec<f32>> {
    let cell = |cell: &str| {
        let number: Option<f32> = cell.trim().parse().ok();
        number.filter(|number| number.is_finite()).with_context(|| format!("{cell:?} is not a number"))
    };
    line.split([',', ';', '\t']).map(cell).collect()
}

/// A sentence as treebanks cut it, nearly: signs around words are words of their own.
fn words(line: &str) -> Vec<String> {
    let mut words = Vec::new();
    for piece in line.split_whitespace() {
        let is_sign = |letter: char| !letter.is_alphanumeric();
        let word = piece.trim_matches(is_sign);
        if word.is_empty() {
            words.push(piece.to_owned());
            continue;
        }
        let start = piece.len() - piece.trim_start_matches(is_sign).len();
        words.extend(piece[..start].chars().map(String::from));
        words.push(word.to_owned());
        words.extend(piece[start + word.len()..].chars().map(String::from));
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sentences_are_cut_into_words() {
        let check = |line: &str, expect: &[&str]| assert_eq!(words(line), expect, "{line}");
        check("The dog barks.", &["The", "dog", "barks", "."]);
        check("(Yes), he said!", &["(", "Yes", ")", ",", "he", "said", "!"]);
        check("it's 3.5 - or ...", &["it's", "3.5", "-", "or", "..."]);
        check("  ", &[]);
    }

    #[test]
    fn rows_are_numbers() {
        assert_eq!(row("1, 2.5;-3").expect("a row"), [1.0, 2.5, -3.0]);
        assert!(row("1,x").is_err());
        assert!(row("1,inf").is_err());
    }
}

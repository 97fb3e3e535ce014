use anyhow::{Result, anyhow};
use bonfire_data::prepare::{Counted, Other, RatingScale, Rules};

/// What decides about the result. The command and all filters have it, so that one list of options goes to each.
#[derive(Debug, clap::Args)]
pub(crate) struct RuleArgs {
    /// The key or column of the text [default: reviewText, text or review_body]
    #[arg(long, value_name = "KEY")]
    text: Option<String>,
    /// The key or column of the rating [default: overall, stars, rating or star_rating]
    #[arg(long, value_name = "KEY")]
    label: Option<String>,
    /// The whole numbers that ratings are: 1-5 or 0-1
    #[arg(long, value_name = "RANGE", default_value = "1-5", value_parser = scale)]
    ratings: RatingScale,
    /// What becomes of characters that are no letter, apostrophe or space: delete or space
    #[arg(long, value_name = "WHAT", default_value = "delete", value_parser = other)]
    other: Other,
    /// Words to leave out: english, none, or a file with a word a line
    #[arg(long, value_name = "WORDS", default_value = "english")]
    stop_words: String,
    /// Another seed makes other parts
    #[arg(long, value_name = "S", default_value_t = Rules::default().seed)]
    seed: u64,
    /// The share of texts to test on
    #[arg(long, value_name = "SHARE", default_value_t = Rules::default().test)]
    test: f64,
    /// The share of texts to validate on
    #[arg(long, value_name = "SHARE", default_value_t = Rules::default().validation)]
    validation: f64,
    /// The texts whose words are counted: train or all
    #[arg(long, value_name = "WHICH", default_value = "train", value_parser = counted)]
    vocabulary: Counted,
    /// At most so many words have numbers
    #[arg(long, value_name = "N", default_value_t = Rules::default().words)]
    words: usize,
    /// How many words of a text are kept; shorter ones are filled up
    #[arg(long, value_name = "N", default_value_t = Rules::default().length)]
    length: usize,
    /// 2: up to three stars are 0, four and five are 1 [default: stars as they are]
    #[arg(long, value_name = "N")]
    classes: Option<u8>,
}

impl RuleArgs {
    pub(crate) fn rules(&self) -> Rules {
        Rules {
            text: self.text.clone(),
            label: self.label.clone(),
            ratings: self.ratings,
            other: self.other,
            stop_words: self.stop_words.clone(),
            seed: self.seed,
            test: self.test,
            validation: self.validation,
            vocabulary: self.vocabulary,
            words: self.words,
            length: self.length,
            classes: self.classes,
        }
    }
}

fn other(name: &str) -> Result<Other> {
    match name {
        "delete" => Ok(Other::Delete),
        "space" => Ok(Other::Space),
        _ => Err(anyhow!("expected delete or space")),
    }
}

fn scale(name: &str) -> Result<RatingScale> {
    match name {
        "1-5" => Ok(RatingScale::Stars),
        "0-1" => Ok(RatingScale::Classes),
        _ => Err(anyhow!("expected 1-5 or 0-1")),
    }
}

fn counted(name: &str) -> Result<Counted> {
    match name {
        "train" => Ok(Counted::Train),
        "all" => Ok(Counted::All),
        _ => Err(anyhow!("expected train or all")),
    }
}

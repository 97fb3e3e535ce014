use anyhow::{Result, anyhow};
use bonfire_data::prepare::{Counted, Other, RatingScale, Rules};

/// How rows are read, and texts cleaned.
#[derive(Debug, clap::Args)]
pub(crate) struct ReadArgs {
    /// The key or column of the text [default: reviewText, text or review_body]
    #[arg(long, value_name = "KEY")]
    text: Option<String>,
    /// The key or column of the rating [default: overall, stars, rating or star_rating]
    #[arg(long, value_name = "KEY")]
    label: Option<String>,
    #[command(flatten)]
    scale: ScaleArgs,
    /// What becomes of characters that are no letter, apostrophe or space: delete or space
    #[arg(long, value_name = "WHAT", default_value = "delete", value_parser = other)]
    other: Other,
    /// Words to leave out: english, none, or a file with a word a line
    #[arg(long, value_name = "WORDS", default_value = "english")]
    stop_words: String,
}

/// What ratings there are.
#[derive(Debug, clap::Args)]
pub(crate) struct ScaleArgs {
    /// The whole numbers that ratings are: 1-5 or 0-1
    #[arg(long, value_name = "RANGE", default_value = "1-5", value_parser = scale)]
    ratings: RatingScale,
}

/// Which texts belong to which part.
#[derive(Debug, clap::Args)]
pub(crate) struct SplitArgs {
    /// Another seed makes other parts
    #[arg(long, value_name = "S", default_value_t = Rules::default().seed)]
    seed: u64,
    /// The share of texts to test on
    #[arg(long, value_name = "SHARE", default_value_t = Rules::default().test)]
    test: f64,
    /// The share of texts to validate on
    #[arg(long, value_name = "SHARE", default_value_t = Rules::default().validation)]
    validation: f64,
}

/// How texts are numbered.
#[derive(Debug, clap::Args)]
pub(crate) struct NumberArgs {
    /// How many words of a text are kept; shorter ones are filled up
    #[arg(long, value_name = "N", default_value_t = Rules::default().length)]
    length: usize,
    /// 2: up to three stars are 0, four and five are 1 [default: stars as they are]
    #[arg(long, value_name = "N")]
    classes: Option<u8>,
}

impl ReadArgs {
    pub(crate) fn over(&self, rules: Rules) -> Rules {
        let (text, label, stop_words) = (self.text.clone(), self.label.clone(), self.stop_words.clone());
        self.scale.over(Rules { text, label, stop_words, other: self.other, ..rules })
    }
}

impl ScaleArgs {
    pub(crate) fn over(&self, rules: Rules) -> Rules {
        Rules { ratings: self.ratings, ..rules }
    }
}

impl SplitArgs {
    pub(crate) fn over(&self, rules: Rules) -> Rules {
        Rules { seed: self.seed, test: self.test, validation: self.validation, ..rules }
    }
}

impl NumberArgs {
    pub(crate) fn over(&self, rules: Rules) -> Rules {
        Rules { length: self.length, classes: self.classes, ..rules }
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

pub(crate) fn counted(name: &str) -> Result<Counted> {
    match name {
        "train" => Ok(Counted::Train),
        "all" => Ok(Counted::All),
        _ => Err(anyhow!("expected train or all")),
    }
}

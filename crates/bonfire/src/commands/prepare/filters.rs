use std::io::{BufReader, BufWriter, ErrorKind, stdin, stdout};
use std::path::PathBuf;

use anyhow::{Error, Result, anyhow};
use bonfire_data::prepare::{Part, filter};
use bonfire_report::number;

use super::rule_args::RuleArgs;
use crate::terminal::{ReaderGone, say};

/// A step that reads stdin and writes stdout, a key and a tab before each value.
#[derive(Debug, clap::Subcommand)]
pub(crate) enum FilterCommand {
    /// JSON lines → cleaned text, tab, rating
    Map(MapArgs),
    /// Sorted lines of map → every text once, with the mode of its ratings
    Reduce(ReduceArgs),
    /// Lines of reduce → word, tab, count; with --sum: sorted counts → the most frequent words, one a line
    Count(CountArgs),
    /// Lines of reduce → part, tab, JSON with the numbers of words; with --part: the JSON of one part
    Encode(EncodeArgs),
}

#[derive(Debug, clap::Args)]
pub(crate) struct MapArgs {
    #[command(flatten)]
    rules: RuleArgs,
    /// End at the first bad line instead of leaving it out
    #[arg(long)]
    strict: bool,
}

#[derive(Debug, clap::Args)]
pub(crate) struct ReduceArgs {
    #[command(flatten)]
    rules: RuleArgs,
}

#[derive(Debug, clap::Args)]
pub(crate) struct CountArgs {
    #[command(flatten)]
    rules: RuleArgs,
    /// Add up counts, and write the most frequent words
    #[arg(long)]
    sum: bool,
}

#[derive(Debug, clap::Args)]
pub(crate) struct EncodeArgs {
    #[command(flatten)]
    rules: RuleArgs,
    /// The words that have numbers, one a line, as count --sum writes them
    #[arg(long, value_name = "FILE")]
    vocabulary_file: PathBuf,
    /// Write only this part: train, validation or test
    #[arg(long, value_name = "PART", value_parser = part)]
    part: Option<Part>,
}

pub(crate) fn run(command: FilterCommand) -> Result<()> {
    let input = BufReader::with_capacity(1 << 18, stdin().lock());
    let out = BufWriter::with_capacity(1 << 18, stdout().lock());
    let done = match command {
        FilterCommand::Map(MapArgs { rules, strict }) => {
            filter::map(&rules.rules(), strict, input, out).map(|counts| tell(&counts))
        }
        FilterCommand::Reduce(ReduceArgs { rules }) => filter::reduce(&rules.rules(), input, out),
        FilterCommand::Count(CountArgs { rules, sum: true }) => filter::sum(&rules.rules(), input, out),
        FilterCommand::Count(CountArgs { rules, sum: false }) => filter::count(&rules.rules(), input, out),
        FilterCommand::Encode(EncodeArgs { rules, vocabulary_file, part }) => {
            filter::encode(&rules.rules(), &vocabulary_file, part, input, out)
        }
    };
    done.map_err(|error| match error.system() {
        Some(said) if said.kind() == ErrorKind::BrokenPipe => Error::new(ReaderGone),
        _ => Error::new(error),
    })
}

/// On stderr: what is written to stdout is for the next filter.
fn tell(counts: &filter::MapCounts) {
    let filter::MapCounts { read, bad, empty, first_bad } = counts;
    let count = |value: &u64| number::count(*value);
    let first =
        first_bad.as_ref().map_or(String::new(), |(line, reason)| format!("; stdin:{line}: {reason}"));
    say(&format!("{} rows: {} bad, {} without words{first}", count(read), count(bad), count(empty)));
}

fn part(name: &str) -> Result<Part> {
    Part::named(name).ok_or_else(|| anyhow!("expected train, validation or test"))
}

use std::io::{BufReader, BufWriter, ErrorKind, stdin, stdout};
use std::path::PathBuf;

use anyhow::{Error, Result, anyhow};
use bonfire_data::Error as DataError;
use bonfire_data::prepare::{Counted, Part, Rules, filter};
use bonfire_report::number;

use super::rule_args::{self, NumberArgs, ReadArgs, ScaleArgs, SplitArgs};
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
    read: ReadArgs,
    /// End at the first bad line instead of leaving it out
    #[arg(long)]
    strict: bool,
}

#[derive(Debug, clap::Args)]
pub(crate) struct ReduceArgs {
    #[command(flatten)]
    scale: ScaleArgs,
}

#[derive(Debug, clap::Args)]
pub(crate) struct CountArgs {
    #[command(flatten)]
    scale: ScaleArgs,
    #[command(flatten)]
    split: SplitArgs,
    /// The texts whose words are counted: train or all
    #[arg(long, value_name = "WHICH", default_value = "train", value_parser = rule_args::counted)]
    vocabulary: Counted,
    /// Add up counts, and write the most frequent words
    #[arg(long)]
    sum: bool,
    /// With --sum: so many of them
    #[arg(long, value_name = "N", default_value_t = Rules::default().words, requires = "sum")]
    words: usize,
}

#[derive(Debug, clap::Args)]
pub(crate) struct EncodeArgs {
    #[command(flatten)]
    scale: ScaleArgs,
    #[command(flatten)]
    split: SplitArgs,
    #[command(flatten)]
    numbers: NumberArgs,
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
    let rules = Rules::default();
    let done = match command {
        FilterCommand::Map(args) => {
            filter::map(&args.read.over(rules), args.strict, input, out).map(|counts| tell(&counts))
        }
        FilterCommand::Reduce(args) => filter::reduce(&args.scale.over(rules), input, out),
        FilterCommand::Count(args) => {
            let rules = Rules { vocabulary: args.vocabulary, words: args.words, ..rules };
            let rules = args.split.over(args.scale.over(rules));
            if args.sum { filter::sum(&rules, input, out) } else { filter::count(&rules, input, out) }
        }
        FilterCommand::Encode(args) => {
            let rules = args.numbers.over(args.split.over(args.scale.over(rules)));
            filter::encode(&rules, &args.vocabulary_file, args.part, input, out)
        }
    };
    done.map_err(|error| match error {
        DataError::Io { source, .. } if source.kind() == ErrorKind::BrokenPipe => Error::new(ReaderGone),
        error => Error::new(error),
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

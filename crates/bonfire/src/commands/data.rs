//! `bonfire data`: the data sets that have a name, and how to get them.

use crate::fetch::{self, Aside, COLLECTIONS, Collection, Origin};
use crate::terminal::print;
use anyhow::{Context, Result, bail, ensure};
use bonfire_data::source::{self, KNOWN, Known, known, nearest, user_folder};
use bonfire_data::{Source, conllu, digits, grammar, idx, reviews};
use bonfire_report::number;
use std::path::{Path, PathBuf};

/// List, make and get data sets.
#[derive(Debug, clap::Args)]
pub(crate) struct DataArgs {
    #[command(subcommand)]
    command: DataCommand,
}

#[derive(Debug, clap::Subcommand)]
enum DataCommand {
    /// Show the data sets that have a name, where they are, and what a model has to beat on them
    List,
    /// Write a made data set into a folder, in the formats of the field
    ///
    /// A run needs no such folder: `data: digits` makes the same samples in memory. This is for other programs, or to
    /// have a look.
    #[command(after_help = "Examples:\n  bonfire data make digits -o digits\n  \
                            bonfire data make grammar -o small --train 100 --test 10 --seed 7")]
    Make(MakeArgs),
    /// Get a public data set, from this machine or the web
    #[command(
        after_help = "Examples:\n  bonfire data get fashion-mnist\n  bonfire data get mnist --from ~/Downloads\n  \
                            bonfire data get cifar-10 --from https://mirror.example/cifar -o data/cifar-10\n\n\
                            A download that broke off is kept and gone on with by the same command. The certificates \
                            of authorities are those of the system, or of the file that SSL_CERT_FILE names."
    )]
    Get(GetArgs),
}

#[derive(Debug, clap::Args)]
struct MakeArgs {
    /// digits, grammar or reviews
    name: String,
    /// The folder to write; it must be new or empty
    #[arg(short, long, value_name = "DIR")]
    out: PathBuf,
    /// How many samples to train on
    #[arg(long, value_name = "N")]
    train: Option<usize>,
    /// How many samples to measure on
    #[arg(long, value_name = "N")]
    test: Option<usize>,
    /// Other samples of the same kind
    #[arg(long, value_name = "S", default_value_t = source::SEED)]
    seed: u64,
}

#[derive(Debug, clap::Args)]
struct GetArgs {
    /// fashion-mnist, mnist, cifar-10, cifar-100, svhn or ud-english-ewt
    name: String,
    /// The folder to write [default: the user's data folder, where runs look for it]
    #[arg(short, long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// A folder with the files, or an https:// or http:// address of one
    #[arg(long, value_name = "URL_OR_DIR")]
    from: Option<String>,
}

/// Does what `bonfire data` was asked.
pub(crate) fn run(args: DataArgs) -> Result<()> {
    match args.command {
        DataCommand::List => print(table(&KNOWN.iter().map(row).collect::<Vec<_>>()).trim_end()),
        DataCommand::Make(args) => {
            let source = make(&args)?;
            let count = |half: Option<usize>| number::count(half.unwrap_or_default() as u64);
            print(&format!(
                "{}: {} samples to train on, {} to measure on",
                args.name,
                count(source.train),
                count(source.test)
            ))?;
            print(&format!("use it in a run file as  data: {}", args.out.display()))
        }
        DataCommand::Get(args) => {
            let folder = get(&args)?;
            print(&format!("{} is in {}", args.name, folder.display()))?;
            let named = if args.out.is_some() { folder.display().to_string() } else { args.name };
            print(&format!("use it in a run file as  data: {named}"))
        }
    }
}

const HEADING: [&str; 6] = ["NAME", "WHAT IT IS", "TRAIN", "TEST", "WHERE", "TO BEAT"];

fn row(known: &Known) -> [String; 6] {
    let place = match source::found(known.name) {
        _ if known.made => "made when needed".to_owned(),
        Some(folder) => folder.display().to_string(),
        None => format!("bonfire data get {}", known.name),
    };
    let sizes = [known.train, known.test].map(|count| number::count(count as u64));
    let [train, test] = sizes;
    [known.name.to_owned(), known.description.to_owned(), train, test, place, baseline(known.name)]
}

/// What a model without depth or memory reaches, so that a user can tell learning from luck.
fn baseline(name: &str) -> String {
    match name {
        "digits" => format!("{:.1} % linear model", 100.0 * digits::LINEAR_ACCURACY),
        "grammar" => format!("{:.1} % usual tag of each word", 100.0 * usual_tag_accuracy()),
        "reviews" => format!("{:.1} % counting words, 2 classes", 100.0 * reviews::WORD_COUNT_ACCURACY),
        _ => String::new(),
    }
}

/// Counted afresh each time: it takes a few hundredths of a second and cannot be out of date.
fn usual_tag_accuracy() -> f64 {
    let source = Source::new("grammar");
    let train = grammar::make(source.train.unwrap_or_default(), source.seed);
    let test = grammar::make(source.test.unwrap_or_default(), source.test_seed());
    grammar::most_frequent_tag_accuracy(&train, &test)
}

/// Lines with columns as wide as their widest cell, numbers to the right.
fn table(rows: &[[String; 6]]) -> String {
    let heading = HEADING.map(str::to_owned);
    let lines: Vec<&[String; 6]> = std::iter::once(&heading).chain(rows).collect();
    let width = |column: usize| lines.iter().map(|line| line[column].chars().count()).max().unwrap_or(0);
    let widths: [usize; 6] = std::array::from_fn(width);
    let mut text = String::new();
    for line in lines {
        let cells: Vec<String> = line
            .iter()
            .zip(widths)
            .enumerate()
            .map(|(column, (cell, width))| cell_of(column, cell, width))
            .collect();
        text.push_str(cells.join("  ").trim_end());
        text.push('\n');
    }
    text
}

fn cell_of(column: usize, cell: &str, width: usize) -> String {
    let is_number = column == 2 || column == 3;
    if is_number { format!("{cell:>width$}") } else { format!("{cell:<width$}") }
}

/// Writes a made data set, and says which.
fn make(args: &MakeArgs) -> Result<Source> {
    if !known(&args.name).is_some_and(|known| known.made) {
        let made: Vec<&str> = KNOWN.iter().filter(|known| known.made).map(|known| known.name).collect();
        match known(&args.name) {
            Some(_) => bail!("{} is not made; get it with: bonfire data get {}", args.name, args.name),
            None => bail!("{:?} is not known; {} can be made", args.name, made.join(", ")),
        }
    }
    let default = Source::new(args.name.as_str());
    let source = Source {
        train: args.train.or(default.train),
        test: args.test.or(default.test),
        seed: args.seed,
        ..default
    };
    for (half, option) in [(source.train, "--train"), (source.test, "--test")] {
        ensure!(half != Some(0), "{option} is 0, it must be at least 1");
    }
    let aside = Aside::beside(&args.out)?;
    write(&source, &aside.path)?;
    aside.place(&args.out)?;
    Ok(source)
}

fn write(source: &Source, folder: &Path) -> Result<()> {
    let halves =
        [("train", "train", source.train, source.seed), ("test", "t10k", source.test, source.test_seed())];
    for (name, idx_name, count, seed) in halves {
        let count = count.unwrap_or_default();
        match source.name.as_str() {
            "digits" => {
                let path = |what: &str| folder.join(format!("{idx_name}-{what}-ubyte.gz"));
                idx::write(&digits::make(count, seed), &path("images-idx3"), &path("labels-idx1"))?;
            }
            "grammar" => conllu::write(&folder.join(format!("{name}.conllu")), &grammar::make(count, seed))?,
            _ => reviews::write(&folder.join(format!("{name}.jsonl")), &reviews::make(count, seed))?,
        }
    }
    Ok(())
}

/// Gets a public data set and returns the folder where it is.
fn get(args: &GetArgs) -> Result<PathBuf> {
    let collection = collection(&args.name)?;
    if args.out.is_none()
        && args.from.is_none()
        && let Some(folder) = source::found(collection.name)
    {
        return Ok(folder);
    }
    let origin = match (&args.from, source::found(collection.name)) {
        (Some(given), _) => Origin::parse(given)?,
        (None, Some(folder)) => Origin::Folder(folder),
        (None, None) => Origin::Web(collection.address.to_owned()),
    };
    let out = match &args.out {
        Some(folder) => folder.clone(),
        None => user_folder(collection.name)
            .context("neither HOME nor XDG_DATA_HOME is set; choose a folder with -o")?,
    };
    fetch::fetch(collection, &origin, &out)?;
    Ok(out)
}

fn collection(name: &str) -> Result<&'static Collection> {
    COLLECTIONS.iter().find(|collection| collection.name == name).ok_or_else(|| {
        let names: Vec<&str> = COLLECTIONS.iter().map(|collection| collection.name).collect();
        match known(name) {
            Some(_) => anyhow::anyhow!(
                "{name} needs no getting: a run makes it; to write it as files: bonfire data make {name} -o DIR"
            ),
            None => anyhow::anyhow!(
                "{name:?} is not known; {} can be got; did you mean {}?",
                names.join(", "),
                nearest(name)
            ),
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use bonfire_data::Samples;
    use clap::Parser;

    #[derive(Parser)]
    struct CommandLine {
        #[command(flatten)]
        data: DataArgs,
    }

    fn parse(line: &str) -> DataArgs {
        CommandLine::try_parse_from(std::iter::once("data").chain(line.split(' '))).unwrap().data
    }

    #[test]
    fn what_is_made_as_files_is_what_a_run_makes_in_memory() {
        for name in ["digits", "grammar", "reviews"] {
            let folder = tempfile::tempdir().unwrap();
            let out = folder.path().join("out");
            run(parse(&format!("make {name} -o {} --train 300 --test 100 --seed 5", out.display()))).unwrap();
            let read = Source::new(out.to_str().unwrap()).load().unwrap();
            let made =
                Source { train: Some(300), test: Some(100), seed: 5, ..Source::new(name) }.load().unwrap();
            assert_eq!((read.shape, read.train, read.test), (made.shape, made.train, made.test), "{name}");
        }
    }

    #[test]
    fn wrong_input_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("precious"), "").unwrap();
        let check = |line: &str, expect: &str| {
            let line = line.replace("HERE", folder.path().to_str().unwrap());
            let error = format!("{:#}", run(parse(&line)).unwrap_err());
            assert!(error.contains(expect), "{error:?} should say {expect:?}");
        };
        check("make digits -o HERE", "is not empty");
        check("make digits -o HERE/precious", "is no folder");
        check("make digits -o HERE/new --train 0", "--train is 0");
        check("make mnist -o HERE/new", "bonfire data get mnist");
        check("make digit -o HERE/new", "digits, grammar, reviews can be made");
        check("get digits", "bonfire data make digits -o DIR");
        check("get svhn --from HERE -o HERE/new", "holds neither train_32x32.mat nor");
        check("get cifar-10 --from HERE -o HERE/new", "holds neither data_batch_1.bin nor");
        check("get fashion", "did you mean fashion-mnist?");
        check("get mnist --from HERE -o HERE/new", "holds neither train-images-idx3-ubyte nor");
        check("get mnist --from HERE/nowhere", "neither a folder nor an address");
        check("get mnist --from http://127.0.0.1:9/ -o HERE", "is not empty");
    }

    #[test]
    fn the_table_is_aligned_and_names_the_baselines() {
        let text = table(&KNOWN.iter().map(row).collect::<Vec<_>>());
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), KNOWN.len() + 1);
        let column = lines[0].find("WHERE").unwrap();
        assert!(lines[1][column..].starts_with("made when needed  "), "{text}");
        assert!(lines[2].contains("8,000") && lines[2].contains("% usual tag"), "{text}");
    }

    #[test]
    fn made_digits_have_ten_classes_even_if_few() {
        let made = Source { train: Some(1), test: Some(5), ..Source::default() }.load().unwrap();
        assert!(matches!(&*made.train, Samples::Images(images) if images.labels.len() == 1));
        assert_eq!(made.classes.len(), 10);
    }
}

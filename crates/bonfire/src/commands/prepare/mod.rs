//! `bonfire prepare`: raw reviews become training data, on this machine, on hosts, or by filters on many.

mod bar;
mod cluster;
mod filters;
mod rule_args;

use std::path::PathBuf;
use std::thread;

use anyhow::{Context, Result, anyhow, bail};
use bonfire_data::prepare::{BadLine, Beginning, Format, Meter, Preparation, PrepareReport, is_busy};
use bonfire_report::number;
use bonfire_run::Settings;

use super::fleet_args::FleetArgs;
use crate::terminal::{print, say, warn};
use bar::Bar;
use filters::FilterCommand;
use rule_args::RuleArgs;

/// Make training data of raw reviews
///
/// Reads JSON lines and CSV, plain or packed by gzip or zstd: Amazon's and Yelp's reviews as they are, others by --text
/// and --label. Texts are cleaned, equal ones made one, split into parts by their hash, and their words numbered. What
/// was killed goes on when it is started again. With -i or -H the hosts of an inventory do it, which have the files
/// under the same path.
#[derive(Debug, clap::Args)]
#[command(
    args_conflicts_with_subcommands = true,
    subcommand_negates_reqs = true,
    after_help = "Examples:\n  \
                  bonfire prepare reviews.json.gz -o reviews\n  \
                  bonfire prepare raw/ more.csv --text review --label score --classes 2 -o reviews\n  \
                  bonfire prepare -i hosts.ini /nfs/raw -o reviews\n  \
                  zcat reviews.json.gz | bonfire prepare map | LC_ALL=C sort | bonfire prepare reduce > texts.tsv"
)]
pub(crate) struct PrepareArgs {
    #[command(subcommand)]
    filter: Option<FilterCommand>,
    /// Files, or folders of them
    #[arg(value_name = "INPUT", required = true)]
    inputs: Vec<PathBuf>,
    /// The folder to write; it appears when all of it is there
    #[arg(short, long, value_name = "DIR", required = true)]
    out: Option<PathBuf>,
    #[command(flatten)]
    rules: RuleArgs,
    /// native (for bonfire train), jsonl, hdf5 or, if this program was built with it, parquet
    #[arg(long, value_name = "FORMAT", default_value = "native", value_parser = format_of)]
    format: Format,
    /// End at the first bad line instead of leaving it out
    #[arg(long)]
    strict: bool,
    /// How much memory may be used; what does not fit goes to the disk
    #[arg(long, value_name = "SIZE", default_value = "512MB", value_parser = size)]
    memory: u64,
    /// How many threads work [default: one a core]
    #[arg(long, value_name = "N")]
    threads: Option<usize>,
    /// Say nothing on the way
    #[arg(short, long)]
    quiet: bool,
    #[command(flatten)]
    fleet: FleetArgs,
}

/// Prepares, or does one step as a filter.
pub(crate) fn run(args: PrepareArgs) -> Result<()> {
    match args.filter {
        Some(filter) => filters::run(filter),
        None => prepare(&args),
    }
}

fn prepare(args: &PrepareArgs) -> Result<()> {
    let cores = thread::available_parallelism().map_or(1, usize::from);
    let preparation = Preparation {
        inputs: args.inputs.clone(),
        out: args.out.clone().context("-o is missing")?,
        rules: args.rules.rules(),
        format: args.format,
        threads: args.threads.unwrap_or(cores),
        memory: args.memory,
        is_strict: args.strict,
    };
    if preparation.threads == 0 {
        bail!("--threads is 0, it must be at least 1");
    }
    if args.fleet.names_hosts() {
        return cluster::prepare(&preparation, &args.fleet, args.quiet);
    }
    let report = watched(&preparation, args.quiet)?;
    tell(&report, &preparation)
}

/// Prepares the raw reviews that a run is to train on, if that was not done before: a run that loads them would do so
/// without a word. What another process is at, the run waits for.
pub(crate) fn beforehand(settings: &Settings, is_quiet: bool) -> Result<()> {
    let Some(raw) = &settings.file.data.prepare else { return Ok(()) };
    let preparation = raw.preparation().map_err(|error| settings.wrong("data", error))?;
    if preparation.out.is_dir() {
        return Ok(());
    }
    match watched(&preparation, is_quiet) {
        Err(error) if error.downcast_ref().is_some_and(is_busy) => Ok(()),
        Err(error) => Err(settings.wrong("data", format!("{error:#}")).into()),
        Ok(_) => Ok(()),
    }
}

/// Prepares while a bar shows how far it is.
fn watched(preparation: &Preparation, is_quiet: bool) -> Result<PrepareReport> {
    let meter = Meter::default();
    let begin = |beginning| match beginning {
        Beginning::New => {}
        Beginning::GoesOn => say("going on from what was done before"),
        Beginning::Anew => say("what was done before is for other inputs or options; it begins anew"),
    };
    let bar = Bar::new(&meter, is_quiet);
    let report = thread::scope(|scope| {
        let watch = scope.spawn(|| bar.run());
        let report = preparation.run(&meter, begin);
        bar.end();
        let _ = watch.join();
        report
    })?;
    Ok(report)
}

/// So many bad lines are said; `prepare.json` names more.
const SAID_LINES: usize = 10;

fn tell(report: &PrepareReport, preparation: &Preparation) -> Result<()> {
    for BadLine { file, line, reason } in report.bad_lines.iter().take(SAID_LINES) {
        warn(format!("{}:{line}: {reason}", file.display()));
    }
    if report.bad > SAID_LINES as u64 {
        warn(format!("{} more bad lines were left out", number::count(report.bad - SAID_LINES as u64)));
    }
    let count = number::count;
    print(&format!(
        "{} rows: {} bad, {} without words, {} duplicates",
        count(report.read),
        count(report.bad),
        count(report.empty),
        count(report.duplicates)
    ))?;
    print(&format!(
        "{} texts: {} to train on, {} to validate, {} to test; {} words",
        count(report.texts),
        count(report.train),
        count(report.validation),
        count(report.test),
        count(report.words)
    ))?;
    print(&format!("{:.1} s, {:.0} MB/s", report.seconds, report.mb_per_s))?;
    let out = preparation.out.display();
    match report.format {
        Format::Native => print(&format!("use it in a run file as  data: {out}")),
        Format::Jsonl | Format::Hdf5 | Format::Parquet => print(&format!("it is in {out}")),
    }
}

fn format_of(name: &str) -> Result<Format> {
    match name {
        "native" => Ok(Format::Native),
        "jsonl" => Ok(Format::Jsonl),
        "hdf5" => Ok(Format::Hdf5),
        "parquet" if cfg!(feature = "parquet") => Ok(Format::Parquet),
        "parquet" => Err(anyhow!(
            "this program writes no Parquet: build it with `--features parquet`; or jsonl becomes it, such as by: \
             duckdb -c \"COPY (FROM 'train.jsonl') TO 'train.parquet'\""
        )),
        _ => Err(anyhow!("expected native, jsonl, hdf5 or parquet")),
    }
}

const UNITS: [(&str, f64); 8] = [
    ("KiB", 1024.0),
    ("MiB", 1048576.0),
    ("GiB", 1073741824.0),
    ("KB", 1e3),
    ("MB", 1e6),
    ("GB", 1e9),
    ("TB", 1e12),
    ("B", 1.0),
];

/// A size such as 512MB.
fn size(given: &str) -> Result<u64> {
    let lower = given.trim().to_lowercase();
    let found =
        UNITS.iter().find_map(|(unit, bytes)| Some((lower.strip_suffix(&unit.to_lowercase())?, *bytes)));
    let (number, unit) = found.unwrap_or((&lower, 1.0));
    match number.trim().parse::<f64>() {
        Ok(number) if number >= 0.0 && number * unit < 1e18 => Ok((number * unit) as u64),
        _ => Err(anyhow!("expected a size such as 512MB or 2GB")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_units() {
        let check = |given: &str, expect: Option<u64>| assert_eq!(size(given).ok(), expect, "{given}");
        check("512MB", Some(512_000_000));
        check("512mb", Some(512_000_000));
        check("1.5 GB", Some(1_500_000_000));
        check("1GiB", Some(1 << 30));
        check("1000", Some(1000));
        for wrong in ["", "MB", "-1MB", "many", "inf", "1e30GB"] {
            check(wrong, None);
        }
    }
}

use anyhow::Result;
use bonfire_cluster::bench::{self, StepSpeed};
use bonfire_cluster::learn::ModelSpec;
use bonfire_cluster::report::number;
use bonfire_cluster::{Overrides, Settings};

/// Measure how fast this machine is.
#[derive(Debug, clap::Args)]
pub struct BenchArgs {
    #[command(subcommand)]
    command: BenchCommand,
}

#[derive(Debug, clap::Subcommand)]
enum BenchCommand {
    /// A training step: forward, backward and update on one fixed random batch
    #[command(
        after_help = "Examples:\n  bonfire bench step\n  bonfire bench step --model lenet5 --threads 2 --json"
    )]
    Step(StepArgs),
}

#[derive(Debug, clap::Args)]
struct StepArgs {
    /// A model's name, or all
    #[arg(long, default_value = "all")]
    model: String,
    /// Over how many threads the batch is split
    #[arg(long, value_name = "N", default_value_t = 1)]
    threads: usize,
    /// How many samples a step has [default: the model's own]
    #[arg(long, value_name = "N")]
    batch: Option<usize>,
    /// How long to measure
    #[arg(long, default_value_t = 3.0)]
    seconds: f64,
    /// Print every result as a line of JSON
    #[arg(long)]
    json: bool,
}

pub fn run(args: &BenchArgs) -> Result<()> {
    let BenchCommand::Step(args) = &args.command;
    let names = if args.model == "all" { ModelSpec::NAMES.to_vec() } else { vec![args.model.as_str()] };
    let specs: Vec<ModelSpec> = names.into_iter().map(spec).collect::<Result<_>>()?;
    for spec in specs {
        print(&bench::step(&spec, args.batch, args.threads, args.seconds)?, args.json);
    }
    Ok(())
}

/// The model of a name, with the same errors that a run file would get.
fn spec(name: &str) -> Result<ModelSpec> {
    let set = [format!("model={name}")];
    Ok(Settings::read("", "", &Overrides { set: &set, workers: None }, 1)?.file.model)
}

#[expect(clippy::print_stdout, reason = "the results of the command")]
fn print(speed: &StepSpeed, json: bool) {
    if json {
        println!("{}", serde_json::to_string(speed).unwrap_or_default());
    } else {
        println!(
            "{:10} batch {:>4}  threads {:>2}  {:>9.3} ms a step  {:>11} samples/s  {:>10} parameters",
            speed.model,
            speed.batch,
            speed.threads,
            speed.ms_per_step,
            number::count(speed.samples_per_s as u64),
            number::count(speed.params as u64),
        );
    }
}

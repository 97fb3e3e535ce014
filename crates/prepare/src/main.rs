//! `bonfire-prepare`: the preparation of `bonfire prepare` by many machines, on Ballista.
//!
//! One query does what takes long ([`query`]): executors read shares of the input and clean their texts, texts of one
//! hash meet on one executor, which sorts them and makes equal ones one. What comes of it are sorted pieces. Whoever
//! submits takes them as sorted runs, and goes on as one machine does: so the result is that of `bonfire prepare`, to
//! the last byte.

mod arguments;
mod executor;
mod lead;
mod query;
mod scheduler;
mod submit;

use std::process::ExitCode;

use anyhow::Result;
use clap::Parser;

/// Prepares raw reviews on a cluster: one scheduler, executors on many machines, and one that submits
///
/// Nothing is encrypted and nobody is asked who they are: whoever reaches a scheduler or an executor can have it read
/// files. Use it in a network of your own.
#[derive(Debug, Parser)]
#[command(version)]
enum Command {
    /// Deal out the work to executors
    Scheduler(scheduler::SchedulerArgs),
    /// Work for a scheduler
    Executor(executor::ExecutorArgs),
    /// Prepare files that all executors have under the same path
    Submit(submit::SubmitArgs),
    /// Be the scheduler and submit, for `bonfire prepare -i`
    #[command(hide = true)]
    Lead(lead::LeadArgs),
}

fn main() -> ExitCode {
    match run(Command::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            // What is wrong with input or options is 2, as everywhere in bonfire; what went wrong on the way is 1.
            ExitCode::from(if error.is::<bonfire_data::Error>() { 2 } else { 1 })
        }
    }
}

fn run(command: Command) -> Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    match command {
        Command::Scheduler(args) => runtime.block_on(scheduler::run(args)),
        Command::Executor(args) => runtime.block_on(executor::run(args)),
        Command::Submit(args) => submit::run(&args, &runtime),
        Command::Lead(args) => lead::run(&args, &runtime),
    }
}

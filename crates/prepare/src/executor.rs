//! Does tasks.

use std::net::{IpAddr, TcpListener};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use ballista_core::config::TaskSchedulingPolicy;
use ballista_executor::executor_process::{ExecutorProcessConfig, start_executor_process};
use ballista_executor::health::ExecutorHealth;

use tokio::net::TcpStream;

use crate::arguments;
use crate::query::ReviewsCodec;

#[derive(Debug, clap::Args)]
pub(crate) struct ExecutorArgs {
    /// Where the scheduler is
    #[arg(long, value_name = "HOST:PORT", value_parser = arguments::address, required_unless_present = "ticket_file")]
    scheduler: Option<(String, u16)>,
    /// A file that says where the scheduler is
    #[arg(long, value_name = "FILE", conflicts_with = "scheduler")]
    ticket_file: Option<PathBuf>,
    /// The address to listen at
    #[arg(long, value_name = "IP", default_value = "127.0.0.1")]
    listen: IpAddr,
    /// The name or address by which others reach this machine [default: that by which it reaches the scheduler]
    #[arg(long, value_name = "HOST")]
    address: Option<String>,
    /// The port to listen at; 0 takes one that is free
    #[arg(long, value_name = "PORT", default_value_t = 0)]
    port: u16,
    /// How many tasks are done at the same time [default: one a core]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    cores: Option<u16>,
    /// How much memory all tasks together may sort in; what does not fit goes to the disk [default: 128MB a core]
    #[arg(long, value_name = "SIZE", value_parser = arguments::size)]
    memory_pool_size: Option<u64>,
    /// Where to keep what is passed on; all of it is removed at the end [default: a folder for temporary files]
    #[arg(long, value_name = "DIR")]
    work_dir: Option<PathBuf>,
}

/// Less memory for a task, and DataFusion cannot even begin to sort.
const LEAST_MEMORY: u64 = 64_000_000;

/// What a task may sort in, if nobody says otherwise.
const MEMORY_OF_CORE: u64 = 128_000_000;

/// Without a scheduler for so long, an executor ends.
const PATIENCE: Duration = Duration::from_secs(60);

pub(crate) async fn run(args: ExecutorArgs) -> Result<()> {
    let cores =
        args.cores.map_or_else(|| std::thread::available_parallelism().map_or(1, usize::from), usize::from);
    let (least, usual) = (LEAST_MEMORY * cores as u64, MEMORY_OF_CORE * cores as u64);
    let memory = args.memory_pool_size.unwrap_or(usual);
    if memory < least {
        bail!("--memory-pool-size is less than {} MB, which {cores} tasks at a time need", least / 1_000_000);
    }
    let parent = args.work_dir.unwrap_or_else(std::env::temp_dir);
    std::fs::create_dir_all(&parent).with_context(|| format!("{} cannot be made", parent.display()))?;
    let folder = tempfile::Builder::new().prefix("bonfire-executor-").tempdir_in(&parent);
    let folder = folder.with_context(|| format!("{} cannot be written", parent.display()))?;
    let port = free_port(args.listen, args.port)?;
    let (scheduler_host, scheduler_port) = match (args.scheduler, &args.ticket_file) {
        (Some(address), _) => address,
        (None, Some(path)) => {
            let ticket = std::fs::read_to_string(path).with_context(|| path.display().to_string())?;
            arguments::address(ticket.trim()).with_context(|| path.display().to_string())?
        }
        (None, None) => bail!("where is the scheduler?"),
    };
    let address = match args.address {
        Some(address) => address,
        None => own_address(&scheduler_host, scheduler_port).await?,
    };
    let health = ExecutorHealth::new();
    let config = ExecutorProcessConfig {
        bind_host: args.listen.to_string(),
        external_host: Some(address.clone()),
        port,
        scheduler_host,
        scheduler_port,
        scheduler_connect_timeout_seconds: PATIENCE.as_secs() as u16,
        vcores: cores,
        task_scheduling_policy: TaskSchedulingPolicy::PullStaged,
        work_dir: Some(folder.path().display().to_string()),
        memory_pool_size: Some(memory),
        override_physical_codec: Some(Arc::new(ReviewsCodec::default())),
        health: health.clone(),
        ..ExecutorProcessConfig::default()
    };
    println!("executor at {address}:{port}");
    let ended = tokio::select! {
        ended = start_executor_process(Arc::new(config)) => ended.map_err(Into::into),
        error = scheduler_lost(&health) => Err(error),
    };
    folder.close().context("what was passed on cannot be removed")?;
    ended
}

/// The address by which this machine reaches the scheduler, once it does: by that others reach it, too.
async fn own_address(host: &str, port: u16) -> Result<String> {
    let begun = Instant::now();
    loop {
        match TcpStream::connect((host, port)).await {
            Ok(stream) => return Ok(stream.local_addr()?.ip().to_string()),
            Err(error) if begun.elapsed() > PATIENCE => {
                return Err(error).with_context(|| format!("no scheduler is reached at {host}:{port}"));
            }
            Err(_) => tokio::time::sleep(Duration::from_millis(200)).await,
        }
    }
}

/// The port, or one that is free. Somebody else may take it before the executor does, which then says so and ends.
fn free_port(listen: IpAddr, port: u16) -> Result<u16> {
    let listener = TcpListener::bind((listen, port))
        .with_context(|| format!("{listen}:{port} cannot be listened at"))?;
    Ok(listener.local_addr()?.port())
}

/// Ends when the scheduler was there and then was not for too long. Until it is there for the first time, the executor
/// itself waits no longer than that.
async fn scheduler_lost(health: &ExecutorHealth) -> anyhow::Error {
    let (mut seen, mut was_there) = (Instant::now(), false);
    loop {
        tokio::time::sleep(Duration::from_secs(1)).await;
        if health.is_ready() {
            (seen, was_there) = (Instant::now(), true);
        } else if was_there && seen.elapsed() > PATIENCE {
            return anyhow::anyhow!("the scheduler is gone");
        }
    }
}

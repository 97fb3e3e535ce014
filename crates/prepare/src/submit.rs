//! Has the query done, and makes of its lines what `bonfire prepare` makes of its own.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use ballista_core::execution_plans::execute_physical_plan;
use ballista_core::extension::SessionConfigExt;
use bonfire_data::prepare::{BadLine, Beginning, Collector, Format, InputShare, Meter, Preparation, Rules};
use datafusion::arrow::array::{AsArray, RecordBatch};
use datafusion::arrow::datatypes::Int64Type;
use datafusion::prelude::SessionConfig;
use datafusion_proto::protobuf::PhysicalPlanNode;
use futures::StreamExt;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::runtime::Runtime;

use crate::arguments;
use crate::query::{ReviewsCodec, query};

#[derive(Debug, clap::Args)]
pub(crate) struct SubmitArgs {
    #[command(flatten)]
    what: WhatArgs,
    /// The folder to write; it appears when all of it is there
    #[arg(short, long, value_name = "DIR")]
    out: PathBuf,
    /// Where the scheduler is
    #[arg(long, value_name = "HOST:PORT", value_parser = arguments::address)]
    scheduler: (String, u16),
}

/// What is to be prepared, and how.
#[derive(Debug, clap::Args)]
pub(crate) struct WhatArgs {
    /// Files, or folders of them
    #[arg(value_name = "INPUT", required = true)]
    inputs: Vec<PathBuf>,
    /// Rules that differ from the usual ones, as JSON with the keys of `data: {prepare: …}` in a run file:
    /// '{"words": 20000}'
    #[arg(long, value_name = "JSON", default_value = "{}", value_parser = rules)]
    rules: Rules,
    /// native (for bonfire train), jsonl, hdf5 or parquet
    #[arg(long, value_name = "FORMAT", default_value = "native", value_parser = format_of)]
    format: Format,
    /// End at the first bad line instead of leaving it out
    #[arg(long)]
    strict: bool,
    /// How much memory may be used here; executors have their own
    #[arg(long, value_name = "SIZE", default_value = "512MB", value_parser = arguments::size)]
    memory: u64,
    /// In how many pieces executors sort the texts [default: one for 256 MB of input, but at least 4]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=256))]
    pieces: Option<u64>,
    /// How many seconds to wait for the first executor
    #[arg(long, value_name = "SECONDS", default_value_t = 60)]
    patience: u64,
}

/// The texts come in pieces of about so many bytes of input.
const PIECE_BYTES: u64 = 256_000_000;
const PIECES: std::ops::RangeInclusive<u64> = 4..=256;

/// At least so many shares of the input, so that all executors have something to do.
const LEAST_SHARES: usize = 64;

/// What a task keeps in memory of what it passes on, besides what it sorts.
const PASSED_ON_BYTES: &str = "67108864";

/// So often the query is begun anew, if executors were lost that had finished lines of it.
const TRIES: usize = 3;

pub(crate) fn run(args: &SubmitArgs, runtime: &Runtime) -> Result<()> {
    args.what.prepare(&args.out, &args.scheduler, runtime, &mut |line| println!("{line}"))
}

impl WhatArgs {
    /// Refuses what can be seen to be wrong before anybody works.
    pub(crate) fn check(&self) -> Result<(), bonfire_data::Error> {
        self.rules.check()?;
        for path in &self.inputs {
            std::fs::metadata(path).map_err(bonfire_data::Error::io(path))?;
        }
        Ok(())
    }

    /// Prepares, and tells of it.
    pub(crate) fn prepare(
        &self,
        out: &Path,
        scheduler: &(String, u16),
        runtime: &Runtime,
        tell: &mut dyn FnMut(&str),
    ) -> Result<()> {
        let preparation = Preparation {
            inputs: self.inputs.iter().map(std::path::absolute).collect::<Result<_, _>>()?,
            out: out.to_owned(),
            rules: self.rules.clone(),
            format: self.format,
            threads: std::thread::available_parallelism().map_or(1, usize::from),
            memory: self.memory,
            is_strict: self.strict,
        };
        let begin = |beginning| match beginning {
            Beginning::New => {}
            Beginning::GoesOn => eprintln!("going on from what was done before"),
            Beginning::Anew => {
                eprintln!("what was done before is for other inputs or options; it begins anew")
            }
        };
        let patience = Duration::from_secs(self.patience);
        let cluster = Cluster { scheduler, patience, pieces: self.pieces };
        let report =
            preparation.run_elsewhere(&Meter::default(), begin, LEAST_SHARES, |shares, collector| {
                runtime.block_on(cluster.map(&self.rules, &shares, collector, tell))
            })?;
        for BadLine { file, line, reason } in &report.bad_lines {
            eprintln!("warning: {}:{line}: {reason}", file.display());
        }
        tell(&format!(
            "{} rows: {} bad, {} without words, {} duplicates",
            report.read, report.bad, report.empty, report.duplicates
        ));
        tell(&format!(
            "{} texts: {} to train on, {} to validate, {} to test; {} words",
            report.texts, report.train, report.validation, report.test, report.words
        ));
        tell(&format!("{:.1} s, {:.0} MB/s", report.seconds, report.mb_per_s));
        Ok(())
    }
}

/// The machines that work.
struct Cluster<'a> {
    scheduler: &'a (String, u16),
    patience: Duration,
    /// None for as many as suit the input.
    pieces: Option<u64>,
}

impl Cluster<'_> {
    /// Has shares mapped, and hands on all lines.
    async fn map(
        &self,
        rules: &Rules,
        shares: &[InputShare],
        collector: &mut Collector<'_>,
        tell: &mut dyn FnMut(&str),
    ) -> Result<()> {
        self.await_executors().await?;
        tell("executors are there");
        let bytes: u64 = shares.iter().map(InputShare::bytes).sum();
        let usual = (bytes / PIECE_BYTES).clamp(*PIECES.start(), *PIECES.end());
        let pieces = self.pieces.unwrap_or(usual) as usize;
        tell(&format!("{} shares of the input, {pieces} pieces of texts", shares.len()));
        let mut tries = 1;
        loop {
            let failure = match self.ask(rules, shares, pieces, collector).await {
                Ok(()) => return Ok(()),
                Err(failure) => failure,
            };
            if !failure.had_lines || tries == TRIES {
                return Err(failure.error);
            }
            eprintln!(
                "warning: texts went astray with an executor, and are asked for again: {:#}",
                failure.error
            );
            tries += 1;
            collector.forget();
        }
    }

    async fn ask(
        &self,
        rules: &Rules,
        shares: &[InputShare],
        pieces: usize,
        collector: &mut Collector<'_>,
    ) -> Result<(), Failure> {
        let failed = |had_lines| move |error: anyhow::Error| Failure { error, had_lines };
        let mut lines = self.submit(rules, shares, pieces).await.map_err(failed(false))?;
        while let Some(batch) = lines.next().await {
            // The query is done by then; what is missing is what somebody had and has no more.
            let batch = batch.context("texts do not come back from the executors").map_err(failed(true))?;
            collect(&batch, collector).map_err(failed(false))?;
        }
        // When the last stage begins anew, because an executor was lost, Ballista 55 hands out the pieces that were
        // done before it a second time.
        if !collector.is_whole() {
            let error = anyhow::anyhow!("texts came twice, or not at all, from the executors");
            return Err(failed(true)(error));
        }
        Ok(())
    }

    async fn submit(
        &self,
        rules: &Rules,
        shares: &[InputShare],
        pieces: usize,
    ) -> Result<datafusion::execution::SendableRecordBatchStream> {
        let (host, port) = self.scheduler;
        let config = SessionConfig::new_with_ballista()
            .with_ballista_job_name("bonfire-prepare")
            .set_str("ballista.shuffle.sort_based.memory_limit_per_task_bytes", PASSED_ON_BYTES);
        let plan = query(rules.clone(), shares, pieces)?;
        let ballista = config.ballista_config();
        let session = format!("prepare-{}", std::process::id());
        let url = format!("http://{host}:{port}");
        let codec = ReviewsCodec::default();
        let lines = execute_physical_plan::<PhysicalPlanNode>(url, &ballista, plan, &codec, session, config);
        lines.await.context("the executors did not prepare the texts")
    }

    /// Waits until the scheduler has an executor.
    async fn await_executors(&self) -> Result<()> {
        let begun = Instant::now();
        let (host, port) = self.scheduler;
        loop {
            let said = self.ready().await;
            if matches!(said, Ok(true)) {
                return Ok(());
            }
            if begun.elapsed() > self.patience {
                match said {
                    Ok(_) => bail!("the scheduler at {host}:{port} has no executor"),
                    Err(error) => {
                        return Err(error.context(format!("no scheduler is reached at {host}:{port}")));
                    }
                }
            }
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
    }

    /// Whether the scheduler has an executor: it answers that over HTTP at the same port.
    async fn ready(&self) -> Result<bool> {
        let ask = async {
            let (host, port) = self.scheduler;
            let mut stream = TcpStream::connect((host.as_str(), *port)).await?;
            let request = format!("GET /readyz HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n");
            stream.write_all(request.as_bytes()).await?;
            let mut answer = Vec::new();
            stream.take(4096).read_to_end(&mut answer).await?;
            Ok(answer.starts_with(b"HTTP/1.1 200"))
        };
        tokio::time::timeout(Duration::from_secs(5), ask).await.context("it does not answer")?
    }
}

/// Why a query gave nothing.
struct Failure {
    error: anyhow::Error,
    /// Whether it was done, and its lines were lost afterwards.
    had_lines: bool,
}

fn collect(batch: &RecordBatch, collector: &mut Collector<'_>) -> Result<()> {
    let lines = batch.column(0).as_string_opt::<i32>().context("lines are expected from executors")?;
    let counts =
        batch.column(1).as_primitive_opt::<Int64Type>().context("counts are expected from executors")?;
    for (line, &count) in lines.iter().zip(counts.values()) {
        collector.add(line.unwrap_or_default().as_bytes(), count as u64)?;
    }
    Ok(())
}

fn rules(given: &str) -> Result<Rules> {
    Ok(serde_json::from_str(given)?)
}

fn format_of(name: &str) -> Result<Format> {
    match name {
        "native" => Ok(Format::Native),
        "jsonl" => Ok(Format::Jsonl),
        "hdf5" => Ok(Format::Hdf5),
        "parquet" => Ok(Format::Parquet),
        _ => bail!("expected native, jsonl, hdf5 or parquet"),
    }
}
